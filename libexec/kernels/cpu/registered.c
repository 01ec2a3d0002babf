/* registered.c - kernels of libraries: the call as they see it, and what they say went wrong. */
#include "libexec/kernels/registered.h"
#include "libexec/kernels/kernels.h"
#include "libexport/operators/registered.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A tensor that the function writes: input `from` is output `to`. */
typedef struct written {
    uint32_t from, to;
} written;

typedef struct registered_params {
    const exg_registered *registered;
    exg_operator_call call; /* but for tensors */
    written *written;       /* of a FUNCTIONAL */
    uint32_t written_count;
    exg_error *error; /* what the last run's function said */
} registered_params;

const exg_error *exg_registered_error(const exg_kernel_call *call)
{
    const registered_params *p = call->params;

    return p->error;
}

static void run_parallel(const exg_operator_call *call, void (*work)(void *context, uint32_t block),
                         void *context, uint32_t count)
{
    exg_pool_run(call->pool, work, context, count);
}

/* What is written comes after what is returned, in the order of the inputs. */
static exg_status find_written(const exg_kernel_call *call, registered_params *p, exg_error *err)
{
    const exg_function_schema *schema = p->registered->schema;
    uint32_t input = 0;

    p->written = EXG_NEW_ARRAY(call->arena, written, call->input_count + 1);
    if (p->written == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t a = 0; a < schema->argument_count; a++) {
        const exg_argument *arg = &call->args[a];
        bool is_list =
            arg->kind == EXG_ARGUMENT_TENSORS || arg->kind == EXG_ARGUMENT_OPTIONAL_TENSORS;
        uint32_t count = schema->arguments[a].type.base != EXG_TYPE_TENSOR ? 0
                         : is_list                                         ? arg->count
                                                                           : 1;

        for (uint32_t i = 0; i < count; i++, input++) {
            if (schema->arguments[a].is_write) {
                p->written[p->written_count++].from = input;
            }
        }
    }
    for (uint32_t w = 0; w < p->written_count; w++) {
        p->written[w].to =
            exg_registered_outputs(p->registered, call->output_count, p->written_count) + w;
    }
    return EXG_OK;
}

static exg_status registered_prepare(exg_kernel_call *call, exg_error *err)
{
    registered_params *p = EXG_NEW(call->arena, registered_params);

    if (p == NULL || (p->error = EXG_NEW(call->arena, exg_error)) == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    p->registered = call->op->registered;
    EXG_TRY(exg_registered_call(p->registered, call->args, call->arena, &p->call, err));
    if (p->registered->form == EXG_REGISTERED_FUNCTIONAL) {
        EXG_TRY(find_written(call, p, err));
        call->workspace_bytes = (call->input_count + 1) * sizeof(exg_tensor);
    }
    call->params = p;
    return EXG_OK;
}

/* Inputs that are written are where the outputs are, with what was in them. */
static const exg_tensor *copy_written(const exg_kernel_call *call, const registered_params *p)
{
    exg_tensor *inputs = call->workspace;

    memcpy(inputs, call->inputs, call->input_count * sizeof(*inputs));
    for (uint32_t w = 0; w < p->written_count; w++) {
        exg_tensor *in = &inputs[p->written[w].from];
        const exg_tensor *out = &call->outputs[p->written[w].to];
        size_t bytes = 0;

        if (exg_tensor_is_absent(in)) {
            continue;
        }
        bytes = (size_t)exg_tensor_numel(in) * (size_t)exg_dtype_bytes(in->dtype);
        if (bytes > 0 && out->data != in->data) {
            memcpy(out->data, in->data, bytes);
        }
        in->data = out->data;
    }
    return inputs;
}

static exg_status run_function(const exg_kernel_call *call, const registered_params *p,
                               exg_error *error)
{
    exg_operator_call of = p->call;
    exg_status status;

    of.inputs = p->written_count > 0 ? copy_written(call, p) : call->inputs;
    of.input_count = call->input_count;
    of.outputs = call->outputs;
    of.output_count = exg_registered_outputs(p->registered, call->output_count, p->written_count);
    of.parallel = run_parallel;
    of.pool = call->pool;
    if (p->registered->definition.effect) {
        *(bool *)call->outputs[call->output_count - 1].data = true;
    }
    if (p->registered->form != EXG_REGISTERED_LENGTH) {
        return p->registered->definition.kernel(&of, error);
    }
    status = p->registered->definition.length(&of, error);
    if (status == EXG_OK && of.length < 0) {
        return EXG_FAIL(error, UNSUPPORTED, "LIB-008", "its length is %" PRId64, of.length);
    }
    memcpy(call->outputs[0].data, &of.length, sizeof(of.length));
    return status;
}

static void registered_run(const exg_kernel_call *call)
{
    const registered_params *p = call->params;
    exg_status status;

    exg_error_clear(p->error);
    status = run_function(call, p, p->error);
    if (status != EXG_OK) {
        p->error->status = (uint32_t)status < EXG_STATUS_COUNT ? status : EXG_UNSUPPORTED;
        p->error->message[sizeof(p->error->message) - 1] = '\0';
        if (p->error->message[0] == '\0') {
            (void)snprintf(p->error->message, sizeof(p->error->message),
                           "fails with status %d, and does not say why", (int)status);
        }
        exg_raise(call, EXG_FAULT_REGISTERED);
    }
}

const exg_kernel exg_kernel_effect = {
    .name = "effect",
    .prepare = registered_prepare,
    .run = registered_run,
    .flags = EXG_KERNEL_RAISES | EXG_KERNEL_EACH_RUN,
};

const exg_kernel exg_kernel_registered = {
    .name = "registered",
    .prepare = registered_prepare,
    .run = registered_run,
    .flags = EXG_KERNEL_RAISES,
};
