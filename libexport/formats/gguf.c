/* gguf.c - GGUF, versions 2 and 3, in either byte order.
 *
 *   'GGUF' | u32 version | u64 tensors | u64 pairs
 *   pairs:   string key | u32 type | value          string: u64 length, bytes
 *   tensors: string name | u32 rank | u64 sizes, innermost first | u32 type | u64 offset
 *   zeros up to general.alignment (32) | data, tensors at their offsets from here
 *
 * Values become metadata with their kinds (weights.h), so that they can be written again as they
 * were. A quantised tensor is bytes with the type as its encoding: [.., n] elements in blocks
 * become [.., bytes of a row]. A part of a split model stands for all of it.
 */
#include "libexport/base/arena.h"
#include "libexport/base/base64.h"
#include "libexport/base/checked.h"
#include "libexport/base/files.h"
#include "libexport/formats/byte_text.h"
#include "libexport/formats/dense_tensor.h"
#include "libexport/formats/encoding.h"
#include "libexport/formats/gguf_value.h"
#include "libexport/formats/weights_file.h"
#include "libexport/weights/storage.h"

#include <exg/text.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT_DEFAULT 32
#define RANK_MAX          64           /* the format says 4 */
#define AHEAD_BYTES       (512u << 10) /* of a header elsewhere, at a time */
#define NESTING_MAX       8            /* lists of lists */
#define PAIR_BYTES_MIN    13
#define TENSOR_BYTES_MIN  24

typedef struct tensor_info {
    const char *name;
    const exg_gguf_type *type; /* NULL: not known here */
    const char *skipped;       /* what it is, when it cannot be given */
    uint32_t rank;
    int64_t *shape; /* row-major; of raw bytes the last one counts those */
    uint64_t offset, bytes;
} tensor_info;

/* What a file says of the set it is a part of. */
typedef struct gguf_part {
    uint64_t number, count, tensors; /* from 0 on, of all parts */
} gguf_part;

typedef struct reader {
    const exg_source *source;
    const uint8_t *data;
    uint64_t length, at;
    bool big;
    uint64_t alignment;
    exg_arena *arena;     /* scratch */
    exg_weights *weights; /* NULL: only what the pairs say of the set is read */
    exg_map keys;         /* key -> its place in the metadata of the weights */
    bool is_part;         /* what the pairs say of the set is not so of what is read: the whole */
    gguf_part part;
    exg_error *err;
} reader;

bool exg_gguf_sniff(const uint8_t *data, uint64_t length)
{
    return length >= 8 && memcmp(data, "GGUF", 4) == 0;
}

static exg_status fault(reader *r, const char *code, const char *what)
{
    return exg_error_at(r->err, EXG_FAIL(r->err, MALFORMED, code, "the file %s", what), r->at);
}

/* Are the next `bytes` in the file? Then they are there. */
static exg_status take(reader *r, uint64_t bytes, const char *what)
{
    if (!exg_range_inside(r->at, bytes, r->length)) {
        return fault(r, "GGUF-CUT", what);
    }
    return exg_source_need(r->source, r->at, bytes, AHEAD_BYTES, r->err);
}

/* ---- words --------------------------------------------------------------------------------- */

static exg_status take_number(reader *r, uint32_t width, uint64_t *value)
{
    EXG_TRY(take(r, width, "ends inside its header"));
    *value = 0;
    for (uint32_t i = 0; i < width; i++) {
        *value = *value << 8 | r->data[r->at + (r->big ? i : width - 1 - i)];
    }
    r->at += width;
    return EXG_OK;
}

static exg_status take_u32(reader *r, uint32_t *value)
{
    uint64_t wide = 0;

    EXG_TRY(take_number(r, 4, &wide));
    *value = (uint32_t)wide;
    return EXG_OK;
}

/* Borrowed from the file, without NUL at the end. */
static exg_status take_text(reader *r, const char **text, uint64_t *length)
{
    EXG_TRY(take_number(r, 8, length));
    EXG_TRY(take(r, *length, "ends inside a text"));
    *text = (const char *)r->data + r->at;
    r->at += *length;
    return EXG_OK;
}

static exg_status take_name(reader *r, const char **name)
{
    const char *text = NULL;
    uint64_t length = 0;

    EXG_TRY(take_text(r, &text, &length));
    if (length > UINT16_MAX) {
        return fault(r, "GGUF-NAME", "has a name that is too long");
    }
    *name = exg_byte_name(r->arena, text, length);
    if (*name != NULL && length > 0 && !exg_text_is_utf8(text, (size_t)length)) {
        return EXG_FAIL(r->err, MALFORMED, "WGT-NAME", "the name '%s' is not UTF-8", *name);
    }
    return *name == NULL ? EXG_OUT_OF_MEMORY(r->err) : EXG_OK;
}

/* ---- pairs --------------------------------------------------------------------------------- */

/* A number as text; `json`: as a value of JSON, which has no inf and no nan. */
static void put_number(exg_text *text, uint32_t type, uint64_t bits, bool json)
{
    uint32_t width = exg_gguf_value_bytes(type);
    uint32_t low = (uint32_t)bits;
    float single;
    double wide;

    memcpy(&single, &low, sizeof(single));
    memcpy(&wide, &bits, sizeof(wide));
    wide = type == EXG_GGUF_F32 ? (double)single : wide;
    switch (type) {
    case EXG_GGUF_BOOL:
        exg_text_puts(text, bits == 0 ? "false" : "true");
        break;
    case EXG_GGUF_F32:
    case EXG_GGUF_F64:
        if (json && !isfinite(wide)) {
            exg_text_json_double(text, wide);
        } else if (type == EXG_GGUF_F32) {
            exg_text_printf(text, "%.9g", wide);
        } else {
            exg_text_double(text, wide);
        }
        break;
    case EXG_GGUF_I8:
    case EXG_GGUF_I16:
    case EXG_GGUF_I32:
    case EXG_GGUF_I64:
        exg_text_printf(text, "%" PRId64, (int64_t)(bits << (64 - 8 * width)) >> (64 - 8 * width));
        break;
    default:
        exg_text_printf(text, "%" PRIu64, bits);
        break;
    }
}

/* A text as a value of JSON; one that is not UTF-8 as {"bytes": "<base64>"}. */
static void put_text(exg_text *text, const char *bytes, uint64_t length)
{
    if (exg_text_is_utf8(bytes, (size_t)length)) {
        exg_text_json_bytes(text, bytes, (size_t)length);
        return;
    }
    exg_text_puts(text, "{\"bytes\": \"");
    exg_base64_encode(text, bytes, (size_t)length);
    exg_text_puts(text, "\"}");
}

static exg_status put_list(reader *r, exg_text *text, uint32_t item, uint64_t count,
                           uint32_t depth);

/* A value in a list; into no text (NULL) it is passed over. */
static exg_status put_value(reader *r, exg_text *text, uint32_t type, uint32_t depth)
{
    const char *bytes = NULL;
    uint64_t number = 0;
    uint32_t item = 0;

    if (type == EXG_GGUF_STRING) {
        EXG_TRY(take_text(r, &bytes, &number));
        if (text != NULL) {
            put_text(text, bytes, number);
        }
        return EXG_OK;
    }
    if (type != EXG_GGUF_LIST) {
        EXG_TRY(take_number(r, exg_gguf_value_bytes(type), &number));
        if (text != NULL) {
            put_number(text, type, number, true);
        }
        return EXG_OK;
    }
    EXG_TRY(take_u32(r, &item));
    EXG_TRY(take_number(r, 8, &number));
    if (item >= EXG_GGUF_VALUE_COUNT || depth == NESTING_MAX) {
        return fault(r, "GGUF-VALUE", "has a value of an unknown type");
    }
    if (text != NULL) {
        exg_text_printf(text, "{\"%s\": ", exg_gguf_value_kind(item));
    }
    EXG_TRY(put_list(r, text, item, number, depth + 1));
    if (text != NULL) {
        exg_text_putc(text, '}');
    }
    return EXG_OK;
}

static exg_status put_list(reader *r, exg_text *text, uint32_t item, uint64_t count, uint32_t depth)
{
    uint64_t bytes = 0;
    uint32_t least = item == EXG_GGUF_STRING ? 8
                     : item == EXG_GGUF_LIST ? 12
                                             : exg_gguf_value_bytes(item);

    if (!exg_mul_u64(count, least, &bytes) || !exg_range_inside(r->at, bytes, r->length)) {
        return fault(r, "GGUF-CUT", "ends inside a list");
    }
    if (text == NULL && exg_gguf_value_bytes(item) != 0) {
        r->at += bytes;
        return EXG_OK;
    }
    if (text != NULL) {
        exg_text_putc(text, '[');
    }
    for (uint64_t i = 0; i < count; i++) {
        if (text != NULL && i > 0) {
            exg_text_puts(text, ", ");
        }
        EXG_TRY(put_value(r, text, item, depth));
    }
    if (text != NULL) {
        exg_text_putc(text, ']');
    }
    return EXG_OK;
}

/* A key may be there again with the same value; which of two others counts nobody can say. */
static exg_status note_key(reader *r, const char *key, uint32_t before)
{
    const exg_weights *w = r->weights;
    bool is_new = exg_map_find(&r->keys, key) == EXG_MAP_NONE;

    if (!is_new && w->metadata.count > before) {
        return EXG_FAIL(r->err, MALFORMED, "GGUF-KEY", "the file has '%s' twice, with two values",
                        key);
    }
    return exg_map_put(&r->keys, key, before) ? EXG_OK : EXG_OUT_OF_MEMORY(r->err);
}

static exg_status read_list(reader *r, const char *key)
{
    exg_text text = EXG_TEXT_EMPTY;
    uint64_t count = 0;
    uint32_t item = 0;
    char kind[40];
    exg_status status;

    EXG_TRY(take_u32(r, &item));
    EXG_TRY(take_number(r, 8, &count));
    if (item >= EXG_GGUF_VALUE_COUNT) {
        return fault(r, "GGUF-VALUE", "has a value of an unknown type");
    }
    status = put_list(r, r->weights == NULL ? NULL : &text, item, count, 1);
    if (status == EXG_OK && r->weights != NULL) {
        snprintf(kind, sizeof(kind), "%s[%" PRIu64 "]", exg_gguf_value_kind(item), count);
        status = text.failed
                     ? EXG_OUT_OF_MEMORY(r->err)
                     : exg_weights_add_metadata_as(r->weights, key, kind, text.data, r->err);
    }
    exg_text_free(&text);
    return status;
}

/* Where a number that says what the file is goes, or NULL. */
static uint64_t *part_number(gguf_part *part, const char *key)
{
    return strcmp(key, "split.no") == 0              ? &part->number
           : strcmp(key, "split.count") == 0         ? &part->count
           : strcmp(key, "split.tensors.count") == 0 ? &part->tensors
                                                     : NULL;
}

static exg_status read_text(reader *r, const char *key)
{
    const char *text = NULL;
    uint64_t length = 0;

    EXG_TRY(take_text(r, &text, &length));
    return r->weights == NULL ? EXG_OK : exg_byte_metadata(r->weights, key, text, length, r->err);
}

static exg_status read_number(reader *r, const char *key, uint32_t type)
{
    exg_text value = EXG_TEXT_EMPTY;
    uint64_t bits = 0;
    uint64_t *of_set = part_number(&r->part, key);
    exg_status status;

    EXG_TRY(take_number(r, exg_gguf_value_bytes(type), &bits));
    if (of_set != NULL) {
        *of_set = bits;
    }
    if (strcmp(key, "general.alignment") == 0) {
        r->alignment = bits;
        if (type != EXG_GGUF_U32 || bits == 0 || (bits & (bits - 1)) != 0) {
            return fault(r, "GGUF-ALIGN", "has an alignment that is not a power of two");
        }
    }
    if (r->weights == NULL || (of_set != NULL && r->is_part)) {
        return EXG_OK;
    }
    put_number(&value, type, bits, false);
    status = exg_text_string(&value) == NULL
                 ? EXG_OUT_OF_MEMORY(r->err)
                 : exg_weights_add_metadata_as(r->weights, key, exg_gguf_value_kind(type),
                                               value.data, r->err);
    exg_text_free(&value);
    return status;
}

static exg_status read_pair(reader *r)
{
    uint32_t before = r->weights == NULL ? 0 : r->weights->metadata.count;
    const char *key = NULL;
    uint32_t type = 0;

    EXG_TRY(take_name(r, &key));
    EXG_TRY(take_u32(r, &type));
    if (type >= EXG_GGUF_VALUE_COUNT) {
        return fault(r, "GGUF-VALUE", "has a value of an unknown type");
    }
    EXG_TRY(type == EXG_GGUF_STRING ? read_text(r, key)
            : type == EXG_GGUF_LIST ? read_list(r, key)
                                    : read_number(r, key, type));
    return r->weights == NULL ? EXG_OK : note_key(r, key, before);
}

/* ---- tensors ------------------------------------------------------------------------------- */

/* Sizes, innermost first. */
static exg_status take_sizes(reader *r, tensor_info *info, uint64_t **sizes)
{
    uint64_t bytes = 0;

    if (!exg_mul_u64(info->rank, 8, &bytes) || !exg_range_inside(r->at, bytes, r->length)) {
        return fault(r, "GGUF-CUT", "ends inside its header");
    }
    *sizes = EXG_NEW_ARRAY(r->arena, uint64_t, info->rank);
    info->shape = EXG_NEW_ARRAY(r->arena, int64_t, info->rank);
    if (*sizes == NULL || info->shape == NULL) {
        return EXG_OUT_OF_MEMORY(r->err);
    }
    for (uint32_t d = 0; d < info->rank; d++) {
        EXG_TRY(take_number(r, 8, &(*sizes)[d]));
    }
    return EXG_OK;
}

/* What it is, of a tensor that cannot be given. */
static exg_status note_skipped(reader *r, tensor_info *info, uint32_t number)
{
    info->skipped = info->type == NULL ? exg_arena_printf(r->arena, "type %u of GGUF", number)
                                       : exg_arena_printf(r->arena, "%s of %u dimensions",
                                                          info->type->name, info->rank);
    return info->skipped == NULL ? EXG_OUT_OF_MEMORY(r->err) : EXG_OK;
}

/* The shape in bytes of rows, if they are whole. */
static exg_status take_shape(reader *r, tensor_info *info, uint64_t *sizes)
{
    if (info->type->elements > 1) {
        if (info->rank == 0 || sizes[0] % info->type->elements != 0 ||
            !exg_mul_u64(sizes[0] / info->type->elements, info->type->bytes, &sizes[0])) {
            return fault(r, "GGUF-SHAPE", "has rows that are no whole number of blocks");
        }
    }
    for (uint32_t d = 0; d < info->rank; d++) {
        if (sizes[d] > INT64_MAX) {
            return fault(r, "GGUF-SHAPE", "has a size that passes 63 bits");
        }
        info->shape[info->rank - 1 - d] = (int64_t)sizes[d];
    }
    if (!exg_shape_bytes(info->shape, info->rank, info->type->dtype, &info->bytes)) {
        info->bytes = 0;
        return fault(r, "GGUF-SHAPE", "has a tensor that passes 63 bits");
    }
    return EXG_OK;
}

static exg_status read_info(reader *r, tensor_info *info)
{
    uint32_t number = 0;
    uint64_t *sizes = NULL;
    exg_status status;

    EXG_TRY(take_name(r, &info->name));
    EXG_TRY(take_u32(r, &info->rank));
    EXG_TRY(take_sizes(r, info, &sizes));
    EXG_TRY(take_u32(r, &number));
    EXG_TRY(take_number(r, 8, &info->offset));
    info->type = exg_gguf_type_numbered(number);
    if (info->type == NULL) {
        return note_skipped(r, info, number);
    }
    status = take_shape(r, info, sizes);
    if (status != EXG_OK) {
        return exg_source_fault(r->source, exg_error_within(r->err, status, "['%s']", info->name),
                                r->err);
    }
    return info->rank > RANK_MAX ? note_skipped(r, info, number) : EXG_OK;
}

static int by_offset(const void *a, const void *b)
{
    const tensor_info *const *x = a;
    const tensor_info *const *y = b;

    return ((*x)->offset > (*y)->offset) - ((*x)->offset < (*y)->offset);
}

/* Aligned, inside the file, and not one inside the other. */
static exg_status check_places(reader *r, const tensor_info *infos, uint64_t count, uint64_t start)
{
    const tensor_info **order = EXG_NEW_ARRAY(r->arena, const tensor_info *, (size_t)count);
    uint64_t end = 0;

    if (order == NULL) {
        return EXG_OUT_OF_MEMORY(r->err);
    }
    for (uint64_t i = 0; i < count; i++) {
        order[i] = &infos[i];
    }
    qsort(order, (size_t)count, sizeof(*order), by_offset);
    for (uint64_t i = 0; i < count; i++) {
        const tensor_info *info = order[i];

        if (info->offset % r->alignment != 0 ||
            !exg_range_inside(info->offset, info->bytes, r->length - start)) {
            exg_status status = exg_error_fix(
                r->err,
                EXG_FAIL(r->err, MALFORMED, "GGUF-PLACE",
                         "%s: %llu bytes at offset %llu are not aligned within %llu bytes of data",
                         info->name, (unsigned long long)info->bytes,
                         (unsigned long long)info->offset, (unsigned long long)(r->length - start)),
                "the file may be cut short");

            EXG_TRY(exg_source_fault(r->source, status, r->err));
            continue;
        }
        if (info->bytes > 0 && info->offset < end) {
            EXG_TRY(exg_source_fault(r->source,
                                     EXG_FAIL(r->err, MALFORMED, "GGUF-PLACE",
                                              "%s begins inside another tensor", info->name),
                                     r->err));
        }
        end = info->offset + info->bytes > end ? info->offset + info->bytes : end;
    }
    return EXG_OK;
}

static exg_status add_tensors(reader *r, const tensor_info *infos, uint64_t count)
{
    uint64_t start = r->length; /* without tensors, data may be left out */

    if (!exg_align_u64(r->at, r->alignment, &start) || start > r->length) {
        start = r->length;
    }
    EXG_TRY(check_places(r, infos, count, start));
    if (r->source->faults != NULL && r->source->faults->count > 0) {
        return EXG_OK; /* opening fails: where their bytes lie is not known */
    }
    for (uint64_t i = 0; i < count; i++) {
        const tensor_info *info = &infos[i];
        exg_dense tensor = {
            .name = info->name,
            .dtype = info->type == NULL ? EXG_DTYPE_U8 : info->type->dtype,
            .rank = info->rank,
            .shape = info->shape,
            .byte_order = r->big ? EXG_BIG_ENDIAN : EXG_LITTLE_ENDIAN,
            .data = r->data + start + info->offset,
            .bytes = info->bytes,
            .encoding = info->type != NULL && info->type->elements > 1 ? info->type->name : NULL,
        };

        EXG_TRY(info->skipped != NULL
                    ? exg_weights_skip(r->weights, info->name, info->skipped, r->err)
                    : exg_weights_add_dense(r->weights, &tensor, r->err));
    }
    return EXG_OK;
}

/* ---- opening ------------------------------------------------------------------------------- */

/* The version tells the byte order: it is small. */
static exg_status read_version(reader *r)
{
    uint32_t version = 0;

    r->at = 4;
    EXG_TRY(take_u32(r, &version));
    if (version > UINT16_MAX) {
        r->big = true;
        r->at = 4;
        EXG_TRY(take_u32(r, &version));
    }
    if (version != 2 && version != 3) {
        return EXG_FAIL(r->err, UNSUPPORTED, "GGUF-VERSION", "GGUF version %u; 2 and 3 are read",
                        version);
    }
    return EXG_OK;
}

static exg_status read_all(reader *r)
{
    uint64_t tensor_count = 0;
    uint64_t pair_count = 0;
    tensor_info *infos;

    EXG_TRY(read_version(r));
    EXG_TRY(take_number(r, 8, &tensor_count));
    EXG_TRY(take_number(r, 8, &pair_count));
    if (tensor_count > r->length / TENSOR_BYTES_MIN || pair_count > r->length / PAIR_BYTES_MIN) {
        return fault(r, "GGUF-COUNT", "counts more tensors or pairs than it can hold");
    }
    for (uint64_t i = 0; i < pair_count; i++) {
        EXG_TRY(read_pair(r));
    }
    if (r->weights == NULL) {
        return EXG_OK;
    }
    infos = EXG_NEW_ARRAY(r->arena, tensor_info, (size_t)tensor_count);
    if (infos == NULL) {
        return EXG_OUT_OF_MEMORY(r->err);
    }
    for (uint64_t i = 0; i < tensor_count; i++) {
        EXG_TRY(read_info(r, &infos[i]));
    }
    return add_tensors(r, infos, tensor_count);
}

/* One file; of what it says of its set, *part, which says first whether it has one. */
static exg_status read_file(const exg_source *source, exg_weights *weights, gguf_part *part,
                            exg_error *err)
{
    reader r = {.source = source,
                .data = source->data,
                .length = source->length,
                .alignment = ALIGNMENT_DEFAULT,
                .arena = exg_arena_create(source->allocator, source->budget),
                .weights = weights,
                .is_part = part->count > 1,
                .err = err};
    exg_status status;

    exg_map_init(&r.keys, r.arena);
    status = r.arena == NULL ? EXG_OUT_OF_MEMORY(err) : read_all(&r);
    *part = r.part;
    status = exg_arena_settle(r.arena, status, err);
    exg_arena_destroy(r.arena);
    return status;
}

/* ---- a model in several files --------------------------------------------------------------
 * "NAME-00001-of-00003.gguf", each of which says which it is, of how many. */

#define NAME_TAIL sizeof("-00001-of-00003.gguf")

typedef struct set {
    const exg_source *source; /* of the file that was given */
    char *folder;
    char *name; /* of part `number` after name_part() */
    gguf_part part;
    exg_weights *weights;
    exg_error *err;
} set;

/* The name of a part. */
static void name_part(set *s, uint64_t number)
{
    size_t stem = strlen(s->name) - (NAME_TAIL - 1);

    snprintf(s->name + stem, NAME_TAIL, "-%05u-of-%05u.gguf", (unsigned)number + 1,
             (unsigned)s->part.count);
}

/* The name of the given file is that of its part, and gives those of the others. */
static exg_status check_name(set *s)
{
    const char *given = s->source->path == NULL ? "" : exg_path_name(s->source->path);

    s->name = strdup(given);
    s->folder = exg_path_directory(s->source->path == NULL ? "" : s->source->path);
    if (s->name == NULL || s->folder == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    if (strlen(given) >= NAME_TAIL && s->part.count <= 99999 && s->part.number < s->part.count) {
        name_part(s, s->part.number);
        if (strcmp(s->name, given) == 0) {
            return EXG_OK;
        }
    }
    return exg_error_fix(s->err,
                         EXG_FAIL(s->err, MALFORMED, "GGUF-SPLIT",
                                  "this is part %" PRIu64 " of %" PRIu64 " of a model, and its "
                                  "name does not tell those of the others",
                                  s->part.number + 1, s->part.count),
                         "call it NAME-%05u-of-%05u.gguf, with the other parts in its folder",
                         (unsigned)s->part.number + 1, (unsigned)s->part.count);
}

/* Are all parts there? */
static exg_status check_parts(set *s)
{
    exg_text missing = EXG_TEXT_EMPTY;
    exg_status status = EXG_OK;
    uint32_t count = 0;

    for (uint64_t i = 0; i < s->part.count && status == EXG_OK; i++) {
        name_part(s, i);
        status = exg_source_look_below(s->folder, s->name, exg_weights_reading(s->weights), s->err);
        if (status == EXG_IO) {
            exg_text_puts(&missing, count == 0 ? "" : ", ");
            exg_text_puts(&missing, s->name);
            count++;
            status = EXG_OK;
        }
    }
    if (status == EXG_OK && count > 0) {
        status =
            exg_text_string(&missing) == NULL
                ? EXG_OUT_OF_MEMORY(s->err)
                : exg_error_fix(s->err,
                                EXG_FAIL(s->err, IO, "GGUF-SPLIT",
                                         "this is part %" PRIu64 " of %" PRIu64 " of a model, "
                                         "and %u cannot be opened: %s",
                                         s->part.number + 1, s->part.count, count, missing.data),
                                "all parts belong in one folder");
    }
    exg_text_free(&missing);
    return status;
}

static exg_status read_part(set *s, uint64_t number)
{
    gguf_part said = s->part;
    exg_opened opened;
    exg_status status;

    name_part(s, number);
    status =
        exg_source_open_below(s->folder, s->name, exg_weights_reading(s->weights), &opened, s->err);
    opened.source.budget = s->source->budget;
    opened.source.allocator = s->source->allocator;
    if (status == EXG_OK && !exg_gguf_sniff(opened.source.data, opened.source.length)) {
        status = EXG_FAIL(s->err, MALFORMED, "GGUF-SPLIT", "this is not a GGUF file");
    }
    status = status == EXG_OK ? read_file(&opened.source, s->weights, &said, s->err) : status;
    status = status == EXG_OK ? exg_opened_give(&opened, s->weights, s->err) : status;
    exg_opened_release(&opened); /* when it was not given away */
    EXG_TRY(status);
    if (said.number != number || said.count != s->part.count || said.tensors != s->part.tensors) {
        return EXG_FAIL(s->err, MALFORMED, "GGUF-SPLIT",
                        "this says that it is part %" PRIu64 " of %" PRIu64, said.number + 1,
                        said.count);
    }
    return EXG_OK;
}

static exg_status read_set(set *s)
{
    EXG_TRY(check_name(s));
    EXG_TRY(check_parts(s));
    for (uint64_t i = 0; i < s->part.count; i++) {
        exg_status status = read_part(s, i);

        if (status != EXG_OK) {
            return exg_error_within(s->err, status, "%s:", s->name);
        }
    }
    return s->weights->count == s->part.tensors
               ? EXG_OK
               : EXG_FAIL(s->err, MALFORMED, "GGUF-SPLIT",
                          "the parts hold %u tensors, and say that there are %" PRIu64,
                          s->weights->count, s->part.tensors);
}

exg_status exg_gguf_read(const exg_source *source, exg_weights *weights, exg_error *err)
{
    set s = {.source = source, .weights = weights, .err = err};
    exg_status status;

    EXG_TRY(read_file(source, NULL, &s.part, err));
    if (s.part.count <= 1) {
        return read_file(source, weights, &s.part, err);
    }
    status = read_set(&s);
    free(s.name);
    free(s.folder);
    return status;
}
