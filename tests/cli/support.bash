# SPDX-License-Identifier: Apache-2.0
# For every file of tests here: a folder of its own with copies of the examples.

setup() {
    work=$(mktemp -d)
    cd "$work"
    cp "$SOURCE"/examples/*.csv "$SOURCE"/examples/*.npy "$SOURCE"/examples/*.npz .
}

teardown() { rm -rf "$work"; }

attn() { "$ATTN" "$@"; }

# numpy CODE: Python with np, and `a(file)` to read an array.
numpy() {
    "$PYTHON" -c "
import numpy as np
a = np.load
$1"
}

# strange_names FILE: a .safetensors whose array names a terminal would obey, and one in Korean.
strange_names() {
    "$PYTHON" - "$1" <<'PY'
import json, struct, sys
names = "\x1b[2J\x07", "\x7f\x9b1m", "\uac00"
header = json.dumps({name: {"dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]} for i, name in enumerate(names)}).encode()
open(sys.argv[1], "wb").write(struct.pack("<Q", len(header)) + header + bytes(4 * len(names)))
PY
}

# A command that must not succeed. (`! command` alone would not fail a test.)
refused() { if "$@"; then return 1; fi; }

# A command that must fail: exit code 2, nothing on standard output, and exactly this one line on standard error.
fails_with() {
    local wanted=$1 said
    shift
    status=0
    "$@" >stdout.txt 2>stderr.txt </dev/null || status=$?
    said=$(cat stderr.txt)
    [ "$status" = 2 ] || { echo "exit code $status, not 2: $said"; return 1; }
    [ ! -s stdout.txt ] || { echo "standard output is not empty"; return 1; }
    [ "$said" = "attn: $wanted" ] || { printf 'it says:\n%s\nnot:\nattn: %s\n' "$said" "$wanted"; return 1; }
}

# The same where only a part of the sentence is ours to say.
fails_saying() {
    local wanted=$1 said
    shift
    status=0
    "$@" >stdout.txt 2>stderr.txt </dev/null || status=$?
    said=$(cat stderr.txt)
    [ "$status" = 2 ] || { echo "exit code $status, not 2: $said"; return 1; }
    [ "$(wc -l <stderr.txt)" = 1 ] || { printf 'not one line:\n%s\n' "$said"; return 1; }
    [[ $said == "attn: "*"$wanted"* ]] || { printf 'it says:\n%s\nwithout:\n%s\n' "$said" "$wanted"; return 1; }
}

# golden NAME COMMAND...: standard output is the file of that name. UPDATE_GOLDEN=1 writes it instead; read the difference before you commit.
golden() {
    local file=$SOURCE/tests/cli/golden/$1
    shift
    "$@" >output.txt
    if [ -n "${UPDATE_GOLDEN:-}" ]; then cp output.txt "$file"; fi
    diff -u "$file" output.txt
}

# lines TEXT...: every TEXT is a line (or part of one) of $output, in this order.
lines() {
    local rest=$output text
    for text in "$@"; do
        [[ $rest == *"$text"* ]] || { printf 'missing: %s\nin:\n%s\n' "$text" "$output"; return 1; }
        rest=${rest#*"$text"}
    done
}
