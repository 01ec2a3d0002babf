/* safetensors.c - header length, JSON header, tensors end to end.
 *
 *   u64 N | N bytes of JSON, beginning with { | data
 *
 * Reading is strict: the ranges tile the data without hole, overlap or rest, and
 * each is exactly its shape times its dtype. Writing starts the data at a multiple
 * of 64; the format has no room for padding between tensors.
 */
#include "libexport/base/checked.h"
#include "libexport/base/map.h"
#include "libexport/base/text.h"
#include "libexport/formats/json.h"
#include "libexport/formats/tensor_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_BYTES_MAX 100000000u
#define ALIGNMENT        64
#define RANK_MAX         64

/* ---- reading ---------------------------------------------------------------------------- */

typedef struct tensor_range {
    uint64_t begin;
    uint64_t end;
    const char *name;
} tensor_range;

typedef struct reader {
    const uint8_t *data; /* after the header */
    uint64_t length;
    exg_arena *arena;
    exg_error *err;
    tensor_range *ranges;
} reader;

static exg_status no_memory(reader *r)
{
    return EXG_OUT_OF_MEMORY(r->err);
}

static exg_status keep(reader *r, exg_json value, const char **text)
{
    const char *found = "";

    EXG_TRY(exg_json_string(value, &found, NULL, r->err));
    *text = exg_arena_strdup(r->arena, found);
    return *text == NULL ? no_memory(r) : EXG_OK;
}

static exg_status read_metadata(reader *r, exg_json value, exg_string_map *map)
{
    exg_json_walk walk = {0};
    exg_json element;
    const char *key;
    uint32_t length;

    EXG_TRY(exg_json_object(value, &walk, r->err));
    map->items = EXG_NEW_ARRAY(r->arena, exg_string_pair, exg_json_count(value));
    if (map->items == NULL) {
        return no_memory(r);
    }
    while (exg_json_next_member(&walk, &key, &length, &element)) {
        exg_string_pair *pair = &map->items[map->count];

        pair->key = exg_arena_strdup(r->arena, key);
        if (pair->key == NULL) {
            return no_memory(r);
        }
        EXG_TRY_IN(r->err, keep(r, element, &pair->value), "['%s']", key);
        map->count++;
    }
    return EXG_OK;
}

static exg_status read_dtype(reader *r, exg_json value, exg_dtype *dtype)
{
    const char *name = "";

    EXG_TRY(exg_json_string(value, &name, NULL, r->err));
    *dtype = exg_dtype_from_safetensors(name);
    if (*dtype == EXG_DTYPE_COUNT) {
        return exg_json_fault(value, r->err, EXG_UNSUPPORTED, "STF-DTYPE",
                              "dtype %s is not known here", name);
    }
    return EXG_OK;
}

static exg_status read_shape(reader *r, exg_json value, exg_named_tensor *tensor)
{
    exg_json_walk walk = {0};
    exg_json element;
    uint32_t rank = exg_json_count(value);
    int64_t *shape;

    EXG_TRY(exg_json_array(value, &walk, r->err));
    if (rank > RANK_MAX) {
        return exg_json_fault(value, r->err, EXG_LIMIT, "STF-SHAPE", "%u dimensions are too many",
                              rank);
    }
    shape = EXG_NEW_ARRAY(r->arena, int64_t, rank);
    if (shape == NULL) {
        return no_memory(r);
    }
    while (exg_json_next(&walk, &element)) {
        EXG_TRY(exg_json_int(element, &shape[tensor->rank], r->err));
        if (shape[tensor->rank] < 0) {
            return exg_json_fault(element, r->err, EXG_MALFORMED, "STF-SHAPE",
                                  "a dimension is negative");
        }
        tensor->rank++;
    }
    tensor->shape = shape;
    return EXG_OK;
}

static exg_status read_offsets(reader *r, exg_json value, tensor_range *range)
{
    exg_json_walk walk = {0};
    exg_json element;
    int64_t bounds[2] = {0, 0};
    int count = 0;

    EXG_TRY(exg_json_array(value, &walk, r->err));
    while (exg_json_next(&walk, &element)) {
        if (count == 2) {
            count++;
            break;
        }
        EXG_TRY(exg_json_int(element, &bounds[count++], r->err));
    }
    if (count != 2 || bounds[0] < 0 || bounds[1] < bounds[0] || (uint64_t)bounds[1] > r->length) {
        return exg_json_fault(value, r->err, EXG_MALFORMED, "STF-OFFSETS",
                              "offsets %lld and %lld do not lie in the %llu bytes of data",
                              (long long)bounds[0], (long long)bounds[1],
                              (unsigned long long)r->length);
    }
    range->begin = (uint64_t)bounds[0];
    range->end = (uint64_t)bounds[1];
    return EXG_OK;
}

static exg_status read_tensor(reader *r, exg_json value, exg_named_tensor *tensor,
                              tensor_range *range)
{
    exg_json_walk walk = {0};
    exg_json element;
    const char *key;
    uint32_t length;
    unsigned seen = 0;
    uint64_t bytes = 0;

    EXG_TRY(exg_json_object(value, &walk, r->err));
    while (exg_json_next_member(&walk, &key, &length, &element)) {
        if (strcmp(key, "dtype") == 0) {
            seen |= 1;
            EXG_TRY_IN(r->err, read_dtype(r, element, &tensor->dtype), "dtype");
        } else if (strcmp(key, "shape") == 0) {
            seen |= 2;
            EXG_TRY_IN(r->err, read_shape(r, element, tensor), "shape");
        } else if (strcmp(key, "data_offsets") == 0) {
            seen |= 4;
            EXG_TRY_IN(r->err, read_offsets(r, element, range), "data_offsets");
        } else {
            return exg_json_fault(element, r->err, EXG_MALFORMED, "STF-KEY", "unknown key %s", key);
        }
    }
    if (seen != 7) {
        return exg_json_fault(value, r->err, EXG_MALFORMED, "STF-KEY",
                              "a tensor needs dtype, shape and data_offsets");
    }
    if (!exg_shape_bytes(tensor->shape, tensor->rank, tensor->dtype, &bytes) ||
        bytes != range->end - range->begin) {
        return exg_json_fault(value, r->err, EXG_MALFORMED, "STF-SIZE",
                              "the shape takes %llu bytes, the offsets give %llu",
                              (unsigned long long)bytes,
                              (unsigned long long)(range->end - range->begin));
    }
    tensor->bytes = bytes;
    tensor->data = exg_tensor_aligned(r->arena, r->data + range->begin, bytes, tensor->dtype);
    return tensor->data == NULL ? no_memory(r) : EXG_OK;
}

static int by_begin(const void *a, const void *b)
{
    const tensor_range *x = a;
    const tensor_range *y = b;

    return x->begin != y->begin ? (x->begin > y->begin) - (x->begin < y->begin)
                                : (x->end > y->end) - (x->end < y->end);
}

static exg_status check_tiling(reader *r, uint32_t count)
{
    uint64_t at = 0;

    qsort(r->ranges, count, sizeof(tensor_range), by_begin);
    for (uint32_t i = 0; i < count; i++) {
        if (r->ranges[i].begin != at) {
            return EXG_FAIL(r->err, MALFORMED, "STF-TILING", "%s begins at %llu, %s",
                            r->ranges[i].name, (unsigned long long)r->ranges[i].begin,
                            r->ranges[i].begin < at ? "inside the tensor before it"
                                                    : "after bytes of no tensor");
        }
        at = r->ranges[i].end;
    }
    if (at != r->length) {
        return exg_error_fix(r->err,
                             EXG_FAIL(r->err, MALFORMED, "STF-TILING",
                                      "the tensors end at byte %llu of %llu of data",
                                      (unsigned long long)at, (unsigned long long)r->length),
                             "the file may be cut short or have been appended to");
    }
    return EXG_OK;
}

static exg_status read_header(reader *r, exg_json root, exg_tensor_file *file)
{
    exg_json_walk walk = {0};
    exg_json element;
    const char *key;
    uint32_t length;

    EXG_TRY(exg_json_object(root, &walk, r->err));
    file->items = EXG_NEW_ARRAY(r->arena, exg_named_tensor, exg_json_count(root));
    r->ranges = EXG_NEW_ARRAY(r->arena, tensor_range, exg_json_count(root));
    if (file->items == NULL || r->ranges == NULL) {
        return no_memory(r);
    }
    while (exg_json_next_member(&walk, &key, &length, &element)) {
        exg_named_tensor *tensor = &file->items[file->count];

        if (strcmp(key, "__metadata__") == 0) {
            EXG_TRY_IN(r->err, read_metadata(r, element, &file->metadata), "__metadata__");
            continue;
        }
        tensor->name = exg_arena_strdup(r->arena, key);
        if (tensor->name == NULL) {
            return no_memory(r);
        }
        r->ranges[file->count].name = tensor->name;
        EXG_TRY_IN(r->err, read_tensor(r, element, tensor, &r->ranges[file->count]), "['%s']", key);
        file->count++;
    }
    return check_tiling(r, file->count);
}

static uint64_t little_u64(const uint8_t *p)
{
    uint64_t value = 0;

    for (int i = 7; i >= 0; i--) {
        value = value << 8 | p[i];
    }
    return value;
}

exg_status exg_safetensors_read(const uint8_t *data, uint64_t length, exg_tensor_file *file,
                                exg_error *err)
{
    uint64_t header = length < 8 ? 0 : little_u64(data);
    exg_json_doc *doc = NULL;
    reader r = {.arena = file->private_->arena, .err = err};
    exg_status status;

    if (length < 8) {
        return EXG_FAIL(err, MALFORMED, "STF-HEADER", "%llu bytes are no safetensors file",
                        (unsigned long long)length);
    }
    if (header > HEADER_BYTES_MAX || header > length - 8 || header < 2 || data[8] != '{') {
        return exg_error_fix(
            err,
            EXG_FAIL(err, MALFORMED, "STF-HEADER",
                     "a header of %llu bytes does not begin here: this is no safetensors file, "
                     "or it is cut short",
                     (unsigned long long)header),
            "give a .safetensors or an .npy file");
    }
    r.data = data + 8 + header;
    r.length = length - 8 - header;
    EXG_TRY(exg_json_parse(data + 8, (size_t)header, 8, EXG_JSON_KEYS_NOW, &doc, err));
    status = read_header(&r, exg_json_root(doc), file);
    exg_json_free(doc);
    return status;
}

/* ---- writing ----------------------------------------------------------------------------- */

static void write_pair(exg_text *header, const char *key, const char *value)
{
    exg_text_json_string(header, key);
    exg_text_putc(header, ':');
    exg_text_json_string(header, value);
}

/* One tensor's part of the header, with its checks. */
static exg_status describe(exg_text *header, const exg_named_tensor *item, uint64_t *at,
                           exg_error *err)
{
    uint64_t bytes = 0;

    if (exg_dtype_safetensors(item->dtype)[0] == '\0') {
        return EXG_FAIL(err, UNSUPPORTED, "STF-DTYPE", "safetensors has no %s",
                        exg_dtype_name(item->dtype));
    }
    if (!exg_shape_bytes(item->shape, item->rank, item->dtype, &bytes) || bytes != item->bytes) {
        return EXG_FAIL(err, USAGE, "STF-SIZE", "the shape takes %llu bytes, %llu are given",
                        (unsigned long long)bytes, (unsigned long long)item->bytes);
    }
    exg_text_json_string(header, item->name);
    exg_text_printf(header, ":{\"dtype\":\"%s\",\"shape\":[", exg_dtype_safetensors(item->dtype));
    for (uint32_t d = 0; d < item->rank; d++) {
        exg_text_printf(header, "%s%" PRId64, d == 0 ? "" : ",", item->shape[d]);
    }
    exg_text_printf(header, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", *at, *at + bytes);
    if (!exg_add_u64(*at, bytes, at)) {
        return EXG_FAIL(err, LIMIT, "STF-SIZE", "the data passes 64 bits");
    }
    return EXG_OK;
}

static exg_status check_names(const exg_named_tensor *items, uint32_t count, exg_error *err)
{
    exg_arena *arena = exg_arena_create(EXG_ARENA_UNBOUNDED);
    exg_map names;
    exg_status status = arena == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;

    exg_map_init(&names, arena);
    for (uint32_t i = 0; i < count && status == EXG_OK; i++) {
        if (strcmp(items[i].name, "__metadata__") == 0 ||
            exg_map_find(&names, items[i].name) != EXG_MAP_NONE) {
            status = EXG_FAIL(err, USAGE, "STF-NAME", "the name %s is taken", items[i].name);
        } else if (!exg_map_put(&names, items[i].name, i)) {
            status = EXG_OUT_OF_MEMORY(err);
        }
    }
    exg_arena_destroy(arena);
    return status;
}

static exg_status build_header(exg_text *header, const exg_named_tensor *items, uint32_t count,
                               const exg_string_map *metadata, exg_error *err)
{
    const char *comma = "";
    uint64_t at = 0;

    EXG_TRY(check_names(items, count, err));
    exg_text_putc(header, '{');
    if (metadata != NULL && metadata->count > 0) {
        exg_text_puts(header, "\"__metadata__\":{");
        for (uint32_t i = 0; i < metadata->count; i++) {
            exg_text_puts(header, i == 0 ? "" : ",");
            write_pair(header, metadata->items[i].key, metadata->items[i].value);
        }
        exg_text_putc(header, '}');
        comma = ",";
    }
    for (uint32_t i = 0; i < count; i++) {
        exg_text_puts(header, comma);
        EXG_TRY_IN(err, describe(header, &items[i], &at, err), "['%s']", items[i].name);
        comma = ",";
    }
    exg_text_putc(header, '}');
    while ((header->length + 8) % ALIGNMENT != 0 && !header->failed) {
        exg_text_putc(header, ' ');
    }
    if (header->failed) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (header->length > HEADER_BYTES_MAX) {
        return EXG_FAIL(err, LIMIT, "STF-HEADER", "the header takes %zu bytes", header->length);
    }
    return EXG_OK;
}

static exg_status write_all(exg_writer *writer, const exg_text *header,
                            const exg_named_tensor *items, uint32_t count, exg_error *err)
{
    uint8_t length[8];

    for (int i = 0; i < 8; i++) {
        length[i] = (uint8_t)((uint64_t)header->length >> (8 * i));
    }
    EXG_TRY(exg_writer_write(writer, length, sizeof(length), err));
    EXG_TRY(exg_writer_write(writer, header->data, header->length, err));
    for (uint32_t i = 0; i < count; i++) {
        EXG_TRY(exg_writer_write(writer, items[i].data, items[i].bytes, err));
    }
    return EXG_OK;
}

exg_status exg_tensor_file_save(const char *path, const exg_named_tensor *items, uint32_t count,
                                const exg_string_map *metadata, exg_error *err)
{
    exg_text header = EXG_TEXT_EMPTY;
    exg_writer *writer = NULL;
    exg_status status = build_header(&header, items, count, metadata, err);

    if (status == EXG_OK) {
        status = exg_writer_open(path, &writer, err);
    }
    if (status == EXG_OK) {
        status = write_all(writer, &header, items, count, err);
        if (status == EXG_OK) {
            status = exg_writer_commit(writer, err);
        } else {
            exg_writer_abort(writer);
        }
    }
    exg_text_free(&header);
    return status;
}
