/* norm.c - native_layer_norm, rms_norm, native_group_norm. */
#include "libexec/device/cuda/kernel_args.h"
#include "libexec/device/cuda/kernel_table.h"
#include "libexec/device/cuda/operand.h"
#include "libexec/kernels/cpu/common.h"

/* Floats all, and doubles with doubles only, as the host has it. */
static exg_status check(const exg_kernel_call *call, exg_error *err)
{
    bool is_double = call->inputs[0].dtype == EXG_DTYPE_F64;

    EXG_TRY(exg_require_float("a norm", call->inputs[0].dtype, err));
    for (uint32_t i = 1; i < call->input_count; i++) {
        if (exg_cuda_has(call, i)) {
            EXG_TRY(exg_require_float("a norm", call->inputs[i].dtype, err));
            if ((call->inputs[i].dtype == EXG_DTYPE_F64) != is_double) {
                return exg_unsupported_dtype("a norm with a weight", call->inputs[i].dtype, err);
            }
        }
    }
    return EXG_OK;
}

static exg_dtype output_dtype(const exg_kernel_call *call, uint32_t output)
{
    return output < call->output_count && !exg_tensor_is_absent(&call->outputs[output])
               ? call->outputs[output].dtype
               : EXG_DTYPE_F32;
}

/* Are the rows', the weight's and the bias's elements as wide? */
static bool has_one_size(const exg_kernel_call *call)
{
    for (uint32_t i = 1; i < call->input_count; i++) {
        if (exg_cuda_has(call, i) &&
            exg_dtype_bytes(call->inputs[i].dtype) != exg_dtype_bytes(call->inputs[0].dtype)) {
            return false;
        }
    }
    return true;
}

static exg_status norm(exg_kernel_call *call, const char *kind, const char *slots,
                       cuda_norm_params *params, exg_error *err)
{
    exg_dtype dtype = call->inputs[0].dtype;
    exg_cuda_launch *launch = NULL;
    bool is_row = strcmp(kind, "GROUP") != 0 && has_one_size(call);
    uint32_t bytes = is_row ? exg_dtype_bytes(dtype) : 0;
    char row[EXG_CUDA_ROW_OPTIONS];
    uint32_t threads;

    EXG_TRY(check(call, err));
    EXG_TRY(exg_cuda_step_begin(call, err));
    if (params->rows == 0) {
        return EXG_OK;
    }
    params->share = 1 / (double)params->size;
    threads = exg_cuda_threads_of_row(call, params->rows, params->size);
    EXG_TRY(EXG_CUDA_ADD(call, "norm", "normalize", slots, *params, &launch, err,
                         "-DX=%s -DWEIGHT=%s -DBIAS=%s -DMEAN=%s -DFACTOR=%s -D%s %s",
                         exg_cuda_dtype(dtype), exg_cuda_dtype_or(call, 1, dtype),
                         exg_cuda_dtype_or(call, 2, dtype), exg_cuda_dtype(output_dtype(call, 1)),
                         exg_cuda_dtype(output_dtype(call, 2)), kind,
                         exg_cuda_row_options(threads, params->size, bytes, row, sizeof(row))));
    exg_cuda_row_grid(launch, threads, params->rows);
    return EXG_OK;
}

/* The last `dims` dimensions are one row. */
static cuda_norm_params rows_of(const exg_tensor *in, uint32_t dims)
{
    cuda_norm_params params = {.rows = 1, .size = 1, .area = 1};

    for (uint32_t d = 0; d < in->rank; d++) {
        if (d + dims < in->rank) {
            params.rows *= in->sizes[d];
        } else {
            params.size *= in->sizes[d];
        }
    }
    return params;
}

static exg_status native_layer_norm_prepare(exg_kernel_call *call, exg_error *err)
{
    int64_t shape[EXG_RANK_MAX];
    cuda_norm_params params =
        rows_of(&call->inputs[0], exg_call_ints(call, 1, shape, EXG_RANK_MAX));

    params.eps = exg_call_float(call, 4);
    return norm(call, "LAYER", "i0 i1 i2 o0 o1 o2", &params, err);
}

static exg_status rms_norm_prepare(exg_kernel_call *call, exg_error *err)
{
    cuda_norm_params params = rows_of(&call->inputs[0], (uint32_t)exg_call_int(call, 1));

    params.eps = exg_call_float(call, 3);
    return norm(call, "RMS", "i0 i1 i9 o0 o9 o9", &params, err);
}

static exg_status native_group_norm_prepare(exg_kernel_call *call, exg_error *err)
{
    cuda_norm_params params = {.groups = exg_call_int(call, 6),
                               .area = exg_call_int(call, 5),
                               .eps = exg_call_float(call, 7)};

    params.channels = exg_call_int(call, 4) / params.groups;
    params.rows = exg_call_int(call, 3) * params.groups;
    params.size = params.channels * params.area;
    return norm(call, "GROUP", "i0 i1 i2 o0 o1 o2", &params, err);
}

EXG_CUDA_KERNEL(native_layer_norm, EXG_KERNEL_IN_PLACE);
EXG_CUDA_KERNEL(rms_norm, EXG_KERNEL_IN_PLACE);
EXG_CUDA_KERNEL(native_group_norm, EXG_KERNEL_IN_PLACE);
