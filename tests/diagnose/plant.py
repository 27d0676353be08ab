# SPDX-License-Identifier: Apache-2.0
"""Attention in NumPy as somebody would write it, and every mistake that `attn diagnose` names, made by hand.

Nothing here comes from the library. A problem is a dictionary: q, k, v [B,H,L,d] and options by the names of the command (mask, bias,
causal, align, window, kv_len, softcap, scale, alibi, sinks, dropout, keep). A mistake is the id of a candidate, with ":variant" where
people make it in more than one way. attention(problem, mistakes) goes through the stages in order; each is the right line and the wrong
ones."""
import numpy as np

INF = np.inf
FINITE = {"mask-finite-1e4": -1e4, "mask-finite-1e9": -1e9, "mask-finite-min": float(np.finfo(np.float32).min)}


def variants(mistakes):
    """{id: variant} of ids such as "alibi-wrong-heads:kv-heads"."""
    return {name.partition(":")[0]: name.partition(":")[2] for name in mistakes}


def bf16(x):
    """Rounded to bf16, nearest even."""
    bits = np.array(x, np.float32).view(np.uint32).astype(np.uint64)
    return (((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) << 16).astype(np.uint32).view(np.float32).reshape(np.shape(x))


def f16(x):
    with np.errstate(over="ignore"):
        return x.astype(np.float16)


def rounded(x, m):
    """What a tensor of 16 bits keeps of x."""
    if "computed-f16" in m:
        return f16(x).astype(x.dtype)
    return bf16(x).astype(x.dtype) if "computed-bf16" in m else x


def product(a, b, m):
    if "f16-accumulators" not in m:
        return a @ b
    total = np.zeros(np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) + (a.shape[-2], b.shape[-1]), np.float16)
    for t in range(a.shape[-1]):
        total = f16(total + a[..., :, t, None] * b[..., None, t, :])
    return total.astype(a.dtype)


# ------------------------------------------------------------------ heads


def misread(x):
    """The memory of (B,H,L,d) taken for (B,L,H,d)."""
    B, H, L, d = x.shape
    return x.reshape(B, L, H, d).swapaxes(1, 2)


def not_transposed(x):
    """The memory of (B,L,H,d) under the shape (B,H,L,d)."""
    return np.ascontiguousarray(x.swapaxes(1, 2)).reshape(x.shape)


def delivered(x, m):
    """[B,H,L,d_v] as it is handed on."""
    if m.get("layout-blhd") == "roles":
        return x.swapaxes(1, 2)
    return not_transposed(x) if "output-not-transposed" in m or m.get("layout-blhd") == "output-too" else x


def row_positions(p, m, name, B, L, Lk):
    """[B,L]: where the rows (q) or keys (k, v) of an array turn to."""
    offset = (lengths(p, B, Lk).reshape(B, 1) if p.get("align") == "bottom-right" else L) - L if name == "q" else 0
    extent = (Lk if p.get("align") == "bottom-right" else L) - L if name == "q" else 0
    place, counted = np.arange(L) + np.zeros((B, 1), int) + offset, np.arange(L) + np.zeros((B, 1), int) + extent
    right = np.take_along_axis(np.broadcast_to(p["positions"], (B, Lk)), place, 1) if "positions" in p else place
    if name == "q" and "rope-off-by-one" in m:
        return right + (-1 if m["rope-off-by-one"] == "behind" else 1)
    if name == "q" and "rope-rows-from-zero" in m:
        return np.arange(L) + np.zeros((B, 1), int)
    everywhere = m.get("rope-pads-counted") in ("", "rows" if name == "q" else "keys")
    return counted if "rope-pads-counted" in m and everywhere else right


def rope_of(p, m):
    """(theta, interleaved, sign)"""
    theta, interleaved = p["rope"]
    theta = float(m.get("rope-theta", theta))
    return theta, interleaved != ("rope-other-pairs" in m), -1 if "rope-backwards" in m else 1


def turn(x, at, rope):
    """Pairs of the last axis of x [B,H,L,d] at the positions [B,L]; the angles are those of the dtype of x."""
    (theta, interleaved, sign), d = rope, x.shape[-1]
    a, b = (slice(0, None, 2), slice(1, None, 2)) if interleaved else (slice(0, d // 2), slice(d // 2, None))
    frequency = x.dtype.type(theta) ** (-2 * np.arange(d // 2) / d).astype(x.dtype)
    angle = at[:, None, :, None].astype(x.dtype) * frequency
    out, cos, sin = x.copy(), np.cos(angle), sign * np.sin(angle)
    out[..., a], out[..., b] = x[..., a] * cos - x[..., b] * sin, x[..., b] * cos + x[..., a] * sin
    return out


def turned(p, m, name, x, Lk):
    """q, k or v after RoPE."""
    wanted = {"q": not m.keys() & {"rope-ignored", "rope-not-on-q"}, "k": not m.keys() & {"rope-ignored", "rope-not-on-k"},
              "v": "rope-on-v" in m}
    if "rope" not in p or not wanted[name] or "rope-before-split" in m:
        return x
    return turn(x, row_positions(p, m, name, x.shape[0], x.shape[2], Lk), rope_of(p, m))


def share_heads(x, H, m):
    """Query head h reads KV head h / (H/Hkv)."""
    h, Hkv = np.arange(H), x.shape[1]
    if "gqa-tiled" in m:
        return x[:, h % Hkv]
    if "kv-not-shared" in m:
        return x[:, np.minimum(h, Hkv - 1)]
    if "kv-first-head" in m:
        return x[:, 0 * h]
    return x[:, h // (H // Hkv)]


def read_inputs(p, m, real):
    q, k, v = (turned(p, m, name, rounded(p[name].astype(real), m), p["k"].shape[2]) for name in "qkv")
    if m.get("layout-blhd") == "roles":
        q, k, v = q.swapaxes(1, 2), k.swapaxes(1, 2), v.swapaxes(1, 2)
    elif m.get("layout-blhd") == "strides-of-v":
        v = not_transposed(v)
    elif "layout-blhd" in m:
        q, k, v = misread(q), misread(k), misread(v)
    k, v = share_heads(k, q.shape[1], m), share_heads(v, q.shape[1], m)
    if "qk-swapped" in m:
        q, k = k, q
    if "v-as-k" in m:
        k = v
    if "k-as-v" in m:
        v = share_heads(turned(p, m, "k", p["k"].astype(real), p["k"].shape[2]), q.shape[1], m) if "v-as-k" in m else k
    return q, k, v


# ------------------------------------------------------------------ scores


def dot(q, k, m):
    return product(q, k, m) if "k-not-transposed" in m else product(q, k.swapaxes(2, 3), m)


def scale_of(p, m, q):
    H, d = q.shape[1], q.shape[3]
    right = p.get("scale", 1 / np.sqrt(d))
    padded = -(-d // 32) * 32 if m.get("scale-padded") == "32" else max(8, 1 << (d - 1).bit_length())
    model = p["x"].shape[2] if m.get("scale-sqrt-d_model") == "width" else H * d
    wrong = {"no-scale": 1, "scale-d_k": 1 / d, "scale-sqrt-d_model": 1 / np.sqrt(model), "scale-multiplied": 1 / right,
             "scale-twice": right * right, "scale-padded": 1 / np.sqrt(padded)}
    return next((wrong[name] for name in wrong if name in m), right)


def cap(x, p, m):
    c = p.get("softcap", 0)
    return c * np.tanh(x / c) if c and "no-softcap" not in m else x


def slopes(heads):
    """ALiBi: 2^(-8(h+1)/H), else those of the power of two below H and every second one of twice as many."""
    n = 1 << (heads.bit_length() - 1)
    return np.array([2 ** (-8 * (h + 1) / n) for h in range(n)] + [2 ** (-4 * (2 * h + 1) / n) for h in range(heads - n)])


def alibi(p, m, distance, heads):
    """What is added: -slope * |pos - j|."""
    if "alibi" not in p or "alibi-ignored" in m:
        return 0
    s = slopes(heads) if p["alibi"] is True else np.asarray(p["alibi"], float)
    if "alibi-wrong-heads" in m:
        kv_heads = p["k"].shape[1]
        s = {"": lambda: np.array([2 ** (-8 * (h + 1) / heads) for h in range(heads)]),
             "next-power": lambda: slopes(1 << (heads - 1).bit_length())[:heads],
             "kv-heads": lambda: np.repeat(slopes(kv_heads), heads // kv_heads)}[m["alibi-wrong-heads"]]()
    if "alibi-by-columns" in m:
        return s[:heads, None, None] * np.arange(distance.shape[-1])
    bias = -s[:heads, None, None] * abs(distance)
    return -bias if "alibi-sign-flipped" in m else bias


# ------------------------------------------------------------------ which keys a row may see


def lengths(p, B, Lk):
    return np.broadcast_to(p.get("kv_len", Lk), B).reshape(B, 1, 1, 1)


def positions(p, m, B, Lq, Lk, of_causal=False):
    """[B,1,Lq,1]: where row i stands. The wrong corner may be that of causal alone."""
    wrong = m.get("causal-other-align") == "everywhere" or (of_causal and "causal-other-align" in m)
    bottom = (p.get("align") == "bottom-right") != wrong
    return np.arange(Lq)[:, None] + (lengths(p, B, Lk) - Lq if bottom else np.zeros((B, 1, 1, 1), int))


def causal(m, pos, j):
    if "causal-ignored" in m:
        return True
    if "causal-off-by-one" in m:
        return j <= pos + 1
    if "causal-strict" in m:
        return j < pos
    return j >= pos if "causal-reversed" in m else j <= pos


def window(p, m, pos, j):
    left, right = p["window"]
    if "window-ignored" in m:
        return True
    left += ("window-left-plus-one" in m) - ("window-left-minus-one" in m)
    right += ("window-right-plus-one" in m) - ("window-right-minus-one" in m)
    return (j >= pos - left if p["window"][0] >= 0 else True) & (j <= pos + right if p["window"][1] >= 0 else True)


def visible(p, m, shape):
    """[B,H,Lq,Lk], from all that hides but a bias of -inf."""
    B, _, Lq, Lk = shape
    i, j = np.arange(Lq)[:, None], np.arange(Lk)
    see = np.ones(shape, bool)
    if "kv_len" in p and "length-ignored" not in m:
        see &= (i if "mask-on-queries" in m else j) < lengths(p, B, Lk)
    if p.get("causal"):
        see &= causal(m, positions(p, m, B, Lq, Lk, True), j)
    if "window" in p:
        see &= window(p, m, positions(p, m, B, Lq, Lk), j)
    if "mask" in p and "mask-ignored" not in m:
        mask = np.broadcast_to(p["mask"], shape)
        mask = p["mask"].swapaxes(-1, -2) if "mask-on-queries" in m and p["mask"].shape[-2] == 1 else mask
        see &= ~mask if "mask-flipped" in m else mask
    return see


# ------------------------------------------------------------------ logits, weights, output


def logits(p, m, s):
    """Capped, added to, hidden."""
    x = s["scaled"] if "softcap-after-mask" in m else cap(s["scaled"], p, m)
    x, s["capped"] = rounded(x, m), x
    Lq, Lk = x.shape[2:]
    added = alibi(p, m, positions(p, m, x.shape[0], Lq, Lk) - np.arange(Lk), x.shape[1]) + np.zeros_like(x)
    s["see"] = visible(p, m, x.shape)
    if "mask-multiplied" in m:
        x = x * (p["bias"] if "bias" in p else s["see"]).astype(x.dtype)
    elif "bias" in p and not m.keys() & {"mask-ignored", "mask-added-after-softmax"}:
        added = added + p["bias"].astype(x.dtype)
    x, s["added"] = x + added.astype(x.dtype), added
    number = next((FINITE[name] for name in FINITE if name in m), -INF)
    if not m.keys() & {"weights-not-renormalised", "mask-added-after-softmax"} and ("mask-multiplied" not in m or "bias" in p):
        x = x.astype(np.float64) if "f64" in m.values() else x  # a mask of NumPy's own dtype takes the scores along
        with np.errstate(over="ignore"):
            hidden = np.full_like(x, number) if "set" in m.values() else x + np.asarray(number, x.dtype)
            x = np.where(s["see"], x, hidden)
    return cap(x, p, m) if "softcap-after-mask" in m else x


def softmax(x, axis, sink, naive=False):
    """A group without a key: weights 0; naive: NaN."""
    top = np.maximum(x.max(axis=axis, keepdims=True), sink)
    if naive:
        powers = np.exp(x - top)
        return powers / powers.sum(axis=axis, keepdims=True)
    powers = np.exp(x - np.where(np.isneginf(top), 0, top))
    total = powers.sum(axis=axis, keepdims=True) + np.exp(sink - np.where(np.isneginf(top), 0, top))
    return powers / np.where(total == 0, 1, total)


def softmax_axis(m):
    return -2 if "softmax-over-columns" in m else (-2, -1) if "softmax-over-all-cells" in m else 1 if "softmax-over-heads" in m else -1


def sinks(p, m, heads, real):
    if "sinks" not in p or "sink-ignored" in m:
        return np.full((heads, 1, 1), -INF, real)
    sink = np.asarray(p["sinks"], real).reshape(heads, 1, 1)
    return 0 * sink if "sink-as-zero-logit" in m else sink


def softmax_sink_late(x, sink):
    """The maximum of the keys alone: what the sink adds may overflow."""
    top = x.max(axis=-1, keepdims=True)
    powers = np.exp(x - top)
    with np.errstate(over="ignore"):
        return powers / (powers.sum(axis=-1, keepdims=True) + np.exp(sink - top))


def softmax_no_max(x):
    """Powers as they are: they overflow, or all of a row become 0. Rows that see nothing are cared for."""
    with np.errstate(over="ignore", invalid="ignore"):
        powers = np.exp(x)
        return np.where(np.isneginf(x).all(axis=-1, keepdims=True), 0, powers / powers.sum(axis=-1, keepdims=True))


def weigh(p, m, s):
    x, real = s["masked"], s["masked"].dtype
    if "no-softmax" in m:
        s["shares"] = x
        return x
    sink = sinks(p, m, x.shape[1], real)
    if "max-not-subtracted" in m:
        w = softmax_no_max(x)
    elif "sink-left-out-of-max" in m:
        w = softmax_sink_late(x, sink)
    else:
        w = softmax(x, softmax_axis(m), sink, "naive" in m.values())
    s["shares"] = w
    if "weights-not-renormalised" in m:
        w = w * s["see"]
    if "mask-added-after-softmax" in m:
        hidden = -1e9 if m["mask-added-after-softmax"] == "-1e9" else -INF
        w = w + (np.where(s["see"], 0, hidden) + p.get("bias", 0)).astype(real)
    if "dropout" in p and p["dropout"] > 0:
        w = w * p["keep"] / (1 if "dropout-not-scaled" in m else real.type(1 - p["dropout"]))
    if "dropout-left-on" in m:
        keep = np.random.default_rng(5).random(w.shape) >= 0.25
        w = w * keep / real.type(0.75)
    return w


def attention(p, mistakes=(), real=np.float64):
    """All stages in that precision. "output" is [B,H,Lq,d_v] as the person who made the mistakes delivers it."""
    m, s = variants(mistakes), {}
    q, k, v = read_inputs(p, m, real)
    s["q"], s["k"], s["v"], s["scale"], s["cap"] = q, k, v, scale_of(p, m, q), p.get("softcap", 0)
    s["scores"], s["size"] = dot(q, k, m), dot(abs(q), abs(k), {name: "" for name in m if name == "k-not-transposed"})
    s["scaled"] = rounded(rounded(s["scores"], m) * real(s["scale"]), m)
    s["masked"] = logits(p, m, s)
    s["weights"], s["axis"], s["softmax"] = rounded(weigh(p, m, s), m), softmax_axis(m), "no-softmax" not in m
    with np.errstate(invalid="ignore"):
        out = product(s["weights"], v, m)
    empty = np.isneginf(s["masked"]).all(axis=-1)
    if "masked-rows-nan" in m and "sinks" not in p:
        out[empty] = np.nan
    if "masked-rows-mean" in m and "sinks" not in p:
        out, s["mean"] = np.where(empty[..., None], v.mean(axis=2, keepdims=True), out), True
    s["output"] = rounded(delivered(out, m), m)
    return s
