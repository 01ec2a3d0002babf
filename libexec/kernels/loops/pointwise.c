/* pointwise.c - one loop a formula and compute type, made by the preprocessor. */
#include "libexec/kernels/loops/flow.h"
#include "libexec/kernels/loops/real_math.h"
#include "libexec/kernels/math_f32.h"

#include <string.h>

/* Some element is farther from 0 than a quarter of what near formulas take (sinc
 * multiplies by pi), or NaN. */
static int reaches_far(uint32_t count, const float *x)
{
    int far = 0;

    for (uint32_t i = 0; i < count; i++) {
        far |= !(exg_f32_abs(x[i]) <= EXG_F32_NEAR / 4);
    }
    return far;
}

/* A part that has been computed, from `element` on, as the flow asks. */
static inline __attribute__((always_inline)) void put(void *to, const void *part, uint32_t bytes,
                                                      uint32_t element, const exg_flow *flow)
{
    if (flow != NULL) {
        exg_flow_ask(flow, element, EXG_FLOW_PART);
    }
    for (uint32_t k = 0; k < bytes; k += EXG_VECTOR_BYTES) {
        exg_flow_put((char *)to + k, *(const exg_vbytes *)((const char *)part + k),
                     flow != NULL && flow->is_past_caches);
    }
}

/* The same for loops that have no room for it. */
static __attribute__((noinline)) void put_apart(void *to, const void *part, uint32_t bytes,
                                                uint32_t element, const exg_flow *flow)
{
    put(to, part, bytes, element, flow);
}

#define ABREAST 4 /* vectors that are read before any is written, so that steps of all mix */

static inline __attribute__((always_inline)) void by_vectors(uint32_t count, float *out,
                                                             const float *a,
                                                             exg_vf32 (*formula)(exg_vf32 x),
                                                             const exg_flow *flow,
                                                             bool is_past_caches)
{
    uint32_t k = 0;

    for (; k + EXG_FLOW_PART <= count; k += EXG_FLOW_PART) {
        if (flow != NULL) {
            exg_flow_ask(flow, k, EXG_FLOW_PART);
        }
        for (uint32_t i = k; i < k + EXG_FLOW_PART; i += ABREAST * EXG_VF32) {
            exg_vf32 x[ABREAST];

#pragma GCC unroll 4
            for (int j = 0; j < ABREAST; j++) {
                x[j] = *(const exg_vf32 *)(a + i + j * EXG_VF32);
            }
#pragma GCC unroll 4
            for (int j = 0; j < ABREAST; j++) {
                x[j] = formula(x[j]);
            }
#pragma GCC unroll 4
            for (int j = 0; j < ABREAST; j++) {
                exg_flow_put(out + i + j * EXG_VF32, (exg_vbytes)x[j], is_past_caches);
            }
        }
    }
    for (; k < count; k += EXG_VF32) {
        const size_t bytes = (count - k < EXG_VF32 ? count - k : EXG_VF32) * sizeof(*a);
        exg_vf32 rest = {0};

        memcpy(&rest, a + k, bytes);
        rest = formula(rest);
        memcpy(out + k, &rest, bytes);
    }
}

/* The unused parts of a formula's environment. */
#define UNUSED(a, b, c, s, t, u, v)                                                                \
    ((void)(a), (void)(b), (void)(c), (void)(s), (void)(t), (void)(u), (void)(v))

/* `take` of the formula of each of `many` elements from `first` on. */
#define FOR_EACH(first, many, first_type, formula, is_far, is_wide, take)                          \
    do {                                                                                           \
        const first_type *const as = (const first_type *)a_ + (first);                             \
        const C *const bs = (const C *)b_ + (first), *const cs = (const C *)c_ + (first);          \
                                                                                                   \
        EXG_INDEPENDENT                                                                            \
        for (uint32_t i = 0; i < (many); i++) {                                                    \
            enum { far = (is_far), wide = (is_wide) };                                             \
            const first_type a = as[i];                                                            \
            const C b = bs[i], c = cs[i];                                                          \
                                                                                                   \
            UNUSED(a, b, c, s, t, u, v);                                                           \
            take(formula);                                                                         \
        }                                                                                          \
    } while (0)

#define LOOP_OVER(to, first, many, out_type, first_type, formula, is_far)                          \
    FOR_EACH(first, many, first_type, formula, is_far, is_far, ((out_type *)(to))[i] = (out_type))

/* Formulas of f32 that take other ways by what operands are have those words in them. */
#define HAS(formula, word) (sizeof(C) == 4 && __builtin_strstr(#formula, word) != NULL)

/* What calls nothing waits for memory; pointwise.c asks the same. Old processors do without: it is
 * much text for them. */
#define IS_LIGHT(formula) (EXG_VECTOR_BYTES > 16 && __builtin_strchr(#formula, '(') == NULL)

/* Some quotient is wide. */
#define FIND_WIDE(found, formula, first_type)                                                      \
    do {                                                                                           \
        if (HAS(formula, "wide)")) {                                                               \
            FOR_EACH(0, count, first_type, formula, 0, EXG_F32_WIDE_ASKED, found |= 0 !=);         \
        }                                                                                          \
    } while (0)

/* Only a formula that asks for it has a loop for what is far or wide. */
#define LOOP(id, out_type, first_type, formula)                                                    \
    static void NAME(id)(uint32_t count, void *out, const void *a_, const void *b_,                \
                         const void *c_, const void *scalars, const exg_flow *flow, int *bad_out)  \
    {                                                                                              \
        const C s = ((const C *)scalars)[0], t = ((const C *)scalars)[1];                          \
        const C u = ((const C *)scalars)[2], v = ((const C *)scalars)[3];                          \
        int bad = 0;                                                                               \
        int is_wide = 0;                                                                           \
                                                                                                   \
        FIND_WIDE(is_wide, formula, first_type);                                                   \
        if (IN_VECTORS(id) != NULL) {                                                              \
            if (flow != NULL && flow->is_past_caches) {                                            \
                by_vectors(count, out, a_, IN_VECTORS(id), flow, true);                            \
            } else {                                                                               \
                by_vectors(count, out, a_, IN_VECTORS(id), flow, false);                           \
            }                                                                                      \
        } else if (is_wide != 0 || (HAS(formula, "far)") && reaches_far(count, a_))) {             \
            LOOP_OVER(out, 0, count, out_type, first_type, formula, 1);                            \
        } else if (HAS_PARTS) {                                                                    \
            uint32_t k = 0;                                                                        \
                                                                                                   \
            for (; k + EXG_FLOW_PART <= count; k += EXG_FLOW_PART) {                               \
                _Alignas(EXG_VECTOR_BYTES) out_type part[EXG_FLOW_PART];                           \
                                                                                                   \
                LOOP_OVER(part, k, EXG_FLOW_PART, out_type, first_type, formula, 0);               \
                put((out_type *)out + k, part, sizeof(part), k, flow);                             \
            }                                                                                      \
            LOOP_OVER((out_type *)out + k, k, count - k, out_type, first_type, formula, 0);        \
        } else {                                                                                   \
            const bool flows = IS_LIGHT(formula) && flow != NULL;                                  \
            const uint32_t many = flows ? EXG_FLOW_PART : count;                                   \
                                                                                                   \
            for (uint32_t k = 0; k < count; k += many) {                                           \
                _Alignas(EXG_VECTOR_BYTES) out_type part[EXG_FLOW_PART];                           \
                const uint32_t here = many < count - k ? many : count - k;                         \
                const bool is_part = flows && here == EXG_FLOW_PART;                               \
                out_type *const to = is_part ? part : (out_type *)out + k;                         \
                                                                                                   \
                LOOP_OVER(to, k, here, out_type, first_type, formula, 0);                          \
                if (is_part) {                                                                     \
                    put_apart((out_type *)out + k, part, sizeof(part), k, flow);                   \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        *bad_out |= bad;                                                                           \
    }

#define LOOP_PROMOTE(id, formula) LOOP(id, C, C, formula)
#define LOOP_NUMBER(id, formula)  LOOP(id, C, C, formula)
#define LOOP_FLOAT(id, formula)   LOOP(id, C, C, formula)
#define LOOP_FIRST(id, formula)   LOOP(id, C, C, formula)
#define LOOP_CAST(id, formula)    LOOP(id, C, C, formula)
#define LOOP_BOOL(id, formula)    LOOP(id, int32_t, C, formula)
#define LOOP_WHERE(id, formula)   LOOP(id, C, int32_t, formula)

#define EXG_POINTWISE(id, schema, result, float_formula, int_formula, sharding)                    \
    LOOP_##result(id, float_formula)

#define EXG_FORMULA_F32
#include "libexec/kernels/formula.h"
#define NAME(id)       f32_##id
#define IN_VECTORS(id) in_vectors[EXG_FORMULA_##id]
#define HAS_PARTS      1 /* a loop of their own, unrolled */
#include "libexport/operators/pointwise.def"
#undef NAME
#undef IN_VECTORS
#undef HAS_PARTS
#define HAS_PARTS      0
#define IN_VECTORS(id) ((exg_vf32(*)(exg_vf32))NULL)

#define EXG_FORMULA_F64
#include "libexec/kernels/formula.h"
#define NAME(id) f64_##id
#include "libexport/operators/pointwise.def"
#undef NAME
#undef EXG_POINTWISE

#define EXG_POINTWISE(id, schema, result, float_formula, int_formula, sharding)                    \
    LOOP_##result(id, int_formula)

#define EXG_FORMULA_I32
#include "libexec/kernels/formula.h"
#define NAME(id) i32_##id
#include "libexport/operators/pointwise.def"
#undef NAME

#define EXG_FORMULA_I64
#include "libexec/kernels/formula.h"
#define NAME(id) i64_##id
#include "libexport/operators/pointwise.def"
#undef NAME
#undef EXG_POINTWISE

const exg_pointwise_loops EXG_ISA_NAME(exg_loops_pointwise) = {{{
#define EXG_POINTWISE(id, schema, result, float_formula, int_formula, sharding) f32_##id,
#include "libexport/operators/pointwise.def"
#undef EXG_POINTWISE
                                                                },
                                                                {
#define EXG_POINTWISE(id, schema, result, float_formula, int_formula, sharding) f64_##id,
#include "libexport/operators/pointwise.def"
#undef EXG_POINTWISE
                                                                },
                                                                {
#define EXG_POINTWISE(id, schema, result, float_formula, int_formula, sharding) i32_##id,
#include "libexport/operators/pointwise.def"
#undef EXG_POINTWISE
                                                                },
                                                                {
#define EXG_POINTWISE(id, schema, result, float_formula, int_formula, sharding) i64_##id,
#include "libexport/operators/pointwise.def"
#undef EXG_POINTWISE
                                                                }}};
