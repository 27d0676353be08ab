#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dropout left on, or its kept weights not divided by 1-p: told by the weights, or where V lets them be solved for; else not guessed."""
import unittest

import numpy as np

import plant
import plant_mha
import problems
import support

SHAPES = [{"Lk": 7, "d_v": 4}, {"Lk": 12, "d_v": 6}, {"Lk": 30, "d_v": 9}]
SOLVABLE = [{"Lk": 5, "d_v": 5}, {"Lk": 6, "d_v": 11}, {"Lk": 9, "d_v": 12}]


def problem(seed, sizes, dropout):
    """That many keys and columns of V, and for dropout a mask of the kept weights."""
    rng = np.random.default_rng([13, seed])
    p = problems.make("", seed)
    n = {**p["shape"], **sizes}
    normal = lambda *shape: rng.normal(size=shape).astype(np.float32)  # noqa: E731
    p["q"], p["k"] = normal(n["B"], n["H"], n["Lq"], n["d"]), normal(n["B"], n["H"], n["Lk"], n["d"])
    p["v"] = normal(n["B"], n["H"], n["Lk"], n["d_v"])
    p["shape"] = n
    if dropout:
        p["dropout"], p["keep"] = 0.25, rng.random((n["B"], n["H"], n["Lq"], n["Lk"])) >= 0.25
    return p


class Dropout(unittest.TestCase):
    def named(self, mistake, p, with_weights):
        self.assertGreaterEqual(problems.changed(p, (mistake,), "f32"), 10)
        weights = plant.attention(p, (mistake,), np.float32)["weights"] if with_weights else None
        d = support.Diagnosis(p, plant_mha.given(p, (mistake,), "f32"), "f32", weights)
        self.assertEqual(d.code, 1, str(d))
        self.assertIn((mistake,), d.named, str(d))
        self.assertEqual(d.first, (mistake,), str(d))

    def test_left_on_by_the_weights(self):
        for seed, sizes in enumerate(SHAPES):
            self.named("dropout-left-on", problem(seed, sizes, False), True)

    def test_left_on_solved_for(self):
        for seed, sizes in enumerate(SOLVABLE):
            self.named("dropout-left-on", problem(seed, sizes, False), False)

    def test_not_scaled_by_the_weights(self):
        for seed, sizes in enumerate(SHAPES):
            self.named("dropout-not-scaled", problem(seed, sizes, True), True)

    def test_not_scaled_solved_for(self):
        for seed, sizes in enumerate(SOLVABLE):
            self.named("dropout-not-scaled", problem(seed, sizes, True), False)

    def test_not_guessed(self):
        """More keys than columns and no weights: any output could be some dropout's."""
        for seed, sizes in enumerate(SHAPES):
            p = problem(seed, sizes, False)
            d = support.Diagnosis(p, plant_mha.given(p, ("dropout-left-on",), "f32"))
            self.assertEqual(d.code, 1, str(d))
            self.assertNotIn(("dropout-left-on",), d.named, str(d))

    def test_right_weights_accuse_nobody(self):
        p = problem(0, SHAPES[0], True)
        s = plant.attention(p, (), np.float32)
        d = support.Diagnosis(p, s["output"], "f32", s["weights"])
        self.assertEqual((d.code, d.named), (0, set()), str(d))


if __name__ == "__main__":
    unittest.main()
