/* window.c - kernels that look at windows: convolution (by cuDNN where it is there and takes it),
 * pooling.
 */
#include "libexec/device/cuda/dnn.h"
#include "libexec/device/cuda/kernel_args.h"
#include "libexec/device/cuda/operand.h"
#include "libexec/kernels/cpu/common.h"

#define TILE        64 /* of convolution.cu */
#define BATCHES_MAX 65535

/* A list of an entry per spatial dimension, or one for all. */
static void spatial(const exg_kernel_call *call, uint32_t position, uint32_t rank, int64_t *three)
{
    int64_t items[3] = {0};
    uint32_t count = exg_call_ints(call, position, items, 3);

    for (uint32_t d = 0; d < rank && count > 0; d++) {
        three[3 - rank + d] = items[count == 1 ? 0 : d];
    }
}

static void read_convolution(const exg_kernel_call *call, cuda_convolution_params *p)
{
    const exg_tensor *input = &call->inputs[0];
    const exg_tensor *weight = &call->inputs[1];
    const exg_tensor *out = &call->outputs[0];
    uint32_t rank = weight->rank - 2;
    uint32_t has_batch = input->rank == weight->rank ? 1 : 0;

    for (uint32_t d = 0; d < 3; d++) {
        p->size[d] = p->result[d] = p->kernel[d] = p->gap[d] = p->stride[d] = p->dilation[d] = 1;
    }
    p->batch = has_batch ? input->sizes[0] : 1;
    p->groups = exg_call_int(call, 8);
    p->in_channels = input->sizes[has_batch] / p->groups;
    p->out_channels = out->sizes[has_batch] / p->groups;
    for (uint32_t d = 0; d < rank; d++) {
        p->size[3 - rank + d] = input->sizes[has_batch + 1 + d];
        p->result[3 - rank + d] = out->sizes[has_batch + 1 + d];
        p->kernel[3 - rank + d] = weight->sizes[2 + d];
    }
    spatial(call, 3, rank, p->stride);
    spatial(call, 4, rank, p->padding);
    spatial(call, 5, rank, p->dilation);
    p->is_transposed = exg_call_bool(call, 6);
    for (uint32_t d = 0; d < 3 && p->is_transposed; d++) {
        /* over an image with stride - 1 zeros in between: taps run backwards */
        p->gap[d] = p->stride[d];
        p->stride[d] = 1;
        p->padding[d] = p->dilation[d] * (p->kernel[d] - 1) - p->padding[d];
    }
}

static exg_status convolution_prepare(exg_kernel_call *call, exg_error *err)
{
    exg_dtype dtype = call->inputs[0].dtype;
    cuda_convolution_params p = {0};
    int64_t tiles;
    bool taken;
    exg_compute compute;
    exg_cuda_launch *launch = NULL;

    if (!exg_compute_of(dtype, &compute) || dtype == EXG_DTYPE_B8) {
        return exg_unsupported_dtype("convolution", dtype, err);
    }
    for (uint32_t i = 1; i < call->input_count; i++) {
        if (exg_cuda_has(call, i) && call->inputs[i].dtype != dtype) {
            return exg_unsupported_dtype("convolution with a weight", call->inputs[i].dtype, err);
        }
    }
    if (call->inputs[1].rank < 3 || call->inputs[1].rank > 5) {
        return exg_cuda_refuse("a convolution over so many dimensions", err);
    }
    read_convolution(call, &p);
    tiles = exg_ceil_div(p.out_channels, TILE) *
            exg_ceil_div(p.result[0] * p.result[1] * p.result[2], TILE);
    if (tiles > INT32_MAX || p.groups > BATCHES_MAX) {
        return exg_cuda_refuse("a convolution of so many groups or positions", err);
    }
    EXG_TRY(exg_cuda_step_begin(call, err));
    if (exg_tensor_numel(&call->outputs[0]) == 0) {
        return EXG_OK;
    }
    call->takes_epilogue = true;
    EXG_TRY(exg_cuda_dnn_add(call, &p, &taken, err));
    if (taken) {
        return EXG_OK;
    }
    EXG_TRY(EXG_CUDA_ADD(call, "convolution", "convolution", "i0 i1 i2 o0 e", p, &launch, err,
                         "-DRESULT=%s %s %s", exg_cuda_dtype(dtype),
                         compute > EXG_COMPUTE_F64 ? "-DIS_INTEGER" : "",
                         dtype == EXG_DTYPE_F64 ? "-DIS_DOUBLE" : ""));
    launch->blocks[0] = (uint32_t)tiles;
    launch->blocks[1] = (uint32_t)p.groups;
    launch->blocks[2] = (uint32_t)EXG_MIN(p.batch, BATCHES_MAX);
    return EXG_OK;
}

EXG_CUDA_KERNEL(convolution, EXG_KERNEL_SEES_EPILOGUE);

/* ---- pooling ----------------------------------------------------------------------------- */

static exg_status pool(exg_kernel_call *call, cuda_pool_params *p, const char *kind, exg_error *err)
{
    const exg_tensor *in = &call->inputs[0];
    const exg_tensor *out = &call->outputs[0];
    exg_compute compute;
    exg_cuda_launch *launch = NULL;

    if (!exg_compute_of(in->dtype, &compute)) {
        return exg_unsupported_dtype("pooling", in->dtype, err);
    }
    p->height = in->sizes[in->rank - 2];
    p->width = in->sizes[in->rank - 1];
    p->out_height = out->sizes[out->rank - 2];
    p->out_width = out->sizes[out->rank - 1];
    p->planes = 1;
    for (uint32_t d = 0; d + 2 < in->rank; d++) {
        p->planes *= in->sizes[d];
    }
    EXG_TRY(exg_cuda_step_begin(call, err));
    if (exg_tensor_numel(out) == 0) {
        return EXG_OK;
    }
    EXG_TRY(EXG_CUDA_ADD(call, "pool", "pool", "i0 o0 o1", *p, &launch, err, "-DX=%s %s %s %s",
                         exg_cuda_dtype(in->dtype), kind,
                         compute > EXG_COMPUTE_F64 ? "-DIS_INTEGER" : "",
                         compute == EXG_COMPUTE_I64 ? "-DIS_WIDE" : ""));
    exg_cuda_grid(launch, exg_tensor_numel(out));
    return EXG_OK;
}

static const int64_t zeros[2] = {0, 0};
static const int64_t ones[2] = {1, 1};

static exg_status max_pool2d_with_indices_prepare(exg_kernel_call *call, exg_error *err)
{
    cuda_pool_params p = {0};

    exg_call_pair(call, 1, p.kernel, ones);
    exg_call_pair(call, 2, p.stride, p.kernel);
    exg_call_pair(call, 3, p.padding, zeros);
    exg_call_pair(call, 4, p.dilation, ones);
    return pool(call, &p, "-DGREATEST", err);
}

static exg_status avg_pool2d_prepare(exg_kernel_call *call, exg_error *err)
{
    cuda_pool_params p = {0};

    exg_call_pair(call, 1, p.kernel, ones);
    exg_call_pair(call, 2, p.stride, p.kernel);
    exg_call_pair(call, 3, p.padding, zeros);
    p.counts_padding = exg_call_bool(call, 5);
    p.divisor = exg_call_is_none(call, 6) ? 0 : exg_call_int(call, 6);
    return pool(call, &p, "", err);
}

static exg_status adaptive_avg_pool2d_prepare(exg_kernel_call *call, exg_error *err)
{
    cuda_pool_params p = {.is_adaptive = 1};

    return pool(call, &p, "", err);
}

EXG_CUDA_KERNEL(max_pool2d_with_indices, 0);
EXG_CUDA_KERNEL(avg_pool2d, 0);
EXG_CUDA_KERNEL(adaptive_avg_pool2d, 0);
