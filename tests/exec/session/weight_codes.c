/* Linear layers by weights of bytes, float8 and half bytes, as programs dequantize them: one step a
 * layer that reads what is stored, on the host and on devices alike; no dequantized weight is
 * kept. Expected values are plain loops'.
 */
#include "libexport/base/element.h"
#include "tests/exec/cuda/calls.h"

#include <exg/emit.h>
#include <exg/exec.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define F32     EXG_DTYPE_F32
#define COLUMNS 52
#define DEPTH   192
#define GROUPS  3
#define GROUP   (DEPTH / GROUPS)
#define MOST    20   /* rows */
#define FACTORS 2048 /* bytes, of scales and zero points in the order they are read in */

typedef enum form {
    CHANNELS,   /* int8, a scale a row of the weight */
    BY_GROUP,   /* int8, one a group */
    SYMMETRIC,  /* half bytes less 8, by group */
    WITH_ZEROS, /* half bytes, a zero point a group too */
    FLOAT8,
    FORMS
} form;

static const char *const names[] = {"channels", "groups", "half bytes", "zero points", "float8"};

typedef struct numbers {
    uint8_t stored[COLUMNS * DEPTH]; /* half bytes: the first half of it, two a byte */
    float scales[COLUMNS * GROUPS], zeros[COLUMNS * GROUPS];
    float w[COLUMNS * DEPTH], x[MOST * DEPTH];
} numbers;

static bool is_half(form f)
{
    return f == SYMMETRIC || f == WITH_ZEROS;
}

static void make_numbers(form f, numbers *n)
{
    for (int i = 0; i < COLUMNS * GROUPS; i++) {
        n->scales[i] = (float)(i % 7 + 1) / 64;
        n->zeros[i] = (float)(i % 5 + 3);
    }
    for (int i = 0; i < COLUMNS * DEPTH; i++) {
        const int j = i / DEPTH;
        const int g = f == CHANNELS || f == FLOAT8 ? j : j * GROUPS + i % DEPTH / GROUP;
        const int code = (i * 37 + i / 11) % 256;
        float q = (float)(code < 128 ? code : code - 256);

        n->stored[i] = (uint8_t)code;
        if (f == FLOAT8) {
            n->stored[i] = (uint8_t)(code & 0xbf); /* of no large exponents */
            q = exg_f8e4m3fn_to_f32(n->stored[i]);
        }
        if (is_half(f)) {
            q = (float)(code % 16) - (f == SYMMETRIC ? 8 : n->zeros[g]);
            n->stored[i / 2] =
                (uint8_t)(i % 2 == 0 ? code % 16 : n->stored[i / 2] | code % 16 << 4);
        }
        n->w[i] = q * n->scales[g];
    }
    for (int i = 0; i < MOST * DEPTH; i++) {
        n->x[i] = (float)(i % 9 - 4) / 8;
    }
}

/* Two codes a byte, the first in its lower half. */
static exg_ref unpacked(exg_builder *b, exg_ref bytes)
{
    exg_ref both[2];

    both[0] = EMIT(b, unsqueeze_default, EMIT(b, bitwise_and_Scalar, bytes, 15), -1);
    both[1] = EMIT(b, unsqueeze_default, EMIT(b, bitwise_right_shift_Tensor_Scalar, bytes, 4), -1);
    return EMIT(b, cat_default, exg_arg_refs(b, both, 2), 2);
}

static exg_ref weight_of(exg_builder *b, form f, const numbers *n)
{
    const exg_dtype dtype = f == FLOAT8  ? EXG_DTYPE_F8E4M3FN
                            : is_half(f) ? EXG_DTYPE_U8
                                         : EXG_DTYPE_I8;
    const bool by_row = f == CHANNELS || f == FLOAT8;
    const int64_t groups = by_row ? 1 : GROUPS;
    exg_tensor_meta meta =
        exg_builder_meta(b, dtype, (int64_t[]){COLUMNS, is_half(f) ? DEPTH / 2 : DEPTH}, 2);
    exg_ref w = exg_builder_weight(b, "w", &meta, EXG_INPUT_PARAMETER, n->stored);
    exg_ref scales, zeros;

    meta = exg_builder_meta(b, F32, (int64_t[]){COLUMNS, groups, 1}, 3);
    scales = exg_builder_weight(b, "s", &meta, EXG_INPUT_PARAMETER, n->scales);
    zeros = exg_builder_weight(b, "z", &meta, EXG_INPUT_PARAMETER, n->zeros);
    w = is_half(f) ? unpacked(b, w) : w;
    w = EMIT(b, _to_copy_default, w, DTYPE(F32));
    w = EMIT(b, view_default, w, INTS(b, COLUMNS, groups, DEPTH / groups));
    w = f == SYMMETRIC ? EMIT(b, sub_Scalar, w, 8) : w;
    w = f == WITH_ZEROS ? EMIT(b, sub_Tensor, w, zeros) : w;
    return EMIT(b, view_default, EMIT(b, mul_Tensor, w, scales), INTS(b, COLUMNS, DEPTH));
}

static exg_program *make_program(const exg_operators *operators, form f, exg_dtype dtype,
                                 int64_t rows, const numbers *n)
{
    exg_program *program;
    exg_builder *b;
    exg_tensor_meta meta;
    exg_ref x, w;
    exg_argument y;
    exg_error err;

    exg_error_clear(&err);
    assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &program, NULL), EXG_OK);
    assert_int_equal(exg_builder_create(operators, program, &b, NULL), EXG_OK);
    meta = exg_builder_meta(b, F32, (int64_t[]){rows, DEPTH}, 2);
    x = exg_builder_input(b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    w = weight_of(b, f, n);
    if (dtype != F32) {
        x = EMIT(b, _to_copy_default, x, DTYPE(dtype));
        w = EMIT(b, _to_copy_default, w, DTYPE(dtype));
    }
    x = EMIT(b, linear_default, x, w);
    x = dtype == F32 ? x : EMIT(b, _to_copy_default, x, DTYPE(F32));
    y = exg_arg_ref(EMIT(b, relu_default, x));
    exg_builder_output(b, &y, EXG_OUTPUT_USER, NULL);
    expect_ok(exg_builder_finish(b, &err), &err);
    return program;
}

/* One product by the weight as it is stored, none by another; and all on the device. */
static void expect_plan(const exg_session *session, form f)
{
    const exg_plan_summary *summary = exg_plan_summarize(exg_session_plan(session));
    char *text;
    char *rest;
    uint32_t products = 0;

    assert_int_equal(exg_plan_print(exg_session_plan(session), &text, NULL), EXG_OK);
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        char kernel[32] = "";

        if (sscanf(line, "%*u %31s", kernel) == 1) {
            products += strcmp(kernel, "weight_product") == 0;
            assert_string_not_equal(kernel, "linear");
        }
    }
    free(text);
    assert_int_equal(products, 1);
    assert_int_equal(summary->host_count, 0);
    assert_true(summary->constant_bytes <= FACTORS + (is_half(f) ? COLUMNS * DEPTH / 2 : 0));
    assert_true(summary->arena_bytes < COLUMNS * DEPTH * 2 || is_half(f)); /* which has codes */
}

static void check(const exg_operators *operators, form f, exg_dtype dtype, int64_t rows)
{
    const char *device = getenv("EXG_TEST_DEVICE");
    exg_session_options options = {.size = sizeof(options), .device = device};
    exg_session_input input = {.name = "x"};
    static numbers n;
    exg_verified verified;
    exg_session *session;
    exg_program *program;
    const float *got;
    exg_error err;

    exg_error_clear(&err);
    make_numbers(f, &n);
    program = make_program(operators, f, dtype, rows, &n);
    expect_ok(exg_verify(program, operators, &verified, NULL, &err), &err);
    expect_ok(exg_session_create(&verified, &options, &session, &err), &err);
    input.tensor = (exg_tensor){.data = n.x, .dtype = F32, .rank = 2, .sizes = {rows, DEPTH}};
    exg_tensor_set_contiguous(&input.tensor);
    for (int run = 0; run < 2; run++) {
        expect_ok(exg_session_run(session, &input, 1, &err), &err);
        got = exg_session_output_at(session, 0)->tensor.data;
        for (int64_t i = 0; i < rows * COLUMNS; i++) {
            double want = 0;
            double size = 1;

            for (int64_t k = 0; k < DEPTH; k++) {
                const double one =
                    (double)n.x[i / COLUMNS * DEPTH + k] * (double)n.w[i % COLUMNS * DEPTH + k];

                want += one;
                size += fabs(one);
            }
            want = want > 0 ? want : 0;
            if (fabs(got[i] - want) > size * (dtype == F32 ? 1e-6 : 4e-3)) {
                fail_msg("%s, %d rows, element %d: %g, not %g", names[f], (int)rows, (int)i,
                         (double)got[i], want);
            }
        }
    }
    expect_plan(session, f);
    exg_session_destroy(session);
    exg_program_destroy(program);
}

static void weights_are_multiplied_as_they_are_stored(void **state)
{
    static const exg_dtype dtypes[] = {EXG_DTYPE_F32, EXG_DTYPE_BF16, EXG_DTYPE_F16};
    static const int64_t rows[] = {1, 3, MOST};
    exg_operators *operators;

    (void)state;
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    for (int f = 0; f < FORMS; f++) {
        for (int r = 0; r < 3; r++) {
            check(operators, (form)f, dtypes[(f + r) % 3], rows[r]);
        }
    }
    exg_operators_destroy(operators);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_multiplied_as_they_are_stored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
