# SPDX-License-Identifier: Apache-2.0
"""attn/attn.h through ctypes, for tests: one Python name per C name, NumPy arrays in and out.

Arrays are passed as they lie in memory: a transposed, reversed or spread array becomes a view with those strides.
NumPy has no bf16: an array of dtype BF16 holds the 16 bits; to_bf16() and as_f64() convert. $ATTN_LIB names libattn.so.
"""
import ctypes
import os
from ctypes import POINTER, Structure, byref, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p

import numpy as np

BF16 = np.dtype([("bf16", "<u2")])
DTYPES = {"f32": 1, "f64": 2, "f16": 3, "bf16": 4, "bool": 5, "i8": 6, "u8": 7, "i16": 8, "u16": 9, "i32": 10, "u32": 11, "i64": 12,
          "u64": 13}
NUMPY = {"f32": np.dtype("f4"), "f64": np.dtype("f8"), "f16": np.dtype("f2"), "bf16": BF16, "bool": np.dtype("?"),
         "i8": np.dtype("i1"), "u8": np.dtype("u1"), "i16": np.dtype("i2"), "u16": np.dtype("u2"), "i32": np.dtype("i4"),
         "u32": np.dtype("u4"), "i64": np.dtype("i8"), "u64": np.dtype("u8")}
STATUS = {"OK": 0, "E_ARG": 1, "E_SHAPE": 2, "E_DTYPE": 3, "E_UNSUPPORTED": 4, "E_NOMEM": 5, "E_IO": 6, "E_FORMAT": 7, "E_CANCELLED": 8,
          "E_FULL": 9}
FLAGS = {"CAUSAL": 1, "SCALE": 2, "WINDOW": 4, "OFFSET": 8, "ALIBI": 16, "MASK_DROP": 32, "AVERAGE": 64, "RELAXED": 128}
MHA_FLAGS = {"F64": 1}
ALIGN = {"default": 0, "top_left": 1, "bottom_right": 2}
HIDDEN = {"MASK": 1, "BIAS": 2, "CAUSAL": 4, "WINDOW": 8, "KV_LEN": 16, "Q_LEN": 32}
MAX_DIMS = 8


# ------------------------------------------------------------------ structs ----

class Tensor(Structure):
    _fields_ = [("data", c_void_p), ("dtype", c_int32), ("ndim", c_int32), ("shape", c_int64 * MAX_DIMS), ("stride", c_int64 * MAX_DIMS)]


TensorPtr = POINTER(Tensor)


class CtxOpts(Structure):
    _fields_ = [("struct_size", c_uint32), ("threads", c_uint32), ("isa", c_char_p), ("alloc", c_void_p), ("free", c_void_p),
                ("user", c_void_p), ("progress", c_void_p), ("progress_user", c_void_p)]


class Info(Structure):
    _fields_ = [("isa", c_char_p), ("path", c_char_p), ("threads", c_uint32)]


class SdpaOpts(Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("scale", c_double), ("softcap", c_double),
                ("mask", TensorPtr), ("bias", TensorPtr), ("align", c_int32), ("offset", c_int64), ("offsets", TensorPtr),
                ("window_left", c_int64), ("window_right", c_int64), ("kv_len", TensorPtr), ("q_len", TensorPtr),
                ("cu_seqlens_q", TensorPtr), ("cu_seqlens_k", TensorPtr), ("alibi_slopes", TensorPtr), ("sinks", TensorPtr),
                ("dropout", c_double), ("seed", c_uint64), ("first_batch", c_int64), ("first_head", c_int64), ("first_row", c_int64),
                ("keep", TensorPtr), ("lse", TensorPtr), ("row_max", TensorPtr), ("entropy", TensorPtr), ("mass", TensorPtr),
                ("weights", TensorPtr), ("scores", TensorPtr), ("scaled", TensorPtr), ("capped", TensorPtr), ("masked", TensorPtr)]


class Row(Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("scores", TensorPtr), ("scaled", TensorPtr), ("capped", TensorPtr),
                ("masked", TensorPtr), ("weights", TensorPtr), ("output", TensorPtr), ("hidden", POINTER(c_uint8)), ("lse", c_double),
                ("row_max", c_double), ("entropy", c_double), ("scale", c_double), ("position", c_int64), ("kv_head", c_int64),
                ("visible", c_int64), ("out_dtype", c_int32)]


MHA_TENSORS = ("w_q", "w_k", "w_v", "w_qkv", "b_q", "b_k", "b_v", "b_qkv", "w_o", "b_o")


class MhaDesc(Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("heads", c_int64), ("kv_heads", c_int64)] + \
               [(name, TensorPtr) for name in MHA_TENSORS]


class MhaOpts(Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("sdpa", POINTER(SdpaOpts)), ("q", TensorPtr), ("k", TensorPtr),
                ("v", TensorPtr), ("z", TensorPtr)]


class KvDesc(Structure):
    _fields_ = [("struct_size", c_uint32), ("dtype", c_int32), ("batch", c_int64), ("kv_heads", c_int64), ("capacity", c_int64),
                ("head_dim", c_int64), ("value_dim", c_int64)]


# The C name of each struct: test_layout.py compares them with the compiler's.
STRUCTS = {"attn_tensor": Tensor, "attn_ctx_opts": CtxOpts, "attn_info": Info, "attn_sdpa_opts": SdpaOpts, "attn_row": Row,
           "attn_mha_desc": MhaDesc, "attn_mha_opts": MhaOpts, "attn_kv_desc": KvDesc}


# ------------------------------------------------------------------ library ----

def _load():
    c = ctypes.CDLL(os.environ["ATTN_LIB"])
    signatures = {
        "attn_version": (c_char_p, []),
        "attn_status_str": (c_char_p, [c_int32]),
        "attn_tensor_permute": (Tensor, [TensorPtr, POINTER(c_int32)]),
        "attn_ctx_create": (c_int32, [POINTER(c_void_p), POINTER(CtxOpts), c_char_p, c_size_t]),
        "attn_ctx_destroy": (None, [c_void_p]),
        "attn_ctx_error": (c_char_p, [c_void_p]),
        "attn_ctx_info": (Info, [c_void_p]),
        "attn_isa_name": (c_char_p, [ctypes.c_int]),
        "attn_isa_usable": (ctypes.c_int, [c_char_p]),
        "attn_sdpa": (c_int32, [c_void_p] + [TensorPtr] * 4 + [POINTER(SdpaOpts)]),
        "attn_explain_cell": (c_int32, [c_void_p, POINTER(Row)] + [TensorPtr] * 3 + [POINTER(SdpaOpts)] + [c_int64] * 3),
        "attn_mha_prepare": (c_int32, [c_void_p, POINTER(c_void_p), POINTER(MhaDesc)]),
        "attn_mha_weights_destroy": (None, [c_void_p]),
        "attn_mha": (c_int32, [c_void_p, TensorPtr, c_void_p] + [TensorPtr] * 3 + [POINTER(MhaOpts)]),
        "attn_kv_create": (c_int32, [c_void_p, POINTER(c_void_p), POINTER(KvDesc)]),
        "attn_kv_destroy": (None, [c_void_p]),
        "attn_kv_append": (c_int32, [c_void_p, c_void_p, TensorPtr, TensorPtr]),
        "attn_kv_truncate": (c_int32, [c_void_p, c_void_p, c_int64]),
        "attn_kv_length": (c_int64, [c_void_p]),
        "attn_kv_capacity": (c_int64, [c_void_p]),
        "attn_kv_view": (None, [c_void_p, TensorPtr, TensorPtr]),
        "attn_kv_attend": (c_int32, [c_void_p, c_void_p, TensorPtr, TensorPtr, POINTER(SdpaOpts)]),
    }
    for name, (restype, argtypes) in signatures.items():
        function = getattr(c, name)
        function.restype, function.argtypes = restype, argtypes
    return c


C = _load()


class AttnError(Exception):
    """A failed call: its status (a value of STATUS) and its sentence."""

    def __init__(self, status, sentence):
        super().__init__("%s: %s" % (C.attn_status_str(status).decode(), sentence))
        self.status, self.sentence = status, sentence


def isa_levels():
    """[(name, usable)], worst first."""
    levels = []
    while C.attn_isa_name(len(levels)):
        name = C.attn_isa_name(len(levels))
        levels.append((name.decode(), bool(C.attn_isa_usable(name))))
    return levels


# ------------------------------------------------------------------- arrays ----

def to_bf16(a):
    """Rounded to nearest even, as BF16."""
    bits = np.ascontiguousarray(a, dtype="<f4").view("<u4").astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(a), 0x7FC0, rounded).astype("<u2").view(BF16)


def as_f64(a):
    """Any array as float64; exact from every float dtype."""
    if a.dtype == BF16:
        return (np.ascontiguousarray(a).view("<u2").astype("<u4") << 16).view("<f4").astype("f8")
    return a.astype("f8")


def convert(a, dtype):
    """A packed copy in the dtype named so ("f32", "bf16", ...)."""
    return to_bf16(a) if dtype == "bf16" else np.ascontiguousarray(a, dtype=NUMPY[dtype])


def dtype_name(a):
    return next(name for name, dtype in NUMPY.items() if a.dtype == dtype)


def tensor(a):
    """The view of a, which it keeps alive as .array; None and a Tensor stay what they are."""
    if a is None or isinstance(a, Tensor):
        return a
    t = Tensor(a.ctypes.data, DTYPES[dtype_name(a)], a.ndim)
    for axis in range(a.ndim):
        steps, rest = divmod(a.strides[axis], a.itemsize)
        assert rest == 0, "a stride that is no whole number of elements"
        t.shape[axis], t.stride[axis] = a.shape[axis], steps
    t.array = a
    return t


def array(t):
    """The NumPy array that a C view describes, without a copy."""
    dtype = NUMPY[next(name for name, value in DTYPES.items() if value == t.dtype)]
    shape, stride = tuple(t.shape[:t.ndim]), [s * dtype.itemsize for s in t.stride[:t.ndim]]
    if 0 in shape:
        return np.empty(shape, dtype)
    extent = sum((n - 1) * s for n, s in zip(shape, stride)) + dtype.itemsize
    memory = (c_uint8 * extent).from_address(t.data)
    return np.ndarray(shape, dtype, memory, strides=stride)


def permute(t, order):
    return C.attn_tensor_permute(byref(t), (c_int32 * MAX_DIMS)(*order))


def _pointer(a):
    t = tensor(a)
    return None if t is None else ctypes.pointer(t)


# ------------------------------------------------------------------ context ----

class Context:
    """An attn_ctx. Raises AttnError for a level that cannot run here."""

    def __init__(self, isa=None, threads=0):
        self.handle = c_void_p()
        sentence = ctypes.create_string_buffer(1024)
        opts = CtxOpts(threads=threads, isa=isa.encode() if isa else None)
        status = C.attn_ctx_create(byref(self.handle), byref(opts), sentence, len(sentence))
        if status:
            raise AttnError(status, sentence.value.decode())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        C.attn_ctx_destroy(self.handle)

    def check(self, status):
        if status:
            raise AttnError(status, C.attn_ctx_error(self.handle).decode())

    def info(self):
        info = C.attn_ctx_info(self.handle)
        return {"isa": info.isa.decode(), "path": info.path.decode(), "threads": info.threads}


# ------------------------------------------- scaled dot-product attention ----

TENSOR_OPTS = ("mask", "bias", "kv_len", "q_len", "cu_seqlens_q", "cu_seqlens_k", "sinks", "keep")
NUMBER_OPTS = ("softcap", "dropout", "seed", "first_batch", "first_head", "first_row")
BOOL_OPTS = {"causal": "CAUSAL", "mask_drop": "MASK_DROP", "average": "AVERAGE", "relaxed": "RELAXED"}
ROW_OUTPUTS = ("lse", "row_max", "entropy")
CELL_OUTPUTS = ("scores", "scaled", "capped", "masked")


def sdpa_opts(align="default", scale=None, window=None, offset=None, alibi=None, **options):
    """attn_sdpa_opts from Python values.

    scale a number, window (left, right), offset a number or one per item, alibi True or the slopes, align a key of ALIGN;
    the names of BOOL_OPTS, NUMBER_OPTS and TENSOR_OPTS as in the header. What is not given is not set.
    """
    o = SdpaOpts(align=ALIGN[align])
    if scale is not None:
        o.flags |= FLAGS["SCALE"]
        o.scale = scale
    if window is not None:
        o.flags |= FLAGS["WINDOW"]
        o.window_left, o.window_right = window
    if isinstance(offset, int):
        o.flags |= FLAGS["OFFSET"]
        o.offset = offset
    elif offset is not None:
        o.offsets = _pointer(offset)
    if alibi is True:
        o.flags |= FLAGS["ALIBI"]
    elif alibi is not None:
        o.alibi_slopes = _pointer(alibi)
    for name, value in options.items():
        if name in BOOL_OPTS:
            o.flags |= FLAGS[BOOL_OPTS[name]] if value else 0
        elif name in NUMBER_OPTS:
            setattr(o, name, value)
        elif name in TENSOR_OPTS:
            setattr(o, name, _pointer(value))
        else:
            raise TypeError("no option " + name)
    return o


def _output_shape(name, q_shape, rows_k, packed, average):
    """The shape that the header gives to an output of attention."""
    if packed:
        total_q, heads, _ = q_shape
        return (heads, rows_k if name == "mass" else total_q)
    if name in ROW_OUTPUTS:
        return q_shape[:-1]
    if name == "mass":
        return q_shape[:-2] + (rows_k,)
    if name == "weights" and average:
        return q_shape[:-3] + (q_shape[-2], rows_k)
    return q_shape[:-1] + (rows_k,)


def _add_outputs(opts, want, q_shape, rows_k, dtype):
    """Arrays for the outputs named in want, set in opts."""
    packed, average = bool(opts.cu_seqlens_q), bool(opts.flags & FLAGS["AVERAGE"])
    found = {}
    for name in want:
        found[name] = np.full(_output_shape(name, q_shape, rows_k, packed, average), -77, NUMPY[dtype])
        setattr(opts, name, _pointer(found[name]))
    return found


def _compute_dtype(*arrays):
    return "f64" if any(a is not None and a.dtype == np.dtype("f8") for a in arrays) else "f32"


def sdpa(ctx, q, k, v, want=("lse",), out=None, out_dtype=None, **options):
    """attn_sdpa. Returns {"out": ..., and each name of want}. options as sdpa_opts. Outputs start as -77, so unwritten cells show."""
    opts, q, k, v = sdpa_opts(**options), tensor(q), tensor(k), tensor(v)
    q_shape, packed = tuple(q.shape[:q.ndim]), bool(opts.cu_seqlens_q)
    rows_k = k.shape[0] if packed else k.shape[k.ndim - 2]
    found = _add_outputs(opts, want, q_shape, rows_k, _compute_dtype(q.array, k.array, v.array))
    if out is None:
        out = convert(np.full(q_shape[:-1] + (v.shape[v.ndim - 1],), -77.0), out_dtype or dtype_name(q.array))
    ctx.check(C.attn_sdpa(ctx.handle, _pointer(out), byref(q), byref(k), byref(v), byref(opts)))
    return dict(found, out=out)


def explain_cell(ctx, q, k, v, b, h, i, **options):
    """attn_explain_cell: every stage of one row, `hidden`, and the numbers of attn_row."""
    dtype, rows_k = NUMPY[_compute_dtype(q, k, v)], k.shape[-2]
    found = {name: np.empty(rows_k, dtype) for name in CELL_OUTPUTS + ("weights",)}
    found["output"] = np.empty(v.shape[-1], dtype)
    row = Row(**{name: _pointer(a) for name, a in found.items()})
    found["hidden"] = np.empty(rows_k, np.uint8)
    row.hidden = found["hidden"].ctypes.data_as(POINTER(c_uint8))
    opts = sdpa_opts(**options)
    ctx.check(C.attn_explain_cell(ctx.handle, byref(row), _pointer(q), _pointer(k), _pointer(v), byref(opts), b, h, i))
    numbers = ("lse", "row_max", "entropy", "scale", "position", "kv_head", "visible")
    return dict(found, **{name: getattr(row, name) for name in numbers})


# ------------------------------------------------------ multi-head attention ----

class MhaWeights:
    """attn_mha_weights. tensors: names of MHA_TENSORS; f64: compute in f64 whatever they are."""

    def __init__(self, ctx, heads, kv_heads=0, f64=False, **tensors):
        self.handle, self.heads, self.kv_heads = c_void_p(), heads, kv_heads or heads
        self.dtype = "f64" if f64 else _compute_dtype(*tensors.values())
        flags = MHA_FLAGS["F64"] if f64 else 0
        desc = MhaDesc(flags=flags, heads=heads, kv_heads=kv_heads, **{name: _pointer(a) for name, a in tensors.items()})
        ctx.check(C.attn_mha_prepare(ctx.handle, byref(self.handle), byref(desc)))
        self.head_dim, self.value_dim = self._head_dims(tensors)
        self.width = tensors["w_o"].shape[1] if tensors.get("w_o") is not None else heads * self.value_dim

    def _head_dims(self, tensors):
        def columns(w):
            return w.shape[1] if w.ndim == 2 else w.shape[0] * w.shape[2]
        if tensors.get("w_qkv") is not None:
            d = columns(tensors["w_qkv"]) // (self.heads + 2 * self.kv_heads)
            return d, d
        return columns(tensors["w_q"]) // self.heads, columns(tensors["w_v"]) // self.kv_heads

    def __enter__(self):
        return self

    def __exit__(self, *_):
        C.attn_mha_weights_destroy(self.handle)


def mha(ctx, w, x, memory=None, memory_v=None, want=(), out_dtype=None, **options):
    """attn_mha. Returns {"out": ..., and each name of want}: q, k, v, z and the outputs of attention. options as sdpa_opts."""
    opts = sdpa_opts(**options)
    lead, rows_q = x.shape[:-2], x.shape[-2]
    rows_k = (x if memory is None else memory).shape[-2]
    shapes = {"q": (w.heads, rows_q, w.head_dim), "k": (w.kv_heads, rows_k, w.head_dim), "v": (w.kv_heads, rows_k, w.value_dim),
              "z": (w.heads, rows_q, w.value_dim)}
    own = {name: np.full(lead + shapes[name], -77, NUMPY[w.dtype]) for name in want if name in shapes}
    found = _add_outputs(opts, [name for name in want if name not in shapes], lead + shapes["q"], rows_k, w.dtype)
    outer = MhaOpts(sdpa=ctypes.pointer(opts), **{name: _pointer(a) for name, a in own.items()})
    out = convert(np.full(lead + (rows_q, w.width), -77.0), out_dtype or dtype_name(x))
    ctx.check(C.attn_mha(ctx.handle, _pointer(out), w.handle, _pointer(x), _pointer(memory), _pointer(memory_v), byref(outer)))
    return dict(found, out=out, **own)


# ----------------------------------------------------------------- KV cache ----

class KvCache:
    """attn_kv."""

    def __init__(self, ctx, kv_heads, capacity, head_dim, value_dim=0, batch=0, dtype="f32"):
        self.ctx, self.handle = ctx, c_void_p()
        desc = KvDesc(dtype=DTYPES[dtype], batch=batch, kv_heads=kv_heads, capacity=capacity, head_dim=head_dim, value_dim=value_dim)
        ctx.check(C.attn_kv_create(ctx.handle, byref(self.handle), byref(desc)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        C.attn_kv_destroy(self.handle)

    def append(self, k, v):
        self.ctx.check(C.attn_kv_append(self.ctx.handle, self.handle, _pointer(k), _pointer(v)))

    def truncate(self, length):
        self.ctx.check(C.attn_kv_truncate(self.ctx.handle, self.handle, length))

    def __len__(self):
        return C.attn_kv_length(self.handle)

    def capacity(self):
        return C.attn_kv_capacity(self.handle)

    def view(self):
        """(k, v) as C views of the rows held."""
        k, v = Tensor(), Tensor()
        C.attn_kv_view(self.handle, byref(k), byref(v))
        return k, v

    def attend(self, q, want=("lse",), out_dtype=None, **options):
        opts = sdpa_opts(**options)
        k, v = self.view()
        cached = "f64" if k.dtype == DTYPES["f64"] else _compute_dtype(q)
        found = _add_outputs(opts, want, q.shape, len(self), cached)
        out = convert(np.full(q.shape[:-1] + (v.shape[v.ndim - 1],), -77.0), out_dtype or dtype_name(q))
        self.ctx.check(C.attn_kv_attend(self.ctx.handle, self.handle, _pointer(out), _pointer(q), byref(opts)))
        return dict(found, out=out)
