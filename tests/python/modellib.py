# SPDX-License-Identifier: Apache-2.0
"""attn/attn_model.h through ctypes, for tests, on top of attnlib. $ATTN_MODEL_LIB names libattn_model.so."""
import ctypes
import os
from ctypes import POINTER, Structure, byref, c_double, c_int32, c_int64, c_uint32, c_void_p

import numpy as np

from attnlib import MhaDesc, SdpaOpts, TensorPtr, _add_outputs, _pointer, convert, dtype_name, sdpa_opts

CONSTANTS = {"ROPE_INTERLEAVED": 1, "ROPE_PLAIN": 0, "ROPE_LINEAR": 1, "ROPE_DYNAMIC": 2, "ROPE_LLAMA3": 3, "ROPE_YARN": 4,
             "NORM_EPS": 1, "NORM_PLUS_ONE": 2, "NORM_RMS": 4, "GELU": 0, "GELU_TANH": 1, "SILU": 2, "RELU": 3, "EMBED_SCALE": 1,
             "LINEAR_F64": 1, "LAYER_POST_NORM": 1, "LAYER_CAUSAL": 2, "LAYER_F64": 4}


# ------------------------------------------------------------------ structs ----

class RopeDesc(Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("head_dim", c_int64), ("rotary_dim", c_int64), ("theta", c_double),
                ("scaling", c_int32), ("factor", c_double), ("original_length", c_int64), ("length", c_int64), ("low_freq", c_double),
                ("high_freq", c_double), ("beta_fast", c_double), ("beta_slow", c_double), ("attention_factor", c_double),
                ("cos", TensorPtr), ("sin", TensorPtr), ("divisors", TensorPtr)]


class RopeOpts(Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("offset", c_int64), ("positions", TensorPtr)]


class NormOpts(Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("eps", c_double), ("weight", TensorPtr), ("bias", TensorPtr)]


class EmbedOpts(Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("scale", c_double), ("token", TensorPtr), ("position", TensorPtr),
                ("type", TensorPtr), ("offset", c_int64), ("position_ids", TensorPtr), ("type_ids", TensorPtr)]


class LinearDesc(Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("w", TensorPtr), ("b", TensorPtr)]


class MlpDesc(Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("activation", c_int32)] + \
               [(name, TensorPtr) for name in ("w_up", "b_up", "w_gate", "b_gate", "w_down", "b_down")]


class LayerDesc(Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("self", POINTER(MhaDesc)), ("self_norm", POINTER(NormOpts)),
                ("cross", POINTER(MhaDesc)), ("cross_norm", POINTER(NormOpts)), ("mlp", POINTER(MlpDesc)),
                ("mlp_norm", POINTER(NormOpts)), ("rope", c_void_p), ("q_norm", POINTER(NormOpts)),
                ("k_norm", POINTER(NormOpts))]


STAGES = ("self_norm", "q", "k", "v", "heads", "self_out", "self_sum", "cross_norm", "cross_q", "cross_heads", "cross_out", "cross_sum",
          "mlp_norm", "mlp_gate", "mlp_up", "mlp_hidden", "mlp_out", "mlp_sum")


class LayerStages(Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32)] + [(name, TensorPtr) for name in STAGES]


class LayerOpts(Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("self", POINTER(SdpaOpts)), ("cross", POINTER(SdpaOpts)),
                ("offset", c_int64), ("positions", TensorPtr), ("kv", c_void_p), ("memory", TensorPtr), ("memory_kv", c_void_p),
                ("stages", POINTER(LayerStages))]


# The C name of each struct: test_layout.py compares them with the compiler's.
STRUCTS = {"attn_rope_desc": RopeDesc, "attn_rope_opts": RopeOpts, "attn_norm_opts": NormOpts, "attn_embed_opts": EmbedOpts,
           "attn_linear_desc": LinearDesc, "attn_mlp_desc": MlpDesc, "attn_layer_desc": LayerDesc,
           "attn_layer_stages": LayerStages, "attn_layer_opts": LayerOpts}


# ------------------------------------------------------------------ library ----

def _load():
    c = ctypes.CDLL(os.environ["ATTN_MODEL_LIB"])
    handle = c_void_p
    signatures = {
        "attn_rope_create": (c_int32, [handle, POINTER(handle), POINTER(RopeDesc)]),
        "attn_rope_destroy": (None, [handle]),
        "attn_rope_apply": (c_int32, [handle, TensorPtr, TensorPtr, handle, POINTER(RopeOpts)]),
        "attn_layer_norm": (c_int32, [handle, TensorPtr, TensorPtr, POINTER(NormOpts)]),
        "attn_rms_norm": (c_int32, [handle, TensorPtr, TensorPtr, POINTER(NormOpts)]),
        "attn_softmax": (c_int32, [handle, TensorPtr, TensorPtr]),
        "attn_embed": (c_int32, [handle, TensorPtr, TensorPtr, POINTER(EmbedOpts)]),
        "attn_linear_prepare": (c_int32, [handle, POINTER(handle), POINTER(LinearDesc)]),
        "attn_linear_destroy": (None, [handle]),
        "attn_linear": (c_int32, [handle, TensorPtr, handle, TensorPtr]),
        "attn_layer_prepare": (c_int32, [handle, POINTER(handle), POINTER(LayerDesc)]),
        "attn_layer_destroy": (None, [handle]),
        "attn_layer_run": (c_int32, [handle, TensorPtr, handle, TensorPtr, POINTER(LayerOpts)]),
    }
    for name, (restype, argtypes) in signatures.items():
        function = getattr(c, name)
        function.restype, function.argtypes = restype, argtypes
    return c


M = _load()


def empty(shape, dtype):
    """An output that shows what was not written."""
    return convert(np.full(shape, -77.0), dtype)


# -------------------------------------------------------------------- calls ----

class Rope:
    """attn_rope. fields: those of attn_rope_desc; cos and sin are arrays."""

    def __init__(self, ctx, interleaved=False, cos=None, sin=None, **fields):
        self.handle = c_void_p()
        desc = RopeDesc(flags=CONSTANTS["ROPE_INTERLEAVED"] if interleaved else 0, cos=_pointer(cos), sin=_pointer(sin), **fields)
        ctx.check(M.attn_rope_create(ctx.handle, byref(self.handle), byref(desc)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        M.attn_rope_destroy(self.handle)

    def apply(self, ctx, x, positions=None, offset=0):
        out, opts = empty(x.shape, dtype_name(x)), RopeOpts(offset=offset, positions=_pointer(positions))
        ctx.check(M.attn_rope_apply(ctx.handle, _pointer(out), _pointer(x), self.handle, byref(opts)))
        return out


def norm_opts(weight=None, bias=None, eps=None, plus_one=False, rms=False):
    o = NormOpts(weight=_pointer(weight), bias=_pointer(bias))
    o.flags = (CONSTANTS["NORM_PLUS_ONE"] if plus_one else 0) | (CONSTANTS["NORM_RMS"] if rms else 0)
    if eps is not None:
        o.flags |= CONSTANTS["NORM_EPS"]
        o.eps = eps
    return o


def norm(ctx, x, rms=False, **options):
    """attn_layer_norm or attn_rms_norm."""
    out = empty(x.shape, dtype_name(x))
    call = M.attn_rms_norm if rms else M.attn_layer_norm
    ctx.check(call(ctx.handle, _pointer(out), _pointer(x), byref(norm_opts(**options))))
    return out


def softmax(ctx, x):
    out = empty(x.shape, dtype_name(x))
    ctx.check(M.attn_softmax(ctx.handle, _pointer(out), _pointer(x)))
    return out


def embed(ctx, ids, token, position=None, position_ids=None, type_table=None, type_ids=None):
    out = empty(ids.shape + token.shape[1:], dtype_name(token))
    opts = EmbedOpts(token=_pointer(token), position=_pointer(position), position_ids=_pointer(position_ids), type=_pointer(type_table),
                     type_ids=_pointer(type_ids))
    ctx.check(M.attn_embed(ctx.handle, _pointer(out), _pointer(ids), byref(opts)))
    return out


def linear(ctx, x, w, b=None):
    """x W + b, the weights prepared for this call alone."""
    handle, desc = c_void_p(), LinearDesc(w=_pointer(w), b=_pointer(b))
    ctx.check(M.attn_linear_prepare(ctx.handle, byref(handle), byref(desc)))
    out = empty(x.shape[:-1] + w.shape[1:], dtype_name(x))
    try:
        ctx.check(M.attn_linear(ctx.handle, _pointer(out), handle, _pointer(x)))
    finally:
        M.attn_linear_destroy(handle)
    return out


# ------------------------------------------------------------------- layers ----

def mha_desc(heads, kv_heads=0, **tensors):
    return MhaDesc(heads=heads, kv_heads=kv_heads, **{name: _pointer(a) for name, a in tensors.items()})


def mlp_desc(activation, **tensors):
    return MlpDesc(activation=CONSTANTS[activation], **{name: _pointer(a) for name, a in tensors.items()})


class Layer:
    """attn_layer. mha, cross: what mha_desc() gives; mlp: mlp_desc(); norms: norm_opts()."""

    def __init__(self, ctx, mha, self_norm=None, cross=None, cross_norm=None, mlp=None, mlp_norm=None, rope=None, post_norm=False,
                 causal=False):
        def given(struct):
            return None if struct is None else ctypes.pointer(struct)
        self.handle, self.mha, self.mlp = c_void_p(), mha, mlp
        flags = (CONSTANTS["LAYER_POST_NORM"] if post_norm else 0) | (CONSTANTS["LAYER_CAUSAL"] if causal else 0)
        desc = LayerDesc(self_norm=given(self_norm), cross=given(cross), cross_norm=given(cross_norm), mlp=given(mlp),
                         mlp_norm=given(mlp_norm), rope=rope.handle if rope else None)
        desc.flags, desc.self = flags, given(mha)
        ctx.check(M.attn_layer_prepare(ctx.handle, byref(self.handle), byref(desc)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        M.attn_layer_destroy(self.handle)

    def run(self, ctx, x, memory=None, positions=None, stages=None, attention=(), cross_options=None, **options):
        """{"out": ..., each stage, each output of attention}. stages: {name: shape}; attention: names of outputs of the self-attention of
        shape [B,H,L,L]; options: of the self-attention, as sdpa_opts."""
        found = {name: empty(shape, dtype_name(x)) for name, shape in (stages or {}).items()}
        heads = x.shape[:-2] + (self.mha.heads, x.shape[-2], 1)
        own, cross = sdpa_opts(**options), sdpa_opts(**(cross_options or {}))
        found.update(_add_outputs(own, attention, heads, x.shape[-2], dtype_name(x)))
        kept = LayerStages(**{name: _pointer(found[name]) for name in stages or {}})
        opts = LayerOpts(cross=ctypes.pointer(cross) if cross_options else None, positions=_pointer(positions),
                         memory=_pointer(memory), stages=ctypes.pointer(kept))
        opts.self = ctypes.pointer(own)  # not a keyword: the name is Python's too
        found["out"] = empty(x.shape, dtype_name(x))
        ctx.check(M.attn_layer_run(ctx.handle, _pointer(found["out"]), self.handle, _pointer(x), byref(opts)))
        return found
