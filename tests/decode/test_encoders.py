# SPDX-License-Identifier: Apache-2.0
"""BERT, RoBERTa, XLM-R, CamemBERT and DistilBERT out of folders written here, against a float64 reference of a few lines: hidden states
and weights. The bits of a sequence are the same alone, in a batch, padded on either side, and watched."""
import math
import pathlib
import sys
import tempfile
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
import attnlib  # noqa: E402
import decodelib  # noqa: E402
from foldermake import write_folder  # noqa: E402

WIDTH, HEADS, HIDDEN, VOCAB, LAYERS, EPS, ROOM, PAD = 32, 4, 48, 40, 2, 1e-5, 24, 1
CONFIG = {"hidden_size": WIDTH, "intermediate_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
          "vocab_size": VOCAB, "max_position_embeddings": ROOM, "type_vocab_size": 2, "layer_norm_eps": EPS, "hidden_act": "gelu",
          "pad_token_id": PAD}
EMBEDDINGS = "embeddings.{}_embeddings.weight"
ATTENTION, OUTPUT = "attention.self.", "attention.output."


def make_tensors():
    rng = np.random.default_rng(9)
    linear = {ATTENTION + "query": (WIDTH, WIDTH), ATTENTION + "key": (WIDTH, WIDTH), ATTENTION + "value": (WIDTH, WIDTH),
              OUTPUT + "dense": (WIDTH, WIDTH), "intermediate.dense": (HIDDEN, WIDTH), "output.dense": (WIDTH, HIDDEN)}
    t = {EMBEDDINGS.format(name): rng.normal(size=(rows, WIDTH)) for name, rows in (("word", VOCAB), ("position", ROOM), ("token_type", 2))}
    norms = ["embeddings.LayerNorm"]
    for i in range(LAYERS):
        layer = f"encoder.layer.{i}."
        for name, shape in linear.items():
            t[layer + name + ".weight"] = 0.3 * rng.normal(size=shape)
            t[layer + name + ".bias"] = 0.3 * rng.normal(size=shape[0])
        norms += [layer + OUTPUT + "LayerNorm", layer + "output.LayerNorm"]
    for name in norms:
        t[name + ".weight"], t[name + ".bias"] = 1 + 0.2 * rng.normal(size=WIDTH), 0.2 * rng.normal(size=WIDTH)
    return {k: v.astype(np.float32) for k, v in t.items()}


def as_distilbert(tensors):
    """The same numbers by DistilBERT's names, and its config; it has no segments."""
    names = {ATTENTION + "query": "attention.q_lin", ATTENTION + "key": "attention.k_lin", ATTENTION + "value": "attention.v_lin",
             OUTPUT + "dense": "attention.out_lin", OUTPUT + "LayerNorm": "sa_layer_norm", "intermediate.dense": "ffn.lin1",
             "output.dense": "ffn.lin2", "output.LayerNorm": "output_layer_norm"}
    renamed = {}
    for name, t in tensors.items():
        parts = name.split(".", 3)
        if name.startswith("encoder"):
            inner, end = parts[3].rsplit(".", 1)
            name = f"distilbert.transformer.layer.{parts[2]}.{names[inner]}.{end}"
        elif "token_type" in name:
            continue
        else:
            name = "distilbert." + name
        renamed[name] = t
    config = {"model_type": "distilbert", "dim": WIDTH, "hidden_dim": HIDDEN, "n_layers": LAYERS, "n_heads": HEADS, "vocab_size": VOCAB,
              "max_position_embeddings": ROOM, "activation": "gelu", "pad_token_id": PAD, "sinusoidal_pos_embds": False}
    return config, renamed


def reference(tensors, ids, types, first=0, heads=HEADS, eps=EPS):
    """[hidden states, the embeddings first], [weights of each layer] of one sequence."""
    t = {k: v.astype(np.float64) for k, v in tensors.items()}
    erf = np.vectorize(math.erf)

    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * t[name + ".weight"] + t[name + ".bias"]

    def linear(x, name):
        return x @ t[name + ".weight"].T + t[name + ".bias"]

    n = len(ids)
    h = t[EMBEDDINGS.format("word")][ids] + t[EMBEDDINGS.format("position")][first:first + n] + t[EMBEDDINGS.format("token_type")][types]
    h = norm(h, "embeddings.LayerNorm")
    states, weights = [h], []
    for i in range(LAYERS):
        layer = f"encoder.layer.{i}."
        q, k, v = (linear(h, layer + ATTENTION + x).reshape(n, heads, -1).swapaxes(0, 1) for x in ("query", "key", "value"))
        s = q @ k.swapaxes(1, 2) / np.sqrt(WIDTH // heads)
        w = np.exp(s - s.max(-1, keepdims=True))
        w /= w.sum(-1, keepdims=True)
        joined = (w @ v).swapaxes(0, 1).reshape(n, WIDTH)
        h = norm(h + linear(joined, layer + OUTPUT + "dense"), layer + OUTPUT + "LayerNorm")
        up = linear(h, layer + "intermediate.dense")
        h = norm(h + linear(up * 0.5 * (1 + erf(up / math.sqrt(2))), layer + "output.dense"), layer + "output.LayerNorm")
        states.append(h)
        weights.append(w)
    return states, weights


class Encoders(unittest.TestCase):
    def setUp(self):
        self.ctx, self.tensors = attnlib.Context(threads=2), make_tensors()
        self.folder = tempfile.TemporaryDirectory()
        rng = np.random.default_rng(10)
        self.ids = [rng.integers(0, VOCAB, n) for n in (9, 1, 14, 5)]
        self.types = [(np.arange(len(x)) > 3).astype(int) for x in self.ids]

    def tearDown(self):
        self.folder.cleanup()

    def open(self, kind, f64=False):
        config, tensors = as_distilbert(self.tensors) if kind == "distilbert" else (dict(CONFIG, model_type=kind), self.tensors)
        path = write_folder(self.folder.name, config, tensors)
        model = decodelib.Model(self.ctx, path, f64)
        self.addCleanup(model.close)
        return model

    def differences(self, kind, f64, first, **planted):
        """The largest of |ours - reference| over states and weights of the first sequence."""
        seen = []
        ids, types = self.ids[0], None if kind == "distilbert" else self.types[0][None]
        self.open(kind, f64).encode(ids[None], WIDTH, type_ids=types, watch=lambda *x: seen.append(x))
        tensors = dict(self.tensors)
        if types is None:
            types, planted = np.zeros((1, len(ids)), int), dict(planted, eps=1e-12)
            tensors[EMBEDDINGS.format("token_type")] = np.zeros((2, WIDTH))
        states, weights = reference(tensors, ids, types[0], first, **planted)
        self.assertEqual([layer for layer, _, _ in seen], list(range(-1, LAYERS)))
        worst = max(np.abs(hidden[0] - s).max() for (_, hidden, _), s in zip(seen, states))
        return max([worst] + [np.abs(w[0] - r).max() for (_, _, w), r in zip(seen[1:], weights) if w[0].shape == r.shape])

    def test_every_number(self):
        for kind, first in (("bert", 0), ("distilbert", 0), ("roberta", PAD + 1), ("xlm-roberta", PAD + 1), ("camembert", PAD + 1)):
            self.assertLess(self.differences(kind, False, first), 2e-5, kind)
            self.assertLess(self.differences(kind, True, first), 1e-12, kind)
            self.assertGreater(self.differences(kind, True, first + 1), 0.1, "positions off by one")
            self.assertGreater(self.differences(kind, True, first, heads=2), 0.1, "heads of another width")

    def test_the_bits_of_a_sequence(self):
        model = self.open("bert")
        alone, looks = [], []
        for x, t in zip(self.ids, self.types):
            look = lambda layer, hidden, weights: looks.append(weights)  # noqa: E731
            alone.append(model.encode(x[None], WIDTH, type_ids=t[None], watch=look)[0])
        longest = max(map(len, self.ids)) + 2
        for left in (False, True):
            ids, types, mask = (np.full((len(self.ids), longest), value) for value in (3, 1, 0))
            places = [slice(longest - len(x), longest) if left else slice(len(x)) for x in self.ids]
            for b, place in enumerate(places):
                ids[b, place], types[b, place], mask[b, place] = self.ids[b], self.types[b], 1
            last, batch = [], []
            out = model.encode(ids, WIDTH, mask=mask, type_ids=types)
            look = lambda layer, hidden, weights: (last.append(hidden), batch.append(weights))  # noqa: E731
            model.encode(ids, WIDTH, mask=mask, type_ids=types, watch=look)
            for b, place in enumerate(places):
                np.testing.assert_array_equal(out[b, place], alone[b])
                self.assertFalse(np.delete(out[b], np.r_[place], 0).any(), "padding gives 0")
                for layer in range(1, LAYERS + 1):
                    want = np.zeros((HEADS, longest, longest), np.float32)
                    want[:, place, place] = looks[b * (LAYERS + 1) + layer][0]
                    np.testing.assert_array_equal(batch[layer][b], want)
            np.testing.assert_array_equal(last[-1], out)
            if not left:
                lengths = np.array([len(x) for x in self.ids])
                np.testing.assert_array_equal(model.encode(ids, WIDTH, lengths=lengths, type_ids=types), out)

    def test_refusals(self):
        model = self.open("bert")
        ids = np.zeros((2, 4), np.int64)
        for words, call in {
                "the model takes": lambda: model.encode(np.zeros((1, ROOM + 1)), WIDTH),
                "must be \\[2,4,32\\]": lambda: model.encode(ids, WIDTH + 1),
                "hole": lambda: model.encode(ids, WIDTH, mask=np.array([[1, 0, 1, 1]] * 2)),
                "id": lambda: model.encode(ids + VOCAB, WIDTH),
                "distilbert has no segments": lambda: self.open("distilbert").encode(ids, WIDTH, type_ids=ids),
                "type_ids must": lambda: model.encode(ids, WIDTH, type_ids=np.zeros((2, 3), np.int64)),
                "lengths\\[1\\] is 5": lambda: model.encode(ids, WIDTH, lengths=np.array([1, 5]))}.items():
            with self.assertRaisesRegex(Exception, words):
                call()


if __name__ == "__main__":
    unittest.main()
