#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every mistake alone, on three shapes at least in f32 and once in f64, f16 and bf16: named first or tied, with its true equivalents only.

Which candidates are equivalent on the data of a plant is computed by the planting programs, not looked up.

ATTN_TEST_SEED chooses the data."""
import os
import re
import sys

import plant_mha
import problems
import support

SEED = int(os.environ.get("ATTN_TEST_SEED", "0"))
OTHERS = re.compile("dialect-|hidden-keys-multiplied")  # candidates that are planted elsewhere


def fault(name, p, dtype):
    """"" or what is wrong with the diagnosis."""
    got, mistake = plant_mha.given(p, (name,), dtype), name.partition(":")[0]
    d = support.Diagnosis(p, got, dtype)
    if d.code != 1:
        return str(d)
    alike, named = problems.equivalents(p, got, dtype), d.named
    missing = sorted(other for other in alike | {mistake} if (other,) not in named)
    wrong = sorted(ids for ids in named if problems.explains(p, ids, got, dtype) is False)
    rivals = len([ids for ids in named if not ids[0].startswith("dialect-")])  # a system's rule beside a mistake says whose it is
    verdict = "named" if rivals == 1 else "tied"
    if missing or wrong or d.report["verdict"] != verdict:
        return f"not named: {missing}, wrongly named: {wrong}, {d}"
    unknown = [ids for ids in named if problems.explains(p, ids, got, dtype) is None and not OTHERS.match(ids[0])]
    if unknown:
        return f"named without our being able to say why: {unknown}, {d}"
    return "" if (rivals == 1) == (d.report["tell_apart"] is None) else f"tell_apart is {d.report['tell_apart']}: {d}"


def main():
    only = sys.argv[1:]
    counts = {"f32": 1} if support.SANITIZED else {"f32": 3, "f64": 1, "f16": 1, "bf16": 1}
    jobs = [(name, p, dtype) for dtype in counts for name, p in problems.singles(dtype, counts[dtype], SEED) if not only or name in only]
    faults = [(job, words) for job, words in zip(jobs, support.in_parallel(fault, jobs)) if words]
    for (name, p, dtype), words in faults:
        print(f"{name} in {dtype}, {' '.join(sorted(p['features']))} {p['shape']} seed {p['seed']}: {words}")
    print(f"seed {SEED}: {len(jobs)} answers with one mistake, {len(faults)} faults")
    return 1 if faults or not jobs else 0


if __name__ == "__main__":
    sys.exit(main())
