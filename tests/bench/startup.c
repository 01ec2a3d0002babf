/* startup.c - what comparing checksums costs a program when it starts: opened, verified, planned
 * and run once, with the check and without it, in turns; from files in the page cache.
 *
 *   bench_startup [MIB [RUNS]]
 *
 * MIB of weights (1024) in matrices of 16 MiB, as .pt2 (CRC-32), as .exg (XXH3) and in zstd
 * frames, which are checked in any case. The least of RUNS (5) counts.
 */
#include "tests/bench/timing.h"

#include <exg/emit.h>
#include <exg/exec.h>
#include <exg/export.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SIDE  2048 /* of a matrix: 16 MiB of f32 */
#define ROWS  64   /* of the input: so many that weights are packed; and 1, where they are not */
#define FILES 3

static void must(exg_status status, const exg_error *err)
{
    if (status != EXG_OK) {
        printf("failed: %s %s %s\n", err->code, err->where, err->message);
        exit(1);
    }
}

/* x -> w x, over all weights. */
static void make(const exg_operators *operators, uint32_t count, const char *folder)
{
    static const char *const names[] = {"plain.pt2", "plain.exg", "zstd.exg"};
    const int64_t square[] = {SIDE, SIDE};
    exg_ref *weights = calloc(count, sizeof(*weights));
    float *values = malloc((size_t)SIDE * SIDE * sizeof(*values));
    exg_tensor_meta meta;
    exg_program *program;
    exg_argument out;
    exg_builder *b;
    exg_error err;
    exg_ref x;

    for (int r = 0; r < 2; r++) {
        const int64_t sizes[] = {r == 0 ? 1 : ROWS, SIDE};

        must(exg_program_create(NULL, UINT64_MAX, &program, &err), &err);
        must(exg_builder_create(operators, program, &b, &err), &err);
        meta = exg_builder_meta(b, EXG_DTYPE_F32, square, 2);
        for (uint32_t i = 0; i < count; i++) {
            char name[16];

            for (size_t k = 0; k < (size_t)SIDE * SIDE; k++) {
                values[k] = (float)((k * 2654435761u + i) % 8191) / 8191e3f;
            }
            snprintf(name, sizeof(name), "w%u", i);
            weights[i] = exg_builder_weight(b, name, &meta, EXG_INPUT_PARAMETER, values);
        }
        meta = exg_builder_meta(b, EXG_DTYPE_F32, sizes, 2);
        x = exg_builder_input(b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
        for (uint32_t i = 0; i < count; i++) {
            x = EMIT(b, linear_default, x, weights[i]);
        }
        out = exg_arg_ref(x);
        exg_builder_output(b, &out, EXG_OUTPUT_USER, NULL);
        must(exg_builder_finish(b, &err), &err);
        for (int n = 0; n < FILES; n++) {
            exg_save_options options = {.size = sizeof(options)};
            char path[300];

            options.compression = n == 2 ? EXG_COMPRESSION_ZSTD : EXG_COMPRESSION_NONE;
            snprintf(path, sizeof(path), "%s/%d-%s", folder, r, names[n]);
            must(exg_save(program, path, exg_format_from_path(path), &options, &err), &err);
        }
        exg_program_destroy(program);
    }
    free(values);
    free(weights);
}

/* Of all threads: what others on the machine take is no part of it. */
static double cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* From the file to the first result; nanoseconds by the clock, and of processors. */
static double start(const exg_operators *operators, const char *path, int64_t rows, bool no_check,
                    double *cpu)
{
    static float data[ROWS * SIDE];
    exg_session_options options = {.size = sizeof(options), .no_check = no_check};
    exg_session_input input = {
        .name = "x",
        .tensor = {.data = data, .dtype = EXG_DTYPE_F32, .rank = 2, .sizes = {rows, SIDE}}};
    double begin = now_ns();
    double cpu_begin = cpu_ns();
    exg_verified verified;
    exg_program *program;
    exg_session *session;
    exg_error err;
    double took;

    exg_tensor_set_contiguous(&input.tensor);
    must(exg_open(path, NULL, &program, NULL, &err), &err);
    must(exg_verify(program, operators, &verified, NULL, &err), &err);
    must(exg_session_create(&verified, &options, &session, &err), &err);
    must(exg_session_run(session, &input, 1, &err), &err);
    took = now_ns() - begin;
    *cpu = cpu_ns() - cpu_begin;
    exg_session_destroy(session);
    exg_program_destroy(program);
    return took;
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"0-plain.pt2", "0-plain.exg", "0-zstd.exg",
                                        "1-plain.pt2", "1-plain.exg", "1-zstd.exg"};
    uint32_t count = (argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1024u) / 16;
    int runs = argc > 2 ? atoi(argv[2]) : 5;
    char folder[] = "/tmp/exg-bench-XXXXXX";
    exg_operators *operators;
    exg_error err;

    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    must(exg_operators_create(&operators, &err), &err);
    make(operators, count, folder);
    printf("start of a program with %u MiB of weights, checked and not\n", count * 16);
    for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
        double least[2] = {1e30, 1e30};
        double least_cpu[2] = {1e30, 1e30};
        double cpu;
        char path[300];

        snprintf(path, sizeof(path), "%s/%s", folder, names[n]);
        (void)start(operators, path, n < FILES ? 1 : ROWS, true, &cpu); /* into the page cache */
        for (int r = 0; r < 2 * runs; r++) {
            double took = start(operators, path, n < FILES ? 1 : ROWS, r % 2 == 1, &cpu);

            least[r % 2] = took < least[r % 2] ? took : least[r % 2];
            least_cpu[r % 2] = cpu < least_cpu[r % 2] ? cpu : least_cpu[r % 2];
        }
        printf("  %2d rows, %-9s  %7.1f ms, %7.1f ms without: %.2f times (of processor time "
               "%.1f and %.1f ms: %.2f)\n",
               n < FILES ? 1 : ROWS, names[n] + 2, least[0] / 1e6, least[1] / 1e6,
               least[0] / least[1], least_cpu[0] / 1e6, least_cpu[1] / 1e6,
               least_cpu[0] / least_cpu[1]);
        unlink(path);
    }
    exg_operators_destroy(operators);
    return rmdir(folder);
}
