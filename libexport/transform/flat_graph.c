/* flat_graph.c - what is known of a graph before it runs: who reads what last, and which
 * elements of tensors are read as numbers that need not be known. */
#include "libexport/transform/flat_graph.h"
#include "libexport/weights/storage.h"

#include <string.h>

static void needs_number(void *user, exg_value_id *id)
{
    exg_flat_graph *flat = user;

    if (*id != EXG_NO_VALUE) {
        flat->scalar_reads[*id] = false;
    }
}

static bool is_item(const exg_operator *op)
{
    return op != NULL &&
           (op->id == EXG_OP_item_default || op->id == EXG_OP__local_scalar_dense_default);
}

/* The parameter that argument `i` is given for; NULL: there is none. */
static const exg_schema_argument *parameter_of(const exg_operator *op, const exg_node *node,
                                               uint32_t i)
{
    const char *name = node->inputs[i].name;
    const exg_function_schema *schema = op->schema;

    for (uint32_t p = 0; p < schema->argument_count; p++) {
        if (name[0] == '\0' ? p == i : strcmp(schema->arguments[p].name, name) == 0) {
            return &schema->arguments[p];
        }
    }
    return NULL;
}

static bool takes_tensor(const exg_operator *op, const exg_node *node, uint32_t i)
{
    const exg_schema_argument *parameter = parameter_of(op, node, i);

    return parameter != NULL && parameter->type.base == EXG_TYPE_TENSOR && !parameter->type.is_list;
}

/* An element is a slot when all that reads it are operators that take a tensor there. */
static void find_scalar_reads(exg_flat_graph *c)
{
    exg_graph *graph = &c->graph;

    for (uint32_t n = 0; n < graph->node_count; n++) {
        const exg_node *node = &graph->nodes[n];

        if (is_item(exg_operators_find(c->operators, node->target)) && node->output_count == 1 &&
            node->outputs[0].kind != EXG_ARGUMENT_NONE) {
            c->scalar_reads[node->outputs[0].as_sym.value] = true;
        }
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const exg_node *node = &graph->nodes[n];
        const exg_operator *op = exg_operators_find(c->operators, node->target);

        for (uint32_t i = 0; i < node->input_count; i++) {
            bool one = node->inputs[i].arg.kind == EXG_ARGUMENT_SYM_INT ||
                       node->inputs[i].arg.kind == EXG_ARGUMENT_SYM_FLOAT ||
                       node->inputs[i].arg.kind == EXG_ARGUMENT_SYM_BOOL;

            if (!one || op == NULL || op->symbolic != NULL || !takes_tensor(op, node, i)) {
                exg_argument_visit_values(&node->inputs[i].arg, needs_number, c);
            }
        }
    }
    for (uint32_t o = 0; o < graph->output_count; o++) {
        exg_argument_visit_values(&graph->outputs[o], needs_number, c);
    }
}

/* What is in one storage with a written weight may be written with it. */
static exg_status find_written_beside(exg_flat_graph *c, exg_arena *arena, exg_error *err)
{
    uint32_t storages = c->flat.weights->storage_count;
    bool *written = EXG_NEW_ARRAY(arena, bool, storages);
    bool shared = false;

    EXG_TRY(exg_weights_share(c->flat.weights, arena, &shared, err));
    if (written == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t pass = 0; shared && pass < 2; pass++) {
        for (uint32_t i = 0; i < c->graph.input_count; i++) {
            const exg_weight *weight = exg_input_weight(&c->flat, i);

            if (weight != NULL && weight->storage < storages && pass == 0) {
                written[weight->storage] = written[weight->storage] || c->written[i];
            } else if (weight != NULL && weight->storage < storages) {
                c->written[i] = c->written[i] || written[weight->storage];
            }
        }
    }
    return EXG_OK;
}

static void mark(void *user, exg_value_id *id)
{
    exg_flat_graph *c = user;

    if (*id != EXG_NO_VALUE) {
        c->is_written[c->bases[*id]] = true;
    }
}

/* What the schema says is written. */
static void mark_written(exg_flat_graph *c, const exg_operator *op, const exg_node *node)
{
    for (uint32_t i = 0; op->schema->is_mutable && i < node->input_count; i++) {
        const exg_schema_argument *parameter = parameter_of(op, node, i);

        if (parameter != NULL && parameter->is_write) {
            exg_argument_visit_values(&node->inputs[i].arg, mark, c);
        }
    }
}

typedef struct based {
    exg_flat_graph *graph;
    exg_value_id base;
} based;

static void set_base(void *user, exg_value_id *id)
{
    based *b = user;

    if (*id != EXG_NO_VALUE) {
        b->graph->bases[*id] = b->base;
    }
}

/* What a node writes, through views too. */
static void find_written_by(exg_flat_graph *c, const exg_node *node)
{
    const exg_operator *op = exg_operators_find(c->operators, node->target);
    const exg_argument *self = node->input_count == 0 ? NULL : &node->inputs[0].arg;
    based views = {.graph = c};

    if (op == NULL) {
        return;
    }
    mark_written(c, op, node);
    if (self == NULL || self->kind != EXG_ARGUMENT_TENSOR) {
        return;
    }
    views.base = c->bases[self->as_tensor];
    if (op->schema->is_mutable && op->registered == NULL) {
        c->is_written[views.base] = true;
    }
    if (op->schema->return_count > 0 && op->schema->returns[0].alias != 0 &&
        node->output_count > 0) {
        exg_argument_visit_values(&node->outputs[0], set_base, &views);
    }
}

static exg_status find_written(exg_flat_graph *c, exg_arena *arena, exg_error *err)
{
    const exg_graph *graph = &c->graph;

    c->bases = EXG_NEW_ARRAY(arena, exg_value_id, graph->value_count);
    c->is_written = EXG_NEW_ARRAY(arena, bool, graph->value_count);
    c->written = EXG_NEW_ARRAY(arena, bool, graph->input_count);
    if (c->bases == NULL || c->is_written == NULL || c->written == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t v = 0; v < graph->value_count; v++) {
        c->bases[v] = v;
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        find_written_by(c, &graph->nodes[n]);
    }
    for (uint32_t i = 0; i < graph->input_count; i++) {
        c->written[i] = graph->inputs[i].kind == EXG_ARGUMENT_TENSOR &&
                        c->is_written[graph->inputs[i].as_tensor];
    }
    return find_written_beside(c, arena, err);
}

static exg_status describe(exg_flat_graph *c, exg_arena *arena, exg_error *err)
{
    exg_graph *graph = &c->graph;

    c->flat.graph = graph;
    c->reads.last_use = EXG_NEW_ARRAY(arena, uint32_t, graph->value_count);
    c->own = EXG_NEW_ARRAY(arena, bool, graph->value_count);
    c->scalar_reads = EXG_NEW_ARRAY(arena, bool, graph->value_count);
    if (c->reads.last_use == NULL || c->own == NULL || c->scalar_reads == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < graph->input_count; i++) {
        if (graph->inputs[i].kind == EXG_ARGUMENT_TENSOR) {
            c->own[graph->inputs[i].as_tensor] = true;
        }
    }
    exg_find_last_uses(&c->reads, graph);
    find_scalar_reads(c);
    return EXG_OK;
}

exg_status exg_flat_graph_create(const exg_program *program, const exg_operators *operators,
                                 exg_arena *arena, exg_flat_graph **flat, exg_error *err)
{
    exg_flat_graph *c = EXG_NEW(arena, exg_flat_graph);

    *flat = c;
    if (c == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    c->operators = operators;
    c->reads.operators = operators;
    c->reads.is_functional = !exg_program_has_dialect(program, "TRAINING");
    c->flat = *program;
    EXG_TRY(exg_inline(program->graph, arena, &c->graph, err));
    EXG_TRY(find_written(c, arena, err));
    return describe(c, arena, err);
}

exg_status exg_flat_graph_branch(const exg_flat_graph *from, uint32_t at, bool taken,
                                 exg_arena *arena, exg_flat_graph **flat, exg_error *err)
{
    exg_flat_graph *c = exg_arena_memdup(arena, from, 1, sizeof(*from));

    *flat = c;
    if (c == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY(exg_inline_branch(&from->graph, at, taken, arena, &c->graph, err));
    return describe(c, arena, err);
}
