/* decode.c - three calls in a row of a program that keeps its caches in buffers: what one
 * call writes, the next reads; the answers and the buffers are PyTorch's, on one device and
 * over a mesh of two and of four; so they are of sessions that give the state to the next.
 * Reference: fixtures/lm.decode.expected.safetensors. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <exg/exec.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) != EXG_OK) {                                                                    \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, err.code, err.message);         \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static void equal(const exg_tensor *got, const exg_tensor_file *file, const char *name)
{
    const exg_named_tensor *want = exg_tensor_file_find(file, name);
    int64_t numel = exg_tensor_numel(got);

    CHECK(want != NULL);
    CHECK(got->dtype == want->dtype && got->rank == want->rank);
    CHECK((uint64_t)numel * exg_dtype_bytes(got->dtype) == want->bytes);
    if (got->dtype != EXG_DTYPE_F32) {
        CHECK(memcmp(got->data, want->data, want->bytes) == 0);
        return;
    }
    for (int64_t i = 0; i < numel; i++) {
        float a = ((const float *)got->data)[i];
        float b = ((const float *)want->data)[i];

        if (!(fabsf(a - b) <= 1e-4f + 1e-4f * fabsf(b))) {
            fprintf(stderr, "%s: element %lld is %g, PyTorch has %g\n", name, (long long)i,
                    (double)a, (double)b);
            exit(1);
        }
    }
}

static void run_step(exg_session *session, int step, const exg_tensor_file *expected)
{
    exg_session_input inputs[2] = {{.name = "tokens"}, {.name = "position"}};
    exg_tensor_file *file;
    exg_error err;
    char name[64];

    snprintf(name, sizeof(name), "fixtures/lm.decode.step%d.inputs.safetensors", step);
    OK(exg_tensor_file_open(name, &file, &err));
    for (int i = 0; i < 2; i++) {
        const exg_named_tensor *item = exg_tensor_file_find(file, inputs[i].name);

        CHECK(item != NULL);
        inputs[i].tensor.dtype = item->dtype;
        inputs[i].tensor.rank = item->rank;
        memcpy(inputs[i].tensor.sizes, item->shape, item->rank * sizeof(int64_t));
        exg_tensor_set_contiguous(&inputs[i].tensor);
        inputs[i].tensor.data = malloc(item->bytes);
        CHECK(inputs[i].tensor.data != NULL);
        memcpy(inputs[i].tensor.data, item->data, item->bytes);
    }
    OK(exg_session_run(session, inputs, 2, &err));
    snprintf(name, sizeof(name), "0@step%d", step);
    CHECK(exg_session_output_count(session) == 1);
    equal(&exg_session_output_at(session, 0)->tensor, expected, name);
    free(inputs[0].tensor.data);
    free(inputs[1].tensor.data);
    exg_tensor_file_close(file);
}

/* S004-21: buffers after every call are PyTorch's, over a mesh too. */
static void decode(const exg_verified *verified, uint32_t mesh)
{
    exg_session_options options = {.size = sizeof(options),
                                   .thread_count = 1,
                                   .device = getenv("EXG_TEST_DEVICE"),
                                   .mesh = {mesh > 0, {mesh}}};
    exg_tensor_file *expected;
    exg_session *session;
    exg_error err;

    options.partition = &(exg_partition_options){.size = sizeof(exg_partition_options),
                                                 .mode = EXG_PARTITION_TENSOR};
    OK(exg_tensor_file_open("fixtures/lm.decode.expected.safetensors", &expected, &err));
    OK(exg_session_create(verified, &options, &session, &err));
    for (int step = 0; step < 3; step++) {
        run_step(session, step, expected);
    }
    CHECK(exg_session_state_count(session) == 3);
    for (uint32_t i = 0; i < 3; i++) {
        exg_tensor tensor;
        const char *fqn = exg_session_state_at(session, i, &tensor);
        char name[64];

        snprintf(name, sizeof(name), "buffer:%s", fqn);
        equal(&tensor, expected, name);
    }
    exg_session_destroy(session);
    exg_tensor_file_close(expected);
}

/* For a step: it has the sizes of any. */
static void prepare(exg_session *session)
{
    int64_t zeros[1] = {0};
    const exg_session_input inputs[2] = {
        {.name = "tokens", .tensor = {zeros, EXG_DTYPE_I64, 2, {1, 1}, {1, 1}}},
        {.name = "position", .tensor = {zeros, EXG_DTYPE_I64, 1, {1}, {1}}}};
    exg_error err;

    OK(exg_session_prepare(session, inputs, 2, &err));
}

/* The state, given to another. */
static void hand_over(exg_session *from, exg_session *to)
{
    exg_named_tensor tensors[3];
    exg_tensor states[3];
    exg_mismatches mismatches = {0};
    exg_tensor found;
    exg_error err;

    CHECK(exg_session_state_count(from) == 3);
    for (uint32_t i = 0; i < 3; i++) {
        tensors[i].name = exg_session_state_at(from, i, &states[i]);
        tensors[i].dtype = states[i].dtype;
        tensors[i].rank = states[i].rank;
        tensors[i].shape = states[i].sizes;
        tensors[i].data = states[i].data;
        tensors[i].bytes =
            (uint64_t)exg_tensor_numel(&states[i]) * exg_dtype_bytes(states[i].dtype);
    }
    OK(exg_session_state_set(to, tensors, 3, &mismatches, &err));
    CHECK(mismatches.count == 0);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK(exg_session_state_find(to, tensors[i].name, &found));
        CHECK(memcmp(found.data, tensors[i].data, tensors[i].bytes) == 0);
    }
    CHECK(!exg_session_state_find(to, "nosuch", &found));
}

/* A session for each step, which is given the state that the one before left: the same answers. */
static void decode_apart(const exg_verified *verified, uint32_t mesh)
{
    exg_session_options options = {.size = sizeof(options),
                                   .thread_count = 1,
                                   .device = getenv("EXG_TEST_DEVICE"),
                                   .mesh = {mesh > 0, {mesh}}};
    exg_session *sessions[3];
    exg_tensor_file *expected;
    exg_error err;

    options.partition = &(exg_partition_options){.size = sizeof(exg_partition_options),
                                                 .mode = EXG_PARTITION_TENSOR};
    OK(exg_tensor_file_open("fixtures/lm.decode.expected.safetensors", &expected, &err));
    for (int step = 0; step < 3; step++) {
        OK(exg_session_create(verified, &options, &sessions[step], &err));
        if (step > 0) {
            prepare(sessions[step]);
            hand_over(sessions[step - 1], sessions[step]);
        }
        run_step(sessions[step], step, expected);
    }
    for (uint32_t i = 0; i < 3; i++) {
        exg_tensor tensor;
        char name[64];

        snprintf(name, sizeof(name), "buffer:%s", exg_session_state_at(sessions[2], i, &tensor));
        equal(&tensor, expected, name);
    }
    for (int step = 0; step < 3; step++) {
        exg_session_destroy(sessions[step]);
    }
    exg_tensor_file_close(expected);
}

/* All that does not fit is told, and nothing of it is set. */
static void refuse(const exg_verified *verified)
{
    static const int64_t sizes[] = {1, 8};
    int64_t recent[8] = {7, 7, 7, 7, 7, 7, 7, 7};
    const exg_named_tensor fits = {"recent", EXG_DTYPE_I64, 2, sizes, recent, sizeof(recent)};
    const exg_named_tensor tensors[] = {
        fits,
        fits,
        {"keys", EXG_DTYPE_F32, 2, sizes, recent, 32},
        {"values", EXG_DTYPE_F64, 2, sizes, recent, 64},
        {"nosuch", EXG_DTYPE_I64, 2, sizes, recent, sizeof(recent)},
    };
    exg_named_tensor part = fits;
    exg_mismatches mismatches = {0};
    exg_session *session;
    exg_tensor tensor;
    exg_error err;

    OK(exg_session_create(verified, NULL, &session, &err));
    CHECK(!exg_session_state_find(session, "recent", &tensor)); /* no plan yet */
    CHECK(exg_session_state_set(session, &fits, 1, &mismatches, &err) == EXG_USAGE);
    CHECK(strcmp(err.code, "RUN-013") == 0);
    exg_mismatches_free(&mismatches);
    prepare(session);
    CHECK(exg_session_state_set(session, tensors, 5, &mismatches, &err) == EXG_USAGE);
    CHECK(strcmp(err.code, "RUN-013") == 0 && mismatches.fault_count == 4);
    CHECK(mismatches.items[0].kind == EXG_MISMATCH_TWICE);
    CHECK(mismatches.items[1].kind == EXG_MISMATCH_SHAPE);
    CHECK(mismatches.items[2].kind == EXG_MISMATCH_DTYPE);
    CHECK(mismatches.items[3].kind == EXG_MISMATCH_UNWRITTEN);
    exg_mismatches_free(&mismatches);
    CHECK(exg_session_state_find(session, "recent", &tensor) && *(int64_t *)tensor.data != 7);
    part.bytes = 8;
    CHECK(exg_session_state_set(session, &part, 1, &mismatches, &err) == EXG_USAGE);
    CHECK(mismatches.items[0].kind == EXG_MISMATCH_SHAPE);
    exg_mismatches_free(&mismatches);
    OK(exg_session_state_set(session, &fits, 1, &mismatches, &err)); /* the others stay */
    CHECK(mismatches.count == 2 && mismatches.items[0].kind == EXG_MISMATCH_KEPT);
    exg_mismatches_free(&mismatches);
    CHECK(exg_session_state_find(session, "recent", &tensor) && *(int64_t *)tensor.data == 7);
    exg_session_destroy(session);
}

int main(void)
{
    exg_operators *operators;
    exg_program *program;
    exg_error err;

    OK(exg_operators_create(&operators, &err));
    OK(exg_open("fixtures/lm.decode.pt2", NULL, &program, NULL, &err));
    {
        exg_verified verified = {program, operators};

        decode(&verified, 0);
        decode(&verified, 2);
        decode(&verified, 4);
        decode_apart(&verified, 0);
        decode_apart(&verified, 2);
        refuse(&verified);
    }
    exg_program_destroy(program);
    exg_operators_destroy(operators);
    puts("decode: 3 calls, 3 buffers, mesh 1, 2, 4");
    return 0;
}
