/* weight_pairs.c - rows of bf16 by half bytes, by AVX512-BF16: 32 products an instruction.
 *
 * A half byte is looked up in a table of what each means, as bf16. The lookup reads five bits of a
 * word, of which the fifth is the next half byte's: the table holds everything twice.
 */
#include "libexec/kernels/loops/weight.h"

#include <immintrin.h>

#define ROWS       4
#define COLUMNS    4
#define HALF_BYTES (EXG_WEIGHT_BLOCK / 2) /* of a block */
#define STEPS      4                      /* of a block: a half byte of each word */
#define STEP       (EXG_WEIGHT_BLOCK / STEPS)
#define UNROLL     _Pragma("GCC unroll 8")
#define INLINE     static inline __attribute__((always_inline))

typedef uint16_t words __attribute__((vector_size(64)));

static __m512i table_from(float low)
{
    union {
        uint16_t items[32];
        __m512i vector;
    } table;

    for (int i = 0; i < 32; i++) {
        union {
            float f;
            uint32_t bits;
        } value = {low + (float)(i % 16)};

        table.items[i] = (uint16_t)(value.bits >> 16);
    }
    return table.vector;
}

/* Where half bytes are read: the group, and how many steps of it are left. */
typedef struct place {
    int64_t group, left, steps;
} place;

INLINE void add_block(const exg_weight *w, const int rows, const int columns, int64_t j,
                      int64_t block, __m512i table, const exg_weight_pairs *x, place *at,
                      __m512 (*sums)[COLUMNS])
{
    const char *bytes = w->bytes + j * w->stride + block * HALF_BYTES;
    __m512 group[ROWS][COLUMNS];

    UNROLL for (int r = 0; r < rows; r++)
    {
        UNROLL for (int i = 0; i < columns; i++)
        {
            group[r][i] = _mm512_setzero_ps();
        }
    }
    UNROLL for (int step = 0; step < STEPS; step++)
    {
        __m512i y[COLUMNS];

        UNROLL for (int i = 0; i < columns; i++)
        {
            __m512i halves = _mm512_loadu_si512(bytes + i * w->stride);
            const __m512i shifted = (__m512i)((words)halves >> (4 * step));

            y[i] = _mm512_permutexvar_epi16(shifted, table);
        }
        UNROLL for (int r = 0; r < rows; r++)
        {
            __m512i v = _mm512_loadu_si512(x->data + r * x->stride + block * EXG_WEIGHT_BLOCK +
                                           step * STEP);

            UNROLL for (int i = 0; i < columns; i++)
            {
                group[r][i] = _mm512_dpbf16_ps(group[r][i], (__m512bh)v, (__m512bh)y[i]);
            }
        }
        if (--at->left > 0 && step + 1 < STEPS) {
            continue;
        }
        UNROLL for (int i = 0; i < columns; i++)
        {
            __m512 scale = _mm512_set1_ps(exg_weight_scale(w, j + i, at->group));

            UNROLL for (int r = 0; r < rows; r++)
            {
                sums[r][i] = _mm512_fmadd_ps(group[r][i], scale, sums[r][i]);
                group[r][i] = _mm512_setzero_ps();
            }
        }
        if (at->left == 0 && at->group + 1 < w->groups) { /* past the end x is 0 */
            at->group++;
            at->left = at->steps;
        }
    }
}

INLINE void tile(const exg_weight *w, const int rows, const int columns, int64_t j, __m512i table,
                 const exg_weight_pairs *x, float *c, int64_t c_stride)
{
    place at = {.steps = w->depth / w->groups / STEP};
    __m512 sums[ROWS][COLUMNS];

    at.left = at.steps;
    UNROLL for (int r = 0; r < rows; r++)
    {
        UNROLL for (int i = 0; i < columns; i++)
        {
            sums[r][i] = _mm512_setzero_ps();
        }
    }
    for (int64_t block = 0; block * EXG_WEIGHT_BLOCK < w->depth; block++) {
        UNROLL for (int i = 0; i < columns; i++) /* the rows that come next */
        {
            __builtin_prefetch(w->bytes + (j + columns + i) * w->stride + block * HALF_BYTES);
        }
        add_block(w, rows, columns, j, block, table, x, &at, sums);
    }
    UNROLL for (int r = 0; r < rows; r++)
    {
        UNROLL for (int i = 0; i < columns; i++)
        {
            c[r * c_stride + i] =
                _mm512_reduce_add_ps(sums[r][i]) +
                (w->shifts == NULL ? 0 : exg_weight_shift(w, j + i, x->sums + r * w->groups));
        }
    }
}

INLINE void dot_rows(const exg_weight *w, const int rows, int64_t n, __m512i table,
                     const exg_weight_pairs *x, float *c, int64_t c_stride)
{
    int64_t j = 0;

    for (; j + COLUMNS <= n; j += COLUMNS) {
        tile(w, rows, COLUMNS, j, table, x, c + j, c_stride);
    }
    for (; j < n; j++) {
        tile(w, rows, 1, j, table, x, c + j, c_stride);
    }
}

static void dot_halves(const exg_weight *w, int64_t m, int64_t n, const exg_weight_pairs *x,
                       float *c, int64_t c_stride)
{
    const __m512i table = table_from(w->low);

    for (int64_t i = 0, rows; i < m; i += rows) {
        exg_weight_pairs of = {x->data + i * x->stride, x->stride, NULL};
        float *at = c + i * c_stride;

        of.sums = x->sums == NULL ? NULL : x->sums + i * w->groups;
        rows = m - i >= ROWS ? ROWS : m - i >= 2 ? 2 : 1;
        if (rows == ROWS) {
            dot_rows(w, ROWS, n, table, &of, at, c_stride);
        } else if (rows == 2) {
            dot_rows(w, 2, n, table, &of, at, c_stride);
        } else {
            dot_rows(w, 1, n, table, &of, at, c_stride);
        }
    }
}

const exg_weight_pairs_loops EXG_ISA_NAME(exg_loops_weight_pairs) = {.dot_halves = dot_halves};
