/* SPDX-License-Identifier: Apache-2.0 */
/* .safetensors.index.json: {"metadata": {...}, "weight_map": {tensor: shard}}; the shards lie beside it. All are mapped at once, so that
   a missing one is known before any work. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "file.h"
#include "json_walk.h"

enum { MAX_SHARDS = 10000, NAME_SIZE = 256 };

/* A name in the index's own folder. */
static bool is_plain_name(const char *name)
{
    const size_t n = strlen(name);
    return n > 12 && n < NAME_SIZE && strchr(name, '/') == NULL && strchr(name, '\\') == NULL && strcmp(name + n - 12, ".safetensors") == 0;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static attn_status open_shard(struct attn_file *f, const char *name, const struct report *r)
{
    if (f->shard_count == MAX_SHARDS)
        return attn_io_fail(r, ATTN_E_FORMAT, "more than %d shards", MAX_SHARDS);
    struct attn_file **shards = realloc(f->shards, (f->shard_count + 1) * sizeof shards[0]);
    if (shards == NULL)
        return attn_io_fail_nomem(r);
    f->shards = shards;
    const size_t folder = (size_t)(last_part(f->path) - f->path);
    char *path = malloc(folder + strlen(name) + 1);
    if (path == NULL)
        return attn_io_fail_nomem(r);
    memcpy(path, f->path, folder);
    strcpy(path + folder, name);
    const struct report shard = {.text = r->text, .size = r->size, .file = path};
    struct stat st;
    attn_status s = ATTN_OK;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        s = attn_io_fail(&shard, ATTN_E_IO, "a shard is a regular file");
    if (s == ATTN_OK)
        s = attn_file_open(&f->shards[f->shard_count], path, r->text, r->size);
    free(path);
    f->shard_count += s == ATTN_OK;
    return s;
}

/* Neighbours in the map mostly share a shard, so the search begins at the last one found. */
static attn_status find_shard(struct attn_file *f, const char *name, uint32_t *shard, const struct report *r)
{
    for (size_t i = 0; i < f->shard_count; i++) {
        const size_t candidate = (*shard + i) % f->shard_count;
        if (strcmp(last_part(f->shards[candidate]->path), name) == 0) {
            *shard = (uint32_t)candidate;
            return ATTN_OK;
        }
    }
    *shard = (uint32_t)f->shard_count;
    return open_shard(f, name, r);
}

static attn_status take_entry(struct attn_file *f, struct array *a, const char *shard_name, uint32_t *shard, const struct report *r)
{
    if (!is_plain_name(shard_name))
        return attn_io_fail(r, ATTN_E_FORMAT, "tensor '%.200s' is said to be in '%.200s'; a shard is a NAME.safetensors in the same folder",
                            a->name, shard_name);
    const attn_status s = find_shard(f, shard_name, shard, r);
    if (s != ATTN_OK)
        return s;
    const int64_t inner = attn_file_find(f->shards[*shard], a->name);
    if (inner < 0)
        return attn_io_fail(r, ATTN_E_FORMAT, "tensor '%.200s' is not in its shard '%s'", a->name, shard_name);
    const char *name = a->name;
    *a = f->shards[*shard]->arrays[inner];
    a->name = name;
    a->owned = NULL;
    a->shard = *shard;
    a->inner = (uint32_t)inner;
    return ATTN_OK;
}

static attn_status take_map(struct attn_file *f, struct json_text t, size_t members, char *shard_name)
{
    char *name = f->names;
    uint32_t shard = 0;
    attn_status s = attn_json_enter(&t);
    for (size_t i = 0; i < members && s == ATTN_OK; i++) {
        struct json_piece key, value;
        s = attn_json_next(&t, i == 0, &key, &value);
        if (s == ATTN_OK)
            s = attn_json_piece_string(&t, key, "a tensor's name", name);
        if (s == ATTN_OK && value.size > 4 * NAME_SIZE)
            s = attn_io_fail(t.report, ATTN_E_FORMAT, "tensor '%.200s': the name of its shard is too long", name);
        if (s == ATTN_OK)
            s = attn_json_piece_string(&t, value, "a shard's name", shard_name);
        f->arrays[i].name = name;
        if (s == ATTN_OK)
            s = take_entry(f, &f->arrays[i], shard_name, &shard, t.report);
        name += s == ATTN_OK ? strlen(name) + 1 : 0;
    }
    return s;
}

/* Finds weight_map; the other members are only checked to be JSON. */
static attn_status find_map(struct json_text t, struct json_text *map)
{
    char key_text[64];
    *map = (struct json_text){.start = NULL};
    attn_status s = attn_json_enter(&t);
    for (int first = 1; s == ATTN_OK; first = 0) {
        struct json_piece key, value;
        json_t *ignored = NULL;
        s = attn_json_next(&t, first, &key, &value);
        if (s != ATTN_OK || key.text == NULL)
            break;
        if (key.size > sizeof key_text)
            return attn_io_fail(t.report, ATTN_E_FORMAT, "the index has a key of %zu bytes; metadata and weight_map are expected",
                                key.size);
        s = attn_json_piece_string(&t, key, "a key", key_text);
        if (s == ATTN_OK && strcmp(key_text, "weight_map") == 0) {
            if (map->start != NULL)
                return attn_io_fail(t.report, ATTN_E_FORMAT, "the index has weight_map twice");
            *map = t;
            map->at = value.text;
            map->end = value.text + value.size;
        } else if (s == ATTN_OK) {
            s = attn_json_piece_value(&t, value, "a member beside weight_map", &ignored);
            json_decref(ignored);
        }
    }
    if (s == ATTN_OK)
        s = attn_json_leave(&t);
    if (s == ATTN_OK && map->start == NULL)
        s = attn_io_fail(t.report, ATTN_E_FORMAT, "the index has no weight_map");
    return s;
}

attn_status attn_shards_parse(struct attn_file *f, const struct report *r)
{
    char shard_name[4 * NAME_SIZE];
    struct json_text map;
    size_t members, name_bytes;
    const char *text = (const char *)f->bytes.data;
    if (f->bytes.size == 0)
        return attn_io_fail(r, ATTN_E_FORMAT, "the file is empty, no index");
    const struct json_text t = {.start = text, .at = text, .end = text + f->bytes.size, .report = r};
    attn_status s = find_map(t, &map);
    if (s == ATTN_OK)
        s = attn_json_count(map, &members, &name_bytes);
    if (s == ATTN_OK)
        s = attn_io_allocate(f, members, name_bytes, r);
    return s == ATTN_OK ? take_map(f, map, members, shard_name) : s;
}
