/* common.c - arguments and shapes. */
#include "libexec/kernels/cpu/common.h"

#include <assert.h>

uint32_t exg_call_ints(const exg_kernel_call *call, uint32_t position, int64_t *items, uint32_t max)
{
    const exg_argument *arg = &call->args[position];

    assert(position < call->arg_count);
    if (arg->kind == EXG_ARGUMENT_INTS || arg->kind == EXG_ARGUMENT_SYM_INTS) {
        for (uint32_t i = 0; i < arg->count && i < max; i++) {
            items[i] = arg->kind == EXG_ARGUMENT_INTS ? arg->as_ints[i] : arg->as_syms[i].as_int;
        }
        return arg->count;
    }
    if (arg->kind == EXG_ARGUMENT_NONE || max == 0) {
        return 0;
    }
    items[0] = exg_call_int(call, position);
    return 1;
}

void exg_call_pair(const exg_kernel_call *call, uint32_t position, int64_t *two,
                   const int64_t *otherwise)
{
    uint32_t count = exg_call_ints(call, position, two, 2);

    if (count == 0) {
        two[0] = otherwise[0];
        two[1] = otherwise[1];
    } else if (count == 1) {
        two[1] = two[0];
    }
}

bool exg_call_is_none(const exg_kernel_call *call, uint32_t position)
{
    return position >= call->arg_count || call->args[position].kind == EXG_ARGUMENT_NONE;
}

static uint32_t wrap_dim(int64_t dim, uint32_t rank)
{
    int64_t wrapped = dim < 0 ? dim + EXG_MAX((int64_t)rank, 1) : dim;

    assert(wrapped >= 0 && wrapped < EXG_MAX((int64_t)rank, 1));
    return (uint32_t)wrapped;
}

uint32_t exg_call_dim(const exg_kernel_call *call, uint32_t position, uint32_t rank)
{
    return wrap_dim(exg_call_int(call, position), rank);
}

uint32_t exg_call_dim_mask(const exg_kernel_call *call, uint32_t position, uint32_t rank)
{
    int64_t dims[EXG_RANK_MAX];
    uint32_t count = exg_call_ints(call, position, dims, EXG_RANK_MAX);
    uint32_t mask = 0;

    if (count == 0) {
        return (1u << rank) - 1;
    }
    for (uint32_t i = 0; i < count; i++) {
        mask |= 1u << wrap_dim(dims[i], rank);
    }
    return mask;
}

uint32_t exg_call_dims_before(const exg_kernel_call *call, uint32_t count)
{
    uint32_t first = 0;
    uint32_t last = 0;
    uint32_t found = 0;

    for (uint32_t d = 0; d < count; d++) {
        if (!exg_tensor_is_absent(&call->inputs[1 + d])) {
            first = found == 0 ? d : first;
            last = d;
            found++;
        }
    }
    return found > 0 && last - first + 1 == found ? first : 0;
}

int64_t exg_broadcast_stride(const exg_tensor *t, uint32_t rank, uint32_t d)
{
    uint32_t missing = rank - t->rank;

    return d < missing || t->sizes[d - missing] == 1 ? 0 : t->strides[d - missing];
}

exg_status exg_unsupported_dtype(const char *kernel, exg_dtype dtype, exg_error *err)
{
    return EXG_FAIL(err, UNSUPPORTED, "KRN-001", "%s has no kernel for %s", kernel,
                    exg_dtype_name(dtype));
}

exg_status exg_require_float(const char *kernel, exg_dtype dtype, exg_error *err)
{
    if (dtype == EXG_DTYPE_F32 || dtype == EXG_DTYPE_F64 || dtype == EXG_DTYPE_BF16 ||
        dtype == EXG_DTYPE_F16) {
        return EXG_OK;
    }
    return exg_unsupported_dtype(kernel, dtype, err);
}

exg_status exg_require_index(const char *kernel, exg_dtype dtype, exg_error *err)
{
    if (dtype == EXG_DTYPE_I64 || dtype == EXG_DTYPE_I32) {
        return EXG_OK;
    }
    return EXG_FAIL(err, UNSUPPORTED, "KRN-002", "%s takes indices of int64 or int32, not %s",
                    kernel, exg_dtype_name(dtype));
}

exg_around exg_around_dim(const exg_tensor *tensor, uint32_t dim)
{
    exg_around around = {1, 1, 1};

    for (uint32_t d = 0; d < tensor->rank; d++) {
        if (d < dim) {
            around.outer *= tensor->sizes[d];
        } else if (d == dim) {
            around.size = tensor->sizes[d];
        } else {
            around.inner *= tensor->sizes[d];
        }
    }
    return around;
}

bool exg_call_element(const exg_kernel_call *call, uint32_t position, exg_dtype dtype,
                      void *element)
{
    exg_compute compute;
    double f64 = exg_call_float(call, position);
    float f32 = (float)f64;
    int64_t i64 = exg_call_int(call, position);
    int32_t i32 = dtype == EXG_DTYPE_B8 ? f64 != 0 : (int32_t)i64;

    if (dtype == EXG_DTYPE_C64) {
        memcpy(element, (float[2]){f32, 0}, 8);
        return true;
    }
    if (dtype == EXG_DTYPE_C128) {
        memcpy(element, (double[2]){f64, 0}, 16);
        return true;
    }
    if (!exg_compute_of(dtype, &compute)) {
        return false;
    }
    EXG_LOOPS(exg_loops_convert)
        ->store[dtype](1, element, 1,
                       compute == EXG_COMPUTE_F32   ? (const void *)&f32
                       : compute == EXG_COMPUTE_F64 ? (const void *)&f64
                       : compute == EXG_COMPUTE_I32 ? (const void *)&i32
                                                    : (const void *)&i64);
    return true;
}
