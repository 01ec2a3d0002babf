/* options.c - the words of the command line, by the tables. */
#include "cli/table.h"

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

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Every command that gets here is in the table. */
static const cli_command_row *command_of(const char *name)
{
    const cli_command_row *c = cli_commands;

    while (c[1].name != NULL && strcmp(c->name, name) != 0) {
        c++;
    }
    return c;
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

static exg_status unknown_option(exg_error *err, const char *command, const char *word)
{
    const exg_status status = EXG_FAIL(err, USAGE, "CLI-001", "unknown option '%s'", word);
    char name[64];
    cli_nearest nearest;

    snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
    cli_nearest_begin(&nearest, name);
    for (size_t i = 0; i < COUNT(options); i++) {
        if (strchr(options[i].commands, command_of(command)->letter) != NULL) {
            cli_nearest_offer(&nearest, options[i].name);
        }
    }
    return nearest.name != NULL ? exg_error_fix(err, status, "did you mean %s? see: exg %s --help",
                                                nearest.name, command)
                                : exg_error_fix(err, status, "see: exg %s --help", command);
}

/* "--repeat takes a whole number from 1 to 4294967295, not '0'" */
static exg_status wrong_number(const option_row *option, const char *value, exg_error *err)
{
    return option->most > 0
               ? EXG_FAIL(err, USAGE, "CLI-001",
                          "%s takes a whole number from %.0f to %.0f, not '%s'", option->name,
                          option->least, option->most, value)
               : EXG_FAIL(err, USAGE, "CLI-001", "%s takes a number from 0 on, not '%s'",
                          option->name, value);
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
            return wrong_number(option, value, err);
        }
        if (option->most > 0 &&
            (number < option->least || number > option->most || number != floor(number))) {
            return wrong_number(option, value, err);
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
    uint32_t count = arguments[0] != '\0' && arguments[0] != '[';

    for (; *arguments != '\0'; arguments++) {
        count += *arguments == ' ' && arguments[1] != '[';
    }
    return count;
}

/* With those in brackets. */
static uint32_t paths_allowed(const char *command)
{
    const char *arguments = command_of(command)->arguments;
    uint32_t count = arguments[0] != '\0';

    for (; *arguments != '\0'; arguments++) {
        count += *arguments == ' ';
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

/* May OUT be standard output? */
static bool writes_stream(const cli_call *call)
{
    return strcmp(command_of(call->command)->arguments, "FILE OUT") == 0;
}

/* What is written replaces neither what is read, nor what else is written; "-" is a stream where
 * there is one. */
static exg_status check_written(const cli_call *call, exg_error *err)
{
    const struct {
        const char *name, *path;
    } files[] = {{"FILE", call->paths[0]},
                 {call->apply ? "PATCH" : "B", call->path_count == 3 ? call->paths[1] : NULL},
                 {"--expect", call->expect == NULL || strchr(call->expect, '=') == NULL
                                  ? call->expect
                                  : strchr(call->expect, '=') + 1},
                 {"--weights-from", call->weights_from},
                 {"--sign", call->sign},
                 {"--annotate", call->annotate},
                 {"OUT", out_path(call)},
                 {"--bundle", call->sign == NULL ? NULL : call->bundle},
                 {"--output", call->output},
                 {"--dump", call->dump},
                 {"--state-output", call->state_output},
                 {"--trace", call->trace},
                 {"--html", call->html},
                 {"--calibrate", call->calibrate}};
    const size_t first_written = 6;

    for (uint32_t i = 0; i < call->inputs.count; i++) {
        EXG_TRY(cli_check_dash("--input", call->inputs.items[i], err));
    }
    EXG_TRY(cli_check_dash("--state", call->state, err));
    for (size_t f = 2; f < COUNT(files); f++) {
        if (files[f].path != call->weights_from && (f != first_written || !writes_stream(call))) {
            EXG_TRY(cli_check_dash(files[f].name, files[f].path, err));
        }
    }
    for (size_t w = first_written; w < COUNT(files); w++) {
        for (size_t f = 0; files[w].path != NULL && f < w; f++) {
            if (files[f].path != NULL &&
                !(writes_stream(call) && strcmp(files[f].path, "-") == 0) &&
                is_same_file(files[f].path, files[w].path)) {
                exg_status status = EXG_FAIL(err, USAGE, "CLI-004", "%s and %s are one file, '%s'",
                                             files[f].name, files[w].name, files[w].path);

                return exg_error_fix(err, status, "give %s a name of its own", files[w].name);
            }
        }
    }
    return EXG_OK;
}

/* OUT "-" is of FILE's format, by its name. */
static void name_stream(cli_call *call)
{
    const char *out = out_path(call);
    const char *dot = strrchr(call->path_count > 0 ? call->paths[0] : "", '.');

    if (writes_stream(call) && out != NULL && strcmp(out, "-") == 0 && dot != NULL &&
        strchr(dot, '/') == NULL && strlen(dot) + 2 <= sizeof(call->stream)) {
        snprintf(call->stream, sizeof(call->stream), "-%s", dot);
        call->paths[call->path_count - 1] = call->stream;
    }
}

/* "-o OUT": the value of --output, or the last of the files. */
static exg_status take_out(int argc, char **argv, int *at, cli_call *call, exg_error *err)
{
    const option_row *output = find_option("--output", call->command);
    const char *arguments = command_of(call->command)->arguments;
    const size_t length = strlen(arguments);

    if (output == NULL && (length < 4 || strcmp(arguments + length - 4, " OUT") != 0)) {
        return unknown_option(err, call->command, argv[*at]);
    }
    if (*at + 1 == argc || argv[*at + 1][0] == '\0') {
        return usage(err, call->command, "an argument is missing after", argv[*at]);
    }
    ++*at;
    if (output != NULL) {
        return take_option(output, argv[*at], call, err);
    }
    if (call->out_path != NULL) {
        return EXG_FAIL(err, USAGE, "CLI-001", "-o is given twice");
    }
    call->out_path = argv[*at];
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
        if (!has_options || word[0] != '-' || word[1] == '\0' ||
            (writes_stream(call) && cli_is_stream(word))) {
            if (takes_several(call->command)) {
                call->files.items[call->files.count++] = word;
            }
            if (call->path_count < paths_allowed(call->command) &&
                (!takes_several(call->command) || call->path_count < paths_wanted(call->command))) {
                call->paths[call->path_count++] = word;
            } else if (!takes_several(call->command)) {
                return usage(err, call->command, "unexpected argument", word);
            }
            continue;
        }
        if (strcmp(word, "--") == 0) {
            has_options = false;
            continue;
        }
        if (strcmp(word, "-o") == 0) {
            EXG_TRY(take_out(argc, argv, &i, call, err));
            continue;
        }
        if (option == NULL || (is_flag && value != NULL)) {
            return unknown_option(err, call->command, word);
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
    if (call->out_path != NULL && call->path_count < paths_wanted(call->command)) {
        call->paths[call->path_count++] = call->out_path;
    } else if (call->out_path != NULL) {
        return usage(err, call->command, "OUT is there already, and so is -o", call->out_path);
    }
    if (call->rank_file != NULL) {
        EXG_TRY(cli_rank_name(call->rank_file, cli_process_rank(), call->rank_path,
                              sizeof(call->rank_path), err));
        call->paths[0] = call->path_count == 0 ? call->rank_path : call->paths[0];
    }
    if (call->path_count < paths_wanted(call->command) &&
        !((call->list || call->rank_file != NULL) && call->path_count == 0)) {
        return exg_error_fix(err,
                             EXG_FAIL(err, USAGE, "CLI-001", "%s needs %s", call->command,
                                      command_of(call->command)->arguments),
                             "see: exg %s --help", call->command);
    }
    name_stream(call);
    EXG_TRY(cli_check_needs(call, command_of(call->command)->letter, err));
    return check_written(call, err);
}

/* ---- calls made of calls ------------------------------------------------------------------- */

/* As if it had not been given. */
static void clear_option(const option_row *option, cli_call *call)
{
    char *field = (char *)call + option->offset;

    switch (option->kind) {
    case OPTION_FLAG:
        *(bool *)(void *)field = false;
        break;
    case OPTION_TEXT:
        *(const char **)(void *)field = NULL;
        break;
    case OPTION_LIST:
        break;
    default:
        *(bool *)(void *)((char *)call + option->has_offset) = false;
    }
}

static exg_status apply(const char *word, cli_call *call, exg_error *err)
{
    const char *equals = strchr(word, '=');
    char name[64];
    const option_row *option;

    snprintf(name, sizeof(name), "--%.*s", (int)strcspn(word, "="), word);
    option = find_option(name, call->command);
    if (option == NULL || option->kind == OPTION_LIST ||
        (option->kind == OPTION_FLAG) != (equals == NULL)) {
        return exg_error_fix(err, EXG_FAIL(err, USAGE, "CLI-001", "--with '%s'", word),
                             "write an option of this command and its value: device=strict");
    }
    clear_option(option, call);
    return take_option(option, equals == NULL ? NULL : equals + 1, call, err);
}

exg_status cli_apply_with(const cli_call *call, cli_call *other, exg_error *err)
{
    *other = *call;
    for (uint32_t i = 0; i < call->with.count; i++) {
        EXG_TRY(apply(call->with.items[i], other, err));
    }
    return cli_check_needs(other, command_of(call->command)->letter, err);
}

#define NUMBER_ROOM 32 /* of a number as text */

/* A word for it, or with `text` a number's. */
static size_t put_words(const cli_call *call, const option_row *option, const char **words,
                        char text[NUMBER_ROOM])
{
    const char *field = (const char *)call + option->offset;
    const char *value =
        option->kind == OPTION_TEXT ? *(const char *const *)(const void *)field : NULL;
    const cli_words *list = (const cli_words *)(const void *)field;
    size_t count = 0;

    if (option->kind == OPTION_LIST) {
        for (uint32_t i = 0; i < list->count; i++) {
            words[count++] = option->name;
            words[count++] = list->items[i];
        }
    } else if (option->kind == OPTION_FLAG && *(const bool *)(const void *)field) {
        words[count++] = option->name;
    } else if (option->kind == OPTION_NUMBER &&
               *(const bool *)(const void *)((const char *)call + option->has_offset)) {
        snprintf(text, NUMBER_ROOM, "%.17g", *(const double *)(const void *)field);
        words[count++] = option->name;
        words[count++] = text;
    } else if (value != NULL) {
        words[count++] = option->name;
        words[count++] = value;
    }
    return count;
}

const char **cli_words_of(const cli_call *call, const char *command, char letter, size_t more)
{
    size_t room = 4 + 2 * COUNT(options) + more;
    size_t count = 0;
    const char **words;
    char *texts;

    for (size_t o = 0; o < COUNT(options); o++) {
        if (options[o].kind == OPTION_LIST) {
            room +=
                2 *
                ((const cli_words *)(const void *)((const char *)call + options[o].offset))->count;
        }
    }
    words = calloc(1, room * sizeof(*words) + COUNT(options) * NUMBER_ROOM);
    texts = (char *)(words + room);
    if (words == NULL) {
        return NULL;
    }
    words[count++] = "exg";
    words[count++] = command;
    words[count++] = call->paths[0];
    for (size_t o = 0; o < COUNT(options); o++) {
        if (strchr(options[o].commands, letter) != NULL) {
            count += put_words(call, &options[o], words + count, texts + o * NUMBER_ROOM);
        }
    }
    return words;
}

/* Words after what is `indent` wide, in lines of the terminal. */
static void put_wrapped(exg_text *text, const char *words, uint32_t indent, uint32_t width)
{
    uint32_t column = indent;

    if (width > 0 && width <= indent + 20) { /* too narrow for two columns */
        indent = 6;
        column = indent;
        exg_text_printf(text, "\n%*s", (int)indent, "");
    }
    while (*words != '\0') {
        const size_t length = strcspn(words, " ");

        if (width > 0 && column > indent && column + length + 1 > width) {
            exg_text_printf(text, "\n%*s", (int)indent, "");
            column = indent;
        } else if (column > indent) {
            exg_text_putc(text, ' ');
            column++;
        }
        exg_text_add(text, words, length);
        column += (uint32_t)length;
        words += length + (words[length] == ' ');
    }
}

static void put_globals(exg_text *text, uint32_t width)
{
    static const struct {
        const char *name, *full, *argument, *help;
    } globals[] = {
#define EXG_GLOBAL(short, name, argument, help) {short, name, argument, help},
#include "cli/global.def"
#undef EXG_GLOBAL
    };

    for (size_t i = 0; i < COUNT(globals); i++) {
        char words[48];

        snprintf(words, sizeof(words), "%s%s%s%s%s", globals[i].name,
                 globals[i].name[0] != '\0' && globals[i].full[0] != '\0' ? ", " : "",
                 globals[i].full, globals[i].argument[0] == '\0' ? "" : " ", globals[i].argument);
        exg_text_printf(text, "  %-26s ", words);
        put_wrapped(text, globals[i].help, 29, width);
        exg_text_putc(text, '\n');
    }
}

void cli_help(FILE *out)
{
    const uint32_t width = cli_width(out);
    exg_text text = EXG_TEXT_EMPTY;

    exg_text_puts(&text,
                  "exg opens, verifies, converts and runs programs saved by torch.export.\n\n"
                  "usage: exg COMMAND ...\n\n");
    for (const cli_command_row *c = cli_commands; c->name != NULL; c++) {
        exg_text_printf(&text, "  %-10s %-13s ", c->name, c->arguments);
        put_wrapped(&text, c->summary, 27, width);
        exg_text_putc(&text, '\n');
    }
    exg_text_puts(&text, "\noptions of all commands; exg help COMMAND has the others, and "
                         "with --man a page of the manual:\n");
    put_globals(&text, width);
    exg_text_puts(&text, "\nAn option's value follows it, or an \"=\"; no word after \"--\" is an "
                         "option.\nFILE may be a folder of a model, http:// or https://, or - for "
                         "standard input.\nOUT of convert and repack may be - for standard output "
                         "in FILE's format, or -.safetensors,\n-.exg, -.pt2, ...\n\nexit codes:\n");
    for (exg_status s = EXG_OK; s < EXG_STATUS_COUNT; s++) {
        exg_text_printf(&text, "  %d  %s\n", exg_status_exit_code(s), exg_status_meaning(s));
    }
    (void)cli_put(out, &text, NULL);
    exg_text_free(&text);
}

static void put_option_help(exg_text *text, const option_row *option, char letter, uint32_t width)
{
    exg_text help = EXG_TEXT_EMPTY;
    char words[64];

    snprintf(words, sizeof(words), "%s%s%s", option->name, option->argument == NULL ? "" : " ",
             option->argument == NULL ? "" : option->argument);
    exg_text_printf(text, "  %-32s ", words);
    exg_text_puts(&help, option->help);
    cli_put_needs(&help, option->needs, letter);
    put_wrapped(text, exg_text_part(text, &help), 35, width);
    exg_text_free(&help);
    exg_text_putc(text, '\n');
}

bool cli_command_help(FILE *out, const char *command)
{
    exg_text text = EXG_TEXT_EMPTY;
    const cli_command_row *c = command_of(command);

    if (strcmp(c->name, command) != 0) {
        return false;
    }
    exg_text_printf(&text, "exg %s %s - %s\n\noptions:\n", command, c->arguments, c->summary);
    for (size_t o = 0; o < COUNT(options); o++) {
        if (strchr(options[o].commands, c->letter) != NULL) {
            put_option_help(&text, &options[o], c->letter, cli_width(out));
        }
    }
    exg_text_printf(&text, "\nexamples:\n%s", c->examples);
    (void)cli_put(out, &text, NULL);
    exg_text_free(&text);
    return true;
}
