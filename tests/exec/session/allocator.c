/* allocator.c - what lives long takes the caller's memory, gives it all back, and says
 * so when there is no more: the n-th request is refused, for every n. The system's own.
 */
#include "libexport/base/arena.h"

#include <exg/exec.h>
#include <exg/export.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

typedef struct counter {
    uint64_t requests, live_blocks, live_bytes;
    uint64_t refuse; /* the request that gets nothing; 0: none */
} counter;

static void *allocate(void *user, size_t bytes, size_t alignment)
{
    counter *c = user;
    void *block;

    assert_int_not_equal(bytes, 0);
    assert_true(alignment > 0 && alignment <= 64 && (alignment & (alignment - 1)) == 0);
    if (++c->requests == c->refuse) {
        return NULL;
    }
    block = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    memset(block, 0xa5, bytes); /* nothing may count on zeros */
    c->live_blocks++;
    c->live_bytes += bytes;
    return block;
}

static void give_back(void *user, void *block, size_t bytes)
{
    counter *c = user;

    c->live_blocks--;
    c->live_bytes -= bytes;
    free(block);
}

typedef struct setting {
    const char *program, *inputs;
    const exg_operators *operators;
    exg_tensor_file *tensors;
} setting;

/* Opens, verifies, runs; `held` is told what was in use when the results were there. */
static exg_status go(const setting *s, const exg_allocator *allocator, counter *c, uint64_t *held,
                     exg_error *err)
{
    exg_open_options options = {.size = sizeof(options), .allocator = allocator};
    exg_session_input inputs[4];
    exg_program *program = NULL;
    exg_session *session = NULL;
    exg_verified verified;
    exg_status status = exg_open(s->program, &options, &program, NULL, err);

    if (status == EXG_OK) {
        status = exg_verify(program, s->operators, &verified, NULL, err);
    }
    if (status == EXG_OK) {
        status = exg_session_create(&verified, NULL, &session, err);
    }
    for (uint32_t i = 0; i < s->tensors->count; i++) {
        const exg_named_tensor *t = &s->tensors->items[i];

        inputs[i] = (exg_session_input){t->name, {(void *)(uintptr_t)t->data, t->dtype, t->rank}};
        memcpy(inputs[i].tensor.sizes, t->shape, t->rank * sizeof(int64_t));
        exg_tensor_set_contiguous(&inputs[i].tensor);
    }
    if (status == EXG_OK) {
        status = exg_session_run(session, inputs, s->tensors->count, err);
        *held = c->live_bytes;
    }
    exg_session_destroy(session);
    exg_program_destroy(program);
    return status;
}

static const char *const programs[][2] = {
    {"fixtures/mlp.pt2", "fixtures/mlp.inputs.safetensors"},
    {"fixtures/convbn.pt2", "fixtures/convbn.inputs.safetensors"},
};

static void it_takes_and_gives_back(void **state)
{
    setting s = {0};
    exg_operators *operators;

    (void)state;
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    s.operators = operators;
    for (size_t p = 0; p < sizeof(programs) / sizeof(programs[0]); p++) {
        counter c = {0};
        exg_allocator allocator = {allocate, give_back, &c};
        uint64_t held = 0;
        exg_error err;

        s.program = programs[p][0];
        assert_int_equal(exg_tensor_file_open(programs[p][1], &s.tensors, NULL), EXG_OK);
        if (go(&s, &allocator, &c, &held, &err) != EXG_OK) {
            fail_msg("%s: %s %s", s.program, err.code, err.message);
        }
        assert_true(c.requests > 8 && held > 16384);
        assert_int_equal(c.live_blocks, 0);
        assert_int_equal(c.live_bytes, 0);
        exg_tensor_file_close(s.tensors);
    }
    exg_operators_destroy(operators);
}

static void it_stops_where_memory_ends(void **state)
{
    setting s = {0};
    exg_operators *operators;

    (void)state;
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    s.operators = operators;
    for (size_t p = 0; p < sizeof(programs) / sizeof(programs[0]); p++) {
        exg_status status = EXG_NO_MEMORY;
        uint64_t held;

        s.program = programs[p][0];
        assert_int_equal(exg_tensor_file_open(programs[p][1], &s.tensors, NULL), EXG_OK);
        for (uint64_t n = 1; status != EXG_OK; n++) {
            counter c = {.refuse = n};
            exg_allocator allocator = {allocate, give_back, &c};
            exg_error err;

            status = go(&s, &allocator, &c, &held, &err);
            if (status != EXG_OK && status != EXG_NO_MEMORY) {
                fail_msg("%s, request %u refused: %s %s", s.program, (unsigned)n, err.code,
                         err.message);
            }
            assert_true(status == EXG_OK || n <= c.requests);
            assert_int_equal(c.live_blocks, 0);
            assert_true(n < 100000);
        }
        exg_tensor_file_close(s.tensors);
    }
    exg_operators_destroy(operators);
}

/* What the system was told about the mapping of an address: its VmFlags. */
static bool wants_large_pages(const void *address)
{
    FILE *maps = fopen("/proc/self/smaps", "r");
    uint64_t from = 0, to = 0;
    bool is_here = false, wants = false;
    char line[512];

    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps) != NULL) {
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &from, &to) == 2) {
            is_here = from <= (uintptr_t)address && (uintptr_t)address < to;
        } else if (is_here && strncmp(line, "VmFlags:", 8) == 0) {
            wants = strstr(line, " hg") != NULL;
        }
    }
    fclose(maps);
    return wants;
}

/* Where the kernel has any. */
static void megabytes_are_on_large_pages(void **state)
{
    static const struct {
        uint64_t bytes, alignment;
        bool is_large;
    } rows[] = {{0, 64, false},
                {100, 64, false},
                {(4 << 20) - 64, 64, false},
                {(4 << 20) - 63, 2 << 20, true},
                {(9 << 20) + 1, 2 << 20, true}};
    FILE *has = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");

    (void)state;
    for (uint32_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        unsigned char *block = exg_allocate(NULL, rows[r].bytes);

        assert_non_null(block);
        assert_int_equal((uintptr_t)block % rows[r].alignment, 0);
        memset(block, 0x5a, rows[r].bytes);
        if (has != NULL && rows[r].is_large) {
            assert_true(wants_large_pages(block));
            assert_true(wants_large_pages(block + rows[r].bytes - 1));
        }
        exg_release(NULL, block, rows[r].bytes);
    }
    if (has != NULL) {
        fclose(has);
    }
}

/* Pages that were let go of are there again as zeros when they are read. */
static void what_is_forgotten_takes_no_memory(void **state)
{
    const uint64_t bytes = (8u << 20) + 100;
    unsigned char *block = exg_allocate(NULL, bytes);

    (void)state;
    assert_non_null(block);
    memset(block, 0x5a, bytes);
    exg_forget(NULL, block, bytes);
#ifdef __linux__
    for (uint64_t at = 0; at < 8u << 20; at += 4096) {
        assert_int_equal(block[at], 0);
    }
#endif
    memset(block, 0x5a, bytes);
    assert_int_equal(block[bytes - 1], 0x5a);
    exg_forget(NULL, NULL, 0);
    exg_release(NULL, block, bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_takes_and_gives_back),
        cmocka_unit_test(it_stops_where_memory_ends),
        cmocka_unit_test(megabytes_are_on_large_pages),
        cmocka_unit_test(what_is_forgotten_takes_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
