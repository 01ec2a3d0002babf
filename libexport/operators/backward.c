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
    exg_ref product = EMIT(b, mul_Tensor, args[0], args[1]);
    exg_ref sum = EMIT(b, sum_dim_IntList, product, INTS(b, exg_get_int(&args[2])),
                       exg_arg_bool(true));
    exg_ref x = EMIT(b, sub_Tensor, product, EMIT(b, mul_Tensor, args[1], sum));

    results[0] = exg_arg_ref(
        exg_lower_cast(b, x, exg_dtype_argument(&args[3], exg_lower_dtype(b, SELF))));
}

/* g - exp(y) sum(g) */
void exg_lower_log_softmax_backward(exg_builder *b, const exg_argument *args,
                                    exg_argument *results)
{
    exg_ref sum = EMIT(b, sum_dim_IntList, SELF, INTS(b, exg_get_int(&args[2])),
                       exg_arg_bool(true));
    exg_ref x = EMIT(b, mul_Tensor, EMIT(b, exp_default, exg_get_ref(&args[1])), sum);

    results[0] = exg_arg_ref(exg_lower_cast(b, EMIT(b, sub_Tensor, SELF, x),
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

    if (exg_get_bool(&args[4])) {
        exg_lower_unsupported(b, "embedding gradients divided by how often a row was read");
        return;
    }
    index = EMIT(b, reshape_default, index, INTS(b, count));
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
