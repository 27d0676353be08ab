/* SPDX-License-Identifier: Apache-2.0 */
#include "step.h"

#include <stdlib.h>

bool attn_steps_put(struct steps *s, struct step step)
{
    if (!attn_text_grow(&s->at, &s->capacity, s->count + 1, sizeof *s->at))
        return false;
    s->at[s->count++] = step;
    return true;
}

void attn_steps_free(struct steps *s)
{
    for (size_t i = 0; i < s->count; i++) {
        attn_runes_free(&s->at[i].content);
        attn_pattern_free(s->at[i].pattern);
        attn_charsmap_free(s->at[i].map);
    }
    free(s->at);
    *s = (struct steps){.at = NULL};
}
