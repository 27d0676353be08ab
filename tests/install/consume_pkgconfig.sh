#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: consume_pkgconfig.sh c|cxx shared|static PREFIX FOLDER
# Compiles, links and runs consumer.c by the flags of attn_model.pc, attn_io.pc, attn_text.pc and attn_load.pc.
set -eu
language=$1 prefix=$3 folder=$4
source=$(dirname "$0")/consumer.c

rm -rf "$folder"
mkdir -p "$folder"
case $language in
c) compile="$CC -std=c17 -x c" ;;
cxx) compile="$CXX -std=c++17 -x c++" ;;
esac
pc=$(find "$prefix" -name attn_io.pc)
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
flags=$(pkg-config --cflags attn_model attn_io attn_text attn_load)
libs=$(pkg-config --libs attn_model attn_io attn_text attn_load)
# shellcheck disable=SC2086 # lists of flags
$compile -Wall -Wextra -Wpedantic -Werror $flags "$source" -x none -o "$folder/consumer" $libs -lm
cd "$folder"
LD_LIBRARY_PATH=$(pkg-config --variable=libdir attn) ./consumer
