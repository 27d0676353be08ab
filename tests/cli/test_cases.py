#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every folder of tests/cases about attention, through the command: options, dtypes, layouts, exit codes."""
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
import caselib  # noqa: E402

ATTN = os.environ["ATTN"]
DTYPES = {"f64": np.float64, "f32": np.float32, "f16": np.float16}


def convert(array, dtype):
    """The array in that dtype, bf16 as uint16 for --in-dtype bf16; one that does not fit stays as it is (README.txt of the cases)."""
    if dtype != "bf16":
        return array.astype(DTYPES[dtype])
    bits = array.astype(np.float32).view(np.uint32)
    return array if (bits << 16).any() else (bits >> 16).astype(np.uint16)


def files(arrays):
    for name, array in arrays.items():
        np.save(name + ".npy", array)


def arguments(options):
    """attn's options for those of caselib."""
    line = ["--align", options["align"].replace("_", "-")] if "align" in options else []
    simple = {"scale": "--scale", "softcap": "--softcap", "dropout": "--dropout"}
    arrays = {"mask": "--mask", "bias": "--bias", "keep": "--keep", "kv_len": "--kv-len"}
    arrays.update(cu_seqlens_q="--cu-q", cu_seqlens_k="--cu-k")
    for name, value in options.items():
        if name in simple and value:
            line += [simple[name], repr(float(value))]
        elif name in arrays and value is not None:
            np.save(name + ".npy", value)
            line += [arrays[name], name + ".npy"]
        elif name == "window":
            line += ["--window", "%d,%d" % value]
        elif name == "alibi":
            line += ["--alibi=" + ",".join(map(str, value))]
        elif name in ("causal", "mask_drop") and value:
            line += ["--" + name.replace("_", "-")]
    return line


def attn(*line):
    return subprocess.run([ATTN, *line], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", check=False)


def close(got, want, bound):
    return caselib.differs(np.asarray(got, np.float64), want, bound) == ""


def check_sdpa(case, dtype):
    q, k, v = case.qkv(lambda array: array)
    files({"q": convert(q, dtype), "k": convert(k, dtype), "v": convert(v, dtype)})
    line = ["sdpa", "q.npy", "k.npy", "v.npy", "-o", "out.npy", "--lse", "lse.npy", *arguments(case.options())]
    line += ["--in-dtype", "bf16", "--dtype", "f32"] if dtype == "bf16" else []
    done = attn(*line)
    assert done.returncode == 0 and not done.stdout and not done.stderr, (case.name, done.stderr)
    out, want = np.load("out.npy"), case.array("expected")
    bound = case.tolerance(dtype)
    assert out.dtype == DTYPES.get(dtype, np.float32), (case.name, out.dtype)
    assert close(out, want, bound), (case.name, dtype)
    assert close(np.load("lse.npy"), case.array("expected_lse"), case.tolerance("f32")), (case.name, dtype, "lse")
    faulty = case.array("faulty")
    if faulty is not None and case["faulty_of"] in (None, "out") and dtype in (case["faulty_seen_at"] or []):
        assert not close(faulty, want, bound), (case.name, dtype, "the faulty answer passes")


def check_mha(case):
    in_w, out_w = case.array("in_w"), case.array("out_w")
    weights = {"in_proj_weight": in_w, "in_proj_bias": case.array("in_b"), "out_proj.weight": out_w, "out_proj.bias": case.array("out_b")}
    np.savez("torch.npz", **weights)
    files({"x": case.array("x")})
    line = ["mha", "x.npy", "torch.npz", "--torch", "--heads", str(case["heads"]), "-o", "out.npy", "--weights", "w.npy"]
    mask, padding = case.array("attn_mask"), case.array("key_padding_mask")
    if mask is not None:
        files({"mask": mask[None, None] | padding[:, None, None, :]})
        line += ["--mask", "mask.npy", "--mask-drop"]
    line += ["--causal"] if case["causal"] else []
    done = attn(*line)
    assert done.returncode == 0, (case.name, done.stderr)
    bound = case.tolerance("f32")
    assert close(np.load("out.npy"), case.array("expected"), bound), case.name
    assert close(np.load("w.npy"), case.array("expected_weights"), bound), (case.name, "weights")
    assert not close(case.array("faulty"), case.array("expected"), bound), (case.name, "the faulty answer passes")
    done = attn(*line, "--average")
    assert done.returncode == 0 and close(np.load("w.npy"), case.array("expected_weights_mean"), bound), (case.name, "average")


def check_rope(case):
    files({name: case.array(name) for name in ("q", "k", "v", "positions")})
    line = ["q.npy", "k.npy", "v.npy", "--causal", "--rope", str(case["theta"])]
    bound = case.tolerance("f32")
    for rope in (line, [*line[:-1], line[-1] + ",half", "--positions", "positions.npy"]):
        done = attn("explain", "sdpa", *rope, "--npz", "stages.npz", "--json")
        assert done.returncode == 0, (case.name, done.stderr)
        stages = np.load("stages.npz")
        for name in "qk":
            assert close(stages[f"hook_rot_{name}"].swapaxes(1, 2), case.array(f"expected_{name}_rot"), bound), (case.name, name)
        assert close(stages["hook_pattern"], case.array("expected_weights"), bound), (case.name, "weights")
        done = attn("sdpa", *rope, "-o", "out.npy")
        assert done.returncode == 0 and close(np.load("out.npy"), case.array("expected"), bound), case.name
    done = attn("sdpa", *line[:-1], line[-1] + ",interleaved", "-o", "out.npy")
    assert done.returncode == 0 and not close(np.load("out.npy"), case.array("expected"), bound), case.name
    assert close(np.load("out.npy"), case.array("faulty"), bound), (case.name, "interleaved")


def check_left_pad(case):
    """A token decoded behind a prompt that is padded on the left: positions count its tokens alone, pads are never seen."""
    files({name: case.array(name) for name in "qkv"} | {"mask": np.array([case["attention_mask"]], bool)})
    line = ["sdpa", "q.npy", "k.npy", "v.npy", "-o", "out.npy", "--causal=bottom-right", "--mask", "mask.npy", "--rope", str(case["theta"])]
    done = attn(*line, "--positions", ",".join(map(str, case["position_ids"])))
    assert done.returncode == 0 and close(np.load("out.npy"), case.array("expected"), case.tolerance("f32")), (case.name, done.stderr)
    done = attn(*line, "--positions", ",".join(str(2 * p) for p in case["position_ids"]))
    assert done.returncode == 0 and not close(np.load("out.npy"), case.array("expected"), case.tolerance("f32")), case.name


def check_reject(case):
    options = arguments({"mask": case.array("mask")})
    files({name: case.array(name) for name in "qkv"})
    done = attn("sdpa", "q.npy", "k.npy", "v.npy", "-o", "refused.npy", *options)
    assert done.returncode == 2 and not done.stdout, case.name
    assert done.stderr.startswith("attn: ") and done.stderr.count("\n") == 1, (case.name, done.stderr)
    assert not os.path.exists("refused.npy"), case.name


def main():
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for case in caselib.load("sdpa") + caselib.load("varlen"):
            for dtype in [*case["dtypes_exact"], "f64"]:
                check_sdpa(case, dtype)
                count += 1
        for check, kind in ((check_mha, "mha"), (check_rope, "rope_attention"), (check_left_pad, "rope_decode"), (check_reject, "reject")):
            for case in caselib.load(kind):
                check(case)
                count += 1
        os.chdir("/")
    print(f"{count} runs of attn")


if __name__ == "__main__":
    main()
