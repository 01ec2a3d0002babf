/* encode_signature.c - InputSpec and OutputSpec as JSON: docs/pt2.md 1.6. */
#include "libexport/formats/pt2/encode.h"

static bool is_constant(const exg_signature_argument *arg)
{
    return arg->kind != EXG_ARGUMENT_CUSTOM_OBJ &&
           (arg->kind == EXG_ARGUMENT_NONE ||
            exg_signature_constant(arg).type != EXG_MODEL_NOTHING);
}

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
    if (is_constant(arg)) {
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
    exg_json_put_key(e->out, row->tag);
    exg_json_put_open(e->out, '{');
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
    exg_json_put_key(e->out, "constant_input");
    exg_json_put_open(e->out, '{');
    exg_json_member_text(e->out, "name", arg->name);
    exg_json_put_key(e->out, "value");
    return put_constant(e, arg);
}

exg_status exg_encode_input_spec(const exg_encoder *e, const exg_input_spec *spec)
{
    if (spec->kind == EXG_INPUT_USER && is_constant(&spec->arg)) {
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

exg_status exg_encode_output_spec(const exg_encoder *e, const exg_output_spec *spec)
{
    EXG_TRY(put_spec(e, &output_rows[spec->kind], &spec->arg, spec->target));
    exg_json_put_close(e->out, '}');
    exg_json_put_close(e->out, '}');
    return EXG_OK;
}
