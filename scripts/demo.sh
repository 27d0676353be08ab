#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: scripts/demo.sh BUILD      attention on the files in examples/, step by step
set -eu
build=$(cd "${1:?usage: scripts/demo.sh BUILD}" && pwd)
examples=$(cd "$(dirname "$0")/../examples" && pwd)
PATH=$build/bin:$PATH
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp -R "$examples"/. "$folder"
cd "$folder"

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$(printf '\033[1m') plain=$(printf '\033[0m'); else bold='' plain=''; fi
step() { printf '\n%s== %s ==%s\n' "$bold" "$*" "$plain"; }
show() {
    printf '\n$'
    for word in "$@"; do
        case $word in
        *' '*) printf ' "%s"' "$word" ;;
        *) printf ' %s' "$word" ;;
        esac
    done
    echo
    "$@"
}

step "1. Two words, four numbers each"
show attn explain sdpa q.csv k.csv v.csv
printf '\nThe same without the explanation, rounded:\n'
show attn sdpa q.csv k.csv v.csv --round 1 -o out.csv
show attn show out.csv

step "2. How 8 columns become 2 heads, and back"
show attn explain split arange_4x8.npy --heads 2

step "3. Four words with their names: I am a student"
show attn explain sdpa student.csv student.csv student.csv --tokens "I am a student" --round 2

step "4. One number, and one that is hidden"
show attn explain sdpa student.csv student.csv student.csv --causal --tokens "I am a student" --cell 0,0,1,3

step "5. Ten words through one layer of Transformer base: 512 wide, 8 heads"
echo "(The weights are random, +1/16 or -1/16: the shapes and the arithmetic are those of a trained layer.)"
show attn explain mha ten_words.npy base_weights.npz --heads 8 --round 2
show attn mha ten_words.npy base_weights.npz --heads 8 -o out.npy --verbose
show attn show out.npy

step "6. One wide head or many narrow ones: the work is the same"
# multiply and add count as two; the softmax as five per score
flops() {
    width=$1 heads=$2 L=1024
    head=$((width / heads))
    projections=$((4 * 2 * L * width * width))
    products=$((heads * 2 * 2 * L * L * head))
    softmax=$((heads * 5 * L * L))
    printf '%7d %6d %10d %14d %18d %9d %8d\n' "$width" "$heads" "$head" $((projections / 1000000)) $((products / 1000000)) \
        $((softmax / 1000000)) $(((projections + products + softmax) / 1000000))
}
printf '\n%d words, in millions of operations:\n  width  heads  head size  projections  Q K^T, weights V  softmax      sum\n' 1024
for table in "512 8" "768 12" "896 14"; do
    flops "${table% *}" 1
    flops "${table% *}" "${table#* }"
done
cat <<'TEXT'
Projections and products are equal to the last operation: H heads of width/H are as much work as one of the full width.
Only the softmax grows with the heads, for each has its own scores. What the heads buy is H different patterns of attention.
TEXT

step "7. A width that the heads do not divide"
printf '\n$ attn explain split wide_896.npy --heads 13\n'
if attn explain split wide_896.npy --heads 13; then exit 1; fi
echo
