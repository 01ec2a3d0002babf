/* weight_rows.cu - ROWS rows or less by a weight of few bits, each row of which is a warp's: it is
 * read once, and multiplied with all rows while it is in registers.
 *
 * A: the dtype of the rows; ROWS; RESULT, SELF, HAS_SELF as for gemm.cu, and what weight.h asks
 * for. UNIT: where rows are whole units.
 */
#include "libexec/kernels/cuda/gemm.h"

static inline int64_t row_at(const cuda_weight_params *p, int r)
{
    return (r < p->m ? r : p->m - 1) * p->k;
}

#ifdef UNIT

#define A_BYTES ((int)sizeof(STORAGE(A)))

/* A unit's part of the sums: its elements are spread over the rows'. */
static inline void add_unit(const cuda_weight_params *p, const weight_unit *unit, int64_t j,
                            int64_t k, float sums[ROWS])
{
    const int64_t group = weight_group(p, k);
    const float scale = weight_scale(p, j, group);
#ifdef HAS_SHIFTS
    const float shift = weight_shift(p, j, group, scale);
#endif

    UNROLL
    for (int r = 0; r < ROWS; r++) {
        const char *from = (const char *)p->a + (row_at(p, r) + k) * A_BYTES;
        ALIGNED_16 STORAGE(A) x[UNIT];
        float dot = 0;
#ifdef HAS_SHIFTS
        float sum = 0;
#endif

        UNROLL
        for (int at = 0; at < UNIT * A_BYTES; at += 16) {
            move_word((char *)x + at, from + at, 16);
        }
        UNROLL
        for (int e = 0; e < UNIT; e++) {
            const float of_x = JOIN(widen_, A)(x[e]);

            dot = fmaf(unit_code(unit, p, e), of_x, dot);
#ifdef HAS_SHIFTS
            sum += of_x;
#endif
        }
        sums[r] += scale * dot;
#ifdef HAS_SHIFTS
        sums[r] += shift * sum;
#endif
    }
}

#endif

/* The lane's part of row j of the weight. */
static inline void add_row(const cuda_weight_params *p, int64_t j, float sums[ROWS])
{
    const int lane = THREAD % WARP;

#ifdef UNIT
    if (is_aligned(p->a) && is_aligned(p->b)) {
        NO_UNROLL
        for (int64_t k = lane * UNIT; k < p->k; k += WARP * UNIT) {
            weight_unit unit;

            load_unit(&unit, p, j, k);
            add_unit(p, &unit, j, k, sums);
        }
        return;
    }
#endif
    NO_UNROLL
    for (int64_t k = lane; k < p->k; k += WARP) {
        const float of_weight = weight_at(p, j, k);

        UNROLL
        for (int r = 0; r < ROWS; r++) {
            sums[r] = fmaf(of_weight, (float)LOAD(A)(p->a, row_at(p, r) + k), sums[r]);
        }
    }
}

KERNEL(weight_rows, gemm_params)
{
    const int64_t j = (int64_t)BLOCK_X * (THREADS / WARP) + THREAD / WARP;
    const int lane = THREAD % WARP;
    float sums[ROWS] = {0};
    float own = 0;

    if (j >= p.of.n) { /* for the whole warp */
        return;
    }
    add_row(&p.of, j, sums);
    UNROLL
    for (int r = 0; r < ROWS; r++) {
        UNROLL
        for (int lanes = WARP / 2; lanes > 0; lanes /= 2) {
            sums[r] += shuffle_f32(sums[r], lanes);
        }
        own = lane == r ? sums[r] : own;
    }
    if (lane < ROWS) {
        put_sum(&p, 0, lane, j, own);
    }
}
