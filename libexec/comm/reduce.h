/* reduce.h - sums of ranks' contributions. */
#ifndef EXG_LIBEXEC_COMM_REDUCE_H
#define EXG_LIBEXEC_COMM_REDUCE_H

#include <exg/placement.h>
#include <exg/types.h>

/* out[i] = op over r of parts[r * count + i], in the order of r; f16 and bf16 are
 * added up in f32. `out` may be parts. */
void exg_reduce_parts(exg_dtype dtype, exg_reduce_op op, const void *parts, uint32_t part_count,
                      int64_t count, void *out);

#endif
