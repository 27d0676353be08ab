/* SPDX-License-Identifier: Apache-2.0 */
/* attn._load: attn_load.h, attn_generate.h and attn_text.h for _model.py. The first argument is a Context of attn._attn wherever a model
   computes; models, sessions and tokenizers are capsules. */
#include "_binding.h"

#include "attn/attn_generate.h"
#include <string.h>

#define MODEL "attn_pretrained"
#define SESSION "attn_session"
#define TOKENIZER "attn_tokenizer"
enum { SENTENCE = 1024 };

static void destroy_capsule(PyObject *capsule)
{
    const char *name = PyCapsule_GetName(capsule);
    void *p = PyCapsule_GetPointer(capsule, name);
    if (!strcmp(name, MODEL))
        attn_pretrained_destroy(p);
    else if (!strcmp(name, SESSION))
        attn_session_destroy(p);
    else
        attn_tokenizer_destroy(p);
    Py_XDECREF(PyCapsule_GetContext(capsule));
}

/* open(context, path, float64): a model */
static PyObject *load_open(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *self;
    const char *path;
    int float64;
    if (!PyArg_ParseTuple(args, "Osp:open", &self, &path, &float64))
        return NULL;
    call c;
    attn_pretrained *model = NULL;
    attn_status status = ATTN_OK;
    char sentence[SENTENCE] = "";
    const attn_pretrained_opts opts = {.struct_size = sizeof opts, .flags = float64 ? ATTN_PRETRAINED_F64 : 0};
    call_begin(&c, self);
    if (call_ready(&c)) {
        status = attn_pretrained_open(c.ctx, &model, path, &opts, sentence, sizeof sentence);
        call_done(&c, ATTN_OK);
    }
    if (status) {
        raise_status(status, sentence);
        c.failed = true;
    }
    return call_end_capsule(&c, model, MODEL, destroy_capsule);
}

/* info(model): attn_model_info, and the ids that end a text */
static PyObject *load_info(PyObject *module, PyObject *capsule)
{
    (void)module;
    static const char *const kinds[] = {"?", "encoder", "decoder", "encoder-decoder"};
    const attn_pretrained *model = PyCapsule_GetPointer(capsule, MODEL);
    PyObject *stop = model ? PyList_New(0) : NULL;
    for (size_t i = 0; stop && attn_pretrained_stop(model, i) >= 0; i++) {
        PyObject *id = PyLong_FromLong(attn_pretrained_stop(model, i));
        if (!id || PyList_Append(stop, id))
            Py_CLEAR(stop);
        Py_XDECREF(id);
    }
    if (!stop)
        return NULL;
    const attn_model_info i = attn_pretrained_info(model);
    return Py_BuildValue("{s:s,s:s,s:s,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:N}", "type", i.type, "kind", kinds[i.kind], "compute",
                         attn_dtype_name(i.compute), "layers", (long long)i.layers, "decoder_layers", (long long)i.decoder_layers,
                         "heads", (long long)i.heads, "kv_heads", (long long)i.kv_heads, "head_dim", (long long)i.head_dim, "width",
                         (long long)i.width, "hidden", (long long)i.hidden, "vocab", (long long)i.vocab, "max_positions",
                         (long long)i.max_positions, "parameters", (long long)i.parameters, "stop", stop);
}

/* session(context, model, capacity) */
static PyObject *load_session(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *self, *capsule;
    long long capacity;
    if (!PyArg_ParseTuple(args, "OOL:session", &self, &capsule, &capacity))
        return NULL;
    call c;
    attn_session *session = NULL;
    const attn_session_desc desc = {.struct_size = sizeof desc, .capacity = capacity};
    call_begin(&c, self);
    const attn_pretrained *model = call_handle(&c, capsule, MODEL);
    if (call_ready(&c))
        call_done(&c, attn_session_create(c.ctx, &session, model, &desc));
    PyObject *made = call_end_capsule(&c, session, SESSION, destroy_capsule);
    if (made) { /* a session needs its model too */
        Py_DECREF((PyObject *)PyCapsule_GetContext(made));
        PyCapsule_SetContext(made, Py_BuildValue("(OO)", self, capsule));
    }
    return made;
}

typedef struct watcher {
    context *self;
    PyObject *seen; /* seen(layer, hidden, self weights or None) */
} watcher;

/* Memory that is valid during the callback alone. */
static PyObject *view_of(const attn_tensor *t)
{
    Py_ssize_t shape[ATTN_MAX_DIMS], strides[ATTN_MAX_DIMS];
    if (!t)
        return Py_NewRef(Py_None);
    Py_buffer b = {.buf = t->data, .itemsize = (Py_ssize_t)attn_dtype_size(t->dtype), .readonly = 1, .ndim = t->ndim,
                   .format = (char *)(uintptr_t)(t->dtype == ATTN_F64 ? "d" : "f"), .shape = shape, .strides = strides};
    b.len = b.itemsize;
    for (int i = 0; i < t->ndim; i++) {
        shape[i] = (Py_ssize_t)t->shape[i];
        strides[i] = (Py_ssize_t)t->stride[i] * b.itemsize;
        b.len *= shape[i];
    }
    return PyMemoryView_FromBuffer(&b);
}

static int on_layer(void *user, const attn_layer_view *v)
{
    watcher *w = user;
    PyEval_RestoreThread(w->self->thread);
    PyObject *hidden = view_of(v->hidden), *weights = view_of(v->self_weights), *done = NULL;
    if (hidden && weights)
        done = PyObject_CallFunction(w->seen, "LOO", (long long)v->layer, hidden, weights);
    const int failed = !done;
    Py_XDECREF(done);
    Py_XDECREF(hidden);
    Py_XDECREF(weights);
    w->self->thread = PyEval_SaveThread();
    return failed;
}

/* feed(context, session, logits or None, ids, all, seen or None): seen(layer, hidden, self weights) for each layer */
static PyObject *load_feed(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *self, *capsule, *out, *tokens, *seen;
    int all;
    if (!PyArg_ParseTuple(args, "OOOOpO:feed", &self, &capsule, &out, &tokens, &all, &seen))
        return NULL;
    call c;
    call_begin(&c, self);
    attn_session *session = call_handle(&c, capsule, SESSION);
    attn_tensor *logits = call_output(&c, out, "logits"), *ids = call_input(&c, tokens, "ids");
    watcher w = {.self = c.self, .seen = seen};
    const attn_watch watch = {.struct_size = sizeof watch, .flags = ATTN_WATCH_SELF, .seen = on_layer, .user = &w};
    const attn_feed_opts opts = {.struct_size = sizeof opts, .flags = all ? ATTN_FEED_ALL : 0, .watch = seen == Py_None ? NULL : &watch};
    if (call_ready(&c))
        call_done(&c, attn_session_feed(c.ctx, session, logits, ids, &opts));
    return call_end(&c);
}

#define FIELD(member, kind) {#member, kind, offsetof(attn_sampling, member)}
static const field sampling_fields[] = {
    FIELD(repetition_penalty, FIELD_F64), FIELD(temperature, FIELD_F64), FIELD(top_k, FIELD_I64), FIELD(top_p, FIELD_F64),
    FIELD(min_p, FIELD_F64), FIELD(seed, FIELD_U64),
    {0}};

/* sample(context, logits, options, seen, draw): an id. seen: int32, contiguous */
static PyObject *load_sample(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *self, *row, *options, *before;
    unsigned long long draw;
    if (!PyArg_ParseTuple(args, "OOOOK:sample", &self, &row, &options, &before, &draw))
        return NULL;
    call c;
    attn_sampling sampling = {.struct_size = sizeof sampling};
    int32_t id = 0;
    call_begin(&c, self);
    attn_tensor *logits = call_input(&c, row, "logits"), *seen = call_input(&c, before, "seen");
    call_options(&c, &sampling, sampling_fields, options);
    if (call_ready(&c))
        call_done(&c, attn_sample(c.ctx, &id, logits, &sampling, seen->data, (size_t)seen->shape[0], draw));
    PyObject *none = call_end(&c);
    Py_XDECREF(none);
    return none ? PyLong_FromLong(id) : NULL;
}

/* ---------------------------------------------------------- tokenizers ---- */

static PyObject *raised(attn_status status, const char *sentence)
{
    raise_status(status, sentence);
    return NULL;
}

/* tokenizer(path) */
static PyObject *load_tokenizer(PyObject *module, PyObject *args)
{
    (void)module;
    const char *path;
    char sentence[SENTENCE] = "";
    attn_tokenizer *t = NULL;
    if (!PyArg_ParseTuple(args, "s:tokenizer", &path))
        return NULL;
    const attn_status status = attn_tokenizer_open(&t, path, sentence, sizeof sentence);
    return status ? raised(status, sentence) : PyCapsule_New(t, TOKENIZER, destroy_capsule);
}

/* encode(tokenizer, text, pair or None, special): the ids as bytes of int32 */
static PyObject *load_encode(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *capsule;
    const char *text, *pair;
    Py_ssize_t size, pair_size = 0;
    int special;
    if (!PyArg_ParseTuple(args, "Os#z#p:encode", &capsule, &text, &size, &pair, &pair_size, &special))
        return NULL;
    const attn_tokenizer *t = PyCapsule_GetPointer(capsule, TOKENIZER);
    attn_encoding *e = NULL;
    char sentence[SENTENCE] = "";
    if (!t)
        return NULL;
    const attn_status status = attn_tokenizer_encode(t, text, (size_t)size, pair, (size_t)pair_size, special ? ATTN_ENCODE_SPECIAL : 0, 0,
                                                     &e, sentence, sizeof sentence);
    if (status)
        return raised(status, sentence);
    PyObject *ids = PyBytes_FromStringAndSize((const char *)e->ids, (Py_ssize_t)(e->count * sizeof *e->ids));
    attn_encoding_destroy(e);
    return ids;
}

/* decode(tokenizer, ids as bytes of int32, skip special) */
static PyObject *load_decode(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *capsule, *bytes;
    int skip;
    if (!PyArg_ParseTuple(args, "OSp:decode", &capsule, &bytes, &skip))
        return NULL;
    const attn_tokenizer *t = PyCapsule_GetPointer(capsule, TOKENIZER);
    char *text = NULL, sentence[SENTENCE] = "";
    size_t size = 0;
    if (!t)
        return NULL;
    const attn_status status = attn_tokenizer_decode(t, (const int32_t *)(const void *)PyBytes_AsString(bytes),
                                                     (size_t)PyBytes_Size(bytes) / sizeof(int32_t), skip ? ATTN_DECODE_SKIP_SPECIAL : 0,
                                                     &text, &size, sentence, sizeof sentence);
    if (status)
        return raised(status, sentence);
    PyObject *string = PyUnicode_FromStringAndSize(text, (Py_ssize_t)size);
    attn_text_free(text);
    return string;
}

/* token(tokenizer, id): its text, or None */
static PyObject *load_token(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *capsule;
    long long id;
    if (!PyArg_ParseTuple(args, "OL:token", &capsule, &id))
        return NULL;
    const attn_tokenizer *t = PyCapsule_GetPointer(capsule, TOKENIZER);
    size_t size = 0;
    const char *text = t ? attn_tokenizer_token(t, id, &size) : NULL;
    return text ? PyUnicode_DecodeUTF8(text, (Py_ssize_t)size, "replace") : t ? Py_NewRef(Py_None) : NULL;
}

/* count(tokenizer) */
static PyObject *load_count(PyObject *module, PyObject *capsule)
{
    (void)module;
    const attn_tokenizer *t = PyCapsule_GetPointer(capsule, TOKENIZER);
    return t ? PyLong_FromSize_t(attn_tokenizer_count(t)) : NULL;
}

static PyMethodDef functions[] = {
    {"open", load_open, METH_VARARGS, "open(context, path, float64): a model"},
    {"info", load_info, METH_O, "info(model): what it is"},
    {"session", load_session, METH_VARARGS, "session(context, model, capacity)"},
    {"feed", load_feed, METH_VARARGS, "feed(context, session, logits, ids, all, seen)"},
    {"sample", load_sample, METH_VARARGS, "sample(context, logits, options, seen, draw): an id"},
    {"tokenizer", load_tokenizer, METH_VARARGS, "tokenizer(path)"},
    {"encode", load_encode, METH_VARARGS, "encode(tokenizer, text, pair, special): bytes of int32"},
    {"decode", load_decode, METH_VARARGS, "decode(tokenizer, bytes of int32, skip_special): text"},
    {"token", load_token, METH_VARARGS, "token(tokenizer, id): its text"},
    {"count", load_count, METH_O, "count(tokenizer)"},
    {0}};

static struct PyModuleDef module_def = {
    .m_base = PyModuleDef_HEAD_INIT, .m_name = "_load", .m_doc = "libattn_load for attn.load_model", .m_methods = functions};

PyMODINIT_FUNC PyInit__load(void);
PyMODINIT_FUNC PyInit__load(void) { return PyModuleDef_Init(&module_def); }
