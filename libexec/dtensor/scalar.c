/* scalar.c - numbers of any kind as elements, and back. */
#include "libexec/dtensor/spec.h"
#include "libexport/base/require.h"
#include "libexport/operators/shape.h"

#include <exg/scalar.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NUMBER_TEXT 64

exg_scalar exg_scalar_bool(bool value)
{
    return (exg_scalar){.kind = EXG_SCALAR_BOOL, .as_bool = value};
}

exg_scalar exg_scalar_int(int64_t value)
{
    return (exg_scalar){.kind = EXG_SCALAR_INT, .as_int = value};
}

exg_scalar exg_scalar_uint(uint64_t value)
{
    return value <= INT64_MAX ? exg_scalar_int((int64_t)value)
                              : (exg_scalar){.kind = EXG_SCALAR_UINT, .as_uint = value};
}

exg_scalar exg_scalar_float(double value)
{
    return (exg_scalar){.kind = EXG_SCALAR_FLOAT, .as_float = value};
}

exg_scalar exg_scalar_complex(double real, double imag)
{
    return (exg_scalar){.kind = EXG_SCALAR_COMPLEX, .as_complex = {real, imag}};
}

/* Of each part of a complex dtype; the dtype itself of others. */
static exg_dtype part_of(exg_dtype dtype)
{
    return dtype == EXG_DTYPE_C32    ? EXG_DTYPE_F16
           : dtype == EXG_DTYPE_C64  ? EXG_DTYPE_F32
           : dtype == EXG_DTYPE_C128 ? EXG_DTYPE_F64
                                     : dtype;
}

exg_scalar exg_scalar_read(exg_dtype dtype, const void *at)
{
    exg_dtype part = part_of(dtype);
    int64_t whole;

    if (part != dtype) {
        return exg_scalar_complex(
            exg_element_value(part, at),
            exg_element_value(part, (const uint8_t *)at + exg_dtype_bytes(part)));
    }
    if (dtype == EXG_DTYPE_B8) {
        return exg_scalar_bool(exg_element_value(dtype, at) != 0);
    }
    if (exg_dtype_is_float(dtype)) {
        return exg_scalar_float(exg_element_value(dtype, at));
    }
    if (exg_dtype_bytes(dtype) < sizeof(whole)) {
        return exg_scalar_int((int64_t)exg_element_value(dtype, at));
    }
    memcpy(&whole, at, sizeof(whole)); /* past 2^53 a double is not enough */
    return dtype == EXG_DTYPE_U64 ? exg_scalar_uint((uint64_t)whole) : exg_scalar_int(whole);
}

static exg_argument argument_of(exg_scalar value)
{
    switch (value.kind) {
    case EXG_SCALAR_BOOL:
        return exg_arg_bool(value.as_bool);
    case EXG_SCALAR_INT:
        return exg_arg_int(value.as_int);
    case EXG_SCALAR_UINT:
        return exg_arg_float((double)value.as_uint);
    case EXG_SCALAR_FLOAT:
        return exg_arg_float(value.as_float);
    case EXG_SCALAR_COMPLEX:
        return (exg_argument){.kind = EXG_ARGUMENT_COMPLEX, .as_complex = value.as_complex};
    default:
        return exg_arg_none();
    }
}

static bool is_held(exg_dtype dtype, exg_scalar value)
{
    exg_argument number = argument_of(value);

    return value.kind == EXG_SCALAR_UINT && exg_dtype_is_integral(dtype)
               ? dtype == EXG_DTYPE_U64 || dtype == EXG_DTYPE_B8
               : exg_dtype_holds(dtype, &number);
}

static exg_status refuse(exg_dtype dtype, exg_scalar value, exg_error *err)
{
    char text[NUMBER_TEXT];

    if (value.kind == EXG_SCALAR_INT) {
        snprintf(text, sizeof(text), "%" PRId64, value.as_int);
    } else if (value.kind == EXG_SCALAR_UINT) {
        snprintf(text, sizeof(text), "%" PRIu64, value.as_uint);
    } else if (value.kind == EXG_SCALAR_COMPLEX) {
        snprintf(text, sizeof(text), "%g%+gj", value.as_complex.real, value.as_complex.imag);
    } else {
        snprintf(text, sizeof(text), "%g", value.as_float);
    }
    return EXG_FAIL(err, USAGE, "DTN-022", "%s is not a %s", text, exg_dtype_name(dtype));
}

exg_dtype exg_dtype_for(const exg_scalar *value, exg_dtype otherwise)
{
    switch (value == NULL ? EXG_SCALAR_FLOAT : value->kind) {
    case EXG_SCALAR_BOOL:
        return EXG_DTYPE_B8;
    case EXG_SCALAR_INT:
    case EXG_SCALAR_UINT:
        return EXG_DTYPE_I64;
    case EXG_SCALAR_COMPLEX:
        return otherwise == EXG_DTYPE_F64 ? EXG_DTYPE_C128 : EXG_DTYPE_C64;
    default:
        return otherwise;
    }
}

/* Integers go to narrow floats by way of float32, where a double would round twice. */
static double float_of(exg_dtype dtype, exg_scalar value)
{
    bool wide = exg_dtype_bytes(part_of(dtype)) == sizeof(double);

    switch (value.kind) {
    case EXG_SCALAR_BOOL:
        return value.as_bool;
    case EXG_SCALAR_INT:
        return wide ? (double)value.as_int : (double)(float)value.as_int;
    case EXG_SCALAR_UINT:
        return wide ? (double)value.as_uint : (double)(float)value.as_uint;
    case EXG_SCALAR_COMPLEX:
        return value.as_complex.real;
    default:
        return value.as_float;
    }
}

exg_status exg_scalar_store(exg_dtype dtype, void *at, exg_scalar value, exg_error *err)
{
    EXG_REQUIRE(err, at);
    exg_dtype part = part_of(dtype);

    if (value.kind == EXG_SCALAR_NONE || exg_dtype_bytes(dtype) == 0) {
        return EXG_FAIL(err, USAGE, "DTN-022", "no number, or of no dtype");
    }
    if (!is_held(dtype, value)) {
        return refuse(dtype, value, err);
    }
    if (dtype == EXG_DTYPE_B8) {
        bool truth = value.kind == EXG_SCALAR_COMPLEX
                         ? value.as_complex.real != 0 || value.as_complex.imag != 0
                         : float_of(EXG_DTYPE_F64, value) != 0;

        exg_element_store(dtype, at, truth);
    } else if (exg_dtype_is_integral(dtype) && value.kind != EXG_SCALAR_FLOAT &&
               value.kind != EXG_SCALAR_COMPLEX && value.kind != EXG_SCALAR_BOOL) {
        memcpy(at, &value.as_uint, exg_dtype_bytes(dtype)); /* the low bytes */
    } else {
        exg_element_store(dtype, at, float_of(dtype, value));
        if (part != dtype && value.kind == EXG_SCALAR_COMPLEX) {
            exg_element_store(part, (uint8_t *)at + exg_dtype_bytes(part), value.as_complex.imag);
        }
    }
    return EXG_OK;
}
