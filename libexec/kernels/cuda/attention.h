/* attention.h - which score a query row may see of a key. */
#ifndef EXG_LIBEXEC_KERNELS_CUDA_ATTENTION_H
#define EXG_LIBEXEC_KERNELS_CUDA_ATTENTION_H

#include "libexec/kernels/cuda/common.h"
#include "libexec/kernels/cuda/params.h"

/* Where the operand's head begins: 0 query, 1 key, 2 value, 3 mask. */
static inline int64_t attention_head_of(const cuda_attention_params *p, int operand, int64_t batch,
                                        int64_t head)
{
    int64_t offset = head * p->strides[operand][0];
    uint32_t left = (uint32_t)batch; /* of blocks, fewer than 2^31 */

    NO_UNROLL
    for (int d = (int)p->batch_rank - 1; d >= 0; d--) {
        const uint32_t size = (uint32_t)p->batch_sizes[d];

        offset += left % size * p->batch_strides[operand][d];
        left /= size;
    }
    return offset;
}

#ifdef IS_DOUBLE
typedef double attention_score;
#else
typedef float attention_score;
#endif

/* A score with its mask, that of the head at `mask`; -inf where it may not be seen. */
static inline attention_score attention_masked(const cuda_attention_params *p,
                                               attention_score score, int64_t mask, int64_t row,
                                               int64_t k)
{
#ifdef HAS_MASK
    mask += row * p->strides[3][1] + k * p->strides[3][2];
#ifdef MASK_IS_BOOL
    score = LOAD(MASK)(p->mask, mask) != 0 ? score : -(attention_score)INFINITY;
#else
    score += (attention_score)LOAD(MASK)(p->mask, mask);
#endif
#endif
    (void)mask;
    return p->is_causal && k > row ? -(attention_score)INFINITY : score;
}

#endif
