/* saved_forms.c - objects whose form is known: modules, DTensors, sparse, nested and quantised
 * tensors, arrays of NumPy. */
#include "libexport/formats/pt2/saved_walk.h"

#include "libexport/formats/pt2/numpy_pickle.h"
#include "libexport/weights/storage.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) ((uint32_t)(sizeof(array) / sizeof((array)[0])))

static exg_status no_memory(exg_walker *w)
{
    return EXG_OUT_OF_MEMORY(w->err);
}

static exg_status skip_text(exg_walker *w, exg_text *kind, exg_skipped_code code)
{
    exg_status status = exg_text_string(kind) == NULL
                            ? no_memory(w)
                            : exg_walk_skip(w, exg_text_string(kind), code);

    exg_text_free(kind);
    return status;
}

/* The arguments, when there are at least `count`; or NULL. */
static exg_pickle_value **arguments_of(const exg_pickle_object *object, uint32_t count)
{
    return object->arguments != NULL && object->arguments->kind == EXG_PICKLE_TUPLE &&
                   object->arguments->as_items.count >= count
               ? object->arguments->as_items.items
               : NULL;
}

static exg_pickle_tag tag_of(const exg_pickle_value *value)
{
    return value->kind == EXG_PICKLE_OBJECT && value->as_object->callee->kind == EXG_PICKLE_GLOBAL
               ? value->as_object->callee->as_global->tag
               : EXG_TAG_FOREIGN;
}

/* ---- sparse, nested and meta tensors ----------------------------------------------------- */

/* (layout, (indices, values, size, is_coalesced)), or (layout, (compressed, plain, values, size)):
 * as PyTorch calls these. */
static exg_status walk_sparse(exg_walker *w, const exg_pickle_object *object, unsigned flags,
                              bool *done)
{
    static const char *const coo[] = {"layout", "indices", "values", "size", "is_coalesced"};
    static const char *const rows[] = {"layout", "crow_indices", "col_indices", "values", "size"};
    static const char *const columns[] = {"layout", "ccol_indices", "row_indices", "values",
                                          "size"};
    exg_pickle_value **a = arguments_of(object, 2);
    exg_pickle_value *values[5] = {NULL};
    const char *layout;
    const exg_pickle_items *parts;

    if (a == NULL || a[0]->kind != EXG_PICKLE_GLOBAL || a[1]->kind != EXG_PICKLE_TUPLE) {
        return EXG_OK;
    }
    layout = a[0]->as_global->name;
    parts = &a[1]->as_items;
    if (parts->count < 3 || parts->count > 4) {
        return EXG_OK;
    }
    values[0] = a[0];
    memcpy(values + 1, parts->items, parts->count * sizeof(*values));
    *done = true;
    return exg_walk_push_named(
        w,
        strcmp(layout, "sparse_coo") == 0                                        ? coo
        : strcmp(layout, "sparse_csc") == 0 || strcmp(layout, "sparse_bsc") == 0 ? columns
                                                                                 : rows,
        values, 5, flags);
}

static exg_status walk_nested(exg_walker *w, const exg_pickle_object *object, unsigned flags,
                              bool *done)
{
    static const char *const names[] = {"values", "sizes", "strides", "storage_offsets"};
    exg_pickle_value **a = arguments_of(object, COUNT_OF(names));

    if (a == NULL) {
        return EXG_OK;
    }
    *done = true;
    return exg_walk_push_named(w, names, a, COUNT_OF(names), flags);
}

/* "a meta tensor, torch.float32 of (2, 3), which holds no data" */
static exg_status list_empty(exg_walker *w, const char *what, const exg_pickle_value *dtype,
                             const exg_pickle_value *size, exg_skipped_code code)
{
    exg_text kind = EXG_TEXT_EMPTY;

    exg_text_printf(&kind, "%s, ", what);
    exg_pickle_put(&kind, dtype);
    exg_text_puts(&kind, " of ");
    exg_pickle_put(&kind, size);
    exg_text_puts(&kind, ", which holds no data");
    return skip_text(w, &kind, code);
}

static exg_status walk_meta(exg_walker *w, const exg_pickle_object *object, bool *done)
{
    exg_pickle_value **a = arguments_of(object, 2);

    *done = a != NULL;
    return a == NULL ? EXG_OK : list_empty(w, "a meta tensor", a[0], a[1], EXG_CODE_NONE);
}

/* (class, dtype, size, ...) without the state that would hold data. */
static exg_status walk_wrapper(exg_walker *w, const exg_pickle_object *object, bool *done)
{
    exg_pickle_value **a = arguments_of(object, 3);
    exg_text what = EXG_TEXT_EMPTY;
    exg_skipped_code code = EXG_CODE_NONE;
    exg_status status;

    if (a == NULL || object->state != NULL) { /* what holds something is walked */
        return EXG_OK;
    }
    *done = true;
    if (a[0]->kind == EXG_PICKLE_GLOBAL) {
        a[0]->as_global->told = true;
        code = a[0]->as_global->code;
    }
    exg_pickle_put(&what, a[0]);
    status = exg_text_string(&what) == NULL
                 ? no_memory(w)
                 : list_empty(w, exg_text_string(&what), a[1], a[2], code);
    exg_text_free(&what);
    return status;
}

/* ---- quantised tensors ------------------------------------------------------------------- */

static exg_status add_number(exg_walker *w, const char *name, exg_dtype dtype, const void *number,
                             unsigned flags)
{
    exg_dense dense = {.dtype = dtype,
                       .byte_order = exg_host_byte_order(),
                       .data = number,
                       .bytes = exg_dtype_bytes(dtype)};
    size_t length = w->name.length;
    exg_status status;

    exg_text_printf(&w->name, "%s%s", length == 0 ? "" : ".", name);
    status = w->name.failed ? no_memory(w) : exg_walk_add_bytes(w, &dense, flags);
    if (w->name.data != NULL) {
        w->name.length = length;
        w->name.data[length] = '\0';
    }
    return status;
}

exg_status exg_walk_quantizer(exg_walker *w, const exg_pickle_tensor *tensor, unsigned flags)
{
    static const char *const numbers[] = {"qscheme"};
    static const char *const tensors[] = {"qscheme", "scale", "zero_point", "axis", "shape"};
    const exg_pickle_items *q = &tensor->quantizer->as_items;
    exg_pickle_value shape = {.kind = EXG_PICKLE_TUPLE, .as_items = *tensor->sizes};
    exg_pickle_value *values[5] = {NULL};

    flags &= ~(unsigned)EXG_WALK_PARAMETER;
    if (q->count == 3 && q->items[1]->kind == EXG_PICKLE_FLOAT &&
        q->items[2]->kind == EXG_PICKLE_INT) {
        EXG_TRY(add_number(w, "scale", EXG_DTYPE_F64, &q->items[1]->as_float, flags));
        EXG_TRY(add_number(w, "zero_point", EXG_DTYPE_I64, &q->items[2]->as_int, flags));
        return exg_walk_push_named(w, numbers, q->items, 1, flags);
    }
    for (uint32_t i = 0; i < q->count && i < 4; i++) {
        values[i] = q->items[i];
    }
    values[4] = exg_arena_memdup(w->arena, &shape, 1, sizeof(shape));
    return values[4] == NULL ? no_memory(w) : exg_walk_push_named(w, tensors, values, 5, flags);
}

/* ---- NumPy ------------------------------------------------------------------------------- */

static exg_status walk_numpy(exg_walker *w, exg_pickle_value *value, unsigned flags, bool *done)
{
    exg_numpy numpy;
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status = exg_numpy_read(value->as_object, w->arena, &numpy, &text, w->err);

    *done = true;
    if (status == EXG_OK) {
        switch (numpy.form) {
        case EXG_NUMPY_DENSE:
            status = exg_walk_add_bytes(w, &numpy.dense, flags);
            break;
        case EXG_NUMPY_TEXT:
            status = exg_text_string(&text) == NULL
                         ? no_memory(w)
                         : exg_walk_metadata(
                               w,
                               &(exg_pickle_value){
                                   .kind = EXG_PICKLE_STRING,
                                   .as_text = {text.data == NULL ? "" : text.data, text.length}},
                               flags);
            break;
        case EXG_NUMPY_OBJECTS:
            status = exg_walk_push(w, &numpy.objects->as_items, EXG_WALK_PLACES, flags, NULL);
            /* fall through */
        case EXG_NUMPY_NONE:
            if (status == EXG_OK) {
                exg_text kind = EXG_TEXT_EMPTY;

                exg_text_printf(&kind, "an array of NumPy%s%s",
                                numpy.descr[0] == '\0' ? "" : " of ", numpy.descr);
                status = skip_text(w, &kind, EXG_CODE_NONE);
            }
            break;
        }
    }
    exg_text_free(&text);
    return status;
}

/* ---- DTensor ----------------------------------------------------------------------------- */

static bool same_sizes(const exg_pickle_items *a, const exg_pickle_value *b)
{
    if (b->kind != EXG_PICKLE_TUPLE || b->as_items.count != a->count) {
        return false;
    }
    for (uint32_t i = 0; i < a->count; i++) {
        if (b->as_items.items[i]->kind != EXG_PICKLE_INT ||
            b->as_items.items[i]->as_int != a->items[i]->as_int) {
            return false;
        }
    }
    return true;
}

/* The text as a value; NULL: out of memory. */
static exg_pickle_value *new_text(exg_walker *w, const exg_text *text)
{
    exg_pickle_value *made = EXG_NEW(w->arena, exg_pickle_value);
    const char *copy =
        exg_text_string(text) == NULL ? NULL : exg_arena_strdup(w->arena, exg_text_string(text));

    if (made == NULL || copy == NULL) {
        return NULL;
    }
    made->kind = EXG_PICKLE_STRING;
    made->as_text = (exg_pickle_text){copy, strlen(copy)};
    return made;
}

/* Its local tensor under its own name; when that is not all of it, this is told. */
static exg_status walk_dtensor(exg_walker *w, const exg_pickle_object *object, unsigned flags,
                               bool *done)
{
    static const char *const names[] = {"placements"};
    exg_pickle_value *local = exg_pickle_attribute(object->state, "_local_tensor");
    exg_pickle_value *spec = exg_pickle_attribute(object->state, "_spec");
    exg_pickle_value **outer = arguments_of(object, 1);
    exg_pickle_value *placements = spec != NULL && spec->kind == EXG_PICKLE_OBJECT
                                       ? exg_pickle_attribute(spec->as_object->state, "placements")
                                       : NULL;
    exg_text text = EXG_TEXT_EMPTY;
    exg_pickle_value **whole;
    exg_pickle_value *placed;
    exg_status status = EXG_OK;

    if (local == NULL || local->kind != EXG_PICKLE_TENSOR || placements == NULL || outer == NULL ||
        tag_of(outer[0]) != EXG_TAG_REBUILD_WRAPPER ||
        (whole = arguments_of(outer[0]->as_object, 3)) == NULL) {
        return EXG_OK;
    }
    *done = true;
    object->callee->as_global->told = true;
    exg_pickle_put(&text, placements);
    placed = new_text(w, &text);
    if (placed == NULL) {
        exg_text_free(&text);
        return no_memory(w);
    }
    if (!same_sizes(local->as_tensor->sizes, whole[2]) || strstr(text.data, "Partial") != NULL) {
        exg_text kind = EXG_TEXT_EMPTY;

        exg_text_puts(&kind, "the rest of a DTensor of ");
        exg_pickle_put(&kind, whole[2]);
        exg_text_printf(&kind, ", placements %s", text.data);
        status = skip_text(w, &kind, EXG_CODE_NONE);
    }
    exg_text_free(&text);
    EXG_TRY(status);
    EXG_TRY(exg_walk_push_named(w, names, &placed, 1, flags));
    return exg_walk_push_here(w, local, flags);
}

/* ---- modules ----------------------------------------------------------------------------- */

static bool is_one_of(const exg_pickle_value *key, const char *const *names, uint32_t count)
{
    for (uint32_t i = 0; i < count && key->kind == EXG_PICKLE_STRING; i++) {
        if (key->as_text.length == strlen(names[i]) &&
            memcmp(key->as_text.data, names[i], key->as_text.length) == 0) {
            return true;
        }
    }
    return false;
}

static bool holds_text(const exg_pickle_value *set, const exg_pickle_value *text)
{
    for (uint32_t i = 0; set != NULL && set->kind == EXG_PICKLE_SET && i < set->as_items.count;
         i++) {
        const exg_pickle_value *item = set->as_items.items[i];

        if (item->kind == EXG_PICKLE_STRING && text->kind == EXG_PICKLE_STRING &&
            item->as_text.length == text->as_text.length &&
            memcmp(item->as_text.data, text->as_text.data, text->as_text.length) == 0) {
            return true;
        }
    }
    return false;
}

static const char *const module_parts[] = {"_parameters", "_buffers", "_modules"};

/* torch.nn.Module's __dict__: the state, or the first argument of what rebuilds a GraphModule. */
static const exg_pickle_value *module_state(const exg_pickle_object *object)
{
    exg_pickle_value **a = arguments_of(object, 1);
    const exg_pickle_value *state = object->state != NULL ? object->state : a == NULL ? NULL : a[0];

    for (uint32_t i = 0; i < COUNT_OF(module_parts); i++) {
        const exg_pickle_value *part = exg_pickle_get(state, module_parts[i]);

        if (part == NULL || part->kind != EXG_PICKLE_DICT) {
            return NULL;
        }
    }
    return state;
}

/* Which keys of a dict a frame takes. */
typedef bool take_key(const exg_pickle_value *key, const exg_pickle_value *set);

static bool is_attribute(const exg_pickle_value *key, const exg_pickle_value *set)
{
    (void)set;
    return !is_one_of(key, module_parts, COUNT_OF(module_parts));
}

static bool is_persistent(const exg_pickle_value *key, const exg_pickle_value *set)
{
    return !holds_text(set, key);
}

static exg_status push_some(exg_walker *w, const exg_pickle_value *dict, take_key *take,
                            const exg_pickle_value *set, bool taken, unsigned flags,
                            exg_pickle_value *closes)
{
    const exg_pickle_items *from = &dict->as_items;
    exg_pickle_items *items = EXG_NEW(w->arena, exg_pickle_items);

    if (items == NULL ||
        (items->items = EXG_NEW_ARRAY(w->arena, exg_pickle_value *, from->count)) == NULL) {
        return no_memory(w);
    }
    for (uint32_t i = 0; i + 1 < from->count; i += 2) {
        if (take(from->items[i], set) == taken) {
            items->items[items->count++] = from->items[i];
            items->items[items->count++] = from->items[i + 1];
        }
    }
    return exg_walk_push(w, items, EXG_WALK_PAIRS, flags, closes);
}

/* Parameters, buffers, modules, as state_dict() goes; then what it leaves out. */
static exg_status walk_module(exg_walker *w, exg_pickle_value *value, const exg_pickle_value *state,
                              unsigned flags)
{
    const exg_pickle_value *buffers = exg_pickle_get(state, "_buffers");
    const exg_pickle_value *set = exg_pickle_get(state, "_non_persistent_buffers_set");
    unsigned within = (flags & ~(unsigned)(EXG_WALK_PARAMETER | EXG_WALK_MODULE)) | EXG_WALK_INSIDE;
    unsigned outside = within | EXG_WALK_OUTSIDE | EXG_WALK_MODULE;

    if (value->open) {
        return EXG_OK; /* a module below itself gives the same names without end */
    }
    EXG_TRY(
        exg_walk_list(w, value, (flags & EXG_WALK_INSIDE) != 0 ? flags | EXG_WALK_QUIET : flags));
    if ((flags & EXG_WALK_INSIDE) != 0) {
        outside |= EXG_WALK_QUIET;
    }
    EXG_TRY(push_some(w, state, is_attribute, NULL, true, outside, value));
    EXG_TRY(push_some(w, buffers, is_persistent, set, false, outside, NULL));
    EXG_TRY(exg_walk_push(w, &exg_pickle_get(state, "_modules")->as_items, EXG_WALK_PAIRS,
                          within | EXG_WALK_QUIET, NULL));
    EXG_TRY(push_some(w, buffers, is_persistent, set, true, within | EXG_WALK_QUIET, NULL));
    return exg_walk_push(w, &exg_pickle_get(state, "_parameters")->as_items, EXG_WALK_PAIRS,
                         within | EXG_WALK_QUIET, NULL);
}

/* ---- by name ----------------------------------------------------------------------------- */

/* A Parameter around what is no plain tensor. */
static exg_status walk_parameter(exg_walker *w, const exg_pickle_object *object, unsigned flags,
                                 bool *done)
{
    exg_pickle_value **a = arguments_of(object, 1);

    if (a == NULL || (a[0]->kind != EXG_PICKLE_OBJECT && a[0]->kind != EXG_PICKLE_TENSOR)) {
        return EXG_OK;
    }
    *done = true;
    EXG_TRY(exg_walk_push_attributes(w, object->state, flags));
    if (object->callee->as_global->tag == EXG_TAG_REBUILD_PARAMETER_WITH_STATE &&
        object->arguments->as_items.count == 4) {
        EXG_TRY(exg_walk_push_attributes(w, a[3], flags));
    }
    return exg_walk_push_here(w, a[0], flags | EXG_WALK_PARAMETER);
}

exg_status exg_walk_known(exg_walker *w, exg_pickle_value *value, unsigned flags, bool *done)
{
    const exg_pickle_object *object = value->as_object;
    const exg_pickle_value *state;

    switch (tag_of(value)) {
    case EXG_TAG_REBUILD_SPARSE:
        return walk_sparse(w, object, flags, done);
    case EXG_TAG_REBUILD_NESTED:
        return walk_nested(w, object, flags, done);
    case EXG_TAG_REBUILD_META:
        return walk_meta(w, object, done);
    case EXG_TAG_REBUILD_WRAPPER:
        return walk_wrapper(w, object, done);
    case EXG_TAG_REBUILD_PARAMETER:
    case EXG_TAG_REBUILD_PARAMETER_WITH_STATE:
    case EXG_TAG_TYPE:
        return walk_parameter(w, object, flags, done);
    case EXG_TAG_NUMPY_SCALAR:
    case EXG_TAG_NUMPY_RECONSTRUCT:
    case EXG_TAG_NUMPY_FROMBUFFER:
        return walk_numpy(w, value, flags, done);
    case EXG_TAG_NUMPY_DTYPE:
        *done = true;
        return exg_walk_metadata(w, value, flags);
    default:
        break;
    }
    if (object->callee->kind == EXG_PICKLE_GLOBAL &&
        strcmp(object->callee->as_global->name, "DTensor") == 0) {
        EXG_TRY(walk_dtensor(w, object, flags, done));
    }
    state = *done ? NULL : module_state(object);
    if (state != NULL) {
        *done = true;
        return walk_module(w, value, state, flags);
    }
    return EXG_OK;
}
