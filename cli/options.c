/* options.c - the words of the command line, by the tables. */
#include "cli/cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef enum option_kind { OPTION_FLAG, OPTION_TEXT, OPTION_LIST, OPTION_NUMBER } option_kind;

typedef struct option_row {
    const char *name, *argument, *commands, *needs, *help;
    option_kind kind;
    size_t offset, has_offset;
    double least, most; /* of a whole number; 0: any number */
} option_row;

static const option_row options[] = {
#define EXG_FLAG(field, name, commands, needs, help)                                               \
    {name, NULL, commands, needs, help, OPTION_FLAG, offsetof(cli_call, field), 0, 0, 0},
#define EXG_TEXT_OPTION(field, name, argument, commands, needs, help)                              \
    {name, argument, commands, needs, help, OPTION_TEXT, offsetof(cli_call, field), 0, 0, 0},
#define EXG_LIST_OPTION(field, name, argument, commands, needs, help)                              \
    {name, argument, commands, needs, help, OPTION_LIST, offsetof(cli_call, field), 0, 0, 0},
#define EXG_NUMBER_OPTION(field, name, argument, commands, needs, help)                            \
    {name,                                                                                         \
     argument,                                                                                     \
     commands,                                                                                     \
     needs,                                                                                        \
     help,                                                                                         \
     OPTION_NUMBER,                                                                                \
     offsetof(cli_call, field),                                                                    \
     offsetof(cli_call, has_##field),                                                              \
     0,                                                                                            \
     0},
#define EXG_WHOLE_OPTION(field, name, least, most, commands, needs, help)                          \
    {name,                                                                                         \
     "N",                                                                                          \
     commands,                                                                                     \
     needs,                                                                                        \
     help,                                                                                         \
     OPTION_NUMBER,                                                                                \
     offsetof(cli_call, field),                                                                    \
     offsetof(cli_call, has_##field),                                                              \
     least,                                                                                        \
     most},
#include "cli/option.def"
#undef EXG_FLAG
#undef EXG_TEXT_OPTION
#undef EXG_LIST_OPTION
#undef EXG_NUMBER_OPTION
#undef EXG_WHOLE_OPTION
};

static const struct command_text {
    const char *name;
    char letter;
    const char *arguments, *summary, *examples;
} commands[] = {
#define EXG_COMMAND(name, letter, arguments, summary, examples)                                    \
    {#name, letter, arguments, summary, examples},
#include "cli/command.def"
#undef EXG_COMMAND
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Every command that gets here is in the table. */
static const struct command_text *command_of(const char *name)
{
    size_t i = 0;

    while (i + 1 < COUNT(commands) && strcmp(commands[i].name, name) != 0) {
        i++;
    }
    return &commands[i];
}

/* Is the word, before its "=" if it has one, this name? */
static bool is_named(const char *word, const char *name)
{
    const size_t length = strcspn(word, "=");

    return strlen(name) == length && memcmp(word, name, length) == 0;
}

static const option_row *find_option(const char *word, const char *command)
{
    for (size_t i = 0; i < COUNT(options); i++) {
        if (is_named(word, options[i].name) &&
            strchr(options[i].commands, command_of(command)->letter) != NULL) {
            return &options[i];
        }
    }
    return NULL;
}

static exg_status usage(exg_error *err, const char *command, const char *what, const char *word)
{
    exg_status status = EXG_FAIL(err, USAGE, "CLI-001", "%s '%s'", what, word);

    return exg_error_fix(err, status, "see: exg %s --help", command);
}

/* One value counts: which, must not hang on an order that nobody looks at. */
static exg_status take_once(const option_row *option, bool is_taken, exg_error *err)
{
    return is_taken ? EXG_FAIL(err, USAGE, "CLI-001", "%s is given twice", option->name) : EXG_OK;
}

static exg_status take_option(const option_row *option, const char *value, cli_call *call,
                              exg_error *err)
{
    char *field = (char *)call + option->offset;
    const char **text = (const char **)(void *)field;
    cli_words *words = (cli_words *)(void *)field;
    bool *has = (bool *)(void *)((char *)call + option->has_offset);

    if (option->kind == OPTION_FLAG) {
        *(bool *)(void *)field = true;
    } else if (option->kind == OPTION_TEXT) {
        EXG_TRY(take_once(option, *text != NULL, err));
        *text = value;
    } else if (option->kind == OPTION_LIST) {
        words->items[words->count++] = value;
    } else {
        char *end;
        double number = strtod(value, &end);

        if (end == value || *end != '\0' || !(number >= 0)) {
            return usage(err, call->command, "not a number:", value);
        }
        if (option->most > 0 &&
            (number < option->least || number > option->most || number != floor(number))) {
            return usage(err, call->command,
                         "not a whole number, too small or too large a one:", value);
        }
        EXG_TRY(take_once(option, *has, err));
        *(double *)(void *)field = number;
        *has = true;
    }
    return EXG_OK;
}

/* A word for each, but for those in brackets. */
static uint32_t paths_wanted(const char *command)
{
    const char *arguments = command_of(command)->arguments;
    uint32_t count = arguments[0] != '\0';

    for (; *arguments != '\0'; arguments++) {
        count += *arguments == ' ' && arguments[1] != '[';
    }
    return count;
}

static bool takes_several(const char *command)
{
    return strstr(command_of(command)->arguments, "...") != NULL;
}

static bool is_same_file(const char *a, const char *b)
{
    struct stat of_a;
    struct stat of_b;

    return strcmp(a, b) == 0 || (stat(a, &of_a) == 0 && stat(b, &of_b) == 0 &&
                                 of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino);
}

/* Of a command whose last word is OUT. */
static const char *out_path(const cli_call *call)
{
    const char *arguments = command_of(call->command)->arguments;
    const size_t length = strlen(arguments);

    return length > 4 && strcmp(arguments + length - 4, " OUT") == 0
               ? call->paths[call->path_count - 1]
               : NULL;
}

/* What is written replaces neither what is read, nor what else is written. */
static exg_status check_written(const cli_call *call, exg_error *err)
{
    const struct {
        const char *name, *path;
    } files[] = {{"FILE", call->paths[0]},
                 {call->apply ? "PATCH" : "B", call->path_count == 3 ? call->paths[1] : NULL},
                 {"--expect", call->expect},
                 {"--weights-from", call->weights_from},
                 {"--sign", call->sign},
                 {"OUT", out_path(call)},
                 {"--bundle", call->sign == NULL ? NULL : call->bundle},
                 {"--output", call->output},
                 {"--state-output", call->state_output},
                 {"--trace", call->trace},
                 {"--html", call->html},
                 {"--calibrate", call->calibrate}};
    const size_t first_written = 5;

    for (size_t w = first_written; w < COUNT(files); w++) {
        for (size_t f = 0; files[w].path != NULL && f < w; f++) {
            if (files[f].path != NULL && is_same_file(files[f].path, files[w].path)) {
                exg_status status = EXG_FAIL(err, USAGE, "CLI-004", "%s and %s are one file, '%s'",
                                             files[f].name, files[w].name, files[w].path);

                return exg_error_fix(err, status, "give %s a name of its own", files[w].name);
            }
        }
    }
    return EXG_OK;
}

exg_status cli_parse(int argc, char **argv, const char **room, cli_call *call, exg_error *err)
{
    bool has_options = true; /* till "--" */

    call->files.items = room;
    room += argc;
    for (size_t o = 0; o < sizeof(options) / sizeof(options[0]); o++) {
        if (options[o].kind == OPTION_LIST) {
            ((cli_words *)(void *)((char *)call + options[o].offset))->items = room;
            room += argc;
        }
    }
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        const char *value = strchr(word, '=');
        const option_row *option = find_option(word, call->command);
        bool is_flag = option != NULL && option->kind == OPTION_FLAG;

        if (word[0] == '\0') {
            return usage(err, call->command, "a file name is empty:", word);
        }
        if (!has_options || word[0] != '-' || word[1] == '\0') {
            if (takes_several(call->command)) {
                call->files.items[call->files.count++] = word;
            }
            if (call->path_count < paths_wanted(call->command)) {
                call->paths[call->path_count++] = word;
            } else if (!takes_several(call->command)) {
                return usage(err, call->command, "one word too many:", word);
            }
            continue;
        }
        if (strcmp(word, "--") == 0) {
            has_options = false;
            continue;
        }
        if (option == NULL || (is_flag && value != NULL)) {
            return usage(err, call->command, "unknown option", word);
        }
        if (!is_flag && value == NULL && i + 1 == argc) {
            return usage(err, call->command, "an argument is missing after", word);
        }
        value = is_flag ? NULL : value != NULL ? value + 1 : argv[++i];
        if (!is_flag && value[0] == '\0') {
            return usage(err, call->command, "an argument is missing after", word);
        }
        EXG_TRY(take_option(option, value, call, err));
    }
    if (call->path_count != paths_wanted(call->command) && !(call->list && call->path_count == 0)) {
        return usage(err, call->command, "a file name is missing for", call->command);
    }
    EXG_TRY(cli_check_needs(call, command_of(call->command)->letter, err));
    return check_written(call, err);
}

void cli_help(FILE *out)
{
    fputs("exg opens, verifies, converts and runs programs saved by torch.export.\n\n"
          "usage: exg COMMAND ...\n\n",
          out);
    for (size_t i = 0; i < COUNT(commands); i++) {
        fprintf(out, "  %-8s %-10s %s\n", commands[i].name, commands[i].arguments,
                commands[i].summary);
    }
    fputs("\n  exg COMMAND --help   options and examples; exg help COMMAND too\n"
          "  exg --version        versions, and which optional parts are in\n\n"
          "An option's value follows it, or an \"=\"; no word after \"--\" is an option.\n"
          "FILE may be a folder of a model, http:// or https://, or - for standard input.\n\n"
          "exit codes:\n",
          out);
    for (exg_status s = EXG_OK; s < EXG_STATUS_COUNT; s++) {
        fprintf(out, "  %d  %s\n", exg_status_exit_code(s), exg_status_meaning(s));
    }
}

static void put_option_help(exg_text *text, const option_row *option, char letter)
{
    char words[64];

    snprintf(words, sizeof(words), "%s%s%s", option->name, option->argument == NULL ? "" : " ",
             option->argument == NULL ? "" : option->argument);
    exg_text_printf(text, "  %-32s %s", words, option->help);
    cli_put_needs(text, option->needs, letter);
    exg_text_putc(text, '\n');
}

bool cli_command_help(FILE *out, const char *command)
{
    exg_text text = EXG_TEXT_EMPTY;
    const struct command_text *c = command_of(command);

    if (strcmp(c->name, command) != 0) {
        return false;
    }
    exg_text_printf(&text, "exg %s %s - %s\n\noptions:\n", command, c->arguments, c->summary);
    for (size_t o = 0; o < COUNT(options); o++) {
        if (strchr(options[o].commands, c->letter) != NULL) {
            put_option_help(&text, &options[o], c->letter);
        }
    }
    exg_text_printf(&text, "\nexamples:\n%s", c->examples);
    (void)cli_put(out, &text, NULL);
    exg_text_free(&text);
    return true;
}
