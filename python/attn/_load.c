/* SPDX-License-Identifier: Apache-2.0 */
/* attn._load: attn_load.h, attn_generate.h, attn_seq2seq.h and attn_text.h for _model.py. The first argument is a Context of attn._attn
   wherever a model computes; models, sessions and tokenizers are capsules. */
#include "_load.h"

#include "attn/attn_generate.h"
#include "attn/attn_seq2seq.h"
#include <string.h>

#define MODEL "attn_pretrained"
#define SESSION "attn_session"
#define FIELD(type, member, kind) {#member, kind, offsetof(type, member)}

static void destroy_capsule(PyObject *capsule)
{
    const char *name = PyCapsule_GetName(capsule);
    void *p = PyCapsule_GetPointer(capsule, name);
    if (!strcmp(name, MODEL))
        attn_pretrained_destroy(p);
    else
        attn_session_destroy(p);
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
    const struct { const char *name; int64_t value; } numbers[] = {
        {"layers", i.layers}, {"decoder_layers", i.decoder_layers}, {"heads", i.heads}, {"kv_heads", i.kv_heads}, {"head_dim", i.head_dim},
        {"width", i.width}, {"hidden", i.hidden}, {"vocab", i.vocab}, {"max_positions", i.max_positions}, {"max_tokens", i.max_tokens},
        {"embedding", i.embedding}, {"parameters", i.parameters}, {"skips_prompt", i.skips_prompt}};
    PyObject *info = Py_BuildValue("{s:s,s:s,s:s,s:N}", "type", i.type, "kind", kinds[i.kind], "compute", attn_dtype_name(i.compute),
                                   "stop", stop);
    for (size_t n = 0; info && n < sizeof numbers / sizeof numbers[0]; n++) {
        PyObject *value = PyLong_FromLongLong(numbers[n].value);
        if (!value || PyDict_SetItemString(info, numbers[n].name, value))
            Py_CLEAR(info);
        Py_XDECREF(value);
    }
    return info;
}

/* session(context, model, sequences, capacity) */
static PyObject *load_session(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *self, *capsule;
    long long batch, capacity;
    if (!PyArg_ParseTuple(args, "OOLL:session", &self, &capsule, &batch, &capacity))
        return NULL;
    call c;
    attn_session *session = NULL;
    const attn_session_desc desc = {.struct_size = sizeof desc, .batch = batch, .capacity = capacity};
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

/* --------------------------------------------------------- watching ---- */

typedef struct watcher {
    context *self;
    PyObject *seen; /* seen(part, layer, hidden, self weights or None, cross weights or None) */
    attn_watch watch;
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
    PyObject *hidden = view_of(v->hidden), *own = view_of(v->self_weights), *cross = view_of(v->cross_weights), *done = NULL;
    if (hidden && own && cross)
        done = PyObject_CallFunction(w->seen, "iLOOO", (int)v->part, (long long)v->layer, hidden, own, cross);
    const int failed = !done;
    Py_XDECREF(done);
    Py_XDECREF(hidden);
    Py_XDECREF(own);
    Py_XDECREF(cross);
    w->self->thread = PyEval_SaveThread();
    return failed;
}

/* What a call watches with: NULL where seen is None. weights: those of every attention are wanted too. */
static const attn_watch *watching(watcher *w, const call *c, PyObject *seen, int weights)
{
    *w = (watcher){.self = c->self, .seen = seen};
    w->watch = (attn_watch){.struct_size = sizeof w->watch, .flags = weights ? ATTN_WATCH_SELF | ATTN_WATCH_CROSS : 0, .seen = on_layer,
                            .user = w};
    return seen == Py_None ? NULL : &w->watch;
}

/* --------------------------------------------------------- decoders ---- */

/* feed(context, session, logits or None, ids, lengths or None, all, seen or None, weights) */
static PyObject *load_feed(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *self, *capsule, *out, *tokens, *counts, *seen;
    int all, weights;
    if (!PyArg_ParseTuple(args, "OOOOOpOp:feed", &self, &capsule, &out, &tokens, &counts, &all, &seen, &weights))
        return NULL;
    call c;
    watcher w;
    call_begin(&c, self);
    attn_session *session = call_handle(&c, capsule, SESSION);
    attn_tensor *logits = call_output(&c, out, "logits"), *ids = call_input(&c, tokens, "ids");
    const attn_feed_opts opts = {.struct_size = sizeof opts, .flags = all ? ATTN_FEED_ALL : 0, .lengths = call_input(&c, counts, "lengths"),
                                 .watch = watching(&w, &c, seen, weights)};
    if (call_ready(&c))
        call_done(&c, attn_session_feed(c.ctx, session, logits, ids, &opts));
    return call_end(&c);
}

static const field sampling_fields[] = {
    FIELD(attn_sampling, repetition_penalty, FIELD_F64), FIELD(attn_sampling, temperature, FIELD_F64),
    FIELD(attn_sampling, top_k, FIELD_I64), FIELD(attn_sampling, top_p, FIELD_F64), FIELD(attn_sampling, min_p, FIELD_F64),
    FIELD(attn_sampling, seed, FIELD_U64),
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

/* --------------------------------------------------------- encoders ---- */

/* encode(context, model, out, ids, lengths, type_ids or None, seen or None, weights): hidden states */
static PyObject *load_states(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *self, *capsule, *result, *tokens, *counts, *types, *seen;
    int weights;
    if (!PyArg_ParseTuple(args, "OOOOOOOp:states", &self, &capsule, &result, &tokens, &counts, &types, &seen, &weights))
        return NULL;
    call c;
    watcher w;
    call_begin(&c, self);
    const attn_pretrained *model = call_handle(&c, capsule, MODEL);
    attn_tensor *out = call_output(&c, result, "out"), *ids = call_input(&c, tokens, "ids");
    const attn_encode_opts opts = {.struct_size = sizeof opts, .lengths = call_input(&c, counts, "lengths"),
                                   .type_ids = call_input(&c, types, "type_ids"), .watch = watching(&w, &c, seen, weights)};
    if (call_ready(&c))
        call_done(&c, attn_pretrained_encode(c.ctx, model, out, ids, &opts));
    return call_end(&c);
}

static const field vector_fields[] = {
    FIELD(attn_vector_opts, flags, FIELD_U32), FIELD(attn_vector_opts, pooling, FIELD_ENUM), FIELD(attn_vector_opts, skip, FIELD_I64),
    {0}};

/* embed(context, model, out, ids, lengths, options): vectors */
static PyObject *load_embed(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *self, *capsule, *result, *tokens, *counts, *options;
    if (!PyArg_ParseTuple(args, "OOOOOO:embed", &self, &capsule, &result, &tokens, &counts, &options))
        return NULL;
    call c;
    attn_vector_opts opts = {.struct_size = sizeof opts};
    call_begin(&c, self);
    const attn_pretrained *model = call_handle(&c, capsule, MODEL);
    attn_tensor *out = call_output(&c, result, "out"), *ids = call_input(&c, tokens, "ids");
    const attn_encode_opts encode = {.struct_size = sizeof encode, .lengths = call_input(&c, counts, "lengths")};
    call_options(&c, &opts, vector_fields, options);
    if (call_ready(&c))
        call_done(&c, attn_pretrained_embed(c.ctx, model, out, ids, &encode, &opts));
    return call_end(&c);
}

/* columns(context, model, options): of a vector */
static PyObject *load_columns(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *self, *capsule, *options;
    if (!PyArg_ParseTuple(args, "OOO:columns", &self, &capsule, &options))
        return NULL;
    call c;
    attn_vector_opts opts = {.struct_size = sizeof opts};
    call_begin(&c, self);
    const attn_pretrained *model = call_handle(&c, capsule, MODEL);
    call_options(&c, &opts, vector_fields, options);
    PyObject *none = call_end(&c);
    Py_XDECREF(none);
    return none ? PyLong_FromLongLong(attn_pretrained_columns(model, &opts)) : NULL;
}

/* prompts(model): {name: text}, the declared default under None */
static PyObject *load_prompts(PyObject *module, PyObject *capsule)
{
    (void)module;
    const attn_pretrained *model = PyCapsule_GetPointer(capsule, MODEL);
    PyObject *found = model ? PyDict_New() : NULL;
    const char *name = NULL, *text = model ? attn_pretrained_prompt(model, NULL) : NULL;
    for (size_t i = 0; found && (name || i == 0); i++) {
        PyObject *key = name ? PyUnicode_FromString(name) : Py_NewRef(Py_None), *value = text ? PyUnicode_FromString(text) : NULL;
        if (!key || (text && (!value || PyDict_SetItem(found, key, value))))
            Py_CLEAR(found);
        Py_XDECREF(key);
        Py_XDECREF(value);
        name = attn_pretrained_prompt_name(model, i);
        text = name ? attn_pretrained_prompt(model, name) : NULL;
    }
    return found;
}

/* ------------------------------------------------- encoder-decoders ---- */

/* The ids of a tensor: int32, contiguous. */
static const int32_t *ids_of(const attn_tensor *t) { return t->data; }

/* teach(context, model, logits or None, source, target, seen or None, weights) */
static PyObject *load_teach(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *self, *capsule, *out, *from, *to, *seen;
    int weights;
    if (!PyArg_ParseTuple(args, "OOOOOOp:teach", &self, &capsule, &out, &from, &to, &seen, &weights))
        return NULL;
    call c;
    watcher w;
    call_begin(&c, self);
    const attn_pretrained *model = call_handle(&c, capsule, MODEL);
    attn_tensor *logits = call_output(&c, out, "logits"), *source = call_input(&c, from, "source"), *target = call_input(&c, to, "target");
    const attn_watch *watch = watching(&w, &c, seen, weights);
    if (call_ready(&c))
        call_done(&c, attn_pretrained_teach(c.ctx, model, logits, ids_of(source), (size_t)source->shape[0], ids_of(target),
                                            (size_t)target->shape[0], watch));
    return call_end(&c);
}

static const field translate_fields[] = {
    FIELD(attn_translate_opts, flags, FIELD_U32), FIELD(attn_translate_opts, beams, FIELD_I64),
    FIELD(attn_translate_opts, max_tokens, FIELD_I64), FIELD(attn_translate_opts, length_penalty, FIELD_F64),
    FIELD(attn_translate_opts, early, FIELD_ENUM),
    {0}};

/* translate(context, model, room, source, options): (ids, score) with the ids in room */
static PyObject *load_translate(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *self, *capsule, *place, *from, *options;
    if (!PyArg_ParseTuple(args, "OOOOO:translate", &self, &capsule, &place, &from, &options))
        return NULL;
    call c;
    attn_translate_opts opts = {.struct_size = sizeof opts};
    size_t count = 0;
    double score = 0;
    call_begin(&c, self);
    const attn_pretrained *model = call_handle(&c, capsule, MODEL);
    attn_tensor *room = call_output(&c, place, "room"), *source = call_input(&c, from, "source");
    call_options(&c, &opts, translate_fields, options);
    if (call_ready(&c))
        call_done(&c, attn_pretrained_translate(c.ctx, model, ids_of(source), (size_t)source->shape[0], room->data, (size_t)room->shape[0],
                                                &count, &score, &opts));
    PyObject *none = call_end(&c);
    Py_XDECREF(none);
    return none ? Py_BuildValue("nd", (Py_ssize_t)count, score) : NULL;
}

/* start(model): the id that a target begins with */
static PyObject *load_start(PyObject *module, PyObject *capsule)
{
    (void)module;
    const attn_pretrained *model = PyCapsule_GetPointer(capsule, MODEL);
    return model ? PyLong_FromLong(attn_pretrained_start(model)) : NULL;
}

static PyMethodDef functions[] = {
    {"open", load_open, METH_VARARGS, "open(context, path, float64): a model"},
    {"info", load_info, METH_O, "info(model): what it is"},
    {"session", load_session, METH_VARARGS, "session(context, model, sequences, capacity)"},
    {"feed", load_feed, METH_VARARGS, "feed(context, session, logits, ids, lengths, all, seen, weights)"},
    {"sample", load_sample, METH_VARARGS, "sample(context, logits, options, seen, draw): an id"},
    {"states", load_states, METH_VARARGS, "states(context, model, out, ids, lengths, type_ids, seen, weights)"},
    {"embed", load_embed, METH_VARARGS, "embed(context, model, out, ids, lengths, options)"},
    {"columns", load_columns, METH_VARARGS, "columns(context, model, options): of a vector"},
    {"prompts", load_prompts, METH_O, "prompts(model): {name: text}"},
    {"teach", load_teach, METH_VARARGS, "teach(context, model, logits, source, target, seen, weights)"},
    {"translate", load_translate, METH_VARARGS, "translate(context, model, room, source, options): (count, score)"},
    {"start", load_start, METH_O, "start(model): the id that a target begins with"},
    {"tokenizer", load_tokenizer, METH_VARARGS, "tokenizer(path)"},
    {"encode", load_encode, METH_VARARGS, "encode(tokenizer, text, pair, flags, max_length): (ids, type ids), bytes of int32"},
    {"decode", load_decode, METH_VARARGS, "decode(tokenizer, bytes of int32, skip_special): text"},
    {"token", load_token, METH_VARARGS, "token(tokenizer, id): its text"},
    {"limits", load_limits, METH_O, "limits(tokenizer): (ids, longest text)"},
    {"chat", load_chat, METH_VARARGS, "chat(tokenizer, [(role, content)], date): the text of its template"},
    {0}};

static struct PyModuleDef module_def = {
    .m_base = PyModuleDef_HEAD_INIT, .m_name = "_load", .m_doc = "libattn_load for attn.load_model", .m_methods = functions};

PyMODINIT_FUNC PyInit__load(void);
PyMODINIT_FUNC PyInit__load(void) { return PyModuleDef_Init(&module_def); }
