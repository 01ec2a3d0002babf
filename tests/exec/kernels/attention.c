/* Attention against the matrix of scores, softmax and product of its definition. */
#include "tests/exec/kernels/harness.h"

#include <math.h>
#include <stdlib.h>

typedef struct heads {
    int64_t batch, heads, kv_heads, rows, keys, depth, width;
} heads;

static const heads shapes[] = {
    {1, 1, 1, 1, 1, 4, 4},       {2, 3, 3, 7, 9, 5, 6},         {1, 2, 2, 70, 130, 16, 24},
    {2, 4, 2, 1, 300, 32, 32},   {1, 8, 2, 5, 140, 20, 12},     {1, 2, 2, 90, 90, 33, 17},
    {1, 1, 1, 20, 40, 300, 140}, {1, 4, 1, 18, 18, 8, 8},       {1, 1, 1, 3, 0, 8, 8},
    {1, 2, 1, 200, 260, 24, 40}, {1, 1, 1, 210, 130, 140, 8},   {2, 6, 2, 18, 20, 8, 8},
    {1, 1, 1, 5, 6, 3000, 8},    {1, 1, 1, 14, 20, 1100, 1200}, {1, 6, 2, 1, 700, 64, 70},
};

typedef enum mask_kind {
    NO_MASK,
    CAUSAL,
    BOOL_MASK,
    FLOAT_MASK,
    COLUMN_MASK,
    CACHE_MASK /* the keys of a cache so far: whole blocks of the rest are hidden, some are seen */
} mask_kind;

/* Row i sees keys up to i and a few more. */
static exg_tensor cache_mask(int64_t rows, int64_t keys)
{
    exg_tensor mask = make_tensor(EXG_DTYPE_B8, 2, SIZES(rows, keys));

    for (int64_t at = 0; at < rows * keys; at++) {
        set(&mask, at, at % keys <= at / keys + keys / 9);
    }
    return mask;
}

static void attend(const heads *h, const exg_tensor *q, const exg_tensor *k, const exg_tensor *v,
                   const exg_tensor *mask, bool is_causal, double scale, double *want)
{
    double *weights = calloc((size_t)h->keys + 1, sizeof(double));
    double *query = values_of(q);
    double *key = values_of(k);
    double *value = values_of(v);

    for (int64_t r = 0; r < h->batch * h->heads * h->rows; r++) {
        int64_t i = r % h->rows;
        int64_t head = r / h->rows % h->heads;
        int64_t b = r / h->rows / h->heads;
        int64_t kv = b * h->kv_heads + head / (h->heads / h->kv_heads);
        double sum = 0;

        for (int64_t j = 0; j < h->keys; j++) {
            double score = 0;

            for (int64_t d = 0; d < h->depth; d++) {
                score += query[r * h->depth + d] * key[(kv * h->keys + j) * h->depth + d];
            }
            score *= scale;
            if (mask != NULL) {
                double m = get(mask, r * h->keys + j);

                score = mask->dtype == EXG_DTYPE_B8 ? (m != 0 ? score : -INFINITY) : score + m;
            }
            weights[j] = is_causal && j > i ? 0 : exp(score);
            sum += weights[j];
        }
        for (int64_t w = 0; w < h->width; w++) {
            double x = 0;

            for (int64_t j = 0; j < h->keys; j++) {
                x += weights[j] * value[(kv * h->keys + j) * h->width + w];
            }
            want[r * h->width + w] = sum > 0 ? x / sum : 0;
        }
    }
    free(weights);
    free(query);
    free(key);
    free(value);
}

static void check(const heads *h, exg_dtype d, mask_kind kind, bool by_position)
{
    exg_argument args[] = {arg_tensor(),
                           arg_tensor(),
                           arg_tensor(),
                           kind > CAUSAL ? arg_tensor() : arg_none(),
                           arg_bool(kind == CAUSAL),
                           kind == BOOL_MASK ? arg_float(0.3) : arg_none(),
                           arg_bool(true)};
    kernel_case c = {.kernel = &exg_kernel_attention,
                     .args = args,
                     .arg_count = 7,
                     .input_count = 4,
                     .output_count = 1};
    double *want = calloc((size_t)(h->batch * h->heads * h->rows * h->width), sizeof(double));
    exg_tensor mask = {0};

    assert_non_null(want);
    if (by_position) { /* (batch, rows, heads, depth) seen as (batch, heads, rows, depth) */
        c.inputs[0] = transposed(
            make_random(d, 4, SIZES(h->batch, h->rows, h->heads, h->depth), -1, 1), 1, 2);
        c.inputs[1] = transposed(
            make_random(d, 4, SIZES(h->batch, h->keys, h->kv_heads, h->depth), -1, 1), 1, 2);
        c.inputs[2] = transposed(
            make_random(d, 4, SIZES(h->batch, h->keys, h->kv_heads, h->width), -1, 1), 1, 2);
    } else { /* keys and values the other way around */
        c.inputs[0] = make_random(d, 4, SIZES(h->batch, h->heads, h->rows, h->depth), -1, 1);
        c.inputs[1] = transposed(
            make_random(d, 4, SIZES(h->batch, h->kv_heads, h->depth, h->keys), -1, 1), 2, 3);
        c.inputs[2] = transposed(
            make_random(d, 4, SIZES(h->batch, h->kv_heads, h->width, h->keys), -1, 1), 2, 3);
    }
    c.inputs[3] =
        kind == BOOL_MASK    ? make_random(EXG_DTYPE_B8, 2, SIZES(h->rows, h->keys), 0, 1)
        : kind == FLOAT_MASK ? make_random(d, 4, SIZES(h->batch, h->heads, h->rows, h->keys), -2, 2)
        : kind == CACHE_MASK ? cache_mask(h->rows, h->keys)
        : kind == COLUMN_MASK ? make_random(EXG_DTYPE_B8, 4, SIZES(h->batch, 1, 1, h->keys), 0, 1)
                              : absent_tensor();
    if (kind > CAUSAL) {
        mask = expanded(c.inputs[3], 4, SIZES(h->batch, h->heads, h->rows, h->keys));
    }
    attend(h, &c.inputs[0], &c.inputs[1], &c.inputs[2], kind > CAUSAL ? &mask : NULL,
           kind == CAUSAL, kind == BOOL_MASK ? 0.3 : 1 / sqrt((double)h->depth), want);
    c.outputs[0] = make_tensor(d, 4, SIZES(h->batch, h->heads, h->rows, h->width));
    expect_kernel(&c, 0, want, tolerance_of(d, 64));
    free(want);
    free_tensors();
}

static void attention_equals_its_three_steps(void **state)
{
    (void)state;
    for (uint32_t d = 0; d < COUNT(float_dtypes); d++) {
        for (uint32_t s = 0; s < COUNT(shapes); s++) {
            for (int kind = NO_MASK; kind <= CACHE_MASK; kind++) {
                check(&shapes[s], float_dtypes[d], (mask_kind)kind, true);
                check(&shapes[s], float_dtypes[d], (mask_kind)kind, false);
            }
        }
    }
}

/* A query that is not a number is so in its own row alone, also where the depth is filled up. */
static void a_row_that_is_not_finite_leaves_the_others(void **state)
{
    (void)state;
    for (uint32_t d = 0; d < COUNT(float_dtypes); d++) {
        exg_argument args[] = {arg_tensor(),    arg_tensor(), arg_tensor(),   arg_none(),
                               arg_bool(false), arg_none(),   arg_bool(false)};
        kernel_case c = {.kernel = &exg_kernel_attention,
                         .args = args,
                         .arg_count = 7,
                         .input_count = 4,
                         .output_count = 1};
        const heads h = {1, 1, 1, 20, 30, 19, 5};
        double want[20 * 5];

        c.inputs[0] = make_random(float_dtypes[d], 2, SIZES(20, 19), -1, 1);
        c.inputs[1] = make_random(float_dtypes[d], 2, SIZES(30, 19), -1, 1);
        c.inputs[2] = make_random(float_dtypes[d], 2, SIZES(30, 5), -1, 1);
        c.inputs[3] = absent_tensor();
        set(&c.inputs[0], 7 * 19, NAN);
        attend(&h, &c.inputs[0], &c.inputs[1], &c.inputs[2], NULL, false, 1 / sqrt(19), want);
        for (int64_t i = 7 * 5; i < 8 * 5; i++) {
            want[i] = NAN;
        }
        c.outputs[0] = make_tensor(float_dtypes[d], 2, SIZES(20, 5));
        expect_kernel(&c, 0, want, tolerance_of(float_dtypes[d], 64));
        free_tensors();
    }
}

/* Of rows that see key 2 alone, the first sees none. */
static void check_masked(const exg_kernel *kernel, int64_t rows, double nothing)
{
    exg_argument args[] = {arg_tensor(),    arg_tensor(), arg_tensor(),   arg_tensor(),
                           arg_bool(false), arg_none(),   arg_bool(false)};
    kernel_case c = {
        .kernel = kernel, .args = args, .arg_count = 7, .input_count = 4, .output_count = 1};
    double want[2 * 20];

    c.inputs[0] = make_random(EXG_DTYPE_F32, 2, SIZES(rows, 4), -1, 1);
    c.inputs[1] = make_random(EXG_DTYPE_F32, 2, SIZES(5, 4), -1, 1);
    c.inputs[2] = make_random(EXG_DTYPE_F32, 2, SIZES(5, 2), 3, 3);
    c.inputs[3] = make_tensor(EXG_DTYPE_B8, 2, SIZES(rows, 5));
    for (int64_t r = 0; r < rows; r++) {
        want[2 * r] = want[2 * r + 1] = r == 0 ? nothing : 3;
        set(&c.inputs[3], 5 * r + 2, r > 0);
    }
    c.outputs[0] = make_tensor(EXG_DTYPE_F32, 2, SIZES(rows, 2));
    expect_kernel(&c, 0, want, 1e-6);
    free_tensors();
}

static void a_row_whose_keys_are_all_masked_is_zero_or_nan_of_softmax(void **state)
{
    (void)state;
    for (int64_t rows = 2; rows <= 20; rows += 18) {
        check_masked(&exg_kernel_attention, rows, 0);
        check_masked(&exg_kernel_attention_of_softmax, rows, NAN);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_equals_its_three_steps),
        cmocka_unit_test(a_row_that_is_not_finite_leaves_the_others),
        cmocka_unit_test(a_row_whose_keys_are_all_masked_is_zero_or_nan_of_softmax),
    };

    return cmocka_run_group_tests_name("attention", tests, NULL, NULL);
}
