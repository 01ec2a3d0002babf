/* cost.h - what moves and work are taken to cost. One table; a measured one will
 * take its place. */
#ifndef EXG_LIBEXEC_SHARDING_COST_H
#define EXG_LIBEXEC_SHARDING_COST_H

#include <exg/placement.h>
#include <stdint.h>

#define EXG_COST_MESSAGE_NS     6000.0 /* one collective, whatever its size */
#define EXG_COST_NS_PER_BYTE    0.12   /* received by a rank */
#define EXG_COST_NS_PER_FLOP    0.02
#define EXG_COST_NS_PER_TOUCHED 0.1    /* byte read or written by a kernel */
#define EXG_COST_TO_PARTIAL_NS  1.0    /* a summand made on the spot: nearly free */
#define EXG_COST_IMPOSSIBLE     1e300

/* Bytes that a rank receives when a tensor of `bytes` moves between placements. */
double exg_move_bytes(exg_placement from, exg_placement to, double bytes, uint32_t mesh_size);

/* Time of that move, ns; EXG_COST_IMPOSSIBLE when there is no way. */
double exg_move_cost(exg_placement from, exg_placement to, double bytes, uint32_t mesh_size);

#endif
