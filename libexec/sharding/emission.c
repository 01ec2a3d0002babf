/* emission.c - what strategies that are emitted share: the rank's own part, and which dims have
 * some. */
#include "libexec/sharding/rules.h"
#include "libexport/operators/shape.h"

#include <exg/emit.h>

exg_strategy *exg_strategy_add_emitted(exg_rule_call *call, exg_emit_strategy *emit)
{
    exg_strategy *strategy = exg_strategy_add(call);

    if (strategy != NULL) {
        strategy->emit = emit;
    }
    return strategy;
}

int64_t exg_own_chunk(const exg_emission *e, int64_t length, int64_t *offset)
{
    int64_t size;

    exg_chunk(length, e->call->mesh_size, e->rank, offset, &size);
    return size;
}

bool exg_all_have(const exg_rule_call *call, int64_t length, int64_t least)
{
    int64_t offset;
    int64_t size;

    exg_chunk(length, call->mesh_size, call->mesh_size - 1, &offset, &size);
    return size >= least;
}

bool exg_is_real(exg_dtype dtype)
{
    return dtype == EXG_DTYPE_F32 || dtype == EXG_DTYPE_F64 || dtype == EXG_DTYPE_F16 ||
           dtype == EXG_DTYPE_BF16;
}

double exg_bytes_without(const exg_tensor_meta *meta, uint32_t dim)
{
    double bytes = exg_dtype_bytes(meta->dtype);

    for (uint32_t d = 0; d < meta->rank; d++) {
        bytes *= d == dim ? 1 : (double)meta->sizes[d].value;
    }
    return bytes;
}

exg_ref exg_emit_zeros(const exg_emission *e)
{
    const exg_tensor_meta *out = e->call->results[0];
    exg_placement place = e->strategy->results[0];
    int64_t sizes[EXG_SHAPE_RANK_MAX];
    int64_t offset;

    for (uint32_t d = 0; d < out->rank; d++) {
        sizes[d] = place.kind == EXG_SHARD && place.dim == (int32_t)d
                       ? exg_own_chunk(e, out->sizes[d].value, &offset)
                       : out->sizes[d].value;
    }
    return EMIT(e->builder, full_default, INTS_OF(e->builder, sizes, out->rank), 0,
                DTYPE(out->dtype));
}
