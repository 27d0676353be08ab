/* SPDX-License-Identifier: Apache-2.0 */
/* The text of the page that `attn explain --html` writes, made from the files of this folder when the project is built.
   A page is page_before_data, the data elements of docs/page.md, page_after_data. UTF-8, no 0 at the end. */
#ifndef ATTN_WEB_PAGE_H
#define ATTN_WEB_PAGE_H
#include <stddef.h>

extern const char page_before_data[];
extern const size_t page_before_data_size;
extern const char page_after_data[];
extern const size_t page_after_data_size;
#endif
