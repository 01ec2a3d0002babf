/* fixture.h - programs of fixtures/, their inputs, and the answers that PyTorch gives. */
#ifndef EXG_TESTS_EXEC_DISPATCH_FIXTURE_H
#define EXG_TESTS_EXEC_DISPATCH_FIXTURE_H

#include "tests/exec/dispatch/eager.h"

#include <exg/distribute.h>
#include <exg/export.h>
#include <exg/session.h>

#define INPUTS_MAX 8

typedef struct fixture {
    exg_program *program;
    exg_verified verified;
    exg_tensor_file *inputs, *expected;
} fixture;

/* The program of that name, with the inputs and answers of `name`. */
void open_fixture(fixture *f, const char *program, const char *name);
void close_fixture(fixture *f);

exg_tensor plain_tensor(const exg_named_tensor *from);

/* The user's inputs by their names, at most INPUTS_MAX; gives how many. */
uint32_t take_inputs(const fixture *f, exg_module_value *values, exg_tensor *tensors);
void destroy_outputs(exg_module_value *outputs, uint32_t count);

/* Is it the answer of that name? Of a DTensor the whole. */
void expect_tensor(rank_context *c, const fixture *f, const char *name, const exg_tensor *got);
void expect_whole(rank_context *c, const fixture *f, const char *name, const exg_dtensor *t);

#endif
