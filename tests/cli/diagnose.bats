#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# attn diagnose: the report in both languages, exit codes, shapes, tolerances, sampling.
# Which mistakes are named is tested in tests/diagnose.
load support

# differs COMMAND...: must say that OUT differs.
differs() {
    local status=0
    "$@" >report.txt 2>stderr.txt || status=$?
    [ "$status" = 1 ] || { cat report.txt stderr.txt; return 1; }
    cat report.txt
}

lesson() { cp "$SOURCE"/examples/lessons/* .; }

# four_heads: qkv.npz (2,4,6,8) on 2 KV heads with 9 keys, and right.npy.
four_heads() {
    numpy "
r = np.random.default_rng(3)
np.savez('qkv.npz', q=r.standard_normal((2, 4, 6, 8)).astype('f4'), k=r.standard_normal((2, 2, 9, 8)).astype('f4'),
         v=r.standard_normal((2, 2, 9, 5)).astype('f4'))"
    attn sdpa qkv.npz -o right.npy
}

@test "the report in English and Korean" {
    lesson
    golden diagnose-right.txt attn diagnose sdpa q.csv k.csv v.csv --got right.npy
    golden diagnose-named.txt differs attn diagnose sdpa q.csv k.csv v.csv --got k_not_transposed.npy
    golden diagnose-tied-ko.txt differs attn diagnose sdpa q.csv k.csv v.csv --got scale_twice.npy --lang ko
    golden diagnose-pair.txt differs attn diagnose sdpa q.csv k.csv v.csv --got no_scale_and_columns.npy
    golden diagnose-mha-ko.txt differs attn diagnose mha x.csv small_layer.npz --heads 2 --got layer_reshape_only.npy --lang ko
    numpy "np.save('noise.npy', a('right.npy') + np.float32([[0, 0.5, 0, 0]]))"
    golden diagnose-unknown.txt differs attn diagnose sdpa q.csv k.csv v.csv --got noise.npy
}

@test "JSON is what the schema says, for every verdict" {
    lesson
    numpy "np.save('noise.npy', a('right.npy') + np.float32([[0, 0.5, 0, 0]]))"
    for got in right k_not_transposed scale_twice no_scale_and_columns noise; do
        attn diagnose sdpa q.csv k.csv v.csv --got $got.npy --json >out.json || [ $? = 1 ]
        "$PYTHON" "$SOURCE/tests/cli/check_json.py" "$SOURCE/docs/attn-json-schema.json" out.json
        grep '"verdict"' out.json >>verdicts.txt
    done
    [ "$(tr -d ' ",\n' <verdicts.txt)" = verdict:equalverdict:namedverdict:tiedverdict:namedverdict:unknown ]
    sed 's/"verdict": "unknown"/"verdict": "wrong"/' out.json >bad.json
    refused "$PYTHON" "$SOURCE/tests/cli/check_json.py" "$SOURCE/docs/attn-json-schema.json" bad.json
}

@test "the bound is that of the dtype, or the one given" {
    four_heads
    numpy "
out = a('right.npy')
np.save('half.npy', out.astype('f2'))
np.save('off.npy', out + np.float32(1e-3))
np.save('more.npy', out * np.float32(1.001))
np.save('nan.npy', np.where(np.arange(5) == 4, np.nan, out))"
    attn diagnose sdpa qkv.npz --got half.npy
    attn diagnose sdpa qkv.npz --got half.npy --json | grep -qF '"source": "docs/numerics.md f16"'
    differs attn diagnose sdpa qkv.npz --got off.npy
    attn diagnose sdpa qkv.npz --got off.npy --atol 1.1e-3
    differs attn diagnose sdpa qkv.npz --got off.npy --atol 0.9e-3
    attn diagnose sdpa qkv.npz --got more.npy --rtol 1.1e-3
    differs attn diagnose sdpa qkv.npz --got more.npy --rtol 0.9e-3
    attn diagnose sdpa qkv.npz --got off.npy --rtol 2 --atol 0.01 | grep -qF "atol 0.01 + rtol 2"
    differs attn diagnose sdpa qkv.npz --got nan.npy --atol 100 | grep -qF "differs in 48 of 240 cells"
}

@test "the first difference is in the axes of OUT, whatever the layout" {
    four_heads
    numpy "
t = np.load('qkv.npz')
np.savez('turned.npz', **{n: t[n].swapaxes(1, 2) for n in t})
out = a('right.npy')
out[1, 2, 3, 4] += 1
np.save('off.npy', out)
np.save('turned.npy', out.swapaxes(1, 2))"
    differs attn diagnose sdpa qkv.npz --got off.npy | grep -qF "The first is [1,2,3,4]"
    differs attn diagnose sdpa turned.npz --layout blhd --got turned.npy | grep -qF "The first is [1,3,2,4]"
    attn sdpa turned.npz --layout blhd -o right2.npy
    attn diagnose sdpa turned.npz --layout blhd --got right2.npy
}

@test "another shape is read where it says what happened, and refused where it does not" {
    four_heads
    numpy "
out = a('right.npy')
np.save('turned.npy', out.swapaxes(1, 2))
np.save('joined.npy', out.swapaxes(1, 2).reshape(2, 6, 20))
np.save('flat.npy', out.swapaxes(2, 3))
np.save('short.npy', out[..., :4])
np.save('weights.npy', np.zeros((2, 4, 6, 8), 'f4'))
w = np.load('base_weights.npz')"
    differs attn diagnose sdpa qkv.npz --got turned.npy | grep -qF "[output-not-transposed]"
    differs attn diagnose sdpa qkv.npz --got joined.npy | grep -qF "[output-heads-joined]"
    differs attn diagnose sdpa qkv.npz --got flat.npy | grep -qF "[output-transposed]"
    attn sdpa qkv.npz --scale 1 -o scaled.npy
    numpy "np.save('both.npy', a('scaled.npy').swapaxes(1, 2))"
    differs attn diagnose sdpa qkv.npz --got both.npy | grep -qF "[output-not-transposed + no-scale]"
    attn mha ten_words.npy base_weights.npz --heads 8 --stage z=z.npy -o out.npy
    attn diagnose mha ten_words.npy base_weights.npz --heads 8 --got out.npy
    fails_with "--got is (2,4,6,4), and with these inputs it is (2,4,6,5); give the array that was computed from them" \
        attn diagnose sdpa qkv.npz --got short.npy
    fails_with "--got-weights is (2,4,6,8), and with these inputs it is (2,4,6,9); give the array that was computed from them" \
        attn diagnose sdpa qkv.npz --got right.npy --got-weights weights.npy
}

@test "weights are compared too" {
    four_heads
    attn sdpa qkv.npz -o right.npy --weights w.npy
    attn diagnose sdpa qkv.npz --got right.npy --got-weights w.npy
    numpy "np.save('w2.npy', a('w.npy') * np.float32(1.01))"
    differs attn diagnose sdpa qkv.npz --got right.npy --got-weights w2.npy | grep -qF "The weights given differ by up to"
}

@test "large problems are sampled by rows, and the report says so" {
    numpy "
r = np.random.default_rng(3)
np.savez('qkv.npz', **{n: r.standard_normal((1, 2, 700, 32)).astype('f4') for n in 'qkv'})"
    attn sdpa qkv.npz --scale 1 -o out.npy
    differs attn diagnose sdpa qkv.npz --got out.npy | grep -E "the mistakes were tried on [0-9]+ of 1400 rows \(700 in each head\)"
    differs attn diagnose sdpa qkv.npz --got out.npy --json >sampled.json
    numpy "
import json
report = json.load(open('sampled.json'))
rows = report['sampled']['rows']
assert report['cells'] == 2 * 700 * 32 and not report['sampled']['equality_too']
assert report['sampled']['of'] == 700 and rows == sorted(set(rows)) and 16 <= len(rows) < 700 and rows[0] == 0 and rows[-1] == 699
assert report['candidates'][0]['ids'] == ['no-scale'] and report['candidates'][0]['matches']"
}

@test "what is missing or wrong is said" {
    lesson
    fails_with "attn diagnose sdpa needs --got OUT, the output to be judged" attn diagnose sdpa q.csv k.csv v.csv
    fails_with "--atol is x, and must be a finite number such as 0.125" attn diagnose sdpa q.csv k.csv v.csv --got right.npy --atol x
    fails_with "--rtol and --atol are tolerances, and must be 0 or more" attn diagnose sdpa q.csv k.csv v.csv --got right.npy --rtol -1
    fails_with "attn diagnose sdpa has no option --heads; it belongs to attn mha, attn explain, attn diagnose" \
        attn diagnose sdpa q.csv k.csv v.csv --got right.npy --heads 2
    run attn diagnose sdpa q.csv k.csv x.csv --got right.npy
    [ "$status" = 2 ]
}

@test "docs/diagnose.md lists every mistake, in the words of the report" {
    "$DOCUMENTS/attn_docs" table.md mistakes
    "$PYTHON" - "$SOURCE/docs/diagnose.md" table.md <<'PY'
import pathlib, sys
page, table = (pathlib.Path(name).read_text(encoding="utf-8") for name in sys.argv[1:])
assert table.count("\n") > 90 and table in page
PY
}
