/* stop.c - a run that would not end in a lifetime is stopped, by another thread, a signal handler
 * or the clock, alone, on ranks and on a device; what is too much is refused before it begins.
 */
#include <exg/emit.h>

#include "tests/exec/session/fixture.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* The sum of an element that is looked at `count` times, and of memory of `empty` bytes. */
static exg_program *make(exg_operators *operators, int64_t count, int64_t empty)
{
    const int64_t one[] = {1};
    exg_program *program;
    exg_tensor_meta meta;
    exg_argument y;
    exg_builder *b;
    exg_ref x;

    assert_int_equal(exg_program_create(NULL, UINT64_MAX, &program, NULL), EXG_OK);
    assert_int_equal(exg_builder_create(operators, program, &b, NULL), EXG_OK);
    meta = exg_builder_meta(b, EXG_DTYPE_F32, one, 1);
    x = exg_builder_input(b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    if (empty > 0) {
        x = EMIT(b, mul_Tensor, x, EMIT(b, repeat_default, x, INTS(b, empty / 4)));
    }
    y = exg_arg_ref(EMIT(b, sum_default, EMIT(b, expand_default, x, INTS(b, count, -1))));
    exg_builder_output(b, &y, EXG_OUTPUT_USER, NULL);
    assert_int_equal(exg_builder_finish(b, NULL), EXG_OK);
    return program;
}

typedef struct endless {
    exg_operators *operators;
    exg_program *program;
    exg_session *session;
    float x;
    exg_session_input input;
} endless;

static void open_endless(endless *e, exg_session_options options, int64_t count, int64_t empty)
{
    exg_verified verified;
    exg_error err;

    assert_int_equal(exg_operators_create(&e->operators, NULL), EXG_OK);
    e->program = make(e->operators, count, empty);
    assert_int_equal(exg_verify(e->program, e->operators, &verified, NULL, NULL), EXG_OK);
    options.size = sizeof(options);
    if (exg_session_create(&verified, &options, &e->session, &err) != EXG_OK) {
        fail_msg("%s %s", err.code, err.message);
    }
    e->x = 1;
    e->input = floats("x", &e->x, 1, 1);
    e->input.tensor.rank = 1;
    exg_tensor_set_contiguous(&e->input.tensor);
}

static void close_endless(endless *e)
{
    exg_session_destroy(e->session);
    exg_program_destroy(e->program);
    exg_operators_destroy(e->operators);
}

static void ends_with(endless *e, const char *code)
{
    exg_error err;

    assert_int_equal(exg_session_run(e->session, &e->input, 1, &err), EXG_LIMIT);
    assert_string_equal(err.code, code);
    assert_int_equal(exg_session_output_count(e->session), 0);
}

#define ENDLESS (INT64_C(1) << 44)

static const exg_session_options kinds[] = {
    {.thread_count = 1},
    {.thread_count = 3},
    {.thread_count = 1, .mesh = {1, {2}}},
    {.thread_count = 1, .device = "strict"},
};

static void *stop_later(void *session)
{
    nanosleep(&(struct timespec){0, 20000000}, NULL);
    exg_session_stop(session);
    return NULL;
}

static void another_thread_stops_a_run(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        exg_session_options options = kinds[k];
        pthread_t thread;
        endless e;

        options.work_limit = 1e30;
        open_endless(&e, options, ENDLESS, 0);
        assert_int_equal(pthread_create(&thread, NULL, stop_later, e.session), 0);
        ends_with(&e, "RUN-010");
        pthread_join(thread, NULL);
        close_endless(&e);
    }
}

static exg_session *alarmed;

static void stop_now(int number)
{
    (void)number;
    exg_session_stop(alarmed);
}

static void a_signal_handler_stops_a_run(void **state)
{
    const struct itimerval soon = {.it_value = {0, 20000}};
    endless e;

    (void)state;
    open_endless(&e, (exg_session_options){.work_limit = 1e30}, ENDLESS, 0);
    alarmed = e.session;
    signal(SIGALRM, stop_now);
    assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
    ends_with(&e, "RUN-010");
    signal(SIGALRM, SIG_DFL);
    close_endless(&e);
}

static void the_clock_stops_a_run(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        exg_session_options options = kinds[k];
        endless e;

        options.work_limit = 1e30;
        options.time_limit_ns = 20000000;
        open_endless(&e, options, ENDLESS, 0);
        ends_with(&e, "RUN-011");
        close_endless(&e);
    }
}

/* Before it begins, a stop ends the next run; the one after that is a run like any other, of
 * weights that were not packed in between. */
static void a_session_runs_after_it_was_stopped(void **state)
{
    (void)state;
    for (uint32_t f = 0; f < fixture_count; f++) {
        exg_session_options options = {.size = sizeof(options), .thread_count = 2};
        exg_session *session;
        exg_error err;
        loaded l;

        load_fixture(&fixtures[f], &l);
        session = open_session(&l, &options);
        for (int times = 0; times < 2; times++) {
            exg_session_stop(session);
            assert_int_equal(try_fixture(&l, session, &err), EXG_LIMIT);
            assert_string_equal(err.code, "RUN-010");
        }
        run_fixture(&l, session);
        compare_with_expected(&l, session, "after it was stopped");
        exg_session_destroy(session);
        unload_fixture(&l);
    }
    exg_session_stop(NULL);
}

static void what_is_too_much_does_not_begin(void **state)
{
    endless e;

    (void)state;
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        open_endless(&e, kinds[k], ENDLESS, 0);
        ends_with(&e, "RUN-012"); /* by default */
        close_endless(&e);
    }
    open_endless(&e, (exg_session_options){.work_limit = 1000}, 2000, 0);
    ends_with(&e, "RUN-012");
    close_endless(&e);
    open_endless(&e, (exg_session_options){.work_limit = 4000}, 2000, 0);
    assert_int_equal(exg_session_run(e.session, &e.input, 1, NULL), EXG_OK);
    assert_true(*(const float *)exg_session_output_at(e.session, 0)->tensor.data == 2000);
    close_endless(&e);
    open_endless(&e, (exg_session_options){.work_limit = 1e30}, 1, INT64_C(1) << 42);
    ends_with(&e, "PLC-009"); /* no machine has that */
    close_endless(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_thread_stops_a_run),
        cmocka_unit_test(a_signal_handler_stops_a_run),
        cmocka_unit_test(the_clock_stops_a_run),
        cmocka_unit_test(a_session_runs_after_it_was_stopped),
        cmocka_unit_test(what_is_too_much_does_not_begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
