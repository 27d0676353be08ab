# SPDX-License-Identifier: Apache-2.0
"""Decoders out of folders written here, against a float64 reference of a few lines: hidden states, weights, logits. The bits of a sequence
are the same whole, in chunks, token by token, padded, in a batch, after a cut, and out of a .gguf."""
import pathlib
import sys
import tempfile
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
import attnlib  # noqa: E402
import decodelib  # noqa: E402
from foldermake import write_folder  # noqa: E402
from ggufmake import blocks, gguf  # noqa: E402

WIDTH, HEADS, SHARED, DIM, HIDDEN, VOCAB, LAYERS, EPS, THETA, ROOM = 32, 4, 2, 8, 48, 40, 2, 1e-5, 1000.0, 32
BOUND = 2e-5
LLAMA = {"model_type": "llama", "hidden_size": WIDTH, "intermediate_size": HIDDEN, "num_hidden_layers": LAYERS,
         "num_attention_heads": HEADS, "num_key_value_heads": SHARED, "vocab_size": VOCAB, "max_position_embeddings": ROOM,
         "rms_norm_eps": EPS, "rope_theta": THETA, "hidden_act": "silu", "tie_word_embeddings": False}
GPT2 = {"model_type": "gpt2", "n_layer": LAYERS, "n_embd": WIDTH, "n_head": HEADS, "n_positions": ROOM, "vocab_size": VOCAB,
        "layer_norm_epsilon": EPS, "activation_function": "gelu_new"}


def llama_tensors(bias, head_norms=False):
    rng = np.random.default_rng(7)
    wide, narrow = HEADS * DIM, SHARED * DIM
    shapes = {"self_attn.q_proj": (wide, WIDTH), "self_attn.k_proj": (narrow, WIDTH), "self_attn.v_proj": (narrow, WIDTH),
              "self_attn.o_proj": (WIDTH, wide), "mlp.gate_proj": (HIDDEN, WIDTH), "mlp.up_proj": (HIDDEN, WIDTH),
              "mlp.down_proj": (WIDTH, HIDDEN)}
    t = {"model.embed_tokens.weight": rng.normal(size=(VOCAB, WIDTH)), "lm_head.weight": rng.normal(size=(VOCAB, WIDTH)),
         "model.norm.weight": rng.normal(size=WIDTH)}
    for i in range(LAYERS):
        for name, shape in shapes.items():
            t[f"model.layers.{i}.{name}.weight"] = 0.3 * rng.normal(size=shape)
            if bias and name[-6:] in ("q_proj", "k_proj", "v_proj"):
                t[f"model.layers.{i}.{name}.bias"] = rng.normal(size=shape[0])
        for name in ("input_layernorm", "post_attention_layernorm"):
            t[f"model.layers.{i}.{name}.weight"] = 1 + 0.2 * rng.normal(size=WIDTH)
        for name in ("q_norm", "k_norm") if head_norms else ():
            t[f"model.layers.{i}.self_attn.{name}.weight"] = 1 + 0.5 * rng.normal(size=DIM)
    return {k: v.astype(np.float32) for k, v in t.items()}


def gpt2_tensors():
    rng = np.random.default_rng(8)
    shapes = {"attn.c_attn": (WIDTH, 3 * WIDTH), "attn.c_proj": (WIDTH, WIDTH), "mlp.c_fc": (WIDTH, 4 * WIDTH),
              "mlp.c_proj": (4 * WIDTH, WIDTH), "ln_1": (WIDTH,), "ln_2": (WIDTH,)}
    t = {"wte.weight": rng.normal(size=(VOCAB, WIDTH)), "wpe.weight": rng.normal(size=(ROOM, WIDTH)), "ln_f.weight": rng.normal(size=WIDTH),
         "ln_f.bias": rng.normal(size=WIDTH)}
    for i in range(LAYERS):
        for name, shape in shapes.items():
            t[f"h.{i}.{name}.weight"] = 0.3 * rng.normal(size=shape) + (len(shape) == 1)
            t[f"h.{i}.{name}.bias"] = 0.3 * rng.normal(size=shape[-1])
    return {"transformer." + k: v.astype(np.float32) for k, v in t.items()}


def attention(q, k, v):
    """q [T,H*d]; k and v [T,Hkv*d] -> output [T,H*d], weights [H,T,T]: causal."""
    n = len(q)
    q, k, v = (x.reshape(n, -1, DIM).swapaxes(0, 1) for x in (q, k, v))
    k, v = (np.repeat(x, len(q) // len(x), 0) for x in (k, v))
    s = np.where(np.tri(n, dtype=bool), q @ k.swapaxes(1, 2) / np.sqrt(DIM), -np.inf)
    w = np.exp(s - s.max(-1, keepdims=True))
    w /= w.sum(-1, keepdims=True)
    return (w @ v).swapaxes(0, 1).reshape(n, -1), w


def turn(x):
    """RoPE, a head's halves as pairs."""
    n = len(x)
    angle = np.arange(n)[:, None, None] * THETA ** (-np.arange(DIM // 2) * 2 / DIM)
    a, b = np.split(x.reshape(n, -1, DIM), 2, -1)
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1).reshape(n, -1)


def run_llama(t, ids):
    t = {k: v.astype(np.float64) for k, v in t.items()}
    norm = lambda x, w: x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * w  # noqa: E731
    x = t["model.embed_tokens.weight"][ids]
    hidden, weights = [x], []
    for i in range(LAYERS):
        p = f"model.layers.{i}."
        linear = lambda y, name: y @ t[f"{p}{name}.weight"].T + t.get(f"{p}{name}.bias", 0)  # noqa: E731, B023
        y = norm(x, t[p + "input_layernorm.weight"])
        q, k = linear(y, "self_attn.q_proj"), linear(y, "self_attn.k_proj")
        if p + "self_attn.q_norm.weight" in t:
            q, k = (norm(z.reshape(len(z), -1, DIM), t[f"{p}self_attn.{name}.weight"]).reshape(z.shape)
                    for z, name in ((q, "q_norm"), (k, "k_norm")))
        o, w = attention(turn(q), turn(k), linear(y, "self_attn.v_proj"))
        x = x + linear(o, "self_attn.o_proj")
        y = norm(x, t[p + "post_attention_layernorm.weight"])
        gate = linear(y, "mlp.gate_proj")
        x = x + linear(gate / (1 + np.exp(-gate)) * linear(y, "mlp.up_proj"), "mlp.down_proj")
        hidden.append(x)
        weights.append(w)
    return norm(x, t["model.norm.weight"]) @ t["lm_head.weight"].T, hidden, weights


def run_gpt2(t, ids):
    t = {k[12:]: v.astype(np.float64) for k, v in t.items()}

    def norm(x, name):
        y = x - x.mean(-1, keepdims=True)
        return y / np.sqrt((y * y).mean(-1, keepdims=True) + EPS) * t[name + ".weight"] + t[name + ".bias"]

    x = t["wte.weight"][ids] + t["wpe.weight"][:len(ids)]
    hidden, weights = [x], []
    for i in range(LAYERS):
        linear = lambda y, name: y @ t[f"h.{i}.{name}.weight"] + t[f"h.{i}.{name}.bias"]  # noqa: E731, B023
        o, w = attention(*np.split(linear(norm(x, f"h.{i}.ln_1"), "attn.c_attn"), 3, -1))
        x = x + linear(o, "attn.c_proj")
        y = linear(norm(x, f"h.{i}.ln_2"), "mlp.c_fc")
        x = x + linear(0.5 * y * (1 + np.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y ** 3))), "mlp.c_proj")
        hidden.append(x)
        weights.append(w)
    return norm(x, "ln_f") @ t["wte.weight"].T, hidden, weights


GGUF_NAMES = {"model.embed_tokens": "token_embd", "lm_head": "output", "model.norm": "output_norm", "model.layers": "blk",
              "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
              "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
              "post_attention_layernorm": "ffn_norm", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm"}
MODELS = {"llama": (LLAMA, llama_tensors(False), run_llama), "qwen2": (LLAMA | {"model_type": "qwen2"}, llama_tensors(True), run_llama),
          "qwen3": (LLAMA | {"model_type": "qwen3", "head_dim": DIM}, llama_tensors(False, True), run_llama),
          "gpt2": (GPT2, gpt2_tensors(), run_gpt2)}
IDS = np.random.default_rng(9).integers(0, VOCAB, (3, 11))


class Models(unittest.TestCase):
    ctx = attnlib.Context()

    def folder(self, config, tensors):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        return write_folder(place.name, config, tensors)

    def model(self, path, f64=False):
        model = decodelib.Model(self.ctx, path, f64)
        self.addCleanup(model.close)
        return model

    def session(self, model, batch=1):
        session = decodelib.Session(model, VOCAB, ROOM, batch=batch)
        self.addCleanup(session.close)
        return session

    def each(self):
        return [self.model(self.folder(config, tensors)) for config, tensors, _ in MODELS.values()]

    def near(self, got, want, bound=BOUND):
        self.assertLess(np.abs(got - want).max() / np.abs(want).max(), bound)

    def test_numbers(self):
        for name, (config, tensors, run) in MODELS.items():
            for f64, bound in ((False, BOUND), (True, 1e-12)):
                with self.subTest(name, f64=f64):
                    seen = {}
                    session = self.session(self.model(self.folder(config, tensors), f64))
                    got = session.feed(IDS[:1], everything=True, watch=lambda i, h, w: seen.update({i: (h, w)}))
                    logits, hidden, weights = run(tensors, IDS[0])
                    self.near(got[0], logits, bound)
                    for i, h in enumerate(hidden):
                        self.near(seen[i - 1][0][0], h, bound)
                    for i, w in enumerate(weights):
                        self.near(seen[i][1][0], w, bound)

    def test_planted_mistakes_are_seen(self):
        for change in ({"rope_theta": 1100.0}, {"rms_norm_eps": 1e-3}, {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 4}):
            with self.subTest(change), self.assertRaises(AssertionError):
                config, tensors, run = MODELS["llama"]
                got = self.session(self.model(self.folder(config | change, tensors))).feed(IDS[:1], everything=True)
                self.near(got[0], run(tensors, IDS[0])[0])

    def test_chunks_batches_and_padding_change_no_bit(self):
        for model in self.each():
            whole = [self.session(model).feed(ids[None], everything=True)[0] for ids in IDS]
            for cuts in ([4, 5], range(1, 11)):
                session = self.session(model)
                parts = [session.feed(p[None], everything=True)[0] for p in np.split(IDS[0], list(cuts))]
                np.testing.assert_array_equal(np.concatenate(parts), whole[0])
            np.testing.assert_array_equal(self.session(model, 3).feed(IDS, everything=True), whole)
            left = np.tri(3, 11, 2, dtype=bool)[:, ::-1]
            session = self.session(model, 3)
            got = session.feed(np.where(left, np.array([r[:m.sum()][np.cumsum(m) - 1] for r, m in zip(IDS, left)]), 0), mask=left)
            np.testing.assert_array_equal(got, [w[m.sum() - 1] for w, m in zip(whole, left)])
            step = session.feed([[r[m.sum()]] for r, m in zip(IDS, left)])
            np.testing.assert_array_equal(step, [w[m.sum()] for w, m in zip(whole, left)])

    def test_truncate_and_reorder(self):
        for model in self.each():
            session = self.session(model, 3)
            first = session.feed(IDS[:, :6])
            session.feed(IDS[::-1, 6:])
            session.truncate(6)
            self.assertEqual(session.length(2), 6)
            want = session.feed(IDS[:, 6:])
            np.testing.assert_array_equal(want, self.session(model, 3).feed(IDS))
            self.assertFalse(np.array_equal(first, want))
            session.truncate(6)
            session.reorder([2, 0, 2])
            np.testing.assert_array_equal(session.feed(IDS[[2, 0, 2], 6:]), want[[2, 0, 2]])

    def gguf(self, tensors, values=(), more=(), architecture="qwen2"):
        """The path of a .gguf with the tensors of a folder. Of llama the rows of q and k are reordered, and so is the sum."""
        renamed = {}
        for name, t in tensors.items():
            for old, new in GGUF_NAMES.items():
                name = name.replace(old, new)
            renamed[name] = t
        a = architecture + "."
        all_values = {"general.architecture": architecture, a + "attention.key_length": DIM, a + "block_count": LAYERS,
                      a + "context_length": ROOM, a + "embedding_length": WIDTH, a + "feed_forward_length": HIDDEN,
                      a + "attention.head_count": HEADS,
                      a + "attention.head_count_kv": SHARED, a + "attention.layer_norm_rms_epsilon": ("f64", EPS),
                      a + "rope.freq_base": THETA, a + "vocab_size": VOCAB}
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        path = pathlib.Path(place.name) / "model.gguf"
        path.write_bytes(gguf(all_values | dict(values), renamed | dict(more)))
        return path

    def test_gguf_has_the_bits_of_the_folder(self):
        for name, f64 in (("qwen2", False), ("qwen2", True), ("qwen3", False)):
            config, tensors, _ = MODELS[name]
            paths = self.folder(config, tensors), self.gguf(tensors, architecture=name)
            one, other = (self.session(self.model(p, f64)).feed(IDS[:1], everything=True) for p in paths)
            np.testing.assert_array_equal(one, other)

    def test_gguf_blocks_have_the_bits_of_their_numbers(self):
        """Every matrix in Q8_0, the table of tokens too, whose rows are decoded one by one."""
        config, tensors, _ = MODELS["qwen2"]
        config, raw, plain = config | {"intermediate_size": 64}, {}, {}
        for i, (name, t) in enumerate(tensors.items()):
            shape = tuple(64 if n == HIDDEN else n for n in t.shape)
            raw[name], plain[name] = blocks("Q8_0", shape, i) if len(shape) == 2 else (t, t)
        folder, path = self.folder(config, plain), self.gguf(raw, {"qwen2.feed_forward_length": 64})
        for f64 in (False, True):
            one, other = (self.session(self.model(p, f64)).feed(IDS[:1], everything=True) for p in (folder, path))
            np.testing.assert_array_equal(one, other)

    def test_gguf_divides_the_frequencies(self):
        """rope_freqs.weight, which is how llama.cpp writes the scaling of Llama 3.1."""
        config, tensors, _ = MODELS["qwen2"]
        scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                   "original_max_position_embeddings": 64}
        f = THETA ** (-np.arange(DIM // 2) * 2 / DIM)
        turns = 64 * f / (2 * np.pi)
        m = np.clip((turns - 1) / 3, 0, 1)
        divisors = (f / ((1 - m) * f / 8 + m * f)).astype(np.float32)
        want = self.session(self.model(self.folder(config | {"rope_scaling": scaling}, tensors))).feed(IDS[:1], everything=True)
        got = self.session(self.model(self.gguf(tensors, more={"rope_freqs.weight": divisors}))).feed(IDS[:1], everything=True)
        self.near(got, want)
        with self.assertRaises(AssertionError):
            self.near(self.session(self.model(self.gguf(tensors))).feed(IDS[:1], everything=True), want)
        for wrong, words in ((divisors[1:], "rope_freqs.weight"), (0 * divisors, "divisors.0. is 0")):
            with self.assertRaisesRegex(decodelib.LoadError, words):
                self.model(self.gguf(tensors, more={"rope_freqs.weight": wrong}))

    def test_what_is_not_computed_is_refused_by_name(self):
        config, tensors, _ = MODELS["llama"]
        yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8}
        for change, words in (({"hidden_act": "quick_gelu"}, 'hidden_act is "quick_gelu"'),
                              ({"rope_scaling": yarn | {"mscale": 1.0}}, "mscale .* is a field that is not known here"),
                              ({"rope_scaling": yarn | {"mscale_all_dim": 1.0}}, "mscale_all_dim"),
                              ({"rope_scaling": yarn | {"truncate": False}}, "truncate"),
                              ({"rope_scaling": {"rope_type": "longrope", "factor": 2.0}}, 'rope_type is "longrope"'),
                              ({"model_type": "mixtral"}, 'model_type is "mixtral", a model that is not known here; known are'),
                              ({"model_type": "qwen3_moe"}, "qwen3_moe"), ({"num_local_experts": 8}, "num_local_experts"),
                              ({"num_experts": 60}, "num_experts"), ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
                              ({"attn_logit_softcapping": 50.0}, "attn_logit_softcapping"), ({"sliding_window": 4}, "sliding_window"),
                              ({"layer_types": ["full_attention", "linear_attention"]}, 'layer_types has "linear_attention"'),
                              ({"model_type": "qwen3"}, "head_dim is missing"), ({"quantization_config": {"bits": 4}}, "quantization")):
            with self.subTest(change), self.assertRaisesRegex(decodelib.LoadError, words):
                self.model(self.folder(config | change, tensors))
        with self.subTest("norms of heads"), self.assertRaisesRegex(decodelib.LoadError, "self_attn.q_norm.weight is left over"):
            self.model(self.folder(config, llama_tensors(False, True)))

    def test_wrong_files(self):
        config, tensors, _ = MODELS["llama"]
        less = {k: v for k, v in tensors.items() if "1.mlp.up_proj" not in k}
        for files, words in (((config, less), "model.layers.1.mlp.up_proj.weight"),
                             ((config, tensors | {"left_over": tensors["lm_head.weight"]}), "left_over"),
                             ((config | {"intermediate_size": 47}, tensors), "47"), ((config | {"model_type": "mamba"}, tensors), "mamba"),
                             ((config | {"strange": 1.5}, tensors), "strange"), ((config | {"hidden_act": "swosh"}, tensors), "swosh")):
            with self.subTest(words), self.assertRaisesRegex(decodelib.LoadError, words):
                self.model(self.folder(*files))
        folder = self.folder(config, tensors)
        data = (folder / "model.safetensors").read_bytes()
        for size in (0, 7, 100, len(data) - 1):
            (folder / "model.safetensors").write_bytes(data[:size])
            with self.subTest(size), self.assertRaises(decodelib.LoadError):
                self.model(folder)


if __name__ == "__main__":
    unittest.main()
