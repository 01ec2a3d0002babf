/* argument.c - Argument, ReturnArgument, SymInt and TensorMeta of the early schema. */
#include "libexport/formats/early/early.h"

#include <string.h>

exg_status exg_early_union(exg_decoder *d, exg_json value, const char **tag, uint32_t *length,
                           exg_json *payload)
{
    exg_json_walk walk = {0};
    exg_json member;
    const char *key;
    uint32_t key_length;
    uint32_t set = 0;

    EXG_TRY(exg_json_object(value, &walk, d->err));
    EXG_TRY(exg_json_check_own_keys(value, d->err));
    while (exg_json_next_member(&walk, &key, &key_length, &member)) {
        if (!exg_json_is_null(member)) {
            *tag = key;
            *length = key_length;
            *payload = member;
            set++;
        }
    }
    return set == 1 ? EXG_OK
                    : exg_json_fault(value, d->err, EXG_MALFORMED, "JSN-003",
                                     "exactly one member of a union is set, here %u are", set);
}

static bool is(const char *tag, uint32_t length, const char *name)
{
    return exg_decode_key_is(tag, length, name, (uint32_t)strlen(name));
}

/* ---- enums: by name, or by the seed's number (S002-108) ------------------------------------- */

static const struct {
    const char *name;
    exg_dtype dtype;
} dtypes[] = {
#define EXG_DTYPE(id, number, early, torch, safetensors, numpy, bytes, kind)                       \
    {early, EXG_DTYPE_##id},
#include <exg/dtype.def>
#undef EXG_DTYPE
};

static const struct {
    const char *name;
    int early;
    exg_layout layout;
} layouts[] = {
#define EXG_LAYOUT(id, number, early, name) {name, early, EXG_LAYOUT_##id},
#include <exg/layout.def>
#undef EXG_LAYOUT
};

static const struct {
    const char *name;
    exg_memory_format format;
} formats[] = {
#define EXG_MEMORY_FORMAT(id, number, name) {name, EXG_MEMORY_FORMAT_##id},
#include <exg/memory_format.def>
#undef EXG_MEMORY_FORMAT
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* A name, or a number in *number with *name NULL. */
static exg_status enum_member(exg_decoder *d, exg_json value, const char **name, int64_t *number)
{
    *name = NULL;
    *number = 0;
    return exg_json_type_of(value) == EXG_JSON_INT ? exg_json_int(value, number, d->err)
                                                   : exg_json_string(value, name, NULL, d->err);
}

static exg_status no_member(exg_decoder *d, exg_json value, const char *of, const char *name,
                            int64_t number)
{
    return name != NULL ? exg_json_fault(value, d->err, EXG_MALFORMED, "JSN-004", "\"%s\" is no %s",
                                         name, of)
                        : exg_json_fault(value, d->err, EXG_MALFORMED, "JSN-004", "%lld is no %s",
                                         (long long)number, of);
}

static exg_status early_dtype(exg_decoder *d, exg_json value, void *item)
{
    exg_dtype *dtype = item;
    const char *name;
    int64_t number;

    EXG_TRY(enum_member(d, value, &name, &number));
    for (size_t i = 0; i < COUNT(dtypes); i++) {
        if (dtypes[i].name[0] != '\0' &&
            (name != NULL ? strcmp(name, dtypes[i].name) == 0
                          : number == exg_dtype_export_number(dtypes[i].dtype))) {
            *dtype = dtypes[i].dtype;
            return EXG_OK;
        }
    }
    return no_member(d, value, "ScalarType of the early schema", name, number);
}

static exg_status early_layout(exg_decoder *d, exg_json value, void *item)
{
    exg_layout *layout = item;
    const char *name;
    int64_t number;

    EXG_TRY(enum_member(d, value, &name, &number));
    for (size_t i = 0; i < COUNT(layouts); i++) {
        if (layouts[i].early != 0 &&
            (name != NULL ? strcmp(name, layouts[i].name) == 0 : number == layouts[i].early)) {
            *layout = layouts[i].layout;
            return EXG_OK;
        }
    }
    return no_member(d, value, "Layout", name, number);
}

static exg_status early_memory_format(exg_decoder *d, exg_json value, void *item)
{
    exg_memory_format *format = item;
    const char *name;
    int64_t number;

    EXG_TRY(enum_member(d, value, &name, &number));
    for (size_t i = 0; i < COUNT(formats); i++) {
        if (formats[i].format != EXG_MEMORY_FORMAT_UNKNOWN &&
            (name != NULL ? strcmp(name, formats[i].name) == 0
                          : number == (int64_t)formats[i].format)) {
            *format = formats[i].format;
            return EXG_OK;
        }
    }
    return no_member(d, value, "MemoryFormat", name, number);
}

/* ---- tensors -------------------------------------------------------------------------------- */

exg_status exg_early_sym_int(exg_decoder *d, exg_json value, void *item)
{
    exg_sym_int *sym = item;
    const char *tag = "";
    uint32_t length = 0;
    exg_json payload = value;

    EXG_TRY(exg_early_union(d, value, &tag, &length, &payload));
    if (is(tag, length, "as_int")) {
        return exg_json_int(payload, &sym->value, d->err);
    }
    if (is(tag, length, "as_sym")) {
        return exg_decoder_text(d, payload, &sym->expr);
    }
    return exg_decode_unknown_tag(d, value, "SymInt", tag);
}

exg_status exg_early_tensor_meta(exg_decoder *d, exg_json value, void *item)
{
    static const exg_meta_form form = {early_dtype, early_layout, exg_early_sym_int};

    return exg_decode_meta_form(d, value, &form, item);
}

/* ---- arguments ------------------------------------------------------------------------------ */

exg_status exg_early_tensor_name(exg_decoder *d, exg_json value, void *item)
{
    exg_argument *arg = item;

    arg->kind = EXG_ARGUMENT_TENSOR;
    return exg_item_value_name(d, value, &arg->as_tensor);
}

static exg_status item_sym(exg_decoder *d, exg_json value, void *item)
{
    exg_sym_argument *sym = item;

    return exg_item_value_name(d, value, &sym->value);
}

/* `1` is taken as 1.0 (S002-44). */
static exg_status item_double(exg_decoder *d, exg_json value, void *item)
{
    double *out = item;
    int64_t whole = 0;

    if (exg_json_type_of(value) != EXG_JSON_INT) {
        return exg_json_double(value, out, d->err);
    }
    EXG_TRY(exg_json_int(value, &whole, d->err));
    *out = (double)whole;
    return EXG_OK;
}

static exg_status item_branch(exg_decoder *d, exg_json value, void *item)
{
    exg_early_branch_argument *branch = EXG_NEW(d->arena, exg_early_branch_argument);

    if (branch == NULL) {
        return exg_decoder_out_of_memory(d);
    }
    *(exg_graph_argument **)item = &branch->base;
    return exg_early_branch(d, value, branch);
}

/* The seed's seventeen, and the list result that its comment foresees. */
static const struct {
    const char *tag;
    exg_argument_kind kind;
    size_t bytes; /* of a list's items, 0: a leaf */
    exg_item_fn *item;
} rows[] = {
    {"as_none", EXG_ARGUMENT_NONE, 0, exg_item_none},
    {"as_tensor", EXG_ARGUMENT_TENSOR, 0, exg_item_value_name},
    {"as_tensors", EXG_ARGUMENT_TENSORS, sizeof(exg_value_id), exg_item_value_name},
    {"as_symint", EXG_ARGUMENT_SYM_INT, 0, item_sym},
    {"as_symints", EXG_ARGUMENT_SYM_INTS, sizeof(exg_sym_argument), item_sym},
    {"as_bool", EXG_ARGUMENT_BOOL, 0, exg_item_bool},
    {"as_bools", EXG_ARGUMENT_BOOLS, sizeof(bool), exg_item_bool},
    {"as_int", EXG_ARGUMENT_INT, 0, exg_item_int},
    {"as_ints", EXG_ARGUMENT_INTS, sizeof(int64_t), exg_item_int},
    {"as_float", EXG_ARGUMENT_FLOAT, 0, item_double},
    {"as_floats", EXG_ARGUMENT_FLOATS, sizeof(double), item_double},
    {"as_str", EXG_ARGUMENT_STRING, 0, exg_item_text},
    {"as_gm", EXG_ARGUMENT_GRAPH, 0, item_branch},
    {"as_scalar_type", EXG_ARGUMENT_SCALAR_TYPE, 0, early_dtype},
    {"as_memory_format", EXG_ARGUMENT_MEMORY_FORMAT, 0, early_memory_format},
    {"as_layout", EXG_ARGUMENT_LAYOUT, 0, early_layout},
    {"as_device", EXG_ARGUMENT_DEVICE, 0, exg_decode_device},
};

exg_status exg_early_argument(exg_decoder *d, exg_json value, void *item)
{
    exg_argument *arg = item;
    const char *tag = "";
    uint32_t length = 0;
    exg_json payload = value;
    size_t r = 0;

    EXG_TRY(exg_early_union(d, value, &tag, &length, &payload));
    while (r < COUNT(rows) && !is(tag, length, rows[r].tag)) {
        r++;
    }
    if (r == COUNT(rows)) {
        return exg_decode_unknown_tag(d, value, "Argument", tag);
    }
    *arg = (exg_argument){.kind = rows[r].kind};
    if (rows[r].bytes > 0) {
        EXG_TRY_IN(
            d->err,
            exg_decode_array(d, payload, rows[r].bytes, rows[r].item, &arg->as_ints, &arg->count),
            "%s", rows[r].tag);
    } else { /* every leaf begins where the union does */
        EXG_TRY_IN(d->err, rows[r].item(d, payload, &arg->as_int), "%s", rows[r].tag);
    }
    return EXG_OK;
}

exg_status exg_early_return(exg_decoder *d, exg_json value, void *item)
{
    exg_argument *arg = item;

    EXG_TRY(exg_early_argument(d, value, arg));
    if (arg->kind != EXG_ARGUMENT_TENSOR && arg->kind != EXG_ARGUMENT_TENSORS &&
        arg->kind != EXG_ARGUMENT_SYM_INT) {
        return exg_json_fault(value, d->err, EXG_MALFORMED, "JSN-003",
                              "an operator does not return %s", exg_argument_tag(arg->kind));
    }
    return EXG_OK;
}
