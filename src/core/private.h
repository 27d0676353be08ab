/* SPDX-License-Identifier: Apache-2.0 */
/* What libattn lends to the project's other libraries of the same version (libattn_model, libattn_load) and to nobody else: exported, but
   in no installed header, and different in any other version. docs/adr/0011-libraries.md. */
#ifndef ATTN_PRIVATE_H
#define ATTN_PRIVATE_H
#include <attn/attn.h>

#define ATTN_PRIVATE ATTN_API
#endif
