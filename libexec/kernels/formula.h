/* formula.h - what the capitals in formulas mean, per compute type.
 *
 * Include after defining EXG_FORMULA_F32, _F64, _I32 or _I64; includes again with
 * another one replace the meaning. C is the compute type. In integer types a
 * division by zero gives 0 and sets the loop's `bad`. `far` and `wide` are constants of the
 * loop: whether operands may be beyond EXG_F32_NEAR, and quotients wide (math_f32.h).
 */
#include "libexec/kernels/gamma.h"
#include "libexec/kernels/special.h"

#ifndef EXG_LIBEXEC_KERNELS_FORMULA_H
#define EXG_LIBEXEC_KERNELS_FORMULA_H

/* Floating division as Python's //, after the C remainder is known. */
static inline double exg_f64_fmod(double a, double b, int wide)
{
    (void)wide;
    return fmod(a, b);
}

#define EXG_DEFINE_FLOAT(type, suffix, c)                                                          \
    static inline type exg_remainder_##suffix(type a, type b, int wide)                            \
    {                                                                                              \
        type rest = exg_##suffix##_fmod(a, b, wide);                                               \
        int is_off = (rest != 0) & ((b < 0) != (rest < 0));                                        \
                                                                                                   \
        return is_off && wide != EXG_F32_WIDE_ASKED ? rest + b : rest;                             \
    }                                                                                              \
    static inline type exg_div_floor_##suffix(type a, type b, int wide)                            \
    {                                                                                              \
        type rest = exg_##suffix##_fmod(a, b, wide);                                               \
        type whole = (a - rest) / b;                                                               \
        int is_off = (rest != 0) & ((b < 0) != (rest < 0));                                        \
        type floored;                                                                              \
                                                                                                   \
        whole = is_off ? whole - 1 : whole;                                                        \
        floored = floor##c(whole);                                                                 \
        floored = whole - floored > (type)0.5 ? floored + 1 : floored;                             \
        floored = whole == 0 ? copysign##c((type)0, a / b) : floored;                              \
        floored = b == 0 ? a / b : floored;                                                        \
        return wide == EXG_F32_WIDE_ASKED ? rest : floored;                                        \
    }

EXG_DEFINE_FLOAT(float, f32, f)
EXG_DEFINE_FLOAT(double, f64, )

static inline double exg_f64_lgamma(double x)
{
    int sign; /* not the global one */

    return lgamma_r(x, &sign);
}

#define EXG_DEFINE_INT(type, utype, suffix)                                                        \
    static inline type exg_div_trunc_##suffix(type a, type b, int *bad)                            \
    {                                                                                              \
        *bad |= b == 0;                                                                            \
        return b == 0 ? 0 : b == -1 ? (type)(0 - (utype)a) : (type)(a / b);                        \
    }                                                                                              \
    static inline type exg_fmod_##suffix(type a, type b, int *bad)                                 \
    {                                                                                              \
        *bad |= b == 0;                                                                            \
        return b == 0 || b == -1 ? 0 : (type)(a % b);                                              \
    }                                                                                              \
    static inline type exg_remainder_##suffix(type a, type b, int *bad)                            \
    {                                                                                              \
        type rest = exg_fmod_##suffix(a, b, bad);                                                  \
                                                                                                   \
        return rest != 0 && (b < 0) != (rest < 0) ? (type)(rest + b) : rest;                       \
    }                                                                                              \
    static inline type exg_div_floor_##suffix(type a, type b, int *bad)                            \
    {                                                                                              \
        type whole = exg_div_trunc_##suffix(a, b, bad);                                            \
        int bad_again = 0;                                                                         \
        type rest = exg_fmod_##suffix(a, b, &bad_again);                                           \
                                                                                                   \
        return rest != 0 && (b < 0) != (rest < 0) ? (type)(whole - 1) : whole;                     \
    }                                                                                              \
    static inline type exg_pow_##suffix(type a, type b)                                            \
    {                                                                                              \
        utype power = 1;                                                                           \
        utype base = (utype)a;                                                                     \
                                                                                                   \
        if (b < 0) {                                                                               \
            return a == 1 ? 1 : a == -1 ? ((b & 1) != 0 ? -1 : 1) : 0;                             \
        }                                                                                          \
        for (; b > 0; b >>= 1) {                                                                   \
            power = (b & 1) != 0 ? power * base : power;                                           \
            base *= base;                                                                          \
        }                                                                                          \
        return (type)power;                                                                        \
    }                                                                                              \
    static inline type exg_gcd_##suffix(type a, type b)                                            \
    {                                                                                              \
        utype x = a < 0 ? 0 - (utype)a : (utype)a;                                                 \
        utype y = b < 0 ? 0 - (utype)b : (utype)b;                                                 \
                                                                                                   \
        while (y != 0) {                                                                           \
            utype rest = x % y;                                                                    \
                                                                                                   \
            x = y;                                                                                 \
            y = rest;                                                                              \
        }                                                                                          \
        return (type)x;                                                                            \
    }                                                                                              \
    static inline type exg_shift_left_##suffix(type a, type b)                                     \
    {                                                                                              \
        return b < 0 || b >= (type)(8 * sizeof(type)) ? 0 : (type)((utype)a << b);                 \
    }                                                                                              \
    static inline type exg_shift_right_##suffix(type a, type b)                                    \
    {                                                                                              \
        type last = 8 * sizeof(type) - 1;                                                          \
                                                                                                   \
        return (type)(a >> (b < 0 || b > last ? last : b));                                        \
    }

EXG_DEFINE_INT(int32_t, uint32_t, i32)
EXG_DEFINE_INT(int64_t, uint64_t, i64)

/* The slope of gelu_tanh at x, h being the tanh in it. */
#define GELU_TANH_SLOPE(x, h)                                                                      \
    (K(0.5) * (K(1) + (h)) + K(0.5) * (x) * (K(1) - (h) * (h)) *                                   \
                                 (K(0.79788456080286535588) * (K(1) + K(0.134145) * (x) * (x))))

#define NONE               K(0)
#define K(x)               ((C)(x))
#define ISNAN(x)           ((x) != (x))
#define SPECIAL(name, ...) ((C)exg_special_##name(__VA_ARGS__))
/* NaN where one is; asked in this order compilers make vectors of one in the other. */
#define MAXIMUM(x, y) ((x) <= (y) || ISNAN(y) ? (y) : (x))
#define MINIMUM(x, y) ((x) >= (y) || ISNAN(y) ? (y) : (x))

#endif

#undef C
#undef ABS
#undef ACOS
#undef ACOSH
#undef ASIN
#undef ASINH
#undef ATAN
#undef ATAN2
#undef ATANH
#undef CEIL
#undef COPYSIGN
#undef COS
#undef COSH
#undef DIV_FLOOR
#undef DIV_TRUNC
#undef ERF
#undef ERFC
#undef EXP
#undef EXP2
#undef EXPM1
#undef FLOOR
#undef FMOD
#undef GCD
#undef HYPOT
#undef LGAMMA
#undef LOG
#undef LOG10
#undef LOG1P
#undef LOG1P_EXP
#undef LOG2
#undef NEXTAFTER
#undef NORMAL_CDF
#undef ONE_PLUS_EXP
#undef POW
#undef REMAINDER
#undef ROUND
#undef SHIFT_LEFT
#undef SHIFT_RIGHT
#undef SIGN
#undef SIN
#undef SINH
#undef SQRT
#undef TAN
#undef TANH
#undef TRUNC

#if defined(EXG_FORMULA_F32)
#undef EXG_FORMULA_F32
#define C               float
#define ABS(x)          exg_f32_abs(x)
#define ACOS(x)         exg_f32_acos(x)
#define ACOSH(x)        exg_f32_acosh(x)
#define ASIN(x)         exg_f32_asin(x)
#define ASINH(x)        exg_f32_asinh(x)
#define ATAN(x)         exg_f32_atan(x)
#define ATAN2(x, y)     exg_f32_atan2(x, y)
#define ATANH(x)        exg_f32_atanh(x)
#define CEIL(x)         ceilf(x)
#define COPYSIGN(x, y)  exg_f32_copysign(x, y)
#define COS(x)          exg_f32_cos(x, far)
#define COSH(x)         exg_f32_cosh(x)
#define DIV_FLOOR(x, y) exg_div_floor_f32(x, y, wide)
#define ERF(x)          exg_f32_erf(x)
#define ERFC(x)         erfcf(x)
#define EXP(x)          exg_f32_exp(x)
#define EXP2(x)         exg_f32_exp2(x)
#define EXPM1(x)        exg_f32_expm1(x)
#define FLOOR(x)        floorf(x)
#define FMOD(x, y)      exg_f32_fmod(x, y, wide)
#define HYPOT(x, y)     hypotf(x, y)
#define LGAMMA(x)       exg_f32_lgamma(x)
#define LOG(x)          exg_f32_log(x)
#define LOG10(x)        exg_f32_log10(x)
#define LOG1P(x)        exg_f32_log1p(x)
#define LOG1P_EXP(x)    exg_f32_log1p_exp(x)
#define LOG2(x)         exg_f32_log2(x)
#define NEXTAFTER(x, y) nextafterf(x, y)
#define NORMAL_CDF(x)   exg_f32_normal_cdf(x)
#define ONE_PLUS_EXP(x) exg_f32_one_plus_exp(x)
#define POW(x, y)       exg_f32_pow(x, y)
#define REMAINDER(x, y) exg_remainder_f32(x, y, wide)
#define ROUND(x)        exg_f32_rint(x)
#define SIGN(x)         ((float)((x) > 0) - (float)((x) < 0))
#define SIN(x)          exg_f32_sin(x, far)
#define SINH(x)         exg_f32_sinh(x)
#define SQRT(x)         sqrtf(x)
#define TAN(x)          exg_f32_tan(x, far)
#define TANH(x)         exg_f32_tanh(x)
#define TRUNC(x)        truncf(x)
#elif defined(EXG_FORMULA_F64)
#undef EXG_FORMULA_F64
#define C               double
#define ABS(x)          fabs(x)
#define ACOS(x)         acos(x)
#define ACOSH(x)        acosh(x)
#define ASIN(x)         asin(x)
#define ASINH(x)        asinh(x)
#define ATAN(x)         atan(x)
#define ATAN2(x, y)     atan2(x, y)
#define ATANH(x)        atanh(x)
#define CEIL(x)         ceil(x)
#define COPYSIGN(x, y)  copysign(x, y)
#define COS(x)          cos(x)
#define COSH(x)         cosh(x)
#define DIV_FLOOR(x, y) exg_div_floor_f64(x, y, wide)
#define ERF(x)          erf(x)
#define ERFC(x)         erfc(x)
#define EXP(x)          exg_f64_exp(x)
#define EXP2(x)         exp2(x)
#define EXPM1(x)        expm1(x)
#define FLOOR(x)        floor(x)
#define FMOD(x, y)      exg_f64_fmod(x, y, wide)
#define HYPOT(x, y)     hypot(x, y)
#define LGAMMA(x)       exg_f64_lgamma(x)
#define LOG(x)          exg_f64_log(x)
#define LOG10(x)        log10(x)
#define LOG1P(x)        log1p(x)
#define LOG1P_EXP(x)    exg_f64_log1p_exp(x)
#define LOG2(x)         log2(x)
#define NEXTAFTER(x, y) nextafter(x, y)
#define NORMAL_CDF(x)   (0.5 * (1 + erf((x)*0.70710678118654752440)))
#define ONE_PLUS_EXP(x) (1 + exg_f64_exp(x))
#define POW(x, y)       pow(x, y)
#define REMAINDER(x, y) exg_remainder_f64(x, y, wide)
#define ROUND(x)        rint(x)
#define SIGN(x)         ((double)((x) > 0) - (double)((x) < 0))
#define SIN(x)          sin(x)
#define SINH(x)         sinh(x)
#define SQRT(x)         sqrt(x)
#define TAN(x)          tan(x)
#define TANH(x)         exg_f64_tanh(x)
#define TRUNC(x)        trunc(x)
#elif defined(EXG_FORMULA_I32) || defined(EXG_FORMULA_I64)
#ifdef EXG_FORMULA_I32
#undef EXG_FORMULA_I32
#define C             int32_t
#define EXG_INT(name) exg_##name##_i32
#else
#undef EXG_FORMULA_I64
#undef EXG_INT
#define C             int64_t
#define EXG_INT(name) exg_##name##_i64
#endif
#define ABS(x)            ((x) < 0 ? -(x) : (x))
#define DIV_FLOOR(x, y)   EXG_INT(div_floor)(x, y, &bad)
#define DIV_TRUNC(x, y)   EXG_INT(div_trunc)(x, y, &bad)
#define FMOD(x, y)        EXG_INT(fmod)(x, y, &bad)
#define GCD(x, y)         EXG_INT(gcd)(x, y)
#define POW(x, y)         EXG_INT(pow)(x, y)
#define REMAINDER(x, y)   EXG_INT(remainder)(x, y, &bad)
#define SHIFT_LEFT(x, y)  EXG_INT(shift_left)(x, y)
#define SHIFT_RIGHT(x, y) EXG_INT(shift_right)(x, y)
#define SIGN(x)           (((x) > 0) - ((x) < 0))
#else
#error "define one of EXG_FORMULA_F32, _F64, _I32, _I64"
#endif
