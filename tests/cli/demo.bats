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
    [[ $output == "scalar   10 of 10 cases within the bound"* ]]
    run env ATTN_ISA=scalar "$ATTN" selftest
    [ "$status" = 0 ]
    [ "${#lines[@]}" = 2 ]
    lines "attn: ATTN_ISA is scalar: no other level is tested" "scalar   10 of 10"
    [ "$(ATTN_ISA='' attn selftest --json)" = "$(cat selftest.json)" ]
}
