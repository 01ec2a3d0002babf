/* row_bytes.c - dense rows of bytes, multiplied and added up in int32, which wraps. */
#include "libexec/kernels/loops/loops.h"

#define ADD_SCALED(type)                                                                           \
    EXG_INDEPENDENT                                                                                \
    for (int64_t i = 0; i < count; i++) {                                                          \
        y[i] += factor * ((const type *)x)[i];                                                     \
    }

static void add_scaled(int64_t count, int32_t *y, const void *x, bool is_signed, int32_t factor)
{
    if (is_signed) {
        ADD_SCALED(int8_t)
    } else {
        ADD_SCALED(uint8_t)
    }
}

const exg_row_bytes_loops EXG_ISA_NAME(exg_loops_row_bytes) = {.add_scaled = add_scaled};
