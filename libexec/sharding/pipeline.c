/* pipeline.c - what a rank runs of a pipeline: its stage of one micro-batch after another, and
 * after each, at the same time on all ranks, a move from every stage to the next. What is needed
 * further on goes through all stages on the way.
 *
 *   tick        0      1      2      3
 *   stage 0     A0     A1
 *   stage 1            B0     B1               an exchange after every tick but the last
 *   stage 2                   C0     C1
 *
 * A rank may have several stages, those that are its number modulo the ranks: then as many
 * micro-batches as there are ranks go through all stages in turn, before the next as many begin,
 * and a rank waits as often, but each time for a shorter stage.
 */
#include "libexec/sharding/pipeline.h"
#include "libexport/base/map.h"
#include "libexport/operators/lower.h"

#include <exg/emit.h>
#include <exg/operator_id_new.h>
#include <string.h>

/* A micro-batch being added. */
typedef struct batch {
    exg_rewrite r;  /* into the one program */
    bool *free;     /* by value: each stage that reads it computes it */
    uint32_t *made; /* by value: the node that gives it; UINT32_MAX: an input */
    uint32_t *of;   /* by node: its stage */
    uint32_t *last; /* by value: the last stage that reads it */
    bool *needed;   /* by node: by the stage that is added */
} batch;

typedef struct pipeline {
    exg_rewrite r; /* of the whole program: its inputs and outputs */
    exg_pipeline_shape shape;
    uint32_t rank;
    batch *batches;
    uint32_t count;
    uint32_t *owners;      /* by output: the stage that has it; EXG_NO_STAGE: each computes it */
    exg_map known;         /* nodes that all micro-batches share, by what they are */
    exg_argument *results; /* of those */
    uint32_t known_count;
    exg_arena *arena;
} pipeline;

/* ---- which stage ----------------------------------------------------------------------------- */

typedef struct visit {
    batch *b;
    uint32_t stage;
    bool all_free;
} visit;

static bool is_free(const batch *b, exg_value_id id)
{
    return b->made[id] == UINT32_MAX || b->free[id];
}

static bool is_free_node(const batch *b, uint32_t n)
{
    const exg_node *node = &b->r.in->graph->nodes[n];

    return exg_node_result_count(node) > 0 && b->free[exg_node_result(node, NULL, 0)];
}

static void latest_stage(void *user, exg_value_id *id)
{
    visit *v = user;

    if (*id != EXG_NO_VALUE && !is_free(v->b, *id) && v->b->of[v->b->made[*id]] > v->stage) {
        v->stage = v->b->of[v->b->made[*id]];
    }
}

static void see_free(void *user, exg_value_id *id)
{
    visit *v = user;

    v->all_free = v->all_free && (*id == EXG_NO_VALUE || is_free(v->b, *id));
}

static void note_last(void *user, exg_value_id *id)
{
    visit *v = user;

    if (*id != EXG_NO_VALUE && v->b->last[*id] < v->stage) {
        v->b->last[*id] = v->stage;
    }
}

static void visit_operands(const exg_node *node, void (*each)(void *, exg_value_id *), void *user)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        exg_argument_visit_values((exg_argument *)&node->inputs[i].arg, each, user);
    }
}

/* What the whole program's stages compute for themselves, if no move is in it. Not by what it takes
 * on this rank: ranks whose parts are of other sizes come to the same. */
static bool find_free(batch *b, const exg_operators *operators, const exg_node *node,
                      uint32_t given)
{
    const exg_operator *op = exg_operators_find(operators, node->target);
    visit v = {b, 0, op != NULL && !exg_is_exchange(op->id) && (given & EXG_STAGE_FREE) != 0};

    visit_operands(node, see_free, &v);
    return v.all_free;
}

/* A node is of its own stage, but of none before those of what it reads. */
static void find_stages(batch *b, const exg_operators *operators, const uint32_t *given)
{
    const exg_graph *graph = b->r.in->graph;

    for (uint32_t n = 0; n < graph->node_count; n++) {
        visit v = {b, given[n] == EXG_NO_STAGE ? 0 : given[n] & ~EXG_STAGE_FREE, false};
        bool free = find_free(b, operators, &graph->nodes[n], given[n]);

        for (uint32_t i = 0; i < exg_node_result_count(&graph->nodes[n]); i++) {
            exg_value_id id = exg_node_result(&graph->nodes[n], NULL, i);

            b->made[id] = n;
            b->free[id] = free;
        }
        visit_operands(&graph->nodes[n], latest_stage, &v);
        b->of[n] = v.stage;
        if (!is_free_node(b, n)) {
            visit_operands(&graph->nodes[n], note_last, &v);
        }
    }
}

static exg_status open_batch(pipeline *p, const exg_pipelined *from, const exg_operators *operators,
                             batch *b)
{
    const exg_graph *graph = from->program->graph;
    uint32_t at = 0;

    b->r = p->r;
    b->r.in = from->program;
    b->r.refs = EXG_NEW_ARRAY(p->arena, exg_ref, graph->value_count);
    b->free = EXG_NEW_ARRAY(p->arena, bool, graph->value_count);
    b->made = EXG_NEW_ARRAY(p->arena, uint32_t, graph->value_count);
    b->last = EXG_NEW_ARRAY(p->arena, uint32_t, graph->value_count);
    b->of = EXG_NEW_ARRAY(p->arena, uint32_t, graph->node_count);
    b->needed = EXG_NEW_ARRAY(p->arena, bool, graph->node_count);
    if (b->r.refs == NULL || b->free == NULL || b->made == NULL || b->last == NULL ||
        b->of == NULL || b->needed == NULL) {
        return EXG_OUT_OF_MEMORY(p->r.err);
    }
    for (uint32_t v = 0; v < graph->value_count; v++) {
        b->r.refs[v] = EXG_NO_REF;
        b->made[v] = UINT32_MAX;
    }
    for (; at < graph->input_count; at++) { /* the same, in their order */
        if (graph->inputs[at].kind == EXG_ARGUMENT_TENSOR) {
            b->r.refs[graph->inputs[at].as_tensor] =
                p->r.refs[p->r.in->graph->inputs[at].as_tensor];
        }
    }
    find_stages(b, operators, from->stages);
    return EXG_OK;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* false: it cannot be compared. */
static bool put_argument(exg_text *text, const exg_argument *arg)
{
    exg_text_printf(text, " %d:", (int)arg->kind);
    switch (arg->kind) {
    case EXG_ARGUMENT_TENSOR:
        exg_text_printf(text, "%u", arg->as_tensor);
        break;
    case EXG_ARGUMENT_TENSORS:
    case EXG_ARGUMENT_OPTIONAL_TENSORS:
        for (uint32_t i = 0; i < arg->count; i++) {
            exg_text_printf(text, "%u,", arg->as_tensors[i]);
        }
        break;
    case EXG_ARGUMENT_INT:
        exg_text_printf(text, "%lld", (long long)arg->as_int);
        break;
    case EXG_ARGUMENT_FLOAT:
        exg_text_printf(text, "%a", arg->as_float);
        break;
    case EXG_ARGUMENT_BOOL:
        exg_text_printf(text, "%d", arg->as_bool);
        break;
    case EXG_ARGUMENT_STRING:
        exg_text_puts(text, arg->as_string);
        break;
    case EXG_ARGUMENT_NONE:
        break;
    case EXG_ARGUMENT_INTS:
        for (uint32_t i = 0; i < arg->count; i++) {
            exg_text_printf(text, "%lld,", (long long)arg->as_ints[i]);
        }
        break;
    case EXG_ARGUMENT_SCALAR_TYPE:
        exg_text_printf(text, "%d", (int)arg->as_scalar_type);
        break;
    default:
        return false;
    }
    return true;
}

/* What is made of inputs and weights alone is made once for all micro-batches that make it alike.
 */
static exg_status add_known(pipeline *p, batch *b, const exg_node *node, const exg_operator *op,
                            const exg_argument *args)
{
    exg_text text = EXG_TEXT_EMPTY;
    bool compares = true;
    const char *key;
    uint32_t found;

    exg_text_puts(&text, op->target);
    for (uint32_t i = 0; i < op->schema->argument_count; i++) {
        compares = put_argument(&text, &args[i]) && compares;
    }
    key = text.failed || !compares ? NULL : exg_arena_strdup(p->arena, text.data);
    exg_text_free(&text);
    found = key == NULL ? EXG_MAP_NONE : exg_map_find(&p->known, key);
    if (found != EXG_MAP_NONE) {
        exg_rewrite_set(&b->r, node, &p->results[found]);
        return EXG_OK;
    }
    EXG_TRY(exg_rewrite_copy(&b->r, node, op, args));
    if (key == NULL || node->output_count != 1 || node->outputs[0].kind != EXG_ARGUMENT_TENSOR) {
        return EXG_OK;
    }
    p->results[p->known_count] = exg_arg_ref(b->r.refs[node->outputs[0].as_tensor]);
    return exg_map_put(&p->known, key, p->known_count++) ? EXG_OK : EXG_OUT_OF_MEMORY(p->r.err);
}

static exg_status add_node(pipeline *p, batch *b, uint32_t n)
{
    const exg_node *node = &b->r.in->graph->nodes[n];
    exg_argument args[EXG_ARGUMENTS_MAX];
    const exg_operator *op;

    EXG_TRY_IN(p->r.err, exg_rewrite_args(&b->r, node, &op, args), "graph.nodes[%u]", n);
    return is_free_node(b, n) ? add_known(p, b, node, op, args)
                              : exg_rewrite_copy(&b->r, node, op, args);
}

static void note_needed(void *user, exg_value_id *id)
{
    batch *b = user;

    if (*id != EXG_NO_VALUE && is_free(b, *id) && b->made[*id] != UINT32_MAX) {
        b->needed[b->made[*id]] = true;
    }
}

/* Is it of this rank? What each computes for itself is. */
static bool is_own(const pipeline *p, uint32_t owner)
{
    return owner == EXG_NO_STAGE || owner % p->shape.ranks == p->rank;
}

static bool is_added(const batch *b, uint32_t n)
{
    const exg_node *node = &b->r.in->graph->nodes[n];

    return exg_node_result_count(node) > 0 &&
           b->r.refs[exg_node_result(node, NULL, 0)].id != EXG_NO_VALUE;
}

/* The stage's nodes, and of what every stage computes for itself all that they, or results that
 * the stage gives, are made of. */
static exg_status add_stage(pipeline *p, batch *b, uint32_t stage)
{
    const exg_graph *graph = b->r.in->graph;

    memset(b->needed, 0, graph->node_count * sizeof(*b->needed));
    for (uint32_t o = 0; o < graph->output_count; o++) {
        exg_value_id id = graph->outputs[o].as_tensor;

        if (graph->outputs[o].kind == EXG_ARGUMENT_TENSOR && is_own(p, p->owners[o])) {
            note_needed(b, &id);
        }
    }
    for (uint32_t n = graph->node_count; n-- > 0;) {
        b->needed[n] = b->needed[n] || (b->of[n] == stage && !is_free_node(b, n));
        if (b->needed[n]) {
            visit_operands(&graph->nodes[n], note_needed, b);
        }
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        if (b->needed[n] && !(is_free_node(b, n) && is_added(b, n))) {
            EXG_TRY(add_node(p, b, n));
        }
    }
    return EXG_OK;
}

/* ---- moves ----------------------------------------------------------------------------------- */

static bool crosses(const batch *b, exg_value_id id, uint32_t stage)
{
    return !is_free(b, id) && b->of[b->made[id]] <= stage && b->last[id] > stage;
}

/* What goes from `stage` to the next, those of wide elements first: so all are aligned. */
static int64_t find_crossing(const batch *b, uint32_t stage, exg_value_id *ids, uint32_t *count)
{
    const exg_graph *graph = b->r.in->graph;
    int64_t bytes = 0;

    *count = 0;
    for (uint32_t width = 16; width > 0; width /= 2) {
        for (uint32_t v = 0; v < graph->value_count; v++) {
            if (graph->values[v].tensor != NULL &&
                exg_dtype_bytes(graph->values[v].tensor->dtype) == width && crosses(b, v, stage)) {
                bytes += (int64_t)exg_meta_bytes(graph->values[v].tensor);
                ids[(*count)++] = v;
            }
        }
    }
    return bytes;
}

static exg_ref as_bytes(pipeline *p, exg_ref ref, const exg_tensor_meta *meta)
{
    exg_builder *b = p->r.builder;
    int64_t numel = (int64_t)exg_meta_bytes(meta) / exg_dtype_bytes(meta->dtype);
    exg_ref flat = EMIT(b, reshape_default, ref, INTS(b, numel));

    flat = exg_lower_is_contiguous(b, flat) ? flat : exg_lower_row_major(b, flat);
    return meta->dtype == EXG_DTYPE_U8 ? flat : EMIT(b, view_dtype, flat, DTYPE(EXG_DTYPE_U8));
}

static exg_ref no_bytes(pipeline *p)
{
    return EMIT(p->r.builder, full_default, INTS(p->r.builder, 0), 0, DTYPE(EXG_DTYPE_U8));
}

static exg_status pack(pipeline *p, batch *b, const exg_value_id *ids, uint32_t count, exg_ref *out)
{
    exg_value_id *items = EXG_NEW_ARRAY(p->r.out->arena, exg_value_id, count + 1);
    exg_argument parts = {.kind = EXG_ARGUMENT_TENSORS, .as_tensors = items, .count = count};

    if (items == NULL) {
        return EXG_OUT_OF_MEMORY(p->r.err);
    }
    for (uint32_t i = 0; i < count; i++) {
        items[i] = as_bytes(p, b->r.refs[ids[i]], b->r.in->graph->values[ids[i]].tensor).id;
    }
    *out = count == 1 ? (exg_ref){items[0]} : EMIT(p->r.builder, cat_default, parts, 0);
    return exg_builder_status(p->r.builder);
}

static void unpack(pipeline *p, batch *b, const exg_value_id *ids, uint32_t count, exg_ref from)
{
    exg_builder *builder = p->r.builder;
    int64_t at = 0;

    for (uint32_t i = 0; i < count; i++) {
        const exg_tensor_meta *meta = b->r.in->graph->values[ids[i]].tensor;
        int64_t bytes = (int64_t)exg_meta_bytes(meta);
        int64_t sizes[EXG_SHAPE_RANK_MAX];
        exg_ref part = count == 1 ? from : EMIT(builder, slice_Tensor, from, 0, at, at + bytes, 1);

        for (uint32_t d = 0; d < meta->rank; d++) {
            sizes[d] = meta->sizes[d].value;
        }
        part = meta->dtype == EXG_DTYPE_U8 ? part
                                           : EMIT(builder, view_dtype, part, DTYPE(meta->dtype));
        exg_builder_next_names(builder, &b->r.in->graph->values[ids[i]].name, 1);
        b->r.refs[ids[i]] = EMIT(builder, view_default, part, INTS_OF(builder, sizes, meta->rank));
        at += bytes;
    }
}

/* What rank `rank` runs in a tick: a stage of a micro-batch; false: nothing. */
static bool find_turn(const pipeline *p, uint32_t rank, uint32_t tick, uint32_t *m, uint32_t *stage)
{
    uint32_t ranks = p->shape.ranks;
    uint32_t at = tick - rank;

    if (tick < rank) {
        return false;
    }
    *stage = at % p->shape.stages / ranks * ranks + rank;
    *m = at / p->shape.stages * ranks + at % ranks;
    return *m < p->count;
}

uint32_t exg_pipeline_ticks(const exg_pipeline_shape *shape)
{
    uint32_t last = shape->batches - 1;

    return last / shape->ranks * shape->stages + last % shape->ranks + shape->stages;
}

/* What goes from a rank to the next after a tick. */
typedef struct parcel {
    batch *of; /* NULL: nothing */
    exg_value_id *ids;
    uint32_t count;
    int64_t bytes;
} parcel;

static exg_status find_parcel(const pipeline *p, uint32_t rank, uint32_t tick, parcel *out)
{
    uint32_t m, stage;

    *out = (parcel){NULL, NULL, 0, 0};
    if (!find_turn(p, rank, tick, &m, &stage) || stage + 1 >= p->shape.stages) {
        return EXG_OK;
    }
    out->of = &p->batches[m];
    out->ids = EXG_NEW_ARRAY(p->arena, exg_value_id, out->of->r.in->graph->value_count);
    if (out->ids == NULL) {
        return EXG_OUT_OF_MEMORY(p->r.err);
    }
    out->bytes = find_crossing(out->of, stage, out->ids, &out->count);
    return EXG_OK;
}

/* After tick `tick`, if anything may go from any stage to the next: on other ranks, whose parts are
 * of other sizes, something does where nothing goes here. */
static exg_status move_on(pipeline *p, uint32_t tick)
{
    exg_builder *b = p->r.builder;
    uint32_t ranks = p->shape.ranks;
    uint32_t before = (p->rank + ranks - 1) % ranks;
    int64_t *counts = EXG_NEW_ARRAY(p->arena, int64_t, 2 * (size_t)ranks);
    bool any = false;
    uint32_t m, stage;
    parcel goes, comes;
    exg_ref sent = EXG_NO_REF;

    if (counts == NULL) {
        return EXG_OUT_OF_MEMORY(p->r.err);
    }
    exg_builder_set_origin(b, &(exg_string_map){0});
    for (uint32_t r = 0; r < ranks && !any; r++) {
        any = find_turn(p, r, tick, &m, &stage) && stage + 1 < p->shape.used;
    }
    EXG_TRY(find_parcel(p, p->rank, tick, &goes));
    EXG_TRY(find_parcel(p, before, tick, &comes));
    if (any) {
        counts[before] = comes.bytes;
        counts[ranks + (p->rank + 1) % ranks] = goes.bytes;
        if (goes.count > 0) {
            EXG_TRY(pack(p, goes.of, goes.ids, goes.count, &sent));
        } else {
            sent = no_bytes(p);
        }
        exg_builder_next_names(b, (const char *const[]){"send"}, 1);
        sent = EMIT(b, exg_all_to_all_single, sent, INTS_OF(b, counts, ranks),
                    INTS_OF(b, counts + ranks, ranks), p->shape.mesh_dim);
    } else if (comes.count > 0) {
        sent = no_bytes(p); /* tensors without elements */
    }
    if (comes.count > 0) {
        unpack(p, comes.of, comes.ids, comes.count, sent);
    }
    return exg_builder_status(b);
}

/* ---- results --------------------------------------------------------------------------------- */

/* Of all micro-batches together, as their stage, or every rank, has them. */
static exg_status join(pipeline *p, uint32_t o, exg_placement lies, exg_ref *out)
{
    exg_builder *b = p->r.builder;
    exg_value_id *items = EXG_NEW_ARRAY(p->r.out->arena, exg_value_id, p->count);
    exg_argument parts = {.kind = EXG_ARGUMENT_TENSORS, .as_tensors = items, .count = p->count};

    if (items == NULL) {
        return EXG_OUT_OF_MEMORY(p->r.err);
    }
    for (uint32_t m = 0; m < p->count; m++) {
        const batch *of = &p->batches[m];

        items[m] = of->r.refs[of->r.in->graph->outputs[o].as_tensor].id;
    }
    *out = (exg_ref){items[0]};
    if (p->count > 1 && lies.kind == EXG_SHARD) {
        *out = EMIT(b, cat_default, parts, lies.dim);
    }
    for (uint32_t m = 1; lies.kind == EXG_PARTIAL && m < p->count; m++) {
        *out = EMIT(b, add_Tensor, *out, (exg_ref){items[m]});
    }
    return exg_builder_status(b);
}

/* The latest stage at which a micro-batch has it, to which it goes in all. */
static void find_owners(pipeline *p)
{
    const exg_graph *whole = p->r.in->graph;

    for (uint32_t o = 0; o < whole->output_count; o++) {
        p->owners[o] = EXG_NO_STAGE;
        for (uint32_t m = 0; whole->outputs[o].kind == EXG_ARGUMENT_TENSOR && m < p->count; m++) {
            const batch *b = &p->batches[m];
            exg_value_id id = b->r.in->graph->outputs[o].as_tensor;
            uint32_t stage = is_free(b, id) ? EXG_NO_STAGE : b->of[b->made[id]];

            if (stage != EXG_NO_STAGE && (p->owners[o] == EXG_NO_STAGE || stage > p->owners[o])) {
                p->owners[o] = stage;
            }
        }
        for (uint32_t m = 0; p->owners[o] != EXG_NO_STAGE && m < p->count; m++) {
            exg_value_id id = p->batches[m].r.in->graph->outputs[o].as_tensor;

            note_last(&(visit){&p->batches[m], p->owners[o], false}, &id);
        }
    }
}

/* Zeros where another stage has it. */
static exg_ref stand_in(pipeline *p, const exg_tensor_meta *meta)
{
    int64_t sizes[EXG_SHAPE_RANK_MAX];

    for (uint32_t d = 0; d < meta->rank; d++) {
        sizes[d] = meta->sizes[d].value;
    }
    return EMIT(p->r.builder, full_default, INTS_OF(p->r.builder, sizes, meta->rank), 0,
                DTYPE(meta->dtype));
}

static exg_status add_output(pipeline *p, uint32_t o, exg_placement lies)
{
    const exg_graph *whole = p->r.in->graph;
    const exg_output_spec *spec = &p->r.in->signature.outputs[o];
    exg_argument arg = whole->outputs[o];

    if (arg.kind == EXG_ARGUMENT_TENSOR) {
        uint32_t owner = p->owners[o];
        exg_ref ref;

        if (is_own(p, owner)) {
            EXG_TRY(join(p, o, lies, &ref));
        } else {
            ref = stand_in(p, whole->values[arg.as_tensor].tensor);
        }
        if (owner != EXG_NO_STAGE && p->shape.ranks > 1) {
            ref = EMIT(p->r.builder, exg_broadcast, ref, owner % p->shape.ranks, p->shape.mesh_dim);
        }
        arg = exg_arg_ref(ref);
    }
    exg_builder_output(p->r.builder, &arg, spec->kind, exg_rewrite_text(&p->r, spec->target));
    return exg_builder_status(p->r.builder);
}

static exg_status build(pipeline *p, const exg_placement *outputs)
{
    uint32_t ticks = exg_pipeline_ticks(&p->shape);

    find_owners(p);
    for (uint32_t tick = 0; tick < ticks; tick++) {
        uint32_t m, stage;

        if (find_turn(p, p->rank, tick, &m, &stage)) {
            EXG_TRY(add_stage(p, &p->batches[m], stage));
        }
        if (tick + 1 < ticks) {
            EXG_TRY(move_on(p, tick));
        }
    }
    for (uint32_t o = 0; o < p->r.in->graph->output_count; o++) {
        EXG_TRY_IN(p->r.err, add_output(p, o, outputs[o]), "graph.outputs[%u]", o);
    }
    return EXG_OK;
}

exg_status exg_pipeline_build(const exg_program *functional, const exg_operators *operators,
                              const exg_pipeline_shape *shape, uint32_t rank,
                              const exg_pipelined *batches, const exg_placement *outputs,
                              exg_program **local, exg_error *err)
{
    pipeline p = {.shape = *shape, .rank = rank, .count = shape->batches};
    size_t nodes = 1;
    exg_status status;

    *local = NULL;
    EXG_TRY(exg_rewrite_begin(&p.r, functional, operators, err));
    p.arena = exg_arena_create(exg_arena_allocator(functional->arena), EXG_ARENA_UNBOUNDED);
    for (uint32_t m = 0; m < shape->batches; m++) {
        nodes += batches[m].program->graph->node_count;
    }
    p.batches = p.arena == NULL ? NULL : EXG_NEW_ARRAY(p.arena, batch, shape->batches);
    p.owners = p.batches == NULL
                   ? NULL
                   : EXG_NEW_ARRAY(p.arena, uint32_t, functional->graph->output_count);
    p.results = p.owners == NULL ? NULL : EXG_NEW_ARRAY(p.arena, exg_argument, nodes);
    status = p.results == NULL ? EXG_OUT_OF_MEMORY(err) : exg_rewrite_inputs(&p.r);
    if (p.results != NULL) {
        exg_map_init(&p.known, p.arena);
    }
    for (uint32_t m = 0; status == EXG_OK && m < shape->batches; m++) {
        status = open_batch(&p, &batches[m], operators, &p.batches[m]);
    }
    status = status == EXG_OK ? build(&p, outputs) : status;
    exg_arena_destroy(p.arena);
    return exg_rewrite_finish(&p.r, status, local);
}
