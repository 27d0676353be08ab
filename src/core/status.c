/* SPDX-License-Identifier: Apache-2.0 */
#include <attn/attn.h>

#define TEXT_OF(x) #x
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *attn_version(void) { return VERSION_TEXT(ATTN_VERSION_MAJOR, ATTN_VERSION_MINOR, ATTN_VERSION_PATCH); }

const char *attn_status_str(attn_status s)
{
    switch (s) {
    case ATTN_OK:
        return "ok";
    case ATTN_E_ARG:
        return "invalid argument";
    case ATTN_E_SHAPE:
        return "shape mismatch";
    case ATTN_E_DTYPE:
        return "unsuitable dtype";
    case ATTN_E_UNSUPPORTED:
        return "unsupported";
    case ATTN_E_NOMEM:
        return "out of memory";
    case ATTN_E_IO:
        return "input/output error";
    case ATTN_E_FORMAT:
        return "malformed file";
    case ATTN_E_CANCELLED:
        return "cancelled";
    case ATTN_E_FULL:
        return "cache full";
    }
    return "unknown status";
}
