/* gemm_pairs.c - products of matrices of bf16 by AVX512-BF16, two of the depth at a time.
 *
 * vdpbf16ps multiplies pairs of bf16 and adds both products to an f32, each rounded to
 * nearest; denormals are zeros. A panel is pairs of the depth, [pairs][width][2], zeros where
 * there are fewer: four bytes a pair, laid out like panels of f32 of half the depth.
 *
 * Where it pays is isa.c's to say: measured on a Zen 4, 100 products a ns against 53 of the f32
 * multiply-add; on Xeons that have it, 43 against 88 (those with AMX take gemm_tiles.c).
 */
#include "libexec/kernels/loops/loops.h"

#include <immintrin.h>
#include <string.h>

#define ROWS    8
#define VECTORS 3
#define LANES   16
#define DEPTH   512
#define COLUMNS (VECTORS * LANES)
#define UNROLL  _Pragma("GCC unroll 32")
#define INLINE  static inline __attribute__((always_inline))

typedef uint32_t pair __attribute__((aligned(2), may_alias)); /* of bf16 */

/* ---- packing -------------------------------------------------------------------------- */

static const uint16_t zeros[DEPTH];

/* The first `count` lanes, up to all. */
static inline __mmask16 lanes_of(int64_t count)
{
    uint32_t bits = count <= 0 ? 0 : UINT32_MAX >> (count < LANES ? 32 - count : 32 - LANES);

    return (__mmask16)bits;
}

/* Eight pairs of eight rows: panel[0 .. 7][0 .. 7] = rows[0 .. 7][k .. k + 15]. */
INLINE void turn_eight(pair *panel, int64_t width, const uint16_t *const *rows, int64_t k)
{
    __m256 r[8];
    __m256 s[8];

    UNROLL for (int i = 0; i < 8; i += 2)
    {
        __m256 even = _mm256_loadu_ps((const void *)(rows[i] + k));
        __m256 odd = _mm256_loadu_ps((const void *)(rows[i + 1] + k));

        r[i] = _mm256_unpacklo_ps(even, odd);
        r[i + 1] = _mm256_unpackhi_ps(even, odd);
    }
    UNROLL for (int i = 0; i < 8; i += 4)
    {
        s[i] = _mm256_shuffle_ps(r[i], r[i + 2], 0x44);
        s[i + 1] = _mm256_shuffle_ps(r[i], r[i + 2], 0xee);
        s[i + 2] = _mm256_shuffle_ps(r[i + 1], r[i + 3], 0x44);
        s[i + 3] = _mm256_shuffle_ps(r[i + 1], r[i + 3], 0xee);
    }
    UNROLL for (int i = 0; i < 4; i++)
    {
        _mm256_storeu_ps((void *)(panel + i * width), _mm256_permute2f128_ps(s[i], s[i + 4], 0x20));
        _mm256_storeu_ps((void *)(panel + (i + 4) * width),
                         _mm256_permute2f128_ps(s[i], s[i + 4], 0x31));
    }
}

/* Eight rows of a panel, each dense along the depth. */
INLINE void pack_eight(int64_t width, int64_t depth, pair *panel, const uint16_t *const *rows)
{
    int64_t k = 0;

    for (; k + 16 <= depth; k += 16) {
        turn_eight(panel + k / 2 * width, width, rows, k);
    }
    for (; k + 2 <= depth; k += 2) {
        for (int i = 0; i < 8; i++) {
            panel[k / 2 * width + i] = *(const pair *)(rows[i] + k);
        }
    }
    for (int i = 0; i < 8 && k < depth; i++) {
        panel[k / 2 * width + i] = rows[i][k];
    }
}

static void pack_rows(int64_t depth, void *panel, const void *const *rows)
{
    const uint16_t *eight[8];

    memcpy(eight, rows, sizeof(eight));
    pack_eight(ROWS, depth, panel, eight);
}

/* One row, dense: where it is, or brought to `room`. */
static const uint16_t *dense_row(int64_t depth, const void *memory, exg_dtype dtype,
                                 int64_t depth_stride, uint16_t *room)
{
    if (dtype == EXG_DTYPE_BF16 && depth_stride == 1) {
        return memory;
    }
    if (dtype == EXG_DTYPE_BF16) {
        for (int64_t k = 0; k < depth; k++) {
            room[k] = ((const uint16_t *)memory)[k * depth_stride];
        }
        return room;
    }
    for (int64_t k = 0; k < depth; k += LANES) { /* dense f32 */
        __mmask16 some = lanes_of(depth - k);
        __m512 x = _mm512_maskz_loadu_ps(some, (const float *)memory + k);

        _mm256_mask_storeu_epi16(room + k, some, (__m256i)_mm512_cvtneps_pbh(x));
    }
    return room;
}

/* Rows side by side in memory: row after row of the depth, so that each page is visited once. */
static void pack_columns(uint32_t width, int64_t count, int64_t depth, pair *panels,
                         const uint16_t *memory, int64_t depth_stride)
{
    const int64_t pairs = (depth + 1) / 2;

    for (int64_t p = 0; p < pairs; p++) {
        const uint16_t *first = memory + 2 * p * depth_stride;
        const uint16_t *second = 2 * p + 1 < depth ? first + depth_stride : NULL;

        for (int64_t j = 0; j < count; j += width) {
            pair *to = panels + j * pairs + p * width;

            for (int64_t i = 0; i < width; i += LANES) {
                __mmask16 some = lanes_of(count - j - i);
                __mmask16 room = lanes_of(width - i);
                __m256i low = _mm256_maskz_loadu_epi16(some, first + j + i);
                __m256i high = second == NULL ? _mm256_setzero_si256()
                                              : _mm256_maskz_loadu_epi16(some, second + j + i);

                _mm512_mask_storeu_epi32(
                    to + i, room,
                    _mm512_or_si512(_mm512_cvtepu16_epi32(low),
                                    _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16)));
            }
        }
    }
}

static void pack(uint32_t width, int64_t count, int64_t depth, void *panels, const void *memory,
                 exg_dtype dtype, int64_t stride, int64_t depth_stride)
{
    const int64_t bytes = dtype == EXG_DTYPE_BF16 ? 2 : 4;
    const int64_t pairs = (depth + 1) / 2;
    uint16_t room[8][DEPTH];

    if (dtype == EXG_DTYPE_BF16 && stride == 1 && depth_stride != 1) {
        pack_columns(width, count, depth, panels, memory, depth_stride);
        return;
    }
    for (int64_t first = 0; first < count; first += width) {
        pair *panel = (pair *)panels + first * pairs;

        for (int64_t r = 0; r < width; r += 8) {
            const uint16_t *rows[8];

            for (int64_t i = 0; i < 8; i++) {
                int64_t row = first + r + i;

                rows[i] = row < count
                              ? dense_row(depth, (const char *)memory + row * stride * bytes, dtype,
                                          depth_stride, room[i])
                              : zeros;
            }
            pack_eight(width, depth, panel + r, rows);
        }
    }
}

/* ---- products --------------------------------------------------------------------------- */

/* c (rows, vectors, the last of them as `last` says) = or += the product of two panels; rows
 * and vectors constant. `start` and `ahead` as in gemm_body.h. */
INLINE void tile(const int rows, const int vectors, int64_t pairs, const pair *a, const pair *b,
                 float *c, int64_t c_stride, bool adds, const float *start, __mmask16 last,
                 const char *ahead, int64_t ahead_step)
{
    __m512 sums[ROWS][VECTORS];

    UNROLL for (int i = 0; i < rows; i++)
    {
        UNROLL for (int j = 0; j < vectors; j++)
        {
            sums[i][j] = _mm512_setzero_ps();
            __builtin_prefetch(c + i * c_stride + j * LANES, 1);
        }
    }
    for (; pairs > 0; pairs--, a += ROWS, b += COLUMNS) {
        __m512bh column[VECTORS];

        __builtin_prefetch(ahead, 0, 2);
        ahead += ahead_step;
        UNROLL for (int j = 0; j < vectors; j++)
        {
            column[j] = (__m512bh)_mm512_loadu_si512(b + j * LANES);
        }
        UNROLL for (int i = 0; i < rows; i++)
        {
            __m512bh row = (__m512bh)_mm512_set1_epi32((int32_t)a[i]);

            UNROLL for (int j = 0; j < vectors; j++)
            {
                sums[i][j] = _mm512_dpbf16_ps(sums[i][j], row, column[j]);
            }
        }
    }
    UNROLL for (int i = 0; i < rows; i++)
    {
        UNROLL for (int j = 0; j < vectors; j++)
        {
            float *at = c + i * c_stride + j * LANES;
            __mmask16 some = j < vectors - 1 ? lanes_of(LANES) : last;

            if (adds) {
                sums[i][j] = _mm512_add_ps(sums[i][j], _mm512_maskz_loadu_ps(some, at));
            } else if (start != NULL) {
                sums[i][j] =
                    _mm512_add_ps(sums[i][j], _mm512_maskz_loadu_ps(some, start + j * LANES));
            }
            _mm512_mask_storeu_ps(at, some, sums[i][j]);
        }
    }
}

typedef void tile_function(int64_t pairs, const pair *a, const pair *b, float *c, int64_t c_stride,
                           bool adds, const float *start, __mmask16 last, const char *ahead,
                           int64_t ahead_step);

#define TILE(rows, vectors)                                                                        \
    static void tile_##rows##_##vectors(int64_t pairs, const pair *a, const pair *b, float *c,     \
                                        int64_t c_stride, bool adds, const float *start,           \
                                        __mmask16 last, const char *ahead, int64_t ahead_step)     \
    {                                                                                              \
        tile(rows, vectors, pairs, a, b, c, c_stride, adds, start, last, ahead, ahead_step);       \
    }
#define TILES(rows) TILE(rows, 1) TILE(rows, 2) TILE(rows, 3)
#define TILE_NAMES(rows)                                                                           \
    {                                                                                              \
        tile_##rows##_1, tile_##rows##_2, tile_##rows##_3                                          \
    }

/* clang-format off */
TILES(1) TILES(2) TILES(3) TILES(4) TILES(5) TILES(6) TILES(7) TILES(8)
    /* clang-format on */

    static tile_function *const tiles[ROWS][VECTORS] = {
        TILE_NAMES(1), TILE_NAMES(2), TILE_NAMES(3), TILE_NAMES(4),
        TILE_NAMES(5), TILE_NAMES(6), TILE_NAMES(7), TILE_NAMES(8),
};

static void block(int64_t m, int64_t n, int64_t depth, const void *a_panels, int64_t a_stride,
                  const void *b_panels, void *c, int64_t c_stride, bool adds, const void *start,
                  const void *next)
{
    const int64_t pairs = (depth + 1) / 2;

    (void)a_stride;
    for (int64_t j = 0; j < n; j += COLUMNS) {
        const pair *b = (const pair *)b_panels + j * pairs;
        int64_t columns = n - j < COLUMNS ? n - j : COLUMNS;
        int64_t vectors = (columns + LANES - 1) / LANES;
        __mmask16 last = lanes_of(columns - (vectors - 1) * LANES);
        /* as in gemm_body.h */
        const char *ahead = columns == n - j ? next : (const char *)(b + COLUMNS * pairs);
        int64_t step = ahead != NULL && m > 2 * ROWS ? COLUMNS * 4 * ROWS / m : 0;

        ahead = step > 0 ? ahead : (const char *)b;
        for (int64_t i = 0; i < m; i += ROWS) {
            int64_t rows = m - i < ROWS ? m - i : ROWS;

            tiles[rows - 1][vectors - 1](pairs, (const pair *)a_panels + i * pairs, b,
                                         (float *)c + i * c_stride + j, c_stride, adds,
                                         start == NULL ? NULL : (const float *)start + j, last,
                                         ahead + pairs * step * (i / ROWS), step);
        }
    }
}

const exg_gemm_loops exg_loops_gemm_pairs_bf16 = {
    .real_bytes = sizeof(float),
    .panel_bytes = sizeof(uint16_t),
    .group = 2,
    .rows = ROWS,
    .columns = COLUMNS,
    .side = COLUMNS,
    .cell = 2,
    .lanes = LANES,
    .whole = 1,
    .depth = DEPTH,
    .pack = pack,
    .pack_rows = pack_rows,
    .block = block,
};
