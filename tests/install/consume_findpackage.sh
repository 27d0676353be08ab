#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: consume_findpackage.sh c|cxx shared|static PREFIX FOLDER      a CMake project of its own that says find_package(attn)
set -eu
language=$1 prefix=$3 folder=$4
source=$(dirname "$0")/consumer.c

rm -rf "$folder"
mkdir -p "$folder"
name=consumer.c cmake_language=C
[ "$language" = c ] || name=consumer.cpp cmake_language=CXX
cp "$source" "$folder/$name"
cat >"$folder/CMakeLists.txt" <<EOF
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES $cmake_language)
find_package(attn 0.1 REQUIRED)
add_executable(consumer $name)
target_link_libraries(consumer PRIVATE attn::attn attn::attn_load attn::attn_model attn::attn_io attn::attn_text m)
EOF
"$CMAKE" -S "$folder" -B "$folder/build" -D CMAKE_PREFIX_PATH="$prefix" -D CMAKE_CXX_STANDARD=17
"$CMAKE" --build "$folder/build"
cd "$folder"
build/consumer
