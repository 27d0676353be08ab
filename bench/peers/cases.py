# SPDX-License-Identifier: Apache-2.0
"""What is compared: the shapes of `attn bench`, their data, and the float64 truth."""
from dataclasses import dataclass

import numpy as np

import attnlib


@dataclass(frozen=True)
class Case:
    """Attention of q [heads,queries,dim] with k and v [kv_heads,keys,dim]; mha: x [queries,heads*dim] with its projections around."""
    heads: int
    kv_heads: int
    queries: int
    keys: int
    dim: int
    dtype: str = "f32"  # of everything; of one query, of k and v alone
    causal: bool = False
    masked: bool = False
    mha: bool = False

    @property
    def name(self):
        shared = "" if self.kv_heads == self.heads else f"/{self.kv_heads}"
        if self.mha:
            return f"{self.dtype} mha ({self.queries},{self.heads * self.dim}), {self.heads} heads"
        what = "decode " if self.queries == 1 else ""
        return (f"{self.dtype} {what}({self.heads}{shared},{self.keys},{self.dim})" + (" causal" if self.causal else "") +
                (" bool mask" if self.masked else ""))

    @property
    def q_dtype(self):
        return "f32" if self.queries == 1 else self.dtype

    @property
    def flops(self):
        cells = self.queries * (self.queries + 1) / 2 if self.causal else self.queries * self.keys
        width = self.heads * self.dim
        return 4 * cells * width + (8 * self.queries * width * width if self.mha else 0)

    @property
    def bytes(self):
        """Of K and V where one query reads them, else 0."""
        return 2 * self.kv_heads * self.keys * self.dim * (4 if self.dtype == "f32" else 2) if self.queries == 1 else 0


def square(heads, length, dim, **more):
    return Case(heads, heads, length, length, dim, **more)


def decode(keys, dtype="f32"):
    return Case(14, 2, 1, keys, 64, dtype)


CASES = [
    square(8, 10, 64), square(12, 128, 64), square(12, 512, 64), square(8, 2048, 64), square(8, 4096, 128), square(8, 16384, 64),
    Case(14, 2, 2048, 2048, 64, causal=True), square(8, 2048, 64, masked=True),
    square(12, 512, 64, dtype="bf16"), square(8, 2048, 64, dtype="bf16"), square(8, 2048, 64, dtype="f16"),
    decode(4096), decode(32768), decode(131072), decode(32768, "f16"), decode(32768, "bf16"),
    square(8, 10, 64, mha=True), square(12, 512, 64, mha=True),
]
QUICK = [square(8, 10, 64), square(12, 128, 64), decode(4096), square(12, 128, 64, dtype="bf16"), square(8, 10, 64, mha=True)]


class Data:
    """The inputs of a case, normally distributed, as float32 that its dtype holds exactly; mha: q is x, and w the weights
    [width, 4*width] of Q, K, V and O."""

    def __init__(self, case):
        random = np.random.default_rng(1)

        def numbers(*shape):
            return attnlib.as_f64(attnlib.convert(random.standard_normal(shape, "f4"), case.dtype)).astype("f4")
        self.case, self.mask = case, None
        if case.mha:
            width = case.heads * case.dim
            self.q = numbers(case.queries, width)
            self.w = numbers(width, 4 * width) / np.float32(np.sqrt(width))
            return
        self.q = numbers(case.heads, case.queries, case.dim)
        self.k, self.v = (numbers(case.kv_heads, case.keys, case.dim) for _ in "kv")
        if case.masked:
            self.mask = random.integers(0, 4, (case.queries, case.keys)) != 0

    def truth(self):
        """(rows, their output in float64), of at most 32 of the rows."""
        case = self.case
        rows = np.linspace(0, case.queries - 1, min(case.queries, 32)).astype(int)
        if not case.mha:
            return rows, attention64(case, self.q[:, rows], self.k, self.v, rows, self.mask)
        width = case.heads * case.dim
        q, k, v = (split(case, self.q.astype("f8") @ self.w[:, i * width:(i + 1) * width]) for i in range(3))
        z = attention64(case, q[:, rows], k, v, rows, None)
        return rows, joined(z) @ self.w[:, 3 * width:]


def split(case, x):
    """[L, heads*dim] -> [heads, L, dim]"""
    return x.reshape(len(x), case.heads, case.dim).swapaxes(0, 1)


def joined(z):
    """[heads, L, dim] -> [L, heads*dim]"""
    return z.swapaxes(0, 1).reshape(z.shape[1], -1)


def attention64(case, q, k, v, rows, mask):
    out = np.empty(q.shape)
    for h in range(case.heads):
        kv = h // (case.heads // case.kv_heads)
        scores = q[h].astype("f8") @ k[kv].T.astype("f8") / np.sqrt(case.dim)
        if case.causal:
            scores[np.arange(case.keys) > rows[:, None]] = -np.inf
        if mask is not None:
            scores[~mask[rows]] = -np.inf
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        out[h] = weights @ v[kv].astype("f8") / weights.sum(axis=1, keepdims=True)
    return out
