# SPDX-License-Identifier: Apache-2.0
"""Folders of small models with random weights: a decoder, an encoder with sentence-transformers' modules, an encoder-decoder."""
import json
import pathlib
import struct
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
from foldermake import write_folder  # noqa: E402

LETTERS, WIDTH, HEADS, KV, LAYERS, HIDDEN = "abcdefg", 32, 4, 2, 2, 48
END = len(LETTERS)
CHAT = ("{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")


def write(folder, config, shapes, seed):
    """config.json, and tensors of those shapes: vectors around 1, so that norms are none by chance."""
    rng = np.random.default_rng(seed)
    write_folder(folder, config, {name: (rng.standard_normal(shape) * 0.3 + (len(shape) == 1)).astype("<f4")
                                  for name, shape in shapes.items()})


def linears(prefix, sizes, bias=True):
    found = {f"{prefix}.{name}.weight": shape for name, shape in sizes.items()}
    return found | ({f"{prefix}.{name}.bias": shape[:1] for name, shape in sizes.items()} if bias else {})


def decoder(folder, width=WIDTH, layers=LAYERS, positions=40):
    """A Llama and a byte-level BPE of seven letters, with a chat template."""
    shared = width // HEADS * KV
    sizes = {"self_attn.q_proj": (width, width), "self_attn.k_proj": (shared, width), "self_attn.v_proj": (shared, width),
             "self_attn.o_proj": (width, width), "mlp.gate_proj": (HIDDEN, width), "mlp.up_proj": (HIDDEN, width),
             "mlp.down_proj": (width, HIDDEN)}
    shapes = {}
    for layer in range(layers):
        shapes |= linears(f"model.layers.{layer}", sizes, bias=False)
        shapes |= {f"model.layers.{layer}.{name}_layernorm.weight": (width,) for name in ("input", "post_attention")}
    marks = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    vocab = {letter: id for id, letter in enumerate(LETTERS)} | {mark: END + n for n, mark in enumerate(marks)}
    vocab |= {letter: len(vocab) + n for n, letter in enumerate("hijklmnopqrstuvwxyz\u0120\u010a")}  # space and line end
    shapes |= {"model.embed_tokens.weight": (len(vocab), width), "lm_head.weight": (len(vocab), width), "model.norm.weight": (width,)}
    write(folder, {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": len(vocab), "hidden_size": width,
                   "intermediate_size": HIDDEN, "num_hidden_layers": layers, "num_attention_heads": HEADS, "num_key_value_heads": KV,
                   "max_position_embeddings": positions, "rms_norm_eps": 1e-6, "hidden_act": "silu", "rope_theta": 10000.0,
                   "tie_word_embeddings": False, "eos_token_id": END}, shapes, 4)
    (folder / "vocab.json").write_text(json.dumps(vocab))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    added = {str(END + n): {"content": mark, "special": True} for n, mark in enumerate(marks)}
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "GPT2Tokenizer", "eos_token": marks[0], "bos_token": marks[0], "unk_token": marks[0],
        "added_tokens_decoder": added, "chat_template": CHAT}))
    return folder


def encoder(folder):
    """A BERT and a WordPiece of letters; the mean of the rows, at length 1; a prompt that is not pooled."""
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *("##" + letter for letter in LETTERS)]
    norm = {"weight": (WIDTH,), "bias": (WIDTH,)}
    shapes = {f"embeddings.{name}_embeddings.weight": (rows, WIDTH) for name, rows in
              (("word", len(vocab)), ("position", 24), ("token_type", 2))}
    norms = ["embeddings.LayerNorm"]
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}"
        square = [f"attention.self.{name}" for name in ("query", "key", "value")] + ["attention.output.dense"]
        inner = {"intermediate.dense": (HIDDEN, WIDTH), "output.dense": (WIDTH, HIDDEN)}
        shapes |= linears(at, dict.fromkeys(square, (WIDTH, WIDTH)) | inner)
        norms += [at + ".attention.output.LayerNorm", at + ".output.LayerNorm"]
    shapes |= {f"{name}.{part}": shape for name in norms for part, shape in norm.items()}
    write(folder, {"model_type": "bert", "hidden_size": WIDTH, "intermediate_size": HIDDEN, "num_hidden_layers": LAYERS,
                   "num_attention_heads": HEADS, "vocab_size": len(vocab), "max_position_embeddings": 24, "type_vocab_size": 2,
                   "layer_norm_eps": 1e-5, "hidden_act": "gelu", "pad_token_id": 0}, shapes, 5)
    (folder / "vocab.txt").write_text("\n".join(vocab) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer", "do_lower_case": True,
                                                              "model_max_length": 20}))
    package = "sentence_transformers.models."
    listed = enumerate((("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")))
    (folder / "modules.json").write_text(json.dumps([{"idx": n, "name": str(n), "path": path, "type": package + name}
                                                     for n, (path, name) in listed]))
    (folder / "1_Pooling").mkdir()
    (folder / "2_Normalize").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": WIDTH, "pooling_mode_mean_tokens": True,
                                                                  "include_prompt": False}))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 16, "do_lower_case": False}))
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"prompts": {"query": "abc "}, "default_prompt_name": None}))
    return folder


def encoder_decoder(folder):
    """A Marian with SentencePiece unigrams of letters."""
    pieces = ["</s>", "<unk>", "\u2581", *LETTERS, "<pad>"]
    pad = len(pieces) - 1

    def stack(part, attentions):
        found = {}
        for layer in range(LAYERS):
            at = f"model.{part}.layers.{layer}"
            square = [f"{name}.{one}_proj" for name in attentions for one in ("q", "k", "v", "out")]
            found |= linears(at, dict.fromkeys(square, (WIDTH, WIDTH)) | {"fc1": (HIDDEN, WIDTH), "fc2": (WIDTH, HIDDEN)})
            norms = [f"{name}_layer_norm" for name in (*attentions, "final")]
            found |= {f"{at}.{name}.{one}": (WIDTH,) for name in norms for one in ("weight", "bias")}
        return found
    shapes = {"model.shared.weight": (len(pieces), WIDTH), "final_logits_bias": (1, len(pieces)), **stack("encoder", ["self_attn"]),
              **stack("decoder", ["self_attn", "encoder_attn"])}
    config = {"d_model": WIDTH, "vocab_size": len(pieces), "max_position_embeddings": 32, "scale_embedding": True, "pad_token_id": pad,
              "eos_token_id": 0, "decoder_start_token_id": pad, "forced_eos_token_id": 0, "activation_function": "swish"}
    for part in ("encoder", "decoder"):
        config |= {part + "_layers": LAYERS, part + "_attention_heads": HEADS, part + "_ffn_dim": HIDDEN}
    write(folder, {"model_type": "marian", **config}, shapes, 99)
    (folder / "generation_config.json").write_text(json.dumps({
        "bad_words_ids": [[pad]], "max_length": 20, "num_beams": 3, "eos_token_id": 0, "pad_token_id": pad, "decoder_start_token_id": pad,
        "forced_eos_token_id": 0}))
    (folder / "vocab.json").write_text(json.dumps({piece: id for id, piece in enumerate(pieces)}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "MarianTokenizer"}))
    for name in ("source.spm", "target.spm"):
        (folder / name).write_bytes(sentencepiece(pieces[1:2] + ["<s>", "</s>"] + pieces[2:-1]))
    return folder


def sentencepiece(pieces):
    """A protobuf ModelProto of unigrams: unknown, two control tokens, normal ones."""
    def field(number, raw):
        return bytes([number << 3 | 2, len(raw)]) + raw
    kinds = [2, 3, 3] + [1] * len(pieces)
    model = b"".join(field(1, field(1, piece.encode()) + b"\x15" + struct.pack("<f", -1.0 - n) + bytes([3 << 3, kind]))
                     for n, (piece, kind) in enumerate(zip(pieces, kinds)))
    return model + field(2, bytes([3 << 3, 1])) + field(3, field(1, b"identity") + bytes([3 << 3, 1, 4 << 3, 1, 5 << 3, 1]))
