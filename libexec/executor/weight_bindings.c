/* weight_bindings.c - asked of the session's memory. */
#include "libexec/executor/weight_bindings.h"
#include "libexport/base/arena.h"

#include <xxhash.h>

/* Adds a view to the range of bytes that are read of its buffer. */
static void widen(exg_range *ranges, const exg_location *location)
{
    exg_range *range = &ranges[location->buffer];
    exg_span span = exg_location_span(location);
    uint64_t first = (uint64_t)span.low;
    uint64_t end = (uint64_t)span.high;

    if (first == end) {
        return;
    }
    if (range->first == range->end) {
        *range = (exg_range){first, first};
    }
    range->first = first < range->first ? first : range->first;
    range->end = end > range->end ? end : range->end;
}

static exg_range *ranges_of(const exg_plan *plan)
{
    exg_range *ranges = EXG_NEW_ARRAY(plan->arena, exg_range, plan->buffer_count);

    for (uint32_t s = 0; ranges != NULL && s < plan->step_count; s++) {
        for (uint32_t i = 0; i < exg_step_operands(&plan->steps[s]); i++) {
            if (plan->steps[s].inputs[i].buffer != EXG_NO_BUFFER) {
                widen(ranges, &plan->steps[s].inputs[i]);
            }
        }
    }
    for (uint32_t o = 0; ranges != NULL && o < plan->output_count; o++) {
        if (plan->outputs[o].constant.kind == EXG_ARGUMENT_TENSOR) {
            widen(ranges, &plan->outputs[o].location);
        }
    }
    return ranges;
}

/* ---- weights ----------------------------------------------------------------------------- */

static bool is_weight(const exg_plan_input *input)
{
    return input->buffer != EXG_NO_BUFFER && input->kind != EXG_INPUT_USER &&
           input->kind != EXG_INPUT_TOKEN; /* which nothing reads */
}

static bool *transient_of(const exg_plan *plan)
{
    bool *transient = EXG_NEW_ARRAY(plan->arena, bool, plan->buffer_count);

    for (uint32_t i = 0; transient != NULL && i < plan->input_count; i++) {
        const exg_plan_input *input = &plan->inputs[i];

        if (is_weight(input)) {
            transient[input->buffer] = !plan->buffers[input->buffer].is_read && !input->mutated;
        }
    }
    for (uint32_t o = 0; transient != NULL && o < plan->output_count; o++) {
        if (plan->outputs[o].constant.kind == EXG_ARGUMENT_TENSOR) {
            transient[plan->outputs[o].location.buffer] = false;
        }
    }
    return transient;
}

static exg_status fetch(exg_weight_bindings *s, uint32_t input, bool stays, exg_error *err)
{
    const exg_plan_input *from = &s->plan->inputs[input];
    const void *data = NULL;

    EXG_TRY(exg_weight_store_weight(s->store, s->device, from, s->ranges[from->buffer], stays,
                                    &data, err));
    s->inputs[input] = (uint8_t *)(uintptr_t)data;
    if (s->pages != NULL) {
        exg_weight_store_expect(s->store, from, &s->pages[from->buffer]);
    }
    return EXG_OK;
}

static void forget(exg_weight_bindings *s, uint32_t input)
{
    const exg_plan_input *from = &s->plan->inputs[input];

    exg_weight_store_forget(s->store, s->device, from, s->plan->buffers[from->buffer].bytes);
    s->inputs[input] = NULL;
}

exg_status exg_weight_bindings_fetch(exg_weight_bindings *bindings, const exg_step *step,
                                     exg_error *err)
{
    for (uint32_t i = 0; i < exg_step_operands(step); i++) {
        uint32_t buffer = step->inputs[i].buffer;

        if (buffer != EXG_NO_BUFFER && bindings->is_transient[buffer]) {
            EXG_TRY(fetch(bindings, bindings->plan->buffers[buffer].index, false, err));
        }
    }
    return EXG_OK;
}

void exg_weight_bindings_forget(exg_weight_bindings *bindings, const exg_step *step)
{
    for (uint32_t i = 0; i < exg_step_operands(step); i++) {
        uint32_t buffer = step->inputs[i].buffer;

        if (buffer != EXG_NO_BUFFER && bindings->is_transient[buffer]) {
            forget(bindings, bindings->plan->buffers[buffer].index);
        }
    }
}

void exg_weight_bindings_forget_all(exg_weight_bindings *bindings)
{
    for (uint32_t i = 0; i < bindings->plan->input_count; i++) {
        uint32_t buffer = bindings->plan->inputs[i].buffer;

        if (buffer != EXG_NO_BUFFER && bindings->is_transient[buffer] &&
            bindings->inputs[i] != NULL) {
            forget(bindings, i);
        }
    }
}

static exg_status bind_weights(exg_weight_bindings *s, uint32_t index, exg_error *err)
{
    for (uint32_t i = 0; i < s->plan->input_count; i++) {
        const exg_plan_input *input = &s->plan->inputs[i];

        if (!is_weight(input)) {
            continue;
        }
        if (input->mutated) {
            EXG_TRY(exg_weight_store_state(s->store, s->device, index, input,
                                           (void **)&s->inputs[i], err));
        } else if (s->is_transient[input->buffer]) {
            EXG_TRY(exg_weight_store_check(s->store, input, s->ranges[input->buffer], err));
        } else {
            EXG_TRY(fetch(s, i, true, err));
        }
    }
    return EXG_OK;
}

/* ---- what is made of them ---------------------------------------------------------------- */

/* A weight packed alike is the same bytes in every plan of the session: the step's kernel,
 * the weight's storage and view, and the sizes of what is made say it all. Else 0. */
static uint64_t key_of(const exg_weight_bindings *s, const exg_step *step)
{
    const exg_plan *plan = s->plan;
    uint64_t words[8 + 4 * EXG_RANK_MAX] = {0};
    uint32_t at = 4;

    for (uint32_t i = 0; i < step->call.input_count; i++) {
        const exg_location *from = &step->inputs[i];
        const exg_buffer *buffer =
            from->buffer == EXG_NO_BUFFER ? NULL : &plan->buffers[from->buffer];

        if (buffer == NULL) {
            continue;
        }
        if (buffer->kind != EXG_BUFFER_INPUT) {
            return 0;
        }
        words[0] = (uint64_t)(uintptr_t)step->kernel;
        words[1] = exg_weight_store_weight_key(s->store, &plan->inputs[buffer->index]);
        words[2] = (uint64_t)from->offset;
        words[3] = from->view.dtype;
        for (uint32_t d = 0; d < from->view.rank; d++) {
            words[at++] = (uint64_t)from->view.sizes[d];
            words[at++] = (uint64_t)from->view.strides[d];
        }
    }
    for (uint32_t d = 0; d < step->outputs[0].view.rank; d++) {
        words[at++] = (uint64_t)step->outputs[0].view.sizes[d];
    }
    return XXH3_64bits(words, sizeof(words)) | 1;
}

static exg_status bind_constants(exg_weight_bindings *s, exg_error *err)
{
    const exg_plan *plan = s->plan;

    for (uint32_t at = 0; at < plan->folded_count; at++) {
        const exg_step *step = &plan->steps[at];

        for (uint32_t o = 0; o < step->call.output_count; o++) {
            const exg_buffer *b = step->outputs[o].buffer == EXG_NO_BUFFER
                                      ? NULL
                                      : &plan->buffers[step->outputs[o].buffer];

            if (b != NULL && b->kind == EXG_BUFFER_CONSTANT && s->folded[b->index] == NULL) {
                uint64_t key = b->is_packed ? key_of(s, step) : 0;

                EXG_TRY(exg_weight_store_folded(s->store, s->device, key, b->bytes,
                                                &s->folded[b->index], err));
                s->own_bytes += key == 0 ? b->bytes : 0;
            }
        }
    }
    return EXG_OK;
}

exg_status exg_weight_bindings_bind(exg_weight_bindings *bindings, uint32_t index, exg_error *err)
{
    const exg_plan *plan = bindings->plan;

    bindings->ranges = ranges_of(plan);
    bindings->is_transient = transient_of(plan);
    bindings->pages =
        bindings->is_of_mesh && bindings->device == NULL ? exg_page_rows_find(plan) : NULL;
    bindings->folded = EXG_NEW_ARRAY(plan->arena, exg_folded_constant *, plan->constant_count);
    if (bindings->ranges == NULL || bindings->is_transient == NULL || bindings->folded == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY(bind_weights(bindings, index, err));
    return bind_constants(bindings, err);
}

void exg_weight_bindings_release(exg_weight_bindings *bindings)
{
    for (uint32_t i = 0; bindings->folded != NULL && i < bindings->plan->constant_count; i++) {
        exg_weight_store_drop(bindings->store, bindings->folded[i]);
    }
}
