# SPDX-License-Identifier: Apache-2.0
"""attn_pretrained_tokenizer and attn_chat_text: what the templates of models make of messages; those that are not known, by name.
The expected texts are Jinja's: oracle_smollm2 has Jinja write them."""
import datetime
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
import chats  # noqa: E402
import decodelib  # noqa: E402


class Chat(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = pathlib.Path(place.name)

    def tokenizer(self, template):
        chats.write(self.folder / "t.gguf", template)
        return decodelib.Tokenizer(self.folder / "t.gguf")

    def test_templates(self):
        for name, template in chats.TEMPLATES.items():
            for what, messages in chats.MESSAGES.items():
                with self.subTest(name, messages=what):
                    date = chats.DATE if name == "llama 3.2" else None
                    self.assertEqual(self.tokenizer(template).chat(messages, date), chats.expected(name, messages))

    def test_today(self):
        before = datetime.date.today()
        said = self.tokenizer(chats.LLAMA32).chat(chats.ASK)
        days = {d.strftime("%d %b %Y") for d in (before, datetime.date.today())}
        self.assertTrue(any(f"Today Date: {day}\n" in said for day in days), said)

    def test_a_folder(self):
        (self.folder / "vocab.txt").write_text("[UNK]\n[CLS]\n[SEP]\na\n")
        (self.folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer", "chat_template": chats.CHATML}))
        self.assertEqual(decodelib.Tokenizer(self.folder).chat(chats.ASK), chats.expected("chatml", chats.ASK))

    def refused(self, sentence, messages=chats.ASK, template=chats.CHATML):
        with self.assertRaises(decodelib.LoadError) as caught:
            self.tokenizer(template).chat(messages)
        self.assertTrue(str(caught.exception).startswith("chat template: " + sentence), str(caught.exception))

    def test_refusals(self):
        behind = ", which is not understood; those of ChatML and of Llama 3 to 3.2 are built in here; give the whole text as the prompt"
        self.refused("the model has none; give the whole text as the prompt", template=None)
        self.refused('the model\'s has "[INST]"' + behind, template="{{ '[INST]' + messages[0]['content'] }}")
        self.refused('the model\'s has "<|user|>"' + behind, template="{{ '<|user|>' }}")
        self.refused('the model\'s has "<|think_on|>"' + behind, template=chats.CHATML + "<|think_on|>")
        self.refused('the model\'s has "enable_thinking"' + behind, template=chats.CHATML + "{% if enable_thinking %}{% endif %}")
        self.refused("the model's is none that is known", template="{{ messages[0]['content'] }}")
        self.refused('message 0 is by "tool"', [("tool", "x")])
        self.refused("message 1 is the system's; only the first may be", [("user", "x"), ("system", "y")])
        self.refused("there are no messages", [])

    def test_arrays_that_contradict(self):
        values = {"general.architecture": "llama", "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": ["a", "b"]}
        for key, value in {"scores": [0.5], "token_type": ("string", ["x", "y"])}.items():
            with self.subTest(key), self.assertRaisesRegex(decodelib.LoadError, f"tokenizer.ggml.{key} must have 2 numbers"):
                (self.folder / "t.gguf").write_bytes(chats.gguf(values | {"tokenizer.ggml." + key: value}, {}))
                decodelib.Tokenizer(self.folder / "t.gguf")


if __name__ == "__main__":
    unittest.main()
