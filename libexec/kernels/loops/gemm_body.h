/* gemm_body.h - gemm.c's functions for one REAL. */

/* ---- packing -------------------------------------------------------------------- */

#if defined(TRANSPOSE8)
/* Eight or sixteen dense rows into a panel: whole lines of rows and of the panel while they are
 * in the first cache, in which rows may fall on the same sets. */
static inline __attribute__((always_inline)) void GEMM(pack_eights)(const int count, uint32_t width,
                                                                    int64_t depth, REAL *panel,
                                                                    const REAL *rows,
                                                                    int64_t stride)
{
    const REAL *of[16];
    int64_t k = 0;

    UNROLL for (int i = 0; i < count; i++)
    {
        of[i] = rows + i * stride;
    }
    for (; k + 16 <= depth; k += 16) {
        for (int i = 0; i < count; i += 8) {
            TRANSPOSE8(panel + k * width + i, width, of + i, k);
            TRANSPOSE8(panel + (k + 8) * width + i, width, of + i, k + 8);
        }
    }
    for (; k < depth; k++) {
        UNROLL for (int i = 0; i < count; i++)
        {
            panel[k * width + i] = of[i][k];
        }
    }
}
#endif

/* Dense rows of depth `depth`, `stride` apart, into one panel. */
static void GEMM(pack_rows)(uint32_t width, int64_t count, int64_t depth, REAL *panel,
                            const REAL *rows, int64_t stride)
{
    int64_t r = 0;

#if defined(TRANSPOSE8)
    for (; r + 16 <= count; r += 16) {
        GEMM(pack_eights)(16, width, depth, panel + r, rows + r * stride, stride);
    }
    for (; r + 8 <= count; r += 8) {
        GEMM(pack_eights)(8, width, depth, panel + r, rows + r * stride, stride);
    }
#endif
    for (; r < count && count >= 4; r += 4) {
        const int64_t first = r + 4 <= count ? r : count - 4; /* the last four, some again */
        const REAL *four[4] = {rows + first * stride, rows + (first + 1) * stride,
                               rows + (first + 2) * stride, rows + (first + 3) * stride};
        int64_t k = 0;

        for (; k + 4 <= depth; k += 4) {
            TRANSPOSE4(panel + k * width + first, width, four, k);
        }
        for (; k < depth; k++) {
            for (int64_t i = 0; i < 4; i++) {
                panel[k * width + first + i] = four[i][k];
            }
        }
    }
    for (; r < count; r++) {
        for (int64_t k = 0; k < depth; k++) {
            panel[k * width + r] = rows[r * stride + k];
        }
    }
}

/* One panel of A from rows anywhere. */
static void GEMM(pack_one)(int64_t depth, void *panel_, const void *const *rows)
{
    REAL *panel = panel_;

    for (int r = 0; r < ROWS; r += 4) {
        const REAL *four[4] = {rows[r], rows[r + 1], rows[r + 2], rows[r + 3]};
        int64_t k = 0;

        for (; k + 4 <= depth; k += 4) {
            TRANSPOSE4(panel + k * ROWS + r, ROWS, four, k);
        }
        if (k < depth && depth >= 4) { /* the last four, some of them again */
            TRANSPOSE4(panel + (depth - 4) * ROWS + r, ROWS, four, depth - 4);
            continue;
        }
        for (; k < depth; k++) {
            for (int i = 0; i < 4; i++) {
                panel[k * ROWS + r + i] = four[i][k];
            }
        }
    }
}

/* Rows of another dtype, or not dense, some at a time: room is little, since a stack is touched
 * page by page. */
static __attribute__((noinline)) void GEMM(pack_loaded)(uint32_t width, int64_t count,
                                                        int64_t depth, REAL *panel,
                                                        const char *memory, exg_dtype dtype,
                                                        int64_t stride_bytes, int64_t depth_stride)
{
    exg_load_loop *load = EXG_ISA_NAME(exg_loops_convert).load[dtype];
    REAL rows[8 * EXG_GEMM_K];

    for (int64_t first = 0; first < count; first += 8) {
        int64_t some = count - first < 8 ? count - first : 8;

        for (int64_t r = 0; r < some; r++) {
            load((uint32_t)depth, rows + r * EXG_GEMM_K, memory + (first + r) * stride_bytes,
                 depth_stride);
        }
        GEMM(pack_rows)(width, some, depth, panel + first, rows, EXG_GEMM_K);
    }
}

/* One panel; depth is at most EXG_GEMM_K. */
static void GEMM(pack_panel)(uint32_t width, int64_t count, int64_t depth, REAL *panel,
                             const char *memory, exg_dtype dtype, uint32_t bytes, int64_t stride,
                             int64_t depth_stride)
{
    if (dtype == DTYPE && depth_stride == 1) {
        GEMM(pack_rows)(width, count, depth, panel, (const REAL *)memory, stride);
    } else if (stride == 1) {
        exg_load_loop *load = EXG_ISA_NAME(exg_loops_convert).load[dtype];

        for (int64_t k = 0; k < depth; k++) {
            load((uint32_t)count, panel + k * width, memory + k * depth_stride * bytes, 1);
        }
    } else {
        GEMM(pack_loaded)(width, count, depth, panel, memory, dtype, stride * bytes, depth_stride);
    }
    for (int64_t k = 0; k < depth && count < width; k++) {
        memset(panel + k * width + count, 0, (size_t)(width - count) * sizeof(REAL));
    }
}

/* Dense along the panels' width: whole rows of memory, one after the other, so that
 * each page is visited once. */
static void GEMM(pack_columns)(int64_t count, int64_t depth, REAL *panels, const REAL *memory,
                               int64_t depth_stride)
{
    enum { width = TILE_VECTORS * LANES };

    for (int64_t k = 0; k < depth; k++) {
        const REAL *from = memory + k * depth_stride;
        REAL *to = panels + k * width;

        __builtin_prefetch(from + 4 * depth_stride);
        for (int64_t j = 0; j + width <= count; j += width, to += width * depth) {
            memcpy(to, from + j, width * sizeof(REAL));
        }
        for (int64_t i = 0; count % width != 0 && i < width; i += LANES) {
            const int64_t some = count % width - i;
            const REAL *rest = from + count - some;
            VECTOR v = {0};

            if (some >= LANES) {
                v = *(const VECTOR *)rest;
            }
            for (int64_t l = 0; l < some && some < LANES; l++) {
                v[l] = rest[l];
            }
            *(VECTOR *)(to + i) = v;
        }
    }
}

static void GEMM(pack)(uint32_t width, int64_t count, int64_t depth, void *panels,
                       const void *memory, exg_dtype dtype, int64_t stride, int64_t depth_stride)
{
    uint32_t bytes = dtype == EXG_DTYPE_F64 ? 8 : dtype == EXG_DTYPE_F32 ? 4 : 2;

    if (dtype == DTYPE && stride == 1 && width == TILE_VECTORS * LANES) {
        GEMM(pack_columns)(count, depth, panels, memory, depth_stride);
        return;
    }
    for (int64_t first = 0; first < count; first += width) {
        GEMM(pack_panel)
        (width, count - first < width ? count - first : width, depth,
         (REAL *)panels + first * depth, (const char *)memory + first * stride * bytes, dtype,
         bytes, stride, depth_stride);
    }
}

/* ---- register tiles ---------------------------------------------------------------- */

/* c (rows, vectors * LANES) = or += a, a panel (a_stride 0) or rows of memory, times a panel of b,
 * and the first vectors of the one after it where there are more; rows and vectors constant.
 * `start` (NULL: 0) is what every row of c begins with. On the way `ahead` is asked for,
 * `ahead_step` bytes a row of b. */
static inline __attribute__((always_inline)) void GEMM(tile)(const int rows, const int vectors,
                                                             int64_t depth, const REAL *a,
                                                             int64_t a_stride, const REAL *b,
                                                             REAL *c, int64_t c_stride, bool adds,
                                                             const REAL *start, const char *ahead,
                                                             int64_t ahead_step)
{
    const int64_t a_row = a_stride == 0 ? 1 : a_stride;
    const int64_t a_step = a_stride == 0 ? ROWS : 1;
    const int64_t next_panel = TILE_VECTORS * LANES * depth;
    VECTOR sums[ROWS][2 * TILE_VECTORS];

    UNROLL for (int i = 0; i < rows; i++)
    {
        UNROLL for (int j = 0; j < vectors; j++)
        {
            sums[i][j] = (VECTOR){0};
            __builtin_prefetch(c + i * c_stride + j * LANES, 1);
        }
    }
    for (int64_t k = 0; k < depth; k++) {
        VECTOR column[2 * TILE_VECTORS];

        __builtin_prefetch(ahead, 0, 2);
        ahead += ahead_step;
        UNROLL for (int j = 0; j < vectors; j++)
        {
            column[j] = *(const VECTOR *)(b + j % TILE_VECTORS * LANES +
                                          (j < TILE_VECTORS ? 0 : next_panel));
        }
        UNROLL for (int i = 0; i < rows; i++)
        {
            UNROLL for (int j = 0; j < vectors; j++)
            {
                sums[i][j] += a[i * a_row] * column[j];
            }
        }
        a += a_step;
        b += TILE_VECTORS * LANES;
    }
    UNROLL for (int i = 0; i < rows; i++)
    {
        UNROLL for (int j = 0; j < vectors; j++)
        {
            VECTOR *at = (VECTOR *)(c + i * c_stride + j * LANES);

            if (adds) {
                sums[i][j] += *at;
            } else if (start != NULL) {
                sums[i][j] += *(const VECTOR *)(start + j * LANES);
            }
            *at = sums[i][j];
        }
    }
}

typedef void GEMM(tile_function)(int64_t depth, const REAL *a, int64_t a_stride, const REAL *b,
                                 REAL *c, int64_t c_stride, bool adds, const REAL *start,
                                 const char *ahead, int64_t ahead_step);

#define TILE_FUNCTION(rows, vectors)                                                               \
    static void GEMM(tile_##rows##_##vectors)(                                                     \
        int64_t depth, const REAL *a, int64_t a_stride, const REAL *b, REAL *c, int64_t c_stride,  \
        bool adds, const REAL *start, const char *ahead, int64_t ahead_step)                       \
    {                                                                                              \
        GEMM(tile)                                                                                 \
        (rows, vectors, depth, a, a_stride, b, c, c_stride, adds, start, ahead, ahead_step);       \
    }
#define TILE_ROW(rows) TILE_FUNCTION(rows, 1) TILE_FUNCTION(rows, 2) TILE_FUNCTION(rows, 3)

/* clang-format off */
TILE_ROW(1) TILE_ROW(2) TILE_ROW(3) TILE_ROW(4)
TILE_FUNCTION(1, 4) TILE_FUNCTION(2, 4) TILE_FUNCTION(1, 6) TILE_FUNCTION(2, 6)
#if ROWS == 8
TILE_ROW(5) TILE_ROW(6) TILE_ROW(7) TILE_ROW(8)
TILE_FUNCTION(3, 4) TILE_FUNCTION(4, 4)
#endif
/* clang-format on */

#define TILE_NAMES(rows)                                                                           \
    {                                                                                              \
        GEMM(tile_##rows##_1), GEMM(tile_##rows##_2), GEMM(tile_##rows##_3)                        \
    }

            static GEMM(tile_function) *const GEMM(tiles)[ROWS][TILE_VECTORS] = {
                TILE_NAMES(1), TILE_NAMES(2), TILE_NAMES(3), TILE_NAMES(4),
#if ROWS == 8
                TILE_NAMES(5), TILE_NAMES(6), TILE_NAMES(7), TILE_NAMES(8),
#endif
};

/* Half as many rows by a panel and one vector of the next: by that vector alone, few sums would
 * wait for each other. */
static GEMM(tile_function) *const GEMM(wide_tiles)[ROWS / 2] = {
    GEMM(tile_1_4),
    GEMM(tile_2_4),
#if ROWS == 8
    GEMM(tile_3_4),
    GEMM(tile_4_4),
#endif
};

/* Few rows by two panels: more is on its way at a time of two stretches of b than of one. */
static GEMM(tile_function) *const GEMM(double_tiles)[2] = {GEMM(tile_1_6), GEMM(tile_2_6)};

#undef TILE_FUNCTION
#undef TILE_ROW
#undef TILE_NAMES

/* c (rows, columns) = or += a buffer's. */
static void GEMM(take)(int64_t rows, int64_t columns, const REAL *buffer, int64_t buffer_stride,
                       REAL *c, int64_t c_stride, bool adds, const REAL *start)
{
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            REAL sum = buffer[i * buffer_stride + j];

            c[i * c_stride + j] = adds            ? c[i * c_stride + j] + sum
                                  : start != NULL ? sum + start[j]
                                                  : sum;
        }
    }
}

/* A tile whose last vector is not whole goes through a buffer. */
static void GEMM(edge_tile)(int64_t rows, int64_t columns, int64_t depth, const REAL *a,
                            int64_t a_stride, const REAL *b, REAL *c, int64_t c_stride, bool adds,
                            const REAL *start)
{
    REAL buffer[ROWS * TILE_VECTORS * LANES];

    GEMM(tiles)
    [rows - 1][(columns + LANES - 1) / LANES - 1](
        depth, a, a_stride, b, buffer, TILE_VECTORS * LANES, false, NULL, (const char *)b, 0);
    GEMM(take)(rows, columns, buffer, TILE_VECTORS * LANES, c, c_stride, adds, start);
}

/* The rows of a block by `vectors` of a panel of b, TILE_VECTORS + 1 with one of the next. */
static void GEMM(block_columns)(int64_t m, int64_t vectors, int64_t depth, const REAL *a,
                                int64_t a_stride, const REAL *b, REAL *c, int64_t c_stride,
                                bool adds, const REAL *start, const char *ahead, int64_t step)
{
    const int64_t a_row = a_stride == 0 ? 1 : a_stride;
    const int64_t a_panel = ROWS * (a_stride == 0 ? depth : a_stride);
    const int64_t together = vectors > TILE_VECTORS ? ROWS / 2 : ROWS;

    for (int64_t i = 0; i < m; i += together) {
        int64_t rows = m - i < together ? m - i : together;

        (vectors > TILE_VECTORS ? GEMM(wide_tiles)[rows - 1] : GEMM(tiles)[rows - 1][vectors - 1])(
            depth, a + i / ROWS * a_panel + i % ROWS * a_row, a_stride, b, c + i * c_stride,
            c_stride, adds, start, ahead + depth * step * (i / together), step);
    }
}

static void GEMM(block)(int64_t m, int64_t n, int64_t depth, const void *a_, int64_t a_stride,
                        const void *b_panels, void *c_, int64_t c_stride, bool adds,
                        const void *start_, const void *next)
{
    const int64_t row_bytes = TILE_VECTORS * LANES * (int64_t)sizeof(REAL);
    REAL *c = c_;

    for (int64_t j = 0, columns; j < n; j += columns) {
        const REAL *b = (const REAL *)b_panels + j * depth;
        const REAL *start = start_ == NULL ? NULL : (const REAL *)start_ + j;
        const char *ahead;
        int64_t step;

        columns = n - j < TILE_VECTORS * LANES ? n - j : TILE_VECTORS * LANES;
        columns = n - j == TILE_VECTORS * LANES + LANES ? n - j : columns;
        /* the panel after this one comes from far: while all rows pass by this one, a part of
         * it is asked for with each; only the first rows would wait for it. Where panels of b
         * are near it is those of A that come from far, once. */
        ahead = columns == n - j ? next : (const char *)(b + TILE_VECTORS * LANES * depth);
        step = next != NULL && m > 2 * ROWS ? row_bytes * ROWS / m : 0;
        ahead = step > 0 ? ahead : (const char *)b;
        if (next == NULL && j == 0 && a_stride == 0) {
            ahead = (const char *)((const REAL *)a_ + ROWS * depth);
            step = ROWS * (int64_t)sizeof(REAL);
        }
        if (m <= 2 && n - j >= 2 * TILE_VECTORS * LANES) {
            columns = 2 * TILE_VECTORS * LANES;
            GEMM(double_tiles)
            [m - 1](depth, a_, a_stride, b, c + j, c_stride, adds, start, (const char *)b, 0);
            continue;
        }
        if (columns % LANES == 0) {
            GEMM(block_columns)
            (m, columns / LANES, depth, a_, a_stride, b, c + j, c_stride, adds, start, ahead, step);
            continue;
        }
        for (int64_t i = 0; i < m; i += ROWS) {
            GEMM(edge_tile)
            (m - i < ROWS ? m - i : ROWS, columns, depth,
             (const REAL *)a_ + i * (a_stride == 0 ? depth : a_stride), a_stride, b,
             c + i * c_stride + j, c_stride, adds, start);
        }
    }
}

/* ---- rows of b where they are ------------------------------------------------------ */

/* c (rows, vectors * LANES) = or += `rows` of a panel of a, `width` wide, times rows of b; rows
 * and vectors constant. As many rows as sums allow, since b comes from far: each row of it is
 * asked for `ahead` reals before. */
static inline __attribute__((always_inline)) void GEMM(stream_tile)(
    const int rows, const int vectors, int64_t depth, const REAL *a, int64_t width, const REAL *b,
    int64_t b_stride, REAL *c, int64_t c_stride, bool adds, int64_t ahead)
{
    VECTOR sums[STREAM_ROWS][STREAM_VECTORS] = {{{0}}};

    for (int64_t k = 0; k < depth; k++) {
        VECTOR column[STREAM_VECTORS];

        UNROLL for (int j = 0; j < vectors; j++)
        {
            __builtin_prefetch(b + j * LANES + LANES - 1 + ahead);
            column[j] = *(const VECTOR *)(b + j * LANES);
        }
        UNROLL for (int i = 0; i < rows; i++)
        {
            UNROLL for (int j = 0; j < vectors; j++)
            {
                sums[i][j] += a[i] * column[j];
            }
        }
        a += width;
        b += b_stride;
    }
    UNROLL for (int i = 0; i < rows; i++)
    {
        UNROLL for (int j = 0; j < vectors; j++)
        {
            VECTOR *at = (VECTOR *)(c + i * c_stride + j * LANES);

            if (adds) {
                sums[i][j] += *at;
            }
            *at = sums[i][j];
        }
    }
}

typedef void GEMM(stream_function)(int64_t depth, const REAL *a, int64_t width, const REAL *b,
                                   int64_t b_stride, REAL *c, int64_t c_stride, bool adds,
                                   int64_t ahead);

#define STREAM_FUNCTION(rows, vectors)                                                             \
    static void GEMM(stream_##rows##_##vectors)(int64_t depth, const REAL *a, int64_t width,       \
                                                const REAL *b, int64_t b_stride, REAL *c,          \
                                                int64_t c_stride, bool adds, int64_t ahead)        \
    {                                                                                              \
        GEMM(stream_tile)(rows, vectors, depth, a, width, b, b_stride, c, c_stride, adds, ahead);  \
    }
#define STREAM_ROW(rows) STREAM_FUNCTION(rows, 1) STREAM_FUNCTION(rows, 2)
#define STREAM_NAMES(rows)                                                                         \
    {                                                                                              \
        GEMM(stream_##rows##_1), GEMM(stream_##rows##_2)                                           \
    }

/* clang-format off */
STREAM_ROW(1) STREAM_ROW(2) STREAM_ROW(3) STREAM_ROW(4) STREAM_ROW(5) STREAM_ROW(6)
#if STREAM_ROWS == 12
STREAM_ROW(7) STREAM_ROW(8) STREAM_ROW(9) STREAM_ROW(10) STREAM_ROW(11) STREAM_ROW(12)
#endif
    /* clang-format on */

    static GEMM(stream_function) *const GEMM(streams)[STREAM_ROWS][STREAM_VECTORS] = {
        STREAM_NAMES(1),  STREAM_NAMES(2),  STREAM_NAMES(3),
        STREAM_NAMES(4),  STREAM_NAMES(5),  STREAM_NAMES(6),
#if STREAM_ROWS == 12
        STREAM_NAMES(7),  STREAM_NAMES(8),  STREAM_NAMES(9),
        STREAM_NAMES(10), STREAM_NAMES(11), STREAM_NAMES(12),
#endif
};

#undef STREAM_FUNCTION
#undef STREAM_ROW
#undef STREAM_NAMES

/* Columns of which there is no whole vector. */
static void GEMM(stream_rest)(int64_t m, int64_t columns, int64_t depth, const REAL *a,
                              int64_t width, const REAL *b, int64_t b_stride, REAL *c,
                              int64_t c_stride, bool adds)
{
    REAL panel[EXG_GEMM_K * LANES];
    REAL buffer[STREAM_ROWS * LANES];

    for (int64_t k = 0; k < depth; k++) {
        for (int64_t j = 0; j < LANES; j++) {
            panel[k * LANES + j] = j < columns ? b[k * b_stride + j] : 0;
        }
    }
    for (int64_t i = 0; i < m; i += width) {
        int64_t rows = m - i < width ? m - i : width;

        GEMM(streams)
        [rows - 1][0](depth, a + i * depth, width, panel, LANES, buffer, LANES, false, 0);
        GEMM(take)(rows, columns, buffer, LANES, c + i * c_stride, c_stride, adds, NULL);
    }
}

/* The first rows of a ask for those of b some steps on where there are many, the others for the
 * columns that come next. */
static void GEMM(stream)(int64_t m, int64_t n, int64_t depth, const void *a_, int64_t width,
                         const void *b_, int64_t b_stride, void *c_, int64_t c_stride, bool adds)
{
    const REAL *a = a_;
    const REAL *b = b_;
    REAL *c = c_;
    const int64_t beside = STREAM_VECTORS * LANES;
    const int64_t below = depth > STREAM_FLAT ? STREAM_AHEAD * b_stride : beside;
    int64_t j = 0;

    for (; j + LANES <= n; j += STREAM_VECTORS * LANES) {
        int64_t vectors = n - j < STREAM_VECTORS * LANES ? (n - j) / LANES : STREAM_VECTORS;

        for (int64_t i = 0; i < m; i += width) {
            GEMM(streams)
            [(m - i < width ? m - i : width) -
                1][vectors - 1](depth, a + i * depth, width, b + j, b_stride, c + i * c_stride + j,
                                c_stride, adds, i == 0 ? below : beside);
        }
    }
    j = n / LANES * LANES;
    if (j < n) {
        GEMM(stream_rest)(m, n - j, depth, a, width, b + j, b_stride, c + j, c_stride, adds);
    }
}

#include "libexec/kernels/loops/gemm_dot.h"

/* ---- rows of b ------------------------------------------------------------------------ */

#define AXPY_WIDENED 1024 /* columns at a time where b is of another dtype */

static void GEMM(axpy)(int64_t n, int64_t depth, const void *a_, const void *b_, exg_dtype dtype,
                       int64_t b_stride, void *c_)
{
    exg_load_loop *load = EXG_ISA_NAME(exg_loops_convert).load[dtype];
    const int64_t bytes = dtype == DTYPE ? (int64_t)sizeof(REAL) : 2;
    const REAL *a = a_;
    const int64_t part = dtype == DTYPE ? EXG_GEMM_AXPY_COLUMNS : AXPY_WIDENED;
    REAL rows[4][AXPY_WIDENED];

    for (int64_t j0 = 0; j0 < n; j0 += part) {
        uint32_t columns = (uint32_t)(n - j0 < part ? n - j0 : part);
        REAL *c = (REAL *)c_ + j0;

        memset(c, 0, columns * sizeof(REAL));
        for (int64_t k = 0; k < depth; k += 4) {
            const int64_t together = depth - k < 4 ? depth - k : 4;
            const REAL *b[4];

            for (int64_t r = 0; r < together; r++) {
                const char *at = (const char *)b_ + ((k + r) * b_stride + j0) * bytes;

                b[r] = (const REAL *)(const void *)at;
                if (dtype != DTYPE) {
                    load(columns, rows[r], at, 1);
                    b[r] = rows[r];
                }
            }
            if (together == 4) {
                EXG_INDEPENDENT
                for (uint32_t j = 0; j < columns; j++) {
                    c[j] += (a[k] * b[0][j] + a[k + 1] * b[1][j]) +
                            (a[k + 2] * b[2][j] + a[k + 3] * b[3][j]);
                }
                continue;
            }
            for (int64_t r = 0; r < together; r++) {
                for (uint32_t j = 0; j < columns; j++) {
                    c[j] += a[k + r] * b[r][j];
                }
            }
        }
    }
}
#undef AXPY_WIDENED
