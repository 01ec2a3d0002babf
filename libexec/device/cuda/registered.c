/* registered.c - kernels that libraries give as texts of CUDA C++ (exg/operator_library.h). */
#include "libexport/operators/registered.h"
#include "libexec/device/cuda/kernel_args.h"
#include "libexec/device/cuda/kernel_table.h"
#include "libexec/device/cuda/operand.h"

#include <string.h>

static exg_status ask_launch(exg_kernel_call *call, exg_operator_launch *launch, exg_error *err)
{
    const exg_registered *registered = call->op->registered;
    exg_operator_call of;

    *launch = (exg_operator_launch){.size = sizeof(*launch), .blocks = {1, 1, 1}, .threads = 256};
    EXG_TRY(exg_registered_call(registered, call->args, call->arena, &of, err));
    of.inputs = call->inputs;
    of.input_count = call->input_count;
    of.outputs = call->outputs;
    of.output_count = call->output_count;
    EXG_TRY(registered->definition.device_launch(&of, launch, err));
    return launch->parameter_bytes <= sizeof(launch->parameters)
               ? EXG_OK
               : exg_cuda_refuse("a launch with more parameters than there is room for", err);
}

static exg_status registered_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_operator_definition *definition = &call->op->registered->definition;
    const uint32_t slots = call->input_count + call->output_count;
    char params[EXG_CUDA_PARAMS_MAX] = {0}; /* addresses, then what the library says */
    exg_operator_launch asked;
    exg_cuda_launch *launch = NULL;
    exg_status status;

    if (definition->device_text == NULL) {
        return exg_cuda_refuse("an operator of a library that has no text for it", err);
    }
    if (slots > EXG_CUDA_SLOTS_MAX) {
        return exg_cuda_refuse("an operator of a library with more tensors than a kernel takes",
                               err);
    }
    EXG_TRY(ask_launch(call, &asked, err));
    EXG_TRY(exg_cuda_step_begin(call, err));
    if (asked.blocks[0] == 0 || asked.blocks[1] == 0 || asked.blocks[2] == 0) {
        return EXG_OK;
    }
    memcpy(params + slots * sizeof(cuda_address), asked.parameters, asked.parameter_bytes);
    status = exg_cuda_step_add_kernel(call, definition->device_text, "", definition->device_entry,
                                      params, slots * sizeof(cuda_address) + asked.parameter_bytes,
                                      &launch, err);
    if (status == EXG_DEVICE && strcmp(err->code, "DEV-007") == 0) {
        return exg_error_fix(err, status, "mend the device text of %s in its library",
                             call->op->target);
    }
    EXG_TRY(status);
    for (uint32_t i = 0; i < call->input_count; i++) {
        exg_cuda_slot_add(launch, EXG_CUDA_INPUT, i);
    }
    for (uint32_t o = 0; o < call->output_count; o++) {
        exg_cuda_slot_add(launch, EXG_CUDA_OUTPUT, o);
    }
    memcpy(launch->blocks, asked.blocks, sizeof(launch->blocks));
    launch->threads = asked.threads;
    return EXG_OK;
}

EXG_CUDA_KERNEL(registered, 0);
