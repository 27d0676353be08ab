/* SPDX-License-Identifier: Apache-2.0 */
/* attn._attn: the C API of attn.h and attn_model.h on Python arrays. Arguments are positional and in the order of the C functions, option
   structs are dictionaries keyed by their members; the Python files beside have the functions for people.

       Context(threads=0, isa=None)   an attn_ctx; one for each thread
       describe(x)                    (shape, dtype name) of an array
       isa_levels()                   [(name, usable)] */
#include "_binding.h"

#include "attn/attn_model.h"
#include <string.h>

#define FIELD(type, member, kind) {#member, kind, offsetof(type, member)}

static const field sdpa_fields[] = {
    FIELD(attn_sdpa_opts, flags, FIELD_U32), FIELD(attn_sdpa_opts, scale, FIELD_F64), FIELD(attn_sdpa_opts, softcap, FIELD_F64),
    FIELD(attn_sdpa_opts, mask, FIELD_INPUT), FIELD(attn_sdpa_opts, bias, FIELD_INPUT), FIELD(attn_sdpa_opts, align, FIELD_ENUM),
    FIELD(attn_sdpa_opts, offset, FIELD_I64), FIELD(attn_sdpa_opts, offsets, FIELD_INPUT),
    FIELD(attn_sdpa_opts, window_left, FIELD_I64), FIELD(attn_sdpa_opts, window_right, FIELD_I64),
    FIELD(attn_sdpa_opts, kv_len, FIELD_INPUT), FIELD(attn_sdpa_opts, q_len, FIELD_INPUT),
    FIELD(attn_sdpa_opts, cu_seqlens_q, FIELD_INPUT), FIELD(attn_sdpa_opts, cu_seqlens_k, FIELD_INPUT),
    FIELD(attn_sdpa_opts, alibi_slopes, FIELD_INPUT), FIELD(attn_sdpa_opts, sinks, FIELD_INPUT),
    FIELD(attn_sdpa_opts, dropout, FIELD_F64), FIELD(attn_sdpa_opts, seed, FIELD_U64), FIELD(attn_sdpa_opts, first_batch, FIELD_I64),
    FIELD(attn_sdpa_opts, first_head, FIELD_I64), FIELD(attn_sdpa_opts, first_row, FIELD_I64), FIELD(attn_sdpa_opts, keep, FIELD_INPUT),
    FIELD(attn_sdpa_opts, lse, FIELD_OUTPUT), FIELD(attn_sdpa_opts, row_max, FIELD_OUTPUT), FIELD(attn_sdpa_opts, entropy, FIELD_OUTPUT),
    FIELD(attn_sdpa_opts, mass, FIELD_OUTPUT), FIELD(attn_sdpa_opts, weights, FIELD_OUTPUT), FIELD(attn_sdpa_opts, scores, FIELD_OUTPUT),
    FIELD(attn_sdpa_opts, scaled, FIELD_OUTPUT), FIELD(attn_sdpa_opts, capped, FIELD_OUTPUT), FIELD(attn_sdpa_opts, masked, FIELD_OUTPUT),
    {0}};

static const field row_fields[] = {
    FIELD(attn_row, scores, FIELD_OUTPUT), FIELD(attn_row, scaled, FIELD_OUTPUT), FIELD(attn_row, capped, FIELD_OUTPUT),
    FIELD(attn_row, masked, FIELD_OUTPUT), FIELD(attn_row, weights, FIELD_OUTPUT), FIELD(attn_row, output, FIELD_OUTPUT),
    {0}};

static const field mha_desc_fields[] = {
    FIELD(attn_mha_desc, flags, FIELD_U32), FIELD(attn_mha_desc, heads, FIELD_I64), FIELD(attn_mha_desc, kv_heads, FIELD_I64),
    FIELD(attn_mha_desc, w_q, FIELD_INPUT), FIELD(attn_mha_desc, w_k, FIELD_INPUT), FIELD(attn_mha_desc, w_v, FIELD_INPUT),
    FIELD(attn_mha_desc, w_qkv, FIELD_INPUT), FIELD(attn_mha_desc, b_q, FIELD_INPUT), FIELD(attn_mha_desc, b_k, FIELD_INPUT),
    FIELD(attn_mha_desc, b_v, FIELD_INPUT), FIELD(attn_mha_desc, b_qkv, FIELD_INPUT), FIELD(attn_mha_desc, w_o, FIELD_INPUT),
    FIELD(attn_mha_desc, b_o, FIELD_INPUT),
    {0}};

static const field mha_fields[] = {
    FIELD(attn_mha_opts, q, FIELD_OUTPUT), FIELD(attn_mha_opts, k, FIELD_OUTPUT), FIELD(attn_mha_opts, v, FIELD_OUTPUT),
    FIELD(attn_mha_opts, z, FIELD_OUTPUT),
    {0}};

static const field kv_fields[] = {
    FIELD(attn_kv_desc, dtype, FIELD_ENUM), FIELD(attn_kv_desc, batch, FIELD_I64), FIELD(attn_kv_desc, kv_heads, FIELD_I64),
    FIELD(attn_kv_desc, capacity, FIELD_I64), FIELD(attn_kv_desc, head_dim, FIELD_I64), FIELD(attn_kv_desc, value_dim, FIELD_I64),
    {0}};

static const field rope_desc_fields[] = {
    FIELD(attn_rope_desc, flags, FIELD_U32), FIELD(attn_rope_desc, head_dim, FIELD_I64), FIELD(attn_rope_desc, rotary_dim, FIELD_I64),
    FIELD(attn_rope_desc, theta, FIELD_F64), FIELD(attn_rope_desc, scaling, FIELD_ENUM), FIELD(attn_rope_desc, factor, FIELD_F64),
    FIELD(attn_rope_desc, original_length, FIELD_I64), FIELD(attn_rope_desc, length, FIELD_I64),
    FIELD(attn_rope_desc, low_freq, FIELD_F64), FIELD(attn_rope_desc, high_freq, FIELD_F64), FIELD(attn_rope_desc, beta_fast, FIELD_F64),
    FIELD(attn_rope_desc, beta_slow, FIELD_F64), FIELD(attn_rope_desc, attention_factor, FIELD_F64),
    FIELD(attn_rope_desc, cos, FIELD_INPUT), FIELD(attn_rope_desc, sin, FIELD_INPUT),
    FIELD(attn_rope_desc, divisors, FIELD_INPUT),
    {0}};

static const field rope_fields[] = {
    FIELD(attn_rope_opts, offset, FIELD_I64), FIELD(attn_rope_opts, positions, FIELD_INPUT),
    {0}};

static const field norm_fields[] = {
    FIELD(attn_norm_opts, flags, FIELD_U32), FIELD(attn_norm_opts, eps, FIELD_F64), FIELD(attn_norm_opts, weight, FIELD_INPUT),
    FIELD(attn_norm_opts, bias, FIELD_INPUT),
    {0}};

/* ------------------------------------------------------------ capsules ---- */

/* Names of the capsules, and how each destroys what it holds. A capsule's context is the Context that it needs. */
#define WEIGHTS "attn_mha_weights"
#define KV "attn_kv"
#define ROPE "attn_rope"

static void destroy_capsule(PyObject *capsule)
{
    const char *name = PyCapsule_GetName(capsule);
    void *p = PyCapsule_GetPointer(capsule, name);
    if (!strcmp(name, WEIGHTS))
        attn_mha_weights_destroy(p);
    else if (!strcmp(name, KV))
        attn_kv_destroy(p);
    else
        attn_rope_destroy(p);
    Py_XDECREF(PyCapsule_GetContext(capsule));
}

/* ------------------------------------------------------------- methods ---- */

static bool count_is(Py_ssize_t got, Py_ssize_t wanted)
{
    if (got != wanted)
        PyErr_Format(PyExc_TypeError, "%zd arguments instead of %zd", got, wanted);
    return got == wanted;
}

/* sdpa(out, q, k, v, options[, times]): out, where it is None a new array of the dtype of q. times: how often it is computed, for who
   measures the library's own function */
static PyObject *context_sdpa(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    const long times = n == 6 ? PyLong_AsLong(args[5]) : 1;
    if (PyErr_Occurred() || (n != 6 && !count_is(n, 5)))
        return NULL;
    call c;
    attn_sdpa_opts opts = {0};
    call_begin(&c, self);
    attn_tensor *q = call_input(&c, args[1], "q"), *k = call_input(&c, args[2], "k"), *v = call_input(&c, args[3], "v");
    PyObject *result = Py_IsNone(args[0]) ? call_output_like(&c, args[1], q, v) : Py_NewRef(args[0]);
    attn_tensor *out = call_output(&c, result, "out"); /* after q, whose dtype it has: a wrong one is named as q's */
    call_options(&c, &opts, sdpa_fields, args[4]);
    if (call_ready(&c)) {
        attn_status status = ATTN_OK;
        for (long i = 0; i < times && !status; i++)
            status = attn_sdpa(c.ctx, out, q, k, v, &opts);
        call_done(&c, status);
    }
    PyObject *none = call_end(&c);
    if (!none)
        Py_CLEAR(result);
    Py_XDECREF(none);
    return result;
}

/* explain_cell(outputs, hidden, q, k, v, options, b, h, i): the numbers of attn_row. hidden: uint8 [Lk] */
static PyObject *context_explain_cell(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    if (!count_is(n, 9))
        return NULL;
    call c;
    attn_sdpa_opts opts = {0};
    attn_row row = {0};
    call_begin(&c, self);
    call_options(&c, &row, row_fields, args[0]);
    const attn_tensor *hidden = call_output(&c, args[1], "hidden");
    attn_tensor *q = call_input(&c, args[2], "q"), *k = call_input(&c, args[3], "k"), *v = call_input(&c, args[4], "v");
    call_options(&c, &opts, sdpa_fields, args[5]);
    const int64_t b = PyLong_AsLongLong(args[6]), h = PyLong_AsLongLong(args[7]), i = PyLong_AsLongLong(args[8]);
    c.failed = c.failed || PyErr_Occurred();
    row.hidden = hidden ? hidden->data : NULL;
    if (call_ready(&c))
        call_done(&c, attn_explain_cell(c.ctx, &row, q, k, v, &opts, b, h, i));
    PyObject *none = call_end(&c);
    Py_XDECREF(none);
    return !none ? NULL
                 : Py_BuildValue("{s:d,s:d,s:d,s:d,s:L,s:L,s:L}", "lse", row.lse, "row_max", row.row_max, "entropy", row.entropy, "scale",
                                 row.scale, "position", (long long)row.position, "kv_head", (long long)row.kv_head, "visible",
                                 (long long)row.visible);
}

/* mha_prepare(desc): a capsule */
static PyObject *context_mha_prepare(PyObject *self, PyObject *desc)
{
    call c;
    attn_mha_desc d = {0};
    attn_mha_weights *weights = NULL;
    call_begin(&c, self);
    call_options(&c, &d, mha_desc_fields, desc);
    if (call_ready(&c))
        call_done(&c, attn_mha_prepare(c.ctx, &weights, &d));
    return call_end_capsule(&c, weights, WEIGHTS, destroy_capsule);
}

/* mha(out, weights, x, memory, memory_v, options, sdpa options) */
static PyObject *context_mha(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    if (!count_is(n, 7))
        return NULL;
    call c;
    attn_sdpa_opts sdpa = {0};
    attn_mha_opts opts = {.sdpa = &sdpa};
    call_begin(&c, self);
    attn_tensor *out = call_output(&c, args[0], "out");
    const attn_mha_weights *weights = call_handle(&c, args[1], WEIGHTS);
    attn_tensor *x = call_input(&c, args[2], "x"), *m = call_input(&c, args[3], "memory"), *mv = call_input(&c, args[4], "memory_v");
    call_options(&c, &opts, mha_fields, args[5]);
    call_options(&c, &sdpa, sdpa_fields, args[6]);
    if (call_ready(&c))
        call_done(&c, attn_mha(c.ctx, out, weights, x, m, mv, &opts));
    return call_end(&c);
}

/* kv_create(desc): a capsule */
static PyObject *context_kv_create(PyObject *self, PyObject *desc)
{
    call c;
    attn_kv_desc d = {0};
    attn_kv *kv = NULL;
    call_begin(&c, self);
    call_options(&c, &d, kv_fields, desc);
    if (call_ready(&c))
        call_done(&c, attn_kv_create(c.ctx, &kv, &d));
    return call_end_capsule(&c, kv, KV, destroy_capsule);
}

/* kv_append(kv, k, v) */
static PyObject *context_kv_append(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    if (!count_is(n, 3))
        return NULL;
    call c;
    call_begin(&c, self);
    attn_kv *kv = call_handle(&c, args[0], KV);
    attn_tensor *k = call_input(&c, args[1], "k"), *v = call_input(&c, args[2], "v");
    if (call_ready(&c))
        call_done(&c, attn_kv_append(c.ctx, kv, k, v));
    return call_end(&c);
}

/* kv_attend(kv, out, q, options) */
static PyObject *context_kv_attend(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    if (!count_is(n, 4))
        return NULL;
    call c;
    attn_sdpa_opts opts = {0};
    call_begin(&c, self);
    const attn_kv *kv = call_handle(&c, args[0], KV);
    attn_tensor *out = call_output(&c, args[1], "out"), *q = call_input(&c, args[2], "q");
    call_options(&c, &opts, sdpa_fields, args[3]);
    if (call_ready(&c))
        call_done(&c, attn_kv_attend(c.ctx, kv, out, q, &opts));
    return call_end(&c);
}

/* kv_truncate(kv, length) */
static PyObject *context_kv_truncate(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    if (!count_is(n, 2))
        return NULL;
    call c;
    call_begin(&c, self);
    attn_kv *kv = call_handle(&c, args[0], KV);
    const int64_t length = PyLong_AsLongLong(args[1]);
    c.failed = c.failed || PyErr_Occurred();
    if (call_ready(&c))
        call_done(&c, attn_kv_truncate(c.ctx, kv, length));
    return call_end(&c);
}

/* rope_create(desc): a capsule */
static PyObject *context_rope_create(PyObject *self, PyObject *desc)
{
    call c;
    attn_rope_desc d = {0};
    attn_rope *rope = NULL;
    call_begin(&c, self);
    call_options(&c, &d, rope_desc_fields, desc);
    if (call_ready(&c))
        call_done(&c, attn_rope_create(c.ctx, &rope, &d));
    return call_end_capsule(&c, rope, ROPE, destroy_capsule);
}

/* rope_apply(out, x, rope, options) */
static PyObject *context_rope_apply(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    if (!count_is(n, 4))
        return NULL;
    call c;
    attn_rope_opts opts = {0};
    call_begin(&c, self);
    attn_tensor *out = call_output(&c, args[0], "out"), *x = call_input(&c, args[1], "x");
    const attn_rope *rope = call_handle(&c, args[2], ROPE);
    call_options(&c, &opts, rope_fields, args[3]);
    if (call_ready(&c))
        call_done(&c, attn_rope_apply(c.ctx, out, x, rope, &opts));
    return call_end(&c);
}

/* rms_norm(out, x, options) */
static PyObject *context_rms_norm(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    if (!count_is(n, 3))
        return NULL;
    call c;
    attn_norm_opts opts = {0};
    call_begin(&c, self);
    attn_tensor *out = call_output(&c, args[0], "out"), *x = call_input(&c, args[1], "x");
    call_options(&c, &opts, norm_fields, args[2]);
    if (call_ready(&c))
        call_done(&c, attn_rms_norm(c.ctx, out, x, &opts));
    return call_end(&c);
}

/* info(): of the last call */
static PyObject *context_info(PyObject *self, PyObject *unused)
{
    (void)unused;
    const attn_info info = attn_ctx_info(((context *)self)->ctx);
    return Py_BuildValue("{s:s,s:s,s:I}", "isa", info.isa, "path", info.path, "threads", info.threads);
}

/* -------------------------------------------------------- the Context type ---- */

static PyObject *context_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    char threads_name[] = "threads", isa_name[] = "isa", *names[] = {threads_name, isa_name, NULL};
    unsigned int threads = 0;
    const char *isa = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|Iz:Context", names, &threads, &isa))
        return NULL;
    context *self = PyObject_New(context, type);
    if (!self)
        return NULL;
    self->ctx = NULL;
    self->thread = NULL;
    self->array_struct = PyUnicode_InternFromString("__array_struct__");
    self->dtype = PyUnicode_InternFromString("dtype");
    PyObject *numpy = PyImport_ImportModule("numpy");
    self->empty = numpy ? PyObject_GetAttrString(numpy, "empty") : NULL;
    Py_XDECREF(numpy);
    if (!self->empty || !self->dtype || !self->array_struct) {
        Py_DECREF(self);
        return NULL;
    }
    char sentence[512] = "";
    const attn_ctx_opts opts = {.threads = threads, .isa = isa, .progress = context_progress, .progress_user = self};
    const attn_status status = attn_ctx_create(&self->ctx, &opts, sentence, sizeof sentence);
    if (status) {
        raise_status(status, sentence);
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static void context_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    const context *c = (context *)self;
    attn_ctx_destroy(c->ctx);
    Py_XDECREF(c->array_struct);
    Py_XDECREF(c->dtype);
    Py_XDECREF(c->empty);
    PyObject_Free(self);
    Py_DECREF(type);
}

#define FAST(function) (PyCFunction)(void (*)(void))function, METH_FASTCALL
static PyMethodDef context_methods[] = {
    {"sdpa", FAST(context_sdpa), "sdpa(out, q, k, v, options[, times])"},
    {"explain_cell", FAST(context_explain_cell), "explain_cell(outputs, hidden, q, k, v, options, b, h, i)"},
    {"mha_prepare", context_mha_prepare, METH_O, "mha_prepare(desc)"},
    {"mha", FAST(context_mha), "mha(out, weights, x, memory, memory_v, options, sdpa_options)"},
    {"kv_create", context_kv_create, METH_O, "kv_create(desc)"},
    {"kv_append", FAST(context_kv_append), "kv_append(kv, k, v)"},
    {"kv_attend", FAST(context_kv_attend), "kv_attend(kv, out, q, options)"},
    {"kv_truncate", FAST(context_kv_truncate), "kv_truncate(kv, length)"},
    {"rope_create", context_rope_create, METH_O, "rope_create(desc)"},
    {"rope_apply", FAST(context_rope_apply), "rope_apply(out, x, rope, options)"},
    {"rms_norm", FAST(context_rms_norm), "rms_norm(out, x, options)"},
    {"info", context_info, METH_NOARGS, "info(): isa, path and threads of the last call"},
    {0}};

static PyType_Slot context_slots[] = {
    {Py_tp_new, (void *)context_new},
    {Py_tp_dealloc, (void *)context_dealloc},
    {Py_tp_methods, context_methods},
    {Py_tp_doc, (char *)"Context(threads=0, isa=None): an attn_ctx, for one thread at a time"},
    {0}};
static PyType_Spec context_spec = {"attn._attn.Context", sizeof(context), 0, Py_TPFLAGS_DEFAULT, context_slots};

/* --------------------------------------------------------- the module ---- */

/* describe(x): ((shape), "f32") */
static PyObject *describe(PyObject *module, PyObject *x)
{
    (void)module;
    call c;
    c.self = NULL;
    c.failed = false;
    c.count = 0;
    const attn_tensor *t = call_input(&c, x, "the array");
    PyObject *found = NULL, *shape = t ? PyTuple_New(t->ndim) : NULL;
    for (int i = 0; shape && i < t->ndim; i++)
        PyTuple_SetItem(shape, i, PyLong_FromLongLong(t->shape[i]));
    if (shape)
        found = Py_BuildValue("Ns", shape, attn_dtype_name(t->dtype));
    Py_XDECREF(call_end(&c));
    return found;
}

static PyObject *isa_levels(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyObject *levels = PyList_New(0);
    for (int i = 0; levels && attn_isa_name(i); i++) {
        PyObject *level = Py_BuildValue("sO", attn_isa_name(i), attn_isa_usable(attn_isa_name(i)) ? Py_True : Py_False);
        if (!level || PyList_Append(levels, level))
            Py_CLEAR(levels);
        Py_XDECREF(level);
    }
    return levels;
}

/* kv_length(kv) */
static PyObject *kv_length(PyObject *module, PyObject *capsule)
{
    (void)module;
    const attn_kv *kv = PyCapsule_GetPointer(capsule, KV);
    return kv ? PyLong_FromLongLong(attn_kv_length(kv)) : NULL;
}

/* kv_view(kv): (address, shape, stride) of K and of V, for NumPy's array interface */
static PyObject *kv_view(PyObject *module, PyObject *capsule)
{
    (void)module;
    const attn_kv *kv = PyCapsule_GetPointer(capsule, KV);
    if (!kv)
        return NULL;
    attn_tensor t[2];
    attn_kv_view(kv, &t[0], &t[1]);
    PyObject *views[2];
    for (int i = 0; i < 2; i++)
        views[i] = Py_BuildValue("K(LLLL)(LLLL)", (unsigned long long)(uintptr_t)t[i].data, t[i].shape[0], t[i].shape[1], t[i].shape[2],
                                 t[i].shape[3], t[i].stride[0], t[i].stride[1], t[i].stride[2], t[i].stride[3]);
    return Py_BuildValue("NN", views[0], views[1]);
}

static PyMethodDef functions[] = {
    {"describe", describe, METH_O, "describe(x): its shape and the name of its dtype"},
    {"isa_levels", isa_levels, METH_NOARGS, "isa_levels(): [(name, usable)], worst first"},
    {"kv_length", kv_length, METH_O, "kv_length(kv): rows held"},
    {"kv_view", kv_view, METH_O, "kv_view(kv): ((address, shape, strides in elements) of K, the same of V)"},
    {0}};

static int fill_module(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &context_spec, NULL), *dtypes = PyDict_New();
    for (int t = 1; dtypes && attn_dtype_size((attn_dtype)t); t++) {
        PyObject *value = PyLong_FromLong(t);
        if (!value || PyDict_SetItemString(dtypes, attn_dtype_name((attn_dtype)t), value))
            Py_CLEAR(dtypes);
        Py_XDECREF(value);
    }
    const int failed = !type || !dtypes || PyModule_AddObjectRef(module, "Context", type) ||
                       PyModule_AddObjectRef(module, "DTYPES", dtypes) || PyModule_AddStringConstant(module, "VERSION", attn_version());
    Py_XDECREF(type);
    Py_XDECREF(dtypes);
    return failed ? -1 : 0;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, (void *)fill_module}, {0}};
static struct PyModuleDef module_def = {
    .m_base = PyModuleDef_HEAD_INIT, .m_name = "_attn", .m_doc = "The C API of libattn; see attn",
    .m_methods = functions, .m_slots = module_slots};

PyMODINIT_FUNC PyInit__attn(void);
PyMODINIT_FUNC PyInit__attn(void) { return PyModuleDef_Init(&module_def); }
