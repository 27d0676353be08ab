/* SPDX-License-Identifier: Apache-2.0 */
#include "_binding.h"

#include <string.h>
#include <time.h>

/* ---------------------------------------------------------------- status ---- */

void raise_status(attn_status status, const char *sentence)
{
    if (PyErr_Occurred()) /* a signal handler raised while the library computed */
        return;
    PyObject *type = status == ATTN_E_DTYPE ? PyExc_TypeError
                   : status == ATTN_E_NOMEM ? PyExc_MemoryError
                   : status == ATTN_E_IO    ? PyExc_OSError
                                            : PyExc_ValueError;
    PyErr_SetString(type, sentence[0] ? sentence : attn_status_str(status));
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int context_progress(void *user, double done)
{
    enum { EVERY_MS = 50 };
    context *self = user;
    (void)done;
    const double now = seconds();
    const bool first = self->asked <= 0;
    if (!first && now - self->asked < EVERY_MS * 1e-3)
        return 0;
    self->asked = now;
    if (first)
        return 0;
    PyEval_RestoreThread(self->thread);
    const int raised = PyErr_CheckSignals();
    self->thread = PyEval_SaveThread();
    return raised;
}

/* ---------------------------------------------------------------- buffers ---- */

/* By kind, as NumPy writes it, and size; 0 for what is no dtype of the library. */
static attn_dtype dtype_of_kind(char kind, Py_ssize_t size)
{
    static const attn_dtype of_float[] = {0, 0, ATTN_F16, 0, ATTN_F32, 0, 0, 0, ATTN_F64};
    static const attn_dtype of_signed[] = {0, ATTN_I8, ATTN_I16, 0, ATTN_I32, 0, 0, 0, ATTN_I64};
    static const attn_dtype of_unsigned[] = {0, ATTN_U8, ATTN_U16, 0, ATTN_U32, 0, 0, 0, ATTN_U64};
    if (size < 1 || size > 8)
        return 0;
    switch (kind) {
    case 'f': return of_float[size];
    case 'i': return of_signed[size];
    case 'u': return of_unsigned[size];
    case 'b': return size == 1 ? ATTN_BOOL : 0;
    case 'V': return size == 2 ? ATTN_BF16 : 0; /* that of ml_dtypes, and NumPy's V2, which .npy files have */
    default: return 0;
    }
}

/* By the format of a buffer; 0 also where the bytes are in another order. */
static attn_dtype dtype_of_format(const char *format, Py_ssize_t size)
{
    const char native_order = PY_LITTLE_ENDIAN ? '<' : '>';
    if (!format)
        return ATTN_U8;
    if (strchr("@=", *format) || *format == native_order || (size == 1 && strchr("<>!", *format)))
        format++;
    if (!strcmp(format, "2x"))
        return dtype_of_kind('V', size);
    if (!format[0] || format[1])
        return 0;
    return strchr("efd", *format)      ? dtype_of_kind('f', size)
           : strchr("bhilqn", *format) ? dtype_of_kind('i', size)
           : strchr("BHILQN", *format) ? dtype_of_kind('u', size)
           : *format == '?'            ? dtype_of_kind('b', size)
                                       : 0;
}

static bool fits(const char *name, const attn_tensor *t, int64_t ndim)
{
    if (ndim > ATTN_MAX_DIMS) {
        PyErr_Format(PyExc_ValueError, "%s has %lld axes; at most %d are possible", name, (long long)ndim, ATTN_MAX_DIMS);
        return false;
    }
    if ((uintptr_t)t->data % attn_dtype_size(t->dtype) == 0)
        return true;
    PyErr_Format(PyExc_ValueError, "%s is not aligned to its %d-byte elements; copy it, or pass copy=None", name,
                 (int)attn_dtype_size(t->dtype));
    return false;
}

static bool view_buffer(argument *a, const char *name)
{
    const Py_buffer *b = &a->buffer;
    attn_tensor *t = &a->tensor;
    t->dtype = dtype_of_format(b->format, b->itemsize);
    t->data = b->buf;
    t->ndim = b->ndim;
    if (!t->dtype) {
        PyErr_Format(PyExc_TypeError,
                     "%s has elements of type '%s', which the library does not read; convert it to float32, float64, float16 or bfloat16, "
                     "or pass copy=None",
                     name, b->format);
        return false;
    }
    if (!fits(name, t, b->ndim))
        return false;
    for (int i = 0; i < b->ndim; i++) {
        t->shape[i] = b->shape[i];
        t->stride[i] = b->strides[i] / b->itemsize;
        if (b->strides[i] % b->itemsize && b->shape[i] > 1) {
            PyErr_Format(PyExc_ValueError,
                         "axis %d of %s has a stride of %zd bytes, no whole number of elements; copy it, or pass copy=None", i, name,
                         b->strides[i]);
            return false;
        }
    }
    return true;
}

/* ----------------------------------------------------------- array struct ---- */

/* What the capsule x.__array_struct__ of a NumPy array holds: published, and a third of a buffer's cost, which describes the dtype by a
   string that is made for every array anew. */
enum { NUMPY_ALIGNED = 0x100, NUMPY_NATIVE_ORDER = 0x200, NUMPY_WRITABLE = 0x400, NUMPY_FIELDS = 0x800 };
typedef struct numpy_struct {
    int two, ndim;
    char kind;
    int itemsize, flags;
    Py_ssize_t *shape, *strides; /* in bytes */
    void *data;
} numpy_struct;

/* False, without an error, for whatever is no plain NumPy array: the other ways read it, or say what is wrong. */
static bool view_of_struct(argument *a, PyObject *x, PyObject *attribute, bool writable)
{
    const int flags = NUMPY_ALIGNED | NUMPY_NATIVE_ORDER | (writable ? NUMPY_WRITABLE : 0);
    a->owner = PyObject_GetAttr(x, attribute);
    const numpy_struct *s = a->owner ? PyCapsule_GetPointer(a->owner, NULL) : NULL;
    attn_tensor *t = &a->tensor;
    bool plain = s && s->two == 2 && s->ndim <= ATTN_MAX_DIMS && (s->flags & (flags | NUMPY_FIELDS)) == flags;
    t->dtype = plain ? dtype_of_kind(s->kind, s->itemsize) : 0;
    plain = plain && t->dtype;
    if (plain) {
        t->data = s->data;
        t->ndim = s->ndim;
    }
    for (int i = 0; plain && i < s->ndim; i++) {
        t->shape[i] = s->shape[i];
        t->stride[i] = s->strides[i] / s->itemsize;
        plain = s->strides[i] % s->itemsize == 0;
    }
    if (!plain) {
        PyErr_Clear();
        Py_CLEAR(a->owner);
    }
    return plain;
}

/* ----------------------------------------------------------------- DLPack ---- */

/* The published ABI of DLPack 1.0 and before. */
enum { DL_CPU = 1, DL_READ_ONLY = 1 };
typedef struct dl_tensor {
    void *data;
    struct { int32_t type, id; } device;
    int32_t ndim;
    struct { uint8_t code, bits; uint16_t lanes; } dtype;
    int64_t *shape, *strides; /* strides may be NULL: packed */
    uint64_t byte_offset;
} dl_tensor;
typedef struct dl_managed {
    dl_tensor tensor;
    void *manager;
    void (*deleter)(struct dl_managed *);
} dl_managed;
typedef struct dl_versioned {
    uint32_t major, minor;
    void *manager;
    void (*deleter)(struct dl_versioned *);
    uint64_t flags;
    dl_tensor tensor;
} dl_versioned;

static attn_dtype dtype_of_dlpack(int code, int bits)
{
    static const attn_dtype of_code[7][4] = { /* bits: 8, 16, 32, 64 */
        {ATTN_I8, ATTN_I16, ATTN_I32, ATTN_I64},
        {ATTN_U8, ATTN_U16, ATTN_U32, ATTN_U64},
        {0, ATTN_F16, ATTN_F32, ATTN_F64},
        {0}, /* opaque handles */
        {0, ATTN_BF16},
        {0}, /* complex */
        {ATTN_BOOL},
    };
    const int column = bits == 8 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : bits == 64 ? 3 : -1;
    return code < 7 && column >= 0 ? of_code[code][column] : 0;
}

/* The capsule is not taken over: it frees the tensor when call_end drops it. */
static bool view_dlpack(argument *a, const char *name, bool writable)
{
    const bool versioned = PyCapsule_IsValid(a->owner, "dltensor_versioned");
    void *p = PyCapsule_GetPointer(a->owner, versioned ? "dltensor_versioned" : "dltensor");
    if (!p)
        return false;
    const dl_tensor *d = versioned ? &((dl_versioned *)p)->tensor : &((dl_managed *)p)->tensor;
    attn_tensor *t = &a->tensor;
    if (d->device.type != DL_CPU) {
        PyErr_Format(PyExc_ValueError, "%s is not in the CPU's memory; move it there first (x.cpu())", name);
        return false;
    }
    if (writable && versioned && ((dl_versioned *)p)->flags & DL_READ_ONLY) {
        PyErr_Format(PyExc_ValueError, "%s is read-only; an output must be writable", name);
        return false;
    }
    t->dtype = d->dtype.lanes == 1 ? dtype_of_dlpack(d->dtype.code, d->dtype.bits) : 0;
    t->data = (char *)d->data + d->byte_offset;
    t->ndim = d->ndim;
    if (!t->dtype) {
        PyErr_Format(PyExc_TypeError,
                     "%s has elements (DLPack code %d, %d bits) that the library does not read; convert it to a float dtype",
                     name, d->dtype.code, d->dtype.bits);
        return false;
    }
    if (!fits(name, t, d->ndim))
        return false;
    int64_t packed = 1;
    for (int i = d->ndim - 1; i >= 0; i--) {
        t->shape[i] = d->shape[i];
        t->stride[i] = d->strides ? d->strides[i] : packed;
        packed *= d->shape[i];
    }
    return true;
}

/* x.__dlpack__(max_version=(1, 0)), which can say that the memory is read-only; x.__dlpack__() where that is not known yet. */
static PyObject *dlpack_capsule(PyObject *x, const char *name)
{
    PyObject *method = PyObject_GetAttrString(x, "__dlpack__"), *none = PyTuple_New(0);
    PyObject *newest = Py_BuildValue("{s:(ii)}", "max_version", 1, 0);
    PyObject *capsule = method && none && newest ? PyObject_Call(method, none, newest) : NULL;
    if (method && !capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        capsule = PyObject_CallNoArgs(method);
    }
    Py_XDECREF(method);
    Py_XDECREF(none);
    Py_XDECREF(newest);
    if (!capsule) { /* such as a torch tensor that needs a gradient: its own sentence has the remedy */
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        PyErr_Format(PyExc_TypeError, "%s cannot be read: %S", name, value ? value : Py_None);
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
    }
    return capsule;
}

/* --------------------------------------------------------------- arguments ---- */

/* NumPy cannot export the bfloat16 of ml_dtypes, but the same memory as V2. A new reference, or NULL without an error. */
static PyObject *bf16_as_void(PyObject *x)
{
    PyObject *dtype = PyObject_GetAttrString(x, "dtype"), *name = dtype ? PyObject_GetAttrString(dtype, "name") : NULL;
    const bool is_bf16 = name && PyUnicode_Check(name) && !PyUnicode_CompareWithASCIIString(name, "bfloat16");
    PyObject *view = is_bf16 ? PyObject_CallMethod(x, "view", "s", "V2") : NULL;
    Py_XDECREF(dtype);
    Py_XDECREF(name);
    PyErr_Clear();
    return view;
}

static bool view_of_dlpack(argument *a, PyObject *x, const char *name, bool writable)
{
    a->owner = dlpack_capsule(x, name);
    if (a->owner && view_dlpack(a, name, writable))
        return true;
    Py_CLEAR(a->owner);
    return false;
}

/* JAX's arrays have buffers, but not of bf16, which they give by DLPack, where nothing says that they must not be written to. */
static bool only_dlpack_has_it(PyObject *x)
{
    return PyObject_HasAttrString(x, "__dlpack__") && !PyObject_HasAttrString(x, "__array_interface__");
}

static bool view_of_buffer(argument *a, PyObject *x, const char *name, bool writable)
{
    const int flags = writable ? PyBUF_FULL : PyBUF_FULL_RO;
    int refused = PyObject_GetBuffer(x, &a->buffer, flags);
    if (refused && PyErr_ExceptionMatches(PyExc_ValueError)) {
        PyErr_Clear();
        PyObject *bits = bf16_as_void(x);
        refused = !bits || PyObject_GetBuffer(bits, &a->buffer, flags);
        Py_XDECREF(bits);
    }
    if (refused) {
        PyErr_Clear();
        if (!writable && only_dlpack_has_it(x))
            return view_of_dlpack(a, x, name, writable);
        if (writable)
            PyErr_Format(PyExc_ValueError, "%s is read-only or of a dtype that cannot be shared; an output must be a writable array",
                         name);
        else
            PyErr_Format(PyExc_TypeError, "%s has a dtype that cannot be shared; convert it to float32, float64, float16 or bfloat16",
                         name);
        return false;
    }
    if (view_buffer(a, name))
        return true;
    PyBuffer_Release(&a->buffer);
    return false;
}

static bool view(argument *a, PyObject *x, PyObject *array_struct, const char *name, bool writable)
{
    a->owner = NULL;
    if (PyObject_CheckBuffer(x))
        return (array_struct && view_of_struct(a, x, array_struct, writable)) || view_of_buffer(a, x, name, writable);
    if (PyObject_HasAttrString(x, "__dlpack__"))
        return view_of_dlpack(a, x, name, writable);
    PyErr_Format(PyExc_TypeError,
                 "%s is %R; it must be an array (with the buffer protocol or DLPack): convert it with numpy.asarray, or pass copy=None",
                 name, (PyObject *)Py_TYPE(x));
    return false;
}

static attn_tensor *add_argument(call *c, PyObject *x, const char *name, bool writable)
{
    if (c->failed || x == Py_None)
        return NULL;
    if (c->count == MAX_ARGUMENTS) {
        PyErr_SetString(PyExc_TypeError, "too many arrays in one call");
        c->failed = true;
        return NULL;
    }
    argument *a = &c->arguments[c->count];
    if (!view(a, x, c->self ? c->self->array_struct : NULL, name, writable)) {
        c->failed = true;
        return NULL;
    }
    c->count++;
    return &a->tensor;
}

attn_tensor *call_input(call *c, PyObject *array, const char *name) { return add_argument(c, array, name, false); }
attn_tensor *call_output(call *c, PyObject *array, const char *name) { return add_argument(c, array, name, true); }

PyObject *call_output_like(call *c, PyObject *like, const attn_tensor *q, const attn_tensor *v)
{
    PyObject *dtype = c->failed ? NULL : PyObject_GetAttr(like, c->self->dtype);
    PyObject *shape = dtype ? PyTuple_New(q->ndim) : NULL;
    for (int i = 0; shape && i < q->ndim; i++) {
        const attn_tensor *from = i == q->ndim - 1 && v->ndim ? v : q;
        PyTuple_SetItem(shape, i, PyLong_FromLongLong(from->shape[from == q ? i : v->ndim - 1]));
    }
    PyObject *made = shape ? PyObject_CallFunctionObjArgs(c->self->empty, shape, dtype, NULL) : NULL;
    Py_XDECREF(dtype);
    Py_XDECREF(shape);
    c->failed = !made;
    return made;
}

/* ----------------------------------------------------------------- options ---- */

static void set_field(call *c, char *options, const field *f, PyObject *value)
{
    void *place = options + f->offset;
    switch (f->kind) {
    case FIELD_INPUT: *(const attn_tensor **)place = call_input(c, value, f->name); break;
    case FIELD_OUTPUT: *(attn_tensor **)place = call_output(c, value, f->name); break;
    case FIELD_I64: *(int64_t *)place = PyLong_AsLongLong(value); break;
    case FIELD_U64: *(uint64_t *)place = PyLong_AsUnsignedLongLong(value); break;
    case FIELD_U32: *(uint32_t *)place = (uint32_t)PyLong_AsUnsignedLong(value); break;
    case FIELD_F64: *(double *)place = PyFloat_AsDouble(value); break;
    case FIELD_ENUM: *(int *)place = (int)PyLong_AsLong(value); break;
    }
    if (!PyErr_Occurred())
        return;
    if (!c->failed) {
        const bool too_big = PyErr_ExceptionMatches(PyExc_OverflowError);
        PyErr_Format(too_big ? PyExc_ValueError : PyExc_TypeError, "%s is %R; it must be %s", f->name, value,
                     too_big ? "in the range of its integer type" : "a number");
    }
    c->failed = true;
}

void call_options(call *c, void *options, const field *fields, PyObject *dict)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    if (dict == Py_None)
        return;
    if (!c->failed && !PyDict_Check(dict)) {
        PyErr_SetString(PyExc_TypeError, "options must be a dictionary");
        c->failed = true;
    }
    while (!c->failed && PyDict_Next(dict, &at, &key, &value)) {
        const field *f = fields;
        while (f->name && PyUnicode_CompareWithASCIIString(key, f->name))
            f++;
        if (f->name) {
            set_field(c, options, f, value);
        } else {
            PyErr_Format(PyExc_TypeError, "there is no option %R", key);
            c->failed = true;
        }
    }
}

void *call_handle(call *c, PyObject *capsule, const char *name)
{
    void *p = c->failed ? NULL : PyCapsule_GetPointer(capsule, name);
    c->failed = !p;
    return p;
}

/* ------------------------------------------------------------------- calls ---- */

void call_begin(call *c, PyObject *self)
{
    c->self = (context *)self;
    c->ctx = c->self->ctx;
    c->count = 0;
    c->failed = c->self->thread != NULL;
    if (c->failed)
        PyErr_SetString(PyExc_RuntimeError, "a call is running on this context; a signal handler must not start another");
}

bool call_ready(call *c)
{
    if (c->failed)
        return false;
    c->self->asked = 0;
    c->self->thread = PyEval_SaveThread();
    return true;
}

void call_done(call *c, attn_status status)
{
    PyThreadState *thread = c->self->thread;
    PyEval_RestoreThread(thread);
    c->self->thread = NULL;
    if (status) {
        raise_status(status, attn_ctx_error(c->ctx));
        c->failed = true;
    }
}

PyObject *call_end(call *c)
{
    for (int i = 0; i < c->count; i++)
        if (c->arguments[i].owner)
            Py_DECREF(c->arguments[i].owner);
        else
            PyBuffer_Release(&c->arguments[i].buffer);
    return c->failed ? NULL : Py_NewRef(Py_None);
}

PyObject *call_end_capsule(call *c, void *p, const char *name, PyCapsule_Destructor destroy)
{
    PyObject *self = (PyObject *)c->self, *none = call_end(c), *capsule = none ? PyCapsule_New(p, name, destroy) : NULL;
    Py_XDECREF(none);
    if (capsule)
        PyCapsule_SetContext(capsule, Py_NewRef(self));
    return capsule;
}
