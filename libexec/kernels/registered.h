/* registered.h - what went wrong in a kernel of a library. */
#ifndef EXG_LIBEXEC_KERNELS_REGISTERED_H
#define EXG_LIBEXEC_KERNELS_REGISTERED_H

#include "libexec/kernels/kernel.h"

/* What the kernel of such a step said, after it raised EXG_FAULT_REGISTERED. */
const exg_error *exg_registered_error(const exg_kernel_call *call);

#endif
