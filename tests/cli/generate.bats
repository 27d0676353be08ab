#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# attn generate: a tiny .gguf made by hand, whose answer is known: each token's logits are greatest at the token after it.
load support

# tiny FILE [ARCHITECTURE] [TEMPLATE]: bytes 'a' to 'h' as tokens; the layer adds nothing, the product looks one token ahead.
# ROOM=N: tokens that it takes. ENDLESS=1: no token ends the text.
tiny() {
    "$PYTHON" - "$SOURCE/tests/python" "$1" "${2:-llama}" "${3:-}" <<'PY'
import os, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from ggufmake import gguf
n, a, letters = 32, sys.argv[3], ["a", "b", "c", "d", "e", "f", "g", "<end>"]
eye = np.eye(8, n, dtype=np.float32)
values = {"general.architecture": a, a + ".block_count": 1, a + ".context_length": int(os.environ.get("ROOM", 16)),
          a + ".embedding_length": n,
          a + ".feed_forward_length": 32, a + ".attention.head_count": 2, a + ".attention.head_count_kv": 1,
          a + ".attention.layer_norm_rms_epsilon": 1e-5, "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2",
          "tokenizer.ggml.tokens": letters, "tokenizer.ggml.token_type": ("i32", [1] * 7 + [3]), "tokenizer.ggml.merges": ("string", []),
          "tokenizer.ggml.eos_token_id": 7}
if os.environ.get("ENDLESS"):
    del values["tokenizer.ggml.eos_token_id"]
if sys.argv[4]:
    values["tokenizer.chat_template"] = sys.argv[4]
zero, one = (lambda *s: np.zeros(s, np.float32)), np.ones(n, np.float32)
tensors = {"token_embd.weight": eye, "output.weight": np.roll(eye, 1, axis=0), "output_norm.weight": one, "blk.0.attn_norm.weight": one,
           "blk.0.ffn_norm.weight": one, "blk.0.attn_q.weight": zero(32, n), "blk.0.attn_k.weight": zero(16, n),
           "blk.0.attn_v.weight": zero(16, n), "blk.0.attn_output.weight": zero(n, 32), "blk.0.ffn_gate.weight": zero(32, n),
           "blk.0.ffn_up.weight": zero(32, n), "blk.0.ffn_down.weight": zero(n, 32)}
open(sys.argv[2], "wb").write(gguf(values, tensors))
PY
}

@test "the answer goes on with the prompt and ends where the model ends it" {
    tiny tiny.gguf
    [ "$(attn generate tiny.gguf --prompt b --quiet)" = cdefg ]
    [ "$(attn generate tiny.gguf --prompt b -n 2 --quiet)" = cd ]
    [ "$(echo -n ab | attn generate tiny.gguf --prompt - -n 3 --quiet)" = cde ]
    attn generate tiny.gguf --prompt b 2>&1 >/dev/null | grep -qE "prompt 1 token, .*; answer 6 tokens, "
}

@test "drawn tokens are the seed's, for any number of threads" {
    tiny tiny.gguf
    one=$(attn generate tiny.gguf --prompt b -n 9 --temperature 9 --seed 1 --quiet --threads 1)
    [ "$one" = "$(attn generate tiny.gguf --prompt b -n 9 --temperature 9 --seed 1 --quiet --threads 2)" ]
    [ "$(attn generate tiny.gguf --prompt b --temperature 9 --top-k 1 --quiet)" = cdefg ]
    for seed in 2 3 4 5; do attn generate tiny.gguf --prompt b -n 9 --temperature 9 --seed "$seed" --quiet; done | sort -u >drawn.txt
    [ "$(wc -l <drawn.txt)" -gt 1 ]
}

@test "what is not known is refused by name" {
    tiny tiny.gguf
    fails_with "--chat: chat template: the model has none; give the whole text as the prompt" attn generate tiny.gguf --chat --prompt b
    tiny other.gguf llama "{% for m in messages %}[INST]{% endfor %}"
    fails_with "--chat: chat template: the model's has \"[INST]\", which is not understood; those of ChatML and of Llama 3 to 3.2 are \
built in here; give the whole text as the prompt" attn generate other.gguf --chat --prompt b
    tiny strange.gguf mamba
    fails_with 'strange.gguf: general.architecture is "mamba", which is not known here; known are llama, qwen2 and qwen3' \
        attn generate strange.gguf --prompt b
    for option in "--top-k 2" --top-p=0.5 --min-p=0.5 "--seed 1"; do
        word=${option%%[ =]*}
        # shellcheck disable=SC2086 # two words
        fails_with "$word is for drawn tokens; give --temperature too" attn generate tiny.gguf --prompt b $option
    done
    fails_with "--prompt is missing: the text that the answer follows, or - for standard input" attn generate tiny.gguf
    fails_with "--beams: llama is a decoder, which says one token after the other; beams are for models that translate" \
        attn generate tiny.gguf --prompt b --beams 2
    fails_saying "repetition_penalty is -1; it must be greater than 0" attn generate tiny.gguf --prompt b --repetition-penalty=-1
}

@test "GPT-2 has no chat template" {
    printf '{"a": 0, "b": 1, "<|endoftext|>": 2}' >vocab.json
    printf '#version: 0.2\n' >merges.txt
    fails_with "--chat: chat template: the model has none; give the whole text as the prompt" attn generate . --chat --prompt a
}

@test "a stop text ends the answer before it, however its tokens are cut" {
    tiny tiny.gguf
    [ "$(attn generate tiny.gguf --prompt b --stop ef --quiet)" = cd ]
    [ "$(attn generate tiny.gguf --prompt b --stop g --stop de --quiet)" = c ]
    [ "$(attn generate tiny.gguf --prompt b --stop eg --stop efgh --quiet)" = cdefg ]
    [ "$(attn generate tiny.gguf --prompt b --stop c --quiet)" = "" ]
}

@test "fewer tokens to draw from, and a penalty for those that were" {
    tiny tiny.gguf
    [ "$(attn generate tiny.gguf --prompt b --temperature 9 --min-p 1 --quiet)" = cdefg ]
    for seed in 1 2 3 4 5; do
        attn generate tiny.gguf --prompt b -n 9 --temperature 3 --seed $seed --quiet >>plain.txt
        attn generate tiny.gguf --prompt b -n 9 --temperature 3 --seed $seed --quiet --repetition-penalty 100 >>penalty.txt
    done
    refused cmp -s plain.txt penalty.txt
}

@test "JSON says what ran, what was asked, and how the answer ended" {
    tiny tiny.gguf
    attn generate tiny.gguf --prompt b --json >out.json 2>said.txt
    [ ! -s said.txt ]
    "$PYTHON" "$SOURCE/tests/cli/check_json.py" "$SOURCE/docs/attn-json-schema.json" out.json
    "$PYTHON" - <<'PY'
import json
o = json.load(open("out.json"))
assert o["prompt"] == {"text": "b", "ids": [1]}, o
assert o["answer"] == {"text": "cdefg", "ids": [2, 3, 4, 5, 6, 7], "end": "model"}, o
assert o["model"]["type"] == "llama" and o["run"]["threads"] >= 1, o
PY
    attn generate tiny.gguf --prompt b --json -n 2 | grep -qF '"end": "length"'
    attn generate tiny.gguf --prompt b --json --stop ef | grep -qF '"end": "text"'
}

@test "--verbose says which model ran, and where" {
    tiny tiny.gguf
    attn generate tiny.gguf --prompt b --verbose --threads 1 --isa scalar >/dev/null 2>said.txt
    grep -q "llama, decoder of 0.0 million numbers, 1 layers, 2 heads (1 of keys and values) of 16 columns; opened in " said.txt
    grep -q "ran in f32 on scalar, 1 thread; the answer was ended by: model" said.txt
}

@test "an interrupt ends the answer: what was said stays, the numbers come, exit status 130" {
    ROOM=60000 ENDLESS=1 tiny endless.gguf
    "$PYTHON" - "$ATTN" <<'PY'
import signal, subprocess, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background ignores it, and attn would too
run = subprocess.Popen([sys.argv[1], "generate", "endless.gguf", "--prompt", "b", "-n", "59000", "--threads", "1"], stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, bufsize=0)
said = b""
while len(said) < 30:
    said += run.stdout.read(30)
assert run.poll() is None
run.send_signal(signal.SIGINT)
rest, notes = run.communicate(timeout=60)
said += rest
assert run.returncode == 130, run.returncode
assert said.endswith(b"\n") and said.startswith(b"cdefgabcdefg"), said[:40]
assert b"attn: prompt 1 token, " in notes and notes.count(b"\n") == 1, notes
tokens = int(notes.split(b"answer ")[1].split()[0])
letters = len(said) - 1
assert tokens < 59000 and tokens - tokens // 8 - 2 <= letters <= tokens, (tokens, letters)  # every eighth token is special
PY
}

@test "a model that translates" {
    "$PYTHON" - "$SOURCE/tests/python" <<'PY'
import sys
sys.path.insert(0, sys.argv[1])
import marianmake
marianmake.write(".")
PY
    [ "$(attn generate . --prompt b --quiet)" = "b c d e f g" ]
    [ "$(attn generate . --prompt e --quiet --beams 1)" = "e f g" ]
    [ "$(printf e | attn generate . --prompt - --quiet --beams 4 --length-penalty 0.5)" = "e f g" ]
    [ "$(attn generate . --prompt a --quiet -n 3)" = "a b" ]
    attn generate . --prompt e 2>&1 >/dev/null | grep -qE "source 2 tokens, target 4 tokens, "
    attn generate . --prompt e --json >out.json
    "$PYTHON" "$SOURCE/tests/cli/check_json.py" "$SOURCE/docs/attn-json-schema.json" out.json
    "$PYTHON" - <<'PY'
import json
a = json.load(open("out.json"))["answer"]
assert (a["text"], a["ids"], a["end"]) == ("e f g", [6, 7, 8, 0], "model") and a["score"] < 0, a
PY
    attn generate . --prompt e --json --length-penalty 2 | grep -F '"score"' >two.txt
    refused grep -qF "$(grep -F '"score"' out.json)" two.txt
    fails_with "--temperature: marian is a model that translates, which searches for the likeliest text; --beams and --length-penalty are \
for it" attn generate . --prompt e --temperature 1
    fails_with "--chat: chat template: the model has none; give the whole text as the prompt" attn generate . --prompt e --chat
    fails_saying "beams is 257; it must be from 1 to 256" attn generate . --prompt e --beams 257
}
