/* needs.c - an option without meaning in a call is refused: option.def says what each needs. */
#include "cli/cli.h"

#include <exg/transform.h>
#include <string.h>
#include <unistd.h>

/* ---- facts ------------------------------------------------------------------------------ */

bool cli_is_code(const char *word)
{
    const char *claim, *fix;

    return cli_find_code(word, &claim, &fix) ||
           (strcmp(word, "-") != 0 && strpbrk(word, "./") == NULL && access(word, F_OK) != 0);
}

bool cli_is_tensors(const char *path)
{
    exg_weights_format format = exg_weights_format_from_path(path);

    return format != EXG_WEIGHTS_FORMAT_COUNT && format != EXG_WEIGHTS_FORMAT_CONTAINER;
}

bool cli_names_ranks(const char *path)
{
    const char *slash = strrchr(path, '/');

    return strstr(slash == NULL ? path : slash, "{rank}") != NULL;
}

bool cli_writes_weights(const cli_call *call)
{
    return cli_is_tensors(call->paths[1]) ||
           (exg_format_from_path(call->paths[1]) == EXG_FORMAT_EXG &&
            cli_is_weights_file(call, call->paths[0]));
}

static bool has_file(const cli_call *call)
{
    return call->path_count > 0;
}

static bool is_program(const cli_call *call)
{
    return (call->path_count > 0 || call->rank_file != NULL) &&
           !cli_is_weights_file(call, call->paths[0]) &&
           !(strcmp(call->command, "explain") == 0 && cli_is_code(call->paths[0]));
}

static bool is_pipelined(const cli_call *call)
{
    static const char *const words[] = {"pipeline", "auto"};
    const char *at = call->place == NULL ? "" : call->place;

    while (*at != '\0') {
        size_t length = strcspn(at, ",");

        for (size_t w = 0; w < sizeof(words) / sizeof(words[0]); w++) {
            if (length == strlen(words[w]) && strncmp(at, words[w], length) == 0) {
                return true;
            }
        }
        at += length + (at[length] == ',');
    }
    return false;
}

static bool is_parallel(const cli_call *call)
{
    cli_program p;
    bool is;

    if (cli_open(call, &p, NULL) != EXG_OK) {
        return true; /* as the command will tell */
    }
    is = exg_program_has_collectives(p.program, p.operators);
    cli_close(&p);
    return is;
}

/* Of a file that is neither, what it is is told when it is opened. */
static bool is_weights(const cli_call *call)
{
    const exg_open_options options = cli_open_options(call);
    exg_file_info *info = NULL;
    bool is = call->path_count > 0 &&
              (cli_is_weights_file(call, call->paths[0]) ||
               exg_file_describe(call->paths[0], &options, &info, NULL) != EXG_OK);

    exg_file_info_free(info);
    return is;
}

static bool is_early_file(const cli_call *call, const char *path)
{
    const exg_open_options options = cli_open_options(call);
    exg_file_info *info = NULL;
    bool is =
        exg_file_describe(path, &options, &info, NULL) != EXG_OK || /* as the command will tell */
        info->format == EXG_FORMAT_EARLY_JSON;

    exg_file_info_free(info);
    return is;
}

static bool is_early(const cli_call *call)
{
    return is_program(call) &&
           (is_early_file(call, call->paths[0]) ||
            (strcmp(call->command, "diff") == 0 && is_early_file(call, call->paths[1])));
}

static bool writes(const cli_call *call, exg_format format)
{
    exg_format named = exg_format_from_path(call->paths[1]);

    return named == format || (named == EXG_FORMAT_COUNT && !cli_is_tensors(call->paths[1]));
}

static bool writes_exg(const cli_call *call)
{
    return writes(call, EXG_FORMAT_EXG);
}

static bool writes_pt2(const cli_call *call)
{
    return writes(call, EXG_FORMAT_PT2);
}

static bool writes_early(const cli_call *call)
{
    return writes(call, EXG_FORMAT_EARLY_JSON);
}

static bool writes_weights(const cli_call *call)
{
    return exg_format_from_path(call->paths[1]) == EXG_FORMAT_COUNT || cli_writes_weights(call);
}

static bool writes_form(const cli_call *call, exg_weights_format format)
{
    exg_weights_format named = exg_weights_format_from_path(call->paths[1]);

    return writes_weights(call) && (named == format || named == EXG_WEIGHTS_FORMAT_COUNT);
}

static bool writes_safetensors(const cli_call *call)
{
    return writes_form(call, EXG_WEIGHTS_FORMAT_SAFETENSORS);
}

static bool writes_gguf(const cli_call *call)
{
    return writes_form(call, EXG_WEIGHTS_FORMAT_GGUF);
}

static bool is_action(const cli_call *call, const char *action)
{
    return call->path_count > 0 && strcmp(call->paths[0], action) == 0;
}

static bool is_adding(const cli_call *call)
{
    return is_action(call, "add");
}

static bool is_exporting(const cli_call *call)
{
    return is_action(call, "export");
}

static bool is_verifying(const cli_call *call)
{
    return is_action(call, "verify");
}

static bool is_of_processes(const cli_call *call)
{
    (void)call;
    return cli_process_count() > 1;
}

static const struct {
    const char *word;
    bool (*holds)(const cli_call *call);
    const char *meaning;
} facts[] = {
#define EXG_FACT(word, holds, meaning) {word, holds, meaning},
#include "cli/fact.def"
#undef EXG_FACT
};

/* ---- options ---------------------------------------------------------------------------- */

typedef struct given {
    const char *name, *commands, *needs;
    bool is_given;
    const char *value; /* of a text; NULL: none */
} given;

#define OPTIONS_MAX 128

/* All options, and whether this call has them. */
static size_t list_options(const cli_call *call, given rows[OPTIONS_MAX])
{
    const given table[] = {
#define EXG_FLAG(field, name, commands, needs, help) {name, commands, needs, call->field, NULL},
#define EXG_TEXT_OPTION(field, name, argument, commands, needs, help)                              \
    {name, commands, needs, call->field != NULL, call->field},
#define EXG_LIST_OPTION(field, name, argument, commands, needs, help)                              \
    {name, commands, needs, call->field.count > 0, NULL},
#define EXG_NUMBER_OPTION(field, name, argument, commands, needs, help)                            \
    {name, commands, needs, call->has_##field, NULL},
#define EXG_WHOLE_OPTION(field, name, least, most, commands, needs, help)                          \
    {name, commands, needs, call->has_##field, NULL},
#include "cli/option.def"
#undef EXG_FLAG
#undef EXG_TEXT_OPTION
#undef EXG_LIST_OPTION
#undef EXG_NUMBER_OPTION
#undef EXG_WHOLE_OPTION
    };

    _Static_assert(sizeof(table) / sizeof(table[0]) <= OPTIONS_MAX, "room for all options");
    memcpy(rows, table, sizeof(table));
    return sizeof(table) / sizeof(table[0]);
}

/* ---- terms ------------------------------------------------------------------------------ */

/* A part of `needs`: words with | between, in some commands or all. */
typedef struct term {
    const char *text;
    size_t length;
    bool is_not;
} term;

/* The next one that is of the command, or none. */
static bool next_term(const char **needs, char letter, term *found)
{
    while (**needs != '\0') {
        size_t length = strcspn(*needs, " ");
        size_t letters = strspn(*needs, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
        const char *begin = *needs;
        bool applies = true;

        *needs += length + ((*needs)[length] == ' ');
        if (begin[letters] == ':') {
            applies = memchr(begin, letter, letters) != NULL;
            begin += letters + 1;
            length -= letters + 1;
        }
        if (applies) {
            bool is_not = begin[0] == '!';

            *found = (term){begin + is_not, length - is_not, is_not};
            return true;
        }
    }
    return false;
}

static bool is_word(const char *word, const char *text, size_t length)
{
    return strlen(word) == length && memcmp(word, text, length) == 0;
}

/* "--option" or "--option=value" */
static bool option_holds(const given *options, size_t count, const char *text, size_t length)
{
    const char *equals = memchr(text, '=', length);
    size_t name = equals == NULL ? length : (size_t)(equals - text);

    for (size_t i = 0; i < count; i++) {
        if (is_word(options[i].name, text, name) && options[i].is_given) {
            return equals == NULL || (options[i].value != NULL &&
                                      is_word(options[i].value, equals + 1, length - name - 1));
        }
    }
    return false;
}

static bool word_holds(const cli_call *call, const given *options, size_t count, const char *text,
                       size_t length)
{
    for (size_t f = 0; f < sizeof(facts) / sizeof(facts[0]); f++) {
        if (is_word(facts[f].word, text, length)) {
            return facts[f].holds(call);
        }
    }
    return option_holds(options, count, text, length);
}

/* Does one of its words hold? */
static bool term_holds(const cli_call *call, const given *options, size_t count, const term *t)
{
    for (size_t at = 0; at < t->length;) {
        const char *bar = memchr(t->text + at, '|', t->length - at);
        size_t length = bar == NULL ? t->length - at : (size_t)(bar - t->text) - at;

        if (word_holds(call, options, count, t->text + at, length)) {
            return true;
        }
        at += length + 1;
    }
    return false;
}

/* "--weights external", "an OUT that is .exg": one or the other. */
static void put_term(exg_text *text, const term *t)
{
    for (size_t at = 0; at < t->length;) {
        const char *bar = memchr(t->text + at, '|', t->length - at);
        size_t length = bar == NULL ? t->length - at : (size_t)(bar - t->text) - at;
        const char *meaning = NULL;

        for (size_t f = 0; f < sizeof(facts) / sizeof(facts[0]); f++) {
            meaning = is_word(facts[f].word, t->text + at, length) ? facts[f].meaning : meaning;
        }
        exg_text_puts(text, at > 0 ? " or " : "");
        for (size_t c = 0; meaning == NULL && c < length; c++) {
            exg_text_putc(text, t->text[at + c] == '=' ? ' ' : t->text[at + c]);
        }
        exg_text_puts(text, meaning == NULL ? "" : meaning);
        at += length + 1;
    }
}

/* The terms of one kind, with `before` the first. */
static bool put_terms(exg_text *text, const char *needs, char letter, bool is_not,
                      const char *before, const char *between)
{
    bool any = false;
    term t;

    while (next_term(&needs, letter, &t)) {
        if (t.is_not == is_not) {
            exg_text_puts(text, any ? between : before);
            put_term(text, &t);
            any = true;
        }
    }
    return any;
}

void cli_put_needs(exg_text *text, const char *needs, char letter)
{
    bool any = put_terms(text, needs, letter, false, " [needs ", ", and ");

    any = put_terms(text, needs, letter, true, any ? "; not with " : " [not with ", ", ") || any;
    exg_text_puts(text, any ? "]" : "");
}

static exg_status refuse(const cli_call *call, const char *option, const term *t, exg_error *err)
{
    exg_text words = EXG_TEXT_EMPTY;
    exg_status status;

    put_term(&words, t);
    if (exg_text_string(&words) == NULL) {
        exg_text_free(&words);
        return EXG_OUT_OF_MEMORY(err);
    }
    status = t->is_not ? EXG_FAIL(err, USAGE, "CLI-009", "%s and %s do not go together", option,
                                  words.data)
                       : EXG_FAIL(err, USAGE, "CLI-009", "%s has no meaning here: it needs %s",
                                  option, words.data);
    exg_text_free(&words);
    return exg_error_fix(err, status, "leave %s out; see: exg %s --help", option, call->command);
}

exg_status cli_check_needs(const cli_call *call, char letter, exg_error *err)
{
    given options[OPTIONS_MAX];
    size_t count = list_options(call, options);

    for (size_t i = 0; i < count; i++) {
        const char *needs = options[i].needs;
        term t;

        while (options[i].is_given && next_term(&needs, letter, &t)) {
            if (term_holds(call, options, count, &t) == t.is_not) {
                return refuse(call, options[i].name, &t, err);
            }
        }
    }
    return EXG_OK;
}
