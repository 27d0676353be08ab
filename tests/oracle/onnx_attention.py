# SPDX-License-Identifier: Apache-2.0
"""ONNX operator Attention (opset 23, 24, 25) by attn_sdpa.

What ONNX allows and the library refuses is done here: 3-D inputs, the past, masks of rank 1, masks with too few keys.
"""
import numpy as np
import onnx

import attnlib

SLOTS = ("Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen")
MODES = ("scaled", "capped", "masked", "weights")  # qk_matmul_output_mode 0, 1, 2, 3


def ours(a):
    """An ONNX bfloat16 array with the library's tag; others as they are."""
    return a.view(np.uint16).view(attnlib.BF16) if a.dtype.name == "bfloat16" else a


def split_heads(x, heads):
    """(B, L, H*D) -> (B, H, L, D); a view."""
    batch, rows, width = x.shape
    return x.reshape(batch, rows, heads, width // heads).transpose(0, 2, 1, 3)


def visible_and_bias(mask, keys):
    """ONNX's attn_mask as the library's mask or bias: rank 1 gets a row axis, missing keys at the end are hidden."""
    if mask is None:
        return {}
    missing = keys - mask.shape[-1]
    if missing:
        hide = False if mask.dtype == bool else -np.inf
        mask = np.concatenate([mask, np.full(mask.shape[:-1] + (missing,), hide, mask.dtype)], axis=-1)
    mask = mask.reshape((1,) * (2 - mask.ndim) + mask.shape)
    return {"mask": mask} if mask.dtype == bool else {"bias": ours(mask)}


def position_of_first_row(past_keys, lengths, rows):
    """ONNX's anchor of causal and window: after the past, else at the end of the valid keys, else top-left. Negative stays negative."""
    if past_keys is not None:
        return past_keys.shape[2]
    return 0 if lengths is None else lengths.astype(np.int64) - rows


def attention(ctx, node, inputs):
    """The outputs of an Attention node, by ONNX's names. inputs: the arrays of the inputs that are present."""
    given = iter(inputs)
    x = {slot: next(given) if name else None for slot, name in zip(SLOTS, list(node.input) + [""] * len(SLOTS))}
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    q, k, v, past, lengths = x["Q"], x["K"], x["V"], x["past_key"], x["nonpad_kv_seqlen"]
    joined = q.ndim == 3
    if joined:
        q, k, v = (split_heads(a, attributes[heads]) for a, heads in ((q, "q_num_heads"), (k, "kv_num_heads"), (v, "kv_num_heads")))
    if past is not None:
        k, v = np.concatenate([past, k], axis=2), np.concatenate([x["past_value"], v], axis=2)

    options = visible_and_bias(x["attn_mask"], k.shape[2])
    options.update(softcap=attributes.get("softcap", 0.0), kv_len=lengths, scale=attributes.get("scale"))
    window = attributes.get("left_window_size", -1), attributes.get("right_window_size", -1)
    if attributes.get("is_causal") or max(window) >= 0:
        options.update(causal=attributes.get("is_causal"), offset=position_of_first_row(past, lengths, q.shape[2]))
    if max(window) >= 0:
        options["window"] = window

    stage = MODES[attributes.get("qk_matmul_output_mode", 0)]
    got = attnlib.sdpa(ctx, ours(q), ours(k), ours(v), want=(stage,), **options)
    out = got["out"].view(x["Q"].dtype)
    if joined:
        out = out.transpose(0, 2, 1, 3).reshape(x["Q"].shape[:2] + (-1,))
    outputs = {"Y": out, "present_key": k, "present_value": v, "qk_matmul_output": got[stage].astype(x["Q"].dtype)}
    return {name: outputs[name] for name in node.output if name}
