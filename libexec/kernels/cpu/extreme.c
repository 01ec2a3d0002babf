/* extreme.c - max_dim, min_dim, argmax, argmin: the first extreme along a dimension.
 *
 *   x (outer, size, inner), contiguous; NaN is the extreme when there is one.
 */
#include "libexec/kernels/cpu/common.h"

#include <math.h>

#define COLUMNS 1024
#define STRETCH 128

typedef struct extreme_params {
    exg_around around;
    bool is_min;
    int64_t tiles; /* of inner, of COLUMNS each */
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

/* A NaN takes the place of a number and keeps it: no comparison with it holds.
 *
 * Columns of one outer row: the best of each, one element of all at a time, without a
 * branch. A dense row: the extreme of a stretch first, and its place only in a stretch
 * that has a better one. */
#define DEFINE_BEST(type, name)                                                                    \
    static inline int better_##name(const type x, const type best, const bool is_min)              \
    {                                                                                              \
        return (is_min ? x < best : x > best) | ((x != x) & (best == best));                       \
    }                                                                                              \
    static inline void columns_##name(const bool is_min, int64_t count, const type *x, int32_t at, \
                                      type *best, int32_t *where)                                  \
    {                                                                                              \
        EXG_INDEPENDENT                                                                            \
        for (int64_t k = 0; k < count; k++) {                                                      \
            int better = better_##name(x[k], best[k], is_min);                                     \
                                                                                                   \
            best[k] = better ? x[k] : best[k];                                                     \
            where[k] = better ? at : where[k];                                                     \
        }                                                                                          \
    }                                                                                              \
    static void best_##name(const extreme_params *p, const char *in, int64_t count, char *values,  \
                            int64_t *indices)                                                      \
    {                                                                                              \
        type best[COLUMNS];                                                                        \
        type scratch[COLUMNS];                                                                     \
        int32_t where[COLUMNS] = {0};                                                              \
                                                                                                   \
        p->convert->load[p->dtype]((uint32_t)count, best, in, 1);                                  \
        for (int64_t i = 1; i < p->around.size; i++) {                                             \
            const type *x = (const type *)(const void *)(in += p->around.inner * p->bytes);        \
                                                                                                   \
            if (!exg_compute_is_storage(p->dtype)) {                                               \
                p->convert->load[p->dtype]((uint32_t)count, scratch, in, 1);                       \
                x = scratch;                                                                       \
            }                                                                                      \
            if (p->is_min) {                                                                       \
                columns_##name(true, count, x, (int32_t)i, best, where);                           \
            } else {                                                                               \
                columns_##name(false, count, x, (int32_t)i, best, where);                          \
            }                                                                                      \
        }                                                                                          \
        for (int64_t k = 0; k < count; k++) {                                                      \
            indices[k] = where[k];                                                                 \
        }                                                                                          \
        if (values != NULL) {                                                                      \
            p->convert->store[p->dtype]((uint32_t)count, values, 1, best);                         \
        }                                                                                          \
    }                                                                                              \
    /* whether a stretch has something better than best */                                         \
    static inline bool improves_##name(const bool is_min, int64_t count, const type *x,            \
                                       const type best)                                            \
    {                                                                                              \
        int any = 0;                                                                               \
                                                                                                   \
        for (int64_t k = 0; k < count; k++) {                                                      \
            any |= better_##name(x[k], best, is_min);                                              \
        }                                                                                          \
        return any != 0;                                                                           \
    }                                                                                              \
    static void best_of_row_##name(const extreme_params *p, const char *in, char *values,          \
                                   int64_t *index)                                                 \
    {                                                                                              \
        type best;                                                                                 \
        type scratch[STRETCH];                                                                     \
                                                                                                   \
        p->convert->load[p->dtype](1, &best, in, 1);                                               \
        *index = 0;                                                                                \
        for (int64_t first = 0; first < p->around.size; first += STRETCH) {                        \
            int64_t count = EXG_MIN(p->around.size - first, STRETCH);                              \
            const type *x = (const type *)(const void *)(in + first * p->bytes);                   \
                                                                                                   \
            if (!exg_compute_is_storage(p->dtype)) {                                               \
                p->convert->load[p->dtype]((uint32_t)count, scratch, in + first * p->bytes, 1);    \
                x = scratch;                                                                       \
            }                                                                                      \
            if (!(p->is_min ? improves_##name(true, count, x, best)                                \
                            : improves_##name(false, count, x, best))) {                           \
                continue;                                                                          \
            }                                                                                      \
            for (int64_t k = 0; k < count; k++) {                                                  \
                if (better_##name(x[k], best, p->is_min)) {                                        \
                    best = x[k];                                                                   \
                    *index = first + k;                                                            \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        if (values != NULL) {                                                                      \
            p->convert->store[p->dtype](1, values, 1, &best);                                      \
        }                                                                                          \
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
    if (p->around.inner > 1 && p->around.size > INT32_MAX) {
        return EXG_FAIL(err, LIMIT, "KRN-011", "max or min over %lld elements",
                        (long long)p->around.size);
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

#define EXTREME_KERNEL(kernel, is_min, has_values)                                                 \
    static exg_status kernel##_prepare(exg_kernel_call *call, exg_error *err)                      \
    {                                                                                              \
        return plan(call, is_min, has_values, err);                                                \
    }                                                                                              \
    const exg_kernel exg_kernel_##kernel = {                                                       \
        .name = #kernel,                                                                           \
        .prepare = kernel##_prepare,                                                               \
        .run = extreme_run,                                                                        \
    };

EXTREME_KERNEL(max_dim, false, true)
EXTREME_KERNEL(min_dim, true, true)
EXTREME_KERNEL(argmax, false, false)
EXTREME_KERNEL(argmin, true, false)
