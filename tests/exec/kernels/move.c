/* Kernels that only move elements: copy, windows, cat, pad, flip, roll, triangles,
 * fills. Expected values come from index arithmetic. */
#include "tests/exec/kernels/harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void expect_copy(exg_tensor in)
{
    exg_argument args[] = {arg_tensor(), arg_none()};
    kernel_case c = {.kernel = &exg_kernel_copy,
                     .args = args,
                     .arg_count = 2,
                     .input_count = 1,
                     .output_count = 1};
    double *want = values_of(&in);

    c.inputs[0] = in;
    c.outputs[0] = make_tensor(in.dtype, in.rank, in.sizes);
    expect_kernel(&c, 0, want, 0);
    free(want);
}

static void copy_makes_any_strides_contiguous(void **state)
{
    static const int64_t shapes[][3] = {{3, 5, 7},    {1, 1, 1},   {0, 2, 3},
                                        {33, 65, 40}, {2, 1, 500}, {7, 64, 64}};

    (void)state;
    for (uint32_t k = 0; k < COUNT(all_dtypes); k++) {
        for (uint32_t s = 0; s < COUNT(shapes); s++) {
            const int64_t *n = shapes[s];
            exg_tensor t = make_random(all_dtypes[k], 3, n, -99, 99);

            expect_copy(t);
            expect_copy(transposed(t, 0, 2));
            expect_copy(transposed(t, 1, 2));
            expect_copy(transposed(transposed(t, 0, 1), 1, 2));
            expect_copy(sliced(t, 2, 0, (n[2] + 1) / 2, 2));
            expect_copy(expanded(sliced(t, 1, 0, 1, 1), 3, n));
            free_tensors();
        }
    }
}

/* Pairs and fours that stay together, from wherever they begin. */
static void copy_moves_what_is_together_as_one(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < COUNT(all_dtypes); k++) {
        for (int64_t together = 1; together <= 8; together *= 2) {
            exg_argument args[] = {arg_tensor()};
            kernel_case c = {.kernel = &exg_kernel_copy,
                             .args = args,
                             .arg_count = 1,
                             .input_count = 1,
                             .output_count = 1};
            double *want;

            c.inputs[0] = make_random(all_dtypes[k], 4, SIZES(2, 23, 70, together + 1), -9, 9);
            c.inputs[0] = transposed(sliced(c.inputs[0], 3, 1, together, 1), 1, 2);
            c.outputs[0] = make_tensor(all_dtypes[k], 4, SIZES(2, 70, 23, together));
            want = values_of(&c.inputs[0]);
            expect_kernel(&c, 0, want, 0);
            free(want);
            c.inputs[0] =
                transposed(make_random(all_dtypes[k], 4, SIZES(2, 23, 70, together), -9, 9), 1, 2);
            want = values_of(&c.inputs[0]);
            expect_kernel(&c, 0, want, 0);
            free(want);
            free_tensors();
        }
    }
}

static void copy_of_a_scalar_and_of_a_long_line(void **state)
{
    (void)state;
    expect_copy(make_random(EXG_DTYPE_F32, 0, NULL, 1, 2));
    expect_copy(make_random(EXG_DTYPE_I8, 1, SIZES(200000), -99, 99));
    expect_copy(sliced(make_random(EXG_DTYPE_F32, 1, SIZES(200000), -9, 9), 0, 1, 99999, 2));
    free_tensors();
}

/* ---- windows --------------------------------------------------------------------------- */

/* Runs a window kernel twice: into other memory, and in place. `window` must name the
 * same elements of the copy of self. */
static void expect_window(const exg_kernel *kernel, const exg_argument *args, uint32_t arg_count,
                          exg_tensor self, exg_tensor src, exg_tensor window)
{
    kernel_case c = {.kernel = kernel,
                     .args = args,
                     .arg_count = arg_count,
                     .input_count = 2,
                     .output_count = 1};
    exg_tensor whole = make_tensor(self.dtype, self.rank, self.sizes);
    double *want;

    for (int64_t i = 0; i < exg_tensor_numel(&self); i++) {
        set(&whole, i, get(&self, i));
    }
    window.data = (char *)whole.data + ((char *)window.data - (char *)self.data);
    for (int64_t i = 0; i < exg_tensor_numel(&src); i++) {
        set(&window, i, get(&src, i));
    }
    want = values_of(&whole);
    c.inputs[0] = self;
    c.inputs[1] = src;
    c.outputs[0] = make_tensor(self.dtype, self.rank, self.sizes);
    expect_kernel(&c, 0, want, 0);
    c.outputs[0] = self;
    expect_kernel(&c, 0, want, 0);
    free(want);
}

static void window_kernels_replace_their_window_and_nothing_else(void **state)
{
    static const exg_dtype dtypes[] = {EXG_DTYPE_F32, EXG_DTYPE_BF16, EXG_DTYPE_I64, EXG_DTYPE_B8,
                                       EXG_DTYPE_C128};

    (void)state;
    for (uint32_t k = 0; k < COUNT(dtypes); k++) {
        exg_tensor self = make_random(dtypes[k], 3, SIZES(6, 8, 10), -9, 9);
        exg_tensor window = sliced(self, 1, 2, 3, 2);
        exg_argument slice[] = {arg_tensor(), arg_tensor(), arg_int(-2),
                                arg_int(2),   arg_int(-1),  arg_int(2)};
        exg_argument all[] = {arg_tensor(), arg_tensor(), arg_int(0),
                              arg_none(),   arg_int(99),  arg_int(1)};
        exg_argument select[] = {arg_tensor(), arg_tensor(), arg_int(2), arg_int(-3)};
        exg_argument diagonal[] = {arg_tensor(), arg_tensor(), arg_int(1), arg_int(0), arg_int(2)};
        exg_argument strided[] = {arg_tensor(), arg_tensor(), arg_ints(2, SIZES(3, 4)),
                                  arg_ints(2, SIZES(20, 3)), arg_int(5)};

        expect_window(&exg_kernel_slice_scatter, slice, 6, self,
                      make_random(dtypes[k], 3, SIZES(6, 3, 10), -9, 9), window);
        expect_window(&exg_kernel_slice_scatter, slice, 6, self,
                      transposed(make_random(dtypes[k], 3, SIZES(10, 3, 6), -9, 9), 0, 2), window);
        expect_window(&exg_kernel_slice_scatter, all, 6, self,
                      make_random(dtypes[k], 3, SIZES(6, 8, 10), -9, 9), self);
        window = sliced(self, 2, 7, 1, 1);
        window.rank = 2;
        expect_window(&exg_kernel_select_scatter, select, 4, self,
                      make_random(dtypes[k], 2, SIZES(6, 8), -9, 9), window);
        window = sliced(self, 2, 1, 6, 1); /* (8, 6): rows of dim 1, diagonal of 0 and 2 */
        window.rank = 2;
        window.sizes[0] = 8;
        window.strides[0] = 10;
        window.sizes[1] = 6;
        window.strides[1] = 81;
        expect_window(&exg_kernel_diagonal_scatter, diagonal, 5, self,
                      make_random(dtypes[k], 2, SIZES(8, 6), -9, 9), window);
        window = sliced(self, 2, 5, 1, 1);
        window.rank = 2;
        window.sizes[0] = 3;
        window.strides[0] = 20;
        window.sizes[1] = 4;
        window.strides[1] = 3;
        expect_window(&exg_kernel_as_strided_scatter, strided, 5, self,
                      make_random(dtypes[k], 2, SIZES(3, 4), -9, 9), window);
        free_tensors();
    }
}

static void a_window_outside_the_tensor_is_refused(void **state)
{
    exg_argument select[] = {arg_tensor(), arg_tensor(), arg_int(0), arg_int(4)};
    exg_argument strided[] = {arg_tensor(), arg_tensor(), arg_ints(1, SIZES(3)),
                              arg_ints(1, SIZES(2)), arg_int(8)};
    kernel_case c = {.kernel = &exg_kernel_select_scatter,
                     .args = select,
                     .arg_count = 4,
                     .input_count = 2,
                     .output_count = 1};
    exg_error err;

    (void)state;
    c.inputs[0] = c.outputs[0] = make_tensor(EXG_DTYPE_F32, 2, SIZES(4, 3));
    c.inputs[1] = make_tensor(EXG_DTYPE_F32, 1, SIZES(3));
    assert_int_equal(prepare_only(&c, &err), EXG_USAGE);
    c.kernel = &exg_kernel_as_strided_scatter;
    c.args = strided;
    c.arg_count = 5;
    assert_int_equal(prepare_only(&c, &err), EXG_USAGE);
    free_tensors();
}

/* ---- cat, pad ---------------------------------------------------------------------------- */

static void cat_lays_tensors_one_after_the_other(void **state)
{
    exg_argument args[] = {arg_none(), arg_int(-2)};

    (void)state;
    for (uint32_t k = 0; k < COUNT(all_dtypes); k++) {
        kernel_case c = {.kernel = &exg_kernel_cat,
                         .args = args,
                         .arg_count = 2,
                         .input_count = 4,
                         .output_count = 1};
        double want[2 * 12 * 5];

        c.inputs[0] = make_random(all_dtypes[k], 3, SIZES(2, 3, 5), -9, 9);
        c.inputs[1] = make_random(all_dtypes[k], 3, SIZES(2, 0, 5), -9, 9);
        c.inputs[2] = transposed(make_random(all_dtypes[k], 3, SIZES(5, 9, 2), -9, 9), 0, 2);
        c.inputs[3] = make_tensor(all_dtypes[k], 1, SIZES(0)); /* goes with everything */
        c.outputs[0] = make_tensor(all_dtypes[k], 3, SIZES(2, 12, 5));
        for (int64_t i = 0; i < 120; i++) {
            int64_t at[3] = {i / 60, i / 5 % 12, i % 5};
            uint32_t from = at[1] < 3 ? 0 : 2;

            at[1] -= from == 0 ? 0 : 3;
            want[i] = get_at(&c.inputs[from], at);
        }
        expect_kernel(&c, 0, want, 0);
        free_tensors();
    }
}

static void padding_adds_and_crops_at_both_ends(void **state)
{
    static const int64_t pads[][4] = {
        {1, 2, 0, 0}, {-1, -2, 0, 0}, {2, -3, -1, 4}, {0, 0, 0, 0}, {0, -7, 1, 0}};

    (void)state;
    for (uint32_t k = 0; k < COUNT(real_dtypes); k++) {
        for (uint32_t p = 0; p < COUNT(pads); p++) {
            exg_argument args[] = {arg_tensor(), arg_ints(4, pads[p]), arg_float(1)};
            kernel_case c = {.kernel = &exg_kernel_constant_pad_nd,
                             .args = args,
                             .arg_count = 3,
                             .input_count = 1,
                             .output_count = 1};
            exg_tensor in = make_random(real_dtypes[k], 3, SIZES(3, 5, 7), -9, 9);
            int64_t n[3] = {3, 5 + pads[p][2] + pads[p][3], 7 + pads[p][0] + pads[p][1]};
            double *want;

            c.inputs[0] =
                p == 2 ? transposed(make_random(real_dtypes[k], 3, SIZES(3, 7, 5), -9, 9), 1, 2)
                       : in;
            c.outputs[0] = make_tensor(real_dtypes[k], 3, n);
            want = values_of(&c.outputs[0]);
            for (int64_t i = 0; i < n[0] * n[1] * n[2]; i++) {
                int64_t at[3] = {i / (n[1] * n[2]), i / n[2] % n[1] - pads[p][2],
                                 i % n[2] - pads[p][0]};
                bool inside = at[1] >= 0 && at[1] < 5 && at[2] >= 0 && at[2] < 7;

                want[i] = inside ? get_at(&c.inputs[0], at) : 1;
            }
            expect_kernel(&c, 0, want, 0);
            free(want);
            free_tensors();
        }
    }
}

/* A place beyond `size`, brought inside: reflected, the last one, or from the other side. */
static int64_t inside(int64_t at, int64_t size, int mode)
{
    if (mode == 0) {
        return at < 0 ? -at : at >= size ? 2 * size - 2 - at : at;
    }
    return mode == 1 ? (at < 0 ? 0 : at >= size ? size - 1 : at) : (at + size) % size;
}

static void edges_are_filled_with_what_the_tensor_has(void **state)
{
    static const int64_t pads[][6] = {
        {2, 1, 0, 0, 0, 0}, {0, 0, 3, 1, 0, 0}, {1, 2, 1, 0, 2, 1}, {6, 6, 4, 4, 2, 2}};

    (void)state;
    for (uint32_t k = 0; k < COUNT(all_dtypes); k++) {
        for (int p = 0; p < 3 * (int)COUNT(pads); p++) {
            const int64_t *pad = pads[p / 3];
            exg_argument args[] = {arg_tensor(), arg_ints(p / 3 == 0 ? 2 : 6, pad), arg_int(p % 3)};
            kernel_case c = {.kernel = &exg_kernel_edge_pad,
                             .args = args,
                             .arg_count = 3,
                             .input_count = 1,
                             .output_count = 1};
            const int64_t in[4] = {2, 3, 5, 7};
            const int64_t n[4] = {2, 3 + pad[4] + pad[5], 5 + pad[2] + pad[3], 7 + pad[0] + pad[1]};
            double *want;

            c.inputs[0] = make_random(all_dtypes[k], 4, in, -9, 9);
            c.outputs[0] = make_tensor(all_dtypes[k], 4, n);
            want = values_of(&c.outputs[0]);
            for (int64_t i = 0; i < n[0] * n[1] * n[2] * n[3]; i++) {
                const int64_t at[4] = {i / n[3] / n[2] / n[1],
                                       inside(i / n[3] / n[2] % n[1] - pad[4], 3, p % 3),
                                       inside(i / n[3] % n[2] - pad[2], 5, p % 3),
                                       inside(i % n[3] - pad[0], 7, p % 3)};

                want[i] = get_at(&c.inputs[0], at);
            }
            expect_kernel(&c, 0, want, 0);
            free(want);
            free_tensors();
        }
    }
}

/* ---- flip, roll, triangles ------------------------------------------------------------------- */

static void flip_and_roll_permute_along_their_dimensions(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < COUNT(all_dtypes); k++) {
        exg_argument flips[] = {arg_tensor(), arg_ints(2, SIZES(-1, 0))};
        exg_argument rolls[] = {arg_tensor(), arg_ints(3, SIZES(2, -10, 6)),
                                arg_ints(3, SIZES(0, -1, 1))};
        exg_argument flat[] = {arg_tensor(), arg_ints(1, SIZES(-17)), arg_ints(0, NULL)};
        kernel_case c = {.kernel = &exg_kernel_flip,
                         .args = flips,
                         .arg_count = 2,
                         .input_count = 1,
                         .output_count = 1};
        exg_tensor in = make_random(all_dtypes[k], 3, SIZES(4, 6, 7), -9, 9);
        double want[168];

        c.outputs[0] = make_tensor(all_dtypes[k], 3, SIZES(4, 6, 7));
        c.inputs[0] = transposed(make_random(all_dtypes[k], 3, SIZES(7, 6, 4), -9, 9), 0, 2);
        for (int64_t i = 0; i < 168; i++) {
            want[i] = get_at(&c.inputs[0], SIZES(3 - i / 42, i / 7 % 6, 6 - i % 7));
        }
        expect_kernel(&c, 0, want, 0);
        c.inputs[0] = in;
        c.kernel = &exg_kernel_roll;
        c.args = rolls;
        c.arg_count = 3;
        for (int64_t i = 0; i < 168; i++) {
            want[i] = get_at(&in, SIZES((i / 42 + 2) % 4, i / 7 % 6, (i % 7 + 10) % 7));
        }
        expect_kernel(&c, 0, want, 0);
        c.args = flat;
        for (int64_t i = 0; i < 168; i++) {
            want[i] = get(&in, (i + 17) % 168);
        }
        expect_kernel(&c, 0, want, 0);
        free_tensors();
    }
}

static void triangles_keep_their_side_of_any_diagonal(void **state)
{
    static const int64_t diagonals[] = {0, 1, -2, 9, -9};

    (void)state;
    for (uint32_t k = 0; k < COUNT(all_dtypes); k++) {
        for (uint32_t d = 0; d < COUNT(diagonals); d++) {
            exg_argument args[] = {arg_tensor(), arg_int(diagonals[d])};
            kernel_case c = {.kernel = &exg_kernel_tril,
                             .args = args,
                             .arg_count = 2,
                             .input_count = 1,
                             .output_count = 1};
            double lower[70];
            double upper[70];

            c.inputs[0] = make_random(all_dtypes[k], 3, SIZES(2, 5, 7), 1, 9);
            c.outputs[0] = make_tensor(all_dtypes[k], 3, SIZES(2, 5, 7));
            for (int64_t i = 0; i < 70; i++) {
                int64_t over = i % 7 - i / 7 % 5;

                lower[i] = over <= diagonals[d] ? get(&c.inputs[0], i) : 0;
                upper[i] = over >= diagonals[d] ? get(&c.inputs[0], i) : 0;
            }
            expect_kernel(&c, 0, lower, 0);
            c.kernel = &exg_kernel_triu;
            expect_kernel(&c, 0, upper, 0);
            c.outputs[0] = c.inputs[0];
            expect_kernel(&c, 0, upper, 0);
            free_tensors();
        }
    }
}

/* ---- fills -------------------- */

static void full_and_scalar_tensor_convert_their_number(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < COUNT(all_dtypes); k++) {
        exg_argument full[] = {arg_ints(2, SIZES(3, 20000)), arg_float(2.5)};
        exg_argument scalar[] = {arg_int(2)};
        kernel_case c = {
            .kernel = &exg_kernel_full, .args = full, .arg_count = 2, .output_count = 1};
        exg_tensor one = make_tensor(all_dtypes[k], 0, NULL);

        c.outputs[0] = make_tensor(all_dtypes[k], 2, SIZES(3, 20000));
        run_everywhere(&c);
        set(&one, 0, all_dtypes[k] == EXG_DTYPE_B8 ? 1 : 2.5);
        for (int64_t i = 0; i < 60000; i += 59) {
            assert_true(get(&c.outputs[0], i) == get(&one, 0));
        }
        c = (kernel_case){
            .kernel = &exg_kernel_scalar_tensor, .args = scalar, .arg_count = 1, .output_count = 1};
        c.outputs[0] = make_tensor(all_dtypes[k], 0, NULL);
        run_everywhere(&c);
        set(&one, 0, all_dtypes[k] == EXG_DTYPE_B8 ? 1 : 2);
        assert_true(get(&c.outputs[0], 0) == get(&one, 0));
        free_tensors();
    }
}

static void arange_steps_without_drift(void **state)
{
    exg_argument args[] = {arg_float(0.5), arg_float(1000), arg_float(0.1)};
    exg_argument down[] = {arg_int(10), arg_int(-20), arg_int(-3)};
    kernel_case c = {.kernel = &exg_kernel_arange, .args = args, .arg_count = 3, .output_count = 1};

    (void)state;
    c.outputs[0] = make_tensor(EXG_DTYPE_F32, 1, SIZES(9995));
    run_everywhere(&c);
    for (int64_t i = 0; i < 9995; i++) {
        assert_true(get(&c.outputs[0], i) == (double)(float)(0.5 + 0.1 * (double)i));
    }
    c.args = down;
    c.outputs[0] = make_tensor(EXG_DTYPE_I64, 1, SIZES(10));
    run_everywhere(&c);
    for (int64_t i = 0; i < 10; i++) {
        assert_true(get(&c.outputs[0], i) == (double)(10 - 3 * i));
    }
    free_tensors();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copy_makes_any_strides_contiguous),
        cmocka_unit_test(copy_moves_what_is_together_as_one),
        cmocka_unit_test(copy_of_a_scalar_and_of_a_long_line),
        cmocka_unit_test(window_kernels_replace_their_window_and_nothing_else),
        cmocka_unit_test(a_window_outside_the_tensor_is_refused),
        cmocka_unit_test(cat_lays_tensors_one_after_the_other),
        cmocka_unit_test(padding_adds_and_crops_at_both_ends),
        cmocka_unit_test(edges_are_filled_with_what_the_tensor_has),
        cmocka_unit_test(flip_and_roll_permute_along_their_dimensions),
        cmocka_unit_test(triangles_keep_their_side_of_any_diagonal),
        cmocka_unit_test(full_and_scalar_tensor_convert_their_number),
        cmocka_unit_test(arange_steps_without_drift),
    };

    return cmocka_run_group_tests_name("move", tests, NULL, NULL);
}
