/* Fourier transforms against the sum over all elements, in double: real parts, of complex numbers
 * whose imaginary part is the real one's negative; of what real numbers become, and of what becomes
 * real numbers, each number. */
#include "tests/exec/kernels/harness.h"

#include <math.h>
#include <stdlib.h>

#define PI 3.14159265358979323846

/* Lengths of one factor and of many, of primes that are factors and of one that is none. */
static const int64_t lengths[] = {1, 2, 3, 4, 5, 8, 14, 16, 30, 37, 64, 74, 97, 120, 225};

/* Lines beside each other: none, few, as many as a vector and some more. */
static const int64_t beside[][2] = {{1, 1}, {3, 1},  {37, 1}, {1, 11},
                                    {3, 7}, {1, 64}, {2, 18}, {0, 2}};

/* Of a transform in f32 the error grows with the number of its passes. */
static double tolerance(exg_dtype dtype)
{
    return dtype == EXG_DTYPE_C64 || dtype == EXG_DTYPE_F32 ? 0x1p-20 : 0x1p-44;
}

/* The part of the tensor's element (outer, k, inner): 0 real, 1 imaginary. */
static double part_of(const exg_tensor *t, int64_t outer, int64_t k, int64_t inner, int part)
{
    const int64_t at = (outer * t->sizes[1] + k) * t->sizes[2] + inner;
    const int64_t place = exg_dtype_is_complex(t->dtype) ? 2 * at + part : at;

    if (!exg_dtype_is_complex(t->dtype) && part == 1) {
        return 0;
    }
    return t->dtype == EXG_DTYPE_C64 || t->dtype == EXG_DTYPE_F32
               ? (double)((const float *)t->data)[place]
               : ((const double *)t->data)[place];
}

/* The parts of the sum over the elements x[j] e^(sign 2 pi i j k / n) at k; of half a spectrum what
 * is missing are conjugates. */
static void sum_at(const exg_tensor *x, int64_t outer, int64_t n, int64_t k, int64_t inner,
                   double sign, double *re, double *im)
{
    const bool halved = x->sizes[1] < n;

    *re = *im = 0;
    for (int64_t j = 0; j < n; j++) {
        const bool mirrored = halved && j > n / 2;
        const int64_t at = mirrored ? n - j : j;
        const double angle = sign * 2 * PI * (double)(j * k % n) / (double)n;
        const double a = part_of(x, outer, at, inner, 0);
        double b = part_of(x, outer, at, inner, 1) * (mirrored ? -1 : 1);

        b = halved && 2 * j % n == 0 ? 0 : b; /* of a real signal's spectrum that is 0 */
        *re += a * cos(angle) - b * sin(angle);
        *im += a * sin(angle) + b * cos(angle);
    }
}

static void check(const kernel_case *c, int64_t n, double sign, double scale)
{
    const exg_tensor *out = &c->outputs[0];

    for (int64_t o = 0; o < out->sizes[0]; o++) {
        for (int64_t i = 0; i < out->sizes[2]; i++) {
            for (int64_t k = 0; k < out->sizes[1]; k++) {
                const double allowed = tolerance(out->dtype) * sqrt((double)n) * scale;
                double re;
                double im;

                sum_at(&c->inputs[0], o, n, k, i, sign, &re, &im);
                assert_true(fabs(part_of(out, o, k, i, 0) - re * scale) <= allowed);
                if (exg_dtype_is_complex(out->dtype)) {
                    assert_true(fabs(part_of(out, o, k, i, 1) - im * scale) <= allowed);
                }
            }
        }
    }
}

static void lines_of_every_length_are_transformed(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < COUNT(lengths); i++) {
        for (uint32_t f = 0; f < 4 * COUNT(beside); f++) {
            const bool is_inverse = f % 2 == 1;
            const exg_dtype dtype = f / 2 % 2 == 0 ? EXG_DTYPE_C64 : EXG_DTYPE_C128;
            const int64_t *n = beside[f / 4];
            const double scale = is_inverse ? 1 / (double)lengths[i] : 0.5;
            exg_argument args[] = {arg_tensor(), arg_int(1), arg_bool(is_inverse),
                                   arg_float(scale)};
            kernel_case c = {.kernel = &exg_kernel_fft,
                             .args = args,
                             .arg_count = 4,
                             .input_count = 1,
                             .output_count = 1};

            c.inputs[0] = make_random(dtype, 3, SIZES(n[0], lengths[i], n[1]), -1, 1);
            c.outputs[0] = make_tensor(dtype, 3, SIZES(n[0], lengths[i], n[1]));
            run_everywhere(&c);
            check(&c, lengths[i], is_inverse ? 1 : -1, scale);
            free_tensors();
        }
    }
}

static void real_numbers_become_half_a_spectrum_and_come_back(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < COUNT(lengths); i++) {
        for (uint32_t f = 0; f < 4 * COUNT(beside); f++) {
            const bool comes_back = f % 2 == 1;
            const bool is_double = f / 2 % 2 == 1;
            const exg_dtype complex = is_double ? EXG_DTYPE_C128 : EXG_DTYPE_C64;
            const exg_dtype real = is_double ? EXG_DTYPE_F64 : EXG_DTYPE_F32;
            const int64_t *n = beside[f / 4];
            const int64_t half = lengths[i] / 2 + 1;
            exg_argument there[] = {arg_tensor(), arg_int(1), arg_float(0.5)};
            exg_argument back[] = {arg_tensor(), arg_int(1), arg_int(lengths[i]), arg_float(0.25)};
            kernel_case c = {.kernel =
                                 comes_back ? &exg_kernel_fft_to_real : &exg_kernel_fft_from_real,
                             .args = comes_back ? back : there,
                             .arg_count = comes_back ? 4 : 3,
                             .input_count = 1,
                             .output_count = 1};
            exg_tensor *reals = comes_back ? &c.outputs[0] : &c.inputs[0];
            exg_tensor *spectrum = comes_back ? &c.inputs[0] : &c.outputs[0];

            *reals = make_random(real, 3, SIZES(n[0], lengths[i], n[1]), -1, 1);
            *spectrum = make_random(complex, 3, SIZES(n[0], half, n[1]), -1, 1);
            run_everywhere(&c);
            check(&c, lengths[i], comes_back ? 1 : -1, comes_back ? 0.25 : 0.5);
            free_tensors();
        }
    }
}

/* What is not a number, or far greater, stays in its line. */
static void lines_do_not_touch_each_other(void **state)
{
    exg_argument args[] = {arg_tensor(), arg_int(1), arg_float(1)};
    kernel_case c = {.kernel = &exg_kernel_fft_from_real,
                     .args = args,
                     .arg_count = 3,
                     .input_count = 1,
                     .output_count = 1};

    (void)state;
    c.inputs[0] = make_tensor(EXG_DTYPE_F32, 3, SIZES(40, 30, 1));
    c.outputs[0] = make_tensor(EXG_DTYPE_C64, 3, SIZES(40, 16, 1));
    for (int64_t i = 0; i < 40 * 30; i++) {
        set(&c.inputs[0], i, i / 30 % 2 == 1 ? 1 : i % 60 == 7 ? NAN : 1e30);
    }
    run_everywhere(&c);
    for (int64_t i = 0; i < 40; i++) {
        for (int64_t k = 0; k < 16; k++) {
            const double re = part_of(&c.outputs[0], i, k, 0, 0);

            assert_true(i % 2 == 0 ? isnan(re) != 0 : fabs(re - (k == 0 ? 30 : 0)) < 1e-4);
        }
    }
    free_tensors();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_every_length_are_transformed),
        cmocka_unit_test(real_numbers_become_half_a_spectrum_and_come_back),
        cmocka_unit_test(lines_do_not_touch_each_other),
    };

    return cmocka_run_group_tests_name("fft", tests, NULL, NULL);
}
