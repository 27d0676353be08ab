/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the command: one table that makes the parser, --help, the man pages and the completions. */
#ifndef ATTN_CLI_OPTIONS_H
#define ATTN_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `explain` is three verbs to the parser (its options differ) and one page to the reader; `diagnose` is two. */
enum {
    VERB_SDPA = 1u << 0,
    VERB_MHA = 1u << 1,
    VERB_EXPLAIN_SDPA = 1u << 2,
    VERB_EXPLAIN_MHA = 1u << 3,
    VERB_EXPLAIN_SPLIT = 1u << 4,
    VERB_SHOW = 1u << 5,
    VERB_SELFTEST = 1u << 6,
    VERB_INFO = 1u << 7,
    VERB_BENCH = 1u << 8,
    VERB_VIEW = 1u << 9,
    VERB_DIAGNOSE_SDPA = 1u << 10,
    VERB_DIAGNOSE_MHA = 1u << 11,
    VERB_GENERATE = 1u << 12,
    VERB_EMBED = 1u << 13,
    VERB_EXPLAIN = VERB_EXPLAIN_SDPA | VERB_EXPLAIN_MHA | VERB_EXPLAIN_SPLIT,
    VERB_DIAGNOSE = VERB_DIAGNOSE_SDPA | VERB_DIAGNOSE_MHA,
    VERB_ALL = (1u << 14) - 1
};

typedef struct verb_desc {
    const char *name;
    unsigned bits;
    const char *synopsis; /* lines, each without the leading "attn " */
    const char *summary;  /* one line without a full stop */
    const char *text;     /* paragraphs, separated by an empty line */
    const char *examples; /* lines: "# what", "command" */
    int min_operands, max_operands;
} verb_desc;

extern const verb_desc verb_table[];
extern const int verb_count;

typedef enum opt_section {
    SEC_HEADS,
    SEC_HIDE,
    SEC_POSITION,
    SEC_SCORES,
    SEC_ARRAYS,
    SEC_RESULTS,
    SEC_EXPLAIN,
    SEC_DIAGNOSE,
    SEC_TEXT,
    SEC_RUN,
    SEC_MESSAGES,
    SEC_COUNT
} opt_section;

extern const char *const opt_section_title[SEC_COUNT];

typedef enum opt_id {
    OPT_HEADS,
    OPT_KV_HEADS,
    OPT_MEMORY,
    OPT_MEMORY_V,
    OPT_TORCH,
    OPT_MASK,
    OPT_MASK_DROP,
    OPT_BIAS,
    OPT_CAUSAL,
    OPT_WINDOW,
    OPT_KV_LEN,
    OPT_Q_LEN,
    OPT_CU_Q,
    OPT_CU_K,
    OPT_ALIGN,
    OPT_OFFSET,
    OPT_ROPE,
    OPT_POSITIONS,
    OPT_SCALE,
    OPT_SOFTCAP,
    OPT_ALIBI,
    OPT_SINKS,
    OPT_DROPOUT,
    OPT_SEED,
    OPT_KEEP,
    OPT_DIALECT,
    OPT_LAYOUT,
    OPT_DTYPE,
    OPT_IN_DTYPE,
    OPT_OUTPUT,
    OPT_WEIGHTS,
    OPT_AVERAGE,
    OPT_LSE,
    OPT_MASS,
    OPT_STAGE,
    OPT_ARRAY,
    OPT_LAYER,
    OPT_HEAD,
    OPT_PART,
    OPT_FROM,
    OPT_CELL,
    OPT_TOKENS,
    OPT_KEY_TOKENS,
    OPT_LANG,
    OPT_HEAT,
    OPT_HTML,
    OPT_NPZ,
    OPT_GOT,
    OPT_GOT_WEIGHTS,
    OPT_RTOL,
    OPT_ATOL,
    OPT_TEXT,
    OPT_TEXT2,
    OPT_TARGET,
    OPT_FILE,
    OPT_POOL,
    OPT_NORMALIZE,
    OPT_PROMPT,
    OPT_COUNT_TOKENS,
    OPT_CHAT,
    OPT_SYSTEM,
    OPT_TEMPERATURE,
    OPT_TOP_K,
    OPT_TOP_P,
    OPT_MIN_P,
    OPT_REPETITION_PENALTY,
    OPT_STOP,
    OPT_BEAMS,
    OPT_LENGTH_PENALTY,
    OPT_SUITE,
    OPT_SECONDS,
    OPT_COMPARE,
    OPT_THREADS,
    OPT_ISA,
    OPT_RELAXED,
    OPT_JSON,
    OPT_MARKDOWN,
    OPT_ROUND,
    OPT_VERBOSE,
    OPT_QUIET,
    OPT_HELP,
    OPT_VERSION,
    OPT_COUNT
} opt_id;

typedef struct opt_desc {
    char letter;      /* of the short form, or 0 */
    const char *name; /* of the long form, without the dashes */
    const char *arg;  /* NULL: none; "F": a file; "a|b": one of these; "[=...]": may be left out */
    unsigned verbs;
    opt_section section;
    const char *help;
} opt_desc;

extern const opt_desc opt_table[OPT_COUNT]; /* in the order of opt_id */

enum { MAX_REPEATED = 16, MAX_TEXTS = 256, MAX_OPERANDS = 4 };

typedef struct options {
    const verb_desc *verb;
    unsigned bit;                  /* the VERB_* that was called */
    const char *value[OPT_COUNT];  /* NULL: not given; "" for a flag, or an argument left out */
    const char *stage[MAX_REPEATED]; /* every --stage NAME=F */
    int stages;
    const char *text[MAX_TEXTS]; /* every --text TEXT */
    int texts;
    const char *stop[MAX_REPEATED]; /* every --stop TEXT */
    int stops;
    const char *operand[MAX_OPERANDS];
    int operands;
    char **word; /* all of them, as they were typed */
    int words;
} options;

/* The verb of that name, or NULL. */
const verb_desc *verb_find(const char *name);

/* Reads argv after the verb. 0, or an exit code after its message. `--help` and `--version` are only recorded. */
int options_parse(options *o, const verb_desc *verb, int argc, char **argv);

static inline bool opt_given(const options *o, opt_id id) { return o->value[id] != NULL; }

/* The value of an option as a number; *out is left alone when the option is not given. 0, or an exit code after its message. */
int opt_whole(const options *o, opt_id id, uint64_t least, uint64_t most, uint64_t *out);
int opt_count(const options *o, opt_id id, int64_t *out); /* 1 or more */
int opt_double(const options *o, opt_id id, double *out);
/* The decimals of --round, at most 17; -1 when not given. 0, or an exit code after its message. */
int opt_round(const options *o, int *decimals);
/* The place of the value among the choices that the table names ("a|b"), -1 when not given, -2 after a message. */
int opt_choice(const options *o, opt_id id);

/* A whole decimal number at the start of text; *end is after it. false when there is none or it does not fit. */
bool parse_int(const char *text, int64_t *out, const char **end);

/* The one of `names` that is nearest to `word`, or NULL when none is near. */
const char *nearest(const char *word, const char *const *names, int count);
#endif
