# SPDX-License-Identifier: Apache-2.0
"""attn/attn_seq2seq.h through ctypes: a model folder, its logits with everything between, its translations."""
import ctypes
import os

import numpy as np

DTYPES = {1: np.float32, 2: np.float64}


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("ndim", ctypes.c_int32), ("shape", ctypes.c_int64 * 8),
                ("stride", ctypes.c_int64 * 8)]


class View(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("part", ctypes.c_int), ("layer", ctypes.c_int64), ("hidden", ctypes.POINTER(Tensor)),
                ("self_weights", ctypes.POINTER(Tensor)), ("cross_weights", ctypes.POINTER(Tensor))]


SEEN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(View))


class Watch(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("seen", SEEN), ("user", ctypes.c_void_p)]


class Options(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("beams", ctypes.c_int64), ("max_tokens", ctypes.c_int64),
                ("length_penalty", ctypes.c_double), ("early", ctypes.c_int32)]


def tensor(array, dtype):
    t = Tensor(array.ctypes.data, dtype, array.ndim)
    for i in range(array.ndim):
        t.shape[i], t.stride[i] = array.shape[i], array.strides[i] // array.itemsize
    return t


def copy_of(pointer):
    """A packed tensor of the library as an array."""
    if not pointer:
        return None
    t = pointer.contents
    shape = tuple(t.shape[: t.ndim])
    kind = ctypes.c_float if DTYPES[t.dtype] is np.float32 else ctypes.c_double
    flat = np.ctypeslib.as_array(ctypes.cast(t.data, ctypes.POINTER(kind)), (int(np.prod(shape)),))
    return flat.reshape(shape).copy()


class Model:
    def __init__(self, folder):
        self.lib = ctypes.CDLL(os.environ["ATTN_LOAD_LIBRARY"])
        self.lib.attn_ctx_error.restype = ctypes.c_char_p
        self.lib.attn_ctx_destroy.argtypes = self.lib.attn_pretrained_destroy.argtypes = [ctypes.c_void_p]
        self.ctx, self.model, words = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.create_string_buffer(512)
        assert self.lib.attn_ctx_create(ctypes.byref(self.ctx), None, None, 0) == 0
        status = self.lib.attn_pretrained_open(self.ctx, ctypes.byref(self.model), os.fsencode(folder), None, words, len(words))
        if status:
            self.close()
            raise ValueError(words.value.decode())

    def close(self):
        self.lib.attn_pretrained_destroy(self.model)
        self.lib.attn_ctx_destroy(self.ctx)

    def check(self, status):
        if status:
            raise ValueError(self.lib.attn_ctx_error(self.ctx).decode())

    def teach(self, source, target, vocab):
        """(logits [T,vocab], {(part, layer): (hidden, self weights, cross weights)})"""
        seen = {}

        def look(_, view):
            v = view.contents
            seen[v.part, v.layer] = tuple(copy_of(p) for p in (v.hidden, v.self_weights, v.cross_weights))
            return 0

        watch = Watch(ctypes.sizeof(Watch), 3, SEEN(look), None)
        source, target = (np.ascontiguousarray(ids, np.int32) for ids in (source, target))
        logits = np.zeros((len(target), vocab), np.float32)
        out = tensor(logits, 1)
        size = ctypes.c_size_t
        self.check(self.lib.attn_pretrained_teach(self.ctx, self.model, ctypes.byref(out), ctypes.c_void_p(source.ctypes.data),
                                                  size(len(source)), ctypes.c_void_p(target.ctypes.data), size(len(target)),
                                                  ctypes.byref(watch)))
        return logits, seen

    def translate(self, source, room=512, **o):
        """(ids without the start token, score)"""
        flags = ("length_penalty" in o) | 2 * (o.get("early") in (True, False)) | 4 * (o.get("early") == "never")
        options = Options(ctypes.sizeof(Options), flags, o.get("beams", 0), o.get("max_tokens", 0), o.get("length_penalty", 0),
                          o.get("early") is True)
        source, ids = np.ascontiguousarray(source, np.int32), np.zeros(room, np.int32)
        count, score, size = ctypes.c_size_t(), ctypes.c_double(), ctypes.c_size_t
        self.check(self.lib.attn_pretrained_translate(self.ctx, self.model, ctypes.c_void_p(source.ctypes.data), size(len(source)),
                                                      ctypes.c_void_p(ids.ctypes.data), size(room), ctypes.byref(count),
                                                      ctypes.byref(score), ctypes.byref(options)))
        return ids[: count.value].tolist(), score.value
