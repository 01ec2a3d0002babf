/* A mesh whose ranks have inputs and outputs in memory of their own: whole ones, and parts. The
 * same calls on the host, the strict device and CUDA's stand-in, whose notes say what crosses the
 * bus.
 */
#include "libexec/device/device.h"
#include "tests/exec/cuda/calls.h"

#include <dlfcn.h>
#include <exg/emit.h>
#include <exg/exec.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define F32       EXG_DTYPE_F32
#define ROWS      23 /* of which no mesh has equal parts */
#define WIDTH     10
#define CACHE     (ROWS * WIDTH)
#define STEPS     4
#define RANKS_MAX 4

static const char *device; /* NULL: the host */

/* By mpirun, of four, rather than threads. */
static bool are_processes(void)
{
    return getenv("EXG_TEST_PROCESSES") != NULL;
}

static exg_mesh_shape line(void)
{
    return (exg_mesh_shape){1, {are_processes() ? 4 : 3}};
}

typedef struct made {
    exg_operators *operators;
    exg_program *program;
    exg_session *session;
    exg_mesh_shape mesh;
    uint32_t ranks;      /* of the mesh, */
    uint32_t first, end; /* and those that run here */
    exg_partition_pattern patterns[2];
    exg_error err;
} made;

/* (x, cache) -> (sum over rows of (cache + x) * x and cache, cache + x); or, of one that writes the
 * cache in place, the first alone */
static void make_program(made *m, bool writes)
{
    exg_builder *b;
    exg_tensor_meta meta;
    exg_ref x, cache, sum, rows;
    exg_argument y;

    assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &m->program, NULL), EXG_OK);
    assert_int_equal(exg_builder_create(m->operators, m->program, &b, NULL), EXG_OK);
    meta = exg_builder_meta(b, F32, (int64_t[]){1, WIDTH}, 2);
    x = exg_builder_input(b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    meta = exg_builder_meta(b, F32, (int64_t[]){ROWS, WIDTH}, 2);
    cache = exg_builder_input(b, "cache", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    sum = EMIT(b, add_Tensor, cache, x);
    y = exg_arg_ref(sum);
    if (writes) {
        exg_builder_output(b, &y, EXG_OUTPUT_USER_INPUT_MUTATION, "cache");
    }
    rows = EMIT(b, sum_dim_IntList, EMIT(b, mul_Tensor, sum, x), INTS(b, 0));
    y = exg_arg_ref(EMIT(b, add_Tensor, rows, EMIT(b, sum_dim_IntList, cache, INTS(b, 0))));
    exg_builder_output(b, &y, EXG_OUTPUT_USER, NULL);
    if (!writes) {
        y = exg_arg_ref(sum);
        exg_builder_output(b, &y, EXG_OUTPUT_USER, NULL);
    }
    expect_ok(exg_builder_finish(b, &m->err), &m->err);
}

/* `places`: of the cache along each mesh dim. */
static void open_session(made *m, bool writes, exg_mesh_shape mesh, const exg_placement *places,
                         bool parts)
{
    exg_session_options options = {.size = sizeof(options),
                                   .device = device,
                                   .mesh = mesh,
                                   .local_parts = parts,
                                   .processes = are_processes(),
                                   .thread_count = 1};
    exg_partition_options placing[2] = {{0}};
    exg_verified verified;

    memset(m, 0, sizeof(*m));
    m->mesh = mesh;
    m->ranks = 1;
    for (uint32_t d = 0; d < mesh.ndim; d++) {
        m->patterns[d] = (exg_partition_pattern){"cache", places[d], EXG_PARTITION_INPUTS, NULL};
        placing[d] = (exg_partition_options){.size = sizeof(placing[d]),
                                             .mode = EXG_PARTITION_PATTERNS,
                                             .patterns = &m->patterns[d],
                                             .pattern_count = 1};
        m->ranks *= mesh.sizes[d];
    }
    options.partition = placing;
    expect_ok(exg_operators_create(&m->operators, &m->err), &m->err);
    make_program(m, writes);
    expect_ok(exg_verify(m->program, m->operators, &verified, NULL, &m->err), &m->err);
    expect_ok(exg_session_create(&verified, &options, &m->session, &m->err), &m->err);
    m->first = exg_session_first_rank(m->session);
    m->end = m->first + exg_session_rank_count(m->session);
}

static void close_session(made *m)
{
    exg_session_destroy(m->session);
    exg_program_destroy(m->program);
    exg_operators_destroy(m->operators);
}

/* ---- what is given and expected -------------------------------------------------------------- */

static float x_of(int step, int64_t i)
{
    return (float)(step + 1) * 0.25f + (float)(i % 5);
}

static float cache_after(int steps, int64_t at)
{
    float value = (float)(at % 11);

    for (int step = 0; step < steps; step++) {
        value += x_of(step, at % WIDTH);
    }
    return value;
}

static exg_session_input tensor_input(const char *name, void *data, int64_t first, int64_t second)
{
    exg_session_input input = {.name = name};

    input.tensor = (exg_tensor){.data = data, .dtype = F32, .rank = 2, .sizes = {first, second}};
    exg_tensor_set_contiguous(&input.tensor);
    return input;
}

static exg_session_input x_input(float *x, int step)
{
    for (int i = 0; i < WIDTH; i++) {
        x[i] = x_of(step, i);
    }
    return tensor_input("x", x, 1, WIDTH);
}

/* Element `at` of output 0 after step `step`. */
static float result_of(int step, int64_t at)
{
    float sum = 0;

    for (int row = 0; row < ROWS; row++) {
        sum += cache_after(step + 1, row * WIDTH + at) * x_of(step, at) +
               cache_after(step, row * WIDTH + at);
    }
    return sum;
}

/* A rank's box of a matrix that lies so. */
typedef struct box {
    int64_t offsets[2], sizes[2];
    void *data; /* of the rank's device */
} box;

static box box_of(const made *m, uint32_t rank, const exg_placement *places, int64_t rows)
{
    box b = {{0, 0}, {rows, WIDTH}, NULL};
    uint32_t behind = m->ranks;

    for (uint32_t d = 0; d < m->mesh.ndim && places != NULL; d++) {
        uint32_t n = m->mesh.sizes[d];
        int64_t offset, size;

        behind /= n;
        if (places[d].kind == EXG_SHARD) {
            exg_chunk(b.sizes[places[d].dim], n, rank / behind % n, &offset, &size);
            b.offsets[places[d].dim] += offset;
            b.sizes[places[d].dim] = size;
        }
    }
    return b;
}

static void copy_cache(const made *m, const box *b, int steps, bool in)
{
    uint64_t bytes = (uint64_t)(b->sizes[0] * b->sizes[1]) * sizeof(float);
    float values[CACHE];

    if (!in) {
        expect_ok(exg_session_copy_out(m->session, values, b->data, bytes, (exg_error *)&m->err),
                  &m->err);
    }
    for (int64_t r = 0; r < b->sizes[0]; r++) {
        for (int64_t c = 0; c < b->sizes[1]; c++) {
            float *value = &values[r * b->sizes[1] + c];
            float wanted = cache_after(steps, (b->offsets[0] + r) * WIDTH + b->offsets[1] + c);

            if (in) {
                *value = wanted;
            } else {
                assert_float_equal(*value, wanted, 1e-3);
            }
        }
    }
    if (in) {
        expect_ok(exg_session_copy_in(m->session, b->data, values, bytes, (exg_error *)&m->err),
                  &m->err);
    }
}

/* Each rank's part of the cache, in its memory, bound to it as input and (`output` < 2) output. */
static void bind_caches(made *m, const exg_placement *places, uint32_t output, box *boxes)
{
    exg_session_input whole = tensor_input("cache", NULL, ROWS, WIDTH);

    expect_ok(exg_session_bind_input(m->session, &whole, &m->err), &m->err);
    for (uint32_t r = m->first; r < m->end; r++) {
        exg_output_binding place = {.size = sizeof(place), .on_device = true};
        exg_session_input part;

        boxes[r] = box_of(m, r, places, ROWS);
        place.bytes = (uint64_t)(boxes[r].sizes[0] * boxes[r].sizes[1]) * sizeof(float);
        expect_ok(exg_session_rank_allocate(m->session, r, place.bytes, &boxes[r].data, &m->err),
                  &m->err);
        copy_cache(m, &boxes[r], 0, true);
        part = tensor_input("cache", boxes[r].data, boxes[r].sizes[0], boxes[r].sizes[1]);
        part.on_device = true;
        place.data = boxes[r].data;
        expect_ok(exg_session_bind_rank_input(m->session, r, &part, &m->err), &m->err);
        if (output < 2) {
            expect_ok(exg_session_bind_rank_output(m->session, r, output, &place, &m->err),
                      &m->err);
        }
    }
}

/* Output 0 of every rank, whole or its part. */
static void expect_results(const made *m, int step)
{
    const exg_placement *places = exg_session_output_placements(m->session, 0);

    for (uint32_t r = m->first; r < m->end; r++) {
        const exg_tensor *got = &exg_session_rank_output_at(m->session, r, 0)->tensor;
        int64_t offset = 0;
        int64_t size = WIDTH;
        uint32_t behind = m->ranks;

        for (uint32_t d = 0; places != NULL && d < m->mesh.ndim; d++) {
            int64_t begins;

            behind /= m->mesh.sizes[d];
            if (places[d].kind == EXG_SHARD) {
                exg_chunk(size, m->mesh.sizes[d], r / behind % m->mesh.sizes[d], &begins, &size);
                offset += begins;
            }
        }
        assert_int_equal(got->rank, 1);
        assert_int_equal(got->sizes[0], size);
        for (int64_t i = 0; i < size; i++) {
            assert_float_equal(((const float *)got->data)[i], result_of(step, offset + i), 0.05);
        }
    }
}

static uint64_t bytes_of(const char *kind)
{
    char *text = calls_among((const char *const[]){kind, NULL});
    uint64_t bytes = 0;

    for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
        bytes += strtoull(line + strlen(kind), NULL, 10);
    }
    free(text);
    return bytes;
}

static bool is_noted(void)
{
    return device != NULL && strcmp(device, "cuda") == 0 && is_standin() && !are_processes();
}

/* ---- in place -------------------------------------------------------------------------------- */

/* The cache of each rank is brought up to date where it lies: as an output of the program that is
 * bound there, or because the program writes it. */
static void step_in_place(bool writes, exg_mesh_shape mesh, const exg_placement *places, bool parts)
{
    float x[WIDTH];
    box boxes[RANKS_MAX];
    made m;

    open_session(&m, writes, mesh, places, parts);
    bind_caches(&m, parts ? places : NULL, writes ? 2 : 1, boxes);
    for (int step = 0; step < STEPS; step++) {
        exg_session_input input = x_input(x, step);

        if (step == STEPS - 1 && is_noted()) {
            keep_calls();
        }
        expect_ok(exg_session_run(m.session, &input, 1, &m.err), &m.err);
        expect_results(&m, step);
        for (uint32_t r = m.first; r < m.end && !writes; r++) {
            assert_ptr_equal(exg_session_rank_output_at(m.session, r, 1)->tensor.data,
                             boxes[r].data);
        }
    }
    if (is_noted()) { /* x goes up, the sums come down, with notes of faults */
        assert_int_equal(bytes_of("cuMemcpyHtoDAsync "), m.ranks * WIDTH * sizeof(float));
        assert_in_range(bytes_of("cuMemcpyDtoHAsync "), WIDTH * sizeof(float), m.ranks * 400);
        drop_calls();
    }
    if (parts) {
        const exg_placement *lie = exg_session_input_placements(m.session, "cache");

        for (uint32_t d = 0; d < mesh.ndim; d++) {
            assert_true(exg_placement_equal(lie[d], places[d]));
        }
    } else {
        assert_null(exg_session_input_placements(m.session, "cache"));
    }
    for (uint32_t r = m.first; r < m.end; r++) {
        copy_cache(&m, &boxes[r], STEPS, false);
        exg_session_free(m.session, boxes[r].data);
    }
    close_session(&m);
}

static void ranks_have_their_parts(void **state)
{
    const exg_mesh_shape grid = {2, {2, 2}};

    (void)state;
    for (int writes = 0; writes < 2; writes++) {
        for (int32_t dim = 0; dim < 2; dim++) {
            step_in_place(writes, line(), (exg_placement[]){exg_shard(dim)}, true);
            step_in_place(writes, grid, (exg_placement[]){exg_shard(dim), exg_shard(1 - dim)},
                          true);
            step_in_place(writes, grid, (exg_placement[]){exg_shard(dim), exg_shard(dim)}, true);
            step_in_place(writes, grid, (exg_placement[]){exg_shard(dim), exg_replicate()}, true);
        }
    }
}

static void ranks_have_all_of_it(void **state)
{

    (void)state;
    step_in_place(false, line(), (exg_placement[]){exg_shard(0)}, false);
    step_in_place(true, line(), (exg_placement[]){exg_shard(0)}, false);
    step_in_place(false, line(), (exg_placement[]){exg_replicate()}, false);
}

/* ---- from run to run ------------------------------------------------------------------------- */

/* The session's own result, each rank's part, is the input of the next run there. */
static void a_part_that_stays_is_an_input_there(void **state)
{
    const exg_placement places[] = {exg_shard(0)};
    exg_output_binding stays = {.size = sizeof(stays), .on_device = true};
    float x[WIDTH];
    box boxes[RANKS_MAX];
    void *first[RANKS_MAX];
    made m;

    (void)state;
    open_session(&m, false, line(), places, true);
    bind_caches(&m, places, 2, boxes);
    for (uint32_t r = m.first; r < m.end; r++) {
        first[r] = boxes[r].data;
        expect_ok(exg_session_bind_rank_output(m.session, r, 1, &stays, &m.err), &m.err);
    }
    for (int step = 0; step < STEPS; step++) {
        exg_session_input input = x_input(x, step);

        expect_ok(exg_session_run(m.session, &input, 1, &m.err), &m.err);
        expect_results(&m, step);
        for (uint32_t r = m.first; r < m.end; r++) {
            exg_session_input part = {.name = "cache", .on_device = true};

            part.tensor = exg_session_rank_output_at(m.session, r, 1)->tensor;
            boxes[r].data = part.tensor.data;
            expect_ok(exg_session_bind_rank_input(m.session, r, &part, &m.err), &m.err);
        }
    }
    for (uint32_t r = m.first; r < m.end; r++) {
        copy_cache(&m, &boxes[r], STEPS, false);
        exg_session_free(m.session, first[r]);
    }
    close_session(&m);
}

/* ---- streams --------------------------------------------------------------------------------- */

static void each_rank_keeps_the_order_of_a_stream(void **state)
{
    const exg_placement places[] = {exg_shard(0)};
    exg_session_options options = {.size = sizeof(options), .device = device, .mesh = {1, {2}}};
    int (*create)(void **stream, unsigned flags);
    int (*retain)(void **context, int ordinal);
    int (*enter)(void *context);
    void *streams[2] = {&options, &options};
    void *library, *context;
    float x[WIDTH], cache[CACHE] = {0};
    exg_session_input inputs[2] = {x_input(x, 0), tensor_input("cache", cache, ROWS, WIDTH)};
    exg_verified verified;
    made m;

    (void)state;
    open_session(&m, false, options.mesh, places, false);
    expect_ok(exg_verify(m.program, m.operators, &verified, NULL, &m.err), &m.err);
    exg_session_destroy(m.session);
    options.rank_streams = streams;
    if (is_noted()) {
        library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        assert_non_null(library);
        *(void **)&create = dlsym(library, "cuStreamCreate");
        *(void **)&retain = dlsym(library, "cuDevicePrimaryCtxRetain");
        *(void **)&enter = dlsym(library, "cuCtxSetCurrent");
        for (int r = 0; r < 2; r++) {
            assert_int_equal(retain(&context, r) + enter(context) + create(&streams[r], 0), 0);
        }
        (void)dlclose(library);
    }
    expect_ok(exg_session_create(&verified, &options, &m.session, &m.err), &m.err);
    if (!is_noted()) {
        assert_int_equal(exg_session_run(m.session, inputs, 2, &m.err), EXG_USAGE);
        assert_string_equal(m.err.code, "DEV-015");
        close_session(&m);
        return;
    }
    keep_calls();
    expect_ok(exg_session_run(m.session, inputs, 2, &m.err), &m.err);
    assert_true(calls_of("cuStreamWaitEvent") >= 4); /* before and after, of each rank */
    drop_calls();
    close_session(&m);
}

static void expect_refused(const made *m, exg_status status, const char *code)
{
    assert_int_equal(status, EXG_USAGE);
    assert_string_equal(m->err.code, code);
}

/* Then what the run is given goes to all of them, as before, or is refused where they take parts.
 */
static void ranks_give_their_inputs_back(bool parts)
{
    const exg_placement places[] = {exg_shard(0)};
    float x[WIDTH], cache[CACHE];
    exg_session_input none = tensor_input("cache", NULL, ROWS, WIDTH);
    exg_session_input inputs[2];
    box boxes[RANKS_MAX];
    made m;

    open_session(&m, false, line(), places, parts);
    for (int round = 0; round < 2; round++) {
        bind_caches(&m, parts ? places : NULL, 1, boxes);
        inputs[0] = x_input(x, 0);
        expect_ok(exg_session_run(m.session, inputs, 1, &m.err), &m.err);
        expect_results(&m, 0);
        for (uint32_t r = m.first; r < m.end; r++) {
            expect_ok(exg_session_bind_rank_input(m.session, r, &none, &m.err), &m.err);
            expect_ok(exg_session_bind_rank_output(m.session, r, 1, NULL, &m.err), &m.err);
        }
        for (int i = 0; i < CACHE; i++) {
            cache[i] = cache_after(1, i);
        }
        inputs[0] = x_input(x, 1);
        inputs[1] = tensor_input("cache", cache, ROWS, WIDTH);
        if (parts) { /* it is not cut here */
            expect_refused(&m, exg_session_run(m.session, inputs, 2, &m.err), "INP-015");
        } else {
            expect_ok(exg_session_run(m.session, inputs, 2, &m.err), &m.err);
            expect_results(&m, 1);
        }
        for (uint32_t r = m.first; r < m.end; r++) {
            copy_cache(&m, &boxes[r], 1, false); /* as the first run left it */
            exg_session_free(m.session, boxes[r].data);
        }
    }
    close_session(&m);
}

static void inputs_of_ranks_are_given_back(void **state)
{
    (void)state;
    ranks_give_their_inputs_back(false);
    ranks_give_their_inputs_back(true);
}

/* What is whole on every rank comes to the host once, unless a rank has it bound. */
static void whole_results_are_brought_down_once(void **state)
{
    const exg_placement places[] = {exg_shard(0)};
    const uint64_t results = (CACHE + WIDTH) * sizeof(float);
    float x[WIDTH], cache[CACHE], own[CACHE];
    exg_session_input inputs[2];
    made m;

    (void)state;
    open_session(&m, false, line(), places, false);
    for (int i = 0; i < CACHE; i++) {
        cache[i] = cache_after(0, i);
    }
    inputs[1] = tensor_input("cache", cache, ROWS, WIDTH);
    for (int step = 0; step < 3; step++) {
        exg_output_binding place = {sizeof(place), own, sizeof(own), false};
        uint32_t bound = m.end - 1; /* in the third run */

        inputs[0] = x_input(x, 0);
        if (step == 2) {
            expect_ok(exg_session_bind_rank_output(m.session, bound, 1, &place, &m.err), &m.err);
        }
        if (is_noted()) {
            keep_calls();
        }
        expect_ok(exg_session_run(m.session, inputs, 2, &m.err), &m.err);
        for (uint32_t r = m.first; r < m.end; r++) {
            const float *got = exg_session_rank_output_at(m.session, r, 1)->tensor.data;

            assert_true((got == own) == (step == 2 && r == bound));
            for (int i = 0; i < CACHE; i++) {
                assert_float_equal(got[i], cache_after(1, i), 1e-3);
            }
        }
        expect_results(&m, 0);
        if (is_noted()) { /* and notes of faults */
            const uint64_t more = step == 2 ? sizeof(own) : 0;

            assert_in_range(bytes_of("cuMemcpyDtoHAsync "), results + more,
                            results + more + m.ranks * 300);
            drop_calls();
        }
    }
    close_session(&m);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void what_is_not_a_ranks_is_refused(void **state)
{
    const exg_placement places[] = {exg_shard(0)};
    float x[WIDTH], here[CACHE];
    exg_session_input input = x_input(x, 0);
    exg_session_input whole = tensor_input("cache", here, ROWS, WIDTH);
    exg_output_binding place = {sizeof(place), here, sizeof(here), true};
    box boxes[RANKS_MAX];
    void *block;
    made m;

    (void)state;
    open_session(&m, false, (exg_mesh_shape){1, {2}}, places, true);
    expect_refused(&m, exg_session_rank_allocate(m.session, 2, 4, &block, &m.err), "INP-016");
    expect_refused(&m, exg_session_bind_rank_input(m.session, 2, &whole, &m.err), "INP-016");
    expect_refused(&m, exg_session_bind_rank_output(m.session, 2, 1, NULL, &m.err), "INP-016");
    expect_refused(&m, exg_session_bind_rank_output(m.session, 1, 2, &place, &m.err), "RUN-014");
    whole.name = "catch";
    expect_refused(&m, exg_session_bind_rank_input(m.session, 1, &whole, &m.err), "INP-001");
    whole.name = "cache";
    if (device != NULL) {
        whole.on_device = true;
        expect_refused(&m, exg_session_bind_rank_input(m.session, 1, &whole, &m.err), "INP-015");
        expect_refused(&m, exg_session_bind_rank_output(m.session, 1, 1, &place, &m.err),
                       "INP-015");
        whole.on_device = false;
    }
    expect_ok(exg_session_bind_input(m.session, &whole, &m.err), &m.err);
    expect_ok(exg_session_bind_rank_input(m.session, 1, &whole, &m.err), &m.err); /* alone */
    expect_refused(&m, exg_session_run(m.session, &input, 1, &m.err), "INP-015");
    expect_ok(exg_session_bind_rank_input(m.session, 0, &whole, &m.err), &m.err); /* not its part */
    expect_refused(&m, exg_session_run(m.session, &input, 1, &m.err), "INP-004");
    bind_caches(&m, places, 1, boxes);
    expect_ok(exg_session_run(m.session, &input, 1, &m.err), &m.err);
    assert_null(exg_session_rank_output_at(m.session, 2, 0));
    assert_null(exg_session_rank_output_at(m.session, 0, 2));
    assert_null(exg_session_input_placements(m.session, "catch"));
    assert_null(exg_session_output_placements(m.session, 2));
    for (uint32_t r = m.first; r < m.end; r++) {
        exg_session_free(m.session, boxes[r].data);
    }
    close_session(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_have_their_parts),
        cmocka_unit_test(ranks_have_all_of_it),
        cmocka_unit_test(a_part_that_stays_is_an_input_there),
        cmocka_unit_test(each_rank_keeps_the_order_of_a_stream),
        cmocka_unit_test(whole_results_are_brought_down_once),
        cmocka_unit_test(inputs_of_ranks_are_given_back),
        cmocka_unit_test(what_is_not_a_ranks_is_refused),
    };
    const struct CMUnitTest by_processes[] = {
        cmocka_unit_test(ranks_have_their_parts),
        cmocka_unit_test(ranks_have_all_of_it),
        cmocka_unit_test(a_part_that_stays_is_an_input_there),
    };

    device = getenv("EXG_TEST_DEVICE");
    if (are_processes()) {
        int failed = cmocka_run_group_tests(by_processes, NULL, NULL);

        exg_mpi_finish();
        return failed;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
