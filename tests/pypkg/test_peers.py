# SPDX-License-Identifier: Apache-2.0
"""Where PyTorch, ONNX Runtime and JAX are installed: python -m attn.bench measures all of them and all compute the same; JAX's arrays."""
import contextlib
import io
import unittest

import jax
import jax.numpy as jnp
import numpy as np

import attn
from attn import bench


class Bench(unittest.TestCase):
    def test_every_program_computes_the_same(self):
        met = set()
        for case in bench.QUICK:
            for program, (seconds, error) in bench.measure(case, 0).items():
                met.add(program)
                self.assertGreater(seconds, 0)
                self.assertLess(error, 2e-2 if case[3] == "bf16" else 1e-5, (case, program))
        self.assertEqual(met, set(bench.PROGRAMS))

    def test_the_table(self):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            bench.main(["--quick", "--threads", "1"])
        for program in bench.PROGRAMS:
            self.assertIn(f"| {program} ", said.getvalue())
        self.assertIn("jax " + jax.__version__, said.getvalue())
        self.assertRegex(said.getvalue(), "smallest call.* us in the binding")


class Jax(unittest.TestCase):
    def test_arrays_in_place(self):
        rng = np.random.default_rng(1)
        for kind in (jnp.float32, jnp.bfloat16, jnp.float16):
            q, k, v = (jnp.asarray(rng.standard_normal((2, 3, 5, 8)), kind) for _ in range(3))
            arrays = [np.asarray(x) for x in (q, k, v)]
            np.testing.assert_array_equal(attn.sdpa(q, k, v).astype("f4"), attn.sdpa(*arrays).astype("f4"))
        expected = jax.nn.dot_product_attention(*(x.swapaxes(1, 2) for x in (q, k, v))).swapaxes(1, 2)
        np.testing.assert_allclose(attn.sdpa(q, k, v), expected, 1e-2, 1e-2)

    def test_they_cannot_be_written_to(self):
        x = jnp.ones((1, 1, 2, 4), jnp.float32)
        with self.assertRaisesRegex(ValueError, "read-only"):
            attn.sdpa(x, x, x, out=jnp.zeros_like(x))


if __name__ == "__main__":
    unittest.main()
