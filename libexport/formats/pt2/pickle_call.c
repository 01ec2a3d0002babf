/* pickle_call.c - what calls of PyTorch's rebuilders and of Python's containers stand for.
 * Shapes of arguments are checked exactly; nothing is called. */
#include "libexport/formats/pt2/pickle.h"

#include <string.h>

static exg_status bad_call(const char *name, exg_error *err)
{
    return EXG_FAIL(err, UNSUPPORTED, "PKL-CALL", "the arguments of %s are not what PyTorch writes",
                    name);
}

static bool all_ints(const exg_pickle_value *value)
{
    if (value->kind != EXG_PICKLE_TUPLE) {
        return false;
    }
    for (uint32_t i = 0; i < value->as_items.count; i++) {
        if (value->as_items.items[i]->kind != EXG_PICKLE_INT) {
            return false;
        }
    }
    return true;
}

static bool is_sequence(const exg_pickle_value *value)
{
    return value->kind == EXG_PICKLE_TUPLE || value->kind == EXG_PICKLE_LIST ||
           value->kind == EXG_PICKLE_SET;
}

static bool has_tag(const exg_pickle_value *value, exg_pickle_tag tag)
{
    return value->kind == EXG_PICKLE_GLOBAL && value->as_global->tag == tag;
}

/* ---- tensors ----------------------------------------------------------------------------- */

/* Arguments of the tensor builders, by position; -1: it has none. */
typedef struct tensor_form {
    uint32_t count_min;
    uint32_t count_max; /* one more may follow: metadata, a dict of flags or None */
    int requires_grad;
    int hooks;
    int dtype;
    int quantizer;
} tensor_form;

/* {"conj": True, "neg": True}, or None */
static bool read_flags(const exg_pickle_value *flags, exg_pickle_tensor *t)
{
    static const char *const names[] = {"conj", "neg"};
    bool *const set[] = {&t->is_conj, &t->is_neg};
    uint32_t known = 0;

    if (flags->kind == EXG_PICKLE_NONE) {
        return true;
    }
    for (size_t i = 0; i < 2 && flags->kind == EXG_PICKLE_DICT; i++) {
        const exg_pickle_value *value = exg_pickle_get(flags, names[i]);

        known += value != NULL && value->kind == EXG_PICKLE_BOOL;
        *set[i] = value != NULL && value->kind == EXG_PICKLE_BOOL && value->as_bool;
    }
    return flags->kind == EXG_PICKLE_DICT && flags->as_items.count == known * 2;
}

static bool fits_tensor(const exg_pickle_items *args, const tensor_form *form)
{
    exg_pickle_value **a = args->items;

    return args->count >= form->count_min && args->count <= form->count_max &&
           a[0]->kind == EXG_PICKLE_STORAGE && a[1]->kind == EXG_PICKLE_INT && all_ints(a[2]) &&
           all_ints(a[3]) && a[2]->as_items.count == a[3]->as_items.count &&
           (form->requires_grad < 0 || a[form->requires_grad]->kind == EXG_PICKLE_BOOL) &&
           (form->hooks < 0 || a[form->hooks]->kind == EXG_PICKLE_DICT ||
            a[form->hooks]->kind == EXG_PICKLE_NONE) &&
           (form->quantizer < 0 || (a[form->quantizer]->kind == EXG_PICKLE_TUPLE &&
                                    a[form->quantizer]->as_items.count > 0)) &&
           (form->dtype < 0 || has_tag(a[form->dtype], EXG_TAG_DTYPE));
}

static exg_status build_tensor(const exg_pickle_global *global, const exg_pickle_items *args,
                               const tensor_form *form, exg_arena *arena, exg_pickle_value *result,
                               exg_error *err)
{
    exg_pickle_value **a = args->items;
    exg_pickle_tensor *t = EXG_NEW(arena, exg_pickle_tensor);

    if (t == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (!fits_tensor(args, form)) {
        return bad_call(global->name, err);
    }
    *t = (exg_pickle_tensor){.storage = a[0]->as_storage,
                             .dtype = a[0]->as_storage->dtype,
                             .encoding = a[0]->as_storage->encoding,
                             .offset = a[1]->as_int,
                             .sizes = &a[2]->as_items,
                             .strides = &a[3]->as_items};
    if (form->requires_grad >= 0) {
        t->requires_grad = a[form->requires_grad]->as_bool;
    }
    if (form->dtype >= 0) {
        t->dtype = a[form->dtype]->as_global->dtype;
        t->encoding = a[form->dtype]->as_global->encoding;
    }
    if (form->quantizer >= 0) {
        t->quantizer = a[form->quantizer];
    }
    if (args->count > form->count_min && !read_flags(a[form->count_min], t)) {
        return bad_call(global->name, err);
    }
    result->kind = EXG_PICKLE_TENSOR;
    result->as_tensor = t;
    return t->dtype == EXG_DTYPE_COUNT ? bad_call(global->name, err) : EXG_OK;
}

/* A tensor like `of`, which may be another's too. */
static exg_status copy_tensor(const exg_pickle_value *of, exg_arena *arena,
                              exg_pickle_value *result, exg_error *err)
{
    result->kind = EXG_PICKLE_TENSOR;
    result->as_tensor = exg_arena_memdup(arena, of->as_tensor, 1, sizeof(*of->as_tensor));
    return result->as_tensor == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

static exg_status build_parameter(const exg_pickle_global *global, const exg_pickle_items *args,
                                  exg_arena *arena, exg_pickle_value *result, exg_error *err)
{
    bool with_state = global->tag == EXG_TAG_REBUILD_PARAMETER_WITH_STATE;

    if (args->count != (with_state ? 4 : 3) || args->items[0]->kind != EXG_PICKLE_TENSOR ||
        args->items[1]->kind != EXG_PICKLE_BOOL ||
        (args->items[2]->kind != EXG_PICKLE_DICT && args->items[2]->kind != EXG_PICKLE_NONE)) {
        return bad_call(global->name, err);
    }
    EXG_TRY(copy_tensor(args->items[0], arena, result, err));
    result->as_tensor->is_param = true;
    result->as_tensor->requires_grad = args->items[1]->as_bool;
    if (with_state) {
        result->as_tensor->attributes = args->items[3];
    }
    return EXG_OK;
}

/* (what builds it, its type, the arguments, the attributes) */
static exg_status build_from_type(const exg_pickle_items *args, exg_arena *arena,
                                  exg_pickle_value *result, exg_error *err)
{
    exg_pickle_value **a = args->items;
    bool is_whole =
        args->count == 4 && a[0]->kind == EXG_PICKLE_GLOBAL && a[1]->kind == EXG_PICKLE_GLOBAL &&
        (a[1]->as_global->tag == EXG_TAG_TYPE || a[1]->as_global->tag == EXG_TAG_FOREIGN) &&
        (a[3]->kind == EXG_PICKLE_DICT || a[3]->kind == EXG_PICKLE_TUPLE);

    if (!is_whole || a[0]->as_global->tag == EXG_TAG_REBUILD_FROM_TYPE) {
        return bad_call("_rebuild_from_type_v2", err);
    }
    EXG_TRY(exg_pickle_call(a[0]->as_global, a[2], arena, result, err));
    if (result->kind != EXG_PICKLE_TENSOR) {
        return bad_call("_rebuild_from_type_v2", err);
    }
    if (a[1]->as_global->tag == EXG_TAG_FOREIGN) {
        result->as_tensor->type = a[1]->as_global;
    }
    if (result->as_tensor->attributes == NULL) {
        result->as_tensor->attributes = a[3];
    }
    return EXG_OK;
}

/* (the tensor on the CPU, dtype, device, requires_grad) */
static exg_status build_device_tensor(const exg_pickle_global *global, const exg_pickle_items *args,
                                      exg_arena *arena, exg_pickle_value *result, exg_error *err)
{
    exg_pickle_value **a = args->items;

    if (args->count != 4 || a[0]->kind != EXG_PICKLE_TENSOR || !has_tag(a[1], EXG_TAG_DTYPE) ||
        a[1]->as_global->dtype != a[0]->as_tensor->dtype || a[3]->kind != EXG_PICKLE_BOOL) {
        return bad_call(global->name, err);
    }
    EXG_TRY(copy_tensor(a[0], arena, result, err));
    result->as_tensor->requires_grad = a[3]->as_bool;
    return EXG_OK;
}

/* ---- containers -------------------------------------------------------------------------- */

/* A dict of its own of an iterable of pairs, or of a dict. */
static exg_status build_dict(const exg_pickle_value *from, exg_arena *arena,
                             exg_pickle_value *result, exg_error *err)
{
    const exg_pickle_items *items = &from->as_items;
    exg_pickle_items *made = &result->as_items;

    result->kind = EXG_PICKLE_DICT;
    *made = (exg_pickle_items){0};
    if (from->kind == EXG_PICKLE_DICT) {
        *made = *items; /* what is added to one stays its own: it moves */
        made->capacity = made->count;
        return EXG_OK;
    }
    if (!is_sequence(from)) {
        return bad_call("a dict", err);
    }
    made->capacity = items->count * 2;
    made->items = EXG_NEW_ARRAY(arena, exg_pickle_value *, made->capacity);
    if (made->items == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < items->count; i++) {
        const exg_pickle_value *pair = items->items[i];

        if (!is_sequence(pair) || pair->as_items.count != 2) {
            return bad_call("a dict", err);
        }
        made->items[made->count++] = pair->as_items.items[0];
        made->items[made->count++] = pair->as_items.items[1];
    }
    return EXG_OK;
}

static exg_status build_mapping(const exg_pickle_global *global, const exg_pickle_items *args,
                                exg_arena *arena, exg_pickle_value *result, exg_error *err)
{
    uint32_t first = global->tag == EXG_TAG_DEFAULT_DICT; /* its first makes what is missing */

    result->kind = EXG_PICKLE_DICT;
    result->as_items = (exg_pickle_items){0};
    if (args->count > first + 1) {
        return bad_call(global->name, err);
    }
    return args->count == first + 1 ? build_dict(args->items[first], arena, result, err) : EXG_OK;
}

static exg_status build_sequence(const exg_pickle_global *global, const exg_pickle_items *args,
                                 exg_pickle_value *result, exg_error *err)
{
    if (args->count > (global->tag == EXG_TAG_DEQUE ? 2u : 1u) ||
        (args->count > 0 && !is_sequence(args->items[0]))) {
        return bad_call(global->name, err);
    }
    result->as_items = (exg_pickle_items){0};
    if (args->count > 0) {
        result->as_items = args->items[0]->as_items;
        result->as_items.capacity = result->as_items.count; /* what is added moves it */
    }
    result->kind = global->tag == EXG_TAG_DEQUE ? EXG_PICKLE_LIST : EXG_PICKLE_SET;
    return EXG_OK;
}

/* UTF-8 of characters below 256 as one byte each; false: there are others. */
static bool to_latin1(const exg_pickle_text *text, char *out, size_t *length)
{
    *length = 0;
    for (size_t i = 0; i < text->length; i++) {
        unsigned char c = (unsigned char)text->data[i];

        if (c >= 0x80) {
            unsigned char d = i + 1 < text->length ? (unsigned char)text->data[i + 1] : 0;

            if ((c != 0xc2 && c != 0xc3) || (d & 0xc0) != 0x80) {
                return false;
            }
            c = (unsigned char)((c & 3) << 6 | (d & 0x3f));
            i++;
        }
        out[(*length)++] = (char)c;
    }
    return true;
}

/* _codecs.encode(text, "latin1"): how protocol 2 writes bytes. */
static exg_status build_encoded(const exg_pickle_items *args, exg_arena *arena,
                                exg_pickle_value *result, exg_error *err)
{
    char *out;

    if (args->count == 0 || args->count > 2 || args->items[0]->kind != EXG_PICKLE_STRING ||
        (args->count == 2 && (!exg_pickle_is_name(args->items[1]) ||
                              (strcmp(args->items[1]->as_text.data, "latin1") != 0 &&
                               strcmp(args->items[1]->as_text.data, "latin-1") != 0)))) {
        return bad_call("_codecs.encode", err);
    }
    result->kind = EXG_PICKLE_BYTES;
    if (args->count == 1) {
        result->as_text = args->items[0]->as_text;
        return EXG_OK;
    }
    out = exg_arena_alloc(arena, args->items[0]->as_text.length + 1, 1);
    if (out == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    result->as_text.data = out;
    return to_latin1(&args->items[0]->as_text, out, &result->as_text.length)
               ? EXG_OK
               : bad_call("_codecs.encode", err);
}

static exg_status build_bytes(const exg_pickle_global *global, const exg_pickle_items *args,
                              exg_pickle_value *result, exg_error *err)
{
    if (args->count > 1 || (args->count == 1 && args->items[0]->kind != EXG_PICKLE_BYTES)) {
        return bad_call(global->name, err);
    }
    result->kind = EXG_PICKLE_BYTES;
    result->as_text = args->count == 0 ? (exg_pickle_text){"", 0} : args->items[0]->as_text;
    return EXG_OK;
}

/* ---- small things ------------------------------------------------------------------------ */

static exg_status build_complex(const exg_pickle_items *args, exg_pickle_value *result,
                                exg_error *err)
{
    if (args->count != 2 || args->items[0]->kind != EXG_PICKLE_FLOAT ||
        args->items[1]->kind != EXG_PICKLE_FLOAT) {
        return bad_call("complex", err);
    }
    result->kind = EXG_PICKLE_COMPLEX;
    result->as_complex.real = args->items[0]->as_float;
    result->as_complex.imag = args->items[1]->as_float;
    return EXG_OK;
}

static exg_status build_device(const exg_pickle_items *args, exg_arena *arena,
                               exg_pickle_value *result, exg_error *err)
{
    if (args->count == 0 || args->count > 2 || !exg_pickle_is_name(args->items[0]) ||
        (args->count == 2 && args->items[1]->kind != EXG_PICKLE_INT)) {
        return bad_call("torch.device", err);
    }
    result->kind = EXG_PICKLE_DEVICE;
    result->as_text.data = args->count == 1
                               ? args->items[0]->as_text.data
                               : exg_arena_printf(arena, "%s:%lld", args->items[0]->as_text.data,
                                                  (long long)args->items[1]->as_int);
    if (result->as_text.data == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    result->as_text.length = strlen(result->as_text.data);
    return EXG_OK;
}

/* torch.serialization._get_layout("torch.strided") is that name. */
static exg_status build_layout(const exg_pickle_items *args, exg_arena *arena,
                               exg_pickle_value *result, exg_error *err)
{
    static const char prefix[] = "torch.";
    exg_pickle_global *made = EXG_NEW(arena, exg_pickle_global);

    if (made == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (args->count != 1 || !exg_pickle_is_name(args->items[0]) ||
        strncmp(args->items[0]->as_text.data, prefix, sizeof(prefix) - 1) != 0) {
        return bad_call("_get_layout", err);
    }
    *made = (exg_pickle_global){.module = "torch",
                                .name = args->items[0]->as_text.data + sizeof(prefix) - 1,
                                .tag = EXG_TAG_CONSTANT,
                                .dtype = EXG_DTYPE_COUNT};
    result->kind = EXG_PICKLE_GLOBAL;
    result->as_global = made;
    return EXG_OK;
}

/* ---- by name ----------------------------------------------------------------------------- */

static exg_status call_tensor(const exg_pickle_global *global, const exg_pickle_items *args,
                              exg_arena *arena, exg_pickle_value *result, exg_error *err)
{
    static const tensor_form v1 = {4, 4, -1, -1, -1, -1};
    static const tensor_form v2 = {6, 7, 4, 5, -1, -1};
    static const tensor_form v3 = {7, 8, 4, 5, 6, -1};
    static const tensor_form quantized = {7, 7, 5, 6, -1, 4};

    switch (global->tag) {
    case EXG_TAG_REBUILD_TENSOR:
        return build_tensor(global, args, &v1, arena, result, err);
    case EXG_TAG_REBUILD_TENSOR_V2:
        return build_tensor(global, args, &v2, arena, result, err);
    case EXG_TAG_REBUILD_TENSOR_V3:
        return build_tensor(global, args, &v3, arena, result, err);
    case EXG_TAG_REBUILD_QTENSOR:
        return build_tensor(global, args, &quantized, arena, result, err);
    case EXG_TAG_REBUILD_PARAMETER:
    case EXG_TAG_REBUILD_PARAMETER_WITH_STATE:
        return build_parameter(global, args, arena, result, err);
    case EXG_TAG_REBUILD_FROM_TYPE:
        return build_from_type(args, arena, result, err);
    case EXG_TAG_REBUILD_DEVICE_TENSOR:
        return build_device_tensor(global, args, arena, result, err);
    default:
        return bad_call(global->name, err);
    }
}

exg_status exg_pickle_call(const exg_pickle_global *global, exg_pickle_value *arguments,
                           exg_arena *arena, exg_pickle_value *result, exg_error *err)
{
    const exg_pickle_items *args = &arguments->as_items;

    if (arguments->kind != EXG_PICKLE_TUPLE) {
        return bad_call(global->name, err);
    }
    switch (global->tag) {
    case EXG_TAG_ORDERED_DICT:
    case EXG_TAG_COUNTER:
    case EXG_TAG_DEFAULT_DICT:
        return build_mapping(global, args, arena, result, err);
    case EXG_TAG_SET:
    case EXG_TAG_DEQUE:
        return build_sequence(global, args, result, err);
    case EXG_TAG_ENCODE:
        return build_encoded(args, arena, result, err);
    case EXG_TAG_BYTEARRAY:
        return build_bytes(global, args, result, err);
    case EXG_TAG_SIZE:
        if (args->count != 1 || !all_ints(args->items[0])) {
            return bad_call(global->name, err);
        }
        *result = *args->items[0];
        return EXG_OK;
    case EXG_TAG_COMPLEX:
        return build_complex(args, result, err);
    case EXG_TAG_DEVICE:
        return build_device(args, arena, result, err);
    case EXG_TAG_LAYOUT:
        return build_layout(args, arena, result, err);
    default:
        return call_tensor(global, args, arena, result, err);
    }
}

/* ---- states ------------------------------------------------------------------------------ */

/* torch.Tensor's (storage, offset, sizes, strides), before 0.2. */
static bool is_old_tensor(const exg_pickle_value *value, const exg_pickle_value *state)
{
    return value->kind == EXG_PICKLE_OBJECT && has_tag(value->as_object->callee, EXG_TAG_TYPE) &&
           state->kind == EXG_PICKLE_TUPLE && state->as_items.count == 4 &&
           state->as_items.items[0]->kind == EXG_PICKLE_STORAGE;
}

static bool is_state(const exg_pickle_value *state)
{
    return state->kind == EXG_PICKLE_DICT || state->kind == EXG_PICKLE_NONE ||
           state->kind == EXG_PICKLE_TUPLE;
}

exg_status exg_pickle_build(exg_pickle_value *value, exg_pickle_value *state, bool strict,
                            exg_arena *arena, exg_error *err)
{
    static const exg_pickle_global old = {.name = "torch.Tensor", .tag = EXG_TAG_REBUILD_TENSOR};

    if (is_old_tensor(value, state)) {
        return exg_pickle_call(&old, state, arena, value, err);
    }
    if (value->kind == EXG_PICKLE_OBJECT && !strict) {
        value->as_object->state = state;
        return EXG_OK;
    }
    if (value->kind == EXG_PICKLE_DICT && is_state(state)) {
        value->as_items.state = state;
        return EXG_OK;
    }
    if (value->kind == EXG_PICKLE_TENSOR && is_state(state) &&
        (value->as_tensor->is_param || !strict)) {
        value->as_tensor->attributes = state;
        return EXG_OK;
    }
    if (value->kind == EXG_PICKLE_SET && !strict) {
        return EXG_OK; /* None, of a set that has no attributes */
    }
    return EXG_FAIL(err, UNSUPPORTED, "PKL-CALL", "the pickle sets the state of an object");
}

/* ---- persistent ids ---------------------------------------------------------------------- */

static exg_status bad_id(exg_error *err)
{
    return EXG_FAIL(err, UNSUPPORTED, "PKL-CALL", "a persistent id is not what PyTorch writes");
}

/* The view (key, offset, count) of a storage, or None. */
static exg_status read_view(const exg_pickle_value *view, exg_pickle_storage *storage,
                            exg_error *err)
{
    exg_pickle_value **v = view->as_items.items;

    if (view->kind == EXG_PICKLE_NONE) {
        return EXG_OK;
    }
    if (view->kind != EXG_PICKLE_TUPLE || view->as_items.count != 3 ||
        v[1]->kind != EXG_PICKLE_INT || v[1]->as_int < 0 || v[2]->kind != EXG_PICKLE_INT ||
        v[2]->as_int < 0) {
        return bad_id(err);
    }
    storage->first = (uint64_t)v[1]->as_int;
    return EXG_OK;
}

exg_status exg_pickle_persistent(void *user, exg_pickle_value *id, exg_arena *arena,
                                 exg_pickle_value *result, exg_error *err)
{
    exg_pickle_value **a = id->as_items.items;
    uint32_t count = id->as_items.count;
    exg_pickle_storage *storage = EXG_NEW(arena, exg_pickle_storage);

    (void)user;
    if (storage == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (id->kind != EXG_PICKLE_TUPLE || count < 4 || !exg_pickle_is_name(a[0])) {
        return bad_id(err);
    }
    if (strcmp(a[0]->as_text.data, "module") == 0) { /* a class, with its source beside */
        *result = *a[1];
        return EXG_OK;
    }
    if (strcmp(a[0]->as_text.data, "storage") != 0 || count < 5 || count > 6 ||
        !has_tag(a[1], EXG_TAG_STORAGE) || !exg_pickle_is_name(a[2]) || !exg_pickle_is_name(a[3]) ||
        a[4]->kind != EXG_PICKLE_INT || a[4]->as_int < 0) {
        return bad_id(err);
    }
    *storage = (exg_pickle_storage){.key = a[2]->as_text.data,
                                    .location = a[3]->as_text.data,
                                    .encoding = a[1]->as_global->encoding,
                                    .dtype = a[1]->as_global->dtype,
                                    .count = (uint64_t)a[4]->as_int};
    result->kind = EXG_PICKLE_STORAGE;
    result->as_storage = storage;
    return count == 6 ? read_view(a[5], storage, err) : EXG_OK;
}
