/* weights_file.c - which file of named tensors, and off it goes. */
#include "libexport/formats/weights_file.h"
#include "libexport/base/options.h"
#include "libexport/base/own_fix.h"
#include "libexport/base/require.h"

#include "libexport/base/arena.h"
#include "libexport/base/files.h"
#include "libexport/base/map.h"
#include "libexport/formats/model_folder.h"
#include "libexport/weights/storage.h"

#include <stdlib.h>
#include <string.h>

typedef struct format_row {
    exg_weights_sniff_fn *sniff;
    exg_weights_read_fn *read;
} format_row;

/* ZeRO has no row: its folder has no file that stands for it (open_zero()).
 * The order is that of the table: safetensors goes before its index, since the length
 * it begins with may look like the beginning of JSON. */
static const format_row format_rows[EXG_WEIGHTS_FORMAT_COUNT] = {
    [EXG_WEIGHTS_FORMAT_SAFETENSORS] = {exg_safetensors_sniff, exg_safetensors_read},
    [EXG_WEIGHTS_FORMAT_INDEX] = {exg_weights_index_sniff, exg_weights_index_read},
    [EXG_WEIGHTS_FORMAT_NPY] = {exg_npy_sniff, exg_npy_read},
    [EXG_WEIGHTS_FORMAT_NPZ] = {exg_npz_sniff, exg_npz_read},
    [EXG_WEIGHTS_FORMAT_GGUF] = {exg_gguf_sniff, exg_gguf_read},
    [EXG_WEIGHTS_FORMAT_ONNX] = {exg_onnx_sniff, exg_onnx_read},
    [EXG_WEIGHTS_FORMAT_PTD] = {exg_ptd_sniff, exg_ptd_read},
    [EXG_WEIGHTS_FORMAT_PTE] = {exg_pte_sniff, exg_pte_read},
    [EXG_WEIGHTS_FORMAT_CHECKPOINT] = {exg_checkpoint_sniff, exg_checkpoint_read},
    [EXG_WEIGHTS_FORMAT_CONTAINER] = {exg_container_sniff, exg_container_read},
    [EXG_WEIGHTS_FORMAT_DCP] = {exg_dcp_sniff, exg_dcp_read},
};

const char *exg_weights_format_name(exg_weights_format format)
{
    static const char *const names[] = {
#define EXG_WEIGHTS_FORMAT(id, name, files, summary, carries) [EXG_WEIGHTS_FORMAT_##id] = name,
#include <exg/weights_format.def>
#undef EXG_WEIGHTS_FORMAT
    };

    return (unsigned)format < EXG_WEIGHTS_FORMAT_COUNT ? names[format] : "program";
}

exg_weights_format exg_weights_find_format(const uint8_t *data, uint64_t length)
{
    int i = 0;

    while (i < EXG_WEIGHTS_FORMAT_COUNT &&
           (format_rows[i].sniff == NULL || !format_rows[i].sniff(data, length))) {
        i++;
    }
    return (exg_weights_format)i;
}

/* Of a part that stands for all, in a folder without an index, that of an index. */
static exg_weights_format find_format(const exg_source *source)
{
    exg_weights_format format = exg_weights_find_format(source->data, source->length);
    bool is_shard =
        format == EXG_WEIGHTS_FORMAT_SAFETENSORS || format == EXG_WEIGHTS_FORMAT_CHECKPOINT;

    return source->is_part && is_shard ? EXG_WEIGHTS_FORMAT_INDEX : format;
}

exg_status exg_weights_sniff(const char *path, const exg_open_options *options,
                             exg_weights_format *format, exg_error *err)
{
    EXG_REQUIRE(err, path, format);
    exg_open_options own = {0};
    exg_opened opened;
    exg_status status;

    EXG_TRY(EXG_READ_OPTIONS(exg_open_options, &own, options, err));
    if (exg_zero_is(path)) {
        *format = EXG_WEIGHTS_FORMAT_ZERO;
        return EXG_OK;
    }
    status = exg_source_open(path, &own, &opened, err);
    if (status == EXG_OK) {
        *format = find_format(&opened.source);
    }
    exg_opened_release(&opened);
    return status;
}

/* No name twice: who asks for one must get the one that is meant. */
static exg_status check_names(const exg_weights *weights, exg_error *err)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_map names;
    exg_status status = arena == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;

    exg_map_init(&names, arena);
    for (uint32_t i = 0; i < weights->count && status == EXG_OK; i++) {
        const char *name = weights->items[i].fqn;

        if (exg_map_find(&names, name) != EXG_MAP_NONE) {
            status = EXG_FAIL(err, MALFORMED, "WGT-NAME", "two tensors are called '%s'", name);
        } else if (!exg_map_put(&names, name, i)) {
            status = EXG_OUT_OF_MEMORY(err);
        }
    }
    exg_arena_destroy(arena);
    return status;
}

/* The way out of codes that programs have too speaks of programs. */
static exg_status of_weights(exg_status status, exg_error *err)
{
    static const char *const families[] = {"JSN-", "WGT-0", "ARC-", "ZIP-LIMIT"};
    bool shared = false;

    if (status == EXG_OK || err == NULL || exg_error_has_own_fix(err)) {
        return status;
    }
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        shared = shared || strncmp(err->code, families[i], strlen(families[i])) == 0;
    }
    return !shared ? status
           : status == EXG_LIMIT
               ? exg_error_fix(err, status, "save the tensor in a shape that is within the limit")
               : exg_error_fix(err, status,
                               "copy the file again and compare its size; if it is whole, what "
                               "wrote it broke the format");
}

static exg_status read_source(const exg_source *source, exg_weights *weights,
                              exg_weights_format *format, exg_error *err)
{
    exg_weights_read_fn *read;

    *format = find_format(source);
    if (source->length == 0) {
        return EXG_FAIL(err, MALFORMED, "FMT-EMPTY", "the file is empty");
    }
    if (*format == EXG_WEIGHTS_FORMAT_COUNT) {
        EXG_TRY(exg_foreign_check(source, err));
        return exg_error_fix(err,
                             EXG_FAIL(err, UNSUPPORTED, "FMT-TENSORS",
                                      "this is not a file of tensors, or it is cut short"),
                             "give .safetensors, its .index.json, .npy, .npz, .gguf, or a .pt of "
                             "torch.save");
    }
    read = source->is_part && *format == EXG_WEIGHTS_FORMAT_INDEX ? exg_weights_parts_read
                                                                  : format_rows[*format].read;
    EXG_TRY(of_weights(read(source, weights, err), err));
    return check_names(weights, err);
}

exg_status exg_weights_read_shard(const exg_source *source, exg_weights *weights, exg_error *err)
{
    exg_weights_format format = exg_weights_find_format(source->data, source->length);

    EXG_TRY(format == EXG_WEIGHTS_FORMAT_COUNT ? exg_foreign_check(source, err) : EXG_OK);
    if (format != EXG_WEIGHTS_FORMAT_SAFETENSORS && format != EXG_WEIGHTS_FORMAT_CHECKPOINT) {
        return EXG_FAIL(
            err, MALFORMED, "STF-SHARD",
            "the index names this file, which is neither safetensors nor of torch.save");
    }
    return format == EXG_WEIGHTS_FORMAT_SAFETENSORS
               ? exg_safetensors_read_shard(source, weights, err)
               : format_rows[format].read(source, weights, err);
}

static void apply_options(exg_weights *weights, const exg_open_options *options)
{
    if (options->no_check) {
        exg_weights_trust(weights);
    }
    if (options->strict) {
        exg_weights_refuse_skipping(weights);
    }
    exg_weights_read_files(weights, exg_source_reading(options));
}

exg_status exg_weights_open_memory(const void *data, size_t length, const exg_open_options *options,
                                   exg_weights **weights, exg_weights_format *format,
                                   exg_error *err)
{
    EXG_REQUIRE(err, EXG_IF_ANY(length, data), weights);
    exg_source source = {.data = data, .length = length};
    exg_open_options own = {0};
    exg_weights_format found;
    exg_status status;

    EXG_TRY(EXG_READ_OPTIONS(exg_open_options, &own, options, err));
    exg_source_limit(&source, own);
    EXG_TRY(exg_weights_create(source.allocator, weights, err));
    apply_options(*weights, &own);
    status = read_source(&source, *weights, &found, err);
    if (status != EXG_OK) {
        exg_weights_release(*weights);
        *weights = NULL;
    } else if (format != NULL) {
        *format = found;
    }
    return status;
}

/* The weights of a program, which goes. */
static exg_status open_program(const char *path, const exg_open_options *options,
                               exg_weights **weights, exg_error *err)
{
    exg_program *program;

    EXG_TRY(exg_open(path, options, &program, NULL, err));
    *weights = exg_weights_retain(program->weights);
    exg_program_destroy(program);
    return EXG_OK;
}

/* Reads all that can be read, and fails with the first fault that was told. */
static exg_status read_and_tell(exg_source *source, const exg_open_options *options,
                                exg_weights *weights, exg_weights_format *format, exg_error *err)
{
    exg_faults faults = {.tell = options->fault, .user = options->fault_user};
    exg_status status;

    source->faults = faults.tell == NULL ? NULL : &faults;
    status = read_source(source, weights, format, err);
    source->faults = NULL;
    if (status != EXG_OK && faults.tell != NULL && err != NULL) { /* the one that ended it */
        faults.tell(faults.user, err);
    }
    if (faults.count > 0) {
        if (err != NULL) {
            *err = faults.first;
        }
        return EXG_MALFORMED;
    }
    return status;
}

static exg_status open_source(exg_opened *opened, const exg_open_options *options,
                              exg_weights **weights, exg_weights_format *format, exg_error *err)
{
    exg_source source = opened->source;

    EXG_TRY(exg_weights_create(source.allocator, weights, err));
    apply_options(*weights, options);
    if (source.window != NULL) { /* what lies in it is known when all was read */
        EXG_TRY(read_and_tell(&source, options, *weights, format, err));
        return exg_opened_give(opened, *weights, err);
    }
    EXG_TRY(exg_opened_give(opened, *weights, err));
    return read_and_tell(&source, options, *weights, format, err);
}

static exg_status open_model(const char *path, const exg_open_options *options,
                             exg_weights **weights, exg_weights_format *format, exg_error *err)
{
    exg_opened opened;
    exg_status status = exg_source_open(path, options, &opened, err);

    if (status == EXG_OK && exg_is_program(opened.source.data, opened.source.length) &&
        exg_weights_find_format(opened.source.data, opened.source.length) ==
            EXG_WEIGHTS_FORMAT_COUNT) {
        exg_opened_release(&opened);
        return open_program(path, options, weights, err);
    }
    status = status == EXG_OK ? open_source(&opened, options, weights, format, err) : status;
    if (status != EXG_OK && opened.source.window == NULL && opened.path != NULL &&
        strcmp(opened.path, path) != 0) {
        status = exg_error_within(err, status, "%s:", exg_path_name(opened.path));
    }
    exg_opened_release(&opened);
    return status;
}

static exg_status open_zero(const char *path, const exg_open_options *options,
                            exg_weights **weights, exg_weights_format *format, exg_error *err)
{
    *format = EXG_WEIGHTS_FORMAT_ZERO;
    EXG_TRY(exg_weights_create(options->allocator, weights, err));
    apply_options(*weights, options);
    EXG_TRY(of_weights(exg_zero_read(path, options->memory_budget, *weights, err), err));
    return check_names(*weights, err);
}

exg_status exg_weights_open(const char *path, const exg_open_options *options,
                            exg_weights **weights, exg_weights_format *format, exg_error *err)
{
    EXG_REQUIRE(err, path, weights);
    exg_weights_format found = EXG_WEIGHTS_FORMAT_COUNT;
    exg_open_options own = {0};
    exg_status status;

    *weights = NULL;
    EXG_TRY(EXG_READ_OPTIONS(exg_open_options, &own, options, err));
    own.size = sizeof(own);
    status = (exg_zero_is(path) ? open_zero : open_model)(path, &own, weights, &found, err);
    if (status != EXG_OK) {
        exg_weights_release(*weights);
        *weights = NULL;
    } else if (format != NULL) {
        *format = found;
    }
    return status;
}
