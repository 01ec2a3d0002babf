/* create.c - tensors from numbers: full, scalar_tensor, arange. */
#include "libexec/kernels/cpu/common.h"

typedef struct fill_params {
    uint64_t element[2];
    int64_t numel;
    uint32_t bytes;
} fill_params;

typedef struct fill_run_context {
    const fill_params *p;
    char *out;
} fill_run_context;

static exg_status fill_prepare(exg_kernel_call *call, uint32_t position, exg_error *err)
{
    const exg_tensor *out = &call->outputs[0];
    fill_params *p = EXG_NEW(call->arena, fill_params);

    if (p == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (!exg_call_element(call, position, out->dtype, p->element)) {
        return exg_unsupported_dtype("full", out->dtype, err);
    }
    p->numel = exg_tensor_numel(out);
    p->bytes = exg_dtype_bytes(out->dtype);
    call->params = p;
    return EXG_OK;
}

static exg_status full_prepare(exg_kernel_call *call, exg_error *err)
{
    return fill_prepare(call, 1, err);
}

static exg_status scalar_tensor_prepare(exg_kernel_call *call, exg_error *err)
{
    return fill_prepare(call, 0, err);
}

static void fill_block(void *context, uint32_t block)
{
    const fill_run_context *r = context;
    int64_t first = (int64_t)block * EXG_GRAIN;

    exg_fill(r->out + first * r->p->bytes, r->p->element, EXG_MIN(r->p->numel - first, EXG_GRAIN),
             r->p->bytes);
}

static void fill_run(const exg_kernel_call *call)
{
    const fill_params *p = call->params;
    fill_run_context r = {p, call->outputs[0].data};

    exg_pool_run(call->pool, fill_block, &r, exg_block_count(p->numel, EXG_GRAIN));
}

const exg_kernel exg_kernel_full = {
    .name = "full",
    .prepare = full_prepare,
    .run = fill_run,
};

const exg_kernel exg_kernel_scalar_tensor = {
    .name = "scalar_tensor",
    .prepare = scalar_tensor_prepare,
    .run = fill_run,
};

/* ---- arange ---------------------------------------------------------------------- */

#define ARANGE_CHUNK 256

typedef struct arange_params {
    exg_compute compute;
    double start, step;
    int64_t int_start, int_step;
    exg_store_loop *store;
} arange_params;

static exg_status arange_prepare(exg_kernel_call *call, exg_error *err)
{
    arange_params *p = EXG_NEW(call->arena, arange_params);
    exg_dtype dtype = call->outputs[0].dtype;

    if (p == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (!exg_compute_of(dtype, &p->compute)) {
        return exg_unsupported_dtype("arange", dtype, err);
    }
    p->start = exg_call_float(call, 0);
    p->step = exg_call_float(call, 2);
    p->int_start = exg_call_int(call, 0);
    p->int_step = exg_call_int(call, 2);
    p->store = EXG_LOOPS(exg_loops_convert)->store[dtype];
    call->params = p;
    return EXG_OK;
}

/* Floats in double, as PyTorch: one rounding an element, no drift. */
static void arange_run(const exg_kernel_call *call)
{
    const arange_params *p = call->params;
    const exg_tensor *out = &call->outputs[0];
    int64_t numel = exg_tensor_numel(out);
    uint32_t bytes = exg_dtype_bytes(out->dtype);
    union {
        float f32[ARANGE_CHUNK];
        double f64[ARANGE_CHUNK];
        int32_t i32[ARANGE_CHUNK];
        int64_t i64[ARANGE_CHUNK];
    } v;

    for (int64_t first = 0; first < numel; first += ARANGE_CHUNK) {
        uint32_t count = (uint32_t)EXG_MIN(numel - first, ARANGE_CHUNK);

        for (uint32_t k = 0; k < count; k++) {
            int64_t i = first + k;

            switch (p->compute) {
            case EXG_COMPUTE_F32:
                v.f32[k] = (float)(p->start + (double)i * p->step);
                break;
            case EXG_COMPUTE_F64:
                v.f64[k] = p->start + (double)i * p->step;
                break;
            case EXG_COMPUTE_I32:
                v.i32[k] = (int32_t)(p->int_start + i * p->int_step);
                break;
            default:
                v.i64[k] = p->int_start + i * p->int_step;
            }
        }
        p->store(count, (char *)out->data + first * bytes, 1, &v);
    }
}

const exg_kernel exg_kernel_arange = {
    .name = "arange",
    .prepare = arange_prepare,
    .run = arange_run,
};
