/* drawn.c - operators that draw as many numbers as a DTensor has elements: what they give lies as
 * the tensor does. Each number is keyed by its place in the whole, so parts of a draw are those of
 * the draw that is whole. */
#include "libexec/dispatch/dispatcher.h"

#include <string.h>

static const char *const drawn[] = {
    "aten.bernoulli.default",
    "aten.bernoulli.p",
    "aten.bernoulli.Tensor",
    "aten.poisson.default",
    "aten.binomial.default",
    "aten._standard_gamma.default",
    "aten.randint_like.default",
    "aten.randint_like.low_dtype",
    "aten.randint_like.Tensor",
    "aten.uniform.default",
    "aten.normal_functional.default",
    "aten.exponential.default",
    "aten.cauchy.default",
    "aten.geometric.default",
    "aten.log_normal.default",
    "aten.random.default",
    "aten.random.from",
    "aten.random.to",
};

/* Is it whole on every rank, of the sizes of `like`, which is not? */
static bool lies_otherwise(const exg_dtensor *t, const exg_dtensor *like)
{
    bool whole = t->mesh == like->mesh && t->rank == like->rank &&
                 memcmp(t->sizes, like->sizes, t->rank * sizeof(t->sizes[0])) == 0;
    bool split = false;

    for (uint32_t m = 0; m < t->mesh->ndim; m++) {
        whole = whole && t->placements[m].kind == EXG_REPLICATE;
        split = split || exg_placement_is_shard(like->placements[m]);
    }
    return whole && split;
}

static exg_status lay(const exg_dtensor *like, exg_object *result, exg_error *err)
{
    exg_placement placements[EXG_MESH_DIMS_MAX];
    exg_dtensor *whole = result->dtensor;
    exg_dtensor *t;

    for (uint32_t m = 0; m < like->mesh->ndim; m++) {
        placements[m] =
            exg_placement_is_shard(like->placements[m]) ? like->placements[m] : exg_replicate();
    }
    EXG_TRY(exg_dtensor_redistribute(whole, placements, like->mesh->ndim, &t, err));
    exg_dtensor_destroy(whole);
    *result = exg_object_dtensor(t);
    return EXG_OK;
}

static exg_status draw_alike(void *user, exg_dispatcher *d, const char *key, const exg_object *args,
                             uint32_t arg_count, const exg_named_object *kwargs,
                             uint32_t kwarg_count, exg_object *result, exg_error *err)
{
    (void)user;
    EXG_TRY(exg_dispatch_by_table(d, key, args, arg_count, kwargs, kwarg_count, result, err));
    if (result->kind != EXG_OBJECT_DTENSOR || arg_count == 0 ||
        args[0].kind != EXG_OBJECT_DTENSOR || !lies_otherwise(result->dtensor, args[0].dtensor)) {
        return EXG_OK;
    }
    return lay(args[0].dtensor, result, err);
}

exg_status exg_register_drawn(exg_dispatcher *d, exg_error *err)
{
    for (size_t i = 0; i < sizeof(drawn) / sizeof(drawn[0]); i++) {
        exg_op_registration registration = {.handler = draw_alike};

        EXG_TRY(exg_dispatcher_register(d, drawn[i], &registration, err));
    }
    return EXG_OK;
}
