/* kept_nodes.c - takes out of a program what only a run can know. */
#include "libexport/transform/kept_nodes.h"
#include "libexport/base/map.h"
#include "libexport/base/prefix.h"
#include "libexport/operators/aten.h"
#include "libexport/operators/registered.h"
#include "libexport/program/expression.h"
#include "libexport/program/metadata.h"
#include "libexport/transform/flat_graph.h"
#include "libexport/transform/origin.h"

#include <exg/module.h>
#include <exg/operator_id_new.h>
#include <stdlib.h>
#include <string.h>

/* In the map of symbols: one that was made here. */
#define OWN_SYMBOL 1

typedef struct taker {
    exg_kept_nodes *kept;
    const exg_flat_graph *flat;
    exg_arena *arena;
    const exg_operators *operators, *libraries;
    bool writes;       /* some node may write what it is given */
    const bool *whole; /* by node: it stays as it is; NULL: none */
    exg_map symbols;   /* that values have so far */
    bool met_new, met_own;
    uint32_t made_count; /* of symbols that the file has not */
    exg_node *left, *nodes;
    exg_input_spec *input_specs;
    exg_output_spec *output_specs;
    uint32_t left_capacity, node_capacity, value_capacity;
    uint32_t input_capacity, output_capacity, input_spec_capacity, output_spec_capacity;
    exg_node *node; /* that is taken out */
    exg_status status;
    exg_error *err;
} taker;

/* ---- which ---------------------------------------------------------------------------------- */

static void note_number(void *user, exg_value_id *id)
{
    *(bool *)user = *(bool *)user || *id != EXG_NO_VALUE;
}

static bool reads_number(const exg_node *node)
{
    bool found = false;

    for (uint32_t i = 0; i < node->input_count; i++) {
        exg_argument_visit_values(&node->inputs[i].arg, note_number, &found);
    }
    return found;
}

static void note_symbol(void *user, const char *name, size_t length)
{
    taker *t = user;
    const char *symbol = exg_arena_strndup(t->arena, name, length);
    uint32_t known = symbol == NULL ? 0 : exg_map_find(&t->symbols, symbol);

    t->met_own = t->met_own || known == OWN_SYMBOL;
    if (known == EXG_MAP_NONE) {
        t->met_new = true;
        (void)exg_map_put(&t->symbols, symbol, 0); /* no memory is seen at the next request */
    }
}

/* Notes the symbols of a value: were any new? */
static void note_value(void *user, exg_value_id *id)
{
    taker *t = user;
    const exg_value *value = *id == EXG_NO_VALUE ? NULL : &t->kept->graph.values[*id];
    const exg_tensor_meta *meta = value == NULL ? NULL : value->tensor;
    const char *text = value == NULL ? NULL : exg_value_expression(value);
    exg_error unread;

    if (text != NULL) {
        exg_ignore(exg_symint_visit(text, note_symbol, t, &unread));
    }
    for (uint32_t d = 0; meta != NULL && d < meta->rank; d++) {
        if (meta->sizes[d].expr != NULL) {
            exg_ignore(exg_symint_visit(meta->sizes[d].expr, note_symbol, t, &unread));
        }
    }
}

/* Does it read a number that the program does not name? */
static bool reads_own(taker *t, const exg_node *node)
{
    t->met_own = false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        exg_argument input = node->inputs[i].arg;

        exg_argument_visit_values(&input, note_value, t);
    }
    return t->met_own;
}

/* Has one of its results a size that no value before it has? */
static bool gives_symbols(taker *t, const exg_node *node)
{
    t->met_new = false;
    for (uint32_t o = 0; o < node->output_count; o++) {
        exg_argument output = node->outputs[o];

        exg_argument_visit_values(&output, note_value, t);
    }
    return t->met_new;
}

/* Has a result a symbol that none of the node's operands has? */
static bool adds_symbols(taker *t, const exg_node *node)
{
    taker own = {.kept = t->kept, .arena = t->arena};

    exg_map_init(&own.symbols, t->arena);
    (void)reads_own(&own, node);
    return gives_symbols(&own, node);
}

/* Is the size of its results, or of what it works on, in the data? */
static bool is_sized(taker *t, const exg_operator *op, const exg_node *node)
{
    const exg_operator *whole =
        op->functional == EXG_OP_NONE ? op : exg_operators_get(t->operators, op->functional);
    const exg_argument *indices = node->input_count > 1 ? &node->inputs[1].arg : NULL;
    bool is_list = indices != NULL && (indices->kind == EXG_ARGUMENT_TENSORS ||
                                       indices->kind == EXG_ARGUMENT_OPTIONAL_TENSORS);
    bool by_mask = false;

    for (uint32_t i = 0; is_list && i < indices->count; i++) {
        const exg_tensor_meta *meta = indices->as_tensors[i] == EXG_NO_VALUE
                                          ? NULL
                                          : t->kept->graph.values[indices->as_tensors[i]].tensor;

        by_mask = by_mask ||
                  (meta != NULL && (meta->dtype == EXG_DTYPE_B8 || meta->dtype == EXG_DTYPE_U8));
    }
    return whole->size != EXG_OP_NONE && (by_mask || adds_symbols(t, node));
}

/* Does it read a number that has to be known? */
static bool reads_element(const exg_flat_graph *flat, const exg_operator *op, const exg_node *node)
{
    exg_value_id id;

    if ((op->id != EXG_OP_item_default && op->id != EXG_OP__local_scalar_dense_default) ||
        node->output_count != 1 || node->outputs[0].kind == EXG_ARGUMENT_NONE) {
        return false;
    }
    id = node->outputs[0].as_sym.value;
    return id != EXG_NO_VALUE && flat->reads.last_use[id] != 0 && !flat->scalar_reads[id];
}

/* An operator that is not PyTorch's, which writes nothing: a library says so, or the program. */
static bool is_unknown(const taker *t, const exg_node *node)
{
    const exg_operator *own = exg_operators_find(t->libraries, node->target);

    if (own != NULL && own->registered != NULL && !own->schema->is_mutable) {
        return own->registered->definition.effect || !exg_node_is_idle(&t->flat->reads, node);
    }
    return t->flat->reads.is_functional && !exg_node_is_idle(&t->flat->reads, node) &&
           exg_behind(node->target, "torch.ops.higher_order.") == NULL &&
           exg_behind(node->target, "torch.ops.") != NULL;
}

/* A collective of a process group: whom it meets only a mesh says. */
static bool meets_others(const exg_operator *op)
{
    return strcmp(op->schema->name_space, "_c10d_functional") == 0 ||
           strcmp(op->schema->name_space, "c10d_functional") == 0;
}

static bool is_kept(taker *t, const exg_node *node)
{
    const exg_operator *op = exg_operators_find(t->operators, node->target);
    bool is_own = reads_own(t, node);
    bool is_new = gives_symbols(t, node) || is_own;

    switch (exg_higher_order_of(node->target)) {
    case EXG_HIGHER_ORDER_COND:
    case EXG_HIGHER_ORDER_WHILE_LOOP:
    case EXG_HIGHER_ORDER_SCAN:
    case EXG_HIGHER_ORDER_MAP:
        return true;
    default:
        break;
    }
    if (op == NULL) {
        return is_unknown(t, node);
    }
    return meets_others(op) || reads_element(t->flat, op, node) ||
           (op->symbolic != NULL && op->schema->return_count == 0 && reads_number(node)) ||
           (op->symbolic == NULL && (is_new || is_sized(t, op, node)));
}

static bool may_write(const taker *t)
{
    for (uint32_t n = 0; n < t->flat->graph.node_count; n++) {
        const exg_operator *op = exg_operators_find(t->operators, t->flat->graph.nodes[n].target);

        if (op != NULL && op->schema->is_mutable) {
            return true;
        }
    }
    return false;
}

/* ---- inputs and outputs --------------------------------------------------------------------- */

static exg_status add_left(taker *t, const exg_node *node)
{
    if (!exg_arena_reserve(t->arena, &t->left, t->kept->graph.node_count, &t->left_capacity,
                           sizeof(*t->left))) {
        return EXG_OUT_OF_MEMORY(t->err);
    }
    t->left[t->kept->graph.node_count++] = *node;
    return EXG_OK;
}

/* A copy of `id`, made by a node of its own: what is written later is not seen in it. */
static exg_status add_copy(taker *t, exg_value_id from, exg_value_id to)
{
    const exg_operator *clone = exg_operators_get(t->operators, EXG_OP_clone_default);
    exg_named_argument *input = EXG_NEW(t->arena, exg_named_argument);
    exg_argument *output = EXG_NEW(t->arena, exg_argument);

    if (input == NULL || output == NULL) {
        return EXG_OUT_OF_MEMORY(t->err);
    }
    *input = (exg_named_argument){.name = "self",
                                  .arg = {.kind = EXG_ARGUMENT_TENSOR, .as_tensor = from},
                                  .kind = EXG_KIND_POSITIONAL};
    *output = (exg_argument){.kind = EXG_ARGUMENT_TENSOR, .as_tensor = to};
    return add_left(t, &(exg_node){.target = clone->target,
                                   .name = t->kept->graph.values[to].name,
                                   .inputs = input,
                                   .input_count = 1,
                                   .outputs = output,
                                   .output_count = 1,
                                   .is_hop_single_tensor_return = EXG_UNSET});
}

/* One more value like `id`, of another name. */
static exg_status add_value(taker *t, exg_value_id id, exg_value_id *made)
{
    exg_graph *graph = &t->kept->graph;
    exg_value value = graph->values[id];
    uint32_t outputs = t->value_capacity;

    value.name = exg_arena_printf(t->arena, "%s_kept_%u", value.name, graph->value_count);
    if (value.name == NULL ||
        !exg_arena_reserve(t->arena, &t->kept->outputs, graph->value_count, &outputs,
                           sizeof(*t->kept->outputs)) ||
        !exg_arena_reserve(t->arena, &graph->values, graph->value_count, &t->value_capacity,
                           sizeof(*graph->values))) {
        return EXG_OUT_OF_MEMORY(t->err);
    }
    t->kept->outputs[graph->value_count] = EXG_NO_VALUE;
    *made = graph->value_count++;
    graph->values[*made] = value;
    return EXG_OK;
}

static bool is_input(const exg_graph *graph, exg_value_id id)
{
    for (uint32_t i = 0; i < graph->input_count; i++) {
        if (graph->inputs[i].kind == EXG_ARGUMENT_TENSOR && graph->inputs[i].as_tensor == id) {
            return true;
        }
    }
    return false;
}

static exg_status add_output(taker *t, exg_value_id id)
{
    exg_graph *graph = &t->kept->graph;
    exg_output_spec spec = {.kind = EXG_OUTPUT_USER,
                            .arg = {.kind = EXG_ARGUMENT_TENSOR, .name = graph->values[id].name}};

    if (t->kept->outputs[id] != EXG_NO_VALUE) {
        return EXG_OK;
    }
    if (!exg_arena_reserve(t->arena, &graph->outputs, graph->output_count, &t->output_capacity,
                           sizeof(*graph->outputs)) ||
        !exg_arena_reserve(t->arena, &t->output_specs, graph->output_count,
                           &t->output_spec_capacity, sizeof(*t->output_specs))) {
        return EXG_OUT_OF_MEMORY(t->err);
    }
    t->kept->outputs[id] = graph->output_count;
    t->output_specs[graph->output_count] = spec;
    graph->outputs[graph->output_count++] =
        (exg_argument){.kind = EXG_ARGUMENT_TENSOR, .as_tensor = id};
    return EXG_OK;
}

static exg_status add_input(taker *t, const exg_argument *input)
{
    exg_graph *graph = &t->kept->graph;
    exg_input_spec spec = {
        .kind = EXG_INPUT_USER, .arg = {.kind = input->kind}, .persistent = EXG_UNSET};

    if (!exg_arena_reserve(t->arena, &graph->inputs, graph->input_count, &t->input_capacity,
                           sizeof(*graph->inputs)) ||
        !exg_arena_reserve(t->arena, &t->input_specs, graph->input_count, &t->input_spec_capacity,
                           sizeof(*t->input_specs))) {
        return EXG_OUT_OF_MEMORY(t->err);
    }
    spec.arg.name =
        graph->values[input->kind == EXG_ARGUMENT_TENSOR ? input->as_tensor : input->as_sym.value]
            .name;
    t->input_specs[graph->input_count] = spec;
    graph->inputs[graph->input_count++] = *input;
    return EXG_OK;
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static void take_operand(void *user, exg_value_id *id)
{
    taker *t = user;
    exg_value_id copy = *id;

    if (t->status != EXG_OK || *id == EXG_NO_VALUE || t->kept->graph.values[*id].tensor == NULL) {
        return;
    }
    if (t->writes) {
        t->status = add_value(t, *id, &copy);
        t->status = t->status == EXG_OK ? add_copy(t, *id, copy) : t->status;
    }
    if (t->status == EXG_OK && (t->writes || !is_input(&t->kept->graph, copy))) {
        t->status = add_output(t, copy);
    }
    *id = copy;
}

/* A result as an input; where something may be written, of a value that is copied to its own. */
static exg_status take_result(taker *t, exg_value_id *id)
{
    exg_value_id given = *id;

    if (*id == EXG_NO_VALUE) {
        return EXG_OK;
    }
    if (t->kept->graph.values[*id].tensor == NULL) {
        return EXG_FAIL(t->err, UNSUPPORTED, "TRF-004", "'%s' of '%s' is no tensor",
                        t->kept->graph.values[*id].name, t->node->target);
    }
    if (t->writes) {
        EXG_TRY(add_value(t, *id, &given));
    }
    EXG_TRY(add_input(t, &(exg_argument){.kind = EXG_ARGUMENT_TENSOR, .as_tensor = given}));
    EXG_TRY(given == *id ? EXG_OK : add_copy(t, given, *id));
    *id = given;
    return EXG_OK;
}

/* A symbol that the program has not. */
static exg_status name_number(taker *t, const char *letters, const char **name)
{
    do {
        *name = exg_arena_printf(t->arena, "%s%u", letters, 1000 + t->made_count++);
    } while (*name != NULL && exg_map_find(&t->symbols, *name) != EXG_MAP_NONE);
    return *name == NULL || !exg_map_put(&t->symbols, *name, OWN_SYMBOL) ? EXG_OUT_OF_MEMORY(t->err)
                                                                         : EXG_OK;
}

/* A number; one that the program does not name gets a symbol. */
static exg_status take_number(taker *t, const exg_argument *output)
{
    exg_value *value = &t->kept->graph.values[output->as_sym.value];
    const char *name;

    if (output->kind == EXG_ARGUMENT_SYM_INT && value->sym_int == NULL) {
        EXG_TRY(name_number(t, "u", &name));
        value->sym_int = EXG_NEW(t->arena, exg_sym_int);
        if (value->sym_int != NULL) {
            value->sym_int->expr = exg_arena_printf(t->arena, "Symbol('%s', integer=True)", name);
        }
    } else if (output->kind == EXG_ARGUMENT_SYM_FLOAT && value->sym_float == NULL) {
        EXG_TRY(name_number(t, EXG_REAL_SYMBOL, &name));
        value->sym_float = EXG_NEW(t->arena, exg_sym_float);
        if (value->sym_float != NULL) {
            value->sym_float->expr = exg_arena_printf(t->arena, "Symbol('%s')", name);
        }
    }
    return exg_arena_is_dry(t->arena) ? EXG_OUT_OF_MEMORY(t->err) : add_input(t, output);
}

static exg_status take_results(taker *t, exg_argument *output)
{
    switch (output->kind) {
    case EXG_ARGUMENT_NONE:
        return EXG_OK;
    case EXG_ARGUMENT_TENSOR:
        return take_result(t, &output->as_tensor);
    case EXG_ARGUMENT_TENSORS:
        for (uint32_t i = 0; i < output->count; i++) {
            EXG_TRY(take_result(t, &output->as_tensors[i]));
        }
        return EXG_OK;
    case EXG_ARGUMENT_SYM_INT:
    case EXG_ARGUMENT_SYM_FLOAT:
        return output->as_sym.value == EXG_NO_VALUE ? EXG_OK : take_number(t, output);
    default:
        return EXG_FAIL(t->err, UNSUPPORTED, "TRF-004", "a truth value is read from the data");
    }
}

/* A kept node works on copies, which others that write do not see. */
static bool is_written_view(const exg_flat_graph *flat, const exg_operator *op,
                            const exg_node *node)
{
    const exg_argument *self = node->input_count == 0 ? NULL : &node->inputs[0].arg;

    return op->schema->return_count > 0 && op->schema->returns[0].alias != 0 && self != NULL &&
           self->kind == EXG_ARGUMENT_TENSOR && flat->is_written[flat->bases[self->as_tensor]];
}

static exg_status take(taker *t, const exg_node *node)
{
    const exg_operator *op = exg_operators_find(t->operators, node->target);

    if (!exg_arena_reserve(t->arena, &t->nodes, t->kept->node_count, &t->node_capacity,
                           sizeof(*t->nodes))) {
        return EXG_OUT_OF_MEMORY(t->err);
    }
    if (op != NULL && is_written_view(t->flat, op, node)) {
        return EXG_FAIL(t->err, UNSUPPORTED, "TRF-004",
                        "a view of a size in the data, which is written in place");
    }
    t->node = &t->nodes[t->kept->node_count++];
    *t->node = *node;
    t->node->inputs =
        exg_arena_memdup(t->arena, node->inputs, node->input_count, sizeof(*node->inputs));
    t->node->outputs =
        exg_arena_memdup(t->arena, node->outputs, node->output_count, sizeof(*node->outputs));
    if (t->node->inputs == NULL || t->node->outputs == NULL) {
        return EXG_OUT_OF_MEMORY(t->err);
    }
    t->status = EXG_OK;
    for (uint32_t i = 0; i < node->input_count; i++) {
        exg_argument *arg = &t->node->inputs[i].arg;

        if (arg->kind != EXG_ARGUMENT_GRAPH) {
            EXG_TRY(exg_argument_copy(t->arena, arg, t->err));
            exg_argument_visit_values(arg, take_operand, t);
        }
    }
    EXG_TRY(t->status);
    for (uint32_t o = 0; o < node->output_count; o++) {
        EXG_TRY(exg_argument_copy(t->arena, &t->node->outputs[o], t->err));
        EXG_TRY(take_results(t, &t->node->outputs[o]));
    }
    return EXG_OK;
}

/* index_put_ as index_put, and a copy of what that gives to where it was to be written. */
static exg_status take_put(taker *t, const exg_node *node)
{
    const exg_operator *copy = exg_operators_get(t->operators, EXG_OP_copy__default);
    exg_named_argument *inputs = EXG_NEW_ARRAY(t->arena, exg_named_argument, 2);
    exg_argument *output = exg_arena_memdup(t->arena, node->outputs, 1, sizeof(*node->outputs));
    exg_node put = *node;
    exg_value_id made;

    if (inputs == NULL || output == NULL) {
        return EXG_OUT_OF_MEMORY(t->err);
    }
    put.target = exg_operators_get(t->operators, EXG_OP_index_put_default)->target;
    EXG_TRY(add_value(t, node->outputs[0].as_tensor, &made));
    output->as_tensor = made;
    put.outputs = output;
    EXG_TRY(take(t, &put));
    inputs[0] = node->inputs[0];
    inputs[1] = (exg_named_argument){.name = "src",
                                     .kind = EXG_KIND_POSITIONAL,
                                     .arg = {.kind = EXG_ARGUMENT_TENSOR, .as_tensor = made}};
    return add_left(t, &(exg_node){.target = copy->target,
                                   .name = node->name,
                                   .inputs = inputs,
                                   .input_count = 2,
                                   .outputs = node->outputs,
                                   .output_count = 1,
                                   .metadata = node->metadata,
                                   .is_hop_single_tensor_return = EXG_UNSET});
}

static exg_status take_one(taker *t, const exg_node *node)
{
    const exg_operator *op = exg_operators_find(t->operators, node->target);
    bool writes = op != NULL && op->schema->is_mutable;

    if (!writes) {
        return take(t, node);
    }
    if (op->id == EXG_OP_index_put__default && node->output_count == 1 &&
        node->outputs[0].kind == EXG_ARGUMENT_TENSOR) {
        return take_put(t, node);
    }
    return EXG_FAIL(t->err, UNSUPPORTED, "TRF-004", "%s writes what only a run can know",
                    node->target);
}

/* ---- sources --------------------------------------------------------------------------------- */

#define SOURCE "exg.source" /* among the metadata of a node */

static exg_status add_source(taker *t, uint32_t number, const exg_node *node)
{
    const char *text = exg_arena_printf(t->arena, "%u", number);
    exg_node own = *node;

    if (text == NULL) {
        return EXG_OUT_OF_MEMORY(t->err);
    }
    EXG_TRY(exg_node_add_metadata(t->arena, &own, SOURCE, text, t->err));
    return add_left(t, &own);
}

uint32_t exg_node_source(const exg_node *node)
{
    const char *text = exg_node_metadata(node, SOURCE);

    return text == NULL ? UINT32_MAX : (uint32_t)strtoul(text, NULL, 10);
}

exg_status exg_node_forget_source(exg_arena *arena, exg_node *node, exg_error *err)
{
    return exg_node_drop_metadata(arena, node, SOURCE, err);
}

typedef struct opened {
    const exg_graph *graph;
    bool is_open;
} opened;

static void see_size(void *user, exg_value_id *id)
{
    opened *o = user;
    const exg_value *value = *id == EXG_NO_VALUE ? NULL : &o->graph->values[*id];
    const exg_tensor_meta *meta = value == NULL ? NULL : value->tensor;

    o->is_open = o->is_open || (value != NULL && exg_value_expression(value) != NULL);
    for (uint32_t d = 0; meta != NULL && d < meta->rank; d++) {
        o->is_open = o->is_open || meta->sizes[d].expr != NULL;
    }
}

static bool is_open(const exg_graph *graph, const exg_node *node)
{
    opened o = {.graph = graph};

    for (uint32_t i = 0; i < node->input_count; i++) {
        exg_argument arg = node->inputs[i].arg;

        exg_argument_visit_values(&arg, see_size, &o);
    }
    return o.is_open;
}

/* An operator of PyTorch's that gives tensors and writes nothing. */
static bool may_be_whole(const exg_operators *operators, const exg_node *node)
{
    const exg_operator *op = exg_operators_find(operators, node->target);
    bool may = op != NULL && op->symbolic == NULL && !op->schema->is_mutable &&
               !exg_operator_is_own(op) && node->output_count > 0;

    for (uint32_t o = 0; o < node->output_count; o++) {
        may = may && (node->outputs[o].kind == EXG_ARGUMENT_TENSOR ||
                      node->outputs[o].kind == EXG_ARGUMENT_TENSORS);
    }
    return may;
}

bool exg_kept_nodes_mark(const exg_program *program, const exg_operators *operators,
                         uint32_t source, exg_arena *arena, bool *whole)
{
    exg_flat_graph *flat;
    exg_error unread;
    const char *target;

    if (source == UINT32_MAX || whole[source] ||
        exg_flat_graph_create(program, operators, arena, &flat, &unread) != EXG_OK ||
        source >= flat->graph.node_count || !may_be_whole(operators, &flat->graph.nodes[source])) {
        return false;
    }
    target = flat->graph.nodes[source].target;
    for (uint32_t n = 0; n < flat->graph.node_count; n++) {
        const exg_node *node = &flat->graph.nodes[n];

        whole[n] = whole[n] || n == source ||
                   (strcmp(node->target, target) == 0 && is_open(&flat->graph, node) &&
                    may_be_whole(operators, node));
    }
    return true;
}

static exg_status take_all(taker *t)
{
    for (uint32_t i = 0; i < t->kept->graph.input_count; i++) {
        exg_argument input = t->kept->graph.inputs[i];

        exg_argument_visit_values(&input, note_value, t);
    }
    for (uint32_t n = 0; n < t->flat->graph.node_count; n++) {
        const exg_node *node = &t->flat->graph.nodes[n];
        bool kept = is_kept(t, node) || (t->whole != NULL && t->whole[n]);
        exg_status status = kept ? take_one(t, node) : add_source(t, n, node);

        if (status != EXG_OK) {
            return exg_error_at_node(t->err, status, node);
        }
    }
    return EXG_OK;
}

exg_status exg_kept_nodes_take(const exg_program *program, const exg_operators *operators,
                               const exg_operators *libraries, const bool *whole, exg_arena *arena,
                               exg_kept_nodes **kept, exg_error *err)
{
    exg_kept_nodes *k = EXG_NEW(arena, exg_kept_nodes);
    taker t = {.kept = k,
               .arena = arena,
               .operators = operators,
               .libraries = libraries,
               .whole = whole,
               .err = err};
    exg_flat_graph *flat;

    *kept = k;
    exg_map_init(&t.symbols, arena);
    if (k == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY(exg_flat_graph_create(program, operators, arena, &flat, err));
    t.flat = flat;
    k->graph = flat->graph;
    k->own_input_count = k->graph.input_count;
    k->own_output_count = k->graph.output_count;
    k->source_count = flat->graph.node_count;
    k->outputs = EXG_NEW_ARRAY(arena, uint32_t, k->graph.value_count);
    if (k->outputs == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t v = 0; v < k->graph.value_count; v++) {
        k->outputs[v] = EXG_NO_VALUE;
    }
    k->graph.node_count = 0;
    t.value_capacity = k->graph.value_count; /* they move before they grow, and so the others */
    t.input_capacity = t.input_spec_capacity = k->graph.input_count;
    t.output_capacity = t.output_spec_capacity = k->graph.output_count;
    t.input_specs = program->signature.inputs;
    t.output_specs = program->signature.outputs;
    t.writes = !t.flat->reads.is_functional && may_write(&t);
    EXG_TRY(take_all(&t));
    k->graph.nodes = t.left;
    k->nodes = t.nodes;
    k->program = *program;
    k->program.graph = &k->graph;
    k->program.signature.inputs = t.input_specs;
    k->program.signature.outputs = t.output_specs;
    k->program.signature.input_count = k->graph.input_count;
    k->program.signature.output_count = k->graph.output_count;
    return EXG_OK;
}
