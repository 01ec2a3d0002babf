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
/* What is in a block is of no use any more: it takes no memory until it is written again. */
void exg_forget(const exg_allocator *allocator, void *block, uint64_t bytes);

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

/* exg_arena_reserve() for an array from realloc(), which the caller frees. */
bool exg_heap_reserve(void *items, uint32_t count, uint32_t *capacity, size_t size);

#endif
