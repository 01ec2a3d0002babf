/* python.c - names, ranges, and the call of the root. */
#include "libexport/program/python.h"

#include "libexport/base/arena.h"
#include "libexport/base/map.h"
#include "libexport/program/expression.h"

#include <exg/symint.h>
#include <exg/text.h>
#include <exg/weights.h>
#include <string.h>

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool exg_is_identifier(const char *name)
{
    if (!is_letter(name[0])) {
        return name[0] == '\0';
    }
    for (const char *c = name; *c != '\0'; c++) {
        if (!is_letter(*c) && !is_digit(*c)) {
            return false;
        }
    }
    return true;
}

/* ---- names that are taken ------------------------------------------------------------------- */

/* The last TAKEN_NAMES of them are no keywords: the code that PyTorch makes of a graph calls them
 * by name. */
#define TAKEN_NAMES 4
static const char *const words[] = {
#define EXG_PYTHON_NAME(text)
#define EXG_PYTHON_KEYWORD(text) text,
#include "libexport/program/python_name.def"
#undef EXG_PYTHON_NAME
    "self",
    "torch",
    "pytree",
    "fx_pytree",
};

static const char *const module_names[] = {
#define EXG_MODULE_NAME(text) text,
#define EXG_GRAPH_MODULE_NAME(text)
#include "libexport/program/module_name.def"
#undef EXG_MODULE_NAME
#undef EXG_GRAPH_MODULE_NAME
};

static const char *const graph_module_names[] = {
#define EXG_MODULE_NAME(text)
#define EXG_GRAPH_MODULE_NAME(text) text,
#include "libexport/program/module_name.def"
#undef EXG_MODULE_NAME
#undef EXG_GRAPH_MODULE_NAME
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool is_among(const char *const *names, size_t count, const char *name, size_t length)
{
    for (size_t i = 0; i < count; i++) {
        if (strncmp(names[i], name, length) == 0 && names[i][length] == '\0') {
            return true;
        }
    }
    return false;
}

bool exg_is_stack_item(const char *item, size_t length)
{
    uint32_t commas = 0;
    int32_t depth = 0;

    for (size_t i = 0; i < length; i++) {
        depth += item[i] == '(' || item[i] == '[';
        depth -= item[i] == ')' || item[i] == ']';
        commas += item[i] == ',' && depth == 0;
    }
    return commas == 2;
}

static bool put_all(exg_map *taken, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!exg_map_put(taken, names[i], 0)) {
            return false;
        }
    }
    return true;
}

bool exg_put_module_names(exg_map *taken)
{
    return put_all(taken, words, COUNT(words)) &&
           put_all(taken, module_names, COUNT(module_names)) &&
           put_all(taken, graph_module_names, COUNT(graph_module_names));
}

bool exg_is_python_name(const char *name)
{
    return name[0] != '\0' && exg_is_identifier(name) &&
           !is_among(words, COUNT(words) - TAKEN_NAMES, name, strlen(name));
}

bool exg_is_module_path(const char *name)
{
    if (strcmp(name, "self") == 0) {
        return false;
    }
    for (const char *part = name;; part++) {
        size_t length = strcspn(part, ".");

        if (is_among(words, COUNT(words) - TAKEN_NAMES, part, length) ||
            is_among(module_names, COUNT(module_names), part, length) ||
            (part == name &&
             is_among(graph_module_names, COUNT(graph_module_names), part, length))) {
            return false;
        }
        part += length;
        if (*part == '\0') {
            return length > 0;
        }
    }
}

/* ---- values --------------------------------------------------------------------------------- */

static bool is_clear(const char *name)
{
    return exg_is_identifier(name) && !is_among(words, COUNT(words), name, strlen(name));
}

static exg_graph_argument *branch_of(const exg_node *node, uint32_t i)
{
    return node->inputs[i].arg.kind == EXG_ARGUMENT_GRAPH ? node->inputs[i].arg.as_graph : NULL;
}

/* The name in letters that Python takes; NULL: out of memory. */
static const char *identifier_of(exg_arena *arena, const exg_map *taken, const char *name)
{
    char *made = exg_arena_printf(arena, "%s%s", is_digit(name[0]) ? "_" : "", name);

    for (char *c = made; made != NULL && *c != '\0'; c++) {
        *c = is_letter(*c) || is_digit(*c) ? *c : '_';
    }
    return made == NULL ? NULL : exg_map_free_name(taken, arena, made);
}

/* `renamed` has every old name that changed, with its value's id. */
static exg_status rename_values(exg_arena *arena, exg_graph *graph, exg_map *taken,
                                exg_map *renamed, exg_error *err)
{
    exg_map_init(taken, arena);
    exg_map_init(renamed, arena);
    if (!put_all(taken, words, COUNT(words))) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < graph->value_count; i++) {
        if (!exg_map_put(taken, graph->values[i].name, i)) {
            return EXG_OUT_OF_MEMORY(err);
        }
    }
    for (uint32_t i = 0; i < graph->value_count; i++) {
        const char *old = graph->values[i].name;

        if (!is_clear(old)) {
            const char *name = identifier_of(arena, taken, old);

            if (name == NULL || !exg_map_put(taken, name, i) || !exg_map_put(renamed, old, i)) {
                return EXG_OUT_OF_MEMORY(err);
            }
            graph->values[i].name = name;
        }
    }
    return EXG_OK;
}

/* ---- branches: attributes of the module that the graph is in -------------------------------- */

/* What a branch of the graph cannot be called. */
static exg_status take_names(exg_map *names, exg_arena *arena, const exg_graph *graph,
                             const exg_weights *weights, exg_error *err)
{
    bool good;

    exg_map_init(names, arena);
    good = exg_put_module_names(names);
    for (uint32_t i = 0; good && i < graph->value_count; i++) {
        good = exg_map_put(names, graph->values[i].name, 0);
    }
    for (uint32_t i = 0; weights != NULL && good && i < weights->count; i++) {
        const char *fqn = weights->items[i].fqn;
        const char *first = exg_arena_strndup(arena, fqn, strcspn(fqn, "."));

        good = first != NULL && exg_map_put(names, first, 0);
    }
    return good ? EXG_OK : EXG_OUT_OF_MEMORY(err);
}

/* Those that cannot stay get another name; with `renames` false they are only looked for. */
static exg_status name_branches(exg_arena *arena, exg_graph *graph, const exg_weights *weights,
                                bool renames, bool *found, exg_error *err)
{
    bool taken = false; /* with the first branch */
    exg_map names;

    for (uint32_t n = 0; n < graph->node_count; n++) {
        for (uint32_t i = 0; i < graph->nodes[n].input_count; i++) {
            exg_graph_argument *branch = branch_of(&graph->nodes[n], i);

            if (branch != NULL && !taken) {
                EXG_TRY(take_names(&names, arena, graph, weights, err));
                taken = true;
            }
            if (branch == NULL || (exg_is_identifier(branch->name) && branch->name[0] != '\0' &&
                                   exg_map_find(&names, branch->name) == EXG_MAP_NONE)) {
                continue;
            }
            *found = true;
            if (renames) {
                branch->name =
                    identifier_of(arena, &names, branch->name[0] == '\0' ? "branch" : branch->name);
                if (branch->name == NULL || !exg_map_put(&names, branch->name, 0)) {
                    return EXG_OUT_OF_MEMORY(err);
                }
            }
        }
    }
    return EXG_OK;
}

static exg_status find_strange_names(exg_arena *arena, const exg_graph *graph,
                                     const exg_weights *weights, bool *found, exg_error *err)
{
    for (uint32_t i = 0; i < graph->value_count; i++) {
        *found = *found || !is_clear(graph->values[i].name);
    }
    EXG_TRY(name_branches(arena, (exg_graph *)graph, weights, false, found, err));
    for (uint32_t n = 0; n < graph->node_count; n++) {
        for (uint32_t i = 0; i < graph->nodes[n].input_count; i++) {
            const exg_graph_argument *branch = branch_of(&graph->nodes[n], i);

            if (branch != NULL) {
                EXG_TRY(find_strange_names(arena, branch->graph, NULL, found, err));
            }
        }
    }
    return EXG_OK;
}

/* ---- renaming ------------------------------------------------------------------------------- */

static void follow(const exg_map *renamed, const exg_graph *graph, const char **name)
{
    uint32_t id = *name == NULL ? EXG_MAP_NONE : exg_map_find(renamed, *name);

    if (id != EXG_MAP_NONE) {
        *name = graph->values[id].name;
    }
}

static exg_status rename_graph(exg_arena *arena, exg_graph *graph, const exg_weights *weights,
                               exg_map *renamed, exg_error *err)
{
    exg_map taken;
    bool found = false;

    EXG_TRY(rename_values(arena, graph, &taken, renamed, err));
    EXG_TRY(name_branches(arena, graph, weights, true, &found, err));
    for (uint32_t n = 0; n < graph->node_count; n++) {
        follow(renamed, graph, &graph->nodes[n].name);
        for (uint32_t i = 0; i < graph->nodes[n].input_count; i++) {
            exg_graph_argument *branch = branch_of(&graph->nodes[n], i);
            exg_map inner;

            if (branch != NULL) {
                EXG_TRY(rename_graph(arena, branch->graph, NULL, &inner, err));
            }
        }
    }
    return EXG_OK;
}

static bool names_input(exg_output_kind kind)
{
    return kind == EXG_OUTPUT_USER_INPUT_MUTATION || kind == EXG_OUTPUT_GRADIENT_TO_USER_INPUT;
}

static exg_status name_for_python(exg_program *program, exg_error *err)
{
    exg_signature *s = &program->signature;
    exg_map renamed;

    EXG_TRY(rename_graph(program->arena, program->graph, program->weights, &renamed, err));
    for (uint32_t i = 0; i < s->input_count; i++) {
        follow(&renamed, program->graph, &s->inputs[i].arg.name);
    }
    for (uint32_t i = 0; i < s->output_count; i++) {
        follow(&renamed, program->graph, &s->outputs[i].arg.name);
        if (names_input(s->outputs[i].kind)) {
            follow(&renamed, program->graph, &s->outputs[i].target);
        }
    }
    return EXG_OK;
}

/* ---- the call ------------------------------------------------------------------------------- */

static const char *treespec(exg_arena *arena, uint32_t leaves, bool is_call)
{
    exg_text text = EXG_TEXT_EMPTY;
    const char *kept = NULL;

    exg_text_puts(&text, is_call ? "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", "
                                   "\"children_spec\": ["
                                 : "[1, ");
    if (is_call || leaves != 1) {
        exg_text_puts(&text, "{\"type\": \"builtins.tuple\", \"context\": \"null\", "
                             "\"children_spec\": [");
    }
    for (uint32_t i = 0; i < leaves; i++) {
        exg_text_puts(&text, i > 0 ? ", " EXG_TREE_LEAF : EXG_TREE_LEAF);
    }
    if (is_call || leaves != 1) {
        exg_text_puts(&text, "]}");
    }
    exg_text_puts(&text, is_call ? ", {\"type\": \"builtins.dict\", \"context\": \"[]\", "
                                   "\"children_spec\": []}]}]"
                                 : "]");
    if (exg_text_string(&text) != NULL) {
        kept = exg_arena_strdup(arena, exg_text_string(&text));
    }
    exg_text_free(&text);
    return kept;
}

exg_status exg_program_make_call(exg_program *program, exg_error *err)
{
    const exg_signature *signature = &program->signature;
    exg_module_call *call = EXG_NEW(program->arena, exg_module_call);
    const char **names = EXG_NEW_ARRAY(program->arena, const char *, signature->input_count);
    uint32_t inputs = 0;
    uint32_t outputs = 0;

    if (call == NULL || names == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < signature->input_count; i++) {
        if (signature->inputs[i].kind == EXG_INPUT_USER) {
            names[inputs++] = signature->inputs[i].arg.name;
        }
    }
    for (uint32_t i = 0; i < signature->output_count; i++) {
        outputs += signature->outputs[i].kind == EXG_OUTPUT_USER ||
                   signature->outputs[i].kind == EXG_OUTPUT_LOSS;
    }
    *call = (exg_module_call){
        .fqn = "",
        .has_signature = true,
        .in_spec = treespec(program->arena, inputs, true),
        .out_spec = treespec(program->arena, outputs, false),
        .forward_arg_names = names,
        .forward_arg_name_count = inputs,
    };
    if (call->in_spec == NULL || call->out_spec == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    program->module_calls = call;
    program->module_call_count = 1;
    return EXG_OK;
}

/* ---- ranges of symbols ----------------------------------------------------------------------- */

typedef struct ranger {
    exg_program *program;
    exg_map known;    /* symbols that have a range, or get one -> place in `added` */
    bool is_of_sizes; /* what is visited is itself a number of elements */
    uint32_t capacity;
    bool failed;
} ranger;

/* A size is never negative; of another number nobody says anything. */
static void note_symbol(void *user, const char *name, size_t length)
{
    ranger *r = user;
    exg_program *p = r->program;
    char *copy = exg_arena_strndup(p->arena, name, length);
    exg_range_constraint *range;
    uint32_t at = copy == NULL ? 0 : exg_map_find(&r->known, copy);

    if (copy == NULL || r->failed) {
        r->failed = true;
        return;
    }
    if (at == EXG_MAP_NONE) {
        at = p->range_constraint_count;
        if (!exg_arena_reserve(p->arena, &p->range_constraints, at, &r->capacity,
                               sizeof(exg_range_constraint)) ||
            !exg_map_put(&r->known, copy, at)) {
            r->failed = true;
            return;
        }
        p->range_constraints[p->range_constraint_count++] = (exg_range_constraint){.symbol = copy};
    }
    range = at < p->range_constraint_count ? &p->range_constraints[at] : NULL;
    if (range != NULL && r->is_of_sizes) {
        range->has_min = true;
    }
}

static void note_all(ranger *r, const exg_sym_int *sym, bool is_size)
{
    exg_expression expression;
    exg_arena *scratch;

    if (sym->expr == NULL) {
        return;
    }
    scratch = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    if (scratch == NULL ||
        exg_expression_parse(scratch, sym->expr, &expression, NULL) == EXG_NO_MEMORY) {
        r->failed = true;
    } else { /* what is no expression has no symbols */
        r->is_of_sizes = is_size && exg_expression_symbol(&expression) != NULL;
        exg_expression_visit(&expression, note_symbol, r);
    }
    exg_arena_destroy(scratch);
}

static void note_graph(ranger *r, const exg_graph *graph)
{
    for (uint32_t i = 0; i < graph->value_count; i++) {
        const exg_tensor_meta *meta = graph->values[i].tensor;

        for (uint32_t d = 0; meta != NULL && d < meta->rank; d++) {
            note_all(r, &meta->sizes[d], true);
            note_all(r, &meta->strides[d], true);
        }
        if (meta != NULL) {
            note_all(r, &meta->storage_offset, true);
        }
        if (graph->values[i].sym_int != NULL) {
            note_all(r, graph->values[i].sym_int, false);
        }
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        for (uint32_t i = 0; i < graph->nodes[n].input_count; i++) {
            const exg_graph_argument *branch = branch_of(&graph->nodes[n], i);

            if (branch != NULL) {
                note_graph(r, branch->graph);
            }
        }
    }
}

/* PyTorch asks for a range of every symbol. */
static exg_status make_ranges(exg_program *program, exg_error *err)
{
    ranger r = {.program = program};
    exg_range_constraint *given = program->range_constraints;
    uint32_t count = program->range_constraint_count;

    exg_map_init(&r.known, program->arena);
    for (uint32_t i = 0; i < count; i++) {
        r.failed = r.failed || !exg_map_put(&r.known, given[i].symbol, EXG_MAP_NONE - 1);
    }
    r.capacity = count; /* it moves before it grows */
    note_graph(&r, program->graph);
    return r.failed ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

/* ---- all of it ------------------------------------------------------------------------------ */

exg_status exg_program_suits_python(const exg_program *program, bool *suits, exg_error *err)
{
    exg_arena *scratch = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    bool found = false;
    exg_status status = scratch == NULL ? EXG_OUT_OF_MEMORY(err)
                                        : find_strange_names(scratch, program->graph,
                                                             program->weights, &found, err);

    *suits = program->module_call_count > 0 && program->origin != EXG_ORIGIN_EARLY && !found;
    exg_arena_destroy(scratch);
    return status;
}

exg_status exg_program_suit_python(exg_program *program, exg_error *err)
{
    EXG_TRY(name_for_python(program, err));
    EXG_TRY(make_ranges(program, err));
    return program->module_call_count > 0 ? EXG_OK : exg_program_make_call(program, err);
}
