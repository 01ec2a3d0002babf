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

/* One step of a block, which becomes part of the sums of its group. */
INLINE void add_step(const int rows, const int columns, const __m512i *halves, const int step,
                     __m512i table, const uint16_t *pairs, int64_t pairs_stride,
                     __m512 (*group)[COLUMNS])
{
    __m512i y[COLUMNS];

    UNROLL for (int i = 0; i < columns; i++)
    {
        y[i] = _mm512_permutexvar_epi16((__m512i)((words)halves[i] >> (4 * step)), table);
    }
    UNROLL for (int r = 0; r < rows; r++)
    {
        __m512i v = _mm512_loadu_si512(pairs + r * pairs_stride + step * STEP);

        UNROLL for (int i = 0; i < columns; i++)
        {
            group[r][i] = _mm512_dpbf16_ps(group[r][i], (__m512bh)v, (__m512bh)y[i]);
        }
    }
}

/* A group's sums are over: they are scaled, and those of the next begin. */
INLINE void end_group(const exg_weight *w, const int rows, const int columns, const float *scales,
                      __m512 (*group)[COLUMNS], __m512 (*sums)[COLUMNS])
{
    UNROLL for (int i = 0; i < columns; i++)
    {
        const __m512 scale = _mm512_set1_ps(scales[i * w->groups]);

        UNROLL for (int r = 0; r < rows; r++)
        {
            sums[r][i] = _mm512_fmadd_ps(group[r][i], scale, sums[r][i]);
            group[r][i] = _mm512_setzero_ps();
        }
    }
}

/* `is_step`: groups are of one step, the commonest size: nothing is counted then, and no branch
 * stands between the products. */
INLINE void add_block(const bool is_step, const exg_weight *w, const int rows, const int columns,
                      int64_t j, int64_t block, __m512i table, const exg_weight_pairs *x, place *at,
                      __m512 (*sums)[COLUMNS])
{
    const char *bytes = w->bytes + j * w->stride + block * HALF_BYTES;
    const uint16_t *pairs = x->data + block * EXG_WEIGHT_BLOCK;
    const float *scales = w->scales + j * w->groups;
    __m512 group[ROWS][COLUMNS];
    __m512i halves[COLUMNS];

    UNROLL for (int i = 0; i < columns; i++)
    {
        exg_weight_ask(w, columns, bytes + i * w->stride);
        halves[i] = _mm512_loadu_si512(bytes + i * w->stride);
        UNROLL for (int r = 0; r < rows; r++)
        {
            group[r][i] = _mm512_setzero_ps();
        }
    }
    UNROLL for (int step = 0; step < STEPS; step++)
    {
        add_step(rows, columns, halves, step, table, pairs, x->stride, group);
        if (is_step) {
            const int64_t g = block * STEPS + step;

            end_group(w, rows, columns, scales + (g < w->groups ? g : 0), group, sums);
        } else if (--at->left == 0 || step + 1 == STEPS) {
            end_group(w, rows, columns, scales + at->group, group, sums);
            if (at->left == 0 && at->group + 1 < w->groups) { /* past the end x is 0 */
                at->group++;
                at->left = at->steps;
            }
        }
    }
}

INLINE void tile(const bool is_step, const exg_weight *w, const int rows, const int columns,
                 int64_t j, __m512i table, const exg_weight_pairs *x, float *c, int64_t c_stride)
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
        add_block(is_step, w, rows, columns, j, block, table, x, &at, sums);
    }
    UNROLL for (int r = 0; r < rows; r++)
    {
        UNROLL for (int i = 0; i < columns; i++)
        {
            c[r * c_stride + i] =
                exg_weight_lanes_sum((exg_vf32)sums[r][i]) +
                (w->shifts == NULL ? 0 : exg_weight_shift(w, j + i, x->sums + r * w->groups));
        }
    }
}

INLINE void dot_rows(const bool is_step, const exg_weight *w, const int rows, int64_t n,
                     __m512i table, const exg_weight_pairs *x, float *c, int64_t c_stride)
{
    int64_t j = 0;

    for (; j + COLUMNS <= n; j += COLUMNS) {
        tile(is_step, w, rows, COLUMNS, j, table, x, c + j, c_stride);
    }
    for (; j < n; j++) {
        tile(is_step, w, rows, 1, j, table, x, c + j, c_stride);
    }
}

INLINE void dot(const bool is_step, const exg_weight *w, int64_t m, int64_t n,
                const exg_weight_pairs *x, float *c, int64_t c_stride)
{
    const __m512i table = table_from(w->low);

    for (int64_t i = 0, rows; i < m; i += rows) {
        exg_weight_pairs of = {x->data + i * x->stride, x->stride, NULL};
        float *at = c + i * c_stride;

        of.sums = x->sums == NULL ? NULL : x->sums + i * w->groups;
        rows = m - i >= ROWS ? ROWS : m - i >= 2 ? 2 : 1;
        if (rows == ROWS) {
            dot_rows(is_step, w, ROWS, n, table, &of, at, c_stride);
        } else if (rows == 2) {
            dot_rows(is_step, w, 2, n, table, &of, at, c_stride);
        } else {
            dot_rows(is_step, w, 1, n, table, &of, at, c_stride);
        }
    }
}

static void dot_halves(const exg_weight *w, int64_t m, int64_t n, const exg_weight_pairs *x,
                       float *c, int64_t c_stride)
{
    if (w->depth / w->groups == STEP) {
        dot(true, w, m, n, x, c, c_stride);
    } else {
        dot(false, w, m, n, x, c, c_stride);
    }
}

const exg_weight_pairs_loops EXG_ISA_NAME(exg_loops_weight_pairs) = {.dot_halves = dot_halves};
