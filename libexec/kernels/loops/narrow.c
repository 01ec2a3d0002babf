/* narrow.c - formulas from bf16 to bf16 (narrow.def), one at a time. */
#include "libexec/kernels/loops/flow.h"
#include "libexec/kernels/loops/narrow_math.h"

#include <string.h>

#define ABREAST 2   /* vectors of pairs that are read before any is written: steps of all mix */
#define PART    128 /* elements between asking and asking again */

/* Every second element at a time, where it is. A branch in the loop over vectors would keep
 * compilers from making such of formulas that choose. */
#define LOOP(id, function, rounded)                                                                \
    static inline __attribute__((always_inline)) void pairs_##id(                                  \
        uint16_t *out, const uint16_t *a, const uint16_t *b, const uint16_t *c, int abreast,       \
        const float *scalars, bool is_past_caches)                                                 \
    {                                                                                              \
        bits even[ABREAST], odd[ABREAST];                                                          \
                                                                                                   \
        _Pragma("GCC unroll 2") for (int j = 0; j < abreast; j++)                                  \
        {                                                                                          \
            const bits x = ((const bits *)a)[j], y = ((const bits *)b)[j];                         \
            const bits z = ((const bits *)c)[j];                                                   \
                                                                                                   \
            even[j] = rounded(function(EVEN(x), EVEN(y), EVEN(z), scalars));                       \
            odd[j] = rounded(function(ODD(x), ODD(y), ODD(z), scalars));                           \
        }                                                                                          \
        _Pragma("GCC unroll 2") for (int j = 0; j < abreast; j++)                                  \
        {                                                                                          \
            exg_flow_put((bits *)out + j, (exg_vbytes)paired(even[j], odd[j]), is_past_caches);    \
        }                                                                                          \
    }                                                                                              \
    static inline __attribute__((always_inline)) void vectors_##id(                                \
        uint32_t count, uint16_t *out, const uint16_t *a, const uint16_t *b, const uint16_t *c,    \
        const float *scalars, bool is_past_caches)                                                 \
    {                                                                                              \
        uint32_t i = 0;                                                                            \
                                                                                                   \
        for (; i + ABREAST * EXG_PAIRS <= count; i += ABREAST * EXG_PAIRS) {                       \
            pairs_##id(out + i, a + i, b + i, c + i, ABREAST, scalars, is_past_caches);            \
        }                                                                                          \
        if (i < count) {                                                                           \
            pairs_##id(out + i, a + i, b + i, c + i, 1, scalars, is_past_caches);                  \
        }                                                                                          \
    }                                                                                              \
    static __attribute__((noinline)) void parts_##id(                                              \
        uint32_t count, uint16_t *out, const uint16_t *a, const uint16_t *b, const uint16_t *c,    \
        const float *scalars, const exg_flow *flow)                                                \
    {                                                                                              \
        for (uint32_t i = 0; i < count; i += PART) {                                               \
            exg_flow_ask(flow, i, PART);                                                           \
            if (flow->is_past_caches) {                                                            \
                vectors_##id(PART, out + i, a + i, b + i, c + i, scalars, true);                   \
            } else {                                                                               \
                vectors_##id(PART, out + i, a + i, b + i, c + i, scalars, false);                  \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void loop_##id(uint32_t count, void *out_, const void *a_, const void *b_,              \
                          const void *c_, const void *scalars, const exg_flow *flow, int *bad)     \
    {                                                                                              \
        const uint16_t *a = a_, *b = b_, *c = c_;                                                  \
        uint16_t *out = out_;                                                                      \
        uint32_t i = flow != NULL ? count / PART * PART : 0;                                       \
        uint32_t end = count / EXG_PAIRS * EXG_PAIRS;                                              \
                                                                                                   \
        (void)bad;                                                                                 \
        if (flow != NULL) {                                                                        \
            parts_##id(i, out, a, b, c, scalars, flow);                                            \
        }                                                                                          \
        vectors_##id(end - i, out + i, a + i, b + i, c + i, scalars, false);                       \
        if (end < count) {                                                                         \
            const size_t bytes = (count - end) * sizeof(uint16_t);                                 \
            _Alignas(EXG_VECTOR_BYTES) uint16_t rest[3][EXG_PAIRS] = {{0}};                        \
                                                                                                   \
            memcpy(rest[0], a + end, bytes);                                                       \
            memcpy(rest[1], b + end, bytes);                                                       \
            memcpy(rest[2], c + end, bytes);                                                       \
            pairs_##id(rest[0], rest[0], rest[1], rest[2], 1, scalars, false);                     \
            memcpy(out + end, rest[0], bytes);                                                     \
        }                                                                                          \
    }
#define EXG_NARROW(id, function) LOOP(id, narrow_##id, rounded_up)
#define EXG_NARROW_FORMULA(id)   LOOP(id, formula_##id, rounded)
#define EXG_NARROW_EXACT(id)     LOOP(id, formula_##id, unrounded)
#include "libexec/kernels/narrow.def"
#undef EXG_NARROW_FORMULA
#undef EXG_NARROW

#define EXG_NARROW(id, function) [EXG_FORMULA_##id] = loop_##id,
#define EXG_NARROW_FORMULA(id)   [EXG_FORMULA_##id] = loop_##id,
const exg_formula_loops EXG_ISA_NAME(exg_loops_narrow) = {{
#include "libexec/kernels/narrow.def"
}};
