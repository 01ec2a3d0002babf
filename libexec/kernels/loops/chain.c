/* chain.c - chains of formulas of f32. */
#include "libexec/kernels/loops/flow.h"
#include "libexec/kernels/loops/real_formulas.h"

typedef float element;

static inline real vector_of(const element *from, int k)
{
    return ((const real *)from)[k];
}

static inline void put_part(element *out, const real vectors[4], bool is_past_caches)
{
    for (int k = 0; k < 4; k++) {
        exg_flow_put((real *)out + k, (exg_vbytes)vectors[k], is_past_caches);
    }
}

#define EXG_NARROW(id, function) EXG_NARROW_FORMULA(id)
#define EXG_NARROW_FORMULA(id)                                                                     \
    static inline __attribute__((always_inline))                                                   \
    real step_##id(real x, real y, real z, const float *scalars)                                   \
    {                                                                                              \
        return in_vectors[EXG_FORMULA_##id] != NULL ? in_vectors[EXG_FORMULA_##id](x)              \
                                                    : formula_##id(x, y, z, scalars);              \
    }
#include "libexec/kernels/narrow.def"
#undef EXG_NARROW_FORMULA
#undef EXG_NARROW

#include "libexec/kernels/loops/chain_body.h"

const exg_chain_loops EXG_ISA_NAME(exg_loops_chain) = {run};
