/* recurrent.cu - the cells of one step of a recurrent layer. X: the dtype, CELL: the function. */
#include "libexec/kernels/cuda/common.h" /* first: a device's own conversions */

#include "libexec/kernels/cell.h"
#include "libexec/kernels/cuda/params.h"

typedef STORAGE(X) real;

KERNEL(step, cuda_cell_params)
{
    FOR_EACH(at, p.rows * p.units) {
        const int64_t row = at / p.units;
        const real *x = (const real *)p.x + row * p.gates;
        const real *s = (const real *)p.s + row * p.gates;
        real *c = p.c == 0 ? 0 : (real *)p.c + row * p.units;
        const real h = CELL(x, s, (const real *)p.bias, p.units, at % p.units,
                            ((const real *)p.h)[at], c);

        ((real *)p.out)[at] = h;
        if (p.last != 0) {
            ((real *)p.last)[at] = h;
        }
    }
}
