# SPDX-License-Identifier: Apache-2.0
"""Reads the folders of tests/cases (README.txt there says what is in them)."""
import json
import pathlib

import numpy as np

CASES = pathlib.Path(__file__).resolve().parent.parent / "cases"
# Folders of the same collection that need what the library does not have yet, or that another test reads.
WAITING = {
    "P16_dout_BLHD": "its gradients; the output is tested",
    "P17_gqa_6_2": "its gradients; the output is tested",
    "P20a_1e4": "RoPE", "P20b_1e6": "RoPE",
    "P26_bert_accents_unk": "tokenizers: tests/text/cases", "P27_qwen2_split": "tokenizers: tests/text/cases",
    "P30": "checkpoint names and sizes",
}
HOW_MANY = {"sdpa": 41, "varlen": 3, "mha": 2, "reject": 6, "rope_attention": 1, "rope_decode": 1}


class Case:
    """One folder: case.json as attributes through [], arrays by file name."""

    def __init__(self, folder):
        self.folder = folder
        self.json = json.loads((folder / "case.json").read_text(encoding="utf-8"))
        self.name, self.kind = self.json["id"], self.json["kind"]

    def __getitem__(self, key):
        return self.json.get(key)

    def array(self, name):
        """The array of name.npy, or None."""
        path = self.folder / (name + ".npy")
        return np.load(path, allow_pickle=False) if path.exists() else None

    def qkv(self, prepare):
        """q, k, v as [B,H,L,D] views of the stored memory, which prepare (array -> array) converts or moves first."""
        memory = self["memory"] or {}
        if memory.get("qkv") == "BL3HD":
            fused = prepare(self.array("qkv"))
            return [fused[:, :, part].transpose(0, 2, 1, 3) for part in range(3)]
        stored = [(name, prepare(self.array(name))) for name in "qkv"]
        return [a.transpose(0, 2, 1, 3) if memory.get(name) == "BLHD" else a for name, a in stored]

    def options(self):
        """What case.json says, as options of attnlib.sdpa."""
        o = {"align": self["align"], "causal": bool(self["causal"]), "softcap": self["softcap"] or 0}
        if self["scale_given"]:
            o["scale"] = self["scale"]
        if self["window"]:
            o["window"] = tuple(-1 if self["window"][side] is None else self["window"][side] for side in ("left", "right"))
        if self["alibi_slopes"]:
            o["alibi"] = np.array(self["alibi_slopes"])
        if self["kv_lengths"]:
            o["kv_len"] = np.array(self["kv_lengths"])
        if self["mask"]:
            additive = self["mask"]["polarity"] == "additive"
            o["bias" if additive else "mask"] = self.array("mask")
            o["mask_drop"] = self["mask"]["polarity"] == "drop"
        if self["dropout"]:
            o.update(dropout=self["dropout"]["p"], keep=self.array("keep"))
        for name in ("cu_seqlens_q", "cu_seqlens_k"):
            if self[name]:
                o[name] = np.array(self[name], np.int32)
        return o

    def tolerance(self, dtype):
        """(atol, rtol). The library computes f64 in f64: a bound near float64's own."""
        if dtype == "f64":
            return 1e-9, 1e-9
        bound = self["tolerance"][dtype]
        return bound["atol"], bound["rtol"]


def load(kind):
    """The folders of one kind, all of them."""
    found = [Case(path.parent) for path in sorted(CASES.glob("*/case.json"))]
    found = [case for case in found if case.kind == kind]
    assert len(found) == HOW_MANY[kind], "%d folders of kind %s, not %d" % (len(found), kind, HOW_MANY[kind])
    return found


def differs(got, expected, tolerance):
    """"" if got is expected within (atol, rtol) and has its shape, NaN, infinities and exact zeros; else where and how it is not."""
    atol, rtol = tolerance
    if got.shape != expected.shape:
        return "shape %s, not %s" % (got.shape, expected.shape)
    finite = np.isfinite(expected)
    same = np.where(finite, False, (got == expected) | (np.isnan(got) & np.isnan(expected)))
    with np.errstate(invalid="ignore"):
        near = np.abs(got - expected) <= atol + rtol * np.abs(expected)
    bad = np.argwhere(~np.where(finite, near, same))
    if not len(bad):
        return ""
    first = tuple(bad[0])
    return "%d of %d differ, first %s: %.9g, not %.9g" % (len(bad), got.size, list(map(int, first)), got[first], expected[first])
