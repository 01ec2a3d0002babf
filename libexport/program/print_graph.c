/* print_graph.c - a graph as str() of torch.fx's Graph shows it: "graph():" and a line a node. */
#include "libexport/base/prefix.h"
#include "libexport/base/require.h"
#include "libexport/program/print.h"

#include "libexport/base/arena.h"
#include "libexport/program/print_lines.h"

#include <exg/signature.h>
#include <inttypes.h>
#include <string.h>

/* How many nodes use each id; the output is one. */
static uint32_t *count_users(exg_printer *p)
{
    uint32_t *users = EXG_NEW_ARRAY(p->arena, uint32_t, p->id_count);

    p->failed = users == NULL;
    for (uint32_t u = 0; users != NULL && u < p->use_count; u++) {
        users[p->uses[u]]++;
    }
    for (uint32_t i = 0; users != NULL && i < p->id_count; i++) {
        users[i] += p->last_use[i] == EXG_AT_OUTPUT;
    }
    return users;
}

static void put_node(exg_text *out, const char *name, uint32_t users, const char *op)
{
    exg_text_printf(out, "\n    %%%s : [num_users=%" PRIu32 "] = %s[target=", name, users, op);
}

/* "operator.add", as FX calls what Python's module _operator has. */
static const char *shown_target(const char *target)
{
    return exg_behind(target, "_operator.") != NULL ? target + 1 : target;
}

static uint32_t put_given(const exg_printer *p, const exg_node *node, bool by_keyword)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < node->input_count; i++) {
        const exg_named_argument *input = &node->inputs[i];

        if ((input->kind == EXG_KIND_KEYWORD) == by_keyword) {
            exg_text_puts(p->out, count++ == 0 ? "" : ", ");
            exg_text_puts(p->out, by_keyword ? input->name : "");
            exg_text_puts(p->out, by_keyword ? ": " : "");
            exg_print_fx_argument(p->out, p->graph, &input->arg);
        }
    }
    return count;
}

static void put_line(const exg_printer *p, const exg_printed_line *l, uint32_t users)
{
    exg_text *out = p->out;

    put_node(out, l->name, users, l->kind == EXG_LINE_GRAPH ? "get_attr" : "call_function");
    switch (l->kind) {
    case EXG_LINE_CALL:
        exg_text_printf(out, "%s](args = (", shown_target(l->node->target));
        exg_text_puts(out, put_given(p, l->node, false) == 1 ? ",), kwargs = {" : "), kwargs = {");
        put_given(p, l->node, true);
        exg_text_puts(out, "})");
        break;
    case EXG_LINE_ITEM:
        exg_text_printf(out, "operator.getitem](args = (%%%s, %" PRIu32 "), kwargs = {})", l->of,
                        l->element);
        break;
    case EXG_LINE_GRAPH:
        exg_text_printf(out, "%s]", l->of);
        break;
    }
}

static void put_placeholders(const exg_printer *p, const exg_signature *signature,
                             const uint32_t *users)
{
    for (uint32_t i = 0; i < p->graph->input_count; i++) {
        const exg_argument *input = &p->graph->inputs[i];
        exg_value_id value = exg_output_value(input);
        const char *name = value != EXG_NO_VALUE                    ? p->graph->values[value].name
                           : input->kind == EXG_ARGUMENT_CUSTOM_OBJ ? input->as_custom_obj->name
                           : i < signature->input_count             ? signature->inputs[i].arg.name
                                                                    : NULL;
        uint32_t id = name == NULL ? EXG_MAP_NONE : exg_map_find(&p->names, name);

        name = name == NULL ? "" : name;
        put_node(p->out, name, id == EXG_MAP_NONE ? 0 : users[id], "placeholder");
        exg_text_printf(p->out, "%s]", name);
    }
}

static void put_return(const exg_printer *p)
{
    const exg_graph *graph = p->graph;

    exg_text_puts(p->out, "\n    return (");
    for (uint32_t i = 0; i < graph->output_count; i++) {
        exg_text_puts(p->out, i == 0 ? "" : ", ");
        exg_print_argument(p->out, graph, &graph->outputs[i]);
    }
    exg_text_puts(p->out, graph->output_count == 1 ? ",)" : ")");
}

exg_status exg_program_print_graph(const exg_program *program, char **text, exg_error *err)
{
    EXG_REQUIRE(err, program, text);
    exg_text out = EXG_TEXT_EMPTY;
    exg_printer p;

    if (exg_printer_begin(&p, &out, program->graph, false)) {
        const uint32_t *users = count_users(&p);

        exg_text_puts(&out, "graph():");
        if (users != NULL) {
            put_placeholders(&p, &program->signature, users);
        }
        for (uint32_t l = 0; users != NULL && l < p.line_count; l++) {
            put_line(&p, &p.lines[l], users[p.lines[l].id]);
        }
        put_return(&p);
    }
    exg_printer_end(&p);
    return exg_print_take(&out, text, err);
}
