/* numbers.h - elements of the types that stand-ins of libraries compute with, as double. */
#ifndef EXG_TESTS_STANDIN_NUMBERS_H
#define EXG_TESTS_STANDIN_NUMBERS_H

#include "libexport/base/element.h"

typedef enum number_kind { NUMBER_F32, NUMBER_F64, NUMBER_F16, NUMBER_BF16 } number_kind;

static inline uint32_t number_bytes(number_kind kind)
{
    return kind == NUMBER_F64 ? 8 : kind == NUMBER_F32 ? 4 : 2;
}

static inline double number_load(const void *base, number_kind kind, int64_t i)
{
    return kind == NUMBER_F64   ? ((const double *)base)[i]
           : kind == NUMBER_F32 ? (double)((const float *)base)[i]
           : kind == NUMBER_F16 ? (double)exg_f16_to_f32(((const uint16_t *)base)[i])
                                : (double)exg_bf16_to_f32(((const uint16_t *)base)[i]);
}

static inline void number_store(void *base, number_kind kind, int64_t i, double x)
{
    if (kind == NUMBER_F64) {
        ((double *)base)[i] = x;
    } else if (kind == NUMBER_F32) {
        ((float *)base)[i] = (float)x;
    } else if (kind == NUMBER_F16) {
        ((uint16_t *)base)[i] = exg_f32_to_f16((float)x);
    } else {
        ((uint16_t *)base)[i] = exg_f32_to_bf16((float)x);
    }
}

#endif
