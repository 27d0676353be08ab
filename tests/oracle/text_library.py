# SPDX-License-Identifier: Apache-2.0
"""libattn_text for tests: a tokenizer by ctypes."""

import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_int8, c_int32, c_int64, c_size_t, c_uint32, c_void_p, create_string_buffer

SPECIAL, LITERAL, TARGET = 1, 2, 4
SKIP_SPECIAL = 1


class Encoding(ctypes.Structure):
    _fields_ = [("count", c_size_t), ("ids", POINTER(c_int32)), ("type_ids", POINTER(c_int32)), ("start", POINTER(c_int64)),
                ("end", POINTER(c_int64)), ("word", POINTER(c_int32)), ("sequence", POINTER(c_int8))]


class Span(ctypes.Structure):
    _fields_ = [("text", c_char_p), ("size", c_size_t)]


class Desc(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("model", c_char_p), ("pre", c_char_p), ("count", c_size_t),
                ("tokens", POINTER(Span)), ("scores", POINTER(ctypes.c_float)), ("types", POINTER(c_int32)), ("merge_count", c_size_t),
                ("merges", POINTER(Span)), ("special", POINTER(c_int32)), ("add_bos", c_int32), ("add_eos", c_int32),
                ("space_prefix", c_int32), ("chat_template", c_char_p)]


lib = ctypes.CDLL(os.environ["ATTN_TEXT_LIB"])
lib.attn_tokenizer_encode.argtypes = [c_void_p, c_char_p, c_size_t, c_char_p, c_size_t, c_uint32, c_size_t, POINTER(POINTER(Encoding)),
                                      c_char_p, c_size_t]
lib.attn_tokenizer_decode.argtypes = [c_void_p, POINTER(c_int32), c_size_t, c_uint32, POINTER(c_void_p), POINTER(c_size_t), c_char_p,
                                      c_size_t]
lib.attn_tokenizer_token.restype = c_char_p
lib.attn_tokenizer_token.argtypes = [c_void_p, c_int64, POINTER(c_size_t)]
lib.attn_tokenizer_count.restype = c_size_t
for name in ("attn_encoding_destroy", "attn_text_free", "attn_tokenizer_destroy", "attn_tokenizer_count", "attn_decoder_destroy"):
    getattr(lib, name).argtypes = [c_void_p]
lib.attn_decoder_put.argtypes = [c_void_p, c_int32, POINTER(c_void_p), POINTER(c_size_t), c_char_p, c_size_t]
lib.attn_decoder_end.argtypes = [c_void_p, POINTER(c_void_p), POINTER(c_size_t), c_char_p, c_size_t]


class Refused(Exception):
    pass


def spans(texts):
    return (Span * max(len(texts), 1))(*[Span(t, len(t)) for t in texts])


class Tokenizer:
    def __init__(self, path=None, **desc):
        self.t, self.err = c_void_p(), create_string_buffer(1000)
        if path is not None:
            status = lib.attn_tokenizer_open(byref(self.t), str(path).encode(), self.err, 1000)
        else:
            d = Desc(struct_size=ctypes.sizeof(Desc), **desc)
            status = lib.attn_tokenizer_create(byref(self.t), byref(d), self.err, 1000)
        self.check(status)

    def __del__(self):
        lib.attn_tokenizer_destroy(self.t)

    def check(self, status):
        if status:
            raise Refused(f"{status}: {self.err.value.decode()}")

    def encode(self, text, pair=None, flags=0, max_length=0):
        """A dict of lists."""
        data = text.encode() if isinstance(text, str) else text
        other = pair.encode() if pair is not None else None
        e = POINTER(Encoding)()
        self.check(lib.attn_tokenizer_encode(self.t, data, len(data), other, len(other or b""), flags, max_length, byref(e), self.err,
                                             1000))
        n = e.contents.count
        got = {k: getattr(e.contents, k)[:n] for k in ("ids", "type_ids", "start", "end", "word", "sequence")}
        lib.attn_encoding_destroy(e)
        return got

    def decode(self, ids, flags=0):
        text, size = c_void_p(), c_size_t()
        array = (c_int32 * max(len(ids), 1))(*ids)
        self.check(lib.attn_tokenizer_decode(self.t, array, len(ids), flags, byref(text), byref(size), self.err, 1000))
        got = ctypes.string_at(text.value, size.value).decode()
        lib.attn_text_free(text)
        return got

    def stream(self, ids, flags=0):
        """The pieces that decoding one by one gives, each of which must be UTF-8."""
        d, text, size, pieces = c_void_p(), c_void_p(), c_size_t(), []
        self.check(lib.attn_decoder_create(byref(d), self.t, flags, self.err, 1000))
        for i in ids:
            self.check(lib.attn_decoder_put(d, i, byref(text), byref(size), self.err, 1000))
            pieces.append(ctypes.string_at(text.value, size.value).decode())
        self.check(lib.attn_decoder_end(d, byref(text), byref(size), self.err, 1000))
        pieces.append(ctypes.string_at(text.value, size.value).decode())
        lib.attn_decoder_destroy(d)
        return pieces

    def token(self, i):
        return lib.attn_tokenizer_token(self.t, i, None)

    def count(self):
        return lib.attn_tokenizer_count(self.t)
