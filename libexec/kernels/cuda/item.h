/* item.h - something to be brought in order by its key. WIDE: a key of 64 bits. */
#ifndef EXG_LIBEXEC_KERNELS_CUDA_ITEM_H
#define EXG_LIBEXEC_KERNELS_CUDA_ITEM_H

#include "libexec/kernels/cuda/common.h"
#include "libexec/kernels/cuda/params.h"

#ifdef WIDE
typedef cuda_wide_item order_item;
typedef uint64_t order_key;
#else
typedef cuda_item order_item;
typedef uint32_t order_key;
#endif

#define NOWHERE ((order_key)-1) /* after all others */

#endif
