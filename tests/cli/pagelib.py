# SPDX-License-Identifier: Apache-2.0
"""Runs attn in a folder of its own and reads the data of the pages that it writes (docs/page.md)."""
import base64
import json
import os
import pathlib
import re
import subprocess
import tempfile

import numpy as np

ATTN = os.environ["ATTN"]
SANITIZED = bool(os.environ.get("SANITIZED"))
DTYPES = {"f32": "<f4", "f64": "<f8", "u8": "u1", "i32": "<i4"}
HEAD = re.compile(r'<script type="application/json" id="attn-data">(.*?)</script>', re.S)
ARRAY = re.compile(r'<script type="text/plain" class="attn-array" id="attn-array-([a-z0-9_]+)">([^<]*)</script>')


class Page:
    """data: the JSON; arrays by their names."""

    def __init__(self, path):
        text = pathlib.Path(path).read_text(encoding="utf-8")
        heads = HEAD.findall(text)
        assert len(heads) == 1, f"{len(heads)} elements attn-data"
        assert "<" not in heads[0], "a < in the JSON can end its element"
        self.data = json.loads(heads[0])
        texts = dict(ARRAY.findall(text))
        assert set(texts) == set(self.data["arrays"]), set(texts) ^ set(self.data["arrays"])
        self.arrays = {}
        for name, about in self.data["arrays"].items():
            numbers = np.frombuffer(base64.b64decode(texts[name], validate=True), DTYPES[about["dtype"]])
            self.arrays[name] = numbers.reshape(about["shape"])

    def __getitem__(self, name):
        return self.arrays[name]


def attn(*words, check=True, **more):
    run = subprocess.run([ATTN, *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
    if check and run.returncode:
        raise AssertionError(f"attn {' '.join(map(str, words))}: exit code {run.returncode}: {run.stderr.decode()}")
    return run


def page(*words, to="page.html"):
    run = attn(*words, "--html", to)
    assert run.stdout == b"", "a page was written, and text too"
    return Page(to)


def refused(saying, *words, to="page.html"):
    """The command fails with one sentence that has these words, and no file is left."""
    pathlib.Path(to).unlink(missing_ok=True)
    before = set(os.listdir("."))
    run = attn(*words, "--html", to, check=False)
    said = run.stderr.decode()
    assert run.returncode == 2 and run.stdout == b"" and said.count("\n") == 1, (run.returncode, said)
    assert saying in said, f"it says {said!r} without {saying!r}"
    assert set(os.listdir(".")) == before, set(os.listdir(".")) ^ before


def same_bits(stage, array):
    """An array of --json and one of a page."""
    numbers = np.array([float(x) for x in np.array(stage["values"], object).ravel()], array.dtype)
    return np.array_equal(numbers, array.ravel(), equal_nan=True)


def run_all(tests):
    for test in tests:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            test()
            os.chdir("/")
        print("ok", test.__name__, flush=True)
