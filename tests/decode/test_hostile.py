# SPDX-License-Identifier: Apache-2.0
"""Folders and .gguf files that are wrong or mean harm: one sentence that names what is wrong, in UTF-8 without a control character, at
once. Fields of every kind and size, files that are pipes, devices or folders, shards outside the folder, tensors that contradict."""
import json
import os
import pathlib
import signal
import sys
import tempfile
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
import attnlib  # noqa: E402
import decodelib  # noqa: E402
import marianmake  # noqa: E402
from ggufmake import blocks, gguf  # noqa: E402
from test_models import LLAMA, llama_tensors, write_folder  # noqa: E402

TENSORS = llama_tensors(False)
SIZES = ("num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "intermediate_size", "vocab_size",
         "max_position_embeddings")
NO_SIZES = ("NaN", "Infinity", "-1", "0", "-0", "1e308", "1e999", "1.5", "true", '"2"', "[2]", "{}", "9223372036854775807",
            "9223372036854775808", "9" * 400, "2147483648")


class Hostile(unittest.TestCase):
    ctx = attnlib.Context()

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = write_folder(place.name, LLAMA, TENSORS)
        signal.alarm(60)
        self.addCleanup(signal.alarm, 0)

    def refused(self, words, path=None):
        """The sentence, which has the words."""
        with self.assertRaises(decodelib.LoadError) as caught:
            decodelib.Model(self.ctx, path or self.folder).close()
        sentence = str(caught.exception)  # it was UTF-8
        self.assertNotRegex(sentence, "[\x00-\x1f\x7f-\x9f]")
        self.assertIn(words, sentence)
        return sentence

    def config(self, text):
        (self.folder / "config.json").write_bytes(text if isinstance(text, bytes) else json.dumps(text).encode())

    def test_sizes(self):
        raw = json.dumps(LLAMA)
        for field in SIZES:
            for value in NO_SIZES:
                with self.subTest(field, value=value[:30]):
                    self.config(raw.replace(f'"{field}": {LLAMA[field]}', f'"{field}": {value}').encode())
                    self.refused("config.json")
        for field in SIZES[:6]:  # numbers that other models have
            with self.subTest(field):
                self.config(LLAMA | {field: LLAMA[field] + 1})
                self.refused(field if field == "num_attention_heads" else "")

    def test_json(self):
        raw = json.dumps(LLAMA).encode()
        for text, words in ((b"", "line 1"), (b"\0" * 100, "line 1"), (b"[" * 100000, "depth"), (b'{"a":' * 100000, "depth"),
                            (b"[]", "object"), (raw + b"x", "end of file"), (raw.replace(b"llama", b"lla\xffma"), "0xff"),
                            (b'{"hidden_size": 16,' + raw[1:], "duplicate"), (raw.replace(b"llama", b"lla\\u0000ma"), "u0000")):
            with self.subTest(text[:20]):
                self.config(text)
                self.refused(words)

    def test_what_a_terminal_would_obey(self):
        self.config(LLAMA | {"model_type": "\x1b[31m\x9bx\x7f"})
        self.refused('"?[31m??x?"')
        self.config(LLAMA | {"한" * 100: "글" * 100})  # cut in the middle of a character
        self.refused("한한한")
        self.config(LLAMA | {"model_type": "x" * 10000000})
        self.assertLess(len(self.refused("xxx")), 1000)

    def test_ends_of_a_text(self):
        for value, words in (("x", "whole number"), ([1, "x"], "whole number"), (1.5, "whole number"), (list(range(20)), "16 ids")):
            with self.subTest(value):
                self.config(LLAMA | {"eos_token_id": value})
                self.refused("eos_token_id")
                self.refused(words)
        self.config(LLAMA | {"eos_token_id": [1, 1, -1, 1 << 40] * 100})
        model = decodelib.Model(self.ctx, self.folder)
        self.assertEqual(model.stops(), [1])
        model.close()

    def test_words_never_said(self):
        for value, words in (("x", "no list"), (3, "no list"), ([3], "one token"), ([[2, 3]], "one token"), ([["x"]], "one token")):
            with self.subTest(value):
                write_folder(self.folder, marianmake.CONFIG | {"bad_words_ids": value}, marianmake.tensors())
                self.refused("bad_words_ids")
                self.refused(words)

    def test_other_files(self):
        for name in ("config.json", "model.safetensors"):
            kept = (self.folder / name).read_bytes()
            (self.folder / name).unlink()
            self.refused(name)
            os.mkfifo(self.folder / name)
            self.refused("regular file")
            (self.folder / name).unlink()
            (self.folder / name).symlink_to("/dev/zero")
            self.refused("regular file")
            (self.folder / name).unlink()
            (self.folder / name).mkdir()
            self.refused(name)
            (self.folder / name).rmdir()
            (self.folder / name).write_bytes(kept)
        os.mkfifo(self.folder / "pipe.gguf")
        self.refused("regular file", self.folder / "pipe.gguf")
        with self.assertRaisesRegex(decodelib.LoadError, "regular file"):
            decodelib.Tokenizer(self.folder / "pipe.gguf")
        os.mkfifo(self.folder / "tokenizer.json")
        with self.assertRaisesRegex(decodelib.LoadError, "regular file"):
            decodelib.Tokenizer(self.folder)
        decodelib.Model(self.ctx, self.folder).close()

    def test_shards(self):
        (self.folder / "model.safetensors").rename(self.folder / "a.safetensors")
        os.mkfifo(self.folder / "pipe.safetensors")
        (self.folder / "zero.safetensors").symlink_to("/dev/zero")

        def index(shard, names=TENSORS):
            text = json.dumps({"metadata": {}, "weight_map": {name: shard for name in names}})
            (self.folder / "model.safetensors.index.json").write_text(text)

        for shard, words in (("../a.safetensors", "same folder"), (str(self.folder / "a.safetensors"), "same folder"),
                             ("model.safetensors.index.json", "same folder"), ("b.safetensors", "b.safetensors"), ("", "same folder"),
                             ("pipe.safetensors", "regular file"), ("zero.safetensors", "regular file"), ("a" * 5000, "too long")):
            with self.subTest(shard[:20]):
                index(shard)
                self.refused(words)
        index("a.safetensors", [*TENSORS, "more"])
        self.refused("'more' is not in its shard")
        index("a.safetensors", [*TENSORS][1:])
        self.refused("is missing")
        index("a.safetensors")
        decodelib.Model(self.ctx, self.folder).close()

    def test_tensors(self):
        for name, t in (("model.norm.weight", TENSORS["model.norm.weight"].reshape(4, 8)), ("lm_head.weight", np.zeros((0, 32), "f4")),
                        ("model.layers.1.mlp.up_proj.weight", TENSORS["model.layers.1.mlp.down_proj.weight"])):
            with self.subTest(name):
                write_folder(self.folder, LLAMA, TENSORS | {name: t})
                self.refused(name)

    def gguf(self, values=(), tensors=()):
        a, narrow = "llama.", ("blk.0.attn_k.weight", "blk.0.attn_v.weight")
        all_values = {"general.architecture": "llama", a + "block_count": 1, a + "context_length": 16, a + "embedding_length": 32,
                      a + "feed_forward_length": 32, a + "attention.head_count": 2, a + "attention.head_count_kv": 1,
                      a + "attention.layer_norm_rms_epsilon": 1e-5, a + "vocab_size": 5}
        matrices = [f"blk.0.{x}.weight" for x in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")]
        all_tensors = {name: blocks("Q8_0", (16 if name in narrow else 32, 32))[0] for name in matrices}
        all_tensors |= {name: np.ones(32, "f4") for name in ("output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight")}
        all_tensors["token_embd.weight"] = blocks("Q8_0", (5, 32))[0]
        (self.folder / "x.gguf").write_bytes(gguf(all_values | dict(values), all_tensors | dict(tensors)))
        return self.folder / "x.gguf"

    def test_gguf(self):
        decodelib.Model(self.ctx, self.gguf()).close()
        for key, value in (("block_count", 0), ("block_count", 2), ("embedding_length", ("u64", (1 << 64) - 1)), ("context_length", "x"),
                           ("attention.head_count", [1, 2]), ("attention.head_count_kv", 3), ("vocab_size", 6), ("vocab_size", 1 << 31),
                           ("attention.layer_norm_rms_epsilon", float("nan")), ("rope.freq_base", float("inf")),
                           ("rope.dimension_count", 8), ("strange", 1)):
            with self.subTest(key, value=value):
                self.refused("x.gguf", self.gguf({"llama." + key: value}))
        for name in ("output_norm.weight", "blk.0.ffn_norm.weight"):  # what is kept as it lies there cannot be in blocks
            with self.subTest(name):
                self.refused("Q8_0", self.gguf(tensors={name: blocks("Q8_0", (32,))[0]}))


if __name__ == "__main__":
    unittest.main()
