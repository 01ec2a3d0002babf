/* fibre.h - runs the blocks of a kernel, each thread a fibre.
 *
 * A thread runs until it ends or waits at a barrier or in a shuffle; who runs next is drawn
 * by lot. So what a barrier too few would let happen does happen, sooner or later; shared
 * memory comes filled with NaN, block by block.
 */
#ifndef EXG_TESTS_STANDIN_FIBRE_H
#define EXG_TESTS_STANDIN_FIBRE_H

#include <stdbool.h>
#include <stdint.h>

/* As kernel texts see it (libexec/kernels/cuda/common.h). */
typedef struct exg_emulator {
    int thread, threads;
    int block[3], blocks[3];
    void (*barrier)(void);
    void (*shuffle)(void *value, int bytes, int lanes);
    void (*gather)(void *all, const void *own, int bytes);
} exg_emulator;

#define FIBRE_THREADS_MAX 1024

typedef struct fibre_launch {
    void (*kernel)(const void *params);
    const void *params;
    uint32_t blocks[3];
    uint32_t threads;
    char *shared; /* NULL: none */
    uint64_t shared_bytes;
} fibre_launch;

extern exg_emulator fibre_emulator;

/* NULL, or what is wrong with the kernel: threads that wait for others that have ended. */
const char *fibre_run(const fibre_launch *launch);

#endif
