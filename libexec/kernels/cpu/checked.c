/* checked.c - a tensor as it is, and a fault unless everything about it holds. */
#include "libexec/kernels/cpu/common.h"

static exg_status checked_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *in = &call->inputs[0];
    exg_move *move = EXG_NEW(call->arena, exg_move);

    if (move == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (call->inputs[1].dtype != EXG_DTYPE_B8) {
        return exg_unsupported_dtype("checked", call->inputs[1].dtype, err);
    }
    exg_move_plan(move, in->rank, in->sizes, call->outputs[0].strides, in->strides,
                  exg_dtype_bytes(in->dtype));
    call->params = move;
    return EXG_OK;
}

static void checked_run(const exg_kernel_call *call)
{
    const uint8_t *holds = call->inputs[1].data;

    for (int64_t i = 0; i < exg_tensor_numel(&call->inputs[1]); i++) {
        if (holds[i] == 0) {
            exg_raise(call, EXG_FAULT_PARAMETER);
            break;
        }
    }
    if (call->outputs[0].data != call->inputs[0].data) {
        exg_move_run(call->params, call->pool, call->outputs[0].data, call->inputs[0].data);
    }
}

const exg_kernel exg_kernel_checked = {
    .name = "checked",
    .prepare = checked_prepare,
    .run = checked_run,
    .flags = EXG_KERNEL_IN_PLACE | EXG_KERNEL_RAISES,
};
