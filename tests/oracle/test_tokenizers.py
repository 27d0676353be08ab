# SPDX-License-Identifier: Apache-2.0
"""libattn_text against PyPI's tokenizers: vocabularies trained here on the standard library's own text, each with the steps of a real
family of models, and thousands of strings; ids, offsets, words and decoded text must be equal. With $MODEL the vocabulary of that folder
instead."""

import os
import pathlib
import random
import sys
import sysconfig
import tempfile
import unicodedata

from text_library import SKIP_SPECIAL, SPECIAL, Tokenizer
from tokenizers import AddedToken, Regex, Tokenizer as Oracle, decoders, models, normalizers, pre_tokenizers, processors, trainers

KOREAN = """어텐션은 질의와 키의 내적으로 어디를 볼지 정한다. 한국어 문장은 조사가 붙어 낱말이 길어진다. 쌍떡잎식물, 훑다, 값, 뷁! 서울특별시 종로구 세종대로 175.
가나다라마바사 아자차카타파하 나랏말싸미 듕귁에 달아 문자와로 서르 사맛디 아니할쎄"""
CHINESE = "注意力机制 五六七 日本語のテキスト、カタカナ。漢字かな交じり文 𠀋𡈽 繁體中文字"
OTHERS = """naïve café Kantō lǜshi ÅNGSTRÖM İstanbul ΣΊΣΥΦΟΣ Привет, мир! हिन्दी में १२३ ไทย עברית العربية ﷺ ﬁne ½ Ⅷ ① ™ ｆｕｌｌ
👩‍👩‍👧‍👦 🇰🇷 👍🏽 e\u0301 n\u0303 \u1100\u1161\u11a8 \u0344 \u2126 a\u0323\u0307 \u200b\u200d\ufeff\u00a0\u3000\u180e\u2028 \u00ad"""
CODE = "def f(a, b):\n\treturn a[0] == 10;\r\n\n  x  =  3.14!!   # don't, we'Re, I'M 12345 -> (x):\n"


def corpus():
    """Text that every Python has: its own modules."""
    folder = pathlib.Path(sysconfig.get_paths()["stdlib"])
    texts = [(folder / name).read_text("utf-8", "replace") for name in ("argparse.py", "string.py", "this.py", "textwrap.py", "heapq.py")]
    lines = [line for text in texts for line in text.splitlines() if line.strip()][:3000]
    return lines + (KOREAN + "\n" + CHINESE + "\n" + OTHERS).splitlines() * 20


def strings(seed, count):
    """Lines of every script, pieces of them glued together, and characters from anywhere in Unicode."""
    r = random.Random(seed)
    lines = corpus()
    whole = "\n".join([KOREAN, CHINESE, OTHERS, CODE] + lines[:200])
    yield from ("", " ", "  ", "\n", " \n\t ", "a", " a", "a ", "'", "##ing", "\u0301", "\x00", "\ufffd", KOREAN, CHINESE, OTHERS, CODE,
                "a" * 300, "[MASK] and[MASK]x <mask>  y [CLS]", "한" * 50, " ".join("ab") * 200)
    for _ in range(count):
        kind = r.randrange(4)
        if kind == 0:
            yield r.choice(lines)
        elif kind == 1:
            yield "".join(whole[i:i + r.randrange(1, 9)] for i in (r.randrange(len(whole)) for _ in range(r.randrange(1, 12))))
        elif kind == 2:
            yield "".join(chr(r.choice(ASSIGNED)) for _ in range(r.randrange(1, 20)))
        else:
            yield "".join(r.choice("  \t\n'a,B1.한é日\u0301") for _ in range(r.randrange(1, 30)))


# Characters of Unicode 8 by this Python's tables: what the two sides' tables agree on. Later ones differ between any two versions.
ASSIGNED = [c for c in range(0x30000) if unicodedata.ucd_3_2_0.category(chr(c)) not in ("Cn", "Cs", "Co")]


def byte_offsets(text, spans):
    at = [0]
    for c in text:
        at.append(at[-1] + len(c.encode()))
    return [(at[a], at[b]) for a, b in spans]


def compare(name, ours, oracle, texts, offsets=lambda text: True, same_decoding=True):
    bad = 0
    for text in texts:
        for special in (False, True):
            want = oracle.encode(text, add_special_tokens=special)
            got = ours.encode(text, flags=SPECIAL if special else 0)
            checks = [("ids", want.ids, got["ids"]), ("type_ids", want.type_ids, got["type_ids"]),
                      ("words", [-1 if w is None else w for w in want.word_ids], got["word"])]
            if offsets(text):
                checks.append(("offsets", byte_offsets(text, want.offsets), list(zip(got["start"], got["end"]))))
            if same_decoding:
                checks.append(("decoded", oracle.decode(want.ids, skip_special_tokens=special),
                               ours.decode(want.ids, SKIP_SPECIAL if special else 0)))
                checks.append(("streamed", ours.decode(want.ids), "".join(ours.stream(want.ids))))
            for what, right, mine in checks:
                if right != mine:
                    bad += 1
                    if bad <= 5:
                        print(f"{name}: {what} of {text!r}:\n  want {right}\n  got  {mine}", file=sys.stderr)
    return bad


def pairs(name, ours, oracle, texts):
    bad = 0
    for a, b in zip(texts, texts[1:]):
        for length in (0, 8, 13):
            oracle.enable_truncation(length) if length else oracle.no_truncation()
            want, got = oracle.encode(a, b), ours.encode(a, b, SPECIAL, length)
            if (want.ids, want.type_ids) != (got["ids"], got["type_ids"]):
                bad += 1
                if bad <= 3:
                    print(f"{name}: pair {a!r} {b!r} {length}:\n  want {want.ids} {want.type_ids}\n  got  {got}", file=sys.stderr)
    oracle.no_truncation()
    return bad


def composes(text):
    """Where composing joins characters our ranges hold all of them, the oracle's only the first."""
    return any(unicodedata.normalize(f, text) != text for f in ("NFC", "NFD")) or "\u200d" in text


def has_no_added(text):
    """After an added token a blank is put before the next word; the oracle trims a character for it that is none of its bytes."""
    return not any(word in text for word in ("Attention", "한국", "heap"))


def is_plain(text):
    return not composes(text)


def train(tokenizer, trainer):
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def bert(lower):
    t = Oracle(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=lower)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    train(t, trainers.WordPieceTrainer(vocab_size=3000, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False))
    t.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
                                                     special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    t.decoder = decoders.WordPiece()
    return t


def byte_level(pre, normalizer=None, post=None, specials=("<|endoftext|>",)):
    t = Oracle(models.BPE())
    if normalizer:
        t.normalizer = normalizer
    t.pre_tokenizer = pre
    train(t, trainers.BpeTrainer(vocab_size=3000, special_tokens=list(specials), show_progress=False,
                                 initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.decoder = decoders.ByteLevel()
    if post:
        t.post_processor = post
    return t


QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|"
         r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def split_by(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def llama2():
    t = Oracle(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    train(t, trainers.BpeTrainer(vocab_size=2500, special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)],
                                 show_progress=False, limit_alphabet=300, max_token_length=12))
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    return t


def unigram(scheme="always", fallback=False):
    t = Oracle(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    specials = ["<s>", "<pad>", "</s>", "<unk>"] + ([f"<0x{i:02X}>" for i in range(256)] if fallback else [])
    train(t, trainers.UnigramTrainer(vocab_size=2000, special_tokens=specials, unk_token="<unk>", show_progress=False))
    t.decoder = decoders.Metaspace(prepend_scheme=scheme)
    t.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>",
                                                     special_tokens=[("<s>", 0), ("</s>", 2)])
    return t


def old_gpt():
    """OpenAI's first: lower case, BertPreTokenizer, a suffix at the ends of words."""
    t = Oracle(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    t.normalizer = normalizers.BertNormalizer(lowercase=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    train(t, trainers.BpeTrainer(vocab_size=2500, special_tokens=["<unk>"], end_of_word_suffix="</w>", show_progress=False))
    t.decoder = decoders.BPEDecoder()
    return t


def mixed():
    """Steps that no family above uses."""
    t = Oracle(models.BPE(unk_token="<unk>", continuing_subword_prefix="@@"))
    t.normalizer = normalizers.Sequence([normalizers.Strip(), normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation("contiguous"),
                                               pre_tokenizers.Digits(individual_digits=False),
                                               pre_tokenizers.Split("e", "merged_with_previous"),
                                               pre_tokenizers.Split(Regex("[st]"), "merged_with_next")])
    train(t, trainers.BpeTrainer(vocab_size=2500, special_tokens=["<unk>"], continuing_subword_prefix="@@", show_progress=False))
    return t


def families():
    yield "BERT uncased", bert(True), is_plain
    yield "BERT cased", bert(False), None
    roberta = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), specials=["<s>", "</s>"],
                         post=processors.RobertaProcessing(("</s>", 1), ("<s>", 0), add_prefix_space=False))
    roberta.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    yield "RoBERTa", roberta, None
    yield "GPT-2", byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), post=processors.ByteLevel(trim_offsets=False)), None
    yield "GPT-2, trimmed", byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True),
                                       post=processors.ByteLevel(trim_offsets=True)), has_no_added
    yield "Qwen2", byte_level(split_by(QWEN2), normalizers.NFC()), is_plain
    yield "Llama 3", byte_level(split_by(LLAMA3)), None
    yield "o200k", byte_level(split_by(O200K)), None
    yield "SmolLM2", byte_level(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                         pre_tokenizers.ByteLevel(add_prefix_space=False)])), None
    yield "Llama 2", llama2(), None
    yield "XLM-R", unigram(), is_plain
    yield "Unigram, bytes, first", unigram("first", True), is_plain
    yield "GPT", old_gpt(), is_plain
    yield "mixed", mixed(), lambda text: False


def real(folder):
    """The tokenizer of a model that people use."""
    t = Oracle.from_file(f"{folder}/tokenizer.json")
    t.no_padding()
    t.no_truncation()
    yield "WordPiece of " + pathlib.Path(folder).parent.name, t, is_plain


def main():
    seed = 20240607
    failed = 0
    print(f"seed {seed}")
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, oracle, offsets) in enumerate(real(os.environ["MODEL"]) if "MODEL" in os.environ else families()):
            oracle.add_tokens([AddedToken("Attention", single_word=True), AddedToken("한국", normalized=False),
                               AddedToken("heap", normalized=True)])
            path = f"{folder}/{number}.json"
            oracle.save(path)
            ours = Tokenizer(path)
            texts = list(strings(seed + number, 600))
            bad = compare(name, ours, oracle, texts, offsets or (lambda text: True))
            bad += pairs(name, ours, oracle, texts[:60])
            print(f"{name}: {oracle.get_vocab_size()} tokens, {len(texts)} strings, {bad} differences")
            failed += bad
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
