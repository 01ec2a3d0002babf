/* host_fallback.c - between copies. */
#include "libexec/executor/host_fallback.h"

#include <string.h>

static int64_t round_up(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Operand `i` of inputs and results one after the other. */
static const exg_location *location_of(const exg_step *step, uint32_t i, exg_tensor **operand)
{
    uint32_t inputs = exg_step_operands(step);

    *operand = i < inputs ? &step->call.inputs[i] : &step->call.outputs[i - inputs];
    return i < inputs ? &step->inputs[i] : &step->outputs[i - inputs];
}

static uint32_t count_of(const exg_step *step)
{
    return exg_step_operands(step) + step->call.output_count;
}

/* The part of a buffer that the step's operands are in: they stay together, since one may be
 * another's memory. false: operand `i` is not the first of them. */
static bool part_of(const exg_step *step, uint32_t i, exg_span *part)
{
    exg_tensor *operand;
    uint32_t buffer = location_of(step, i, &operand)->buffer;

    *part = (exg_span){0, 0};
    for (uint32_t k = 0; k < count_of(step); k++) {
        const exg_location *location = location_of(step, k, &operand);
        exg_span s;

        if (location->buffer != buffer) {
            continue;
        }
        if (k < i) {
            return false;
        }
        s = exg_location_span(location);
        if (s.low < s.high) {
            part->low = part->low == part->high || s.low < part->low ? s.low : part->low;
            part->high = s.high > part->high ? s.high : part->high;
        }
    }
    return buffer != EXG_NO_BUFFER;
}

/* Does the kernel want row-major what is not? */
static bool is_gathered(const exg_location *location, const exg_tensor *operand)
{
    return location->buffer != EXG_NO_BUFFER && exg_tensor_numel(operand) > 0 &&
           memcmp(location->view.strides, operand->strides,
                  operand->rank * sizeof(*operand->strides)) != 0;
}

static int64_t gathered_bytes(const exg_tensor *operand)
{
    return round_up(exg_tensor_numel(operand) * (int64_t)exg_dtype_bytes(operand->dtype));
}

/* Lays the parts out from `at` on, then what is gathered; binds where `binds`. */
static int64_t lay_out(exg_step *step, uint8_t *memory, bool binds)
{
    int64_t at = 0;

    for (uint32_t i = 0; i < count_of(step); i++) {
        exg_tensor *operand;
        uint32_t buffer = location_of(step, i, &operand)->buffer;
        exg_span part;

        if (!part_of(step, i, &part)) {
            continue;
        }
        for (uint32_t k = i; binds && k < count_of(step); k++) {
            const exg_location *location = location_of(step, k, &operand);
            int64_t first = location->offset * (int64_t)exg_dtype_bytes(operand->dtype);

            if (location->buffer == buffer) { /* one without elements is anywhere */
                operand->data =
                    memory + at + (exg_tensor_numel(operand) == 0 ? 0 : first - part.low);
            }
        }
        at += round_up(part.high - part.low);
    }
    for (uint32_t i = 0; i < exg_step_operands(step); i++) {
        if (is_gathered(&step->inputs[i], &step->call.inputs[i])) {
            if (binds) {
                step->call.inputs[i].data = memory + at;
            }
            at += gathered_bytes(&step->call.inputs[i]);
        }
    }
    return at;
}

uint64_t exg_host_fallback_bytes(exg_step *step)
{
    return (uint64_t)lay_out(step, NULL, false);
}

void exg_host_fallback_bind(exg_step *step, uint8_t *memory)
{
    (void)lay_out(step, memory, true);
}

/* Copies the parts over, or back those that the step writes. */
static exg_status copy_parts(exg_accelerator *device, const exg_step *step, uint8_t *memory,
                             bool back, exg_host_fallback_base *base, const void *context,
                             exg_error *err)
{
    uint32_t inputs = exg_step_operands(step);
    int64_t at = 0;

    for (uint32_t i = 0; i < count_of(step); i++) {
        exg_tensor *operand;
        uint32_t buffer = location_of(step, i, &operand)->buffer;
        bool written = false;
        uint8_t *there;
        exg_span part;

        if (!part_of(step, i, &part)) {
            continue;
        }
        for (uint32_t o = inputs; o < count_of(step); o++) {
            written = written || location_of(step, o, &operand)->buffer == buffer;
        }
        there = part.low == part.high ? NULL : base(context, buffer) + part.low;
        if (there != NULL && !back) { /* results too: a view has gaps */
            EXG_TRY(device->table->copy_out(device, memory + at, there,
                                            (uint64_t)(part.high - part.low), err));
        } else if (there != NULL && written) {
            EXG_TRY(device->table->copy_in(device, there, memory + at,
                                           (uint64_t)(part.high - part.low), err));
        }
        at += round_up(part.high - part.low);
    }
    return device->table->wait(device, err);
}

/* Where the view of a gathered operand begins among the parts. */
static const uint8_t *window_of(const exg_step *step, uint32_t input, uint8_t *memory)
{
    const exg_location *location = &step->inputs[input];
    exg_tensor *operand;
    int64_t at = 0;
    exg_span part;

    for (uint32_t i = 0;; i++) {
        uint32_t buffer = location_of(step, i, &operand)->buffer;

        if (!part_of(step, i, &part)) {
            continue;
        }
        if (buffer == location->buffer) {
            return memory + at +
                   (location->offset * (int64_t)exg_dtype_bytes(location->view.dtype) - part.low);
        }
        at += round_up(part.high - part.low);
    }
}

exg_status exg_host_fallback_run(exg_accelerator *device, const exg_step *step, uint8_t *memory,
                                 exg_host_fallback_base *base, const void *context, exg_error *err)
{
    EXG_TRY(copy_parts(device, step, memory, false, base, context, err));
    for (uint32_t i = 0; i < exg_step_operands(step); i++) {
        const exg_tensor *operand = &step->call.inputs[i];

        if (is_gathered(&step->inputs[i], operand)) {
            exg_tensor_gather(&step->inputs[i].view, window_of(step, i, memory), operand->data);
        }
    }
    step->kernel->run(&step->call);
    return copy_parts(device, step, memory, true, base, context, err);
}
