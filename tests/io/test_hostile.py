# SPDX-License-Identifier: Apache-2.0
"""Malformed, truncated and hostile files beyond the case folders: one sentence, in a moment, within 256 MB."""
import io
import struct
import unittest
import zipfile

import numpy as np

from support import FileTest, npy, safetensors

DTYPE, SHAPE, FORMAT = 3, 2, 7
GOOD = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"
DATA = bytes(24)


def npy_bytes(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def npz_bytes(entries, compression=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return out.getvalue()


class Npy(FileTest):
    def test_header_text(self):
        for shape, says in (("(2, 3, )", None), ("( 2 , 3 )", None), ("(2,3)", None), ("(2L, 3L)", None), ("(6)", "no tuple"),
                            ("6", "tuple"),
                            ("((2, 3))", "'('"), ("(2, (3,))", "'('"), ("[2, 3]", "'['"), ("(2 3)", "'3'"), ("(2,, 3)", "','"),
                            ("(,)", "','"),
                            ("(-6,)", "negative"), ("(-0,)", "negative"), ("(+6,)", "'+'"), ("(6.0,)", "'.'"), ("(06,)", "whole number"),
                            ("(0x6,)", "'x'"), ("('6',)", "'''"), ("(True,)", "'T'"), ("(2, 3", "'}'"), ("(None,)", "'N'"),
                            ("(9223372036854775808,)", "63 bits"), ("(9223372036854775807,)", "63 bits"),
                            ("(4611686018427387904, 0)", "63 bits"),
                            ("(0, 9223372036854775807, 3)", "63 bits"), ("(1" + "0" * 5000 + ",)", "63 bits"), ("(1,)*6", "'*'"),
                            ("(3037000500, 3037000500)", "63 bits"), ("(1000000, 1000000)", "4000000000000 bytes"),
                            ("(2, 3" + ", 1" * 7 + ")", "9 axes"),
                            ("(" + "1, " * 30000 + ")", "axes")):
            with self.subTest(shape[:40]):
                text = GOOD.replace("(2, 3)", shape)
                if says is None:
                    self.assertEqual(self.array(self.path("in.npy", npy(text, DATA))).shape, (2, 3))
                else:
                    status = SHAPE if "axes" in says else FORMAT
                    (self.folder / "in.npy").unlink(missing_ok=True)
                    (self.folder / "copy.npy").unlink(missing_ok=True)
                    self.refuse_bytes(".npy", npy(text, DATA, version=2), says=says, status=status)

    def test_dictionary(self):
        for text, says in ((GOOD.replace("}", ""), "ends where"), (GOOD + "\n\n", None), (GOOD.replace("'", '"'), None),
                           (GOOD + " # x", "'#'"),
                           (GOOD + GOOD, "'{'"), (" \t\n" + GOOD, None), (GOOD.replace(", }", ",, }"), "','"),
                           (GOOD.replace(", }", "}"), None),
                           (GOOD.replace("'shape'", "'Shape'"), "a key 'Shape'"),
                           (GOOD.replace(", }", ", 'shape': (2, 3)}"), "'shape' twice"),
                           (GOOD.replace(", }", ", 'x': 1}"), "a key 'x'"), (GOOD.replace("False", "false"), "'f'"),
                           (GOOD.replace("False", "0"), "'0'"),
                           (GOOD.replace("False", "Falsely"), "'l'"), (GOOD.replace("'<f4'", "'<f4"), "'f' where"),
                           (GOOD.replace(":", ""), "':'"),
                           (GOOD.replace("'<f4'", "None"), "'N'"), ("", "ends where"), ("{}", "no descr"), ("[]", "'['"),
                           ("{" * 60000, "'{'"),
                           (GOOD.replace("'<f4'", "'\\x3cf4'"), "plain"), (GOOD.replace("<f4", "é").encode("latin1"), "no plain ASCII"),
                           (GOOD.replace("<f4", "<é"), "no plain ASCII"), (GOOD.replace("<f4", "<f4\x7f"), "no plain ASCII"),
                           (("\xa0" + GOOD).encode("latin1"), "'?'"), (GOOD.replace("(2, 3)", "(２, 3)"), "'?'"), (b"\0" * 100, "'?'"),
                           (GOOD.replace(", 'fortran_order': False", ""), "no fortran_order")):
            with self.subTest(text=text[:60]):
                for name in ("in.npy", "copy.npy"):
                    (self.folder / name).unlink(missing_ok=True)
                content = npy(text, DATA)
                if says is not None:
                    self.refuse_bytes(".npy", content, says=says)
                else:
                    self.assertEqual(self.array(self.path("in.npy", content)).shape, (2, 3))

    def test_dtypes_are_refused_by_name(self):
        for dtype, says in (("'<c8'", "'<c8' (complex"), ("'|O'", "(Python objects)"), ("'<U5'", "(strings)"), ("'|S5'", "(strings)"),
                            ("'<M8[ns]'", "(dates"), ("'|V3'", "'|V3'"), ("'<f16'", "'<f16'"), ("'<i3'", "'<i3'"), ("''", "''"),
                            ("'<'", "'<'"),
                            ("[('a', '<f4'), ('b', '<i2', (2,))]", "(structured records)"),
                            ("[('a', [('b]', '<f4')])]", "(structured records)"), ("[('é', '<f4')]", "(structured records)"),
                            ("'" + "f" * 500 + "'", "'fffffff")):
            with self.subTest(dtype):
                self.refuse_bytes(".npy", npy(GOOD.replace("'<f4'", dtype), DATA), says=says, status=DTYPE)
        for dtype in ("[('a', '<f4')", "['", "[" * 1000):
            with self.subTest(dtype):
                self.refuse_bytes(".npy", npy(GOOD.replace("'<f4'", dtype), DATA))

    def test_header_lengths(self):
        for version, length, says in ((1, 65535, "but the file ends after 83"), (2, 1 << 20, "but the file ends after 83"),
                                      (2, 0xffffffff, "at most 1048576"), (3, (1 << 20) + 1, "at most 1048576"), (1, 0, "ends where"),
                                      (1, 10, "ends where"), (1, len(GOOD) + 1, "'?'")):
            with self.subTest(version=version, length=length):
                self.refuse_bytes(".npy", npy(GOOD, DATA, version, length), says)

    def test_endless_streams(self):
        for header in (npy(GOOD.replace("(2, 3)", "(1000000000000,)"), DATA), npy(GOOD, b"", 2, 0xffffffff), b"y\n" * 100000):
            self.refuse("-", self.folder / "out.npy", says="standard input", status=FORMAT, input=header)


class Npz(FileTest):
    def refuse_npz(self, content, says=None, status=FORMAT):
        self.refuse_bytes(".npz", content, says, status)

    def test_no_zip(self):
        for content in (b"", b"x", b"PK\x05\x06", b"\0" * 1000, npy(GOOD, DATA), b"PK\x03\x04" * 1000):
            with self.subTest(content[:10]):
                self.refuse_npz(content)

    def test_entries(self):
        good = npy_bytes(np.arange(6, dtype=np.float32))
        self.refuse_npz(npz_bytes([("a.npy", good), ("b.npy", b"no npy")]), "b: not a .npy")
        self.refuse_npz(npz_bytes([("a.npy", good + b"x")]), "a: shape (6,) of f32 needs 24 bytes")
        self.refuse_npz(npz_bytes([("a.npy", good[:-1])]), "a: shape (6,) of f32 needs 24 bytes")
        self.refuse_npz(npz_bytes([("a.npy", npy(GOOD.replace("(2, 3)", "(-2, 3)"), DATA))]), "a: byte")
        self.refuse_npz(npz_bytes([("a.npy", npy(GOOD.replace("<f4", "|O"), DATA))]), "a: dtype '|O' (Python objects)", DTYPE)
        self.refuse_npz(npz_bytes([("a.npy", npy(GOOD.replace("(2, 3)", "(2, 3" + ", 1" * 7 + ")"), DATA))]), "a: the array has 9 axes",
                        SHAPE)
        with self.assertWarns(UserWarning):
            twice = npz_bytes([("a.npy", good), ("b.npy", good), ("a.npy", good)])
        self.refuse_npz(twice, "'a'")

    def test_long_headers(self):
        for length in (1 << 16, (1 << 16) + 1):
            content = npz_bytes([("a.npy", npy(GOOD.ljust(length), DATA, version=2))], zipfile.ZIP_DEFLATED)
            if length == 1 << 16:
                self.assertEqual(self.arrays(self.path("in.npz", content))["a"].shape, (2, 3))
                for name in ("in.npz", "copy.npz"):
                    (self.folder / name).unlink()
            else:
                self.refuse_npz(content, "a: the header ends at byte 65549 of the entry; in a .npz at most 65548 are read")

    def test_strings_beside_numbers_are_refused_when_used(self):
        np.savez(self.folder / "in.npz", q=np.zeros(3), words=np.array(["ein", "zwei"]), t=np.array([("a", 1)], dtype="U1,i4"))
        listed = self.accept(self.folder / "in.npz").decode()
        self.assertEqual(listed, "'q' f64 [3]\n'words' <U4 [2]\n't' [...] [1]\n")
        self.refuse(self.folder / "in.npz", self.folder / "out.npz", says="words: dtype '<U4' (strings)", status=DTYPE)

    def test_other_entries_are_ignored(self):
        content = npz_bytes([("folder/", b""), ("readme.txt", b"hello"), (".npy", b"x"), ("folder/a.npy", npy_bytes(np.arange(3.0)))])
        self.assertEqual(list(self.arrays(self.path("in.npz", content))), ["folder/a"])

    def test_damaged_numbers(self):
        for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            content = bytearray(npz_bytes([("a.npy", npy_bytes(np.random.default_rng(1).random(1000)))], compression))
            content[3000] ^= 1
            self.refuse_npz(bytes(content), "a: a damaged zip")

    def test_truncations_of_deflated_entries(self):
        content = npz_bytes([("a.npy", npy_bytes(np.arange(6.0))), ("b.npy", npy_bytes(np.arange(3)))], zipfile.ZIP_DEFLATED)
        for size in range(0, len(content), 11):
            with self.subTest(size):
                self.refuse_npz(content[:size])

    def test_what_the_directory_claims(self):
        content = npz_bytes([("a.npy", npy_bytes(np.zeros(100000)))], zipfile.ZIP_DEFLATED)
        directory = content.rindex(b"PK\x01\x02")

        def claim(at, form, value):
            changed = bytearray(content)
            struct.pack_into(form, changed, directory + at, value)
            return bytes(changed)

        self.refuse_npz(claim(10, "<H", 12), "compression method 12")
        self.refuse_npz(claim(8, "<H", 1), "encrypted")
        self.refuse_npz(claim(20, "<I", 0x7fffffff), "but the file has")
        self.refuse_npz(claim(24, "<I", 0x7fffffff), "more than deflate can")
        self.refuse_npz(claim(24, "<I", 800129), "needs 800000 bytes")
        self.refuse_npz(claim(42, "<I", 50))
        self.refuse_npz(claim(10, "<H", 0), "more than deflate can")
        end = content.rindex(b"PK\x05\x06")
        for value in (0xfffe, 2):
            changed = bytearray(content)
            struct.pack_into("<HH", changed, end + 8, value, value)
            self.refuse_npz(bytes(changed))

    def test_bombs(self):
        bomb = npy(GOOD.replace("(2, 3)", "(75000000,)"), bytes(300000000))
        content = npz_bytes([("a.npy", bomb)], zipfile.ZIP_DEFLATED)
        self.refuse(self.path("bomb.npz", content), self.folder / "out.npz", says="a: out of memory", status=5)
        self.assertEqual(self.accept(self.folder / "bomb.npz"), b"'a' f32 [75000000]\n")
        liar = npz_bytes([("a.npy", npy(GOOD, bytes(100000000)))], zipfile.ZIP_DEFLATED)
        self.refuse(self.path("liar.npz", liar), self.folder / "out.npz", says="needs 24 bytes", status=FORMAT)

    def test_many_entries_over_the_same_bytes(self):
        entry = npy_bytes(np.zeros(1))
        crc = zipfile.crc32(entry)
        local = struct.pack("<IHHHHHIIIHH", 0x04034b50, 20, 0, 0, 0, 0x21, crc, len(entry), len(entry), 9, 0)
        count = 65535
        directory = b"".join(struct.pack("<IHHHHHHIIIHHHHHII", 0x02014b50, 20, 20, 0, 0, 0, 0x21, crc, len(entry), len(entry), 9,
                                         0, 0, 0, 0, 0, 0) + b"%05d.npy" % i for i in range(count))
        body = local + b"00000.npy" + entry
        end = struct.pack("<IHHHHIIH", 0x06054b50, 0, 0, count, count, len(directory), len(body), 0)
        path = self.path("many.npz", body + directory + end)
        self.assertEqual(self.accept(path).count(b"\n"), count)
        self.accept(path, self.folder / "out.npz")
        self.assertEqual(self.accept(self.folder / "out.npz").count(b"\n"), count)


class Safetensors(FileTest):
    def entry(self, dtype="F32", shape=(2,), begin=0, end=8):
        return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}

    def refuse_header(self, header, data=bytes(8), says=None, length=None):
        self.refuse_bytes(".safetensors", safetensors(header, data, length), says)

    def test_cover(self):
        entry = self.entry
        for header, says in (({"a": entry(begin=8, end=16)}, "bytes 70 to 78, before tensor 'a', belong to no tensor"),
                             ({"a": entry(), "b": entry()}, "inside another tensor"),
                             ({"a": entry(), "b": entry(begin=4, end=12)}, "inside another"),
                             ({"a": entry()}, "the last 8 bytes belong to no tensor"), ({}, "the last 16 bytes"),
                             ({"a": entry(), "b": entry(shape=[1], begin=12, end=16)}, "before tensor 'b'"),
                             ({"a": entry(begin=8, end=16), "b": entry(), "c": entry(shape=[0], begin=4, end=4)}, "inside another tensor")):
            with self.subTest(says):
                self.refuse_header(header, bytes(16), says)
        self.path("in.safetensors",
                  safetensors({"b": entry(begin=8, end=16), "z": entry(shape=[0, 3], begin=8, end=8), "a": entry()}, bytes(16)))
        self.assertEqual(list(self.arrays(self.folder / "in.safetensors")), ["b", "z", "a"])

    def test_descriptions(self):
        good = '"dtype":"F32","shape":[2],"data_offsets":[0,8]'
        for wrong, says in (('"dtype":"F32","shape":[2]', "data_offsets must be"), ('"shape":[2],"data_offsets":[0,8]', "dtype is missing"),
                            ('"dtype":"F32","data_offsets":[0,8]', "shape is missing"), (good.replace("[2]", "[2.0]"), "axis 0"),
                            (good.replace("[2]", "[-2]"), "axis 0"), (good.replace("[2]", '["2"]'), "axis 0"),
                            (good.replace("[2]", "2"), "no list"),
                            (good.replace("[2]", "[true]"), "axis 0"), (good.replace("[2]", "[18446744073709551615]"), "too big integer"),
                            (good.replace("[2]", "[4294967296,4294967296]"), "63 bits"),
                            (good.replace("[2]", "[2305843009213693953]"), "at most 63 bits"),
                            (good.replace("[2]", "[1152921504606846976]"), "needs 4611686018427387904 bytes"),
                            (good.replace("[2]", "[9223372036854775807,0,3]"), "63 bits"),
                            (good.replace("[0,8]", "[0,8,8]"), "two whole numbers"),
                            (good.replace("[0,8]", '{"0":8}'), "two whole numbers"), (good.replace("[0,8]", "[8,0]"), "after their end"),
                            (good.replace("[0,8]", "[-8,0]"), "two whole"),
                            (good.replace("[0,8]", "[0,9223372036854775807]"), "only 8 bytes"),
                            (good.replace("F32", "f32"), "not one of"), (good.replace("F32", "F3\\u0000"), "\\u0000"),
                            (good.replace("F32", ""), "dtype ''"),
                            (good + ',"dtype":"F32"', "duplicate object key"),
                            (good.replace("[2]", "[" + "[" * 30 + "2" + "]" * 30 + "]"), "axis 0"),
                            (good.replace("[2]", "[" + "[" * 40 + "]" * 40 + "]"), "deeper"),
                            (good.replace("[2]", "[2" + ",1" * 3000 + "]"), "at most 4096"),
                            (good.replace("[2]", "[2"), "ends where"), (good[:-1], "ends where")):
            with self.subTest(wrong[:60]):
                self.refuse_header('{"t":{%s}}' % wrong, says=says)

    def test_headers(self):
        good = '{"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
        for header, says in ((" " + good, "begin with '{'"), (good + "x", "'x'"), (good[:-1], "ends where"), (good + "{}", "'{'"),
                             ("[]", "'{'"),
                             (good.replace('"t"', "t"), "a key"), (good.replace("}}", "},}"), "a key"), (good[:-1] + "," + good[1:], "'t'"),
                             ('{"t":1}', "no object"), ('{"t":null}', "no object"), ('{"t":"x"}', "no object"), ('{"t":}', "expected"),
                             ("{", "ends"),
                             ('{"t', "end of a string"), ('{"t\\', "end of a string"), (b'{"\xff":1}', "unable to decode"),
                             ('{"\\ud800":1}', "invalid Unicode"),
                             ('{"a\\u0000b":1}', "\\u0000"), (b'{"a\0b":1}', "control character"), (good.replace("{", "{\x0b", 1), "a key"),
                             ('{"__metadata__":{"a":1}}', "no string"), ('{"__metadata__":{"a":"1","\\u0061":"2"}}', "'a' twice"),
                             ('{"__metadata__":[]}', "'{'"), ('{"__metadata__":{},"__metadata__":{}}', "__metadata__ twice"),
                             (b"{" * 9, "a key"),
                             ('{"a":' * 100, "deeper"), ('{"\x1b[2J":{}}', "control"), (good.replace("t", "\\u001b"), None)):
            with self.subTest(header[:60]):
                if says is not None:
                    self.refuse_header(header, says=says)
        sentence = self.refuse(self.path("hostile.safetensors", safetensors('{"\\u001b[2J":{}}')), says="?[2J")
        self.assertNotIn("\x1b", sentence)

    def test_sizes_of_headers(self):
        self.refuse_header("{}", length=11, says="is said to have 11 bytes, but only 10 follow")
        self.refuse_header("{}", length=25000001, says="at most 25000000")
        self.refuse_header("{" + " " * 25000000 + "}", b"", says="at most 25000000")
        self.accept(self.path("hostile.safetensors", safetensors("{" + " " * 24999998 + "}")))
        self.refuse_header('{"t":' + "[" * 24999000, b"", says="deeper")
        self.refuse_header('{"t":[' + "0," * 12000000 + "0]}", b"", says="at most 4096")
        self.refuse_header("{" + '"a":0,' * 4000000 + '"a":0}', b"", says="cannot all describe tensors")
        self.refuse_header('{"__metadata__":{' + '"":"",' * 4000000 + '"":""}}', b"", says="twice")
        many = ",".join('"%x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}' % i for i in range(400000))
        self.assertEqual(self.accept(self.path("hostile.safetensors", safetensors("{%s}" % many))).count(b"\n"), 400000)
        self.refuse_header("{" + many + ',"0":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}', b"", says="two arrays are called '0'")

    def test_every_dtype_is_size_checked_and_some_are_refused_when_used(self):
        sizes = {"F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4, "C64": 64}
        for dtype, bits in sizes.items():
            with self.subTest(dtype):
                header = {"x": self.entry(dtype, [4, 2], 0, bits), "y": self.entry("F32", [1], bits, bits + 4)}
                path = self.path("in.safetensors", safetensors(header, bytes(bits + 4)))
                self.assertEqual(self.accept(path).decode(), f"'x' {dtype} [4,2]\n'y' f32 [1]\n")
                self.refuse(path, self.folder / "out.npz", says=f"x: dtype '{dtype}'", status=DTYPE)
                path.unlink()
                header["x"] = self.entry(dtype, [4, 3], 0, bits)
                self.refuse_header(header, bytes(bits + 4), "needs")
                if bits < 8:
                    self.refuse_header({"x": self.entry(dtype, [3], 0, 2)}, bytes(2), "no whole number of bytes")
        rank9 = {"x": self.entry("F32", [1] * 9, 0, 4), "y": self.entry("F32", [1], 4, 8)}
        self.refuse_header(rank9, bytes(4), "end at 8")
        self.refuse(self.path("in.safetensors", safetensors(rank9, bytes(8))), self.folder / "out.npz", says="9 axes", status=SHAPE)


class Shards(FileTest):
    def shard(self, name, *tensors):
        header = {t: {"dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]} for i, t in enumerate(tensors)}
        self.path(name, safetensors(header, np.arange(len(tensors), dtype=np.float32).tobytes()))

    def index(self, text):
        return self.path("m.safetensors.index.json", text.encode())

    def test_accepted(self):
        self.shard("m-1.safetensors", "a", "c")
        self.shard("m-2.safetensors", "b", "unused")
        weight_map = '{"c": "m-1.safetensors", "b": "m-2.safetensors", "a": "m-1.safetensors"}'
        path = self.index('{"metadata": {"total_size": 12}, "weight_map": %s}' % weight_map)
        self.assertEqual(self.accept(path), b"'c' f32 [1]\n'b' f32 [1]\n'a' f32 [1]\n")
        self.assertEqual({k: v.tolist() for k, v in self.arrays(path).items()}, {"c": [1], "b": [0], "a": [0]})

    def test_refused(self):
        self.shard("m.safetensors", "a")
        self.path("broken.safetensors", b"broken")
        (self.folder / "sub").mkdir()
        for weight_map, says, status in (
                ('{"b": "m.safetensors"}', "tensor 'b' is not in its shard 'm.safetensors'", FORMAT),
                ('{"a": "x.safetensors"}', "x.safetensors: cannot open: No such file", 6),
                ('{"a": "broken.safetensors"}', "broken.safetensors: ", FORMAT),
                ('{"a": "../m.safetensors"}', "same folder", FORMAT), ('{"a": "/etc/passwd"}', "same folder", FORMAT),
                ('{"a": "m.npy"}', "same folder", FORMAT),
                ('{"a": "sub/m.safetensors"}', "same folder", FORMAT), ('{"a": ".safetensors"}', "same folder", FORMAT),
                ('{"a": ""}', "same folder", FORMAT),
                ('{"a": "..\\\\m.safetensors"}', "same folder", FORMAT), ('{"a": 1}', "no string", FORMAT),
                ('{"a": "%s"}' % ("m" * 5000), "too long", FORMAT),
                ('{"a": "m.safetensors", "a": "m.safetensors"}', "two arrays are called 'a'", FORMAT), ("[]", "'{'", FORMAT),
                ('"m"', "'{'", FORMAT)):
            with self.subTest(weight_map[:60]):
                sentence = self.refuse(self.index('{"weight_map": %s}' % weight_map), says=says)
                self.assertEqual(int(sentence.split()[0]), status)
        for text in ("", "{}", "[]", '{"weight_map": {}} x', '{"weight_map": {}, "weight_map": {}}', '{"metadata": }', '{"weight_map"',
                     "{" * 100,
                     '{"%s": 1}' % ("k" * 100), '{"m": ' + "[" * 100 + "]" * 100 + ', "weight_map": {}}'):
            with self.subTest(text[:40]):
                self.refuse(self.index(text), says="m.safetensors.index.json", status=FORMAT)


class Names(FileTest):
    def test_what_cannot_be_opened(self):
        self.refuse(self.folder / "none.npy", says="none.npy: cannot open: No such file or directory", status=6)
        self.refuse(self.folder, says="Is a directory", status=6)
        (self.folder / "folder.npy").mkdir()
        self.refuse(self.folder / "folder.npy", says="Is a directory", status=6)
        self.refuse(self.path("x.bin", b"x"), says="x.bin: unknown suffix", status=4)
        self.refuse(self.path("npy", b"x"), says="unknown suffix", status=4)

    def test_suffixes_without_regard_to_case(self):
        self.assertEqual(self.array(self.path("A.NPY", npy_bytes(np.zeros((2, 2))))).shape, (2, 2))


if __name__ == "__main__":
    unittest.main()
