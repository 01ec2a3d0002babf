/* constant_folding.c - what depends on weights alone is computed before the first run: nodes
 * between weights (folding), and weights brought into the order kernels read (packing).
 * Such steps are folded; what they leave for the others is the session's own.
 */
#include "libexec/plan/emit.h"
#include "libexec/plan/planner.h"

#include <stdlib.h>
#include <string.h>

#define SMALL_BYTES 65536 /* what may be kept though it is larger than what it is made of */

static uint64_t bytes_of(const exg_planner *p, exg_value_id value)
{
    const exg_tensor_meta *meta = p->graph->values[value].tensor;
    uint64_t bytes = exg_dtype_bytes(meta->dtype);

    for (uint32_t d = 0; d < meta->rank; d++) { /* checked when the value gets its place */
        bytes *= (uint64_t)meta->sizes[d].value;
    }
    return bytes;
}

typedef struct weighing {
    const exg_planner *p;
    bool constant;
    uint64_t bytes;
} weighing;

static void weigh(void *user, exg_value_id *id)
{
    weighing *w = user;

    if (*id != EXG_NO_VALUE) {
        w->constant = w->constant && w->p->constant[*id];
        w->bytes += bytes_of(w->p, *id);
    }
}

static void mark(void *user, exg_value_id *id)
{
    bool *constant = user;

    if (*id != EXG_NO_VALUE) {
        constant[*id] = true;
    }
}

/* Results that are larger than the operands are cheaper computed than kept. */
bool exg_planner_is_constant(const exg_planner *p, const exg_node *node)
{
    const exg_operator *op = exg_operators_find(p->operators, node->target);
    const exg_kernel *kernel = op == NULL ? NULL : exg_kernel_of(op);
    weighing in = {.p = p, .constant = true};
    weighing out = {.p = p, .constant = true};

    if (op == NULL || op->stream != EXG_NOT_DRAWN ||
        (kernel != NULL && (kernel->flags & EXG_KERNEL_EACH_RUN) != 0)) {
        return false;
    }
    for (uint32_t i = 0; i < node->input_count && in.constant; i++) {
        exg_argument_visit_values(&node->inputs[i].arg, weigh, &in);
    }
    if (!in.constant) {
        return false;
    }
    for (uint32_t o = 0; o < node->output_count; o++) {
        exg_argument_visit_values(&node->outputs[o], weigh, &out);
    }
    return op->view != NULL || out.bytes <= in.bytes || out.bytes <= SMALL_BYTES;
}

exg_status exg_planner_find_constants(exg_planner *p)
{
    const exg_graph *graph = p->graph;

    p->constant = EXG_NEW_ARRAY(p->arena, bool, graph->value_count);
    if (p->constant == NULL) {
        return EXG_OUT_OF_MEMORY(p->err);
    }
    for (uint32_t i = 0; i < graph->input_count; i++) {
        uint32_t buffer = p->plan->inputs[i].buffer;

        if (buffer != EXG_NO_BUFFER && exg_planner_is_fixed(p, buffer)) {
            p->constant[graph->inputs[i].as_tensor] = true;
        }
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const exg_node *node = &graph->nodes[n];
        bool constant = exg_planner_is_constant(p, node);

        for (uint32_t o = 0; constant && o < node->output_count; o++) {
            exg_argument_visit_values(&node->outputs[o], mark, p->constant);
        }
    }
    return EXG_OK;
}

/* The step that packs operand `packs`; its prepare sees all operands, its run that one. */
static exg_status add_packing(exg_planner *p, const exg_kernel *kernel, exg_step *step,
                              const exg_location *operands, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        step->inputs[i] = (exg_location){.buffer = EXG_NO_BUFFER, .view = operands[i].view};
        step->call.inputs[i] = operands[i].view;
    }
    exg_planner_input(p, step, kernel->packs, &operands[kernel->packs]);
    step->call.outputs[0] = (exg_tensor){.dtype = EXG_DTYPE_U8, .rank = 1};
    return exg_planner_prepare(p, step);
}

/* May this step read `packed` in the place of operand 0, all that it reads of the buffer? */
static bool may_read_packed(const exg_planner *p, exg_step *step, uint32_t buffer,
                            const exg_step *packing, const exg_tensor *packed)
{
    exg_kernel_call trial = step->call;
    exg_error err = {0};
    exg_status status;

    for (uint32_t i = 1; i < exg_step_operands(step); i++) {
        if (step->inputs[i].buffer == buffer) {
            return false;
        }
    }
    if (step->kernel->of_packed == NULL || step->has_packed || step->epilogue_count > 0 ||
        p->device != NULL) {
        return false;
    }
    trial.packed = packed;
    trial.packing = packing->call.params;
    status = step->kernel->of_packed->prepare(&trial, &err);
    exg_error_clear(&err);
    return status == EXG_OK;
}

/* The step that reads the buffer in each run, from `at` on; the one that packs it is the last. */
static exg_step *next_reader(const exg_planner *p, uint32_t buffer, uint32_t *at)
{
    for (; *at + 1 < p->plan->step_count; (*at)++) {
        exg_step *step = &p->plan->steps[*at];

        for (uint32_t i = 0; !step->is_folded && i < exg_step_operands(step); i++) {
            if (step->inputs[i].buffer == buffer) {
                (*at)++;
                return step;
            }
        }
    }
    return NULL;
}

static bool all_may_read_packed(const exg_planner *p, uint32_t buffer, const exg_tensor *packed)
{
    const exg_step *packing = &p->plan->steps[p->plan->step_count - 1];
    uint32_t at = 0;

    for (exg_step *step; (step = next_reader(p, buffer, &at)) != NULL;) {
        if (!may_read_packed(p, step, buffer, packing, packed)) {
            return false;
        }
    }
    return true;
}

/* Those that have read the operand read what was made of it from here on: nothing is kept twice. */
static exg_status lend_packed(exg_planner *p, uint32_t buffer, const exg_location *packed)
{
    const exg_step *packing = &p->plan->steps[p->plan->step_count - 1];
    uint32_t at = 0;

    for (exg_step *step; (step = next_reader(p, buffer, &at)) != NULL;) {
        step->inputs[0].buffer = EXG_NO_BUFFER;
        exg_planner_input(p, step, step->call.input_count, packed);
        step->has_packed = true;
        step->call.packed = &step->call.inputs[step->call.input_count];
        step->call.packing = packing->call.params;
        step->kernel = step->host = step->kernel->of_packed;
        EXG_TRY(exg_planner_prepare(p, step));
    }
    p->plan->buffers[buffer].is_read = false;
    return EXG_OK;
}

exg_status exg_planner_pack(exg_planner *p, const exg_kernel *kernel, const exg_argument *args,
                            uint32_t arg_count, const exg_location *operands, uint32_t count,
                            bool channels_last, exg_location *packed)
{
    uint32_t from = count > kernel->packs ? operands[kernel->packs].buffer : EXG_NO_BUFFER;
    bool folded_before = p->folds;
    exg_status status;
    exg_step *step;

    packed->buffer = EXG_NO_BUFFER;
    if (kernel->packer == NULL || from == EXG_NO_BUFFER || !exg_planner_is_fixed(p, from) ||
        p->folds || p->buffer_uses[from] != 1) {
        return EXG_OK;
    }
    p->folds = true;
    status = exg_planner_step(p, kernel->packer, "pack", count, 1, &step);
    if (status == EXG_OK) {
        step->call.args = args;
        step->call.arg_count = arg_count;
        step->call.channels_last = channels_last;
        status = add_packing(p, kernel, step, operands, count);
    }
    if (status == EXG_OK && (exg_tensor_numel(&step->call.outputs[0]) == 0 ||
                             !all_may_read_packed(p, from, &step->call.outputs[0]))) {
        p->plan->step_count--; /* as if it had not been asked */
    } else if (status == EXG_OK) {
        packed->offset = 0;
        packed->view = step->call.outputs[0];
        exg_tensor_set_contiguous(&packed->view);
        status = exg_planner_buffer(p, (uint64_t)exg_tensor_numel(&packed->view), &packed->buffer);
        if (status == EXG_OK) {
            p->plan->buffers[packed->buffer].is_packed = true;
            exg_planner_output(p, step, 0, packed);
            p->folds = folded_before;
            status = lend_packed(p, from, packed);
        }
    }
    p->folds = folded_before;
    return status;
}

/* ---- order ------------------------------------------------------------------------ */

static void keep_constants(exg_plan *plan, const uint32_t *moved)
{
    for (uint32_t b = 0; b < plan->buffer_count; b++) {
        exg_buffer *buffer = &plan->buffers[b];

        if (buffer->kind != EXG_BUFFER_ARENA) {
            continue;
        }
        if (buffer->is_folded && buffer->is_read) {
            buffer->kind = EXG_BUFFER_CONSTANT;
            buffer->index = plan->constant_count++;
            plan->summary.constant_bytes += buffer->bytes;
            continue;
        }
        buffer->first_step = moved[buffer->first_step];
        buffer->last_step = buffer->last_step == UINT32_MAX ? UINT32_MAX : moved[buffer->last_step];
    }
}

static bool is_packing(const exg_plan *plan, const exg_step *step)
{
    return step->is_folded && step->outputs[0].buffer != EXG_NO_BUFFER &&
           plan->buffers[step->outputs[0].buffer].is_packed;
}

/* By step: the packing that reads what it made last, right after which that goes; so that
 * folded weights do not all live at once. EXG_NO_BUFFER: none. */
static void find_packings(const exg_plan *plan, uint32_t *packing, uint32_t *maker)
{
    memset(packing, 0xff, plan->step_count * sizeof(*packing));
    memset(maker, 0xff, plan->buffer_count * sizeof(*maker));
    for (uint32_t s = 0; s < plan->step_count; s++) {
        const exg_step *step = &plan->steps[s];
        bool packs = is_packing(plan, step);

        for (uint32_t i = 0; packs && i < step->call.input_count; i++) {
            uint32_t buffer = step->inputs[i].buffer;

            if (buffer != EXG_NO_BUFFER && maker[buffer] != UINT32_MAX &&
                packing[maker[buffer]] == UINT32_MAX) {
                packing[maker[buffer]] = s;
                packing[s] = s;
            }
        }
        for (uint32_t o = 0; step->is_folded && !packs && o < step->call.output_count; o++) {
            if (step->outputs[o].buffer != EXG_NO_BUFFER) {
                maker[step->outputs[o].buffer] = s;
            }
        }
    }
}

static void move_step(exg_plan *plan, exg_step *steps, uint32_t *moved, uint32_t from, uint32_t *at)
{
    moved[from] = *at;
    steps[(*at)++] = plan->steps[from];
}

typedef struct direct_packing {
    uint64_t bytes;
    uint32_t step;
} direct_packing;

static int larger_first(const void *a_, const void *b_)
{
    const direct_packing *a = a_;
    const direct_packing *b = b_;

    return a->bytes != b->bytes ? (a->bytes < b->bytes) - (a->bytes > b->bytes)
                                : (a->step > b->step) - (a->step < b->step);
}

/* Does the step pack a weight as the program has it? */
static bool packs_input(const exg_plan *plan, const exg_step *step)
{
    bool packs = is_packing(plan, step);

    for (uint32_t i = 0; packs && i < step->call.input_count; i++) {
        uint32_t buffer = step->inputs[i].buffer;

        packs = buffer == EXG_NO_BUFFER || plan->buffers[buffer].kind == EXG_BUFFER_INPUT;
    }
    return packs;
}

/* The largest weight first: while it is packed it is there twice, and of the others nothing yet.
 * They are their own packing, as those that follow what they read. */
static void move_packings(exg_plan *plan, exg_step *steps, uint32_t *moved, uint32_t *packing,
                          uint32_t *at, direct_packing *packings)
{
    uint32_t count = 0;

    for (uint32_t s = 0; s < plan->step_count; s++) {
        if (packs_input(plan, &plan->steps[s])) {
            packings[count++] =
                (direct_packing){plan->buffers[plan->steps[s].outputs[0].buffer].bytes, s};
            packing[s] = s;
        }
    }
    qsort(packings, count, sizeof(*packings), larger_first);
    for (uint32_t i = 0; i < count; i++) {
        move_step(plan, steps, moved, packings[i].step, at);
    }
}

exg_status exg_planner_order(exg_planner *p)
{
    exg_plan *plan = p->plan;
    exg_step *steps = EXG_NEW_ARRAY(p->arena, exg_step, plan->step_count);
    uint32_t *tables =
        calloc(2 * (size_t)plan->step_count + plan->buffer_count + 1, sizeof(*tables));
    direct_packing *packings = calloc((size_t)plan->step_count + 1, sizeof(*packings));
    uint32_t *moved = tables;
    uint32_t *packing = tables == NULL ? NULL : tables + plan->step_count;
    uint32_t at = 0;

    if (tables == NULL || packings == NULL || steps == NULL) {
        free(tables);
        free(packings);
        return EXG_OUT_OF_MEMORY(p->err);
    }
    find_packings(plan, packing, packing + plan->step_count);
    move_packings(plan, steps, moved, packing, &at, packings);
    free(packings);
    for (uint32_t s = 0; s < plan->step_count; s++) {
        if (plan->steps[s].is_folded && packing[s] != s) {
            move_step(plan, steps, moved, s, &at);
            if (packing[s] != UINT32_MAX) {
                move_step(plan, steps, moved, packing[s], &at);
            }
        }
    }
    plan->folded_count = at;
    for (uint32_t s = 0; s < plan->step_count; s++) {
        if (!plan->steps[s].is_folded) {
            move_step(plan, steps, moved, s, &at);
        }
    }
    plan->steps = steps;
    keep_constants(plan, moved);
    free(tables);
    return EXG_OK;
}
