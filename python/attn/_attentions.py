# SPDX-License-Identifier: Apache-2.0
"""What a model attends to, with the names of its tokens."""
import pathlib

import numpy as np

from ._command import framed, view

PARTS = ("encoder", "decoder", "cross")


class Attentions:
    """What Model.attentions returns.

    encoder, decoder, cross: for each layer its weights (H, Lq, Lk); an empty list where the model has no such part.
    tokens, target_tokens: of the text, and of what the decoder of an encoder-decoder reads: the start token, then the target without its
      last; None without a tokenizer.
    hidden, target_hidden: for each the rows (L, width) before the first layer and behind each.
    In a notebook it shows itself as a page; save("x.html") writes it.
    """

    def __init__(self, tokens, target_tokens=None):
        self.tokens, self.target_tokens = tokens, target_tokens
        self.encoder, self.decoder, self.cross, self.hidden, self.target_hidden = [], [], [], [], []

    def _add(self, part, layer, hidden, own, cross, translates):
        """A layer, as the library shows it: the memory is its own."""
        (self.target_hidden if part and translates else self.hidden).append(np.array(hidden)[0])
        if own is not None:
            (self.decoder if part else self.encoder).append(np.array(own)[0])
        if cross is not None:
            self.cross.append(np.array(cross)[0])

    def html(self, part=None, lang="en"):
        """The page of a part, "encoder", "decoder" or "cross", as text; not named: cross, where there is one, else the only one."""
        part = part or max((p for p in PARTS if getattr(self, p)), key=PARTS.index, default="encoder")
        if part not in PARTS or not getattr(self, part):
            raise ValueError(f"part is {part!r}; there are {', '.join(p for p in PARTS if getattr(self, p))}")
        rows = self.target_tokens if self.cross and part != "encoder" else self.tokens
        return view(getattr(self, part), rows, self.tokens if part == "cross" else None, lang)

    def save(self, path, part=None, lang="en"):
        """Writes the page of a part."""
        pathlib.Path(path).write_text(self.html(part, lang), encoding="utf-8")

    def _repr_html_(self):
        return framed(self.html())

    def __repr__(self):
        parts = [f"{part} {len(found)} x {found[0].shape}" for part in PARTS if (found := getattr(self, part))]
        return f"Attentions({', '.join(parts)})"
