# SPDX-License-Identifier: Apache-2.0
"""Attention in Python, cell by cell: in VS Code, Spyder or Jupyter (jupytext) a notebook, else a program."""

# %% Four words, one head: which word looks at which?
import numpy as np

import attn

words = ["the", "cat", "sat", "down"]
rng = np.random.default_rng(7)
x = rng.standard_normal((4, 8)).astype(np.float32)
out, weights = attn.sdpa(x, x, x, causal=True, return_weights=True)
print(weights.round(2))

# %% Every number of it, as a page
why = attn.explain(x, x, x, causal=True, tokens=words)
why.cell(i=2)

# %% In a notebook the last value of a cell shows itself
why

# %% Many heads, with projections
w_q, w_k, w_v, w_o = rng.standard_normal((4, 8, 8)).astype(np.float32) / 8 ** 0.5
layer = attn.MultiHeadAttention(w_q, w_k, w_v, w_o, heads=2)
whole = layer(x, causal=True)
print(layer, whole.shape)

# %% Word by word from a cache: the same bits
cache = attn.KVCache(kv_heads=2, capacity=4, head_dim=4)
q, k, v = ((x @ w).reshape(1, 4, 2, 4).swapaxes(1, 2) for w in (w_q, w_k, w_v))
rows = []
for i in range(4):
    cache.append(k[:, :, i:i + 1], v[:, :, i:i + 1])
    rows.append(cache.attend(q[:, :, i:i + 1]))
assert np.array_equal(np.concatenate(rows, 2), attn.sdpa(q, k, v, causal=True))
cache

# %% What is wrong with an output?
forgotten = attn.sdpa(x, x, x, causal=True, scale=1.0)  # somebody forgot 1 / sqrt(8)
attn.diagnose(x, x, x, forgotten, causal=True)
