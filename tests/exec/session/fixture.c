#include "tests/exec/session/fixture.h"

#include "libexport/base/element.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define ROW(program, data, rtol, atol)                                                             \
    {                                                                                              \
        program ".pt2", data ".inputs.safetensors", data ".expected.safetensors", rtol, atol       \
    }

const fixture fixtures[] = {
    ROW("mlp", "mlp", 1e-4, 1e-5),
    ROW("tied", "tied", 1e-4, 1e-5),
    ROW("views", "views", 1e-4, 1e-5),
    ROW("shared", "shared", 1e-4, 1e-5),
    ROW("convbn", "convbn", 1e-4, 1e-4),
    ROW("convbn.core", "convbn", 1e-4, 1e-4),
    ROW("convbn.eval", "convbn.eval", 1e-4, 1e-4),
    ROW("convbn.eval.core", "convbn.eval", 1e-4, 1e-4),
    ROW("bf16", "bf16", 3e-2, 3e-2),
    ROW("bf16.core", "bf16", 3e-2, 3e-2),
    ROW("autocast", "autocast", 3e-2, 3e-2),
    ROW("norms", "norms", 3e-2, 3e-2),
    ROW("norms.core", "norms", 3e-2, 3e-2),
    ROW("integer", "integer", 0, 0),
    ROW("integer.core", "integer", 0, 0),
    ROW("inplace", "inplace", 1e-5, 1e-5),
    ROW("mutate.core", "inplace", 1e-5, 1e-5),
    ROW("many", "many", 1e-5, 1e-5),
    ROW("grouped", "grouped", 1e-4, 1e-5),
    ROW("cached", "cached", 1e-4, 1e-5),
    ROW("joined", "joined", 1e-4, 1e-5),
    ROW("parts", "parts", 1e-4, 1e-5),
    ROW("branch", "branch", 1e-4, 1e-5),
    ROW("branch.core", "branch", 1e-4, 1e-5),
    ROW("loops", "loops", 1e-4, 1e-5),
    ROW("loops.core", "loops", 1e-4, 1e-5),
    ROW("places", "places", 1e-4, 1e-5),
    ROW("places.core", "places", 1e-4, 1e-5),
    ROW("elements", "elements", 1e-4, 1e-5),
    ROW("elements.core", "elements", 1e-4, 1e-5),
    ROW("windows", "windows", 1e-5, 1e-5),
    ROW("lm.core.static", "lm", 1e-3, 1e-3),
    ROW("lm.core.dynamic", "lm.t17", 1e-3, 1e-3),
    ROW("lm.train-ir.dynamic", "lm.t1", 1e-3, 1e-3),
};
const uint32_t fixture_count = sizeof(fixtures) / sizeof(fixtures[0]);

const fixture *fixture_among(const fixture *rows, size_t count, const char *program)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].program, program) == 0) {
            return &rows[i];
        }
    }
    fail_msg("no fixture %s", program);
    return NULL;
}

const fixture *fixture_named(const char *program)
{
    return fixture_among(fixtures, fixture_count, program);
}

void load_fixture(const fixture *f, loaded *l)
{
    char path[200];
    exg_error err;

    memset(l, 0, sizeof(*l));
    l->fixture = f;
    assert_int_equal(exg_operators_create(&l->operators, &err), EXG_OK);
    snprintf(path, sizeof(path), "fixtures/%s", f->program);
    if (exg_open(path, NULL, &l->program, NULL, &err) != EXG_OK ||
        exg_verify(l->program, l->operators, &l->verified, NULL, &err) != EXG_OK) {
        fail_msg("%s: %s", path, err.message);
    }
    snprintf(path, sizeof(path), "fixtures/%s", f->inputs);
    assert_int_equal(exg_tensor_file_open(path, &l->inputs, &err), EXG_OK);
    snprintf(path, sizeof(path), "fixtures/%s", f->expected);
    assert_int_equal(exg_tensor_file_open(path, &l->expected, &err), EXG_OK);
}

void unload_fixture(loaded *l)
{
    exg_tensor_file_close(l->expected);
    exg_tensor_file_close(l->inputs);
    exg_program_destroy(l->program);
    exg_operators_destroy(l->operators);
}

exg_session *open_session(const loaded *l, const exg_session_options *options)
{
    exg_session_options on_device = {.size = sizeof(*options)};
    exg_session *session;
    exg_error err;

    if (options != NULL) {
        on_device = *options;
    }
    on_device.device = getenv("EXG_TEST_DEVICE"); /* NULL: the host */
    if (exg_session_create(&l->verified, &on_device, &session, &err) != EXG_OK) {
        fail_msg("%s: %s", l->fixture->program, err.message);
    }
    return session;
}

typedef exg_status call_session(exg_session *, const exg_session_input *, uint32_t, exg_error *);

static exg_status with_inputs(const loaded *l, exg_session *session, call_session *call,
                              exg_error *err)
{
    exg_session_input inputs[FIXTURE_INPUTS_MAX];
    exg_status status;

    assert_true(l->inputs->count <= FIXTURE_INPUTS_MAX);
    memset(inputs, 0, sizeof(inputs));
    for (uint32_t i = 0; i < l->inputs->count; i++) {
        const exg_named_tensor *t = &l->inputs->items[i];

        inputs[i].name = t->name;
        inputs[i].tensor = (exg_tensor){.dtype = t->dtype, .rank = t->rank};
        memcpy(inputs[i].tensor.sizes, t->shape, t->rank * sizeof(int64_t));
        exg_tensor_set_contiguous(&inputs[i].tensor);
        inputs[i].tensor.data = malloc(t->bytes + 1);
        assert_non_null(inputs[i].tensor.data);
        memcpy(inputs[i].tensor.data, t->data, t->bytes);
    }
    status = call(session, inputs, l->inputs->count, err);
    for (uint32_t i = 0; i < l->inputs->count; i++) {
        free(inputs[i].tensor.data);
    }
    return status;
}

exg_status try_fixture(const loaded *l, exg_session *session, exg_error *err)
{
    return with_inputs(l, session, exg_session_run, err);
}

exg_status prepare_fixture(const loaded *l, exg_session *session, exg_error *err)
{
    return with_inputs(l, session, exg_session_prepare, err);
}

void run_fixture(const loaded *l, exg_session *session)
{
    exg_error err;

    if (try_fixture(l, session, &err) != EXG_OK) {
        fail_msg("%s: %s %s", l->fixture->program, err.code, err.message);
    }
}

static uint64_t bytes_of(const exg_tensor *t)
{
    return (uint64_t)exg_tensor_numel(t) * exg_dtype_bytes(t->dtype);
}

void *result_bytes(const exg_session *session, uint64_t *length)
{
    uint32_t outputs = exg_session_output_count(session);
    uint32_t states = exg_session_state_count(session);
    uint64_t total = 1;
    uint64_t at = 0;
    uint8_t *bytes = NULL;

    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < outputs + states; i++) {
            exg_tensor t = {0};

            if (i < outputs) {
                const exg_session_output *out = exg_session_output_at(session, i);

                if (out->constant.kind != EXG_ARGUMENT_TENSOR) {
                    continue;
                }
                t = out->tensor;
            } else {
                (void)exg_session_state_at(session, i - outputs, &t);
            }
            if (pass == 0) {
                total += bytes_of(&t);
            } else if (bytes_of(&t) > 0) {
                memcpy(bytes + at, t.data, bytes_of(&t));
                at += bytes_of(&t);
            }
        }
        if (pass == 0) {
            bytes = calloc(1, total);
            assert_non_null(bytes);
        }
    }
    *length = at;
    return bytes;
}

static double number_at(exg_dtype dtype, const void *data, int64_t i)
{
    switch (dtype) {
    case EXG_DTYPE_F32:
        return (double)((const float *)data)[i];
    case EXG_DTYPE_F64:
        return ((const double *)data)[i];
    case EXG_DTYPE_I64:
        return (double)((const int64_t *)data)[i];
    case EXG_DTYPE_I32:
        return (double)((const int32_t *)data)[i];
    case EXG_DTYPE_I16:
        return (double)((const int16_t *)data)[i];
    case EXG_DTYPE_I8:
        return (double)((const int8_t *)data)[i];
    case EXG_DTYPE_BF16:
        return (double)exg_bf16_to_f32(((const uint16_t *)data)[i]);
    case EXG_DTYPE_F16:
        return (double)exg_f16_to_f32(((const uint16_t *)data)[i]);
    default:
        return (double)((const uint8_t *)data)[i];
    }
}

static void compare_one(const loaded *l, const exg_tensor *got, const exg_named_tensor *want,
                        const char *what)
{
    int64_t count = exg_tensor_numel(got);

    if (got->dtype != want->dtype || got->rank != want->rank || bytes_of(got) != want->bytes) {
        fail_msg("%s, %s: result %s has another dtype or shape", l->fixture->program, what,
                 want->name);
    }
    for (int64_t i = 0; i < count; i++) {
        double a = number_at(got->dtype, got->data, i);
        double b = number_at(want->dtype, want->data, i);

        if (!(a == b || (isnan(a) && isnan(b)) ||
              fabs(a - b) <= l->fixture->atol + l->fixture->rtol * fabs(b))) {
            fail_msg("%s, %s: result %s, element %lld is %g, not %g", l->fixture->program, what,
                     want->name, (long long)i, a, b);
        }
    }
}

void compare_with_expected(const loaded *l, const exg_session *session, const char *what)
{
    uint32_t compared = 0;

    for (uint32_t o = 0; o < exg_session_output_count(session); o++) {
        const exg_session_output *out = exg_session_output_at(session, o);
        const exg_named_tensor *want;
        char name[16];

        snprintf(name, sizeof(name), "%u", o);
        want = exg_tensor_file_find(l->expected, name);
        if (want != NULL && out->constant.kind == EXG_ARGUMENT_TENSOR) {
            compare_one(l, &out->tensor, want, what);
            compared++;
        }
    }
    for (uint32_t s = 0; s < exg_session_state_count(session); s++) {
        const exg_named_tensor *want;
        exg_tensor tensor;
        char name[200];

        snprintf(name, sizeof(name), "buffer:%s", exg_session_state_at(session, s, &tensor));
        want = exg_tensor_file_find(l->expected, name);
        if (want != NULL) {
            compare_one(l, &tensor, want, what);
            compared++;
        }
    }
    assert_true(compared > 0);
}

exg_session_input floats(const char *name, float *data, int64_t rows, int64_t columns)
{
    exg_session_input input = {.name = name,
                               .tensor = {.data = data, .dtype = EXG_DTYPE_F32, .rank = 2}};

    input.tensor.sizes[0] = rows;
    input.tensor.sizes[1] = columns;
    exg_tensor_set_contiguous(&input.tensor);
    return input;
}

exg_status run_built(exg_program *program, const exg_operators *operators,
                     const exg_session_input *in, exg_error *err)
{
    exg_session *session = NULL;
    exg_verified verified;
    exg_status status = exg_verify(program, operators, &verified, NULL, err);

    status = status == EXG_OK ? exg_session_create(&verified, NULL, &session, err) : status;
    status = status == EXG_OK ? exg_session_run(session, in, 1, err) : status;
    exg_session_destroy(session);
    return status;
}
