/* Reductions, extremes, scans, sort and sums by place against plain loops. */
#include "tests/exec/kernels/harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* (outer, size, inner) around the middle dimension. */
static const int64_t shapes[][3] = {{2, 5, 1},     {1, 3000, 1},  {3, 77, 4},  {1, 200, 300},
                                    {4, 1, 3},     {70, 30, 1},   {2, 3, 129}, {1, 100000, 1},
                                    {1, 70000, 3}, {2, 70, 1100}, {2, 64, 9},  {1, 63, 40},
                                    {1, 128, 33},  {1500, 3, 1}};

typedef enum operation { SUM, MEAN, PROD, AMAX, AMIN, ANY, ALL, SQUARES, VAR, STD } operation;

static const exg_kernel *const kernels[] = {
    &exg_kernel_sum, &exg_kernel_mean, &exg_kernel_prod,        &exg_kernel_amax, &exg_kernel_amin,
    &exg_kernel_any, &exg_kernel_all,  &exg_kernel_sum_squares, &exg_kernel_var,  &exg_kernel_std};

static double reduce(operation op, const double *x, int64_t count, int64_t stride,
                     double correction)
{
    long double sum = 0;
    long double of_squares = 0;
    double product = 1;
    double greatest = -INFINITY;
    double least = INFINITY;
    long double squares = 0;
    bool any = false;
    bool all = true;

    for (int64_t i = 0; i < count; i++) {
        double v = x[i * stride];

        sum += (long double)v;
        of_squares += (long double)v * (long double)v;
        product *= v;
        greatest = v > greatest || v != v ? v : greatest;
        least = v < least || v != v ? v : least;
        any = any || v != 0;
        all = all && v != 0;
    }
    for (int64_t i = 0; i < count; i++) {
        long double d = (long double)x[i * stride] - sum / (long double)count;

        squares += d * d;
    }
    switch (op) {
    case SUM:
        return (double)sum;
    case MEAN:
        return (double)sum / (double)count;
    case PROD:
        return product;
    case AMAX:
        return greatest;
    case AMIN:
        return least;
    case ANY:
        return any;
    case ALL:
        return all;
    case SQUARES:
        return (double)of_squares;
    case VAR:
        return (double)squares / fmax((double)count - correction, 0);
    case STD:
        return sqrt((double)squares / fmax((double)count - correction, 0));
    }
    return 0;
}

static exg_dtype result_dtype(operation op, exg_dtype d)
{
    if (op == ANY || op == ALL) {
        return d == EXG_DTYPE_U8 ? d : EXG_DTYPE_B8;
    }
    return (op == SUM || op == PROD) && exg_dtype_is_integral(d) ? EXG_DTYPE_I64 : d;
}

static void check_reduction(operation op, exg_dtype d, const int64_t *n, bool is_turned)
{
    exg_argument dims[] = {arg_tensor(), arg_ints(1, SIZES(-2)), arg_bool(false), arg_none()};
    exg_argument one_dim[] = {arg_tensor(), arg_int(1), arg_bool(false), arg_none()};
    exg_argument var[] = {arg_tensor(), arg_ints(1, SIZES(1)), arg_float(0.5), arg_bool(true)};
    kernel_case c = {.kernel = kernels[op],
                     .args = op == PROD  ? one_dim
                             : op >= VAR ? var
                                         : dims,
                     .arg_count = 4,
                     .input_count = 1,
                     .output_count = 1};
    /* positive sums, whose relative error means something */
    double low = op == PROD ? 0.9 : op == SUM && exg_dtype_is_float(d) ? 0.1 : -3;
    double high = op == PROD ? 1.1 : 3;
    exg_dtype result = result_dtype(op, d);
    double *want = calloc((size_t)(n[0] * n[2]), sizeof(double));
    double *x;

    c.inputs[0] = is_turned
                      ? transposed(make_random(d, 3, SIZES(n[2], n[1], n[0]), low, high), 0, 2)
                      : make_random(d, 3, n, low, high);
    c.outputs[0] = make_tensor(result, 2, SIZES(n[0], n[2]));
    x = values_of(&c.inputs[0]);
    for (int64_t i = 0; i < n[0] * n[2]; i++) {
        want[i] = reduce(op, x + i / n[2] * n[1] * n[2] + i % n[2], n[1], n[2], 0.5);
    }
    expect_kernel(&c, 0, want, tolerance_of(result, 8) * (op == PROD || op >= VAR ? 99 : 1));
    free(want);
    free(x);
    free_tensors();
}

static void reductions_equal_plain_loops_over_any_dimension(void **state)
{
    (void)state;
    for (uint32_t d = 0; d < COUNT(real_dtypes); d++) {
        for (uint32_t s = 0; s < COUNT(shapes); s++) {
            for (int op = SUM; op <= STD; op++) {
                bool real = exg_dtype_is_float(real_dtypes[d]);

                /* sums of long rows of halves overflow them */
                if ((!real && (op == MEAN || op >= SQUARES)) ||
                    ((op == SUM || op == SQUARES) && real_dtypes[d] == EXG_DTYPE_F16 &&
                     shapes[s][1] > 5000)) {
                    continue;
                }
                if (op == PROD && (shapes[s][1] > 300 || !real)) {
                    continue;
                }
                check_reduction((operation)op, real_dtypes[d], shapes[s], false);
                check_reduction((operation)op, real_dtypes[d], shapes[s], true);
            }
        }
    }
}

static void a_reduction_over_several_or_all_dimensions_keeps_the_others(void **state)
{
    exg_argument some[] = {arg_tensor(), arg_ints(2, SIZES(0, -1)), arg_bool(true), arg_none()};
    exg_argument all[] = {arg_tensor(), arg_ints(0, NULL), arg_bool(false), arg_none()};
    kernel_case c = {.kernel = &exg_kernel_sum,
                     .args = some,
                     .arg_count = 4,
                     .input_count = 1,
                     .output_count = 1};
    double want[3] = {0};
    double total = 0;

    (void)state;
    c.inputs[0] = make_random(EXG_DTYPE_F64, 3, SIZES(7, 3, 11), -1, 1);
    for (int64_t i = 0; i < 231; i++) {
        want[i / 11 % 3] += get(&c.inputs[0], i);
        total += get(&c.inputs[0], i);
    }
    c.outputs[0] = make_tensor(EXG_DTYPE_F64, 3, SIZES(1, 3, 1));
    expect_kernel(&c, 0, want, 1e-14);
    c.args = all;
    c.outputs[0] = make_tensor(EXG_DTYPE_F64, 0, NULL);
    expect_kernel(&c, 0, &total, 1e-13);
    free_tensors();
}

/* Far from zero the mean is needed to more digits than f32 has; squares of large ones are out of
 * its range, and of f16's sooner, where the root is not. */
static void spreads_keep_their_digits_far_from_zero_and_at_any_size(void **state)
{
    exg_argument args[] = {arg_tensor(), arg_ints(1, SIZES(0)), arg_none(), arg_bool(false)};
    static const struct {
        exg_dtype dtype;
        double from, step;
    } rows[] = {{EXG_DTYPE_F32, 1e7, 1}, {EXG_DTYPE_F32, 0, 0x1p90}, {EXG_DTYPE_F16, 0, 512}};

    (void)state;
    for (uint32_t r = 0; r < COUNT(rows); r++) {
        for (uint32_t across = 0; across < 2; across++) {
            kernel_case c = {.kernel = &exg_kernel_std,
                             .args = args,
                             .arg_count = 4,
                             .input_count = 1,
                             .output_count = 1};
            exg_tensor x = make_tensor(rows[r].dtype, 2, SIZES(1000, 1 + 2 * across));
            double want[3];

            for (int64_t i = 0; i < 1000 * (1 + 2 * across); i++) {
                set(&x, i, rows[r].from + rows[r].step * (double)(i / (1 + 2 * across) % 4));
            }
            want[0] = want[1] = want[2] = rows[r].step * sqrt(1.25 * 1000 / 999);
            c.inputs[0] = x;
            c.outputs[0] = make_tensor(rows[r].dtype, 1, SIZES(1 + 2 * across));
            expect_kernel(&c, 0, want, rows[r].dtype == EXG_DTYPE_F16 ? 5e-4 : 2e-7);
            free_tensors();
        }
    }
}

static void nothing_sums_to_the_neutral_element(void **state)
{
    exg_argument args[] = {arg_tensor(), arg_ints(1, SIZES(1)), arg_bool(false), arg_none()};
    exg_argument one_dim[] = {arg_tensor(), arg_int(1), arg_bool(false), arg_none()};
    static const struct {
        operation op;
        double want;
    } rows[] = {{SUM, 0}, {MEAN, NAN}, {PROD, 1}, {ANY, 0}, {ALL, 1}};

    (void)state;
    for (uint32_t r = 0; r < COUNT(rows); r++) {
        kernel_case c = {.kernel = kernels[rows[r].op],
                         .args = rows[r].op == PROD ? one_dim : args,
                         .arg_count = 4,
                         .input_count = 1,
                         .output_count = 1};
        const double want[] = {rows[r].want, rows[r].want};

        c.inputs[0] = make_tensor(EXG_DTYPE_F32, 2, SIZES(2, 0));
        c.outputs[0] = make_tensor(result_dtype(rows[r].op, EXG_DTYPE_F32), 1, SIZES(2));
        expect_kernel(&c, 0, want, 0);
        free_tensors();
    }
}

static void amax_and_amin_hand_on_nan(void **state)
{
    exg_argument args[] = {arg_tensor(), arg_ints(1, SIZES(1)), arg_bool(false)};
    kernel_case c = {.kernel = &exg_kernel_amax,
                     .args = args,
                     .arg_count = 3,
                     .input_count = 1,
                     .output_count = 1};
    const double want[] = {NAN, NAN, 0};

    (void)state;
    for (int turned = 0; turned < 2; turned++) {
        c.inputs[0] = turned ? transposed(make_tensor(EXG_DTYPE_F32, 2, SIZES(100, 3)), 0, 1)
                             : make_tensor(EXG_DTYPE_F32, 2, SIZES(3, 100));
        set(&c.inputs[0], 0, NAN);
        set(&c.inputs[0], 199, NAN);
        c.outputs[0] = make_tensor(EXG_DTYPE_F32, 1, SIZES(3));
        c.kernel = &exg_kernel_amax;
        expect_kernel(&c, 0, want, 0);
        c.kernel = &exg_kernel_amin;
        expect_kernel(&c, 0, want, 0);
    }
    free_tensors();
}

static void a_long_f32_sum_keeps_its_digits(void **state)
{
    exg_argument args[] = {arg_tensor(), arg_ints(0, NULL), arg_bool(false), arg_none()};
    kernel_case c = {.kernel = &exg_kernel_sum,
                     .args = args,
                     .arg_count = 4,
                     .input_count = 1,
                     .output_count = 1};
    double want = 0;

    (void)state;
    c.inputs[0] = make_random(EXG_DTYPE_F32, 1, SIZES(1000003), 0, 1);
    for (int64_t i = 0; i < 1000003; i++) {
        want += (double)((float *)c.inputs[0].data)[i];
    }
    c.outputs[0] = make_tensor(EXG_DTYPE_F32, 0, NULL);
    expect_kernel(&c, 0, &want, 0x1p-23);
    free_tensors();
}

/* ---- extremes ------------------------------------------------------------------------------ */

static void extremes_come_with_the_place_of_the_first(void **state)
{
    (void)state;
    for (uint32_t d = 0; d < COUNT(real_dtypes); d++) {
        for (uint32_t s = 0; s < 7; s++) {
            for (int is_min = 0; is_min < 2; is_min++) {
                const int64_t *n = shapes[s];
                exg_argument args[] = {arg_tensor(), arg_int(1), arg_bool(true)};
                kernel_case c = {.kernel = is_min ? &exg_kernel_min_dim : &exg_kernel_max_dim,
                                 .args = args,
                                 .arg_count = 3,
                                 .input_count = 1,
                                 .output_count = 2};
                int64_t rows = n[0] * n[2];
                double *values = calloc((size_t)rows, sizeof(double));
                double *places = calloc((size_t)rows, sizeof(double));

                c.inputs[0] = make_random(real_dtypes[d], 3, n, -3, 3);
                for (int64_t r = 0; r < rows; r++) {
                    int64_t base = r / n[2] * n[1] * n[2] + r % n[2];

                    values[r] = get(&c.inputs[0], base);
                    for (int64_t i = 1; i < n[1]; i++) {
                        double v = get(&c.inputs[0], base + i * n[2]);

                        if (is_min ? v < values[r] : v > values[r]) {
                            values[r] = v;
                            places[r] = (double)i;
                        }
                    }
                }
                c.outputs[0] = make_tensor(real_dtypes[d], 3, SIZES(n[0], 1, n[2]));
                c.outputs[1] = make_tensor(EXG_DTYPE_I64, 3, SIZES(n[0], 1, n[2]));
                expect_kernel(&c, 0, values, 0);
                expect_values(&c, 1, places, 0);
                c.kernel = is_min ? &exg_kernel_argmin : &exg_kernel_argmax;
                c.outputs[0] = c.outputs[1];
                c.output_count = 1;
                expect_kernel(&c, 0, places, 0);
                free(values);
                free(places);
                free_tensors();
            }
        }
    }
}

static void argmax_without_a_dimension_is_flat_and_stops_at_nan(void **state)
{
    exg_argument args[] = {arg_tensor(), arg_none(), arg_bool(false)};
    kernel_case c = {.kernel = &exg_kernel_argmax,
                     .args = args,
                     .arg_count = 3,
                     .input_count = 1,
                     .output_count = 1};
    double want = 5;

    (void)state;
    c.inputs[0] = make_tensor(EXG_DTYPE_F64, 2, SIZES(3, 4));
    set(&c.inputs[0], 5, 2);
    set(&c.inputs[0], 9, 2);
    c.outputs[0] = make_tensor(EXG_DTYPE_I64, 0, NULL);
    expect_kernel(&c, 0, &want, 0);
    set(&c.inputs[0], 7, NAN);
    set(&c.inputs[0], 8, NAN);
    want = 7;
    expect_kernel(&c, 0, &want, 0);
    free_tensors();
}

/* ---- scans -------------------- */

static void check_scan(exg_dtype d, const int64_t *n, bool is_product)
{
    exg_dtype result = result_dtype(SUM, d);
    exg_argument args[] = {arg_tensor(), arg_int(-2), arg_none()};
    kernel_case c = {.kernel = is_product ? &exg_kernel_cumprod : &exg_kernel_cumsum,
                     .args = args,
                     .arg_count = 3,
                     .input_count = 1,
                     .output_count = 1};
    double *want;

    c.inputs[0] = make_random(d, 3, n, is_product ? 0.9 : -1, 1.05);
    want = values_of(&c.inputs[0]);
    for (int64_t i = 0; i < n[0] * n[1] * n[2]; i++) {
        if (i / n[2] % n[1] > 0) {
            want[i] = is_product ? want[i] * want[i - n[2]] : want[i] + want[i - n[2]];
        }
    }
    c.outputs[0] = make_tensor(result, 3, n);
    /* bf16 and f16 round at every step */
    expect_kernel(&c, 0, want,
                  exg_dtype_bytes(d) == 2 ? tolerance_of(d, 8) * (double)n[1]
                                          : tolerance_of(result, 99));
    free(want);
    free_tensors();
}

static void scans_run_along_their_dimension(void **state)
{
    (void)state;
    for (uint32_t d = 0; d < COUNT(real_dtypes); d++) {
        for (uint32_t s = 0; s < 7; s++) {
            check_scan(real_dtypes[d], shapes[s], false);
            check_scan(real_dtypes[d], shapes[s], true);
        }
    }
}

/* Devices split these. */
static void scans_run_along_long_lines(void **state)
{
    static const exg_dtype dtypes[] = {EXG_DTYPE_F32, EXG_DTYPE_F64, EXG_DTYPE_I32, EXG_DTYPE_B8};

    (void)state;
    for (uint32_t d = 0; d < COUNT(dtypes); d++) {
        check_scan(dtypes[d], SIZES(1, 70001, 1), false);
        check_scan(dtypes[d], SIZES(3, 20000, 1), false);
    }
}

/* The latest of equal ones, and NaN from the first one on. */
static void find_running(const exg_tensor *x, const int64_t *n, bool is_min, double *values,
                         double *places)
{
    for (int64_t i = 0; i < n[0] * n[1] * n[2]; i++) {
        double v = get(x, i);
        bool first = i / n[2] % n[1] == 0;
        double before = first ? v : values[i - n[2]];

        if (first || v != v || (is_min ? v <= before : v >= before)) {
            values[i] = v;
            places[i] = (double)(i / n[2] % n[1]);
        } else {
            values[i] = before;
            places[i] = places[i - n[2]];
        }
    }
}

static void running_extremes_come_with_the_place_of_the_latest(void **state)
{
    (void)state;
    for (uint32_t d = 0; d < COUNT(real_dtypes); d++) {
        for (uint32_t s = 0; s < 7; s++) {
            for (int is_min = 0; is_min < 2; is_min++) {
                const int64_t *n = shapes[s];
                exg_argument args[] = {arg_tensor(), arg_int(-2)};
                kernel_case c = {.kernel = is_min ? &exg_kernel_cummin : &exg_kernel_cummax,
                                 .args = args,
                                 .arg_count = 2,
                                 .input_count = 1,
                                 .output_count = 2};
                double *values = calloc((size_t)(n[0] * n[1] * n[2]), sizeof(double));
                double *places = calloc((size_t)(n[0] * n[1] * n[2]), sizeof(double));

                c.inputs[0] = make_random(real_dtypes[d], 3, n, -3, 3);
                for (int64_t i = 0; i < n[1] && i < 40; i += 3) { /* some that rise or fall */
                    set(&c.inputs[0], i * n[2], is_min ? 1 : (double)(i / 6));
                }
                if (exg_dtype_is_float(real_dtypes[d]) && n[1] > 100) {
                    set(&c.inputs[0], n[2], -0.0);
                    set(&c.inputs[0], 60 * n[2] + n[2] - 1, is_min ? -INFINITY : INFINITY);
                    set(&c.inputs[0], 90 * n[2], NAN);
                    set(&c.inputs[0], 97 * n[2], NAN);
                }
                find_running(&c.inputs[0], n, is_min, values, places);
                c.outputs[0] = make_tensor(real_dtypes[d], 3, n);
                c.outputs[1] = make_tensor(EXG_DTYPE_I64, 3, n);
                expect_kernel(&c, 0, values, 0);
                expect_values(&c, 1, places, 0);
                free(values);
                free(places);
                free_tensors();
            }
        }
    }
}

static void no_extreme_runs_along_nothing(void **state)
{
    exg_argument args[] = {arg_tensor(), arg_int(1)};
    kernel_case c = {.kernel = &exg_kernel_cummax,
                     .args = args,
                     .arg_count = 2,
                     .input_count = 1,
                     .output_count = 2};

    (void)state;
    for (int turned = 0; turned < 2; turned++) {
        const int64_t *n = turned ? SIZES(3, 4, 0) : SIZES(3, 0, 4);

        c.inputs[0] = make_tensor(EXG_DTYPE_F32, 3, n);
        c.outputs[0] = make_tensor(EXG_DTYPE_F32, 3, n);
        c.outputs[1] = make_tensor(EXG_DTYPE_I64, 3, n);
        run_everywhere(&c);
        free_tensors();
    }
}

/* ---- distances -------------------- */

static double apart(const exg_tensor *x, const exg_tensor *y, int64_t batch, int64_t i, int64_t j,
                    double p)
{
    double sum = 0;

    for (int64_t m = 0; m < x->sizes[2]; m++) {
        double gap = fabs(get_at(x, SIZES(batch, i, m)) - get_at(y, SIZES(batch, j, m)));

        sum = p == 0   ? sum + (gap != 0)
              : p == 1 ? sum + gap
              : p == 2 ? sum + gap * gap
                       : (gap > sum || gap != gap ? gap : sum);
    }
    return p == 2 ? sqrt(sum) : sum;
}

static void distances_are_of_every_two_rows(void **state)
{
    static const int64_t sizes[][4] = {{1, 1, 1, 1},   {2, 5, 7, 3}, {1, 30, 300, 4},
                                       {3, 9, 17, 40}, {1, 4, 3, 0}, {2, 0, 3, 4}};
    static const double powers[] = {0, 1, 2, INFINITY};

    (void)state;
    for (uint32_t d = 0; d < 2; d++) {
        for (uint32_t s = 0; s < 4 * COUNT(sizes); s++) {
            const int64_t *n = sizes[s / 4];
            const double p = powers[s % 4];
            exg_argument args[] = {arg_tensor(), arg_tensor(), arg_float(p)};
            kernel_case c = {.kernel = &exg_kernel_distances,
                             .args = args,
                             .arg_count = 3,
                             .input_count = 2,
                             .output_count = 1};
            double *want = calloc((size_t)(n[0] * n[1] * n[2]) + 1, sizeof(double));

            c.inputs[0] = make_random(float_dtypes[d], 3, SIZES(n[0], n[1], n[3]), -2, 2);
            c.inputs[1] = make_random(float_dtypes[d], 3, SIZES(n[0], n[2], n[3]), -2, 2);
            if (n[1] > 3 && n[3] > 1) {
                set(&c.inputs[0], 1, get(&c.inputs[1], 1));
                set(&c.inputs[0], n[3], NAN);
                set(&c.inputs[0], 2 * n[3], -INFINITY);
            }
            for (int64_t i = 0; i < n[0] * n[1] * n[2]; i++) {
                want[i] = apart(&c.inputs[0], &c.inputs[1], i / n[2] / n[1], i / n[2] % n[1],
                                i % n[2], p);
            }
            c.outputs[0] = make_tensor(float_dtypes[d], 3, SIZES(n[0], n[1], n[2]));
            expect_kernel(&c, 0, want, tolerance_of(float_dtypes[d], 8));
            free(want);
            free_tensors();
        }
    }
}

/* ---- sort -------------------- */

static const double *compared; /* the line being sorted */
static bool is_descending;

static int compare_stable(const void *a, const void *b)
{
    int64_t i = *(const int64_t *)a;
    int64_t j = *(const int64_t *)b;
    double x = compared[i];
    double y = compared[j];
    bool x_first = y != y ? x == x : x < y; /* NaN is greater than all */
    bool y_first = x != x ? y == y : y < x;

    if (x_first != y_first) {
        return x_first != is_descending ? -1 : 1;
    }
    return i < j ? -1 : 1;
}

static void check_sort(exg_dtype d, const int64_t *n, bool descending, int64_t k)
{
    exg_argument sort[] = {arg_tensor(), arg_bool(true), arg_int(1), arg_bool(descending)};
    exg_argument topk[] = {arg_tensor(), arg_int(k), arg_int(1), arg_bool(descending),
                           arg_bool(true)};
    kernel_case c = {.kernel = k < 0 ? &exg_kernel_sort : &exg_kernel_topk,
                     .args = k < 0 ? sort : topk,
                     .arg_count = k < 0 ? 4 : 5,
                     .input_count = 1,
                     .output_count = 2};
    int64_t kept = k < 0 ? n[1] : k;
    double *values = calloc((size_t)(n[0] * kept * n[2]) + 1, sizeof(double));
    double *places = calloc((size_t)(n[0] * kept * n[2]) + 1, sizeof(double));
    double *line = calloc((size_t)n[1] + 1, sizeof(double));
    int64_t *order = calloc((size_t)n[1] + 1, sizeof(int64_t));

    c.inputs[0] = make_random(d, 3, n, -9, 9);
    if (d == EXG_DTYPE_F32 && n[1] > 9) {
        set(&c.inputs[0], 4 * n[2], NAN);
        set(&c.inputs[0], 5 * n[2], -0.0);
        set(&c.inputs[0], 6 * n[2], 0.0);
        set(&c.inputs[0], 7 * n[2], -INFINITY);
    }
    for (int64_t r = 0; r < n[0] * n[2]; r++) {
        for (int64_t i = 0; i < n[1]; i++) {
            line[i] = get(&c.inputs[0], r / n[2] * n[1] * n[2] + i * n[2] + r % n[2]);
            order[i] = i;
        }
        compared = line;
        is_descending = descending;
        qsort(order, (size_t)n[1], sizeof(int64_t), compare_stable);
        for (int64_t i = 0; i < kept; i++) {
            values[(r / n[2] * kept + i) * n[2] + r % n[2]] = line[order[i]];
            places[(r / n[2] * kept + i) * n[2] + r % n[2]] = (double)order[i];
        }
    }
    c.outputs[0] = make_tensor(d, 3, SIZES(n[0], kept, n[2]));
    c.outputs[1] = make_tensor(EXG_DTYPE_I64, 3, SIZES(n[0], kept, n[2]));
    expect_kernel(&c, 0, values, 0);
    expect_values(&c, 1, places, 0);
    free(values);
    free(places);
    free(line);
    free(order);
    free_tensors();
}

static void sort_is_stable_both_ways_and_topk_is_its_beginning(void **state)
{
    (void)state;
    for (uint32_t d = 0; d < COUNT(real_dtypes); d++) {
        for (uint32_t s = 0; s < 7; s++) {
            for (int descending = 0; descending < 2; descending++) {
                check_sort(real_dtypes[d], shapes[s], descending, -1);
                check_sort(real_dtypes[d], shapes[s], descending, 1);
                check_sort(real_dtypes[d], shapes[s], descending,
                           shapes[s][1] < 5 ? shapes[s][1] : 5);
                check_sort(real_dtypes[d], shapes[s], descending,
                           shapes[s][1] < 190 ? shapes[s][1] : 190);
            }
        }
    }
}

/* Devices sort these chunk by chunk. */
static void sort_brings_long_lines_in_order(void **state)
{
    static const exg_dtype dtypes[] = {EXG_DTYPE_F32, EXG_DTYPE_I64,  EXG_DTYPE_F16, EXG_DTYPE_F64,
                                       EXG_DTYPE_I16, EXG_DTYPE_BF16, EXG_DTYPE_U8};

    (void)state;
    for (uint32_t d = 0; d < COUNT(dtypes); d++) {
        check_sort(dtypes[d], SIZES(1, 5003, 1), d % 2 == 0, -1);
        check_sort(dtypes[d], SIZES(1, 2100, 3), d % 2 != 0, -1);
        check_sort(dtypes[d], SIZES(2, 2048, 1), d % 2 != 0, -1);
    }
}

static void numbers_that_no_signed_one_holds_are_the_greatest(void **state)
{
    static const uint64_t numbers[] = {UINT64_MAX, 0, UINT64_C(1) << 63, 7, INT64_MAX};
    static const int64_t order[] = {1, 3, 4, 2, 0};
    exg_argument args[] = {arg_tensor(), arg_bool(true), arg_int(0), arg_bool(false)};
    kernel_case c = {.kernel = &exg_kernel_sort,
                     .args = args,
                     .arg_count = 4,
                     .input_count = 1,
                     .output_count = 2};

    (void)state;
    c.inputs[0] = make_tensor(EXG_DTYPE_U64, 1, SIZES(5));
    memcpy(c.inputs[0].data, numbers, sizeof(numbers));
    c.outputs[0] = make_tensor(EXG_DTYPE_U64, 1, SIZES(5));
    c.outputs[1] = make_tensor(EXG_DTYPE_I64, 1, SIZES(5));
    run_everywhere(&c);
    assert_memory_equal(c.outputs[1].data, order, sizeof(order));
    free_tensors();
}

/* ---- by place --------------- */

/* `count` elements, each `slice` wide, to `places` places, most of them to place 1: sums of whole
 * numbers, which are exact, products of -1 and 1, the greatest and the least. */
static void check_combined(const exg_kernel *kernel, exg_dtype dtype, int64_t count, int64_t slice,
                           int64_t places)
{
    exg_argument args[] = {arg_tensor(), arg_int(0), arg_tensor(), arg_tensor()};
    kernel_case c = {
        .kernel = kernel, .args = args, .arg_count = 4, .input_count = 3, .output_count = 1};
    const bool is_product = kernel == &exg_kernel_scatter_prod;
    exg_tensor index = make_indices(1, SIZES(count), 0, places);
    double *want;

    for (int64_t i = 0; i < count; i++) {
        if (i % 7 != 0) {
            set(&index, i, 1);
        }
    }
    c.inputs[0] = make_tensor(dtype, 2, SIZES(places, slice));
    c.inputs[1] = expanded(index, 2, SIZES(slice, count));
    c.inputs[1] = transposed(c.inputs[1], 0, 1);
    c.inputs[2] = make_tensor(dtype, 2, SIZES(count, slice));
    for (int64_t i = 0; i < places * slice; i++) {
        set(&c.inputs[0], i, is_product ? 1 : (double)(i % 3));
    }
    want = values_of(&c.inputs[0]);
    for (int64_t i = 0; i < count * slice; i++) {
        double x = is_product ? (i % 5 == 0 ? -1 : 1) : (double)(i % 11 - 4);
        double *to = &want[(int64_t)get(&index, i / slice) * slice + i % slice];

        set(&c.inputs[2], i, x);
        *to = is_product                                          ? *to * x
              : kernel == &exg_kernel_scatter_add                 ? *to + x
              : (kernel == &exg_kernel_scatter_amax) == (x > *to) ? x
                                                                  : *to;
    }
    c.outputs[0] = make_tensor(dtype, 2, SIZES(places, slice));
    expect_kernel(&c, 0, want, 0);
    free(want);
    free_tensors();
}

/* Devices combine these piece by piece. */
static void many_elements_of_one_place_are_combined(void **state)
{
    static const exg_kernel *const combining[] = {&exg_kernel_scatter_add, &exg_kernel_scatter_prod,
                                                  &exg_kernel_scatter_amax,
                                                  &exg_kernel_scatter_amin};

    (void)state;
    for (uint32_t k = 0; k < COUNT(combining); k++) {
        check_combined(combining[k], EXG_DTYPE_F32, 9001, 1, 2000);
        check_combined(combining[k], EXG_DTYPE_I64, 300, 3, 5);
        check_combined(combining[k], EXG_DTYPE_F64, 64, 2, 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_that_no_signed_one_holds_are_the_greatest),
        cmocka_unit_test(reductions_equal_plain_loops_over_any_dimension),
        cmocka_unit_test(a_reduction_over_several_or_all_dimensions_keeps_the_others),
        cmocka_unit_test(spreads_keep_their_digits_far_from_zero_and_at_any_size),
        cmocka_unit_test(nothing_sums_to_the_neutral_element),
        cmocka_unit_test(amax_and_amin_hand_on_nan),
        cmocka_unit_test(a_long_f32_sum_keeps_its_digits),
        cmocka_unit_test(extremes_come_with_the_place_of_the_first),
        cmocka_unit_test(argmax_without_a_dimension_is_flat_and_stops_at_nan),
        cmocka_unit_test(scans_run_along_their_dimension),
        cmocka_unit_test(scans_run_along_long_lines),
        cmocka_unit_test(running_extremes_come_with_the_place_of_the_latest),
        cmocka_unit_test(no_extreme_runs_along_nothing),
        cmocka_unit_test(distances_are_of_every_two_rows),
        cmocka_unit_test(sort_is_stable_both_ways_and_topk_is_its_beginning),
        cmocka_unit_test(sort_brings_long_lines_in_order),
        cmocka_unit_test(many_elements_of_one_place_are_combined),
    };

    return cmocka_run_group_tests_name("reduce", tests, NULL, NULL);
}
