/* signature.c - the graph signature (seed 004). */
#include "libexport/program/print.h"

#include <exg/program.h>

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
    exg_text out = EXG_TEXT_EMPTY;

    exg_print_signature(&out, signature);
    return exg_print_take(&out, text, err);
}
