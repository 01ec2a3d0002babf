/* weight_tiles.cu - many rows by a weight of few bits, on matrix units (half_tiles.h): what is
 * stored goes through registers, where it becomes numbers of X, to shared memory.
 *
 * X: the dtype of the rows, and what the weight means; RESULT, SELF, HAS_SELF as for gemm.cu, and
 * what weight.h asks for. UNIT: 16, where rows are whole units.
 */
#define A_BY_DEPTH
#define B_BY_DEPTH
#include "libexec/kernels/cuda/half_tiles.h"

/* Of the part of the weight a thread has these of one column. */
#define OWN        16
#define OWN_COLUMN (THREAD / (DEPTH / OWN))
#define OWN_DEPTH  (THREAD % (DEPTH / OWN) * OWN)

#ifdef UNIT
typedef weight_unit stored;

static inline void fetch(stored *unit, const cuda_weight_params *p, int64_t column, int64_t k,
                         int whole)
{
    if (whole && column < p->n && k < p->k) {
        load_unit(unit, p, column, k);
    }
}
#else
typedef int stored;
#define fetch(unit, p, column, k, whole) (void)(unit)
#endif

/* The thread's elements, from depth k on, zeros where there are none. */
static inline void put_weight(half_bits *to, const stored *unit, const cuda_weight_params *p,
                              int64_t column, int64_t k, int whole)
{
    ALIGNED_16 uint32_t pairs[OWN / 2] = {0};
    const int is_there = column < p->n;

#ifdef UNIT
    if (whole && is_there && k < p->k) {
        const int64_t group = weight_group(p, k);
        const float scale = weight_scale(p, column, group);
        const float shift = weight_shift(p, column, group, scale);

        UNROLL
        for (int e = 0; e < OWN; e += 2) {
            pairs[e / 2] = half_pair(fmaf(unit_code(unit, p, e), scale, shift),
                                     fmaf(unit_code(unit, p, e + 1), scale, shift));
        }
    }
#else
    (void)unit;
#endif
    if (!whole) {
        UNROLL
        for (int e = 0; e < OWN; e += 2) {
            pairs[e / 2] =
                half_pair(is_there && k + e < p->k ? weight_at(p, column, k + e) : 0,
                          is_there && k + e + 1 < p->k ? weight_at(p, column, k + e + 1) : 0);
        }
    }
    move_word(to, pairs, 16);
    move_word(to + 8, pairs + 4, 16);
}

KERNEL(weight_tiles, gemm_params)
{
    SHARED ALIGNED_16 half_bits a[2][A_BYTES];
    SHARED ALIGNED_16 half_bits b[B_BYTES];
    const int across = (int)((p.of.n + COLUMNS - 1) / COLUMNS);
    const int64_t row = (int64_t)(BLOCK_X / across) * ROWS;
    const int64_t column = (int64_t)(BLOCK_X % across) * COLUMNS;
    const int64_t own = column + OWN_COLUMN;
    const operand of_a = {(const half_bits *)p.of.a + row * p.of.of_a.row, p.of.of_a.row,
                          p.of.of_a.column, p.of.m - row, p.of.k};
#ifdef UNIT
    const int whole = is_aligned(p.of.b);
#else
    const int whole = 0;
#endif
    float sums[2][4][4] = {{{0}}};
    stored unit;
    int turn = 0;

    load_part(a[0], &of_a, ROWS, A_IS_BY_DEPTH, 0);
    COPIES_END();
    fetch(&unit, &p.of, own, OWN_DEPTH, whole);
    NO_UNROLL
    for (int64_t k = 0; k < p.of.k; k += DEPTH) {
        put_weight(b + OWN_COLUMN * (DEPTH + 8) + OWN_DEPTH, &unit, &p.of, own, k + OWN_DEPTH,
                   whole);
        if (k + DEPTH < p.of.k) {
            load_part(a[1 - turn], &of_a, ROWS, A_IS_BY_DEPTH, k + DEPTH);
        }
        COPIES_END();
        fetch(&unit, &p.of, own, k + DEPTH + OWN_DEPTH, whole);
        COPIES_WAIT(1);
        BARRIER();
        add_part(a[turn], b, sums);
        BARRIER();
        turn = 1 - turn;
    }
    put_sums(&p, 0, row, column, sums);
}
