#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sizes that people have: 512 tokens and 12 heads, 4096 tokens and one, and more than a page can hold."""
import json
import pathlib
import tempfile
import unittest

import numpy as np

import browser
import pages
import sample

# A click, up to the arithmetic on the screen, in milliseconds; measured in the page, so that the driver's own time does not count.
CLICK = """const heat = document.querySelector(`.heat[data-panel=${arguments[0]}]`), canvas = heat.querySelector('canvas');
const [left, top, wide, high] = heat.dataset.geometry.split(' ').map(Number), box = canvas.getBoundingClientRect();
const at = {clientX: box.left + left + (arguments[2] + 0.5) * wide, clientY: box.top + top + (arguments[1] + 0.5) * high, bubbles: true};
const began = performance.now();
canvas.dispatchEvent(new MouseEvent('click', at));
document.getElementById('cell').getBoundingClientRect();
return performance.now() - began;"""


def setUpModule():
    global folder, page
    folder = tempfile.TemporaryDirectory()
    page = browser.Browser(folder.name)


def tearDownModule():
    page.close()
    folder.cleanup()


def softmax(x):
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


class LargePage(browser.QuietTest):
    def attention(self, heads, tokens, d, *options):
        """The page of random q, k, v by the command; returns these in double."""
        arrays = [pages.draw(n, 1, heads, tokens, d) for n in (1, 2, 3)]
        pages.save(folder.name, q=arrays[0], k=arrays[1], v=arrays[2])
        pages.attn("explain", "sdpa", "q.npy", "k.npy", "v.npy", *options, "--html", "page.html", folder=folder.name)
        return [array[0].astype(float) for array in arrays]

    def open(self, place):
        return page.open(f"{folder.name}/page.html", place)

    def clicked(self, panel, i, j):
        """What the click says of the cell that it hit: (row, column, value), and the time."""
        time = page.js(CLICK, panel, i, j)
        text = page.text(".cell-value")
        place, value = text.split(" = ")
        row, column = place[place.index("[") + 1:-1].split(", ")
        return int(row), int(column), float(value), time


class Tokens512Heads12(LargePage):
    def test_opens_and_answers(self):
        q, k, v = self.attention(12, 512, 64)
        self.assertLess(self.open("stage=weights&head=7"), 10)
        weights = softmax(q[7] @ k[7].T / 8)
        for panel, want in (("weights", weights), ("masked", q[7] @ k[7].T / 8)):
            for i, j in ((3, 500), (511, 0), (200, 201)):
                row, column, value, time = self.clicked(panel, i, j)
                self.assertAlmostEqual(value, want[row, column], delta=1e-5 * abs(want[row, column]))
                self.assertLess(time, 1000)
        page.stage("output")
        row, column, value, time = self.clicked("output", 100, 9)
        self.assertAlmostEqual(value, (weights @ v[7])[row, column], places=5)
        self.assertLess(time, 1000)

    def test_all_heads_are_drawn(self):
        self.attention(12, 512, 64, "--causal")
        self.open("stage=weights&mode=all")
        page.until("return [...document.querySelectorAll('.head-tile canvas')].every((one) => one.dataset.drawn)", 30)
        self.assertEqual(len(page.all(".head-tile")), 14)

    def test_zoomed_in_the_numbers_are_exact(self):
        q, k, _ = self.attention(12, 512, 64)
        self.open("stage=weights&head=2&cell=weights.300.40")
        for _ in range(12):
            page.press("#zoomIn")
        page.drawn()
        page.press("#as-table")
        shown = page.js("""return [...document.querySelectorAll('.numbers tbody tr')].map((row) =>
            [...row.cells].map((cell) => cell.textContent))""")
        rows, columns = [int(row[0]) for row in shown], [int(text) for text in page.texts(".numbers thead th")]
        want = softmax(q[2] @ k[2].T / 8)[np.ix_(rows, columns)]
        np.testing.assert_allclose([[float(x) for x in row[1:]] for row in shown], want, rtol=1e-5)
        self.assertIn(300, rows)

    def test_the_overview_says_what_its_colours_are(self):
        self.attention(12, 512, 64)
        self.open("stage=weights")
        self.assertIn("one byte for each weight", page.text(".notes"))
        self.assertIn("zoomed out", page.text("#block-note"))


class Tokens4096(LargePage):
    def test_opens_draws_and_answers(self):
        q, k, _ = self.attention(1, 4096, 64, "--causal")
        self.assertLess(self.open("stage=weights"), 30)
        for i, j in ((4000, 5), (2048, 2000), (10, 4000)):
            row, column, value, time = self.clicked("weights", i, j)
            scores = q[0, row] @ k[0].T / 8
            want = softmax(np.where(np.arange(4096) <= row, scores, -np.inf))[column]
            self.assertAlmostEqual(value, want, delta=1e-5 * want)
            self.assertLess(time, 1000)
        page.stage("scores")
        row, column, value, time = self.clicked("scores", 3000, 1000)
        self.assertAlmostEqual(value, q[0, row] @ k[0, column], places=4)
        self.assertLess(time, 1000)


class LongNames(LargePage):
    def test_words_of_many_letters_do_not_hold_the_page_up(self):
        pathlib.Path(folder.name, "words.json").write_text(json.dumps(["A" * 20000, "나" * 20000, "c"]), encoding="utf-8")
        self.attention(1, 3, 4, "--tokens", "words.json")
        self.assertLess(self.open("stage=weights"), 10)
        row, column, _, _ = self.clicked("weights", 1, 0)
        self.assertEqual((row, column), (1, 0))


class Summary(LargePage):
    def test_more_cells_than_a_page_holds(self):
        q, k, _ = self.attention(1, 4100, 8, "--causal")
        self.open("stage=weights")
        self.assertRegex(page.text(".notes"), r"only the \d+ largest weights were saved \(a top-k summary\)")
        row, column, value, time = self.clicked("weights", 3000, 100)
        want = softmax(np.where(np.arange(4100) <= row, q[0, row] @ k[0].T / np.sqrt(8), -np.inf))[column]
        self.assertAlmostEqual(value, want, delta=1e-5 * want)
        self.assertLess(time, 1000)

    def test_of_saved_weights(self):
        rng = np.random.default_rng(5)
        index = np.argsort(rng.random((1, 2, 6, 9)), axis=-1)[..., :3].astype(np.int32)
        weight = np.sort(rng.random((1, 2, 6, 3)).astype(np.float32), axis=-1)[..., ::-1]
        info = {"schema": 1, "kind": "view", "title": "saved", "lang": "en",
                "shape": {"B": 1, "H": 2, "Hkv": 2, "Lq": 6, "Lk": 9, "layers": 1}, "options": None,
                "labels": {"query": None, "key": None}, "summary": {"k": 3}, "notes": []}
        sample.write_page(pages.WEB, f"{folder.name}/page.html", info, {"top_index": index, "top_weight": weight})
        self.open("stage=weights&head=1")
        row, column, value, _ = self.clicked("weights", 4, int(index[0, 1, 4, 1]))
        self.assertAlmostEqual(value, weight[0, 1, 4, 1], places=5)
        np.testing.assert_allclose([float(x) for x in page.texts(".terms tbody td")], weight[0, 1, 4], rtol=1e-4)
        other = next(j for j in range(9) if j not in index[0, 1, 4])
        page.js(CLICK, "weights", 4, other)
        self.assertEqual(page.text(".cell-value"), f"weights[4, {other}] = ?")
        self.assertIn("not among the 3 largest", page.text("#cell"))


if __name__ == "__main__":
    unittest.main(verbosity=1)
