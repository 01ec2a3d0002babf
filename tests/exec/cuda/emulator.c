/* The nets that stand in for a GPU, each with a fault planted for it to catch: kernels' own
 * texts with a barrier taken out, a host that does not wait or follows a device's address,
 * a write behind a block. */
#include "libexec/device/cuda/driver.h"
#include "libexec/kernels/cuda/params.h"
#include "libexport/base/element.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define THREADS 256

static const char *const headers[] = {
    "libexport/base/element.h",      "libexec/kernels/convert.def",
    "libexec/kernels/cuda/common.h", "libexec/kernels/cuda/params.h",
    "libexec/kernels/math_f32.h",    "libexec/kernels/cuda/block.h",
    "libexec/kernels/cuda/tile.h",   "libexec/kernels/cuda/row.h",
    "libexec/kernels/cuda/gemm.h",   "libexec/kernels/cuda/half_tiles.h",
    "libexec/kernels/cuda/matrix.h",
};
#define HEADER_COUNT (sizeof(headers) / sizeof(headers[0]))

static exg_cuda_driver driver;
static exg_nvrtc nvrtc;
static cuda_context context;
static cuda_stream stream;
static exg_error err;
static cuda_module modules[32];
static uint32_t module_count;

static int set_up(void **state)
{
    (void)state;
    exg_error_clear(&err);
    assert_int_equal(exg_cuda_driver_open(&driver, &err), EXG_OK);
    assert_int_equal(exg_nvrtc_open(&driver, 90, &nvrtc, &err), EXG_OK);
    assert_int_equal(driver.context_retain(&context, 0), 0);
    assert_int_equal(driver.context_set(context), 0);
    assert_int_equal(driver.stream_create(&stream, CUDA_STREAM_NON_BLOCKING), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    while (module_count > 0) {
        (void)driver.module_unload(modules[--module_count]);
    }
    (void)driver.stream_destroy(stream);
    return 0;
}

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = calloc(1, 1 << 16);

    assert_non_null(file);
    assert_non_null(text);
    (void)fread(text, 1, (1 << 16) - 1, file);
    (void)fclose(file);
    return text;
}

/* Takes barrier `number` (from 0) out of the text; false: it has none. */
static bool take_barrier_out(char *text, int number)
{
    char *at = strstr(text, "BARRIER();");

    for (; at != NULL && number > 0; number--) {
        at = strstr(at + 1, "BARRIER();");
    }
    if (at != NULL) {
        memset(at, ' ', strlen("BARRIER()"));
    }
    return at != NULL;
}

static cuda_function load(const char *text, char **texts, const char *entry,
                          const char *const *options, int option_count)
{
    nvrtc_program program;
    cuda_module module;
    cuda_function function;
    size_t bytes;
    char *code;

    assert_int_equal(
        nvrtc.create(&program, text, entry, HEADER_COUNT, (const char *const *)texts, headers), 0);
    assert_int_equal(nvrtc.compile(program, option_count, options), 0);
    assert_int_equal(nvrtc.cubin_bytes(program, &bytes), 0);
    code = malloc(bytes);
    assert_non_null(code);
    assert_int_equal(nvrtc.cubin(program, code), 0);
    assert_int_equal(driver.module_load(&module, code), 0);
    assert_true(module_count < 32);
    modules[module_count++] = module;
    assert_int_equal(driver.module_function(&function, module, entry), 0);
    (void)nvrtc.destroy(&program);
    free(code);
    return function;
}

/* `file`'s kernel; without barrier `without` of header `planted` where that is not NULL, or
 * of the file itself where it is the file. */
static cuda_function kernel_of(const char *file, const char *entry, const char *const *options,
                               int option_count, const char *planted, int without)
{
    char *texts[HEADER_COUNT];
    char *text = read_text(file);
    cuda_function function;

    for (size_t i = 0; i < HEADER_COUNT; i++) {
        texts[i] = read_text(headers[i]);
        if (planted != NULL && strcmp(planted, headers[i]) == 0) {
            assert_true(take_barrier_out(texts[i], without));
        }
    }
    if (planted != NULL && strcmp(planted, file) == 0) {
        assert_true(take_barrier_out(text, without));
    }
    function = load(text, texts, entry, options, option_count);
    for (size_t i = 0; i < HEADER_COUNT; i++) {
        free(texts[i]);
    }
    free(text);
    return function;
}

static cuda_result launch(cuda_function function, uint32_t blocks, void *params, size_t bytes)
{
    void *extra[] = {CUDA_LAUNCH_BYTES, params, CUDA_LAUNCH_SIZE, &bytes, CUDA_LAUNCH_END};

    return driver.launch(function, blocks, 1, 1, THREADS, 1, 1, 0, stream, NULL, extra);
}

static void *device_memory(size_t bytes)
{
    cuda_address address;

    assert_int_equal(driver.memory_alloc(&address, bytes), 0);
    return (void *)(uintptr_t)address;
}

static void give_back(void *memory)
{
    (void)driver.memory_free((cuda_address)(uintptr_t)memory);
}

/* ---- barriers ------------------------------------------------------------------------------ */

#define SIZE 96 /* of the product: two tiles, one in part */

/* A product of diagonal matrices by gemm.cu, or of bfloat16 by gemm_tiles.cu: how many elements
 * are wrong. */
static int wrong_of_gemm(bool of_halves, const char *planted, int without)
{
    static const char *const options[] = {"-D__FMA__", "-DA=F32", "-DB=F32", "-DRESULT=F32"};
    static const char *const of_tiles[] = {"-D__FMA__", "-DX=BF16", "-DRESULT=F32", "-DA_BY_DEPTH"};
    cuda_function function =
        of_halves ? kernel_of("libexec/kernels/cuda/gemm_tiles.cu", "gemm_tiles", of_tiles, 4,
                              planted, without)
                  : kernel_of("libexec/kernels/cuda/gemm.cu", "gemm", options, 4, planted, without);
    float *ones = malloc(SIZE * SIZE * sizeof(float));
    void *a = device_memory(SIZE * SIZE * sizeof(float));
    void *c = device_memory(SIZE * SIZE * sizeof(float));
    cuda_gemm_params params = {.a = a,
                               .b = a,
                               .c = c,
                               .batch = 1,
                               .m = SIZE,
                               .n = SIZE,
                               .k = SIZE,
                               .of_a = {0, SIZE, 1},
                               .of_b = {0, SIZE, 1},
                               .alpha = 1};
    int wrong = 0;

    assert_non_null(ones);
    for (int i = 0; i < SIZE * SIZE; i++) {
        float x = (float)(i % SIZE == i / SIZE) * (float)(i % SIZE + 1); /* a diagonal */

        if (of_halves) {
            ((uint16_t *)ones)[i] = exg_f32_to_bf16(x);
        } else {
            ones[i] = x;
        }
    }
    assert_int_equal(
        driver.copy_in((cuda_address)(uintptr_t)a, ones, SIZE * SIZE * sizeof(float), stream), 0);
    assert_int_equal(launch(function, 4, &params, sizeof(params)), 0);
    assert_int_equal(driver.stream_wait(stream), 0);
    assert_int_equal(
        driver.copy_out(ones, (cuda_address)(uintptr_t)c, SIZE * SIZE * sizeof(float), stream), 0);
    assert_int_equal(driver.stream_wait(stream), 0);
    for (int i = 0; i < SIZE * SIZE; i++) {
        int side = i % SIZE + 1;

        wrong += ones[i] != (i % SIZE == i / SIZE ? (float)(side * side) : 0);
    }
    free(ones);
    give_back(a);
    give_back(c);
    return wrong;
}

/* norm.cu over rows of -1 and 1, which are normal already: how many elements it changes. */
static int wrong_of_norm(const char *planted, int without)
{
    static const char *const options[] = {"-D__FMA__",  "-DX=F32",    "-DWEIGHT=F32",
                                          "-DBIAS=F32", "-DMEAN=F32", "-DFACTOR=F32",
                                          "-DLAYER"};
    cuda_function function =
        kernel_of("libexec/kernels/cuda/norm.cu", "normalize", options, 7, planted, without);
    float rows[8 * 512];
    void *x = device_memory(sizeof(rows));
    cuda_norm_params params = {.in = x, .out = x, .rows = 8, .size = 512, .area = 1};
    int wrong = 0;

    for (int i = 0; i < 8 * 512; i++) {
        rows[i] = i % 2 == 0 ? -1.0f : 1.0f;
    }
    assert_int_equal(driver.copy_in((cuda_address)(uintptr_t)x, rows, sizeof(rows), stream), 0);
    assert_int_equal(launch(function, 3, &params, sizeof(params)), 0);
    assert_int_equal(driver.copy_out(rows, (cuda_address)(uintptr_t)x, sizeof(rows), stream), 0);
    assert_int_equal(driver.stream_wait(stream), 0);
    for (int i = 0; i < 8 * 512; i++) {
        wrong += !(fabsf(rows[i] - (i % 2 == 0 ? -1.0f : 1.0f)) < 1e-6f);
    }
    give_back(x);
    return wrong;
}

static void every_barrier_of_gemm_and_of_blocks_is_missed_when_it_is_gone(void **state)
{
    (void)state;
    assert_int_equal(wrong_of_gemm(false, NULL, 0), 0);
    assert_true(wrong_of_gemm(false, "libexec/kernels/cuda/gemm.cu", 0) > 0);
    assert_true(wrong_of_gemm(false, "libexec/kernels/cuda/gemm.cu", 1) > 0);
    assert_int_equal(wrong_of_gemm(true, NULL, 0), 0);
    assert_true(wrong_of_gemm(true, "libexec/kernels/cuda/gemm_tiles.cu", 0) > 0);
    assert_true(wrong_of_gemm(true, "libexec/kernels/cuda/gemm_tiles.cu", 1) > 0);
    assert_int_equal(wrong_of_norm(NULL, 0), 0);
    assert_true(wrong_of_norm("libexec/kernels/cuda/block.h", 0) > 0);
    assert_true(wrong_of_norm("libexec/kernels/cuda/block.h", 1) > 0);
}

/* ---- texts with faults ------------------------------------------------------------------ */

typedef struct out_params {
    float *out;
    int64_t count;
} out_params;

#define OUT_TEXT(body)                                                                             \
    "#include \"libexec/kernels/cuda/common.h\"\n"                                                 \
    "typedef struct out_params { float *out; int64_t count; } out_params;\n"                       \
    "KERNEL(plant, out_params) { " body " }\n"

static cuda_function plant_of(const char *text)
{
    char *texts[HEADER_COUNT];
    cuda_function function;

    for (size_t i = 0; i < HEADER_COUNT; i++) {
        texts[i] = read_text(headers[i]);
    }
    function = load(text, texts, "plant", NULL, 0);
    for (size_t i = 0; i < HEADER_COUNT; i++) {
        free(texts[i]);
    }
    return function;
}

/* In a process of its own: a fault of the context stays. Gives waitpid's code. */
static int in_child(void (*work)(void))
{
    int code = 0;
    pid_t child = fork();

    if (child == 0) {
        (void)signal(SIGSEGV, SIG_DFL);
        (void)freopen("/dev/null", "w", stderr);
        work();
        _exit(0);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &code, 0), child);
    return code;
}

/* Runs a text over 64 floats; ends the process with the driver's answer to waiting. */
static void run_and_tell(const char *text)
{
    out_params params = {.out = device_memory(64 * sizeof(float)), .count = 64};

    if (launch(plant_of(text), 1, &params, sizeof(params)) != 0) {
        _exit(100);
    }
    _exit(driver.stream_wait(stream) % 256);
}

static void write_behind(void)
{
    run_and_tell(OUT_TEXT("if (THREAD == 0) { p.out[p.count] = 1; }"));
}

static void write_inside(void)
{
    run_and_tell(OUT_TEXT("if (THREAD < p.count) { p.out[THREAD] = 1; }"));
}

static void half_a_barrier(void)
{
    run_and_tell(OUT_TEXT("if (THREAD < 128) { BARRIER(); }"));
}

static void half_a_shuffle(void)
{
    run_and_tell(OUT_TEXT("if (THREAD % 2 == 0) { p.out[0] = shuffle_f32(1, 1); }"));
}

static bool fails(int code)
{
    return !WIFEXITED(code) || WEXITSTATUS(code) != 0;
}

static void a_write_behind_a_block_is_noticed(void **state)
{
    (void)state;
    assert_false(fails(in_child(write_inside)));
    assert_true(fails(in_child(write_behind)));
}

static void a_barrier_or_shuffle_that_not_all_reach_is_noticed(void **state)
{
    (void)state;
    assert_int_equal(WEXITSTATUS(in_child(half_a_barrier)), 719 % 256);
    assert_int_equal(WEXITSTATUS(in_child(half_a_shuffle)), 719 % 256);
}

/* ---- the host --------------------------------------------------------------------------- */

static void follow_address(void)
{
    volatile float *there = device_memory(16);

    _exit(there[0] != 0);
}

static void a_host_that_follows_a_devices_address_faults(void **state)
{
    int code = in_child(follow_address);

    (void)state;
    /* the sanitizer ends the process itself */
    assert_true(WIFSIGNALED(code) ? WTERMSIG(code) == SIGSEGV : WEXITSTATUS(code) > 1);
}

static void who_does_not_wait_reads_nothing(void **state)
{
    float before[4] = {1, 2, 3, 4};
    float after[4] = {0};
    void *there = device_memory(16);

    (void)state;
    assert_int_equal(driver.copy_in((cuda_address)(uintptr_t)there, before, 16, stream), 0);
    assert_int_equal(driver.copy_out(after, (cuda_address)(uintptr_t)there, 16, stream), 0);
    assert_true(after[0] == 0); /* a missing wait */
    assert_int_equal(driver.stream_wait(stream), 0);
    assert_memory_equal(before, after, 16);
    give_back(there);
}

/* A staging buffer filled again before its copy was over sends the newer bytes. */
static void a_buffer_used_again_without_its_event_is_spoilt(void **state)
{
    float stage[4] = {1, 2, 3, 4};
    float result[8];
    void *there = device_memory(32);
    cuda_event event;

    (void)state;
    assert_int_equal(driver.event_create(&event, CUDA_EVENT_NO_TIMING), 0);
    for (int waits = 0; waits < 2; waits++) {
        stage[0] = 1;
        assert_int_equal(driver.copy_in((cuda_address)(uintptr_t)there, stage, 16, stream), 0);
        assert_int_equal(driver.event_record(event, stream), 0);
        if (waits) {
            assert_int_equal(driver.event_wait(event), 0);
        }
        stage[0] = 9;
        assert_int_equal(driver.copy_in((cuda_address)(uintptr_t)there + 16, stage, 16, stream), 0);
        assert_int_equal(driver.copy_out(result, (cuda_address)(uintptr_t)there, 32, stream), 0);
        assert_int_equal(driver.stream_wait(stream), 0);
        assert_true(result[0] == (waits ? 1 : 9));
    }
    (void)driver.event_destroy(event);
    give_back(there);
}

static void fresh_memory_and_a_blocks_shared_memory_are_nan(void **state)
{
    static const char text[] =
        OUT_TEXT("SHARED float s[4]; if (THREAD == 0) { p.out[BLOCK_X] = s[1]; s[1] = 5; }");
    float result[4] = {0};
    out_params params = {.out = device_memory(16), .count = 4};

    (void)state;
    assert_int_equal(driver.copy_out(result, (cuda_address)(uintptr_t)params.out, 16, stream), 0);
    assert_int_equal(driver.stream_wait(stream), 0);
    assert_true(isnan(result[0]) && isnan(result[3]));
    memset(result, 0, sizeof(result));
    assert_int_equal(driver.copy_in((cuda_address)(uintptr_t)params.out, result, 16, stream), 0);
    assert_int_equal(launch(plant_of(text), 4, &params, sizeof(params)), 0);
    assert_int_equal(driver.copy_out(result, (cuda_address)(uintptr_t)params.out, 16, stream), 0);
    assert_int_equal(driver.stream_wait(stream), 0);
    assert_true(isnan(result[0]) && isnan(result[1]) && isnan(result[2]) && isnan(result[3]));
    give_back(params.out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_barrier_of_gemm_and_of_blocks_is_missed_when_it_is_gone),
        cmocka_unit_test(a_write_behind_a_block_is_noticed),
        cmocka_unit_test(a_barrier_or_shuffle_that_not_all_reach_is_noticed),
        cmocka_unit_test(a_host_that_follows_a_devices_address_faults),
        cmocka_unit_test(who_does_not_wait_reads_nothing),
        cmocka_unit_test(a_buffer_used_again_without_its_event_is_spoilt),
        cmocka_unit_test(fresh_memory_and_a_blocks_shared_memory_are_nan),
    };

    return cmocka_run_group_tests_name("emulator", tests, set_up, tear_down);
}
