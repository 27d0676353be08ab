# SPDX-License-Identifier: Apache-2.0
"""attn/attn_generate.h through ctypes, for tests, on top of attnlib. $ATTN_LOAD_LIB names libattn_load.so."""
import ctypes
import os
from ctypes import CFUNCTYPE, POINTER, Structure, byref, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

import numpy as np

from attnlib import TensorPtr, _pointer, array

FEED_ALL, WATCH_SELF = 1, 1


class LayerView(Structure):
    _fields_ = [("struct_size", c_uint32), ("part", c_int32), ("layer", c_int64), ("hidden", TensorPtr), ("self_weights", TensorPtr),
                ("cross_weights", TensorPtr)]


SEEN = CFUNCTYPE(ctypes.c_int, c_void_p, POINTER(LayerView))
TOKEN = CFUNCTYPE(ctypes.c_int, c_void_p, c_int32)


class Watch(Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("seen", SEEN), ("user", c_void_p)]


class SessionDesc(Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("batch", c_int64), ("capacity", c_int64), ("kv_dtype", c_int32)]


class FeedOpts(Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("lengths", TensorPtr), ("mask", TensorPtr), ("watch", POINTER(Watch))]


class Sampling(Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("repetition_penalty", c_double), ("temperature", c_double),
                ("top_k", c_int64), ("top_p", c_double), ("min_p", c_double), ("seed", c_uint64)]


class GenerateOpts(Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("max_tokens", c_int64), ("sampling", POINTER(Sampling)),
                ("stop", POINTER(c_int32)), ("stop_count", c_size_t), ("token", TOKEN), ("user", c_void_p)]


class EncodeOpts(Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("lengths", TensorPtr), ("mask", TensorPtr), ("type_ids", TensorPtr),
                ("watch", POINTER(Watch))]


class Message(Structure):
    _fields_ = [("role", c_char_p), ("content", c_char_p)]


class VectorOpts(Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("pooling", c_int32), ("skip", c_int64)]


class ModelInfo(Structure):
    _fields_ = ([("type", c_char_p), ("kind", c_int32), ("compute", c_int32)] +
                [(name, c_int64) for name in ("layers", "decoder_layers", "heads", "kv_heads", "head_dim", "width", "hidden", "vocab",
                                              "max_positions", "max_tokens", "embedding", "parameters")] + [("skips_prompt", c_int32)])


class PretrainedOpts(Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32)]


def _load():
    c = ctypes.CDLL(os.environ["ATTN_LOAD_LIB"])
    signatures = {
        "attn_pretrained_open": (c_int32, [c_void_p, POINTER(c_void_p), c_char_p, POINTER(PretrainedOpts), c_char_p, c_size_t]),
        "attn_pretrained_destroy": (None, [c_void_p]),
        "attn_pretrained_tokenizer": (c_int32, [POINTER(c_void_p), c_char_p, c_char_p, c_size_t]),
        "attn_tokenizer_destroy": (None, [c_void_p]),
        "attn_chat_text": (c_int32, [c_void_p, POINTER(Message), c_size_t, c_char_p, POINTER(c_void_p), POINTER(c_size_t), c_char_p,
                                     c_size_t]),
        "attn_text_free": (None, [c_void_p]),
        "attn_pretrained_stop": (c_int32, [c_void_p, c_size_t]),
        "attn_pretrained_encode": (c_int32, [c_void_p, c_void_p, TensorPtr, TensorPtr, POINTER(EncodeOpts)]),
        "attn_pretrained_embed": (c_int32, [c_void_p, c_void_p, TensorPtr, TensorPtr, POINTER(EncodeOpts), POINTER(VectorOpts)]),
        "attn_pretrained_info": (ModelInfo, [c_void_p]),
        "attn_pretrained_columns": (c_int64, [c_void_p, POINTER(VectorOpts)]),
        "attn_pretrained_prompt": (c_char_p, [c_void_p, c_char_p]),
        "attn_pretrained_prompt_name": (c_char_p, [c_void_p, c_size_t]),
        "attn_session_create": (c_int32, [c_void_p, POINTER(c_void_p), c_void_p, POINTER(SessionDesc)]),
        "attn_session_destroy": (None, [c_void_p]),
        "attn_session_feed": (c_int32, [c_void_p, c_void_p, TensorPtr, TensorPtr, POINTER(FeedOpts)]),
        "attn_session_length": (c_int64, [c_void_p, c_int64]),
        "attn_session_truncate": (c_int32, [c_void_p, c_void_p, c_int64, c_int64]),
        "attn_session_reorder": (c_int32, [c_void_p, c_void_p, TensorPtr]),
        "attn_sample": (c_int32, [c_void_p, POINTER(c_int32), TensorPtr, POINTER(Sampling), POINTER(c_int32), c_size_t, c_uint64]),
        "attn_generate": (c_int32, [c_void_p, c_void_p, POINTER(c_int32), c_size_t, POINTER(c_int32), POINTER(c_int64), POINTER(c_int32),
                                    POINTER(GenerateOpts)]),
    }
    for name, (restype, argtypes) in signatures.items():
        function = getattr(c, name)
        function.restype, function.argtypes = restype, argtypes
    return c


C = _load()


class LoadError(Exception):
    def __init__(self, status, sentence):
        super().__init__(sentence)
        self.status = status


def watching(watch):
    """A Watch that calls watch(layer, hidden, weights)."""
    def seen(_, view):
        v = view.contents
        watch(v.layer, array(v.hidden.contents).copy(), array(v.self_weights.contents).copy() if v.self_weights else None)
        return 0
    return Watch(0, WATCH_SELF, SEEN(seen), None)


class Model:
    def __init__(self, ctx, path, f64=False):
        self.ctx, self.handle, self.f64 = ctx, c_void_p(), f64
        err = ctypes.create_string_buffer(1024)
        status = C.attn_pretrained_open(ctx.handle, byref(self.handle), os.fsencode(path), byref(PretrainedOpts(0, int(f64))), err,
                                        len(err))
        if status:
            raise LoadError(status, err.value.decode())

    def encode(self, ids, width, lengths=None, mask=None, type_ids=None, watch=None):
        """The hidden states behind the last layer. watch(layer, hidden, weights) sees every layer."""
        ids = np.asarray(ids, np.int64)
        out = np.full(ids.shape + (width,), np.nan, np.float64 if self.f64 else np.float32)
        opts = EncodeOpts(lengths=_pointer(lengths), mask=_pointer(mask), type_ids=_pointer(type_ids))
        if watch:
            opts.watch = ctypes.pointer(watching(watch))
        self.ctx.check(C.attn_pretrained_encode(self.ctx.handle, self.handle, _pointer(out), _pointer(ids), byref(opts)))
        return out

    def info(self):
        return C.attn_pretrained_info(self.handle)

    def columns(self, **vector):
        return C.attn_pretrained_columns(self.handle, byref(VectorOpts(**vector)))

    def embed(self, ids, lengths=None, mask=None, type_ids=None, dtype=None, columns=None, **vector):
        """One vector for each sequence; vector: flags, pooling, skip."""
        ids, vector = np.asarray(ids, np.int64), VectorOpts(**vector)
        columns = columns or C.attn_pretrained_columns(self.handle, byref(vector))
        out = np.full(ids.shape[:-1] + (columns,), np.nan, dtype or (np.float64 if self.f64 else np.float32))
        opts = EncodeOpts(lengths=_pointer(lengths), mask=_pointer(mask), type_ids=_pointer(type_ids))
        self.ctx.check(C.attn_pretrained_embed(self.ctx.handle, self.handle, _pointer(out), _pointer(ids), byref(opts), byref(vector)))
        return out

    def prompts(self):
        names = iter(lambda i=iter(range(99)): C.attn_pretrained_prompt_name(self.handle, next(i)), None)
        return {name.decode(): C.attn_pretrained_prompt(self.handle, name).decode() for name in names}

    def default_prompt(self):
        text = C.attn_pretrained_prompt(self.handle, None)
        return text and text.decode()

    def stops(self):
        ids = []
        while C.attn_pretrained_stop(self.handle, len(ids)) >= 0:
            ids.append(C.attn_pretrained_stop(self.handle, len(ids)))
        return ids

    def close(self):
        C.attn_pretrained_destroy(self.handle)


class Tokenizer:
    def __init__(self, path):
        self.handle = c_void_p()
        err = ctypes.create_string_buffer(1024)
        status = C.attn_pretrained_tokenizer(byref(self.handle), os.fsencode(path), err, len(err))
        if status:
            raise LoadError(status, err.value.decode())

    def __del__(self):
        C.attn_tokenizer_destroy(self.handle)

    def chat(self, messages, date=None):
        """The text that the chat template makes of (role, content) pairs."""
        err, text, size = ctypes.create_string_buffer(1024), c_void_p(), c_size_t()
        given = (Message * max(1, len(messages)))(*[(role.encode(), content.encode()) for role, content in messages])
        status = C.attn_chat_text(self.handle, given, len(messages), date and date.encode(), byref(text), byref(size), err, len(err))
        if status:
            raise LoadError(status, err.value.decode())
        raw = ctypes.string_at(text, size.value)
        C.attn_text_free(text)
        return raw.decode()


class Session:
    """A session of a model; vocab is what its logits have."""

    def __init__(self, model, vocab, capacity, batch=1, kv_dtype=0):
        self.model, self.ctx, self.vocab, self.batch, self.handle = model, model.ctx, vocab, batch, c_void_p()
        self.ctx.check(C.attn_session_create(self.ctx.handle, byref(self.handle), model.handle,
                                             byref(SessionDesc(0, 0, batch, capacity, kv_dtype))))

    def feed(self, ids, lengths=None, mask=None, everything=False, watch=None):
        """The logits of the last token of each sequence, or of all tokens. watch(layer, hidden, weights) sees every layer."""
        ids = np.asarray(ids, np.int64)
        shape = ids.shape[:1] + (ids.shape[1:] if everything else ()) + (self.vocab,)
        logits = np.full(shape, np.nan, np.float64 if self.model.f64 else np.float32)
        opts = FeedOpts(flags=FEED_ALL if everything else 0, lengths=_pointer(lengths), mask=_pointer(mask))
        if watch:
            keep = watching(watch)
            opts.watch = ctypes.pointer(keep)
        self.ctx.check(C.attn_session_feed(self.ctx.handle, self.handle, _pointer(logits), _pointer(ids), byref(opts)))
        return logits

    def length(self, b=0):
        return C.attn_session_length(self.handle, b)

    def truncate(self, length, b=-1):
        self.ctx.check(C.attn_session_truncate(self.ctx.handle, self.handle, b, length))

    def reorder(self, parent):
        self.ctx.check(C.attn_session_reorder(self.ctx.handle, self.handle, _pointer(np.asarray(parent, np.int64))))

    def generate(self, prompt, count, stop=(), **sampling):
        """(tokens, how it ended: 0 length, 1 stop)."""
        prompt, made = np.asarray(prompt, np.int32), np.zeros(count, np.int32)
        stop, how, n = np.asarray(stop, np.int32), c_int32(), c_int64()
        opts = GenerateOpts(max_tokens=count, sampling=ctypes.pointer(Sampling(**sampling)),
                            stop=stop.ctypes.data_as(POINTER(c_int32)), stop_count=stop.size)
        self.ctx.check(C.attn_generate(self.ctx.handle, self.handle, prompt.ctypes.data_as(POINTER(c_int32)), prompt.size,
                                       made.ctypes.data_as(POINTER(c_int32)), byref(n), byref(how), byref(opts)))
        return made[:n.value].tolist(), how.value

    def close(self):
        C.attn_session_destroy(self.handle)


def sample(ctx, logits, seen=(), draw=0, **sampling):
    chosen, seen = c_int32(), np.asarray(seen, np.int32)
    ctx.check(C.attn_sample(ctx.handle, byref(chosen), _pointer(logits), byref(Sampling(**sampling)),
                            seen.ctypes.data_as(POINTER(c_int32)), seen.size, draw))
    return chosen.value
