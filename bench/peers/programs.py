# SPDX-License-Identifier: Apache-2.0
"""The programs. Each class is made of (data, threads), raises Unfit for a case that the program has no call for, and has
run(), one call, and result(), its output as float64 [heads,queries,dim], of mha [queries,width]."""
import ctypes
from ctypes import byref, pointer

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper

import attnlib
from cases import joined, split

torch.set_grad_enabled(False)
MOST_SCORES = 1 << 28  # of a program that holds them all: 1 GiB
TORCH = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


class Unfit(Exception):
    pass


def check_scores(case):
    if case.heads * case.queries * case.keys > MOST_SCORES:
        raise Unfit("the scores take more than 1 GiB")


# ------------------------------------------------------------------ libattn ----

class Libattn:
    name = "libattn"
    options = {}

    def __init__(self, data, threads):
        case = self.case = data.case
        self.context = attnlib.Context(threads=threads)
        (self.mha if case.mha else self.sdpa)(data)

    def sdpa(self, data):
        case = self.case
        q, k, v = attnlib.convert(data.q, case.q_dtype), attnlib.convert(data.k, case.dtype), attnlib.convert(data.v, case.dtype)
        self.out = attnlib.convert(np.zeros(q.shape), case.q_dtype)
        opts = attnlib.sdpa_opts(causal=case.causal, mask=data.mask, **self.options)
        self.call = attnlib.C.attn_sdpa
        self.keep = [attnlib.tensor(a) for a in (self.out, q, k, v)] + [opts]
        self.arguments = [self.context.handle] + [pointer(a) for a in self.keep]

    def mha(self, data):
        width = data.q.shape[1]
        w_qkv, w_o = data.w[:, :3 * width], data.w[:, 3 * width:]
        self.weights = attnlib.MhaWeights(self.context, self.case.heads, w_qkv=w_qkv, w_o=w_o)
        self.out = np.zeros_like(data.q)
        self.keep = [attnlib.tensor(self.out), attnlib.tensor(data.q)]
        self.call = attnlib.C.attn_mha
        self.arguments = [self.context.handle, pointer(self.keep[0]), self.weights.handle, pointer(self.keep[1]), None, None, None]

    def run(self):
        self.context.check(self.call(*self.arguments))

    def result(self):
        return attnlib.as_f64(self.out)


class LibattnRelaxed(Libattn):
    name = "libattn relaxed"
    options = {"relaxed": True}

    def __init__(self, data, threads):
        if data.case.queries > 1:
            raise Unfit("decoding only")
        super().__init__(data, threads)


# -------------------------------------------------------------------- torch ----

class Torch:
    name = "torch"

    def __init__(self, data, threads):
        torch.set_num_threads(threads)
        case = self.case = data.case
        dtype = TORCH[case.dtype]
        if case.mha:
            self.module = self.block(data)
            self.x = torch.from_numpy(data.q)[None]
            return
        # One query in f32 with a cache in 16 bits is no call of torch's: the query is in 16 bits too.
        self.q, self.k, self.v = (torch.from_numpy(a)[None].to(dtype) for a in (data.q, data.k, data.v))
        self.options = {"is_causal": case.causal, "enable_gqa": case.kv_heads != case.heads,
                        "attn_mask": None if data.mask is None else torch.from_numpy(data.mask)}

    def block(self, data):
        width = data.q.shape[1]
        module = torch.nn.MultiheadAttention(width, self.case.heads, bias=False, batch_first=True).eval()
        module.in_proj_weight.copy_(torch.from_numpy(data.w[:, :3 * width].T.copy()))
        module.out_proj.weight.copy_(torch.from_numpy(data.w[:, 3 * width:].T.copy()))
        return module

    def run(self):
        if self.case.mha:
            self.out, _ = self.module(self.x, self.x, self.x, need_weights=False)
        else:
            self.out = torch.nn.functional.scaled_dot_product_attention(self.q, self.k, self.v, **self.options)

    def result(self):
        return self.out[0].double().numpy()


# -------------------------------------------------------------- ONNX Runtime ----

ELEMENT = {"f32": TensorProto.FLOAT, "f16": TensorProto.FLOAT16}


def session(nodes, inputs, outputs, initializers, threads):
    """A session and its IO binding. inputs: name -> array; outputs: name -> array to be written."""
    def declare(arrays):
        return [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for name, a in arrays.items()]
    graph = helper.make_graph(nodes, "bench", declare(inputs), declare(outputs),
                              [onnx.numpy_helper.from_array(np.ascontiguousarray(a), name) for name, a in initializers.items()])
    model = helper.make_model(graph, ir_version=11, opset_imports=[helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 4
    made = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = made.io_binding()
    for name, a in inputs.items():
        binding.bind_input(name, "cpu", 0, a.dtype, a.shape, a.ctypes.data)
    for name, a in outputs.items():
        binding.bind_output(name, "cpu", 0, a.dtype, a.shape, a.ctypes.data)
    return made, binding


class Ort:
    """One node, or a few. Subclasses give self.inputs, self.outputs (the first is the result) and the nodes."""
    dtypes = ("f32", "f16")
    initializers = {}

    def __init__(self, data, threads):
        self.case = data.case
        if data.case.dtype not in self.dtypes:
            raise Unfit(f"no {data.case.dtype} on CPUs")
        self.element = np.float16 if data.case.dtype == "f16" else np.float32
        nodes = self.build(data)
        try:
            self.session, self.binding = session(nodes, self.inputs, self.outputs, self.initializers, threads)
            self.run()
        except Exception as error:  # its own classes; the reason is reported
            raise Unfit(str(error).splitlines()[0]) from error

    def array(self, a):
        return np.ascontiguousarray(a, self.element)

    def by_rows(self, a):
        """[heads,L,dim] -> [1, L, heads*dim]"""
        return self.array(joined(a)[None])

    def run(self):
        self.session.run_with_iobinding(self.binding)

    def result(self):
        out = next(iter(self.outputs.values()))[0].astype("f8")
        return out if self.case.mha or out.ndim == 3 else split(self.case, out)


class OrtIdentity(Ort):
    """What a call costs in itself."""

    def build(self, data):
        self.inputs, self.outputs = {"x": np.zeros((1, 1), "f4")}, {"y": np.zeros((1, 1), "f4")}
        return [helper.make_node("Identity", ["x"], ["y"])]


class OrtAttention(Ort):
    name = "ORT Attention"

    def build(self, data):
        if self.case.mha:
            raise Unfit("projections are MultiHeadAttention's here")
        check_scores(self.case)
        self.inputs = {name: self.array(a[None]) for name, a in (("q", data.q), ("k", data.k), ("v", data.v))}
        if data.mask is not None:
            self.inputs["mask"] = data.mask
        self.outputs = {"y": np.zeros_like(self.inputs["q"])}
        return [helper.make_node("Attention", list(self.inputs), ["y"], is_causal=int(self.case.causal))]


class OrtMha(Ort):
    name = "ORT MultiHeadAttention"

    def build(self, data):
        case = self.case
        if case.kv_heads != case.heads or data.mask is not None if not case.mha else False:
            raise Unfit("no grouped heads; its masks are of keys")
        options = {"domain": "com.microsoft", "num_heads": case.heads}
        if not case.mha:
            self.inputs = {name: self.by_rows(a) for name, a in (("q", data.q), ("k", data.k), ("v", data.v))}
            self.outputs = {"y": np.zeros_like(self.inputs["q"])}
            return [helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["y"], unidirectional=int(case.causal), **options)]
        width = data.q.shape[1]
        self.inputs, self.outputs = {"x": self.array(data.q[None])}, {"y": np.zeros((1,) + data.q.shape, self.element)}
        self.initializers = {name: data.w[:, i * width:(i + 1) * width] for i, name in enumerate(("wq", "wk", "wv", "wo"))}
        return [helper.make_node("MatMul", ["x", "w" + name], [name]) for name in "qkv"] + \
               [helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["z"], **options), helper.make_node("MatMul", ["z", "wo"], ["y"])]


class OrtGqa(Ort):
    name = "ORT GroupQueryAttention"

    def build(self, data):
        """Always causal: of square cases the causal ones, and one query at the end of a cache that past and present share."""
        case = self.case
        if case.mha or data.mask is not None or (case.queries > 1 and not case.causal):
            raise Unfit("always causal")
        new = slice(case.keys - case.queries, case.keys)
        self.inputs = {"q": self.by_rows(data.q), "k": self.by_rows(data.k[:, new]), "v": self.by_rows(data.v[:, new]),
                       "past_k": self.array(data.k[None]), "past_v": self.array(data.v[None]),
                       "last": np.array([case.keys - 1], np.int32), "total": np.array([case.keys], np.int32)}
        if case.queries > 1:
            empty = np.zeros((1, case.kv_heads, 0, case.dim), self.element)
            self.inputs.update(past_k=empty, past_v=empty)
        present = {"present_" + name: self.inputs["past_" + name] if case.queries == 1 else
                   np.zeros((1, case.kv_heads, case.keys, case.dim), self.element) for name in "kv"}
        self.outputs = {"y": np.zeros_like(self.inputs["q"]), **present}
        return [helper.make_node("GroupQueryAttention", list(self.inputs), list(self.outputs), domain="com.microsoft",
                                 num_heads=case.heads, kv_num_heads=case.kv_heads)]


# -------------------------------------------------------------------- NumPy ----

class NumPy:
    """Two products by OpenBLAS for each head and a softmax between: attention as it is often written."""
    name = "NumPy"

    def __init__(self, data, threads):
        case = self.case = data.case
        if case.dtype != "f32":
            raise Unfit("no products in 16 bits")
        check_scores(case)
        self.data = data
        self.bias = None
        if case.causal or data.mask is not None:
            visible = np.tri(case.queries, dtype=bool) if case.causal else data.mask
            self.bias = np.where(visible, np.float32(0), np.float32(-np.inf))

    def attention(self, q, k, v):
        group = self.case.heads // self.case.kv_heads
        q = q.reshape((len(k), group) + q.shape[1:])
        scores = q @ k[:, None].swapaxes(-1, -2)
        scores *= np.float32(1 / np.sqrt(self.case.dim))
        if self.bias is not None:
            scores += self.bias
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        sums = scores.sum(axis=-1, keepdims=True)
        out = scores @ v[:, None]
        out /= sums
        return out.reshape((self.case.heads,) + out.shape[2:])

    def run(self):
        data = self.data
        if not self.case.mha:
            self.out = self.attention(data.q, data.k, data.v)
            return
        width = data.q.shape[1]
        qkv = data.q @ data.w[:, :3 * width]
        z = self.attention(*(split(self.case, qkv[:, i * width:(i + 1) * width]) for i in range(3)))
        self.out = joined(z) @ data.w[:, 3 * width:]

    def result(self):
        return self.out.astype("f8")


PROGRAMS = [Libattn, LibattnRelaxed, Torch, OrtAttention, OrtMha, OrtGqa, NumPy]
