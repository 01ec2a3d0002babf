/* reduce.c - sum, mean, prod, amax, amin, any, all, var, std over any dimensions; softmax. */
#include "libexec/device/cuda/kernel_args.h"
#include "libexec/device/cuda/kernel_table.h"
#include "libexec/device/cuda/operand.h"
#include "libexec/kernels/cpu/common.h"

#include <stdio.h>

#define FEW_TERMS 64 /* up to here one thread takes an output */

#define COLUMNS       32   /* outputs of a block of reduce.cu that go side by side */
#define BLOCKS_WANTED 8    /* for each multiprocessor */
#define FEW_OF_PART   2048 /* terms of a part, at least */
#define FEW_ROWS      64   /* the same of columns */
#define FEW_COLUMNS   8    /* that a warp of softmax.cu has side by side */
#define PARTS_MAX     1024

/* The dimensions of a mask, or the others, as a view. */
static cuda_view window_of(const exg_tensor *in, uint32_t mask, bool inside, int64_t *count)
{
    exg_tensor part = {.dtype = in->dtype};

    *count = 1;
    for (uint32_t d = 0; d < in->rank; d++) {
        if (((mask >> d & 1) != 0) == inside) {
            part.sizes[part.rank] = in->sizes[d];
            part.strides[part.rank++] = in->strides[d];
            *count *= in->sizes[d];
        }
    }
    return exg_cuda_view(&part);
}

/* How terms are split over blocks: where outputs alone leave the device idle, and of outputs that
 * lie side by side while their terms do not, which threads of a warp read together. */
static bool split_terms(const exg_cuda_device *d, cuda_reduce_params *p, bool *by_columns)
{
    int32_t last = p->kept.rank - 1;
    int64_t blocks;

    *by_columns = p->outputs >= COLUMNS && last >= 0 && p->kept.strides[last] == 1 &&
                  p->walked.rank > 0 && p->walked.strides[p->walked.rank - 1] != 1;
    blocks = *by_columns ? exg_ceil_div(p->outputs, COLUMNS) : p->outputs;
    p->part_count = EXG_MAX(BLOCKS_WANTED * (int64_t)d->processors / blocks, 1);
    p->part_count =
        EXG_MIN(p->part_count, exg_ceil_div(p->terms, *by_columns ? FEW_ROWS : FEW_OF_PART));
    p->part_count = EXG_MIN(p->part_count, PARTS_MAX);
    p->part_terms = exg_ceil_div(p->terms, p->part_count);
    p->part_count = exg_ceil_div(p->terms, p->part_terms);
    return (*by_columns || p->part_count > 1) && blocks <= INT32_MAX;
}

/* The parts, then what they come to. `options`: of both. */
static exg_status add_parts(exg_kernel_call *call, const cuda_reduce_params *params,
                            const char *options, bool by_columns, bool is_of_squares,
                            bool gives_means, exg_error *err)
{
    const char *what = gives_means ? "-DMEANS" : is_of_squares ? "-DSQUARES" : "";
    uint64_t bytes = (uint64_t)(params->outputs * params->part_count) * sizeof(double);
    exg_cuda_launch *parts = NULL;
    exg_cuda_launch *join = NULL;

    EXG_TRY(EXG_CUDA_ADD(call, "reduce", "reduce_part", "i0 o0 w w", *params, &parts, err,
                         "%s -DPARTS %s %s", options, by_columns ? "-DCOLUMNS" : "", what));
    EXG_TRY(EXG_CUDA_ADD(call, "reduce", "reduce_parts", "i0 o0 w w", *params, &join, err,
                         "%s -DPARTS %s %s", options, by_columns ? "-DCOLUMNS" : "", what));
    parts->slots[3].offset = join->slots[3].offset = bytes;
    parts->blocks[0] =
        (uint32_t)(by_columns ? exg_ceil_div(params->outputs, COLUMNS) : params->outputs);
    parts->blocks[1] = (uint32_t)params->part_count;
    exg_cuda_grid(join, params->outputs * EXG_CUDA_WARP);
    call->workspace_bytes = bytes + (uint64_t)params->outputs * sizeof(double);
    return EXG_OK;
}

/* What is read, summed up in, and given. */
static exg_status compute_of(const exg_kernel_call *call, const char *kind, exg_compute *compute,
                             exg_error *err)
{
    bool of_input = kind[0] == 'A'; /* AMAX, AMIN, ANY, ALL: in the input's type */
    exg_compute loaded;
    exg_compute stored;

    if (!exg_compute_of(call->inputs[0].dtype, &loaded) ||
        !exg_compute_of(call->outputs[0].dtype, &stored)) {
        return exg_unsupported_dtype("a reduction", call->inputs[0].dtype, err);
    }
    *compute = of_input ? loaded : stored;
    return EXG_OK;
}

static exg_status reduce(exg_kernel_call *call, const char *kind, exg_error *err)
{
    const exg_tensor *in = &call->inputs[0];
    exg_dtype out = call->outputs[0].dtype;
    uint32_t mask = exg_call_dim_mask(call, 1, in->rank);
    bool is_var = strcmp(kind, "VAR") == 0 || strcmp(kind, "STD") == 0;
    cuda_reduce_params params = {0};
    exg_compute compute = EXG_COMPUTE_F32;
    exg_cuda_launch *launch = NULL;
    char options[96];
    bool by_thread;
    bool by_columns;

    EXG_TRY(compute_of(call, kind, &compute, err));
    if ((strcmp(kind, "MEAN") == 0 || strcmp(kind, "SUM_SQUARES") == 0 || is_var) &&
        compute > EXG_COMPUTE_F64) {
        return exg_unsupported_dtype("mean, var or a norm", out, err);
    }
    if (is_var) {
        params.correction = exg_call_is_none(call, 2) ? 1 : exg_call_float(call, 2);
    }
    params.kept = window_of(in, mask, false, &params.outputs);
    params.walked = window_of(in, mask, true, &params.terms);
    by_thread = params.terms <= FEW_TERMS;
    (void)snprintf(options, sizeof(options), "-DIN=%s -DOUT=%s -D%s %s", exg_cuda_dtype(in->dtype),
                   exg_cuda_dtype(out), kind, compute <= EXG_COMPUTE_F64 ? "-DREAL" : "");
    EXG_TRY(exg_cuda_step_begin(call, err));
    if (params.outputs == 0) {
        return EXG_OK;
    }
    if (!by_thread && split_terms((const exg_cuda_device *)call->device, &params, &by_columns)) {
        if (is_var) {
            EXG_TRY(add_parts(call, &params, options, by_columns, false, true, err));
        }
        return add_parts(call, &params, options, by_columns, is_var, false, err);
    }
    EXG_TRY(EXG_CUDA_ADD(call, "reduce", "reduce", "i0 o0", params, &launch, err, "%s %s", options,
                         by_thread ? "-DBY_THREAD" : ""));
    exg_cuda_grid(launch, params.outputs);
    if (!by_thread) {
        launch->blocks[0] = (uint32_t)EXG_MIN(params.outputs, EXG_CUDA_BLOCKS_MAX);
    }
    return EXG_OK;
}

#define REDUCTION(name, kind)                                                                      \
    static exg_status name##_prepare(exg_kernel_call *call, exg_error *err)                        \
    {                                                                                              \
        return reduce(call, #kind, err);                                                           \
    }                                                                                              \
    EXG_CUDA_KERNEL(name, EXG_KERNEL_ANY_STRIDES)

REDUCTION(sum, SUM);
REDUCTION(sum_squares, SUM_SQUARES);
REDUCTION(mean, MEAN);
REDUCTION(prod, PROD);
REDUCTION(amax, AMAX);
REDUCTION(amin, AMIN);
REDUCTION(any, ANY);
REDUCTION(all, ALL);
REDUCTION(var, VAR);
REDUCTION(std, STD);

/* ---- softmax ----------------------------------------------------------------------------- */

static exg_status softmax(exg_kernel_call *call, const char *is_log, exg_error *err)
{
    const exg_tensor *in = &call->inputs[0];
    exg_around around = exg_around_dim(in, exg_call_dim(call, 1, in->rank));
    cuda_softmax_params params = {
        .rows = around.outer * around.inner, .size = around.size, .inner = around.inner};
    exg_cuda_launch *launch = NULL;
    bool by_columns = around.inner >= FEW_COLUMNS && params.rows / EXG_CUDA_WARP < INT32_MAX;
    bool is_row = around.inner == 1 && call->outputs[0].dtype == in->dtype;
    uint32_t bytes = is_row ? exg_dtype_bytes(in->dtype) : 0;
    char row[EXG_CUDA_ROW_OPTIONS];
    uint32_t threads;

    EXG_TRY(exg_require_float("softmax", in->dtype, err));
    EXG_TRY(exg_require_float("softmax", call->outputs[0].dtype, err));
    EXG_TRY(exg_cuda_step_begin(call, err));
    if (params.rows * params.size == 0) {
        return EXG_OK;
    }
    threads = exg_cuda_threads_of_row(call, params.rows, params.size);
    EXG_TRY(EXG_CUDA_ADD(
        call, "softmax", "softmax", "i0 o0", params, &launch, err, "-DIN=%s -DOUT=%s %s %s %s",
        exg_cuda_dtype(in->dtype), exg_cuda_dtype(call->outputs[0].dtype),
        in->dtype == EXG_DTYPE_F64 ? "-DIS_DOUBLE" : "", is_log,
        by_columns ? "-DCOLUMNS"
                   : exg_cuda_row_options(threads, params.size, bytes, row, sizeof(row))));
    if (by_columns) {
        launch->blocks[0] = (uint32_t)exg_ceil_div(params.rows, EXG_CUDA_WARP);
    } else {
        exg_cuda_row_grid(launch, threads, params.rows);
    }
    return EXG_OK;
}

static exg_status softmax_prepare(exg_kernel_call *call, exg_error *err)
{
    return softmax(call, "", err);
}

static exg_status log_softmax_prepare(exg_kernel_call *call, exg_error *err)
{
    return softmax(call, "-DIS_LOG", err);
}

EXG_CUDA_KERNEL(softmax, EXG_KERNEL_IN_PLACE);
EXG_CUDA_KERNEL(log_softmax, EXG_KERNEL_IN_PLACE);
