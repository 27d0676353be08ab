#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: models.py [--threads N] [--rounds N] [--minilm DIR] [--smollm2 FILE.gguf] [--json FILE]

Whole models by libattn_load ($ATTN_LIB names libattn.so; the others lie beside it), and by transformers, sentence-transformers and ONNX
Runtime, in turns on the same cores, with the same weights, ids and threads; as Markdown. Agreement is checked first. A model without its
files, or a program that is not installed, is left out by name. models.sh makes the environment and fetches the files."""
import argparse
import ctypes
import json
import os
import sys
import time
from ctypes import byref, c_int32, c_int64, c_size_t, c_uint32, c_void_p

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "python"))

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one thread where one is measured

import numpy as np  # noqa: E402
import torch  # noqa: E402

LIBRARIES = os.path.dirname(os.path.realpath(os.environ["ATTN_LIB"]))
os.environ["ATTN_LOAD_LIB"] = os.path.join(LIBRARIES, "libattn_load.so")

import attnlib  # noqa: E402
import decodelib  # noqa: E402

torch.set_grad_enabled(False)
SENTENCES, BATCH, PROMPT, GENERATED = 256, 32, 1024, 32
WORDS = ("attention weighs every word of a sentence against all others and adds what they carry while models read long texts quickly on "
         "small machines because memory and arithmetic are shared by many heads").split()


class Missing(Exception):
    """What a program needs and does not find."""


# ------------------------------------------------------------------ libattn ----

class Encoding(ctypes.Structure):
    _fields_ = [("count", c_size_t), ("ids", ctypes.POINTER(c_int32))]


class Embedder:
    """Everything by libattn, as `attn embed` does it: its tokenizer, batches of near lengths, attn_pretrained_embed."""
    name = "libattn"
    TOKENS = 1024

    def __init__(self, path, threads):
        self.model, self.tokenizer = decodelib.Model(attnlib.Context(threads=threads), path), decodelib.Tokenizer(path)
        self.text = ctypes.CDLL(os.path.join(LIBRARIES, "libattn_text.so"))

    def tokens(self, text):
        encoding, text = ctypes.POINTER(Encoding)(), text.encode()
        assert not self.text.attn_tokenizer_encode(self.tokenizer.handle, text, c_size_t(len(text)), None, c_size_t(0), c_uint32(1),
                                                   c_size_t(256), byref(encoding), None, c_size_t(0))
        ids = np.ctypeslib.as_array(encoding.contents.ids, (encoding.contents.count,)).copy()
        self.text.attn_encoding_destroy(encoding)
        return ids

    def run(self, texts):
        out = np.empty((len(texts), 384), np.float32)
        tokens = [self.tokens(text) for text in texts]
        order = np.argsort([-len(ids) for ids in tokens], kind="stable")
        ends = np.cumsum([len(tokens[i]) for i in order])
        first = 0
        while first < len(order):
            before = ends[first - 1] if first else 0
            last = max(first + 1, int(np.searchsorted(ends, before + self.TOKENS, "right")))
            self.batch(out, order[first:last], tokens)
            first = last
        return out

    def batch(self, out, chosen, tokens):
        lengths = np.array([len(tokens[i]) for i in chosen], np.int32)
        ids = np.zeros((len(chosen), lengths[0]), np.int64)
        for row, i in enumerate(chosen):
            ids[row, :lengths[row]] = tokens[i]
        out[chosen] = self.model.embed(ids, lengths=lengths)


class Decoder:
    name = "libattn"

    def __init__(self, path, threads, vocab):
        self.model = decodelib.Model(attnlib.Context(threads=threads), path)
        self.session = decodelib.Session(self.model, vocab, PROMPT + GENERATED)

    def feed(self, ids):
        """The logits behind them."""
        return self.session.feed([ids])[0]

    def forget(self, length):
        self.session.truncate(length)


# -------------------------------------------------------------------- peers ----

def batches(tokenizer, texts):
    """(indices of texts, their encodings) of near lengths, the longest first, as sentence-transformers makes them."""
    encodings = tokenizer.encode_batch(texts)
    order = np.argsort([-len(e.ids) for e in encodings], kind="stable")
    for first in range(0, len(texts), BATCH):
        batch = order[first:first + BATCH]
        yield batch, [encodings[i] for i in batch]


class SentenceTransformers:
    name = "sentence-transformers"

    def __init__(self, path, threads):
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as why:
            raise Missing(f"sentence-transformers: {why}")
        torch.set_num_threads(threads)
        self.model = SentenceTransformer(path, device="cpu", local_files_only=True)

    def run(self, texts):
        return self.model.encode(texts, batch_size=BATCH, show_progress_bar=False)


def bert_graph(path):
    """The encoder as an ONNX graph out of the folder's own weights, with the fused operators to which ONNX Runtime's tools turn a BERT."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from safetensors.numpy import load_file
    with open(os.path.join(path, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    weights, nodes, constants = load_file(os.path.join(path, "model.safetensors")), [], []

    def constant(name, value):
        constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(kind, inputs, output, domain="com.microsoft", **attributes):
        nodes.append(helper.make_node(kind, inputs, [output], domain=domain, **attributes))
        return output

    def linear(name):
        return weights[name + ".weight"].T, weights[name + ".bias"]

    def norm(name):
        return [constant(name + part, weights[name + part]) for part in (".weight", ".bias")]

    eps, x = config["layer_norm_eps"], node("Gather", [constant("word", weights["embeddings.word_embeddings.weight"]), "ids"], "x0", "")
    places = constant("places", weights["embeddings.position_embeddings.weight"] + weights["embeddings.token_type_embeddings.weight"][0])
    length = node("Slice", [node("Shape", ["ids"], "shape", ""), constant("one", np.array([1])), constant("two", np.array([2]))], "L", "")
    rows = node("Slice", [places, constant("zero", np.array([0])), length, "zero"], "rows", "")
    x = node("Add", [x, rows], "x1", "")
    x = node("LayerNormalization", [x] + norm("embeddings.LayerNorm"), "x2", "", axis=-1, epsilon=eps)
    for i in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{i}."
        parts = [linear(layer + "attention.self." + name) for name in ("query", "key", "value")]
        packed = [constant(layer + what, np.concatenate([p[k] for p in parts], -1)) for k, what in enumerate(("qkv", "qkv_bias"))]
        z = node("Attention", [x] + packed + ["mask"], layer + "z", num_heads=config["num_attention_heads"])
        for name, fused in (("attention.output", True), ("intermediate", False), ("output", True)):
            w, bias = linear(layer + name + ".dense")
            bias = constant(layer + name + "b", bias)
            z = node("MatMul", [z, constant(layer + name + "w", w)], layer + name + "y", "")
            if fused:
                x = z = node("SkipLayerNormalization", [z, x] + norm(layer + name + ".LayerNorm") + [bias], layer + name, epsilon=eps)
            else:
                z = node("BiasGelu", [z, bias], layer + name)
    inputs = [helper.make_tensor_value_info("ids", TensorProto.INT64, ["B", "L"]),
              helper.make_tensor_value_info("mask", TensorProto.INT32, ["B", "L"])]
    outputs = [helper.make_tensor_value_info(x, TensorProto.FLOAT, ["B", "L", config["hidden_size"]])]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(nodes, "bert", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


class OnnxRuntime:
    name = "ONNX Runtime"

    def __init__(self, path, threads):
        try:
            import onnxruntime
            import tokenizers
            graph = bert_graph(path)
        except ImportError as why:
            raise Missing(f"ONNX Runtime: {why}")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        self.tokenizer = tokenizers.Tokenizer.from_file(os.path.join(path, "tokenizer.json"))
        self.tokenizer.no_padding()

    def run(self, texts):
        out = np.zeros((len(texts), 384), np.float32)
        for batch, encodings in batches(self.tokenizer, texts):
            ids = np.zeros((len(batch), max(len(e.ids) for e in encodings)), np.int64)
            mask = np.zeros(ids.shape, np.int32)
            for row, e in enumerate(encodings):
                ids[row, :len(e.ids)] = e.ids
                mask[row, :len(e.ids)] = 1
            hidden = self.session.run(None, {"ids": ids, "mask": mask})[0]
            mean = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
            out[batch] = mean / np.linalg.norm(mean, axis=1, keepdims=True)
        return out


LAYER_NAMES = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
               "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
               "ffn_down": "mlp.down_proj"}
NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def hugging_face_name(name):
    """blk.3.attn_q.weight -> model.layers.3.self_attn.q_proj.weight"""
    parts = name.split(".")
    return f"{NAMES[parts[0]]}.{parts[1]}" if len(parts) == 2 else f"model.layers.{parts[1]}.{LAYER_NAMES[parts[2]]}.{parts[3]}"


class Transformers:
    name = "transformers"

    def __init__(self, path, threads):
        try:
            import gguf
            import transformers
        except ImportError as why:
            raise Missing(f"transformers: {why}")
        torch.set_num_threads(threads)
        reader = gguf.GGUFReader(path)

        def value(key):
            return reader.fields["llama." + key].contents()
        heads, kv_heads = value("attention.head_count"), value("attention.head_count_kv")
        weights = {}
        for tensor in reader.tensors:
            name, x = hugging_face_name(tensor.name), gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            if name.endswith(("q_proj.weight", "k_proj.weight")):  # llama.cpp keeps the pairs of RoPE side by side
                n = heads if "q_proj" in name else kv_heads
                x = x.reshape(n, -1, 2, x.shape[-1]).swapaxes(1, 2).reshape(x.shape)
            weights[name] = torch.tensor(x, dtype=torch.float32)
        tied = "lm_head.weight" not in weights
        config = transformers.LlamaConfig(
            vocab_size=weights["model.embed_tokens.weight"].shape[0], hidden_size=value("embedding_length"),
            intermediate_size=value("feed_forward_length"), num_hidden_layers=value("block_count"), num_attention_heads=heads,
            num_key_value_heads=kv_heads, max_position_embeddings=value("context_length"), rope_theta=value("rope.freq_base"),
            rms_norm_eps=value("attention.layer_norm_rms_epsilon"), tie_word_embeddings=tied)
        if tied:
            weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
        self.model = transformers.LlamaForCausalLM(config).eval()
        self.model.load_state_dict(weights)
        self.cache = None

    def feed(self, ids):
        out = self.model(torch.tensor([list(ids)]), past_key_values=self.cache, use_cache=True, logits_to_keep=1)
        self.cache = out.past_key_values
        return out.logits[0, -1].numpy()

    def forget(self, length):
        if length == 0:
            self.cache = None
        elif self.cache.get_seq_length() > length:
            self.cache.crop(length - self.cache.get_seq_length())


# ---------------------------------------------------------------- measuring ----

class Stream:
    """Reading as much memory as a token takes: every number that the model uses, and the cache of so many tokens, in f32."""
    name = "stream"

    def __init__(self, decoder, tokens):
        of = decoder.model.info()
        self.context, self.rates = decoder.model.ctx, []
        self.bytes = 4 * (of.parameters + 2 * tokens * of.layers * of.kv_heads * of.head_dim)
        self.memory = np.ones(self.bytes // 4, np.float32)

    def measure(self):
        rate = ctypes.c_double()
        self.context.check(attnlib.C.attn_measure_stream(self.context.handle, c_void_p(self.memory.ctypes.data), c_int64(self.bytes),
                                                         byref(rate)))
        self.rates.append(rate.value)


def in_turns(programs, run, rounds, threads):
    """Seconds of each round of each program."""
    now = time.thread_time if threads == 1 else time.perf_counter
    seconds = {program.name: [] for program in programs}
    for _ in range(rounds):
        for program in programs:
            start = now()
            run(program)
            seconds[program.name].append(now() - start)
    return seconds


def row(what, seconds, unit, amount):
    """libattn's rate, and how many times as long each peer takes: median and quartiles over the rounds."""
    ours = np.array(seconds["libattn"])
    peers = []
    result = {"case": what, "libattn": float(np.median(ours)), "ratios": {}}
    for name, theirs in seconds.items():
        if name != "libattn":
            low, median, high = np.quantile(np.array(theirs) / ours, (0.25, 0.5, 0.75))
            peers.append(f"{name} {median:.2f} [{low:.2f}, {high:.2f}]")
            result["ratios"][name] = float(median)
    print(f"| {what} | {amount / np.median(ours):.1f} {unit} | {'; '.join(peers)} |", flush=True)
    return result


def started(classes, *arguments):
    programs = []
    for program_class in classes:
        try:
            programs.append(program_class(*arguments))
        except Missing as why:
            print(f"left out: {why}", file=sys.stderr)
    if not programs or programs[0].name != "libattn":
        raise Missing("nothing to compare with")
    return programs


def embeddings(path, threads, rounds):
    programs = started((Embedder, SentenceTransformers, OnnxRuntime), path, threads)
    random = np.random.default_rng(1)
    texts = [" ".join(random.choice(WORDS, random.integers(8, 28))) for _ in range(SENTENCES)]
    ours = programs[0].run(texts)
    for program in programs[1:]:
        theirs = program.run(texts)
        cosine = (ours * theirs).sum(1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(theirs, axis=1)
        if not cosine.min() > 0.99999:
            raise SystemExit(f"{program.name} gives other embeddings: cosine {cosine.min()}")
    seconds = in_turns(programs, lambda program: program.run(texts), rounds, threads)
    return [row(f"MiniLM, {SENTENCES} sentences", seconds, "sentences/s", SENTENCES)]


def decoding(path, threads, rounds):
    peer = Transformers(path, threads)
    programs = [Decoder(path, threads, peer.model.config.vocab_size), peer]
    ids = np.random.default_rng(1).integers(100, 40000, PROMPT).tolist()
    ours, theirs = (np.array(program.feed(ids)) for program in programs)
    error = np.abs(ours - theirs).max() / np.abs(theirs).max()
    if not error < 1e-3:
        raise SystemExit(f"transformers gives other logits: {error} of the greatest")

    def prefill(program):
        program.forget(0)
        program.feed(ids)

    def decode(program):
        if isinstance(program, Stream):
            return program.measure()
        program.forget(PROMPT // 4)
        for token in ids[:GENERATED]:
            program.feed([token])

    results = [row(f"SmolLM2-135M, prefill {PROMPT}", in_turns(programs, prefill, rounds, threads), "tokens/s", PROMPT)]
    stream = Stream(programs[0], PROMPT // 4 + GENERATED // 2)
    seconds = in_turns(programs + [stream], decode, rounds, threads)
    del seconds[stream.name]
    results.append(row(f"SmolLM2-135M, decoding behind {PROMPT // 4}", seconds, "tokens/s", GENERATED))
    rate, limit = stream.bytes * GENERATED / results[-1]["libattn"] * 1e-9, float(np.median(stream.rates))
    results[-1].update(gb_per_second=rate, stream_gb_per_second=limit)
    print(f"\nDecoding reads weights and cache at {rate:.1f} GB/s, {100 * rate / limit:.0f} % of a stream read of as much memory in the "
          "same turns.")
    return results


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--minilm")
    parser.add_argument("--smollm2")
    parser.add_argument("--json")
    options = parser.parse_args()
    results = []
    print(f"torch {torch.__version__}; {options.threads} thread{'s' * (options.threads > 1)}\n")
    print("| | libattn | time of others, in ours |\n|---|---|---|")
    for path, compare in ((options.minilm, embeddings), (options.smollm2, decoding)):
        try:
            results += compare(os.path.abspath(path), options.threads, options.rounds) if path else []
        except Missing as why:
            print(f"left out: {why}", file=sys.stderr)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
