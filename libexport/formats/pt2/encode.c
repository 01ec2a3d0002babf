/* encode.c - model.def as JSON: docs/pt2.md 1.2 to 1.7. */
#include "libexport/formats/pt2/encode.h"
#include "libexport/program/constant.h"

#include <string.h>

/* ---- symbols -------------------------------------------------------------------------------- */

static exg_status put_tagged(const exg_encoder *e, const char *tag, exg_model_type type,
                             const void *at)
{
    exg_json_put_open(e->out, '{');
    exg_json_put_key(e->out, tag);
    EXG_TRY(exg_encode_thing(e, type, at));
    exg_json_put_close(e->out, '}');
    return EXG_OK;
}

/* A number, or {"as_expr": {"expr_str": ..., "hint": ...}}. */
static exg_status put_sym(const exg_encoder *e, const char *expr, bool has_hint, const char *tag,
                          exg_model_type type, const void *value)
{
    if (expr == NULL) {
        return put_tagged(e, tag, type, value);
    }
    exg_json_put_open(e->out, '{');
    exg_json_member_open(e->out, "as_expr", '{');
    exg_json_member_text(e->out, "expr_str", expr);
    exg_json_put_key(e->out, "hint");
    if (has_hint) {
        EXG_TRY(put_tagged(e, tag, type, value));
    } else {
        exg_json_put_null(e->out);
    }
    exg_json_put_close(e->out, '}');
    exg_json_put_close(e->out, '}');
    return EXG_OK;
}

static exg_status put_sym_int(const exg_encoder *e, const exg_sym_int *sym)
{
    return put_sym(e, sym->expr, sym->has_hint, "as_int", EXG_MODEL_INT, &sym->value);
}

static exg_status put_sym_float(const exg_encoder *e, const exg_sym_float *sym)
{
    return put_sym(e, sym->expr, sym->has_hint, "as_float", EXG_MODEL_FLOAT, &sym->value);
}

static exg_status put_sym_bool(const exg_encoder *e, const exg_sym_bool *sym)
{
    return put_sym(e, sym->expr, sym->has_hint, "as_bool", EXG_MODEL_BOOL, &sym->value);
}

/* SymIntArgument and its kin: a name, or the constant. */
static exg_status put_sym_argument(const exg_encoder *e, const exg_sym_argument *sym,
                                   const char *tag, exg_model_type type)
{
    if (sym->value == EXG_NO_VALUE) {
        return put_tagged(e, tag, type, &sym->as_int);
    }
    return put_tagged(e, "as_name", EXG_MODEL_TEXT, &e->graph->values[sym->value].name);
}

/* ---- values --------------------------------------------------------------------------------- */

/* TensorArgument{name} */
static exg_status put_value(const exg_encoder *e, exg_value_id id)
{
    return put_tagged(e, "name", EXG_MODEL_TEXT, &e->graph->values[id].name);
}

static exg_status put_optional(const exg_encoder *e, exg_value_id id)
{
    return id == EXG_NO_VALUE ? put_tagged(e, "as_none", EXG_MODEL_NOTHING, NULL)
                              : put_tagged(e, "as_tensor", EXG_MODEL_VALUE, &id);
}

/* What the table `type` has of a value; NULL: nothing. */
static const void *entry_of(const exg_value *value, exg_model_type type, exg_model_type *of)
{
    switch (type) {
    case EXG_MODEL_TENSOR_VALUES:
        *of = EXG_MODEL_TENSOR_META;
        return value->tensor;
    case EXG_MODEL_SYM_INT_VALUES:
        *of = EXG_MODEL_SYM_INT;
        return value->sym_int;
    case EXG_MODEL_SYM_FLOAT_VALUES:
        *of = EXG_MODEL_SYM_FLOAT;
        return value->sym_float;
    default:
        *of = EXG_MODEL_SYM_BOOL;
        return value->sym_bool;
    }
}

static exg_status put_values(const exg_encoder *e, exg_model_type type)
{
    exg_json_put_open(e->out, '{');
    for (uint32_t i = 0; i < e->graph->value_count; i++) {
        const exg_value *value = &e->graph->values[i];
        const exg_custom_obj object = {value->name, value->custom_class};
        exg_model_type of = EXG_MODEL_CUSTOM_OBJ;
        const void *entry = type != EXG_MODEL_CUSTOM_OBJ_VALUES ? entry_of(value, type, &of)
                            : value->custom_class != NULL       ? &object
                                                                : NULL;

        if (entry != NULL) {
            exg_json_put_key(e->out, value->name);
            EXG_TRY(exg_encode_thing(e, of, entry));
        }
    }
    exg_json_put_close(e->out, '}');
    return EXG_OK;
}

/* ---- the walk ------------------------------------------------------------------------------- */

/* A list that may be absent, or a text. */
static bool is_absent(exg_model_items items)
{
    const char *text = items.at;

    if (items.form == EXG_MODEL_ONE && items.type == EXG_MODEL_TEXT) {
        memcpy(&text, items.at, sizeof(text));
    }
    return text == NULL;
}

static exg_status put_member(const exg_encoder *e, const exg_model_member *member,
                             exg_model_items items)
{
    exg_json_put_key(e->out, member->json);
    if (member->flag == EXG_MODEL_NULLABLE && is_absent(items)) {
        exg_json_put_null(e->out);
        return EXG_OK;
    }
    if (member->form == EXG_MODEL_WITHIN) { /* no place in the program */
        return exg_encode_items(e, items);
    }
    EXG_TRY_IN(e->err, exg_encode_items(e, items), "%s", member->json);
    return EXG_OK;
}

static exg_status put_struct(const exg_encoder *e, exg_model_type type, const void *at)
{
    const exg_model *model = &exg_models[type];
    const exg_model_member *bare = exg_model_bare(type);

    if (bare != NULL) {
        return exg_encode_items(e, exg_model_items_of(bare, at));
    }
    exg_json_put_open(e->out, '{');
    for (uint32_t m = 0; m < model->member_count; m++) {
        const exg_model_member *member = &model->members[m];
        exg_model_items items = exg_model_items_of(member, at);
        bool left_out = member->flag == EXG_MODEL_OPTIONAL && member->type == EXG_MODEL_TEXT &&
                        is_absent(items);

        if (member->json != NULL && !left_out) {
            EXG_TRY(put_member(e, member, items));
        }
    }
    exg_json_put_close(e->out, '}');
    return EXG_OK;
}

static exg_status put_graph(const exg_encoder *outer, const exg_graph *graph)
{
    exg_encoder e = *outer;

    e.graph = graph;
    return put_struct(&e, EXG_MODEL_GRAPH, graph);
}

static exg_status put_bounds(const exg_encoder *e, const exg_range_constraint *range)
{
    exg_json_put_open(e->out, '{');
    exg_json_put_key(e->out, "min_val");
    exg_json_put_optional_int(e->out, range->has_min, range->min_val);
    exg_json_put_key(e->out, "max_val");
    exg_json_put_optional_int(e->out, range->has_max, range->max_val);
    exg_json_put_close(e->out, '}');
    return EXG_OK;
}

/* ---- signature: the unions of spec.def ----------------------------------------------------- */

/* A constant in its union: an Argument, which ConstantValue is a part of. */
static exg_status put_constant(const exg_encoder *e, const exg_signature_argument *arg)
{
    exg_json_put_open(e->out, '{');
    exg_json_put_key(e->out, exg_argument_tag(arg->kind));
    EXG_TRY(exg_encode_items(e, exg_signature_constant(arg)));
    exg_json_put_close(e->out, '}');
    return EXG_OK;
}

static exg_status put_object(const exg_encoder *e, const exg_signature_argument *arg)
{
    const exg_custom_obj object = {arg->name, arg->as_string == NULL ? "" : arg->as_string};

    return exg_encode_thing(e, EXG_MODEL_CUSTOM_OBJ, &object);
}

static void put_named(const exg_encoder *e, const char *key, const char *name)
{
    exg_json_put_open(e->out, '{');
    exg_json_member_text(e->out, key, name);
    exg_json_put_close(e->out, '}');
}

/* The Argument of a user's input or output. A SymBool has no place there (S004-05). */
static exg_status put_user_arg(const exg_encoder *e, const exg_signature_argument *arg)
{
    if (arg->kind == EXG_ARGUMENT_SYM_BOOL) {
        return EXG_FAIL(e->err, UNSUPPORTED, "PT2-001",
                        "a .pt2 signature cannot hold the symbolic bool '%s'", arg->name);
    }
    if (exg_is_constant(arg->kind)) {
        return put_constant(e, arg);
    }
    exg_json_put_open(e->out, '{');
    exg_json_put_key(e->out, exg_argument_tag(arg->kind));
    if (arg->kind == EXG_ARGUMENT_CUSTOM_OBJ) {
        EXG_TRY(put_object(e, arg));
    } else {
        put_named(e, arg->kind == EXG_ARGUMENT_TENSOR ? "name" : "as_name", arg->name);
    }
    exg_json_put_close(e->out, '}');
    return EXG_OK;
}

/* Tag of a kind, and the key its target stands under. */
typedef struct spec_row {
    const char *tag;
    const char *target;
    bool is_user;
} spec_row;

enum { IS_USER = true, IS_NAMED = false, IS_OBJECT = false };

static const spec_row input_rows[] = {
#define EXG_INPUT_SPEC(kind, tag, argument, target)                                                \
    [EXG_INPUT_##kind] = {tag, target, IS_##argument},
#define EXG_OUTPUT_SPEC(kind, tag, argument, target)
#include "libexport/formats/pt2/spec.def"
#undef EXG_INPUT_SPEC
#undef EXG_OUTPUT_SPEC
};

static const spec_row output_rows[] = {
#define EXG_INPUT_SPEC(kind, tag, argument, target)
#define EXG_OUTPUT_SPEC(kind, tag, argument, target)                                               \
    [EXG_OUTPUT_##kind] = {tag, target, IS_##argument},
#include "libexport/formats/pt2/spec.def"
#undef EXG_INPUT_SPEC
#undef EXG_OUTPUT_SPEC
};

/* The argument and the target; the caller ends both objects. */
static exg_status put_spec(const exg_encoder *e, const spec_row *row,
                           const exg_signature_argument *arg, const char *target)
{
    bool object = arg->kind == EXG_ARGUMENT_CUSTOM_OBJ;

    exg_json_put_open(e->out, '{');
    exg_json_member_open(e->out, row->tag, '{');
    exg_json_put_key(e->out, "arg");
    if (row->is_user) {
        return put_user_arg(e, arg);
    }
    if (!object && arg->kind != EXG_ARGUMENT_TENSOR) {
        return EXG_FAIL(e->err, UNSUPPORTED, "PT2-001", "a %s cannot be %s in a .pt2 signature",
                        row->tag, exg_argument_tag(arg->kind));
    }
    if (row->target[0] != '\0' && target == NULL) {
        return EXG_FAIL(e->err, UNSUPPORTED, "PT2-001", "a %s without a target cannot be said",
                        row->tag);
    }
    if (object) {
        EXG_TRY(put_object(e, arg));
    } else {
        put_named(e, "name", arg->name);
    }
    if (row->target[0] != '\0') {
        exg_json_member_text(e->out, row->target, target);
    }
    return EXG_OK;
}

static exg_status put_constant_input(const exg_encoder *e, const exg_signature_argument *arg)
{
    exg_json_put_open(e->out, '{');
    exg_json_member_open(e->out, "constant_input", '{');
    exg_json_member_text(e->out, "name", arg->name);
    exg_json_put_key(e->out, "value");
    return put_constant(e, arg);
}

static exg_status put_input_spec(const exg_encoder *e, const exg_input_spec *spec)
{
    if (spec->kind == EXG_INPUT_USER && exg_is_constant(spec->arg.kind)) {
        EXG_TRY(put_constant_input(e, &spec->arg));
    } else {
        EXG_TRY(put_spec(e, &input_rows[spec->kind], &spec->arg, spec->target));
    }
    if (spec->kind == EXG_INPUT_BUFFER) {
        exg_json_member_bool(e->out, "persistent", spec->persistent != EXG_FALSE);
    }
    exg_json_put_close(e->out, '}');
    exg_json_put_close(e->out, '}');
    return EXG_OK;
}

static exg_status put_output_spec(const exg_encoder *e, const exg_output_spec *spec)
{
    EXG_TRY(put_spec(e, &output_rows[spec->kind], &spec->arg, spec->target));
    exg_json_put_close(e->out, '}');
    exg_json_put_close(e->out, '}');
    return EXG_OK;
}

/* ---- things and items ----------------------------------------------------------------------- */

static exg_status put_null(const exg_encoder *e)
{
    exg_json_put_null(e->out);
    return EXG_OK;
}

#define AT(type) (*(const type *)at)

/* A scalar that is one word. */
static bool put_word(exg_text *out, exg_model_type type, const void *at)
{
    switch (type) {
    case EXG_MODEL_NOTHING:
        exg_json_put_bool(out, true);
        return true;
    case EXG_MODEL_INT:
        exg_json_put_int(out, AT(int64_t));
        return true;
    case EXG_MODEL_UINT:
    case EXG_MODEL_STORAGE:
        exg_json_put_uint(out, AT(uint32_t));
        return true;
    case EXG_MODEL_FLOAT:
        exg_json_put_double(out, AT(double));
        return true;
    case EXG_MODEL_BOOL:
        exg_json_put_bool(out, AT(bool));
        return true;
    case EXG_MODEL_TEXT:
    case EXG_MODEL_TARGET:
        exg_json_put_text(out, AT(char *const));
        return true;
    case EXG_MODEL_DTYPE:
        exg_json_put_int(out, exg_dtype_export_number(AT(exg_dtype)));
        return true;
    case EXG_MODEL_LAYOUT:
        exg_json_put_int(out, AT(exg_layout));
        return true;
    case EXG_MODEL_MEMORY_FORMAT:
        exg_json_put_int(out, AT(exg_memory_format));
        return true;
    case EXG_MODEL_DEVICE_INDEX:
        exg_json_put_optional_int(out, AT(int64_t) >= 0, AT(int64_t));
        return true;
    case EXG_MODEL_PASSING:
        exg_json_put_optional_int(out, AT(exg_kind) != EXG_KIND_UNKNOWN, AT(exg_kind));
        return true;
    case EXG_MODEL_TRISTATE:
        exg_json_put_raw(out, AT(exg_tristate) == EXG_UNSET  ? "null"
                              : AT(exg_tristate) == EXG_TRUE ? "true"
                                                             : "false");
        return true;
    default:
        return false;
    }
}

exg_status exg_encode_thing(const exg_encoder *e, exg_model_type type, const void *at)
{
    if ((e->put != NULL && e->put(e, type, at)) || put_word(e->out, type, at)) {
        return EXG_OK;
    }
    switch (type) {
    case EXG_MODEL_VALUE:
        return put_value(e, AT(exg_value_id));
    case EXG_MODEL_OPTIONAL_VALUE:
        return put_optional(e, AT(exg_value_id));
    case EXG_MODEL_SYM_INT_ARGUMENT:
        return put_sym_argument(e, at, "as_int", EXG_MODEL_INT);
    case EXG_MODEL_SYM_FLOAT_ARGUMENT:
        return put_sym_argument(e, at, "as_float", EXG_MODEL_FLOAT);
    case EXG_MODEL_SYM_BOOL_ARGUMENT:
        return put_sym_argument(e, at, "as_bool", EXG_MODEL_BOOL);
    case EXG_MODEL_SYM_INT:
        return put_sym_int(e, at);
    case EXG_MODEL_SYM_FLOAT:
        return put_sym_float(e, at);
    case EXG_MODEL_SYM_BOOL:
        return put_sym_bool(e, at);
    case EXG_MODEL_ARGUMENT:
        exg_json_put_open(e->out, '{');
        exg_json_put_key(e->out, exg_argument_tag(AT(exg_argument).kind));
        EXG_TRY(exg_encode_items(e, exg_argument_items(at)));
        exg_json_put_close(e->out, '}');
        return EXG_OK;
    case EXG_MODEL_TENSOR_VALUES:
    case EXG_MODEL_SYM_INT_VALUES:
    case EXG_MODEL_SYM_FLOAT_VALUES:
    case EXG_MODEL_SYM_BOOL_VALUES:
    case EXG_MODEL_CUSTOM_OBJ_VALUES:
        return put_values(e, type);
    case EXG_MODEL_GRAPH:
        return put_graph(e, at);
    case EXG_MODEL_INPUT_SPEC:
        return put_input_spec(e, at);
    case EXG_MODEL_OUTPUT_SPEC:
        return put_output_spec(e, at);
    case EXG_MODEL_BOUNDS:
        return put_bounds(e, at);
    case EXG_MODEL_CALL_SIGNATURE:
        return AT(exg_module_call).has_signature ? put_struct(e, type, at) : put_null(e);
    default:
        return put_struct(e, type, at);
    }
}

exg_status exg_encode_items(const exg_encoder *e, exg_model_items items)
{
    bool is_map = items.form == EXG_MODEL_MAP;

    if (items.form == EXG_MODEL_ONE || items.form == EXG_MODEL_POINTER) {
        return exg_encode_thing(e, items.type, items.at);
    }
    exg_json_put_open(e->out, is_map ? '{' : '[');
    for (uint32_t i = 0; i < items.count; i++) {
        if (is_map) {
            exg_json_put_key(e->out, exg_model_key(items, i));
        }
        EXG_TRY_IN(e->err, exg_encode_thing(e, items.type, exg_model_item(items, i)), "[%u]", i);
    }
    exg_json_put_close(e->out, is_map ? '}' : ']');
    return EXG_OK;
}

exg_status exg_encode_program(const exg_program *program, exg_text *out, exg_error *err)
{
    return exg_encode_thing(&(exg_encoder){.out = out, .graph = program->graph, .err = err},
                            EXG_MODEL_PROGRAM, program);
}

void exg_encode_plain(exg_text *out, exg_model_type type, const void *at)
{
    exg_ignore(exg_encode_thing(&(exg_encoder){.out = out}, type, at));
}
