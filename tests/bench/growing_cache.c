/* growing_cache.c - a step of a decoder whose cache is an input and a result, and longer by one
 * with every call: each call is of a shape that the session has not met. For growing_cache.py.
 *
 *   bench_growing_cache PROGRAM LAYERS HEADS DEPTH STEPS
 *
 * The program takes x (1, 1, HEADS * DEPTH) and cache (2 * LAYERS, 1, HEADS, length, DEPTH), f32,
 * and its second result is the cache with one row more. Prints milliseconds of all steps, and
 * kilobytes that the process took at most.
 */
#include "tests/bench/timing.h"

#include <exg/exec.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(exg_status status, const exg_error *err)
{
    if (status != EXG_OK) {
        fprintf(stderr, "%s %s\n", err->code, err->message);
        exit(1);
    }
}

/* What getrusage() tells of a child goes back to before it was this program. */
static long kilobytes_at_most(void)
{
    FILE *status = fopen("/proc/self/status", "r");
    char line[128];
    long most = 0;

    while (status != NULL && most == 0 && fgets(line, sizeof(line), status) != NULL) {
        most = strncmp(line, "VmHWM:", 6) == 0 ? atol(line + 6) : 0;
    }
    if (status != NULL) {
        (void)fclose(status);
    }
    return most;
}

static exg_tensor filled(uint32_t rank, const int64_t *sizes)
{
    exg_tensor t = {.dtype = EXG_DTYPE_F32, .rank = rank};
    int64_t numel = 1;

    for (uint32_t d = 0; d < rank; d++) {
        t.sizes[d] = sizes[d];
        numel *= sizes[d];
    }
    exg_tensor_set_contiguous(&t);
    t.data = malloc((size_t)numel * sizeof(float));
    if (t.data == NULL) {
        exit(1);
    }
    for (int64_t i = 0; i < numel; i++) {
        ((float *)t.data)[i] = (float)(i % 97) / 97.0F - 0.5F;
    }
    return t;
}

int main(int argc, char **argv)
{
    const int64_t layers = argc == 6 ? atoll(argv[2]) : 0;
    const int64_t heads = argc == 6 ? atoll(argv[3]) : 0;
    const int64_t depth = argc == 6 ? atoll(argv[4]) : 0;
    const int64_t steps = argc == 6 ? atoll(argv[5]) : 0;
    exg_session_options options = {.size = sizeof(options), .thread_count = 1};
    exg_session_input inputs[2] = {{.name = "x"}, {.name = "cache"}};
    exg_operators *operators;
    exg_verified verified;
    exg_program *program;
    exg_session *session;
    exg_error err;
    double start;
    void *first;

    if (steps < 1) {
        fprintf(stderr, "usage: bench_growing_cache PROGRAM LAYERS HEADS DEPTH STEPS\n");
        return 2;
    }
    must(exg_operators_create(&operators, &err), &err);
    must(exg_open(argv[1], NULL, &program, NULL, &err), &err);
    must(exg_verify(program, operators, &verified, NULL, &err), &err);
    must(exg_session_create(&verified, &options, &session, &err), &err);
    inputs[0].tensor = filled(3, (const int64_t[]){1, 1, heads * depth});
    inputs[1].tensor = filled(5, (const int64_t[]){2 * layers, 1, heads, 1, depth});
    first = inputs[1].tensor.data;
    start = now_ns();
    for (int64_t k = 0; k < steps; k++) {
        must(exg_session_run(session, inputs, 2, &err), &err);
        inputs[1].tensor = exg_session_output_at(session, 1)->tensor; /* lent, and given back */
    }
    printf("%.1f %ld\n", (now_ns() - start) / 1e6, kilobytes_at_most());
    free(inputs[0].tensor.data);
    free(first);
    exg_session_destroy(session);
    exg_program_destroy(program);
    exg_operators_destroy(operators);
    return 0;
}
