# SPDX-License-Identifier: Apache-2.0
"""How other systems compute attention where they disagree, in NumPy.

Each has the corner that it anchors causal, window and ALiBi at, what a row gives that sees nothing, when it applies the softcap, what True
in a bool mask means, and whether a window of W keys counts the key at the row's own position."""
import numpy as np

import plant
import problems

# name: (anchor, row that sees nothing, softcap before the mask, True may be seen, the window counts its own key)
RULES = {
    "torch": ("top-left", "zero", True, True, False),
    "torch-mha": ("top-left", "nan", True, False, False),
    "onnx-1.21": ("top-left", "nan", False, True, False),
    "onnx-1.22": ("top-left", "nan", True, True, False),
    "onnx-1.23": ("cache", "zero", True, True, False),
    "flash2": ("bottom-right", "zero", True, True, False),
    "flash3": ("bottom-right", "zero", True, True, False),
    "hf-eager": ("bottom-right", "mean", True, True, True),
    "mlx": ("bottom-right", "mean", True, True, False),
    "jax": ("top-left", "mean", True, True, False),
    "ggml": ("top-left", "zero", True, True, False),
    "ort": ("bottom-right", "zero", True, True, True),  # no row sees nothing there: -10000 is added to what is hidden
}


def anchored(p, anchor, B, Lq, Lk):
    """The position of row 0 in each batch item. "cache": ONNX 1.23 counts from the end of an external cache, else from the top left."""
    if anchor == "bottom-right" or (anchor == "cache" and "kv_len" in p):
        return plant.lengths(p, B, Lk) - Lq
    return np.zeros((B, 1, 1, 1), int)


def visible(name, p, shape):
    anchor, _, _, keep, inclusive = RULES[name]
    B, _, Lq, Lk = shape
    pos, j = anchored(p, anchor, B, Lq, Lk) + np.arange(Lq)[:, None], np.arange(Lk)
    see = np.broadcast_to(j < plant.lengths(p, B, Lk), shape).copy()
    if p.get("causal"):
        see &= j <= pos
    if "window" in p:
        left, right = p["window"]
        see &= (j >= pos - (left - inclusive)) & (j <= pos + right)
    if "mask" in p:
        see &= p["mask"] if keep else ~p["mask"]
    return see, pos - j


def answer(name, p, real=np.float64):
    """The output [B,H,Lq,d_v] of that system."""
    _, empty, cap_first, _, _ = RULES[name]
    q, k, v = (p[n].astype(real) for n in "qkv")
    k, v = plant.share_heads(k, q.shape[1], {}), plant.share_heads(v, q.shape[1], {})
    x = q @ k.swapaxes(2, 3) * real(plant.scale_of(p, {}, q))
    x = plant.cap(x, p, {}) if cap_first else x
    see, distance = visible(name, p, x.shape)
    if "bias" in p:
        x = x + p["bias"].astype(real)
    x = x + np.asarray(plant.alibi(p, {}, distance, q.shape[1]), real)
    x = np.where(see, x, x + real(-1e4) if name == "ort" else -np.inf)
    x = x if cap_first else plant.cap(x, p, {})
    if name == "onnx-1.21" or name == "onnx-1.22":
        x = np.where(p.get("causal", False) and "mask" in p and p["mask"], np.nan, x)  # 0 * -inf where a bool mask meets is_causal
    with np.errstate(invalid="ignore"):
        out = plant.softmax(x, -1, plant.sinks(p, {}, q.shape[1], real)) @ v
    blind = np.isneginf(x).all(axis=-1)[..., None] if "sinks" not in p else np.zeros(1, bool)
    return np.where(blind, {"zero": 0, "nan": np.nan, "mean": v.mean(axis=2, keepdims=True)}[empty], out)


# ------------------------------------------------------------------ data

# What each is tried on.
FEATURES = {
    "torch": ["causal oblong", "mask empty", "causal", "bias gqa"],
    "torch-mha": ["mask", "mask empty", "padding", "mask causal square"],
    "onnx-1.21": ["causal oblong", "mask empty", "softcap mask", "softcap causal square", "mask causal square", "causal kv_len"],
    "onnx-1.22": ["causal oblong", "mask empty", "softcap mask", "mask causal square", "causal kv_len"],
    "onnx-1.23": ["causal oblong", "mask empty", "softcap mask", "window causal", "causal kv_len", "mask causal square"],
    "flash2": ["causal oblong", "causal tall", "window", "softcap causal", "alibi"],
    "flash3": ["causal oblong", "causal tall", "window", "softcap causal"],
    "hf-eager": ["causal oblong", "mask empty", "window causal", "softcap causal", "sinks causal"],
    "mlx": ["causal oblong", "causal tall", "mask empty", "sinks causal", "gqa causal"],
    "jax": ["causal oblong", "mask empty", "window", "causal kv_len", "bias"],
    "ggml": ["mask empty", "softcap bias", "sinks mask", "gqa bias"],
    "ort": ["causal oblong", "causal tall", "mask empty", "window causal", "softcap causal", "padding empty", "gqa causal"],
}


def problem(name, features, seed):
    """Windows of HF and ORT are those of causal models: none to the right. No --mask-drop: what True means is the system's own matter."""
    p = problems.make(features, seed)
    p.pop("drop", None)
    if name in ("hf-eager", "ort") and "window" in p:
        p["window"] = (2, 0)
    return p


def given(name, p):
    with np.errstate(invalid="ignore"):
        return answer(name, p, np.float32).astype(np.float32)


def jobs():
    """(name, problem), two for each set of features."""
    numbered = [(name, n, features) for name, sets in FEATURES.items() for n, features in enumerate(sets)]
    return [(name, problem(name, features, 50 * n + s)) for name, n, features in numbered for s in (0, 1)]
