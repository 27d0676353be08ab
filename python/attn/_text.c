/* SPDX-License-Identifier: Apache-2.0 */
/* attn._load, the part about text: tokenizers and chat templates. */
#include "_load.h"

#include "attn/attn_load.h"
#include <stdlib.h>
#include <string.h>

#define TOKENIZER "attn_tokenizer"

static void destroy(PyObject *capsule) { attn_tokenizer_destroy(PyCapsule_GetPointer(capsule, TOKENIZER)); }

static PyObject *raised(attn_status status, const char *sentence)
{
    raise_status(status, sentence);
    return NULL;
}

PyObject *load_tokenizer(PyObject *module, PyObject *args)
{
    (void)module;
    const char *path;
    char sentence[SENTENCE] = "";
    attn_tokenizer *t = NULL;
    if (!PyArg_ParseTuple(args, "s:tokenizer", &path))
        return NULL;
    const attn_status status = attn_pretrained_tokenizer(&t, path, sentence, sizeof sentence);
    return status ? raised(status, sentence) : PyCapsule_New(t, TOKENIZER, destroy);
}

static PyObject *bytes_of(const int32_t *numbers, size_t count)
{
    return PyBytes_FromStringAndSize((const char *)numbers, (Py_ssize_t)(count * sizeof *numbers));
}

PyObject *load_encode(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *capsule;
    const char *text, *pair;
    Py_ssize_t size, pair_size = 0, max_length;
    unsigned int flags;
    if (!PyArg_ParseTuple(args, "Os#z#In:encode", &capsule, &text, &size, &pair, &pair_size, &flags, &max_length))
        return NULL;
    const attn_tokenizer *t = PyCapsule_GetPointer(capsule, TOKENIZER);
    attn_encoding *e = NULL;
    char sentence[SENTENCE] = "";
    if (!t)
        return NULL;
    const attn_status status = attn_tokenizer_encode(t, text, (size_t)size, pair, (size_t)pair_size, flags, (size_t)max_length, &e,
                                                     sentence, sizeof sentence);
    if (status)
        return raised(status, sentence);
    PyObject *found = Py_BuildValue("NN", bytes_of(e->ids, e->count), bytes_of(e->type_ids, e->count));
    attn_encoding_destroy(e);
    return found;
}

PyObject *load_decode(PyObject *module, PyObject *args)
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

PyObject *load_token(PyObject *module, PyObject *args)
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

PyObject *load_limits(PyObject *module, PyObject *capsule)
{
    (void)module;
    const attn_tokenizer *t = PyCapsule_GetPointer(capsule, TOKENIZER);
    return t ? Py_BuildValue("nL", (Py_ssize_t)attn_tokenizer_count(t), (long long)attn_tokenizer_max_length(t)) : NULL;
}

/* The messages of a list of (role, content); false with an error. The texts live as long as the list. */
static bool read_messages(PyObject *list, attn_message *messages)
{
    bool good = true;
    for (Py_ssize_t i = 0; good && i < PyList_Size(list); i++)
        good = PyArg_ParseTuple(PyList_GetItem(list, i), "ss:message", &messages[i].role, &messages[i].content);
    return good;
}

PyObject *load_chat(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *capsule, *list;
    const char *date;
    if (!PyArg_ParseTuple(args, "OO!z:chat", &capsule, &PyList_Type, &list, &date))
        return NULL;
    const attn_tokenizer *t = PyCapsule_GetPointer(capsule, TOKENIZER);
    const size_t count = (size_t)PyList_Size(list);
    attn_message *messages = calloc(count + 1, sizeof *messages);
    char *text = NULL, sentence[SENTENCE] = "";
    size_t size = 0;
    if (!messages)
        PyErr_NoMemory();
    const bool good = t && messages && read_messages(list, messages);
    const attn_status status = good ? attn_chat_text(t, messages, count, date, &text, &size, sentence, sizeof sentence) : ATTN_OK;
    free(messages);
    if (!good || status)
        return good ? raised(status, sentence) : NULL;
    PyObject *string = PyUnicode_FromStringAndSize(text, (Py_ssize_t)size);
    attn_text_free(text);
    return string;
}
