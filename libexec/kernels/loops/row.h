/* row.h - what the loops over a row share: lanes, their sum, asking ahead. */
#ifndef EXG_LIBEXEC_KERNELS_LOOPS_ROW_H
#define EXG_LIBEXEC_KERNELS_LOOPS_ROW_H

#include "libexec/kernels/loops/loops.h"
#include "libexec/kernels/loops/vector.h"

#define EXG_STRETCH 4096 /* elements summed in the row's type */

#define EXG_UNROLL _Pragma("GCC unroll 8")

typedef float exg_float8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef double exg_double2 __attribute__((vector_size(16), aligned(8), may_alias));
typedef double exg_double4 __attribute__((vector_size(32), aligned(8), may_alias));
typedef double exg_double8 __attribute__((vector_size(64), aligned(8), may_alias));

/* The lanes of a stretch in double, halved again and again: of 32, lane k takes k + 16,
 * k + 8, ... in this order whatever the width of vectors. */
#define EXG_LANE_TOTAL(name, count, REAL8)                                                         \
    static inline __attribute__((always_inline)) double name(const void *lanes)                    \
    {                                                                                              \
        exg_double8 sums[(count) / 8];                                                             \
                                                                                                   \
        EXG_UNROLL for (int k = 0; k < (count) / 8; k++)                                           \
        {                                                                                          \
            sums[k] = __builtin_convertvector(((const REAL8 *)lanes)[k], exg_double8);             \
        }                                                                                          \
        EXG_UNROLL for (int half = (count) / 16; half > 0; half /= 2)                              \
        {                                                                                          \
            EXG_UNROLL for (int k = 0; k < half; k++)                                              \
            {                                                                                      \
                sums[k] += sums[k + half];                                                         \
            }                                                                                      \
        }                                                                                          \
        const exg_double4 four = ((exg_double4 *)sums)[0] + ((exg_double4 *)sums)[1];              \
        const exg_double2 two = ((const exg_double2 *)&four)[0] + ((const exg_double2 *)&four)[1]; \
                                                                                                   \
        return two[0] + two[1];                                                                    \
    }

#define EXG_ROW_FAR                                                                                \
    8192 /* bytes beyond what is asked for: those come as far as the second cache                  \
          */

/* For the stretch of 128 bytes that begins at byte `at` of the row. More is on its way to the
 * second cache at a time than to the first, and rows that are read twice are none that processors
 * foresee. */
static inline __attribute__((always_inline)) void exg_row_ask(const exg_ahead *ahead, int64_t at)
{
    for (int k = 0; k < 2; k++) {
        for (uint32_t byte = 0; byte < ahead->bytes[k]; byte += 64) {
            const char *asked = ahead->at[k] + at / 128 * ahead->bytes[k] + byte;

            __builtin_prefetch(asked);
            __builtin_prefetch(asked + EXG_ROW_FAR, 0, 2);
        }
    }
}

#endif
