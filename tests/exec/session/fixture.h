/* fixture.h - a program of fixtures/ with its inputs and answers, opened to be run. */
#ifndef EXG_TESTS_EXEC_SESSION_FIXTURE_H
#define EXG_TESTS_EXEC_SESSION_FIXTURE_H

#include <exg/exec.h>
#include <exg/export.h>

#define FIXTURE_INPUTS_MAX 80

typedef struct fixture {
    const char *program;  /* "mlp.pt2" */
    const char *inputs;   /* "mlp.inputs.safetensors" */
    const char *expected; /* "mlp.expected.safetensors" */
    double rtol, atol;
} fixture;

/* Programs that run without constants among their inputs. */
extern const fixture fixtures[];
extern const uint32_t fixture_count;

/* The one of `rows`, or of the fixtures, whose program is called so; fails the test where there is
 * none. */
const fixture *fixture_among(const fixture *rows, size_t count, const char *program);
const fixture *fixture_named(const char *program);

typedef struct loaded {
    const fixture *fixture;
    exg_operators *operators;
    exg_program *program;
    exg_verified verified;
    exg_tensor_file *inputs;
    exg_tensor_file *expected;
} loaded;

void load_fixture(const fixture *f, loaded *l);
void unload_fixture(loaded *l);

/* Runs once on fresh copies of the inputs; run_fixture() fails the test when that does not work. */
exg_status try_fixture(const loaded *l, exg_session *session, exg_error *err);
void run_fixture(const loaded *l, exg_session *session);
exg_status prepare_fixture(const loaded *l, exg_session *session, exg_error *err); /* plans */
exg_session *open_session(const loaded *l, const exg_session_options *options);

/* All outputs of the last run, then the state, one after the other; malloc'ed. */
void *result_bytes(const exg_session *session, uint64_t *length);

/* Compares outputs with PyTorch's answers. */
void compare_with_expected(const loaded *l, const exg_session *session, const char *what);

/* An input of a test's own, (rows, columns). */
exg_session_input floats(const char *name, float *data, int64_t rows, int64_t columns);

/* Verifies the program and runs it once on one input. */
exg_status run_built(exg_program *program, const exg_operators *operators,
                     const exg_session_input *in, exg_error *err);

#endif
