/* SPDX-License-Identifier: Apache-2.0 */
/* Every option once: parser, --help, man pages and completions are made from this table. */
#include "options.h"

#define EXPLAINED (VERB_EXPLAIN_SDPA | VERB_EXPLAIN_MHA)
#define WRITING (VERB_SDPA | VERB_MHA)
#define ATTENTION (WRITING | EXPLAINED | VERB_DIAGNOSE)
#define WITH_MHA (VERB_MHA | VERB_EXPLAIN_MHA | VERB_DIAGNOSE_MHA)
#define RUNNING (ATTENTION | VERB_SELFTEST | VERB_INFO | VERB_BENCH | VERB_GENERATE | VERB_EMBED | VERB_VIEW)
#define PICTURED (VERB_EXPLAIN_SPLIT | VERB_VIEW)
#define SHOWING (WRITING | EXPLAINED | PICTURED | VERB_SHOW)

const char *const opt_section_title[SEC_COUNT] = {
    [SEC_HEADS] = "Heads and projections",
    [SEC_HIDE] = "Which keys a row may see",
    [SEC_POSITION] = "Where a row stands",
    [SEC_SCORES] = "Scores and weights",
    [SEC_ARRAYS] = "Arrays",
    [SEC_RESULTS] = "Results",
    [SEC_EXPLAIN] = "Explaining",
    [SEC_DIAGNOSE] = "Diagnosing",
    [SEC_TEXT] = "Text",
    [SEC_RUN] = "Running",
    [SEC_MESSAGES] = "Showing",
};

const opt_desc opt_table[OPT_COUNT] = {
    [OPT_HEADS] = {0, "heads", "H", WITH_MHA | VERB_EXPLAIN_SPLIT, SEC_HEADS,
                   "The number of query heads; must divide the inner width (the columns of w_q)."},
    [OPT_KV_HEADS] = {0, "kv-heads", "N", WITH_MHA, SEC_HEADS,
                      "The number of key and value heads, which groups of query heads share; must divide H. Default: H."},
    [OPT_MEMORY] = {0, "memory", "F", WITH_MHA, SEC_HEADS,
                    "Cross-attention: keys and values come from this (L,width) or (B,L,width) array instead of X."},
    [OPT_MEMORY_V] = {0, "memory-v", "F", WITH_MHA, SEC_HEADS, "A memory of its own for the values; with --memory."},
    [OPT_TORCH] = {0, "torch", NULL, WITH_MHA, SEC_HEADS,
                   "Read PyTorch's names (in_proj_weight, out_proj.weight, ...) and its (out,in) order; changes nothing else."},

    [OPT_MASK] = {0, "mask", "F", ATTENTION, SEC_HIDE,
                  "Bool, or integers 0 and 1: true = may be seen. Shape (Lq,Lk), (H,Lq,Lk) or (B,H,Lq,Lk); axes of size 1 spread. A float "
                  "mask is a bias."},
    [OPT_MASK_DROP] = {0, "mask-drop", NULL, ATTENTION, SEC_HIDE, "Read the mask the other way round: true = hidden."},
    [OPT_BIAS] = {0, "bias", "F", ATTENTION, SEC_HIDE,
                  "Floats added to the scaled scores; a stored -inf hides the key. Shapes as for --mask; both may be given."},
    [OPT_CAUSAL] = {0, "causal", "[=top-left|bottom-right]", ATTENTION, SEC_HIDE,
                    "Hide the keys after a row's position; the argument says the same as --align."},
    [OPT_WINDOW] = {0, "window", "L,R", ATTENTION, SEC_HIDE,
                    "See L keys before a row's position, R keys after it and the one at it; -1 = no limit."},
    [OPT_KV_LEN] = {0, "kv-len", "F", ATTENTION, SEC_HIDE, "The valid keys of each batch item: a file of integers, or a list such as 5,7."},
    [OPT_Q_LEN] = {0, "q-len", "F", ATTENTION, SEC_HIDE, "The valid rows of each batch item; rows after them give 0. File or list."},
    [OPT_CU_Q] =
        {0, "cu-q", "F", ATTENTION, SEC_HIDE,
         "Packed sequences: Q is (T,H,d), and sequence s has the rows from cu[s] to cu[s+1]-1. File or list such as 0,3,8; with --cu-k."},
    [OPT_CU_K] = {0, "cu-k", "F", ATTENTION, SEC_HIDE, "The same for K and V."},

    [OPT_ALIGN] = {0, "align", "top-left|bottom-right", ATTENTION, SEC_POSITION,
                   "Row 0 stands at key 0 (top-left, the default where Lq = Lk), or the last row at the last key (bottom-right)."},
    [OPT_OFFSET] = {0, "offset", "N|F", ATTENTION, SEC_POSITION,
                    "Row i stands at position N + i. A file or a list gives one N per batch item."},
    [OPT_ROPE] = {0, "rope", "THETA[,half|interleaved]", ATTENTION, SEC_POSITION,
                  "Turn q and k by their positions first (RoPE; in mha behind the split): columns (p, p + d/2), or (2p, 2p+1) with "
                  "interleaved, by position * THETA^(-2p/d)."},
    [OPT_POSITIONS] = {0, "positions", "F", ATTENTION, SEC_POSITION,
                       "The position of each key for --rope, (Lk) or (B,Lk); a row has that of the key where it stands. File or list. "
                       "Default: 0, 1, 2, ..."},

    [OPT_SCALE] = {0, "scale", "X", ATTENTION, SEC_SCORES, "Scores are multiplied by X. Default: 1/sqrt(d), d the head size."},
    [OPT_SOFTCAP] = {0, "softcap", "C", ATTENTION, SEC_SCORES, "Then C * tanh(score / C), before mask and bias. 0 = off."},
    [OPT_ALIBI] = {0, "alibi", "[=F]", ATTENTION, SEC_SCORES,
                   "Add -slope * distance to the scores (ALiBi); F holds one slope per head. Default: 2^(-8(h+1)/H)."},
    [OPT_SINKS] = {0, "sinks", "F", ATTENTION, SEC_SCORES, "One logit per head that joins the softmax denominator only. File or list."},
    [OPT_DROPOUT] = {0, "dropout", "P", ATTENTION, SEC_SCORES, "Drop each weight with probability P; the others are divided by 1-P."},
    [OPT_SEED] = {0, "seed", "N", ATTENTION | VERB_GENERATE, SEC_SCORES, "The seed of dropout, or of drawn tokens. Default: 0."},
    [OPT_KEEP] = {0, "keep", "F", ATTENTION, SEC_SCORES,
                  "Bool: the weights that dropout keeps, instead of drawing them. Shapes as for --mask."},

    [OPT_DIALECT] = {0, "dialect", "torch|torch-mha|onnx-1.21|onnx-1.22|onnx-1.23|flash2|flash3|hf-eager|mlx|jax|ggml|ort",
                     WRITING | EXPLAINED, SEC_SCORES,
                     "Compute by the rule of that system where it is another (docs/dialects.md); with --verbose: in which way."},

    [OPT_LAYOUT] =
        {0, "layout", "bhld|blhd", ATTENTION, SEC_ARRAYS,
         "The order of the axes: (B,H,L,d) or (B,L,H,d), of inputs and outputs with heads; rank 3 is (H,L,d) or (L,H,d). Never of "
         "masks. Default: bhld."},
    [OPT_DTYPE] = {0, "dtype", "f32|f16|bf16|f64", WRITING, SEC_ARRAYS, "The dtype of the output. Default: that of Q (X)."},
    [OPT_IN_DTYPE] = {0, "in-dtype", "bf16", ATTENTION | VERB_SHOW | VERB_VIEW, SEC_ARRAYS, "Read uint16 arrays as bf16."},

    [OPT_OUTPUT] = {'o', "output", "OUT", WRITING | VERB_EMBED, SEC_RESULTS,
                    "Where the output goes; - is standard output. Default: a table on a terminal, .npy into a pipe."},
    [OPT_WEIGHTS] = {0, "weights", "F", WRITING, SEC_RESULTS, "Write the weights (B,H,Lq,Lk)."},
    [OPT_AVERAGE] = {0, "average", NULL, WRITING, SEC_RESULTS, "Average these weights over the heads: (B,Lq,Lk)."},
    [OPT_LSE] = {0, "lse", "F", WRITING, SEC_RESULTS, "Write the logarithm of each row's softmax denominator (B,H,Lq)."},
    [OPT_MASS] = {0, "mass", "F", WRITING, SEC_RESULTS, "Write the weight that each key received from all rows (B,H,Lk)."},
    [OPT_STAGE] =
        {0, "stage", "NAME=F", WRITING, SEC_RESULTS,
         "Write one stage: scores, scaled, capped, masked, weights, output, row_max, entropy; of mha also q, k, v, z. Repeatable."},

    [OPT_ARRAY] = {0, "array", "NAME", VERB_VIEW, SEC_EXPLAIN, "Only the arrays whose names begin with NAME."},
    [OPT_LAYER] = {0, "layer", "N", VERB_VIEW | VERB_EXPLAIN_MHA, SEC_EXPLAIN, "The layer of a model, counted from 0. Default: 0."},
    [OPT_HEAD] = {0, "head", "N", VERB_VIEW, SEC_EXPLAIN, "The head that is shown large, counted from 0. Default: 0."},
    [OPT_PART] = {0, "part", "encoder|decoder|cross", VERB_VIEW | VERB_EXPLAIN_MHA, SEC_EXPLAIN,
                  "Which attention of a model that has several. Default: the first."},
    [OPT_FROM] = {0, "from", "DIR|F.gguf", VERB_EXPLAIN_MHA, SEC_EXPLAIN,
                  "Explain a layer of this model while it reads --text, instead of X and WEIGHTS: its numbers, heads, mask and RoPE."},
    [OPT_CELL] = {0, "cell", "B,H,I[,J]", EXPLAINED, SEC_EXPLAIN,
                  "One row with every number of its sum: batch item B, head H, row I; with J one key of it."},
    [OPT_TOKENS] = {0, "tokens", "TEXT|F", EXPLAINED | PICTURED, SEC_EXPLAIN,
                    "Name the rows and keys by these words: a text, a file with the words, or a .json file with a list of strings."},
    [OPT_KEY_TOKENS] = {0, "key-tokens", "TEXT|F", EXPLAINED | VERB_VIEW, SEC_EXPLAIN,
                        "Name the keys by words of their own, as in cross-attention; --tokens then names the rows alone."},
    [OPT_LANG] = {0, "lang", "en|ko", EXPLAINED | PICTURED | VERB_DIAGNOSE, SEC_EXPLAIN, "Explain in English or in Korean. Default: en."},
    [OPT_HEAT] =
        {0, "heat", "auto|color|ascii|off", EXPLAINED | VERB_VIEW, SEC_EXPLAIN,
         "How the weights are drawn in the text: 256 colours, characters, or not at all. Default: auto, colours on a terminal that has "
         "them and UTF-8."},
    [OPT_HTML] = {0, "html", "F", EXPLAINED | PICTURED, SEC_EXPLAIN,
                  "Write all of it as one page for a browser, which needs no network, instead of text."},
    [OPT_NPZ] = {0, "npz", "F", EXPLAINED | VERB_VIEW, SEC_EXPLAIN,
                 "Write every stage as an array of this .npz file too, by TransformerLens's names where it has one; of a model's text its "
                 "attentions."},

    [OPT_GOT] = {0, "got", "OUT", VERB_DIAGNOSE, SEC_DIAGNOSE, "The output to be judged; its dtype says which error bound holds."},
    [OPT_GOT_WEIGHTS] = {0, "got-weights", "W", VERB_DIAGNOSE, SEC_DIAGNOSE,
                         "The weights (B,H,Lq,Lk) that came with it; dropout is told by them alone."},
    [OPT_RTOL] = {0, "rtol", "X", VERB_DIAGNOSE, SEC_DIAGNOSE,
                  "Equal is abs(got - right) <= atol + rtol * abs(right), instead of the bound of docs/numerics.md."},
    [OPT_ATOL] = {0, "atol", "X", VERB_DIAGNOSE, SEC_DIAGNOSE, "The same; one of the two not given is 0."},

    [OPT_TEXT] = {0, "text", "TEXT", VERB_EMBED | VERB_VIEW | VERB_EXPLAIN_MHA, SEC_TEXT,
                  "What the model reads; of embed repeatable, a vector for each."},
    [OPT_TEXT2] = {0, "text2", "TEXT", VERB_VIEW | VERB_EXPLAIN_MHA, SEC_TEXT, "The second text of a pair, for encoders that take one."},
    [OPT_TARGET] = {0, "target", "TEXT", VERB_VIEW | VERB_EXPLAIN_MHA, SEC_TEXT,
                    "What the decoder of a translating model has said. Default: its own greedy translation."},
    [OPT_FILE] = {0, "file", "F", VERB_EMBED, SEC_TEXT, "A text on each line of F; - is standard input."},
    [OPT_POOL] = {0, "pool", "declared|cls|mean|max|mean_sqrt_len_tokens|weightedmean|lasttoken", VERB_EMBED, SEC_TEXT,
                  "How the rows of a text become one vector. Default: declared, what the folder says, else the mean."},
    [OPT_NORMALIZE] = {0, "normalize", NULL, VERB_EMBED, SEC_TEXT, "Vectors of length 1, though the folder does not declare it."},
    [OPT_PROMPT] = {0, "prompt", "TEXT", VERB_GENERATE | VERB_EMBED, SEC_TEXT,
                    "generate: the text that the answer follows; - is standard input. embed: the name of a prompt that the model declares, "
                    "or a text, to be put before each text; --prompt= puts none. Default: the prompt that the model declares for it."},
    [OPT_COUNT_TOKENS] = {'n', "count", "N", VERB_GENERATE, SEC_TEXT,
                          "At most N tokens. Default: 128; of a model that translates, what its files say."},
    [OPT_CHAT] = {0, "chat", NULL, VERB_GENERATE, SEC_TEXT,
                  "The prompt is what a user says, in the model's own chat template: ChatML, Llama 3, 3.1 or 3.2."},
    [OPT_SYSTEM] = {0, "system", "TEXT", VERB_GENERATE, SEC_TEXT, "With --chat: the system text. Default: that of the template."},
    [OPT_TEMPERATURE] = {0, "temperature", "X", VERB_GENERATE, SEC_TEXT,
                         "Draw the tokens, with the logits divided by X. Default: 0, the likeliest token each time."},
    [OPT_TOP_K] = {0, "top-k", "N", VERB_GENERATE, SEC_TEXT, "Draw among the N likeliest tokens only."},
    [OPT_TOP_P] = {0, "top-p", "X", VERB_GENERATE, SEC_TEXT, "Draw among the likeliest tokens that together have probability X."},
    [OPT_MIN_P] = {0, "min-p", "X", VERB_GENERATE, SEC_TEXT, "Draw among the tokens of at least X times the probability of the likeliest."},
    [OPT_REPETITION_PENALTY] = {0, "repetition-penalty", "X", VERB_GENERATE, SEC_TEXT,
                                "Divide the logits of tokens that stand in the text by X, multiply those below 0. Default: 1."},
    [OPT_STOP] = {0, "stop", "TEXT", VERB_GENERATE, SEC_TEXT, "End the answer before this text. Repeatable."},
    [OPT_BEAMS] = {0, "beams", "N", VERB_GENERATE, SEC_TEXT,
                   "Of a model that translates: the sequences that are followed at once; 1 is greedy. Default: what its files say."},
    [OPT_LENGTH_PENALTY] = {0, "length-penalty", "X", VERB_GENERATE, SEC_TEXT,
                            "With beams: scores are divided by length^X; more than 0 favours long answers. Default: what its files say."},
    [OPT_SUITE] = {0, "suite", "quick|paper|prefill|causal|decode|mha|gemm|16bit|mask|long|threads|all", VERB_BENCH, SEC_RUN,
                   "What is measured. Default: quick."},
    [OPT_SECONDS] = {0, "seconds", "S", VERB_BENCH, SEC_RUN,
                     "How long each case is measured; three times at least, unless that takes ten times as long. Default: 1."},
    [OPT_COMPARE] = {0, "compare", "F", VERB_BENCH, SEC_RUN,
                     "What a former run printed with --json: the ratio of its time to the new one of each case, above 1 where this run is "
                     "faster; a ! marks those that differ by more than their spread."},
    [OPT_THREADS] = {0, "threads", "N", RUNNING, SEC_RUN,
                     "Threads. Default: ATTN_NUM_THREADS, else OMP_NUM_THREADS, else the CPUs this process may use (bench: 1)."},
    [OPT_ISA] = {0, "isa", "scalar|avx2|avx512|avx512_bf16|neon|neon_bf16", RUNNING, SEC_RUN,
                 "The instruction set level. Default: ATTN_ISA, else the best this CPU can run."},
    [OPT_RELAXED] = {0, "relaxed", NULL, ATTENTION, SEC_RUN,
                     "Faster decoding: a row's bits may depend on how a call is split along Lq, within the error bound."},

    [OPT_JSON] = {0, "json", NULL, VERB_ALL, SEC_MESSAGES, "Print JSON to standard output."},
    [OPT_MARKDOWN] = {0, "markdown", NULL, VERB_BENCH, SEC_MESSAGES, "Print a Markdown table."},
    [OPT_ROUND] = {0, "round", "N", SHOWING | VERB_EMBED, SEC_MESSAGES,
                   "Decimals of the numbers shown on a terminal or written as text. Default: 4 shown, all written."},
    [OPT_VERBOSE] = {0, "verbose", NULL, ATTENTION | VERB_GENERATE | VERB_EMBED, SEC_MESSAGES,
                     "Say which code path, instruction set and threads ran, and how long."},
    [OPT_QUIET] = {0, "quiet", NULL, ATTENTION | PICTURED | VERB_SHOW | VERB_GENERATE | VERB_EMBED,
                   SEC_MESSAGES, "No notes on standard error, only errors."},
    [OPT_HELP] = {'h', "help", NULL, VERB_ALL, SEC_MESSAGES, "Print this help."},
    [OPT_VERSION] = {0, "version", NULL, VERB_ALL, SEC_MESSAGES, "Print the version."},
};
