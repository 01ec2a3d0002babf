/* row_order.c - rows in the order of their elements, the first that differs deciding; equal
 * rows stay as they are. Elements that are not numbers decide nothing.
 */
#include "libexec/kernels/cpu/common.h"

typedef struct row_order_params {
    exg_load_loop *load;
    exg_compute compute;
    int64_t rows, width;
    uint64_t values_bytes; /* of all elements in the compute type, at the workspace's start */
} row_order_params;

/* Does row `b` come before row `a`? */
#define PRECEDES(type, name)                                                                       \
    static bool name(const void *values, int64_t width, int64_t a, int64_t b)                      \
    {                                                                                              \
        const type *x = (const type *)values + a * width;                                          \
        const type *y = (const type *)values + b * width;                                          \
                                                                                                   \
        for (int64_t i = 0; i < width; i++) {                                                      \
            if (y[i] < x[i] || x[i] < y[i]) {                                                      \
                return y[i] < x[i];                                                                \
            }                                                                                      \
        }                                                                                          \
        return false;                                                                              \
    }
PRECEDES(float, precedes_f32)
PRECEDES(double, precedes_f64)
PRECEDES(int32_t, precedes_i32)
PRECEDES(int64_t, precedes_i64)

typedef bool precedes(const void *values, int64_t width, int64_t a, int64_t b);

/* from[low, mid) and from[mid, high), each in order, to `to`. */
static void merge(const row_order_params *p, precedes *before, const void *values,
                  const int64_t *from, int64_t *to, int64_t low, int64_t mid, int64_t high)
{
    int64_t left = low;
    int64_t right = mid;

    for (int64_t at = low; at < high; at++) {
        bool takes_right =
            left == mid || (right < high && before(values, p->width, from[left], from[right]));

        to[at] = takes_right ? from[right++] : from[left++];
    }
}

static void row_order_run(const exg_kernel_call *call)
{
    static precedes *const each[EXG_COMPUTE_COUNT] = {precedes_f32, precedes_f64, precedes_i32,
                                                      precedes_i64};
    const row_order_params *p = call->params;
    char *values = call->workspace;
    int64_t *from = call->outputs[0].data;
    int64_t *to = (int64_t *)(void *)(values + p->values_bytes);

    for (int64_t r = 0; r < p->rows; r++) {
        from[r] = r;
        p->load((uint32_t)p->width,
                values + (uint64_t)(r * p->width) * exg_compute_bytes(p->compute),
                (const char *)call->inputs[0].data +
                    r * p->width * exg_dtype_bytes(call->inputs[0].dtype),
                1);
    }
    for (int64_t length = 1; length < p->rows; length *= 2) {
        int64_t *other = from;

        for (int64_t low = 0; low < p->rows; low += 2 * length) {
            merge(p, each[p->compute], values, from, to, low, EXG_MIN(low + length, p->rows),
                  EXG_MIN(low + 2 * length, p->rows));
        }
        from = to;
        to = other;
    }
    if (from != call->outputs[0].data) {
        memcpy(to, from, (size_t)p->rows * sizeof(*to));
    }
}

static exg_status row_order_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *in = &call->inputs[0];
    row_order_params *p = EXG_NEW(call->arena, row_order_params);

    if (p == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (!exg_compute_of(in->dtype, &p->compute) || in->sizes[1] > UINT32_MAX) {
        return exg_unsupported_dtype("the order of rows", in->dtype, err);
    }
    p->load = EXG_LOOPS(exg_loops_convert)->load[in->dtype];
    p->rows = in->sizes[0];
    p->width = in->sizes[1];
    p->values_bytes =
        ((uint64_t)(p->rows * p->width) * exg_compute_bytes(p->compute) + 63) & ~UINT64_C(63);
    call->workspace_bytes = p->values_bytes + (uint64_t)p->rows * sizeof(int64_t);
    call->params = p;
    return EXG_OK;
}

const exg_kernel exg_kernel_row_order = {
    .name = "row_order",
    .prepare = row_order_prepare,
    .run = row_order_run,
};
