/* attention_tiles.cu - attention of bfloat16 and float16 by matrix units, without the scores in
 * memory (Dao 2023, FlashAttention-2). A warp takes 16 query rows, a block WARPS of them, of
 * the heads that share a key and value; keys come KEYS at a time through shared memory, the next
 * while these are computed with. Of a long row of keys several blocks may take a part each
 * (SPLITS): they leave parts, which attention_join puts together.
 *
 * DEPTH: elements of a query and key, WIDTH: of the columns of the values that a block computes,
 * both rounded up to 16; ALIGNED: rows of keys and values are words of 16 bytes, of memory that is
 * so aligned. HAS_MASK, MASK, MASK_IS_BOOL: as for attention.cu.
 */
#include "libexec/kernels/cuda/attention.h"

#ifdef JOIN_PARTS
#include "libexec/kernels/cuda/block.h"

DEFINE_BLOCK(peak, float, shuffle_f32, b > a ? b : a)
DEFINE_BLOCK(sum, float, shuffle_f32, a + b)

/* A row of the result from the parts of it, SPLITS_MAX at most. Warps take columns, and what warps
 * are left take their share of the splits. */
KERNEL(attention_join, cuda_attention_parts_params)
{
    SHARED float scales[SPLITS_MAX];
    SHARED float shares[WARPS_MAX][WARP];
    const int64_t row = BLOCK_X;
    const int warps = THREADS / WARP;
    const int warp = THREAD / WARP;
    const int chunks = (int)((p.width + WARP - 1) / WARP);
    float greatest = -INFINITY;
    float sum = 0;
    float factor;

    for (int s = THREAD; s < p.splits; s += THREADS) {
        const float of_part = ((const float *)p.greatest)[s * p.rows + row];

        greatest = of_part > greatest ? of_part : greatest;
    }
    greatest = block_peak(greatest);
    for (int s = THREAD; s < p.splits; s += THREADS) {
        const float of_part = ((const float *)p.greatest)[s * p.rows + row];

        scales[s] = of_part == -INFINITY ? 1 : exp2f(of_part - greatest);
        sum += ((const float *)p.sums)[s * p.rows + row] * scales[s];
    }
    sum = block_sum(sum); /* its barriers are for scales too */
    factor = sum != 0 ? 1 / sum : (float)p.masked;
    for (int first = 0; first < chunks; first += warps) {
        const int live = chunks - first < warps ? chunks - first : warps;
        const int groups = warps / live;
        const int column = (first + warp % live) * WARP + THREAD % WARP;
        float result = 0;

        if (warp / live < groups && column < p.width) {
            for (int s = warp / live; s < p.splits; s += groups) {
                result += ((const float *)p.results)[(s * p.rows + row) * p.width + column] *
                          scales[s];
            }
        }
        shares[warp][THREAD % WARP] = result;
        BARRIER();
        if (warp < live && column < p.width) {
            for (int group = 1; group < groups; group++) {
                result += shares[warp + group * live][THREAD % WARP];
            }
            STORE(X)(p.out, row * p.width + column, result * factor);
        }
        BARRIER();
    }
}
#else
#include "libexec/kernels/cuda/matrix.h"

#define ROWS       (16 * WARPS)
#define KEY_LINE   (DEPTH + 8) /* 8 more: no conflicts of banks */
#define VALUE_LINE (WIDTH + 8)
#define LOG2_OF_E  1.4426950408889634f

/* A head's keys or values in memory. */
typedef struct head_rows {
    const half_bits *at;
    int64_t row_stride, stride;
    int rows, columns;
} head_rows;

/* Rows [first, first + KEYS), columns [from, from + width); zeros where there is none. */
static inline void load_tile(half_bits *to, int width, const head_rows *head, int first, int from)
{
    const int line = width + 8;

#ifdef ALIGNED
    if ((uint64_t)head->at % 16 == 0) {
        const int words = width / 8; /* of a row; warps take rows, their threads words */
        const int rows = WARP / words > 0 ? WARP / words : 1;
        const int step = rows * WARPS;
        const int r = THREAD / WARP * rows + (rows > 1 ? THREAD % WARP / words : 0);
        const int word = rows > 1 ? THREAD % WARP % words : THREAD % WARP;
        const int is_taken = THREAD % WARP < rows * words || rows == 1;
        const int left = head->rows - first - r;
        const half_bits *at = head->at + (first + r) * head->row_stride + from + word * 8;
        half_bits *put = to + r * line + word * 8;

        UNROLL
        for (int k = 0; k < KEYS; k += step) {
            UNROLL
            for (int w = 0; w < words; w += WARP) {
                if (is_taken && word + w < words && r + k < KEYS) {
                    copy_16(put + k * line + w * 8, at + w * 8,
                            k < left && from + (word + w) * 8 < head->columns);
                }
            }
            at += step * head->row_stride;
        }
        return;
    }
#endif
    NO_UNROLL
    for (int i = THREAD; i < KEYS * width; i += WARPS * WARP) {
        const int r = i / width;
        const int c = i % width;

        to[r * line + c] = first + r < head->rows && from + c < head->columns
                               ? head->at[(first + r) * head->row_stride +
                                          (from + c) * head->stride]
                               : 0;
    }
}

/* A query row of all those of the heads that share a key and value. */
typedef struct query_row {
    int head, row;
    int is_there;
} query_row;

static inline query_row row_of(const cuda_attention_params *p, int of_kv, uint32_t packed)
{
    const uint32_t rows = (uint32_t)p->rows;
    query_row row;

    row.is_there = packed < rows * (uint32_t)p->heads_of_kv;
    row.head = of_kv * (int)p->heads_of_kv + (int)(row.is_there ? packed / rows : 0);
    row.row = (int)(row.is_there ? packed % rows : 0);
    return row;
}

#ifdef HAS_MASK
/* A score times the logarithm of e to the base 2, with the mask of the row at `line`. */
static inline float masked_score(const cuda_attention_params *p, float score, int64_t line, int k,
                                 int keys)
{
    const float mask = (float)LOAD(MASK)(p->mask, line + (k < keys ? k : 0) * p->strides[3][2]);

    score *= (float)p->scale;
#ifdef MASK_IS_BOOL
    return mask != 0 ? score * LOG2_OF_E : -INFINITY;
#else
    return (score + mask) * LOG2_OF_E;
#endif
}
#endif

static inline uint32_t query_pair(const cuda_attention_params *p, const half_bits *row, int64_t at)
{
    const int64_t stride = p->strides[0][2];
    const uint32_t first = at < p->depth ? row[at * stride] : 0;
    const uint32_t second = at + 1 < p->depth ? row[(at + 1) * stride] : 0;

    return first | second << 16;
}

static ALWAYS_INLINE void write_row(const cuda_attention_params *p, int64_t batch,
                                    const query_row *row, float sum, float greatest,
                                    float results[WIDTH / 8][4], int half)
{
    const int64_t at = (batch * p->heads + row->head) * p->rows + row->row;
    const int64_t of_part = BLOCK_Z * p->all_rows + at;
    const float factor = sum != 0 ? 1 / sum : (float)p->masked;

    if (p->splits > 1 && THREAD % 4 == 0 && BLOCK_Y == 0) {
        ((float *)p->greatest)[of_part] = greatest;
        ((float *)p->sums)[of_part] = sum;
    }
    UNROLL
    for (int j = 0; j < WIDTH / 8; j++) {
        for (int c = 0; c < 2; c++) {
            const int64_t column = BLOCK_Y * WIDTH + j * 8 + 2 * (THREAD % 4) + c;

            if (column >= p->width) {
                continue;
            }
            if (p->splits > 1) {
                ((float *)p->results)[of_part * p->width + column] = results[j][2 * half + c];
            } else {
                STORE(X)(p->out, at * p->width + column, results[j][2 * half + c] * factor);
            }
        }
    }
}

/* What a block computes: its rows, and the keys that it goes over. */
typedef struct block_part {
    int of_kv;
    int64_t batch;
    uint32_t first; /* row of those of all heads that share a key */
    int begin, end; /* keys */
} block_part;

static inline block_part part_of(const cuda_attention_params *p)
{
    const uint32_t packed = (uint32_t)(p->rows * p->heads_of_kv);
    const uint32_t tiles = (packed + ROWS - 1) / ROWS;
    const uint32_t kv_heads = (uint32_t)p->heads / (uint32_t)p->heads_of_kv;
    const uint32_t first = (tiles - 1 - (uint32_t)BLOCK_X % tiles) * ROWS; /* most keys first */
    const uint32_t end_of_rows = first + ROWS < packed ? first + ROWS : packed;
    block_part part = {(int)((uint32_t)BLOCK_X / tiles % kv_heads),
                             (uint32_t)BLOCK_X / tiles / kv_heads, first,
                             (int)(BLOCK_Z * p->keys_of_split), 0};
    /* of one head: the last one's row; of several: all rows */
    const query_row top = row_of(p, part.of_kv, first);
    const query_row bottom = row_of(p, part.of_kv, end_of_rows - 1);
    const int64_t rows_seen = top.head == bottom.head ? bottom.row + 1 : p->rows;
    const int64_t seen = p->is_causal && rows_seen < p->keys ? rows_seen : p->keys;
    const int64_t end = part.begin + p->keys_of_split;

    part.end = (int)(end < seen ? end : seen);
    return part;
}

/* A thread's two rows of the tile, as matrix.h lays out c. */
typedef struct two_rows {
    query_row of[2];
    int64_t of_mask[2];
    int least; /* of their places */
    float greatest[2], sums[2];
} two_rows;

static ALWAYS_INLINE void begin_rows(const cuda_attention_params *p, const block_part *part,
                                     two_rows *rows, uint32_t query[DEPTH / 16][4])
{
    const int lane = THREAD % WARP;

    UNROLL
    for (int half = 0; half < 2; half++) {
        const uint32_t at = part->first + (uint32_t)(THREAD / WARP * 16 + lane / 4 + 8 * half);
        const query_row row = row_of(p, part->of_kv, at);
        const half_bits *elements = (const half_bits *)p->query +
                                    attention_head_of(p, 0, part->batch, row.head) +
                                    row.row * p->strides[0][1];

        rows->of[half] = row;
        rows->greatest[half] = -INFINITY;
        rows->sums[half] = 0;
#ifdef HAS_MASK
        rows->of_mask[half] = attention_head_of(p, 3, part->batch, row.head) +
                              row.row * p->strides[3][1];
#endif
        UNROLL
        for (int d = 0; d < DEPTH / 16; d++) {
            query[d][half] = query_pair(p, elements, d * 16 + 2 * (lane % 4));
            query[d][half + 2] = query_pair(p, elements, d * 16 + 2 * (lane % 4) + 8);
        }
    }
    rows->least = rows->of[0].row < rows->of[1].row ? rows->of[0].row : rows->of[1].row;
}

/* scores = query keys^T */
static ALWAYS_INLINE void multiply_keys(float scores[KEYS / 8][4],
                                        const uint32_t query[DEPTH / 16][4], const half_bits *keys)
{
    const int lane = THREAD % WARP;

    UNROLL
    for (int j = 0; j < KEYS / 8; j++) {
        scores[j][0] = scores[j][1] = scores[j][2] = scores[j][3] = 0;
    }
    UNROLL
    for (int d = 0; d < DEPTH / 16; d++) {
        UNROLL
        for (int j = 0; j < KEYS / 16; j++) {
            const int row = j * 16 + lane % 8 + lane / 16 * 8;
            uint32_t b[4];

            matrix_load(b, keys + row * KEY_LINE + d * 16 + lane / 8 % 2 * 8);
            matrix_multiply(scores[2 * j], query[d], b);
            matrix_multiply(scores[2 * j + 1], query[d], b + 2);
        }
    }
}

/* Scores of keys k and on, as exponents of 2; what may not be seen is -inf. The greatest of the row
 * and of what was there. */
static ALWAYS_INLINE float finish_scores(const cuda_attention_params *p, const two_rows *rows,
                                         int half, int k, float scores[KEYS / 8][4])
{
    const int keys = (int)p->keys;
    float most = rows->greatest[half];
#ifndef HAS_MASK
    const float factor = (float)p->scale * LOG2_OF_E;
#endif

    UNROLL
    for (int j = 0; j < KEYS / 8; j++) {
        UNROLL
        for (int c = 0; c < 2; c++) {
            float *score = &scores[j][2 * half + c];

#ifdef HAS_MASK
            *score = masked_score(p, *score, rows->of_mask[half],
                                  k + j * 8 + 2 * (THREAD % 4) + c, keys);
#else
            *score *= factor;
#endif
        }
    }
    if (k + KEYS > keys || (p->is_causal && k + KEYS - 1 > rows->least)) { /* some are not seen */
        const int seen = p->is_causal && rows->of[half].row < keys ? rows->of[half].row + 1 : keys;

        UNROLL
        for (int j = 0; j < KEYS / 8; j++) {
            UNROLL
            for (int c = 0; c < 2; c++) {
                if (k + j * 8 + 2 * (THREAD % 4) + c >= seen) {
                    scores[j][2 * half + c] = -INFINITY;
                }
            }
        }
    }
    UNROLL
    for (int j = 0; j < KEYS / 8; j++) {
        most = fmaxf(most, fmaxf(scores[j][2 * half], scores[j][2 * half + 1]));
    }
    for (int lanes = 1; lanes <= 2; lanes *= 2) {
        const float other = shuffle_f32(most, lanes);

        most = other > most ? other : most;
    }
    return most;
}

/* Scores become weights; what was summed up so far is scaled to the new greatest. */
static ALWAYS_INLINE void weigh(const cuda_attention_params *p, two_rows *rows, int half, int k,
                                float scores[KEYS / 8][4], float results[WIDTH / 8][4])
{
    const float most = finish_scores(p, rows, half, k, scores);
    const float base = most == -INFINITY ? 0 : most; /* nothing seen so far: weights of 0 */
    const float scale = power_of_two(rows->greatest[half] - base);

    rows->greatest[half] = most;
    rows->sums[half] *= scale;
    UNROLL
    for (int j = 0; j < KEYS / 8; j++) {
        UNROLL
        for (int c = 0; c < 2; c++) {
            float *score = &scores[j][2 * half + c];

            *score = power_of_two(*score - base);
            rows->sums[half] += *score;
        }
    }
    UNROLL
    for (int j = 0; j < WIDTH / 8; j++) {
        results[j][2 * half] *= scale;
        results[j][2 * half + 1] *= scale;
    }
}

/* results += weights values */
static ALWAYS_INLINE void add_values(float results[WIDTH / 8][4], float weights[KEYS / 8][4],
                                     const half_bits *values)
{
    const int lane = THREAD % WARP;

    UNROLL
    for (int i = 0; i < KEYS / 16; i++) {
        const uint32_t a[4] = {half_pair(weights[2 * i][0], weights[2 * i][1]),
                               half_pair(weights[2 * i][2], weights[2 * i][3]),
                               half_pair(weights[2 * i + 1][0], weights[2 * i + 1][1]),
                               half_pair(weights[2 * i + 1][2], weights[2 * i + 1][3])};

        UNROLL
        for (int j = 0; j < WIDTH / 16; j++) {
            uint32_t b[4];

            matrix_load_transposed(b, values + (i * 16 + lane % 16) * VALUE_LINE + j * 16 +
                                          lane / 16 * 8);
            matrix_multiply(results[2 * j], a, b);
            matrix_multiply(results[2 * j + 1], a, b + 2);
        }
    }
}

static ALWAYS_INLINE void end_rows(const cuda_attention_params *p, const block_part *part,
                                   two_rows *rows, float results[WIDTH / 8][4])
{
    UNROLL
    for (int half = 0; half < 2; half++) {
        for (int lanes = 1; lanes <= 2; lanes *= 2) {
            rows->sums[half] += shuffle_f32(rows->sums[half], lanes);
        }
        if (rows->of[half].is_there) {
            write_row(p, part->batch, &rows->of[half], rows->sums[half], rows->greatest[half],
                      results, half);
        }
    }
}

KERNEL(attention_tiles, cuda_attention_params)
{
    SHARED half_bits ALIGNED_16 keys[KEYS * KEY_LINE];
    SHARED half_bits ALIGNED_16 values[KEYS * VALUE_LINE];
    const block_part part = part_of(&p);
    const head_rows key = {(const half_bits *)p.key +
                               attention_head_of(&p, 1, part.batch, part.of_kv),
                           p.strides[1][1], p.strides[1][2], (int)p.keys, (int)p.depth};
    const head_rows value = {(const half_bits *)p.value +
                                 attention_head_of(&p, 2, part.batch, part.of_kv),
                             p.strides[2][1], p.strides[2][2], (int)p.keys, (int)p.width};
    two_rows rows;
    uint32_t query[DEPTH / 16][4];
    float results[WIDTH / 8][4];

    begin_rows(&p, &part, &rows, query);
    UNROLL
    for (int j = 0; j < WIDTH / 8; j++) {
        results[j][0] = results[j][1] = results[j][2] = results[j][3] = 0;
    }
    load_tile(keys, DEPTH, &key, part.begin, 0);
    COPIES_END();
    for (int k = part.begin; k < part.end; k += KEYS) {
        float scores[KEYS / 8][4];

        COPIES_WAIT(0);
        BARRIER();
        load_tile(values, WIDTH, &value, k, BLOCK_Y * WIDTH);
        COPIES_END();
        multiply_keys(scores, query, keys);
        BARRIER();
        if (k + KEYS < part.end) {
            load_tile(keys, DEPTH, &key, k + KEYS, 0);
        }
        COPIES_END();
        weigh(&p, &rows, 0, k, scores, results);
        weigh(&p, &rows, 1, k, scores, results);
        COPIES_WAIT(1);
        BARRIER();
        add_values(results, scores, values);
    }
    end_rows(&p, &part, &rows, results);
}
#endif
