# SPDX-License-Identifier: Apache-2.0
"""attn/attn_seq2seq.h through ctypes, on top of decodelib: logits with everything between, translations."""
import ctypes
import pathlib
import sys
from ctypes import POINTER, byref, c_double, c_int32, c_int64, c_size_t, c_uint32, c_void_p

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
import decodelib  # noqa: E402
from attnlib import TensorPtr, _pointer, array  # noqa: E402

WATCH_SELF, WATCH_CROSS = 1, 2


class Options(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("beams", c_int64), ("max_tokens", c_int64), ("length_penalty", c_double),
                ("early", c_int32)]


Ids = POINTER(c_int32)
decodelib.C.attn_pretrained_teach.argtypes = [c_void_p, c_void_p, TensorPtr, Ids, c_size_t, Ids, c_size_t, POINTER(decodelib.Watch)]
decodelib.C.attn_pretrained_translate.argtypes = [c_void_p, c_void_p, Ids, c_size_t, Ids, c_size_t, POINTER(c_size_t), POINTER(c_double),
                                                  POINTER(Options)]


def ids_of(ids):
    ids = np.ascontiguousarray(ids, np.int32)
    return ids.ctypes.data_as(Ids), ids.size


class Model(decodelib.Model):
    def teach(self, source, target, vocab):
        """(logits [T,vocab], {(part, layer): (hidden, self weights, cross weights)})"""
        seen = {}

        def look(_, view):
            v = view.contents
            seen[v.part, v.layer] = tuple(array(p.contents).copy() if p else None for p in (v.hidden, v.self_weights, v.cross_weights))
            return 0

        watch = decodelib.Watch(0, WATCH_SELF | WATCH_CROSS, decodelib.SEEN(look), None)
        logits = np.full((len(target), vocab), np.nan, np.float32)
        self.ctx.check(decodelib.C.attn_pretrained_teach(self.ctx.handle, self.handle, _pointer(logits), *ids_of(source), *ids_of(target),
                                                         byref(watch)))
        return logits, seen

    def translate(self, source, room=512, **o):
        """(ids without the start token, score)"""
        flags = ("length_penalty" in o) | 2 * (o.get("early") in (True, False)) | 4 * (o.get("early") == "never")
        options = Options(0, flags, o.get("beams", 0), o.get("max_tokens", 0), o.get("length_penalty", 0), o.get("early") is True)
        ids, count, score = np.zeros(room, np.int32), c_size_t(), c_double()
        self.ctx.check(decodelib.C.attn_pretrained_translate(self.ctx.handle, self.handle, *ids_of(source), ids.ctypes.data_as(Ids), room,
                                                             byref(count), byref(score), byref(options)))
        return ids[: count.value].tolist(), score.value
