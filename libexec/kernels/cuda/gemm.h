/* gemm.h - what the kernels of products share: their parameters, and what becomes of a sum. */
#ifndef EXG_LIBEXEC_KERNELS_CUDA_GEMM_H
#define EXG_LIBEXEC_KERNELS_CUDA_GEMM_H

#include "libexec/kernels/cuda/params.h"
#include "libexec/kernels/cuda/tile.h"

FINISHING(gemm_params, cuda_gemm_params);

/* alpha * sum + beta * self */
static inline real whole(const cuda_gemm_params *p, int64_t batch, int64_t row, int64_t column,
                         real sum)
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
