# SPDX-License-Identifier: Apache-2.0
"""The bound of docs/numerics.md for each element of an output, in NumPy, from the stages of plant.attention.

For the right answer it is the page's bound. For a planted one the same formulas are taken of its own stages, which tells how far two
programs with the same mistake may be apart."""
import numpy as np

# unit roundoff, relative errors of exp and tanh, least denormal, least normal, and a factor for second-order terms
COMPUTED = {"f32": (2.0**-24, 1.5e-7, 6e-7, 2.0**-149, 2.0**-126, 1.01), "f64": (2.0**-53, 3e-16, 2e-15, 2.0**-1074, 2.0**-1022, 2.02)}
STORED = {"f32": (2.0**-24, 2.0**-149), "f64": (2.0**-53, 2.0**-1074), "f16": (2.0**-11, 2.0**-24), "bf16": (2.0**-8, 2.0**-133)}


def arithmetic(dtype):
    return COMPUTED["f64" if dtype == "f64" else "f32"]


def projected(a, a_error, w, bias, dtype):
    """The bound of a W + bias where a may be off by a_error."""
    u, _, _, tiny, _, slack = arithmetic(dtype)
    terms = a.shape[-1]
    size = (abs(a) + a_error) @ abs(w) + abs(bias)
    return slack * (a_error @ abs(w) + (min(terms, 64) + -(-terms // 64) + 2) * u * size + (terms + 2) * tiny)


def turning(p, x, dtype):
    """More than what RoPE may do to a number of x, in f32 or f64: the greatest angle is the greatest position."""
    farthest = max(np.max(np.abs(p.get("positions", 0))), sum(p["shape"][name] for name in ("Lq", "Lk")))
    return np.full(x.shape, (4 + 2 * farthest) * arithmetic(dtype)[0] * 2 * abs(x).max(initial=0))


def logit_error(s, moved, dtype):
    """E_j. moved: what the scores may be off by already."""
    u, _, tanh, tiny, _, _ = arithmetic(dtype)
    d, scale, cap = s["q"].shape[-1], abs(s["scale"]), s["cap"]
    error = (d + 4) * u * scale * (s["size"] + moved) + 4 * d * tiny + scale * moved
    if cap:
        error = error + tanh * abs(s["capped"]) + 4 * u * np.minimum(abs(s["scaled"]), cap) + 3 * cap * tiny
    return error + 6 * u * (abs(s["capped"]) + abs(s["added"]))


def weight_error(s, moved, dtype, Lk):
    """D_j, the number of visible keys, and the steps of the sums."""
    u, exp, _, _, least, _ = arithmetic(dtype)
    see, axis = np.isfinite(s["masked"]), s["axis"]
    error = logit_error(s, moved, dtype)
    top = np.where(see, s["masked"], -np.inf).max(axis=axis, keepdims=True)
    distance = np.where(see, abs(s["masked"] - np.where(np.isfinite(top), top, 0)), 0) + (10 if Lk > 128 else 0)
    steps = -(-Lk // 128) + 2 * -(-Lk // 1024)
    e = error + 4 * u * distance + (1 + steps) * (exp + 2 * u)
    n = see.sum(axis=-1, keepdims=True)
    w = np.where(see, abs(s["shares"]), 0)
    e = np.minimum(np.where(see, e, 0), 700)
    total = np.maximum((w * np.exp(e)).sum(axis=axis, keepdims=True), 1) if s["softmax"] else 1
    rise = np.exp(np.minimum(e + np.log(total) + (n + steps + 4) * u, 700)) - 1
    drift = np.minimum(w * rise, 1) + 4 * u * w + 256 * (n + 8) * least
    return np.where(see, drift if s["softmax"] else error, 0), n, steps


def output_error(s, dtype, inexact=None):
    """Before the rounding to the output's dtype. inexact: what q, k, v (heads shared) may be off by."""
    u, _, _, tiny, _, slack = arithmetic(dtype)
    dq, dk, dv = inexact or (0, 0, 0)
    moved = 0
    if inexact:
        moved = (abs(s["q"]) + dq) @ (abs(s["k"]) + dk).swapaxes(2, 3) - abs(s["q"]) @ abs(s["k"]).swapaxes(2, 3)
    drift, n, steps = weight_error(s, moved, dtype, s["masked"].shape[3])
    w, v = np.where(np.isfinite(s["weights"]), abs(s["weights"]), 0), abs(s["v"]) + dv
    error = drift @ v + (w @ dv if inexact else 0) + (n + steps + 4) * u * (w @ v) + 256 * (n + 8) * tiny
    blind = (v.shape[2] + 4) * u * v.mean(axis=2, keepdims=True) if "mean" in s else 0
    return slack * np.where(n > 0, error, blind)


def stored(error, want, dtype):
    """The bound after the rounding to dtype; half a denormal is exact in a row that sees nothing, yet zero is met anyway."""
    u, tiny = STORED[dtype]
    with np.errstate(invalid="ignore"):
        return error + (abs(np.nan_to_num(want, posinf=0, neginf=0)) + error) * u * 1.001 + tiny


def bounds(got, want, limit):
    """How many bounds got is away from want, at the worst element: infinite where NaN or an infinity is not met in kind."""
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    alike = (got == want) | (np.isnan(got) & np.isnan(want))
    with np.errstate(invalid="ignore", over="ignore"):
        away = np.where(np.isfinite(got) & np.isfinite(want), abs(got - want) / limit, np.inf)
    return float(np.where(alike, 0, away).max(initial=0))
