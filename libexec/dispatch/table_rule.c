/* table_rule.c - the strategies of the sharding rules as OpSchema -> OutputSharding.
 *
 * Strategies speak of one mesh dim. The mesh dims are gone through in order, each seeing the
 * chunks that those before it leave; the few cheapest choices are kept on the way. A strategy
 * counts where it holds on every rank, so all ranks decide alike.
 */
#include "libexec/comm/collectives.h"
#include "libexec/dispatch/propagate.h"
#include "libexec/dtensor/region.h"
#include "libexec/dtensor/spec.h"
#include "libexec/sharding/cost.h"
#include "libexport/base/arena.h"

#include <string.h>

#define CHOICES_MAX 8
#define CHANGE_NS   1e-3 /* among equals, the one that leaves most as it is */

/* The placements of every operand and result, for the mesh dims so far. */
typedef struct choice {
    exg_placement (*operands)[EXG_MESH_DIMS_MAX];
    exg_placement (*results)[EXG_MESH_DIMS_MAX];
    double cost;
    bool moves;
} choice;

typedef struct search {
    const exg_operator *op;
    exg_meta_call *call;
    exg_device_mesh *mesh;
    const exg_tensor_meta *operands[EXG_CALL_OPERANDS_MAX]; /* global; NULL: absent */
    exg_tensor_meta **results;
    uint32_t result_count;
    bool in_place; /* operand 0 stays, and the result is placed as it is */
    choice choices[CHOICES_MAX];
    uint32_t choice_count;
    exg_arena *arena;
    exg_error *err;
    const exg_costs *costs;
} search;

const exg_operator *exg_computed_by(const exg_operators *operators, const exg_operator *op)
{
    return op->functional == EXG_OP_NONE ? op : exg_operators_get(operators, op->functional);
}

/* ---- what a mesh dim sees --------------------------------- */

/* `global` as the ranks at `rank`'s coordinates along the dims before `m` have it. */
static const exg_tensor_meta *chunk_of(const search *s, const exg_tensor_meta *global,
                                       const exg_placement *placements, uint32_t m, uint32_t rank)
{
    exg_tensor_meta *meta;
    exg_sym_int *sizes;

    if (global == NULL || m == 0) {
        return global;
    }
    meta = exg_arena_memdup(s->arena, global, 1, sizeof(*global));
    sizes = exg_arena_memdup(s->arena, global->sizes, global->rank, sizeof(*sizes));
    if (meta == NULL || sizes == NULL) {
        return NULL;
    }
    for (uint32_t k = 0; k < m; k++) {
        if (exg_placement_is_shard(placements[k])) {
            exg_sym_int *size = &sizes[placements[k].dim];

            size->value = exg_shard_size(placements[k], size->value, s->mesh->sizes[k],
                                         exg_mesh_coordinate(s->mesh, rank, k));
        }
    }
    meta->sizes = sizes;
    return meta;
}

static exg_placement as_strided(exg_placement p, exg_placement strided)
{
    return p.kind == EXG_SHARD ? exg_strided_shard(p.dim, strided.split_factor) : p;
}

/* The strided shard that an operand is along `m`, if any. */
static bool find_strided(const search *s, uint32_t m, exg_placement *strided)
{
    for (uint32_t i = 0; i < s->call->operand_count; i++) {
        const exg_object *object = s->call->operands[i].object;

        if (object->kind == EXG_OBJECT_SPEC &&
            object->spec->placements[m].kind == EXG_STRIDED_SHARD) {
            *strided = object->spec->placements[m];
            return true;
        }
    }
    return false;
}

/* Element by element it does not matter which of them a rank holds: every strategy that splits
 * holds for strided shards too. */
static exg_status add_strided(const search *s, uint32_t m, exg_rule_call *strategies)
{
    uint32_t count = strategies->strategy_count;
    exg_placement strided;

    if (s->op->pointwise == EXG_POINTWISE_NOT || !find_strided(s, m, &strided)) {
        return EXG_OK;
    }
    for (uint32_t r = 0; r < count; r++) {
        exg_strategy *made = exg_strategy_add(strategies);
        const exg_strategy *strategy = &strategies->strategies[r];

        if (made == NULL) {
            return EXG_OUT_OF_MEMORY(s->err);
        }
        for (uint32_t i = 0; i < strategies->operand_count; i++) {
            made->operands[i] = as_strided(strategy->operands[i], strided);
        }
        for (uint32_t k = 0; k < strategies->result_count; k++) {
            made->results[k] = as_strided(strategy->results[k], strided);
        }
    }
    return EXG_OK;
}

static exg_status strategies_at(search *s, const choice *from, uint32_t m, uint32_t rank,
                                exg_rule_call *strategies)
{
    uint32_t count = s->call->operand_count;
    const exg_tensor_meta **operands = EXG_NEW_ARRAY(s->arena, const exg_tensor_meta *, count);
    const exg_tensor_meta **results =
        EXG_NEW_ARRAY(s->arena, const exg_tensor_meta *, s->result_count);

    if (operands == NULL || results == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    for (uint32_t i = 0; i < count; i++) {
        operands[i] = chunk_of(s, s->operands[i], from->operands[i], m, rank);
    }
    for (uint32_t r = 0; r < s->result_count; r++) {
        results[r] = chunk_of(s, s->results[r], from->results[r], m, rank);
    }
    *strategies = (exg_rule_call){.op = s->op,
                                  .args = s->call->args,
                                  .operands = operands,
                                  .results = results,
                                  .operand_count = count,
                                  .result_count = s->result_count,
                                  .mesh_size = s->mesh->sizes[m],
                                  .arena = s->arena,
                                  .err = s->err};
    EXG_TRY(exg_rule_strategies(strategies));
    return add_strided(s, m, strategies);
}

static bool same_strategy(const search *s, const exg_strategy *a, const exg_strategy *b)
{
    for (uint32_t i = 0; i < s->call->operand_count; i++) {
        if (!exg_placement_equal(a->operands[i], b->operands[i])) {
            return false;
        }
    }
    for (uint32_t r = 0; r < s->result_count; r++) {
        if (!exg_placement_equal(a->results[r], b->results[r])) {
            return false;
        }
    }
    return true;
}

/* Drops the strategies that `other` has not. */
static void keep_common(const search *s, exg_rule_call *strategies, const exg_rule_call *other)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < strategies->strategy_count; i++) {
        bool found = false;

        for (uint32_t k = 0; k < other->strategy_count; k++) {
            found = found || same_strategy(s, &strategies->strategies[i], &other->strategies[k]);
        }
        if (found) {
            strategies->strategies[kept++] = strategies->strategies[i];
        }
    }
    strategies->strategy_count = kept;
}

/* Strategies that hold on every rank. Ranks that differ along `m` and later see the same. */
static exg_status common_strategies(search *s, const choice *from, uint32_t m,
                                    exg_rule_call *strategies)
{
    uint32_t block = 1;

    for (uint32_t k = m; k < s->mesh->ndim; k++) {
        block *= s->mesh->sizes[k];
    }
    EXG_TRY(strategies_at(s, from, m, 0, strategies));
    for (uint32_t rank = block; rank < s->mesh->size; rank += block) {
        exg_rule_call other;

        EXG_TRY(strategies_at(s, from, m, rank, &other));
        keep_common(s, strategies, &other);
    }
    return EXG_OK;
}

/* ---- what a strategy costs --------------------------------- */

static double bytes_of(const exg_tensor_meta *meta)
{
    double bytes = exg_dtype_bytes(meta->dtype);

    for (uint32_t d = 0; d < meta->rank; d++) {
        bytes *= (double)meta->sizes[d].value;
    }
    return bytes;
}

static double move_cost(const search *s, uint32_t m, const exg_tensor_meta *meta,
                        exg_placement from, exg_placement to)
{
    uint32_t n = s->mesh->sizes[m];
    double bytes = bytes_of(meta);

    if (from.kind == EXG_PARTIAL && !exg_can_reduce(meta->dtype, from.op)) {
        return EXG_COST_IMPOSSIBLE;
    }
    if (exg_placement_is_shard(to) && meta->sizes[to.dim].value < (int64_t)n) {
        return EXG_COST_IMPOSSIBLE; /* too short to be split anew */
    }
    if (to.kind == EXG_PARTIAL && from.kind != EXG_REPLICATE) {
        double whole = exg_move_cost(&s->costs->links[m], from, exg_replicate(), bytes, n);
        double back = exg_move_cost(&s->costs->links[m], exg_replicate(), to, bytes, n);

        return back < EXG_COST_IMPOSSIBLE ? whole + back : back;
    }
    return exg_move_cost(&s->costs->links[m], from, to, bytes, n);
}

/* Moves, and what it will take to make summands whole; impossible ones included. */
static double strategy_cost(const search *s, uint32_t m, const exg_rule_call *strategies,
                            const exg_strategy *strategy, bool *moves)
{
    double cost = 0;

    *moves = false;
    for (uint32_t i = 0; i < strategies->operand_count && cost < EXG_COST_IMPOSSIBLE; i++) {
        const exg_object *object = s->call->operands[i].object;
        exg_placement from = exg_replicate();

        if (s->operands[i] == NULL) {
            continue;
        }
        if (object->kind == EXG_OBJECT_SPEC) {
            from = object->spec->placements[m];
        } else if (strategy->operands[i].kind != EXG_REPLICATE) {
            return EXG_COST_IMPOSSIBLE; /* a number is whole */
        }
        if (!exg_placement_equal(from, strategy->operands[i])) {
            *moves = true;
            cost +=
                CHANGE_NS + move_cost(s, m, strategies->operands[i], from, strategy->operands[i]);
        }
    }
    for (uint32_t r = 0; r < s->result_count; r++) {
        if (strategies->results[r] != NULL && strategy->results[r].kind == EXG_PARTIAL) {
            cost += exg_move_cost(&s->costs->links[m], strategy->results[r], exg_shard(0),
                                  bytes_of(strategies->results[r]), strategies->mesh_size);
        }
    }
    return cost;
}

static bool fits_in_place(const search *s, uint32_t m, const exg_strategy *strategy)
{
    exg_placement self;

    if (!s->in_place) {
        return true;
    }
    self = s->call->operands[0].object->spec->placements[m];
    return exg_placement_equal(strategy->operands[0], self) &&
           exg_placement_equal(strategy->results[0], self);
}

/* ---- the search --------------------------------- */

static bool better(const choice *a, const choice *b)
{
    return a->moves != b->moves ? !a->moves : a->cost < b->cost;
}

static exg_status add_choice(search *s, const choice *from, uint32_t m,
                             const exg_strategy *strategy, double cost, bool moves, choice *list,
                             uint32_t *count)
{
    choice made = {.cost = from->cost + cost, .moves = from->moves || moves};
    uint32_t at = *count;

    while (at > 0 && better(&made, &list[at - 1])) {
        at--;
    }
    if (at == CHOICES_MAX) {
        return EXG_OK;
    }
    made.operands =
        exg_arena_memdup(s->arena, from->operands, s->call->operand_count, sizeof(*made.operands));
    made.results =
        exg_arena_memdup(s->arena, from->results, s->result_count, sizeof(*made.results));
    if (made.operands == NULL || made.results == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    for (uint32_t i = 0; i < s->call->operand_count; i++) {
        made.operands[i][m] = strategy->operands[i];
    }
    for (uint32_t r = 0; r < s->result_count; r++) {
        made.results[r][m] = strategy->results[r];
    }
    *count += *count < CHOICES_MAX;
    memmove(&list[at + 1], &list[at], (*count - at - 1) * sizeof(*list));
    list[at] = made;
    return EXG_OK;
}

static exg_status along(search *s, uint32_t m)
{
    choice list[CHOICES_MAX];
    uint32_t count = 0;

    for (uint32_t c = 0; c < s->choice_count; c++) {
        exg_rule_call strategies;

        EXG_TRY(common_strategies(s, &s->choices[c], m, &strategies));
        for (uint32_t r = 0; r < strategies.strategy_count; r++) {
            bool moves;
            double cost = strategy_cost(s, m, &strategies, &strategies.strategies[r], &moves);

            if (cost < EXG_COST_IMPOSSIBLE && fits_in_place(s, m, &strategies.strategies[r])) {
                EXG_TRY(add_choice(s, &s->choices[c], m, &strategies.strategies[r], cost, moves,
                                   list, &count));
            }
        }
    }
    memcpy(s->choices, list, count * sizeof(*list));
    s->choice_count = count;
    return EXG_OK;
}

/* Kinds of summands that do not go together are none of a choice. */
static bool is_legal(const search *s, const choice *c)
{
    exg_placement unused[EXG_MESH_DIMS_MAX];

    for (uint32_t i = 0; i < s->call->operand_count; i++) {
        if (s->operands[i] != NULL &&
            exg_spec_placements(s->mesh, c->operands[i], s->mesh->ndim, s->operands[i]->rank,
                                unused, NULL) != EXG_OK) {
            return false;
        }
    }
    for (uint32_t r = 0; r < s->result_count; r++) {
        if (s->results[r] != NULL &&
            exg_spec_placements(s->mesh, c->results[r], s->mesh->ndim, s->results[r]->rank, unused,
                                NULL) != EXG_OK) {
            return false;
        }
    }
    return true;
}

static exg_status find_choices(search *s)
{
    uint32_t kept = 0;

    s->choices[0].operands =
        exg_arena_alloc(s->arena, s->call->operand_count, sizeof(*s->choices[0].operands));
    s->choices[0].results =
        exg_arena_alloc(s->arena, s->result_count, sizeof(*s->choices[0].results));
    if (s->choices[0].operands == NULL || s->choices[0].results == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    s->choice_count = 1;
    for (uint32_t m = 0; m < s->mesh->ndim; m++) {
        EXG_TRY(along(s, m));
    }
    for (uint32_t c = 0; c < s->choice_count; c++) {
        if (is_legal(s, &s->choices[c])) {
            s->choices[kept++] = s->choices[c];
        }
    }
    s->choice_count = kept;
    return EXG_OK;
}

/* ---- what comes of it --------------------------------- */

static exg_dtensor_spec *new_spec(const search *s, const exg_tensor_meta *meta,
                                  const exg_placement *placements, bool strided)
{
    exg_dtensor_spec *spec = EXG_NEW(s->arena, exg_dtensor_spec);
    exg_tensor row_major = {.rank = meta->rank};

    if (spec == NULL) {
        return NULL;
    }
    spec->mesh = s->mesh;
    spec->dtype = meta->dtype;
    spec->rank = meta->rank;
    for (uint32_t d = 0; d < meta->rank; d++) {
        row_major.sizes[d] = meta->sizes[d].value;
    }
    exg_tensor_set_contiguous(&row_major);
    memcpy(spec->sizes, row_major.sizes, sizeof(spec->sizes));
    memcpy(spec->strides, row_major.strides, sizeof(spec->strides));
    for (uint32_t d = 0; strided && d < meta->rank; d++) {
        spec->strides[d] = meta->strides[d].value;
    }
    memcpy(spec->placements, placements, s->mesh->ndim * sizeof(*placements));
    return spec;
}

/* The specs of the results, in the form the operator returns them. */
static exg_status fill_result(const search *s, const choice *c, exg_object *result)
{
    const exg_function_schema *f = s->op->schema;
    bool list = f->return_count == 1 && f->returns->type.is_list;
    bool single = f->return_count == 1 && !list;
    exg_object *items = EXG_NEW_ARRAY(s->arena, exg_object, s->result_count);

    if (items == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    for (uint32_t r = 0; r < s->result_count; r++) {
        const exg_dtensor_spec *spec;

        if (s->results[r] == NULL) {
            continue;
        }
        spec = new_spec(s, s->results[r], c->results[r], s->op->view != NULL);
        if (spec == NULL) {
            return EXG_OUT_OF_MEMORY(s->err);
        }
        items[r] = exg_object_spec(spec);
    }
    *result = (exg_object){.kind = list ? EXG_OBJECT_LIST : EXG_OBJECT_TUPLE,
                           .count = s->result_count,
                           .items = items};
    if (single) {
        *result = items[0];
    }
    return EXG_OK;
}

/* A tensor's length along `dim` on this rank. */
static int64_t own_length(const search *s, const exg_tensor_meta *meta,
                          const exg_placement *placements, uint32_t dim)
{
    int64_t whole[EXG_RANK_MAX], offsets[EXG_RANK_MAX], own[EXG_RANK_MAX];

    for (uint32_t d = 0; d < meta->rank; d++) {
        whole[d] = meta->sizes[d].value;
    }
    exg_local_chunk(s->mesh, exg_device_mesh_rank(s->mesh), placements, whole, meta->rank, offsets,
                    own);
    return own[dim];
}

/* Groups of a convolution that this rank has: channels are in parts of whole groups. */
static exg_status fit_groups(const search *s, const choice *c, exg_op_schema *schema,
                             exg_output_sharding *out)
{
    const exg_tensor_meta *weight = s->operands[1];
    bool transposed = exg_get_bool(&s->call->args[6]);
    const exg_tensor_meta *of = transposed ? s->results[0] : s->operands[0];
    int64_t each = own_length(s, weight, c->operands[1], 1);
    int64_t channels = own_length(s, of, transposed ? c->results[0] : c->operands[0],
                                  of->rank == weight->rank ? 1 : 0);
    exg_argument value = exg_arg_int(each == 0 || channels < each ? 1 : channels / each);

    if (value.as_int == exg_get_int(&s->call->args[8])) {
        return EXG_OK;
    }
    out->rewrites_values = true;
    return exg_op_schema_set_value(schema, 8, &value, s->err);
}

/* Sizes among the values become this rank's own: what its result has. */
static exg_status fit_values(const search *s, const choice *c, exg_op_schema *schema,
                             exg_output_sharding *out)
{
    bool sizes = s->op->id == EXG_OP_view_default || s->op->id == EXG_OP_expand_default;
    bool group_norm = s->op->id == EXG_OP_native_group_norm_default;
    bool groups =
        s->op->id == EXG_OP_convolution_default || s->op->id == EXG_OP_convolution_of_bytes;
    const exg_tensor_meta *result = s->result_count > 0 ? s->results[0] : NULL;
    int64_t whole[EXG_RANK_MAX], offsets[EXG_RANK_MAX];
    exg_argument value = {.kind = EXG_ARGUMENT_INTS};

    if (groups && exg_get_int(&s->call->args[8]) > 1) {
        return fit_groups(s, c, schema, out);
    }
    if (result == NULL || (!sizes && !group_norm)) {
        return EXG_OK;
    }
    value.count = result->rank;
    value.as_ints = EXG_NEW_ARRAY(s->arena, int64_t, result->rank);
    if (value.as_ints == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    for (uint32_t d = 0; d < result->rank; d++) {
        whole[d] = result->sizes[d].value;
    }
    exg_local_chunk(s->mesh, exg_device_mesh_rank(s->mesh), c->results[0], whole, result->rank,
                    offsets, value.as_ints);
    if (memcmp(value.as_ints, whole, result->rank * sizeof(*whole)) == 0) {
        return EXG_OK;
    }
    out->rewrites_values = true;
    if (group_norm) {
        value = exg_arg_int(value.as_ints[0]);
    }
    return exg_op_schema_set_value(schema, group_norm ? 3 : 1, &value, s->err);
}

static exg_status copy_object(exg_arena *arena, exg_object *object, exg_error *err)
{
    if (object->kind == EXG_OBJECT_LIST || object->kind == EXG_OBJECT_TUPLE) {
        object->items =
            exg_arena_memdup(arena, object->items, object->count, sizeof(*object->items));
        for (uint32_t i = 0; object->items != NULL && i < object->count; i++) {
            EXG_TRY(copy_object(arena, &object->items[i], err));
        }
        return object->items == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
    }
    return EXG_OK;
}

/* The call with the operands where the choice has them. */
static exg_status suggest(const search *s, const choice *c, const exg_op_schema *schema,
                          exg_op_schema *suggestion)
{
    exg_object *at[EXG_ARGUMENTS_MAX];
    exg_operand_slot operands[EXG_CALL_OPERANDS_MAX];
    uint32_t count;

    *suggestion = *schema;
    suggestion->args =
        exg_arena_memdup(s->arena, schema->args, schema->arg_count, sizeof(*schema->args));
    suggestion->kwargs =
        exg_arena_memdup(s->arena, schema->kwargs, schema->kwarg_count, sizeof(*schema->kwargs));
    if (suggestion->args == NULL || suggestion->kwargs == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    for (uint32_t i = 0; i < schema->arg_count; i++) {
        EXG_TRY(copy_object(s->arena, &suggestion->args[i], s->err));
    }
    for (uint32_t i = 0; i < schema->kwarg_count; i++) {
        EXG_TRY(copy_object(s->arena, &suggestion->kwargs[i].object, s->err));
    }
    EXG_TRY(exg_schema_positions(suggestion, at, s->err));
    EXG_TRY(exg_call_operands(schema->func_schema, at, operands, EXG_CALL_OPERANDS_MAX, &count,
                              s->err));
    for (uint32_t i = 0; i < count; i++) {
        exg_dtensor_spec *spec;

        if (operands[i].object->kind != EXG_OBJECT_SPEC) {
            continue;
        }
        spec = exg_arena_memdup(s->arena, operands[i].object->spec, 1, sizeof(*spec));
        if (spec == NULL) {
            return EXG_OUT_OF_MEMORY(s->err);
        }
        memcpy(spec->placements, c->operands[i], s->mesh->ndim * sizeof(spec->placements[0]));
        *operands[i].object = exg_object_spec(spec);
    }
    return EXG_OK;
}

static exg_status answer(const search *s, exg_op_schema *schema, exg_output_sharding *out)
{
    if (s->choice_count == 0) {
        out->status = EXG_SHARDING_FAILED;
        out->failed_reason = s->in_place ? "inplace_moves_self: the tensor written would have to "
                                           "lie otherwise"
                                         : "no rule applies to these placements";
        return EXG_OK;
    }
    if (!s->choices[0].moves) {
        EXG_TRY(fill_result(s, &s->choices[0], &out->result));
        return fit_values(s, &s->choices[0], schema, out);
    }
    out->status = EXG_SHARDING_NEEDS_REDISTRIBUTE;
    out->suggestions = EXG_NEW_ARRAY(s->arena, exg_op_schema, s->choice_count);
    if (out->suggestions == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    for (uint32_t c = 0; c < s->choice_count; c++) {
        EXG_TRY(suggest(s, &s->choices[c], schema, &out->suggestions[out->suggestion_count++]));
    }
    return EXG_OK;
}

/* A view of a tensor that is not laid out for it is one of a row-major copy. */
static exg_status infer(search *s)
{
    exg_tensor_meta *self = s->call->graph.value_count > 0 ? s->call->graph.values[0].tensor : NULL;
    int64_t stride = 1;

    if (exg_operator_infer(s->op, s->call->args, &s->call->graph, s->arena, &s->results,
                           &s->result_count, s->err) == EXG_OK) {
        return EXG_OK;
    }
    for (uint32_t d = self == NULL ? 0 : self->rank; d-- > 0;) {
        self->strides[d].value = stride;
        stride *= self->sizes[d].value > 0 ? self->sizes[d].value : 1;
    }
    return exg_operator_infer(s->op, s->call->args, &s->call->graph, s->arena, &s->results,
                              &s->result_count, s->err);
}

exg_status exg_table_rule(void *question, exg_op_schema *schema, exg_arena *arena,
                          exg_output_sharding *out, exg_error *err)
{
    const exg_table_question *q = question;
    search *s = EXG_NEW(arena, search);

    if (s == NULL || (s->call = EXG_NEW(arena, exg_meta_call)) == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    s->op = exg_computed_by(q->operators, q->op);
    s->in_place = q->op != s->op;
    s->mesh = q->mesh;
    s->costs = q->costs;
    s->arena = arena;
    s->err = err;
    EXG_TRY(exg_op_schema_meta_args(schema, arena, s->call, err));
    for (uint32_t i = 0; i < s->call->operand_count; i++) {
        s->operands[i] =
            s->call->ids[i] == EXG_NO_VALUE ? NULL : s->call->graph.values[s->call->ids[i]].tensor;
    }
    EXG_TRY(infer(s));
    EXG_TRY(find_choices(s));
    return answer(s, schema, out);
}
