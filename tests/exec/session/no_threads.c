/* no_threads.c - the n-th thread, or all from the n-th on, are refused: what one thread can do is
 * done, with the same bits, and ranks say that they lack theirs.
 */
#include "tests/exec/session/fixture.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define THREADS 4

typedef int starter(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

static _Atomic uint32_t asked, refuse_first = UINT32_MAX, refuse_last;

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *context)
{
    uint32_t n = atomic_fetch_add(&asked, 1) + 1;
    void *found = dlsym(RTLD_NEXT, "pthread_create");
    starter *start;

    memcpy(&start, &found, sizeof(start));
    return n >= atomic_load(&refuse_first) && n <= atomic_load(&refuse_last)
               ? EAGAIN
               : start(thread, attributes, run, context);
}

static void refuse(uint32_t first, uint32_t last)
{
    atomic_store(&asked, 0);
    atomic_store(&refuse_first, first);
    atomic_store(&refuse_last, last);
}

/* With the n-th thread refused, or all from the n-th on; 0: with all. */
static void *run_without(const loaded *l, uint32_t n, bool all, uint64_t *length)
{
    exg_session_options options = {.size = sizeof(options), .thread_count = THREADS};
    exg_session *session;
    void *result;

    refuse(n == 0 ? UINT32_MAX : n, all ? UINT32_MAX : n);
    session = open_session(l, &options);
    run_fixture(l, session);
    result = result_bytes(session, length);
    exg_session_destroy(session);
    return result;
}

static void a_session_runs_on_what_threads_there_are(void **state)
{
    const fixture rows[] = {
        {"convbn.pt2", "convbn.inputs.safetensors", "convbn.expected.safetensors", 1e-3, 1e-3},
        {"lm.core.dynamic.pt2", "lm.t200.inputs.safetensors", "lm.t200.expected.safetensors", 1e-3,
         1e-3},
    };

    (void)state;
    for (size_t f = 0; f < sizeof(rows) / sizeof(rows[0]); f++) {
        uint64_t length;
        void *want;
        loaded l;

        load_fixture(&rows[f], &l);
        want = run_without(&l, 0, false, &length);
        for (uint32_t n = 1; n < THREADS; n++) {
            for (int all = 0; all < 2; all++) {
                uint64_t bytes;
                void *got = run_without(&l, n, all == 1, &bytes);

                assert_int_equal(bytes, length);
                assert_memory_equal(got, want, length);
                free(got);
            }
        }
        free(want);
        unload_fixture(&l);
    }
}

static void a_digest_needs_no_second_thread(void **state)
{
    char digest[2][EXG_DIGEST_TEXT_MAX];
    loaded l;

    (void)state;
    load_fixture(fixture_named("mlp.pt2"), &l);
    for (int refused = 0; refused < 2; refused++) {
        refuse(refused == 0 ? UINT32_MAX : 1, UINT32_MAX);
        assert_int_equal(exg_weights_digest(l.program->weights, EXG_CHECKSUM_SHA256, THREADS,
                                            digest[refused], NULL),
                         EXG_OK);
    }
    assert_string_equal(digest[0], digest[1]);
    unload_fixture(&l);
}

static void ranks_need_theirs(void **state)
{
    exg_session_options options = {.size = sizeof(options), .thread_count = 1, .mesh = {1, {3}}};
    exg_session *session;
    exg_error err;
    loaded l;

    (void)state;
    load_fixture(fixture_named("mlp.pt2"), &l);
    for (uint32_t n = 1; n <= 2; n++) {
        refuse(n, n);
        assert_int_equal(exg_session_create(&l.verified, &options, &session, &err), EXG_NO_MEMORY);
        assert_string_equal(err.code, "THR-001");
        assert_null(session);
    }
    refuse(UINT32_MAX, 0);
    session = open_session(&l, &options);
    exg_session_destroy(session);
    unload_fixture(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_runs_on_what_threads_there_are),
        cmocka_unit_test(a_digest_needs_no_second_thread),
        cmocka_unit_test(ranks_need_theirs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
