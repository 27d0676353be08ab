#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds every preset below and tests all of them in one ctest run; its summary is the last thing printed.
# With CI=true a test that was skipped although it could have run fails the whole.
set -eu
cd "$(dirname "$0")/.."
presets="release asan tsan clang serial aarch64 fuzz"

mkdir -p build
: >build/CTestTestfile.cmake
for preset in $presets; do
    echo "== $preset"
    cmake --preset "$preset" >build/configure.log 2>&1 || { cat build/configure.log >&2; exit 1; }
    cmake --build --preset "$preset"
    # One run over all builds: the names of tests, and of fixtures, of which a test needs two at most, begin with their build's. CMake
    # writes these files again at the next configure.
    find "build/$preset" -name CTestTestfile.cmake -exec sed -i -E \
        -e "s/^(add_test|set_tests_properties)\((\[=\[|\")($preset: )?/\1(\2$preset: /" \
        -e "s/(FIXTURES_(SETUP|REQUIRED|CLEANUP)) \"($preset-)?/\1 \"$preset-/g" \
        -e "s/(FIXTURES_REQUIRED \"[^\";]*;)($preset-)?([^\";]*)\"/\1$preset-\3\"/g" {} +
    echo "subdirs(\"$preset\")" >>build/CTestTestfile.cmake
done

# As in the test presets. Threads that wait must not take the CPU from other tests, least of all under qemu. ThreadSanitizer cannot look
# into clang's OpenMP runtime, which is not instrumented; libarcher tells it what the runtime synchronises.
OMP_WAIT_POLICY=passive
TSAN_OPTIONS=ignore_noninstrumented_modules=1
OMP_TOOL_LIBRARIES=$(clang -print-resource-dir)/../../libarcher.so
export OMP_WAIT_POLICY TSAN_OPTIONS OMP_TOOL_LIBRARIES
status=0
ctest --test-dir build --output-on-failure --timeout 900 --output-junit all.xml || status=$?
[ "${CI:-}" != true ] || python3 scripts/check-skips.py build/all.xml || status=1
exit $status
