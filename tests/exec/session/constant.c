/* constant.c - what a session makes of weights before it runs: packed matrices, folded
 * batch norms, results with their channels last. Compared with loops that do none of it. */
#include <exg/emit.h>

#include "libexport/base/element.h"

#include <exg/exec.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct made {
    exg_operators *operators;
    exg_program *program;
    exg_builder *b;
} made;

static void begin(made *m)
{
    assert_int_equal(exg_operators_create(&m->operators, NULL), EXG_OK);
    assert_int_equal(exg_program_create(NULL, UINT64_MAX, &m->program, NULL), EXG_OK);
    assert_int_equal(exg_builder_create(m->operators, m->program, &m->b, NULL), EXG_OK);
}

static int64_t count_of(const int64_t *sizes, uint32_t rank)
{
    int64_t count = 1;

    for (uint32_t d = 0; d < rank; d++) {
        count *= sizes[d];
    }
    return count;
}

/* Values that are exact in bf16. */
static float *values(int64_t count, uint32_t seed)
{
    float *v = malloc((size_t)(count + 1) * sizeof(*v));

    assert_non_null(v);
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        v[i] = (float)((int)(seed >> 24) - 128) / 64.0f;
    }
    return v;
}

static exg_ref weight(made *m, const char *name, const float *v, uint32_t rank,
                      const int64_t *sizes, exg_dtype dtype)
{
    exg_tensor_meta meta = exg_builder_meta(m->b, dtype, sizes, rank);
    int64_t count = count_of(sizes, rank);
    uint16_t *narrow = malloc((size_t)(count + 1) * 2);
    exg_ref ref;

    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;

        memcpy(&bits, &v[i], 4);
        narrow[i] = (uint16_t)(bits >> 16);
    }
    ref = exg_builder_weight(m->b, name, &meta, EXG_INPUT_PARAMETER,
                             dtype == EXG_DTYPE_BF16 ? (const void *)narrow : v);
    free(narrow);
    return ref;
}

static exg_ref user(made *m, uint32_t rank, const int64_t *sizes, exg_dtype dtype)
{
    exg_tensor_meta meta = exg_builder_meta(m->b, dtype, sizes, rank);

    return exg_builder_input(m->b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
}

static double element(const exg_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case EXG_DTYPE_F64:
        return ((const double *)t->data)[i];
    case EXG_DTYPE_F32:
        return (double)((const float *)t->data)[i];
    case EXG_DTYPE_I8:
        return ((const int8_t *)t->data)[i];
    case EXG_DTYPE_F16:
        return (double)exg_f16_to_f32(((const uint16_t *)t->data)[i]);
    default:
        return (double)exg_bf16_to_f32(((const uint16_t *)t->data)[i]);
    }
}

/* Runs with `x` and compares output 0; twice, since the first run makes the constants. */
static void check(made *m, exg_ref y, float *x, uint32_t rank, const int64_t *sizes,
                  exg_dtype dtype, const float *want, double tolerance, const char *what,
                  exg_plan_summary *summary)
{
    exg_argument out = exg_arg_ref(y);
    exg_session_options options = {.size = sizeof(options), .thread_count = 2};
    exg_session_input input = {.name = "x", .tensor = {.data = x, .dtype = dtype, .rank = rank}};
    uint16_t *narrow = malloc((size_t)(count_of(sizes, rank) + 1) * 2);
    exg_verified verified;
    exg_session *session;
    exg_error err;

    exg_builder_output(m->b, &out, EXG_OUTPUT_USER, NULL);
    assert_int_equal(exg_builder_finish(m->b, &err), EXG_OK);
    assert_int_equal(exg_verify(m->program, m->operators, &verified, NULL, &err), EXG_OK);
    assert_int_equal(exg_session_create(&verified, &options, &session, &err), EXG_OK);
    memcpy(input.tensor.sizes, sizes, rank * sizeof(*sizes));
    exg_tensor_set_contiguous(&input.tensor);
    for (int64_t i = 0; i < count_of(sizes, rank); i++) {
        uint32_t bits;

        memcpy(&bits, &x[i], 4);
        narrow[i] = (uint16_t)(bits >> 16);
    }
    if (dtype == EXG_DTYPE_BF16) {
        input.tensor.data = narrow;
    }
    for (int run = 0; run < 2; run++) {
        const exg_tensor *got;

        if (exg_session_run(session, &input, 1, &err) != EXG_OK) {
            fail_msg("%s: %s", what, err.message);
        }
        got = &exg_session_output_at(session, 0)->tensor;
        for (int64_t i = 0; i < exg_tensor_numel(got); i++) {
            double value = element(got, i);

            if (!(fabs(value - (double)want[i]) <= tolerance * (1 + fabs((double)want[i])))) {
                fail_msg("%s, run %d: element %lld is %g, not %g", what, run, (long long)i, value,
                         (double)want[i]);
            }
        }
    }
    *summary = *exg_session_statistics(session)->plan;
    free(narrow);
    exg_session_destroy(session);
    exg_program_destroy(m->program);
    exg_operators_destroy(m->operators);
}

/* ---- products --------------------------------------------------------------------------- */

static void product(int64_t rows, int64_t depth, int64_t columns, exg_dtype dtype, bool transposed)
{
    int64_t x_sizes[2] = {rows, depth};
    int64_t w_sizes[2] = {transposed ? depth : columns, transposed ? columns : depth};
    float *x = values(rows * depth, 1);
    float *w = values(depth * columns, 2);
    float *bias = values(columns, 3);
    float *want = malloc((size_t)(rows * columns) * sizeof(*want));
    exg_plan_summary summary;
    char what[80];
    exg_ref in, wr, br;
    made m;

    begin(&m);
    in = user(&m, 2, x_sizes, dtype);
    wr = weight(&m, "w", w, 2, w_sizes, dtype);
    br = weight(&m, "b", bias, 1, &columns, dtype);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            double sum = (double)bias[j];

            for (int64_t k = 0; k < depth; k++) {
                sum += (double)x[i * depth + k] *
                       (double)w[transposed ? k * columns + j : j * depth + k];
            }
            want[i * columns + j] = (float)sum;
        }
    }
    snprintf(what, sizeof(what), "%s %lld,%lld,%lld %s", transposed ? "addmm" : "linear",
             (long long)rows, (long long)depth, (long long)columns, exg_dtype_name(dtype));
    in = transposed ? EMIT(m.b, addmm_default, br, in, wr) : EMIT(m.b, linear_default, in, wr, br);
    check(&m, in, x, 2, x_sizes, dtype, want, dtype == EXG_DTYPE_BF16 ? 8e-3 : 1e-4, what,
          &summary);
    /* one row reads a weight that is dense along the depth where it is */
    assert_int_equal(summary.constant_bytes > 0,
                     depth * columns >= 4096 && (rows > 1 || transposed));
    free(x);
    free(w);
    free(bias);
    free(want);
}

/* x w, less one vector, times another, and so on; `want` becomes or gains that. */
static exg_ref arranged(made *m, exg_ref in, const float *x, int which, bool adds, float *want)
{
    static const int64_t sizes[2] = {64, 64};
    float *w = values(64 * 64, 10 + (uint32_t)which);
    char name[] = {'w', (char)('0' + which), 0};
    exg_ref y = EMIT(m->b, mm_default, in, weight(m, name, w, 2, sizes, EXG_DTYPE_F32));
    float *v[4];

    for (int i = 0; i < 4; i++) {
        char vector[] = {'v', (char)('0' + which), (char)('0' + i), 0};
        exg_ref ref;

        v[i] = values(64, 20 + (uint32_t)(4 * which + i));
        ref = weight(m, vector, v[i], 1, sizes, EXG_DTYPE_F32);
        y = i % 2 == 0 ? EMIT(m->b, sub_Tensor, y, ref, 1) : EMIT(m->b, mul_Tensor, y, ref);
    }
    for (int64_t e = 0; e < 64 * 64; e++) {
        double sum = 0;

        for (int64_t k = 0; k < 64; k++) {
            sum += (double)x[e / 64 * 64 + k] * (double)w[k * 64 + e % 64];
        }
        for (int i = 0; i < 4; i++) {
            sum = i % 2 == 0 ? sum - (double)v[i][e % 64] : sum * (double)v[i][e % 64];
        }
        want[e] = (float)sum + (adds ? want[e] : 0);
    }
    for (int i = 0; i < 4; i++) {
        free(v[i]);
    }
    free(w);
    return y;
}

/* Together they read more than one step may. */
static void each_of_two_products_finishes_with_its_own(void **state)
{
    static const int64_t sizes[2] = {64, 64};
    float *x = values(64 * 64, 1);
    float *want = malloc(64 * 64 * sizeof(*want));
    exg_plan_summary summary;
    exg_ref in, one, other;
    made m;

    (void)state;
    begin(&m);
    in = user(&m, 2, sizes, EXG_DTYPE_F32);
    one = arranged(&m, in, x, 0, false, want);
    other = arranged(&m, in, x, 1, true, want);
    check(&m, EMIT(m.b, add_Tensor, one, other, 1), x, 2, sizes, EXG_DTYPE_F32, want, 1e-4, "two",
          &summary);
    assert_int_equal(summary.step_count, 2);
    free(x);
    free(want);
}

static void packed_matrices_give_the_same_products(void **state)
{
    static const int64_t shapes[][3] = {{1, 64, 64},   {1, 300, 530}, {2, 257, 97},   {5, 600, 48},
                                        {64, 64, 100}, {65, 70, 900}, {130, 300, 60}, {3, 8, 8}};

    (void)state;
    for (uint32_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
        for (int kind = 0; kind < 4; kind++) {
            product(shapes[s][0], shapes[s][1], shapes[s][2],
                    kind < 2 ? EXG_DTYPE_F32 : EXG_DTYPE_BF16, kind % 2 != 0);
        }
    }
}

/* ---- tables that are weights too ------------------------------------------------------------ */

#define IDS 5

typedef enum use { LINEAR, TRANSPOSED_MM, PLAIN_MM, USE_COUNT } use;

/* w, (rows, width), of the dtype; the caller frees it. */
static void *stored(const float *w, int64_t count, exg_dtype dtype)
{
    char *bytes = malloc((size_t)count * 8);

    assert_non_null(bytes);
    for (int64_t i = 0; i < count; i++) {
        const double wide = (double)w[i];
        const uint16_t narrow =
            dtype == EXG_DTYPE_F16 ? exg_f32_to_f16(w[i]) : exg_f32_to_bf16(w[i]);

        if (dtype == EXG_DTYPE_I8) {
            bytes[i] = (char)(w[i] * 64);
        } else if (dtype == EXG_DTYPE_F64) {
            memcpy(bytes + i * 8, &wide, 8);
        } else if (dtype == EXG_DTYPE_F32) {
            memcpy(bytes + i * 4, &w[i], 4);
        } else {
            memcpy(bytes + i * 2, &narrow, 2);
        }
    }
    return bytes;
}

static exg_session *tied(made *m, int64_t rows, int64_t width, exg_dtype dtype, use kind,
                         const void *table)
{
    const int64_t sizes[] = {rows, width};
    const int64_t count = IDS;
    exg_session_options options = {.size = sizeof(options), .thread_count = 2};
    exg_tensor_meta meta;
    exg_verified verified;
    exg_session *session;
    exg_argument out;
    exg_ref w, ids, y;
    exg_error err;

    begin(m);
    meta = exg_builder_meta(m->b, dtype, sizes, 2);
    w = exg_builder_weight(m->b, "w", &meta, EXG_INPUT_PARAMETER, table);
    ids = user(m, 1, &count, EXG_DTYPE_I64);
    y = EMIT(m->b, embedding_default, w, ids, -1, false, false);
    out = exg_arg_ref(y);
    exg_builder_output(m->b, &out, EXG_OUTPUT_USER, NULL);
    out = exg_arg_ref(kind == LINEAR     ? EMIT(m->b, linear_default, y, w, exg_arg_none())
                      : kind == PLAIN_MM ? EMIT(m->b, mm_default, y, w)
                                         : EMIT(m->b, mm_default, y, EMIT(m->b, t_default, w)));
    exg_builder_output(m->b, &out, EXG_OUTPUT_USER, NULL);
    assert_int_equal(exg_builder_finish(m->b, &err), EXG_OK);
    assert_int_equal(exg_verify(m->program, m->operators, &verified, NULL, &err), EXG_OK);
    assert_int_equal(exg_session_create(&verified, &options, &session, &err), EXG_OK);
    return session;
}

/* The rows of the table by its columns, or itself. */
static void check_tied_product(const exg_tensor *got, const float *w, const int64_t *ids,
                               int64_t rows, int64_t width, use kind)
{
    const double tolerance = got->dtype == EXG_DTYPE_BF16  ? 8e-3
                             : got->dtype == EXG_DTYPE_F16 ? 1e-3
                                                           : 1e-5;

    assert_int_equal(exg_tensor_numel(got), IDS * rows);
    for (int64_t i = 0; i < IDS * rows; i++) {
        const float *a = w + ids[i / rows] * width;
        const int64_t j = i % rows;
        double sum = 0;

        for (int64_t k = 0; k < width; k++) {
            sum += (double)a[k] * (double)w[kind == PLAIN_MM ? k * width + j : j * width + k];
        }
        if (got->dtype == EXG_DTYPE_I8) { /* which wraps */
            sum = (int8_t)(int64_t)(sum * 64 * 64);
        }
        if (!(fabs(element(got, i) - sum) <= tolerance * (1 + fabs(sum)))) {
            fail_msg("%s, use %d: element %lld of the product is %g, not %g",
                     exg_dtype_name(got->dtype), (int)kind, (long long)i, element(got, i), sum);
        }
    }
}

static void check_tied(int64_t rows, int64_t width, exg_dtype dtype, use kind)
{
    const int64_t ids[IDS] = {rows - 1, 0, rows / 2, 1, rows / 3};
    const int64_t wrong[IDS] = {0, 0, 0, rows, 0};
    const size_t bytes = (size_t)width * exg_dtype_bytes(dtype);
    exg_session_input input = {
        .name = "x", .tensor = {.dtype = EXG_DTYPE_I64, .rank = 1, .sizes = {IDS}, .strides = {1}}};
    float *w = values(rows * width, 4);
    char *table = stored(w, rows * width, dtype);
    exg_session *session;
    exg_error err = {0};
    made m;

    session = tied(&m, rows, width, dtype, kind, table);
    for (int run = 0; run < 3; run++) {
        input.tensor.data = (void *)(uintptr_t)(run == 1 ? wrong : ids);
        assert_int_equal(exg_session_run(session, &input, 1, &err) != EXG_OK, run == 1);
        assert_string_equal(err.code, run == 1 ? "RUN-001" : "");
        exg_error_clear(&err);
        for (int64_t i = 0; run != 1 && i < IDS; i++) {
            const char *got = exg_session_output_at(session, 0)->tensor.data;

            assert_memory_equal(got + (size_t)i * bytes, table + (size_t)ids[i] * bytes, bytes);
        }
        if (run != 1) {
            check_tied_product(&exg_session_output_at(session, 1)->tensor, w, ids, rows, width,
                               kind);
        }
    }
    if (dtype != EXG_DTYPE_I8) { /* of bytes products pack theirs, and leave the table */
        assert_int_equal(exg_session_statistics(session)->plan->constant_bytes > 0,
                         kind != PLAIN_MM);
    }
    exg_session_destroy(session);
    exg_program_destroy(m.program);
    exg_operators_destroy(m.operators);
    free(table);
    free(w);
}

/* The rows of a table of which a product has made its own order come from there. */
static void a_table_that_a_product_has_packed_is_read_there(void **state)
{
    static const exg_dtype dtypes[] = {EXG_DTYPE_F32, EXG_DTYPE_F64, EXG_DTYPE_BF16, EXG_DTYPE_F16,
                                       EXG_DTYPE_I8};
    static const int64_t shapes[][2] = {{100, 64}, {530, 300}, {97, 1031}, {70, 70}};

    (void)state;
    for (uint32_t i = 0; i < 5 * 4 * USE_COUNT; i++) {
        const int64_t *n = shapes[i / 5 % 4];

        if (i / 20 != PLAIN_MM || n[0] == n[1]) { /* takes w itself: no rows of the table there */
            check_tied(n[0], n[1], dtypes[i % 5], (use)(i / 20));
        }
    }
}

/* ---- convolutions ------------------------------------------------------------------------ */

typedef struct shape {
    int64_t batch, in, height, width, out, kernel, stride, padding, dilation;
} shape;

static int64_t result_size(int64_t size, const shape *s)
{
    return (size + 2 * s->padding - s->dilation * (s->kernel - 1) - 1) / s->stride + 1;
}

/* relu(scale * (conv(x) - mean) + shift) by definition. */
static void reference(const shape *s, const float *x, const float *w, const float *mean,
                      const float *scale, const float *shift, float *y)
{
    int64_t oh = result_size(s->height, s);
    int64_t ow = result_size(s->width, s);

    for (int64_t at = 0; at < s->batch * s->out * oh * ow; at++) {
        int64_t n = at / (s->out * oh * ow), o = at / (oh * ow) % s->out;
        double sum = 0;

        for (int64_t k = 0; k < s->in * s->kernel * s->kernel; k++) {
            int64_t c = k / (s->kernel * s->kernel);
            int64_t i = at / ow % oh * s->stride + k / s->kernel % s->kernel * s->dilation;
            int64_t j = at % ow * s->stride + k % s->kernel * s->dilation;

            i -= s->padding;
            j -= s->padding;
            if (i >= 0 && i < s->height && j >= 0 && j < s->width) {
                sum += (double)x[((n * s->in + c) * s->height + i) * s->width + j] *
                       (double)w[o * s->in * s->kernel * s->kernel + k];
            }
        }
        if (mean != NULL) {
            sum = (sum - (double)mean[o]) * (double)scale[o] + (double)shift[o];
        }
        y[at] = sum > 0 ? (float)sum : 0;
    }
}

static exg_ref convolve(made *m, const shape *s, exg_ref x, exg_ref w)
{
    return EMIT(m->b, convolution_default, x, w, exg_arg_none(), INTS(m->b, s->stride, s->stride),
                INTS(m->b, s->padding, s->padding), INTS(m->b, s->dilation, s->dilation), false,
                INTS(m->b, 0, 0), 1);
}

/* relu(norm(conv(x))), and a second convolution that reads what the first left. */
static void two_convolutions(const shape *s)
{
    int64_t middle[2] = {result_size(s->height, s), result_size(s->width, s)};
    shape second = {s->batch, s->out, middle[0], middle[1], 12, 3, 1, 1, 1};
    int64_t x_sizes[4] = {s->batch, s->in, s->height, s->width};
    int64_t w_sizes[4] = {s->out, s->in, s->kernel, s->kernel};
    int64_t v_sizes[4] = {12, s->out, 3, 3};
    int64_t channel[4] = {1, s->out, 1, 1};
    float *x = values(count_of(x_sizes, 4), 1);
    float *w = values(count_of(w_sizes, 4), 2);
    float *v = values(count_of(v_sizes, 4), 3);
    float *norms[3] = {values(s->out, 4), values(s->out, 5), values(s->out, 6)};
    float *half = malloc((size_t)(s->batch * s->out * second.height * second.width + 1) * 4);
    float *want = malloc((size_t)(s->batch * 12 * second.height * second.width + 1) * 4);
    exg_plan_summary summary;
    char what[100];
    exg_ref y;
    made m;

    begin(&m);
    y = user(&m, 4, x_sizes, EXG_DTYPE_F32);
    y = convolve(&m, s, y, weight(&m, "w", w, 4, w_sizes, EXG_DTYPE_F32));
    y = EMIT(m.b, sub_Tensor, y, weight(&m, "mean", norms[0], 4, channel, EXG_DTYPE_F32));
    y = EMIT(m.b, mul_Tensor, y, weight(&m, "scale", norms[1], 4, channel, EXG_DTYPE_F32));
    y = EMIT(m.b, add_Tensor, y, weight(&m, "shift", norms[2], 4, channel, EXG_DTYPE_F32));
    y = EMIT(m.b, relu_default, y);
    y = convolve(&m, &second, y, weight(&m, "v", v, 4, v_sizes, EXG_DTYPE_F32));
    y = EMIT(m.b, relu_default, y);
    reference(s, x, w, norms[0], norms[1], norms[2], half);
    reference(&second, half, v, NULL, NULL, NULL, want);
    snprintf(what, sizeof(what), "convolution of %lld,%lld,%lld,%lld, %lld by %lld",
             (long long)s->batch, (long long)s->in, (long long)s->height, (long long)s->width,
             (long long)s->out, (long long)s->kernel);
    check(&m, y, x, 4, x_sizes, EXG_DTYPE_F32, want, 1e-3, what, &summary);
    assert_true(summary.step_count <= 6); /* the norm is gone: convolutions, relus, a copy */
    free(x);
    free(w);
    free(v);
    for (int i = 0; i < 3; i++) {
        free(norms[i]);
    }
    free(half);
    free(want);
}

static void folded_and_turned_convolutions_give_the_same(void **state)
{
    static const shape shapes[] = {
        {1, 3, 20, 23, 64, 7, 2, 3, 1}, {2, 3, 9, 8, 70, 3, 1, 1, 1},
        {1, 64, 7, 7, 64, 1, 1, 0, 1},  {2, 32, 9, 11, 48, 3, 2, 1, 1},
        {1, 40, 6, 5, 33, 3, 1, 2, 2},  {1, 64, 8, 8, 24, 1, 2, 0, 1},
        {3, 20, 5, 5, 9, 5, 1, 4, 1},   {1, 2, 30, 4, 80, 4, 3, 3, 2},
        {1, 300, 4, 4, 16, 3, 1, 1, 1},
    };

    (void)state;
    for (uint32_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
        two_convolutions(&shapes[s]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_matrices_give_the_same_products),
        cmocka_unit_test(a_table_that_a_product_has_packed_is_read_there),
        cmocka_unit_test(each_of_two_products_finishes_with_its_own),
        cmocka_unit_test(folded_and_turned_convolutions_give_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
