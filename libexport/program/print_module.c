/* print_module.c - a graph as the forward function torch.fx would generate.
 *
 * After the last use of a name the line ends in ";  name = None", as FX frees what it no longer
 * needs.
 */
#include "libexport/base/prefix.h"
#include "libexport/program/print.h"

#include "libexport/program/frame.h"
#include "libexport/program/print_lines.h"

#include <stdlib.h>
#include <string.h>

/* ---- where the code came from -----------------------------------------------------------------
 */

/* "File: F:N in NAME, code: C" of the innermost frame. */
static void print_origin(exg_text *out, const char *trace)
{
    const char *start = trace;
    const char *end = trace + strlen(trace);
    const char *code_end;
    exg_source_line frame;

    exg_strip_blanks(&start, &end);
    code_end = end;
    for (const char *line_end = end; line_end > start;) {
        const char *line_start = line_end;
        const char *from;
        const char *to = line_end;

        while (line_start > start && line_start[-1] != '\n') {
            line_start--;
        }
        from = line_start;
        exg_strip_blanks(&from, &to);
        if (line_end != end && exg_frame_match(from, to, &frame)) {
            const char *code = line_end + 1;

            exg_strip_blanks(&code, &code_end);
            exg_text_printf(out, "File: %.*s:%u in %.*s, code: %.*s", (int)frame.file_length,
                            frame.file, frame.line, (int)frame.function_length, frame.function,
                            (int)(code_end - code), code);
            return;
        }
        code_end = line_end;
        line_end = line_start > start ? line_start - 1 : start;
    }
    exg_text_puts(out, "No stacktrace found for following nodes");
}

/* ---- lines ------------------------------------------------------------------------------------
 */

static const char *find_operator(const char *target)
{
    static const struct {
        const char *name;
        const char *symbol;
    } rows[] = {
        {"eq", "=="},     {"ne", "!="},  {"lt", "<"},     {"gt", ">"},   {"le", "<="},
        {"ge", ">="},     {"add", "+"},  {"sub", "-"},    {"mul", "*"},  {"floordiv", "//"},
        {"truediv", "/"}, {"div", "/"},  {"mod", "%"},    {"pow", "**"}, {"lshift", "<<"},
        {"rshift", ">>"}, {"and_", "&"}, {"or_", "|"},    {"xor", "^"},  {"matmul", "@"},
        {"pos", "+"},     {"neg", "-"},  {"invert", "~"},
    };

    const char *name = exg_behind(target, "_operator.");

    for (size_t i = 0; name != NULL && i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strcmp(name, rows[i].name) == 0) {
            return rows[i].symbol;
        }
    }
    return NULL;
}

static void print_target(exg_text *out, const char *target)
{
    bool keep = exg_behind(target, "torch.") != NULL;

    for (const char *c = target; *c != '\0'; c++) {
        exg_text_putc(out, *c == '.' && !keep ? '_' : *c);
    }
}

static void print_call(exg_printer *p, const exg_node *node)
{
    const char *symbol = find_operator(node->target);
    exg_text *out = p->out;

    if (symbol != NULL && (node->input_count == 1 || node->input_count == 2)) {
        if (node->input_count == 2) {
            exg_print_argument(out, p->graph, &node->inputs[0].arg);
            exg_text_printf(out, " %s ", symbol);
        } else {
            exg_text_puts(out, symbol);
        }
        exg_print_argument(out, p->graph, &node->inputs[node->input_count - 1].arg);
        return;
    }
    print_target(out, node->target);
    exg_text_putc(out, '(');
    for (uint32_t i = 0; i < node->input_count; i++) {
        exg_text_puts(out, i == 0 ? "" : ", ");
        if (node->inputs[i].kind == EXG_KIND_KEYWORD) {
            exg_text_printf(out, "%s = ", node->inputs[i].name);
        }
        exg_print_argument(out, p->graph, &node->inputs[i].arg);
    }
    exg_text_putc(out, ')');
}

static void print_deleted(exg_printer *p, uint32_t number)
{
    const exg_printed_line *l = &p->lines[number];
    bool any = false;

    for (uint32_t u = 0; u < l->use_count; u++) {
        uint32_t id = p->uses[l->first_use + u];

        if (p->last_use[id] == number) {
            exg_text_printf(p->out, "%s%s = ", any ? "" : ";  ", p->id_names[id]);
            any = true;
        }
    }
    if (p->last_use[l->id] == EXG_NEVER) {
        exg_text_printf(p->out, "%s%s = ", any ? "" : ";  ", l->name);
        any = true;
    }
    exg_text_puts(p->out, any ? "None\n" : "\n");
}

static void print_line(exg_printer *p, uint32_t number, int indent)
{
    const exg_printed_line *l = &p->lines[number];

    exg_text_printf(p->out, "%*s%s", indent, "", l->name);
    if (l->value != NULL) {
        exg_print_annotation(p->out, l->value, NULL, NULL);
    }
    exg_text_puts(p->out, " = ");
    switch (l->kind) {
    case EXG_LINE_CALL:
        print_call(p, l->node);
        break;
    case EXG_LINE_ITEM:
        exg_text_printf(p->out, "%s[%u]", l->of, l->element);
        break;
    case EXG_LINE_GRAPH:
        exg_text_printf(p->out, "self.%s", l->of);
        break;
    }
    print_deleted(p, number);
}

static void print_lines(exg_printer *p, int indent, bool first)
{
    exg_text origin = EXG_TEXT_EMPTY;
    exg_text previous = EXG_TEXT_EMPTY;

    for (uint32_t l = 0; l < p->line_count; l++) {
        const char *trace = exg_node_metadata(p->lines[l].node, "stack_trace");
        const char *custom = exg_node_metadata(p->lines[l].node, "custom");
        exg_text held;

        origin.length = 0;
        if (custom != NULL) {
            exg_print_custom(&origin, custom);
        }
        print_origin(&origin, trace == NULL ? "" : trace);
        if (l == 0 || origin.failed || origin.length != previous.length ||
            memcmp(origin.data, previous.data, origin.length) != 0) {
            exg_text_printf(p->out, "%s%*s# %s\n", l == 0 && first ? "" : "\n", indent, "",
                            exg_text_part(p->out, &origin));
        }
        print_line(p, l, indent);
        held = previous;
        previous = origin;
        origin = held;
    }
    exg_text_free(&origin);
    exg_text_free(&previous);
}

/* ---- the function ------------------------------------------------------------------------------
 */

static void print_parameters(exg_printer *p, const exg_signature *signature,
                             const exg_value *values)
{
    for (uint32_t i = 0; i < p->graph->input_count; i++) {
        const exg_argument *input = &p->graph->inputs[i];
        exg_value_id id = exg_output_value(input);
        const char *name =
            signature != NULL && i < signature->input_count ? signature->inputs[i].arg.name : "";

        exg_text_puts(p->out, ", ");
        if (id != EXG_NO_VALUE) {
            exg_text_puts(p->out, values[id].name);
            exg_print_annotation(p->out, &p->graph->values[id], NULL, NULL);
        } else if (input->kind == EXG_ARGUMENT_CUSTOM_OBJ) {
            exg_text_puts(p->out, input->as_custom_obj->name);
        } else if (name != NULL && name[0] != '\0') {
            exg_text_puts(p->out, name);
        } else {
            exg_text_printf(p->out, "arg%u", i);
        }
    }
}

static void print_return(exg_printer *p, int indent)
{
    const exg_graph *graph = p->graph;
    bool bare = graph->is_single_tensor_return && graph->output_count == 1;

    exg_text_printf(p->out, "%*sreturn %s", indent, "", bare ? "" : "(");
    for (uint32_t i = 0; i < graph->output_count; i++) {
        exg_text_puts(p->out, i == 0 ? "" : ", ");
        exg_print_argument(p->out, graph, &graph->outputs[i]);
    }
    exg_text_puts(p->out, bare ? "\n" : graph->output_count == 1 ? ",)\n" : ")\n");
}

/* The classes of subgraphs, each name once, in the order of their first use. */
static void print_subgraphs(exg_printer *p, int indent)
{
    exg_map printed;

    exg_map_init(&printed, p->arena);
    for (uint32_t l = 0; l < p->line_count; l++) {
        const exg_node *node = p->lines[l].node;

        if (p->lines[l].kind != EXG_LINE_GRAPH ||
            exg_map_find(&printed, p->lines[l].of) != EXG_MAP_NONE) {
            continue;
        }
        if (!exg_map_put(&printed, p->lines[l].of, l)) {
            p->failed = true;
            return;
        }
        for (uint32_t i = 0; i < node->input_count; i++) {
            if (node->inputs[i].arg.kind == EXG_ARGUMENT_GRAPH &&
                node->inputs[i].arg.as_graph->name == p->lines[l].of) {
                exg_text_putc(p->out, '\n');
                exg_print_module(p->out, node->inputs[i].arg.as_graph->graph, NULL, p->lines[l].of,
                                 indent);
                break;
            }
        }
    }
}

void exg_print_module(exg_text *out, const exg_graph *graph, const exg_signature *signature,
                      const char *name, int indent)
{
    exg_printer p;

    if (exg_printer_begin(&p, out, graph, true)) {
        const exg_renamed *inside = &p.inside;

        exg_text_printf(out, "%*sclass %s(torch.nn.Module):\n%*sdef forward(self", indent, "", name,
                        indent + 4, "");
        print_parameters(&p, signature, graph->values);
        exg_text_puts(out, "):\n");
        for (uint32_t i = 0; i < inside->count; i++) {
            exg_text_printf(out, "%*s%s = %s\n", indent + 8, "", inside->to[i], inside->from[i]);
        }
        print_lines(&p, indent + 8, inside->count == 0);
        print_return(&p, indent + 8);
        print_subgraphs(&p, indent + 4);
    }
    exg_printer_end(&p);
}
