/* encode_argument.c - Argument, TensorMeta, SymInt as JSON: sections 1.2 to 1.4. */
#include "libexport/formats/pt2/encode.h"

/* ---- symbols and tensors -------------------------------------------------------------------- */

static void put_tagged_int(exg_text *out, int64_t value)
{
    exg_json_put_open(out, '{');
    exg_json_member_int(out, "as_int", value);
    exg_json_put_close(out, '}');
}

static void put_tagged_double(exg_text *out, double value)
{
    exg_json_put_open(out, '{');
    exg_json_member_double(out, "as_float", value);
    exg_json_put_close(out, '}');
}

static void put_tagged_bool(exg_text *out, bool value)
{
    exg_json_put_open(out, '{');
    exg_json_member_bool(out, "as_bool", value);
    exg_json_put_close(out, '}');
}

/* {"as_expr": {"expr_str": ..., "hint": ...}}; the caller puts the hint and ends. */
static void begin_expr(exg_text *out, const char *expr)
{
    exg_json_put_open(out, '{');
    exg_json_put_key(out, "as_expr");
    exg_json_put_open(out, '{');
    exg_json_member_text(out, "expr_str", expr);
    exg_json_put_key(out, "hint");
}

static void end_expr(exg_text *out, bool has_hint)
{
    if (!has_hint) {
        exg_json_put_null(out);
    }
    exg_json_put_close(out, '}');
    exg_json_put_close(out, '}');
}

void exg_encode_sym_int(exg_text *out, const exg_sym_int *sym)
{
    if (sym->expr != NULL) {
        begin_expr(out, sym->expr);
    }
    if (sym->expr == NULL || sym->has_hint) {
        put_tagged_int(out, sym->value);
    }
    if (sym->expr != NULL) {
        end_expr(out, sym->has_hint);
    }
}

void exg_encode_sym_float(exg_text *out, const exg_sym_float *sym)
{
    if (sym->expr != NULL) {
        begin_expr(out, sym->expr);
    }
    if (sym->expr == NULL || sym->has_hint) {
        put_tagged_double(out, sym->value);
    }
    if (sym->expr != NULL) {
        end_expr(out, sym->has_hint);
    }
}

void exg_encode_sym_bool(exg_text *out, const exg_sym_bool *sym)
{
    if (sym->expr != NULL) {
        begin_expr(out, sym->expr);
    }
    if (sym->expr == NULL || sym->has_hint) {
        put_tagged_bool(out, sym->value);
    }
    if (sym->expr != NULL) {
        end_expr(out, sym->has_hint);
    }
}

static void put_device(exg_text *out, const exg_device *device)
{
    exg_json_put_open(out, '{');
    exg_json_member_text(out, "type", device->type);
    if (device->index < 0) {
        exg_json_member_null(out, "index");
    } else {
        exg_json_member_int(out, "index", device->index);
    }
    exg_json_put_close(out, '}');
}

static void put_sym_ints(exg_text *out, const exg_sym_int *syms, uint32_t count)
{
    exg_json_put_open(out, '[');
    for (uint32_t i = 0; i < count; i++) {
        exg_encode_sym_int(out, &syms[i]);
    }
    exg_json_put_close(out, ']');
}

void exg_encode_tensor_meta(exg_text *out, const exg_tensor_meta *meta)
{
    exg_json_put_open(out, '{');
    exg_json_member_int(out, "dtype", exg_dtype_export_number(meta->dtype));
    exg_json_put_key(out, "sizes");
    put_sym_ints(out, meta->sizes, meta->rank);
    exg_json_member_bool(out, "requires_grad", meta->requires_grad);
    exg_json_put_key(out, "device");
    put_device(out, &meta->device);
    exg_json_put_key(out, "strides");
    put_sym_ints(out, meta->strides, meta->rank);
    exg_json_put_key(out, "storage_offset");
    exg_encode_sym_int(out, &meta->storage_offset);
    exg_json_member_int(out, "layout", meta->layout);
    exg_json_put_close(out, '}');
}

/* ---- leaves --------------------------------------------------------------------------------- */

/* TensorArgument{name} */
static void put_name(exg_text *out, const exg_graph *graph, exg_value_id id)
{
    exg_json_put_open(out, '{');
    exg_json_member_text(out, "name", graph->values[id].name);
    exg_json_put_close(out, '}');
}

static void put_names(exg_text *out, const exg_graph *graph, const exg_value_id *ids,
                      uint32_t count)
{
    exg_json_put_open(out, '[');
    for (uint32_t i = 0; i < count; i++) {
        put_name(out, graph, ids[i]);
    }
    exg_json_put_close(out, ']');
}

static void put_optional(exg_text *out, const exg_graph *graph, exg_value_id id)
{
    if (id == EXG_NO_VALUE) {
        exg_json_put_open(out, '{');
        exg_json_member_bool(out, "as_none", true);
        exg_json_put_close(out, '}');
        return;
    }
    exg_json_put_open(out, '{');
    exg_json_put_key(out, "as_tensor");
    put_name(out, graph, id);
    exg_json_put_close(out, '}');
}

/* SymIntArgument and its kin, of `kind` or of the list of it. */
static void put_sym(exg_text *out, const exg_graph *graph, const exg_sym_argument *sym,
                    exg_argument_kind kind)
{
    if (sym->value != EXG_NO_VALUE) {
        exg_json_put_open(out, '{');
        exg_json_member_text(out, "as_name", graph->values[sym->value].name);
        exg_json_put_close(out, '}');
    } else if (kind == EXG_ARGUMENT_SYM_INT || kind == EXG_ARGUMENT_SYM_INTS) {
        put_tagged_int(out, sym->as_int);
    } else if (kind == EXG_ARGUMENT_SYM_FLOAT || kind == EXG_ARGUMENT_SYM_FLOATS) {
        put_tagged_double(out, sym->as_float);
    } else {
        put_tagged_bool(out, sym->as_bool);
    }
}

static void put_ints(exg_text *out, const int64_t *items, uint32_t count)
{
    exg_json_put_open(out, '[');
    for (uint32_t i = 0; i < count; i++) {
        exg_json_put_int(out, items[i]);
    }
    exg_json_put_close(out, ']');
}

static void put_doubles(exg_text *out, const double *items, uint32_t count)
{
    exg_json_put_open(out, '[');
    for (uint32_t i = 0; i < count; i++) {
        exg_json_put_double(out, items[i]);
    }
    exg_json_put_close(out, ']');
}

static void put_custom_obj(exg_text *out, const exg_custom_obj *object)
{
    exg_json_put_open(out, '{');
    exg_json_member_text(out, "name", object->name);
    exg_json_member_text(out, "class_fqn", object->class_fqn);
    exg_json_put_close(out, '}');
}

static void put_graph(exg_text *out, const exg_graph_argument *graph)
{
    exg_json_put_open(out, '{');
    exg_json_member_text(out, "name", graph->name);
    exg_json_put_key(out, "graph");
    exg_encode_graph(out, graph->graph);
    exg_json_put_close(out, '}');
}

static void put_complex(exg_text *out, const exg_complex_number *number)
{
    exg_json_put_open(out, '{');
    exg_json_member_double(out, "real", number->real);
    exg_json_member_double(out, "imag", number->imag);
    exg_json_put_close(out, '}');
}

/* ---- Argument ------------------------------------------------------------------------------- */

/* Item `i` of a list kind. */
static void put_item(exg_text *out, const exg_graph *graph, const exg_argument *arg, uint32_t i)
{
    switch (arg->kind) {
    case EXG_ARGUMENT_TENSORS:
        put_name(out, graph, arg->as_tensors[i]);
        break;
    case EXG_ARGUMENT_OPTIONAL_TENSORS:
        put_optional(out, graph, arg->as_tensors[i]);
        break;
    case EXG_ARGUMENT_INTS:
        exg_json_put_int(out, arg->as_ints[i]);
        break;
    case EXG_ARGUMENT_FLOATS:
        exg_json_put_double(out, arg->as_floats[i]);
        break;
    case EXG_ARGUMENT_STRINGS:
        exg_json_put_text(out, arg->as_strings[i]);
        break;
    case EXG_ARGUMENT_BOOLS:
        exg_json_put_bool(out, arg->as_bools[i]);
        break;
    case EXG_ARGUMENT_NESTED_TENSORS:
        put_names(out, graph, arg->as_nested_tensors[i].items, arg->as_nested_tensors[i].count);
        break;
    case EXG_ARGUMENT_INT_LISTS:
        put_ints(out, arg->as_int_lists[i].items, arg->as_int_lists[i].count);
        break;
    case EXG_ARGUMENT_FLOAT_LISTS:
        put_doubles(out, arg->as_float_lists[i].items, arg->as_float_lists[i].count);
        break;
    default: /* SYM_INTS, SYM_FLOATS, SYM_BOOLS */
        put_sym(out, graph, &arg->as_syms[i], arg->kind);
        break;
    }
}

static void put_list(exg_text *out, const exg_graph *graph, const exg_argument *arg)
{
    exg_json_put_open(out, '[');
    for (uint32_t i = 0; i < arg->count; i++) {
        put_item(out, graph, arg, i);
    }
    exg_json_put_close(out, ']');
}

static void put_members(exg_text *out, const exg_graph *graph, const exg_argument *arg)
{
    exg_json_put_open(out, '{');
    for (uint32_t i = 0; i < arg->count; i++) {
        exg_json_put_key(out, arg->as_string_to_argument[i].key);
        exg_encode_argument(out, graph, &arg->as_string_to_argument[i].argument);
    }
    exg_json_put_close(out, '}');
}

static void put_payload(exg_text *out, const exg_graph *graph, const exg_argument *arg)
{
    switch (arg->kind) {
    case EXG_ARGUMENT_NONE:
    case EXG_ARGUMENT_KIND_COUNT:
        exg_json_put_bool(out, true);
        break;
    case EXG_ARGUMENT_TENSOR:
        put_name(out, graph, arg->as_tensor);
        break;
    case EXG_ARGUMENT_OPTIONAL_TENSOR:
        put_optional(out, graph, arg->as_tensor);
        break;
    case EXG_ARGUMENT_INT:
        exg_json_put_int(out, arg->as_int);
        break;
    case EXG_ARGUMENT_FLOAT:
        exg_json_put_double(out, arg->as_float);
        break;
    case EXG_ARGUMENT_BOOL:
        exg_json_put_bool(out, arg->as_bool);
        break;
    case EXG_ARGUMENT_STRING:
    case EXG_ARGUMENT_OPERATOR:
        exg_json_put_text(out, arg->as_string);
        break;
    case EXG_ARGUMENT_SYM_INT:
    case EXG_ARGUMENT_SYM_FLOAT:
    case EXG_ARGUMENT_SYM_BOOL:
        put_sym(out, graph, &arg->as_sym, arg->kind);
        break;
    case EXG_ARGUMENT_SCALAR_TYPE:
        exg_json_put_int(out, exg_dtype_export_number(arg->as_scalar_type));
        break;
    case EXG_ARGUMENT_MEMORY_FORMAT:
        exg_json_put_int(out, (int)arg->as_memory_format);
        break;
    case EXG_ARGUMENT_LAYOUT:
        exg_json_put_int(out, (int)arg->as_layout);
        break;
    case EXG_ARGUMENT_DEVICE:
        put_device(out, &arg->as_device);
        break;
    case EXG_ARGUMENT_GRAPH:
        put_graph(out, arg->as_graph);
        break;
    case EXG_ARGUMENT_CUSTOM_OBJ:
        put_custom_obj(out, arg->as_custom_obj);
        break;
    case EXG_ARGUMENT_COMPLEX:
        put_complex(out, &arg->as_complex);
        break;
    case EXG_ARGUMENT_STRING_TO_ARGUMENT:
        put_members(out, graph, arg);
        break;
    case EXG_ARGUMENT_TENSORS:
    case EXG_ARGUMENT_OPTIONAL_TENSORS:
    case EXG_ARGUMENT_INTS:
    case EXG_ARGUMENT_FLOATS:
    case EXG_ARGUMENT_STRINGS:
    case EXG_ARGUMENT_SYM_INTS:
    case EXG_ARGUMENT_SYM_FLOATS:
    case EXG_ARGUMENT_SYM_BOOLS:
    case EXG_ARGUMENT_BOOLS:
    case EXG_ARGUMENT_NESTED_TENSORS:
    case EXG_ARGUMENT_INT_LISTS:
    case EXG_ARGUMENT_FLOAT_LISTS:
        put_list(out, graph, arg);
        break;
    }
}

void exg_encode_argument(exg_text *out, const exg_graph *graph, const exg_argument *arg)
{
    exg_json_put_open(out, '{');
    exg_json_put_key(out, exg_argument_tag(arg->kind));
    put_payload(out, graph, arg);
    exg_json_put_close(out, '}');
}
