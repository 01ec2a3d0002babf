/* selection.c - lowerings of selection.def: elements at computed places, and grids of numbers. */
#include "libexport/decompositions/complex.h"
#include "libexport/operators/lower.h"

#include <math.h>
#include <string.h>

#define EXG_ROWS "libexport/operators/data_dependent.def"
#include "libexport/operators/rows.h"
#define EXG_ROWS "libexport/operators/selection.def"
#include "libexport/operators/rows.h"

#define SELF exg_get_ref(&args[0])

/* ---- diagonals ---------------------------------------------------------------------------- */

static exg_ref embedded(exg_builder *b, exg_ref x, int64_t offset, int64_t dim1, int64_t dim2)
{
    exg_dims in = exg_lower_dims(b, x);
    exg_dims out = {.rank = in.rank + 1};
    uint32_t first = exg_lower_dim(b, dim1, out.rank);
    uint32_t second = exg_lower_dim(b, dim2, out.rank);
    uint32_t next = 0;
    int64_t size;
    exg_ref zeros;

    if (in.rank == 0 || first == second) {
        exg_lower_refuse(b, "diag_embed of a 0-d tensor or along one dim");
        return x;
    }
    size = EXG_END(in, 1) + (offset < 0 ? -offset : offset);
    for (uint32_t d = 0; d < out.rank; d++) {
        out.n[d] = d == first || d == second ? size : in.n[next++];
    }
    zeros = EMIT(b, full_default, INTS_OF(b, out.n, out.rank), 0, DTYPE(exg_lower_dtype(b, x)));
    return EMIT(b, diagonal_scatter_default, zeros, x, exg_arg_int(offset), (int)first,
                (int)second);
}

void exg_lower_diag_embed(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(
        embedded(b, SELF, exg_get_int(&args[1]), exg_get_int(&args[2]), exg_get_int(&args[3])));
}

void exg_lower_diag(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] =
        exg_arg_ref(exg_lower_dims(b, SELF).rank == 1
                        ? embedded(b, SELF, exg_get_int(&args[1]), 0, 1)
                        : EMIT(b, clone_default, EMIT(b, diagonal_default, SELF, args[1], 0, 1)));
}

void exg_lower_diagflat(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(embedded(b, exg_lower_flat(b, SELF), exg_get_int(&args[1]), 0, 1));
}

void exg_lower_linalg_diagonal(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, diagonal_default, SELF, args[1], args[2], args[3]));
}

void exg_lower_trace(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, sum_default, EMIT(b, diagonal_default, SELF)));
}

/* ---- grids ----------------------------------------------------------------------------------- */

static exg_ref eye(exg_builder *b, int64_t rows, int64_t columns, const exg_argument *dtype)
{
    exg_ref same = EMIT(b, eq_Tensor, exg_lower_steps(b, rows, EXG_DTYPE_I64, 0, 2),
                        exg_lower_steps(b, columns, EXG_DTYPE_I64, 1, 2));

    return EMIT(b, _to_copy_default, same, DTYPE(exg_dtype_argument(dtype, EXG_DTYPE_F32)));
}

void exg_lower_eye(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(eye(b, exg_get_int(&args[0]), exg_get_int(&args[0]), &args[1]));
}

void exg_lower_eye_m(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(eye(b, exg_get_int(&args[0]), exg_get_int(&args[1]), &args[2]));
}

/* An end, a tensor of one number or a number, as `dtype` has it. */
static exg_ref end_of(exg_builder *b, const exg_argument *end, exg_dtype dtype)
{
    return exg_lower_given(end) ? exg_lower_cast(b, exg_get_ref(end), dtype)
                                : EMIT(b, scalar_tensor_default, *end, DTYPE(dtype));
}

/* From both ends (start, end, steps) to the middle, each step of it rounded, as torch does;
 * integers by way of float64. */
static exg_ref line(exg_builder *b, const exg_argument *args, exg_dtype dtype)
{
    exg_dtype real = exg_real_of(dtype);
    exg_dtype compute = exg_dtype_is_integral(dtype) ? EXG_DTYPE_F64 : real;
    int64_t steps = exg_get_int(&args[2]);
    exg_ref start = exg_lower_cast(b, end_of(b, &args[0], real), compute);
    exg_ref end = exg_lower_cast(b, end_of(b, &args[1], real), compute);
    exg_ref i = exg_lower_steps(b, steps, EXG_DTYPE_I64, 0, 1);
    exg_ref left = exg_lower_cast(b, EMIT(b, rsub_Scalar, i, exg_arg_int(steps - 1)), compute);
    exg_ref step = exg_lower_number(b, steps > 1 ? (double)(steps - 1) : 1, compute);
    exg_ref up;
    exg_ref down;

    step = EMIT(b, div_Tensor, EMIT(b, sub_Tensor, end, start), step);
    up = EMIT(b, add_Tensor, EMIT(b, mul_Tensor, exg_lower_cast(b, i, compute), step), start);
    down = EMIT(b, sub_Tensor, end, EMIT(b, mul_Tensor, left, step));
    return steps == 1
               ? up
               : EMIT(b, where_self, EMIT(b, lt_Scalar, i, exg_arg_int(steps / 2)), up, down);
}

void exg_lower_linspace(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dtype dtype = exg_dtype_argument(&args[3], EXG_DTYPE_F32);

    results[0] = exg_arg_ref(exg_lower_cast(b, line(b, args, dtype), dtype));
}

/* (start, end, steps, base) */
void exg_lower_logspace(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dtype dtype = exg_dtype_argument(&args[4], EXG_DTYPE_F32);
    exg_ref x = EMIT(b, pow_Scalar, exg_arg_float(exg_get_float(&args[3])), line(b, args, dtype));

    results[0] = exg_arg_ref(exg_lower_cast(b, x, dtype));
}

void exg_lower_linspace_tensors(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_lower_linspace(b, args, results);
}

void exg_lower_logspace_tensors(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_lower_logspace(b, args, results);
}

/* ---- windows --------------------------------------------------------------------------------- */

#define PI 0x1.921fb54442d18p+1

/* A window at the places `i` of 0 ... last. */
typedef exg_ref window_at(exg_builder *b, exg_ref i, int64_t last, double alpha, double beta);

/* alpha - beta cos(2 pi i / last) */
static exg_ref cosine_window(exg_builder *b, exg_ref i, int64_t last, double alpha, double beta)
{
    exg_ref wave = EMIT(b, cos_default, EMIT(b, mul_Scalar, i, PI * 2 / (double)last));

    return EMIT(b, add_Scalar, EMIT(b, mul_Scalar, wave, -beta), alpha);
}

/* 0.42 - 0.5 cos(2 pi i / last) + 0.08 cos(4 pi i / last) */
static exg_ref blackman_window(exg_builder *b, exg_ref i, int64_t last, double alpha, double beta)
{
    exg_ref x = EMIT(b, mul_Scalar, i, PI / (double)last);
    exg_ref slow = EMIT(b, cos_default, EMIT(b, mul_Scalar, x, 2.0));
    exg_ref fast = EMIT(b, cos_default, EMIT(b, mul_Scalar, x, 4.0));

    (void)alpha;
    (void)beta;
    slow = EMIT(b, mul_Scalar, slow, 0.5);
    fast = EMIT(b, mul_Scalar, fast, 0.08);
    return EMIT(b, add_Scalar, EMIT(b, sub_Tensor, fast, slow), 0.42);
}

/* Up in a line to the middle, and down. */
static exg_ref bartlett_window(exg_builder *b, exg_ref i, int64_t last, double alpha, double beta)
{
    exg_ref up = EMIT(b, mul_Scalar, i, 2.0 / (double)last);
    exg_ref down = EMIT(b, add_Scalar, EMIT(b, mul_Scalar, up, -1.0), 2.0);

    (void)alpha;
    (void)beta;
    return EMIT(b, where_self, EMIT(b, lt_Scalar, i, exg_arg_int(last / 2 + 1)), up, down);
}

/* I0(beta sqrt(1 - r^2)) / I0(beta), r from -1 to 1 */
static exg_ref kaiser_window(exg_builder *b, exg_ref i, int64_t last, double beta, double unused)
{
    double half = (double)last / 2;
    exg_ref r = EMIT(b, div_Scalar, EMIT(b, sub_Scalar, i, half), half);
    exg_ref most = EMIT(b, full_default, INTS(b, 1), beta, DTYPE(exg_lower_dtype(b, i)));

    (void)unused;
    r = EMIT(b, sqrt_default, EMIT(b, rsub_Scalar, EMIT(b, mul_Tensor, r, r), 1.));
    return EMIT(b, div_Tensor, EMIT(b, i0_default, EMIT(b, mul_Scalar, r, beta)),
                EMIT(b, i0_default, most));
}

/* A periodic window is one longer, less its last element. */
static void window(exg_builder *b, window_at *at, const exg_argument *length, bool periodic,
                   const exg_argument *dtype_given, double alpha, double beta,
                   exg_argument *results)
{
    int64_t count = exg_get_int(length);
    exg_dtype dtype = exg_dtype_argument(dtype_given, EXG_DTYPE_F32);

    if (count < 0 || !exg_dtype_is_float(dtype)) {
        exg_lower_refuse(b, "a window of less than no elements, or not of floats");
    } else if (count <= 1) {
        results[0] = exg_arg_ref(EMIT(b, full_default, INTS(b, count), 1.0, DTYPE(dtype)));
    } else {
        results[0] = exg_arg_ref(at(b, exg_lower_steps(b, count, dtype, 0, 1),
                                    periodic ? count : count - 1, alpha, beta));
    }
}

/* (length, dtype) and (length, periodic, dtype) */
#define WINDOW(name, at, alpha, beta)                                                              \
    void exg_lower_##name(exg_builder *b, const exg_argument *args, exg_argument *results)         \
    {                                                                                              \
        window(b, at, &args[0], true, &args[1], alpha, beta, results);                             \
    }                                                                                              \
    void exg_lower_##name##_periodic(exg_builder *b, const exg_argument *args,                     \
                                     exg_argument *results)                                        \
    {                                                                                              \
        window(b, at, &args[0], exg_get_bool(&args[1]), &args[2], alpha, beta, results);           \
    }

WINDOW(hann_window, cosine_window, 0.5, 0.5)
WINDOW(hamming_window, cosine_window, 0.54, 0.46)
WINDOW(blackman_window, blackman_window, 0, 0)
WINDOW(bartlett_window, bartlett_window, 0, 0)
WINDOW(kaiser_window, kaiser_window, 12, 0)

/* (length, periodic, alpha, dtype) */
void exg_lower_hamming_window_alpha(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    window(b, cosine_window, &args[0], exg_get_bool(&args[1]), &args[3], exg_get_float(&args[2]),
           0.46, results);
}

/* (length, periodic, alpha, beta, dtype) */
void exg_lower_hamming_window_alpha_beta(exg_builder *b, const exg_argument *args,
                                         exg_argument *results)
{
    window(b, cosine_window, &args[0], exg_get_bool(&args[1]), &args[4], exg_get_float(&args[2]),
           exg_get_float(&args[3]), results);
}

/* (length, periodic, beta, dtype) */
void exg_lower_kaiser_window_beta(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    window(b, kaiser_window, &args[0], exg_get_bool(&args[1]), &args[3], exg_get_float(&args[2]), 0,
           results);
}

/* ---- triangles ------------------------------------------------------------------------------- */

/* Rows and columns of a triangle, row by row. (row, col, offset, dtype) */
static void triangle(exg_builder *b, const exg_argument *args, bool lower, exg_argument *results)
{
    int64_t rows = exg_get_int(&args[0]);
    int64_t columns = exg_get_int(&args[1]);
    int64_t offset = exg_get_int(&args[2]);
    exg_dtype dtype = exg_dtype_argument(&args[3], EXG_DTYPE_I64);
    exg_ref *parts;
    uint32_t count = 0;

    if (rows > 4096) {
        exg_lower_unsupported(b, "indices of a triangle of more than 4096 rows");
        return;
    }
    parts = exg_lower_new_refs(b, rows < 0 ? 1 : rows + 1);
    for (int64_t r = 0; parts != NULL && r < rows; r++) {
        int64_t edge = r + offset + (lower ? 1 : 0); /* columns before it are lower */
        int64_t from;
        int64_t to;
        exg_ref column;

        edge = edge < 0 ? 0 : edge > columns ? columns : edge;
        from = lower ? 0 : edge;
        to = lower ? edge : columns;
        if (to <= from) {
            continue;
        }
        column = EMIT(b, arange_start_step, exg_arg_int(from), exg_arg_int(to), 1, DTYPE(dtype));
        column = EMIT(b, unsqueeze_default, column, 0);
        parts[count++] =
            EMIT(b, cat_default,
                 exg_arg_refs(
                     b, (exg_ref[]){EMIT(b, full_like_default, column, exg_arg_int(r)), column}, 2),
                 0);
    }
    results[0] = exg_arg_ref(count == 0 || parts == NULL
                                 ? EMIT(b, full_default, INTS(b, 2, 0), 0, DTYPE(dtype))
                                 : EMIT(b, cat_default, exg_arg_refs(b, parts, count), 1));
}

void exg_lower_tril_indices(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    triangle(b, args, true, results);
}

void exg_lower_triu_indices(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    triangle(b, args, false, results);
}

/* ---- by index --------------------------------------------------------------------------- */

/* (self, num_classes): -1 is one more than the greatest */
void exg_lower_one_hot_size(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    if (exg_get_int(&args[1]) == -1 && exg_lower_numel(b, SELF) > 0) {
        results[0] = exg_arg_ref(EMIT(b, add_Scalar, EMIT(b, max_default, SELF), 1));
    }
}

void exg_lower_one_hot(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    int64_t count = exg_get_int(&args[1]);
    exg_dims dims = exg_lower_dims(b, SELF);
    exg_ref index = EMIT(b, unsqueeze_default, SELF, -1);

    if (count < 1 || dims.rank == EXG_SHAPE_RANK_MAX) {
        exg_lower_refuse(b, "one_hot of no class");
        return;
    }
    dims.n[dims.rank++] = count;
    results[0] = exg_arg_ref(
        EMIT(b, scatter_value,
             EMIT(b, full_default, INTS_OF(b, dims.n, dims.rank), 0, DTYPE(EXG_DTYPE_I64)), -1,
             index, 1));
}

void exg_lower_take(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref index = exg_get_ref(&args[1]);
    exg_dims out = exg_lower_dims(b, index);
    exg_ref at = exg_lower_from_start(b, exg_lower_flat(b, index), exg_lower_numel(b, SELF));
    exg_ref taken = EMIT(b, index_select_default, exg_lower_flat(b, SELF), 0, at);

    results[0] = exg_arg_ref(exg_lower_shaped(b, taken, &out));
}

/* x with the sizes of `common`, but its own along `dim`. */
static exg_ref spread(exg_builder *b, exg_ref x, const exg_dims *common, uint32_t dim)
{
    exg_dims wide = *common;

    wide.n[dim] = exg_lower_dims(b, x).n[dim];
    return EMIT(b, expand_default, x, INTS_OF(b, wide.n, wide.rank));
}

void exg_lower_take_along_dim(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    bool whole = exg_is_none(&args[2]);
    exg_ref x = whole ? exg_lower_flat(b, SELF) : SELF;
    exg_ref index = whole ? exg_lower_flat(b, exg_get_ref(&args[1])) : exg_get_ref(&args[1]);
    exg_dims in = exg_lower_dims(b, x);
    exg_dims by = exg_lower_dims(b, index);
    uint32_t dim = whole ? 0 : exg_lower_dim(b, exg_get_int(&args[2]), in.rank);
    int64_t size = in.n[dim];
    exg_dims common;

    if (in.rank != by.rank || in.rank == 0) {
        exg_lower_refuse(b, "take_along_dim with indices of another rank");
        return;
    }
    in.n[dim] = by.n[dim] = 1;
    if (exg_broadcast(&in, &by, &common, NULL) != EXG_OK) {
        exg_lower_refuse(b, "take_along_dim with shapes that do not broadcast");
        return;
    }
    index = exg_lower_from_start(b, spread(b, index, &common, dim), size);
    results[0] = exg_arg_ref(EMIT(b, gather_default, spread(b, x, &common, dim), (int)dim, index));
}

/* An index along `dim`, as large as `like` elsewhere. */
static exg_ref index_like(exg_builder *b, exg_ref index, const exg_dims *like, uint32_t dim)
{
    return EMIT(b, expand_default, exg_lower_along(b, index, dim, like->rank),
                INTS_OF(b, like->n, like->rank));
}

/* (self, dim, index, source, alpha) */
void exg_lower_index_add(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref source = exg_get_ref(&args[3]);
    exg_dims in = exg_lower_dims(b, SELF);
    uint32_t dim = exg_lower_dim(b, exg_get_int(&args[1]), in.rank);
    exg_ref x = SELF;
    exg_dims like;

    if (in.rank == 0) {
        x = EMIT(b, view_default, x, INTS(b, 1));
        source = exg_lower_flat(b, source);
    }
    like = exg_lower_dims(b, source);
    if (exg_lower_dtype(b, x) == EXG_DTYPE_B8) {
        source = EMIT(b, mul_Scalar, source, exg_arg_bool(exg_get_float(&args[4]) != 0));
    } else if (!(args[4].kind == EXG_ARGUMENT_INT && args[4].as_int == 1)) {
        source = EMIT(b, mul_Scalar, source, args[4]);
    }
    x = EMIT(b, scatter_add_default, x, (int)dim,
             index_like(b, exg_lower_from_start(b, exg_get_ref(&args[2]), in.n[dim]), &like, dim),
             source);
    results[0] = exg_arg_ref(in.rank == 0 ? EMIT(b, squeeze_dims, x, INTS(b, 0)) : x);
}

/* (self, dim, index, value) */
static void index_fill(exg_builder *b, const exg_argument *args, exg_ref value,
                       exg_argument *results)
{
    exg_dims like = exg_lower_dims(b, SELF);
    exg_ref index = exg_get_ref(&args[2]);
    uint32_t dim = exg_lower_dim(b, exg_get_int(&args[1]), like.rank);
    exg_ref at =
        exg_lower_from_start(b, exg_lower_flat(b, index), like.rank == 0 ? 1 : like.n[dim]);
    bool scalar = like.rank == 0;
    exg_ref x = scalar ? EMIT(b, view_default, SELF, INTS(b, 1)) : SELF;

    like.rank += scalar;
    like.n[dim] = exg_lower_numel(b, index);
    value = exg_lower_cast(b, value, exg_lower_dtype(b, SELF));
    x = EMIT(b, index_copy_default, x, (int)dim, at,
             EMIT(b, expand_default, value, INTS_OF(b, like.n, like.rank)));
    results[0] = exg_arg_ref(scalar ? EMIT(b, squeeze_dims, x, INTS(b, 0)) : x);
}

void exg_lower_index_fill_scalar(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref value = EMIT(b, scalar_tensor_default, args[3], DTYPE(exg_lower_dtype(b, SELF)));

    index_fill(b, args, value, results);
}

void exg_lower_index_fill_tensor(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    index_fill(b, args, exg_get_ref(&args[3]), results);
}

void exg_lower_masked_fill_tensor(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref value = exg_lower_cast(b, exg_get_ref(&args[2]), exg_lower_dtype(b, SELF));

    results[0] = exg_arg_ref(EMIT(b, where_self, args[1], value, SELF));
}

/* ---- windows ---------------------------------------------------------------------------- */

/* x along `dim` at i * step + k * spacing: that dim becomes `count` times `size`. */
static exg_ref windows(exg_builder *b, exg_ref x, uint32_t dim, int64_t count, int64_t step,
                       int64_t size, int64_t spacing)
{
    exg_dims in = exg_lower_dims(b, x);
    exg_dims out = {.rank = in.rank + 1};
    exg_ref begin =
        EMIT(b, mul_Scalar, exg_lower_steps(b, count, EXG_DTYPE_I64, 0, 2), exg_arg_int(step));
    exg_ref inside =
        EMIT(b, mul_Scalar, exg_lower_steps(b, size, EXG_DTYPE_I64, 1, 2), exg_arg_int(spacing));
    exg_ref index = exg_lower_flat(b, EMIT(b, add_Tensor, begin, inside));

    if (in.rank + 1 > EXG_SHAPE_RANK_MAX || dim >= in.rank) {
        exg_lower_refuse(b, "too many dims, or none");
        return x;
    }
    memcpy(out.n, in.n, dim * sizeof(int64_t));
    out.n[dim] = count;
    out.n[dim + 1] = size;
    memcpy(&out.n[dim + 2], &in.n[dim + 1], (in.rank - dim - 1) * sizeof(int64_t));
    return exg_lower_shaped(b, EMIT(b, index_select_default, x, (int)dim, index), &out);
}

/* (self, kernel_size, dilation, padding, stride) -> (N, C * kh * kw, L) */
void exg_lower_im2col(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    int64_t n[4][2] = {{0}};
    int64_t count[2];
    exg_ref x = in.rank == 3 ? EMIT(b, unsqueeze_default, SELF, 0) : SELF;
    exg_dims wide;
    bool sound = true;

    for (uint32_t k = 0; k < 4; k++) {
        if (exg_get_ints(&args[1 + k], n[k], 2) == 1) {
            n[k][1] = n[k][0];
        }
        sound = sound && n[k][0] >= (k != 2) && n[k][1] >= (k != 2);
    }
    if ((in.rank != 3 && in.rank != 4) || !sound) {
        exg_lower_refuse(b, "im2col of a tensor that is no image");
        return;
    }
    x = EMIT(b, constant_pad_nd_default, x, INTS(b, n[2][1], n[2][1], n[2][0], n[2][0]), 0);
    wide = exg_lower_dims(b, x);
    if (wide.rank != 4) {
        return; /* the padding was refused */
    }
    for (uint32_t k = 0; k < 2; k++) {
        int64_t span = n[1][k] * (n[0][k] - 1) + 1;

        if (span > wide.n[2 + k]) {
            exg_lower_refuse(b, "im2col: a kernel larger than the padded image");
            return;
        }
        count[k] = (wide.n[2 + k] - span) / n[3][k] + 1;
    }
    x = windows(b, x, 3, count[1], n[3][1], n[0][1], n[1][1]);
    x = windows(b, x, 2, count[0], n[3][0], n[0][0], n[1][0]); /* N C oh kh ow kw */
    x = EMIT(b, permute_default, x, INTS(b, 0, 1, 3, 5, 2, 4));
    x = EMIT(b, reshape_default, x,
             INTS(b, wide.n[0], wide.n[1] * n[0][0] * n[0][1], count[0] * count[1]));
    results[0] = exg_arg_ref(in.rank == 3 ? EMIT(b, squeeze_dims, x, INTS(b, 0)) : x);
}

/* The dims that broadcasting to the size made are summed away. */
void exg_lower_sum_to_size(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    int64_t size[EXG_SHAPE_RANK_MAX];
    int64_t dims[EXG_SHAPE_RANK_MAX];
    uint32_t rank = exg_get_ints(&args[1], size, EXG_SHAPE_RANK_MAX);
    uint32_t lead = in.rank >= rank ? in.rank - rank : 0;
    uint32_t count = 0;
    exg_ref x = SELF;

    if (rank > in.rank) {
        exg_lower_refuse(b, "sum_to_size of more dims than the tensor has");
        return;
    }
    for (uint32_t d = 0; d < in.rank; d++) {
        if (d < lead || (size[d - lead] == 1 && in.n[d] != 1)) {
            dims[count++] = d;
        }
    }
    x = count > 0 ? EMIT(b, sum_dim_IntList, x, INTS_OF(b, dims, count), exg_arg_bool(true)) : x;
    if (exg_lower_dtype(b, x) == EXG_DTYPE_B8 || /* a sum of one counts too */
        (rank == 0 && exg_dtype_is_integral(exg_lower_dtype(b, x)))) {
        x = exg_lower_cast(b, x, EXG_DTYPE_I64);
    }
    results[0] = exg_arg_ref(EMIT(b, view_default, x, INTS_OF(b, size, rank)));
}

/* ---- halves and channels ---------------------------------------------------------------- */

void exg_lower_glu(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    uint32_t dim = exg_lower_dim(b, exg_get_int(&args[1]), in.rank);
    int64_t half = in.rank == 0 ? 0 : in.n[dim] / 2;

    if (in.rank == 0 || in.n[dim] % 2 != 0) {
        exg_lower_refuse(b, "glu halves a dim of even size");
        return;
    }
    results[0] =
        exg_arg_ref(EMIT(b, mul_Tensor, exg_lower_slice(b, SELF, dim, 0, half),
                         EMIT(b, sigmoid_default, exg_lower_slice(b, SELF, dim, half, half))));
}

void exg_lower_prelu(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref weight = exg_get_ref(&args[1]);
    exg_dims in = exg_lower_dims(b, SELF);
    int64_t count = exg_lower_numel(b, weight);
    exg_dims shape = {.rank = in.rank};

    for (uint32_t d = 0; d < in.rank; d++) {
        shape.n[d] = d == 1 || (in.rank == 1 && count > 1) ? count : 1;
    }
    if (in.rank > 1 && count != 1 && count != in.n[1]) {
        exg_lower_refuse(b, "prelu has one weight, or one a channel");
        return;
    }
    results[0] =
        exg_arg_ref(EMIT(b, _prelu_kernel_default, SELF, exg_lower_shaped(b, weight, &shape)));
}

/* ---- memory that holds nothing yet: zeros ----------------------------------------------- */

void exg_lower_empty_permuted(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(
        EMIT(b, full_default, args[0], 0, DTYPE(exg_dtype_argument(&args[2], EXG_DTYPE_F32))));
}

void exg_lower_new_empty(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, full_default, args[1], 0,
                                  DTYPE(exg_dtype_argument(&args[2], exg_lower_dtype(b, SELF)))));
}

void exg_lower_new_empty_strided(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, full_default, args[1], 0,
                                  DTYPE(exg_dtype_argument(&args[3], exg_lower_dtype(b, SELF)))));
}

/* (self, mask, indices, fill): the indices count where the mask says so, and may be
 * outside elsewhere */
void exg_lower_unsafe_masked_index(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    exg_argument indices = args[2];
    exg_error err;
    exg_ref x;

    if (exg_argument_copy(exg_builder_arena(b), &indices, &err) != EXG_OK) {
        exg_builder_fail(b, &err);
        return;
    }
    for (uint32_t i = 0; i < indices.count && i < in.rank; i++) {
        if (indices.as_tensors[i] != EXG_NO_VALUE) {
            indices.as_tensors[i] =
                EMIT(b, clamp_both, (exg_ref){indices.as_tensors[i]}, 0, exg_arg_int(in.n[i] - 1))
                    .id;
        }
    }
    x = EMIT(b, index_Tensor, SELF, indices);
    results[0] = exg_arg_ref(EMIT(b, masked_fill_Scalar, x,
                                  EMIT(b, logical_not_default, exg_get_ref(&args[1])), args[3]));
}
