/* Caches that a program takes as inputs and gives as outputs, bound to the memory they are in: rows
 * are put where they belong, and nothing else of a cache moves. Expected values are plain loops'.
 * The same on the host, the strict device and CUDA's stand-in, whose notes say what moves.
 */
#include "tests/exec/cuda/calls.h"

#include <exg/emit.h>
#include <exg/exec.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define F32   EXG_DTYPE_F32
#define ROWS  32
#define WIDTH 64 /* 256 bytes a row */
#define CACHE (ROWS * WIDTH)
#define BYTES (CACHE * sizeof(float))
#define STEPS 4

static const char *device; /* NULL: the host */

typedef struct made {
    exg_operators *operators;
    exg_program *program;
    exg_session *session;
    exg_partition_pattern patterns[2];
    exg_error err;
} made;

/* (x, k, v, row) -> (x * sum of the rows of k' and v' [- those of k], k', v'), where k' is k with x
 * as its row, and v' is v with -x */
static void make_program(made *m, bool reads_before)
{
    exg_builder *b;
    exg_tensor_meta meta;
    exg_ref x, row, old[2], now[2], sum;
    exg_argument y;

    assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &m->program, NULL), EXG_OK);
    assert_int_equal(exg_builder_create(m->operators, m->program, &b, NULL), EXG_OK);
    meta = exg_builder_meta(b, F32, (int64_t[]){1, WIDTH}, 2);
    x = exg_builder_input(b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    meta = exg_builder_meta(b, F32, (int64_t[]){ROWS, WIDTH}, 2);
    old[0] = exg_builder_input(b, "k", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    old[1] = exg_builder_input(b, "v", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    meta = exg_builder_meta(b, EXG_DTYPE_I64, (int64_t[]){1}, 1);
    row = exg_builder_input(b, "row", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    now[0] = EMIT(b, index_copy_default, old[0], 0, row, x);
    now[1] = EMIT(b, index_copy_default, old[1], 0, row, EMIT(b, neg_default, x));
    sum = EMIT(b, add_Tensor, EMIT(b, sum_dim_IntList, now[0], INTS(b, 0)),
               EMIT(b, sum_dim_IntList, now[1], INTS(b, 0)));
    if (reads_before) {
        sum = EMIT(b, sub_Tensor, sum, EMIT(b, sum_dim_IntList, old[0], INTS(b, 0)));
    }
    y = exg_arg_ref(EMIT(b, mul_Tensor, sum, x));
    exg_builder_output(b, &y, EXG_OUTPUT_USER, NULL);
    for (int i = 0; i < 2; i++) {
        y = exg_arg_ref(now[i]);
        exg_builder_output(b, &y, EXG_OUTPUT_USER, NULL);
    }
    expect_ok(exg_builder_finish(b, &m->err), &m->err);
}

/* On two ranks the caches are in parts, by their columns. */
static void open_session(made *m, bool reads_before, bool parts)
{
    exg_session_options options = {.size = sizeof(options), .device = device, .thread_count = 1};
    exg_partition_options placing = {
        .size = sizeof(placing), .mode = EXG_PARTITION_PATTERNS, .pattern_count = 2};
    exg_verified verified;

    memset(m, 0, sizeof(*m));
    m->patterns[0] = (exg_partition_pattern){"k", exg_shard(1), EXG_PARTITION_INPUTS, NULL};
    m->patterns[1] = (exg_partition_pattern){"v", exg_shard(1), EXG_PARTITION_INPUTS, NULL};
    placing.patterns = m->patterns;
    if (parts) {
        options.mesh = (exg_mesh_shape){1, {2}};
        options.partition = &placing;
        options.local_parts = true;
    }
    expect_ok(exg_operators_create(&m->operators, &m->err), &m->err);
    make_program(m, reads_before);
    expect_ok(exg_verify(m->program, m->operators, &verified, NULL, &m->err), &m->err);
    expect_ok(exg_session_create(&verified, &options, &m->session, &m->err), &m->err);
}

static void close_session(made *m)
{
    exg_session_destroy(m->session);
    exg_program_destroy(m->program);
    exg_operators_destroy(m->operators);
}

/* ---- what is given and expected -------------------------------------------------------------- */

/* The caches as they are to be. */
typedef struct numbers {
    float caches[2][CACHE], x[WIDTH], out[WIDTH];
    int64_t row;
} numbers;

static void begin(numbers *n)
{
    for (int i = 0; i < CACHE; i++) {
        n->caches[0][i] = (float)(i % 7);
        n->caches[1][i] = (float)(i % 5);
    }
}

static void step_on(numbers *n, int step, bool reads_before)
{
    float before[WIDTH] = {0};

    n->row = (step * 5 + 2) % ROWS;
    for (int i = 0; i < CACHE; i++) {
        before[i % WIDTH] += reads_before ? n->caches[0][i] : 0;
    }
    for (int i = 0; i < WIDTH; i++) {
        n->x[i] = (float)((step + 1) * (i % 3) - 1);
        n->out[i] = -before[i];
        n->caches[0][n->row * WIDTH + i] = n->x[i];
        n->caches[1][n->row * WIDTH + i] = -n->x[i];
    }
    for (int i = 0; i < CACHE; i++) {
        n->out[i % WIDTH] += n->caches[0][i] + n->caches[1][i];
    }
    for (int i = 0; i < WIDTH; i++) {
        n->out[i] *= n->x[i];
    }
}

static exg_session_input tensor_input(const char *name, void *data, int64_t first, int64_t second)
{
    exg_session_input input = {.name = name};

    input.tensor = (exg_tensor){.data = data, .dtype = F32, .rank = 2, .sizes = {first, second}};
    exg_tensor_set_contiguous(&input.tensor);
    return input;
}

static exg_session_input row_input(int64_t *row)
{
    exg_session_input input = {.name = "row"};

    input.tensor = (exg_tensor){.data = row, .dtype = EXG_DTYPE_I64, .rank = 1, .sizes = {1}};
    exg_tensor_set_contiguous(&input.tensor);
    return input;
}

static void expect_out(const numbers *n, const float *got, int64_t from, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        assert_float_equal(got[i], n->out[from + i], 1e-3);
    }
}

static void expect_cache(made *m, const float *wanted, const void *there)
{
    static float got[CACHE];

    expect_ok(exg_session_copy_out(m->session, got, there, BYTES, &m->err), &m->err);
    assert_memory_equal(got, wanted, BYTES); /* whole numbers */
}

static void *take_cache(made *m, const float *values)
{
    void *block;

    expect_ok(exg_session_allocate(m->session, BYTES, &block, &m->err), &m->err);
    expect_ok(exg_session_copy_in(m->session, block, values, BYTES, &m->err), &m->err);
    return block;
}

static void bind_cache(made *m, const char *name, void *from, uint32_t output, void *to)
{
    exg_session_input input = tensor_input(name, from, ROWS, WIDTH);
    exg_output_binding place = {sizeof(place), to, BYTES, true};

    input.on_device = true;
    expect_ok(exg_session_bind_input(m->session, &input, &m->err), &m->err);
    expect_ok(exg_session_bind_output(m->session, output, &place, &m->err), &m->err);
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
    return device != NULL && strcmp(device, "cuda") == 0 && is_standin();
}

/* Steps of the plan that copy or put back. */
static uint32_t copies_of(const exg_session *session)
{
    uint32_t count = 0;
    char *text;
    char *rest;

    assert_int_equal(exg_plan_print(exg_session_plan(session), &text, NULL), EXG_OK);
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        char kernel[32] = "";

        count += sscanf(line, "%*u %31s", kernel) == 1 && strcmp(kernel, "copy") == 0;
    }
    free(text);
    return count;
}

/* One run from `n`, and its caches where they are bound. */
static void run_step(made *m, numbers *n, int step, bool reads_before)
{
    exg_session_input inputs[2];

    step_on(n, step, reads_before);
    inputs[0] = tensor_input("x", n->x, 1, WIDTH);
    inputs[1] = row_input(&n->row);
    expect_ok(exg_session_run(m->session, inputs, 2, &m->err), &m->err);
    expect_out(n, exg_session_output_at(m->session, 0)->tensor.data, 0, WIDTH);
}

/* ---- in place -------------------------------------------------------------------------------- */

static void rows_go_where_the_caches_are(void **state)
{
    static numbers n;
    void *blocks[2];
    made m;

    (void)state;
    begin(&n);
    open_session(&m, false, false);
    for (uint32_t i = 0; i < 2; i++) {
        blocks[i] = take_cache(&m, n.caches[i]);
        bind_cache(&m, i == 0 ? "k" : "v", blocks[i], 1 + i, blocks[i]);
    }
    for (int step = 0; step < STEPS; step++) {
        if (step == STEPS - 1 && is_noted()) {
            keep_calls();
        }
        run_step(&m, &n, step, false);
    }
    assert_int_equal(copies_of(m.session), 0);
    assert_true(exg_session_statistics(m.session)->plan->values_bytes < BYTES); /* no cache */
    if (is_noted()) { /* what is not the caches', and notes of faults */
        assert_int_equal(bytes_of("cuMemcpyHtoDAsync "), WIDTH * sizeof(float) + sizeof(n.row));
        assert_in_range(bytes_of("cuMemcpyDtoHAsync "), WIDTH * sizeof(float), 600);
        assert_int_equal(bytes_of("cuMemcpyDtoDAsync "), 0);
        drop_calls();
    }
    for (uint32_t i = 0; i < 2; i++) {
        expect_cache(&m, n.caches[i], blocks[i]);
        assert_ptr_equal(exg_session_output_at(m.session, 1 + i)->tensor.data, blocks[i]);
        exg_session_free(m.session, blocks[i]);
    }
    close_session(&m);
}

/* What the cache was is read when the row is there: it is copied, and the result right. */
static void what_is_read_later_stays_until_then(void **state)
{
    static numbers n;
    void *blocks[2];
    made m;

    (void)state;
    begin(&n);
    open_session(&m, true, false);
    for (uint32_t i = 0; i < 2; i++) {
        blocks[i] = take_cache(&m, n.caches[i]);
        bind_cache(&m, i == 0 ? "k" : "v", blocks[i], 1 + i, blocks[i]);
    }
    for (int step = 0; step < STEPS; step++) {
        run_step(&m, &n, step, true);
    }
    for (uint32_t i = 0; i < 2; i++) {
        expect_cache(&m, n.caches[i], blocks[i]);
        exg_session_free(m.session, blocks[i]);
    }
    close_session(&m);
}

/* The two are where the other one was, and in the next run again. */
static void caches_change_places(void **state)
{
    static numbers n;
    void *blocks[2];
    made m;

    (void)state;
    begin(&n);
    open_session(&m, false, false);
    for (uint32_t i = 0; i < 2; i++) {
        blocks[i] = take_cache(&m, n.caches[i]);
    }
    for (int step = 0; step < STEPS; step++) {
        bind_cache(&m, "k", blocks[step % 2], 2, blocks[step % 2]);
        bind_cache(&m, "v", blocks[1 - step % 2], 1, blocks[1 - step % 2]);
        run_step(&m, &n, step, false);
    }
    for (uint32_t i = 0; i < 2; i++) {
        expect_cache(&m, n.caches[i], blocks[(STEPS + i) % 2]);
        exg_session_free(m.session, blocks[i]);
    }
    close_session(&m);
}

/* x is a row of the cache itself, which is to be another one's, and the other way. */
static void another_input_in_the_cache_is_read_first(void **state)
{
    static numbers n;
    exg_session_input inputs[2];
    void *blocks[2];
    made m;

    (void)state;
    begin(&n);
    open_session(&m, false, false);
    for (uint32_t i = 0; i < 2; i++) {
        blocks[i] = take_cache(&m, n.caches[i]);
        bind_cache(&m, i == 0 ? "k" : "v", blocks[i], 1 + i, blocks[i]);
    }
    n.row = 9;
    inputs[0] = tensor_input("x", (float *)blocks[1] + n.row * WIDTH, 1, WIDTH);
    inputs[0].on_device = true;
    inputs[1] = row_input(&n.row);
    memcpy(n.x, &n.caches[1][n.row * WIDTH], sizeof(n.x));
    for (int i = 0; i < WIDTH; i++) {
        n.caches[0][n.row * WIDTH + i] = n.x[i];
        n.caches[1][n.row * WIDTH + i] = -n.x[i];
        n.out[i] = 0;
    }
    for (int i = 0; i < CACHE; i++) {
        n.out[i % WIDTH] += (n.caches[0][i] + n.caches[1][i]) * n.x[i % WIDTH];
    }
    expect_ok(exg_session_run(m.session, inputs, 2, &m.err), &m.err);
    expect_out(&n, exg_session_output_at(m.session, 0)->tensor.data, 0, WIDTH);
    for (uint32_t i = 0; i < 2; i++) {
        expect_cache(&m, n.caches[i], blocks[i]);
        exg_session_free(m.session, blocks[i]);
    }
    close_session(&m);
}

/* Bound elsewhere, the cache stays what it was. */
static void a_cache_that_is_bound_elsewhere_stays(void **state)
{
    static numbers n;
    static float before[2][CACHE];
    void *blocks[2];
    void *elsewhere;
    made m;

    (void)state;
    begin(&n);
    open_session(&m, false, false);
    for (uint32_t i = 0; i < 2; i++) {
        blocks[i] = take_cache(&m, n.caches[i]);
        bind_cache(&m, i == 0 ? "k" : "v", blocks[i], 1 + i, blocks[i]);
    }
    elsewhere = take_cache(&m, n.caches[0]);
    run_step(&m, &n, 0, false);
    memcpy(before, n.caches, sizeof(before));
    bind_cache(&m, "k", blocks[0], 1, elsewhere);
    run_step(&m, &n, 1, false);
    expect_cache(&m, n.caches[0], elsewhere);
    expect_cache(&m, before[0], blocks[0]);
    expect_cache(&m, n.caches[1], blocks[1]);
    exg_session_free(m.session, elsewhere);
    for (uint32_t i = 0; i < 2; i++) {
        exg_session_free(m.session, blocks[i]);
    }
    close_session(&m);
}

/* ---- on a mesh ------------------------------------------------------------------------------- */

#define HALF (WIDTH / 2)

static void each_rank_keeps_its_part_in_place(void **state)
{
    static numbers n;
    static float part[ROWS * HALF];
    void *blocks[2][2]; /* by rank and cache */
    made m;

    (void)state;
    begin(&n);
    open_session(&m, false, true);
    for (uint32_t r = 0; r < 2; r++) {
        for (uint32_t i = 0; i < 2; i++) {
            exg_output_binding place = {
                .size = sizeof(place), .bytes = BYTES / 2, .on_device = true};
            exg_session_input input = tensor_input(i == 0 ? "k" : "v", NULL, ROWS, WIDTH);

            expect_ok(exg_session_bind_input(m.session, &input, &m.err), &m.err);
            expect_ok(exg_session_rank_allocate(m.session, r, BYTES / 2, &blocks[r][i], &m.err),
                      &m.err);
            for (int at = 0; at < ROWS * HALF; at++) {
                part[at] = n.caches[i][at / HALF * WIDTH + (int)r * HALF + at % HALF];
            }
            expect_ok(exg_session_copy_in(m.session, blocks[r][i], part, BYTES / 2, &m.err),
                      &m.err);
            input = tensor_input(input.name, blocks[r][i], ROWS, HALF);
            input.on_device = true;
            place.data = blocks[r][i];
            expect_ok(exg_session_bind_rank_input(m.session, r, &input, &m.err), &m.err);
            expect_ok(exg_session_bind_rank_output(m.session, r, 1 + i, &place, &m.err), &m.err);
        }
    }
    for (int step = 0; step < STEPS; step++) {
        exg_session_input inputs[2];

        step_on(&n, step, false);
        inputs[0] = tensor_input("x", n.x, 1, WIDTH);
        inputs[1] = row_input(&n.row);
        if (step == STEPS - 1 && is_noted()) {
            keep_calls();
        }
        expect_ok(exg_session_run(m.session, inputs, 2, &m.err), &m.err);
        for (uint32_t r = 0; r < 2; r++) {
            const exg_tensor *got = &exg_session_rank_output_at(m.session, r, 0)->tensor;

            expect_out(&n, got->data, got->sizes[0] == WIDTH ? 0 : r * HALF, got->sizes[0]);
        }
    }
    assert_int_equal(copies_of(m.session), 0);
    if (is_noted()) {
        assert_int_equal(bytes_of("cuMemcpyHtoDAsync "),
                         2 * (WIDTH * sizeof(float) + sizeof(n.row)));
        assert_in_range(bytes_of("cuMemcpyDtoHAsync "), WIDTH * sizeof(float), 1200);
        assert_int_equal(bytes_of("cuMemcpyDtoDAsync "), 0);
        drop_calls();
    }
    for (uint32_t r = 0; r < 2; r++) {
        for (uint32_t i = 0; i < 2; i++) {
            expect_ok(exg_session_copy_out(m.session, part, blocks[r][i], BYTES / 2, &m.err),
                      &m.err);
            for (int at = 0; at < ROWS * HALF; at++) {
                assert_float_equal(part[at],
                                   n.caches[i][at / HALF * WIDTH + (int)r * HALF + at % HALF], 0);
            }
            exg_session_free(m.session, blocks[r][i]);
        }
    }
    close_session(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_go_where_the_caches_are),
        cmocka_unit_test(what_is_read_later_stays_until_then),
        cmocka_unit_test(caches_change_places),
        cmocka_unit_test(another_input_in_the_cache_is_read_first),
        cmocka_unit_test(a_cache_that_is_bound_elsewhere_stays),
        cmocka_unit_test(each_rank_keeps_its_part_in_place),
    };

    device = getenv("EXG_TEST_DEVICE");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
