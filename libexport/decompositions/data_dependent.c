/* data_dependent.c - operators whose result's size is in the data, each as two: the size as one
 * integer, and the operator once the size is a number (sized.def). Meaning: PyTorch's.
 */
#include "libexport/operators/lower.h"

#define EXG_ROWS "libexport/operators/data_dependent.def"
#include "libexport/operators/rows.h"

#define SELF exg_get_ref(&args[0])

/* Where a mask is set, row by row: (size, rank) int64. */
exg_status exg_shape_places(exg_shape_call *call, exg_error *err)
{
    exg_dims out = {.rank = 2, .n = {exg_get_int(&call->args[1]), exg_shape_input(call, 0)->rank}};

    if (out.n[0] < 0) {
        return EXG_SHAPE_FAIL(err, "a negative number of places");
    }
    return exg_shape_result(call, 0, EXG_DTYPE_I64, &out, err);
}

/* Which rows, in the order of their elements, the first differing one deciding: (rows) int64. */
exg_status exg_shape_row_order(exg_shape_call *call, exg_error *err)
{
    exg_dims in;

    EXG_TRY(exg_dims_of(exg_shape_input(call, 0), &in, err));
    if (in.rank != 2) {
        return EXG_SHAPE_FAIL(err, "rows of a tensor of rank %u", in.rank);
    }
    in.rank = 1;
    return exg_shape_result(call, 0, EXG_DTYPE_I64, &in, err);
}

/* A tensor that is read as one number; there is no result. */
exg_status exg_shape_one_element(exg_shape_call *call, exg_error *err)
{
    int64_t numel;

    return exg_tensor_meta_numel(exg_shape_input(call, 0), &numel) && numel == 1
               ? EXG_OK
               : EXG_SHAPE_FAIL(err, "a number of a tensor that does not have one element");
}

static exg_ref is_set(exg_builder *b, exg_ref x)
{
    return exg_lower_dtype(b, x) == EXG_DTYPE_B8 ? x : EMIT(b, ne_Scalar, x, 0);
}

/* The places of a mask as one vector; the mask may have any rank. */
static exg_ref flat_places(exg_builder *b, exg_ref mask, exg_argument size)
{
    return exg_lower_flat(b, EMIT(b, places, exg_lower_flat(b, mask), size));
}

static exg_ref whole(exg_builder *b, int64_t value)
{
    return exg_lower_number(b, (double)value, EXG_DTYPE_I64);
}

/* ---- nonzero, masked_select -------------------------------------------------------------- */

void exg_lower_nonzero_size(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, count_nonzero_default, SELF));
}

void exg_lower_nonzero_sized(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, places, is_set(b, SELF), args[1]));
}

/* One vector of places for each dim: where.default. */
void exg_lower_where_sized(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    uint32_t rank = exg_lower_dims(b, SELF).rank;
    exg_ref x = rank > 0 ? SELF : exg_lower_flat(b, SELF);
    exg_ref at = EMIT(b, places, is_set(b, x), args[1]);
    exg_ref each[EXG_SHAPE_RANK_MAX];

    rank += rank == 0;
    for (uint32_t d = 0; d < rank; d++) {
        each[d] = EMIT(b, select_int, at, 1, d);
    }
    results[0] = exg_arg_refs(b, each, rank);
}

/* self and mask in their common sizes */
static bool joined(exg_builder *b, const exg_argument *args, exg_ref *x, exg_ref *mask)
{
    exg_dims dims[2] = {exg_lower_dims(b, SELF), exg_lower_dims(b, exg_get_ref(&args[1]))};
    exg_dims out;

    if (exg_broadcast(&dims[0], &dims[1], &out, NULL) != EXG_OK) {
        exg_lower_refuse(b, "a mask that does not broadcast");
        return false;
    }
    *x = EMIT(b, expand_default, SELF, INTS_OF(b, out.n, out.rank));
    *mask = EMIT(b, expand_default, exg_get_ref(&args[1]), INTS_OF(b, out.n, out.rank));
    return true;
}

void exg_lower_masked_select_size(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x;
    exg_ref mask;

    if (joined(b, args, &x, &mask)) {
        results[0] = exg_arg_ref(EMIT(b, count_nonzero_default, mask));
    }
}

void exg_lower_masked_select_sized(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x;
    exg_ref mask;

    if (joined(b, args, &x, &mask)) {
        results[0] = exg_arg_ref(EMIT(b, index_select_default, exg_lower_flat(b, x), 0,
                                      flat_places(b, is_set(b, mask), args[2])));
    }
}

/* ---- masks among indices ----------------------------------------------------------------- */

static bool is_mask(const exg_builder *b, const exg_argument *indices, uint32_t i)
{
    exg_dtype dtype;

    if (indices->as_tensors[i] == EXG_NO_VALUE) {
        return false;
    }
    dtype = exg_lower_dtype(b, exg_lower_item(indices, i));
    return dtype == EXG_DTYPE_B8 || dtype == EXG_DTYPE_U8;
}

/* The number of places of the first mask; nothing where there is none. All masks of one
 * call name as many. */
static void count_mask(exg_builder *b, const exg_argument *indices, exg_argument *results)
{
    for (uint32_t i = 0; i < indices->count; i++) {
        if (is_mask(b, indices, i)) {
            results[0] = exg_arg_ref(EMIT(b, count_nonzero_default, exg_lower_item(indices, i)));
            return;
        }
    }
}

/* Every mask becomes the places it names, an index for each of its dims. */
static exg_argument without_masks(exg_builder *b, const exg_argument *indices, exg_argument size)
{
    exg_ref made[EXG_SHAPE_RANK_MAX];
    uint32_t count = 0;

    for (uint32_t i = 0; i < indices->count; i++) {
        bool mask = is_mask(b, indices, i);
        exg_ref index = exg_lower_item(indices, i);
        uint32_t rank = mask ? exg_lower_dims(b, index).rank : 1;

        if (count + rank > EXG_SHAPE_RANK_MAX || rank == 0) {
            exg_lower_unsupported(b, rank == 0 ? "an index that is one bool" : "too many indices");
            return exg_arg_none();
        }
        if (!mask) {
            made[count++] = index;
            continue;
        }
        index = EMIT(b, places, is_set(b, index), size);
        for (uint32_t d = 0; d < rank; d++) {
            made[count++] = EMIT(b, select_int, index, 1, d);
        }
    }
    return exg_arg_refs(b, made, count);
}

void exg_lower_index_size(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    count_mask(b, &args[1], results);
}

void exg_lower_index_sized(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_argument indices = without_masks(b, &args[1], args[2]);

    results[0] = exg_arg_ref(EMIT(b, index_Tensor, args[0], indices));
}

/* (self, indices, values, accumulate): what one mask sets alike everywhere is a where. */
void exg_lower_index_put_size(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    exg_ref values = exg_get_ref(&args[2]);
    bool alone = args[1].count == 1 && is_mask(b, &args[1], 0);
    uint32_t rank = alone ? exg_lower_dims(b, exg_lower_item(&args[1], 0)).rank : 0;

    if (!alone || rank > in.rank ||
        (exg_lower_numel(b, values) != 1 && exg_lower_dims(b, values).rank > in.rank - rank)) {
        count_mask(b, &args[1], results);
    }
}

void exg_lower_index_put_sized(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_argument indices = without_masks(b, &args[1], args[4]);

    results[0] = exg_arg_ref(EMIT(b, index_put, args[0], indices, args[2], args[3]));
}

/* ---- unique ------------------------------------------------------------------------------ */

/* 1 where an element along dim 0 is another than the one before it. */
static exg_ref begins(exg_builder *b, exg_ref x)
{
    exg_dims dims = exg_lower_dims(b, x);
    int64_t count = dims.n[0];
    exg_ref first = EMIT(b, full_default, INTS(b, count > 0 ? 1 : 0), 1, DTYPE(EXG_DTYPE_B8));

    if (count < 2) {
        return first;
    }
    x = EMIT(b, ne_Tensor, exg_lower_slice(b, x, 0, 1, count - 1),
             exg_lower_slice(b, x, 0, 0, count - 1));
    x = dims.rank == 1 ? x : EMIT(b, any_dim, x, 1);
    return EMIT(b, cat_default, exg_arg_refs(b, (const exg_ref[]){first, x}, 2), 0);
}

/* The runs along dim 0 that begin where `starts` is set: their first elements, the run of
 * each element, the length of each. */
static void runs(exg_builder *b, exg_ref x, exg_ref starts, exg_argument size, exg_ref results[3])
{
    exg_ref at = flat_places(b, starts, size);
    int64_t count = exg_lower_numel(b, starts);
    int64_t many = exg_get_int(&size);
    exg_ref end =
        EMIT(b, full_default, INTS(b, many > 0 ? 1 : 0), exg_arg_int(count), DTYPE(EXG_DTYPE_I64));
    exg_ref next =
        many < 2 ? end
                 : EMIT(b, cat_default,
                        exg_arg_refs(
                            b, (const exg_ref[]){exg_lower_slice(b, at, 0, 1, many - 1), end}, 2),
                        0);

    results[0] = EMIT(b, index_select_default, x, 0, at);
    starts = EMIT(b, cumsum_default, exg_lower_cast(b, starts, EXG_DTYPE_I64), 0);
    results[1] = EMIT(b, sub_Scalar, starts, 1);
    results[2] = EMIT(b, sub_Tensor, next, at);
}

static exg_ref nothing(exg_builder *b)
{
    return EMIT(b, full_default, INTS(b, 0), 0, DTYPE(EXG_DTYPE_I64));
}

static exg_argument count_of(exg_builder *b, exg_ref starts)
{
    return exg_arg_ref(EMIT(b, count_nonzero_default, starts));
}

/* (self, sorted, return_inverse, return_counts) */
void exg_lower_unique2_size(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_argument sorted[2] = {exg_arg_none(), exg_arg_none()};

    (void)EMIT_ALL(b, sort_default, sorted, exg_lower_flat(b, SELF), 0);
    results[0] = count_of(b, begins(b, exg_get_ref(&sorted[0])));
}

static void unique(exg_builder *b, const exg_argument *args, exg_argument size, exg_ref results[3])
{
    exg_dims in = exg_lower_dims(b, SELF);
    exg_argument sorted[2] = {exg_arg_none(), exg_arg_none()};
    exg_ref inverse;

    (void)EMIT_ALL(b, sort_default, sorted, exg_lower_flat(b, SELF), 0);
    runs(b, exg_get_ref(&sorted[0]), begins(b, exg_get_ref(&sorted[0])), size, results);
    inverse = EMIT(b, scatter_src, results[1], 0, exg_get_ref(&sorted[1]), results[1]);
    results[1] = exg_get_bool(&args[2]) ? exg_lower_shaped(b, inverse, &in) : nothing(b);
}

void exg_lower_unique_sized(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref made[3];

    unique(b, args, args[3], made);
    results[0] = exg_arg_ref(made[0]);
    results[1] = exg_arg_ref(made[1]);
}

void exg_lower_unique2_sized(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref made[3];

    unique(b, args, args[4], made);
    results[0] = exg_arg_ref(made[0]);
    results[1] = exg_arg_ref(made[1]);
    results[2] = exg_arg_ref(exg_get_bool(&args[3]) ? made[2] : nothing(b));
}

/* What lies along `dim`, as rows; with *order not NULL in their order, and which those are. */
static exg_ref rows_along(exg_builder *b, exg_ref x, uint32_t dim, exg_ref *order)
{
    int64_t count;
    int64_t numel = exg_lower_numel(b, x);

    x = EMIT(b, movedim_int, x, (int)dim, 0);
    count = exg_lower_dims(b, x).n[0];
    if (count > 0 && numel == 0) {
        exg_lower_refuse(b, "unique along a dim beside one of size 0");
        return EXG_NO_REF;
    }
    x = EMIT(b, reshape_default, x, INTS(b, count, count == 0 ? 0 : numel / count));
    if (order != NULL) {
        *order = EMIT(b, row_order, x);
        x = EMIT(b, index_select_default, x, 0, *order);
    }
    return x;
}

/* The slices along `dim`, each once, the number of each and how many there were. */
static void unique_along(exg_builder *b, exg_ref x, uint32_t dim, bool sorts, exg_argument size,
                         exg_argument *results)
{
    exg_ref order = EXG_NO_REF;
    exg_ref rows = rows_along(b, x, dim, sorts ? &order : NULL);
    exg_dims dims = exg_lower_dims(b, x);
    exg_ref made[3];

    if (rows.id == EXG_NO_VALUE) {
        return;
    }
    x = EMIT(b, movedim_int, x, (int)dim, 0);
    x = sorts ? EMIT(b, index_select_default, x, 0, order) : x;
    runs(b, x, begins(b, rows), size, made);
    if (sorts && dims.n[dim] > 0) {
        made[1] = EMIT(b, scatter_src, made[1], 0, order, made[1]);
    }
    results[0] = exg_arg_ref(EMIT(b, movedim_int, made[0], 0, (int)dim));
    results[1] = exg_arg_ref(made[1]);
    results[2] = exg_arg_ref(made[2]);
}

/* (self, dim, sorted, return_inverse, return_counts): all three are always given */
void exg_lower_unique_dim_size(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    uint32_t dim = exg_lower_dim(b, exg_get_int(&args[1]), exg_lower_dims(b, SELF).rank);
    exg_ref order;

    results[0] = count_of(b, begins(b, rows_along(b, SELF, dim, &order)));
}

void exg_lower_unique_dim_sized(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    uint32_t dim = exg_lower_dim(b, exg_get_int(&args[1]), exg_lower_dims(b, SELF).rank);

    unique_along(b, SELF, dim, true, args[5], results);
}

/* (self, dim, return_inverse, return_counts) */
void exg_lower_unique_dim_consecutive_size(exg_builder *b, const exg_argument *args,
                                           exg_argument *results)
{
    uint32_t dim = exg_lower_dim(b, exg_get_int(&args[1]), exg_lower_dims(b, SELF).rank);

    results[0] = count_of(b, begins(b, rows_along(b, SELF, dim, NULL)));
}

void exg_lower_unique_dim_consecutive_sized(exg_builder *b, const exg_argument *args,
                                            exg_argument *results)
{
    uint32_t dim = exg_lower_dim(b, exg_get_int(&args[1]), exg_lower_dims(b, SELF).rank);

    unique_along(b, SELF, dim, false, args[4], results);
}

/* (self, return_inverse, return_counts, dim) */
void exg_lower_unique_consecutive_size(exg_builder *b, const exg_argument *args,
                                       exg_argument *results)
{
    if (!exg_is_none(&args[3])) {
        const exg_argument along[] = {args[0], args[3]};

        exg_lower_unique_dim_consecutive_size(b, along, results);
        return;
    }
    results[0] = count_of(b, begins(b, exg_lower_flat(b, SELF)));
}

void exg_lower_unique_consecutive_sized(exg_builder *b, const exg_argument *args,
                                        exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    exg_ref flat;
    exg_ref made[3];

    if (!exg_is_none(&args[3])) {
        const exg_argument along[] = {args[0], args[3], args[1], args[2], args[4]};

        exg_lower_unique_dim_consecutive_sized(b, along, results);
        return;
    }
    flat = exg_lower_flat(b, SELF);
    runs(b, flat, begins(b, flat), args[4], made);
    results[0] = exg_arg_ref(made[0]);
    results[1] =
        exg_arg_ref(exg_get_bool(&args[1]) ? exg_lower_shaped(b, made[1], &in) : nothing(b));
    results[2] = exg_arg_ref(exg_get_bool(&args[2]) ? made[2] : nothing(b));
}

/* ---- bincount ------------------------------------------------------------------------------ */

void exg_lower_bincount_size(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    int64_t least = exg_get_int(&args[2]);
    exg_ref size = whole(b, least);

    if (exg_lower_dims(b, SELF).rank != 1 || !exg_dtype_is_integral(exg_lower_dtype(b, SELF)) ||
        least < 0 ||
        (exg_lower_given(&args[1]) &&
         (exg_lower_dims(b, exg_get_ref(&args[1])).rank != 1 ||
          exg_lower_numel(b, exg_get_ref(&args[1])) != exg_lower_numel(b, SELF)))) {
        exg_lower_refuse(b, "bincount of other than 1-d integers, weights beside each, no length "
                            "below 0");
        return;
    }
    if (exg_lower_numel(b, SELF) > 0) {
        size = EMIT(b, amax_default, exg_lower_cast(b, SELF, EXG_DTYPE_I64), INTS(b, 0));
        size = EMIT(b, clamp_min_default, EMIT(b, add_Scalar, size, 1), exg_arg_int(least));
    }
    results[0] = exg_arg_ref(size);
}

void exg_lower_bincount_sized(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref index = exg_lower_cast(b, SELF, EXG_DTYPE_I64);
    bool weighted = exg_lower_given(&args[1]);
    exg_dtype given = weighted ? exg_lower_dtype(b, exg_get_ref(&args[1])) : EXG_DTYPE_I64;
    exg_dtype dtype = !weighted || given == EXG_DTYPE_F32 ? given : EXG_DTYPE_F64;
    exg_ref zeros = EMIT(b, full_default, INTS(b, exg_get_int(&args[3])), 0, DTYPE(dtype));
    exg_ref ones = weighted
                       ? exg_lower_cast(b, exg_get_ref(&args[1]), dtype)
                       : EMIT(b, full_default, INTS(b, exg_lower_numel(b, SELF)), 1, DTYPE(dtype));

    results[0] = exg_arg_ref(EMIT(b, scatter_add_default, zeros, 0, index, ones));
}

/* ---- repeat_interleave ----------------------------------------------------------------------- */

static void total(exg_builder *b, exg_ref repeats, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, sum_default, exg_lower_cast(b, repeats, EXG_DTYPE_I64)));
}

/* i, repeats[i] times: how many of the sums so far are at or before each place. A negative
 * count points before the first place, which is a fault of the data. */
static exg_ref places_of(exg_builder *b, exg_ref repeats, int64_t size)
{
    exg_dtype dtype = exg_lower_dtype(b, repeats);
    exg_ref wide = exg_lower_cast(b, repeats, EXG_DTYPE_I64);
    exg_ref ends = EMIT(b, where_self, EMIT(b, lt_Scalar, wide, 0), whole(b, -1),
                        EMIT(b, cumsum_default, wide, 0));
    exg_ref marks = EMIT(b, full_default, INTS(b, size + 1), 0, DTYPE(EXG_DTYPE_I64));

    if (size < 0) {
        exg_lower_refuse(b, "a negative number of repeats");
        return EXG_NO_REF;
    }
    marks =
        EMIT(b, scatter_add_default, marks, 0, ends,
             EMIT(b, full_default, INTS(b, exg_lower_numel(b, repeats)), 1, DTYPE(EXG_DTYPE_I64)));
    marks = EMIT(b, cumsum_default, exg_lower_slice(b, marks, 0, 0, size), 0);
    return exg_lower_cast(b, marks, dtype);
}

void exg_lower_repeat_interleave_size(exg_builder *b, const exg_argument *args,
                                      exg_argument *results)
{
    if (exg_is_none(&args[1])) {
        total(b, SELF, results);
    }
}

void exg_lower_repeat_interleave_Tensor(exg_builder *b, const exg_argument *args,
                                        exg_argument *results)
{
    results[0] = exg_arg_ref(places_of(b, SELF, exg_get_int(&args[1])));
}

/* (self, repeats, dim, output_size): the dim that is meant, repeats as a vector of its size */
static exg_ref spread(exg_builder *b, const exg_argument *args, exg_ref *x, uint32_t *dim)
{
    exg_ref repeats = exg_lower_flat(b, exg_get_ref(&args[1]));
    int64_t length;

    *x = SELF;
    *dim = 0;
    if (exg_is_none(&args[2]) || exg_lower_dims(b, SELF).rank == 0) {
        *x = exg_lower_flat(b, SELF);
    } else {
        *dim = exg_lower_dim(b, exg_get_int(&args[2]), exg_lower_dims(b, SELF).rank);
    }
    length = exg_lower_dims(b, *x).n[*dim];
    return exg_lower_numel(b, repeats) == 1 ? EMIT(b, expand_default, repeats, INTS(b, length))
                                            : repeats;
}

void exg_lower_repeat_interleave_self_size(exg_builder *b, const exg_argument *args,
                                           exg_argument *results)
{
    exg_ref x;
    uint32_t dim;

    if (exg_is_none(&args[3])) {
        total(b, spread(b, args, &x, &dim), results);
    }
}

void exg_lower_repeat_interleave_self_Tensor(exg_builder *b, const exg_argument *args,
                                             exg_argument *results)
{
    exg_ref x;
    uint32_t dim;
    exg_ref repeats = spread(b, args, &x, &dim);
    exg_ref index = places_of(b, repeats, exg_get_int(&args[3]));

    results[0] = exg_arg_ref(EMIT(b, index_select_default, x, (int)dim, index));
}
