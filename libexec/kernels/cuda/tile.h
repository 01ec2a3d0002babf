/* tile.h - what products and convolutions share: a tile of TILE by TILE of the result a block of
 * 256 threads, each EACH by EACH of it; operands pass through shared memory DEEP at a time. And
 * what follows them: HAS_EPILOGUE, written before a text by who compiles it, with element() and
 * its parameters.
 *
 * RESULT: the dtype; IS_DOUBLE, IS_INTEGER.
 */
#ifndef EXG_LIBEXEC_KERNELS_CUDA_TILE_H
#define EXG_LIBEXEC_KERNELS_CUDA_TILE_H

#include "libexec/kernels/cuda/common.h"

#define TILE 64
#define EACH 4
#define DEEP 16
#define SIDE (TILE / EACH) /* threads along one side of the tile */

#ifdef IS_INTEGER
#define MULTIPLY_ADD(x, y, z) ((x) * (y) + (z))
#elif defined(IS_DOUBLE)
#define MULTIPLY_ADD(x, y, z) fma(x, y, z)
#else
#define MULTIPLY_ADD(x, y, z) fmaf(x, y, z)
#endif

typedef COMPUTE(RESULT) real;
typedef real strip[TILE + 1]; /* of the tile, at one depth; one more: no conflicts of banks */

/* Adds the products of DEEP strips of both operands to the thread's part of the tile. */
static inline void add_products(const strip *a, const strip *b, real sums[EACH][EACH])
{
    const int y = THREAD / SIDE;
    const int x = THREAD % SIDE;

    for (int d = 0; d < DEEP; d++) {
        for (int i = 0; i < EACH; i++) {
            for (int j = 0; j < EACH; j++) {
                sums[i][j] = MULTIPLY_ADD(a[d][y + i * SIDE], b[d][x + j * SIDE], sums[i][j]);
            }
        }
    }
}

/* The parameters of a kernel that finishes its elements, and the last thing done with one. */
#ifdef HAS_EPILOGUE
#define FINISHING(type, own)                                                                       \
    typedef struct type {                                                                          \
        own of;                                                                                    \
        pointwise_params last;                                                                     \
    } type

static inline void finish_element(const pointwise_params *last, int64_t i)
{
    int bad = 0;

    element(last, i, &bad);
    if (bad != 0) {
        raise_fault(last->fault, FAULT_DIVIDE_BY_ZERO, 0, -1);
    }
}
#define FINISH(p, i) finish_element(&(p).last, i)
#else
#define FINISHING(type, own)                                                                       \
    typedef struct type {                                                                          \
        own of;                                                                                    \
    } type
#define FINISH(p, i) (void)0
#endif

#endif
