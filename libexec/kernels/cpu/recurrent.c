/* recurrent.c - the steps of a recurrent layer in one direction, one after the other. The
 * input's products of all steps are there; a step adds those of the state and goes through
 * the cell: for each unit, gates lie `hidden` apart.
 */
#include "libexec/kernels/cpu/gemm.h"

#include <math.h>

typedef enum cell { CELL_TANH, CELL_RELU, CELL_LSTM, CELL_GRU } cell;

typedef struct recurrent_params {
    exg_gemm gemm; /* state (batch, hidden) by the weight's transpose */
    int64_t steps, batch, hidden, gates;
    uint64_t products_offset; /* in the workspace: of one step */
    cell kind;
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

    return exg_gemm_packing_plan(call, &b, weight->sizes[0], weight->sizes[1], err);
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
                            .kind = (cell)exg_call_int(call, 5),
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
    p->products_offset = (call->workspace_bytes + 63) & ~(uint64_t)63;
    call->workspace_bytes =
        p->products_offset + (uint64_t)(p->batch * p->gates) * p->bytes;
    call->params = p;
    return EXG_OK;
}

/* One row of a step: x, s: what input and state give each gate; h and c are replaced. */
#define CELLS(name, real, exp_, tanh_)                                                         \
    static real name##_sigmoid(real x)                                                         \
    {                                                                                          \
        return 1 / (1 + exp_(-x));                                                             \
    }                                                                                          \
    static void name##_row(cell kind, int64_t n, const real *x, const real *s, const real *bias, \
                           real *h, real *c)                                                   \
    {                                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                      \
            real g[4] = {0};                                                                   \
            int64_t gates = kind == CELL_LSTM ? 4 : kind == CELL_GRU ? 3 : 1;                  \
                                                                                               \
            for (int64_t k = 0; k < gates; k++) {                                              \
                g[k] = s[k * n + i] + (bias == NULL ? 0 : bias[k * n + i]);                    \
            }                                                                                  \
            if (kind == CELL_LSTM) {                                                           \
                c[i] = name##_sigmoid(x[n + i] + g[1]) * c[i] +                                \
                       name##_sigmoid(x[i] + g[0]) * tanh_(x[2 * n + i] + g[2]);               \
                h[i] = name##_sigmoid(x[3 * n + i] + g[3]) * tanh_(c[i]);                      \
            } else if (kind == CELL_GRU) {                                                     \
                real fresh = tanh_(x[2 * n + i] + name##_sigmoid(x[i] + g[0]) * g[2]);         \
                                                                                               \
                h[i] = fresh + name##_sigmoid(x[n + i] + g[1]) * (h[i] - fresh);               \
            } else {                                                                           \
                real sum = x[i] + g[0];                                                        \
                                                                                               \
                h[i] = kind == CELL_TANH ? tanh_(sum) : sum > 0 ? sum : sum != sum ? sum : 0;  \
            }                                                                                  \
        }                                                                                      \
    }

CELLS(f32, float, expf, tanhf)
CELLS(f64, double, exp, tanh)

static void recurrent_run(const exg_kernel_call *call)
{
    const recurrent_params *p = call->params;
    const exg_tensor *bias = &call->inputs[2];
    const void *weight = call->packed != NULL ? call->packed->data : call->inputs[1].data;
    bool has_cell = p->kind == CELL_LSTM;
    uint64_t state = (uint64_t)(p->batch * p->hidden) * p->bytes;
    uint64_t row = (uint64_t)p->hidden * p->bytes;
    uint64_t gates = (uint64_t)p->gates * p->bytes;
    char *products = (char *)call->workspace + p->products_offset;
    char *h = call->outputs[1].data;
    char *c = call->outputs[2].data;

    memcpy(h, call->inputs[3].data, state);
    if (has_cell) {
        memcpy(c, call->inputs[4].data, state);
    }
    for (int64_t i = 0; i < p->steps; i++) {
        int64_t t = p->backward ? p->steps - 1 - i : i;
        const char *x = (const char *)call->inputs[0].data + (uint64_t)(t * p->batch) * gates;

        exg_gemm_run(&p->gemm, call, call->workspace, products, h, weight, NULL);
        for (int64_t b = 0; b < p->batch; b++) {
            const void *from[] = {x + (uint64_t)b * gates, products + (uint64_t)b * gates,
                                  exg_tensor_is_absent(bias) ? NULL : bias->data};
            void *to[] = {h + (uint64_t)b * row, has_cell ? c + (uint64_t)b * row : NULL};

            if (p->bytes == 4) {
                f32_row(p->kind, p->hidden, from[0], from[1], from[2], to[0], to[1]);
            } else {
                f64_row(p->kind, p->hidden, from[0], from[1], from[2], to[0], to[1]);
            }
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
