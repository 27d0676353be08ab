# SPDX-License-Identifier: Apache-2.0
"""Pages as the command writes them, and what the command says of the same data."""
import json
import os
import pathlib
import subprocess

import numpy as np

ATTN = os.environ.get("ATTN", "attn")
WEB = os.environ["ATTN_WEB"]  # where the build put page_before.html and page_after.html
EXAMPLES = pathlib.Path(os.environ["ATTN_EXAMPLES"])


def attn(*arguments, folder=None):
    done = subprocess.run([ATTN, *map(str, arguments)], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"attn {' '.join(map(str, arguments))}: {done.stderr}"
    return done.stdout


def said(*arguments, folder=None):
    """--json of the same call: the stages by name."""
    return json.loads(attn(*arguments, "--json", folder=folder))


def values(array):
    """Nested lists with "inf", "-inf" and "nan" as a float64 array."""
    return np.vectorize(float, otypes=[float])(np.array(array["values"], dtype=object)).reshape(array["shape"])


def save(folder, **arrays):
    for name, array in arrays.items():
        np.save(pathlib.Path(folder, f"{name}.npy"), array)


def draw(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
