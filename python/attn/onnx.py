# SPDX-License-Identifier: Apache-2.0
"""ONNX's operators Attention (opset 23 to 25), RotaryEmbedding and RMSNormalization (23), with ONNX's meaning.

    outputs = attn.onnx.run_node(node, [Q, K, V])
    outputs = attn.onnx.Backend.prepare(model).run([Q, K, V])

What ONNX allows and the library refuses is done here: 3-D inputs, the past, masks of rank 1, masks with too few keys.
"""
import numpy as np
import onnx
from onnx.backend.base import Backend as BackendBase
from onnx.backend.base import BackendRep

from ._layers import rms_norm, rope
from ._sdpa import sdpa

SLOTS = ("Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen")
MODES = ("scaled", "capped", "masked", "weights")  # qk_matmul_output_mode 0, 1, 2, 3


def attributes_of(node):
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def split_heads(x, heads):
    """(B, L, H*D) -> (B, H, L, D); a view."""
    batch, rows, width = x.shape
    return x.reshape(batch, rows, heads, width // heads).transpose(0, 2, 1, 3)


def joined_heads(x):
    """(B, H, L, D) -> (B, L, H*D)."""
    batch, heads, rows, d = x.shape
    return x.transpose(0, 2, 1, 3).reshape(batch, rows, heads * d)


def visible_and_bias(mask, keys):
    """ONNX's attn_mask as the library's mask or bias: rank 1 gets a row axis, missing keys at the end are hidden."""
    if mask is None:
        return {}
    missing = keys - mask.shape[-1]
    if missing:
        hide = False if mask.dtype == bool else -np.inf
        mask = np.concatenate([mask, np.full(mask.shape[:-1] + (missing,), hide, mask.dtype)], axis=-1)
    mask = mask.reshape((1,) * (2 - mask.ndim) + mask.shape)
    return {"mask": mask} if mask.dtype == bool else {"bias": mask}


def position_of_first_row(past_keys, lengths, rows):
    """ONNX's anchor of causal and window: after the past, else at the end of the valid keys, else top-left. Negative stays negative."""
    if past_keys is not None:
        return past_keys.shape[2]
    return 0 if lengths is None else lengths.astype(np.int64) - rows


def attention(node, inputs):
    """The outputs of an Attention node, by ONNX's names. inputs: the arrays of the inputs that are present."""
    given = iter(inputs)
    x = {slot: next(given) if name else None for slot, name in zip(SLOTS, list(node.input) + [""] * len(SLOTS))}
    attributes = attributes_of(node)
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
        options.update(causal=bool(attributes.get("is_causal")), offset=position_of_first_row(past, lengths, q.shape[2]))
    if max(window) >= 0:
        options["window"] = window

    stage = MODES[attributes.get("qk_matmul_output_mode", 0)]
    stages = (stage,) if len(node.output) > 3 and node.output[3] else ()
    out = sdpa(q, k, v, stages=stages, **options)
    out, found = out if stages else (out, {})
    outputs = {"Y": joined_heads(out) if joined else out, "present_key": k, "present_value": v}
    if stages:
        outputs["qk_matmul_output"] = found[stage].astype(q.dtype)
    return outputs


def rotary_embedding(node, inputs):
    """{"Y"}. Without position_ids ONNX gives a row of the tables for each item and row."""
    attributes = attributes_of(node)
    x, cos, sin = inputs[:3]
    heads_first = x if x.ndim == 4 else split_heads(x, attributes["num_heads"])
    lead = heads_first.shape[0], heads_first.shape[2]
    positions = inputs[3] if len(inputs) > 3 else np.arange(lead[0] * lead[1]).reshape(lead)
    y = rope(heads_first, cos=cos.reshape(-1, cos.shape[-1]), sin=sin.reshape(-1, sin.shape[-1]), positions=positions,
             interleaved=attributes.get("interleaved", 0), rotary_dim=attributes.get("rotary_embedding_dim", 0))
    return {"Y": y if x.ndim == 4 else joined_heads(y)}


def rms_normalization(node, inputs):
    """{"Y"}. The axes from `axis` on are one row."""
    attributes = attributes_of(node)
    x, weight = inputs
    axis = attributes.get("axis", -1) % x.ndim
    rows = x.reshape(x.shape[:axis] + (-1,))
    weight = np.broadcast_to(weight, x.shape[axis:]).reshape(-1)
    return {"Y": rms_norm(rows, weight, eps=attributes.get("epsilon", 1e-5)).reshape(x.shape)}


OPERATORS = {"Attention": (attention, ("Y", "present_key", "present_value", "qk_matmul_output")),
             "RotaryEmbedding": (rotary_embedding, ("Y",)),
             "RMSNormalization": (rms_normalization, ("Y",))}


def run_node(node, inputs):
    """The outputs of one node that it names, in its order. inputs: the arrays of the inputs that are present."""
    if node.op_type not in OPERATORS or node.domain not in ("", "ai.onnx"):
        raise NotImplementedError(f"{node.domain}.{node.op_type} is none of {', '.join(OPERATORS)}")
    operator, names = OPERATORS[node.op_type]
    found = operator(node, inputs)
    return [found[name] for name, wanted in zip(names, node.output) if wanted]


class _Prepared(BackendRep):
    """A model whose nodes are all of OPERATORS."""

    def __init__(self, model):
        self.graph = model.graph
        self.constants = {i.name: onnx.numpy_helper.to_array(i) for i in model.graph.initializer}

    def run(self, inputs, **kwargs):
        """A tuple of the outputs. inputs: in the order of the graph's, or a dictionary by name."""
        if not isinstance(inputs, dict):
            inputs = dict(zip((i.name for i in self.graph.input), inputs))
        values = {**self.constants, **inputs}
        for node in self.graph.node:
            outputs = run_node(node, [values[name] for name in node.input if name])
            values.update(zip([name for name in node.output if name], outputs))
        return tuple(values[o.name] for o in self.graph.output)


class Backend(BackendBase):
    """onnx.backend.base.Backend, for onnx.backend.test and anything else that runs models by it."""

    @classmethod
    def is_compatible(cls, model, device="CPU", **kwargs):
        return all(node.op_type in OPERATORS for node in model.graph.node) and cls.supports_device(device)

    @classmethod
    def prepare(cls, model, device="CPU", **kwargs):
        onnx.checker.check_model(model)
        return _Prepared(model)

    @classmethod
    def run_node(cls, node, inputs, device="CPU", outputs_info=None, **kwargs):
        return tuple(run_node(node, inputs))

    @classmethod
    def supports_device(cls, device):
        return device == "CPU"
