/* pack.c - DTensors moved and unwrapped, local tensors wrapped. */
#include "libexec/comm/communicator.h"
#include "libexec/dispatch/local.h"
#include "libexec/dtensor/storage.h"
#include "libexport/base/arena.h"
#include "libexport/base/require.h"

#include <stdlib.h>
#include <string.h>

/* ---- moving --------------------------------- */

exg_status exg_dtensor_alias(const exg_dtensor *t, exg_dtensor **out, exg_error *err)
{
    EXG_TRY(exg_dtensor_wait(t, err));
    EXG_TRY(exg_dtensor_make(t->mesh, t->placements, &t->local, t->sizes, t->strides, out, err));
    (*out)->owned = exg_block_share(t->owned);
    (*out)->detached = t->detached;
    (*out)->meta = t->meta;
    exg_dtensor_set_history(*out, t->history, t->output);
    return EXG_OK;
}

/* Zeros in the place of the local part. */
static exg_status clear_local(exg_dtensor *t, exg_error *err)
{
    uint64_t bytes = (uint64_t)exg_tensor_numel(&t->local) * exg_dtype_bytes(t->local.dtype);
    exg_block *block;
    exg_host_copy m;
    exg_status status;

    EXG_TRY(exg_block_create(t->mesh, bytes, &block, err));
    exg_block_release(t->owned);
    t->owned = block;
    t->local.data = exg_block_data(block);
    exg_tensor_set_contiguous(&t->local);
    EXG_TRY(exg_dtensor_host_copy(t, false, &m, err));
    memset(m.here.data, 0, (size_t)bytes);
    status = exg_host_copy_write(&m, err);
    exg_host_copy_close(&m);
    return status;
}

/* The local part row-major, as plans take what was moved: a move that sent nothing leaves it over
 * the memory of what was there. */
static exg_status put_in_order(exg_dtensor **t, exg_error *err)
{
    const exg_dtensor *from = *t;
    exg_dtensor *copy;
    exg_status status;

    if (from->mesh->communicator == NULL || exg_tensor_is_contiguous(&from->local)) {
        return EXG_OK;
    }
    EXG_TRY(exg_dtensor_make_owned(from->mesh, from->placements, from->local.dtype, from->rank,
                                   from->sizes, &copy, err));
    status = exg_dtensor_copy_part(from, copy, err);
    exg_dtensor_destroy(*t);
    *t = copy;
    return status;
}

exg_status exg_dtensor_bring(const exg_dtensor *t, const exg_placement *to, exg_dtensor **out,
                             exg_error *err)
{
    exg_placement way[EXG_MESH_DIMS_MAX];
    bool clears = false;
    exg_status status;

    memcpy(way, to, t->mesh->ndim * sizeof(*to));
    for (uint32_t m = 0; m < t->mesh->ndim; m++) {
        if (to[m].kind == EXG_PARTIAL && !exg_placement_equal(to[m], t->placements[m])) {
            way[m] = exg_replicate();
            clears = clears ||
                     (to[m].op == EXG_REDUCE_SUM && exg_device_mesh_coordinate(t->mesh, m) != 0);
        }
    }
    EXG_TRY(exg_dtensor_move(t, way, false, out, err));
    memcpy((*out)->placements, to, t->mesh->ndim * sizeof(*to));
    status = clears ? clear_local(*out, err) : put_in_order(out, err);
    if (status != EXG_OK) {
        exg_communicator_abort(t->mesh->communicator, status);
        exg_dtensor_destroy(*out);
        *out = NULL;
    }
    return status;
}

/* ---- packing --------------------------------- */

static bool is_list(const exg_object *object)
{
    return object->kind == EXG_OBJECT_LIST || object->kind == EXG_OBJECT_TUPLE;
}

static exg_status keep(exg_object *moved, exg_dtensor *t, exg_error *err)
{
    exg_object *items = realloc(moved->items, (moved->count + 1u) * sizeof(*items));

    if (items == NULL) {
        exg_dtensor_destroy(t);
        return EXG_OUT_OF_MEMORY(err);
    }
    moved->items = items;
    items[moved->count++] = exg_object_dtensor(t);
    return EXG_OK;
}

exg_status exg_pack_args(const exg_object *args, const exg_object *schema, uint32_t count,
                         bool moves, exg_arena *arena, exg_object *local, exg_object *moved,
                         exg_error *err)
{
    EXG_REQUIRE(err, EXG_IF_ANY(count, args), EXG_IF_ANY(count, schema), arena, local, moved);
    for (uint32_t i = 0; i < count; i++) {
        exg_dtensor *t;

        local[i] = schema[i];
        if (args[i].kind == EXG_OBJECT_DTENSOR) {
            t = args[i].dtensor;
            EXG_TRY(exg_dtensor_wait(t, err));
            if (moves && schema[i].kind == EXG_OBJECT_SPEC) {
                EXG_TRY(exg_dtensor_bring(args[i].dtensor, schema[i].spec->placements, &t, err));
                EXG_TRY(keep(moved, t, err));
            }
            local[i] = exg_object_tensor(&t->local);
        } else if (is_list(&args[i]) && is_list(&schema[i])) {
            if (args[i].count != schema[i].count) {
                return EXG_FAIL(err, USAGE, "DSP-001", "a list of %u and one of %u", args[i].count,
                                schema[i].count);
            }
            local[i].items = EXG_NEW_ARRAY(arena, exg_object, args[i].count);
            if (local[i].items == NULL) {
                return EXG_OUT_OF_MEMORY(err);
            }
            EXG_TRY(exg_pack_args(args[i].items, schema[i].items, args[i].count, moves, arena,
                                  local[i].items, moved, err));
        }
    }
    return EXG_OK;
}

/* ---- wrapping --------------------------------- */

static exg_status check_wrapped(const exg_tensor *local, const exg_dtensor_spec *spec,
                                exg_error *err)
{
    int64_t offsets[EXG_RANK_MAX], sizes[EXG_RANK_MAX];

    if (spec->mesh == NULL) {
        return EXG_FAIL(err, MALFORMED, "DSP-009", "a spec without a mesh");
    }
    if (spec->mesh->communicator == NULL) {
        return EXG_OK;
    }
    exg_local_chunk(spec->mesh, exg_device_mesh_rank(spec->mesh), spec->placements, spec->sizes,
                    spec->rank, offsets, sizes);
    return exg_dims_equal(local->sizes, local->rank, sizes, spec->rank)
               ? EXG_OK
               : EXG_FAIL(err, MALFORMED, "DSP-009", "a local tensor of other sizes than its spec");
}

static exg_status wrap_tensor(const exg_object *local, const exg_object *spec, exg_object *result,
                              exg_error *err)
{
    exg_dtensor *t;
    exg_status status;

    if (spec->kind != EXG_OBJECT_SPEC) {
        if (local->tensor->rank > 0) {
            return EXG_FAIL(err, MALFORMED, "DSP-009", "a tensor of %u dims without a spec",
                            local->tensor->rank);
        }
        *result = *local;
        return EXG_OK;
    }
    EXG_TRY(check_wrapped(local->tensor, spec->spec, err));
    EXG_TRY(exg_dtensor_make(spec->spec->mesh, spec->spec->placements, local->tensor,
                             spec->spec->sizes, spec->spec->strides, &t, err));
    t->rank = spec->spec->rank;
    status = exg_dtensor_settle(t, err);
    if (status != EXG_OK) {
        exg_dtensor_destroy(t);
        return status;
    }
    *result = exg_object_dtensor(t);
    return EXG_OK;
}

static exg_status wrap_list(const exg_object *local, const exg_object *specs, exg_object *result,
                            exg_error *err)
{
    exg_status status = EXG_OK;

    if (!is_list(specs) || local->count != specs->count) {
        return EXG_FAIL(err, MALFORMED, "DSP-009", "%u results and %u specs", local->count,
                        is_list(specs) ? specs->count : 1);
    }
    *result = (exg_object){.kind = local->kind};
    result->items = calloc(local->count + 1u, sizeof(*result->items));
    if (result->items == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; status == EXG_OK && i < local->count; i++) {
        bool none =
            local->items[i].kind == EXG_OBJECT_NONE || specs->items[i].kind == EXG_OBJECT_NONE;

        status =
            none ? EXG_OK : exg_wrap(&local->items[i], &specs->items[i], &result->items[i], err);
        result->count = i + 1;
    }
    if (status != EXG_OK) {
        exg_object_clear(result, true);
    }
    return status;
}

exg_status exg_wrap(const exg_object *local, const exg_object *specs, exg_object *result,
                    exg_error *err)
{
    EXG_REQUIRE(err, local, specs, result);
    *result = *local;
    if (local->kind == EXG_OBJECT_TENSOR) {
        return wrap_tensor(local, specs, result, err);
    }
    return is_list(local) ? wrap_list(local, specs, result, err) : EXG_OK;
}
