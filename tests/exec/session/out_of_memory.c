/* out_of_memory.c - the n-th request of the process for memory gets nothing, or no request from
 * the n-th on: every call says NO_MEMORY or goes on without, and what was taken is given back.
 * Libraries that are linked ask here too. glibc alone, and no sanitizer, which has its own malloc.
 */
#include <exg/diff.h>
#include <exg/exec.h>
#include <exg/export.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *block);

static _Atomic bool counts;
static _Atomic uint64_t requests, refuse_first, refuse_last;
static _Atomic int64_t live;

static bool is_refused(void)
{
    uint64_t n = atomic_load(&counts) ? atomic_fetch_add(&requests, 1) + 1 : 0;

    return n > 0 && n >= atomic_load(&refuse_first) && n <= atomic_load(&refuse_last);
}

static void *taken(void *block)
{
    atomic_fetch_add(&live, block != NULL);
    return block;
}

void *malloc(size_t bytes)
{
    return is_refused() ? NULL : taken(__libc_malloc(bytes));
}

void *calloc(size_t count, size_t bytes)
{
    return is_refused() ? NULL : taken(__libc_calloc(count, bytes));
}

void *realloc(void *block, size_t bytes)
{
    if (is_refused()) {
        return NULL;
    }
    return block == NULL ? taken(__libc_malloc(bytes)) : __libc_realloc(block, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    return is_refused() ? NULL : taken(__libc_memalign(alignment, bytes));
}

void free(void *block)
{
    atomic_fetch_sub(&live, block != NULL);
    __libc_free(block);
}

/* A program differs in nothing from itself. */
static exg_status compare(const exg_verified *verified, exg_error *err)
{
    exg_diff diff = {0};
    exg_status status = exg_diff_programs(verified, verified, NULL, &diff, err);

    if (status == EXG_OK && diff.count > 0) {
        status = EXG_FAIL(err, MISMATCH, "DIF-001", "%s", diff.items[0].what);
    }
    exg_diff_free(&diff);
    return status;
}

static exg_status run(const char *path, const exg_session_input *inputs, uint32_t count,
                     exg_error *err)
{
    exg_session_options options = {.size = sizeof(options), .thread_count = 1};
    exg_program *program = NULL;
    exg_operators *operators = NULL;
    exg_session *session = NULL;
    exg_verified verified;
    exg_status status = exg_open(path, NULL, &program, NULL, err);

    status = status == EXG_OK ? exg_operators_create(&operators, err) : status;
    status = status == EXG_OK ? exg_verify(program, operators, &verified, NULL, err) : status;
    status = status == EXG_OK ? compare(&verified, err) : status;
    status = status == EXG_OK ? exg_session_create(&verified, &options, &session, err) : status;
    status = status == EXG_OK ? exg_session_run(session, inputs, count, err) : status;
    exg_session_destroy(session);
    exg_operators_destroy(operators);
    exg_program_destroy(program);
    return status;
}

/* Opens a file of weights, of a program too. */
static exg_status open_weights(const char *path, const exg_session_input *inputs, uint32_t count,
                               exg_error *err)
{
    exg_weights *weights = NULL;
    exg_status status = exg_weights_open(path, NULL, &weights, NULL, err);

    (void)inputs;
    (void)count;
    exg_weights_release(weights);
    return status;
}

/* What is printed is all there, or it is not printed. */
static exg_status print(const char *path, const exg_session_input *inputs, uint32_t count,
                        exg_error *err)
{
    static uint64_t length; /* as it was with all memory there is, which comes first */
    exg_program *program = NULL;
    char *text = NULL;
    exg_status status = exg_open(path, NULL, &program, NULL, err);

    (void)inputs;
    (void)count;
    status = status == EXG_OK ? exg_program_print(program, &text, err) : status;
    if (status == EXG_OK && atomic_load(&refuse_first) == UINT64_MAX) {
        length = strlen(text);
    } else if (status == EXG_OK && strlen(text) != length) {
        status = EXG_FAIL(err, MISMATCH, "TXT", "%zu bytes are printed", strlen(text));
    }
    free(text);
    exg_program_destroy(program);
    return status;
}

typedef exg_status call(const char *path, const exg_session_input *inputs, uint32_t count,
                        exg_error *err);

/* From the first request to the last; `width` of them get nothing each time. */
static void refuse_each(call *go, const char *path, const exg_session_input *inputs,
                        uint32_t count, uint64_t width)
{
    bool is_past = false;

    for (uint64_t n = 0; !is_past; n++) { /* with n = 0 none is refused: what stays, stays now */
        int64_t before = atomic_load(&live);
        exg_error err;
        exg_status status;

        atomic_store(&requests, 0);
        atomic_store(&refuse_first, n == 0 ? UINT64_MAX : n);
        atomic_store(&refuse_last, width == UINT64_MAX ? width : n + width - 1);
        atomic_store(&counts, true);
        status = go(path, inputs, count, &err);
        atomic_store(&counts, false);
        if (status != EXG_OK && (status != EXG_NO_MEMORY || n == 0)) {
            fail_msg("%s, request %u refused: %s %s", path, (unsigned)n, err.code, err.message);
        }
        if (n > 0 && atomic_load(&live) != before) {
            fail_msg("%s, request %u refused: %d blocks are left", path, (unsigned)n,
                     (int)(atomic_load(&live) - before));
        }
        is_past = n > 0 && atomic_load(&requests) < n;
        assert_true(n < 100000);
    }
}

/* What is set up once a process is set up then. */
static void the_first_call_of_a_process_survives_it(void **state)
{
    int outcome = 0;

    (void)state;
    for (uint64_t n = 1; outcome != 2; n++) {
        pid_t child = fork();
        int how;

        assert_int_not_equal(child, -1);
        if (child == 0) {
            exg_error err;
            exg_status status;

            atomic_store(&refuse_first, n);
            atomic_store(&refuse_last, n);
            atomic_store(&counts, true);
            status = open_weights("fixtures/mlp.pt2", NULL, 0, &err);
            atomic_store(&counts, false);
            _exit(atomic_load(&requests) < n                      ? 2
                  : status == EXG_OK || status == EXG_NO_MEMORY ? 0
                                                                  : 1);
        }
        assert_int_equal(waitpid(child, &how, 0), child);
        if (!WIFEXITED(how) || WEXITSTATUS(how) == 1) {
            fail_msg("request %u refused: status %x", (unsigned)n, (unsigned)how);
        }
        outcome = WEXITSTATUS(how);
        assert_true(n < 10000);
    }
}

static void every_call_survives_it(void **state)
{
    static const char *const programs[] = {"mlp", "convbn", "windows"};

    (void)state;
    for (size_t p = 0; p < sizeof(programs) / sizeof(programs[0]); p++) {
        exg_session_input inputs[8] = {0};
        exg_tensor_file *tensors;
        char path[80];

        snprintf(path, sizeof(path), "fixtures/%s.inputs.safetensors", programs[p]);
        assert_int_equal(exg_tensor_file_open(path, &tensors, NULL), EXG_OK);
        assert_in_range(tensors->count, 1, 8);
        for (uint32_t i = 0; i < tensors->count; i++) {
            const exg_named_tensor *t = &tensors->items[i];

            inputs[i] = (exg_session_input){
                t->name, {malloc(t->bytes), t->dtype, t->rank}
            };
            assert_non_null(inputs[i].tensor.data);
            memcpy(inputs[i].tensor.data, t->data, t->bytes);
            memcpy(inputs[i].tensor.sizes, t->shape, t->rank * sizeof(int64_t));
            exg_tensor_set_contiguous(&inputs[i].tensor);
        }
        snprintf(path, sizeof(path), "fixtures/%s.pt2", programs[p]);
        refuse_each(run, path, inputs, tensors->count, 1);
        refuse_each(run, path, inputs, tensors->count, UINT64_MAX);
        for (uint32_t i = 0; i < tensors->count; i++) {
            free(inputs[i].tensor.data);
        }
        exg_tensor_file_close(tensors);
    }
}

static void what_is_read_is_not_taken_for_something_else(void **state)
{
    static const char *const files[] = {
        "fixtures/weights/deflated.npz",      "fixtures/weights/stored.npz",
        "fixtures/weights/nested.pt",         "fixtures/weights/mlp.inputs.pt",
        "fixtures/weights/big.gguf",          "fixtures/weights/sharded.safetensors.index.json",
        "tests/export/data/branches.json",
    };
    static const char *const programs[] = {"fixtures/mlp.pt2", "fixtures/branch.pt2"};

    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        refuse_each(open_weights, files[i], NULL, 0, 1);
        refuse_each(open_weights, files[i], NULL, 0, UINT64_MAX);
    }
    for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
        refuse_each(print, programs[i], NULL, 0, 1);
    }
}

#else

static void the_first_call_of_a_process_survives_it(void **state)
{
    (void)state;
    skip();
}

static void what_is_read_is_not_taken_for_something_else(void **state)
{
    (void)state;
    skip();
}

static void every_call_survives_it(void **state)
{
    (void)state;
    skip();
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_call_of_a_process_survives_it), /* so, before any other */
        cmocka_unit_test(every_call_survives_it),
        cmocka_unit_test(what_is_read_is_not_taken_for_something_else),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
