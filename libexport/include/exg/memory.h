/* memory.h - where what lives long takes its memory.
 *
 * A caller may give an allocator to what it opens or makes: a program, its weights'
 * tables, a session. Whatever such an object holds until it is destroyed comes from
 * there, and what is made of it (a copy, a transformed program) takes the same. What a
 * call needs only while it runs comes from malloc, mapped files are mapped.
 *
 * An arena hands out zeroed memory and is freed as a whole; nothing in it is freed
 * alone. It has a budget: past it every request answers NULL.
 *
 * Threads: an allocator is called from the thread that works on its object, one at a
 * time an object; an arena is used by one thread at a time.
 */
#ifndef EXG_MEMORY_H
#define EXG_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Must stay, and work, as long as anything made with it. */
typedef struct exg_allocator {
    /* `bytes` (never 0) at a multiple of `alignment`, a power of two up to 64; NULL: there
     * is no more, which the caller of exg is told as NO_MEMORY. Need not be zeroed. */
    void *(*allocate)(void *user, size_t bytes, size_t alignment);
    void (*release)(void *user, void *block, size_t bytes); /* `bytes` as it was asked for */
    void *user;
} exg_allocator;

typedef struct exg_arena exg_arena;

#define EXG_ARENA_UNBOUNDED UINT64_MAX

/* A new arena that will hand out at most `budget` bytes; NULL without memory.
 * `allocator` NULL: the system's; it is not copied. */
exg_arena *exg_arena_create(const exg_allocator *allocator, uint64_t budget);
void exg_arena_destroy(exg_arena *arena); /* NULL is allowed */

/* `count * size` zeroed bytes aligned to 16, or NULL. A zero count gives a
 * pointer that may not be followed. */
void *exg_arena_alloc(exg_arena *arena, size_t count, size_t size);

/* Bytes handed out so far. */
uint64_t exg_arena_used(const exg_arena *arena);

/* Copies; NULL when memory ran out. `text` NULL gives NULL. */
char *exg_arena_strdup(exg_arena *arena, const char *text);
char *exg_arena_strndup(exg_arena *arena, const char *text, size_t length);
void *exg_arena_memdup(exg_arena *arena, const void *data, size_t count, size_t size);
char *exg_arena_printf(exg_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Room for one more item of `size` bytes in *items, an array in the arena that holds
 * `count` of *capacity; it moves when it grows. false: out of memory. */
bool exg_arena_reserve(exg_arena *arena, void *items, uint32_t count, uint32_t *capacity,
                       size_t size);

#define EXG_NEW(arena, type)              ((type *)exg_arena_alloc((arena), 1, sizeof(type)))
#define EXG_NEW_ARRAY(arena, type, count) ((type *)exg_arena_alloc((arena), (count), sizeof(type)))

#ifdef __cplusplus
}
#endif

#endif
