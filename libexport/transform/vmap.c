/* vmap.c - what is between the marks of torch.vmap becomes the graph of a map.
 *
 * A call is
 *
 *     _vmap_increment_nesting(batch, randomness)
 *     b = _add_batch_dim(x, dim, level)           one example of x
 *     ...                                         operators, recorded with sizes of one example
 *     y = _remove_batch_dim(r, level, batch, dim) all examples of r again
 *     _vmap_decrement_nesting()
 *
 * Nodes that read an example, directly or not, go into the map; the others are the same for all
 * examples and stay before it, as numbers must that what comes later reads. What the map's graph
 * writes of its example is copied back after it. A call in the call goes one way or the other as a
 * whole. Values keep their ids, in the map's graph too.
 */
#include "libexport/transform/vmap.h"

#include <string.h>

#define DEPTH_MAX   64 /* calls in calls */
#define PREDISPATCH "torch._functorch.predispatch."
#define GRAPH_NAME  "vmap"

typedef enum mark {
    MARK_NOT,
    MARK_IDLE, /* says nothing that a run needs */
    MARK_BEGIN,
    MARK_END,
    MARK_ADD,
    MARK_REMOVE
} mark;

static mark mark_of(const char *target)
{
    static const struct {
        const char *name;
        mark is;
    } rows[] = {{"lazy_load_decompositions", MARK_IDLE},
                {"_vmap_increment_nesting", MARK_BEGIN},
                {"_vmap_decrement_nesting", MARK_END},
                {"_add_batch_dim", MARK_ADD},
                {"_remove_batch_dim", MARK_REMOVE}};

    for (size_t i = 0; strncmp(target, PREDISPATCH, sizeof(PREDISPATCH) - 1) == 0 &&
                       i < sizeof(rows) / sizeof(rows[0]);
         i++) {
        if (strcmp(target + sizeof(PREDISPATCH) - 1, rows[i].name) == 0) {
            return rows[i].is;
        }
    }
    return MARK_NOT;
}

bool exg_is_vmap_mark(const char *target)
{
    return mark_of(target) != MARK_NOT;
}

bool exg_vmap_mark_fits(const char *target, uint32_t *open)
{
    const mark is = mark_of(target);
    const bool fits = is <= MARK_BEGIN || *open > 0;

    *open += is == MARK_BEGIN;
    *open -= is == MARK_END && *open > 0;
    return fits;
}

/* Where a value comes from, while a call is read. */
typedef enum place {
    PLACE_OUTSIDE,
    PLACE_MAP,   /* of one example */
    PLACE_AFTER, /* of all examples: the map gives it */
} place;

typedef struct unmarker {
    exg_arena *arena;
    exg_graph *out;
    place *places;      /* by value id of the graph that has marks */
    uint32_t *examples; /* 1 + the example that the value may be a view of, 0: none */
    uint32_t depth;     /* calls that are being read */
    exg_error *err;
} unmarker;

/* A call of vmap; arrays have room for each of its nodes. */
typedef struct call {
    const exg_node *first;
    bool all_differ; /* random numbers do, of each example */
    exg_node *nodes; /* of the map's graph */
    const exg_node **removed;
    exg_value_id *batches, *examples; /* with every example, and one of them */
    bool *written;                    /* by example */
    uint32_t node_count, removed_count, example_count;
} call;

static exg_status refuse(unmarker *u, const exg_node *node, const char *what)
{
    exg_status status = EXG_FAIL(u->err, UNSUPPORTED, "OPR-003", "'%s' in torch.vmap %s",
                                 node->name == NULL ? node->target : node->name, what);

    return exg_error_fix(u->err, status,
                         "save program.run_decompositions(), which writes torch.vmap out");
}

static exg_status alone(unmarker *u, const exg_node *node)
{
    return EXG_FAIL(u->err, MALFORMED, "GRF-013",
                    "'%s' is in no call of torch.vmap that begins and ends in this graph",
                    node->name == NULL ? node->target : node->name);
}

/* ---- values -------------------------------------------------------------------------------- */

typedef struct search {
    const place *places;
    place wanted;
    bool found;
} search;

static void look_at(void *user, exg_value_id *id)
{
    search *s = user;

    s->found = s->found || (*id != EXG_NO_VALUE && s->places[*id] == s->wanted);
}

static bool reads(const unmarker *u, const exg_node *node, place wanted)
{
    search s = {u->places, wanted, false};

    for (uint32_t i = 0; i < node->input_count; i++) {
        exg_argument_visit_values(&node->inputs[i].arg, look_at, &s);
    }
    return s.found;
}

typedef struct setting {
    unmarker *u;
    place place;
    uint32_t example;
} setting;

static void set_value(void *user, exg_value_id *id)
{
    const setting *s = user;

    if (*id != EXG_NO_VALUE) {
        s->u->places[*id] = s->place;
        s->u->examples[*id] = s->example;
    }
}

static void set_outputs(unmarker *u, const exg_node *node, place to, uint32_t example)
{
    setting s = {u, to, example};

    for (uint32_t o = 0; o < node->output_count; o++) {
        exg_argument_visit_values(&node->outputs[o], set_value, &s);
    }
}

/* The example that the node's first tensor may be a view of. */
static uint32_t example_of(const unmarker *u, const exg_node *node)
{
    bool one = node->input_count > 0 && node->inputs[0].arg.kind == EXG_ARGUMENT_TENSOR;

    return one ? u->examples[node->inputs[0].arg.as_tensor] : 0;
}

/* add_.Tensor, __iand__.Scalar; not __and__.Scalar, nor what changes no element. */
static bool writes(const char *target)
{
    const char *dot = strrchr(target, '.');

    return strcmp(target, "torch.ops.aten.detach_.default") != 0 && dot != NULL &&
           dot - target > 2 && dot[-1] == '_' && (dot[-2] != '_' || strstr(target, ".__i") != NULL);
}

/* The meta with dim `from` in the place of dim `to`. */
static exg_tensor_meta *moved_meta(unmarker *u, const exg_tensor_meta *meta, uint32_t from,
                                   uint32_t to)
{
    exg_tensor_meta *moved = exg_arena_memdup(u->arena, meta, 1, sizeof(*meta));
    exg_sym_int *lists[2];

    for (uint32_t k = 0; moved != NULL && k < 2; k++) {
        const exg_sym_int *old = k == 0 ? meta->sizes : meta->strides;

        lists[k] = exg_arena_memdup(u->arena, old, meta->rank, sizeof(*old));
        if (lists[k] == NULL) {
            return NULL;
        }
        for (uint32_t d = from; d != to; d += from < to ? 1u : -1u) {
            lists[k][d] = old[from < to ? d + 1 : d - 1];
        }
        lists[k][to] = old[from];
        *(k == 0 ? &moved->sizes : &moved->strides) = lists[k];
    }
    return moved;
}

/* A value like `like`, with its dim `from` at `to`. */
static exg_value_id new_value(unmarker *u, exg_value_id like, const char *suffix, uint32_t from,
                              uint32_t to)
{
    exg_value value = u->out->values[like];

    value.name = exg_arena_printf(u->arena, "%s_%s", value.name, suffix);
    value.tensor = moved_meta(u, value.tensor, from, to);
    if (value.name == NULL || value.tensor == NULL) {
        (void)EXG_OUT_OF_MEMORY(u->err);
        return EXG_NO_VALUE;
    }
    u->out->values[u->out->value_count] = value;
    return u->out->value_count++;
}

/* ---- nodes ------------------------------------------------------------------------------- */

static exg_status add_node(unmarker *u, const exg_node *from, const char *target,
                           const exg_named_argument *inputs, uint32_t count, exg_argument output)
{
    exg_node *node = &u->out->nodes[u->out->node_count++];

    *node = (exg_node){.target = target,
                       .name = from->name,
                       .inputs = exg_arena_memdup(u->arena, inputs, count, sizeof(*inputs)),
                       .outputs = exg_arena_memdup(u->arena, &output, 1, sizeof(output)),
                       .input_count = count,
                       .output_count = 1,
                       .metadata = from->metadata,
                       .is_hop_single_tensor_return = EXG_UNSET};
    return node->inputs == NULL || node->outputs == NULL ? EXG_OUT_OF_MEMORY(u->err) : EXG_OK;
}

static exg_argument tensor(exg_value_id id)
{
    return (exg_argument){.kind = EXG_ARGUMENT_TENSOR, .as_tensor = id};
}

static exg_argument tensors(exg_value_id *ids, uint32_t count)
{
    return (exg_argument){.kind = EXG_ARGUMENT_TENSORS, .count = count, .as_tensors = ids};
}

static exg_argument integer(int64_t value)
{
    return (exg_argument){.kind = EXG_ARGUMENT_INT, .as_int = value};
}

static exg_status add_movedim(unmarker *u, const exg_node *from, exg_value_id self, int64_t source,
                              int64_t destination, exg_value_id moved)
{
    const exg_named_argument inputs[] = {
        {"self", tensor(self), EXG_KIND_POSITIONAL},
        {"source", integer(source), EXG_KIND_POSITIONAL},
        {"destination", integer(destination), EXG_KIND_POSITIONAL},
    };

    return add_node(u, from, "torch.ops.aten.movedim.int", inputs, 3, tensor(moved));
}

/* Of a mark that takes the batch away from a tensor or gives it one: the tensor, and the dim of the
 * batch. */
static bool tensor_and_dim(const exg_graph *graph, const exg_node *node, exg_value_id *id,
                           uint32_t *dim)
{
    const bool adds = mark_of(node->target) == MARK_ADD;
    const uint32_t at = adds ? 1 : 3;
    const exg_tensor_meta *meta;
    const exg_tensor_meta *made;
    int64_t rank;
    int64_t said;

    if (node->input_count <= at || node->inputs[0].arg.kind != EXG_ARGUMENT_TENSOR ||
        node->inputs[at].arg.kind != EXG_ARGUMENT_INT || node->output_count != 1 ||
        node->outputs[0].kind != EXG_ARGUMENT_TENSOR) {
        return false;
    }
    *id = node->inputs[0].arg.as_tensor;
    meta = graph->values[*id].tensor;
    made = graph->values[node->outputs[0].as_tensor].tensor;
    said = node->inputs[at].arg.as_int;
    if (meta == NULL || made == NULL || meta->dtype != made->dtype ||
        (adds ? made->rank + 1 != meta->rank : made->rank != meta->rank + 1)) {
        return false;
    }
    rank = adds ? meta->rank : made->rank;
    if (said < -rank || said >= rank) {
        return false;
    }
    *dim = (uint32_t)(said < 0 ? said + rank : said);
    return true;
}

/* A mark that only says something makes no value. */
static bool makes_nothing(const exg_node *node)
{
    for (uint32_t o = 0; o < node->output_count; o++) {
        if (node->outputs[o].kind != EXG_ARGUMENT_NONE) {
            return false;
        }
    }
    return true;
}

static bool is_size(const exg_argument *arg)
{
    return arg->kind == EXG_ARGUMENT_INT || arg->kind == EXG_ARGUMENT_SYM_INT;
}

bool exg_vmap_mark_is_sound(const exg_graph *graph, const exg_node *node)
{
    exg_value_id id;
    uint32_t dim;

    switch (mark_of(node->target)) {
    case MARK_ADD:
        return tensor_and_dim(graph, node, &id, &dim);
    case MARK_REMOVE:
        return tensor_and_dim(graph, node, &id, &dim) && is_size(&node->inputs[2].arg);
    case MARK_BEGIN:
        return makes_nothing(node) && node->input_count == 2 && is_size(&node->inputs[0].arg) &&
               node->inputs[1].arg.kind == EXG_ARGUMENT_STRING;
    default:
        return makes_nothing(node);
    }
}

/* ---- one call ---------------------------------------------------------------------------- */

static exg_status add_batch(unmarker *u, call *c, const exg_node *node)
{
    exg_value_id id = EXG_NO_VALUE;
    uint32_t dim = 0;

    (void)tensor_and_dim(u->out, node, &id, &dim);
    if (u->places[id] != PLACE_OUTSIDE) {
        return refuse(u, node, "takes what this call computes");
    }
    c->batches[c->example_count] = id;
    if (dim != 0) {
        exg_value_id moved = new_value(u, id, "moved", dim, 0);

        c->batches[c->example_count] = moved;
        if (moved == EXG_NO_VALUE) {
            return EXG_NO_MEMORY;
        }
        EXG_TRY(add_movedim(u, node, id, dim, 0, moved));
    }
    c->examples[c->example_count++] = node->outputs[0].as_tensor;
    set_outputs(u, node, PLACE_MAP, c->example_count);
    return EXG_OK;
}

/* What is the same for all examples, as often as there are examples. */
static exg_status repeat(unmarker *u, const exg_node *node, exg_value_id id, uint32_t dim)
{
    const exg_argument *batch = &node->inputs[2].arg;
    const uint32_t rank = u->out->values[id].tensor->rank + 1;
    exg_sym_argument *sizes = EXG_NEW_ARRAY(u->arena, exg_sym_argument, rank);
    exg_named_argument inputs[] = {
        {"self", tensor(id), EXG_KIND_POSITIONAL},
        {"dim", integer(dim), EXG_KIND_POSITIONAL},
    };
    exg_value_id one = new_value(u, node->outputs[0].as_tensor, "once", 0, 0);

    if (sizes == NULL || one == EXG_NO_VALUE) {
        return EXG_OUT_OF_MEMORY(u->err);
    }
    for (uint32_t d = 0; d < rank; d++) {
        sizes[d] = (exg_sym_argument){.value = EXG_NO_VALUE, .as_int = -1};
    }
    sizes[dim] = batch->kind == EXG_ARGUMENT_SYM_INT
                     ? batch->as_sym
                     : (exg_sym_argument){.value = EXG_NO_VALUE, .as_int = batch->as_int};
    EXG_TRY(add_node(u, node, "torch.ops.aten.unsqueeze.default", inputs, 2, tensor(one)));
    inputs[0].arg = tensor(one);
    inputs[1] =
        (exg_named_argument){"size",
                             {.kind = EXG_ARGUMENT_SYM_INTS, .count = rank, .as_syms = sizes},
                             EXG_KIND_POSITIONAL};
    return add_node(u, node, "torch.ops.aten.expand.default", inputs, 2, node->outputs[0]);
}

static exg_status remove_batch(unmarker *u, call *c, const exg_node *node)
{
    exg_value_id id = EXG_NO_VALUE;
    uint32_t dim = 0;

    (void)tensor_and_dim(u->out, node, &id, &dim);
    if (u->places[id] == PLACE_AFTER) {
        return refuse(u, node, "reads the result of the call");
    }
    if (u->places[id] == PLACE_OUTSIDE) {
        return repeat(u, node, id, dim);
    }
    c->removed[c->removed_count++] = node;
    set_outputs(u, node, PLACE_AFTER, 0);
    return EXG_OK;
}

/* How many nodes from the first on belong together: one, or a whole call; 0: a call that begins or
 * ends alone. */
static uint32_t unit_of(const exg_node *nodes, uint32_t count)
{
    uint32_t depth = 0;

    for (uint32_t n = 0; n < count; n++) {
        mark is = mark_of(nodes[n].target);

        if (is == MARK_END && depth == 0) {
            return 0;
        }
        depth += is == MARK_BEGIN;
        depth -= is == MARK_END;
        if (depth == 0) {
            return n + 1;
        }
    }
    return 0;
}

static exg_status unmark_call(unmarker *u, const exg_node *first, uint32_t count);

/* Into the map, or before it. */
static exg_status sort_unit(unmarker *u, call *c, const exg_node *nodes, uint32_t count)
{
    bool mapped = c->all_differ && c->example_count > 0 && nodes->output_count > 0 &&
                  nodes->outputs[0].kind == EXG_ARGUMENT_TENSOR;

    for (uint32_t n = 0; n < count; n++) {
        mapped = mapped || reads(u, &nodes[n], PLACE_MAP);
        if (reads(u, &nodes[n], PLACE_AFTER)) {
            return refuse(u, &nodes[n], "reads the result of the call");
        }
    }
    for (uint32_t n = 0; !mapped && c->node_count > 0 && n < count; n++) {
        if (writes(nodes[n].target)) {
            return refuse(u, &nodes[n], "writes what is not of one example");
        }
    }
    if (!mapped && count > 1) {
        return unmark_call(u, nodes, count);
    }
    for (uint32_t n = 0; n < count; n++) {
        uint32_t example = mapped ? example_of(u, &nodes[n]) : 0;

        if (example > 0 && writes(nodes[n].target)) {
            c->written[example - 1] = true;
        }
        if (mapped) {
            c->nodes[c->node_count++] = nodes[n];
            set_outputs(u, &nodes[n], PLACE_MAP, example);
        } else {
            u->out->nodes[u->out->node_count++] = nodes[n];
        }
    }
    return EXG_OK;
}

typedef struct capture {
    const unmarker *u;
    bool *seen;
    exg_value_id *ids;
    uint32_t count;
} capture;

static void capture_value(void *user, exg_value_id *id)
{
    capture *k = user;

    if (*id != EXG_NO_VALUE && k->u->places[*id] == PLACE_OUTSIDE && !k->seen[*id]) {
        k->seen[*id] = true;
        k->ids[k->count++] = *id;
    }
}

/* What the map's graph reads of the graph around it. */
static exg_status find_captured(unmarker *u, const call *c, capture *k)
{
    *k = (capture){.u = u,
                   .seen = EXG_NEW_ARRAY(u->arena, bool, u->out->value_count),
                   .ids = EXG_NEW_ARRAY(u->arena, exg_value_id, u->out->value_count)};
    if (k->seen == NULL || k->ids == NULL) {
        return EXG_OUT_OF_MEMORY(u->err);
    }
    for (uint32_t n = 0; n < c->node_count; n++) {
        for (uint32_t i = 0; i < c->nodes[n].input_count; i++) {
            exg_argument_visit_values(&c->nodes[n].inputs[i].arg, capture_value, k);
        }
    }
    return EXG_OK;
}

static exg_argument value_argument(const unmarker *u, exg_value_id id)
{
    const exg_value *value = &u->out->values[id];

    if (value->tensor != NULL) {
        return tensor(id);
    }
    return (exg_argument){.kind = value->sym_bool != NULL    ? EXG_ARGUMENT_SYM_BOOL
                                  : value->sym_float != NULL ? EXG_ARGUMENT_SYM_FLOAT
                                                             : EXG_ARGUMENT_SYM_INT,
                          .as_sym = {.value = id}};
}

/* The map's graph: examples and captured values go in; what becomes whole again comes out, then
 * the examples that were written. */
static exg_status map_graph(unmarker *u, const call *c, const capture *k, exg_graph **made)
{
    exg_graph *graph = EXG_NEW(u->arena, exg_graph);

    *made = graph;
    if (graph == NULL) {
        return EXG_OUT_OF_MEMORY(u->err);
    }
    *graph = (exg_graph){
        .inputs = EXG_NEW_ARRAY(u->arena, exg_argument, c->example_count + k->count),
        .outputs = EXG_NEW_ARRAY(u->arena, exg_argument, c->removed_count + c->example_count),
        .nodes = c->nodes,
        .values = u->out->values,
        .node_count = c->node_count,
        .value_count = u->out->value_count};
    if (graph->inputs == NULL || graph->outputs == NULL) {
        return EXG_OUT_OF_MEMORY(u->err);
    }
    for (uint32_t e = 0; e < c->example_count; e++) {
        graph->inputs[graph->input_count++] = tensor(c->examples[e]);
    }
    for (uint32_t i = 0; i < k->count; i++) {
        graph->inputs[graph->input_count++] = value_argument(u, k->ids[i]);
    }
    for (uint32_t r = 0; r < c->removed_count; r++) {
        graph->outputs[graph->output_count++] = c->removed[r]->inputs[0].arg;
    }
    for (uint32_t e = 0; e < c->example_count; e++) {
        if (c->written[e]) {
            graph->outputs[graph->output_count++] = tensor(c->examples[e]);
        }
    }
    return EXG_OK;
}

/* Results of the map, with the examples along dim 0: `results`, as many as its graph gives. */
static exg_status add_map(unmarker *u, const call *c, exg_value_id *results)
{
    exg_graph_argument *body = EXG_NEW(u->arena, exg_graph_argument);
    exg_named_argument inputs[3] = {{.name = "", .kind = EXG_KIND_POSITIONAL},
                                    {.name = "", .kind = EXG_KIND_POSITIONAL},
                                    {.name = "", .kind = EXG_KIND_POSITIONAL}};
    capture k;
    uint32_t count = 0;

    EXG_TRY(find_captured(u, c, &k));
    if (body == NULL) {
        return EXG_OUT_OF_MEMORY(u->err);
    }
    body->name = GRAPH_NAME;
    EXG_TRY(map_graph(u, c, &k, &body->graph));
    for (uint32_t r = 0; r < c->removed_count; r++) {
        exg_value_id whole = c->removed[r]->outputs[0].as_tensor;
        exg_value_id id;
        uint32_t dim = 0;

        (void)tensor_and_dim(u->out, c->removed[r], &id, &dim);
        results[count++] = dim == 0 ? whole : new_value(u, whole, "first", dim, 0);
    }
    for (uint32_t e = 0; e < c->example_count; e++) {
        if (c->written[e]) {
            results[count++] = new_value(u, c->batches[e], "written", 0, 0);
        }
    }
    for (uint32_t r = 0; r < count; r++) {
        if (results[r] == EXG_NO_VALUE) {
            return EXG_NO_MEMORY;
        }
    }
    inputs[0].arg = (exg_argument){.kind = EXG_ARGUMENT_GRAPH, .as_graph = body};
    inputs[1].arg = tensors(c->batches, c->example_count);
    inputs[2].arg = tensors(k.ids, k.count);
    return add_node(u, c->first, "torch.ops.higher_order.map_impl", inputs, 3,
                    tensors(results, count));
}

/* The map, its results where the call has them, and written examples back in their places. */
static exg_status finish_call(unmarker *u, const call *c)
{
    exg_value_id *results =
        EXG_NEW_ARRAY(u->arena, exg_value_id, c->removed_count + c->example_count + 1);
    uint32_t written = c->removed_count;
    bool any = c->removed_count > 0;

    for (uint32_t e = 0; e < c->example_count; e++) {
        any = any || c->written[e];
    }
    if (results == NULL) {
        return EXG_OUT_OF_MEMORY(u->err);
    }
    if (!any) {
        return EXG_OK;
    }
    EXG_TRY(add_map(u, c, results));
    for (uint32_t r = 0; r < c->removed_count; r++) {
        exg_value_id whole = c->removed[r]->outputs[0].as_tensor;

        set_outputs(u, c->removed[r], PLACE_OUTSIDE, 0);
        if (results[r] != whole) {
            EXG_TRY(add_movedim(u, c->removed[r], results[r], 0,
                                c->removed[r]->inputs[3].arg.as_int, whole));
        }
    }
    for (uint32_t e = 0; e < c->example_count; e++) {
        if (c->written[e]) {
            const exg_named_argument inputs[] = {
                {"self", tensor(c->batches[e]), EXG_KIND_POSITIONAL},
                {"src", tensor(results[written]), EXG_KIND_POSITIONAL},
            };
            exg_value_id copied = new_value(u, results[written++], "back", 0, 0);

            if (copied == EXG_NO_VALUE) {
                return EXG_NO_MEMORY;
            }
            EXG_TRY(
                add_node(u, c->first, "torch.ops.aten.copy_.default", inputs, 2, tensor(copied)));
        }
    }
    return EXG_OK;
}

static exg_status begin_call(unmarker *u, const exg_node *first, uint32_t count, call *c)
{
    *c = (call){.first = first,
                .all_differ = strcmp(first->inputs[1].arg.as_string, "different") == 0,
                .nodes = EXG_NEW_ARRAY(u->arena, exg_node, count),
                .removed = EXG_NEW_ARRAY(u->arena, const exg_node *, count),
                .batches = EXG_NEW_ARRAY(u->arena, exg_value_id, count),
                .examples = EXG_NEW_ARRAY(u->arena, exg_value_id, count),
                .written = EXG_NEW_ARRAY(u->arena, bool, count)};
    return c->nodes == NULL || c->removed == NULL || c->batches == NULL || c->examples == NULL ||
                   c->written == NULL
               ? EXG_OUT_OF_MEMORY(u->err)
               : EXG_OK;
}

/* Nothing outside of the call may read what is of one example of it. */
static void end_call(unmarker *u, const call *c)
{
    for (uint32_t e = 0; e < c->example_count; e++) {
        u->places[c->examples[e]] = PLACE_AFTER;
    }
    for (uint32_t n = 0; n < c->node_count; n++) {
        set_outputs(u, &c->nodes[n], PLACE_AFTER, 0);
    }
    u->depth--;
}

/* The call that begins at `first`, of `count` nodes. */
static exg_status unmark_call(unmarker *u, const exg_node *first, uint32_t count)
{
    call c;

    if (++u->depth > DEPTH_MAX) {
        return EXG_FAIL(u->err, LIMIT, "LIM-001", "torch.vmap is nested more than %d deep",
                        DEPTH_MAX);
    }
    EXG_TRY(begin_call(u, first, count, &c));
    for (uint32_t n = 1; n + 1 < count;) {
        uint32_t unit = unit_of(&first[n], count - n);

        switch (mark_of(first[n].target)) {
        case MARK_IDLE:
            break;
        case MARK_ADD:
            EXG_TRY(add_batch(u, &c, &first[n]));
            break;
        case MARK_REMOVE:
            EXG_TRY(remove_batch(u, &c, &first[n]));
            break;
        default:
            EXG_TRY(sort_unit(u, &c, &first[n], unit));
        }
        n += unit;
    }
    EXG_TRY(finish_call(u, &c));
    end_call(u, &c);
    return EXG_OK;
}

bool exg_is_vmap_map(const exg_node *node)
{
    return node->input_count > 0 && node->inputs[0].arg.kind == EXG_ARGUMENT_GRAPH &&
           strcmp(node->inputs[0].arg.as_graph->name, GRAPH_NAME) == 0;
}

/* ---- graphs ------------------------------------------------------------------------------ */

static exg_status look_for_marks(const exg_graph *graph, bool *found, exg_error *err)
{
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const exg_node *node = &graph->nodes[n];

        if (exg_is_vmap_mark(node->target)) {
            *found = true;
            if (!exg_vmap_mark_is_sound(graph, node)) {
                return EXG_FAIL(err, MALFORMED, "GRF-010", "'%s' of torch.vmap has other arguments",
                                node->name == NULL ? node->target : node->name);
            }
        }
    }
    return EXG_OK;
}

/* Room for all that takes the place of a mark: four nodes and four values. */
static exg_status start(unmarker *u, const exg_graph *graph)
{
    uint32_t values = graph->value_count + 4 * graph->node_count;

    *u->out = *graph;
    u->out->node_count = 0;
    u->out->nodes = EXG_NEW_ARRAY(u->arena, exg_node, 4 * graph->node_count);
    u->out->values = EXG_NEW_ARRAY(u->arena, exg_value, values);
    u->places = EXG_NEW_ARRAY(u->arena, place, values);
    u->examples = EXG_NEW_ARRAY(u->arena, uint32_t, values);
    if (u->out->nodes == NULL || u->out->values == NULL || u->places == NULL ||
        u->examples == NULL) {
        return EXG_OUT_OF_MEMORY(u->err);
    }
    memcpy(u->out->values, graph->values, graph->value_count * sizeof(*graph->values));
    return EXG_OK;
}

exg_status exg_unmark_vmap(const exg_graph *graph, exg_arena *arena, exg_graph *out, exg_error *err)
{
    unmarker u = {.arena = arena, .out = out, .err = err};
    search left = {NULL, PLACE_AFTER, false};
    bool found = false;

    *out = *graph;
    EXG_TRY(look_for_marks(graph, &found, err));
    if (!found) {
        return EXG_OK;
    }
    EXG_TRY(start(&u, graph));
    for (uint32_t n = 0; n < graph->node_count;) {
        const exg_node *node = &graph->nodes[n];
        mark is = mark_of(node->target);
        uint32_t unit = unit_of(node, graph->node_count - n);

        if (is == MARK_BEGIN && unit > 0) {
            EXG_TRY_IN(err, unmark_call(&u, node, unit), "nodes[%u]", n);
        } else if (is != MARK_NOT && is != MARK_IDLE) {
            return alone(&u, node);
        } else if (reads(&u, node, PLACE_AFTER)) {
            return refuse(&u, node, "is read after the call");
        } else if (is == MARK_NOT) {
            out->nodes[out->node_count++] = *node;
        }
        n += unit;
    }
    left.places = u.places;
    for (uint32_t o = 0; o < graph->output_count; o++) {
        exg_argument_visit_values(&graph->outputs[o], look_at, &left);
    }
    if (left.found) {
        return EXG_FAIL(err, MALFORMED, "GRF-010", "one example of torch.vmap is an output");
    }
    return EXG_OK;
}
