/* refusal.c - see refusal.h. */
#include "tests/export/refusal.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#ifdef REFUSES_MEMORY

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
    bool refused = n > 0 && n >= atomic_load(&refuse_first) && n <= atomic_load(&refuse_last);

    errno = refused ? ENOMEM : errno; /* as the system has it */
    return refused;
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

bool memory_is_refused(void)
{
    return atomic_load(&counts) && atomic_load(&refuse_first) != UINT64_MAX;
}

int64_t memory_blocks(void)
{
    return atomic_load(&live);
}

uint64_t memory_requests(void)
{
    return atomic_load(&requests);
}

void refuse_memory(uint64_t first, uint64_t last)
{
    atomic_store(&requests, 0);
    atomic_store(&refuse_first, first);
    atomic_store(&refuse_last, last);
    atomic_store(&counts, true);
}

void grant_memory(void)
{
    atomic_store(&counts, false);
}

/* From the first request to the last; `width` of them get nothing each time. */
void refuse_each(refused_call *go, const char *name, void *user, uint64_t width)
{
    bool is_past = false;

    for (uint64_t n = 0; !is_past; n++) { /* with n = 0 none is refused: what stays, stays now */
        int64_t before = atomic_load(&live);
        exg_error err;
        exg_status status;

        refuse_memory(n == 0 ? UINT64_MAX : n, width == UINT64_MAX ? width : n + width - 1);
        status = go(name, user, &err);
        grant_memory();
        if (status != EXG_OK && (status != EXG_NO_MEMORY || n == 0)) {
            fail_msg("%s, request %u refused: %s %s", name, (unsigned)n, err.code, err.message);
        }
        if (n > 0 && atomic_load(&live) != before) {
            fail_msg("%s, request %u refused: %d blocks are left", name, (unsigned)n,
                     (int)(atomic_load(&live) - before));
        }
        is_past = n > 0 && atomic_load(&requests) < n;
        assert_true(n < 100000);
    }
}

#else
typedef int nothing_is_refused;
#endif
