#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The examples that everybody works through once, number by number.
load support

@test "two words: the output" {
    attn sdpa q.csv k.csv v.csv -o out.npy
    numpy "
out = a('out.npy')
assert out.dtype == np.float64 and out.shape == (2, 2)
assert np.array_equal(out[0], [5, 5])
assert np.allclose(out[1], [2.6894142136999513, 7.3105857863000487], rtol=1e-15, atol=0)"
}

@test "two words: every stage" {
    attn sdpa q.csv k.csv v.csv -o out.npy --stage scores=s.npy --stage scaled=x.npy --stage capped=c.npy --stage masked=m.npy \
        --stage weights=w.npy --lse lse.npy --mass mass.npy --stage row_max=max.npy --stage entropy=h.npy --stage output=again.npy
    numpy "
assert np.array_equal(a('s.npy'), [[2, 2], [0, 2]])
for name in ('x.npy', 'c.npy', 'm.npy'):
    assert np.array_equal(a(name), [[1, 1], [0, 1]]), name
w = np.array([[.5, .5], [1 / (1 + np.e), np.e / (1 + np.e)]])
assert np.allclose(a('w.npy'), w, rtol=1e-15, atol=0)
assert np.allclose(a('lse.npy'), [1 + np.log(2), np.log(1 + np.e)], rtol=1e-15, atol=0)
assert np.allclose(a('mass.npy'), w.sum(0), rtol=1e-15, atol=0)
assert np.array_equal(a('max.npy'), [1, 1])
assert np.allclose(a('h.npy'), -(w * np.log(w)).sum(1), rtol=1e-14, atol=0)
assert np.array_equal(a('again.npy'), a('out.npy'))"
}

@test "two words: rounded as text" {
    attn sdpa q.csv k.csv v.csv --round 2 -o out.csv --weights weights.csv
    [ "$(cat weights.csv)" = "0.50,0.50
0.27,0.73" ]
    [ "$(cat out.csv)" = "5.00,5.00
2.69,7.31" ]
    attn sdpa q.csv k.csv v.csv --round 1 -o out.csv
    [ "$(cat out.csv)" = "5.0,5.0
2.7,7.3" ]
}

@test "two words: the sum by hand" {
    run attn explain sdpa q.csv k.csv v.csv
    [ "$status" = 0 ]
    lines "Q K^T = scores" "(2,4) x (4,2) -> (2,2)" "2  2" "0  2" "0.5 = 1/sqrt(4)" "1  1" "0  1" "0.5     0.5" "0.2689  0.7311" \
        "row sums  1  1" "(2,2) x (2,2) -> (2,2)" "5       5" "2.6894  7.3106" "Row 1 by hand" "0, 2  ->  /2  ->  0, 1" \
        "e^0 = 1, e^1 = 2.72, sum 3.72" "0.27, 0.73" "maximum 1 taken off" "e^-1 = 0.37, e^0 = 1, sum 1.37" "0.27, 0.73" \
        "both divided by e^1"
}

@test "splitting arange(32) into two heads, and joining" {
    run attn explain split arange_4x8.npy --heads 2
    [ "$status" = 0 ]
    lines "X (4,8)" "(4,8) -> (4,2,4)" "(4,2,4) -> (2,4,4)" "0   1   2   3" "8   9  10  11" "4   5   6   7" "12  13  14  15" \
        "head 1 starts [4, 5, 6, 7]" "head 1 would start [16, 17, 18, 19]" "(2,4,4) -> (4,2,4) -> (4,8)" "0   1   2   3   4   5   6   7"
    attn explain split arange_4x8.npy --heads 2 --json >split.json
    "$PYTHON" - <<'PY'
import json
import numpy as np
stages = json.load(open("split.json"))["stages"]
x = np.arange(32).reshape(4, 8)
right, wrong = x.reshape(4, 2, 4).transpose(1, 0, 2), x.reshape(2, 4, 4)
assert not np.array_equal(right, wrong)
assert np.array_equal(stages["pieces"]["values"], x.reshape(4, 2, 4))
assert np.array_equal(stages["heads"]["values"], right)
assert not np.array_equal(stages["heads"]["values"], wrong)
assert np.array_equal(stages["joined"]["values"], x)
PY
}

@test "attn mha splits with the transpose, not by a reshape alone" {
    numpy "
w = np.eye(8, dtype=np.float32)
np.savez('identity.npz', w_q=w, w_k=w, w_v=w, w_o=w)"
    attn mha arange_4x8.npy identity.npz --heads 2 --stage q=q.npy --stage z=z.npy -o out.npy
    numpy "
x = np.arange(32, dtype=np.float32).reshape(4, 8)
assert np.array_equal(a('q.npy'), x.reshape(4, 2, 4).transpose(1, 0, 2))
assert not np.array_equal(a('q.npy'), x.reshape(2, 4, 4))
assert np.array_equal(a('out.npy'), a('z.npy').transpose(1, 0, 2).reshape(4, 8))"
}

@test "ten words through Transformer base" {
    run attn explain mha ten_words.npy base_weights.npz --heads 8
    [ "$status" = 0 ]
    lines "(10,512) x (512,512) -> (10,512)" "each head: (10,512) x (512,64) -> (10,64)" "(10,512) -> (10,8,64) -> (8,10,64)" \
        "(10,64) x (64,10) -> (10,10)" "(10,10) x (10,64) -> (10,64)" "(8,10,64) -> (10,8,64) -> (10,512)" \
        "concat W_O = output" "(10,512) x (512,512) -> (10,512)"
    attn mha ten_words.npy base_weights.npz --heads 8 --dtype f32 -o out.npy --weights weights.npy
    numpy "
x, w = a('ten_words.npy').astype(float), {k: v.astype(float) for k, v in a('base_weights.npz').items()}
q, k, v = ((x @ w[n]).reshape(10, 8, 64).transpose(1, 0, 2) for n in ('w_q', 'w_k', 'w_v'))
s = q @ k.transpose(0, 2, 1) / 8
p = np.exp(s - s.max(-1, keepdims=True)); p /= p.sum(-1, keepdims=True)
z = (p @ v).transpose(1, 0, 2).reshape(10, 512)
assert np.abs(a('weights.npy') - p).max() < 1e-5
assert a('out.npy').shape == (10, 512) and np.abs(a('out.npy') - z @ w['w_o']).max() < 1e-4"
}

@test "896 wide with 13 heads: which counts divide" {
    counts="1, 2, 4, 7, 8, 14, 16, 28, 32, 56, 64, 112, 128, 224, 448, 896"
    fails_with "X is 896 wide, which 13 heads do not divide; head counts that do: $counts" \
        attn explain split wide_896.npy --heads 13
    attn explain split wide_896.npy --heads 14 >/dev/null
}

@test "I am a student: four rows with names" {
    run attn explain sdpa student.csv student.csv student.csv --tokens "I am a student"
    [ "$status" = 0 ]
    lines "(4,4) x (4,4) -> (4,4)" "I    am     a  student" "I        1.25" "student  1.5   0.5   0         3" "Row 3 (student) by hand"
    echo "I am a student" >words.txt
    attn explain sdpa student.csv student.csv student.csv --tokens words.txt | diff - <(echo "$output")
}
