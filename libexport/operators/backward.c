/* backward.c - lowerings of backward.def: the gradients that joint graphs hold. */
#include "libexport/operators/lower.h"

#define SELF exg_get_ref(&args[0])

static exg_argument all_but(exg_builder *b, uint32_t rank, uint32_t first, uint32_t count)
{
    int64_t dims[EXG_SHAPE_RANK_MAX];
    uint32_t n = 0;

    for (uint32_t d = 0; d < rank; d++) {
        if (d < first || d >= first + count) {
            dims[n++] = d;
        }
    }
    return INTS_OF(b, dims, n);
}

/* (grad_output, output, dim, input_dtype): y (g - sum(g y)) */
void exg_lower_softmax_backward(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref y = exg_lower_wide(b, exg_get_ref(&args[1]));
    exg_ref product = EMIT(b, mul_Tensor, exg_lower_wide(b, SELF), y);
    exg_ref sum = EMIT(b, sum_dim_IntList, product, INTS(b, exg_get_int(&args[2])),
                       exg_arg_bool(true));
    exg_ref x = EMIT(b, sub_Tensor, product, EMIT(b, mul_Tensor, y, sum));

    results[0] = exg_arg_ref(
        exg_lower_cast(b, x, exg_dtype_argument(&args[3], exg_lower_dtype(b, SELF))));
}

/* g - exp(y) sum(g) */
void exg_lower_log_softmax_backward(exg_builder *b, const exg_argument *args,
                                    exg_argument *results)
{
    exg_ref grad = exg_lower_wide(b, SELF);
    exg_ref y = exg_lower_wide(b, exg_get_ref(&args[1]));
    exg_ref sum = EMIT(b, sum_dim_IntList, grad, INTS(b, exg_get_int(&args[2])),
                       exg_arg_bool(true));
    exg_ref x = EMIT(b, mul_Tensor, EMIT(b, exp_default, y), sum);

    results[0] = exg_arg_ref(exg_lower_cast(b, EMIT(b, sub_Tensor, grad, x),
                                            exg_dtype_argument(&args[3],
                                                               exg_lower_dtype(b, SELF))));
}

/* rstd (g - mean(g) - x mean(g x)) over `dims`, x normalized */
static exg_ref through_norm(exg_builder *b, exg_ref g, exg_ref x, exg_ref rstd, exg_argument dims)
{
    exg_ref mean = EMIT(b, mean_dim, g, dims, exg_arg_bool(true));
    exg_ref along = EMIT(b, mean_dim, EMIT(b, mul_Tensor, g, x), dims, exg_arg_bool(true));

    g = EMIT(b, sub_Tensor, EMIT(b, sub_Tensor, g, mean), EMIT(b, mul_Tensor, x, along));
    return EMIT(b, mul_Tensor, g, rstd);
}

static bool wants(const exg_argument *mask, uint32_t index)
{
    return mask->kind == EXG_ARGUMENT_BOOLS && index < mask->count && mask->as_bools[index];
}

/* (grad_out, input, normalized_shape, mean, rstd, weight?, bias?, output_mask) */
void exg_lower_layer_norm_backward(exg_builder *b, const exg_argument *args,
                                   exg_argument *results)
{
    exg_dtype dtype = exg_lower_dtype(b, exg_get_ref(&args[1]));
    exg_dims in = exg_lower_dims(b, SELF);
    uint32_t count = exg_get_ints(&args[2], (int64_t[1]){0}, 1);
    uint32_t outer = in.rank - count;
    exg_ref g = exg_lower_wide(b, SELF);
    exg_ref rstd = exg_get_ref(&args[4]);
    exg_ref x = EMIT(b, mul_Tensor,
                     EMIT(b, sub_Tensor, exg_lower_wide(b, exg_get_ref(&args[1])), args[3]), rstd);
    exg_ref weighted = exg_lower_given(&args[5]) ? EMIT(b, mul_Tensor, g, args[5]) : g;
    exg_argument rows = all_but(b, in.rank, outer, count);

    results[0] = results[1] = results[2] = exg_arg_none();
    if (wants(&args[7], 0)) {
        results[0] = exg_arg_ref(exg_lower_cast(
            b, through_norm(b, weighted, x, rstd, all_but(b, in.rank, 0, outer)), dtype));
    }
    if (wants(&args[7], 1)) {
        x = EMIT(b, mul_Tensor, g, x);
        x = outer > 0 ? EMIT(b, sum_dim_IntList, x, rows) : x;
        results[1] = exg_arg_ref(exg_lower_cast(b, x, dtype));
    }
    if (wants(&args[7], 2)) {
        g = outer > 0 ? EMIT(b, sum_dim_IntList, g, rows) : EMIT(b, clone_default, g);
        results[2] = exg_arg_ref(exg_lower_cast(b, g, dtype));
    }
}

/* (grad_out, input, mean [N, G], rstd, weight?, N, C, HxW, group, output_mask) */
void exg_lower_group_norm_backward(exg_builder *b, const exg_argument *args,
                                   exg_argument *results)
{
    exg_dtype dtype = exg_lower_dtype(b, exg_get_ref(&args[1]));
    exg_dims in = exg_lower_dims(b, SELF);
    int64_t n = exg_get_int(&args[5]);
    int64_t c = exg_get_int(&args[6]);
    int64_t inner = exg_get_int(&args[7]);
    int64_t group = exg_get_int(&args[8]);
    exg_argument shape = INTS(b, n, group, group == 0 ? 0 : c / group, inner);
    exg_ref g = EMIT(b, reshape_default, exg_lower_wide(b, SELF), shape);
    exg_ref x = EMIT(b, reshape_default, exg_lower_wide(b, exg_get_ref(&args[1])), shape);
    exg_ref mean = EMIT(b, reshape_default, exg_get_ref(&args[2]), INTS(b, n, group, 1, 1));
    exg_ref rstd = EMIT(b, reshape_default, exg_get_ref(&args[3]), INTS(b, n, group, 1, 1));
    exg_ref weighted = g;

    results[0] = results[1] = results[2] = exg_arg_none();
    x = EMIT(b, mul_Tensor, EMIT(b, sub_Tensor, x, mean), rstd);
    if (exg_lower_given(&args[4])) {
        weighted = EMIT(b, mul_Tensor, g,
                        EMIT(b, reshape_default, exg_get_ref(&args[4]),
                             INTS(b, 1, group, group == 0 ? 0 : c / group, 1)));
    }
    if (wants(&args[9], 0)) {
        exg_ref y = through_norm(b, weighted, x, rstd, INTS(b, 2, 3));

        results[0] = exg_arg_ref(exg_lower_cast(b, exg_lower_shaped(b, y, &in), dtype));
    }
    for (uint32_t k = 1; k < 3; k++) {
        if (wants(&args[9], k)) {
            exg_ref y = EMIT(b, sum_dim_IntList, k == 1 ? EMIT(b, mul_Tensor, g, x) : g,
                             INTS(b, 0, 3));

            results[k] = exg_arg_ref(
                exg_lower_cast(b, EMIT(b, reshape_default, y, INTS(b, c)), dtype));
        }
    }
}

/* (grad_out, input, weight?, running_mean?, running_var?, save_mean?, save_invstd?, train, eps,
 * output_mask) */
void exg_lower_batch_norm_backward(exg_builder *b, const exg_argument *args,
                                   exg_argument *results)
{
    exg_dtype dtype = exg_lower_dtype(b, exg_get_ref(&args[1]));
    exg_dims in = exg_lower_dims(b, exg_get_ref(&args[1]));
    exg_dims channel = {.rank = in.rank - 1, .n = {in.n[1], 1, 1, 1, 1, 1, 1, 1}};
    bool trains = exg_get_bool(&args[7]);
    exg_ref g = exg_lower_wide(b, SELF);
    exg_ref weighted = g;
    exg_argument others = all_but(b, in.rank, 1, 1);
    exg_ref rstd;
    exg_ref x;

    results[0] = results[1] = results[2] = exg_arg_none();
    if (in.rank < 2 || in.rank > 9 || !exg_lower_given(&args[trains ? 5 : 3]) ||
        !exg_lower_given(&args[trains ? 6 : 4])) {
        exg_lower_refuse(b, "gradients of batch_norm want channels, and the statistics it used");
        return;
    }
    rstd = exg_get_ref(&args[trains ? 6 : 4]);
    if (!trains) {
        rstd = EMIT(b, rsqrt_default, EMIT(b, add_Scalar, exg_lower_wide(b, rstd), args[8]));
    }
    rstd = exg_lower_shaped(b, rstd, &channel);
    x = EMIT(b, sub_Tensor, exg_lower_wide(b, exg_get_ref(&args[1])),
             exg_lower_shaped(b, exg_get_ref(&args[trains ? 5 : 3]), &channel));
    x = EMIT(b, mul_Tensor, x, rstd);
    if (exg_lower_given(&args[2])) {
        weighted =
            EMIT(b, mul_Tensor, g, exg_lower_shaped(b, exg_get_ref(&args[2]), &channel));
        dtype = exg_lower_dtype(b, exg_get_ref(&args[2]));
    }
    for (uint32_t k = 1; k < 3; k++) {
        if (wants(&args[9], k)) {
            exg_ref y = EMIT(b, sum_dim_IntList, k == 1 ? EMIT(b, mul_Tensor, g, x) : g, others);

            results[k] = exg_arg_ref(exg_lower_cast(b, y, dtype));
        }
    }
    if (wants(&args[9], 0)) {
        x = trains ? through_norm(b, weighted, x, rstd, others)
                   : EMIT(b, mul_Tensor, weighted, rstd);
        results[0] = exg_arg_ref(exg_lower_cast(b, x, exg_lower_dtype(b, SELF)));
    }
}

/* (grad_output, mask, scale) */
void exg_lower_dropout_backward(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref mask = exg_lower_cast(b, exg_get_ref(&args[1]), exg_lower_dtype(b, SELF));

    results[0] = exg_arg_ref(EMIT(b, mul_Scalar, EMIT(b, mul_Tensor, SELF, mask), args[2]));
}

/* (grad_output, indices, num_weights, padding_idx, scale_grad_by_freq) */
void exg_lower_embedding_backward(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    int64_t width = in.rank == 0 ? 1 : in.n[in.rank - 1];
    int64_t rows = exg_get_int(&args[2]);
    exg_ref index = exg_get_ref(&args[1]);
    int64_t count = exg_lower_numel(b, index);
    exg_ref g = EMIT(b, reshape_default, SELF, INTS(b, count, width));
    exg_ref kept;

    index = EMIT(b, reshape_default, index, INTS(b, count));
    if (exg_get_bool(&args[4])) { /* divided by how often a row was read */
        exg_ref often =
            EMIT(b, index_add_default,
                 EMIT(b, full_default, INTS(b, rows), 0, DTYPE(EXG_DTYPE_I64)), 0, index,
                 EMIT(b, full_default, INTS(b, count), 1, DTYPE(EXG_DTYPE_I64)));

        often = EMIT(b, unsqueeze_default, EMIT(b, index_select_default, often, 0, index), 1);
        g = EMIT(b, div_Tensor, g, exg_lower_cast(b, often, exg_lower_dtype(b, SELF)));
    }
    kept = EMIT(b, ne_Scalar, index, args[3]);
    g = EMIT(b, where_self, EMIT(b, unsqueeze_default, kept, 1), g,
             EMIT(b, zeros_like_default, g));
    results[0] = exg_arg_ref(
        EMIT(b, index_add_default,
             EMIT(b, full_default, INTS(b, rows, width), 0, DTYPE(exg_lower_dtype(b, SELF))), 0,
             index, g));
}

/* (grad_output, self, kernel, stride, padding, dilation, ceil_mode, indices) */
void exg_lower_max_pool2d_backward(exg_builder *b, const exg_argument *args,
                                   exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, exg_get_ref(&args[1]));
    exg_dims out = exg_lower_dims(b, SELF);
    int64_t inner = in.n[in.rank - 2] * in.n[in.rank - 1];
    int64_t outer = out.n[out.rank - 2] * out.n[out.rank - 1];
    int64_t lead = inner == 0 ? 0 : exg_lower_numel(b, exg_get_ref(&args[1])) / inner;
    exg_ref x = EMIT(b, full_default, INTS(b, lead, inner), 0, DTYPE(exg_lower_dtype(b, SELF)));

    x = EMIT(b, scatter_add_default, x, 1,
             EMIT(b, reshape_default, exg_get_ref(&args[7]), INTS(b, lead, outer)),
             EMIT(b, reshape_default, SELF, INTS(b, lead, outer)));
    results[0] = exg_arg_ref(exg_lower_shaped(b, x, &in));
}

/* (grad_output, self, target, reduction): 2 (x - y) g */
void exg_lower_mse_loss_backward(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref gap = EMIT(b, sub_Tensor, args[1], args[2]);
    double factor =
        exg_get_int(&args[3]) == 1 ? 2.0 / (double)exg_lower_numel(b, gap) : 2.0;

    results[0] = exg_arg_ref(EMIT(b, mul_Tensor, EMIT(b, mul_Scalar, gap, factor), SELF));
}

/* (grad_output, self, target, weight?, reduction, ignore_index, total_weight) */
void exg_lower_nll_loss_backward(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x = exg_get_ref(&args[1]);
    exg_dims in = exg_lower_dims(b, x);
    uint32_t dim = in.rank > 1 ? 1 : 0;
    exg_ref target = EMIT(b, unsqueeze_default, exg_get_ref(&args[2]), (int)dim);
    exg_ref counts = EMIT(b, ne_Scalar, target, args[5]);
    exg_ref safe = EMIT(b, where_ScalarOther, counts, target, 0);
    exg_ref g = exg_get_int(&args[4]) == 1 ? EMIT(b, div_Tensor, SELF, args[6]) : SELF;

    g = exg_get_int(&args[4]) == 0 ? EMIT(b, unsqueeze_default, g, (int)dim) : g;
    g = EMIT(b, mul_Tensor, EMIT(b, neg_default, exg_lower_cast(b, counts, exg_lower_dtype(b, x))),
             g);
    if (exg_lower_given(&args[3])) {
        exg_dims dims = exg_lower_dims(b, safe);
        exg_ref flat = EMIT(b, reshape_default, safe, INTS(b, exg_lower_numel(b, safe)));

        flat = EMIT(b, index_select_default, exg_get_ref(&args[3]), 0, flat);
        g = EMIT(b, mul_Tensor, g, exg_lower_shaped(b, flat, &dims));
    }
    results[0] = exg_arg_ref(
        EMIT(b, scatter_src, EMIT(b, zeros_like_default, x), (int)dim, safe, g));
}

static exg_ref zeros(exg_builder *b, const exg_argument *sizes, exg_ref like)
{
    return EMIT(b, full_default, *sizes, 0, DTYPE(exg_lower_dtype(b, like)));
}

/* (grad_output, input_sizes, dim, index) */
void exg_lower_select_backward(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, select_scatter_default, zeros(b, &args[1], SELF), SELF,
                                  args[2], args[3]));
}

/* (grad_output, input_sizes, dim, start, end, step) */
void exg_lower_slice_backward(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, slice_scatter_default, zeros(b, &args[1], SELF), SELF,
                                  args[2], args[3], args[4], args[5]));
}

/* ---- convolutions and pools ------------------------------------------------------------------ */

typedef struct window {
    int64_t stride[3], padding[3], dilation[3];
    uint32_t count; /* dims of the image */
} window;

static void window_of(const exg_argument *stride, const exg_argument *padding,
                      const exg_argument *dilation, uint32_t count, window *w)
{
    const exg_argument *from[3] = {stride, padding, dilation};
    int64_t *to[3] = {w->stride, w->padding, w->dilation};

    w->count = count;
    for (uint32_t k = 0; k < 3; k++) {
        uint32_t given = from[k] == NULL ? 0 : exg_get_ints(from[k], to[k], 3);

        for (uint32_t d = given; d < 3; d++) {
            to[k][d] = given == 1 ? to[k][0] : k == 1 ? 0 : 1;
        }
    }
}

/* The transposed convolution, as large as the input was. */
static exg_ref to_input(exg_builder *b, exg_ref g, const exg_dims *in, exg_ref weight,
                        const window *w, int64_t groups)
{
    exg_dims out = exg_lower_dims(b, g);
    exg_dims kernel = exg_lower_dims(b, weight);
    int64_t more[3];

    for (uint32_t d = 0; d < w->count; d++) {
        more[d] = in->n[2 + d] - ((out.n[2 + d] - 1) * w->stride[d] - 2 * w->padding[d] +
                                  w->dilation[d] * (kernel.n[2 + d] - 1) + 1);
    }
    return EMIT(b, convolution_default, g, weight, exg_arg_none(),
                INTS_OF(b, w->stride, w->count), INTS_OF(b, w->padding, w->count),
                INTS_OF(b, w->dilation, w->count), exg_arg_bool(true), INTS_OF(b, more, w->count),
                exg_arg_int(groups));
}

/* x (N, groups * C, sizes) with its channels before its batch: (C, groups * N, sizes) or, where the
 * groups go first, (groups * C, N, sizes). */
static exg_ref channels_first(exg_builder *b, exg_ref x, int64_t groups, bool groups_first)
{
    exg_dims own = exg_lower_dims(b, x);
    exg_dims split = {.rank = own.rank + 1, .n = {own.n[0], groups, own.n[1] / groups}};
    exg_dims made = own;
    int64_t order[EXG_SHAPE_RANK_MAX] = {groups_first ? 1 : 2, groups_first ? 2 : 1, 0};

    for (uint32_t d = 3; d < split.rank; d++) {
        split.n[d] = own.n[d - 1];
        order[d] = d;
    }
    made.n[0] = groups_first ? own.n[1] : own.n[1] / groups;
    made.n[1] = groups_first ? own.n[0] : own.n[0] * groups;
    x = EMIT(b, permute_default, exg_lower_shaped(b, x, &split), INTS_OF(b, order, split.rank));
    return exg_lower_shaped(b, x, &made);
}

/* The convolution of the input with what came back for it, which steps as far as the windows'
 * elements lie apart, and whose elements lie as far apart as the windows. */
static exg_ref to_weight_by_convolution(exg_builder *b, exg_ref g, exg_ref x,
                                        const exg_dims *kernel, const window *w, int64_t groups)
{
    exg_ref y = EMIT(b, convolution_default, channels_first(b, x, groups, false),
                     channels_first(b, g, groups, true), exg_arg_none(),
                     INTS_OF(b, w->dilation, w->count), INTS_OF(b, w->padding, w->count),
                     INTS_OF(b, w->stride, w->count), exg_arg_bool(false),
                     INTS_OF(b, (const int64_t[3]){0}, w->count), exg_arg_int(groups));

    for (uint32_t d = 2; d < kernel->rank; d++) { /* the rest of the input was in no window */
        y = EMIT(b, slice_Tensor, y, d, 0, exg_arg_int(kernel->n[d]), 1);
    }
    return exg_lower_swapped(b, y, 0, 1);
}

/* As many windows as results: a transposed one may leave some out. */
static bool uses_every_window(const exg_dims *in, const exg_dims *out, const exg_dims *kernel,
                              const window *w)
{
    bool every = true;

    for (uint32_t d = 0; d < w->count; d++) {
        int64_t room = in->n[2 + d] + 2 * w->padding[d] - w->dilation[d] * (kernel->n[2 + d] - 1);

        every = every && (room - 1) / w->stride[d] + 1 == out->n[2 + d];
    }
    return every;
}

/* Every window of an image as a column, times what came back for it. */
static exg_ref to_weight_by_columns(exg_builder *b, exg_ref g, exg_ref x, const exg_dims *kernel,
                                    const window *w, int64_t groups)
{
    exg_dims in = exg_lower_dims(b, x);
    exg_ref columns = EMIT(b, im2col_default, x, INTS(b, kernel->n[2], kernel->n[3]),
                           INTS_OF(b, w->dilation, 2), INTS_OF(b, w->padding, 2),
                           INTS_OF(b, w->stride, 2));
    int64_t places = exg_lower_dims(b, columns).n[2];
    int64_t depth = kernel->n[1] * kernel->n[2] * kernel->n[3];
    int64_t rows = exg_lower_dims(b, g).n[1] / groups;
    exg_ref y;

    columns = EMIT(b, reshape_default, columns, INTS(b, in.n[0] * groups, depth, places));
    y = EMIT(b, bmm_default, EMIT(b, reshape_default, g, INTS(b, in.n[0] * groups, rows, places)),
             exg_lower_swapped(b, columns, 1, 2));
    y = EMIT(b, reshape_default, y, INTS(b, in.n[0], groups * rows, depth));
    return exg_lower_shaped(b, EMIT(b, sum_dim_IntList, y, INTS(b, 0)), kernel);
}

static exg_ref with_height(exg_builder *b, exg_ref x)
{
    return exg_lower_dims(b, x).rank == 3 ? EMIT(b, unsqueeze_default, x, 2) : x;
}

/* Of what came back for a convolution of x: (O, C / groups, sizes). */
static exg_ref to_weight(exg_builder *b, exg_ref g, exg_ref x, const exg_dims *kernel, window w,
                         int64_t groups)
{
    exg_dims in = exg_lower_dims(b, x);
    exg_dims out = exg_lower_dims(b, g);
    exg_dims flat = *kernel;

    if (w.count > 2 || !uses_every_window(&in, &out, kernel, &w)) {
        return to_weight_by_convolution(b, g, x, kernel, &w, groups);
    }
    if (w.count == 1) { /* an image of one line */
        w.stride[1] = w.stride[0];
        w.padding[1] = w.padding[0];
        w.dilation[1] = w.dilation[0];
        w.stride[0] = w.dilation[0] = 1;
        w.padding[0] = 0;
        flat = (exg_dims){.rank = 4, .n = {kernel->n[0], kernel->n[1], 1, kernel->n[2]}};
    }
    g = to_weight_by_columns(b, with_height(b, g), with_height(b, x), &flat, &w, groups);
    return exg_lower_shaped(b, g, kernel);
}

/* Of a transposed convolution: the convolution, as large as the input was. */
static exg_ref to_transposed_input(exg_builder *b, exg_ref g, const exg_dims *in, exg_ref weight,
                                   const window *w, int64_t groups)
{
    g = EMIT(b, convolution_default, g, weight, exg_arg_none(), INTS_OF(b, w->stride, w->count),
             INTS_OF(b, w->padding, w->count), INTS_OF(b, w->dilation, w->count),
             exg_arg_bool(false), INTS_OF(b, (const int64_t[3]){0}, w->count),
             exg_arg_int(groups));
    for (uint32_t d = 2; d < in->rank; d++) {
        g = EMIT(b, slice_Tensor, g, d, 0, exg_arg_int(in->n[d]), 1);
    }
    return g;
}

/* (grad_output, input, weight, bias_sizes?, stride, padding, dilation, transposed,
 * output_padding, groups, output_mask) */
void exg_lower_convolution_backward(exg_builder *b, const exg_argument *args,
                                    exg_argument *results)
{
    exg_ref x = exg_get_ref(&args[1]);
    exg_ref weight = exg_get_ref(&args[2]);
    exg_dims in = exg_lower_dims(b, x);
    exg_dims kernel = exg_lower_dims(b, weight);
    bool is_transposed = exg_get_bool(&args[7]);
    int64_t groups = exg_get_int(&args[9]);
    window w;

    results[0] = results[1] = results[2] = exg_arg_none();
    if (in.rank < 3 || in.rank > 5 || groups < 1) {
        exg_lower_refuse(b, "gradients of a convolution that has no batch, or not 1 to 3 dims");
        return;
    }
    window_of(&args[4], &args[5], &args[6], in.rank - 2, &w);
    if (wants(&args[10], 0)) {
        results[0] =
            exg_arg_ref(is_transposed ? to_transposed_input(b, SELF, &in, weight, &w, groups)
                                      : to_input(b, SELF, &in, weight, &w, groups));
    }
    if (wants(&args[10], 1)) {
        results[1] = exg_arg_ref(is_transposed ? to_weight(b, x, SELF, &kernel, w, groups)
                                               : to_weight(b, SELF, x, &kernel, w, groups));
    }
    if (wants(&args[10], 2)) {
        results[2] = exg_arg_ref(
            EMIT(b, sum_dim_IntList, SELF, all_but(b, in.rank, 1, 1)));
    }
}

/* (1, h, w) as far as the windows reach: how many places each averages over. */
static exg_ref places_averaged(exg_builder *b, const exg_dims *in, const int64_t *reach,
                               const int64_t *size, const window *w, bool counts_padding,
                               exg_dtype dtype)
{
    int64_t held[2];
    int64_t around[4]; /* of the last dim first */
    exg_ref ones;

    for (uint32_t d = 0; d < 2; d++) {
        int64_t own = in->n[in->rank - 2 + d];
        int64_t before = counts_padding ? 0 : w->padding[d];

        held[d] = counts_padding ? own + 2 * w->padding[d] : own;
        around[2 - 2 * d] = before;
        around[3 - 2 * d] = reach[d] - before - held[d];
    }
    ones = EMIT(b, full_default, INTS(b, 1, held[0], held[1]), 1.0, DTYPE(dtype));
    ones = EMIT(b, constant_pad_nd_default, ones, INTS_OF(b, around, 4), 0.0);
    return EMIT(b, avg_pool2d_default, ones, INTS_OF(b, size, 2), INTS_OF(b, w->stride, 2),
                INTS(b, 0, 0), exg_arg_bool(false), exg_arg_bool(true), 1);
}

/* (grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad,
 * divisor_override?): shared out evenly, over all that windows reach; the input is a part of it */
void exg_lower_avg_pool2d_backward(exg_builder *b, const exg_argument *args,
                                   exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, exg_get_ref(&args[1]));
    exg_dims out = exg_lower_dims(b, SELF);
    exg_dims image = {.rank = 4, .n = {0, 1}};
    int64_t size[3];
    uint32_t given = exg_get_ints(&args[2], size, 2);
    bool counts_padding = exg_get_bool(&args[6]);
    exg_ref g = exg_lower_wide(b, SELF);
    exg_dtype dtype = exg_lower_dtype(b, g);
    int64_t part[4]; /* of the last dim first */
    window w;

    size[1] = given == 1 ? size[0] : size[1];
    window_of(exg_get_ints(&args[3], (int64_t[1]){0}, 1) == 0 ? &args[2] : &args[3], &args[4], NULL,
              2, &w);
    if (in.rank < 3 || out.rank != in.rank) {
        exg_lower_refuse(b, "pooling of a tensor that is no image");
        return;
    }
    for (uint32_t d = 0; d < 2; d++) {
        image.n[2 + d] = (out.n[out.rank - 2 + d] - 1) * w.stride[d] + size[d];
        part[2 - 2 * d] = -w.padding[d];
        part[3 - 2 * d] = in.n[in.rank - 2 + d] + w.padding[d] - image.n[2 + d];
    }
    if (!exg_is_none(&args[7])) {
        g = EMIT(b, div_Scalar, g, args[7]);
    } else if (counts_padding && !exg_get_bool(&args[5])) {
        g = EMIT(b, div_Scalar, g, exg_arg_int(size[0] * size[1]));
    } else {
        g = EMIT(b, div_Tensor, g,
                 places_averaged(b, &in, image.n + 2, size, &w, counts_padding, dtype));
    }
    image.n[0] = exg_lower_numel(b, SELF) / (out.n[out.rank - 2] * out.n[out.rank - 1]);
    w.padding[0] = w.padding[1] = 0;
    g = EMIT(b, reshape_default, g,
             INTS(b, image.n[0], 1, out.n[out.rank - 2], out.n[out.rank - 1]));
    g = to_input(b, g, &image,
                 EMIT(b, full_default, INTS(b, 1, 1, size[0], size[1]), 1.0, DTYPE(dtype)), &w, 1);
    g = EMIT(b, constant_pad_nd_default, g, INTS_OF(b, part, 4), 0.0);
    results[0] = exg_arg_ref(
        exg_lower_cast(b, exg_lower_shaped(b, g, &in), exg_lower_dtype(b, SELF)));
}

/* (out, in): 1 / size where the part holds the place */
static exg_ref shares(exg_builder *b, int64_t in, int64_t out, exg_dtype dtype)
{
    exg_ref j = exg_lower_steps(b, in, EXG_DTYPE_I64, 1, 2);
    exg_ref start;
    exg_ref end;
    exg_ref inside;

    exg_lower_parts(b, in, out, &start, &end);
    inside = EMIT(b, logical_and_default, EMIT(b, ge_Tensor, j, start), EMIT(b, lt_Tensor, j, end));
    return EMIT(b, div_Tensor, exg_lower_cast(b, inside, dtype),
                exg_lower_cast(b, EMIT(b, sub_Tensor, end, start), dtype));
}

/* (grad_output, self): pooling is a product from both sides */
void exg_lower_adaptive_avg_pool2d_backward(exg_builder *b, const exg_argument *args,
                                            exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, exg_get_ref(&args[1]));
    exg_dims out = exg_lower_dims(b, SELF);
    exg_ref g = exg_lower_wide(b, SELF);
    exg_dtype dtype = exg_lower_dtype(b, g);
    exg_ref rows;

    if (in.rank < 3) {
        exg_lower_refuse(b, "pooling of a tensor that is no image");
        return;
    }
    rows = shares(b, in.n[in.rank - 2], out.n[out.rank - 2], dtype);
    g = EMIT(b, matmul_default, exg_lower_swapped(b, rows, 0, 1), g);
    g = EMIT(b, matmul_default, g, shares(b, in.n[in.rank - 1], out.n[out.rank - 1], dtype));
    results[0] = exg_arg_ref(exg_lower_cast(b, g, exg_lower_dtype(b, SELF)));
}
