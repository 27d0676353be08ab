#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: version.sh SOURCE VERSION      the header, the build and the change log name one version
set -eu
part() { sed -n "s/^#define ATTN_VERSION_$1 //p" "$source/include/attn/attn.h"; }

source=$1 version=$2
header=$(part MAJOR).$(part MINOR).$(part PATCH)
if [ "$header" != "$version" ]; then
    echo "attn.h says $header, CMakeLists.txt says $version" >&2
    exit 1
fi
if ! grep -q "^## \[$version\]" "$source/CHANGELOG.md"; then
    echo "CHANGELOG.md has no section for $version" >&2
    exit 1
fi
