/* cmd_convert.c - exg convert FILE OUT, exg repack FILE OUT. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

static exg_status save_options(const cli_call *call, exg_save_options *options, exg_error *err)
{
    *options = (exg_save_options){.size = sizeof(*options), .deduplicate = call->deduplicate,
                                  .progress = cli_progress};
    if (call->compress != NULL) {
        if (strcmp(call->compress, "none") != 0 && strcmp(call->compress, "zstd") != 0) {
            return EXG_FAIL(err, USAGE, "CLI-001", "--compress '%s': none or zstd", call->compress);
        }
        options->compression = strcmp(call->compress, "zstd") == 0 ? EXG_COMPRESSION_ZSTD
                                                                   : EXG_COMPRESSION_NONE;
    }
    if (call->weights != NULL) {
        if (strcmp(call->weights, "internal") != 0 && strcmp(call->weights, "external") != 0) {
            return EXG_FAIL(err, USAGE, "CLI-001", "--weights '%s': internal or external",
                            call->weights);
        }
        options->weights =
            strcmp(call->weights, "external") == 0 ? EXG_WEIGHTS_EXTERNAL : EXG_WEIGHTS_INTERNAL;
    }
    return EXG_OK;
}

/* A weight as a row-major tensor of a safetensors file. */
static exg_status gather_weight(const exg_program *program, const exg_weight *weight,
                                exg_named_tensor *tensor, exg_error *err)
{
    const exg_tensor_meta *meta = weight->meta;
    int64_t *shape = calloc(meta->rank + 1, sizeof(*shape));
    uint64_t bytes;

    *tensor = (exg_named_tensor){weight->fqn, meta->dtype, meta->rank, shape, NULL, 0};
    EXG_TRY(exg_tensor_meta_bytes(meta, &bytes, err));
    tensor->data = malloc(bytes + 1);
    tensor->bytes = bytes;
    if (shape == NULL || tensor->data == NULL) {
        return EXG_FAIL(err, NO_MEMORY, "MEM-001", "out of memory");
    }
    for (uint32_t d = 0; d < meta->rank; d++) {
        shape[d] = meta->sizes[d].value;
    }
    return exg_weight_read(program->weights, weight, (void *)(uintptr_t)tensor->data,
                           bytes, err);
}

static exg_status save_weights(const cli_call *call, const exg_program *program, exg_error *err)
{
    const exg_weights *weights = program->weights;
    exg_named_tensor *tensors = calloc(weights->count + 1, sizeof(*tensors));
    uint32_t count = 0;
    exg_status status = tensors == NULL ? EXG_FAIL(err, NO_MEMORY, "MEM-001", "out of memory")
                                        : EXG_OK;

    for (uint32_t i = 0; status == EXG_OK && i < weights->count; i++) {
        if (weights->items[i].meta != NULL && !weights->items[i].use_pickle) {
            status = gather_weight(program, &weights->items[i], &tensors[count], err);
            count++;
        }
    }
    status = status == EXG_OK ? exg_tensor_file_save(call->paths[1], tensors, count, NULL, err)
                              : status;
    for (uint32_t i = 0; tensors != NULL && i < count; i++) {
        free((void *)(uintptr_t)tensors[i].shape);
        free((void *)(uintptr_t)tensors[i].data);
    }
    free(tensors);
    return status;
}

static bool ends_with(const char *text, const char *end)
{
    return strlen(text) >= strlen(end) && strcmp(text + strlen(text) - strlen(end), end) == 0;
}

static exg_status rewrite(const cli_call *call, exg_error *err)
{
    cli_program p;
    exg_save_options options;
    exg_format format = exg_format_from_path(call->paths[1]);
    bool tensors = ends_with(call->paths[1], ".safetensors");
    exg_status status;

    EXG_TRY(save_options(call, &options, err));
    if (format == EXG_FORMAT_COUNT && !tensors) {
        return exg_error_fix(err,
                             EXG_FAIL(err, USAGE, "CLI-006", "no format for '%s'", call->paths[1]),
                             "name the output .exg or .safetensors");
    }
    EXG_TRY(cli_open_verified(call, &p, err));
    status = tensors ? save_weights(call, p.program, err)
                     : exg_save(p.program, call->paths[1], format, &options, err);
    cli_progress_end();
    if (status == EXG_OK && call->json) {
        fprintf(call->out, "{\"written\": \"%s\"}\n", tensors ? "safetensors" : exg_format_name(format));
    }
    cli_close(&p);
    return status;
}

exg_status cmd_convert(const cli_call *call, exg_error *err)
{
    return rewrite(call, err);
}

exg_status cmd_repack(const cli_call *call, exg_error *err)
{
    return rewrite(call, err);
}
