/* Sums of elements at places, each times a weight, against plain loops. */
#include "tests/exec/kernels/harness.h"

#include <math.h>
#include <stdlib.h>

/* Place -1 has a zero, whatever element 0 is. */
static void elements_at_places_are_weighed_and_added_up(void **state)
{
    static const int64_t sizes[][5] = {
        {1, 1, 5, 1, 3}, {2, 3, 40, 4, 700}, {1, 2, 9, 16, 257}, {2, 2, 7, 5, 64}};

    (void)state;
    for (uint32_t d = 0; d < 2; d++) {
        for (uint32_t s = 0; s < 3 * COUNT(sizes); s++) {
            const int64_t *n = sizes[s / 3];
            exg_argument args[] = {arg_tensor(), arg_tensor(), arg_tensor()};
            kernel_case c = {.kernel = &exg_kernel_weighted_gather,
                             .args = args,
                             .arg_count = 3,
                             .input_count = 3,
                             .output_count = 1};
            double *want = calloc((size_t)(n[0] * n[1] * n[4]), sizeof(double));

            c.inputs[0] = make_random(float_dtypes[d], 3, SIZES(n[0], n[1], n[2]), -1, 1);
            if (s % 3 == 2) {
                set(&c.inputs[0], 0, INFINITY);
            }
            c.inputs[1] = make_indices(3, SIZES(n[0], n[3], n[4]), s % 3 == 0 ? 0 : -1, n[2]);
            c.inputs[2] = make_random(float_dtypes[d], 3, SIZES(n[0], n[3], n[4]), 0.1, 1);
            for (int64_t i = 0; i < n[0] * n[1] * n[4]; i++) {
                const int64_t batch = i / n[4] / n[1], k = i % n[4];

                for (int64_t t = 0; t < n[3]; t++) {
                    const int64_t place = (int64_t)get_at(&c.inputs[1], SIZES(batch, t, k));

                    want[i] += place < 0
                                   ? 0
                                   : get_at(&c.inputs[0], SIZES(batch, i / n[4] % n[1], place)) *
                                         get_at(&c.inputs[2], SIZES(batch, t, k));
                }
            }
            c.outputs[0] = make_tensor(float_dtypes[d], 3, SIZES(n[0], n[1], n[4]));
            expect_kernel(&c, 0, want, tolerance_of(float_dtypes[d], 40));
            free(want);
            set(&c.inputs[1], n[4] - 1, (double)n[2]);
            c.fault = EXG_FAULT_INDEX;
            run_everywhere(&c);
            free_tensors();
        }
    }
}

/* Rows along the dim and across it; outputs that read near each other and far apart; rows shorter
 * than a vector. */
static void elements_along_a_dim_are_weighed_and_added_up(void **state)
{
    static const int64_t sizes[][5] = {
        /* outer, elements, inner, terms, count */
        {3, 5, 1, 2, 11},  {300, 64, 1, 2, 128}, {5, 200, 1, 4, 100}, {2, 40, 1, 128, 70},
        {3, 20, 7, 3, 40}, {2, 9, 150, 5, 4},    {1, 6, 33, 128, 3},  {2, 1, 1, 1, 65}};
    enum { NEAR, ANYWHERE, OUTSIDE, KINDS };

    (void)state;
    for (uint32_t at = 0; at < 2 * KINDS * COUNT(sizes); at++) {
        const exg_dtype dtype = float_dtypes[at % 2];
        const int kind = (int)(at / 2 % KINDS);
        const int64_t *n = sizes[at / 2 / KINDS];
        exg_argument args[] = {arg_tensor(), arg_tensor(), arg_tensor(), arg_int(-2)};
        kernel_case c = {.kernel = &exg_kernel_resample,
                         .args = args,
                         .arg_count = 4,
                         .input_count = 3,
                         .output_count = 1};
        double *want = calloc((size_t)(n[0] * n[4] * n[2]), sizeof(double));

        assert_non_null(want);
        c.inputs[0] = make_random(dtype, 3, SIZES(n[0], n[1], n[2]), -1, 1);
        c.inputs[1] = make_indices(2, SIZES(n[3], n[4]), 0, n[1]);
        c.inputs[2] = make_random(dtype, 2, SIZES(n[3], n[4]), 0.1, 1);
        for (int64_t i = 0; kind == NEAR && i < n[3] * n[4]; i++) { /* as a size is changed */
            const int64_t place = i % n[4] * n[1] / n[4] + i / n[4] % 3;

            set(&c.inputs[1], i, (double)(place < n[1] ? place : n[1] - 1));
        }
        if (kind == OUTSIDE) {
            set(&c.inputs[1], n[4] - 1, at % 4 < 2 ? -1 : (double)n[1]);
            c.fault = EXG_FAULT_INDEX;
        }
        for (int64_t i = 0; i < n[0] * n[4] * n[2]; i++) {
            const int64_t outer = i / n[2] / n[4], k = i / n[2] % n[4];

            for (int64_t t = 0; t < n[3]; t++) {
                const int64_t place = (int64_t)get_at(&c.inputs[1], SIZES(t, k));

                want[i] += place < 0 || place >= n[1]
                               ? 0
                               : get_at(&c.inputs[0], SIZES(outer, place, i % n[2])) *
                                     get_at(&c.inputs[2], SIZES(t, k));
            }
        }
        c.outputs[0] = make_tensor(dtype, 3, SIZES(n[0], n[4], n[2]));
        expect_kernel(&c, 0, want, tolerance_of(dtype, 200));
        free(want);
        free_tensors();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_at_places_are_weighed_and_added_up),
        cmocka_unit_test(elements_along_a_dim_are_weighed_and_added_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
