/* resample.c - lowerings of resample.def: images at other sizes, one dim after the
 * other; pooling by way of the two-dimensional kernels. */
#include "libexport/operators/lower.h"
#include "libexport/operators/shape.h"

#include <exg/operator_id_new.h>
#include <math.h>
#include <string.h>

#define EXG_ROWS "libexport/operators/resample.def"
#include "libexport/operators/rows.h"

#define SELF exg_get_ref(&args[0])

/* (self (N, C, elements), places (N, terms, P), weights (N, terms, P)) -> (N, C, P) */
exg_status exg_shape_weighted_gather(exg_shape_call *call, exg_error *err)
{
    exg_dims out;
    exg_dims places;
    exg_dims weights;

    EXG_TRY(exg_dims_of(exg_shape_input(call, 0), &out, err));
    EXG_TRY(exg_dims_of(exg_shape_input(call, 1), &places, err));
    EXG_TRY(exg_dims_of(exg_shape_input(call, 2), &weights, err));
    if (out.rank != 3 || places.rank != 3 || weights.rank != 3 || places.n[0] != out.n[0] ||
        memcmp(places.n, weights.n, 3 * sizeof(places.n[0])) != 0) {
        return EXG_SHAPE_FAIL(err, "places, weights and what is there do not fit");
    }
    out.n[2] = places.n[2];
    return exg_shape_result(call, 0, exg_shape_input(call, 0)->dtype, &out, err);
}

/* (self, places (terms, count), weights (terms, count), dim) -> self with count at dim */
exg_status exg_shape_resample(exg_shape_call *call, exg_error *err)
{
    exg_dims out;
    exg_dims places;
    exg_dims weights;
    uint32_t dim;

    EXG_TRY(exg_dims_of(exg_shape_input(call, 0), &out, err));
    EXG_TRY(exg_dims_of(exg_shape_input(call, 1), &places, err));
    EXG_TRY(exg_dims_of(exg_shape_input(call, 2), &weights, err));
    EXG_TRY(exg_wrap_dim(exg_get_int(&call->args[3]), out.rank, &dim, err));
    if (out.rank == 0 || places.rank != 2 || weights.rank != 2 || places.n[0] < 1 ||
        memcmp(places.n, weights.n, 2 * sizeof(places.n[0])) != 0) {
        return EXG_SHAPE_FAIL(err, "places, weights and what is there do not fit");
    }
    out.n[dim] = places.n[1];
    return exg_shape_result(call, 0, exg_shape_input(call, 0)->dtype, &out, err);
}

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
        s[i].scale = align_corners
                         ? (s[i].out > 1 ? (double)(s[i].in - 1) / (double)(s[i].out - 1) : 0)
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

/* Where output i is in the input. */
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

/* Bytes are weighed in whole parts of a power of two, and are bytes again after every dim. */
static exg_ref wide_image(exg_builder *b, exg_ref x)
{
    return exg_lower_dtype(b, x) == EXG_DTYPE_U8 ? exg_lower_cast(b, x, EXG_DTYPE_F32)
                                                 : exg_lower_wide(b, x);
}

#define WEIGHTS_MAX ((int64_t)1 << 26) /* looked at one by one */

/* How much the elements around `away` elements before an output count. */
static double weight_of(double away, uint32_t terms)
{
    const double a = -0.75;

    away = fabs(away);
    return terms == 2 ? fmax(1 - away, 0)
           : away < 1 ? ((a + 2) * away - (a + 3)) * away * away + 1
           : away < 2 ? ((a * away - 5 * a) * away + 8 * a) * away - 4 * a
                      : 0;
}

/* The parts of the weights of bytes; what would lie outside counts at the border. */
static double parts_of(exg_builder *b, const sampling *s, uint32_t terms)
{
    double most = 0;

    if (s->out > WEIGHTS_MAX) {
        exg_lower_unsupported(b, "an image of bytes brought to so large a size");
        return 1;
    }
    for (int64_t i = 0; i < s->out; i++) {
        double at = s->align_corners ? (double)i * s->scale : ((double)i + 0.5) * s->scale - 0.5;
        double low = 0;
        double high = 0;

        at = terms == 2 ? fmax(at, 0) : at;
        for (int32_t k = 1 - (int32_t)terms / 2; k <= (int32_t)terms / 2; k++) {
            const double place = floor(at) + k;
            const double weight = weight_of(at - place, terms);

            low += place <= 0 ? weight : 0;
            high += place >= (double)(s->in - 1) ? weight : 0;
            most = fmax(most, place > 0 && place < (double)(s->in - 1) ? weight : 0);
        }
        most = fmax(most, fmax(low, high));
    }
    return exg_lower_part_count(most);
}

/* The weights of what lies outside are the border's. */
static exg_ref at_border(exg_builder *b, exg_ref weights, exg_ref places, double border, bool low)
{
    const exg_argument keep = exg_arg_bool(true);
    exg_ref outside = low ? EMIT(b, lt_Scalar, places, border) : EMIT(b, gt_Scalar, places, border);
    exg_ref over = EMIT(b, mul_Tensor, weights, outside);

    over = EMIT(b, sum_dim_IntList, over, INTS(b, 0), keep);
    over = EMIT(b, mul_Tensor, over, EMIT(b, eq_Scalar, places, border));
    return EMIT(b, add_Tensor, EMIT(b, masked_fill_Scalar, weights, outside, 0), over);
}

double exg_lower_part_count(double greatest)
{
    double parts = 1;

    while (0.5 + greatest * 2 * parts < 0x1p15 && parts < 0x1p22) {
        parts *= 2;
    }
    return parts;
}

exg_ref exg_lower_whole_parts(exg_builder *b, exg_ref weights, double parts)
{
    exg_ref whole = EMIT(b, mul_Scalar, EMIT(b, abs_default, weights), parts);

    whole = EMIT(b, floor_default, EMIT(b, add_Scalar, whole, 0.5));
    return EMIT(b, copysign_Tensor, whole, weights);
}

/* What places and weights are computed in. */
static exg_dtype dtype_of_weights(exg_builder *b, exg_ref x, bool of_bytes)
{
    return of_bytes ? EXG_DTYPE_F64 : exg_lower_dtype(b, x);
}

/* The sums of elements at whole places, times weights: of `terms` each. */
static exg_ref sampled(exg_builder *b, exg_ref x, uint32_t dim, const sampling *s,
                       const exg_ref *places, const exg_ref *weights, uint32_t terms, bool of_bytes)
{
    exg_ref at = EMIT(b, stack_default, exg_arg_refs(b, places, terms), 0);
    exg_ref by = EMIT(b, stack_default, exg_arg_refs(b, weights, terms), 0);
    const double parts = of_bytes ? parts_of(b, s, terms) : 1;

    if (of_bytes) {
        by = at_border(b, by, at, 0, true);
        by = at_border(b, by, at, (double)(s->in - 1), false);
    }
    at = exg_lower_cast(b, EMIT(b, clamp_both, at, 0.0, (double)(s->in - 1)), EXG_DTYPE_I64);
    if (of_bytes) {
        by = EMIT(b, mul_Scalar, exg_lower_whole_parts(b, by, parts), 1 / parts);
        by = exg_lower_cast(b, by, exg_lower_dtype(b, x));
    }
    x = EMIT(b, resample, x, at, by, (int)dim);
    x = of_bytes ? EMIT(b, floor_default, EMIT(b, add_Scalar, x, 0.5)) : x;
    return of_bytes ? EMIT(b, clamp_both, x, 0., 255.) : x;
}

void exg_lower_upsample_linear(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    sampling s[3];
    uint32_t count = samplings(b, args, 3, exg_get_bool(&args[2]), s);
    bool of_bytes = exg_lower_dtype(b, SELF) == EXG_DTYPE_U8;
    exg_ref x = wide_image(b, SELF);

    for (uint32_t i = count; i-- > 0;) {
        exg_ref at = source(b, &s[i], dtype_of_weights(b, x, of_bytes), true);
        exg_ref below = EMIT(b, floor_default, at);
        exg_ref part = EMIT(b, sub_Tensor, at, below);
        const exg_ref places[] = {below, EMIT(b, add_Scalar, below, 1.0)};
        const exg_ref weights[] = {EMIT(b, rsub_Scalar, part, 1.0), part};

        x = sampled(b, x, 2 + i, &s[i], places, weights, 2, of_bytes);
    }
    results[0] = exg_arg_ref(exg_lower_cast(b, x, exg_lower_dtype(b, SELF)));
}

exg_ref exg_lower_cubic(exg_builder *b, exg_ref t, bool near)
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
    bool of_bytes = exg_lower_dtype(b, SELF) == EXG_DTYPE_U8;
    exg_ref x = wide_image(b, SELF);

    for (uint32_t i = count; i-- > 0;) {
        exg_ref at = source(b, &s[i], dtype_of_weights(b, x, of_bytes), false);
        exg_ref below = EMIT(b, floor_default, at);
        exg_ref part = EMIT(b, sub_Tensor, at, below);
        exg_ref places[4];
        exg_ref weights[4];

        for (int k = -1; k <= 2; k++) {
            exg_ref t = k <= 0 ? EMIT(b, add_Scalar, part, (double)-k)
                               : EMIT(b, rsub_Scalar, part, (double)k);

            places[k + 1] = EMIT(b, add_Scalar, below, (double)k);
            weights[k + 1] = exg_lower_cubic(b, t, k == 0 || k == 1);
        }
        x = sampled(b, x, 2 + i, &s[i], places, weights, 4, of_bytes);
    }
    results[0] = exg_arg_ref(exg_lower_cast(b, x, exg_lower_dtype(b, SELF)));
}

/* ---- grid sampling -------------------------------------------------------------------------- */

typedef struct grid {
    uint32_t count; /* dims: 2, 3 */
    exg_ref at[3];  /* (N, places) each, in elements; the first dim of the image first */
    exg_ref image;  /* (N, C, elements) */
    exg_dims in;    /* N C and the image's sizes */
    int64_t places;
    bool zeros; /* outside is 0; else the border */
    int64_t padding;
    bool align;
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

/* Places outside come to the border, or are mirrored. */
static exg_ref bordered(exg_builder *b, const grid *g, exg_ref x, int64_t size)
{
    x = g->padding == 2 ? reflected(b, x, size, g->align) : x;
    return g->padding == 0 ? x : EMIT(b, clamp_both, x, 0.0, (double)(size - 1));
}

/* The element at whole places, (N, places); *inside: where there is one. */
static exg_ref place_of(exg_builder *b, const grid *g, const exg_ref *at, exg_ref *inside)
{
    exg_ref place = EXG_NO_REF;

    for (uint32_t k = 0; k < g->count; k++) {
        int64_t size = g->in.n[2 + k];
        exg_ref near = EMIT(b, clamp_both, at[k], 0.0, (double)(size - 1));
        exg_ref whole = exg_lower_cast(b, near, EXG_DTYPE_I64);
        exg_ref is_in = EMIT(b, eq_Tensor, near, at[k]);

        place = k == 0 ? whole
                       : EMIT(b, add_Tensor, EMIT(b, mul_Scalar, place, exg_arg_int(size)), whole);
        *inside = k == 0 ? is_in : EMIT(b, logical_and_default, *inside, is_in);
    }
    return place;
}

/* The image at whole places, (N, C, places). */
static exg_ref at_place(exg_builder *b, const grid *g, const exg_ref *at)
{
    exg_ref inside = EXG_NO_REF;
    exg_ref place = place_of(b, g, at, &inside);
    exg_ref taken;

    place = EMIT(b, expand_default, EMIT(b, unsqueeze_default, place, 1),
                 INTS(b, g->in.n[0], g->in.n[1], g->places));
    taken = EMIT(b, gather_default, g->image, 2, place);
    return g->zeros ? EMIT(b, where_ScalarOther, EMIT(b, unsqueeze_default, inside, 1), taken, 0.0)
                    : taken;
}

#define TERMS_MAX 16

/* What is added up for each place. */
typedef struct terms {
    exg_ref places[TERMS_MAX], weights[TERMS_MAX];
    uint32_t count;
} terms;

static void add_term(exg_builder *b, const grid *g, terms *t, const exg_ref *at, exg_ref weight)
{
    exg_ref inside = EXG_NO_REF;
    exg_ref place = place_of(b, g, at, &inside);

    t->weights[t->count] = weight;
    t->places[t->count++] =
        g->zeros ? EMIT(b, where_ScalarOther, inside, place, exg_arg_int(-1)) : place;
}

static exg_ref added_up(exg_builder *b, const grid *g, const terms *t)
{
    return EMIT(b, weighted_gather, g->image,
                EMIT(b, stack_default, exg_arg_refs(b, t->places, t->count), 1),
                EMIT(b, stack_default, exg_arg_refs(b, t->weights, t->count), 1));
}

/* Of the two neighbours along every dim, as much as they are near. */
static exg_ref linear(exg_builder *b, const grid *g)
{
    exg_ref low[3];
    exg_ref part[3];
    terms t = {.count = 0};

    for (uint32_t k = 0; k < g->count; k++) {
        low[k] = EMIT(b, floor_default, g->at[k]);
        part[k] = EMIT(b, sub_Tensor, g->at[k], low[k]);
    }
    for (uint32_t corner = 0; corner < 1u << g->count; corner++) {
        exg_ref at[3];
        exg_ref weight = EXG_NO_REF;

        for (uint32_t k = 0; k < g->count; k++) {
            bool upper = (corner >> k & 1) != 0;
            exg_ref own = upper ? part[k] : EMIT(b, rsub_Scalar, part[k], 1.0);

            at[k] = upper ? EMIT(b, add_Scalar, low[k], 1.0) : low[k];
            weight = k == 0 ? own : EMIT(b, mul_Tensor, weight, own);
        }
        add_term(b, g, &t, at, weight);
    }
    return added_up(b, g, &t);
}

/* Of four neighbours along both dims of an image; each of them comes to the border alone. */
static exg_ref bicubic(exg_builder *b, const grid *g)
{
    exg_ref low[2];
    exg_ref weight[2][4];
    terms t = {.count = 0};

    for (uint32_t k = 0; k < 2; k++) {
        exg_ref part;

        low[k] = EMIT(b, floor_default, g->at[k]);
        part = EMIT(b, sub_Tensor, g->at[k], low[k]);
        for (int i = 0; i < 4; i++) {
            exg_ref away = EMIT(b, abs_default, EMIT(b, sub_Scalar, part, (double)(i - 1)));

            weight[k][i] = exg_lower_cubic(b, away, i == 1 || i == 2);
        }
    }
    for (int i = 0; i < 16; i++) {
        exg_ref at[2];

        for (uint32_t k = 0; k < 2; k++) {
            at[k] = EMIT(b, add_Scalar, low[k], (double)((k == 0 ? i / 4 : i % 4) - 1));
            at[k] = bordered(b, g, at[k], g->in.n[2 + k]);
        }
        add_term(b, g, &t, at, EMIT(b, mul_Tensor, weight[0][i / 4], weight[1][i % 4]));
    }
    return added_up(b, g, &t);
}

/* (input (N, C, sizes), grid (N, places, coordinates, the last dim's first), interpolation:
 * 0 linear, 1 nearest, 2 cubic; padding: 0 zeros, 1 border, 2 reflection; align_corners) */
void exg_lower_grid_sampler(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims by = exg_lower_dims(b, exg_get_ref(&args[1]));
    int64_t mode = exg_get_int(&args[2]);
    grid g = {.in = exg_lower_dims(b, SELF),
              .zeros = exg_get_int(&args[3]) == 0,
              .padding = exg_get_int(&args[3]),
              .align = exg_get_bool(&args[4]),
              .places = 1};
    exg_dims made = g.in;
    int64_t elements = 1;
    exg_ref places;
    exg_ref out;

    g.count = g.in.rank - 2;
    if ((g.in.rank != 4 && g.in.rank != 5) || by.rank != g.in.rank || mode < 0 || mode > 2 ||
        g.padding < 0 || g.padding > 2 || (mode == 2 && g.count == 3) ||
        EXG_END(by, 1) != (int64_t)g.count || exg_lower_numel(b, SELF) == 0) {
        exg_lower_refuse(b, "grid_sampler of a grid of other dims, or of nothing");
        return;
    }
    for (uint32_t k = 0; k < g.count; k++) {
        g.places *= by.n[1 + k];
        elements *= g.in.n[2 + k];
        made.n[2 + k] = by.n[1 + k];
    }
    g.image =
        EMIT(b, reshape_default, exg_lower_wide(b, SELF), INTS(b, g.in.n[0], g.in.n[1], elements));
    places = EMIT(b, reshape_default, exg_lower_wide(b, exg_get_ref(&args[1])),
                  INTS(b, by.n[0], g.places, (int64_t)g.count));
    for (uint32_t k = 0; k < g.count; k++) {
        exg_ref x = EMIT(b, select_int, places, 2, (int)(g.count - 1 - k));

        x = to_elements(b, x, g.in.n[2 + k], g.align);
        x = mode == 2 ? x : bordered(b, &g, x, g.in.n[2 + k]);
        g.at[k] = mode == 1 ? EMIT(b, round_default, x) : x;
    }
    out = mode == 0 ? linear(b, &g) : mode == 1 ? at_place(b, &g, g.at) : bicubic(b, &g);
    results[0] =
        exg_arg_ref(exg_lower_cast(b, exg_lower_shaped(b, out, &made), exg_lower_dtype(b, SELF)));
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
        parts[k] =
            EMIT(b, reshape_default, EMIT(b, expand_default, steps, INTS(b, size[2], size[3])),
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
    exg_ref x =
        EMIT(b, avg_pool2d_default, EMIT(b, unsqueeze_default, SELF, -2), pair_of(b, &args[1], 1),
             pair_of(b, &args[2], 1), pair_of(b, &args[3], 0), args[4], args[5]);

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

void exg_lower_adaptive_avg_pool1d(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x = EMIT(b, _adaptive_avg_pool2d_default, EMIT(b, unsqueeze_default, SELF, -2),
                     pair_of(b, &args[1], 1));

    results[0] = exg_arg_ref(EMIT(b, squeeze_dims, x, INTS(b, -2)));
}

/* x (.., D, H, W) as images: (.., H, W) each, or (D, H W). */
static exg_ref as_images(exg_builder *b, exg_ref x, bool flat)
{
    exg_dims in = exg_lower_dims(b, x);
    uint32_t k = in.rank < 3 ? 0 : in.rank - 3;
    int64_t lead = 1;

    if (in.rank < 3) { /* after a fault */
        exg_lower_refuse(b, "3-d pooling of a tensor that is no volume");
        return x;
    }
    for (uint32_t d = 0; d < k; d++) {
        lead *= in.n[d];
    }
    return flat ? EMIT(b, reshape_default, x, INTS(b, lead, in.n[k], in.n[k + 1] * in.n[k + 2]))
                : EMIT(b, reshape_default, x, INTS(b, lead * in.n[k], in.n[k + 1], in.n[k + 2]));
}

static exg_ref as_volumes(exg_builder *b, exg_ref x, exg_dims like, int64_t depth, int64_t height,
                          int64_t width)
{
    EXG_END(like, 3) = depth;
    EXG_END(like, 2) = height;
    EXG_END(like, 1) = width;
    return exg_lower_shaped(b, x, &like);
}

/* (self, output_size) */
void exg_lower_adaptive_avg_pool3d(exg_builder *b, const exg_argument *args, exg_argument *results)
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
    x = as_volumes(b, x, in, EXG_END(in, 3), out[1], out[2]);
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
    exg_ref y = EMIT(b, avg_pool2d_default, as_images(b, x, false), INTS(b, w->size[1], w->size[2]),
                     INTS(b, w->stride[1], w->stride[2]), INTS(b, w->padding[1], w->padding[2]),
                     ceil, exg_arg_bool(true), 1);

    mid = exg_lower_dims(b, y);
    y = as_volumes(b, y, in, EXG_END(in, 3), mid.n[1], mid.n[2]);
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
    x = as_volumes(b, x, in, EXG_END(in, 3), mid.n[1], mid.n[2]);
    x = EMIT(b, max_pool2d_default, as_images(b, x, true), INTS(b, w.size[0], 1),
             INTS(b, w.stride[0], 1), INTS(b, w.padding[0], 0), INTS(b, w.dilation[0], 1), args[5]);
    results[0] = exg_arg_ref(as_volumes(b, x, in, exg_lower_dims(b, x).n[1], mid.n[1], mid.n[2]));
}

/* ---- back to where it was -------------------------------------------------------------------- */

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
