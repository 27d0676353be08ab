# SPDX-License-Identifier: Apache-2.0
"""Pretrained models from the files that people have: text in, text and everything between out."""
import os

import numpy as np

from ._context import context


class Tokenizer:
    """The tokenizer of a model's folder."""

    def __init__(self, load, path):
        self._load, self._handle = load, load.tokenizer(path)

    def __len__(self):
        return self._load.count(self._handle)

    def encode(self, text, pair=None, *, special=True):
        """The ids of a text, or of two. special: with the tokens that the model puts around a text."""
        return np.frombuffer(self._load.encode(self._handle, text, pair, special), np.int32).tolist()

    def decode(self, ids, *, skip_special=True):
        """The text of ids."""
        return self._load.decode(self._handle, np.asarray(list(ids), np.int32).tobytes(), skip_special)

    def tokens(self, ids):
        """Each id as the model's file writes it; None where it has none."""
        return [self._load.token(self._handle, int(id)) for id in ids]


class Attentions:
    """What Model.attentions returns: tokens (None for a model without a tokenizer), decoder: weights (H, L, L) of each layer, hidden: rows
    (L, width) before the first layer and behind each."""

    def __init__(self, tokens, decoder, hidden):
        self.tokens, self.decoder, self.hidden = tokens, decoder, hidden

    def __repr__(self):
        return f"Attentions({len(self.decoder)} layers of {self.decoder[0].shape if self.decoder else ()})"


class Model:
    """What attn.load_model returns. `info` is a dictionary: type, kind, layers, heads, kv_heads, head_dim, width, vocab, ..."""

    def __init__(self, load, path, float64):
        self._load, self._path, self._tokenizer = load, path, None
        self._model = load.open(context(), path, float64)
        self.info = load.info(self._model)

    @property
    def tokenizer(self):
        """The tokenizer in the model's folder."""
        if self._tokenizer is None:
            if self._path.endswith(".gguf"):
                raise ValueError(f"{self._path}: tokenizers in .gguf files are not read from Python yet; give ids in place of text")
            self._tokenizer = Tokenizer(self._load, self._path)
        return self._tokenizer

    def _ids(self, text):
        ids = np.asarray(self.tokenizer.encode(text) if isinstance(text, str) else text)
        if ids.ndim != 1 or not ids.size or ids.dtype.kind not in "iu":
            raise ValueError(f"ids have shape {ids.shape} and dtype {ids.dtype}; a text with a token, or integers of shape (L,), is needed")
        return ids.astype(np.int32)[None] if np.all(ids == ids.astype(np.int32)) else ids.astype(np.int64)[None]

    def _row(self, *shape):
        return np.empty(shape + (self.info["vocab"],), np.float64 if self.info["compute"] == "f64" else np.float32)

    def _fed(self, text, all_logits, seen=None):
        own, ids = context(), self._ids(text)
        logits = self._row(1, ids.size) if all_logits else None
        self._load.feed(own, self._load.session(own, self._model, ids.size), logits, ids, all_logits, seen)
        return ids[0], logits

    def logits(self, text):
        """The logits (L, vocab) behind each token of a text or of ids (L,)."""
        return self._fed(text, True)[1][0]

    def hidden_states(self, text):
        """Rows (L, width) of a text or of ids: before the first layer, and behind each."""
        found = []
        self._fed(text, False, lambda layer, hidden, weights: found.append(np.array(hidden)[0]))
        return found

    def attentions(self, text):
        """Every layer's weights (H, L, L) of a text or of ids, with its tokens: Attentions."""
        hidden, decoder = [], []

        def seen(layer, states, weights):
            hidden.append(np.array(states)[0])
            if weights is not None:
                decoder.append(np.array(weights)[0])
        ids, _ = self._fed(text, False, seen)
        named = isinstance(text, str) or not self._path.endswith(".gguf")
        return Attentions(self.tokenizer.tokens(ids) if named else None, decoder, hidden)

    def stream(self, prompt, max_new_tokens=128, *, temperature=0, top_k=0, top_p=0, min_p=0, repetition_penalty=0, seed=0):
        """The ids behind a prompt (text or ids), one by one as they come; the one that ends the text is the last. Options as generate."""
        options = dict(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, repetition_penalty=repetition_penalty, seed=seed)
        if max_new_tokens < 1:
            raise ValueError(f"max_new_tokens is {max_new_tokens}; it must be 1 or more")
        return self._streamed(self._ids(prompt), int(max_new_tokens), options)

    def _streamed(self, ids, count, options):
        own, most, logits = context(), self.info["max_positions"], self._row(1)
        capacity = min(ids.size + count, most) if most else ids.size + count
        session = self._load.session(own, self._model, capacity)
        seen = np.empty(capacity, np.int32)
        length = 0
        for draw in range(count):
            self._load.feed(own, session, logits, ids, False, None)
            seen[length:length + ids.size] = ids[0]
            length += ids.size
            chosen = self._load.sample(own, logits[0], options, seen[:length], draw)
            yield chosen
            if chosen in self.info["stop"] or length == capacity:
                return
            ids = np.array([[chosen]], np.int32)

    def generate(self, prompt, max_new_tokens=128, *, temperature=0, top_k=0, top_p=0, min_p=0, repetition_penalty=0, seed=0):
        """The text behind a text, or the ids behind ids: greedy, or drawn with a temperature. What `attn generate` answers.

        top_k, top_p, min_p, repetition_penalty: 0 = without. seed: of the draws, which are the same for any number of threads."""
        made = list(self.stream(prompt, max_new_tokens, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p,
                                repetition_penalty=repetition_penalty, seed=seed))
        if not isinstance(prompt, str):
            return made
        return self.tokenizer.decode(made[:-1] if made[-1] in self.info["stop"] else made)

    def __repr__(self):
        return "Model({type}, {kind}, {layers} layers, {parameters} parameters)".format(**self.info)


def load_model(path, *, float64=False):
    """The decoder (Llama, Qwen2, Mistral, GPT-2) in a folder as Hugging Face's libraries write it, or in a .gguf file: a Model.

    float64: compute in float64 whatever the weights are. Any number of threads may use one model.

    >>> attn.load_model("/nowhere")
    Traceback (most recent call last):
    OSError: /nowhere/config.json: there is no such file
    """
    try:
        from . import _load
    except ImportError as error:
        raise RuntimeError("this package was built without libattn_load, which needs jansson, PCRE2 and utf8proc") from error
    return Model(_load, os.fspath(path), float64)
