/* attention.h - attention of few rows over keys and values where they are. */
#ifndef EXG_LIBEXEC_KERNELS_LOOPS_ATTENTION_H
#define EXG_LIBEXEC_KERNELS_LOOPS_ATTENTION_H

#include "libexec/kernels/loops/loops.h"

/* Keys and values of f32, bf16 or f16, dense along the last dim; the rest in f32. Strides count
 * elements. */
typedef struct exg_attention_loops {
    /* scores (rows, keys) = query (rows, depth) times key (keys, depth) transposed */
    void (*score)(int64_t rows, int64_t keys, int64_t depth, const float *query, const void *key,
                  exg_dtype dtype, int64_t key_stride, float *scores, int64_t scores_stride);
    /* result (rows, width) += scores (rows, keys) times value (keys, width) */
    void (*weigh)(int64_t rows, int64_t keys, int64_t width, const float *scores,
                  int64_t scores_stride, const void *value, exg_dtype dtype, int64_t value_stride,
                  float *result);
} exg_attention_loops;

EXG_LOOPS_DECLARE(exg_attention_loops, exg_loops_attention);

#endif
