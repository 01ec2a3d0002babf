/* print_signature.c - the signature as PyTorch's str() and repr() show it. */
#include "libexport/base/require.h"
#include "libexport/program/print.h"

#include <exg/signature.h>
#include <inttypes.h>

static void put_target(exg_text *out, const char *target)
{
    if (target != NULL) {
        exg_text_printf(out, " target='%s'", target);
    }
}

void exg_print_signature(exg_text *out, const exg_signature *signature)
{
    exg_text_puts(out, "\n# inputs\n");
    for (uint32_t i = 0; i < signature->input_count; i++) {
        const exg_input_spec *spec = &signature->inputs[i];

        exg_text_printf(out, "%s: %s", spec->arg.name == NULL ? "" : spec->arg.name,
                        exg_input_kind_name(spec->kind));
        put_target(out, spec->target);
        if (spec->persistent != EXG_UNSET) {
            exg_text_printf(out, " persistent=%s", spec->persistent == EXG_TRUE ? "True" : "False");
        }
        exg_text_putc(out, '\n');
    }
    exg_text_puts(out, signature->input_count == 0 ? "\n\n# outputs\n" : "\n# outputs\n");
    for (uint32_t i = 0; i < signature->output_count; i++) {
        const exg_output_spec *spec = &signature->outputs[i];

        exg_text_printf(out, "%s: %s", spec->arg.name == NULL ? "" : spec->arg.name,
                        exg_output_kind_name(spec->kind));
        put_target(out, spec->target);
        exg_text_putc(out, '\n');
    }
    exg_text_puts(out, signature->output_count == 0 ? "\n" : "");
}

exg_status exg_signature_print(const exg_signature *signature, char **text, exg_error *err)
{
    EXG_REQUIRE(err, signature, text);
    exg_text out = EXG_TEXT_EMPTY;

    exg_print_signature(&out, signature);
    return exg_print_take(&out, text, err);
}

/* ---- repr ------------------------------------------------------------------------------- */

static void put_string(exg_text *out, const char *string)
{
    if (string == NULL) {
        exg_text_puts(out, "None");
    } else {
        exg_print_python_string(out, string);
    }
}

static void put_constant(exg_text *out, const exg_signature_argument *arg)
{
    switch (arg->kind) {
    case EXG_ARGUMENT_INT:
        exg_text_printf(out, "%" PRId64, arg->as_int);
        break;
    case EXG_ARGUMENT_FLOAT:
        exg_text_double(out, arg->as_float);
        break;
    case EXG_ARGUMENT_BOOL:
        exg_text_puts(out, arg->as_bool ? "True" : "False");
        break;
    case EXG_ARGUMENT_STRING:
        put_string(out, arg->as_string);
        break;
    default: /* None, the only constant left */
        exg_text_puts(out, "None");
        break;
    }
}

static void put_argument(exg_text *out, const exg_signature_argument *arg)
{
    const char *type = arg->is_token                          ? "Token"
                       : arg->kind == EXG_ARGUMENT_TENSOR     ? "Tensor"
                       : arg->kind == EXG_ARGUMENT_SYM_INT    ? "SymInt"
                       : arg->kind == EXG_ARGUMENT_SYM_FLOAT  ? "SymFloat"
                       : arg->kind == EXG_ARGUMENT_SYM_BOOL   ? "SymBool"
                       : arg->kind == EXG_ARGUMENT_CUSTOM_OBJ ? "CustomObj"
                                                              : NULL;

    exg_text_printf(out, "arg=%sArgument(name=", type == NULL ? "Constant" : type);
    exg_print_python_string(out, arg->name == NULL ? "" : arg->name);
    if (type == NULL) {
        exg_text_puts(out, ", value=");
        put_constant(out, arg);
    } else if (arg->kind == EXG_ARGUMENT_CUSTOM_OBJ) {
        exg_text_puts(out, ", class_fqn=");
        put_string(out, arg->as_string);
        exg_text_puts(out, ", fake_val=None");
    }
    exg_text_puts(out, "), target=");
}

exg_status exg_signature_repr(const exg_signature *signature, char **text, exg_error *err)
{
    EXG_REQUIRE(err, signature, text);
    exg_text out = EXG_TEXT_EMPTY;

    exg_text_puts(&out, "ExportGraphSignature(input_specs=[");
    for (uint32_t i = 0; i < signature->input_count; i++) {
        const exg_input_spec *spec = &signature->inputs[i];

        exg_text_printf(&out, "%sInputSpec(kind=<InputKind.%s: %d>, ", i > 0 ? ", " : "",
                        exg_input_kind_name(spec->kind), exg_input_kind_number(spec->kind));
        put_argument(&out, &spec->arg);
        put_string(&out, spec->target);
        exg_text_printf(&out, ", persistent=%s)",
                        spec->persistent == EXG_UNSET  ? "None"
                        : spec->persistent == EXG_TRUE ? "True"
                                                       : "False");
    }
    exg_text_puts(&out, "], output_specs=[");
    for (uint32_t i = 0; i < signature->output_count; i++) {
        const exg_output_spec *spec = &signature->outputs[i];

        exg_text_printf(&out, "%sOutputSpec(kind=<OutputKind.%s: %d>, ", i > 0 ? ", " : "",
                        exg_output_kind_name(spec->kind), exg_output_kind_number(spec->kind));
        put_argument(&out, &spec->arg);
        put_string(&out, spec->target);
        exg_text_putc(&out, ')');
    }
    exg_text_puts(&out, "])");
    return exg_print_take(&out, text, err);
}
