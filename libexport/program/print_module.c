/* print_module.c - a graph as the forward function torch.fx would generate.
 *
 * FX has nodes the schema does not: a getitem for each element of a result and a
 * get_attr for each subgraph. Here they come back as lines. After the last use of
 * a name the line ends in ";  name = None", as FX frees what it no longer needs.
 */
#include "libexport/program/print.h"

#include "libexport/base/arena.h"
#include "libexport/base/map.h"
#include "libexport/program/frame.h"

#include <stdlib.h>
#include <string.h>

#define NEVER     UINT32_MAX
#define AT_OUTPUT (UINT32_MAX - 1)

typedef enum line_kind { LINE_CALL, LINE_ITEM, LINE_GRAPH } line_kind;

typedef struct line {
    line_kind kind;
    const exg_node *node;
    const char *name;
    const exg_value *value; /* for the annotation, or NULL */
    const char *of;         /* ITEM: the tuple; GRAPH: the attribute */
    uint32_t id;            /* what it defines */
    uint32_t element;       /* ITEM */
    uint32_t first_use;     /* in printer.uses */
    uint32_t use_count;
} line;

typedef struct printer {
    exg_text *out;
    const exg_graph *graph;
    exg_arena *arena;
    exg_map names;   /* of values, for objects that are named by text */
    exg_map defined; /* names of lines so far, for those FX makes up */
    line *lines;
    uint32_t *uses; /* ids, line after line */
    uint32_t *used_by;  /* by id: the number of lines when it was noted last */
    uint32_t used_by_capacity;
    const char **id_names;
    uint32_t *last_use; /* line, by id */
    uint32_t line_count, line_capacity;
    uint32_t use_count, use_capacity;
    uint32_t id_count, id_capacity;
    bool failed;
} printer;

/* ---- growing ---------------------------------------------------------------------------- */

static bool reserve(printer *p, void **items, uint32_t count, uint32_t *capacity, size_t bytes)
{
    uint32_t bigger = *capacity < 256 ? 256 : *capacity * 2;
    void *moved;

    if (count < *capacity) {
        return true;
    }
    moved = exg_arena_alloc(p->arena, bigger, bytes);
    if (moved == NULL) {
        p->failed = true;
        return false;
    }
    if (count > 0) {
        memcpy(moved, *items, count * bytes);
    }
    *items = moved;
    *capacity = bigger;
    return true;
}

static uint32_t new_id(printer *p, const char *name)
{
    void *names = (void *)p->id_names;

    if (!reserve(p, &names, p->id_count, &p->id_capacity, sizeof(const char *))) {
        return 0;
    }
    p->id_names = names;
    p->id_names[p->id_count] = name;
    return p->id_count++;
}

static line *new_line(printer *p, line_kind kind, const exg_node *node)
{
    static line spare;
    void *lines = p->lines;

    if (!reserve(p, &lines, p->line_count, &p->line_capacity, sizeof(line))) {
        return &spare;
    }
    p->lines = lines;
    p->lines[p->line_count] = (line){.kind = kind, .node = node, .first_use = p->use_count};
    return &p->lines[p->line_count++];
}

/* Has the newest line this use? It has from now on. */
static bool is_noted(printer *p, uint32_t id)
{
    void *used_by = p->used_by;
    bool noted;

    while (id >= p->used_by_capacity) {
        if (!reserve(p, &used_by, p->used_by_capacity, &p->used_by_capacity, sizeof(uint32_t))) {
            return true;
        }
    }
    p->used_by = used_by;
    noted = p->used_by[id] == p->line_count;
    p->used_by[id] = p->line_count;
    return noted;
}

/* Adds a use to the newest line, once. */
static void add_use(printer *p, uint32_t id)
{
    line *l = &p->lines[p->line_count - 1];
    void *uses = p->uses;

    if (!is_noted(p, id) && reserve(p, &uses, p->use_count, &p->use_capacity, sizeof(uint32_t))) {
        p->uses = uses;
        p->uses[p->use_count++] = id;
        l->use_count++;
    }
}

static void visit_use(void *user, exg_value_id *id)
{
    add_use(user, *id);
}

/* ---- from nodes to lines ------------------------------------------------------------------ */

static bool is_higher_order(const exg_node *node)
{
    return strncmp(node->target, "torch.ops.higher_order.", 23) == 0;
}

/* Does FX see a tuple or list, to be taken apart by getitem? */
static bool gives_tuple(const exg_node *node)
{
    return node->output_count > 1 ||
           (node->output_count == 1 &&
            (node->outputs[0].kind == EXG_ARGUMENT_TENSORS ||
             (is_higher_order(node) && node->is_hop_single_tensor_return != EXG_TRUE &&
              node->outputs[0].kind != EXG_ARGUMENT_NONE)));
}

/* The value an output names, or EXG_NO_VALUE. */
static exg_value_id output_value(const exg_argument *output)
{
    switch (output->kind) {
    case EXG_ARGUMENT_TENSOR:
        return output->as_tensor;
    case EXG_ARGUMENT_SYM_INT:
    case EXG_ARGUMENT_SYM_FLOAT:
    case EXG_ARGUMENT_SYM_BOOL:
        return output->as_sym.value;
    default: /* nothing, or a list */
        return EXG_NO_VALUE;
    }
}

/* "x", or the first of "x_1", "x_2", ... that no line before has. */
static const char *fresh_name(printer *p, const exg_map *taken, const char *name)
{
    const char *text = name;

    for (unsigned n = 1; text != NULL && exg_map_find(taken, text) != EXG_MAP_NONE; n++) {
        text = exg_arena_printf(p->arena, "%s_%u", name, n);
    }
    p->failed = p->failed || text == NULL;
    return text == NULL ? "" : text;
}

static void define(printer *p, const char *name)
{
    p->failed = p->failed || !exg_map_put(&p->defined, name, 0);
}

static uint32_t add_item(printer *p, const exg_node *node, uint32_t tuple, uint32_t element,
                         exg_value_id value, const char *name)
{
    const char *of = p->id_names[tuple];
    line *l = new_line(p, LINE_ITEM, node);

    l->of = of;
    l->element = element;
    l->value = value == EXG_NO_VALUE ? NULL : &p->graph->values[value];
    l->name = value == EXG_NO_VALUE ? name : l->value->name;
    define(p, l->name);
    l->id = value == EXG_NO_VALUE ? new_id(p, name) : value;
    add_use(p, tuple);
    return l->id;
}

static void add_list_items(printer *p, const exg_node *node, uint32_t tuple,
                           const exg_argument *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        add_item(p, node, tuple, i, list->as_tensors[i], "");
    }
}

static void add_items(printer *p, const exg_node *node, uint32_t tuple)
{
    if (node->output_count == 1 && node->outputs[0].kind == EXG_ARGUMENT_TENSORS) {
        add_list_items(p, node, tuple, &node->outputs[0]);
        return;
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        const exg_argument *output = &node->outputs[i];

        if (output->kind == EXG_ARGUMENT_TENSORS) {
            uint32_t list =
                add_item(p, node, tuple, i, EXG_NO_VALUE, fresh_name(p, &p->defined, "getitem"));

            add_list_items(p, node, list, output);
        } else if (output_value(output) == EXG_NO_VALUE) {
            add_item(p, node, tuple, i, EXG_NO_VALUE, fresh_name(p, &p->defined, "as_none"));
        } else {
            add_item(p, node, tuple, i, output_value(output), "");
        }
    }
}

/* The uses of one input; subgraphs have the ids of their get_attr lines. */
static void add_input_uses(printer *p, const exg_argument *arg, uint32_t *next_graph)
{
    exg_argument copy = *arg;

    if (arg->kind == EXG_ARGUMENT_GRAPH) {
        add_use(p, (*next_graph)++);
    } else if (arg->kind == EXG_ARGUMENT_CUSTOM_OBJ) {
        uint32_t id = exg_map_find(&p->names, arg->as_custom_obj->name);

        if (id != EXG_MAP_NONE) {
            add_use(p, id);
        }
    } else if (arg->kind == EXG_ARGUMENT_TENSOR || arg->kind == EXG_ARGUMENT_OPTIONAL_TENSOR) {
        if (arg->as_tensor != EXG_NO_VALUE) {
            add_use(p, arg->as_tensor);
        }
    } else {
        exg_argument_visit_values(&copy, visit_use, p);
    }
}

static void add_node(printer *p, const exg_node *node)
{
    uint32_t graphs = p->id_count;
    bool tuple = gives_tuple(node);
    exg_value_id value =
        tuple || node->output_count == 0 ? EXG_NO_VALUE : output_value(&node->outputs[0]);
    const char *name = node->name == NULL ? "_" : node->name;
    line *l;
    uint32_t id;

    for (uint32_t i = 0; i < node->input_count; i++) {
        if (node->inputs[i].arg.kind == EXG_ARGUMENT_GRAPH) {
            const char *attribute = node->inputs[i].arg.as_graph->name;

            l = new_line(p, LINE_GRAPH, node);
            l->name = l->of = attribute;
            l->id = new_id(p, attribute);
            define(p, attribute);
        }
    }
    id = value == EXG_NO_VALUE ? new_id(p, name) : value;
    l = new_line(p, LINE_CALL, node);
    l->id = id;
    l->value = value == EXG_NO_VALUE ? NULL : &p->graph->values[value];
    l->name = value == EXG_NO_VALUE ? name : l->value->name;
    define(p, l->name);
    for (uint32_t i = 0; i < node->input_count && !p->failed; i++) {
        add_input_uses(p, &node->inputs[i].arg, &graphs);
    }
    if (tuple && !p->failed) {
        add_items(p, node, id);
    }
}

static void note_output(void *user, exg_value_id *id)
{
    printer *p = user;

    p->last_use[*id] = AT_OUTPUT;
}

/* Which line uses each id last; outputs outlive all lines. */
static void find_last_uses(printer *p)
{
    p->last_use = EXG_NEW_ARRAY(p->arena, uint32_t, p->id_count);
    if (p->last_use == NULL) {
        p->failed = true;
        return;
    }
    for (uint32_t i = 0; i < p->id_count; i++) {
        p->last_use[i] = NEVER;
    }
    for (uint32_t l = 0; l < p->line_count; l++) {
        for (uint32_t u = 0; u < p->lines[l].use_count; u++) {
            p->last_use[p->uses[p->lines[l].first_use + u]] = l;
        }
    }
    for (uint32_t i = 0; i < p->graph->output_count; i++) {
        exg_argument copy = p->graph->outputs[i];

        exg_argument_visit_values(&copy, note_output, p);
    }
}

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
        {"eq",       "=="},
        {"ne",       "!="},
        {"lt",       "<" },
        {"gt",       ">" },
        {"le",       "<="},
        {"ge",       ">="},
        {"add",      "+" },
        {"sub",      "-" },
        {"mul",      "*" },
        {"floordiv", "//"},
        {"truediv",  "/" },
        {"div",      "/" },
        {"mod",      "%" },
        {"pow",      "**"},
        {"lshift",   "<<"},
        {"rshift",   ">>"},
        {"and_",     "&" },
        {"or_",      "|" },
        {"xor",      "^" },
        {"matmul",   "@" },
        {"pos",      "+" },
        {"neg",      "-" },
        {"invert",   "~" },
    };

    if (strncmp(target, "_operator.", 10) != 0) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strcmp(target + 10, rows[i].name) == 0) {
            return rows[i].symbol;
        }
    }
    return NULL;
}

static void print_target(exg_text *out, const char *target)
{
    bool keep = strncmp(target, "torch.", 6) == 0;

    for (const char *c = target; *c != '\0'; c++) {
        exg_text_putc(out, *c == '.' && !keep ? '_' : *c);
    }
}

static void print_call(printer *p, const exg_node *node)
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

static void print_deleted(printer *p, uint32_t number)
{
    const line *l = &p->lines[number];
    bool any = false;

    for (uint32_t u = 0; u < l->use_count; u++) {
        uint32_t id = p->uses[l->first_use + u];

        if (p->last_use[id] == number) {
            exg_text_printf(p->out, "%s%s = ", any ? "" : ";  ", p->id_names[id]);
            any = true;
        }
    }
    if (p->last_use[l->id] == NEVER) {
        exg_text_printf(p->out, "%s%s = ", any ? "" : ";  ", l->name);
        any = true;
    }
    exg_text_puts(p->out, any ? "None\n" : "\n");
}

static void print_line(printer *p, uint32_t number, int indent)
{
    const line *l = &p->lines[number];

    exg_text_printf(p->out, "%*s%s", indent, "", l->name);
    if (l->value != NULL) {
        exg_print_annotation(p->out, l->value);
    }
    exg_text_puts(p->out, " = ");
    switch (l->kind) {
    case LINE_CALL:
        print_call(p, l->node);
        break;
    case LINE_ITEM:
        exg_text_printf(p->out, "%s[%u]", l->of, l->element);
        break;
    case LINE_GRAPH:
        exg_text_printf(p->out, "self.%s", l->of);
        break;
    }
    print_deleted(p, number);
}

static void print_lines(printer *p, int indent, bool first)
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

/* ---- inputs Python cannot call so ------------------------------------------------------- */

typedef struct renamed {
    exg_graph graph; /* the graph with other names for its values */
    const char **from;
    const char **to;
    uint32_t count;
} renamed;

static bool is_python_name(const char *name)
{
    static const char *const names[] = {
#define EXG_PYTHON_NAME(text) text,
#include "libexport/program/python_name.def"
#undef EXG_PYTHON_NAME
    };
    size_t low = 0;
    size_t high = sizeof(names) / sizeof(names[0]);

    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(name, names[middle]);

        if (order == 0) {
            return true;
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return false;
}

/* An input called "input" becomes input_1 inside: FX keeps builtins clear. */
static void rename_inputs(printer *p, renamed *r)
{
    const exg_graph *graph = p->graph;
    exg_map taken;

    exg_map_init(&taken, p->arena);
    r->from = EXG_NEW_ARRAY(p->arena, const char *, graph->input_count);
    r->to = EXG_NEW_ARRAY(p->arena, const char *, graph->input_count);
    p->failed = r->from == NULL || r->to == NULL;
    for (uint32_t i = 0; i < graph->input_count && !p->failed; i++) {
        exg_value_id id = output_value(&graph->inputs[i]);

        if (id == EXG_NO_VALUE || !is_python_name(graph->values[id].name)) {
            continue;
        }
        if (r->count == 0) {
            r->graph = *graph;
            r->graph.values =
                exg_arena_memdup(p->arena, graph->values, graph->value_count, sizeof(exg_value));
            p->failed = r->graph.values == NULL;
            for (uint32_t v = 0; v < graph->value_count && !p->failed; v++) {
                p->failed = !exg_map_put(&taken, graph->values[v].name, v);
            }
        }
        if (!p->failed) {
            r->from[r->count] = graph->values[id].name;
            r->to[r->count] = fresh_name(p, &taken, graph->values[id].name);
            r->graph.values[id].name = r->to[r->count++];
        }
    }
    if (r->count > 0) {
        p->graph = &r->graph;
    }
}

/* ---- the function ------------------------------------------------------------------------------
 */

static void print_parameters(printer *p, const exg_signature *signature, const exg_value *values)
{
    for (uint32_t i = 0; i < p->graph->input_count; i++) {
        const exg_argument *input = &p->graph->inputs[i];
        exg_value_id id = output_value(input);
        const char *name =
            signature != NULL && i < signature->input_count ? signature->inputs[i].arg.name : "";

        exg_text_puts(p->out, ", ");
        if (id != EXG_NO_VALUE) {
            exg_text_puts(p->out, values[id].name);
            exg_print_annotation(p->out, &p->graph->values[id]);
        } else if (input->kind == EXG_ARGUMENT_CUSTOM_OBJ) {
            exg_text_puts(p->out, input->as_custom_obj->name);
        } else if (name != NULL && name[0] != '\0') {
            exg_text_puts(p->out, name);
        } else {
            exg_text_printf(p->out, "arg%u", i);
        }
    }
}

static void print_return(printer *p, int indent)
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
static void print_subgraphs(printer *p, int indent)
{
    exg_map printed;

    exg_map_init(&printed, p->arena);
    for (uint32_t l = 0; l < p->line_count; l++) {
        const exg_node *node = p->lines[l].node;

        if (p->lines[l].kind != LINE_GRAPH ||
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

static void build_lines(printer *p)
{
    exg_map_init(&p->names, p->arena);
    exg_map_init(&p->defined, p->arena);
    for (uint32_t i = 0; i < p->graph->value_count && !p->failed; i++) {
        new_id(p, p->graph->values[i].name);
        p->failed = p->failed || !exg_map_put(&p->names, p->graph->values[i].name, i);
    }
    for (uint32_t i = 0; i < p->graph->node_count && !p->failed; i++) {
        add_node(p, &p->graph->nodes[i]);
    }
    if (!p->failed) {
        find_last_uses(p);
    }
}

void exg_print_module(exg_text *out, const exg_graph *graph, const exg_signature *signature,
                      const char *name, int indent)
{
    printer p = {.out = out, .graph = graph, .arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED)};

    renamed inside = {0};

    if (p.arena == NULL) {
        out->failed = true;
        return;
    }
    rename_inputs(&p, &inside);
    if (!p.failed) {
        build_lines(&p);
    }
    if (!p.failed) {
        exg_text_printf(out, "%*sclass %s(torch.nn.Module):\n%*sdef forward(self", indent, "", name,
                        indent + 4, "");
        print_parameters(&p, signature, graph->values);
        exg_text_puts(out, "):\n");
        for (uint32_t i = 0; i < inside.count; i++) {
            exg_text_printf(out, "%*s%s = %s\n", indent + 8, "", inside.to[i], inside.from[i]);
        }
        print_lines(&p, indent + 8, inside.count == 0);
        print_return(&p, indent + 8);
        print_subgraphs(&p, indent + 4);
    }
    out->failed = out->failed || p.failed;
    exg_arena_destroy(p.arena);
}
