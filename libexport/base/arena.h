/* arena.h - memory with one lifetime.
 *
 * An arena hands out zeroed memory and is freed as a whole; nothing in it is
 * freed alone. It has a budget: past it every request answers NULL, which the
 * caller turns into NO_MEMORY or LIMIT. Count times size is multiplied here,
 * checked. Under ASan every block gets a red zone of its own.
 * Threads: one at a time.
 */
#ifndef EXG_LIBEXPORT_BASE_ARENA_H
#define EXG_LIBEXPORT_BASE_ARENA_H

#include <exg/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct exg_arena exg_arena;

#define EXG_ARENA_UNBOUNDED UINT64_MAX

/* A new arena that will hand out at most `budget` bytes; NULL without memory. */
exg_arena *exg_arena_create(uint64_t budget);
void exg_arena_destroy(exg_arena *arena); /* NULL is allowed */

/* Takes back all that was handed out and keeps the newest memory for what comes:
 * for work of the same size over and over. */
void exg_arena_reset(exg_arena *arena);

/* `count * size` zeroed bytes aligned to 16, or NULL. A zero count gives a
 * pointer that may not be followed. */
void *exg_arena_alloc(exg_arena *arena, size_t count, size_t size);

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

uint64_t exg_arena_used(const exg_arena *arena);

#define EXG_NEW(arena, type) ((type *)exg_arena_alloc((arena), 1, sizeof(type)))
#define EXG_NEW_ARRAY(arena, type, count) \
    ((type *)exg_arena_alloc((arena), (count), sizeof(type)))

/* The error to return when an allocation answered NULL. */
#define EXG_OUT_OF_MEMORY(err) \
    EXG_FAIL((err), NO_MEMORY, "MEM-001", "out of memory")

#endif
