/* attention.c - scaled_dot_product_attention: of 16-bit elements by tiles on the device's matrix
 * units (attention_tiles.cu); of others and many rows by two products of cuBLASLt around the
 * weights (weights.cu); else by attention.cu.
 */
#include "libexec/device/cuda/kernel_args.h"
#include "libexec/device/cuda/operand.h"
#include "libexec/device/cuda/product.h"
#include "libexec/kernels/cpu/common.h"

#include <math.h>
#include <stdio.h>

#define ROWS          16  /* of attention.cu */
#define DEPTH_MAX_F32 128 /* what fits shared memory */
#define DEPTH_MAX_F64 64

#define FEWEST_ROWS 16          /* of a product that is worth it */
#define SCORES_MOST (256 << 20) /* bytes */
#define ALIGNED     256

#define TILE_DEPTH_MAX  256 /* of attention_tiles.cu: what fits registers */
#define TILE_WIDTH_MAX  128
#define TILE_CAPABILITY 80
#define SPLITS_MAX      256
#define SHARED_MAX      49152 /* bytes, without asking for more */

static exg_status check(const exg_kernel_call *call, exg_error *err)
{
    exg_dtype dtype = call->inputs[0].dtype;

    EXG_TRY(exg_require_float("attention", dtype, err));
    if (call->inputs[1].dtype != dtype || call->inputs[2].dtype != dtype ||
        call->outputs[0].dtype != dtype) {
        return exg_unsupported_dtype("attention with a key or value", call->inputs[1].dtype, err);
    }
    if (exg_cuda_has(call, 3) && call->inputs[3].dtype != EXG_DTYPE_B8) {
        EXG_TRY(exg_require_float("attention with a mask", call->inputs[3].dtype, err));
        if ((call->inputs[3].dtype == EXG_DTYPE_F64) != (dtype == EXG_DTYPE_F64)) {
            return exg_unsupported_dtype("attention with a mask", call->inputs[3].dtype, err);
        }
    }
    return EXG_OK;
}

/* The stride of a dimension `from_end` away, 0 where the tensor broadcasts. */
static int64_t stride_of(const exg_tensor *t, uint32_t from_end)
{
    uint32_t d = t->rank - from_end;

    return t->rank < from_end || t->sizes[d] == 1 ? 0 : t->strides[d];
}

static void set_strides(const exg_kernel_call *call, cuda_attention_params *p)
{
    const exg_tensor *out = &call->outputs[0];

    p->batch_rank = out->rank > 3 ? out->rank - 3 : 0;
    for (uint32_t o = 0; o < 4; o++) {
        if (!exg_cuda_has(call, o)) {
            continue;
        }
        for (uint32_t d = 0; d < 3; d++) {
            p->strides[o][d] = stride_of(&call->inputs[o], 3 - d);
        }
        for (uint32_t d = 0; d < (uint32_t)p->batch_rank; d++) {
            p->batch_sizes[d] = out->sizes[d];
            p->batch_strides[o][d] = stride_of(&call->inputs[o], out->rank - d);
        }
    }
}

/* ---- by products --------------------------------------------------------------------------- */

/* An operand whose matrices lie equally far apart, (batch * heads, rows, width): itself, or a copy
 * of it in the workspace. Heads that share a key or value share it here too. */
static exg_status even_out(exg_kernel_call *call, const cuda_attention_params *p, uint32_t operand,
                           int64_t rows, int64_t width, uint64_t *workspace, exg_cuda_slot *slot,
                           cuda_matrix *matrix, exg_error *err)
{
    const exg_tensor *t = &call->inputs[operand];
    int64_t heads = operand == 0 ? p->heads : p->heads / p->heads_of_kv;
    exg_tensor batch = {0};
    exg_piece piece = {.input = operand};
    cuda_view view;
    uint64_t bytes = exg_dtype_bytes(t->dtype);

    for (int64_t d = 0; d < p->batch_rank; d++) {
        batch.sizes[d] = p->batch_sizes[d];
        batch.strides[d] = p->batch_strides[operand][d];
    }
    batch.rank = (uint32_t)p->batch_rank + 1;
    batch.sizes[batch.rank - 1] = heads;
    batch.strides[batch.rank - 1] = p->strides[operand][0];
    view = exg_cuda_view(&batch);
    *matrix = (cuda_matrix){view.rank == 0 ? 0 : view.strides[0], p->strides[operand][1],
                            p->strides[operand][2]};
    *slot = (exg_cuda_slot){EXG_CUDA_INPUT, (uint8_t)operand, 0};
    if (view.rank <= 1 &&
        (operand != 0 || (p->heads_of_kv == 1) || matrix->batch == rows * matrix->row)) {
        return EXG_OK;
    }
    *matrix = (cuda_matrix){rows * width, width, 1};
    *slot = (exg_cuda_slot){EXG_CUDA_WORKSPACE, 0, *workspace};
    piece.rank = batch.rank + 2;
    memcpy(piece.sizes, batch.sizes, sizeof(piece.sizes));
    memcpy(piece.from_strides, batch.strides, sizeof(piece.from_strides));
    piece.sizes[batch.rank] = rows;
    piece.sizes[batch.rank + 1] = width;
    piece.from_strides[batch.rank] = p->strides[operand][1];
    piece.from_strides[batch.rank + 1] = p->strides[operand][2];
    piece.to_strides[piece.rank - 1] = 1;
    for (uint32_t d = piece.rank - 1; d-- > 0;) {
        piece.to_strides[d] = piece.to_strides[d + 1] * piece.sizes[d + 1];
    }
    EXG_TRY(exg_cuda_add_piece(call, &piece, *slot, err));
    *workspace +=
        (uint64_t)exg_round_up(piece.to_strides[0] * piece.sizes[0] * (int64_t)bytes, ALIGNED);
    return EXG_OK;
}

static exg_status add_weights(exg_kernel_call *call, const cuda_attention_params *p,
                              const char *mask_options, exg_dtype score, uint64_t scores,
                              uint64_t weights, int64_t rows, exg_error *err)
{
    exg_cuda_launch *launch = NULL;

    EXG_TRY(EXG_CUDA_ADD(call, "weights", "weights", "w iz iz i3 w", *p, &launch, err,
                         "-DX=%s -DSCORE=%s %s %s", exg_cuda_dtype(call->inputs[0].dtype),
                         exg_cuda_dtype(score), score == EXG_DTYPE_F64 ? "-DIS_DOUBLE" : "",
                         mask_options));
    launch->slots[0].offset = scores;
    launch->slots[4].offset = weights;
    launch->blocks[0] = (uint32_t)rows;
    return EXG_OK;
}

/* *taken: else nothing was added. */
static exg_status by_products(exg_kernel_call *call, const cuda_attention_params *p, int64_t batch,
                              const char *mask_options, bool *taken, exg_error *err)
{
    exg_dtype dtype = call->inputs[0].dtype;
    exg_dtype score = dtype == EXG_DTYPE_F64 ? EXG_DTYPE_F64 : EXG_DTYPE_F32;
    int64_t rows = batch * p->heads * p->rows;
    int64_t scores = rows * p->keys;
    uint64_t at = 0;
    uint64_t of_scores;
    uint64_t of_weights;
    exg_cuda_product first = {.a_dtype = dtype, .b_dtype = dtype, .c_dtype = score};
    exg_cuda_product second = {.a_dtype = dtype, .b_dtype = dtype, .c_dtype = dtype};

    *taken = false;
    if (p->rows < FEWEST_ROWS || p->keys * p->depth == 0 || rows > INT32_MAX ||
        scores * (int64_t)(exg_dtype_bytes(score) + exg_dtype_bytes(dtype)) > SCORES_MOST) {
        return EXG_OK;
    }
    EXG_TRY(even_out(call, p, 0, p->rows, p->depth, &at, &first.a, &first.of.of_a, err));
    EXG_TRY(even_out(call, p, 1, p->keys, p->depth, &at, &first.b, &first.of.of_b, err));
    EXG_TRY(even_out(call, p, 2, p->keys, p->width, &at, &second.b, &second.of.of_b, err));
    of_scores = at;
    of_weights = of_scores + (uint64_t)exg_round_up(scores * exg_dtype_bytes(score), ALIGNED);
    at = of_weights + (uint64_t)exg_round_up(scores * exg_dtype_bytes(dtype), ALIGNED);
    first.workspace = second.workspace = at;
    call->workspace_bytes = at;
    first.of.batch = second.of.batch = batch * p->heads / p->heads_of_kv;
    first.of.m = second.of.m = p->rows * p->heads_of_kv;
    first.of.n = second.of.k = p->keys;
    first.of.k = p->depth;
    first.of.alpha = p->scale;
    first.of.of_b = (cuda_matrix){first.of.of_b.batch, first.of.of_b.column, first.of.of_b.row};
    first.of.of_a.batch *= p->heads_of_kv;
    first.c = second.a = (exg_cuda_slot){EXG_CUDA_WORKSPACE, 0, of_scores};
    EXG_TRY(exg_cuda_blas_add(call, &first, taken, err));
    if (!*taken) {
        return EXG_OK;
    }
    EXG_TRY(add_weights(call, p, mask_options, score, of_scores, of_weights, rows, err));
    second.of.n = p->width;
    second.of.alpha = 1;
    second.of.of_a = (cuda_matrix){second.of.m * p->keys, p->keys, 1};
    second.a.offset = of_weights;
    second.c = (exg_cuda_slot){EXG_CUDA_OUTPUT, 0, 0};
    return exg_cuda_blas_add(call, &second, taken, err);
}

/* ---- by tiles ------------------------------------------------------------------------------- */

typedef struct tiles {
    int64_t warps, keys, depth, width; /* of a block, as the text is told */
    int64_t blocks, columns;           /* of the grid: of rows and heads; of the width */
} tiles;

/* How the grid is made: keys are split where blocks of rows alone leave the device idle. */
static bool lay_out_tiles(const exg_cuda_device *d, int64_t batch, cuda_attention_params *p,
                          tiles *of)
{
    int64_t rows = p->rows * p->heads_of_kv;
    int64_t wanted;

    of->warps = rows <= 16 ? 1 : rows <= 32 ? 2 : 4;
    of->depth = exg_round_up(p->depth, 16);
    of->width = exg_round_up(EXG_MIN(p->width, TILE_WIDTH_MAX), 16);
    of->keys = 64 * 2 * (of->depth + of->width + 16) <= SHARED_MAX ? 64 : 32;
    of->blocks = exg_ceil_div(rows, 16 * of->warps) * (p->heads / p->heads_of_kv) * batch;
    of->columns = exg_ceil_div(p->width, of->width);
    wanted = (int64_t)d->processors * 8 / of->warps;
    p->splits =
        EXG_MIN(exg_ceil_div(p->keys, of->keys), EXG_MAX(wanted / (of->blocks * of->columns), 1));
    p->splits = EXG_MIN(p->splits, SPLITS_MAX);
    p->keys_of_split = exg_ceil_div(exg_ceil_div(p->keys, of->keys), p->splits) * of->keys;
    p->splits = exg_ceil_div(p->keys, p->keys_of_split);
    p->all_rows = batch * p->heads * p->rows;
    return of->blocks <= INT32_MAX && rows <= INT32_MAX && p->keys <= INT32_MAX &&
           p->all_rows <= INT32_MAX && of->columns <= UINT16_MAX;
}

/* Are rows of the operand words of 16 bytes, apart from where it begins? */
static bool has_whole_words(const cuda_attention_params *p, uint32_t operand, int64_t width)
{
    int64_t sum = width % 8 + p->strides[operand][0] % 8 + p->strides[operand][1] % 8;

    for (int64_t d = 0; d < p->batch_rank; d++) {
        sum += p->batch_strides[operand][d] % 8;
    }
    return sum == 0 && p->strides[operand][2] == 1;
}

static exg_status add_join(exg_kernel_call *call, const cuda_attention_params *p,
                           exg_cuda_launch *launch, exg_error *err)
{
    cuda_attention_parts_params params = {
        .rows = p->all_rows, .width = p->width, .splits = p->splits, .masked = p->masked};
    uint64_t sums = (uint64_t)(p->splits * p->all_rows) * sizeof(float);
    exg_cuda_launch *join = NULL;

    EXG_TRY(EXG_CUDA_ADD(call, "attention_tiles", "attention_join", "w w w o0", params, &join, err,
                         "-DJOIN_PARTS -DX=%s -DSPLITS_MAX=%d",
                         exg_cuda_dtype(call->inputs[0].dtype), SPLITS_MAX));
    join->threads = 256;
    join->blocks[0] = (uint32_t)p->all_rows;
    join->slots[1].offset = launch->slots[6].offset = sums;
    join->slots[2].offset = launch->slots[7].offset = 2 * sums;
    call->workspace_bytes = 2 * sums + (uint64_t)p->width * sums;
    return EXG_OK;
}

static exg_status by_tiles(exg_kernel_call *call, cuda_attention_params *p, int64_t batch,
                           const char *mask_options, bool *taken, exg_error *err)
{
    const exg_cuda_device *d = (const exg_cuda_device *)call->device;
    exg_dtype dtype = call->inputs[0].dtype;
    exg_cuda_launch *launch = NULL;
    tiles of;

    *taken = (dtype == EXG_DTYPE_BF16 || dtype == EXG_DTYPE_F16) &&
             d->capability >= TILE_CAPABILITY && p->depth <= TILE_DEPTH_MAX &&
             p->keys * p->depth > 0 && lay_out_tiles(d, batch, p, &of);
    if (!*taken) {
        return EXG_OK;
    }
    EXG_TRY(EXG_CUDA_ADD(
        call, "attention_tiles", "attention_tiles",
        p->splits > 1 ? "i0 i1 i2 i3 o0 w w w" : "i0 i1 i2 i3 o0", *p, &launch, err,
        "-DX=%s %s -DWARPS=%d -DKEYS=%d -DDEPTH=%d -DWIDTH=%d %s %s", exg_cuda_dtype(dtype),
        dtype == EXG_DTYPE_F16 ? "-DHALF_IS_F16" : "", (int)of.warps, (int)of.keys, (int)of.depth,
        (int)of.width,
        has_whole_words(p, 1, p->depth) && has_whole_words(p, 2, p->width) ? "-DALIGNED" : "",
        mask_options));
    launch->threads = 32 * (uint32_t)of.warps;
    launch->blocks[0] = (uint32_t)of.blocks;
    launch->blocks[1] = (uint32_t)of.columns;
    launch->blocks[2] = (uint32_t)p->splits;
    return p->splits > 1 ? add_join(call, p, launch, err) : EXG_OK;
}

/* ---- by one kernel ------------------------------------------------------------------------- */

static exg_status by_kernel(exg_kernel_call *call, const cuda_attention_params *p, int64_t batch,
                            const char *mask_options, exg_error *err)
{
    bool is_double = call->inputs[0].dtype == EXG_DTYPE_F64;
    int64_t most = is_double ? DEPTH_MAX_F64 : DEPTH_MAX_F32;
    int64_t blocks = batch * p->heads * exg_ceil_div(p->rows, ROWS);
    exg_cuda_launch *launch = NULL;

    if (EXG_MAX(p->depth, p->width) > most || blocks > INT32_MAX) {
        return exg_cuda_refuse("attention of so many rows, or over heads of so many elements", err);
    }
    most = EXG_MAX(p->depth, p->width) <= most / 2 ? most / 2 : most;
    EXG_TRY(exg_cuda_step_begin(call, err)); /* anew */
    EXG_TRY(EXG_CUDA_ADD(call, "attention", "attention", "i0 i1 i2 i3 o0", *p, &launch, err,
                         "-DX=%s -DDEPTH_MAX=%lld %s %s", exg_cuda_dtype(call->inputs[0].dtype),
                         (long long)most, is_double ? "-DIS_DOUBLE" : "", mask_options));
    launch->blocks[0] = (uint32_t)blocks;
    return EXG_OK;
}

static exg_status attention(exg_kernel_call *call, double masked, exg_error *err)
{
    const exg_tensor *query = &call->inputs[0];
    const exg_tensor *key = &call->inputs[1];
    cuda_attention_params p = {.rows = query->sizes[query->rank - 2],
                               .depth = query->sizes[query->rank - 1],
                               .keys = key->sizes[key->rank - 2]};
    int64_t kv_heads = key->rank >= 3 ? key->sizes[key->rank - 3] : 1;
    int64_t batch = 1;
    char mask[64] = "";
    bool taken;

    EXG_TRY(check(call, err));
    p.width = call->inputs[2].sizes[call->inputs[2].rank - 1];
    p.heads = query->rank >= 3 ? call->outputs[0].sizes[query->rank - 3] : 1;
    p.heads_of_kv = kv_heads > 0 && p.heads % kv_heads == 0 ? EXG_MAX(p.heads / kv_heads, 1) : 1;
    p.is_causal = exg_call_bool(call, 4);
    p.scale = exg_call_is_none(call, 5) ? 1.0 / sqrt((double)p.depth) : exg_call_float(call, 5);
    p.masked = p.keys > 0 ? masked : 0;
    set_strides(call, &p);
    for (int64_t d = 0; d < p.batch_rank; d++) {
        batch *= p.batch_sizes[d];
    }
    if (exg_cuda_has(call, 3)) {
        (void)snprintf(mask, sizeof(mask), "-DHAS_MASK -DMASK=%s %s",
                       exg_cuda_dtype(call->inputs[3].dtype),
                       call->inputs[3].dtype == EXG_DTYPE_B8 ? "-DMASK_IS_BOOL" : "");
    }
    EXG_TRY(exg_cuda_step_begin(call, err));
    if (exg_tensor_numel(&call->outputs[0]) == 0) {
        return EXG_OK;
    }
    EXG_TRY(by_tiles(call, &p, batch, mask, &taken, err));
    if (!taken) {
        EXG_TRY(by_products(call, &p, batch, mask, &taken, err));
    }
    return taken ? EXG_OK : by_kernel(call, &p, batch, mask, err);
}

static exg_status attention_prepare(exg_kernel_call *call, exg_error *err)
{
    return attention(call, 0, err);
}

static exg_status attention_of_softmax_prepare(exg_kernel_call *call, exg_error *err)
{
    return attention(call, NAN, err);
}

EXG_CUDA_KERNEL(attention, EXG_KERNEL_ANY_STRIDES);
EXG_CUDA_KERNEL(attention_of_softmax, EXG_KERNEL_ANY_STRIDES);
