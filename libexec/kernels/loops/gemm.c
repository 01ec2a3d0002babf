/* gemm.c - packing, register tiles and dot products of matrix products.
 *
 * The tile of C kept in registers is ROWS rows of up to three vectors: 12 or 24 sums,
 * which hides the latency of the multiply-add and reads little per operation.
 *
 * bf16 is widened and multiplied as f32, unless gemm_pairs.c or gemm_tiles.c is faster.
 */
#include "libexec/kernels/loops/loops.h"
#include "libexec/kernels/loops/vector.h"
#include "libexport/base/element.h"

#include <string.h>

#define TILE_VECTORS   3
#define DOT_DEPTH      1024
#define DOT_LINE       64 /* bytes */
#define STREAM_VECTORS 2
#define STREAM_AHEAD   8  /* rows of b */
#define STREAM_FLAT    32 /* so few that what comes next are their next columns */
#if EXG_VECTOR_BYTES == 64
#define ROWS        8
#define DOT_COLUMNS 8
#define STREAM_ROWS 12
#else
#define ROWS        4
#define DOT_COLUMNS 4
#define STREAM_ROWS 6
#endif

#define UNROLL _Pragma("GCC unroll 32")

/* Four by four, by two rounds of interleaving. */
typedef int32_t pick4 __attribute__((vector_size(16)));
typedef float vf32x4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef int64_t pick2 __attribute__((vector_size(16)));
typedef double vf64x2 __attribute__((vector_size(16), aligned(8), may_alias));

#if defined(__clang__)
#define SHUFFLE4(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#define SHUFFLE2(a, b, i, j)       __builtin_shufflevector(a, b, i, j)
#else
#define SHUFFLE4(a, b, i, j, k, l) __builtin_shuffle(a, b, (pick4){i, j, k, l})
#define SHUFFLE2(a, b, i, j)       __builtin_shuffle(a, b, (pick2){i, j})
#endif

/* panel[0..3][0..3] = the four rows at k .. k + 3 */
static inline void transpose4_f32(float *panel, uint32_t width, const float *const *rows, int64_t k)
{
    vf32x4 a = *(const vf32x4 *)(rows[0] + k);
    vf32x4 b = *(const vf32x4 *)(rows[1] + k);
    vf32x4 c = *(const vf32x4 *)(rows[2] + k);
    vf32x4 d = *(const vf32x4 *)(rows[3] + k);
    vf32x4 ab_low = SHUFFLE4(a, b, 0, 4, 1, 5);
    vf32x4 ab_high = SHUFFLE4(a, b, 2, 6, 3, 7);
    vf32x4 cd_low = SHUFFLE4(c, d, 0, 4, 1, 5);
    vf32x4 cd_high = SHUFFLE4(c, d, 2, 6, 3, 7);

    *(vf32x4 *)panel = SHUFFLE4(ab_low, cd_low, 0, 1, 4, 5);
    *(vf32x4 *)(panel + width) = SHUFFLE4(ab_low, cd_low, 2, 3, 6, 7);
    *(vf32x4 *)(panel + 2 * width) = SHUFFLE4(ab_high, cd_high, 0, 1, 4, 5);
    *(vf32x4 *)(panel + 3 * width) = SHUFFLE4(ab_high, cd_high, 2, 3, 6, 7);
}

#if EXG_VECTOR_BYTES >= 32
typedef int32_t pick8 __attribute__((vector_size(32)));
typedef float vf32x8 __attribute__((vector_size(32), aligned(4), may_alias));

#if defined(__clang__)
#define SHUFFLE8(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE8(a, b, ...) __builtin_shuffle(a, b, (pick8){__VA_ARGS__})
#endif

/* panel[0..7][0..7] = the eight rows at k .. k + 7: four by four in each half, then halves. */
static inline void transpose8_f32(float *panel, int64_t width, const float *const *rows, int64_t k)
{
    vf32x8 pairs[8];
    vf32x8 fours[8];

    UNROLL for (int i = 0; i < 8; i += 2)
    {
        vf32x8 even = *(const vf32x8 *)(rows[i] + k);
        vf32x8 odd = *(const vf32x8 *)(rows[i + 1] + k);

        pairs[i] = SHUFFLE8(even, odd, 0, 8, 1, 9, 4, 12, 5, 13);
        pairs[i + 1] = SHUFFLE8(even, odd, 2, 10, 3, 11, 6, 14, 7, 15);
    }
    UNROLL for (int i = 0; i < 8; i += 4)
    {
        UNROLL for (int j = 0; j < 2; j++)
        {
            fours[i + 2 * j] = SHUFFLE8(pairs[i + j], pairs[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            fours[i + 2 * j + 1] =
                SHUFFLE8(pairs[i + j], pairs[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    }
    UNROLL for (int i = 0; i < 4; i++)
    {
        *(vf32x8 *)(panel + i * width) = SHUFFLE8(fours[i], fours[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        *(vf32x8 *)(panel + (i + 4) * width) =
            SHUFFLE8(fours[i], fours[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}
#endif

static inline void transpose4_f64(double *panel, uint32_t width, const double *const *rows,
                                  int64_t k)
{
    for (int64_t end = k + 4; k < end; k += 2, panel += 2 * width) {
        vf64x2 a = *(const vf64x2 *)(rows[0] + k);
        vf64x2 b = *(const vf64x2 *)(rows[1] + k);
        vf64x2 c = *(const vf64x2 *)(rows[2] + k);
        vf64x2 d = *(const vf64x2 *)(rows[3] + k);

        *(vf64x2 *)panel = SHUFFLE2(a, b, 0, 2);
        *(vf64x2 *)(panel + 2) = SHUFFLE2(c, d, 0, 2);
        *(vf64x2 *)(panel + width) = SHUFFLE2(a, b, 1, 3);
        *(vf64x2 *)(panel + width + 2) = SHUFFLE2(c, d, 1, 3);
    }
}

typedef double vf64x4 __attribute__((vector_size(32), aligned(8), may_alias));

#define REAL       float
#define FOUR       vf32x4
#define VECTOR     exg_vf32
#define LANES      EXG_VF32
#define DTYPE      EXG_DTYPE_F32
#define GEMM(name) gemm_f32_##name
#define TRANSPOSE4 transpose4_f32
#if EXG_VECTOR_BYTES >= 32
#define TRANSPOSE8 transpose8_f32
#endif
#include "libexec/kernels/loops/gemm_body.h"
#undef REAL
#undef FOUR
#undef VECTOR
#undef LANES
#undef DTYPE
#undef GEMM
#undef TRANSPOSE4
#undef TRANSPOSE8

#define REAL       double
#define FOUR       vf64x4
#define VECTOR     exg_vf64
#define LANES      EXG_VF64
#define DTYPE      EXG_DTYPE_F64
#define GEMM(name) gemm_f64_##name
#define TRANSPOSE4 transpose4_f64
#include "libexec/kernels/loops/gemm_body.h"

/* ---- few rows, panels of bf16 ----------------------------------------------------- */

typedef uint16_t narrow_lanes __attribute__((vector_size(EXG_VF32 * 2), aligned(2), may_alias));
typedef uint32_t wide_lanes __attribute__((vector_size(EXG_VECTOR_BYTES)));

/* c (rows, one panel) = or += panel a times a panel of bf16, widened on the way. */
static inline __attribute__((always_inline)) void few_rows(const int rows, int64_t depth,
                                                           const float *a, const uint16_t *b,
                                                           float *c, int64_t c_stride, bool adds)
{
    exg_vf32 sums[ROWS][TILE_VECTORS] = {{{0}}};

    for (int64_t k = 0; k < depth; k++, a += ROWS, b += TILE_VECTORS * EXG_VF32) {
        UNROLL for (int j = 0; j < TILE_VECTORS; j++)
        {
            wide_lanes wide =
                __builtin_convertvector(*(const narrow_lanes *)(b + j * EXG_VF32), wide_lanes);
            exg_vf32 column = (exg_vf32)(wide << 16);

            UNROLL for (int i = 0; i < rows; i++)
            {
                sums[i][j] += a[i] * column;
            }
        }
    }
    UNROLL for (int i = 0; i < rows; i++)
    {
        UNROLL for (int j = 0; j < TILE_VECTORS; j++)
        {
            exg_vf32 *at = (exg_vf32 *)(c + i * c_stride + j * EXG_VF32);

            if (adds) {
                sums[i][j] += *at;
            }
            *at = sums[i][j];
        }
    }
}

static void few_rows_of(int64_t rows, int64_t depth, const float *a, const uint16_t *b, float *c,
                        int64_t c_stride, bool adds)
{
    if (rows == 1) {
        few_rows(1, depth, a, b, c, c_stride, adds);
    } else if (rows == 2) {
        few_rows(2, depth, a, b, c, c_stride, adds);
    } else {
        few_rows(ROWS, depth, a, b, c, c_stride, adds); /* those there are not are zeros */
    }
}

static void block_bf16(int64_t m, int64_t n, int64_t depth, const void *a, const void *b, float *c,
                       int64_t c_stride, bool adds)
{
    enum { width = TILE_VECTORS * EXG_VF32 };

    for (int64_t j = 0; j < n; j += width) {
        for (int64_t i = 0; i < m; i += ROWS) {
            int64_t rows = m - i < ROWS ? m - i : ROWS;
            int64_t columns = n - j < width ? n - j : width;
            float room[ROWS * width];
            const float *panel = (const float *)a + i * depth;
            const uint16_t *from = (const uint16_t *)b + j * depth;

            if (columns == width && (rows < 3 || rows == ROWS)) {
                few_rows_of(rows, depth, panel, from, c + i * c_stride + j, c_stride, adds);
                continue;
            }
            few_rows_of(rows, depth, panel, from, room, width, false);
            for (int64_t x = 0; x < rows * columns; x++) {
                float *at = c + (i + x / columns) * c_stride + j + x % columns;
                float sum = room[x / columns * width + x % columns];

                *at = adds ? *at + sum : sum;
            }
        }
    }
}

#define TABLE(suffix, real, width)                                                                 \
    {                                                                                              \
        .real_bytes = sizeof(real), .panel_bytes = sizeof(real), .group = 1, .rows = ROWS,         \
        .columns = TILE_VECTORS * (width), .side = TILE_VECTORS * (width), .cell = 1,              \
        .lanes = (width), .whole = 1, .direct_columns = EXG_GEMM_DIRECT_COLUMNS,                   \
        .direct_sets = 4096, .depth = EXG_GEMM_K, .pack = gemm_##suffix##_pack,                    \
        .pack_rows = gemm_##suffix##_pack_one, .block = gemm_##suffix##_block,                     \
        .stream = gemm_##suffix##_stream, .stream_rows = STREAM_ROWS, .block_bf16 = block_bf16,    \
        .dot = gemm_##suffix##_dot, .axpy = gemm_##suffix##_axpy,                                  \
    }

const exg_gemm_loops EXG_ISA_NAME(exg_loops_gemm_f32) = TABLE(f32, float, EXG_VF32);
const exg_gemm_loops EXG_ISA_NAME(exg_loops_gemm_f64) = TABLE(f64, double, EXG_VF64);
