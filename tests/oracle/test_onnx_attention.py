# SPDX-License-Identifier: Apache-2.0
"""Every test of ONNX operator Attention that the onnx package generates, on every ISA level: once against ONNX's outputs within ONNX's
own tolerance, once against the same definition in float64 within the rounding of the output's dtype."""
import pathlib
import sys
import unittest
import warnings

import numpy as np
import onnx
from onnx.backend.test.case.node import collect_testcases
from onnx.reference.ops.op_attention import _compute_attention

import attn._attn
import attn._context
from attn.onnx import SLOTS, attention

LISTED = pathlib.Path(__file__).with_name("onnx_attention_tests.txt")
RAN = {}  # name -> number of ISA levels


def listed():
    """{name: opset} of the tests that must exist."""
    lines = [line.split() for line in LISTED.read_text().splitlines() if not line.startswith("#")]
    return {name: int(opset) for name, opset in lines}


def generated():
    """{name: test case} of the single-node tests."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases("Attention")
    nodes = {case.name: case.model.graph.node for case in cases}
    return {case.name: case for case in cases if len(nodes[case.name]) == 1 and nodes[case.name][0].op_type == "Attention"}


def in_float64(node, inputs):
    """The outputs of ONNX's definition of the node in float64 arithmetic, by name."""
    given = iter(inputs)
    x = {slot: next(given) for slot, name in zip(SLOTS, node.input) if name}
    wide = {slot: a.astype("f8") if a.dtype.name in ("float16", "bfloat16", "float32") else a for slot, a in x.items()}
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    attributes.pop("softmax_precision", None)
    names = ("Y", "present_key", "present_value", "qk_matmul_output")
    return dict(zip(names, _compute_attention(**wide, **attributes)))


class OnnxAttention(unittest.TestCase):
    CASES = generated()

    def test_the_tests_are_those_listed(self):
        self.assertEqual({name: case.model.opset_import[0].version for name, case in self.CASES.items()}, listed())

    def test_every_case(self):
        for level in (name for name, usable in attn._attn.isa_levels() if usable):
            attn._context._own.context = attn._attn.Context(isa=level)
            for name, case in self.CASES.items():
                with self.subTest(case=name, isa=level):
                    self.check(case)
                    RAN[name] = RAN.get(name, 0) + 1

    def check(self, case):
        node, (inputs, outputs) = case.model.graph.node[0], case.data_sets[0]
        got, exact = attention(node, inputs), in_float64(node, inputs)
        for name, expected in zip([name for name in node.output if name], outputs):
            self.assertEqual((got[name].dtype, got[name].shape), (expected.dtype, expected.shape), name)
            with self.subTest(output=name):
                self.near(got[name], expected, *self.tolerance(case, expected.dtype.name))
                self.near(got[name], exact[name], *self.rounding(expected.dtype.name))

    def near(self, got, expected, rtol, atol):
        np.testing.assert_allclose(got.astype("f8"), expected.astype("f8"), rtol, atol)

    def tolerance(self, case, dtype):
        """What ONNX's own runner allows: two units in the last place for bfloat16."""
        return max(case.rtol, 2.0 ** -6 if dtype == "bfloat16" else 0), case.atol

    def rounding(self, dtype):
        """Half a unit in the last place of the dtype, and what f32 arithmetic adds."""
        return {"float16": 2.0 ** -11, "bfloat16": 2.0 ** -8}.get(dtype, 0) + 3e-6, 1e-6


def main():
    program = unittest.main(exit=False)
    for name, opset in listed().items():
        print("%-8s %s, opset %d, %d ISA levels" % ("ran" if name in RAN else "NOT RUN", name, opset, RAN.get(name, 0)))
    print("onnx %s: %d tests of operator Attention ran, %d are listed" % (onnx.__version__, len(RAN), len(listed())))
    sys.exit(not program.result.wasSuccessful())


if __name__ == "__main__":
    main()
