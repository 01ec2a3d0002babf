/* dtypes.c - which dtypes kernels of the CPU take, for people (dtypes.def). */
#include "libexec/kernels/kernels.h"

#define BIT(id)     (UINT64_C(1) << EXG_DTYPE_##id)
#define WIDE        (BIT(F32) | BIT(F64))
#define NARROW      (BIT(F32) | BIT(BF16) | BIT(F16))
#define FLOAT       (WIDE | NARROW)
#define BYTES       (BIT(U8) | BIT(I8))
#define BOOL        BIT(B8)
#define BITS        BIT(I64)
#define PIVOTS      BIT(I32)
#define STORED      (WIDE | BIT(I32) | BIT(I64))
#define CONVOLUTION (FLOAT | BYTES | BIT(I16) | BIT(I32) | BIT(I64))
#define PRODUCT     (CONVOLUTION | BIT(U16) | BIT(U32) | BIT(U64))
#define REAL                                                                                       \
    (FLOAT | BIT(F8E4M3FN) | BIT(F8E5M2) | BIT(F8E4M3FNUZ) | BIT(F8E5M2FNUZ) | BIT(F8E8M0FNU))
#define ARITHMETIC (PRODUCT | REAL | BOOL)
#define COMPLEX    (BIT(C64) | BIT(C128))
#define LAPACK     (WIDE | COMPLEX)
#define ANY        (ARITHMETIC | COMPLEX | BIT(C32))
#define LIBRARY    0

/* Each kernel has one row. */
enum {
#define EXG_DTYPES(name, set) ROW_OF_##name,
#include "libexec/kernels/dtypes.def"
#undef EXG_DTYPES
    ROWS
};
#define EXG_COUNT_KERNEL(name) +((int)ROW_OF_##name >= 0)
_Static_assert(ROWS == 0 EXG_KERNELS(EXG_COUNT_KERNEL), "a row for each kernel");
#undef EXG_COUNT_KERNEL

uint64_t exg_kernel_dtypes(const exg_kernel *kernel)
{
    static const struct {
        const exg_kernel *kernel;
        uint64_t dtypes;
    } rows[] = {
#define EXG_DTYPES(name, set) {&exg_kernel_##name, set},
#include "libexec/kernels/dtypes.def"
#undef EXG_DTYPES
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].kernel == kernel) {
            return rows[i].dtypes;
        }
    }
    return 0;
}
