/* comm.c - what ranks that are threads cost: all-reduces between two, beside the memory they
 * cannot do without; a model in parts as planned (each collective one step) beside the same with
 * collectives parted into a beginning and an end; two ranks of one thread beside one rank of
 * two. Medians of interleaved runs.
 *
 *   bench_comm [reduce | model]
 */
#include "libexec/comm/collectives.h"
#include "libexec/comm/team.h"
#include "tests/bench/timing.h"

#include <exg/emit.h>
#include <exg/exec.h>
#include <stdio.h>
#include <string.h>

#define RANKS 2
#define RUNS  41

/* ---- all-reduce --------------------------------------------------------------------------- */

typedef struct reduction {
    exg_communicator *ranks[RANKS];
    exg_tensor in[RANKS], out[RANKS];
    exg_collective what[RANKS];
    void *workspaces[RANKS];
    int loops;
} reduction;

static void reduce(void *context, uint32_t r)
{
    reduction *x = context;

    for (int i = 0; i < x->loops; i++) {
        (void)exg_collective_run(x->ranks[r], &x->what[r], x->workspaces[r], NULL);
    }
}

/* What no sum can do without, on as many threads: out = in + in, elements read and written. */
static void touch(void *context, uint32_t r)
{
    reduction *x = context;
    const float *a = x->in[r].data;
    const float *b = x->in[(r + 1) % RANKS].data;
    float *out = x->out[r].data;

    for (int i = 0; i < x->loops; i++) {
        for (int64_t e = 0; e < x->in[r].sizes[0]; e++) {
            out[e] = a[e] + b[e];
        }
    }
}

static double time_team(exg_team *team, void (*work)(void *, uint32_t), reduction *x)
{
    double start = now_ns();

    exg_team_run(team, work, x);
    return (now_ns() - start) / x->loops;
}

static void bench_reduce(exg_team *team, uint64_t bytes)
{
    static double ours[RUNS], bound[RUNS];
    reduction x = {.loops = bytes <= 65536 ? 2000 : bytes <= (1 << 20) ? 50 : 1};
    int runs = bytes > (1 << 20) ? 31 : RUNS;
    double sum;
    double triad;

    if (exg_local_create(RANKS, x.ranks, NULL) != EXG_OK) {
        exit(1);
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        x.in[r] = x.out[r] = (exg_tensor){.dtype = EXG_DTYPE_F32,
                                          .rank = 1,
                                          .strides = {1},
                                          .sizes = {(int64_t)(bytes / sizeof(float))}};
        x.in[r].data = calloc(1, bytes);
        x.out[r].data = calloc(1, bytes);
        memset(x.in[r].data, 1, bytes); /* no page of zeros that all share */
        memset(x.out[r].data, 1, bytes);
        x.what[r] = (exg_collective){.kind = EXG_ALL_REDUCE, .in = &x.in[r], .out = &x.out[r]};
        x.workspaces[r] = malloc(exg_collective_workspace(x.ranks[r], &x.what[r]) + 1);
    }
    for (int i = 0; i < runs; i++) {
        ours[i] = time_team(team, reduce, &x);
        bound[i] = time_team(team, touch, &x);
    }
    sum = median(ours, runs);
    triad = median(bound, runs) * 2 / 3; /* reads its own, writes its own: 2 of 3 arrays */
    printf("all-reduce of %8llu bytes, 2 threads: %10.0f ns", (unsigned long long)bytes, sum);
    if (bytes > (1 << 20)) {
        printf(", %.2f of the memory's bound (%.0f ns), of the shortest %.2f", triad / sum, triad,
               bound[0] * 2 / 3 / ours[0]);
    }
    printf("\n");
    for (uint32_t r = 0; r < RANKS; r++) {
        free(x.in[r].data);
        free(x.out[r].data);
        free(x.workspaces[r]);
        exg_communicator_close(x.ranks[r]);
    }
}

/* ---- a model in parts --------------------------------------------------------------------- */

#define WIDTH  768
#define LAYERS 6

static exg_program *model(const exg_operators *operators, int64_t rows)
{
    static float weights[2 * LAYERS][4 * WIDTH * WIDTH];
    exg_program *program;
    exg_builder *b;
    exg_tensor_meta meta;
    exg_argument y;
    exg_ref x;

    if (exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &program, NULL) != EXG_OK ||
        exg_builder_create(operators, program, &b, NULL) != EXG_OK) {
        exit(1);
    }
    meta = exg_builder_meta(b, EXG_DTYPE_F32, (int64_t[]){rows, WIDTH}, 2);
    exg_ref w[2 * LAYERS];

    for (int i = 0; i < 2 * LAYERS; i++) {
        int64_t sizes[2] = {i % 2 == 0 ? 4 * WIDTH : WIDTH, i % 2 == 0 ? WIDTH : 4 * WIDTH};
        exg_tensor_meta of = exg_builder_meta(b, EXG_DTYPE_F32, sizes, 2);
        char name[16];

        for (int e = 0; e < 4 * WIDTH * WIDTH; e++) {
            weights[i][e] = (float)((e % 1009 * 7919 + i) % 1009) * 1e-4f - 0.05f;
        }
        snprintf(name, sizeof(name), "w%d", i);
        w[i] = exg_builder_weight(b, name, &of, EXG_INPUT_PARAMETER, weights[i]);
    }
    x = exg_builder_input(b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    for (int i = 0; i < LAYERS; i++) {
        x = EMIT(b, add_Tensor, x,
                 EMIT(b, linear_default,
                      EMIT(b, relu_default, EMIT(b, linear_default, x, w[2 * i])), w[2 * i + 1]));
    }
    y = exg_arg_ref(x);
    exg_builder_output(b, &y, EXG_OUTPUT_USER, NULL);
    if (exg_builder_finish(b, NULL) != EXG_OK) {
        exit(1);
    }
    return program;
}

static exg_session *open_model(const exg_verified *verified, uint32_t ranks,
                               exg_partition_mode mode, exg_overlap overlap, uint32_t threads)
{
    exg_session_options options = {.size = sizeof(options), .thread_count = threads};
    exg_session *session;
    exg_error err;

    options.mesh = ranks > 1 ? (exg_mesh_shape){1, {ranks}, {NULL}} : options.mesh;
    options.partition =
        &(exg_partition_options){.size = sizeof(exg_partition_options), .mode = mode};
    options.plan = &(exg_plan_options){.size = sizeof(exg_plan_options), .overlap = overlap};
    if (exg_session_create(verified, &options, &session, &err) != EXG_OK) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    return session;
}

static double time_session(exg_session *session, exg_tensor *x)
{
    exg_session_input input = {.name = "x", .tensor = *x};
    exg_error err;
    double start = now_ns();

    if (exg_session_run(session, &input, 1, &err) != EXG_OK) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    return now_ns() - start;
}

/* b against a; of both the first run is not counted. */
static void compare(const char *what, int64_t rows, exg_session *a, exg_session *b)
{
    static double times[2][RUNS];
    static double ratios[RUNS]; /* of runs beside each other, which one noise disturbs alike */
    exg_tensor x = {.dtype = EXG_DTYPE_F32,
                    .rank = 2,
                    .sizes = {rows, WIDTH},
                    .strides = {WIDTH, 1},
                    .data = calloc((size_t)rows * WIDTH, sizeof(float))};

    (void)time_session(a, &x);
    (void)time_session(b, &x);
    for (int i = 0; i < RUNS; i++) { /* each is first as often */
        exg_session *first = i % 2 == 0 ? a : b;
        exg_session *second = i % 2 == 0 ? b : a;

        times[i % 2][i] = time_session(first, &x);
        times[(i + 1) % 2][i] = time_session(second, &x);
    }
    for (int i = 0; i < RUNS; i++) {
        ratios[i] = times[0][i] / times[1][i];
    }
    printf("%-52s %4lld rows: %8.0f us, %8.0f us: %.3f\n", what, (long long)rows,
           median(times[0], RUNS) / 1e3, median(times[1], RUNS) / 1e3, median(ratios, RUNS));
    free(x.data);
    exg_session_destroy(a);
    exg_session_destroy(b);
}

static void bench_model(const exg_operators *operators, int64_t rows)
{
    exg_program *program = model(operators, rows);
    exg_verified verified;
    exg_error err;

    if (exg_verify(program, operators, &verified, NULL, &err) != EXG_OK) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    compare("fsdp over 2 threads, as planned against parted", rows,
            open_model(&verified, 2, EXG_PARTITION_FSDP, EXG_OVERLAP_AUTO, 1),
            open_model(&verified, 2, EXG_PARTITION_FSDP, EXG_OVERLAP_ON, 1));
    compare("tensor over 2 threads, as planned against parted", rows,
            open_model(&verified, 2, EXG_PARTITION_TENSOR, EXG_OVERLAP_AUTO, 1),
            open_model(&verified, 2, EXG_PARTITION_TENSOR, EXG_OVERLAP_ON, 1));
    compare("2 ranks of 1 thread (tensor) against 1 rank of 2", rows,
            open_model(&verified, 2, EXG_PARTITION_TENSOR, EXG_OVERLAP_AUTO, 1),
            open_model(&verified, 1, EXG_PARTITION_REPLICATE, EXG_OVERLAP_AUTO, 2));
    exg_program_destroy(program);
}

int main(int argc, char **argv)
{
    bool all = argc < 2;
    static const uint64_t sizes[] = {8, 1024, 65536, 1 << 20, 64 << 20};
    exg_operators *operators;
    exg_team *team;

    if (exg_operators_create(&operators, NULL) != EXG_OK ||
        exg_team_create(RANKS, &team, NULL) != EXG_OK) {
        return 1;
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        if (all || strcmp(argv[1], "reduce") == 0) {
            bench_reduce(team, sizes[i]);
        }
    }
    exg_team_destroy(team);
    if (all || strcmp(argv[1], "model") == 0) {
        bench_model(operators, 1);
        bench_model(operators, 256);
    }
    exg_operators_destroy(operators);
    return 0;
}
