/* print.c - texts to where a command prints, and to where faults go. */
#include "cli/cli.h"

exg_status cli_put(FILE *out, const exg_text *text, exg_error *err)
{
    if (text->failed) {
        return EXG_OUT_OF_MEMORY(err);
    }
    fputs(exg_text_string(text), out);
    return EXG_OK;
}

void cli_note(const exg_text *text)
{
    if (cli_is_quiet() && !text->failed) {
        return;
    }
    fputs(text->failed ? "exg: out of memory for what is to be told here\n" : exg_text_string(text),
          stderr);
}
