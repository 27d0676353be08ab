#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: scripts/install-deps.sh demo|check|check-all
# Installs what the make target of that name needs and this machine lacks, with apt on Debian and its relatives (as root, or by
# sudo without a password). Where it can't, it says what to install and exits with 1. Says nothing when everything is there.
set -eu

level=${1:-check}
case $level in
demo) rank=1 ;;
check) rank=2 ;;
check-all) rank=3 ;;
*)
    echo "usage: $0 demo|check|check-all" >&2
    exit 2
    ;;
esac

have() { command -v "$1" >/dev/null 2>&1; }
header() { echo "#include <$1>" | cc -E - >/dev/null 2>&1; }
cmake_is_new() {
    version=$(cmake --version 2>/dev/null | sed -n '1s/.* //p')
    [ "$(printf '3.25\n%s\n' "$version" | sort -V | head -n 1)" = 3.25 ]
}
module() { have pkg-config && pkg-config --exists "$1"; }
python_has() { /usr/bin/python3 -c "import $1" 2>/dev/null; }
clang_links() { echo 'int main(void) { return 0; }' | clang "$@" -x c - -o /dev/null 2>/dev/null; }

missing=
# need RANK PACKAGE PROBE...: the Debian package that makes the probe succeed.
need() {
    if [ "$1" -le "$rank" ]; then
        package=$2
        shift 2
        "$@" || missing="$missing $package"
    fi
}
need 1 gcc have cc
need 1 libc6-dev header stdio.h
need 1 cmake cmake_is_new
need 1 ninja-build have ninja
need 1 pkg-config have pkg-config
need 1 libjansson-dev module jansson
need 1 libzip-dev module libzip
need 1 libpcre2-dev module libpcre2-32
need 1 libutf8proc-dev module libutf8proc
need 2 g++ have c++
need 2 libcmocka-dev module cmocka
need 2 bats have bats
need 2 python3-numpy python_has numpy
need 2 python3-dev test -e "$(/usr/bin/python3 -c 'import sysconfig; print(sysconfig.get_path("include"))' 2>/dev/null)/Python.h"
need 2 libsimde-dev header simde/x86/avx512.h
need 3 clang have clang
need 3 libclang-rt-14-dev clang_links -fsanitize=thread
need 3 libomp-dev clang_links -fopenmp
need 3 gcc-aarch64-linux-gnu have aarch64-linux-gnu-gcc
need 3 libc6-dev-arm64-cross test -e /usr/aarch64-linux-gnu/include/stdio.h
need 3 qemu-user have qemu-aarch64
need 3 python3-venv python_has ensurepip
need 3 chromium have chromium
need 3 chromium-driver have chromedriver
need 3 python3-selenium python_has selenium
need 3 fonts-noto-cjk test -e /usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
    as_root=
elif have sudo && sudo -n true 2>/dev/null; then
    as_root="sudo -n"
else
    as_root=none
fi
if ! have apt-get || [ "$as_root" = none ]; then
    {
        echo "make $level needs programs or libraries that are not here. Their Debian packages:"
        echo "   $missing"
        if have apt-get; then
            echo "Install them, then run make $level again:"
            echo "    sudo apt-get install$missing"
        else
            echo "Install what your system calls them, then run make $level again."
        fi
    } >&2
    exit 1
fi
echo "installing:$missing"
apt() { $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq "$@" >&2; }
apt update
# shellcheck disable=SC2086 # a list of words
apt install -y --no-install-recommends $missing
