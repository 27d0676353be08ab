# SPDX-License-Identifier: Apache-2.0
"""usage: python -m attn.bench [--threads N] [--seconds S] [--quick]

attn.sdpa beside NumPy and, where they are installed, PyTorch, ONNX Runtime's three operators and JAX: what a call from Python takes, all in
turns in one run, with ratios and errors against float64. bench/run in the sources measures the C API and more cases.
"""
import argparse
import importlib
import time

import numpy as np

import attn
from ._context import context

CASES = (("f32 (8,512,64)", (1, 8, 512, 64), (1, 8, 512, 64), "f32", False),
         ("f32 (8,512,64) causal", (1, 8, 512, 64), (1, 8, 512, 64), "f32", True),
         ("f32 (16/4,1024,64) causal", (1, 16, 1024, 64), (1, 4, 1024, 64), "f32", True),
         ("f32 decode (16/4,4096,64)", (1, 16, 1, 64), (1, 4, 4096, 64), "f32", False),
         ("bf16 (8,512,64) causal", (1, 8, 512, 64), (1, 8, 512, 64), "bf16", True),
         ("f32 call (1,1,64)", (1, 1, 1, 64), (1, 1, 1, 64), "f32", False))
QUICK = (("f32 (4,64,32)", (1, 4, 64, 32), (1, 4, 64, 32), "f32", False),
         ("f32 (4,64,32) causal", (1, 4, 64, 32), (1, 4, 64, 32), "f32", True),
         ("f32 (4/2,64,32) causal", (1, 4, 64, 32), (1, 2, 64, 32), "f32", True),
         ("f32 decode (4/2,64,32)", (1, 4, 1, 32), (1, 2, 64, 32), "f32", False),
         ("bf16 (4,64,32) causal", (1, 4, 64, 32), (1, 4, 64, 32), "bf16", True), CASES[-1])
SAMPLE_SECONDS = 2e-3


def rounded(a, dtype):
    """f32 values that dtype has, by dropping bits."""
    return (a.view("u4") & 0xFFFF0000).view("f4") if dtype == "bf16" else a


def dense(q, k, v, causal):
    """Attention by NumPy's products."""
    groups = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x, groups, axis=1) for x in (k, v))
    score = q @ k.swapaxes(-1, -2) * q.dtype.type(q.shape[-1] ** -0.5)
    if causal:
        score = np.where(np.tri(*score.shape[-2:], dtype=bool), score, -np.inf)
    weights = np.exp(score - score.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


class Unfit(Exception):
    """Why a program has no part in a case."""


# Each program: (q, k, v, dtype, causal) -> a call, and what makes float32 (B, H, Lq, d) of its result. ImportError: it is not here.

def libattn(q, k, v, dtype, causal):
    if dtype == "bf16":  # bits in two bytes, which need no other package
        q, k, v = ((x.view("u4") >> 16).astype("u2").view("V2") for x in (q, k, v))
        return (lambda: attn.sdpa(q, k, v, causal=causal)), lambda out: (out.view("u2").astype("u4") << 16).view("f4")
    return (lambda: attn.sdpa(q, k, v, causal=causal)), np.asarray


def numpy(q, k, v, dtype, causal):
    if dtype == "bf16":
        raise Unfit("no bf16")
    return (lambda: dense(q, k, v, causal)), np.asarray


def torch(q, k, v, dtype, causal):
    import torch as t
    from torch.nn.functional import scaled_dot_product_attention
    t.set_num_threads(attn.get_num_threads())
    tensors = [t.from_numpy(x).to(t.bfloat16 if dtype == "bf16" else t.float32) for x in (q, k, v)]
    return (lambda: scaled_dot_product_attention(*tensors, is_causal=causal, enable_gqa=True)), lambda out: out.float().numpy()


def _session(domain, name, arrays, outputs, **attributes):
    """A call of one node by ONNX Runtime; outputs: how many it has."""
    import onnx
    import onnxruntime as ort
    made = [f"out{n}" for n in range(outputs)]
    node = onnx.helper.make_node(name, list(arrays), made, domain=domain, **attributes)
    declare = onnx.helper.make_tensor_value_info
    given = [declare(n, onnx.helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in arrays.items()]
    graph = onnx.helper.make_graph([node], name, given, [declare(n, onnx.TensorProto.FLOAT, None) for n in made])
    versions = [onnx.helper.make_opsetid("", 23), onnx.helper.make_opsetid("com.microsoft", 1)]
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = attn.get_num_threads(), 4
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # they would take the CPUs of the next program
    model = onnx.helper.make_model(graph, opset_imports=versions, ir_version=10).SerializeToString()
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(made[:1], arrays)[0]


def _joined(x):
    """(B, H, L, d) as (B, L, H*d)."""
    return np.ascontiguousarray(x.swapaxes(1, 2)).reshape(x.shape[0], x.shape[2], -1)


def _split(heads):
    return lambda out: out.reshape(out.shape[:2] + (heads, -1)).swapaxes(1, 2)


def ort_attention(q, k, v, dtype, causal):
    if dtype == "bf16":
        raise Unfit("no bf16")
    return _session("", "Attention", {"Q": q, "K": k, "V": v}, 1, is_causal=int(causal)), np.asarray


def ort_mha(q, k, v, dtype, causal):
    if dtype == "bf16" or q.shape[1] != k.shape[1]:
        raise Unfit("no bf16, no grouped heads")
    arrays = {name: _joined(x) for name, x in (("Q", q), ("K", k), ("V", v))}
    return _session("com.microsoft", "MultiHeadAttention", arrays, 1, num_heads=q.shape[1], unidirectional=int(causal)), _split(q.shape[1])


def ort_gqa(q, k, v, dtype, causal):
    """One row is the last of a cache that holds the keys before it."""
    rows, keys = q.shape[2], k.shape[2]
    if dtype == "bf16" or not (causal or rows == 1):
        raise Unfit("no bf16, always causal")
    arrays = {"Q": _joined(q), "K": _joined(k[:, :, keys - rows:]), "V": _joined(v[:, :, keys - rows:]),
              "PK": np.ascontiguousarray(k[:, :, :keys - rows]), "PV": np.ascontiguousarray(v[:, :, :keys - rows]),
              "last": np.full(q.shape[0], keys - 1, np.int32), "total": np.array([keys], np.int32)}
    return _session("com.microsoft", "GroupQueryAttention", arrays, 3, num_heads=q.shape[1], kv_num_heads=k.shape[1]), _split(q.shape[1])


def jax(q, k, v, dtype, causal):
    """XLA takes as many threads as the process has CPUs, whatever is asked."""
    import jax as j
    kind = j.numpy.bfloat16 if dtype == "bf16" else j.numpy.float32
    arrays = [j.numpy.asarray(x.swapaxes(1, 2), kind) for x in (q, k, v)]
    compiled = j.jit(lambda *x: j.nn.dot_product_attention(*x, is_causal=causal, implementation="xla"))
    return (lambda: compiled(*arrays).block_until_ready()), lambda out: np.asarray(out.astype(j.numpy.float32)).swapaxes(1, 2)


PROGRAMS = {"libattn": libattn, "NumPy": numpy, "PyTorch": torch, "ORT Attention": ort_attention, "ORT MultiHeadAttention": ort_mha,
            "ORT GroupQueryAttention": ort_gqa, "JAX": jax}
PACKAGES = ("torch", "onnxruntime", "onnx", "jax")


def seconds_of(call):
    """Of one call: the mean of as many as fill a sample, behind one that is not counted."""
    call()
    calls, start = 0, time.perf_counter()
    while True:
        call()
        calls += 1
        passed = time.perf_counter() - start
        if passed >= SAMPLE_SECONDS:
            return passed / calls


def measure(case, seconds):
    """{program: (least seconds, largest error)} of the programs that are here and have the case. The least, because threads of the program
    before go on spinning for a while, and nothing makes a call faster than it is."""
    _, q_shape, k_shape, dtype, causal = case
    rng = np.random.default_rng(0)
    q, k, v = (rounded(rng.standard_normal(shape, dtype="f4"), dtype) for shape in (q_shape, k_shape, k_shape))
    truth = dense(*(x.astype("f8") for x in (q, k, v)), causal)
    calls, errors = {}, {}
    for name, program in PROGRAMS.items():
        try:
            calls[name], as_array = program(q, k, v, dtype, causal)
        except (ImportError, Unfit):
            continue
        errors[name] = float(np.abs(as_array(calls[name]()) - truth).max())
    times = {name: [] for name in calls}
    start = time.perf_counter()
    while len(times["libattn"]) < 3 or time.perf_counter() - start < seconds * len(calls):
        for name, call in calls.items():
            times[name].append(seconds_of(call))
    return {name: (min(found), errors[name]) for name, found in times.items()}


def call_costs(rounds=40, calls=500):
    """Least seconds of a smallest call, in turns: attn.sdpa from Python; libattn, its C function alone, called again and again from C;
    numpy.add, for comparison. attn.sdpa less libattn is what the binding costs."""
    x = np.ones((1, 1, 1, 64), np.float32)
    out, own = np.empty_like(x), context()
    timed = {"attn.sdpa": (lambda: attn.sdpa(x, x, x), calls), "libattn": (lambda: own.sdpa(out, x, x, x, None, calls), 1),
             "numpy.add": (lambda: np.add(x, x), calls)}
    best = dict.fromkeys(timed, float("inf"))
    for _ in range(rounds):
        for name, (call, times) in timed.items():
            start = time.perf_counter()
            for _ in range(times):
                call()
            best[name] = min(best[name], (time.perf_counter() - start) / calls)
    return best


def versions():
    """What is here, and what is left out."""
    found = {"libattn": attn.__version__, "NumPy": np.__version__}
    for name in PACKAGES:
        try:
            found[name] = importlib.import_module(name).__version__
        except ImportError:
            found[name] = "not installed, left out"
    return ", ".join(f"{name} {version}" for name, version in found.items())


def print_case(name, found):
    ours = found["libattn"][0]
    for program, (seconds, error) in found.items():
        unit, scale = ("us", 1e6) if seconds < 1e-3 else ("ms", 1e3)
        print(f"| {name:26} | {program:23} | {seconds * scale:7.3g} {unit} | {seconds / ours:6.2f} | {error:6.0e} |", flush=True)
        name = ""


def main(arguments=None):
    about = "attn.sdpa beside NumPy, PyTorch, ONNX Runtime and JAX, where they are installed: the time of a call from Python, how many " \
            "times libattn's that is, and the largest error against float64. All run in turns."
    parser = argparse.ArgumentParser(prog="python -m attn.bench", description=about)
    parser.add_argument("--threads", type=int, default=0, help="of each program (JAX: all CPUs); default: all CPUs of the process")
    parser.add_argument("--seconds", type=float, default=0.5, help="of each program and case, at least; default: %(default)s")
    parser.add_argument("--quick", action="store_true", help="small cases, to see that everything runs")
    wanted = parser.parse_args(arguments)
    attn.set_num_threads(wanted.threads)
    print(f"{versions()}; {attn.get_num_threads()} threads\n")
    print(f"| {'case':26} | {'program':23} | {'time':>10} | {'ratio':>6} | {'error':>6} |")
    print("|".join(["", *("-" * width for width in (28, 25, 12, 8, 8)), ""]))
    for case in QUICK if wanted.quick else CASES:
        print_case(case[0], measure(case, 0.01 if wanted.quick else wanted.seconds))
    costs = call_costs()
    print("\nThe smallest call, (1,1,64): %.2f us, %.2f us of it in the library's function, %.2f us in the binding." % tuple(
        1e6 * x for x in (costs["attn.sdpa"], costs["libattn"], costs["attn.sdpa"] - costs["libattn"])))


if __name__ == "__main__":
    main()
