/* launch.c - a step is a list of launches. */
#include "libexec/device/cuda/cuda.h"

#include <assert.h>
#include <string.h>

#define THREADS    256
#define BLOCKS_MAX (1 << 22)

exg_status exg_cuda_step_begin(exg_kernel_call *call, exg_error *err)
{
    exg_cuda_step *step = EXG_NEW(call->arena, exg_cuda_step);

    if (step == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    step->last = &step->first;
    call->params = step;
    return EXG_OK;
}

exg_status exg_cuda_step_add(exg_kernel_call *call, exg_cuda_ask *ask, const void *params,
                             size_t params_bytes, exg_cuda_launch **launch, exg_error *err)
{
    exg_cuda_step *step = (exg_cuda_step *)(uintptr_t)call->params;
    exg_cuda_launch *made = EXG_NEW(call->arena, exg_cuda_launch);

    assert(params_bytes <= EXG_CUDA_PARAMS_MAX);
    if (made == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    made->params = exg_arena_alloc(call->arena, 1, params_bytes);
    if (made->params == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    memcpy(made->params, params, params_bytes);
    made->params_bytes = (uint32_t)params_bytes;
    made->ask = ask;
    *step->last = made;
    step->last = &made->next;
    *launch = made;
    return EXG_OK;
}

exg_status exg_cuda_ask_kernel(const exg_cuda_device *device, const exg_cuda_launch *l,
                               void *params, cuda_stream stream, exg_error *err)
{
    size_t bytes = l->params_bytes;
    void *extra[] = {CUDA_LAUNCH_BYTES, params, CUDA_LAUNCH_SIZE, &bytes, CUDA_LAUNCH_END};

    return exg_cuda_check(&device->driver,
                          device->driver.launch(l->function, l->blocks[0], l->blocks[1],
                                                l->blocks[2], l->threads, 1, 1, 0, stream, NULL,
                                                extra),
                          "asking for a kernel", err);
}

static exg_status ask_kernel(exg_cuda_device *device, const exg_cuda_launch *l, void *params,
                             exg_error *err)
{
    return exg_cuda_ask_kernel(device, l, params, device->stream, err);
}

exg_status exg_cuda_step_add_kernel(exg_kernel_call *call, const char *text, const char *options,
                                    const char *entry, const void *params, size_t params_bytes,
                                    exg_cuda_launch **launch, exg_error *err)
{
    cuda_function function;

    EXG_TRY(
        exg_cuda_compile((exg_cuda_device *)call->device, text, options, entry, &function, err));
    EXG_TRY(exg_cuda_step_add(call, ask_kernel, params, params_bytes, launch, err));
    (*launch)->function = function;
    (*launch)->threads = THREADS;
    (*launch)->blocks[0] = (*launch)->blocks[1] = (*launch)->blocks[2] = 1;
    return EXG_OK;
}

void exg_cuda_slot_add(exg_cuda_launch *launch, exg_cuda_slot_kind kind, uint32_t index)
{
    assert(launch->slot_count < EXG_CUDA_SLOTS_MAX);
    launch->slots[launch->slot_count++] = (exg_cuda_slot){(uint8_t)kind, (uint8_t)index, 0};
}

void exg_cuda_grid(exg_cuda_launch *launch, int64_t count)
{
    int64_t blocks = (count + THREADS - 1) / THREADS;

    launch->threads = THREADS;
    launch->is_each = true;
    launch->blocks[0] = (uint32_t)(blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX);
}

static void *address_of(const exg_kernel_call *call, const exg_cuda_slot *slot)
{
    const exg_tensor *operand;
    char *base;

    switch ((exg_cuda_slot_kind)slot->kind) {
    case EXG_CUDA_INPUT:
    case EXG_CUDA_OUTPUT:
        if (slot->index >=
            (slot->kind == EXG_CUDA_INPUT ? call->input_count : call->output_count)) {
            return NULL;
        }
        operand =
            slot->kind == EXG_CUDA_INPUT ? &call->inputs[slot->index] : &call->outputs[slot->index];
        base = exg_tensor_is_absent(operand) ? NULL : operand->data;
        return base == NULL ? NULL : base + slot->offset;
    case EXG_CUDA_WORKSPACE:
        return (char *)call->workspace + slot->offset;
    case EXG_CUDA_FAULT:
        return call->fault;
    case EXG_CUDA_RANDOM:
        return (void *)(uintptr_t)call->random;
    case EXG_CUDA_PACKED:
        return call->packed->data;
    case EXG_CUDA_EPILOGUE:
        return call->epilogue_inputs[slot->index].data;
    }
    return NULL;
}

static void write_params(const exg_cuda_launch *l, const exg_kernel_call *call, char *params)
{
    memcpy(params, l->params, l->params_bytes);
    for (uint32_t s = 0; s < l->slot_count; s++) {
        void *address = address_of(call, &l->slots[s]);
        uint32_t first = l->slot_count - l->apart_count;
        size_t at = s < first ? s * sizeof(address) : l->apart_at + (s - first) * sizeof(address);

        memcpy(params + at, &address, sizeof(address));
    }
}

static exg_status ask_one(exg_cuda_device *device, const exg_cuda_launch *l,
                          const exg_kernel_call *call)
{
    _Alignas(16) char params[EXG_CUDA_PARAMS_MAX];

    write_params(l, call, params);
    return l->ask(device, l, params, &device->err);
}

void exg_cuda_step_run(const exg_kernel_call *call)
{
    exg_cuda_device *device = (exg_cuda_device *)call->device;
    const exg_cuda_step *step = call->params;

    for (const exg_cuda_launch *l = step->first; l != NULL && device->status == EXG_OK;
         l = l->next) {
        if (!(l->is_copy_of_self && call->inputs[0].data == call->outputs[0].data)) {
            device->status = ask_one(device, l, call);
        }
    }
}

/* ---- two at once ----------------------------------------------------------------------------- */

/* The call's one launch of a kernel, of a result that is where operand 0 is; NULL: it has others.
 */
static exg_cuda_launch *only_launch(const exg_kernel_call *call)
{
    const exg_cuda_step *step = call->params;
    exg_cuda_launch *l = step == NULL ? NULL : step->first;
    bool is_one;

    l = l != NULL && l->is_copy_of_self ? l->next : l;
    is_one = l != NULL && l->next == NULL && l->ask == ask_kernel && l->is_each &&
             !l->is_copy_of_self && l->blocks[2] == 1 &&
             2 * l->params_bytes <= EXG_CUDA_PARAMS_MAX && l->params_bytes % 8 == 0;

    return is_one ? l : NULL;
}

bool exg_cuda_pairs(exg_accelerator *device, const exg_kernel_call *a, const exg_kernel_call *b)
{
    exg_cuda_launch *first = only_launch(a);
    const exg_cuda_launch *second = only_launch(b);

    if (first == NULL || second == NULL || first->function != second->function ||
        first->params_bytes != second->params_bytes || first->blocks[1] != second->blocks[1] ||
        first->threads != second->threads) {
        return false;
    }
    return first->paired != NULL ||
           exg_cuda_compile_paired((exg_cuda_device *)device, first->function, &first->paired);
}

exg_status exg_cuda_launch_pair(exg_accelerator *device, const exg_kernel_call *a,
                                const exg_kernel_call *b, exg_error *err)
{
    exg_cuda_device *d = (exg_cuda_device *)device;
    const exg_cuda_launch *first = only_launch(a);
    const exg_cuda_launch *second = only_launch(b);
    _Alignas(16) char params[EXG_CUDA_PARAMS_MAX];
    exg_cuda_launch both = *first;

    write_params(first, a, params);
    write_params(second, b, params + first->params_bytes);
    both.function = first->paired;
    both.params_bytes = 2 * first->params_bytes;
    both.blocks[0] = first->blocks[0] > second->blocks[0] ? first->blocks[0] : second->blocks[0];
    both.blocks[2] = 2;
    EXG_TRY(exg_cuda_enter(d, err));
    return ask_kernel(d, &both, params, err);
}
