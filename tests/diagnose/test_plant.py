#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The planting program itself: its right answers are right, and each mistake changes what it is planted on by ten bounds or more."""
import pathlib
import sys
import unittest

import numpy as np

for folder in ("ref", "python"):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / folder))
import bound  # noqa: E402
import caselib  # noqa: E402
import numpy_attention  # noqa: E402
import plant  # noqa: E402
import plant_mha  # noqa: E402
import problems  # noqa: E402
import test_diagnose_cases as cases  # noqa: E402


class Plant(unittest.TestCase):
    def test_right_answers(self):
        """Against the other NumPy program, written for another test by somebody else."""
        for seed in range(60):
            rng = np.random.default_rng(seed)
            features = " ".join(name for name in ("mask", "bias", "causal", "window", "softcap", "gqa", "sinks", "alibi", "kv_len")
                                if rng.random() < 0.4)
            p = problems.make(features, seed)
            names = ("mask", "bias", "causal", "window", "softcap", "sinks", "alibi", "kv_len", "align")
            o = {name: p[name] for name in names if name in p}
            with np.errstate(divide="ignore"):
                want = numpy_attention.attention(*(p[name].astype(float) for name in "qkv"), o)["output"]
            np.testing.assert_allclose(plant.attention(p)["output"], want, rtol=1e-12, atol=1e-12, err_msg=features)

    def test_the_bound_holds_for_another_order(self):
        """f32 by NumPy lies within the bound of f64, and by more than a hundredth of it somewhere: the bound is not a blank cheque."""
        worst = 0
        for seed in range(60):
            p = problems.make(["", "mask", "causal softcap", "x", "x gqa softcap", "large"][seed % 6], seed)
            want, limit = plant_mha.wanted(p, (), "f32")
            away = bound.bounds(plant_mha.given(p, (), "f32"), want, limit)
            self.assertLessEqual(away, 1, (seed, p["features"]))
            worst = max(worst, away)
        self.assertGreater(worst, 0.01)

    def test_each_mistake_is_seen(self):
        for dtype in ("f32", "f64", "f16", "bf16"):
            for name, p in problems.singles(dtype):
                self.assertIsNotNone(p, f"{name}: no problem on which it changes the answer by ten bounds of {dtype}")
                self.assertGreaterEqual(problems.changed(p, (name,), dtype), 10, name)

    def test_public_reports_are_reproduced(self):
        """Each mistake that a folder of tests/cases was named after gives the faulty answer kept there, which came from elsewhere."""
        for case in caselib.load("sdpa") + caselib.load("mha"):
            mistake = cases.KNOWN.get(case.name)
            # NaN for inputs, an unknown mask, the query alone rounded
            if mistake and case.name not in ("P02a_mask", "P02b_lengths", "P18b_eval", "P19_bf16_scores"):
                p = (cases.sdpa_problem if case.kind == "sdpa" else cases.mha_problem)(case)
                with self.subTest(case.name), np.errstate(all="ignore"):
                    got = plant_mha.given(p, (mistake,), "f32" if mistake == "max-not-subtracted" else "f64")
                    np.testing.assert_allclose(got, case.array("faulty"), rtol=1e-6, atol=1e-7)

    def test_a_bias_of_the_keys_is_forgotten(self):
        """Why b_k-missing is planted with a softcap or a sink only."""
        for seed in range(5):
            self.assertLess(problems.changed(problems.make("x", seed), ("b_k-missing",), "f32"), 1)


if __name__ == "__main__":
    unittest.main()
