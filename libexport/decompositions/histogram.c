/* histogram.c - lowerings of histogram.def. */
#include "libexport/operators/lower.h"

#include <math.h>
#include <string.h>

#define EXG_ROWS "libexport/operators/histogram.def"
#include "libexport/operators/rows.h"

#define SELF exg_get_ref(&args[0])

/* ---- histograms -------------------------------------------------------------------------- */

/* bins + 1 edges from the least to the greatest, both 0-d; half to each side where they are
 * equal. */
static exg_ref edges_between(exg_builder *b, exg_ref least, exg_ref most, int64_t bins)
{
    exg_dtype dtype = exg_lower_dtype(b, least);
    exg_ref alike = exg_lower_cast(b, EMIT(b, eq_Tensor, least, most), dtype);
    exg_ref half = EMIT(b, mul_Scalar, alike, 0.5);
    exg_ref step;
    exg_ref i = exg_lower_steps(b, bins + 1, dtype, 0, 1);

    least = EMIT(b, sub_Tensor, least, half);
    most = EMIT(b, add_Tensor, most, half);
    step = EMIT(b, div_Scalar, EMIT(b, sub_Tensor, most, least), (double)bins);
    return EMIT(b, where_self, EMIT(b, lt_Scalar, i, (double)bins / 2),
                EMIT(b, add_Tensor, EMIT(b, mul_Tensor, i, step), least),
                EMIT(b, sub_Tensor, most,
                     EMIT(b, mul_Tensor, EMIT(b, rsub_Scalar, i, (double)bins), step)));
}

/* Edges of one column of points; `range` gives its least and greatest, or is None. */
static exg_ref edges_of(exg_builder *b, exg_ref column, int64_t bins, const exg_argument *range,
                        uint32_t at)
{
    exg_dtype dtype = exg_lower_dtype(b, column);

    if (bins < 1 || bins > INT32_MAX) {
        exg_lower_refuse(b, "a histogram of no bins");
        return EXG_NO_REF;
    }
    if (range->kind == EXG_ARGUMENT_FLOATS && range->count > 2 * at + 1) {
        return edges_between(b, exg_lower_number(b, range->as_floats[2 * at], dtype),
                             exg_lower_number(b, range->as_floats[2 * at + 1], dtype), bins);
    }
    if (exg_lower_numel(b, column) == 0) {
        return edges_between(b, exg_lower_number(b, 0, dtype), exg_lower_number(b, 1, dtype), bins);
    }
    return edges_between(b, EMIT(b, amin_default, column), EMIT(b, amax_default, column), bins);
}

/* What falls between the edges of every column of points (N, count); the last bin has its
 * upper edge too. */
static exg_ref counted(exg_builder *b, exg_ref points, const exg_ref *edges, uint32_t count,
                       const exg_argument *weight, bool density)
{
    exg_dtype dtype = exg_lower_dtype(b, points);
    exg_dims dims = {.rank = count};
    exg_ref place = EXG_NO_REF;
    exg_ref inside = EXG_NO_REF;
    exg_ref weights;
    exg_ref hist;
    int64_t whole = 1;

    for (uint32_t k = 0; k < count; k++) {
        exg_ref x = EMIT(b, clone_default, EMIT(b, select_int, points, 1, (int)k));
        int64_t bins = exg_lower_numel(b, edges[k]) - 1;
        exg_ref last = exg_lower_slice(b, edges[k], 0, bins, 1);
        exg_ref at =
            EMIT(b, searchsorted_Tensor, edges[k], x, exg_arg_bool(false), exg_arg_bool(true));
        exg_ref is_in;

        at = EMIT(b, sub_Scalar, at, 1);
        at = EMIT(b, where_ScalarSelf, EMIT(b, eq_Tensor, x, last), exg_arg_int(bins - 1), at);
        is_in = EMIT(b, logical_and_default, EMIT(b, ge_Scalar, at, 0),
                     EMIT(b, lt_Scalar, at, exg_arg_int(bins)));
        at = EMIT(b, clamp_both, at, 0, exg_arg_int(bins - 1));
        place =
            k == 0 ? at : EMIT(b, add_Tensor, EMIT(b, mul_Scalar, place, exg_arg_int(bins)), at);
        inside = k == 0 ? is_in : EMIT(b, logical_and_default, inside, is_in);
        dims.n[k] = bins;
        whole *= bins;
    }
    weights = exg_lower_cast(b, inside, dtype);
    if (exg_lower_given(weight)) {
        weights = EMIT(b, mul_Tensor, weights, exg_lower_flat(b, exg_get_ref(weight)));
    }
    hist = EMIT(b, scatter_add_default, EMIT(b, zeros_default, INTS(b, whole), DTYPE(dtype)), 0,
                place, weights);
    hist = exg_lower_shaped(b, hist, &dims);
    if (density) {
        hist = EMIT(b, div_Tensor, hist, EMIT(b, sum_default, hist));
        for (uint32_t k = 0; k < count; k++) {
            exg_ref width = EMIT(b, sub_Tensor, exg_lower_slice(b, edges[k], 0, 1, dims.n[k]),
                                 exg_lower_slice(b, edges[k], 0, 0, dims.n[k]));

            hist = EMIT(b, div_Tensor, hist, exg_lower_along(b, width, k, count));
        }
    }
    return hist;
}

/* (self, bins, range, weight, density) -> hist, edges */
void exg_lower_histogram_bin_ct(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x = exg_lower_flat(b, SELF);
    exg_ref edges = edges_of(b, x, exg_get_int(&args[1]), &args[2], 0);

    results[0] = exg_arg_ref(
        counted(b, EMIT(b, unsqueeze_default, x, 1), &edges, 1, &args[3], exg_get_bool(&args[4])));
    results[1] = exg_arg_ref(edges);
}

/* (self, bins, weight, density) */
void exg_lower_histogram_bins_tensor(exg_builder *b, const exg_argument *args,
                                     exg_argument *results)
{
    exg_ref x = EMIT(b, unsqueeze_default, exg_lower_flat(b, SELF), 1);
    exg_ref edges = exg_get_ref(&args[1]);

    results[0] = exg_arg_ref(counted(b, x, &edges, 1, &args[2], exg_get_bool(&args[3])));
    results[1] = exg_arg_ref(EMIT(b, clone_default, edges));
}

/* Points (N, D) and the edges of every column; the number of columns. bins: numbers, or the
 * edges themselves. */
static uint32_t columns_of(exg_builder *b, const exg_argument *args, exg_ref *points,
                           exg_ref *edges)
{
    exg_dims dims = exg_lower_dims(b, SELF);
    int64_t bins[EXG_SHAPE_RANK_MAX];
    bool given = args[1].kind == EXG_ARGUMENT_TENSORS && args[1].count > 0;
    uint32_t count = given ? args[1].count : exg_get_ints(&args[1], bins, EXG_SHAPE_RANK_MAX);

    if (dims.rank < 2 || count > EXG_SHAPE_RANK_MAX || count == 0 ||
        EXG_END(dims, 1) != (int64_t)count) {
        exg_lower_refuse(b, "histogramdd of points of other dims than bins");
        return 0;
    }
    *points = EMIT(b, reshape_default, SELF, INTS(b, -1, (int64_t)count));
    for (uint32_t k = 0; k < count; k++) {
        edges[k] = given
                       ? exg_lower_item(&args[1], k)
                       : edges_of(b, EMIT(b, select_int, *points, 1, (int)k), bins[k], &args[2], k);
    }
    return count;
}

void exg_lower_histogramdd(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref edges[EXG_SHAPE_RANK_MAX];
    exg_ref points;
    uint32_t count = columns_of(b, args, &points, edges);

    if (count > 0) {
        results[0] =
            exg_arg_ref(counted(b, points, edges, count, &args[3], exg_get_bool(&args[4])));
        results[1] = exg_arg_refs(b, edges, count);
    }
}

void exg_lower_histogramdd_bin_edges(exg_builder *b, const exg_argument *args,
                                     exg_argument *results)
{
    exg_ref edges[EXG_SHAPE_RANK_MAX];
    exg_ref points;
    uint32_t count = columns_of(b, args, &points, edges);

    results[0] = count == 0 ? exg_arg_none() : exg_arg_refs(b, edges, count);
}

void exg_lower_histogramdd_from_bin_cts(exg_builder *b, const exg_argument *args,
                                        exg_argument *results)
{
    exg_argument both[2] = {exg_arg_none(), exg_arg_none()};

    exg_lower_histogramdd(b, args, both);
    results[0] = both[0];
}

/* (self, bins, weight, density) */
void exg_lower_histogramdd_from_bin_tensors(exg_builder *b, const exg_argument *args,
                                            exg_argument *results)
{
    const exg_argument all[5] = {args[0], args[1], exg_arg_none(), args[2], args[3]};

    exg_lower_histogramdd_from_bin_cts(b, all, results);
}

/* (self, size, fill_value): the first `size` places that are not 0, one a row; the k-th goes
 * to place k of a list with room for one more, where those that are too many end. */
void exg_lower_nonzero_static(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    int64_t numel = exg_lower_numel(b, SELF);
    int64_t size = exg_get_int(&args[1]);
    exg_ref mask = EMIT(b, ne_Scalar, exg_lower_flat(b, SELF), 0);
    exg_ref columns[EXG_SHAPE_RANK_MAX];
    exg_ref at;
    exg_ref found;
    int64_t after = 1;

    if (size < 0) {
        exg_lower_refuse(b, "nonzero_static of a size below 0");
        return;
    }
    if (in.rank == 0) { /* a place in a number has no dims */
        int64_t none[2] = {size, 0};

        results[0] =
            exg_arg_ref(EMIT(b, full_default, INTS_OF(b, none, 2), -1, DTYPE(EXG_DTYPE_I64)));
        return;
    }
    at = EMIT(b, sub_Scalar, EMIT(b, cumsum_default, mask, 0), 1);
    at = EMIT(b, where_ScalarOther, mask, at, exg_arg_int(size));
    at = EMIT(b, clamp_max_default, at, exg_arg_int(size));
    found = EMIT(b, scatter_src, EMIT(b, full_default, INTS(b, size + 1), -1, DTYPE(EXG_DTYPE_I64)),
                 0, at, exg_lower_steps(b, numel, EXG_DTYPE_I64, 0, 1));
    found = exg_lower_slice(b, found, 0, 0, size);
    for (uint32_t d = in.rank; d-- > 0;) {
        exg_ref place = EMIT(b, div_floor_Scalar, found, exg_arg_int(after));

        place = EMIT(b, remainder_Scalar, place, exg_arg_int(in.n[d] < 1 ? 1 : in.n[d]));
        columns[d] =
            EMIT(b, unsqueeze_default,
                 EMIT(b, where_ScalarSelf, EMIT(b, lt_Scalar, found, 0), args[2], place), 1);
        after *= in.n[d] < 1 ? 1 : in.n[d];
    }
    results[0] = exg_arg_ref(EMIT(b, cat_default, exg_arg_refs(b, columns, in.rank), 1));
}

/* ---- groups -----------------------------------------------------------------------------------
 */

/* (self, dim, index, source, reduce, include_self) */
void exg_lower_index_reduce(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref source = exg_get_ref(&args[3]);
    exg_dims like = exg_lower_dims(b, source);
    exg_dims in = exg_lower_dims(b, SELF);
    uint32_t dim = exg_lower_dim(b, exg_get_int(&args[1]), in.rank);
    exg_ref index = exg_lower_from_start(b, exg_get_ref(&args[2]), in.rank == 0 ? 1 : in.n[dim]);
    exg_ref x = SELF;

    if (in.rank == 0) {
        x = exg_lower_flat(b, x);
        source = exg_lower_flat(b, source);
        index = exg_lower_flat(b, index);
    } else {
        index = EMIT(b, expand_default, exg_lower_along(b, index, dim, like.rank),
                     INTS_OF(b, like.n, like.rank));
    }
    x = EMIT(b, scatter_reduce_two, x, (int)dim, index, source, args[4], args[5]);
    results[0] = exg_arg_ref(in.rank == 0 ? EMIT(b, squeeze_dims, x, INTS(b, 0)) : x);
}

/* (self, dim, keepdim): of what is most frequent the least, and where it is last */
void exg_lower_mode(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    uint32_t dim = exg_lower_dim(b, exg_get_int(&args[1]), in.rank);
    bool keeps = exg_get_bool(&args[2]) && in.rank > 0;
    exg_ref x = in.rank == 0 ? exg_lower_flat(b, SELF) : SELF;
    exg_argument sorted[2] = {exg_arg_none(), exg_arg_none()};
    exg_argument best[2] = {exg_arg_none(), exg_arg_none()};
    exg_ref values;
    exg_ref counts;
    exg_ref place;

    if (in.rank > 0 && in.n[dim] == 0) {
        exg_lower_refuse(b, "a mode over a dim without elements");
        return;
    }
    (void)EMIT_ALL(b, sort_stable, sorted, x, exg_arg_bool(true), (int)dim);
    values = exg_get_ref(&sorted[0]);
    counts = EMIT(b, eq_Tensor, EMIT(b, unsqueeze_default, values, (int)dim),
                  EMIT(b, unsqueeze_default, values, (int)dim + 1));
    counts = EMIT(b, sum_dim_IntList, counts, INTS(b, (int64_t)dim));
    (void)EMIT_ALL(b, max_dim, best, counts, (int)dim, exg_arg_bool(true));
    place = EMIT(b, sub_Scalar, EMIT(b, add_Tensor, best[0], best[1]), 1);
    results[0] = exg_arg_ref(EMIT(b, gather_default, values, (int)dim, place));
    results[1] = exg_arg_ref(EMIT(b, gather_default, sorted[1], (int)dim, place));
    for (int i = 0; i < 2 && !keeps; i++) {
        results[i] = exg_arg_ref(EMIT(b, squeeze_dims, results[i], INTS(b, (int64_t)dim)));
    }
}

/* (self, dim, keepdim, mode 0): the bits of all numbers, as float64 or int64, in exclusive or */
void exg_lower_hash_tensor(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    bool is_float = exg_dtype_is_float(exg_lower_dtype(b, SELF));
    exg_ref x = exg_lower_cast(b, SELF, is_float ? EXG_DTYPE_F64 : EXG_DTYPE_I64);
    exg_dims in = exg_lower_dims(b, x);
    exg_dims kept = in;
    exg_dims out = {.rank = 0};
    bool over[EXG_SHAPE_RANK_MAX];
    exg_error err;

    if (exg_get_int(&args[3]) != 0 || exg_dim_set(&args[1], in.rank, over, &err) != EXG_OK) {
        exg_lower_refuse(b, "hash_tensor over dims that are not there, or in another mode");
        return;
    }
    x = is_float ? EMIT(b, view_dtype, x, DTYPE(EXG_DTYPE_I64)) : x;
    for (uint32_t d = 0; d < in.rank; d++) {
        for (int64_t n = in.n[d]; over[d] && n > 1; n = n / 2 + n % 2) {
            exg_ref parts[2] = {EMIT(b, bitwise_xor_Tensor, exg_lower_slice(b, x, d, 0, n / 2),
                                     exg_lower_slice(b, x, d, n / 2, n / 2)),
                                exg_lower_slice(b, x, d, n - 1, 1)};

            x = n % 2 == 0 ? parts[0] : EMIT(b, cat_default, exg_arg_refs(b, parts, 2), (int)d);
        }
        kept.n[d] = over[d] ? 1 : in.n[d];
        if (!over[d] || exg_get_bool(&args[2])) {
            out.n[out.rank++] = kept.n[d];
        }
    }
    if (exg_lower_numel(b, SELF) == 0) {
        x = EMIT(b, zeros_default, INTS_OF(b, kept.n, kept.rank), DTYPE(EXG_DTYPE_I64));
    }
    results[0] =
        exg_arg_ref(EMIT(b, view_dtype, exg_lower_shaped(b, x, &out), DTYPE(EXG_DTYPE_U64)));
}

/* ---- put together -------------------------------------------------------------------------------
 */

#define COMBINATIONS_MAX 1024

/* (self, r, with_replacement): the places of every combination, row by row, taken at once */
void exg_lower_combinations(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    int64_t n = exg_lower_numel(b, SELF);
    int64_t r = exg_get_int(&args[1]);
    int64_t step = exg_get_bool(&args[2]) ? 0 : 1;
    int64_t at[8];
    exg_ref rows[COMBINATIONS_MAX];
    uint32_t count = 0;
    exg_ref picks[8];

    if (r < 1 || r > 8) {
        exg_lower_refuse(b, "combinations of none, or of more than 8");
        return;
    }
    for (int64_t k = 0; k < r; k++) {
        at[k] = k * step;
    }
    while (at[r - 1] < n) {
        int64_t k = r - 1;

        if (count == COMBINATIONS_MAX) {
            exg_lower_unsupported(b, "more than 1024 combinations");
            return;
        }
        for (int64_t i = 0; i < r; i++) {
            picks[i] = exg_lower_slice(b, SELF, 0, at[i], 1);
        }
        rows[count++] = EMIT(b, cat_default, exg_arg_refs(b, picks, (uint32_t)r), 0);
        for (at[k]++; k > 0 && at[k] >= n - (r - 1 - k) * step; k--) {
            at[k - 1]++;
        }
        for (k = k + 1; k < r; k++) {
            at[k] = at[k - 1] + step;
        }
    }
    results[0] = exg_arg_ref(
        count == 0 ? EMIT(b, zeros_default, INTS(b, 0, r), DTYPE(exg_lower_dtype(b, SELF)))
                   : EMIT(b, reshape_default, EMIT(b, cat_default, exg_arg_refs(b, rows, count), 0),
                          INTS(b, (int64_t)count, r)));
}

/* (tensors, dim, num_chunks): each padded to whole chunks along dim, which are side by side */
void exg_lower_chunk_cat(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    int64_t chunks = exg_get_int(&args[2]);
    uint32_t count = args[0].count;
    exg_ref *parts = exg_lower_new_refs(b, count);
    uint32_t dim = 0;

    if (parts == NULL || count == 0 || chunks < 1) {
        exg_lower_refuse(b, "_chunk_cat of no tensors, or into no chunks");
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        exg_ref x = exg_lower_item(&args[0], i);
        exg_dims in = exg_lower_dims(b, x);
        exg_dims out = {.rank = 0};
        int64_t rest;
        int64_t pad[2 * EXG_SHAPE_RANK_MAX] = {0};

        dim = exg_lower_dim(b, exg_get_int(&args[1]), in.rank);
        if (in.rank == 0) {
            exg_lower_refuse(b, "_chunk_cat of a number");
            return;
        }
        rest = (chunks - in.n[dim] % chunks) % chunks;
        pad[2 * (in.rank - 1 - dim) + 1] = rest;
        x = EMIT(b, constant_pad_nd_default, x, INTS_OF(b, pad, 2 * (in.rank - dim)), 0);
        for (uint32_t d = 0; d < dim; d++) {
            out.n[out.rank++] = in.n[d];
        }
        out.n[out.rank++] = chunks;
        out.n[out.rank++] = (in.n[dim] + rest) / chunks;
        for (uint32_t d = dim + 1; d < in.rank; d++) {
            out.n[dim + 1] *= in.n[d];
        }
        parts[i] = exg_lower_shaped(b, x, &out);
    }
    results[0] = exg_arg_ref(EMIT(b, cat_default, exg_arg_refs(b, parts, count), (int)dim + 1));
}

/* The elements in order; zeros where there are fewer. */
static exg_ref resized(exg_builder *b, exg_ref x, const exg_dims *dims)
{
    int64_t have = exg_lower_numel(b, x);
    int64_t want = 1;
    exg_ref parts[2] = {exg_lower_flat(b, x), EXG_NO_REF};

    for (uint32_t d = 0; d < dims->rank; d++) {
        if (dims->n[d] < 0 || !exg_mul_i64(want, dims->n[d], &want)) {
            exg_lower_refuse(b, "a tensor of such sizes");
            return x;
        }
    }
    if (want <= have) {
        return exg_lower_shaped(b, exg_lower_slice(b, parts[0], 0, 0, want), dims);
    }
    parts[1] = EMIT(b, zeros_default, INTS(b, want - have), DTYPE(exg_lower_dtype(b, x)));
    return exg_lower_shaped(b, EMIT(b, cat_default, exg_arg_refs(b, parts, 2), 0), dims);
}

void exg_lower_resize(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims dims;

    dims.rank = exg_get_ints(&args[1], dims.n, EXG_SHAPE_RANK_MAX);
    results[0] = exg_arg_ref(resized(b, SELF, &dims));
}

void exg_lower_resize_as(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims dims = exg_lower_dims(b, exg_get_ref(&args[1]));

    results[0] = exg_arg_ref(resized(b, SELF, &dims));
}

/* (self, mask, indices, values): added where the mask says so; indices may be outside
 * elsewhere */
void exg_lower_unsafe_masked_index_put(exg_builder *b, const exg_argument *args,
                                       exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    exg_argument indices = args[2];
    exg_ref values = EMIT(b, where_ScalarOther, args[1], args[3], 0);
    exg_error err;

    if (exg_argument_copy(exg_builder_arena(b), &indices, &err) != EXG_OK) {
        exg_builder_fail(b, &err);
        return;
    }
    for (uint32_t i = 0; i < indices.count && i < in.rank; i++) {
        if (indices.as_tensors[i] != EXG_NO_VALUE) {
            indices.as_tensors[i] = EMIT(b, clamp_both, (exg_ref){indices.as_tensors[i]},
                                         exg_arg_int(-in.n[i]), exg_arg_int(in.n[i] - 1))
                                        .id;
        }
    }
    results[0] =
        exg_arg_ref(EMIT(b, index_put_default, SELF, indices,
                         exg_lower_cast(b, values, exg_lower_dtype(b, SELF)), exg_arg_bool(true)));
}

/* ---- slopes
 * ----------------------------------------------------------------------------------------- */

/* How far apart the points of a dim are: a number, or where each of them lies. */
typedef struct spacing {
    double step;
    exg_ref places;
} spacing;

static exg_ref times(exg_builder *b, exg_ref x, exg_ref factor)
{
    return EMIT(b, mul_Tensor, x, factor);
}

/* The slope at the first point of three, or the last one: of two, or of all three. */
static exg_ref end_slope(exg_builder *b, const exg_ref *f, const exg_ref *h, int64_t order)
{
    exg_ref line = EMIT(b, div_Tensor, EMIT(b, sub_Tensor, f[1], f[0]), h[0]);
    exg_ref next;

    if (order < 2) {
        return line;
    }
    /* the line bent by the change of slope: s0 - h0 (s1 - s0) / (h0 + h1) */
    next = EMIT(b, div_Tensor, EMIT(b, sub_Tensor, f[2], f[1]), h[1]);
    next = EMIT(b, div_Tensor, EMIT(b, sub_Tensor, next, line), EMIT(b, add_Tensor, h[0], h[1]));
    return EMIT(b, sub_Tensor, line, times(b, next, h[0]));
}

static exg_ref slope(exg_builder *b, exg_ref f, uint32_t dim, spacing by, int64_t order)
{
    exg_dims in = exg_lower_dims(b, f);
    int64_t n = in.rank == 0 ? 0 : in.n[dim];
    exg_dtype dtype = exg_lower_dtype(b, f);
    exg_dtype given;
    exg_ref h;
    exg_ref parts[3];
    exg_ref ends[3];
    exg_ref gaps[2];

    if (n < order + 1 || order < 1 || order > 2) {
        exg_lower_refuse(b, "gradient of fewer points than its edges ask for");
        return EXG_NO_REF;
    }
    given = exg_dtype_is_float(dtype) || exg_dtype_is_complex(dtype) ? dtype : EXG_DTYPE_F32;
    f = exg_lower_wide(b, exg_lower_cast(b, f, given));
    dtype = exg_lower_dtype(b, f);
    h = by.places.id == EXG_NO_VALUE
            ? EMIT(b, full_default, INTS(b, n - 1), by.step, DTYPE(dtype))
            : EMIT(b, sub_Tensor, exg_lower_slice(b, by.places, 0, 1, n - 1),
                   exg_lower_slice(b, by.places, 0, 0, n - 1));
    h = exg_lower_along(b, h, dim, in.rank);
    /* between: slopes to both sides, each as much as the other side is long */
    if (n > 2) {
        exg_ref step = EMIT(b, div_Tensor,
                            EMIT(b, sub_Tensor, exg_lower_slice(b, f, dim, 1, n - 1),
                                 exg_lower_slice(b, f, dim, 0, n - 1)),
                            h);
        exg_ref left = exg_lower_slice(b, h, dim, 0, n - 2);
        exg_ref right = exg_lower_slice(b, h, dim, 1, n - 2);

        parts[1] = EMIT(b, add_Tensor, times(b, exg_lower_slice(b, step, dim, 0, n - 2), right),
                        times(b, exg_lower_slice(b, step, dim, 1, n - 2), left));
        parts[1] = EMIT(b, div_Tensor, parts[1], EMIT(b, add_Tensor, left, right));
    }
    for (int side = 0; side < 2; side++) {
        for (int64_t k = 0; k <= order; k++) {
            ends[k] = exg_lower_slice(b, f, dim, side == 0 ? k : n - 1 - k, 1);
        }
        for (int64_t k = 0; k < order; k++) {
            gaps[k] = exg_lower_slice(b, h, dim, side == 0 ? k : n - 2 - k, 1);
            gaps[k] = side == 0 ? gaps[k] : EMIT(b, neg_default, gaps[k]);
        }
        parts[side == 0 || n == 2 ? side : 2] = end_slope(b, ends, gaps, order);
    }
    return exg_lower_cast(b, EMIT(b, cat_default, exg_arg_refs(b, parts, n > 2 ? 3 : 2), (int)dim),
                          given);
}

/* dims: None (all), a number, or a list; spacing by position among them. */
static void gradient(exg_builder *b, const exg_argument *args, const exg_argument *by,
                     const exg_argument *dims, const exg_argument *order, exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    int64_t given[EXG_SHAPE_RANK_MAX];
    uint32_t count = exg_is_none(dims) ? in.rank : exg_get_ints(dims, given, EXG_SHAPE_RANK_MAX);
    exg_ref slopes[EXG_SHAPE_RANK_MAX];

    for (uint32_t i = 0; i < count && i < EXG_SHAPE_RANK_MAX; i++) {
        spacing s = {.step = 1, .places = EXG_NO_REF};

        if (by != NULL && by->kind == EXG_ARGUMENT_TENSORS && i < by->count) {
            s.places = exg_lower_item(by, i);
        } else if (by != NULL && by->kind == EXG_ARGUMENT_FLOATS && i < by->count) {
            s.step = by->as_floats[i];
        } else if (by != NULL && by->kind == EXG_ARGUMENT_INTS && i < by->count) {
            s.step = (double)by->as_ints[i];
        } else if (by != NULL && !exg_is_none(by)) {
            s.step = exg_get_float(by);
        }
        slopes[i] = slope(b, SELF, exg_is_none(dims) ? i : exg_lower_dim(b, given[i], in.rank), s,
                          exg_get_int(order));
    }
    results[0] = exg_arg_refs(b, slopes, count);
}

/* (self, spacing, dim, edge_order); (self, dim, edge_order) */
void exg_lower_gradient(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    gradient(b, args, &args[1], &args[2], &args[3], results);
}

void exg_lower_gradient_array(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    gradient(b, args, NULL, &args[1], &args[2], results);
}
