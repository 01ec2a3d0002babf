/* sorting.c - sort and topk along one dimension, and items in order for scatter.c. */
#include "libexec/device/cuda/kernel_args.h"
#include "libexec/device/cuda/kernel_table.h"
#include "libexec/device/cuda/operand.h"
#include "libexec/kernels/cpu/common.h"

#define TOPK_MAX   1024 /* that a block of topk.cu keeps */
#define FEW        16   /* items that one thread brings in order */
#define CHUNK      2048 /* of sort.cu */
#define DIGIT_BITS 8
#define DIGITS     (1 << DIGIT_BITS) /* and threads of a block */
#define BLOCKS_MAX (1 << 22)

/* ---- items --------------------------------------------------------------------------------- */

/* Where in the workspace what is. */
typedef struct places {
    uint64_t from, to, counts;
} places;

static exg_status add_radix(exg_kernel_call *call, const exg_cuda_order *order, const char *entry,
                            const places *at, int32_t bit, int64_t threads, exg_error *err)
{
    cuda_radix_params params = {.lines = order->lines,
                                .size = order->size,
                                .chunks = exg_ceil_div(order->size, CHUNK),
                                .first_bit = bit,
                                .end_bit = order->end_bit};
    exg_cuda_launch *launch = NULL;

    EXG_TRY(EXG_CUDA_ADD(call, "sort", entry, "w w w", params, &launch, err,
                         "%s -DBLOCK_THREADS=%d", exg_cuda_item_option(order->is_wide), DIGITS));
    launch->slots[0].offset = at->from;
    launch->slots[1].offset = at->to;
    launch->slots[2].offset = at->counts;
    launch->threads = DIGITS;
    launch->blocks[0] = (uint32_t)EXG_MIN(exg_ceil_div(threads, DIGITS), BLOCKS_MAX);
    return EXG_OK;
}

/* Digit by digit, from one half of the workspace to the other and back. */
static exg_status add_moves(exg_kernel_call *call, const exg_cuda_order *order, places *at,
                            exg_error *err)
{
    int64_t counts = DIGITS * exg_ceil_div(order->size, CHUNK);
    int64_t threads = order->lines * counts;

    for (int32_t bit = order->first_bit; bit < order->end_bit; bit += DIGIT_BITS) {
        places next = {at->to, at->from, at->counts};

        EXG_TRY(add_radix(call, order, "sort_count", at, bit, threads, err));
        EXG_TRY(exg_cuda_add_scan(call, (exg_around){order->lines, counts, 1}, EXG_DTYPE_I32,
                                  EXG_DTYPE_I32, "w w w", at->counts, "", err));
        EXG_TRY(add_radix(call, order, "sort_move", at, bit, threads, err));
        *at = next;
    }
    return EXG_OK;
}

exg_status exg_cuda_add_sort(exg_kernel_call *call, const exg_cuda_order *order, uint64_t *sorted,
                             exg_error *err)
{
    uint64_t bytes = (uint64_t)(order->lines * order->size) * exg_cuda_item_bytes(order->is_wide);
    places at = {0, bytes, 2 * bytes};

    call->workspace_bytes = bytes;
    *sorted = 0;
    if (order->size <= 1 || order->lines == 0) {
        return EXG_OK;
    }
    if (order->size > INT32_MAX) {
        return exg_cuda_refuse("more than 2^31 elements in order", err);
    }
    if (order->size <= FEW) {
        return add_radix(call, order, "sort_few", &at, 0, order->lines, err);
    }
    if (order->size <= CHUNK) {
        return add_radix(call, order, "sort_line", &at, order->first_bit, order->lines * DIGITS,
                         err);
    }
    call->workspace_bytes =
        at.counts +
        (uint64_t)(order->lines * DIGITS * exg_ceil_div(order->size, CHUNK)) * sizeof(int32_t);
    EXG_TRY(add_moves(call, order, &at, err));
    *sorted = at.from;
    return EXG_OK;
}

/* ---- sort, topk ------------------------------------------------------------------------------ */

/* What key.h is told of the dtype. */
static const char *kind_of_key(exg_dtype dtype)
{
    char class = exg_dtype_class(dtype);
    bool is_wide = exg_dtype_bytes(dtype) == 8;

    if (class == 'F') {
        return is_wide ? "-DIS_FLOAT -DWIDE" : "-DIS_FLOAT";
    }
    if (class == 'I') {
        return is_wide ? "-DWIDE" : "";
    }
    return is_wide ? "-DIS_UNSIGNED -DWIDE" : "-DIS_UNSIGNED";
}

/* The bits that its keys differ in: of an integer its own; a float of 8 or 16 bits is one of 32
 * with zeros behind, of float16 all but 13 of them. */
static exg_cuda_order order_of(exg_dtype dtype, int64_t lines, int64_t size)
{
    int32_t bits = 8 * (int32_t)exg_dtype_bytes(dtype);
    bool is_narrow_float = exg_dtype_is_float(dtype) && bits < 32;

    return (exg_cuda_order){.lines = lines,
                            .size = size,
                            .is_wide = bits == 64,
                            .first_bit = !is_narrow_float         ? 0
                                         : dtype == EXG_DTYPE_F16 ? 8
                                                                  : 16,
                            .end_bit = is_narrow_float ? 32 : bits};
}

static exg_status add_sort_step(exg_kernel_call *call, const cuda_sort_params *params,
                                const char *entry, const char *slots, int64_t threads,
                                bool is_descending, uint64_t items, exg_error *err)
{
    exg_dtype dtype = call->inputs[0].dtype;
    exg_cuda_launch *launch = NULL;

    EXG_TRY(EXG_CUDA_ADD(call, "sort", entry, slots, *params, &launch, err,
                         "-DIN=%s -DELEMENT=element_%u %s %s", exg_cuda_dtype(dtype),
                         exg_dtype_bytes(dtype), kind_of_key(dtype),
                         is_descending ? "-DIS_DESCENDING" : ""));
    launch->slots[1].offset = items;
    exg_cuda_grid(launch, threads);
    return EXG_OK;
}

/* The first `kept` of a line without its order. */
static exg_status add_topk(exg_kernel_call *call, const cuda_sort_params *params,
                           bool is_descending, exg_error *err)
{
    exg_dtype dtype = call->inputs[0].dtype;
    exg_cuda_launch *launch = NULL;
    uint32_t threads = exg_cuda_threads_of_row(call, params->lines, params->size);
    int most = 16;

    while (most < params->kept) {
        most *= 2;
    }
    EXG_TRY(EXG_CUDA_ADD(call, "topk", "topk", "i0 iz o0 o1", *params, &launch, err,
                         "-DIN=%s -DELEMENT=element_%u %s %s -DKEPT_MAX=%d -DBLOCK_THREADS=%u",
                         exg_cuda_dtype(dtype), exg_dtype_bytes(dtype), kind_of_key(dtype),
                         is_descending ? "-DIS_DESCENDING" : "", most, threads));
    launch->threads = threads;
    launch->blocks[0] = (uint32_t)EXG_MIN(params->lines, INT32_MAX);
    return EXG_OK;
}

/* `kept` of each line; below 0: all. */
static exg_status sort(exg_kernel_call *call, int64_t kept, exg_error *err)
{
    const exg_tensor *in = &call->inputs[0];
    exg_around around = exg_around_dim(in, exg_call_dim(call, 2, in->rank));
    bool is_descending = exg_call_bool(call, 3);
    cuda_sort_params params = {.lines = around.outer * around.inner,
                               .size = around.size,
                               .inner = around.inner,
                               .kept = kept < 0 ? around.size : kept};
    exg_cuda_order order = order_of(in->dtype, params.lines, params.size);
    exg_compute compute;
    uint64_t sorted;

    if (!exg_compute_of(in->dtype, &compute)) {
        return exg_unsupported_dtype("sort", in->dtype, err);
    }
    EXG_TRY(exg_cuda_step_begin(call, err));
    if (params.lines * params.kept == 0) {
        return EXG_OK;
    }
    if (kept >= 0 && kept <= TOPK_MAX && kept < around.size) {
        return add_topk(call, &params, is_descending, err);
    }
    EXG_TRY(add_sort_step(call, &params, "keys", "i0 w", params.lines * params.size, is_descending,
                          0, err));
    EXG_TRY(exg_cuda_add_sort(call, &order, &sorted, err));
    return add_sort_step(call, &params, "take", "i0 w o0 o1", params.lines * params.kept,
                         is_descending, sorted, err);
}

static exg_status sort_prepare(exg_kernel_call *call, exg_error *err)
{
    return sort(call, -1, err);
}

static exg_status topk_prepare(exg_kernel_call *call, exg_error *err)
{
    return sort(call, exg_call_int(call, 1), err);
}

EXG_CUDA_KERNEL(sort, 0);
EXG_CUDA_KERNEL(topk, 0);
