#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: symbols.sh BUILD STAGE INCLUDE
# The shared libraries export what the headers declare (libattn: and what it lends to libattn_model and libattn_load) and nothing else;
# every global name of the static ones begins with attn_;
# an object compiled for one ISA level offers its const table only and calls memory functions and two of the core, so that no code of
# a level that this CPU lacks can be reached except through a table.
set -eu
build=$1 stage=$2 include=$3
failed=0

fail() {
    printf '%s\n' "$*" >&2
    failed=1
}
# What libattn lends to libattn_model: in headers that are not installed.
lent() {
    grep -hv '^#define' "$include"/../src/*/*.h | tr '\n' ' ' | grep -oE 'ATTN_PRIVATE [^;(]*\(' |
        grep -oE 'attn_[a-z0-9_]+ *\($' | tr -d ' ('
}
declared() { cat "$@" | tr '\n' ' ' | grep -oE 'ATTN_API [^;(]*\(' | grep -oE 'attn_[a-z0-9_]+ *\($' | tr -d ' (' | sort; }

for library in attn attn_io attn_model attn_text attn_load; do
    so=$(find "$stage/shared" -name lib$library.so)
    exported=$(nm -D --defined-only "$so" | awk '{print $3}' | sort)
    headers=$include/attn/$library.h
    [ $library != attn_load ] || headers="$headers $include/attn/attn_generate.h $include/attn/attn_seq2seq.h"
    # shellcheck disable=SC2086 # a list of files
    said=$({ declared $headers; [ $library != attn ] || lent; } | sort)
    [ "$exported" = "$said" ] || fail "lib$library.so and $library.h differ:
$(echo "$said" | { echo "$exported" | diff - /dev/fd/3; } 3<&0 || true)"

    a=$(find "$stage/static" -name lib$library.a)
    strangers=$(nm -g --defined-only "$a" | awk 'NF == 3 && $3 !~ /^attn_/ {print $3}')
    [ -z "$strangers" ] || fail "lib$library.a has global names that do not begin with attn_:" "$strangers"
done

# The two of src/core that kernels.h names are there so that libm is not.
may_call="mem(cpy|move|set|cmp)|attn_log_sum|attn_entropy|_GLOBAL_OFFSET_TABLE_|__stack_chk_fail"
objects=$(find "$build/src" -name 'k_*.o')
[ -n "$objects" ] || fail "no ISA objects below $build/src"
for object in $objects; do
    offered=$(nm -g --defined-only "$object" | awk 'NF == 3 {print $3}')
    [ "$(echo "$offered" | wc -w)" = 1 ] || fail "$object should offer one table, but offers: $offered"
    objdump -t "$object" | grep -qE "[[:space:]]\.(data\.rel\.ro|rodata)[^[:space:]]*[[:space:]].* $offered\$" ||
        fail "$object: $offered is not const"
    called=$(nm -u "$object" | awk '{print $2}' | grep -vE "^($may_call)\$" || true)
    [ -z "$called" ] || fail "$object calls:" "$called"
done
exit $failed
