#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# attn generate: a tiny .gguf made by hand, whose answer is known: each token's logits are greatest at the token after it.
load support

# tiny FILE [ARCHITECTURE] [TEMPLATE]: bytes 'a' to 'h' as tokens; the layer adds nothing, the product looks one token ahead.
tiny() {
    "$PYTHON" - "$SOURCE/tests/python" "$1" "${2:-llama}" "${3:-}" <<'PY'
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from ggufmake import gguf
n, a, letters = 32, sys.argv[3], ["a", "b", "c", "d", "e", "f", "g", "<end>"]
eye = np.eye(8, n, dtype=np.float32)
values = {"general.architecture": a, a + ".block_count": 1, a + ".context_length": 16, a + ".embedding_length": n,
          a + ".feed_forward_length": 32, a + ".attention.head_count": 2, a + ".attention.head_count_kv": 1,
          a + ".attention.layer_norm_rms_epsilon": 1e-5, "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2",
          "tokenizer.ggml.tokens": letters, "tokenizer.ggml.token_type": ("i32", [1] * 7 + [3]), "tokenizer.ggml.merges": ("string", []),
          "tokenizer.ggml.eos_token_id": 7}
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
    attn generate tiny.gguf --prompt b 2>&1 >/dev/null | grep -qE "prompt 1 tokens, .*; answer 6 tokens, "
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
    fails_with 'strange.gguf: general.architecture is "mamba", which is not known here; known are llama and qwen2' \
        attn generate strange.gguf --prompt b
    fails_with "--top-k, --top-p and --seed are for drawn tokens; give --temperature too" attn generate tiny.gguf --prompt b --seed 1
    fails_with "--prompt is missing: the text that the answer follows, or - for standard input" attn generate tiny.gguf
}
