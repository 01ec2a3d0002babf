/* move.c - kernels that bring elements elsewhere: copy, those of pieces, tril, triu. */
#include "libexec/device/cuda/kernel_args.h"
#include "libexec/device/cuda/kernel_table.h"
#include "libexec/device/cuda/operand.h"
#include "libexec/kernels/cpu/common.h"

static const exg_cuda_slot result = {EXG_CUDA_OUTPUT, 0, 0};

static exg_status add_piece(exg_kernel_call *call, const exg_piece *piece, exg_cuda_slot slot,
                            bool is_copy_of_self, exg_error *err)
{
    uint32_t bytes = exg_dtype_bytes(call->inputs[piece->input].dtype);
    exg_tensor from = {.rank = piece->rank};
    exg_tensor to = {.rank = piece->rank};
    cuda_copy_params params = {0};
    exg_cuda_launch *launch = NULL;

    memcpy(from.sizes, piece->sizes, sizeof(from.sizes));
    memcpy(to.sizes, piece->sizes, sizeof(to.sizes));
    memcpy(from.strides, piece->from_strides, sizeof(from.strides));
    memcpy(to.strides, piece->to_strides, sizeof(to.strides));
    params.numel = exg_tensor_numel(&to);
    if (params.numel == 0) {
        return EXG_OK;
    }
    exg_cuda_views(&from, &to, &params.from, &params.to);
    EXG_TRY(EXG_CUDA_ADD(call, "copy", "copy", "i0 o0", params, &launch, err,
                         "-DELEMENT=element_%u", bytes));
    launch->slots[0].index = (uint8_t)piece->input;
    launch->slots[0].offset = (uint64_t)piece->from * bytes;
    launch->slots[1] = slot;
    launch->slots[1].offset += (uint64_t)piece->to * bytes;
    launch->is_copy_of_self = is_copy_of_self;
    exg_cuda_grid(launch, params.numel);
    return EXG_OK;
}

exg_status exg_cuda_add_piece(exg_kernel_call *call, const exg_piece *piece, exg_cuda_slot to,
                              exg_error *err)
{
    return add_piece(call, piece, to, false, err);
}

/* Operand 0 as a whole. */
static exg_piece whole(const exg_kernel_call *call)
{
    const exg_tensor *in = &call->inputs[0];
    const exg_tensor *out = &call->outputs[0];
    exg_piece piece = {.rank = in->rank};

    memcpy(piece.sizes, in->sizes, sizeof(piece.sizes));
    memcpy(piece.from_strides, in->strides, sizeof(piece.from_strides));
    memcpy(piece.to_strides, out->strides, sizeof(piece.to_strides));
    return piece;
}

exg_status exg_cuda_add_copy_of_self(exg_kernel_call *call, exg_error *err)
{
    exg_piece piece = whole(call);

    return add_piece(call, &piece, result, true, err);
}

static exg_status copy_prepare(exg_kernel_call *call, exg_error *err)
{
    exg_piece piece = whole(call);

    EXG_TRY(exg_cuda_step_begin(call, err));
    return add_piece(call, &piece, result, false, err);
}

EXG_CUDA_KERNEL(copy, EXG_KERNEL_ANY_STRIDES);

/* ---- pieces ------------------------------------------------------------------------------ */

static exg_status arrange(exg_kernel_call *call, exg_pieces_find *find, exg_error *err)
{
    exg_pieces *p;

    EXG_TRY(find(call, &p, err));
    if (call->input_count > UINT8_MAX) {
        return exg_cuda_refuse("more than 255 operands", err);
    }
    EXG_TRY(exg_cuda_step_begin(call, err));
    if (p->fills) {
        EXG_TRY(exg_cuda_add_fill(call, p->element, err));
    }
    for (uint32_t i = 0; i < p->count; i++) {
        EXG_TRY(add_piece(call, &p->items[i], result, i == 0 && p->keeps_self, err));
    }
    return EXG_OK;
}

#define ARRANGING(name, flags_)                                                                    \
    static exg_status name##_prepare(exg_kernel_call *call, exg_error *err)                        \
    {                                                                                              \
        return arrange(call, exg_pieces_of_##name, err);                                           \
    }                                                                                              \
    EXG_CUDA_KERNEL(name, flags_);
EXG_KERNELS_OF_PIECES(ARRANGING)

static exg_status triangle_prepare(exg_kernel_call *call, bool is_upper, exg_error *err)
{
    const exg_tensor *in = &call->inputs[0];
    cuda_triangle_params params = {.numel = exg_tensor_numel(in),
                                   .rows = in->sizes[in->rank - 2],
                                   .columns = in->sizes[in->rank - 1],
                                   .diagonal = exg_call_int(call, 1),
                                   .is_upper = is_upper};
    exg_cuda_launch *launch = NULL;

    EXG_TRY(exg_cuda_step_begin(call, err));
    if (params.numel == 0) {
        return EXG_OK;
    }
    EXG_TRY(EXG_CUDA_ADD(call, "triangle", "triangle", "i0 o0", params, &launch, err,
                         "-DELEMENT=element_%u", exg_dtype_bytes(in->dtype)));
    exg_cuda_grid(launch, params.numel);
    return EXG_OK;
}

static exg_status tril_prepare(exg_kernel_call *call, exg_error *err)
{
    return triangle_prepare(call, false, err);
}

static exg_status triu_prepare(exg_kernel_call *call, exg_error *err)
{
    return triangle_prepare(call, true, err);
}

EXG_CUDA_KERNEL(tril, 0);
EXG_CUDA_KERNEL(triu, 0);
