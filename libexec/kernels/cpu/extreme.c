/* extreme.c - max_dim, min_dim, argmax, argmin: the first extreme along a dimension.
 *
 *   x (outer, size, inner), contiguous; NaN is the extreme when there is one.
 */
#include "libexec/kernels/cpu/common.h"

#include <math.h>

#define COLUMNS 256

typedef struct extreme_params {
    exg_around around;
    bool is_min;
    int64_t tiles;      /* of inner, of COLUMNS each */
    int64_t rows_of_block;
    exg_dtype dtype;
    exg_compute compute;
    uint32_t bytes;
    bool has_values; /* output 0; indices are then output 1 */
    const exg_convert_loops *convert;
} extreme_params;

typedef struct extreme_run_context {
    const extreme_params *p;
    const char *in;
    char *values;
    int64_t *indices;
} extreme_run_context;

/* Columns of one outer row: the best of each, one element of all at a time. A NaN is
 * never replaced: no comparison with it holds. */
#define DEFINE_BEST(type, name)                                                               \
    static void best_##name(const extreme_params *p, const char *in, int64_t count,           \
                            char *values, int64_t *indices)                                   \
    {                                                                                         \
        type best[COLUMNS];                                                                   \
        type x[COLUMNS];                                                                      \
        int64_t where[COLUMNS];                                                               \
                                                                                              \
        for (int64_t i = 0; i < p->around.size; i++) {                                        \
            p->convert->load[p->dtype]((uint32_t)count, x, in, 1);                            \
            in += p->around.inner * p->bytes;                                                 \
            for (int64_t k = 0; k < count; k++) {                                             \
                bool better = p->is_min ? x[k] < best[k] : x[k] > best[k];                    \
                                                                                              \
                if (i == 0 || better || (x[k] != x[k] && best[k] == best[k])) {               \
                    best[k] = x[k];                                                           \
                    where[k] = i;                                                             \
                }                                                                             \
            }                                                                                 \
        }                                                                                     \
        memcpy(indices, where, (size_t)count * sizeof(int64_t));                              \
        if (values != NULL) {                                                                 \
            p->convert->store[p->dtype]((uint32_t)count, values, 1, best);                    \
        }                                                                                     \
    }                                                                                         \
    /* the same of one dense row */                                                           \
    static void best_of_row_##name(const extreme_params *p, const char *in, char *values,     \
                                   int64_t *index)                                            \
    {                                                                                         \
        type best = 0;                                                                        \
        type x[COLUMNS];                                                                      \
                                                                                              \
        for (int64_t first = 0; first < p->around.size; first += COLUMNS) {                   \
            int64_t count = EXG_MIN(p->around.size - first, COLUMNS);                         \
                                                                                              \
            p->convert->load[p->dtype]((uint32_t)count, x, in + first * p->bytes, 1);         \
            for (int64_t k = 0; k < count; k++) {                                             \
                bool better = p->is_min ? x[k] < best : x[k] > best;                          \
                                                                                              \
                if (first + k == 0 || better || (x[k] != x[k] && best == best)) {             \
                    best = x[k];                                                              \
                    *index = first + k;                                                       \
                }                                                                             \
            }                                                                                 \
        }                                                                                     \
        if (values != NULL) {                                                                 \
            p->convert->store[p->dtype](1, values, 1, &best);                                 \
        }                                                                                     \
    }

DEFINE_BEST(float, f32)
DEFINE_BEST(double, f64)
DEFINE_BEST(int32_t, i32)
DEFINE_BEST(int64_t, i64)

static void extreme_block(void *context, uint32_t block)
{
    static void (*const of_columns[])(const extreme_params *, const char *, int64_t, char *,
                                      int64_t *) = {best_f32, best_f64, best_i32, best_i64};
    static void (*const of_row[])(const extreme_params *, const char *, char *, int64_t *) = {
        best_of_row_f32, best_of_row_f64, best_of_row_i32, best_of_row_i64};
    const extreme_run_context *r = context;
    const extreme_params *p = r->p;
    exg_around a = p->around;
    int64_t end = EXG_MIN(((int64_t)block + 1) * p->rows_of_block, a.outer * p->tiles);

    for (int64_t row = (int64_t)block * p->rows_of_block; row < end; row++) {
        int64_t outer = row / p->tiles;
        int64_t inner = row % p->tiles * COLUMNS;
        int64_t out = outer * a.inner + inner;
        const char *in = r->in + (outer * a.size * a.inner + inner) * p->bytes;
        char *values = r->values == NULL ? NULL : r->values + out * p->bytes;

        if (a.inner == 1) {
            of_row[p->compute](p, in, values, r->indices + out);
        } else {
            of_columns[p->compute](p, in, EXG_MIN(a.inner - inner, COLUMNS), values,
                                   r->indices + out);
        }
    }
}

static exg_status plan(exg_kernel_call *call, bool is_min, bool has_values, exg_error *err)
{
    const exg_tensor *in = &call->inputs[0];
    extreme_params *p = EXG_NEW(call->arena, extreme_params);

    if (p == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    p->dtype = in->dtype;
    if (!exg_compute_of(p->dtype, &p->compute)) {
        return exg_unsupported_dtype("max or min", p->dtype, err);
    }
    if (exg_call_is_none(call, 1)) {
        p->around = (exg_around){1, exg_tensor_numel(in), 1};
    } else {
        p->around = exg_around_dim(in, exg_call_dim(call, 1, in->rank));
    }
    p->is_min = is_min;
    p->has_values = has_values;
    p->bytes = exg_dtype_bytes(p->dtype);
    p->tiles = exg_ceil_div(p->around.inner, COLUMNS);
    p->rows_of_block =
        exg_items_per_block(p->around.size * EXG_MIN(p->around.inner, COLUMNS), EXG_GRAIN);
    p->convert = EXG_LOOPS(exg_loops_convert);
    call->params = p;
    return EXG_OK;
}

static void extreme_run(const exg_kernel_call *call)
{
    const extreme_params *p = call->params;
    extreme_run_context r = {p, call->inputs[0].data, NULL, call->outputs[0].data};

    if (p->has_values) {
        r.values = call->outputs[0].data;
        r.indices = call->outputs[1].data;
    }
    if (p->around.size > 0) {
        exg_pool_run(call->pool, extreme_block, &r,
                     exg_block_count(p->around.outer * p->tiles, p->rows_of_block));
    }
}

#define EXTREME_KERNEL(kernel, is_min, has_values)                                            \
    static exg_status kernel##_prepare(exg_kernel_call *call, exg_error *err)                 \
    {                                                                                         \
        return plan(call, is_min, has_values, err);                                           \
    }                                                                                         \
    const exg_kernel exg_kernel_##kernel = {                                                  \
        .name = #kernel,                                                                      \
        .prepare = kernel##_prepare,                                                          \
        .run = extreme_run,                                                                   \
    };

EXTREME_KERNEL(max_dim, false, true)
EXTREME_KERNEL(min_dim, true, true)
EXTREME_KERNEL(argmax, false, false)
EXTREME_KERNEL(argmin, true, false)
