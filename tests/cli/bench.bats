#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# attn bench: every suite, in no time; what it prints, and what it refuses. Not how fast anything is.
load support

# measured SUITE...: its JSON, checked against the schema, in SUITE.json.
measured() {
    [ -z "$SANITIZED" ] || skip "a speed under a sanitizer says nothing"
    for suite; do
        attn bench --suite "$suite" --seconds 0.001 --json >"$suite.json"
        "$PYTHON" "$SOURCE/tests/cli/check_json.py" "$SOURCE/docs/attn-json-schema.json" "$suite.json"
    done
}

# check CODE: Python with `results(suite)`.
check() {
    "$PYTHON" -c "
import json
def results(suite):
    return json.load(open(suite + '.json'))['results']
$1"
}

@test "the default: one prefill, with numbers that agree with each other" {
    [ -z "$SANITIZED" ] || skip "a speed under a sanitizer says nothing"
    attn bench --json >quick.json
    check "
r, = results('quick')
assert (r['name'], r['suite'], r['threads'], r['limit_is']) == ('f32 (8,2048,64)', 'quick', 1, 'multiply-add')
assert r['flops'] == 4 * 2048**2 * 64 * 8 and r['samples'] >= 3 and r['memory'] > 0
for key in 'seconds', 'limit', 'share':
    assert 0 < r[key]['low'] <= r[key]['median'] <= r[key]['high']
assert abs(r['gflops'] * r['seconds']['median'] * 1e9 / r['flops'] - 1) < 1e-3
assert 0.02 < r['share']['median'] < 1.1"
}

@test "small suites" {
    measured paper causal mha gemm 16bit
    check "
assert [r['kind'] for r in results('paper')] == ['sdpa', 'mha']
assert results('causal')[0]['flops'] == 4 * 14 * 64 * 2048 * 2049 / 2
assert results('mha')[0]['flops'] == 4 * 512**2 * 768 + 8 * 512 * 768**2
by_rows = results('gemm')
assert by_rows[0]['bytes'] == 4 * 512 * 512 and by_rows[0]['limit_is'] == 'read'
assert 'bytes' not in by_rows[-1] and by_rows[-1]['flops'] == 2 * 2048 * 768 * 768
assert [r['dtype'] for r in results('16bit')] == 2 * ['f32', 'bf16', 'f16']
assert all(r['beside'].startswith('f32') == (r['dtype'] != 'f32') for r in results('16bit') if 'beside' in r)"
}

@test "decode reads its cache; masks and windows are measured beside the whole" {
    measured decode mask long
    check "
found = results('decode')
assert [r['dtype'] for r in found] == 3 * ['f32', 'f32', 'f16', 'bf16'] and all(r['limit_is'] == 'read' for r in found)
assert [r['bytes'] for r in found[4:]] == [2 * 2 * keys * 64 * size for keys in (32768, 131072) for size in (4, 4, 2, 2)]
window = results('mask')[-1]
assert window['beside'] == 'f32 (8,4096,64)' and window['beside_ratio']['median'] > 2, window
assert window['flops'] == 4 * 8 * 64 * (256 * 257 / 2 + (4096 - 256) * 256)
assert results('long')[0]['memory'] < 2**25"
}

@test "threads are measured beside one, and heeded" {
    measured threads
    check "
found = results('threads')
assert [r['threads'] for r in found[::2]] == [1, 1] and all('beside_ratio' in r for r in found[1::2])"
    attn bench --suite mha --seconds 0.001 --threads 2 --isa scalar --json >two.json
    check "
r, = results('two')
assert r['isa'] == 'scalar' and r['threads'] <= 2, r"
}

@test "long prefill" { measured prefill; }

@test "text and Markdown have the same cells" {
    [ -z "$SANITIZED" ] || skip "a speed under a sanitizer says nothing"
    attn bench --suite paper --seconds 0.001 >text.txt
    attn bench --suite paper --seconds 0.001 --markdown >table.md
    grep -qE '^paper +threads +time +spread +rate +share +of +memory$' text.txt
    grep -qE '^f32 \(8,10,64\) +1 +[0-9.]+ us +[0-9.]+ % +[0-9.]+ GFLOP/s +[0-9.]+ % +[0-9.]+ GFLOP/s +[0-9.]+ MiB$' text.txt
    [ "$(grep -c '^|' table.md)" = 4 ]
    [ "$(grep '^|' table.md | tr -cd '|\n' | sort -u)" = '|||||||||' ]
    attn bench --suite threads --seconds 0.001 >>text.txt
    refused grep -q ' $' text.txt
}

@test "--compare: the same machine is about as fast as it was, and a faster past is marked" {
    [ -z "$SANITIZED" ] || skip "a speed under a sanitizer says nothing"
    attn bench --suite mha --seconds 0.3 --json >mha.json
    attn bench --suite mha --seconds 0.3 --compare mha.json --json >again.json
    "$PYTHON" "$SOURCE/tests/cli/check_json.py" "$SOURCE/docs/attn-json-schema.json" again.json
    check "
ratio = results('again')[0]['before_ratio']
assert 0.4 < ratio['median'] < 2.5 and ratio['low'] <= ratio['median'] <= ratio['high'], ratio
old = json.load(open('mha.json'))
for key in 'low', 'median', 'high':
    old['results'][0]['seconds'][key] *= 1e-3
json.dump(old, open('fast.json', 'w'))"
    attn bench --suite mha --seconds 0.001 --compare fast.json | grep -qE '0\.00[0-9]+ \[0\.00[0-9]+, 0\.00[0-9]+\] !$'
}

@test "what it refuses, before anything is measured" {
    local prints="is not what attn bench --json prints"
    fails_with "--suite is fast, and must be one of: quick|paper|prefill|causal|decode|mha|gemm|16bit|mask|long|threads|all" \
        attn bench --suite fast
    fails_with "--seconds is 0, and must be above 0" attn bench --seconds 0
    fails_with "--seconds is soon, and must be a finite number such as 0.125" attn bench --seconds soon
    fails_with "--json and --markdown both say what is printed; leave one out" attn bench --json --markdown
    fails_with "--threads is 0, and must be a whole number from 1 to 4096" attn bench --threads 0
    fails_saying "--compare none.json: unable to open none.json" attn bench --compare none.json
    echo '{"command": "bench", "results": 1}' >broken.json
    fails_with "--compare broken.json $prints" timeout 20 "$ATTN" bench --suite all --seconds 100 --compare broken.json
    echo '[]' >broken.json
    fails_with "--compare broken.json $prints" attn bench --compare broken.json
    attn info --json >info.json
    fails_with "--compare info.json $prints" attn bench --compare info.json
    echo '{' >broken.json
    fails_saying "--compare broken.json is not JSON: line 2: " attn bench --compare broken.json
}

@test "a former run without these cases, or without times, is refused" {
    [ -z "$SANITIZED" ] || skip "a speed under a sanitizer says nothing"
    echo '{"command": "bench", "suite": "decode", "results": []}' >other.json
    fails_with "--compare other.json has none of the cases that were measured: its suite is decode, and its threads may be others" \
        attn bench --suite causal --seconds 0.001 --compare other.json
    echo '{"command": "bench", "results": [
        {"suite": "causal", "name": "f32 (14/2,2048,64) causal", "threads": 1, "seconds": 3}]}' >other.json
    fails_with "--compare other.json: the seconds of f32 (14/2,2048,64) causal are not three growing times above 0" \
        attn bench --suite causal --seconds 0.001 --compare other.json
}
