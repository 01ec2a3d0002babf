/* vmap_nodes.c - values inside of calls of torch.vmap, with all examples: a copy of the value, the
 * batch put back into it as torch.vmap does with results, and a copy behind the call. */
#include "cli/vmap_nodes.h"

#include <exg/memory.h>
#include <string.h>

#define PREDISPATCH "torch._functorch.predispatch."
#define CLONE       "torch.ops.aten.clone.default"

/* A value that is wanted, of the innermost call that has not ended. */
typedef struct shown {
    const char *path;
    exg_value_id id;
    bool is_within; /* one example of it */
} shown;

typedef struct call {
    const exg_node *begin;
    uint32_t first; /* what is shown of it, up to the end */
} call;

typedef struct shower {
    exg_arena *arena;
    exg_graph *graph;
    const char *path;
    cli_path_fn *is_wanted;
    void *user;
    exg_node *nodes; /* in the place of the graph's */
    shown *items;
    call *calls; /* around the node in hand */
    const char **called;
    uint32_t node_count, node_capacity, item_count, item_capacity, depth, call_capacity;
    uint32_t value_capacity, called_capacity;
    const exg_node *node;
    bool failed; /* out of memory */
} shower;

static bool is_mark(const exg_node *node, const char *name)
{
    return strncmp(node->target, PREDISPATCH, sizeof(PREDISPATCH) - 1) == 0 &&
           strcmp(node->target + sizeof(PREDISPATCH) - 1, name) == 0;
}

uint32_t cli_vmap_depth(const exg_node *node, uint32_t depth)
{
    if (is_mark(node, "_vmap_increment_nesting")) {
        return depth + 1;
    }
    return depth > 0 && is_mark(node, "_vmap_decrement_nesting") ? depth - 1 : depth;
}

static void put_node(shower *s, const exg_node *node)
{
    s->failed = s->failed || !exg_arena_reserve(s->arena, &s->nodes, s->node_count,
                                                &s->node_capacity, sizeof(*s->nodes));
    if (!s->failed) {
        s->nodes[s->node_count++] = *node;
    }
}

/* ---- values -------------------------------------------------------------------------------- */

static const char *text_of(shower *s, const exg_sym_int *size)
{
    return size->expr != NULL ? size->expr
                              : exg_arena_printf(s->arena, "Integer(%lld)", (long long)size->value);
}

static exg_sym_int product(shower *s, const exg_sym_int *a, const exg_sym_int *b)
{
    exg_sym_int made = {.value = (int64_t)((uint64_t)a->value * (uint64_t)b->value),
                        .has_hint =
                            (a->expr == NULL || a->has_hint) && (b->expr == NULL || b->has_hint)};

    if (a->expr != NULL || b->expr != NULL) {
        made.expr = exg_arena_printf(s->arena, "Mul(%s, %s)", text_of(s, a), text_of(s, b));
        s->failed = s->failed || made.expr == NULL;
    }
    return made;
}

/* Of such a tensor, row-major; `batch` before its sizes, or NULL. */
static exg_tensor_meta *row_major(shower *s, const exg_tensor_meta *like, const exg_sym_int *batch)
{
    const uint32_t more = batch == NULL ? 0 : 1;
    exg_tensor_meta *meta = exg_arena_memdup(s->arena, like, 1, sizeof(*like));
    exg_sym_int *sizes = EXG_NEW_ARRAY(s->arena, exg_sym_int, like->rank + 1);
    exg_sym_int *strides = EXG_NEW_ARRAY(s->arena, exg_sym_int, like->rank + 1);
    exg_sym_int stride = {.value = 1};

    if (meta == NULL || sizes == NULL || strides == NULL) {
        s->failed = true;
        return NULL;
    }
    if (batch != NULL) {
        sizes[0] = *batch;
    }
    for (uint32_t d = 0; d < like->rank; d++) {
        sizes[d + more] = like->sizes[d];
    }
    meta->rank = like->rank + more;
    for (uint32_t d = meta->rank; d-- > 0;) {
        const bool is_empty = sizes[d].expr == NULL && sizes[d].value == 0;

        strides[d] = stride;
        stride = is_empty ? stride : product(s, &stride, &sizes[d]);
    }
    meta->sizes = sizes;
    meta->strides = strides;
    meta->storage_offset = (exg_sym_int){.value = 0};
    return meta;
}

/* A further value, of the same name with a number behind it. */
static exg_value_id add_value(shower *s, exg_value_id like, exg_tensor_meta *meta)
{
    exg_graph *graph = s->graph;
    exg_value value = {.tensor = meta};

    value.name =
        exg_arena_printf(s->arena, "%s_examples_%u", graph->values[like].name, graph->value_count);
    if (s->failed || value.name == NULL ||
        !exg_arena_reserve(s->arena, &graph->values, graph->value_count, &s->value_capacity,
                           sizeof(*graph->values)) ||
        !exg_arena_reserve(s->arena, &s->called, graph->value_count, &s->called_capacity,
                           sizeof(*s->called))) {
        s->failed = true;
        return like;
    }
    s->called[graph->value_count] = NULL;
    graph->values[graph->value_count] = value;
    return graph->value_count++;
}

/* ---- nodes --------------------------------------------------------------------------------- */

static exg_value_id put_made(shower *s, const char *target, const exg_named_argument *inputs,
                             uint32_t count, exg_value_id made)
{
    exg_argument output = {.kind = EXG_ARGUMENT_TENSOR, .as_tensor = made};
    exg_node node = {.target = target,
                     .name = s->graph->values[made].name,
                     .inputs = exg_arena_memdup(s->arena, inputs, count, sizeof(*inputs)),
                     .outputs = exg_arena_memdup(s->arena, &output, 1, sizeof(output)),
                     .input_count = count,
                     .output_count = 1,
                     .is_hop_single_tensor_return = EXG_UNSET};

    s->failed = s->failed || node.inputs == NULL || node.outputs == NULL;
    put_node(s, &node);
    return made;
}

static exg_value_id put_clone(shower *s, exg_value_id id)
{
    const exg_named_argument inputs[] = {
        {"self", {.kind = EXG_ARGUMENT_TENSOR, .as_tensor = id}, EXG_KIND_POSITIONAL},
        {"memory_format",
         {.kind = EXG_ARGUMENT_MEMORY_FORMAT, .as_memory_format = EXG_MEMORY_FORMAT_CONTIGUOUS},
         EXG_KIND_KEYWORD},
    };
    exg_tensor_meta *meta = row_major(s, s->graph->values[id].tensor, NULL);

    return put_made(s, CLONE, inputs, 2, add_value(s, id, meta));
}

/* The number of examples; false: it is neither a number nor a size. */
static bool batch_of(const shower *s, const exg_node *begin, exg_sym_int *batch)
{
    const exg_argument *arg = begin->input_count == 0 ? NULL : &begin->inputs[0].arg;

    if (arg == NULL || (arg->kind != EXG_ARGUMENT_INT && arg->kind != EXG_ARGUMENT_SYM_INT)) {
        return false;
    }
    if (arg->kind == EXG_ARGUMENT_INT || arg->as_sym.value == EXG_NO_VALUE) {
        *batch = (exg_sym_int){.value = arg->kind == EXG_ARGUMENT_INT ? arg->as_int
                                                                      : arg->as_sym.as_int};
        return true;
    }
    if (s->graph->values[arg->as_sym.value].sym_int == NULL) {
        return false;
    }
    *batch = *s->graph->values[arg->as_sym.value].sym_int;
    return true;
}

static exg_value_id put_batch(shower *s, const call *c, exg_value_id id)
{
    exg_named_argument inputs[] = {
        {"", {.kind = EXG_ARGUMENT_TENSOR, .as_tensor = id}, EXG_KIND_POSITIONAL},
        {"", {.kind = EXG_ARGUMENT_INT, .as_int = s->depth}, EXG_KIND_POSITIONAL},
        {"", c->begin->inputs[0].arg, EXG_KIND_POSITIONAL},
        {"", {.kind = EXG_ARGUMENT_INT, .as_int = 0}, EXG_KIND_POSITIONAL},
    };
    exg_sym_int batch = {0};
    exg_tensor_meta *meta;

    (void)batch_of(s, c->begin, &batch);
    meta = row_major(s, s->graph->values[id].tensor, &batch);
    return put_made(s, PREDISPATCH "_remove_batch_dim", inputs, 4, add_value(s, id, meta));
}

/* ---- calls --------------------------------------------------------------------------------- */

static void show(void *user, exg_value_id *id)
{
    shower *s = user;
    const exg_value *value = *id == EXG_NO_VALUE ? NULL : &s->graph->values[*id];
    const bool is_whole = is_mark(s->node, "_remove_batch_dim");
    const char *path;

    if (s->failed || value == NULL || value->tensor == NULL ||
        value->tensor->layout != EXG_LAYOUT_STRIDED) {
        return;
    }
    path = exg_arena_printf(s->arena, "%s%s", s->path, value->name);
    if (path == NULL || !exg_arena_reserve(s->arena, &s->items, s->item_count, &s->item_capacity,
                                           sizeof(*s->items))) {
        s->failed = true;
    } else if (s->is_wanted(s->user, path)) {
        s->items[s->item_count++] = (shown){path, is_whole ? *id : put_clone(s, *id), !is_whole};
    }
}

static void begin_call(shower *s)
{
    s->failed = s->failed || !exg_arena_reserve(s->arena, &s->calls, s->depth, &s->call_capacity,
                                                sizeof(*s->calls));
    if (!s->failed) {
        s->calls[s->depth++] = (call){s->node, s->item_count};
    }
}

/* What is shown of the call becomes values of the call around it, or of the graph. */
static void end_call(shower *s)
{
    const call *c = &s->calls[s->depth - 1];

    for (uint32_t i = c->first; i < s->item_count; i++) {
        if (s->items[i].is_within) {
            s->items[i].id = put_batch(s, c, s->items[i].id);
        }
    }
    put_node(s, s->node);
    s->depth--;
    for (uint32_t i = c->first; i < s->item_count && !s->failed; i++) {
        s->items[i].id = put_clone(s, s->items[i].id);
        s->items[i].is_within = true;
        if (s->depth == 0 && !s->failed) {
            s->called[s->items[i].id] = s->items[i].path;
        }
    }
    s->item_count = s->depth == 0 ? 0 : s->item_count;
}

static bool has_calls(const shower *s)
{
    exg_sym_int unread;
    bool any = false;

    for (uint32_t n = 0; n < s->graph->node_count; n++) {
        if (cli_vmap_depth(&s->graph->nodes[n], 0) > 0) {
            if (!batch_of(s, &s->graph->nodes[n], &unread)) {
                return false; /* what is wrong is told when it is to run */
            }
            any = true;
        }
    }
    return any;
}

exg_status cli_vmap_nodes_show(exg_arena *arena, exg_graph *graph, const char *path,
                               cli_path_fn *is_wanted, void *user, const char *const **called,
                               exg_error *err)
{
    shower s = {.arena = arena,
                .graph = graph,
                .path = path,
                .is_wanted = is_wanted,
                .user = user,
                .value_capacity = graph->value_count, /* they move before they grow */
                .called_capacity = graph->value_count};

    *called = NULL;
    if (!has_calls(&s)) {
        return EXG_OK;
    }
    s.called = EXG_NEW_ARRAY(arena, const char *, graph->value_count);
    s.failed = s.called == NULL;
    for (uint32_t n = 0; n < graph->node_count && !s.failed; n++) {
        s.node = &graph->nodes[n];
        if (s.depth > 0 && cli_vmap_depth(s.node, s.depth) < s.depth) {
            end_call(&s);
            continue;
        }
        put_node(&s, s.node);
        if (cli_vmap_depth(s.node, s.depth) > s.depth) {
            begin_call(&s);
        }
        for (uint32_t o = 0; s.depth > 0 && o < s.node->output_count; o++) {
            exg_argument_visit_values(&s.node->outputs[o], show, &s);
        }
    }
    if (s.failed) {
        return EXG_OUT_OF_MEMORY(err);
    }
    graph->nodes = s.nodes;
    graph->node_count = s.node_count;
    *called = s.called;
    return EXG_OK;
}
