/* arena.c - chunks of growing size; blocks are cut from the newest. */
#include "libexport/base/arena.h"

#include "libexport/base/checked.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define EXG_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EXG_ASAN 1
#endif
#endif
#ifdef EXG_ASAN
#include <sanitizer/asan_interface.h>
#define RED_ZONE       16
#define POISON(p, n)   ASAN_POISON_MEMORY_REGION((p), (n))
#define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION((p), (n))
#else
#define RED_ZONE       0
#define POISON(p, n)   ((void)0)
#define UNPOISON(p, n) ((void)0)
#endif

#define ALIGNMENT         16
#define CHUNK_BYTES_MIN   (4u << 10)
#define CHUNK_BYTES_SMALL (64u << 10) /* up to here the next is twice as large */
#define CHUNK_GROWTH      8u          /* and from here on */
#define CHUNK_BYTES_MAX   (LARGE_PAGE - sizeof(chunk))
#define LARGE_PAGE        (2u << 20)
#define LARGE_BLOCK       (2 * LARGE_PAGE) /* from here on a block is on large pages */

typedef struct chunk {
    struct chunk *next;
    uint64_t capacity; /* bytes after this header */
    uint64_t used;
    uint64_t dirty;        /* the first so many bytes may be no zeros */
    uint64_t mapped_bytes; /* of this chunk with its header when mapped, else 0 */
} chunk;

struct exg_arena {
    const exg_allocator *allocator;
    chunk *newest;
    uint64_t budget;
    uint64_t used;
    uint64_t chunk_bytes;
    uint64_t wanted; /* in all, when the budget refused it; 0: it never did */
    bool is_dry;     /* a chunk was refused */
};

#define BLOCK_ALIGNMENT 64

/* What aligned_alloc wants: a multiple of the alignment, and not nothing. */
static bool round_up(uint64_t bytes, uint64_t *rounded)
{
    return exg_align_u64(bytes == 0 ? 1 : bytes, BLOCK_ALIGNMENT, rounded) && *rounded <= SIZE_MAX;
}

void *exg_allocate(const exg_allocator *allocator, uint64_t bytes)
{
    uint64_t rounded;
    void *block;

    if (!round_up(bytes, &rounded)) {
        return NULL;
    }
    if (allocator != NULL) {
        return allocator->allocate(allocator->user, (size_t)rounded, BLOCK_ALIGNMENT);
    }
    if (rounded < LARGE_BLOCK) {
        return aligned_alloc(BLOCK_ALIGNMENT, (size_t)rounded);
    }
    if (posix_memalign(&block, LARGE_PAGE, (size_t)rounded) != 0) {
        return NULL;
    }
    (void)madvise(block, (size_t)rounded, MADV_HUGEPAGE); /* refused: on small ones */
    return block;
}

void exg_release(const exg_allocator *allocator, void *block, uint64_t bytes)
{
    uint64_t rounded;

    if (allocator == NULL) {
        free(block);
    } else if (block != NULL && round_up(bytes, &rounded)) {
        allocator->release(allocator->user, block, (size_t)rounded);
    }
}

void exg_forget(const exg_allocator *allocator, void *block, uint64_t bytes)
{
    uint64_t rounded;

    if (allocator == NULL && block != NULL && round_up(bytes, &rounded) && rounded >= LARGE_BLOCK) {
        (void)madvise(block, (size_t)(rounded / LARGE_PAGE * LARGE_PAGE), MADV_DONTNEED);
    }
}

static void *allocate(const exg_allocator *allocator, size_t bytes)
{
    return allocator == NULL ? malloc(bytes) : exg_allocate(allocator, bytes);
}

exg_arena *exg_arena_create(const exg_allocator *allocator, uint64_t budget)
{
    exg_arena *arena = allocate(allocator, sizeof(*arena));

    if (arena != NULL) {
        *arena =
            (exg_arena){.allocator = allocator, .budget = budget, .chunk_bytes = CHUNK_BYTES_MIN};
    }
    return arena;
}

const exg_allocator *exg_arena_allocator(const exg_arena *arena)
{
    return arena->allocator;
}

uint64_t exg_arena_held(const exg_arena *arena)
{
    uint64_t bytes = sizeof(*arena);

    for (const chunk *c = arena->newest; c != NULL; c = c->next) {
        bytes += sizeof(*c) + c->capacity;
    }
    return bytes;
}

static void free_chunks(const exg_allocator *allocator, chunk *c)
{
    while (c != NULL) {
        chunk *next = c->next;

        UNPOISON(c + 1, c->capacity);
        if (c->mapped_bytes > 0) {
            munmap(c, c->mapped_bytes);
        } else {
            exg_release(allocator, c, sizeof(chunk) + c->capacity);
        }
        c = next;
    }
}

void exg_arena_destroy(exg_arena *arena)
{
    if (arena != NULL) {
        free_chunks(arena->allocator, arena->newest);
        exg_release(arena->allocator, arena, sizeof(*arena));
    }
}

void exg_arena_reset(exg_arena *arena)
{
    chunk *c = arena->newest;

    if (c != NULL) {
        free_chunks(arena->allocator, c->next);
        c->next = NULL;
        POISON(c + 1, c->used);
        c->dirty = c->used > c->dirty ? c->used : c->dirty;
        c->used = 0;
    }
    arena->used = 0;
}

/* Zeroed memory on large pages: for megabytes a fifth of the cost of small ones.
 * NULL when the size is small or the system says no. (Leak checkers do not follow
 * pointers out of mappings, so under them there are none.) */
static chunk *map_chunk(uint64_t capacity)
{
#ifdef EXG_ASAN
    (void)capacity;
    return NULL;
#else
    uint64_t bytes;
    char *base;
    uint64_t head;
    chunk *c;

    if (capacity < CHUNK_BYTES_MAX ||
        !exg_align_u64(capacity + sizeof(chunk), LARGE_PAGE, &bytes) ||
        bytes > SIZE_MAX - LARGE_PAGE) {
        return NULL;
    }
    base =
        mmap(NULL, bytes + LARGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) {
        return NULL;
    }
    head = (LARGE_PAGE - (uint64_t)(uintptr_t)base % LARGE_PAGE) % LARGE_PAGE;
    if (head > 0) {
        munmap(base, head);
    }
    munmap(base + head + bytes, LARGE_PAGE - head);
    (void)madvise(base + head, bytes, MADV_HUGEPAGE);
    c = (chunk *)(void *)(base + head);
    c->mapped_bytes = bytes;
    c->capacity = bytes - sizeof(chunk);
    return c;
#endif
}

static chunk *grow(exg_arena *arena, uint64_t bytes)
{
    uint64_t capacity = bytes > arena->chunk_bytes ? bytes : arena->chunk_bytes;
    chunk *c;

    if (capacity > SIZE_MAX - sizeof(chunk)) {
        return NULL;
    }
    c = arena->allocator == NULL ? map_chunk(capacity) : NULL;
    if (c == NULL) {
        c = allocate(arena->allocator, sizeof(chunk) + capacity);
        if (c == NULL) {
            return NULL;
        }
        *c = (chunk){.capacity = capacity, .dirty = capacity}; /* zeroed block by block */
    }
    POISON(c + 1, c->capacity);
    c->next = arena->newest;
    arena->newest = c;
    arena->chunk_bytes = capacity < CHUNK_BYTES_SMALL                ? capacity * 2
                         : capacity < CHUNK_BYTES_MAX / CHUNK_GROWTH ? capacity * CHUNK_GROWTH
                                                                     : CHUNK_BYTES_MAX;
    return c;
}

void *exg_arena_alloc(exg_arena *arena, size_t count, size_t size)
{
    uint64_t bytes;
    uint64_t taken;
    chunk *c = arena->newest;
    char *block;

    if (!exg_mul_u64(count, size, &bytes) || !exg_add_u64(bytes, RED_ZONE, &taken) ||
        !exg_align_u64(taken, ALIGNMENT, &taken) || taken > UINT64_MAX - arena->used) {
        return NULL;
    }
    if (taken > arena->budget - arena->used) {
        arena->wanted = arena->used + taken;
        return NULL;
    }
    if (c == NULL || taken > c->capacity - c->used) {
        c = grow(arena, taken);
        if (c == NULL) {
            arena->is_dry = true;
            return NULL;
        }
    }
    block = (char *)(c + 1) + c->used;
    UNPOISON(block, bytes);
    if (c->used < c->dirty) {
        memset(block, 0, bytes);
    }
    c->used += taken;
    arena->used += taken;
    return block;
}

bool exg_arena_is_dry(const exg_arena *arena)
{
    return arena->is_dry;
}

exg_status exg_arena_fault(const exg_arena *arena, exg_error *err)
{
    if (arena->wanted == 0 || arena->is_dry) {
        return EXG_OUT_OF_MEMORY(err);
    }
    return exg_error_fix(err,
                         EXG_FAIL(err, LIMIT, "MEM-002",
                                  "more than the memory budget of %" PRIu64 " bytes is needed, at "
                                  "least %" PRIu64,
                                  arena->budget, arena->wanted),
                         "open it with a larger memory budget");
}

exg_status exg_arena_settle(const exg_arena *arena, exg_status status, exg_error *err)
{
    exg_error told;

    if (status != EXG_NO_MEMORY || arena == NULL || arena->wanted == 0 || arena->is_dry) {
        return status;
    }
    exg_error_clear(&told);
    if (err != NULL) {
        told = *err;
    }
    status = exg_arena_fault(arena, err);
    return told.where[0] == '\0' ? status : exg_error_within(err, status, "%s", told.where);
}

char *exg_arena_strdup(exg_arena *arena, const char *text)
{
    return text == NULL ? NULL : exg_arena_strndup(arena, text, strlen(text));
}

char *exg_arena_strndup(exg_arena *arena, const char *text, size_t length)
{
    char *copy = length < SIZE_MAX ? exg_arena_alloc(arena, length + 1, 1) : NULL;

    if (copy != NULL && length > 0) {
        memcpy(copy, text, length);
    }
    return copy;
}

void *exg_arena_memdup(exg_arena *arena, const void *data, size_t count, size_t size)
{
    void *copy = exg_arena_alloc(arena, count, size);

    if (copy != NULL && count > 0) {
        memcpy(copy, data, count * size);
    }
    return copy;
}

char *exg_arena_printf(exg_arena *arena, const char *format, ...)
{
    va_list args;
    va_list again;
    int length;
    char *text = NULL;

    va_start(args, format);
    va_copy(again, args);
    length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length >= 0) {
        text = exg_arena_alloc(arena, (size_t)length + 1, 1);
    }
    if (text != NULL) {
        vsnprintf(text, (size_t)length + 1, format, again);
    }
    va_end(again);
    return text;
}

bool exg_arena_reserve(exg_arena *arena, void *items, uint32_t count, uint32_t *capacity,
                       size_t size)
{
    uint32_t more = *capacity == 0 ? 16 : *capacity * 2;
    void *held; /* *items, whatever it points to */
    void *bigger;

    if (count < *capacity) {
        return true;
    }
    bigger = more > *capacity ? exg_arena_alloc(arena, more, size) : NULL;
    if (bigger == NULL) {
        return false;
    }
    if (count > 0) {
        memcpy(&held, items, sizeof(held));
        memcpy(bigger, held, count * size);
    }
    memcpy(items, &bigger, sizeof(bigger));
    *capacity = more;
    return true;
}

bool exg_heap_reserve(void *items, uint32_t count, uint32_t *capacity, size_t size)
{
    uint32_t more = *capacity < 64 ? 64 : *capacity * 2;
    void *held; /* *items, whatever it points to */

    if (count < *capacity) {
        return true;
    }
    memcpy(&held, items, sizeof(held));
    held = more > *capacity ? realloc(held, more * size) : NULL;
    if (held == NULL) {
        return false;
    }
    memcpy(items, &held, sizeof(held));
    *capacity = more;
    return true;
}

uint64_t exg_arena_used(const exg_arena *arena)
{
    return arena->used;
}
