/* Fourier transforms against the sum over all elements, in double: real parts, of complex numbers
 * whose imaginary part is the real one's negative. */
#include "tests/exec/kernels/harness.h"

#include <math.h>
#include <stdlib.h>

#define PI 3.14159265358979323846

/* Lengths of one factor and of many, of primes that are factors and of one that is none. */
static const int64_t lengths[] = {1, 2, 3, 4, 5, 8, 14, 16, 30, 37, 64, 97, 120};

/* want (outer, n, inner) of x */
static double *transform(const exg_tensor *x, double sign, double scale)
{
    const int64_t outer = x->sizes[0], n = x->sizes[1], inner = x->sizes[2];
    double *want = calloc((size_t)(outer * n * inner) + 1, sizeof(double));

    assert_non_null(want);
    for (int64_t at = 0; at < outer * n * inner; at++) {
        const int64_t k = at / inner % n;

        for (int64_t j = 0; j < n; j++) {
            const double v = get_at(x, SIZES(at / inner / n, j, at % inner));
            const double angle = sign * 2 * PI * (double)(j * k % n) / (double)n;

            want[at] += scale * v * (cos(angle) + sin(angle)); /* re (1 - i) e^(i angle) */
        }
    }
    return want;
}

static void lines_of_every_length_are_transformed(void **state)
{
    static const int64_t beside[][2] = {{1, 1}, {3, 1}, {1, 11}, {3, 7}, {0, 2}};

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
            double *want;

            c.inputs[0] = make_random(dtype, 3, SIZES(n[0], lengths[i], n[1]), -1, 1);
            c.outputs[0] = make_tensor(dtype, 3, SIZES(n[0], lengths[i], n[1]));
            want = transform(&c.inputs[0], is_inverse ? 1 : -1, scale);
            expect_kernel(&c, 0, want, dtype == EXG_DTYPE_C64 ? 0x1p-22 : 0x1p-44);
            free(want);
            free_tensors();
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_every_length_are_transformed),
    };

    return cmocka_run_group_tests_name("fft", tests, NULL, NULL);
}
