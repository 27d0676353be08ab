#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""attn view and attn explain mha --from of models: what is shown are the model's own numbers, made of the weights in its files; the tokens
and words are those of the text; what does not fit is refused."""
import json
import os
import pathlib
import subprocess
import sys

import numpy as np

from pagelib import attn, page, refused, run_all

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
import tinymodels  # noqa: E402

KOREAN = "the cat sat unbelievably 나는 학생입니다."
MODELS = {"bert": KOREAN, "gpt2": "ab c 나는ab", "mistral": "ab c 나는ab", "llama.gguf": "ab c 나는ab", "marian": "a small cats 나는"}
PARTS = {"bert": ["encoder"], "gpt2": ["decoder"], "mistral": ["decoder"], "llama.gguf": ["decoder"],
         "marian": ["encoder", "decoder", "cross"]}


def models():
    """Made once a folder: {name: tensors}."""
    make = {"bert": tinymodels.bert, "gpt2": tinymodels.gpt2, "mistral": tinymodels.mistral, "llama.gguf": tinymodels.llama_gguf,
            "marian": tinymodels.marian}
    return {name: function(name)[1] for name, function in make.items()}


SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent


def said(*words):
    """--json, which is what docs/attn-json-schema.json says."""
    out = attn(*words, "--json").stdout
    pathlib.Path("said.json").write_bytes(out)
    subprocess.run([sys.executable, SOURCE / "tests/cli/check_json.py", SOURCE / "docs/attn-json-schema.json", "said.json"], check=True,
                   stdout=subprocess.DEVNULL)
    os.remove("said.json")
    return json.loads(out)


def values(array):
    return np.array(array["values"], dtype=object).astype(float).reshape(array["shape"])


def attentions(name, *more):
    """{part: (layers,H,Lq,Lk)} as the model's own run has them, by --npz."""
    attn("view", name, "--text", MODELS[name], "--npz", "a.npz", *more)
    saved = np.load("a.npz")
    names = {part: "attentions" if len(PARTS[name]) == 1 else f"{part}_attentions" for part in PARTS[name]}
    assert set(saved.files) == set(names.values())
    return {part: saved[array] for part, array in names.items()}


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_explain_has_the_numbers_of_the_run():
    """The weights that were watched, and what the projections, the scores and W_O make of each other, in NumPy."""
    models()
    for name, parts in PARTS.items():
        watched = attentions(name)
        for part in parts:
            for layer in range(len(watched[part])):
                e = said("explain", "mha", "--from", name, "--layer", layer, "--text", MODELS[name], "--part", part)
                s = {stage: values(array) for stage, array in e["stages"].items()}
                assert np.array_equal(s["weights"].astype("f4"), watched[part][layer]), (name, part, layer)
                q, k = (s.get(f"{x}_rot", s[x]) for x in "qk")
                group = len(q) // len(k)
                k, v = np.repeat(k, group, 0), np.repeat(s["v"], group, 0)
                scores = q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1])
                np.testing.assert_allclose(np.where(np.isinf(s["masked"]), scores, s["masked"]), scores, atol=2e-4)
                np.testing.assert_allclose(s["weights"], softmax(s["masked"]), atol=1e-5)
                np.testing.assert_allclose(s["z"], s["weights"] @ v, atol=1e-4)
                hidden = np.isinf(s["masked"][0])
                i, j = np.indices(hidden.shape)
                window = 3 if name == "mistral" else 1 << 30
                assert np.array_equal(hidden, (part == "decoder") & ((j > i) | (j <= i - window))), (name, part)


def test_the_weights_are_those_of_the_files():
    t = models()
    p = page("explain", "mha", "--from", "bert", "--layer", 1, "--text", KOREAN)
    at = "encoder.layer.1.attention."
    for ours, theirs in (("q", "self.query"), ("k", "self.key"), ("v", "self.value"), ("o", "output.dense")):
        assert np.array_equal(p["w_" + ours], t["bert"][f"{at}{theirs}.weight"].T), ours
        assert np.array_equal(p["b_" + ours], t["bert"][f"{at}{theirs}.bias"]), ours
    np.testing.assert_allclose(p["result"][0], p["concat"][0] @ p["w_o"] + p["b_o"], atol=1e-4)
    p = page("explain", "mha", "--from", "marian", "--layer", 1, "--text", "a cat", "--part", "cross", "--target", "ein klein")
    assert np.array_equal(p["w_k"], t["marian"]["model.decoder.layers.1.encoder_attn.k_proj.weight"].T)
    assert p.data["shape"]["Lq"] == 3 and p.data["shape"]["Lk"] == 3 and p["m"].shape == (1, 3, tinymodels.WIDTH)
    assert p.data["labels"]["query"] == ["<pad>", "▁ein", "▁klein"] and p.data["labels"]["key"] == ["▁a", "▁cat", "</s>"]


def test_the_page_of_a_layer_with_rope():
    """q and k before and after the rotation, whose pairs lie side by side in a llama's .gguf and half a head apart in a folder."""
    t = models()
    for name, wq, interleaved in (("mistral", "model.layers.1.self_attn.q_proj", False), ("llama.gguf", "blk.1.attn_q", True)):
        p = page("explain", "mha", "--from", name, "--layer", 1, "--text", "ab c 나는ab")
        rope, L = p.data["options"]["rope"], p.data["shape"]["Lq"]
        assert p.data["kind"] == "mha" and np.array_equal(p["w_q"], t[name][wq + ".weight"].T) and rope["interleaved"] == interleaved
        np.testing.assert_allclose(p["q_plain"][0].swapaxes(0, 1).reshape(L, -1), p["x"][0] @ p["w_q"], atol=1e-5)
        np.testing.assert_allclose(rope["frequencies"], 100.0 ** (-np.arange(4) / 4), rtol=1e-6)
        assert rope["rows"] == rope["keys"] == [list(range(L))] and rope["factor"] == 1
        angle = np.outer(np.arange(L), rope["frequencies"])
        for side in ("q", "k"):
            plain, turned = p[side + "_plain"][0], p[side][0]
            a, b = (plain[..., 0::2], plain[..., 1::2]) if interleaved else (plain[..., :4], plain[..., 4:])
            c, d = (turned[..., 0::2], turned[..., 1::2]) if interleaved else (turned[..., :4], turned[..., 4:])
            np.testing.assert_allclose(c, a * np.cos(angle) - b * np.sin(angle), atol=1e-5)
            np.testing.assert_allclose(d, b * np.cos(angle) + a * np.sin(angle), atol=1e-5)


def test_x_is_what_the_layer_takes():
    """Of the first layer: the embeddings, behind the norm of a model that norms first."""
    t = models()
    x = page("explain", "mha", "--from", "bert", "--text", KOREAN)["x"][0]
    ids = said("view", "bert", "--text", KOREAN)["text"]["ids"]
    e = t["bert"]
    h = (e["embeddings.word_embeddings.weight"][ids] + e["embeddings.position_embeddings.weight"][:len(ids)] +
         e["embeddings.token_type_embeddings.weight"][0])
    h = (h - h.mean(-1, keepdims=True)) / np.sqrt(h.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(x, h * e["embeddings.LayerNorm.weight"] + e["embeddings.LayerNorm.bias"], atol=1e-5)
    pair = ("--text", "the cat", "--text2", "sat on")
    x = page("explain", "mha", "--from", "bert", *pair)["x"][0]
    ids = said("view", "bert", *pair)["text"]["ids"]
    h = (e["embeddings.word_embeddings.weight"][ids] + e["embeddings.position_embeddings.weight"][:len(ids)] +
         e["embeddings.token_type_embeddings.weight"][[0, 0, 0, 0, 1, 1, 1]])
    h = (h - h.mean(-1, keepdims=True)) / np.sqrt(h.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(x, h * e["embeddings.LayerNorm.weight"] + e["embeddings.LayerNorm.bias"], atol=1e-5)
    ids = said("view", "mistral", "--text", "ab c")["text"]["ids"]
    e = t["mistral"]
    h = e["model.embed_tokens.weight"][ids]
    h = h / np.sqrt((h * h).mean(-1, keepdims=True) + 1e-5) * e["model.layers.0.input_layernorm.weight"]
    q = values(said("explain", "mha", "--from", "mistral", "--text", "ab c")["stages"]["q"])
    np.testing.assert_allclose(q.swapaxes(0, 1).reshape(len(ids), -1), h @ e["model.layers.0.self_attn.q_proj.weight"].T, atol=1e-5)


def test_tokens_and_words():
    models()
    text = said("view", "bert", "--text", KOREAN)["text"]
    assert text["tokens"] == ["[CLS]", "the", "cat", "sat", "un", "##believ", "##ably", "나는", "학", "##생", "##입", "##니다", ".", "[SEP]"]
    assert text["words"] == ["[CLS]", "the", "cat", "sat", "unbelievably", "나는", "학생입니다", ".", "[SEP]"]
    assert text["word"] == [0, 1, 2, 3, 4, 4, 4, 5, 6, 6, 6, 6, 7, 8]
    text = said("view", "bert", "--text", "the cat", "--text2", "the cat")["text"]
    assert text["words"] == ["[CLS]", "the", "cat", "[SEP]", "the", "cat", "[SEP]"], text
    for name in ("gpt2", "llama.gguf"):
        text = said("view", name, "--text", "ab c 나는ab")["text"]
        assert text["tokens"] == ["ab", "▁c", "▁", *"<0xEB> <0x82> <0x98> <0xEB> <0x8A> <0x94>".split(), "ab"], text
        assert text["words"] == ["ab", "c", "나는ab"], text
    data = said("view", "marian", "--text", "a small cats 나는", "--target", "ein kleine katze")
    assert data["text"]["words"] == ["a", "small", "cats", "나는", "</s>"], data["text"]
    assert data["target"]["tokens"] == ["<pad>", "▁ein", "▁klein", "e", "▁katze"]
    assert data["target"]["words"] == ["<pad>", "ein", "kleine", "katze"]
    own = said("view", "marian", "--text", "a small cats 나는")["target"]
    assert own["tokens"][0] == "<pad>" and 1 < len(own["tokens"]) <= 9 and own["word"][-1] == len(own["words"]) - 1


def test_the_page_has_every_part():
    models()
    watched = attentions("marian", "--target", "ein kleine katze")
    p = page("view", "marian", "--text", MODELS["marian"], "--target", "ein kleine katze", "--layer", 2, "--head", 3)
    assert p.data["part"] == "encoder" and not p.data["causal"] and p.data["at"] == {"layer": 2, "head": 3}
    assert [one["part"] for one in p.data["more"]] == ["decoder", "cross"] and [one["causal"] for one in p.data["more"]] == [True, False]
    for part, array in (("encoder", "weights"), ("decoder", "decoder_weights"), ("cross", "cross_weights")):
        assert np.array_equal(p[array], watched[part]), part
    cross = p.data["more"][1]
    assert (cross["shape"]["layers"], cross["shape"]["Lq"], cross["shape"]["Lk"]) == (2, 5, 7)
    assert cross["labels"]["query"] == ["<pad>", "▁ein", "▁klein", "e", "▁katze"]
    assert cross["words"]["query"] == {"of": [0, 1, 2, 2, 3], "names": ["<pad>", "ein", "kleine", "katze"]}
    assert cross["words"]["key"]["names"][-1] == "</s>"
    p = page("view", "marian", "--text", "a cat", "--part", "cross")
    assert p.data["part"] == "cross" and [one["part"] for one in p.data["more"]] == ["encoder", "decoder"]


def test_what_is_written_is_read_again():
    models()
    for name in ("bert", "llama.gguf"):
        (watched,) = attentions(name).values()
        assert np.array_equal(page("view", "a.npz")["weights"], watched)
        assert np.array_equal(values(said("view", name, "--text", MODELS[name])["arrays"]["attentions"]).astype("f4"), watched)
    watched = attentions("marian")
    for part in PARTS["marian"]:
        assert np.array_equal(page("view", "a.npz", "--array", part)["weights"], watched[part])


def test_sizes_beyond_a_page():
    """A text too long for every weight: bytes, and the sentence about it."""
    models()
    long = {"model_type": "gpt2", "n_layer": 1, "n_embd": 32, "n_head": 4, "n_positions": 2100, "vocab_size": len(tinymodels.LETTERS),
            "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new", "eos_token_id": 0}
    folder, tensors = tinymodels.gpt2("long")
    tensors = {n: t for n, t in tensors.items() if not n.startswith(("h.1.", "h.2."))}
    tensors["wpe.weight"] = np.zeros((2100, 32), "f4")
    tinymodels.folder_of(folder, long, tensors, tinymodels.byte_level())
    p = page("view", "long", "--text", "a" * 1100, "--quiet")
    assert p["weights_u8"].shape == (1, 4, 1100, 1100) and "weights" not in p.arrays
    p = page("view", "long", "--text", "a" * 2100, "--quiet")
    assert p["top_index"].shape == (1, 4, 2100, 32) and "largest weights" in p.data["notes"][0]
    p = page("view", "long", "--text", "a" * 2100, "--quiet", "--lang", "ko")
    assert p.data["notes"] == ["칸이 1 x 4 x 2100 x 2100개여서 한 페이지에 담기에 너무 많다: 행마다 가장 큰 가중치 32개를 보인다"]


def test_text():
    models()
    out = attn("view", "marian", "--text", "a cat", "--target", "ein katze", "--lang", "ko", "--heat", "ascii").stdout.decode()
    for words in ("marian: 층 3개", "글: ▁a ▁cat </s>", "번역: <pad> ▁ein ▁katze", "인코더: 셀프 어텐션 (3,4,3,3)", "크로스 어텐션", "층 0, 헤드 0"):
        assert words in out, words
    one = attn("view", "marian", "--text", "a cat", "--part", "cross", "--layer", 1, "--head", 2, "--heat", "off").stdout.decode()
    assert "cross-attention" in one and "encoder:" not in one and "layer 1, head 2" in one
    out = attn("explain", "mha", "--from", "llama.gguf", "--text", "ab c", "--layer", 2).stdout.decode()
    for words in ("llama, layer 2: decoder", "behind the norm that comes first", "(2p, 2p+1): pos * f_p, f_0 = 1",
                  "share one key and value head"):
        assert words in out, words
    out = attn("explain", "mha", "--from", "bert", "--text", "the cat", "--cell", "0,1,1,2").stdout.decode()
    assert "row 1 (the)" in out and "2 (cat)" in out, out


def test_refusals():
    models()
    np.savez("w.npz", weights=np.full((1, 1, 2, 2), 0.5, "f4"))
    for saying, *words in (
            ("--text is missing", "view", "bert"),
            ("--layer is 3, and bert has 3, counted from 0", "view", "bert", "--text", "a", "--layer", 3),
            ("--head is 9, and bert has 4", "view", "bert", "--text", "a", "--head", 9),
            ("--part cross is given, and gpt2 has no such attention", "view", "gpt2", "--text", "a", "--part", "cross"),
            ("--text2 is the second text of an encoder's pair", "view", "gpt2", "--text", "a", "--text2", "a"),
            ("--target is what the decoder of a translating model says", "view", "bert", "--text", "a", "--target", "a"),
            ("sequence 0 has 62 tokens; the model takes 40", "view", "bert", "--text", "the " * 60),
            ("--tokens is for a file of saved attention", "view", "bert", "--text", "a", "--tokens", "a b"),
            ("--text is for a model, and w.npz is neither", "view", "w.npz", "--text", "a"),
            ("--heads is given, and with --from the model says it", "explain", "mha", "--from", "bert", "--text", "a", "--heads", 2),
            ("--from takes the place of X and WEIGHTS", "explain", "mha", "w.npz", "--from", "bert", "--text", "a"),
            ("--layer is 2, and marian has 2", "explain", "mha", "--from", "marian", "--text", "a", "--layer", 2, "--part", "decoder"),
            ("nowhere.gguf", "view", "nowhere.gguf", "--text", "a")):
        refused(saying, *words)


if __name__ == "__main__":
    wanted = sys.argv[1:]
    run_all([f for n, f in list(globals().items()) if n.startswith("test_") and (not wanted or n in wanted)])
