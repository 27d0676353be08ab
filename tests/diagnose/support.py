# SPDX-License-Identifier: Apache-2.0
"""Problems written to files, the command run on them, many at a time. The environment names ATTN, the command, and SANITIZED
for sanitizer builds."""
import concurrent.futures
import json
import os
import pathlib
import subprocess
import tempfile

import numpy as np

ATTN = os.environ.get("ATTN", "attn")
SANITIZED = os.environ.get("SANITIZED") == "1"
SECONDS = 600 if SANITIZED else 120
WORKERS = 2


def save(path, array, dtype=None):
    """dtype "bf16": the upper half of f32, as <V2."""
    if dtype == "bf16":
        array = (np.ascontiguousarray(array, np.float32).view(np.uint32) >> 16).astype(np.uint16).view("V2")
    np.save(path, array)


def options(p, folder):
    """The options of the command for those of a problem; arrays become files."""
    line = []
    for name, option in (("mask", "--mask"), ("bias", "--bias"), ("sinks", "--sinks"), ("kv_len", "--kv-len"), ("keep", "--keep")):
        if name in p:
            save(folder / f"{name}.npy", ~p["mask"] if name == "mask" and p.get("drop") else p[name])
            line += [option, f"{name}.npy"] + (["--mask-drop"] if name == "mask" and p.get("drop") else [])
    for name, option in (("softcap", "--softcap"), ("scale", "--scale"), ("dropout", "--dropout"), ("align", "--align")):
        line += [option, str(p[name])] if name in p else []
    if "rope" in p:
        line += ["--rope", "%r,%s" % (p["rope"][0], "interleaved" if p["rope"][1] else "half")]
    if "positions" in p:
        save(folder / "positions.npy", p["positions"])
        line += ["--positions", "positions.npy"]
    line += ["--causal"] if p.get("causal") else []
    line += ["--window", "%d,%d" % p["window"]] if "window" in p else []
    if "alibi" in p:
        line += ["--alibi"] if p["alibi"] is True else ["--alibi=" + ",".join(map(str, p["alibi"]))]
    return line


def inputs(p, folder, dtype):
    """The words after the verb: sdpa Q K V, or mha X WEIGHTS --heads H. Inputs are f32, or f64 and the like when the answer is."""
    kind = {"f64": np.float64, "f16": np.float16}.get(dtype, np.float32)
    stored = dtype if dtype == "bf16" else None
    if "x" not in p:
        for name in "qkv":
            save(folder / f"{name}.npy", p[name].astype(kind), stored)
        return ["sdpa", "q.npy", "k.npy", "v.npy"]
    save(folder / "x.npy", p["x"].astype(kind), stored)
    np.savez(folder / "w.npz", **{name: p[name].astype(kind) for name in p if name[:2] in ("w_", "b_")})
    return ["mha", "x.npy", "w.npz", "--heads", str(p["heads"]), "--kv-heads", str(p["kv_heads"])]


def attn(folder, *line):
    """The finished process."""
    return subprocess.run([ATTN, *line], cwd=folder, capture_output=True, encoding="utf-8", timeout=SECONDS, check=False)


class Diagnosis:
    """What attn diagnose said of an answer."""

    def __init__(self, p, got, dtype="f32", weights=None, more=("--json",)):
        with tempfile.TemporaryDirectory(prefix="attn-diagnose-") as name:
            folder = pathlib.Path(name)
            save(folder / "got.npy", got, dtype)
            line = ["diagnose", *inputs(p, folder, dtype), *options(p, folder), "--got", "got.npy", *more]
            if weights is not None:
                save(folder / "weights.npy", weights)
                line += ["--got-weights", "weights.npy"]
            done = attn(folder, *line)
        self.line, self.code, self.text, self.error = line, done.returncode, done.stdout, done.stderr
        self.report = json.loads(done.stdout) if "--json" in more and done.returncode < 2 else None

    @property
    def first(self):
        """The ids of the candidate ranked first, if it matches."""
        best = self.report["candidates"][:1]
        return tuple(best[0]["ids"]) if best and best[0]["matches"] else ()

    @property
    def named(self):
        """Every candidate that is first or tied with it, as sorted ids."""
        return {tuple(sorted(ids)) for ids in [self.first, *self.report["tied"]] if ids}

    def __str__(self):
        if self.code > 1 or self.report is None:
            return f"exit {self.code}: {self.error.strip()}"
        signs = {True: "=", False: "!"}
        candidates = ["+".join(c["ids"]) + f" {signs[c['matches']]} {float(c['max_bounds']):.3g}" for c in self.report["candidates"]]
        return f"exit {self.code} {self.report['verdict']}: {candidates} tied {self.report['tied']}"


def in_parallel(function, jobs):
    """[function(*job)] in order; each waits for a process of its own."""
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(lambda job: function(*job), jobs))
