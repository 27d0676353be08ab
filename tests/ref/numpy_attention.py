# SPDX-License-Identifier: Apache-2.0
"""Attention in NumPy float64, whole arrays at a time: written independently of ref/attn_ref.c, to be compared with it."""
import numpy as np

INF = np.inf


def default_slopes(heads):
    """ALiBi: 2^(-8(h+1)/H), else the slopes of the power of two below H and every second one of twice as many."""
    power = 1 << (heads.bit_length() - 1)
    first = [2.0 ** (-8 * (h + 1) / power) for h in range(power)]
    more = [2.0 ** (-8 * (h + 1) / (2 * power)) for h in range(2 * power)]
    return np.array((first + more[0::2])[:heads])


def philox4x32_10(counter, key):
    """Arrays of uint64 holding 32-bit words: counter (4, n), key (2,)."""
    c0, c1, c2, c3 = (np.asarray(c, np.uint64) for c in counter)
    k0, k1 = int(key[0]), int(key[1])
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (p1 >> np.uint64(32)) ^ c1 ^ np.uint64(k0), p1 & low, (p0 >> np.uint64(32)) ^ c3 ^ np.uint64(k1), p0 & low
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3])


def generated_keep(seed, p, shape, first):
    """(b, h, i, j) is kept where its random fraction is at least p."""
    b, h, i, j = (a.ravel() for a in np.indices(shape))
    words = philox4x32_10(((j // 4) & 0xFFFFFFFF, (i + first[2]) & 0xFFFFFFFF, (h + first[1]) & 0xFFFFFFFF, (b + first[0]) & 0xFFFFFFFF),
                          (seed & 0xFFFFFFFF, seed >> 32))
    fraction = words[j % 4, np.arange(j.size)].astype(np.float64) / 2.0**32
    return (fraction >= p).reshape(shape)


def visible_keys(shape, o):
    """Boolean [B,H,Lq,Lk], and pos [B,1,Lq,1]."""
    B, H, Lq, Lk = shape
    kv_len = np.broadcast_to(np.asarray(o.get("kv_len", Lk)), B).reshape(B, 1, 1, 1)
    q_len = np.broadcast_to(np.asarray(o.get("q_len", Lq)), B).reshape(B, 1, 1, 1)
    if "offset" in o:
        offset = np.broadcast_to(np.asarray(o["offset"]), B).reshape(B, 1, 1, 1)
    else:
        offset = kv_len - q_len if o.get("align") == "bottom-right" else np.zeros((B, 1, 1, 1), int)
    i, j = np.arange(Lq).reshape(Lq, 1), np.arange(Lk)
    pos = offset + i
    see = np.broadcast_to((j < kv_len) & (i < q_len), shape).copy()
    if o.get("causal"):
        see &= j <= pos
    if "window" in o:
        left, right = o["window"]
        see &= (j >= pos - left) if left >= 0 else True
        see &= (j <= pos + right) if right >= 0 else True
    if "mask" in o and o["mask"].dtype.kind != "f":
        see &= (o["mask"] == 0) if o.get("drop") else (o["mask"] != 0)
    for name in ("mask", "bias"):
        if name in o and o[name].dtype.kind == "f":
            see &= ~np.isneginf(o[name])
    return see, pos, np.broadcast_to(i < q_len, (B, H, Lq, 1))


def attention(q, k, v, o):
    """q [B,H,Lq,d], k [B,Hkv,Lk,d], v [B,Hkv,Lk,dv]; a dictionary of every stage."""
    (B, H, Lq, d), (Hkv, Lk) = q.shape, k.shape[1:3]
    k, v = np.repeat(k, H // Hkv, axis=1), np.repeat(v, H // Hkv, axis=1)
    s = {"scores": q @ k.swapaxes(2, 3)}
    s["scaled"] = s["scores"] * o.get("scale", 1 / np.sqrt(d))
    cap = o.get("softcap", 0)
    s["capped"] = cap * np.tanh(s["scaled"] / cap) if cap else s["scaled"]
    see, pos, real_row = visible_keys((B, H, Lq, Lk), o)
    logits = s["capped"].copy()
    for name in ("mask", "bias"):
        if name in o and o[name].dtype.kind == "f":
            logits = logits + np.asarray(o[name], np.float64)
    if "alibi" in o:
        slopes = default_slopes(H) if o["alibi"] is True else o["alibi"]
        logits = logits - np.broadcast_to(slopes, (B, H)).reshape(B, H, 1, 1) * abs(pos - np.arange(Lk))
    s["masked"] = np.where(see, logits, -INF)
    sink = np.where(real_row, np.asarray(o["sinks"]).reshape(1, H, 1, 1) if "sinks" in o else -INF, -INF)
    everything = np.concatenate([s["masked"], sink], axis=3)
    top = everything.max(axis=3, keepdims=True)
    powers = np.exp(everything - np.where(np.isneginf(top), 0, top))
    total = powers.sum(axis=3, keepdims=True)
    weights = powers[..., :-1] / np.where(total == 0, 1, total)
    s["lse"] = (np.log(total) + top)[..., 0]
    s["row_max"] = s["masked"].max(axis=3, initial=-INF)
    s["entropy"] = -(weights * np.log(np.where(weights > 0, weights, 1))).sum(axis=3)
    p = o.get("dropout", 0)
    keep = o["keep"] if "keep" in o else generated_keep(o.get("seed", 0), p, (B, H, Lq, Lk), o.get("first", (0, 0, 0)))
    s["weights"] = weights * keep / (1 - p) if p < 1 else weights * 0
    s["output"] = s["weights"] @ v
    s["mass"] = s["weights"].sum(axis=2)
    s["average"] = s["weights"].mean(axis=1)
    s["visible"] = see
    return s
