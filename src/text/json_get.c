/* SPDX-License-Identifier: Apache-2.0 */
#include "json_get.h"

#include <string.h>

void attn_get_wrong(struct get *g, const char *key, const char *rule)
{
    if (g->status == ATTN_OK)
        g->status = attn_text_fail(g->report, ATTN_E_FORMAT, "%s: \"%s\" must be %s", g->what, key, rule);
}

bool attn_get_nomem(struct get *g)
{
    g->status = attn_text_nomem(g->report);
    return false;
}

static bool listed(const char *keys, const char *key)
{
    const size_t n = strlen(key);
    for (const char *at = keys; n > 0 && (at = strstr(at, key)) != NULL; at += n) {
        if ((at == keys || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0'))
            return true;
    }
    return false;
}

void attn_get_only(struct get *g, json_t *object, const char *type, const char *keys)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        if (g->status == ATTN_OK && !listed(keys, key))
            g->status = attn_text_fail(g->report, ATTN_E_UNSUPPORTED, "%s %s has \"%.60s\", which is not known; known are: %s", g->what,
                                       type, key, keys);
    }
}

bool attn_get_bool(struct get *g, json_t *object, const char *key, bool otherwise)
{
    const json_t *v = json_object_get(object, key);
    if (v == NULL || json_is_null(v))
        return otherwise;
    if (!json_is_boolean(v))
        attn_get_wrong(g, key, "true or false");
    return json_is_true(v);
}

const char *attn_get_string(struct get *g, json_t *object, const char *key, size_t *size)
{
    const json_t *v = json_object_get(object, key);
    *size = 0;
    if (v == NULL || json_is_null(v))
        return "";
    if (!json_is_string(v)) {
        attn_get_wrong(g, key, "a string");
        return "";
    }
    *size = json_string_length(v);
    return json_string_value(v);
}

const char *attn_get_name(struct get *g, json_t *object, const char *key)
{
    size_t size = 0;
    if (!json_is_object(object))
        attn_get_wrong(g, key, "in an object");
    const char *name = attn_get_string(g, object, key, &size);
    if (size == 0)
        attn_get_wrong(g, key, "a name");
    return name;
}

int64_t attn_get_integer(struct get *g, json_t *object, const char *key, int64_t otherwise)
{
    const json_t *v = json_object_get(object, key);
    if (v == NULL || json_is_null(v))
        return otherwise;
    if (!json_is_integer(v) || json_integer_value(v) < 0)
        attn_get_wrong(g, key, "an integer that is not negative");
    return json_is_integer(v) ? json_integer_value(v) : otherwise;
}
