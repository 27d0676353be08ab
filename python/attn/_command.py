# SPDX-License-Identifier: Apache-2.0
"""The command `attn` that came with the package: it writes the pages and finds the mistakes (docs/adr/0013). Arrays go to it as files."""
import html
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np

from ._arrays import torch_of
from ._sdpa import make_options


def command(required=True):
    """The path of the command: beside this file, else on PATH."""
    own = pathlib.Path(__file__).parent / "bin" / "attn"
    found = str(own) if own.exists() else shutil.which("attn")
    if required and not found:
        raise RuntimeError("the command attn is not in this package and not on PATH; explain and diagnose need it")
    return found


def main():
    """`python -m attn` and the script that pip installs."""
    os.execv(command(), [command(), *sys.argv[1:]])


def as_file(x, path):
    """Writes an array of any kind as .npy, bf16 as V2."""
    torch = torch_of(x)
    if torch is not None:
        x = x.detach()
        x = x.contiguous().view(torch.int16).numpy().view("V2") if x.dtype == torch.bfloat16 else x.numpy()
    x = np.asarray(x)
    np.save(path, x.view("V2") if x.dtype.name == "bfloat16" else x, allow_pickle=False)
    return str(path)


def arguments(folder, options):
    """The options of attn.sdpa as the command's. Arrays become files in folder."""
    make_options(**options)  # refuses what it refuses there
    words, align = [], options.get("align")
    causal = options.get("causal")
    if causal:
        words.append("--causal")
        align = causal if causal is not True else align
    if align:
        words.append(f"--align={align}")
    for name, option in (("scale", "--scale"), ("softcap", "--softcap"), ("dropout", "--dropout"), ("seed", "--seed")):
        if options.get(name) or (name == "scale" and options.get(name) is not None):
            words.append(f"{option}={options[name]!r}")
    if options.get("window") is not None:
        words.append("--window=%d,%d" % tuple(options["window"]))
    if options.get("alibi") is True:
        words.append("--alibi")
    for name in ("mask", "bias", "offset", "kv_len", "q_len", "alibi", "sinks"):
        value = options.get(name)
        if value is None or isinstance(value, bool):
            continue
        if isinstance(value, (int, np.integer)) and name == "offset":
            words.append(f"--offset={value}")
        else:
            flag = "--" + name.replace("_", "-")
            value = np.atleast_1d(value) if isinstance(value, (list, tuple, int, float)) else value
            words.append(f"{flag}={as_file(value, folder / (name + '.npy'))}")
    return words


def run(verb, arrays, options, extra=()):
    """stdout of `attn VERB sdpa Q K V options extra(folder)`. Exit codes above 1 are a ValueError with the command's sentence."""
    with tempfile.TemporaryDirectory(prefix="attn-") as name:
        folder = pathlib.Path(name)
        files = [as_file(x, folder / f"{index}.npy") for index, x in enumerate(arrays)]
        words = [command(), verb, "sdpa", *files, *arguments(folder, options), *(extra(folder) if extra else ())]
        done = subprocess.run(words, capture_output=True, text=True, encoding="utf-8", check=False)
        if done.returncode > 1:
            raise ValueError(done.stderr.strip().removeprefix("attn: "))
        page = folder / "page.html"
        return done, page.read_text(encoding="utf-8") if page.exists() else None


def view(weights, tokens, key_tokens, lang):
    """The page of the layers' weights [(H, Lq, Lk), ...], with the names of rows and keys, by `attn view`."""
    with tempfile.TemporaryDirectory(prefix="attn-") as name:
        folder = pathlib.Path(name)
        np.savez(folder / "weights.npz", *weights)
        words = [command(), "view", folder / "weights.npz", f"--html={folder / 'page.html'}", f"--lang={lang}", "--quiet"]
        for option, names in (("--tokens", tokens), ("--key-tokens", key_tokens)):
            if names is not None:
                file = folder / (option.strip("-") + ".json")
                file.write_text(json.dumps(["?" if one is None else one for one in names]), encoding="utf-8")
                words.append(f"{option}={file}")
        done = subprocess.run(words, capture_output=True, text=True, encoding="utf-8", check=False)
        if done.returncode:
            raise ValueError(done.stderr.strip().removeprefix("attn: "))
        return (folder / "page.html").read_text(encoding="utf-8")


def framed(page):
    """A page as a notebook shows it: within a frame of its own."""
    return (f'<iframe srcdoc="{html.escape(page, quote=True)}" sandbox="allow-scripts allow-downloads" '
            'style="width:100%;height:640px;border:0"></iframe>')
