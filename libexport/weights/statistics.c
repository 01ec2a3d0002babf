/* statistics.c - what the elements of a tensor are, counted. */
#include "libexport/base/require.h"
#include "libexport/weights/cast.h"
#include "libexport/weights/storage.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#define PART 8192 /* elements at a time */

/* The smallest number of a dtype with all its digits; 0 of one where smaller ones are usual. */
static double smallest_normal(exg_dtype dtype)
{
    switch (dtype) {
    case EXG_DTYPE_F16:
        return 0x1p-14;
    case EXG_DTYPE_BF16:
    case EXG_DTYPE_F32:
        return FLT_MIN;
    case EXG_DTYPE_F64:
        return DBL_MIN;
    default:
        return 0;
    }
}

/* `count` numbers more; NaN is in no comparison. */
static void count_part(const double *numbers, uint64_t count, double normal,
                       exg_weight_statistics *s, double sums[2])
{
    for (uint64_t i = 0; i < count; i++) {
        double x = numbers[i];
        double magnitude = fabs(x);
        bool finite = magnitude <= DBL_MAX;

        s->nan += x != x;
        s->infinite += magnitude > DBL_MAX;
        s->zero += x == 0;
        s->denormal += magnitude > 0 && magnitude < normal;
        s->min = x < s->min ? x : s->min;
        s->max = x > s->max ? x : s->max;
        sums[0] += finite ? x : 0;
        sums[1] += finite ? x * x : 0;
    }
}

static exg_status measure(exg_weights *weights, const exg_weight *weight, uint8_t *raw,
                          double *numbers, exg_weight_statistics *s, exg_error *err)
{
    exg_dtype dtype = weight->meta->dtype;
    uint32_t width = exg_dtype_bytes(dtype);
    double normal = smallest_normal(dtype);
    double sums[2] = {0, 0};
    uint64_t known;

    for (uint64_t first = 0; first < s->count; first += PART) {
        uint64_t count = s->count - first < PART ? s->count - first : PART;
        uint64_t begin = ((uint64_t)weight->meta->storage_offset.value + first) * width;

        EXG_TRY(exg_weight_read_range(weights, weight, first, count, raw, err));
        exg_elements_cast(dtype, raw, EXG_DTYPE_F64, numbers, count);
        count_part(numbers, count, normal, s, sums);
        if (exg_tensor_meta_is_packed(weight->meta)) {
            exg_storage_forget(weights, weight->storage, begin / EXG_FRAME_BYTES * EXG_FRAME_BYTES,
                               begin + count * width);
        }
    }
    known = s->count - s->nan - s->infinite;
    s->mean = known == 0 ? (double)NAN : sums[0] / (double)known;
    s->deviation =
        known == 0 ? (double)NAN : sqrt(fmax(0, sums[1] / (double)known - s->mean * s->mean));
    if (s->min > s->max) { /* nothing, or nothing but NaN */
        s->min = s->max = (double)NAN;
    }
    return EXG_OK;
}

exg_status exg_weight_measure(exg_weights *weights, const exg_weight *weight,
                              exg_weight_statistics *statistics, exg_error *err)
{
    EXG_REQUIRE(err, weights, weight, statistics);
    uint8_t *raw;
    double *numbers;
    int64_t numel = 0;
    exg_status status;

    *statistics = (exg_weight_statistics){.min = (double)INFINITY, .max = -(double)INFINITY};
    if (weight->meta == NULL || weight->use_pickle || weight->encoding != NULL ||
        exg_dtype_is_complex(weight->meta->dtype)) {
        return EXG_FAIL(err, USAGE, "WGT-013", "%s is %s, not plain numbers", weight->fqn,
                        weight->encoding != NULL ? weight->encoding
                        : weight->meta == NULL   ? "an object"
                                                 : exg_dtype_name(weight->meta->dtype));
    }
    (void)exg_tensor_meta_numel(weight->meta, &numel);
    statistics->count = (uint64_t)numel;
    raw = malloc(PART * sizeof(double));
    numbers = malloc(PART * sizeof(double));
    status = raw == NULL || numbers == NULL
                 ? EXG_OUT_OF_MEMORY(err)
                 : measure(weights, weight, raw, numbers, statistics, err);
    free(raw);
    free(numbers);
    return status;
}
