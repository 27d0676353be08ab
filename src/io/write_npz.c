/* SPDX-License-Identifier: Apache-2.0 */
/* A zip of stored entries (PKWARE APPNOTE 6.3: sections 4.3.7, 4.3.12, 4.3.14 to 4.3.16, 4.5.3), written front to back so that a pipe
   can take it; libzip would need a seekable file and name its temporary itself. Sizes always stand in the zip64 fields: one
   path, whatever the size. The date is 1980-01-01, so that equal arrays give equal bytes. */
#include <string.h>

#include "npy.h"
#include "outputs.h"

enum { VERSION_ZIP64 = 45, FLAG_UTF8 = 0x800, DOS_DATE_1980 = 0x21, EXTRA_ZIP64 = 1, ABSENT_16 = 0xffff };
#define ABSENT_32 0xffffffffu

static void put(struct sink *s, uint64_t value, int bytes)
{
    unsigned char text[8];
    for (int i = 0; i < bytes; i++)
        text[i] = (unsigned char)(value >> (8 * i));
    attn_sink_bytes(s, text, (size_t)bytes);
}

/* The fields that a local header and a directory entry share. */
static void put_common(struct sink *s, const struct member *m, int extra_size)
{
    put(s, VERSION_ZIP64, 2);
    put(s, FLAG_UTF8, 2);
    put(s, 0, 2); /* stored */
    put(s, 0, 2); /* 00:00 */
    put(s, DOS_DATE_1980, 2);
    put(s, m->crc, 4);
    put(s, ABSENT_32, 4);
    put(s, ABSENT_32, 4);
    put(s, strlen(m->name) + 4, 2);
    put(s, (uint64_t)extra_size, 2);
}

static void put_name(struct sink *s, const struct member *m)
{
    attn_sink_bytes(s, m->name, strlen(m->name));
    attn_sink_bytes(s, ".npy", 4);
}

static void put_entry(struct sink *s, struct member *m)
{
    struct sink sum = {.fd = -1, .sum = true};
    attn_write_npy(&sum, &m->tensor);
    m->crc = sum.crc;
    m->bytes = sum.count;
    m->at = s->count;
    put(s, 0x04034b50, 4);
    put_common(s, m, 20);
    put_name(s, m);
    put(s, EXTRA_ZIP64, 2);
    put(s, 16, 2);
    put(s, m->bytes, 8);
    put(s, m->bytes, 8);
    attn_write_npy(s, &m->tensor);
}

static void put_directory_entry(struct sink *s, const struct member *m)
{
    put(s, 0x02014b50, 4);
    put(s, VERSION_ZIP64, 2);
    put_common(s, m, 28);
    put(s, 0, 2); /* comment */
    put(s, 0, 2); /* disk */
    put(s, 0, 2);
    put(s, 0, 4);
    put(s, ABSENT_32, 4);
    put_name(s, m);
    put(s, EXTRA_ZIP64, 2);
    put(s, 24, 2);
    put(s, m->bytes, 8);
    put(s, m->bytes, 8);
    put(s, m->at, 8);
}

static void put_zip64_end(struct sink *s, uint64_t entries, uint64_t directory_at)
{
    const uint64_t end_at = s->count;
    put(s, 0x06064b50, 4); /* zip64 end of central directory */
    put(s, 44, 8);
    put(s, VERSION_ZIP64, 2);
    put(s, VERSION_ZIP64, 2);
    put(s, 0, 4);
    put(s, 0, 4);
    put(s, entries, 8);
    put(s, entries, 8);
    put(s, end_at - directory_at, 8);
    put(s, directory_at, 8);
    put(s, 0x07064b50, 4); /* its locator */
    put(s, 0, 4);
    put(s, end_at, 8);
    put(s, 1, 4);
}

static void put_end(struct sink *s, bool empty)
{
    put(s, 0x06054b50, 4); /* end of central directory */
    put(s, 0, 2);
    put(s, 0, 2);
    put(s, empty ? 0 : ABSENT_16, 2);
    put(s, empty ? 0 : ABSENT_16, 2);
    put(s, empty ? 0 : ABSENT_32, 4);
    put(s, empty ? 0 : ABSENT_32, 4);
    put(s, 0, 2);
}

void attn_write_npz(struct sink *s, struct member *members, size_t count)
{
    for (size_t i = 0; i < count; i++)
        put_entry(s, &members[i]);
    const uint64_t directory_at = s->count;
    for (size_t i = 0; i < count; i++)
        put_directory_entry(s, &members[i]);
    if (count > 0) /* NumPy knows an empty .npz by its first bytes, those of the end record */
        put_zip64_end(s, count, directory_at);
    put_end(s, count == 0);
}
