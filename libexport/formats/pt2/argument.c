/* argument.c - Argument and its leaves, TensorMeta, SymInt: sections 1.2 to 1.4. */
#include "libexport/formats/pt2/decode.h"

#include <string.h>

/* ---- names --------------------------------------------------------------------------- */

static exg_status value_id(exg_decoder *d, exg_json name, exg_value_id *id)
{
    const char *text;
    uint32_t length;

    if (exg_json_type_of(name) != EXG_JSON_STRING) {
        return exg_json_string(name, &text, NULL, d->err);
    }
    text = exg_json_text_at(name.doc, name.at, &length);
    return exg_decoder_value(d, name, text, length, id);
}

static exg_status field_value_id(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    (void)field;
    return value_id(d, value, base);
}

exg_status exg_item_value_name(exg_decoder *d, exg_json value, void *item)
{
    static const exg_field fields[] = {
        {"name", 4, EXG_FIELD_REQUIRED, field_value_id, 0},
    };

    return exg_decode_struct(d, value, item, fields, EXG_FIELD_COUNT(fields));
}

static bool tag_is(const char *tag, uint32_t length, const char *name)
{
    return exg_decode_key_is(tag, length, name, (uint32_t)strlen(name));
}

/* OptionalTensorArgument; schema 1 wrote the bare name. */
static exg_status item_optional_tensor(exg_decoder *d, exg_json value, void *item)
{
    exg_value_id *id = item;
    const char *tag = "";
    uint32_t length = 0;
    exg_json payload = value;

    EXG_TRY(exg_decode_union(d, value, &tag, &length, &payload));
    if (tag_is(tag, length, "as_none")) {
        *id = EXG_NO_VALUE;
        return EXG_OK;
    }
    if (!tag_is(tag, length, "as_tensor")) {
        return exg_decode_unknown_tag(d, value, "OptionalTensorArgument", tag);
    }
    if (exg_json_type_of(payload) == EXG_JSON_STRING) {
        return value_id(d, payload, id);
    }
    EXG_TRY_IN(d->err, exg_item_value_name(d, payload, id), "as_tensor");
    return EXG_OK;
}

/* ---- symbols -------------------------------------------------------------------------- */

/* Where the parts of a SymInt, SymFloat or SymBool go. */
typedef struct sym_form {
    const char *constant; /* tag of the number */
    const char *hint;     /* tag of the hint */
    exg_status (*number)(exg_json value, void *out, exg_error *err);
    const char *name;
} sym_form;

typedef struct sym_target {
    const sym_form *form;
    const char **expr;
    bool *has_hint;
    void *value;
} sym_target;

static exg_status get_int(exg_json value, void *out, exg_error *err)
{
    return exg_json_int(value, out, err);
}

static exg_status get_double(exg_json value, void *out, exg_error *err)
{
    return exg_json_double(value, out, err);
}

static exg_status get_bool(exg_json value, void *out, exg_error *err)
{
    return exg_json_bool(value, out, err);
}

/* SymExprHint: a union with the tag of the sort; schema 1 wrote the bare number. */
static exg_status field_hint(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    sym_target *sym = base;
    const char *tag = "";
    uint32_t length = 0;
    exg_json payload = value;

    (void)field;
    if (exg_json_type_of(value) == EXG_JSON_OBJECT) {
        EXG_TRY(exg_decode_union(d, value, &tag, &length, &payload));
        if (!tag_is(tag, length, sym->form->hint)) {
            return exg_json_fault(value, d->err, EXG_MALFORMED, "SYM-002",
                                  "the hint of a %s is %s, not %s", sym->form->name,
                                  sym->form->hint, tag);
        }
    }
    EXG_TRY(sym->form->number(payload, sym->value, d->err));
    *sym->has_hint = true;
    return EXG_OK;
}

static exg_status field_expr(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    sym_target *sym = base;

    (void)field;
    return exg_decoder_text(d, value, sym->expr);
}

static exg_status decode_sym(exg_decoder *d, exg_json value, sym_target *sym)
{
    static const exg_field fields[] = {
        {"expr_str", 8, EXG_FIELD_REQUIRED, field_expr, 0},
        {"hint", 4, EXG_FIELD_NULLABLE, field_hint, 0},
    };
    const char *tag = "";
    uint32_t length = 0;
    exg_json payload = value;

    EXG_TRY(exg_decode_union(d, value, &tag, &length, &payload));
    if (tag_is(tag, length, sym->form->constant)) {
        EXG_TRY_IN(d->err, sym->form->number(payload, sym->value, d->err), "%s", tag);
        return EXG_OK;
    }
    if (!tag_is(tag, length, "as_expr")) {
        return exg_decode_unknown_tag(d, value, sym->form->name, tag);
    }
    if (exg_json_type_of(payload) == EXG_JSON_STRING) { /* early SymBool */
        return exg_decoder_text(d, payload, sym->expr);
    }
    EXG_TRY_IN(d->err, exg_decode_struct(d, payload, sym, fields, EXG_FIELD_COUNT(fields)),
               "as_expr");
    return EXG_OK;
}

static const sym_form int_form = {"as_int", "as_int", get_int, "SymInt"};
static const sym_form float_form = {"as_float", "as_float", get_double, "SymFloat"};
static const sym_form bool_form = {"as_bool", "as_bool", get_bool, "SymBool"};

exg_status exg_decode_sym_int(exg_decoder *d, exg_json value, void *item)
{
    exg_sym_int *sym = item;

    if (exg_json_type_of(value) == EXG_JSON_INT) { /* schema 1: storage_offset */
        return exg_json_int(value, &sym->value, d->err);
    }
    return decode_sym(d, value, &(sym_target){&int_form, &sym->expr, &sym->has_hint, &sym->value});
}

exg_status exg_decode_sym_float(exg_decoder *d, exg_json value, void *item)
{
    exg_sym_float *sym = item;

    return decode_sym(d, value,
                      &(sym_target){&float_form, &sym->expr, &sym->has_hint, &sym->value});
}

exg_status exg_decode_sym_bool(exg_decoder *d, exg_json value, void *item)
{
    exg_sym_bool *sym = item;

    return decode_sym(d, value, &(sym_target){&bool_form, &sym->expr, &sym->has_hint, &sym->value});
}

/* SymIntArgument and its kin: as_name, or the constant. */
static exg_status decode_sym_argument(exg_decoder *d, exg_json value, exg_sym_argument *sym,
                                      const sym_form *form, void *constant)
{
    const char *tag = "";
    uint32_t length = 0;
    exg_json payload = value;

    EXG_TRY(exg_decode_union(d, value, &tag, &length, &payload));
    sym->value = EXG_NO_VALUE;
    if (tag_is(tag, length, "as_name")) {
        EXG_TRY_IN(d->err, value_id(d, payload, &sym->value), "as_name");
        return EXG_OK;
    }
    if (!tag_is(tag, length, form->constant)) {
        return exg_decode_unknown_tag(d, value, form->name, tag);
    }
    EXG_TRY_IN(d->err, form->number(payload, constant, d->err), "%s", tag);
    return EXG_OK;
}

static exg_status item_sym_int(exg_decoder *d, exg_json value, void *item)
{
    exg_sym_argument *sym = item;

    return decode_sym_argument(d, value, sym, &int_form, &sym->as_int);
}

static exg_status item_sym_float(exg_decoder *d, exg_json value, void *item)
{
    exg_sym_argument *sym = item;

    return decode_sym_argument(d, value, sym, &float_form, &sym->as_float);
}

static exg_status item_sym_bool(exg_decoder *d, exg_json value, void *item)
{
    exg_sym_argument *sym = item;

    return decode_sym_argument(d, value, sym, &bool_form, &sym->as_bool);
}

/* ---- enums, devices, tensors ------------------------------------------------------------ */

/* An enum's number in [low, high]: JSN-004. */
static exg_status enum_number(exg_decoder *d, exg_json value, const char *name, int64_t low,
                              int64_t high, int64_t *number)
{
    EXG_TRY(exg_json_int(value, number, d->err));
    if (*number < low || *number > high) {
        return exg_json_fault(value, d->err, EXG_MALFORMED, "JSN-004", "%lld is no %s",
                              (long long)*number, name);
    }
    return EXG_OK;
}

static exg_status item_dtype(exg_decoder *d, exg_json value, void *item)
{
    exg_dtype *dtype = item;
    int64_t number = 0;

    EXG_TRY(exg_json_int(value, &number, d->err));
    *dtype = number == 0 ? EXG_DTYPE_COUNT : exg_dtype_from_export_number(number);
    if (*dtype == EXG_DTYPE_COUNT) {
        return exg_json_fault(value, d->err, EXG_MALFORMED, "JSN-004", "%lld is no ScalarType",
                              (long long)number);
    }
    return EXG_OK;
}

static exg_status item_layout(exg_decoder *d, exg_json value, void *item)
{
    exg_layout *layout = item;
    int64_t number = 0;

    EXG_TRY(enum_number(d, value, "Layout", EXG_LAYOUT_UNKNOWN, EXG_LAYOUT_STRIDED, &number));
    *layout = (exg_layout)number;
    return EXG_OK;
}

static exg_status item_memory_format(exg_decoder *d, exg_json value, void *item)
{
    exg_memory_format *format = item;
    int64_t number = 0;

    EXG_TRY(enum_number(d, value, "MemoryFormat", EXG_MEMORY_FORMAT_CONTIGUOUS,
                        EXG_MEMORY_FORMAT_PRESERVE, &number));
    *format = (exg_memory_format)number;
    return EXG_OK;
}

exg_status exg_decode_device(exg_decoder *d, exg_json value, void *item)
{
    static const exg_field fields[] = {
        EXG_FIELD(exg_device, type, "type", EXG_FIELD_REQUIRED, exg_field_text),
        EXG_FIELD(exg_device, index, "index", EXG_FIELD_NULLABLE, exg_field_int),
    };
    exg_device *device = item;

    device->index = -1;
    return exg_decode_struct(d, value, device, fields, EXG_FIELD_COUNT(fields));
}

/* A tensor's meta on its way: the two lists must have one length. */
typedef struct half_meta {
    exg_tensor_meta meta;
    uint32_t stride_count;
    const exg_meta_form *form;
} half_meta;

static exg_status field_dtype(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    half_meta *half = base;

    (void)field;
    return half->form->dtype(d, value, &half->meta.dtype);
}

static exg_status field_layout(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    half_meta *half = base;

    (void)field;
    return half->form->layout(d, value, &half->meta.layout);
}

static exg_status field_device(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    return exg_decode_device(d, value, (char *)base + field->offset);
}

static exg_status field_offset(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    half_meta *half = base;

    (void)field;
    return half->form->sym_int(d, value, &half->meta.storage_offset);
}

static exg_status field_sizes(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    half_meta *half = base;

    (void)field;
    return exg_decode_array(d, value, sizeof(exg_sym_int), half->form->sym_int, &half->meta.sizes,
                            &half->meta.rank);
}

static exg_status field_strides(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    half_meta *half = base;

    (void)field;
    return exg_decode_array(d, value, sizeof(exg_sym_int), half->form->sym_int, &half->meta.strides,
                            &half->stride_count);
}

exg_status exg_decode_meta_form(exg_decoder *d, exg_json value, const exg_meta_form *form,
                                exg_tensor_meta *meta)
{
    static const exg_field fields[] = {
        EXG_FIELD(half_meta, meta.dtype, "dtype", EXG_FIELD_REQUIRED, field_dtype),
        EXG_FIELD(half_meta, meta.sizes, "sizes", EXG_FIELD_REQUIRED, field_sizes),
        EXG_FIELD(half_meta, meta.requires_grad, "requires_grad", EXG_FIELD_REQUIRED,
                  exg_field_bool),
        EXG_FIELD(half_meta, meta.device, "device", EXG_FIELD_REQUIRED, field_device),
        EXG_FIELD(half_meta, meta.strides, "strides", EXG_FIELD_REQUIRED, field_strides),
        EXG_FIELD(half_meta, meta.storage_offset, "storage_offset", EXG_FIELD_REQUIRED,
                  field_offset),
        EXG_FIELD(half_meta, meta.layout, "layout", EXG_FIELD_REQUIRED, field_layout),
    };
    half_meta half = {.form = form};

    EXG_TRY(exg_decode_struct(d, value, &half, fields, EXG_FIELD_COUNT(fields)));
    if (half.meta.rank != half.stride_count) {
        return exg_json_fault(value, d->err, EXG_MALFORMED, "WGT-011", "%u sizes and %u strides",
                              half.meta.rank, half.stride_count);
    }
    *meta = half.meta;
    return EXG_OK;
}

exg_status exg_decode_tensor_meta(exg_decoder *d, exg_json value, void *item)
{
    static const exg_meta_form form = {item_dtype, item_layout, exg_decode_sym_int};

    return exg_decode_meta_form(d, value, &form, item);
}

/* Schema 1 wrote {blob}: an object without a name. */
exg_status exg_decode_custom_obj(exg_decoder *d, exg_json value, void *item)
{
    static const exg_field fields[] = {
        EXG_FIELD(exg_custom_obj, name, "name", EXG_FIELD_REQUIRED, exg_field_text),
        EXG_FIELD(exg_custom_obj, class_fqn, "class_fqn", EXG_FIELD_REQUIRED, exg_field_text),
    };

    return exg_decode_struct(d, value, item, fields, EXG_FIELD_COUNT(fields));
}

/* ---- Argument ---------------------------------------------------------------------------- */

/* How a kind is decoded: one leaf at `offset`, or a list of `bytes` each. */
typedef struct argument_row {
    const char *tag;
    uint32_t tag_length;
    size_t bytes; /* of a list's items, 0 for a leaf */
    exg_item_fn *item;
} argument_row;

exg_status exg_item_none(exg_decoder *d, exg_json value, void *item)
{
    (void)d;
    (void)value;
    (void)item;
    return EXG_OK;
}

exg_status exg_item_int(exg_decoder *d, exg_json value, void *item)
{
    return exg_json_int(value, item, d->err);
}

static exg_status item_double(exg_decoder *d, exg_json value, void *item)
{
    return exg_json_double(value, item, d->err);
}

exg_status exg_item_bool(exg_decoder *d, exg_json value, void *item)
{
    return exg_json_bool(value, item, d->err);
}

static exg_status item_complex(exg_decoder *d, exg_json value, void *item)
{
    static const exg_field fields[] = {
        {"real", 4, EXG_FIELD_REQUIRED, exg_field_double, 0},
        {"imag", 4, EXG_FIELD_REQUIRED, exg_field_double, sizeof(double)},
    };

    return exg_decode_struct(d, value, item, fields, EXG_FIELD_COUNT(fields));
}

static exg_status item_tensor_list(exg_decoder *d, exg_json value, void *item)
{
    exg_value_list *list = item;

    return exg_decode_array(d, value, sizeof(exg_value_id), exg_item_value_name, &list->items,
                            &list->count);
}

static exg_status item_int_list(exg_decoder *d, exg_json value, void *item)
{
    exg_int_list *list = item;

    return exg_decode_array(d, value, sizeof(int64_t), exg_item_int, &list->items, &list->count);
}

static exg_status item_float_list(exg_decoder *d, exg_json value, void *item)
{
    exg_float_list *list = item;

    return exg_decode_array(d, value, sizeof(double), item_double, &list->items, &list->count);
}

static exg_status field_graph(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    exg_graph_argument *graph = base;

    (void)field;
    graph->graph = EXG_NEW(d->arena, exg_graph);
    return graph->graph == NULL ? exg_decoder_out_of_memory(d)
                                : exg_decode_graph(d, value, graph->graph);
}

static exg_status item_graph(exg_decoder *d, exg_json value, void *item)
{
    static const exg_field fields[] = {
        EXG_FIELD(exg_graph_argument, name, "name", EXG_FIELD_REQUIRED, exg_field_text),
        EXG_FIELD(exg_graph_argument, graph, "graph", EXG_FIELD_REQUIRED, field_graph),
    };
    exg_graph_argument **graph = item;

    *graph = EXG_NEW(d->arena, exg_graph_argument);
    return *graph == NULL ? exg_decoder_out_of_memory(d)
                          : exg_decode_struct(d, value, *graph, fields, EXG_FIELD_COUNT(fields));
}

static exg_status item_custom_obj(exg_decoder *d, exg_json value, void *item)
{
    exg_custom_obj **object = item;

    *object = EXG_NEW(d->arena, exg_custom_obj);
    return *object == NULL ? exg_decoder_out_of_memory(d)
                           : exg_decode_custom_obj(d, value, *object);
}

static exg_status named_argument_member(exg_decoder *d, const char *key, uint32_t key_length,
                                        exg_json value, void *item)
{
    exg_string_argument *pair = item;

    EXG_TRY(exg_decoder_keep(d, value, key, key_length, &pair->key));
    return exg_decode_argument(d, value, &pair->argument);
}

/* How each kind is decoded: a list's item size (0: a leaf) and who does it. A kind
 * of argument.def without a line here does not compile. */
#define LEAF(item)              0, item
#define LIST(type, item)        sizeof(type), item
#define FORM_NONE               LEAF(exg_item_none)
#define FORM_TENSOR             LEAF(exg_item_value_name)
#define FORM_TENSORS            LIST(exg_value_id, exg_item_value_name)
#define FORM_INT                LEAF(exg_item_int)
#define FORM_INTS               LIST(int64_t, exg_item_int)
#define FORM_FLOAT              LEAF(item_double)
#define FORM_FLOATS             LIST(double, item_double)
#define FORM_STRING             LEAF(exg_item_text)
#define FORM_STRINGS            LIST(const char *, exg_item_text)
#define FORM_SYM_INT            LEAF(item_sym_int)
#define FORM_SYM_INTS           LIST(exg_sym_argument, item_sym_int)
#define FORM_SCALAR_TYPE        LEAF(item_dtype)
#define FORM_MEMORY_FORMAT      LEAF(item_memory_format)
#define FORM_LAYOUT             LEAF(item_layout)
#define FORM_DEVICE             LEAF(exg_decode_device)
#define FORM_BOOL               LEAF(exg_item_bool)
#define FORM_BOOLS              LIST(bool, exg_item_bool)
#define FORM_SYM_BOOL           LEAF(item_sym_bool)
#define FORM_SYM_BOOLS          LIST(exg_sym_argument, item_sym_bool)
#define FORM_OPTIONAL_TENSORS   LIST(exg_value_id, item_optional_tensor)
#define FORM_GRAPH              LEAF(item_graph)
#define FORM_CUSTOM_OBJ         LEAF(item_custom_obj)
#define FORM_OPERATOR           LEAF(exg_item_text)
#define FORM_SYM_FLOAT          LEAF(item_sym_float)
#define FORM_SYM_FLOATS         LIST(exg_sym_argument, item_sym_float)
#define FORM_OPTIONAL_TENSOR    LEAF(item_optional_tensor)
#define FORM_COMPLEX            LEAF(item_complex)
#define FORM_NESTED_TENSORS     LIST(exg_value_list, item_tensor_list)
#define FORM_INT_LISTS          LIST(exg_int_list, item_int_list)
#define FORM_STRING_TO_ARGUMENT LEAF(NULL) /* an object: see below */
#define FORM_FLOAT_LISTS        LIST(exg_float_list, item_float_list)

static const argument_row argument_rows[EXG_ARGUMENT_KIND_COUNT] = {
#define EXG_ARGUMENT(id, tag, early, number, type, form)                                           \
    [EXG_ARGUMENT_##id] = {#tag, sizeof(#tag) - 1, FORM_##id},
#include <exg/argument.def>
#undef EXG_ARGUMENT
};

exg_status exg_decode_argument(exg_decoder *d, exg_json value, void *item)
{
    exg_argument *argument = item;
    const argument_row *row = argument_rows;
    const char *tag = "";
    uint32_t length = 0;
    exg_json payload = value;
    exg_status status;

    EXG_TRY(exg_decode_union(d, value, &tag, &length, &payload));
    while (row < argument_rows + EXG_ARGUMENT_KIND_COUNT &&
           (row->tag_length != length || memcmp(row->tag, tag, length) != 0)) {
        row++;
    }
    if (row == argument_rows + EXG_ARGUMENT_KIND_COUNT) {
        return exg_decode_unknown_tag(d, value, "Argument", tag);
    }
    argument->kind = (exg_argument_kind)(row - argument_rows);
    argument->count = 0;
    if (argument->kind == EXG_ARGUMENT_STRING_TO_ARGUMENT) {
        status = exg_decode_map(d, payload, sizeof(exg_string_argument), named_argument_member,
                                &argument->as_string_to_argument, &argument->count);
    } else if (row->bytes > 0) {
        status = exg_decode_array(d, payload, row->bytes, row->item, &argument->as_ints,
                                  &argument->count);
    } else { /* every leaf begins where the union does */
        status = row->item(d, payload, &argument->as_int);
    }
    if (status != EXG_OK) {
        return exg_error_within(d->err, status, "%s", tag);
    }
    return EXG_OK;
}
