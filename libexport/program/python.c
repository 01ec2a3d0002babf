/* python.c - identifiers, and the call of the root. */
#include "libexport/program/python.h"

#include "libexport/base/arena.h"
#include "libexport/base/map.h"
#include "libexport/base/text.h"

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

static exg_graph *branch_of(const exg_node *node, uint32_t i)
{
    return node->inputs[i].arg.kind == EXG_ARGUMENT_GRAPH ? node->inputs[i].arg.as_graph->graph
                                                          : NULL;
}

static bool has_strange_names(const exg_graph *graph)
{
    for (uint32_t i = 0; i < graph->value_count; i++) {
        if (!exg_is_identifier(graph->values[i].name)) {
            return true;
        }
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        for (uint32_t i = 0; i < graph->nodes[n].input_count; i++) {
            const exg_graph *branch = branch_of(&graph->nodes[n], i);

            if (branch != NULL && has_strange_names(branch)) {
                return true;
            }
        }
    }
    return false;
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
static exg_status rename_values(exg_arena *arena, exg_graph *graph, exg_map *renamed,
                                exg_error *err)
{
    exg_map taken;

    exg_map_init(&taken, arena);
    exg_map_init(renamed, arena);
    for (uint32_t i = 0; i < graph->value_count; i++) {
        if (!exg_map_put(&taken, graph->values[i].name, i)) {
            return EXG_OUT_OF_MEMORY(err);
        }
    }
    for (uint32_t i = 0; i < graph->value_count; i++) {
        const char *old = graph->values[i].name;

        if (!exg_is_identifier(old)) {
            const char *name = identifier_of(arena, &taken, old);

            if (name == NULL || !exg_map_put(&taken, name, i) || !exg_map_put(renamed, old, i)) {
                return EXG_OUT_OF_MEMORY(err);
            }
            graph->values[i].name = name;
        }
    }
    return EXG_OK;
}

static void follow(const exg_map *renamed, const exg_graph *graph, const char **name)
{
    uint32_t id = *name == NULL ? EXG_MAP_NONE : exg_map_find(renamed, *name);

    if (id != EXG_MAP_NONE) {
        *name = graph->values[id].name;
    }
}

static exg_status rename_graph(exg_arena *arena, exg_graph *graph, exg_map *renamed,
                               exg_error *err)
{
    EXG_TRY(rename_values(arena, graph, renamed, err));
    for (uint32_t n = 0; n < graph->node_count; n++) {
        follow(renamed, graph, &graph->nodes[n].name);
        for (uint32_t i = 0; i < graph->nodes[n].input_count; i++) {
            exg_graph *branch = branch_of(&graph->nodes[n], i);
            exg_map inner;

            if (branch != NULL) {
                EXG_TRY(rename_graph(arena, branch, &inner, err));
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

    EXG_TRY(rename_graph(program->arena, program->graph, &renamed, err));
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

#define LEAF "{\"type\": null, \"context\": null, \"children_spec\": []}"

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
        exg_text_puts(&text, i > 0 ? ", " LEAF : LEAF);
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
        outputs += signature->outputs[i].kind == EXG_OUTPUT_USER;
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

/* ---- both ----------------------------------------------------------------------------------- */

bool exg_program_suits_python(const exg_program *program)
{
    return program->module_call_count > 0 && !has_strange_names(program->graph);
}

exg_status exg_program_suit_python(exg_program *program, exg_error *err)
{
    EXG_TRY(name_for_python(program, err));
    return program->module_call_count > 0 ? EXG_OK : exg_program_make_call(program, err);
}
