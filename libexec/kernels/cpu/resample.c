/* resample.c - sums of elements at places along one dim, each times a weight.
 *
 *   self (.., elements, ..)   places, weights (terms, count)   result (.., count, ..)
 *
 * A place that is none raises INDEX and has a zero.
 */
#include "libexec/kernels/cpu/common.h"
#include "libexec/kernels/loops/weighted.h"

#include <string.h>

#define TERMS_MAX 128
#define TILE_MAX  256  /* outputs of a row at a time */
#define TILE_ALL  4096 /* terms of all of them */
#define ROWS      256  /* that a tile is used for */
#define SPAN_MAX  64   /* elements */
#define BLOCK     16384

typedef struct resample_params {
    exg_around self;
    int64_t terms, count;
    int64_t tile, tiles; /* of outputs, where rows are along the dim */
    int64_t group;       /* outputs a block, where they are across it */
    bool is_double;
    const exg_weighted_loops *loops;
} resample_params;

/* What is known of a tile's places. */
typedef struct tile {
    int32_t places[TILE_ALL];
    int32_t bases[TILE_MAX]; /* of `lanes` outputs each */
    union {
        float f32[TILE_ALL];
        double f64[TILE_ALL];
    } weights;
} tile;

static exg_status resample_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *self = &call->inputs[0];
    const exg_tensor *places = &call->inputs[1];
    resample_params *p = EXG_NEW(call->arena, resample_params);

    if (p == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if ((self->dtype != EXG_DTYPE_F32 && self->dtype != EXG_DTYPE_F64) ||
        call->inputs[2].dtype != self->dtype || places->dtype != EXG_DTYPE_I64) {
        return exg_unsupported_dtype("resample", self->dtype, err);
    }
    p->is_double = self->dtype == EXG_DTYPE_F64;
    p->self = exg_around_dim(self, exg_call_dim(call, 3, self->rank));
    p->terms = places->sizes[0];
    p->count = places->sizes[1];
    if (p->self.size > INT32_MAX || p->terms > TERMS_MAX) {
        return EXG_FAIL(err, LIMIT, "KRN-013", "%lld weights of each of %lld elements",
                        (long long)p->terms, (long long)p->self.size);
    }
    p->tile = EXG_MIN(TILE_MAX, TILE_ALL / p->terms);
    p->tiles = exg_ceil_div(p->count, p->tile);
    p->group = p->self.inner == 0 ? p->count : EXG_MAX(BLOCK / p->self.inner, 1);
    p->loops = EXG_LOOPS(exg_loops_weighted);
    call->params = p;
    return EXG_OK;
}

/* Element `place`, or -1. */
static int64_t checked(const exg_kernel_call *call, int64_t place)
{
    const resample_params *p = call->params;

    if (place < 0 || place >= p->self.size) {
        exg_raise_index(call, place, p->self.size);
        return -1;
    }
    return place;
}

static double weight_at(const exg_kernel_call *call, int64_t at)
{
    const resample_params *p = call->params;

    return p->is_double ? ((const double *)call->inputs[2].data)[at]
                        : (double)((const float *)call->inputs[2].data)[at];
}

/* ---- along rows --------------------------------------------------------------------------- */

/* Where outputs that are computed at once begin to read; -1: their places are too far apart. */
static void find_bases(const resample_params *p, int64_t count, tile *t)
{
    const int64_t lanes = p->loops->lanes;
    const int64_t span = p->loops->span;
    const int64_t elements = EXG_MAX(p->self.size, span); /* short rows are copied */

    for (int64_t first = 0; first + lanes <= count; first += lanes) {
        int32_t least = INT32_MAX;
        int32_t most = 0;

        for (int64_t term = 0; term < p->terms; term++) {
            for (int64_t k = first; k < first + lanes; k++) {
                least = EXG_MIN(least, t->places[term * p->tile + k]);
                most = EXG_MAX(most, t->places[term * p->tile + k]);
            }
        }
        t->bases[first / lanes] =
            most - least < span ? (int32_t)EXG_MIN(least, elements - span) : -1;
    }
}

static void fill_tile(const exg_kernel_call *call, int64_t first, int64_t count, tile *t)
{
    const resample_params *p = call->params;

    for (int64_t term = 0; term < p->terms; term++) {
        const int64_t from = term * p->count + first;

        for (int64_t k = 0, to = term * p->tile; k < count; k++, to++) {
            const int64_t place = checked(call, ((const int64_t *)call->inputs[1].data)[from + k]);
            const double weight = place < 0 ? 0 : weight_at(call, from + k);

            t->places[to] = place < 0 ? 0 : (int32_t)place;
            if (p->is_double) {
                t->weights.f64[to] = weight;
            } else {
                t->weights.f32[to] = (float)weight;
            }
        }
    }
    if (!p->is_double && p->loops->span > 0) {
        find_bases(p, count, t);
    }
}

static void along_block(void *context, uint32_t block)
{
    const exg_kernel_call *call = context;
    const resample_params *p = call->params;
    const int64_t first = block % p->tiles * p->tile;
    const int64_t count = EXG_MIN(p->count - first, p->tile);
    const int64_t row = block / p->tiles * ROWS;
    const int64_t end = EXG_MIN(row + ROWS, p->self.outer);
    float copy[SPAN_MAX] = {0};
    tile t;

    fill_tile(call, first, count, &t);
    for (int64_t r = row; r < end; r++) {
        if (p->is_double) {
            p->loops->f64(count, (double *)call->outputs[0].data + r * p->count + first,
                          (const double *)call->inputs[0].data + r * p->self.size, p->terms,
                          t.places, t.weights.f64, p->tile);
        } else {
            const float *x = (const float *)call->inputs[0].data + r * p->self.size;

            if (p->self.size < p->loops->span) {
                x = memcpy(copy, x, (size_t)p->self.size * sizeof(*x));
            }
            p->loops->near_f32(count, (float *)call->outputs[0].data + r * p->count + first, x,
                               t.bases, p->terms, t.places, t.weights.f32, p->tile);
        }
    }
}

/* ---- across rows ---------------------------------------------------------------------------- */

static void across_block(void *context, uint32_t block)
{
    const exg_kernel_call *call = context;
    const resample_params *p = call->params;
    const int64_t groups = exg_ceil_div(p->count, p->group);
    const int64_t outer = block / groups;
    const int64_t first = block % groups * p->group;
    const int64_t end = EXG_MIN(first + p->group, p->count);
    const int64_t bytes = exg_dtype_bytes(call->inputs[0].dtype);
    const char *const x =
        (const char *)call->inputs[0].data + outer * p->self.size * p->self.inner * bytes;
    const void *rows[TERMS_MAX];
    union {
        float f32[TERMS_MAX];
        double f64[TERMS_MAX];
    } weights;

    for (int64_t k = first; k < end; k++) {
        char *y = (char *)call->outputs[0].data + (outer * p->count + k) * p->self.inner * bytes;
        int64_t terms = 0;

        for (int64_t term = 0; term < p->terms; term++) {
            const int64_t at = term * p->count + k;
            const int64_t place = checked(call, ((const int64_t *)call->inputs[1].data)[at]);

            if (place >= 0) {
                rows[terms] = x + place * p->self.inner * bytes;
                if (p->is_double) {
                    weights.f64[terms++] = weight_at(call, at);
                } else {
                    weights.f32[terms++] = (float)weight_at(call, at);
                }
            }
        }
        if (p->is_double) {
            p->loops->rows_f64(p->self.inner, (double *)(void *)y, terms, rows, weights.f64);
        } else {
            p->loops->rows_f32(p->self.inner, (float *)(void *)y, terms, rows, weights.f32);
        }
    }
}

static void resample_run(const exg_kernel_call *call)
{
    const resample_params *p = call->params;
    exg_kernel_call own = *call;

    if (p->self.outer * p->count * p->self.inner == 0) {
        return;
    }
    if (p->self.inner == 1) {
        exg_pool_run(call->pool, along_block, &own,
                     (uint32_t)(exg_ceil_div(p->self.outer, ROWS) * p->tiles));
    } else {
        exg_pool_run(call->pool, across_block, &own,
                     (uint32_t)(p->self.outer * exg_ceil_div(p->count, p->group)));
    }
}

const exg_kernel exg_kernel_resample = {
    .name = "resample",
    .prepare = resample_prepare,
    .run = resample_run,
    .flags = EXG_KERNEL_RAISES,
};
