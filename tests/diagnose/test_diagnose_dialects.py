#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""attn sdpa --dialect NAME gives what that system gives, by a NumPy program of its rules, and attn diagnose names it where it differs."""
import pathlib
import tempfile
import unittest

import numpy as np

import bound
import dialects
import plant_mha
import support


class Dialects(unittest.TestCase):
    def computed(self, name, p):
        """What the command gives, anchored by the dialect alone."""
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            line = support.inputs(p, folder, "f32") + support.options({n: p[n] for n in p if n != "align"}, folder)
            done = support.attn(folder, *line, "--dialect", name, "-o", "out.npy")
            self.assertEqual(done.returncode, 0, done.stderr)
            return np.load(folder / "out.npy")

    def test_computed_by_its_rules(self):
        for name, p in dialects.jobs():
            with self.subTest(name, features=sorted(p["features"]), seed=p["seed"]):
                limit = plant_mha.wanted(p, (), "f32")[1].max()
                self.assertLessEqual(bound.bounds(self.computed(name, p), dialects.answer(name, p), 4 * limit), 1)

    def test_named_where_it_differs(self):
        differing = set()
        for name, p in dialects.jobs():
            got = dialects.given(name, p)
            want, limit = plant_mha.wanted(p, (), "f32")
            if bound.bounds(got, want, limit) < 10:
                continue
            differing.add(name)
            with self.subTest(name, features=sorted(p["features"]), seed=p["seed"]):
                d = support.Diagnosis(p, got)
                self.assertEqual(d.code, 1, str(d))
                self.assertIn((f"dialect-{name}",), d.named, str(d))
        self.assertEqual(differing, dialects.FEATURES.keys() - {"ggml"})


if __name__ == "__main__":
    unittest.main()
