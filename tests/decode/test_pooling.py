# SPDX-License-Identifier: Apache-2.0
"""What sentence-transformers declares beside an encoder: poolings, Normalize, Dense, prompts, lengths; against NumPy in float64. The bits
of a vector are the same alone, in a batch, padded on either side, for any number of threads. What is not known is refused by name."""
import json
import pathlib
import sys
import tempfile
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
import attnlib  # noqa: E402
import decodelib  # noqa: E402
from test_encoders import CONFIG, ROOM, WIDTH, make_tensors  # noqa: E402
from foldermake import write_folder, write_tensors  # noqa: E402

NAMES = ["declared", "cls", "mean", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
FLAGS = {"pooling_mode_cls_token": "cls", "pooling_mode_max_tokens": "max", "pooling_mode_mean_tokens": "mean",
         "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens": "weightedmean",
         "pooling_mode_lasttoken": "lasttoken"}
NORMALIZE, RAW = 1, 2
ACTIVATIONS = {"linear.Identity": lambda x: x, "activation.Tanh": np.tanh, "activation.Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
               "activation.ReLU": lambda x: np.maximum(x, 0), "activation.SiLU": lambda x: x / (1 + np.exp(-x))}


def pooled(rows, mode, skip=0):
    kept = rows[skip:]
    if len(kept) == 0:
        return np.zeros(rows.shape[1])
    weights = np.arange(skip + 1, len(rows) + 1)[:, None]
    return {"cls": kept[0], "mean": kept.mean(0), "max": kept.max(0), "mean_sqrt_len_tokens": kept.sum(0) / np.sqrt(len(kept)),
            "weightedmean": (kept * weights).sum(0) / weights.sum(), "lasttoken": kept[-1]}[mode]


def unit(x):
    return x / np.linalg.norm(x)


class Folder:
    """The folder of a small BERT with modules."""

    def __init__(self, path, *modules, settings=None, transformer=None, old=False):
        """modules: (class, config or None, tensors or None) behind the Transformer."""
        self.path = write_folder(path, dict(CONFIG, model_type="bert"), make_tensors())
        package = "sentence_transformers.models." if old else "sentence_transformers.base.modules.any."
        listed = [{"idx": 0, "name": "0", "path": "", "type": package + "Transformer"}]
        for i, (name, config, tensors) in enumerate(modules, 1):
            listed.append({"idx": i, "name": str(i), "path": f"{i}_{name}", "type": package + name})
            folder = self.path / listed[-1]["path"]
            folder.mkdir(exist_ok=True)
            if config is not None:
                (folder / "config.json").write_text(json.dumps(config))
            if tensors is not None:
                write_tensors(folder, tensors)
        self.write("modules.json", listed)
        for name, config in (("config_sentence_transformers.json", settings), ("sentence_bert_config.json", transformer)):
            if config is not None:
                self.write(name, config)

    def write(self, name, value):
        (self.path / name).write_text(json.dumps(value))


def pooling(mode, **more):
    return "Pooling", {"embedding_dimension": WIDTH, "pooling_mode": mode, "include_prompt": True} | more, None


def dense(inner, outer, activation="activation.Tanh", bias=True):
    rng = np.random.default_rng(11)
    tensors = {"linear.weight": rng.normal(size=(outer, inner)).astype(np.float32) * 0.3}
    if bias:
        tensors["linear.bias"] = rng.normal(size=outer).astype(np.float32)
    return "Dense", {"in_features": inner, "out_features": outer, "bias": bias, "activation_function": "torch.nn.modules." + activation,
                     "module_input_name": "sentence_embedding", "module_output_name": "sentence_embedding"}, tensors


class Pooling(unittest.TestCase):
    def setUp(self):
        self.ctx = attnlib.Context(threads=2)
        rng = np.random.default_rng(12)
        self.ids = [rng.integers(0, CONFIG["vocab_size"], n) for n in (9, 1, 14, 5)]

    def open(self, *modules, ctx=None, f64=False, **more):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = Folder(folder.name, *modules, **more).path if modules else write_folder(folder.name, dict(CONFIG, model_type="bert"),
                                                                                     make_tensors())
        model = decodelib.Model(ctx or self.ctx, path, f64)
        self.addCleanup(model.close)
        return model

    def near(self, got, want):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 if got.dtype == np.float32 else 1e-12)

    def test_every_mode(self):
        for f64 in (False, True):
            model = self.open(f64=f64)
            for ids in self.ids:
                rows = model.encode(ids[None], WIDTH)[0].astype(np.float64)
                for skip in (0, 1, 3):
                    for mode in range(1, len(NAMES)):
                        self.near(model.embed(ids[None], pooling=mode, skip=skip)[0], pooled(rows, NAMES[mode], skip))
                self.near(model.embed(ids), pooled(rows, "mean"))
                self.near(model.embed(ids, flags=NORMALIZE), unit(pooled(rows, "mean")))
            self.assertFalse(model.embed(np.zeros((2, 3)), lengths=np.array([0, 0])).any(), "an empty sequence gives 0")
        self.near(model.embed(ids, dtype=np.float32), model.embed(ids).astype(np.float32))

    def test_declared_modes(self):
        for name in NAMES[1:]:
            model = self.open(pooling(name))
            rows = model.encode(self.ids[0][None], WIDTH)[0].astype(np.float64)
            self.near(model.embed(self.ids[0]), pooled(rows, name))
        model = self.open(pooling(["lasttoken", "mean", "cls"]))
        self.assertEqual((model.info().embedding, model.columns(), model.columns(pooling=1)), (3 * WIDTH, 3 * WIDTH, WIDTH))
        self.near(model.embed(self.ids[0]), np.concatenate([pooled(rows, x) for x in ("lasttoken", "mean", "cls")]))
        everything = {flag: True for flag in FLAGS}
        model = self.open(("Pooling", {"word_embedding_dimension": WIDTH} | everything, None), old=True)
        self.near(model.embed(self.ids[0]), np.concatenate([pooled(rows, x) for x in FLAGS.values()]))
        model = self.open(("Pooling", {"word_embedding_dimension": WIDTH, "pooling_mode_mean_tokens": False}, None), old=True)
        self.near(model.embed(self.ids[0]), pooled(rows, "mean"))

    def test_modules(self):
        rows = self.open().encode(self.ids[0][None], WIDTH)[0].astype(np.float64)
        two = np.concatenate([pooled(rows, "cls"), pooled(rows, "mean")])
        for name, f in ACTIVATIONS.items():
            for bias in (True, False):
                layer = dense(2 * WIDTH, 20, name, bias)
                model = self.open(pooling(["cls", "mean"]), ("Normalize", None, None), ("Dropout", None, None), layer)
                want = f(layer[2]["linear.weight"].astype(np.float64) @ unit(two) + layer[2].get("linear.bias", 0))
                self.near(model.embed(self.ids[0]), want)
                self.assertEqual((model.info().embedding, model.columns(flags=RAW)), (20, 2 * WIDTH))
        self.near(model.embed(self.ids[0], flags=RAW), two)
        self.near(model.embed(self.ids[0], flags=NORMALIZE), unit(want))
        gelu = self.open(pooling("mean"), dense(WIDTH, 48, "activation.GELU"), dense(48, 8, "linear.Identity"), ("Normalize", {}, None))
        self.assertAlmostEqual(np.linalg.norm(gelu.embed(self.ids[0])), 1, 6)
        # Another pooling keeps the modules, and must fit.
        self.assertEqual(model.columns(pooling=1), 0)
        with self.assertRaisesRegex(Exception, "pooling cls gives 32 columns, but a Dense"):
            model.embed(self.ids[0], pooling=1, columns=20)
        self.near(model.embed(self.ids[0], pooling=1, flags=RAW), pooled(rows, "cls"))

    def test_the_bits_of_a_vector(self):
        modules = pooling(["weightedmean", "max", "lasttoken", "mean"]), dense(4 * WIDTH, 24), ("Normalize", None, None)
        model = self.open(*modules)
        alone = np.stack([model.embed(x) for x in self.ids])
        longest = max(map(len, self.ids)) + 2
        for threads in (1, 2, 5):
            model = self.open(*modules, ctx=attnlib.Context(threads=threads))
            for left in (False, True):
                ids, mask = np.full((len(self.ids), longest), 3), np.zeros((len(self.ids), longest), int)
                for b, x in enumerate(self.ids):
                    place = slice(longest - len(x), longest) if left else slice(len(x))
                    ids[b, place], mask[b, place] = x, 1
                np.testing.assert_array_equal(model.embed(ids, mask=mask), alone)
                if not left:
                    np.testing.assert_array_equal(model.embed(ids, lengths=mask.sum(1)), alone)

    def test_lengths_and_prompts(self):
        model = self.open(pooling("mean", include_prompt=False), transformer={"max_seq_length": 11, "do_lower_case": False},
                          settings={"__version__": {}, "prompts": {"query": "find: ", "document": None, "한국어": "질문: "},
                                    "default_prompt_name": "query", "similarity_fn_name": "cosine"})
        self.assertEqual((model.info().max_tokens, model.info().skips_prompt), (11, 1))
        self.assertEqual(model.prompts(), {"query": "find: ", "document": "", "한국어": "질문: "})
        self.assertEqual(model.default_prompt(), "find: ")
        model = self.open(pooling("mean"), transformer={"max_seq_length": 512}, settings={"prompts": {}, "default_prompt_name": None})
        self.assertEqual((model.info().max_tokens, model.info().skips_prompt, model.prompts(), model.default_prompt()), (ROOM, 0, {}, None))
        self.assertEqual(self.open().info().max_tokens, ROOM)

    def test_refusals(self):
        mean, norm = pooling("mean"), ("Normalize", None, None)
        for words, modules, more in (
                ("the module is .*WeightedLayerPooling", [("WeightedLayerPooling", {}, None), mean], {}),
                ("the module is .*LSTM", [mean, ("LSTM", {}, None)], {}),
                ("the module is .*Normalize", [norm, mean], {}),
                ("the module is .*Pooling", [mean, pooling("cls")], {}),
                ("pooling_mode has \"median\"", [pooling("median")], {}),
                ("pooling_mode has \"something", [pooling(["mean", 3])], {}),
                ("pooling_mode is an empty list", [pooling([])], {}),
                ("embedding_dimension is 31", [pooling("mean", embedding_dimension=31)], {}),
                ("pooling_temperature", [pooling("mean", pooling_temperature=2)], {}),
                ("in_features is 33", [mean, dense(33, 8)], {}),
                ("activation_function is \"torch.nn.modules.activation.Softsign\"", [mean, dense(WIDTH, 8, "activation.Softsign")], {}),
                ("tensor linear.bias is left over", [mean, ("Dense", dense(WIDTH, 8)[1] | {"bias": False}, dense(WIDTH, 8)[2])], {}),
                ("tensor linear.weight has shape", [mean, ("Dense", dense(WIDTH, 9)[1], dense(WIDTH, 8)[2])], {}),
                ("use_residual is true", [mean, ("Dense", dense(WIDTH, 8)[1] | {"use_residual": True}, dense(WIDTH, 8)[2])], {}),
                ("there is neither model.safetensors", [mean, ("Dense", dense(WIDTH, 8)[1], None)], {}),
                ("2_Dense/config.json: there is no such file", [mean, ("Dense", None, None)], {}),
                ("module_input_name is \"token_embeddings\"", [mean, ("Normalize", {"module_input_name": "token_embeddings"}, None)], {}),
                ("default_prompt_name is \"q\"", [mean], {"settings": {"prompts": {"p": ""}, "default_prompt_name": "q"}}),
                ("p is 3; a string", [mean], {"settings": {"prompts": {"p": 3}}}),
                ("model_type is \"SparseEncoder\"", [mean], {"settings": {"model_type": "SparseEncoder"}}),
                ("max_seq_length is 0", [mean], {"transformer": {"max_seq_length": 0}}),
                ("transformer_task is \"fill-mask\"", [mean], {"transformer": {"transformer_task": "fill-mask"}}),
                ("tokenizer_args is .*; only an empty one", [mean], {"transformer": {"tokenizer_args": {"padding_side": "left"}}}),
                ("method_output_name is \"pooler_output\"", [mean], {"transformer": {"modality_config": {
                    "text": {"method": "forward", "method_output_name": "pooler_output"}}}})):
            with self.subTest(words), self.assertRaisesRegex(decodelib.LoadError, words):
                self.open(*modules, **more)

    def test_refused_lists(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        made = Folder(folder.name, pooling("mean"))
        first = {"path": "", "type": "sentence_transformers.models.Transformer"}
        for words, listed in {
                "there is no Pooling": [first], "is no JSON array": {"modules": []}, "element 1 is 3": [first, 3], "there is no Pool": [],
                "type is missing": [{"path": ""}], "the module is torch.Pooling": [first, {"path": "1_Pooling", "type": "torch.Pooling"}],
                "outside": [first, {"path": "../1_Pooling", "type": "sentence_transformers.models.Pooling"}],
                "stands in 0_Transformer": [first | {"path": "0_Transformer"}]}.items():
            made.write("modules.json", listed)
            with self.subTest(words), self.assertRaisesRegex(decodelib.LoadError, words):
                decodelib.Model(self.ctx, made.path)

    def test_refused_calls(self):
        model = self.open(pooling("mean"))
        for words, call in {"skip -1": lambda: model.embed(self.ids[0], skip=-1, columns=WIDTH),
                            "flags 0x8": lambda: model.embed(self.ids[0], flags=8, columns=WIDTH),
                            "pooling 7": lambda: model.embed(self.ids[0], pooling=7, columns=WIDTH),
                            "must be \\[1,32\\]": lambda: model.embed(self.ids[0], columns=WIDTH + 1),
                            "the model takes": lambda: model.embed(np.zeros(ROOM + 1))}.items():
            with self.subTest(words), self.assertRaisesRegex(Exception, words):
                call()
        self.assertEqual([model.columns(skip=-1), model.columns(flags=8), model.columns(pooling=7)], [0, 0, 0])


if __name__ == "__main__":
    unittest.main()
