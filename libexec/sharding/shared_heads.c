/* shared_heads.c - fewer heads of keys and values than ranks: several ranks, neighbours, have a
 * head each time. What makes such heads, from the product with a weight to where they are repeated
 * for the heads of queries, is found from the graph, and may be split into as many parts as heads
 * and ranks have in common: a rank then makes its own heads of keys and values itself, and nothing
 * of them is moved.
 */
#include "libexec/sharding/partitioner.h"
#include "libexport/operators/lower.h"

#include <string.h>

/* ---- where heads are shared ---------------------------------------------------------------- */

/* What is known of a value, from those that read it. */
typedef struct heads {
    bool is_weight;   /* a weight, or made of one alone */
    bool is_attended; /* an attention reads it as keys or values, or a product of two activations */
    int64_t count;    /* heads that are repeated later; 0: none are */
    int64_t repeated; /* how many they are then */
    double bytes;     /* where they are */
    uint32_t parts;   /* made of what has so many */
} heads;

typedef struct finder {
    exg_partitioner *p;
    const exg_graph *graph;
    heads *of; /* by value */
    uint32_t node;
    const heads *result;  /* of the node */
    uint32_t parts;       /* of its operands */
    uint32_t activations; /* among its operands */
} finder;

static const exg_tensor_meta *meta_of(const finder *f, exg_value_id id)
{
    return id == EXG_NO_VALUE ? NULL : f->graph->values[id].tensor;
}

static bool is_activation(const finder *f, exg_value_id id)
{
    return id != EXG_NO_VALUE && meta_of(f, id) != NULL && !f->of[id].is_weight;
}

static exg_value_id operand_of(const exg_node *node, const char *name)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (node->inputs[i].name != NULL && strcmp(node->inputs[i].name, name) == 0 &&
            node->inputs[i].arg.kind == EXG_ARGUMENT_TENSOR) {
            return node->inputs[i].arg.as_tensor;
        }
    }
    return EXG_NO_VALUE;
}

static void attend(finder *f, exg_value_id id, int64_t count, int64_t repeated)
{
    if (is_activation(f, id)) {
        f->of[id].is_attended = true;
        f->of[id].count = count;
        f->of[id].repeated = repeated;
        f->of[id].bytes = exg_meta_bytes(meta_of(f, id));
    }
}

/* Heads of queries, and how many there are of keys and values if that is fewer. */
static void note_attention(finder *f, const exg_node *node)
{
    const exg_tensor_meta *q = meta_of(f, operand_of(node, "query"));
    exg_value_id key = operand_of(node, "key");
    const exg_tensor_meta *k = meta_of(f, key);
    bool has_heads = q != NULL && k != NULL && q->rank == k->rank && q->rank > 2;
    int64_t count = has_heads ? k->sizes[k->rank - 3].value : 0;
    int64_t queries = has_heads ? q->sizes[q->rank - 3].value : 0;

    count = count < queries ? count : 0;
    attend(f, key, count, queries);
    attend(f, operand_of(node, "value"), count, queries);
}

/* Does it leave elements, or rows of them, by themselves? */
static bool passes(const exg_operator *op)
{
    return op->view != NULL || op->pointwise != EXG_POINTWISE_NOT ||
           op->id == EXG_OP_clone_default || op->id == EXG_OP__to_copy_default ||
           op->id == EXG_OP_cat_default || op->id == EXG_OP_exg_rms_norm ||
           op->id == EXG_OP_native_layer_norm_default;
}

static void pass_back(void *user, exg_value_id *id)
{
    finder *f = user;

    if (is_activation(f, *id)) {
        heads *h = &f->of[*id];

        h->is_attended = h->is_attended || f->result->is_attended;
        if (f->result->count > 0) {
            h->count = f->result->count;
            h->repeated = f->result->repeated;
            h->bytes = f->result->bytes;
        }
    }
}

/* Where one is made several: as many heads as the dim before it has. */
static void note_repeat(finder *f, const exg_node *node, const heads *result)
{
    exg_value_id id = operand_of(node, "self");
    const exg_tensor_meta *in = meta_of(f, id);
    const exg_tensor_meta *out = meta_of(f, exg_result_of(node));
    uint32_t added = in == NULL ? 0 : out->rank - in->rank;

    for (uint32_t d = 0; is_activation(f, id) && result->is_attended && d + 2 < in->rank; d++) {
        if (in->sizes[d].value == 1 && out->sizes[d + added].value > 1) {
            int64_t count = d > 1 ? in->sizes[d - 1].value : 1;

            attend(f, id, count, count * out->sizes[d + added].value);
        }
    }
}

static void visit_operands(finder *f, const exg_node *node,
                           void (*visit)(void *user, exg_value_id *id))
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        exg_argument_visit_values(&node->inputs[i].arg, visit, f);
    }
}

static void count_activation(void *user, exg_value_id *id)
{
    finder *f = user;

    f->activations += is_activation(f, *id);
}

static uint32_t count_activations(finder *f, const exg_node *node)
{
    f->activations = 0;
    visit_operands(f, node, count_activation);
    return f->activations;
}

/* As many as heads and ranks have in common. Where ranks have not equally many heads of queries
 * those are gathered for the attention, and those of keys and values with them. */
static uint32_t parts_of(const finder *f, const heads *h)
{
    int64_t a = f->p->n;
    int64_t b = h->count;

    while (b != 0) {
        int64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a == f->p->n || h->repeated % f->p->n != 0 ? 0 : (uint32_t)a;
}

static bool is_product(exg_operator_id op)
{
    uint32_t x;
    uint32_t w;

    return exg_product_operands(op, &x, &w);
}

/* From what reads a value to what makes it. */
static void look_back(finder *f, uint32_t n)
{
    const exg_node *node = &f->graph->nodes[n];
    const exg_operator *op = exg_operators_find(f->p->r.operators, node->target);
    exg_value_id made = exg_result_of(node);
    const heads *result = made == EXG_NO_VALUE ? &(heads){0} : &f->of[made];

    if (op == NULL) {
        return;
    }
    if (op->id == EXG_OP_attention || op->id == EXG_OP_attention_of_softmax) {
        note_attention(f, node);
    } else if (op->id == EXG_OP_bmm_default || op->id == EXG_OP_baddbmm_default) {
        f->result = &(heads){.is_attended = count_activations(f, node) > 1};
        visit_operands(f, node, pass_back);
    } else if (passes(op)) {
        f->result = result;
        visit_operands(f, node, pass_back);
        if (op->id == EXG_OP_expand_default) {
            note_repeat(f, node, result);
        }
    }
    if (result->count > 0 &&
        (passes(op) || (is_product(op->id) && exg_meta_bytes(meta_of(f, made)) == result->bytes))) {
        f->p->parts[n] = parts_of(f, result);
    }
}

static void take_parts(void *user, exg_value_id *id)
{
    finder *f = user;
    uint32_t parts = *id == EXG_NO_VALUE ? 0 : f->of[*id].parts;

    f->parts = parts > 0 ? parts : f->parts;
}

/* From weights to what is made of them alone. */
static void look_for_weights(finder *f)
{
    for (exg_value_id v = 0; v < f->graph->value_count; v++) {
        f->of[v].is_weight = f->p->forms[v].is_weight;
    }
    for (uint32_t n = 0; n < f->graph->node_count; n++) {
        const exg_node *node = &f->graph->nodes[n];
        const exg_operator *op = exg_operators_find(f->p->r.operators, node->target);
        exg_value_id made = exg_result_of(node);

        if (op != NULL && made != EXG_NO_VALUE && passes(op) && count_activations(f, node) == 0) {
            f->of[made].is_weight = true;
        }
    }
}

/* Heads that have been repeated stay so until they are attended to. */
static void look_on(finder *f, uint32_t n)
{
    const exg_node *node = &f->graph->nodes[n];
    const exg_operator *op = exg_operators_find(f->p->r.operators, node->target);
    exg_value_id made = exg_result_of(node);
    bool attends =
        op != NULL && (op->id == EXG_OP_attention || op->id == EXG_OP_attention_of_softmax);

    if (op == NULL || made == EXG_NO_VALUE) {
        return;
    }
    if (f->p->parts[n] == 0 && (attends || (passes(op) && f->of[made].is_attended))) {
        f->parts = 0;
        visit_operands(f, node, take_parts);
        f->p->parts[n] = f->parts;
    }
    f->of[made].parts = attends ? 0 : f->p->parts[n];
}

exg_status exg_find_shared_heads(exg_partitioner *p)
{
    const exg_graph *graph = p->r.in->graph;
    finder f = {.p = p, .graph = graph, .of = EXG_NEW_ARRAY(p->scratch, heads, graph->value_count)};

    p->parts = EXG_NEW_ARRAY(p->scratch, uint32_t, graph->node_count);
    if (f.of == NULL || p->parts == NULL) {
        return EXG_OUT_OF_MEMORY(p->r.err);
    }
    look_for_weights(&f);
    for (uint32_t n = graph->node_count; n-- > 0;) {
        look_back(&f, n);
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        look_on(&f, n);
    }
    return EXG_OK;
}

/* ---- parts that are shared --------------------------------------------------------------------
 */

static bool divides(const exg_tensor_meta *meta, exg_placement place, uint32_t parts)
{
    return place.kind == EXG_REPLICATE ||
           (place.kind == EXG_SHARD && meta != NULL && meta->sizes[place.dim].value % parts == 0);
}

static exg_placement shared(exg_placement place, uint32_t ranks)
{
    return place.kind == EXG_SHARD ? exg_shared_shard(place.dim, ranks) : place;
}

/* As over a mesh of so many ranks, if it splits the result into equal parts. */
static exg_status add_shared(exg_rule_call *call, const exg_strategy *of_parts, uint32_t parts)
{
    uint32_t ranks = call->mesh_size / parts;
    bool fits = call->result_count == 1 && of_parts->results[0].kind == EXG_SHARD &&
                divides(call->results[0], of_parts->results[0], parts);
    exg_strategy *strategy;

    for (uint32_t i = 0; fits && i < call->operand_count; i++) {
        fits = divides(call->operands[i], of_parts->operands[i], parts);
    }
    if (!fits) {
        return EXG_OK;
    }
    strategy = exg_strategy_add(call);
    if (strategy == NULL) {
        return EXG_OUT_OF_MEMORY(call->err);
    }
    strategy->results[0] = shared(of_parts->results[0], ranks);
    for (uint32_t i = 0; i < call->operand_count; i++) {
        strategy->operands[i] = shared(of_parts->operands[i], ranks);
    }
    return EXG_OK;
}

exg_status exg_add_shared_parts(exg_rule_call *call, uint32_t parts)
{
    exg_rule_call of_parts = *call;

    if (parts < 2) {
        return EXG_OK;
    }
    if (call->op->id == EXG_OP_attention || call->op->id == EXG_OP_attention_of_softmax) {
        return exg_add_attention_to_shared(call, call->mesh_size / parts);
    }
    of_parts.mesh_size = parts;
    of_parts.emits = false;
    of_parts.strategies = NULL;
    of_parts.strategy_count = of_parts.strategy_capacity = 0;
    EXG_TRY(exg_rule_strategies(&of_parts));
    for (uint32_t s = 0; s < of_parts.strategy_count; s++) {
        EXG_TRY(add_shared(call, &of_parts.strategies[s], parts));
    }
    return EXG_OK;
}
