# SPDX-License-Identifier: Apache-2.0
"""Which data each mistake can be seen on: the features that a problem needs, and seeded problems that have them."""
import itertools

import numpy as np

import plant
import plant_mha

# id or id:variant -> what kind of mistake (two of a kind cannot be made at once), and sets of features, one of which a problem must have.
SDPA = {
    "k-not-transposed": ("scores", ["width=keys"]),
    "qk-swapped": ("scores", ["square"]),
    "v-as-k": ("scores", ["same-width"]),
    "k-as-v": ("values", ["same-width"]),
    "softmax-over-columns": ("softmax", ["", "causal square"]),
    "softmax-over-all-cells": ("softmax", ["", "causal square"]),
    "softmax-over-heads": ("softmax", [""]),
    "softmax-over-columns:naive": ("softmax", []),  # nowhere planted, but true of what is
    "softmax-over-all-cells:naive": ("softmax", []),
    "softmax-over-heads:naive": ("softmax", []),
    "no-softmax": ("softmax", [""]),
    "max-not-subtracted": ("softmax", ["hot"]),
    "no-scale": ("scale", ["", "causal"]),
    "scale-d_k": ("scale", ["", "mask"]),
    "scale-sqrt-d_model": ("scale", ["", "gqa"]),
    "scale-multiplied": ("scale", [""]),
    "scale-twice": ("scale", ["", "causal"]),
    "scale-padded": ("scale", ["", "causal"]),
    "scale-padded:32": ("scale", []),  # nowhere planted, but true of what is
    "mask-ignored": ("mask", ["mask", "bias", "padding"]),
    "mask-flipped": ("mask", ["mask", "padding"]),
    "mask-added-after-softmax": ("mask", ["mask", "bias", "causal"]),
    "mask-added-after-softmax:-1e9": ("mask", ["mask", "causal"]),
    "mask-multiplied": ("mask", ["mask", "bias", "causal"]),
    "weights-not-renormalised": ("mask", ["mask", "causal", "kv_len"]),
    "mask-on-queries": ("mask", ["kv_len square", "padding square"]),
    "length-ignored": ("mask", ["kv_len"]),
    "mask-finite-1e4": ("empty", ["mask empty"]),
    "mask-finite-1e4:set": ("empty", ["mask empty"]),
    "mask-finite-1e9": ("empty", ["mask empty"]),
    "mask-finite-1e9:set": ("empty", ["mask empty"]),
    "mask-finite-1e9:f64": ("empty", []),  # nowhere planted: the scores are left, so that in 16 bits it is what -1e4 is
    "mask-finite-min": ("empty", ["mask empty"]),
    "mask-finite-min:set": ("empty", ["mask empty"]),
    "masked-rows-nan": ("empty", ["mask empty", "causal tall"]),
    "masked-rows-mean": ("empty", ["mask empty", "causal tall"]),
    "causal-other-align": ("causal", ["causal oblong"]),
    "causal-other-align:everywhere": ("causal", ["causal oblong alibi", "causal oblong window", "oblong alibi", "oblong window"]),
    "causal-off-by-one": ("causal", ["causal", "causal square"]),
    "causal-strict": ("causal", ["causal", "causal square"]),
    "causal-reversed": ("causal", ["causal", "causal square"]),
    "causal-ignored": ("causal", ["causal", "causal square"]),
    "window-left-minus-one": ("window", ["window", "window causal"]),
    "window-left-plus-one": ("window", ["window", "window causal"]),
    "window-right-minus-one": ("window", ["window"]),
    "window-right-plus-one": ("window", ["window"]),
    "window-ignored": ("window", ["window", "window causal"]),
    "softcap-after-mask": ("softcap", ["softcap causal", "softcap mask", "softcap bias"]),
    "no-softcap": ("softcap", ["softcap", "softcap causal"]),
    "gqa-tiled": ("heads", ["gqa"]),
    "kv-not-shared": ("heads", ["gqa"]),
    "kv-first-head": ("heads", ["gqa"]),
    "sink-as-zero-logit": ("sink", ["sinks", "sinks causal"]),
    "sink-ignored": ("sink", ["sinks", "sinks mask"]),
    "alibi-wrong-heads": ("alibi", ["alibi odd"]),
    "alibi-wrong-heads:next-power": ("alibi", ["alibi odd"]),
    "alibi-wrong-heads:kv-heads": ("alibi", ["alibi gqa"]),
    "alibi-sign-flipped": ("alibi", ["alibi", "alibi causal"]),
    "alibi-ignored": ("alibi", ["alibi", "alibi causal"]),
    "alibi-by-columns": ("alibi", ["alibi", "alibi square"]),
    "computed-f16": ("precision", ["large"]),
    "computed-bf16": ("precision", ["large"]),
    "f16-accumulators": ("precision", ["large"]),
    "layout-blhd": ("layout", [""]),
    "layout-blhd:output-too": ("layout", [""]),
    "layout-blhd:roles": ("layout", ["square"]),
    "layout-blhd:strides-of-v": ("layout", ["", "causal"]),
    "output-not-transposed": ("layout", [""]),
    "rope-other-pairs": ("rope", ["rope", "rope causal", "rope gqa x"]),
    "rope-ignored": ("rope", ["rope", "rope pads"]),
    "rope-not-on-q": ("rope", ["rope"]),
    "rope-not-on-k": ("rope", ["rope", "rope gqa", "rope x"]),
    "rope-on-v": ("rope", ["rope", "rope causal x", "rope gqa"]),
    "rope-backwards": ("rope", ["rope"]),
    "rope-theta:1e4": ("rope", ["rope"]),
    "rope-theta:5e5": ("rope", ["rope", "rope gqa x"]),
    "rope-theta:1e6": ("rope", ["rope"]),
    "rope-off-by-one": ("rope", ["rope", "rope square", "rope gqa x"]),
    "rope-off-by-one:behind": ("rope", ["rope", "rope square"]),
    "rope-rows-from-zero": ("rope", ["rope late"]),
    "rope-pads-counted": ("rope", ["rope pads"]),
    "rope-pads-counted:rows": ("rope", ["rope pads", "rope late kv_len"]),
    "rope-pads-counted:keys": ("rope", ["rope pads"]),
}
MHA = {
    "heads-reshape-only": ("split", [""]),
    "concat-reshape-only": ("concat", [""]),
    "concat-interleaved": ("concat", [""]),
    "concat-reversed": ("concat", [""]),
    "w_qk-swapped": ("w", ["no-bias"]),
    "w_qv-swapped": ("w", ["no-bias"]),
    "w_kv-swapped": ("w", ["no-bias"]),
    "w_qkv-rotated": ("w", ["no-bias"]),
    "w_qkv-rotated-back": ("w", ["no-bias"]),
    "w_qk-swapped:with-biases": ("w", [""]),
    "w_qv-swapped:with-biases": ("w", [""]),
    "w_kv-swapped:with-biases": ("w", [""]),
    "w_qkv-rotated:with-biases": ("w", []),  # these three nowhere planted, but true of what is
    "w_qkv-rotated-back:with-biases": ("w", []),
    "scale-sqrt-d_model:width": ("scale", []),
    "w_q-transposed": ("w", ["w-square"]),
    "w_k-transposed": ("w", ["w-square"]),
    "w_v-transposed": ("w", ["w-square"]),
    "w_o-transposed": ("w_o", ["w-square"]),
    "b_q-missing": ("b_q", [""]),
    "b_k-missing": ("b_k", ["softcap", "sinks"]),  # else a row's scores are off by one number, which softmax forgets
    "b_v-missing": ("b_v", [""]),
    "b_o-missing": ("b_o", [""]),
    "w_o-missing": ("w_o", ["w-square"]),
    "rope-before-split": ("rope", ["rope"]),
}
EVERY = {**SDPA, **MHA}
# Mistakes of these two kinds have no one meaning together: a sink in a softmax over columns, a bias that is missing from no projection.
STRANGERS = [{"softmax", "sink"}, {"mask", "empty"}, {"empty", "sink"}, {"w_o", "b_o"}, {"split", "rope"},
             {"precision", "rope"}]
HIDING = {"mask", "padding", "causal", "window", "kv_len", "empty"}


def applicable(p, name):
    """Can the mistake be made on this problem at all, and does it say there what it says?"""
    has, q, k, v = p["features"], p["shape"]["Lq"], p["shape"]["Lk"], p["shape"]
    plain = name.partition(":")[0]
    fits = {"k-not-transposed": v["d"] == k, "qk-swapped": q == k, "v-as-k": v["d"] == v["d_v"], "k-as-v": v["d"] == v["d_v"],
            "mask-on-queries": "kv_len" in has or (q == k and "padding" in has),
            "length-ignored": "kv_len" in has, "weights-not-renormalised": has & HIDING, "mask-flipped": "mask" in p,
            "mask-added-after-softmax:-1e9": has & HIDING,
            "layout-blhd:roles": q == k and v["H"] == v["Hkv"] and not has & (HIDING | {"bias", "alibi", "sinks"}),
            "alibi-wrong-heads:kv-heads": "alibi" in p and v["H"] != v["Hkv"], "w_o-missing": "w-square" in has,
            "scale-sqrt-d_model:width": "x" in p, "layout-blhd:strides-of-v": "x" not in p, "max-not-subtracted": "sinks" not in p}
    if name in MHA and "x" not in p:
        return False
    if plain.startswith("rope"):
        return "rope" in p and (plain != "rope-pads-counted" or "positions" in p or name.endswith(":rows"))
    if plain == "causal-other-align":
        return bool(has & ({"causal", "window", "alibi"} if ":" in name else {"causal"})) and (q != k or "kv_len" in has)
    if name in fits:
        return bool(fits[name])
    if plain in ("mask-added-after-softmax", "mask-multiplied"):
        return bool(has & HIDING) or "bias" in p
    if plain == "mask-ignored":
        return "mask" in p or "bias" in p
    if plain.endswith("-transposed") and plain.startswith("w_"):
        return "w-square" in has and (v["H"] == v["Hkv"] or plain[2] in "qo")
    if plain.startswith("w_"):
        return v["H"] == v["Hkv"]
    if plain.startswith("gqa") or plain.startswith("kv-"):
        return v["H"] != v["Hkv"]
    first = {"window": "window", "softcap": "softcap", "no-softcap": "softcap", "sink": "sinks", "alibi": "alibi", "causal": "causal"}
    for start, option in first.items():
        if plain.startswith(start):
            return option in p
    return True


def sizes(rng, has):
    """B, H, Hkv, Lq, Lk, d, d_v"""
    pick = lambda low, high: int(rng.integers(low, high + 1))  # noqa: E731
    n = {"B": pick(1, 2), "H": pick(2, 4), "Lq": pick(4, 9), "d": pick(2, 9), "d_v": pick(2, 9)}
    n["H"] = int(rng.choice([3, 5, 6])) if "odd" in has else n["H"]
    n["Hkv"] = n["H"]
    if "gqa" in has:
        n["H"], n["Hkv"] = [(4, 2), (6, 2), (6, 3), (8, 2)][pick(0, 3)] if "odd" not in has else [(6, 2), (6, 3)][pick(0, 1)]
    n["Lk"] = n["Lq"] + pick(2, 5) if "tall" not in has else max(2, n["Lq"] - pick(2, 3))
    if "large" in has:
        n.update(Lq=24 + pick(0, 9), Lk=40 + pick(0, 9), d=32, d_v=24)
    if "square" in has or "x" in has:
        n["Lk"] = n["Lq"]
    if "width=keys" in has:
        n["d"] = n["Lk"]
    if "rope" in has:
        n["d"], n["d_v"] = n["d"] + n["d"] % 2, n["d_v"] + n["d_v"] % 2
    if "same-width" in has or "x" in has:
        n["d_v"] = n["d"]
    return n


def mask_of(rng, shape, has):
    """True = may be seen. Each row sees a key and misses one; with "empty" some rows see none."""
    B, H, Lq, Lk = shape
    if "padding" in has:
        mask = rng.random((B, 1, 1, Lk)) < 0.6
    else:
        mask = rng.random([(Lq, Lk), (H, Lq, Lk), (B, H, Lq, Lk), (B, 1, Lq, Lk)][int(rng.integers(4))]) < 0.6
    index = np.indices(mask.shape)
    mask[index[-1] == (3 * index[-2] + 1) % Lk] = True
    mask[index[-1] == (3 * index[-2] + 2) % Lk] = False
    if "empty" in has:
        mask[..., 1::3, :] = False
    return mask


def options(rng, n, has):
    """The options of the command that the features ask for."""
    o, shape = {}, (n["B"], n["H"], n["Lq"], n["Lk"])
    if has & {"mask", "padding"}:
        o["mask"], o["drop"] = mask_of(rng, shape, has), bool(rng.random() < 0.3)
    if "bias" in has:
        o["bias"] = rng.normal(size=[(n["Lq"], n["Lk"]), (n["H"], n["Lq"], n["Lk"])][int(rng.integers(2))]).astype(np.float32) * 2
    if "causal" in has:
        o["causal"] = True
    if "window" in has:
        o["window"] = (int(rng.integers(1, 3)), int(rng.integers(1, 3)))
    if "kv_len" in has:
        o["kv_len"] = rng.integers(2, max(3, n["Lk"]), n["B"])
    if "hot" in has:
        o["scale"] = 400.0
    if "softcap" in has:
        o["softcap"] = 1.5
    if "sinks" in has:
        o["sinks"] = rng.normal(size=n["H"]).astype(np.float32) + 1
    if "alibi" in has:
        o["alibi"] = True
    if "rope" in has:
        o["rope"] = (float(rng.choice([1e3, 1e4, 5e5, 1e6])), bool(rng.random() < 0.5))
    if "pads" in has:
        o["positions"] = np.maximum(np.arange(n["Lk"]) - rng.integers(1, 3, (n["B"], 1)), 0)
    if has & {"causal", "window", "alibi", "rope"}:
        free = n["Lq"] != n["Lk"] and "kv_len" not in has
        o["align"] = "bottom-right" if has & {"tall", "late"} or (free and rng.random() < 0.5) else "top-left"
    return o


def make(features, seed):
    """A problem that has these features (a text); with "x" one of mha."""
    has, rng = set(features.split()), np.random.default_rng([11, seed])
    n = sizes(rng, has)
    p = {"features": has, "shape": n, "seed": seed, **options(rng, n, has)}
    normal = lambda *shape: rng.normal(size=shape).astype(np.float32)  # noqa: E731
    if "x" not in has:
        p["q"], p["k"] = 1.5 * normal(n["B"], n["H"], n["Lq"], n["d"]), normal(n["B"], n["Hkv"], n["Lk"], n["d"])
        p["v"] = normal(n["B"], n["Hkv"], n["Lk"], n["d_v"])
        return p
    inner = n["H"] * n["d"]
    width = inner if "w-square" in has else inner + 2
    p.update(x=normal(n["B"], n["Lq"], width), heads=n["H"], kv_heads=n["Hkv"])
    for name, heads in zip("qkv", (n["H"], n["Hkv"], n["Hkv"])):
        p["w_" + name] = normal(width, heads * n["d"]) * np.float32(1.2 / np.sqrt(width))
        p["b_" + name] = 0 * normal(heads * n["d"]) if "no-bias" in has else normal(heads * n["d"])
    p["w_o"], p["b_o"] = normal(inner, width) / np.float32(np.sqrt(inner)), normal(width)
    return p


def fitted(p, dtype):
    """The problem with arrays that f16 or bf16 holds exactly."""
    for name in ("q", "k", "v", "x", *(f"{w}_{n}" for w in "wb" for n in "qkvo")):
        if name in p and dtype in ("f16", "bf16"):
            p[name] = (plant.f16 if dtype == "f16" else plant.bf16)(p[name]).astype(np.float32)
    return p


def changed(p, mistakes, dtype):
    """How many bounds the planted answer is away from the right one."""
    want, limit = plant_mha.wanted(p, (), dtype)
    return plant_mha.bound.bounds(plant_mha.given(p, mistakes, dtype), want, limit)


def meaningful(p, mistakes):
    """NumPy's naive softmax gives NaN for a group without a key; a plant must not depend on what one does then. Shapes must fit, too."""
    naively = [name + ":naive" if name.startswith("softmax-over") else name for name in mistakes]
    try:
        with np.errstate(all="ignore"):
            naive = plant_mha.given(p, naively, "f32")
    except ValueError:
        return False
    return np.isfinite(naive).all() or bool({"masked-rows-nan", "mask-added-after-softmax", "max-not-subtracted"} & set(mistakes))


def problem_for(mistakes, features, seed, dtype="f32"):
    """The first problem from that seed on where all of them can be made and together change the answer by ten bounds or more."""
    for s in range(seed, seed + 40):
        p = fitted(make(features, s), dtype)
        if "positions" in p and p["shape"]["Lq"] > p["shape"]["Lk"]:
            return None  # a row before the first key has no position
        if all(applicable(p, name) for name in mistakes) and meaningful(p, mistakes) and changed(p, mistakes, dtype) >= 10:
            return p
    return None


def compatible(a, b):
    """May one person make both mistakes?"""
    kinds = {EVERY[a][0], EVERY[b][0]}
    return len(kinds) == 2 and not any(pair <= kinds for pair in STRANGERS)


def random_pair(rng):
    """((a, b), problem): two compatible mistakes, and data on which both can be made and change the answer."""
    while True:
        a, b = (str(name) for name in rng.choice([name for name in EVERY if EVERY[name][1]], 2))
        if not compatible(a, b):
            continue
        features = " ".join([*(str(rng.choice(EVERY[name][1])) for name in (a, b)), *(["x"] if a in MHA or b in MHA else [])])
        p = problem_for((a, b), features, int(rng.integers(10**6)))
        if p:
            return (a, b), p


def singles(dtype="f32", count=3, seed=0):
    """(id, problem): each mistake on that many problems, each set of features at least once. A low precision is not seen in its own."""
    for at, (name, (_, sets)) in enumerate(EVERY.items()):
        if not sets or (EVERY[name][0] == "precision" and dtype in ("f16", "bf16")):
            continue
        for n in range(max(count, len(sets))):
            features = sets[n % len(sets)] + (" x" if name in MHA else "")
            yield name, problem_for((name,), features, 10**6 * seed + 1000 * at + 100 * n, dtype)


def sets_of_variants(ids):
    """The planted mistakes that an id, or a pair of them, may stand for; none where an id is not one of ours."""
    spelled = [[name for name in EVERY if name.partition(":")[0] == i] for i in ids]
    return [tuple(names) for names in itertools.product(*spelled)]


def distance(p, mistakes, got, dtype):
    """How far got is from that program, in bounds of the two together."""
    with np.errstate(all="ignore"):
        planted = plant_mha.given(p, mistakes, dtype)
        if not np.allclose(planted, got, rtol=0.05, atol=0.05, equal_nan=True):  # far beyond any bound: no need to compute it
            return np.inf
        return plant_mha.bound.bounds(planted, got, 2 * plant_mha.wanted(p, mistakes, dtype)[1])


def within_rounding(p, names, got, dtype):
    """With a low precision among them: is got as near to the other mistake alone as that rounding takes it?"""
    other = [name for name in names if EVERY[name][0] != "precision"]
    with np.errstate(all="ignore"):
        alone, rounded = plant_mha.given(p, other, dtype), plant_mha.given(p, names, dtype)
        return bool(np.nanmax(abs(got - alone)) <= 4 * np.nanmax(abs(rounded - alone)))


def explains(p, ids, got, dtype):
    """Does a program with these mistakes give got? None where it is not ours to say. Four bounds: another may draw the line elsewhere."""
    kinds = {EVERY[names[0]][0] for names in sets_of_variants(ids)} | {EVERY[names[-1]][0] for names in sets_of_variants(ids)}
    if kinds == {"softmax", "empty"}:
        return None  # what sees nothing: a row, or a group of that softmax?
    if len(ids) == 2 and "precision" in kinds:
        return any(within_rounding(p, names, got, dtype) for names in sets_of_variants(ids))
    tried = [names for names in sets_of_variants(ids) if all(applicable(p, name) for name in names)]
    return any(distance(p, names, got, dtype) <= 4 for names in tried) if tried else None


def equivalents(p, got, dtype):
    """The ids whose program gives got on this data, beyond doubt."""
    names = [name for name in EVERY if applicable(p, name) and not name.endswith(":f64")]
    return {name.partition(":")[0] for name in names if distance(p, (name,), got, dtype) <= 1}
