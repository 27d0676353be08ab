#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""attn view: every form in which other programs save attention, and what is refused."""
import json
import os
import pathlib
import struct
import sys

import numpy as np

from pagelib import attn, page, refused, run_all

rng = np.random.default_rng(12)


def weights(*shape, dtype="f4"):
    x = np.exp(rng.standard_normal(shape))
    return (x / x.sum(-1, keepdims=True)).astype(dtype)


def draw(*shape):
    return rng.standard_normal(shape).astype("f4")


def view(file, *words):
    return page("view", file, *words, "--quiet")


def shape_of(p, *names):
    return tuple(p.data["shape"][name] for name in names)


def test_one_array():
    for shape, lead in (((3, 2, 5, 5), 3), ((2, 5, 5), 1), ((5, 5), 1), ((3, 2, 4, 5, 7), 6)):
        w = weights(*shape)
        np.save("w.npy", w)
        np.savez("w.npz", weights=w)
        np.savez("a.npz", attentions=w, input_ids=np.arange(5), attention_mask=np.ones((1, 5), "i8"), tokens=np.array(["a", "b"]))
        for file in ("w.npy", "w.npz", "a.npz"):
            p = view(file)
            heads = shape[-3] if len(shape) > 2 else 1
            assert np.array_equal(p["weights"], w.reshape(lead, heads, *shape[-2:])), (file, shape)
            assert shape_of(p, "layers", "B", "H", "Lq", "Lk") == (lead, 1, heads, *shape[-2:])
            assert p.data["kind"] == "view" and p.data["options"] is None and set(p.arrays) == {"weights"}
    assert p.data["labels"]["layer"] == ["0 [0]", "0 [1]", "1 [0]", "1 [1]", "2 [0]", "2 [1]"]
    assert p.data["notes"] == ["arrays that are not shown: input_ids, attention_mask, tokens"]


def test_lists_in_natural_order():
    """What Hugging Face's models and BertViz have: a tuple of (B,H,S,S), saved with savez(F, *list)."""
    layers = [weights(1, 3, 6, 6) for _ in range(12)]
    np.savez("list.npz", *layers)
    p = view("list.npz", "--tokens", "가 나 다 라 마 바", "--lang", "ko")
    assert np.array_equal(p["weights"], np.concatenate(layers))
    assert p.data["labels"]["layer"] == [f"arr_{i}" for i in range(12)] and p.data["lang"] == "ko"
    assert p.data["labels"]["query"] == p.data["labels"]["key"] == list("가나다라마바")
    np.savez("heads.npz", **{f"layer{i}": w[0] for i, w in reversed(list(enumerate(layers)))})
    assert np.array_equal(view("heads.npz")["weights"], np.concatenate(layers))
    batch = [weights(2, 3, 4, 5) for _ in range(2)]
    np.savez("batch.npz", *batch)
    p = view("batch.npz", "--tokens", "a b c d", "--key-tokens", "v w x y z")
    assert np.array_equal(p["weights"], np.concatenate(batch))
    assert p.data["labels"] == {"query": list("abcd"), "key": list("vwxyz"), "layer": ["arr_0 [0]", "arr_0 [1]", "arr_1 [0]", "arr_1 [1]"]}


def test_transformer_lens():
    saved, order = {}, (0, 1, 2, 10)
    for i in (10, 0, 2, 1):
        at = f"blocks.{i}.attn.hook_"
        saved.update({at + "pattern": weights(1, 4, 5, 5), at + "attn_scores": draw(1, 4, 5, 5), at + "q": draw(1, 5, 4, 3),
                      at + "k": draw(1, 5, 2, 3), at + "v": draw(1, 5, 2, 6), at + "z": draw(1, 5, 4, 6),
                      f"blocks.{i}.hook_resid_pre": draw(1, 5, 12)})
    np.savez("cache.npz", **saved)
    write_safetensors("cache.safetensors", saved)
    for file in ("cache.npz", "cache.safetensors"):
        p = view(file)
        names = ("q", "k", "v", "z", "pattern", "attn_scores")
        stack = {n: np.concatenate([saved[f"blocks.{i}.attn.hook_{n}"] for i in order]) for n in names}
        for ours, theirs in (("q", "q"), ("k", "k"), ("v", "v"), ("output", "z")):
            assert np.array_equal(p[ours], stack[theirs].transpose(0, 2, 1, 3)), ours
        assert np.array_equal(p["weights"], stack["pattern"]) and np.array_equal(p["masked"], stack["attn_scores"])
        assert p.data["labels"]["layer"] == ["blocks.0", "blocks.1", "blocks.2", "blocks.10"]
        assert shape_of(p, "layers", "H", "Hkv", "Lq", "Lk", "d_k", "d_v") == (4, 4, 2, 5, 5, 3, 6)
        assert "blocks.0.hook_resid_pre" in p.data["notes"][0]
    np.savez("alone.npz", **{"blocks.3.attn.hook_pattern": saved["blocks.0.attn.hook_pattern"][0]})
    p = view("alone.npz")
    assert p.data["labels"]["layer"] == ["blocks.3"] and p["weights"].shape == (1, 4, 5, 5)


def test_our_own_files():
    """What attn sdpa and attn explain write is read back."""
    np.savez("qkv.npz", q=draw(2, 3, 4, 5), k=draw(2, 3, 6, 5), v=draw(2, 3, 6, 5))
    attn("sdpa", "qkv.npz", "-o", "out.npz", "--weights", "out.npz", "--stage", "scores=out.npz")
    attn("explain", "sdpa", "qkv.npz", "--npz", "stages.npz")
    out, stages, q = np.load("out.npz"), np.load("stages.npz"), np.load("qkv.npz")["q"]
    p = view("out.npz")
    assert set(p.arrays) == {"output", "weights", "scores"} and all(np.array_equal(p[n], out[n]) for n in p.arrays)
    p = view("stages.npz")
    assert set(p.arrays) == {"q", "k", "v", "scores", "scaled", "capped", "masked", "weights", "output"}
    assert np.array_equal(p["weights"], stages["hook_pattern"]) and np.array_equal(p["q"], q) and np.array_equal(p["output"], out["output"])


def write_safetensors(path, arrays, bf16=()):
    header, data = {}, b""
    for name, a in arrays.items():
        header[name] = {"dtype": "BF16" if name in bf16 else {"f": "F"}[a.dtype.kind] + str(8 * a.itemsize), "shape": a.shape,
                        "data_offsets": [len(data), len(data) + a.nbytes]}
        data += a.tobytes()
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)


def test_dtypes():
    w = weights(2, 2, 3, 3)
    bits = (w.view("u4") >> 16).astype("u2")
    write_safetensors("bf16.safetensors", {"w": bits.view("f2")}, bf16="w")
    assert np.array_equal(view("bf16.safetensors")["weights"], (bits.astype("u4") << 16).view("f4"))
    np.save("bf16.npy", bits)
    assert np.array_equal(view("bf16.npy", "--in-dtype", "bf16")["weights"], (bits.astype("u4") << 16).view("f4"))
    np.save("half.npy", w.astype("f2"))
    assert np.array_equal(view("half.npy")["weights"], w.astype("f2"))
    np.save("double.npy", w.astype("f8"))
    assert view("double.npy")["weights"].dtype == "f8"
    np.save("fortran.npy", np.asfortranarray(w))
    assert np.array_equal(view("fortran.npy")["weights"], w)


def test_sizes():
    """Exact up to 4 194 304 cells, for nothing in the page could compute them again; then u8, then the largest."""
    w = weights(4, 4, 512, 512)
    np.save("w.npy", w)
    assert np.array_equal(view("w.npy")["weights"], w)
    np.save("w.npy", np.concatenate([w, w[:1]]))
    p = view("w.npy")
    scale = p["weights_scale"][..., None]
    assert (np.abs(p["weights_u8"][:4] / 255 * scale[:4] - w) <= scale[:4] * (0.5 / 255 + 1e-5)).all() and "weights" not in p.arrays
    np.save("w.npy", np.broadcast_to(w[:, :1], (4, 17, 512, 512)))
    p = view("w.npy")
    best = np.sort(w[:, :1], -1)[..., ::-1][..., :32]
    assert p["top_weight"].shape == (4, 17, 512, 32) and np.array_equal(p["top_weight"], np.broadcast_to(best, (4, 17, 512, 32)))
    assert np.array_equal(np.take_along_axis(w[:, 0], p["top_index"][:, 0], -1), p["top_weight"][:, 0])


def test_odd_weights_are_told():
    w = weights(1, 2, 4, 4)
    w[0, 1, 2, 3] = np.nan
    np.save("w.npy", w)
    run = attn("view", "w.npy", "--html", "page.html")
    told = "1 of the weights are not finite, the first at layer 0, batch item 0, head 1, row 2, key 3"
    assert run.stderr.decode() == f"attn: w.npy: {told}\n"
    p = view("w.npy")
    assert p.data["notes"] == [told] and np.array_equal(p["weights"], w, equal_nan=True)
    large = np.tile(w, (2100, 64, 1, 1))
    large[0, 1, 2, 3], large[1, 1, 2, 3] = np.inf, -np.inf
    np.save("w.npy", large)
    p = view("w.npy")
    assert np.isfinite(p["weights_scale"]).all() and p["weights_u8"][2, 1, 2, 3] == 0
    np.save("w.npy", draw(2, 3, 3))
    assert "not to 1: these may be scores" in view("w.npy").data["notes"][0]
    np.save("w.npy", np.where(np.arange(3)[:, None] == 1, 0, weights(2, 3, 3)))
    assert view("w.npy").data["notes"] == [], "a row that sees nothing is not odd"


def test_refusals():
    expected = "Expected: weights as one array (L,H,Lq,Lk) or (H,Lq,Lk)"
    objects = np.empty(2, object)
    objects[:] = [weights(1, 2, 3, 3), weights(1, 2, 4, 4)]
    np.savez("objects.npz", attentions=objects)
    refused("attentions is of dtype |O, which is not read (a list of arrays: save numpy.stack of it, or savez(F, *list)); the file has "
            "attentions (2). " + expected, "view", "objects.npz")
    for rank in (1, 6):
        np.savez("rank.npz", np.ones((1,) * (rank - 1) + (3,), "f4"))
        refused(f"is of rank {rank}; the file has arr_0", "view", "rank.npz")
    np.savez("differ.npz", weights(1, 2, 3, 3), weights(1, 2, 4, 4))
    refused("arr_1 has 4 rows, and the arrays before it have 3", "view", "differ.npz")
    np.savez("kinds.npz", encoder_attentions_0=weights(1, 2, 3, 3), decoder_attentions_0=weights(1, 2, 4, 4))
    refused("choose with --array NAME; the file has encoder_attentions_0 (1,2,3,3), decoder_attentions_0 (1,2,4,4). " + expected, "view",
            "kinds.npz")
    assert view("kinds.npz", "--array", "decoder")["weights"].shape == (1, 2, 4, 4)
    refused("no array's name begins as --array says", "view", "kinds.npz", "--array", "x")
    np.savez("qkv.npz", q=draw(1, 2, 3, 4), k=draw(1, 2, 3, 4), v=draw(1, 2, 3, 4))
    refused("no weights (attn explain sdpa computes them)", "view", "qkv.npz")
    np.savez("part.npz", **{"blocks.0.attn.hook_pattern": weights(1, 2, 3, 3), "blocks.1.attn.hook_pattern": weights(1, 2, 3, 3),
                            "blocks.0.attn.hook_z": draw(1, 3, 2, 4)})
    refused("hook_z is there for 1 layers", "view", "part.npz")
    np.savez("twice.npz", **{"blocks.0.attn.hook_pattern": weights(1, 2, 3, 3), "x.blocks.0.attn.hook_pattern": weights(1, 2, 3, 3)})
    refused("are the same stage of one layer", "view", "twice.npz")
    np.savez("empty.npz")
    refused("there is no array", "view", "empty.npz")
    np.save("none.npy", np.zeros((2, 0, 3), "f4"))
    refused("there is no row to show", "view", "none.npy")
    pathlib.Path("cut.npz").write_bytes(pathlib.Path("kinds.npz").read_bytes()[:-30])
    refused("cut.npz", "view", "cut.npz")
    os.mkdir("model")
    refused("model is a model, and --text is missing: what it is to read", "view", "model")
    refused("--tokens has 2 words, and there are 4 rows and 4 keys", "view", "kinds.npz", "--array", "decoder", "--tokens", "a b")
    run = attn("view", "kinds.npz", check=False)
    assert run.returncode == 2 and run.stderr == b"attn: attn view needs --html OUT, the page that it writes\n"


if __name__ == "__main__":
    wanted = sys.argv[1:]
    run_all([f for n, f in list(globals().items()) if n.startswith("test_") and (not wanted or n in wanted)])
