# SPDX-License-Identifier: Apache-2.0
"""all-MiniLM-L6-v2, the real one in $MODEL: embeddings by `attn embed` against transformers in float64, sentence by sentence, in English
and Korean, of lengths from nothing to beyond what the model takes; the tokens against PyPI's tokenizers."""
import io
import json
import os
import pathlib
import subprocess
import unittest

import numpy as np
import tokenizers
import torch
import transformers

SENTENCES = """
Attention weighs every key by how well it answers the query.
The quick brown fox jumps over the lazy dog.
It rains.
Naïve café owners in Zürich don't accept cheques — cash only!
In 2017, eight authors wrote a paper of fifteen pages; by 2024 it had been cited more than 100,000 times.
def softmax(x): return exp(x - max(x)) / sum(exp(x - max(x)))
http://example.org/a?b=c&d=%20e#f, me@example.org, +82-2-123-4567
Supercalifragilisticexpialidocious antidisestablishmentarianism
WHY ARE YOU SHOUTING?
the the the the the the the the the the the the the the the the the the the the the
어텐션은 질의와 키의 내적으로 어디를 볼지 정한다.
하늘이 파랗다.
서울특별시 종로구 세종대로 175, 오전 9시 30분에 만나요!
나랏말싸미 듕귁에 달아 문자와로 서르 사맛디 아니할쎄
비가 온다
한국어 문장은 조사가 붙어 낱말이 길어진다, and English words may follow.
값, 훑다, 쌍떡잎식물, 뷁
注意力机制 日本語のテキスト
👍🏽 🇰🇷 ½ Ⅷ ﬁne ™
...?!
x
""".strip().split("\n")
TEXTS = SENTENCES + ["", " ".join(SENTENCES), " ".join(SENTENCES[10:17] * 9)]

transformers.utils.logging.disable_progress_bar()


def tokens_of(path):
    t = tokenizers.Tokenizer.from_file(str(path / "tokenizer.json"))
    t.no_padding()
    t.enable_truncation(256)  # max_seq_length of sentence_bert_config.json
    return [t.encode(text).ids for text in TEXTS]


def wanted(path, tokens):
    """As the model's card has it: the mean of the rows, of length 1."""
    model = transformers.AutoModel.from_pretrained(path, dtype=torch.float64, attn_implementation="eager").eval()
    with torch.no_grad():
        rows = [model(torch.tensor([ids])).last_hidden_state[0].mean(0).numpy() for ids in tokens]
    return np.stack([row / np.linalg.norm(row) for row in rows])


class MiniLM(unittest.TestCase):
    def test_embeddings(self):
        path = pathlib.Path(os.environ["MODEL"])
        lines = "".join(text + "\n" for text in TEXTS).encode()
        tokens = tokens_of(path)
        want = wanted(path, tokens)

        def attn(*more, text=lines):
            words = [os.environ["ATTN"], "embed", path, "--file", "-", *more]
            return subprocess.run(words, input=text, stdout=subprocess.PIPE, check=True).stdout

        got = np.load(io.BytesIO(attn()))
        cosine = (got.astype(np.float64) * want).sum(1) / np.linalg.norm(got.astype(np.float64), axis=1)
        print(f"{len(TEXTS)} texts of {min(map(len, tokens))} to {max(map(len, tokens))} tokens: 1 - cosine at most "
              f"{1 - cosine.min():.1e}, difference at most {np.abs(got - want).max():.1e}")
        self.assertGreater(cosine.min(), 0.99999)
        self.assertLess(np.abs(got - want).max(), 1e-5)
        self.assertEqual(json.loads(attn("--json"))["tokens"], [len(ids) for ids in tokens])
        # Any order, any company, any threads: the same bits.
        backwards = b"\n".join(lines.split(b"\n")[-2::-1]) + b"\n"
        np.testing.assert_array_equal(np.load(io.BytesIO(attn("--threads", "3", text=backwards))), got[::-1])
        # The test sees a mistake: other words, and a pooling that the folder does not declare.
        self.assertLess(np.sort((want @ want.T)[0])[-2], 0.99)
        other = np.load(io.BytesIO(attn("--pool", "cls")))
        self.assertLess((other * want).sum(1).min(), 0.999)


if __name__ == "__main__":
    unittest.main()
