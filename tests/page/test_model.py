#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of a model: all heads of all layers as thumbnails beside a large one, tokens joined to words, encoder, decoder and
cross-attention; the numbers are those of attn view --json."""
import json
import pathlib
import sys
import tempfile
import unittest

import numpy as np

import browser
import pages
from browser import Keys, QuietTest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
import tinymodels  # noqa: E402

KOREAN = "the cat sat unbelievably 나는 학생입니다."
WORDS = ["[CLS]", "the", "cat", "sat", "unbelievably", "나는", "학생입니다", ".", "[SEP]"]
GREETING = "a small cats 나는"


def setUpModule():
    global folder, page, bert, llama, marian
    folder = tempfile.TemporaryDirectory()
    page = browser.Browser(folder.name)
    bert, llama, marian = (f"{folder.name}/{name}" for name in ("bert", "llama.gguf", "marian"))
    tinymodels.bert(bert)
    tinymodels.llama_gguf(llama)
    tinymodels.marian(marian)
    pages.attn("view", bert, "--text", KOREAN, "--layer", 1, "--head", 2, "--html", bert + ".html")
    pages.attn("view", llama, "--text", "ab c 나는ab", "--html", llama + ".html")
    pages.attn("view", marian, "--text", GREETING, "--target", "ein kleine katze", "--lang", "ko", "--html", marian + ".html")


def tearDownModule():
    page.close()
    folder.cleanup()


def weights(model, *more, name="attentions"):
    return pages.values(json.loads(pages.attn("view", model, *more, "--json"))["arrays"][name])


def joined(w, rows, keys):
    """The convention, by matrices: the mean over a query word's tokens of the sum over a key word's."""
    one = lambda of: (np.array(of)[:, None] == np.arange(max(of) + 1)).astype(float)  # noqa: E731
    return (one(rows) / one(rows).sum(0)).T @ w @ one(keys)


def of_words(model, *more):
    return json.loads(pages.attn("view", model, *more, "--json"))


class Layers(QuietTest):
    def tiles(self):
        return page.js("return [...document.querySelectorAll('.layer-tile')].map((one) => [+one.dataset.layer, +one.dataset.head])")

    def current(self):
        return page.js("const one = document.querySelector('.layer-tile[aria-current]'); return [+one.dataset.layer, +one.dataset.head]")

    def test_a_thumbnail_for_every_head_of_every_layer(self):
        page.open(bert + ".html")
        self.assertEqual(self.tiles(), [[layer, head] for layer in range(3) for head in range(4)])
        page.until("return [...document.querySelectorAll('.layer-tile canvas')].every((one) => one.dataset.drawn === 'true')")
        self.assertEqual(self.current(), [1, 2])
        want = weights(bert, "--text", KOREAN)
        np.testing.assert_allclose(pages.values(page.numbers()), want[1, 2], rtol=1e-6)
        self.assertEqual(page.numbers()["row_labels"][:6], ["[CLS]", "the", "cat", "sat", "un", "##believ"])
        page.press(".layer-tile[data-layer='2'][data-head='0']")
        page.drawn()
        self.assertEqual(self.current(), [2, 0])
        np.testing.assert_allclose(pages.values(page.numbers()), want[2, 0], rtol=1e-6)

    def test_thumbnails_differ_and_do_not_overlap(self):
        page.open(bert + ".html")
        page.until("return [...document.querySelectorAll('.layer-tile canvas')].every((one) => one.dataset.drawn === 'true')")
        pictures = page.js("return [...document.querySelectorAll('.layer-tile canvas')].map((one) => one.toDataURL())")
        self.assertEqual(len(set(pictures)), 12)
        boxes = page.js("""return [...document.querySelectorAll('.layer-tile, .layers-head, .layers-layer, .large, .layers figcaption')]
            .map((one) => { const b = one.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; })
            .filter((b) => b[2] > b[0] && b[3] > b[1])""")
        for n, a in enumerate(boxes):
            for b in boxes[n + 1:]:
                self.assertFalse(a[0] < b[2] - 1 and b[0] < a[2] - 1 and a[1] < b[3] - 1 and b[1] < a[3] - 1, (a, b))
        self.assertGreaterEqual(page.js("return document.querySelector('.layer-tile canvas').clientWidth"), 20)

    def test_keyboard(self):
        page.open(bert + ".html")
        page.keys(Keys.ARROW_UP, at=".layer-tile[aria-current]")
        self.assertEqual(self.current(), [0, 2])
        page.keys(Keys.ARROW_RIGHT)
        self.assertEqual(self.current(), [0, 3])
        self.assertEqual(page.js("return document.querySelectorAll('.layer-tile[tabindex=\"0\"]').length"), 1)
        page.keys("]")
        self.assertEqual(self.current(), [1, 3])

    def test_later_tokens_are_hatched(self):
        page.open(llama + ".html")
        page.click_cell("weights", 1, 4)
        self.assertIn("causal: key 4 comes after position 1", page.text("#cell"))
        np.testing.assert_allclose(pages.values(page.numbers()), weights(llama, "--text", "ab c 나는ab")[0, 0], rtol=1e-6)

    def test_the_address_leads_back(self):
        page.open(bert + ".html")
        page.press("[data-units=words]")
        page.press(".layer-tile[data-layer='0'][data-head='1']")
        place = page.js("return location.hash.slice(1)")
        page.open(bert + ".html", place)
        self.assertEqual(self.current(), [0, 1])
        self.assertEqual(page.numbers()["row_labels"], WORDS)


class Words(QuietTest):
    def test_tokens_are_joined_to_words(self):
        page.open(bert + ".html")
        self.assertNotIn("joined to words", page.text("#stage"))
        page.press("[data-units=words]")
        page.drawn()
        got, said = page.numbers(), of_words(bert, "--text", KOREAN)
        self.assertEqual(got["row_labels"], WORDS)
        self.assertEqual(got["column_labels"], WORDS)
        of = said["text"]["word"]
        want = joined(pages.values(said["arrays"]["attentions"])[1, 2], of, of)
        np.testing.assert_allclose(pages.values(got), want, rtol=1e-6, atol=1e-12)
        np.testing.assert_allclose(want.sum(1), 1, rtol=1e-5)
        self.assertIn("the weight on a word is the sum of the weights on its tokens", page.text("#stage"))
        page.click_cell("weights", 4, 6)
        self.assertIn("The query word has 3 tokens, the key word 4", page.text("#cell"))
        self.assertIn("un → 학", page.text("#cell"))
        self.assertEqual(len(page.all("#cell .terms tbody tr")), 12)
        page.keys("w")
        page.drawn()
        self.assertEqual(len(page.numbers()["row_labels"]), 14)

    def test_words_of_bytes(self):
        page.open(llama + ".html", "words=1")
        self.assertEqual(page.numbers()["row_labels"], ["ab", "c", "나는ab"])
        self.assertEqual(pages.values(page.numbers())[0].tolist(), [1, 0, 0])


class OneLayer(QuietTest):
    """explain mha --from: the stages of a layer, RoPE among them."""

    def test_rope_is_a_stage(self):
        for model in (llama, bert):
            pages.attn("explain", "mha", "--from", model, "--layer", 1, "--text", "ab c ab" if model == llama else "the cat", "--html",
                       model + ".layer.html")
            page.open(model + ".layer.html", "stage=scores")
            stages = ["q", "k", "v", "split", "rope", "scores", "scaled", "masked", "weights", "output", "concat", "result"]
            self.assertEqual(page.stages(), [name for name in stages if name != "rope" or model == llama])
        page.open(llama + ".layer.html", "stage=rope&head=3")
        for panel, i, j, words in (("q", 1, 2, "Columns 2 and 3 are pair 1"), ("k", 2, 5, "Columns 5 and 4 are pair 2")):
            page.click_cell(panel, i, j)
            value = page.text(".cell-value").split(" = ")[1]
            self.assertIn(words, page.text("#cell"))
            self.assertTrue(page.text("#cell .equation:last-of-type").endswith(" = " + value), page.text("#cell"))
        page.press("[data-go=scores]")
        self.assertEqual(page.stage_now(), "scores")
        page.click_cell("scores", 1, 0)
        self.assertIn("Qrot[1,c] · Krot[0,c]", page.text("#cell"))
        page.stage("q")
        said = json.loads(pages.attn("explain", "mha", "--from", llama, "--layer", 1, "--text", "ab c ab", "--json"))["stages"]
        got = pages.values(page.numbers())
        np.testing.assert_allclose(got, pages.values(said["q"]).swapaxes(0, 1).reshape(got.shape), rtol=1e-6)
        page.click_cell("all_q", 1, 9)
        page.press("[data-go=rope]")
        self.assertEqual(page.stage_now(), "rope")
        self.assertIn("Q[1, 1]", page.text(".cell-value"))


class Parts(QuietTest):
    def test_encoder_decoder_cross(self):
        page.open(marian + ".html")
        self.assertEqual(page.texts("[data-part]"), ["인코더", "디코더", "크로스"])
        more = ("--text", GREETING, "--target", "ein kleine katze")
        source, target = ["▁a", "▁small", "▁cat", "s", "▁나", "는", "</s>"], ["<pad>", "▁ein", "▁klein", "e", "▁katze"]
        for part, rows, keys in (("decoder", target, target), ("cross", target, source), ("encoder", source, source)):
            page.press(f"[data-part={part}]")
            page.drawn()
            got = page.numbers()
            self.assertEqual((got["row_labels"], got["column_labels"]), (rows, keys), part)
            want = weights(marian, *more, name=f"{part}_attentions")
            np.testing.assert_allclose(pages.values(got), want[0, 0], rtol=1e-6)
            self.assertEqual(len(page.all(".layer-tile")), 4 * len(want))
        page.press("[data-part=cross]")
        page.press("[data-units=words]")
        page.drawn()
        got = page.numbers()
        self.assertEqual(got["row_labels"], ["<pad>", "ein", "kleine", "katze"])
        self.assertEqual(got["column_labels"], ["a", "small", "cats", "나는", "</s>"])
        said = of_words(marian, *more)
        np.testing.assert_allclose(pages.values(got), joined(pages.values(said["arrays"]["cross_attentions"])[0, 0],
                                                             said["target"]["word"], said["text"]["word"]), rtol=1e-6, atol=1e-12)

    def test_everything_has_a_name_and_fits(self):
        for width in (1400, 700):
            page.size(width, 900)
            page.open(marian + ".html", "part=2")
            nameless = page.js("""const all = [...document.querySelectorAll('button, select, input, [tabindex="0"]')];
                return all.filter((one) => !one.hidden && !one.textContent.trim() && !one.getAttribute('aria-label') && !one.labels?.length)
                    .map((one) => one.outerHTML)""")
            self.assertEqual(nameless, [])
            self.assertLessEqual(page.js("return document.documentElement.scrollWidth"), width)
        page.size(1400, 1000)


if __name__ == "__main__":
    unittest.main(verbosity=1)
