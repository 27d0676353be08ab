# SPDX-License-Identifier: Apache-2.0
"""usage: python -m attn.bench [--threads N] [--seconds S] [--quick]

attn.sdpa beside NumPy and, where they are installed, PyTorch and ONNX Runtime: what a call from Python takes, all in turns in one run, with
ratios and errors against float64. bench/run in the sources measures the C API and more cases.
"""
import argparse
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
QUICK = (("f32 (4/2,64,32) causal", (1, 4, 64, 32), (1, 2, 64, 32), "f32", True), CASES[-1])
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


def libattn(q, k, v, dtype, causal):
    if dtype == "bf16":  # bits in two bytes, which need no other package
        q, k, v = ((x.view("u4") >> 16).astype("u2").view("V2") for x in (q, k, v))
        return (lambda: attn.sdpa(q, k, v, causal=causal)), lambda out: (out.view("u2").astype("u4") << 16).view("f4")
    return (lambda: attn.sdpa(q, k, v, causal=causal)), np.asarray


def numpy(q, k, v, dtype, causal):
    return (lambda: dense(q, k, v, causal)), np.asarray


def torch(q, k, v, dtype, causal):
    import torch as t
    from torch.nn.functional import scaled_dot_product_attention
    tensors = [t.from_numpy(x).to(t.bfloat16 if dtype == "bf16" else t.float32) for x in (q, k, v)]
    return (lambda: scaled_dot_product_attention(*tensors, is_causal=causal, enable_gqa=True)), lambda out: out.float().numpy()


def onnxruntime(q, k, v, dtype, causal):
    import onnx
    import onnxruntime as ort
    if dtype == "bf16":
        raise ImportError("no kernel for bf16")
    names = ("Q", "K", "V")
    node = onnx.helper.make_node("Attention", names, ["Y"], is_causal=int(causal))
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph([node], "attention", [value(n, 1, x.shape) for n, x in zip(names, (q, k, v))], [value("Y", 1, q.shape)])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 23)], ir_version=10)
    options = ort.SessionOptions()
    options.intra_op_num_threads = attn.get_num_threads()
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return (lambda: session.run(None, {"Q": q, "K": k, "V": v})[0]), np.asarray


PROGRAMS = (libattn, numpy, torch, onnxruntime)


def seconds_of(call):
    """Of one call: the mean of as many as fill a sample."""
    calls, start = 0, time.perf_counter()
    while True:
        call()
        calls += 1
        passed = time.perf_counter() - start
        if passed >= SAMPLE_SECONDS:
            return passed / calls


def measure(case, seconds):
    """{program: (median seconds, largest error)} of the programs that are here."""
    _, q_shape, k_shape, dtype, causal = case
    rng = np.random.default_rng(0)
    q, k, v = (rounded(rng.standard_normal(shape, dtype="f4"), dtype) for shape in (q_shape, k_shape, k_shape))
    truth = dense(*(x.astype("f8") for x in (q, k, v)), causal)
    calls, errors = {}, {}
    for program in PROGRAMS:
        try:
            calls[program.__name__], as_array = program(q, k, v, dtype, causal)
        except ImportError:
            continue
        errors[program.__name__] = float(np.abs(as_array(calls[program.__name__]()) - truth).max())
    times = {name: [] for name in calls}
    start = time.perf_counter()
    while len(times["libattn"]) < 3 or time.perf_counter() - start < seconds * len(calls):
        for name, call in calls.items():
            times[name].append(seconds_of(call))
    return {name: (float(np.median(found)), errors[name]) for name, found in times.items()}


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


def text_of(found, ours):
    if found is None:
        return ""
    seconds, error = found
    unit, scale = ("us", 1e6) if seconds < 1e-3 else ("ms", 1e3)
    return f"{seconds * scale:.3g} {unit}, x{seconds / ours:.2f}, {error:.0e}"


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m attn.bench", description="time, ratio to libattn, largest error against float64")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each program and case, at least")
    parser.add_argument("--quick", action="store_true", help="two small cases, to see that everything runs")
    wanted = parser.parse_args(arguments)
    attn.set_num_threads(wanted.threads)
    try:
        import torch as t
        t.set_num_threads(attn.get_num_threads())
    except ImportError:
        pass
    names = [program.__name__ for program in PROGRAMS]
    print(f"libattn {attn.__version__}, NumPy {np.__version__}, {attn.get_num_threads()} threads\n")
    print("| | " + " | ".join(names) + " |\n" + "|---" * (len(names) + 1) + "|")
    for case in QUICK if wanted.quick else CASES:
        found = measure(case, 0.01 if wanted.quick else wanted.seconds)
        print(f"| {case[0]} | " + " | ".join(text_of(found.get(name), found["libattn"][0]) for name in names) + " |", flush=True)
    costs = call_costs()
    print("\nThe smallest call, (1,1,64): %.2f us, %.2f us of it in the library's function, %.2f us in the binding." % tuple(
        1e6 * x for x in (costs["attn.sdpa"], costs["libattn"], costs["attn.sdpa"] - costs["libattn"])))


if __name__ == "__main__":
    main()
