/* half_tiles.h - what products on matrix units share: a tile of the result a block, and operands of
 * 16 bits that pass through shared memory DEPTH of the depth at a time. A block computes ROWS x
 * COLUMNS of the result, each of its warps 32 x 32.
 *
 * X: the dtype of both. A_BY_DEPTH, B_BY_DEPTH: in shared memory lines run along the depth, as
 * neighbours lie in memory; else along rows, or columns.
 */
#ifndef EXG_LIBEXEC_KERNELS_CUDA_HALF_TILES_H
#define EXG_LIBEXEC_KERNELS_CUDA_HALF_TILES_H

#include "libexec/kernels/cuda/gemm.h"
#include "libexec/kernels/cuda/matrix.h"

#define ROWS        64
#define COLUMNS     128
#define DEPTH       32
#define WARP_ROW    (THREAD / WARP % 2 * 32) /* of the block's */
#define WARP_COLUMN (THREAD / WARP / 2 * 32)

/* One operand: `across` rows of a, or columns of b, and the depth. In shared memory lines are 8
 * longer than what they hold: no conflicts of banks. */
typedef struct operand {
    const half_bits *at;
    int64_t across_stride, depth_stride;
    int64_t across, depth; /* that there are, from `at` on */
} operand;

/* Eight of a line, from element c of line r on; lines run where `stride` is 1. */
static inline void load_eight(half_bits *to, const half_bits *from, int64_t stride, int64_t there,
                              int is_aligned)
{
    if (is_aligned && there >= 8) {
        copy_16(to, from, 1);
        return;
    }
    for (int i = 0; i < 8; i++) {
        to[i] = i < there ? from[i * stride] : 0;
    }
}

/* `lines` lines of `length`: strides and ends of both, of what begins at `from`. */
static inline void load_lines(half_bits *to, int lines, int length, const half_bits *from,
                              int64_t line_stride, int64_t stride, int64_t lines_there,
                              int64_t there)
{
    const int is_aligned = stride == 1 && line_stride % 8 == 0 && (uint64_t)from % 16 == 0;

    for (int i = THREAD; i < lines * length / 8; i += THREADS) {
        const int line = i / (length / 8);
        const int at = i % (length / 8) * 8;

        load_eight(to + line * (length + 8) + at, from + line * line_stride + at * stride, stride,
                   line < lines_there ? there - at : 0, is_aligned);
    }
}

/* DEPTH of the operand's depth from k on, `across` elements wide. */
static inline void load_part(half_bits *to, const operand *o, int across, int by_depth, int64_t k)
{
    const half_bits *from = o->at + k * o->depth_stride;

    if (by_depth) {
        load_lines(to, across, DEPTH, from, o->across_stride, o->depth_stride, o->across,
                   o->depth - k);
    } else {
        load_lines(to, DEPTH, across, from, o->depth_stride, o->across_stride, o->depth - k,
                   o->across);
    }
}

/* Four matrices of 8 x 8: of 16 across from `across` on and 16 deep from `k` on. `deep_first`:
 * the second is further along the depth, as of b, else across, as of a. */
static inline void take(uint32_t to[4], const half_bits *part, int width, int by_depth, int across,
                        int k, int deep_first)
{
    const int lane = THREAD % WARP;
    const int second = lane / 8 % 2 * 8;
    const int fourth = lane / 16 * 8;
    const int r = lane % 8;
    const int x = across + (deep_first ? fourth : second);
    const int d = k + (deep_first ? second : fourth);

    if (by_depth) {
        matrix_load(to, part + (x + r) * (DEPTH + 8) + d);
    } else {
        matrix_load_transposed(to, part + (d + r) * (width + 8) + x);
    }
}

#ifdef A_BY_DEPTH
#define A_IS_BY_DEPTH 1
#define A_BYTES       (ROWS * (DEPTH + 8))
#else
#define A_IS_BY_DEPTH 0
#define A_BYTES       (DEPTH * (ROWS + 8))
#endif
#ifdef B_BY_DEPTH
#define B_IS_BY_DEPTH 1
#define B_BYTES       (COLUMNS * (DEPTH + 8))
#else
#define B_IS_BY_DEPTH 0
#define B_BYTES       (DEPTH * (COLUMNS + 8))
#endif

static inline void add_part(const half_bits *a, const half_bits *b, float sums[2][4][4])
{
    UNROLL
    for (int k = 0; k < DEPTH; k += 16) {
        uint32_t of_a[2][4];
        uint32_t of_b[2][4];

        UNROLL
        for (int i = 0; i < 2; i++) {
            take(of_a[i], a, ROWS, A_IS_BY_DEPTH, WARP_ROW + 16 * i, k, 0);
            take(of_b[i], b, COLUMNS, B_IS_BY_DEPTH, WARP_COLUMN + 16 * i, k, 1);
        }
        UNROLL
        for (int i = 0; i < 8; i++) {
            matrix_multiply(sums[i / 4][i % 4], of_a[i / 4], of_b[i % 4 / 2] + i % 2 * 2);
        }
    }
}

/* The thread's elements of the tile that begins at a row and a column. */
static inline void put_sums(const gemm_params *p, int64_t batch, int64_t row, int64_t column,
                            float sums[2][4][4])
{
    const int g = THREAD % WARP / 4;
    const int t = THREAD % 4;

    UNROLL
    for (int i = 0; i < 32; i++) {
        put_sum(p, batch, row + WARP_ROW + i / 16 * 16 + g + i % 4 / 2 * 8,
                column + WARP_COLUMN + i / 4 % 4 * 8 + 2 * t + i % 2,
                sums[i / 16][i / 4 % 4][i % 4]);
    }
}

#endif
