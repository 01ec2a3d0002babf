/* Matrix products against the triple loop in double, at sizes around every tile edge. */
#include "tests/exec/kernels/harness.h"
#include "tests/standin/amx.h"

#include <math.h>
#include <stdlib.h>

static const int64_t shapes[][3] = {
    /* m, k, n */
    {1, 1, 1},    {3, 5, 7},      {1, 70, 50},   {1, 300, 600},  {50, 100, 1},   {16, 16, 16},
    {13, 51, 31}, {9, 257, 97},   {70, 300, 49}, {130, 30, 200}, {5, 0, 3},      {0, 3, 4},
    {4, 1, 9},    {12, 60, 50},   {2, 130, 9},   {9, 515, 49},   {20, 1100, 35}, {30, 270, 64},
    {21, 9, 32},  {26, 300, 144}, {37, 130, 99}, {1, 0, 3},      {270, 40, 70},  {2, 32, 16},
    {600, 70, 3}, {90, 300, 2},   {3, 64, 50},   {40, 96, 300},  {300, 32, 45},  {66, 1024, 40},
};

/* want (batch, m, n) = alpha * a * b + beta * self; self broadcasts, or is absent. */
static double *product(const exg_tensor *a, const exg_tensor *b, const exg_tensor *self,
                       double beta, double alpha, int64_t batch, int64_t m, int64_t k, int64_t n)
{
    double *want = calloc((size_t)(batch * m * n) + 1, sizeof(double));
    exg_tensor wide = exg_tensor_is_absent(self) ? *self : expanded(*self, 3, SIZES(batch, m, n));
    double *x = values_of(a);
    double *y = values_of(b);

    assert_non_null(want);
    for (int64_t row = 0; row < batch * m; row++) {
        double *sums = want + row * n;

        for (int64_t p = 0; p < k; p++) { /* along y's rows */
            for (int64_t j = 0; j < n; j++) {
                sums[j] += x[row * k + p] * y[(row / m * k + p) * n + j];
            }
        }
    }
    for (int64_t i = 0; i < batch * m * n; i++) {
        want[i] = alpha * want[i] + (exg_tensor_is_absent(self) ? 0 : beta * get(&wide, i));
    }
    free(x);
    free(y);
    return want;
}

static double tolerance(exg_dtype dtype, int64_t k)
{
    return tolerance_of(dtype, 4 * k);
}

/* Operands in every layout: plain, transposed, every second column. */
static exg_tensor laid_out(exg_dtype dtype, uint32_t rank, const int64_t *n, int layout)
{
    int64_t sizes[3] = {n[0], n[1], rank > 2 ? n[2] : 0};

    if (layout == 1) {
        sizes[rank - 1] = n[rank - 2];
        sizes[rank - 2] = n[rank - 1];
        return transposed(make_random(dtype, rank, sizes, -1, 1), rank - 2, rank - 1);
    }
    if (layout == 2) {
        sizes[rank - 1] *= 2;
        return sliced(make_random(dtype, rank, sizes, -1, 1), rank - 1, 0, n[rank - 1], 2);
    }
    return make_random(dtype, rank, sizes, -1, 1);
}

static void mm_and_bmm_equal_the_triple_loop_in_every_layout(void **state)
{
    (void)state;
    for (uint32_t d = 0; d < COUNT(float_dtypes); d++) {
        for (uint32_t s = 0; s < COUNT(shapes); s++) {
            for (int layout = 0; layout < 9; layout++) {
                int64_t m = shapes[s][0];
                int64_t k = shapes[s][1];
                int64_t n = shapes[s][2];
                int64_t batch = layout == 4 || layout == 0 ? 3 : 1;
                exg_argument args[] = {arg_tensor(), arg_tensor()};
                kernel_case c = {.kernel = &exg_kernel_bmm,
                                 .args = args,
                                 .arg_count = 2,
                                 .input_count = 2,
                                 .output_count = 1};
                exg_tensor none = absent_tensor();
                double *want;

                c.inputs[0] = laid_out(float_dtypes[d], 3, SIZES(batch, m, k), layout % 3);
                c.inputs[1] = laid_out(float_dtypes[d], 3, SIZES(batch, k, n), layout / 3);
                c.outputs[0] = make_tensor(float_dtypes[d], 3, SIZES(batch, m, n));
                want = product(&c.inputs[0], &c.inputs[1], &none, 0, 1, batch, m, k, n);
                expect_kernel(&c, 0, want, tolerance(float_dtypes[d], k));
                free(want);
                free_tensors();
            }
        }
    }
}

#define MATRICES 4

/* Products by matrices that an index picks; `wrong`: one that is none, whose result is zero. */
static void expect_gathered(exg_dtype dtype, exg_dtype index_dtype, const int64_t *shape,
                            int layout, bool wrong)
{
    static const int64_t picked[] = {2, 0, 2, -1, 3,  1, 2, 2, 0, 2, 2,
                                     2, 2, 1, 2,  -2, 2, 2, 2, 0, 2}; /* some of one, and more */
    const int64_t batch = COUNT(picked);
    const int64_t m = shape[0];
    const int64_t k = shape[1];
    const int64_t n = shape[2];
    exg_argument args[] = {arg_tensor(), arg_tensor(), arg_tensor(), arg_bool(true)};
    kernel_case c = {.kernel = &exg_kernel_gathered_product,
                     .args = args,
                     .arg_count = 4,
                     .input_count = 3,
                     .output_count = 1,
                     .fault = wrong ? EXG_FAULT_INDEX : EXG_FAULT_NONE};
    exg_tensor gathered = make_tensor(dtype, 3, SIZES(batch, k, n));
    exg_tensor none = absent_tensor();
    double *want;

    c.inputs[0] = laid_out(dtype, 3, SIZES(batch, m, k), layout % 3);
    c.inputs[1] = laid_out(dtype, 3, SIZES(MATRICES, k, n), layout / 3);
    c.inputs[2] = make_tensor(index_dtype, 1, SIZES(batch));
    c.outputs[0] = make_tensor(dtype, 3, SIZES(batch, m, n));
    for (int64_t i = 0; i < batch * k * n; i++) {
        const int64_t at = picked[i / (k * n)];
        const int64_t from[3] = {at < 0 ? at + MATRICES : at, i / n % k, i % n};

        set(&gathered, i, wrong && at == 3 ? 0 : get_at(&c.inputs[1], from));
    }
    for (int64_t i = 0; i < batch; i++) {
        set(&c.inputs[2], i, wrong && picked[i] == 3 ? MATRICES : (double)picked[i]);
    }
    want = product(&c.inputs[0], &gathered, &none, 0, 1, batch, m, k, n);
    expect_kernel(&c, 0, want, tolerance(dtype, k));
    free(want);
    free_tensors();
}

static void an_index_picks_matrices(void **state)
{
    (void)state;
    for (uint32_t d = 0; d < COUNT(float_dtypes); d++) {
        for (uint32_t s = 0; s < COUNT(shapes); s++) {
            if (shapes[s][0] * shapes[s][1] * shapes[s][2] > 0) {
                expect_gathered(float_dtypes[d], s % 2 == 0 ? EXG_DTYPE_I64 : EXG_DTYPE_I32,
                                shapes[s], (int)(s + d) % 9, (s + d) % 4 == 0);
            }
        }
    }
}

/* With the f-th combination of factors, shape of self and layout of b. */
static void expect_addmm(exg_dtype dtype, int64_t m, int64_t k, int64_t n, uint32_t f)
{
    static const double factors[][2] = {{1, 1}, {2, -3}, {0, 1}};
    double beta = factors[f % 3][0];
    double alpha = factors[f % 3][1];
    exg_argument args[] = {arg_tensor(), arg_tensor(), arg_tensor(), arg_float(beta),
                           arg_float(alpha)};
    kernel_case c = {.kernel = &exg_kernel_addmm,
                     .args = args,
                     .arg_count = 5,
                     .input_count = 3,
                     .output_count = 1};
    double *want;

    c.inputs[0] = f / 3 == 0   ? make_random(dtype, 1, SIZES(n), -1, 1)
                  : f / 3 == 1 ? make_random(dtype, 2, SIZES(m, n), -1, 1)
                  : f / 3 == 2 ? make_random(dtype, 2, SIZES(m, 1), -1, 1)
                               : make_random(dtype, 0, NULL, -1, 1);
    c.inputs[1] = make_random(dtype, 2, SIZES(m, k), -1, 1);
    c.inputs[2] = laid_out(dtype, 2, SIZES(k, n), (int)f % 2);
    c.outputs[0] = make_tensor(dtype, 2, SIZES(m, n));
    want = product(&c.inputs[1], &c.inputs[2], &c.inputs[0], beta, alpha, 1, m, k, n);
    expect_kernel(&c, 0, want, 4 * tolerance(dtype, k));
    free(want);
    free_tensors();
}

static void addmm_scales_and_adds_any_broadcast_of_self(void **state)
{
    (void)state;
    for (uint32_t d = 0; d < COUNT(float_dtypes); d++) {
        for (uint32_t s = 0; s < COUNT(shapes); s++) {
            for (uint32_t f = 0; f < 12; f++) {
                expect_addmm(float_dtypes[d], shapes[s][0], shapes[s][1], shapes[s][2], f);
            }
        }
    }
}

/* By tiles where b is: in parts of the depth. */
static void few_rows_of_bf16_by_a_deep_matrix(void **state)
{
    (void)state;
    for (uint32_t f = 0; f < 12; f++) {
        expect_addmm(EXG_DTYPE_BF16, 3 + 60 * (f % 2), 8224, 20 + 30 * (f / 2 % 2), f);
    }
}

/* In slices of its depth. */
static void one_row_by_a_matrix_past_the_caches(void **state)
{
    (void)state;
    expect_addmm(EXG_DTYPE_F32, 1, 1030, 1100, 0);
    expect_addmm(EXG_DTYPE_F64, 1, 262, 2100, 4);
    expect_addmm(EXG_DTYPE_BF16, 1, 515, 4200, 10);
}

/* An odd depth is filled up, in memory where anything may have been. */
static void what_is_not_finite_stays_in_its_row_and_column(void **state)
{
    (void)state;
    for (uint32_t d = 0; d < COUNT(float_dtypes); d++) {
        exg_argument args[] = {arg_tensor(), arg_tensor()};
        kernel_case c = {.kernel = &exg_kernel_mm,
                         .args = args,
                         .arg_count = 2,
                         .input_count = 2,
                         .output_count = 1};
        exg_tensor none = absent_tensor();
        exg_tensor a = make_random(float_dtypes[d], 2, SIZES(9, 515), -1, 1);
        exg_tensor b = make_random(float_dtypes[d], 2, SIZES(516, 50), -1, 1);
        double *want;

        set(&a, 4 * 515 + 514, INFINITY);
        set(&a, 6 * 515, NAN);
        set(&b, 514 * 50 + 49, -INFINITY);
        for (int64_t j = 0; j < 50; j++) { /* behind the last row of those multiplied */
            set(&b, 515 * 50 + j, NAN);
        }
        c.inputs[0] = a;
        c.inputs[1] = sliced(b, 0, 0, 515, 1);
        c.outputs[0] = make_tensor(float_dtypes[d], 2, SIZES(9, 50));
        want = product(&c.inputs[0], &c.inputs[1], &none, 0, 1, 1, 9, 515, 50);
        expect_kernel(&c, 0, want, tolerance(float_dtypes[d], 515));
        free(want);
        free_tensors();
    }
}

static void check_linear(exg_dtype dtype, const int64_t *shape, bool has_bias, bool packs)
{
    int64_t m = shape[0];
    int64_t k = shape[1];
    int64_t n = shape[2];
    exg_argument args[] = {arg_tensor(), arg_tensor(), arg_tensor()};
    kernel_case c = {.kernel = &exg_kernel_linear,
                     .args = args,
                     .arg_count = 3,
                     .input_count = 3,
                     .output_count = 1,
                     .packs = packs};
    exg_tensor rows;
    exg_tensor weight;
    double *want;

    c.inputs[0] = make_random(dtype, 3, SIZES(1, m, k), -1, 1);
    c.inputs[1] = make_random(dtype, 2, SIZES(n, k), -1, 1);
    c.inputs[2] = has_bias ? make_random(dtype, 1, SIZES(n), -1, 1) : absent_tensor();
    c.outputs[0] = make_tensor(dtype, 3, SIZES(1, m, n));
    rows = c.inputs[0];
    weight = transposed(c.inputs[1], 0, 1);
    want = product(&rows, &weight, &c.inputs[2], 1, 1, 1, m, k, n);
    expect_kernel(&c, 0, want, tolerance(dtype, k));
    free(want);
    free_tensors();
}

static void linear_takes_all_leading_dimensions_as_rows(void **state)
{
    (void)state;
    for (uint32_t d = 0; d < COUNT(float_dtypes); d++) {
        for (uint32_t s = 0; s < COUNT(shapes); s++) {
            check_linear(float_dtypes[d], shapes[s], false, false);
            check_linear(float_dtypes[d], shapes[s], true, false);
        }
    }
}

static void linear_with_a_weight_packed_once_gives_the_same(void **state)
{
    static const int64_t packed_shapes[][3] = {
        /* m, k, n: few rows, several tiles, tall */
        {2, 300, 600},
        {5, 257, 97},
        {40, 513, 130},
        {300, 270, 260},
        {1100, 261, 50},
        {1030, 20, 3100},
        /* one row of tiles by two panels and more; rows where they are, and where they fall on the
         * same sets of a cache */
        {16, 64, 200},
        {12, 520, 150},
        {32, 96, 130},
        {272, 96, 300},
        {272, 512, 34},
    };

    (void)state;
    for (uint32_t d = 0; d < COUNT(float_dtypes); d++) {
        for (uint32_t s = 0; s < COUNT(packed_shapes); s++) {
            check_linear(float_dtypes[d], packed_shapes[s], s % 2 == 0, true);
            check_linear(float_dtypes[d], packed_shapes[s], s % 2 == 1, true);
        }
    }
}

static void integer_products_wrap_in_their_dtype(void **state)
{
    static const exg_dtype dtypes[] = {EXG_DTYPE_I64, EXG_DTYPE_I32, EXG_DTYPE_U8};

    (void)state;
    for (uint32_t d = 0; d < COUNT(dtypes); d++) {
        exg_argument args[] = {arg_tensor(), arg_tensor()};
        kernel_case c = {.kernel = &exg_kernel_mm,
                         .args = args,
                         .arg_count = 2,
                         .input_count = 2,
                         .output_count = 1};
        exg_tensor none = absent_tensor();
        double *want;

        c.inputs[0] = make_random(dtypes[d], 2, SIZES(7, 30), -9, 9);
        c.inputs[1] = transposed(make_random(dtypes[d], 2, SIZES(11, 30), -9, 9), 0, 1);
        c.outputs[0] = make_tensor(dtypes[d], 2, SIZES(7, 11));
        want = product(&c.inputs[0], &c.inputs[1], &none, 0, 1, 1, 7, 30, 11);
        for (int64_t i = 0; i < 77 && dtypes[d] == EXG_DTYPE_U8; i++) {
            want[i] = (double)((int64_t)want[i] & 255);
        }
        expect_kernel(&c, 0, want, 0);
        free(want);
        free_tensors();
    }
}

/* Bytes from all their range; layout 3: turned, 1: every second column. */
static exg_tensor bytes_laid_out(exg_dtype dtype, int64_t rows, int64_t columns, int layout)
{
    double low = dtype == EXG_DTYPE_I8 ? -128 : 0;

    if (layout == 3) {
        return transposed(make_random(dtype, 2, SIZES(columns, rows), low, low + 256), 0, 1);
    }
    if (layout == 1) {
        return sliced(make_random(dtype, 2, SIZES(rows, 2 * columns), low, low + 256), 1, 0,
                      columns, 2);
    }
    return make_random(dtype, 2, SIZES(rows, columns), low, low + 256);
}

/* int8 and uint8, by one another; the second matrix in every layout, or packed once. */
static void products_of_bytes_sum_in_int32(void **state)
{
    static const exg_dtype dtypes[] = {EXG_DTYPE_I8, EXG_DTYPE_U8};

    (void)state;
    for (uint32_t d = 0; d < 4; d++) {
        for (uint32_t s = 0; s < 4 * COUNT(shapes); s++) {
            const int64_t *n = shapes[s / 4];
            int layout = (int)s % 4;
            exg_argument args[] = {arg_tensor(), arg_tensor()};
            kernel_case c = {.kernel = &exg_kernel_mm,
                             .args = args,
                             .arg_count = 2,
                             .input_count = 2,
                             .output_count = 1};
            exg_tensor none = absent_tensor();
            double *want;

            c.packs = layout > 1 && n[1] > 0 && n[2] >= 4096 / n[1];
            c.inputs[0] = bytes_laid_out(dtypes[d % 2], n[0], n[1], (layout + 1) % 4);
            c.inputs[1] = bytes_laid_out(dtypes[d / 2], n[1], n[2], layout);
            c.outputs[0] = make_tensor(EXG_DTYPE_I32, 2, SIZES(n[0], n[2]));
            want = product(&c.inputs[0], &c.inputs[1], &none, 0, 1, 1, n[0], n[1], n[2]);
            expect_kernel(&c, 0, want, 0);
            free(want);
            free_tensors();
        }
    }
}

static void sums_of_bytes_wrap_and_do_not_saturate(void **state)
{
    exg_argument args[] = {arg_tensor(), arg_tensor()};
    kernel_case c = {.kernel = &exg_kernel_mm,
                     .args = args,
                     .arg_count = 2,
                     .input_count = 2,
                     .output_count = 1};
    double want = -255.0 * 128 * 70000 + 4294967296.0;

    (void)state;
    c.inputs[0] = make_random(EXG_DTYPE_U8, 2, SIZES(1, 70000), 255, 255);
    c.inputs[1] = make_random(EXG_DTYPE_I8, 2, SIZES(70000, 1), -128, -128);
    c.outputs[0] = make_tensor(EXG_DTYPE_I32, 2, SIZES(1, 1));
    expect_kernel(&c, 0, &want, 0);
    free_tensors();
}

/* Where the processor has none they are counted. */
static void bf16_and_bytes_are_multiplied_by_tiles_of_amx(void **state)
{
    static const exg_dtype dtypes[][2] = {{EXG_DTYPE_BF16, EXG_DTYPE_BF16},
                                          {EXG_DTYPE_I8, EXG_DTYPE_I32},
                                          {EXG_DTYPE_F32, EXG_DTYPE_F32}};

    bool is_by_hand;

    (void)state;
    if (getenv("EXG_KERNEL_DEVICE") != NULL || !amx_stand_in()) {
        skip();
    }
    is_by_hand = amx_stands_in();
    for (uint32_t d = 0; d < COUNT(dtypes) && is_by_hand; d++) {
        exg_argument args[] = {arg_tensor(), arg_tensor()};
        kernel_case c = {.kernel = &exg_kernel_mm,
                         .args = args,
                         .arg_count = 2,
                         .input_count = 2,
                         .output_count = 1};
        uint64_t before = amx_instructions();

        c.inputs[0] = make_random(dtypes[d][0], 2, SIZES(32, 64), -1, 1);
        c.inputs[1] = make_random(dtypes[d][0], 2, SIZES(64, 32), -1, 1);
        c.outputs[0] = make_tensor(dtypes[d][1], 2, SIZES(32, 32));
        run_everywhere(&c);
        /* f32 is not; at least one product a tile of sums and 64 bytes of the depth */
        assert_true((amx_instructions() - before >= 4) == (d < 2));
        assert_false(amx_is_configured());
        free_tensors();
    }
}

static void products_of_different_dtypes_are_unsupported(void **state)
{
    exg_argument args[] = {arg_tensor(), arg_tensor()};
    kernel_case c = {.kernel = &exg_kernel_mm,
                     .args = args,
                     .arg_count = 2,
                     .input_count = 2,
                     .output_count = 1};
    exg_error err;

    (void)state;
    c.inputs[0] = make_tensor(EXG_DTYPE_F32, 2, SIZES(2, 2));
    c.inputs[1] = make_tensor(EXG_DTYPE_F64, 2, SIZES(2, 2));
    c.outputs[0] = make_tensor(EXG_DTYPE_F32, 2, SIZES(2, 2));
    assert_int_equal(prepare_only(&c, &err), EXG_UNSUPPORTED);
    assert_string_equal(err.code, "KRN-007");
    free_tensors();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mm_and_bmm_equal_the_triple_loop_in_every_layout),
        cmocka_unit_test(an_index_picks_matrices),
        cmocka_unit_test(addmm_scales_and_adds_any_broadcast_of_self),
        cmocka_unit_test(few_rows_of_bf16_by_a_deep_matrix),
        cmocka_unit_test(one_row_by_a_matrix_past_the_caches),
        cmocka_unit_test(what_is_not_finite_stays_in_its_row_and_column),
        cmocka_unit_test(linear_takes_all_leading_dimensions_as_rows),
        cmocka_unit_test(linear_with_a_weight_packed_once_gives_the_same),
        cmocka_unit_test(integer_products_wrap_in_their_dtype),
        cmocka_unit_test(products_of_bytes_sum_in_int32),
        cmocka_unit_test(sums_of_bytes_wrap_and_do_not_saturate),
        cmocka_unit_test(bf16_and_bytes_are_multiplied_by_tiles_of_amx),
        cmocka_unit_test(products_of_different_dtypes_are_unsupported),
    };

    return cmocka_run_group_tests_name("matmul", tests, NULL, NULL);
}
