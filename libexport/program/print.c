/* print.c - whole programs and graphs as PyTorch prints them. */
#include "libexport/program/print.h"
#include "libexport/base/require.h"
#include "libexport/program/expression.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define INDENT "    "

exg_status exg_print_take(exg_text *out, char **text, exg_error *err)
{
    *text = NULL;
    if (exg_text_string(out) == NULL) {
        exg_text_free(out);
        return EXG_OUT_OF_MEMORY(err);
    }
    if (out->data == NULL) {
        exg_text_puts(out, "");
    }
    *text = out->data;
    return *text == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

/* Every newline is followed by four spaces, as str.replace does it. */
static void put_indented(exg_text *out, const char *text)
{
    for (; *text != '\0'; text++) {
        exg_text_putc(out, *text);
        exg_text_puts(out, *text == '\n' ? INDENT : "");
    }
}

/* ---- ranges ------------------------------------------------------------------------------ */

static void put_bound(exg_text *out, bool has, int64_t value, const char *otherwise)
{
    if (has) {
        exg_text_printf(out, "%" PRId64, value);
    } else {
        exg_text_puts(out, otherwise);
    }
}

static void put_ranges(exg_text *out, const exg_program *program)
{
    exg_text_putc(out, '{');
    for (uint32_t i = 0; i < program->range_constraint_count; i++) {
        const exg_range_constraint *range = &program->range_constraints[i];
        bool real = exg_symbol_is_real(range->symbol);

        exg_text_printf(out, "%s%s: VR[", i == 0 ? "" : ", ", range->symbol);
        put_bound(out, range->has_min, range->min_val, real ? "-oo" : "-int_oo");
        exg_text_puts(out, ", ");
        put_bound(out, range->has_max, range->max_val, real ? "oo" : "int_oo");
        exg_text_putc(out, ']');
    }
    exg_text_putc(out, '}');
}

/* ---- graph and program --------------------------------------------------------------------- */

exg_status exg_graph_print(const exg_graph *graph, char **text, exg_error *err)
{
    EXG_REQUIRE(err, graph, text);
    exg_text out = EXG_TEXT_EMPTY;

    exg_print_module(&out, graph, NULL, "GraphModule", 0);
    return exg_print_take(&out, text, err);
}

exg_status exg_program_print(const exg_program *program, char **text, exg_error *err)
{
    EXG_REQUIRE(err, program, text);
    exg_text part = EXG_TEXT_EMPTY;
    exg_text out = EXG_TEXT_EMPTY;

    exg_text_puts(&out, "ExportedProgram:\n" INDENT);
    exg_print_module(&part, program->graph, &program->signature, "GraphModule", 0);
    put_indented(&out, exg_text_part(&out, &part));
    exg_text_free(&part);
    exg_text_puts(&out, "\nGraph signature: ");
    exg_print_signature(&part, &program->signature);
    put_indented(&out, exg_text_part(&out, &part));
    exg_text_free(&part);
    exg_text_puts(&out, "\nRange constraints: ");
    put_ranges(&out, program);
    exg_text_putc(&out, '\n');
    return exg_print_take(&out, text, err);
}
