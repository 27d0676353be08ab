#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: compare.py [--threads N] [--seconds S] [--quick] [--json FILE]

libattn ($ATTN_LIB) beside torch, ONNX Runtime and NumPy, in turns on the same cores, as Markdown. setup.sh makes the environment."""
import argparse
import json
import os
import sys
import time

for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):  # either may hold NumPy's products back
    os.environ.pop(name, None)
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "python"))

import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
import threadpoolctl  # noqa: E402
import torch  # noqa: E402

import attnlib  # noqa: E402
from cases import CASES, QUICK, Data  # noqa: E402
from programs import PROGRAMS, Libattn, LibattnRelaxed, Ort, OrtIdentity, Torch, Unfit  # noqa: E402

MOST_ERROR = {"f32": 1e-4, "f16": 1e-2, "bf16": 5e-2}  # more than this is another computation, not another rounding
SAMPLE_SECONDS = 2e-3


def clock(threads):
    """One thread: the CPU time it got, since waiting for a busy CPU is not slowness."""
    return time.thread_time if threads == 1 else time.perf_counter


def sample(program, now):
    """Seconds of one call: the mean of as many as fill a sample."""
    calls, start = 0, now()
    while True:
        program.run()
        calls += 1
        passed = now() - start
        if passed >= SAMPLE_SECONDS:
            return passed / calls


def spread(values):
    low, median, high = np.quantile(values, (0.25, 0.5, 0.75))
    return {"median": float(median), "low": float(low), "high": float(high)}


def prepare(data, threads):
    """The programs that fit the case; their errors against float64, the largest and the root of the mean square; why the others do not."""
    rows, truth = data.truth()
    fit, errors, reasons = [], {}, {}
    for program_class in PROGRAMS:
        try:
            program = program_class(data, threads)
        except Unfit as why:
            reasons[program_class.name] = str(why)
            continue
        program.run()
        got = program.result()
        off = np.abs((got[rows] if data.case.mha else got[:, rows]) - truth)
        if not off.max() <= MOST_ERROR[data.case.dtype]:
            raise SystemExit(f"{data.case.name}: {program.name} computes something else: error {off.max():.2g}")
        fit.append(program)
        errors[program.name] = {"error": float(off.max()), "rms_error": float(np.sqrt((off * off).mean()))}
    return fit, errors, reasons


def measure(data, threads, seconds):
    """Every program in turns. The first turn warms up."""
    programs, errors, reasons = prepare(data, threads)
    identity, now = OrtIdentity(data, threads) if data.case.dtype != "bf16" else None, clock(threads)
    times, overheads = {p.name: [] for p in programs}, []
    start, turn = time.perf_counter(), 0
    while turn < 4 or time.perf_counter() - start < seconds * len(programs):
        overhead = sample(identity, now) if identity else 0.0
        for program in programs:
            if threads > 1:
                time.sleep(0.2)  # until the last one's threads no longer spin: 20 ms are not enough for OpenBLAS's,
                program.run()  # and its own are awake
            passed = sample(program, now)
            if turn:
                times[program.name].append(passed)
        if turn:
            overheads.append(overhead)
        turn += 1
    for program in programs:
        if isinstance(program, Ort):
            times[program.name] = np.array(times[program.name]) - np.median(overheads)
    ours = np.array(times[Libattn.name])
    return {"name": data.case.name, "threads": threads, "samples": turn - 1, "flops": data.case.flops, "bytes": data.case.bytes,
            "ort_call": spread(overheads), "unfit": reasons,
            "programs": {name: {**errors[name], "seconds": spread(values), "ratio": spread(np.array(values) / ours)}
                         for name, values in times.items()}}


# ----------------------------------------------------------------- printing ----

def time_text(seconds):
    unit, scale = ("us", 1e6) if seconds < 1e-3 else ("ms", 1e3) if seconds < 1 else ("s", 1)
    return f"{seconds * scale:.4g} {unit}"


def ours_text(result):
    mine = result["programs"][Libattn.name]
    seconds = mine["seconds"]["median"]
    rate = f"{result['bytes'] / seconds * 1e-9:.3g} GB/s" if result["bytes"] else f"{result['flops'] / seconds * 1e-9:.3g} GFLOP/s"
    error = f"{mine['error']:.1e}"
    theirs = result["programs"].get(Torch.name)
    return f"{time_text(seconds)}, {rate}, {'**' + error + '**' if theirs and mine['error'] > theirs['error'] else error}"


def peer_text(result, name):
    found = result["programs"].get(name)
    if not found:
        return ""
    ratio = found["ratio"]
    text = f"{ratio['median']:.2f} [{ratio['low']:.2f}, {ratio['high']:.2f}]"
    is_loss = ratio["median"] < 1 and name != LibattnRelaxed.name
    return f"{'**' + text + '**' if is_loss else text} {found['error']:.1e}"


def print_header(threads):
    blas = next((p for p in threadpoolctl.threadpool_info() if p["internal_api"] == "openblas"), {})
    print(f"libattn {attnlib.C.attn_version().decode()} ({attnlib.Context(threads=1).info()['isa']}), torch {torch.__version__}, "
          f"ONNX Runtime {onnxruntime.__version__}, NumPy {np.__version__} with OpenBLAS {blas.get('version')} "
          f"({blas.get('architecture')}); {threads} thread{'s' if threads > 1 else ''}\n")
    print("| | " + " | ".join(p.name for p in PROGRAMS) + " |")
    print("|---" * (len(PROGRAMS) + 1) + "|")


def print_row(result):
    print(f"| {result['name']} | {ours_text(result)} | " + " | ".join(peer_text(result, p.name) for p in PROGRAMS[1:]) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each program and case, at least")
    parser.add_argument("--quick", action="store_true", help="a few small cases, to see that everything runs")
    parser.add_argument("--json", help="write everything that was measured to this file")
    wanted = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-wanted.threads:])
    results = []
    with threadpoolctl.threadpool_limits(wanted.threads, "blas"):
        print_header(wanted.threads)
        for case in QUICK if wanted.quick else CASES:
            results.append(measure(Data(case), wanted.threads, wanted.seconds))
            print_row(results[-1])
    calls = [r["ort_call"]["median"] for r in results if r["ort_call"]["median"] > 0]
    print(f"\nA call of ONNX Runtime through Python takes {time_text(min(calls))} to {time_text(max(calls))} (Identity, IO binding); "
          "taken off its times.")
    if wanted.json:
        with open(wanted.json, "w", encoding="utf-8") as file:
            json.dump({"schema": 1, "results": results}, file, indent=1)


if __name__ == "__main__":
    main()
