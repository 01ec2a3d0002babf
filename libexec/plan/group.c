/* group.c - pointwise neighbours of one shape become one step, so that what is
 * between them stays in cache.
 *
 * The group is open while nodes join; it becomes a step when a value computed in
 * it is needed elsewhere, when another shape begins, or when it is full.
 */
#include "libexec/kernels/pointwise.h"
#include "libexec/plan/emit.h"
#include "libexec/plan/planner.h"
#include "libexport/operators/shape.h"

#include <string.h>

#define LOADS_MAX EXG_GROUP_LOADS_MAX

static bool fits_group(const exg_planner *p, const exg_tensor_meta *meta)
{
    const exg_group *g = &p->group;

    if (g->node_count == 0 || g->node_count == EXG_GROUP_NODES_MAX || meta->rank != g->rank ||
        p->no_fusion) {
        return false;
    }
    for (uint32_t d = 0; d < g->rank; d++) {
        if (meta->sizes[d].value != g->sizes[d]) {
            return false;
        }
    }
    return true;
}

static bool is_loaded(const exg_group *g, exg_value_id value)
{
    for (uint32_t i = 0; i < g->load_count; i++) {
        if (g->loads[i] == value) {
            return true;
        }
    }
    return false;
}

/* Values of the node that the group would have to load; those computed in the
 * group but of another shape (broadcast) cannot come from a register. */
static bool can_join(const exg_planner *p, const exg_operator *op, const exg_argument *args,
                     uint32_t *new_loads)
{
    *new_loads = 0;
    for (uint32_t i = 0; i < op->schema->argument_count; i++) {
        exg_value_id value;

        if (args[i].kind != EXG_ARGUMENT_TENSOR) {
            continue;
        }
        value = args[i].as_tensor;
        if (p->group_of[value] != 0) {
            continue;
        }
        *new_loads += !is_loaded(&p->group, value);
    }
    return p->group.load_count + *new_loads <= LOADS_MAX;
}

exg_status exg_planner_need(exg_planner *p, exg_value_id value)
{
    return p->group_of[value] != 0 ? exg_planner_close(p) : EXG_OK;
}

static uint32_t uses_of(const exg_node *node, exg_value_id value)
{
    uint32_t uses = 0;

    for (uint32_t i = 0; i < node->input_count; i++) {
        uses += node->inputs[i].arg.kind == EXG_ARGUMENT_TENSOR &&
                node->inputs[i].arg.as_tensor == value;
    }
    return uses;
}

/* Is the group a residual, added to the result of a step whose library may add it, and needed by
 * others than `node` too? Then it is not to grow: a sum that is a result of its own is done there.
 */
static bool is_residual(const exg_planner *p, const exg_node *node)
{
    const exg_plan *plan = p->plan;
    const exg_group *g = &p->group;
    const exg_node *sum;

    if (g->node_count != 1 || g->load_count != 2 || plan->step_count == 0 ||
        (plan->steps[plan->step_count - 1].kernel->flags & EXG_KERNEL_SEES_EPILOGUE) == 0 ||
        exg_tensor_numel(&p->locations[g->loads[0]].view) !=
            exg_tensor_numel(&p->locations[g->loads[1]].view)) {
        return false;
    }
    sum = &p->graph->nodes[g->nodes[0]];
    return exg_operators_find(p->operators, sum->target)->id == EXG_OP_add_Tensor &&
           p->value_uses[sum->outputs[0].as_tensor] > uses_of(node, sum->outputs[0].as_tensor);
}

exg_status exg_planner_group(exg_planner *p, uint32_t index)
{
    const exg_node *node = &p->graph->nodes[index];
    const exg_operator *op = exg_operators_find(p->operators, node->target);
    const exg_tensor_meta *meta = p->graph->values[node->outputs[0].as_tensor].tensor;
    exg_group *g = &p->group;
    exg_argument args[EXG_ARGUMENTS_MAX];
    uint32_t new_loads;

    if (is_residual(p, node)) {
        EXG_TRY(exg_planner_part(p));
    }
    EXG_TRY(exg_operator_normalize(op, node, args, p->err));
    if (!fits_group(p, meta) || !can_join(p, op, args, &new_loads)) {
        EXG_TRY(exg_planner_close(p));
        if (meta->rank > EXG_RANK_MAX) {
            return EXG_FAIL(p->err, LIMIT, "SHP-001", "a tensor of rank %u", meta->rank);
        }
        g->rank = meta->rank;
        for (uint32_t d = 0; d < meta->rank; d++) {
            g->sizes[d] = meta->sizes[d].value;
        }
    }
    for (uint32_t i = 0; i < op->schema->argument_count; i++) {
        if (args[i].kind == EXG_ARGUMENT_TENSOR && p->group_of[args[i].as_tensor] == 0 &&
            !is_loaded(g, args[i].as_tensor)) {
            g->loads[g->load_count++] = args[i].as_tensor;
        }
    }
    g->nodes[g->node_count++] = index;
    p->group_of[node->outputs[0].as_tensor] = g->node_count;
    return EXG_OK;
}

/* ---- making the step ---------------------------------------------------------------- */

/* The order the group goes through its dimensions in: that of memory. Dense operands
 * that are not row-major (channels last) say it; the results then have their order. */
static void find_order(const exg_planner *p, uint32_t *order)
{
    const exg_group *g = &p->group;

    for (uint32_t d = 0; d < g->rank; d++) {
        order[d] = d;
    }
    for (uint32_t i = 0; i < g->load_count; i++) {
        exg_tensor view = p->locations[g->loads[i]].view;
        exg_tensor sorted = view;

        if (exg_tensor_is_contiguous(&view) ||
            !exg_dims_equal(view.sizes, view.rank, g->sizes, g->rank)) {
            continue;
        }
        for (uint32_t d = 1; d < g->rank; d++) { /* by stride, the longest first */
            for (uint32_t e = d; e > 0 && view.strides[order[e]] > view.strides[order[e - 1]];
                 e--) {
                uint32_t swapped = order[e];

                order[e] = order[e - 1];
                order[e - 1] = swapped;
            }
        }
        for (uint32_t d = 0; d < g->rank; d++) {
            sorted.sizes[d] = view.sizes[order[d]];
            sorted.strides[d] = view.strides[order[d]];
        }
        if (exg_tensor_is_contiguous(&sorted)) {
            return;
        }
        for (uint32_t d = 0; d < g->rank; d++) {
            order[d] = d;
        }
    }
}

/* A view seen in that order. */
static exg_tensor in_order(const exg_tensor *view, const uint32_t *order)
{
    exg_tensor turned = *view;

    for (uint32_t d = 0; d < view->rank; d++) {
        turned.sizes[d] = view->sizes[order[d]];
        turned.strides[d] = view->strides[order[d]];
    }
    return turned;
}

typedef struct group_step {
    uint32_t order[EXG_RANK_MAX];
    exg_pointwise *program;
    uint32_t load_registers[LOADS_MAX];
    uint32_t registers[EXG_GROUP_NODES_MAX]; /* of each node's result */
    bool stored[EXG_GROUP_NODES_MAX];
    uint32_t stored_count;
    uint32_t product; /* the load that is the last step's own result, or LOADS_MAX */
} group_step;

static exg_value_id result_of(const exg_planner *p, uint32_t at)
{
    return p->graph->nodes[p->group.nodes[at]].outputs[0].as_tensor;
}

static uint32_t register_of(const exg_planner *p, const group_step *s, exg_value_id value)
{
    if (p->group_of[value] != 0) {
        return s->registers[p->group_of[value] - 1];
    }
    for (uint32_t i = 0;; i++) {
        if (p->group.loads[i] == value) {
            return s->load_registers[i];
        }
    }
}

static bool is_scalar(const exg_schema_argument *parameter)
{
    return !parameter->type.is_list &&
           (parameter->type.base == EXG_TYPE_SCALAR || parameter->type.base == EXG_TYPE_FLOAT ||
            parameter->type.base == EXG_TYPE_INT || parameter->type.base == EXG_TYPE_SYM_INT ||
            parameter->type.base == EXG_TYPE_BOOL);
}

static exg_status apply_node(exg_planner *p, group_step *s, uint32_t at)
{
    const exg_node *node = &p->graph->nodes[p->group.nodes[at]];
    const exg_operator *op = exg_operators_find(p->operators, node->target);
    exg_argument args[EXG_ARGUMENTS_MAX];
    exg_argument scalars[EXG_POINTWISE_SCALARS];
    uint32_t sources[4];
    uint32_t scalar_count = 0;
    uint32_t source_count = 0;
    exg_dtype compute;
    exg_dtype result;

    EXG_TRY(exg_operator_normalize(op, node, args, p->err));
    exg_pointwise_dtypes(op, args, p->graph, &compute, &result);
    for (uint32_t i = 0; i < op->schema->argument_count; i++) {
        if (args[i].kind == EXG_ARGUMENT_TENSOR && source_count < 4) {
            sources[source_count++] = register_of(p, s, args[i].as_tensor);
        } else if (is_scalar(&op->schema->arguments[i]) && !exg_is_none(&args[i]) &&
                   scalar_count < EXG_POINTWISE_SCALARS && op->pointwise != EXG_POINTWISE_CAST) {
            scalars[scalar_count++] = args[i];
        }
    }
    return exg_pointwise_apply(s->program, op->id, compute, result, sources, source_count, scalars,
                               scalar_count, &s->registers[at], p->err);
}

/* How often the group itself reads one of its results. */
static uint32_t inner_uses(const exg_planner *p, exg_value_id value)
{
    uint32_t uses = 0;

    for (uint32_t at = 0; at < p->group.node_count; at++) {
        uses += uses_of(&p->graph->nodes[p->group.nodes[at]], value);
    }
    return uses;
}

static exg_status build_program(exg_planner *p, group_step *s)
{
    exg_group *g = &p->group;
    int64_t sizes[EXG_RANK_MAX];

    find_order(p, s->order);
    for (uint32_t d = 0; d < g->rank; d++) {
        sizes[d] = g->sizes[s->order[d]];
    }
    exg_arena_reset(p->scratch);
    s->program = exg_pointwise_begin(p->arena, p->scratch, g->rank, sizes);
    if (s->program == NULL) {
        return EXG_OUT_OF_MEMORY(p->err);
    }
    for (uint32_t i = 0; i < g->load_count; i++) {
        const exg_tensor *view = &p->locations[g->loads[i]].view;

        EXG_TRY(exg_pointwise_load(s->program, i, view->dtype, exg_tensor_numel(view) == 1,
                                   &s->load_registers[i], p->err));
    }
    for (uint32_t at = 0; at < g->node_count; at++) {
        exg_value_id value = result_of(p, at);

        EXG_TRY_IN(p->err, apply_node(p, s, at), "graph.nodes[%u]", g->nodes[at]);
        if (p->value_uses[value] > inner_uses(p, value) || at + 1 == g->node_count) {
            s->stored[at] = true;
            EXG_TRY(exg_pointwise_store(s->program, s->stored_count++,
                                        p->graph->values[value].tensor->dtype, s->registers[at],
                                        p->err));
        }
    }
    return EXG_OK;
}

/* An operand as seen from the iteration space: broadcast dims have stride 0. */
static exg_location broadcast(const exg_planner *p, exg_value_id value, const uint32_t *order)
{
    exg_location location = p->locations[value];
    exg_tensor wide = location.view;

    wide.rank = p->group.rank;
    for (uint32_t d = 0; d < wide.rank; d++) {
        uint32_t missing = wide.rank - location.view.rank;

        wide.sizes[d] = p->group.sizes[d];
        wide.strides[d] = d < missing || location.view.sizes[d - missing] != wide.sizes[d]
                              ? 0
                              : location.view.strides[d - missing];
    }
    location.view = in_order(&wide, order);
    return location;
}

/* A load whose memory result `value` may take: it dies here, has the same layout,
 * and no other load reads the same buffer. */
static uint32_t reusable(const exg_planner *p, exg_value_id value, const bool *taken,
                         const uint32_t *order)
{
    const exg_tensor_meta *meta = p->graph->values[value].tensor;

    for (uint32_t i = 0; i < p->group.load_count && !p->no_reuse; i++) {
        exg_location operand = broadcast(p, p->group.loads[i], order);
        const exg_buffer *buffer = &p->plan->buffers[operand.buffer];
        uint32_t readers = 0;

        for (uint32_t j = 0; j < p->group.load_count; j++) {
            readers += p->locations[p->group.loads[j]].buffer == operand.buffer;
        }
        if (!taken[i] && readers == 1 && buffer->writable && buffer->is_folded == p->folds &&
            operand.offset == 0 &&
            p->buffer_uses[operand.buffer] == inner_uses(p, p->group.loads[i]) &&
            exg_tensor_is_contiguous(&operand.view) && operand.view.dtype == meta->dtype &&
            (uint64_t)exg_tensor_numel(&operand.view) * exg_dtype_bytes(meta->dtype) ==
                buffer->bytes) {
            return i;
        }
    }
    return LOADS_MAX;
}

/* ---- results side by side -------------------------------------------------------------------- */

#define JOINED_AHEAD 8 /* nodes that are looked at for one that joins results */

/* Of which of the list is the value? Of none: its count. */
static uint32_t place_in(const exg_argument *list, exg_value_id value)
{
    uint32_t at = 0;

    while (at < list->count && list->as_tensors[at] != value) {
        at++;
    }
    return at;
}

/* Does the list hold all results of the group, once each, and does nobody else read them? */
static bool holds_results(const exg_planner *p, const group_step *s, const exg_argument *list,
                          uint32_t rank)
{
    bool holds = list->count == s->stored_count && s->stored_count > 1;

    for (uint32_t at = 0; holds && at < p->group.node_count; at++) {
        exg_value_id value = result_of(p, at);

        holds = !s->stored[at] || (place_in(list, value) < list->count && rank == p->group.rank &&
                                   p->graph->values[value].tensor->rank == rank &&
                                   p->value_uses[value] - inner_uses(p, value) == 1);
    }
    return holds;
}

/* The node that joins all results: a device writes them where they belong in its. NULL: none. */
static const exg_node *find_joining(exg_planner *p, const group_step *s, exg_argument *args)
{
    const exg_graph *graph = p->graph;
    const uint32_t last = p->group.nodes[p->group.node_count - 1];

    if (p->device == NULL || p->folds || p->no_reuse || s->product < LOADS_MAX ||
        exg_planner_kernel(p, &exg_kernel_pointwise) == &exg_kernel_pointwise) {
        return NULL;
    }
    for (uint32_t n = last + 1; n < graph->node_count && n <= last + JOINED_AHEAD; n++) {
        const exg_operator *op = exg_operators_find(p->operators, graph->nodes[n].target);

        if (op != NULL && op->id == EXG_OP_cat_default &&
            !exg_planner_is_constant(p, &graph->nodes[n]) &&
            exg_operator_normalize(op, &graph->nodes[n], args, p->err) == EXG_OK &&
            holds_results(p, s, &args[0],
                          graph->values[graph->nodes[n].outputs[0].as_tensor].tensor->rank)) {
            return &graph->nodes[n];
        }
    }
    return NULL;
}

/* All results in a block as large as what they are joined to. */
static exg_status place_joined(exg_planner *p, const group_step *s, exg_step *step,
                               const exg_node *joining, const exg_argument *args)
{
    exg_tensor whole;
    uint32_t buffer;
    uint32_t output = 0;
    uint64_t bytes;

    EXG_TRY(exg_planner_view_of(p, p->graph->values[joining->outputs[0].as_tensor].tensor, &whole));
    exg_tensor_set_contiguous(&whole);
    EXG_TRY(exg_planner_extent(p, &whole, 0, &bytes));
    EXG_TRY(exg_planner_buffer(p, bytes, &buffer));
    for (uint32_t at = 0; at < p->group.node_count; at++) {
        exg_value_id value = result_of(p, at);
        exg_location *location = &p->locations[value];
        exg_location result;

        if (!s->stored[at]) {
            continue;
        }
        location->buffer = buffer;
        exg_planner_part_of(p, &args[0], place_in(&args[0], value), exg_get_int(&args[1]), &whole,
                            location);
        p->buffer_uses[buffer] += p->value_uses[value];
        result = *location;
        result.view = in_order(&location->view, s->order);
        exg_planner_output(p, step, output++, &result);
    }
    return EXG_OK;
}

static exg_status place_results(exg_planner *p, const group_step *s, exg_step *step)
{
    exg_argument args[EXG_ARGUMENTS_MAX];
    const exg_node *joining = find_joining(p, s, args);
    bool taken[LOADS_MAX] = {false};
    uint32_t output = 0;

    if (joining != NULL) {
        return place_joined(p, s, step, joining, args);
    }
    for (uint32_t at = 0; at < p->group.node_count; at++) {
        exg_value_id value = result_of(p, at);
        exg_location result;
        uint32_t load;

        if (!s->stored[at]) {
            continue;
        }
        load = s->product < LOADS_MAX ? s->product : reusable(p, value, taken, s->order);
        if (load < LOADS_MAX) {
            taken[load] = true;
        }
        EXG_TRY(exg_planner_result(p, value,
                                   load < LOADS_MAX ? p->locations[p->group.loads[load]].buffer
                                                    : EXG_NO_BUFFER));
        result = p->locations[value];
        result.view = in_order(&result.view, s->order);
        exg_tensor_set_contiguous(&result.view);
        for (uint32_t d = 0; d < result.view.rank; d++) {
            p->locations[value].view.strides[s->order[d]] = result.view.strides[d];
        }
        exg_planner_output(p, step, output++, &result);
    }
    return EXG_OK;
}

/* ---- as an epilogue ------------------------------------------------------------------ */

/* Which load is the result of the last step, when that is a product which finishes parts
 * of its result with the group: then the group's one result takes its place. */
static uint32_t product_of(const exg_planner *p, const group_step *s)
{
    const exg_plan *plan = p->plan;
    const exg_step *step = plan->step_count == 0 ? NULL : &plan->steps[plan->step_count - 1];
    bool taken[LOADS_MAX];

    if (step == NULL || p->no_fusion || step->is_folded != p->folds || !step->call.takes_epilogue ||
        step->call.epilogue != NULL || s->stored_count != 1) {
        return LOADS_MAX;
    }
    for (uint32_t i = 0; i < p->group.load_count; i++) {
        taken[i] = p->locations[p->group.loads[i]].buffer != step->outputs[0].buffer;
    }
    for (uint32_t at = 0; at < p->group.node_count; at++) {
        if (s->stored[at]) {
            return reusable(p, result_of(p, at), taken, s->order);
        }
    }
    return LOADS_MAX;
}

/* Would the last step leave the group to work of its own? Then more may join it first: the product
 * of two linear layers, of which one has an activation, is done with that. */
static bool is_apart(const exg_planner *p)
{
    const exg_plan *plan = p->plan;

    if (plan->step_count == 0 || !plan->steps[plan->step_count - 1].call.finishes_apart) {
        return false;
    }
    for (uint32_t at = 0; at < p->group.node_count; at++) {
        const exg_node *node = &p->graph->nodes[p->group.nodes[at]];
        exg_operator_id id = exg_operators_find(p->operators, node->target)->id;

        if (id != EXG_OP_add_Tensor && id != EXG_OP_relu_default && id != EXG_OP_gelu_default) {
            return true;
        }
    }
    return false;
}

exg_status exg_planner_part(exg_planner *p)
{
    const exg_group *g = &p->group;
    group_step s = {.stored_count = 1};

    if (g->node_count == 0 || is_apart(p)) {
        return EXG_OK;
    }
    for (uint32_t at = 0; at + 1 < g->node_count; at++) {
        exg_value_id value = result_of(p, at);

        if (p->value_uses[value] > inner_uses(p, value)) {
            return EXG_OK;
        }
    }
    find_order(p, s.order);
    s.stored[g->node_count - 1] = true;
    return product_of(p, &s) < LOADS_MAX ? exg_planner_close(p) : EXG_OK;
}

/* Gives the last step the group's program, operands and result. */
static exg_status attach(exg_planner *p, const group_step *s)
{
    exg_step *step = &p->plan->steps[p->plan->step_count - 1];
    uint32_t before = step->call.input_count + step->has_packed;
    uint32_t count = p->group.load_count;
    exg_location *locations = EXG_NEW_ARRAY(p->arena, exg_location, before + count);
    exg_tensor *tensors = EXG_NEW_ARRAY(p->arena, exg_tensor, before + count);
    exg_kernel_call call = {
        .outputs = step->call.outputs, .input_count = count, .output_count = 1, .arena = p->arena};

    if (locations == NULL || tensors == NULL) {
        return EXG_OUT_OF_MEMORY(p->err);
    }
    memcpy(locations, step->inputs, before * sizeof(*locations));
    memcpy(tensors, step->call.inputs, before * sizeof(*tensors));
    step->inputs = locations;
    step->call.inputs = tensors;
    step->call.packed = step->has_packed ? &tensors[step->call.input_count] : NULL;
    for (uint32_t i = 0; i < count; i++) {
        exg_location operand = broadcast(p, p->group.loads[i], s->order);

        exg_planner_input(p, step, before + i, &operand);
    }
    EXG_TRY(place_results(p, s, step));
    call.inputs = tensors + before;
    EXG_TRY(exg_pointwise_finish(s->program, &call, p->err));
    step->call.epilogue = s->program;
    step->call.epilogue_inputs = call.inputs;
    step->call.epilogue_self = s->product;
    step->epilogue_count = count;
    step->fused += p->group.node_count;
    if ((step->kernel->flags & EXG_KERNEL_SEES_EPILOGUE) == 0) {
        return EXG_OK;
    }
    step->call.params = NULL;
    step->call.workspace_bytes = 0;
    return exg_planner_prepare(p, step);
}

/* The uses the group's nodes made of values, of which those inside cost nothing. */
static void count_down(exg_planner *p, const group_step *s)
{
    exg_group *g = &p->group;

    for (uint32_t at = 0; at < g->node_count; at++) {
        const exg_node *node = &p->graph->nodes[g->nodes[at]];

        for (uint32_t i = 0; i < node->input_count; i++) {
            exg_value_id value = node->inputs[i].arg.as_tensor;

            if (node->inputs[i].arg.kind != EXG_ARGUMENT_TENSOR) {
                continue;
            }
            if (p->group_of[value] != 0 && !s->stored[p->group_of[value] - 1]) {
                p->value_uses[value]--;
            } else {
                exg_planner_used(p, value);
            }
        }
    }
    for (uint32_t at = 0; at < g->node_count; at++) {
        p->group_of[result_of(p, at)] = 0;
    }
    g->node_count = 0;
    g->load_count = 0;
}

exg_status exg_planner_close(exg_planner *p)
{
    exg_group *g = &p->group;
    group_step s = {.product = LOADS_MAX};
    exg_step *step;
    const exg_node *last;
    const exg_node *next = p->origin;

    if (g->node_count == 0) {
        return EXG_OK;
    }
    last = &p->graph->nodes[g->nodes[g->node_count - 1]];
    EXG_TRY(build_program(p, &s));
    s.product = product_of(p, &s);
    if (s.product < LOADS_MAX) {
        p->plan->summary.fused_count += g->node_count + 1;
        EXG_TRY(attach(p, &s));
        count_down(p, &s);
        return EXG_OK;
    }
    p->origin = last;
    EXG_TRY(exg_planner_step(p, &exg_kernel_pointwise,
                             last->name != NULL ? last->name : "pointwise", g->load_count,
                             s.stored_count, &step));
    p->origin = next;
    step->fused = g->node_count;
    p->plan->summary.fused_count += g->node_count > 1 ? g->node_count : 0;
    for (uint32_t i = 0; i < g->load_count; i++) {
        exg_location operand = broadcast(p, g->loads[i], s.order);

        exg_planner_input(p, step, i, &operand);
    }
    EXG_TRY(place_results(p, &s, step));
    count_down(p, &s);
    EXG_TRY(exg_pointwise_finish(s.program, &step->call, p->err));
    return exg_planner_prepare(p, step);
}
