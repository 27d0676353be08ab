# SPDX-License-Identifier: Apache-2.0
"""Makes .gguf files, and blocks of their quantised types with the numbers that they stand for. Written from the format's description,
number by number, so that a reader that has the layout wrong cannot agree with it."""
import struct

import numpy as np

VALUE_TYPES = {"u8": (0, "B"), "i8": (1, "b"), "u16": (2, "H"), "i16": (3, "h"), "u32": (4, "I"), "i32": (5, "i"), "f32": (6, "f"),
               "bool": (7, "?"), "u64": (10, "Q"), "i64": (11, "q"), "f64": (12, "d")}
TENSOR_TYPES = {"F32": (0, 1, 4), "F16": (1, 1, 2), "Q4_0": (2, 32, 18), "Q4_1": (3, 32, 20), "Q5_0": (6, 32, 22), "Q5_1": (7, 32, 24),
                "Q8_0": (8, 32, 34), "Q8_1": (9, 32, 40), "Q2_K": (10, 256, 84), "Q3_K": (11, 256, 110), "Q4_K": (12, 256, 144),
                "Q5_K": (13, 256, 176), "Q6_K": (14, 256, 210), "IQ4_NL": (20, 32, 18), "I8": (24, 1, 1), "I32": (26, 1, 4),
                "F64": (28, 1, 8), "BF16": (30, 1, 2)}


def text(value):
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def value_bytes(value):
    """A Python value as (type, bytes) of a .gguf: str, bool, int (u32), float (f32), a list of these, or ("u64", number or list)."""
    kind = None
    if isinstance(value, tuple):
        kind, value = value
    if isinstance(value, list):
        kind = kind or guess(value[0] if value else 0)
        number = 8 if kind == "string" else VALUE_TYPES[kind][0]
        return 9, struct.pack("<IQ", number, len(value)) + b"".join(one(kind, v) for v in value)
    kind = kind or guess(value)
    return (8 if kind == "string" else VALUE_TYPES[kind][0]), one(kind, value)


def guess(value):
    return {str: "string", bytes: "string", bool: "bool", int: "u32", float: "f32"}[type(value)]


def one(kind, value):
    return text(value) if kind == "string" else struct.pack("<" + VALUE_TYPES[kind][1], value)


def gguf(values, tensors, version=3, alignment=32, gap=0):
    """tensors: {name: (type, shape in NumPy's order, bytes)} or {name: float32 array}."""
    head, infos, data = b"", b"", b""
    for key, value in values.items():
        kind, raw = value_bytes(value)
        head += text(key) + struct.pack("<I", kind) + raw
    for name, tensor in tensors.items():
        if isinstance(tensor, np.ndarray):
            tensor = ("F32", tensor.shape, tensor.astype("<f4").tobytes())
        kind, shape, raw = tensor
        data += bytes(-len(data) % alignment + gap)
        infos += text(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", n) for n in reversed(shape))
        infos += struct.pack("<IQ", TENSOR_TYPES[kind][0] if isinstance(kind, str) else kind, len(data))
        data += raw
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(values)) + head + infos
    return head + bytes(-len(head) % alignment) + data


# ---- blocks: each gives (the block's bytes, its numbers as f32), from random parts ----

def half(x):
    return np.float16(x).tobytes()


def put(raw, index, value, shift):
    raw[index] |= int(value) << shift


def small(rng, kind):
    """Q4_0, Q4_1, Q5_0, Q5_1, Q8_0: 32 numbers with one scale."""
    d, m = np.float16(rng.normal() * 0.1), np.float16(rng.normal())
    if kind == "Q8_0":
        q = rng.integers(-128, 128, 32)
        return half(d) + q.astype(np.int8).tobytes(), np.float32(d) * q.astype(np.float32)
    bits = int(kind[1])
    q = rng.integers(0, 1 << bits, 32)
    low, high = bytearray(16), 0
    for i in range(32):
        put(low, i % 16, q[i] & 15, 4 * (i // 16))
        high |= int(q[i] >> 4) << i
    fifth = struct.pack("<I", high) if bits == 5 else b""
    if kind.endswith("_1"):
        return half(d) + half(m) + fifth + bytes(low), np.float32(d) * q.astype(np.float32) + np.float32(m)
    return half(d) + fifth + bytes(low), np.float32(d) * (q - (1 << bits - 1)).astype(np.float32)


def six_bits(scale, offset):
    """Eight scales and eight offsets of six bits in twelve bytes."""
    raw = bytearray(12)
    for i in range(4):
        raw[i], raw[4 + i] = scale[i], offset[i]
        put(raw, i, scale[4 + i] >> 4, 6)
        put(raw, 4 + i, offset[4 + i] >> 4, 6)
        put(raw, 8 + i, scale[4 + i] & 15, 0)
        put(raw, 8 + i, offset[4 + i] & 15, 4)
    return bytes(raw)


def q2_k(rng):
    d, m = np.float16(rng.normal() * 0.1), np.float16(rng.normal() * 0.1)
    q, scale, offset = rng.integers(0, 4, 256), rng.integers(0, 16, 16), rng.integers(0, 16, 16)
    raw = bytearray(64)
    for i in range(256):
        put(raw, 32 * (i // 128) + i % 32, q[i], 2 * (i % 128 // 32))
    numbers = (np.float32(d) * scale.astype(np.float32)).repeat(16) * q.astype(np.float32) \
        - (np.float32(m) * offset.astype(np.float32)).repeat(16)
    return bytes(scale | offset << 4 for scale, offset in zip(scale.tolist(), offset.tolist())) + bytes(raw) + half(d) + half(m), numbers


def q3_k(rng):
    d, q, scale = np.float16(rng.normal() * 0.1), rng.integers(0, 8, 256), rng.integers(0, 64, 16)
    high, low, scales = bytearray(32), bytearray(64), bytearray(12)
    for i in range(256):
        put(high, i % 32, q[i] >> 2, i // 32)
        put(low, 32 * (i // 128) + i % 32, q[i] & 3, 2 * (i % 128 // 32))
    for i in range(16):
        put(scales, i % 8, scale[i] & 15, 4 * (i // 8))
        put(scales, 8 + i % 4, scale[i] >> 4, 2 * (i // 4))
    numbers = (np.float32(d) * (scale - 32).astype(np.float32)).repeat(16) * (q - 4).astype(np.float32)
    return bytes(high) + bytes(low) + bytes(scales) + half(d), numbers


def q45_k(rng, bits):
    d, m = np.float16(rng.normal() * 0.1), np.float16(rng.normal() * 0.1)
    q, scale, offset = rng.integers(0, 1 << bits, 256), rng.integers(0, 64, 8), rng.integers(0, 64, 8)
    low, high = bytearray(128), bytearray(32)
    for i in range(256):
        put(low, 32 * (i // 64) + i % 32, q[i] & 15, 4 * (i % 64 // 32))
        put(high, i % 32, q[i] >> 4, i // 32)
    numbers = (np.float32(d) * scale.astype(np.float32)).repeat(32) * q.astype(np.float32) \
        - (np.float32(m) * offset.astype(np.float32)).repeat(32)
    return half(d) + half(m) + six_bits(scale.tolist(), offset.tolist()) + (bytes(high) if bits == 5 else b"") + bytes(low), numbers


def q6_k(rng):
    d, q, scale = np.float16(rng.normal() * 0.1), rng.integers(0, 64, 256), rng.integers(-128, 128, 16)
    low, high = bytearray(128), bytearray(64)
    for i in range(256):
        half_of, run, j = i // 128, i % 128 // 32, i % 32
        put(low, 64 * half_of + 32 * (run % 2) + j, q[i] & 15, 4 * (run // 2))
        put(high, 32 * half_of + j, q[i] >> 4, 2 * run)
    numbers = (np.float32(d) * scale.astype(np.float32)).repeat(16) * (q - 32).astype(np.float32)
    return bytes(low) + bytes(high) + scale.astype(np.int8).tobytes() + half(d), numbers


BLOCKS = {"Q4_0": small, "Q4_1": small, "Q5_0": small, "Q5_1": small, "Q8_0": small,
          "Q2_K": lambda r, _: q2_k(r), "Q3_K": lambda r, _: q3_k(r),
          "Q4_K": lambda r, _: q45_k(r, 4), "Q5_K": lambda r, _: q45_k(r, 5), "Q6_K": lambda r, _: q6_k(r)}


def blocks(kind, shape, seed=1):
    """((type, shape, bytes), float32 numbers) of random blocks."""
    rng = np.random.default_rng(seed)
    made = [BLOCKS[kind](rng, kind) for _ in range(int(np.prod(shape)) // TENSOR_TYPES[kind][1])]
    numbers = np.concatenate([np.zeros(0, np.float32)] + [n for _, n in made]).reshape(shape)
    return (kind, shape, b"".join(raw for raw, _ in made)), numbers
