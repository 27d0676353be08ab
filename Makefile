# SPDX-License-Identifier: Apache-2.0
# Short names for what CMake does; CMakePresets.json has the builds. Everything is written below build/.
PREFIX ?= /usr/local
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(shell nproc 2>/dev/null || echo 2)
export CTEST_PARALLEL_LEVEL ?= $(CMAKE_BUILD_PARALLEL_LEVEL)
# For new build folders only; an existing one keeps its generator.
export CMAKE_GENERATOR ?= $(if $(shell command -v ninja 2>/dev/null),Ninja,Unix Makefiles)

.NOTPARALLEL:
.PHONY: help demo check check-all bench install clean build deps-demo deps-check deps-check-all

help:
	@echo 'make demo       build, then compute attention on the files in examples/'
	@echo 'make check      build and test, at most 10 minutes on two cores'
	@echo 'make check-all  the same with sanitizers, clang, qemu, fuzzers and other programs as oracles; about 50 minutes'
	@echo 'make bench      GFLOP/s beside the peak of this machine, measured in the same run'
	@echo 'make install    into PREFIX ($(PREFIX)); DESTDIR is honoured'
	@echo 'make clean      remove build/'
	@echo 'The first three install what is missing with apt, or say what to install.'

demo: deps-demo build
	scripts/demo.sh build/release

check: deps-check build
	ctest --preset release

check-all: deps-check-all
	scripts/check-all.sh

bench: deps-demo build
	build/release/bin/attn bench

install: deps-demo build
	cmake --install build/release --prefix $(PREFIX)

# Only check needs cmocka.
demo bench install: options = -D ATTN_TESTS=OFF
build:
	@cmake --preset release $(options) >build/configure.log 2>&1 || { cat build/configure.log >&2; exit 1; }
	@cmake --build --preset release

deps-demo deps-check deps-check-all: deps-%:
	@scripts/install-deps.sh $*
	@mkdir -p build

clean:
	rm -rf build
