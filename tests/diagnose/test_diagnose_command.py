#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""attn diagnose as a person or a script meets it: exit codes, JSON, sentences in two languages, tolerances, refusals, large shapes."""
import json
import pathlib
import re
import sys
import tempfile
import time
import unittest

import numpy as np

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "cli"))
import check_json  # noqa: E402
import plant  # noqa: E402
import plant_mha  # noqa: E402
import problems  # noqa: E402
import support  # noqa: E402

SCHEMA = json.loads((TESTS.parent / "docs/attn-json-schema.json").read_text(encoding="utf-8"))
HANGUL = re.compile("[\uac00-\ud7a3]")


def planted(features, *mistakes, seed=3):
    """(problem, got)"""
    p = problems.problem_for(mistakes, features, seed) if mistakes else problems.make(features, seed)
    return p, plant_mha.given(p, mistakes, "f32")


class Command(unittest.TestCase):
    def schema_holds(self, d):
        faults = list(check_json.faults(d.report, SCHEMA, SCHEMA))
        self.assertEqual(faults, [])
        self.assertEqual((d.report["schema"], d.report["equal"]), (1, d.code == 0))

    # ------------------------------------------------------------------ verdicts

    def test_equal(self):
        for features, verb in (("causal", "sdpa"), ("x", "mha")):
            p, got = planted(features)
            d = support.Diagnosis(p, got)
            self.assertEqual((d.code, d.report["verdict"], d.report["candidates"], d.report["tied"]), (0, "equal", [], []))
            self.assertEqual((d.report["command"], d.report["cells"], d.report["differing"]), ("diagnose " + verb, got.size, 0))
            self.assertIsNone(d.report["sampled"])
            self.assertIn("numerics.md", d.report["bound"]["source"])
            self.schema_holds(d)

    def test_first_difference(self):
        p, got = planted("mask")
        right = got.copy()
        got[0, 1, 2, 1] += 0.5
        got[0, 1, 3, 0] += 2
        d = support.Diagnosis(p, got)
        first = d.report["first_difference"]
        self.assertEqual((d.code, d.report["verdict"], d.report["differing"], first["index"]), (1, "unknown", 2, [0, 1, 2, 1]))
        self.assertAlmostEqual(first["got"], float(got[0, 1, 2, 1]), 5)
        self.assertAlmostEqual(first["right"], float(right[0, 1, 2, 1]), 5)
        self.assertAlmostEqual(d.report["error"]["max_abs"], 2, 4)
        self.assertLessEqual(len(d.report["candidates"]), 5)
        self.assertFalse(any(c["matches"] for c in d.report["candidates"]))
        self.schema_holds(d)

    def test_ranked_by_error(self):
        p, got = planted("", "no-scale")
        d = support.Diagnosis(p, got)
        matching = [c["matches"] for c in d.report["candidates"]]
        self.assertEqual((d.code, d.report["verdict"], d.first), (1, "named", ("no-scale",)))
        self.assertEqual(matching, sorted(matching, reverse=True))
        rest = [c["max_abs"] for c in d.report["candidates"] if not c["matches"]]
        self.assertEqual(rest, sorted(rest))
        self.assertTrue(d.report["candidates"][0]["name"] and d.report["candidates"][0]["remedy"])
        self.schema_holds(d)

    def test_a_pair(self):
        p, got = planted("gqa causal", "no-scale", "gqa-tiled")
        d = support.Diagnosis(p, got)
        self.assertEqual((d.report["verdict"], sorted(d.first)), ("named", ["gqa-tiled", "no-scale"]))
        self.schema_holds(d)

    def test_told_apart(self):
        """One row, one key seen: three mistakes give what causal at the other corner gives."""
        p = problems.make("causal", 3)
        p.update(q=p["q"][:, :, :1], align="top-left")
        got = plant_mha.given(p, ("causal-ignored",), "f32")
        d = support.Diagnosis(p, got)
        self.assertEqual(d.report["verdict"], "tied")
        self.assertLessEqual({("causal-ignored",), ("causal-other-align",)}, d.named)
        self.assertTrue(d.report["tell_apart"])
        self.schema_holds(d)

    def test_a_tie_is_one_of_likelihood_too(self):
        """-1e9 in f64 leaves the scores as -1e4 does; -1e4 in f32 rounds them, which is too far off for the other."""
        p, got = planted("empty mask softcap x", "b_k-missing", "mask-finite-1e4", seed=221642)
        d = support.Diagnosis(p, got)
        self.assertEqual((d.report["verdict"], sorted(d.first)), ("named", ["b_k-missing", "mask-finite-1e4"]), str(d))

    def test_minus_infinity_has_advice(self):
        """Nothing but infinities and NaN: a row that sees every key tells them apart."""
        p, got = planted("mask", "mask-added-after-softmax", seed=21000)
        self.assertFalse(np.isfinite(got).any())
        d = support.Diagnosis(p, got)
        self.assertEqual((d.report["verdict"], d.report["tell_apart"]), ("tied", "a row that sees every key"), str(d))

    # ------------------------------------------------------------------ what is usual

    def wide(self, *mistakes):
        """A layer of 128 columns, where the bound that holds for every order of the sums is a hundred times what happens."""
        rng = np.random.default_rng(1)
        normal = lambda *shape: rng.normal(size=shape).astype(np.float32)  # noqa: E731
        p = {"features": {"x"}, "shape": {"Lq": 24, "Lk": 24}, "x": normal(1, 24, 128), "heads": 4, "kv_heads": 4}
        for name in "qkvo":
            p["w_" + name], p["b_" + name] = normal(128, 128) / np.float32(np.sqrt(128)), normal(128) / 10
        return p, plant_mha.given(p, mistakes, "f32")

    def test_a_wide_layer_is_judged_by_what_is_usual(self):
        p, got = self.wide()
        right = support.Diagnosis(p, got)
        self.assertEqual((right.code, right.report["unjudged"]), (0, 0), str(right))
        self.assertLess(right.report["bound"]["share"], 0.1)
        self.assertLess(right.report["error"]["max_abs"], 5 * right.report["bound"]["usual"])
        _, limit = plant_mha.wanted(p, (), "f32")
        off = float(limit.min()) / 2
        self.assertGreater(off, 100 * right.report["bound"]["usual"])
        got[0, 5, 7] += off
        d = support.Diagnosis(p, got)
        self.assertEqual((d.code, d.report["verdict"], d.report["first_difference"]["index"]), (1, "unknown", [0, 5, 7]), str(d))
        self.schema_holds(d)

    def test_a_mistake_within_the_wide_bound_is_named(self):
        for mistake in ("b_q-missing", "scale-sqrt-d_model"):
            d = support.Diagnosis(*self.wide(mistake))
            self.assertEqual((d.code, d.report["verdict"], d.first), (1, "named", (mistake,)), str(d))

    def test_right_but_unusual(self):
        p, got = self.wide()
        got[0, 5, 7] += 30 * support.Diagnosis(p, got).report["bound"]["usual"]
        d = support.Diagnosis(p, got, more=())
        self.assertEqual(d.code, 0, d.text)
        self.assertIn("look at [0,5,7]", d.text)
        self.assertIn("for every order of the sums", d.text)
        self.assertIn("[0,5,7]", support.Diagnosis(p, got, more=("--lang", "ko")).text)

    def test_nothing_to_judge(self):
        """Scores beyond the range of f32: no number is right, and none is wrong."""
        p, got = planted("")
        p["scale"] = -1e300
        text, d = support.Diagnosis(p, got, more=()), support.Diagnosis(p, got)
        self.assertEqual((text.code, text.text), (2, ""))
        self.assertIn("nothing could be judged", text.error)
        self.assertEqual(d.code, 2)
        given = support.Diagnosis(p, got, more=("--json", "--atol", "1"))
        self.assertEqual(given.report["unjudged"], 0)

    def test_a_part_is_judged(self):
        p = problems.make("", 3)
        p["q"][0, 0, 1] = 1e38
        d = support.Diagnosis(p, plant_mha.given(problems.make("", 3), (), "f32"))
        self.assertEqual((d.code, d.report["unjudged"]), (0, p["shape"]["d_v"]), str(d))

    def test_a_sink_outside_the_maximum(self):
        """Where exp(sink - max) leaves f32, the right weights are below its least number too: nothing to accuse."""
        p = problems.make("sinks", 3)
        p["sinks"] = np.full(p["shape"]["H"], 120, np.float32)
        d = support.Diagnosis(p, plant_mha.given(p, ("sink-left-out-of-max",), "f32"))
        self.assertEqual((d.code, d.named), (0, set()), str(d))

    # ------------------------------------------------------------------ words

    def test_names_a_learner_would_use(self):
        for mistake, features, words in (("k-not-transposed", "width=keys", "K not transposed"),
                                         ("softmax-over-columns", "", "softmax over axis 0")):
            p, got = planted(features, mistake)
            text, report = support.Diagnosis(p, got, more=()), support.Diagnosis(p, got)
            self.assertEqual(text.code, 1, text.error)
            self.assertIn(words.lower(), report.report["candidates"][0]["name"].lower())
            self.assertIn(report.report["candidates"][0]["name"], text.text)
            self.assertIn(report.report["candidates"][0]["remedy"], text.text)

    def test_the_text(self):
        p, got = planted("", "no-scale")
        d = support.Diagnosis(p, got, more=())
        self.assertEqual((d.code, d.error), (1, ""))
        for words in ("numerics.md", "bound"):
            self.assertIn(words, d.text)
        self.assertFalse(HANGUL.search(d.text))
        equal = support.Diagnosis(*planted("causal"), more=())
        self.assertEqual((equal.code, equal.error), (0, ""))
        self.assertIn("within the bound", equal.text.splitlines()[0])

    def test_korean(self):
        for p, got in (planted("", "no-scale"), planted("causal"), planted("causal oblong", "causal-other-align")):
            d, named = support.Diagnosis(p, got, more=("--lang", "ko")), support.Diagnosis(p, got, more=("--json", "--lang", "ko"))
            self.assertEqual(d.error, "")
            self.assertTrue(HANGUL.search(d.text.splitlines()[0]), d.text)
            for candidate in named.report["candidates"][:1]:
                self.assertTrue(HANGUL.search(candidate["name"]) and HANGUL.search(candidate["remedy"]), candidate)
                self.assertIn(candidate["name"], d.text)

    def test_every_candidate_has_korean(self):
        """The names of the candidates as far as one diagnosis each brings them up."""
        for mistake, features in (("gqa-tiled", "gqa"), ("mask-flipped", "mask"), ("alibi-sign-flipped", "alibi"),
                                  ("window-ignored", "window"), ("w_o-transposed", "w-square x"), ("concat-interleaved", "x"),
                                  ("sink-ignored", "sinks"), ("masked-rows-nan", "mask empty"), ("output-not-transposed", "")):
            d = support.Diagnosis(*planted(features, mistake), more=("--json", "--lang", "ko"))
            for candidate in d.report["candidates"]:
                self.assertTrue(HANGUL.search(candidate["name"]) and HANGUL.search(candidate["remedy"]), candidate)

    # ------------------------------------------------------------------ tolerances

    def test_given_tolerances(self):
        p, got = planted("", "no-scale")
        for line in (("--rtol", "0", "--atol", "100"), ("--atol", "100"), ("--rtol", "1e9")):
            d = support.Diagnosis(p, got, more=("--json", *line))
            self.assertEqual((d.code, d.report["bound"]["source"]), (0, "given"), line)
            self.schema_holds(d)
        self.assertEqual(support.Diagnosis(p, got, more=("--rtol", "0", "--atol", "100")).text.count("100") > 0, True)
        p, got = planted("causal")
        d = support.Diagnosis(p, got, more=("--json", "--rtol", "0", "--atol", "0"))
        self.assertEqual((d.code, d.report["bound"]["rtol"], d.report["bound"]["atol"]), (1, 0, 0))

    def test_the_dtype_of_the_answer(self):
        """An answer rounded to f16 is right as f16, and wrong as f32."""
        p, got = planted("causal")
        self.assertEqual(support.Diagnosis(p, got.astype(np.float16), "f32").code, 0)
        self.assertEqual(support.Diagnosis(p, got.astype(np.float16).astype(np.float32), "f32").code, 1)

    # ------------------------------------------------------------------ refusals

    def refused(self, folder, *line, says=()):
        done = support.attn(folder, "diagnose", *line)
        self.assertEqual((done.returncode, done.stdout), (2, ""), line)
        self.assertTrue(done.stderr.startswith("attn: ") and done.stderr.count("\n") == 1, done.stderr)
        for words in says:
            self.assertIn(words, done.stderr)

    def test_refusals(self):
        p, got = planted("")
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            line = support.inputs(p, folder, "f32")
            B, H, Lq, d_v = got.shape
            np.save(folder / "got.npy", got)
            np.save(folder / "short.npy", got[:, :, :-1])
            np.save(folder / "rank.npy", got[0])
            np.save(folder / "weights.npy", got[..., :1])
            self.assertEqual(support.attn(folder, "diagnose", *line, "--got", "got.npy").returncode, 0)
            self.refused(folder, *line, says=["--got"])
            self.refused(folder, *line, "--got", "missing.npy", says=["missing.npy"])
            self.refused(folder, *line, "--got", "short.npy", says=[str(Lq), str(Lq - 1)])
            self.refused(folder, *line, "--got", "rank.npy", says=[str(B)])
            self.refused(folder, *line, "--got", "got.npy", "--got-weights", "weights.npy", says=["weights"])
            self.refused(folder, *line, "--got", "got.npy", "--rtol", "-1", says=["--rtol"])
            self.refused(folder, *line, "--got", "got.npy", "--atol", "nan", says=["--atol"])
            self.refused(folder, "nonsense", *line[1:], "--got", "got.npy")
            self.refused(folder, *line, "--got", "got.npy", "--causal", says=["align"])

    # ------------------------------------------------------------------ large shapes

    def large(self, mistakes):
        rng = np.random.default_rng(17)
        p = {name: rng.normal(size=(1, 8, 2048, 64)).astype(np.float32) for name in "qkv"}
        got, scale = np.empty_like(p["q"]), np.float32(1 if "no-scale" in mistakes else 0.125)
        for h in range(8):
            x = scale * p["q"][0, h] @ p["k"][0, h].T
            got[0, h] = plant.softmax(x, -1, np.float32(-np.inf)) @ p["v"][0, h]
        return p, got

    def soon(self, *arguments, **options):
        began = time.monotonic()
        d = support.Diagnosis(*arguments, **options)
        self.assertLess(time.monotonic() - began, support.SECONDS / 4)
        return d

    def test_sampled_by_rows(self):
        p, got = self.large(("no-scale",))
        d = self.soon(p, got)
        self.assertEqual((d.code, d.first), (1, ("no-scale",)), str(d))
        rows = d.report["sampled"]["rows"]
        self.assertEqual(d.report["sampled"]["of"], 2048)
        self.assertTrue(rows == sorted(set(rows)) and 0 <= rows[0] and rows[-1] < 2048 and len(rows) < 2048, rows)
        self.schema_holds(d)

    def test_one_wrong_cell_among_a_million(self):
        """Wherever it stands: most of these rows are in no even spread."""
        p, right = self.large(())
        for head, row in ((5, 1235), (0, 7), (7, 2046)):
            got = right.copy()
            got[0, head, row, 7] += 1
            d = self.soon(p, got, more=())
            self.assertEqual(d.code, 1, d.error)
            for words in (f"[0,{head},{row},7]", "rows", "2048"):
                self.assertIn(words, d.text)


if __name__ == "__main__":
    unittest.main()
