# SPDX-License-Identifier: Apache-2.0
"""attn.torch: the operator's gradients, torch.compile, and the patch against PyTorch's attention. And attn.sdpa on tensors."""
import doctest
import os
import shutil
import tempfile
import unittest
import unittest.mock
import warnings

import ml_dtypes
import numpy as np
import torch
import torch._inductor.config
import torch.nn.functional as functional

import attn
import attn.torch

TORCHS_OWN = functional.scaled_dot_product_attention


def draw(*shape, dtype=torch.float32, grad=False):
    return torch.randn(*shape, dtype=torch.float64).to(dtype).requires_grad_(grad)


class Tensors(unittest.TestCase):
    """attn.sdpa on torch tensors."""

    def test_every_dtype_in_place(self):
        for dtype, tolerance in ((torch.float64, 1e-13), (torch.float32, 1e-5), (torch.float16, 2e-3), (torch.bfloat16, 2e-2)):
            q, k, v = draw(2, 4, 5, 8, dtype=dtype), draw(2, 2, 7, 8, dtype=dtype), draw(2, 2, 7, 6, dtype=dtype)
            out, lse = attn.sdpa(q, k, v, return_lse=True)
            expected = TORCHS_OWN(q.double(), k.double(), v.double(), enable_gqa=True)
            self.assertIs(out.dtype, dtype)
            torch.testing.assert_close(out.double(), expected, rtol=tolerance, atol=tolerance)
            whole = torch.zeros(2, 5, 4, 6, dtype=dtype)
            attn.sdpa(q, k, v, out=whole.transpose(1, 2))
            self.assertTrue(torch.equal(whole.transpose(1, 2), out))

    def test_ml_dtypes_has_the_bits_of_torch(self):
        q = draw(1, 2, 5, 8, dtype=torch.bfloat16)
        a = q.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
        got = attn.sdpa(a, a, a)
        self.assertEqual(got.dtype, ml_dtypes.bfloat16)
        np.testing.assert_array_equal(got.view("i2"), attn.sdpa(q, q, q).view(torch.int16).numpy())
        out = np.zeros_like(a)
        attn.sdpa(a, a, a, out=out)
        np.testing.assert_array_equal(out.view("i2"), got.view("i2"))

    def test_a_gradient_is_not_dropped_silently(self):
        q = draw(1, 2, 5, 8, grad=True)
        with self.assertRaisesRegex(TypeError, "q cannot be read: .*detach"):
            attn.sdpa(q, q, q)

    def test_other_devices_are_refused(self):
        q = torch.empty(1, 2, 5, 8, device="meta")
        with self.assertRaises((TypeError, ValueError)):
            attn.sdpa(q, q, q)

    def test_module_and_its_weights(self):
        for options in ({}, {"kdim": 6, "vdim": 10}, {"bias": False}):
            module = torch.nn.MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64, **options).eval()
            x, m, mv = draw(2, 5, 8, dtype=torch.float64), *(draw(2, 7, n, dtype=torch.float64) for n in
                                                             (options.get("kdim", 8), options.get("vdim", 8)))
            with torch.no_grad():
                expected, weights = module(x, m, mv, average_attn_weights=False)
            got = attn.MultiHeadAttention.from_torch(module)(x, m, mv, return_weights=True)
            torch.testing.assert_close(got[0], expected, rtol=1e-12, atol=1e-12)
            torch.testing.assert_close(got[1], weights, rtol=1e-12, atol=1e-12)


class Operator(unittest.TestCase):
    def test_registered_as_torch_demands(self):
        for grad in (False, True):
            q, k, v = (draw(2, h, n, 8, grad=grad) for h, n in ((4, 5), (2, 7), (2, 7)))
            arguments = (q, k, v, None, draw(5, 7), True, 2, None, 5.0, [3, 0], draw(4), "torch")
            torch.library.opcheck(torch.ops.attn.sdpa.default, arguments)

    def test_gradients(self):
        q, k, v = (draw(2, h, n, 4, dtype=torch.float64, grad=True) for h, n in ((4, 3), (2, 5), (2, 5)))
        bias, sinks = draw(4, 3, 5, dtype=torch.float64, grad=True), draw(4, dtype=torch.float64, grad=True)
        mask = torch.rand(3, 5) < 0.7

        def function(q, k, v, bias, sinks):
            return attn.torch.sdpa(q, k, v, mask=mask, bias=bias, causal=True, offset=2, softcap=3.0, window=(3, -1), sinks=sinks,
                                   return_lse=True, backward="torch")
        self.assertTrue(torch.autograd.gradcheck(function, (q, k, v, bias, sinks)))

    def test_gradients_of_a_row_that_sees_nothing_are_zero(self):
        q = draw(1, 1, 3, 4, grad=True)
        out = attn.torch.sdpa(q, q, q, mask=torch.tensor([[True] * 3, [False] * 3, [True] * 3]), backward="torch")
        out.sum().backward()
        self.assertTrue(torch.isfinite(q.grad).all())

    def test_without_a_backward_it_says_so(self):
        q = draw(1, 1, 3, 4, grad=True)
        with self.assertRaisesRegex(RuntimeError, "no backward.*backward='torch'"):
            attn.torch.sdpa(q, q, q).sum().backward()

    def test_compile(self):
        q, k, v = draw(2, 4, 5, 8), draw(2, 2, 5, 8), draw(2, 2, 5, 8)
        expected = attn.torch.sdpa(q, k, v, causal=True) * 2
        compiled = torch.compile(lambda *x: attn.torch.sdpa(*x, causal=True) * 2, fullgraph=True, backend="aot_eager")
        self.assertTrue(torch.equal(compiled(q, k, v), expected))

    @unittest.skipUnless(shutil.which("c++"), "no C++ compiler, which inductor needs")
    def test_compile_by_inductor(self):
        q, k, v = draw(2, 4, 5, 8), draw(2, 2, 5, 8), draw(2, 2, 5, 8)
        expected = attn.torch.sdpa(q * 3, k, v, causal=True).relu() + 1
        with tempfile.TemporaryDirectory() as place, unittest.mock.patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=place):
            with torch._inductor.config.patch(compile_threads=1):
                compiled = torch.compile(lambda q, k, v: attn.torch.sdpa(q * 3, k, v, causal=True).relu() + 1, fullgraph=True)
                torch.testing.assert_close(compiled(q, k, v), expected, rtol=1e-6, atol=1e-6)


class Patch(unittest.TestCase):
    def both(self, *arguments, **options):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with attn.torch.patch():
                got = functional.scaled_dot_product_attention(*arguments, **options)
        torch.testing.assert_close(got, TORCHS_OWN(*arguments, **options), rtol=1e-5, atol=1e-5)

    def test_meaning(self):
        q, k, v = draw(2, 4, 5, 8), draw(2, 4, 7, 8), draw(2, 4, 7, 6)
        self.both(q, k, v)
        self.both(q, k, v, is_causal=True)
        self.both(q, k, v, attn_mask=torch.rand(2, 1, 5, 7) < 0.6, scale=0.3)
        self.both(q, k, v, attn_mask=draw(1, 7))
        self.both(q, k[:, :2], v[:, :2], enable_gqa=True)
        self.both(q[0], k[0], v[0], attn_mask=draw(4, 5, 7))
        self.both(q[0, 0], k[0, 0], v[0, 0])

    def test_inside_of_a_module(self):
        layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
        x = draw(2, 5, 8)
        for p in layer.parameters():
            p.requires_grad_(False)
        torch.backends.mha.set_fastpath_enabled(False)
        expected = layer(x)
        calls = []
        with attn.torch.patch():
            inner = functional.scaled_dot_product_attention
            functional.scaled_dot_product_attention = lambda *a, **b: calls.append(1) or inner(*a, **b)
            torch.testing.assert_close(layer(x), expected, rtol=1e-5, atol=1e-5)
        self.assertEqual(calls, [1])

    def test_each_reason_to_fall_back_is_said_once(self):
        q = draw(1, 2, 5, 8, grad=True)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with attn.torch.patch():
                for _ in range(3):
                    functional.scaled_dot_product_attention(q, q, q).sum().backward()
                    functional.scaled_dot_product_attention(q, q, q, dropout_p=0.5)
            with attn.torch.patch():
                got = functional.scaled_dot_product_attention(q, q, q, None, 0.0, True, scale=2.0)
        self.assertTrue(torch.equal(got, TORCHS_OWN(q, q, q, None, 0.0, True, scale=2.0)))
        said.pop()
        self.assertEqual(sorted(str(w.message).split(" for ")[1].split(";")[0].split(",")[0] for w in said), ["a gradient", "dropout"])
        self.assertIs(functional.scaled_dot_product_attention, TORCHS_OWN)

    def test_gradient_by_torch_where_it_is_chosen(self):
        q, r = draw(1, 2, 5, 8, grad=True), None
        TORCHS_OWN(q, q, q, is_causal=True).pow(2).sum().backward()
        expected, q.grad = q.grad, r
        with attn.torch.patch(backward="torch"):
            functional.scaled_dot_product_attention(q, q, q, is_causal=True).pow(2).sum().backward()
        torch.testing.assert_close(q.grad, expected, rtol=1e-4, atol=1e-5)

    def test_it_is_taken_back_after_an_error(self):
        with self.assertRaises(ZeroDivisionError), attn.torch.patch():
            raise ZeroDivisionError
        self.assertIs(functional.scaled_dot_product_attention, TORCHS_OWN)


class Documented(unittest.TestCase):
    def test_examples(self):
        found = doctest.testmod(attn.torch, extraglobs={"attn": attn})
        self.assertEqual((found.failed, found.attempted > 4), (0, True))


if __name__ == "__main__":
    unittest.main()
