# SPDX-License-Identifier: Apache-2.0
"""Scaled dot-product attention on arrays."""
import itertools

import numpy as np

from ._arrays import describe, empty, numbers, readable, spread
from ._context import context

CAUSAL, SCALE, WINDOW, OFFSET, ALIBI, MASK_DROP, AVERAGE, RELAXED = (1 << bit for bit in range(8))
ALIGNMENTS = {"top-left": 1, "bottom-right": 2}
ROW_STAGES = ("lse", "row_max", "entropy")
CELL_STAGES = ("scores", "scaled", "capped", "masked", "weights")
STAGES = CELL_STAGES + ROW_STAGES + ("mass",)


def alignment(align):
    """The number of an alignment's name."""
    found = ALIGNMENTS.get(align)
    if found is None:
        raise ValueError(f"align is {align!r}; it must be 'top-left' or 'bottom-right'")
    return found


def make_options(mask=None, bias=None, causal=None, align=None, scale=None, softcap=0, window=None, offset=None, kv_len=None, q_len=None,
                 alibi=None, sinks=None, dropout=0, seed=0):
    """attn_sdpa_opts as the dictionary that the C side reads. Only what differs from the default is in it."""
    flags, o = 0, {}
    if mask is not None:
        o["mask"] = mask
    if bias is not None:
        o["bias"] = bias
    if causal is not None and causal is not False:
        flags |= CAUSAL
        if causal is not True:
            if align is not None and align != causal:
                raise ValueError(f"causal is {causal!r} and align is {align!r}; they name two alignments, give one")
            align = causal
    if align is not None:
        o["align"] = alignment(align)
    if scale is not None:
        flags |= SCALE
        o["scale"] = scale
    if softcap:
        o["softcap"] = softcap
    if window is not None:
        flags |= WINDOW
        o["window_left"], o["window_right"] = window
    if offset is not None:
        if isinstance(offset, (int, np.integer)):
            flags |= OFFSET
            o["offset"] = offset
        else:
            o["offsets"] = numbers(offset, np.int64)
    if kv_len is not None:
        o["kv_len"] = numbers(kv_len, np.int64)
    if q_len is not None:
        o["q_len"] = numbers(q_len, np.int64)
    if alibi is not None and alibi is not False:
        flags |= ALIBI
        if alibi is not True:
            o["alibi_slopes"] = numbers(alibi, np.float64)
    if sinks is not None:
        o["sinks"] = numbers(sinks, np.float64)
    if dropout:
        o["dropout"], o["seed"] = dropout, seed
    if flags:
        o["flags"] = flags
    return o


def stage_shape(name, q_shape, rows_k):
    """The shape of a by-product of [.., Lq, d] queries and Lk keys."""
    if name in ROW_STAGES:
        return q_shape[:-1]
    return q_shape[:-2] + (rows_k,) if name == "mass" else q_shape[:-1] + (rows_k,)


def wanted_stages(return_lse, return_weights, stages):
    names = set(stages) | ({"lse"} if return_lse else set()) | ({"weights"} if return_weights else set())
    for name in names.difference(STAGES):
        raise ValueError(f"there is no stage {name!r}; there are {', '.join(STAGES)}")
    return names


def result(out, found, return_lse, return_weights, stages):
    """out alone, or the tuple (out, lse?, weights?, {stage: array}?)."""
    parts = [out]
    if return_lse:
        parts.append(found["lse"])
    if return_weights:
        parts.append(found["weights"])
    if stages:
        parts.append({name: found[name] for name in stages})
    return tuple(parts) if len(parts) > 1 else out


def sdpa(q, k, v, *, mask=None, bias=None, causal=None, align=None, scale=None, softcap=0, window=None, offset=None, kv_len=None,
         q_len=None, alibi=None, sinks=None, dropout=0, seed=0, out=None, return_lse=False, return_weights=False, stages=(), copy=False):
    """output = softmax(scale * q k^T + bias, hidden cells out) v, exactly, without ever holding the (Lq, Lk) matrix unless it is asked for.

    q (B, H, Lq, d), k (B, Hkv, Lk, d), v (B, Hkv, Lk, d_v), H a multiple of Hkv; or all without B; or all without B and H.
    float32, float64, float16 or bfloat16, any strides, read in place. Computed in float64 if any is, else in float32.

    mask: bool, True = may be seen, or float, which is added; bias: float, added as well. (Lq, Lk), (H, Lq, Lk) or (B, H, Lq, Lk); axes of
      size 1 spread. A stored -inf hides.
    causal: True, "top-left" or "bottom-right"; align: the same two names; offset: the position of row 0, a number or one for each item.
      Where Lq differs from Lk, causal, window and alibi need one of them.
    scale: 1/sqrt(d) if not given. softcap: c * tanh(x / c) before masks. window: (left, right) keys around the row's position, -1 = open.
    kv_len, q_len: valid rows of each item, (B,). alibi: True for the default slopes, or slopes (H,) or (B, H). sinks: a logit for each
      head, (H,). dropout, seed: of the weights, the same for the same seed.
    out: an array to write to. return_lse adds lse (B, H, Lq), return_weights adds weights (B, H, Lq, Lk), stages a dictionary of any of
      scores, scaled, capped, masked, weights (B, H, Lq, Lk), lse, row_max, entropy (B, H, Lq), mass (B, H, Lk).
    copy: False never copies an input (what cannot be read in place is an error), None copies where it must, True always.

    Returns the output (B, H, Lq, d_v) in q's dtype, a torch tensor if q is one; or a tuple (output, lse, weights, stages) of what was
    asked.

    >>> import numpy as np
    >>> q = np.array([[1., 0.], [0., 1.]])
    >>> attn.sdpa(q, q, q, scale=1, causal=True).round(4)
    array([[1.    , 0.    ],
           [0.2689, 0.7311]])
    >>> out, lse, weights = attn.sdpa(q, q, q, return_lse=True, return_weights=True)
    >>> weights.sum(-1)
    array([1., 1.])
    """
    if copy is not False:
        q, k, v, mask, bias = (readable(x, copy) for x in (q, k, v, mask, bias))
    plain = mask is bias is causal is align is scale is window is offset is kv_len is q_len is alibi is sinks is None
    if plain and not (softcap or dropout or return_lse or return_weights or stages):
        options = found = None  # one check in place of many: a call may take the library a microsecond
    else:
        options = make_options(mask, bias, causal, align, scale, softcap, window, offset, kv_len, q_len, alibi, sinks, dropout, seed)
        found = _by_products(q, k, v, wanted_stages(return_lse, return_weights, stages))
        options.update(found)
    if out is None and type(q) is not np.ndarray:
        out = empty(q, tuple(describe(q)[0][:-1]) + tuple(describe(v)[0][-1:]))
    out = context().sdpa(out, q, k, v, options)
    return result(out, found, return_lse, return_weights, stages) if found else out


def _by_products(q, k, v, names):
    """{name: new array}."""
    if not names:
        return {}
    (q_shape, q_type), (k_shape, k_type), (_, v_type) = describe(q), describe(k), describe(v)
    wide = "f64" if "f64" in (q_type, k_type, v_type) else "f32"
    rows_k = k_shape[-2] if len(k_shape) > 1 else 0
    return {name: empty(q, stage_shape(name, q_shape, rows_k), wide) for name in names}


def varlen(q, k, v, cu_seqlens_q, cu_seqlens_k=None, *, causal=None, align=None, scale=None, softcap=0, window=None, offset=None,
           alibi=None, sinks=None, dropout=0, seed=0, out=None, return_lse=False):
    """Attention of packed sequences: item b owns the rows cu_seqlens[b] .. cu_seqlens[b+1].

    q (Tq, H, d), k (Tk, Hkv, d), v (Tk, Hkv, d_v); cu_seqlens (items + 1,), int32 or int64, from 0; cu_seqlens_k as cu_seqlens_q if not
    given. Returns (Tq, H, d_v); with return_lse also lse (H, Tq). Alignment is of each sequence alone.

    >>> import numpy as np
    >>> q = np.ones((5, 2, 8), np.float32)
    >>> attn.varlen(q, q, q, [0, 2, 5], causal=True).shape
    (5, 2, 8)
    """
    options = make_options(None, None, causal, align, scale, softcap, window, offset, None, None, alibi, sinks, dropout, seed)
    options["cu_seqlens_q"] = numbers(cu_seqlens_q, np.int64)
    options["cu_seqlens_k"] = options["cu_seqlens_q"] if cu_seqlens_k is None else numbers(cu_seqlens_k, np.int64)
    (q_shape, q_type), (_, k_type), (v_shape, v_type) = describe(q), describe(k), describe(v)
    if return_lse:
        options["lse"] = empty(q, (q_shape[1], q_shape[0]), "f64" if "f64" in (q_type, k_type, v_type) else "f32")
    if out is None:
        out = empty(q, tuple(q_shape[:-1]) + tuple(v_shape[-1:]))
    context().sdpa(out, q, k, v, options)
    return (out, options["lse"]) if return_lse else out


# ------------------------------------------------ PyTorch's function ----

def _torch_mask(attn_mask):
    if attn_mask is None:
        return {}
    kind = describe(attn_mask)[1]
    if kind not in ("bool", "f32", "f64", "f16", "bf16"):
        raise TypeError(f"attn_mask is {kind}; it must be bool (True = takes part) or float (added)")
    return {"mask" if kind == "bool" else "bias": attn_mask}


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """torch.nn.functional.scaled_dot_product_attention, on arrays or tensors: query (N, ..., Hq, L, E), key (N, ..., H, S, E), value
    (N, ..., H, S, Ev), attn_mask spreading to (N, ..., L, S); any number of leading axes.

    is_causal aligns to the upper left, whatever L and S are. A row that sees nothing gives 0. With dropout_p the seed comes from NumPy's
    global generator. Gradients: attn.torch.

    >>> import numpy as np
    >>> q = np.ones((2, 4, 3, 8), np.float32)
    >>> attn.scaled_dot_product_attention(q, q, q, is_causal=True).shape
    (2, 4, 3, 8)
    """
    if attn_mask is not None and is_causal:
        raise ValueError("attn_mask and is_causal are both given; PyTorch allows one of them")
    options = _torch_mask(attn_mask)
    if is_causal:
        options["causal"] = "top-left"
    if dropout_p:
        options.update(dropout=dropout_p, seed=int(np.random.randint(1 << 31)))
    q_shape, k_shape, v_shape = (tuple(describe(x)[0]) for x in (query, key, value))
    if not enable_gqa and len(q_shape) > 2 and q_shape[-3] != k_shape[-3] and 1 not in (q_shape[-3], k_shape[-3]):
        raise ValueError(f"query has {q_shape[-3]} heads and key {k_shape[-3]}; heads are shared only with enable_gqa=True")
    lead = np.broadcast_shapes(q_shape[:-3], k_shape[:-3], v_shape[:-3])
    heads = (q_shape[-3:-2], k_shape[-3:-2], v_shape[-3:-2]) if enable_gqa else (np.broadcast_shapes(
        q_shape[-3:-2], k_shape[-3:-2], v_shape[-3:-2]),) * 3
    q, k, v = (x if shape == lead + head + shape[-2:] else spread(x, lead + head + shape[-2:])
               for x, shape, head in zip((query, key, value), (q_shape, k_shape, v_shape), heads))
    if len(lead) < 2:
        return sdpa(q, k, v, scale=scale, **options)
    return _over_leading_axes(q, k, v, lead[:-1], scale, options)


def _over_leading_axes(q, k, v, outer, scale, options):
    """One call for each index of the axes before (N, H, L, E)."""
    out = empty(q, tuple(q.shape[:-1]) + tuple(v.shape[-1:]))
    for name in ("mask", "bias"):
        if name in options:
            shape = tuple(options[name].shape)
            shape = (1,) * (q.ndim - len(shape)) + shape
            options[name] = spread(options[name].reshape(shape), outer + shape[len(outer):])
    for index in itertools.product(*map(range, outer)):
        each = {name: value[index] if name in ("mask", "bias") else value for name, value in options.items()}
        sdpa(q[index], k[index], v[index], scale=scale, out=out[index], **each)
    return out
