#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page in use: keyboard, language, files, teacher mode, views, print, small windows, and that nothing leaves it."""
import base64
import hashlib
import json
import pathlib
import re
import struct
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

import numpy as np

import browser
import pages
import sample
from browser import Keys, QuietTest

KOREAN = {"scores": "점수", "scaled": "스케일", "masked": "마스크", "weights": "가중치", "concat": "헤드 연결", "q": "쿼리", "k": "키", "v": "값"}
HANGUL = "나는 학생 입니다 ."


def setUpModule():
    global folder, page, small, joined
    folder = tempfile.TemporaryDirectory()
    page = browser.Browser(folder.name)
    small, joined = f"{folder.name}/small.html", f"{folder.name}/joined.html"
    x = pages.EXAMPLES / "student.csv"
    pages.attn("explain", "sdpa", x, x, x, "--causal", "--tokens", HANGUL, "--html", small)
    pages.save(folder.name, x=pages.draw(1, 5, 12))
    np.savez(f"{folder.name}/w.npz", **{name: pages.draw(n, 12, 12) for n, name in enumerate(("w_q", "w_k", "w_v", "w_o"))})
    pages.attn("explain", "mha", f"{folder.name}/x.npy", f"{folder.name}/w.npz", "--heads", 3, "--html", joined)


def tearDownModule():
    page.close()
    folder.cleanup()


class Alone(QuietTest):
    """One file, that asks nobody for anything."""

    def text(self):
        return "".join(pathlib.Path(pages.WEB, f"page_{part}.html").read_text(encoding="utf-8") for part in ("before", "after"))

    def test_size_without_data(self):
        self.assertLess(len(self.text().encode()), 200_000)

    def test_the_policy_allows_this_script_and_style_and_nothing_else(self):
        text = self.text()
        policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text).group(1)
        for tag in ("script", "style"):
            (inside,) = re.findall(rf"<{tag}[^>]*>(.*?)</{tag}>", text, re.DOTALL)
            self.assertIn(f"'sha256-{base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()}'", policy)
        self.assertIn("default-src 'none'", policy)
        self.assertNotIn("unsafe", policy)
        self.assertNotIn("http:", policy)

    def test_no_address_and_no_style_attribute(self):
        text = self.text()
        self.assertEqual([url for url in re.findall(r"https?://[^\s'\"<)]+", text) if url != "http://www.w3.org/2000/svg"], [])
        self.assertNotRegex(text, r"<[a-z]+ [^>]*style=")
        self.assertNotRegex(text, r"\beval\(|new Function|innerHTML|document\.write")

    def test_a_request_would_be_refused(self):
        page.open(small)
        done = page.driver.execute_async_script("""const done = arguments[0];
            fetch('https://example.org/').then(() => done('sent'), () => done('refused'));""")
        self.assertEqual(done, "refused")
        self.assertTrue(any("Content Security Policy" in text for text in page.complaints()))


class Keyboard(QuietTest):
    def test_stages(self):
        page.open(small)
        seen = [page.stage_now()]
        for _ in range(5):
            page.keys(Keys.ARROW_RIGHT)
            seen.append(page.stage_now())
        self.assertEqual(seen, page.stages())
        page.keys(Keys.ARROW_LEFT, "p")
        self.assertEqual(page.stage_now(), "masked")
        page.keys("2")
        self.assertEqual(page.stage_now(), "scores")
        page.press("#next")
        page.press("#next")
        page.press("#previous")
        self.assertEqual(page.stage_now(), "scaled")

    def test_a_cell_is_read_and_explained(self):
        page.open(small, "stage=weights")
        value = pages.values(page.numbers())[2, 1]
        page.keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_RIGHT, at=".heat[data-panel=weights]")
        self.assertEqual(page.text("#live"), f"row 2 (입니다), column 1 (학생): {value:.6g}")
        page.keys(Keys.ENTER, at=".heat[data-panel=weights]")
        self.assertEqual(page.text(".cell-value"), f"weights[2, 1] = {value:.6g}")
        page.keys(Keys.END)
        self.assertEqual(page.text("#live"), "row 2 (입니다), column 3 (.): hidden, causal")
        self.assertEqual(page.stage_now(), "weights")
        page.keys("n")
        self.assertEqual(page.stage_now(), "output")
        self.assertEqual(page.js("return document.activeElement.className"), "heat")

    def test_help_lists_every_key_and_closes(self):
        page.open(small)
        page.keys("?")
        keys = {key for text in page.texts("#help kbd") for key in text.split()}
        self.assertLessEqual({"←", "→", "Enter", "Space", "Esc", "t", "h", "l", "d", "b", "a", "?", "p", "n"}, keys)
        page.keys(Keys.ARROW_RIGHT)
        self.assertEqual(page.stage_now(), "inputs")
        page.keys(Keys.ESCAPE)
        page.until("return !document.getElementById('help')")

    def test_letters_of_a_korean_keyboard(self):
        page.open(small)
        page.js("document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'ㅜ', code: 'KeyN', bubbles: true}))")
        self.assertEqual(page.stage_now(), "scores")

    def test_everything_can_be_reached_and_has_a_name(self):
        page.open(joined, "stage=weights&mode=all")
        nameless = page.js("""const all = [...document.querySelectorAll('button, select, input, [tabindex="0"]')];
            return all.filter((one) => !one.hidden && !one.textContent.trim() && !one.getAttribute('aria-label') && !one.labels?.length)
                .map((one) => one.outerHTML)""")
        self.assertEqual(nameless, [])
        page.open(joined, "stage=weights")
        self.assertRegex(page.js("return document.querySelector('.heat[data-panel=weights]').getAttribute('aria-label')"),
                         r"^weights, 5 rows, 5 columns\. ")
        seen = set()
        for _ in range(60):
            page.keys(Keys.TAB)
            seen.add(page.js("const one = document.activeElement; return one.id || one.dataset.panel || one.dataset.stage || one.tagName"))
        self.assertLessEqual({"weights", "masked", "scores", "transpose", "save-png", "language", "theme", "play"}, seen)

    def test_play_steps_to_the_end(self):
        page.open(small, "stage=weights")
        page.js("const slow = setInterval; window.setInterval = (act) => slow(act, 20)")
        page.press("#play")
        page.until("return document.querySelector('#stage-list [aria-current]').dataset.stage === 'output'")
        page.until("return document.getElementById('play').textContent === 'Play'")

    def test_zoom(self):
        page.open(joined, "stage=q")
        before = page.js("return document.querySelector('.heat[data-panel=all_q]').dataset.geometry.split(' ').map(Number)")
        page.keys("+")
        after = page.js("return document.querySelector('.heat[data-panel=all_q]').dataset.geometry.split(' ').map(Number)")
        self.assertGreater(after[2], before[2])
        page.keys("0")
        again = page.js("return document.querySelector('.heat[data-panel=all_q]').dataset.geometry.split(' ').map(Number)")
        self.assertEqual(again, before)


class Language(QuietTest):
    def test_live_switch(self):
        page.open(joined)
        page.press("#language")
        self.assertEqual(page.js("return document.documentElement.lang"), "ko")
        self.assertEqual(page.text("#play"), "재생")
        for stage, word in KOREAN.items():
            page.stage(stage)
            self.assertIn(word, page.text(".stage-head .names").split(" · ")[0], stage)
        page.stage("weights")
        page.click_cell("weights", 1, 1)
        self.assertIn("어디서 왔나", page.text("#cell"))
        page.keys("l")
        self.assertEqual(page.js("return document.documentElement.lang"), "en")
        self.assertIn("Where it comes from", page.text("#cell"))

    def test_lang_of_the_command(self):
        x = pages.EXAMPLES / "student.csv"
        pages.attn("explain", "sdpa", x, x, x, "--lang", "ko", "--html", f"{folder.name}/ko.html")
        page.open(f"{folder.name}/ko.html")
        self.assertEqual(page.js("return document.documentElement.lang"), "ko")

    def test_every_word_has_both_languages_and_the_same_places(self):
        text = "".join(pathlib.Path(pages.WEB, "page_after.html").read_text(encoding="utf-8"))
        block = text[text.index("const WORDS = {"):text.index("const LANGUAGES")]
        block = re.sub(r"' \+\n\s*'", "", block)
        words = re.findall(r"^    (\w+): \['((?:[^'\\]|\\.)*)',\s*'((?:[^'\\]|\\.)*)'\]", block, re.MULTILINE)
        self.assertGreater(len(words), 150)
        self.assertEqual(len(words), len(re.findall(r"^    \w+: \[", block, re.MULTILINE)))
        for name, english, korean in words:
            self.assertEqual(sorted(set(re.findall(r"\{\w+\}", english))), sorted(set(re.findall(r"\{\w+\}", korean))), name)

    def test_hangul_tokens(self):
        page.open(small, "stage=weights")
        self.assertEqual(page.numbers()["row_labels"], HANGUL.split())


class Files(QuietTest):
    """What the page saves."""

    def test_csv_is_read_by_the_command(self):
        page.open(small, "stage=masked")
        path = page.saved("#save-csv", ".csv")
        shown = json.loads(pages.attn("show", path, "--json"))["arrays"]
        (array,) = shown.values() if isinstance(shown, dict) else shown
        np.testing.assert_array_equal(pages.values(array), pages.values(page.numbers()))
        self.assertEqual(path.name, "attn-masked.csv")

    def test_json(self):
        page.open(joined, "stage=weights&head=2")
        path = page.saved("#save-json", ".json")
        data = json.loads(path.read_text(encoding="utf-8"))
        self.assertEqual([data[name] for name in ("schema", "stage", "head", "shape")], [1, "weights", 2, [5, 5]])
        self.assertEqual(path.name, "attn-weights-head2.json")

    def test_png(self):
        page.open(small, "stage=weights")
        data = page.saved("#save-png", ".png").read_bytes()
        self.assertEqual(data[:8], b"\x89PNG\r\n\x1a\n")
        width, height = struct.unpack(">II", data[16:24])
        self.assertGreater(min(width, height), 300)

    def test_svg(self):
        page.open(small, "stage=weights&lang=ko")
        root = ElementTree.fromstring(page.saved("#save-svg", ".svg").read_text(encoding="utf-8"))
        texts = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
        self.assertEqual(texts[0], "weights = softmax(masked)")
        self.assertIn("학생", texts)
        self.assertIn("Σ 1", texts)
        cells = [one for one in root.iter("{http://www.w3.org/2000/svg}rect") if one.get("fill") == "url(#hatch)"]
        self.assertEqual(len(cells), 6 + 6)  # masked -> weights

    def test_a_large_matrix_is_a_picture_inside_the_svg(self):
        sample.sdpa(pages.WEB, f"{folder.name}/large.html", (1, 1, 100, 100, 4, 4))
        page.open(f"{folder.name}/large.html", "stage=weights")
        root = ElementTree.fromstring(page.saved("#save-svg", ".svg").read_text(encoding="utf-8"))
        images = [one.get("href") for one in root.iter("{http://www.w3.org/2000/svg}image")]
        self.assertEqual(len(images), 2)  # masked -> weights
        self.assertTrue(all(image.startswith("data:image/png;base64,") for image in images))

    def test_print_sheet_has_every_stage(self):
        page.open(joined, "stage=weights")
        pdf = base64.b64decode(page.driver.execute_cdp_cmd("Page.printToPDF", {})["data"])
        self.assertEqual(pdf[:5], b"%PDF-")
        page.js("window.dispatchEvent(new Event('beforeprint'))")
        self.assertEqual(page.texts("#print-sheet svg title"), [
            "Q = X W_Q", "K = X W_K", "V = X W_V", "(L, H·d) → (L, H, d) → (H, L, d)", "scores = Q Kᵀ",
            "scaled = scores / √d_k = scores × 0.5", "masked = scaled", "weights = softmax(masked)", "output = weights V",
            "concat = [head_0 | head_1 | … ]", "O = concat W_O"])
        self.assertEqual(page.numbers()["stage"], "weights")

    def test_the_matrix_that_was_clicked_is_saved(self):
        page.open(joined, "stage=scores")
        page.click_cell("q", 1, 2)
        self.assertEqual(page.text("#current"), "Q")
        path = page.saved("#save-csv", ".csv")
        self.assertEqual((path.name, np.loadtxt(path, delimiter=",").shape), ("attn-scores-head0-q.csv", (5, 4)))


class Views(QuietTest):
    def colour(self):
        return page.js("return getComputedStyle(document.body).backgroundColor")

    def pixel(self):
        return page.js("""const one = document.querySelector('.heat canvas');
            const copy = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
            copy.drawImage(one, one.width - 2, 2, 1, 1, 0, 0, 1, 1);
            return [...copy.getImageData(0, 0, 1, 1).data].slice(0, 3)""")

    def test_dark_by_preference_and_by_switch(self):
        page.prefer("light")
        page.open(small)
        light = self.colour(), self.pixel()
        page.press("#theme")
        page.drawn()
        page.until("return document.documentElement.dataset.theme === 'dark'")
        page.js("return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        dark = self.colour(), self.pixel()
        self.assertGreater(sum(light[1]), 600)
        self.assertLess(sum(dark[1]), 200)
        self.assertNotEqual(light[0], dark[0])
        page.prefer("dark")
        page.open(small)
        self.assertEqual(self.colour(), dark[0])
        page.prefer("light")
        page.until("return document.documentElement.dataset.theme === 'light'")

    def test_projector(self):
        page.open(small)
        before = page.js("return document.querySelector('.formula').getBoundingClientRect().height")
        page.press("#projector")
        self.assertGreater(page.js("return document.querySelector('.formula').getBoundingClientRect().height"), 1.3 * before)

    def test_transposed(self):
        page.open(joined, "stage=scores")
        straight = page.numbers()
        page.press("#transpose")
        turned = page.numbers()
        np.testing.assert_array_equal(pages.values(turned), pages.values(straight).T)
        self.assertEqual(page.texts(".panel .symbol"), ["K", "QT", "scoresT"])
        page.click_cell("scores", 1, 3)
        self.assertTrue(page.text(".cell-value").startswith("scores[3, 1] = "))

    def test_as_a_table(self):
        page.open(small, "stage=weights")
        page.press("#as-table")
        texts = page.texts(".numbers tbody td")
        np.testing.assert_allclose([float(text) for text in texts], pages.values(page.numbers()).ravel(), rtol=1e-5)
        self.assertEqual(page.texts(".numbers tbody th"), HANGUL.split())

    def test_the_answer_is_hidden_asked_for_and_shown(self):
        page.open(small, "stage=weights")
        value = pages.values(page.numbers())[3, 1]
        page.press("#hide")
        page.click_cell("weights", 3, 1)
        self.assertEqual(page.text(".cell-value"), "weights[3, 1] = ?")
        self.assertNotIn(f"{value:.6g}", page.text("#cell"))
        self.assertTrue(page.text("#live").endswith(": ?"))
        page.keys("9", Keys.ENTER, at="#quiz-answer")
        self.assertEqual(page.js("return document.querySelector('.verdict').dataset.right"), "false")
        page.js("document.getElementById('quiz-answer').value = ''")
        page.keys(f"{value:.2f}", Keys.ENTER, at="#quiz-answer")
        self.assertEqual(page.js("return document.querySelector('.verdict').dataset.right"), "true")
        page.until("return !document.getElementById('quiz-answer')")
        self.assertEqual(page.text(".cell-value"), f"weights[3, 1] = {value:.6g}")
        page.click_cell("weights", 3, 2)
        self.assertEqual(page.text(".cell-value"), "weights[3, 2] = ?")
        page.press("#quiz-reveal")
        self.assertNotIn("?", page.text(".cell-value"))

    def test_no_sideways_scrolling_on_a_phone_or_at_200_percent(self):
        for width, height in ((360, 740), (700, 500)):
            page.size(width, height)
            try:
                for path in (small, joined):
                    page.open(path)
                    for stage in page.stages():
                        page.stage(stage)
                        self.assertLessEqual(page.js("return document.documentElement.scrollWidth"), width, (path, stage))
                page.press("#teacher")
                self.assertLessEqual(page.js("return document.documentElement.scrollWidth"), width, "teacher")
            finally:
                page.size(1400, 1000)

    def test_an_address_leads_to_the_place(self):
        page.open(joined, "stage=weights&head=1&cell=weights.2.3&lang=ko")
        self.assertTrue(page.text(".cell-value").startswith("weights[2, 3]"))
        self.assertEqual(page.js("return document.documentElement.lang"), "ko")
        page.stage("output")
        self.assertIn("stage=output&head=1", page.js("return location.hash"))


class Teacher(QuietTest):
    """Numbers typed in the page."""

    def fill(self, name, i, j, text):
        page.keys(text, at=f"input[data-matrix={name}][data-row='{i}'][data-column='{j}']")

    def matrix(self, name):
        return np.array([[float(page.js("return document.querySelector(arguments[0]).value",
                                        f"input[data-matrix={name}][data-row='{i}'][data-column='{j}']")) for j in range(columns)]
                         for i, columns in enumerate(self.columns(name))])

    def columns(self, name):
        return page.js("""return [...document.querySelector(`input[data-matrix=${arguments[0]}]`).closest('table').rows].map((row) =>
            row.cells.length)""", name)

    def test_two_by_three_times_three_by_four(self):
        page.open(small)
        page.press("#teacher")
        q, kt = self.matrix("q"), self.matrix("k")
        self.assertEqual((q.shape, kt.shape, page.stage_now()), ((2, 3), (3, 4), "scores"))
        np.testing.assert_array_equal(pages.values(page.numbers()), q @ kt)
        self.fill("q", 1, 2, "-2.5")
        q[1, 2] = -2.5
        np.testing.assert_array_equal(pages.values(page.numbers()), q @ kt)
        page.stage("output")
        scores = q @ kt / np.sqrt(3)
        weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(pages.values(page.numbers()), weights @ self.matrix("v"), rtol=1e-12)
        page.press("#teacher")
        self.assertEqual(page.text("#subtitle").split(" · ")[1], "Lq 4")

    def test_what_is_no_number_is_named(self):
        page.open(small)
        page.press("#teacher")
        before = pages.values(page.numbers())
        self.fill("k", 1, 2, "x")
        self.assertIn('"x" is not a number', page.text("#teacher-problem"))
        np.testing.assert_array_equal(pages.values(page.numbers()), before)
        self.fill("k", 1, 2, "1/4")
        self.assertEqual(page.text("#teacher-problem"), "")
        self.assertEqual(pages.values(page.numbers())[1, 2], 0.25)

    def test_rows_from_a_spreadsheet(self):
        page.open(small)
        page.press("#teacher")
        page.js("""const data = new DataTransfer();
            data.setData('text', '1\\t2\\t3\\n4\\t5\\t6\\n7\\t8\\t9');
            document.querySelector("input[data-matrix=q][data-row='0'][data-column='0']").dispatchEvent(
                new ClipboardEvent('paste', {clipboardData: data, bubbles: true, cancelable: true}))""")
        np.testing.assert_array_equal(self.matrix("q"), [[1, 2, 3], [4, 5, 6], [7, 8, 9]])
        self.assertEqual(pages.values(page.numbers()).shape, (3, 4))

    def test_causal_and_scale(self):
        page.open(small)
        page.press("#teacher")
        page.press("#teacher-causal")
        page.keys("2", at="#teacher-scale")
        page.stage("masked")
        scores = self.matrix("q") @ self.matrix("k")
        np.testing.assert_array_equal(pages.values(page.numbers()), np.where(np.tri(2, 4, dtype=bool), 2 * scores, -np.inf))
        page.click_cell("masked", 0, 2)
        self.assertIn("comes after position 0", page.text(".why"))

    def test_several_heads(self):
        page.open(small)
        page.press("#teacher")
        page.choose("teacher-kind", "mha")
        x, w = self.matrix("x"), {name: self.matrix(f"w_{name}") for name in "qkvo"}
        heads = []
        for h in range(2):
            q, k, v = (x @ w[name][:, 2 * h:2 * h + 2] for name in "qkv")
            powers = np.exp(q @ k.T / np.sqrt(2))
            heads.append(powers / powers.sum(axis=1, keepdims=True) @ v)
        page.stage("result")
        np.testing.assert_allclose(pages.values(page.numbers()), np.concatenate(heads, axis=1) @ w["o"], rtol=1e-12)
        page.keys("3", at="#teacher-heads")
        self.assertIn("4 columns cannot be shared equally by 3 heads. Possible: 1, 2, 4", page.text("#teacher-problem"))

    def test_numbers_of_the_file(self):
        page.open(small)
        page.press("#teacher")
        page.press("#teacher-file")
        page.stage("masked")
        x = np.loadtxt(pages.EXAMPLES / "student.csv", delimiter=",")
        want = np.where(np.tri(4, dtype=bool), x @ x.T / np.sqrt(x.shape[1]), -np.inf)
        np.testing.assert_allclose(pages.values(page.numbers()), want, rtol=1e-5, atol=1e-12)


if __name__ == "__main__":
    unittest.main(verbosity=1)
