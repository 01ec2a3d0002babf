/* entry.c - what equal calls have in common: decided once, carried out many times. */
#include "libexec/dispatch/dispatcher.h"
#include "libexec/dtensor/storage.h"
#include "libexec/kernels/kernel.h"
#include "libexec/sharding/cost.h"
#include "libexport/base/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- deciding --------------------------------- */

/* The placements decided for each operand, and its local view once it has come. */
static exg_status fill_operands(const exg_call *call, exg_entry *entry, const exg_op_schema *target)
{
    const exg_device_mesh *mesh = call->mesh;
    exg_object *at[EXG_ARGUMENTS_MAX];
    exg_operand_slot wanted[EXG_CALL_OPERANDS_MAX];
    int64_t offsets[EXG_RANK_MAX];
    uint32_t input = 0;

    EXG_TRY(exg_schema_positions(target, at, call->err));
    EXG_TRY(exg_call_operands(call->op->schema, at, wanted, EXG_CALL_OPERANDS_MAX,
                              &entry->operand_count, call->err));
    if (entry->operand_count != call->operand_count) {
        return EXG_FAIL(call->err, MALFORMED, "DSP-009", "the rule of %s changes its tensors",
                        call->op_entry->key);
    }
    entry->operands = EXG_NEW_ARRAY(entry->arena, exg_entry_operand, entry->operand_count);
    if (entry->operands == NULL) {
        return EXG_OUT_OF_MEMORY(call->err);
    }
    for (uint32_t i = 0; i < entry->operand_count; i++) {
        exg_entry_operand *o = &entry->operands[i];
        const exg_dtensor *t;

        o->is_tensor = call->operands[i].object->kind == EXG_OBJECT_DTENSOR;
        if (!o->is_tensor) {
            continue;
        }
        t = call->operands[i].object->dtensor;
        o->input = input++;
        memcpy(o->from, t->placements, mesh->ndim * sizeof(o->from[0]));
        memcpy(o->to, wanted[i].object->spec->placements, mesh->ndim * sizeof(o->to[0]));
        o->local = t->local;
        o->bytes = 0;
        for (uint32_t m = 0; m < mesh->ndim; m++) {
            double bytes = (double)exg_tensor_numel(&t->local) * exg_dtype_bytes(t->local.dtype) *
                           (exg_placement_is_shard(o->from[m]) ? mesh->sizes[m] : 1);

            o->moves = o->moves || !exg_placement_equal(o->from[m], o->to[m]);
            o->bytes += exg_move_bytes(o->from[m], o->to[m], bytes, mesh->sizes[m]);
        }
        entry->any_moves = entry->any_moves || o->moves;
        if (mesh->communicator == NULL || o->moves) { /* a rank outside decides as rank 0 does */
            o->local.rank = t->rank;
            exg_local_chunk(mesh, exg_device_mesh_rank(mesh), o->to, t->sizes, t->rank, offsets,
                            o->local.sizes);
            exg_tensor_set_contiguous(&o->local);
        }
    }
    return EXG_OK;
}

/* Bytes from the first element of the local part on: of its memory where that is ours, else of what
 * was handed over. */
static uint64_t room_of(const exg_dtensor *t)
{
    uint64_t bytes = 0;

    if (t->owned != NULL) {
        uintptr_t first = (uintptr_t)exg_block_data(t->owned);
        uintptr_t at = (uintptr_t)t->local.data;

        if (at >= first && at - first <= exg_block_bytes(t->owned)) {
            return exg_block_bytes(t->owned) - (at - first);
        }
    }
    (void)exg_tensor_end(&t->local, 0, &bytes);
    return bytes;
}

/* The view that a view makes of operand 0's local part. */
static exg_status fill_view(const exg_call *call, exg_entry *entry, const exg_op_schema *target)
{
    const exg_operator *op = call->op;
    exg_local_result *result = EXG_NEW(entry->arena, exg_local_result);
    exg_meta_call *metas = EXG_NEW(call->d->scratch, exg_meta_call);
    exg_strided in = {0}, out = {0};

    if (result == NULL || metas == NULL) {
        return EXG_OUT_OF_MEMORY(call->err);
    }
    entry->results = result;
    EXG_TRY(exg_op_schema_meta_args(target, call->d->scratch, metas, call->err));
    for (entry->copies = false;; entry->copies = true) {
        const exg_tensor *local = &entry->operands[0].local;

        in.dtype = out.dtype = local->dtype;
        in.rank = local->rank;
        memcpy(in.sizes, local->sizes, sizeof(in.sizes));
        memcpy(in.strides, local->strides, sizeof(in.strides));
        if (op->view(metas->args, &in, &out, call->err) == EXG_OK) {
            break;
        }
        if (entry->copies) {
            return exg_error_within(call->err, EXG_USAGE, "%s", call->op_entry->key);
        }
        exg_tensor_set_contiguous(&entry->operands[0].local);
    }
    result->local = (exg_tensor){.dtype = out.dtype, .rank = out.rank};
    memcpy(result->local.sizes, out.sizes, sizeof(out.sizes));
    memcpy(result->local.strides, out.strides, sizeof(out.strides));
    if (!exg_tensor_end(&result->local, out.offset, &result->byte_end)) {
        return EXG_FAIL(call->err, USAGE, "PLN-002", "%s reaches outside its storage",
                        call->op_entry->key);
    }
    result->byte_offset = out.offset * (int64_t)exg_dtype_bytes(out.dtype);
    entry->result_count = 1;
    entry->kind = EXG_ENTRY_VIEW;
    return EXG_OK;
}

static exg_status fill_plan(const exg_call *call, exg_entry *entry, const exg_op_schema *target)
{
    const exg_operator *op = exg_computed_by(call->d->operators, call->op);
    exg_object *at[EXG_ARGUMENTS_MAX];
    exg_tensor tensors[EXG_CALL_OPERANDS_MAX];
    exg_local_call local = {.operators = call->d->operators,
                            .op = op,
                            .memory = call->d->memory,
                            .device = call->mesh->device,
                            .at = at,
                            .operands = call->operands,
                            .tensors = tensors,
                            .operand_count = entry->operand_count,
                            .number_dtype = EXG_DTYPE_F32,
                            .in_place = entry->in_place};
    exg_status status;

    EXG_TRY(exg_schema_positions(target, at, call->err));
    for (uint32_t i = entry->operand_count; i-- > 0;) {
        tensors[i] = entry->operands[i].local;
        local.number_dtype = entry->operands[i].is_tensor ? tensors[i].dtype : local.number_dtype;
    }
    entry->shared_device = exg_shared_device_share(call->mesh->shared_device);
    status = exg_local_plan(&local, entry->arena, &entry->rank, &entry->results,
                            &entry->result_count, call->err);
    if (status == EXG_NO_MEMORY && entry->shared_device != NULL &&
        exg_shared_device_empty_cache(entry->shared_device)) {
        exg_error_clear(call->err);
        status = exg_local_plan(&local, entry->arena, &entry->rank, &entry->results,
                                &entry->result_count, call->err);
    }
    EXG_TRY(status);
    entry->draws = op->stream != EXG_NOT_DRAWN;
    entry->kind = EXG_ENTRY_LOCAL;
    return EXG_OK;
}

/* The net under every rule: a local result has the sizes its placements say. */
static exg_status check_local(const exg_call *call, const exg_local_result *result)
{
    int64_t offsets[EXG_RANK_MAX], sizes[EXG_RANK_MAX];

    exg_local_chunk(call->mesh, exg_device_mesh_rank(call->mesh), result->spec.placements,
                    result->spec.sizes, result->spec.rank, offsets, sizes);
    if (!exg_dims_equal(result->local.sizes, result->local.rank, sizes, result->spec.rank)) {
        return EXG_FAIL(call->err, UNSUPPORTED, "PLC-003",
                        "the sharding rule of '%s' gives a wrong local size", call->op_entry->key);
    }
    return EXG_OK;
}

static exg_status fill_specs(const exg_call *call, exg_entry *entry,
                             const exg_output_sharding *sharding)
{
    const exg_object *specs = &sharding->result;
    bool many = specs->kind == EXG_OBJECT_LIST || specs->kind == EXG_OBJECT_TUPLE;
    uint32_t count = many ? specs->count : specs->kind != EXG_OBJECT_NONE;

    entry->form = many ? specs->kind : EXG_OBJECT_DTENSOR;
    if (entry->in_place) {
        return EXG_OK;
    }
    if (count != entry->result_count) {
        return EXG_FAIL(call->err, MALFORMED, "DSP-009", "%s gives %u tensors, its rule %u specs",
                        call->op_entry->key, entry->result_count, count);
    }
    for (uint32_t r = 0; r < count; r++) {
        const exg_object *spec = many ? &specs->items[r] : specs;

        if (entry->results[r].absent) {
            continue;
        }
        if (spec->kind != EXG_OBJECT_SPEC) {
            return EXG_FAIL(call->err, MALFORMED, "DSP-009", "%s gives a tensor without a spec",
                            call->op_entry->key);
        }
        entry->results[r].spec = *spec->spec;
        EXG_TRY(check_local(call, &entry->results[r]));
    }
    return EXG_OK;
}

/* The local results in the form of the first operand's spec: right for few operators. */
static exg_status guess_specs(const exg_call *call, exg_entry *entry)
{
    const exg_dtensor *first = NULL;
    bool list = call->op->schema->return_count == 1 && call->op->schema->returns[0].type.is_list;

    for (uint32_t i = call->operand_count; i-- > 0;) {
        first = call->operands[i].object->kind == EXG_OBJECT_DTENSOR
                    ? call->operands[i].object->dtensor
                    : first;
    }
    for (uint32_t r = 0; first != NULL && r < entry->result_count; r++) {
        exg_dtensor_spec *spec = &entry->results[r].spec;
        const exg_tensor *local = &entry->results[r].local;

        exg_dtensor_get_spec(first, spec);
        spec->dtype = local->dtype;
        spec->rank = local->rank;
        for (uint32_t m = 0; m < call->mesh->ndim; m++) {
            if (exg_placement_is_shard(spec->placements[m]) &&
                spec->placements[m].dim >= (int32_t)local->rank) {
                spec->placements[m] = exg_replicate();
            }
        }
        exg_global_from_local(call->mesh, local, spec->placements, spec->sizes, spec->strides);
    }
    entry->form = list                                  ? EXG_OBJECT_LIST
                  : call->op->schema->return_count == 1 ? EXG_OBJECT_DTENSOR
                                                        : EXG_OBJECT_TUPLE;
    return EXG_OK;
}

/* The operator that the rule made of the call: mostly the same. */
static exg_status rewritten_operator(const exg_call *call, const exg_op_schema *target,
                                     const exg_operator **op)
{
    const exg_function_schema *f = target->func_schema;
    char name[256];

    *op = call->op;
    if (f == call->op->schema) {
        return EXG_OK;
    }
    snprintf(name, sizeof(name), "torch.ops.%s.%s.%s", f->name_space, f->name,
             f->overload[0] == '\0' ? "default" : f->overload);
    *op = exg_operators_find(call->d->operators, name);
    return *op != NULL && (*op)->lowering == NULL && (*op)->symbolic == NULL
               ? EXG_OK
               : EXG_FAIL(call->err, UNSUPPORTED, "DSP-005",
                          "the rule of %s rewrites it to '%s', "
                          "which is not run as it is",
                          call->op_entry->key, name);
}

static exg_status decide(const exg_call *given, exg_entry *entry)
{
    exg_call rewritten = *given;
    const exg_call *call = &rewritten;
    exg_arena *scratch = call->d->scratch;
    exg_op_schema *schema;
    exg_op_schema *target;
    exg_output_sharding *sharding;
    bool moves;

    exg_arena_reset(scratch);
    schema = EXG_NEW(scratch, exg_op_schema);
    if (schema == NULL) {
        return EXG_OUT_OF_MEMORY(call->err);
    }
    EXG_TRY(exg_call_schema(call, schema, scratch));
    entry->in_place = call->op->functional != EXG_OP_NONE;
    EXG_TRY(exg_propagate_on(call->d, call->op_entry, call->mesh, schema, scratch, &target, &moves,
                             &sharding, call->err));
    EXG_TRY(rewritten_operator(given, target, &rewritten.op));
    EXG_TRY(fill_operands(call, entry, target));
    if (call->op->view != NULL) {
        EXG_TRY(fill_view(call, entry, target));
    } else {
        EXG_TRY(fill_plan(call, entry, target));
    }
    return sharding == NULL ? guess_specs(call, entry) : fill_specs(call, entry, sharding);
}

exg_status exg_entry_create(const exg_call *call, const void *user, exg_entry **entry)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_entry *made = arena == NULL ? NULL : EXG_NEW(arena, exg_entry);
    exg_status status;
    bool whole;

    (void)user;
    *entry = NULL;
    if (made == NULL) {
        exg_arena_destroy(arena);
        return EXG_OUT_OF_MEMORY(call->err);
    }
    made->arena = arena;
    whole = !exg_call_is_composite(call->op, call) || call->op_entry->registration.rule != NULL;
    status = whole ? EXG_OK : exg_graph_entry_fill(call, made, &whole);
    status = status == EXG_OK && whole ? decide(call, made) : status;
    if (status != EXG_OK) {
        exg_entry_destroy(made);
        return status;
    }
    *entry = made;
    return EXG_OK;
}

/* ---- carrying out --------------------------------- */

/* The local tensor of operand `i`, moved where the entry says; *moved is then the caller's. */
static exg_status bring(const exg_call *call, const exg_entry *entry, uint32_t i,
                        const exg_dtensor **t, exg_dtensor **moved)
{
    *moved = NULL;
    *t = call->operands[i].object->dtensor;
    if (entry->operands[i].moves) {
        EXG_TRY(exg_dtensor_bring(*t, entry->operands[i].to, moved, call->err));
        *t = *moved;
    }
    return EXG_OK;
}

/* A DTensor of a result over `block`, whose use it takes over. */
static exg_status make_result(const exg_call *call, const exg_local_result *r, exg_block *block,
                              void *data, exg_dtensor **t)
{
    exg_tensor local = r->local;
    exg_status status;

    local.data = data;
    status = exg_dtensor_make(call->mesh, r->spec.placements, &local, r->spec.sizes,
                              r->spec.strides, t, call->err);
    if (status != EXG_OK) {
        exg_block_release(block);
        return status;
    }
    (*t)->owned = block;
    return EXG_OK;
}

/* Does the device's kernel copy the part, and no rank meets another? Ranks whose parts lie
 * row-major do not call it. */
static bool is_cloned(const exg_dtensor *t)
{
    bool whole = t->mesh->device != NULL;

    for (uint32_t m = 0; m < t->mesh->ndim; m++) {
        whole = whole && t->placements[m].kind != EXG_PARTIAL;
    }
    return whole;
}

/* The part of `t` row-major, in memory of its own. */
static exg_status copy_in_order(const exg_call *call, const exg_dtensor *t, exg_dtensor **copy)
{
    exg_object arg = exg_object_dtensor((exg_dtensor *)(uintptr_t)t); /* which is only read */
    exg_object result;
    exg_status status;

    *copy = NULL;
    if (is_cloned(t)) {
        call->d->muted++; /* the view is remembered, not this */
        status = exg_dispatch_by_table(call->d, "aten.clone.default", &arg, 1, NULL, 0, &result,
                                       call->err);
        call->d->muted--;
        *copy = status == EXG_OK ? result.dtensor : NULL;
        return status;
    }
    EXG_TRY(exg_dtensor_make_owned(t->mesh, t->placements, t->local.dtype, t->rank, t->sizes, copy,
                                   call->err));
    return exg_dtensor_copy_part(t, *copy, call->err);
}

static exg_status run_view(const exg_call *call, const exg_entry *entry, exg_dtensor **result)
{
    const exg_local_result *r = &entry->results[0];
    const exg_dtensor *t;
    exg_dtensor *moved, *copy = NULL;
    bool detached;
    uint8_t *data = NULL;
    exg_status status = EXG_OK;

    EXG_TRY(bring(call, entry, 0, &t, &moved));
    detached = t->detached || moved != NULL || entry->copies;
    if (entry->copies && t->mesh->communicator != NULL) {
        status = copy_in_order(call, t, &copy);
        t = copy;
    }
    if (status == EXG_OK) {
        data = t->local.data;
        if (data != NULL && r->byte_end > room_of(t)) {
            status = EXG_FAIL(call->err, USAGE, "PLN-002", "%s reaches outside its storage",
                              call->op_entry->key);
        }
    }
    if (status == EXG_OK) {
        status = make_result(call, r, exg_block_share(t->owned),
                             data == NULL ? NULL : data + r->byte_offset, result);
    }
    if (status == EXG_OK) {
        (*result)->detached = detached;
    }
    exg_dtensor_destroy(copy);
    exg_dtensor_destroy(moved);
    return status;
}

/* Results of a rank that is no member: empty, a single number zero. */
static exg_status make_outside(const exg_call *call, const exg_entry *entry, exg_dtensor **results)
{
    for (uint32_t r = 0; r < entry->result_count; r++) {
        exg_block *block;

        if (entry->results[r].absent) {
            continue;
        }
        EXG_TRY(exg_block_create(call->mesh, 16, &block, call->err)); /* the host's */
        memset(exg_block_data(block), 0, 16);
        EXG_TRY(make_result(call, &entry->results[r], block, exg_block_data(block), &results[r]));
        if (entry->results[r].spec.rank == 0) {
            results[r]->local.rank = 0;
        }
    }
    return EXG_OK;
}

/* Memory for the results, told to the plan. */
static exg_status make_results(const exg_call *call, const exg_entry *entry, exg_dtensor **results)
{
    uint32_t output = 0;

    for (uint32_t r = 0; r < entry->result_count; r++) {
        const exg_local_result *result = &entry->results[r];
        exg_block *block;

        if (result->absent) {
            continue;
        }
        EXG_TRY(exg_block_create(call->mesh, result->bytes, &block, call->err));
        exg_plan_executor_set_output(entry->rank, output++, exg_block_data(block));
        EXG_TRY(make_result(call, result, block,
                            (uint8_t *)exg_block_data(block) + result->byte_offset, &results[r]));
    }
    return EXG_OK;
}

static exg_status run_plan(const exg_call *call, const exg_entry *entry, exg_dtensor **results)
{
    exg_dtensor *few[8];
    exg_dtensor **moved =
        entry->operand_count <= 8 ? few : calloc(entry->operand_count, sizeof(*moved));
    exg_status status = EXG_OK;
    uint32_t brought = 0;

    if (moved == NULL) {
        exg_communicator_abort(call->mesh->communicator, EXG_NO_MEMORY);
        return EXG_OUT_OF_MEMORY(call->err);
    }
    for (uint32_t i = 0; status == EXG_OK && i < entry->operand_count; i++) {
        const exg_dtensor *t;

        moved[i] = NULL;
        if (entry->operands[i].is_tensor) {
            status = bring(call, entry, i, &t, &moved[i]);
            if (status == EXG_OK) {
                exg_plan_executor_bind_input(entry->rank, entry->operands[i].input, t->local.data);
            }
        }
        brought = i + 1;
    }
    if (status == EXG_OK) {
        status = make_results(call, entry, results);
    }
    if (status == EXG_OK) {
        if (entry->draws) {
            exg_plan_executor_set_random(entry->rank, call->d->options.seed, call->d->draws++);
        }
        status = exg_plan_executor_settle(entry->rank, call->err);
        if (status == EXG_OK) {
            status = exg_plan_executor_run(entry->rank, call->err);
        } else {
            exg_communicator_abort(call->mesh->communicator, status);
        }
    }
    for (uint32_t i = 0; entry->any_moves && i < brought; i++) {
        exg_dtensor_destroy(moved[i]);
    }
    if (moved != few) {
        free(moved);
    }
    return status;
}

static exg_status hand_over(const exg_call *call, const exg_entry *entry, exg_dtensor **results,
                            exg_object *result)
{
    if (entry->form == EXG_OBJECT_DTENSOR) {
        *result = entry->result_count == 0 || results[0] == NULL ? exg_object_none()
                                                                 : exg_object_dtensor(results[0]);
        return EXG_OK;
    }
    *result = (exg_object){.kind = entry->form, .count = entry->result_count};
    result->items = malloc((entry->result_count + 1u) * sizeof(*result->items));
    if (result->items == NULL) {
        result->kind = EXG_OBJECT_NONE;
        return EXG_OUT_OF_MEMORY(call->err);
    }
    for (uint32_t r = 0; r < entry->result_count; r++) {
        result->items[r] = results[r] == NULL ? exg_object_none() : exg_object_dtensor(results[r]);
    }
    return EXG_OK;
}

/* What a rank finds wrong in operands that are whole on every rank, all ranks find. */
static bool is_of_a_part(const exg_call *call, const exg_entry *entry)
{
    bool any = false;

    for (uint32_t i = 0; i < entry->operand_count; i++) {
        for (uint32_t m = 0; entry->operands[i].is_tensor && m < call->mesh->ndim; m++) {
            any = any || entry->operands[i].to[m].kind != EXG_REPLICATE;
        }
    }
    return any;
}

exg_status exg_entry_run(const exg_call *call, exg_entry *entry, exg_object *result)
{
    exg_dtensor *few[EXG_RESULTS_MAX] = {NULL};
    exg_dtensor **results = few;
    exg_status status;

    if (entry->kind == EXG_ENTRY_GRAPH) {
        return exg_graph_run(call, entry, result);
    }
    if (entry->result_count > EXG_RESULTS_MAX) {
        results = calloc(entry->result_count, sizeof(*results));
    }
    if (results == NULL) {
        status = EXG_OUT_OF_MEMORY(call->err);
    } else if (entry->kind == EXG_ENTRY_VIEW) {
        status = run_view(call, entry, results);
    } else if (call->mesh->communicator == NULL) {
        status = make_outside(call, entry, results);
    } else {
        status = run_plan(call, entry, results);
    }
    if (call->mesh->communicator != NULL &&
        (status == EXG_NO_MEMORY || status == EXG_DEVICE ||
         (status == EXG_MALFORMED && is_of_a_part(call, entry)))) { /* the others wait */
        exg_communicator_abort(call->mesh->communicator, status);
    }
    if (status == EXG_OK && entry->in_place) {
        *result = *call->operands[0].object;
    } else if (status == EXG_OK) {
        status = hand_over(call, entry, results, result);
    }
    for (uint32_t r = 0; status != EXG_OK && results != NULL && r < entry->result_count; r++) {
        exg_dtensor_destroy(results[r]);
    }
    if (results != few) {
        free(results);
    }
    return status;
}
