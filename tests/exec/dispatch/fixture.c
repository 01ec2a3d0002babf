/* fixture.c - a program of PyTorch with its inputs and answers. */
#include "tests/exec/dispatch/fixture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* ---- programs of PyTorch --------------------------------------------------------------------- */

static void open_file(const char *name, const char *what, exg_tensor_file **file)
{
    char path[100];

    snprintf(path, sizeof(path), "fixtures/%s.%s.safetensors", name, what);
    assert_int_equal(exg_tensor_file_open(path, file, NULL), EXG_OK);
}

void open_fixture(fixture *f, const char *program, const char *name)
{
    char path[100];
    exg_error err;

    snprintf(path, sizeof(path), "fixtures/%s.pt2", program);
    if (exg_open(path, NULL, &f->program, NULL, &err) != EXG_OK ||
        exg_verify(f->program, all_operators(), &f->verified, NULL, &err) != EXG_OK) {
        fail_msg("%s: %s", path, err.message);
    }
    open_file(name, "inputs", &f->inputs);
    open_file(name, "expected", &f->expected);
}

void close_fixture(fixture *f)
{
    exg_tensor_file_close(f->inputs);
    exg_tensor_file_close(f->expected);
    exg_program_destroy(f->program);
}

exg_tensor plain_tensor(const exg_named_tensor *from)
{
    exg_tensor t = {
        .data = (void *)(uintptr_t)from->data, .dtype = from->dtype, .rank = from->rank};

    memcpy(t.sizes, from->shape, from->rank * sizeof(int64_t));
    exg_tensor_set_contiguous(&t);
    return t;
}

/* ---- what came of it ------------------------------------------------------------------------- */

void expect_tensor(rank_context *c, const fixture *f, const char *name, const exg_tensor *got)
{
    const exg_named_tensor *named = exg_tensor_file_find(f->expected, name);
    exg_tensor want;
    uint32_t bytes;

    EXPECT(c, named != NULL && got != NULL, "%s: nothing to compare", name);
    if (named == NULL || got == NULL) {
        return;
    }
    want = plain_tensor(named);
    bytes = exg_dtype_bytes(want.dtype);
    EXPECT(c,
           got->dtype == want.dtype && got->rank == want.rank &&
               memcmp(got->sizes, want.sizes, want.rank * sizeof(int64_t)) == 0,
           "%s: other sizes, or another dtype", name);
    for (int64_t i = 0; c->faults == 0 && i < exg_tensor_numel(&want); i++) {
        double is = exg_element_value(got->dtype, (const uint8_t *)got->data + i * (int64_t)bytes);
        double ought =
            exg_element_value(want.dtype, (const uint8_t *)want.data + i * (int64_t)bytes);

        EXPECT(c, fabs(is - ought) <= 1e-5 + 1e-4 * fabs(ought), "%s[%d] is %g, not %g", name,
               (int)i, is, ought);
    }
}

/* The whole of it. */
void expect_whole(rank_context *c, const fixture *f, const char *name, const exg_dtensor *t)
{
    exg_dtensor *whole = NULL;
    exg_error err;

    EXPECT(c, t != NULL && exg_dtensor_full_tensor(t, &whole, &err) == EXG_OK, "%s: %s", name,
           t == NULL ? "is not there" : err.message);
    if (whole != NULL) {
        expect_tensor(c, f, name, on_host(whole));
    }
    exg_dtensor_destroy(whole);
}

uint32_t take_inputs(const fixture *f, exg_module_value *values, exg_tensor *tensors)
{
    const exg_signature *signature = &f->program->signature;
    uint32_t count = 0;

    for (uint32_t i = 0; i < signature->input_count; i++) {
        const exg_input_spec *spec = &signature->inputs[i];
        const exg_named_tensor *named = spec->kind == EXG_INPUT_USER && spec->arg.name != NULL
                                            ? exg_tensor_file_find(f->inputs, spec->arg.name)
                                            : NULL;

        if (named != NULL && count < INPUTS_MAX) {
            tensors[count] = plain_tensor(named);
            values[count] = (exg_module_value){.name = spec->arg.name, .tensor = &tensors[count]};
            count++;
        }
    }
    return count;
}

void destroy_outputs(exg_module_value *outputs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        exg_dtensor_destroy(outputs[i].dtensor);
    }
}
