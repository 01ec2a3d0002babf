/* backward.c - lowerings of backward.def: the gradients that joint graphs hold. */
#include "libexport/operators/lower.h"

#include <string.h>

#define EXG_ROWS "libexport/operators/backward.def"
#include "libexport/operators/rows.h"

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
    exg_ref sum =
        EMIT(b, sum_dim_IntList, product, INTS(b, exg_get_int(&args[2])), exg_arg_bool(true));
    exg_ref x = EMIT(b, sub_Tensor, product, EMIT(b, mul_Tensor, y, sum));

    results[0] =
        exg_arg_ref(exg_lower_cast(b, x, exg_dtype_argument(&args[3], exg_lower_dtype(b, SELF))));
}

/* g - exp(y) sum(g) */
void exg_lower_log_softmax_backward(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref grad = exg_lower_wide(b, SELF);
    exg_ref y = exg_lower_wide(b, exg_get_ref(&args[1]));
    exg_ref sum =
        EMIT(b, sum_dim_IntList, grad, INTS(b, exg_get_int(&args[2])), exg_arg_bool(true));
    exg_ref x = EMIT(b, mul_Tensor, EMIT(b, exp_default, y), sum);

    results[0] = exg_arg_ref(exg_lower_cast(
        b, EMIT(b, sub_Tensor, grad, x), exg_dtype_argument(&args[3], exg_lower_dtype(b, SELF))));
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
void exg_lower_layer_norm_backward(exg_builder *b, const exg_argument *args, exg_argument *results)
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
void exg_lower_group_norm_backward(exg_builder *b, const exg_argument *args, exg_argument *results)
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
            exg_ref y =
                EMIT(b, sum_dim_IntList, k == 1 ? EMIT(b, mul_Tensor, g, x) : g, INTS(b, 0, 3));

            results[k] =
                exg_arg_ref(exg_lower_cast(b, EMIT(b, reshape_default, y, INTS(b, c)), dtype));
        }
    }
}

/* (grad_out, input, weight?, running_mean?, running_var?, mean?, rstd?, train, eps, output_mask):
 * of a run, not of a batch, statistics are constants. */
void exg_lower_batch_norm_backward(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    bool train = exg_get_bool(&args[7]);
    const exg_argument *given = train ? &args[5] : &args[3];
    exg_ref g = exg_lower_wide(b, SELF);
    exg_argument dims = all_but(b, in.rank, 1, 1);
    exg_ref rstd, x, weighted;

    results[0] = results[1] = results[2] = exg_arg_none();
    if (in.rank < 2 || !exg_lower_given(&given[0]) || !exg_lower_given(&given[1])) {
        exg_lower_refuse(b, "the gradient of a batch norm without channels or statistics");
        return;
    }
    rstd = exg_lower_wide(b, exg_get_ref(&given[1]));
    if (!train) {
        rstd = EMIT(b, rsqrt_default, EMIT(b, add_Scalar, rstd, args[8]));
    }
    rstd = exg_lower_along(b, rstd, 1, in.rank);
    x = EMIT(b, sub_Tensor, exg_lower_wide(b, exg_get_ref(&args[1])),
             exg_lower_along(b, exg_lower_wide(b, exg_get_ref(&given[0])), 1, in.rank));
    x = EMIT(b, mul_Tensor, x, rstd);
    weighted = exg_lower_given(&args[2])
                   ? EMIT(b, mul_Tensor, g, exg_lower_along(b, exg_get_ref(&args[2]), 1, in.rank))
                   : g;
    for (uint32_t k = 0; k < 3; k++) {
        exg_ref y = k == 0 && train ? through_norm(b, weighted, x, rstd, dims)
                    : k == 0
                        ? EMIT(b, mul_Tensor, weighted, rstd)
                        : EMIT(b, sum_dim_IntList, k == 1 ? EMIT(b, mul_Tensor, g, x) : g, dims);
        exg_ref like = exg_get_ref(k > 0 && exg_lower_given(&args[2]) ? &args[2] : &args[1]);

        if (wants(&args[9], k)) {
            results[k] = exg_arg_ref(exg_lower_cast(b, y, exg_lower_dtype(b, like)));
        }
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
    int64_t width = in.rank == 0 ? 1 : EXG_END(in, 1);
    int64_t rows = exg_get_int(&args[2]);
    exg_ref index = exg_get_ref(&args[1]);
    int64_t count = exg_lower_numel(b, index);
    exg_ref g = EMIT(b, reshape_default, SELF, INTS(b, count, width));
    exg_ref kept;

    index = EMIT(b, reshape_default, index, INTS(b, count));
    if (exg_get_bool(&args[4])) { /* divided by how often a row was read */
        exg_ref ones = EMIT(b, full_default, INTS(b, count), 1, DTYPE(EXG_DTYPE_I64));
        exg_ref often = exg_lower_added(b, ones, 0, rows, index);

        often = EMIT(b, unsqueeze_default, EMIT(b, index_select_default, often, 0, index), 1);
        g = EMIT(b, div_Tensor, g, exg_lower_cast(b, often, exg_lower_dtype(b, SELF)));
    }
    kept = EMIT(b, ne_Scalar, index, args[3]);
    g = EMIT(b, where_self, EMIT(b, unsqueeze_default, kept, 1), g, EMIT(b, zeros_like_default, g));
    results[0] = exg_arg_ref(exg_lower_added(b, g, 0, rows, index));
}

/* What came back, added where the largest of `count` dims was. */
static exg_argument to_largest(exg_builder *b, exg_ref g, exg_ref x, exg_ref index, uint32_t count)
{
    exg_dims in = exg_lower_dims(b, x);
    exg_dims out = exg_lower_dims(b, g);
    int64_t lead = 1, inner = 1, outer = 1;

    if (in.rank < count + 1 || out.rank != in.rank) {
        exg_lower_refuse(b, "pooling of a tensor that is no image");
        return exg_arg_none();
    }
    for (uint32_t d = 0; d < in.rank; d++) {
        lead *= d < in.rank - count ? in.n[d] : 1;
        inner *= d < in.rank - count ? 1 : in.n[d];
        outer *= d < in.rank - count ? 1 : out.n[d];
    }
    x = EMIT(b, full_default, INTS(b, lead, inner), 0, DTYPE(exg_lower_dtype(b, g)));
    x = EMIT(b, scatter_add_default, x, 1, EMIT(b, reshape_default, index, INTS(b, lead, outer)),
             EMIT(b, reshape_default, g, INTS(b, lead, outer)));
    return exg_arg_ref(exg_lower_shaped(b, x, &in));
}

/* (grad_output, self, kernel, stride, padding, dilation, ceil_mode, indices) */
void exg_lower_max_pool2d_backward(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = to_largest(b, SELF, exg_get_ref(&args[1]), exg_get_ref(&args[7]), 2);
}

void exg_lower_max_pool3d_backward(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = to_largest(b, SELF, exg_get_ref(&args[1]), exg_get_ref(&args[7]), 3);
}

/* (grad_output, self, indices) */
void exg_lower_adaptive_max_pool2d_backward(exg_builder *b, const exg_argument *args,
                                            exg_argument *results)
{
    results[0] = to_largest(b, SELF, exg_get_ref(&args[1]), exg_get_ref(&args[2]), 2);
}

void exg_lower_adaptive_max_pool3d_backward(exg_builder *b, const exg_argument *args,
                                            exg_argument *results)
{
    results[0] = to_largest(b, SELF, exg_get_ref(&args[1]), exg_get_ref(&args[2]), 3);
}

/* (grad_output, self, target, reduction): 2 (x - y) g */
void exg_lower_mse_loss_backward(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref gap = EMIT(b, sub_Tensor, args[1], args[2]);
    double factor = exg_get_int(&args[3]) == 1 ? 2.0 / (double)exg_lower_numel(b, gap) : 2.0;

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
    results[0] =
        exg_arg_ref(EMIT(b, scatter_src, EMIT(b, zeros_like_default, x), (int)dim, safe, g));
}

static exg_ref zeros(exg_builder *b, const exg_argument *sizes, exg_ref like)
{
    return EMIT(b, full_default, *sizes, 0, DTYPE(exg_lower_dtype(b, like)));
}

/* (grad_output, input_sizes, dim, index) */
void exg_lower_select_backward(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(
        EMIT(b, select_scatter_default, zeros(b, &args[1], SELF), SELF, args[2], args[3]));
}

/* (grad_output, input_sizes, dim, start, end, step) */
void exg_lower_slice_backward(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, slice_scatter_default, zeros(b, &args[1], SELF), SELF, args[2],
                                  args[3], args[4], args[5]));
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

/* The first places of every dim of the image. */
static exg_ref cut(exg_builder *b, exg_ref x, const exg_dims *to)
{
    exg_dims dims = exg_lower_dims(b, x);

    for (uint32_t d = 2; d < dims.rank; d++) {
        if (dims.n[d] > to->n[d]) {
            x = exg_lower_slice(b, x, d, 0, to->n[d]);
        }
    }
    return x;
}

/* The transposed convolution, as large as the input was; windows may have reached past it. */
static exg_ref to_input(exg_builder *b, exg_ref g, const exg_dims *in, exg_ref weight,
                        const window *w, int64_t groups)
{
    exg_dims out = exg_lower_dims(b, g);
    exg_dims kernel = exg_lower_dims(b, weight);
    int64_t more[3];

    for (uint32_t d = 0; d < w->count; d++) {
        more[d] = in->n[2 + d] - ((out.n[2 + d] - 1) * w->stride[d] - 2 * w->padding[d] +
                                  w->dilation[d] * (kernel.n[2 + d] - 1) + 1);
        more[d] = more[d] < 0 ? 0 : more[d];
    }
    g = EMIT(b, convolution_default, g, weight, exg_arg_none(), INTS_OF(b, w->stride, w->count),
             INTS_OF(b, w->padding, w->count), INTS_OF(b, w->dilation, w->count),
             exg_arg_bool(true), INTS_OF(b, more, w->count), exg_arg_int(groups));
    return cut(b, g, in);
}

/* What a transposed convolution's input gets: the convolution of what came back. An output
 * padded by a stride or more has places past the last. */
static exg_ref from_input(exg_builder *b, exg_ref g, const exg_dims *in, exg_ref weight,
                          const window *w, int64_t groups)
{
    const int64_t none[3] = {0, 0, 0};
    exg_ref y =
        EMIT(b, convolution_default, g, weight, exg_arg_none(), INTS_OF(b, w->stride, w->count),
             INTS_OF(b, w->padding, w->count), INTS_OF(b, w->dilation, w->count),
             exg_arg_bool(false), INTS_OF(b, none, w->count), exg_arg_int(groups));

    return cut(b, y, in);
}

/* Every window of the input as a column, times what came back for it; (O, C / groups, kh, kw) */
static exg_ref by_columns(exg_builder *b, exg_ref g, exg_ref columns, const exg_dims *kernel,
                          int64_t groups)
{
    exg_dims out = exg_lower_dims(b, g);
    int64_t places = exg_lower_dims(b, columns).n[2];
    int64_t depth = kernel->n[1] * kernel->n[2] * kernel->n[3];
    int64_t rows = out.n[1] / groups;
    exg_ref y;

    columns = EMIT(b, reshape_default, columns, INTS(b, out.n[0] * groups, depth, places));
    y = EMIT(b, bmm_default, EMIT(b, reshape_default, g, INTS(b, out.n[0] * groups, rows, places)),
             exg_lower_swapped(b, columns, 1, 2));
    y = EMIT(b, reshape_default, y, INTS(b, out.n[0], groups * rows, depth));
    return exg_lower_shaped(b, EMIT(b, sum_dim_IntList, y, INTS(b, 0)), kernel);
}

/* The input under what came back as the kernel: the batch takes the channels' place, strides
 * that of dilations. */
static exg_ref by_sliding(exg_builder *b, exg_ref g, exg_ref x, const exg_dims *kernel,
                          const window *w, int64_t groups)
{
    const int64_t none[3] = {0, 0, 0};
    exg_dims in = exg_lower_dims(b, x);
    exg_dims split = in;
    exg_ref y;

    split.rank = 3;
    split.n[1] = groups;
    split.n[2] = in.n[1] / groups;
    for (uint32_t d = 2; d < in.rank; d++) {
        split.n[split.rank++] = in.n[d];
    }
    x = exg_lower_swapped(b, exg_lower_shaped(b, x, &split), 0, 2);
    split = in;
    split.n[0] = in.n[1] / groups;
    split.n[1] = groups * in.n[0];
    y = EMIT(b, convolution_default, exg_lower_shaped(b, x, &split), exg_lower_swapped(b, g, 0, 1),
             exg_arg_none(), INTS_OF(b, w->dilation, w->count), INTS_OF(b, w->padding, w->count),
             INTS_OF(b, w->stride, w->count), exg_arg_bool(false), INTS_OF(b, none, w->count),
             exg_arg_int(groups));
    return exg_lower_swapped(b, cut(b, y, kernel), 0, 1);
}

/* Of the weight of a convolution from x to g; columns where they fit the places of g. */
static exg_ref to_weight(exg_builder *b, exg_ref g, exg_ref x, const exg_dims *kernel,
                         const window *w, int64_t groups)
{
    exg_dims out = exg_lower_dims(b, g);
    bool image = out.rank == 4;

    for (uint32_t d = 0; d < w->count && image; d++) {
        int64_t reach = w->dilation[d] * (kernel->n[2 + d] - 1) + 1;
        int64_t room = exg_lower_dims(b, x).n[2 + d] + 2 * w->padding[d] - reach;

        image = w->stride[d] > 0 && out.n[2 + d] == room / w->stride[d] + 1;
    }
    if (image) {
        exg_ref columns =
            EMIT(b, im2col_default, exg_lower_wide(b, x), INTS(b, kernel->n[2], kernel->n[3]),
                 INTS_OF(b, w->dilation, 2), INTS_OF(b, w->padding, 2), INTS_OF(b, w->stride, 2));
        exg_ref y = by_columns(b, exg_lower_wide(b, g), columns, kernel, groups);

        return exg_lower_cast(b, y, exg_lower_dtype(b, x));
    }
    return by_sliding(b, g, x, kernel, w, groups);
}

static exg_ref with_height(exg_builder *b, exg_ref x)
{
    return exg_lower_dims(b, x).rank == 3 ? EMIT(b, unsqueeze_default, x, 2) : x;
}

/* An image of one line. */
static void window_with_height(window *w)
{
    if (w->count == 1) {
        w->stride[1] = w->stride[0];
        w->padding[1] = w->padding[0];
        w->dilation[1] = w->dilation[0];
        w->stride[0] = w->dilation[0] = 1;
        w->padding[0] = 0;
        w->count = 2;
    }
}

/* (grad_output, input, weight, bias_sizes?, stride, padding, dilation, transposed,
 * output_padding, groups, output_mask) */
void exg_lower_convolution_backward(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x = exg_get_ref(&args[1]);
    exg_ref weight = exg_get_ref(&args[2]);
    exg_dims in = exg_lower_dims(b, x);
    exg_dims kernel = exg_lower_dims(b, weight);
    exg_dims out = exg_lower_dims(b, SELF);
    const exg_argument own[] = {args[1], args[2], exg_arg_none(), args[4], args[5],
                                args[6], args[7], args[8],        args[9]};
    exg_shape_call forward = {.args = own, .graph = exg_builder_graph(b)};
    bool transposed = exg_get_bool(&args[7]);
    int64_t groups = exg_get_int(&args[9]);
    exg_dims made;
    exg_error err;
    window w;

    results[0] = results[1] = results[2] = exg_arg_none();
    if (in.rank < 3 || in.rank > 5 || kernel.rank != in.rank || groups < 1 || out.rank != in.rank) {
        exg_lower_refuse(b, "the gradient of a convolution that has not one to three dims");
        return;
    }
    if (exg_convolution_sizes(&forward, &made, &err) != EXG_OK) {
        exg_builder_fail(b, &err);
        return;
    }
    if (made.rank != out.rank || memcmp(made.n, out.n, out.rank * sizeof(out.n[0])) != 0) {
        exg_lower_refuse(b, "the gradient of a convolution of other sizes");
        return;
    }
    window_of(&args[4], &args[5], &args[6], in.rank - 2, &w);
    if (wants(&args[10], 0)) {
        results[0] =
            exg_arg_ref((transposed ? from_input : to_input)(b, SELF, &in, weight, &w, groups));
    }
    if (wants(&args[10], 1)) { /* transposed, a convolution leads from the output to the input */
        exg_ref from = with_height(b, transposed ? SELF : x);
        exg_ref to = with_height(b, transposed ? x : SELF);
        exg_dims flat = exg_lower_dims(b, with_height(b, weight));
        exg_ref y;

        window_with_height(&w);
        y = to_weight(b, to, from, &flat, &w, groups);
        results[1] = exg_arg_ref(exg_lower_shaped(b, y, &kernel));
    }
    if (wants(&args[10], 2)) {
        results[2] = exg_arg_ref(EMIT(b, sum_dim_IntList, SELF, all_but(b, in.rank, 1, 1)));
    }
}

/* How many places each window averaged: those inside, or with the padding too. */
static exg_ref averaged(exg_builder *b, const exg_dims *image, const exg_argument *args,
                        const window *w, bool padded, exg_dtype dtype)
{
    const int64_t none[3] = {0, 0, 0};
    exg_argument padding = padded ? INTS_OF(b, none, w->count) : args[4];
    exg_dims one = *image;
    exg_ref ones;

    one.n[0] = 1;
    for (uint32_t d = 0; d < w->count && padded; d++) {
        one.n[2 + d] += 2 * w->padding[d];
    }
    ones = EMIT(b, full_default, INTS_OF(b, one.n, one.rank), 1.0, DTYPE(dtype));
    return w->count == 3 ? EMIT(b, avg_pool3d_default, ones, args[2], args[3], padding, args[5],
                                exg_arg_bool(true), 1)
                         : EMIT(b, avg_pool2d_default, ones, args[2], args[3], padding, args[5],
                                exg_arg_bool(true), 1);
}

/* Are there as many cells along dim `d` as windows of the image? */
static bool pooled_to(const exg_dims *image, const exg_dims *cells, int64_t size, const window *w,
                      uint32_t d, bool ceil_mode)
{
    exg_pool_window along = {size, w->stride[d], w->padding[d], w->dilation[d]};
    int64_t count;
    exg_error err;

    return exg_pool_windows(image->n[2 + d], &along, ceil_mode, &count, &err) == EXG_OK &&
           count == cells->n[2 + d];
}

/* (grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad,
 * divisor_override?): shared out evenly */
static void avg_pool_backward(exg_builder *b, const exg_argument *args, uint32_t count,
                              exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, exg_get_ref(&args[1]));
    exg_dims out = exg_lower_dims(b, SELF);
    exg_dims image = {.rank = count + 2, .n = {1, 1}};
    exg_dims cells = image;
    exg_dims kernel = image;
    exg_ref g = exg_lower_wide(b, SELF);
    exg_dtype dtype = exg_lower_dtype(b, g);
    int64_t size[3] = {0};
    uint32_t given = exg_get_ints(&args[2], size, 3);
    exg_ref ones;
    window w;

    if (in.rank < count + 1 || in.rank > count + 2 || out.rank != in.rank) {
        exg_lower_refuse(b, "pooling of a tensor that is no image");
        return;
    }
    window_of(exg_get_ints(&args[3], (int64_t[1]){0}, 1) == 0 ? &args[2] : &args[3], &args[4], NULL,
              count, &w);
    for (uint32_t d = 0; d < in.rank - count; d++) {
        image.n[0] *= in.n[d];
    }
    for (uint32_t d = 0; d < count; d++) {
        image.n[2 + d] = in.n[in.rank - count + d];
        cells.n[2 + d] = out.n[in.rank - count + d];
        kernel.n[2 + d] = given == 1 ? size[0] : size[d];
        if (!pooled_to(&image, &cells, kernel.n[2 + d], &w, d, exg_get_bool(&args[5]))) {
            exg_lower_refuse(b, "the gradient of other windows than the image has");
            return;
        }
    }
    cells.n[0] = image.n[0];
    g = exg_lower_shaped(b, g, &cells);
    if (!exg_is_none(&args[7])) {
        g = EMIT(b, div_Scalar, g, (double)exg_get_int(&args[7]));
    } else {
        g = EMIT(b, div_Tensor, g,
                 cut(b, averaged(b, &image, args, &w, exg_get_bool(&args[6]), dtype), &cells));
    }
    ones = EMIT(b, full_default, INTS_OF(b, kernel.n, kernel.rank), 1.0, DTYPE(dtype));
    g = to_input(b, g, &image, ones, &w, 1);
    results[0] =
        exg_arg_ref(exg_lower_cast(b, exg_lower_shaped(b, g, &in), exg_lower_dtype(b, SELF)));
}

void exg_lower_avg_pool2d_backward(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    avg_pool_backward(b, args, 2, results);
}

void exg_lower_avg_pool3d_backward(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    avg_pool_backward(b, args, 3, results);
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

/* (grad_output, self): pooling is a product along each dim */
static void adaptive_avg_pool_backward(exg_builder *b, const exg_argument *args, uint32_t count,
                                       exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, exg_get_ref(&args[1]));
    exg_dims out = exg_lower_dims(b, SELF);
    exg_ref g = exg_lower_wide(b, SELF);
    exg_dtype dtype = exg_lower_dtype(b, g);

    if (in.rank < count + 1 || out.rank != in.rank) {
        exg_lower_refuse(b, "pooling of a tensor that is no image");
        return;
    }
    for (uint32_t d = in.rank - count; d < in.rank; d++) {
        g = EMIT(b, matmul_default, exg_lower_swapped(b, g, d, in.rank - 1),
                 shares(b, in.n[d], out.n[d], dtype));
        g = exg_lower_swapped(b, g, d, in.rank - 1);
    }
    results[0] = exg_arg_ref(exg_lower_cast(b, g, exg_lower_dtype(b, SELF)));
}

void exg_lower_adaptive_avg_pool2d_backward(exg_builder *b, const exg_argument *args,
                                            exg_argument *results)
{
    adaptive_avg_pool_backward(b, args, 2, results);
}

void exg_lower_adaptive_avg_pool3d_backward(exg_builder *b, const exg_argument *args,
                                            exg_argument *results)
{
    adaptive_avg_pool_backward(b, args, 3, results);
}

/* (grad_output, input_sizes, offset, dim1, dim2) */
void exg_lower_diagonal_backward(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, diagonal_scatter_default, zeros(b, &args[1], SELF), SELF,
                                  args[2], args[3], args[4]));
}

/* (grad_output, self, kernel, output, indices) */
void exg_lower_fractional_max_pool2d_backward(exg_builder *b, const exg_argument *args,
                                              exg_argument *results)
{
    results[0] = to_largest(b, SELF, exg_get_ref(&args[1]), exg_get_ref(&args[4]), 2);
}

void exg_lower_fractional_max_pool3d_backward(exg_builder *b, const exg_argument *args,
                                              exg_argument *results)
{
    results[0] = to_largest(b, SELF, exg_get_ref(&args[1]), exg_get_ref(&args[4]), 3);
}
