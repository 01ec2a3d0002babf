/* graph.c - operators that are made of others: their lowering, once, as a graph over the
 * global tensors; its nodes are dispatched in turn. */
#include "libexec/dispatch/dispatcher.h"
#include "libexport/base/arena.h"
#include "libexport/operators/lower.h"

#include <exg/emit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct exg_graph_node {
    exg_op_entry *op_entry;
    const exg_node *node;
    exg_argument *args; /* normalized */
};

/* ---- deciding --------------------------------- */

static exg_ref add_operand(const exg_call *call, exg_builder *b, uint32_t i, exg_dtype beside)
{
    const exg_object *object = call->operands[i].object;
    exg_tensor_meta meta;
    char name[16];

    if (object->kind == EXG_OBJECT_NONE) {
        return EXG_NO_REF;
    }
    if (object->kind == EXG_OBJECT_VALUE) {
        return EMIT(b, full_default, exg_arg_ints(b, NULL, 0), object->value,
                    DTYPE(exg_number_dtype(object->value.kind, beside)));
    }
    meta = exg_builder_meta(b, object->dtensor->local.dtype, object->dtensor->sizes,
                            object->dtensor->rank);
    for (uint32_t d = 0; d < meta.rank; d++) {
        meta.strides[d] = exg_sym_int_of(object->dtensor->strides[d]);
    }
    snprintf(name, sizeof(name), "x%u", i);
    return exg_builder_input(b, name, &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
}

static exg_dtype dtype_beside(const exg_call *call)
{
    for (uint32_t i = 0; i < call->operand_count; i++) {
        if (call->operands[i].object->kind == EXG_OBJECT_DTENSOR) {
            return call->operands[i].object->dtensor->local.dtype;
        }
    }
    return EXG_DTYPE_F32;
}

/* The operator itself. */
static void emit_operator(const exg_call *call, exg_builder *b, const exg_ref *refs,
                          const void *user, exg_argument *outputs)
{
    exg_argument args[EXG_ARGUMENTS_MAX];

    (void)user;
    exg_call_arguments(b, call->op->schema, call->at, call->operands, call->operand_count, refs,
                       args);
    (void)exg_emit_all(b, call->op->id, args, call->op->schema->argument_count, outputs);
}

static exg_status build(const exg_call *call, exg_entry *entry, exg_graph_emitter *emit,
                        const void *user)
{
    exg_ref refs[EXG_CALL_OPERANDS_MAX];
    exg_builder *b;

    EXG_TRY(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &entry->program, call->err));
    EXG_TRY(exg_builder_create(call->d->operators, entry->program, &b, call->err));
    exg_builder_set_lowering(b, true);
    for (uint32_t i = 0; i < call->operand_count; i++) {
        refs[i] = add_operand(call, b, i, dtype_beside(call));
    }
    emit(call, b, refs, user, entry->outputs);
    return exg_builder_finish(b, call->err);
}

typedef struct reader {
    exg_entry *entry;
    uint32_t node;
} reader;

static void note_use(void *user, exg_value_id *id)
{
    reader *r = user;

    if (*id != EXG_NO_VALUE) {
        r->entry->last_use[*id] = r->node + 1;
    }
}

exg_status exg_graph_entry_emit(const exg_call *call, exg_entry *entry, exg_graph_emitter *emit,
                                const void *user, uint32_t outputs)
{
    const exg_graph *graph;

    entry->kind = EXG_ENTRY_GRAPH;
    entry->output_count = outputs;
    entry->outputs = EXG_NEW_ARRAY(entry->arena, exg_argument, outputs + 16);
    if (entry->outputs == NULL) {
        return EXG_OUT_OF_MEMORY(call->err);
    }
    EXG_TRY(build(call, entry, emit, user));
    graph = entry->program->graph;
    entry->nodes = EXG_NEW_ARRAY(entry->arena, exg_graph_node, graph->node_count);
    entry->last_use = EXG_NEW_ARRAY(entry->arena, uint32_t, graph->value_count);
    if (entry->nodes == NULL || entry->last_use == NULL) {
        return EXG_OUT_OF_MEMORY(call->err);
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        exg_graph_node *node = &entry->nodes[n];
        const exg_operator *op = exg_operators_find(call->d->operators, graph->nodes[n].target);
        reader r = {entry, n};

        node->node = &graph->nodes[n];
        if (op == NULL || op->symbolic != NULL) {
            return EXG_FAIL(call->err, UNSUPPORTED, "OPR-003",
                            "%s needs '%s', which is not run "
                            "operator by operator",
                            call->op_entry->key, graph->nodes[n].target);
        }
        EXG_TRY(exg_op_entry_of_operator(call->d, op, &node->op_entry, call->err));
        node->args = EXG_NEW_ARRAY(entry->arena, exg_argument, op->schema->argument_count);
        if (node->args == NULL) {
            return EXG_OUT_OF_MEMORY(call->err);
        }
        EXG_TRY(exg_operator_normalize(op, node->node, node->args, call->err));
        for (uint32_t i = 0; i < node->node->input_count; i++) {
            exg_argument_visit_values(&graph->nodes[n].inputs[i].arg, note_use, &r);
        }
    }
    for (uint32_t o = 0; o < entry->output_count; o++) {
        reader r = {entry, graph->node_count};

        exg_argument_visit_values(&entry->outputs[o], note_use, &r);
    }
    return EXG_OK;
}

exg_status exg_graph_entry_fill(const exg_call *call, exg_entry *entry, bool *itself)
{
    const exg_graph *graph;

    exg_status status;

    entry->returns_out = call->op->schema->is_out_variant;
    status = exg_graph_entry_emit(call, entry, emit_operator, NULL, call->op->schema->return_count);
    if (status == EXG_UNSUPPORTED && entry->returns_out && call->err != NULL &&
        strcmp(call->err->code, "OPR-007") == 0) { /* in a program; here the caller's fault */
        return EXG_FAIL(call->err, USAGE, "DSP-007",
                        "%s: a tensor for out= has other sizes than "
                        "the result",
                        call->op_entry->key);
    }
    EXG_TRY(status);
    graph = entry->program->graph;
    *itself = graph->node_count == 1 && strcmp(graph->nodes[0].target, call->op->target) == 0;
    return EXG_OK;
}

/* ---- carrying out --------------------------------- */

typedef struct walk {
    const exg_call *call;
    const exg_entry *entry;
    exg_dtensor **values; /* by value */
    bool *owned;          /* made on the way, and not handed out */
    exg_object *items;    /* of lists among a node's arguments */
} walk;

static exg_object object_of(const walk *w, exg_value_id id)
{
    return id == EXG_NO_VALUE || w->values[id] == NULL ? exg_object_none()
                                                       : exg_object_dtensor(w->values[id]);
}

static exg_object argument_object(walk *w, const exg_argument *arg, uint32_t *used)
{
    exg_object list;

    if (arg->kind == EXG_ARGUMENT_TENSOR || arg->kind == EXG_ARGUMENT_OPTIONAL_TENSOR) {
        return object_of(w, arg->as_tensor);
    }
    if (arg->kind != EXG_ARGUMENT_TENSORS && arg->kind != EXG_ARGUMENT_OPTIONAL_TENSORS) {
        return exg_object_value(*arg);
    }
    list = exg_object_list(w->items + *used, arg->count);
    for (uint32_t t = 0; t < arg->count; t++) {
        w->items[(*used)++] = object_of(w, arg->as_tensors[t]);
    }
    return list;
}

static void set_value(void *user, exg_value_id id, const exg_object *object)
{
    walk *w = user;
    bool known = false;

    if (object->kind != EXG_OBJECT_DTENSOR) {
        return;
    }
    for (uint32_t v = 0; v < w->entry->program->graph->value_count; v++) {
        known = known || w->values[v] == object->dtensor; /* in place: an argument again */
    }
    w->values[id] = object->dtensor;
    w->owned[id] = !known;
}

void exg_put_results(const exg_node *node, exg_object *result, exg_put_result *put, void *user)
{
    bool many = result->kind == EXG_OBJECT_LIST || result->kind == EXG_OBJECT_TUPLE;

    for (uint32_t o = 0, at = 0; o < node->output_count; o++) {
        const exg_argument *out = &node->outputs[o];
        uint32_t count = out->kind == EXG_ARGUMENT_TENSORS ? out->count : 1;

        for (uint32_t i = 0; i < count; i++, at++) {
            const exg_object *item = !many                ? result
                                     : at < result->count ? &result->items[at]
                                                          : NULL;
            exg_value_id id = out->kind == EXG_ARGUMENT_TENSORS  ? out->as_tensors[i]
                              : out->kind == EXG_ARGUMENT_TENSOR ? out->as_tensor
                                                                 : EXG_NO_VALUE;

            if (item != NULL && id != EXG_NO_VALUE) {
                put(user, id, item);
            } else if (item != NULL && item->kind == EXG_OBJECT_DTENSOR) {
                exg_dtensor_destroy(item->dtensor);
            }
        }
    }
    if (many) {
        free(result->items);
    }
}

static exg_status run_node(walk *w, uint32_t n)
{
    const exg_graph_node *node = &w->entry->nodes[n];
    const exg_operator *op = node->op_entry->op;
    exg_object objects[EXG_ARGUMENTS_MAX];
    exg_object result = exg_object_none();
    exg_call inner;
    uint32_t used = 0;

    inner.d = w->call->d;
    inner.op_entry = node->op_entry;
    inner.op = op;
    inner.is_inner = true;
    inner.err = w->call->err;
    for (uint32_t i = 0; i < op->schema->argument_count; i++) {
        objects[i] = argument_object(w, &node->args[i], &used);
        inner.at[i] = &objects[i];
    }
    EXG_TRY(exg_dispatch_call(&inner, w->call->mesh, &result));
    exg_put_results(node->node, &result, set_value, w);
    return EXG_OK;
}

static void drop_read(walk *w, uint32_t n)
{
    for (uint32_t v = 0; v < w->entry->program->graph->value_count; v++) {
        if (w->owned[v] && w->entry->last_use[v] == n + 1) {
            exg_dtensor_destroy(w->values[v]);
            w->owned[v] = false;
            w->values[v] = NULL;
        }
    }
}

/* The value for the caller: its own object. */
static exg_status hand_out(walk *w, exg_value_id id, exg_object *object)
{
    exg_dtensor *t = id == EXG_NO_VALUE ? NULL : w->values[id];

    *object = exg_object_none();
    if (t == NULL) {
        return EXG_OK;
    }
    if (w->owned[id]) {
        w->owned[id] = false;
    } else {
        EXG_TRY(exg_dtensor_alias(t, &t, w->call->err));
    }
    *object = exg_object_dtensor(t);
    return EXG_OK;
}

static exg_status hand_out_argument(walk *w, const exg_argument *out, exg_object *object)
{
    if (out->kind != EXG_ARGUMENT_TENSORS) {
        return hand_out(w, out->kind == EXG_ARGUMENT_TENSOR ? out->as_tensor : EXG_NO_VALUE,
                        object);
    }
    *object = exg_object_list(calloc(out->count + 1u, sizeof(*object)), 0);
    if (object->items == NULL) {
        return EXG_OUT_OF_MEMORY(w->call->err);
    }
    for (uint32_t i = 0; i < out->count; i++) {
        object->count = i + 1;
        EXG_TRY(hand_out(w, out->as_tensors[i], &object->items[i]));
    }
    return EXG_OK;
}

/* The out= arguments, in order. */
static exg_status return_out(const walk *w, exg_object *result)
{
    const exg_function_schema *f = w->call->op->schema;
    exg_object outs[EXG_ARGUMENTS_MAX];
    uint32_t count = 0;

    for (uint32_t i = 0; i < f->argument_count; i++) {
        if (f->arguments[i].is_out && w->call->at[i] != NULL) {
            outs[count++] = *w->call->at[i];
        }
    }
    if (count == 1) {
        *result = outs[0];
        return EXG_OK;
    }
    *result = (exg_object){.kind = EXG_OBJECT_TUPLE, .count = count};
    result->items = calloc(count + 1u, sizeof(*result->items));
    if (result->items == NULL) {
        *result = exg_object_none();
        return EXG_OUT_OF_MEMORY(w->call->err);
    }
    memcpy(result->items, outs, count * sizeof(*outs));
    return EXG_OK;
}

static exg_status return_values(walk *w, exg_object *result)
{
    const exg_entry *e = w->entry;
    exg_status status = EXG_OK;

    if (e->returns_out) {
        return return_out(w, result);
    }
    if (e->output_count == 1) {
        status = hand_out_argument(w, &e->outputs[0], result);
    } else if (e->output_count > 1) {
        *result = (exg_object){.kind = EXG_OBJECT_TUPLE};
        result->items = calloc(e->output_count, sizeof(*result->items));
        status = result->items == NULL ? EXG_OUT_OF_MEMORY(w->call->err) : EXG_OK;
        for (uint32_t o = 0; status == EXG_OK && o < e->output_count; o++) {
            result->count = o + 1;
            status = hand_out_argument(w, &e->outputs[o], &result->items[o]);
        }
    }
    if (status != EXG_OK) {
        exg_object_clear(result, true);
    }
    return status;
}

static uint32_t list_items(const exg_entry *entry)
{
    uint32_t most = 0;

    for (uint32_t n = 0; n < entry->program->graph->node_count; n++) {
        uint32_t count = 0;

        for (uint32_t i = 0; i < entry->nodes[n].op_entry->op->schema->argument_count; i++) {
            const exg_argument *arg = &entry->nodes[n].args[i];
            bool list =
                arg->kind == EXG_ARGUMENT_TENSORS || arg->kind == EXG_ARGUMENT_OPTIONAL_TENSORS;

            count += list ? arg->count : 0;
        }
        most = count > most ? count : most;
    }
    return most;
}

exg_status exg_graph_run(const exg_call *call, exg_entry *entry, exg_object *result)
{
    const exg_graph *graph = entry->program->graph;
    walk w = {.call = call, .entry = entry};
    exg_status status = EXG_OK;
    uint32_t next = 0;

    w.values = calloc(graph->value_count + 1u, sizeof(*w.values));
    w.owned = calloc(graph->value_count + 1u, sizeof(*w.owned));
    w.items = calloc(list_items(entry) + 1u, sizeof(*w.items));
    if (w.values == NULL || w.owned == NULL || w.items == NULL) {
        status = EXG_OUT_OF_MEMORY(call->err);
    }
    for (uint32_t i = 0; status == EXG_OK && i < call->operand_count; i++) {
        if (call->operands[i].object->kind == EXG_OBJECT_DTENSOR) {
            w.values[graph->inputs[next++].as_tensor] = call->operands[i].object->dtensor;
        }
    }
    for (uint32_t n = 0; status == EXG_OK && n < graph->node_count; n++) {
        status = run_node(&w, n);
        if (status == EXG_OK) {
            drop_read(&w, n);
        }
    }
    if (status == EXG_OK) {
        status = return_values(&w, result);
    }
    for (uint32_t v = 0; w.values != NULL && w.owned != NULL && v < graph->value_count; v++) {
        if (w.owned[v]) {
            exg_dtensor_destroy(w.values[v]);
        }
    }
    free(w.values);
    free(w.owned);
    free(w.items);
    return status;
}
