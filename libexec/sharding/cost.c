/* cost.c - the volume of each collective: ring algorithms, as docs/dtensor.md 4.6
 * counts them. */
#include "libexec/sharding/cost.h"
#include "libexec/sharding/rules.h"

#include <string.h>

void exg_costs_init(exg_costs *costs, size_t size)
{
    exg_costs own = {
        .size = size < sizeof(own) ? size : sizeof(own),
#define EXG_COST(member, built_in) .member = (built_in),
#include "libexec/sharding/costs.def"
#undef EXG_COST
    };

    for (uint32_t d = 0; d < EXG_MESH_DIMS_MAX; d++) {
        own.links[d] = (exg_link){.message_ns = 6000, .ns_per_byte = 0.12};
    }
    memcpy(costs, &own, own.size);
}

double exg_costs_sharing(const exg_costs *costs, double busy)
{
    return costs->cores > 0 && busy > costs->cores ? busy / costs->cores : 1;
}

void exg_costs_scale(exg_costs *costs, double factor)
{
    const double cores = costs->cores;

#define EXG_COST(member, built_in) costs->member *= factor;
#include "libexec/sharding/costs.def"
#undef EXG_COST
    costs->cores = cores;
}

double exg_move_bytes(exg_placement from, exg_placement to, double bytes, uint32_t mesh_size)
{
    double others = (double)(mesh_size - 1) / (double)mesh_size;

    if (exg_same_place(from, to) || from.kind == EXG_REPLICATE || mesh_size == 1) {
        return 0;
    }
    if (exg_sharers(from) > 1) { /* a part of the part; each part from all that have it */
        return exg_placement_equal(from, to) ? 0 : bytes * others * exg_sharers(from);
    }
    if (exg_placement_is_shard(from)) {
        return exg_placement_is_shard(to) ? bytes * others / (double)mesh_size : bytes * others;
    }
    return exg_placement_is_shard(to) ? bytes * others : 2 * bytes * others;
}

double exg_bytes_to_lie_so(const exg_tensor_meta *meta, exg_placement to, double bytes,
                           uint32_t mesh_size)
{
    int64_t offset;
    int64_t largest;

    if (to.kind != EXG_SHARD || exg_sharers(to) > 1 || meta->sizes[to.dim].value == 0) {
        return bytes;
    }
    exg_chunk(meta->sizes[to.dim].value, mesh_size, 0, &offset, &largest);
    return bytes * (double)largest * (double)mesh_size / (double)meta->sizes[to.dim].value;
}

double exg_move_cost(const exg_link *link, exg_placement from, exg_placement to, double bytes,
                     uint32_t mesh_size)
{
    double moved = exg_move_bytes(from, to, bytes, mesh_size);

    if (exg_same_place(from, to)) {
        return 0;
    }
    if (exg_sharers(to) > 1 && from.kind != EXG_REPLICATE) {
        return EXG_COST_IMPOSSIBLE; /* by way of the whole */
    }
    if (to.kind == EXG_PARTIAL) { /* only from what every rank has whole */
        return from.kind == EXG_REPLICATE && to.op < EXG_REDUCE_PRODUCT ? EXG_COST_TO_PARTIAL_NS
                                                                        : EXG_COST_IMPOSSIBLE;
    }
    return moved == 0 ? 0 : link->message_ns + moved * link->ns_per_byte;
}
