#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the page shows is what the command computed: stages, numbers, the arithmetic of a cell, why a key is hidden."""
import json
import pathlib
import re
import tempfile
import unittest

import numpy as np

import browser
import pages
import sample

WORDS = "I am a student"


def setUpModule():
    global folder, page, web
    folder = tempfile.TemporaryDirectory()
    web = pages.WEB
    page = browser.Browser(folder.name)


def tearDownModule():
    page.close()
    folder.cleanup()


class PageTest(browser.QuietTest):
    def file(self, name):
        return f"{folder.name}/{name}"

    def explain(self, *arguments, place=""):
        pages.attn("explain", *arguments, "--html", "page.html", folder=folder.name)
        page.open(self.file("page.html"), place)

    def equal_stage(self, name, want):
        page.stage(name)
        got = page.numbers()
        self.assertEqual(got["stage"], name)
        if got["dtype"] == "f32":  # printed with nine digits
            want = np.array([float(f"{x:.9g}") for x in np.ravel(want)]).reshape(np.shape(want))
        np.testing.assert_array_equal(pages.values(got), want, err_msg=name)


class Attention(PageTest):
    """Four words, causal."""

    def setUp(self):
        super().setUp()
        x = pages.EXAMPLES / "student.csv"
        self.call = ("sdpa", x, x, x, "--causal", "--tokens", WORDS)

    def test_stages_come_in_order_formula_first(self):
        self.explain(*self.call)
        self.assertEqual(page.stages(), ["inputs", "scores", "scaled", "masked", "weights", "output"])
        page.stage("scores")
        self.assertEqual(page.text(".stage-head .formula"), "scores = Q KT")
        self.assertEqual(page.text(".stage-head .names"), "Scores · 점수 (어텐션 스코어)")
        order = page.js("return [...document.querySelector('.stage-head').querySelectorAll('h2, .names')].map((one) => one.className)")
        self.assertEqual(order, ["formula", "names"])

    def test_shapes(self):
        pages.save(folder.name, q=pages.draw(1, 3, 5), k=pages.draw(2, 4, 5), v=pages.draw(3, 4, 2))
        self.explain("sdpa", "q.npy", "k.npy", "v.npy")
        self.assertEqual(page.text(".shape").split("   ")[:3], ["Q (3, 5)", "K (4, 5)", "V (4, 2)"])
        for stage, shape in {"scores": "(3, 5) × (5, 4) → (3, 4)", "weights": "(3, 4) → (3, 4)",
                             "output": "(3, 4) × (4, 2) → (3, 2)"}.items():
            page.stage(stage)
            self.assertEqual(page.text(".shape").strip(), shape)

    def test_numbers_are_those_of_json(self):
        self.explain(*self.call)
        stages = pages.said("explain", *self.call)["stages"]
        for name in ("scores", "scaled", "masked", "weights", "output"):
            self.equal_stage(name, pages.values(stages[name]))

    def test_tokens_name_rows_and_columns(self):
        self.explain(*self.call)
        page.stage("weights")
        got = page.numbers()
        self.assertEqual(got["row_labels"], WORDS.split())
        self.assertEqual(got["column_labels"], WORDS.split())
        page.click_cell("weights", 3, 1)
        self.assertEqual(page.text(".cell-place"), "head 0 · query 3 (student) · key 1 (am)")

    def test_a_score_is_a_row_times_a_column(self):
        self.explain(*self.call)
        page.stage("scores")
        page.click_cell("scores", 3, 1)
        x = np.loadtxt(pages.EXAMPLES / "student.csv", delimiter=",")
        products = x[3] * x[1]
        rows = page.js("""return [...document.querySelectorAll('.terms tbody tr')].map((row) =>
            [...row.querySelectorAll('td')].map((cell) => Number(cell.textContent)))""")
        np.testing.assert_allclose(np.array(rows), np.stack([x[3], x[1], products], axis=1), rtol=1e-4, atol=1e-12)
        self.assertAlmostEqual(float(page.text(".terms tfoot td")), products.sum(), places=4)
        self.assertEqual(page.text(".cell-value"), f"scores[3, 1] = {float(page.text('.terms tfoot td')):.6g}")

    def test_where_a_cell_goes_can_be_followed_to_the_end(self):
        self.explain(*self.call)
        page.stage("scores")
        page.click_cell("scores", 2, 1)
        for stage in ("scaled", "masked", "weights", "output"):
            page.press(".goes button")
            self.assertEqual(page.stage_now(), stage)
            self.assertRegex(page.text(".cell-value"), rf"^{stage}\[2, {0 if stage == 'output' else 1}\]")
        self.assertIn("result of the call", page.text(".goes"))

    def test_the_softmax_of_a_weight(self):
        self.explain(*self.call)
        page.stage("weights")
        page.click_cell("weights", 3, 2)
        masked = pages.values(pages.said("explain", *self.call)["stages"]["masked"])[3]
        equation = page.texts(".equation")[1]
        self.assertTrue(equation.startswith(f"= e{masked[2]:.6g} - {masked.max():.6g} / "), equation)
        powers = np.exp(masked - masked.max())
        self.assertAlmostEqual(float(equation.split(" = ")[-1]), powers[2] / powers.sum(), places=5)

    def test_row_sums(self):
        self.explain(*self.call)
        page.stage("weights")
        got = pages.values(page.numbers())
        np.testing.assert_allclose(got.sum(axis=1), 1, rtol=1e-6)
        self.assertGreater(page.js("return document.querySelector('.heat[data-panel=weights] canvas').width"),
                           page.js("return document.querySelector('.heat[data-panel=masked] canvas').width"))


class Heads(PageTest):
    """X and W of multi-head attention, all the way round."""

    def mha(self, *more):
        width, heads = 12, 3
        pages.save(folder.name, x=pages.draw(1, 2, 5, width))
        weights = {name: pages.draw(n, width, width) for n, name in enumerate(("w_q", "w_k", "w_v", "w_o"))}
        np.savez(self.file("w.npz"), **weights, b_q=pages.draw(9, width), b_o=pages.draw(8, width))
        call = ("mha", "x.npy", "w.npz", "--heads", heads, *more)
        self.explain(*call)
        return pages.said("explain", *call, folder=folder.name)["stages"]

    def test_every_stage_of_every_head(self):
        stages = self.mha()
        self.assertEqual(page.stages(), ["q", "k", "v", "split", "scores", "scaled", "masked", "weights", "output", "concat",
                                         "result"])
        for batch in (0, 1):
            page.stage("scores")
            page.choose("batch", batch)
            for head in (0, 2):
                page.stage("scores")
                page.press(f"[data-head='{head}']")
                for name in ("scores", "weights"):
                    self.equal_stage(name, pages.values(stages[name])[batch, head])
                self.equal_stage("output", pages.values(stages["z"])[batch, head])
            self.equal_stage("q", pages.values(stages["q"])[batch].swapaxes(0, 1).reshape(5, 12))
            self.equal_stage("concat", pages.values(stages["z"])[batch].swapaxes(0, 1).reshape(5, 12))
            self.equal_stage("result", pages.values(stages["output"])[batch])

    def test_a_projection_is_a_row_of_x_times_a_column_of_w(self):
        self.mha()
        page.stage("q")
        page.click_cell("all_q", 3, 7)
        x, w = np.load(self.file("x.npy"))[0], np.load(self.file("w.npz"))
        want = x[3].astype(float) @ w["w_q"][:, 7] + w["b_q"][7]
        self.assertAlmostEqual(float(page.text(".terms tfoot td")), want, places=4)
        self.assertIn("column 7 = head 1 × 4 + 3: column 3 of head 1", page.text("#cell"))
        page.press(".goes button")
        self.assertEqual((page.stage_now(), page.text(".cell-value").split(" = ")[0]), ("scores", "Q[3, 3]"))
        self.assertIn("head 1", page.text(".cell-place"))

    def test_split_and_concat(self):
        self.mha()
        page.stage("split")
        self.assertEqual(page.texts(".band-title"), ["head 0columns 0-3", "head 1columns 4-7", "head 2columns 8-11"])
        page.until("return document.querySelector('.bands').dataset.apart === 'true'")
        page.press(".split-bar button")
        self.assertEqual(page.js("return document.querySelector('.bands').dataset.apart"), "false")
        q = pages.values(page.numbers())
        wrong = page.texts(".stage-body details tbody td")
        np.testing.assert_allclose([float(x) for x in wrong], q.reshape(3, 5, 4)[1].ravel(), atol=0.0051)
        page.stage("output")
        page.press("[data-head='2']")
        page.click_cell("output", 4, 1)
        page.press(".goes button")
        self.assertEqual((page.stage_now(), page.text(".cell-value").split(" = ")[0]), ("concat", "concat[4, 9]"))

    def test_side_by_side_average_and_maximum(self):
        stages = self.mha("--causal")
        weights = pages.values(stages["weights"])[0]
        page.stage("weights")
        page.press("#mode-all")
        self.assertEqual(page.texts(".head-name"), ["head 0", "head 1", "head 2", "average over 3 heads", "maximum over 3 heads"])
        self.assertIn("not explanation", page.text(".warning"))
        for mode, want in (("average", weights.mean(axis=0)), ("maximum", weights.max(axis=0))):
            page.press(f"#mode-{mode}")
            self.assertIn("not explanation", page.text(".warning"))
            np.testing.assert_allclose(pages.values(page.numbers()), want, rtol=1e-6)
        page.click_cell("weights", 3, 1)
        self.assertEqual(page.texts(".terms tbody th"), ["head 0", "head 1", "head 2"])
        page.press("#mode-all")
        page.press(".head-tile[aria-label='head 1']")
        self.assertEqual(page.js("return document.querySelector('[data-head][aria-pressed=true]').dataset.head"), "1")
        self.assertIsNone(page.text(".warning"))

    def test_cross_attention_names_its_memory(self):
        pages.save(folder.name, m=pages.draw(4, 7, 12), x=pages.draw(1, 5, 12))
        np.savez(self.file("w.npz"), **{name: pages.draw(n, 12, 12) for n, name in enumerate(("w_q", "w_k", "w_v", "w_o"))})
        self.explain("mha", "x.npy", "w.npz", "--heads", 3, "--memory", "m.npy")
        page.stage("k")
        self.assertEqual(page.text(".stage-head .formula"), "K = M WK")
        page.stage("scores")
        self.assertIn("→ (5, 7)", page.text(".shape"))

    def test_shared_kv_heads_are_named(self):
        pages.save(folder.name, q=pages.draw(1, 4, 3, 2), k=pages.draw(2, 2, 3, 2), v=pages.draw(3, 2, 3, 2))
        self.explain("sdpa", "q.npy", "k.npy", "v.npy", place="stage=scores&head=2")
        self.assertEqual(page.text(".panel .note"), "K of KV head 1, shared by query heads 2 to 3")

    def test_split_alone(self):
        self.explain("split", pages.EXAMPLES / "arange_4x8.npy", "--heads", 2)
        self.assertEqual(page.stages(), ["x", "split", "join"])
        page.click_cell("x", 2, 6)
        self.assertIn("column 6 = head 1 × 4 + 2", page.text("#cell"))
        page.stage("split")
        self.assertEqual(len(page.all(".band")), 2)
        page.stage("join")
        np.testing.assert_array_equal(pages.values(page.numbers()), np.load(pages.EXAMPLES / "arange_4x8.npy"))


class Hidden(PageTest):
    """One reason in each place, and all reasons that apply."""

    def setUp(self):
        super().setUp()
        mask, bias = np.ones((6, 6), bool), np.zeros((6, 6), np.float32)
        mask[4, 0] = False
        bias[4, 2], bias[3, 1] = -np.inf, 0.5
        five = np.array([5], np.int32)
        pages.save(folder.name, q=pages.draw(1, 1, 1, 6, 4), mask=mask, bias=bias, five=five)
        self.call = ("sdpa", "q.npy", "q.npy", "q.npy", "--mask", "mask.npy", "--bias", "bias.npy", "--kv-len", "five.npy",
                     "--q-len", "five.npy", "--causal", "--window", "3,0")
        self.explain(*self.call)

    def test_the_reasons_of_every_cell_are_those_of_the_command(self):
        page.stage("masked")
        short = {"mask": "mask", "bias": "bias", "causal": "causal", "window": "window", "kv-len": "length", "q-len": "length"}
        hidden = np.array(page.numbers()["hidden"])
        for i in range(6):
            reasons = pages.said("explain", *self.call, "--cell", f"0,0,{i}", folder=folder.name)["hidden"]
            for j, why in enumerate(reasons):
                self.assertEqual(bool(why), hidden[i, j], (i, j))
                page.click_cell("masked", i, j)
                if why:
                    want = ", ".join(dict.fromkeys(short[name] for name in why))
                    self.assertEqual(page.text("#live"), f"row {i}, column {j}: hidden, {want}")
                    self.assertEqual(len(page.texts(".why li")), len(why), (i, j))
                else:
                    self.assertEqual(page.texts(".why li"), [])

    def test_the_sentences(self):
        page.stage("weights")
        for i, j, words in ((4, 0, "the mask hides key 0 from row 4"), (4, 2, "the bias holds -∞"),
                            (1, 3, "key 3 comes after position 1"), (5, 1, "row 5 is past the 5 valid rows"),
                            (5, 5, "key 5 is past the 5 valid keys"), (4, 0, "too far from position 4")):
            page.click_cell("weights", i, j)
            self.assertIn(words, page.text(".why"), (i, j))
            self.assertIn("its weight is 0", page.text("#cell"))

    def test_bias_in_the_arithmetic(self):
        page.stage("masked")
        page.click_cell("masked", 3, 1)
        self.assertRegex(page.text(".equation"), r"^masked\[3,1\] = -?[\d.]+ \+ 0\.5 \(bias\) = -?[\d.]+$")

    def test_an_empty_row_is_explained(self):
        page.stage("weights")
        page.click_cell("weights", 5, 0)
        self.assertIn("sees no key", page.text("#cell"))
        page.stage("output")
        page.click_cell("output", 5, 0)
        self.assertIn("sees no key", page.text("#cell"))


class Options(PageTest):
    """Options that change the arithmetic: what the page computes alone is what the command computed."""

    def without(self, source, target, names):
        """The same page without the kernel's stages: the page itself must compute them."""
        text = pathlib.Path(self.file(source)).read_text(encoding="utf-8")
        element = re.search(r'(?<=id="attn-data">).*?(?=</script>)', text, re.DOTALL)
        info = json.loads(element.group())
        info["arrays"] = {name: array for name, array in info["arrays"].items() if name not in names}
        text = text[:element.start()] + json.dumps(info) + text[element.end():]
        pathlib.Path(self.file(target)).write_text(text, encoding="utf-8")

    def compare(self, *options, stages=("scores", "scaled", "masked", "weights", "output"), heads=4):
        pages.save(folder.name, q=pages.draw(1, 1, heads, 40, 8), k=pages.draw(2, 1, heads, 40, 8), v=pages.draw(3, 1, heads, 40, 8))
        call = ("sdpa", "q.npy", "k.npy", "v.npy", *options)
        self.explain(*call)
        want = pages.said("explain", *call, folder=folder.name)["stages"]
        self.without("page.html", "bare.html", ("scores", "scaled", "capped", "masked", "weights", "output", "lse"))
        page.open(self.file("bare.html"), "head=2")
        for name in stages:
            page.stage(name)
            got = page.numbers()
            self.assertEqual(got["dtype"], "f64", name)
            np.testing.assert_allclose(pages.values(got), pages.values(want[name])[0, 2], rtol=2e-5, atol=2e-6, err_msg=name)

    def test_plain(self):
        self.compare()

    def test_scale_softcap_window_and_alibi(self):
        self.compare("--scale", "-0.7", "--softcap", "3", "--window", "9,4", "--alibi",
                     stages=("scaled", "capped", "masked", "weights", "output"))

    def test_offset(self):
        self.compare("--causal", "--offset", "-2")

    def test_sinks(self):
        pages.save(folder.name, sinks=np.array([0, 1, 2, 3], np.float32))
        self.compare("--sinks", "sinks.npy")
        page.stage("weights")
        page.click_cell("weights", 0, 0)
        page.press(".terms-more button:last-child")
        self.assertEqual(page.texts(".terms tbody th")[-1], "sink")

    def test_dropout(self):
        self.compare("--dropout", "0.4", "--seed", "11")
        page.stage("weights")
        weights = pages.values(page.numbers())
        i, j = np.argwhere(weights == 0)[0]
        page.click_cell("weights", int(i), int(j))
        self.assertIn("Dropout took this key out", page.text("#cell"))


class OddData(PageTest):
    """Data that no command writes, or that is not finite."""

    def test_not_finite(self):
        q = np.ones((1, 1, 3, 2), np.float32)
        k = np.array([[[[1, np.nan], [np.inf, 1], [1, 1]]]], np.float32)
        info = sample.information("sdpa", q, k, q)
        with np.errstate(invalid="ignore"):
            stages = sample.attention(q, k, q, info["options"])
        sample.write_page(web, self.file("odd.html"), info, {"q": q, "k": k, "v": q, **stages})
        page.open(self.file("odd.html"), "stage=scores")
        got = pages.values(page.numbers())
        self.assertTrue(np.isnan(got[0, 0]) and got[0, 1] == np.inf and got[0, 2] == 2)
        page.click_cell("scores", 0, 1)
        self.assertEqual(page.text(".cell-value"), "scores[0, 1] = ∞")
        for stage in ("scaled", "masked", "weights", "output"):
            page.stage(stage)

    def test_nothing_in_it(self):
        for shape in ((1, 1, 0, 3, 2, 2), (1, 1, 3, 0, 2, 2)):
            q, k = np.zeros((1, 1, shape[2], 2), np.float32), np.zeros((1, 1, shape[3], 2), np.float32)
            info = sample.information("sdpa", q, k, k)
            sample.write_page(web, self.file("empty.html"), info, {"q": q, "k": k, "v": k})
            page.open(self.file("empty.html"))
            for stage in page.stages():
                page.stage(stage)

    def test_saved_weights_alone(self):
        weights = np.random.default_rng(1).random((3, 4, 5, 5)).astype(np.float32)
        info = {"schema": 1, "kind": "view", "title": "saved", "lang": "en",
                "shape": {"B": 1, "H": 4, "Hkv": 4, "Lq": 5, "Lk": 5, "layers": 3}, "options": None,
                "labels": {"query": list("abcde"), "key": list("abcde")}, "summary": None, "notes": ["left out: <b>x</b>"]}
        sample.write_page(web, self.file("view.html"), info, {"weights": weights})
        page.open(self.file("view.html"))
        self.assertEqual(page.stages(), ["weights"])
        page.choose("batch", 2)
        page.press("[data-head='3']")
        np.testing.assert_allclose(pages.values(page.numbers()), weights[2, 3], rtol=2e-8)
        page.click_cell("weights", 1, 2)
        self.assertIn("Only the finished weights were saved", page.text("#cell"))
        self.assertIn("Layer", page.text(".controls"))
        self.assertIn("left out: <b>x</b>", page.text("#foot"))
        page.press("#mode-average")
        np.testing.assert_allclose(pages.values(page.numbers()), weights[2].mean(axis=0), rtol=1e-6)

    def test_stages_of_another_program(self):
        """TransformerLens names: shown as they were saved, and nothing is guessed from q and k."""
        stages = {}
        for layer in range(2):
            q, k, z = (pages.draw(10 * layer + n, 1, 5, 3, 4) for n in range(3))
            masked = np.where(np.tri(5, dtype=bool), pages.draw(layer, 1, 3, 5, 5), -np.inf).astype(np.float32)
            powers = np.exp(masked)
            parts = {"q": q, "k": k, "v": z, "z": z, "attn_scores": masked, "pattern": powers / powers.sum(axis=-1, keepdims=True)}
            stages.update({f"blocks.{layer}.attn.hook_{name}": array for name, array in parts.items()})
        np.savez(self.file("lens.npz"), **stages)
        pages.attn("view", "lens.npz", "--html", "page.html", folder=folder.name)
        page.open(self.file("page.html"), "stage=masked")
        self.assertEqual(page.stages(), ["inputs", "masked", "weights", "output"])
        page.choose("batch", 1)
        self.assertEqual(page.texts("#batch option"), ["blocks.0", "blocks.1"])
        self.equal_stage("masked", stages["blocks.1.attn.hook_attn_scores"][0, 0])
        page.click_cell("masked", 1, 3)
        self.assertIn("does not say why", page.text(".why"))
        self.equal_stage("weights", stages["blocks.1.attn.hook_pattern"][0, 0])
        page.click_cell("weights", 4, 3)
        self.assertEqual(len(page.texts(".terms tbody tr")), 5)

    def test_a_text_that_would_end_the_script(self):
        q = np.ones((1, 1, 1, 1), np.float32)
        info = sample.information("sdpa", q, q, q, title="</script><b>x", labels={"query": ["</script>"], "key": ["<!--"]})
        sample.write_page(web, self.file("hostile.html"), info, {"q": q, "k": q, "v": q})
        page.open(self.file("hostile.html"))
        self.assertEqual(page.text("#title"), "</script><b>x")
        self.assertEqual(page.all("#title b"), [])


if __name__ == "__main__":
    unittest.main(verbosity=1)
