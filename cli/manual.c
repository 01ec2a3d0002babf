/* manual.c - pages of the manual, in man(7). */
#include "cli/table.h"

#include <string.h>

/* As it is: no request at the beginning of a line, hyphens that can be copied. */
static void put_roff(exg_text *text, const char *words)
{
    bool starts = true;

    for (; *words != '\0'; words++) {
        if (starts && (*words == '.' || *words == '\'')) {
            exg_text_puts(text, "\\&");
        }
        if (*words == '\\') {
            exg_text_puts(text, "\\e");
        } else if (*words == '-') {
            exg_text_puts(text, "\\-");
        } else {
            exg_text_putc(text, *words);
        }
        starts = *words == '\n';
    }
}

static void put_head(exg_text *text, const char *command)
{
    exg_text_puts(text, ".TH EXG");
    if (command != NULL) {
        exg_text_puts(text, "\\-");
    }
    for (; command != NULL && *command != '\0'; command++) {
        exg_text_putc(text, (char)(*command - 'a' + 'A'));
    }
    exg_text_printf(text, " 1 \"\" \"exg %s\" \"User Commands\"\n.SH NAME\n", exg_version());
}

static void put_exit_status(exg_text *text)
{
    exg_text_puts(text, ".SH EXIT STATUS\n");
    for (exg_status s = EXG_OK; s < EXG_STATUS_COUNT; s++) {
        exg_text_printf(text, ".TP\n.B %d\n", exg_status_exit_code(s));
        put_roff(text, exg_status_meaning(s));
        exg_text_putc(text, '\n');
    }
}

static void put_others(exg_text *text, const char *command)
{
    bool first = true;

    exg_text_puts(text, ".SH SEE ALSO\n");
    if (command != NULL) {
        exg_text_puts(text, ".BR exg (1)");
        first = false;
    }
    for (const cli_command_row *c = cli_commands; c->name != NULL; c++) {
        if (command == NULL || strcmp(command, c->name) != 0) {
            exg_text_printf(text, "%s.BR exg\\-%s (1)", first ? "" : ",\n", c->name);
            first = false;
        }
    }
    exg_text_putc(text, '\n');
}

/* An option by its names, of which one may be "", and its argument; "" of a flag. */
static void put_option(exg_text *text, const char *letter, const char *name, const char *argument,
                       const char *help)
{
    exg_text_puts(text, ".TP\n\\fB");
    put_roff(text, letter);
    exg_text_puts(text, letter[0] != '\0' && name[0] != '\0' ? ", " : "");
    put_roff(text, name);
    exg_text_puts(text, "\\fR");
    if (argument[0] != '\0') {
        exg_text_puts(text, " \\fI");
        put_roff(text, argument);
        exg_text_puts(text, "\\fR");
    }
    exg_text_putc(text, '\n');
    put_roff(text, help);
    exg_text_puts(text, ".\n");
}

/* Those of every command. */
static void put_globals(exg_text *text)
{
#define EXG_GLOBAL(short, name, argument, help) put_option(text, short, name, argument, help);
#include "cli/global.def"
#undef EXG_GLOBAL
}

static void put_top(exg_text *text)
{
    put_head(text, NULL);
    exg_text_puts(text, "exg \\- open, verify, convert and run programs saved by torch.export\n"
                        ".SH SYNOPSIS\n.B exg\n.I COMMAND\n.RI [ OPTION ]...\n"
                        ".SH COMMANDS\n");
    for (const cli_command_row *c = cli_commands; c->name != NULL; c++) {
        exg_text_printf(text, ".TP\n.BI exg\\~%s \" %s\"\n", c->name, c->arguments);
        put_roff(text, c->summary);
        exg_text_puts(text, ".\n");
    }
    exg_text_puts(text, ".SH OPTIONS OF ALL COMMANDS\n");
    put_globals(text);
    exg_text_puts(text, ".SH DESCRIPTION\nAn option's value follows it, or an \"=\"; no word after "
                        "\\-\\- is an option.\nFILE may be a folder of a model, an address of http "
                        "or https, or \\- for standard input.\nFaults go to standard error, each "
                        "with a code:\n.B exg explain\n.I CODE\nsays what it means.\n");
    put_exit_status(text);
    put_others(text, NULL);
}

static void put_option_of(exg_text *text, const cli_command_row *command, const cli_option_row *o)
{
    exg_text help = EXG_TEXT_EMPTY;

    exg_text_puts(&help, o->help);
    cli_put_needs(&help, o->needs, command->letter);
    put_option(text, "", o->name, o->argument == NULL ? "" : o->argument,
               exg_text_part(text, &help));
    exg_text_free(&help);
}

static void put_command(exg_text *text, const cli_command_row *command)
{
    put_head(text, command->name);
    exg_text_printf(text, "exg\\-%s \\- ", command->name);
    put_roff(text, command->summary);
    exg_text_printf(text, "\n.SH SYNOPSIS\n.B exg %s\n", command->name);
    if (command->arguments[0] != '\0') {
        exg_text_printf(text, ".I %s\n", command->arguments);
    }
    exg_text_puts(text, ".RI [ OPTION ]...\n.SH OPTIONS\n");
    for (const cli_option_row *o = cli_options; o->name != NULL; o++) {
        if (cli_takes(command, o)) {
            put_option_of(text, command, o);
        }
    }
    exg_text_puts(text, ".SH EXAMPLES\n.nf\n");
    put_roff(text, command->examples);
    exg_text_puts(text, ".fi\n");
    put_exit_status(text);
    put_others(text, command->name);
}

exg_status cli_put_manual(FILE *out, const char *command, exg_error *err)
{
    exg_text text = EXG_TEXT_EMPTY;
    const cli_command_row *row = cli_commands;
    exg_status status;

    while (command != NULL && row->name != NULL && strcmp(row->name, command) != 0) {
        row++;
    }
    if (command != NULL && row->name == NULL) {
        return exg_error_fix(err, EXG_FAIL(err, USAGE, "CLI-001", "no command '%s'", command),
                             "exg --help lists the commands");
    }
    if (command == NULL) {
        put_top(&text);
    } else {
        put_command(&text, row);
    }
    status = cli_put(out, &text, err);
    exg_text_free(&text);
    return status;
}
