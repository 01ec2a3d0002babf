/* attention.cu - attention without a matrix of scores: a block of 256 threads takes ROWS query
 * rows of one head, keys come KEYS at a time through shared memory, with the running maximum
 * and sum of each row (Milakov and Gimelshein 2018; Dao et al. 2022).
 *
 * X: the dtype; MASK: that of the mask, with HAS_MASK, and MASK_IS_BOOL. DEPTH_MAX: the
 * greatest depth and width. 16 threads share a row; they are neighbours in a warp.
 */
#include "libexec/kernels/cuda/attention.h"
#include "libexec/kernels/cuda/exponential.h"

#define ROWS   16
#define KEYS   32
#define LANES  16 /* threads of a row */
#define COLUMNS ((DEPTH_MAX + LANES - 1) / LANES)

typedef COMPUTE(X) real;

/* Rows [first, first + count) of an operand's head, as many as there are; zeros behind. */
static inline void load_rows(const cuda_attention_params *p, real to[][DEPTH_MAX + 1],
                             const void *memory, int operand, int64_t base, int64_t first,
                             int count, int64_t rows, int64_t width)
{
    for (int i = THREAD; i < count * DEPTH_MAX; i += THREADS) {
        const int r = i / DEPTH_MAX;
        const int c = i % DEPTH_MAX;

        to[r][c] = first + r < rows && c < width
                       ? LOAD(X)(memory, base + (first + r) * p->strides[operand][1] +
                                             c * p->strides[operand][2])
                       : 0;
    }
}

/* The score of one row and key; what may not be seen is -inf. */
static inline real score_of(const cuda_attention_params *p, const real *query, const real *key,
                            int64_t mask, int64_t row, int64_t k)
{
    real score = 0;

    for (int d = 0; d < p->depth; d++) {
        score += query[d] * key[d];
    }
    score *= (real)p->scale;
    return k >= p->keys ? -(real)INFINITY : attention_masked(p, score, mask, row, k);
}

static inline void store_row(const cuda_attention_params *p, int64_t row_of_all, int lane,
                             const real *result, double sum)
{
    const double factor = sum != 0 ? 1.0 / sum : p->masked;

    for (int j = 0; j < COLUMNS; j++) {
        const int c = lane + j * LANES;

        if (c < p->width) {
            STORE(X)(p->out, row_of_all * p->width + c, result[j] * (real)factor);
        }
    }
}

KERNEL(attention, cuda_attention_params)
{
    SHARED real query[ROWS][DEPTH_MAX + 1];
    SHARED real tile[KEYS][DEPTH_MAX + 1]; /* of keys, then of values */
    SHARED real weights[ROWS][KEYS];
    const int64_t blocks = (p.rows + ROWS - 1) / ROWS;
    const int64_t first = BLOCK_X % blocks * ROWS;
    const int64_t head = BLOCK_X / blocks % p.heads;
    const int64_t batch = BLOCK_X / blocks / p.heads;
    const int64_t of_key = attention_head_of(&p, 1, batch, head / p.heads_of_kv);
    const int64_t of_value = attention_head_of(&p, 2, batch, head / p.heads_of_kv);
    const int64_t of_mask = attention_head_of(&p, 3, batch, head);
    const int r = THREAD / LANES;
    const int lane = THREAD % LANES;
    const int64_t row = first + r;
    const int64_t end = p.is_causal && first + ROWS < p.keys ? first + ROWS : p.keys;
    real greatest = -(real)INFINITY;
    double sum = 0;
    real result[COLUMNS];

    for (int j = 0; j < COLUMNS; j++) {
        result[j] = 0;
    }
    load_rows(&p, query, p.query, 0, attention_head_of(&p, 0, batch, head), first, ROWS, p.rows,
              p.depth);
    for (int64_t k = 0; k < end; k += KEYS) {
        real scores[KEYS / LANES];
        real before = greatest;
        real scale;
        double part = 0;

        load_rows(&p, tile, p.key, 1, of_key, k, KEYS, p.keys, p.depth);
        BARRIER();
        for (int j = 0; j < KEYS / LANES; j++) {
            const int at = lane + j * LANES;

            scores[j] = row < p.rows && k + at < p.keys
                            ? score_of(&p, query[r], tile[at], of_mask, row, k + at)
                            : -(real)INFINITY;
            greatest = scores[j] > greatest ? scores[j] : greatest;
        }
        for (int lanes = LANES / 2; lanes > 0; lanes /= 2) {
            const real other = SHUFFLE_REAL(greatest, lanes);

            greatest = other > greatest ? other : greatest;
        }
        for (int j = 0; j < KEYS / LANES; j++) {
            /* nothing seen so far: 0, or NaN where a score is */
            const real weight = greatest == -(real)INFINITY
                                    ? (scores[j] != scores[j] ? scores[j] : 0)
                                    : EXPONENTIAL(scores[j] - greatest);

            weights[r][lane + j * LANES] = weight;
            part += (double)weight;
        }
        for (int lanes = LANES / 2; lanes > 0; lanes /= 2) {
            part += shuffle_f64(part, lanes);
        }
        scale = before == -(real)INFINITY || before == greatest ? 1
                                                                : EXPONENTIAL(before - greatest);
        sum = sum * (double)scale + part;
        BARRIER();
        load_rows(&p, tile, p.value, 2, of_value, k, KEYS, p.keys, p.width);
        BARRIER();
        for (int j = 0; j < COLUMNS; j++) {
            const int c = lane + j * LANES;

            result[j] *= scale;
            for (int key = 0; c < DEPTH_MAX && key < KEYS; key++) {
                result[j] += weights[r][key] * tile[key][c];
            }
        }
        BARRIER();
    }
    if (row < p.rows) {
        store_row(&p, (batch * p.heads + head) * p.rows + row, lane, result, sum);
    }
}
