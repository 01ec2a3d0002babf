/* memory.c - see memory.h. Blocks lie in one range of addresses, a guard around each; under
 * the address sanitizer guards are poisoned, else looked at when the memory is closed.
 */
#include "tests/standin/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define POISON(at, bytes)   __asan_poison_memory_region(at, bytes)
#define UNPOISON(at, bytes) __asan_unpoison_memory_region(at, bytes)
#else
#define POISON(at, bytes)
#define UNPOISON(at, bytes)
#endif

#define GUARD      256
#define GUARD_BYTE 0xa5
#define BLOCKS_MAX 65536
#define BYTES      (UINT64_C(4) << 30)

typedef struct memory_block {
    size_t offset; /* of its first byte; guards lie before and behind */
    size_t bytes;
} memory_block;

static struct {
    unsigned char *base;
    size_t bytes, used;
    memory_block blocks[BLOCKS_MAX]; /* by offset */
    uint32_t count;
    int opened;
} m;

size_t memory_bytes(void)
{
    const char *limit = getenv("EXG_STANDIN_MEMORY");

    if (m.base == NULL) {
        m.bytes = limit == NULL ? BYTES : strtoull(limit, NULL, 10);
        m.base = mmap(NULL, m.bytes + GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                      -1, 0);
        if (m.base == MAP_FAILED) {
            abort();
        }
    }
    return m.bytes;
}

size_t memory_free_bytes(void)
{
    return memory_bytes() - m.used;
}

static size_t span_of(size_t bytes)
{
    return (bytes + GUARD - 1) / GUARD * GUARD + 2 * GUARD;
}

void memory_open(void)
{
    if (m.opened++ == 0 && mprotect(m.base, m.bytes, PROT_READ | PROT_WRITE) != 0) {
        abort();
    }
}

__attribute__((no_sanitize_address)) static void fill(size_t offset, size_t bytes, int byte)
{
    volatile unsigned char *at = m.base + offset;

    for (size_t i = 0; i < bytes; i++) {
        at[i] = (unsigned char)byte;
    }
}

__attribute__((no_sanitize_address)) static bool is_filled(size_t offset, size_t bytes)
{
    const unsigned char *at = m.base + offset;
    const uint64_t guard = GUARD_BYTE * UINT64_C(0x0101010101010101);
    uint64_t apart = 0;
    size_t i = 0;

    for (; i + sizeof(guard) <= bytes; i += sizeof(guard)) {
        uint64_t found;

        memcpy(&found, at + i, sizeof(found));
        apart |= found ^ guard;
    }
    for (; i < bytes; i++) {
        apart |= at[i] ^ GUARD_BYTE;
    }
    return apart == 0;
}

/* Bytes from a block's end to the end of what it spans. */
static size_t rest_of(const memory_block *b)
{
    return span_of(b->bytes) - GUARD - b->bytes;
}

const char *memory_close(void)
{
    const char *wrong = NULL;

    for (uint32_t i = 0; i < m.count; i++) {
        const memory_block *b = &m.blocks[i];

        if (!is_filled(b->offset - GUARD, GUARD)) {
            wrong = "a write before a block of memory";
        } else if (!is_filled(b->offset + b->bytes, rest_of(b))) {
            wrong = "a write behind a block of memory";
        }
    }
    if (--m.opened == 0) {
        (void)mprotect(m.base, m.bytes, PROT_NONE);
    }
    return wrong;
}

void *memory_take(size_t bytes)
{
    size_t span = span_of(bytes);
    size_t at = 0;
    uint32_t k = 0;
    memory_block *b;

    if (bytes > memory_bytes() || m.count == BLOCKS_MAX) {
        return NULL;
    }
    for (; k < m.count && m.blocks[k].offset - GUARD - at < span; k++) {
        at = m.blocks[k].offset - GUARD + span_of(m.blocks[k].bytes);
    }
    if (k == m.count && m.bytes - at < span) {
        return NULL;
    }
    memmove(&m.blocks[k + 1], &m.blocks[k], (m.count - k) * sizeof(m.blocks[0]));
    b = &m.blocks[k];
    *b = (memory_block){at + GUARD, bytes};
    m.count++;
    m.used += span;
    memory_open();
    UNPOISON(m.base + at, span);
    fill(at, span, GUARD_BYTE);
    memset(m.base + b->offset, 0xff, bytes);
    POISON(m.base + at, GUARD);
    POISON(m.base + b->offset + bytes, rest_of(b));
    (void)memory_close();
    return m.base + b->offset;
}

bool memory_give(void *block)
{
    for (uint32_t k = 0; k < m.count; k++) {
        memory_block *b = &m.blocks[k];

        if (m.base + b->offset == block) {
            m.used -= span_of(b->bytes);
            POISON(m.base + b->offset, b->bytes);
            m.count--;
            memmove(b, b + 1, (m.count - k) * sizeof(*b));
            return true;
        }
    }
    return false;
}

bool memory_holds(const void *first, size_t bytes)
{
    for (uint32_t k = 0; k < m.count; k++) {
        const unsigned char *start = m.base + m.blocks[k].offset;
        const unsigned char *from = first;

        if (from >= start && from < start + m.blocks[k].bytes) {
            return bytes <= m.blocks[k].bytes - (size_t)(from - start);
        }
    }
    return false;
}
