/* reduce.h - sums of ranks' contributions. */
#ifndef EXG_LIBEXEC_COMM_REDUCE_H
#define EXG_LIBEXEC_COMM_REDUCE_H

#include "libexec/comm/communicator.h"

#include <exg/placement.h>
#include <exg/types.h>

/* May `op` reduce this dtype? (avg of integers, bits of floats, complex numbers: no) */
bool exg_can_reduce(exg_dtype dtype, exg_reduce_op op);

/* out[i] = op over r of element i of parts[r], in the order of r; f16 and bf16 are added up
 * in f32. `out` may be one of the parts. All are equally long; runs, where they have some, too. */
void exg_reduce_segments(exg_dtype dtype, exg_reduce_op op, const exg_segment *parts,
                         uint32_t part_count, void *out);

/* The same of parts that lie one after another. */
void exg_reduce_parts(exg_dtype dtype, exg_reduce_op op, const void *parts, uint32_t part_count,
                      int64_t count, void *out);

#endif
