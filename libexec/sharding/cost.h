/* cost.h - what moves between placements are taken to cost. */
#ifndef EXG_LIBEXEC_SHARDING_COST_H
#define EXG_LIBEXEC_SHARDING_COST_H

#include <exg/partition.h>

#define EXG_COST_TO_PARTIAL_NS 1.0 /* a summand made on the spot: nearly free */
#define EXG_COST_IMPOSSIBLE    1e300

/* How many times as long work takes a rank while so many of the mesh compute: they share cores. */
double exg_costs_sharing(const exg_costs *costs, double busy);

/* All work, not moves, takes so many times as long. */
void exg_costs_scale(exg_costs *costs, double factor);

/* Bytes that a rank receives when a tensor of `bytes` moves between placements. */
double exg_move_bytes(exg_placement from, exg_placement to, double bytes, uint32_t mesh_size);

/* What to count there as the `bytes` of a tensor that comes to lie in parts: where they are not
 * equal, the rank with the largest is waited for. All of it, where it is no more than one rank's.
 */
double exg_bytes_to_lie_so(const exg_tensor_meta *meta, exg_placement to, double bytes,
                           uint32_t mesh_size);

/* Time of that move, ns; EXG_COST_IMPOSSIBLE when there is no way. */
double exg_move_cost(const exg_link *link, exg_placement from, exg_placement to, double bytes,
                     uint32_t mesh_size);

#endif
