/* pt2.c - a program out of a .pt2 archive: the order of work of docs/pt2.md section 7. */
#include "libexport/formats/early/early.h"
#include "libexport/formats/format.h"
#include "libexport/formats/pt2/archive.h"
#include "libexport/formats/pt2/decode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool exg_pt2_sniff(const uint8_t *data, uint64_t length)
{
    return exg_zip_sniff(data, length);
}

/* "a, b, c", and "..." for those that find no room. */
static void list_programs(const exg_archive *archive, char *names, size_t room)
{
    size_t used = 0;

    for (uint32_t i = 0; i < archive->program_count; i++) {
        int more =
            snprintf(names + used, room - used, "%s%s", i > 0 ? ", " : "", archive->programs[i]);

        if (more < 0 || (size_t)more + sizeof(", ...") > room - used) {
            snprintf(names + used, room - used, "%s...", i > 0 ? ", " : "");
            return;
        }
        used += (size_t)more;
    }
}

/* The program asked for, or "model", or the only one. */
static exg_status choose_program(const exg_archive *archive, const char *wanted,
                                 const char **program, exg_error *err)
{
    const char *name = wanted == NULL ? "model" : wanted;
    char names[160];

    for (uint32_t i = 0; i < archive->program_count; i++) {
        if (strcmp(archive->programs[i], name) == 0) {
            *program = archive->programs[i];
            return EXG_OK;
        }
    }
    if (wanted == NULL && archive->program_count == 1) {
        *program = archive->programs[0];
        return EXG_OK;
    }
    list_programs(archive, names, sizeof(names));
    return exg_error_fix(
        err, EXG_FAIL(err, USAGE, "ARC-008", "the archive holds no program called %s", name),
        "name one (--program): %s", names);
}

static exg_status read_model(exg_archive *archive, const char *name, exg_program *program,
                             exg_error *err)
{
    const exg_zip_entry *entry = archive->generation == EXG_GENERATION_B
                                     ? exg_archive_find(archive, "serialized_exported_program.json")
                                     : exg_archive_find3(archive, "models/", name, ".json");
    exg_json_doc *doc = NULL;
    exg_status status;

    program->name = exg_arena_strdup(program->arena, name);
    if (program->name == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    status = exg_archive_json(archive, entry, &doc, err);
    if (status == EXG_OK) {
        status = exg_decode_program(exg_json_root(doc), program, err);
    }
    exg_json_free(doc);
    return status;
}

/* ---- records that are no part of a program -------------------------------------------------- */

static bool is_program_record(const char *name)
{
    static const char *const known[] = {"models/",
                                        "data/weights/",
                                        "data/constants/",
                                        "data/sample_inputs/",
                                        ".data/",
                                        "version",
                                        "archive_format",
                                        "archive_version",
                                        "byteorder",
                                        "serialized_exported_program.json",
                                        "serialized_state_dict.pt",
                                        "serialized_constants.pt",
                                        "serialized_example_inputs.pt"};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        size_t length = strlen(known[i]);

        if (known[i][length - 1] == '/' ? strncmp(name, known[i], length) == 0
                                        : strcmp(name, known[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* What an archive holds beside its programs; of the program's own records the example
 * inputs, when there are any. */
static const char *extra_name(const exg_archive *archive, const exg_zip_entry *entry,
                              const char *samples)
{
    const char *name = exg_archive_name(archive, entry);

    if (strcmp(name, samples) == 0 || strcmp(name, "serialized_example_inputs.pt") == 0) {
        return entry->bytes == 0 ? NULL : samples;
    }
    return is_program_record(name) ? NULL : name;
}

static exg_status keep_extra_files(exg_archive *archive, exg_program *program, exg_error *err)
{
    const exg_zip *zip = &archive->zip;
    const char *samples =
        exg_arena_printf(archive->arena, EXG_SAMPLES_FOLDER "%s.pt", program->name);
    uint32_t count = 0;

    if (samples == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < zip->count; i++) {
        count += extra_name(archive, &zip->entries[i], samples) != NULL;
    }
    program->extra_files = EXG_NEW_ARRAY(program->arena, exg_extra_file, count);
    if (program->extra_files == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < zip->count; i++) {
        const char *name = extra_name(archive, &zip->entries[i], samples);
        exg_extra_file *extra = &program->extra_files[program->extra_file_count];

        if (name == NULL) {
            continue;
        }
        extra->name = exg_arena_strdup(program->arena, name);
        if (extra->name == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
        EXG_TRY(exg_archive_storage(archive, &zip->entries[i], program->weights, EXG_LITTLE_ENDIAN,
                                    &extra->storage, err));
        program->extra_file_count++;
    }
    return EXG_OK;
}

/* ---- opening ------------------------------------------------------------------------------ */

static exg_status read_program(exg_archive *archive, const exg_open_options *options,
                               exg_program *program, exg_error *err)
{
    const char *name = NULL;

    EXG_TRY(choose_program(archive, options->program, &name, err));
    EXG_TRY_IN(err, read_model(archive, name, program, err), "%s",
               archive->generation == EXG_GENERATION_B ? "serialized_exported_program.json" : name);
    if (archive->generation == EXG_GENERATION_D) {
        EXG_TRY(exg_payload_read(archive, name, program->weights, err));
    } else {
        EXG_TRY(exg_state_read(archive, name, program->weights, err));
    }
    EXG_TRY(exg_samples_read(archive, name, program, err));
    EXG_TRY(keep_extra_files(archive, program, err));
    return options->ignore_carry ? EXG_OK : exg_early_recall(program, err);
}

#define MEMBER_ALIGNMENT 64 /* ARC-010 */

static exg_status fill_info(const exg_archive *archive, exg_file_info *info, exg_error *err)
{
    info->generation[0] = (char)archive->generation;
    for (uint32_t i = 0; i < archive->program_count; i++) {
        EXG_TRY(exg_file_info_add_program(info, archive->programs[i], err));
    }
    for (uint32_t i = 0; i < archive->zip.count; i++) {
        const exg_zip_entry *entry = &archive->zip.entries[i];

        if (!entry->deflated && entry->data_offset % MEMBER_ALIGNMENT == 0) {
            continue;
        }
        if (info->loose_count++ == 0 && (info->loose_member = strdup(entry->name)) == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
    }
    return EXG_OK;
}

exg_status exg_pt2_describe(const exg_source *source, exg_file_info *info, exg_error *err)
{
    exg_arena *arena = exg_arena_create(source->allocator, source->budget);
    exg_archive archive;
    exg_status status = arena == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;

    if (status == EXG_OK) {
        status =
            exg_archive_open(source->data, source->length, source->budget, arena, &archive, err);
        status = status == EXG_OK ? fill_info(&archive, info, err) : status;
        status = exg_arena_settle(arena, status, err);
    }
    exg_arena_destroy(arena);
    return status;
}

static exg_status open_archive(exg_arena *arena, const exg_source *source,
                               const exg_open_options *options, exg_program *program,
                               exg_file_info *info, exg_error *err)
{
    exg_archive archive;

    EXG_TRY(exg_archive_open(source->data, source->length, source->budget, arena, &archive, err));
    if (options->check_crc) {
        EXG_TRY(exg_archive_check_crc(&archive, err));
    }
    EXG_TRY(fill_info(&archive, info, err));
    return read_program(&archive, options, program, err);
}

exg_status exg_pt2_open(const exg_source *source, const exg_open_options *options,
                        exg_program **program, exg_file_info *info, exg_error *err)
{
    exg_arena *scratch = exg_arena_create(source->allocator, source->budget);
    exg_program *made = NULL;
    exg_status status = scratch == NULL
                            ? EXG_OUT_OF_MEMORY(err)
                            : exg_program_create(source->allocator, source->budget, &made, err);

    if (status == EXG_OK) {
        status = open_archive(scratch, source, options, made, info, err);
        status = exg_arena_settle(scratch, status, err);
        status = exg_arena_settle(made->arena, status, err);
    }
    exg_arena_destroy(scratch);
    if (status != EXG_OK) {
        exg_program_destroy(made);
        return status;
    }
    *program = made;
    return EXG_OK;
}
