/* pool.h - the cores inside a rank.
 *
 * A job is `block_count` independent blocks; the caller works on it too, and the
 * call returns when all are done. How a job is cut does not depend on the number
 * of threads, so results do not either.
 * Threads: one job at a time in a pool; a pool may move between threads.
 */
#ifndef EXG_LIBEXPORT_BASE_POOL_H
#define EXG_LIBEXPORT_BASE_POOL_H

#include "libexport/base/stop.h"

#include <exg/status.h>
#include <stdint.h>

typedef struct exg_pool exg_pool;

#define EXG_POOL_THREADS_MAX 1024

/* Cores that this process may use; at least 1. */
uint32_t exg_core_count(void);

/* `thread_count` workers in all, the caller counted; 0: one per core this process
 * may use. 1 starts no thread; where the system refuses a thread, those before it do. USAGE
 * POOL-002: more than there may be. NO_MEMORY. */
exg_status exg_pool_create(uint32_t thread_count, exg_pool **pool, exg_error *err);
void exg_pool_destroy(exg_pool *pool); /* NULL is allowed */
uint32_t exg_pool_thread_count(const exg_pool *pool);

/* Until it is called again with NULL: blocks that have not begun when `stop` is due are left out,
 * so what was asked for since is not to be believed. `pool` NULL does nothing. Between jobs. */
void exg_pool_watch(exg_pool *pool, const exg_stop *stop);

/* Calls work(context, block) for every block in [0, block_count), each once. With
 * one block, or one thread, everything runs in the caller without a lock. NULL
 * pool: in the caller. Allocates nothing. */
void exg_pool_run(exg_pool *pool, void (*work)(void *context, uint32_t block), void *context,
                  uint32_t block_count);

#endif
