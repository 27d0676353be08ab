/* SPDX-License-Identifier: Apache-2.0 */
/* attn._load is in two files: _load.c has the models, _text.c the text. */
#ifndef ATTN_PYTHON_LOAD_H
#define ATTN_PYTHON_LOAD_H

#include "_binding.h"

enum { SENTENCE = 1024 }; /* room for the sentence of a failure */

/* tokenizer(path): a capsule */
PyObject *load_tokenizer(PyObject *module, PyObject *args);
/* encode(tokenizer, text, pair or None, flags, max_length): ids and type ids, each as bytes of int32 */
PyObject *load_encode(PyObject *module, PyObject *args);
/* decode(tokenizer, ids as bytes of int32, skip special) */
PyObject *load_decode(PyObject *module, PyObject *args);
/* token(tokenizer, id): its text, or None */
PyObject *load_token(PyObject *module, PyObject *args);
/* limits(tokenizer): (ids, the longest text in tokens or 0) */
PyObject *load_limits(PyObject *module, PyObject *capsule);
/* chat(tokenizer, [(role, content)], date or None): the text */
PyObject *load_chat(PyObject *module, PyObject *args);

#endif
