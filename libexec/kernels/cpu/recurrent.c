/* recurrent.c - the steps of a recurrent layer in one direction, one after the other. The
 * input's products of all steps are there; a step adds those of the state and goes through
 * the cell: for each unit, gates lie `hidden` apart.
 */
#include "libexec/kernels/cpu/gemm.h"

typedef struct recurrent_params {
    exg_gemm gemm; /* state (batch, hidden) by the weight's transpose */
    int64_t steps, batch, hidden, gates;
    uint64_t products_offset; /* in the workspace: of one step */
    exg_cell_loop *cell;
    bool has_cell; /* the state has a second part */
    bool backward;
    uint32_t bytes; /* of an element: 4, 8 */
} recurrent_params;

/* The state's weight (gates, hidden), transposed. */
static exg_matrix weight_matrix(const exg_tensor *weight)
{
    return (exg_matrix){weight->dtype, 0, weight->strides[1], weight->strides[0], 0};
}

static exg_status recurrent_pack_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *weight = &call->inputs[1];
    exg_matrix b = weight_matrix(weight);

    return exg_gemm_packing_plan(call, &b, EXG_GEMM_MANY, weight->sizes[0], weight->sizes[1], err);
}

static void recurrent_pack_run(const exg_kernel_call *call)
{
    exg_gemm_packing_run(call, call->inputs[1].data);
}

static const exg_kernel recurrent_pack = {
    .name = "recurrent_pack",
    .prepare = recurrent_pack_prepare,
    .run = recurrent_pack_run,
};

/* (from_input, weight, bias?, h, c?, cell, backward) -> (out, h, c) */
static exg_status recurrent_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *x = &call->inputs[0];
    const exg_tensor *weight = &call->inputs[1];
    const exg_recurrent_loops *loops = EXG_LOOPS(exg_loops_recurrent);
    exg_cell kind = (exg_cell)exg_call_int(call, 5);
    recurrent_params *p = EXG_NEW(call->arena, recurrent_params);

    if (p == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (x->dtype != EXG_DTYPE_F32 && x->dtype != EXG_DTYPE_F64) {
        return exg_unsupported_dtype("recurrent", x->dtype, err);
    }
    *p = (recurrent_params){.steps = x->sizes[0],
                            .batch = x->sizes[1],
                            .hidden = weight->sizes[1],
                            .gates = weight->sizes[0],
                            .cell = x->dtype == EXG_DTYPE_F32 ? loops->f32[kind] : loops->f64[kind],
                            .has_cell = kind == EXG_CELL_LSTM,
                            .backward = exg_call_bool(call, 6),
                            .bytes = exg_dtype_bytes(x->dtype)};
    p->gemm = (exg_gemm){.batch = 1,
                         .m = p->batch,
                         .n = p->gates,
                         .k = p->hidden,
                         .a = {x->dtype, 0, p->hidden, 1, 0},
                         .b = weight_matrix(weight),
                         .b_is_packed = call->packed != NULL,
                         .c_dtype = x->dtype,
                         .alpha = 1};
    EXG_TRY(exg_gemm_plan(&p->gemm, call, err));
    call->takes_epilogue = false; /* products are no results */
    p->products_offset = (call->workspace_bytes + 63) & ~(uint64_t)63;
    call->workspace_bytes = p->products_offset + (uint64_t)(p->batch * p->gates) * p->bytes;
    call->params = p;
    return EXG_OK;
}

static void recurrent_run(const exg_kernel_call *call)
{
    const recurrent_params *p = call->params;
    const void *weight = call->packed != NULL ? call->packed->data : call->inputs[1].data;
    uint64_t state = (uint64_t)(p->batch * p->hidden) * p->bytes;
    uint64_t row = (uint64_t)p->hidden * p->bytes;
    uint64_t gates = (uint64_t)p->gates * p->bytes;
    char *products = (char *)call->workspace + p->products_offset;
    const void *bias = exg_tensor_is_absent(&call->inputs[2]) ? NULL : call->inputs[2].data;
    char *h = call->outputs[1].data;
    char *c = call->outputs[2].data;

    memcpy(h, call->inputs[3].data, state);
    if (p->has_cell) {
        memcpy(c, call->inputs[4].data, state);
    }
    for (int64_t i = 0; i < p->steps; i++) {
        int64_t t = p->backward ? p->steps - 1 - i : i;
        const char *x = (const char *)call->inputs[0].data + (uint64_t)(t * p->batch) * gates;

        exg_gemm_run(&p->gemm, call, call->workspace, products, h, weight, NULL);
        for (uint64_t b = 0; b < (uint64_t)p->batch; b++) {
            p->cell(p->hidden, x + b * gates, products + b * gates, bias, h + b * row,
                    p->has_cell ? c + b * row : NULL);
        }
        memcpy((char *)call->outputs[0].data + (uint64_t)t * state, h, state);
    }
}

const exg_kernel exg_kernel_recurrent = {
    .name = "recurrent",
    .prepare = recurrent_prepare,
    .run = recurrent_run,
    .packer = &recurrent_pack,
    .packs = 1,
};
