/* finish.c - the end of a plan: results where the caller finds them, new state
 * where the next run finds it. */
#include "libexec/plan/emit.h"
#include "libexec/plan/planner.h"

#include <string.h>

/* A copy in every run, even of what is the same in each: other plans take turns in the memory of
 * results. */
static exg_status copy_result(exg_planner *p, exg_location *location)
{
    extern const exg_kernel exg_kernel_copy;
    exg_location from = *location;
    uint64_t bytes = (uint64_t)exg_tensor_numel(&from.view) * exg_dtype_bytes(from.view.dtype);
    exg_step *step;

    EXG_TRY(exg_planner_step(p, &exg_kernel_copy, "output", 1, 1, &step));
    exg_tensor_set_contiguous(&location->view);
    location->offset = 0;
    EXG_TRY(exg_planner_buffer(p, bytes, &location->buffer));
    exg_planner_input(p, step, 0, &from);
    exg_planner_output(p, step, 0, location);
    return exg_planner_prepare(p, step);
}

/* Results outlive the run: contiguous, in the arena and never reused, or in the caller's
 * memory, each in its own. */
static exg_status plan_result(exg_planner *p, uint32_t o)
{
    exg_plan_output *output = &p->plan->outputs[o];
    exg_location location = p->locations[p->graph->outputs[o].as_tensor];

    if (p->plan->buffers[location.buffer].kind != EXG_BUFFER_ARENA ||
        p->plan->buffers[location.buffer].is_folded || !exg_tensor_is_contiguous(&location.view)) {
        EXG_TRY(copy_result(p, &location));
    }
    p->plan->buffers[location.buffer].last_step = UINT32_MAX;
    if (p->outputs_apart) {
        p->plan->buffers[location.buffer].kind = EXG_BUFFER_OUTPUT;
        p->plan->buffers[location.buffer].index = o;
    }
    output->location = location;
    return EXG_OK;
}

static bool is_mutation(exg_output_kind kind)
{
    return kind == EXG_OUTPUT_BUFFER_MUTATION || kind == EXG_OUTPUT_PARAMETER_MUTATION ||
           kind == EXG_OUTPUT_USER_INPUT_MUTATION;
}

/* Does it end in the memory of an input? */
static bool is_written_back(const exg_planner *p, uint32_t o)
{
    return is_mutation(p->program->signature.outputs[o].kind) || p->taken_from[o] != EXG_NO_INPUT;
}

/* That input. */
static exg_plan_input *input_of(exg_planner *p, uint32_t o)
{
    const exg_output_spec *spec = &p->program->signature.outputs[o];
    uint32_t i =
        is_mutation(spec->kind)
            ? exg_map_find(&p->written[spec->kind == EXG_OUTPUT_USER_INPUT_MUTATION], spec->target)
            : p->taken_from[o];

    return i < p->plan->input_count ? &p->plan->inputs[i] : NULL;
}

/* A new value that still is in another input's memory is set aside first, since
 * that memory may be written back before it is read. */
static exg_status set_aside(exg_planner *p, uint32_t o)
{
    exg_plan_output *output = &p->plan->outputs[o];
    const exg_plan_input *input = input_of(p, o);
    const exg_buffer *buffer;

    if (input == NULL) {
        return EXG_FAIL(p->err, MALFORMED, "SIG-015", "a mutation of '%s', which is not an input",
                        p->program->signature.outputs[o].target);
    }
    output->location = p->locations[p->graph->outputs[o].as_tensor];
    if (!exg_tensor_is_alike(&output->location.view, &input->tensor)) {
        return EXG_FAIL(p->err, MALFORMED, "SIG-024",
                        "with these sizes '%s' is written with what has others, or another dtype",
                        p->program->signature.outputs[o].target);
    }
    buffer = &p->plan->buffers[output->location.buffer];
    if (buffer->kind == EXG_BUFFER_INPUT &&
        !(output->location.buffer == input->buffer && output->location.offset == 0 &&
          exg_tensor_is_contiguous(&output->location.view))) {
        return exg_planner_copy(p, &output->location, "set aside", &output->location);
    }
    return EXG_OK;
}

static exg_status write_back(exg_planner *p, uint32_t o)
{
    extern const exg_kernel exg_kernel_copy;
    exg_plan_output *output = &p->plan->outputs[o];
    const exg_plan_input *input = input_of(p, o);
    exg_location to = output->location;
    exg_step *step;

    if (output->location.buffer == input->buffer) {
        return EXG_OK;
    }
    EXG_TRY(exg_planner_step(p, &exg_kernel_copy, "write back", 1, 1, &step));
    to.buffer = input->buffer;
    to.offset = 0;
    exg_tensor_set_contiguous(&to.view);
    exg_planner_input(p, step, 0, &output->location);
    exg_planner_output(p, step, 0, &to);
    EXG_TRY(exg_planner_prepare(p, step));
    output->location = to;
    return EXG_OK;
}

exg_status exg_planner_outputs(exg_planner *p)
{
    const exg_graph *graph = p->graph;
    const exg_output_spec *specs = p->program->signature.outputs;

    for (uint32_t o = 0; o < graph->output_count; o++) {
        exg_plan_output *output = &p->plan->outputs[o];

        output->kind = specs[o].kind;
        output->target = exg_arena_strdup(p->arena, specs[o].target);
        output->constant = graph->outputs[o];
        if (graph->outputs[o].kind == EXG_ARGUMENT_STRING) {
            output->constant.as_string = exg_arena_strdup(p->arena, graph->outputs[o].as_string);
        }
    }
    for (uint32_t o = 0; o < graph->output_count; o++) {
        if (graph->outputs[o].kind == EXG_ARGUMENT_TENSOR && !is_written_back(p, o)) {
            EXG_TRY_IN(p->err, plan_result(p, o), "graph.outputs[%u]", o);
        }
    }
    for (uint32_t o = 0; o < graph->output_count; o++) {
        if (is_written_back(p, o)) {
            EXG_TRY_IN(p->err, set_aside(p, o), "graph.outputs[%u]", o);
        }
    }
    for (uint32_t o = 0; o < graph->output_count; o++) {
        if (is_written_back(p, o)) {
            EXG_TRY_IN(p->err, write_back(p, o), "graph.outputs[%u]", o);
        }
    }
    return EXG_OK;
}
