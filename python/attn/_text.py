# SPDX-License-Identifier: Apache-2.0
"""The tokenizer of a model."""
import numpy as np

SPECIAL, TARGET = 1, 4


class Tokenizer:
    """The tokenizer of a model's folder or .gguf file."""

    def __init__(self, load, path):
        self._load, self._handle = load, load.tokenizer(path)
        self._count, self.max_length = load.limits(self._handle)

    def __len__(self):
        return self._count

    def encode(self, text, pair=None, *, special=True, target=False):
        """The ids of a text, or of two. special: with the tokens that the model puts around a text. target: the text is in the language
        that the model translates into."""
        return self._encoded(text, pair, (SPECIAL if special else 0) | (TARGET if target else 0))[0].tolist()

    def _encoded(self, text, pair=None, flags=SPECIAL, max_length=0):
        """(ids, type ids) as int32 (L,), cut to max_length tokens."""
        return tuple(np.frombuffer(found, np.int32) for found in self._load.encode(self._handle, text, pair, flags, max_length))

    def decode(self, ids, *, skip_special=True):
        """The text of ids."""
        return self._load.decode(self._handle, np.asarray(list(ids), np.int32).tobytes(), skip_special)

    def tokens(self, ids):
        """Each id as the model's file writes it; None where it has none."""
        return [self._load.token(self._handle, int(id)) for id in ids]

    def chat(self, messages, *, date=None):
        """The text that the model's chat template makes of messages, up to where the answer begins; to be encoded with special=False.

        messages: what a user says, or a list of (role, content) or {"role": .., "content": ..}; roles are system (first), user, assistant.
        date: what templates that write the day write, "26 Jul 2024"."""
        if isinstance(messages, str):
            messages = [("user", messages)]
        pairs = [(m["role"], m["content"]) if isinstance(m, dict) else tuple(m) for m in messages]
        return self._load.chat(self._handle, pairs, date)
