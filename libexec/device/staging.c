/* staging.c - between copies. */
#include "libexec/device/staging.h"

#include <string.h>

/* What an operand takes here: the bytes of its window from the first to the last, and, where
 * the kernel wants it row-major and it is not, those of a copy. */
typedef struct place {
    int64_t low;      /* bytes from the buffer's start */
    uint64_t bytes;   /* from there */
    bool is_gathered; /* into as many as the tensor has */
    uint64_t gathered_bytes;
} place;

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static place place_of(const exg_location *location, const exg_tensor *operand)
{
    const exg_tensor *w = &location->window;
    int64_t item = exg_dtype_bytes(w->dtype);
    int64_t low = location->offset;
    int64_t high = location->offset;
    place p = {.low = low * item};

    if (location->buffer == EXG_NO_BUFFER || exg_tensor_numel(w) == 0) {
        return p;
    }
    for (uint32_t d = 0; d < w->rank; d++) {
        int64_t reach = (w->sizes[d] - 1) * w->strides[d];

        low += reach < 0 ? reach : 0;
        high += reach > 0 ? reach : 0;
    }
    p.low = low * item;
    p.bytes = (uint64_t)((high + 1 - low) * item);
    p.is_gathered = memcmp(w->strides, operand->strides, w->rank * sizeof(*w->strides)) != 0;
    p.gathered_bytes = p.is_gathered ? (uint64_t)(exg_tensor_numel(w) * item) : 0;
    return p;
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

uint64_t exg_staging_bytes(const exg_step *step)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < count_of(step); i++) {
        exg_tensor *operand;
        const exg_location *location = location_of(step, i, &operand);
        place p = place_of(location, operand);

        bytes += round_up(p.bytes) + round_up(p.gathered_bytes);
    }
    return bytes;
}

void exg_staging_bind(exg_step *step, uint8_t *memory)
{
    for (uint32_t i = 0; i < count_of(step); i++) {
        exg_tensor *operand;
        const exg_location *location = location_of(step, i, &operand);
        place p = place_of(location, operand);

        if (location->buffer == EXG_NO_BUFFER) {
            continue;
        }
        operand->data = p.is_gathered ? memory + round_up(p.bytes)
                                      : memory + (location->offset *
                                                      (int64_t)exg_dtype_bytes(operand->dtype) -
                                                  p.low);
        memory += round_up(p.bytes) + round_up(p.gathered_bytes);
    }
}

/* Where an operand's bytes begin here. */
static uint8_t *begin_of(const exg_location *location, const place *p, const exg_tensor *operand)
{
    uint8_t *data = operand->data;

    return p->is_gathered ? data - round_up(p->bytes)
                          : data - (location->offset * (int64_t)exg_dtype_bytes(operand->dtype) -
                                    p->low);
}

/* And its first element, before it is gathered. */
static const uint8_t *first_of(const exg_location *location, const place *p,
                               const exg_tensor *operand)
{
    return begin_of(location, p, operand) +
           (location->offset * (int64_t)exg_dtype_bytes(operand->dtype) - p->low);
}

exg_status exg_staging_run(exg_accelerator *device, const exg_step *step, exg_staging_base *base,
                           const void *context, exg_error *err)
{
    const exg_device_table *table = device->table;
    uint32_t inputs = exg_step_operands(step);

    for (uint32_t i = 0; i < count_of(step); i++) { /* results too: a window has gaps */
        exg_tensor *operand;
        const exg_location *location = location_of(step, i, &operand);
        place p = place_of(location, operand);

        if (p.bytes > 0) {
            EXG_TRY(table->copy_out(device, begin_of(location, &p, operand),
                                    base(context, location->buffer) + p.low, p.bytes, err));
        }
    }
    EXG_TRY(table->wait(device, err));
    for (uint32_t i = 0; i < inputs; i++) {
        const exg_tensor *operand = &step->call.inputs[i];
        place p = place_of(&step->inputs[i], operand);

        if (p.is_gathered) {
            exg_tensor_gather(&step->inputs[i].window, first_of(&step->inputs[i], &p, operand),
                              operand->data);
        }
    }
    step->kernel->run(&step->call);
    for (uint32_t i = inputs; i < count_of(step); i++) {
        exg_tensor *operand;
        const exg_location *location = location_of(step, i, &operand);
        place p = place_of(location, operand);

        if (p.bytes > 0) {
            EXG_TRY(table->copy_in(device, base(context, location->buffer) + p.low,
                                   begin_of(location, &p, operand), p.bytes, err));
        }
    }
    return table->wait(device, err);
}
