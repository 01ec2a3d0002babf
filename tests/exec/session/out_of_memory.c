/* out_of_memory.c - calls without memory, to a session and to files. */
#include "tests/export/refusal.h"

#include <exg/diff.h>
#include <exg/exec.h>
#include <exg/export.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#ifdef REFUSES_MEMORY

exg_operator_library_get_fn exg_operator_library_get; /* examples/operators/mylib.c */

typedef struct given {
    const exg_session_input *inputs;
    uint32_t count;
} given;

/* A program differs in nothing from itself. */
static exg_status compare(const exg_verified *verified, exg_error *err)
{
    exg_diff diff = {0};
    exg_status status = exg_diff_programs(verified, verified, NULL, &diff, err);

    if (status == EXG_OK && diff.count > 0) {
        status = EXG_FAIL(err, MISMATCH, "DIF-001", "%s", diff.items[0].what);
    }
    exg_diff_free(&diff);
    return status;
}

static exg_status run(const char *path, void *user, exg_error *err)
{
    const given *with = user;
    exg_session_options options = {.size = sizeof(options), .thread_count = 1};
    exg_program *program = NULL;
    exg_operators *operators = NULL;
    exg_session *session = NULL;
    exg_verified verified;
    exg_status status = exg_open(path, NULL, &program, NULL, err);

    status = status == EXG_OK ? exg_operators_create(&operators, err) : status;
    status = status == EXG_OK ? exg_operators_register(operators, exg_operator_library_get(), err)
                              : status;
    status = status == EXG_OK ? exg_verify(program, operators, &verified, NULL, err) : status;
    status = status == EXG_OK ? compare(&verified, err) : status;
    status = status == EXG_OK ? exg_session_create(&verified, &options, &session, err) : status;
    status = status == EXG_OK ? exg_session_run(session, with->inputs, with->count, err) : status;
    exg_session_destroy(session);
    exg_operators_destroy(operators);
    exg_program_destroy(program);
    return status;
}

/* Opens a file of weights, of a program too. */
static exg_status open_weights(const char *path, void *user, exg_error *err)
{
    exg_weights *weights = NULL;
    exg_status status = exg_weights_open(path, NULL, &weights, NULL, err);

    (void)user;
    exg_weights_release(weights);
    return status;
}

/* What is printed is all there, or it is not printed. */
static exg_status print(const char *path, void *user, exg_error *err)
{
    static uint64_t length; /* as it was with all memory there is, which comes first */
    exg_program *program = NULL;
    char *text = NULL;
    exg_status status = exg_open(path, NULL, &program, NULL, err);

    (void)user;
    status = status == EXG_OK ? exg_program_print(program, &text, err) : status;
    if (status == EXG_OK && !memory_is_refused()) {
        length = strlen(text);
    } else if (status == EXG_OK && strlen(text) != length) {
        status = EXG_FAIL(err, MISMATCH, "TXT", "%zu bytes are printed", strlen(text));
    }
    free(text);
    exg_program_destroy(program);
    return status;
}

/* What is set up once a process is set up then. */
static void the_first_call_of_a_process_survives_it(void **state)
{
    int outcome = 0;

    (void)state;
    for (uint64_t n = 1; outcome != 2; n++) {
        pid_t child = fork();
        int how;

        assert_int_not_equal(child, -1);
        if (child == 0) {
            exg_error err;
            exg_status status;

            refuse_memory(n, n);
            status = open_weights("fixtures/mlp.pt2", NULL, &err);
            grant_memory();
            _exit(memory_requests() < n ? 2 : status == EXG_OK || status == EXG_NO_MEMORY ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &how, 0), child);
        if (!WIFEXITED(how) || WEXITSTATUS(how) == 1) {
            fail_msg("request %u refused: status %x", (unsigned)n, (unsigned)how);
        }
        outcome = WEXITSTATUS(how);
        assert_true(n < 10000);
    }
}

static void every_call_survives_it(void **state)
{
    static const char *const programs[] = {"mlp",
                                           "convbn",
                                           "windows",
                                           "operator_library/plain",
                                           "operator_library/data",
                                           "operator_library/watched",
                                           "operator_library/writes.core"};

    (void)state;
    for (size_t p = 0; p < sizeof(programs) / sizeof(programs[0]); p++) {
        exg_session_input inputs[8] = {0};
        exg_tensor_file *tensors;
        char path[80];

        snprintf(path, sizeof(path), "fixtures/%s.inputs.safetensors", programs[p]);
        assert_int_equal(exg_tensor_file_open(path, &tensors, NULL), EXG_OK);
        assert_in_range(tensors->count, 1, 8);
        for (uint32_t i = 0; i < tensors->count; i++) {
            const exg_named_tensor *t = &tensors->items[i];

            inputs[i] = (exg_session_input){t->name, {malloc(t->bytes), t->dtype, t->rank}};
            assert_non_null(inputs[i].tensor.data);
            memcpy(inputs[i].tensor.data, t->data, t->bytes);
            memcpy(inputs[i].tensor.sizes, t->shape, t->rank * sizeof(int64_t));
            exg_tensor_set_contiguous(&inputs[i].tensor);
        }
        snprintf(path, sizeof(path), "fixtures/%s.pt2", programs[p]);
        refuse_each(run, path, &(given){inputs, tensors->count}, 1);
        refuse_each(run, path, &(given){inputs, tensors->count}, UINT64_MAX);
        for (uint32_t i = 0; i < tensors->count; i++) {
            free(inputs[i].tensor.data);
        }
        exg_tensor_file_close(tensors);
    }
}

static void what_is_read_is_not_taken_for_something_else(void **state)
{
    static const char *const files[] = {
        "fixtures/weights/deflated.npz",   "fixtures/weights/stored.npz",
        "fixtures/weights/nested.pt",      "fixtures/weights/mlp.inputs.pt",
        "fixtures/weights/big.gguf",       "fixtures/weights/sharded.safetensors.index.json",
        "tests/export/data/branches.json",
    };
    static const char *const programs[] = {"fixtures/mlp.pt2", "fixtures/branch.pt2"};

    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        refuse_each(open_weights, files[i], NULL, 1);
        refuse_each(open_weights, files[i], NULL, UINT64_MAX);
    }
    for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
        refuse_each(print, programs[i], NULL, 1);
    }
}

#else

static void the_first_call_of_a_process_survives_it(void **state)
{
    (void)state;
    skip();
}

static void what_is_read_is_not_taken_for_something_else(void **state)
{
    (void)state;
    skip();
}

static void every_call_survives_it(void **state)
{
    (void)state;
    skip();
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_call_of_a_process_survives_it), /* so, before any other */
        cmocka_unit_test(every_call_survives_it),
        cmocka_unit_test(what_is_read_is_not_taken_for_something_else),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
