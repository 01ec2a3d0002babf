/* gemm.h - what the kernels of products share: their parameters, and what becomes of a sum. */
#ifndef EXG_LIBEXEC_KERNELS_CUDA_GEMM_H
#define EXG_LIBEXEC_KERNELS_CUDA_GEMM_H

#include "libexec/kernels/cuda/params.h"
#include "libexec/kernels/cuda/tile.h"

/* The second operand: a matrix of B, or with WEIGHT_BITS a weight (weight.h). */
#ifdef WEIGHT_BITS
#include "libexec/kernels/cuda/weight.h"
#define GEMM_PARAMS cuda_weight_params

static inline float second(const GEMM_PARAMS *p, int64_t batch, int64_t k, int64_t column)
{
    (void)batch;
    return weight_at(p, column, k);
}
#elif defined(B)
#define GEMM_PARAMS cuda_gemm_params

static inline COMPUTE(B) second(const GEMM_PARAMS *p, int64_t batch, int64_t k, int64_t column)
{
    return LOAD(B)(p->b, batch * p->of_b.batch + k * p->of_b.row + column * p->of_b.column);
}
#else
#define GEMM_PARAMS cuda_gemm_params
#endif

FINISHING(gemm_params, GEMM_PARAMS);

/* The matrix of b that is multiplied by: with GATHERED, the dtype of the index, the one that it
 * says; -1: there is no such one, which is a fault. */
static inline int64_t matrix_at(const GEMM_PARAMS *p, int64_t batch)
{
#ifdef GATHERED
    const int64_t given = (int64_t)LOAD(GATHERED)(p->index, batch * p->index_stride);
    const int64_t at = p->wraps && given < 0 ? given + p->matrices : given;

    if (at < 0 || at >= p->matrices) {
        raise_fault(p->fault, FAULT_INDEX, given, p->matrices);
        return -1;
    }
    return at;
#else
    (void)p;
    return batch;
#endif
}

/* alpha * sum + beta * self */
static inline real whole(const GEMM_PARAMS *p, int64_t batch, int64_t row, int64_t column, real sum)
{
    real x = p->alpha == 1 ? sum : (real)p->alpha * sum;

#ifdef HAS_SELF
    const real self = (real)LOAD(SELF)(p->self, batch * p->of_self.batch + row * p->of_self.row +
                                                    column * p->of_self.column);

    x += p->beta == 1 ? self : (real)p->beta * self;
#endif
    return x;
}

/* The sum of one element, if there is such a one. */
static inline void put_sum(const gemm_params *p, int64_t batch, int64_t row, int64_t column,
                           real sum)
{
    const int64_t at = (batch * p->of.m + row) * p->of.n + column;

    if (row < p->of.m && column < p->of.n) {
        STORE(RESULT)(p->of.c, at, whole(&p->of, batch, row, column, sum));
        FINISH(*p, at);
    }
}

#endif
