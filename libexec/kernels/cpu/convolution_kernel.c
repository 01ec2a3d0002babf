/* convolution_kernel.c - aten.convolution: which way it is computed, by a matrix product or
 * otherwise. */
#include "libexec/kernels/cpu/convolution.h"

/* A transposed convolution as one over an image with stride - 1 zeros in between:
 * taps run backwards, the padding is what is left of the kernel. */
static void turn_transposed(exg_kernel_call *call, convolution *c)
{
    const exg_tensor *weight = &call->inputs[1];
    int64_t sizes[6] = {c->groups, c->out, c->in, c->kernel[0], c->kernel[1], c->kernel[2]};
    int64_t dst[6] = {c->out * c->in * c->taps,    c->in * c->taps, c->taps,
                      c->kernel[1] * c->kernel[2], c->kernel[2],    1};
    int64_t src[6] = {c->in * c->out * c->taps,     c->taps,       c->out * c->taps,
                      -c->kernel[1] * c->kernel[2], -c->kernel[2], -1};

    exg_move_plan(&c->weight_move, 6, sizes, dst, src, c->bytes);
    c->weight_bytes = (uint64_t)(exg_tensor_numel(weight) * c->bytes + 63) & ~UINT64_C(63);
    call->workspace_bytes = c->weight_bytes;
    for (uint32_t d = 0; d < 3; d++) {
        c->gap[d] = c->stride[d];
        c->stride[d] = 1;
        c->padding[d] = c->dilation[d] * (c->kernel[d] - 1) - c->padding[d];
    }
}

/* Whether the columns are the image; extra places of a transposed one are none of it. */
static bool is_pointwise(const convolution *c)
{
    bool pointwise = c->taps == 1 && c->positions == c->plane;

    for (uint32_t d = 0; d < 3; d++) {
        pointwise = pointwise && c->stride[d] == 1 && c->padding[d] == 0 && c->gap[d] == 1;
    }
    return pointwise;
}

static exg_status plan_gemm(exg_kernel_call *call, convolution *c, exg_error *err)
{
    exg_gemm *g = &c->gemm;

    g->batch = c->batch * c->groups;
    g->m = c->out;
    g->n = c->positions;
    g->k = c->in * c->taps;
    g->a = (exg_matrix){c->dtype, c->out * g->k, g->k, 1, c->groups};
    g->b = (exg_matrix){c->dtype, c->in * c->plane, c->plane, 1, 0};
    g->c_dtype = c->dtype;
    g->alpha = 1;
    if (c->has_bias) {
        g->has_self = true;
        g->beta = 1;
        g->self = (exg_matrix){c->dtype, c->out, 1, 0, c->groups};
    }
    if (!is_pointwise(c)) {
        g->pack_b = exg_convolution_pack_columns;
        g->pack_context = c;
    }
    EXG_TRY(exg_gemm_plan(g, call, err));
    if (g->loops != NULL) { /* NULL when the result has no element */
        c->panel = g->loops->columns;
    }
    return EXG_OK;
}

static exg_status convolution_prepare(exg_kernel_call *call, exg_error *err)
{
    convolution *c = EXG_NEW(call->arena, convolution);
    exg_dtype dtype = call->inputs[0].dtype;

    if (c == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (!exg_convolution_integer_suits(dtype)) {
        EXG_TRY(exg_require_float("convolution", dtype, err));
    }
    for (uint32_t i = 1; i < call->input_count; i++) {
        if (!exg_tensor_is_absent(&call->inputs[i]) && call->inputs[i].dtype != dtype) {
            return exg_unsupported_dtype("convolution with a weight", call->inputs[i].dtype, err);
        }
    }
    if (call->inputs[1].rank < 3 || call->inputs[1].rank > 5) {
        return EXG_FAIL(err, UNSUPPORTED, "KRN-010", "a convolution over %u dimensions",
                        call->inputs[1].rank - 2);
    }
    if (call->channels_last) {
        return exg_convolution_last_prepare(call, err);
    }
    exg_convolution_read(call, c);
    c->transposed = exg_call_bool(call, 6);
    call->params = c;
    c->scatters = exg_convolution_scatters(c);
    if (c->scatters) {
        return exg_convolution_scatter_plan(call, c, err);
    }
    if (c->transposed) {
        turn_transposed(call, c);
    }
    c->by_windows = exg_convolution_windows_plan(c);
    return c->by_windows || exg_dtype_is_integral(dtype) ? EXG_OK : plan_gemm(call, c, err);
}

static void convolution_run(const exg_kernel_call *call)
{
    const convolution *c = call->params;
    const char *weight = call->inputs[1].data;
    const char *bias;

    if (call->channels_last) {
        exg_convolution_last_run(call);
        return;
    }
    if (c->scatters) {
        exg_convolution_scatter_run(call, c);
        return;
    }
    bias = c->has_bias ? call->inputs[2].data : NULL;
    if (c->transposed) {
        int64_t last = (c->taps - 1) * c->bytes;

        exg_move_run(&c->weight_move, call->pool, call->workspace, weight + last);
        weight = call->workspace;
    }
    if (exg_dtype_is_integral(c->dtype)) {
        exg_convolution_integer_run(call, c, weight);
    } else if (c->by_windows) {
        exg_convolution_windows_run(call, c, weight);
    } else {
        exg_gemm_run(&c->gemm, call, (char *)call->workspace + c->weight_bytes,
                     call->outputs[0].data, weight, call->inputs[0].data, bias);
    }
}

const exg_kernel exg_kernel_convolution = {
    .name = "convolution",
    .prepare = convolution_prepare,
    .run = convolution_run,
    .packer = &exg_convolution_last_packer,
    .packs = 1,
    .suits_channels_last = exg_convolution_last_suits,
};
