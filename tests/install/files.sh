#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: files.sh BUILD STAGE VERSION      what is installed, and that it may be moved
set -eu
build=$1 stage=$2 version=$3
failed=0

fail() {
    echo "$*" >&2
    failed=1
}
# one PREFIX NAME: exactly one file or link of that name
one() { [ "$(find "$1" -name "$2" | wc -l)" = 1 ] || fail "$1 should hold one $2"; }

for name in attn attn.h attn_io.h attn_model.h attn_text.h attn_load.h attn_generate.h attn_seq2seq.h attn.pc \
    attn_io.pc attn_model.pc attn_text.pc attn_load.pc \
    attnConfig.cmake attnConfigVersion.cmake attnTargets.cmake LICENSE \
    libattn.so libattn.so.0 "libattn.so.$version" libattn_io.so libattn_io.so.0 "libattn_io.so.$version" \
    libattn_model.so libattn_model.so.0 "libattn_model.so.$version" \
    libattn_text.so libattn_text.so.0 "libattn_text.so.$version" \
    libattn_load.so libattn_load.so.0 "libattn_load.so.$version" attn.1 api.md; do
    case $name in
    attn) [ -x "$stage/shared/bin/attn" ] || fail "no bin/attn" ;;
    *) one "$stage/shared" "$name" ;;
    esac
done
for name in libattn.a libattn_io.a libattn_model.a libattn_text.a libattn_load.a; do
    one "$stage/static" "$name"
done
for library in libattn libattn_io libattn_model libattn_text libattn_load; do
    readelf -d "$(find "$stage/shared" -name $library.so)" | grep -q "SONAME.*\[$library\.so\.0\]" ||
        fail "$library: not the soname $library.so.0"
done

# A distribution's way: DESTDIR, then moved elsewhere; nothing installed may name the folders of the build.
rm -rf "$stage/destdir"
DESTDIR=$stage/destdir "$CMAKE" --install "$build" --prefix /opt/attn >/dev/null
[ -x "$stage/destdir/opt/attn/bin/attn" ] || fail "DESTDIR is not honoured"
if grep -rlF "$build" "$stage/destdir"; then
    fail "the files above name the build folder"
fi
said=$("$stage/destdir/opt/attn/bin/attn" --version | head -n 1)
[ "$said" = "attn $version" ] || fail "the moved attn --version says: $said"
exit $failed
