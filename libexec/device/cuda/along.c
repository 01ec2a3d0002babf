/* along.c - along one dimension: max_dim, min_dim, argmax, argmin, cumsum, cumprod, searchsorted;
 * and masks: places, checked.
 */
#include "libexec/device/cuda/kernel_args.h"
#include "libexec/device/cuda/kernel_table.h"
#include "libexec/device/cuda/operand.h"
#include "libexec/kernels/cpu/common.h"

#include <stdio.h>

#define OPTIONS       192 /* bytes of a text */
#define FEW           64  /* elements of a line that one thread takes */
#define MANY_LINES    16384
#define BLOCK         256  /* threads */
#define TILE          2048 /* of scan.cu */
#define TILES_LEAST   4    /* of a part */
#define BLOCKS_WANTED 8    /* for each multiprocessor */

/* Who takes a line: neighbours in a warp are to read what lies side by side. */
typedef enum line_way { BY_BLOCK, BY_THREAD, BY_COLUMNS } line_way;

static line_way way_of(exg_around around)
{
    bool is_side_by_side = around.inner == 1;
    int64_t lines = around.outer * around.inner;

    return around.size <= FEW    ? BY_THREAD
           : is_side_by_side     ? BY_BLOCK
           : lines >= MANY_LINES ? BY_THREAD
                                 : BY_COLUMNS;
}

static const char *option_of(line_way way)
{
    static const char *const options[] = {"", "-DBY_THREAD", "-DCOLUMNS"};

    return options[way];
}

static void grid_of_lines(exg_cuda_launch *launch, int64_t lines, line_way way)
{
    exg_cuda_grid(launch, lines);
    if (way != BY_THREAD) {
        lines = way == BY_COLUMNS ? exg_ceil_div(lines, EXG_CUDA_WARP) : lines;
        launch->blocks[0] = (uint32_t)EXG_MIN(lines, EXG_CUDA_BLOCKS_MAX);
    }
}

/* ---- extremes ------------------------------------------------------------------------------ */

static exg_status extreme(exg_kernel_call *call, const char *kind, bool has_values, exg_error *err)
{
    const exg_tensor *in = &call->inputs[0];
    exg_around around = {1, exg_tensor_numel(in), 1};
    cuda_extreme_params params;
    exg_compute compute;
    exg_cuda_launch *launch = NULL;
    uint32_t threads = BLOCK;
    line_way way;

    if (!exg_compute_of(in->dtype, &compute)) {
        return exg_unsupported_dtype("max or min", in->dtype, err);
    }
    if (!exg_call_is_none(call, 1)) {
        around = exg_around_dim(in, exg_call_dim(call, 1, in->rank));
    }
    params = (cuda_extreme_params){
        .rows = around.outer * around.inner, .size = around.size, .inner = around.inner};
    EXG_TRY(exg_cuda_step_begin(call, err));
    if (params.rows * params.size == 0) {
        return EXG_OK;
    }
    way = way_of(around);
    if (way == BY_BLOCK) {
        threads = exg_cuda_threads_of_row(call, params.rows, params.size);
    }
    EXG_TRY(EXG_CUDA_ADD(call, "extreme", "extreme", has_values ? "i0 o0 o1" : "i0 oz o0", params,
                         &launch, err, "-DIN=%s %s %s %s -DBLOCK_THREADS=%u",
                         exg_cuda_dtype(in->dtype), kind, has_values ? "-DHAS_VALUES" : "",
                         option_of(way), threads));
    grid_of_lines(launch, params.rows, way);
    launch->threads = threads;
    return EXG_OK;
}

#define EXTREME(name, kind, has_values)                                                            \
    static exg_status name##_prepare(exg_kernel_call *call, exg_error *err)                        \
    {                                                                                              \
        return extreme(call, kind, has_values, err);                                               \
    }                                                                                              \
    EXG_CUDA_KERNEL(name, 0)

EXTREME(max_dim, "", true);
EXTREME(min_dim, "-DIS_MIN", true);
EXTREME(argmax, "", false);
EXTREME(argmin, "-DIS_MIN", false);

/* ---- scans --------------------------------------------------------------------------------- */

/* Of a few long lines, so that all multiprocessors have some. */
static void split_lines(const exg_cuda_device *d, cuda_scan_params *p)
{
    int64_t wanted = BLOCKS_WANTED * (int64_t)d->processors / p->rows;
    int64_t tiles = exg_ceil_div(p->size, TILE);
    int64_t of_part = exg_ceil_div(tiles, EXG_MAX(EXG_MIN(wanted, tiles / TILES_LEAST), 1));

    p->part_size = of_part * TILE;
    p->part_count = exg_ceil_div(p->size, p->part_size);
}

/* Where in the workspace what is scanned is, and the totals. */
static void move_slots(exg_cuda_launch *launch, uint64_t at, uint64_t totals)
{
    for (int i = 0; i < 2; i++) {
        launch->slots[i].offset = launch->slots[i].kind == EXG_CUDA_WORKSPACE ? at : 0;
    }
    launch->slots[2].offset = totals;
}

exg_status exg_cuda_add_scan(exg_kernel_call *call, exg_around around, exg_dtype in,
                             exg_dtype out_dtype, const char *slots, uint64_t at, const char *kind,
                             exg_error *err)
{
    cuda_scan_params params = {
        .rows = around.outer * around.inner, .size = around.size, .inner = around.inner};
    exg_compute loaded;
    exg_compute compute;
    exg_cuda_launch *launch = NULL;
    char options[OPTIONS];
    line_way way = way_of(around);
    uint64_t totals = (call->workspace_bytes + 7) / 8 * 8;

    if (!exg_compute_of(in, &loaded) || !exg_compute_of(out_dtype, &compute)) {
        return exg_unsupported_dtype("cumsum", in, err);
    }
    if (params.rows * params.size == 0) {
        return EXG_OK;
    }
    (void)snprintf(options, sizeof(options), "-DIN=%s -DOUT=%s %s %s %s %s -DBLOCK_THREADS=%d",
                   exg_cuda_dtype(in), exg_cuda_dtype(out_dtype), kind,
                   compute <= EXG_COMPUTE_F64 ? "-DREAL" : "",
                   compute == EXG_COMPUTE_F32 && out_dtype != EXG_DTYPE_F32 ? "-DIS_NARROW" : "",
                   option_of(way), BLOCK);
    params.part_count = 1;
    params.part_size = params.size;
    if (way == BY_BLOCK) {
        split_lines((const exg_cuda_device *)call->device, &params);
    }
    if (params.part_count > 1) {
        call->workspace_bytes =
            totals + (uint64_t)(params.rows * params.part_count) * sizeof(double);
        EXG_TRY(EXG_CUDA_ADD(call, "scan", "scan_totals", slots, params, &launch, err,
                             "%s -DTOTALS", options));
        move_slots(launch, at, totals);
        grid_of_lines(launch, params.rows, way);
        launch->blocks[1] = (uint32_t)params.part_count;
    }
    EXG_TRY(EXG_CUDA_ADD(call, "scan", "scan", slots, params, &launch, err, "%s %s", options,
                         params.part_count > 1 ? "-DPARTS" : ""));
    move_slots(launch, at, totals);
    grid_of_lines(launch, params.rows, way);
    launch->blocks[1] = (uint32_t)params.part_count;
    return EXG_OK;
}

static exg_status scan(exg_kernel_call *call, const char *kind, exg_error *err)
{
    const exg_tensor *in = &call->inputs[0];

    EXG_TRY(exg_cuda_step_begin(call, err));
    return exg_cuda_add_scan(call, exg_around_dim(in, exg_call_dim(call, 1, in->rank)), in->dtype,
                             call->outputs[0].dtype, "i0 o0 w", 0, kind, err);
}

static exg_status cumsum_prepare(exg_kernel_call *call, exg_error *err)
{
    return scan(call, "", err);
}

static exg_status cumprod_prepare(exg_kernel_call *call, exg_error *err)
{
    return scan(call, "-DIS_PRODUCT", err);
}

EXG_CUDA_KERNEL(cumsum, 0);
EXG_CUDA_KERNEL(cumprod, 0);

static exg_status places_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *mask = &call->inputs[0];
    cuda_places_params params = {
        .numel = exg_tensor_numel(mask), .most = call->outputs[0].sizes[0], .rank = mask->rank};
    exg_cuda_launch *launch = NULL;

    if (mask->dtype != EXG_DTYPE_B8) {
        return exg_unsupported_dtype("places", mask->dtype, err);
    }
    memcpy(params.sizes, mask->sizes, sizeof(params.sizes));
    EXG_TRY(exg_cuda_step_begin(call, err));
    call->workspace_bytes = (uint64_t)params.numel * sizeof(int64_t);
    EXG_TRY(exg_cuda_add_scan(call, (exg_around){1, params.numel, 1}, EXG_DTYPE_B8, EXG_DTYPE_I64,
                              "i0 w w", 0, "", err));
    EXG_TRY(EXG_CUDA_ADD(call, "nonzero", "places", "i0 w o0 f", params, &launch, err, "%s", ""));
    exg_cuda_grid(launch, EXG_MAX(params.numel, 1));
    return EXG_OK;
}

EXG_CUDA_KERNEL(places, 0);

static exg_status checked_prepare(exg_kernel_call *call, exg_error *err)
{
    cuda_check_params params = {.numel = exg_tensor_numel(&call->inputs[1])};
    exg_cuda_launch *launch = NULL;

    if (call->inputs[1].dtype != EXG_DTYPE_B8) {
        return exg_unsupported_dtype("checked", call->inputs[1].dtype, err);
    }
    EXG_TRY(exg_cuda_step_begin(call, err));
    EXG_TRY(exg_cuda_add_copy_of_self(call, err));
    if (params.numel == 0) {
        return EXG_OK;
    }
    EXG_TRY(EXG_CUDA_ADD(call, "nonzero", "check", "i1 f", params, &launch, err, "%s", ""));
    exg_cuda_grid(launch, params.numel);
    return EXG_OK;
}

EXG_CUDA_KERNEL(checked, EXG_KERNEL_IN_PLACE);

/* ---- searches ------------------------------------------------------------------------------- */

static exg_status searchsorted_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *edges = &call->inputs[0];
    const exg_tensor *values = &call->inputs[1];
    cuda_search_params params = {.size = edges->sizes[edges->rank - 1],
                                 .own_edges = edges->rank > 1,
                                 .width = values->rank == 0 ? 1 : values->sizes[values->rank - 1],
                                 .is_right = exg_call_bool(call, 2)};
    int64_t numel = exg_tensor_numel(values);
    exg_compute compute;
    exg_cuda_launch *launch = NULL;

    if (!exg_compute_of(values->dtype, &compute) || edges->dtype != values->dtype) {
        return exg_unsupported_dtype("searchsorted", values->dtype, err);
    }
    EXG_TRY(exg_require_index("searchsorted", call->outputs[0].dtype, err));
    EXG_TRY(exg_cuda_step_begin(call, err));
    if (numel == 0) {
        return EXG_OK;
    }
    params.lines = numel / params.width;
    EXG_TRY(EXG_CUDA_ADD(call, "search", "search", "i0 i1 o0", params, &launch, err,
                         "-DIN=%s -DOUT=%s", exg_cuda_dtype(values->dtype),
                         exg_cuda_dtype(call->outputs[0].dtype)));
    exg_cuda_grid(launch, numel);
    return EXG_OK;
}

EXG_CUDA_KERNEL(searchsorted, 0);
