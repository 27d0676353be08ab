# SPDX-License-Identifier: Apache-2.0
"""The float64 reference (a shared library, argument 1) against NumPy, the worked example and published Philox vectors.

ATTN_TEST_SEED and ATTN_TEST_COUNT choose the random problems; exit code 1 when anything differs, 77 without NumPy."""
import ctypes as c
import os
import sys

try:
    import numpy as np
except ImportError:
    print("skipped: no NumPy")
    sys.exit(77)
from numpy_attention import attention

F16, BF16 = 3, 4
DTYPES = {"float32": 1, "float64": 2, "float16": F16, "bool": 5, "int8": 6, "uint8": 7, "int16": 8, "uint16": 9, "int32": 10, "uint32": 11,
          "int64": 12, "uint64": 13}
CAUSAL, SCALE, WINDOW, OFFSET, ALIBI, DROP = (1 << n for n in range(6))


class Tensor(c.Structure):
    _fields_ = [("data", c.c_void_p), ("dtype", c.c_int), ("ndim", c.c_int32), ("shape", c.c_int64 * 8),
                ("stride", c.c_int64 * 8)]


P = c.POINTER(Tensor)


class Options(c.Structure):
    _fields_ = [("struct_size", c.c_uint32), ("flags", c.c_uint32), ("scale", c.c_double), ("softcap", c.c_double), ("mask", P),
                ("bias", P),
                ("align", c.c_int), ("offset", c.c_int64), ("offsets", P), ("window_left", c.c_int64), ("window_right", c.c_int64),
                ("kv_len", P), ("q_len", P), ("cu_seqlens_q", P), ("cu_seqlens_k", P), ("alibi_slopes", P), ("sinks", P),
                ("dropout", c.c_double), ("seed", c.c_uint64), ("first_batch", c.c_int64), ("first_head", c.c_int64),
                ("first_row", c.c_int64), ("keep", P), ("outputs", c.c_void_p * 9)]


class Result(c.Structure):
    _fields_ = [(n, c.c_int64) for n in ("B", "H", "Lq", "Lk", "d", "d_v")] + [(n, c.POINTER(c.c_double)) for n in (
        "scores", "scaled", "capped", "masked", "weights", "output", "lse", "row_max", "entropy", "mass", "average")] + [
        ("hidden", c.POINTER(c.c_uint8))]


def tensor(a, dtype=None):
    t = Tensor(a.ctypes.data, dtype or DTYPES[a.dtype.name], a.ndim)
    t.shape[:a.ndim], t.stride[:a.ndim] = a.shape, [s // a.itemsize for s in a.strides]
    t.keep_alive = a
    return t


def array(pointer, shape):
    n = int(np.prod(shape))
    return np.array(pointer[:n]).reshape(shape) if n else np.zeros(shape)


def run(lib, q, k, v, o, bf16=()):
    """o: the options of numpy_attention.attention, cu_q and cu_k besides; q, k, v named in bf16 hold bf16 bits as uint16."""
    x = Options(flags=(CAUSAL if o.get("causal") else 0) | (DROP if o.get("drop") else 0))
    if "scale" in o:
        x.flags, x.scale = x.flags | SCALE, o["scale"]
    if "window" in o:
        x.flags, (x.window_left, x.window_right) = x.flags | WINDOW, o["window"]
    x.softcap, x.dropout, x.seed = o.get("softcap", 0), o.get("dropout", 0), o.get("seed", 0)
    x.first_batch, x.first_head, x.first_row = o.get("first", (0, 0, 0))
    x.align = 2 if o.get("align") == "bottom-right" else 1
    named = {n: o[n] for n in ("mask", "bias", "kv_len", "q_len", "sinks", "keep") if n in o}
    if "cu_q" in o:
        named["cu_seqlens_q"], named["cu_seqlens_k"] = o["cu_q"], o["cu_k"]
    if isinstance(o.get("offset"), np.ndarray):
        named["offsets"] = o["offset"]
    elif "offset" in o:
        x.flags, x.offset = x.flags | OFFSET, o["offset"]
    if o.get("alibi") is True:
        x.flags |= ALIBI
    elif "alibi" in o:
        named["alibi_slopes"] = o["alibi"]
    for name, a in named.items():
        setattr(x, name, c.pointer(tensor(a)))
    r = Result()
    ts = [tensor(a, BF16 if n in bf16 else None) for n, a in zip("qkv", (q, k, v))]
    assert lib.ref_sdpa(c.byref(r), *(c.byref(t) for t in ts), c.byref(x)) == 0
    rows, cells = (r.B, r.H, r.Lq), (r.B, r.H, r.Lq, r.Lk)
    s = {n: array(getattr(r, n), cells) for n in ("scores", "scaled", "capped", "masked", "weights", "hidden")}
    s.update({n: array(getattr(r, n), rows) for n in ("lse", "row_max", "entropy")})
    s.update(output=array(r.output, rows + (r.d_v,)), mass=array(r.mass, (r.B, r.H, r.Lk)), average=array(r.average, (r.B, r.Lq, r.Lk)))
    s["visible"] = s.pop("hidden") == 0
    lib.ref_free(c.byref(r))
    return s


def differs(got, want):
    """The names of the stages that are not equal to a few units in the last place of float64."""
    bad = []
    for name in got:
        g, w = np.asarray(got[name], float), np.asarray(want[name], float)
        if g.shape != w.shape or not np.allclose(g, w, rtol=1e-11, atol=1e-11, equal_nan=True):
            bad.append(name)
    return bad


# ------------------------------------------------------------------ random problems


def view(rng, a):
    """The same values, laid out in another order of axes or backwards."""
    order = rng.permutation(a.ndim)
    a = np.ascontiguousarray(a.transpose(order)).transpose(np.argsort(order))
    if a.ndim and rng.random() < 0.3:
        axis = int(rng.integers(a.ndim))
        a = np.flip(np.ascontiguousarray(np.flip(a, axis)), axis)
    return a


def spread(rng, shape, full_rank=False):
    """A mask shape that spreads to shape: leading axes left out, others of size 1."""
    rank = 4 if full_rank else int(rng.integers(2, 5))
    return tuple(1 if rng.random() < 0.3 else n for n in shape[-rank:])


def random_options(rng, B, H, Hkv, Lq, Lk, packed):
    o, maybe = {}, lambda p=0.3: rng.random() < p
    shape = (B, H, Lq, Lk)
    o["causal"] = maybe()
    if maybe():
        o["scale"] = float(rng.choice([0, -0.7, 0.3, 2.0]))
    if maybe():
        o["softcap"] = float(rng.choice([0.5, 3.0]))
    if maybe():
        o["window"] = (int(rng.integers(-1, 5)), int(rng.integers(-1, 5)))
    if maybe():
        o["align"] = "bottom-right"
    elif maybe():
        o["offset"] = rng.integers(-4, 5, B) if maybe(0.5) else int(rng.integers(-4, 5))
    if maybe():
        o["alibi"] = True if maybe(0.5) else rng.random((B, H) if maybe(0.5) else H)
    if maybe():
        o["sinks"] = rng.normal(size=H).astype(rng.choice(["f4", "f8"]))
    if maybe():
        o["kv_len"] = rng.integers(0, Lk + 1, B)
    if maybe():
        o["q_len"] = rng.integers(0, Lq + 1, B).astype("i4")
    if maybe():
        o["dropout"], o["seed"] = float(rng.choice([0.1, 0.5, 1.0])), int(rng.integers(0, 2**63))
        o["first"] = tuple(int(n) for n in rng.integers(0, 2**34, 3))
    if not packed:
        if maybe(0.5):
            m = rng.random(spread(rng, shape)) < 0.7
            o["mask"] = view(rng, m.astype(rng.choice(["bool", "i1", "u2", "i8"])))
            o["drop"] = maybe()
        elif maybe():
            o["mask"] = view(rng, rng.normal(size=spread(rng, shape)).astype(rng.choice(["f2", "f4", "f8"])))
        if maybe(0.5):
            bias = rng.normal(size=spread(rng, shape))
            bias[rng.random(bias.shape) < 0.2] = -np.inf
            o["bias"] = view(rng, bias.astype(rng.choice(["f2", "f4", "f8"])))
        if "dropout" in o and maybe(0.5):
            o["keep"] = view(rng, rng.random(spread(rng, shape)) < 0.6)
    return o


def random_input(rng, shape):
    """(array for the reference, its values as float64, is it bf16)"""
    x = view(rng, rng.normal(size=shape))
    kind = rng.choice(["f2", "f4", "f8", "bf16"])
    if kind != "bf16":
        x = x.astype(kind)
        return x, x.astype(np.float64), False
    bits = (x.astype("f4").view("u4") >> 16).astype("u2")
    return bits, (bits.astype("u4") << 16).view("f4").astype(np.float64), True


def dense_problem(lib, rng):
    B, Hkv, Lq, Lk, d, dv = rng.integers((1, 1, 0, 0, 1, 0), (4, 4, 9, 9, 7, 7))
    H = Hkv * int(rng.integers(1, 4))
    rank = int(rng.integers(2, 5))
    B, (H, Hkv) = (B if rank == 4 else 1), ((H, Hkv) if rank > 2 else (1, 1))
    shapes = [(B, H, Lq, d), (B, Hkv, Lk, d), (B, Hkv, Lk, dv)]
    inputs = [random_input(rng, s[4 - rank:]) for s in shapes]
    o = random_options(rng, int(B), int(H), int(Hkv), int(Lq), int(Lk), False)
    got = run(lib, *(x[0] for x in inputs), o, [n for n, x in zip("qkv", inputs) if x[2]])
    return differs(got, attention(*(x[1].reshape(s) for x, s in zip(inputs, shapes)), o)), (shapes, o)


def packed_problem(lib, rng):
    """Each sequence alone, by NumPy, against the reference's one T x T matrix."""
    items, Hkv, d, dv = int(rng.integers(1, 4)), int(rng.integers(1, 3)), 4, 3
    H = Hkv * int(rng.integers(1, 3))
    cu_q, cu_k = (np.concatenate([[0], np.cumsum(rng.integers(0, 5, items))]) for _ in range(2))
    inputs = [random_input(rng, s) for s in ((cu_q[-1], H, d), (cu_k[-1], Hkv, d), (cu_k[-1], Hkv, dv))]
    o = random_options(rng, items, H, Hkv, 0, 0, True)
    for name, cu in (("kv_len", cu_k), ("q_len", cu_q)):
        if name in o:
            o[name] = rng.integers(0, np.diff(cu) + 1)
    o["cu_q"], o["cu_k"] = cu_q.astype("i4"), cu_k
    got = run(lib, *(x[0] for x in inputs), o, [n for n, x in zip("qkv", inputs) if x[2]])
    bad = []
    for n in range(items):
        rows, keys = slice(cu_q[n], cu_q[n + 1]), slice(cu_k[n], cu_k[n + 1])
        part = {name: (x[n:n + 1] if name in ("kv_len", "q_len", "offset", "alibi") and isinstance(x, np.ndarray) and
                       (name != "alibi" or x.ndim == 2) else x) for name, x in o.items()}
        if "first" in o:
            part["first"] = (o["first"][0] + n,) + o["first"][1:]
        q, k, v = (x[1].swapaxes(0, 1)[None] for x in inputs)
        want = attention(q[:, :, rows], k[:, :, keys], v[:, :, keys], part)
        mine = {name: got[name][:, :, rows, keys] for name in ("scores", "scaled", "capped", "masked", "weights", "visible")}
        mine.update({name: got[name][:, :, rows] for name in ("lse", "row_max", "entropy", "output")})
        mine.update(mass=got["mass"][:, :, keys], average=got["average"][:, rows, keys])
        bad += differs(mine, want)
        between = np.ones(got["visible"].shape[-1], bool)
        between[keys] = False
        if got["visible"][:, :, rows][..., between].any():
            bad.append("visible between sequences")
    return bad, o


# -------------------------------------------------------------------- known answers


def known_answers(lib):
    failures = []
    for counter, key, want in (
            ((0,) * 4, (0, 0), (0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8)),
            ((0xffffffff,) * 4, (0xffffffff,) * 2, (0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd)),
            ((0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344), (0xa4093822, 0x299f31d0), (0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1))):
        words = (c.c_uint32 * 4)(*counter)
        lib.ref_philox4x32_10(words, c.c_uint32(key[0]), c.c_uint32(key[1]))
        if tuple(words) != want:
            failures.append("Philox4x32-10 of %s" % (counter,))
    q, k, v = (np.array(x, float) for x in ([[1, 0, 1, 0], [0, 1, 0, 1]], [[1, 0, 1, 0], [1, 1, 1, 1]], [[10, 0], [0, 10]]))
    got = run(lib, q, k, v, {})
    e = np.exp(1)
    want = {"scores": [[2, 2], [0, 2]], "scaled": [[1, 1], [0, 1]], "weights": [[.5, .5], [1 / (1 + e), e / (1 + e)]],
            "output": [[5, 5], [10 / (1 + e), 10 * e / (1 + e)]]}
    for name, numbers in want.items():
        if not np.allclose(got[name][0, 0], numbers, rtol=1e-15):
            failures.append("worked example: %s" % name)
    if not np.allclose(got["output"][0, 0], [[5, 5], [2.689, 7.311]], atol=5e-4):
        failures.append("worked example: output to four digits")
    a, b, bias = np.arange(6.0), np.arange(12.0), np.array([1.0, 2, 3, 4])
    product = np.zeros(8)
    lib.ref_linear(*(x.ctypes.data_as(c.c_void_p) for x in (product, a, b, bias)), c.c_int64(2), c.c_int64(3), c.c_int64(4))
    if not np.array_equal(product.reshape(2, 4), a.reshape(2, 3) @ b.reshape(3, 4) + bias):
        failures.append("linear")
    return failures


def main():
    lib = c.CDLL(sys.argv[1])
    seed, count = int(os.environ.get("ATTN_TEST_SEED", "1")), int(os.environ.get("ATTN_TEST_COUNT", "3000"))
    print("seed %d, %d problems" % (seed, count))
    failures = known_answers(lib)
    with np.errstate(all="ignore"):
        for n in range(count):
            rng = np.random.default_rng((seed, n))
            bad, problem = (packed_problem if n % 4 == 3 else dense_problem)(lib, rng)
            if bad:
                failures.append("problem %d: %s differ: %s" % (n, ", ".join(bad), problem))
    for line in failures[:5]:
        print("FAIL", line)
    print("%d failures" % len(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
