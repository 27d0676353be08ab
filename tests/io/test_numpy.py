# SPDX-License-Identifier: Apache-2.0
"""Round trips against NumPy: what it writes is read, what is written it reads, to the last bit."""
import io
import itertools
import json
import os
import struct
import sys
import unittest
import zipfile

import numpy as np

from support import FileTest, safetensors

KINDS = ["b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "V2"]
SHAPES = [(), (1,), (7,), (0,), (3, 4), (0, 3), (2, 0, 5), (2, 3, 4), (1, 2, 1, 3, 1, 2, 1, 2)]
SAFETENSORS = {"b1": "BOOL", "i1": "I8", "u1": "U8", "i2": "I16", "u2": "U16", "i4": "I32", "u4": "U32", "i8": "I64", "u8": "U64",
               "f2": "F16", "f4": "F32", "f8": "F64", "V2": "BF16"}


def numbers(kind, shape, seed=1):
    """Random bytes (0 and 1 for bool): NaNs and everything else included."""
    size = int(np.prod(shape)) * int(kind[1])
    raw = np.random.default_rng(seed).integers(0, 2 if kind == "b1" else 256, size, dtype=np.uint8)
    return raw.view(np.dtype("<" + kind)).reshape(shape)


class RoundTrips(FileTest):
    def same(self, got, want):
        self.assertEqual(got.shape, want.shape)
        native = want.dtype.newbyteorder("<")
        self.assertEqual(got.dtype, native)
        self.assertEqual(got.tobytes(), want.astype(native).tobytes())

    def test_npy(self):
        for kind, shape, order, byte_order, version in itertools.product(
                KINDS, SHAPES[:5] + SHAPES[7:8], "CF", "<>", [(1, 0), (2, 0), (3, 0)]):
            if order + byte_order != "C<" and (len(shape) < 2 and order == "F" or version != (1, 0) or kind == "V2" and byte_order == ">"):
                continue
            with self.subTest(kind=kind, shape=shape, order=order, byte_order=byte_order, version=version):
                want = np.asarray(numbers(kind, shape).astype(byte_order + kind), order=order)
                with open(self.folder / "in.npy", "wb") as file:
                    np.lib.format.write_array(file, want, version)
                self.same(self.array(self.folder / "in.npy"), want)

    def test_every_rank(self):
        for shape in SHAPES:
            with self.subTest(shape=shape):
                for order in "CF":
                    want = np.asarray(numbers("f4", shape), order=order)
                    np.save(self.folder / "in.npy", want)
                    self.same(self.array(self.folder / "in.npy"), want)

    def test_big_endian_bf16(self):
        content = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118)
        content += "{'descr': '>V2', 'fortran_order': False, 'shape': (2,), }".ljust(117).encode() + b"\n" + b"\x3f\x80\x40\x00"
        got = self.array(self.path("in.npy", content))
        self.assertEqual(got.tobytes(), b"\x80\x3f\x00\x40")

    def test_header_as_numpy_writes_it(self):
        for kind, shape in itertools.product(KINDS[:-1], SHAPES):
            want = io.BytesIO()
            np.save(want, numbers(kind, shape))
            self.path("in.npy", want.getvalue())
            self.accept(self.folder / "in.npy", self.folder / "out.npy")
            got = (self.folder / "out.npy").read_bytes()
            with self.subTest(kind=kind, shape=shape):
                at = 10 + struct.unpack_from("<H", got, 8)[0]
                self.assertEqual(at % 64, 0)
                self.assertEqual(got[at - 1:at], b"\n")
                self.assertEqual(got[10:at].strip(), want.getvalue()[10:].split(b"\n")[0].strip())

    def test_trailing_bytes_and_streams(self):
        first, second = numbers("f4", (3, 4)), numbers("f8", (2, 2))
        both = io.BytesIO()
        np.save(both, first)
        np.save(both, second)
        self.same(self.array(self.path("in.npy", both.getvalue())), first)
        out = self.accept("-", "-", input=both.getvalue())
        self.same(np.load(io.BytesIO(out)), first)
        read, write = os.pipe()
        os.write(write, both.getvalue())
        os.close(write)
        for want in (first, second):  # only the array's own bytes are taken from a pipe
            self.accept("-", self.folder / "out.npy", stdin=read)
            self.same(np.load(self.folder / "out.npy"), want)
        os.close(read)

    def test_npz(self):
        arrays = {f"{kind}/{i}": numbers(kind, shape) for kind in KINDS for i, shape in enumerate(SHAPES)}
        arrays["한국어"] = numbers("f4", (2, 2))
        arrays["fortran"] = np.asfortranarray(numbers("f4", (5, 6)))
        for save in (np.savez, np.savez_compressed):
            save(self.folder / "in.npz", **arrays)
            got = self.arrays(self.folder / "in.npz")
            self.assertEqual(list(got), list(arrays))
            for name, want in arrays.items():
                with self.subTest(name):
                    self.same(got[name], want)
        self.assertIsNone(zipfile.ZipFile(self.folder / "copy.npz").testzip())
        again = self.arrays(self.folder / "copy.npz")
        self.same(again["fortran"], arrays["fortran"])

    def test_npz_equal_arrays_give_equal_bytes(self):
        np.savez(self.folder / "in.npz", a=numbers("f4", (3, 3)))
        self.accept(self.folder / "in.npz", self.folder / "a.npz", self.folder / "b.npz")
        self.assertEqual((self.folder / "a.npz").read_bytes(), (self.folder / "b.npz").read_bytes())

    def test_compressed_zeros(self):
        np.savez_compressed(self.folder / "in.npz", zeros=np.zeros((1000, 1000), np.float32))
        self.assertLess((self.folder / "in.npz").stat().st_size, 8000)
        self.same(self.arrays(self.folder / "in.npz")["zeros"], np.zeros((1000, 1000), np.float32))

    def test_safetensors_read(self):
        header, data, want = {"__metadata__": {"format": "pt", "é\n": "\"quoted\""}}, b"", {}
        for kind, word in SAFETENSORS.items():
            for i, shape in enumerate(SHAPES):
                array = numbers(kind, shape, i)
                header[f"{word}.{i}.é"] = {"dtype": word, "shape": shape, "data_offsets": [len(data), len(data) + array.nbytes]}
                want[f"{word}.{i}.é"] = array
                data += array.tobytes()  # misaligned more often than not
        for text in (json.dumps(header), json.dumps(header, ensure_ascii=False, indent=1), json.dumps(header, sort_keys=True) + "   "):
            got = self.arrays(self.path("in.safetensors", safetensors(text, data)))
            self.assertEqual(sorted(got), sorted(want))
            for name, array in want.items():
                with self.subTest(name):
                    self.same(got[name], array)

    def test_safetensors_written(self):
        arrays = {f"{kind}.{i}": numbers(kind, shape) for kind in KINDS for i, shape in enumerate(SHAPES)}
        np.savez(self.folder / "in.npz", **arrays)
        self.accept(self.folder / "in.npz", self.folder / "out.safetensors")
        content = (self.folder / "out.safetensors").read_bytes()
        at = 8 + struct.unpack_from("<Q", content)[0]
        self.assertEqual(at % 8, 0)
        header, end = json.loads(content[8:at]), 0
        self.assertEqual(sorted(header), sorted(arrays))
        for name, entry in header.items():
            begin, stop = entry["data_offsets"]
            self.assertEqual(begin, end, "tensors lie one after the other")
            self.assertEqual(begin % int(name[1]), 0, "and are aligned")
            self.assertEqual((entry["dtype"], tuple(entry["shape"])), (SAFETENSORS[name[:2]], arrays[name].shape))
            self.assertEqual(content[at + begin:at + stop], arrays[name].tobytes())
            end = stop
        self.assertEqual(at + end, len(content))
        for name, got in self.arrays(self.folder / "out.safetensors").items():
            self.same(got, arrays[name])

    def test_no_array_at_all(self):
        self.path("in.safetensors", safetensors("{}      "))
        self.accept(self.folder / "in.safetensors", self.folder / "out.safetensors", self.folder / "out.npz")
        self.assertEqual((self.folder / "out.safetensors").read_bytes(), safetensors("{}      "))
        self.assertEqual(np.load(self.folder / "out.npz").files, [])

    def test_csv_written_and_read(self):
        for kind in ("f8", "f4", "f2", "i8", "u8", "i1", "b1"):
            for shape in ((), (5,), (3, 4)):
                with self.subTest(kind=kind, shape=shape):
                    want = numbers(kind, shape, 3)
                    np.save(self.folder / "in.npy", want)
                    self.accept(self.folder / "in.npy", self.folder / "out.csv")
                    if kind not in ("i8", "u8"):  # f64 does not hold them
                        got = self.array(self.folder / "out.csv").astype(want.dtype)
                        self.assertTrue(np.array_equal(got.ravel(), want.ravel(), equal_nan=kind[0] == "f"))
                    text = (self.folder / "out.csv").read_text()
                    rows = [line.split(",") for line in text.splitlines()]
                    self.assertEqual((len(rows), len(rows[0])), {0: (1, 1), 1: (5, 1), 2: (3, 4)}[len(shape)])
                    if kind[0] in "iu":
                        self.assertEqual([int(cell) for row in rows for cell in row], want.ravel().tolist())

    def test_csv_bf16(self):
        np.save(self.folder / "in.npy", np.array([0x3f80, 0xc040, 0x7f80], np.uint16).view("V2"))
        self.accept(self.folder / "in.npy", self.folder / "out.txt")
        self.assertEqual((self.folder / "out.txt").read_text(), "1\n-3\ninf\n")


if __name__ == "__main__":
    sys.exit(unittest.main())
