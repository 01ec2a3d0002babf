/* walk.c - a node of a program as a call of the dispatcher. */
#include "libexec/dispatch/walk.h"
#include "libexec/dtensor/spec.h"
#include "libexport/base/arena.h"

#include <stdlib.h>

/* ---- values ---------------------------------------------------------------------------------- */

void exg_walk_let_go(exg_walk *w, exg_value_id id)
{
    exg_slot *s = &w->slots[id];

    if (s->owner == id) {
        exg_dtensor_destroy(s->object.dtensor);
    }
    s->owner = EXG_NO_VALUE;
    s->object = exg_object_none();
}

/* What a node gave: an argument again, or the walk's own. */
static void set_value(exg_walk *w, exg_value_id id, const exg_object *object, const exg_node *node)
{
    exg_slot *s = &w->slots[id];
    exg_slot *holds;

    exg_walk_let_go(w, id);
    s->object = *object;
    s->owner = object->kind == EXG_OBJECT_DTENSOR ? id : EXG_NO_VALUE;
    for (uint32_t i = 0; s->owner == id && i < node->input_count; i++) {
        const exg_argument *arg = &node->inputs[i].arg;

        for (uint32_t k = 0; k < (arg->kind == EXG_ARGUMENT_TENSORS ? arg->count : 1); k++) {
            exg_value_id of = arg->kind == EXG_ARGUMENT_TENSORS  ? arg->as_tensors[k]
                              : arg->kind == EXG_ARGUMENT_TENSOR ? arg->as_tensor
                                                                 : EXG_NO_VALUE;

            if (of != EXG_NO_VALUE && of != id && w->slots[of].object.kind == EXG_OBJECT_DTENSOR &&
                w->slots[of].object.dtensor == object->dtensor) {
                s->owner = w->slots[of].owner;
            }
        }
    }
    if (s->owner != EXG_NO_VALUE && s->owner != id) { /* which stays as long */
        holds = &w->slots[s->owner];
        holds->last = holds->last > s->last ? holds->last : s->last;
    }
}

/* After node `n`: what it was the last to read, and what nobody reads. */
static void drop(void *user, exg_value_id *id)
{
    exg_walk *w = ((exg_walk **)user)[0];
    uint32_t after = *((uint32_t **)user)[1];
    exg_value_id owner = *id == EXG_NO_VALUE ? EXG_NO_VALUE : w->slots[*id].owner;

    if (*id != EXG_NO_VALUE && w->slots[*id].last <= after) {
        exg_walk_let_go(w, *id);
    }
    if (owner != EXG_NO_VALUE && w->slots[owner].last <= after) {
        exg_walk_let_go(w, owner);
    }
}

static void drop_read(exg_walk *w, uint32_t n)
{
    const exg_node *node = &w->graph->nodes[n];
    uint32_t after = n + 1;
    void *user[2] = {w, &after};

    for (uint32_t i = 0; i < node->input_count; i++) {
        exg_argument_visit_values(&node->inputs[i].arg, drop, user);
    }
    for (uint32_t o = 0; o < node->output_count; o++) {
        exg_argument_visit_values(&node->outputs[o], drop, user);
    }
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* What the operands of a node say of its call. */
typedef struct operands {
    exg_walk *w;
    exg_device_mesh *mesh; /* of the first DTensor that is not of this rank alone; NULL: none is */
    bool all_constant;
    uint32_t count;     /* how many tensors there are at most */
    exg_dtensor **made; /* of plain ones for the call, to be destroyed after it */
    uint32_t made_count;
} operands;

static void look_at(void *user, exg_value_id *id)
{
    operands *o = user;
    const exg_slot *s = *id == EXG_NO_VALUE ? NULL : &o->w->slots[*id];

    if (s != NULL && s->object.kind == EXG_OBJECT_DTENSOR) {
        o->all_constant = o->all_constant && s->is_constant;
        if (o->mesh == NULL && s->object.dtensor->mesh != o->w->self) {
            o->mesh = s->object.dtensor->mesh;
        }
    }
    o->count++;
}

/* A plain tensor beside DTensors is for the dispatcher to take or to refuse; one whose gradient is
 * wanted goes over the border, where it may, and constants of the program are alike everywhere. */
static exg_status operand(operands *o, exg_value_id id, exg_object *object)
{
    exg_walk *w = o->w;
    const exg_slot *s = id == EXG_NO_VALUE ? NULL : &w->slots[id];
    exg_dtensor *t = s == NULL || s->object.kind != EXG_OBJECT_DTENSOR ? NULL : s->object.dtensor;
    exg_dtensor **made = &o->made[o->made_count];
    bool may_cross;

    *object = s == NULL ? exg_object_none() : s->object;
    if (t == NULL || o->mesh == NULL || t->mesh != w->self) {
        return EXG_OK;
    }
    may_cross = t->history != NULL &&
                (w->d->options.implicit_replication || exg_tensor_numel(&t->local) == 1);
    *object = exg_object_tensor(&t->local);
    if (s->is_constant || may_cross) {
        EXG_TRY(exg_from_local(w->d, t, o->mesh, NULL, 0, NULL, NULL, made, w->err));
        o->made_count++;
        *object = exg_object_dtensor(*made);
    }
    return EXG_OK;
}

static exg_status argument_object(operands *o, const exg_argument *arg, exg_object *object)
{
    bool list = arg->kind == EXG_ARGUMENT_TENSORS || arg->kind == EXG_ARGUMENT_OPTIONAL_TENSORS;

    if (arg->kind == EXG_ARGUMENT_TENSOR || arg->kind == EXG_ARGUMENT_OPTIONAL_TENSOR) {
        return operand(o, arg->as_tensor, object);
    }
    *object = exg_object_value(*arg);
    if (!list) {
        return EXG_OK;
    }
    *object = exg_object_list(EXG_NEW_ARRAY(o->w->arena, exg_object, arg->count), arg->count);
    if (object->items == NULL) {
        return EXG_OUT_OF_MEMORY(o->w->err);
    }
    for (uint32_t t = 0; t < arg->count; t++) {
        EXG_TRY(operand(o, arg->as_tensors[t], &object->items[t]));
    }
    return EXG_OK;
}

/* A node whose results are put in their place. */
typedef struct done_node {
    exg_walk *w;
    const exg_node *node;
    bool is_constant;
} done_node;

static void put_result(void *user, exg_value_id id, const exg_object *object)
{
    const done_node *done = user;

    set_value(done->w, id, object, done->node);
    done->w->slots[id].is_constant = done->is_constant;
}

static exg_status call_operator(operands *o, const exg_operator *op, const exg_argument *all,
                                exg_object *result)
{
    exg_object args[EXG_ARGUMENTS_MAX];
    exg_named_object kwargs[EXG_ARGUMENTS_MAX];
    uint32_t arg_count = 0, kwarg_count = 0;
    char key[EXG_OPERATOR_KEY_MAX];

    for (uint32_t i = 0; i < op->schema->argument_count; i++) {
        const exg_schema_argument *parameter = &op->schema->arguments[i];
        exg_object object;

        EXG_TRY(argument_object(o, &all[i], &object));
        if (!parameter->keyword_only) {
            args[arg_count++] = object;
        } else if (object.kind != EXG_OBJECT_NONE) {
            kwargs[kwarg_count++] = (exg_named_object){parameter->name, object};
        }
    }
    exg_operator_key(op, key, sizeof(key));
    return exg_dispatch(o->w->d, key, args, arg_count, kwargs, kwarg_count, result, o->w->err);
}

exg_status exg_walk_node(exg_walk *w, uint32_t n)
{
    const exg_node *node = &w->graph->nodes[n];
    const exg_operator *op = exg_operators_find(w->d->operators, node->target);
    operands o = {.w = w, .all_constant = true};
    exg_argument all[EXG_ARGUMENTS_MAX];
    exg_object result = exg_object_none();
    exg_status status;

    if (op == NULL || op->symbolic != NULL) {
        return exg_error_fix(w->err,
                             EXG_FAIL(w->err, UNSUPPORTED, "OPR-003",
                                      "'%s' is not run operator by "
                                      "operator",
                                      node->target),
                             "run it with a session");
    }
    exg_arena_reset(w->arena);
    EXG_TRY(exg_operator_normalize(op, node, all, w->err));
    for (uint32_t i = 0; i < node->input_count; i++) {
        exg_argument_visit_values(&node->inputs[i].arg, look_at, &o);
    }
    o.made = EXG_NEW_ARRAY(w->arena, exg_dtensor *, o.count);
    if (o.made == NULL) {
        return EXG_OUT_OF_MEMORY(w->err);
    }
    status = call_operator(&o, op, all, &result);
    for (uint32_t i = 0; i < o.made_count; i++) {
        exg_dtensor_destroy(o.made[i]);
    }
    EXG_TRY(status);
    exg_put_results(node, &result, put_result, &(done_node){w, node, o.all_constant});
    drop_read(w, n);
    return EXG_OK;
}
