/* chain_bf16.c - chains of formulas from bf16 to bf16: between steps vectors of f32 hold what bf16
 * would, the even elements of a vector of pairs, then the odd ones.
 */
#include "libexec/kernels/loops/flow.h"
#include "libexec/kernels/loops/narrow_math.h"

typedef uint16_t element;

static inline real vector_of(const element *from, int k)
{
    const bits pairs = ((const bits *)from)[k / 2];

    return k % 2 == 0 ? EVEN(pairs) : ODD(pairs);
}

static inline void put_part(element *out, const real vectors[4], bool is_past_caches)
{
    for (int k = 0; k < 2; k++) {
        const bits pairs = paired((bits)vectors[2 * k], (bits)vectors[2 * k + 1]);

        exg_flow_put((bits *)out + k, (exg_vbytes)pairs, is_past_caches);
    }
}

#define STEP(id, function, rounded)                                                                \
    static inline __attribute__((always_inline))                                                   \
    real step_##id(real x, real y, real z, const float *scalars)                                   \
    {                                                                                              \
        return ODD(rounded(function(x, y, z, scalars)));                                           \
    }
#define EXG_NARROW(id, function) STEP(id, narrow_##id, rounded_up)
#define EXG_NARROW_FORMULA(id)   STEP(id, formula_##id, rounded)
#define EXG_NARROW_EXACT(id)     STEP(id, formula_##id, unrounded)
#include "libexec/kernels/narrow.def"
#undef EXG_NARROW_FORMULA
#undef EXG_NARROW

#include "libexec/kernels/loops/chain_body.h"

const exg_chain_loops EXG_ISA_NAME(exg_loops_chain_bf16) = {run};
