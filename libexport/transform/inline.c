/* inline.c - graphs that run where they stand become part of the graph around them:
 * higher-order operators that only set a mode (no_grad, autocast) around a call.
 *
 * Values keep their ids; those of the inner graphs come after them. Gradients are none
 * of a run's business, so their mode leaves nothing; autocast leaves the conversions
 * that PyTorch would make when the program runs (autocast.h). So do operators with an effect: nodes
 * run in order here, so the token that orders them is handed on as it is. A tensor that
 * says where to split leaves the reading of its elements. Calls of torch.vmap become maps (vmap.h).
 */
#include "libexport/transform/inline.h"
#include "libexport/transform/autocast.h"
#include "libexport/transform/origin.h"
#include "libexport/transform/vmap.h"

#include <exg/transform.h>
#include <inttypes.h>
#include <string.h>

#define DEPTH_MAX 64

typedef struct inliner {
    exg_arena *arena;
    exg_graph *out;
    uint32_t node_capacity, value_capacity;
    /* By value: computed in 16 bits, and recorded as float32. NULL: there is none yet. */
    bool *narrow;
    uint32_t narrow_capacity;
    exg_string_map metadata; /* of the node that is at work: what is made for it has the same */
    const char *origin;      /* of nodes of graphs that are inlined: the node that runs them */
    exg_error *err;
} inliner;

#define PREFIX "torch.ops.higher_order."

static const struct {
    const char *target;
    exg_higher_order is;
    const char *how;
} higher_order[] = {
#define EXG_HIGHER_ORDER_OPERATOR(name, kind, how) {PREFIX name, EXG_HIGHER_ORDER_##kind, how},
#include "libexport/transform/higher_order.def"
#undef EXG_HIGHER_ORDER_OPERATOR
};

exg_higher_order exg_higher_order_of(const char *target)
{
    for (size_t i = 0; strncmp(target, PREFIX, sizeof(PREFIX) - 1) == 0 &&
                       i < sizeof(higher_order) / sizeof(higher_order[0]);
         i++) {
        if (strcmp(target, higher_order[i].target) == 0) {
            return higher_order[i].is;
        }
    }
    return EXG_HIGHER_ORDER_NOT;
}

const char *exg_higher_order_at(uint32_t index, const char **how)
{
    if (index >= sizeof(higher_order) / sizeof(higher_order[0])) {
        return NULL;
    }
    if (how != NULL) {
        *how = higher_order[index].how;
    }
    return higher_order[index].target;
}

static bool is_wrapper(const char *target)
{
    return exg_higher_order_of(target) == EXG_HIGHER_ORDER_WRAPPER;
}

static bool has_effects(const char *target)
{
    return exg_higher_order_of(target) == EXG_HIGHER_ORDER_EFFECTS;
}

static bool has_out_dtype(const char *target)
{
    return exg_higher_order_of(target) == EXG_HIGHER_ORDER_OUT_DTYPE;
}

static bool splits_by_tensor(const char *target)
{
    return strcmp(target, "torch.ops.aten.tensor_split.tensor_indices_or_sections") == 0;
}

static bool has_wrappers(const exg_graph *graph)
{
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const char *target = graph->nodes[n].target;

        if (is_wrapper(target) || has_effects(target) || has_out_dtype(target) ||
            splits_by_tensor(target)) {
            return true;
        }
    }
    return false;
}

/* ---- growing ---------------------------------------------------------------------------- */

static void *grown(exg_arena *arena, void *items, uint32_t count, uint32_t *capacity, size_t size)
{
    uint32_t wanted = *capacity == 0 ? 64 : *capacity * 2;
    void *made;

    if (count < *capacity) {
        return items;
    }
    made = exg_arena_alloc(arena, wanted, size);
    if (made != NULL && count > 0) {
        memcpy(made, items, count * size);
    }
    *capacity = made == NULL ? *capacity : wanted;
    return made;
}

static exg_node *new_node(inliner *l)
{
    exg_node *nodes =
        grown(l->arena, l->out->nodes, l->out->node_count, &l->node_capacity, sizeof(exg_node));

    if (nodes == NULL) {
        return NULL;
    }
    l->out->nodes = nodes;
    return &nodes[l->out->node_count++];
}

/* Room in `narrow` for every value that there is room for. */
static bool make_narrow(inliner *l)
{
    uint32_t capacity =
        l->value_capacity > l->out->value_count ? l->value_capacity : l->out->value_count;
    bool *narrow = EXG_NEW_ARRAY(l->arena, bool, capacity);

    if (narrow == NULL) {
        return false;
    }
    if (l->narrow != NULL) {
        memcpy(narrow, l->narrow, l->narrow_capacity * sizeof(*narrow));
    }
    l->narrow = narrow;
    l->narrow_capacity = capacity;
    return true;
}

static exg_value_id new_value(inliner *l, const exg_value *value)
{
    exg_value *values =
        grown(l->arena, l->out->values, l->out->value_count, &l->value_capacity, sizeof(exg_value));

    if (values == NULL) {
        return EXG_NO_VALUE;
    }
    l->out->values = values;
    if (l->narrow != NULL && l->narrow_capacity <= l->out->value_count && !make_narrow(l)) {
        return EXG_NO_VALUE;
    }
    values[l->out->value_count] = *value;
    return l->out->value_count++;
}

/* ---- values -------------------------------------------------------------------------------- */

static void map_value(void *user, exg_value_id *id)
{
    const exg_value_id *map = user;

    *id = *id == EXG_NO_VALUE ? *id : map[*id];
}

static exg_status mapped(inliner *l, exg_argument *arg, exg_value_id *map)
{
    EXG_TRY(exg_argument_copy(l->arena, arg, l->err));
    exg_argument_visit_values(arg, map_value, map);
    return EXG_OK;
}

typedef struct value_list {
    exg_value_id *ids;
    uint32_t count, capacity;
} value_list;

static void list_value(void *user, exg_value_id *id)
{
    value_list *list = user;

    if (list->count < list->capacity) {
        list->ids[list->count] = *id;
    }
    list->count++;
}

static value_list values_of(inliner *l, exg_argument *args, uint32_t count)
{
    value_list list = {NULL, 0, 0};

    for (uint32_t i = 0; i < count; i++) {
        exg_argument_visit_values(&args[i], list_value, &list);
    }
    list.capacity = list.count;
    list.count = 0;
    list.ids = EXG_NEW_ARRAY(l->arena, exg_value_id, list.capacity);
    for (uint32_t i = 0; list.ids != NULL && i < count; i++) {
        exg_argument_visit_values(&args[i], list_value, &list);
    }
    return list;
}

/* A node of one result before the next one; `*id` becomes what it makes. */
static exg_status add_node(inliner *l, const char *target, const exg_named_argument *inputs,
                           uint32_t count, const exg_value *makes, exg_value_id *id)
{
    exg_named_argument *own = exg_arena_memdup(l->arena, inputs, count, sizeof(*inputs));
    exg_argument *output = EXG_NEW(l->arena, exg_argument);
    exg_node *node = new_node(l);

    *id = new_value(l, makes);
    if (own == NULL || output == NULL || node == NULL || *id == EXG_NO_VALUE) {
        return EXG_OUT_OF_MEMORY(l->err);
    }
    *output = makes->tensor != NULL
                  ? (exg_argument){.kind = EXG_ARGUMENT_TENSOR, .as_tensor = *id}
                  : (exg_argument){.kind = EXG_ARGUMENT_SYM_INT, .as_sym = {.value = *id}};
    *node = (exg_node){.target = target,
                       .name = makes->name,
                       .inputs = own,
                       .outputs = output,
                       .input_count = count,
                       .output_count = 1,
                       .metadata = l->metadata,
                       .is_hop_single_tensor_return = EXG_UNSET};
    return exg_node_note_origin(l->arena, node, l->origin, l->err);
}

/* ---- autocast ------------------------------------------------------------------------------- */

/* `*id` in another dtype. */
static exg_status cast_value(inliner *l, exg_value_id *id, exg_dtype dtype)
{
    exg_value value = l->out->values[*id];
    exg_tensor_meta *meta = exg_arena_memdup(l->arena, value.tensor, 1, sizeof(*meta));
    const exg_named_argument inputs[] = {
        {"self", {.kind = EXG_ARGUMENT_TENSOR, .as_tensor = *id}, EXG_KIND_POSITIONAL},
        {"dtype", {.kind = EXG_ARGUMENT_SCALAR_TYPE, .as_scalar_type = dtype}, EXG_KIND_KEYWORD},
    };

    value.name = exg_arena_printf(l->arena, "%s_%s", value.name, exg_dtype_short_name(dtype));
    if (meta == NULL || value.name == NULL) {
        return EXG_OUT_OF_MEMORY(l->err);
    }
    meta->dtype = dtype;
    value.tensor = meta;
    return add_node(l, "torch.ops.aten._to_copy.default", inputs, 2, &value, id);
}

typedef struct casting {
    inliner *l;
    const exg_autocast *mode;
    exg_dtype dtype;
    exg_status status;
} casting;

static void cast_covered(void *user, exg_value_id *id)
{
    casting *c = user;
    const exg_tensor_meta *meta = *id == EXG_NO_VALUE ? NULL : c->l->out->values[*id].tensor;

    if (c->status == EXG_OK && exg_autocast_covers(c->mode, meta) &&
        (meta->dtype != c->dtype || c->l->narrow != NULL)) {
        c->status = cast_value(c->l, id, c->dtype);
    }
}

/* Values that are said to be wider than they are. */
static void note_narrow(void *user, exg_value_id *id)
{
    const inliner *l = user;
    const exg_tensor_meta *meta = *id == EXG_NO_VALUE ? NULL : l->out->values[*id].tensor;

    if (meta != NULL && meta->dtype == EXG_DTYPE_F32) {
        l->narrow[*id] = true;
    }
}

/* From the first of them on. */
static exg_status note_narrowed(inliner *l, exg_node *node, exg_dtype dtype)
{
    if (!exg_autocast_narrows(l->out, node, l->narrow, dtype)) {
        return EXG_OK;
    }
    if (l->narrow == NULL && !make_narrow(l)) {
        return EXG_OUT_OF_MEMORY(l->err);
    }
    for (uint32_t o = 0; o < node->output_count; o++) {
        exg_argument_visit_values(&node->outputs[o], note_narrow, l);
    }
    return EXG_OK;
}

/* The arguments of a node that is not in the graph yet. */
static exg_status cast_inputs(inliner *l, exg_node *node, const exg_autocast *mode)
{
    casting c = {.l = l, .mode = mode, .status = EXG_OK};
    bool casts = exg_autocast_dtype(mode, l->out, node, l->narrow, &c.dtype);

    if (mode != NULL || l->narrow != NULL) {
        EXG_TRY(note_narrowed(l, node, casts ? c.dtype : EXG_DTYPE_COUNT));
    }
    for (uint32_t i = 0; casts && i < node->input_count; i++) {
        exg_argument_visit_values(&node->inputs[i].arg, cast_covered, &c);
    }
    return c.status;
}

/* ---- graphs ------------------------------------------------------------------------------ */

static exg_status copy_node(inliner *l, const exg_node *in, exg_value_id *map,
                            const exg_autocast *mode)
{
    exg_node copy = *in;
    exg_node *out;

    copy.inputs = exg_arena_memdup(l->arena, in->inputs, in->input_count, sizeof(*in->inputs));
    copy.outputs = exg_arena_memdup(l->arena, in->outputs, in->output_count, sizeof(*in->outputs));
    if (copy.inputs == NULL || copy.outputs == NULL) {
        return EXG_OUT_OF_MEMORY(l->err);
    }
    for (uint32_t i = 0; i < copy.input_count; i++) {
        if (copy.inputs[i].arg.kind != EXG_ARGUMENT_GRAPH) {
            EXG_TRY(mapped(l, &copy.inputs[i].arg, map));
        }
    }
    for (uint32_t o = 0; o < copy.output_count; o++) {
        EXG_TRY(mapped(l, &copy.outputs[o], map));
    }
    EXG_TRY(cast_inputs(l, &copy, mode));
    EXG_TRY(exg_node_note_origin(l->arena, &copy, l->origin, l->err));
    out = new_node(l);
    if (out == NULL) {
        return EXG_OUT_OF_MEMORY(l->err);
    }
    *out = copy;
    return EXG_OK;
}

static exg_status inline_nodes(inliner *l, const exg_graph *graph, exg_value_id *map,
                               const exg_autocast *mode, uint32_t depth);

static exg_status mismatch(inliner *l, const exg_node *node)
{
    return EXG_FAIL(l->err, MALFORMED, "GRF-010", "the graph of '%s' takes or gives other values",
                    node->name == NULL ? node->target : node->name);
}

/* Values of the inner graph as values of the outer: its inputs are `operands`, the rest
 * come after all there are. */
static exg_status inner_values(inliner *l, const exg_node *node, const exg_graph *graph,
                               const value_list *operands, const exg_value_id *map,
                               exg_value_id **values)
{
    exg_value_id *inner = EXG_NEW_ARRAY(l->arena, exg_value_id, graph->value_count);
    value_list inputs = values_of(l, graph->inputs, graph->input_count);

    *values = inner;
    if (inner == NULL || inputs.ids == NULL || operands->ids == NULL) {
        return EXG_OUT_OF_MEMORY(l->err);
    }
    if (inputs.count != operands->count) {
        return mismatch(l, node);
    }
    memset(inner, 0xff, graph->value_count * sizeof(*inner));
    for (uint32_t k = 0; k < inputs.count; k++) {
        inner[inputs.ids[k]] = map[operands->ids[k]];
    }
    for (uint32_t v = 0; v < graph->value_count; v++) {
        exg_value value = graph->values[v];

        if (inner[v] == EXG_NO_VALUE) {
            value.name = exg_arena_printf(l->arena, "%s_%s", node->name == NULL ? "" : node->name,
                                          value.name);
            inner[v] = value.name == NULL ? EXG_NO_VALUE : new_value(l, &value);
            if (inner[v] == EXG_NO_VALUE) {
                return EXG_OUT_OF_MEMORY(l->err);
            }
        }
    }
    return EXG_OK;
}

/* `graph` in the place of `node`; what it gives is what the node gave. */
static exg_status inline_graph(inliner *l, const exg_node *node, const exg_graph *graph,
                               const value_list *operands, exg_value_id *map,
                               const exg_autocast *mode, uint32_t depth)
{
    const char *outer = l->origin;
    exg_graph unmarked;
    exg_value_id *inner;
    value_list given;
    value_list results;

    EXG_TRY(exg_unmark_vmap(graph, l->arena, &unmarked, l->err));
    graph = &unmarked;
    EXG_TRY(inner_values(l, node, graph, operands, map, &inner));
    l->origin = outer != NULL ? outer : exg_node_origin(node);
    EXG_TRY(inline_nodes(l, graph, inner, mode, depth + 1));
    l->origin = outer;
    results = values_of(l, graph->outputs, graph->output_count);
    given = values_of(l, node->outputs, node->output_count);
    if (results.ids == NULL || given.ids == NULL || results.count != given.count) {
        return mismatch(l, node);
    }
    for (uint32_t k = 0; k < given.count; k++) {
        if (given.ids[k] != EXG_NO_VALUE && results.ids[k] != EXG_NO_VALUE) {
            map[given.ids[k]] = inner[results.ids[k]];
        }
    }
    return EXG_OK;
}

/* The values handed to a graph: those of the arguments from `first` on. */
static value_list operands_of(inliner *l, const exg_node *node, uint32_t first)
{
    value_list list = {NULL, 0, 0};
    exg_argument *args = EXG_NEW_ARRAY(l->arena, exg_argument, node->input_count);
    uint32_t count = 0;

    for (uint32_t i = first; args != NULL && i < node->input_count; i++) {
        args[count++] = node->inputs[i].arg;
    }
    return args == NULL ? list : values_of(l, args, count);
}

static exg_status inline_call(inliner *l, const exg_node *node, exg_value_id *map,
                              const exg_autocast *mode, uint32_t depth)
{
    const exg_autocast inner = exg_autocast_of(node, mode);
    bool is_autocast = strstr(node->target, "autocast") != NULL;
    uint32_t at = 0;
    value_list operands;

    while (at < node->input_count && node->inputs[at].arg.kind != EXG_ARGUMENT_GRAPH) {
        at++;
    }
    if (at == node->input_count) {
        return mismatch(l, node);
    }
    operands = operands_of(l, node, at + 1);
    return inline_graph(l, node, node->inputs[at].arg.as_graph->graph, &operands, map,
                        is_autocast ? &inner : mode, depth);
}

bool exg_effects_call(const exg_node *node, exg_node *call)
{
    if (!has_effects(node->target) || node->input_count < 2 || node->output_count < 1 ||
        node->inputs[0].arg.kind != EXG_ARGUMENT_TENSOR ||
        node->inputs[1].arg.kind != EXG_ARGUMENT_OPERATOR ||
        node->outputs[0].kind != EXG_ARGUMENT_TENSOR) {
        return false;
    }
    *call = *node;
    call->target = node->inputs[1].arg.as_string;
    call->is_hop_single_tensor_return = EXG_UNSET;
    call->inputs += 2;
    call->input_count -= 2;
    call->outputs += 1;
    call->output_count -= 1;
    if (call->output_count == 1 && call->outputs[0].kind == EXG_ARGUMENT_NONE) {
        call->output_count = 0; /* of an operator that returns nothing */
    }
    return true;
}

static exg_status inline_effects(inliner *l, const exg_node *node, exg_value_id *map,
                                 const exg_autocast *mode)
{
    exg_node inner;

    if (!exg_effects_call(node, &inner)) {
        return mismatch(l, node);
    }
    map[node->outputs[0].as_tensor] = map[node->inputs[0].arg.as_tensor];
    return copy_node(l, &inner, map, mode);
}

/* ---- out_dtype ------------------------------------------------------------------------------ */

static void promote(void *user, exg_value_id *id)
{
    casting *c = user;
    const exg_tensor_meta *meta = *id == EXG_NO_VALUE ? NULL : c->l->out->values[*id].tensor;

    c->dtype = meta == NULL ? c->dtype : exg_promote_types(c->dtype, meta->dtype);
}

static void cast_all(void *user, exg_value_id *id)
{
    casting *c = user;
    const exg_tensor_meta *meta = *id == EXG_NO_VALUE ? NULL : c->l->out->values[*id].tensor;

    if (c->status == EXG_OK && meta != NULL && meta->dtype != c->dtype) {
        c->status = cast_value(c->l, id, c->dtype);
    }
}

/* out_dtype(op, dtype, ...): all tensors and the dtype promoted, the operator, and a cast. */
static exg_status inline_out_dtype(inliner *l, const exg_node *node, exg_value_id *map)
{
    casting c = {.l = l, .status = EXG_OK};
    exg_named_argument *inputs;
    exg_value value;
    exg_value_id id;
    exg_dtype dtype;
    uint32_t count;

    if (node->input_count < 3 || node->inputs[0].arg.kind != EXG_ARGUMENT_OPERATOR ||
        node->inputs[1].arg.kind != EXG_ARGUMENT_SCALAR_TYPE || node->output_count != 1 ||
        node->outputs[0].kind != EXG_ARGUMENT_TENSOR ||
        l->out->values[map[node->outputs[0].as_tensor]].tensor == NULL) {
        return mismatch(l, node);
    }
    count = node->input_count - 2;
    dtype = c.dtype = node->inputs[1].arg.as_scalar_type;
    inputs = exg_arena_memdup(l->arena, node->inputs + 2, count, sizeof(*inputs));
    for (uint32_t i = 0; inputs != NULL && i < count; i++) {
        EXG_TRY(mapped(l, &inputs[i].arg, map));
        exg_argument_visit_values(&inputs[i].arg, promote, &c);
    }
    for (uint32_t i = 0; inputs != NULL && i < count; i++) {
        exg_argument_visit_values(&inputs[i].arg, cast_all, &c);
    }
    EXG_TRY(c.status);
    value = l->out->values[map[node->outputs[0].as_tensor]];
    value.name = exg_arena_printf(l->arena, "%s_wide", value.name);
    value.tensor = exg_arena_memdup(l->arena, value.tensor, 1, sizeof(*value.tensor));
    if (inputs == NULL || value.name == NULL || value.tensor == NULL) {
        return EXG_OUT_OF_MEMORY(l->err);
    }
    value.tensor->dtype = c.dtype;
    EXG_TRY(add_node(l, node->inputs[0].arg.as_string, inputs, count, &value, &id));
    if (c.dtype != dtype) {
        EXG_TRY(cast_value(l, &id, dtype));
    }
    map[node->outputs[0].as_tensor] = id;
    return EXG_OK;
}

/* ---- numbers that a tensor holds --------------------------------------------------------- */

/* Element `at` of a vector, or with -1 the only one of any tensor, as a number. */
static exg_status number_in(inliner *l, exg_value_id tensor, int64_t at, exg_sym_argument *number)
{
    exg_value part = l->out->values[tensor];
    exg_value value = {.name = exg_arena_printf(l->arena, "%s_item_%" PRId64, part.name, at)};
    exg_tensor_meta *meta = exg_arena_memdup(l->arena, part.tensor, 1, sizeof(*meta));
    exg_named_argument inputs[] = {
        {"self", {.kind = EXG_ARGUMENT_TENSOR, .as_tensor = tensor}, EXG_KIND_POSITIONAL},
        {"dim", {.kind = EXG_ARGUMENT_INT, .as_int = 0}, EXG_KIND_POSITIONAL},
        {"index", {.kind = EXG_ARGUMENT_INT, .as_int = at}, EXG_KIND_POSITIONAL},
    };

    part.name = exg_arena_printf(l->arena, "%s_%" PRId64, part.name, at);
    if (value.name == NULL || part.name == NULL || meta == NULL) {
        return EXG_OUT_OF_MEMORY(l->err);
    }
    if (at >= 0) {
        meta->rank = 0;
        part.tensor = meta;
        EXG_TRY(
            add_node(l, "torch.ops.aten.select.int", inputs, 3, &part, &inputs[0].arg.as_tensor));
    }
    *number = (exg_sym_argument){.value = EXG_NO_VALUE};
    return add_node(l, "torch.ops.aten.item.default", inputs, 1, &value, &number->value);
}

/* tensor_split(self, a tensor, dim): its elements are read, and then it is tensor_split at
 * those places, or in that many sections. */
static exg_status inline_split(inliner *l, const exg_node *node, exg_value_id *map,
                               const exg_autocast *mode)
{
    const exg_argument *by = node->input_count < 2 ? NULL : &node->inputs[1].arg;
    const exg_argument *parts = node->output_count < 1 ? NULL : &node->outputs[0];
    exg_sym_argument *numbers;
    exg_node *split;
    bool is_vector;
    uint32_t count;

    if (by == NULL || parts == NULL || by->kind != EXG_ARGUMENT_TENSOR ||
        parts->kind != EXG_ARGUMENT_TENSORS || parts->count == 0 ||
        l->out->values[map[by->as_tensor]].tensor == NULL) {
        return mismatch(l, node);
    }
    is_vector = l->out->values[map[by->as_tensor]].tensor->rank > 0;
    count = is_vector ? parts->count - 1 : 1;
    numbers = EXG_NEW_ARRAY(l->arena, exg_sym_argument, count + 1); /* one at least */
    for (uint32_t k = 0; numbers != NULL && k < count; k++) {
        EXG_TRY(number_in(l, map[by->as_tensor], is_vector ? (int64_t)k : -1, &numbers[k]));
    }
    if (numbers == NULL) {
        return EXG_OUT_OF_MEMORY(l->err);
    }
    EXG_TRY(copy_node(l, node, map, mode));
    split = &l->out->nodes[l->out->node_count - 1];
    split->target =
        is_vector ? "torch.ops.aten.tensor_split.indices" : "torch.ops.aten.tensor_split.sections";
    split->inputs[1].name = is_vector ? "indices" : "sections";
    split->inputs[1].arg = (exg_argument){.kind = EXG_ARGUMENT_SYM_INT, .as_sym = numbers[0]};
    if (is_vector) {
        split->inputs[1].arg =
            (exg_argument){.kind = EXG_ARGUMENT_SYM_INTS, .count = count, .as_syms = numbers};
    }
    return EXG_OK;
}

static exg_status inline_nodes(inliner *l, const exg_graph *graph, exg_value_id *map,
                               const exg_autocast *mode, uint32_t depth)
{
    if (depth > DEPTH_MAX) {
        return EXG_FAIL(l->err, LIMIT, "LIM-001", "graphs nested more than %d deep", DEPTH_MAX);
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const exg_node *node = &graph->nodes[n];

        l->metadata = node->metadata;
        EXG_TRY_IN(l->err,
                   is_wrapper(node->target)         ? inline_call(l, node, map, mode, depth)
                   : has_effects(node->target)      ? inline_effects(l, node, map, mode)
                   : has_out_dtype(node->target)    ? inline_out_dtype(l, node, map)
                   : splits_by_tensor(node->target) ? inline_split(l, node, map, mode)
                                                    : copy_node(l, node, map, mode),
                   "nodes[%u]", n);
    }
    return EXG_OK;
}

/* A graph to grow: values and outputs of `graph`, no nodes yet; every value is itself. */
static exg_value_id *start(inliner *l, const exg_graph *graph)
{
    exg_value_id *map = EXG_NEW_ARRAY(l->arena, exg_value_id, graph->value_count);

    *l->out = *graph;
    l->value_capacity = graph->value_count;
    l->out->nodes = NULL;
    l->out->node_count = 0;
    l->out->values =
        exg_arena_memdup(l->arena, graph->values, graph->value_count, sizeof(exg_value));
    l->out->outputs =
        exg_arena_memdup(l->arena, graph->outputs, graph->output_count, sizeof(*graph->outputs));
    if (l->out->values == NULL || l->out->outputs == NULL || map == NULL) {
        (void)EXG_OUT_OF_MEMORY(l->err);
        return NULL;
    }
    for (uint32_t v = 0; v < graph->value_count; v++) {
        map[v] = v;
    }
    return map;
}

static exg_status map_outputs(inliner *l, exg_value_id *map)
{
    for (uint32_t o = 0; o < l->out->output_count; o++) {
        EXG_TRY(mapped(l, &l->out->outputs[o], map));
    }
    return EXG_OK;
}

exg_status exg_inline_branch(const exg_graph *graph, uint32_t at, bool taken, exg_arena *arena,
                             exg_graph *out, exg_error *err)
{
    inliner l = {.arena = arena, .out = out, .err = err};
    const exg_node *node = &graph->nodes[at];
    const uint32_t branch = taken ? 1 : 2; /* (predicate, true, false, operands) */
    exg_value_id *map = start(&l, graph);
    exg_graph rest = *graph;
    value_list operands;

    if (map == NULL) {
        return EXG_NO_MEMORY;
    }
    if (node->input_count <= 2 || node->inputs[branch].arg.kind != EXG_ARGUMENT_GRAPH) {
        return mismatch(&l, node);
    }
    operands = operands_of(&l, node, 3);
    EXG_TRY(
        inline_graph(&l, node, node->inputs[branch].arg.as_graph->graph, &operands, map, NULL, 0));
    rest.nodes += at + 1;
    rest.node_count -= at + 1;
    EXG_TRY(inline_nodes(&l, &rest, map, NULL, 0));
    return map_outputs(&l, map);
}

exg_status exg_inline(const exg_graph *graph, exg_arena *arena, exg_graph *out, exg_error *err)
{
    inliner l = {.arena = arena, .out = out, .err = err};
    exg_graph unmarked;
    exg_value_id *map;

    EXG_TRY_IN(err, exg_unmark_vmap(graph, arena, &unmarked, err), "graph");
    *out = unmarked;
    if (!has_wrappers(&unmarked)) {
        return EXG_OK;
    }
    map = start(&l, &unmarked);
    if (map == NULL) {
        return EXG_NO_MEMORY;
    }
    EXG_TRY_IN(err, inline_nodes(&l, &unmarked, map, NULL, 0), "graph");
    return map_outputs(&l, map);
}
