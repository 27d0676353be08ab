#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""200 right answers, in f32, f16 and bf16, computed the ways that people and libraries compute them: none is accused.

ATTN_TEST_SEED chooses the data, ATTN_TEST_COUNT how many answers."""
import os
import sys

import numpy as np

import bound
import plant
import plant_mha
import problems
import support

SEED = int(os.environ.get("ATTN_TEST_SEED", "6"))
COUNT = int(os.environ.get("ATTN_TEST_COUNT", "200"))
OPTIONS = ("mask", "padding", "bias", "causal", "window", "softcap", "gqa", "sinks", "alibi", "kv_len", "empty", "large", "tall", "square")


def one_by_one(a, b):
    """A product whose sums go from the last term to the first, each step rounded."""
    total = np.zeros(np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) + (a.shape[-2], b.shape[-1]), a.dtype)
    for t in reversed(range(a.shape[-1])):
        total = total + a[..., :, t, None] * b[..., None, t, :]
    return total


def logits(p, q, k, dot):
    """All that stands before the softmax, the right way."""
    s = {"scaled": dot(q, k.swapaxes(2, 3))}
    return plant.logits(p, {}, s)


def plain(p, q, k, v, scale):
    x = logits(p, q * scale, k, one_by_one)
    return one_by_one(plant.softmax(x, -1, plant.sinks(p, {}, q.shape[1], q.dtype)), v)


def split_scale(p, q, k, v, scale):
    """The root of the scale on q and on k, the division at the end."""
    root = q.dtype.type(np.sqrt(scale))
    x, sink = logits(p, q * root, k * root, np.matmul), plant.sinks(p, {}, q.shape[1], q.dtype)
    top = np.maximum(x.max(axis=-1, keepdims=True), sink)
    top = np.where(np.isneginf(top), 0, top)
    powers = np.exp(x - top)
    total = powers.sum(axis=-1, keepdims=True) + np.exp(sink - top)
    return (powers @ v) / np.where(total == 0, 1, total)


def by_blocks(p, q, k, v, scale):
    """Keys in blocks of three with a running maximum."""
    x, sink = logits(p, q * scale, k, np.matmul), plant.sinks(p, {}, q.shape[1], q.dtype)
    top = np.broadcast_to(sink, x.shape[:3] + (1,))
    total, out = np.where(np.isneginf(top), 0, 1).astype(q.dtype), np.zeros(x.shape[:3] + v.shape[3:], q.dtype)
    for j in range(0, x.shape[3], 3):
        block = x[..., j:j + 3]
        new = np.maximum(top, block.max(axis=-1, keepdims=True))
        base = np.where(np.isneginf(new), 0, new)
        shrink, powers = np.exp(top - base), np.exp(block - base)
        total, out, top = total * shrink + powers.sum(axis=-1, keepdims=True), out * shrink + powers @ v[:, :, j:j + 3], new
    return out / np.where(total == 0, 1, total)


WAYS = (plain, split_scale, by_blocks)


def right_sdpa(p, way, real):
    q, k, v = (p[name].astype(real) for name in "qkv")
    k, v = plant.share_heads(k, q.shape[1], {}), plant.share_heads(v, q.shape[1], {})
    with np.errstate(invalid="ignore"):
        return way(p, q, k, v, real(plant.scale_of(p, {}, q)))


def right_mha(p, way, real):
    qkv = {}
    for name in "qkv":
        projected = p["x"].astype(real) @ p["w_" + name].astype(real) + p["b_" + name].astype(real)
        qkv[name] = plant_mha.split(projected, plant_mha.heads_of(p, name), {})
    z = right_sdpa({**p, **qkv}, way, real)
    return one_by_one(plant_mha.concat(z, {}), p["w_o"].astype(real)) + p["b_o"].astype(real)


def stored_as(out, dtype):
    return plant.f16(out) if dtype == "f16" else plant.bf16(out) if dtype == "bf16" else out


def random_problem(rng, dtype, mha):
    """One whose numbers all fit the dtype."""
    has = [name for name in OPTIONS if rng.random() < 0.3]
    has = [name for name in has if not (name == "alibi" and "tall" in has)] + (["x"] if mha else [])
    return problems.fitted(problems.make(" ".join(has), int(rng.integers(10**6))), dtype)


def fault(p, way, dtype):
    out = stored_as((right_mha if "x" in p else right_sdpa)(p, way, np.float32), dtype)
    want, limit = plant_mha.wanted(p, (), dtype)
    away = bound.bounds(out, want, limit)
    if away > 1:
        return f"the answer is {away:.3g} bounds away by our own count"
    d = support.Diagnosis(p, out, dtype)
    if d.code or d.report["verdict"] != "equal" or not d.report["equal"] or d.report["candidates"] or d.report["tied"]:
        return str(d)
    return "" if d.report["error"]["max_bounds"] <= 1 and d.report["differing"] == 0 else str(d.report)


def main():
    rng = np.random.default_rng(SEED)
    jobs = []
    for n in range(COUNT):
        dtype = ("f32", "f16", "bf16")[n % 3]
        jobs.append((random_problem(rng, dtype, n % 5 == 4), WAYS[n // 3 % len(WAYS)], dtype))
    faults = [(job, words) for job, words in zip(jobs, support.in_parallel(fault, jobs)) if words]
    for (p, way, dtype), words in faults:
        print(f"{way.__name__} in {dtype}, {' '.join(sorted(p['features']))} {p['shape']} seed {p['seed']}: {words}")
    print(f"seed {SEED}: {len(jobs)} right answers, {len(faults)} accused")
    return 1 if faults or not jobs else 0


if __name__ == "__main__":
    sys.exit(main())
