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

static exg_item_fn *const own[EXG_MODEL_TYPE_COUNT] = {
    [EXG_MODEL_DTYPE] = early_dtype,
    [EXG_MODEL_LAYOUT] = early_layout,
    [EXG_MODEL_MEMORY_FORMAT] = early_memory_format,
    [EXG_MODEL_SYM_INT] = exg_early_sym_int,
    [EXG_MODEL_SYM_INT_ARGUMENT] = item_sym,
    [EXG_MODEL_FLOAT] = item_double,
};

void exg_early_decoder(exg_decoder *d, exg_arena *arena, exg_error *err)
{
    exg_decoder_init(d, arena, err);
    d->own = own;
}

/* The seed's seventeen, and the list result that its comment foresees. */
static const char *const tags[EXG_ARGUMENT_KIND_COUNT] = {
#define EXG_ARGUMENT(id, tag, early, number, type, form) [EXG_ARGUMENT_##id] = #early,
#include <exg/argument.def>
#undef EXG_ARGUMENT
};

exg_status exg_early_argument(exg_decoder *d, exg_json value, void *item)
{
    exg_argument *arg = item;
    const char *tag = "";
    uint32_t length = 0;
    exg_json payload = value;
    exg_argument_kind kind = 0;

    EXG_TRY(exg_early_union(d, value, &tag, &length, &payload));
    while (kind < EXG_ARGUMENT_KIND_COUNT && !is(tag, length, tags[kind])) {
        kind++;
    }
    if (kind == EXG_ARGUMENT_KIND_COUNT || length == 0) {
        return exg_decode_unknown_tag(d, value, "Argument", tag);
    }
    *arg = (exg_argument){.kind = kind};
    if (kind == EXG_ARGUMENT_GRAPH) { /* with what it has of its own, while the file is read */
        EXG_TRY_IN(d->err, item_branch(d, payload, &arg->as_graph), "%s", tags[kind]);
        return EXG_OK;
    }
    EXG_TRY_IN(d->err,
               exg_decode_held(d, payload, exg_argument_type(kind), exg_argument_form(kind),
                               &arg->as_int, &arg->count),
               "%s", tags[kind]);
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
