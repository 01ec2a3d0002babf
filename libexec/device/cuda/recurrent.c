/* recurrent.c - the steps of a recurrent layer in one direction, one after the other: of each the
 * product of state and weight, and its cells. A step's state is where the output has it.
 */
#include "libexec/device/cuda/kernel_args.h"
#include "libexec/device/cuda/operand.h"
#include "libexec/device/cuda/product.h"
#include "libexec/kernels/cpu/common.h"

#define STEPS_MAX 4096 /* each is two launches of the plan */

static const char *const cells[EXG_CELL_COUNT] = {
    [EXG_CELL_TANH] = "tanh",
    [EXG_CELL_RELU] = "relu",
    [EXG_CELL_LSTM] = "lstm",
    [EXG_CELL_GRU] = "gru",
};

typedef struct layer {
    exg_dtype dtype;
    int64_t steps, batch, hidden, gates;
    exg_cell kind;
    bool backward;
} layer;

static uint64_t bytes_of(const layer *l, int64_t elements)
{
    return (uint64_t)elements * exg_dtype_bytes(l->dtype);
}

/* All of an operand to a result. */
static exg_status add_copy(exg_kernel_call *call, uint32_t input, uint8_t output, exg_error *err)
{
    exg_piece piece = {.input = input, .rank = 1, .from_strides = {1}, .to_strides = {1}};

    piece.sizes[0] = exg_tensor_numel(&call->inputs[input]);
    return exg_cuda_add_piece(call, &piece, (exg_cuda_slot){EXG_CUDA_OUTPUT, output, 0}, err);
}

static exg_status add_cells(exg_kernel_call *call, const layer *l, int64_t t, exg_cuda_slot state,
                            bool is_last, exg_error *err)
{
    const cuda_cell_params params = {.rows = l->batch, .units = l->hidden, .gates = l->gates};
    exg_cuda_launch *launch = NULL;

    EXG_TRY(EXG_CUDA_ADD(call, "recurrent", "step",
                         is_last ? "i0 w i2 iz o2 o0 o1" : "i0 w i2 iz o2 o0 iz", params, &launch,
                         err, "-DX=%s -DCELL=exg_cell_%s_%s", exg_cuda_dtype(l->dtype),
                         cells[l->kind], l->dtype == EXG_DTYPE_F64 ? "f64" : "f32"));
    launch->slots[0].offset = bytes_of(l, t * l->batch * l->gates);
    launch->slots[3] = state;
    launch->slots[5].offset = bytes_of(l, t * l->batch * l->hidden);
    exg_cuda_grid(launch, l->batch * l->hidden);
    return EXG_OK;
}

/* The state's weight (gates, hidden), transposed, is the second matrix. */
static exg_cuda_product product_of(const exg_kernel_call *call, const layer *l)
{
    const exg_tensor *weight = &call->inputs[1];

    return (exg_cuda_product){
        .of = {.batch = 1,
               .m = l->batch,
               .n = l->gates,
               .k = l->hidden,
               .alpha = 1,
               .of_a = {0, l->hidden, 1},
               .of_b = {0, weight->strides[1], weight->strides[0]}},
        .a_dtype = l->dtype,
        .b_dtype = l->dtype,
        .c_dtype = l->dtype,
        .b = {EXG_CUDA_INPUT, 1, 0},
        .c = {EXG_CUDA_WORKSPACE, 0, 0},
        .workspace = (uint64_t)exg_round_up((int64_t)bytes_of(l, l->batch * l->gates), 256),
    };
}

/* (from_input, weight, bias?, h, c?, cell, backward) -> (out, h, c) */
static exg_status recurrent_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *x = &call->inputs[0];
    const layer l = {.dtype = x->dtype,
                     .steps = x->sizes[0],
                     .batch = x->sizes[1],
                     .hidden = call->inputs[1].sizes[1],
                     .gates = call->inputs[1].sizes[0],
                     .kind = (exg_cell)exg_call_int(call, 5),
                     .backward = exg_call_bool(call, 6)};
    exg_cuda_product product = product_of(call, &l);

    if (x->dtype != EXG_DTYPE_F32 && x->dtype != EXG_DTYPE_F64) {
        return exg_unsupported_dtype("recurrent", x->dtype, err);
    }
    if (l.steps > STEPS_MAX) {
        return exg_cuda_refuse("a recurrent layer of so many steps", err);
    }
    EXG_TRY(exg_cuda_step_begin(call, err));
    if (l.kind == EXG_CELL_LSTM) {
        EXG_TRY(add_copy(call, 4, 2, err));
    }
    if (l.steps == 0) {
        return add_copy(call, 3, 1, err);
    }
    if (l.batch * l.hidden == 0) {
        return EXG_OK;
    }
    call->workspace_bytes = product.workspace;
    product.a = (exg_cuda_slot){EXG_CUDA_INPUT, 3, 0};
    for (int64_t i = 0; i < l.steps; i++) {
        int64_t t = l.backward ? l.steps - 1 - i : i;

        EXG_TRY(exg_cuda_add_product(call, &product, err));
        EXG_TRY(add_cells(call, &l, t, product.a, i + 1 == l.steps, err));
        product.a = (exg_cuda_slot){EXG_CUDA_OUTPUT, 0, bytes_of(&l, t * l.batch * l.hidden)};
    }
    return EXG_OK;
}

EXG_CUDA_KERNEL(recurrent, 0);
