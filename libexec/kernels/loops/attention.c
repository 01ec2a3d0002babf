/* attention.c - scores and weighted sums of few rows: each key, each value is read once for ROWS of
 * them, and what comes next is asked for. */
#include "libexec/kernels/loops/attention.h"
#include "libexec/kernels/loops/vector.h"
#include "libexport/base/element.h"

#include <string.h>

#define LANES   EXG_VF32
#define ROWS    4
#define KEYS    4  /* side by side */
#define VECTORS 4  /* of values, side by side */
#define LINE    64 /* bytes */
#define UNROLL  _Pragma("GCC unroll 32")
#define INLINE  static inline __attribute__((always_inline))

typedef exg_vf32 reals;
typedef float four __attribute__((vector_size(16), aligned(4), may_alias));

INLINE float widen_one(const exg_dtype dtype, const char *at)
{
    uint16_t narrow;
    float real;

    if (dtype == EXG_DTYPE_F32) {
        memcpy(&real, at, sizeof(real));
        return real;
    }
    memcpy(&narrow, at, sizeof(narrow));
    return dtype == EXG_DTYPE_BF16 ? exg_bf16_to_f32(narrow) : exg_f16_to_f32(narrow);
}

INLINE reals widen(const exg_dtype dtype, const char *at)
{
    reals v = {0};

    if (dtype == EXG_DTYPE_F32) {
        return *(const reals *)(const void *)at;
    }
#if defined(__AVX512F__)
    if (dtype == EXG_DTYPE_F16) {
        return (reals)_mm512_cvtph_ps(_mm256_loadu_si256((const void *)at));
    }
    return (reals)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)at)),
                                    16);
#elif defined(__AVX2__)
    if (dtype == EXG_DTYPE_F16) {
        return (reals)_mm256_cvtph_ps(_mm_loadu_si128((const void *)at));
    }
    return (reals)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)at)), 16);
#endif
    for (int i = 0; i < LANES; i++) {
        v[i] = widen_one(dtype, at + 2 * i);
    }
    return v;
}

INLINE float sum_lanes(reals v)
{
    four folded = ((const four *)&v)[0];

    UNROLL for (int i = 1; i < LANES / 4; i++)
    {
        folded += ((const four *)&v)[i];
    }
    return (folded[0] + folded[1]) + (folded[2] + folded[3]);
}

INLINE void ask_ahead(const char *at, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i += LINE) {
        EXG_ASK_FAR(at + i);
    }
}

/* ---- scores ------------------------------------------------------------------------------- */

INLINE void score_tile(const exg_dtype dtype, const int rows, const int keys, int64_t depth,
                       const float *query, const char *key, int64_t key_bytes, float *scores,
                       int64_t stride)
{
    const int bytes = dtype == EXG_DTYPE_F32 ? 4 : 2;
    reals sums[ROWS][KEYS] = {{{0}}};
    int64_t d = 0;

    UNROLL for (int j = 0; j < keys; j++)
    {
        ask_ahead(key + j * key_bytes, depth * bytes);
    }
    for (; d + LANES <= depth; d += LANES) {
        reals y[KEYS];

        UNROLL for (int j = 0; j < keys; j++)
        {
            y[j] = widen(dtype, key + j * key_bytes + d * bytes);
        }
        UNROLL for (int r = 0; r < rows; r++)
        {
            reals x = *(const reals *)(query + r * depth + d);

            UNROLL for (int j = 0; j < keys; j++)
            {
                sums[r][j] += x * y[j];
            }
        }
    }
    UNROLL for (int r = 0; r < rows; r++)
    {
        UNROLL for (int j = 0; j < keys; j++)
        {
            scores[r * stride + j] = sum_lanes(sums[r][j]);
        }
    }
    for (; d < depth; d++) {
        for (int j = 0; j < keys; j++) {
            float y = widen_one(dtype, key + j * key_bytes + d * bytes);

            for (int r = 0; r < rows; r++) {
                scores[r * stride + j] += query[r * depth + d] * y;
            }
        }
    }
}

INLINE void score_rows(const exg_dtype dtype, const int rows, int64_t keys, int64_t depth,
                       const float *query, const char *key, int64_t key_bytes, float *scores,
                       int64_t stride)
{
    int64_t j = 0;

    for (; j + KEYS <= keys; j += KEYS) {
        score_tile(dtype, rows, KEYS, depth, query, key + j * key_bytes, key_bytes, scores + j,
                   stride);
    }
    for (; j < keys; j++) {
        score_tile(dtype, rows, 1, depth, query, key + j * key_bytes, key_bytes, scores + j,
                   stride);
    }
}

/* ---- weighted sums ------------------------------------------------------------------------ */

INLINE void weigh_tile(const exg_dtype dtype, const int rows, const int vectors, int64_t keys,
                       const float *scores, int64_t stride, const char *value, int64_t value_bytes,
                       float *result, int64_t width)
{
    const int bytes = dtype == EXG_DTYPE_F32 ? 4 : 2;
    reals sums[ROWS][VECTORS];

    UNROLL for (int r = 0; r < rows; r++)
    {
        UNROLL for (int i = 0; i < vectors; i++)
        {
            sums[r][i] = *(const reals *)(result + r * width + i * LANES);
        }
    }
    for (int64_t k = 0; k < keys; k++, value += value_bytes) {
        reals v[VECTORS];

        ask_ahead(value, (int64_t)vectors * LANES * bytes);
        UNROLL for (int i = 0; i < vectors; i++)
        {
            v[i] = widen(dtype, value + i * LANES * bytes);
        }
        UNROLL for (int r = 0; r < rows; r++)
        {
            float score = scores[r * stride + k];

            UNROLL for (int i = 0; i < vectors; i++)
            {
                sums[r][i] += v[i] * score;
            }
        }
    }
    UNROLL for (int r = 0; r < rows; r++)
    {
        UNROLL for (int i = 0; i < vectors; i++)
        {
            *(reals *)(result + r * width + i * LANES) = sums[r][i];
        }
    }
}

INLINE void weigh_rows(const exg_dtype dtype, const int rows, int64_t keys, int64_t width,
                       const float *scores, int64_t stride, const char *value, int64_t value_bytes,
                       float *result)
{
    const int bytes = dtype == EXG_DTYPE_F32 ? 4 : 2;
    int64_t w = 0;

    for (; w + VECTORS * LANES <= width; w += VECTORS * LANES) {
        weigh_tile(dtype, rows, VECTORS, keys, scores, stride, value + w * bytes, value_bytes,
                   result + w, width);
    }
    for (; w + LANES <= width; w += LANES) {
        weigh_tile(dtype, rows, 1, keys, scores, stride, value + w * bytes, value_bytes, result + w,
                   width);
    }
    for (int64_t k = 0; k < keys && w < width; k++) {
        for (int64_t i = w; i < width; i++) {
            float v = widen_one(dtype, value + k * value_bytes + i * bytes);

            for (int r = 0; r < rows; r++) {
                result[r * width + i] += scores[r * stride + k] * v;
            }
        }
    }
}

/* ---- any rows ------------------------------------------------------------------------------ */

INLINE void score_of(const exg_dtype dtype, int64_t rows, int64_t keys, int64_t depth,
                     const float *query, const char *key, int64_t stride, float *scores,
                     int64_t scores_stride)
{
    const int64_t bytes = stride * (dtype == EXG_DTYPE_F32 ? 4 : 2);

    for (; rows >= ROWS; rows -= ROWS, query += ROWS * depth, scores += ROWS * scores_stride) {
        score_rows(dtype, ROWS, keys, depth, query, key, bytes, scores, scores_stride);
    }
    if (rows == 3) {
        score_rows(dtype, 3, keys, depth, query, key, bytes, scores, scores_stride);
    } else if (rows == 2) {
        score_rows(dtype, 2, keys, depth, query, key, bytes, scores, scores_stride);
    } else if (rows == 1) {
        score_rows(dtype, 1, keys, depth, query, key, bytes, scores, scores_stride);
    }
}

INLINE void weigh_of(const exg_dtype dtype, int64_t rows, int64_t keys, int64_t width,
                     const float *scores, int64_t scores_stride, const char *value, int64_t stride,
                     float *result)
{
    const int64_t bytes = stride * (dtype == EXG_DTYPE_F32 ? 4 : 2);

    for (; rows >= ROWS; rows -= ROWS, scores += ROWS * scores_stride, result += ROWS * width) {
        weigh_rows(dtype, ROWS, keys, width, scores, scores_stride, value, bytes, result);
    }
    if (rows == 3) {
        weigh_rows(dtype, 3, keys, width, scores, scores_stride, value, bytes, result);
    } else if (rows == 2) {
        weigh_rows(dtype, 2, keys, width, scores, scores_stride, value, bytes, result);
    } else if (rows == 1) {
        weigh_rows(dtype, 1, keys, width, scores, scores_stride, value, bytes, result);
    }
}

static void score(int64_t rows, int64_t keys, int64_t depth, const float *query, const void *key,
                  exg_dtype dtype, int64_t key_stride, float *scores, int64_t scores_stride)
{
    if (dtype == EXG_DTYPE_F32) {
        score_of(EXG_DTYPE_F32, rows, keys, depth, query, key, key_stride, scores, scores_stride);
    } else if (dtype == EXG_DTYPE_BF16) {
        score_of(EXG_DTYPE_BF16, rows, keys, depth, query, key, key_stride, scores, scores_stride);
    } else {
        score_of(EXG_DTYPE_F16, rows, keys, depth, query, key, key_stride, scores, scores_stride);
    }
}

static void weigh(int64_t rows, int64_t keys, int64_t width, const float *scores,
                  int64_t scores_stride, const void *value, exg_dtype dtype, int64_t value_stride,
                  float *result)
{
    if (dtype == EXG_DTYPE_F32) {
        weigh_of(EXG_DTYPE_F32, rows, keys, width, scores, scores_stride, value, value_stride,
                 result);
    } else if (dtype == EXG_DTYPE_BF16) {
        weigh_of(EXG_DTYPE_BF16, rows, keys, width, scores, scores_stride, value, value_stride,
                 result);
    } else {
        weigh_of(EXG_DTYPE_F16, rows, keys, width, scores, scores_stride, value, value_stride,
                 result);
    }
}

const exg_attention_loops EXG_ISA_NAME(exg_loops_attention) = {.score = score, .weigh = weigh};
