#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Options that the folders of tests/cases do not reach, against NumPy.
load support

arrays() {
    numpy "
r = np.random.default_rng(5)
for n, s in dict(q=(2, 4, 5, 8), k=(2, 2, 7, 8), v=(2, 2, 7, 6)).items(): np.save(n + '.npy', r.standard_normal(s).astype('f4'))"
}

@test "--layout blhd: rank 4 and 3, inputs and output, not masks or weights" {
    arrays
    numpy "
for n in 'qkv':
    x = a(n + '.npy')
    np.save(n + '_t.npy', x.transpose(0, 2, 1, 3)); np.save(n + '3.npy', x[0]); np.save(n + '3_t.npy', x[0].transpose(1, 0, 2))
np.save('mask.npy', np.random.default_rng(1).random((4, 5, 7)) < .7)"
    attn sdpa q.npy k.npy v.npy --mask mask.npy -o out.npy --weights w.npy
    attn sdpa q_t.npy k_t.npy v_t.npy --mask mask.npy --layout blhd -o out_t.npy --weights w_t.npy
    attn sdpa q3.npy k3.npy v3.npy --mask mask.npy -o out3.npy
    attn sdpa q3_t.npy k3_t.npy v3_t.npy --mask mask.npy --layout blhd -o out3_t.npy
    cmp w.npy w_t.npy
    numpy "
assert a('out_t.npy').shape == (2, 5, 4, 6) and np.array_equal(a('out_t.npy').transpose(0, 2, 1, 3), a('out.npy'))
assert a('out3_t.npy').shape == (5, 4, 6) and np.array_equal(a('out3_t.npy').transpose(1, 0, 2), a('out3.npy'))
assert np.array_equal(a('out3.npy'), a('out.npy')[0])"
}

@test "--dtype of the output, --in-dtype of the inputs" {
    arrays
    numpy "
for n in 'qkv':
    bits = a(n + '.npy').view('u4') >> 16
    np.save(n + '_u16.npy', bits.astype('u2')); np.save(n + '_cut.npy', (bits << 16).view('f4'))"
    attn sdpa q_cut.npy k_cut.npy v_cut.npy -o want.npy
    attn sdpa q_u16.npy k_u16.npy v_u16.npy --in-dtype bf16 --dtype f32 -o got.npy
    cmp want.npy got.npy
    attn sdpa q_u16.npy k_u16.npy v_u16.npy --in-dtype bf16 -o bf16.npy
    attn sdpa q.npy k.npy v.npy --dtype f16 -o f16.npy
    attn sdpa q.npy k.npy v.npy --dtype f64 -o f64.npy
    numpy "
assert a('bf16.npy').dtype.str == '|V2' and a('f16.npy').dtype == np.float16 and a('f64.npy').dtype == np.float64"
    attn show bf16.npy | grep -q "(2,4,5,6) bf16"
    attn show q_u16.npy --in-dtype bf16 >/dev/null
}

@test "lists and files for lengths, offsets, sinks and slopes" {
    arrays
    numpy "
np.save('len.npy', np.array([5, 7])); np.save('off.npy', np.array([1, 2], 'i4')); np.save('sinks.npy', np.array([0, 1, 2, 3], 'f4'))"
    printf '5\n7\n' >len.csv
    set -- attn sdpa q.npy k.npy v.npy
    "$@" --kv-len len.npy --causal --offset off.npy --sinks sinks.npy --alibi=0.5,0.25,0.125,0.0625 -o want.npy
    "$@" --kv-len 5,7 --causal --offset 1,2 --sinks 0,1,2,3 --alibi=0.5,0.25,0.125,0.0625 -o got.npy
    cmp want.npy got.npy
    "$@" --kv-len len.csv --causal --offset 1,2 --sinks 0,1,2,3 --alibi=0.5,0.25,0.125,0.0625 -o got.npy
    cmp want.npy got.npy
    "$@" --kv-len 5,7 --causal --offset 1,2 --sinks 0,1,2,3.5 --alibi=0.5,0.25,0.125,0.0625 -o got.npy
    refused cmp -s want.npy got.npy
    "$@" --causal --offset 2 -o got.npy
    "$@" --causal=bottom-right -o want.npy
    cmp want.npy got.npy
    "$@" --causal --align top-left -o want.npy
    refused cmp -s want.npy got.npy
}

@test "--dropout: the seed decides, and keep takes its place" {
    arrays
    set -- attn sdpa q.npy k.npy v.npy --dropout 0.5
    "$@" --seed 1 -o one.npy --weights w.npy
    "$@" --seed 1 -o again.npy
    "$@" --seed 2 -o two.npy
    cmp one.npy again.npy
    refused cmp -s one.npy two.npy
    numpy "
w = a('w.npy'); np.save('keep.npy', w > 0)
assert 0.3 < (w > 0).mean() < 0.7"
    "$@" --keep keep.npy -o kept.npy
    cmp one.npy kept.npy
}

@test "--threads and --isa change no bit of what they may not; --verbose says them" {
    arrays
    run attn sdpa q.npy k.npy v.npy --isa scalar --threads 1 --verbose -o out.npy
    [ "$status" = 0 ]
    [[ $output == "attn: ran tiled f32 on scalar, 1 thread, "*" s" ]]
    attn sdpa q.npy k.npy v.npy --threads 1 -o one.npy
    attn sdpa q.npy k.npy v.npy --threads 3 -o three.npy
    cmp one.npy three.npy
}

@test "multi-head attention: PyTorch's names, packed and separate, give what ours give" {
    numpy "
r = np.random.default_rng(8); f = lambda *s: r.standard_normal(s).astype('f4') / 3
E, M, V, L, S = 12, 10, 6, 5, 7
np.save('x.npy', f(2, L, E)); np.save('m.npy', f(2, S, E)); np.save('mk.npy', f(2, S, M)); np.save('mv.npy', f(2, S, V))
w, b, wo, bo = f(3 * E, E), f(3 * E), f(E, E), f(E)
np.savez('torch.npz', **{'layer.self_attn.in_proj_weight': w, 'layer.self_attn.in_proj_bias': b, 'layer.self_attn.out_proj.weight': wo,
                         'layer.self_attn.out_proj.bias': bo, 'norm.weight': bo})
np.savez('ours.npz', w_q=w[:E].T, w_k=w[E:2*E].T, w_v=w[2*E:].T, b_q=b[:E], b_k=b[E:2*E], b_v=b[2*E:], w_o=wo.T, b_o=bo)
np.savez('packed.npz', w_qkv=w.T, b_qkv=b, w_o=wo.T, b_o=bo)
heads = lambda m: m.T.reshape(E, 3, 4).transpose(1, 0, 2)
np.savez('heads.npz', w_q=heads(w[:E]), w_k=heads(w[E:2*E]), w_v=heads(w[2*E:]), b_q=b[:E], b_k=b[E:2*E], b_v=b[2*E:], w_o=wo.T, b_o=bo)
wq, wk, wv = f(E, E), f(E, M), f(E, V)
np.savez('torch3.npz', q_proj_weight=wq, k_proj_weight=wk, v_proj_weight=wv, in_proj_bias=b, **{'out_proj.weight': wo, 'out_proj.bias': bo})
np.savez('ours3.npz', w_q=wq.T, w_k=wk.T, w_v=wv.T, b_q=b[:E], b_k=b[E:2*E], b_v=b[2*E:], w_o=wo.T, b_o=bo)
def mha(x, mk, mv, wq, wk, wv):
    split = lambda y: y.reshape(2, -1, 3, 4).transpose(0, 2, 1, 3)
    q, k, v = split(x @ wq.T + b[:E]), split(mk @ wk.T + b[E:2*E]), split(mv @ wv.T + b[2*E:])
    s = q @ k.transpose(0, 1, 3, 2) / 2; p = np.exp(s - s.max(-1, keepdims=True)); p /= p.sum(-1, keepdims=True)
    return (p @ v).transpose(0, 2, 1, 3).reshape(2, L, E) @ wo.T + bo
x, m, mk, mv = (a(n + '.npy').astype(float) for n in ('x', 'm', 'mk', 'mv'))
W = w[:E], w[E:2*E], w[2*E:]
np.savez('want.npz', self=mha(x, x, x, *W), cross=mha(x, m, m, *W), three=mha(x, mk, mv, wq, wk, wv))"
    attn mha x.npy ours.npz --heads 3 -o ours.npy --stage q=q.npy --stage z=z.npy --average --weights w.npy
    attn mha x.npy torch.npz --heads 3 --torch -o torch.npy
    attn mha x.npy packed.npz --heads 3 -o packed.npy
    attn mha x.npy heads.npz --heads 3 -o heads.npy
    attn mha x.npy torch.npz --heads 3 --torch --memory m.npy -o cross.npy
    attn mha x.npy torch3.npz --heads 3 --torch --memory mk.npy --memory-v mv.npy -o torch3.npy
    attn mha x.npy ours3.npz --heads 3 --memory mk.npy --memory-v mv.npy -o ours3.npy --stage k=k_t.npy --layout blhd
    numpy "
want = a('want.npz')
for name, key in dict(ours='self', torch='self', packed='self', heads='self', cross='cross', torch3='three', ours3='three').items():
    got = a(name + '.npy')
    assert got.shape == (2, 5, 12) and np.abs(got - want[key]).max() < 1e-5, name
assert a('q.npy').shape == (2, 3, 5, 4) and a('z.npy').shape == (2, 3, 5, 4) and a('w.npy').shape == (2, 5, 5)
assert a('k_t.npy').shape == (2, 7, 3, 4)"
}

@test "an X of f64 is computed in f64, whatever the weights are" {
    printf '1,0,1,0\n0,1,0,1\n' > x.csv
    numpy "
r = np.random.default_rng(3)
np.savez('w.npz', **{n: r.standard_normal((4, 4)).astype('f4') for n in ('w_q', 'w_k', 'w_v', 'w_o')})"
    attn mha x.csv w.npz --heads 2 -o out.npy --stage q=q.npy
    attn explain mha x.csv w.npz --heads 2 > /dev/null
    numpy "
w = a('w.npz')
assert a('out.npy').dtype == 'f8' and a('q.npy').dtype == 'f8'
x = np.array([[1, 0, 1, 0], [0, 1, 0, 1.]])
assert np.abs(a('q.npy').transpose(1, 0, 2).reshape(2, 4) - x @ w['w_q']).max() < 1e-15"
}

@test "grouped heads in multi-head attention" {
    numpy "
r = np.random.default_rng(9); f = lambda *s: r.standard_normal(s).astype('f4') / 3
np.save('x.npy', f(5, 8))
w = dict(w_q=f(8, 8), w_k=f(8, 4), w_v=f(8, 4), w_o=f(8, 8))
np.savez('grouped.npz', **w)
rep = lambda m: np.concatenate([m[:, :2]] * 2 + [m[:, 2:]] * 2, 1)
np.savez('full.npz', w_q=w['w_q'], w_k=rep(w['w_k']), w_v=rep(w['w_v']), w_o=w['w_o'])"
    attn mha x.npy grouped.npz --heads 4 --kv-heads 2 --causal -o grouped.npy
    attn mha x.npy full.npz --heads 4 --causal -o full.npy
    numpy "assert np.abs(a('grouped.npy') - a('full.npy')).max() < 1e-6"
    run attn explain mha x.npy grouped.npz --heads 4 --kv-heads 2
    lines "2 query heads share one key and value head"
}
