# SPDX-License-Identifier: Apache-2.0
"""Multi-head attention around plant.attention, with the mistakes that people make at its seams.

A problem has x [B,L,width], w_q w_k w_v (width, H*d), w_o, b_q b_k b_v b_o, heads, kv_heads and the options of plant.py."""
import numpy as np

import bound
import plant

# What stands in the place of the right weights of Q, K, V.
SWAPS = {"w_qk-swapped": "kqv", "w_qv-swapped": "vkq", "w_kv-swapped": "qvk", "w_qkv-rotated": "kvq", "w_qkv-rotated-back": "vqk"}


def weights_of(p, m, real):
    """{"q": (W, b), ...} as the program with the mistakes has them."""
    w = {name: p["w_" + name].astype(real) for name in "qkvo"}
    b = {name: p["b_" + name].astype(real) for name in "qkvo"}
    for swap, order in SWAPS.items():
        if swap in m:
            w.update({place: p["w_" + name].astype(real) for place, name in zip("qkv", order)})
            if m[swap] == "with-biases":
                b.update({place: p["b_" + name].astype(real) for place, name in zip("qkv", order)})
    for name in "qkvo":
        w[name] = w[name].T if f"w_{name}-transposed" in m else w[name]
        b[name] = 0 * b[name] if f"b_{name}-missing" in m else b[name]
    return {name: (w[name], b[name]) for name in "qkvo"}


def split(x, heads, m):
    """(B,L,H*d) -> (B,H,L,d)"""
    B, L, width = x.shape
    if "heads-reshape-only" in m:
        return x.reshape(B, heads, L, width // heads)
    return x.reshape(B, L, heads, width // heads).swapaxes(1, 2)


def concat(z, m):
    """(B,H,L,d) -> (B,L,H*d)"""
    B, H, L, d = z.shape
    if "concat-reshape-only" in m:
        return z.reshape(B, L, H * d)
    if "concat-interleaved" in m:
        return z.transpose(0, 2, 3, 1).reshape(B, L, d * H)
    if "concat-reversed" in m:
        z = z[:, ::-1]
    return z.swapaxes(1, 2).reshape(B, L, H * d)


def heads_of(p, name):
    return p["heads"] if name == "q" else p.get("kv_heads", p["heads"])


def mha(p, mistakes=(), real=np.float64):
    """The stages of plant.attention, and "z" before and "output" after the last projection."""
    m = plant.variants(mistakes)
    w = weights_of(p, m, real)
    x = {"q": p["x"].astype(real), "k": p.get("memory", p["x"]).astype(real)}
    x["v"] = x["k"]
    whole = {name: x[name] @ w[name][0] + w[name][1] for name in "qkv"}
    if "rope-before-split" in m:
        for name in "qk":
            at = plant.row_positions(p, m, name, x[name].shape[0], x[name].shape[1], x["k"].shape[1])
            whole[name] = plant.turn(whole[name][:, None], at, plant.rope_of(p, m))[:, 0]
    qkv = {name: split(whole[name], heads_of(p, name), m) for name in "qkv"}
    s = plant.attention({**p, **qkv}, mistakes, real)
    s["x"], s["w"], s["z"] = x, w, concat(s["output"], m)
    with np.errstate(invalid="ignore"):
        s["output"] = s["z"] if "w_o-missing" in m else s["z"] @ w["o"][0] + w["o"][1]
    return s


def mha_error(p, mistakes, s, dtype):
    """The chain of bounds of docs/numerics.md, element by element for the right answer."""
    m = plant.variants(mistakes)
    inexact = []
    for name in "qkv":
        error = bound.projected(s["x"][name], 0 * s["x"][name], *s["w"][name], dtype)
        if "rope" in p and name != "v":
            error = error + error.max() + bound.turning(p, s[name], dtype).max(initial=0)
        error = plant.share_heads(split(error, heads_of(p, name), m), p["heads"], m)
        inexact.append(np.full_like(s[name], error.max()) if m else error)  # a mistake may have moved them elsewhere
    error = concat(plant.delivered(bound.output_error(s, dtype, inexact), m), m)
    return error if "w_o-missing" in m else bound.projected(s["z"], error, *s["w"]["o"], dtype)


# ------------------------------------------------------------------ both kinds of problems


def given(p, mistakes, dtype):
    """The output of that program: f32 and f64 in that arithmetic, f16 and bf16 in f32, rounded at the end (bf16 still as f32)."""
    real = np.float64 if dtype == "f64" else np.float32
    out = (mha if "x" in p else plant.attention)(p, mistakes, real)["output"].astype(real)
    return plant.f16(out) if dtype == "f16" else plant.bf16(out) if dtype == "bf16" else out


def wanted(p, mistakes, dtype):
    """(output in float64, bound of each element) of a program with those mistakes."""
    if "x" in p:
        s = mha(p, mistakes)
        error = mha_error(p, mistakes, s, dtype)
    else:
        s = plant.attention(p, mistakes)
        inexact = [bound.turning(p, s[name], dtype) for name in "qkv"] if "rope" in p else None
        error = plant.delivered(bound.output_error(s, dtype, inexact), plant.variants(mistakes))
    return s["output"], bound.stored(error, s["output"], dtype)
