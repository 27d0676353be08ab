#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The data of the pages of attn explain: the bits of --json, the numbers of NumPy, the rules for sizes, memory and failures."""
import itertools
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import time

import numpy as np

from pagelib import ATTN, SANITIZED, Page, attn, page, refused, run_all, same_bits

STAGES = ["scores", "scaled", "capped", "masked", "weights"]
rng = np.random.default_rng(11)


def draw(*shape, dtype="f4"):
    return rng.standard_normal(shape).astype(dtype)


def save_qkv(B=1, H=2, Hkv=None, Lq=3, Lk=3, d=4, d_v=4, dtype="f4", path="qkv.npz"):
    arrays = {"q": draw(B, H, Lq, d, dtype=dtype), "k": draw(B, Hkv or H, Lk, d, dtype=dtype), "v": draw(B, Hkv or H, Lk, d_v, dtype=dtype)}
    np.savez(path, **arrays)
    return arrays


def same_as_json(words, p):
    """Every stage of the page has the bits that --json prints."""
    stages = json.loads(attn(*words, "--json").stdout)["stages"]
    for name in STAGES + ["lse", "row_max"]:
        assert same_bits(stages[name], p[name]), name
    return stages


def softmax(x):
    with np.errstate(all="ignore"):
        e = np.exp(x - x.max(-1, keepdims=True))
        w = e / e.sum(-1, keepdims=True)
    return np.where(np.isneginf(x).all(-1, keepdims=True), 0, w)


def test_every_dtype_and_rank():
    for dtype in ("f8", "f4", "f2"):
        arrays = save_qkv(B=2, H=4, Hkv=2, Lq=5, Lk=7, d=8, d_v=6, dtype=dtype)
        words = ["explain", "sdpa", "qkv.npz", "--causal=bottom-right"]
        p = page(*words)
        assert p["q"].dtype == ("<f8" if dtype == "f8" else "<f4")
        for name in "qkv":
            assert np.array_equal(p[name], arrays[name].astype(p[name].dtype)), name
        stages = same_as_json(words, p)
        assert same_bits(stages["output"], p["output"])
        wide = {n: a.astype(float) for n, a in arrays.items()}
        k, v = (wide[n].repeat(2, axis=1) for n in "kv")
        scaled = wide["q"] @ k.transpose(0, 1, 3, 2) / np.sqrt(8)
        masked = np.where(np.arange(7) > np.arange(5)[:, None] + 2, -np.inf, scaled)
        assert np.allclose(p["output"], softmax(masked) @ v, atol=1e-4)
        assert p.data["shape"] == {"B": 2, "H": 4, "Hkv": 2, "Lq": 5, "Lk": 7, "d_k": 8, "d_v": 6, "width": 32, "memory_width": 16,
                                   "out_width": 24, "layers": 1}
        assert p.data["options"]["offset"] == [2, 2] and p.data["options"]["causal"] is True
    for rank in (2, 3):
        np.savez("low.npz", **{n: draw(*(4, 3, 5)[3 - rank:]) for n in "qkv"})
        p = page("explain", "sdpa", "low.npz")
        assert p["q"].ndim == 4 and p["weights"].shape[0] == 1 and np.allclose(p["weights"].sum(-1), 1)


def test_options():
    save_qkv(B=2, H=6, Lq=4, Lk=4)
    p = page("explain", "sdpa", "qkv.npz", "--alibi", "--window", "2,1", "--kv-len", "3,4", "--q-len", "4,2", "--sinks", "1,2,3,4,5,6",
             "--softcap", "5", "--scale", "0.3", "--round", "4", "--align", "bottom-right", "--lang", "ko")
    slopes = [2.0 ** -2, 2.0 ** -4, 2.0 ** -6, 2.0 ** -8, 2.0 ** -1, 2.0 ** -3]
    assert p.data["options"] == {"scale": 0.3, "scale_given": True, "softcap": 5, "causal": False, "window": [2, 1], "offset": [-1, 2],
                                 "kv_len": [3, 4], "q_len": [4, 2], "alibi": slopes, "sinks": [1, 2, 3, 4, 5, 6], "dropout": 0, "seed": 0,
                                 "rope": None, "round": 4}, p.data["options"]
    assert p.data["lang"] == "ko" and p.data["kind"] == "sdpa" and p.data["schema"] == 1
    assert p.data["title"] == "qkv.npz" and p.data["command"].startswith("attn explain sdpa qkv.npz --alibi --window 2,1 ")
    assert p.data["isa"] in ("scalar", "avx2", "avx512", "avx512_bf16", "neon", "neon_bf16")
    assert p.data["notes"] == [] and p.data["summary"] is None
    np.save("slopes.npy", np.arange(12.0).reshape(2, 6))
    assert page("explain", "sdpa", "qkv.npz", "--alibi=slopes.npy").data["options"]["alibi"] == np.arange(12.0).reshape(2, 6).tolist()
    p = page("explain", "sdpa", "qkv.npz", "--offset", "-3", "--causal")
    assert p.data["options"]["offset"] == [-3, -3] and not p["weights"][:, :, :3].any() and np.isneginf(p["lse"][:, :, 0]).all()


def test_masks():
    save_qkv(B=2, H=2, Lq=3, Lk=5)
    seen = rng.random((2, 1, 3, 5)) < 0.6
    bias = draw(3, 5)
    bias[1, 2] = -np.inf
    np.save("seen.npy", seen), np.save("ints.npy", seen.astype("i8")), np.save("bias.npy", bias), np.save("row.npy", draw(2, 1, 5))
    call = ["explain", "sdpa", "qkv.npz"]
    for words, expected in ((["--mask", "seen.npy"], seen), (["--mask", "ints.npy"], seen), (["--mask", "seen.npy", "--mask-drop"], ~seen)):
        p = page(*call, *words)
        assert p["mask"].dtype == "u1" and np.array_equal(p["mask"], expected)
        assert np.array_equal(np.isneginf(p["masked"]), np.broadcast_to(~expected, (2, 2, 3, 5)))
    p = page(*call, "--bias", "bias.npy")
    assert np.array_equal(p["bias"], bias) and "mask" not in p.arrays
    p = page(*call, "--mask", "bias.npy")
    assert np.array_equal(p["bias"], bias)
    p = page(*call, "--mask", "bias.npy", "--bias", "row.npy")
    total = bias[None] + np.load("row.npy")
    assert p["bias"].shape == (1, 2, 3, 5) and p["bias"].dtype == "f8" and np.allclose(p["bias"][0], total, rtol=1e-6)
    assert np.allclose(p["masked"] - p["capped"], total, atol=1e-5)
    same_as_json([*call, "--mask", "bias.npy", "--bias", "row.npy"], p)


def test_dropout():
    save_qkv(B=2, H=2, Lq=6, Lk=6)
    words = ["explain", "sdpa", "qkv.npz", "--dropout", "0.4", "--seed", "9", "--causal"]
    p = page(*words)
    visible = np.arange(6) <= np.arange(6)[:, None]
    assert p["keep"].shape == (2, 2, 6, 6) and 0.3 < p["keep"].mean() < 0.9
    assert np.array_equal((p["weights"] > 0), (p["keep"] == 1) & visible)
    assert (p["keep"][..., ~visible] == 0).any() and (p["keep"][..., ~visible] == 1).any(), "hidden keys have no draw of their own"
    same_as_json(words, p)
    kept = rng.random((1, 2, 6, 6)) < 0.5
    np.save("kept.npy", kept)
    p = page(*words, "--keep", "kept.npy")
    assert np.array_equal(p["keep"], kept)
    assert not page("explain", "sdpa", "qkv.npz", "--dropout", "1")["keep"].any()


def mha_weights(d_in, d_mem, H, Hkv, d, d_v, out, **more):
    w = {"w_q": draw(d_in, H * d), "w_k": draw(d_mem, Hkv * d), "w_v": draw(d_mem, Hkv * d_v), "w_o": draw(H * d_v, out)}
    return {**w, **more}


def test_mha():
    x, m, m_v = draw(2, 4, 6), draw(2, 5, 3), draw(2, 5, 3)
    w = mha_weights(6, 3, 4, 2, 2, 3, 7, b_q=draw(8), b_v=draw(6), b_o=draw(7))
    np.save("x.npy", x), np.save("m.npy", m), np.save("m_v.npy", m_v), np.savez("w.npz", **w)
    words = ["explain", "mha", "x.npy", "w.npz", "--heads", 4, "--kv-heads", 2, "--memory", "m.npy", "--memory-v", "m_v.npy"]
    p = page(*words)
    assert p.data["kind"] == "mha" and p.data["title"] == "x.npy, w.npz"
    for name, array in {**w, "x": x, "m": m, "m_v": m_v}.items():
        assert np.array_equal(p[name], array), name
    assert "b_k" not in p.arrays
    split = lambda t, h: t.reshape(2, t.shape[1], h, -1).transpose(0, 2, 1, 3)  # noqa: E731
    assert np.allclose(p["q"], split(x @ w["w_q"] + w["b_q"], 4), atol=1e-5)
    assert np.allclose(p["k"], split(m @ w["w_k"], 2), atol=1e-5) and np.allclose(p["v"], split(m_v @ w["w_v"] + w["b_v"], 2), atol=1e-5)
    stages = same_as_json(words, p)
    assert same_bits(stages["z"], p["output"])
    assert np.array_equal(p["concat"], p["output"].transpose(0, 2, 1, 3).reshape(2, 4, 12))
    assert same_bits(stages["output"], p["result"])
    assert np.allclose(p["result"], p["concat"] @ w["w_o"] + w["b_o"], atol=1e-4)
    shape = p.data["shape"]
    assert (shape["width"], shape["memory_width"], shape["out_width"], shape["H"], shape["Hkv"]) == (6, 3, 7, 4, 2)


def test_mha_forms_of_weights():
    """Tables per head, packed and PyTorch's weights give the page of the plain ones."""
    x = draw(3, 4)
    w = mha_weights(4, 4, 2, 2, 2, 2, 4, b_q=draw(4), b_k=draw(4), b_v=draw(4), b_o=draw(4))
    heads = {n: w[n].reshape(4, 2, 2).transpose(1, 0, 2) for n in ("w_q", "w_k", "w_v")}
    np.save("x.npy", x), np.savez("plain.npz", **w), np.savez("heads.npz", **{**w, **heads})
    np.savez("packed.npz", w_qkv=np.hstack([w["w_q"], w["w_k"], w["w_v"]]), b_qkv=np.hstack([w["b_q"], w["b_k"], w["b_v"]]), w_o=w["w_o"],
             b_o=w["b_o"])
    np.savez("torch.npz", **{"in_proj_weight": np.hstack([w["w_q"], w["w_k"], w["w_v"]]).T, "out_proj.weight": w["w_o"].T,
                             "in_proj_bias": np.hstack([w["b_q"], w["b_k"], w["b_v"]]), "out_proj.bias": w["b_o"]})
    for file, more in (("plain.npz", []), ("heads.npz", []), ("packed.npz", []), ("torch.npz", ["--torch"])):
        p = page("explain", "mha", "x.npy", file, "--heads", 2, *more)
        for name, array in {**w, "x": x[None]}.items():
            assert np.array_equal(p[name], array), (file, name)


def test_split():
    x = draw(2, 3, 8)
    np.save("x.npy", x)
    p = page("explain", "split", "x.npy", "--heads", 4, "--tokens", "a b c")
    assert p.data["kind"] == "split" and p.data["options"] is None and np.array_equal(p["x"], x) and set(p.arrays) == {"x"}
    assert p.data["shape"]["H"] == 4 and p.data["shape"]["d_k"] == 2 and p.data["labels"]["query"] == ["a", "b", "c"]


def test_labels():
    save_qkv(H=1, Lq=3, Lk=3)
    words = ["나는", "</script><!--<script>", "\U0001F600"]
    p = page("explain", "sdpa", "qkv.npz", "--tokens", " ".join(words), "--key-tokens", "a b c")
    assert p.data["labels"] == {"query": words, "key": ["a", "b", "c"], "layer": None}
    p = page("explain", "sdpa", "qkv.npz", "--tokens", "I am here")
    assert p.data["labels"]["query"] == p.data["labels"]["key"] == ["I", "am", "here"]
    pathlib.Path("t.json").write_text(json.dumps([" the", "\n", "ĠLong word"]), encoding="utf-8")
    assert page("explain", "sdpa", "qkv.npz", "--tokens", "t.json").data["labels"]["query"] == [" the", "\\n", "ĠLong word"]
    pathlib.Path("t.txt").write_bytes("\ufeff하나\n둘\n셋\n".encode())
    assert page("explain", "sdpa", "qkv.npz", "--tokens", "t.txt").data["labels"]["query"] == ["하나", "둘", "셋"]


def test_hostile_names_of_files():
    save_qkv(path="qkv.npz")
    os.rename("qkv.npz", "<!--<script>.npz")
    p = page("explain", "sdpa", "<!--<script>.npz")
    assert p.data["title"] == "<!--<script>.npz" and p.data["command"].startswith("attn explain sdpa '<!--<script>.npz' --html")
    os.rename("<!--<script>.npz", "it's.npz")
    assert "'it'\\''s.npz'" in page("explain", "sdpa", "it's.npz").data["command"]


def test_words_that_are_refused():
    save_qkv(H=1, Lq=3, Lk=4)
    call = ["explain", "sdpa", "qkv.npz"]
    pathlib.Path("bad.txt").write_bytes(b"a b\xff c")
    refused("--tokens is no UTF-8: byte 3 is \\xff", *call, "--tokens", "bad.txt")
    pathlib.Path("zero.txt").write_bytes(b"a\0b c")
    refused("holds a 0 byte", *call, "--tokens", "zero.txt")
    pathlib.Path("bad.json").write_text('{"a": 1}')
    refused("is no list", *call, "--tokens", "bad.json")
    pathlib.Path("bad.json").write_text('["a", 1]')
    refused("element 1 of the list", *call, "--key-tokens", "bad.json")
    pathlib.Path("bad.json").write_text('["a"')
    refused("bad.json, line 1", *call, "--tokens", "bad.json")
    refused("--tokens has 2 words, and there are 3 rows and 4 keys", *call, "--tokens", "a b")
    refused("--key-tokens has 3 words, and there are 4 keys", *call, "--key-tokens", "a b c")
    refused("--tokens has 4 words, and there are 3 rows", *call, "--tokens", "a b c d", "--key-tokens", "a b c d")
    refused("--cell shows one row, and --html writes all of them", *call, "--cell", "0,0,0")


def check_u8(p, weights):
    assert p["weights_u8"].shape == weights.shape and p["weights_scale"].shape == weights.shape[:-1]
    scale = p["weights_scale"][..., None]
    assert (np.abs(p["weights_u8"] / 255 * scale - weights) <= scale * (0.5 / 255 + 1e-5) + 1e-7).all()
    assert (p["weights_u8"].max(-1)[weights.max(-1) > 0] == 255).all() and not set(STAGES) & set(p.arrays)


def weights_of(*words):
    attn("sdpa", *words, "-o", "out.npy", "--weights", "w.npy", "--lse", "lse.npy")
    return np.load("w.npy"), np.load("out.npy"), np.load("lse.npy")


def test_sizes_at_the_limit():
    save_qkv(H=1, Lq=256, Lk=256)
    p = page("explain", "sdpa", "qkv.npz", "--causal")
    assert set(STAGES) <= set(p.arrays) and "weights_u8" not in p.arrays
    assert np.array_equal(p["weights"], weights_of("qkv.npz", "--causal")[0])
    save_qkv(H=1, Lq=257, Lk=256)
    p = page("explain", "sdpa", "qkv.npz", "--q-len", "200", "--kv-len", "250")
    w, out, lse = weights_of("qkv.npz", "--q-len", "200", "--kv-len", "250")
    check_u8(p, w)
    assert np.array_equal(p["output"], out) and np.array_equal(p["lse"], lse) and not p["weights_scale"][:, :, 200:].any()


def test_512_by_12():
    save_qkv(H=12, Lq=512, Lk=512, d=16, d_v=16)
    p = page("explain", "sdpa", "qkv.npz", "--causal", "--dropout", "0.1")
    w, out, lse = weights_of("qkv.npz", "--causal", "--dropout", "0.1")
    check_u8(p, w)
    assert np.array_equal(p["output"], out) and np.array_equal(p["lse"], lse)
    visible = np.arange(512) <= np.arange(512)[:, None]
    assert np.array_equal((w > 0), (p["keep"] == 1) & visible)


def test_long_rows_take_little_memory():
    """4096 x 1: 16.7 million cells, the last size with an overview; one more row has the largest weights only."""
    save_qkv(H=1, Lq=4096, Lk=4096, d=16, d_v=16)
    save_qkv(H=1, Lq=4097, Lk=4096, d=16, d_v=16, path="more.npz")

    def least(words, to):
        limit = None if SANITIZED else lambda: resource.setrlimit(resource.RLIMIT_AS, (32 << 20, 32 << 20))
        attn("explain", "sdpa", *words, "--threads", 1, "--html", to, preexec_fn=limit)
        return Page(to)

    p = least(["qkv.npz", "--causal"], "u8.html")
    w = weights_of("qkv.npz", "--causal")[0]
    check_u8(p, w)
    p = least(["more.npz", "--window", "5,0", "--align", "top-left"], "top.html")
    w = weights_of("more.npz", "--window", "5,0", "--align", "top-left")[0]
    k = p.data["summary"]["k"]
    assert k == 32 and "32 largest weights" in p.data["notes"][0] and "weights_u8" not in p.arrays
    index, weight = p["top_index"][0, 0], p["top_weight"][0, 0]
    assert index.shape == weight.shape == (4097, 32)
    for i in (0, 3, 100, 4095, 4096):
        row = w[0, 0, i]
        order = np.lexsort((np.arange(4096), -row))[:k]
        order = order[row[order] > 0]
        assert list(index[i, :len(order)]) == list(order) and (index[i, len(order):] == -1).all(), i
        assert np.array_equal(weight[i, :len(order)], row[order]) and not weight[i, len(order):].any()


def test_top_keys_among_equals():
    np.savez("qkv.npz", q=np.zeros((1, 1, 130, 2), "f4"), k=np.zeros((1, 1, 131072, 2), "f4"), v=np.zeros((1, 1, 131072, 2), "f4"))
    p = page("explain", "sdpa", "qkv.npz")
    assert (p["top_index"] == np.arange(32)).all() and (p["top_weight"] == np.float32(2.0 ** -17)).all()


def test_large_weights_are_left_out():
    np.save("x.npy", draw(2, 2049))
    np.savez("w.npz", **mha_weights(2049, 2049, 32, 1, 64, 2, 3))
    p = page("explain", "mha", "x.npy", "w.npz", "--heads", 32, "--kv-heads", 1)
    assert "w_q" not in p.arrays and "w_k" in p.arrays and p.data["left_out"] == ["w_q"]
    assert p.data["notes"] == ["w_q (2049,2048) is left out: it has 4196352 numbers, and a page shows at most 4194304 of such an array"]


def test_pages_with_other_outputs():
    save_qkv()
    call = ["explain", "sdpa", "qkv.npz"]
    p = page(*call)
    run = attn(*call, "--html", "-")
    os.rename("page.html", "first.html")
    assert run.stdout.replace(b"--html -", b"--html page.html") == pathlib.Path("first.html").read_bytes()
    run = attn(*call, "--html", "page.html", "--npz", "stages.npz", "--json")
    stages = json.loads(run.stdout)["stages"]
    assert np.array_equal(Page("page.html")["weights"], np.load("stages.npz")["hook_pattern"])
    assert same_bits(stages["weights"], p["weights"])


def test_failures_leave_nothing():
    save_qkv(Lk=4)
    call = ["explain", "sdpa", "qkv.npz"]
    refused("none/page.html", *call, to="none/page.html")
    refused("give one of them a file", *call, "--json", to="-")
    refused("stages.txt", *call, "--npz", "stages.txt")
    refused("is ambiguous", *call, "--causal")
    np.savez("wrong.npz", q=draw(1, 1, 2, 4), k=draw(1, 1, 2, 3), v=draw(1, 1, 2, 4))
    refused("q", "explain", "sdpa", "wrong.npz")
    np.savez("empty.npz", q=draw(1, 1, 0, 4), k=draw(1, 1, 2, 4), v=draw(1, 1, 2, 4))
    refused("there is no row to explain", "explain", "sdpa", "empty.npz")
    pathlib.Path("page.html").write_text("old")
    run = attn(*call, "--html", "page.html", "--npz", "none/s.npz", check=False)
    assert run.returncode == 2 and pathlib.Path("page.html").read_text() == "old"
    run = attn(*call, "--html", "/dev/full", check=False)
    assert run.returncode == 2 and b"No space left on device" in run.stderr and run.stderr.count(b"\n") == 1


def test_interrupted_pages():
    np.savez("long.npz", **{n: np.zeros((1, 40000, 64), "f4") for n in "qkv"})
    for number, code in ((signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 130)):
        run = subprocess.Popen([ATTN, "explain", "sdpa", "long.npz", "--isa", "scalar", "--html", "page.html"], stderr=subprocess.PIPE,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
        for _ in itertools.takewhile(lambda _: not [f for f in os.listdir(".") if f.endswith(".tmp")], range(200)):
            time.sleep(0.05)
        time.sleep(0.5)
        assert run.poll() is None, "it was done before it was interrupted"
        run.send_signal(number)
        assert run.wait() == code and os.listdir(".") == ["long.npz"], os.listdir(".")
        run.stderr.close()


if __name__ == "__main__":
    wanted = sys.argv[1:]
    run_all([f for n, f in list(globals().items()) if n.startswith("test_") and (not wanted or n in wanted)])
