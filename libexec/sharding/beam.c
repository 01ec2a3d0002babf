/* beam.c - strategies for all nodes together, along one mesh dim: weights are split wherever they
 * can be, and of the ways to do so one is found that moves the fewest bytes.
 *
 * Nodes are gone through in their order. A way that far is a choice of a strategy for each node,
 * what that costs, and the placements in which each value that is still needed is at hand. Of ways
 * with the same placements only the cheapest can win, and of all ways the cheapest are gone
 * on with. Few values live between two nodes, so ways of different layers do not multiply.
 */
#include "libexec/sharding/beam.h"
#include "libexport/operators/lower.h"

#include <math.h>
#include <string.h>

#define WIDTH_MIN 4
#define WORK      2e8 /* of comparing ways: nodes x values at once x pairs of ways */

#define OPERANDS_LOOKED_AT 64 /* of a node with more, any way to go on counts for nothing */

/* Where weights are split, bytes that are moved count so many times as they take: that few are is
 * what is asked for. */
#define MOVES_COUNT 8

/* ns, of a way's cost, beside the time: of ways that take about as long. */
#define NS_PER_WEIGHT 0.25 /* byte that a rank reads of it */
#define NS_PER_VALUE  0.1  /* byte of a result */
#define NS_PER_COPY   1e3  /* byte of another part of a weight that a rank has one of */

typedef exg_beam beam;
typedef exg_beam_stage stage;
typedef exg_beam_way way;
typedef exg_form_bits forms;

static const exg_tensor_meta *meta_of(const beam *b, exg_value_id id)
{
    return b->graph->values[id].tensor;
}

/* ---- which strategies a node may take ------------------------------------------------------ */

static bool is_product(exg_operator_id op)
{
    uint32_t x;
    uint32_t w;

    return exg_product_operands(op, &x, &w) || op == EXG_OP_bmm_default ||
           op == EXG_OP_baddbmm_default || op == EXG_OP_product_of_bytes ||
           op == EXG_OP_convolution_default || op == EXG_OP_convolution_of_bytes ||
           op == EXG_OP_embedding_default;
}

static bool is_constant(const beam *b, exg_value_id id)
{
    return id == EXG_NO_VALUE || b->is_weight[id] || b->is_made[id];
}

/* Does the node read weights alone, and what is made of them? */
static bool reads_weights(const beam *b, const stage *at)
{
    bool alone = at->n.call.operand_count > 0 && at->n.call.op->stream == EXG_NOT_DRAWN;

    for (uint32_t o = 0; o < at->n.call.operand_count; o++) {
        alone = alone && is_constant(b, at->n.operands[o]);
    }
    return alone;
}

/* Is the operand a matrix of weights, or filters, or a table, which meets what is no weight? */
static bool is_matrix(const beam *b, const stage *at, uint32_t i)
{
    return at->n.operands[i] != EXG_NO_VALUE && is_constant(b, at->n.operands[i]) &&
           at->n.metas[i]->rank >= 2 && !reads_weights(b, at);
}

static bool splits_weights(const beam *b, const stage *at, const exg_strategy *s)
{
    bool splits = false;

    for (uint32_t i = 0; i < at->n.call.operand_count; i++) {
        splits = splits || (s->operands[i].kind == EXG_SHARD && is_matrix(b, at, i) &&
                            at->n.metas[i]->sizes[s->operands[i].dim].value > 1);
    }
    return splits;
}

static bool is_view_of_weight(const beam *b, const stage *at)
{
    return at->n.call.operand_count > 0 && at->n.call.op->view != NULL &&
           at->n.operands[0] != EXG_NO_VALUE && b->is_weight[at->n.operands[0]];
}

/* ---- what a node costs --------------------------------------------------------------------- */

/* `meta` as rank 0 has it; sizes are the arena's. What ranks share counts as if it were split: that
 * nothing is moved is what is asked for. */
static exg_tensor_meta *own_part(const beam *b, const exg_tensor_meta *meta, exg_placement place)
{
    exg_tensor_meta *own = EXG_NEW_ARRAY(b->arena, exg_tensor_meta, 1);
    exg_sym_int *sizes = EXG_NEW_ARRAY(b->arena, exg_sym_int, meta->rank);
    int64_t offset;

    if (own == NULL || sizes == NULL) {
        return NULL;
    }
    *own = *meta;
    memcpy(sizes, meta->sizes, meta->rank * sizeof(*sizes));
    own->sizes = sizes;
    if (place.kind == EXG_SHARD) {
        exg_chunk(meta->sizes[place.dim].value, b->p->n, 0, &offset, &sizes[place.dim].value);
    }
    return own;
}

/* The moves inside a strategy that is emitted otherwise than the operator. */
static double inner_cost(const beam *b, const exg_strategy *s)
{
    double reduced =
        exg_move_bytes(exg_partial(EXG_REDUCE_SUM), exg_replicate(), s->reduced_bytes, b->p->n);
    double gathered = exg_move_bytes(exg_shard(0), exg_replicate(), s->reduced_bytes, b->p->n);

    return exg_beam_moved(
               b, s->reduces * reduced + s->gathers * gathered + s->halo_bytes + s->beside_bytes,
               s->reduces + s->gathers + s->halos) +
           s->touched_bytes * b->p->costs->ns_per_touched;
}

static exg_status cost_of(const beam *b, const stage *at, const exg_strategy *s, double *cost)
{
    const exg_rule_call *call = &at->n.call;
    const exg_tensor_meta **metas =
        EXG_NEW_ARRAY(b->arena, const exg_tensor_meta *, call->operand_count);
    const exg_tensor_meta *result = NULL;
    bool is_free = metas == NULL;

    for (uint32_t i = 0; !is_free && i < call->operand_count; i++) {
        metas[i] =
            call->operands[i] == NULL ? NULL : own_part(b, call->operands[i], s->operands[i]);
        is_free = call->operands[i] != NULL && metas[i] == NULL;
    }
    if (!is_free && call->result_count > 0) {
        result = own_part(b, call->results[0], s->results[0]);
        is_free = result == NULL;
    }
    if (is_free) {
        return EXG_OUT_OF_MEMORY(b->p->r.err);
    }
    *cost = inner_cost(b, s);
    if (result != NULL && call->op->view == NULL) {
        *cost += NS_PER_VALUE * exg_meta_bytes(result);
    }
    if (exg_is_exchange(call->op->id) && result != NULL) { /* along another mesh dim, every run */
        *cost += exg_beam_moved(b, exg_meta_bytes(metas[0]) + exg_meta_bytes(result), 1);
    } else if (reads_weights(b, at)) {
        *cost = 0; /* before the first run */
    } else {
        *cost += exg_predict_work(b->p->costs, call->op, metas, call->operand_count, result);
    }
    for (uint32_t i = 0; i < call->operand_count; i++) {
        if (metas[i] != NULL && b->is_weight[at->n.operands[i]]) {
            *cost += b->splits ? NS_PER_WEIGHT * exg_meta_bytes(metas[i]) : 0;
        }
        if (metas[i] != NULL && b->is_gathered[at->n.operands[i]]) {
            *cost += exg_beam_moved(b, exg_meta_bytes(metas[i]), 1);
        }
    }
    return EXG_OK;
}

/* The one head that there is of keys or values every rank has: the weight is whole. */
static bool may_be_whole(const beam *b, uint32_t index, const exg_strategy *s)
{
    return b->p->parts != NULL && b->p->parts[index] == 1 && s->results[0].kind == EXG_REPLICATE;
}

static exg_status take_options(beam *b, uint32_t index)
{
    stage *at = &b->stages[index];
    const exg_rule_call *call = &at->n.call;
    bool of_weights = is_view_of_weight(b, at);
    bool asked = b->splits && is_product(call->op->id); /* that weights are split */
    bool splits = false;

    at->options = EXG_NEW_ARRAY(b->arena, exg_beam_option, call->strategy_count);
    if (at->options == NULL) {
        return EXG_OUT_OF_MEMORY(b->p->r.err);
    }
    for (uint32_t s = 0; asked && s < call->strategy_count; s++) {
        splits = splits || splits_weights(b, at, &call->strategies[s]);
    }
    for (uint32_t s = 0; s < (of_weights ? 1 : call->strategy_count) && at->count < UINT8_MAX;
         s++) {
        bool does = splits_weights(b, at, &call->strategies[s]) ||
                    (splits && may_be_whole(b, index, &call->strategies[s]));

        if (splits ? does : b->splits || !does) {
            at->options[at->count].strategy = s;
            EXG_TRY(cost_of(b, at, &call->strategies[s], &at->options[at->count].cost));
            if (may_be_whole(b, index, &call->strategies[s])) {
                at->options[at->count].cost /= b->p->n; /* as if it were split */
            }
            at->count++;
        }
    }
    return EXG_OK;
}

/* Some of a weight, by itself, is a weight of its own: the first value that is the same part of it.
 */
static exg_value_id part_of_weight(beam *b, const stage *at, exg_value_id out)
{
    exg_value_id in = at->n.operands[0];
    const exg_tensor_meta *meta = meta_of(b, in);
    uint32_t dim = exg_rule_dim(exg_get_int(&at->n.args[1]), meta->rank);
    int64_t first = at->n.args[2].kind == EXG_ARGUMENT_NONE ? 0 : exg_get_int(&at->n.args[2]);
    exg_beam_weight_part *p;

    b->dims[out][dim] = b->dims[in][dim];
    first += first < 0 ? meta->sizes[dim].value : 0;
    for (p = b->parts[b->base[in]]; p != NULL; p = p->next) {
        if (p->dim == b->dims[in][dim] && p->first == first &&
            p->length == meta_of(b, out)->sizes[dim].value) {
            return p->id;
        }
    }
    p = EXG_NEW(b->arena, exg_beam_weight_part);
    if (p != NULL) { /* otherwise it is all of it: no less is true */
        *p = (exg_beam_weight_part){b->parts[b->base[in]], out, b->dims[in][dim], first,
                                    meta_of(b, out)->sizes[dim].value};
        b->parts[b->base[in]] = p;
    }
    return p != NULL ? out : b->base[in];
}

/* A view of a weight: which of its dims are which of the weight's. */
static void note_view(beam *b, const stage *at)
{
    const exg_rule_call *call = &at->n.call;
    exg_value_id in = at->n.operands[0];
    exg_value_id out = at->n.results[0];

    b->is_weight[out] = true;
    memset(b->dims[out], -1, sizeof(b->dims[out]));
    for (uint32_t s = 0; s < call->strategy_count; s++) {
        const exg_strategy *strategy = &call->strategies[s];

        if (strategy->operands[0].kind == EXG_SHARD && strategy->results[0].kind == EXG_SHARD) {
            b->dims[out][strategy->results[0].dim] = b->dims[in][strategy->operands[0].dim];
        }
    }
    b->base[out] = call->op->id == EXG_OP_slice_Tensor ? part_of_weight(b, at, out) : b->base[in];
    b->is_gathered[out] = b->is_gathered[in];
}

/* A weight of which ranks hold pieces is that weight to all that read it. */
static void note_gathered(beam *b, const exg_gathered *g, exg_value_id out)
{
    b->is_weight[out] = b->is_weight[g->of];
    b->is_made[out] = b->is_gathered[out] = true;
    b->base[out] = b->base[g->of];
    memcpy(b->dims[out], b->dims[g->of], sizeof(b->dims[out]));
}

static exg_status take_node(beam *b, uint32_t index)
{
    stage *at = &b->stages[index];
    const exg_rule_call *call = &at->n.call;

    EXG_TRY(exg_node_call_of(b->p, index, &at->n));
    EXG_TRY(take_options(b, index));
    for (uint32_t r = 0; r < call->result_count; r++) {
        b->is_made[at->n.results[r]] = reads_weights(b, at);
    }
    if (b->p->gathered[index] != NULL) {
        note_gathered(b, b->p->gathered[index], exg_result_of(&b->graph->nodes[index]));
    } else if (is_view_of_weight(b, at)) {
        note_view(b, at);
    }
    for (uint32_t i = 0; i < call->operand_count; i++) {
        if (at->n.operands[i] != EXG_NO_VALUE) {
            b->last[at->n.operands[i]] = index;
            if (is_product(call->op->id) && b->is_weight[at->n.operands[i]] &&
                is_matrix(b, at, i)) {
                b->products[b->base[at->n.operands[i]]]++;
            }
        }
    }
    return EXG_OK;
}

/* ---- slots --------------------------------------------------------------------------------- */

/* Weights are whole wherever they are asked for: they take no slot, but for those that several
 * products read, of which a slot says in which parts they are held. */
static bool has_slot(const beam *b, exg_value_id id)
{
    return !b->is_weight[id] || (b->base[id] == id && b->products[id] > 1);
}

static void open_slot(beam *b, exg_value_id id)
{
    b->slot[id] = b->free_count > 0 ? b->free_slots[--b->free_count] : b->slots++;
}

/* In order of the nodes, so that as many slots are made as there are values at once. A weight has
 * its own from the beginning: it is held before the first node. */
static void count_slots(beam *b)
{
    for (uint32_t v = 0; v < b->graph->value_count; v++) {
        if (b->is_weight[v] && has_slot(b, v)) {
            open_slot(b, v);
        }
    }
    for (uint32_t i = 0; i < b->graph->node_count; i++) {
        const stage *at = &b->stages[i];

        for (uint32_t o = 0; o < at->n.call.operand_count; o++) {
            exg_value_id id = at->n.operands[o];

            if (id != EXG_NO_VALUE && !b->is_weight[id] && b->slot[id] == EXG_NO_SLOT) {
                open_slot(b, id); /* what comes in, when it is read first */
            }
        }
        for (uint32_t r = 0; r < at->n.call.result_count; r++) {
            if (!b->is_weight[at->n.results[r]] && b->last[at->n.results[r]] != EXG_NO_SLOT) {
                open_slot(b, at->n.results[r]);
            }
        }
        for (uint32_t o = 0; o < at->n.call.operand_count; o++) {
            exg_value_id id = at->n.operands[o];

            if (id != EXG_NO_VALUE && !b->is_weight[id] && b->last[id] == i &&
                b->slot[id] != EXG_NO_SLOT && !b->is_closed[id]) {
                b->is_closed[id] = true;
                b->free_slots[b->free_count++] = b->slot[id];
            }
        }
    }
}

/* ---- ways ---------------------------------------------------------------------------------- */

/* In which a value is at hand in parts: those that ranks share are parted among them, where they
 * get equal ones. */
static forms parts_at_hand(const beam *b, forms at_hand, exg_value_id id)
{
    forms parts = at_hand & (EXG_FORM_SHARED(0) - 1);

    for (uint32_t d = 0; (at_hand & EXG_FORM_SHARED_ALL) != 0 && d < meta_of(b, id)->rank; d++) {
        if ((at_hand & EXG_FORM_SHARED(d)) != 0 && meta_of(b, id)->sizes[d].value % b->p->n == 0) {
            parts |= EXG_FORM_SPLIT(d);
        }
    }
    return parts;
}

/* What it costs to have a value in the wanted form, and in which it then is. */
static double to_have(const beam *b, forms *at_hand, exg_placement want, exg_value_id id)
{
    double least = EXG_COST_IMPOSSIBLE;
    double bytes;
    forms parts;

    if ((*at_hand & (EXG_FORM_WHOLE | exg_form_of(want))) != 0) {
        return 0; /* the whole is cut, or made summands, on the spot */
    }
    if (want.kind == EXG_PARTIAL || exg_sharers(want) > 1) {
        return to_have(b, at_hand, exg_replicate(), id);
    }
    bytes = exg_bytes_to_lie_so(meta_of(b, id), want, b->bytes[id], b->p->n);
    parts = parts_at_hand(b, *at_hand, id);
    if ((parts & exg_form_of(want)) != 0) {
        least = 0;
    } else if (parts != 0) { /* a part is a part, whatever the dim */
        int32_t other = want.kind == EXG_SHARD ? want.dim + 1 : 0;

        least = exg_beam_moved(b, exg_move_bytes(exg_shard(other), want, bytes, b->p->n), 1);
    }
    if (*at_hand >= EXG_FORM_SUMMANDS(0)) {
        double cost =
            exg_beam_moved(b, exg_move_bytes(exg_partial(EXG_REDUCE_SUM), want, bytes, b->p->n), 1);

        least = cost < least ? cost : least;
    }
    if (least >= EXG_COST_IMPOSSIBLE &&
        (*at_hand & EXG_FORM_SHARED_ALL) != 0) { /* from all that have them */
        least = exg_beam_moved(b, b->bytes[id] * b->p->n, 1);
    }
    *at_hand = want.kind == EXG_REPLICATE ? EXG_FORM_WHOLE : *at_hand | exg_form_of(want);
    return least;
}

/* Of a weight that several products read a rank holds one part. */
static double to_hold(const beam *b, forms *held, exg_value_id id, exg_placement want)
{
    exg_value_id base = b->base[id];
    int8_t dim = want.kind == EXG_SHARD ? b->dims[id][want.dim] : -1;
    forms part = dim < 0 ? EXG_FORM_WHOLE : EXG_FORM_SPLIT(dim);
    bool other = *held != 0 && (*held & part) == 0;

    *held |= part;
    return other ? NS_PER_COPY * exg_meta_bytes(meta_of(b, base)) : 0;
}

static forms *hand_of(const beam *b, const way *w, exg_value_id id)
{
    exg_value_id of = b->is_weight[id] ? b->base[id] : id;

    return b->slot[of] == EXG_NO_SLOT ? NULL : &w->at_hand[b->slot[of]];
}

/* As an input is before anybody reads it. */
static forms brought(const beam *b, exg_value_id id)
{
    const exg_forms *f = &b->p->forms[b->base[id]];

    return f->count > 0 ? exg_form_of(f->items[0].placement) : EXG_FORM_WHOLE;
}

/* Goes on from `w` in place: what its operands then cost. */
static double go_on(const beam *b, const stage *at, const exg_strategy *s, way *w)
{
    double cost = 0;

    for (uint32_t i = 0; i < at->n.call.operand_count; i++) {
        exg_value_id id = at->n.operands[i];
        forms *hand = id == EXG_NO_VALUE ? NULL : hand_of(b, w, id);

        if (hand == NULL) {
            continue;
        }
        if (b->is_weight[id]) {
            cost += b->slot[b->base[id]] != EXG_NO_SLOT && is_matrix(b, at, i)
                        ? to_hold(b, hand, id, s->operands[i])
                        : 0;
            continue;
        }
        *hand = *hand == 0 ? brought(b, id) : *hand; /* an input, read first */
        cost += to_have(b, hand, s->operands[i], id);
    }
    return cost;
}

static void take_results(const beam *b, uint32_t index, const exg_strategy *s, way *w)
{
    const stage *at = &b->stages[index];

    for (uint32_t i = 0; i < at->n.call.operand_count; i++) {
        exg_value_id id = at->n.operands[i];

        if (id != EXG_NO_VALUE && !b->is_weight[id] && b->last[id] == index) {
            *hand_of(b, w, id) = 0;
        }
    }
    for (uint32_t r = 0; r < at->n.call.result_count; r++) {
        forms *hand = b->is_weight[at->n.results[r]] || b->last[at->n.results[r]] == EXG_NO_SLOT
                          ? NULL
                          : hand_of(b, w, at->n.results[r]);

        if (hand != NULL) {
            *hand = exg_form_of(s->results[r]);
        }
    }
}

/* What it would cost to go on from `w` so, which is left as it was, and what is put off then. */
static double cost_on(const beam *b, uint32_t index, const exg_strategy *s, way *w, double *debt)
{
    const stage *at = &b->stages[index];
    forms before[OPERANDS_LOOKED_AT];
    uint32_t count = at->n.call.operand_count;
    double cost;

    *debt = w->debt;
    if (count > OPERANDS_LOOKED_AT) {
        return 0; /* a list: for nothing, rather than not at all */
    }
    for (uint32_t i = 0; i < count; i++) {
        forms *hand = at->n.operands[i] == EXG_NO_VALUE ? NULL : hand_of(b, w, at->n.operands[i]);

        before[i] = hand == NULL ? 0 : *hand;
    }
    cost = go_on(b, at, s, w);
    for (uint32_t i = count; i-- > 0;) { /* the first of the same last */
        exg_value_id id = at->n.operands[i];
        forms *hand = id == EXG_NO_VALUE ? NULL : hand_of(b, w, id);

        if (hand != NULL) {
            double left = b->last[id] == index ? 0 : exg_beam_debt(b, id, *hand);

            *debt += b->is_weight[id] ? 0 : left - exg_beam_debt(b, id, before[i]);
            *hand = before[i];
        }
    }
    for (uint32_t r = 0; r < at->n.call.result_count; r++) {
        exg_value_id id = at->n.results[r];

        *debt += b->is_weight[id] || b->last[id] == EXG_NO_SLOT
                     ? 0
                     : exg_beam_debt(b, id, exg_form_of(s->results[r]));
    }
    return cost;
}

#define SLOTS_AT_ONCE 8

/* Has a cheaper way all that this one has at hand? */
static bool is_beaten(const beam *b, uint32_t count, const way *w)
{
    for (uint32_t i = 0; i < count; i++) {
        const forms *covered = b->covered[i];
        const forms *needed = w->at_hand;
        const forms *end = needed + b->slots;
        forms missing = 0;

        while (missing == 0 && needed < end) {
            for (size_t k = 0; k < SLOTS_AT_ONCE; k++) {
                missing |= needed[k] & ~covered[k];
            }
            needed += SLOTS_AT_ONCE;
            covered += SLOTS_AT_ONCE;
        }
        if (missing == 0) {
            return true;
        }
    }
    return false;
}

/* What a way with such values needs no more than: all is made of the whole. */
static void cover(const beam *b, forms *covered, const way *w)
{
    for (uint32_t s = 0; s < b->slots; s++) {
        covered[s] = w->at_hand[s] == EXG_FORM_WHOLE ? ~(forms)0 : w->at_hand[s];
    }
}

static void do_step(beam *b, uint32_t index)
{
    const stage *at = &b->stages[index];
    const way *from = b->ways[index % 2];
    way *to = b->ways[(index + 1) % 2];
    size_t bytes = b->slots * sizeof(forms);
    uint32_t found = 0;
    uint32_t kept = 0;

    for (uint32_t w = 0; w < b->count; w++) {
        memcpy(to[0].at_hand, from[w].at_hand, bytes);
        for (uint32_t o = 0; o < at->count; o++) {
            const exg_strategy *s = &at->n.call.strategies[at->options[o].strategy];
            exg_candidate c = {from[w].cost + at->options[o].cost, 0, w, o};

            to[0].debt = from[w].debt;
            c.cost += cost_on(b, index, s, &to[0], &c.debt);
            found = exg_candidate_keep(b->candidates, found, EXG_BEAM_CANDIDATES * b->width, c);
        }
    }
    exg_candidate_sort(b->candidates, found);
    for (uint32_t c = 0; c < found && kept < b->width; c++) {
        const exg_candidate *next = &b->candidates[c];
        const exg_strategy *s = &at->n.call.strategies[at->options[next->option].strategy];

        if (kept > 0 && next->cost >= EXG_COST_IMPOSSIBLE) {
            break;
        }
        to[kept].cost = next->cost;
        to[kept].debt = next->debt;
        memcpy(to[kept].at_hand, from[next->parent].at_hand, bytes);
        (void)go_on(b, at, s, &to[kept]);
        take_results(b, index, s, &to[kept]);
        if (!is_beaten(b, kept, &to[kept])) {
            cover(b, b->covered[kept], &to[kept]);
            b->steps[index].parent[kept] = (uint16_t)next->parent;
            b->steps[index].option[kept] = (uint16_t)next->option;
            kept++;
        }
    }
    b->count = kept;
}

/* The cheapest way, its outputs whole; back along it to the first node. Gives what it costs. */
static double choose_way(beam *b, uint32_t *chosen)
{
    const exg_graph *graph = b->graph;
    way *ways = b->ways[graph->node_count % 2];
    uint32_t best = 0;
    double cost;

    for (uint32_t w = 0; w < b->count; w++) {
        for (uint32_t o = 0; o < graph->output_count; o++) {
            exg_value_id id = graph->outputs[o].kind == EXG_ARGUMENT_TENSOR
                                  ? graph->outputs[o].as_tensor
                                  : EXG_NO_VALUE;

            if (id != EXG_NO_VALUE && !b->is_weight[id] && b->slot[id] != EXG_NO_SLOT &&
                ways[w].at_hand[b->slot[id]] != 0) {
                ways[w].cost += to_have(b, &ways[w].at_hand[b->slot[id]], exg_replicate(), id);
            }
        }
        best = ways[w].cost < ways[best].cost ? w : best;
    }
    cost = ways[best].cost;
    for (uint32_t i = graph->node_count; i-- > 0;) {
        const exg_beam_step *taken = &b->steps[i];

        chosen[i] = b->stages[i].options[taken->option[best]].strategy;
        best = taken->parent[best];
    }
    return cost;
}

/* Goes through all nodes from where nothing is decided and all is whole, but that a rank holds
 * `tied` along `dim`. */
static double go_through(beam *b, exg_value_id tied, uint32_t dim, uint32_t *chosen)
{
    memset(b->ways[0][0].at_hand, 0, b->slots * sizeof(forms));
    b->ways[0][0].cost = b->ways[0][0].debt = 0;
    b->count = 1;
    if (tied != EXG_NO_VALUE) {
        b->ways[0][0].at_hand[b->slot[tied]] = EXG_FORM_SPLIT(dim);
    }
    for (uint32_t i = 0; i < b->graph->node_count; i++) {
        do_step(b, i);
    }
    return choose_way(b, chosen);
}

/* The largest weight that several products read, a table that is the head too: where it is split
 * tells only at the second of them, far from the first. */
static exg_value_id tied_weight(const beam *b)
{
    exg_value_id tied = EXG_NO_VALUE;

    for (uint32_t v = 0; v < b->graph->value_count; v++) {
        if (b->is_weight[v] && b->products[v] > 1 && b->slot[v] != EXG_NO_SLOT &&
            (tied == EXG_NO_VALUE ||
             exg_meta_bytes(meta_of(b, v)) > exg_meta_bytes(meta_of(b, tied)))) {
            tied = v;
        }
    }
    return tied;
}

/* ---- the beam ------------------------------------------------------------------------------ */

static bool make_room(beam *b)
{
    uint32_t values = b->graph->value_count;
    uint32_t nodes = b->graph->node_count;

    b->stages = EXG_NEW_ARRAY(b->arena, stage, nodes);
    b->steps = EXG_NEW_ARRAY(b->arena, exg_beam_step, nodes);
    b->is_weight = EXG_NEW_ARRAY(b->arena, bool, values);
    b->is_made = EXG_NEW_ARRAY(b->arena, bool, values);
    b->is_gathered = EXG_NEW_ARRAY(b->arena, bool, values);
    b->base = EXG_NEW_ARRAY(b->arena, exg_value_id, values);
    b->dims = exg_arena_alloc(b->arena, values * sizeof(*b->dims) + 1, 1);
    b->parts = EXG_NEW_ARRAY(b->arena, exg_beam_weight_part *, values);
    b->products = EXG_NEW_ARRAY(b->arena, uint32_t, values);
    b->last = EXG_NEW_ARRAY(b->arena, uint32_t, values);
    b->slot = EXG_NEW_ARRAY(b->arena, uint32_t, values);
    b->is_closed = EXG_NEW_ARRAY(b->arena, bool, values);
    b->free_slots = EXG_NEW_ARRAY(b->arena, uint32_t, values);
    b->p->chosen = EXG_NEW_ARRAY(b->arena, uint32_t, nodes);
    b->trial = EXG_NEW_ARRAY(b->arena, uint32_t, nodes);
    b->bytes = EXG_NEW_ARRAY(b->arena, double, values);
    b->taken = EXG_NEW_ARRAY(b->arena, forms, values);
    b->owed = EXG_NEW_ARRAY(b->arena, double, values);
    return b->stages != NULL && b->steps != NULL && b->is_weight != NULL && b->is_made != NULL &&
           b->is_gathered != NULL && b->base != NULL && b->dims != NULL && b->parts != NULL &&
           b->products != NULL && b->last != NULL && b->slot != NULL && b->is_closed != NULL &&
           b->free_slots != NULL && b->p->chosen != NULL && b->trial != NULL && b->bytes != NULL &&
           b->taken != NULL && b->owed != NULL;
}

static void take_values(beam *b)
{
    for (uint32_t v = 0; v < b->graph->value_count; v++) {
        b->is_weight[v] =
            b->p->forms[v].is_weight && b->p->forms[v].items[0].placement.kind == EXG_REPLICATE;
        b->is_made[v] = b->p->forms[v].is_weight;
        b->base[v] = v;
        b->bytes[v] = meta_of(b, v) == NULL ? 0 : exg_meta_bytes(meta_of(b, v));
        b->last[v] = b->slot[v] = EXG_NO_SLOT;
        for (int8_t d = 0; d < EXG_SHAPE_RANK_MAX; d++) {
            b->dims[v][d] = d;
        }
    }
}

/* As many ways as can be compared in the time that there is: fewer where programs are large, or
 * many values live at once. */
static void choose_width(beam *b)
{
    double pairs = WORK / ((double)(b->graph->node_count + 1) * (double)(b->slots + 1));
    double width = sqrt(pairs);

    b->width = width > EXG_BEAM_WIDTH_MAX ? EXG_BEAM_WIDTH_MAX
               : width < WIDTH_MIN        ? WIDTH_MIN
                                          : (uint32_t)width;
}

/* Room for the ways. */
static bool open_ways(beam *b)
{
    const uint32_t slots = (b->slots / SLOTS_AT_ONCE + 1) * SLOTS_AT_ONCE;

    for (uint32_t w = 0; w < b->width; w++) {
        b->covered[w] = EXG_NEW_ARRAY(b->arena, forms, slots);
        b->ways[0][w].at_hand = EXG_NEW_ARRAY(b->arena, forms, slots);
        b->ways[1][w].at_hand = EXG_NEW_ARRAY(b->arena, forms, slots);
        if (b->covered[w] == NULL || b->ways[0][w].at_hand == NULL ||
            b->ways[1][w].at_hand == NULL) {
            return false;
        }
    }
    return true;
}

exg_status exg_choose_together(exg_partitioner *p)
{
    beam b = {.p = p, .graph = p->r.in->graph, .arena = p->scratch};
    exg_value_id tied;
    double least;

    b.splits = p->mode != EXG_PARTITION_CONTEXT;
    b.moves_count = b.splits ? MOVES_COUNT : 1;
    if (!make_room(&b)) {
        return EXG_OUT_OF_MEMORY(p->r.err);
    }
    take_values(&b);
    for (uint32_t i = 0; i < b.graph->node_count; i++) {
        EXG_TRY_IN(p->r.err, take_node(&b, i), "graph.nodes[%u]", i);
    }
    for (uint32_t o = 0; o < b.graph->output_count; o++) {
        if (b.graph->outputs[o].kind == EXG_ARGUMENT_TENSOR) {
            b.last[b.graph->outputs[o].as_tensor] = b.graph->node_count;
        }
    }
    exg_beam_find_takers(&b);
    count_slots(&b);
    choose_width(&b);
    if (!open_ways(&b)) {
        return EXG_OUT_OF_MEMORY(p->r.err);
    }
    tied = tied_weight(&b);
    least = go_through(&b, tied, 0, p->chosen);
    for (uint32_t d = 1; tied != EXG_NO_VALUE && d < meta_of(&b, tied)->rank; d++) {
        double cost = go_through(&b, tied, d, b.trial);

        if (cost < least) {
            least = cost;
            memcpy(p->chosen, b.trial, b.graph->node_count * sizeof(*b.trial));
        }
    }
    return EXG_OK;
}
