/* dispatch.c - what one operator on a DTensor costs.
 *
 *   dispatch        cached: per operator and rank, tensors of one element, no moves; add, relu,
 *                   view, add_, mm of 4x4, and a layer norm (made of none) beside them; then a
 *                   miss: what the first call of new sizes takes longer than the next of
 *                   them. Fastest round and median.
 *   dispatch N      on N ranks (threads), all working at once; default 1 and 2
 *
 * Beside PyTorch's DTensor: tests/bench/dispatch.py.
 */
#include "tests/bench/timing.h"

#include <exg/exec.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLS  2000
#define ROUNDS 31
#define MISSES 200

typedef struct worker {
    exg_device_mesh *mesh;
    const exg_operators *operators;
    exg_dispatcher *d;
    double cached[6], miss[6];
} worker;

static const char *const names[6] = {"add.Tensor",  "relu", "view",
                                     "add_.Tensor", "mm",   "native_layer_norm"};

static exg_dtensor *zeros(const worker *w, int64_t rows, int64_t columns, exg_placement placement)
{
    const int64_t sizes[2] = {rows, columns};
    exg_dtensor_like like = {.size = sizeof(like),
                             .dtype = EXG_DTYPE_F32,
                             .rank = 2,
                             .sizes = sizes,
                             .placements = &placement,
                             .placement_count = 1};
    exg_dtensor *t = NULL;

    if (exg_dtensor_zeros(w->mesh, &like, &t, NULL) != EXG_OK) {
        exit(1);
    }
    return t;
}

/* Operator `which` on tensors of `rows` rows. */
static void call(const worker *w, int which, exg_dtensor *x, exg_dtensor *y, int64_t rows)
{
    static const char *const keys[6] = {"aten.add.Tensor",   "aten.relu.default",
                                        "aten.view.default", "aten.add_.Tensor",
                                        "aten.mm.default",   "aten.native_layer_norm.default"};
    int64_t sizes[2] = {rows, 4}, normalized[1] = {4};
    exg_argument ints = {.kind = EXG_ARGUMENT_INTS, .count = 2, .as_ints = sizes};
    exg_argument shape = {.kind = EXG_ARGUMENT_INTS, .count = 1, .as_ints = normalized};
    exg_object args[5] = {exg_object_dtensor(x), exg_object_dtensor(y)};
    static const uint32_t counts[6] = {2, 1, 2, 2, 2, 5};
    exg_object result;
    exg_error err;

    if (which == 2) {
        args[1] = exg_object_value(ints);
    }
    if (which == 5) {
        args[1] = exg_object_value(shape);
        args[2] = args[3] = exg_object_none();
        args[4] = exg_object_value(exg_arg_float(1e-5));
    }
    if (exg_dispatch(w->d, keys[which], args, counts[which], NULL, 0, &result, &err) != EXG_OK) {
        fprintf(stderr, "%s: %s\n", keys[which], err.message);
        exit(1);
    }
    if (which != 3) {
        exg_object_clear(&result, true);
    }
}

static void measure_cached(worker *w, int which)
{
    exg_dtensor *x = zeros(w, 4, 4, exg_shard(0));
    exg_dtensor *y = zeros(w, 4, 4, which == 4 ? exg_replicate() : exg_shard(0));
    double times[ROUNDS];

    for (int r = 0; r < ROUNDS; r++) {
        double start = now_ns();

        for (int i = 0; i < CALLS; i++) {
            call(w, which, x, y, 4);
        }
        times[r] = (now_ns() - start) / CALLS;
    }
    qsort(times, ROUNDS, sizeof(*times), by_value);
    w->cached[which] = times[0];
    exg_dtensor_destroy(x);
    exg_dtensor_destroy(y);
}

static void measure_miss(worker *w, int which)
{
    double times[MISSES];

    for (int i = 0; i < MISSES; i++) {
        int64_t rows = 4 * (i + 2);
        exg_dtensor *x = zeros(w, rows, 4, exg_shard(0));
        exg_dtensor *y =
            zeros(w, which == 4 ? 4 : rows, 4, which == 4 ? exg_replicate() : exg_shard(0));
        double start = now_ns();

        call(w, which, x, y, rows);
        double again = now_ns();

        call(w, which, x, y, rows);
        times[i] = (again - start) - (now_ns() - again);
        exg_dtensor_destroy(x);
        exg_dtensor_destroy(y);
    }
    w->miss[which] = median(times, MISSES);
}

static void *work(void *argument)
{
    worker *w = argument;

    if (exg_dispatcher_create(w->operators, NULL, &w->d, NULL) != EXG_OK) {
        exit(1);
    }
    for (int which = 0; which < 6; which++) {
        measure_cached(w, which);
        measure_miss(w, which);
    }
    exg_dispatcher_destroy(w->d);
    return NULL;
}

static void run(const exg_operators *operators, uint32_t ranks)
{
    exg_mesh_shape shape = {1, {ranks}, {NULL}};
    exg_device_mesh *meshes[16];
    pthread_t threads[16];
    worker workers[16] = {{0}};

    if (exg_local_mesh_create(&shape, meshes, NULL) != EXG_OK) {
        exit(1);
    }
    for (uint32_t r = 0; r < ranks; r++) {
        workers[r] = (worker){.mesh = meshes[r], .operators = operators};
        pthread_create(&threads[r], NULL, work, &workers[r]);
    }
    for (uint32_t r = 0; r < ranks; r++) {
        pthread_join(threads[r], NULL);
        exg_device_mesh_destroy(meshes[r]);
    }
    for (int which = 0; which < 6; which++) {
        printf("%u rank%s  %-18s  cached %7.0f ns   miss %8.1f us\n", ranks, ranks > 1 ? "s" : " ",
               names[which], workers[0].cached[which], workers[0].miss[which] / 1000);
    }
}

int main(int argc, char **argv)
{
    exg_operators *operators;

    if (exg_operators_create(&operators, NULL) != EXG_OK) {
        return 1;
    }
    if (argc > 1) {
        run(operators, (uint32_t)strtoul(argv[1], NULL, 10) % 16);
    } else {
        run(operators, 1);
        run(operators, 2);
    }
    exg_operators_destroy(operators);
    return 0;
}
