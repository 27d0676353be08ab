#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# --dialect: the rules of docs/dialects.md, each against a line of NumPy.
load support

# data: q (3 rows), k, v (5 keys), a bool mask that hides all keys from row 1, a float one; `np_attention(hidden, ...)` in rules.py.
data() {
    numpy "
r = np.random.default_rng(5)
for n, L in ('q', 3), ('k', 5), ('v', 5):
    np.save(n + '.npy', r.standard_normal((L, 4)))
mask = r.random((3, 5)) < 0.6
mask[:, 0], mask[1] = True, False
np.save('mask.npy', mask)
np.save('bias.npy', np.where(mask, 0, -np.inf))"
}

# is EXPRESSION: out.npy is that; s are the scaled scores, soft(x) softmax, causal(k) is j <= i + k.
is() {
    numpy "
q, k, v, mask, out = (a(n + '.npy') for n in ('q', 'k', 'v', 'mask', 'out'))
s = q @ k.T / 2
i, j = np.arange(3)[:, None], np.arange(5)
causal = lambda k: j <= i + k
def soft(x):
    with np.errstate(invalid='ignore'):
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)
hide = lambda see, x=s: np.where(see, x, -np.inf)
want = $1
assert np.allclose(out, want, rtol=1e-12, atol=1e-12, equal_nan=True), (out, want)"
}

two() { attn sdpa q.npy k.npy v.npy -o out.npy "$@"; }

@test "the anchor of causal order, said by options" {
    data
    for dialect in torch onnx-1.23 jax; do
        two --causal --dialect $dialect --verbose 2>log.txt
        is "soft(hide(causal(0))) @ v"
        grep -qF "the rule of $dialect is said by options" log.txt
    done
    for dialect in flash2 flash3 hf-eager mlx; do
        two --causal --dialect $dialect --verbose 2>log.txt
        is "soft(hide(causal(2))) @ v"
        grep -qF "the rule of $dialect is said by options" log.txt
    done
    two --causal --dialect onnx-1.23 --kv-len 4
    is "soft(hide(causal(1) & (j < 4))) @ v"
}

@test "an anchor that is said must be the system's" {
    data
    fails_with "--dialect flash2 anchors rows bottom-right, and top-left is asked for; give one of the two" \
        two --causal=top-left --dialect flash2
    fails_with "--dialect torch anchors rows top-left, and --offset says otherwise; give one of the two" \
        two --causal --offset 2 --dialect torch
    two --causal=bottom-right --dialect flash2
    run two --causal --dialect ggml
    [ "$status" = 2 ] # ggml has the caller's
}

@test "rows that see nothing" {
    data
    two --mask mask.npy --dialect torch --verbose 2>log.txt
    grep -qF "said by options" log.txt
    is "np.where(mask.any(1)[:, None], soft(hide(mask)) @ v, 0)"
    two --mask mask.npy --dialect onnx-1.22 --verbose 2>log.txt
    grep -qF "computed by its definition in float64" log.txt
    is "soft(hide(mask)) @ v" # NaN
    for dialect in hf-eager mlx jax; do
        two --mask mask.npy --dialect $dialect
        is "np.where(mask.any(1)[:, None], soft(hide(mask)) @ v, v.mean(0))"
        two --bias bias.npy --dialect $dialect
        is "soft(hide(mask)) @ v" # a stored -inf stays: NaN
    done
    two --mask mask.npy --dialect ort
    is "soft(np.where(mask, s, s - 1e4)) @ v"
    two --mask mask.npy --dialect flash2 --lse lse.npy
    [ "$(numpy "print(a('lse.npy')[1])")" = inf ]
}

@test "what true means" {
    data
    two --mask mask.npy --dialect torch-mha
    is "soft(hide(~mask)) @ v"
    two --mask mask.npy --mask-drop --dialect torch-mha
    is "soft(hide(~mask)) @ v"
    two --mask mask.npy --mask-drop --dialect torch
    is "np.where(mask.any(1)[:, None], soft(hide(mask)) @ v, 0)"
}

@test "softcap, windows, ALiBi, scale, NaN in hidden keys" {
    data
    two --causal --softcap 1 --dialect onnx-1.21
    is "soft(np.where(causal(0), np.tanh(s), -1)) @ v"
    two --causal --window 2,0 --dialect hf-eager
    is "soft(hide(causal(2) & (j > i + 2 - 2))) @ v"
    numpy "np.save('distance.npy', -np.abs(np.arange(3)[:, None] - np.arange(5.)))"
    two --alibi --align top-left --bias distance.npy --dialect ggml
    is "soft(s - 2.0 ** -8 * abs(i - j)) @ v"
    two --scale -0.5 --dialect onnx-1.23
    is "np.full((3, 4), np.nan)"
    numpy "
v = a('v.npy')
v[4] = np.nan
np.save('v.npy', v)"
    two --causal --dialect flash2 --quiet
    is "np.vstack([soft(hide(causal(2)))[:2] @ np.nan_to_num(v), np.full((1, 4), np.nan)])"
    two --causal --dialect torch
    is "np.full((3, 4), np.nan)"
}

@test "the stages follow the rule: sdpa, explain, mha" {
    data
    two --mask mask.npy --dialect jax --weights w.npy --stage masked=m.npy --mass mass.npy
    numpy "
w, m = a('w.npy'), a('m.npy')
assert np.allclose(w[1], 0.2) and np.allclose(w.sum(1), 1) and (m[1] < -3e38).all() and np.allclose(a('mass.npy'), w.sum(0))"
    attn explain sdpa q.npy k.npy v.npy --mask mask.npy --dialect jax --cell 0,0,1 | grep -qF "sees 5 of 5 keys"
    attn explain sdpa q.npy k.npy v.npy --mask mask.npy --dialect jax --json >explain.json
    numpy "
import json
report = json.load(open('explain.json'))
assert report['run']['path'] == 'definition f64' and np.allclose(report['stages']['weights']['values'], a('w.npy'))"
    fails_with "--html shows the numbers of the kernels, and options cannot say the rule of jax here; give one of the two" \
        attn explain sdpa q.npy k.npy v.npy --mask mask.npy --dialect jax --html page.html
    numpy "
mask = np.tril(np.ones((10, 10), bool))
mask[3] = False
np.save('wide.npy', mask)"
    attn mha ten_words.npy base_weights.npz --heads 8 --mask wide.npy --dialect hf-eager -o out.npy --weights w.npy
    attn mha ten_words.npy base_weights.npz --heads 8 --mask wide.npy -o plain.npy
    numpy "
o, p = a('out.npy'), a('plain.npy')
rest = np.arange(10) != 3
assert np.allclose(o[rest], p[rest], rtol=1e-5, atol=1e-3) and abs(o[3] - p[3]).max() > 1 and np.allclose(a('w.npy')[:, 3], 0.1)"
}
