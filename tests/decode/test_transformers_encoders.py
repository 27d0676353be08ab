# SPDX-License-Identifier: Apache-2.0
"""Encoders against transformers: random checkpoints in the layouts of BERT (base, whole), RoBERTa, XLM-R, CamemBERT and DistilBERT, whose
query and key weights are enlarged until attention is sharp, agree in all hidden states and attentions within 1e-4, padded on either side;
a planted mistake of the positions, the heads, the segments, the mask or the norm does not."""
import json
import pathlib
import sys
import tempfile
import unittest

import numpy as np
import torch
import transformers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
import attnlib  # noqa: E402
import decodelib  # noqa: E402

TOLERANCE, VOCAB, LONGEST, PAD = 1e-4, 200, 24, 1
LENGTHS = (24, 17, 9)
SMALL = {"vocab_size": VOCAB, "hidden_size": 192, "intermediate_size": 400, "num_hidden_layers": 3, "num_attention_heads": 6,
         "max_position_embeddings": 40, "pad_token_id": PAD, "attn_implementation": "eager"}

transformers.utils.logging.disable_progress_bar()


def sharpened(model, factor):
    """Random weights, query and key enlarged: attention is not near uniform, which would hide mistakes. Biases and norms count too."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.ndim == 1:
                p.add_(torch.randn_like(p) * 0.1)
            elif any(part in name for part in ("query", "key", "q_lin", "k_lin")):
                p *= factor
            elif "embeddings" in name:
                p *= 10  # of the size of a trained one, beside which the position counts
    return model.eval()


def near(got, want):
    return got.shape == want.shape and float(np.abs(got - want).max()) <= TOLERANCE * float(np.abs(want).max())


class Case:
    """A checkpoint on disk, three sentences, and what transformers makes of them."""

    def __init__(self, test, model, left, has_types):
        rng = np.random.default_rng(6)
        self.ids, self.mask = np.full((len(LENGTHS), LONGEST), PAD), np.zeros((len(LENGTHS), LONGEST), int)
        for b, n in enumerate(LENGTHS):
            self.ids[b, LONGEST - n if left else 0:][:n] = rng.integers(5, VOCAB, n)
        self.mask = (self.ids != PAD).astype(int)
        self.types = ((np.cumsum(self.mask, 1) > 5) & (self.mask == 1)).astype(int) if has_types else None
        folder = tempfile.TemporaryDirectory()
        test.addCleanup(folder.cleanup)
        model.save_pretrained(folder.name)
        self.path = pathlib.Path(folder.name)
        given = {"input_ids": torch.tensor(self.ids), "attention_mask": torch.tensor(self.mask)}
        if has_types:
            given["token_type_ids"] = torch.tensor(self.types)
        if model.config.model_type in ("bert", "distilbert") and left:  # positions of its own accord count from the padding
            places = np.maximum(np.cumsum(self.mask, 1) - 1, 0)
            if model.config.model_type == "bert":
                given["position_ids"] = torch.tensor(places)
            else:
                del given["input_ids"]
                given["inputs_embeds"] = self.embedded(model, places)
        with torch.no_grad():
            self.want = model(**given, output_hidden_states=True, output_attentions=True)
        self.width = model.config.hidden_size

    def embedded(self, model, places):
        """DistilBERT takes no position ids: the difference of their rows is put into the words'."""
        with torch.no_grad():
            e = model.embeddings
            wanted = e.position_embeddings(torch.tensor(places)) - e.position_embeddings(torch.arange(LONGEST))[None]
            return e.word_embeddings(torch.tensor(self.ids)) + wanted

    def real(self, numbers):
        """Of tokens alone: transformers computes padding too."""
        return np.concatenate([numbers[b][m == 1] for b, m in enumerate(self.mask)])

    def weights(self, numbers):
        return np.concatenate([numbers[b][:, m == 1][:, :, m == 1].ravel() for b, m in enumerate(self.mask)])

    def compare(self, ctx, mask=None, types=None):
        """Which of the model's numbers differ."""
        ours, seen = decodelib.Model(ctx, self.path), {}
        last = ours.encode(self.ids, self.width, mask=self.mask if mask is None else mask, type_ids=self.types if types is None else types,
                           watch=lambda layer, hidden, weights: seen.update({layer: (hidden, weights)}))
        ours.close()
        states, attentions = self.want.hidden_states, self.want.attentions
        wrong = [] if near(self.real(last), self.real(states[-1].numpy())) else ["last"]
        wrong += [f"hidden {i}" for i, s in enumerate(states) if not near(self.real(seen[i - 1][0]), self.real(s.numpy()))]
        return wrong + [f"attention {i}" for i, a in enumerate(attentions) if not near(self.weights(seen[i][1]), self.weights(a.numpy()))]

    def sharpness(self):
        rows = [a.numpy()[b].max(-1)[:, m == 1].mean() for a in self.want.attentions for b, m in enumerate(self.mask)]
        return float(np.mean(rows))

    def change(self, **fields):
        path = self.path / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | fields))


class Encoders(unittest.TestCase):
    ctx = attnlib.Context()

    def setUp(self):
        torch.manual_seed(7)

    def agrees(self, model, factor, has_types):
        sharpened(model, factor)
        for left in (False, True):
            case = Case(self, model, left, has_types)
            self.assertGreater(case.sharpness(), 0.5)
            self.assertEqual(case.compare(self.ctx), [])
        return case

    def test_bert_base(self):
        config = transformers.BertConfig(vocab_size=30522, attn_implementation="eager", pad_token_id=PAD)
        self.assertEqual((config.hidden_size, config.num_hidden_layers, config.num_attention_heads), (768, 12, 12))
        self.agrees(transformers.BertModel(config), 5, True)

    def test_roberta(self):
        self.agrees(transformers.RobertaModel(transformers.RobertaConfig(**SMALL, type_vocab_size=1, layer_norm_eps=1e-5)), 14, False)

    def test_xlm_roberta(self):
        config = transformers.XLMRobertaConfig(**SMALL, type_vocab_size=1, layer_norm_eps=1e-5, hidden_act="gelu_new")
        self.agrees(transformers.XLMRobertaModel(config), 14, False)

    def test_camembert(self):
        self.agrees(transformers.CamembertModel(transformers.CamembertConfig(**SMALL, type_vocab_size=1)), 14, False)

    def test_distilbert(self):
        config = transformers.DistilBertConfig(vocab_size=VOCAB, dim=192, hidden_dim=400, n_layers=3, n_heads=6, max_position_embeddings=40,
                                               pad_token_id=PAD, attn_implementation="eager")
        self.agrees(transformers.DistilBertModel(config), 14, False)

    def test_planted_mistakes_fail(self):
        small = transformers.BertModel(transformers.BertConfig(**SMALL))
        case = self.agrees(small, 14, True)
        fewer = case.mask.copy()
        fewer[1, np.flatnonzero(fewer[1])[-1]] = 0  # the last token of a sentence hidden
        self.assertIn("attention 0", case.compare(self.ctx, mask=fewer))
        self.assertIn("hidden 0", case.compare(self.ctx, types=1 - case.types))
        for fields, wrong in (({"num_attention_heads": 3}, "last"), ({"layer_norm_eps": 1e-2}, "last"), ({"hidden_act": "relu"}, "last")):
            case = Case(self, small, False, True)
            case.change(**fields)
            with self.subTest(fields):
                self.assertIn(wrong, case.compare(self.ctx))
        model = sharpened(transformers.RobertaModel(transformers.RobertaConfig(**SMALL, type_vocab_size=1)), 14)
        case = Case(self, model, True, False)
        case.change(pad_token_id=0)  # the positions begin one too early
        self.assertIn("hidden 0", case.compare(self.ctx))


if __name__ == "__main__":
    unittest.main()
