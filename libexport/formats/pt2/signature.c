/* signature.c - InputSpec and OutputSpec: docs/pt2.md 1.6. */
#include "libexport/formats/pt2/decode.h"

#include <string.h>

/* What a spec's members are gathered in. */
typedef struct half_spec {
    exg_signature_argument arg;
    const char *target;
    exg_tristate persistent;
} half_spec;

/* ---- arguments of specs ------------------------------------------------------------------- */

/* ConstantValue: the kinds of Argument that hold no value of the graph. */
static exg_status decode_constant(exg_decoder *d, exg_json value, exg_signature_argument *arg)
{
    exg_argument argument = {0};

    EXG_TRY(exg_decode_argument(d, value, &argument));
    arg->kind = argument.kind;
    switch (argument.kind) {
    case EXG_ARGUMENT_NONE:
        return EXG_OK;
    case EXG_ARGUMENT_INT:
        arg->as_int = argument.as_int;
        return EXG_OK;
    case EXG_ARGUMENT_FLOAT:
        arg->as_float = argument.as_float;
        return EXG_OK;
    case EXG_ARGUMENT_STRING:
        arg->as_string = argument.as_string;
        return EXG_OK;
    case EXG_ARGUMENT_BOOL:
        arg->as_bool = argument.as_bool;
        return EXG_OK;
    default: /* thirty kinds that are no constants */
        return exg_json_fault(value, d->err, EXG_MALFORMED, "JSN-003",
                              "%s is no constant of a signature", exg_argument_tag(argument.kind));
    }
}

/* The name of a symbolic argument, or the constant it is. */
static void sym_constant(exg_decoder *d, const exg_argument *argument, exg_signature_argument *arg)
{
    const exg_sym_argument *sym = &argument->as_sym;

    if (sym->value != EXG_NO_VALUE) {
        arg->kind = argument->kind;
        arg->name = exg_decoder_value_at(d, sym->value)->name;
        return;
    }
    switch (argument->kind) {
    case EXG_ARGUMENT_SYM_INT:
        arg->kind = EXG_ARGUMENT_INT;
        arg->as_int = sym->as_int;
        break;
    case EXG_ARGUMENT_SYM_FLOAT:
        arg->kind = EXG_ARGUMENT_FLOAT;
        arg->as_float = sym->as_float;
        break;
    default: /* SYM_BOOL, the only kind left */
        arg->kind = EXG_ARGUMENT_BOOL;
        arg->as_bool = sym->as_bool;
        break;
    }
}

/* The Argument of a user input or output. */
static exg_status field_user_arg(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    half_spec *half = base;
    exg_argument argument = {0};

    (void)field;
    EXG_TRY(exg_decode_argument(d, value, &argument));
    half->arg.name = "";
    switch (argument.kind) {
    case EXG_ARGUMENT_TENSOR:
        half->arg.kind = EXG_ARGUMENT_TENSOR;
        half->arg.name = exg_decoder_value_at(d, argument.as_tensor)->name;
        return EXG_OK;
    case EXG_ARGUMENT_SYM_INT:
    case EXG_ARGUMENT_SYM_FLOAT:
    case EXG_ARGUMENT_SYM_BOOL:
        sym_constant(d, &argument, &half->arg);
        return EXG_OK;
    case EXG_ARGUMENT_CUSTOM_OBJ:
        half->arg.kind = EXG_ARGUMENT_CUSTOM_OBJ;
        half->arg.name = argument.as_custom_obj->name;
        half->arg.as_string = argument.as_custom_obj->class_fqn;
        return EXG_OK;
    default: /* constants, or nothing a signature can say */
        return decode_constant(d, value, &half->arg);
    }
}

static exg_status field_arg_name(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    half_spec *half = base;

    (void)field;
    return exg_decoder_text(d, value, &half->arg.name);
}

/* TensorArgument, TokenArgument */
static exg_status field_named_arg(exg_decoder *d, exg_json value, void *base,
                                  const exg_field *field)
{
    static const exg_field fields[] = {
        EXG_FIELD_OF("name", EXG_FIELD_REQUIRED, field_arg_name),
    };
    half_spec *half = base;

    (void)field;
    half->arg.kind = EXG_ARGUMENT_TENSOR;
    return exg_decode_struct(d, value, half, fields, EXG_FIELD_COUNT(fields));
}

static exg_status field_object_arg(exg_decoder *d, exg_json value, void *base,
                                   const exg_field *field)
{
    half_spec *half = base;
    exg_custom_obj object = {0};

    (void)field;
    EXG_TRY(exg_decode_thing(d, value, EXG_MODEL_CUSTOM_OBJ, &object));
    half->arg.kind = EXG_ARGUMENT_CUSTOM_OBJ;
    half->arg.name = object.name;
    half->arg.as_string = object.class_fqn;
    return EXG_OK;
}

static exg_status field_constant(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    half_spec *half = base;

    (void)field;
    return decode_constant(d, value, &half->arg);
}

/* ---- specs ------------------------------------------------------------------------------------
 */

#define ARG(decode)                                                                                \
    {                                                                                              \
        "arg", 3, EXG_FIELD_REQUIRED, decode, 0                                                    \
    }
#define TARGET(key)                                                                                \
    {                                                                                              \
        key, sizeof(key) - 1, EXG_FIELD_REQUIRED, exg_field_text, offsetof(half_spec, target)      \
    }
#define PERSISTENT                                                                                 \
    EXG_FIELD(half_spec, persistent, "persistent", EXG_FIELD_REQUIRED, exg_field_tristate)
#define CONSTANT_NAME                                                                              \
    {                                                                                              \
        "name", 4, EXG_FIELD_REQUIRED, field_arg_name, 0                                           \
    }
#define CONSTANT_VALUE                                                                             \
    {                                                                                              \
        "value", 5, EXG_FIELD_REQUIRED, field_constant, 0                                          \
    }
#define DECODE_USER   field_user_arg
#define DECODE_NAMED  field_named_arg
#define DECODE_OBJECT field_object_arg
/* The argument, the target where the row has one, and what a buffer has besides. */
#define ROW(tag, kind, argument, target, buffer)                                                   \
    {                                                                                              \
        tag, kind, sizeof(target) == 1 ? 1 : 2 + (buffer),                                         \
        {                                                                                          \
            ARG(DECODE_##argument), TARGET(target), PERSISTENT                                     \
        }                                                                                          \
    }

typedef struct spec_row {
    const char *tag;
    int kind; /* exg_input_kind or exg_output_kind */
    uint32_t field_count;
    exg_field fields[3];
} spec_row;

static const spec_row input_rows[] = {
#define EXG_INPUT_SPEC(kind, tag, argument, target)                                                \
    ROW(tag, EXG_INPUT_##kind, argument, target, EXG_INPUT_##kind == EXG_INPUT_BUFFER),
#define EXG_OUTPUT_SPEC(kind, tag, argument, target)
#include "libexport/formats/pt2/spec.def"
#undef EXG_INPUT_SPEC
#undef EXG_OUTPUT_SPEC
    {"constant_input", EXG_INPUT_USER, 2, {CONSTANT_NAME, CONSTANT_VALUE}},
};

static const spec_row output_rows[] = {
#define EXG_INPUT_SPEC(kind, tag, argument, target)
#define EXG_OUTPUT_SPEC(kind, tag, argument, target)                                               \
    ROW(tag, EXG_OUTPUT_##kind, argument, target, 0),
#include "libexport/formats/pt2/spec.def"
#undef EXG_INPUT_SPEC
#undef EXG_OUTPUT_SPEC
};

static exg_status decode_spec(exg_decoder *d, exg_json value, const char *name,
                              const spec_row *rows, size_t count, half_spec *half,
                              const spec_row **found)
{
    const char *tag = "";
    uint32_t length = 0;
    exg_json payload = value;

    *half = (half_spec){.arg = {.name = ""}, .persistent = EXG_UNSET};
    EXG_TRY(exg_decode_union(d, value, &tag, &length, &payload));
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].tag, tag) == 0) {
            *found = &rows[i];
            EXG_TRY_IN(d->err,
                       exg_decode_struct(d, payload, half, rows[i].fields, rows[i].field_count),
                       "%s", tag);
            return EXG_OK;
        }
    }
    return exg_decode_unknown_tag(d, value, name, tag);
}

exg_status exg_decode_input_spec(exg_decoder *d, exg_json value, void *item)
{
    exg_input_spec *spec = item;
    const spec_row *row = input_rows;
    half_spec half;

    EXG_TRY(
        decode_spec(d, value, "InputSpec", input_rows, EXG_FIELD_COUNT(input_rows), &half, &row));
    spec->kind = (exg_input_kind)row->kind;
    spec->arg = half.arg;
    spec->arg.is_token = spec->kind == EXG_INPUT_TOKEN;
    spec->target = half.target;
    spec->persistent = half.persistent;
    return EXG_OK;
}

exg_status exg_decode_output_spec(exg_decoder *d, exg_json value, void *item)
{
    exg_output_spec *spec = item;
    const spec_row *row = output_rows;
    half_spec half;

    EXG_TRY(decode_spec(d, value, "OutputSpec", output_rows, EXG_FIELD_COUNT(output_rows), &half,
                        &row));
    spec->kind = (exg_output_kind)row->kind;
    spec->arg = half.arg;
    spec->arg.is_token = spec->kind == EXG_OUTPUT_TOKEN;
    spec->target = half.target;
    return EXG_OK;
}
