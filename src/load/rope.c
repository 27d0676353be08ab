/* SPDX-License-Identifier: Apache-2.0 */
/* The rotary embedding that a config.json describes: rope_theta and rope_scaling, or rope_parameters (transformers 5). */
#include <math.h>
#include <string.h>

#include "decoder.h"

static const char *const known[] = {"default", "linear", "dynamic", "llama3", "yarn"};
enum { KNOWN = sizeof known / sizeof *known, MOST = 1 << 30 };

static attn_rope_scaling scaling_of(struct config *c, const char *field, const char *name)
{
    static const attn_rope_scaling kinds[] = {ATTN_ROPE_PLAIN, ATTN_ROPE_LINEAR, ATTN_ROPE_DYNAMIC, ATTN_ROPE_LLAMA3, ATTN_ROPE_YARN};
    for (int i = 0; i < KNOWN; i++)
        if (!strcmp(name, known[i]))
            return kinds[i];
    if (c->status == ATTN_OK)
        c->status = attn_load_fail(&c->report, ATTN_E_UNSUPPORTED,
                                   "%s is \"%.40s\"; default, linear, dynamic, llama3 and yarn are computed here", field, name);
    return ATTN_ROPE_PLAIN;
}

/* The fields of one scaling; positions is max_position_embeddings and becomes how many positions the scaling allows. */
static void read_scaling(struct config *c, attn_rope_desc *d, int64_t *positions)
{
    const char *kind = attn_config_text_or(c, "rope_type", NULL);
    const char *old = attn_config_text_or(c, "type", NULL);
    d->scaling = scaling_of(c, kind ? "rope_type" : "type", kind ? kind : old ? old : "default");
    if (kind && old && strcmp(kind, old) != 0 && c->status == ATTN_OK)
        c->status = attn_load_fail(&c->report, ATTN_E_FORMAT, "rope_type is \"%.40s\" but type is \"%.40s\"", kind, old);
    if (d->scaling != ATTN_ROPE_PLAIN)
        d->factor = attn_config_number(c, "factor", 1, 1e6);
    const int64_t original = attn_config_int_or(c, "original_max_position_embeddings", 1, MOST, 0);
    if (d->scaling == ATTN_ROPE_LLAMA3 && !original)
        attn_config_int(c, "original_max_position_embeddings", 1, MOST); /* says that it is missing */
    d->original_length = original ? original : *positions;
    if (d->scaling == ATTN_ROPE_LLAMA3) {
        d->low_freq = attn_config_number(c, "low_freq_factor", 1e-6, 1e6);
        d->high_freq = attn_config_number(c, "high_freq_factor", 1e-6, 1e6);
    }
    if (d->scaling == ATTN_ROPE_YARN) {
        d->beta_fast = attn_config_number_or(c, "beta_fast", 1e-6, 1e6, 32);
        d->beta_slow = attn_config_number_or(c, "beta_slow", 1e-6, 1e6, 1);
        d->attention_factor = attn_config_number_or(c, "attention_factor", 1e-6, 1e6, 0);
        attn_config_only_bool(c, "truncate", 1);
        if (original && (double)*positions < d->factor * (double)original)
            *positions = (int64_t)(d->factor * (double)original);
    }
    /* Beyond the length that it was trained on the frequencies change with every token, those of keys in the cache do not. */
    if (d->scaling == ATTN_ROPE_DYNAMIC) {
        d->length = *positions;
        d->original_length = *positions;
    }
}

void attn_config_rope(struct config *c, attn_rope_desc *d, int64_t *positions, double theta)
{
    static const char *const places[] = {"rope_parameters", "rope_scaling"};
    d->theta = attn_config_number_or(c, "rope_theta", 1.000001, 1e12, theta);
    for (int i = 0; i < 2 && c->status == ATTN_OK; i++) {
        struct config inner;
        if (!attn_config_has(c, places[i]))
            continue;
        if (attn_config_enter(&inner, c, places[i]) == ATTN_OK) {
            d->theta = attn_config_number_or(&inner, "rope_theta", 1.000001, 1e12, d->theta);
            read_scaling(&inner, d, positions);
            c->status = inner.status ? inner.status : attn_config_rest(&inner, NULL);
        }
        attn_config_close(&inner);
    }
}
