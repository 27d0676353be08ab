# SPDX-License-Identifier: Apache-2.0
"""Small models with random weights and a tokenizer each, as folders and as a .gguf, for what is shown of a model: an encoder (BERT),
decoders (GPT-2; Mistral with a window; a llama out of a .gguf, with grouped heads and RoPE) and one that translates (Marian)."""
import json
import pathlib

import numpy as np

from foldermake import write_tensors
from ggufmake import gguf

WIDTH, HEADS, HIDDEN, LAYERS, ROOM = 32, 4, 48, 3, 40
SHARP = 1.2  # of query and key weights: so that heads look somewhere


def folder_of(folder, config, tensors, files):
    """The folder, with its files' texts (JSON unless they are strings)."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in {"config.json": config, **files}.items():
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        (folder / name).write_text(text, encoding="utf-8")
    write_tensors(folder, tensors)
    return folder


class Draw:
    """Random tensors by name: weights and biases of a Linear, of a norm."""

    def __init__(self, seed):
        self.rng, self.t = np.random.default_rng(seed), {}

    def put(self, name, *shape, size=0.3, about=0.0):
        self.t[name] = (about + size * self.rng.normal(size=shape)).astype(np.float32)

    def linear(self, name, rows, columns, bias=True, **more):
        self.put(name + ".weight", rows, columns, **more)
        if bias:
            self.put(name + ".bias", rows)

    def norm(self, name, bias=True):
        self.put(name + ".weight", WIDTH, size=0.2, about=1)
        if bias:
            self.put(name + ".bias", WIDTH, size=0.2)


# ---- an encoder ----

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "on", "mat", "un", "##believ", "##ably", "well", ".", "나는",
          "학", "##생",
          "##입", "##니다", "##s"]


def bert(folder):
    d = Draw(1)
    for name, rows in (("word", len(PIECES)), ("position", ROOM), ("token_type", 2)):
        d.put(f"embeddings.{name}_embeddings.weight", rows, WIDTH, size=1)
    d.norm("embeddings.LayerNorm")
    for i in range(LAYERS):
        at = f"encoder.layer.{i}."
        for name in ("query", "key", "value"):
            d.linear(f"{at}attention.self.{name}", WIDTH, WIDTH, size=SHARP / 2 if name != "value" else 0.3)
        d.linear(at + "attention.output.dense", WIDTH, WIDTH)
        d.linear(at + "intermediate.dense", HIDDEN, WIDTH)
        d.linear(at + "output.dense", WIDTH, HIDDEN)
        d.norm(at + "attention.output.LayerNorm")
        d.norm(at + "output.LayerNorm")
    config = {"model_type": "bert", "hidden_size": WIDTH, "intermediate_size": HIDDEN, "num_hidden_layers": LAYERS,
              "num_attention_heads": HEADS, "vocab_size": len(PIECES), "max_position_embeddings": ROOM, "type_vocab_size": 2,
              "layer_norm_eps": 1e-5, "hidden_act": "gelu", "pad_token_id": 0}
    return folder_of(folder, config, d.t, {"vocab.txt": "\n".join(PIECES) + "\n", "tokenizer_config.json": {"do_lower_case": False}}), d.t


# ---- decoders ----

# Bytes as GPT-2 writes them: "나는" is EB 82 98 EB 8A 94.
LETTERS = ["<end>", "a", "b", "c", "Ġ", "ë", "Ĥ", "ĺ", "Ĭ", "Ķ", "ab", "Ġab", "Ġc"]
MERGES = ["a b", "Ġ ab", "Ġ c"]


def gpt2(folder):
    d = Draw(2)
    d.put("wte.weight", len(LETTERS), WIDTH, size=1)
    d.put("wpe.weight", ROOM, WIDTH, size=1)
    d.norm("ln_f")
    for i in range(LAYERS):
        at = f"h.{i}."
        d.put(at + "attn.c_attn.weight", WIDTH, 3 * WIDTH)
        d.put(at + "attn.c_attn.bias", 3 * WIDTH)
        for name, rows, columns in (("attn.c_proj", WIDTH, WIDTH), ("mlp.c_fc", WIDTH, 4 * WIDTH), ("mlp.c_proj", 4 * WIDTH, WIDTH)):
            d.put(at + name + ".weight", rows, columns)
            d.put(at + name + ".bias", columns)
        d.norm(at + "ln_1")
        d.norm(at + "ln_2")
    config = {"model_type": "gpt2", "n_layer": LAYERS, "n_embd": WIDTH, "n_head": HEADS, "n_positions": ROOM, "vocab_size": len(LETTERS),
              "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new", "eos_token_id": 0}
    return folder_of(folder, config, d.t, byte_level()), d.t


def byte_level():
    return {"vocab.json": {token: n for n, token in enumerate(LETTERS)}, "merges.txt": "#version: 0.2\n" + "\n".join(MERGES) + "\n",
            "tokenizer_config.json": {"eos_token": "<end>"}}


def llama_tensors(d, names, kv_heads, bias):
    dim = WIDTH // HEADS
    for i in range(LAYERS):
        at = names["layer"].format(i)
        d.linear(at + names["q"], HEADS * dim, WIDTH, bias)
        d.linear(at + names["k"], kv_heads * dim, WIDTH, bias)
        d.linear(at + names["v"], kv_heads * dim, WIDTH, bias)
        d.linear(at + names["o"], WIDTH, HEADS * dim, False)
        d.linear(at + names["gate"], HIDDEN, WIDTH, False)
        d.linear(at + names["up"], HIDDEN, WIDTH, False)
        d.linear(at + names["down"], WIDTH, HIDDEN, False)
        d.norm(at + names["first"], False)
        d.norm(at + names["second"], False)


def mistral(folder):
    d = Draw(3)
    d.put("model.embed_tokens.weight", len(LETTERS), WIDTH, size=1)
    d.put("lm_head.weight", len(LETTERS), WIDTH)
    d.norm("model.norm", False)
    llama_tensors(d, {"layer": "model.layers.{}.", "q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj",
                      "o": "self_attn.o_proj", "gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj",
                      "first": "input_layernorm", "second": "post_attention_layernorm"}, 2, False)
    config = {"model_type": "mistral", "hidden_size": WIDTH, "intermediate_size": HIDDEN, "num_hidden_layers": LAYERS,
              "num_attention_heads": HEADS, "num_key_value_heads": 2, "vocab_size": len(LETTERS), "max_position_embeddings": ROOM,
              "rms_norm_eps": 1e-5, "rope_theta": 100.0, "hidden_act": "silu", "tie_word_embeddings": False, "sliding_window": 3}
    return folder_of(folder, config, d.t, byte_level()), d.t


def llama_gguf(path):
    d = Draw(4)
    d.put("token_embd.weight", len(LETTERS), WIDTH, size=1)
    d.put("output.weight", len(LETTERS), WIDTH)
    d.norm("output_norm", False)
    llama_tensors(d, {"layer": "blk.{}.", "q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output", "gate": "ffn_gate",
                      "up": "ffn_up", "down": "ffn_down", "first": "attn_norm", "second": "ffn_norm"}, 2, False)
    values = {"general.architecture": "llama", "llama.block_count": LAYERS, "llama.context_length": ROOM, "llama.embedding_length": WIDTH,
              "llama.feed_forward_length": HIDDEN, "llama.attention.head_count": HEADS, "llama.attention.head_count_kv": 2,
              "llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.rope.freq_base": 100.0, "tokenizer.ggml.model": "gpt2",
              "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": LETTERS,
              "tokenizer.ggml.token_type": ("i32", [3] + [1] * (len(LETTERS) - 1)), "tokenizer.ggml.merges": MERGES,
              "tokenizer.ggml.eos_token_id": 0}
    pathlib.Path(path).write_bytes(gguf(values, d.t))
    return pathlib.Path(path), d.t


# ---- one that translates ----

MARIAN = ["</s>", "<unk>", "▁a", "▁small", "▁cat", "s", "▁ein", "▁klein", "e", "▁katze", "▁나", "는", "<pad>"]


def unigram():
    """A tokenizer.json of SentencePiece's unigrams."""
    space = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    special = [{"id": MARIAN.index(token), "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                "special": True} for token in ("</s>", "<unk>", "<pad>")]
    end = {"SpecialToken": {"id": "</s>", "type_id": 0}}
    after = {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}, end],
             "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}, end],
             "special_tokens": {"</s>": {"id": "</s>", "ids": [0], "tokens": ["</s>"]}}}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None, "pre_tokenizer": space,
            "post_processor": after, "decoder": space,
            "model": {"type": "Unigram", "unk_id": 1, "vocab": [[token, -float(n)] for n, token in enumerate(MARIAN)],
                      "byte_fallback": False}}


def marian(folder):
    d = Draw(5)
    d.put("model.shared.weight", len(MARIAN), WIDTH, size=0.2)
    d.put("final_logits_bias", 1, len(MARIAN))
    for side, layers in (("encoder", LAYERS), ("decoder", LAYERS - 1)):
        for i in range(layers):
            at = f"model.{side}.layers.{i}."
            for attention in ("self_attn",) if side == "encoder" else ("self_attn", "encoder_attn"):
                for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    d.linear(f"{at}{attention}.{name}", WIDTH, WIDTH, size=SHARP / 2 if name[0] in "qk" else 0.3)
                d.norm(f"{at}{attention}_layer_norm")
            d.linear(at + "fc1", HIDDEN, WIDTH)
            d.linear(at + "fc2", WIDTH, HIDDEN)
            d.norm(at + "final_layer_norm")
    config = {"model_type": "marian", "encoder_layers": LAYERS, "decoder_layers": LAYERS - 1, "d_model": WIDTH,
              "encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS, "encoder_ffn_dim": HIDDEN, "decoder_ffn_dim": HIDDEN,
              "vocab_size": len(MARIAN), "max_position_embeddings": ROOM, "activation_function": "swish", "scale_embedding": True,
              "share_encoder_decoder_embeddings": True, "tie_word_embeddings": True, "normalize_before": False,
              "normalize_embedding": False, "add_final_layer_norm": False, "static_position_embeddings": True, "is_decoder": False,
              "pad_token_id": 12, "eos_token_id": 0, "decoder_start_token_id": 12, "max_length": 9, "num_beams": 1,
              "bad_words_ids": [[12]]}
    tokens = {"eos_token": "</s>", "pad_token": "<pad>"}
    return folder_of(folder, config, d.t, {"tokenizer.json": unigram(), "tokenizer_config.json": tokens}), d.t
