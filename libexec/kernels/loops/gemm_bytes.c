/* gemm_bytes.c - products of matrices of bytes, summed in int32.
 *
 * Panels hold pairs along the depth, [depth / 2][width][2], so that one instruction
 * multiplies a pair of each column with a pair of a row and adds both: A's as int16, B's
 * as the bytes they are, widened as they are read. No product of bytes and no sum of two
 * can overflow there; sums in int32 wrap.
 */
#include "libexec/kernels/loops/loops.h"

#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define ROWS    4
#define VECTORS 2
#define UNROLL  _Pragma("GCC unroll 8")

#if defined(__AVX512BW__)
typedef __m512i lanes;
#define LANES       16
#define NO_SUM()    _mm512_setzero_si512()
#define LOAD(p)     _mm512_loadu_si512(p)
#define STORE(p, v) _mm512_storeu_si512(p, v)
#define ADD(x, y)   _mm512_add_epi32(x, y)
#define PAIRS(x, y) _mm512_madd_epi16(x, y)
#define REPEAT(p)   _mm512_set1_epi32(p)
#define WIDE_I8(p)  _mm512_cvtepi8_epi16(_mm256_loadu_si256((const void *)(p)))
#define WIDE_U8(p)  _mm512_cvtepu8_epi16(_mm256_loadu_si256((const void *)(p)))
#elif defined(__AVX2__)
typedef __m256i lanes;
#define LANES       8
#define NO_SUM()    _mm256_setzero_si256()
#define LOAD(p)     _mm256_loadu_si256((const void *)(p))
#define STORE(p, v) _mm256_storeu_si256((void *)(p), v)
#define ADD(x, y)   _mm256_add_epi32(x, y)
#define PAIRS(x, y) _mm256_madd_epi16(x, y)
#define REPEAT(p)   _mm256_set1_epi32(p)
#define WIDE_I8(p)  _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)(p)))
#define WIDE_U8(p)  _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)(p)))
#else /* vectors of four that any machine has */
typedef int32_t lanes __attribute__((vector_size(16), aligned(4), may_alias));
typedef int16_t halves __attribute__((vector_size(16)));
typedef int8_t signed_bytes __attribute__((vector_size(8), aligned(1), may_alias));
typedef uint8_t unsigned_bytes __attribute__((vector_size(8), aligned(1), may_alias));
#define LANES       4
#define NO_SUM()    ((lanes){0})
#define LOAD(p)     (*(const lanes *)(p))
#define STORE(p, v) (*(lanes *)(p) = (v))
#define ADD(x, y)   ((x) + (y))
#define PAIRS(x, y) (((x) << 16 >> 16) * ((y) << 16 >> 16) + ((x) >> 16) * ((y) >> 16))
#define REPEAT(p)   ((lanes){0} + (p))
#define WIDE_I8(p)  ((lanes) __builtin_convertvector(*(const signed_bytes *)(p), halves))
#define WIDE_U8(p)  ((lanes) __builtin_convertvector(*(const unsigned_bytes *)(p), halves))
#endif

#define COLUMNS (VECTORS * LANES)

/* One byte of either kind. */
static inline int16_t byte_at(const uint8_t *memory, int64_t at, bool is_signed)
{
    return is_signed ? (int16_t)(int8_t)memory[at] : (int16_t)memory[at];
}

static void pack_a(int64_t count, int64_t depth, void *panels_, const void *memory_, bool is_signed,
                   int64_t stride, int64_t depth_stride)
{
    int16_t *panels = panels_;
    const uint8_t *memory = memory_;
    const int64_t pairs = (depth + 1) / 2;

    memset(panels, 0, (size_t)((count + ROWS - 1) / ROWS * ROWS * pairs * 2) * sizeof(*panels));
    for (int64_t r = 0; r < count; r++) {
        int16_t *to = panels + (r / ROWS * pairs * ROWS + r % ROWS) * 2;
        const uint8_t *from = memory + r * stride;

        for (int64_t k = 0; k < depth; k++) {
            to[k / 2 * ROWS * 2 + k % 2] = byte_at(from, k * depth_stride, is_signed);
        }
    }
}

/* A whole panel of columns that are side by side; of an odd depth the last bytes are 0. */
static void pack_panel(int64_t depth, uint8_t *to, const uint8_t *from, int64_t depth_stride)
{
    for (int64_t k = 0; k + 1 < depth; k += 2, to += 2 * COLUMNS, from += 2 * depth_stride) {
        for (int64_t j = 0; j < COLUMNS; j++) {
            to[2 * j] = from[j];
            to[2 * j + 1] = from[j + depth_stride];
        }
    }
    for (int64_t j = 0; j < COLUMNS && depth % 2 != 0; j++) {
        to[2 * j] = from[j];
    }
}

static void pack_b(int64_t count, int64_t depth, void *panels_, const void *memory_, bool is_signed,
                   int64_t stride, int64_t depth_stride)
{
    uint8_t *panels = panels_;
    const uint8_t *memory = memory_;
    const int64_t pairs = (depth + 1) / 2;

    int64_t first = 0;

    (void)is_signed; /* they are widened as they are read */
    memset(panels, 0, (size_t)((count + COLUMNS - 1) / COLUMNS * COLUMNS * pairs * 2));
    for (; stride == 1 && first + COLUMNS <= count; first += COLUMNS) {
        pack_panel(depth, panels + first * pairs * 2, memory + first, depth_stride);
    }
    for (int64_t j = first; j < count; j++) {
        uint8_t *to = panels + (j / COLUMNS * pairs * COLUMNS + j % COLUMNS) * 2;
        const uint8_t *from = memory + j * stride;

        for (int64_t k = 0; k < depth; k++) {
            to[k / 2 * COLUMNS * 2 + k % 2] = from[k * depth_stride];
        }
    }
}

static inline __attribute__((always_inline)) void tile(const int rows, const bool is_signed,
                                                       int64_t pairs, const int16_t *a,
                                                       const uint8_t *b, int32_t *c,
                                                       int64_t c_stride, bool adds)
{
    lanes sums[ROWS][VECTORS];

    UNROLL for (int i = 0; i < rows; i++)
    {
        UNROLL for (int j = 0; j < VECTORS; j++)
        {
            sums[i][j] = adds ? LOAD(c + i * c_stride + j * LANES) : NO_SUM();
        }
    }
    for (; pairs > 0; pairs--, a += ROWS * 2, b += COLUMNS * 2) {
        UNROLL for (int j = 0; j < VECTORS; j++)
        {
            lanes column = is_signed ? WIDE_I8(b + j * LANES * 2) : WIDE_U8(b + j * LANES * 2);

            UNROLL for (int i = 0; i < rows; i++)
            {
                int32_t pair;

                memcpy(&pair, a + 2 * i, sizeof(pair));
                sums[i][j] = ADD(sums[i][j], PAIRS(column, REPEAT(pair)));
            }
        }
    }
    UNROLL for (int i = 0; i < rows; i++)
    {
        UNROLL for (int j = 0; j < VECTORS; j++)
        {
            STORE(c + i * c_stride + j * LANES, sums[i][j]);
        }
    }
}

static void block(int64_t m, int64_t n, int64_t depth, const void *a, bool a_is_signed,
                  const void *b, bool b_is_signed, int32_t *c, int64_t c_stride, bool adds)
{
    const int64_t pairs = (depth + 1) / 2;

    (void)a_is_signed; /* A was widened when it was packed */
    for (int64_t j = 0; j < n; j += COLUMNS) {
        for (int64_t i = 0; i < m; i += ROWS) {
            const int16_t *rows = (const int16_t *)a + i * pairs * 2;
            const uint8_t *columns = (const uint8_t *)b + j * pairs * 2;
            int32_t *at = c + i * c_stride + j;

            if (b_is_signed && m - i == 1) {
                tile(1, true, pairs, rows, columns, at, c_stride, adds);
            } else if (b_is_signed) {
                tile(ROWS, true, pairs, rows, columns, at, c_stride, adds);
            } else {
                tile(ROWS, false, pairs, rows, columns, at, c_stride, adds);
            }
        }
    }
}

const exg_gemm_bytes_loops EXG_ISA_NAME(exg_loops_gemm_bytes) = {
    .rows = ROWS,
    .columns = COLUMNS,
    .group = 2,
    .depth = EXG_GEMM_K,
    .a_bytes = sizeof(int16_t),
    .pack_a = pack_a,
    .pack_b = pack_b,
    .block = block,
};
