/* resample.c - lowerings of resample.def: images at other sizes, one dim after the
 * other; pooling by way of the two-dimensional kernels. */
#include "libexport/operators/lower.h"

#include <math.h>
#include <string.h>

#define SELF exg_get_ref(&args[0])

/* ---- upsampling --------------------------------------------------------------------------- */

typedef struct sampling {
    int64_t in, out;
    double scale; /* of a step in the output, in input elements */
    bool align_corners;
} sampling;

/* (input, output_size?, [align_corners,] scale_factors?): one of the two is given. */
static uint32_t samplings(exg_builder *b, const exg_argument *args, uint32_t scales_at,
                          bool align_corners, sampling *s)
{
    exg_dims in = exg_lower_dims(b, SELF);
    uint32_t count = in.rank > 2 ? in.rank - 2 : 0;
    int64_t size[EXG_SHAPE_RANK_MAX];
    bool by_size = !exg_is_none(&args[1]);
    const exg_argument *factors = &args[scales_at];
    bool by_factor = factors->kind == EXG_ARGUMENT_FLOATS && factors->count == count;

    if (count == 0 || count > 3 ||
        (by_size && exg_get_ints(&args[1], size, EXG_SHAPE_RANK_MAX) != count) ||
        (!by_size && !by_factor)) {
        exg_lower_refuse(b, "upsampling wants a size or a factor for every dim of the image");
        return 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        double factor = by_size ? 0 : factors->as_floats[i];

        s[i].in = in.n[2 + i];
        s[i].out = by_size ? size[i] : (int64_t)((double)s[i].in * factor);
        s[i].align_corners = align_corners;
        s[i].scale = align_corners ? (s[i].out > 1 ? (double)(s[i].in - 1) / (double)(s[i].out - 1)
                                                   : 0)
                     : by_size ? (double)s[i].in / (double)s[i].out
                               : 1 / factor;
        if (s[i].in < 1 || s[i].out < 1) {
            exg_lower_refuse(b, "upsampling from or to nothing");
            return 0;
        }
    }
    return count;
}

static exg_ref picked(exg_builder *b, exg_ref x, uint32_t dim, exg_ref place, const sampling *s)
{
    exg_ref index = EMIT(b, clamp_both, place, 0.0, (double)(s->in - 1));

    return EMIT(b, index_select_default, x, (int)dim,
                EMIT(b, _to_copy_default, index, DTYPE(EXG_DTYPE_I64)));
}

static void nearest(exg_builder *b, const exg_argument *args, double shift, exg_argument *results)
{
    sampling s[3];
    uint32_t count = samplings(b, args, 2, false, s);
    exg_ref x = SELF;

    for (uint32_t i = 0; i < count; i++) {
        exg_ref place = exg_lower_steps(b, s[i].out, EXG_DTYPE_F32, 0, 1);

        place = shift == 0 ? place : EMIT(b, add_Scalar, place, shift);
        place = EMIT(b, floor_default, EMIT(b, mul_Scalar, place, s[i].scale));
        x = s[i].in == s[i].out && shift == 0 && s[i].scale == 1
                ? x
                : picked(b, x, 2 + i, place, &s[i]);
    }
    results[0] = exg_arg_ref(x.id == SELF.id ? EMIT(b, clone_default, x) : x);
}

void exg_lower_upsample_nearest(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    nearest(b, args, 0, results);
}

void exg_lower_upsample_nearest_exact(exg_builder *b, const exg_argument *args,
                                      exg_argument *results)
{
    nearest(b, args, 0.5, results);
}

/* Where output i lies in the input. */
static exg_ref source(exg_builder *b, const sampling *s, exg_dtype dtype, bool clamps)
{
    exg_ref i = exg_lower_steps(b, s->out, dtype, 0, 1);
    exg_ref at;

    if (s->align_corners) {
        return EMIT(b, mul_Scalar, i, s->scale);
    }
    at = EMIT(b, sub_Scalar, EMIT(b, mul_Scalar, EMIT(b, add_Scalar, i, 0.5), s->scale), 0.5);
    return clamps ? EMIT(b, clamp_min_default, at, 0.0) : at;
}

void exg_lower_upsample_linear(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    sampling s[3];
    uint32_t count = samplings(b, args, 3, exg_get_bool(&args[2]), s);
    uint32_t rank = exg_lower_dims(b, SELF).rank;
    exg_ref x = exg_lower_wide(b, SELF);

    for (uint32_t i = 0; i < count; i++) {
        exg_ref at = source(b, &s[i], exg_lower_dtype(b, x), true);
        exg_ref below = EMIT(b, floor_default, at);
        exg_ref part = exg_lower_along(b, EMIT(b, sub_Tensor, at, below), 2 + i, rank);
        exg_ref low = picked(b, x, 2 + i, below, &s[i]);
        exg_ref high = picked(b, x, 2 + i, EMIT(b, add_Scalar, below, 1.0), &s[i]);

        x = EMIT(b, add_Tensor, EMIT(b, mul_Tensor, low, EMIT(b, rsub_Scalar, part, 1.0)),
                 EMIT(b, mul_Tensor, high, part));
    }
    results[0] = exg_arg_ref(exg_lower_cast(b, x, exg_lower_dtype(b, SELF)));
}

/* Keys' cubic with a = -0.75: of distances up to 1, and from 1 to 2. */
static exg_ref cubic(exg_builder *b, exg_ref t, bool near)
{
    double a = -0.75;
    exg_ref y;

    if (near) { /* ((a + 2) t - (a + 3)) t^2 + 1 */
        y = EMIT(b, sub_Scalar, EMIT(b, mul_Scalar, t, a + 2), a + 3);
        y = EMIT(b, mul_Tensor, EMIT(b, mul_Tensor, y, t), t);
        return EMIT(b, add_Scalar, y, 1.0);
    }
    y = EMIT(b, sub_Scalar, EMIT(b, mul_Scalar, t, a), 5 * a); /* ((a t - 5a) t + 8a) t - 4a */
    y = EMIT(b, add_Scalar, EMIT(b, mul_Tensor, y, t), 8 * a);
    return EMIT(b, sub_Scalar, EMIT(b, mul_Tensor, y, t), 4 * a);
}

void exg_lower_upsample_cubic(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    sampling s[3];
    uint32_t count = samplings(b, args, 3, exg_get_bool(&args[2]), s);
    uint32_t rank = exg_lower_dims(b, SELF).rank;
    exg_ref x = exg_lower_wide(b, SELF);

    for (uint32_t i = 0; i < count; i++) {
        exg_ref at = source(b, &s[i], exg_lower_dtype(b, x), false);
        exg_ref below = EMIT(b, floor_default, at);
        exg_ref part = EMIT(b, sub_Tensor, at, below);
        exg_ref sum = EXG_NO_REF;

        for (int k = -1; k <= 2; k++) {
            exg_ref t = k <= 0 ? EMIT(b, add_Scalar, part, (double)-k)
                               : EMIT(b, rsub_Scalar, part, (double)k);
            exg_ref weight = exg_lower_along(b, cubic(b, t, k == 0 || k == 1), 2 + i, rank);
            exg_ref taken = picked(b, x, 2 + i, EMIT(b, add_Scalar, below, (double)k), &s[i]);
            exg_ref term = EMIT(b, mul_Tensor, taken, weight);

            sum = k == -1 ? term : EMIT(b, add_Tensor, sum, term);
        }
        x = sum;
    }
    results[0] = exg_arg_ref(exg_lower_cast(b, x, exg_lower_dtype(b, SELF)));
}

/* ---- grid sampling -------------------------------------------------------------------------- */

typedef struct grid {
    exg_ref x, y;      /* (N, H W) places in the input, in elements */
    exg_ref image;     /* (N, C, IH IW) */
    exg_dims in;       /* N C IH IW */
    int64_t places;    /* H W */
    bool zeros;        /* outside is 0; else the border */
} grid;

/* From -1 ... 1 to elements. */
static exg_ref to_elements(exg_builder *b, exg_ref x, int64_t size, bool align_corners)
{
    double half = align_corners ? (double)(size - 1) / 2 : (double)size / 2;

    x = EMIT(b, mul_Scalar, EMIT(b, add_Scalar, x, 1.0), half);
    return align_corners ? x : EMIT(b, sub_Scalar, x, 0.5);
}

/* Mirrored at the borders: the corners' centres, or their outer edges. */
static exg_ref reflected(exg_builder *b, exg_ref x, int64_t size, bool align_corners)
{
    double low = align_corners ? 0 : -0.5;
    double span = align_corners ? (double)(size - 1) : (double)size;
    exg_ref from = EMIT(b, abs_default, EMIT(b, sub_Scalar, x, low));
    exg_ref extra;
    exg_ref turns;

    if (span <= 0) {
        return EMIT(b, zeros_like_default, x);
    }
    extra = EMIT(b, fmod_Scalar, from, span);
    turns = EMIT(b, remainder_Scalar, EMIT(b, floor_default, EMIT(b, div_Scalar, from, span)), 2.0);
    return EMIT(b, where_self, EMIT(b, eq_Scalar, turns, 0.0), EMIT(b, add_Scalar, extra, low),
                EMIT(b, rsub_Scalar, extra, span + low));
}

/* The image at whole places, (N, C, H W). */
static exg_ref at_place(exg_builder *b, const grid *g, exg_ref x, exg_ref y)
{
    double right = (double)(g->in.n[3] - 1);
    double bottom = (double)(g->in.n[2] - 1);
    exg_ref column = EMIT(b, clamp_both, x, 0.0, right);
    exg_ref row = EMIT(b, clamp_both, y, 0.0, bottom);
    exg_ref lines = EMIT(b, mul_Scalar, exg_lower_cast(b, row, EXG_DTYPE_I64),
                         exg_arg_int(g->in.n[3]));
    exg_ref place = EMIT(b, add_Tensor, lines, exg_lower_cast(b, column, EXG_DTYPE_I64));
    exg_ref taken;

    place = EMIT(b, expand_default, EMIT(b, unsqueeze_default, place, 1),
                 INTS(b, g->in.n[0], g->in.n[1], g->places));
    taken = EMIT(b, gather_default, g->image, 2, place);
    if (g->zeros) {
        exg_ref inside = EMIT(b, logical_and_default, EMIT(b, eq_Tensor, column, x),
                              EMIT(b, eq_Tensor, row, y));

        taken = EMIT(b, where_self, EMIT(b, unsqueeze_default, inside, 1), taken,
                     EMIT(b, zeros_like_default, taken));
    }
    return taken;
}

static exg_ref bilinear(exg_builder *b, const grid *g)
{
    exg_ref left = EMIT(b, floor_default, g->x);
    exg_ref top = EMIT(b, floor_default, g->y);
    exg_ref part_x = EMIT(b, sub_Tensor, g->x, left);
    exg_ref part_y = EMIT(b, sub_Tensor, g->y, top);
    exg_ref sum = EXG_NO_REF;

    for (int k = 0; k < 4; k++) {
        exg_ref x = k & 1 ? EMIT(b, add_Scalar, left, 1.0) : left;
        exg_ref y = k & 2 ? EMIT(b, add_Scalar, top, 1.0) : top;
        exg_ref weight = EMIT(b, mul_Tensor, k & 1 ? part_x : EMIT(b, rsub_Scalar, part_x, 1.0),
                              k & 2 ? part_y : EMIT(b, rsub_Scalar, part_y, 1.0));
        exg_ref term = EMIT(b, mul_Tensor, at_place(b, g, x, y),
                            EMIT(b, unsqueeze_default, weight, 1));

        sum = k == 0 ? term : EMIT(b, add_Tensor, sum, term);
    }
    return sum;
}

/* (input N C IH IW, grid N H W 2, interpolation: 0 bilinear, 1 nearest, 2 bicubic;
 * padding: 0 zeros, 1 border, 2 reflection; align_corners) */
void exg_lower_grid_sampler(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims by = exg_lower_dims(b, exg_get_ref(&args[1]));
    int64_t mode = exg_get_int(&args[2]);
    int64_t padding = exg_get_int(&args[3]);
    bool align = exg_get_bool(&args[4]);
    exg_ref image = exg_lower_wide(b, SELF);
    exg_ref places;
    exg_ref out;
    grid g = {.in = exg_lower_dims(b, SELF), .zeros = padding == 0};

    if (g.in.rank != 4 || by.rank != 4 || mode > 1 || g.in.n[2] < 1 || g.in.n[3] < 1) {
        exg_lower_unsupported(b, "grid_sampler of volumes, by cubics, or of nothing");
        return;
    }
    g.places = by.n[1] * by.n[2];
    g.image = EMIT(b, reshape_default, image, INTS(b, g.in.n[0], g.in.n[1], g.in.n[2] * g.in.n[3]));
    places = EMIT(b, reshape_default, exg_lower_wide(b, exg_get_ref(&args[1])),
                  INTS(b, by.n[0], g.places, 2));
    g.x = to_elements(b, EMIT(b, select_int, places, 2, 0), g.in.n[3], align);
    g.y = to_elements(b, EMIT(b, select_int, places, 2, 1), g.in.n[2], align);
    if (padding == 2) {
        g.x = reflected(b, g.x, g.in.n[3], align);
        g.y = reflected(b, g.y, g.in.n[2], align);
    }
    if (padding != 0) {
        g.x = EMIT(b, clamp_both, g.x, 0.0, (double)(g.in.n[3] - 1));
        g.y = EMIT(b, clamp_both, g.y, 0.0, (double)(g.in.n[2] - 1));
    }
    out = mode == 0 ? bilinear(b, &g)
                    : at_place(b, &g, EMIT(b, round_default, g.x), EMIT(b, round_default, g.y));
    out = EMIT(b, reshape_default, out, INTS(b, g.in.n[0], g.in.n[1], by.n[1], by.n[2]));
    results[0] = exg_arg_ref(exg_lower_cast(b, out, exg_lower_dtype(b, SELF)));
}

/* (theta N 2 3, size N C H W, align_corners) -> N H W 2 */
void exg_lower_affine_grid(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    int64_t size[EXG_SHAPE_RANK_MAX] = {0};
    exg_dtype dtype = exg_lower_dtype(b, SELF);
    exg_ref parts[3];
    exg_ref base;

    if (exg_get_ints(&args[1], size, EXG_SHAPE_RANK_MAX) != 4) {
        exg_lower_unsupported(b, "affine grids of volumes");
        return;
    }
    for (uint32_t k = 0; k < 2; k++) {
        int64_t count = size[3 - k];
        exg_ref steps = exg_lower_steps(b, count, dtype, 1 - k, 2);
        bool align = exg_get_bool(&args[2]);
        double first = align ? -1 : -1 + 1 / (double)count;
        double step = align ? (count > 1 ? 2 / (double)(count - 1) : 0) : 2 / (double)count;

        first = align && count == 1 ? 0 : first;
        steps = EMIT(b, add_Scalar, EMIT(b, mul_Scalar, steps, step), first);
        parts[k] = EMIT(b, reshape_default,
                        EMIT(b, expand_default, steps, INTS(b, size[2], size[3])),
                        INTS(b, size[2] * size[3], 1));
    }
    parts[2] = EMIT(b, full_default, INTS(b, size[2] * size[3], 1), 1.0, DTYPE(dtype));
    base = EMIT(b, cat_default, exg_arg_refs(b, parts, 3), 1);
    base = EMIT(b, matmul_default, EMIT(b, unsqueeze_default, base, 0),
                exg_lower_swapped(b, SELF, 1, 2));
    results[0] = exg_arg_ref(EMIT(b, view_default, base, INTS(b, size[0], size[2], size[3], 2)));
}

/* ---- pooling in one and three dims ----------------------------------------------------------- */

static exg_argument pair_of(exg_builder *b, const exg_argument *arg, int64_t first)
{
    int64_t n[1] = {first};

    return exg_get_ints(arg, n, 1) == 0 ? exg_arg_ints(b, NULL, 0) : INTS(b, first, n[0]);
}

/* (self, kernel_size, stride, padding, ceil_mode, count_include_pad) */
void exg_lower_avg_pool1d(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x = EMIT(b, avg_pool2d_default, EMIT(b, unsqueeze_default, SELF, -2),
                     pair_of(b, &args[1], 1), pair_of(b, &args[2], 1), pair_of(b, &args[3], 0),
                     args[4], args[5]);

    results[0] = exg_arg_ref(EMIT(b, squeeze_dims, x, INTS(b, -2)));
}

static void max_pool1d(exg_builder *b, const exg_argument *args, exg_argument *both)
{
    (void)EMIT_ALL(b, max_pool2d_with_indices_default, both, EMIT(b, unsqueeze_default, SELF, -2),
                   pair_of(b, &args[1], 1), pair_of(b, &args[2], 1), pair_of(b, &args[3], 0),
                   pair_of(b, &args[4], 1), args[5]);
    for (int i = 0; i < 2; i++) {
        both[i] = exg_arg_ref(EMIT(b, squeeze_dims, exg_get_ref(&both[i]), INTS(b, -2)));
    }
}

/* (self, kernel_size, stride, padding, dilation, ceil_mode) */
void exg_lower_max_pool1d(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_argument both[2] = {exg_arg_none(), exg_arg_none()};

    max_pool1d(b, args, both);
    results[0] = both[0];
}

void exg_lower_max_pool1d_with_indices(exg_builder *b, const exg_argument *args,
                                       exg_argument *results)
{
    results[0] = results[1] = exg_arg_none();
    max_pool1d(b, args, results);
}

void exg_lower_adaptive_avg_pool1d(exg_builder *b, const exg_argument *args,
                                   exg_argument *results)
{
    exg_ref x = EMIT(b, _adaptive_avg_pool2d_default, EMIT(b, unsqueeze_default, SELF, -2),
                     pair_of(b, &args[1], 1));

    results[0] = exg_arg_ref(EMIT(b, squeeze_dims, x, INTS(b, -2)));
}

/* x (.., D, H, W) as images: (.., H, W) each, or (D, H W). */
static exg_ref as_images(exg_builder *b, exg_ref x, bool flat)
{
    exg_dims in = exg_lower_dims(b, x);
    uint32_t k = in.rank - 3;
    int64_t lead = 1;

    for (uint32_t d = 0; d < k; d++) {
        lead *= in.n[d];
    }
    return flat ? EMIT(b, reshape_default, x, INTS(b, lead, in.n[k], in.n[k + 1] * in.n[k + 2]))
                : EMIT(b, reshape_default, x,
                       INTS(b, lead * in.n[k], in.n[k + 1], in.n[k + 2]));
}

static exg_ref as_volumes(exg_builder *b, exg_ref x, exg_dims like, int64_t depth, int64_t height,
                          int64_t width)
{
    like.n[like.rank - 3] = depth;
    like.n[like.rank - 2] = height;
    like.n[like.rank - 1] = width;
    return exg_lower_shaped(b, x, &like);
}

/* (self, output_size) */
void exg_lower_adaptive_avg_pool3d(exg_builder *b, const exg_argument *args,
                                   exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    int64_t out[3] = {0};
    uint32_t count = exg_get_ints(&args[1], out, 3);
    exg_ref x;

    if (in.rank != 4 && in.rank != 5) {
        exg_lower_refuse(b, "3-d pooling of a tensor that is no volume");
        return;
    }
    out[1] = count == 1 ? out[0] : out[1];
    out[2] = count == 1 ? out[0] : out[2];
    x = EMIT(b, _adaptive_avg_pool2d_default, as_images(b, SELF, false), INTS(b, out[1], out[2]));
    x = as_volumes(b, x, in, in.n[in.rank - 3], out[1], out[2]);
    x = EMIT(b, _adaptive_avg_pool2d_default, as_images(b, x, true),
             INTS(b, out[0], out[1] * out[2]));
    results[0] = exg_arg_ref(as_volumes(b, x, in, out[0], out[1], out[2]));
}

typedef struct window {
    int64_t size[3], stride[3], padding[3], dilation[3];
} window;

static bool windows_of(exg_builder *b, const exg_argument *args, bool dilates, window *w)
{
    int64_t *lists[4] = {w->size, w->stride, w->padding, w->dilation};

    for (uint32_t k = 0; k < (dilates ? 4u : 3u); k++) {
        uint32_t count = exg_get_ints(&args[1 + k], lists[k], 3);

        if (count == 0 && k == 1) {
            memcpy(w->stride, w->size, sizeof(w->size));
        } else if (count == 1) {
            lists[k][1] = lists[k][2] = lists[k][0];
        } else if (count != 3) {
            exg_lower_refuse(b, "3-d pooling wants one number or three");
            return false;
        }
    }
    return true;
}

/* Sums of windows: over height and width, then over depth. */
static exg_ref window_sums(exg_builder *b, exg_ref x, const window *w, exg_argument ceil)
{
    exg_dims in = exg_lower_dims(b, x);
    exg_dims mid;
    exg_ref y = EMIT(b, avg_pool2d_default, as_images(b, x, false),
                     INTS(b, w->size[1], w->size[2]), INTS(b, w->stride[1], w->stride[2]),
                     INTS(b, w->padding[1], w->padding[2]), ceil, exg_arg_bool(true), 1);

    mid = exg_lower_dims(b, y);
    y = as_volumes(b, y, in, in.n[in.rank - 3], mid.n[1], mid.n[2]);
    y = EMIT(b, avg_pool2d_default, as_images(b, y, true), INTS(b, w->size[0], 1),
             INTS(b, w->stride[0], 1), INTS(b, w->padding[0], 0), ceil, exg_arg_bool(true), 1);
    return as_volumes(b, y, in, exg_lower_dims(b, y).n[1], mid.n[1], mid.n[2]);
}

/* (self, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override?): the
 * divisor is the same sum over ones, which end at the image or at its padding. */
void exg_lower_avg_pool3d(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    window w = {{0}};
    exg_ref sum;
    exg_ref count;

    if ((in.rank != 4 && in.rank != 5) || !windows_of(b, args, false, &w)) {
        exg_lower_refuse(b, "3-d pooling of a tensor that is no volume");
        return;
    }
    sum = window_sums(b, exg_lower_wide(b, SELF), &w, args[4]);
    if (!exg_is_none(&args[6])) {
        sum = EMIT(b, div_Scalar, sum, (double)exg_get_int(&args[6]));
    } else {
        uint32_t k = in.rank - 3;
        bool pads = exg_get_bool(&args[5]);
        window v = w;
        int64_t n[3];

        for (uint32_t d = 0; d < 3; d++) {
            n[d] = in.n[k + d] + (pads ? 2 * w.padding[d] : 0);
            v.padding[d] = pads ? 0 : w.padding[d];
        }
        count = EMIT(b, full_default, INTS(b, 1, n[0], n[1], n[2]), 1.0,
                     DTYPE(exg_lower_dtype(b, sum)));
        sum = EMIT(b, div_Tensor, sum, window_sums(b, count, &v, args[4]));
    }
    results[0] = exg_arg_ref(exg_lower_cast(b, sum, exg_lower_dtype(b, SELF)));
}

/* (self, kernel, stride, padding, dilation, ceil_mode) */
void exg_lower_max_pool3d(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    window w = {{0}};
    exg_dims mid;
    exg_ref x;

    if ((in.rank != 4 && in.rank != 5) || !windows_of(b, args, true, &w)) {
        exg_lower_refuse(b, "3-d pooling of a tensor that is no volume");
        return;
    }
    x = EMIT(b, max_pool2d_default, as_images(b, SELF, false), INTS(b, w.size[1], w.size[2]),
             INTS(b, w.stride[1], w.stride[2]), INTS(b, w.padding[1], w.padding[2]),
             INTS(b, w.dilation[1], w.dilation[2]), args[5]);
    mid = exg_lower_dims(b, x);
    x = as_volumes(b, x, in, in.n[in.rank - 3], mid.n[1], mid.n[2]);
    x = EMIT(b, max_pool2d_default, as_images(b, x, true), INTS(b, w.size[0], 1),
             INTS(b, w.stride[0], 1), INTS(b, w.padding[0], 0), INTS(b, w.dilation[0], 1), args[5]);
    results[0] = exg_arg_ref(
        as_volumes(b, x, in, exg_lower_dims(b, x).n[1], mid.n[1], mid.n[2]));
}

/* ---- the largest of every part --------------------------------------------------------------- */

/* Every place of every part; all as long as the longest, the last place again where one is
 * shorter. (out, width) */
static exg_ref parts(exg_builder *b, int64_t in, int64_t out, int64_t *width)
{
    exg_ref start;
    exg_ref end;

    *width = 0;
    for (int64_t k = 0; k < out; k++) {
        int64_t size = ((k + 1) * in + out - 1) / out - k * in / out;

        *width = size > *width ? size : *width;
    }
    exg_lower_parts(b, in, out, &start, &end);
    return EMIT(b, minimum_default,
                EMIT(b, add_Tensor, start, exg_lower_steps(b, *width, EXG_DTYPE_I64, 1, 2)),
                EMIT(b, sub_Scalar, end, 1));
}

/* (self, output_size) -> values, indices */
void exg_lower_adaptive_max_pool2d(exg_builder *b, const exg_argument *args,
                                   exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    int64_t out[2] = {0};
    int64_t width[2];
    exg_ref places[2];
    exg_argument both[2] = {exg_arg_none(), exg_arg_none()};
    exg_ref x;
    exg_ref index;
    int64_t lead;

    results[0] = results[1] = exg_arg_none();
    if (in.rank < 3 || exg_get_ints(&args[1], out, 2) != 2 || out[0] < 1 || out[1] < 1 ||
        in.n[in.rank - 2] < 1 || in.n[in.rank - 1] < 1) {
        exg_lower_refuse(b, "adaptive_max_pool of no image, or to nothing");
        return;
    }
    lead = exg_lower_numel(b, SELF) / (in.n[in.rank - 2] * in.n[in.rank - 1]);
    for (uint32_t k = 0; k < 2; k++) {
        places[k] = parts(b, in.n[in.rank - 2 + k], out[k], &width[k]);
    }
    x = EMIT(b, index_select_default, SELF, (int)in.rank - 2, exg_lower_flat(b, places[0]));
    x = EMIT(b, index_select_default, x, (int)in.rank - 1, exg_lower_flat(b, places[1]));
    x = EMIT(b, reshape_default, x, INTS(b, lead, out[0], width[0], out[1], width[1]));
    x = EMIT(b, reshape_default, EMIT(b, permute_default, x, INTS(b, 0, 1, 3, 2, 4)),
             INTS(b, lead, out[0], out[1], width[0] * width[1]));
    (void)EMIT_ALL(b, max_dim, both, x, 3, exg_arg_bool(true));
    index = EMIT(b, mul_Scalar, EMIT(b, view_default, places[0], INTS(b, out[0], 1, width[0], 1)),
                 exg_arg_int(in.n[in.rank - 1]));
    index = EMIT(b, add_Tensor, index,
                 EMIT(b, view_default, places[1], INTS(b, 1, out[1], 1, width[1])));
    index = EMIT(b, reshape_default, index, INTS(b, 1, out[0], out[1], width[0] * width[1]));
    index = EMIT(b, expand_default, index,
                 INTS(b, lead, out[0], out[1], width[0] * width[1]));
    index = EMIT(b, gather_default, index, 3, exg_get_ref(&both[1]));
    in.n[in.rank - 2] = out[0];
    in.n[in.rank - 1] = out[1];
    results[0] = exg_arg_ref(exg_lower_shaped(b, exg_get_ref(&both[0]), &in));
    results[1] = exg_arg_ref(exg_lower_shaped(b, index, &in));
}

void exg_lower_adaptive_max_pool1d(exg_builder *b, const exg_argument *args,
                                   exg_argument *results)
{
    exg_argument wide[2] = {exg_arg_ref(EMIT(b, unsqueeze_default, SELF, -2)),
                            pair_of(b, &args[1], 1)};

    exg_lower_adaptive_max_pool2d(b, wide, results);
    for (int i = 0; i < 2; i++) {
        results[i] = exg_arg_ref(EMIT(b, squeeze_dims, exg_get_ref(&results[i]), INTS(b, -2)));
    }
}

/* (self, indices, output_size, ...): values back where they came from, zeros elsewhere */
void exg_lower_max_unpool(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    int64_t size[3] = {1, 1, 1};
    uint32_t count = exg_get_ints(&args[2], size, 3);
    int64_t lead = 1;
    int64_t inner = 1;
    int64_t whole = 1;
    exg_ref x;

    if (count > in.rank || count == 0) {
        exg_lower_refuse(b, "max_unpool to a size of other dims");
        return;
    }
    for (uint32_t d = 0; d < in.rank; d++) {
        *(d < in.rank - count ? &lead : &inner) *= in.n[d];
    }
    for (uint32_t d = 0; d < count; d++) {
        whole *= size[d];
        in.n[in.rank - count + d] = size[d];
    }
    x = EMIT(b, full_default, INTS(b, lead, whole), 0, DTYPE(exg_lower_dtype(b, SELF)));
    x = EMIT(b, scatter_src, x, 1,
             EMIT(b, reshape_default, exg_get_ref(&args[1]), INTS(b, lead, inner)),
             EMIT(b, reshape_default, SELF, INTS(b, lead, inner)));
    results[0] = exg_arg_ref(exg_lower_shaped(b, x, &in));
}
