#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Every message: one sentence, exit code 2, nothing on standard output, no output file.
load support

two() { attn sdpa q.csv k.csv v.csv "$@"; }

@test "verbs" {
    local verbs="the verbs are sdpa, mha, explain, view, diagnose, show, selftest, info, bench, generate, embed"
    fails_with "there is no verb compute; $verbs" attn compute
    fails_with "there is no verb ''; $verbs" attn ""
    fails_with "there is no verb sdp (did you mean sdpa?); $verbs" attn sdp
    fails_with "attn explain needs to know what: attn explain sdpa|mha|split; see attn explain --help" attn explain
    fails_with "attn explain knows sdpa, mha and split, and was given q.csv; for example: attn explain sdpa Q K V" attn explain q.csv
    fails_with "attn diagnose needs to know what: attn diagnose sdpa|mha; see attn diagnose --help" attn diagnose
    fails_with "attn diagnose knows sdpa and mha, and was given q.csv; for example: attn diagnose sdpa Q K V --got OUT" attn diagnose q.csv
    run attn
    [ "$status" = 2 ]
    lines "Usage: attn VERB" "sdpa" "mha" "explain" "diagnose" "show" "selftest" "info" "bench"
}

@test "options" {
    fails_with "attn sdpa has no option --causl; did you mean --causal?" two --causl
    fails_with "attn sdpa has no option --zzzzzz; attn sdpa --help lists them" two --zzzzzz
    fails_with "attn explain sdpa has no option --zzzzzz; attn explain --help lists them" attn explain sdpa q.csv k.csv v.csv --zzzzzz
    fails_with "attn sdpa has no option --heads; it belongs to attn mha, attn explain, attn diagnose" two --heads 2
    fails_with "attn sdpa has no option -x; the only short options are -o and -h" two -x
    fails_with "--scale needs an argument: --scale X" two --scale
    fails_with "--align needs an argument: --align top-left|bottom-right" two --align --causal
    fails_with "--average takes no argument, and --average=1 gives one" two --average=1
    fails_with "--scale is given twice, and only one of them can hold; leave one out" two --scale 1 --scale 2
    fails_with "--scale is 1/8, and must be a finite number such as 0.125" two --scale 1/8
    fails_with "--scale is inf, and must be a finite number such as 0.125" two --scale inf
    fails_with "--round is -1, and must be a whole number from 0 to 17" two --round -1
    local most="--round is 40, and must be a whole number from 0 to 17"
    fails_with "$most" two --round 40
    fails_with "$most" attn mha ten_words.npy base_weights.npz --heads 8 --round 40
    fails_with "$most" attn show q.csv --round 40
    fails_with "$most" attn explain sdpa q.csv k.csv v.csv --round 40
    fails_with "$most" attn explain split arange_4x8.npy --heads 2 --round 40
    fails_with "--threads is 0, and must be a whole number from 1 to 4096" two --threads 0
    fails_with "--threads is 5000, and must be a whole number from 1 to 4096" two --threads 5000
    fails_with "--heads is -1, and must be a whole number of 1 or more" attn explain split arange_4x8.npy --heads -1
    for seed in x -1 1.5 18446744073709551616; do
        fails_with "--seed is $seed, and must be a whole number from 0 to 18446744073709551615" two --seed $seed
    done
    two --dropout 0.5 --seed 18446744073709551615 -o out.npy
    two --dropout 0.5 --seed 0 -o out.npy
    fails_with "--align is middle, and must be one of: top-left|bottom-right" two --align middle
    fails_with "--causal is sideways, and must be one of: top-left|bottom-right" two --causal=sideways
    fails_with "--layout is lbhd, and must be one of: bhld|blhd" two --layout lbhd
    fails_with "--dtype is f8, and must be one of: f32|f16|bf16|f64" two --dtype f8
    fails_with "--in-dtype is f16, and must be one of: bf16" two --in-dtype f16
    fails_with "--lang is fr, and must be one of: en|ko" attn explain sdpa q.csv k.csv v.csv --lang fr
}

@test "options that contradict each other or lack another" {
    fails_with "--align top-left and --causal=bottom-right disagree; give one of them" two --align top-left --causal=bottom-right
    fails_with "--mask-drop reads a mask the other way round, and there is none; give --mask F" two --mask-drop
    fails_with "--average averages the weights over the heads, and nothing asks for them; give --weights F" two --average
    fails_with "--memory-v is given without --memory, which has the keys; give both" \
        attn mha ten_words.npy base_weights.npz --heads 8 --memory-v ten_words.npy
    fails_with "--json and an output named - both go to standard output; give the output a file name" two --json -o -
    fails_with "--json and an output named /dev/stdout both go to standard output; give the output a file name" two --json -o /dev/stdout
    two --json -o /dev/null >/dev/null
    fails_with "--window is 3, and must be two whole numbers such as 128,0 (keys before and after the position; -1 = no limit)" \
        two --window 3
    fails_saying "align" two --causal --align top-left --offset 3
    fails_saying "bottom" attn sdpa q.csv student.csv student.csv --causal
}

@test "how many files" {
    fails_with "attn sdpa was given 0 files, and takes: attn sdpa Q K V [-o OUT] [options]" attn sdpa
    fails_with "attn sdpa was given 2 files, and takes three (Q K V), or one .npz or .safetensors file with q, k and v" \
        attn sdpa q.csv k.csv
    fails_with "attn sdpa was given too many files: e is one more than it takes" attn sdpa a b c d e
    fails_with "attn sdpa was given 4 files, and takes: attn sdpa Q K V [-o OUT] [options]; what --causal and --alibi take comes after =" \
        two --causal bottom-right
    fails_with "attn show was given 0 files, and takes: attn show FILE" attn show
    fails_with "attn mha was given 1 file, and takes: attn mha X WEIGHTS --heads H [--memory M] [-o OUT] [options]" attn mha ten_words.npy
    fails_with "q.csv holds one array, and attn sdpa needs Q, K and V: three files, or one .npz or .safetensors file with q, k and v" \
        attn sdpa q.csv
    fails_with "attn mha needs --heads H, the number of query heads" attn mha ten_words.npy base_weights.npz
    fails_with "attn explain split needs --heads H, the number of heads" attn explain split arange_4x8.npy
}

@test "files that are not there or not what they should be" {
    fails_with "Q: nope.npy: cannot open: No such file or directory" attn sdpa nope.npy k.csv v.csv
    fails_saying "--mask: nope.npy: cannot open: No such file or directory" two --mask nope.npy
    printf 'no numbers\n' >bad.csv
    fails_saying "V: bad.csv" attn sdpa q.csv k.csv bad.csv
    head -c 100 ten_words.npy >short.npy
    fails_saying "Q: short.npy" attn sdpa short.npy k.csv v.csv
    fails_saying "Q: q.foo" attn sdpa q.foo k.csv v.csv
    fails_saying "base_weights.npz" attn sdpa base_weights.npz
    arrays="w_q (512,512), w_k (512,512), w_v (512,512), w_o (512,512)"
    fails_with "Q: base_weights.npz holds 4 arrays ($arrays), and none is called q; give a file with one array" \
        attn sdpa base_weights.npz k.csv v.csv
    fails_with "--kv-len: 0.5 holds 0.5, and must hold whole numbers" two --kv-len 0.5
}

@test "weights of multi-head attention" {
    fails_saying "no in_proj_weight or q_proj_weight; with --torch the names are PyTorch's" \
        attn mha ten_words.npy base_weights.npz --heads 8 --torch
    fails_saying "512: 1, 2, 4, 8, 16, 32, 64, 128, 256, 512" attn mha ten_words.npy base_weights.npz --heads 13
    numpy "
w = np.eye(4)
np.savez('torch.npz', **{'in_proj_weight': np.vstack([w, w, w]), 'out_proj.weight': w})
np.savez('half.npz', w_q=w, w_k=w)
np.savez('no_o.npz', w_qkv=np.hstack([w, w, w]), w_O=w)
np.savez('joined.npz', **{'a.in_proj_weight': np.vstack([w, w, w])})
np.savez('odd.npz', w_q=w, w_k=w, w_v=w, w_o=w, bo=w[0], b_Q=w[0])
np.savez('odd_torch.npz', **{'a.in_proj_weight': np.vstack([w, w, w]), 'a.out_proj.weight': w, 'a.out_bias': w[0], 'norm.weight': w[0]})
np.savez('extra.npz', **{'in_proj_weight': np.vstack([w, w, w]), 'bias_k': w[:1], 'bias_v': w[:1]})
np.savez('two.npz', **{'a.in_proj_weight': np.vstack([w, w, w]), 'b.in_proj_weight': np.vstack([w, w, w])})"
    fails_with "torch.npz: no w_q, w_k and w_v, but in_proj_weight: these look like PyTorch's names; add --torch" \
        attn mha student.csv torch.npz --heads 2
    local needs="WEIGHTS needs w_q, w_k, w_v (or w_qkv), w_o and perhaps b_q, b_k, b_v, b_o"
    fails_with "half.npz: w_v is missing; the file has w_q (4,4), w_k (4,4), and $needs" attn mha student.csv half.npz --heads 2
    for verb in mha "explain mha"; do
        fails_with "no_o.npz: w_o is missing; the file has w_qkv (4,12), w_O (4,4), and $needs" attn $verb student.csv no_o.npz --heads 2
    done
    fails_saying "joined.npz: a.out_proj.weight is missing; the file has a.in_proj_weight (12,4), and WEIGHTS needs" \
        attn mha student.csv joined.npz --heads 2 --torch
    fails_saying "extra.npz: bias_k and bias_v (add_bias_kv) are rows that attn mha does not add" \
        attn mha student.csv extra.npz --heads 2 --torch
    fails_saying "two.npz: several modules have PyTorch attention weights" attn mha student.csv two.npz --heads 2 --torch
    run attn mha student.csv odd.npz --heads 2 -o out.npy
    [ "$status" = 0 ]
    [ "$output" = "attn: odd.npz: arrays that attn mha does not know are not read: bo, b_Q" ]
    run attn mha student.csv odd_torch.npz --heads 2 --torch -o out.npy
    [ "$output" = "attn: odd_torch.npz: arrays that attn mha does not know are not read: a.out_bias" ]
    [ -z "$(attn mha student.csv odd.npz --heads 2 -o out.npy --quiet 2>&1)" ]
}

@test "shapes that do not fit: both are named, and what to do" {
    numpy "
for name, shape in dict(q9=(1, 9, 3, 8), kv7=(1, 7, 3, 8), q=(1, 2, 3, 8), kv=(1, 2, 4, 8), flat=(8,), mask=(2, 3, 4)).items():
    np.save(name + '.npy', np.zeros(shape, 'f4'))
np.save('boolmask.npy', np.zeros((2, 5, 4), bool))"
    fails_saying "[1,7,3,8]" attn sdpa q9.npy kv7.npy kv7.npy -o out.npy
    fails_saying "[2,2]" attn sdpa q.csv v.csv v.csv -o out.npy
    fails_saying "[2,5,4]" attn sdpa q.npy kv.npy kv.npy --mask boolmask.npy -o out.npy
    fails_saying "q [8] has 1 axes" attn sdpa flat.npy kv.npy kv.npy -o out.npy
    fails_saying "axes" attn sdpa q.npy q.csv q.csv -o out.npy
    fails_saying "X is (8), and must be (L,width) or (B,L,width)" attn explain split flat.npy --heads 2
    fails_saying "[" attn mha flat.npy base_weights.npz --heads 8 -o out.npy
    [ ! -e out.npy ]
}

@test "outputs that cannot be written are said before the work" {
    fails_saying "none/out.npy" two -o none/out.npy
    fails_saying "out.foo: arrays are written as .npy, .npz, .safetensors, .csv or .txt" two -o out.foo
    fails_saying "same file" two -o out.npy --weights out.npy
    local both="output and weights both go to standard output, which takes one array; give one of them a file"
    fails_with "$both" two -o - --weights -
    fails_with "$both" two -o - --weights /dev/stdout
    fails_with "weights goes to standard output, and so would the output; give -o a file" two --weights -
    fails_with "lse goes to standard output, and so would the output; give -o a file" two --lse - --weights w.npy
    fails_with "scores is given twice, and is written to one file; leave one out" two --stage scores=a.npy --stage scores=b.npy
    fails_with "weights is given twice, and is written to one file; leave one out" two --weights a.npy --stage weights=b.npy
    fails_with "q is given twice, and is written to one file; leave one out" \
        attn mha ten_words.npy base_weights.npz --heads 8 --stage q=a.npy --stage q=b.npy
    fails_with "--stage is scores, and must be NAME=F such as scores=scores.npy" two --stage scores
    fails_with "--stage names q, and the stages are scores, scaled, capped, masked, weights, output, row_max, entropy" two --stage q=q.npy
    fails_with "--stage names x, and the stages are scores, scaled, capped, masked, weights, output, row_max, entropy, q, k, v, z" \
        attn mha ten_words.npy base_weights.npz --heads 8 --stage x=x.npy
    [ ! -e out.npy ]
}

@test "one cell and its names" {
    local explain="attn explain sdpa q.csv k.csv v.csv"
    fails_with "--cell is 0,0, and must be B,H,I or B,H,I,J: batch item, head, row and key, counted from 0" $explain --cell 0,0
    fails_with "--cell is 0,0,1,2,3, and must be B,H,I or B,H,I,J: batch item, head, row and key, counted from 0" $explain --cell 0,0,1,2,3
    fails_with "--cell is 0,0,0,, and must be B,H,I or B,H,I,J: batch item, head, row and key, counted from 0" $explain --cell 0,0,0,
    fails_with "--cell is 0,0,2, and there are 2 rows, counted from 0: (B,H,Lq,Lk) is (1,1,2,2)" $explain --cell 0,0,2
    fails_with "--cell is 1,0,0, and there are 1 batch items, counted from 0: (B,H,Lq,Lk) is (1,1,2,2)" $explain --cell 1,0,0
    fails_with "--tokens has 3 words, and there are 2 rows and 2 keys; give one word for each" $explain --tokens "I am a"
    fails_with "--tokens has 1 word, and there are 2 rows and 2 keys; give one word for each" $explain --tokens "I"
    fails_with "--tokens has 2 words, and X has 4 rows; give one word for each" attn explain split arange_4x8.npy --heads 2 --tokens "I am"
    fails_with "--cell shows one row, and --npz writes all of them; give one of the two" $explain --cell 0,0,0 --npz all.npz
    fails_with "--tokens holds no word; give words separated by blanks, such as \"I am a student\"" $explain --tokens " "
    fails_with "attn explain does not take packed input (--cu-q, --cu-k); give one sequence as Q, K and V" $explain --cu-q 0,2 --cu-k 0,2
}

@test "levels and threads" {
    fails_saying "isa is 'mmx'" attn info --isa mmx
    fails_saying "isa is 'mmx'" attn selftest --isa mmx
    fails_saying "ATTN_NUM_THREADS is 'many'" env ATTN_NUM_THREADS=many "$ATTN" info
    for verb in info selftest "bench --threads 1" "sdpa q.csv k.csv v.csv" "explain sdpa q.csv k.csv v.csv" \
        "mha ten_words.npy base_weights.npz --heads 8"; do
        fails_saying "ATTN_ISA is 'mmx'" env ATTN_ISA=mmx "$ATTN" $verb
    done
    fails_saying "threads" attn info --threads 1000000
}

@test "the library's sentences name the options" {
    numpy "np.save('bool.npy', np.ones((2, 2), bool)); np.save('float.npy', np.ones((2, 2)))
np.save('q3.npy', np.ones((4, 1, 4)))"
    fails_with "--mask-drop is set but mask is additive; it says what true means in a bool mask" two --mask float.npy --mask-drop
    fails_with "--keep is given but dropout is 0; give the probability p, since kept weights are divided by 1 - p" two --keep bool.npy
    fails_with "--kv-len[0] is 9; it must be from 0 to the 2 keys of the item" two --kv-len 9
    fails_with "--q-len[0] is 9; it must be from 0 to the 2 rows of the item" two --q-len 9
    fails_with "--cu-k is missing; packed input needs both --cu-q and --cu-k" attn sdpa q3.npy q3.npy q3.npy --cu-q 0,2
    fails_with "--cu-q begins with 1; it must begin with 0" attn sdpa q3.npy q3.npy q3.npy --cu-q 1,4 --cu-k 0,4
    fails_saying "packed input (--cu-q, --cu-k)" two --cu-q 0,2 --cu-k 0,2
    fails_with "packed input (--cu-q, --cu-k) is not defined for attn mha; give a batch with --kv-len and --q-len" \
        attn mha ten_words.npy base_weights.npz --heads 8 --cu-q 0,10 --cu-k 0,10
    fails_saying "call attn sdpa per sequence" attn sdpa q3.npy q3.npy q3.npy --cu-q 0,4 --cu-k 0,4 --mask bool.npy
}

@test "standard input" {
    run bash -c '"$ATTN" sdpa - - v.csv <ten_words.npy'
    [ "$status" = 2 ]
    [ "$output" = "attn: Q and K are both -, and standard input can be read once; give one of them as a file" ]
}

@test "notes: integers, masks of 0 and 1 in text; --quiet is silent" {
    numpy "
for n in 'qkv': np.save(n + '_int.npy', np.loadtxt(n + '.csv', delimiter=',').astype('i4'))"
    printf '1,0\n1,1\n' >mask.csv
    run attn sdpa q_int.npy k_int.npy v_int.npy --mask mask.csv -o out.npy
    [ "$status" = 0 ]
    [ "$output" = "attn: Q: q_int.npy holds i32, which is read as f64
attn: K: k_int.npy holds i32, which is read as f64
attn: V: v_int.npy holds i32, which is read as f64
attn: --mask: mask.csv holds only 0 and 1 and is read as a bool mask; --bias would add the numbers" ]
    numpy "
assert a('out.npy').dtype == np.float64 and np.array_equal(a('out.npy')[0], [10, 0])"
    run attn sdpa q_int.npy k_int.npy v_int.npy --mask mask.csv -o out.npy --quiet
    [ "$status" = 0 ]
    [ -z "$output" ]
}

@test "names out of files reach no terminal as they are" {
    strange_names strange.safetensors
    run attn show strange.safetensors
    [ "$status" = 0 ]
    [ "$output" = '\x1b[2J\x07 (1) f32
  0
\x7f\xc2\x9b1m (1) f32
  0
가 (1) f32
  0' ]
    local arrays='\x1b[2J\x07 (1), \x7f\xc2\x9b1m (1), 가 (1)'
    fails_with "Q: strange.safetensors holds 3 arrays ($arrays), and none is called q; give a file with one array" \
        attn sdpa strange.safetensors k.csv v.csv
    local verbs="the verbs are sdpa, mha, explain, view, diagnose, show, selftest, info, bench, generate, embed"
    fails_with $'there is no verb \\xff\\xed\\xa0\\x80\\xc0\\xaf\uac00; '"$verbs" attn $'\xff\xed\xa0\x80\xc0\xaf\uac00'
}

@test "a damaged array beside a good one: nothing is shown, in text or as JSON" {
    numpy "
np.savez('damaged.npz', a=np.zeros(100), b=np.full(100, 0.5))
bytes_ = bytearray(open('damaged.npz', 'rb').read())
bytes_[bytes_.rindex(np.float64(0.5).tobytes())] ^= 1
open('damaged.npz', 'wb').write(bytes_)"
    fails_saying "damaged.npz: b: a damaged zip" attn show damaged.npz
    [ ! -s stdout.txt ]
    fails_saying "damaged.npz: b: a damaged zip" attn show damaged.npz --json
    [ ! -s stdout.txt ]
}
