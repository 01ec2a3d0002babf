/* rules.h - what splitting does to an operator, for one mesh dimension.
 *
 * A rule gives strategies. A strategy is a way to run the operator on every rank by itself:
 * placements its operands must have and those its results then have. The strategy in
 * which everything is replicated is always there and not listed by rules.
 * Strategies come from the sharding column of the operator tables: letters
 * ("mk,kn->mn"), a named rule, or a family of pointwise.def.
 * Meaning: PyTorch's DTensor, docs/dtensor.md section 5; each strategy is executed
 * on meshes and compared with the unsharded result (tests/exec/sharding).
 */
#ifndef EXG_LIBEXEC_SHARDING_RULES_H
#define EXG_LIBEXEC_SHARDING_RULES_H

#include "libexport/base/arena.h"

#include <exg/operators.h>
#include <exg/placement.h>

struct exg_emission;

/* Adds to the rank's program what stands for the operator there. */
typedef void exg_emit_strategy(const struct exg_emission *emission);

typedef struct exg_strategy {
    exg_placement *results;  /* one a result tensor, and EXG_RESULTS_MAX at least */
    exg_placement *operands; /* one a tensor operand, absent ones included */
    exg_emit_strategy *emit; /* NULL: the operator itself */
    uint32_t reduces;        /* all-reduces that this emits, */
    uint32_t gathers;        /* all-gathers, */
    double reduced_bytes;    /* the size of what each is of, */
    uint32_t halos;          /* moves of halos, */
    double halo_bytes;       /* what comes by all of them that nothing is computed beside, */
    double beside_bytes;     /* what comes while something is, if ranks do so, */
    double touched_bytes;    /* and what is read and written more than the operator would */
} exg_strategy;

/* One call to be given strategies. Sizes are global. */
typedef struct exg_rule_call {
    const exg_operator *op;
    const exg_argument *args;         /* normalized */
    const exg_tensor_meta **operands; /* NULL: absent */
    const exg_tensor_meta **results;
    uint32_t operand_count;
    uint32_t result_count;
    uint32_t mesh_size;
    bool emits; /* the caller takes strategies that are emitted otherwise than the operator */

    exg_arena *arena;
    exg_strategy *strategies; /* out */
    uint32_t strategy_count, strategy_capacity;
    exg_error *err;
} exg_rule_call;

/* Fills call->strategies, the replicated strategy first. NO_MEMORY. */
exg_status exg_rule_strategies(exg_rule_call *call);

/* ---- strategy.c: for rules --------------------------------------------------------------- */

/* A fresh strategy, all replicated; NULL without memory. */
exg_strategy *exg_strategy_add(exg_rule_call *call);

/* A strategy whose results and listed operands are split; -1 leaves one whole. */
exg_status exg_strategy_add_split(exg_rule_call *call, const int32_t *results,
                                  const int32_t *operands);
/* A strategy of result 0 and operand 0. */
exg_status exg_strategy_add_one(exg_rule_call *call, exg_placement result, exg_placement operand);
/* A strategy a dim that splits operand 0 and the results along it, but along `dim`. */
exg_status exg_strategy_add_all_but(exg_rule_call *call, uint32_t dim);

/* The dim counted from the front. */
static inline uint32_t exg_rule_dim(int64_t dim, uint32_t rank)
{
    return (uint32_t)(dim < 0 ? dim + rank : dim);
}

/* ---- parts that ranks share --------------------------------------------------------------- */

/* A shard of fewer parts than ranks: each of them `ranks` neighbours have. Of this room alone: a
 * placement of tensors has none such, and its local program only slices. */
static inline exg_placement exg_shared_shard(int32_t dim, uint32_t ranks)
{
    exg_placement p = exg_shard(dim);

    p.split_factor = (int32_t)ranks;
    return p;
}

/* How many ranks have each part. */
static inline uint32_t exg_sharers(exg_placement p)
{
    return p.kind == EXG_SHARD && p.split_factor > 1 ? (uint32_t)p.split_factor : 1;
}

static inline bool exg_same_place(exg_placement a, exg_placement b)
{
    return exg_placement_equal(a, b) && exg_sharers(a) == exg_sharers(b);
}

/* head_rules.c: heads of queries in parts, the fewer ones of keys and values whole; or in parts,
 * each of which so many ranks have. */
exg_status exg_add_attention_to_few(exg_rule_call *call);
exg_status exg_add_attention_to_shared(exg_rule_call *call, uint32_t ranks);

/* ---- rules.c ----------------------------------------------------------------------------- */

/* Has the operator a rule? Without one only the replicated strategy is there. */
bool exg_rule_exists(const exg_operator *op);

/* Which, in words. */
const char *exg_rule_text(const exg_operator *op);

typedef exg_status exg_operator_rule(exg_rule_call *call);

/* What a strategy's emit works with. */
typedef struct exg_emission {
    exg_builder *builder;
    const exg_rule_call *call; /* sizes are global */
    const exg_strategy *strategy;
    const exg_argument *args; /* operands are the rank's own */
    exg_argument *results;    /* out */
    uint32_t rank, mesh_dim;  /* which of call->mesh_size, along which dim */
} exg_emission;

/* Strategies of emitted_rules.c and halo_rules.c for the rules of their operators: an uneven dim of
 * a mean, the dim of a table that is looked up in, the positions of an attention, the places of
 * a convolution or pool, the padding along a dim, the largest along a dim. */
exg_status exg_add_causal_attention(exg_rule_call *call); /* queries in parts */
exg_status exg_add_uneven_mean(exg_rule_call *call, uint32_t dim);
exg_status exg_add_lookup(exg_rule_call *call, uint32_t dim);
exg_status exg_add_ring_attention(exg_rule_call *call); /* keys and values in parts too */
exg_status exg_add_halo(exg_rule_call *call);
exg_status exg_add_padded(exg_rule_call *call);
exg_status exg_add_edges(exg_rule_call *call);
exg_status exg_add_largest(exg_rule_call *call, uint32_t dim);

/* ---- emission.c: for rules that emit ----------------------------------------------------- */

/* A fresh strategy that is emitted so; NULL without memory. */
exg_strategy *exg_strategy_add_emitted(exg_rule_call *call, exg_emit_strategy *emit);
/* Of a dim of `length`, the rank's own; where it begins. */
int64_t exg_own_chunk(const exg_emission *e, int64_t length, int64_t *offset);
bool exg_all_have(const exg_rule_call *call, int64_t length, int64_t least); /* at least so many */
bool exg_is_real(exg_dtype dtype);
double exg_bytes_without(const exg_tensor_meta *meta, uint32_t dim); /* with one along it */
/* The rank's part of result 0, all zero; where it is to be placed as the strategy says. */
exg_ref exg_emit_zeros(const exg_emission *e);

#endif
