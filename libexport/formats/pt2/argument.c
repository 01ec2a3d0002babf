/* argument.c - Argument and its leaves, SymInt and its kin: docs/pt2.md 1.2 to 1.4. */
#include "libexport/formats/pt2/decode.h"

#include <math.h>
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
        EXG_FIELD_OF("name", EXG_FIELD_REQUIRED, field_value_id),
    };

    return exg_decode_struct(d, value, item, fields, EXG_FIELD_COUNT(fields));
}

/* True, or an empty tuple; an early program may have anything here. */
static exg_status item_none(exg_decoder *d, exg_json value, void *item)
{
    bool said;

    (void)item;
    return d->own != NULL || exg_json_type_of(value) == EXG_JSON_ARRAY
               ? EXG_OK
               : exg_json_bool(value, &said, d->err);
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
        return item_none(d, payload, NULL);
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

/* SymExprHint: a union with the tag of the sort; an early program has the bare number. */
static exg_status field_hint(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    sym_target *sym = base;
    const char *tag = "";
    uint32_t length = 0;
    exg_json payload = value;

    (void)field;
    if (d->own == NULL || exg_json_type_of(value) == EXG_JSON_OBJECT) {
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
        EXG_FIELD_OF("expr_str", EXG_FIELD_REQUIRED, field_expr),
        EXG_FIELD_OF("hint", EXG_FIELD_NULLABLE, field_hint),
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

static exg_status decode_sym_int(exg_decoder *d, exg_json value, void *item)
{
    exg_sym_int *sym = item;

    if (exg_json_type_of(value) == EXG_JSON_INT) { /* schema 1: storage_offset */
        return exg_json_int(value, &sym->value, d->err);
    }
    return decode_sym(d, value, &(sym_target){&int_form, &sym->expr, &sym->has_hint, &sym->value});
}

static exg_status decode_sym_float(exg_decoder *d, exg_json value, void *item)
{
    exg_sym_float *sym = item;

    return decode_sym(d, value,
                      &(sym_target){&float_form, &sym->expr, &sym->has_hint, &sym->value});
}

static exg_status decode_sym_bool(exg_decoder *d, exg_json value, void *item)
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

/* A number with a point is its whole part, as for PyTorch; infinity is no bound. */
static exg_status read_bound(exg_decoder *d, exg_json value, double unbounded, int64_t *bound,
                             bool *is_bound)
{
    double real = 0;

    *is_bound = true;
    if (exg_json_type_of(value) == EXG_JSON_INT) {
        return exg_json_int(value, bound, d->err);
    }
    if (exg_json_double(value, &real, NULL) != EXG_OK ||
        !(fabs(real) < 0x1p63 || real == unbounded)) {
        return exg_json_number_fault(value, d->err);
    }
    *is_bound = real != unbounded;
    *bound = *is_bound ? (int64_t)real : 0;
    return EXG_OK;
}

static exg_status field_min(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    exg_range_constraint *range = base;

    (void)field;
    return read_bound(d, value, -INFINITY, &range->min_val, &range->has_min);
}

static exg_status field_max(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    exg_range_constraint *range = base;

    (void)field;
    return read_bound(d, value, INFINITY, &range->max_val, &range->has_max);
}

/* Anything but 1 and 2 means that the file does not say. */
static exg_status item_passing(exg_decoder *d, exg_json value, void *item)
{
    exg_kind *kind = item;
    int64_t number = 0;

    EXG_TRY(exg_json_int(value, &number, d->err));
    *kind = number == 1 ? EXG_KIND_POSITIONAL : number == 2 ? EXG_KIND_KEYWORD : EXG_KIND_UNKNOWN;
    return EXG_OK;
}

static exg_status item_bounds(exg_decoder *d, exg_json value, void *item)
{
    static const exg_field fields[] = {
        EXG_FIELD_OF("min_val", EXG_FIELD_REQUIRED | EXG_FIELD_NULLABLE, field_min),
        EXG_FIELD_OF("max_val", EXG_FIELD_REQUIRED | EXG_FIELD_NULLABLE, field_max),
    };

    return exg_decode_struct(d, value, item, fields, EXG_FIELD_COUNT(fields));
}

/* ---- scalars ------------------------------------------------------------------------------ */

exg_status exg_item_int(exg_decoder *d, exg_json value, void *item)
{
    return exg_json_int(value, item, d->err);
}

static exg_status item_double(exg_decoder *d, exg_json value, void *item)
{
    return exg_json_double(value, item, d->err);
}

static exg_status item_bool(exg_decoder *d, exg_json value, void *item)
{
    return exg_json_bool(value, item, d->err);
}

static exg_status item_tristate(exg_decoder *d, exg_json value, void *item)
{
    exg_tristate *out = item;
    bool set = false;

    EXG_TRY(exg_json_bool(value, &set, d->err));
    *out = set ? EXG_TRUE : EXG_FALSE;
    return EXG_OK;
}

exg_item_fn *const exg_decode_scalars[EXG_MODEL_TYPE_COUNT] = {
    [EXG_MODEL_NOTHING] = item_none,
    [EXG_MODEL_INT] = exg_item_int,
    [EXG_MODEL_FLOAT] = item_double,
    [EXG_MODEL_BOOL] = item_bool,
    [EXG_MODEL_TRISTATE] = item_tristate,
    [EXG_MODEL_TEXT] = exg_item_text,
    [EXG_MODEL_TARGET] = exg_item_text,
    [EXG_MODEL_VALUE] = exg_item_value_name,
    [EXG_MODEL_OPTIONAL_VALUE] = item_optional_tensor,
    [EXG_MODEL_SYM_INT_ARGUMENT] = item_sym_int,
    [EXG_MODEL_SYM_FLOAT_ARGUMENT] = item_sym_float,
    [EXG_MODEL_SYM_BOOL_ARGUMENT] = item_sym_bool,
    [EXG_MODEL_DTYPE] = item_dtype,
    [EXG_MODEL_LAYOUT] = item_layout,
    [EXG_MODEL_MEMORY_FORMAT] = item_memory_format,
    [EXG_MODEL_DEVICE_INDEX] = exg_item_int,
    [EXG_MODEL_PASSING] = item_passing,
    [EXG_MODEL_ARGUMENT] = exg_decode_argument,
    [EXG_MODEL_BOUNDS] = item_bounds,
    [EXG_MODEL_SYM_INT] = decode_sym_int,
    [EXG_MODEL_SYM_FLOAT] = decode_sym_float,
    [EXG_MODEL_SYM_BOOL] = decode_sym_bool,
    [EXG_MODEL_GRAPH] = exg_decode_graph,
    [EXG_MODEL_INPUT_SPEC] = exg_decode_input_spec,
    [EXG_MODEL_OUTPUT_SPEC] = exg_decode_output_spec,
};

/* ---- Argument ---------------------------------------------------------------------------- */

typedef struct argument_row {
    const char *tag;
    uint32_t tag_length;
} argument_row;

static const argument_row argument_rows[EXG_ARGUMENT_KIND_COUNT] = {
#define EXG_ARGUMENT(id, tag, early, number, type, form)                                           \
    [EXG_ARGUMENT_##id] = {#tag, sizeof(#tag) - 1},
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
    EXG_TRY_IN(d->err,
               exg_decode_held(d, payload, exg_argument_type(argument->kind),
                               exg_argument_form(argument->kind), &argument->as_int,
                               &argument->count),
               "%s", tag);
    return EXG_OK;
}
