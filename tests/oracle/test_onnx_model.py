# SPDX-License-Identifier: Apache-2.0
"""Every test of the ONNX operators RotaryEmbedding and RMSNormalization that the onnx package generates, by libattn_model: once against
ONNX's outputs within ONNX's own tolerance, once against the operator's formula in float64 within one rounding of f32."""
import pathlib
import unittest
import warnings

import numpy as np
import onnx
from onnx.backend.test.case.node import collect_testcases

from attn.onnx import rms_normalization, rotary_embedding, split_heads

OPERATORS = {"RotaryEmbedding": 8, "RMSNormalization": 19}
LISTED = pathlib.Path(__file__).with_name("onnx_model_tests.txt")


def generated():
    """{name: test case} of the single-node tests of those operators."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    return {c.name: c for c in cases if len(c.model.graph.node) == 1 and c.model.graph.node[0].op_type in OPERATORS}


def tables_of(inputs, lead):
    """(cos, sin, positions): without position_ids ONNX gives a row of the tables for each item and row."""
    cos, sin = inputs[1].reshape(-1, inputs[1].shape[-1]), inputs[2].reshape(-1, inputs[2].shape[-1])
    positions = inputs[3] if len(inputs) > 3 else np.arange(lead[0] * lead[1]).reshape(lead)
    return cos, sin, positions


def exact_rotary_embedding(attributes, inputs):
    x = (inputs[0] if inputs[0].ndim == 4 else split_heads(inputs[0], attributes["num_heads"])).astype("f8")
    cos, sin, positions = tables_of(inputs, (x.shape[0], x.shape[2]))
    cos, sin = cos.astype("f8")[positions][:, None], sin.astype("f8")[positions][:, None]
    pairs = cos.shape[-1]
    a, b = (slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)) if attributes.get("interleaved") else (slice(0, pairs), slice(pairs, 2 * pairs))
    y = x.copy()
    y[..., a], y[..., b] = x[..., a] * cos - x[..., b] * sin, x[..., a] * sin + x[..., b] * cos
    return y if inputs[0].ndim == 4 else y.transpose(0, 2, 1, 3).reshape(inputs[0].shape)


def exact_rms_normalization(attributes, inputs):
    x, scale = (a.astype("f8") for a in inputs)
    axes = tuple(range(attributes.get("axis", -1) % x.ndim, x.ndim))
    return x / np.sqrt((x * x).mean(axes, keepdims=True) + attributes.get("epsilon", 1e-5)) * scale


class OnnxModel(unittest.TestCase):
    CASES = generated()

    def test_the_tests_are_those_listed(self):
        listed = [line.split() for line in LISTED.read_text().splitlines() if not line.startswith("#")]
        self.assertEqual({name: c.model.opset_import[0].version for name, c in self.CASES.items()},
                         {name: int(opset) for name, opset in listed})
        for operator, count in OPERATORS.items():
            self.assertEqual(count, sum(c.model.graph.node[0].op_type == operator for c in self.CASES.values()), operator)

    def test_every_case(self):
        calls = {"RotaryEmbedding": (rotary_embedding, exact_rotary_embedding),
                 "RMSNormalization": (rms_normalization, exact_rms_normalization)}
        for name, case in self.CASES.items():
            with self.subTest(case=name):
                node, (inputs, outputs) = case.model.graph.node[0], case.data_sets[0]
                attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
                call, exact = calls[node.op_type]
                got = call(node, inputs)["Y"]
                self.assertEqual((got.dtype, got.shape), (outputs[0].dtype, outputs[0].shape))
                np.testing.assert_allclose(got, outputs[0], case.rtol, case.atol)
                np.testing.assert_allclose(got, exact(attributes, inputs), 2.0 ** -24, 1e-14)
                print("ran %s" % name)


if __name__ == "__main__":
    unittest.main()
