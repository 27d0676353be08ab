# SPDX-License-Identifier: Apache-2.0
"""Every number of a call, and what is wrong with an output."""
import json
import pathlib

import numpy as np

from ._arrays import describe
from ._command import as_file, framed, run
from ._context import context
from ._sdpa import CELL_STAGES, STAGES, make_options, sdpa

HIDDEN = {"mask": 1, "bias": 2, "causal": 4, "window": 8, "kv_len": 16, "q_len": 32}


class Row:
    """One row (b, h, i): scores, scaled, capped, masked, weights (Lk,), output (d_v,), hidden (Lk,): tuples of why each key is hidden, and
    the numbers lse, row_max, entropy, scale, position, kv_head, visible."""

    def __init__(self, **numbers):
        self.__dict__.update(numbers)

    def __repr__(self):
        return f"Row(visible={self.visible}, position={self.position}, lse={self.lse:.6g}, output={self.output})"


class Explanation:
    """What attn.explain returns: `stages`, `cell(b, h, i)`, and one page for a browser: shown in notebooks, `save("x.html")`."""

    def __init__(self, q, k, v, options, tokens, key_tokens, lang):
        self._inputs, self._options = (q, k, v), options
        self._tokens, self._key_tokens, self._lang = tokens, key_tokens, lang
        self.output, self.stages = sdpa(q, k, v, stages=STAGES, **options)

    def cell(self, b=0, h=0, i=0):
        """Every number of one row: the kernel's own bits. Row."""
        q, k, v = self._inputs
        rows_k, width = describe(k)[0][-2], describe(v)[0][-1]
        dtype = np.float64 if "f64" in (describe(x)[1] for x in (q, k, v)) else np.float32
        found = {name: np.empty(rows_k, dtype) for name in CELL_STAGES}
        found["output"] = np.empty(width, dtype)
        bits = np.empty(rows_k, np.uint8)
        numbers = context().explain_cell(found, bits, q, k, v, make_options(**self._options), b, h, i)
        hidden = [tuple(why for why, bit in HIDDEN.items() if bit & int(key)) for key in bits]
        return Row(**found, **numbers, hidden=hidden)

    def html(self, lang=None):
        """The page as text. lang: "en" or "ko", what it shows first."""
        def extra(folder):
            words = [f"--html={folder / 'page.html'}", f"--lang={lang or self._lang}", "--quiet"]
            for option, tokens in (("--tokens", self._tokens), ("--key-tokens", self._key_tokens)):
                if tokens is not None:
                    words.append(f"{option}={_token_file(tokens, folder / (option.strip('-') + '.txt'))}")
            return words
        return run("explain", self._inputs, self._options, extra)[1]

    def save(self, path, lang=None):
        """Writes the page."""
        pathlib.Path(path).write_text(self.html(lang), encoding="utf-8")

    def _repr_html_(self):
        return framed(self.html())

    def __repr__(self):
        return f"Explanation(q {tuple(describe(self._inputs[0])[0])}, k {tuple(describe(self._inputs[1])[0])})"


def _token_file(tokens, path):
    path.write_text("".join(str(token).replace("\n", "\u2424") + "\n" for token in tokens), encoding="utf-8")
    return path


def explain(q, k, v, *, tokens=None, key_tokens=None, lang="en", **options):
    """Attention with nothing left out: an Explanation of sdpa(q, k, v, **options).

    q (B, H, Lq, d), k (B, Hkv, Lk, d), v (B, Hkv, Lk, d_v), or without the leading axes; the options of attn.sdpa. tokens, key_tokens:
    names of the rows and keys. The stages are whole (B, H, Lq, Lk) matrices: meant for examples, not for long sequences.

    >>> import numpy as np
    >>> q = np.eye(3)
    >>> why = attn.explain(q, q, q, causal=True)
    >>> why.stages["weights"].shape
    (3, 3)
    >>> why.cell(i=1).hidden
    [(), (), ('causal',)]
    """
    return Explanation(q, k, v, options, tokens, key_tokens, lang)


class Diagnosis:
    """What attn.diagnose returns: true if the output is right; str() is the report, `report` the same as data (docs/json.md)."""

    def __init__(self, equal, report, text):
        self.equal, self.report, self.text = equal, report, text

    def __bool__(self):
        return self.equal

    def __str__(self):
        return self.text

    def __repr__(self):
        return self.text


def diagnose(q, k, v, got, *, got_weights=None, rtol=None, atol=None, lang="en", **options):
    """Is `got` what sdpa(q, k, v, **options) should give, and if not: which mistake gives it?

    got (B, H, Lq, d_v); its dtype says which error bound holds, unless rtol or atol do. got_weights (B, H, Lq, Lk).

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> q, k, v = rng.standard_normal((3, 4, 8)).astype(np.float32)
    >>> bool(attn.diagnose(q, k, v, attn.sdpa(q, k, v)))
    True
    >>> "causal" in str(attn.diagnose(q, k, v, attn.sdpa(q, k, v), causal=True))
    True
    """
    def extra(folder, form=()):
        words = [f"--got={as_file(got, folder / 'got.npy')}", f"--lang={lang}", "--quiet", *form]
        if got_weights is not None:
            words.append(f"--got-weights={as_file(got_weights, folder / 'got_weights.npy')}")
        return words + [f"--{name}={value!r}" for name, value in (("rtol", rtol), ("atol", atol)) if value is not None]
    data, _ = run("diagnose", (q, k, v), options, lambda folder: extra(folder, ["--json"]))
    text, _ = run("diagnose", (q, k, v), options, extra)
    return Diagnosis(data.returncode == 0, json.loads(data.stdout), text.stdout.rstrip("\n"))
