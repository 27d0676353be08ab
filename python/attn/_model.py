# SPDX-License-Identifier: Apache-2.0
"""Pretrained models from the files that people have: text in, text and everything between out."""
import os

import numpy as np

from ._attentions import Attentions
from ._context import context
from ._text import SPECIAL, TARGET, Tokenizer

POOLINGS = {None: 0, "declared": 0, "cls": 1, "mean": 2, "max": 3, "mean_sqrt_len_tokens": 4, "weightedmean": 5, "lasttoken": 6}
NORMALIZE = 1 << 0
LENGTH_PENALTY, EARLY, NEVER = 1 << 0, 1 << 1, 1 << 2
TOKENS_AT_ONCE = 8192  # of texts that are embedded together, padding counted
NO_IDS = np.empty(0, np.int32)


def _is_many(texts):
    """Whether it is several texts, or several rows of ids, rather than one."""
    if isinstance(texts, (list, tuple)) and texts:
        return isinstance(texts[0], str) or np.ndim(texts[0]) == 1
    return getattr(texts, "ndim", 1) == 2


def _checked(ids):
    """ids (L,) as int32."""
    ids = np.asarray(ids)
    if ids.ndim != 1 or not ids.size or ids.dtype.kind not in "iu":
        raise ValueError(f"ids have shape {ids.shape} and dtype {ids.dtype}; a text with a token, or integers of shape (L,), is needed")
    if np.any(ids != ids.astype(np.int32)):
        raise ValueError(f"ids reach from {ids.min()} to {ids.max()}; no model has such")
    return ids.astype(np.int32)


def _padded(rows):
    """Rows of any length as one array, and their lengths."""
    lengths = np.array([len(row) for row in rows], np.int64)
    ids = np.zeros((len(rows), max(1, lengths.max())), np.int32)
    for row, values in zip(ids, rows):
        row[:len(values)] = values
    return ids, lengths


def _sampling(temperature, top_k, top_p, min_p, repetition_penalty):
    return dict(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, repetition_penalty=repetition_penalty)


class Model:
    """What attn.load_model returns. `info` is a dictionary: type, kind, layers, heads, kv_heads, head_dim, width, vocab, ..."""

    def __init__(self, load, path, float64):
        self._load, self._path, self._tokenizer = load, path, None
        self._model = load.open(context(), path, float64)
        self.info = load.info(self._model)

    @property
    def tokenizer(self):
        """The tokenizer in the model's files."""
        if self._tokenizer is None:
            self._tokenizer = Tokenizer(self._load, self._path)
        return self._tokenizer

    def _ids(self, text, flags=SPECIAL):
        return _checked(self.tokenizer._encoded(text, None, flags)[0] if isinstance(text, str) else text)

    def _numbers(self, *shape):
        return np.empty(shape, np.float64 if self.info["compute"] == "f64" else np.float32)

    def _names(self, ids, named=True):
        """The tokens of ids; None where the files have no tokenizer and none was needed."""
        try:
            return self.tokenizer.tokens(ids)
        except (OSError, ValueError):
            if named:
                raise
            return None

    # ------------------------------------------------------ encoders ----

    def encode(self, texts, *, pooling=None, normalize=False, prompt=None, prompt_name=None):
        """The embedding of a text (n,), or of each of a list of texts (N, n): by the pooling and the modules that the folder declares.

        Rows of ids are taken in place of texts. pooling: "cls", "mean", "max", "mean_sqrt_len_tokens", "weightedmean" or "lasttoken" in
        place of the declared one. normalize: to length 1, though the folder does not. prompt: text before each text, "" for none; or
        prompt_name, one of those that the folder declares; not named, the folder's default. A text is cut to info["max_tokens"]. The
        numbers of a text are the same alone and among others."""
        if pooling not in POOLINGS:
            raise ValueError(f"there is no pooling {pooling!r}; there are {', '.join(filter(None, POOLINGS))}")
        own, prompt = context(), self._prompt(prompt, prompt_name)
        options = dict(pooling=POOLINGS[pooling], flags=NORMALIZE if normalize else 0, skip=self._skipped(prompt))
        many = _is_many(texts) or isinstance(texts, (list, tuple)) and not texts
        rows = [self._to_embed(text, prompt) for text in (texts if many else [texts])]
        out = self._numbers(len(rows), self._load.columns(own, self._model, options))
        order = np.argsort([-len(row) for row in rows], kind="stable")
        start = 0
        while start < len(rows):
            count = max(1, TOKENS_AT_ONCE // len(rows[order[start]]))
            places, start = order[start:start + count], start + count
            found = out[:len(places)] if len(places) == len(rows) == 1 else self._numbers(len(places), out.shape[1])
            self._load.embed(own, self._model, found, *_padded([rows[place] for place in places]), options)
            out[places] = found
        return out if many else out[0]

    def _prompt(self, prompt, name):
        prompts = self._load.prompts(self._model)
        if prompt is not None and name is not None:
            raise ValueError("prompt and prompt_name are both given; one says what stands before a text")
        if name is not None and name not in prompts:
            raise ValueError(f"there is no prompt {name!r}; this model has {', '.join(filter(None, prompts)) or 'none'}")
        return prompts.get(name) or "" if prompt is None else prompt

    def _skipped(self, prompt):
        """Tokens of the prompt that the folder does not want pooled."""
        if not prompt or not self.info["skips_prompt"]:
            return 0
        bare, around = (self.tokenizer.encode(prompt, special=special) for special in (False, True))
        return len(around) - (around[-1:] != bare[-1:])

    def _to_embed(self, text, prompt):
        if not isinstance(text, str):
            return _checked(text)
        limits = [limit for limit in (self.info["max_tokens"], self.tokenizer.max_length) if limit]
        return _checked(self.tokenizer._encoded(prompt + text, None, SPECIAL, min(limits, default=0))[0])

    # ------------------------------------------------ what is inside ----

    def logits(self, text, target=None):
        """The logits (L, vocab) behind each token of a text or of ids (L,). Of an encoder-decoder: row t is what it says in place of token
        t of the target, a text or ids; not given, what it says by itself."""
        if self.info["kind"] == "encoder-decoder":
            source, target = self._ids(text), self._target(self._ids(text), target)
            logits = self._numbers(target.size, self.info["vocab"])
            self._load.teach(context(), self._model, logits, source, target, None, False)
            return logits
        return self._fed(self._ids(text), True)

    def hidden_states(self, text):
        """Rows (L, width) of a text or of ids: before the first layer, and behind each. Of an encoder-decoder: the encoder's."""
        found = []

        def seen(part, layer, hidden, own, cross):
            found.append(np.array(hidden)[0])
        ids = self._ids(text)
        if self.info["kind"] == "decoder":
            self._fed(ids, False, seen)
        else:
            self._states(ids, None, seen)
        return found

    def attentions(self, text, pair=None, target=None):
        """Every layer's attention of a text or of ids, with the names of the tokens: Attentions.

        pair: a second text, for encoders that take two. target: of an encoder-decoder, what it is to say, a text or ids; not given, what
        it says by itself."""
        kind, named = self.info["kind"], isinstance(text, str)
        if pair is not None and (kind != "encoder" or not named):
            raise ValueError(f"pair is for texts of encoders; this is {'a row of ids' if kind == 'encoder' else 'of the kind ' + kind}")
        if target is not None and kind != "encoder-decoder":
            raise ValueError(f"target is for encoder-decoders; this is of the kind {kind}")
        ids, types = self.tokenizer._encoded(text, pair) if named else (_checked(text), None)
        answer = self._target(ids, target) if kind == "encoder-decoder" else None
        found = Attentions(self._names(ids, named), None if answer is None else self._names(answer, named))

        def seen(*layer):
            found._add(*layer, translates=answer is not None)
        if kind == "decoder":
            self._fed(_checked(ids), False, seen, True)
        elif kind == "encoder":
            self._states(_checked(ids), types, seen, True)
        else:
            self._load.teach(context(), self._model, None, ids, answer, seen, True)
        return found

    def _fed(self, ids, all_logits, seen=None, weights=False):
        """Logits (L, vocab), or None: what a decoder makes of ids."""
        own = context()
        logits = self._numbers(1, ids.size, self.info["vocab"]) if all_logits else None
        session = self._load.session(own, self._model, 1, ids.size)
        self._load.feed(own, session, logits, ids[None], None, all_logits, seen, weights)
        return None if logits is None else logits[0]

    def _states(self, ids, types, seen, weights=False):
        out = self._numbers(1, ids.size, self.info["width"])
        self._load.states(context(), self._model, out, ids[None], None, None if types is None else types[None], seen, weights)

    # ---------------------------------------------- encoder-decoders ----

    def translate(self, texts, *, beams=None, max_tokens=None, length_penalty=None, early_stopping=None):
        """The translation of a text, or of each of a list of texts; of ids, ids. What is not given is as the model's files say.

        beams: 1 = greedy. max_tokens: of an answer, its end included. length_penalty: scores are divided by length^length_penalty.
        early_stopping: True, False or "never", as in transformers."""
        if _is_many(texts):
            return [self.translate(text, beams=beams, max_tokens=max_tokens, length_penalty=length_penalty, early_stopping=early_stopping)
                    for text in texts]
        ids = self._translated(self._ids(texts), beams, max_tokens, length_penalty, early_stopping)
        return self.tokenizer.decode(ids) if isinstance(texts, str) else ids

    def _translated(self, source, beams=None, max_tokens=None, length_penalty=None, early_stopping=None):
        options = dict(beams=beams or 0, max_tokens=max_tokens or 0, flags=0)
        if length_penalty is not None:
            options.update(length_penalty=length_penalty, flags=LENGTH_PENALTY)
        if early_stopping is not None:
            if early_stopping not in (True, False, "never"):
                raise ValueError(f"early_stopping is {early_stopping!r}; it must be True, False or 'never'")
            options["flags"] |= NEVER if early_stopping == "never" else EARLY
            options["early"] = int(early_stopping is True)
        room = np.empty(max(1, self.info["max_positions"]), np.int32)
        count, _ = self._load.translate(context(), self._model, room, source, options)
        return room[:count].tolist()

    def _target(self, source, target):
        """What the decoder reads to say a target: the start token, and all but the target's last."""
        said = self._translated(_checked(source)) if target is None else self._ids(target, SPECIAL | TARGET).tolist()
        return np.array([self._load.start(self._model)] + said[:-1], np.int32)

    # ------------------------------------------------------ decoders ----

    def stream(self, prompt, max_new_tokens=128, *, temperature=0, top_k=0, top_p=0, min_p=0, repetition_penalty=0, seed=0):
        """The ids behind a prompt (text or ids), one by one as they come; the one that ends the text is the last. Options as generate."""
        steps = self._steps([self._ids(prompt)], max_new_tokens, _sampling(temperature, top_k, top_p, min_p, repetition_penalty), [seed])
        return (step[0] for step in steps)

    def _steps(self, rows, count, options, seeds):
        """For each step a list: the next id of each prompt, None where it has ended."""
        if count < 1:
            raise ValueError(f"max_new_tokens is {count}; it must be 1 or more")
        if len(seeds) != len(rows):
            raise ValueError(f"there are {len(seeds)} seeds for {len(rows)} prompts; give one, or one for each")
        return self._stepping(rows, int(count), [dict(options, seed=seed) for seed in seeds])

    def _stepping(self, rows, count, options):
        own, most, logits = context(), self.info["max_positions"], self._numbers(len(rows), self.info["vocab"])
        seen = [np.empty(min(row.size + count, most or row.size + count), np.int32) for row in rows]
        session = self._load.session(own, self._model, len(rows), max(place.size for place in seen))
        length, rows = [0] * len(rows), list(rows)
        for draw in range(count):
            self._load.feed(own, session, logits, *_padded(rows), False, None, False)
            step = [None] * len(rows)
            for b, row in enumerate(rows):
                if not row.size:
                    continue
                seen[b][length[b]:length[b] + row.size] = row
                length[b] += row.size
                step[b] = self._load.sample(own, logits[b], options[b], seen[b][:length[b]], draw)
                ended = step[b] in self.info["stop"] or length[b] == seen[b].size
                rows[b] = NO_IDS if ended else np.array([step[b]], np.int32)
            yield step
            if not any(row.size for row in rows):
                return

    def generate(self, prompt, max_new_tokens=128, *, temperature=0, top_k=0, top_p=0, min_p=0, repetition_penalty=0, seed=0):
        """The text behind a text, or the ids behind ids; of a list of prompts, of any lengths, a list. Greedy, or drawn with a temperature:
        what `attn generate` answers, and what each prompt is answered alone.

        top_k, top_p, min_p, repetition_penalty: 0 = without. seed: of the draws, one or one for each prompt; the same draws for any
        number of threads."""
        many = _is_many(prompt)
        prompts = list(prompt) if many else [prompt]
        seeds = [seed] * len(prompts) if np.ndim(seed) == 0 else list(seed)
        made = [[] for _ in prompts]
        options = _sampling(temperature, top_k, top_p, min_p, repetition_penalty)
        for step in self._steps([self._ids(one) for one in prompts], max_new_tokens, options, seeds):
            for ids, id in zip(made, step):
                ids.extend([] if id is None else [id])
        answers = [self._said(ids) if isinstance(one, str) else ids for one, ids in zip(prompts, made)]
        return answers if many else answers[0]

    def _said(self, ids):
        return self.tokenizer.decode(ids[:-1] if ids[-1] in self.info["stop"] else ids)

    def chat(self, messages, max_new_tokens=128, *, system=None, date=None, temperature=0, top_k=0, top_p=0, min_p=0, repetition_penalty=0,
             seed=0):
        """The answer to messages by the model's chat template: what a user says, or a list of (role, content); see Tokenizer.chat.

        system: the first message, where messages have none. The other options as generate."""
        messages = [("user", messages)] if isinstance(messages, str) else list(messages)
        text = self.tokenizer.chat(([] if system is None else [("system", system)]) + messages, date=date)
        ids = self.tokenizer.encode(text, special=False)
        return self._said(self.generate(ids, max_new_tokens, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p,
                                        repetition_penalty=repetition_penalty, seed=seed))

    def __repr__(self):
        return "Model({type}, {kind}, {layers} layers, {parameters} parameters)".format(**self.info)


def load_model(path, *, float64=False):
    """The model in a folder as Hugging Face's libraries write it, or in a .gguf file: a Model.

    Encoders (BERT, RoBERTa and others) have encode, decoders (Llama, Qwen2, Mistral, GPT-2) generate and chat, encoder-decoders (Marian)
    translate; all have attentions and hidden_states. float64: compute in float64 whatever the weights are. Any number of threads may use
    one model.

    >>> attn.load_model("/nowhere")
    Traceback (most recent call last):
    OSError: /nowhere/config.json: there is no such file
    """
    try:
        from . import _load
    except ImportError as error:
        raise RuntimeError("this package was built without libattn_load, which needs jansson, PCRE2 and utf8proc") from error
    return Model(_load, os.fspath(path), float64)
