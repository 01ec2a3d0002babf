/* open.c - what it costs to open and to verify a program: ten thousand to a million
 * nodes, made here, as .exg (a million only with an argument); and the fixtures'
 * .pt2. The least of the runs; nothing of the weights is read.
 */
#include "tests/bench/timing.h"

#include <exg/emit.h>

#include <exg/exec.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RUNS 15

static void fail(const exg_error *err)
{
    fprintf(stderr, "%s %s\n", err->code, err->message);
    exit(1);
}

static exg_program *large(const exg_operators *operators, uint32_t nodes)
{
    exg_sym_int sizes[2] = {exg_sym_int_of(8), exg_sym_int_of(8)};
    exg_sym_int strides[2] = {exg_sym_int_of(8), exg_sym_int_of(1)};
    exg_tensor_meta meta = {.dtype = EXG_DTYPE_F32,
                            .layout = EXG_LAYOUT_STRIDED,
                            .rank = 2,
                            .sizes = sizes,
                            .strides = strides,
                            .device = {"cpu", -1}};
    exg_program *program;
    exg_builder *b = NULL;
    exg_ref y;
    exg_ref x;
    exg_argument out;
    exg_error err;

    if (exg_program_create(NULL, UINT64_MAX, &program, &err) != EXG_OK ||
        exg_builder_create(operators, program, &b, &err) != EXG_OK) {
        fail(&err);
    }
    x = y = exg_builder_input(b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    for (uint32_t i = 0; i < nodes; i += 4) {
        y = EMIT(b, mm_default, y, x);
        y = EMIT(b, add_Tensor, y, x);
        y = EMIT(b, permute_default, y, INTS(b, 1, 0));
        y = EMIT(b, relu_default, y);
    }
    out = exg_arg_ref(y);
    exg_builder_output(b, &out, EXG_OUTPUT_USER, NULL);
    if (exg_builder_finish(b, &err) != EXG_OK) {
        fail(&err);
    }
    return program;
}

static void time_open(const char *path, const exg_operators *operators)
{
    double open_ns = 1e18;
    double verify_ns = 1e18;
    uint32_t nodes = 0;
    struct stat info;

    if (stat(path, &info) != 0) {
        return;
    }
    for (int i = 0; i < RUNS; i++) {
        exg_program *program;
        exg_verified verified;
        exg_error err;
        double start = now_ns();
        double middle;
        double end;

        if (exg_open(path, NULL, &program, NULL, &err) != EXG_OK) {
            fail(&err);
        }
        middle = now_ns();
        if (exg_verify(program, operators, &verified, NULL, &err) != EXG_OK) {
            fail(&err);
        }
        end = now_ns();
        open_ns = middle - start < open_ns ? middle - start : open_ns;
        verify_ns = end - middle < verify_ns ? end - middle : verify_ns;
        nodes = program->graph->node_count;
        exg_program_destroy(program);
    }
    printf("%-34s %8u nodes %10lld bytes  open %9.3f ms  verify %9.3f ms  %5.0f ns a node\n", path,
           nodes, (long long)info.st_size, open_ns * 1e-6, verify_ns * 1e-6,
           (open_ns + verify_ns) / nodes);
}

static void time_large(const exg_operators *operators, uint32_t nodes)
{
    char path[] = "/tmp/exg-bench-XXXXXX.exg";
    int file = mkstemps(path, 4);
    exg_program *program = large(operators, nodes);
    exg_error err;

    if (file < 0) {
        return;
    }
    close(file);
    if (exg_save(program, path, EXG_FORMAT_EXG, NULL, &err) != EXG_OK) {
        fail(&err);
    }
    exg_program_destroy(program);
    time_open(path, operators);
    unlink(path);
}

int main(int argc, char **argv)
{
    exg_operators *operators;

    (void)argv;
    if (exg_operators_create(&operators, NULL) != EXG_OK) {
        return 1;
    }
    time_large(operators, 10000);
    time_large(operators, 100000);
    if (argc > 1) {
        time_large(operators, 1000000);
    }
    time_open("fixtures/lm.core.dynamic.pt2", operators);
    time_open("fixtures/lm.train-ir.static.pt2", operators);
    time_open("fixtures/mlp.pt2", operators);
    exg_operators_destroy(operators);
    return 0;
}
