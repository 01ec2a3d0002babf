/* attention.c - scaled_dot_product_attention; see attention.cu. */
#include "libexec/device/cuda/rows.h"
#include "libexec/kernels/cpu/common.h"

#include <math.h>

#define ROWS          16  /* of attention.cu */
#define DEPTH_MAX_F32 128 /* what fits shared memory */
#define DEPTH_MAX_F64 64

static exg_status check(const exg_kernel_call *call, exg_error *err)
{
    exg_dtype dtype = call->inputs[0].dtype;

    EXG_TRY(exg_require_float("attention", dtype, err));
    if (call->inputs[1].dtype != dtype || call->inputs[2].dtype != dtype ||
        call->outputs[0].dtype != dtype) {
        return exg_unsupported_dtype("attention with a key or value", call->inputs[1].dtype, err);
    }
    if (exg_cuda_has(call, 3) && call->inputs[3].dtype != EXG_DTYPE_B8) {
        EXG_TRY(exg_require_float("attention with a mask", call->inputs[3].dtype, err));
        if ((call->inputs[3].dtype == EXG_DTYPE_F64) != (dtype == EXG_DTYPE_F64)) {
            return exg_unsupported_dtype("attention with a mask", call->inputs[3].dtype, err);
        }
    }
    return EXG_OK;
}

/* The stride of a dimension `from_end` away, 0 where the tensor broadcasts. */
static int64_t stride_of(const exg_tensor *t, uint32_t from_end)
{
    uint32_t d = t->rank - from_end;

    return t->rank < from_end || t->sizes[d] == 1 ? 0 : t->strides[d];
}

static void set_strides(const exg_kernel_call *call, cuda_attention_params *p)
{
    const exg_tensor *out = &call->outputs[0];

    p->batch_rank = out->rank > 3 ? out->rank - 3 : 0;
    for (uint32_t o = 0; o < 4; o++) {
        if (!exg_cuda_has(call, o)) {
            continue;
        }
        for (uint32_t d = 0; d < 3; d++) {
            p->strides[o][d] = stride_of(&call->inputs[o], 3 - d);
        }
        for (uint32_t d = 0; d < (uint32_t)p->batch_rank; d++) {
            p->batch_sizes[d] = out->sizes[d];
            p->batch_strides[o][d] = stride_of(&call->inputs[o], out->rank - d);
        }
    }
}

static exg_status attention(exg_kernel_call *call, double masked, exg_error *err)
{
    const exg_tensor *query = &call->inputs[0];
    const exg_tensor *key = &call->inputs[1];
    cuda_attention_params p = {.rows = query->sizes[query->rank - 2],
                               .depth = query->sizes[query->rank - 1],
                               .keys = key->sizes[key->rank - 2]};
    int64_t kv_heads = key->rank >= 3 ? key->sizes[key->rank - 3] : 1;
    bool is_double = query->dtype == EXG_DTYPE_F64;
    int64_t most = is_double ? DEPTH_MAX_F64 : DEPTH_MAX_F32;
    int64_t batch = 1;
    int64_t blocks;
    bool has_mask = exg_cuda_has(call, 3);
    exg_cuda_launch *launch = NULL;

    EXG_TRY(check(call, err));
    p.width = call->inputs[2].sizes[call->inputs[2].rank - 1];
    p.heads = query->rank >= 3 ? call->outputs[0].sizes[query->rank - 3] : 1;
    p.heads_of_kv = kv_heads > 0 && p.heads % kv_heads == 0 ? EXG_MAX(p.heads / kv_heads, 1) : 1;
    p.is_causal = exg_call_bool(call, 4);
    p.scale = exg_call_is_none(call, 5) ? 1.0 / sqrt((double)p.depth) : exg_call_float(call, 5);
    p.masked = p.keys > 0 ? masked : 0;
    if (EXG_MAX(p.depth, p.width) > most) {
        return exg_cuda_refuse("attention over heads of so many elements", err);
    }
    set_strides(call, &p);
    for (int64_t d = 0; d < p.batch_rank; d++) {
        batch *= p.batch_sizes[d];
    }
    blocks = batch * p.heads * exg_ceil_div(p.rows, ROWS);
    EXG_TRY(exg_cuda_step_begin(call, err));
    if (blocks * p.width == 0) {
        return EXG_OK;
    }
    if (blocks > INT32_MAX) {
        return exg_cuda_refuse("attention of so many rows", err);
    }
    most = EXG_MAX(p.depth, p.width) <= most / 2 ? most / 2 : most;
    EXG_TRY(EXG_CUDA_ADD(
        call, "attention", "attention", "i0 i1 i2 i3 o0", p, &launch, err,
        "-DX=%s -DDEPTH_MAX=%lld %s %s%s %s", exg_cuda_dtype(query->dtype), (long long)most,
        is_double ? "-DIS_DOUBLE" : "", has_mask ? "-DHAS_MASK -DMASK=" : "",
        has_mask ? exg_cuda_dtype(call->inputs[3].dtype) : "",
        has_mask && call->inputs[3].dtype == EXG_DTYPE_B8 ? "-DMASK_IS_BOOL" : ""));
    launch->blocks[0] = (uint32_t)blocks;
    return EXG_OK;
}

static exg_status attention_prepare(exg_kernel_call *call, exg_error *err)
{
    return attention(call, 0, err);
}

static exg_status attention_of_softmax_prepare(exg_kernel_call *call, exg_error *err)
{
    return attention(call, NAN, err);
}

EXG_CUDA_ROW_OF(attention, EXG_KERNEL_ANY_STRIDES);
EXG_CUDA_ROW_OF(attention_of_softmax, EXG_KERNEL_ANY_STRIDES);
