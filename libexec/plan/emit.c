/* emit.c - adds steps and buffers to a plan, and says what steps read and write. */
#include "libexec/plan/emit.h"
#include "libexec/device/device.h"
#include "libexport/transform/origin.h"

#include <exg/module.h>
#include <stdio.h>
#include <string.h>

extern const exg_kernel exg_kernel_copy;

exg_status exg_planner_add_buffer(exg_planner *p, const exg_buffer *buffer, uint32_t *index)
{
    exg_plan *plan = p->plan;

    if (!exg_arena_reserve(p->arena, &plan->buffers, plan->buffer_count, &p->buffer_capacity,
                           sizeof(*buffer)) ||
        !exg_arena_reserve(p->arena, &p->buffer_uses, plan->buffer_count, &p->buffer_uses_capacity,
                           sizeof(uint32_t))) {
        return EXG_OUT_OF_MEMORY(p->err);
    }
    plan->buffers[plan->buffer_count] = *buffer;
    p->buffer_uses[plan->buffer_count] = 0;
    *index = plan->buffer_count++;
    return EXG_OK;
}

exg_status exg_planner_buffer(exg_planner *p, uint64_t bytes, uint32_t *buffer)
{
    uint32_t step = p->plan->step_count - 1;

    return exg_planner_add_buffer(p,
                                  &(exg_buffer){.kind = EXG_BUFFER_ARENA,
                                                .bytes = bytes,
                                                .first_step = step,
                                                .last_step = step,
                                                .writable = true,
                                                .is_folded = p->folds},
                                  buffer);
}

/* "file:line: code", or "" */
static const char *source_text(exg_arena *arena, const exg_node *node)
{
    exg_source_line source;
    char line[16];
    char *text;
    char *to;
    int digits;

    if (!exg_node_source_line(node, &source) || source.line == 0) {
        return "";
    }
    digits = snprintf(line, sizeof(line), ":%u: ", source.line);
    text = to =
        exg_arena_alloc(arena, source.file_length + (size_t)digits + source.code_length + 1, 1);
    if (text != NULL) {
        memcpy(to, source.file, source.file_length);
        to += source.file_length;
        memcpy(to, line, (size_t)digits);
        memcpy(to + digits, source.code, source.code_length);
    }
    return text;
}

/* Which node and which of the user's modules the step comes from. What is made from one node of the
 * program has its metadata, and its steps come one after the other. */
static bool note_origin(exg_planner *p, exg_step *step)
{
    exg_noted *noted = &p->noted;

    step->target = step->module = step->origin = step->source = "";
    if (p->origin == NULL) {
        return true;
    }
    if (noted->metadata == NULL || noted->metadata != p->origin->metadata.items) {
        const char *origin = exg_node_origin(p->origin);
        exg_module_frame module = exg_node_module(p->origin);

        noted->metadata = p->origin->metadata.items;
        noted->module = exg_arena_strndup(p->arena, module.path, module.path_length);
        noted->origin = exg_arena_strdup(p->arena, origin == NULL ? "" : origin);
        noted->source = source_text(p->arena, p->origin);
    }
    step->target = exg_arena_strdup(p->arena, p->origin->target);
    step->module = noted->module;
    step->origin = noted->origin;
    step->source = noted->source;
    return step->target != NULL && step->module != NULL && step->origin != NULL &&
           step->source != NULL;
}

exg_status exg_planner_step(exg_planner *p, const exg_kernel *kernel, const char *name,
                            uint32_t input_count, uint32_t output_count, exg_step **step)
{
    exg_plan *plan = p->plan;
    exg_step *s;

    if (!exg_arena_reserve(p->arena, &plan->steps, plan->step_count, &p->step_capacity,
                           sizeof(*s))) {
        return EXG_OUT_OF_MEMORY(p->err);
    }
    s = &plan->steps[plan->step_count++];
    *s = (exg_step){.kernel = exg_planner_kernel(p, kernel),
                    .host = kernel,
                    .name = exg_arena_strdup(p->arena, name),
                    .fused = 1,
                    .is_folded = p->folds};
    s->inputs = EXG_NEW_ARRAY(p->arena, exg_location, input_count);
    s->outputs = EXG_NEW_ARRAY(p->arena, exg_location, output_count);
    s->call.inputs = EXG_NEW_ARRAY(p->arena, exg_tensor, input_count);
    s->call.outputs = EXG_NEW_ARRAY(p->arena, exg_tensor, output_count);
    s->call.input_count = input_count;
    s->call.output_count = output_count;
    s->call.arena = p->arena;
    s->call.grid = p->grid;
    s->on_host = p->device != NULL && p->device->table->kernel_of(s->kernel) == NULL;
    s->call.device = s->on_host ? NULL : p->device;
    if (s->inputs == NULL || s->outputs == NULL || s->call.inputs == NULL ||
        s->call.outputs == NULL || s->name == NULL || !note_origin(p, s)) {
        return EXG_OUT_OF_MEMORY(p->err);
    }
    *step = s;
    return EXG_OK;
}

exg_status exg_planner_view_of(exg_planner *p, const exg_tensor_meta *meta, exg_tensor *view)
{
    if (meta->rank > EXG_RANK_MAX) {
        return EXG_FAIL(p->err, LIMIT, "SHP-001", "a tensor of rank %u; at most %d are run",
                        meta->rank, EXG_RANK_MAX);
    }
    memset(view, 0, sizeof(*view));
    view->dtype = meta->dtype;
    view->rank = meta->rank;
    for (uint32_t d = 0; d < meta->rank; d++) {
        view->sizes[d] = meta->sizes[d].value;
        view->strides[d] = meta->strides[d].value;
    }
    return EXG_OK;
}

exg_status exg_planner_extent(exg_planner *p, const exg_tensor *view, int64_t offset,
                              uint64_t *bytes)
{
    return exg_tensor_end(view, offset, bytes)
               ? EXG_OK
               : EXG_FAIL(p->err, LIMIT, "PLN-001", "a tensor reaches past 2^63 bytes");
}

exg_status exg_planner_result(exg_planner *p, exg_value_id value, uint32_t reuse)
{
    exg_location *location = &p->locations[value];
    uint64_t bytes;

    EXG_TRY(exg_planner_view_of(p, p->graph->values[value].tensor, &location->view));
    exg_tensor_set_contiguous(&location->view);
    EXG_TRY(exg_planner_extent(p, &location->view, 0, &bytes));
    location->offset = 0;
    location->buffer = reuse;
    if (reuse == EXG_NO_BUFFER) {
        EXG_TRY(exg_planner_buffer(p, bytes, &location->buffer));
    } else {
        p->plan->summary.in_place_count++;
    }
    p->buffer_uses[location->buffer] += p->value_uses[value];
    return EXG_OK;
}

static void touch(exg_planner *p, const exg_step *by, uint32_t buffer)
{
    uint32_t step = p->plan->step_count - 1;

    p->plan->buffers[buffer].is_read |= !by->is_folded;
    if (p->plan->buffers[buffer].last_step < step) {
        p->plan->buffers[buffer].last_step = step;
    }
}

void exg_planner_input(exg_planner *p, exg_step *step, uint32_t at, const exg_location *location)
{
    step->inputs[at] = *location;
    step->call.inputs[at] = location->view;
    touch(p, step, location->buffer);
}

void exg_planner_output(exg_planner *p, exg_step *step, uint32_t at, const exg_location *location)
{
    step->outputs[at] = *location;
    step->call.outputs[at] = location->view;
    touch(p, step, location->buffer);
}

void exg_planner_used(exg_planner *p, exg_value_id value)
{
    p->value_uses[value]--;
    p->buffer_uses[p->locations[value].buffer]--;
}

exg_status exg_planner_copy(exg_planner *p, const exg_location *from, const char *name,
                            exg_location *to)
{
    exg_location source = *from; /* `to` may be the same place */
    bool folded_before = p->folds;
    exg_status status;
    exg_step *step;
    uint64_t bytes;

    *to = source;
    to->offset = 0;
    exg_tensor_set_contiguous(&to->view);
    EXG_TRY(exg_planner_extent(p, &to->view, 0, &bytes));
    p->folds = p->folds || (exg_planner_is_fixed(p, source.buffer) &&
                            bytes <= p->plan->buffers[source.buffer].bytes);
    status = exg_planner_step(p, &exg_kernel_copy, name, 1, 1, &step);
    if (status == EXG_OK) {
        status = exg_planner_buffer(p, bytes, &to->buffer);
    }
    if (status == EXG_OK) {
        exg_planner_input(p, step, 0, &source);
        exg_planner_output(p, step, 0, to);
        status = exg_planner_prepare(p, step);
    }
    p->folds = folded_before;
    return status;
}

static bool is_weight(const exg_plan_input *input)
{
    return input->kind != EXG_INPUT_USER && !input->mutated && input->buffer != EXG_NO_BUFFER;
}

bool exg_planner_is_fixed(const exg_planner *p, uint32_t buffer)
{
    const exg_buffer *b = &p->plan->buffers[buffer];

    return b->kind == EXG_BUFFER_INPUT ? is_weight(&p->plan->inputs[b->index]) : b->is_folded;
}

void exg_planner_part_of(const exg_planner *p, const exg_argument *list, uint32_t at, int64_t dim,
                         const exg_tensor *whole, exg_location *part)
{
    const uint32_t d = (uint32_t)(dim < 0 ? dim + whole->rank : dim);

    part->offset = 0;
    for (uint32_t i = 0; i < at; i++) {
        part->offset +=
            p->graph->values[list->as_tensors[i]].tensor->sizes[d].value * whole->strides[d];
    }
    part->view = *whole;
    part->view.sizes[d] = p->graph->values[list->as_tensors[at]].tensor->sizes[d].value;
}
