/* rearrange.c - elements in other places: the kernels of pieces (pieces.h), and tril, triu. */
#include "libexec/kernels/cpu/common.h"
#include "libexec/kernels/pieces.h"

/* ---- pieces ------------------------------------------------------------------------- */

typedef struct arrangement {
    const exg_pieces *pieces;
    exg_move moves[]; /* one for each */
} arrangement;

static exg_status arrange(exg_kernel_call *call, exg_pieces_find *find, exg_error *err)
{
    uint32_t bytes = exg_dtype_bytes(call->outputs[0].dtype);
    exg_pieces *p;
    arrangement *a;

    EXG_TRY(find(call, &p, err));
    a = exg_arena_alloc(call->arena, 1, sizeof(arrangement) + p->count * sizeof(exg_move));
    if (a == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    a->pieces = p;
    for (uint32_t i = 0; i < p->count; i++) {
        const exg_piece *piece = &p->items[i];

        exg_move_plan(&a->moves[i], piece->rank, piece->sizes, piece->to_strides,
                      piece->from_strides, bytes);
    }
    call->params = a;
    return EXG_OK;
}

static void arrange_run(const exg_kernel_call *call)
{
    const arrangement *a = call->params;
    const exg_pieces *p = a->pieces;
    const exg_tensor *out = &call->outputs[0];
    int64_t bytes = exg_dtype_bytes(out->dtype);
    char *to = out->data;

    if (p->fills) {
        exg_fill(to, p->element, exg_tensor_numel(out), (uint32_t)bytes);
    }
    for (uint32_t i = 0; i < p->count; i++) {
        const exg_piece *piece = &p->items[i];
        const char *from = call->inputs[piece->input].data;

        if (!(i == 0 && p->keeps_self && from == to)) {
            exg_move_run(&a->moves[i], call->pool, to + piece->to * bytes,
                         from + piece->from * bytes);
        }
    }
}

#define ARRANGING(kernel, flags_)                                                                  \
    static exg_status kernel##_prepare(exg_kernel_call *call, exg_error *err)                      \
    {                                                                                              \
        return arrange(call, exg_pieces_of_##kernel, err);                                         \
    }                                                                                              \
    const exg_kernel exg_kernel_##kernel = {                                                       \
        .name = #kernel,                                                                           \
        .prepare = kernel##_prepare,                                                               \
        .run = arrange_run,                                                                        \
        .flags = flags_,                                                                           \
    };
EXG_KERNELS_OF_PIECES(ARRANGING)

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
