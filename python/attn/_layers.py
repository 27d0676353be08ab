# SPDX-License-Identifier: Apache-2.0
"""What stands around attention: rotary positions and RMSNorm."""
import functools

import numpy as np

from ._arrays import describe, empty, numbers
from ._context import context

SCALINGS = {"default": 0, "linear": 1, "dynamic": 2, "llama3": 3, "yarn": 4}
# Names of Hugging Face's rope_scaling, and of our own members.
SCALING_KEYS = {"factor": "factor", "original_max_position_embeddings": "original_length", "low_freq_factor": "low_freq",
                "high_freq_factor": "high_freq", "beta_fast": "beta_fast", "beta_slow": "beta_slow", "attention_factor": "attention_factor",
                "length": "length"}
INTERLEAVED = 1 << 0
EPS, NORM_PLUS_ONE = 1 << 0, 1 << 1


@functools.lru_cache(maxsize=64)
def _prepared(head_dim, rotary_dim, theta, interleaved, scaling):
    """A rotation for each set of parameters; any thread may use it."""
    desc = dict(scaling, head_dim=head_dim, rotary_dim=rotary_dim, theta=float(theta), flags=INTERLEAVED if interleaved else 0)
    return context().rope_create(desc)


def _scaling(scaling):
    """Hugging Face's rope_scaling as members of attn_rope_desc."""
    if not scaling:
        return ()
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind not in SCALINGS:
        raise ValueError(f"there is no rope scaling {kind!r}; there are {', '.join(SCALINGS)}")
    rest = {key: value for key, value in scaling.items() if key not in ("rope_type", "type", "rope_theta")}
    for key in rest:
        if key not in SCALING_KEYS:
            raise ValueError(f"rope scaling has {key!r}, which is not known here and could change what is computed")
    return tuple(sorted([("scaling", SCALINGS[kind])] + [(SCALING_KEYS[key], value) for key, value in rest.items() if value is not None]))


def rope(x, *, theta=10000.0, rotary_dim=0, interleaved=False, scaling=None, offset=0, positions=None, cos=None, sin=None, out=None):
    """Rotary positions (RoPE): column pairs of x (B, H, L, d), (H, L, d) or (L, d) turn by position * theta^(-2p/r).

    Pairs are (p, p + r/2), or (2p, 2p+1) with interleaved; r = rotary_dim, 0 = d. Row i stands at offset + i, or at positions (L,) or
    (B, L). scaling: a dictionary such as a Hugging Face config has, rope_type linear, dynamic, llama3 or yarn. cos, sin: tables
    (positions, r/2) instead of theta. Returns the shape and dtype of x.

    >>> import numpy as np
    >>> attn.rope(np.array([[1., 0.], [1., 0.]])).round(4)
    array([[1.    , 0.    ],
           [0.5403, 0.8415]])
    """
    shape = tuple(describe(x)[0])
    d = shape[-1] if shape else 0
    if (cos is None) != (sin is None):
        raise ValueError("cos and sin go together; one of them is missing")
    if cos is None:
        prepared = _prepared(d, int(rotary_dim), theta, bool(interleaved), _scaling(scaling))
    else:
        flags = INTERLEAVED if interleaved else 0
        prepared = context().rope_create(dict(head_dim=d, rotary_dim=int(rotary_dim), cos=cos, sin=sin, flags=flags))
    if out is None:
        out = empty(x, shape)
    options = {"offset": int(offset)} if positions is None else {"positions": numbers(positions, np.int64), "offset": int(offset)}
    context().rope_apply(out, x, prepared, options)
    return out


def rms_norm(x, weight=None, *, bias=None, eps=1e-5, plus_one=False, out=None):
    """x / sqrt(mean(x^2) + eps) * weight + bias over the last axis; plus_one: the factor is 1 + weight (Gemma's checkpoints).

    >>> import numpy as np
    >>> attn.rms_norm(np.array([3., 4.]), eps=0).round(4)
    array([0.8485, 1.1314])
    """
    options = {"eps": eps, "flags": EPS | (NORM_PLUS_ONE if plus_one else 0)}
    if weight is not None:
        options["weight"] = weight
    if bias is not None:
        options["bias"] = bias
    if out is None:
        out = empty(x, tuple(describe(x)[0]))
    context().rms_norm(out, x, options)
    return out
