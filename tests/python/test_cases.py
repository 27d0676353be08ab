# SPDX-License-Identifier: Apache-2.0
"""Every folder of tests/cases, in each of its exact dtypes and in f64, on every ISA level that this CPU runs: the right answer is met
and the same comparison refuses the faulty one."""
import collections
import itertools
import sys
import unittest

import numpy as np

import attnlib
from attnlib import AttnError, Context, KvCache, MhaWeights, as_f64, convert, explain_cell, mha, sdpa
from caselib import WAITING, differs, load
from guardpages import guarded

COUNT = collections.Counter()
LEVELS = [name for name, usable in attnlib.isa_levels() if usable]


class CaseTest(unittest.TestCase):
    def each(self, kind, check, only=lambda case, dtype: True):
        """check(ctx, case, dtype) of every folder, dtype and usable level that `only` admits."""
        for level in LEVELS:
            with Context(isa=level) as ctx:
                for case in load(kind):
                    for dtype in (case["dtypes_exact"] or ["f32"]) + ["f64"]:
                        if only(case, dtype):
                            with self.subTest(case=case.name, dtype=dtype, isa=level):
                                check(ctx, case, dtype)
                                COUNT["%s, %s" % (kind, level)] += 1

    def right(self, got, expected, tolerance):
        """got is expected, and exactly 0 where that is 0 by definition (a hidden key, a row with no key)."""
        got = as_f64(got)
        self.assertEqual(differs(got, expected, tolerance), "")
        self.assertTrue(np.all(got[expected == 0] == 0), "a 0 by definition came out as another number")

    def refuses_faulty(self, case, dtype):
        """The comparison that the output passed must not let the faulty output pass."""
        faulty = case.array("faulty")
        if faulty is not None and case["faulty_of"] in (None, "out") and dtype in (case["faulty_seen_at"] or ["f32"]) + ["f64"]:
            self.assertNotEqual(differs(faulty, case.array("expected"), case.tolerance(dtype)), "", "faulty.npy passes")
            COUNT["faulty answers refused"] += 1

    def bits(self, a, b, note):
        for name in a:
            self.assertEqual(a[name].tobytes(), b[name].tobytes(), "%s: other bits of %s" % (note, name))


def exact(a, dtype):
    """In the dtype if no value changes by that, else as it is stored: the dtypes of q, k, v may differ."""
    converted = convert(a, dtype)
    if np.array_equal(as_f64(converted), a.astype("f8"), equal_nan=True):
        return converted
    COUNT["arrays that do not fit %s and stay f32" % dtype] += 1
    return a


def inputs(case, dtype):
    return case.qkv(lambda a: exact(a, dtype))


class Sdpa(CaseTest):
    def test_right_answer(self):
        def check(ctx, case, dtype):
            got = sdpa(ctx, *inputs(case, dtype), want=("lse", "weights"), **case.options())
            self.right(got["out"], case.array("expected"), case.tolerance(dtype))
            self.right(got["lse"], case.array("expected_lse"), case.tolerance(dtype))
            if case.array("expected_weights") is not None:
                self.right(got["weights"], case.array("expected_weights"), case.tolerance(dtype))
            self.refuses_faulty(case, dtype)
        self.each("sdpa", check)

    def test_without_weights_the_same_bits(self):
        def check(ctx, case, dtype):
            qkv = inputs(case, dtype)
            self.bits(sdpa(ctx, *qkv, **case.options()), sdpa(ctx, *qkv, want=("lse", "weights"), **case.options()), "weights")
        self.each("sdpa", check)

    def test_any_strides_the_same_bits(self):
        def check(ctx, case, dtype):
            strided = inputs(case, dtype)
            packed = [np.ascontiguousarray(a) for a in strided]
            turned = [np.ascontiguousarray(a[:, :, ::-1, ::-1])[:, :, ::-1, ::-1] for a in strided]
            first = sdpa(ctx, *packed, **case.options())
            self.bits(sdpa(ctx, *strided, **case.options()), first, "as stored")
            self.bits(sdpa(ctx, *turned, **case.options()), first, "negative strides")
        self.each("sdpa", check)

    def test_strides_of_axes_of_size_1_are_not_used(self):
        def check(ctx, case, dtype):
            qkv = inputs(case, dtype)
            plain = sdpa(ctx, *qkv, **case.options())
            self.bits(sdpa(ctx, *map(wild, qkv), **case.options()), plain, "wild strides")
        self.each("sdpa", check)

    def test_explained_rows_the_same_bits(self):
        def check(ctx, case, dtype):
            qkv = inputs(case, dtype)
            whole = sdpa(ctx, *qkv, want=("lse", "weights"), **case.options())
            for b, h, i in np.ndindex(qkv[0].shape[:3]):
                row = explain_cell(ctx, *qkv, b, h, i, **case.options())
                self.assertEqual(row["output"].tobytes(), whole["out"][b, h, i].tobytes())
                self.assertEqual(row["weights"].tobytes(), whole["weights"][b, h, i].tobytes())
                self.assertEqual(row["lse"], whole["lse"][b, h, i])
                self.assertEqual(row["visible"], np.count_nonzero(row["hidden"] == 0))
        self.each("sdpa", check, only=lambda case, dtype: dtype in ("f32", "f64"))

    def test_bf16_inputs_with_f32_output(self):
        def check(ctx, case, dtype):
            got = sdpa(ctx, *inputs(case, dtype), out_dtype="f32", **case.options())
            self.right(got["out"], case.array("expected"), case.tolerance("f32"))
            self.refuses_faulty(case, "f32")
        self.each("sdpa", check, only=lambda case, dtype: dtype == "bf16")

    def test_nothing_is_touched_beside_the_arrays(self):
        def check(ctx, case, dtype):
            for end in (True, False):
                with guarded(end) as place:
                    options = {name: place(a) if isinstance(a, np.ndarray) else a for name, a in case.options().items()}
                    q, k, v = case.qkv(lambda a: place(exact(a, dtype)))
                    out = place(convert(np.zeros(q.shape[:-1] + v.shape[-1:]), dtype))
                    sdpa(ctx, q, k, v, out=out, **options)
                    self.right(out, case.array("expected"), case.tolerance(dtype))
        self.each("sdpa", check)


def wild(a):
    """A C view of a, with strides on its axes of size 1 that would lead anywhere."""
    view = attnlib.tensor(a)
    for axis in range(view.ndim):
        if view.shape[axis] == 1:
            view.stride[axis] = 987654321987654321
    return view


class Masks(CaseTest):
    """P05: one mask, spread by axes of size 1, by strides of 0, or copied out."""

    def test_every_way_to_spread(self):
        def check(ctx, case, dtype):
            qkv, options = inputs(case, dtype), case.options()
            name = "bias" if "bias" in options else "mask"
            mask = options.pop(name)
            spread = np.broadcast_to(mask, qkv[0].shape[:3] + qkv[1].shape[2:3])
            plain = sdpa(ctx, *qkv, **{name: mask}, **options)
            for note, other in (("stride 0", spread), ("copied out", spread.copy()), ("wild stride", wild(mask))):
                self.bits(sdpa(ctx, *qkv, **{name: other}, **options), plain, note)
        self.each("sdpa", check, only=lambda case, dtype: case["mask"])


class Cache(CaseTest):
    """P02: what lies in a KV cache past its length."""

    def test_unused_tail(self):
        self.each("sdpa", self.check, only=lambda case, dtype: case.name == "P02b_lengths")

    def check(self, ctx, case, dtype):
        q, k, v = inputs(case, dtype)
        length, (batch, heads, capacity, dim) = case["kv_lengths"][0], k.shape
        k, v = k[:, :, :length], v[:, :, :length]
        with KvCache(ctx, heads, capacity, dim, batch=batch, dtype=dtype) as cache:
            cache.append(k, v)
            self.fill_tail(cache)
            held = [attnlib.array(view) for view in cache.view()]
            self.right(sdpa(ctx, q, *held)["out"], case.array("expected"), case.tolerance(dtype))
            self.bits(cache.attend(q), sdpa(ctx, q, k, v, causal=True, align="bottom_right"), "the cache")
            for i in range(q.shape[2]):  # one row stands at the last position, which sees every key held
                row = cache.attend(q[:, :, i:i + 1])["out"]
                self.right(row, case.array("expected")[:, :, i:i + 1], case.tolerance(dtype))

    def fill_tail(self, cache):
        """0xFF in every byte of the rows from the length on."""
        for view in cache.view():
            length, size = len(cache), attnlib.array(view).itemsize
            tail = attnlib.Tensor.from_buffer_copy(view)
            tail.shape[2] = cache.capacity() - length
            tail.data += length * view.stride[2] * size
            rows = attnlib.array(tail)
            rows.view("u%d" % size)[...] = 2 ** (8 * size) - 1
            self.assertTrue(rows.size and np.all(np.isnan(as_f64(rows))))


class Varlen(CaseTest):
    def test_right_answer(self):
        def check(ctx, case, dtype):
            for index in (np.int32, np.int64):
                options = case.options()
                options.update({name: options[name].astype(index) for name in ("cu_seqlens_q", "cu_seqlens_k")})
                got = sdpa(ctx, *inputs(case, dtype), **options)
                self.right(got["out"], case.array("expected"), case.tolerance(dtype))
                self.right(got["lse"], case.array("expected_lse"), case.tolerance(dtype))
        self.each("varlen", check)


class Mha(CaseTest):
    """nn.MultiheadAttention: (out, in) weights packed q, k, v; its bool masks hide where they are true."""

    def weights(self, ctx, case, dtype):
        in_w, in_b, out_w, out_b = (exact(case.array(name), dtype) for name in ("in_w", "in_b", "out_w", "out_b"))
        return MhaWeights(ctx, case["heads"], w_qkv=in_w.T, b_qkv=in_b, w_o=out_w.T, b_o=out_b)

    def masks(self, case):
        """Each way to say the case's masks: merged; the padding as lengths; the padding as a bias."""
        mask, padding = case.array("attn_mask"), case.array("key_padding_mask")
        if mask is None:
            return [{"causal": case["causal"]}]
        merged = mask | padding[:, None, None, :]
        lengths = np.count_nonzero(~padding, axis=1)
        bias = np.where(padding, -np.inf, 0).astype("f4")[:, None, None, :]
        return [{"mask_drop": True, "mask": merged}, {"mask_drop": True, "mask": mask, "kv_len": lengths},
                {"mask_drop": True, "mask": mask, "bias": bias}]

    def test_right_answer(self):
        def check(ctx, case, dtype):
            x = exact(case.array("x"), dtype)
            with self.weights(ctx, case, dtype) as w:
                for masks in self.masks(case):
                    got = mha(ctx, w, x, want=("weights",), **masks)
                    self.right(got["weights"], case.array("expected_weights"), case.tolerance(dtype))
                    self.right(got["out"], case.array("expected"), case.tolerance(dtype))
                    mean = mha(ctx, w, x, want=("weights",), average=True, **masks)
                    self.right(mean["weights"], case.array("expected_weights_mean"), case.tolerance(dtype))
                    self.bits({"out": mean["out"]}, mha(ctx, w, x, **masks), "weights asked for")
            self.refuses_faulty(case, dtype)
        self.each("mha", check)

    def test_row_with_no_key_is_the_bias(self):
        case = next(case for case in load("mha") if case.name == "P22_two_masks")
        with Context() as ctx, self.weights(ctx, case, "f32") as w:
            for masks in self.masks(case):
                out = mha(ctx, w, case.array("x"), **masks)["out"]
                np.testing.assert_array_equal(out[0, 5:], np.broadcast_to(case.array("out_b"), (3, 12)))

    def test_any_number_of_threads_the_same_bits(self):
        for level, case in itertools.product(LEVELS, load("mha")):
            answers = []
            for threads in (1, 2, 3, 8):
                with Context(isa=level, threads=threads) as ctx, self.weights(ctx, case, "f32") as w:
                    answers.append(mha(ctx, w, case.array("x"), want=("weights",), **self.masks(case)[0]))
            for answer in answers[1:]:
                self.bits(answer, answers[0], "threads")


# The two sizes that the sentence of each refused call must name.
REFUSED = {"P13a_kv_length": ("5", "6"), "P13b_heads_9_7": ("9", "7"), "P13c_head_dim": ("7", "8"), "P13d_batch": ("2", "1"),
           "P13e_mask_shape": ("[3,5]", "4"), "P13f_kv_heads_0": ("4", "0")}


class Reject(CaseTest):
    def test_refused_with_a_sentence(self):
        def check(ctx, case, dtype):
            with guarded(end=True) as place:
                q, k, v = case.qkv(lambda a: place(convert(a, dtype)))
                mask = None if case.array("mask") is None else place(case.array("mask"))
                out = convert(np.full(q.shape[:-1] + v.shape[-1:], 7.0), dtype)
                with self.assertRaises(AttnError) as caught:
                    sdpa(ctx, q, k, v, out=out, mask=mask)
            self.assertEqual(caught.exception.status, attnlib.STATUS["E_SHAPE"])
            sentence = caught.exception.sentence.replace(", ", ",")
            for size in REFUSED[case.name]:
                self.assertIn(size, sentence)
            self.assertNotIn("\n", sentence)
            self.assertTrue(np.all(as_f64(out) == 7), "the output was written")
        self.each("reject", check)


def main():
    program = unittest.main(exit=False)
    for name, usable in attnlib.isa_levels():
        if not usable:
            print("SKIPPED: ISA level %s, which this CPU cannot run" % name)
    for name, why in WAITING.items():
        print("WAITING: %s: %s" % (name, why))
    for what, count in sorted(COUNT.items()):
        print("%5d  %s" % (count, what))
    sys.exit(not program.result.wasSuccessful())


if __name__ == "__main__":
    main()
