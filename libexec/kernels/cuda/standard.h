/* standard.h - what kernel texts use of C's own headers, where the compiler comes without
 * them: NVRTC is given this text under the names math.h, stdbool.h, stdint.h and string.h. The
 * functions of math.h, bool and memcpy it knows by itself.
 */
#ifndef EXG_LIBEXEC_KERNELS_CUDA_STANDARD_H
#define EXG_LIBEXEC_KERNELS_CUDA_STANDARD_H

typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;

#define INT8_MIN   (-128)
#define INT8_MAX   127
#define INT16_MIN  (-32768)
#define INT16_MAX  32767
#define INT32_MIN  (-2147483647 - 1)
#define INT32_MAX  2147483647
#define INT64_MIN  (-9223372036854775807LL - 1)
#define INT64_MAX  9223372036854775807LL
#define UINT32_MAX 4294967295u
#define UINT64_MAX 18446744073709551615ull

#define NAN      __int_as_float(0x7fffffff)
#define INFINITY __int_as_float(0x7f800000)

#define lgamma_r(x, sign) ((void)(sign), lgamma(x))
#define __builtin_fma     fma
#define __builtin_fmaf    fmaf

#endif
