/* sorting.c - lowerings and shapes of sorting.def: what follows from sorting and comparing; scans
 * that keep the largest. */
#include "libexport/operators/lower.h"
#include "libexport/operators/shape.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define EXG_ROWS "libexport/operators/sorting.def"
#include "libexport/operators/rows.h"

#define SELF exg_get_ref(&args[0])

/* ---- sorted ---------------------------------------------------------------------------------- */

typedef struct sorted {
    exg_ref values, indices;
} sorted;

static sorted sort(exg_builder *b, exg_ref x, uint32_t dim, bool descending)
{
    exg_argument both[2] = {exg_arg_none(), exg_arg_none()};

    (void)EMIT_ALL(b, sort_stable, both, x, exg_arg_bool(true), (int)dim, descending);
    return (sorted){exg_get_ref(&both[0]), exg_get_ref(&both[1])};
}

/* (self, dim, descending) */
void exg_lower_argsort(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    uint32_t dim = exg_lower_dim(b, exg_get_int(&args[1]), exg_lower_dims(b, SELF).rank);

    results[0] = exg_arg_ref(sort(b, SELF, dim, exg_get_bool(&args[2])).indices);
}

/* (self, stable, dim, descending) */
void exg_lower_argsort_stable(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    uint32_t dim = exg_lower_dim(b, exg_get_int(&args[2]), exg_lower_dims(b, SELF).rank);

    results[0] = exg_arg_ref(sort(b, SELF, dim, exg_get_bool(&args[3])).indices);
}

void exg_lower_msort(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(sort(b, SELF, 0, false).values);
}

/* One place of every sorted row: (values, indices), with the dim or without. */
static void place_of(exg_builder *b, sorted s, uint32_t dim, exg_ref place, bool keepdim,
                     exg_argument *results)
{
    exg_ref picked[2] = {EMIT(b, gather_default, s.values, (int)dim, place),
                         EMIT(b, gather_default, s.indices, (int)dim, place)};

    for (int i = 0; i < 2; i++) {
        results[i] = exg_arg_ref(keepdim ? picked[i]
                                         : EMIT(b, squeeze_dims, picked[i], INTS(b, (int64_t)dim)));
    }
}

static exg_ref same_place(exg_builder *b, exg_ref x, uint32_t dim, int64_t place)
{
    exg_dims one = exg_lower_dims(b, x);

    one.n[dim] = 1;
    return EMIT(b, full_default, INTS_OF(b, one.n, one.rank), exg_arg_int(place),
                DTYPE(EXG_DTYPE_I64));
}

/* (self, k, dim, keepdim) */
void exg_lower_kthvalue(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    bool scalar = in.rank == 0;
    exg_ref x = scalar ? EMIT(b, view_default, SELF, INTS(b, 1)) : SELF;
    uint32_t dim = exg_lower_dim(b, exg_get_int(&args[2]), in.rank);
    int64_t k = exg_get_int(&args[1]);

    if (k < 1 || k > (scalar ? 1 : in.n[dim])) {
        exg_lower_refuse(b, "kthvalue: no such place");
        return;
    }
    place_of(b, sort(b, x, dim, false), dim, same_place(b, x, dim, k - 1),
             exg_get_bool(&args[3]) && !scalar, results);
}

/* The lower one of two in the middle. NaN is sorted last: where there is one, it is the
 * median, or (`skips`) those are not counted. */
static void median(exg_builder *b, exg_ref x, uint32_t dim, bool keepdim, bool skips,
                   exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, x);
    int64_t middle = (in.n[dim] - 1) / 2;
    exg_ref place = same_place(b, x, dim, middle);

    if (in.n[dim] == 0) {
        exg_lower_refuse(b, "the median of nothing");
        return;
    }
    if (exg_dtype_is_float(exg_lower_dtype(b, x))) {
        exg_ref missing = EMIT(b, sum_dim_IntList, EMIT(b, isnan_default, x), INTS(b, (int64_t)dim),
                               exg_arg_bool(true));
        exg_ref there = EMIT(b, rsub_Scalar, missing, exg_arg_int(in.n[dim]));

        place = skips ? EMIT(b, clamp_min_default,
                             EMIT(b, div_floor_Scalar, EMIT(b, sub_Scalar, there, 1), 2), 0)
                      : EMIT(b, where_self, EMIT(b, gt_Scalar, missing, 0), there, place);
        place = exg_lower_cast(b, place, EXG_DTYPE_I64);
    }
    place_of(b, sort(b, x, dim, false), dim, place, keepdim, results);
}

static void median_dim(exg_builder *b, const exg_argument *args, bool skips, exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    bool scalar = in.rank == 0;
    exg_ref x = scalar ? EMIT(b, view_default, SELF, INTS(b, 1)) : SELF;

    median(b, x, exg_lower_dim(b, exg_get_int(&args[1]), in.rank),
           exg_get_bool(&args[2]) && !scalar, skips, results);
}

void exg_lower_median_dim(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    median_dim(b, args, false, results);
}

void exg_lower_nanmedian_dim(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    median_dim(b, args, true, results);
}

static void median_all(exg_builder *b, const exg_argument *args, bool skips, exg_argument *results)
{
    exg_argument both[2] = {exg_arg_none(), exg_arg_none()};

    median(b, exg_lower_flat(b, SELF), 0, false, skips, both);
    results[0] = both[0];
}

void exg_lower_median(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    median_all(b, args, false, results);
}

void exg_lower_nanmedian(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    median_all(b, args, true, results);
}

/* ---- searched -------------------------------------------------------------------------------- */

/* (edges, self, right, dtype): one line of edges for all, or a line of them for every line. */
exg_status exg_shape_searchsorted(exg_shape_call *call, exg_error *err)
{
    exg_dtype dtype = exg_dtype_argument(&call->args[3], EXG_DTYPE_I64);
    exg_dims edges;
    exg_dims out;

    EXG_TRY(exg_dims_of(exg_shape_input(call, 0), &edges, err));
    EXG_TRY(exg_dims_of(exg_shape_input(call, 1), &out, err));
    if (edges.rank == 0 || (edges.rank > 1 && edges.rank != out.rank)) {
        return EXG_SHAPE_FAIL(err, "edges of rank %u for values of rank %u", edges.rank, out.rank);
    }
    for (uint32_t d = 0; d + 1 < edges.rank; d++) {
        if (edges.n[d] != out.n[d]) {
            return EXG_SHAPE_FAIL(err, "%" PRId64 " lines of edges for %" PRId64 " of values",
                                  edges.n[d], out.n[d]);
        }
    }
    if (dtype == EXG_DTYPE_I32 && EXG_END(edges, 1) >= INT32_MAX) {
        return EXG_SHAPE_FAIL(err, "%" PRId64 " edges counted in int32", EXG_END(edges, 1));
    }
    return exg_shape_result(call, 0, dtype, &out, err);
}

/* Edges and values are compared in this dtype: what both promote to, as it is loaded. */
static exg_dtype compared_in(exg_builder *b, exg_operator_id compares, const exg_argument *args)
{
    const exg_operator *op = exg_operators_get(exg_builder_operators(b), compares);
    exg_dtype compute;
    exg_dtype result;

    exg_pointwise_dtypes(op, args, exg_builder_graph(b), &compute, &result);
    if (exg_dtype_is_float(compute)) {
        return exg_dtype_bytes(compute) < 4 ? EXG_DTYPE_F32 : compute;
    }
    return exg_dtype_is_integral(compute) && exg_dtype_bytes(compute) < 4 ? EXG_DTYPE_I32 : compute;
}

/* How many of `edges` are before each value of args[1], which is a tensor or a number. */
static exg_ref placed(exg_builder *b, exg_ref edges, const exg_argument *value, bool right,
                      bool narrow)
{
    const exg_argument both[] = {exg_arg_ref(edges), *value};
    bool is_tensor = value->kind == EXG_ARGUMENT_TENSOR;
    exg_dtype dtype = compared_in(b, is_tensor ? EXG_OP_lt_Tensor : EXG_OP_lt_Scalar, both);
    exg_dtype own = value->kind == EXG_ARGUMENT_INT && exg_lower_dtype(b, edges) != EXG_DTYPE_B8
                        ? exg_lower_dtype(b, edges)
                        : dtype;
    exg_ref x = is_tensor ? exg_get_ref(value) : exg_lower_wrapped(b, value, own);

    x = exg_lower_cast(b, x, dtype);
    return EMIT(b, searchsorted, exg_lower_cast(b, edges, dtype), x, exg_arg_bool(right),
                DTYPE(narrow ? EXG_DTYPE_I32 : EXG_DTYPE_I64));
}

/* (sorted_sequence, self, out_int32, right, side?, sorter?) */
void exg_lower_searchsorted(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    const char *side = args[4].kind == EXG_ARGUMENT_STRING ? args[4].as_string : NULL;
    bool right = exg_get_bool(&args[3]) || (side != NULL && strcmp(side, "right") == 0);
    exg_ref edges = SELF;

    if (side != NULL && strcmp(side, right ? "right" : "left") != 0) {
        exg_lower_refuse(b, "searchsorted on two sides");
        return;
    }
    if (exg_lower_given(&args[5])) {
        edges = EMIT(b, gather_default, edges, -1, args[5]);
    }
    results[0] = exg_arg_ref(placed(b, edges, &args[1], right, exg_get_bool(&args[2])));
}

void exg_lower_searchsorted_scalar(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_lower_searchsorted(b, args, results);
}

/* (self, boundaries, out_int32, right) */
void exg_lower_bucketize(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref edges = exg_get_ref(&args[1]);

    if (exg_lower_dims(b, edges).rank != 1) {
        exg_lower_refuse(b, "boundaries that are no vector");
        return;
    }
    results[0] =
        exg_arg_ref(placed(b, edges, &args[0], exg_get_bool(&args[3]), exg_get_bool(&args[2])));
}

void exg_lower_bucketize_scalar(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_lower_bucketize(b, args, results);
}

#define PAIRS_MAX 16 /* tests up to which every pair is compared */

/* Which of x are among the tests, a line. */
static exg_ref among_few(exg_builder *b, exg_ref x, exg_ref tests)
{
    return EMIT(b, any_dims, EMIT(b, eq_Tensor, EMIT(b, unsqueeze_default, x, -1), tests),
                INTS(b, -1));
}

/* The same where there are many: what stands in a value's place among the sorted tests. Those
 * that are NaN come last and equal nothing; they are searched as the infinity before them. */
static exg_ref among_many(exg_builder *b, exg_ref x, exg_ref tests, const exg_argument *args)
{
    exg_dtype dtype = compared_in(b, EXG_OP_eq_Tensor, args);
    exg_ref line = sort(b, exg_lower_cast(b, tests, dtype), 0, false).values;
    int64_t last = exg_lower_dims(b, line).n[0] - 1;
    exg_ref edges = line;
    exg_ref place;

    if (exg_dtype_is_float(dtype)) {
        edges = EMIT(b, where_self, EMIT(b, isnan_default, line),
                     exg_lower_number(b, INFINITY, dtype), line);
    }
    x = exg_lower_cast(b, x, dtype);
    place = EMIT(b, searchsorted, edges, x, exg_arg_bool(false), DTYPE(EXG_DTYPE_I64));
    place = EMIT(b, clamp_default, place, exg_arg_none(), (int)last);
    return EMIT(b, eq_Tensor, EMIT(b, index_select_default, line, 0, exg_lower_flat(b, place)),
                exg_lower_flat(b, x));
}

/* (elements, test_elements, assume_unique, invert) */
void exg_lower_isin(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref tests = exg_lower_flat(b, exg_get_ref(&args[1]));
    exg_dims x = exg_lower_dims(b, SELF);
    bool are_few = exg_lower_dims(b, tests).n[0] <= PAIRS_MAX ||
                   exg_dtype_is_complex(exg_ref_meta(b, SELF)->dtype) ||
                   exg_dtype_is_complex(exg_ref_meta(b, tests)->dtype);
    exg_ref found = are_few ? among_few(b, SELF, tests)
                            : EMIT(b, reshape_default, among_many(b, SELF, tests, args),
                                   INTS_OF(b, x.n, x.rank));

    results[0] = exg_arg_ref(exg_get_bool(&args[3]) ? EMIT(b, logical_not_default, found) : found);
}

/* (elements, test_element, assume_unique, invert) */
void exg_lower_isin_scalar(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(exg_get_bool(&args[3]) ? EMIT(b, ne_Scalar, SELF, args[1])
                                                    : EMIT(b, eq_Scalar, SELF, args[1]));
}

/* (element, test_elements, assume_unique, invert) */
void exg_lower_scalar_isin(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref found = EMIT(b, any_default, EMIT(b, eq_Scalar, exg_get_ref(&args[1]), args[0]));

    results[0] = exg_arg_ref(exg_get_bool(&args[3]) ? EMIT(b, logical_not_default, found) : found);
}

/* ---- scans ------------------------------------------------------------------------------ */

/* Every element with all before it, in log2(n) steps of twice the reach. */
void exg_lower_logcumsumexp(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x = exg_lower_wide(b, SELF);
    exg_dims in = exg_lower_dims(b, x);
    uint32_t dim = exg_lower_dim(b, exg_get_int(&args[1]), in.rank);
    int64_t size = in.rank == 0 ? 1 : in.n[dim];

    for (int64_t reach = 1; reach < size; reach *= 2) {
        exg_ref earlier = exg_lower_slice(b, x, dim, 0, size - reach);
        exg_ref later = exg_lower_slice(b, x, dim, reach, size - reach);
        exg_ref parts[2] = {exg_lower_slice(b, x, dim, 0, reach),
                            EMIT(b, logaddexp_default, earlier, later)};

        x = EMIT(b, cat_default, exg_arg_refs(b, parts, 2), (int)dim);
    }
    x = exg_lower_cast(b, x, exg_lower_dtype(b, SELF));
    results[0] = exg_arg_ref(x.id == SELF.id ? EMIT(b, clone_default, x) : x);
}

/* (self, dim): values, places */
exg_status exg_shape_cummax(exg_shape_call *call, exg_error *err)
{
    exg_dims out;
    uint32_t dim;

    EXG_TRY(exg_dims_of(exg_shape_input(call, 0), &out, err));
    EXG_TRY(exg_wrap_dim(exg_get_int(&call->args[1]), out.rank, &dim, err));
    EXG_TRY(exg_shape_result(call, 0, exg_shape_input(call, 0)->dtype, &out, err));
    return exg_shape_result(call, 1, EXG_DTYPE_I64, &out, err);
}
