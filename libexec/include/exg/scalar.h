/* scalar.h - one number of any kind, as PyTorch's Scalar. */
#ifndef EXG_SCALAR_H
#define EXG_SCALAR_H

#include <exg/program.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum exg_scalar_kind {
    EXG_SCALAR_NONE,
    EXG_SCALAR_BOOL,
    EXG_SCALAR_INT,
    EXG_SCALAR_UINT, /* an integer above INT64_MAX */
    EXG_SCALAR_FLOAT,
    EXG_SCALAR_COMPLEX
} exg_scalar_kind;

typedef struct exg_scalar {
    exg_scalar_kind kind;
    union {
        bool as_bool;
        int64_t as_int;
        uint64_t as_uint;
        double as_float;
        exg_complex_number as_complex;
    };
} exg_scalar;

exg_scalar exg_scalar_bool(bool value);
exg_scalar exg_scalar_int(int64_t value);
exg_scalar exg_scalar_uint(uint64_t value); /* of what int64 holds, an INT */
exg_scalar exg_scalar_float(double value);
exg_scalar exg_scalar_complex(double real, double imag);

/* The element of `dtype` at `at` (any alignment), all of it. */
exg_scalar exg_scalar_read(exg_dtype dtype, const void *at);

/* The element that the number becomes, as PyTorch converts it: integers to the nearest float,
 * floats to integers without their fraction, negative integers to unsigned ones of as many bits.
 * USAGE DTN-022 of a number that the dtype does not hold. */
EXG_NODISCARD exg_status exg_scalar_store(exg_dtype dtype, void *at, exg_scalar value,
                                          exg_error *err);

#ifdef __cplusplus
}
#endif

#endif
