/* nms.c - boxes of which no two overlap by more than a threshold, best scores first. */
#include "libexec/libraries/torchvision.h"

#include <math.h>
#include <stdlib.h>

typedef struct scored {
    double score;
    int64_t at;
} scored;

/* NaN counts as the greatest; equal scores stay in order. */
static int by_score(const void *left, const void *right)
{
    const scored *a = left, *b = right;

    if (isnan(a->score) || isnan(b->score)) {
        int nans = isnan(b->score) - isnan(a->score);

        return nans != 0 ? nans : (a->at > b->at) - (a->at < b->at);
    }
    return a->score != b->score ? (a->score < b->score) - (a->score > b->score)
                                : (a->at > b->at) - (a->at < b->at);
}

/* Does box `b` overlap `a` by more than the threshold? In the dtype of the boxes. */
#define OVERLAPS(name, type, largest, smallest)                                                    \
    static bool name(const void *boxes, int64_t at, int64_t other, double threshold)               \
    {                                                                                              \
        const type *a = (const type *)boxes + at * 4, *b = (const type *)boxes + other * 4;        \
        type width = largest(0, smallest(a[2], b[2]) - largest(a[0], b[0]));                       \
        type height = largest(0, smallest(a[3], b[3]) - largest(a[1], b[1]));                      \
        type both = width * height;                                                                \
        type own = (a[2] - a[0]) * (a[3] - a[1]);                                                  \
        type others = (b[2] - b[0]) * (b[3] - b[1]);                                               \
                                                                                                   \
        return (double)(both / (own + others - both)) > threshold;                                 \
    }

OVERLAPS(overlaps_f32, float, fmaxf, fminf)
OVERLAPS(overlaps_f64, double, fmax, fmin)

static exg_status check(const exg_operator_call *call, exg_error *err)
{
    const exg_tensor *boxes = &call->inputs[0], *scores = &call->inputs[1];

    if (boxes->rank != 2 || boxes->sizes[1] != 4 || scores->rank != 1 ||
        scores->sizes[0] != boxes->sizes[0]) {
        return EXG_OPERATOR_FAIL(err, MALFORMED, "boxes are (N, 4), scores (N)");
    }
    return exg_vision_check_dtypes(call, err);
}

/* The boxes that stay, into `kept`, or counted where that is NULL. */
static exg_status keep(exg_operator_call *call, int64_t *kept, int64_t *count, exg_error *err)
{
    const exg_tensor *boxes = &call->inputs[0];
    const void *scores = call->inputs[1].data;
    bool wide = boxes->dtype == EXG_DTYPE_F64;
    bool (*overlaps)(const void *, int64_t, int64_t, double) = wide ? overlaps_f64 : overlaps_f32;
    double threshold = exg_operator_float(call, 2);
    int64_t n;
    scored *order;

    *count = 0;
    if (check(call, err) != EXG_OK) {
        return err->status;
    }
    n = boxes->sizes[0];
    order = malloc((size_t)(n + 1) * sizeof(*order));
    if (order == NULL) {
        return EXG_OPERATOR_FAIL(err, NO_MEMORY, "out of memory");
    }
    for (int64_t i = 0; i < n; i++) {
        order[i] =
            (scored){wide ? ((const double *)scores)[i] : (double)((const float *)scores)[i], i};
    }
    qsort(order, (size_t)n, sizeof(*order), by_score);
    for (int64_t i = 0; i < n; i++) { /* those that are left out are -1 */
        for (int64_t k = i + 1; order[i].at >= 0 && k < n; k++) {
            if (order[k].at >= 0 && overlaps(boxes->data, order[i].at, order[k].at, threshold)) {
                order[k].at = -1;
            }
        }
        if (order[i].at >= 0 && kept != NULL) {
            kept[*count] = order[i].at;
        }
        *count += order[i].at >= 0;
    }
    free(order);
    return EXG_OK;
}

static exg_status compute_nms_length(exg_operator_call *call, exg_error *err)
{
    return keep(call, NULL, &call->length, err);
}

exg_status exg_nms_shape(exg_operator_call *call, exg_error *err)
{
    call->outputs[0].dtype = EXG_DTYPE_I64;
    call->outputs[0].rank = 1;
    call->outputs[0].sizes[0] = call->length;
    return check(call, err);
}

static exg_status compute_nms(exg_operator_call *call, exg_error *err)
{
    int64_t count;

    return keep(call, call->outputs[0].data, &count, err);
}

exg_status exg_nms(exg_operator_call *call, exg_error *err)
{
    return exg_vision_widened(call, compute_nms, err);
}

exg_status exg_nms_length(exg_operator_call *call, exg_error *err)
{
    return exg_vision_widened(call, compute_nms_length, err);
}
