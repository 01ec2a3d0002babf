/* safetensors.c - header length, JSON header, tensors end to end.
 *
 *   u64 N | N bytes of JSON, beginning with { | data
 *
 * Reading is strict: the ranges tile the data without hole, overlap or rest, and
 * each is exactly its shape times its dtype.
 */
#include "libexport/base/arena.h"
#include "libexport/base/checked.h"
#include "libexport/base/files.h"
#include "libexport/formats/byte_text.h"
#include "libexport/formats/dense_tensor.h"
#include "libexport/formats/json.h"
#include "libexport/formats/lost.h"
#include "libexport/formats/model_folder.h"
#include "libexport/formats/slices.h"
#include "libexport/formats/weights_file.h"

#include <stdlib.h>
#include <string.h>

#define HEADER_BYTES_MAX 100000000u
#define RANK_MAX         64
#define REPEATED         "a name that is there again further on, which counts"

/* ---- reading ---------------------------------------------------------------------------- */

typedef struct tensor_range {
    uint64_t begin;
    uint64_t end;
    const char *name;
} tensor_range;

typedef struct reader {
    const exg_source *source; /* NULL: rules are checked */
    exg_error cut;            /* a tensor that lies past the end, where faults are told */
    const uint8_t *file;
    const uint8_t *data; /* after the header */
    uint64_t length;
    exg_arena *arena;     /* scratch */
    exg_weights *weights; /* NULL: rules are checked, nothing is read */
    exg_error *err;
    tensor_range *ranges;
} reader;

/* A fault is told, and reading goes on, where somebody hears. */
static exg_status go_on(reader *r, exg_status status)
{
    return status == EXG_OK || r->source == NULL ? status
                                                 : exg_source_fault(r->source, status, r->err);
}

static exg_status no_memory(reader *r)
{
    return EXG_OUT_OF_MEMORY(r->err);
}

/* Of members of one name the last counts, as for the library of safetensors. */
typedef struct members {
    bool has_twins; /* or a key with NUL */
    exg_map last;   /* name -> number of the last member called so; of twins alone */
} members;

static exg_status look_for_twins(reader *r, exg_json object, members *m)
{
    exg_json_walk walk = {0};
    exg_json element;
    const char *key;
    uint32_t length;
    uint32_t i = 0;

    EXG_TRY(exg_json_object(object, &walk, r->err));
    exg_map_init(&m->last, r->arena);
    m->has_twins = exg_json_check_own_keys(object, r->weights == NULL ? r->err : NULL) != EXG_OK;
    if (m->has_twins && r->weights == NULL) {
        return EXG_MALFORMED; /* nothing like that is written */
    }
    while (m->has_twins && exg_json_next_member(&walk, &key, &length, &element)) {
        const char *name = exg_byte_name(r->arena, key, length);

        if (name == NULL || !exg_map_put(&m->last, name, i++)) {
            return no_memory(r);
        }
    }
    return EXG_OK;
}

static bool is_last(const members *m, const char *name, uint32_t number)
{
    return !m->has_twins || exg_map_find(&m->last, name) == number;
}

static exg_status skip(reader *r, const char *name, const char *kind)
{
    return r->weights == NULL ? EXG_OK : exg_weights_skip(r->weights, name, kind, r->err);
}

static exg_status read_pair(reader *r, const char *key, exg_json value)
{
    uint32_t length;
    const char *text;

    if (exg_json_type_of(value) != EXG_JSON_STRING) {
        return exg_json_fault(value, r->err, EXG_MALFORMED, "JSN-002", "expected a text");
    }
    text = exg_json_text_at(value.doc, value.at, &length);
    return r->weights == NULL ? EXG_OK : exg_byte_metadata(r->weights, key, text, length, r->err);
}

static exg_status read_metadata(reader *r, exg_json value)
{
    exg_json_walk walk = {0};
    exg_json element;
    const char *key;
    uint32_t length;
    uint32_t i = 0;
    members m;

    if (exg_json_is_null(value)) {
        return EXG_OK;
    }
    EXG_TRY(look_for_twins(r, value, &m));
    EXG_TRY(exg_json_object(value, &walk, r->err));
    while (exg_json_next_member(&walk, &key, &length, &element)) {
        const char *name = exg_byte_name(r->arena, key, length);

        if (name == NULL) {
            return no_memory(r);
        }
        if (!is_last(&m, name, i++)) {
            const char *where = exg_arena_printf(r->arena, "__metadata__['%s']", name);

            EXG_TRY(where == NULL ? no_memory(r) : skip(r, where, REPEATED));
            continue;
        }
        EXG_TRY_IN(r->err, read_pair(r, name, element), "['%s']", name);
    }
    return EXG_OK;
}

static exg_status take_metadata(reader *r, exg_json value, bool again)
{
    exg_status status = again ? exg_json_fault(value, r->err, EXG_MALFORMED, "STF-KEY",
                                               "__metadata__ is there twice")
                              : read_metadata(r, value);

    return again || status == EXG_OK ? go_on(r, status)
                                     : go_on(r, exg_error_within(r->err, status, "__metadata__"));
}

/* Sub-byte elements lie one behind the other, across rows. They are kept as bytes. */
static const struct {
    const char *name;
    uint32_t bits;
} packed[] = {{"F4", 4}, {"F6_E2M3", 6}, {"F6_E3M2", 6}};

uint32_t exg_safetensors_packed_bits(const char *dtype)
{
    for (size_t i = 0; i < sizeof(packed) / sizeof(packed[0]); i++) {
        if (strcmp(packed[i].name, dtype) == 0) {
            return packed[i].bits;
        }
    }
    return 0;
}

/* What is said of a tensor. */
typedef struct said {
    const char *dtype;
    uint64_t *shape;
    uint32_t rank;
    unsigned seen; /* bits, one a member */
} said;

static exg_status read_shape(reader *r, exg_json value, said *tensor)
{
    exg_json_walk walk = {0};
    exg_json element;

    EXG_TRY(exg_json_array(value, &walk, r->err));
    tensor->shape = EXG_NEW_ARRAY(r->arena, uint64_t, exg_json_count(value));
    if (tensor->shape == NULL) {
        return no_memory(r);
    }
    while (exg_json_next(&walk, &element)) {
        int64_t size = 0;

        if (exg_json_type_of(element) == EXG_JSON_HUGE_INT) { /* past 63 bits */
            memcpy(&tensor->shape[tensor->rank++], &element.doc->tape[element.at + 1], 8);
            continue;
        }
        EXG_TRY(exg_json_int(element, &size, r->err));
        if (size < 0) {
            return exg_json_fault(element, r->err, EXG_MALFORMED, "STF-SHAPE",
                                  "a dimension is negative");
        }
        tensor->shape[tensor->rank++] = (uint64_t)size;
    }
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
    if (count != 2 || bounds[0] < 0 || bounds[1] < 0) {
        return exg_json_fault(value, r->err, EXG_MALFORMED, "STF-OFFSETS",
                              "offsets are two numbers from 0 on");
    }
    range->begin = (uint64_t)bounds[0];
    range->end = (uint64_t)bounds[1];
    return EXG_OK;
}

static exg_status check_offsets(const reader *r, exg_json value, const tensor_range *range)
{
    return range->end >= range->begin && range->end <= r->length
               ? EXG_OK
               : exg_json_fault(value, r->err, EXG_MALFORMED, "STF-OFFSETS",
                                "offsets %llu and %llu do not lie in the %llu bytes of data",
                                (unsigned long long)range->begin, (unsigned long long)range->end,
                                (unsigned long long)r->length);
}

/* Member 0 is the dtype, 1 the shape, 2 the offsets. */
static exg_status read_part(reader *r, exg_json value, unsigned member, said *tensor,
                            tensor_range *range)
{
    static const char *const names[] = {"dtype", "shape", "data_offsets"};

    if ((tensor->seen & 1u << member) != 0) {
        return exg_json_fault(value, r->err, EXG_MALFORMED, "STF-KEY", "%s is there twice",
                              names[member]);
    }
    tensor->seen |= 1u << member;
    EXG_TRY_IN(r->err,
               member == 0   ? exg_json_string(value, &tensor->dtype, NULL, r->err)
               : member == 1 ? read_shape(r, value, tensor)
                             : read_offsets(r, value, range),
               "%s", names[member]);
    return EXG_OK;
}

/* {"dtype": ..., "shape": ..., "data_offsets": ...}, other members among them, or these three in a
 * list, which the library of safetensors takes too. */
static exg_status read_parts(reader *r, exg_json value, said *tensor, tensor_range *range)
{
    exg_json_walk walk = {0};
    exg_json element;
    const char *key;
    uint32_t length;
    unsigned member = 0;

    if (exg_json_type_of(value) == EXG_JSON_ARRAY && exg_json_count(value) == 3) {
        EXG_TRY(exg_json_array(value, &walk, r->err));
        while (exg_json_next(&walk, &element)) {
            EXG_TRY(read_part(r, element, member++, tensor, range));
        }
        return EXG_OK;
    }
    EXG_TRY(exg_json_object(value, &walk, r->err));
    while (exg_json_next_member(&walk, &key, &length, &element)) {
        member = strcmp(key, "dtype") == 0          ? 0
                 : strcmp(key, "shape") == 0        ? 1
                 : strcmp(key, "data_offsets") == 0 ? 2
                                                    : 3;
        if (member < 3) {
            EXG_TRY(read_part(r, element, member, tensor, range));
        }
    }
    return tensor->seen == 7 ? EXG_OK
                             : exg_json_fault(value, r->err, EXG_MALFORMED, "STF-KEY",
                                              "a tensor needs dtype, shape and data_offsets");
}

/* Is the shape, of elements of so many bits, what the offsets give? Sizes are multiplied in order,
 * as the library of safetensors does: a 0 behind what passes 64 bits comes too late. */
static exg_status check_size(const reader *r, exg_json value, const said *tensor, uint32_t bits,
                             const tensor_range *range)
{
    uint64_t count = 1;

    for (uint32_t d = 0; d < tensor->rank; d++) {
        if (!exg_mul_u64(count, tensor->shape[d], &count)) {
            count = UINT64_MAX;
            break;
        }
    }
    if (!exg_mul_u64(count, bits, &count)) {
        return exg_json_fault(value, r->err, EXG_MALFORMED, "STF-SIZE",
                              "the bytes that the shape takes pass 64 bits");
    }
    if (count % 8 != 0) {
        return exg_json_fault(value, r->err, EXG_MALFORMED, "STF-SIZE",
                              "%llu elements of %u bits are no whole number of bytes",
                              (unsigned long long)(count / bits), bits);
    }
    if (count / 8 != range->end - range->begin) {
        return exg_json_fault(value, r->err, EXG_MALFORMED, "STF-SIZE",
                              "the shape takes %llu bytes, the offsets give %llu",
                              (unsigned long long)(count / 8),
                              (unsigned long long)(range->end - range->begin));
    }
    return EXG_OK;
}

static exg_status add_tensor(reader *r, const char *name, const said *tensor, exg_dtype dtype,
                             const tensor_range *range)
{
    uint32_t bits = exg_safetensors_packed_bits(tensor->dtype);
    int64_t shape[RANK_MAX + 1];
    exg_dense dense = {.name = name,
                       .dtype = dtype,
                       .rank = tensor->rank,
                       .shape = shape,
                       .byte_order = EXG_LITTLE_ENDIAN,
                       .data = r->data + range->begin,
                       .bytes = range->end - range->begin};

    if (tensor->rank > RANK_MAX) {
        const char *kind =
            exg_arena_printf(r->arena, "%s of %u dimensions", tensor->dtype, tensor->rank);

        return kind == NULL ? no_memory(r) : skip(r, name, kind);
    }
    for (uint32_t d = 0; d < tensor->rank; d++) {
        if (tensor->shape[d] > INT64_MAX) {
            return skip(r, name, "a tensor with a size that passes 63 bits");
        }
        shape[d] = (int64_t)tensor->shape[d];
    }
    EXG_TRY(bits > 0 ? exg_dense_pack(&dense, shape, tensor->dtype, bits, r->arena, r->err)
                     : EXG_OK);
    return exg_weights_add_dense(r->weights, &dense, r->err);
}

static exg_status read_tensor(reader *r, exg_json value, const char *name, tensor_range *range)
{
    said tensor = {0};
    exg_dtype dtype;
    uint32_t bits;

    EXG_TRY(read_parts(r, value, &tensor, range));
    EXG_TRY(check_offsets(r, value, range));
    dtype = exg_dtype_from_safetensors(tensor.dtype);
    bits = exg_safetensors_packed_bits(tensor.dtype);
    bits = bits > 0 || dtype == EXG_DTYPE_COUNT ? bits : 8 * exg_dtype_bytes(dtype);
    if (bits == 0) { /* which later versions may have */
        return skip(r, name, tensor.dtype);
    }
    EXG_TRY(check_size(r, value, &tensor, bits, range));
    return r->weights == NULL ? EXG_OK : add_tensor(r, name, &tensor, dtype, range);
}

static int by_begin(const void *a, const void *b)
{
    const tensor_range *x = a;
    const tensor_range *y = b;

    return x->begin != y->begin ? (x->begin > y->begin) - (x->begin < y->begin)
                                : (x->end > y->end) - (x->end < y->end);
}

/* `sure`: the ranges of all tensors are known, so that a hole is one. */
static exg_status check_tiling(reader *r, uint32_t count, bool sure)
{
    uint64_t at = 0;

    qsort(r->ranges, count, sizeof(tensor_range), by_begin);
    for (uint32_t i = 0; i < count; i++) {
        const tensor_range *range = &r->ranges[i];

        if (range->begin < at || (range->begin > at && sure)) {
            EXG_TRY(go_on(r, EXG_FAIL(r->err, MALFORMED, "STF-TILING", "%s begins at %llu, %s",
                                      range->name, (unsigned long long)range->begin,
                                      range->begin < at ? "inside the tensor before it"
                                                        : "after bytes of no tensor")));
        }
        at = range->end > at ? range->end : at;
    }
    if (at != r->length && sure) {
        return exg_error_fix(r->err,
                             EXG_FAIL(r->err, MALFORMED, "STF-TILING",
                                      "the tensors end at byte %llu of %llu of data",
                                      (unsigned long long)at, (unsigned long long)r->length),
                             "the file may be cut short or have been appended to");
    }
    return EXG_OK;
}

/* One tensor; *count: of ranges that are known. */
static exg_status take_tensor(reader *r, exg_json element, const char *name, bool counts,
                              uint32_t *count, bool *sure)
{
    tensor_range *range = &r->ranges[*count];
    said tensor = {0};
    exg_status status;

    *range = (tensor_range){.name = name};
    if (!counts) { /* its bytes are another's of this name */
        status = read_parts(r, element, &tensor, range);
        status = status == EXG_OK ? skip(r, name, REPEATED) : status;
    } else {
        status = read_tensor(r, element, name, range);
    }
    if (status == EXG_OK) {
        *count += counts;
        return EXG_OK;
    }
    status = exg_error_within(r->err, status, "['%s']", name);
    if (range->end > range->begin && range->end <= r->length) { /* wrong by its shape alone */
        ++*count;
        return go_on(r, status);
    }
    *sure = false;
    if (range->end > r->length && r->source != NULL && r->source->faults != NULL &&
        r->err != NULL) { /* of all that are cut off there is one message */
        r->cut = *r->err;
        return EXG_OK;
    }
    return go_on(r, status);
}

static exg_status read_header(reader *r, exg_json root)
{
    exg_json_walk walk = {0};
    exg_json element;
    const char *key;
    uint32_t length;
    uint32_t count = 0;
    uint32_t i = 0;
    bool told = false; /* metadata */
    bool sure = true;
    members m;

    EXG_TRY(look_for_twins(r, root, &m));
    EXG_TRY(exg_json_object(root, &walk, r->err));
    r->ranges = EXG_NEW_ARRAY(r->arena, tensor_range, exg_json_count(root));
    if (r->ranges == NULL) {
        return no_memory(r);
    }
    for (; exg_json_next_member(&walk, &key, &length, &element); i++) {
        const char *name = m.has_twins ? exg_byte_name(r->arena, key, length) : key;

        if (name == NULL) {
            return no_memory(r);
        }
        if (strcmp(name, "__metadata__") == 0) {
            EXG_TRY(take_metadata(r, element, told));
            told = true;
            continue;
        }
        EXG_TRY(take_tensor(r, element, name, is_last(&m, name, i), &count, &sure));
    }
    return check_tiling(r, count, sure);
}

/* The offsets of a cut file are as they were: who lies past the end? */
static exg_status tell_cut(const reader *r, exg_json root, exg_status status)
{
    uint64_t start = (uint64_t)(r->data - r->file);
    exg_lost lost = {.have = start + r->length};
    exg_json_walk walk = {0};
    exg_json tensor;
    const char *key;
    uint32_t length;

    (void)exg_json_object(root, &walk, NULL);
    while (exg_json_next_member(&walk, &key, &length, &tensor)) {
        exg_json offsets;
        exg_json_walk pair = {0};
        exg_json begin;
        exg_json end;
        int64_t bytes = 0;

        if (!exg_json_find(tensor, "data_offsets", &offsets) ||
            exg_json_array(offsets, &pair, NULL) != EXG_OK || !exg_json_next(&pair, &begin) ||
            !exg_json_next(&pair, &end) || exg_json_int(end, &bytes, NULL) != EXG_OK || bytes < 0 ||
            (uint64_t)bytes > UINT64_MAX / 2) {
            continue;
        }
        exg_lost_tensor(&lost, key, start + (uint64_t)bytes);
        lost.want = start + (uint64_t)bytes > lost.want ? start + (uint64_t)bytes : lost.want;
    }
    return lost.want > lost.have ? exg_lost_tell(&lost, "STF-OFFSETS", r->err) : status;
}

static uint64_t little_u64(const uint8_t *p)
{
    uint64_t value = 0;

    for (int i = 7; i >= 0; i--) {
        value = value << 8 | p[i];
    }
    return value;
}

/* A length that fits in front of a "{", which blanks may precede: no other file begins like
 * that. */
bool exg_safetensors_sniff(const uint8_t *data, uint64_t length)
{
    uint64_t at = 8;

    if (length < 9 || little_u64(data) > HEADER_BYTES_MAX) {
        return false;
    }
    while (at < length && at - 8 < little_u64(data) && data[at] != '\0' &&
           strchr(" \t\r\n", data[at]) != NULL) {
        at++;
    }
    return at < length && data[at] == '{';
}

/* The header of a file, which lies at offset 8. */
static exg_status read_text(reader *r, const void *text, uint64_t length)
{
    exg_json_doc *doc = NULL;
    exg_status status = exg_json_parse(text, (size_t)length, 8, EXG_JSON_KEYS_LATER, &doc, r->err);

    if (status == EXG_OK && doc->rewritten != NULL) {
        status = EXG_FAIL(r->err, MALFORMED, "JSN-001", "NaN and Infinity are no JSON");
    }
    if (status == EXG_OK) {
        status = read_header(r, exg_json_root(doc));
        if (status == EXG_OK && r->cut.status != EXG_OK) {
            *r->err = r->cut;
            status = r->cut.status;
        }
        if (r->weights != NULL && r->err != NULL && strcmp(r->err->code, "STF-OFFSETS") == 0 &&
            status != EXG_OK) {
            status = tell_cut(r, exg_json_root(doc), status);
        }
    }
    exg_json_free(doc);
    return status;
}

exg_status exg_safetensors_check(const void *header, uint64_t length, uint64_t data, exg_error *err)
{
    reader r = {.length = data, .arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED), .err = err};
    exg_status status = r.arena == NULL ? EXG_OUT_OF_MEMORY(err) : read_text(&r, header, length);

    exg_arena_destroy(r.arena);
    return status;
}

exg_status exg_safetensors_read_alone(const exg_source *source, exg_weights *weights,
                                      exg_error *err)
{
    uint64_t header = little_u64(source->data);
    reader r = {.source = source, .weights = weights, .err = err};
    exg_status status;

    if (header < 2 || header > source->length - 8) {
        return exg_error_fix(
            err,
            EXG_FAIL(err, MALFORMED, "STF-HEADER",
                     "the header takes %llu bytes, %llu follow: its names are not all there",
                     (unsigned long long)header, (unsigned long long)(source->length - 8)),
            "the file may be cut short: copy it again and compare its size");
    }
    r.file = source->data;
    r.data = source->data + 8 + header;
    r.length = source->length - 8 - header;
    r.arena = exg_arena_create(source->allocator, source->budget);
    if (r.arena == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    status = read_text(&r, source->data + 8, header);
    status = exg_arena_settle(r.arena, status, err);
    exg_arena_destroy(r.arena);
    return status;
}

exg_status exg_safetensors_read_shard(const exg_source *source, exg_weights *weights,
                                      exg_error *err)
{
    const char *sharding;

    EXG_TRY(exg_safetensors_read_alone(source, weights, err));
    sharding = exg_slices_told(weights);
    return sharding == NULL ? EXG_OK : exg_slices_check(sharding, source->path, err);
}

exg_status exg_safetensors_read(const exg_source *source, exg_weights *weights, exg_error *err)
{
    return source->path != NULL && exg_model_is_slice(exg_path_name(source->path))
               ? exg_slices_read(source, weights, err)
               : exg_safetensors_read_shard(source, weights, err);
}
