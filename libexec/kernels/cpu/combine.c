/* combine.c - sums, products and extremes of two rows of elements. */
#include "libexec/kernels/cpu/combine.h"

#define LANES 64

typedef union lanes {
    float f32[LANES];
    double f64[LANES];
    int32_t i32[LANES];
    int64_t i64[LANES];
} lanes;

/* The kind is told outside of the loops, which then are simple ones. */
#define COMBINE_ALL(kind, type)                                                                    \
    for (int64_t k = 0; k < count; k++) {                                                          \
        type *x = (type *)a + k;                                                                   \
                                                                                                   \
        *x = EXG_COMBINE_##kind(*x, ((const type *)b)[k]);                                         \
    }                                                                                              \
    break

#define COMBINE_EACH(type)                                                                         \
    switch (kind) {                                                                                \
    case EXG_COMBINE_BY_ADD:                                                                       \
        COMBINE_ALL(ADD, type);                                                                    \
    case EXG_COMBINE_BY_PROD:                                                                      \
        COMBINE_ALL(PROD, type);                                                                   \
    case EXG_COMBINE_BY_AMAX:                                                                      \
        COMBINE_ALL(AMAX, type);                                                                   \
    default:                                                                                       \
        COMBINE_ALL(AMIN, type);                                                                   \
    }                                                                                              \
    break

static void combine_rows(exg_combination kind, exg_compute compute, int64_t count, void *a,
                         const void *b)
{
    switch (compute) {
    case EXG_COMPUTE_F32:
        COMBINE_EACH(float);
    case EXG_COMPUTE_F64:
        COMBINE_EACH(double);
    case EXG_COMPUTE_I32:
        COMBINE_EACH(int32_t);
    default:
        COMBINE_EACH(int64_t);
    }
}

exg_status exg_combiner_init(exg_combiner *c, exg_combination kind, exg_dtype dtype,
                             const char *kernel, exg_error *err)
{
    if (!exg_compute_of(dtype, &c->compute)) {
        return exg_unsupported_dtype(kernel, dtype, err);
    }
    c->kind = kind;
    c->bytes = exg_dtype_bytes(dtype);
    c->is_storage = exg_compute_is_storage(dtype);
    c->load = EXG_LOOPS(exg_loops_convert)->load[dtype];
    c->store = EXG_LOOPS(exg_loops_convert)->store[dtype];
    return EXG_OK;
}

void exg_combine(const exg_combiner *c, char *self, const char *src, int64_t count)
{
    lanes a;
    lanes b;

    if (c->is_storage) {
        combine_rows(c->kind, c->compute, count, self, src);
        return;
    }
    for (int64_t first = 0; first < count; first += LANES) {
        int64_t some = EXG_MIN(count - first, LANES);

        c->load((uint32_t)some, &a, self + first * c->bytes, 1);
        c->load((uint32_t)some, &b, src + first * c->bytes, 1);
        combine_rows(c->kind, c->compute, some, &a, &b);
        c->store((uint32_t)some, self + first * c->bytes, 1, &a);
    }
}
