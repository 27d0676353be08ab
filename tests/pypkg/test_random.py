# SPDX-License-Identifier: Apache-2.0
"""Random calls of attn.sdpa by hypothesis, against the definition in float64: shapes, memory orders, dtypes, options together."""
import unittest

import ml_dtypes
import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import attn
from reference import attention

# What one operation may add, relative to the size of the values: rounding of the output's dtype, and the arithmetic of f32.
TOLERANCE = {"float64": 1e-12, "float32": 2e-5, "float16": 2e-3, "bfloat16": 1.6e-2}


def arranged(draw, a):
    """The same numbers in another memory order: transposed, reversed, with gaps, read-only."""
    how = draw(st.sampled_from(("packed", "blhd", "reversed", "gaps", "read-only")))
    if how == "blhd":
        return np.ascontiguousarray(a.swapaxes(1, 2)).swapaxes(1, 2)
    if how == "reversed":
        return np.ascontiguousarray(a[:, ::-1, ::-1, ::-1])[:, ::-1, ::-1, ::-1]
    if how == "gaps":
        wide = np.zeros([2 * n for n in a.shape], a.dtype)
        wide[::2, ::2, ::2, ::2] = a
        return wide[::2, ::2, ::2, ::2]
    a.flags.writeable = how != "read-only"
    return a


@st.composite
def calls(draw):
    batch, groups, kv_heads = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
    rows, keys, d, d_v = draw(st.integers(0, 9)), draw(st.integers(0, 19)), draw(st.integers(1, 17)), draw(st.integers(1, 17))
    rng = np.random.default_rng(draw(st.integers(0, 2 ** 32)))
    heads = groups * kv_heads
    shapes = (batch, heads, rows, d), (batch, kv_heads, keys, d), (batch, kv_heads, keys, d_v)
    dtypes = [np.dtype(draw(st.sampled_from(("f8", "f4", "f2", ml_dtypes.bfloat16)))) for _ in shapes]
    arrays = [arranged(draw, rng.standard_normal(shape).astype(dtype)) for shape, dtype in zip(shapes, dtypes)]
    options = {}
    if draw(st.booleans()):
        options["mask"] = rng.random(draw(st.sampled_from([(batch, heads, rows, keys), (1, 1, rows, keys), (batch, 1, 1, keys)]))) < 0.7
    if draw(st.booleans()):
        bias = rng.standard_normal((heads, rows, keys)).astype("f4")
        options["bias"] = np.where(rng.random(bias.shape) < 0.1, np.float32(-np.inf), bias)
    if draw(st.booleans()):
        options["scale"] = draw(st.sampled_from((0.0, -0.5, 0.7)))
    if draw(st.booleans()):
        options["softcap"] = draw(st.sampled_from((0.5, 4.0)))
    if draw(st.booleans()):
        options["sinks"] = rng.standard_normal(heads)
    if draw(st.booleans()):
        options["kv_len"] = rng.integers(0, keys + 1, batch)
    if draw(st.booleans()):
        options["q_len"] = rng.integers(0, rows + 1, batch)
    if draw(st.booleans()):
        options["offset"] = draw(st.one_of(st.integers(-5, 20), st.just(rng.integers(-5, 20, batch))))
        options["causal"] = draw(st.booleans())
        if draw(st.booleans()):
            options["window"] = draw(st.tuples(st.integers(-1, 6), st.integers(-1, 6)))
        if draw(st.booleans()):
            options["alibi"] = rng.random(heads)
    return arrays, options


class RandomCalls(unittest.TestCase):
    @settings(max_examples=300, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    @given(calls())
    def test_against_the_definition(self, call):
        arrays, options = call
        out, lse, weights = attn.sdpa(*arrays, return_lse=True, return_weights=True, **options)
        expected = attention(*arrays, **options)
        self.assertEqual(out.dtype, arrays[0].dtype)
        wide = any(a.dtype == np.float64 for a in arrays)
        inner = TOLERANCE["float64" if wide else "float32"]
        size = max(1, np.max(np.abs(np.asarray(arrays[2], "f8")), initial=0))
        rounded = max(inner, TOLERANCE[out.dtype.name]) * size
        for got, name, tolerance in ((out, "out", rounded), (lse, "lse", 4 * inner), (weights, "weights", inner)):
            np.testing.assert_allclose(np.asarray(got, "f8"), expected[name], tolerance, tolerance, err_msg=name)


if __name__ == "__main__":
    unittest.main()
