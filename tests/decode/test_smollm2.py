# SPDX-License-Identifier: Apache-2.0
"""SmolLM2-135M-Instruct out of its Q4_1 .gguf against transformers' LlamaForCausalLM with the same dequantised weights: the greedy tokens
of ten prompts are equal for 128 tokens, or the first difference has a gap under 1e-3 between transformers' two greatest logits; from there
on our tokens are given to both (teacher-forced). $SMOLLM2_GGUF names the file."""
import os
import pathlib
import sys
import unittest

import gguf
import numpy as np
import torch
import transformers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
import attnlib  # noqa: E402
import decodelib  # noqa: E402

NAMES = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm",
         "ffn_norm": "post_attention_layernorm"}
TOKENS, GAP = 128, 1e-3


def halves(w, heads):
    """Rows of q or k from llama.cpp's order (pairs side by side) to that of Hugging Face."""
    return w.reshape(heads, w.shape[0] // heads // 2, 2, w.shape[1]).swapaxes(1, 2).reshape(w.shape)


def reference(path):
    config = transformers.LlamaConfig(vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
                                      num_attention_heads=9, num_key_value_heads=3, max_position_embeddings=8192, rms_norm_eps=1e-5,
                                      tie_word_embeddings=True, rope_parameters={"rope_type": "default", "rope_theta": 100000.0})
    state = {}
    for t in gguf.GGUFReader(path).tensors:
        w = gguf.quants.dequantize(t.data, t.tensor_type)
        parts = t.name.split(".")
        if parts[0] == "blk":
            w = halves(w, 9 if parts[2] == "attn_q" else 3) if parts[2] in ("attn_q", "attn_k") else w
            state[f"model.layers.{parts[1]}.{NAMES[parts[2]]}.weight"] = w
        else:
            state[{"token_embd": "model.embed_tokens.weight", "output_norm": "model.norm.weight"}[parts[0]]] = w
    model = transformers.LlamaForCausalLM(config)
    missing = model.load_state_dict({k: torch.tensor(v) for k, v in state.items()}, strict=False)
    assert missing.missing_keys in ([], ["lm_head.weight"]) and not missing.unexpected_keys
    return model.eval()


class SmolLM2(unittest.TestCase):
    def test_greedy(self):
        path = os.environ["SMOLLM2_GGUF"]
        theirs, ctx = reference(path), attnlib.Context()
        ours = decodelib.Model(ctx, path)
        rng = np.random.default_rng(1)
        equal = 0
        for _ in range(10):
            prompt = rng.integers(100, 20000, 8)
            session = decodelib.Session(ours, 49152, 200)
            made, logits = [], session.feed(prompt[None])
            for _ in range(TOKENS):
                made.append(int(logits[0].argmax()))
                logits = session.feed([[made[-1]]])
            session.close()
            with torch.no_grad():
                want = theirs(torch.tensor([prompt.tolist() + made])).logits[0, len(prompt) - 1:-1].numpy()
            best = want.argmax(-1)
            for i in np.nonzero(best != made)[0]:
                self.assertLess(want[i, best[i]] - want[i, made[i]], GAP, f"token {i}")
            equal += int((best == made).all())
        print(f"{equal} of 10 prompts equal in all {TOKENS} tokens")


if __name__ == "__main__":
    unittest.main()
