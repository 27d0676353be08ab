# SPDX-License-Identifier: Apache-2.0
"""The most memory that a process ever had while it loaded a model and ran it: the weights, the cache and 64 MiB. Of a folder in f32 and
bf16, whose pages are given back, and of a .gguf, whose blocks are decoded on the way. Each model has a process of its own."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
from ggufmake import gguf  # noqa: E402

WIDTH, HIDDEN, LAYERS, VOCAB, HEADS, SHARED, DIM, TOKENS = 512, 1536, 4, 40960, 8, 2, 64, 64
CONFIG = {"model_type": "llama", "hidden_size": WIDTH, "intermediate_size": HIDDEN, "num_hidden_layers": LAYERS,
          "num_attention_heads": HEADS, "num_key_value_heads": SHARED, "vocab_size": VOCAB, "max_position_embeddings": TOKENS,
          "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": True}
ROWS = {"attn_q": WIDTH, "attn_k": SHARED * DIM, "attn_v": SHARED * DIM, "attn_output": WIDTH, "ffn_gate": HIDDEN, "ffn_up": HIDDEN,
        "ffn_down": WIDTH}
NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "blk": "model.layers", "attn_norm": "input_layernorm",
         "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
         "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
MIB = 1 << 20


def shapes():
    yield "token_embd.weight", (VOCAB, WIDTH)
    yield "output_norm.weight", (WIDTH,)
    for i in range(LAYERS):
        for name, rows in ROWS.items():
            yield f"blk.{i}.{name}.weight", (rows, HIDDEN if name == "ffn_down" else WIDTH)
        yield f"blk.{i}.attn_norm.weight", (WIDTH,)
        yield f"blk.{i}.ffn_norm.weight", (WIDTH,)


PARAMETERS = sum(int(np.prod(shape)) for _, shape in shapes())


def write_folder(place, dtype, size):
    """Every number is tiny, whatever its dtype."""
    (place / "config.json").write_text(json.dumps(CONFIG))
    header, at = {}, 0
    for name, shape in shapes():
        n = int(np.prod(shape)) * size
        renamed = ".".join(NAMES.get(part, part) for part in name.split("."))
        header[renamed] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with (place / "model.safetensors").open("wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for part in range(0, at, 16 * MIB):
            f.write(b"\x01\x20" * (min(16 * MIB, at - part) // 2))
    return place


def write_gguf(place):
    a = "llama."
    values = {"general.architecture": "llama", a + "block_count": LAYERS, a + "context_length": TOKENS, a + "embedding_length": WIDTH,
              a + "feed_forward_length": HIDDEN, a + "attention.head_count": HEADS, a + "attention.head_count_kv": SHARED,
              a + "attention.layer_norm_rms_epsilon": 1e-5, a + "vocab_size": VOCAB}
    block = b"\x00\x10" + bytes(range(32))  # Q8_0
    tensors = {name: np.ones(shape) if len(shape) == 1 else ("Q8_0", shape, block * (int(np.prod(shape)) // 32))
               for name, shape in shapes()}
    (place / "model.gguf").write_bytes(gguf(values, tensors))
    return place / "model.gguf"


def of_process(key):
    line = next(line for line in pathlib.Path("/proc/self/status").read_text().splitlines() if line.startswith(key + ":"))
    return int(line.split()[1]) << 10


def run(path):
    """Prints how much more memory than before the process had at most."""
    import attnlib
    import decodelib
    before = of_process("VmRSS")
    model = decodelib.Model(attnlib.Context(), path)
    session = decodelib.Session(model, VOCAB, TOKENS)
    session.feed(np.arange(TOKENS)[None])
    print(of_process("VmHWM") - before)


class Memory(unittest.TestCase):
    def most(self, path):
        return int(subprocess.run([sys.executable, "-B", __file__, str(path)], check=True, stdout=subprocess.PIPE).stdout)

    def check(self, path, weight):
        cache = LAYERS * 2 * SHARED * DIM * TOKENS * 4
        got, weights = self.most(path), PARAMETERS * weight
        self.assertGreater(got, weights)  # it was measured
        self.assertLess(got, weights + cache + 64 * MIB)

    def test_f32(self):
        with tempfile.TemporaryDirectory() as place:
            self.check(write_folder(pathlib.Path(place), "F32", 4), 4)

    def test_bf16(self):
        with tempfile.TemporaryDirectory() as place:
            self.check(write_folder(pathlib.Path(place), "BF16", 2), 2)

    def test_gguf(self):
        with tempfile.TemporaryDirectory() as place:
            self.check(write_gguf(pathlib.Path(place)), 4)


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].startswith("/"):
        run(sys.argv[1])
    else:
        unittest.main()
