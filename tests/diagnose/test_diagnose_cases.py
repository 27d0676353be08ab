#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""faulty.npy of the folders in tests/cases, which reproduce public bug reports: recognised where a candidate says what went wrong there."""
import pathlib
import sys
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
import caselib  # noqa: E402
import plant  # noqa: E402
import support  # noqa: E402

# This mistake, with the variant that plant.py has of it, must be named first or tied.
KNOWN = {
    "P01a_bool": "masked-rows-nan",
    "P01b_neginf": "masked-rows-mean",
    "P02a_mask": "mask-ignored",  # all NaN: what hidden keys hold reached every row
    "P02b_lengths": "length-ignored",
    "P03_q1k7_br": "causal-other-align",
    "P03_q1k7_tl": "causal-other-align",
    "P03_q3k7_br": "causal-other-align",
    "P03_q3k7_tl": "causal-other-align",
    "P03_q7k3_br": "causal-other-align",
    "P03_q7k3_tl": "causal-other-align",
    "P04_drop": "mask-flipped",
    "P04_keep": "mask-flipped",
    "P05b_BHx1xS": "mask-ignored",
    "P05c_LxS": "mask-ignored",
    "P06a_v_BLHD_L4H4": "layout-blhd:strides-of-v",
    "P06a_v_BLHD_L9H4": "layout-blhd:strides-of-v",
    "P07a_causal": "softcap-after-mask",
    "P07b_bias": "softcap-after-mask",
    "P08a_below_1e4": "mask-finite-1e4",
    "P09a_f16_qk": "computed-f16",
    "P09b_exp_overflow": "max-not-subtracted",
    "P10a_prefill": "window-left-plus-one",
    "P10b_decode": "window-left-plus-one",
    "P11a_q3k8": "causal-other-align:everywhere",
    "P11b_encoder": "alibi-by-columns",
    "P14a_4_2": "gqa-tiled",
    "P15_D1": "scale-padded",
    "P15_D33": "scale-padded",
    "P15_D5": "scale-padded",
    "P18a_train": "dropout-not-scaled",
    "P18b_eval": "dropout-left-on",  # six keys and eight columns: the weights can be solved for
    "P19_bf16_scores": "computed-bf16",
    "P21_causal_weights": "causal-ignored",
    "P22_two_masks": "masked-rows-nan",
}
# No candidate makes these mistakes; the answer is still refused.
NAMELESS = {
    "P05a_BxLx1": "foreign memory was read as the mask",
    "P06b_fused_qkv": "a fused buffer was read as three packed ones",
    "P08b_all_below_5e4": "a running maximum that starts at -5e4",
    "P16_dout_BLHD": "a gradient",
    "P17_gqa_6_2": "a gradient",
}


def sdpa_problem(case):
    o = case.options()
    p = {name: o[name] for name in ("causal", "scale", "window", "alibi", "kv_len", "bias", "dropout", "keep") if o.get(name) is not None}
    p.update(zip("qkv", case.qkv(np.asarray)))
    p["align"] = o["align"].replace("_", "-")
    if o["softcap"]:
        p["softcap"] = o["softcap"]
    if o.get("mask") is not None:
        p["mask"], p["drop"] = o["mask"] != o["mask_drop"], o["mask_drop"]
    return p


def mha_problem(case):
    """torch's (out, in) order and its masks, where True is hidden, in ours."""
    w, b = np.split(case.array("in_w"), 3), np.split(case.array("in_b"), 3)
    p = {"x": case.array("x"), "heads": case["heads"], "kv_heads": case["heads"], "causal": case["causal"]}
    p.update({"w_" + name: part.T for name, part in zip("qkv", w)}, **{"b_" + name: part for name, part in zip("qkv", b)})
    p.update(w_o=case.array("out_w").T, b_o=case.array("out_b"))
    if case.array("attn_mask") is not None:
        p["mask"] = ~(case.array("attn_mask")[None, None] | case.array("key_padding_mask")[:, None, None, :])
    return p


class Cases(unittest.TestCase):
    def diagnosis(self, case):
        p = (sdpa_problem if case.kind == "sdpa" else mha_problem)(case)
        return support.Diagnosis(p, case.array("faulty").astype(np.float32))

    def test_faulty_answers(self):
        seen = set()
        for case in caselib.load("sdpa") + caselib.load("mha"):
            if case.array("faulty") is None or case["faulty_of"] not in (None, "out"):
                continue
            seen.add(case.name)
            with self.subTest(case.name):
                d = self.diagnosis(case)
                self.assertEqual(d.code, 1, str(d))
                if case.name in KNOWN:
                    self.assertIn((KNOWN[case.name].partition(":")[0],), d.named, str(d))
                else:
                    self.assertIn(case.name, NAMELESS)
                    self.assertIsNotNone(d.report["first_difference"])
        self.assertEqual(seen, (KNOWN.keys() | NAMELESS.keys()) - {"P16_dout_BLHD", "P17_gqa_6_2"})

    def test_rope(self):
        """Halves and neighbours: the right answer, the public report, and the program of plant.py with and without the mistake."""
        case = caselib.load("rope_attention")[0]
        p = {**{name: case.array(name) for name in "qkv"}, "causal": True, "rope": (case["theta"], False)}
        p["positions"] = case.array("positions")
        p["shape"] = dict(zip(("B", "H", "Lq", "d"), p["q"].shape))
        for name, mistakes in (("expected", ()), ("faulty", ("rope-other-pairs",))):
            np.testing.assert_allclose(plant.attention(p, mistakes)["output"], case.array(name), atol=1e-6)
            d = support.Diagnosis(p, case.array(name).astype(np.float32))
            self.assertEqual((d.code, d.first), (len(mistakes), mistakes), str(d))

    def test_expected_answers(self):
        for case in caselib.load("sdpa") + caselib.load("mha"):
            with self.subTest(case.name):
                p = (sdpa_problem if case.kind == "sdpa" else mha_problem)(case)
                d = support.Diagnosis(p, case.array("expected").astype(np.float32))
                self.assertEqual(d.code, 0, str(d))


if __name__ == "__main__":
    unittest.main()
