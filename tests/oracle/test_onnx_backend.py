# SPDX-License-Identifier: Apache-2.0
"""attn.onnx by onnx's own runner of backend tests: every single-node test of the three operators, none skipped."""
import pathlib
import unittest
import warnings

import onnx.backend.test

import attn.onnx

HERE = pathlib.Path(__file__).parent


def listed():
    """The names of the tests that must run."""
    lines = (HERE / "onnx_attention_tests.txt").read_text() + (HERE / "onnx_model_tests.txt").read_text()
    return [line.split()[0] for line in lines.splitlines() if line and not line.startswith("#")]


def load_tests(loader, standard, pattern):
    """Only the listed tests: the runner has thousands for other operators, which it would report as skipped."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runner = onnx.backend.test.BackendTest(attn.onnx.Backend, __name__)
    case = runner.test_cases["OnnxBackendNodeModelTest"]
    suite = unittest.TestSuite(case(f"{name}_cpu") for name in listed())
    suite.addTest(loader.loadTestsFromTestCase(Refusal))
    return suite


class Refusal(unittest.TestCase):
    def test_other_operators(self):
        node = onnx.helper.make_node("Softmax", ["x"], ["y"])
        with self.assertRaisesRegex(NotImplementedError, "Softmax"):
            attn.onnx.run_node(node, [])


if __name__ == "__main__":
    program = unittest.main(exit=False)
    count = program.result.testsRun - len(program.result.skipped)
    print("%d of %d tests ran by onnx's runner" % (count - 1, len(listed())))
    raise SystemExit(not program.result.wasSuccessful() or count != len(listed()) + 1)
