# SPDX-License-Identifier: Apache-2.0
"""Hugging Face models: importing this registers attn_implementation="attn", for attention and for masks.

    import attn.hf
    model = AutoModel.from_pretrained(name, attn_implementation="attn")     # or model.set_attn_implementation("attn")

Grouped heads, sliding windows, soft capping, sinks, position biases, every cache, padding on either side. Attention weights are returned
when a call asks for them (output_attentions=True); transformers warns of names that it does not know, and returns them all the same.
Gradients are PyTorch's, dropout is PyTorch's, and tensors that are not on the CPU go to PyTorch's attention: each is said once.
"""
import warnings

import torch
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from . import torch as attn_torch
from ._sdpa import sdpa as sdpa_of_arrays

try:  # of transformers 5: what the running call collects. Not every model passes output_attentions on to its layers.
    from transformers.utils.output_capturing import _active_collector
except ImportError:
    _active_collector = None

NAME = "attn"
_said = set()
_always = {"weights": False}


def _say_once(why):
    if why not in _said:
        _said.add(why)
        warnings.warn(f"attn.hf: {why}", stacklevel=3)


def mask_function(*args, **kwargs):
    """The bool mask (B, 1, Lq, Lk), True = may be seen, that PyTorch's attention gets; None where "causal" says all.

    Unlike there, None is given only where a row's position is plain from the shapes: an empty static cache gets its mask.
    """
    rows = kwargs.get("q_length")
    rows = kwargs["cache_position"].shape[0] if rows is None else rows  # before transformers 5
    if rows not in (1, kwargs["kv_length"]):
        kwargs["allow_is_causal_skip"] = False
    return sdpa_mask(*args, **kwargs)


def _masks(attention_mask, position_bias, keys):
    """attn.sdpa's mask and bias. A mask may reach over more keys than there are."""
    found = {}
    if position_bias is not None:
        found["bias"] = position_bias[..., :keys]
    if attention_mask is None:
        return found
    if attention_mask.dim() != 4:
        raise ValueError(f"attention_mask has shape {tuple(attention_mask.shape)}; it must be (B, 1 or H, Lq, Lk): the mask function "
                         f"of this model was not the one registered as {NAME!r}")
    mask = attention_mask[..., :keys]
    if mask.is_floating_point():
        found["bias"] = mask + found["bias"] if "bias" in found else mask
    else:
        found["mask"] = mask if mask.dtype == torch.bool else mask.bool()
    return found


def _is_causal(module, is_causal, rows, keys, masked):
    """Whether the call is causal by itself, as PyTorch's attention in transformers decides it. Refuses where the rows' positions are
    not known."""
    causal = getattr(module, "is_causal", True) if is_causal is None else bool(is_causal)
    if masked or rows == 1 or not causal:
        return False
    if rows != keys:
        raise ValueError(f"a causal layer got no mask for {rows} queries and {keys} keys, so where the queries stand is not known; "
                         f"{NAME!r} must be registered for masks too (import attn.hf), or give an attention_mask")
    return True


def _weights_are_collected(module):
    """Whether somebody wants the weights of this layer who does not say so in its arguments."""
    if _always["weights"] or getattr(getattr(module, "config", None), "output_attentions", False):
        return True
    collected = _active_collector.get() if _active_collector is not None else None
    return any("attentions" in name for name in collected or ())


def attention_forward(module, query, key, value, attention_mask, dropout=0.0, scaling=None, is_causal=None, softcap=None, s_aux=None,
                      position_bias=None, head_mask=None, layer_head_mask=None, output_attentions=None, **kwargs):
    """transformers' attention function: query (B, H, Lq, d), key and value (B, Hkv, Lk, d) -> output (B, Lq, H, d_v), weights or None."""
    if head_mask is not None or layer_head_mask is not None:
        raise ValueError("head_mask is not supported; use attn_implementation='eager'")
    wants_weights = output_attentions or _weights_are_collected(module)
    options = _masks(attention_mask, position_bias, key.shape[2])
    options.update(causal=_is_causal(module, is_causal, query.shape[2], key.shape[2], attention_mask is not None),
                   scale=scaling, softcap=softcap or 0.0, sinks=None if s_aux is None else s_aux.reshape(-1).float())
    if key.shape[0] != query.shape[0]:
        query = query.expand(key.shape[0], -1, -1, -1)
    tensors = [t for t in (query, key, value, attention_mask, position_bias, s_aux) if t is not None]
    gradient = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    weights = None
    if query.device.type != "cpu":
        _say_once(f"PyTorch's operations run on {query.device.type}, libattn on the CPU")
        out, _, weights = attn_torch.dense(query, key, value, **options)
    elif dropout or (wants_weights and gradient):
        if dropout:
            _say_once("dropout is PyTorch's, with the whole matrix of weights")
        out, _, weights = attn_torch.dense(query, key, value, dropout=dropout, **options)
    elif wants_weights:
        out, weights = _with_weights(query, key, value, options)
    else:
        if gradient:
            _say_once("gradients are PyTorch's, with the whole matrix of weights")
        out = attn_torch.sdpa(query, key, value, backward="torch", **options)
    return out.transpose(1, 2).contiguous(), weights.to(query.dtype) if wants_weights else None


def _with_weights(query, key, value, options):
    if options["causal"]:
        options = dict(options, offset=0)
    options = {name: x.detach() if isinstance(x, torch.Tensor) else x for name, x in options.items()}
    return sdpa_of_arrays(query.detach(), key.detach(), value.detach(), return_weights=True, **options)


class attentions:
    """Within `with attn.hf.attentions():` every layer gives its weights, also of models that do not pass output_attentions on to it."""

    def __enter__(self):
        self.before, _always["weights"] = _always["weights"], True

    def __exit__(self, *_):
        _always["weights"] = self.before


AttentionInterface.register(NAME, attention_forward)
AttentionMaskInterface.register(NAME, mask_function)
