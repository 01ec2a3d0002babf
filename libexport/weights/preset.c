/* preset.c - the text of presets.
 *
 *     # a remark
 *     number NAME OTHER...          a number that rules need, and what files of models call it
 *     FROM TO [ranks DIM [unless NAME]] [OPERATION...] [shard DIM [pad N] [unless NAME]]
 *                                   a rule; TO - leaves the tensor out
 */
#include "libexport/weights/preset.h"

#include "libexport/weights/name_rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_MAX 24 /* of a line */

typedef struct parser {
    exg_preset *preset;
    uint32_t line;
    char *words[WORDS_MAX];
    uint32_t count; /* of the line */
    uint32_t at;    /* of them that is read next */
    exg_error *err;
} parser;

static exg_status fault(const parser *p, const char *what)
{
    return EXG_FAIL(p->err, USAGE, "WGT-PRESET", "line %u of the preset: %s", p->line, what);
}

/* ---- operations -------------------------------------------------------------------------------
 */

/* The next word; NULL: there is none. */
static char *next(parser *p)
{
    return p->at < p->count ? p->words[p->at++] : NULL;
}

/* "heads,*,2" */
static exg_status read_factors(parser *p, exg_preset_operation *made)
{
    char *word = next(p);
    uint32_t rest = 0;

    for (char *end = word; end != NULL; word = end) {
        end = strchr(word, ',');
        if (end != NULL) {
            *end++ = '\0';
        }
        if (word[0] == '\0' || made->count == EXG_PRESET_FACTORS) {
            return fault(p, "rows takes two to four factors, as heads,*,2");
        }
        rest += strcmp(word, "*") == 0;
        made->factors[made->count++] = word;
        if (end == NULL) {
            break;
        }
    }
    return made->count < 2 || rest > 1 ? fault(p, "rows takes two to four factors, one of them *")
                                       : EXG_OK;
}

/* "0,2,1": each of them once. */
static exg_status read_order(parser *p, exg_preset_operation *made)
{
    const char *word = next(p);
    uint32_t seen = 0;

    for (uint32_t i = 0; word != NULL && i < made->count; i++) {
        bool last = i + 1 == made->count;

        if (word[0] < '0' || (uint32_t)(word[0] - '0') >= made->count ||
            word[1] != (last ? '\0' : ',')) {
            break;
        }
        made->order[i] = (uint32_t)(word[0] - '0');
        seen |= 1u << made->order[i];
        word += last ? 1 : 2;
    }
    return seen == (1u << made->count) - 1 && word[0] == '\0'
               ? EXG_OK
               : fault(p, "rows takes the order of its factors, as 0,2,1");
}

/* "1/3" */
static exg_status read_part(parser *p, exg_preset_operation *made)
{
    const char *word = next(p);
    int end = 0;

    if (word == NULL || sscanf(word, "%4u/%4u%n", &made->part, &made->parts, &end) != 2 ||
        word[end] != '\0' || made->part < 1 || made->part > made->parts) {
        return fault(p, "slice and join take a part of so many, as 1/3");
    }
    made->part--;
    return EXG_OK;
}

/* The word behind `word`, where that is the next one; else NULL. */
static exg_status read_option(parser *p, const char *word, const char **value)
{
    if (p->at == p->count || strcmp(p->words[p->at], word) != 0) {
        return EXG_OK;
    }
    p->at++;
    *value = next(p);
    return *value == NULL ? fault(p, "pad and unless take a name") : EXG_OK;
}

/* "0", "1 unless norm.weight" */
static exg_status read_parts(parser *p, exg_preset_parts *parts)
{
    const char *word = next(p);

    if (word == NULL || (strcmp(word, "0") != 0 && strcmp(word, "1") != 0)) {
        return fault(p, "ranks and shard take a dim, 0 or 1");
    }
    parts->given = true;
    parts->dim = word[0] == '1';
    return EXG_OK;
}

static exg_status read_ranks(parser *p, exg_preset_rule *rule)
{
    if (rule->operation_count > 0 || rule->ranks.given) {
        return fault(p, "ranks is the first operation, and there once");
    }
    p->preset->has_ranks = true;
    EXG_TRY(read_parts(p, &rule->ranks));
    return read_option(p, "unless", &rule->ranks.unless);
}

static exg_status read_shard(parser *p, exg_preset_rule *rule)
{
    p->preset->has_shard = true;
    EXG_TRY(read_parts(p, &rule->shard));
    EXG_TRY(read_option(p, "pad", &rule->shard.pad));
    return read_option(p, "unless", &rule->shard.unless);
}

static exg_status read_operation(parser *p, exg_preset_rule *rule)
{
    const char *word = next(p);
    exg_preset_operation *made = &rule->operations[rule->operation_count];

    if (rule->shard.given) {
        return fault(p, "shard is the last operation");
    }
    if (strcmp(word, "ranks") == 0) {
        return read_ranks(p, rule);
    }
    if (strcmp(word, "shard") == 0 &&
        (rule->operation_count == 0 || made[-1].kind != EXG_PRESET_JOIN)) {
        return read_shard(p, rule);
    }
    if (rule->operation_count == EXG_PRESET_OPERATIONS) {
        return fault(p, "too many operations");
    }
    if (rule->operation_count > 0 && made[-1].kind == EXG_PRESET_JOIN) {
        return fault(p, "join is the last operation");
    }
    rule->operation_count++;
    if (strcmp(word, "transpose") == 0) {
        made->kind = EXG_PRESET_TRANSPOSE;
        return EXG_OK;
    }
    if (strcmp(word, "rows") == 0) {
        made->kind = EXG_PRESET_ROWS;
        EXG_TRY(read_factors(p, made));
        return read_order(p, made);
    }
    if (strcmp(word, "first") == 0) {
        made->kind = EXG_PRESET_FIRST;
        made->factors[0] = next(p);
        return made->factors[0] == NULL ? fault(p, "first takes a number") : EXG_OK;
    }
    made->kind = strcmp(word, "join") == 0 ? EXG_PRESET_JOIN : EXG_PRESET_SLICE;
    if (made->kind == EXG_PRESET_SLICE && strcmp(word, "slice") != 0) {
        return fault(p, "an operation is ranks, transpose, rows, first, slice, join or shard");
    }
    return read_part(p, made);
}

/* ---- lines ------------------------------------------------------------------------------------
 */

static exg_status read_rule(parser *p)
{
    exg_preset *preset = p->preset;
    exg_preset_rule rule = {0};
    const char *from = next(p);
    const char *to = next(p);

    if (to == NULL) {
        return fault(p, "a rule is FROM TO [OPERATION...]");
    }
    while (p->at < p->count) {
        EXG_TRY(read_operation(p, &rule));
    }
    rule.to = strcmp(to, "-") == 0 ? NULL : to;
    if (!exg_arena_reserve(preset->arena, &preset->rules, preset->count, &preset->capacity,
                           sizeof(rule))) {
        return EXG_OUT_OF_MEMORY(p->err);
    }
    if (regcomp(&rule.from, from, REG_EXTENDED) != 0) {
        return fault(p, "its first word is no regular expression");
    }
    preset->rules[preset->count++] = rule;
    if (rule.to != NULL && exg_name_missing_group(&rule.from, rule.to) != '\0') {
        return fault(p, "its second word names a group that the first has not");
    }
    return EXG_OK;
}

static exg_status read_number(parser *p)
{
    exg_preset *preset = p->preset;
    exg_string_map *numbers = &preset->numbers;
    exg_string_pair pair = {p->count > 1 ? p->words[1] : NULL, ""};

    if (pair.key == NULL) {
        return fault(p, "number takes a name");
    }
    for (uint32_t i = 2; i < p->count && pair.value != NULL; i++) {
        pair.value = exg_arena_printf(preset->arena, "%s%s ", pair.value, p->words[i]);
    }
    if (pair.value == NULL || !exg_arena_reserve(preset->arena, &numbers->items, numbers->count,
                                                 &preset->number_capacity, sizeof(pair))) {
        return EXG_OUT_OF_MEMORY(p->err);
    }
    numbers->items[numbers->count++] = pair;
    return EXG_OK;
}

static exg_status read_line(parser *p, char *line)
{
    char *rest = NULL;

    p->count = 0;
    p->at = 0;
    for (char *word = strtok_r(line, " \t\r", &rest); word != NULL && word[0] != '#';
         word = strtok_r(NULL, " \t\r", &rest)) {
        if (p->count == WORDS_MAX) {
            return fault(p, "too many words");
        }
        p->words[p->count++] = word;
    }
    return p->count == 0                        ? EXG_OK
           : strcmp(p->words[0], "number") == 0 ? read_number(p)
                                                : read_rule(p);
}

exg_status exg_preset_open(const char *text, exg_arena *arena, exg_preset **preset, exg_error *err)
{
    exg_preset *made = EXG_NEW(arena, exg_preset);
    char *copy = exg_arena_strdup(arena, text);
    parser p = {.preset = made, .err = err};

    *preset = made;
    if (made == NULL || copy == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    made->arena = arena;
    while (copy != NULL) {
        char *end = strchr(copy, '\n');

        if (end != NULL) {
            *end++ = '\0';
        }
        p.line++;
        EXG_TRY(read_line(&p, copy));
        copy = end;
    }
    return EXG_OK;
}

void exg_preset_close(exg_preset *preset)
{
    for (uint32_t i = 0; preset != NULL && i < preset->count; i++) {
        regfree(&preset->rules[i].from);
    }
}

/* ---- numbers ----------------------------------------------------------------------------------
 */

/* A positive whole number, or 0. */
static int64_t number_of(const char *text)
{
    char *end;
    long long number = strtoll(text, &end, 10);

    return end != text && *end == '\0' && number > 0 ? number : 0;
}

static int64_t find_number(const exg_string_map *map, const char *name, size_t length)
{
    for (uint32_t i = 0; map != NULL && i < map->count; i++) {
        if (strncmp(map->items[i].key, name, length) == 0 && map->items[i].key[length] == '\0') {
            return number_of(map->items[i].value);
        }
    }
    return 0;
}

/* The other names of a number; NULL: it is none of the preset. */
static const char *others_of(const exg_preset *preset, const char *name, size_t length)
{
    for (uint32_t i = 0; i < preset->numbers.count; i++) {
        const exg_string_pair *pair = &preset->numbers.items[i];

        if (strncmp(pair->key, name, length) == 0 && pair->key[length] == '\0') {
            return pair->value;
        }
    }
    return NULL;
}

static int64_t look_up(const exg_preset_numbers *numbers, const char *name, size_t length,
                       int depth)
{
    const char *others = others_of(numbers->preset, name, length);
    int64_t found = find_number(numbers->given, name, length);

    found = found != 0 ? found : find_number(numbers->metadata, name, length);
    while (found == 0 && depth < 4 && others != NULL && others[0] != '\0') {
        size_t size = strcspn(others, " ");

        found = look_up(numbers, others, size, depth + 1);
        others += size + 1;
    }
    return found;
}

bool exg_preset_has_number(const exg_preset_numbers *numbers, const char *name)
{
    return look_up(numbers, name, strlen(name), 0) > 0;
}

exg_status exg_preset_number(const exg_preset_numbers *numbers, const char *factor, int64_t *number,
                             exg_error *err)
{
    *number = number_of(factor);
    if (strcmp(factor, "*") == 0 || *number > 0) {
        return EXG_OK;
    }
    *number = look_up(numbers, factor, strlen(factor), 0);
    return *number > 0
               ? EXG_OK
               : exg_error_fix(err,
                               EXG_FAIL(err, USAGE, "WGT-PRESET",
                                        "the preset needs the number %s of this model", factor),
                               "--set %s=N, or config.json or params.json beside FILE", factor);
}
