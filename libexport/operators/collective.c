/* collective.c - shapes of collective.def. */
#include "libexport/operators/shape.h"

#include "libexport/operators/lower.h"

#include <exg/operator_id_new.h>

#define EXG_ROWS "libexport/operators/collective.def"
#include "libexport/operators/rows.h"

bool exg_is_exchange(exg_operator_id id)
{
    static const bool exchanges[EXG_OPERATOR_COUNT] = {
#define EXG_OPERATOR(id, schema, shape, lowering, kernel, sharding) [EXG_OP_##id] = true,
#include "libexport/operators/collective.def"

#undef EXG_OPERATOR
    };

    return (uint32_t)id < EXG_OPERATOR_COUNT && exchanges[id];
}

static exg_status resized(exg_shape_call *call, uint32_t dim_at, uint32_t size_at, exg_dims *out,
                          exg_error *err)
{
    uint32_t dim;

    EXG_TRY(exg_wrap_dim(exg_get_int(&call->args[dim_at]), out->rank, &dim, err));
    if (out->rank == 0) {
        return EXG_SHAPE_FAIL(err, "a collective over a dim of a 0-d tensor");
    }
    out->n[dim] = exg_get_int(&call->args[size_at]);
    return EXG_OK;
}

exg_status exg_shape_all_gather(exg_shape_call *call, exg_error *err)
{
    exg_dims out;

    EXG_TRY(exg_dims_of(exg_shape_input(call, 0), &out, err));
    EXG_TRY(resized(call, 1, 2, &out, err));
    return exg_shape_result(call, 0, exg_shape_input(call, 0)->dtype, &out, err);
}

exg_status exg_shape_window(exg_shape_call *call, exg_error *err)
{
    exg_dims out;

    EXG_TRY(exg_dims_of(exg_shape_input(call, 0), &out, err));
    EXG_TRY(resized(call, 1, 8, &out, err));
    return exg_shape_result(call, 0, exg_shape_input(call, 0)->dtype, &out, err);
}

exg_status exg_shape_reduce_scatter(exg_shape_call *call, exg_error *err)
{
    return exg_shape_all_gather(call, err);
}

exg_status exg_shape_all_to_all(exg_shape_call *call, exg_error *err)
{
    exg_dims out;

    EXG_TRY(exg_dims_of(exg_shape_input(call, 0), &out, err));
    EXG_TRY(resized(call, 1, 2, &out, err));
    EXG_TRY(resized(call, 3, 4, &out, err));
    return exg_shape_result(call, 0, exg_shape_input(call, 0)->dtype, &out, err);
}
