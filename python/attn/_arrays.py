# SPDX-License-Identifier: Apache-2.0
"""Arrays of any kind: what they are, and new ones of the same kind.

The C side reads whatever has the buffer protocol or DLPack, without a copy. Results are of the kind of the first argument: torch tensors
for a torch tensor, NumPy arrays for everything else.
"""
import sys

import numpy as np

from . import _attn

NUMPY_NAMES = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16"}
TORCH_NAMES = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16"}


def torch_of(x):
    """The torch module if x is one of its tensors, else None. Does not import it."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(x, getattr(torch, "Tensor", ())) else None


def describe(x):
    """((shape), dtype name such as "f32") of any array that the library reads."""
    if type(x) is np.ndarray:
        name = NUMPY_NAMES.get(x.dtype.name)
        if name:
            return x.shape, name
    elif torch_of(x) is not None:
        name = NUMPY_NAMES.get(str(x.dtype).removeprefix("torch."))
        if name:
            return tuple(x.shape), name
    return _attn.describe(x)


def numpy_dtype(name):
    """The NumPy dtype of a name; bf16 is that of ml_dtypes, and without it two opaque bytes."""
    if name != "bf16":
        return np.dtype(TORCH_NAMES[name])
    try:
        from ml_dtypes import bfloat16
    except ImportError:
        return np.dtype("V2")
    return np.dtype(bfloat16)


def empty(like, shape, dtype=None):
    """A new array of the kind of `like`, in its dtype unless named."""
    if type(like) is np.ndarray:
        return np.empty(shape, like.dtype if dtype is None else numpy_dtype(dtype))
    torch = torch_of(like)
    if torch is not None:
        return torch.empty(shape, dtype=like.dtype if dtype is None else getattr(torch, TORCH_NAMES[dtype]))
    return np.empty(shape, numpy_dtype(dtype or describe(like)[1]))


def spread(x, shape):
    """x with axes of size 1 spread to the shape, as a view."""
    return np.broadcast_to(x, shape) if torch_of(x) is None else x.expand(shape)


def readable(x, copy):
    """x as the library reads it, by the array API's `copy`: False never copies, None where it must, True always."""
    if copy is False or x is None:
        return x
    if copy is None:
        try:
            if _attn.describe(x)[1] in TORCH_NAMES or x.dtype.kind == "b":
                return x
        except (TypeError, ValueError, AttributeError):
            pass
    if torch_of(x) is not None:
        return x.detach().cpu().clone()
    a = np.array(x, copy=True, order="C")
    if a.dtype.kind in "iu":
        return a.astype(np.float64)
    return a.astype(a.dtype.newbyteorder("=")) if a.dtype.kind == "f" else a


def numbers(x, dtype):
    """A small array of numbers (lengths, slopes): lists become arrays, arrays stay what they are."""
    if isinstance(x, (list, tuple, int, float, np.generic)):
        return np.atleast_1d(np.asarray(x, dtype))
    return x
