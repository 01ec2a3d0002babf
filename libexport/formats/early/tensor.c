/* tensor.c - Storage, Buffer and ExternalBuffer of the early schema: big endian bytes. */
#include "libexport/base/base64.h"
#include "libexport/base/checked.h"
#include "libexport/base/files.h"
#include "libexport/formats/early/early.h"
#include "libexport/weights/storage.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ^(0|[1-9][0-9]*)$ below 2^64 (S002-67). */
static exg_status decimal(exg_decoder *d, exg_json value, const char *what, uint64_t *number)
{
    const char *text = NULL;

    EXG_TRY(exg_json_string(value, &text, NULL, d->err));
    *number = 0;
    for (const char *c = text; *c != '\0'; c++) {
        if (*c < '0' || *c > '9' || (c > text && *text == '0') ||
            !exg_mul_u64(*number, 10, number) ||
            !exg_add_u64(*number, (uint64_t)(*c - '0'), number)) {
            text = "";
            break;
        }
    }
    return *text != '\0' ? EXG_OK
                         : exg_json_fault(value, d->err, EXG_MALFORMED, "EAR-001",
                                          "the %s is no decimal number of bytes", what);
}

static bool all_hex(const char *text, size_t length)
{
    return strspn(text, "0123456789abcdefABCDEF") == length && text[length] == '\0';
}

/* "xxh3-128:<hex>" and its kin; bare hex is told by its length, SHA-256 or SHA-1; anything else
 * is kept (S002-69). */
static exg_checksum checksum_of(const char *text)
{
    static const struct {
        const char *prefix;
        exg_checksum_kind kind;
        size_t digits;
    } kinds[] = {
        {"xxh3-128:", EXG_CHECKSUM_XXH3_128, 32},
        {"xxh3-64:", EXG_CHECKSUM_XXH3_64, 16},
        {"crc32:", EXG_CHECKSUM_CRC32, 8},
        {"sha256:", EXG_CHECKSUM_SHA256, 64},
        {"sha1:", EXG_CHECKSUM_SHA1, 40},
        {"md5:", EXG_CHECKSUM_MD5, 32},
        {"", EXG_CHECKSUM_SHA256, 64},
        {"", EXG_CHECKSUM_SHA1, 40},
    };

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        size_t length = strlen(kinds[i].prefix);

        if (strncmp(text, kinds[i].prefix, length) == 0 &&
            all_hex(text + length, kinds[i].digits)) {
            return (exg_checksum){kinds[i].kind, text + length};
        }
    }
    return text[0] == '\0' ? (exg_checksum){EXG_CHECKSUM_NONE, NULL}
                           : (exg_checksum){EXG_CHECKSUM_UNKNOWN, text};
}

/* What a storage object says, before it is believed. */
typedef struct half_storage {
    const char *location; /* of the data: "Internal", "External" */
    exg_json data;
} half_storage;

static exg_status field_location(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    half_storage *half = base;
    int64_t number = 0;

    (void)field;
    if (exg_json_type_of(value) == EXG_JSON_INT) {
        EXG_TRY(exg_json_int(value, &number, d->err));
        half->location = number == 1 ? "Internal" : number == 2 ? "External" : "";
    } else {
        EXG_TRY(exg_json_string(value, &half->location, NULL, d->err));
    }
    return strcmp(half->location, "Internal") == 0 || strcmp(half->location, "External") == 0
               ? EXG_OK
               : exg_json_fault(value, d->err, EXG_MALFORMED, "JSN-004", "no such DataLocation");
}

static exg_status field_json(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    (void)d;
    memcpy((char *)base + field->offset, &value, sizeof(value));
    return EXG_OK;
}

exg_status exg_early_add_base64(const char *text, size_t length, exg_byte_order order,
                                exg_weights *weights, uint32_t *storage, exg_error *err)
{
    unsigned char *data = malloc(exg_base64_bytes_max(length) + 1);
    size_t bytes = 0;

    if (data == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (!exg_base64_decode(text, length, data, &bytes)) {
        free(data);
        return EXG_FAIL(err, MALFORMED, "EAR-006", "the bytes are not base64");
    }
    return exg_weights_add_bytes(weights, data, bytes, order, storage, err);
}

static exg_status internal(exg_decoder *d, exg_json value, exg_weights *weights, uint32_t *storage)
{
    static const exg_field fields[] = {
        EXG_FIELD(half_storage, data, "buffer", EXG_FIELD_REQUIRED, field_json),
    };
    half_storage half = {0};
    const char *text = NULL;
    size_t length = 0;

    EXG_TRY(exg_decode_struct(d, value, &half, fields, EXG_FIELD_COUNT(fields)));
    EXG_TRY_IN(d->err, exg_json_string(half.data, &text, &length, d->err), "buffer");
    EXG_TRY_IN(d->err, exg_early_add_base64(text, length, EXG_BIG_ENDIAN, weights, storage, d->err),
               "buffer");
    return EXG_OK;
}

/* Is it a checksum of the same kind, and as it is? */
static bool says_the_same(const exg_checksum *a, const exg_checksum *b)
{
    return a->kind == b->kind &&
           (a->kind == EXG_CHECKSUM_NONE || strcasecmp(a->text, b->text) == 0);
}

/* One more checksum of bytes that have some (S002-69): each tensor's counts. */
static exg_status add_checksum(exg_decoder *d, exg_weights *weights, uint32_t index,
                               const exg_checksum *checksum)
{
    exg_storage *storage = &weights->storages[index];

    if (checksum->kind == EXG_CHECKSUM_NONE || says_the_same(&storage->checksum, checksum)) {
        return EXG_OK;
    }
    for (uint32_t i = 0; i < storage->further_count; i++) {
        if (says_the_same(&storage->further[i], checksum)) {
            return EXG_OK;
        }
    }
    return exg_storage_add_checksum(weights, index, checksum, d->err);
}

/* The range's storage: an equal one that is known, or a new one. */
static exg_status add_range(exg_decoder *d, const exg_storage *made, const char *of,
                            exg_weights *weights, exg_map *ranges, uint32_t *storage)
{
    const char *key = exg_arena_printf(d->arena, "%s %" PRIu64 "+%" PRIu64 " %s", of, made->offset,
                                       made->length, made->location);

    if (key == NULL) {
        return exg_decoder_out_of_memory(d);
    }
    *storage = exg_map_find(ranges, key);
    if (*storage != EXG_MAP_NONE) {
        return add_checksum(d, weights, *storage, &made->checksum);
    }
    EXG_TRY(exg_weights_add_storage(weights, made, storage, d->err));
    return exg_map_put(ranges, key, *storage) ? EXG_OK : exg_decoder_out_of_memory(d);
}

typedef struct half_external {
    exg_json location, offset, length, checksum;
} half_external;

exg_status exg_early_place(exg_decoder *d, exg_json value, exg_storage *place,
                           const char **checksum)
{
    static const exg_field fields[] = {
        EXG_FIELD(half_external, location, "location", EXG_FIELD_REQUIRED, field_json),
        EXG_FIELD(half_external, offset, "offset", EXG_FIELD_REQUIRED, field_json),
        EXG_FIELD(half_external, length, "length", EXG_FIELD_REQUIRED, field_json),
        EXG_FIELD(half_external, checksum, "checksum", EXG_FIELD_REQUIRED, field_json),
    };
    half_external half = {0};
    uint64_t end;

    *place = (exg_storage){.kind = EXG_STORAGE_EXTERNAL, .byte_order = EXG_BIG_ENDIAN};
    EXG_TRY(exg_decode_struct(d, value, &half, fields, EXG_FIELD_COUNT(fields)));
    EXG_TRY_IN(d->err, exg_decoder_text(d, half.location, &place->location), "location");
    EXG_TRY_IN(d->err, decimal(d, half.offset, "offset", &place->offset), "offset");
    EXG_TRY_IN(d->err, decimal(d, half.length, "length", &place->length), "length");
    EXG_TRY_IN(d->err, exg_decoder_text(d, half.checksum, checksum), "checksum");
    place->checksum = checksum_of(*checksum);
    if (!exg_location_is_plain(place->location)) {
        return exg_json_fault(half.location, d->err, EXG_MALFORMED, "EAR-001",
                              "'%s' leaves the folder of its file", place->location);
    }
    return exg_add_u64(place->offset, place->length, &end)
               ? EXG_OK
               : exg_json_fault(half.offset, d->err, EXG_MALFORMED, "EAR-001",
                                "offset and length pass 64 bits");
}

static exg_status external(exg_decoder *d, exg_json value, const char *of, exg_weights *weights,
                           exg_map *ranges, uint32_t *storage)
{
    exg_storage made;
    const char *checksum = NULL;

    EXG_TRY(exg_early_place(d, value, &made, &checksum));
    return add_range(d, &made, of, weights, ranges, storage);
}

exg_status exg_early_storage(exg_decoder *d, exg_json tensor, const char *of, exg_weights *weights,
                             exg_map *ranges, uint32_t *storage)
{
    static const exg_field fields[] = {
        EXG_FIELD(half_storage, location, "data_location", EXG_FIELD_REQUIRED, field_location),
        EXG_FIELD(half_storage, data, "data", EXG_FIELD_REQUIRED, field_json),
    };
    half_storage half = {0};
    exg_json value;
    exg_json unused;
    bool has_buffer;

    if (!exg_json_find(tensor, "storage", &value)) {
        return exg_json_fault(tensor, d->err, EXG_MALFORMED, "JSN-002", "key 'storage' is missing");
    }
    EXG_TRY_IN(d->err, exg_decode_struct(d, value, &half, fields, EXG_FIELD_COUNT(fields)),
               "storage");
    has_buffer = exg_json_find(half.data, "buffer", &unused);
    if (has_buffer != (strcmp(half.location, "Internal") == 0)) {
        return exg_error_within(d->err,
                                exg_json_fault(half.data, d->err, EXG_MALFORMED, "EAR-002",
                                               "the storage is %s, its data are %s", half.location,
                                               has_buffer ? "a Buffer" : "no Buffer"),
                                "storage");
    }
    EXG_TRY_IN(d->err,
               has_buffer ? internal(d, half.data, weights, storage)
                          : external(d, half.data, of, weights, ranges, storage),
               "storage.data");
    return EXG_OK;
}
