/* grid_sample.c - lowerings of grid_sample.def. What was read is between 2^k corners, k the dims
 * of the image: what came back goes to each by its weight, and to the grid by how the weights
 * change. All is (images, channels, places), the image's own dims flat. */
#include "libexport/operators/lower.h"

#define EXG_ROWS "libexport/operators/grid_sample.def"
#include "libexport/operators/rows.h"

#define SELF exg_get_ref(&args[0])

#define DIMS_MAX 3

enum { BILINEAR, NEAREST, BICUBIC };
enum { ZEROS, BORDER, REFLECTION };

typedef struct axis {
    int64_t size;
    exg_ref low;   /* the place below, in elements, (images, 1, places) */
    exg_ref part;  /* how far it is from there to the next, 0 to 1 */
    exg_ref slope; /* of the place by the grid's number */
} axis;

typedef struct sampling {
    axis axes[DIMS_MAX]; /* the last dim first, as the grid has them */
    uint32_t count;
    int64_t images, channels, places, elements;
    exg_ref g, image; /* (images, channels, places), (images, channels, elements) */
} sampling;

static exg_ref flipped_where(exg_builder *b, exg_ref turned, exg_ref x)
{
    return EMIT(b, where_self, turned, EMIT(b, neg_default, x), x);
}

/* x brought back between the image's edges, which are `low` and `low + span`. */
static exg_ref reflected(exg_builder *b, exg_ref x, double low, double span, exg_ref *slope)
{
    exg_ref below = EMIT(b, lt_Scalar, x, low);
    exg_ref far = EMIT(b, abs_default, EMIT(b, sub_Scalar, x, low));
    exg_ref turns, odd, rest;

    if (span <= 0) {
        *slope = EMIT(b, zeros_like_default, *slope);
        return EMIT(b, zeros_like_default, x);
    }
    turns = EMIT(b, floor_default, EMIT(b, div_Scalar, far, span));
    odd = EMIT(b, ne_Scalar, EMIT(b, fmod_Scalar, turns, 2.0), 0.0);
    rest = EMIT(b, fmod_Scalar, far, span);
    rest = EMIT(b, where_self, odd, EMIT(b, rsub_Scalar, rest, span), rest);
    *slope = flipped_where(b, EMIT(b, ne_Tensor, below, odd), *slope);
    return EMIT(b, add_Scalar, rest, low);
}

/* One of the grid's numbers, -1 to 1 over the image, in elements. */
static void place(exg_builder *b, exg_ref x, int64_t size, int64_t padding, bool corners, axis *a)
{
    double n = (double)size;
    double most = n - 1;

    a->size = size;
    a->slope = EMIT(b, full_like_default, x, corners ? most / 2 : n / 2);
    x = EMIT(b, add_Scalar, x, 1.0);
    x = corners ? EMIT(b, mul_Scalar, x, most / 2)
                : EMIT(b, div_Scalar, EMIT(b, sub_Scalar, EMIT(b, mul_Scalar, x, n), 1.0), 2.0);
    if (padding == REFLECTION) {
        x = reflected(b, x, corners ? 0 : -0.5, corners ? most : n, &a->slope);
    }
    if (padding != ZEROS) { /* on the edge and beyond it nothing changes */
        exg_ref inside =
            EMIT(b, logical_and_default, EMIT(b, gt_Scalar, x, 0.0), EMIT(b, lt_Scalar, x, most));

        a->slope = EMIT(b, where_ScalarOther, inside, a->slope, 0.0);
        x = EMIT(b, clamp_both, x, 0.0, most);
    }
    a->low = EMIT(b, floor_default, x);
    a->part = EMIT(b, sub_Tensor, x, a->low);
    a->low = exg_lower_cast(b, a->low, EXG_DTYPE_I64);
}

/* Where a corner is in the image, made 0 where that is outside; 1 inside, else 0. */
static exg_ref corner_place(exg_builder *b, const sampling *s, uint32_t corner, exg_ref *inside)
{
    exg_ref at = EXG_NO_REF;
    int64_t stride = 1;

    for (uint32_t k = 0; k < s->count; k++) {
        const axis *a = &s->axes[k];
        exg_ref i = EMIT(b, add_Scalar, a->low, exg_arg_int(corner >> k & 1));
        exg_ref fits = EMIT(b, logical_and_default, EMIT(b, ge_Scalar, i, 0),
                            EMIT(b, lt_Scalar, i, exg_arg_int(a->size)));

        i = EMIT(b, mul_Scalar, i, exg_arg_int(stride));
        at = k == 0 ? i : EMIT(b, add_Tensor, at, i);
        *inside = k == 0 ? fits : EMIT(b, logical_and_default, *inside, fits);
        stride *= a->size;
    }
    at = EMIT(b, where_ScalarOther, *inside, at, 0);
    *inside = exg_lower_cast(b, *inside, exg_lower_dtype(b, s->g));
    return EMIT(b, expand_default, at, INTS(b, s->images, s->channels, s->places));
}

/* A corner's weight; by axis `but`, if that is one, how the weight changes along it. */
static exg_ref corner_weight(exg_builder *b, const sampling *s, uint32_t corner, uint32_t but,
                             exg_ref inside)
{
    for (uint32_t k = 0; k < s->count; k++) {
        bool upper = (corner >> k & 1) != 0;

        if (k == but) {
            inside = upper ? inside : EMIT(b, neg_default, inside);
        } else {
            inside = EMIT(b, mul_Tensor, inside,
                          upper ? s->axes[k].part : EMIT(b, rsub_Scalar, s->axes[k].part, 1.0));
        }
    }
    return inside;
}

static void by_corners(exg_builder *b, const sampling *s, exg_ref *of_image, exg_ref *of_axes)
{
    for (uint32_t corner = 0; corner < 1u << s->count; corner++) {
        exg_ref inside;
        exg_ref at = corner_place(b, s, corner, &inside);
        exg_ref weight = corner_weight(b, s, corner, DIMS_MAX, inside);
        exg_ref taken = EMIT(b, mul_Tensor, s->g, EMIT(b, gather_default, s->image, 2, at));

        *of_image =
            EMIT(b, scatter_add_default, *of_image, 2, at, EMIT(b, mul_Tensor, s->g, weight));
        taken = EMIT(b, sum_dim_IntList, taken, INTS(b, 1), exg_arg_bool(true));
        for (uint32_t k = 0; k < s->count; k++) {
            exg_ref part = EMIT(b, mul_Tensor, taken, corner_weight(b, s, corner, k, inside));

            of_axes[k] = corner == 0 ? part : EMIT(b, add_Tensor, of_axes[k], part);
        }
    }
    for (uint32_t k = 0; k < s->count; k++) {
        of_axes[k] = EMIT(b, mul_Tensor, of_axes[k], s->axes[k].slope);
    }
}

/* To the nearest element alone; of two as near, to the even one. */
static void by_nearest(exg_builder *b, sampling *s, exg_ref *of_image, exg_ref *of_axes)
{
    exg_ref inside;
    exg_ref at;

    for (uint32_t k = 0; k < s->count; k++) {
        axis *a = &s->axes[k];
        exg_ref whole = exg_lower_cast(b, a->low, exg_lower_dtype(b, s->g));

        whole = EMIT(b, round_default, EMIT(b, add_Tensor, whole, a->part));
        a->low = exg_lower_cast(b, whole, EXG_DTYPE_I64);
        of_axes[k] = EMIT(b, zeros_like_default, a->part);
    }
    at = corner_place(b, s, 0, &inside);
    *of_image = EMIT(b, scatter_add_default, *of_image, 2, at, EMIT(b, mul_Tensor, s->g, inside));
}

/* ---- of sixteen places ----------------------------------------------------------------------- */

enum { TAPS = 4 };

typedef struct taps {
    exg_ref weight[2][TAPS], slope[2][TAPS]; /* slope: of the weight by how far it is */
    int64_t padding;
    bool corners;
} taps;

/* How the cubic of a distance changes with it: up to 1, and from 1 to 2. */
static exg_ref cubic_slope(exg_builder *b, exg_ref t, bool near)
{
    double a = -0.75;
    exg_ref y;

    if (near) { /* (3 (a + 2) t - 2 (a + 3)) t */
        y = EMIT(b, mul_Scalar, t, 3 * (a + 2));
        return EMIT(b, mul_Tensor, EMIT(b, sub_Scalar, y, 2 * (a + 3)), t);
    }
    y = EMIT(b, sub_Scalar, EMIT(b, mul_Scalar, t, 3 * a), 10 * a); /* (3a t - 10a) t + 8a */
    return EMIT(b, add_Scalar, EMIT(b, mul_Tensor, y, t), 8 * a);
}

/* The taps lie 1 below, at, 1 and 2 above the place below. */
static void weigh(exg_builder *b, const axis *a, exg_ref *weight, exg_ref *slope)
{
    for (int i = 0; i < TAPS; i++) {
        bool near = i == 1 || i == 2;
        exg_ref away = EMIT(b, abs_default, EMIT(b, sub_Scalar, a->part, (double)(i - 1)));

        weight[i] = exg_lower_cubic(b, away, near);
        slope[i] = cubic_slope(b, away, near);
        slope[i] = i < 2 ? slope[i] : EMIT(b, neg_default, slope[i]);
    }
}

/* The tap's element along one dim, brought to the border if that is the padding. */
static exg_ref tap(exg_builder *b, const axis *a, const taps *t, int i)
{
    double most = (double)a->size - 1;
    exg_ref x = EMIT(b, add_Scalar, exg_lower_cast(b, a->low, exg_lower_dtype(b, a->part)),
                     (double)(i - 1));
    exg_ref slope = x;

    if (t->padding == REFLECTION) {
        x = reflected(b, x, t->corners ? 0 : -0.5, t->corners ? most : most + 1, &slope);
    }
    return t->padding == ZEROS ? x : EMIT(b, clamp_both, x, 0.0, most);
}

static void by_cubic(exg_builder *b, const sampling *s, taps *t, exg_ref *of_image,
                     exg_ref *of_axes)
{
    weigh(b, &s->axes[0], t->weight[0], t->slope[0]);
    weigh(b, &s->axes[1], t->weight[1], t->slope[1]);
    for (int i = 0; i < TAPS * TAPS; i++) {
        const int at[2] = {i % TAPS, i / TAPS};
        sampling here = *s;
        exg_ref inside, place, taken;

        for (uint32_t k = 0; k < 2; k++) {
            here.axes[k].low = exg_lower_cast(b, tap(b, &s->axes[k], t, at[k]), EXG_DTYPE_I64);
        }
        place = corner_place(b, &here, 0, &inside);
        taken = EMIT(b, mul_Tensor, s->g, EMIT(b, gather_default, s->image, 2, place));
        taken = EMIT(b, sum_dim_IntList, taken, INTS(b, 1), exg_arg_bool(true));
        taken = EMIT(b, mul_Tensor, taken, inside);
        for (uint32_t k = 0; k < 2; k++) {
            exg_ref part = EMIT(b, mul_Tensor, t->slope[k][at[k]], t->weight[1 - k][at[1 - k]]);

            part = EMIT(b, mul_Tensor, taken, part);
            of_axes[k] = i == 0 ? part : EMIT(b, add_Tensor, of_axes[k], part);
        }
        inside = EMIT(b, mul_Tensor, inside,
                      EMIT(b, mul_Tensor, t->weight[0][at[0]], t->weight[1][at[1]]));
        *of_image =
            EMIT(b, scatter_add_default, *of_image, 2, place, EMIT(b, mul_Tensor, s->g, inside));
    }
    for (uint32_t k = 0; k < 2; k++) {
        of_axes[k] = EMIT(b, mul_Tensor, of_axes[k], s->axes[k].slope);
    }
}

static bool begin(exg_builder *b, const exg_argument *args, sampling *s)
{
    exg_dims in = exg_lower_dims(b, exg_get_ref(&args[1]));
    exg_dims out = exg_lower_dims(b, SELF);
    exg_ref grid = exg_lower_wide(b, exg_get_ref(&args[2]));

    *s = (sampling){.count = in.rank - 2, .places = 1, .elements = 1};
    if (in.rank < 4 || in.rank > 2 + DIMS_MAX || out.rank != in.rank) {
        exg_lower_refuse(b, "a grid on what is no image or volume");
        return false;
    }
    s->images = in.n[0];
    s->channels = in.n[1];
    for (uint32_t d = 2; d < in.rank; d++) {
        s->places *= out.n[d];
        s->elements *= in.n[d];
    }
    s->g = EMIT(b, reshape_default, exg_lower_wide(b, SELF),
                INTS(b, s->images, s->channels, s->places));
    s->image = EMIT(b, reshape_default, exg_lower_wide(b, exg_get_ref(&args[1])),
                    INTS(b, s->images, s->channels, s->elements));
    grid = EMIT(b, reshape_default, grid, INTS(b, s->images, 1, s->places, s->count));
    for (uint32_t k = 0; k < s->count; k++) {
        place(b, EMIT(b, select_int, grid, -1, (int)k), in.n[in.rank - 1 - k],
              exg_get_int(&args[3]) == BICUBIC ? ZEROS : exg_get_int(&args[4]),
              exg_get_bool(&args[5]), &s->axes[k]);
    }
    return true;
}

/* (grad_output, input, grid, interpolation, padding, align_corners, output_mask) */
void exg_lower_grid_sampler_backward(exg_builder *b, const exg_argument *args,
                                     exg_argument *results)
{
    exg_ref image = exg_get_ref(&args[1]);
    exg_ref grid = exg_get_ref(&args[2]);
    exg_dims in = exg_lower_dims(b, image);
    exg_dims of_grid = exg_lower_dims(b, grid);
    exg_ref of_axes[DIMS_MAX];
    exg_ref of_image, stacked;
    sampling s;
    taps t = {.padding = exg_get_int(&args[4]), .corners = exg_get_bool(&args[5])};

    if (!begin(b, args, &s)) {
        return;
    }
    if (exg_get_int(&args[3]) > BICUBIC || (exg_get_int(&args[3]) == BICUBIC && s.count != 2)) {
        exg_lower_refuse(b, "a bicubic grid on what is no image, or another interpolation");
        return;
    }
    of_image = EMIT(b, zeros_like_default, s.image);
    if (exg_get_int(&args[3]) == NEAREST) {
        by_nearest(b, &s, &of_image, of_axes);
    } else if (exg_get_int(&args[3]) == BICUBIC) {
        by_cubic(b, &s, &t, &of_image, of_axes);
    } else {
        by_corners(b, &s, &of_image, of_axes);
    }
    stacked = EMIT(b, stack_default, exg_arg_refs(b, of_axes, s.count), -1);
    results[0] = results[1] = exg_arg_none();
    if (args[6].kind != EXG_ARGUMENT_BOOLS || args[6].count != 2 || args[6].as_bools[0]) {
        results[0] = exg_arg_ref(
            exg_lower_cast(b, exg_lower_shaped(b, of_image, &in), exg_lower_dtype(b, image)));
    }
    if (args[6].kind != EXG_ARGUMENT_BOOLS || args[6].count != 2 || args[6].as_bools[1]) {
        results[1] = exg_arg_ref(
            exg_lower_cast(b, exg_lower_shaped(b, stacked, &of_grid), exg_lower_dtype(b, grid)));
    }
}
