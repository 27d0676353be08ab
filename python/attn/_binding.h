/* SPDX-License-Identifier: Apache-2.0 */
/* What every extension module of the package does for each call: Python arrays become attn_tensor views without a copy, dictionaries
   become option structs, the GIL is released while the library computes, and a status becomes an exception.

       struct call c;
       call_begin(&c, context);
       attn_tensor *out = call_output(&c, o, "out"), *q = call_input(&c, p, "q");
       call_options(&c, &opts, sdpa_fields, dict);
       if (call_ready(&c))
           call_done(&c, attn_sdpa(c.ctx, out, q, q, q, &opts));
       return call_end(&c);

   A step that fails sets the Python error; the steps after it do nothing. Everything here needs the GIL but what runs between call_ready
   and call_done. Stable ABI of CPython 3.11. */
#ifndef ATTN_PYTHON_BINDING_H
#define ATTN_PYTHON_BINDING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "attn/attn.h"
#include <stdbool.h>

/* A Context object: an attn_ctx, and whether a call is running on it. */
typedef struct context {
    PyObject_HEAD
    attn_ctx *ctx;
    PyThreadState *thread;  /* of the call that runs, NULL when none does */
    double asked;           /* when that call last asked Python for signals, in seconds; 0 = not yet */
    PyObject *array_struct, *dtype; /* names of NumPy's attributes, interned */
    PyObject *empty;        /* numpy.empty */
} context;

/* A view of an array: its memory is held by a buffer, or by a capsule of NumPy or of DLPack. */
typedef struct argument {
    attn_tensor tensor;
    Py_buffer buffer;
    PyObject *owner; /* the capsule; NULL for a buffer */
} argument;

enum { MAX_ARGUMENTS = 48 };

typedef struct call {
    context *self;
    attn_ctx *ctx;
    bool failed;
    int count;
    argument arguments[MAX_ARGUMENTS];
} call;

/* Fails with RuntimeError when a call is running on the context: a signal handler came between. */
void call_begin(call *c, PyObject *self);
/* The view of an array by NumPy's array struct, the buffer protocol or DLPack, valid to call_end; NULL for None and on failure. An output
   is writable. */
attn_tensor *call_input(call *c, PyObject *array, const char *name);
attn_tensor *call_output(call *c, PyObject *array, const char *name);

/* A new NumPy array (.., Lq, d_v) of the dtype of `like`, which is q; NULL on failure. */
PyObject *call_output_like(call *c, PyObject *like, const attn_tensor *q, const attn_tensor *v);

typedef enum field_kind { FIELD_INPUT, FIELD_OUTPUT, FIELD_I64, FIELD_U64, FIELD_U32, FIELD_F64, FIELD_ENUM } field_kind;
/* A member of an option struct: the key in the dictionary, its C type, its place. */
typedef struct field {
    const char *name;
    field_kind kind;
    size_t offset;
} field;
/* Sets the members of a zeroed struct named in a dictionary, or none for None. fields ends with a NULL name; another key is a TypeError. */
void call_options(call *c, void *options, const field *fields, PyObject *dict);
/* The pointer of a capsule of that name; NULL on failure. */
void *call_handle(call *c, PyObject *capsule, const char *name);

/* Whether no step failed; if so the GIL is released until call_done. */
bool call_ready(call *c);
void call_done(call *c, attn_status status);
/* Lets go of the arrays. None, or NULL with the Python error. */
PyObject *call_end(call *c);
/* The same, but instead of None a capsule with p. destroy drops the capsule's context, which is the Context that p needs. */
PyObject *call_end_capsule(call *c, void *p, const char *name, PyCapsule_Destructor destroy);

/* attn_ctx_opts.progress: now and then lets Python handle its signals; nonzero when a handler raised (Ctrl-C). user is a context. */
int context_progress(void *user, double done);
/* Sets the exception that stands for a status. */
void raise_status(attn_status status, const char *sentence);

#endif
