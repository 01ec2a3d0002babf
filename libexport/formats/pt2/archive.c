/* archive.c - from a zip to records and programs. */
#include "libexport/formats/pt2/archive.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION_MIN 1
#define VERSION_MAX 10

/* ---- finding ----------------------------------------------------------------------- */

const exg_zip_entry *exg_archive_find3(const exg_archive *archive, const char *folder,
                                       const char *name, const char *suffix)
{
    char path[1024]; /* member names are shorter than 512: longer ones are not found */

    if (snprintf(path, sizeof(path), "%s%s%s%s", archive->root, folder, name, suffix) >=
        (int)sizeof(path)) {
        return NULL;
    }
    return exg_zip_find(&archive->zip, path);
}

const exg_zip_entry *exg_archive_find(const exg_archive *archive, const char *name)
{
    return exg_archive_find3(archive, "", name, "");
}

const char *exg_archive_name(const exg_archive *archive, const exg_zip_entry *entry)
{
    return entry->name + strlen(archive->root);
}

/* ---- reading ----------------------------------------------------------------------- */

static exg_status read_entry(exg_archive *archive, const exg_zip_entry *entry, const uint8_t **data,
                             void **owned, exg_error *err)
{
    EXG_TRY(exg_zip_read(&archive->zip, entry, *archive->inflate_left, data, owned, err));
    if (*owned != NULL) {
        *archive->inflate_left -= entry->bytes;
    }
    return EXG_OK;
}

/* 0 is what PyTorch writes where it computes none (compute_crc32=False). */
exg_status exg_archive_compare(const exg_archive *archive, const exg_zip_entry *entry,
                               const uint8_t *data, exg_error *err)
{
    return entry->crc == 0 ? EXG_OK : exg_zip_check_crc(&archive->zip, entry, data, err);
}

exg_status exg_archive_json(exg_archive *archive, const exg_zip_entry *entry, exg_json_doc **doc,
                            exg_error *err)
{
    uint64_t offset = entry->deflated ? EXG_NO_OFFSET : archive->zip.base + entry->data_offset;
    const uint8_t *data = NULL;
    void *owned = NULL;
    exg_status status;

    *doc = NULL;
    status = read_entry(archive, entry, &data, &owned, err);
    status = status == EXG_OK ? exg_archive_compare(archive, entry, data, err) : status;
    if (status == EXG_OK) {
        status = exg_json_parse(data, (size_t)entry->bytes, offset, EXG_JSON_KEYS_LATER, doc, err);
    }
    free(owned);
    return status;
}

exg_status exg_archive_keep(exg_archive *archive, const exg_zip_entry *entry, exg_weights *weights,
                            const uint8_t **data, exg_error *err)
{
    void *owned = NULL;
    exg_status status;

    EXG_TRY(read_entry(archive, entry, data, &owned, err));
    if (owned == NULL) {
        return EXG_OK;
    }
    status = exg_weights_own(weights, free, owned, err);
    if (status != EXG_OK) {
        free(owned);
    }
    return status;
}

exg_status exg_archive_storage(exg_archive *archive, const exg_zip_entry *entry,
                               exg_weights *weights, exg_byte_order order, uint32_t *storage,
                               exg_error *err)
{
    exg_storage made = {.kind = EXG_STORAGE_MEMORY, .byte_order = order, .length = entry->bytes};
    char crc[9];

    EXG_TRY(exg_archive_keep(archive, entry, weights, &made.data, err));
    if (entry->crc != 0) {
        snprintf(crc, sizeof(crc), "%08x", (unsigned)entry->crc);
        made.checksum = (exg_checksum){EXG_CHECKSUM_CRC32, crc};
    }
    return exg_weights_add_storage(weights, &made, storage, err);
}

exg_status exg_archive_check_crc(exg_archive *archive, exg_error *err)
{
    for (uint32_t i = 0; i < archive->zip.count; i++) {
        const exg_zip_entry *entry = &archive->zip.entries[i];
        const uint8_t *data = NULL;
        void *owned = NULL;
        exg_status status;

        EXG_TRY(exg_zip_read(&archive->zip, entry, *archive->inflate_left, &data, &owned, err));
        status = exg_archive_compare(archive, entry, data, err);
        free(owned);
        if (status != EXG_OK) {
            return status;
        }
    }
    return EXG_OK;
}

/* The text of a small record, NUL-terminated in `text`; "" when it is absent, and
 * whatever fits when it is long. */
static exg_status small_record(exg_archive *archive, const char *name, char *text, size_t capacity,
                               exg_error *err)
{
    const exg_zip_entry *entry = exg_archive_find(archive, name);
    const uint8_t *data = NULL;
    void *owned = NULL;
    size_t length;

    text[0] = '\0';
    if (entry == NULL) {
        return EXG_OK;
    }
    EXG_TRY(exg_zip_read(&archive->zip, entry, *archive->inflate_left, &data, &owned, err));
    length = entry->bytes < capacity - 1 ? (size_t)entry->bytes : capacity - 1;
    if (length > 0) {
        memcpy(text, data, length);
    }
    text[length] = '\0';
    free(owned);
    return EXG_OK;
}

/* ---- what it is ---------------------------------------------------------------------- */

static bool has_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Is any record (without root) below `folder`? */
static bool has_folder(const exg_archive *archive, const char *folder)
{
    for (uint32_t i = 0; i < archive->zip.count; i++) {
        if (has_prefix(exg_archive_name(archive, &archive->zip.entries[i]), folder)) {
            return true;
        }
    }
    return false;
}

/* ARC-001: one folder holds everything. */
static exg_status find_root(exg_archive *archive, exg_error *err)
{
    const exg_zip *zip = &archive->zip;
    const char *first = zip->entries[0].name;
    const char *slash = strchr(first, '/');

    if (slash == NULL) {
        return EXG_FAIL(err, MALFORMED, "ARC-001", "member %s is outside any root folder", first);
    }
    archive->root = exg_arena_strndup(archive->arena, first, (size_t)(slash - first) + 1);
    if (archive->root == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 1; i < zip->count; i++) {
        if (!has_prefix(zip->entries[i].name, archive->root)) {
            return EXG_FAIL(err, MALFORMED, "ARC-001", "member %s is outside the root folder %s",
                            zip->entries[i].name, archive->root);
        }
    }
    return EXG_OK;
}

/* Other things PyTorch puts into zips, and what to do with them. */
static exg_status name_stranger(const exg_archive *archive, exg_error *err)
{
    static const struct {
        const char *sign; /* record, or folder when it ends in a slash */
        const char *what;
        const char *fix;
    } rows[] = {
        {"data/aotinductor/", "an AOTInductor package: machine code without a program",
         "save the exported program itself with torch.export.save"},
        {"constants.pkl", "a TorchScript archive, not an exported program",
         "export the model with torch.export.export and torch.export.save"},
        {"data.pkl", "a torch.save file: weights or objects without a program",
         "export the model with torch.export.export and torch.export.save"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].sign[strlen(rows[i].sign) - 1] == '/'
                ? has_folder(archive, rows[i].sign)
                : exg_archive_find(archive, rows[i].sign) != NULL) {
            return exg_error_fix(err,
                                 EXG_FAIL(err, UNSUPPORTED, "ARC-005", "this is %s", rows[i].what),
                                 "%s", rows[i].fix);
        }
    }
    return EXG_FAIL(err, MALFORMED, "ARC-005", "the archive holds no program (models/*.json)");
}

/* ---- checks of the small records ------------------------------------------------------- */

static exg_status check_version(exg_archive *archive, exg_error *err)
{
    char text[32];
    long version;

    EXG_TRY(small_record(archive, ".data/version", text, sizeof(text), err));
    if (text[0] == '\0') {
        EXG_TRY(small_record(archive, "version", text, sizeof(text), err));
    }
    version = strtol(text, NULL, 10);
    if (version < VERSION_MIN || version > VERSION_MAX) {
        return EXG_FAIL(err, MALFORMED, "ARC-002",
                        "the container version is \"%s\", it must be a number from %d to %d", text,
                        VERSION_MIN, VERSION_MAX);
    }
    return EXG_OK;
}

static exg_status check_text(exg_archive *archive, const char *name, const char *expected,
                             const char *code, exg_error *err)
{
    char text[32];

    if (exg_archive_find(archive, name) == NULL) {
        return EXG_FAIL(err, MALFORMED, code, "the record %s is missing", name);
    }
    EXG_TRY(small_record(archive, name, text, sizeof(text), err));
    if (strcmp(text, expected) != 0) {
        return EXG_FAIL(err, MALFORMED, code, "the record %s holds \"%s\", not \"%s\"", name, text,
                        expected);
    }
    return EXG_OK;
}

static exg_status read_byte_order(exg_archive *archive, exg_error *err)
{
    char text[32];

    EXG_TRY(small_record(archive, "byteorder", text, sizeof(text), err));
    if (strcmp(text, "big") == 0) {
        archive->byte_order = EXG_BIG_ENDIAN;
    } else if (text[0] != '\0' && strcmp(text, "little") != 0) {
        return EXG_FAIL(err, MALFORMED, "ARC-011", "byteorder is \"%s\", not little or big", text);
    }
    return EXG_OK;
}

/* ---- programs ---------------------------------------------------------------------------- */

static exg_status list_programs(exg_archive *archive, exg_error *err)
{
    static const char folder[] = "models/";
    static const char suffix[] = ".json";

    archive->programs = EXG_NEW_ARRAY(archive->arena, const char *, archive->zip.count);
    if (archive->programs == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < archive->zip.count; i++) {
        const char *name = exg_archive_name(archive, &archive->zip.entries[i]);
        size_t length = strlen(name);
        char *program;

        if (!has_prefix(name, folder)) {
            continue;
        }
        name += sizeof(folder) - 1;
        length -= sizeof(folder) - 1;
        if (length < sizeof(suffix) || strcmp(name + length - (sizeof(suffix) - 1), suffix) != 0) {
            return EXG_FAIL(err, MALFORMED, "ARC-005",
                            "the record models/%s is not the JSON of a program", name);
        }
        program = exg_arena_strndup(archive->arena, name, length - (sizeof(suffix) - 1));
        if (program == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
        archive->programs[archive->program_count++] = program;
    }
    return archive->program_count > 0 ? EXG_OK : name_stranger(archive, err);
}

/* ARC-006, ARC-007, ARC-015 of one program; which generation it shows. */
static exg_status check_program(exg_archive *archive, const char *program, exg_error *err)
{
    static const struct {
        const char *folder;
        const char *config;
    } rows[] = {{"data/weights/", "_weights_config.json"},
                {"data/constants/", "_constants_config.json"}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bool config = exg_archive_find3(archive, rows[i].folder, program, rows[i].config) != NULL;
        bool pickled = exg_archive_find3(archive, rows[i].folder, program, ".pt") != NULL;

        if (config && pickled) {
            return EXG_FAIL(err, MALFORMED, "ARC-015",
                            "%s%s has both a config and a pickled file: which one counts?",
                            rows[i].folder, program);
        }
        if (!config && !pickled) {
            return EXG_FAIL(err, MALFORMED, "ARC-006", "the record %s%s%s is missing",
                            rows[i].folder, program, rows[i].config);
        }
        if (pickled) {
            archive->generation = EXG_GENERATION_C;
        }
    }
    if (exg_archive_find3(archive, "data/sample_inputs/", program, ".pt") == NULL) {
        return EXG_FAIL(err, MALFORMED, "ARC-007", "the record data/sample_inputs/%s.pt is missing",
                        program);
    }
    return EXG_OK;
}

/* ---- opening ------------------------------------------------------------------------------- */

static exg_status open_rootless(exg_archive *archive, exg_error *err)
{
    char text[32];

    archive->root = "";
    archive->generation = EXG_GENERATION_B;
    if (exg_archive_find(archive, "serialized_state_dict.json") != NULL) {
        return exg_error_fix(err,
                             EXG_FAIL(err, UNSUPPORTED, "ARC-002",
                                      "the archive was written by torch 2.1 (schema 1)"),
                             "load it with torch 2.1 and export the model again with a newer one");
    }
    EXG_TRY(small_record(archive, "version", text, sizeof(text), err));
    if (text[0] == '\0') {
        return EXG_FAIL(err, MALFORMED, "ARC-002", "the record version is missing");
    }
    archive->programs = EXG_NEW_ARRAY(archive->arena, const char *, 1);
    if (archive->programs == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    archive->programs[0] = "model";
    archive->program_count = 1;
    return EXG_OK;
}

exg_status exg_archive_open(const uint8_t *data, uint64_t length, uint64_t budget, exg_arena *arena,
                            exg_archive *archive, exg_error *err)
{
    *archive = (exg_archive){.arena = arena, .root = "", .generation = EXG_GENERATION_D};
    archive->budget = budget;
    archive->inflate_left = &archive->budget;
    EXG_TRY(exg_zip_open(data, length, 0, arena, &archive->zip, err));
    if (archive->zip.count == 0) {
        return EXG_FAIL(err, MALFORMED, "ARC-001", "the archive is empty");
    }
    if (exg_archive_find(archive, "serialized_exported_program.json") != NULL) {
        return open_rootless(archive, err);
    }
    EXG_TRY(find_root(archive, err));
    if (!has_folder(archive, "models/")) {
        return name_stranger(archive, err);
    }
    EXG_TRY(check_version(archive, err));
    EXG_TRY(check_text(archive, "archive_format", "pt2", "ARC-003", err));
    EXG_TRY(check_text(archive, "archive_version", "0", "ARC-004", err));
    EXG_TRY(read_byte_order(archive, err));
    EXG_TRY(list_programs(archive, err));
    for (uint32_t i = 0; i < archive->program_count; i++) {
        EXG_TRY(check_program(archive, archive->programs[i], err));
    }
    return EXG_OK;
}
