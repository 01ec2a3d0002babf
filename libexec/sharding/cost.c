/* cost.c - the volume of each collective: ring algorithms, as reference dtensor.md
 * section 4.6 counts them. */
#include "libexec/sharding/cost.h"

double exg_move_bytes(exg_placement from, exg_placement to, double bytes, uint32_t mesh_size)
{
    double others = (double)(mesh_size - 1) / (double)mesh_size;

    if (exg_placement_equal(from, to) || from.kind == EXG_REPLICATE || mesh_size == 1) {
        return 0;
    }
    if (from.kind == EXG_SHARD) {
        return to.kind == EXG_SHARD ? bytes * others / (double)mesh_size : bytes * others;
    }
    return to.kind == EXG_SHARD ? bytes * others : 2 * bytes * others;
}

double exg_move_cost(exg_placement from, exg_placement to, double bytes, uint32_t mesh_size)
{
    double moved = exg_move_bytes(from, to, bytes, mesh_size);

    if (exg_placement_equal(from, to)) {
        return 0;
    }
    if (to.kind == EXG_PARTIAL) { /* only from what every rank has whole */
        return from.kind == EXG_REPLICATE && to.op != EXG_REDUCE_PRODUCT ? EXG_COST_TO_PARTIAL_NS
                                                                         : EXG_COST_IMPOSSIBLE;
    }
    return moved == 0 ? 0 : EXG_COST_MESSAGE_NS + moved * EXG_COST_NS_PER_BYTE;
}
