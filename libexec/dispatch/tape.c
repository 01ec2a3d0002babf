/* tape.c - calls that are remembered: what they were given, what came of it. */
#include "libexec/dispatch/tape.h"
#include "libexec/dtensor/storage.h"
#include "libexport/base/arena.h"

#include <stdlib.h>
#include <string.h>

#define DERIVATIVE UINT64_MAX /* in a key: not of the operator, of its derivative */

/* An operator's call. */
typedef struct operator_step {
    exg_tape_step step;
    exg_arena *arena; /* of this */
    const exg_op_entry *op_entry;
    exg_device_mesh *mesh;
    exg_object *at[EXG_ARGUMENTS_MAX];
    uint32_t operand_count, result_count;
    exg_dtensor **saved; /* operands, then results; NULL: none. Without memory where unneeded */
    uint32_t *versions;  /* of their memory; 0 where unneeded */
} operator_step;

bool exg_grad_enabled(const exg_dispatcher *d)
{
    return !d->grad_disabled;
}

bool exg_set_grad_enabled(exg_dispatcher *d, bool enabled)
{
    bool before = !d->grad_disabled;

    d->grad_disabled = !enabled;
    return before;
}

void exg_tape_number(exg_dispatcher *d, exg_history *h)
{
    h->number = ++d->steps;
}

/* ---- what is kept --------------------------------- */

static void let_go(void *step)
{
    operator_step *s = step;

    for (uint32_t i = 0; i < s->operand_count + s->result_count; i++) {
        exg_dtensor_destroy(s->saved[i]);
    }
    exg_arena_destroy(s->arena);
}

/* `t` without history: over its memory when it is needed, else only what it is. Numbers that were
 * wrapped for the call are copied. */
static exg_status keep(const exg_dtensor *t, bool needed, exg_dtensor **kept, exg_error *err)
{
    exg_tensor local = t->local;
    bool copies = needed && t->owned == NULL && exg_tensor_numel(&local) == 1;
    exg_status status;

    local.data = needed ? local.data : NULL;
    EXG_TRY(exg_dtensor_make(t->mesh, t->placements, &local, t->sizes, t->strides, kept, err));
    (*kept)->rank = t->rank;
    if (!copies) {
        (*kept)->owned = needed ? exg_block_share(t->owned) : NULL;
        return EXG_OK;
    }
    status = exg_block_create(t->mesh, exg_dtype_bytes(local.dtype), &(*kept)->owned, err);
    if (status == EXG_OK) {
        (*kept)->local.data = exg_block_data((*kept)->owned);
        status = exg_dtensor_copy_part(t, *kept, err);
    }
    if (status != EXG_OK) {
        exg_dtensor_destroy(*kept);
        *kept = NULL;
    }
    return status;
}

/* The DTensors of a result, flat. */
static uint32_t result_items(const exg_object *result, const exg_object **items)
{
    if (result->kind == EXG_OBJECT_LIST || result->kind == EXG_OBJECT_TUPLE) {
        *items = result->items;
        return result->count;
    }
    *items = result;
    return 1;
}

/* Argument `i` with what was kept in the place of its tensors. */
static exg_status keep_argument(const exg_call *call, operator_step *s, uint32_t i, uint32_t *next,
                                exg_error *err)
{
    bool tensors = call->op->schema->arguments[i].type.base == EXG_TYPE_TENSOR;
    exg_object *made = EXG_NEW(s->arena, exg_object);
    exg_object *items;
    uint32_t first = *next;

    if (made == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    while (tensors && *next < call->operand_count && call->operands[*next].position == i) {
        ++*next;
    }
    if (call->at[i] == NULL) {
        return EXG_OK;
    }
    *made = *call->at[i];
    s->at[i] = made;
    if (!tensors) {
        return made->kind == EXG_OBJECT_VALUE ? exg_argument_copy(s->arena, &made->value, err)
                                              : EXG_OK;
    }
    items = EXG_NEW_ARRAY(s->arena, exg_object, *next - first);
    if (items == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t k = first; k < *next; k++) {
        items[k - first] = *call->operands[k].object;
        if (s->saved[k] != NULL) {
            items[k - first] = exg_object_dtensor(s->saved[k]);
        }
    }
    if (made->kind == EXG_OBJECT_LIST || made->kind == EXG_OBJECT_TUPLE) {
        made->items = items;
    } else {
        *made = items[0];
    }
    return EXG_OK;
}

/* ---- the derivative as a call --------------------------------- */

/* The operator's operands, its results and their gradients, as the graph of the derivative takes
 * them; `absent` stands for what is not there. */
static exg_status derivative_call(exg_dispatcher *d, const operator_step *s,
                                  exg_dtensor *const *gradients, exg_object *extra, exg_call *call,
                                  exg_error *err)
{
    uint32_t results = s->result_count;

    *call = (exg_call){.d = d,
                       .op_entry = s->op_entry,
                       .op = s->op_entry->op,
                       .mesh = s->mesh,
                       .is_inner = true,
                       .err = err};
    memcpy(call->at, s->at, sizeof(s->at));
    EXG_TRY(exg_call_operands(call->op->schema, call->at, call->operands, EXG_CALL_OPERANDS_MAX,
                              &call->operand_count, err));
    if (call->operand_count + 2 * results > EXG_CALL_OPERANDS_MAX) {
        return EXG_FAIL(err, LIMIT, "TAP-001", "the derivative of %s of more than %d tensors",
                        s->op_entry->key, EXG_CALL_OPERANDS_MAX);
    }
    for (uint32_t i = 0; i < 2 * results; i++) {
        exg_dtensor *t = i < results ? s->saved[s->operand_count + i] : gradients[i - results];

        extra[i] = t == NULL ? exg_object_none() : exg_object_dtensor(t);
        call->operands[call->operand_count++] = (exg_operand_slot){UINT32_MAX, i, &extra[i]};
    }
    return EXG_OK;
}

static exg_status make_entry(const exg_call *call, const void *user, exg_entry **entry)
{
    const exg_derivation_of *of = user;
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_entry *made = arena == NULL ? NULL : EXG_NEW(arena, exg_entry);
    exg_status status;

    *entry = NULL;
    if (made == NULL) {
        exg_arena_destroy(arena);
        return EXG_OUT_OF_MEMORY(call->err);
    }
    made->arena = arena;
    status = exg_graph_entry_emit(call, made, exg_emit_derivatives, of, of->operands);
    if (status != EXG_OK) {
        exg_entry_destroy(made);
        return status;
    }
    *entry = made;
    return EXG_OK;
}

static exg_status find_derivative(exg_call *call, const exg_derivation_of *of, exg_entry **entry)
{
    exg_cache_key *key = &call->d->key;

    exg_call_cache_key(call, key);
    for (uint32_t i = 0; i < call->operand_count; i++) {
        const exg_object *object = call->operands[i].object;

        if (i < of->operands) {
            exg_cache_key_put(key, of->edges[i].of != NULL);
        } else if (object->kind == EXG_OBJECT_DTENSOR) {
            exg_cache_key_put_dtensor(key, object->dtensor);
        } else {
            exg_cache_key_put(key, 0);
        }
    }
    exg_cache_key_put(key, DERIVATIVE);
    return exg_entry_find(call, make_entry, of, entry);
}

/* ---- back --------------------------------- */

/* The operands as outputs of the steps before, the results as this one's: for gradients of
 * gradients. No uses are made, so they go before `h` does. */
static void lend_histories(const operator_step *s, exg_history *h, bool lend)
{
    for (uint32_t i = 0; i < s->operand_count + s->result_count; i++) {
        exg_edge edge = i < s->operand_count ? h->inputs[i] : (exg_edge){h, i - s->operand_count};
        bool has = s->saved[i] != NULL && exg_dtype_is_float(s->saved[i]->local.dtype);

        if (has) {
            s->saved[i]->history = lend ? edge.of : NULL;
            s->saved[i]->output = edge.output;
        }
    }
}

static exg_status check_versions(const operator_step *s, exg_error *err)
{
    for (uint32_t i = 0; i < s->operand_count + s->result_count; i++) {
        if (s->saved[i] != NULL && exg_block_version(s->saved[i]->owned) != s->versions[i]) {
            return EXG_FAIL(err, USAGE, "TAP-003",
                            "a tensor that the derivative of %s needs was overwritten",
                            s->op_entry->key);
        }
    }
    return EXG_OK;
}

static exg_status operator_back(exg_dispatcher *d, exg_history *h, exg_dtensor *const *gradients,
                                exg_dtensor **made, exg_error *err)
{
    operator_step *s = h->step;
    exg_derivation_of of = {s->operand_count, s->result_count, h->inputs};
    exg_object *extra = calloc(2 * (size_t)s->result_count + 1, sizeof(*extra));
    exg_call *call = malloc(sizeof(*call));
    exg_object result = exg_object_none();
    const exg_object *items;
    exg_entry *entry;
    exg_status status = check_versions(s, err);

    if (extra == NULL || call == NULL) {
        status = EXG_OUT_OF_MEMORY(err);
    }
    if (status == EXG_OK) {
        status = derivative_call(d, s, gradients, extra, call, err);
    }
    if (status == EXG_OK) {
        status = find_derivative(call, &of, &entry);
    }
    if (status == EXG_OK) {
        entry->runs++;
        lend_histories(s, h, true);
        status = exg_graph_run(call, entry, &result);
        lend_histories(s, h, false);
        entry->runs--;
    }
    for (uint32_t i = 0; status == EXG_OK && i < result_items(&result, &items); i++) {
        made[i] = items[i].kind == EXG_OBJECT_DTENSOR ? items[i].dtensor : NULL;
    }
    exg_object_clear(&result, false);
    free(call);
    free(extra);
    return status;
}

static const exg_tape_kind operator_kind = {operator_back, "operator"};

/* ---- recording --------------------------------- */

/* Which of operands and results the derivative reads. One that there is not reads none: going
 * back will tell. One that there is no memory for now may be had then, and is told now. */
static exg_status find_needed(const exg_call *call, const exg_derivation_of *of, operator_step *s,
                              bool *needed)
{
    exg_object *extra = calloc(2 * (size_t)of->results + 1, sizeof(*extra));
    exg_call *derivative = malloc(sizeof(*derivative));
    exg_entry *entry;
    exg_error ignored;
    uint32_t input = 0;
    exg_status status;

    if (extra == NULL || derivative == NULL) {
        status = EXG_OUT_OF_MEMORY(&ignored);
    } else {
        status = derivative_call(call->d, s, s->saved + of->operands, extra, derivative, &ignored);
        if (status == EXG_OK) {
            status = find_derivative(derivative, of, &entry);
        }
    }
    if (status == EXG_OK) {
        for (uint32_t i = 0; i < of->operands + of->results; i++) {
            const exg_graph *graph = entry->program->graph;

            needed[i] =
                s->saved[i] != NULL && entry->last_use[graph->inputs[input++].as_tensor] > 0;
        }
    }
    if ((status == EXG_NO_MEMORY || status == EXG_LIMIT) && call->err != NULL) {
        *call->err = ignored;
    }
    free(derivative);
    free(extra);
    return status == EXG_NO_MEMORY || status == EXG_LIMIT ? status : EXG_OK;
}

/* First everything without memory, to ask what is needed, then that with memory. */
static exg_status keep_all(const exg_call *call, operator_step *s, const exg_object *items,
                           const bool *needed)
{
    uint32_t next = 0;

    for (uint32_t i = 0; i < s->operand_count + s->result_count; i++) {
        const exg_object *object =
            i < s->operand_count ? call->operands[i].object : &items[i - s->operand_count];

        exg_dtensor_destroy(s->saved[i]);
        s->saved[i] = NULL;
        if (object->kind == EXG_OBJECT_DTENSOR) {
            EXG_TRY(keep(object->dtensor, needed[i], &s->saved[i], call->err));
            s->versions[i] = exg_block_version(s->saved[i]->owned);
        }
    }
    for (uint32_t i = 0; i < call->op->schema->argument_count; i++) {
        EXG_TRY(keep_argument(call, s, i, &next, call->err));
    }
    return EXG_OK;
}

static exg_status make_step(const exg_call *call, uint32_t results, operator_step **step)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    operator_step *s = arena == NULL ? NULL : EXG_NEW(arena, operator_step);
    uint32_t count = call->operand_count + results;

    if (s == NULL || (s->saved = EXG_NEW_ARRAY(arena, exg_dtensor *, count)) == NULL ||
        (s->versions = EXG_NEW_ARRAY(arena, uint32_t, count)) == NULL) {
        exg_arena_destroy(arena);
        return EXG_OUT_OF_MEMORY(call->err);
    }
    s->step.kind = &operator_kind;
    s->arena = arena;
    s->op_entry = call->op_entry;
    s->mesh = call->mesh;
    s->operand_count = call->operand_count;
    s->result_count = results;
    *step = s;
    return EXG_OK;
}

static exg_status fill_step(const exg_call *call, exg_history *h, const exg_object *items)
{
    operator_step *s = h->step;
    uint32_t count = s->operand_count + s->result_count;
    bool *needed = EXG_NEW_ARRAY(s->arena, bool, count);
    exg_derivation_of of = {s->operand_count, s->result_count, h->inputs};

    if (needed == NULL) {
        return EXG_OUT_OF_MEMORY(call->err);
    }
    for (uint32_t i = 0; i < s->operand_count; i++) {
        const exg_object *object = call->operands[i].object;

        if (object->kind == EXG_OBJECT_DTENSOR && object->dtensor->history != NULL) {
            h->inputs[i] =
                (exg_edge){exg_history_share(object->dtensor->history), object->dtensor->output};
        }
    }
    EXG_TRY(keep_all(call, s, items, needed));
    EXG_TRY(find_needed(call, &of, s, needed));
    return keep_all(call, s, items, needed);
}

static exg_status record(const exg_call *call, exg_object *result)
{
    const exg_object *items;
    uint32_t results = result_items(result, &items);
    operator_step *s = NULL;
    exg_history *h;
    exg_status status;

    EXG_TRY(make_step(call, results, &s));
    h = exg_history_create(call->operand_count, results);
    if (h == NULL) {
        let_go(s);
        return EXG_OUT_OF_MEMORY(call->err);
    }
    h->step = s;
    h->let_go = let_go;
    status = fill_step(call, h, items);
    exg_tape_number(call->d, h);
    for (uint32_t r = 0; status == EXG_OK && r < results; r++) {
        if (items[r].kind == EXG_OBJECT_DTENSOR) {
            bool has = exg_dtype_is_float(items[r].dtensor->local.dtype) ||
                       exg_dtype_is_complex(items[r].dtensor->local.dtype);

            exg_dtensor_set_history(items[r].dtensor, has ? h : NULL, r);
        }
    }
    exg_history_release(h);
    return status;
}

static void forget(exg_object *result)
{
    const exg_object *items;
    uint32_t count = result_items(result, &items);

    for (uint32_t r = 0; r < count; r++) {
        if (items[r].kind == EXG_OBJECT_DTENSOR) {
            exg_dtensor_set_history(items[r].dtensor, NULL, 0);
        }
    }
}

static bool writes(const exg_call *call)
{
    return exg_computed_by(call->d->operators, call->op) != call->op;
}

/* What an operator that is made of others writes beside its results, running statistics, has no
 * gradient and gets none. */
static bool is_kept_aside(const exg_call *call)
{
    const exg_object *target = call->operand_count > 0 ? call->operands[0].object : NULL;

    return call->is_inner && writes(call) && target != NULL && target->kind == EXG_OBJECT_DTENSOR &&
           target->dtensor->history == NULL;
}

static exg_status check_written(const exg_call *call)
{
    if (!writes(call) && !call->op->schema->is_out_variant) {
        return EXG_OK;
    }
    return exg_error_fix(call->err,
                         EXG_FAIL(call->err, UNSUPPORTED, "TAP-002",
                                  "%s would overwrite what has a gradient, or write what gets one",
                                  call->op_entry->key),
                         "call the operator that gives a new tensor, or disable gradients");
}

exg_status exg_tape_call(exg_call *call, exg_call_runner *run, exg_object *result)
{
    exg_differentiation how;
    exg_status status;

    if (call->d->muted > 0 || !exg_call_wants_gradient(call)) {
        return run(call, result);
    }
    if (is_kept_aside(call)) {
        call->d->muted++;
        status = run(call, result);
        call->d->muted--;
        return status;
    }
    EXG_TRY(check_written(call));
    how = exg_differentiation_of(call->op);
    if (how == EXG_BY_PARTS && exg_call_is_composite(call->op, call) &&
        call->op_entry->registration.rule == NULL) {
        return run(call, result);
    }
    call->d->muted++;
    status = run(call, result);
    call->d->muted--;
    if (status != EXG_OK) {
        return status;
    }
    if (how == EXG_NOT_AT_ALL) {
        forget(result);
        return EXG_OK;
    }
    status = record(call, result);
    if (status != EXG_OK) {
        exg_object_clear(result, true);
    }
    return status;
}
