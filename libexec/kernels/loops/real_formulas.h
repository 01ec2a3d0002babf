/* real_formulas.h - formulas of pointwise.def by vectors of f32. */
#ifndef EXG_LIBEXEC_KERNELS_LOOPS_REAL_FORMULAS_H
#define EXG_LIBEXEC_KERNELS_LOOPS_REAL_FORMULAS_H

#define EXG_FORMULA_F32
#include "libexec/kernels/formula.h"
#include "libexec/kernels/loops/loops.h"
#include "libexec/kernels/loops/real_math.h"

#define SCALARS(s_) const float s = (s_)[0], t = (s_)[1], u = (s_)[2], v = (s_)[3]
#define UNUSED(a, b, c, s, t, u, v)                                                                \
    ((void)(a), (void)(b), (void)(c), (void)(s), (void)(t), (void)(u), (void)(v))

/* pointwise.def's own, over the elements of vectors. */
#define EXG_POINTWISE(id, schema, result, float_formula, int_formula, sharding)                    \
    FORMULA_##result(id, float_formula)
#define FORMULA_PROMOTE(id, formula) FORMULA(id, formula)
#define FORMULA_NUMBER(id, formula)  FORMULA(id, formula)
#define FORMULA_FLOAT(id, formula)   FORMULA(id, formula)
#define FORMULA_FIRST(id, formula)
#define FORMULA_CAST(id, formula)
#define FORMULA_BOOL(id, formula)
#define FORMULA_WHERE(id, formula)
#define FORMULA(id, formula)                                                                       \
    static inline __attribute__((always_inline))                                                   \
    real formula_##id(real x, real y, real z, const float *scalars)                                \
    {                                                                                              \
        enum { far = 0, wide = 1 };                                                                \
        SCALARS(scalars);                                                                          \
        real result;                                                                               \
                                                                                                   \
        _Pragma("GCC unroll 1") /* whole it would be left as it is where it chooses */             \
            for (int k = 0; k < EXG_VF32; k++)                                                     \
        {                                                                                          \
            const float a = ((const float *)&x)[k];                                                \
            const float b = ((const float *)&y)[k];                                                \
            const float c = ((const float *)&z)[k];                                                \
                                                                                                   \
            UNUSED(a, b, c, s, t, u, v);                                                           \
            ((float *)&result)[k] = (float)(formula);                                              \
        }                                                                                          \
        return result;                                                                             \
    }
#include "libexport/operators/pointwise.def"
#undef EXG_POINTWISE

#endif
