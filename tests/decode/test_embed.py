# SPDX-License-Identifier: Apache-2.0
"""attn embed: the vectors of the library's own calls, whatever the order, the batches and the threads; prompts, lengths, poolings; what a
terminal, a pipe and --json get; refusals in one sentence."""
import io
import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import sys
import tempfile
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
import attnlib  # noqa: E402
import decodelib  # noqa: E402
from test_encoders import CONFIG, ROOM, WIDTH, make_tensors  # noqa: E402
from test_models import write_folder  # noqa: E402
from test_pooling import Folder, dense, pooled, pooling, unit  # noqa: E402

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "sky", "is", "blue", "it", "rains", "find", ":", ".",
         "하늘", "##이", "파랗", "##다"]
CLS, SEP = 2, 3
TEXTS = ["the sky is blue.", "it rains", "하늘이 파랗다", "the the the the the sky is is is is blue", "nothing known", ""]


def ids_of(*words):
    return np.array([CLS] + [WORDS.index(w) for w in words] + [SEP])


IDS = [ids_of("the", "sky", "is", "blue", "."), ids_of("it", "rains"), ids_of("하늘", "##이", "파랗", "##다"),
       ids_of(*["the"] * 5, "sky", *["is"] * 4, "blue"), ids_of("[UNK]", "[UNK]"), ids_of()]


class Embed(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.ctx = attnlib.Context(threads=1)

    def folder(self, *modules, **more):
        path = self.root / "model"
        path.mkdir(exist_ok=True)
        for left in path.glob("*.json"):
            left.unlink()
        if modules:
            Folder(path, *modules, **more)
        else:
            write_folder(path, dict(CONFIG, model_type="bert"), make_tensors())
        words = WORDS + [f"unused{i}" for i in range(CONFIG["vocab_size"] - len(WORDS))]
        (path / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
        (path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
        return path

    def attn(self, *words, stdin=b""):
        return subprocess.run([os.environ["ATTN"], "embed", *map(str, words)], input=stdin, capture_output=True, cwd=self.root, check=False)

    def vectors(self, *words, stdin=b""):
        got = self.attn(*words, stdin=stdin)
        self.assertEqual((got.returncode, got.stderr.decode()), (0, ""))
        return np.load(io.BytesIO(got.stdout))

    def wanted(self, path, ids, **vector):
        model = decodelib.Model(self.ctx, path)
        out = np.stack([model.embed(x, **vector) for x in ids])
        model.close()
        return out

    def refused(self, words, *arguments):
        got = self.attn(*arguments)
        self.assertEqual((got.returncode, got.stdout), (2, b""))
        self.assertRegex(got.stderr.decode(), "^attn: [^\n]*" + words + "[^\n]*\n$")

    def test_the_library_says_the_same(self):
        path = self.folder()
        want = self.wanted(path, IDS)
        lines = "\n".join(TEXTS).encode() + b"\n"
        np.testing.assert_array_equal(self.vectors(path, "--file", "-", stdin=lines), want)
        other = b"\xef\xbb\xbf" + lines.replace(b"\n", b"\r\n")[:-4]
        np.testing.assert_array_equal(self.vectors(path, "--file", "-", stdin=other), want[:5])
        (self.root / "t.txt").write_bytes("\n".join(TEXTS[2:]).encode() + b"\n")
        for threads in (1, 3):
            got = self.vectors(path, "--text", TEXTS[0], "--text", TEXTS[1], "--file", "t.txt", "--threads", threads)
            np.testing.assert_array_equal(got, want)
        many = np.random.default_rng(1).integers(0, len(TEXTS), 2000)
        got = self.vectors(path, "--file", "-", stdin=b"".join(TEXTS[i].encode() + b"\n" for i in many))
        np.testing.assert_array_equal(got, want[many])
        for mode, name in enumerate(("cls", "mean", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"), 1):
            np.testing.assert_array_equal(self.vectors(path, "--text", TEXTS[0], "--pool", name), self.wanted(path, IDS[:1], pooling=mode))
        np.testing.assert_array_equal(self.vectors(path, "--text", TEXTS[0], "--normalize"), self.wanted(path, IDS[:1], flags=1))
        self.attn(path, "--text", TEXTS[0], "-o", "a.npy")
        np.testing.assert_array_equal(np.load(self.root / "a.npy"), want[:1])

    def test_the_ends_of_lines(self):
        """A byte-level tokenizer sees every byte that is not taken off."""
        path = self.folder()
        config = dict(CONFIG, model_type="roberta")
        write_folder(path, config, make_tensors())
        (path / "vocab.txt").unlink()
        letters = ["<s>", "<pad>", "</s>", "<unk>", "a", "b", "\u010d", "\u00ef", "\u00bb", "\u00bf", "\u0120"]
        (path / "vocab.json").write_text(json.dumps({x: i for i, x in enumerate(letters)}))
        (path / "merges.txt").write_text("#version: 0.2\n")
        (path / "tokenizer_config.json").write_text(json.dumps({
            "tokenizer_class": "RobertaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>",
            "unk_token": "<unk>"}))
        got = self.vectors(path, "--file", "-", stdin=b"\xef\xbb\xbfab\r\nb a\r\r\n\na")
        np.testing.assert_array_equal(got, self.wanted(path, [np.array(x) for x in ([0, 4, 5, 2], [0, 5, 10, 4, 6, 2], [0, 2], [0, 4, 2])]))

    def test_prompts(self):
        settings = {"prompts": {"query": "find: ", "plain": ""}, "default_prompt_name": "query"}
        path = self.folder(pooling("mean"), settings=settings)
        asked = [ids_of("find", ":", "it", "rains")]
        for words, ids in (((), asked), (("--prompt", "query"), asked), (("--prompt", "find :"), asked), (("--prompt=",), IDS[1:2]),
                           (("--prompt", "plain"), IDS[1:2])):
            np.testing.assert_array_equal(self.vectors(path, "--text", "it rains", *words), self.wanted(path, ids))
        self.refused(r"--prompt is quary, and the model declares no prompt of that name \(it declares: query, plain\)", path,
                     "--text", "it", "--prompt", "quary")
        path = self.folder(pooling(["mean", "cls"], include_prompt=False), settings=settings)
        rows = np.load(io.BytesIO(self.attn(path, "--text", "it rains").stdout))
        np.testing.assert_array_equal(rows, self.wanted(path, asked, skip=3))
        self.assertFalse(np.array_equal(rows, self.wanted(path, asked, skip=0)))

    def test_long_texts_are_cut(self):
        path = self.folder(pooling("lasttoken"), transformer={"max_seq_length": 6})
        got = self.attn(path, "--text", " ".join(["sky"] * 9), "--text", "it rains")
        self.assertEqual(got.stderr.decode(), "attn: 1 of 2 texts cut to 6 tokens, the most that this model takes\n")
        np.testing.assert_array_equal(np.load(io.BytesIO(got.stdout)), self.wanted(path, [ids_of(*["sky"] * 4), IDS[1]]))
        self.assertEqual(self.attn(path, "--text", " ".join(["sky"] * 9), "--quiet").stderr, b"")
        self.assertEqual(json.loads(self.attn(self.folder(), "--text", "sky " * 99, "--json").stdout)["tokens"], [ROOM])

    def test_json(self):
        path = self.folder(pooling("mean"), ("Normalize", None, None))
        got = json.loads(self.attn(path, "--text", TEXTS[0], "--text", TEXTS[1], "--json").stdout)
        want = self.wanted(path, IDS[:2])
        self.assertEqual((got["command"], got["model"], got["tokens"]), ("embed", "bert", [7, 4]))
        np.testing.assert_array_equal(np.array(got["arrays"]["embeddings"]["values"], np.float32), want)
        self.assertAlmostEqual(got["similarity"][0][1], float(want[0] @ want[1]), 6)
        checker = pathlib.Path(__file__).resolve().parent.parent
        (self.root / "out.json").write_text(json.dumps(got))
        schema = checker.parent / "docs/attn-json-schema.json"
        subprocess.run([sys.executable, checker / "cli/check_json.py", schema, self.root / "out.json"], check=True)
        self.assertNotIn("similarity", json.loads(self.attn(path, "--text", "sky", "--json").stdout))

    def terminal(self, *words, until=None):
        """What a terminal of 80 columns shows. until: Ctrl-C as soon as this pattern stands there."""
        master, slave = pty.openpty()
        process = subprocess.Popen([os.environ["ATTN"], "embed", *map(str, words)], stdin=slave, stdout=slave, stderr=slave, cwd=self.root)
        os.close(slave)
        shown = b""
        try:
            while piece := os.read(master, 1 << 16):
                shown += piece
                if until and re.search(until, shown.decode()):
                    process.send_signal(signal.SIGINT)
                    until = None
        except OSError:
            pass
        os.close(master)
        return process.wait(), shown.decode()

    def test_a_terminal(self):
        path = self.folder(pooling("mean"), dense(WIDTH, 4))
        status, shown = self.terminal(path, "--text", TEXTS[0], "--text", TEXTS[1], "--text",
                                      "\x1b[2J a text that is longer than what fits")
        self.assertEqual(status, 0)
        one, two = self.wanted(path, IDS[:2])
        lines = shown.replace("\r", "").split("\n")
        self.assertEqual((lines[0], lines[4]), ("embeddings (3,4) f32", "cosine similarity"))
        self.assertRegex(lines[6], f"^  1 the sky is blue. +1 +{float(unit(one) @ unit(two)):.4f} ")
        self.assertRegex(lines[8], r"^  3  \[2J a text that is longer th\.\.\. ")
        self.assertNotIn("\x1b", shown)

    def test_progress_and_interrupts(self):
        big = {"hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 1, "num_attention_heads": 2}
        config, rng = dict(CONFIG, model_type="bert", max_position_embeddings=512, **big), np.random.default_rng(3)
        tensors = {}
        for name, t in make_tensors().items():
            if "layer.1" not in name:
                shape = [{WIDTH: 128, CONFIG["intermediate_size"]: 512, ROOM: 512}.get(n, n) for n in t.shape]
                tensors[name] = rng.normal(size=shape).astype(np.float32)
        path = self.folder()
        write_folder(path, config, tensors)
        (self.root / "long.txt").write_text(("the sky is blue. " * 60 + "\n") * 200)
        (self.root / "v.npy").write_text("old")
        words = (path, "--file", "long.txt", "-o", "v.npy", "--isa", "scalar", "--threads", "1")
        bar = r"\r\[#* *\] +\d+%  [1-9]\d* s"
        status, shown = self.terminal(*words, until=bar)
        self.assertEqual(status, 130)
        self.assertRegex(shown, bar)
        self.assertEqual(list(map(int, re.findall(r"(\d+)%", shown))), sorted(map(int, re.findall(r"(\d+)%", shown))))
        self.assertEqual((self.root / "v.npy").read_text(), "old")
        self.assertEqual(sorted(p.name for p in self.root.iterdir()), ["long.txt", "model", "v.npy"])

    def test_refusals(self):
        path = self.folder(pooling("mean"), dense(WIDTH, 8))
        (self.root / "empty.txt").write_text("")
        (self.root / "bytes.txt").write_bytes(b"it rains\n\xff\n")
        for words, arguments in {
                "there is no text; give --text": (path,), "empty.txt: there is no line in it": (path, "--file", "empty.txt"),
                "missing.txt: cannot be read: No such file": (path, "--file", "missing.txt"),
                "bytes.txt, line 2: .*UTF-8": (path, "--file", "bytes.txt"),
                "--text 1: .*UTF-8": (path, "--text", b"\xff".decode("utf-8", "surrogateescape")),
                "--pool is median, and must be one of: declared": (path, "--pool", "median", "--text", "it"),
                "no-model": ("no-model", "--text", "it"), "attn embed was given 0 files": ("--text", "it")}.items():
            with self.subTest(words):
                self.refused(words, *arguments)
        (path / "2_Dense" / "config.json").write_text(json.dumps(dense(2 * WIDTH, 8)[1]))
        self.refused("in_features is 64", path, "--text", "it")
        path = self.folder(pooling(["cls", "mean"]), dense(2 * WIDTH, 8))
        self.refused("--pool cls gives vectors of 32, but a Dense", path, "--text", "it", "--pool", "cls")
        self.refused("--text is given more than 256 times", path, *["--text", "it"] * 257)
        (path / "vocab.txt").unlink()
        self.refused("model: .*tokenizer.json", path, "--text", "it")


if __name__ == "__main__":
    unittest.main()
