/* Softmax and norms against their definitions in double. */
#include "tests/exec/kernels/harness.h"
#include "tests/exec/kernels/on_device.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int64_t shapes[][3] = {{2, 5, 1}, {1, 1000, 1}, {3, 77, 4},  {1, 9000, 2}, {4, 1, 3},
                                    {0, 5, 1}, {70, 130, 1}, {2, 130, 9}, {1, 70, 1000}};

static void softmax_rows_sum_to_one_and_log_softmax_is_their_logarithm(void **state)
{
    (void)state;
    for (uint32_t d = 0; d < COUNT(float_dtypes); d++) {
        for (uint32_t s = 0; s < COUNT(shapes); s++) {
            const int64_t *n = shapes[s];
            exg_argument args[] = {arg_tensor(), arg_int(-2), arg_bool(false)};
            kernel_case c = {.kernel = &exg_kernel_softmax,
                             .args = args,
                             .arg_count = 3,
                             .input_count = 1,
                             .output_count = 1};
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
    kernel_case c = {.kernel = &exg_kernel_softmax,
                     .args = args,
                     .arg_count = 3,
                     .input_count = 1,
                     .output_count = 1};
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

/* Rows side by side: the first has infinity below, the second nothing else, the third NaN. */
static void softmax_across_rows_takes_infinities_and_nan_as_pytorch(void **state)
{
    exg_argument args[] = {arg_tensor(), arg_int(0), arg_bool(false)};
    kernel_case c = {.kernel = &exg_kernel_softmax,
                     .args = args,
                     .arg_count = 3,
                     .input_count = 1,
                     .output_count = 1};
    double want[3 * 40];

    (void)state;
    c.inputs[0] = make_tensor(EXG_DTYPE_F32, 2, SIZES(3, 40));
    c.outputs[0] = make_tensor(EXG_DTYPE_F32, 2, SIZES(3, 40));
    for (int64_t i = 0; i < 3 * 40; i++) {
        int64_t row = i % 40;

        if (row == 1 || (row == 0 && i / 40 == 1) || (row == 2 && i / 40 == 1)) {
            set(&c.inputs[0], i, row == 2 ? NAN : -INFINITY);
        }
        want[i] = row == 1 || row == 2 ? NAN : row > 2 ? 1.0 / 3 : i / 40 == 1 ? 0 : 0.5;
    }
    expect_kernel(&c, 0, want, 1e-7);
    free_tensors();
}

/* half_to_float: the result is f32. */
static void softmax_of_half_may_give_float(void **state)
{
    exg_argument args[] = {arg_tensor(), arg_int(0), arg_bool(true)};
    kernel_case c = {.kernel = &exg_kernel_softmax,
                     .args = args,
                     .arg_count = 3,
                     .input_count = 1,
                     .output_count = 1};
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
    double *v = values_of(x);

    for (int64_t r = 0; r < rows; r++) {
        double mean = 0;
        double squares = 0;
        double factor;

        for (int64_t i = 0; i < size && !is_rms; i++) {
            mean += v[r * size + i] / (double)size;
        }
        for (int64_t i = 0; i < size; i++) {
            double apart = v[r * size + i] - mean;

            squares += apart * apart / (double)size;
        }
        factor = 1 / sqrt(squares + eps);
        for (int64_t i = 0; i < size; i++) {
            y[r * size + i] = (v[r * size + i] - mean) * factor;
        }
        if (means != NULL) {
            means[r] = mean;
            factors[r] = factor;
        }
    }
    free(v);
}

/* Those of 32 MiB and more go past the caches, row by row. */
static void expect_large_results(exg_dtype dtype, double tolerance)
{
    /* no multiples of a line */
    const int64_t n[] = {(33 << 20) / exg_dtype_bytes(dtype) / 2053, 2053};
    exg_argument softmax[] = {arg_tensor(), arg_int(1), arg_bool(false)};
    exg_argument rms[] = {arg_tensor(), arg_int(1), arg_none(), arg_float(1e-5)};
    kernel_case c = {.kernel = &exg_kernel_rms_norm,
                     .args = rms,
                     .arg_count = 4,
                     .input_count = 2,
                     .output_count = 1};
    double *want = calloc((size_t)(n[0] * n[1]), sizeof(double));
    double *x;

    c.inputs[0] = make_random(dtype, 2, n, -3, 3);
    x = values_of(&c.inputs[0]);
    c.inputs[1].dtype = EXG_DTYPE_COUNT;
    c.outputs[0] = make_tensor(dtype, 2, n);
    normalize(&c.inputs[0], n[0], n[1], 1e-5, true, want, NULL, NULL);
    expect_kernel(&c, 0, want, 10 * tolerance);
    for (int64_t row = 0; row < n[0]; row++) {
        double sum = 0;

        for (int64_t i = row * n[1]; i < (row + 1) * n[1]; i++) {
            want[i] = exp(x[i]);
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
    expect_kernel(&c, 0, want, tolerance);
    free(x);
    free(want);
    free_tensors();
}

static void large_results_are_written_whole(void **state)
{
    (void)state;
    expect_large_results(EXG_DTYPE_F32, 1e-6);
    expect_large_results(EXG_DTYPE_BF16, 0x1p-8);
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
        kernel_case c = {.kernel = &exg_kernel_native_layer_norm,
                         .args = layer,
                         .arg_count = 5,
                         .input_count = 3,
                         .output_count = 3};
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
    static const int64_t rows[][4] = {/* batch, channels, area, groups */
                                      {2, 6, 25, 3},
                                      {1, 8, 1500, 8},
                                      {3, 4, 1, 1},
                                      {2, 4, 33, 2}};

    (void)state;
    for (uint32_t d = 0; d < COUNT(float_dtypes); d++) {
        for (uint32_t k = 0; k < COUNT(rows); k++) {
            int64_t n = rows[k][0];
            int64_t channels = rows[k][1];
            int64_t area = rows[k][2];
            int64_t groups = rows[k][3];
            exg_argument args[] = {arg_tensor(),    arg_tensor(),      arg_tensor(),
                                   arg_int(n),      arg_int(channels), arg_int(area),
                                   arg_int(groups), arg_float(1e-5)};
            kernel_case c = {.kernel = &exg_kernel_native_group_norm,
                             .args = args,
                             .arg_count = 8,
                             .input_count = 3,
                             .output_count = 3};
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
            normalize(&c.inputs[0], n * groups, channels / groups * area, 1e-5, false, want, means,
                      factors);
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

/* ---- bf16 ------------------------------------------------------------------------------ */

/* Once on one instruction set, with no threads; false: this machine has none. */
static bool run_on(exg_isa isa, const kernel_case *c)
{
    exg_tensor inputs[OPERANDS_MAX];
    exg_tensor outputs[OPERANDS_MAX];
    exg_fault_note fault = {0};
    exg_kernel_call call = {.args = c->args,
                            .arg_count = c->arg_count,
                            .inputs = inputs,
                            .input_count = c->input_count,
                            .outputs = outputs,
                            .output_count = c->output_count,
                            .fault = &fault};

    memcpy(inputs, c->inputs, sizeof(inputs));
    memcpy(outputs, c->outputs, sizeof(outputs));
    exg_isa_limit(isa);
    if (exg_isa_current() == isa) {
        call.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
        assert_int_equal(c->kernel->prepare(&call, NULL), EXG_OK);
        if (call.workspace_bytes > 0) {
            call.workspace = aligned_alloc(64, (call.workspace_bytes + 63) & ~(size_t)63);
            assert_non_null(call.workspace);
        }
        c->kernel->run(&call);
        free(call.workspace);
        exg_arena_destroy(call.arena);
    }
    isa = exg_isa_current() == isa ? isa : EXG_ISA_COUNT;
    exg_isa_limit(EXG_ISA_COUNT - 1);
    return isa != EXG_ISA_COUNT;
}

/* Output 0 is one of the two bf16 about the true value, or within `slack` of one. */
static void expect_neighbours(const kernel_case *c, const double *want, const double *slack)
{
    for (int64_t i = 0; i < exg_tensor_numel(&c->outputs[0]); i++) {
        double got = get(&c->outputs[0], i);
        double b = want[i];
        int exponent = isfinite(b) && b != 0 ? ilogb(b) : -126;
        double step = ldexp(1, (exponent > -126 ? exponent : -126) - 7);
        bool near = got == b || (got != got && b != b) ||
                    (isinf(got) && got * b > 0 && fabs(b) > 0x1.fep127) || /* the greatest */
                    (isfinite(b) && fabs(got - b) < step + slack[i]);

        if (!near) {
            fail_msg("%s, element %lld of rows of %lld: %.9g, expected %.9g", c->kernel->name,
                     (long long)i, (long long)c->outputs[0].sizes[1], got, b);
        }
    }
}

/* On every instruction set: apart, and in the memory of the input, which stays as it was. */
static void expect_neighbours_everywhere(kernel_case *c, const double *want, const double *slack)
{
    exg_tensor x = c->inputs[0];
    exg_tensor apart = c->outputs[0];
    size_t bytes = (size_t)exg_tensor_numel(&x) * exg_dtype_bytes(x.dtype);
    void *kept = malloc(bytes + 1);

    assert_non_null(kept);
    memcpy(kept, x.data, bytes);
    for (int isa = EXG_ISA_GENERIC; isa <= EXG_ISA_V4; isa++) {
        c->outputs[0] = apart;
        memset(apart.data, 0x5a, bytes);
        if (run_on((exg_isa)isa, c)) {
            expect_neighbours(c, want, slack);
            assert_memory_equal(kept, x.data, bytes);
            c->outputs[0] = x;
            (void)run_on((exg_isa)isa, c);
            expect_neighbours(c, want, slack);
            memcpy(x.data, kept, bytes);
        }
    }
    c->outputs[0] = apart;
    free(kept);
}

/* (rows, size) of bf16 that begins one element into its memory. */
static exg_tensor unaligned(exg_tensor t, const int64_t *n)
{
    exg_tensor u = {
        .data = (char *)t.data + 2, .dtype = EXG_DTYPE_BF16, .rank = 2, .sizes = {n[0], n[1]}};

    exg_tensor_set_contiguous(&u);
    return u;
}

static void softmax_in_double(const exg_tensor *x, double *want, double *logs)
{
    int64_t n = x->sizes[1];

    for (int64_t row = 0; row < x->sizes[0]; row++) {
        double greatest = -INFINITY;
        double sum = 0;

        for (int64_t i = row * n; i < (row + 1) * n; i++) {
            greatest = fmax(greatest, get(x, i));
        }
        for (int64_t i = row * n; i < (row + 1) * n; i++) {
            sum += exp(get(x, i) - greatest);
        }
        for (int64_t i = row * n; i < (row + 1) * n; i++) {
            want[i] = exp(get(x, i) - greatest) / sum;
            logs[i] = get(x, i) - greatest - log(sum);
        }
    }
}

enum { RANDOM_ROWS = 6, BF16_ROWS = 11 };

/* Rows near 0, far above and far below it, past what e^x can be; of infinities and NaN. */
static void fill_rows(const exg_tensor *x)
{
    static const double centers[RANDOM_ROWS] = {0, 60, 200, -60, -3e4, 0};
    static const double spreads[RANDOM_ROWS] = {5, 20, 20, 20, 100, 3e38};
    int64_t n = x->sizes[1];
    exg_tensor random = make_random(EXG_DTYPE_F64, 2, SIZES(RANDOM_ROWS, n), -1, 1);

    for (int64_t i = 0; i < BF16_ROWS * n; i++) {
        int64_t row = i / n;
        double value = row < RANDOM_ROWS ? centers[row] + spreads[row] * get(&random, i)
                       : row == 6        ? -INFINITY
                       : row == 7        ? (i % n == n / 2 ? (double)NAN : 1)
                       : row == 8        ? (i % n == n - 1 ? (double)INFINITY : 1)
                       : row == 9        ? (i % 3 == 0 ? -INFINITY : (double)(i % 7))
                                         : (i % n == n / 3 ? 20 : -3.3895314e38);

        set(x, i, value);
    }
}

static const int64_t bf16_sizes[] = {1, 2, 31, 33, 64, 65, 1023, 5000, 9001};

/* softmax of c's input, and then log_softmax. */
static void expect_softmax_neighbours(kernel_case *c)
{
    const int64_t count = exg_tensor_numel(&c->inputs[0]);
    double *want = calloc((size_t)count, sizeof(double));
    double *logs = calloc((size_t)count, sizeof(double));
    double *slack = calloc((size_t)count, sizeof(double));

    softmax_in_double(&c->inputs[0], want, logs);
    for (int64_t i = 0; i < count; i++) {
        slack[i] = 0x1p-126; /* what is below may be 0 */
    }
    c->kernel = &exg_kernel_softmax;
    expect_neighbours_everywhere(c, want, slack);
    for (int64_t i = 0; i < count; i++) {
        slack[i] = 0x1p-21; /* of a sum near 1 */
    }
    c->kernel = &exg_kernel_log_softmax;
    expect_neighbours_everywhere(c, logs, slack);
    free(want);
    free(logs);
    free(slack);
}

static void softmax_of_bf16_is_next_to_the_true_value(void **state)
{
    exg_argument args[] = {arg_tensor(), arg_int(1), arg_bool(false)};

    (void)state;
    for (uint32_t k = 0; k < COUNT(bf16_sizes); k++) {
        const int64_t n[] = {BF16_ROWS, bf16_sizes[k]};
        int64_t room = n[0] * n[1] + 1;
        kernel_case c = {.args = args, .arg_count = 3, .input_count = 1, .output_count = 1};

        c.inputs[0] = unaligned(make_tensor(EXG_DTYPE_BF16, 1, &room), n);
        c.outputs[0] = unaligned(make_tensor(EXG_DTYPE_BF16, 1, &room), n);
        fill_rows(&c.inputs[0]);
        expect_softmax_neighbours(&c);
        free_tensors();
    }
}

/* Beside 0 and beside the greatest there is. */
static void softmax_of_every_bf16_is_next_to_the_true_value(void **state)
{
    const int64_t n[] = {2 << 16, 2};
    exg_argument args[] = {arg_tensor(), arg_int(1), arg_bool(false)};
    kernel_case c = {.args = args, .arg_count = 3, .input_count = 1, .output_count = 1};

    (void)state;
    c.inputs[0] = make_tensor(EXG_DTYPE_BF16, 2, n);
    c.outputs[0] = make_tensor(EXG_DTYPE_BF16, 2, n);
    for (int64_t i = 0; i < n[0]; i++) {
        ((uint16_t *)c.inputs[0].data)[2 * i] = (uint16_t)i;
        ((uint16_t *)c.inputs[0].data)[2 * i + 1] = i < n[0] / 2 ? 0 : 0x7f7f;
    }
    expect_softmax_neighbours(&c);
    free_tensors();
}

static void norms_of_bf16_are_next_to_the_true_value(void **state)
{
    exg_argument rms[] = {arg_tensor(), arg_int(1), arg_tensor(), arg_float(1e-5)};

    (void)state;
    for (uint32_t k = 0; k < COUNT(bf16_sizes) * 8; k++) {
        int64_t size = bf16_sizes[k / 8];
        const int64_t n[] = {5, size};
        int64_t count = n[0] * size;
        int64_t room = count + 1;
        exg_argument layer[] = {arg_tensor(), arg_ints(1, &size), arg_tensor(), arg_tensor(),
                                arg_float(1e-5)};
        bool is_rms = (k & 4) != 0;
        kernel_case c = {.kernel = is_rms ? &exg_kernel_rms_norm : &exg_kernel_native_layer_norm,
                         .args = is_rms ? rms : layer,
                         .arg_count = is_rms ? 4 : 5,
                         .input_count = is_rms ? 2 : 3,
                         .output_count = is_rms ? 1 : 3};
        exg_tensor x = unaligned(make_random(EXG_DTYPE_BF16, 1, &room, -3, 3), n);
        double *want = calloc((size_t)count, sizeof(double));
        double *slack = calloc((size_t)count, sizeof(double));
        double means[5];
        double factors[5];

        for (int64_t i = 0; i < size; i++) {
            set(&x, size + i, 100 + get(&x, size + i));
            set(&x, 3 * size + i, 7);
        }
        set(&x, 2 * size, 3e4);
        set(&x, 4 * size + size / 2, INFINITY);
        c.inputs[0] = x;
        c.inputs[1] = (k & 1) != 0 ? make_random(EXG_DTYPE_BF16, 1, &size, -1, 1) : absent_tensor();
        c.inputs[2] = (k & 2) != 0 ? make_random(EXG_DTYPE_BF16, 1, &size, -1, 1) : absent_tensor();
        c.outputs[0] = unaligned(make_tensor(EXG_DTYPE_BF16, 1, &room), n);
        c.outputs[1] = make_tensor(EXG_DTYPE_BF16, 2, SIZES(5, 1));
        c.outputs[2] = make_tensor(EXG_DTYPE_BF16, 2, SIZES(5, 1));
        normalize(&x, 5, size, 1e-5, is_rms, want, means, factors);
        for (int64_t i = 0; i < count; i++) { /* the mean is f32 */
            slack[i] = (fabs(want[i]) + fabs(means[i / size] * factors[i / size])) * 0x1p-22;
            want[i] *= (k & 1) != 0 ? get(&c.inputs[1], i % size) : 1;
            want[i] += (k & 2) != 0 && !is_rms ? get(&c.inputs[2], i % size) : 0;
        }
        expect_neighbours_everywhere(&c, want, slack);
        free(want);
        free(slack);
        free_tensors();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(softmax_rows_sum_to_one_and_log_softmax_is_their_logarithm),
        cmocka_unit_test(softmax_takes_infinities_and_nan_as_pytorch),
        cmocka_unit_test(softmax_across_rows_takes_infinities_and_nan_as_pytorch),
        cmocka_unit_test(softmax_of_half_may_give_float),
        cmocka_unit_test(layer_and_rms_norm_equal_their_definitions),
        cmocka_unit_test(group_norm_normalizes_groups_of_channels),
    };
    const struct CMUnitTest loops[] = {
        /* of the host */
        cmocka_unit_test(large_results_are_written_whole),
        cmocka_unit_test(softmax_of_bf16_is_next_to_the_true_value),
        cmocka_unit_test(softmax_of_every_bf16_is_next_to_the_true_value),
        cmocka_unit_test(norms_of_bf16_are_next_to_the_true_value),
    };

    return cmocka_run_group_tests_name("norm", tests, NULL, NULL) +
           (on_device() ? 0 : cmocka_run_group_tests_name("norm loops", loops, NULL, NULL));
}
