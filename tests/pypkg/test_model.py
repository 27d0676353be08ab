# SPDX-License-Identifier: Apache-2.0
"""attn.load_model on small folders of random weights: the answers of the command, weights and states that fit each other, errors."""
import doctest
import functools
import gc
import io
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy as np

import attn
import models
from attn._command import command
from models import END, HEADS, KV, LAYERS, WIDTH

ROOM = 80


class Folder:
    """A folder that `make` makes, and the model in it, for all tests of a class."""

    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory(prefix="attn-model-")
        cls.model = attn.load_model(cls.make(pathlib.Path(cls.place.name)))

    @classmethod
    def tearDownClass(cls):
        cls.place.cleanup()


class Model(Folder, unittest.TestCase):
    make = staticmethod(functools.partial(models.decoder, positions=ROOM))

    def said(self, prompt, *words):
        done = subprocess.run([command(), "generate", self.place.name, "--prompt", prompt, "--quiet", *words], capture_output=True,
                              text=True, check=True)
        return done.stdout.removesuffix("\n")

    def test_what_it_is(self):
        info = self.model.info
        self.assertEqual((info["type"], info["kind"], info["layers"], info["heads"], info["kv_heads"], info["max_positions"], info["stop"]),
                         ("llama", "decoder", LAYERS, HEADS, KV, ROOM, [END]))
        self.assertIn("llama, decoder, 2 layers", repr(self.model))

    def test_tokenizer(self):
        t = self.model.tokenizer
        self.assertEqual(t.encode("badge"), [1, 0, 3, 6, 4])
        self.assertEqual(t.decode([1, 0, 3, END]), "bad")
        self.assertEqual(t.decode([1, END], skip_special=False), "b<|endoftext|>")
        self.assertEqual(t.tokens([0, END, 99]), ["a", "<|endoftext|>", None])
        self.assertEqual(len(t), self.model.info["vocab"])
        with self.assertRaisesRegex(ValueError, "99"):
            t.decode([99])

    def test_generate_is_the_commands(self):
        for prompt in ("a", "badge", "gg"):
            self.assertEqual(self.model.generate(prompt, 12), self.said(prompt, "-n", "12"))
            for seed in range(4):
                self.assertEqual(self.model.generate(prompt, 12, temperature=1.5, top_p=0.9, seed=seed),
                                 self.said(prompt, "-n", "12", "--temperature", "1.5", "--top-p", "0.9", "--seed", str(seed)))

    def test_stream_and_ids(self):
        ids = self.model.generate([1, 0, 3], 10)
        self.assertEqual(list(self.model.stream(np.array([1, 0, 3]), 10)), ids)
        running = self.model.stream("bad", 10)
        self.assertEqual([next(running), next(running)], ids[:2])
        running.close()
        self.assertLessEqual(len(list(self.model.stream("a" * (ROOM - 1), 100))), 2)

    def test_logits_are_those_of_generate(self):
        ids = self.model.generate([1, 0, 3], 6)
        best = self.model.logits([1, 0, 3] + ids).argmax(-1)
        self.assertEqual(best[2:2 + len(ids)].tolist(), ids)

    def test_attentions(self):
        seen, states = self.model.attentions("badge"), self.model.hidden_states("badge")
        self.assertEqual(seen.tokens, list("badge"))
        self.assertEqual([w.shape for w in seen.decoder], [(HEADS, 5, 5)] * LAYERS)
        self.assertEqual([h.shape for h in states], [(5, WIDTH)] * (LAYERS + 1))
        for w in seen.decoder:
            np.testing.assert_allclose(w.sum(-1), 1, 1e-6)
            self.assertEqual(np.abs(np.triu(w, 1)).max(), 0)
        for a, b in zip(seen.hidden, states):
            np.testing.assert_array_equal(a, b)
        wide = attn.load_model(self.place.name, float64=True)
        self.assertEqual(wide.attentions("badge").decoder[0].dtype, np.float64)
        for a, b in zip(wide.attentions("badge").decoder, seen.decoder):
            np.testing.assert_allclose(a, b, 1e-3, 1e-5)

    def test_a_session_keeps_its_model(self):
        running = attn.load_model(self.place.name).stream("bad", 10)
        expected = self.model.generate("bad", 10)
        gc.collect()
        self.assertEqual(self.model.tokenizer.decode(list(running)), expected)

    def test_threads_have_the_same_tokens(self):
        expected, found = self.model.generate("badge", 20, temperature=1, seed=3), []
        threads = [threading.Thread(target=lambda: found.append(self.model.generate("badge", 20, temperature=1, seed=3)))
                   for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(found, [expected] * 8)

    def test_memory_does_not_grow(self):
        def references():
            return sys.getrefcount(self.model._model), sys.getrefcount(attn._context.context())

        before = references()
        for _ in range(200):
            self.model.attentions("badge")
            self.model.generate("bad", 3)
        gc.collect()
        self.assertEqual(references(), before)

    def test_sentences(self):
        for kind, pattern, call in (
                (OSError, "config.json: there is no such file", lambda: attn.load_model("/nowhere")),
                (ValueError, "max_new_tokens is 0", lambda: self.model.generate("a", 0)),
                (ValueError, r"shape \(0,\)", lambda: self.model.logits([])),
                (ValueError, "99", lambda: self.model.logits([99])),
                (ValueError, "temperature", lambda: self.model.generate("a", 3, temperature=-1)),
                (ValueError, "capacity|80", lambda: self.model.logits([0] * (ROOM + 1)))):
            with self.assertRaisesRegex(kind, pattern):
                call()

    def test_examples(self):
        found = doctest.testmod(attn._model, extraglobs={"attn": attn})
        self.assertEqual((found.failed, found.attempted), (0, 1))

    def test_a_batch_is_each_prompt_alone(self):
        prompts = ["a", "badge", "gg", "deadbeef" * 4]
        for options in ({}, {"temperature": 1.5, "top_p": 0.9, "seed": 3}, {"repetition_penalty": 1.3}):
            self.assertEqual(self.model.generate(prompts, 12, **options), [self.model.generate(p, 12, **options) for p in prompts])
        seeds = [4, 5, 6, 7]
        self.assertEqual(self.model.generate(prompts, 12, temperature=2, seed=seeds),
                         [self.model.generate(p, 12, temperature=2, seed=seed) for p, seed in zip(prompts, seeds)])
        rows = [[1, 0, 3], [6], [2] * (ROOM - 2)]
        alone = [self.model.generate(row, 12) for row in rows]
        self.assertEqual(self.model.generate(rows, 12), alone)
        self.assertLess(len(alone[2]), 12)
        with self.assertRaisesRegex(ValueError, "2 seeds for 4 prompts"):
            self.model.generate(prompts, 12, seed=[1, 2])

    def test_chat_is_the_commands(self):
        for options, words in (({}, ()), ({"system": "be bad"}, ("--system", "be bad"))):
            self.assertEqual(self.model.chat("feed", 12, **options), self.said("feed", "-n", "12", "--chat", *words))
        turns = [("user", "feed"), ("assistant", "cab"), {"role": "user", "content": "badge"}]
        text = self.model.tokenizer.chat(turns)
        self.assertEqual(text.count("<|im_start|>"), 4)
        ids = self.model.tokenizer.encode(text, special=False)
        self.assertEqual(self.model.chat(turns, 1), self.model._said(self.model.generate(ids, 1)))
        for messages in ([("tool", "x")], [], ["ab"]):
            with self.assertRaises((ValueError, TypeError)):
                self.model.chat(messages)

    def test_an_error_while_watching_is_raised(self):
        def seen(*layer):
            raise ZeroDivisionError("mine")
        with self.assertRaisesRegex(ZeroDivisionError, "mine"):
            self.model._fed(np.array([1, 0, 3], np.int32), False, seen)
        self.assertEqual(self.model.generate("bad", 2), self.said("bad", "-n", "2"))

    def test_keyboard_interrupt(self):
        with tempfile.TemporaryDirectory() as place:
            slow = attn.load_model(models.decoder(pathlib.Path(place), width=256, layers=6, positions=1 << 16), float64=True)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
        timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            slow.hidden_states(np.zeros(1 << 15, np.int32))
        timer.join()
        self.assertEqual(slow.logits([1, 2]).shape[0], 2)


class Encoder(Folder, unittest.TestCase):
    make = staticmethod(models.encoder)

    def test_a_vector_is_the_mean_of_the_rows_at_length_1(self):
        texts = ["ab cad", "g", "", "feed the bag" * 9]
        vectors = self.model.encode(texts)
        self.assertEqual(vectors.shape, (4, WIDTH))
        for text, vector in zip(texts, vectors):
            np.testing.assert_array_equal(self.model.encode(text), vector)
            rows = self.model.hidden_states(self.model.tokenizer.encode(text)[:15] + [3] if len(text) > 15 else text)[-1].astype("f8")
            np.testing.assert_allclose(vector, rows.mean(0) / np.linalg.norm(rows.mean(0)), 1e-4, 1e-5)
        self.assertEqual(self.model.encode([]).shape, (0, WIDTH))
        ids = self.model.tokenizer.encode("ab cad")
        np.testing.assert_array_equal(self.model.encode(ids), vectors[0])
        np.testing.assert_array_equal(self.model.encode([ids, [2, 3]])[0], vectors[0])

    @unittest.skipIf(attn.show_config("dicts")["command"] is None, "no command")
    def test_it_is_the_commands(self):
        texts = ["ab cad", "g", "feed the bag" * 9]
        words = [f"--text={text}" for text in texts]
        for options, more in (({}, []), ({"pooling": "max", "normalize": True}, ["--pool=max", "--normalize"]),
                              ({"prompt_name": "query"}, ["--prompt=query"])):
            done = subprocess.run([command(), "embed", self.place.name, *words, *more, "--quiet", "-o", "-"], capture_output=True,
                                  check=True)
            np.testing.assert_array_equal(np.load(io.BytesIO(done.stdout)), self.model.encode(texts, **options))

    def test_many_texts_are_each_alone(self):
        rng = np.random.default_rng(3)
        texts = ["".join(rng.choice(list("abcdefg "), rng.integers(1, 30))) for _ in range(700)]
        vectors = self.model.encode(texts)
        for n in (0, 17, 511, 699):
            np.testing.assert_array_equal(self.model.encode(texts[n]), vectors[n])

    def test_poolings_and_prompts(self):
        rows = self.model.hidden_states("ab cad")[-1]
        np.testing.assert_allclose(self.model.encode("ab cad", pooling="cls"), rows[0] / np.linalg.norm(rows[0]), 1e-5, 1e-6)
        rows = self.model.hidden_states("abc ab cad")[-1][4:]  # [CLS] and the prompt's three tokens are not pooled
        expected = rows.mean(0) / np.linalg.norm(rows.mean(0))
        np.testing.assert_allclose(self.model.encode("ab cad", prompt_name="query"), expected, 1e-4, 1e-5)
        np.testing.assert_allclose(self.model.encode("ab cad", prompt="abc "), expected, 1e-4, 1e-5)
        for pattern, options in (("no pooling 'mode'", {"pooling": "mode"}), ("has query", {"prompt_name": "passage"}),
                                 ("both given", {"prompt": "a", "prompt_name": "query"})):
            with self.assertRaisesRegex(ValueError, pattern):
                self.model.encode("a", **options)

    def test_attentions_of_a_pair(self):
        seen = self.model.attentions("ab", "cad")
        self.assertEqual(seen.tokens, ["[CLS]", "a", "##b", "[SEP]", "c", "##a", "##d", "[SEP]"])
        self.assertEqual([w.shape for w in seen.encoder], [(HEADS, 8, 8)] * LAYERS)
        self.assertEqual((seen.decoder, seen.cross, seen.target_tokens), ([], [], None))
        one = self.model.attentions(self.model.tokenizer.encode("ab", "cad"))  # the same ids, but all of the first segment
        self.assertGreater(np.abs(one.encoder[0] - seen.encoder[0]).max(), 1e-3)
        for w in seen.encoder:
            np.testing.assert_allclose(w.sum(-1), 1, 1e-6)

    def test_sentences(self):
        for pattern, call in (("no decoder", lambda: self.model.generate("a")), ("no encoder-decoder", lambda: self.model.translate("a")),
                              ("pair is for", lambda: self.model.attentions([2, 3], "a")),
                              ("target is for", lambda: self.model.attentions("a", target="b")),
                              ("no chat template|chat template", lambda: self.model.chat("a"))):
            with self.assertRaisesRegex(ValueError, pattern):
                call()

    @unittest.skipIf(attn.show_config("dicts")["command"] is None, "no command")
    def test_pages(self):
        seen = self.model.attentions("ab cad")
        self.assertTrue("##b" in seen.html())
        self.assertTrue(seen._repr_html_().startswith("<iframe srcdoc="))
        target = pathlib.Path(self.place.name) / "x.html"
        seen.save(target, "encoder", "ko")
        self.assertIn("<html", target.read_text(encoding="utf-8")[:500])
        with self.assertRaisesRegex(ValueError, "part is 'cross'; there are encoder"):
            seen.html("cross")


class EncoderDecoder(Folder, unittest.TestCase):
    make = staticmethod(models.encoder_decoder)

    def test_greedy_is_the_best_of_each_row(self):
        source = self.model.tokenizer.encode("ab cad")
        said = self.model.translate(source, beams=1)
        best = self.model.logits(source, said)
        best[:, -1] = -np.inf  # bad_words_ids
        self.assertEqual(best.argmax(-1).tolist()[:-1], said[:-1])
        self.assertEqual(self.model.translate("ab cad", beams=1), self.model.tokenizer.decode(said))
        self.assertEqual(self.model.translate(["ab cad", "g"]), [self.model.translate("ab cad"), self.model.translate("g")])
        self.assertEqual(len(self.model.translate(source, max_tokens=4, length_penalty=0.5, early_stopping="never")), 4)
        with self.assertRaisesRegex(ValueError, "early_stopping"):
            self.model.translate("a", early_stopping="soon")

    @unittest.skipIf(attn.show_config("dicts")["command"] is None, "no command")
    def test_it_is_the_commands(self):
        for beams in (1, 4):
            done = subprocess.run([command(), "generate", self.place.name, "--prompt", "ab cad", f"--beams={beams}", "--quiet"],
                                  capture_output=True, text=True, check=True)
            self.assertEqual(self.model.translate("ab cad", beams=beams), done.stdout.removesuffix("\n"))

    def test_attentions(self):
        seen = self.model.attentions("ab cad", target="ge")
        self.assertEqual(seen.tokens, ["\u2581", "a", "b", "\u2581", "c", "a", "d", "</s>"])
        self.assertEqual(seen.target_tokens, ["<pad>", "\u2581", "g", "e"])
        self.assertEqual([w.shape for w in seen.encoder + seen.decoder + seen.cross],
                         [(HEADS, 8, 8)] * LAYERS + [(HEADS, 4, 4)] * LAYERS + [(HEADS, 4, 8)] * LAYERS)
        for w in seen.encoder + seen.decoder + seen.cross:
            np.testing.assert_allclose(w.sum(-1), 1, 1e-6)
        self.assertEqual(max(np.abs(np.triu(w, 1)).max() for w in seen.decoder), 0)
        self.assertEqual([h.shape for h in seen.hidden + seen.target_hidden], [(8, WIDTH)] * (LAYERS + 1) + [(4, WIDTH)] * (LAYERS + 1))
        for a, b in zip(self.model.hidden_states("ab cad"), seen.hidden):
            np.testing.assert_array_equal(a, b)
        by_itself = self.model.attentions("ab cad")
        self.assertEqual(len(by_itself.target_tokens), len(self.model.translate(self.model.tokenizer.encode("ab cad"))))

    @unittest.skipIf(attn.show_config("dicts")["command"] is None, "no command")
    def test_page_of_cross_attention(self):
        seen = self.model.attentions("ab cad", target="ge")
        self.assertFalse(seen.html() == seen.html("decoder"))
        self.assertTrue(all(f"&quot;{token}&quot;" in seen._repr_html_() for token in "gecd"))


if __name__ == "__main__":
    unittest.main()
