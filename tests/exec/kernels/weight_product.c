/* Rows by weights of bytes, float8 and half bytes against the sum in double: sizes around every
 * vector, block and tile, all the factors a weight may have. */
#include "tests/exec/kernels/harness.h"
#include "tests/exec/kernels/on_device.h"

#include <stdlib.h>

typedef struct weight_case {
    int64_t m, k, n, groups;
} weight_case;

static const weight_case shapes[] = {
    {1, 1, 1, 1},       {1, 16, 4, 1},   {1, 15, 3, 1},   {2, 31, 5, 1},    {3, 64, 9, 2},
    {1, 130, 70, 1},    {5, 128, 6, 4},  {7, 515, 5, 5},  {1, 96, 4, 3},    {8, 96, 11, 6},
    {4, 384, 12, 12},   {1, 640, 33, 5}, {9, 96, 50, 3},  {20, 515, 49, 5}, {33, 640, 97, 20},
    {210, 128, 7, 1},   {0, 32, 8, 2},   {2, 640, 7, 20}, {6, 1024, 4, 1},  {40, 48, 3, 3},
    {1, 4096, 8, 1024},
};

/* Which factors there are, and what each tells apart. */
typedef enum factors {
    NONE,
    A_ROW,          /* scale (n, 1) */
    A_GROUP,        /* scale (n, groups) */
    GROUPS_AND_ROW, /* and zero (1, groups) */
    ALL,            /* zero and offset (n, groups), bias */
    NUMBERS,        /* factor, point */
    FACTORS
} factors;

static exg_tensor factor(bool is_given, exg_dtype dtype, int64_t rows, int64_t groups, double most)
{
    return is_given ? make_random(dtype, 2, SIZES(rows, groups), -most, most) : absent_tensor();
}

static double at(const exg_tensor *t, int64_t j, int64_t g, double otherwise)
{
    int64_t index[2] = {j, g};

    if (exg_tensor_is_absent(t)) {
        return otherwise;
    }
    index[0] = t->sizes[0] == 1 ? 0 : j;
    index[1] = t->sizes[1] == 1 ? 0 : g;
    return get_at(t, index);
}

static double *wanted(const kernel_case *c, const weight_case *s, double number, double point)
{
    double *want = calloc((size_t)(s->m * s->n) + 1, sizeof(*want));
    double *w = calloc((size_t)(s->n * s->k) + 1, sizeof(*w));
    double *x = values_of(&c->inputs[0]);
    double *q = values_of(&c->inputs[1]);

    assert_non_null(want);
    assert_non_null(w);
    for (int64_t i = 0; i < s->n * s->k; i++) {
        int64_t j = i / s->k;
        int64_t g = i % s->k / (s->k / s->groups);

        w[i] = (q[i] - point - at(&c->inputs[3], j, g, 0)) * at(&c->inputs[2], j, g, 1) * number +
               at(&c->inputs[4], j, g, 0);
    }
    for (int64_t i = 0; i < s->m * s->n; i++) {
        want[i] = exg_tensor_is_absent(&c->inputs[5]) ? 0 : get(&c->inputs[5], i % s->n);
        for (int64_t k = 0; k < s->k; k++) {
            want[i] += x[i / s->n * s->k + k] * w[i % s->n * s->k + k];
        }
    }
    free(w);
    free(x);
    free(q);
    return want;
}

static void check(const weight_case *s, exg_dtype stored, exg_dtype dtype, factors f, bool is_half)
{
    const double number = f == NUMBERS ? -0.25 : 1;
    const double point = f == NUMBERS ? 3 : 0;
    const double low = is_half ? -5 : stored == EXG_DTYPE_U8 ? 0 : -128;
    const double high = is_half ? 11 : stored == EXG_DTYPE_U8 ? 256 : 128;
    exg_argument args[] = {arg_tensor(),      arg_tensor(),     arg_tensor(),
                           arg_tensor(),      arg_tensor(),     arg_tensor(),
                           arg_float(number), arg_float(point), is_half ? arg_int(-5) : arg_none(),
                           arg_dtype(dtype),  arg_dtype(dtype)};
    kernel_case c = {.kernel = &exg_kernel_weight_product,
                     .args = args,
                     .arg_count = 11,
                     .input_count = 6,
                     .output_count = 1,
                     .packs = is_half};
    bool is_rounded;
    double *want;

    c.inputs[0] = make_random(dtype, 3, SIZES(1, s->m, s->k), -1. / 128, 1. / 128);
    c.inputs[1] = make_random(stored, 2, SIZES(s->n, s->k), low, high);
    c.inputs[2] = factor(f >= A_ROW && f <= ALL, dtype, s->n, f == A_ROW ? 1 : s->groups, 1);
    c.inputs[3] =
        factor(f == GROUPS_AND_ROW || f == ALL, dtype, f == ALL ? s->n : 1, s->groups, 64);
    c.inputs[4] = factor(f == ALL, dtype, s->n, s->groups, 64);
    c.inputs[5] = f == ALL ? make_random(dtype, 1, SIZES(s->n), -1, 1) : absent_tensor();
    c.outputs[0] = make_tensor(dtype, 3, SIZES(1, s->m, s->n));
    want = wanted(&c, s, number, point);
    /* by many rows of bf16 elements are bf16 too, as they are in the program that means them; on a
     * device so are those of f16 */
    is_rounded = s->m > 8 && (dtype == EXG_DTYPE_BF16 || (dtype == EXG_DTYPE_F16 && on_device()));
    expect_kernel(&c, 0, want, tolerance_of(dtype, 4 * s->k) * (is_rounded ? 8 : 1));
    free(want);
    free_tensors();
}

static void bytes_are_multiplied_where_they_are(void **state)
{
    static const exg_dtype stored[] = {EXG_DTYPE_I8, EXG_DTYPE_U8, EXG_DTYPE_F8E4M3FN};

    (void)state;
    for (uint32_t i = 0; i < COUNT(shapes); i++) {
        for (uint32_t d = 0; d < COUNT(stored); d++) {
            for (uint32_t f = 0; f < FACTORS; f++) {
                static const exg_dtype dtypes[] = {EXG_DTYPE_F32, EXG_DTYPE_BF16, EXG_DTYPE_F16};

                if (dtypes[(i + f) % 3] != EXG_DTYPE_F16 || stored[d] != EXG_DTYPE_F8E4M3FN) {
                    check(&shapes[i], stored[d], dtypes[(i + f) % 3], (factors)f, false);
                }
            }
        }
    }
}

static void half_bytes_are_packed_once(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < COUNT(shapes); i++) {
        const weight_case *s = &shapes[i];

        if (s->groups > 1 && s->k / s->groups % 16 != 0) {
            continue; /* those stay bytes */
        }
        for (uint32_t f = 0; f < FACTORS; f++) {
            check(s, EXG_DTYPE_I8, EXG_DTYPE_F32, (factors)f, true);
            check(s, EXG_DTYPE_I8, EXG_DTYPE_BF16, (factors)f, true);
        }
    }
}

/* All 256, NaN among them. */
static void every_float8_is_itself(void **state)
{
    exg_argument args[] = {arg_tensor(),
                           arg_tensor(),
                           arg_tensor(),
                           arg_tensor(),
                           arg_tensor(),
                           arg_tensor(),
                           arg_float(1),
                           arg_float(0),
                           arg_none(),
                           arg_dtype(EXG_DTYPE_F32),
                           arg_dtype(EXG_DTYPE_F32)};
    kernel_case c = {.kernel = &exg_kernel_weight_product,
                     .args = args,
                     .arg_count = 11,
                     .input_count = 6,
                     .output_count = 1};
    double want[256];

    (void)state;
    for (int64_t rows = 1; rows <= 9; rows += 8) {
        c.inputs[0] = make_tensor(EXG_DTYPE_F32, 2, SIZES(rows, 17));
        c.inputs[1] = make_tensor(EXG_DTYPE_F8E4M3FN, 2, SIZES(256, 17));
        for (uint32_t i = 2; i < 6; i++) {
            c.inputs[i] = absent_tensor();
        }
        c.outputs[0] = make_tensor(EXG_DTYPE_F32, 2, SIZES(rows, 256));
        for (int64_t i = 0; i < rows; i++) {
            set(&c.inputs[0], i * 17 + 5, 1);
        }
        for (int64_t j = 0; j < 256; j++) {
            ((uint8_t *)c.inputs[1].data)[j * 17 + 5] = (uint8_t)j;
            want[j] = get(&c.inputs[1], j * 17 + 5);
        }
        for (int64_t i = 0; i < rows; i++) {
            kernel_case one = c;

            run_everywhere(&c);
            one.outputs[0] = sliced(c.outputs[0], 0, i, 1, 1);
            expect_values(&one, 0, want, 0);
        }
        free_tensors();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_multiplied_where_they_are),
        cmocka_unit_test(half_bytes_are_packed_once),
        cmocka_unit_test(every_float8_is_itself),
    };

    return cmocka_run_group_tests_name("weight_product", tests, NULL, NULL);
}
