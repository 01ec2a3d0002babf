/* roi.c - what lies in boxes of a feature map, on a grid: roi_align, roi_pool, and those whose
 * cells have channels of their own (position-sensitive: ps_). */
#include "libexec/libraries/torchvision.h"

#include <float.h>
#include <math.h>
#include <stdatomic.h>

#define SAMPLES_MAX 4096 /* of a cell, along a dim */

/* The arguments of all of them: input (N, C, H, W), rois (K, 5) of (image, x1, y1, x2, y2). */
typedef struct roi_call {
    const exg_operator_call *call;
    int64_t channels, height, width; /* of the input */
    int64_t rows, columns;           /* of the grid */
    int64_t out_channels;
    int64_t ratio; /* samples a cell along a dim; 0: as many as the cell is long */
    double scale;
    bool aligned;
    atomic_bool outside;   /* a box of an image that is not there */
    atomic_bool too_large; /* a cell of more samples than SAMPLES_MAX */
} roi_call;

static exg_status check(const exg_operator_call *call, exg_error *err)
{
    const exg_tensor *input = &call->inputs[0], *rois = &call->inputs[1];

    if (input->rank != 4 || rois->rank != 2 || rois->sizes[1] != 5) {
        return EXG_OPERATOR_FAIL(err, MALFORMED, "the input is (N, C, H, W), rois are (K, 5)");
    }
    if (exg_operator_int(call, 3) <= 0 || exg_operator_int(call, 4) <= 0) {
        return EXG_OPERATOR_FAIL(err, MALFORMED, "a grid without cells");
    }
    return exg_vision_check_dtypes(call, err);
}

static void shape_result(exg_operator_call *call, uint32_t at, exg_dtype dtype, int64_t channels)
{
    exg_tensor *out = &call->outputs[at];

    *out = (exg_tensor){.dtype = dtype,
                        .rank = 4,
                        .sizes = {call->inputs[1].sizes[0], channels, exg_operator_int(call, 3),
                                  exg_operator_int(call, 4)}};
}

exg_status exg_roi_align_shape(exg_operator_call *call, exg_error *err)
{
    exg_status status = check(call, err);

    shape_result(call, 0, call->inputs[0].dtype, call->inputs[0].sizes[1]);
    return status;
}

exg_status exg_roi_pool_shape(exg_operator_call *call, exg_error *err)
{
    exg_status status = check(call, err);

    shape_result(call, 0, call->inputs[0].dtype, call->inputs[0].sizes[1]);
    shape_result(call, 1, EXG_DTYPE_I32, call->inputs[0].sizes[1]);
    return status;
}

exg_status exg_ps_roi_shape(exg_operator_call *call, exg_error *err)
{
    int64_t cells = exg_operator_int(call, 3) * exg_operator_int(call, 4);
    exg_status status = check(call, err);

    if (status == EXG_OK && call->inputs[0].sizes[1] % cells != 0) {
        return EXG_OPERATOR_FAIL(err, MALFORMED, "channels are no multiple of the grid's cells");
    }
    if (status == EXG_OK) {
        shape_result(call, 0, call->inputs[0].dtype, call->inputs[0].sizes[1] / cells);
        shape_result(call, 1, EXG_DTYPE_I32, call->inputs[0].sizes[1] / cells);
    }
    return status;
}

static exg_status run(exg_operator_call *call, void (*f32)(void *context, uint32_t roi),
                      void (*f64)(void *context, uint32_t roi), exg_error *err)
{
    const exg_tensor *input = &call->inputs[0];
    roi_call c = {.call = call,
                  .channels = input->sizes[1],
                  .height = input->sizes[2],
                  .width = input->sizes[3],
                  .rows = exg_operator_int(call, 3),
                  .columns = exg_operator_int(call, 4),
                  .out_channels = call->outputs[0].sizes[1],
                  .ratio = call->arg_count > 5 ? exg_operator_int(call, 5) : 0,
                  .scale = exg_operator_float(call, 2),
                  .aligned = call->arg_count > 6 && exg_operator_bool(call, 6)};

    if (call->inputs[1].sizes[0] > UINT32_MAX) {
        return EXG_OPERATOR_FAIL(err, LIMIT, "more than 2^32 boxes");
    }
    call->parallel(call, input->dtype == EXG_DTYPE_F64 ? f64 : f32, &c,
                   (uint32_t)call->inputs[1].sizes[0]);
    if (atomic_load(&c.outside)) {
        return EXG_OPERATOR_FAIL(err, MALFORMED, "a box is of an image that is not in the batch");
    }
    if (atomic_load(&c.too_large)) {
        return EXG_OPERATOR_FAIL(err, LIMIT, "a box whose cells are longer than %d", SAMPLES_MAX);
    }
    return EXG_OK;
}

static int64_t clamped(double at, int64_t offset, int64_t size)
{
    double sum = at + (double)offset;

    return sum > 0 ? (sum < (double)size ? (int64_t)sum : size) : 0; /* NaN is 0 */
}

/* How many samples a cell of such a length has along a dim: less than none where a box is turned
 * round, which counts all the same. */
static int64_t samples_of(roi_call *c, double length)
{
    if (c->ratio > 0) {
        return c->ratio;
    }
    if (!(length >= -SAMPLES_MAX && length <= SAMPLES_MAX)) {
        atomic_store(&c->too_large, true);
        return 0;
    }
    return (int64_t)length;
}

/* As torchvision computes them: by the type's own arithmetic. */
#define T       float
#define F(name) name##f
#define R(name) name##_f32
#define T_MAX   FLT_MAX
#include "libexec/libraries/roi_loops.h"
#undef T
#undef F
#undef R
#undef T_MAX
#define T       double
#define F(name) name
#define R(name) name##_f64
#define T_MAX   DBL_MAX
#include "libexec/libraries/roi_loops.h"

static exg_status compute_roi_align(exg_operator_call *call, exg_error *err)
{
    return run(call, roi_align_f32, roi_align_f64, err);
}

static exg_status compute_roi_pool(exg_operator_call *call, exg_error *err)
{
    return run(call, roi_pool_f32, roi_pool_f64, err);
}

static exg_status compute_ps_roi_align(exg_operator_call *call, exg_error *err)
{
    return run(call, ps_roi_align_f32, ps_roi_align_f64, err);
}

static exg_status compute_ps_roi_pool(exg_operator_call *call, exg_error *err)
{
    return run(call, ps_roi_pool_f32, ps_roi_pool_f64, err);
}

exg_status exg_roi_align(exg_operator_call *call, exg_error *err)
{
    return exg_vision_widened(call, compute_roi_align, err);
}

exg_status exg_roi_pool(exg_operator_call *call, exg_error *err)
{
    return exg_vision_widened(call, compute_roi_pool, err);
}

exg_status exg_ps_roi_align(exg_operator_call *call, exg_error *err)
{
    return exg_vision_widened(call, compute_ps_roi_align, err);
}

exg_status exg_ps_roi_pool(exg_operator_call *call, exg_error *err)
{
    return exg_vision_widened(call, compute_ps_roi_pool, err);
}
