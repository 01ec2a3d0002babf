/* beam_debt.c - what a way owes: summands that are added one day, and parts along a dim that the
 * node which reads them does not take. Without it the cheapest ways were those that put off the
 * most.
 */
#include "libexec/sharding/beam.h"

#include <math.h>

exg_form_bits exg_form_of(exg_placement p)
{
    return p.kind == EXG_REPLICATE ? EXG_FORM_WHOLE
           : exg_sharers(p) > 1    ? EXG_FORM_SHARED(p.dim)
           : p.kind == EXG_SHARD   ? EXG_FORM_SPLIT(p.dim)
                                   : EXG_FORM_SUMMANDS(p.op);
}

double exg_beam_moved(const exg_beam *b, double bytes, double messages)
{
    const exg_link *link = &b->p->costs->links[b->p->mesh_dim];

    return messages * link->message_ns + b->moves_count * bytes * link->ns_per_byte;
}

/* ---- what readers take ------------------------------------------------------------------------
 */

/* In which forms a node takes its operand: of a view, so that who reads the view can take it. */
static exg_form_bits taken_by(const exg_beam *b, const exg_beam_stage *at, uint32_t operand)
{
    bool is_view = at->n.call.op->view != NULL && at->n.call.result_count == 1;
    exg_form_bits wanted = is_view ? b->taken[at->n.results[0]] : 0;
    exg_form_bits taken = 0;

    for (uint32_t o = 0; o < at->count; o++) {
        const exg_strategy *s = &at->n.call.strategies[at->options[o].strategy];

        if (wanted == 0 || (wanted & exg_form_of(s->results[0])) != 0) {
            taken |= exg_form_of(s->operands[operand]);
        }
    }
    return taken;
}

/* From parts to what is taken for the fewest bytes. */
static double least_bytes(const exg_beam *b, exg_value_id id)
{
    const exg_tensor_meta *meta = b->graph->values[id].tensor;
    double least = exg_move_bytes(exg_shard(0), exg_replicate(), b->bytes[id], b->p->n);

    for (uint32_t d = 0; d < meta->rank; d++) {
        if ((b->taken[id] & EXG_FORM_SPLIT(d)) != 0) {
            exg_placement to = exg_shard((int32_t)d);
            double bytes =
                exg_move_bytes(exg_shard(to.dim + 1), to,
                               exg_bytes_to_lie_so(meta, to, b->bytes[id], b->p->n), b->p->n);

            least = bytes < least ? bytes : least;
        }
    }
    return least;
}

/* Of values that one node reads. */
void exg_beam_find_takers(exg_beam *b)
{
    for (uint32_t i = b->graph->node_count; i-- > 0;) {
        const exg_beam_stage *at = &b->stages[i];

        for (uint32_t o = 0; o < at->n.call.operand_count; o++) {
            exg_value_id id = at->n.operands[o];

            if (id != EXG_NO_VALUE && b->last[id] == i) {
                exg_form_bits taken = taken_by(b, at, o);

                b->taken[id] = b->taken[id] == 0 ? taken : b->taken[id] & taken;
                b->owed[id] = b->taken[id] == 0 ? 0 : least_bytes(b, id);
                if (at->n.call.op->view != NULL) { /* or behind the view */
                    b->owed[id] = fmin(b->owed[id], b->owed[at->n.results[0]]);
                }
            } else if (id != EXG_NO_VALUE) {
                b->taken[id] = 0;
                b->owed[id] = 0;
            }
        }
    }
}

/* ---- what is owed -----------------------------------------------------------------------------
 */

double exg_beam_debt(const exg_beam *b, exg_value_id id, exg_form_bits at_hand)
{
    bool in_parts = at_hand != 0 && at_hand < EXG_FORM_SHARED(0) && at_hand != EXG_FORM_WHOLE;

    if (in_parts && b->taken[id] != 0 && (b->taken[id] & at_hand) == 0) {
        return b->owed[id] > 0 ? exg_beam_moved(b, b->owed[id], 1) : 0;
    }
    return at_hand == 0 || (at_hand & (EXG_FORM_SUMMANDS(0) - 1)) != 0
               ? 0
               : exg_beam_moved(b,
                                exg_move_bytes(exg_partial(EXG_REDUCE_SUM), exg_shard(0),
                                               b->bytes[id], b->p->n),
                                1);
}
