/* Faults of NCCL in a session over two devices, on stand-ins: each ends the run in time, on all
 * ranks, says where it was, and the process goes on.
 */
#include "libexec/comm/communicator.h"
#include "tests/exec/cuda/calls.h"

#include <exg/emit.h>
#include <exg/exec.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define F32   EXG_DTYPE_F32
#define SMALL (UINT64_C(1000) * 1000 * 1000) /* ns: a deadline */

static exg_program *make_program(const exg_operators *operators)
{
    static const float weights[64] = {1, 2, 3, 4};
    exg_program *program;
    exg_builder *b;
    exg_error err;
    exg_tensor_meta meta;
    exg_ref at;
    exg_argument y;

    assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &program, NULL), EXG_OK);
    assert_int_equal(exg_builder_create(operators, program, &b, NULL), EXG_OK);
    meta = exg_builder_meta(b, F32, (int64_t[]){8, 8}, 2);
    at = exg_builder_input(b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    for (int i = 0; i < 2; i++) {
        exg_ref w =
            exg_builder_weight(b, i == 0 ? "w1" : "w2", &meta, EXG_INPUT_PARAMETER, weights);

        at = EMIT(b, relu_default, EMIT(b, mm_default, at, w));
    }
    y = exg_arg_ref(at);
    exg_builder_output(b, &y, EXG_OUTPUT_USER, NULL);
    expect_ok(exg_builder_finish(b, &err), &err);
    return program;
}

#define RUNS 4 /* the second is recorded, those after it are asked for as one */

static exg_status run_session(const char *device, uint64_t timeout_ns, float *result,
                              exg_error *err)
{
    exg_session_options options = {
        .size = sizeof(options), .mesh = {1, {2}}, .device = device, .timeout_ns = timeout_ns};
    exg_session_input input = {.name = "x"};
    float x[64];
    exg_operators *operators;
    exg_program *program;
    exg_verified verified;
    exg_session *session;
    exg_status status;

    for (int i = 0; i < 64; i++) {
        x[i] = (float)(i % 7) - 3;
    }
    expect_ok(exg_operators_create(&operators, err), err);
    program = make_program(operators);
    options.partition = &(exg_partition_options){.size = sizeof(exg_partition_options),
                                                 .mode = EXG_PARTITION_TENSOR};
    expect_ok(exg_verify(program, operators, &verified, NULL, err), err);
    input.tensor = (exg_tensor){.data = x, .dtype = F32, .rank = 2, .sizes = {8, 8}};
    exg_tensor_set_contiguous(&input.tensor);
    status = exg_session_create(&verified, &options, &session, err);
    for (int run = 0; status == EXG_OK && run < RUNS; run++) {
        status = exg_session_run(session, &input, 1, err);
    }
    if (status == EXG_OK) {
        memcpy(result, exg_session_output_at(session, 0)->tensor.data, 64 * sizeof(float));
    }
    exg_session_destroy(session);
    exg_program_destroy(program);
    exg_operators_destroy(operators);
    return status;
}

/* With `variable` set so; and the process goes on, with the host and with devices. */
static void expect_fault(const char *variable, const char *planned, uint64_t timeout_ns,
                         exg_status status, const char *code, const char *where)
{
    float want[64];
    float got[64];
    exg_error err;

    exg_error_clear(&err);
    assert_int_equal(setenv("EXG_STANDIN_DEVICES", "2", 1), 0);
    expect_ok(run_session(NULL, timeout_ns, want, &err), &err);
    assert_int_equal(setenv(variable, planned, 1), 0);
    assert_int_equal(run_session("cuda", timeout_ns, got, &err), status);
    assert_int_equal(unsetenv(variable), 0);
    assert_string_equal(err.code, code);
    if (strstr(err.where, where) == NULL) {
        fail_msg("%s", err.where);
    }
    exg_error_clear(&err);
    expect_ok(run_session(NULL, timeout_ns, got, &err), &err);
    assert_memory_equal(got, want, sizeof(want));
    expect_ok(run_session("cuda", timeout_ns, got, &err), &err); /* a new one meets again */
    assert_memory_equal(got, want, sizeof(want));                /* whole numbers */
}

static void an_error_of_nccl_ends_the_run_on_all_ranks(void **state)
{
    (void)state;
    expect_fault("EXG_STANDIN_NCCL", "error:1:0", 2 * SMALL, EXG_PEER, "COM-011", "rank 1, node '");
}

static void a_collective_that_hangs_ends_the_run_in_time(void **state)
{
    (void)state;
    expect_fault("EXG_STANDIN_NCCL", "hang:1:0", 2 * SMALL, EXG_PEER, "COM-012",
                 "node 'all_reduce");
}

/* The others wait on their devices for a collective that never comes; they do not wait for the
 * deadline. */
static void a_rank_that_fails_by_itself_ends_the_run_on_all_ranks(void **state)
{
    (void)state;
    keep_calls();
    expect_fault("EXG_STANDIN_NO_LAUNCH", "1", EXG_DEADLINE_NS, EXG_DEVICE, "DEV-008", "rank 1");
    assert_int_equal(calls_of("ncclCommAbort 0"), 1);
    assert_int_equal(calls_of("ncclCommAbort 1"), 1);
    drop_calls();
}

static void nccl_that_does_not_start_is_given_up_in_time(void **state)
{
    (void)state;
    keep_calls();
    expect_fault("EXG_STANDIN_NCCL", "start:1", 2 * SMALL, EXG_PEER, "COM-001", "");
    assert_int_equal(calls_of("ncclCommAbort 0"), 1);
    assert_int_equal(calls_of("ncclCommAbort 1"), 1);
    drop_calls();
}

/* Its collectives have numbers: those of the first run, then those that are recorded. */
static uint32_t count_collectives(void)
{
    float got[64];
    exg_error err;
    uint32_t count;

    exg_error_clear(&err);
    keep_calls();
    expect_ok(run_session("cuda", 2 * SMALL, got, &err), &err);
    count = (calls_of("ncclAllReduce") + calls_of("ncclAllGather") + calls_of("ncclReduceScatter") +
             calls_of("ncclGroupEnd")) /
            2; /* ranks */
    assert_true(calls_of("cuGraphLaunch") > 0);
    drop_calls();
    return count;
}

/* The graphs that have a communicator's work go before it is given up, which waits for them. */
static void each_collective_may_fail_in_each_run(void **state)
{
    static const struct {
        const char *kind, *code;
    } faults[] = {{"error", "COM-011"}, {"hang", "COM-012"}, {"refuse", "COM-011"}};
    uint32_t count;

    (void)state;
    assert_int_equal(setenv("EXG_STANDIN_DEVICES", "2", 1), 0);
    count = count_collectives();
    assert_true(count >= 2 && count % 2 == 0);
    for (size_t f = 0; f < sizeof(faults) / sizeof(faults[0]); f++) {
        for (uint32_t number = 0; number < count; number++) {
            char planned[32];

            (void)snprintf(planned, sizeof(planned), "%s:1:%u", faults[f].kind, number);
            expect_fault("EXG_STANDIN_NCCL", planned, 2 * SMALL, EXG_PEER, faults[f].code,
                         "node '");
        }
    }
}

/* NCCL's abort may not return, nor end what is under way: as for each collective of the first run,
 * of one that is recorded, and of one that is asked for again. */
static void an_abort_that_hangs_is_left_to_itself(void **state)
{
    static const char *const hows[] = {"blocks", "deaf"};
    static const char *const plans[] = {"error:1:0", "hang:1:0", "refuse:1:%u", "hang:1:%u"};
    uint32_t count;

    (void)state;
#ifdef __SANITIZE_ADDRESS__ /* what such an abort still uses is never freed */
    skip();
#endif
    assert_int_equal(setenv("EXG_STANDIN_DEVICES", "2", 1), 0);
    count = count_collectives();
    for (size_t how = 0; how < sizeof(hows) / sizeof(hows[0]); how++) {
        assert_int_equal(setenv("EXG_STANDIN_NCCL_ABORT", hows[how], 1), 0);
        for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
            char planned[32];

            (void)snprintf(planned, sizeof(planned), plans[i], count - 1);
            expect_fault("EXG_STANDIN_NCCL", planned, 2 * SMALL, EXG_PEER,
                         strncmp(planned, "hang", 4) == 0 ? "COM-012" : "COM-011", "node '");
        }
    }
    expect_fault("EXG_STANDIN_NCCL", "start:1", 2 * SMALL, EXG_PEER, "COM-001", "");
    assert_int_equal(unsetenv("EXG_STANDIN_NCCL_ABORT"), 0);
}

static void a_start_that_fails_at_once_ends_it_for_all(void **state)
{
    (void)state;
    expect_fault("EXG_STANDIN_NCCL", "init:1", 2 * EXG_DEADLINE_NS, EXG_PEER, "COM-011", "rank 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_of_nccl_ends_the_run_on_all_ranks),
        cmocka_unit_test(a_collective_that_hangs_ends_the_run_in_time),
        cmocka_unit_test(a_rank_that_fails_by_itself_ends_the_run_on_all_ranks),
        cmocka_unit_test(each_collective_may_fail_in_each_run),
        cmocka_unit_test(an_abort_that_hangs_is_left_to_itself),
        cmocka_unit_test(a_start_that_fails_at_once_ends_it_for_all),
        cmocka_unit_test(nccl_that_does_not_start_is_given_up_in_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
