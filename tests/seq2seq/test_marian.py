#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MarianMT folders against transformers: random weights, sharp attention, every hidden state and attention, greedy and beam search."""
import json
import os
import pathlib
import tempfile
import unittest

import numpy as np
import torch
import transformers

import seq2seq
from attnlib import AttnError, Context
from decodelib import LoadError

LARGE = os.environ.get("MARIAN_SIZE") == "base"
SIZES = {"d_model": 512, "encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 8, "decoder_attention_heads": 8,
         "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048, "vocab_size": 4001, "max_position_embeddings": 512} if LARGE else {
         "d_model": 48, "encoder_layers": 3, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
         "encoder_ffn_dim": 80, "decoder_ffn_dim": 64, "vocab_size": 97, "max_position_embeddings": 64}
PAD = SIZES["vocab_size"] - 1
BOUND = 1e-4


def make(folder):
    """A model whose attention looks at few keys: the mean largest weight is above a half."""
    torch.manual_seed(3)
    config = transformers.MarianConfig(**{**SIZES, "pad_token_id": PAD, "eos_token_id": 0, "decoder_start_token_id": PAD,
                                          "forced_eos_token_id": 0, "scale_embedding": True, "activation_function": "swish",
                                          "init_std": 0.02 if LARGE else 0.05})
    model = transformers.MarianMTModel(config).eval()
    model.set_attn_implementation("eager")
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith(("q_proj.weight", "k_proj.weight")):
                p.mul_(4.0 if LARGE else 6.0)
            if name.endswith("bias") or "layer_norm" in name:
                p.add_(0.1 * torch.randn_like(p))
        model.final_logits_bias.copy_(0.3 * torch.randn_like(model.final_logits_bias))
    model.generation_config.update(bad_words_ids=[[PAD]], max_length=40)
    model.save_pretrained(folder)
    return model


def apart(got, want):
    return float(np.abs(got - want).max() / np.abs(want).max())


class Marian(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory(prefix="attn-marian-")
        cls.theirs, cls.ours = make(cls.place.name), seq2seq.Model(Context(), cls.place.name)
        rng = np.random.default_rng(5)
        cls.sources = [rng.integers(1, PAD, n).tolist() + [0] for n in (11, 1, 5, 29)]
        cls.targets = [[PAD] + rng.integers(1, PAD, n).tolist() for n in (9, 3, 17, 1)]

    @classmethod
    def tearDownClass(cls):
        cls.ours.close()
        cls.place.cleanup()

    def run_theirs(self, source, target):
        with torch.no_grad():
            return self.theirs(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([target]), output_hidden_states=True,
                               output_attentions=True)

    def test_everything_between(self):
        sharpest = []
        for source, target in zip(self.sources, self.targets):
            want = self.run_theirs(source, target)
            logits, seen = self.ours.teach(source, target, SIZES["vocab_size"])
            self.assertLess(apart(logits, want.logits[0].numpy()), BOUND)
            for part, hidden, own, cross in ((0, want.encoder_hidden_states, want.encoder_attentions, None),
                                             (1, want.decoder_hidden_states, want.decoder_attentions, want.cross_attentions)):
                for layer, states in enumerate(hidden):
                    self.assertLess(apart(seen[part, layer - 1][0], states.numpy()), BOUND, (part, layer))
                for layer, weights in enumerate(own):
                    self.assertLess(apart(seen[part, layer][1], weights.numpy()), BOUND, (part, layer))
                    sharpest.append(weights.max(-1).values.mean().item())
                for layer, weights in enumerate(cross or ()):
                    self.assertLess(apart(seen[part, layer][2], weights.numpy()), BOUND, (part, layer))
                    sharpest.append(weights.max(-1).values.mean().item())
        self.assertGreater(np.mean(sharpest), 0.5)

    def test_the_encoder_alone(self):
        """attn_pretrained_encode: a batch padded on either side has the bits of each source alone, which are transformers' states."""
        L = max(map(len, self.sources))
        left = [i % 2 for i in range(len(self.sources))]
        ids = np.array([[PAD] * (L - len(s)) * a + s + [PAD] * (L - len(s)) * (1 - a) for s, a in zip(self.sources, left)])
        mask = np.array([np.roll(np.arange(L) < len(s), (L - len(s)) * a) for s, a in zip(self.sources, left)])
        states = self.ours.encode(ids, SIZES["d_model"], mask=mask)
        for i, source in enumerate(self.sources):
            alone = self.ours.encode([source], SIZES["d_model"])[0]
            np.testing.assert_array_equal(states[i][mask[i]], alone)
            self.assertFalse(states[i][~mask[i]].any())
            want = self.run_theirs(source, self.targets[i]).encoder_last_hidden_state[0].numpy()
            self.assertLess(apart(alone, want), BOUND)

    def test_a_key_that_cross_attention_misses_is_seen(self):
        """The bound is no blank cheque: without the source's last token the logits are far away."""
        source, target = self.sources[0], self.targets[0]
        with torch.no_grad():
            mask = torch.tensor([[1] * (len(source) - 1) + [0]])
            states = self.theirs.get_encoder()(torch.tensor([source]))
            wrong = self.theirs(encoder_outputs=states, attention_mask=mask, decoder_input_ids=torch.tensor([target])).logits[0].numpy()
        self.assertGreater(apart(self.ours.teach(source, target, SIZES["vocab_size"])[0], wrong), 100 * BOUND)

    @unittest.skipIf(LARGE, "the small model searches")
    def test_translations(self):
        cases = [{"beams": 1}, {"beams": 3, "early": "never"}, {"beams": 4}, {"beams": 6, "length_penalty": 2.0},
                 {"beams": 3, "early": True},
                 {"beams": 2, "length_penalty": 0.0}, {"beams": 5, "max_tokens": 7}, {"beams": 4, "length_penalty": -0.5}]
        for source in self.sources[:2]:
            for case in cases:
                more = {"num_beams": case["beams"], "length_penalty": case.get("length_penalty", 1.0),
                        "early_stopping": case.get("early", False), "max_length": case.get("max_tokens", 39) + 1}
                more = {k: v for k, v in more.items() if case["beams"] > 1 or k in ("num_beams", "max_length")}
                with torch.no_grad():
                    want = self.theirs.generate(torch.tensor([source]), return_dict_in_generate=True, output_scores=True, **more)
                ids, score = self.ours.translate(source, **case)
                self.assertEqual([PAD] + ids, want.sequences[0].tolist(), case)
                if case["beams"] > 1:
                    self.assertAlmostEqual(score, want.sequences_scores[0].item(), delta=1e-4 * max(1, abs(score)), msg=str(case))

    def test_what_is_not_computed_is_refused_by_name(self):
        config = pathlib.Path(self.place.name, "config.json")
        right = config.read_text(encoding="utf-8")
        for field, value, words in (("normalize_before", True, "normalize_before"), ("activation_function", "quick_gelu2", "quick_gelu2"),
                                    ("share_encoder_decoder_embeddings", False, "share_encoder"),
                                    ("encoder_layers", None, "encoder_layers"), ("d_model", SIZES["d_model"] + 8, "shared"),
                                    ("rotary", 3, "rotary"), ("decoder_layers", 1, "decoder.layers")):
            config.write_text(json.dumps({**json.loads(right), field: value}), encoding="utf-8")
            with self.subTest(field), self.assertRaisesRegex(LoadError, words):
                seq2seq.Model(self.ours.ctx, self.place.name).close()
        config.write_text(right, encoding="utf-8")
        for ids in ([], [SIZES["vocab_size"]], [-1], [1] * (SIZES["max_position_embeddings"] + 1)):
            with self.assertRaises(AttnError):
                self.ours.translate(ids)


if __name__ == "__main__":
    unittest.main()
