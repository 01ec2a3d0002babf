/* cmd_verify.c - exg verify FILE: every rule, all faults in one run. */
#include "cli/cli.h"
#include "libexport/base/text.h"

static void put_json(exg_text *text, const exg_diagnostics *found)
{
    exg_text_printf(text, "{\"errors\": %u, \"diagnostics\": [", found->error_count);
    for (uint32_t i = 0; i < found->count; i++) {
        const exg_diagnostic *d = &found->items[i];

        exg_text_printf(text, "%s{\"severity\": \"%s\", \"code\": ", i > 0 ? ", " : "",
                        d->severity == EXG_SEVERITY_ERROR ? "error" : "warning");
        exg_text_json_string(text, d->code);
        exg_text_puts(text, ", \"message\": ");
        exg_text_json_string(text, d->message);
        exg_text_puts(text, ", \"where\": ");
        exg_text_json_string(text, d->where);
        exg_text_puts(text, ", \"fix\": ");
        exg_text_json_string(text, d->fix);
        exg_text_puts(text, "}");
    }
    exg_text_puts(text, "]}\n");
}

static void put_text(exg_text *text, const char *path, const exg_diagnostics *found)
{
    for (uint32_t i = 0; i < found->count; i++) {
        const exg_diagnostic *d = &found->items[i];

        exg_text_printf(text, "%s: %s: %s\n  where: %s\n",
                        d->severity == EXG_SEVERITY_ERROR ? "error" : "warning", d->code, d->message,
                        d->where);
        if (d->fix[0] != '\0') {
            exg_text_printf(text, "  fix: %s\n", d->fix);
        }
    }
    exg_text_printf(text, "%s: %u errors, %u warnings\n", path, found->error_count,
                    found->count - found->error_count);
}

static exg_status check_data(const cli_call *call, const exg_program *program, exg_error *err)
{
    exg_check_options options = {.size = sizeof(options),
                                 .threads = (uint32_t)call->threads,
                                 .progress = cli_progress};
    exg_status status = exg_weights_check(program->weights, &options, err);

    cli_progress_end();
    return status;
}

exg_status cmd_verify(const cli_call *call, exg_error *err)
{
    cli_program p;
    exg_diagnostics found = {0};
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status;

    EXG_TRY(cli_open(call, &p, err));
    status = exg_verify(p.program, p.operators, &p.verified, &found, err);
    if (status == EXG_OK || status == EXG_MALFORMED) {
        if (call->json) {
            put_json(&text, &found);
        } else {
            put_text(&text, call->paths[0], &found);
        }
        fputs(exg_text_string(&text) == NULL ? "" : exg_text_string(&text), call->out);
    }
    if (status == EXG_OK && call->data) {
        status = check_data(call, p.program, err);
    }
    exg_text_free(&text);
    exg_diagnostics_free(&found);
    cli_close(&p);
    return status;
}
