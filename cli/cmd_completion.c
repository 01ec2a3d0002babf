/* cmd_completion.c - exg completion: what a shell needs to complete words of exg. */
#include "cli/table.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Of an option's value, by the word that stands for it in the table: "a|b" are its values. */
typedef enum value_kind { VALUE_NONE, VALUE_CHOICE, VALUE_FILE, VALUE_OTHER } value_kind;

/* What an option's value can be: its kind, and words with blanks between, "" where none is known.
 */
typedef struct value {
    value_kind kind;
    char words[128];
} value;

static bool is_choice(const char *argument)
{
    const char *c = argument;

    while (islower((unsigned char)*c) || isdigit((unsigned char)*c) || *c == '|' || *c == '-') {
        c++;
    }
    return *c == '\0' && strchr(argument, '|') != NULL;
}

static value_kind kind_of(const char *argument)
{
    static const char *const files[] = {"FILE",  "OUT",  "FOLDER", ".pem",
                                        ".json", ".sig", "PROGRAM"};

    if (argument == NULL || argument[0] == '\0') {
        return VALUE_NONE;
    }
    if (is_choice(argument)) {
        return VALUE_CHOICE;
    }
    for (size_t f = 0; f < sizeof(files) / sizeof(files[0]); f++) {
        if (strstr(argument, files[f]) != NULL) {
            return VALUE_FILE;
        }
    }
    return VALUE_OTHER;
}

/* "a|b" as "a b". */
static void put_choices(exg_text *text, const char *argument)
{
    for (; *argument != '\0'; argument++) {
        exg_text_putc(text, *argument == '|' ? ' ' : *argument);
    }
}

static value value_of(const char *option, const char *argument)
{
    static const struct {
        const char *option, *words;
    } rows[] = {
#define EXG_VALUES(option, words) {option, words},
#include "cli/value.def"
#undef EXG_VALUES
    };
    value v = {.kind = kind_of(argument)};

    if (v.kind == VALUE_CHOICE) {
        for (size_t i = 0; argument[i] != '\0' && i + 1 < sizeof(v.words); i++) {
            v.words[i] = argument[i] == '|' ? ' ' : argument[i];
        }
    }
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        if (strcmp(rows[r].option, option) == 0) {
            snprintf(v.words, sizeof(v.words), "%s", rows[r].words);
            v.kind = VALUE_CHOICE;
        }
    }
    return v;
}

/* In single quotes of the shell; a backslash before each of `special`. */
static void put_quoted(exg_text *text, const char *words, const char *quote, const char *special)
{
    for (; *words != '\0'; words++) {
        if (*words == '\'') {
            exg_text_puts(text, quote);
        } else {
            if (strchr(special, *words) != NULL) {
                exg_text_putc(text, '\\');
            }
            exg_text_putc(text, *words);
        }
    }
}

/* Options of every command, by their full names. */
static const struct {
    const char *name, *argument;
} globals[] = {
#define EXG_GLOBAL(short, name, argument, help) {name, argument},
#include "cli/global.def"
#undef EXG_GLOBAL
};

static void put_globals(exg_text *text)
{
    for (size_t g = 0; g < sizeof(globals) / sizeof(globals[0]); g++) {
        if (globals[g].name[0] != '\0') {
            exg_text_printf(text, "%s ", globals[g].name);
        }
    }
}

/* ---- bash ---------------------------------------------------------------------------------- */

static void put_bash_value(exg_text *text, const char *option, const char *argument)
{
    const value v = value_of(option, argument);

    if (v.kind == VALUE_NONE) {
        return;
    }
    exg_text_printf(text, "    %s) ", option);
    if (v.kind == VALUE_CHOICE) {
        exg_text_printf(text, "COMPREPLY=($(compgen -W '%s' -- \"$cur\")); ", v.words);
    } else if (v.kind == VALUE_FILE) {
        exg_text_puts(text, "COMPREPLY=($(compgen -f -- \"$cur\")); ");
    }
    exg_text_puts(text, "return ;;\n");
}

static void put_bash_values(exg_text *text)
{
    exg_text_puts(text, "    case $prev in\n");
    for (const cli_option_row *o = cli_options; o->name != NULL; o++) {
        put_bash_value(text, o->name, o->argument);
    }
    for (size_t g = 0; g < sizeof(globals) / sizeof(globals[0]); g++) {
        if (globals[g].name[0] != '\0') {
            put_bash_value(text, globals[g].name, globals[g].argument);
        }
    }
    exg_text_puts(text, "    esac\n");
}

static void put_bash(exg_text *text)
{
    exg_text_puts(text, "# exg: completion for bash\n"
                        "_exg() {\n"
                        "    local IFS=$' \\t\\n' cur=${COMP_WORDS[COMP_CWORD]} words= command= i\n"
                        "    local prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
                        "    COMPREPLY=()\n"
                        "    if [ \"$cur\" = = ]; then cur=; fi\n"
                        "    if [ \"$prev\" = = ]; then prev=${COMP_WORDS[COMP_CWORD - 2]}; fi\n"
                        "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
                        "        case ${COMP_WORDS[i]} in\n"
                        "        -*) ;;\n"
                        "        *) command=${COMP_WORDS[i]}; break ;;\n"
                        "        esac\n"
                        "    done\n"
                        "    if [ -n \"$command\" ]; then\n");
    put_bash_values(text);
    exg_text_puts(text, "    fi\n    case $command in\n    ''|help)\n        words='");
    for (const cli_command_row *c = cli_commands; c->name != NULL; c++) {
        exg_text_printf(text, "%s ", c->name);
    }
    exg_text_puts(text, "help --help --version' ;;\n");
    for (const cli_command_row *c = cli_commands; c->name != NULL; c++) {
        exg_text_printf(text, "    %s)\n        words='", c->name);
        for (const cli_option_row *o = cli_options; o->name != NULL; o++) {
            if (cli_takes(c, o)) {
                exg_text_printf(text, "%s ", o->name);
            }
        }
        put_globals(text);
        exg_text_puts(text, "'\n");
        if (is_choice(c->arguments)) {
            exg_text_puts(text, "        case $cur in -*) ;; *) words='");
            put_choices(text, c->arguments);
            exg_text_puts(text, "' ;; esac ;;\n");
        } else {
            exg_text_puts(text, "        case $cur in\n        -*) ;;\n        *) COMPREPLY=($("
                                "compgen -f -- \"$cur\")); return ;;\n        esac ;;\n");
        }
    }
    exg_text_puts(text, "    esac\n    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\n"
                        "complete -o filenames -F _exg exg\n");
}

/* ---- zsh ----------------------------------------------------------------------------------- */

static void put_zsh_value(exg_text *text, const char *option, const char *argument)
{
    const value v = value_of(option, argument);

    if (v.kind == VALUE_NONE) {
        return;
    }
    exg_text_puts(text, ":value:");
    if (v.kind == VALUE_CHOICE) {
        exg_text_putc(text, '(');
        put_quoted(text, v.words, "", ":");
        exg_text_putc(text, ')');
    } else if (v.kind == VALUE_FILE) {
        exg_text_puts(text, "_files");
    }
}

static void put_zsh_globals(exg_text *text)
{
    for (size_t g = 0; g < sizeof(globals) / sizeof(globals[0]); g++) {
        if (globals[g].name[0] != '\0') {
            exg_text_printf(text, "            '%s%s", globals[g].name,
                            globals[g].argument[0] == '\0' ? "" : "=");
            put_zsh_value(text, globals[g].name, globals[g].argument);
            exg_text_puts(text, "' \\\n");
        }
    }
}

static void put_zsh(exg_text *text)
{
    static const char quote[] = "'\\''";
    static const char special[] = "[]:\\";

    exg_text_puts(text, "#compdef exg\n_exg() {\n    local -a commands\n    commands=(\n");
    for (const cli_command_row *c = cli_commands; c->name != NULL; c++) {
        exg_text_printf(text, "        '%s:", c->name);
        put_quoted(text, c->summary, quote, special);
        exg_text_puts(text, "'\n");
    }
    exg_text_puts(text, "        'help:say what a command does'\n    )\n"
                        "    if (( CURRENT == 2 )); then\n"
                        "        _describe command commands\n"
                        "        return\n"
                        "    fi\n"
                        "    shift words\n"
                        "    (( CURRENT-- ))\n"
                        "    case $words[1] in\n"
                        "    help) _describe command commands ;;\n");
    for (const cli_command_row *c = cli_commands; c->name != NULL; c++) {
        exg_text_printf(text, "    %s)\n        _arguments \\\n", c->name);
        for (const cli_option_row *o = cli_options; o->name != NULL; o++) {
            if (cli_takes(c, o)) {
                exg_text_printf(text, "            '%s%s%s[", o->is_list ? "*" : "", o->name,
                                o->argument == NULL ? "" : "=");
                put_quoted(text, o->help, quote, special);
                exg_text_putc(text, ']');
                put_zsh_value(text, o->name, o->argument);
                exg_text_puts(text, "' \\\n");
            }
        }
        put_zsh_globals(text);
        exg_text_puts(text, "            '(-)-h[options and examples]'");
        if (is_choice(c->arguments)) {
            exg_text_puts(text, " ':word:(");
            put_choices(text, c->arguments);
            exg_text_puts(text, ")'");
        } else if (c->arguments[0] != '\0') {
            exg_text_puts(text, " '*:file:_files'");
        }
        exg_text_puts(text, " ;;\n");
    }
    exg_text_puts(text, "    esac\n}\nif [ \"$funcstack[1]\" = _exg ]; then _exg \"$@\"; "
                        "else compdef _exg exg; fi\n");
}

/* ---- fish ---------------------------------------------------------------------------------- */

static void put_fish_commands_of(exg_text *text, const cli_option_row *option)
{
    for (const cli_command_row *c = cli_commands; c->name != NULL; c++) {
        if (cli_takes(c, option)) {
            exg_text_printf(text, " %s", c->name);
        }
    }
}

static void put_fish_value(exg_text *text, const char *option, const char *argument)
{
    const value v = value_of(option, argument);

    exg_text_puts(text, v.kind == VALUE_NONE ? "" : v.kind == VALUE_FILE ? " -r -F" : " -x");
    if (v.kind == VALUE_CHOICE) {
        exg_text_printf(text, " -a '%s'", v.words);
    }
}

static void put_fish(exg_text *text)
{
    static const char quote[] = "\\'";

    exg_text_puts(text, "# exg: completion for fish\n"
                        "complete -c exg -n __fish_use_subcommand -f\n");
    for (const cli_command_row *c = cli_commands; c->name != NULL; c++) {
        exg_text_printf(text, "complete -c exg -n __fish_use_subcommand -a %s -d '", c->name);
        put_quoted(text, c->summary, quote, "\\");
        exg_text_puts(text, "'\n");
        if (is_choice(c->arguments)) {
            exg_text_printf(text, "complete -c exg -n '__fish_seen_subcommand_from %s' -f -a '",
                            c->name);
            put_choices(text, c->arguments);
            exg_text_puts(text, "'\n");
        }
    }
    for (size_t g = 0; g < sizeof(globals) / sizeof(globals[0]); g++) {
        if (globals[g].name[0] != '\0') {
            exg_text_printf(text, "complete -c exg -l %s", globals[g].name + 2);
            put_fish_value(text, globals[g].name, globals[g].argument);
            exg_text_putc(text, '\n');
        }
    }
    for (const cli_option_row *o = cli_options; o->name != NULL; o++) {
        exg_text_puts(text, "complete -c exg -n '__fish_seen_subcommand_from");
        put_fish_commands_of(text, o);
        exg_text_printf(text, "' -l %s", o->name + 2);
        put_fish_value(text, o->name, o->argument);
        exg_text_puts(text, " -d '");
        put_quoted(text, o->help, quote, "\\");
        exg_text_puts(text, "'\n");
    }
}

static const struct shell {
    const char *name;
    void (*put)(exg_text *text);
} shells[] = {{"bash", put_bash}, {"zsh", put_zsh}, {"fish", put_fish}};

exg_status cmd_completion(const cli_call *call, exg_error *err)
{
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status = EXG_OK;
    size_t s = 0;

    while (s < sizeof(shells) / sizeof(shells[0]) && strcmp(shells[s].name, call->paths[0]) != 0) {
        s++;
    }
    if (s == sizeof(shells) / sizeof(shells[0])) {
        status = EXG_FAIL(err, USAGE, "CLI-001", "no completion for '%s'", call->paths[0]);
        return exg_error_fix(err, status, "bash, zsh or fish");
    }
    shells[s].put(&text);
    status = cli_put(call->out, &text, err);
    exg_text_free(&text);
    return status;
}
