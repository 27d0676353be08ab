# SPDX-License-Identifier: Apache-2.0
"""attn.load_model on a small folder of random weights: the answers of `attn generate`, weights and states that fit each other, errors."""
import doctest
import gc
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy as np

import attn
from attn._command import command

LETTERS, WIDTH, HEADS, KV, LAYERS = "abcdefg", 32, 4, 2, 2
END = len(LETTERS)


def make(folder):
    """A Llama of two layers and a byte-level BPE of seven letters."""
    rng, tensors = np.random.default_rng(4), {}
    shapes = {"self_attn.q_proj": (WIDTH, WIDTH), "self_attn.k_proj": (16, WIDTH), "self_attn.v_proj": (16, WIDTH),
              "self_attn.o_proj": (WIDTH, WIDTH), "mlp.gate_proj": (48, WIDTH), "mlp.up_proj": (48, WIDTH), "mlp.down_proj": (WIDTH, 48),
              "input_layernorm": (WIDTH,), "post_attention_layernorm": (WIDTH,)}
    for layer in range(LAYERS):
        tensors.update({f"model.layers.{layer}.{name}.weight": shape for name, shape in shapes.items()})
    tensors.update({"model.embed_tokens.weight": (END + 1, WIDTH), "lm_head.weight": (END + 1, WIDTH), "model.norm.weight": (WIDTH,)})
    head, data = {}, b""
    for name, shape in tensors.items():
        raw = (rng.standard_normal(shape) * 0.3 + (len(shape) == 1)).astype("<f4").tobytes()
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(head).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "config.json").write_text(json.dumps({
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": END + 1, "hidden_size": WIDTH, "intermediate_size": 48,
        "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": KV, "max_position_embeddings": 40,
        "rms_norm_eps": 1e-6, "hidden_act": "silu", "rope_theta": 10000.0, "tie_word_embeddings": False, "eos_token_id": END}))
    vocab = {letter: id for id, letter in enumerate(LETTERS)} | {"<|endoftext|>": END}
    (folder / "vocab.json").write_text(json.dumps(vocab))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "GPT2Tokenizer", "eos_token": "<|endoftext|>",
                                                              "bos_token": "<|endoftext|>", "unk_token": "<|endoftext|>"}))


class Model(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory(prefix="attn-model-")
        make(pathlib.Path(cls.place.name))
        cls.model = attn.load_model(cls.place.name)

    @classmethod
    def tearDownClass(cls):
        cls.place.cleanup()

    def said(self, prompt, *words):
        done = subprocess.run([command(), "generate", self.place.name, "--prompt", prompt, "--quiet", *words], capture_output=True,
                              text=True, check=True)
        return done.stdout.removesuffix("\n")

    def test_what_it_is(self):
        info = self.model.info
        self.assertEqual((info["type"], info["kind"], info["layers"], info["heads"], info["kv_heads"], info["vocab"], info["stop"]),
                         ("llama", "decoder", LAYERS, HEADS, KV, END + 1, [END]))
        self.assertIn("llama, decoder, 2 layers", repr(self.model))

    def test_tokenizer(self):
        t = self.model.tokenizer
        self.assertEqual(t.encode("badge"), [1, 0, 3, 6, 4])
        self.assertEqual(t.decode([1, 0, 3, END]), "bad")
        self.assertEqual(t.decode([1, END], skip_special=False), "b<|endoftext|>")
        self.assertEqual(t.tokens([0, END, 99]), ["a", "<|endoftext|>", None])
        self.assertEqual(len(t), END + 1)
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
        self.assertLessEqual(len(list(self.model.stream("a" * 39, 100))), 2)

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
                (ValueError, "capacity|40", lambda: self.model.logits([0] * 41))):
            with self.assertRaisesRegex(kind, pattern):
                call()

    def test_examples(self):
        found = doctest.testmod(attn._model, extraglobs={"attn": attn})
        self.assertEqual((found.failed, found.attempted), (0, 1))

    def test_an_error_while_watching_is_raised(self):
        def seen(layer, hidden, weights):
            raise ZeroDivisionError("mine")
        with self.assertRaisesRegex(ZeroDivisionError, "mine"):
            self.model._fed("bad", False, seen)
        self.assertEqual(self.model.generate("bad", 2), self.said("bad", "-n", "2"))


if __name__ == "__main__":
    unittest.main()
