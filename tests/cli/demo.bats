#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The demo, the examples, and the verbs that look at this machine.
load support

@test "the demo shows what it promises" {
    run "$SOURCE/scripts/demo.sh" "$(dirname "$(dirname "$ATTN")")"
    [ "$status" = 0 ]
    lines "0.2689  0.7311" "2.6894  7.3106" "e^0 = 1, e^1 = 2.72, sum 3.72" "0.27, 0.73" "maximum 1 taken off" "2.7  7.3" \
        "(4,8) -> (4,2,4)" "(4,2,4) -> (2,4,4)" "head 1 starts [4, 5, 6, 7]" "I    am     a  student" "(10,512) x (512,64) -> (10,64)" \
        "(10,64) x (64,10) -> (10,10)" "(10,10) x (10,64) -> (10,64)" "(8,10,64) -> (10,8,64) -> (10,512)" "concat W_O = output" \
        "    512      1        512           2147               2147" "    512      8         64           2147               2147" \
        "    768     12         64" "    896     14         64" "X is 896 wide, which 13 heads do not divide"
}

@test "the examples are what their script makes" {
    mkdir -p made/lessons
    "$PYTHON" "$SOURCE/examples/make_examples.py" made
    "$PYTHON" -B "$SOURCE/examples/make_lessons.py" made/lessons
    diff -r -x '*.py' made "$SOURCE/examples"
}

@test "attn show: every kind of file and of dtype" {
    numpy "
np.savez('kinds.npz', b=np.array([True, False]), i=np.array([2**62 + 1]), e=np.zeros((0, 3)), s=np.float64(2.5), t=np.array(['no']),
         w=np.arange(2000.0).reshape(20, 100), d=np.arange(4 * 9).reshape(2, 2, 3, 3))"
    golden show.txt attn show kinds.npz
    attn show student.csv | grep -q "(4,4) f64"
}

@test "attn show FILE.gguf: values by key, and what each tensor is" {
    "$PYTHON" - "$SOURCE/tests/python" <<'PY'
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from ggufmake import blocks, gguf
values = {"general.architecture": "llama", "a\x1b[2J": "b\n\x07" + "x" * 90, "llama.block_count": 2, "eps": 1e-5, "yes": True,
          "tokens": ["<s>", "가", "c", "d"], "none": ("string", []), "deep": ("u64", 1 << 63)}
open("small.gguf", "wb").write(gguf(values, {"token_embd.weight": blocks("Q4_K", (3, 256))[0], "norm": np.ones(4, np.float32)}))
PY
    golden show-gguf.txt attn show small.gguf
    attn show small.gguf --json >out.json
    "$PYTHON" "$SOURCE/tests/cli/check_json.py" "$SOURCE/docs/attn-json-schema.json" out.json
    "$PYTHON" - <<'PY'
import json
found = json.load(open("out.json"))
assert found["metadata"]["tokens"] == {"type": "string", "count": 4, "first": ["<s>", "가", "c"]}
assert found["metadata"]["deep"] == {"type": "u64", "value": None} and found["metadata"]["eps"]["value"] == 9.99999975e-06
assert found["arrays"]["token_embd.weight"] == {"dtype": "Q4_K", "shape": [3, 256]}
assert list(found["arrays"]) == ["token_embd.weight", "norm"]
PY
    attn show small.gguf | head -c 100 >cut.gguf
    fails_with "FILE: cut.gguf: the file does not begin with 'GGUF'" attn show cut.gguf
}

@test "attn info names the level that runs" {
    run attn info
    [ "$status" = 0 ]
    lines "attn " "CPU " "ISA " "scalar" "(runs)" "threads " "dtypes    f32 f64 f16 bf16" "files     .npy .npz .safetensors"
    attn info --isa scalar --threads 3 --json >info.json
    grep -q '"isa": "scalar",' info.json
    grep -q '"threads": 3,' info.json
}

@test "attn selftest runs every level of this CPU" {
    attn selftest --json >selftest.json
    "$PYTHON" - "$ATTN" <<'PY'
import json
found = json.load(open("selftest.json"))
ran = [level for level in found["levels"] if level["usable"]]
assert found["ok"] and ran
for level in ran:
    assert level["cases"] == 10 and level["failed"] == 0 and 0 < level["worst_share_of_bound"] <= 1
PY
    run attn selftest --isa scalar
    [ "$status" = 0 ]
    [[ $output == "scalar      10 of 10 cases within the bound"* ]]
    run env ATTN_ISA=scalar "$ATTN" selftest
    [ "$status" = 0 ]
    [ "${#lines[@]}" = 2 ]
    lines "attn: ATTN_ISA is scalar: no other level is tested" "scalar      10 of 10"
    [ "$(ATTN_ISA='' attn selftest --json)" = "$(cat selftest.json)" ]
}
