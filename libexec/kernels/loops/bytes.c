/* bytes.c - formulas from bytes to bytes (bytes.def), one loop each. */
#include "libexec/kernels/loops/loops.h"

#define EXG_FORMULA_I32
#include "libexec/kernels/formula.h"
#undef C
#define C uint8_t /* what wraps as int32_t wraps so too */

/* The unused parts of a formula's environment. */
#define UNUSED(a, b, c, s, t, u, v)                                                                \
    ((void)(a), (void)(b), (void)(c), (void)(s), (void)(t), (void)(u), (void)(v))

#pragma GCC diagnostic ignored "-Wtype-limits" /* of formulas that ask for what is below 0 */

#define EXG_POINTWISE(id, schema, result, float_formula, int_formula, sharding)                    \
    static inline __attribute__((always_inline))                                                   \
    uint8_t formula_##id(C a, C b, C c, C s, C t, C u, C v)                                        \
    {                                                                                              \
        int bad = 0;                                                                               \
                                                                                                   \
        UNUSED(a, b, c, s, t, u, v);                                                               \
        (void)bad;                                                                                 \
        return (uint8_t)(int_formula);                                                             \
    }                                                                                              \
    static inline __attribute__((always_inline)) bool multiplies_##id(void)                        \
    {                                                                                              \
        return __builtin_strstr(#int_formula, "s * ") != NULL;                                     \
    }
#include "libexport/operators/pointwise.def"
#undef EXG_POINTWISE

/* Over all elements, with the first scalar as it is given: what is multiplied by it most often is
 * multiplied by 1. */
#define FOR_EACH(id, first)                                                                        \
    do {                                                                                           \
        EXG_INDEPENDENT                                                                            \
        for (uint32_t i = 0; i < count; i++) {                                                     \
            out[i] = formula_##id(a[i], b[i], c[i], first, t, 0, 0);                               \
        }                                                                                          \
    } while (0)

#define EXG_BYTES_TRUTH(id) EXG_BYTES(id)
#define EXG_BYTES(id)                                                                              \
    static void loop_##id(uint32_t count, void *out_, const void *a_, const void *b_,              \
                          const void *c_, const void *scalars, const exg_flow *flow, int *bad)     \
    {                                                                                              \
        const uint8_t *const a = a_, *const b = b_, *const c = c_;                                 \
        const uint8_t s = (uint8_t)((const int32_t *)scalars)[0];                                  \
        const uint8_t t = (uint8_t)((const int32_t *)scalars)[1];                                  \
        uint8_t *const out = out_;                                                                 \
                                                                                                   \
        (void)flow, (void)bad;                                                                     \
        if (multiplies_##id() && s == 1) {                                                         \
            FOR_EACH(id, 1);                                                                       \
        } else {                                                                                   \
            FOR_EACH(id, s);                                                                       \
        }                                                                                          \
    }
#include "libexec/kernels/bytes.def"
#undef EXG_BYTES

#define EXG_BYTES(id) [EXG_FORMULA_##id] = loop_##id,
const exg_formula_loops EXG_ISA_NAME(exg_loops_bytes) = {{
#include "libexec/kernels/bytes.def"
}};
