/* Results that replace a window of a cache: written in it where nobody reads what was there, and
 * right where somebody does. Expected values are plain loops'.
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

#define LAYERS 3
#define ROWS   8
#define WIDTH  16
#define LAYER  (ROWS * WIDTH)
#define CACHE  (LAYERS * LAYER)
#define RUNS   3
#define F32    EXG_DTYPE_F32

typedef struct building {
    exg_builder *b;
    exg_ref cache, x, row; /* (LAYERS, ROWS, WIDTH), (1, WIDTH), (1) */
} building;

/* As the program sees them in one run. */
typedef struct numbers {
    float cache[CACHE], x[WIDTH], out[CACHE];
    int64_t row;
} numbers;

static exg_ref layer(building *s, exg_ref cache, int64_t l)
{
    return EMIT(s->b, select_int, cache, 0, l);
}

static exg_ref put_row(building *s, exg_ref window)
{
    return EMIT(s->b, index_copy_default, window, 0, s->row, s->x);
}

static void put(numbers *n, float *window, int64_t row)
{
    memcpy(window + row * WIDTH, n->x, sizeof(n->x));
}

static exg_ref sum_rows(building *s, exg_ref of)
{
    exg_argument none = exg_arg_none();

    return EMIT(s->b, sum_dim_IntList, of, INTS(s->b, 0), true, none);
}

static void add_rows(numbers *n, const float *window)
{
    for (int i = 0; i < LAYER; i++) {
        n->out[i % WIDTH] += window[i];
    }
}

/* ---- the programs: each gives its result, and changes the cache --------------------------------
 */

/* A row of each layer, and then the sum over the layer's rows. */
static exg_ref build_layers(building *s)
{
    exg_ref out = {0};

    for (int64_t l = 0; l < LAYERS; l++) {
        exg_ref rows = put_row(s, layer(s, s->cache, l));
        exg_ref sum = sum_rows(s, rows);

        out = l == 0 ? sum : EMIT(s->b, add_Tensor, out, sum);
        s->cache = EMIT(s->b, select_scatter_default, s->cache, rows, 0, l);
    }
    return out;
}

static void compute_layers(numbers *n)
{
    for (int l = 0; l < LAYERS; l++) {
        put(n, n->cache + l * LAYER, n->row);
        add_rows(n, n->cache + l * LAYER);
    }
}

/* The cache as it was is read afterwards. */
static exg_ref build_before(building *s)
{
    exg_ref before = s->cache;

    s->cache = EMIT(s->b, select_scatter_default, before, put_row(s, layer(s, before, 1)), 0, 1);
    return EMIT(s->b, sub_Tensor, s->cache, before);
}

static void compute_before(numbers *n)
{
    float before[CACHE];

    memcpy(before, n->cache, sizeof(before));
    put(n, n->cache + LAYER, n->row);
    for (int i = 0; i < CACHE; i++) {
        n->out[i] = n->cache[i] - before[i];
    }
}

/* The window as it was is. */
static exg_ref build_window(building *s)
{
    exg_ref window = layer(s, s->cache, 2);
    exg_ref rows = put_row(s, window);

    s->cache = EMIT(s->b, select_scatter_default, s->cache, rows, 0, 2);
    return EMIT(s->b, sub_Tensor, rows, window);
}

static void compute_window(numbers *n)
{
    for (int i = 0; i < WIDTH; i++) {
        n->out[n->row * WIDTH + i] = n->x[i] - n->cache[2 * LAYER + n->row * WIDTH + i];
    }
    put(n, n->cache + 2 * LAYER, n->row);
}

/* What replaced the window is read after it was replaced again; so is another window. */
static exg_ref build_twice(building *s)
{
    exg_ref first = put_row(s, layer(s, s->cache, 0));
    exg_ref second;

    s->cache = EMIT(s->b, select_scatter_default, s->cache, first, 0, 0);
    second = EMIT(s->b, index_copy_default, layer(s, s->cache, 0), 0, s->row,
                  EMIT(s->b, neg_default, s->x));
    s->cache = EMIT(s->b, select_scatter_default, s->cache, second, 0, 0);
    return EMIT(s->b, sub_Tensor, first, second);
}

static void compute_twice(numbers *n)
{
    for (int i = 0; i < WIDTH; i++) {
        n->out[n->row * WIDTH + i] = 2 * n->x[i];
        n->cache[n->row * WIDTH + i] = -n->x[i];
    }
}

/* Put back elsewhere than it came from. */
static exg_ref build_elsewhere(building *s)
{
    exg_ref rows = put_row(s, layer(s, s->cache, 0));

    s->cache = EMIT(s->b, select_scatter_default, s->cache, rows, 0, 1);
    return sum_rows(s, rows);
}

static void compute_elsewhere(numbers *n)
{
    memcpy(n->cache + LAYER, n->cache, LAYER * sizeof(float));
    put(n, n->cache + LAYER, n->row);
    add_rows(n, n->cache + LAYER);
}

/* Along dim 1, the row of `layers`, of its first `columns`. */
static exg_ref put_rows(building *s, exg_ref window, int64_t layers, int64_t columns)
{
    exg_ref row = EMIT(s->b, slice_Tensor, s->x, 1, 0, columns, 1);

    row = EMIT(s->b, expand_default, EMIT(s->b, unsqueeze_default, row, 0),
               INTS(s->b, layers, 1, columns));
    return EMIT(s->b, index_copy_default, window, 1, s->row, row);
}

/* Slices of layers, and of columns, which are not dense. */
static exg_ref build_slices(building *s)
{
    exg_ref window = put_rows(s, EMIT(s->b, slice_Tensor, s->cache, 0, 1, 3, 1), 2, WIDTH);

    s->cache = EMIT(s->b, slice_scatter_default, s->cache, window, 0, 1, 3, 1);
    window = put_rows(s, EMIT(s->b, slice_Tensor, s->cache, 2, 4, 8, 1), LAYERS, 4);
    s->cache = EMIT(s->b, slice_scatter_default, s->cache, window, 2, 4, 8, 1);
    return sum_rows(s, layer(s, s->cache, 2));
}

static void compute_slices(numbers *n)
{
    put(n, n->cache + LAYER, n->row);
    put(n, n->cache + 2 * LAYER, n->row);
    for (int l = 0; l < LAYERS; l++) {
        memcpy(n->cache + l * LAYER + n->row * WIDTH + 4, n->x, 4 * sizeof(float));
    }
    add_rows(n, n->cache + 2 * LAYER);
}

/* A window of a window: of a layer, and of columns. */
static exg_ref build_nested(building *s)
{
    exg_ref row = EMIT(s->b, expand_default,
                       EMIT(s->b, unsqueeze_default, EMIT(s->b, slice_Tensor, s->x, 1, 0, 4, 1), 0),
                       INTS(s->b, LAYERS, 1, 4));
    exg_ref rows = EMIT(s->b, slice_scatter_default, layer(s, s->cache, 1), s->x, 0, 3, 4, 1);

    s->cache = EMIT(s->b, select_scatter_default, s->cache, rows, 0, 1);
    rows = EMIT(s->b, slice_scatter_default, EMIT(s->b, slice_Tensor, s->cache, 2, 0, 4, 1), row, 1,
                5, 6, 1);
    s->cache = EMIT(s->b, slice_scatter_default, s->cache, rows, 2, 0, 4, 1);
    return sum_rows(s, layer(s, s->cache, 1));
}

static void compute_nested(numbers *n)
{
    put(n, n->cache + LAYER, 3);
    for (int l = 0; l < LAYERS; l++) {
        memcpy(n->cache + l * LAYER + 5 * WIDTH, n->x, 4 * sizeof(float));
    }
    add_rows(n, n->cache + LAYER);
}

/* ---- the tests --------------------------------------------------------------------------------
 */

typedef struct trial {
    const char *name;
    exg_ref (*build)(building *s);
    void (*compute)(numbers *n);
    uint32_t moves; /* steps that put a window back */
} trial;

static const trial trials[] = {
    {"layers", build_layers, compute_layers, 0},
    {"before", build_before, compute_before, 1},
    {"window", build_window, compute_window, 1},
    {"twice", build_twice, compute_twice, 1},
    {"elsewhere", build_elsewhere, compute_elsewhere, 1},
    {"slices", build_slices, compute_slices, 1},
    {"nested", build_nested, compute_nested, 3},
};

/* Steps of the plan by a kernel that puts a window back. */
static uint32_t moves_of(const exg_session *session)
{
    uint32_t count = 0;
    char *text;
    char *rest;

    assert_int_equal(exg_plan_print(exg_session_plan(session), &text, NULL), EXG_OK);
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        char kernel[32] = "";

        if (sscanf(line, "%*u %31s", kernel) == 1) {
            count += strcmp(kernel, "select_scatter") == 0 || strcmp(kernel, "slice_scatter") == 0;
        }
    }
    free(text);
    return count;
}

static void make_program(const exg_operators *operators, const trial *of, const float *cache,
                         exg_program **program)
{
    building s;
    exg_tensor_meta meta;
    exg_argument out;
    exg_error err;

    exg_error_clear(&err);
    assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, program, NULL), EXG_OK);
    assert_int_equal(exg_builder_create(operators, *program, &s.b, NULL), EXG_OK);
    meta = exg_builder_meta(s.b, F32, (int64_t[]){LAYERS, ROWS, WIDTH}, 3);
    s.cache = exg_builder_weight(s.b, "cache", &meta, EXG_INPUT_BUFFER, cache);
    meta = exg_builder_meta(s.b, F32, (int64_t[]){1, WIDTH}, 2);
    s.x = exg_builder_input(s.b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    meta = exg_builder_meta(s.b, EXG_DTYPE_I64, (int64_t[]){1}, 1);
    s.row = exg_builder_input(s.b, "row", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    out = exg_arg_ref(of->build(&s));
    exg_builder_output(s.b, &(exg_argument){.kind = EXG_ARGUMENT_TENSOR, .as_tensor = s.cache.id},
                       EXG_OUTPUT_BUFFER_MUTATION, "cache");
    exg_builder_output(s.b, &out, EXG_OUTPUT_USER, NULL);
    expect_ok(exg_builder_finish(s.b, &err), &err);
}

static void expect_numbers(const trial *of, int run, const char *what, const float *got,
                           const float *want, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (got[i] != want[i]) { /* whole numbers */
            fail_msg("%s, run %d, %s[%d]: %g, not %g", of->name, run, what, (int)i, got[i],
                     want[i]);
        }
    }
}

static void run_once(exg_session *session, const trial *of, int run, numbers *n)
{
    exg_session_input inputs[2] = {{.name = "x"}, {.name = "row"}};
    exg_tensor got = {.data = NULL};
    exg_error err;

    exg_error_clear(&err);
    memset(n->out, 0, sizeof(n->out));
    n->row = (run * 5 + 2) % ROWS;
    for (int i = 0; i < WIDTH; i++) {
        n->x[i] = (float)(run * 100 + i);
    }
    inputs[0].tensor = (exg_tensor){
        .data = n->x, .dtype = F32, .rank = 2, .sizes = {1, WIDTH}, .strides = {WIDTH, 1}};
    inputs[1].tensor = (exg_tensor){
        .data = &n->row, .dtype = EXG_DTYPE_I64, .rank = 1, .sizes = {1}, .strides = {1}};
    expect_ok(exg_session_run(session, inputs, 2, &err), &err);
    of->compute(n);
    got = exg_session_output_at(session, 0)->tensor;
    expect_numbers(of, run, "result", got.data, n->out, exg_tensor_numel(&got));
    assert_true(exg_session_state_find(session, "cache", &got));
    expect_numbers(of, run, "cache", got.data, n->cache, CACHE);
}

static void run_trial(const exg_operators *operators, const trial *of)
{
    const char *device = getenv("EXG_TEST_DEVICE");
    exg_session_options options = {.size = sizeof(options), .device = device};
    static numbers n;
    exg_program *program;
    exg_session *session;
    exg_verified verified;
    exg_error err;
    uint32_t moves;

    exg_error_clear(&err);
    for (int i = 0; i < CACHE; i++) {
        n.cache[i] = (float)(i % 37);
    }
    make_program(operators, of, n.cache, &program);
    expect_ok(exg_verify(program, operators, &verified, NULL, &err), &err);
    expect_ok(exg_session_create(&verified, &options, &session, &err), &err);
    for (int run = 0; run < RUNS; run++) {
        run_once(session, of, run, &n);
    }
    moves = moves_of(session);
    if (moves != of->moves) {
        fail_msg("%s: %u steps move a window, not %u", of->name, moves, of->moves);
    }
    exg_session_destroy(session);
    exg_program_destroy(program);
}

static void a_window_is_replaced_where_it_is(void **state)
{
    exg_operators *operators;

    (void)state;
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    for (size_t i = 0; i < sizeof(trials) / sizeof(trials[0]); i++) {
        run_trial(operators, &trials[i]);
    }
    exg_operators_destroy(operators);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_is_replaced_where_it_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
