/* patterns_file.c - placements as a file:
 *   {"weights": {"*.q.weight": "S(0)", "*.o.weight": ["S(1)", "R"]}, "inputs": {"x": "S(0)"},
 *    "activations": {"blocks.*": "S(1)"}, "outputs": {"logits": "R"}}
 * where a key is an fnmatch pattern over the names of weights, of inputs, of nodes and modules, or
 * of outputs; the first that fits counts. A list has a placement for each mesh dim. Or a plan by
 * module, as transformers ships them and as PyTorch prints those of parallelize_module:
 *   {"layers.*.self_attn.q_proj": "colwise", "layers.*.mlp.down_proj": "RowwiseParallel()"}
 * by itself, or as "tp_plan" or "parallelize_plan".
 */
#include "libexport/base/arena.h"
#include "libexport/base/options.h"
#include "libexport/base/require.h"
#include "libexport/formats/json.h"

#include <exg/partition.h>
#include <stdlib.h>
#include <string.h>

/* Dims of styles.def. */
#define WHOLE (-100)
#define FREE  (-101)

typedef struct reading {
    uint32_t dim, ndim; /* of the mesh: which one is asked for, of how many */
    exg_arena *arena;
    exg_partition_pattern *patterns;
    uint32_t count, capacity;
    exg_error *err;
} reading;

static exg_status add(reading *r, exg_partition_subject of, const char *pattern, const char *key,
                      exg_placement placement)
{
    if (!exg_arena_reserve(r->arena, &r->patterns, r->count, &r->capacity, sizeof(*r->patterns)) ||
        pattern == NULL) {
        return EXG_OUT_OF_MEMORY(r->err);
    }
    r->patterns[r->count++] = (exg_partition_pattern){pattern, placement, of, key};
    return EXG_OK;
}

/* ---- placements ------------------------------------------------------------------------- */

static exg_status refuse_count(const reading *r, uint32_t count)
{
    return exg_error_fix(r->err,
                         EXG_FAIL(r->err, USAGE, "PLC-007",
                                  "a list of %u placements, and a mesh of %u dims", count, r->ndim),
                         "write one for each mesh dim, or one without a list");
}

/* Where the placement at `at` ends: at a comma, or the end of the list that it is in. */
static char *end_of_item(char *at)
{
    uint32_t depth = 0;

    for (; *at != '\0' && (depth > 0 || strchr(",)]", *at) == NULL); at++) {
        depth += *at == '(';
        depth -= *at == ')';
    }
    return at;
}

/* A tuple or list as PyTorch prints a tensor's placements: "(Shard(dim=0), Replicate())". */
static exg_status read_tuple(const reading *r, char *word, exg_placement *placement)
{
    char *own = NULL;
    uint32_t count = 0;
    char *at = word + 1;

    while (at[strspn(at, " ")] != '\0' && strchr(")]", at[strspn(at, " ")]) == NULL) {
        char *end = end_of_item(at);
        char stop = *end;

        if (count++ == r->dim) {
            own = exg_arena_strndup(r->arena, at + strspn(at, " "),
                                    (size_t)(end - at) - strspn(at, " "));
            if (own == NULL) {
                return EXG_OUT_OF_MEMORY(r->err);
            }
        }
        at = end + (stop == ',');
    }
    at += strspn(at, " ");
    if (*at == '\0' || at[1 + strspn(at + 1, " ")] != '\0') {
        return exg_placement_parse(word, placement, r->err); /* says what it is not */
    }
    return count == r->ndim ? exg_placement_parse(own, placement, r->err) : refuse_count(r, count);
}

static exg_status read_word(reading *r, exg_json value, exg_placement *placement)
{
    const char *text;
    size_t length;
    char *word;

    EXG_TRY(exg_json_string(value, &text, &length, r->err));
    word = exg_arena_strndup(r->arena, text, length);
    if (word == NULL) {
        return EXG_OUT_OF_MEMORY(r->err);
    }
    return word[0] == '(' || word[0] == '[' ? read_tuple(r, word, placement)
                                            : exg_placement_parse(word, placement, r->err);
}

/* One for all mesh dims, or a list with one for each. */
static exg_status read_placement(reading *r, exg_json value, exg_placement *placement)
{
    exg_json_walk walk;
    exg_json item;

    if (exg_json_type_of(value) != EXG_JSON_ARRAY) {
        return read_word(r, value, placement);
    }
    if (exg_json_count(value) != r->ndim) {
        return refuse_count(r, (uint32_t)exg_json_count(value));
    }
    EXG_TRY(exg_json_array(value, &walk, r->err));
    for (uint32_t d = 0; exg_json_next(&walk, &item); d++) {
        exg_placement read;

        EXG_TRY_IN(r->err, read_word(r, item, &read), "[%u]", d);
        *placement = d == r->dim ? read : *placement;
    }
    return EXG_OK;
}

static const struct {
    const char *name;
    exg_partition_subject of;
} members[] = {
    {"weights", EXG_PARTITION_WEIGHTS},
    {"inputs", EXG_PARTITION_INPUTS},
    {"activations", EXG_PARTITION_ACTIVATIONS},
    {"outputs", EXG_PARTITION_OUTPUTS},
};

static exg_status read_patterns(reading *r, exg_json object, exg_partition_subject of)
{
    exg_json_walk walk;
    exg_json value;
    const char *key;
    uint32_t length;

    EXG_TRY(exg_json_object(object, &walk, r->err));
    while (exg_json_next_member(&walk, &key, &length, &value)) {
        char *pattern = exg_arena_strndup(r->arena, key, length);
        exg_placement placement = exg_replicate();

        if (pattern == NULL) {
            return EXG_OUT_OF_MEMORY(r->err);
        }
        EXG_TRY_IN(r->err, read_placement(r, value, &placement), "[\"%s\"]", pattern);
        EXG_TRY(add(r, of, pattern, NULL, placement));
    }
    return EXG_OK;
}

/* ---- plans by module -------------------------------------------------------------------- */

typedef struct style {
    const char *name;
    int32_t matrix, table, bias, output;
} style;

static const style styles[] = {
#define EXG_STYLE(name, matrix, table, bias, output) {name, matrix, table, bias, output},
#include "libexec/sharding/styles.def"
#undef EXG_STYLE
};

#define STYLES (sizeof(styles) / sizeof(styles[0]))

static const style *find_style(const char *text, size_t length)
{
    for (size_t i = 0; i < STYLES; i++) {
        if (strlen(styles[i].name) == length && memcmp(styles[i].name, text, length) == 0) {
            return &styles[i];
        }
    }
    return NULL;
}

/* What follows `name` in PyTorch's text of a style: "output_layouts=(Shard(dim=1),)". NULL: it is
 * not there. */
static char *argument_of(reading *r, const char *text, const char *name)
{
    const char *at = strstr(text, name);
    const char *end;

    while (at != NULL && at > text && strchr("(, ", at[-1]) == NULL) {
        at = strstr(at + 1, name);
    }
    at = at == NULL ? NULL : strchr(at, '=');
    if (at == NULL) {
        return NULL;
    }
    at += 1 + strspn(at + 1, " (");
    end = strchr(at, ')');
    return exg_arena_strndup(r->arena, at, end == NULL ? strlen(at) : (size_t)(end - at) + 1);
}

/* What the module gives, where the text of its style says so. */
static exg_status read_output(reading *r, const char *text, bool *said, exg_placement *placement)
{
    char *dim = argument_of(r, text, "sequence_dim");
    char *layout = argument_of(r, text, "desired_output_layouts");

    layout = layout != NULL ? layout : argument_of(r, text, "output_layouts");
    *said = dim != NULL || layout != NULL;
    if (dim != NULL) {
        *placement = exg_shard((int32_t)strtol(dim, NULL, 10));
    }
    return layout != NULL ? exg_placement_parse(layout, placement, r->err) : EXG_OK;
}

static exg_placement placement_of(int32_t dim)
{
    return dim == WHOLE ? exg_replicate() : exg_shard(dim);
}

/* The patterns of a module, found by its whole name or by the end of it. */
static exg_status add_module(reading *r, const char *key, const style *s, bool said,
                             exg_placement output)
{
    static const char *const roots[] = {"", "*."};

    for (size_t i = 0; i < 2; i++) {
        char *module = exg_arena_printf(r->arena, "%s%s", roots[i], key);
        char *weight = exg_arena_printf(r->arena, "%s%s.weight", roots[i], key);
        char *bias = exg_arena_printf(r->arena, "%s%s.bias", roots[i], key);

        EXG_TRY(add(r, EXG_PARTITION_TABLES, weight, key, placement_of(s->table)));
        EXG_TRY(add(r, EXG_PARTITION_WEIGHTS, weight, key, placement_of(s->matrix)));
        EXG_TRY(add(r, EXG_PARTITION_WEIGHTS, bias, key, placement_of(s->bias)));
        EXG_TRY(add(r, EXG_PARTITION_WEIGHTS, module, key, placement_of(s->matrix)));
        if (said || s->output != FREE) {
            EXG_TRY(add(r, EXG_PARTITION_ACTIVATIONS, module, key,
                        said ? output : placement_of(s->output)));
        } else {
            EXG_TRY(add(r, EXG_PARTITION_MODULES, module, key, exg_replicate()));
        }
    }
    return EXG_OK;
}

static exg_status read_style(reading *r, const char *key, exg_json value)
{
    const char *text;
    size_t length;
    const style *s;
    char *copy;
    bool said;
    exg_placement output;

    EXG_TRY(exg_json_string(value, &text, &length, r->err));
    copy = exg_arena_strndup(r->arena, text, length);
    if (copy == NULL) {
        return EXG_OUT_OF_MEMORY(r->err);
    }
    s = find_style(copy, strcspn(copy, "("));
    if (s == NULL) {
        return exg_error_fix(r->err,
                             EXG_FAIL(r->err, USAGE, "PLC-007", "'%.60s' is no style", copy),
                             "write colwise, rowwise, colwise_rep, sequence_parallel, or another "
                             "that docs/mesh.md lists");
    }
    EXG_TRY(read_output(r, copy, &said, &output));
    return add_module(r, key, s, said, output);
}

static exg_status read_plan(reading *r, exg_json object)
{
    exg_json_walk walk;
    exg_json value;
    const char *key;
    uint32_t length;

    EXG_TRY(exg_json_object(object, &walk, r->err));
    while (exg_json_next_member(&walk, &key, &length, &value)) {
        char *name = exg_arena_strndup(r->arena, key, length);

        if (name == NULL) {
            return EXG_OUT_OF_MEMORY(r->err);
        }
        EXG_TRY_IN(r->err, read_style(r, name, value), "[\"%s\"]", name);
    }
    return EXG_OK;
}

/* ---- the file --------------------------------------------------------------------------- */

static bool is_key(const char *key, uint32_t length, const char *word)
{
    return strlen(word) == length && memcmp(key, word, length) == 0;
}

/* Is all that it has a style by name? */
static bool is_plan(exg_json root)
{
    exg_json_walk walk;
    exg_json value;
    const char *key;
    uint32_t length;
    bool plan = exg_json_count(root) > 0;

    if (exg_json_object(root, &walk, NULL) != EXG_OK) {
        return false;
    }
    while (plan && exg_json_next_member(&walk, &key, &length, &value)) {
        plan = exg_json_type_of(value) == EXG_JSON_STRING;
    }
    return plan;
}

static exg_status refuse_member(reading *r, exg_status status)
{
    return exg_error_fix(r->err, status, "write {\"weights\": {\"*.weight\": \"S(0)\"}}");
}

static exg_status read_member(reading *r, const char *key, uint32_t length, exg_json value)
{
    for (size_t m = 0; m < sizeof(members) / sizeof(members[0]); m++) {
        if (is_key(key, length, members[m].name)) {
            EXG_TRY_IN(r->err, read_patterns(r, value, members[m].of), "%s", members[m].name);
            return EXG_OK;
        }
    }
    if (is_key(key, length, "tp_plan") || is_key(key, length, "parallelize_plan")) {
        EXG_TRY_IN(r->err, read_plan(r, value), "%.*s", (int)length, key);
        return EXG_OK;
    }
    return refuse_member(r, EXG_FAIL(r->err, USAGE, "PLC-007", "an unknown member \"%.*s\"",
                                     length > 40 ? 40 : (int)length, key));
}

static exg_status read_file(reading *r, exg_json root)
{
    exg_json_walk walk;
    exg_json value;
    const char *key;
    uint32_t length;
    exg_status status = EXG_OK;

    if (exg_json_type_of(root) == EXG_JSON_OBJECT && is_plan(root)) {
        return read_plan(r, root);
    }
    if (exg_json_type_of(root) == EXG_JSON_OBJECT) {
        EXG_TRY(exg_json_object(root, &walk, r->err));
        while (status == EXG_OK && exg_json_next_member(&walk, &key, &length, &value)) {
            status = read_member(r, key, length, value);
        }
    }
    if (status == EXG_OK &&
        (exg_json_type_of(root) != EXG_JSON_OBJECT || exg_json_count(root) == 0)) {
        status = refuse_member(r, EXG_FAIL(r->err, USAGE, "PLC-007", "no member \"weights\""));
    }
    return status;
}

exg_status exg_partition_options_open(const char *path, uint32_t dim, uint32_t ndim,
                                      exg_arena *arena, exg_partition_options *options,
                                      exg_error *err)
{
    EXG_REQUIRE(err, path, arena, options);
    reading r = {.dim = dim, .ndim = ndim, .arena = arena, .err = err};
    exg_partition_options own = {0};
    exg_json_doc *doc;
    exg_status status;

    EXG_TRY(EXG_READ_OPTIONS(exg_partition_options, &own, options, err));
    EXG_TRY(exg_json_open(path, &doc, err));
    status = read_file(&r, exg_json_root(doc));
    exg_json_free(doc);
    if (status != EXG_OK) {
        return exg_error_within(err, status, "%s:", path);
    }
    own = (exg_partition_options){
        .mode = EXG_PARTITION_PATTERNS, .patterns = r.patterns, .pattern_count = r.count};
    EXG_WRITE_OPTIONS(exg_partition_options, options, &own);
    return EXG_OK;
}
