/* dtensor_boundary.c - steps between plain tensors and DTensors, and from placements to others,
 * with their ways back: each is another of these steps.
 */
#include "libexec/dispatch/mesh_stack.h"
#include "libexec/dispatch/tape.h"
#include "libexec/dtensor/storage.h"
#include "libexport/base/options.h"
#include "libexport/base/require.h"

#include <stdlib.h>
#include <string.h>

/* ---- steps --------------------------------- */

/* One input, one output. */
typedef struct border_step {
    exg_tape_step step;
    exg_dtensor *source; /* what it was of, without memory; of from_local what it gave */
    exg_placement placements[EXG_MESH_DIMS_MAX]; /* of the gradient that comes, or is given back */
    exg_dtype dtype;                             /* in which the gradient is sent */
} border_step;

static void let_go(void *step)
{
    exg_dtensor_destroy(((border_step *)step)->source);
    free(step);
}

/* Remembers that `made` came of `input`; `source` as above. */
static exg_status remember(exg_dispatcher *d, const exg_tape_kind *kind, const exg_dtensor *input,
                           const exg_dtensor *source, const exg_step_options *options,
                           exg_dtensor *made, exg_error *err)
{
    border_step *s;
    exg_history *h;
    exg_tensor local = source->local;
    exg_status status;

    if (d->grad_disabled || d->muted > 0 || input->history == NULL) {
        return EXG_OK;
    }
    s = calloc(1, sizeof(*s));
    h = exg_history_create(1, 1);
    local.data = NULL;
    status = s == NULL || h == NULL
                 ? EXG_OUT_OF_MEMORY(err)
                 : exg_dtensor_make(source->mesh, source->placements, &local, source->sizes,
                                    source->strides, &s->source, err);
    if (status != EXG_OK) {
        free(s);
        exg_history_release(h);
        return status;
    }
    s->step.kind = kind;
    s->source->rank = source->rank;
    s->dtype = options->backward_dtype;
    exg_gradient_placements(source, s->placements);
    h->step = s;
    h->let_go = let_go;
    h->inputs[0] = (exg_edge){exg_history_share(input->history), input->output};
    if (options->grad_placement_count > 0) {
        status =
            exg_spec_placements(source->mesh, options->grad_placements,
                                options->grad_placement_count, source->rank, s->placements, err);
    }
    if (status == EXG_OK) {
        exg_tape_number(d, h);
        exg_dtensor_set_history(made, h, 0);
    }
    exg_history_release(h);
    return status;
}

/* What was made is the caller's, or nothing is. */
static exg_status give(exg_status status, exg_dtensor **made)
{
    if (status != EXG_OK) {
        exg_dtensor_destroy(*made);
        *made = NULL;
    }
    return status;
}

/* What is on a device stays with it; the host's goes to any. */
static exg_status check_device(const exg_device_mesh *from, const exg_device_mesh *to,
                               exg_error *err)
{
    return from->device == NULL || from->device == to->device || to->communicator == NULL
               ? EXG_OK
               : exg_error_fix(err,
                               EXG_FAIL(err, USAGE, "DTN-021",
                                        "a tensor on one device (%s) for a mesh of another (%s)",
                                        from->device_type, to->device_type),
                               "bring it to the host first (exg_dtensor_copy_to_host)");
}

/* ---- to local, and back --------------------------------- */

static exg_status to_local_back(exg_dispatcher *d, exg_history *h, exg_dtensor *const *gradients,
                                exg_dtensor **made, exg_error *err)
{
    const border_step *s = h->step;
    const exg_dtensor *t = s->source;
    exg_from_local_options how = {.size = sizeof(how), .shape = t->sizes};
    int64_t sizes[EXG_RANK_MAX], strides[EXG_RANK_MAX];

    exg_global_from_local(t->mesh, &gradients[0]->local, t->placements, sizes, strides);
    how.strides = strides;
    return exg_from_local(d, gradients[0], t->mesh, s->placements, t->mesh->ndim, &how, NULL, made,
                          err);
}

static const exg_tape_kind to_local_kind = {to_local_back, "to_local"};

exg_status exg_to_local(exg_dispatcher *d, const exg_dtensor *t, const exg_step_options *given,
                        exg_dtensor **local, exg_error *err)
{
    EXG_REQUIRE(err, d, t, local);
    exg_step_options options = {0};
    exg_placement whole = exg_replicate();
    exg_device_mesh *self;

    *local = NULL;
    EXG_TRY(EXG_READ_OPTIONS(exg_step_options, &options, given, err));
    EXG_TRY(exg_dispatcher_self(d, &self, err));
    EXG_TRY(check_device(t->mesh, self, err));
    EXG_TRY(exg_dtensor_wait(t, err));
    EXG_TRY(
        exg_dtensor_make(self, &whole, &t->local, t->local.sizes, t->local.strides, local, err));
    (*local)->owned = exg_block_share(t->owned);
    (*local)->meta = t->meta;
    return give(remember(d, &to_local_kind, t, t, &options, *local, err), local);
}

/* ---- from local, and back --------------------------------- */

static exg_status from_local_back(exg_dispatcher *d, exg_history *h, exg_dtensor *const *gradients,
                                  exg_dtensor **made, exg_error *err)
{
    const border_step *s = h->step;
    exg_dtensor *lies = NULL;
    exg_status status;

    EXG_TRY(
        exg_redistribute(d, gradients[0], s->placements, s->source->mesh->ndim, NULL, &lies, err));
    status = exg_to_local(d, lies, NULL, made, err);
    exg_dtensor_destroy(lies);
    return status;
}

static const exg_tape_kind from_local_kind = {from_local_back, "from_local"};

static bool is_plain(const exg_dispatcher *d, const exg_dtensor *t)
{
    return t->mesh == d->self;
}

/* The gradient given back has the part's sizes. */
static exg_status check_hint(const exg_dtensor *t, const exg_step_options *options, exg_error *err)
{
    exg_placement to[EXG_MESH_DIMS_MAX];

    if (options->grad_placement_count == 0 || t->mesh->communicator == NULL) {
        return EXG_OK;
    }
    EXG_TRY(exg_spec_placements(t->mesh, options->grad_placements, options->grad_placement_count,
                                t->rank, to, err));
    return exg_gradient_fits(t, to, t->local.sizes, t->local.rank, err);
}

exg_status exg_from_local(exg_dispatcher *d, const exg_dtensor *local, exg_device_mesh *mesh,
                          const exg_placement *placements, uint32_t count,
                          const exg_from_local_options *how, const exg_step_options *given,
                          exg_dtensor **t, exg_error *err)
{
    EXG_REQUIRE(err, d, local, t);
    exg_step_options options = {0};
    exg_from_local_options all = {0};
    exg_status status;

    *t = NULL;
    EXG_TRY(EXG_READ_OPTIONS(exg_step_options, &options, given, err));
    if (!is_plain(d, local)) {
        return EXG_FAIL(err, USAGE, "TAP-004", "from_local of what is a DTensor already");
    }
    EXG_TRY(EXG_READ_OPTIONS(exg_from_local_options, &all, how, err));
    all.size = sizeof(all);
    all.requires_grad = false; /* as the local tensor says */
    all.meta = local->meta;
    mesh = mesh == NULL ? exg_current_mesh(d) : mesh;
    EXG_TRY(mesh == NULL ? EXG_OK : check_device(local->mesh, mesh, err));
    EXG_TRY(exg_dtensor_from_local(mesh, &local->local, placements, count, &all, t, err));
    if ((*t)->owned == NULL && (*t)->local.data == local->local.data) {
        (*t)->owned = exg_block_share(local->owned);
    }
    if (local->history != NULL && d->grad_disabled) {
        exg_log_note(d, "from_local: a gradient of the local tensor is wanted, and none of the "
                        "DTensor while gradients are disabled");
    }
    status = check_hint(*t, &options, err);
    if (status == EXG_OK) {
        status = remember(d, &from_local_kind, local, *t, &options, *t, err);
    }
    return give(status, t);
}

/* ---- redistribute, and back --------------------------------- */

static bool sends_as(const exg_dtensor *t, exg_dtype dtype)
{
    return exg_dtype_is_float(dtype) && dtype != t->local.dtype;
}

/* `t` in `dtype`; the caller destroys *cast. */
static exg_status cast_to(exg_dispatcher *d, const exg_dtensor *t, exg_dtype dtype,
                          exg_dtensor **cast, exg_error *err)
{
    exg_named_object to = {"dtype", exg_object_value(exg_arg_dtype(dtype))};
    exg_object result = exg_object_none();
    exg_object args[1];

    EXG_TRY(exg_dtensor_alias(t, cast, err));
    args[0] = exg_object_dtensor(*cast);
    if (t->local.dtype == dtype) {
        return EXG_OK;
    }
    EXG_TRY(give(exg_dispatch(d, "aten._to_copy.default", args, 1, &to, 1, &result, err), cast));
    exg_dtensor_destroy(*cast);
    *cast = result.dtensor;
    return EXG_OK;
}

static exg_status redistribute_back(exg_dispatcher *d, exg_history *h,
                                    exg_dtensor *const *gradients, exg_dtensor **made,
                                    exg_error *err)
{
    const border_step *s = h->step;
    const exg_dtensor *t = s->source;
    exg_dtype sent = exg_dtype_is_float(s->dtype) ? s->dtype : t->local.dtype;
    exg_placement to[EXG_MESH_DIMS_MAX];
    exg_dtensor *cast, *moved = NULL;
    exg_status status;

    exg_redistributed_gradient(t, gradients[0], to);
    EXG_TRY(cast_to(d, gradients[0], sent, &cast, err));
    status = exg_redistribute(d, cast, to, t->mesh->ndim, NULL, &moved, err);
    if (status == EXG_OK) {
        status = cast_to(d, moved, t->local.dtype, made, err);
    }
    exg_dtensor_destroy(moved);
    exg_dtensor_destroy(cast);
    return status;
}

static const exg_tape_kind redistribute_kind = {redistribute_back, "redistribute"};

/* Without a change of dtype. */
static exg_status redistribute(exg_dispatcher *d, const exg_dtensor *t,
                               const exg_placement *placements, uint32_t count,
                               const exg_step_options *options, exg_dtensor **out, exg_error *err)
{
    exg_placement to[EXG_MESH_DIMS_MAX];

    if (placements == NULL) {
        return EXG_FAIL(err, USAGE, "DTN-002", "a redistribution without placements");
    }
    if (options->mesh != NULL && !exg_device_mesh_equal(options->mesh, t->mesh)) {
        return EXG_FAIL(err, UNSUPPORTED, "TAP-006", "a redistribution to another mesh");
    }
    EXG_TRY(exg_spec_placements(t->mesh, placements, count, t->rank, to, err));
    EXG_TRY(exg_dtensor_move(t, to, options->async, out, err));
    return give(remember(d, &redistribute_kind, t, t, options, *out, err), out);
}

exg_status exg_redistribute(exg_dispatcher *d, const exg_dtensor *t,
                            const exg_placement *placements, uint32_t count,
                            const exg_step_options *given, exg_dtensor **out, exg_error *err)
{
    EXG_REQUIRE(err, d, t, out);
    exg_step_options options = {0};
    exg_dtensor *cast;
    exg_status status;

    *out = NULL;
    EXG_TRY(EXG_READ_OPTIONS(exg_step_options, &options, given, err));
    options.grad_placement_count = 0;
    if (!sends_as(t, options.forward_dtype)) {
        return redistribute(d, t, placements, count, &options, out, err);
    }
    if (!exg_dtype_is_float(options.backward_dtype)) {
        options.backward_dtype = t->local.dtype; /* the gradient is sent as the tensor came */
    }
    EXG_TRY(cast_to(d, t, options.forward_dtype, &cast, err));
    status = redistribute(d, cast, placements, count, &options, out, err);
    exg_dtensor_destroy(cast);
    return status;
}

exg_status exg_full_tensor(exg_dispatcher *d, const exg_dtensor *t, const exg_step_options *given,
                           exg_dtensor **whole, exg_error *err)
{
    EXG_REQUIRE(err, d, t, whole);
    exg_placement to[EXG_MESH_DIMS_MAX];
    exg_dtensor *moved;
    exg_status status;

    *whole = NULL;
    for (uint32_t m = 0; m < t->mesh->ndim; m++) {
        to[m] = exg_replicate();
    }
    EXG_TRY(exg_redistribute(d, t, to, t->mesh->ndim, NULL, &moved, err));
    status = exg_to_local(d, moved, given, whole, err);
    exg_dtensor_destroy(moved);
    return status;
}

/* ---- leaves --------------------------------- */

/* *t is `tensor` when it is placed so already. */
static exg_status as_it_lies(exg_dtensor *tensor, const exg_device_mesh *mesh,
                             const exg_placement *placements, uint32_t count, exg_dtensor **t,
                             exg_error *err)
{
    exg_placement to[EXG_MESH_DIMS_MAX];

    if (!exg_device_mesh_equal(tensor->mesh, mesh)) {
        return EXG_FAIL(err, USAGE, "TAP-004", "what is distributed is on another mesh");
    }
    EXG_TRY(exg_spec_placements(mesh, placements, count, tensor->rank, to, err));
    for (uint32_t m = 0; m < mesh->ndim; m++) {
        if (!exg_placement_equal(to[m], tensor->placements[m])) {
            return exg_error_fix(
                err,
                EXG_FAIL(err, USAGE, "TAP-004", "what is distributed is already placed otherwise"),
                "redistribute it");
        }
    }
    *t = tensor;
    return EXG_OK;
}

exg_status exg_distribute(exg_dispatcher *d, exg_dtensor *tensor, exg_device_mesh *mesh,
                          const exg_placement *placements, uint32_t count, uint32_t source,
                          exg_dtensor **t, exg_error *err)
{
    EXG_REQUIRE(err, d, tensor, t);
    *t = NULL;
    mesh = mesh == NULL ? exg_current_mesh(d) : mesh;
    if (mesh == NULL) {
        return EXG_FAIL(err, USAGE, "DTN-018", "no mesh is given");
    }
    if (!is_plain(d, tensor)) {
        return as_it_lies(tensor, mesh, placements, count, t, err);
    }
    if (!exg_dtensor_is_leaf(tensor)) {
        return exg_error_fix(err,
                             EXG_FAIL(err, USAGE, "TAP-004",
                                      "what was computed is not distributed: it has a "
                                      "history"),
                             "from_local, or detach it");
    }
    EXG_TRY(check_device(tensor->mesh, mesh, err));
    EXG_TRY(exg_distribute_tensor(mesh, &tensor->local, placements, count, source, t, err));
    return give(exg_dtensor_set_requires_grad(*t, tensor->history != NULL, err), t);
}
