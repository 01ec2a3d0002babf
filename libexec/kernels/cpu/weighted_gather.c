/* weighted_gather.c - elements of every channel at the same places, each times a weight, added up.
 *
 *   self (n, channels, elements)   places, weights (n, terms, count)   result (n, channels, count)
 *
 * Place -1 has a zero; one that is none raises INDEX and has a zero, too.
 */
#include "libexec/kernels/cpu/common.h"
#include "libexec/kernels/loops/weighted.h"

#include <math.h>

#define TILE      256 /* places at a time */
#define TERMS_MAX 16

typedef struct weighted_params {
    int64_t n, channels, elements, terms, count;
    int64_t tiles;
    exg_dtype dtype;
    const exg_weighted_loops *loops;
} weighted_params;

/* What is known of a tile's places; those without an element are element 0, times 0. */
typedef struct tile {
    int32_t places[TERMS_MAX * TILE];
    bool outside[TERMS_MAX * TILE];
    bool any_outside;
    union {
        float f32[TERMS_MAX * TILE];
        double f64[TERMS_MAX * TILE];
    } weights;
} tile;

static exg_status weighted_gather_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *self = &call->inputs[0];
    const exg_tensor *places = &call->inputs[1];
    weighted_params *p = EXG_NEW(call->arena, weighted_params);

    if (p == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    p->dtype = self->dtype;
    if ((p->dtype != EXG_DTYPE_F32 && p->dtype != EXG_DTYPE_F64) ||
        call->inputs[2].dtype != p->dtype || places->dtype != EXG_DTYPE_I64) {
        return exg_unsupported_dtype("weighted_gather", self->dtype, err);
    }
    p->n = self->sizes[0];
    p->channels = self->sizes[1];
    p->elements = self->sizes[2];
    p->terms = places->sizes[1];
    p->count = places->sizes[2];
    if (p->elements > INT32_MAX || p->terms > TERMS_MAX) {
        return EXG_FAIL(err, LIMIT, "KRN-013", "%lld weights of each of %lld elements",
                        (long long)p->terms, (long long)p->elements);
    }
    p->tiles = exg_ceil_div(p->count, TILE);
    p->loops = EXG_LOOPS(exg_loops_weighted);
    call->params = p;
    return EXG_OK;
}

static void fill_tile(const exg_kernel_call *call, int64_t n, int64_t first, int64_t count, tile *t)
{
    const weighted_params *p = call->params;

    t->any_outside = false;
    for (int64_t term = 0; term < p->terms; term++) {
        const int64_t from = (n * p->terms + term) * p->count + first;
        const int64_t *places = (const int64_t *)call->inputs[1].data + from;

        for (int64_t k = 0, to = term * TILE; k < count; k++, to++) {
            const bool outside = places[k] < 0 || places[k] >= p->elements;

            if (outside && places[k] != -1) {
                exg_raise_index(call, places[k], p->elements);
            }
            t->places[to] = outside ? 0 : (int32_t)places[k];
            t->outside[to] = outside;
            t->any_outside |= outside;
            if (p->dtype == EXG_DTYPE_F64) {
                t->weights.f64[to] = outside ? 0 : ((const double *)call->inputs[2].data)[from + k];
            } else {
                t->weights.f32[to] = outside ? 0 : ((const float *)call->inputs[2].data)[from + k];
            }
        }
    }
}

/* Where element 0 is not finite, which zeros do not make 0. */
static void sum_each(const weighted_params *p, const tile *t, int64_t count, void *y, const void *x)
{
    for (int64_t k = 0; k < count; k++) {
        double wide = 0;
        float sum = 0;

        for (int64_t term = 0; term < p->terms; term++) {
            const int64_t at = term * TILE + k;

            if (!t->outside[at] && p->dtype == EXG_DTYPE_F64) {
                wide += ((const double *)x)[t->places[at]] * t->weights.f64[at];
            } else if (!t->outside[at]) {
                sum += ((const float *)x)[t->places[at]] * t->weights.f32[at];
            }
        }
        if (p->dtype == EXG_DTYPE_F64) {
            ((double *)y)[k] = wide;
        } else {
            ((float *)y)[k] = sum;
        }
    }
}

static void weighted_block(void *context, uint32_t block)
{
    const exg_kernel_call *call = context;
    const weighted_params *p = call->params;
    const int64_t n = block / p->tiles;
    const int64_t first = block % p->tiles * TILE;
    const int64_t count = EXG_MIN(p->count - first, TILE);
    const int64_t bytes = exg_dtype_bytes(p->dtype);
    tile t;

    fill_tile(call, n, first, count, &t);
    for (int64_t channel = n * p->channels; channel < (n + 1) * p->channels; channel++) {
        const void *x = (const char *)call->inputs[0].data + channel * p->elements * bytes;
        void *y = (char *)call->outputs[0].data + (channel * p->count + first) * bytes;
        bool is_double = p->dtype == EXG_DTYPE_F64;

        if (t.any_outside &&
            (p->elements == 0 || !isfinite(is_double ? *(const double *)x : *(const float *)x))) {
            sum_each(p, &t, count, y, x);
        } else if (is_double) {
            p->loops->f64(count, y, x, p->terms, t.places, t.weights.f64, TILE);
        } else {
            p->loops->f32(count, y, x, p->terms, t.places, t.weights.f32, TILE);
        }
    }
}

static void weighted_gather_run(const exg_kernel_call *call)
{
    const weighted_params *p = call->params;
    exg_kernel_call own = *call;

    exg_pool_run(call->pool, weighted_block, &own, (uint32_t)(p->n * p->tiles));
}

const exg_kernel exg_kernel_weighted_gather = {
    .name = "weighted_gather",
    .prepare = weighted_gather_prepare,
    .run = weighted_gather_run,
    .flags = EXG_KERNEL_RAISES,
};
