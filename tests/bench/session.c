/* session.c - what a session costs beside its kernels.
 *
 *   a chain of 1,000 additions on tensors of one element: time per node of a run,
 *   fused and unfused, beside 1,000 additions through function pointers, the least
 *   that a call per node can cost. Medians of interleaved runs.
 */
#include "tests/bench/timing.h"

#include <exg/emit.h>

#include <exg/exec.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES 1000
#define RUNS  301

static exg_program *chain(const exg_operators *operators)
{
    exg_sym_int one = exg_sym_int_of(1);
    exg_tensor_meta meta = {.dtype = EXG_DTYPE_F32,
                            .layout = EXG_LAYOUT_STRIDED,
                            .rank = 1,
                            .sizes = &one,
                            .strides = &one,
                            .device = {"cpu", -1}};
    exg_program *program;
    exg_builder *b;
    exg_ref x;
    exg_ref y;
    exg_argument out;
    exg_error err;

    if (exg_program_create(NULL, UINT64_MAX, &program, &err) != EXG_OK ||
        exg_builder_create(operators, program, &b, &err) != EXG_OK) {
        exit(1);
    }
    x = exg_builder_input(b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    y = x;
    for (int i = 0; i < NODES; i++) {
        y = EMIT(b, add_Tensor, y, x);
    }
    out = exg_arg_ref(y);
    exg_builder_output(b, &out, EXG_OUTPUT_USER, NULL);
    if (exg_builder_finish(b, &err) != EXG_OK) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    return program;
}

static exg_session *open_session(const exg_verified *verified, bool fused)
{
    exg_session_options options = {.size = sizeof(options), .thread_count = 1};
    exg_session *session;
    exg_error err;

    options.plan = &(exg_plan_options){.size = sizeof(exg_plan_options), .no_fusion = !fused};
    if (exg_session_create(verified, &options, &session, &err) != EXG_OK) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    return session;
}

static void add_one(float *y, const float *a, const float *b)
{
    *y = *a + *b;
}

int main(void)
{
    static double fused[RUNS];
    static double unfused[RUNS];
    static double floor_ns[RUNS];
    exg_operators *operators;
    exg_verified verified;
    exg_session *sessions[2];
    exg_error err;
    float value = 1;
    exg_session_input input = {
        .name = "x",
        .tensor = {
            .data = &value, .dtype = EXG_DTYPE_F32, .rank = 1, .sizes = {1}, .strides = {1}}};
    exg_program *program;
    void (*volatile call)(float *, const float *, const float *) = add_one;

    if (exg_operators_create(&operators, &err) != EXG_OK) {
        return 1;
    }
    program = chain(operators);
    if (exg_verify(program, operators, &verified, NULL, &err) != EXG_OK) {
        fprintf(stderr, "%s %s\n", err.code, err.message);
        return 1;
    }
    sessions[0] = open_session(&verified, true);
    sessions[1] = open_session(&verified, false);
    for (int i = 0; i < RUNS; i++) {
        double start = now_ns();
        float y = value;

        for (int n = 0; n < NODES; n++) {
            call(&y, &y, &value);
        }
        floor_ns[i] = now_ns() - start;
        for (int s = 0; s < 2; s++) {
            start = now_ns();
            if (exg_session_run(sessions[s], &input, 1, &err) != EXG_OK) {
                return 1;
            }
            (s == 0 ? fused : unfused)[i] = now_ns() - start;
        }
    }
    printf("chain of %d additions, ns a node: session %.1f, unfused %.1f, bare calls %.1f\n", NODES,
           median(fused, RUNS) / NODES, median(unfused, RUNS) / NODES,
           median(floor_ns, RUNS) / NODES);
    exg_session_destroy(sessions[0]);
    exg_session_destroy(sessions[1]);
    exg_program_destroy(program);
    exg_operators_destroy(operators);
    return 0;
}
