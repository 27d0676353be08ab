#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pages made without the command, by the data format of docs/page.md: for data that the command cannot be made to write, and
numbers computed by NumPy alone."""
import base64
import json
import pathlib

import numpy as np

EXACT_CELLS = 65536
DTYPES = {"float32": "f32", "float64": "f64", "uint8": "u8", "int32": "i32"}


def plain(value):
    """Non-finite numbers as the strings that the format wants."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return "nan" if np.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def data_elements(info, arrays):
    info = dict(info, arrays={name: {"shape": list(a.shape), "dtype": DTYPES[str(a.dtype)]} for name, a in arrays.items()})
    text = json.dumps(plain(info), ensure_ascii=False).replace("</", "<\\/")
    parts = [f'<script type="application/json" id="attn-data">{text}</script>']
    for name, array in arrays.items():
        little = base64.b64encode(np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes()).decode()
        parts.append(f'<script type="text/plain" class="attn-array" id="attn-array-{name}">{little}</script>')
    return "\n".join(parts)


def write_page(web, path, info, arrays):
    """web: the build's folder with page_before.html and page_after.html."""
    before, after = (pathlib.Path(web, f"page_{part}.html").read_text(encoding="utf-8") for part in ("before", "after"))
    pathlib.Path(path).write_text(before + data_elements(info, arrays) + after, encoding="utf-8")


def hidden_cells(shape, options, mask=None, bias=None):
    """Which keys each row does not see: [B,H,Lq,Lk]"""
    B, H, Lq, Lk = shape
    offset = np.broadcast_to(np.asarray(options.get("offset") or [0]), (B,))
    away = np.arange(Lk)[None, None, :] - (offset[:, None, None] + np.arange(Lq)[None, :, None])
    hidden = np.zeros((B, Lq, Lk), bool)
    if options.get("causal"):
        hidden |= away > 0
    if options.get("window"):
        left, right = options["window"]
        hidden |= ((left >= 0) & (-away > left)) | ((right >= 0) & (away > right))
    for name, axis in (("kv_len", np.arange(Lk)[None, None, :]), ("q_len", np.arange(Lq)[None, :, None])):
        if options.get(name):
            hidden |= axis >= np.asarray(options[name])[:, None, None]
    hidden = np.broadcast_to(hidden[:, None], shape).copy()
    if mask is not None:
        hidden |= np.broadcast_to(mask, shape) == 0
    if bias is not None:
        hidden |= np.broadcast_to(np.isneginf(bias), shape)
    return hidden


def attention(q, k, v, options, mask=None, bias=None):
    """Every stage in float64, as a dict of float32 arrays; lse too."""
    H, Hkv = q.shape[1], k.shape[1]
    kk, vv = (np.repeat(a.astype(float), H // Hkv, axis=1) for a in (k, v))
    scores = q.astype(float) @ kk.swapaxes(-1, -2)
    scaled = scores * options["scale"]
    cap = options.get("softcap") or 0
    capped = cap * np.tanh(scaled / cap) if cap else scaled
    shape = scores.shape
    hidden = hidden_cells(shape, options, mask, bias)
    added = capped + (np.broadcast_to(bias, shape) if bias is not None else 0)
    masked = np.where(hidden, -np.inf, added)
    peak = masked.max(-1, keepdims=True)
    powers = np.where(hidden, 0, np.exp(masked - np.where(np.isneginf(peak), 0, peak)))
    total = powers.sum(-1, keepdims=True)
    weights = np.divide(powers, total, out=np.zeros_like(powers), where=total > 0)
    with np.errstate(divide="ignore"):
        lse = (np.where(np.isneginf(peak), 0, peak) + np.log(total))[..., 0]
    stages = {"scores": scores, "scaled": scaled, "capped": capped, "masked": masked, "weights": weights, "output": weights @ vv,
              "lse": lse}
    return {name: array.astype(np.float32) for name, array in stages.items()}


def information(kind, q, k, v, **more):
    B, H, Lq, d = q.shape
    options = {"scale": 1 / np.sqrt(d), "scale_given": False, "softcap": 0, "causal": False, "window": None, "offset": [0] * B,
               "kv_len": None, "q_len": None, "alibi": None, "sinks": None, "dropout": 0, "seed": 0, "round": None}
    options.update(more.pop("options", {}))
    info = {"schema": 1, "kind": kind, "title": "sample", "lang": "en", "command": "a test", "isa": "none", "version": "0.1.0",
            "shape": {"B": B, "H": H, "Hkv": k.shape[1], "Lq": Lq, "Lk": k.shape[2], "d_k": d, "d_v": v.shape[3],
                      "width": H * d, "memory_width": H * d, "out_width": H * d, "layers": 1},
            "options": options, "labels": {"query": None, "key": None}, "summary": None, "notes": []}
    info.update(more)
    return info


def reduced(stages):
    """What a large attention brings instead of its stages: one byte a weight."""
    weights = stages["weights"]
    scale = weights.max(-1)
    bytes_ = np.rint(np.divide(weights, scale[..., None], out=np.zeros_like(weights), where=scale[..., None] > 0) * 255).astype(np.uint8)
    return {"weights_u8": bytes_, "weights_scale": scale.astype(np.float32), "output": stages["output"], "lse": stages["lse"]}


def sdpa(web, path, shape, seed=1, kv_heads=None, mask=None, bias=None, peaky=1.0, **more):
    """shape: B, H, Lq, Lk, d, d_v. Returns the stages."""
    B, H, Lq, Lk, d, dv = shape
    rng = np.random.default_rng(seed)
    draw = lambda *s: rng.standard_normal(s).astype(np.float32)
    q, k, v = draw(B, H, Lq, d) * np.float32(peaky), draw(B, kv_heads or H, Lk, d), draw(B, kv_heads or H, Lk, dv)
    info = information("sdpa", q, k, v, **more)
    stages = attention(q, k, v, info["options"], mask, bias)
    arrays = {"q": q, "k": k, "v": v, **(stages if B * H * Lq * Lk <= EXACT_CELLS else reduced(stages))}
    if mask is not None:
        arrays["mask"] = mask.astype(np.uint8)
    if bias is not None:
        arrays["bias"] = bias.astype(np.float32)
    write_page(web, path, info, arrays)
    return dict(stages, q=q, k=k, v=v)


def mha(web, path, L=10, width=512, heads=8, seed=2, **more):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((1, L, width)).astype(np.float32)
    w = {name: (rng.standard_normal((width, width)) / np.sqrt(width)).astype(np.float32) for name in ("w_q", "w_k", "w_v", "w_o")}
    b = {name: rng.standard_normal(width).astype(np.float32) / 10 for name in ("b_q", "b_k", "b_v", "b_o")}
    split = lambda a: a.reshape(1, L, heads, -1).swapaxes(1, 2).copy()
    q, k, v = (split((x @ w[f"w_{n}"] + b[f"b_{n}"]).astype(np.float32)) for n in "qkv")
    info = information("mha", q, k, v, **more)
    stages = attention(q, k, v, info["options"])
    concat = stages["output"].swapaxes(1, 2).reshape(1, L, width)
    result = (concat @ w["w_o"] + b["b_o"]).astype(np.float32)
    arrays = {"x": x, **w, **b, "q": q, "k": k, "v": v, **stages, "concat": concat, "result": result}
    write_page(web, path, info, arrays)
    return arrays
