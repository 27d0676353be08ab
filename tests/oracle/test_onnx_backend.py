# SPDX-License-Identifier: Apache-2.0
"""attn.onnx by onnx's own runner of backend tests: every single-node test of the three operators, none skipped."""
import pathlib
import unittest
import warnings

import numpy as np
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
    def test_keys_that_a_mask_lacks_are_hidden(self):
        """No test of onnx's has them without nonpad_kv_seqlen, which hides them too."""
        q, mask = np.random.default_rng(0).standard_normal((1, 2, 5, 8), dtype="f4"), np.ones((5, 3), bool)
        node = onnx.helper.make_node("Attention", ["Q", "K", "V", "attn_mask"], ["Y"])
        for a in (mask, mask.astype("f4") * 0):
            np.testing.assert_allclose(attn.onnx.run_node(node, [q, q, q, a])[0], attn.sdpa(q, q[:, :, :3], q[:, :, :3]), 1e-6, 1e-6)

    def test_other_operators(self):
        node = onnx.helper.make_node("Softmax", ["x"], ["y"])
        with self.assertRaisesRegex(NotImplementedError, "Softmax"):
            attn.onnx.run_node(node, [])


if __name__ == "__main__":
    program = unittest.main(exit=False)
    count = program.result.testsRun - len(program.result.skipped)
    print("%d of %d tests ran by onnx's runner" % (count - 2, len(listed())))
    raise SystemExit(not program.result.wasSuccessful() or count != len(listed()) + 2)
