# SPDX-License-Identifier: Apache-2.0
"""The worked examples of the documentation, number by number."""
import os
import unittest

import numpy as np

import attnlib
from attnlib import AttnError, Context, MhaWeights, mha, sdpa

STAGES = ("scores", "scaled", "capped", "masked", "weights", "lse", "row_max", "entropy", "mass")


def f32(rows):
    return np.array(rows, np.float32)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def split(x, heads):
    """(L, H*d) -> (H, L, d)."""
    rows, width = x.shape
    return x.reshape(rows, heads, width // heads).transpose(1, 0, 2)


class TwoWords(unittest.TestCase):
    """d_k = 4: scores -> / sqrt(4) -> softmax -> times V."""

    def setUp(self):
        q, k, v = f32([[1, 0, 1, 0], [0, 1, 0, 1]]), f32([[1, 0, 1, 0], [1, 1, 1, 1]]), f32([[10, 0], [0, 10]])
        with Context() as ctx:
            self.got = sdpa(ctx, q, k, v, want=STAGES)

    def test_scores(self):
        np.testing.assert_array_equal(self.got["scores"], [[2, 2], [0, 2]])

    def test_scaled_by_one_half(self):
        for stage in ("scaled", "capped", "masked"):
            np.testing.assert_array_equal(self.got[stage], [[1, 1], [0, 1]])

    def test_the_hand_sum_of_the_second_row(self):
        total = np.exp(self.got["scaled"][1].astype("f8")).sum()
        self.assertEqual("%.2f" % total, "3.72")
        self.assertAlmostEqual(self.got["lse"][1], np.log(total), delta=1e-6)

    def test_weights(self):
        np.testing.assert_allclose(self.got["weights"], softmax(np.array([[1.0, 1], [0, 1]])), rtol=3e-7)
        np.testing.assert_array_equal(self.got["weights"].round(2), f32([[.5, .5], [.27, .73]]))

    def test_output(self):
        np.testing.assert_allclose(self.got["out"], 10 * softmax(np.array([[1.0, 1], [0, 1]])), rtol=3e-7)
        np.testing.assert_array_equal(self.got["out"].round(1), f32([[5, 5], [2.7, 7.3]]))

    def test_by_products(self):
        weights = softmax(np.array([[1.0, 1], [0, 1]]))
        np.testing.assert_array_equal(self.got["row_max"], [1, 1])
        np.testing.assert_allclose(self.got["entropy"], -(weights * np.log(weights)).sum(axis=1), rtol=1e-6)
        np.testing.assert_allclose(self.got["mass"], weights.sum(axis=0), rtol=1e-6)


class SplitInTwoHeads(unittest.TestCase):
    """arange(32) as (4,8): (4,8) -> (4,2,4) -> (2,4,4), and back."""

    def setUp(self):
        self.x = np.arange(32, dtype=np.float32).reshape(4, 8)
        self.eye = np.eye(8, dtype=np.float32)

    def test_head_1_starts_4_5_6_7(self):
        with Context() as ctx, MhaWeights(ctx, 2, w_q=self.eye, w_k=self.eye, w_v=self.eye) as w:
            got = mha(ctx, w, self.x, want=("q", "k", "v"))
        for name in "qkv":
            np.testing.assert_array_equal(got[name][1, 0], [4, 5, 6, 7])
            np.testing.assert_array_equal(got[name], split(self.x, 2))

    def test_the_view_without_a_copy(self):
        view = attnlib.permute(attnlib.tensor(self.x.reshape(4, 2, 4)), (1, 0, 2))
        np.testing.assert_array_equal(attnlib.array(view), split(self.x, 2))

    def test_joined_back(self):
        """A row that sees itself alone gives its own value: what was split is joined to what it was."""
        with Context() as ctx, MhaWeights(ctx, 2, w_q=self.eye, w_k=self.eye, w_v=self.eye) as w:
            got = mha(ctx, w, self.x, want=("z",), window=(0, 0))
        np.testing.assert_array_equal(got["z"], split(self.x, 2))
        np.testing.assert_array_equal(got["out"], self.x)

    def test_reshape_without_transpose_is_told_apart(self):
        wrong, right = self.x.reshape(2, 4, 4), split(self.x, 2)
        self.assertNotEqual(wrong[1, 0].tolist(), [4, 5, 6, 7])
        with Context() as ctx, MhaWeights(ctx, 2, w_q=self.eye, w_k=self.eye, w_v=self.eye) as w:
            heads = mha(ctx, w, self.x, want=("z",), scale=0.01)["z"]
            np.testing.assert_allclose(sdpa(ctx, right, right, right, scale=0.01)["out"], heads, rtol=1e-6)
            self.assertGreater(np.abs(sdpa(ctx, wrong, wrong, wrong, scale=0.01)["out"] - heads).max(), 1)


class TenWords(unittest.TestCase):
    """Transformer base: (10,512) -> 8 heads of 64 -> (10,512) -> W_O, in f32 against float64."""

    def setUp(self):
        random = np.random.default_rng(512)
        self.x = random.standard_normal((10, 512), np.float32)
        self.w = [random.standard_normal((512, 512), np.float32) / np.float32(512 ** 0.5) for _ in range(4)]
        q, k, v = (split(self.x.astype("f8") @ w.astype("f8"), 8) for w in self.w[:3])
        self.scaled = q @ k.transpose(0, 2, 1) / 8
        self.z = softmax(self.scaled) @ v
        self.out = self.z.transpose(1, 0, 2).reshape(10, 512) @ self.w[3].astype("f8")

    def packed(self, ctx):
        return MhaWeights(ctx, 8, w_q=self.w[0], w_k=self.w[1], w_v=self.w[2], w_o=self.w[3])

    def test_every_shape_and_value(self):
        with Context() as ctx, self.packed(ctx) as w:
            got = mha(ctx, w, self.x, want=("q", "k", "v", "z", "scaled", "weights"))
        for name, shape in (("q", (8, 10, 64)), ("scaled", (8, 10, 10)), ("z", (8, 10, 64)), ("out", (10, 512))):
            self.assertEqual(got[name].shape, shape)
        np.testing.assert_allclose(got["scaled"], self.scaled, rtol=0, atol=5e-6)
        np.testing.assert_allclose(got["weights"], softmax(self.scaled), rtol=0, atol=2e-6)
        np.testing.assert_allclose(got["z"], self.z, rtol=0, atol=5e-6)
        np.testing.assert_allclose(got["out"], self.out, rtol=0, atol=5e-6)

    def test_a_table_per_head_is_the_same(self):
        tables = [np.ascontiguousarray(w.reshape(512, 8, 64).transpose(1, 0, 2)) for w in self.w[:3]]
        with Context() as ctx, self.packed(ctx) as w, \
                MhaWeights(ctx, 8, w_q=tables[0], w_k=tables[1], w_v=tables[2], w_o=self.w[3]) as per_head:
            np.testing.assert_array_equal(mha(ctx, per_head, self.x)["out"], mha(ctx, w, self.x)["out"])

    def test_any_number_of_threads_the_same_bits(self):
        x, answers = np.tile(self.x, (30, 1)), []
        for threads in (1, 2, 3, 8):
            with Context(threads=threads) as ctx, self.packed(ctx) as w:
                got = mha(ctx, w, x, want=("q", "z", "weights"), causal=True)
                answers.append(b"".join(got[name].tobytes() for name in sorted(got)))
                self.assertEqual(ctx.info()["threads"], threads if os.environ["ATTN_OPENMP"] == "ON" else 1)
        self.assertEqual(set(answers), {answers[0]})

    def test_eight_heads_are_not_one(self):
        with Context() as ctx, MhaWeights(ctx, 1, w_q=self.w[0], w_k=self.w[1], w_v=self.w[2], w_o=self.w[3]) as one:
            self.assertGreater(np.abs(mha(ctx, one, self.x)["out"] - self.out).max(), 0.1)


class HeadsThatDoNotDivide(unittest.TestCase):
    def test_896_by_13(self):
        w = np.zeros((896, 896), np.float32)
        with Context() as ctx, self.assertRaises(AttnError) as caught:
            MhaWeights(ctx, 13, w_q=w, w_k=w, w_v=w)
        for number in ("896", "13", "14"):  # the width, the heads, and one count that does divide
            self.assertIn(number, caught.exception.sentence)


if __name__ == "__main__":
    unittest.main()
