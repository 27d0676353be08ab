# SPDX-License-Identifier: Apache-2.0
"""PyTorch: an operator that torch.compile and autograd know, and a patch for F.scaled_dot_product_attention.

    attn.torch.sdpa(q, k, v, causal=True)       the operator attn::sdpa on CPU tensors
    with attn.torch.patch():                     F.scaled_dot_product_attention is libattn's, where libattn has what is asked
        model(x)

The library has no backward yet. backward="torch" computes the gradients by PyTorch's own operations, on the whole (Lq, Lk) matrix;
backward="error", the default, says so instead.
"""
import contextlib
import warnings

import torch
import torch.nn.functional as functional

from ._sdpa import sdpa as sdpa_of_arrays

TORCHS_OWN = functional.scaled_dot_product_attention
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
SCHEMA = ("(Tensor q, Tensor k, Tensor v, Tensor? mask, Tensor? bias, bool causal, int? offset, float? scale, float softcap, "
          "int[]? window, Tensor? sinks, str backward) -> (Tensor, Tensor)")


def _result_of(q, v, empty):
    """(B, H, Lq, d_v) in the memory order (B, Lq, H, d_v), which models read next; other ranks are packed."""
    if q.dim() != 4:
        return empty(q.shape[:-1] + v.shape[-1:])
    return empty((q.shape[0], q.shape[2], q.shape[1], v.shape[-1])).transpose(1, 2)


def _wide(*tensors):
    return torch.float64 if any(t.dtype == torch.float64 for t in tensors) else torch.float32


@torch.library.custom_op("attn::sdpa", mutates_args=(), device_types="cpu", schema=SCHEMA)
def _operator(q, k, v, mask, bias, causal, offset, scale, softcap, window, sinks, backward):
    q, k, v, mask, bias, sinks = (None if t is None else t.detach() for t in (q, k, v, mask, bias, sinks))
    out = _result_of(q, v, q.new_empty)
    _, lse = sdpa_of_arrays(q, k, v, mask=mask, bias=bias, causal=causal, offset=offset, scale=scale, softcap=softcap, window=window,
                            sinks=sinks, out=out, return_lse=True)
    return out, lse


@_operator.register_fake
def _shapes(q, k, v, mask, bias, causal, offset, scale, softcap, window, sinks, backward):
    return _result_of(q, v, q.new_empty), q.new_empty(q.shape[:-1], dtype=_wide(q, k, v))


def dense(q, k, v, mask=None, bias=None, causal=False, offset=None, scale=None, softcap=0.0, window=None, sinks=None, dropout=0.0):
    """(output, lse, weights) by PyTorch's operations in f32 or f64: for gradients, and for dropout by PyTorch's generator."""
    groups = q.shape[-3] // k.shape[-3] if q.dim() > 2 else 1
    wide = _wide(q, k, v)
    k, v = (t.to(wide).repeat_interleave(groups, -3) if groups > 1 else t.to(wide) for t in (k, v))
    score = q.to(wide) @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap:
        score = softcap * torch.tanh(score / softcap)
    seen = torch.ones(score.shape[-2:], dtype=torch.bool)
    distance = torch.arange(score.shape[-1]) - torch.arange(score.shape[-2])[:, None] - (offset or 0)
    if causal:
        seen = seen & (distance <= 0)
    if window is not None:
        left, right = window
        seen = seen & ((distance >= -left) | (left < 0)) & ((distance <= right) | (right < 0))
    if mask is not None:
        seen = seen & mask
    if bias is not None:
        score = score + bias
    score = torch.where(seen, score, -torch.inf)
    total = score if sinks is None else torch.cat([score, sinks.to(wide).reshape(-1, 1, 1).expand(score.shape[:-1] + (1,))], -1)
    lse = torch.logsumexp(total, -1)
    weights = torch.where(torch.isneginf(score), 0.0, torch.exp(score - torch.where(torch.isneginf(lse), 0.0, lse)[..., None]))
    return (functional.dropout(weights, dropout) @ v).to(q.dtype), lse, weights


def _remember(ctx, inputs, output):
    tensors = inputs[:5] + (inputs[10],)
    ctx.save_for_backward(*tensors)
    ctx.options, ctx.how = inputs[5:10], inputs[11]


def _backward(ctx, grad_out, grad_lse):
    if ctx.how != "torch":
        raise RuntimeError("libattn has no backward yet; call attn.torch.sdpa with backward='torch' (or patch(backward='torch')) for "
                           "PyTorch's, or run under torch.no_grad()")
    tensors = [None if t is None else t.detach().requires_grad_(t.is_floating_point()) for t in ctx.saved_tensors]
    q, k, v, mask, bias, sinks = tensors
    with torch.enable_grad():
        out, lse, _ = dense(q, k, v, mask, bias, *ctx.options, sinks=sinks)
    leaves = [t for t in tensors if t is not None and t.requires_grad]
    found = iter(torch.autograd.grad((out, lse), leaves, (grad_out, torch.where(torch.isneginf(lse), 0.0, grad_lse)), allow_unused=True))
    grads = [next(found) if t is not None and t.requires_grad else None for t in tensors]
    return (*grads[:5], None, None, None, None, None, grads[5], None)


_operator.register_autograd(_backward, setup_context=_remember)


def sdpa(q, k, v, *, mask=None, bias=None, causal=False, offset=None, scale=None, softcap=0.0, window=None, sinks=None, return_lse=False,
         backward="error"):
    """attn.sdpa as the operator attn::sdpa: q (B, H, Lq, d), k (B, Hkv, Lk, d), v (B, Hkv, Lk, d_v) on the CPU -> (B, H, Lq, d_v).

    offset: the position of row 0; causal without it is top-left. With return_lse also lse (B, H, Lq). backward: "error" or "torch".

    >>> q = torch.ones(1, 2, 3, 8, requires_grad=True)
    >>> attn.torch.sdpa(q, q, q, causal=True, backward="torch").sum().backward()
    >>> q.grad.shape
    torch.Size([1, 2, 3, 8])
    """
    if backward not in ("error", "torch"):
        raise ValueError(f"backward is {backward!r}; it must be 'error' or 'torch'")
    anchored = offset is None and (causal or window is not None)
    out, lse = torch.ops.attn.sdpa(q, k, v, mask, bias, bool(causal), 0 if anchored else offset, scale, float(softcap),
                                   None if window is None else list(window), sinks, backward)
    return (out, lse) if return_lse else out


# ------------------------------------------------------------- the patch ----

def _outside(query, key, value, attn_mask, dropout_p, backward):
    """Why libattn does not compute this call, or None."""
    tensors = [t for t in (query, key, value, attn_mask) if t is not None]
    if any(type(t) is not torch.Tensor and not isinstance(t, torch.nn.Parameter) and t.is_nested for t in tensors):
        return "nested tensors"
    if any(t.device.type != "cpu" for t in tensors):
        return "a tensor that is not on the CPU"
    if any(t.layout != torch.strided for t in tensors):
        return "sparse or nested tensors"
    if any(t.dtype not in FLOATS for t in (query, key, value)):
        return f"the dtype {query.dtype}"
    if dropout_p:
        return "dropout, which PyTorch draws by its own generator"
    if query.dim() > 4 or query.dim() != key.dim() or query.dim() != value.dim():
        return f"tensors of rank {query.dim()}, {key.dim()}, {value.dim()}"
    if backward == "error" and torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        return "a gradient; patch(backward='torch') computes it by PyTorch's operations"
    return None


class _Patched:
    """F.scaled_dot_product_attention by libattn; every reason to fall back is said once."""

    def __init__(self, backward):
        self.backward, self.said = backward, set()

    def __call__(self, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        why = _outside(query, key, value, attn_mask, dropout_p, self.backward)
        if why is None and attn_mask is not None and is_causal:
            why = "attn_mask together with is_causal"
        if why is None and query.dim() > 2 and not enable_gqa and not query.shape[-3] == key.shape[-3] == value.shape[-3]:
            why = "heads that are spread without enable_gqa"
        if why is None and query.dim() == 4 and not query.shape[0] == key.shape[0] == value.shape[0]:
            why = "batches that are spread"
        if why is not None:
            if why not in self.said:
                self.said.add(why)
                warnings.warn(f"attn.torch.patch: PyTorch's own attention runs for {why}", stacklevel=2)
            return TORCHS_OWN(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
        masks = {} if attn_mask is None else {"mask" if attn_mask.dtype == torch.bool else "bias": attn_mask}
        return sdpa(query, key, value, causal=is_causal, scale=scale, backward=self.backward, **masks)


@contextlib.contextmanager
def patch(backward="error"):
    """Within it F.scaled_dot_product_attention is libattn's on CPU tensors. What libattn has not (dropout, gradients unless
    backward="torch", other devices) goes to PyTorch's, with one warning for each reason.

    Code that imported the function by name before keeps PyTorch's.

    >>> x = torch.ones(1, 2, 3, 8)
    >>> with attn.torch.patch():
    ...     torch.nn.functional.scaled_dot_product_attention(x, x, x).shape
    torch.Size([1, 2, 3, 8])
    """
    if backward not in ("error", "torch"):
        raise ValueError(f"backward is {backward!r}; it must be 'error' or 'torch'")
    before = functional.scaled_dot_product_attention
    functional.scaled_dot_product_attention = _Patched(backward)
    try:
        yield
    finally:
        functional.scaled_dot_product_attention = before
