/* pooling.c - lowerings of pooling.def: the largest of windows of images and volumes, wherever
 * the windows lie, with its place; windows put back; grids of three dims. */
#include "libexport/operators/lower.h"

#include <exg/operator_id_new.h>
#include <math.h>
#include <string.h>

#define EXG_ROWS "libexport/operators/pooling.def"
#include "libexport/operators/rows.h"

#define SELF exg_get_ref(&args[0])

#define DIMS_MAX 3

/* Along one dim: the places of every window, (lead, out, width) or (1, out, width), and
 * whether they are inside; EXG_NO_REF: all are. */
typedef struct places {
    int64_t in, out, width;
    exg_ref at, inside;
} places;

/* x with sizes 1 but for the lead, window `k`'s out and its width: (lead, outs, widths). */
static exg_ref beside_others(exg_builder *b, exg_ref x, uint32_t k, uint32_t count)
{
    exg_dims own = exg_lower_dims(b, x);
    exg_dims dims = {.rank = 1 + 2 * count};

    for (uint32_t d = 0; d < dims.rank; d++) {
        dims.n[d] = 1;
    }
    dims.n[0] = own.n[0];
    dims.n[1 + k] = own.n[1];
    dims.n[1 + count + k] = own.n[2];
    return exg_lower_shaped(b, x, &dims);
}

/* The largest of the windows of the last `count` dims, and where in them it was. */
static void largest(exg_builder *b, exg_ref x, const places *p, uint32_t count,
                    exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, x);
    exg_dims out = in;
    exg_argument both[2] = {exg_arg_none(), exg_arg_none()};
    exg_ref place = EXG_NO_REF;
    exg_ref inside = EXG_NO_REF;
    int64_t whole = 1;
    int64_t windows = 1;
    int64_t width = 1;
    int64_t lead = 1;
    int64_t cells;
    exg_ref taken;

    for (uint32_t k = 0; k < count; k++) {
        exg_ref at = EMIT(b, mul_Scalar, beside_others(b, p[k].at, k, count), 1);

        place =
            k == 0 ? at : EMIT(b, add_Tensor, EMIT(b, mul_Scalar, place, exg_arg_int(p[k].in)), at);
        if (p[k].inside.id != EXG_NO_VALUE) {
            exg_ref more = beside_others(b, p[k].inside, k, count);

            inside = inside.id == EXG_NO_VALUE ? more : EMIT(b, logical_and_default, inside, more);
        }
        whole *= p[k].in;
        if (!exg_mul_i64(windows, p[k].out, &windows) || !exg_mul_i64(width, p[k].width, &width) ||
            !exg_mul_i64(windows, width, &cells)) {
            exg_lower_refuse(b, "pooling in more windows than can be counted");
            return;
        }
        out.n[out.rank - count + k] = p[k].out;
    }
    for (uint32_t d = 0; d + count < in.rank; d++) {
        lead *= in.n[d];
    }
    {
        exg_dims dims = {.rank = 1 + 2 * count, .n = {lead}};

        for (uint32_t k = 0; k < count; k++) {
            dims.n[1 + k] = p[k].out;
            dims.n[1 + count + k] = p[k].width;
        }
        place = EMIT(b, expand_default, place, INTS_OF(b, dims.n, dims.rank));
        place = EMIT(b, reshape_default, place, INTS(b, lead, cells));
        taken =
            EMIT(b, gather_default, EMIT(b, reshape_default, x, INTS(b, lead, whole)), 1, place);
        taken = exg_lower_shaped(b, taken, &dims);
        if (inside.id != EXG_NO_VALUE) {
            taken = EMIT(b, where_ScalarOther, inside, taken,
                         exg_lower_least(exg_lower_dtype(b, taken)));
        }
    }
    taken = EMIT(b, reshape_default, taken, INTS(b, lead, windows, width));
    place = EMIT(b, reshape_default, place, INTS(b, lead, windows, width));
    (void)EMIT_ALL(b, max_dim, both, taken, 2, exg_arg_bool(true));
    results[0] = exg_arg_ref(exg_lower_shaped(b, exg_get_ref(&both[0]), &out));
    results[1] = exg_arg_ref(
        exg_lower_shaped(b, EMIT(b, gather_default, place, 2, exg_get_ref(&both[1])), &out));
}

/* The last dims of x, whose sizes are none 0; a list of one number or of `count`. */
static bool dims_of(exg_builder *b, exg_ref x, uint32_t count, int64_t *in)
{
    exg_dims dims = exg_lower_dims(b, x);
    bool sound = dims.rank == count + 1 || dims.rank == count + 2;

    for (uint32_t k = 0; k < count && sound; k++) {
        in[k] = dims.n[dims.rank - count + k];
        sound = in[k] > 0;
    }
    if (!sound) {
        exg_lower_refuse(b, "pooling of a tensor that is no image or volume");
    }
    return sound;
}

static bool list_of(exg_builder *b, const exg_argument *arg, uint32_t count, int64_t least,
                    int64_t *n)
{
    uint32_t given = exg_get_ints(arg, n, DIMS_MAX);
    bool sound = given == 1 || given == count;

    for (uint32_t k = 0; k < count; k++) {
        n[k] = given == 1 ? n[0] : n[k];
        sound = sound && n[k] >= least && n[k] <= INT32_MAX;
    }
    if (!sound) {
        exg_lower_refuse(b, "pooling wants one number, or one a dim");
    }
    return sound;
}

/* ---- max_pool3d ------------------------------------------------------------------------------ */

/* (self, kernel, stride, padding, dilation, ceil_mode) -> values, indices */
void exg_lower_max_pool3d_with_indices(exg_builder *b, const exg_argument *args,
                                       exg_argument *results)
{
    int64_t in[3];
    int64_t size[3];
    int64_t stride[3];
    int64_t padding[3];
    int64_t dilation[3];
    places p[3];

    results[0] = results[1] = exg_arg_none();
    if (!dims_of(b, SELF, 3, in) || !list_of(b, &args[1], 3, 1, size) ||
        !list_of(b, args[2].count == 0 && args[2].kind != EXG_ARGUMENT_INT ? &args[1] : &args[2], 3,
                 1, stride) ||
        !list_of(b, &args[3], 3, 0, padding) || !list_of(b, &args[4], 3, 1, dilation)) {
        return;
    }
    for (uint32_t k = 0; k < 3; k++) {
        exg_pool_window window = {size[k], stride[k], padding[k], dilation[k]};
        exg_error err;
        exg_ref at;

        p[k] = (places){in[k], 0, size[k], EXG_NO_REF, EXG_NO_REF};
        if (exg_pool_windows(in[k], &window, exg_get_bool(&args[5]), &p[k].out, &err) != EXG_OK) {
            exg_builder_fail(b, &err);
            return;
        }
        at = EMIT(b, add_Tensor,
                  EMIT(b, mul_Scalar, exg_lower_steps(b, p[k].out, EXG_DTYPE_I64, 1, 3),
                       exg_arg_int(stride[k])),
                  EMIT(b, mul_Scalar, exg_lower_steps(b, size[k], EXG_DTYPE_I64, 2, 3),
                       exg_arg_int(dilation[k])));
        at = EMIT(b, sub_Scalar, at, exg_arg_int(padding[k]));
        p[k].at = EMIT(b, clamp_both, at, 0, exg_arg_int(in[k] - 1));
        p[k].inside = EMIT(b, eq_Tensor, at, p[k].at);
    }
    largest(b, SELF, p, 3, results);
}

/* ---- parts of a size ---------------------------------------------------------------------------
 */

/* The longest of the parts i in / out to (i + 1) in / out, outwards: they begin at all
 * multiples of the divisor both share, modulo out. */
static int64_t longest_part(int64_t in, int64_t out)
{
    int64_t rest = in % out;
    int64_t divisor = out;

    for (int64_t r = rest; r > 0;) {
        int64_t next = divisor % r;

        divisor = r;
        r = next;
    }
    return in / out + (rest == 0 ? 0 : rest == divisor ? 1 : 2);
}

/* Of no window: x's images, or channels, of size `out`. */
static void nothing(exg_builder *b, exg_ref x, uint32_t count, const int64_t *out,
                    exg_argument *results)
{
    exg_dims dims = exg_lower_dims(b, x);

    memcpy(&dims.n[dims.rank - count], out, count * sizeof(*out));
    for (int r = 0; r < 2; r++) {
        results[r] = exg_arg_ref(EMIT(b, zeros_default, INTS_OF(b, dims.n, dims.rank),
                                      DTYPE(r == 0 ? exg_lower_dtype(b, x) : EXG_DTYPE_I64)));
    }
}

/* Adaptive: all windows as long as the longest, the last place again where one is shorter. */
static void adaptive(exg_builder *b, const exg_argument *args, uint32_t count,
                     exg_argument *results)
{
    int64_t in[3];
    int64_t out[3];
    places p[3];

    results[0] = results[1] = exg_arg_none();
    if (!dims_of(b, SELF, count, in) || !list_of(b, &args[1], count, 0, out)) {
        return;
    }
    for (uint32_t k = 0; k < count; k++) {
        if (out[k] == 0) {
            nothing(b, SELF, count, out, results);
            return;
        }
    }
    for (uint32_t k = 0; k < count; k++) {
        exg_ref start;
        exg_ref end;

        p[k] = (places){in[k], out[k], longest_part(in[k], out[k]), EXG_NO_REF, EXG_NO_REF};
        exg_lower_parts(b, in[k], out[k], &start, &end);
        start = EMIT(b, add_Tensor, start, exg_lower_steps(b, p[k].width, EXG_DTYPE_I64, 1, 2));
        start = EMIT(b, minimum_default, start, EMIT(b, sub_Scalar, end, 1));
        p[k].at = EMIT(b, unsqueeze_default, start, 0);
    }
    largest(b, SELF, p, count, results);
}

void exg_lower_adaptive_max_pool1d(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    adaptive(b, args, 1, results);
}

void exg_lower_adaptive_max_pool2d(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    adaptive(b, args, 2, results);
}

void exg_lower_adaptive_max_pool3d(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    adaptive(b, args, 3, results);
}

/* Windows begin at trunc((i + u) a) - trunc(u a), a = (in - size) / (out - 1), the last at
 * in - size; u is drawn for each image and dim. (self, size, out, samples (N, C, dims)) */
static void fractional(exg_builder *b, const exg_argument *args, uint32_t count,
                       exg_argument *results)
{
    exg_ref samples = exg_get_ref(&args[3]);
    int64_t in[3];
    int64_t size[3];
    int64_t out[3];
    places p[3];

    results[0] = results[1] = exg_arg_none();
    if (!dims_of(b, SELF, count, in) || !list_of(b, &args[1], count, 1, size) ||
        !list_of(b, &args[2], count, 1, out)) {
        return;
    }
    for (uint32_t k = 0; k < count; k++) {
        /* of images the first number is the width's, of volumes the depth's */
        uint32_t at = count == 2 ? 1 - k : k;
        double alpha = out[k] > 1 ? (double)(in[k] - size[k]) / (double)(out[k] - 1) : 0;
        exg_ref u =
            EMIT(b, reshape_default, EMIT(b, select_int, samples, -1, (int)at), INTS(b, -1, 1));
        exg_ref i = exg_lower_steps(b, out[k], exg_lower_dtype(b, u), 1, 2);
        exg_ref start =
            EMIT(b, trunc_default, EMIT(b, mul_Scalar, EMIT(b, add_Tensor, u, i), alpha));

        if (in[k] < size[k]) {
            exg_lower_refuse(b, "a window larger than the image");
            return;
        }
        start = EMIT(b, sub_Tensor, start, EMIT(b, trunc_default, EMIT(b, mul_Scalar, u, alpha)));
        start = EMIT(b, where_ScalarSelf, EMIT(b, eq_Scalar, i, (double)(out[k] - 1)),
                     (double)(in[k] - size[k]), start);
        start = EMIT(b, clamp_both, exg_lower_cast(b, start, EXG_DTYPE_I64), 0,
                     exg_arg_int(in[k] - size[k]));
        p[k] = (places){in[k], out[k], size[k], EXG_NO_REF, EXG_NO_REF};
        p[k].at = EMIT(b, add_Tensor, EMIT(b, unsqueeze_default, start, -1),
                       exg_lower_steps(b, size[k], EXG_DTYPE_I64, 2, 3));
    }
    largest(b, SELF, p, count, results);
}

void exg_lower_fractional_max_pool2d(exg_builder *b, const exg_argument *args,
                                     exg_argument *results)
{
    fractional(b, args, 2, results);
}

void exg_lower_fractional_max_pool3d(exg_builder *b, const exg_argument *args,
                                     exg_argument *results)
{
    fractional(b, args, 3, results);
}

/* ---- windows put back ---------------------------------------------------------------------------
 */

/* (self (N, C kh kw, L), output_size, kernel, dilation, padding, stride): sums of what is
 * over each place of the image; the padding is cut off. */
void exg_lower_col2im(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    exg_ref x = in.rank == 2 ? EMIT(b, unsqueeze_default, SELF, 0) : SELF;
    int64_t n[5][3]; /* output, kernel, dilation, padding, stride */
    int64_t wide[2];
    int64_t count[2];
    int64_t channels;
    exg_ref at[2];
    exg_ref place;

    for (uint32_t k = 0; k < 5; k++) {
        if (!list_of(b, &args[1 + k], 2, k == 3 ? 0 : 1, n[k])) {
            return;
        }
    }
    if (in.rank != 2 && in.rank != 3) {
        exg_lower_refuse(b, "col2im of a tensor of other than 2 or 3 dims");
        return;
    }
    in = exg_lower_dims(b, x);
    channels = in.n[1] / (n[1][0] * n[1][1]);
    for (int k = 0; k < 2; k++) {
        wide[k] = n[0][k] + 2 * n[3][k];
        count[k] = (wide[k] - n[2][k] * (n[1][k] - 1) - 1) / n[4][k] + 1;
        at[k] = EMIT(b, add_Tensor, /* (kernel, count) */
                     EMIT(b, mul_Scalar, exg_lower_steps(b, n[1][k], EXG_DTYPE_I64, 0, 2),
                          exg_arg_int(n[2][k])),
                     EMIT(b, mul_Scalar, exg_lower_steps(b, count[k], EXG_DTYPE_I64, 1, 2),
                          exg_arg_int(n[4][k])));
    }
    if (count[0] * count[1] != in.n[2] || channels * n[1][0] * n[1][1] != in.n[1]) {
        exg_lower_refuse(b, "col2im: columns that do not make the image");
        return;
    }
    place = EMIT(b, add_Tensor,
                 EMIT(b, reshape_default, EMIT(b, mul_Scalar, at[0], exg_arg_int(wide[1])),
                      INTS(b, n[1][0], 1, count[0], 1)),
                 EMIT(b, reshape_default, at[1], INTS(b, 1, n[1][1], 1, count[1])));
    place = EMIT(b, expand_default, EMIT(b, reshape_default, place, INTS(b, 1, 1, -1)),
                 INTS(b, in.n[0], channels, n[1][0] * n[1][1] * in.n[2]));
    x = EMIT(b, scatter_add_default,
             EMIT(b, zeros_default, INTS(b, in.n[0], channels, wide[0] * wide[1]),
                  DTYPE(exg_lower_dtype(b, x))),
             2, place, EMIT(b, reshape_default, x, INTS(b, in.n[0], channels, -1)));
    x = EMIT(b, reshape_default, x, INTS(b, in.n[0], channels, wide[0], wide[1]));
    x = exg_lower_slice(b, exg_lower_slice(b, x, 2, n[3][0], n[0][0]), 3, n[3][1], n[0][1]);
    results[0] =
        exg_arg_ref(exg_lower_dims(b, SELF).rank == 2 ? EMIT(b, squeeze_dims, x, INTS(b, 0)) : x);
}

/* ---- smoothed sizes ---------------------------------------------------------------------- */

/* What an element counts for an output by how far away it is, in elements of the smaller of both
 * images: 0 from the reach on. */
typedef struct filter {
    double reach;
    double (*weight)(double away);
    exg_ref (*weights)(exg_builder *b, exg_ref away);
} filter;

static double triangle(double away)
{
    return fmax(1 - away, 0);
}

static exg_ref triangles(exg_builder *b, exg_ref away)
{
    return EMIT(b, clamp_min_default, EMIT(b, rsub_Scalar, away, 1.), 0);
}

/* The cubic convolution of Keys with a = -1/2, as PyTorch's where it smooths. */
static double cubic(double away)
{
    return away < 1   ? (1.5 * away - 2.5) * away * away + 1
           : away < 2 ? ((2.5 - 0.5 * away) * away - 4) * away + 2
                      : 0;
}

static exg_ref cubics(exg_builder *b, exg_ref away)
{
    exg_ref square = EMIT(b, mul_Tensor, away, away);
    exg_ref near = EMIT(b, sub_Scalar, EMIT(b, mul_Scalar, away, 1.5), 2.5);
    exg_ref far = EMIT(b, rsub_Scalar, EMIT(b, mul_Scalar, away, 0.5), 2.5);

    near = EMIT(b, add_Scalar, EMIT(b, mul_Tensor, near, square), 1.);
    far = EMIT(b, sub_Scalar, EMIT(b, mul_Tensor, far, away), 4.);
    far = EMIT(b, add_Scalar, EMIT(b, mul_Tensor, far, away), 2.);
    far = EMIT(b, mul_Tensor, far, EMIT(b, lt_Scalar, away, 2.));
    return EMIT(b, where_self, EMIT(b, lt_Scalar, away, 1.), near, far);
}

/* sinc(x) sinc(x / 3) */
static double lanczos(double away)
{
    double turn = 3.14159265358979323846 * away;

    return away == 0 ? 1 : away < 3 ? 3 * sin(turn) * sin(turn / 3) / (turn * turn) : 0;
}

static exg_ref lanczoses(exg_builder *b, exg_ref away)
{
    exg_ref third = EMIT(b, sinc_default, EMIT(b, div_Scalar, away, 3.));
    exg_ref w = EMIT(b, mul_Tensor, EMIT(b, sinc_default, away), third);

    return EMIT(b, mul_Tensor, w, EMIT(b, lt_Scalar, away, 3.));
}

static const filter linear_filter = {1, triangle, triangles};
static const filter cubic_filter = {2, cubic, cubics};
static const filter lanczos_filter = {3, lanczos, lanczoses};

#define TERMS_MAX 128 /* of a sum that is not made as a product of matrices */

/* The elements that may count for each output, and how much they do: the filter as wide as the
 * scale, around where the output lies; (terms, out), columns that sum to 1. */
static exg_ref filter_weights(exg_builder *b, const filter *f, int64_t in, int64_t out,
                              double scale, exg_dtype dtype, int64_t terms, exg_ref *at)
{
    const double unit = scale > 1 ? scale : 1;
    const double reach = f->reach * unit;
    exg_ref i = exg_lower_steps(b, out, dtype, 1, 2);
    exg_ref j = exg_lower_steps(b, terms, dtype, 0, 2);
    exg_ref centre = EMIT(b, mul_Scalar, EMIT(b, add_Scalar, i, 0.5), scale);
    exg_ref away;
    exg_ref w;

    if (terms < in) {
        exg_ref first = EMIT(b, floor_default, EMIT(b, sub_Scalar, centre, reach + 0.5));

        j = EMIT(b, add_Tensor, j, EMIT(b, clamp_both, first, 0.0, (double)(in - terms)));
    }
    away = EMIT(b, sub_Tensor, EMIT(b, add_Scalar, j, 0.5), centre);
    w = f->weights(b, EMIT(b, mul_Scalar, EMIT(b, abs_default, away), 1 / unit));
    /* what does not count may be infinite */
    centre = EMIT(b, clamp_both, EMIT(b, floor_default, centre), 0.0, (double)(in - 1));
    *at = EMIT(b, where_self, EMIT(b, eq_Scalar, w, 0.0), centre, j);
    return EMIT(b, div_Tensor, w, EMIT(b, sum_dim_IntList, w, INTS(b, 0), exg_arg_bool(true)));
}

#define WEIGHTS_MAX 0x1p26 /* looked at one by one */

/* The parts of the weights of bytes. */
static double parts_of(exg_builder *b, const filter *f, int64_t in, int64_t out, double scale)
{
    double unit = scale > 1 ? scale : 1;
    double reach = f->reach * unit;
    double most = 0;

    if ((double)out * (1 + fmin((double)in, 2 * reach + 2)) > WEIGHTS_MAX) {
        exg_lower_unsupported(b, "an image of bytes smoothed to so large a one");
        return 1;
    }
    for (int64_t i = 0; i < out; i++) {
        double centre = ((double)i + 0.5) * scale;
        int64_t first = (int64_t)fmin(fmax(floor(centre - reach), 0), (double)in);
        int64_t end = (int64_t)fmin(fmax(ceil(centre + reach), 0), (double)in);
        double greatest = 0;
        double sum = 0;

        for (int64_t j = first; j < end; j++) {
            double w = f->weight(fabs((double)j + 0.5 - centre) / unit);

            greatest = fmax(greatest, w);
            sum += w;
        }
        most = sum > 0 ? fmax(most, greatest / sum) : most;
    }
    return exg_lower_part_count(most);
}

/* Bytes are weighed in whole parts, and are bytes again after every dim. */
static exg_ref smoothed_along(exg_builder *b, const filter *f, exg_ref x, uint32_t dim, int64_t out,
                              double scale, bool of_bytes)
{
    const int64_t in = exg_lower_dims(b, x).n[dim];
    const double wide = ceil(2 * f->reach * (scale > 1 ? scale : 1)) + 2;
    const bool is_sum = wide <= TERMS_MAX && wide < (double)in;
    exg_ref at = EXG_NO_REF;
    exg_ref w = filter_weights(b, f, in, out, scale, exg_lower_dtype(b, x),
                               is_sum ? (int64_t)wide : in, &at);
    double parts = of_bytes ? parts_of(b, f, in, out, scale) : 1;

    w = of_bytes ? exg_lower_whole_parts(b, w, parts) : w;
    x = is_sum     ? EMIT(b, resample, x, exg_lower_cast(b, at, EXG_DTYPE_I64), w, (int)dim)
        : dim == 3 ? EMIT(b, matmul_default, x, w)
                   : EMIT(b, matmul_default, exg_lower_swapped(b, w, 0, 1), x);
    if (of_bytes) { /* sums of whole numbers, exact in float64 */
        x = EMIT(b, floor_default, EMIT(b, add_Scalar, EMIT(b, mul_Scalar, x, 1 / parts), 0.5));
        x = EMIT(b, clamp_default, x, 0., 255.);
    }
    return x;
}

static void smoothed(exg_builder *b, const filter *f, exg_ref x, const int64_t out[2],
                     const double scales[2], exg_argument *results)
{
    bool of_bytes = exg_lower_dtype(b, x) == EXG_DTYPE_U8;
    exg_ref wide = of_bytes ? exg_lower_cast(b, x, EXG_DTYPE_F64) : exg_lower_wide(b, x);

    if (exg_lower_dims(b, x).rank != 4) {
        exg_lower_refuse(b, "upsampling of a tensor that is no batch of images");
        return;
    }
    wide = smoothed_along(b, f, wide, 3, out[1], scales[1], of_bytes);
    wide = smoothed_along(b, f, wide, 2, out[0], scales[0], of_bytes);
    results[0] = exg_arg_ref(exg_lower_cast(b, wide, exg_lower_dtype(b, x)));
}

static double scale_between(int64_t in, int64_t out, bool align_corners, double given)
{
    return align_corners ? (out > 1 ? (double)(in - 1) / (double)(out - 1) : 0)
           : given > 0   ? 1 / given
                         : (double)in / (double)out;
}

/* (self, output_size, align_corners, scales_h, scales_w) */
static void smoothed_to_size(exg_builder *b, const filter *f, const exg_argument *args,
                             exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    int64_t out[3];
    double scales[2];

    if (!list_of(b, &args[1], 2, 1, out)) {
        return;
    }
    for (uint32_t k = 0; k < 2; k++) {
        scales[k] = scale_between(in.rank == 4 ? in.n[2 + k] : 1, out[k], exg_get_bool(&args[2]),
                                  exg_is_none(&args[3 + k]) ? 0 : exg_get_float(&args[3 + k]));
    }
    smoothed(b, f, SELF, out, scales, results);
}

/* (input, output_size?, align_corners, scale_factors?) */
static void smoothed_to_either(exg_builder *b, const filter *f, const exg_argument *args,
                               exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    int64_t out[3];
    double scales[2];
    bool by_factor = exg_is_none(&args[1]);

    if (by_factor ? args[3].kind != EXG_ARGUMENT_FLOATS || args[3].count != 2 || in.rank != 4
                  : !list_of(b, &args[1], 2, 1, out)) {
        exg_lower_refuse(b, "upsampling wants a size, or two factors");
        return;
    }
    for (uint32_t k = 0; k < 2; k++) {
        double factor = by_factor ? args[3].as_floats[k] : 0;

        out[k] = by_factor ? (int64_t)((double)in.n[2 + k] * factor) : out[k];
        scales[k] =
            scale_between(in.rank == 4 ? in.n[2 + k] : 1, out[k], exg_get_bool(&args[2]), factor);
    }
    smoothed(b, f, SELF, out, scales, results);
}

#define SMOOTHED(name, filter)                                                                     \
    void exg_lower_upsample_##name##2d_aa(exg_builder * b, const exg_argument *args,               \
                                          exg_argument *results)                                   \
    {                                                                                              \
        smoothed_to_size(b, filter, args, results);                                                \
    }                                                                                              \
    void exg_lower_upsample_##name##2d_aa_vec(exg_builder * b, const exg_argument *args,           \
                                              exg_argument *results)                               \
    {                                                                                              \
        smoothed_to_either(b, filter, args, results);                                              \
    }

SMOOTHED(bilinear, &linear_filter)
SMOOTHED(bicubic, &cubic_filter)
SMOOTHED(lanczos, &lanczos_filter)
