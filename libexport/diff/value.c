/* value.c - floats as vectors, and floats of one dtype beside those of another. */
#include "libexport/diff/differ.h"

#include "libexport/weights/cast.h"
#include "libexport/weights/storage.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PART 16384 /* elements at a time */

/* A part of each of two weights, and one of them as another dtype. */
typedef struct parts {
    uint8_t a[PART * sizeof(double)];
    uint8_t b[PART * sizeof(double)];
    uint8_t cast[PART * sizeof(double)];
} parts;

/* Elements [first, first + *count) of both. */
static exg_status read_parts(exg_differ *d, const exg_weight *a, const exg_weight *b,
                             uint64_t first, uint64_t numel, parts *p, uint64_t *count,
                             exg_error *err)
{
    *count = numel - first < PART ? numel - first : PART;
    EXG_TRY_IN(err, exg_weight_read_range(d->a_weights, a, first, *count, p->a, err),
               "weights[\"%s\"]", a->fqn);
    EXG_TRY_IN(err, exg_weight_read_range(d->b_weights, b, first, *count, p->b, err),
               "weights[\"%s\"]", b->fqn);
    return EXG_OK;
}

static void compare(const exg_differ *d, exg_dtype dtype, const uint8_t *x, const uint8_t *y,
                    exg_value_difference *v)
{
    double a = exg_element_value(dtype, x);
    double b = exg_element_value(dtype, y);
    double difference = fabs(a - b);

    if (a == b || (isnan(a) && isnan(b)) ||
        difference <= d->options->atol + d->options->rtol * fabs(a)) {
        return;
    }
    v->differing++;
    v->max_abs = isnan(difference) || difference > v->max_abs ? difference : v->max_abs;
    difference = difference / fabs(a);
    v->max_rel = isnan(difference) || difference > v->max_rel ? difference : v->max_rel;
}

static exg_status compare_all(exg_differ *d, const exg_weight *a, const exg_weight *b, parts *p,
                              exg_value_difference *v, exg_error *err)
{
    exg_dtype dtype = b->meta->dtype;
    uint32_t width = exg_dtype_bytes(dtype);
    uint64_t count;
    int64_t numel = 0;

    (void)exg_tensor_meta_numel(a->meta, &numel);
    v->total = (uint64_t)numel;
    for (uint64_t first = 0; first < (uint64_t)numel; first += count) {
        EXG_TRY(read_parts(d, a, b, first, (uint64_t)numel, p, &count, err));
        exg_elements_cast(a->meta->dtype, p->a, dtype, p->cast, count);
        if (memcmp(p->cast, p->b, (size_t)(count * width)) == 0) {
            continue;
        }
        for (uint64_t i = 0; i < count; i++) {
            compare(d, dtype, p->cast + i * width, p->b + i * width, v);
        }
    }
    return EXG_OK;
}

exg_status exg_diff_cast(exg_differ *d, const exg_weight *a, const exg_weight *b,
                         exg_value_difference *v, exg_error *err)
{
    parts *p = malloc(sizeof(*p));
    exg_status status = p == NULL ? EXG_OUT_OF_MEMORY(err) : compare_all(d, a, b, p, v, err);

    free(p);
    return status;
}

/* ---- angle ------------------------------------------------------------------------------- */

/* Sums of products. */
typedef struct products {
    double ab, aa, bb;
} products;

static exg_status add_up(exg_differ *d, const exg_weight *a, const exg_weight *b, parts *p,
                         products *sums, exg_error *err)
{
    uint64_t count;
    int64_t numel = 0;

    (void)exg_tensor_meta_numel(a->meta, &numel);
    for (uint64_t first = 0; first < (uint64_t)numel; first += count) {
        EXG_TRY(read_parts(d, a, b, first, (uint64_t)numel, p, &count, err));
        for (uint64_t i = 0; i < count; i++) {
            double x =
                exg_element_value(a->meta->dtype, p->a + i * exg_dtype_bytes(a->meta->dtype));
            double y =
                exg_element_value(b->meta->dtype, p->b + i * exg_dtype_bytes(b->meta->dtype));

            sums->ab += x * y;
            sums->aa += x * x;
            sums->bb += y * y;
        }
    }
    return EXG_OK;
}

exg_status exg_diff_cosine(exg_differ *d, const exg_weight *a, const exg_weight *b,
                           exg_value_difference *v, exg_error *err)
{
    products sums = {0};
    parts *p;
    exg_status status;

    v->cosine = (double)NAN;
    if (!exg_weight_is_of_floats(a)) {
        return EXG_OK;
    }
    p = malloc(sizeof(*p));
    status = p == NULL ? EXG_OUT_OF_MEMORY(err) : add_up(d, a, b, p, &sums, err);
    free(p);
    if (status == EXG_OK && sums.aa > 0 && sums.bb > 0) {
        v->cosine = sums.ab / (sqrt(sums.aa) * sqrt(sums.bb));
    }
    return status;
}
