# SPDX-License-Identifier: Apache-2.0
"""Multi-head attention with its projections, and the KV cache."""
import threading

import numpy as np

from . import _attn
from ._arrays import NUMPY_NAMES, describe, empty, readable
from ._context import context
from ._sdpa import make_options, result, stage_shape, wanted_stages

MATRICES, BIASES = ("w_q", "w_k", "w_v", "w_qkv", "w_o"), ("b_q", "b_k", "b_v", "b_qkv", "b_o")
TORCH_NAMES = {"in_proj_weight": "w_qkv", "q_proj_weight": "w_q", "k_proj_weight": "w_k", "v_proj_weight": "w_v", "out_proj.weight": "w_o",
               "in_proj_bias": "b_qkv", "out_proj.bias": "b_o"}


def transposed(x):
    """A view of a matrix, or of a table per head, with its last two axes exchanged."""
    return None if x is None else x.swapaxes(-1, -2)


class MultiHeadAttention:
    """O = concat(heads) w_o + b_o, head h = sdpa(Q_h, K_h, V_h), Q = x w_q + b_q, K = memory w_k + b_k, V = memory_v w_v + b_v.

    w_q (width, H*d), w_k (width, Hkv*d), w_v (width, Hkv*d_v), or tables per head (H, width, d); or w_qkv (width, (H + 2 Hkv)*d) instead
    of the three; w_o (H*d_v, out), without it the heads are joined. order="out_in": every matrix is the transposed, as PyTorch keeps them.
    The weights are copied and packed once; the object may be used by many threads at a time.

    >>> import numpy as np
    >>> w = np.eye(8, dtype=np.float32)
    >>> layer = attn.MultiHeadAttention(w, w, w, w, heads=2)
    >>> layer(np.ones((1, 3, 8), np.float32), causal=True).shape
    (1, 3, 8)
    """

    def __init__(self, w_q=None, w_k=None, w_v=None, w_o=None, *, heads, kv_heads=None, w_qkv=None, b_q=None, b_k=None, b_v=None,
                 b_qkv=None, b_o=None, order="in_out", float64=False):
        if order not in ("in_out", "out_in"):
            raise ValueError(f"order is {order!r}; it must be 'in_out' (x @ w) or 'out_in' (x @ w.T, PyTorch's)")
        arrays = dict(w_q=w_q, w_k=w_k, w_v=w_v, w_qkv=w_qkv, w_o=w_o, b_q=b_q, b_k=b_k, b_v=b_v, b_qkv=b_qkv, b_o=b_o)
        arrays = {name: x for name, x in arrays.items() if x is not None}
        if order == "out_in":
            arrays.update({name: transposed(arrays[name]) for name in MATRICES if name in arrays})
        kinds = {describe(x)[1] for x in arrays.values()}
        self.heads, self.kv_heads = int(heads), int(kv_heads or heads)
        self.dtype = "float64" if float64 or "f64" in kinds else "float32"
        self._out = self._out_width(arrays)
        desc = dict(arrays, heads=self.heads, kv_heads=self.kv_heads, flags=int(float64))
        self._weights = context().mha_prepare(desc)

    def _out_width(self, arrays):
        """The columns of the output; None where only the library can say what is wrong with the weights."""
        if "w_o" in arrays:
            return arrays["w_o"].shape[-1]
        v = arrays.get("w_v")
        if v is not None:
            inner = v.shape[0] * v.shape[2] if len(v.shape) == 3 else v.shape[-1]
            return inner * self.heads // self.kv_heads
        return arrays["w_qkv"].shape[-1] * self.heads // (self.heads + 2 * self.kv_heads) if "w_qkv" in arrays else 0

    @classmethod
    def from_torch(cls, source, heads=None, *, float64=False):
        """From torch.nn.MultiheadAttention, or the state_dict of one (then with heads). Weights only: the meaning of masks stays ours."""
        state = source if isinstance(source, dict) else source.state_dict()
        heads = heads or getattr(source, "num_heads", None)
        if heads is None:
            raise ValueError("a state_dict does not say how many heads there are; give heads=")
        unknown = [name for name in state if name not in TORCH_NAMES]
        if unknown or getattr(source, "add_zero_attn", False):
            what = ", ".join(unknown) or "add_zero_attn"
            raise ValueError(f"{what} of torch.nn.MultiheadAttention changes what is computed and is not supported")
        arrays = {TORCH_NAMES[name]: x.detach() if hasattr(x, "detach") else x for name, x in state.items()}
        if "w_q" in arrays and "b_qkv" in arrays:  # of other widths of keys or values
            b, width = arrays.pop("b_qkv"), len(arrays["w_q"])
            arrays.update(b_q=b[:width], b_k=b[width:2 * width], b_v=b[2 * width:])
        return cls(**arrays, heads=heads, order="out_in", float64=float64)

    def __call__(self, x, memory=None, memory_v=None, *, mask=None, bias=None, causal=None, align=None, scale=None, softcap=0, window=None,
                 offset=None, kv_len=None, q_len=None, alibi=None, sinks=None, dropout=0, seed=0, out=None, return_lse=False,
                 return_weights=False, stages=(), copy=False):
        """x (B, Lq, width) or (Lq, width) -> (B, Lq, out) or (Lq, out). memory (B, Lk, width): keys and values come from it, memory_v: the
        values. The options and by-products of attn.sdpa, with the heads' axis: weights (B, H, Lq, Lk).
        """
        if copy is not False:
            x, memory, memory_v, mask, bias = (readable(a, copy) for a in (x, memory, memory_v, mask, bias))
        options = make_options(mask, bias, causal, align, scale, softcap, window, offset, kv_len, q_len, alibi, sinks, dropout, seed)
        shape = tuple(describe(x)[0])
        found = {}
        if return_lse or return_weights or stages:
            rows_k = tuple(describe(x if memory is None else memory)[0])[-2]
            q_shape = shape[:-2] + (self.heads,) + shape[-2:]
            for name in wanted_stages(return_lse, return_weights, stages):
                options[name] = found[name] = empty(x, stage_shape(name, q_shape, rows_k), NUMPY_NAMES[self.dtype])
        if out is None:
            out = empty(x, shape[:-1] + (self._out,))
        context().mha(out, self._weights, x, memory, memory_v, None, options)
        return result(out, found, return_lse, return_weights, stages) if found else out

    def __repr__(self):
        return f"MultiHeadAttention(heads={self.heads}, kv_heads={self.kv_heads}, out={self._out}, dtype={self.dtype})"


class KVCache:
    """Keys (B, Hkv, length, d) and values (B, Hkv, length, d_v) of a growing sequence.

    dtype: float32, float16, bfloat16 or float64, what is appended is rounded to it. Causal attention of the last rows has the bits of
    attn.sdpa over the whole. One thread at a time appends; a lock sees to it.

    >>> import numpy as np
    >>> cache = attn.KVCache(kv_heads=2, capacity=100, head_dim=8)
    >>> rows = np.ones((1, 2, 3, 8), np.float32)
    >>> cache.append(rows, rows)
    >>> cache.attend(np.ones((1, 4, 1, 8), np.float32)).shape, len(cache)
    ((1, 4, 1, 8), 3)
    """

    def __init__(self, *, kv_heads, capacity, head_dim, value_dim=None, batch=1, dtype="float32"):
        name = NUMPY_NAMES.get(str(dtype).rpartition(".")[2] if not isinstance(dtype, type) else np.dtype(dtype).name)
        if name is None:
            raise TypeError(f"dtype is {dtype!r}; it must be float32, float16, bfloat16 or float64")
        self.capacity, self._dtype, self._lock = int(capacity), name, threading.Lock()
        self._kv = context().kv_create(dict(dtype=_attn.DTYPES[name], batch=batch, kv_heads=kv_heads, capacity=capacity, head_dim=head_dim,
                                            value_dim=value_dim or head_dim))
        self._value_dim = value_dim or head_dim

    def __len__(self):
        return _attn.kv_length(self._kv)

    def append(self, k, v):
        """Adds rows k (B, Hkv, n, d) and v (B, Hkv, n, d_v). ValueError when fewer than n are free; nothing is added then."""
        with self._lock:
            context().kv_append(self._kv, k, v)

    def truncate(self, length):
        """Forgets the rows from `length` on."""
        with self._lock:
            context().kv_truncate(self._kv, length)

    def attend(self, q, *, mask=None, bias=None, scale=None, softcap=0, window=None, kv_len=None, q_len=None, alibi=None, sinks=None,
               dropout=0, seed=0, out=None, return_lse=False, return_weights=False, stages=()):
        """Causal attention of the last Lq positions: q (B, H, Lq, d), row i at position len - Lq + i. Options and results as attn.sdpa."""
        options = make_options(mask, bias, None, None, scale, softcap, window, None, kv_len, q_len, alibi, sinks, dropout, seed)
        q_shape, q_type = describe(q)
        q_shape, found = tuple(q_shape), {}
        if out is None:
            out = empty(q, q_shape[:-1] + (self._value_dim,))
        with self._lock:
            for name in wanted_stages(return_lse, return_weights, stages):
                wide = "f64" if "f64" in (q_type, self._dtype) else "f32"
                options[name] = found[name] = empty(q, stage_shape(name, q_shape, len(self)), wide)
            context().kv_attend(self._kv, out, q, options)
        return result(out, found, return_lse, return_weights, stages)

    def arrays(self):
        """NumPy copies of the keys and values held; bf16 as that of ml_dtypes, or opaque 2-byte elements."""
        with self._lock:
            return tuple(_copied(self, part) for part in _attn.kv_view(self._kv))

    def __repr__(self):
        return f"KVCache({len(self)} of {self.capacity} rows, {self._dtype})"


class _Memory:
    """NumPy's array interface of memory that `owner` keeps alive."""

    def __init__(self, address, shape, strides, itemsize, owner):
        self.owner = owner
        self.__array_interface__ = {"version": 3, "data": (address, True), "shape": shape, "typestr": f"|V{itemsize}",
                                    "strides": tuple(s * itemsize for s in strides)}


def _copied(cache, part):
    from ._arrays import numpy_dtype
    address, shape, strides = part
    dtype = numpy_dtype(cache._dtype)
    if 0 in shape:
        return np.empty(shape, dtype)
    return np.array(_Memory(address, shape, strides, dtype.itemsize, cache)).view(dtype)
