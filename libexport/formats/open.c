/* open.c - which format, and off it goes. */
#include "libexport/base/arena.h"
#include "libexport/base/checked.h"
#include "libexport/base/files.h"
#include "libexport/base/options.h"
#include "libexport/base/require.h"
#include "libexport/formats/format.h"
#include "libexport/formats/model_folder.h"
#include "libexport/formats/weights_file.h"
#include "libexport/weights/storage.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const exg_format_row format_rows[EXG_FORMAT_COUNT] = {
    [EXG_FORMAT_PT2] = {exg_pt2_sniff, exg_pt2_open, exg_pt2_save, exg_pt2_describe},
    [EXG_FORMAT_EARLY_JSON] = {exg_early_sniff, exg_early_open, exg_early_save, NULL},
    [EXG_FORMAT_EXG] = {exg_exg_sniff, exg_exg_open, exg_exg_save, NULL},
};

static const struct {
    const char *name;
    const char *extension;
} format_names[] = {
#define EXG_FORMAT(id, name, extension, summary) [EXG_FORMAT_##id] = {name, extension},
#include <exg/format.def>
#undef EXG_FORMAT
};

const char *exg_format_name(exg_format format)
{
    return (unsigned)format < EXG_FORMAT_COUNT ? format_names[format].name : "?";
}

exg_format exg_format_from_name(const char *name)
{
    int i = 0;

    while (i < EXG_FORMAT_COUNT && strcmp(format_names[i].name, name) != 0) {
        i++;
    }
    return (exg_format)i;
}

exg_format exg_format_from_path(const char *path)
{
    size_t length = strlen(path);
    int i = 0;

    for (; i < EXG_FORMAT_COUNT; i++) {
        size_t extension = strlen(format_names[i].extension);

        if (length > extension &&
            strcasecmp(path + length - extension, format_names[i].extension) == 0) {
            break;
        }
    }
    return (exg_format)i;
}

static exg_format sniff(const uint8_t *data, uint64_t length)
{
    int i = 0;

    while (i < EXG_FORMAT_COUNT &&
           (format_rows[i].sniff == NULL || !format_rows[i].sniff(data, length))) {
        i++;
    }
    return (exg_format)i;
}

bool exg_is_program(const uint8_t *data, uint64_t length)
{
    return sniff(data, length) != EXG_FORMAT_COUNT;
}

static exg_status find_format(const exg_source *source, exg_format *format, exg_error *err)
{
    exg_weights_format weights = exg_weights_find_format(source->data, source->length);

    *format = sniff(source->data, source->length);
    if (weights != EXG_WEIGHTS_FORMAT_COUNT &&
        (*format == EXG_FORMAT_COUNT || weights == EXG_WEIGHTS_FORMAT_INDEX)) {
        return exg_error_fix(err,
                             EXG_FAIL(err, UNSUPPORTED, "FMT-WEIGHTS",
                                      "this is a file of weights (%s), and no program",
                                      exg_weights_format_name(weights)),
                             "give the program; --weights-from takes weights for one");
    }
    if (*format != EXG_FORMAT_EXG && weights == EXG_WEIGHTS_FORMAT_COUNT) {
        EXG_TRY(exg_foreign_check(source, err)); /* JSON and zips may be much */
    }
    if (*format != EXG_FORMAT_COUNT) {
        return EXG_OK;
    }
    if (source->length == 0) {
        return EXG_FAIL(err, MALFORMED, "FMT-EMPTY", "the file is empty");
    }
    return exg_error_fix(
        err,
        EXG_FAIL(err, UNSUPPORTED, "FMT-UNKNOWN",
                 "this is no file of a program or of weights that is known, or it is cut short"),
        "give a file saved by torch.export.save or torch.save, .safetensors, .gguf "
        "or another one: exg formats lists them");
}

static exg_status create_info(exg_file_info **info, exg_error *err)
{
    *info = calloc(1, sizeof(**info));
    if (*info == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    (*info)->size = sizeof(**info);
    return EXG_OK;
}

/* The caller has what was found out, or nobody: after a fault, or when it does not ask. */
static exg_status give_info(exg_status status, exg_file_info *found, exg_file_info **info)
{
    if (status == EXG_OK && info != NULL) {
        *info = found;
    } else {
        exg_file_info_free(found);
    }
    return status;
}

static exg_status open_source(exg_source *source, const exg_open_options *options,
                              exg_program **program, exg_file_info *info, exg_error *err)
{
    exg_format format = EXG_FORMAT_COUNT;

    exg_source_limit(source, *options);
    EXG_TRY(find_format(source, &format, err));
    info->format = format;
    info->file_bytes = source->length;
    EXG_TRY(format_rows[format].open(source, options, program, info, err));
    if (options->no_check) {
        exg_weights_trust((*program)->weights);
    }
    return EXG_OK;
}

exg_status exg_open_memory(const void *data, size_t length, const exg_open_options *options,
                           exg_program **program, exg_file_info **info, exg_error *err)
{
    EXG_REQUIRE(err, EXG_IF_ANY(length, data), program);
    exg_source source = {.data = data, .length = length};
    exg_open_options own = {0};
    exg_file_info *found;

    *program = NULL;
    if (info != NULL) {
        *info = NULL;
    }
    EXG_TRY(EXG_READ_OPTIONS(exg_open_options, &own, options, err));
    EXG_TRY(create_info(&found, err));
    return give_info(open_source(&source, &own, program, found, err), found, info);
}

/* The bytes and the folder go to the weights of the program. */
static exg_status hand_over(exg_program *program, exg_opened *opened,
                            const exg_open_options *options, exg_error *err)
{
    char *directory = exg_path_directory(opened->path);
    exg_status status = directory == NULL
                            ? EXG_OUT_OF_MEMORY(err)
                            : exg_weights_set_directory(program->weights, directory, err);

    exg_weights_read_files(program->weights, exg_source_reading(options));
    free(directory);
    return status == EXG_OK ? exg_opened_give(opened, program->weights, err) : status;
}

exg_status exg_open(const char *path, const exg_open_options *options, exg_program **program,
                    exg_file_info **info, exg_error *err)
{
    EXG_REQUIRE(err, path, program);
    exg_opened opened;
    exg_file_info *found;
    exg_open_options own = {0};
    exg_status status;

    *program = NULL;
    if (info != NULL) {
        *info = NULL;
    }
    EXG_TRY(EXG_READ_OPTIONS(exg_open_options, &own, options, err));
    EXG_TRY(create_info(&found, err));
    status = exg_source_open(path, &own, &opened, err);
    if (status == EXG_OK && own.check_crc) {
        status = exg_source_need(&opened.source, 0, opened.source.length, 0, err);
    }
    if (status == EXG_OK) {
        status = open_source(&opened.source, &own, program, found, err);
    }
    if (status == EXG_OK) {
        status = hand_over(*program, &opened, &own, err);
    }
    exg_opened_release(&opened); /* when it was not given away */
    if (status != EXG_OK) {
        exg_program_destroy(*program);
        *program = NULL;
    }
    return give_info(status, found, info);
}

static exg_status describe(const exg_source *source, exg_file_info *found, exg_error *err)
{
    exg_format format = EXG_FORMAT_COUNT;

    EXG_TRY(find_format(source, &format, err));
    found->format = format;
    found->file_bytes = source->length;
    return format_rows[format].describe == NULL ? EXG_OK
                                                : format_rows[format].describe(source, found, err);
}

exg_status exg_file_describe(const char *path, const exg_open_options *options,
                             exg_file_info **info, exg_error *err)
{
    EXG_REQUIRE(err, path, info);
    exg_open_options own = {0};
    exg_opened opened;
    exg_file_info *found = NULL;
    exg_status status;

    *info = NULL;
    EXG_TRY(EXG_READ_OPTIONS(exg_open_options, &own, options, err));
    status = exg_source_open(path, &own, &opened, err);
    if (status == EXG_OK) {
        status = create_info(&found, err);
    }
    if (status == EXG_OK) {
        status = describe(&opened.source, found, err);
    }
    exg_opened_release(&opened);
    return give_info(status, found, info);
}

/* One program goes into a file of any format. */
static exg_status check_count(const exg_program *const *programs, uint32_t count, exg_format format,
                              exg_error *err)
{
    if (count == 0) {
        return EXG_FAIL(err, USAGE, "FMT-SEVERAL", "there is no program to be written");
    }
    if (count == 1 || format_rows[format].describe != NULL) {
        return EXG_OK;
    }
    return exg_error_fix(err,
                         EXG_FAIL(err, UNSUPPORTED, "FMT-SEVERAL",
                                  "a file of this format holds one program, and here are %u: %s, "
                                  "%s%s",
                                  count, programs[0]->name, programs[1]->name,
                                  count > 2 ? ", ..." : ""),
                         "write .pt2, or one of them");
}

exg_status exg_save(const exg_program *program, const char *path, exg_format format,
                    const exg_save_options *options, exg_error *err)
{
    EXG_REQUIRE(err, program, path);
    return exg_save_programs(&program, 1, path, format, options, err);
}

exg_status exg_save_programs(const exg_program *const *programs, uint32_t count, const char *path,
                             exg_format format, const exg_save_options *given, exg_error *err)
{
    EXG_REQUIRE(err, programs, path);
    exg_save_options options = {0};

    EXG_TRY(EXG_READ_OPTIONS(exg_save_options, &options, given, err));
    if ((unsigned)format >= EXG_FORMAT_COUNT) {
        return exg_error_fix(err, EXG_FAIL(err, USAGE, "FMT-UNKNOWN", "%s: unknown format", path),
                             "name the format, or end the file's name in .exg");
    }
    EXG_TRY(EXG_CHECK_CHOICE(options.compression, EXG_COMPRESSION_ZSTD,
                             "exg_save_options.compression", err));
    EXG_TRY(
        EXG_CHECK_CHOICE(options.weights, EXG_WEIGHTS_EXTERNAL, "exg_save_options.weights", err));
    if (options.dry_run && options.resume) {
        return EXG_FAIL(err, USAGE, "OPT-002",
                        "exg_save_options.dry_run goes with no exg_save_options.resume");
    }
    if (format_rows[format].save == NULL) {
        return EXG_FAIL(err, UNSUPPORTED, "FMT-WRITE", "%s files cannot be written",
                        format_names[format].name);
    }
    EXG_TRY(check_count(programs, count, format, err));
    return format_rows[format].save(programs, count, path, &options, err);
}
