# SPDX-License-Identifier: Apache-2.0
"""Decoders against transformers: random checkpoints in the layouts of Llama, Qwen2 and GPT-2, whose query and key weights are enlarged
until attention is sharp, agree in all hidden states, attentions and logits within 1e-4; a planted mistake does not.
ATTN_FULL_DEPTH=1 runs the 24 layers of Qwen2.5-0.5B instead of four."""
import json
import os
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

TOLERANCE = 1e-4
SHARP = 1.5  # more, and the roundings of either side grow beyond the tolerance from layer to layer
GPT2_SHARP = 2.0  # LayerNorm and biases leave less to be sharp
LAYERS = 24 if os.environ.get("ATTN_FULL_DEPTH") == "1" else 4
ROPES = {"plain": None, "linear": {"rope_type": "linear", "factor": 4.0}, "yarn": {"rope_type": "yarn", "factor": 4.0,
                                                                                 "original_max_position_embeddings": 64},
         "llama3": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                    "original_max_position_embeddings": 64}, "dynamic": {"rope_type": "dynamic", "factor": 2.0}}


def sharpened(model, sharp=SHARP, names=("q_proj", "k_proj")):
    """Random weights, query and key enlarged: attention is not near uniform, which would hide mistakes."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.ndim == 1 and name.endswith("bias"):
                p.copy_(torch.randn_like(p) * 0.1)
            if any(n in name for n in names) and p.ndim == 2:
                p *= sharp
            if "c_attn.weight" in name:
                p[:, :2 * p.shape[0]] *= sharp
            if name.endswith(("q_norm.weight", "k_norm.weight")):
                p.copy_(2 + 0.5 * torch.randn_like(p))
    return model.eval()


def near(got, want):
    if got.shape != want.shape:
        return False
    scale = max(1e-30, float(np.abs(want).max()))
    return float(np.abs(got - want).max()) / scale <= TOLERANCE


class Case:
    def __init__(self, test, model, ids):
        self.ids, self.model = ids, model
        folder = tempfile.TemporaryDirectory()
        test.addCleanup(folder.cleanup)
        model.save_pretrained(folder.name, safe_serialization=True)
        self.folder = pathlib.Path(folder.name)
        with torch.no_grad():
            self.want = model(torch.tensor(ids), output_hidden_states=True, output_attentions=True, use_cache=False)

    def compare(self, ctx):
        """Which of the model's numbers differ."""
        vocab = self.model.config.vocab_size
        ours = decodelib.Model(ctx, self.folder)
        session = decodelib.Session(ours, vocab, self.ids.shape[1], batch=self.ids.shape[0])
        seen = {}
        logits = session.feed(self.ids, everything=True, watch=lambda layer, hidden, weights: seen.update({layer: (hidden, weights)}))
        session.close()
        ours.close()
        states, attentions = self.want.hidden_states, self.want.attentions
        wrong = [] if near(logits, self.want.logits.numpy()) else ["logits"]
        # The last of transformers' hidden states is behind the last norm; ours is before it.
        wrong += [f"hidden {i}" for i in range(len(states) - 1) if not near(seen[i - 1][0], states[i].numpy())]
        wrong += [f"attention {i}" for i, a in enumerate(attentions) if not near(seen[i][1], a.numpy())]
        return wrong

    def sharpness(self):
        return float(np.mean([a.numpy().max(-1).mean() for a in self.want.attentions]))


class Decoders(unittest.TestCase):
    ctx = attnlib.Context()

    def setUp(self):
        torch.manual_seed(5)
        self.ids = np.random.default_rng(5).integers(0, 100, (2, 40))

    def agrees(self, model, sharp=SHARP):
        case = Case(self, sharpened(model, sharp), self.ids)
        self.assertGreater(case.sharpness(), 0.5)
        self.assertEqual(case.compare(self.ctx), [])
        return case

    def llama(self, **more):
        config = {"vocab_size": 100, "hidden_size": 96, "intermediate_size": 200, "num_hidden_layers": 3, "num_attention_heads": 6,
                  "num_key_value_heads": 2, "max_position_embeddings": 256, "attn_implementation": "eager", "initializer_range": 0.2}
        return transformers.LlamaForCausalLM(transformers.LlamaConfig(**(config | more)))

    def test_llama_ropes(self):
        for name, rope in ROPES.items():
            with self.subTest(name):
                self.agrees(self.llama(rope_parameters=rope and rope | {"rope_theta": 5000.0}))

    def test_llama_fields(self):
        self.agrees(self.llama(attention_bias=True, mlp_bias=True, tie_word_embeddings=True, head_dim=20, rms_norm_eps=1e-3,
                               num_key_value_heads=6))

    def test_qwen2_at_full_width(self):
        config = transformers.Qwen2Config(vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=LAYERS,
                                          num_attention_heads=14, num_key_value_heads=2, max_position_embeddings=32768,
                                          tie_word_embeddings=True, rms_norm_eps=1e-6, attn_implementation="eager", initializer_range=0.06,
                                          rope_parameters={"rope_type": "default", "rope_theta": 1000000.0})
        self.agrees(transformers.Qwen2ForCausalLM(config))

    def test_qwen2_windows(self):
        config = transformers.Qwen2Config(vocab_size=100, hidden_size=96, intermediate_size=200, num_hidden_layers=4, num_attention_heads=6,
                                          num_key_value_heads=2, use_sliding_window=True, sliding_window=7, max_window_layers=2,
                                          attn_implementation="eager", initializer_range=0.2)
        case = self.agrees(transformers.Qwen2ForCausalLM(config))
        self.assertEqual(float(case.want.attentions[3][0, 0, 39, :33].sum()), 0)

    def test_qwen3(self):
        config = transformers.Qwen3Config(vocab_size=100, hidden_size=96, intermediate_size=200, num_hidden_layers=3, num_attention_heads=6,
                                          num_key_value_heads=2, head_dim=20, tie_word_embeddings=True, attn_implementation="eager",
                                          initializer_range=0.2)
        self.agrees(transformers.Qwen3ForCausalLM(config))

    def test_mistral(self):
        config = transformers.MistralConfig(vocab_size=100, hidden_size=96, intermediate_size=200, num_hidden_layers=2, head_dim=16,
                                            num_attention_heads=6, num_key_value_heads=2, sliding_window=9, attn_implementation="eager",
                                            initializer_range=0.2)
        self.agrees(transformers.MistralForCausalLM(config))

    def test_gpt2(self):
        config = transformers.GPT2Config(vocab_size=100, n_embd=96, n_layer=3, n_head=6, n_positions=64, attn_implementation="eager",
                                         initializer_range=0.1)
        self.agrees(transformers.GPT2LMHeadModel(config), GPT2_SHARP)

    def test_planted_mistakes_fail(self):
        model = sharpened(self.llama())
        for name, change in {"theta": ("rope_theta", 9000.0), "heads": ("num_attention_heads", 12), "eps": ("rms_norm_eps", 1e-2)}.items():
            with self.subTest(name):
                case = Case(self, model, self.ids)
                path = case.folder / "config.json"
                config = json.loads(path.read_text())
                if change[0] == "num_attention_heads":
                    config.update(num_attention_heads=12, num_key_value_heads=4, head_dim=8)
                elif change[0] == "rope_theta":
                    config["rope_parameters"] = {"rope_type": "default", "rope_theta": 9000.0}
                else:
                    config[change[0]] = change[1]
                path.write_text(json.dumps(config))
                self.assertNotEqual(case.compare(self.ctx), [])
        # A window where there is none is a mask of another shape.
        case = Case(self, model, self.ids)
        config = json.loads((case.folder / "config.json").read_text())
        (case.folder / "config.json").write_text(json.dumps(config | {"model_type": "mistral", "sliding_window": 5}))
        self.assertIn("attention 0", case.compare(self.ctx))


if __name__ == "__main__":
    unittest.main()
