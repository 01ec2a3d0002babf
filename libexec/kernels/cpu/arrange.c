/* arrange.c - elements in other places: cat, constant_pad_nd, flip, roll, tril, triu.
 * Each is a list of moves into the result.
 */
#include "libexec/kernels/cpu/common.h"

typedef struct piece {
    uint32_t input;
    int64_t dst_offset; /* bytes */
    int64_t src_offset;
    exg_move move;
} piece;

typedef struct pieces {
    bool fills; /* the whole result first, with `element` */
    uint64_t element[2];
    uint32_t count;
    piece items[];
} pieces;

static pieces *pieces_new(exg_kernel_call *call, uint32_t count, exg_error *err)
{
    pieces *p = exg_arena_alloc(call->arena, 1, sizeof(pieces) + count * sizeof(piece));

    if (p == NULL) {
        EXG_OUT_OF_MEMORY(err);
    }
    call->params = p;
    return p;
}

static void pieces_run(const exg_kernel_call *call)
{
    const pieces *p = call->params;
    const exg_tensor *out = &call->outputs[0];
    char *dst = out->data;

    if (p->fills) {
        exg_fill(dst, p->element, exg_tensor_numel(out), exg_dtype_bytes(out->dtype));
    }
    for (uint32_t i = 0; i < p->count; i++) {
        const piece *item = &p->items[i];

        exg_move_run(&item->move, call->pool, dst + item->dst_offset,
                     (const char *)call->inputs[item->input].data + item->src_offset);
    }
}

/* ---- cat ----------------------------------------------------------------------- */

static exg_status cat_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *out = &call->outputs[0];
    uint32_t dim = exg_call_dim(call, 1, out->rank);
    uint32_t bytes = exg_dtype_bytes(out->dtype);
    pieces *p = pieces_new(call, call->input_count, err);
    int64_t at = 0;

    if (p == NULL) {
        return EXG_NO_MEMORY;
    }
    for (uint32_t i = 0; i < call->input_count; i++) {
        const exg_tensor *in = &call->inputs[i];
        piece *item = &p->items[p->count];

        if (in->rank == 1 && in->sizes[0] == 0) {
            continue; /* an empty vector goes with everything */
        }
        if (in->dtype != out->dtype) {
            return EXG_FAIL(err, UNSUPPORTED, "KRN-006", "cat of %s into %s",
                            exg_dtype_name(in->dtype), exg_dtype_name(out->dtype));
        }
        item->input = i;
        item->dst_offset = at * out->strides[dim] * bytes;
        exg_move_plan(&item->move, in->rank, in->sizes, out->strides, in->strides, bytes);
        at += in->sizes[dim];
        p->count++;
    }
    return EXG_OK;
}

const exg_kernel exg_kernel_cat = {
    .name = "cat",
    .prepare = cat_prepare,
    .run = pieces_run,
    .flags = EXG_KERNEL_ANY_STRIDES,
};

/* ---- constant_pad_nd ------------------------------------------------------------- */

static exg_status constant_pad_nd_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *in = &call->inputs[0];
    const exg_tensor *out = &call->outputs[0];
    uint32_t bytes = exg_dtype_bytes(out->dtype);
    int64_t pad[2 * EXG_RANK_MAX];
    uint32_t count = exg_call_ints(call, 1, pad, 2 * EXG_RANK_MAX);
    int64_t sizes[EXG_RANK_MAX];
    pieces *p = pieces_new(call, 1, err);

    if (p == NULL) {
        return EXG_NO_MEMORY;
    }
    if (!exg_call_element(call, 2, out->dtype, p->element)) {
        return exg_unsupported_dtype("constant_pad_nd", out->dtype, err);
    }
    p->count = 1;
    memcpy(sizes, in->sizes, sizeof(sizes));
    for (uint32_t i = 0; 2 * i + 1 < count; i++) {
        uint32_t d = in->rank - 1 - i;
        int64_t before = pad[2 * i];
        int64_t after = pad[2 * i + 1];

        p->fills = p->fills || before > 0 || after > 0;
        sizes[d] += EXG_MIN(before, 0) + EXG_MIN(after, 0);
        sizes[d] = EXG_MAX(sizes[d], 0);
        p->items[0].dst_offset += EXG_MAX(before, 0) * out->strides[d] * bytes;
        p->items[0].src_offset -= EXG_MIN(before, 0) * in->strides[d] * bytes;
    }
    exg_move_plan(&p->items[0].move, in->rank, sizes, out->strides, in->strides, bytes);
    return EXG_OK;
}

const exg_kernel exg_kernel_constant_pad_nd = {
    .name = "constant_pad_nd",
    .prepare = constant_pad_nd_prepare,
    .run = pieces_run,
    .flags = EXG_KERNEL_ANY_STRIDES,
};

/* ---- flip, roll ------------------------------------------------------------------- */

static exg_status flip_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *in = &call->inputs[0];
    const exg_tensor *out = &call->outputs[0];
    uint32_t bytes = exg_dtype_bytes(out->dtype);
    int64_t strides[EXG_RANK_MAX];
    int64_t dims[EXG_RANK_MAX];
    uint32_t count = exg_call_ints(call, 1, dims, EXG_RANK_MAX);
    pieces *p = pieces_new(call, 1, err);

    if (p == NULL) {
        return EXG_NO_MEMORY;
    }
    memcpy(strides, in->strides, sizeof(strides));
    for (uint32_t i = 0; i < count; i++) {
        int64_t d = dims[i] < 0 ? dims[i] + in->rank : dims[i];

        p->items[0].src_offset += (in->sizes[d] - 1) * strides[d] * bytes;
        strides[d] = -strides[d];
    }
    p->count = 1;
    exg_move_plan(&p->items[0].move, in->rank, in->sizes, out->strides, strides, bytes);
    return EXG_OK;
}

const exg_kernel exg_kernel_flip = {
    .name = "flip",
    .prepare = flip_prepare,
    .run = pieces_run,
    .flags = EXG_KERNEL_ANY_STRIDES,
};

/* One of the 2^n boxes that rolling n dimensions leaves together: bit i of `which`
 * says whether dimension i is taken from its end. */
static void roll_box(const exg_kernel_call *call, piece *item, uint32_t which, uint32_t rank,
                     const int64_t *all_sizes, const int64_t *all_strides,
                     const int64_t *shifts)
{
    uint32_t bytes = exg_dtype_bytes(call->outputs[0].dtype);
    int64_t sizes[EXG_RANK_MAX];

    memcpy(sizes, all_sizes, sizeof(sizes));
    for (uint32_t d = 0, bit = 0; d < rank; d++) {
        if (shifts[d] == 0) {
            continue;
        }
        if ((which >> bit & 1) != 0) {
            sizes[d] = shifts[d];
            item->src_offset += (all_sizes[d] - shifts[d]) * all_strides[d] * bytes;
        } else {
            sizes[d] = all_sizes[d] - shifts[d];
            item->dst_offset += shifts[d] * all_strides[d] * bytes;
        }
        bit++;
    }
    exg_move_plan(&item->move, rank, sizes, all_strides, all_strides, bytes);
}

static exg_status roll_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *in = &call->inputs[0];
    int64_t shifts[EXG_RANK_MAX];
    int64_t dims[EXG_RANK_MAX];
    int64_t by_dim[EXG_RANK_MAX] = {0};
    int64_t flat[EXG_RANK_MAX] = {exg_tensor_numel(in)};
    int64_t one[EXG_RANK_MAX] = {1};
    uint32_t shift_count = exg_call_ints(call, 1, shifts, EXG_RANK_MAX);
    bool is_flat = exg_call_ints(call, 2, dims, EXG_RANK_MAX) == 0;
    const int64_t *sizes = is_flat ? flat : in->sizes;
    uint32_t rank = is_flat ? 1 : in->rank;
    uint32_t rolled = 0;
    pieces *p;

    for (uint32_t i = 0; i < shift_count; i++) {
        int64_t d = is_flat ? 0 : dims[i] < 0 ? dims[i] + in->rank : dims[i];

        if (sizes[d] > 0) {
            by_dim[d] = ((by_dim[d] + shifts[i]) % sizes[d] + sizes[d]) % sizes[d];
        }
    }
    for (uint32_t d = 0; d < rank; d++) {
        rolled += by_dim[d] != 0;
    }
    p = pieces_new(call, 1u << rolled, err);
    if (p == NULL) {
        return EXG_NO_MEMORY;
    }
    p->count = 1u << rolled;
    for (uint32_t which = 0; which < p->count; which++) {
        roll_box(call, &p->items[which], which, rank, sizes,
                 is_flat ? one : call->outputs[0].strides, by_dim);
    }
    return EXG_OK;
}

const exg_kernel exg_kernel_roll = {
    .name = "roll",
    .prepare = roll_prepare,
    .run = pieces_run,
};

/* ---- tril, triu --------------------------------------------------------------------- */

typedef struct triangle {
    int64_t rows, columns, matrices, diagonal;
    int64_t rows_of_block;
    uint32_t bytes;
    bool is_upper;
} triangle;

typedef struct triangle_run {
    const triangle *t;
    const char *in;
    char *out;
} triangle_run;

static exg_status triangle_prepare(exg_kernel_call *call, bool is_upper, exg_error *err)
{
    const exg_tensor *in = &call->inputs[0];
    triangle *t = EXG_NEW(call->arena, triangle);

    if (t == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    t->rows = in->sizes[in->rank - 2];
    t->columns = in->sizes[in->rank - 1];
    t->matrices = t->rows * t->columns > 0 ? exg_tensor_numel(in) / (t->rows * t->columns) : 0;
    t->diagonal = exg_call_int(call, 1);
    t->rows_of_block = exg_items_per_block(t->columns, EXG_GRAIN);
    t->bytes = exg_dtype_bytes(in->dtype);
    t->is_upper = is_upper;
    call->params = t;
    return EXG_OK;
}

static exg_status tril_prepare(exg_kernel_call *call, exg_error *err)
{
    return triangle_prepare(call, false, err);
}

static exg_status triu_prepare(exg_kernel_call *call, exg_error *err)
{
    return triangle_prepare(call, true, err);
}

static void triangle_block(void *context, uint32_t block)
{
    const triangle_run *r = context;
    const triangle *t = r->t;
    int64_t end = EXG_MIN(((int64_t)block + 1) * t->rows_of_block, t->rows * t->matrices);
    size_t bytes = t->bytes;

    for (int64_t row = (int64_t)block * t->rows_of_block; row < end; row++) {
        int64_t i = row % t->rows;
        /* columns up to `cut` are of the lower part; triu's begins one earlier */
        int64_t cut = i + t->diagonal + (t->is_upper ? 0 : 1);
        size_t left;
        char *out = r->out + (size_t)(row * t->columns) * bytes;
        const char *in = r->in + (size_t)(row * t->columns) * bytes;
        size_t all = (size_t)t->columns * bytes;

        cut = cut < 0 ? 0 : EXG_MIN(cut, t->columns);
        left = (size_t)cut * bytes;
        if (t->is_upper) {
            memset(out, 0, left);
            memmove(out + left, in + left, all - left);
        } else {
            memmove(out, in, left);
            memset(out + left, 0, all - left);
        }
    }
}

static void triangle_run_all(const exg_kernel_call *call)
{
    const triangle *t = call->params;
    triangle_run r = {t, call->inputs[0].data, call->outputs[0].data};

    exg_pool_run(call->pool, triangle_block, &r,
                 exg_block_count(t->rows * t->matrices, t->rows_of_block));
}

const exg_kernel exg_kernel_tril = {
    .name = "tril",
    .prepare = tril_prepare,
    .run = triangle_run_all,
    .flags = EXG_KERNEL_IN_PLACE,
};

const exg_kernel exg_kernel_triu = {
    .name = "triu",
    .prepare = triu_prepare,
    .run = triangle_run_all,
    .flags = EXG_KERNEL_IN_PLACE,
};
