/* gemm_tiles.c - products of matrices of bf16 and of bytes by AMX, tiles of 16 by 16.
 *
 * A tile register holds 16 rows of 64 bytes. tdpbf16ps multiplies 16 rows of A, 32 bf16 of the
 * depth each, by 16 columns of B and adds to 16 by 16 f32 (denormals are zeros); tdpb__d does it
 * with 64 bytes of the depth, signed or not, and int32 that wrap. Both want B in cells of four
 * bytes: [depth / cell][column][cell], where A is [row][depth / cell][cell]: the one tile is the
 * other with its cells transposed, and so both are packed alike.
 *
 * Panels are tiles in the order in which they are read, zeros where there are fewer:
 * A's [depth / 64 bytes][row][64 bytes], B's [depth / 64 bytes][half][16 cells][16 columns].
 * Four tiles of sums, two of A, two of B: a load for every product.
 */
#include "libexec/kernels/loops/loops.h"

#include <immintrin.h>
#include <string.h>

#define SIDE        16 /* rows of a tile, and cells of a row */
#define ROW_BYTES   64
#define TILE_BYTES  1024
#define A_ROWS      SIDE
#define B_COLUMNS   (2 * SIDE)
#define PAIRS_DEPTH 256 /* a panel of B and two of A stay in the first cache */
#define BYTES_DEPTH 1024
#define UNROLL      _Pragma("GCC unroll 16")
#define INLINE      static inline __attribute__((always_inline))

/* ---- packing -------------------------------------------------------------------------- */

/* What is packed. */
typedef struct matrix {
    const char *memory;
    int64_t count, depth;         /* rows (or columns of B), elements of each */
    int64_t stride, depth_stride; /* in bytes */
    int element;                  /* bytes of one in memory */
    int packed;                   /* and in a panel: 2 or 1; 4 in memory are an f32 to be rounded */
} matrix;

/* The first `count` of 64, up to all. */
static inline __mmask64 first_of(int64_t count)
{
    return count >= 64 ? ~UINT64_C(0) : count <= 0 ? 0 : ~UINT64_C(0) >> (64 - count);
}

static inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Cells transposed: row i, cell j to row j, cell i. */
INLINE void turn(__m512i *r)
{
    __m512i s[SIDE];

    UNROLL for (int i = 0; i < SIDE; i += 2)
    {
        s[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        s[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    UNROLL for (int i = 0; i < SIDE; i += 4)
    {
        r[i] = _mm512_unpacklo_epi64(s[i], s[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(s[i], s[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(s[i + 1], s[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(s[i + 1], s[i + 3]);
    }
    /* r[4 g + c]: column c of each lane's four, rows 4 g .. 4 g + 3 */
    UNROLL for (int c = 0; c < 4; c++)
    {
        __m512i low = _mm512_shuffle_i32x4(r[c], r[4 + c], 0x88);
        __m512i high = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], 0x88);
        __m512i odd_low = _mm512_shuffle_i32x4(r[c], r[4 + c], 0xdd);
        __m512i odd_high = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], 0xdd);

        s[c] = _mm512_shuffle_i32x4(low, high, 0x88);
        s[8 + c] = _mm512_shuffle_i32x4(low, high, 0xdd);
        s[4 + c] = _mm512_shuffle_i32x4(odd_low, odd_high, 0x88);
        s[12 + c] = _mm512_shuffle_i32x4(odd_low, odd_high, 0xdd);
    }
    memcpy(r, s, sizeof(s));
}

/* 64 bytes of a panel's row from `bytes` of it, dense in memory. */
static inline __m512i dense_row(const char *from, int64_t bytes)
{
    return _mm512_maskz_loadu_epi8(first_of(bytes), from);
}

/* The same from f32. */
static inline __m512i rounded_row(const char *from, int64_t count)
{
    __m512 low = _mm512_maskz_loadu_ps((__mmask16)first_of(count), from);
    __m512 high = _mm512_maskz_loadu_ps((__mmask16)first_of(count - SIDE), from + ROW_BYTES);

    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

/* Rows dense along the depth: [row][64 bytes]. */
INLINE void fetch_rows(__m512i *r, const matrix *m, int64_t row, int64_t k)
{
    const char *from = m->memory + row * m->stride + k * m->element;

    UNROLL for (int i = 0; i < SIDE; i++)
    {
        int64_t depth = row + i < m->count ? m->depth - k : 0;

        r[i] =
            m->element > m->packed ? rounded_row(from, depth) : dense_row(from, depth * m->packed);
        from += depth > 0 ? m->stride : 0;
    }
}

/* Rows side by side in memory: [cell][row]. */
INLINE void fetch_sides(__m512i *r, const matrix *m, int64_t row, int64_t k)
{
    const __mmask16 some = (__mmask16)first_of(m->count - row);

    for (int i = 0; i < SIDE; i++, k += 4 / m->packed) {
        const char *from = m->memory + row * m->stride + k * m->depth_stride;
        __m512i cells = _mm512_setzero_si512();

        for (int b = 0; b < 4 / m->packed && k + b < m->depth; b++, from += m->depth_stride) {
            __m512i some_of_it = m->packed == 2
                                     ? _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(some, from))
                                     : _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(some, from));
            __m128i places = _mm_cvtsi32_si128(b * 8 * m->packed);

            cells = _mm512_or_si512(cells, _mm512_sll_epi32(some_of_it, places));
        }
        r[i] = cells;
    }
}

/* Rows anywhere, an element at a time: [row][64 bytes]. */
static void fetch_anywhere(__m512i *r, const matrix *m, int64_t row, int64_t k)
{
    char room[SIDE][ROW_BYTES] = {{0}};
    int64_t depth = least(m->depth - k, ROW_BYTES / m->packed);

    for (int64_t i = 0; i < least(m->count - row, SIDE); i++) {
        for (int64_t b = 0; b < depth; b++) {
            memcpy(room[i] + b * m->packed,
                   m->memory + (row + i) * m->stride + (k + b) * m->depth_stride,
                   (size_t)m->packed);
        }
    }
    memcpy(r, room, sizeof(room));
}

/* A tile: 16 rows from `row` and 64 bytes of the depth from element `k`, for A or for B. */
INLINE void pack_tile(char *to, const matrix *m, int64_t row, int64_t k, bool is_b)
{
    const bool are_sides = m->stride == m->packed && m->depth_stride != m->packed;
    __m512i r[SIDE];

    if (m->depth_stride == m->element) {
        fetch_rows(r, m, row, k);
    } else if (are_sides) {
        fetch_sides(r, m, row, k);
    } else {
        fetch_anywhere(r, m, row, k);
    }
    if (are_sides != is_b) {
        turn(r);
    }
    memcpy(to, r, sizeof(r));
}

static void pack_panels(char *to, const matrix *m, bool is_b)
{
    const int64_t step = ROW_BYTES / m->packed;
    const int64_t width = is_b ? B_COLUMNS : A_ROWS;

    for (int64_t first = 0; first < m->count; first += width) {
        for (int64_t k = 0; k < m->depth; k += step) {
            for (int64_t row = first; row < first + width; row += SIDE, to += TILE_BYTES) {
                pack_tile(to, m, row, k, is_b);
            }
        }
    }
}

static void pack_pairs(uint32_t width, int64_t count, int64_t depth, void *panels,
                       const void *memory, exg_dtype dtype, int64_t stride, int64_t depth_stride)
{
    const int element = dtype == EXG_DTYPE_BF16 ? 2 : 4;
    const matrix m = {.memory = memory,
                      .count = count,
                      .depth = depth,
                      .stride = stride * element,
                      .depth_stride = depth_stride * element,
                      .element = element,
                      .packed = 2};

    pack_panels(panels, &m, width == B_COLUMNS);
}

static void pack_rows(int64_t depth, void *panel, const void *const *rows)
{
    char *to = panel;

    for (int64_t k = 0; k < depth; k += ROW_BYTES / 2, to += TILE_BYTES) {
        for (int i = 0; i < A_ROWS; i++) {
            _mm512_storeu_si512(to + i * ROW_BYTES,
                                dense_row((const char *)rows[i] + k * 2, (depth - k) * 2));
        }
    }
}

static void pack_bytes(int64_t count, int64_t depth, void *panels, const void *memory,
                       int64_t stride, int64_t depth_stride, bool is_b)
{
    const matrix m = {.memory = memory,
                      .count = count,
                      .depth = depth,
                      .stride = stride,
                      .depth_stride = depth_stride,
                      .element = 1,
                      .packed = 1};

    pack_panels(panels, &m, is_b);
}

static void pack_bytes_a(int64_t count, int64_t depth, void *panels, const void *memory,
                         bool is_signed, int64_t stride, int64_t depth_stride)
{
    (void)is_signed;
    pack_bytes(count, depth, panels, memory, stride, depth_stride, false);
}

static void pack_bytes_b(int64_t count, int64_t depth, void *panels, const void *memory,
                         bool is_signed, int64_t stride, int64_t depth_stride)
{
    (void)is_signed;
    pack_bytes(count, depth, panels, memory, stride, depth_stride, true);
}

/* ---- products --------------------------------------------------------------------------- */

/* What ldtilecfg reads: eight tiles of 16 rows of 64 bytes. */
typedef struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;

static const tile_config config = {
    .palette = 1,
    .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
    .rows = {16, 16, 16, 16, 16, 16, 16, 16},
};

/* Tiles 0 to 3 are sums, [half of the rows][half of the columns]; 4 and 5 of A, 6 and 7 of B.
 * `tall`, `wide`: both halves. */
#define EACH_SUM(what)                                                                             \
    do {                                                                                           \
        what(0, 0, 0);                                                                             \
        if (wide) {                                                                                \
            what(1, 0, 1);                                                                         \
        }                                                                                          \
        if (tall) {                                                                                \
            what(2, 1, 0);                                                                         \
        }                                                                                          \
        if (tall && wide) {                                                                        \
            what(3, 1, 1);                                                                         \
        }                                                                                          \
    } while (0)

/* Rows of A: 16 that lie `row` bytes apart, the next 16 `half` bytes on, 64 more bytes of the depth
 * `step` bytes on. */
typedef struct rows_of_a {
    const char *at;
    int64_t half, row, step;
} rows_of_a;

/* What is asked for meanwhile: `lines` of a cache with every product of tiles. */
typedef struct prefetch {
    const char *from;
    int64_t lines;
} prefetch;

INLINE void ask_for(prefetch ahead)
{
    for (int64_t line = 0; line < ahead.lines; line++) {
        _mm_prefetch(ahead.from + line * ROW_BYTES, _MM_HINT_T1);
    }
}

/* Sums of up to 32 by 32 of four bytes: loaded, `tiles` products added, stored. `from` is what
 * they begin with, rows `from_stride` bytes apart (0: one for all), or NULL. */
#define SUMS(name, product)                                                                        \
    INLINE void name##_of(const bool tall, const bool wide, int64_t tiles, rows_of_a a,            \
                          const char *b, char *c, int64_t c_stride, const char *from,              \
                          int64_t from_stride, prefetch ahead)                                     \
    {                                                                                              \
        __asm__ volatile("" ::: "memory"); /* loads of tiles do not say that they read it */       \
        if (from != NULL) {                                                                        \
            EACH_SUM(LOAD_SUM);                                                                    \
        } else {                                                                                   \
            EACH_SUM(ZERO_SUM);                                                                    \
        }                                                                                          \
        for (; tiles > 0; tiles--, a.at += a.step, b += 2 * TILE_BYTES) {                          \
            _tile_loadd(6, b, ROW_BYTES);                                                          \
            _tile_loadd(4, a.at, a.row);                                                           \
            product(0, 4, 6);                                                                      \
            if (wide) {                                                                            \
                _tile_loadd(7, b + TILE_BYTES, ROW_BYTES);                                         \
                product(1, 4, 7);                                                                  \
            }                                                                                      \
            if (tall) {                                                                            \
                _tile_loadd(5, a.at + a.half, a.row);                                              \
                product(2, 5, 6);                                                                  \
            }                                                                                      \
            if (tall && wide) {                                                                    \
                product(3, 5, 7);                                                                  \
            }                                                                                      \
            ask_for(ahead);                                                                        \
            ahead.from += ahead.lines * ROW_BYTES;                                                 \
        }                                                                                          \
        EACH_SUM(STORE_SUM);                                                                       \
    }                                                                                              \
    static void name(bool tall, bool wide, int64_t tiles, rows_of_a a, const char *b, char *c,     \
                     int64_t c_stride, const char *from, int64_t from_stride, prefetch ahead)      \
    {                                                                                              \
        if (tall && wide) {                                                                        \
            name##_of(true, true, tiles, a, b, c, c_stride, from, from_stride, ahead);             \
        } else if (tall) {                                                                         \
            name##_of(true, false, tiles, a, b, c, c_stride, from, from_stride, ahead);            \
        } else if (wide) {                                                                         \
            name##_of(false, true, tiles, a, b, c, c_stride, from, from_stride, ahead);            \
        } else {                                                                                   \
            name##_of(false, false, tiles, a, b, c, c_stride, from, from_stride, ahead);           \
        }                                                                                          \
    }
/* Up to 16 rows by 64 columns, two panels of B: with fewer sums products wait for one another. */
#define LOW_SUMS(name, product)                                                                    \
    static void name(int64_t tiles, rows_of_a a, const char *b, char *c, int64_t c_stride,         \
                     const char *from, int64_t from_stride, prefetch ahead)                        \
    {                                                                                              \
        const char *second = b + 2 * tiles * TILE_BYTES;                                           \
                                                                                                   \
        __asm__ volatile("" ::: "memory");                                                         \
        if (from != NULL) {                                                                        \
            EACH_LOW_SUM(LOAD_SUM);                                                                \
        } else {                                                                                   \
            EACH_LOW_SUM(ZERO_SUM);                                                                \
        }                                                                                          \
        for (; tiles > 0; tiles--, a.at += a.step) {                                               \
            _tile_loadd(4, a.at, a.row);                                                           \
            _tile_loadd(5, b, ROW_BYTES);                                                          \
            product(0, 4, 5);                                                                      \
            _tile_loadd(6, b + TILE_BYTES, ROW_BYTES);                                             \
            product(1, 4, 6);                                                                      \
            _tile_loadd(7, second, ROW_BYTES);                                                     \
            product(2, 4, 7);                                                                      \
            _tile_loadd(5, second + TILE_BYTES, ROW_BYTES);                                        \
            product(3, 4, 5);                                                                      \
            ask_for(ahead);                                                                        \
            ahead.from += ahead.lines * ROW_BYTES;                                                 \
            b += 2 * TILE_BYTES;                                                                   \
            second += 2 * TILE_BYTES;                                                              \
        }                                                                                          \
        EACH_LOW_SUM(STORE_SUM);                                                                   \
    }
#define EACH_LOW_SUM(what)                                                                         \
    do {                                                                                           \
        what(0, 0, 0);                                                                             \
        what(1, 0, 1);                                                                             \
        what(2, 0, 2);                                                                             \
        what(3, 0, 3);                                                                             \
    } while (0)
#define AT(base, stride, down, across) ((base) + (down)*SIDE * (stride) + (across)*ROW_BYTES)
#define LOAD_SUM(tile, down, across)                                                               \
    _tile_loadd(tile, AT(from, from_stride, down, across), from_stride)
#define ZERO_SUM(tile, down, across)  _tile_zero(tile)
#define STORE_SUM(tile, down, across) _tile_stored(tile, AT(c, c_stride, down, across), c_stride)

SUMS(sums_bf16, _tile_dpbf16ps)
LOW_SUMS(low_sums_bf16, _tile_dpbf16ps)
SUMS(sums_ss, _tile_dpbssd)
LOW_SUMS(low_sums_ss, _tile_dpbssd)
SUMS(sums_su, _tile_dpbsud)
LOW_SUMS(low_sums_su, _tile_dpbsud)
SUMS(sums_us, _tile_dpbusd)
LOW_SUMS(low_sums_us, _tile_dpbusd)
SUMS(sums_uu, _tile_dpbuud)
LOW_SUMS(low_sums_uu, _tile_dpbuud)

/* Products of one kind of elements. */
typedef struct tile_sums {
    void (*sums)(bool tall, bool wide, int64_t tiles, rows_of_a a, const char *b, char *c,
                 int64_t c_stride, const char *from, int64_t from_stride, prefetch ahead);
    void (*low)(int64_t tiles, rows_of_a a, const char *b, char *c, int64_t c_stride,
                const char *from, int64_t from_stride, prefetch ahead);
} tile_sums;

/* rows by columns of four bytes, from one place to another. */
static void copy_part(char *to, int64_t to_stride, const char *from, int64_t from_stride,
                      int64_t rows, int64_t columns)
{
    for (int64_t i = 0; i < rows; i++) {
        memcpy(to + i * to_stride, from + i * from_stride, (size_t)columns * 4);
    }
}

/* Sums that do not fill their tiles, by way of room that does. */
static void part_sums(const tile_sums *with, int64_t rows, int64_t columns, int64_t tiles,
                      rows_of_a a, const char *b, char *c, int64_t c_stride, const char *from,
                      int64_t from_stride, prefetch ahead)
{
    enum { stride = 2 * ROW_BYTES };
    _Alignas(64) char room[2 * SIDE * stride];

    if (from != NULL) {
        memset(room, 0, sizeof(room));
        copy_part(room, stride, from, from_stride, rows, columns);
    }
    with->sums(rows > SIDE, columns > SIDE, tiles, a, b, room, stride, from != NULL ? room : NULL,
               stride, ahead);
    copy_part(c, c_stride, room, stride, rows, columns);
}

/* Rows of A from row i on: panels, or, `stride` bytes apart, where they are. */
static rows_of_a rows_at(const char *a, int64_t stride, int64_t i, int64_t tiles)
{
    const int64_t panel = tiles * TILE_BYTES;

    if (stride == 0) {
        return (rows_of_a){a + i / SIDE * panel, panel, ROW_BYTES, TILE_BYTES};
    }
    return (rows_of_a){a + i * stride, SIDE * stride, stride, ROW_BYTES};
}

/* A part of what is read after this, a panel of B or rows of A where they are, for rows (columns)
 * from i on of m: in their turns they ask for all of it. */
static prefetch part_of(const char *after, int64_t i, int64_t m, int64_t tiles)
{
    const int64_t turns = (m + 2 * SIDE - 1) / (2 * SIDE);
    const int64_t lines = (2 * SIDE + turns - 1) / turns;

    return (prefetch){after + i / (2 * SIDE) * tiles * lines * ROW_BYTES, lines};
}

/* c (m, n) = or += a block of panels; c's and start's elements are of four bytes. A is panels
 * (a_stride 0), or whole tiles of rows so many bytes apart; `next` is read after the last panel, or
 * NULL where panels are near. */
static void block_of(const tile_sums *with, int64_t m, int64_t n, int64_t tiles, const char *a,
                     int64_t a_stride, const char *b, char *c, int64_t c_stride, bool adds,
                     const char *start, const char *next)
{
    const int64_t b_panel = 2 * tiles * TILE_BYTES;

    _tile_loadconfig(&config);
    for (int64_t j = 0, columns; j < n; j += columns) {
        const bool is_low = m == SIDE && n - j >= 2 * B_COLUMNS;
        const char *panel = b + j / B_COLUMNS * b_panel;
        const char *after;

        columns = least(n - j, is_low ? 2 * B_COLUMNS : B_COLUMNS);
        after = columns == n - j ? next : panel + (is_low ? 2 : 1) * b_panel;
        for (int64_t i = 0; i < m; i += 2 * SIDE) {
            const int64_t count = least(m - i, 2 * SIDE);
            char *to = c + i * c_stride + j * 4;
            const char *from = adds ? to : start != NULL ? start + j * 4 : NULL;
            const int64_t from_stride = adds ? c_stride : 0;
            const rows_of_a rows = rows_at(a, a_stride, i, tiles);
            const prefetch ahead = next == NULL    ? (prefetch){panel, 0}
                                   : a_stride != 0 ? part_of(next, j, n, tiles)
                                                   : part_of(after, i, m, tiles);

            if (is_low) {
                with->low(tiles, rows, panel, to, c_stride, from, from_stride, ahead);
            } else if (count % SIDE == 0 && columns % SIDE == 0) {
                with->sums(count > SIDE, columns > SIDE, tiles, rows, panel, to, c_stride, from,
                           from_stride, ahead);
            } else {
                part_sums(with, count, columns, tiles, rows, panel, to, c_stride, from, from_stride,
                          ahead);
            }
        }
    }
    _tile_release();
}

static void block_pairs(int64_t m, int64_t n, int64_t depth, const void *a, int64_t a_stride,
                        const void *b, void *c, int64_t c_stride, bool adds, const void *start,
                        const void *next)
{
    static const tile_sums bf16 = {sums_bf16, low_sums_bf16};

    block_of(&bf16, m, n, (depth + 31) / 32, a, a_stride * 2, b, c, c_stride * 4, adds, start,
             next);
}

static void block_bytes(int64_t m, int64_t n, int64_t depth, const void *a, bool a_is_signed,
                        const void *b, bool b_is_signed, int32_t *c, int64_t c_stride, bool adds)
{
    static const tile_sums by_sign[2][2] = {
        {{sums_uu, low_sums_uu}, {sums_us, low_sums_us}},
        {{sums_su, low_sums_su}, {sums_ss, low_sums_ss}},
    };

    block_of(&by_sign[a_is_signed][b_is_signed], m, n, (depth + 63) / 64, a, 0, b, (char *)c,
             c_stride * 4, adds, NULL, NULL);
}

static void turn_sums(int64_t rows, int64_t columns, const float *from, int64_t from_stride,
                      float *to, int64_t to_stride)
{
    __m512i r[SIDE];

    for (int64_t i = 0; i < rows; i += SIDE) {
        const __mmask16 some = (__mmask16)first_of(rows - i);

        for (int64_t j = 0; j < columns; j += SIDE) {
            UNROLL for (int k = 0; k < SIDE; k++)
            {
                r[k] = _mm512_loadu_si512(from + (i + k) * from_stride + j);
            }
            turn(r);
            for (int64_t k = 0; k < least(columns - j, SIDE); k++) {
                _mm512_mask_storeu_epi32(to + (j + k) * to_stride + i, some, r[k]);
            }
        }
    }
}

const exg_gemm_loops exg_loops_gemm_pairs_amx = {
    .real_bytes = sizeof(float),
    .panel_bytes = sizeof(uint16_t),
    .group = ROW_BYTES / sizeof(uint16_t),
    .rows = A_ROWS,
    .columns = B_COLUMNS,
    .side = SIDE,
    .cell = 2,
    .lanes = SIDE,
    .whole = SIDE,
    .direct_columns = INT32_MAX,
    .direct_sets = 1024,
    .depth = PAIRS_DEPTH,
    .pack = pack_pairs,
    .pack_rows = pack_rows,
    .block = block_pairs,
    .turn = turn_sums,
};

const exg_gemm_bytes_loops exg_loops_gemm_bytes_amx = {
    .rows = A_ROWS,
    .columns = B_COLUMNS,
    .group = ROW_BYTES,
    .depth = BYTES_DEPTH,
    .a_bytes = 1,
    .sum_bytes = 0,
    .pack_a = pack_bytes_a,
    .pack_b = pack_bytes_b,
    .block = block_bytes,
};
