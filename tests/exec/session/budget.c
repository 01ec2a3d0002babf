/* budget.c - a session with a limit never holds more than that: what does not fit is refused, what
 * is not needed makes room for what is, and results stay what they are.
 */
#include "tests/exec/session/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define ROW(program, data)                                                                         \
    {                                                                                              \
        program ".pt2", data ".inputs.safetensors", data ".expected.safetensors", 1e-3, 1e-3       \
    }

static const fixture rows[] = {
    ROW("convbn", "convbn"),     ROW("inplace", "inplace"), ROW("loops", "loops"),
    ROW("branch", "branch"),     ROW("places", "places"),   ROW("slices", "slices"),
    ROW("elements", "elements"), ROW("masks", "masks"),     ROW("lm.core.dynamic", "lm.t17"),
};

#define STEPS 24

static uint64_t held(exg_session *session)
{
    return exg_session_statistics(session)->memory_bytes;
}

/* With a part of the memory that is enough; true: it ran. */
static bool check(const loaded *l, exg_session_options options, uint64_t limit, uint32_t ranks)
{
    exg_session *session;
    exg_status status;
    exg_error err;

    options.goal = &(exg_partition_goal){.size = sizeof(exg_partition_goal), .memory_limit = limit};
    session = open_session(l, &options);
    status = try_fixture(l, session, &err);
    if (status != EXG_OK) {
        assert_int_equal(status, EXG_LIMIT);
        assert_string_equal(err.code, "PLC-009");
        assert_true(err.fix[0] != '\0');
        assert_int_equal(try_fixture(l, session, NULL), EXG_LIMIT); /* it can be asked again */
    } else {
        compare_with_expected(l, session, "in a budget");
    }
    assert_true(held(session) <= limit * ranks);
    exg_session_destroy(session);
    return status == EXG_OK;
}

static void sweep(const fixture *f, exg_session_options options, uint32_t ranks)
{
    exg_session *session;
    uint64_t enough;
    bool ran = false;
    exg_error err;
    loaded l;

    load_fixture(f, &l);
    session = open_session(&l, &options);
    assert_int_equal(try_fixture(&l, session, &err), EXG_OK);
    enough = (held(session) + 65536 * ranks) * 4; /* weights that are mapped, those packed */
    exg_session_destroy(session);
    for (uint64_t i = 1; i <= STEPS; i++) {
        bool runs = check(&l, options, enough * i / STEPS, ranks);

        assert_true(runs || !ran); /* more never does harm */
        ran = runs;
    }
    assert_true(ran);
    assert_false(check(&l, options, 16, ranks));
    unload_fixture(&l);
}

static void a_session_stays_within_its_limit(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_session_options options = {.size = sizeof(options), .thread_count = 1};

        sweep(&rows[i], options, 1);
    }
}

static void ranks_stay_within_theirs(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_session_options options = {.size = sizeof(options), .mesh = {1, {2}}};

        sweep(&rows[i], options, 2);
    }
}

/* ---- plans that take turns ------------------------------------------------------------------ */

/* x[:k] / max|x|, of the second output; plans for other k lie where this one lay. */
static void plans_of_other_numbers_take_no_more(void **state)
{
    float x[12] = {1, -2, 3, 4, 5, -6, 7, 8, 9, 10, 11, -12};
    exg_session_options options = {.size = sizeof(options), .thread_count = 1};
    uint64_t limit = 0;
    uint64_t first = 0;
    exg_session *session;
    exg_error err;
    loaded l;

    (void)state;
    load_fixture(fixture_among(rows, sizeof(rows) / sizeof(rows[0]), "elements.pt2"), &l);
    for (int limited = 0; limited <= 1; limited++) {
        options.goal =
            &(exg_partition_goal){.size = sizeof(exg_partition_goal), .memory_limit = limit};
        session = open_session(&l, &options);
        for (int64_t i = 0; i < 9; i++) {
            int64_t k = i % 3 + 1;
            exg_session_input inputs[] = {floats("x", x, 3, 4), {.name = "count"}};
            const exg_tensor *y;

            inputs[1].tensor = (exg_tensor){.data = &k, .dtype = EXG_DTYPE_I64};
            if (exg_session_run(session, inputs, 2, &err) != EXG_OK) {
                fail_msg("k = %d: %s, %s", (int)k, err.message, err.where);
            }
            y = &exg_session_output_at(session, 1)->tensor;
            assert_int_equal(y->sizes[0], k);
            for (int64_t e = 0; e < 4 * k; e++) {
                float off = ((const float *)y->data)[e] - x[e] / 12;

                assert_true(off < 1e-6f && off > -1e-6f);
            }
            first = i == 0 ? held(session) : first;
            assert_true(held(session) <= first * 3 / 2);
            assert_true(limited == 0 || held(session) <= limit);
        }
        limit = held(session);
        exg_session_destroy(session);
    }
    unload_fixture(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_stays_within_its_limit),
        cmocka_unit_test(ranks_stay_within_theirs),
        cmocka_unit_test(plans_of_other_numbers_take_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
