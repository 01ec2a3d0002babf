/* embedding_bag.c - lowerings of embedding_bag.def. What they give beside the output is of the
 * sizes PyTorch records, of which its kernels give others now and then. */
#include "libexport/operators/lower.h"
#include "libexport/operators/shape.h"

#include <exg/operator_id_new.h>
#include <math.h>

#define EXG_ROWS "libexport/operators/embedding_bag.def"
#include "libexport/operators/rows.h"

enum { MODE_SUM, MODE_MEAN, MODE_MAX };

typedef struct bags {
    exg_ref weight, index, offsets;
    exg_argument by;              /* per_sample_weights, or None */
    int64_t mode, count, ignored; /* ignored < 0: none is */
    int64_t rest;                 /* 1: indices after the last offset are in no bag */
    exg_ref into;                 /* the bag of each index, `count` for what is in none */
    exg_ref of;                   /* the same, but that the last takes those */
    exg_ref kept;                 /* which count, or EXG_NO_REF: all */
} bags;

/* (table, index, into, by?, bags): in f32 where the table is of fewer bits */
exg_status exg_shape_add_rows(exg_shape_call *call, exg_error *err)
{
    const exg_tensor_meta *table = exg_shape_input(call, 0);
    const exg_tensor_meta *index = exg_shape_input(call, 1);
    exg_dims out = {.rank = 2, .n = {exg_get_int(&call->args[4])}};

    for (uint32_t i = 1; i < 4; i++) {
        const exg_tensor_meta *meta = exg_shape_input(call, i);

        if (meta != NULL && (meta->rank != 1 || meta->sizes[0].value != index->sizes[0].value)) {
            return EXG_SHAPE_FAIL(err, "rows, bags and numbers that are not as many");
        }
    }
    if (table->rank != 2 || out.n[0] < 0) {
        return EXG_SHAPE_FAIL(err, "rows of no table, or into no bags");
    }
    out.n[1] = table->sizes[1].value;
    return exg_shape_result(call, 0, table->dtype == EXG_DTYPE_F64 ? EXG_DTYPE_F64 : EXG_DTYPE_F32,
                            &out, err);
}

static exg_ref full_of(exg_builder *b, int64_t n, int64_t value, exg_dtype dtype)
{
    return EMIT(b, full_default, INTS(b, n), exg_arg_int(value), DTYPE(dtype));
}

/* As a column beside rows. */
static exg_ref column(exg_builder *b, exg_ref x)
{
    return EMIT(b, unsqueeze_default, x, 1);
}

/* How many of the first `count` offsets, in whatever order, are at or before each index, less 1;
 * a fault unless the first is 0 and none is outside. */
static exg_ref bag_of_each(exg_builder *b, exg_ref index, exg_ref offsets, int64_t count)
{
    int64_t places = exg_lower_numel(b, index);
    exg_ref starts = exg_lower_slice(b, offsets, 0, 0, count);
    exg_ref begun;

    if (count > 0) {
        starts =
            exg_lower_checked(b, starts, EMIT(b, eq_Scalar, exg_lower_slice(b, starts, 0, 0, 1), 0),
                              "the first offset is 0");
    }
    begun = EMIT(b, scatter_add_default, full_of(b, places + 1, 0, EXG_DTYPE_I64), 0, starts,
                 full_of(b, count, 1, EXG_DTYPE_I64));
    begun = exg_lower_slice(b, EMIT(b, cumsum_default, begun, 0), 0, 0, places);
    return EMIT(b, sub_Scalar, begun, 1);
}

/* Does PyTorch add rows up by the quick way, which differs now and then? */
static bool is_quick(exg_builder *b, const bags *g)
{
    exg_dtype dtype = exg_lower_dtype(b, g->weight);

    return g->mode != MODE_MAX && g->ignored < 0 &&
           (dtype == EXG_DTYPE_F32 || dtype == EXG_DTYPE_F16 || dtype == EXG_DTYPE_BF16);
}

static exg_ref kept_of(exg_builder *b, exg_ref index, int64_t ignored)
{
    return ignored < 0 ? EXG_NO_REF : EMIT(b, ne_Scalar, index, exg_arg_int(ignored));
}

/* (weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights?,
 * include_last_offset, padding_idx: counted from the end where the user said it) */
static bool bags_of(exg_builder *b, const exg_argument *args, bool from_end, bags *g)
{
    *g = (bags){.weight = exg_get_ref(&args[0]),
                .index = exg_get_ref(&args[1]),
                .offsets = exg_get_ref(&args[2]),
                .by = args[6],
                .mode = exg_get_int(&args[4]),
                .ignored = -1,
                .kept = EXG_NO_REF};
    g->count = exg_lower_numel(b, g->offsets) - exg_get_bool(&args[7]);
    if (!exg_is_none(&args[8])) {
        int64_t rows = exg_lower_dims(b, g->weight).n[0];

        g->ignored = exg_get_int(&args[8]);
        g->ignored += from_end && g->ignored < 0 ? rows : 0;
    }
    if (exg_lower_dims(b, g->weight).rank != 2 || exg_lower_dims(b, g->index).rank != 1 ||
        g->count < 0 || g->mode < MODE_SUM || g->mode > MODE_MAX ||
        (g->mode != MODE_SUM && exg_lower_given(&g->by))) {
        exg_lower_refuse(b, "bags of other than a vector of rows of a matrix");
        return false;
    }
    g->into = bag_of_each(b, g->index, g->offsets, exg_lower_numel(b, g->offsets));
    g->of = exg_get_bool(&args[7]) ? EMIT(b, clamp_max_default, g->into, exg_arg_int(g->count - 1))
                                   : g->into;
    g->rest = exg_get_bool(&args[7]) && is_quick(b, g);
    g->kept = kept_of(b, g->index, g->ignored);
    return true;
}

static exg_ref sizes_of(exg_builder *b, const bags *g)
{
    exg_ref each = g->kept.id == EXG_NO_VALUE
                       ? full_of(b, exg_lower_numel(b, g->index), 1, EXG_DTYPE_I64)
                       : exg_lower_cast(b, g->kept, EXG_DTYPE_I64);

    return EMIT(b, index_add_default, full_of(b, g->count, 0, EXG_DTYPE_I64), 0, g->of, each);
}

/* The greatest of each column of each bag, and the row it stands in, the first of several;
 * 0 and row 0 in a bag of nothing. */
static exg_ref greatest(exg_builder *b, const bags *g, exg_ref sizes, exg_ref *at)
{
    exg_ref rows = exg_lower_wide(b, EMIT(b, index_select_default, g->weight, 0, g->index));
    exg_dtype dtype = exg_lower_dtype(b, rows);
    int64_t width = exg_lower_dims(b, rows).n[1];
    int64_t count = exg_lower_numel(b, g->index);
    exg_argument size = INTS(b, count, width);
    exg_ref of = EMIT(b, expand_default, column(b, g->of), size);
    exg_ref empty = column(b, EMIT(b, eq_Scalar, sizes, 0));
    exg_ref out = EMIT(b, full_default, INTS(b, g->count, width), -(double)INFINITY, DTYPE(dtype));
    exg_ref first =
        EMIT(b, full_default, INTS(b, g->count, width), exg_arg_int(count), DTYPE(EXG_DTYPE_I64));
    exg_ref here;

    if (count == 0) {
        *at = EMIT(b, zeros_like_default, first);
        return EMIT(b, zeros_like_default, out);
    }
    if (g->kept.id != EXG_NO_VALUE) {
        rows = EMIT(b, where_ScalarOther, column(b, g->kept), rows, -(double)INFINITY);
    }
    out = EMIT(b, scatter_amax, out, 0, of, rows);
    here = EMIT(b, eq_Tensor, rows, EMIT(b, gather_default, out, 0, of));
    if (g->kept.id != EXG_NO_VALUE) {
        here = EMIT(b, logical_and_default, here, column(b, g->kept));
    }
    here = EMIT(b, where_ScalarOther, here, exg_lower_steps(b, count, EXG_DTYPE_I64, 0, 2),
                exg_arg_int(count));
    first = EMIT(b, scatter_amin, first, 0, of, here);
    first = EMIT(b, clamp_max_default, first, exg_arg_int(count - 1));
    first = EMIT(b, index_select_default, g->index, 0, exg_lower_flat(b, first));
    first = EMIT(b, view_default, first, INTS(b, g->count, width));
    *at = EMIT(b, masked_fill_Scalar, first, empty, 0);
    return EMIT(b, masked_fill_Scalar, out, empty, 0);
}

/* Sums, or means. */
static exg_ref added(exg_builder *b, const bags *g, exg_ref sizes)
{
    exg_dtype dtype = exg_lower_dtype(b, g->weight);
    exg_dtype wide = dtype == EXG_DTYPE_F64 ? dtype : EXG_DTYPE_F32;
    exg_ref into = g->rest ? g->into : g->of;
    exg_argument by = exg_arg_none();
    exg_ref out;

    if (exg_lower_given(&g->by)) {
        by = exg_arg_ref(exg_lower_cast(b, exg_get_ref(&g->by), wide));
    }
    if (g->kept.id != EXG_NO_VALUE) {
        into = EMIT(b, where_ScalarOther, g->kept, into, exg_arg_int(g->count));
    }
    out = EMIT(b, add_rows, g->weight, g->index, into, by, exg_arg_int(g->count));
    return g->mode == MODE_SUM
               ? out
               : EMIT(b, div_Tensor, out,
                      column(b, exg_lower_cast(b, EMIT(b, clamp_min_default, sizes, 1), wide)));
}

/* output, offset2bag, bag_size, max_indices. `recorded`: how many bag sizes there are, -1
 * where nothing says so. */
static void bag(exg_builder *b, const bags *g, int64_t recorded, exg_argument *results)
{
    exg_dtype dtype = exg_lower_dtype(b, g->weight);
    exg_dtype counted = exg_lower_dtype(b, g->offsets);
    bool untold =
        g->mode == MODE_SUM && g->ignored < 0 && (dtype == EXG_DTYPE_F32 || dtype == EXG_DTYPE_F16);
    exg_ref sizes = g->mode == MODE_SUM ? full_of(b, g->count, 0, EXG_DTYPE_I64) : sizes_of(b, g);
    exg_ref at = sizes;
    exg_ref out = g->mode == MODE_MAX ? greatest(b, g, sizes, &at) : added(b, g, sizes);

    results[0] = exg_arg_ref(exg_lower_cast(b, out, dtype));
    results[1] =
        exg_arg_ref(untold ? full_of(b, 0, 0, counted) : exg_lower_cast(b, g->of, counted));
    if (recorded > g->count) {
        sizes = EMIT(b, constant_pad_nd_default, sizes, INTS(b, 0, recorded - g->count));
    }
    results[2] = recorded < 0 ? exg_arg_none() : exg_arg_ref(exg_lower_cast(b, sizes, counted));
    results[3] = exg_arg_ref(exg_lower_cast(b, at, counted));
}

void exg_lower_embedding_bag(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    bags g;

    if (bags_of(b, args, false, &g)) {
        bag(b, &g, g.count, results);
    }
}

void exg_lower_embedding_bag_forward_only(exg_builder *b, const exg_argument *args,
                                          exg_argument *results)
{
    bags g;

    if (bags_of(b, args, false, &g)) {
        bag(b, &g, exg_lower_numel(b, g.offsets), results);
    }
}

/* Which of the two it is hangs on whether gradients were wanted when the program was traced:
 * with a last offset, the sizes of bags it records tell. */
void exg_lower_embedding_bag_padded(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    const exg_tensor_meta *recorded = exg_lower_recorded(b, 2);
    int64_t sizes = -1;
    bags g;

    if (!bags_of(b, args, true, &g)) {
        return;
    }
    if (recorded != NULL && recorded->rank == 1 && recorded->sizes[0].expr == NULL &&
        recorded->sizes[0].value >= g.count) {
        sizes = recorded->sizes[0].value;
    }
    bag(b, &g, exg_get_bool(&args[7]) ? sizes : g.count, results);
}

void exg_lower_embedding_bag_default(exg_builder *b, const exg_argument *args,
                                     exg_argument *results)
{
    exg_argument padded[9];

    for (uint32_t i = 0; i < 8; i++) {
        padded[i] = args[i];
    }
    padded[8] = exg_arg_none();
    exg_lower_embedding_bag_padded(b, padded, results);
}

/* ---- gradients ---------------------------------------------------------------------------- */

/* Of the greatest: to the rows they were taken from, column by column. */
static exg_ref to_greatest(exg_builder *b, exg_ref grad, exg_ref sizes, exg_ref at, int64_t rows)
{
    exg_ref empty = column(b, EMIT(b, eq_Scalar, sizes, 0));
    exg_ref zeros = EMIT(b, full_default, INTS(b, rows, exg_lower_dims(b, grad).n[1]), 0,
                         DTYPE(exg_lower_dtype(b, grad)));

    grad = EMIT(b, masked_fill_Scalar, grad, empty, 0);
    return EMIT(b, scatter_add_default, zeros, 0, exg_lower_cast(b, at, EXG_DTYPE_I64), grad);
}

/* (grad, indices, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq,
 * mode, per_sample_weights?, padding_idx) */
void exg_lower_embedding_bag_dense_backward(exg_builder *b, const exg_argument *args,
                                            exg_argument *results)
{
    exg_dtype dtype = exg_lower_dtype(b, exg_get_ref(&args[0]));
    exg_ref grad = exg_lower_wide(b, exg_get_ref(&args[0]));
    exg_ref index = exg_lower_cast(b, exg_get_ref(&args[1]), EXG_DTYPE_I64);
    exg_ref of = exg_lower_cast(b, exg_get_ref(&args[2]), EXG_DTYPE_I64);
    exg_ref sizes = exg_get_ref(&args[3]);
    int64_t rows = exg_get_int(&args[5]);
    exg_ref kept = kept_of(b, index, exg_get_int(&args[9]));
    exg_dtype wide = exg_lower_dtype(b, grad);
    exg_ref each;
    exg_ref out;

    if (exg_get_int(&args[7]) == MODE_MAX) {
        out = to_greatest(b, grad, sizes, exg_get_ref(&args[4]), rows);
        results[0] = exg_arg_ref(exg_lower_cast(b, out, dtype));
        return;
    }
    each = EMIT(b, index_select_default, grad, 0, of);
    if (exg_lower_given(&args[8])) {
        exg_ref by = exg_lower_cast(b, exg_get_ref(&args[8]), wide);

        each = EMIT(b, mul_Tensor, each, column(b, by));
    }
    if (exg_get_int(&args[7]) == MODE_MEAN) {
        exg_ref size = EMIT(b, index_select_default, sizes, 0, of);

        each = EMIT(b, div_Tensor, each, column(b, exg_lower_cast(b, size, wide)));
    }
    if (exg_get_bool(&args[6])) {
        exg_ref often = EMIT(b, index_add_default, full_of(b, rows, 0, EXG_DTYPE_I64), 0, index,
                             full_of(b, exg_lower_numel(b, index), 1, EXG_DTYPE_I64));

        often = EMIT(b, index_select_default, often, 0, index);
        each = EMIT(b, div_Tensor, each, column(b, exg_lower_cast(b, often, wide)));
    }
    if (kept.id != EXG_NO_VALUE) {
        each = EMIT(b, where_ScalarOther, column(b, kept), each, 0.);
    }
    out = EMIT(b, full_default, INTS(b, rows, exg_lower_dims(b, grad).n[1]), 0, DTYPE(wide));
    out = EMIT(b, index_add_default, out, 0, index, each);
    results[0] = exg_arg_ref(exg_lower_cast(b, out, dtype));
}

/* The bag of each index, where the quick way of sums has not said it. */
static exg_ref bags_again(exg_builder *b, exg_ref of, exg_ref index, exg_ref offsets)
{
    return exg_lower_numel(b, of) == exg_lower_numel(b, index)
               ? of
               : bag_of_each(b, index, offsets, exg_lower_numel(b, offsets));
}

/* (grad, indices, offsets, offset2bag, bag_size, maximum_indices, num_weights,
 * scale_grad_by_freq, mode, sparse, per_sample_weights?, padding_idx) */
void exg_lower_embedding_bag_backward(exg_builder *b, const exg_argument *args,
                                      exg_argument *results)
{
    exg_ref of = bags_again(b, exg_get_ref(&args[3]), exg_get_ref(&args[1]), exg_get_ref(&args[2]));

    if (exg_get_bool(&args[9])) {
        exg_lower_unsupported(b, "a sparse gradient");
        return;
    }
    results[0] = exg_arg_ref(EMIT(b, _embedding_bag_dense_backward_default, args[0], args[1], of,
                                  args[4], args[5], args[6], args[7], args[8], args[10], args[11]));
}

/* (grad, weight, indices, offsets, offset2bag, mode, padding_idx): what each index's number
 * was multiplied with */
void exg_lower_embedding_bag_weights_backward(exg_builder *b, const exg_argument *args,
                                              exg_argument *results)
{
    exg_ref grad = exg_lower_wide(b, exg_get_ref(&args[0]));
    exg_ref index = exg_get_ref(&args[2]);
    exg_ref of = bags_again(b, exg_get_ref(&args[4]), index, exg_get_ref(&args[3]));
    exg_ref kept = kept_of(b, index, exg_get_int(&args[6]));
    exg_ref rows = EMIT(b, index_select_default, exg_get_ref(&args[1]), 0, index);
    exg_ref x =
        EMIT(b, mul_Tensor, exg_lower_wide(b, rows), EMIT(b, index_select_default, grad, 0, of));

    x = EMIT(b, sum_dim_IntList, x, INTS(b, 1));
    x = kept.id == EXG_NO_VALUE ? x : EMIT(b, where_ScalarOther, kept, x, 0.);
    results[0] = exg_arg_ref(exg_lower_cast(b, x, exg_lower_dtype(b, exg_get_ref(&args[0]))));
}
