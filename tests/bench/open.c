/* open.c - what it costs to open a program: 10,000 nodes, made here, as .exg; and
 * the fixtures' .pt2. Medians; nothing of the weights is read.
 */
#include "libexport/operators/emit.h"

#include <exg/exec.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NODES 10000
#define RUNS  31

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static void fail(const exg_error *err)
{
    fprintf(stderr, "%s %s\n", err->code, err->message);
    exit(1);
}

static exg_program *large(const exg_operators *operators)
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
    exg_builder *b;
    exg_ref y;
    exg_ref x;
    exg_argument out;
    exg_error err;

    if (exg_program_create(UINT64_MAX, &program, &err) != EXG_OK ||
        exg_builder_create(operators, program, &b, &err) != EXG_OK) {
        fail(&err);
    }
    x = y = exg_builder_input(b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    for (int i = 0; i < NODES; i += 4) {
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
    double open_ns[RUNS];
    double verify_ns[RUNS];
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

        if (exg_open(path, NULL, &program, NULL, &err) != EXG_OK) {
            fail(&err);
        }
        open_ns[i] = now_ns() - start;
        start = now_ns();
        if (exg_verify(program, operators, &verified, NULL, &err) != EXG_OK) {
            fail(&err);
        }
        verify_ns[i] = now_ns() - start;
        nodes = program->graph->node_count;
        exg_program_destroy(program);
    }
    qsort(open_ns, RUNS, sizeof(double), by_value);
    qsort(verify_ns, RUNS, sizeof(double), by_value);
    printf("%-40s %6u nodes %9lld bytes  open %8.3f ms  verify %8.3f ms\n", path, nodes,
           (long long)info.st_size, open_ns[RUNS / 2] * 1e-6, verify_ns[RUNS / 2] * 1e-6);
}

int main(void)
{
    char path[] = "/tmp/exg-bench-XXXXXX.exg";
    int file = mkstemps(path, 4);
    exg_operators *operators;
    exg_program *program;
    exg_error err;

    if (file < 0 || exg_operators_create(&operators, &err) != EXG_OK) {
        return 1;
    }
    close(file);
    program = large(operators);
    if (exg_save(program, path, EXG_FORMAT_EXG, NULL, &err) != EXG_OK) {
        fail(&err);
    }
    exg_program_destroy(program);
    time_open(path, operators);
    time_open("fixtures/lm.core.dynamic.pt2", operators);
    time_open("fixtures/lm.train-ir.static.pt2", operators);
    time_open("fixtures/mlp.pt2", operators);
    unlink(path);
    exg_operators_destroy(operators);
    return 0;
}
