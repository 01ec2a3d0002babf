/* guards.c - Python on the sizes of inputs, as expressions of the closed grammar. */
#include "libexport/verify/guards.h"
#include "libexport/base/prefix.h"
#include "libexport/verify/tree.h"

#include <exg/symint.h>
#include <exg/text.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- paths ------------------------------------------------------------------------------- */

/* A path as text: each step begins with a byte that is in no key, and numbers with another, so
 * that d[1] is not d['1']. Attributes are as keys: a dataclass is flattened by field names. */
#define STEP_NAME  '\x1f'
#define STEP_INDEX '\x1e'

static void put_step(exg_text *path, char kind, const char *key, size_t length)
{
    exg_text_putc(path, kind);
    exg_text_add(path, key, length);
}

static void clear(exg_text *text)
{
    text->length = 0;
    if (text->data != NULL) {
        text->data[0] = '\0';
    }
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           (unsigned char)c >= 0x80;
}

/* A string as Python's repr() writes it, decoded. NULL: it does not end, or holds an escape
 * that repr() does not write. */
static const char *read_string(const char *at, exg_text *out)
{
    static const char escapes[][2] = {{'\\', '\\'}, {'\'', '\''}, {'"', '"'},
                                      {'n', '\n'},  {'r', '\r'},  {'t', '\t'}};
    char quote = *at++;

    while (*at != quote) {
        size_t i = 0;

        if (*at == '\0') {
            return NULL;
        }
        if (*at != '\\') {
            exg_text_putc(out, *at++);
            continue;
        }
        while (i < sizeof(escapes) / sizeof(escapes[0]) && escapes[i][0] != at[1]) {
            i++;
        }
        if (i == sizeof(escapes) / sizeof(escapes[0])) {
            return NULL;
        }
        exg_text_putc(out, escapes[i][1]);
        at += 2;
    }
    return at + 1;
}

/* Reads "['d']", "[0]" or ".field" as one step. NULL: none of them. */
static const char *read_step(const char *at, exg_text *path)
{
    const char *from = at + 1;

    if (*at == '.') {
        for (at++; is_word(*at); at++) {
        }
        put_step(path, STEP_NAME, from, (size_t)(at - from));
        return at > from ? at : NULL;
    }
    if (*from == '\'' || *from == '"') {
        exg_text_putc(path, STEP_NAME);
        at = read_string(from, path);
    } else {
        for (at++; is_word(*at) || *at == '-'; at++) {
        }
        put_step(path, STEP_INDEX, from, (size_t)(at - from));
    }
    return at != NULL && *at == ']' ? at + 1 : NULL;
}

/* Is this ".size()", ".stride()[0]", what an input is asked for, and no step to it? */
static bool is_property(const char *at)
{
    for (at++; is_word(*at); at++) {
    }
    return *at == '(';
}

/* ---- the inputs ----------------------------------------------------------------------------- */

typedef struct finder {
    exg_guard_inputs *inputs;
    exg_arena *arena;
    exg_text path;
    bool failed; /* memory ran out */
} finder;

static void put_leaf(finder *f, uint32_t leaf)
{
    const char *path = exg_arena_strdup(f->arena, exg_text_string(&f->path));

    if (path == NULL || f->path.failed) {
        f->failed = true;
    } else if (leaf < f->inputs->leaf_count &&
               exg_map_find(&f->inputs->by_path, path) == EXG_MAP_NONE) {
        f->failed = !exg_map_put(&f->inputs->by_path, path, f->inputs->leaves[leaf]);
    }
}

static void on_leaf(void *user, const exg_tree_step *step, uint32_t leaf)
{
    finder *f = user;
    const exg_tree_step *steps[EXG_TREE_DEPTH_MAX];
    uint32_t count = 0;

    for (; step != NULL && count < EXG_TREE_DEPTH_MAX; step = step->outer) {
        steps[count++] = step;
    }
    clear(&f->path);
    while (count > 0) {
        step = steps[--count];
        if (step->key != NULL) {
            put_step(&f->path, STEP_NAME, step->key, strlen(step->key));
        } else {
            exg_text_printf(&f->path, "%c%" PRId64, STEP_INDEX, step->index);
        }
    }
    put_leaf(f, leaf);
}

/* By the names of arguments and what nests in them. false: the file does not have them. */
static bool find_in_tree(finder *f, const exg_program *program)
{
    const exg_module_call *root = program->module_call_count > 0 ? &program->module_calls[0] : NULL;
    exg_status status;

    if (root == NULL || root->in_spec == NULL || root->forward_arg_names == NULL) {
        return false;
    }
    status = exg_tree_leaves(program, root->in_spec, root->forward_arg_names,
                             root->forward_arg_name_count, on_leaf, f);
    f->failed = f->failed || status == EXG_NO_MEMORY;
    return status == EXG_OK;
}

static const exg_value *value_of(const exg_program *program, const exg_argument *input)
{
    exg_value_id id = EXG_NO_VALUE;

    switch (input->kind) {
    case EXG_ARGUMENT_TENSOR:
        id = input->as_tensor;
        break;
    case EXG_ARGUMENT_SYM_INT:
    case EXG_ARGUMENT_SYM_FLOAT:
    case EXG_ARGUMENT_SYM_BOOL:
        id = input->as_sym.value;
        break;
    default:
        break;
    }
    return id == EXG_NO_VALUE ? NULL : &program->graph->values[id];
}

/* By the names of placeholders, which PyTorch makes of the paths: "d_x" of d['x']. */
static void find_in_names(finder *f, const exg_program *program)
{
    for (uint32_t i = 0; !f->failed && i < f->inputs->leaf_count; i++) {
        const exg_value *value = value_of(program, &program->graph->inputs[f->inputs->leaves[i]]);

        if (value != NULL && value->name != NULL) {
            clear(&f->path);
            put_step(&f->path, STEP_NAME, value->name, strlen(value->name));
            put_leaf(f, i);
        }
    }
}

exg_status exg_guard_inputs_find(const exg_program *program, exg_arena *arena,
                                 exg_guard_inputs *inputs, exg_error *err)
{
    const exg_graph *graph = program->graph;
    uint32_t *leaves = EXG_NEW_ARRAY(arena, uint32_t, graph->input_count + 1u);
    finder f = {.inputs = inputs, .arena = arena, .path = EXG_TEXT_EMPTY};

    *inputs = (exg_guard_inputs){.program = program, .leaves = leaves};
    exg_map_init(&inputs->by_path, arena);
    if (leaves == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < graph->input_count && i < program->signature.input_count; i++) {
        if (program->signature.inputs[i].kind == EXG_INPUT_USER) {
            leaves[inputs->leaf_count++] = i;
        }
    }
    inputs->has_names = find_in_tree(&f, program);
    if (!inputs->has_names) {
        find_in_names(&f, program);
    }
    exg_text_free(&f.path);
    return f.failed ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

/* ---- reading -------------------------------------------------------------------------------- */

static size_t step_end(const char *path, size_t at)
{
    for (at++; path[at] != '\0' && path[at] != STEP_NAME && path[at] != STEP_INDEX; at++) {
    }
    return at;
}

/* The graph's input at `path`, which is changed. Arguments of *args have names of their own,
 * "args_0" for args[0]; where nothing but placeholders has a name, all steps are one. */
static uint32_t find_input(const exg_guard_inputs *inputs, char *path)
{
    uint32_t found = exg_map_find(&inputs->by_path, path);
    size_t at = step_end(path, 0);

    if (strncmp(path + 1, "flat_args", at - 1) == 0 && at == strlen("flat_args") + 1 &&
        path[at] == STEP_INDEX && found == EXG_MAP_NONE) {
        char *end;
        unsigned long leaf = strtoul(path + at + 1, &end, 10);

        return *end == '\0' && end > path + at + 1 && leaf < inputs->leaf_count
                   ? inputs->leaves[leaf]
                   : EXG_MAP_NONE;
    }
    while (found == EXG_MAP_NONE && path[at] != '\0' &&
           (!inputs->has_names || path[at] == STEP_INDEX)) {
        path[at] = '_';
        at = inputs->has_names ? strlen(path) : step_end(path, at);
        found = exg_map_find(&inputs->by_path, path);
    }
    return found;
}

static void put_size(exg_text *out, const exg_sym_int *size)
{
    if (size->expr != NULL) {
        exg_text_printf(out, "(%s)", size->expr);
    } else {
        exg_text_printf(out, "(%" PRId64 ")", size->value);
    }
}

/* ".size()[0]", ".stride()[0]" or ".storage_offset()" of a tensor. */
static const char *put_property(exg_text *out, const exg_tensor_meta *meta, const char *at)
{
    const exg_sym_int *sizes;
    const char *behind;
    char *end;
    unsigned long dim;

    if ((behind = exg_behind(at, ".storage_offset()")) != NULL) {
        put_size(out, &meta->storage_offset);
        return behind;
    }
    if ((behind = exg_behind(at, ".size()[")) != NULL) {
        sizes = meta->sizes;
    } else if ((behind = exg_behind(at, ".stride()[")) != NULL) {
        sizes = meta->strides;
    } else {
        return NULL;
    }
    at = behind;
    if (sizes == NULL || *at < '0' || *at > '9') {
        return NULL;
    }
    dim = strtoul(at, &end, 10);
    if (dim >= meta->rank || *end != ']') {
        return NULL;
    }
    put_size(out, &sizes[dim]);
    return end + 1;
}

/* What stands after the path of `input`, and the number it is. */
static const char *put_input(exg_text *out, const exg_program *program, uint32_t input,
                             const char *at)
{
    const exg_argument *arg = &program->graph->inputs[input];
    const exg_value *value = value_of(program, arg);

    if (value != NULL && value->tensor != NULL) {
        return put_property(out, value->tensor, at);
    }
    if (value != NULL && value->sym_int != NULL) {
        put_size(out, value->sym_int);
    } else if (value != NULL && value->sym_float != NULL && value->sym_float->expr != NULL) {
        exg_text_printf(out, "(%s)", value->sym_float->expr);
    } else if (value != NULL && value->sym_bool != NULL && value->sym_bool->expr != NULL) {
        exg_text_printf(out, "(%s)", value->sym_bool->expr);
    } else if (arg->kind == EXG_ARGUMENT_INT) {
        exg_text_printf(out, "(%" PRId64 ")", arg->as_int);
    } else if (arg->kind == EXG_ARGUMENT_BOOL) {
        exg_text_puts(out, arg->as_bool ? "True" : "False");
    } else if (arg->kind == EXG_ARGUMENT_FLOAT) {
        exg_text_putc(out, '(');
        exg_text_double(out, arg->as_float);
        exg_text_putc(out, ')');
    } else {
        return NULL;
    }
    return at;
}

/* "L['d']['x'].size()[0]" from its L on. `own` is the guard's own text, where a number stands
 * for an input. */
static const char *read_input(const exg_guard_inputs *inputs, const char *at, exg_text *path,
                              exg_text *out, exg_text *own)
{
    uint32_t input;

    clear(path);
    for (at++; at != NULL && (*at == '[' || (*at == '.' && !is_property(at)));) {
        at = read_step(at, path);
    }
    if (at == NULL || path->failed || path->length == 0) {
        return NULL;
    }
    input = find_input(inputs, path->data);
    exg_text_putc(own, '1');
    return input == EXG_MAP_NONE ? NULL : put_input(out, inputs->program, input, at);
}

static void note_symbol(void *user, const char *name, size_t length)
{
    (void)name;
    (void)length;
    *(bool *)user = true;
}

/* OK: the guard, but for its inputs, is in the grammar, and without names of other things. */
static exg_status check_closed(const exg_text *own, const exg_text *out)
{
    bool names = false;

    EXG_TRY(exg_symint_visit(exg_text_string(own), note_symbol, &names, NULL));
    return names ? EXG_MALFORMED : exg_symint_visit(exg_text_string(out), NULL, NULL, NULL);
}

exg_status exg_guard_read(const exg_guard_inputs *inputs, const char *guard, exg_arena *arena,
                          const char **text, exg_error *err)
{
    exg_text out = EXG_TEXT_EMPTY;
    exg_text own = EXG_TEXT_EMPTY;
    exg_text path = EXG_TEXT_EMPTY;
    const char *at = guard;
    exg_status status;

    *text = NULL;
    while (at != NULL && *at != '\0') {
        if (*at == 'L' && at[1] == '[' && (at == guard || !is_word(at[-1]))) {
            at = read_input(inputs, at, &path, &out, &own);
        } else {
            exg_text_putc(&out, *at);
            exg_text_putc(&own, *at++);
        }
    }
    status = out.failed || own.failed || path.failed ? EXG_NO_MEMORY
             : at == NULL || own.length == 0         ? EXG_MALFORMED
                                                     : check_closed(&own, &out);
    if (status == EXG_OK) {
        *text = exg_arena_strdup(arena, exg_text_string(&out));
        status = *text == NULL ? EXG_NO_MEMORY : EXG_OK;
    }
    exg_text_free(&out);
    exg_text_free(&own);
    exg_text_free(&path);
    return status == EXG_NO_MEMORY ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}
