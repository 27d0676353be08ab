#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""attn diagnose names the system whose rule gives an answer, by a NumPy program of its rules, wherever it differs from the right one."""
import unittest

import bound
import dialects
import plant_mha
import support


class Dialects(unittest.TestCase):
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
