/* planner.c - goes through a functional program once and turns nodes into steps:
 * views become views, pointwise neighbours one step, the rest one step each.
 */
#include "libexec/plan/planner.h"
#include "libexec/device/device.h"
#include "libexec/plan/emit.h"
#include "libexport/base/options.h"
#include "libexport/base/require.h"
#include "libexport/program/uses.h"
#include "libexport/transform/gathered_product.h"
#include "libexport/transform/weight_product.h"

#include <string.h>

/* ---- inputs ----------------------------------------------------------------------- */

/* Fills p->written; which inputs they are is not known yet. */
static exg_status find_written(exg_planner *p)
{
    const exg_signature *signature = &p->program->signature;

    exg_map_init(&p->written[false], p->arena);
    exg_map_init(&p->written[true], p->arena);
    for (uint32_t o = 0; o < signature->output_count; o++) {
        const exg_output_spec *output = &signature->outputs[o];
        bool of_user = output->kind == EXG_OUTPUT_USER_INPUT_MUTATION;

        if ((of_user || output->kind == EXG_OUTPUT_BUFFER_MUTATION ||
             output->kind == EXG_OUTPUT_PARAMETER_MUTATION) &&
            output->target != NULL &&
            !exg_map_put(&p->written[of_user], output->target, EXG_MAP_NONE - 1)) {
            return EXG_OUT_OF_MEMORY(p->err);
        }
    }
    return EXG_OK;
}

/* Fills p->taken_from and is_taken: outputs that are to be in the memory of a user input, and can
 * be. */
static exg_status find_taken(exg_planner *p)
{
    const exg_graph *graph = p->graph;

    p->is_taken = EXG_NEW_ARRAY(p->arena, bool, graph->input_count);
    p->taken_from = EXG_NEW_ARRAY(p->arena, uint32_t, graph->output_count);
    if (p->is_taken == NULL || p->taken_from == NULL) {
        return EXG_OUT_OF_MEMORY(p->err);
    }
    for (uint32_t o = 0; o < graph->output_count; o++) {
        uint32_t i = p->in_place == NULL || p->outputs_apart ? EXG_NO_INPUT : p->in_place[o];
        exg_tensor from;
        exg_tensor to;

        p->taken_from[o] = EXG_NO_INPUT;
        if (i >= graph->input_count || p->is_taken[i] ||
            graph->outputs[o].kind != EXG_ARGUMENT_TENSOR ||
            graph->inputs[i].kind != EXG_ARGUMENT_TENSOR ||
            p->program->signature.inputs[i].kind != EXG_INPUT_USER ||
            exg_map_find(&p->written[true], p->program->signature.inputs[i].arg.name) !=
                EXG_MAP_NONE) {
            continue;
        }
        EXG_TRY(exg_planner_view_of(p, graph->values[graph->inputs[i].as_tensor].tensor, &from));
        EXG_TRY(exg_planner_view_of(p, graph->values[graph->outputs[o].as_tensor].tensor, &to));
        if (exg_tensor_is_alike(&from, &to) && exg_tensor_is_contiguous(&from) &&
            graph->values[graph->inputs[i].as_tensor].tensor->storage_offset.value == 0) {
            p->taken_from[o] = i;
            p->is_taken[i] = true;
        }
    }
    return EXG_OK;
}

/* Is input `i`, called `name`, written? */
static bool is_written(exg_planner *p, uint32_t i, const char *name)
{
    exg_map *written = &p->written[p->plan->inputs[i].kind == EXG_INPUT_USER];

    return name != NULL && exg_map_find(written, name) != EXG_MAP_NONE &&
           exg_map_put(written, name, i); /* room is there */
}

static exg_status plan_input(exg_planner *p, uint32_t i)
{
    const exg_argument *arg = &p->graph->inputs[i];
    const exg_input_spec *spec = &p->program->signature.inputs[i];
    exg_plan_input *input = &p->plan->inputs[i];
    exg_location *location;
    exg_buffer buffer = {.kind = EXG_BUFFER_INPUT, .index = i, .last_step = UINT32_MAX};

    input->kind = spec->kind;
    input->target = exg_arena_strdup(p->arena, spec->target);
    input->name = exg_arena_strdup(p->arena, spec->arg.name);
    input->constant = *arg;
    input->buffer = EXG_NO_BUFFER;
    if (arg->kind != EXG_ARGUMENT_TENSOR) {
        return EXG_OK;
    }
    location = &p->locations[arg->as_tensor];
    EXG_TRY(exg_planner_view_of(p, p->graph->values[arg->as_tensor].tensor, &location->view));
    location->offset = p->graph->values[arg->as_tensor].tensor->storage_offset.value;
    input->tensor = location->view;
    input->storage_offset = location->offset;
    input->mutated = is_written(p, i, spec->kind == EXG_INPUT_USER ? spec->arg.name : spec->target);
    if (input->mutated) { /* the session keeps a copy of its own, row-major */
        exg_tensor_set_contiguous(&location->view);
        location->offset = 0;
        buffer.writable = true;
    }
    buffer.writable = buffer.writable || p->is_taken[i];
    EXG_TRY(exg_planner_extent(p, &location->view, location->offset, &buffer.bytes));
    EXG_TRY(exg_planner_add_buffer(p, &buffer, &location->buffer));
    input->buffer = location->buffer;
    p->buffer_uses[location->buffer] = p->value_uses[arg->as_tensor];
    if (spec->kind != EXG_INPUT_USER && p->value_uses[arg->as_tensor] > 0) {
        p->plan->summary.weight_bytes +=
            (uint64_t)exg_tensor_numel(&location->view) * exg_dtype_bytes(location->view.dtype);
    }
    return EXG_OK;
}

/* ---- nodes ------------------------------------------------------------------------ */

/* A view on argument 0; where the strides do not allow it, on a copy. */
static exg_status plan_view(exg_planner *p, const exg_node *node, const exg_operator *op,
                            const exg_argument *args)
{
    exg_value_id from = args[0].as_tensor;
    exg_value_id to = node->outputs[0].as_tensor;
    exg_location source;
    uint64_t bytes;

    EXG_TRY(exg_planner_need(p, from));
    source = p->locations[from];
    for (int attempt = 0;; attempt++) {
        if (exg_planner_view(p, op, args, &source, &p->locations[to]) == EXG_OK) {
            break;
        }
        if (attempt > 0) {
            return exg_error_within(p->err, EXG_MALFORMED, "%s", op->target);
        }
        EXG_TRY(exg_planner_copy(p, &source, "contiguous", &source));
    }
    EXG_TRY(exg_planner_extent(p, &p->locations[to].view, p->locations[to].offset, &bytes));
    if (bytes > p->plan->buffers[source.buffer].bytes) {
        return EXG_FAIL(p->err, MALFORMED, "PLN-002", "%s reaches outside its storage", op->target);
    }
    p->buffer_uses[source.buffer] += p->value_uses[to];
    exg_planner_used(p, from);
    p->plan->summary.view_count++;
    return EXG_OK;
}

/* The tensors among normalized arguments, in schema order; EXG_NO_VALUE: absent. */
static uint32_t operands_of(const exg_operator *op, const exg_argument *args, exg_value_id *values,
                            uint32_t max)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < op->schema->argument_count; i++) {
        bool list =
            args[i].kind == EXG_ARGUMENT_TENSORS || args[i].kind == EXG_ARGUMENT_OPTIONAL_TENSORS;

        if (op->schema->arguments[i].type.base != EXG_TYPE_TENSOR) {
            continue;
        }
        for (uint32_t t = 0; list && t < args[i].count; t++, count++) {
            if (count < max) {
                values[count] = args[i].as_tensors[t];
            }
        }
        if (!list) {
            if (count < max) {
                values[count] = exg_get_ref(&args[i]).id;
            }
            count++;
        }
    }
    return count;
}

/* May the step's first result take the memory of operand 0? */
static uint32_t reusable(exg_planner *p, const exg_kernel *kernel, const exg_node *node,
                         exg_value_id operand)
{
    exg_value_id result = node->outputs[0].as_tensor;
    const exg_location *location = &p->locations[operand];
    const exg_tensor_meta *meta = p->graph->values[result].tensor;
    const exg_buffer *buffer = &p->plan->buffers[location->buffer];
    int64_t numel = exg_tensor_numel(&location->view);

    if ((kernel->flags & EXG_KERNEL_IN_PLACE) != 0 &&
        exg_planner_is_window(p, (uint32_t)(node - p->graph->nodes), operand, result)) {
        return location->buffer;
    }
    if (p->no_reuse || (kernel->flags & EXG_KERNEL_IN_PLACE) == 0 || !buffer->writable ||
        buffer->is_folded != p->folds || p->buffer_uses[location->buffer] != 1 ||
        location->offset != 0 || !exg_tensor_is_contiguous(&location->view) ||
        meta->dtype != location->view.dtype ||
        (uint64_t)numel * exg_dtype_bytes(meta->dtype) != buffer->bytes) {
        return EXG_NO_BUFFER;
    }
    return location->buffer;
}

/* Does the kernel read rows that lie apart, and are these such? */
static bool has_rows_apart(const exg_kernel *kernel, uint32_t i, const exg_tensor *view)
{
    exg_tensor row = *view;

    if (i > 0 || (kernel->flags & EXG_KERNEL_ROWS_APART) == 0 || view->rank == 0 ||
        view->strides[0] < 0) {
        return false;
    }
    row.sizes[0] = 1;
    return exg_tensor_is_contiguous(&row);
}

static exg_status bind_operands(exg_planner *p, const exg_kernel *kernel, bool channels_last,
                                const exg_value_id *values, uint32_t count, exg_location *bound)
{
    EXG_TRY(exg_planner_part(p));
    for (uint32_t i = 0; i < count; i++) {
        memset(&bound[i], 0, sizeof(bound[i]));
        bound[i].buffer = EXG_NO_BUFFER;
        bound[i].view.dtype = EXG_DTYPE_COUNT;
        if (values[i] == EXG_NO_VALUE) {
            continue;
        }
        EXG_TRY(exg_planner_need(p, values[i]));
        bound[i] = p->locations[values[i]];
        if (!exg_kernel_takes_strides(kernel, i, channels_last) &&
            !has_rows_apart(kernel, i, &bound[i].view) &&
            !exg_tensor_is_contiguous(&bound[i].view)) {
            EXG_TRY(exg_planner_copy(p, &bound[i], "contiguous", &bound[i]));
        }
    }
    return EXG_OK;
}

/* The strides of (n, c, h, w) lying as (n, h, w, c). */
static void set_channels_last(exg_tensor *t)
{
    t->strides[1] = 1;
    t->strides[3] = t->sizes[1];
    t->strides[2] = t->sizes[3] * t->strides[3];
    t->strides[0] = t->sizes[2] * t->strides[2];
}

/* Do this node's kernel, operands and readers all take a result with its channels last? */
static bool suits_channels_last(exg_planner *p, const exg_kernel *kernel, const exg_node *node,
                                const exg_argument *args, uint32_t arg_count,
                                const exg_value_id *values, uint32_t count)
{
    exg_tensor views[8] = {{0}};
    exg_kernel_call call = {
        .args = args, .arg_count = arg_count, .inputs = views, .input_count = count};

    for (uint32_t o = 1; o < node->output_count; o++) { /* the others are not computed then */
        if (node->outputs[o].kind != EXG_ARGUMENT_TENSOR ||
            p->value_uses[node->outputs[o].as_tensor] > 0) {
            return false;
        }
    }
    if (kernel->suits_channels_last == NULL || count > 8 || p->folds || p->no_fusion ||
        node->outputs[0].kind != EXG_ARGUMENT_TENSOR ||
        p->plain_uses[node->outputs[0].as_tensor] > 0) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        views[i].dtype = EXG_DTYPE_COUNT;
        if (values[i] != EXG_NO_VALUE) {
            if (exg_planner_need(p, values[i]) != EXG_OK) {
                return false;
            }
            views[i] = p->locations[values[i]].view;
        }
    }
    return kernel->suits_channels_last(&call);
}

static exg_status plan_results(exg_planner *p, exg_step *step, const exg_node *node, uint32_t reuse)
{
    bool leaves_unused = (step->kernel->flags & EXG_KERNEL_LEAVES_UNUSED) != 0;
    uint32_t at = 0;

    for (uint32_t o = 0; o < node->output_count; o++) {
        const exg_argument *output = &node->outputs[o];

        for (uint32_t i = 0; i < (output->kind == EXG_ARGUMENT_TENSORS ? output->count : 1); i++) {
            exg_value_id value = output->kind == EXG_ARGUMENT_TENSORS  ? output->as_tensors[i]
                                 : output->kind == EXG_ARGUMENT_TENSOR ? output->as_tensor
                                                                       : EXG_NO_VALUE;

            if (value == EXG_NO_VALUE ||
                (at > 0 &&
                 (step->call.channels_last || (leaves_unused && p->value_uses[value] == 0)))) {
                step->call.outputs[at].dtype = EXG_DTYPE_COUNT;
                step->outputs[at].buffer = EXG_NO_BUFFER;
                step->outputs[at++].view.dtype = EXG_DTYPE_COUNT;
                continue;
            }
            EXG_TRY(exg_planner_result(p, value, at == 0 ? reuse : EXG_NO_BUFFER));
            if (at == 0 && reuse != EXG_NO_BUFFER) { /* where operand 0 is */
                p->locations[value].offset = step->inputs[0].offset;
            }
            if (at == 0 && step->call.channels_last) {
                set_channels_last(&p->locations[value].view);
            }
            exg_planner_output(p, step, at++, &p->locations[value]);
        }
    }
    return EXG_OK;
}

static uint32_t result_count(const exg_node *node)
{
    uint32_t count = 0;

    for (uint32_t o = 0; o < node->output_count; o++) {
        count += node->outputs[o].kind == EXG_ARGUMENT_TENSORS ? node->outputs[o].count : 1;
    }
    return count;
}

static exg_status keep_arguments(exg_planner *p, const exg_argument *args, uint32_t count,
                                 exg_argument **kept)
{
    *kept = exg_arena_memdup(p->arena, args, count, sizeof(*args));
    for (uint32_t i = 0; *kept != NULL && i < count; i++) {
        EXG_TRY(exg_argument_copy(p->arena, &(*kept)[i], p->err));
    }
    return *kept == NULL ? EXG_OUT_OF_MEMORY(p->err) : EXG_OK;
}

/* What a kernel's step is made of. */
typedef struct kernel_node {
    const exg_kernel *kernel;
    const exg_argument *args; /* kept */
    uint32_t arg_count, count;
    exg_value_id *values;
    exg_location *bound;
    exg_location packed;
    bool channels_last;
} kernel_node;

/* Operands where they are, or packed, or copied. */
static exg_status find_operands(exg_planner *p, const exg_node *node, const exg_operator *op,
                                const exg_argument *args, kernel_node *k)
{
    exg_argument *kept;

    k->count = operands_of(op, args, NULL, 0);
    k->arg_count = op->schema->argument_count;
    k->values = EXG_NEW_ARRAY(p->arena, exg_value_id, k->count);
    k->bound = EXG_NEW_ARRAY(p->arena, exg_location, k->count);
    if (k->values == NULL || k->bound == NULL) {
        return EXG_OUT_OF_MEMORY(p->err);
    }
    (void)operands_of(op, args, k->values, k->count);
    EXG_TRY(keep_arguments(p, args, k->arg_count, &kept));
    k->args = kept;
    k->channels_last =
        suits_channels_last(p, k->kernel, node, args, k->arg_count, k->values, k->count);
    EXG_TRY(bind_operands(p, k->kernel, k->channels_last, k->values, k->count, k->bound));
    EXG_TRY(exg_planner_pack(p, k->kernel, k->args, k->arg_count, k->bound, k->count,
                             k->channels_last, &k->packed));
    if (k->channels_last && k->packed.buffer == EXG_NO_BUFFER && k->kernel->packer != NULL) {
        k->channels_last = false;
        EXG_TRY(bind_operands(p, k->kernel, false, k->values, k->count, k->bound));
    }
    return EXG_OK;
}

static void set_operands(exg_planner *p, exg_step *step, kernel_node *k)
{
    if (k->packed.buffer != EXG_NO_BUFFER) { /* stands for the operand from here on */
        exg_planner_input(p, step, k->count, &k->packed);
        step->has_packed = true;
        step->call.packed = &step->call.inputs[k->count];
        k->bound[k->kernel->packs].buffer = EXG_NO_BUFFER;
    }
    for (uint32_t i = 0; i < k->count; i++) {
        if (k->bound[i].buffer == EXG_NO_BUFFER) {
            step->inputs[i] = k->bound[i];
            step->call.inputs[i] = k->bound[i].view;
        } else {
            exg_planner_input(p, step, i, &k->bound[i]);
        }
    }
}

static exg_status plan_kernel(exg_planner *p, const exg_node *node, const exg_operator *op,
                              const exg_argument *args)
{
    const exg_kernel *host = exg_kernel_of(op);
    kernel_node k = {.kernel = exg_planner_kernel(p, host)};
    exg_step *step;
    uint32_t reuse = EXG_NO_BUFFER;

    if (k.kernel == NULL) {
        return EXG_FAIL(p->err, UNSUPPORTED, "OPR-004", "no kernel for '%s'", op->target);
    }
    EXG_TRY(find_operands(p, node, op, args, &k));
    EXG_TRY(exg_planner_step(p, host, node->name != NULL ? node->name : op->schema->name,
                             k.count + 1, result_count(node), &step));
    step->call.op = op;
    step->call.input_count = k.count;
    step->call.args = k.args;
    step->call.arg_count = k.arg_count;
    step->call.channels_last = k.channels_last;
    if (k.count > 0 && k.values[0] != EXG_NO_VALUE && !k.channels_last &&
        k.bound[0].buffer == p->locations[k.values[0]].buffer && node->output_count > 0 &&
        node->outputs[0].kind == EXG_ARGUMENT_TENSOR) {
        reuse = reusable(p, k.kernel, node, k.values[0]);
    }
    set_operands(p, step, &k);
    EXG_TRY(plan_results(p, step, node, reuse));
    for (uint32_t i = 0; i < k.count; i++) {
        if (k.values[i] != EXG_NO_VALUE) {
            exg_planner_used(p, k.values[i]);
        }
    }
    return exg_planner_prepare(p, step);
}

static exg_status plan_node(exg_planner *p, uint32_t index)
{
    const exg_node *node = &p->graph->nodes[index];
    const exg_operator *op = exg_operators_find(p->operators, node->target);
    exg_argument args[EXG_ARGUMENTS_MAX];
    bool kept;

    p->origin = node;
    if (op == NULL) {
        return EXG_FAIL(p->err, UNSUPPORTED, "OPR-003", "no operator '%s'", node->target);
    }
    if (op->pointwise != EXG_POINTWISE_NOT) {
        return exg_planner_group(p, index);
    }
    EXG_TRY(exg_operator_normalize(op, node, args, p->err));
    if (op->view != NULL) {
        return plan_view(p, node, op, args);
    }
    EXG_TRY(exg_planner_keep_window(p, node, op, args, &kept));
    if (kept) {
        return EXG_OK;
    }
    return plan_kernel(p, node, op, args);
}

/* ---- entry ------------------------------------------------------------------------ */

static void count_use(void *user, exg_value_id *id)
{
    exg_planner *p = user;

    if (*id != EXG_NO_VALUE) {
        p->value_uses[*id]++;
    }
}

/* Notes who reads values but pointwise operators and kernels that take operand 0 with its
 * channels last: a result all others read is row-major. */
static void count_plain_uses(exg_planner *p, const exg_node *node)
{
    const exg_operator *op = exg_operators_find(p->operators, node->target);
    const exg_kernel *kernel = op == NULL ? NULL : exg_planner_kernel(p, exg_kernel_of(op));

    for (uint32_t i = 0; i < node->input_count; i++) {
        const exg_argument *arg = &node->inputs[i].arg;
        bool takes =
            op != NULL && (op->pointwise != EXG_POINTWISE_NOT ||
                           (i == 0 && kernel != NULL && kernel->suits_channels_last != NULL));

        bool list = arg->kind == EXG_ARGUMENT_TENSORS || arg->kind == EXG_ARGUMENT_OPTIONAL_TENSORS;

        for (uint32_t t = 0; list && t < arg->count; t++) {
            if (arg->as_tensors[t] != EXG_NO_VALUE) {
                p->plain_uses[arg->as_tensors[t]]++;
            }
        }
        if (arg->kind == EXG_ARGUMENT_TENSOR && !takes) {
            p->plain_uses[arg->as_tensor]++;
        }
    }
}

static exg_status prepare_tables(exg_planner *p)
{
    const exg_graph *graph = p->graph;

    p->locations = EXG_NEW_ARRAY(p->arena, exg_location, graph->value_count);
    p->value_uses = EXG_NEW_ARRAY(p->arena, uint32_t, graph->value_count);
    p->plain_uses = EXG_NEW_ARRAY(p->arena, uint32_t, graph->value_count);
    p->group_of = EXG_NEW_ARRAY(p->arena, uint32_t, graph->value_count);
    p->plan->inputs = EXG_NEW_ARRAY(p->arena, exg_plan_input, graph->input_count);
    p->plan->outputs = EXG_NEW_ARRAY(p->arena, exg_plan_output, graph->output_count);
    p->plan->input_count = graph->input_count;
    p->plan->output_count = graph->output_count;
    if (p->locations == NULL || p->value_uses == NULL || p->plain_uses == NULL ||
        p->group_of == NULL || p->plan->inputs == NULL || p->plan->outputs == NULL) {
        return EXG_OUT_OF_MEMORY(p->err);
    }
    for (uint32_t v = 0; v < graph->value_count; v++) {
        p->locations[v].buffer = EXG_NO_BUFFER;
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        for (uint32_t i = 0; i < graph->nodes[n].input_count; i++) {
            exg_argument_visit_values(&graph->nodes[n].inputs[i].arg, count_use, p);
        }
        count_plain_uses(p, &graph->nodes[n]);
    }
    for (uint32_t o = 0; o < graph->output_count; o++) {
        exg_argument_visit_values(&graph->outputs[o], count_use, p);
    }
    return EXG_OK;
}

static exg_status plan_all(exg_planner *p)
{
    EXG_TRY(prepare_tables(p));
    EXG_TRY(find_written(p));
    EXG_TRY(find_taken(p));
    for (uint32_t i = 0; i < p->graph->input_count; i++) {
        EXG_TRY_IN(p->err, plan_input(p, i), "graph.inputs[%u]", i);
    }
    EXG_TRY(exg_planner_find_constants(p));
    for (int pass = 0; pass < 2; pass++) { /* what is the same in every run goes first */
        p->folds = pass == 0;
        for (uint32_t n = 0; n < p->graph->node_count; n++) {
            if (exg_planner_is_constant(p, &p->graph->nodes[n]) == p->folds) {
                EXG_TRY_IN(p->err, plan_node(p, n), "graph.nodes[%u]", n);
            }
        }
        EXG_TRY(exg_planner_close(p));
    }
    p->origin = NULL;
    EXG_TRY(exg_planner_outputs(p));
    EXG_TRY(exg_planner_order(p));
    if (p->overlaps) {
        EXG_TRY(exg_planner_overlap(p));
    }
    exg_planner_pair(p);
    p->plan->summary.node_count = p->graph->node_count;
    p->plan->summary.step_count = p->plan->step_count - p->plan->folded_count;
    for (uint32_t s = p->plan->folded_count; s < p->plan->step_count; s++) {
        p->plan->summary.host_count += p->plan->steps[s].on_host ? 1 : 0;
    }
    return exg_plan_memory(p->plan, p->no_reuse, p->err);
}

exg_status exg_plan_create(const exg_program *functional, const exg_operators *operators,
                           const exg_plan_options *options, exg_plan **plan, exg_error *err)
{
    EXG_REQUIRE(err, functional, operators, plan);
    exg_plan_options own = {0};

    *plan = NULL;
    EXG_TRY(EXG_READ_OPTIONS(exg_plan_options, &own, options, err));
    EXG_TRY(EXG_CHECK_CHOICE(own.overlap, EXG_OVERLAP_OFF, "exg_plan_options.overlap", err));
    EXG_TRY(exg_check_specialized(functional, err));
    return exg_plan_rank(functional, operators, &own, NULL, NULL, NULL, plan, err);
}

static exg_status plan_program(const exg_program *functional, const exg_operators *operators,
                               const exg_plan_options *options, const struct exg_grid *grid,
                               struct exg_accelerator *device, const uint32_t *in_place,
                               exg_plan **plan, exg_error *err)
{
    exg_arena *arena =
        exg_arena_create(exg_arena_allocator(functional->arena), EXG_ARENA_UNBOUNDED);
    exg_planner p = {.program = functional,
                     .graph = functional->graph,
                     .operators = operators,
                     .arena = arena,
                     .scratch = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED),
                     .device = device,
                     .in_place = in_place,
                     .err = err};
    exg_status status;

    *plan = NULL;
    p.plan = arena == NULL || p.scratch == NULL ? NULL : EXG_NEW(arena, exg_plan);
    if (p.plan == NULL) {
        exg_arena_destroy(p.scratch);
        exg_arena_destroy(arena);
        return EXG_OUT_OF_MEMORY(err);
    }
    p.plan->arena = arena;
    p.plan->summary.size = sizeof(p.plan->summary);
    p.no_fusion = options != NULL && options->no_fusion;
    p.no_reuse = options != NULL && options->no_reuse;
    p.overlaps = exg_plan_overlaps(options, grid, device);
    p.outputs_apart = options != NULL && options->outputs_apart;
    p.plan->outputs_apart = p.outputs_apart;
    p.grid = grid;
    status = plan_all(&p);
    exg_arena_destroy(p.scratch);
    if (status != EXG_OK) {
        exg_arena_destroy(arena);
        return status;
    }
    *plan = p.plan;
    return EXG_OK;
}

extern const exg_kernel exg_kernel_gathered_product;
extern const exg_kernel exg_kernel_weight_product;

typedef exg_status find_patterns(const exg_program *functional, const exg_operators *operators,
                                 exg_program **out, exg_error *err);

/* What `kernel` carries out, where the device has it; *functional is what was made, if it was. */
static exg_status find(find_patterns *patterns, const exg_kernel *kernel,
                       const exg_program **functional, const exg_operators *operators,
                       const struct exg_accelerator *device, exg_program **made, exg_error *err)
{
    if (device != NULL && device->table->kernel_of(kernel) == NULL) {
        return EXG_OK;
    }
    EXG_TRY(patterns(*functional, operators, made, err));
    *functional = *made == NULL ? *functional : *made;
    return EXG_OK;
}

exg_status exg_plan_rank(const exg_program *functional, const exg_operators *operators,
                         const exg_plan_options *options, const struct exg_grid *grid,
                         struct exg_accelerator *device, const uint32_t *in_place, exg_plan **plan,
                         exg_error *err)
{
    exg_program *gathered = NULL;
    exg_program *found = NULL;
    exg_status status;

    *plan = NULL;
    status = find(exg_find_gathered_products, &exg_kernel_gathered_product, &functional, operators,
                  device, &gathered, err);
    if (status == EXG_OK) { /* what is multiplied as it is stored */
        status = find(exg_find_weight_products, &exg_kernel_weight_product, &functional, operators,
                      device, &found, err);
    }
    if (status == EXG_OK) {
        status = plan_program(functional, operators, options, grid, device, in_place, plan, err);
    }
    exg_program_destroy(gathered);
    exg_program_destroy(found);
    return status;
}
