# SPDX-License-Identifier: Apache-2.0
"""SmolLM2-135M-Instruct out of its Q4_1 .gguf against transformers' LlamaForCausalLM with the same dequantised weights: the greedy tokens
of ten prompts are equal for 128 tokens, or the first difference has a gap under 1e-3 between transformers' two greatest logits; from there
on our tokens are given to both (teacher-forced). Its tokenizer against `tokenizers`, its chat template and those of chats.py against
Jinja. $MODEL names the file: ../oracle/fetch.sh."""
import os
import pathlib
import sys
import unittest

import gguf
import jinja2
import numpy as np
import tokenizers
import torch
import transformers

here = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(here), str(here.parent / "python"), str(here.parent / "oracle")]
import attnlib  # noqa: E402
import chats  # noqa: E402
import decodelib  # noqa: E402
import test_tokenizers  # noqa: E402
import text_library  # noqa: E402

PATH = os.environ["MODEL"]
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


PROMPTS = ["The capital of France is", "Once upon a time, in a village by the sea,", "def fibonacci(n):\n", "1, 2, 3, 4,",
           "Attention is a mechanism that"]
QUESTIONS = ["What is gravity?", "Write a short poem about the sea.", "Who wrote Hamlet?", "List three fruits.", "Why is the sky blue?"]


class Tokenizer(text_library.Tokenizer):
    """The one that libattn_load makes of the .gguf, with text_library's calls."""

    def __init__(self):
        self.loaded = decodelib.Tokenizer(PATH)
        self.t, self.err = self.loaded.handle, text_library.create_string_buffer(1000)

    def __del__(self):
        pass  # self.loaded has it

    def ids(self, text):
        return self.encode(text)["ids"]


def render(template, messages, date=None):
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template).render(messages=[{"role": r, "content": c} for r, c in messages], bos_token="<s>",
                                                    add_generation_prompt=True, strftime_now=lambda form: date)


class SmolLM2(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fields, cls.tokenizer = gguf.GGUFReader(PATH).fields, Tokenizer()

    def value(self, key):
        return self.fields[key].contents()

    def test_tokenizer(self):
        words, types = self.value("tokenizer.ggml.tokens"), self.value("tokenizer.ggml.token_type")
        merges = [tuple(m.split(" ")) for m in self.value("tokenizer.ggml.merges")]
        theirs = tokenizers.Tokenizer(tokenizers.models.BPE({w: i for i, w in enumerate(words)}, merges))
        theirs.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([tokenizers.pre_tokenizers.Digits(individual_digits=True),
                                                                   tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)])
        theirs.decoder = tokenizers.decoders.ByteLevel()
        theirs.add_special_tokens([w for w, kind in zip(words, types) if kind == 3])
        texts = list(test_tokenizers.strings(3, 1500)) + [chats.expected("chatml", chats.TOLD)]
        self.assertEqual(test_tokenizers.compare("smollm", self.tokenizer, theirs, texts), 0)

    def test_chat_templates(self):
        template = self.value("tokenizer.chat_template")
        for messages in chats.MESSAGES.values():
            self.assertEqual(self.tokenizer.loaded.chat(messages), render(template, messages))
            for name, ours in chats.TEMPLATES.items():
                self.assertEqual(chats.expected(name, messages), render(ours, messages, chats.DATE), name)

    def test_greedy(self):
        torch.set_num_threads(1)  # neither side waits for a thread beside other tests
        theirs, ours = reference(PATH), decodelib.Model(attnlib.Context(threads=1), PATH)
        texts = PROMPTS + [self.tokenizer.loaded.chat([("user", q)]) for q in QUESTIONS]
        prompts = [self.tokenizer.ids(text) for text in texts]
        lengths = np.array([len(p) for p in prompts])
        session = decodelib.Session(ours, 49152, lengths.max() + TOKENS, batch=len(prompts))
        logits, made = session.feed([p + [0] * (lengths.max() - len(p)) for p in prompts], lengths=lengths), []
        for _ in range(TOKENS):
            made.append(logits.argmax(-1))
            logits = session.feed(made[-1][:, None])
        session.close()
        equal = 0
        for text, prompt, answer in zip(texts, prompts, np.transpose(made)):
            with torch.no_grad():
                want = theirs(torch.tensor([prompt + answer.tolist()])).logits[0, len(prompt) - 1:-1].numpy()
            best = want.argmax(-1)
            for i in np.nonzero(best != answer)[0]:
                self.assertLess(want[i, best[i]] - want[i, answer[i]], GAP, f"{text!r}, token {i}")
            equal += int((best == answer).all())
        print(f"{equal} of {len(prompts)} prompts equal in all {TOKENS} tokens")


if __name__ == "__main__":
    unittest.main()
