/* The CUDA plugin on stand-ins for its libraries: what it asks of them, and what becomes of
 * faults. */
#include "libexec/kernels/kernels.h"
#include "tests/exec/cuda/calls.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define LONG_BYTES (20u << 20) /* three parts of a staged copy */

static char folder[64]; /* of this run's cache and log */
static const exg_device_table *table;
static exg_error err;

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof(folder), "/tmp/exg-cuda-XXXXXX");
    assert_non_null(mkdtemp(folder));
    assert_int_equal(setenv("XDG_CACHE_HOME", folder, 1), 0);
    exg_error_clear(&err);
    table = cuda_table();
    return 0;
}

/* One file deep. */
static int tear_down(void **state)
{
    char path[512];
    char inner[128];
    DIR *directory;

    (void)state;
    (void)snprintf(inner, sizeof(inner), "%s/exg", folder);
    directory = opendir(inner);
    for (struct dirent *e = directory == NULL ? NULL : readdir(directory); e != NULL;
         e = readdir(directory)) {
        (void)snprintf(path, sizeof(path), "%s/%s", inner, e->d_name);
        (void)unlink(path);
    }
    if (directory != NULL) {
        (void)closedir(directory);
    }
    (void)rmdir(inner);
    (void)snprintf(path, sizeof(path), "%s/log", folder);
    (void)unlink(path);
    (void)rmdir(folder);
    return 0;
}

static exg_accelerator *open_device(void)
{
    exg_accelerator *device;

    expect_ok(table->open(0, &device, &err), &err);
    return device;
}

static void *allocate(exg_accelerator *device, uint64_t bytes)
{
    void *address;

    expect_ok(table->allocate(device, bytes, &address, &err), &err);
    return address;
}

/* A transposition of (3, 2), prepared. */
typedef struct turn {
    exg_tensor in, out;
    exg_kernel_call call;
    const exg_kernel *kernel;
} turn;

static void prepare_turn(turn *t, exg_accelerator *device)
{
    *t = (turn){.in = {.dtype = EXG_DTYPE_F32, .rank = 2, .sizes = {3, 2}, .strides = {1, 3}},
                .out = {.dtype = EXG_DTYPE_F32, .rank = 2, .sizes = {3, 2}, .strides = {2, 1}}};
    t->call = (exg_kernel_call){.inputs = &t->in,
                                .outputs = &t->out,
                                .input_count = 1,
                                .output_count = 1,
                                .device = device};
    t->call.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    t->kernel = table->kernel_of(&exg_kernel_copy);
    assert_non_null(t->kernel);
    assert_ptr_equal(table->kernel_of(t->kernel), t->kernel);
    expect_ok(t->kernel->prepare(&t->call, &err), &err);
    t->in.data = allocate(device, 24);
    t->out.data = allocate(device, 24);
}

static const float numbers[6] = {1, 2, 3, 4, 5, 6};
static const float turned[6] = {1, 4, 2, 5, 3, 6};

static void run_turn(turn *t, exg_accelerator *device, float *result)
{
    expect_ok(table->copy_in(device, t->in.data, numbers, sizeof(numbers), &err), &err);
    expect_ok(table->launch(device, t->kernel, &t->call, 1, &err), &err);
    expect_ok(table->copy_out(device, result, t->out.data, sizeof(numbers), &err), &err);
    expect_ok(table->wait(device, &err), &err);
}

/* Opens a device, runs the transposition, closes: must be right. */
static void turn_once(void)
{
    exg_accelerator *device = open_device();
    float result[6] = {0};
    turn t;

    prepare_turn(&t, device);
    run_turn(&t, device, result);
    assert_memory_equal(result, turned, sizeof(turned));
    exg_arena_destroy(t.call.arena);
    table->close(device);
}

/* ---- the call sequence -------------------------------------------------------------------- */

static void log_to(const char *name, char *path, size_t bytes)
{
    (void)snprintf(path, bytes, "%s/%s", folder, name);
    (void)unlink(path);
    assert_int_equal(setenv("EXG_STANDIN_LOG", path, 1), 0);
}

static void a_small_run_asks_the_driver_for_what_the_golden_file_says(void **state)
{
    char path[128];
    char *log;
    char *golden = read_whole("tests/exec/cuda/calls.txt");
    exg_accelerator *device;
    exg_device_graph *graph;
    float result[6];
    turn t;

    (void)state;
    log_to("log", path, sizeof(path));
    device = open_device();
    prepare_turn(&t, device);
    run_turn(&t, device, result);
    expect_ok(table->record(device, &err), &err);
    expect_ok(table->launch(device, t.kernel, &t.call, 1, &err), &err);
    expect_ok(table->recorded(device, &graph, &err), &err);
    expect_ok(table->replay(device, graph, &err), &err);
    expect_ok(table->wait(device, &err), &err);
    table->forget(device, graph);
    table->release(device, t.in.data);
    table->close(device);
    exg_arena_destroy(t.call.arena);
    assert_int_equal(unsetenv("EXG_STANDIN_LOG"), 0);
    log = read_whole(path);
    assert_string_equal(log, golden);
    free(log);
    free(golden);
}

/* ---- copies, graphs --------------------------------------------------------------------- */

static void long_copies_pass_through_two_buffers_unharmed(void **state)
{
    exg_accelerator *device = open_device();
    uint32_t *from = malloc(LONG_BYTES);
    uint32_t *to = calloc(1, LONG_BYTES);
    void *address = allocate(device, LONG_BYTES);

    (void)state;
    assert_non_null(from);
    assert_non_null(to);
    for (uint32_t i = 0; i < LONG_BYTES / 4; i++) {
        from[i] = i * 2654435761u;
    }
    expect_ok(table->copy_in(device, address, from, LONG_BYTES, &err), &err);
    expect_ok(table->copy_out(device, to, address, LONG_BYTES, &err), &err);
    expect_ok(table->wait(device, &err), &err);
    assert_memory_equal(from, to, LONG_BYTES);
    free(from);
    free(to);
    table->close(device);
}

static void what_is_recorded_runs_when_it_is_replayed_and_not_before(void **state)
{
    exg_accelerator *device = open_device();
    exg_device_graph *graph;
    float result[6];
    float twice[6];
    turn t;

    (void)state;
    prepare_turn(&t, device);
    expect_ok(table->record(device, &err), &err);
    expect_ok(table->launch(device, t.kernel, &t.call, 1, &err), &err);
    expect_ok(table->recorded(device, &graph, &err), &err);
    expect_ok(table->copy_in(device, t.in.data, numbers, sizeof(numbers), &err), &err);
    expect_ok(table->copy_out(device, result, t.out.data, sizeof(result), &err), &err);
    expect_ok(table->wait(device, &err), &err);
    assert_true(isnan(result[0])); /* nobody wrote it */
    expect_ok(table->replay(device, graph, &err), &err);
    expect_ok(table->copy_out(device, result, t.out.data, sizeof(result), &err), &err);
    expect_ok(table->wait(device, &err), &err);
    assert_memory_equal(result, turned, sizeof(turned));
    for (int i = 0; i < 6; i++) {
        twice[i] = 2 * numbers[i];
    }
    expect_ok(table->copy_in(device, t.in.data, twice, sizeof(twice), &err), &err);
    expect_ok(table->replay(device, graph, &err), &err);
    expect_ok(table->copy_out(device, result, t.out.data, sizeof(result), &err), &err);
    expect_ok(table->wait(device, &err), &err);
    assert_true(result[1] == 2 * turned[1]);
    table->forget(device, graph);
    exg_arena_destroy(t.call.arena);
    table->close(device);
}

/* ---- the cache -------------------------------------------------------------------------- */

/* The only file of the cache. */
static void find_cached(char *path, size_t bytes)
{
    char inner[128];
    DIR *directory;
    uint32_t count = 0;

    (void)snprintf(inner, sizeof(inner), "%s/exg", folder);
    directory = opendir(inner);
    assert_non_null(directory);
    for (struct dirent *e = readdir(directory); e != NULL; e = readdir(directory)) {
        if (e->d_name[0] != '.') {
            (void)snprintf(path, bytes, "%s/%s", inner, e->d_name);
            count++;
        }
    }
    (void)closedir(directory);
    assert_int_equal(count, 1);
}

/* Did a run of the transposition call the compiler? */
static bool compiles(void)
{
    char path[128];
    char *log;
    bool found;

    log_to("log", path, sizeof(path));
    turn_once();
    assert_int_equal(unsetenv("EXG_STANDIN_LOG"), 0);
    log = read_whole(path);
    found = strstr(log, "nvrtcCompileProgram") != NULL;
    free(log);
    return found;
}

static void compiled_code_is_kept_and_what_is_not_whole_is_made_again(void **state)
{
    char path[512];
    struct stat s;
    char byte;
    int file;

    (void)state;
    assert_true(compiles());
    assert_false(compiles());
    find_cached(path, sizeof(path));
    assert_int_equal(stat(path, &s), 0);
    for (off_t length = 0; length < s.st_size; length += s.st_size / 5) {
        assert_int_equal(truncate(path, length), 0);
        assert_true(compiles());
        assert_false(compiles());
    }
    file = open(path, O_RDWR);
    assert_int_equal(pread(file, &byte, 1, s.st_size / 2), 1);
    byte ^= 1;
    assert_int_equal(pwrite(file, &byte, 1, s.st_size / 2), 1);
    (void)close(file);
    assert_true(compiles());
}

static void a_cache_that_cannot_be_written_is_no_fault(void **state)
{
    (void)state;
    assert_int_equal(setenv("XDG_CACHE_HOME", "/proc/nowhere", 1), 0);
    assert_true(compiles());
    assert_true(compiles());
}

/* What runs on the device comes from there. */
static void a_cache_that_others_may_write_is_not_used(void **state)
{
    char inner[128];

    (void)state;
    (void)snprintf(inner, sizeof(inner), "%s/exg", folder);
    assert_int_equal(mkdir(inner, 0700), 0);
    assert_int_equal(chmod(inner, 0777), 0);
    assert_true(compiles());
    assert_true(compiles());
    assert_int_equal(chmod(inner, 0700), 0);
    assert_true(compiles());
    assert_false(compiles());
}

/* The stand-in for NVRTC knows sm_75 to sm_100. */
static void a_card_newer_than_the_compiler_gets_ptx(void **state)
{
    static const char *const cards[] = {"103", "120"};
    char path[128];

    (void)state;
    for (size_t i = 0; i < sizeof(cards) / sizeof(cards[0]); i++) {
        char *log;

        assert_int_equal(setenv("EXG_STANDIN_ARCHITECTURE", cards[i], 1), 0);
        log_to("log", path, sizeof(path));
        turn_once();
        assert_int_equal(unsetenv("EXG_STANDIN_LOG"), 0);
        log = read_whole(path);
        if (i == 0) {
            assert_non_null(strstr(log, "--gpu-architecture=compute_100\n"));
            assert_non_null(strstr(log, "nvrtcGetPTX\n"));
        } else { /* the other card takes the same from the cache */
            assert_null(strstr(log, "nvrtcCompileProgram"));
        }
        free(log);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(unsetenv("EXG_STANDIN_ARCHITECTURE"), 0);
    }
}

static void several_writers_leave_one_whole_file(void **state)
{
    char path[512];
    pid_t children[4];
    int code;

    (void)state;
    for (int i = 0; i < 4; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            turn_once();
            _exit(0);
        }
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(waitpid(children[i], &code, 0), children[i]);
        assert_int_equal(code, 0);
    }
    find_cached(path, sizeof(path));
    assert_false(compiles());
}

/* ---- faults ----------------------------------------------------------------------------- */

static void expect_code(exg_status got, exg_status status, const char *code)
{
    assert_int_equal(got, status);
    assert_string_equal(err.code, code);
    assert_true(err.fix[0] != '\0');
}

/* With a variable of the stand-ins set. */
static exg_status open_with(const char *name, const char *value)
{
    exg_accelerator *device;
    exg_status status;

    assert_int_equal(setenv(name, value, 1), 0);
    status = table->open(0, &device, &err);
    assert_null(device);
    assert_int_equal(unsetenv(name), 0);
    return status;
}

static void what_is_missing_or_too_old_has_a_code_and_a_fix(void **state)
{
    exg_accelerator *device;
    turn t;

    (void)state;
    expect_code(open_with("EXG_STANDIN_DEVICES", "0"), EXG_DEVICE, "DEV-005");
    expect_code(open_with("EXG_STANDIN_VERSION", "11080"), EXG_DEVICE, "DEV-006");
    expect_code(open_with("EXG_STANDIN_VERSION", "12000"), EXG_DEVICE, "DEV-004"); /* no .so.12 */
    expect_code(open_with("EXG_STANDIN_ARCHITECTURE", "70"), EXG_DEVICE, "DEV-004");
    assert_non_null(strstr(err.message, "sm_70"));
    device = open_device();
    t = (turn){.in = {.dtype = EXG_DTYPE_F32, .rank = 1, .sizes = {2}, .strides = {1}}};
    t.out = t.in;
    t.call = (exg_kernel_call){
        .inputs = &t.in, .outputs = &t.out, .input_count = 1, .output_count = 1, .device = device};
    t.call.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    assert_int_equal(setenv("EXG_STANDIN_BROKEN", "1", 1), 0);
    expect_code(table->kernel_of(&exg_kernel_copy)->prepare(&t.call, &err), EXG_DEVICE, "DEV-007");
    assert_non_null(strstr(err.message, "it is broken"));
    assert_int_equal(unsetenv("EXG_STANDIN_BROKEN"), 0);
    exg_arena_destroy(t.call.arena);
    table->close(device);
}

static void too_little_memory_says_what_is_free_and_leaves_nothing_taken(void **state)
{
    exg_accelerator *device = open_device();
    exg_device_info before;
    exg_device_info after;
    void *address;

    (void)state;
    expect_ok(table->describe(0, &before, &err), &err);
    assert_string_equal(before.architecture, "sm_90");
    assert_string_equal(before.libraries, "no cuBLASLt, no cuDNN");
    expect_code(table->allocate(device, before.memory_bytes + 1, &address, &err), EXG_NO_MEMORY,
                "MEM-004");
    assert_null(address);
    assert_non_null(strstr(err.message, "are free"));
    (void)allocate(device, 1000);
    table->release(device, allocate(device, 1000));
    table->close(device);
    device = open_device();
    expect_ok(table->describe(0, &after, &err), &err);
    assert_true(after.free_bytes == before.free_bytes);
    table->close(device);
}

/* As rows.h says. Of these add_rows, cummax, cummin, distances, edge_pad, resample and
 * weighted_gather are written out before (host_operators.h). */
static void what_has_no_row_is_left_to_the_host(void **state)
{
    static const char *const hosts[] = {
        "add_rows",
        "cholesky_factor",
        "convolution_of_bytes",
        "cummax",
        "cummin",
        "distances",
        "edge_pad",
        "effect",
        "eig",
        "eigh",
        "fft",
        "fft_from_real",
        "fft_to_real",
        "householder",
        "ldl_factor",
        "ldl_solve",
        "lu_factor",
        "matrix_exp",
        "pivots_order",
        "qr_factor",
        "resample",
        "row_order",
        "solve_triangular",
        "svd_factor",
        "weighted_gather",
    };
    static const exg_kernel *const all[] = {
#define EXG_KERNEL_AT(name) &exg_kernel_##name,
        EXG_KERNELS(EXG_KERNEL_AT)
#undef EXG_KERNEL_AT
    };
    size_t found = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (table->kernel_of(all[i]) == NULL) {
            assert_true(found < sizeof(hosts) / sizeof(hosts[0]));
            assert_string_equal(all[i]->name, hosts[found++]);
        }
    }
    assert_int_equal(found, sizeof(hosts) / sizeof(hosts[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        CASE(a_small_run_asks_the_driver_for_what_the_golden_file_says),
        CASE(long_copies_pass_through_two_buffers_unharmed),
        CASE(what_is_recorded_runs_when_it_is_replayed_and_not_before),
        CASE(compiled_code_is_kept_and_what_is_not_whole_is_made_again),
        CASE(a_cache_that_cannot_be_written_is_no_fault),
        CASE(a_cache_that_others_may_write_is_not_used),
        CASE(a_card_newer_than_the_compiler_gets_ptx),
        CASE(several_writers_leave_one_whole_file),
        CASE(what_has_no_row_is_left_to_the_host),
        CASE(what_is_missing_or_too_old_has_a_code_and_a_fix),
        CASE(too_little_memory_says_what_is_free_and_leaves_nothing_taken),
    };

    return cmocka_run_group_tests_name("cuda", tests, NULL, NULL);
}
