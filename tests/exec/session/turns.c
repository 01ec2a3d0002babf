/* turns.c - plans of a session take turns in one memory: however many shapes come by, it is no
 * larger than what the largest takes, and the plans that are kept have a bound; results are lent
 * until the next run, which may be given them. Reference: sizes of a session of one shape, loops
 * over small matrices.
 */
#include <exg/emit.h>

#include "tests/exec/session/fixture.h"

#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define LENGTHS 200
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) /* which takes long for one */
#define TURNS 40
#else
#define TURNS LENGTHS
#endif
#define PLAN_BYTES (32u << 20) /* that session.h states */

/* ---- many shapes --------------------------------------------------------------------------- */

typedef struct counter {
    uint64_t live, most;
} counter;

static void *allocate(void *user, size_t bytes, size_t alignment)
{
    counter *c = user;

    c->live += bytes;
    c->most = c->live > c->most ? c->live : c->most;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void release(void *user, void *block, size_t bytes)
{
    counter *c = user;

    c->live -= bytes;
    free(block);
}

static void run_length(exg_session *session, int64_t length)
{
    int64_t tokens[LENGTHS];
    exg_session_input input = {
        .name = "tokens",
        .tensor = {.data = tokens, .dtype = EXG_DTYPE_I64, .rank = 2, .sizes = {1, length}}};
    exg_error err;

    for (int64_t i = 0; i < length; i++) {
        tokens[i] = i % 7;
    }
    exg_tensor_set_contiguous(&input.tensor);
    if (exg_session_run(session, &input, 1, &err) != EXG_OK) {
        fail_msg("length %d: %s %s", (int)length, err.code, err.message);
    }
}

/* Of `count` lengths up to the largest, in an order that grows and falls. */
static uint64_t run_lengths(int64_t count, exg_session_options options, uint64_t *most)
{
    counter c = {0};
    exg_allocator allocator = {allocate, release, &c};
    exg_open_options open = {.size = sizeof(open), .allocator = &allocator};
    exg_operators *operators;
    exg_program *program;
    exg_session *session;
    uint64_t bytes;
    exg_verified verified;

    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    assert_int_equal(exg_open("fixtures/lm.core.dynamic.pt2", &open, &program, NULL, NULL), EXG_OK);
    assert_int_equal(exg_verify(program, operators, &verified, NULL, NULL), EXG_OK);
    assert_int_equal(exg_session_create(&verified, &options, &session, NULL), EXG_OK);
    for (int64_t i = 0; i < count; i++) {
        run_length(session, i % 3 == 0 ? LENGTHS - i : i + 1);
    }
    bytes = exg_session_statistics(session)->memory_bytes;
    exg_session_destroy(session);
    exg_program_destroy(program);
    exg_operators_destroy(operators);
    assert_int_equal(c.live, 0);
    *most = c.most;
    return bytes;
}

static void many_shapes_take_what_the_largest_takes(void **state)
{
    (void)state;
    for (uint32_t ranks = 1; ranks <= 2; ranks++) {
        exg_session_options options = {
            .size = sizeof(options), .thread_count = 1, .mesh = {1, {ranks}}};
        uint64_t one, many, most_one, most_many;

        one = run_lengths(1, options, &most_one);
        many = run_lengths(TURNS, options, &most_many);
        assert_true(many <= one + one / 2);
        assert_true(most_many <= most_one * 3 / 2 + PLAN_BYTES);
    }
}

/* ---- results that are given to the next run -------------------------------------------------- */

#define SIDE 6

/* y = x / 2 + 1 and the next x = x x. */
static void step(float *x, float *y)
{
    float next[SIDE * SIDE] = {0};

    for (int i = 0; i < SIDE * SIDE; i++) {
        y[i] = x[i] / 2 + 1;
        for (int j = 0; j < SIDE; j++) {
            next[i] += x[i / SIDE * SIDE + j] * x[j * SIDE + i % SIDE];
        }
    }
    memcpy(x, next, sizeof(next));
}

static exg_program *make(exg_operators *operators)
{
    const int64_t sizes[] = {SIDE, SIDE};
    exg_program *program;
    exg_builder *b;
    exg_tensor_meta meta;
    exg_argument y;
    exg_ref x;

    assert_int_equal(exg_program_create(NULL, UINT64_MAX, &program, NULL), EXG_OK);
    assert_int_equal(exg_builder_create(operators, program, &b, NULL), EXG_OK);
    meta = exg_builder_meta(b, EXG_DTYPE_F32, sizes, 2);
    x = exg_builder_input(b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    y = exg_arg_ref(EMIT(b, add_Scalar, EMIT(b, div_Scalar, x, 2), 1));
    exg_builder_output(b, &y, EXG_OUTPUT_USER, NULL);
    y = exg_arg_ref(EMIT(b, mm_default, x, x));
    exg_builder_output(b, &y, EXG_OUTPUT_USER, NULL);
    assert_int_equal(exg_builder_finish(b, NULL), EXG_OK);
    return program;
}

static void results_may_be_given_to_the_next_run(void **state)
{
    exg_operators *operators;
    exg_program *program;
    exg_session *session;
    exg_verified verified;
    float x[SIDE * SIDE];
    float want[2][SIDE * SIDE];
    exg_session_input input = floats("x", x, SIDE, SIDE);

    (void)state;
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    program = make(operators);
    assert_int_equal(exg_verify(program, operators, &verified, NULL, NULL), EXG_OK);
    assert_int_equal(exg_session_create(&verified, NULL, &session, NULL), EXG_OK);
    for (int i = 0; i < SIDE * SIDE; i++) {
        want[1][i] = x[i] = (float)(i % 5) / 8 - 0.25f;
    }
    for (int run = 0; run < 4; run++) {
        exg_error err;

        step(want[1], want[0]);
        assert_int_equal(exg_session_run(session, &input, 1, &err), EXG_OK);
        for (uint32_t o = 0; o < 2; o++) {
            const float *y = exg_session_output_at(session, o)->tensor.data;

            for (int i = 0; i < SIDE * SIDE; i++) {
                float off = y[i] - want[o][i];

                assert_true(off < 1e-4f && off > -1e-4f);
            }
        }
        input.tensor.data = exg_session_output_at(session, 1)->tensor.data;
    }
    exg_session_destroy(session);
    exg_program_destroy(program);
    exg_operators_destroy(operators);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_shapes_take_what_the_largest_takes),
        cmocka_unit_test(results_may_be_given_to_the_next_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
