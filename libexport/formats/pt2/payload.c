/* payload.c - generation D: configs name the tensors, records hold the bytes. */
#include "libexport/formats/pt2/archive.h"
#include "libexport/formats/pt2/decode.h"

#include <string.h>

typedef struct payload_meta {
    const char *fqn;
    const char *path_name;
    bool is_param;
    bool use_pickle;
    exg_tensor_meta *tensor_meta;
} payload_meta;

typedef struct payload_config {
    payload_meta *items;
    uint32_t count;
} payload_config;

/* The two folders of payloads. */
typedef struct payload_row {
    exg_weight_table table;
    const char *folder;
    const char *config;
} payload_row;

static const payload_row payload_rows[] = {
    {EXG_TABLE_STATE, "data/weights/", "_weights_config.json"},
    {EXG_TABLE_CONSTANTS, "data/constants/", "_constants_config.json"},
};

/* ---- the config --------------------------------------------------------------------------- */

static exg_status member_payload(exg_decoder *d, const char *key, uint32_t key_length,
                                 exg_json value, void *item)
{
    static const exg_field fields[] = {
        EXG_FIELD(payload_meta, path_name, "path_name", EXG_FIELD_REQUIRED, exg_field_text),
        EXG_FIELD(payload_meta, is_param, "is_param", EXG_FIELD_REQUIRED, exg_field_bool),
        EXG_FIELD(payload_meta, use_pickle, "use_pickle", EXG_FIELD_REQUIRED, exg_field_bool),
        EXG_FIELD_MODEL(payload_meta, tensor_meta, "tensor_meta",
                        EXG_FIELD_REQUIRED | EXG_FIELD_NULLABLE, TENSOR_META, POINTER),
    };
    payload_meta *payload = item;

    EXG_TRY(exg_decoder_keep(d, value, key, key_length, &payload->fqn));
    return exg_decode_struct(d, value, payload, fields, EXG_FIELD_COUNT(fields));
}

static exg_status read_config(exg_archive *archive, const exg_zip_entry *entry,
                              payload_config *config, exg_error *err)
{
    static const exg_field fields[] = {
        EXG_FIELD_MAP(payload_config, items, count, "config", EXG_FIELD_REQUIRED, member_payload),
    };
    exg_json_doc *doc = NULL;
    exg_decoder d;
    exg_status status;

    EXG_TRY(exg_archive_json(archive, entry, &doc, err));
    exg_decoder_init(&d, archive->arena, err);
    status = exg_decode_struct(&d, exg_json_root(doc), config, fields, EXG_FIELD_COUNT(fields));
    exg_decoder_free(&d);
    exg_json_free(doc);
    return status;
}

/* ---- the records ---------------------------------------------------------------------------- */

static bool has_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Objects that would have to be unpickled, whatever the flag says (2.4). */
static bool is_object(const payload_meta *payload)
{
    return payload->use_pickle || has_prefix(payload->path_name, "custom_obj_") ||
           has_prefix(payload->path_name, "opaque_obj_");
}

static exg_status check_path(const payload_row *row, const payload_meta *payload, exg_error *err)
{
    if (payload->path_name[0] == '\0' || strchr(payload->path_name, '/') != NULL) {
        return EXG_FAIL(err, MALFORMED, "WGT-001", "'%s' is not a plain file name",
                        payload->path_name);
    }
    if (row->table == EXG_TABLE_CONSTANTS && !has_prefix(payload->path_name, "tensor_") &&
        !is_object(payload)) {
        return EXG_FAIL(err, MALFORMED, "WGT-006",
                        "the constant's record is called '%s', not tensor_*, custom_obj_* or "
                        "opaque_obj_*",
                        payload->path_name);
    }
    return EXG_OK;
}

/* What the first weight on a record settled. */
typedef struct shared_record {
    uint32_t storage;
    exg_dtype dtype; /* EXG_DTYPE_COUNT: objects */
} shared_record;

/* Raw bytes under a meta: WGT-002 to -005, -011. An empty record means that the
 * file holds no data (WGT-012), which is for verification to judge. */
static exg_status check_raw(const payload_meta *payload, const shared_record *record,
                            uint64_t bytes, exg_error *err)
{
    const exg_tensor_meta *meta = payload->tensor_meta;

    if (meta == NULL) {
        return EXG_FAIL(err, MALFORMED, "WGT-002", "raw bytes need a tensor_meta");
    }
    if (bytes % exg_dtype_bytes(meta->dtype) != 0) {
        return EXG_FAIL(err, MALFORMED, "WGT-003", "%llu bytes are not a whole number of %s",
                        (unsigned long long)bytes, exg_dtype_name(meta->dtype));
    }
    if (record->dtype != meta->dtype) {
        return EXG_FAIL(err, MALFORMED, "WGT-004", "%s is read as %s and as %s", payload->path_name,
                        record->dtype == EXG_DTYPE_COUNT ? "an object"
                                                         : exg_dtype_name(record->dtype),
                        exg_dtype_name(meta->dtype));
    }
    return exg_tensor_meta_check_view(meta, bytes == 0 ? UINT64_MAX : bytes, err);
}

static exg_status add_weight(exg_archive *archive, const payload_row *row,
                             const payload_meta *payload, exg_map *paths, shared_record *records,
                             exg_weights *weights, exg_error *err)
{
    const exg_zip_entry *entry = exg_archive_find3(archive, row->folder, payload->path_name, "");
    exg_weight weight = {payload->fqn,       row->table,           payload->is_param,
                         is_object(payload), payload->tensor_meta, 0};
    uint32_t index = exg_map_find(paths, payload->path_name);

    EXG_TRY(check_path(row, payload, err));
    if (entry == NULL) {
        return EXG_FAIL(err, MALFORMED, "WGT-001", "the record %s%s is missing", row->folder,
                        payload->path_name);
    }
    if (index == EXG_MAP_NONE) {
        index = paths->count;
        records[index].dtype = weight.use_pickle || payload->tensor_meta == NULL
                                   ? EXG_DTYPE_COUNT
                                   : payload->tensor_meta->dtype;
        EXG_TRY(exg_archive_storage(archive, entry, weights, archive->byte_order,
                                    &records[index].storage, err));
        if (!exg_map_put(paths, payload->path_name, index)) {
            return EXG_OUT_OF_MEMORY(err);
        }
    }
    if (!weight.use_pickle) {
        EXG_TRY(check_raw(payload, &records[index], entry->bytes, err));
    }
    weight.storage = records[index].storage;
    return exg_weights_add(weights, &weight, err);
}

static exg_status read_payload(exg_archive *archive, const payload_row *row, const char *program,
                               exg_weights *weights, exg_error *err)
{
    const exg_zip_entry *entry = exg_archive_find3(archive, row->folder, program, row->config);
    payload_config config = {0};
    shared_record *records;
    exg_map paths;

    if (entry == NULL) {
        return EXG_FAIL(err, MALFORMED, "ARC-006", "the record %s%s%s is missing", row->folder,
                        program, row->config);
    }
    EXG_TRY_IN(err, read_config(archive, entry, &config, err), "%s",
               exg_archive_name(archive, entry));
    records = EXG_NEW_ARRAY(archive->arena, shared_record, config.count);
    if (records == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    exg_map_init(&paths, archive->arena);
    for (uint32_t i = 0; i < config.count; i++) {
        EXG_TRY_IN(err, add_weight(archive, row, &config.items[i], &paths, records, weights, err),
                   "%s: config['%s']", exg_archive_name(archive, entry), config.items[i].fqn);
    }
    return EXG_OK;
}

exg_status exg_payload_read(exg_archive *archive, const char *program, exg_weights *weights,
                            exg_error *err)
{
    for (size_t i = 0; i < sizeof(payload_rows) / sizeof(payload_rows[0]); i++) {
        EXG_TRY(read_payload(archive, &payload_rows[i], program, weights, err));
    }
    return EXG_OK;
}
