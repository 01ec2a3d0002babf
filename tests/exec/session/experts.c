/* Rows by the matrices of their experts, as programs gather them: no matrix is copied, whatever the
 * views on the way. Expected values are plain loops'; the same on the host and on devices.
 */
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
#define EXPERTS 5
#define TOKENS  3
#define CHOSEN  2 /* experts a token */
#define DEPTH   24
#define COLUMNS 36
#define RESULTS (TOKENS * CHOSEN * COLUMNS)

typedef enum form {
    SELECTED, /* index_select of one index a row */
    INDEXED,  /* w[i], i (tokens, chosen) */
    TURNED,   /* w[i] of matrices that are multiplied transposed */
    BESIDE,   /* one row of a token by the matrices of all its experts, as einsum writes it */
    STACKED,  /* the same, put one above the other before they are turned */
    OTHERS,   /* along another dim: they are gathered */
    FORMS
} form;

static const char *const names[] = {"selected", "indexed", "turned", "beside", "stacked", "others"};

static bool has_one_row(form f)
{
    return f == BESIDE || f == STACKED;
}

static bool turns(form f)
{
    return f == TURNED || has_one_row(f);
}

/* The matrices of i as one product of each wants them. */
static exg_ref arranged(exg_builder *b, form f, exg_ref own)
{
    if (f == BESIDE) {
        own = EMIT(b, permute_default, own, INTS(b, 0, 3, 1, 2));
        return EMIT(b, reshape_default, own, INTS(b, TOKENS, DEPTH, CHOSEN * COLUMNS));
    }
    if (f == STACKED) {
        own = EMIT(b, reshape_default, own, INTS(b, TOKENS, CHOSEN * COLUMNS, DEPTH));
        return EMIT(b, permute_default, own, INTS(b, 0, 2, 1));
    }
    own = f == TURNED ? EMIT(b, permute_default, own, INTS(b, 0, 1, 3, 2)) : own;
    return EMIT(b, reshape_default, own, INTS(b, TOKENS * CHOSEN, DEPTH, COLUMNS));
}

static exg_program *make_program(const exg_operators *operators, form f, const float *w)
{
    const bool is_turned = turns(f);
    exg_program *program;
    exg_builder *b;
    exg_tensor_meta meta;
    exg_ref x, i, own, list;
    exg_argument y;
    exg_error err;

    exg_error_clear(&err);
    assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &program, NULL), EXG_OK);
    assert_int_equal(exg_builder_create(operators, program, &b, NULL), EXG_OK);
    meta = exg_builder_meta(b, F32, (int64_t[]){TOKENS, CHOSEN, DEPTH}, 3);
    x = exg_builder_input(b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    meta = exg_builder_meta(b, EXG_DTYPE_I64, (int64_t[]){TOKENS, CHOSEN}, 2);
    i = exg_builder_input(b, "i", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    meta = exg_builder_meta(b, F32,
                            f == OTHERS ? (int64_t[]){DEPTH, EXPERTS, COLUMNS}
                            : is_turned ? (int64_t[]){EXPERTS, COLUMNS, DEPTH}
                                        : (int64_t[]){EXPERTS, DEPTH, COLUMNS},
                            3);
    own = exg_builder_weight(b, "w", &meta, EXG_INPUT_PARAMETER, w);
    if (f == SELECTED || f == OTHERS) {
        list = EMIT(b, view_default, i, INTS(b, TOKENS * CHOSEN));
        own = EMIT(b, index_select_default, own, f == OTHERS ? 1 : 0, list);
        own = f == OTHERS ? EMIT(b, permute_default, own, INTS(b, 1, 0, 2)) : own;
    } else {
        own = EMIT(b, index_Tensor, own, exg_arg_refs(b, &i, 1));
        own = arranged(b, f, own);
    }
    x = has_one_row(f) ? EMIT(b, slice_Tensor, x, 1, 0, 1)
                       : EMIT(b, view_default, x, INTS(b, TOKENS * CHOSEN, 1, DEPTH));
    y = exg_arg_ref(EMIT(b, relu_default, EMIT(b, bmm_default, x, own)));
    exg_builder_output(b, &y, EXG_OUTPUT_USER, NULL);
    expect_ok(exg_builder_finish(b, &err), &err);
    return program;
}

static float weight_at(form f, const float *w, int64_t expert, int64_t k, int64_t j)
{
    return f == OTHERS ? w[(k * EXPERTS + expert) * COLUMNS + j]
           : turns(f)  ? w[(expert * COLUMNS + j) * DEPTH + k]
                       : w[(expert * DEPTH + k) * COLUMNS + j];
}

static void expect_plan(const exg_session *session, form f)
{
    const exg_plan_summary *summary = exg_plan_summarize(exg_session_plan(session));
    char *text;

    assert_int_equal(exg_plan_print(exg_session_plan(session), &text, NULL), EXG_OK);
    assert_int_equal(strstr(text, " gathered_product ") != NULL, f != OTHERS);
    free(text);
    assert_int_equal(summary->host_count, 0);
    if (f != OTHERS) { /* less than one matrix for each row */
        assert_true(summary->values_bytes < TOKENS * CHOSEN * DEPTH * COLUMNS * sizeof(float));
    }
}

static void check(const exg_operators *operators, form f)
{
    exg_session_options options = {.size = sizeof(options), .device = getenv("EXG_TEST_DEVICE")};
    static float w[EXPERTS * DEPTH * COLUMNS], x[TOKENS * CHOSEN * DEPTH];
    int64_t chosen[TOKENS * CHOSEN] = {3, 0, 4, 4, 1, 3};
    exg_session_input inputs[2] = {{.name = "x"}, {.name = "i"}};
    exg_program *program;
    exg_session *session;
    exg_verified verified;
    exg_error err;

    exg_error_clear(&err);
    for (int i = 0; i < EXPERTS * DEPTH * COLUMNS; i++) {
        w[i] = (float)(i * 7 % 23 - 11) / 16;
    }
    for (int i = 0; i < TOKENS * CHOSEN * DEPTH; i++) {
        x[i] = (float)(i * 5 % 17 - 8) / 8;
    }
    program = make_program(operators, f, w);
    expect_ok(exg_verify(program, operators, &verified, NULL, &err), &err);
    expect_ok(exg_session_create(&verified, &options, &session, &err), &err);
    inputs[0].tensor =
        (exg_tensor){.data = x, .dtype = F32, .rank = 3, .sizes = {TOKENS, CHOSEN, DEPTH}};
    inputs[1].tensor =
        (exg_tensor){.data = chosen, .dtype = EXG_DTYPE_I64, .rank = 2, .sizes = {TOKENS, CHOSEN}};
    exg_tensor_set_contiguous(&inputs[0].tensor);
    exg_tensor_set_contiguous(&inputs[1].tensor);
    for (int run = 0; run < 3; run++) {
        const float *got;

        chosen[run] = run;
        expect_ok(exg_session_run(session, inputs, 2, &err), &err);
        got = exg_session_output_at(session, 0)->tensor.data;
        for (int i = 0; i < RESULTS; i++) {
            const int row = has_one_row(f) ? i / COLUMNS / CHOSEN * CHOSEN : i / COLUMNS;
            double want = 0;

            for (int k = 0; k < DEPTH; k++) {
                want += (double)x[row * DEPTH + k] *
                        (double)weight_at(f, w, chosen[i / COLUMNS], k, i % COLUMNS);
            }
            want = want > 0 ? want : 0;
            if (fabs(got[i] - want) > 1e-4) {
                fail_msg("%s, element %d: %g, not %g", names[f], i, (double)got[i], want);
            }
        }
    }
    expect_plan(session, f);
    chosen[4] = EXPERTS;
    assert_int_equal(exg_session_run(session, inputs, 2, &err), EXG_MALFORMED);
    assert_string_equal(err.code, "RUN-001");
    exg_session_destroy(session);
    exg_program_destroy(program);
}

static void experts_are_read_where_they_are(void **state)
{
    exg_operators *operators;

    (void)state;
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    for (int f = 0; f < FORMS; f++) {
        check(operators, (form)f);
    }
    exg_operators_destroy(operators);
}

/* As many elements, none, are no pick for each product. */
static void views_of_nothing_are_no_picks(void **state)
{
    exg_session_options options = {.size = sizeof(options), .device = getenv("EXG_TEST_DEVICE")};
    float x[TOKENS * DEPTH] = {0}, w = 0;
    int64_t chosen[CHOSEN] = {1, 0};
    exg_session_input inputs[2] = {{.name = "x"}, {.name = "i"}};
    exg_operators *operators;
    exg_program *program;
    exg_builder *b;
    exg_tensor_meta meta;
    exg_ref row, i, own;
    exg_argument y;
    exg_session *session;
    exg_verified verified;
    exg_error err;

    (void)state;
    exg_error_clear(&err);
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &program, NULL), EXG_OK);
    assert_int_equal(exg_builder_create(operators, program, &b, NULL), EXG_OK);
    meta = exg_builder_meta(b, F32, (int64_t[]){TOKENS, 1, DEPTH}, 3);
    row = exg_builder_input(b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    meta = exg_builder_meta(b, EXG_DTYPE_I64, (int64_t[]){CHOSEN}, 1);
    i = exg_builder_input(b, "i", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    meta = exg_builder_meta(b, F32, (int64_t[]){EXPERTS, DEPTH, 0}, 3);
    own = exg_builder_weight(b, "w", &meta, EXG_INPUT_PARAMETER, &w);
    own = EMIT(b, index_Tensor, own, exg_arg_refs(b, &i, 1));
    own = EMIT(b, reshape_default, own, INTS(b, TOKENS, DEPTH, 0));
    y = exg_arg_ref(EMIT(b, bmm_default, row, own));
    exg_builder_output(b, &y, EXG_OUTPUT_USER, NULL);
    expect_ok(exg_builder_finish(b, &err), &err);
    expect_ok(exg_verify(program, operators, &verified, NULL, &err), &err);
    expect_ok(exg_session_create(&verified, &options, &session, &err), &err);
    inputs[0].tensor =
        (exg_tensor){.data = x, .dtype = F32, .rank = 3, .sizes = {TOKENS, 1, DEPTH}};
    inputs[1].tensor =
        (exg_tensor){.data = chosen, .dtype = EXG_DTYPE_I64, .rank = 1, .sizes = {CHOSEN}};
    exg_tensor_set_contiguous(&inputs[0].tensor);
    exg_tensor_set_contiguous(&inputs[1].tensor);
    expect_ok(exg_session_run(session, inputs, 2, &err), &err);
    assert_int_equal(exg_session_output_at(session, 0)->tensor.sizes[0], TOKENS);
    assert_int_equal(exg_session_output_at(session, 0)->tensor.sizes[2], 0);
    exg_session_destroy(session);
    exg_program_destroy(program);
    exg_operators_destroy(operators);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_are_read_where_they_are),
        cmocka_unit_test(views_of_nothing_are_no_picks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
