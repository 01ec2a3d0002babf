/* gemm_quads.c - products of matrices of bytes by VNNI, four of the depth at a time.
 *
 * vpdpbusd multiplies bytes without a sign by bytes with one and adds four products to an
 * int32, which wraps and does not saturate. So A's panels hold bytes without a sign and B's
 * bytes with one; a matrix of the other kind is moved by 128, which turns its top bits, and
 * the sums that a panel ends with bring the product back:
 *
 *   (a - s) (b + t) = a b - s b + t a - s t       s, t = 128 or 0
 *
 * A panel is quads of the depth, [quads][width][4], zeros where there are fewer, then the
 * sums of what it holds, int32 [width].
 */
#include "libexec/kernels/loops/loops.h"

#include <immintrin.h>
#include <string.h>

#define ROWS    8
#define VECTORS 3
#define LANES   16
#define COLUMNS (VECTORS * LANES)
#define TURN    UINT32_C(0x80808080) /* the top bits of four bytes */
#define UNROLL  _Pragma("GCC unroll 32")
#define INLINE  static inline __attribute__((always_inline))

typedef int32_t quad __attribute__((aligned(1), may_alias)); /* four bytes of the depth, or a sum */

/* ---- packing -------------------------------------------------------------------------- */

/* One row of the panel, dense along the depth. */
INLINE void pack_row(const int width, int64_t depth, uint8_t *to, const uint8_t *from,
                     uint32_t turn)
{
    int64_t k = 0;

    for (; k + 4 <= depth; k += 4) {
        *(quad *)(to + k * width) = *(const quad *)(from + k) ^ (quad)turn;
    }
    for (int64_t b = k; b < depth; b++) {
        to[k * width + b - k] = (uint8_t)(from[b] ^ (turn & 0xff));
    }
}

/* Sixteen rows, side by side in memory, over four of the depth. */
static void pack_four(uint8_t *to, const uint8_t *from, int64_t depth_stride, uint32_t turn)
{
    __m128i row[4];

    UNROLL for (int k = 0; k < 4; k++)
    {
        row[k] = _mm_xor_si128(_mm_loadu_si128((const void *)(from + k * depth_stride)),
                               _mm_set1_epi32((int)turn));
    }
    UNROLL for (int high = 0; high < 2; high++)
    {
        __m128i near = high ? _mm_unpackhi_epi8(row[0], row[1]) : _mm_unpacklo_epi8(row[0], row[1]);
        __m128i far = high ? _mm_unpackhi_epi8(row[2], row[3]) : _mm_unpacklo_epi8(row[2], row[3]);

        _mm_storeu_si128((void *)(to + high * 32), _mm_unpacklo_epi16(near, far));
        _mm_storeu_si128((void *)(to + high * 32 + 16), _mm_unpackhi_epi16(near, far));
    }
}

/* `count` rows anywhere, from `k` on. */
INLINE void pack_bytes(const int width, int64_t count, int64_t k, int64_t depth, uint8_t *to,
                       const uint8_t *from, int64_t stride, int64_t depth_stride, uint32_t turn)
{
    for (; k < depth; k++) {
        for (int64_t r = 0; r < count; r++) {
            to[k / 4 * 4 * width + r * 4 + k % 4] =
                (uint8_t)(from[r * stride + k * depth_stride] ^ (turn & 0xff));
        }
    }
}

INLINE void pack_panel(const int width, int64_t count, int64_t depth, uint8_t *to,
                       const uint8_t *from, int64_t stride, int64_t depth_stride, uint32_t turn)
{
    int64_t k = 0;

    if (count < width || depth % 4 != 0) {
        memset(to, 0, (size_t)((depth + 3) / 4 * 4 * width));
    }
    if (depth_stride == 1) {
        for (int64_t r = 0; r < count; r++) {
            pack_row(width, depth, to + 4 * r, from + r * stride, turn);
        }
        return;
    }
    for (; stride == 1 && count == width && width % 16 == 0 && k + 4 <= depth; k += 4) {
        for (int r = 0; r < width; r += 16) {
            pack_four(to + k * width + 4 * r, from + k * depth_stride + r, depth_stride, turn);
        }
    }
    pack_bytes(width, count, k, depth, to, from, stride, depth_stride, turn);
}

/* The sums of a panel's rows, behind it. */
INLINE void add_up(const int width, const bool is_signed, int64_t depth, uint8_t *panel)
{
    const int64_t quads = (depth + 3) / 4;
    const __m256i ones = _mm256_set1_epi8(1);

    for (int r = 0; r < width; r += 8) {
        __m256i sums = _mm256_setzero_si256();

        for (int64_t q = 0; q < quads; q++) {
            __m256i x = _mm256_loadu_si256((const void *)(panel + (q * width + r) * 4));

            sums =
                is_signed ? _mm256_dpbusd_epi32(sums, ones, x) : _mm256_dpbusd_epi32(sums, x, ones);
        }
        _mm256_storeu_si256((void *)(panel + (quads * width + r) * 4), sums);
    }
}

INLINE void pack(const int width, const bool to_signed, int64_t count, int64_t depth,
                 uint8_t *panels, const uint8_t *memory, bool is_signed, int64_t stride,
                 int64_t depth_stride)
{
    for (int64_t first = 0; first < count; first += width) {
        int64_t rows = count - first < width ? count - first : width;

        pack_panel(width, rows, depth, panels, memory + first * stride, stride, depth_stride,
                   is_signed == to_signed ? 0 : TURN);
        add_up(width, to_signed, depth, panels);
        panels += ((depth + 3) / 4 + 1) * 4 * width;
    }
}

static void pack_a(int64_t count, int64_t depth, void *panels, const void *memory, bool is_signed,
                   int64_t stride, int64_t depth_stride)
{
    pack(ROWS, false, count, depth, panels, memory, is_signed, stride, depth_stride);
}

static void pack_b(int64_t count, int64_t depth, void *panels, const void *memory, bool is_signed,
                   int64_t stride, int64_t depth_stride)
{
    pack(COLUMNS, true, count, depth, panels, memory, is_signed, stride, depth_stride);
}

/* ---- products --------------------------------------------------------------------------- */

/* What a tile adds to the products of its panels: per_row times A's sums, per_column times
 * B's, and one number. */
typedef struct back {
    int32_t per_row, per_column, everywhere;
} back;

/* c (rows, one panel) = or += that. */
static void bring_back(int64_t rows, const quad *row_sums, const quad *column_sums, back moved,
                       int32_t *c, int64_t c_stride, bool adds)
{
    for (int64_t i = 0; i < rows; i++, c += c_stride) {
        __m512i row = _mm512_set1_epi32(moved.everywhere + moved.per_row * row_sums[i]);

        for (int j = 0; j < COLUMNS; j += LANES) {
            __m512i sum = _mm512_mullo_epi32(_mm512_loadu_si512(column_sums + j),
                                             _mm512_set1_epi32(moved.per_column));

            sum = _mm512_add_epi32(sum, row);
            sum = adds ? _mm512_add_epi32(sum, _mm512_loadu_si512(c + j)) : sum;
            _mm512_storeu_si512(c + j, sum);
        }
    }
}

/* c (rows, vectors) += the product of two panels; rows and vectors constant. */
INLINE void tile(const int rows, const int vectors, int64_t quads, const quad *a, const quad *b,
                 int32_t *c, int64_t c_stride)
{
    __m512i sums[ROWS][VECTORS];

    UNROLL for (int i = 0; i < rows; i++)
    {
        UNROLL for (int j = 0; j < vectors; j++)
        {
            sums[i][j] = _mm512_loadu_si512(c + i * c_stride + j * LANES);
        }
    }
    for (; quads > 0; quads--, a += ROWS, b += COLUMNS) {
        __m512i column[VECTORS];

        UNROLL for (int j = 0; j < vectors; j++)
        {
            column[j] = _mm512_loadu_si512(b + j * LANES);
        }
        UNROLL for (int i = 0; i < rows; i++)
        {
            __m512i row = _mm512_set1_epi32(a[i]);

            UNROLL for (int j = 0; j < vectors; j++)
            {
                sums[i][j] = _mm512_dpbusd_epi32(sums[i][j], row, column[j]);
            }
        }
    }
    UNROLL for (int i = 0; i < rows; i++)
    {
        UNROLL for (int j = 0; j < vectors; j++)
        {
            _mm512_storeu_si512(c + i * c_stride + j * LANES, sums[i][j]);
        }
    }
}

typedef void tile_function(int64_t quads, const quad *a, const quad *b, int32_t *c,
                           int64_t c_stride);

#define TILE(rows, vectors)                                                                        \
    static void tile_##rows##_##vectors(int64_t quads, const quad *a, const quad *b, int32_t *c,   \
                                        int64_t c_stride)                                          \
    {                                                                                              \
        tile(rows, vectors, quads, a, b, c, c_stride);                                             \
    }

/* clang-format off */
TILE(1, 1) TILE(1, 2) TILE(1, 3)
TILE(4, 1) TILE(4, 2) TILE(4, 3)
TILE(8, 1) TILE(8, 2) TILE(8, 3)
    /* clang-format on */

    static tile_function *const tiles[][VECTORS] = {
        {tile_1_1, tile_1_2, tile_1_3},
        {tile_4_1, tile_4_2, tile_4_3},
        {tile_8_1, tile_8_2, tile_8_3},
};

static void block(int64_t m, int64_t n, int64_t depth, const void *a, bool a_is_signed,
                  const void *b, bool b_is_signed, int32_t *c, int64_t c_stride, bool adds)
{
    const int64_t quads = (depth + 3) / 4;
    const back moved = {b_is_signed ? 0 : 128, a_is_signed ? -128 : 0,
                        a_is_signed && !b_is_signed ? -128 * 128 * (int32_t)depth : 0};

    for (int64_t j = 0; j < n; j += COLUMNS) {
        for (int64_t i = 0; i < m; i += ROWS) {
            const quad *rows = (const quad *)a + i * (quads + 1);
            const quad *columns = (const quad *)b + j * (quads + 1);
            int64_t height = m - i < ROWS ? m - i : ROWS;
            int64_t vectors = n - j < COLUMNS ? (n - j + LANES - 1) / LANES : VECTORS;
            int32_t *at = c + i * c_stride + j;

            bring_back(height, rows + quads * ROWS, columns + quads * COLUMNS, moved, at, c_stride,
                       adds);
            tiles[height == 1   ? 0
                  : height <= 4 ? 1
                                : 2][vectors - 1](quads, rows, columns, at, c_stride);
        }
    }
}

const exg_gemm_bytes_loops exg_loops_gemm_bytes_vnni = {
    .rows = ROWS,
    .columns = COLUMNS,
    .group = 4,
    .depth = EXG_GEMM_K,
    .a_bytes = 1,
    .sum_bytes = sizeof(int32_t),
    .pack_a = pack_a,
    .pack_b = pack_b,
    .block = block,
};
