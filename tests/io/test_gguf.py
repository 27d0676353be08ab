# SPDX-License-Identifier: Apache-2.0
""".gguf: values, tensors and quantised blocks of files made by hand; malformed, truncated and hostile ones."""
import pathlib
import struct
import sys
import unittest

import numpy as np

from support import FileTest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
import ggufmake  # noqa: E402
from ggufmake import gguf  # noqa: E402

FORMAT, UNSUPPORTED, DTYPE = 7, 4, 3
VALUES = {"general.architecture": "llama", "n": 7, "x": 0.5, "yes": True, "한": "글", "none": ("string", []), "words": ["a", "", "다"],
          "small": ("i8", [-1, 127, -128]), "deep": ("u64", 1 << 63), "wide": ("f64", [0.1, -2.0]), "long": ("i64", -5),
          "flags": [True, False]}
LISTED = """general.architecture string: 'llama'
n u32: 7
x f32: 0.5
yes bool: 1
한 string: '글'
none string[]:
words string[]: 'a' '' '다'
small i8[]: -1 127 -128
deep u64: ?
wide f64[]: 0.10000000000000001 -2
long i64: -5
flags bool[]: 1 0
"""


class Good(FileTest):
    def test_values_and_shapes(self):
        tensors = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "q": ggufmake.blocks("Q4_1", (2, 3, 64))[0],
                   "e": np.zeros((0, 4), np.float32), "s": ("F64", (), np.float64(0.1).tobytes()), "i": ("I32", (2,), bytes(8))}
        for version in 2, 3:
            listed = self.accept(self.path("in.gguf", gguf(VALUES, tensors, version))).decode()
            self.assertEqual(listed, LISTED + "'a' f32 [2,3]\n'q' Q4_1 [2,3,64]\n'e' f32 [0,4]\n's' f64 []\n'i' i32 [2]\n")

    def test_numbers(self):
        rng = np.random.default_rng(3)
        for alignment, gap in ((32, 0), (1, 0), (64, 128), (4096, 0)):
            values = VALUES | ({"general.alignment": alignment} if alignment != 32 else {})
            whole = rng.normal(size=(3, 5)).astype(np.float32)
            narrow = rng.integers(0, 1 << 16, (2, 9), dtype=np.uint16)
            tensors = {"x": whole, "h": ("F16", (2, 9), narrow.tobytes()), "b": ("BF16", (2, 9), narrow.tobytes()), "odd": ("I8", (3,),
                                                                                                                            b"abc"),
                       "y": whole.T.copy()}
            got = self.arrays(self.path("in.gguf", gguf(values, tensors, alignment=alignment, gap=gap)))
            self.assertEqual(got["x"].tobytes(), whole.tobytes())
            self.assertEqual(got["y"].tobytes(), whole.T.tobytes())
            self.assertEqual(got["h"].tobytes(), narrow.tobytes())
            self.assertEqual(got["b"].tobytes(), narrow.tobytes())

    def test_blocks(self):
        for kind in ggufmake.BLOCKS:
            size = ggufmake.TENSOR_TYPES[kind][1]
            for shape in ((size,), (3, 2 * size), (2, 2, size), (0, size)):
                with self.subTest(kind, shape=shape):
                    tensor, numbers = ggufmake.blocks(kind, shape, seed=len(shape))
                    got = self.arrays(self.path("in.gguf", gguf({}, {"t": tensor})))["t"]
                    self.assertEqual((got.dtype, got.shape), (np.float32, shape))
                    self.assertEqual(got.tobytes(), numbers.astype(np.float32).tobytes())

    def test_special_scales(self):
        """Zero, subnormal, infinite and NaN scales are what f16 says."""
        scales = np.array([0, 0x8000, 1, 0x83ff, 0x0400, 0x7bff, 0x7c00, 0xfc00], np.uint16)
        raw = b"".join(s.tobytes() + bytes([1] * 16 + [255] * 16) for s in scales)
        got = self.arrays(self.path("in.gguf", gguf({}, {"t": ("Q8_0", (8, 32), raw)})))["t"]
        want = scales.view(np.float16).astype(np.float32)[:, None] * np.array([1] * 16 + [-1] * 16, np.float32)
        self.assertEqual(got.tobytes(), want.tobytes())

    def test_from_a_pipe(self):
        content = gguf(VALUES, {"a": np.ones(3, np.float32)})
        link = self.folder / "pipe.gguf"
        link.symlink_to("/dev/stdin")
        self.assertTrue(self.accept(link, input=content).decode().endswith("'a' f32 [3]\n"))


class Bad(FileTest):
    def refused(self, content, says, status=FORMAT):
        self.refuse_bytes(".gguf", content, says, status)

    def test_start(self):
        for content, says, status in ((b"", "does not begin", FORMAT), (b"GGU", "does not begin", FORMAT), (b"GGML" + bytes(99),
                                                                                                            "does not begin", FORMAT),
                                      (b"GGUF", "inside the version", FORMAT), (gguf({}, {}, version=1), "version 1", UNSUPPORTED),
                                      (gguf({}, {}, version=4), "version 4", UNSUPPORTED),
                                      (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian", UNSUPPORTED),
                                      (b"GGUF\3\0\0\0" + bytes(15), "inside the header", FORMAT),
                                      (b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 0), "tensors are said to follow", FORMAT),
                                      (b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 63), "values are said to follow", FORMAT)):
            with self.subTest(content[:12]):
                self.refused(content, says, status)

    def one_value(self, raw):
        return b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + raw + bytes(16)

    def test_values(self):
        key = ggufmake.text("key")
        for raw, says, status in ((struct.pack("<Q", 1 << 62) + b"abc" + bytes(8), "a key is said to have", FORMAT),
                                  (ggufmake.text(b"a\xff") + struct.pack("<II", 4, 1), "a key is no UTF-8", FORMAT),
                                  (ggufmake.text(b"a\0b") + struct.pack("<II", 4, 1), "a key is no UTF-8", FORMAT),
                                  (key + struct.pack("<II", 13, 1), "key: the type of a value is 13", FORMAT),
                                  (key + struct.pack("<IB", 7, 2), "key: a bool is 2", FORMAT),
                                  (key + struct.pack("<IQ", 8, 1 << 63), "key: a string is said to have", FORMAT),
                                  (key + struct.pack("<IIQ", 9, 9, 1), "key: an array of arrays", UNSUPPORTED),
                                  (key + struct.pack("<IIQ", 9, 99, 1), "key: the type of an array is 99", FORMAT),
                                  (key + struct.pack("<IIQ", 9, 10, 1 << 61), "key: 2305843009213693952 elements of u64", FORMAT),
                                  (key + struct.pack("<IIQ", 9, 8, 1 << 63), "key: the file ends inside a string", FORMAT)):
            with self.subTest(raw[:30]):
                self.refused(self.one_value(raw), says, status)
        twice = ggufmake.text("k") + struct.pack("<II", 4, 1)
        self.refused(b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + twice * 2, "the key 'k' is there twice")
        for alignment in (0, 3, 48, ("i32", 32), ("u32", [32])):
            self.refused(gguf({"general.alignment": alignment}, {}), "general.alignment")

    def info(self, name=b"t", axes=(32,), kind=0, offset=0, data=bytes(128), count=None):
        raw = ggufmake.text(name) + struct.pack("<I", len(axes) if count is None else count)
        raw += b"".join(struct.pack("<Q", a) for a in axes) + struct.pack("<IQ", kind, offset)
        head = b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + raw
        return head + bytes(-len(head) % 32) + data

    def test_tensors(self):
        self.accept(self.path("in.gguf", self.info()))
        (self.folder / "in.gguf").unlink()
        for content, says in ((self.info(name=b"\xff"), "a tensor's name is no UTF-8"), (self.info(count=5), "t: the tensor has 5 axes"),
                              (self.info(count=1 << 31), "axes"), (self.info(axes=(1 << 63,)),
                                                                   "t: the product of the shape exceeds 63 bits"),
                              (self.info(axes=(1 << 32, 1 << 32)), "exceeds 63 bits"), (self.info(axes=(0, 1 << 40, 1 << 40)),
                                                                                        "exceeds 63 bits"),
                              (self.info(axes=(1 << 62,)), "t: the tensor's size exceeds 63 bits"), (self.info(kind=4), "t: tensor type 4"),
                              (self.info(kind=999), "t: tensor type 999"), (self.info(axes=(33,), kind=2),
                                                                            "t: rows of 33 numbers are no whole blocks of 32"),
                              (self.info(axes=(128,), kind=12), "no whole blocks of 256, as Q4_K"), (self.info(offset=1),
                                                                                                     "no multiple of the alignment 32"),
                              (self.info(offset=32), "t: the tensor's 128 bytes at offset 32 exceed the 128 bytes"),
                              (self.info(offset=(1 << 64) - 32), "exceed the 128"), (self.info(data=bytes(127)), "exceed the 127"),
                              (self.info(data=b""), "exceed the 0 bytes")):
            with self.subTest(says):
                self.refused(content, says)

    def test_overlap_and_names(self):
        x = np.ones(16, np.float32)
        good = gguf({}, {"a": x, "b": x})
        self.refused(good.replace(struct.pack("<IQ", 0, 64), struct.pack("<IQ", 0, 32)), "tensors 'a' and 'b' overlap")
        self.refused(good.replace(struct.pack("<IQ", 0, 64), struct.pack("<IQ", 0, 0)), "overlap")
        self.refused(good.replace(ggufmake.text("b"), ggufmake.text("a")), "two arrays are called 'a'")

    def test_types_that_are_not_read(self):
        self.refuse(self.path("in.gguf", gguf({}, {"t": ("IQ4_NL", (32,), bytes(18))})), self.folder / "out.npz",
                    says="t: IQ4_NL is not read",
                    status=DTYPE)

    def test_truncated_anywhere(self):
        content = gguf({"general.architecture": "llama", "words": ["ab", "c"], "n": ("u64", [1, 2])}, {"t": np.ones(9, np.float32)})
        for size in range(len(content)):
            path = self.path("cut.gguf", content[:size])
            if size % 7 == 0 or size > len(content) - 40:
                self.refuse(path, says="cut.gguf", status=FORMAT)


if __name__ == "__main__":
    unittest.main()
