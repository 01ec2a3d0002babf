/* stages.c - where a program is cut into the stages of a pipeline: between nodes, in their order,
 * where least crosses. */
#include "libexec/sharding/pipeline.h"
#include "libexport/operators/lower.h"

#include <math.h>
#include <string.h>

#define CUTS_MAX 1024 /* places that are looked at, of all between nodes */

typedef struct survey {
    const exg_program *program;
    const exg_operators *operators;
    const exg_costs *costs;
    const exg_link *link;
    exg_arena *arena;
    uint32_t nodes;
    double *ns;      /* by node, then their sums before it */
    double *weights; /* by node: bytes of weights that it is the first to read; sums likewise */
    double *bytes;   /* by place before a node: of what crosses there */
    bool *varies;    /* by value: not the same in every run */
    bool *free;      /* by value */
    exg_value_id *base;
} survey;

/* ---- what stages compute for themselves ------------------------------------------------ */

typedef struct reading {
    const exg_graph *graph;
    const exg_tensor_meta **metas;
    const bool *varies, *free;
    const double *cost; /* by value: to compute it from what is at hand */
    uint32_t count;
    double below;          /* of all that is read */
    double constant_bytes; /* read that is the same in every run */
    bool any_varies, all_free;
} reading;

static void read_value(void *user, exg_value_id *id)
{
    reading *r = user;

    if (*id == EXG_NO_VALUE || r->graph->values[*id].tensor == NULL) {
        return;
    }
    r->metas[r->count++] = r->graph->values[*id].tensor;
    r->any_varies = r->any_varies || r->varies[*id];
    r->all_free = r->all_free && r->free[*id];
    r->below += r->cost[*id];
    r->constant_bytes += r->varies[*id] ? 0 : exg_meta_bytes(r->graph->values[*id].tensor);
}

static double result_bytes(const exg_graph *graph, const exg_node *node)
{
    double bytes = 0;

    for (uint32_t i = 0; i < exg_node_result_count(node); i++) {
        bytes += exg_meta_bytes(graph->values[exg_node_result(node, NULL, i)].tensor);
    }
    return bytes;
}

/* Everything that is known by value and node before places are compared. What every stage that
 * reads it computes for itself, from inputs and weights alone: what is the same in every run, and
 * what takes less time than to send it. */
static exg_status look_at_nodes(survey *s, exg_error *err)
{
    const exg_graph *graph = s->program->graph;
    double *cost = EXG_NEW_ARRAY(s->arena, double, graph->value_count);
    const exg_tensor_meta **metas =
        EXG_NEW_ARRAY(s->arena, const exg_tensor_meta *, exg_most_operands(graph) + 1);

    if (cost == NULL || metas == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < graph->input_count; i++) {
        if (graph->inputs[i].kind == EXG_ARGUMENT_TENSOR) {
            s->free[graph->inputs[i].as_tensor] = true;
            s->varies[graph->inputs[i].as_tensor] =
                s->program->signature.inputs[i].kind == EXG_INPUT_USER;
        }
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const exg_node *node = &graph->nodes[n];
        const exg_operator *op = exg_operators_find(s->operators, node->target);
        uint32_t count = exg_node_result_count(node);
        reading r = {graph, metas, s->varies, s->free, cost, .all_free = true};
        bool stays = op == NULL || exg_is_exchange(op->id) || op->stream != EXG_NOT_DRAWN;
        double bytes = result_bytes(graph, node);
        double ns;

        for (uint32_t i = 0; i < node->input_count; i++) {
            exg_argument_visit_values((exg_argument *)&node->inputs[i].arg, read_value, &r);
        }
        ns = op == NULL || count == 0
                 ? 0
                 : exg_predict_work(s->costs, op, metas, r.count,
                                    graph->values[exg_node_result(node, NULL, 0)].tensor);
        r.any_varies = r.any_varies || stays;
        s->ns[n] = r.any_varies ? ns : 0;
        for (uint32_t i = 0; i < count; i++) {
            exg_value_id id = exg_node_result(node, NULL, i);

            s->varies[id] = r.any_varies;
            cost[id] = r.any_varies ? r.below + ns : 0;
            s->free[id] = !stays && r.all_free &&
                          (!r.any_varies ||
                           (r.constant_bytes <= bytes &&
                            r.below + ns <= s->link->message_ns + bytes * s->link->ns_per_byte));
        }
    }
    return EXG_OK;
}

static bool open_survey(survey *s, const exg_program *program, const exg_operators *operators,
                        const exg_partition_goal *goal, uint32_t mesh_dim, exg_arena *arena)
{
    uint32_t values = program->graph->value_count;

    *s = (survey){.program = program,
                  .operators = operators,
                  .costs = goal->costs,
                  .link = &goal->costs->links[mesh_dim],
                  .arena = arena,
                  .nodes = program->graph->node_count};
    s->ns = EXG_NEW_ARRAY(arena, double, s->nodes + 1);
    s->weights = EXG_NEW_ARRAY(arena, double, s->nodes + 1);
    s->bytes = EXG_NEW_ARRAY(arena, double, s->nodes + 1);
    s->varies = EXG_NEW_ARRAY(arena, bool, values);
    s->free = EXG_NEW_ARRAY(arena, bool, values);
    s->base = EXG_NEW_ARRAY(arena, exg_value_id, values);
    return s->ns != NULL && s->weights != NULL && s->bytes != NULL && s->varies != NULL &&
           s->free != NULL && s->base != NULL;
}

/* ---- what crosses ---------------------------------------------------------------------------- */

typedef struct crossing {
    survey *s;
    uint32_t node;
    uint32_t *last; /* by value: the node that reads it last */
    bool *read;     /* by value: of a weight, was it read? */
} crossing;

static void note_reader(void *user, exg_value_id *id)
{
    crossing *c = user;
    const exg_tensor_meta *meta =
        *id == EXG_NO_VALUE ? NULL : c->s->program->graph->values[*id].tensor;
    exg_value_id base;

    if (meta == NULL) {
        return;
    }
    base = c->s->base[*id];
    c->last[*id] = c->node;
    if (!c->s->varies[base] && !c->read[base]) { /* made of weights, or one */
        c->read[base] = true;
        c->s->weights[c->node] += exg_meta_bytes(c->s->program->graph->values[base].tensor);
    }
}

/* Bytes that cross before each node, from where values are made and read last. */
static exg_status find_crossings(survey *s, exg_error *err)
{
    const exg_graph *graph = s->program->graph;
    crossing c = {s, 0, EXG_NEW_ARRAY(s->arena, uint32_t, graph->value_count),
                  EXG_NEW_ARRAY(s->arena, bool, graph->value_count)};

    if (c.last == NULL || c.read == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t v = 0; v < graph->value_count; v++) {
        s->base[v] = v;
    }
    for (uint32_t n = 0; n < s->nodes; n++) {
        const exg_node *node = &graph->nodes[n];

        c.node = n;
        if (exg_is_view_node(exg_operators_find(s->operators, node->target), node) &&
            !s->varies[node->inputs[0].arg.as_tensor]) {
            s->base[node->outputs[0].as_tensor] = s->base[node->inputs[0].arg.as_tensor];
            continue; /* of a weight: whoever reads the view reads that */
        }
        for (uint32_t i = 0; i < node->input_count; i++) {
            exg_argument_visit_values((exg_argument *)&node->inputs[i].arg, note_reader, &c);
        }
    }
    for (uint32_t n = 0; n < s->nodes; n++) {
        for (uint32_t i = 0; i < exg_node_result_count(&graph->nodes[n]); i++) {
            exg_value_id id = exg_node_result(&graph->nodes[n], NULL, i);
            double bytes = exg_meta_bytes(graph->values[id].tensor);

            if (!s->free[id] && c.last[id] > n) {
                s->bytes[n + 1] += bytes; /* from there on, */
                if (c.last[id] < s->nodes) {
                    s->bytes[c.last[id] + 1] -= bytes; /* to there */
                }
            }
        }
    }
    return EXG_OK;
}

/* To sums: of bytes those alive, of the others those of the nodes before. */
static void add_up(survey *s)
{
    double ns = 0, weights = 0;

    for (uint32_t n = 0; n <= s->nodes; n++) {
        double own_ns = n < s->nodes ? s->ns[n] : 0;
        double own_weights = n < s->nodes ? s->weights[n] : 0;

        s->ns[n] = ns;
        s->weights[n] = weights;
        ns += own_ns;
        weights += own_weights;
        s->bytes[n] = n == 0 ? 0 : s->bytes[n - 1] + s->bytes[n];
        s->bytes[n] = s->bytes[n] < 0.5 ? 0 : s->bytes[n]; /* but for rounding */
    }
}

/* ---- places ------------------------------------------------------------------------------- */

/* Of runs of nodes that take as long as each other the place where least crosses. */
static uint32_t find_places(const survey *s, uint32_t *places)
{
    uint32_t count = 0;
    double whole = s->ns[s->nodes] + 1;
    double before = -1;

    places[count++] = 0;
    for (uint32_t n = 1; n < s->nodes; n++) {
        double run = s->nodes < CUTS_MAX
                         ? n
                         : floor((s->ns[n] / whole + (double)n / s->nodes) / 2 * (CUTS_MAX - 2));

        if (run != before) {
            places[count++] = n;
            before = run;
        } else if (s->bytes[n] < s->bytes[places[count - 1]]) {
            places[count - 1] = n;
        }
    }
    if (s->nodes > 0) {
        places[count++] = s->nodes;
    }
    return count;
}

/* Messages take their time once, bytes the wire's. */
static double stage_ns(const survey *s, uint32_t from, uint32_t to)
{
    return s->ns[to] - s->ns[from] + (s->bytes[from] + s->bytes[to]) * s->link->ns_per_byte;
}

static double stage_weights(const survey *s, uint32_t from, uint32_t to)
{
    return s->weights[to] - s->weights[from];
}

static double crossing_bytes(const survey *s, uint32_t from, uint32_t to)
{
    (void)from;
    return to == s->nodes ? 0 : s->bytes[to];
}

/* What is to be small, and what of a stage must not be larger. */
typedef struct cut_aim {
    double (*of)(const survey *s, uint32_t from, uint32_t to);
    bool sums; /* of all stages together; else of the largest */
    double longest, largest;
} cut_aim;

/* The best way to cut what is before each place. */
typedef struct way {
    double cost;
    uint32_t from; /* the place before */
} way;

/* Rows of `count` ways, one a stage; gives the cost of the best. */
static double find_ways(const survey *s, const uint32_t *places, uint32_t count, uint32_t stages,
                        const cut_aim *aim, way *ways)
{
    for (uint32_t k = 0; k < stages; k++) {
        for (uint32_t to = 0; to < count; to++) {
            way *best = &ways[(size_t)k * count + to];

            *best = (way){INFINITY, 0};
            for (uint32_t from = to + 1; from-- > 0;) {
                double own = aim->of(s, places[from], places[to]);
                double work = s->ns[places[to]] - s->ns[places[from]];
                double before = k == 0 ? 0 : ways[(size_t)(k - 1) * count + from].cost;

                if (work > aim->longest ||
                    stage_weights(s, places[from], places[to]) > aim->largest ||
                    (!aim->sums && (aim->of == stage_ns ? work : own) > best->cost)) {
                    break; /* and more still from earlier places */
                }
                own = aim->sums ? own + before : own > before ? own : before;
                if ((k > 0 || from == 0) && own < best->cost &&
                    stage_ns(s, places[from], places[to]) <= aim->longest) {
                    *best = (way){own, from};
                }
            }
        }
    }
    return ways[(size_t)stages * count - 1].cost;
}

#define SLACK 1.1 /* of the longest, or largest, stage, for the sake of what is looked at next */

/* The longest stage is to be short; of those ways the largest small; of those little crosses. */
static exg_status cut(const survey *s, const exg_stages *stages, uint32_t *bounds, exg_error *err)
{
    uint32_t *places = EXG_NEW_ARRAY(s->arena, uint32_t, CUTS_MAX + s->nodes % CUTS_MAX + 2);
    uint32_t count = places == NULL ? 0 : find_places(s, places);
    way *ways = EXG_NEW_ARRAY(s->arena, way, (size_t)stages->count * count + 1);
    uint32_t at = count == 0 ? 0 : count - 1;
    cut_aim aim = {stage_ns, false, INFINITY, INFINITY};

    if (places == NULL || ways == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    aim.longest = find_ways(s, places, count, stages->count, &aim, ways) * SLACK;
    aim.of = stage_weights;
    aim.largest = find_ways(s, places, count, stages->count, &aim, ways) * SLACK;
    aim.of = crossing_bytes;
    aim.sums = true;
    (void)find_ways(s, places, count, stages->count, &aim, ways);
    bounds[stages->count] = s->nodes;
    for (uint32_t k = stages->count; k-- > 0;) {
        at = ways[(size_t)k * count + at].from;
        bounds[k] = places[at];
    }
    return EXG_OK;
}

/* ---- stages ------------------------------------------------------------------------------- */

typedef struct following {
    const exg_graph *graph;
    uint32_t *first; /* by value: the first stage that reads it */
    uint32_t stage;
} following;

static void note_stage(void *user, exg_value_id *id)
{
    following *f = user;

    if (*id != EXG_NO_VALUE && f->first[*id] > f->stage) {
        f->first[*id] = f->stage;
    }
}

/* What is made of weights alone goes to the first stage that reads it. */
static exg_status place_constants(const survey *s, exg_stages *stages, exg_error *err)
{
    const exg_graph *graph = s->program->graph;
    following f = {graph, EXG_NEW_ARRAY(s->arena, uint32_t, graph->value_count), 0};

    if (f.first == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t v = 0; v < graph->value_count; v++) {
        f.first[v] = EXG_NO_STAGE;
    }
    for (uint32_t n = s->nodes; n-- > 0;) {
        const exg_node *node = &graph->nodes[n];

        if (exg_node_result_count(node) > 0) {
            exg_value_id id = exg_node_result(node, NULL, 0);

            if (!s->varies[id] && f.first[id] != EXG_NO_STAGE) {
                stages->of_nodes[n] = f.first[id];
            }
        }
        f.stage = stages->of_nodes[n];
        for (uint32_t i = 0; i < node->input_count; i++) {
            exg_argument_visit_values((exg_argument *)&node->inputs[i].arg, note_stage, &f);
        }
    }
    return EXG_OK;
}

exg_status exg_stages_find(const exg_program *functional, const exg_operators *operators,
                           const exg_partition_goal *goal, uint32_t mesh_dim, uint32_t count,
                           exg_arena *arena, exg_stages *stages, exg_error *err)
{
    uint32_t nodes = functional->graph->node_count;
    uint32_t *bounds = EXG_NEW_ARRAY(arena, uint32_t, (size_t)count + 1);
    survey s;

    *stages = (exg_stages){.count = count};
    stages->of_nodes = EXG_NEW_ARRAY(arena, uint32_t, nodes);
    stages->ns = EXG_NEW_ARRAY(arena, double, count);
    stages->weight_bytes = EXG_NEW_ARRAY(arena, double, count);
    stages->sent_bytes = EXG_NEW_ARRAY(arena, double, count);
    stages->nodes = EXG_NEW_ARRAY(arena, uint32_t, count);
    if (bounds == NULL || stages->of_nodes == NULL || stages->ns == NULL ||
        stages->weight_bytes == NULL || stages->sent_bytes == NULL || stages->nodes == NULL ||
        !open_survey(&s, functional, operators, goal, mesh_dim, arena)) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY(look_at_nodes(&s, err));
    EXG_TRY(find_crossings(&s, err));
    add_up(&s);
    EXG_TRY(cut(&s, stages, bounds, err));
    for (uint32_t k = 0; k < count; k++) {
        stages->ns[k] = stage_ns(&s, bounds[k], bounds[k + 1]);
        stages->weight_bytes[k] = s.weights[bounds[k + 1]] - s.weights[bounds[k]];
        stages->sent_bytes[k] = s.bytes[bounds[k + 1]];
        stages->nodes[k] = bounds[k + 1] - bounds[k];
        for (uint32_t n = bounds[k]; n < bounds[k + 1]; n++) {
            stages->of_nodes[n] = k;
        }
    }
    EXG_TRY(place_constants(&s, stages, err));
    for (uint32_t n = 0; n < nodes; n++) {
        const exg_node *node = &functional->graph->nodes[n];
        bool free = exg_node_result_count(node) > 0 && s.free[exg_node_result(node, NULL, 0)];

        stages->of_nodes[n] |= free ? EXG_STAGE_FREE : 0;
    }
    return EXG_OK;
}

exg_status exg_stage_note(exg_stage_notes *notes, const exg_rewrite *r, uint32_t from,
                          uint32_t node)
{
    uint32_t count = r->out->graph->node_count;

    if (notes->of == NULL) {
        return EXG_OK;
    }
    while (notes->capacity <= count) { /* there is an array, also of none */
        if (!exg_arena_reserve(notes->arena, &notes->made, notes->capacity, &notes->capacity,
                               sizeof(*notes->made))) {
            return EXG_OUT_OF_MEMORY(r->err);
        }
    }
    for (uint32_t n = from; n < count; n++) {
        notes->made[n] = node < r->in->graph->node_count ? notes->of[node] : EXG_NO_STAGE;
    }
    return EXG_OK;
}
