/* decode.c - three calls in a row of a program that keeps its caches in buffers: what one
 * call writes, the next reads; the answers and the buffers are PyTorch's, on one device and
 * over a mesh of two and of four. Reference: fixtures/lm.decode.expected.safetensors. */
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
    }
    exg_program_destroy(program);
    exg_operators_destroy(operators);
    puts("decode: 3 calls, 3 buffers, mesh 1, 2, 4");
    return 0;
}
