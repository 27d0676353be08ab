# SPDX-License-Identifier: Apache-2.0
"""A MarianMT folder whose answer is known: the first target token is the first word of the source, each further one the word that follows
it in the alphabet, "a" to "g", and the text ends behind "g". Made of ones, zeros and a few constants."""
import json
import pathlib
import struct

import numpy as np

from foldermake import write_folder

WORDS = ["</s>", "<unk>"] + ["\u2581" + letter for letter in "abcdefg"] + ["<pad>"]
WIDTH, EOS, UNK, FIRST, LAST, PAD = 16, 0, 1, 2, 8, 9
CONFIG = {"model_type": "marian", "d_model": WIDTH, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
          "decoder_attention_heads": 2, "encoder_ffn_dim": WIDTH, "decoder_ffn_dim": WIDTH, "vocab_size": len(WORDS),
          "max_position_embeddings": 24, "activation_function": "relu", "scale_embedding": False, "static_position_embeddings": True,
          "eos_token_id": EOS, "pad_token_id": PAD, "decoder_start_token_id": PAD, "forced_eos_token_id": EOS, "max_length": 20,
          "num_beams": 2, "bad_words_ids": [[PAD], [UNK]]}


def one_hot(rows, scale):
    m = np.zeros((WIDTH, WIDTH), np.float32)
    for to, of in rows:
        m[to, of] = scale
    return m


def field(number, raw):
    return bytes([number << 3 | 2, len(raw)]) + raw


def pieces():
    """source.spm: a unigram model of the words; <unk> is 0."""
    words = [("<unk>", 0.0, 2)] + [(w, -1.0, 1) for w in WORDS[FIRST:LAST + 1]]
    made = (field(1, w.encode()) + b"\x15" + struct.pack("<f", score) + b"\x18" + bytes([kind]) for w, score, kind in words)
    return b"".join(field(1, piece) for piece in made)


def tensors():
    words = [(k, k) for k in range(FIRST, LAST + 1)]
    follows = [(k + 1 if k < LAST else EOS, k) for k in range(FIRST, LAST + 1)]
    t = {"model.shared.weight": 10 * np.eye(len(WORDS), WIDTH, dtype=np.float32),
         "final_logits_bias": np.zeros((1, len(WORDS)), np.float32)}

    def put(name, w, b=0.0):
        t[f"model.{name}.weight"], t[f"model.{name}.bias"] = w.astype(np.float32), np.full(len(w), b, np.float32)

    for part, attentions in (("encoder", ["self_attn"]), ("decoder", ["self_attn", "encoder_attn"])):
        layer = f"{part}.layers.0"
        for name in attentions:
            cross = name == "encoder_attn"
            put(f"{layer}.{name}.q_proj", one_hot([], 0))
            put(f"{layer}.{name}.k_proj", one_hot([], 0))
            put(f"{layer}.{name}.v_proj", one_hot(words if cross else [], 1))  # every word of the source, seen alike
            put(f"{layer}.{name}.out_proj", one_hot(words if cross else [], 0.5))
            put(f"{layer}.{name}_layer_norm", np.ones(WIDTH))
        decodes = part == "decoder"
        put(f"{layer}.fc1", one_hot([(k, k) for k in range(WIDTH)], 2), -3)
        put(f"{layer}.fc2", one_hot(follows, 10) + one_hot(words + [(PAD, PAD)], -10) if decodes else one_hot([], 0))
        put(f"{layer}.final_layer_norm", np.ones(WIDTH))
    return t


def write(folder):
    folder = write_folder(folder, CONFIG, tensors())
    for name in ("source.spm", "target.spm"):
        (folder / name).write_bytes(pieces())
    (folder / "vocab.json").write_text(json.dumps({w: i for i, w in enumerate(WORDS)}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "MarianTokenizer"}))
    return pathlib.Path(folder)
