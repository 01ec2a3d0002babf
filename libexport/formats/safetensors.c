/* safetensors.c - header length, JSON header, tensors end to end.
 *
 *   u64 N | N bytes of JSON, beginning with { | data
 *
 * Reading is strict: the ranges tile the data without hole, overlap or rest, and
 * each is exactly its shape times its dtype.
 */
#include "libexport/base/arena.h"
#include "libexport/base/files.h"
#include "libexport/formats/dense_tensor.h"
#include "libexport/formats/json.h"
#include "libexport/formats/lost.h"
#include "libexport/formats/weights_file.h"

#include <stdlib.h>
#include <string.h>

#define HEADER_BYTES_MAX 100000000u
#define RANK_MAX         64

/* ---- reading ---------------------------------------------------------------------------- */

typedef struct tensor_range {
    uint64_t begin;
    uint64_t end;
    const char *name;
} tensor_range;

typedef struct reader {
    const uint8_t *file;
    const uint8_t *data; /* after the header */
    uint64_t length;
    exg_arena *arena;     /* scratch */
    exg_weights *weights; /* NULL: rules are checked, nothing is read */
    exg_error *err;
    tensor_range *ranges;
    const char *sharding; /* DCP_SHARDING_INFO, or NULL */
} reader;

static exg_status no_memory(reader *r)
{
    return EXG_OUT_OF_MEMORY(r->err);
}

static exg_status read_metadata(reader *r, exg_json value)
{
    exg_json_walk walk = {0};
    exg_json element;
    const char *key;
    uint32_t length;

    EXG_TRY(exg_json_object(value, &walk, r->err));
    while (exg_json_next_member(&walk, &key, &length, &element)) {
        const char *text = "";

        EXG_TRY_IN(r->err, exg_json_string(element, &text, NULL, r->err), "['%s']", key);
        r->sharding = strcmp(key, "DCP_SHARDING_INFO") == 0 ? text : r->sharding;
        if (r->weights != NULL) {
            EXG_TRY(exg_weights_add_metadata(r->weights, key, text, r->err));
        }
    }
    return EXG_OK;
}

/* *unknown is the name of a dtype that is not known here, which later versions may have. */
static exg_status read_dtype(reader *r, exg_json value, exg_dtype *dtype, const char **unknown)
{
    const char *name = "";

    EXG_TRY(exg_json_string(value, &name, NULL, r->err));
    *dtype = exg_dtype_from_safetensors(name);
    *unknown = *dtype == EXG_DTYPE_COUNT ? name : NULL;
    return EXG_OK;
}

static exg_status read_shape(reader *r, exg_json value, exg_dense *tensor)
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

static exg_status read_tensor(reader *r, exg_json value, const char *name, tensor_range *range)
{
    exg_dense tensor = {.name = name, .byte_order = EXG_LITTLE_ENDIAN};
    exg_json_walk walk = {0};
    exg_json element;
    const char *key;
    uint32_t length;
    const char *unknown = NULL;
    unsigned seen = 0;
    uint64_t bytes = 0;

    EXG_TRY(exg_json_object(value, &walk, r->err));
    while (exg_json_next_member(&walk, &key, &length, &element)) {
        if (strcmp(key, "dtype") == 0) {
            seen |= 1;
            EXG_TRY_IN(r->err, read_dtype(r, element, &tensor.dtype, &unknown), "dtype");
        } else if (strcmp(key, "shape") == 0) {
            seen |= 2;
            EXG_TRY_IN(r->err, read_shape(r, element, &tensor), "shape");
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
    if (unknown != NULL) {
        return r->weights == NULL ? EXG_OK : exg_weights_skip(r->weights, name, unknown, r->err);
    }
    if (!exg_shape_bytes(tensor.shape, tensor.rank, tensor.dtype, &bytes)) {
        return exg_json_fault(value, r->err, EXG_MALFORMED, "STF-SIZE",
                              "the bytes that the shape takes pass 64 bits");
    }
    if (bytes != range->end - range->begin) {
        return exg_json_fault(value, r->err, EXG_MALFORMED, "STF-SIZE",
                              "the shape takes %llu bytes, the offsets give %llu",
                              (unsigned long long)bytes,
                              (unsigned long long)(range->end - range->begin));
    }
    if (r->weights == NULL) {
        return EXG_OK;
    }
    tensor.bytes = bytes;
    tensor.data = r->data + range->begin;
    return exg_weights_add_dense(r->weights, &tensor, r->err);
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

static exg_status read_header(reader *r, exg_json root)
{
    exg_json_walk walk = {0};
    exg_json element;
    const char *key;
    uint32_t length;
    uint32_t count = 0;

    EXG_TRY(exg_json_object(root, &walk, r->err));
    r->ranges = EXG_NEW_ARRAY(r->arena, tensor_range, exg_json_count(root));
    if (r->ranges == NULL) {
        return no_memory(r);
    }
    while (exg_json_next_member(&walk, &key, &length, &element)) {
        if (strcmp(key, "__metadata__") == 0) {
            EXG_TRY_IN(r->err, read_metadata(r, element), "__metadata__");
            continue;
        }
        r->ranges[count].name = key;
        EXG_TRY_IN(r->err, read_tensor(r, element, key, &r->ranges[count]), "['%s']", key);
        count++;
    }
    return check_tiling(r, count);
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

/* A length that fits in front of a "{": no other file begins like that. */
bool exg_safetensors_sniff(const uint8_t *data, uint64_t length)
{
    return length >= 9 && data[8] == '{' && little_u64(data) <= HEADER_BYTES_MAX;
}

/* ---- slices ------------------------------------------------------------------------------
 * PyTorch's distributed checkpoints say in DCP_SHARDING_INFO where in the whole tensor each of
 * a file begins: {"w": {"saved_offsets": [2, 0]}}. */

/* The first tensor that does not begin at 0 (NULL: none), with where it begins. */
static exg_status find_slice(exg_json root, const char **name, int64_t *from, exg_error *err)
{
    exg_json_walk walk = {0};
    exg_json tensor;
    const char *key;
    uint32_t length;

    EXG_TRY(exg_json_object(root, &walk, err));
    while (*name == NULL && exg_json_next_member(&walk, &key, &length, &tensor)) {
        exg_json_walk offsets = {0};
        exg_json list;
        exg_json offset;

        if (!exg_json_find(tensor, "saved_offsets", &list)) {
            continue;
        }
        EXG_TRY(exg_json_array(list, &offsets, err));
        while (*name == NULL && exg_json_next(&offsets, &offset)) {
            EXG_TRY(exg_json_int(offset, from, err));
            *name = *from != 0 ? key : NULL;
        }
    }
    return EXG_OK;
}

/* "model-00001-of-00002.safetensors" is what one process writes of whole tensors; those of
 * every rank are "shard-00001-model-00001-of-00001.safetensors". */
static bool is_of_one_process(const char *path)
{
    return path != NULL && strncmp(exg_path_name(path), "model-", 6) == 0;
}

static exg_status check_slices(const reader *r, const char *path)
{
    exg_json_doc *doc = NULL;
    const char *name = NULL;
    int64_t from = 0;
    exg_status status;

    if (r->sharding == NULL) {
        return EXG_OK;
    }
    EXG_TRY_IN(r->err,
               exg_json_parse(r->sharding, strlen(r->sharding), 0, EXG_JSON_KEYS_NOW, &doc, r->err),
               "DCP_SHARDING_INFO");
    status = find_slice(exg_json_root(doc), &name, &from, r->err);
    if (status == EXG_OK && (name != NULL || !is_of_one_process(path))) {
        status = name == NULL
                     ? EXG_FAIL(r->err, UNSUPPORTED, "STF-SLICE",
                                "the tensors are slices that one rank saved of a distributed "
                                "checkpoint")
                     : EXG_FAIL(r->err, UNSUPPORTED, "STF-SLICE",
                                "'%s' is a slice of a tensor, from %lld on: other ranks saved the "
                                "others",
                                name, (long long)from);
        (void)exg_error_fix(r->err, status,
                            "put them together with consolidate_safetensors_files() of PyTorch's "
                            "torch.distributed.checkpoint");
    }
    exg_json_free(doc);
    return status;
}

/* The header of a file, which lies at offset 8. */
static exg_status read_text(reader *r, const void *text, uint64_t length, const char *path)
{
    exg_json_doc *doc = NULL;
    exg_status status = exg_json_parse(text, (size_t)length, 8, EXG_JSON_KEYS_NOW, &doc, r->err);

    if (status == EXG_OK) {
        status = read_header(r, exg_json_root(doc));
        if (r->weights != NULL && r->err != NULL && strcmp(r->err->code, "STF-OFFSETS") == 0 &&
            status != EXG_OK) {
            status = tell_cut(r, exg_json_root(doc), status);
        }
        if (status == EXG_OK && r->weights != NULL) {
            status = check_slices(r, path);
        }
    }
    exg_json_free(doc);
    return status;
}

exg_status exg_safetensors_check(const void *header, uint64_t length, uint64_t data, exg_error *err)
{
    reader r = {.length = data, .arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED), .err = err};
    exg_status status =
        r.arena == NULL ? EXG_OUT_OF_MEMORY(err) : read_text(&r, header, length, NULL);

    exg_arena_destroy(r.arena);
    return status;
}

exg_status exg_safetensors_read(const exg_source *source, exg_weights *weights, exg_error *err)
{
    uint64_t header = little_u64(source->data);
    reader r = {.weights = weights, .err = err};
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
    status = read_text(&r, source->data + 8, header, source->path);
    status = exg_arena_settle(r.arena, status, err);
    exg_arena_destroy(r.arena);
    return status;
}
