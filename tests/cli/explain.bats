#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# attn explain: the whole text, in both languages; one row; why keys are hidden.
load support

four_heads() {
    numpy "
r = np.random.default_rng(3)
np.savez('qkv.npz', q=r.standard_normal((2, 4, 5, 8)).astype('f4'), k=r.standard_normal((2, 2, 7, 8)).astype('f4'),
         v=r.standard_normal((2, 2, 7, 6)).astype('f4'))"
}

@test "the words in English" { golden explain-words.txt attn explain sdpa q.csv k.csv v.csv; }

@test "the words in Korean, aligned" {
    golden explain-words-ko.txt attn explain sdpa student.csv student.csv student.csv --causal --lang ko --tokens "나는 a 학생 이다"
}

@test "the split in English and Korean" {
    golden explain-split.txt attn explain split arange_4x8.npy --heads 2
    golden explain-split-tokens.txt attn explain split arange_4x8.npy --heads 2 --tokens "I am a student"
    golden explain-split-ko.txt attn explain split arange_4x8.npy --heads 2 --lang ko
}

@test "the split of nothing" {
    numpy "np.save('none.npy', np.zeros((0, 3, 4)))"
    attn explain split none.npy --heads 2 >split.txt
    grep -q "(0,3,2,2)" split.txt
}

@test "multi-head attention in English and Korean" {
    golden explain-mha.txt attn explain mha ten_words.npy base_weights.npz --heads 8 --round 2
    golden explain-mha-ko.txt attn explain mha ten_words.npy base_weights.npz --heads 8 --round 2 --lang ko
}

@test "one cell in English and Korean" {
    golden explain-cell.txt attn explain sdpa student.csv student.csv student.csv --cell 0,0,3,0
    golden explain-cell-hidden.txt attn explain sdpa student.csv student.csv student.csv --causal --tokens "I am a student" --cell 0,0,1,3
    golden explain-cell-ko.txt attn explain sdpa student.csv student.csv student.csv --causal --cell 0,0,1,3 --lang ko
}

@test "every reason for which a key is hidden is named" {
    numpy "
np.save('keep.npy', np.array([[1, 1, 0, 1]] * 4, bool))
np.save('bias.npy', np.array([[0, -np.inf, 0, 0]] * 4, np.float32))"
    set -- attn explain sdpa student.csv student.csv student.csv
    run "$@" --mask keep.npy --cell 0,0,3,2 && lines "the mask hides key 2 from this row" "so its weight is 0"
    run "$@" --bias bias.npy --cell 0,0,3,1 && lines "the bias holds -inf for key 1"
    run "$@" --causal --cell 0,0,1,2 && lines "causal: key 2 comes after position 1"
    run "$@" --window 1,0 --cell 0,0,3,0 && lines "window: key 0 is too far from position 3"
    run "$@" --kv-len 2 --cell 0,0,3,2 && lines "kv-len: key 2 is past the valid keys of its item"
    run "$@" --q-len 2 --cell 0,0,3,2 && lines "q-len: the row is past the valid rows of its item"
    "$@" --causal --window 0,0 --kv-len 2 --mask keep.npy --cell 0,0,1,2 --json >cell.json
    "$PYTHON" - <<'PY'
import json
cell = json.load(open("cell.json"))
assert cell["hidden"] == [["window"], [], ["mask", "causal", "window", "kv-len"], ["causal", "window", "kv-len"]], cell["hidden"]
assert cell["stages"]["masked"][0] == "-inf" and cell["stages"]["weights"] == [0, 1, 0, 0]
assert cell["cell"]["position"] == 1 and cell["cell"]["visible"] == 1 and cell["cell"]["key"] == 2
PY
}

@test "one row is that row of attn sdpa, bit for bit" {
    four_heads
    attn sdpa qkv.npz --causal=bottom-right --sinks 0.1,0.2,0.3,0.4 --softcap 5 --alibi -o out.npy --lse lse.npy --weights w.npy
    attn explain sdpa qkv.npz --causal=bottom-right --sinks 0.1,0.2,0.3,0.4 --softcap 5 --alibi --cell 1,3,2 --json >cell.json
    numpy "
import json
cell = json.load(open('cell.json'))
assert np.array_equal(np.float32(cell['stages']['output']), a('out.npy')[1, 3, 2])
assert np.float32(cell['cell']['lse']) == a('lse.npy')[1, 3, 2]
assert np.array_equal(np.float32(cell['stages']['weights']), a('w.npy')[1, 3, 2])
assert cell['cell']['kv_head'] == 1 and cell['cell']['position'] == 4"
}

@test "--json holds every stage, and --npz by TransformerLens's names and shapes" {
    four_heads
    attn explain sdpa qkv.npz --causal=top-left --npz stages.npz >text.txt
    attn explain sdpa qkv.npz --causal=top-left --json >stages.json
    numpy "
import json
file, stages, qkv = a('stages.npz'), json.load(open('stages.json'))['stages'], a('qkv.npz')
assert list(stages) == ['scores', 'scaled', 'capped', 'masked', 'weights', 'lse', 'row_max', 'entropy', 'output']
names = {n: n for n in ('scores', 'scaled', 'capped', 'lse')} | {'masked': 'hook_attn_scores', 'weights': 'hook_pattern'}
assert set(file) == set(names.values()) | {'hook_q', 'hook_k', 'hook_v', 'hook_z'}
flat = lambda s: np.array([float(x) for x in np.array(s['values'], object).ravel()], 'f4').reshape(s['shape'])
for ours, theirs in names.items():
    assert np.array_equal(flat(stages[ours]), file[theirs]), ours
for name in 'qkv':
    assert np.array_equal(file['hook_' + name], qkv[name].transpose(0, 2, 1, 3)), name
assert np.array_equal(flat(stages['output']), file['hook_z'].transpose(0, 2, 1, 3))
assert np.isneginf(file['hook_attn_scores'][0, 0, 0, 1:]).all()
w = flat(stages['weights'])
assert np.array_equal(flat(stages['row_max']), np.where(np.isneginf(flat(stages['masked'])), -np.inf, flat(stages['masked'])).max(-1))
with np.errstate(all='ignore'):
    assert np.allclose(flat(stages['entropy']), -np.where(w > 0, w * np.log(w), 0).sum(-1), atol=1e-5)"
    grep -q "Q K^T = scores" text.txt
    attn explain sdpa q.csv k.csv v.csv --npz two.npz >text.txt
    numpy "assert {n: x.shape for n, x in a('two.npz').items()}['hook_q'] == (1, 2, 1, 4)"
    attn explain sdpa qkv.npz --layout bhld --html page.html --npz both.npz
    [ -s page.html ] && [ -s both.npz ]
}

@test "multi-head attention: each head's part of the output adds up to it" {
    numpy "
r = np.random.default_rng(4)
draw = lambda *shape: r.standard_normal(shape)
np.save('x.npy', draw(2, 5, 6).astype('f4')); np.save('m.npy', draw(2, 7, 3).astype('f4'))
np.savez('w.npz', w_q=draw(6, 8), w_k=draw(3, 4), w_v=draw(3, 4), w_o=draw(8, 9), b_o=draw(9))"
    attn explain mha x.npy w.npz --heads 4 --kv-heads 2 --memory m.npy --npz stages.npz --json >stages.json
    numpy "
import json
file, stages, w = a('stages.npz'), json.load(open('stages.json'))['stages'], a('w.npz')
assert file['hook_result'].shape == (2, 5, 4, 9) and file['hook_k'].shape == (2, 7, 2, 2)
z = file['hook_z']
assert np.allclose(file['hook_result'], np.einsum('bihd,hdo->biho', z, w['w_o'].reshape(4, 2, 9)), atol=1e-12)
assert np.allclose(file['hook_result'].sum(2) + w['b_o'], file['output'], atol=1e-12)
assert np.array_equal(np.array(stages['concat']['values']), z.reshape(2, 5, 8)) and list(stages)[-3:] == ['z', 'concat', 'output']"
}

@test "a sink and a hidden row are said" {
    run attn explain sdpa q.csv k.csv v.csv --sinks 0
    lines "row sums" "the sink takes the rest" "sink 1, sum 4.72"
    run attn explain sdpa q.csv k.csv v.csv --q-len 1
    lines "x  x" "row sums  1  0" "a row that sees no key gives 0"
}

@test "dropout and sinks are in the formulas, and a dropped key is told from a hidden one" {
    numpy "np.save('kept.npy', np.array([[1, 0, 1, 1]] * 4, bool))"
    set -- attn explain sdpa student.csv student.csv student.csv --dropout 0.5 --keep kept.npy --causal
    run "$@"
    lines "softmax(masked) / (1 - 0.5), 0 where dropped = weights" "Row 3 by hand" "-> 0.24, 0.14, 0.11, 0.5" "-> 0.24, 0.14, 0.11, 0.5" \
        "dropout: 0 where dropped, the others / (1 - 0.5):" "-> 0.48, 0, 0.23, 1.01"
    run "$@" --cell 0,0,2,1
    lines "taken out by" "dropout" "causal" "weights = 0   (dropped by dropout; before it, e^(masked - lse) = 0.3758)"
    run "$@" --cell 0,0,2,0
    lines "weights = e^(masked - lse) / (1 - 0.5) = e^(0 - 1.2288) / (1 - 0.5) = 0.5853"
    "$@" --json | grep -qF '"formula": "softmax(masked) / (1 - 0.5), 0 where dropped"'
    run attn explain sdpa q.csv k.csv v.csv --sinks 0
    lines "softmax(masked, sink) = weights"
    attn explain sdpa q.csv k.csv v.csv --sinks 0 --json | grep -qF '"formula": "softmax(masked, sink)"'
}

@test "large arrays are shortened, and nothing large is held" {
    [ -z "$SANITIZED" ] || skip "a sanitizer needs more memory than the limit"
    numpy "np.savez('long.npz', **{n: np.zeros((20000, 4), np.float32) for n in 'qkv'})"
    (ulimit -v 600000 && attn explain sdpa long.npz --threads 1) >text.txt
    [ "$(wc -l <text.txt)" -lt 90 ]
    grep -q "(20000,4) x (4,20000) -> (20000,20000)" text.txt
}

@test "each projection of multi-head attention shows the bias that it has, and where it comes from" {
    numpy "
w, b = np.eye(4), np.zeros(4)
np.savez('biased.npz', w_q=w, w_k=w, w_v=w, w_o=w, b_k=b)
np.savez('packed.npz', w_qkv=np.hstack([w, w, w]), b_qkv=np.zeros(12), w_o=w)"
    run attn explain mha student.csv biased.npz --heads 2
    lines "X W_Q = Q " "X W_K + b_K = K " "X W_V = V "
    run attn explain mha student.csv biased.npz --heads 2 --memory student.csv
    lines "X W_Q = Q " "M W_K + b_K = K " "M W_V = V "
    run attn explain mha student.csv packed.npz --heads 2 --memory student.csv
    lines "X W_Q + b_Q = Q " "M W_K + b_K = K " "M W_V + b_V = V "
}

@test "one row: every key, and every term of its sums" {
    golden explain-row.txt attn explain sdpa student.csv student.csv student.csv --causal --cell 0,0,2
    numpy "
r = np.random.default_rng(5)
np.savez('wide.npz', **{n: r.standard_normal((40, 70)) for n in 'qkv'})"
    attn explain sdpa wide.npz --cell 0,0,3,30 --round 3 >text.txt
    [ "$(grep -c '^    key ' text.txt)" = 40 ]
    numpy "
import re
text, f = open('text.txt').read(), a('wide.npz')
said = lambda start, end: [float(x) for x in re.findall(r'-?[0-9.]+', text.split(start)[1].split(end)[0])]
dot = said('q . k = ', 'scaled')
assert np.allclose(dot[:-1], np.stack([f['q'][3], f['k'][30]], 1).ravel(), atol=6e-4) and len(dot) == 141
assert abs(dot[-1] - f['q'][3] @ f['k'][30]) < 6e-4
output = said('mixed by the weights', 'Key 30')
adds = said('adds to the output: ', 'nothing else')
assert np.allclose(adds[1:71], f['v'][30], atol=6e-4) and len(adds) == 141
scores = f['q'][3] @ f['k'].T / np.sqrt(70)
w = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
labels = [0, 8, 16, 24, 32, 40, 48, 56, 64]
assert len(output) == 70 + len(labels)
assert np.allclose([x for n, x in enumerate(output) if n % 9], w @ f['v'], atol=6e-4)"
    run attn explain sdpa wide.npz --cell 0,0,3
    lines "too many terms for all sums of the row; --cell 0,0,3,J"
}

# on_terminal NAME=VALUE... -- WORD...: what attn shows on a terminal with only these variables.
on_terminal() {
    local set=()
    while [ "$1" != -- ]; do set+=("$1"); shift; done
    shift
    script -qec "env -i ${set[*]} '$ATTN' $*" /dev/null </dev/null | tr -d '\r'
}

@test "the heat map: colours on a terminal that has them, characters elsewhere" {
    local words="explain sdpa student.csv student.csv student.csv --causal" color=$'\033[48;5;230m  \033[0m x'
    attn $words >plain.txt
    grep -qF '    0  @@ x x x' plain.txt
    grep -qF '    3  --::::++' plain.txt
    grep -qF '    0 [  ..::--==++**##%%@@] 1   x hidden' plain.txt
    refused grep -q $'\033' plain.txt
    on_terminal TERM=xterm-256color LANG=ko_KR.UTF-8 -- $words | grep -qF "$color"
    on_terminal TERM=xterm COLORTERM=truecolor LC_ALL=C.utf8 -- $words | grep -qF "$color"
    for set in "TERM=xterm-256color LANG=C" "TERM=xterm-256color LC_ALL=C LANG=C.UTF-8" "TERM=xterm-256color LANG=C.UTF-8 NO_COLOR=1" \
        "TERM=dumb LANG=C.UTF-8" "TERM=vt100 LANG=C.UTF-8" "TERM=xterm-256color"; do
        on_terminal $set -- $words >shown.txt
        grep -qF '    0  @@ x x x' shown.txt
        refused grep -qF '48;5' shown.txt
    done
    attn $words --heat color | grep -qF "$color"
    on_terminal TERM=xterm-256color LANG=C.UTF-8 -- $words --heat ascii | grep -qF '    0  @@ x x x'
    refused grep -qF '@@' <(attn $words --heat off)
    fails_saying "--heat is red, and must be one of:" attn $words --heat red
}

@test "a large heat map has some of the rows, and bands of keys" {
    numpy "
k = np.zeros((300, 4)); k[150] = 40
np.savez('long.npz', q=np.ones((100, 4)), k=k, v=np.zeros((300, 4)))"
    attn explain sdpa long.npz >text.txt
    sed -n '/row sums/,/each column/p' text.txt >map.txt
    [ "$(grep -c '@@' map.txt)" = 25 ] # 24 rows and the scale
    grep -q '^    0   ' map.txt
    grep -q '^    99  ' map.txt
    grep -qF 'each column: the largest of 9 keys' map.txt
    numpy "
rows = [l for l in open('map.txt') if '@@' in l and '[' not in l]
assert {l.index('@@') - 8 for l in rows} == {2 * (150 // 9)}, rows"
}

@test "names of Hangul, whole or letter by letter, keep the columns in line" {
    "$PYTHON" -c "
import json, unicodedata
json.dump([unicodedata.normalize('NFD', '학생'), '학생', 'ab', 'é'], open('t.json', 'w'))"
    attn explain sdpa student.csv student.csv student.csv --tokens t.json >text.txt
    "$PYTHON" - <<'PY'
import unicodedata
lines = open("text.txt", encoding="utf-8").read().split("row sums")[1].split("0 [")[0].splitlines()[2:-1]
columns = set()
for line in lines:
    whole = unicodedata.normalize("NFC", line)
    blocks = min(whole.index(c) for c in "@%#*+=-:." if c in whole[5:])
    columns.add(blocks + sum(unicodedata.east_asian_width(c) == "W" for c in whole))
assert len(lines) == 4 and len(columns) == 1, (lines, columns)
PY
}
