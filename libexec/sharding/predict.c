/* predict.c - what a placed program is taken to cost its rank: the time of its nodes one after
 * another, moves between ranks, and how much of these goes on beside computation where plans
 * part them (comm/schedule.h): one wire a rank, on which they go in their order.
 */
#include "libexec/comm/schedule.h"
#include "libexec/sharding/partitioner.h"
#include "libexport/operators/lower.h"

#include <exg/operator_id_new.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct prediction {
    const exg_program *local;
    const exg_operators *operators;
    const exg_partition_goal *goal;
    const exg_mesh_shape *mesh;
    exg_partition_summary *summary;
    exg_arena *arena;
    double *ns;           /* by node; of a collective what others wait for when it ends */
    double *beside;       /* by node: of a collective, what may go on beside others */
    uint32_t *made, *due; /* by value: after which node it is there, before which it is needed */
    exg_value_id *base;   /* by value: whose memory it is a view of; itself */
    bool *constant;       /* by value: the same in every run, made before the first */
    exg_crossing *crossings;
    uint32_t count;
} prediction;

/* ---- work ---------------------------------------------------------------------------- */

static double numel(const exg_tensor_meta *meta)
{
    return exg_meta_bytes(meta) / exg_dtype_bytes(meta->dtype);
}

bool exg_product_operands(exg_operator_id op, uint32_t *activation, uint32_t *weight)
{
    *activation = op == EXG_OP_addmm_default ? 1 : 0;
    *weight = *activation + 1;
    return op == EXG_OP_mm_default || op == EXG_OP_addmm_default || op == EXG_OP_linear_default;
}

/* What multiplies two of its operands, and the member of exg_costs that says what that takes. */
typedef struct factors {
    exg_operator_id op;
    uint32_t a, b;
    size_t rate;
} factors;

static const factors multipliers[] = {
#define RATE(member) offsetof(exg_costs, member)
    {EXG_OP_bmm_default, 0, 1, RATE(ns_per_batched_flop)},
    {EXG_OP_baddbmm_default, 1, 2, RATE(ns_per_batched_flop)},
    {EXG_OP_product_of_bytes, 0, 1, RATE(ns_per_flop)},
    {EXG_OP_convolution_default, 0, 1, RATE(ns_per_convolution_flop)},
    {EXG_OP_convolution_of_bytes, 0, 1, RATE(ns_per_convolution_flop)},
    {EXG_OP_attention, 0, 1, RATE(ns_per_attention_flop)},
    {EXG_OP_attention_of_softmax, 0, 1, RATE(ns_per_attention_flop)},
    {EXG_OP_recurrent, 0, 1, RATE(ns_per_recurrent_flop)},
#undef RATE
};

static bool find_factors(exg_operator_id op, factors *found)
{
    *found = (factors){.op = op, .rate = offsetof(exg_costs, ns_per_flop)};
    if (exg_product_operands(op, &found->a, &found->b)) {
        return true;
    }
    for (size_t i = 0; i < sizeof(multipliers) / sizeof(multipliers[0]); i++) {
        if (multipliers[i].op == op) {
            *found = multipliers[i];
            return true;
        }
    }
    return false;
}

static double rate_of(const exg_costs *costs, const factors *f)
{
    const double *own = (const double *)((const char *)costs + f->rate);

    return *own > 0 ? *own : costs->ns_per_flop;
}

static double flops_of(exg_operator_id op, const exg_tensor_meta *a, const exg_tensor_meta *b,
                       const exg_tensor_meta *result)
{
    double out = numel(result);

    if (op == EXG_OP_convolution_default || op == EXG_OP_convolution_of_bytes) {
        return b->sizes[0].value == 0 ? 0 : 2 * out * numel(b) / (double)b->sizes[0].value;
    }
    if (op == EXG_OP_attention || op == EXG_OP_attention_of_softmax) {
        return 2 * (numel(a) + out) * (double)b->sizes[b->rank - 2].value;
    }
    if (op == EXG_OP_recurrent) { /* all gates of all steps, each by the state before */
        return 2 * numel(a) * (double)b->sizes[b->rank - 1].value;
    }
    return 2 * out * (double)a->sizes[a->rank - 1].value;
}

double exg_operator_flops(const exg_operator *op, const exg_tensor_meta *const *operands,
                          uint32_t count, const exg_tensor_meta *result)
{
    factors f;

    return op != NULL && result != NULL && find_factors(op->id, &f) && f.b < count &&
                   operands[f.a] != NULL && operands[f.b] != NULL
               ? flops_of(op->id, operands[f.a], operands[f.b], result)
               : 0;
}

bool exg_operator_looks_up(const exg_operator *op)
{
    return op != NULL &&
           (op->id == EXG_OP_embedding_default || op->id == EXG_OP_index_select_default ||
            op->id == EXG_OP_gather_default || op->id == EXG_OP_index_Tensor);
}

double exg_predict_work(const exg_costs *costs, const exg_operator *op,
                        const exg_tensor_meta *const *operands, uint32_t count,
                        const exg_tensor_meta *result)
{
    double touched = result == NULL ? 0 : exg_meta_bytes(result);
    double computed = 0;
    factors f;

    if (op->view != NULL || result == NULL) {
        return 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        double bytes = operands[i] == NULL ? 0 : exg_meta_bytes(operands[i]);

        touched +=
            i == 0 && exg_operator_looks_up(op) ? fmin(bytes, exg_meta_bytes(result)) : bytes;
    }
    touched *= costs->ns_per_touched;
    if (find_factors(op->id, &f) && f.b < count) {
        computed = flops_of(op->id, operands[f.a], operands[f.b], result) * rate_of(costs, &f);
    }
    return costs->ns_per_node + (computed > touched ? computed : touched);
}

/* ---- moves --------------------------------------------------------------------------- */

exg_value_id exg_result_of(const exg_node *node)
{
    return node->output_count > 0 && node->outputs[0].kind == EXG_ARGUMENT_TENSOR
               ? node->outputs[0].as_tensor
               : EXG_NO_VALUE;
}

static const exg_tensor_meta *meta_of(const prediction *p, exg_value_id id)
{
    return id == EXG_NO_VALUE ? NULL : p->local->graph->values[id].tensor;
}

static uint32_t mesh_dim_of(const exg_node *exchange)
{
    return (uint32_t)exchange->inputs[exchange->input_count - 1].arg.as_int;
}

/* Bytes that the rank receives. */
static double bytes_moved(const prediction *p, const exg_node *node, exg_operator_id op)
{
    double in = exg_meta_bytes(meta_of(p, node->inputs[0].arg.as_tensor));
    double out = exg_meta_bytes(meta_of(p, exg_result_of(node)));
    double n = p->mesh->sizes[mesh_dim_of(node)];
    double others = (n - 1) / n;

    if (op == EXG_OP_exg_all_to_all_single) { /* from the stage before */
        return out;
    }
    switch (op) {
    case EXG_OP_exg_all_reduce:
        return 2 * in * others;
    case EXG_OP_exg_all_gather:
    case EXG_OP_exg_all_to_all:
        return out * others;
    case EXG_OP_exg_reduce_scatter: /* its part from each other rank */
        return out * (n - 1);
    case EXG_OP_exg_window: /* with a period it is a block of another rank's */
        return node->inputs[7].arg.as_int != 0   ? out
               : node->inputs[4].arg.as_int == 0 ? out * others /* all ranks see the same */
               : out > in                        ? out - in
                                                 : 0;
    default:
        return in * others;
    }
}

static void count_move(exg_partition_summary *sum, exg_operator_id op, double bytes)
{
    sum->all_reduce_count += op == EXG_OP_exg_all_reduce;
    sum->all_gather_count += op == EXG_OP_exg_all_gather;
    sum->reduce_scatter_count += op == EXG_OP_exg_reduce_scatter;
    sum->all_to_all_count += op == EXG_OP_exg_all_to_all;
    sum->halo_count += op == EXG_OP_exg_window;
    sum->send_count += op == EXG_OP_exg_all_to_all_single;
    sum->broadcast_count += op == EXG_OP_exg_broadcast;
    sum->send_bytes += op == EXG_OP_exg_all_to_all_single ? (uint64_t)bytes : 0;
    sum->broadcast_bytes += op == EXG_OP_exg_broadcast ? (uint64_t)bytes : 0;
    sum->all_reduce_bytes += op == EXG_OP_exg_all_reduce ? (uint64_t)bytes : 0;
    sum->all_gather_bytes += op == EXG_OP_exg_all_gather ? (uint64_t)bytes : 0;
    sum->reduce_scatter_bytes += op == EXG_OP_exg_reduce_scatter ? (uint64_t)bytes : 0;
    sum->all_to_all_bytes += op == EXG_OP_exg_all_to_all ? (uint64_t)bytes : 0;
    sum->halo_bytes += op == EXG_OP_exg_window ? (uint64_t)bytes : 0;
    sum->moved_bytes += (uint64_t)bytes;
}

static const char *collective_name(exg_operator_id op)
{
    return op == EXG_OP_exg_all_reduce       ? "all_reduce"
           : op == EXG_OP_exg_all_gather     ? "all_gather"
           : op == EXG_OP_exg_reduce_scatter ? "reduce_scatter"
           : op == EXG_OP_exg_all_to_all     ? "all_to_all"
           : op == EXG_OP_exg_window         ? "window"
           : op == EXG_OP_exg_broadcast      ? "broadcast"
                                             : "send";
}

static void note_largest(prediction *p, const exg_node *node, exg_operator_id op, double bytes)
{
    const char *name = p->local->graph->values[node->inputs[0].arg.as_tensor].name;

    if ((uint64_t)bytes > p->summary->largest_bytes) {
        p->summary->largest_bytes = (uint64_t)bytes;
        snprintf(p->summary->largest_move, sizeof(p->summary->largest_move), "%s of %.70s",
                 collective_name(op), name == NULL ? "?" : name);
    }
}

/* An all-reduce sends its sums only when all summands have come: half of it is waited for. */
static void take_move(prediction *p, uint32_t n, exg_operator_id op)
{
    const exg_node *node = &p->local->graph->nodes[n];
    uint32_t made = p->made[p->base[node->inputs[0].arg.as_tensor]];
    const exg_link *link = &p->goal->costs->links[mesh_dim_of(node)];
    double bytes = bytes_moved(p, node, op);
    double ns = link->message_ns + bytes * link->ns_per_byte;

    count_move(p->summary, op, bytes);
    note_largest(p, node, op, bytes);
    p->summary->moves_ns += ns;
    p->beside[n] = op == EXG_OP_exg_all_reduce ? ns / 2 : ns;
    p->ns[n] = ns - p->beside[n];
    p->crossings[p->count] = (exg_crossing){
        .step = n,
        .ready = made,
        .after = made == 0 ? 0 : exg_crossing_of(p->crossings, p->count, made - 1),
        .bytes = (uint64_t)exg_meta_bytes(meta_of(p, exg_result_of(node))),
    };
    p->count++;
}

/* ---- nodes --------------------------------------------------------------------------- */

typedef struct reading {
    prediction *p;
    uint32_t node;
    const exg_tensor_meta **metas; /* of the operands; room for all */
    uint32_t count;
    bool constant;
} reading;

static void read_operand(void *user, exg_value_id *id)
{
    reading *r = user;
    const exg_tensor_meta *meta = meta_of(r->p, *id);

    if (meta != NULL) {
        uint32_t *due = &r->p->due[r->p->base[*id]];

        *due = *due < r->node ? *due : r->node;
        r->constant = r->constant && r->p->constant[*id];
        r->metas[r->count++] = meta;
    }
}

static void take_node(prediction *p, uint32_t n, const exg_tensor_meta **metas)
{
    const exg_node *node = &p->local->graph->nodes[n];
    const exg_operator *op = exg_operators_find(p->operators, node->target);
    reading r = {.p = p, .node = n, .metas = metas, .constant = op->stream == EXG_NOT_DRAWN};
    bool is_view = exg_is_view_node(op, node);

    r.node = is_view ? UINT32_MAX : n; /* a view needs nothing: who reads it does */
    for (uint32_t i = 0; i < node->input_count; i++) {
        exg_argument_visit_values(&node->inputs[i].arg, read_operand, &r);
    }
    for (uint32_t o = 0; o < node->output_count; o++) {
        if (node->outputs[o].kind == EXG_ARGUMENT_TENSOR) {
            exg_value_id id = node->outputs[o].as_tensor;

            p->base[id] = is_view ? p->base[node->inputs[0].arg.as_tensor] : id;
            p->made[id] = n + 1;
            p->constant[id] = r.constant && !exg_is_exchange(op->id);
        }
    }
    if (exg_is_exchange(op->id)) {
        take_move(p, n, op->id);
    } else if (!r.constant) {
        p->ns[n] =
            exg_predict_work(p->goal->costs, op, metas, r.count, meta_of(p, exg_result_of(node)));
        p->summary->work_ns += p->ns[n];
        if (p->ns[n] > p->summary->longest_ns) {
            p->summary->longest_ns = p->ns[n];
            snprintf(p->summary->longest_node, sizeof(p->summary->longest_node), "%.90s",
                     node->name == NULL ? "?" : node->name);
        }
    }
}

static void take_inputs(prediction *p)
{
    const exg_graph *graph = p->local->graph;

    for (uint32_t v = 0; v < graph->value_count; v++) {
        p->base[v] = v;
        p->due[v] = graph->node_count;
    }
    for (uint32_t i = 0; i < graph->input_count; i++) {
        if (graph->inputs[i].kind == EXG_ARGUMENT_TENSOR) {
            p->constant[graph->inputs[i].as_tensor] =
                p->local->signature.inputs[i].kind == EXG_INPUT_PARAMETER;
        }
    }
}

/* ---- time ---------------------------------------------------------------------------- */

/* Steps in their order take the rank's time; what is under way takes the wire's. */
static double walk(const prediction *p, const exg_scheduled *order, uint32_t count)
{
    double *arrives = p->beside; /* by node, once it has begun */
    double now = 0;
    double wire = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t s = order[i].step;
        bool moves = order[i].phase != EXG_COLLECTIVE_NONE;

        if (order[i].phase == EXG_COLLECTIVE_BEGINS || order[i].phase == EXG_COLLECTIVE_WHOLE) {
            wire = (wire > now ? wire : now) + p->beside[s];
            arrives[s] = wire;
        }
        if (order[i].phase != EXG_COLLECTIVE_BEGINS) {
            now = (moves && arrives[s] > now ? arrives[s] : now) + p->ns[s];
        }
    }
    return now;
}

static exg_status predict(prediction *p)
{
    uint32_t nodes = p->local->graph->node_count;
    exg_scheduled *order = EXG_NEW_ARRAY(p->arena, exg_scheduled, 2 * (size_t)nodes + 1);
    double apart = 0;

    if (order == NULL) {
        return EXG_NO_MEMORY;
    }
    for (uint32_t n = 0; n < nodes; n++) {
        apart += p->ns[n] + p->beside[n];
    }
    for (uint32_t i = 0; i < p->count; i++) {
        p->crossings[i].due = p->due[exg_result_of(&p->local->graph->nodes[p->crossings[i].step])];
    }
    p->summary->predicted_ns = apart;
    if (p->goal->overlaps) {
        p->summary->predicted_ns =
            walk(p, order, exg_schedule(p->crossings, p->count, 0, nodes, order));
        p->summary->hidden_ns = fmax(apart - p->summary->predicted_ns, 0); /* but for rounding */
    }
    return EXG_OK;
}

static void count_operand(void *user, exg_value_id *id)
{
    (void)id;
    ++*(uint32_t *)user;
}

uint32_t exg_most_operands(const exg_graph *graph)
{
    uint32_t most = 0;

    for (uint32_t n = 0; n < graph->node_count; n++) {
        const exg_node *node = &graph->nodes[n];
        uint32_t count = 0;

        for (uint32_t i = 0; i < node->input_count; i++) {
            exg_argument_visit_values(&node->inputs[i].arg, count_operand, &count);
        }
        most = count > most ? count : most;
    }
    return most;
}

static bool make_room(prediction *p, const exg_tensor_meta ***metas)
{
    const exg_graph *graph = p->local->graph;
    size_t values = graph->value_count;
    uint32_t nodes = graph->node_count;

    p->ns = EXG_NEW_ARRAY(p->arena, double, nodes);
    p->beside = EXG_NEW_ARRAY(p->arena, double, nodes);
    p->made = EXG_NEW_ARRAY(p->arena, uint32_t, values);
    p->due = EXG_NEW_ARRAY(p->arena, uint32_t, values);
    p->base = EXG_NEW_ARRAY(p->arena, exg_value_id, values);
    p->constant = EXG_NEW_ARRAY(p->arena, bool, values);
    p->crossings = EXG_NEW_ARRAY(p->arena, exg_crossing, nodes);
    *metas = EXG_NEW_ARRAY(p->arena, const exg_tensor_meta *, exg_most_operands(graph));
    return p->ns != NULL && p->beside != NULL && p->made != NULL && p->due != NULL &&
           p->base != NULL && p->constant != NULL && p->crossings != NULL && *metas != NULL;
}

exg_status exg_partition_predict(const exg_program *local, const exg_operators *operators,
                                 const exg_partition_goal *goal, const exg_mesh_shape *mesh,
                                 exg_partition_summary *summary, exg_error *err)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    prediction p = {local, operators, goal, mesh, summary, .arena = arena};
    const exg_tensor_meta **metas;
    exg_status status = EXG_NO_MEMORY;

    if (arena != NULL && make_room(&p, &metas)) {
        take_inputs(&p);
        for (uint32_t n = 0; n < local->graph->node_count; n++) {
            take_node(&p, n, metas);
        }
        status = predict(&p);
    }
    exg_arena_destroy(arena);
    return status == EXG_OK ? EXG_OK : EXG_OUT_OF_MEMORY(err);
}
