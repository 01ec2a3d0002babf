/* gradient.c - what the borders of a DTensor give back to a gradient: docs/dtensor.md 3.6. */
#include "libexec/dtensor/spec.h"
#include "libexport/base/require.h"

#include <inttypes.h>
#include <string.h>

static exg_status wanted(const exg_dtensor *t, const exg_placement *placements, uint32_t count,
                         exg_placement *to, exg_error *err)
{
    if (placements == NULL || count == 0) {
        exg_gradient_placements(t, to);
        return EXG_OK;
    }
    return exg_spec_placements(t->mesh, placements, count, t->rank, to, err);
}

exg_status exg_gradient_fits(const exg_dtensor *t, const exg_placement *to, const int64_t *sizes,
                             uint32_t rank, exg_error *err)
{
    int64_t offsets[EXG_RANK_MAX], chunk[EXG_RANK_MAX];

    exg_local_chunk(t->mesh, exg_device_mesh_rank(t->mesh), to, t->sizes, t->rank, offsets, chunk);
    for (uint32_t d = 0; rank == t->rank && d < rank; d++) {
        if (sizes[d] != chunk[d]) {
            return EXG_FAIL(err, USAGE, "DTN-015",
                            "a gradient of %" PRId64
                            " in dim %u, where its placements leave %" PRId64,
                            sizes[d], d, chunk[d]);
        }
    }
    return rank == t->rank
               ? EXG_OK
               : EXG_FAIL(err, USAGE, "DTN-015", "a gradient of %u dims, not %u", rank, t->rank);
}

exg_status exg_to_local_backward(const exg_dtensor *t, const exg_tensor *gradient,
                                 const exg_placement *placements, uint32_t count, exg_dtensor **out,
                                 exg_error *err)
{
    EXG_REQUIRE(err, t, out);
    exg_placement to[EXG_MESH_DIMS_MAX];
    int64_t sizes[EXG_RANK_MAX], strides[EXG_RANK_MAX];
    exg_status status;

    *out = NULL;
    if (gradient == NULL) {
        return EXG_OK;
    }
    EXG_TRY(wanted(t, placements, count, to, err));
    if (t->mesh->communicator != NULL) {
        EXG_TRY(exg_gradient_fits(t, to, gradient->sizes, gradient->rank, err));
    }
    exg_global_from_local(t->mesh, gradient, t->placements, sizes, strides);
    EXG_TRY(exg_dtensor_make(t->mesh, to, gradient, t->sizes, strides, out, err));
    status = exg_dtensor_settle(*out, err);
    if (status != EXG_OK) {
        exg_dtensor_destroy(*out);
        *out = NULL;
    }
    return status;
}

void exg_redistributed_gradient(const exg_dtensor *source, const exg_dtensor *gradient,
                                exg_placement *to)
{
    for (uint32_t m = 0; m < source->mesh->ndim; m++) {
        bool stays = source->placements[m].kind == EXG_PARTIAL &&
                     !exg_placement_equal(gradient->placements[m], source->placements[m]);

        to[m] = stays ? exg_replicate() : source->placements[m];
    }
}

exg_status exg_redistribute_backward(const exg_dtensor *source, const exg_dtensor *gradient,
                                     exg_dtensor **out, exg_error *err)
{
    EXG_REQUIRE(err, source, out);
    exg_placement to[EXG_MESH_DIMS_MAX];

    *out = NULL;
    if (gradient == NULL) {
        return EXG_OK;
    }
    exg_redistributed_gradient(source, gradient, to);
    return exg_dtensor_redistribute(gradient, to, source->mesh->ndim, out, err);
}

exg_status exg_dtensor_coerce_tangent(const exg_dtensor *t, exg_dtensor **out, exg_error *err)
{
    EXG_REQUIRE(err, t, out);
    exg_placement to[EXG_MESH_DIMS_MAX];

    exg_gradient_placements(t, to);
    return exg_dtensor_redistribute(t, to, t->mesh->ndim, out, err);
}

exg_status exg_dtensor_coerce_like(const exg_dtensor *t, const exg_dtensor *like, exg_dtensor **out,
                                   exg_error *err)
{
    EXG_REQUIRE(err, t, like, out);
    return exg_dtensor_redistribute(t, like->placements, like->mesh->ndim, out, err);
}

exg_status exg_from_local_backward(const exg_dtensor *t, const exg_dtensor *gradient,
                                   const exg_placement *placements, uint32_t count,
                                   exg_dtensor **out, exg_error *err)
{
    EXG_REQUIRE(err, t, out);
    exg_placement to[EXG_MESH_DIMS_MAX];

    *out = NULL;
    if (gradient == NULL) {
        return EXG_OK;
    }
    EXG_TRY(wanted(t, placements, count, to, err));
    if (t->mesh->communicator != NULL) { /* it is the gradient of this very part */
        int64_t offsets[EXG_RANK_MAX], chunk[EXG_RANK_MAX];

        exg_local_chunk(t->mesh, exg_device_mesh_rank(t->mesh), to, t->sizes, t->rank, offsets,
                        chunk);
        EXG_TRY(exg_gradient_fits(t, t->placements, chunk, t->rank, err));
    }
    return exg_dtensor_redistribute(gradient, to, t->mesh->ndim, out, err);
}
