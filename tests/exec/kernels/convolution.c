/* Convolution and pooling against the loops of their definition. */
#include "tests/exec/kernels/harness.h"
#include "tests/standin/amx.h"

#include <math.h>
#include <stdlib.h>

typedef struct geometry {
    uint32_t rank; /* spatial */
    int64_t batch, in, out, groups;
    int64_t size[3], kernel[3], stride[3], padding[3], dilation[3], output_padding[3];
    bool transposed;
} geometry;

static int64_t result_size(const geometry *g, uint32_t d)
{
    int64_t reach = g->dilation[d] * (g->kernel[d] - 1) + 1;

    if (g->transposed) {
        return (g->size[d] - 1) * g->stride[d] - 2 * g->padding[d] + reach + g->output_padding[d];
    }
    return (g->size[d] + 2 * g->padding[d] - reach) / g->stride[d] + 1;
}

/* What lies under one tap at each of `count` places in row-major order: an element of `other`,
 * or -1 outside of it. */
static void find_under(const geometry *g, int64_t tap, const int64_t *walked, int64_t count,
                       const int64_t *other, int64_t *under)
{
    int64_t at[3] = {0};
    int64_t along[3];

    for (uint32_t d = g->rank; d-- > 0; tap /= g->kernel[d]) {
        along[d] = tap % g->kernel[d];
    }
    for (int64_t p = 0; p < count; p++) {
        bool inside = true;

        under[p] = 0;
        for (uint32_t d = 0; d < g->rank; d++) {
            int64_t k = at[d] * g->stride[d] - g->padding[d] + along[d] * g->dilation[d];

            inside = inside && k >= 0 && k < other[d];
            under[p] = under[p] * other[d] + k;
        }
        under[p] = inside ? under[p] : -1;
        for (uint32_t d = g->rank; d-- > 0 && ++at[d] == walked[d];) {
            at[d] = 0;
        }
    }
}

/* Adds every product of the definition to its place: for a plain convolution input
 * element o * stride - padding + k * dilation, for a transposed one the other way. */
static void convolve(const geometry *g, const exg_tensor *x, const exg_tensor *w,
                     const int64_t *result, double *want)
{
    const int64_t ins = g->in / g->groups;
    const int64_t outs = g->out / g->groups;
    int64_t area = 1;
    int64_t result_area = 1;
    int64_t taps = 1;
    int64_t *under;
    double *image = values_of(x);
    double *weights = values_of(w);

    for (uint32_t d = 0; d < g->rank; d++) {
        area *= g->size[d];
        result_area *= result[d];
        taps *= g->kernel[d];
    }
    under = malloc((size_t)(area + result_area) * sizeof(*under));
    assert_non_null(under);
    for (int64_t i = 0; i < g->batch * g->out * ins * taps; i++) {
        int64_t t = i / (g->batch * g->out * ins);
        int64_t c = i % ins;
        int64_t o = i / ins % g->out;
        int64_t n = i / ins / g->out % g->batch;
        int64_t channel = o / outs * ins + c;
        int64_t filter = g->transposed ? channel * outs + o % outs : o * ins + c;
        double weight = weights[filter * taps + t];
        const double *from = image + (n * g->in + channel) * area;
        double *to = want + (n * g->out + o) * result_area;

        if (i % (g->batch * g->out * ins) == 0) {
            find_under(g, t, g->transposed ? g->size : result, g->transposed ? area : result_area,
                       g->transposed ? result : g->size, under);
        }
        for (int64_t p = 0; g->transposed && p < area; p++) {
            if (under[p] >= 0) {
                to[under[p]] += weight * from[p];
            }
        }
        for (int64_t p = 0; !g->transposed && p < result_area; p++) {
            if (under[p] >= 0) {
                to[p] += weight * from[under[p]];
            }
        }
    }
    free(under);
    free(image);
    free(weights);
}

/* Channels of a position side by side. */
static void lay_channels_last(exg_tensor *t)
{
    t->strides[1] = 1;
    t->strides[3] = t->sizes[1];
    t->strides[2] = t->sizes[3] * t->strides[3];
    t->strides[0] = t->sizes[2] * t->strides[2];
}

/* How a convolution is asked for. */
typedef struct asked {
    bool has_bias;
    bool channels_last; /* of the result; 2-d */
    bool image_last;    /* of the image */
    bool has_infinity;  /* in the image */
} asked;

static void check_convolution(const geometry *g, exg_dtype dtype, asked how)
{
    bool has_bias = how.has_bias;
    exg_argument args[] = {arg_tensor(),
                           arg_tensor(),
                           arg_tensor(),
                           arg_ints(g->rank, g->stride),
                           arg_ints(g->rank, g->padding),
                           arg_ints(g->rank, g->dilation),
                           arg_bool(g->transposed),
                           arg_ints(g->rank, g->output_padding),
                           arg_int(g->groups)};
    kernel_case c = {.kernel = &exg_kernel_convolution,
                     .args = args,
                     .arg_count = 9,
                     .input_count = 3,
                     .output_count = 1};
    int64_t sizes[5] = {g->batch, g->in};
    int64_t weights[5] = {g->transposed ? g->in : g->out,
                          (g->transposed ? g->out : g->in) / g->groups};
    int64_t results[5] = {g->batch, g->out};
    int64_t area = 1;
    int64_t terms = g->in / g->groups;
    double most = exg_dtype_is_float(dtype) ? 1 : 5; /* which no int16 sum here leaves */
    double *want;

    for (uint32_t d = 0; d < g->rank; d++) {
        sizes[2 + d] = g->size[d];
        weights[2 + d] = g->kernel[d];
        results[2 + d] = result_size(g, d);
        area *= results[2 + d];
        terms *= g->kernel[d];
    }
    c.inputs[0] = make_random(dtype, 2 + g->rank, sizes, -most, most);
    c.inputs[1] = make_random(dtype, 2 + g->rank, weights, -most, most);
    c.inputs[2] = has_bias ? make_random(dtype, 1, SIZES(g->out), -most, most) : absent_tensor();
    c.outputs[0] = make_tensor(dtype, 2 + g->rank, results);
    c.packs = c.channels_last = how.channels_last;
    if (how.channels_last) {
        lay_channels_last(&c.outputs[0]);
    }
    if (how.image_last) { /* the values lie elsewhere, and are random still */
        lay_channels_last(&c.inputs[0]);
    }
    if (how.has_infinity) {
        set(&c.inputs[0], exg_tensor_numel(&c.inputs[0]) / 2, INFINITY);
    }
    want = calloc((size_t)(g->batch * g->out * area), sizeof(double));
    assert_non_null(want);
    for (int64_t i = 0; has_bias && i < g->batch * g->out * area; i++) {
        want[i] = get(&c.inputs[2], i / area % g->out);
    }
    convolve(g, &c.inputs[0], &c.inputs[1], results + 2, want);
    expect_kernel(&c, 0, want, 2 * tolerance_of(dtype, 4 * terms));
    free(want);
    free_tensors();
}

static const geometry geometries[] = {
    {2, 2, 3, 5, 1, {13, 37}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, false},
    {2, 1, 4, 6, 2, {9, 60}, {3, 5}, {2, 1}, {1, 2}, {1, 2}, {0, 0}, false},
    {2, 2, 6, 6, 6, {9, 11}, {3, 3}, {1, 2}, {1, 1}, {1, 1}, {0, 0}, false},
    {2, 1, 6, 12, 6, {7, 600}, {2, 3}, {1, 1}, {0, 1}, {2, 2}, {0, 0}, false},
    {2, 2, 16, 20, 1, {5, 7}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, {0, 0}, false},
    {2, 2, 4, 6, 2, {5, 7}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, {0, 0}, false},
    {2, 3, 4, 6, 2, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, {0, 0}, false},
    {2, 2, 40, 80, 2, {4, 4}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, {0, 0}, false},
    {2, 1, 3, 7, 1, {32, 32}, {8, 8}, {8, 8}, {0, 0}, {1, 1}, {0, 0}, false},
    {2, 1, 40, 9, 1, {6, 6}, {3, 3}, {1, 1}, {2, 0}, {1, 1}, {0, 0}, false},
    {1, 2, 8, 4, 1, {50}, {5}, {2}, {2}, {2}, {0}, false},
    {1, 1, 300, 3, 1, {9}, {1}, {1}, {0}, {1}, {0}, false},
    {3, 1, 2, 3, 1, {5, 6, 7}, {2, 3, 3}, {1, 2, 1}, {1, 0, 1}, {1, 1, 2}, {0, 0, 0}, false},
    {2, 2, 4, 6, 2, {5, 9}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, true},
    {2, 1, 3, 5, 1, {6, 5}, {4, 2}, {2, 3}, {1, 0}, {1, 2}, {0, 2}, true},
    {1, 1, 5, 2, 1, {30}, {4}, {1}, {3}, {1}, {0}, true},
    {1, 2, 2, 3, 1, {4}, {1}, {1}, {0}, {1}, {3}, true}, /* places beyond the image */
    {3, 1, 2, 2, 1, {3, 4, 5}, {2, 2, 3}, {2, 1, 2}, {0, 1, 1}, {1, 1, 1}, {1, 0, 1}, true},
    /* a transposed one in several parts: of the channels, of rows, of the groups */
    {2, 1, 3, 6, 1, {100, 90}, {5, 5}, {2, 3}, {2, 1}, {1, 2}, {1, 2}, true},
    {1, 2, 3, 2, 1, {700}, {5}, {3}, {4}, {2}, {0}, true},
    {2, 2, 8, 4, 4, {130, 150}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {0, 0}, true},
    /* one channel a group, a plane of several tiles */
    {2, 2, 3, 3, 3, {90, 70}, {7, 7}, {1, 1}, {3, 3}, {1, 1}, {0, 0}, false},
    {2, 1, 2, 6, 2, {140, 151}, {5, 4}, {2, 3}, {4, 5}, {2, 3}, {0, 0}, false},
    {2, 1, 2, 4, 2, {31, 42}, {2, 2}, {5, 4}, {0, 1}, {1, 1}, {0, 0}, false},
    {1, 1, 2, 2, 2, {9000}, {5}, {1}, {8}, {4}, {0}, false},
    {1, 1, 2, 2, 2, {13000}, {2}, {1}, {0}, {12400}, {0}, false}, /* too far apart for a tile */
    {2, 1, 4, 4, 4, {21, 35}, {5, 5}, {1, 2}, {2, 1}, {1, 2}, {0, 0}, false},
    {2, 2, 3, 3, 3, {40, 150}, {5, 3}, {1, 1}, {2, 0}, {1, 3}, {0, 0}, false},
    {2, 1, 5, 5, 5, {7, 14}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, false},
    {2, 2, 8, 16, 2, {20, 33}, {3, 3}, {2, 1}, {1, 2}, {1, 2}, {0, 0}, false}, /* few a group */
    {2, 1, 32, 10, 2, {40, 70}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, false},
    {3, 2, 6, 8, 2, {5, 6, 7}, {2, 3, 3}, {2, 1, 2}, {1, 1, 0}, {1, 2, 1}, {0, 0, 0}, false},
    {1, 1, 16, 16, 4, {900}, {9}, {3}, {4}, {1}, {0}, false},
    {2, 2, 8, 12, 4, {9, 17}, {3, 4}, {1, 1}, {1, 2}, {1, 2}, {0, 0}, true},
    {3, 2, 3, 3, 3, {5, 6, 7}, {3, 3, 3}, {2, 2, 1}, {1, 1, 1}, {1, 1, 2}, {0, 0, 0}, false},
    {2, 2, 3, 6, 3, {9, 7}, {3, 4}, {1, 1}, {1, 4}, {1, 1}, {0, 0}, true},
    {2, 1, 3, 3, 3, {9, 7}, {3, 4}, {2, 1}, {1, 1}, {1, 2}, {1, 0}, true},
    /* of these with a stride some results have other taps, or none */
    {2, 2, 4, 4, 4, {130, 150}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {0, 0}, true},
    {2, 1, 3, 6, 3, {9, 8}, {1, 2}, {3, 2}, {0, 1}, {1, 1}, {2, 1}, true},
    {1, 2, 2, 2, 2, {30}, {4}, {4}, {1}, {6}, {1}, true},
    {3, 1, 2, 2, 2, {3, 4, 5}, {3, 2, 3}, {2, 1, 2}, {1, 0, 1}, {1, 1, 1}, {1, 0, 1}, true},
};

static void convolutions_equal_the_loops_of_their_definition(void **state)
{
    (void)state;
    for (uint32_t d = 0; d < COUNT(float_dtypes); d++) {
        for (uint32_t g = 0; g < COUNT(geometries); g++) {
            check_convolution(&geometries[g], float_dtypes[d], (asked){.has_bias = g % 2 == 0});
        }
    }
}

static void integers_are_exact(void **state)
{
    static const exg_dtype dtypes[] = {EXG_DTYPE_I64, EXG_DTYPE_I32, EXG_DTYPE_I16};

    (void)state;
    for (uint32_t d = 0; d < COUNT(dtypes); d++) {
        for (uint32_t g = d; g < COUNT(geometries); g += COUNT(dtypes)) { /* one way for all */
            check_convolution(&geometries[g], dtypes[d], (asked){.has_bias = g % 2 == 0});
        }
    }
}

static const geometry last_geometries[] = {
    {2, 1, 64, 64, 1, {12, 12}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, false},
    {2, 3, 33, 125, 1, {9, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, false},
    {2, 1, 300, 50, 1, {13, 14}, {3, 3}, {1, 1}, {0, 2}, {1, 1}, {0, 0}, false},
    {2, 2, 70, 61, 1, {9, 14}, {3, 3}, {1, 1}, {0, 0}, {1, 1}, {0, 0}, false},
    {2, 1, 64, 64, 1, {13, 12}, {3, 3}, {2, 1}, {1, 1}, {1, 1}, {0, 0}, false},
    {2, 1, 64, 64, 1, {13, 12}, {3, 3}, {1, 1}, {2, 1}, {2, 1}, {0, 0}, false},
    {2, 2, 40, 130, 1, {9, 7}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, {0, 0}, false},
    {2, 1, 3, 64, 1, {30, 31}, {7, 7}, {2, 2}, {3, 3}, {1, 1}, {0, 0}, false},
};

static void channels_last_gives_the_same(void **state)
{
    (void)state;
    for (uint32_t g = 0; g < COUNT(last_geometries); g++) {
        bool wide = last_geometries[g].in > 3; /* few channels are read row-major */

        check_convolution(&last_geometries[g], EXG_DTYPE_F32,
                          (asked){g % 2 == 0, true, wide, false});
        check_convolution(&last_geometries[g], EXG_DTYPE_F32,
                          (asked){g % 2 == 1, true, false, false});
        check_convolution(&last_geometries[g], EXG_DTYPE_BF16, (asked){true, true, wide, false});
    }
}

static void an_infinity_reaches_the_results_that_see_it(void **state)
{
    (void)state;
    for (uint32_t g = 0; g < 4; g++) {
        check_convolution(&last_geometries[g], EXG_DTYPE_F32, (asked){true, true, true, true});
    }
}

/* ---- bytes --------------------------------------------------------------------------------- */

/* What a convolution of bytes is asked with besides. */
typedef struct byte_kinds {
    exg_dtype image, weight;
    int64_t zero; /* of the image */
    bool has_zeros, has_bias, packs;
} byte_kinds;

/* sum (x - p) (w - q) + bias, without what the kernel is given for p: of the sums of x in its
 * padding and outside of it. */
static void check_bytes(const geometry *g, const byte_kinds *how)
{
    exg_argument args[] = {arg_tensor(),
                           arg_tensor(),
                           how->has_bias ? arg_tensor() : arg_none(),
                           arg_ints(g->rank, g->stride),
                           arg_ints(g->rank, g->padding),
                           arg_ints(g->rank, g->dilation),
                           arg_bool(false),
                           arg_ints(g->rank, g->output_padding),
                           arg_int(g->groups),
                           arg_int(how->zero),
                           how->has_zeros ? arg_tensor() : arg_none()};
    kernel_case c = {.kernel = &exg_kernel_convolution_of_bytes,
                     .args = args,
                     .arg_count = 11,
                     .input_count = 4,
                     .output_count = 1,
                     .packs = how->packs && (g->in > g->groups || g->groups == 1)};
    int64_t sizes[5] = {g->batch, g->in};
    int64_t weights[5] = {g->out, g->in / g->groups};
    int64_t results[5] = {g->batch, g->out};
    int64_t area = 1;
    exg_tensor centred;
    exg_tensor moved;
    double *want;

    for (uint32_t d = 0; d < g->rank; d++) {
        sizes[2 + d] = g->size[d];
        weights[2 + d] = g->kernel[d];
        results[2 + d] = result_size(g, d);
        area *= results[2 + d];
    }
    c.inputs[0] = make_random(how->image, 2 + g->rank, sizes, how->image == EXG_DTYPE_I8 ? -128 : 0,
                              how->image == EXG_DTYPE_I8 ? 128 : 256);
    c.inputs[1] =
        make_random(how->weight, 2 + g->rank, weights, how->weight == EXG_DTYPE_I8 ? -128 : 0,
                    how->weight == EXG_DTYPE_I8 ? 128 : 256);
    c.inputs[2] = how->has_bias ? make_tensor(EXG_DTYPE_I32, 1, SIZES(g->out)) : absent_tensor();
    c.inputs[3] =
        how->has_zeros ? make_random(EXG_DTYPE_I32, 1, SIZES(g->out), -128, 256) : absent_tensor();
    c.outputs[0] = make_tensor(EXG_DTYPE_I32, 2 + g->rank, results);
    centred = make_tensor(EXG_DTYPE_F64, 2 + g->rank, sizes);
    moved = make_tensor(EXG_DTYPE_F64, 2 + g->rank, weights);
    for (int64_t i = 0; i < exg_tensor_numel(&centred); i++) {
        set(&centred, i, get(&c.inputs[0], i) - (double)how->zero);
    }
    want = calloc((size_t)(g->batch * g->out * area), sizeof(double));
    assert_non_null(want);
    for (int64_t o = 0; o < g->out; o++) {
        int64_t filter = exg_tensor_numel(&moved) / g->out;
        double total = 0;

        if (how->has_zeros && o % 3 == 0) {
            set(&c.inputs[3], o, 0);
        }
        for (int64_t i = o * filter; i < (o + 1) * filter; i++) {
            total += get(&c.inputs[1], i);
            set(&moved, i, get(&c.inputs[1], i) - (how->has_zeros ? get(&c.inputs[3], o) : 0));
        }
        if (how->has_bias) { /* as programs give it */
            set(&c.inputs[2], o, -(double)how->zero * total);
        }
        for (int64_t i = 0; i < g->batch * area && !how->has_bias; i++) {
            want[(i / area * g->out + o) * area + i % area] = (double)how->zero * total;
        }
    }
    convolve(g, &centred, &moved, results + 2, want);
    expect_kernel(&c, 0, want, 0);
    free(want);
    free_tensors();
}

static void convolutions_of_bytes_are_exact(void **state)
{
    static const byte_kinds kinds[] = {
        {EXG_DTYPE_I8, EXG_DTYPE_I8, 0, false, false, false},
        {EXG_DTYPE_U8, EXG_DTYPE_I8, 131, true, true, false},
        {EXG_DTYPE_I8, EXG_DTYPE_I8, -77, false, true, true},
        {EXG_DTYPE_U8, EXG_DTYPE_U8, 255, true, false, true},
        {EXG_DTYPE_I8, EXG_DTYPE_U8, 100, true, true, true},
    };
    static const geometry more[] = {
        {2, 1, 300, 70, 1, {14, 15}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, {0, 0}, false},
        {2, 8, 3, 300, 1, {6, 5}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, {0, 0}, false},
        {2, 1, 130, 70, 1, {5, 15}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, false},
        {2, 1, 20, 130, 2, {9, 60}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {0, 0}, false},
        {2, 1, 3, 3, 3, {70, 90}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, false},
        {2, 1, 3, 6, 3, {11, 12}, {5, 3}, {3, 4}, {2, 1}, {2, 1}, {0, 0}, false},
        {3, 2, 2, 2, 2, {4, 5, 6}, {2, 3, 2}, {1, 2, 1}, {1, 1, 0}, {1, 1, 2}, {0, 0, 0}, false},
    };

    (void)state;
    for (uint32_t k = 0; k < COUNT(kinds); k++) {
        for (uint32_t g = 0; g < COUNT(geometries) && !geometries[g].transposed; g++) {
            check_bytes(&geometries[g], &kinds[k]);
        }
        for (uint32_t g = 0; g < COUNT(more); g++) {
            check_bytes(&more[g], &kinds[k]);
        }
    }
}

static void bytes_are_convolved_by_tiles_of_amx(void **state)
{
    static const byte_kinds kinds[] = {
        {EXG_DTYPE_I8, EXG_DTYPE_I8, -77, false, true, true},
        {EXG_DTYPE_U8, EXG_DTYPE_I8, 131, true, true, false},
    };
    static const geometry deep = {2,      1,      130,    70,     1,   {5, 7},
                                  {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, false};

    (void)state;
    if (getenv("EXG_KERNEL_DEVICE") != NULL || !amx_stand_in()) {
        skip();
    }
    for (uint32_t k = 0; k < COUNT(kinds); k++) {
        uint64_t before = amx_instructions();
        bool is_by_hand = amx_stands_in();

        check_bytes(&deep, &kinds[k]);
        assert_true(!is_by_hand || amx_instructions() > before);
    }
    amx_stand_down();
}

/* ---- pooling ------------------------------------------------------------------------------ */

typedef struct pooling {
    int64_t kernel[2], stride[2], padding[2], dilation[2], result[2];
} pooling;

static const pooling poolings[] = {
    {{2, 2}, {2, 2}, {0, 0}, {1, 1}, {6, 8}},  {{3, 3}, {2, 2}, {1, 1}, {1, 1}, {7, 9}},
    {{3, 2}, {1, 3}, {1, 0}, {1, 1}, {13, 5}}, {{2, 3}, {1, 1}, {1, 1}, {2, 2}, {13, 15}},
    {{3, 3}, {3, 3}, {0, 1}, {1, 1}, {5, 6}}, /* ceil_mode: the last windows hang over */
};

/* Of each of `planes` planes of 13 by 17. */
static void greatest_of_windows(const exg_tensor *x, const pooling *p, int64_t planes, double *best,
                                double *where)
{
    int64_t area = p->result[0] * p->result[1];

    for (int64_t i = 0; i < planes * area; i++) {
        best[i] = -INFINITY;
        for (int64_t t = 0; t < p->kernel[0] * p->kernel[1]; t++) {
            int64_t y = i % area / p->result[1] * p->stride[0] - p->padding[0] +
                        t / p->kernel[1] * p->dilation[0];
            int64_t z =
                i % p->result[1] * p->stride[1] - p->padding[1] + t % p->kernel[1] * p->dilation[1];

            if (y >= 0 && y < 13 && z >= 0 && z < 17 &&
                get(x, (i / area * 13 + y) * 17 + z) > best[i]) {
                best[i] = get(x, (i / area * 13 + y) * 17 + z);
                where[i] = (double)(y * 17 + z);
            }
        }
    }
}

static void check_max_pool(const pooling *p, exg_dtype dtype, int64_t planes, bool channels_last,
                           bool has_ceil_mode)
{
    exg_argument args[] = {arg_tensor(),
                           arg_ints(2, p->kernel),
                           arg_ints(2, p->stride),
                           arg_ints(2, p->padding),
                           arg_ints(2, p->dilation),
                           arg_bool(has_ceil_mode)};
    kernel_case c = {.kernel = &exg_kernel_max_pool2d_with_indices,
                     .args = args,
                     .arg_count = 6,
                     .input_count = 1,
                     .output_count = 2,
                     .channels_last = channels_last};
    int64_t area = p->result[0] * p->result[1];
    double *best = malloc((size_t)(2 * planes * area) * sizeof(double));
    double *where = malloc((size_t)(2 * planes * area) * sizeof(double));

    assert_non_null(best);
    assert_non_null(where);
    c.inputs[0] = make_random(dtype, 4, SIZES(2, planes, 13, 17), -9, 9);
    c.outputs[0] = make_tensor(dtype, 4, SIZES(2, planes, p->result[0], p->result[1]));
    c.outputs[1] = make_tensor(EXG_DTYPE_I64, 4, SIZES(2, planes, p->result[0], p->result[1]));
    if (channels_last) {
        lay_channels_last(&c.inputs[0]);
        lay_channels_last(&c.outputs[0]);
    }
    greatest_of_windows(&c.inputs[0], p, 2 * planes, best, where);
    expect_kernel(&c, 0, best, 0);
    if (!channels_last) { /* asked for when nobody asks for the places */
        expect_values(&c, 1, where, 0);
        c.outputs[1] = absent_tensor();
        expect_kernel(&c, 0, best, 0);
    }
    free(best);
    free(where);
    free_tensors();
}

static void max_pool_finds_the_first_greatest_and_its_place(void **state)
{
    (void)state;
    for (uint32_t d = 0; d < COUNT(real_dtypes); d++) {
        for (uint32_t k = 0; k < COUNT(poolings) && real_dtypes[d] != EXG_DTYPE_B8; k++) {
            check_max_pool(&poolings[k], real_dtypes[d], 3, false, k == 4);
        }
    }
}

static void max_pool_of_channels_side_by_side_finds_the_same(void **state)
{
    static const exg_dtype dtypes[] = {EXG_DTYPE_F32, EXG_DTYPE_BF16, EXG_DTYPE_F16};

    (void)state;
    for (uint32_t d = 0; d < COUNT(dtypes); d++) {
        for (uint32_t k = 0; k < COUNT(poolings); k++) {
            check_max_pool(&poolings[k], dtypes[d], k == 1 ? 300 : 5, true, k == 4);
        }
    }
}

static void average_pool_divides_by_what_its_options_say(void **state)
{
    (void)state;
    for (uint32_t d = 0; d < COUNT(float_dtypes); d++) {
        for (uint32_t k = 0; k < 9; k++) {
            const pooling *p = &poolings[k / 3];
            bool counts_padding = k % 3 == 0;
            int64_t divisor = k % 3 == 2 ? 5 : 0;
            exg_argument args[] = {arg_tensor(),
                                   arg_ints(2, p->kernel),
                                   arg_ints(2, p->stride),
                                   arg_ints(2, p->padding),
                                   arg_bool(false),
                                   arg_bool(counts_padding),
                                   divisor != 0 ? arg_int(divisor) : arg_none()};
            kernel_case c = {.kernel = &exg_kernel_avg_pool2d,
                             .args = args,
                             .arg_count = 7,
                             .input_count = 1,
                             .output_count = 1};
            exg_tensor x = make_random(float_dtypes[d], 3, SIZES(3, 13, 17), -1, 1);
            int64_t area = p->result[0] * p->result[1];
            double *want = calloc((size_t)(3 * area), sizeof(double));

            for (int64_t i = 0; i < 3 * area; i++) {
                int64_t inside = 0;

                for (int64_t t = 0; t < p->kernel[0] * p->kernel[1]; t++) {
                    int64_t y =
                        i % area / p->result[1] * p->stride[0] - p->padding[0] + t / p->kernel[1];
                    int64_t z = i % p->result[1] * p->stride[1] - p->padding[1] + t % p->kernel[1];

                    if (y >= 0 && y < 13 && z >= 0 && z < 17) {
                        want[i] += get(&x, (i / area * 13 + y) * 17 + z);
                        inside++;
                    }
                }
                want[i] /= (double)(divisor != 0     ? divisor
                                    : counts_padding ? p->kernel[0] * p->kernel[1]
                                                     : inside);
            }
            c.inputs[0] = x;
            c.outputs[0] = make_tensor(float_dtypes[d], 3, SIZES(3, p->result[0], p->result[1]));
            expect_kernel(&c, 0, want, tolerance_of(float_dtypes[d], 9));
            free(want);
            free_tensors();
        }
    }
}

/* (height, width) to (rows, columns) */
static void check_adaptive_pool(exg_dtype dtype, int64_t height, int64_t width, int64_t rows,
                                int64_t columns)
{
    exg_argument args[] = {arg_tensor(), arg_ints(2, SIZES(rows, columns))};
    kernel_case c = {.kernel = &exg_kernel_adaptive_avg_pool2d,
                     .args = args,
                     .arg_count = 2,
                     .input_count = 1,
                     .output_count = 1};
    exg_tensor x = make_random(dtype, 4, SIZES(2, 3, height, width), -1, 1);
    int64_t area = rows * columns;
    double *want = calloc((size_t)(6 * area), sizeof(double));

    assert_non_null(want);
    for (int64_t i = 0; i < 6 * area; i++) {
        int64_t row = i % area / columns;
        int64_t column = i % columns;
        int64_t y0 = row * height / rows;
        int64_t y1 = ((row + 1) * height + rows - 1) / rows;
        int64_t x0 = column * width / columns;
        int64_t x1 = ((column + 1) * width + columns - 1) / columns;

        for (int64_t y = y0; y < y1; y++) {
            for (int64_t z = x0; z < x1; z++) {
                want[i] +=
                    get(&x, (i / area * height + y) * width + z) / (double)((y1 - y0) * (x1 - x0));
            }
        }
    }
    c.inputs[0] = x;
    c.outputs[0] = make_tensor(dtype, 4, SIZES(2, 3, rows, columns));
    expect_kernel(&c, 0, want, tolerance_of(dtype, 20));
    free(want);
    free_tensors();
}

static void adaptive_pool_averages_overlapping_stretches(void **state)
{
    (void)state;
    for (uint32_t d = 0; d < COUNT(float_dtypes); d++) {
        check_adaptive_pool(float_dtypes[d], 13, 17, 5, 4);
        check_adaptive_pool(float_dtypes[d], 13, 17, 1, 1);
        check_adaptive_pool(float_dtypes[d], 12, 18, 4, 6);
        check_adaptive_pool(float_dtypes[d], 3, 5, 6, 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_equal_the_loops_of_their_definition),
        cmocka_unit_test(integers_are_exact),
        cmocka_unit_test(channels_last_gives_the_same),
        cmocka_unit_test(convolutions_of_bytes_are_exact),
        cmocka_unit_test(bytes_are_convolved_by_tiles_of_amx),
        cmocka_unit_test(an_infinity_reaches_the_results_that_see_it),
        cmocka_unit_test(max_pool_finds_the_first_greatest_and_its_place),
        cmocka_unit_test(max_pool_of_channels_side_by_side_finds_the_same),
        cmocka_unit_test(average_pool_divides_by_what_its_options_say),
        cmocka_unit_test(adaptive_pool_averages_overlapping_stretches),
    };

    return cmocka_run_group_tests_name("convolution", tests, NULL, NULL);
}
