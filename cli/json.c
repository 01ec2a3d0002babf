/* json.c - what the objects of --json have in common. */
#include "cli/cli.h"

#include <math.h>

void cli_json_begin(exg_text *text)
{
    exg_json_put_open(text, '{');
    exg_json_member_uint(text, "format", CLI_JSON_FORMAT);
}

void cli_json_end(exg_text *text)
{
    exg_json_put_close(text, '}');
    exg_text_putc(text, '\n');
}

exg_status cli_json_value(FILE *out, const char *key, const char *value, exg_error *err)
{
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status;

    cli_json_begin(&text);
    exg_json_member_text(&text, key, value);
    cli_json_end(&text);
    status = cli_put(out, &text, err);
    exg_text_free(&text);
    return status;
}

void cli_json_number(exg_text *text, double value, int digits)
{
    char shown[32];

    snprintf(shown, sizeof(shown), "%.*g", digits, value);
    exg_json_put_raw(text, isfinite(value) ? shown : "null");
}

void cli_json_diagnostics(exg_text *text, const char *key, const exg_diagnostics *found)
{
    exg_json_member_open(text, key, '[');
    for (uint32_t i = 0; i < found->count; i++) {
        const exg_diagnostic *d = &found->items[i];

        exg_json_put_open(text, '{');
        exg_json_member_text(text, "severity", exg_severity_name(d->severity));
        exg_json_member_text(text, "code", d->code);
        exg_json_member_text(text, "message", d->message);
        exg_json_member_text(text, "where", d->where);
        exg_json_member_text(text, "fix", d->fix);
        if (d->source_file[0] != '\0') {
            exg_json_member_open(text, "source", '{');
            exg_json_member_text(text, "file", d->source_file);
            exg_json_member_uint(text, "line", d->source_line);
            exg_json_member_text(text, "text", d->source_text);
            exg_json_put_close(text, '}');
        }
        exg_json_put_close(text, '}');
    }
    exg_json_put_close(text, ']');
}
