/* part.c - a program that gives other values than its own: more of them, to look inside, or fewer,
 * without what only the others need. */
#include "libexport/base/arena.h"
#include "libexport/base/map.h"
#include "libexport/base/options.h"
#include "libexport/base/require.h"
#include "libexport/program/python.h"
#include "libexport/weights/storage.h"

#include <exg/formats.h>
#include <exg/operator_id_new.h>
#include <exg/symint.h>
#include <exg/transform.h>
#include <string.h>

typedef struct parter {
    const exg_operators *operators;
    exg_program *program; /* the copy, which becomes the part */
    exg_part_options options;
    exg_map names;   /* of values */
    exg_node *nodes; /* in the place of the graph's */
    uint32_t node_count, node_capacity, value_capacity;
    bool *given;              /* by value: asked for */
    bool *constant;           /* by value: to become a constant */
    exg_value_id *said;       /* by value: what is given for it, a copy at that time */
    uint32_t old_count;       /* values of the whole */
    bool is_called_otherwise; /* user inputs are gone */
    exg_error *err;
} parter;

/* ---- nodes ---------------------------------------------------------------------------------- */

static exg_status put_node(parter *p, const exg_node *node)
{
    if (!exg_arena_reserve(p->program->arena, &p->nodes, p->node_count, &p->node_capacity,
                           sizeof(*p->nodes))) {
        return EXG_OUT_OF_MEMORY(p->err);
    }
    p->nodes[p->node_count++] = *node;
    return EXG_OK;
}

/* The last node that may write in place, which makes what is above it another tensor; 0: none. */
static uint32_t last_write(const parter *p)
{
    uint32_t last = 0;

    for (uint32_t n = 0; n < p->program->graph->node_count; n++) {
        const exg_operator *op =
            exg_operators_find(p->operators, p->program->graph->nodes[n].target);

        last = op == NULL || op->schema->is_mutable ? n : last;
    }
    return last;
}

/* A copy of the value as it is there. */
static exg_status put_copy(parter *p, exg_value_id id, const exg_node *from)
{
    exg_graph *graph = p->program->graph;
    exg_arena *arena = p->program->arena;
    exg_named_argument *input = EXG_NEW(arena, exg_named_argument);
    exg_argument *output = EXG_NEW(arena, exg_argument);
    char *wanted = exg_arena_printf(arena, "%s_given", graph->values[id].name);
    const char *name = wanted == NULL ? NULL : exg_map_free_name(&p->names, arena, wanted);
    exg_node node = {.target = exg_operators_get(p->operators, EXG_OP_clone_default)->target,
                     .name = name,
                     .inputs = input,
                     .input_count = 1,
                     .outputs = output,
                     .output_count = 1,
                     .metadata = from->metadata,
                     .is_hop_single_tensor_return = EXG_UNSET};

    if (input == NULL || output == NULL || name == NULL ||
        !exg_arena_reserve(arena, &graph->values, graph->value_count, &p->value_capacity,
                           sizeof(*graph->values)) ||
        !exg_map_put(&p->names, name, graph->value_count)) {
        return EXG_OUT_OF_MEMORY(p->err);
    }
    *input = (exg_named_argument){.name = "self",
                                  .kind = EXG_KIND_POSITIONAL,
                                  .arg = {.kind = EXG_ARGUMENT_TENSOR, .as_tensor = id}};
    *output = (exg_argument){.kind = EXG_ARGUMENT_TENSOR, .as_tensor = graph->value_count};
    p->said[id] = graph->value_count;
    graph->values[graph->value_count++] =
        (exg_value){.name = name, .tensor = graph->values[id].tensor};
    return put_node(p, &node);
}

typedef struct copying {
    parter *p;
    const exg_node *node;
    exg_status status;
} copying;

static void copy_given(void *user, exg_value_id *id)
{
    copying *c = user;

    if (c->status == EXG_OK && *id != EXG_NO_VALUE && *id < c->p->old_count && c->p->given[*id]) {
        c->status = put_copy(c->p, *id, c->node);
    }
}

/* ---- constants --------------------------------------------------------------------------------
 */

/* Sizes as an argument: numbers, or values above that have the symbols. false: there is none. */
static bool size_argument(parter *p, const exg_tensor_meta *meta, const bool *known,
                          exg_argument *sizes)
{
    const exg_graph *graph = p->program->graph;
    exg_sym_argument *items = EXG_NEW_ARRAY(p->program->arena, exg_sym_argument, meta->rank);
    int64_t *numbers = EXG_NEW_ARRAY(p->program->arena, int64_t, meta->rank);
    bool is_static = true;

    for (uint32_t d = 0; items != NULL && numbers != NULL && d < meta->rank; d++) {
        const exg_sym_int *size = &meta->sizes[d];
        exg_value_id found = EXG_NO_VALUE;

        for (uint32_t v = 0; size->expr != NULL && v < p->old_count; v++) {
            const exg_sym_int *other = graph->values[v].sym_int;

            if (known[v] && other != NULL && other->expr != NULL &&
                strcmp(other->expr, size->expr) == 0) {
                found = v;
            }
        }
        if (size->expr != NULL && found == EXG_NO_VALUE) {
            return false;
        }
        is_static = is_static && size->expr == NULL;
        numbers[d] = size->value;
        items[d] = (exg_sym_argument){.value = found, .as_int = size->value};
    }
    *sizes =
        is_static
            ? (exg_argument){.kind = EXG_ARGUMENT_INTS, .count = meta->rank, .as_ints = numbers}
            : (exg_argument){.kind = EXG_ARGUMENT_SYM_INTS, .count = meta->rank, .as_syms = items};
    return items != NULL && numbers != NULL;
}

static bool makes_constant(const parter *p, const exg_node *node)
{
    return node->output_count == 1 && node->outputs[0].kind == EXG_ARGUMENT_TENSOR &&
           node->outputs[0].as_tensor < p->old_count && p->constant[node->outputs[0].as_tensor];
}

/* full(sizes, constant) in the place of the node. */
static exg_status put_constant(parter *p, const exg_node *node, const bool *known)
{
    const exg_operator *full = exg_operators_get(p->operators, EXG_OP_full_default);
    const exg_value *value = &p->program->graph->values[node->outputs[0].as_tensor];
    exg_named_argument *inputs = EXG_NEW_ARRAY(p->program->arena, exg_named_argument, 4);
    exg_node made = *node;
    exg_argument sizes;

    if (inputs == NULL) {
        return EXG_OUT_OF_MEMORY(p->err);
    }
    if (!size_argument(p, value->tensor, known, &sizes)) {
        return EXG_FAIL(p->err, UNSUPPORTED, "TRF-005",
                        "'%s' cannot be a constant: a size of it is nowhere a value", value->name);
    }
    inputs[0] = (exg_named_argument){.name = "size", .kind = EXG_KIND_POSITIONAL, .arg = sizes};
    inputs[1] =
        (exg_named_argument){.name = "fill_value",
                             .kind = EXG_KIND_POSITIONAL,
                             .arg = {.kind = EXG_ARGUMENT_FLOAT, .as_float = p->options.constant}};
    if (value->tensor->dtype == EXG_DTYPE_B8 || exg_dtype_is_integral(value->tensor->dtype)) {
        inputs[1].arg =
            (exg_argument){.kind = EXG_ARGUMENT_INT, .as_int = (int64_t)p->options.constant};
    }
    inputs[2] = (exg_named_argument){
        .name = "dtype",
        .kind = EXG_KIND_KEYWORD,
        .arg = {.kind = EXG_ARGUMENT_SCALAR_TYPE, .as_scalar_type = value->tensor->dtype}};
    inputs[3] = (exg_named_argument){
        .name = "device",
        .kind = EXG_KIND_KEYWORD,
        .arg = {.kind = EXG_ARGUMENT_DEVICE, .as_device = value->tensor->device}};
    made.target = full->target;
    made.inputs = inputs;
    made.input_count = 4;
    return put_node(p, &made);
}

static void note_known(void *user, exg_value_id *id)
{
    bool *known = user;

    if (*id != EXG_NO_VALUE) {
        known[*id] = true;
    }
}

static exg_status make_nodes(parter *p)
{
    exg_graph *graph = p->program->graph;
    bool *known = EXG_NEW_ARRAY(p->program->arena, bool, graph->value_count);
    const uint32_t written = last_write(p);

    if (known == NULL) {
        return EXG_OUT_OF_MEMORY(p->err);
    }
    for (uint32_t i = 0; i < graph->input_count; i++) {
        exg_argument_visit_values(&graph->inputs[i], note_known, known);
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        exg_node *node = &graph->nodes[n];
        copying c = {p, node, EXG_OK};

        EXG_TRY(makes_constant(p, node) ? put_constant(p, node, known) : put_node(p, node));
        for (uint32_t o = 0; o < node->output_count; o++) {
            exg_argument_visit_values(&node->outputs[o], note_known, known);
            if (n < written) {
                exg_argument_visit_values(&node->outputs[o], copy_given, &c);
            }
        }
        EXG_TRY(c.status);
    }
    graph->nodes = p->nodes;
    graph->node_count = p->node_count;
    return EXG_OK;
}

/* ---- what only others need --------------------------------------------------------------------
 */

static void note_live(void *user, exg_value_id *id)
{
    note_known(user, id);
}

typedef struct asking {
    const bool *live;
    bool any;
} asking;

static void ask_live(void *user, exg_value_id *id)
{
    asking *a = user;

    a->any = a->any || (*id != EXG_NO_VALUE && a->live[*id]);
}

/* Of a node: is what it gives needed, or what it writes? */
static bool is_needed(const parter *p, exg_node *node, const bool *live)
{
    const exg_operator *op = exg_operators_find(p->operators, node->target);
    asking a = {live, false};

    for (uint32_t o = 0; o < node->output_count; o++) {
        exg_argument_visit_values(&node->outputs[o], ask_live, &a);
    }
    for (uint32_t i = 0; (op == NULL || op->schema->is_mutable) && i < node->input_count; i++) {
        exg_argument_visit_values(&node->inputs[i].arg, ask_live, &a);
    }
    return a.any;
}

/* Samples are of all inputs. */
static void drop_samples(exg_program *program)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < program->extra_file_count; i++) {
        if (strncmp(program->extra_files[i].name, EXG_SAMPLES_FOLDER,
                    sizeof(EXG_SAMPLES_FOLDER) - 1) != 0) {
            program->extra_files[kept++] = program->extra_files[i];
        }
    }
    program->extra_file_count = kept;
    program->sample_input_count = 0;
}

static void drop_inputs(parter *p, const bool *live)
{
    exg_program *program = p->program;
    exg_graph *graph = program->graph;
    exg_signature *signature = &program->signature;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < graph->input_count; i++) {
        asking a = {live, false};

        exg_argument_visit_values(&graph->inputs[i], ask_live, &a);
        if (a.any || (signature->inputs[i].kind == EXG_INPUT_USER && !p->options.drops_inputs)) {
            graph->inputs[kept] = graph->inputs[i];
            signature->inputs[kept++] = signature->inputs[i];
        } else {
            p->is_called_otherwise =
                p->is_called_otherwise || signature->inputs[i].kind == EXG_INPUT_USER;
        }
    }
    if (p->is_called_otherwise) {
        drop_samples(program);
    }
    graph->input_count = signature->input_count = kept;
}

static exg_status drop_weights(exg_program *program, exg_error *err)
{
    exg_weights *whole = program->weights;
    exg_weights *kept;
    exg_status status;

    EXG_TRY(exg_weights_beside(whole, &kept, err));
    status = EXG_OK;
    for (uint32_t w = 0; status == EXG_OK && w < whole->count; w++) {
        bool named = false;

        for (uint32_t i = 0; !named && i < program->signature.input_count; i++) {
            const char *target = program->signature.inputs[i].target;

            named = target != NULL && strcmp(target, whole->items[w].fqn) == 0;
        }
        status = named ? exg_weights_add(kept, &whole->items[w], err) : EXG_OK;
    }
    if (status != EXG_OK) {
        exg_weights_release(kept);
        return status;
    }
    exg_weights_release(whole);
    program->weights = kept;
    return EXG_OK;
}

/* Nodes that nothing needs; *needed: by value, is it? */
static exg_status drop_nodes(parter *p, bool **needed)
{
    exg_graph *graph = p->program->graph;
    bool *live = EXG_NEW_ARRAY(p->program->arena, bool, graph->value_count);
    uint32_t first = graph->node_count;

    *needed = live;
    if (live == NULL) {
        return EXG_OUT_OF_MEMORY(p->err);
    }
    for (uint32_t o = 0; o < graph->output_count; o++) {
        exg_argument_visit_values(&graph->outputs[o], note_live, live);
    }
    for (uint32_t n = graph->node_count; n-- > 0;) {
        exg_node node = graph->nodes[n];

        if (is_needed(p, &node, live)) {
            for (uint32_t i = 0; i < node.input_count; i++) {
                exg_argument_visit_values(&node.inputs[i].arg, note_live, live);
            }
            graph->nodes[--first] = node;
        }
    }
    graph->nodes += first;
    graph->node_count -= first;
    return EXG_OK;
}

static exg_status drop_unneeded(parter *p)
{
    bool *live;

    EXG_TRY(drop_nodes(p, &live));
    drop_inputs(p, live);
    return drop_weights(p->program, p->err);
}

/* The tables have no value that nothing defines. */
static exg_status drop_values(parter *p)
{
    exg_graph *graph = p->program->graph;
    bool *known = EXG_NEW_ARRAY(p->program->arena, bool, graph->value_count);

    if (known == NULL) {
        return EXG_OUT_OF_MEMORY(p->err);
    }
    for (uint32_t i = 0; i < graph->input_count; i++) {
        exg_argument_visit_values(&graph->inputs[i], note_known, known);
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        for (uint32_t o = 0; o < graph->nodes[n].output_count; o++) {
            exg_argument_visit_values(&graph->nodes[n].outputs[o], note_known, known);
        }
    }
    for (uint32_t v = 0; v < graph->value_count; v++) {
        if (!known[v]) {
            graph->values[v] = (exg_value){.name = graph->values[v].name};
        }
    }
    return EXG_OK;
}

typedef struct symbols {
    exg_map *seen;
    exg_arena *arena;
    bool any, failed;
} symbols;

static void note_symbol(void *user, const char *name, size_t length)
{
    symbols *s = user;
    const char *copy = exg_arena_strndup(s->arena, name, length);

    s->failed = s->failed || copy == NULL || !exg_map_put(s->seen, copy, 0);
}

static void look_for_symbol(void *user, const char *name, size_t length)
{
    symbols *s = user;
    const char *copy = exg_arena_strndup(s->arena, name, length);

    s->failed = s->failed || copy == NULL;
    s->any = s->any || (copy != NULL && exg_map_find(s->seen, copy) != EXG_MAP_NONE);
}

static void note_symbols(symbols *s, const exg_sym_int *size)
{
    if (size->expr != NULL) {
        exg_ignore(exg_symint_visit(size->expr, note_symbol, s, NULL));
    }
}

/* Of sizes that went with the inputs no range is left. */
static exg_status drop_ranges(parter *p)
{
    exg_program *program = p->program;
    exg_map seen;
    symbols s = {.seen = &seen, .arena = program->arena};
    uint32_t kept = 0;

    exg_map_init(&seen, program->arena);
    for (uint32_t v = 0; v < program->graph->value_count; v++) {
        const exg_value *value = &program->graph->values[v];

        for (uint32_t d = 0; value->tensor != NULL && d < value->tensor->rank; d++) {
            note_symbols(&s, &value->tensor->sizes[d]);
            note_symbols(&s, &value->tensor->strides[d]);
        }
        if (value->sym_int != NULL) {
            note_symbols(&s, value->sym_int);
        }
    }
    for (uint32_t r = 0; r < program->range_constraint_count; r++) {
        s.any = false;
        exg_ignore(
            exg_symint_visit(program->range_constraints[r].symbol, look_for_symbol, &s, NULL));
        if (s.any) {
            program->range_constraints[kept++] = program->range_constraints[r];
        }
    }
    program->range_constraint_count = kept;
    return s.failed ? EXG_OUT_OF_MEMORY(p->err) : EXG_OK;
}

/* ---- outputs ----------------------------------------------------------------------------------
 */

/* Behind which of its own outputs the new ones come: gradients come last (SIG-013). */
static uint32_t count_before(const exg_signature *signature)
{
    uint32_t before = signature->output_count;

    while (before > 0 &&
           (signature->outputs[before - 1].kind == EXG_OUTPUT_GRADIENT_TO_PARAMETER ||
            signature->outputs[before - 1].kind == EXG_OUTPUT_GRADIENT_TO_USER_INPUT)) {
        before--;
    }
    return before;
}

static exg_status put_outputs(parter *p, const exg_value_id *values, uint32_t count)
{
    exg_graph *graph = p->program->graph;
    exg_signature *signature = &p->program->signature;
    const uint32_t own = p->options.keeps ? graph->output_count : 0;
    const uint32_t before = p->options.keeps ? count_before(signature) : 0;
    exg_argument *outputs = EXG_NEW_ARRAY(p->program->arena, exg_argument, own + count);
    exg_output_spec *specs = EXG_NEW_ARRAY(p->program->arena, exg_output_spec, own + count);

    if (outputs == NULL || specs == NULL) {
        return EXG_OUT_OF_MEMORY(p->err);
    }
    for (uint32_t i = 0; i < own; i++) {
        outputs[i < before ? i : i + count] = graph->outputs[i];
        specs[i < before ? i : i + count] = signature->outputs[i];
    }
    for (uint32_t i = 0; i < count; i++) {
        exg_value_id id = p->said[values[i]];

        outputs[before + i] = (exg_argument){.kind = EXG_ARGUMENT_TENSOR, .as_tensor = id};
        specs[before + i] =
            (exg_output_spec){.kind = EXG_OUTPUT_USER,
                              .arg = {.kind = EXG_ARGUMENT_TENSOR, .name = graph->values[id].name}};
    }
    graph->outputs = outputs;
    signature->outputs = specs;
    graph->output_count = signature->output_count = own + count;
    graph->is_single_tensor_return = false;
    return EXG_OK;
}

/* How it is called: inputs as before, the results a tuple or one. */
static exg_status describe_call(parter *p)
{
    exg_program *program = p->program;
    exg_module_call *before = NULL;

    for (uint32_t i = 0; i < program->module_call_count; i++) {
        exg_module_call *call = &program->module_calls[i];

        before = call->fqn != NULL && call->fqn[0] == '\0' && call->has_signature ? call : before;
    }
    if (before == NULL) {
        program->module_call_count = 0;
        return EXG_OK;
    }
    EXG_TRY(exg_program_make_call(program, p->err));
    if (p->is_called_otherwise) {
        return EXG_OK;
    }
    program->module_calls[0].in_spec = before->in_spec;
    program->module_calls[0].forward_arg_names = before->forward_arg_names;
    program->module_calls[0].forward_arg_name_count = before->forward_arg_name_count;
    return EXG_OK;
}

/* ---- all of it --------------------------------------------------------------------------------
 */

static exg_status check_value(const exg_graph *graph, exg_value_id id, exg_error *err)
{
    return id < graph->value_count && graph->values[id].tensor != NULL
               ? EXG_OK
               : EXG_FAIL(err, USAGE, "BLD-002", "the graph has no tensor %u", id);
}

static exg_status begin(parter *p, const exg_value_id *values, uint32_t count)
{
    exg_graph *graph = p->program->graph;
    exg_arena *arena = p->program->arena;

    exg_map_init(&p->names, arena);
    p->old_count = graph->value_count;
    p->value_capacity = graph->value_count; /* it moves before it grows */
    p->given = EXG_NEW_ARRAY(arena, bool, graph->value_count);
    p->constant = EXG_NEW_ARRAY(arena, bool, graph->value_count);
    p->said = EXG_NEW_ARRAY(arena, exg_value_id, graph->value_count);
    if (p->given == NULL || p->constant == NULL || p->said == NULL) {
        return EXG_OUT_OF_MEMORY(p->err);
    }
    for (uint32_t v = 0; v < graph->value_count; v++) {
        p->said[v] = v;
        if (!exg_map_put(&p->names, graph->values[v].name, v)) {
            return EXG_OUT_OF_MEMORY(p->err);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        EXG_TRY(check_value(graph, values[i], p->err));
        p->given[values[i]] = true;
    }
    for (uint32_t i = 0; i < p->options.constant_count; i++) {
        EXG_TRY(check_value(graph, p->options.constants[i], p->err));
        p->constant[p->options.constants[i]] = true;
    }
    return EXG_OK;
}

/* *n graphs further, or as many as there are. */
static exg_graph *walk(const exg_graph *graph, uint32_t *n)
{
    exg_graph *found = NULL;

    for (uint32_t k = 0; found == NULL && k < graph->node_count; k++) {
        const exg_node *node = &graph->nodes[k];

        for (uint32_t i = 0; found == NULL && i < node->input_count; i++) {
            if (node->inputs[i].arg.kind == EXG_ARGUMENT_GRAPH) {
                exg_graph *within = node->inputs[i].arg.as_graph->graph;

                found = --*n == 0 ? within : walk(within, n);
            }
        }
    }
    return found;
}

exg_graph *exg_graph_within(const exg_graph *graph, uint32_t n)
{
    return graph == NULL || n == 0 ? NULL : walk(graph, &n);
}

/* Constants in a graph that a node runs. */
static exg_status make_within(const parter *p)
{
    exg_program view = *p->program; /* of which only the graph is another */
    parter q = {.operators = p->operators, .program = &view, .options = p->options, .err = p->err};
    bool *live;

    view.graph = exg_graph_within(p->program->graph, p->options.graph);
    if (view.graph == NULL) {
        return EXG_FAIL(p->err, USAGE, "BLD-002", "the program has no graph %u", p->options.graph);
    }
    EXG_TRY(begin(&q, NULL, 0));
    EXG_TRY(make_nodes(&q));
    EXG_TRY(drop_nodes(&q, &live));
    return drop_values(&q);
}

static exg_status make(parter *p, const exg_value_id *values, uint32_t count)
{
    if (p->options.graph > 0) {
        return make_within(p);
    }
    EXG_TRY(begin(p, values, count));
    EXG_TRY(make_nodes(p));
    EXG_TRY(put_outputs(p, values, count));
    if (!p->options.keeps) {
        EXG_TRY(drop_unneeded(p));
        EXG_TRY(drop_values(p));
        EXG_TRY(p->is_called_otherwise ? drop_ranges(p) : EXG_OK);
    }
    return describe_call(p);
}

exg_status exg_program_part(const exg_program *program, const exg_operators *operators,
                            const exg_value_id *values, uint32_t count,
                            const exg_part_options *options, exg_program **out, exg_error *err)
{
    EXG_REQUIRE(err, program, operators, EXG_IF_ANY(count, values), out);
    parter p = {.operators = operators, .err = err};
    exg_status status;

    EXG_TRY(EXG_READ_OPTIONS(exg_part_options, &p.options, options, err));
    EXG_TRY(exg_program_copy(program, &p.program, err));
    status = make(&p, values, count);
    if (status != EXG_OK) {
        exg_program_destroy(p.program);
        return status;
    }
    *out = p.program;
    return EXG_OK;
}
