/* SPDX-License-Identifier: Apache-2.0 */
/* attn embed: a vector for each text, by an encoder and the modules that its folder declares. */
#include "commands.h"
#include "embed_show.h"
#include "finish.h"
#include "message.h"
#include "results.h"

#include <stdlib.h>
#include <string.h>

enum { SENTENCE = 1024, BATCH_TOKENS = 1024 };

typedef struct embedding {
    session s;
    const options *o;
    attn_tokenizer *tokenizer;
    attn_pretrained *model;
    attn_vector_opts how;
    const char *prompt; /* "" for none */
    texts texts;
    attn_encoding **tokens; /* [texts.count] */
    int64_t *order;         /* texts, the longest first */
    int64_t total, cut;     /* tokens of all texts; texts that were longer than the model takes */
    results out;
} embedding;

static int open_model(embedding *e)
{
    char err[SENTENCE];
    const char *path = e->o->operand[0];
    if (attn_pretrained_tokenizer(&e->tokenizer, path, err, sizeof err) != ATTN_OK)
        return trouble("%s", err);
    if (attn_pretrained_open(e->s.ctx, &e->model, path, NULL, err, sizeof err) != ATTN_OK)
        return trouble("%s", err);
    const attn_model_info info = attn_pretrained_info(e->model);
    if (info.kind != ATTN_MODEL_ENCODER)
        return trouble("%s: %s is no encoder; embeddings are those of BERT, RoBERTa, XLM-R, CamemBERT and DistilBERT", path, info.type);
    return EXIT_DONE;
}

/* The names of the declared prompts. */
static const char *prompt_names(const attn_pretrained *m, char *text, size_t size)
{
    size_t at = 0;
    const char *name;
    snprintf(text, size, "none");
    for (size_t i = 0; (name = attn_pretrained_prompt_name(m, i)) != NULL && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%s", i ? ", " : "", name);
    return text;
}

/* A declared name, or a text. A bare word that is no name is a mistake. */
static int choose_prompt(embedding *e)
{
    char names[SENTENCE];
    const char *given = e->o->value[OPT_PROMPT], *declared = attn_pretrained_prompt(e->model, given);
    e->prompt = declared ? declared : given ? given : "";
    if (given && *given && !declared && !given[strcspn(given, " \t:,.!?-")])
        return trouble("--prompt is %s, and the model declares no prompt of that name (it declares: %s); a text to put before each text "
                       "ends with a blank or a colon, as in --prompt 'query: '", given, prompt_names(e->model, names, sizeof names));
    return EXIT_DONE;
}

static int choose_pooling(embedding *e)
{
    const int pooling = opt_choice(e->o, OPT_POOL); /* in the order of attn_pooling */
    if (pooling == -2)
        return EXIT_TROUBLE;
    e->how = (attn_vector_opts){.struct_size = sizeof e->how, .pooling = pooling < 0 ? ATTN_POOL_DECLARED : (attn_pooling)pooling,
                                .flags = opt_given(e->o, OPT_NORMALIZE) ? ATTN_VECTOR_NORMALIZE : 0};
    if (!attn_pretrained_columns(e->model, &e->how))
        return trouble("--pool %s gives vectors of %lld, but a Dense that the folder declares behind the pooling takes another width; "
                       "leave --pool out", e->o->value[OPT_POOL], (long long)attn_pretrained_info(e->model).width);
    return EXIT_DONE;
}

/* ---- text -> tokens ---- */

/* To how many tokens a text is cut; 0 = any number. */
static size_t most_tokens(const embedding *e)
{
    const int64_t model = attn_pretrained_info(e->model).max_tokens, tokenizer = attn_tokenizer_max_length(e->tokenizer);
    return (size_t)(model && tokenizer ? (model < tokenizer ? model : tokenizer) : model ? model : tokenizer);
}

/* Text i behind the prompt. */
static int tokenize(embedding *e, int64_t i, size_t most)
{
    char err[SENTENCE], name[TEXT_NAME];
    const size_t before = strlen(e->prompt), size = before + e->texts.text[i].size;
    char *joined = before ? need_memory(size) : NULL;
    if (joined) {
        memcpy(joined, e->prompt, before);
        memcpy(joined + before, e->texts.text[i].text, e->texts.text[i].size);
    }
    const char *text = joined ? joined : e->texts.text[i].text;
    attn_status s = attn_tokenizer_encode(e->tokenizer, text, size, NULL, 0, ATTN_ENCODE_SPECIAL, 0, &e->tokens[i], err, sizeof err);
    if (s == ATTN_OK && most && e->tokens[i]->count > most) {
        attn_encoding_destroy(e->tokens[i]);
        s = attn_tokenizer_encode(e->tokenizer, text, size, NULL, 0, ATTN_ENCODE_SPECIAL, most, &e->tokens[i], err, sizeof err);
        e->cut++;
    }
    free(joined);
    if (s != ATTN_OK)
        return trouble("%s: %s", texts_name(&e->texts, i, name), err);
    e->total += (int64_t)e->tokens[i]->count;
    return EXIT_DONE;
}

/* The tokens of the prompt, where they are not to be pooled: without what the tokenizer puts at the end. */
static int count_prompt(embedding *e)
{
    char err[SENTENCE];
    attn_encoding *p;
    if (!*e->prompt || !attn_pretrained_info(e->model).skips_prompt)
        return EXIT_DONE;
    const size_t size = strlen(e->prompt), most = most_tokens(e);
    if (attn_tokenizer_encode(e->tokenizer, e->prompt, size, NULL, 0, ATTN_ENCODE_SPECIAL, most, &p, err, sizeof err) != ATTN_OK)
        return trouble("--prompt: %s", err);
    const size_t count = p->count;
    e->how.skip = (int64_t)(count && attn_tokenizer_is_special(e->tokenizer, p->ids[count - 1]) ? count - 1 : count);
    attn_encoding_destroy(p);
    return EXIT_DONE;
}

static int by_length(const void *a, const void *b)
{
    const embed_length *x = a, *y = b;
    if (x->tokens != y->tokens)
        return x->tokens < y->tokens ? 1 : -1;
    return x->text < y->text ? -1 : x->text > y->text;
}

static int tokenize_all(embedding *e)
{
    const size_t most = most_tokens(e);
    int status = count_prompt(e);
    e->tokens = need_zeroed((size_t)e->texts.count, sizeof(attn_encoding *));
    e->order = need_memory((size_t)e->texts.count * sizeof *e->order);
    embed_length *length = need_memory((size_t)e->texts.count * sizeof *length);
    for (int64_t i = 0; i < e->texts.count && !status; i++) {
        status = tokenize(e, i, most);
        length[i] = (embed_length){.text = i, .tokens = status ? 0 : (int64_t)e->tokens[i]->count};
    }
    if (!status)
        qsort(length, (size_t)e->texts.count, sizeof *length, by_length);
    for (int64_t i = 0; i < e->texts.count && !status; i++)
        e->order[i] = length[i].text;
    free(length);
    if (!status && e->cut)
        note(opt_given(e->o, OPT_QUIET), "%lld of %lld texts cut to %zu tokens, the most that this model takes", (long long)e->cut,
             (long long)e->texts.count, most);
    return status;
}

/* ---- tokens -> vectors ---- */

/* The texts order[first..last): one call. */
static attn_status run_batch(embedding *e, int64_t first, int64_t last, const attn_tensor *vectors)
{
    const int64_t items = last - first, longest = (int64_t)e->tokens[e->order[first]]->count, columns = vectors->shape[1];
    int32_t *ids = need_zeroed((size_t)(items * longest + items), sizeof *ids), *lengths = ids + items * longest;
    float *rows = need_memory((size_t)(items * columns) * sizeof *rows);
    for (int64_t b = 0; b < items; b++) {
        const attn_encoding *t = e->tokens[e->order[first + b]];
        lengths[b] = (int32_t)t->count;
        memcpy(ids + b * longest, t->ids, t->count * sizeof *ids);
    }
    const attn_tensor t_ids = attn_tensor_of(ids, ATTN_I32, 2, (const int64_t[]){items, longest});
    const attn_tensor t_lengths = attn_tensor_of(lengths, ATTN_I32, 1, &items);
    attn_tensor out = attn_tensor_of(rows, ATTN_F32, 2, (const int64_t[]){items, columns});
    const attn_encode_opts opts = {.struct_size = sizeof opts, .lengths = &t_lengths};
    const attn_status status = attn_pretrained_embed(e->s.ctx, e->model, &out, &t_ids, &opts, &e->how);
    for (int64_t b = 0; b < items; b++)
        memcpy((float *)vectors->data + e->order[first + b] * columns, rows + b * columns, (size_t)columns * sizeof *rows);
    free(rows);
    free(ids);
    return status;
}

/* Batches of near lengths, about BATCH_TOKENS each: what a batch needs stays in the caches. */
static int run(embedding *e, const attn_tensor *vectors)
{
    attn_status status = ATTN_OK;
    int64_t done = 0;
    session_begin(&e->s);
    for (int64_t first = 0, last; first < e->texts.count && status == ATTN_OK; first = last) {
        int64_t tokens = 0;
        for (last = first; last < e->texts.count && (last == first || tokens < BATCH_TOKENS); last++)
            tokens += (int64_t)e->tokens[e->order[last]]->count;
        status = run_batch(e, first, last, vectors);
        done += tokens;
        if (last < e->texts.count)
            session_progress(&e->s, (double)done / (double)e->total);
    }
    return session_end(&e->s, status);
}

static int embed(embedding *e)
{
    attn_tensor *vectors;
    int status = texts_read(&e->texts, e->o);
    status = status ? status : open_model(e);
    status = status ? status : choose_prompt(e);
    status = status ? status : choose_pooling(e);
    if (status)
        return status;
    const int64_t shape[] = {e->texts.count, attn_pretrained_columns(e->model, &e->how)};
    status = results_add(&e->out, "embeddings", e->o->value[OPT_OUTPUT], ATTN_F32, 2, shape, false, &vectors);
    status = status ? status : results_open(&e->out, true);
    status = status ? status : tokenize_all(e);
    status = status ? status : run(e, vectors);
    embed_shown shown = {.texts = &e->texts, .tokens = e->tokens, .vectors = vectors, .info = attn_pretrained_info(e->model)};
    e->out.more_json = embed_json;
    e->out.more_json_user = &shown;
    status = status ? status : results_write(&e->out, &e->s);
    if (!status && !opt_given(e->o, OPT_JSON) && !e->out.item[0].path)
        status = embed_similarity(&shown, e->o);
    return status;
}

int cmd_embed(const options *o)
{
    embedding e = {.o = o, .out = {.o = o}};
    int status = session_open(&e.s, o);
    if (status)
        return status;
    e.s.own_bar = true;
    status = embed(&e);
    results_close(&e.out);
    for (int64_t i = 0; e.tokens && i < e.texts.count; i++)
        attn_encoding_destroy(e.tokens[i]);
    free(e.tokens);
    free(e.order);
    texts_close(&e.texts);
    attn_pretrained_destroy(e.model);
    attn_tokenizer_destroy(e.tokenizer);
    session_close(&e.s);
    return status;
}
