/* move.c - kernels that bring elements elsewhere: copy, those of pieces, tril, triu. */
#include "libexec/device/cuda/kernel_args.h"
#include "libexec/device/cuda/kernel_table.h"
#include "libexec/device/cuda/operand.h"
#include "libexec/kernels/cpu/common.h"

static const exg_cuda_slot result = {EXG_CUDA_OUTPUT, 0, 0};

/* Do as many elements as `length` go into one word, and lie side by side in both? */
static bool fits(const exg_piece *piece, const cuda_copy_params *params, uint32_t length)
{
    int32_t last = params->from.rank - 1;
    int64_t rest;

    if (length == 1) {
        return true;
    }
    if (last < 0 || params->from.strides[last] != 1 || params->to.strides[last] != 1) {
        return false;
    }
    rest = params->from.sizes[last] % length + piece->from % length + piece->to % length;
    for (int32_t d = 0; d < last; d++) {
        rest += params->from.strides[d] % length != 0;
        rest += params->to.strides[d] % length != 0;
    }
    return rest == 0;
}

/* Turns views of elements into such of words. */
static void widen(cuda_copy_params *params, uint32_t length)
{
    int32_t last = params->from.rank - 1;

    for (int32_t d = 0; length > 1 && d < last; d++) {
        params->from.strides[d] /= length;
        params->to.strides[d] /= length;
    }
    if (length > 1) {
        params->from.sizes[last] /= length;
        params->to.sizes[last] /= length;
        params->numel /= length;
    }
}

static cuda_copy_params params_of(const exg_piece *piece)
{
    exg_tensor from = {.rank = piece->rank};
    exg_tensor to = {.rank = piece->rank};
    cuda_copy_params params = {0};

    memcpy(from.sizes, piece->sizes, sizeof(from.sizes));
    memcpy(to.sizes, piece->sizes, sizeof(to.sizes));
    memcpy(from.strides, piece->from_strides, sizeof(from.strides));
    memcpy(to.strides, piece->to_strides, sizeof(to.strides));
    params.numel = exg_tensor_numel(&to);
    if (params.numel > 0) {
        exg_cuda_views(&from, &to, &params.from, &params.to);
    }
    return params;
}

static void set_slots(exg_cuda_launch *launch, uint32_t at, const exg_piece *piece,
                      exg_cuda_slot slot, uint32_t bytes)
{
    launch->slots[at].index = (uint8_t)piece->input;
    launch->slots[at].offset = (uint64_t)piece->from * bytes;
    launch->slots[at + 1] = slot;
    launch->slots[at + 1].offset += (uint64_t)piece->to * bytes;
}

/* One copy, or two that write apart in one launch. */
static exg_status add_copies(exg_kernel_call *call, const exg_piece *pieces, uint32_t count,
                             exg_cuda_slot slot, bool is_copy_of_self, exg_error *err)
{
    uint32_t bytes = exg_dtype_bytes(call->inputs[pieces[0].input].dtype);
    uint32_t length = EXG_CUDA_WORD / bytes;
    cuda_copies_params params;
    exg_cuda_launch *launch = NULL;

    for (uint32_t i = 0; i < count; i++) {
        params.copies[i] = params_of(&pieces[i]);
        while (!fits(&pieces[i], &params.copies[i], length)) {
            length /= 2;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        widen(&params.copies[i], length);
    }
    EXG_TRY(exg_cuda_add(
        call, "libexec/kernels/cuda/copy.cu", "copy", count == 1 ? "i0 o0" : "i0 o0 i0 o0", &params,
        count * sizeof(params.copies[0]), &launch, err, "-DBYTES=%u -DLENGTH=%u%s",
        EXG_MIN(bytes, 8), bytes > 8 ? length * bytes / 8 : length, count == 1 ? "" : " -DTWO"));
    for (uint32_t i = 0; i < count; i++) {
        set_slots(launch, 2 * i, &pieces[i], slot, bytes);
    }
    launch->is_copy_of_self = is_copy_of_self;
    exg_cuda_grid(launch, EXG_MAX(params.copies[0].numel, count == 1 ? 0 : params.copies[1].numel));
    if (count == 2) {
        launch->apart_count = 2;
        launch->apart_at = sizeof(params.copies[0]);
        launch->blocks[1] = 2;
    }
    return EXG_OK;
}

static bool is_empty(const exg_piece *piece)
{
    bool empty = false;

    for (uint32_t d = 0; d < piece->rank; d++) {
        empty = empty || piece->sizes[d] == 0;
    }
    return empty;
}

static exg_status add_piece(exg_kernel_call *call, const exg_piece *piece, exg_cuda_slot slot,
                            bool is_copy_of_self, exg_error *err)
{
    return is_empty(piece) ? EXG_OK : add_copies(call, piece, 1, slot, is_copy_of_self, err);
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

/* Two of one dtype that do not write over one another, as pieces of a whole do. */
static bool is_pair(const exg_pieces *p, uint32_t i)
{
    return !p->keeps_self && !p->fills && i + 1 < p->count && !is_empty(&p->items[i]) &&
           !is_empty(&p->items[i + 1]);
}

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
        if (is_pair(p, i)) {
            EXG_TRY(add_copies(call, &p->items[i++], 2, result, false, err));
        } else {
            EXG_TRY(add_piece(call, &p->items[i], result, i == 0 && p->keeps_self, err));
        }
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
