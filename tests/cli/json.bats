#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# --json of every verb against docs/attn-json-schema.json, and what the schema cannot say.
load support

valid() {
    "$@" --json >out.json
    "$PYTHON" "$SOURCE/tests/cli/check_json.py" "$SOURCE/docs/attn-json-schema.json" out.json
}

@test "every verb prints what the schema says" {
    valid attn sdpa q.csv k.csv v.csv
    valid attn sdpa q.csv k.csv v.csv --causal -o out.npy --weights w.npy --stage masked=m.npy
    valid attn mha ten_words.npy base_weights.npz --heads 8
    valid attn explain sdpa q.csv k.csv v.csv --tokens "one two"
    valid attn explain sdpa q.csv k.csv v.csv --tokens "one two" --key-tokens "a b"
    grep -qF '"key_tokens": [' out.json
    valid attn explain mha ten_words.npy base_weights.npz --heads 8
    valid attn explain split arange_4x8.npy --heads 2
    valid attn explain sdpa q.csv k.csv v.csv --causal --cell 0,0,0,1
    valid attn show ten_words.npy
    valid attn show q.csv
    valid attn info
    valid attn selftest
}

@test "the checker refuses what the schema forbids" {
    local schema=$SOURCE/docs/attn-json-schema.json
    attn sdpa q.csv k.csv v.csv --json >good.json
    for change in 's/"schema": 1/"schema": 2/' 's/"command": "sdpa"/"command": "spda"/' 's/"output"/"outputs"/' 's/2.689[0-9]*/null/' \
        's/"dtype": "f64",//'; do
        sed "$change" good.json >bad.json
        refused cmp -s good.json bad.json
        refused "$PYTHON" "$SOURCE/tests/cli/check_json.py" "$schema" bad.json
    done
}

@test "numbers: 17 digits of f64, 9 of f32, non-finite ones as strings" {
    numpy "
np.save('f32.npy', np.array([[0.1, np.inf], [-np.inf, np.nan]], 'f4'))
np.save('f64.npy', np.array([0.1]))
np.savez('kinds.npz', b=np.array([True, False]), i=np.array([2**62 + 1]), u=np.array([2**64 - 1], 'u8'), h=np.array([0.1], 'f2'))"
    attn show f32.npy --json | grep -qF '[0.100000001, "inf"]'
    attn show f32.npy --json | grep -qF '["-inf", "nan"]'
    attn show f64.npy --json | grep -qF '[0.10000000000000001]'
    attn show kinds.npz --json >kinds.json
    grep -qF '[true, false]' kinds.json
    grep -qF '[4611686018427387905]' kinds.json
    grep -qF '[18446744073709551615]' kinds.json
    grep -qF '[0.0999755859]' kinds.json
}

@test "values read back are the file's, and a file named is not repeated" {
    attn sdpa q.csv k.csv v.csv --weights w.npy --lse lse.npy --json >out.json
    attn sdpa q.csv k.csv v.csv -o out.npy
    numpy "
import json
arrays = json.load(open('out.json'))['arrays']
assert list(arrays) == ['output', 'weights', 'lse']
assert np.array_equal(arrays['output']['values'], a('out.npy')) and 'file' not in arrays['output']
assert arrays['weights'] == {'dtype': 'f64', 'shape': [2, 2], 'file': 'w.npy'}"
}

@test "the whole text of one" { golden explain-split.json attn explain split arange_4x8.npy --heads 2 --json; }

@test "an array without elements is [], however many rows of nothing it has" {
    numpy "
for name, shape in (('rows', '(1125899906842624, 0)'), ('blocks', '(2, 0, 3)')):
    header = ('{\'descr\': \'<f4\', \'fortran_order\': False, \'shape\': ' + shape + ', }').encode()
    open(name + '.npy', 'wb').write(b'\x93NUMPY\x01\x00' + bytes([len(header), 0]) + header)"
    for name in rows blocks; do
        timeout 20 "$ATTN" show $name.npy --json >out.json
        grep -qF '"values": []' out.json
        "$PYTHON" "$SOURCE/tests/cli/check_json.py" "$SOURCE/docs/attn-json-schema.json" out.json
    done
}

@test "names out of files: exact, and nothing that a terminal obeys" {
    strange_names strange.safetensors
    attn show strange.safetensors --json >out.json
    refused grep -q $'\033' out.json
    "$PYTHON" - <<'PY'
import json
text = open("out.json", encoding="utf-8", newline="").read()
assert not any(c == "\x7f" or "\x80" <= c < "\xa0" for c in text)
assert list(json.loads(text)["arrays"]) == ["\x1b[2J\x07", "\x7f\x9b1m", "\uac00"], text
PY
    attn sdpa q.csv k.csv v.csv -o $'\xff\xe2\x82.npy' --json >out.json
    grep -qF '"file": "\ufffd\ufffd\ufffd.npy"' out.json
}

@test "attn show reads uint16 as bf16 with --in-dtype, in text and as JSON" {
    numpy "np.save('bits.npy', np.array([0x3FC0], np.uint16))"
    [ "$(attn show bits.npy --in-dtype bf16)" = $'(1) bf16\n  1.5' ]
    [ "$(attn show bits.npy)" = $'(1) u16\n  16320' ]
    attn show bits.npy --in-dtype bf16 --json >out.json
    grep -qF '"dtype": "bf16"' out.json
    grep -qF '"values": [1.5]' out.json
}
