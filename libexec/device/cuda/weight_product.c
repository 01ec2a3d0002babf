/* weight_product.c - rows by a weight of bytes or half bytes, which stays as it is stored.
 *
 *   few rows     weight_rows.cu: a warp a row of the weight
 *   many         weight_tiles.cu, where the weight means what matrix units take; else gemm.cu
 */
#include "libexec/device/cuda/kernel_args.h"
#include "libexec/device/cuda/kernel_table.h"
#include "libexec/device/cuda/operand.h"
#include "libexec/kernels/cpu/common.h"
#include "libexport/operators/shape.h"

#include <stdio.h>
#include <string.h>

#define FEW_ROWS    8
#define WARPS       8  /* of a block */
#define TILE        64 /* of gemm.cu */
#define ROWS_OF     64 /* of half_tiles.h */
#define COLUMNS_OF  128
#define MATRIX_UNIT 80
#define UNIT        16
#define PACKED_LINE 32 /* half bytes, of which a packed row is a multiple */
#define OPTIONS     360

enum { ROWS, WEIGHT, SCALE, ZERO, OFFSET, BIAS };

static cuda_matrix matrix_of(const exg_kernel_call *call, uint32_t operand, int64_t *groups)
{
    const exg_tensor *t = &call->inputs[operand];
    cuda_matrix m = {0};

    if (!exg_tensor_is_absent(t)) {
        m.row = t->sizes[0] == 1 ? 0 : t->strides[0];
        m.column = t->sizes[1] == 1 ? 0 : t->strides[1];
        *groups = EXG_MAX(*groups, t->sizes[1]);
    }
    return m;
}

static exg_status check(const exg_kernel_call *call, exg_error *err)
{
    exg_dtype stored = call->inputs[WEIGHT].dtype;

    for (uint32_t i = 0; i < call->input_count; i++) {
        exg_dtype dtype = call->inputs[i].dtype;

        if (i != WEIGHT && !exg_tensor_is_absent(&call->inputs[i]) &&
            (dtype == EXG_DTYPE_F64 || exg_require_float("weight_product", dtype, err) != EXG_OK)) {
            return exg_unsupported_dtype("weight_product", dtype, err);
        }
    }
    if (stored != EXG_DTYPE_I8 && stored != EXG_DTYPE_U8 && stored != EXG_DTYPE_F8E4M3FN) {
        return exg_unsupported_dtype("weight_product by", stored, err);
    }
    return call->inputs[WEIGHT].sizes[1] <= INT32_MAX
               ? EXG_OK
               : exg_cuda_refuse("a weight of rows of so many elements", err);
}

/* Elements that a thread takes at once; 0: rows, or groups, are not whole ones of these. */
static int unit_of(const cuda_weight_params *w, bool is_half, bool few)
{
    int unit =
        is_half && few && w->k % (2 * UNIT) == 0 && w->group % (2 * UNIT) == 0 ? 2 * UNIT : UNIT;

    return w->k % UNIT == 0 && w->group % UNIT == 0 ? unit : 0;
}

static void add_option(char *text, const char *name, const exg_kernel_call *call, uint32_t operand)
{
    if (!exg_tensor_is_absent(&call->inputs[operand])) {
        size_t length = strlen(text);

        (void)snprintf(text + length, OPTIONS - length, " -DHAS_%s -D%s=%s", name, name,
                       exg_cuda_dtype(call->inputs[operand].dtype));
    }
}

/* What weight.h and gemm.h ask for. */
static void write_options(const exg_kernel_call *call, const cuda_weight_params *w, int unit,
                          char *text)
{
    exg_dtype stored = call->inputs[WEIGHT].dtype;
    bool is_half = call->packed != NULL;

    (void)snprintf(text, OPTIONS, "-DRESULT=%s -DWEIGHT_BITS=%d%s%s%s",
                   exg_cuda_dtype(call->outputs[0].dtype), is_half ? 4 : 8,
                   is_half                        ? ""
                   : stored == EXG_DTYPE_I8       ? " -DIS_SIGNED"
                   : stored == EXG_DTYPE_F8E4M3FN ? " -DIS_F8"
                                                  : "",
                   w->low != 0 ? " -DHAS_LOW" : "", w->group < w->k ? " -DIS_GROUPED" : "");
    add_option(text, "SCALE", call, SCALE);
    add_option(text, "ZERO", call, ZERO);
    add_option(text, "OFFSET", call, OFFSET);
    add_option(text, "SELF", call, BIAS);
    if (unit > 0) {
        size_t length = strlen(text);

        (void)snprintf(text + length, OPTIONS - length, " -DUNIT=%d", unit);
    }
}

#define SLOTS "i0 i1 i5 i2 i3 i4 o0 e"

static exg_status add_few(exg_kernel_call *call, const cuda_weight_params *w, const char *options,
                          exg_cuda_launch **launch, exg_error *err)
{
    int rows = 1;

    while (rows < w->m) {
        rows *= 2;
    }
    EXG_TRY(EXG_CUDA_ADD(call, "weight_rows", "weight_rows", SLOTS, *w, launch, err,
                         "-DA=%s -DROWS=%d %s", exg_cuda_dtype(call->inputs[ROWS].dtype), rows,
                         options));
    (*launch)->blocks[0] = (uint32_t)exg_ceil_div(w->n, WARPS);
    return EXG_OK;
}

/* Do matrix units take the rows, and what the weight means? */
static bool is_of_halves(const exg_kernel_call *call)
{
    const exg_cuda_device *device = (const exg_cuda_device *)call->device;
    exg_dtype dtype = call->inputs[ROWS].dtype;

    return device->capability >= MATRIX_UNIT &&
           (dtype == EXG_DTYPE_BF16 || dtype == EXG_DTYPE_F16) &&
           exg_dtype_argument(&call->args[9], EXG_DTYPE_F32) == dtype;
}

static exg_status add_many(exg_kernel_call *call, const cuda_weight_params *w, const char *options,
                           exg_cuda_launch **launch, exg_error *err)
{
    bool halves = is_of_halves(call);
    const char *dtype = exg_cuda_dtype(call->inputs[ROWS].dtype);
    int64_t tiles = exg_ceil_div(w->m, halves ? ROWS_OF : TILE) *
                    exg_ceil_div(w->n, halves ? COLUMNS_OF : TILE);

    if (tiles > INT32_MAX) {
        return exg_cuda_refuse("a product of so many tiles", err);
    }
    EXG_TRY(halves ? EXG_CUDA_ADD(call, "weight_tiles", "weight_tiles", SLOTS, *w, launch, err,
                                  "-DX=%s %s %s", dtype,
                                  call->inputs[ROWS].dtype == EXG_DTYPE_F16 ? "-DHALF_IS_F16" : "",
                                  options)
                   : EXG_CUDA_ADD(call, "gemm", "gemm", SLOTS, *w, launch, err, "-DA=%s %s", dtype,
                                  options));
    (*launch)->blocks[0] = (uint32_t)tiles;
    return EXG_OK;
}

static exg_status weight_product_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *weight = &call->inputs[WEIGHT];
    bool is_half = call->packed != NULL;
    cuda_weight_params w = {.batch = 1, .n = weight->sizes[0], .k = weight->sizes[1]};
    int64_t groups = 1;
    char options[OPTIONS];
    exg_cuda_launch *launch;

    EXG_TRY(check(call, err));
    w.m = exg_tensor_numel(&call->inputs[ROWS]) / EXG_MAX(w.k, 1);
    w.of_a = (cuda_matrix){0, w.k, 1};
    w.of_b = (cuda_matrix){0, 1, w.k};
    w.of_self = (cuda_matrix){0, 0, 1};
    w.of_scale = matrix_of(call, SCALE, &groups);
    w.of_zero = matrix_of(call, ZERO, &groups);
    w.of_offset = matrix_of(call, OFFSET, &groups);
    w.group = w.k / groups;
    w.row_bytes = is_half ? exg_round_up(w.k, PACKED_LINE) / 2 : w.k;
    w.alpha = w.beta = 1;
    w.factor = (float)exg_call_float(call, 6);
    w.low = -(float)exg_call_float(call, 7) + (is_half ? (float)exg_call_int(call, 8) : 0);
    call->takes_epilogue = true;
    EXG_TRY(exg_cuda_step_begin(call, err));
    if (w.m * w.n == 0) {
        return EXG_OK;
    }
    write_options(call, &w, unit_of(&w, is_half, w.m <= FEW_ROWS), options);
    EXG_TRY((w.m <= FEW_ROWS ? add_few : add_many)(call, &w, options, &launch, err));
    if (is_half) {
        launch->slots[1] = (exg_cuda_slot){EXG_CUDA_PACKED, 0, 0};
    }
    return EXG_OK;
}

/* ---- half bytes -------------------------------------------------------------------------------
 */

static exg_status weight_pack_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *weight = &call->inputs[WEIGHT];
    exg_tensor *packed = &call->outputs[0];
    cuda_weight_pack_params p = {.rows = weight->sizes[0], .k = weight->sizes[1]};
    exg_cuda_launch *launch;

    packed->rank = 4;
    packed->sizes[0] = 0;
    if (exg_call_is_none(call, 8)) {
        return exg_cuda_step_begin(call, err);
    }
    p.row_bytes = exg_round_up(p.k, PACKED_LINE) / 2;
    p.least = exg_call_int(call, 8);
    packed->sizes[0] = p.rows;
    packed->sizes[1] = p.row_bytes;
    packed->sizes[2] = packed->sizes[3] = 1;
    EXG_TRY(EXG_CUDA_ADD(call, "weight_pack", "weight_pack", "i1 o0", p, &launch, err, "%s", ""));
    exg_cuda_grid(launch, p.rows * p.row_bytes);
    return EXG_OK;
}

EXG_CUDA_KERNEL(weight_pack, 0);

const exg_kernel exg_cuda_weight_product = {
    .name = "weight_product",
    .prepare = weight_product_prepare,
    .run = exg_cuda_step_run,
    .flags = EXG_KERNEL_SEES_EPILOGUE,
    .packer = &exg_cuda_weight_pack,
    .packs = WEIGHT,
};
