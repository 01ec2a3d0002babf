/* write.c - a value written to a DTensor that keeps its placements and its memory. */
#include "libexec/dispatch/dispatcher.h"
#include "libexec/dtensor/storage.h"

#include <string.h>

/* `from` in the dtype of `self`. */
static exg_status cast(exg_dispatcher *d, const exg_dtensor *self, exg_dtensor *from,
                       exg_object *result, exg_error *err)
{
    exg_object args[1] = {exg_object_dtensor(from)};
    exg_named_object dtype = {"dtype", exg_object_value(exg_arg_dtype(self->local.dtype))};

    return exg_dispatch(d, "aten._to_copy.default", args, 1, &dtype, 1, result, err);
}

static exg_status check(const exg_dtensor *self, const exg_dtensor *from, exg_error *err)
{
    if (!exg_dims_equal(self->sizes, self->rank, from->sizes, from->rank)) {
        return EXG_FAIL(err, USAGE, "DSP-007",
                        "a result of other sizes than the tensor it is "
                        "written to");
    }
    for (uint32_t m = 0; m < self->mesh->ndim; m++) {
        if (self->placements[m].kind == EXG_PARTIAL &&
            !exg_placement_equal(self->placements[m], from->placements[m])) {
            return EXG_FAIL(err, UNSUPPORTED, "DSP-006",
                            "inplace_moves_self: the tensor written is Partial, and the result "
                            "is not");
        }
    }
    return EXG_OK;
}

exg_status exg_dtensor_write(exg_dispatcher *d, exg_dtensor *self, const exg_dtensor *from,
                             exg_error *err)
{
    exg_object as_cast = exg_object_none();
    exg_dtensor *moved;
    exg_status status;

    EXG_TRY(check(self, from, err));
    EXG_TRY(exg_dtensor_move(from, self->placements, false, &moved, err));
    status = EXG_OK;
    if (moved->local.dtype != self->local.dtype) {
        status = cast(d, self, moved, &as_cast, err);
        exg_dtensor_destroy(moved);
        moved = status == EXG_OK ? as_cast.dtensor : NULL;
    }
    if (status == EXG_OK && self->mesh->communicator != NULL &&
        moved->local.data != self->local.data) {
        status = exg_dtensor_copy_part(moved, self, err);
        exg_block_touch(self->owned);
    }
    exg_dtensor_destroy(moved);
    return status;
}
