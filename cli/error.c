/* error.c - a fault as people, or programs, read it. */
#include "cli/cli.h"

#include <inttypes.h>
#include <string.h>

static void put_error_json(exg_text *text, const exg_error *err)
{
    cli_json_begin(text);
    exg_json_member_open(text, "error", '{');
    exg_json_member_text(text, "status", exg_status_name(err->status));
    exg_json_member_text(text, "code", err->code);
    exg_json_member_text(text, "message", err->message);
    exg_json_member_text(text, "where", err->where);
    if (err->source[0] != '\0') {
        exg_json_member_text(text, "source", err->source);
    }
    exg_json_member_text(text, "fix", err->fix);
    if (err->offset != EXG_NO_OFFSET) {
        exg_json_member_uint(text, "offset", err->offset);
    }
    exg_json_put_close(text, '}');
    cli_json_end(text);
}

static void put_error(exg_text *text, const exg_error *err)
{
    if (cli_process_rank() > 0) {
        exg_text_printf(text, "rank %u: ", cli_process_rank());
    }
    exg_text_printf(text, "%sexg: %s:%s ", cli_paint(stderr, CLI_COLOR_ERROR), err->code,
                    cli_paint(stderr, CLI_COLOR_NONE));
    exg_text_plain(text, err->message, false);
    if (err->where[0] != '\0') {
        exg_text_puts(text, "\n  where: ");
        exg_text_plain(text, err->where, false);
    }
    if (err->offset != EXG_NO_OFFSET) {
        exg_text_printf(text, "\n  offset: %" PRIu64, err->offset);
    }
    if (err->source[0] != '\0') {
        exg_text_puts(text, "\n  source: ");
        exg_text_plain(text, err->source, false);
    }
    if (err->fix[0] != '\0') {
        exg_text_printf(text, "\n  %sfix:%s ", cli_paint(stderr, CLI_COLOR_FIX),
                        cli_paint(stderr, CLI_COLOR_NONE));
        exg_text_plain(text, err->fix, false);
    }
    if (cli_is_verbose() && err->source_file != NULL) {
        const char *file = err->source_file;

        while (strncmp(file, "../", 3) == 0) { /* from where it was built */
            file += 3;
        }
        exg_text_printf(text, "\n  found by: %s:%d", file, err->source_line);
    }
    exg_text_putc(text, '\n');
}

void cli_print_error(const exg_error *err, bool json)
{
    exg_text text = EXG_TEXT_EMPTY;

    (json ? put_error_json : put_error)(&text, err);
    fputs(exg_text_string(&text) == NULL ? "exg: out of memory\n" : exg_text_string(&text), stderr);
    exg_text_free(&text);
}
