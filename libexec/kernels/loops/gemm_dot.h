/* gemm_dot.h - the part of gemm_body.h for few rows that are dense along the depth, as b is. */

/* ---- dot products ------------------------------------------------------------------- */

/* The sums of the lanes of up to four vectors: folded to four lanes each, then all at once. */
static inline __attribute__((always_inline)) void GEMM(lanes_sums)(const int count, const VECTOR *v,
                                                                   REAL *totals)
{
    FOUR folded[4] = {{0}};
    REAL turned[16];
    const REAL *rows[4];

    UNROLL for (int j = 0; j < 4; j++)
    {
        UNROLL for (int k = 0; k < LANES / 4 && j < count; k++)
        {
            folded[j] += ((const FOUR *)&v[j])[k];
        }
        UNROLL for (int k = 0; k < LANES % 4 && j < count; k++)
        {
            folded[j][k] = v[j][k];
        }
        rows[j] = (const REAL *)&folded[j];
    }
    TRANSPOSE4(turned, 4, rows, 0);
    *(FOUR *)totals =
        (((FOUR *)turned)[0] + ((FOUR *)turned)[1]) + (((FOUR *)turned)[2] + ((FOUR *)turned)[3]);
}

/* A vector of b's elements from memory of their dtype. */
static inline __attribute__((always_inline)) VECTOR GEMM(widen)(const char *memory, exg_dtype dtype)
{
    VECTOR v = {0};

    if (dtype == DTYPE) {
        return *(const VECTOR *)memory;
    }
    for (int k = 0; k < LANES; k++) {
        uint16_t x;

        memcpy(&x, memory + 2 * k, 2);
        v[k] = dtype == EXG_DTYPE_BF16 ? exg_bf16_to_f32(x) : exg_f16_to_f32(x);
    }
    return v;
}

/* One element of b. */
static inline __attribute__((always_inline)) REAL GEMM(widen_one)(const char *at,
                                                                  const exg_dtype dtype)
{
    uint16_t narrow;
    REAL y;

    if (dtype == DTYPE) {
        memcpy(&y, at, sizeof(y));
        return y;
    }
    memcpy(&narrow, at, 2);
    return dtype == EXG_DTYPE_BF16 ? exg_bf16_to_f32(narrow) : exg_f16_to_f32(narrow);
}

/* Dot products of `rows` rows of a with `columns` rows of b. On the way as much is asked for of
 * `ahead`, if it is not NULL, as is read of a row of b. */
static inline __attribute__((always_inline)) void GEMM(dot_tile)(
    const int rows, const int columns, const exg_dtype dtype, int64_t depth, const REAL *a,
    int64_t a_stride, const char *b, int64_t b_stride, REAL *c, int64_t c_stride, bool adds,
    const char *ahead)
{
    const int bytes = dtype == DTYPE ? (int)sizeof(REAL) : 2;
    VECTOR sums[3][DOT_COLUMNS] = {{{0}}};
    int64_t k = 0;

    for (; k + LANES <= depth; k += LANES) {
        VECTOR x[3];

        if (ahead != NULL) {
            __builtin_prefetch(ahead + k * bytes);
        }
        UNROLL for (int i = 0; i < rows; i++)
        {
            x[i] = *(const VECTOR *)(a + i * a_stride + k);
        }
        UNROLL for (int j = 0; j < columns; j++)
        {
            VECTOR y = GEMM(widen)(b + (j * b_stride + k) * bytes, dtype);

            UNROLL for (int i = 0; i < rows; i++)
            {
                sums[i][j] += x[i] * y;
            }
        }
    }
    UNROLL for (int i = 0; i < rows; i++)
    {
        REAL totals[DOT_COLUMNS];

        UNROLL for (int j = 0; j < columns; j += 4)
        {
            GEMM(lanes_sums)(columns - j, &sums[i][j], &totals[j]);
        }
        UNROLL for (int j = 0; j < columns; j++)
        {
            c[i * c_stride + j] = adds ? c[i * c_stride + j] + totals[j] : totals[j];
        }
    }
    for (; k < depth; k++) {
        for (int j = 0; j < columns; j++) {
            const REAL y = GEMM(widen_one)(b + (j * b_stride + k) * bytes, dtype);

            for (int i = 0; i < rows; i++) {
                c[i * c_stride + j] += a[i * a_stride + k] * y;
            }
        }
    }
}

/* What most of the time is spent in, apart, so that sums have all registers. */
static __attribute__((noinline)) void GEMM(whole_dot_tile)(int64_t depth, const REAL *a,
                                                           int64_t a_stride, const REAL *b,
                                                           int64_t b_stride, REAL *c,
                                                           int64_t c_stride, bool adds,
                                                           const REAL *ahead)
{
    GEMM(dot_tile)
    (3, DOT_COLUMNS, DTYPE, depth, a, a_stride, (const char *)b, b_stride, c, c_stride, adds,
     (const char *)ahead);
}

/* With each three rows of a, one of the rows of b that come next is asked for. If there are no
 * more than three b is one stretch, which processors foresee; what is asked for is near then. */
static void GEMM(whole_dot_tiles)(int64_t m, int64_t depth, const REAL *a, int64_t a_stride,
                                  const REAL *b, int64_t b_stride, REAL *c, int64_t c_stride,
                                  bool adds)
{
    for (int64_t i = 0; i + 3 <= m; i += 3) {
        const REAL *rows = a + i * a_stride;
        int64_t next = DOT_COLUMNS + (i / 3 < DOT_COLUMNS ? i / 3 : 0);

        GEMM(whole_dot_tile)
        (depth, rows, a_stride, b, b_stride, c + i * c_stride, c_stride, adds,
         m > 3 ? b + next * b_stride : rows);
    }
}

static inline __attribute__((always_inline)) void GEMM(dot_columns)(
    const int columns, const exg_dtype dtype, int64_t m, int64_t depth, const REAL *a,
    int64_t a_stride, const char *b, int64_t b_stride, REAL *c, int64_t c_stride, bool adds)
{
    int64_t i = 0;

    if (columns == DOT_COLUMNS && dtype == DTYPE) {
        GEMM(whole_dot_tiles)(m, depth, a, a_stride, (const REAL *)b, b_stride, c, c_stride, adds);
        i = m / 3 * 3;
    }
    for (; i + 3 <= m; i += 3) {
        GEMM(dot_tile)
        (3, columns, dtype, depth, a + i * a_stride, a_stride, b, b_stride, c + i * c_stride,
         c_stride, adds, NULL);
    }
    if (m - i == 2) {
        GEMM(dot_tile)
        (2, columns, dtype, depth, a + i * a_stride, a_stride, b, b_stride, c + i * c_stride,
         c_stride, adds, NULL);
    } else if (m - i == 1) {
        GEMM(dot_tile)
        (1, columns, dtype, depth, a + i * a_stride, a_stride, b, b_stride, c + i * c_stride,
         c_stride, adds, NULL);
    }
}

/* Of one row with one of b, up to the last whole vector; the sums of the lanes. b is read as one
 * stretch: processors foresee it up to the end of a page, so that what is on the next one is asked
 * for. */
static inline __attribute__((always_inline)) VECTOR GEMM(dot_lanes)(const exg_dtype dtype,
                                                                    int64_t depth, const REAL *a,
                                                                    const char *b)
{
    const int bytes = dtype == DTYPE ? (int)sizeof(REAL) : 2;
    VECTOR sums[4] = {{0}};
    int64_t k = 0;

    for (; k + 4 * LANES <= depth; k += 4 * LANES) {
        UNROLL for (int at = 0; at < 4 * LANES * bytes; at += DOT_LINE)
        {
            EXG_ASK_FAR(b + k * bytes + at);
        }
        UNROLL for (int i = 0; i < 4; i++)
        {
            sums[i] += *(const VECTOR *)(a + k + i * LANES) *
                       GEMM(widen)(b + (k + i * LANES) * bytes, dtype);
        }
    }
    for (; k + LANES <= depth; k += LANES) {
        sums[0] += *(const VECTOR *)(a + k) * GEMM(widen)(b + k * bytes, dtype);
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/* The rest of it. */
static inline __attribute__((always_inline)) REAL GEMM(dot_rest)(const exg_dtype dtype,
                                                                 int64_t depth, const REAL *a,
                                                                 const char *b)
{
    const int bytes = dtype == DTYPE ? (int)sizeof(REAL) : 2;
    REAL total = 0;

    for (int64_t k = depth / LANES * LANES; k < depth; k++) {
        total += a[k] * GEMM(widen_one)(b + k * bytes, dtype);
    }
    return total;
}

/* One row with all of b. The lanes of four are summed at once: for one by itself that takes as long
 * as hundreds of products. */
static inline __attribute__((always_inline)) void GEMM(dot_row)(const exg_dtype dtype, int64_t n,
                                                                int64_t depth, const REAL *a,
                                                                const char *b, int64_t b_stride,
                                                                REAL *c)
{
    const int64_t row = b_stride * (dtype == DTYPE ? (int)sizeof(REAL) : 2);

    for (int64_t j = 0; j < n; j += 4) {
        const int count = n - j < 4 ? (int)(n - j) : 4;
        VECTOR sums[4] = {{0}};
        REAL totals[4];

        for (int i = 0; i < count; i++) {
            sums[i] = GEMM(dot_lanes)(dtype, depth, a, b + (j + i) * row);
        }
        GEMM(lanes_sums)(4, sums, totals);
        for (int i = 0; i < count; i++) {
            c[j + i] = totals[i] + GEMM(dot_rest)(dtype, depth, a, b + (j + i) * row);
        }
    }
}

static inline __attribute__((always_inline)) void GEMM(dot_of)(const exg_dtype dtype, int64_t m,
                                                               int64_t n, int64_t depth,
                                                               const REAL *a, int64_t a_stride,
                                                               const char *b, int64_t b_stride,
                                                               REAL *c, int64_t c_stride)
{
    const int bytes = dtype == DTYPE ? (int)sizeof(REAL) : 2;
    /* with many rows, some columns of b stay in the first cache while all pass by */
    const int64_t step = m > 3 && depth > DOT_DEPTH ? DOT_DEPTH : depth > 0 ? depth : 1;

    if (m == 1) {
        GEMM(dot_row)(dtype, n, depth, a, b, b_stride, c);
        return;
    }
    for (int64_t k = 0; k < depth || k == 0; k += step) {
        int64_t length = depth - k < step ? depth - k : step;
        int64_t j = 0;

        for (; j + DOT_COLUMNS <= n; j += DOT_COLUMNS) {
            GEMM(dot_columns)
            (DOT_COLUMNS, dtype, m, length, a + k, a_stride, b + (j * b_stride + k) * bytes,
             b_stride, c + j, c_stride, k > 0);
        }
        for (; j + 4 <= n; j += 4) {
            GEMM(dot_columns)
            (4, dtype, m, length, a + k, a_stride, b + (j * b_stride + k) * bytes, b_stride, c + j,
             c_stride, k > 0);
        }
        for (; j < n; j++) {
            GEMM(dot_columns)
            (1, dtype, m, length, a + k, a_stride, b + (j * b_stride + k) * bytes, b_stride, c + j,
             c_stride, k > 0);
        }
    }
}

static void GEMM(dot)(int64_t m, int64_t n, int64_t depth, const void *a, int64_t a_stride,
                      const void *b, exg_dtype dtype, int64_t b_stride, void *c, int64_t c_stride)
{
    if (DTYPE == EXG_DTYPE_F64 || dtype == DTYPE) { /* what is narrow is multiplied as f32 */
        GEMM(dot_of)(DTYPE, m, n, depth, a, a_stride, b, b_stride, c, c_stride);
    } else if (dtype == EXG_DTYPE_BF16) {
        GEMM(dot_of)(EXG_DTYPE_BF16, m, n, depth, a, a_stride, b, b_stride, c, c_stride);
    } else {
        GEMM(dot_of)(EXG_DTYPE_F16, m, n, depth, a, a_stride, b, b_stride, c, c_stride);
    }
}
