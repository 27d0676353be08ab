# SPDX-License-Identifier: Apache-2.0
"""Attention by the definition, in float64 NumPy: what the package's tests compare with."""
import numpy as np


def attention(q, k, v, mask=None, bias=None, causal=False, offset=0, scale=None, softcap=0, window=None, kv_len=None, q_len=None,
              alibi=None, sinks=None):
    """{"out", "lse", "weights", "masked"} of rank-4 arrays; offset: a number or one for each item; alibi: slopes (H,)."""
    q, k, v = (np.asarray(x).astype("f8") for x in (q, k, v))
    batch, heads, rows, d = q.shape
    k, v = (np.repeat(x, heads // x.shape[1], axis=1) for x in (k, v))
    keys = k.shape[2]
    score = q @ k.swapaxes(-1, -2) * (d ** -0.5 if scale is None else scale)
    if softcap:
        score = softcap * np.tanh(score / softcap)
    position = (np.reshape(np.broadcast_to(offset, batch), (batch, 1, 1, 1)) + np.arange(rows)[:, None])
    distance = np.arange(keys) - position
    if alibi is not None:
        score = score - np.reshape(alibi, (-1, 1, 1)) * abs(distance)
    seen = np.ones((batch, heads, rows, keys), bool)
    if bias is not None:
        score, seen = score + np.where(np.isneginf(bias), 0, bias), seen & ~np.isneginf(bias)
    if mask is not None:
        seen = seen & mask
    if causal:
        seen = seen & (distance <= 0)
    if window is not None:
        left, right = (np.inf if side < 0 else side for side in window)
        seen = seen & (distance >= -left) & (distance <= right)
    if kv_len is not None:
        seen = seen & (np.arange(keys) < np.reshape(kv_len, (-1, 1, 1, 1)))
    if q_len is not None:
        seen = seen & (np.arange(rows)[:, None] < np.reshape(q_len, (-1, 1, 1, 1)))
    score = np.where(seen, score, -np.inf)
    total = score
    if sinks is not None:
        total = np.concatenate([score, np.broadcast_to(np.reshape(sinks, (1, -1, 1, 1)), score.shape[:3] + (1,))], -1)
    with np.errstate(divide="ignore", invalid="ignore"):
        peak = np.max(total, axis=-1, keepdims=True, initial=-np.inf)
        peak = np.where(np.isneginf(peak), 0, peak)
        lse = np.log(np.exp(total - peak).sum(-1, keepdims=True)) + peak
        weights = np.where(seen, np.exp(score - np.where(np.isneginf(lse), 0, lse)), 0)
    if q_len is not None:
        lse = np.where(np.arange(rows)[:, None] < np.reshape(q_len, (-1, 1, 1, 1)), lse, -np.inf)
    return {"out": weights @ v, "lse": lse[..., 0], "weights": weights, "masked": score}
