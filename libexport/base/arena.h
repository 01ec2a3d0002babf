/* arena.h - memory with one lifetime (exg/memory.h), as the libraries use it.
 *
 * A request that answers NULL is turned into NO_MEMORY or LIMIT by the caller. Count
 * times size is multiplied here, checked. Under ASan every block gets a red zone of its
 * own.
 */
#ifndef EXG_LIBEXPORT_BASE_ARENA_H
#define EXG_LIBEXPORT_BASE_ARENA_H

#include <exg/memory.h>
#include <exg/status.h>
#include <stdbool.h>

/* Where it takes its memory: for what is made in its likeness. NULL: the system. */
const exg_allocator *exg_arena_allocator(const exg_arena *arena);

/* One block outside of any arena, aligned to 64 and not zeroed; `bytes` 0 counts as 1. The
 * system's megabytes are on large pages, where it has them. */
void *exg_allocate(const exg_allocator *allocator, uint64_t bytes);
void exg_release(const exg_allocator *allocator, void *block, uint64_t bytes);

/* Bytes taken for what was handed out and for what will be. */
uint64_t exg_arena_held(const exg_arena *arena);

/* Was something refused because there is no more memory, and not for the budget? */
bool exg_arena_is_dry(const exg_arena *arena);

/* What a request that answered NULL is told as: NO_MEMORY MEM-001; LIMIT MEM-002 where it was
 * the budget that refused, with what is needed at least. */
exg_status exg_arena_fault(const exg_arena *arena, exg_error *err);

/* `status` of work in the arena, where a NO_MEMORY of its budget becomes LIMIT as above. */
exg_status exg_arena_settle(const exg_arena *arena, exg_status status, exg_error *err);

/* Takes back all that was handed out and keeps the newest memory for what comes:
 * for work of the same size over and over. */
void exg_arena_reset(exg_arena *arena);

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

/* The same for an array from realloc(), which the caller frees. */
bool exg_heap_reserve(void *items, uint32_t count, uint32_t *capacity, size_t size);

#define EXG_NEW(arena, type)              ((type *)exg_arena_alloc((arena), 1, sizeof(type)))
#define EXG_NEW_ARRAY(arena, type, count) ((type *)exg_arena_alloc((arena), (count), sizeof(type)))

/* The error to return when an allocation answered NULL. */
#define EXG_OUT_OF_MEMORY(err) EXG_FAIL((err), NO_MEMORY, "MEM-001", "out of memory")

#endif
