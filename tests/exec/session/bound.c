/* Memory of the caller's: a cache that is input and output in one place, results that stay on the
 * device, runs that are launched. The same calls on the host, the strict device and CUDA's
 * stand-in, whose notes say what crosses the bus.
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

#define F32   EXG_DTYPE_F32
#define ROWS  64
#define WIDTH 32
#define CACHE (ROWS * WIDTH)
#define STEPS 4
#define BYTES (CACHE * sizeof(float))

static const char *device; /* NULL: the host */

typedef struct made {
    exg_operators *operators;
    exg_program *program;
    exg_session *session;
    exg_error err;
} made;

/* (x, cache, rows) -> ((cache + x)[rows] * x, cache + x, cache) */
static void make_program(made *m)
{
    exg_builder *b;
    exg_tensor_meta meta;
    exg_ref x, cache, rows, sum;
    exg_argument y;

    assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &m->program, NULL), EXG_OK);
    assert_int_equal(exg_builder_create(m->operators, m->program, &b, NULL), EXG_OK);
    meta = exg_builder_meta(b, F32, (int64_t[]){1, WIDTH}, 2);
    x = exg_builder_input(b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    meta = exg_builder_meta(b, F32, (int64_t[]){ROWS, WIDTH}, 2);
    cache = exg_builder_input(b, "cache", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    meta = exg_builder_meta(b, EXG_DTYPE_I64, (int64_t[]){2}, 1);
    rows = exg_builder_input(b, "rows", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    sum = EMIT(b, add_Tensor, cache, x);
    y = exg_arg_ref(EMIT(b, mul_Tensor, EMIT(b, index_select_default, sum, 0, rows), x));
    exg_builder_output(b, &y, EXG_OUTPUT_USER, NULL);
    y = exg_arg_ref(sum);
    exg_builder_output(b, &y, EXG_OUTPUT_USER, NULL);
    y = exg_arg_ref(cache);
    exg_builder_output(b, &y, EXG_OUTPUT_USER, NULL);
    expect_ok(exg_builder_finish(b, &m->err), &m->err);
}

static exg_status open_with(made *m, const exg_session_options *options)
{
    exg_verified verified;

    memset(m, 0, sizeof(*m));
    expect_ok(exg_operators_create(&m->operators, &m->err), &m->err);
    make_program(m);
    expect_ok(exg_verify(m->program, m->operators, &verified, NULL, &m->err), &m->err);
    return exg_session_create(&verified, options, &m->session, &m->err);
}

static void open_session(made *m)
{
    expect_ok(
        open_with(m, &(exg_session_options){.size = sizeof(exg_session_options), .device = device}),
        &m->err);
}

static void close_session(made *m)
{
    exg_session_destroy(m->session);
    exg_program_destroy(m->program);
    exg_operators_destroy(m->operators);
}

/* ---- what is given and expected -------------------------------------------------------------- */

static float x_of(int step, int i)
{
    return (float)(step + 1) * 0.25f + (float)(i % 5);
}

static float cache_after(int steps, int at)
{
    float value = (float)(at % 11);

    for (int step = 0; step < steps; step++) {
        value += x_of(step, at % WIDTH);
    }
    return value;
}

static int64_t rows[2] = {3, 60};

static exg_session_input tensor_input(const char *name, void *data, exg_dtype dtype, int64_t first,
                                      int64_t second)
{
    exg_session_input input = {.name = name};

    input.tensor = (exg_tensor){
        .data = data, .dtype = dtype, .rank = second == 0 ? 1 : 2, .sizes = {first, second}};
    exg_tensor_set_contiguous(&input.tensor);
    return input;
}

static exg_session_input x_input(float *x, int step)
{
    for (int i = 0; i < WIDTH; i++) {
        x[i] = x_of(step, i);
    }
    return tensor_input("x", x, F32, 1, WIDTH);
}

static void expect_result(const float *got, int step)
{
    for (int i = 0; i < 2 * WIDTH; i++) {
        int at = (int)rows[i / WIDTH] * WIDTH + i % WIDTH;

        assert_float_equal(got[i], cache_after(step + 1, at) * x_of(step, i % WIDTH), 1e-3);
    }
}

static void expect_cache(made *m, const void *there, int steps)
{
    float got[CACHE];

    expect_ok(exg_session_copy_out(m->session, got, there, BYTES, &m->err), &m->err);
    for (int i = 0; i < CACHE; i++) {
        assert_float_equal(got[i], cache_after(steps, i), 1e-3);
    }
}

static void *take_cache(made *m, uint64_t skipped, void **block)
{
    float cache[CACHE];

    for (int i = 0; i < CACHE; i++) {
        cache[i] = cache_after(0, i);
    }
    expect_ok(exg_session_allocate(m->session, BYTES + skipped, block, &m->err), &m->err);
    expect_ok(exg_session_copy_in(m->session, (char *)*block + skipped, cache, BYTES, &m->err),
              &m->err);
    return (char *)*block + skipped;
}

/* Input and output 1 in one place, the rows to choose from given once. */
static void bind_cache(made *m, void *cache)
{
    exg_session_input input = tensor_input("cache", cache, F32, ROWS, WIDTH);
    exg_session_input chosen = tensor_input("rows", rows, EXG_DTYPE_I64, 2, 0);
    exg_output_binding place = {sizeof(place), cache, BYTES, true};

    input.on_device = true;
    expect_ok(exg_session_bind_input(m->session, &input, &m->err), &m->err);
    expect_ok(exg_session_bind_input(m->session, &chosen, &m->err), &m->err);
    expect_ok(exg_session_bind_output(m->session, 1, &place, &m->err), &m->err);
    place.data = NULL; /* the third is the cache too */
    expect_ok(exg_session_bind_output(m->session, 2, &place, &m->err), &m->err);
}

/* ---- a cache in place ------------------------------------------------------------------------ */

/* Bytes of the copies in the notes that begin so. */
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

static bool is_cuda(void)
{
    return device != NULL && strcmp(device, "cuda") == 0;
}

static bool is_noted(void)
{
    return is_cuda() && is_standin();
}

static void step_in_place(uint64_t skipped)
{
    float x[WIDTH];
    void *block;
    void *cache;
    made m;

    open_session(&m);
    cache = take_cache(&m, skipped, &block);
    bind_cache(&m, cache);
    for (int step = 0; step < STEPS; step++) {
        exg_session_input input = x_input(x, step);

        if ((step == 0 || step == STEPS - 1) && is_noted()) {
            keep_calls();
        }
        expect_ok(exg_session_run(m.session, &input, 1, &m.err), &m.err);
        if (step == 0 && is_noted()) { /* what is used where it is takes no room */
            assert_int_equal(calls_of("cuMemAlloc 8192"), skipped == 0 ? 0 : 1);
            drop_calls();
        }
        expect_result(exg_session_output_at(m.session, 0)->tensor.data, step);
        assert_ptr_equal(exg_session_output_at(m.session, 1)->tensor.data, cache);
    }
    if (is_noted()) { /* what the run is given and gives, and its notes of faults */
        assert_int_equal(bytes_of("cuMemcpyHtoDAsync "), WIDTH * sizeof(float) + sizeof(rows));
        assert_in_range(bytes_of("cuMemcpyDtoHAsync "), 2 * WIDTH * sizeof(float), 1024);
        drop_calls();
    }
    expect_cache(&m, cache, STEPS);
    exg_session_free(m.session, block);
    close_session(&m);
}

static void a_cache_is_brought_up_to_date_in_place(void **state)
{
    (void)state;
    step_in_place(0);
    step_in_place(sizeof(float)); /* where kernels do not expect it */
}

/* What is an input is handed out before its memory is written. */
static void what_was_there_before_can_be_kept(void **state)
{
    static float before[CACHE];
    exg_output_binding place = {sizeof(place), before, sizeof(before), false};
    float x[WIDTH];
    exg_session_input input = x_input(x, 0);
    void *block;
    made m;

    (void)state;
    open_session(&m);
    bind_cache(&m, take_cache(&m, 0, &block));
    expect_ok(exg_session_bind_output(m.session, 2, &place, &m.err), &m.err);
    expect_ok(exg_session_run(m.session, &input, 1, &m.err), &m.err);
    for (int i = 0; i < CACHE; i++) {
        assert_float_equal(before[i], cache_after(0, i), 1e-3);
    }
    expect_cache(&m, block, 1);
    exg_session_free(m.session, block);
    close_session(&m);
}

/* ---- results that stay ----------------------------------------------------------------------- */

/* The session's own result of one run is an input of the next. */
static void a_result_on_the_device_is_an_input_there(void **state)
{
    exg_output_binding stays = {.size = sizeof(stays), .on_device = true};
    float x[WIDTH];
    exg_session_input inputs[3];
    void *block;
    made m;

    (void)state;
    open_session(&m);
    inputs[1] = tensor_input("cache", take_cache(&m, 0, &block), F32, ROWS, WIDTH);
    inputs[1].on_device = true;
    inputs[2] = tensor_input("rows", rows, EXG_DTYPE_I64, 2, 0);
    expect_ok(exg_session_bind_output(m.session, 1, &stays, &m.err), &m.err);
    for (int step = 0; step < STEPS; step++) {
        inputs[0] = x_input(x, step);
        expect_ok(exg_session_run(m.session, inputs, 3, &m.err), &m.err);
        expect_result(exg_session_output_at(m.session, 0)->tensor.data, step);
        inputs[1].tensor.data = exg_session_output_at(m.session, 1)->tensor.data;
    }
    expect_cache(&m, inputs[1].tensor.data, STEPS);
    expect_ok(exg_session_bind_output(m.session, 1, NULL, &m.err), &m.err);
    expect_ok(exg_session_run(m.session, inputs, 3, &m.err), &m.err);
    assert_float_equal(((float *)exg_session_output_at(m.session, 1)->tensor.data)[7],
                       cache_after(STEPS, 7) + x_of(STEPS - 1, 7), 1e-3);
    exg_session_free(m.session, block);
    close_session(&m);
}

static void a_result_goes_to_memory_of_the_hosts(void **state)
{
    static float cache[CACHE], got[2 * WIDTH];
    exg_output_binding place = {sizeof(place), got, sizeof(got), false};
    float x[WIDTH];
    exg_session_input inputs[3];
    made m;

    (void)state;
    for (int i = 0; i < CACHE; i++) {
        cache[i] = cache_after(0, i);
    }
    open_session(&m);
    inputs[0] = x_input(x, 0);
    inputs[1] = tensor_input("cache", cache, F32, ROWS, WIDTH);
    inputs[2] = tensor_input("rows", rows, EXG_DTYPE_I64, 2, 0);
    expect_ok(exg_session_bind_output(m.session, 0, &place, &m.err), &m.err);
    expect_ok(exg_session_run(m.session, inputs, 3, &m.err), &m.err);
    expect_result(got, 0);
    assert_ptr_equal(exg_session_output_at(m.session, 0)->tensor.data, got);
    close_session(&m);
}

/* ---- launched -------------------------------------------------------------------------------- */

static void runs_are_launched_and_waited_for(void **state)
{
    static float x[STEPS][WIDTH];
    float result[2 * WIDTH];
    exg_output_binding place = {sizeof(place), result, sizeof(result), false};
    int64_t wrong[2] = {0, ROWS};
    exg_session_input chosen = tensor_input("rows", wrong, EXG_DTYPE_I64, 2, 0);
    exg_session_input input;
    void *block;
    made m;

    (void)state;
    open_session(&m);
    bind_cache(&m, take_cache(&m, 0, &block));
    expect_ok(exg_session_bind_output(m.session, 0, &place, &m.err), &m.err);
    if (is_noted()) {
        keep_calls();
    }
    for (int step = 0; step < STEPS; step++) {
        input = x_input(x[step], step);
        expect_ok(exg_session_launch(m.session, &input, 1, &m.err), &m.err);
    }
    if (is_noted()) {
        assert_int_equal(calls_of("cuGraphLaunch"), STEPS - 1);
        drop_calls();
    }
    expect_ok(exg_session_wait(m.session, &m.err), &m.err);
    expect_result(result, STEPS - 1);
    expect_cache(&m, block, STEPS);
    expect_ok(exg_session_bind_input(m.session, &chosen, &m.err), &m.err);
    if (exg_session_launch(m.session, &input, 1, &m.err) == EXG_OK) { /* the host's is done */
        assert_int_equal(exg_session_wait(m.session, &m.err), EXG_MALFORMED);
    }
    assert_string_equal(m.err.code, "RUN-001");
    expect_ok(exg_session_wait(m.session, &m.err), &m.err);
    exg_session_free(m.session, block);
    close_session(&m);
}

/* ---- fences ---------------------------------------------------------------------------------- */

/* A run is over at its fence, without a wait for the session; and not before, where work is late.
 */
static void a_fence_is_over_with_the_runs_before_it(void **state)
{
    static float x[WIDTH];
    float result[2 * WIDTH] = {-1};
    exg_output_binding place = {sizeof(place), result, sizeof(result), false};
    exg_session_input input = x_input(x, 0);
    exg_fence *fence;
    void *block;
    made m;

    (void)state;
    open_session(&m);
    expect_ok(exg_session_fence(m.session, &fence, &m.err), &m.err); /* nothing is to be done */
    assert_null(exg_fence_event(fence));
    expect_ok(exg_fence_wait(fence, &m.err), &m.err);
    exg_fence_destroy(fence);
    bind_cache(&m, take_cache(&m, 0, &block));
    expect_ok(exg_session_bind_output(m.session, 0, &place, &m.err), &m.err);
    expect_ok(exg_session_launch(m.session, &input, 1, &m.err), &m.err);
    expect_ok(exg_session_fence(m.session, &fence, &m.err), &m.err);
    assert_int_equal(exg_fence_event(fence) != NULL, is_cuda());
    if (device != NULL && (!is_cuda() || is_standin())) {
        assert_float_equal(result[0], -1, 0);
    }
    expect_ok(exg_session_after(m.session, fence, &m.err), &m.err);
    expect_ok(exg_fence_wait(fence, &m.err), &m.err);
    expect_result(result, 0);
    exg_fence_destroy(fence);
    expect_ok(exg_session_wait(m.session, &m.err), &m.err);
    expect_cache(&m, block, 1);
    exg_session_free(m.session, block);
    close_session(&m);
}

/* Two sessions take turns with one cache; the device keeps the order, and the host none. Where they
 * cannot share memory, what one gives is the host's, and the other one waits for it. */
static void sessions_take_turns_by_fences(void **state)
{
    static float x[STEPS][WIDTH], result[STEPS][2 * WIDTH], passed[CACHE];
    bool shares = device == NULL || is_cuda();
    exg_output_binding place = {.size = sizeof(place), .bytes = sizeof(result[0])};
    exg_output_binding on_host = {sizeof(on_host), passed, sizeof(passed), false};
    exg_session_input inputs[2];
    exg_fence *fences[STEPS];
    void *block;
    made both[2];

    (void)state;
    open_session(&both[0]);
    open_session(&both[1]);
    (void)take_cache(&both[0], 0, &block);
    for (int i = 0; i < CACHE; i++) {
        passed[i] = cache_after(0, i);
    }
    for (int s = 0; s < 2; s++) {
        exg_session_input chosen = tensor_input("rows", rows, EXG_DTYPE_I64, 2, 0);

        if (shares) {
            bind_cache(&both[s], block);
        } else {
            expect_ok(exg_session_bind_input(both[s].session, &chosen, &both[s].err), &both[s].err);
            expect_ok(exg_session_bind_output(both[s].session, 1, &on_host, &both[s].err),
                      &both[s].err);
        }
    }
    for (int step = 0; step < STEPS; step++) {
        made *m = &both[step % 2];

        if (step == 2) { /* both have planned */
            keep_calls();
        }
        inputs[0] = x_input(x[step], step);
        inputs[1] = tensor_input("cache", passed, F32, ROWS, WIDTH);
        place.data = result[step];
        expect_ok(exg_session_bind_output(m->session, 0, &place, &m->err), &m->err);
        if (step > 0) {
            expect_ok(exg_session_after(m->session, fences[step - 1], &m->err), &m->err);
        }
        expect_ok(exg_session_launch(m->session, inputs, shares ? 1 : 2, &m->err), &m->err);
        expect_ok(exg_session_fence(m->session, &fences[step], &m->err), &m->err);
    }
    if (is_noted()) {
        assert_int_equal(calls_of("cuStreamWaitEvent"), STEPS - 2);
        assert_int_equal(calls_of("cuStreamSynchronize") + calls_of("cuEventSynchronize"), 0);
    }
    drop_calls();
    for (int s = 1; s >= 0; s--) { /* the later one first */
        expect_ok(exg_session_wait(both[s].session, &both[s].err), &both[s].err);
    }
    for (int step = 0; step < STEPS; step++) {
        expect_result(result[step], step);
        exg_fence_destroy(fences[step]);
    }
    exg_session_free(both[0].session, block);
    close_session(&both[1]);
    close_session(&both[0]);
}

/* ---- a stream of the caller's ---------------------------------------------------------------- */

static void a_run_keeps_the_order_of_a_stream(void **state)
{
    int (*create)(void **stream, unsigned flags);
    int (*retain)(void **context, int ordinal);
    int (*enter)(void *context);
    exg_session_options options = {.size = sizeof(options), .device = device};
    float x[WIDTH];
    exg_session_input input = x_input(x, 0);
    void *library, *block, *context;
    char *calls;
    made m;

    (void)state;
    if (!is_cuda()) {
        options.stream = x;
        expect_ok(open_with(&m, &options), &m.err);
        assert_int_equal(exg_session_run(m.session, &input, 1, &m.err), EXG_USAGE);
        assert_string_equal(m.err.code, "DEV-015");
        close_session(&m);
        return;
    }
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    *(void **)&create = dlsym(library, "cuStreamCreate");
    *(void **)&retain = dlsym(library, "cuDevicePrimaryCtxRetain");
    *(void **)&enter = dlsym(library, "cuCtxSetCurrent");
    assert_int_equal(retain(&context, 0) + enter(context) + create(&options.stream, 0), 0);
    expect_ok(open_with(&m, &options), &m.err);
    bind_cache(&m, take_cache(&m, 0, &block));
    expect_ok(exg_session_run(m.session, &input, 1, &m.err), &m.err);
    keep_calls();
    expect_ok(exg_session_launch(m.session, &input, 1, &m.err), &m.err);
    calls = calls_among((const char *const[]){"cuEventRecord", "cuStreamWaitEvent", NULL});
    if (is_noted()) {
        assert_string_equal(calls, "cuEventRecord e1 s1\ncuStreamWaitEvent s2 e1\n"
                                   "cuEventRecord e1 s2\ncuStreamWaitEvent s1 e1\n");
    }
    free(calls);
    drop_calls();
    expect_ok(exg_session_wait(m.session, &m.err), &m.err);
    exg_session_free(m.session, block);
    close_session(&m);
    (void)dlclose(library);
}

/* An event of the caller's before the run, and the run's own, for a stream of the caller's. */
static void a_run_keeps_the_order_of_events(void **state)
{
    int (*create)(void **stream, unsigned flags);
    int (*create_event)(void **event, unsigned flags);
    int (*record)(void *event, void *stream);
    int (*follow)(void *stream, void *event, unsigned flags);
    int (*copy_in)(uint64_t to, const void *from, size_t bytes, void *stream);
    int (*copy_out)(void *to, uint64_t from, size_t bytes, void *stream);
    int (*wait)(void *stream);
    int (*destroy)(void *event);
    static float given[CACHE], got[CACHE];
    static float x[WIDTH];
    exg_session_input input = x_input(x, 0);
    void *library, *block, *stream, *event;
    exg_fence *fence;
    made m;

    (void)state;
    open_session(&m);
    if (!is_cuda()) {
        assert_int_equal(exg_session_after_event(m.session, x, &m.err), EXG_USAGE);
        assert_string_equal(m.err.code, "DEV-015");
        close_session(&m);
        return;
    }
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    *(void **)&create = dlsym(library, "cuStreamCreate");
    *(void **)&create_event = dlsym(library, "cuEventCreate");
    *(void **)&record = dlsym(library, "cuEventRecord");
    *(void **)&follow = dlsym(library, "cuStreamWaitEvent");
    *(void **)&copy_in = dlsym(library, "cuMemcpyHtoDAsync_v2");
    *(void **)&copy_out = dlsym(library, "cuMemcpyDtoHAsync_v2");
    *(void **)&wait = dlsym(library, "cuStreamSynchronize");
    *(void **)&destroy = dlsym(library, "cuEventDestroy_v2");
    bind_cache(&m, take_cache(&m, 0, &block)); /* which enters the device */
    for (int i = 0; i < CACHE; i++) {
        given[i] = cache_after(0, i) + 100;
    }
    assert_int_equal(create(&stream, 1) + create_event(&event, 2), 0);
    assert_int_equal(copy_in((uint64_t)(uintptr_t)block, given, BYTES, stream), 0);
    assert_int_equal(record(event, stream), 0);
    expect_ok(exg_session_after_event(m.session, event, &m.err), &m.err);
    expect_ok(exg_session_launch(m.session, &input, 1, &m.err), &m.err);
    expect_ok(exg_session_fence(m.session, &fence, &m.err), &m.err);
    assert_int_equal(follow(stream, exg_fence_event(fence), 0), 0);
    assert_int_equal(setenv("EXG_STANDIN_AHEAD", "1", 1), 0);
    assert_int_equal(copy_out(got, (uint64_t)(uintptr_t)block, BYTES, stream) + wait(stream), 0);
    for (int i = 0; i < CACHE; i++) {
        assert_float_equal(got[i], cache_after(1, i) + 100, 1e-3);
    }
    assert_int_equal(unsetenv("EXG_STANDIN_AHEAD"), 0);
    exg_fence_destroy(fence);
    expect_ok(exg_session_wait(m.session, &m.err), &m.err);
    assert_int_equal(destroy(event), 0);
    exg_session_free(m.session, block);
    close_session(&m);
    (void)dlclose(library);
}

/* ---- a pool of the caller's ------------------------------------------------------------------ */

typedef struct pool {
    int (*take)(uint64_t *address, size_t bytes);
    int (*give)(uint64_t address);
    bool is_empty, is_of_host;
    uint64_t held, taken; /* bytes now, blocks ever */
} pool;

static void *take_block(void *user, size_t bytes, size_t alignment)
{
    pool *p = user;
    uint64_t address = 0;

    assert_int_equal(alignment, 256);
    if (p->is_empty) {
        return NULL;
    }
    p->held += bytes;
    p->taken++;
    if (p->is_of_host) {
        return aligned_alloc(256, (bytes + 255) / 256 * 256);
    }
    assert_int_equal(p->take(&address, bytes), 0);
    return (void *)(uintptr_t)address;
}

static void give_block(void *user, void *block, size_t bytes)
{
    pool *p = user;

    p->held -= bytes;
    if (p->is_of_host) {
        free(block);
    } else {
        assert_int_equal(p->give((uint64_t)(uintptr_t)block), 0);
    }
}

/* Opened or not, it does not run. */
static void expect_no_memory(const exg_session_options *options, exg_status status,
                             const char *code)
{
    float x[WIDTH];
    exg_session_input inputs[3] = {x_input(x, 0)};
    static float cache[CACHE];
    exg_status found;
    made m;

    inputs[1] = tensor_input("cache", cache, F32, ROWS, WIDTH);
    inputs[2] = tensor_input("rows", rows, EXG_DTYPE_I64, 2, 0);
    found = open_with(&m, options);
    if (found == EXG_OK) {
        found = exg_session_run(m.session, inputs, 3, &m.err);
    }
    assert_int_equal(found, status);
    assert_string_equal(m.err.code, code);
    close_session(&m);
}

static void memory_of_a_device_comes_from_a_pool_of_the_callers(void **state)
{
    pool p = {.held = 0};
    exg_allocator allocator = {take_block, give_block, &p};
    exg_session_options options = {
        .size = sizeof(options), .device = device, .device_allocator = &allocator};
    float x[WIDTH];
    exg_session_input input;
    void *library, *cache, *block;
    made m;

    (void)state;
    if (!is_cuda()) {
        expect_no_memory(&options, EXG_USAGE, "MEM-005");
        return;
    }
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    *(void **)&p.take = dlsym(library, "cuMemAlloc_v2");
    *(void **)&p.give = dlsym(library, "cuMemFree_v2");
    expect_ok(open_with(&m, &options), &m.err);
    cache = take_cache(&m, 0, &block);
    bind_cache(&m, cache);
    for (int step = 0; step < STEPS; step++) {
        input = x_input(x, step);
        expect_ok(exg_session_run(m.session, &input, 1, &m.err), &m.err);
        expect_result(exg_session_output_at(m.session, 0)->tensor.data, step);
    }
    expect_cache(&m, cache, STEPS);
    assert_true(p.taken > 0 && p.held > 0);
    exg_session_free(m.session, block);
    close_session(&m);
    assert_int_equal(p.held, 0);
    p.is_of_host = true;
    expect_no_memory(&options, EXG_USAGE, "MEM-003");
    p.is_empty = true;
    expect_no_memory(&options, EXG_NO_MEMORY, "MEM-002");
    assert_int_equal(p.held, 0);
    options.mesh = (exg_mesh_shape){1, {2}};
    expect_no_memory(&options, EXG_USAGE, "MEM-005");
    (void)dlclose(library);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void expect_refused(const made *m, exg_status status, const char *code)
{
    assert_int_equal(status, EXG_USAGE);
    assert_string_equal(m->err.code, code);
}

static void what_cannot_be_bound_is_refused(void **state)
{
    exg_session_options mesh = {.size = sizeof(mesh), .mesh = {1, {2}}, .device = device};
    static float here[CACHE];
    float x[WIDTH];
    exg_output_binding place = {sizeof(place), here, 4, false};
    exg_session_input input = tensor_input("catch", here, F32, ROWS, WIDTH);
    exg_session_input small = x_input(x, 0);
    void *block = NULL;
    made m;

    (void)state;
    open_session(&m);
    expect_refused(&m, exg_session_bind_input(m.session, &input, &m.err), "INP-001");
    expect_refused(&m, exg_session_bind_output(m.session, 3, &place, &m.err), "RUN-014");
    bind_cache(&m, take_cache(&m, 0, &block));
    expect_ok(exg_session_bind_output(m.session, 0, &place, &m.err), &m.err);
    expect_refused(&m, exg_session_run(m.session, &small, 1, &m.err), "RUN-014");
    expect_ok(exg_session_bind_output(m.session, 0, NULL, &m.err), &m.err);
    if (device != NULL) {
        place.on_device = true;
        expect_refused(&m, exg_session_bind_output(m.session, 0, &place, &m.err), "INP-015");
        small.on_device = true;
        expect_refused(&m, exg_session_run(m.session, &small, 1, &m.err), "INP-015");
        small.on_device = false;
    }
    expect_ok(exg_session_run(m.session, &small, 1, &m.err), &m.err);
    exg_session_free(m.session, block);
    close_session(&m);
    expect_ok(open_with(&m, &mesh), &m.err);
    expect_refused(&m, exg_session_bind_output(m.session, 0, &place, &m.err), "INP-015");
    exg_session_free(m.session, NULL);
    close_session(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cache_is_brought_up_to_date_in_place),
        cmocka_unit_test(what_was_there_before_can_be_kept),
        cmocka_unit_test(a_result_on_the_device_is_an_input_there),
        cmocka_unit_test(a_result_goes_to_memory_of_the_hosts),
        cmocka_unit_test(runs_are_launched_and_waited_for),
        cmocka_unit_test(a_fence_is_over_with_the_runs_before_it),
        cmocka_unit_test(sessions_take_turns_by_fences),
        cmocka_unit_test(a_run_keeps_the_order_of_a_stream),
        cmocka_unit_test(a_run_keeps_the_order_of_events),
        cmocka_unit_test(memory_of_a_device_comes_from_a_pool_of_the_callers),
        cmocka_unit_test(what_cannot_be_bound_is_refused),
    };

    device = getenv("EXG_TEST_DEVICE");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
