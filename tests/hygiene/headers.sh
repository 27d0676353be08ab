#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: headers.sh INCLUDE COMPILER      each public header compiles alone, without a warning
set -eu
include=$1 compiler=$2
case $compiler in
*++) language="c++ -std=c++17" ;;
*) language="c -std=c17 -Wstrict-prototypes" ;;
esac
count=0
for header in "$include"/attn/*.h; do
    # shellcheck disable=SC2086 # a list of flags
    echo "#include <attn/$(basename "$header")>" |
        "$compiler" -x $language -Wall -Wextra -Wpedantic -Wshadow -Wundef -Werror -fsyntax-only -I "$include" -
    count=$((count + 1))
done
[ "$count" -gt 0 ]
