/* Softmax and norms against their definitions in double. */
#include "tests/exec/kernels/harness.h"

#include <math.h>
#include <stdlib.h>

static const int64_t shapes[][3] = {{2, 5, 1}, {1, 1000, 1}, {3, 77, 4}, {1, 9000, 2},
                                    {4, 1, 3}, {0, 5, 1}, {70, 130, 1}};

static void softmax_rows_sum_to_one_and_log_softmax_is_their_logarithm(void **state)
{
    (void)state;
    for (uint32_t d = 0; d < COUNT(float_dtypes); d++) {
        for (uint32_t s = 0; s < COUNT(shapes); s++) {
            const int64_t *n = shapes[s];
            exg_argument args[] = {arg_tensor(), arg_int(-2), arg_bool(false)};
            kernel_case c = {.kernel = &exg_kernel_softmax, .args = args, .arg_count = 3,
                             .input_count = 1, .output_count = 1};
            exg_tensor x = make_random(float_dtypes[d], 3, n, -5, 5);
            int64_t count = n[0] * n[1] * n[2];
            double *want = calloc((size_t)count + 1, sizeof(double));
            double *logs = calloc((size_t)count + 1, sizeof(double));

            for (int64_t row = 0; row < n[0] * n[2]; row++) {
                int64_t base = row / n[2] * n[1] * n[2] + row % n[2];
                double sum = 0;

                for (int64_t i = 0; i < n[1]; i++) {
                    sum += exp(get(&x, base + i * n[2]));
                }
                for (int64_t i = 0; i < n[1]; i++) {
                    want[base + i * n[2]] = exp(get(&x, base + i * n[2])) / sum;
                    logs[base + i * n[2]] = get(&x, base + i * n[2]) - log(sum);
                }
            }
            c.inputs[0] = x;
            c.outputs[0] = make_tensor(float_dtypes[d], 3, n);
            expect_kernel(&c, 0, want, tolerance_of(float_dtypes[d], 8));
            c.kernel = &exg_kernel_log_softmax;
            expect_kernel(&c, 0, logs, tolerance_of(float_dtypes[d], 8));
            free(want);
            free(logs);
            free_tensors();
        }
    }
}

static void softmax_takes_infinities_and_nan_as_pytorch(void **state)
{
    exg_argument args[] = {arg_tensor(), arg_int(1), arg_bool(false)};
    kernel_case c = {.kernel = &exg_kernel_softmax, .args = args, .arg_count = 3,
                     .input_count = 1, .output_count = 1};
    const double want[] = {0.5, 0, 0.5, NAN, NAN, NAN, NAN, NAN, NAN};

    (void)state;
    c.inputs[0] = make_tensor(EXG_DTYPE_F32, 2, SIZES(3, 3));
    c.outputs[0] = make_tensor(EXG_DTYPE_F32, 2, SIZES(3, 3));
    set(&c.inputs[0], 1, -INFINITY);
    for (int64_t i = 3; i < 6; i++) {
        set(&c.inputs[0], i, -INFINITY);
    }
    set(&c.inputs[0], 7, NAN);
    expect_kernel(&c, 0, want, 1e-7);
    free_tensors();
}

/* half_to_float: the result is f32. */
static void softmax_of_half_may_give_float(void **state)
{
    exg_argument args[] = {arg_tensor(), arg_int(0), arg_bool(true)};
    kernel_case c = {.kernel = &exg_kernel_softmax, .args = args, .arg_count = 3,
                     .input_count = 1, .output_count = 1};
    const double want[] = {1 / (1 + exp(2)), exp(2) / (1 + exp(2))};

    (void)state;
    c.inputs[0] = make_tensor(EXG_DTYPE_F16, 1, SIZES(2));
    set(&c.inputs[0], 1, 2);
    c.outputs[0] = make_tensor(EXG_DTYPE_F32, 1, SIZES(2));
    expect_kernel(&c, 0, want, 1e-6);
    free_tensors();
}

/* ---- norms ------------------------------------------------------------------------------- */

/* Rows of (rows, size); mean 0 for rms. Gives y, and the statistics unless NULL. */
static void normalize(const exg_tensor *x, int64_t rows, int64_t size, double eps, bool is_rms,
                      double *y, double *means, double *factors)
{
    for (int64_t r = 0; r < rows; r++) {
        double mean = 0;
        double squares = 0;
        double factor;

        for (int64_t i = 0; i < size && !is_rms; i++) {
            mean += get(x, r * size + i) / (double)size;
        }
        for (int64_t i = 0; i < size; i++) {
            squares += pow(get(x, r * size + i) - mean, 2) / (double)size;
        }
        factor = 1 / sqrt(squares + eps);
        for (int64_t i = 0; i < size; i++) {
            y[r * size + i] = (get(x, r * size + i) - mean) * factor;
        }
        if (means != NULL) {
            means[r] = mean;
            factors[r] = factor;
        }
    }
}

/* Those of 32 MiB and more go past the caches, row by row. */
static void large_results_are_written_whole(void **state)
{
    const int64_t n[] = {4105, 2053}; /* no multiples of a line */
    exg_argument softmax[] = {arg_tensor(), arg_int(1), arg_bool(false)};
    exg_argument rms[] = {arg_tensor(), arg_int(1), arg_none(), arg_float(1e-5)};
    kernel_case c = {.kernel = &exg_kernel_rms_norm, .args = rms, .arg_count = 4,
                     .input_count = 2, .output_count = 1};
    double *want = calloc((size_t)(n[0] * n[1]), sizeof(double));

    (void)state;
    c.inputs[0] = make_random(EXG_DTYPE_F32, 2, n, -3, 3);
    c.inputs[1].dtype = EXG_DTYPE_COUNT;
    c.outputs[0] = make_tensor(EXG_DTYPE_F32, 2, n);
    normalize(&c.inputs[0], n[0], n[1], 1e-5, true, want, NULL, NULL);
    expect_kernel(&c, 0, want, 1e-5);
    for (int64_t row = 0; row < n[0]; row++) {
        double sum = 0;

        for (int64_t i = row * n[1]; i < (row + 1) * n[1]; i++) {
            want[i] = exp(get(&c.inputs[0], i));
            sum += want[i];
        }
        for (int64_t i = row * n[1]; i < (row + 1) * n[1]; i++) {
            want[i] /= sum;
        }
    }
    c.kernel = &exg_kernel_softmax;
    c.args = softmax;
    c.arg_count = 3;
    c.input_count = 1;
    expect_kernel(&c, 0, want, 1e-6);
    free(want);
    free_tensors();
}

static void layer_and_rms_norm_equal_their_definitions(void **state)
{
    static const int64_t sizes[] = {5, 768, 2500, 1};

    (void)state;
    for (uint32_t k = 0; k < COUNT(float_dtypes) * COUNT(sizes) * 4; k++) {
        exg_dtype d = float_dtypes[k % COUNT(float_dtypes)];
        int64_t size = sizes[k / COUNT(float_dtypes) % COUNT(sizes)];
        uint32_t options = k / COUNT(float_dtypes) / COUNT(sizes);
        exg_argument layer[] = {arg_tensor(), arg_ints(1, &size), arg_tensor(), arg_tensor(),
                                arg_float(1e-5)};
        exg_argument rms[] = {arg_tensor(), arg_int(1), arg_tensor(), arg_float(1e-5)};
        kernel_case c = {.kernel = &exg_kernel_native_layer_norm, .args = layer, .arg_count = 5,
                         .input_count = 3, .output_count = 3};
        exg_tensor x = make_random(d, 2, SIZES(6, size), -3, 3);
        double *want = calloc((size_t)(6 * size), sizeof(double));
        double means[6];
        double factors[6];

        c.inputs[0] = x;
        c.inputs[1] = (options & 1) != 0 ? make_random(d, 1, &size, -1, 1) : absent_tensor();
        c.inputs[2] = (options & 2) != 0 ? make_random(d, 1, &size, -1, 1) : absent_tensor();
        c.outputs[0] = make_tensor(d, 2, SIZES(6, size));
        c.outputs[1] = make_tensor(d, 2, SIZES(6, 1));
        c.outputs[2] = make_tensor(d, 2, SIZES(6, 1));
        normalize(&x, 6, size, 1e-5, false, want, means, factors);
        for (int64_t i = 0; i < 6 * size; i++) {
            want[i] *= (options & 1) != 0 ? get(&c.inputs[1], i % size) : 1;
            want[i] += (options & 2) != 0 ? get(&c.inputs[2], i % size) : 0;
        }
        expect_kernel(&c, 0, want, 4 * tolerance_of(d, 16));
        expect_values(&c, 1, means, tolerance_of(d, 16));
        expect_values(&c, 2, factors, tolerance_of(d, 16));
        if ((options & 2) == 0) {
            c.kernel = &exg_kernel_rms_norm;
            c.args = rms;
            c.arg_count = 4;
            c.input_count = 2;
            c.output_count = 1;
            normalize(&x, 6, size, 1e-5, true, want, NULL, NULL);
            for (int64_t i = 0; i < 6 * size; i++) {
                want[i] *= (options & 1) != 0 ? get(&c.inputs[1], i % size) : 1;
            }
            expect_kernel(&c, 0, want, 4 * tolerance_of(d, 16));
        }
        free(want);
        free_tensors();
    }
}

static void group_norm_normalizes_groups_of_channels(void **state)
{
    static const int64_t rows[][4] = { /* batch, channels, area, groups */
        {2, 6, 25, 3}, {1, 8, 1500, 8}, {3, 4, 1, 1}, {2, 4, 33, 2}};

    (void)state;
    for (uint32_t d = 0; d < COUNT(float_dtypes); d++) {
        for (uint32_t k = 0; k < COUNT(rows); k++) {
            int64_t n = rows[k][0];
            int64_t channels = rows[k][1];
            int64_t area = rows[k][2];
            int64_t groups = rows[k][3];
            exg_argument args[] = {arg_tensor(), arg_tensor(), arg_tensor(), arg_int(n),
                                   arg_int(channels), arg_int(area), arg_int(groups),
                                   arg_float(1e-5)};
            kernel_case c = {.kernel = &exg_kernel_native_group_norm, .args = args,
                             .arg_count = 8, .input_count = 3, .output_count = 3};
            exg_dtype t = float_dtypes[d];
            double *want = calloc((size_t)(n * channels * area), sizeof(double));
            double means[8];
            double factors[8];

            c.inputs[0] = make_random(t, 3, SIZES(n, channels, area), -3, 3);
            c.inputs[1] = make_random(t, 1, &channels, -1, 1);
            c.inputs[2] = make_random(t, 1, &channels, -1, 1);
            c.outputs[0] = make_tensor(t, 3, SIZES(n, channels, area));
            c.outputs[1] = make_tensor(t, 2, SIZES(n, groups));
            c.outputs[2] = make_tensor(t, 2, SIZES(n, groups));
            normalize(&c.inputs[0], n * groups, channels / groups * area, 1e-5, false, want,
                      means, factors);
            for (int64_t i = 0; i < n * channels * area; i++) {
                int64_t channel = i / area % channels;

                want[i] = want[i] * get(&c.inputs[1], channel) + get(&c.inputs[2], channel);
            }
            expect_kernel(&c, 0, want, 4 * tolerance_of(t, 16));
            expect_values(&c, 1, means, tolerance_of(t, 16));
            expect_values(&c, 2, factors, tolerance_of(t, 16));
            free(want);
            free_tensors();
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(softmax_rows_sum_to_one_and_log_softmax_is_their_logarithm),
        cmocka_unit_test(softmax_takes_infinities_and_nan_as_pytorch),
        cmocka_unit_test(softmax_of_half_may_give_float),
        cmocka_unit_test(large_results_are_written_whole),
        cmocka_unit_test(layer_and_rms_norm_equal_their_definitions),
        cmocka_unit_test(group_norm_normalizes_groups_of_channels),
    };

    return cmocka_run_group_tests_name("norm", tests, NULL, NULL);
}
