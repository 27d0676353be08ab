# SPDX-License-Identifier: Apache-2.0
"""Every file of the case folders P23, P24 and P25: accepted with its values, or refused in a moment."""
import json
import unittest

import numpy as np

from support import CASES, FileTest, widen


def files_of(case):
    return json.loads((CASES / case / "case.json").read_text())["files"]


class Cases(FileTest):
    def test_p23_npy_layout(self):
        for entry in files_of("P23_npy_layout"):
            with self.subTest(entry["name"]):
                got = self.array(CASES / "P23_npy_layout" / entry["name"])
                want = np.load(CASES / "P23_npy_layout" / entry["same_as"])
                self.assertEqual(got.shape, want.shape)
                self.assertTrue(np.array_equal(got.astype(np.float64), want.astype(np.float64)))

    def test_p24_npy_hostile(self):
        names = [entry["name"] for entry in files_of("P24_npy_hostile")]
        self.assertEqual(len(names), 17)
        for name in names:
            with self.subTest(name):
                self.refuse(CASES / "P24_npy_hostile" / name, self.folder / "out.npy", says=name)

    def test_p24_from_a_pipe(self):
        for entry in files_of("P24_npy_hostile"):
            with self.subTest(entry["name"]):
                content = (CASES / "P24_npy_hostile" / entry["name"]).read_bytes()
                self.refuse("-", self.folder / "out.npy", says="standard input", input=content)

    def test_p25_safetensors(self):
        for entry in files_of("P25_safetensors"):
            path = CASES / "P25_safetensors" / entry["name"]
            with self.subTest(entry["name"]):
                if not entry["accept"]:
                    self.refuse(path, self.folder / "out.npz", says=entry["name"])
                    continue
                got = self.arrays(path)
                self.assertEqual(sorted(got), sorted(entry["tensors"]))
                for name, want in entry["tensors"].items():
                    self.assertEqual(list(got[name].shape), want["shape"])
                    self.assertTrue(np.array_equal(widen(got[name]).ravel(), np.ravel(want["values"])))


if __name__ == "__main__":
    unittest.main()
