/* safetensors_save.c - header and data, tensors end to end; a model in one file or in
 * several with an index.
 *
 * The data begins at a multiple of 64; the format has no room for padding between
 * tensors. A weight is read and written block by block, or written from where it lies.
 *
 * The files of a split model carry the hash of their bytes in their names, and the index
 * is renamed into place last: at any moment it is the old model or the new one. Files of
 * another one under the same name are not left beside it (model_beside.c).
 */
#include "libexport/base/arena.h"
#include "libexport/base/checked.h"
#include "libexport/base/files.h"
#include "libexport/base/given.h"
#include "libexport/base/map.h"
#include "libexport/base/options.h"
#include "libexport/base/pipeline.h"
#include "libexport/base/xxh3.h"
#include "libexport/formats/dense_tensor.h"
#include "libexport/formats/weights_file.h"
#include "libexport/weights/storage.h"

#include <exg/text.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define HEADER_BYTES_MAX 100000000u
#define ALIGNMENT        64
#define BLOCK_BYTES      (UINT64_C(1) << 20)
#define FILES_MAX        99999u

/* A tensor to be written: `item.data`, or a weight to be read. */
typedef struct part {
    exg_named_tensor item;
    const exg_weight *weight;
} part;

/* What may be written of tensors that repeat elements. */
#define REPEATED_LEAST (UINT64_C(1) << 30)
#define REPEATED_MOST  64 /* times what their storages hold */

typedef struct saver {
    exg_weights *weights; /* of the weights among the parts */
    const exg_weights_save_options *options;
    exg_arena *arena;
    part *parts;
    uint32_t count;
    const exg_string_map *metadata; /* NULL: none */
    exg_string_map encodings;       /* "encoding:NAME" of raw bytes */
    exg_string_map pairs;           /* both, no name twice */
    XXH3_state_t *hash;             /* of the file being written; NULL: nobody asks */
    exg_pool *pool;
    uint8_t **slots; /* BLOCK_BYTES each */
    uint64_t done, total;
    exg_error *err;
} saver;

/* ---- header -------------------------------------------------------------------------------- */

/* One tensor's part of the header, with its checks. */
static exg_status describe(exg_text *header, const exg_named_tensor *item, uint64_t *at,
                           exg_error *err)
{
    uint64_t bytes = 0;

    if (exg_dtype_safetensors(item->dtype)[0] == '\0') {
        return exg_error_fix(err,
                             EXG_FAIL(err, UNSUPPORTED, "STF-DTYPE", "safetensors has no %s",
                                      exg_dtype_name(item->dtype)),
                             "NumPy's .npz has complex128, and complex32 as complex64");
    }
    if (!exg_shape_bytes(item->shape, item->rank, item->dtype, &bytes)) {
        return EXG_FAIL(err, UNSUPPORTED, "STF-SIZE", "the shape passes 63 bits");
    }
    if (bytes != item->bytes) {
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

static exg_status check_names(saver *s)
{
    exg_map names;

    exg_map_init(&names, s->arena);
    for (uint32_t i = 0; i < s->count; i++) {
        const char *name = s->parts[i].item.name;

        if (name == NULL) {
            return EXG_FAIL(s->err, USAGE, "STF-NAME", "tensor %u of %u has no name", i, s->count);
        }
        if (!exg_text_is_utf8(name, strlen(name))) {
            return EXG_FAIL(s->err, USAGE, "STF-NAME", "the name %s is not UTF-8", name);
        }
        if (strcmp(name, "__metadata__") == 0 || exg_map_find(&names, name) != EXG_MAP_NONE) {
            return EXG_FAIL(s->err, USAGE, "STF-NAME", "the name %s is taken", name);
        }
        if (!exg_map_put(&names, name, i)) {
            return EXG_OUT_OF_MEMORY(s->err);
        }
    }
    return EXG_OK;
}

/* Adds a pair, unless it is there; another value gets a name of its own. */
static exg_status keep_pair(saver *s, exg_map *names, const exg_string_pair *pair)
{
    exg_string_map *kept = &s->pairs;
    uint32_t at = exg_map_find(names, pair->key);
    const char *key = exg_map_free_name(names, s->arena, pair->key);

    if (at < kept->count && strcmp(kept->items[at].value, pair->value) == 0) {
        return EXG_OK;
    }
    if (key == NULL || !exg_map_put(names, key, kept->count)) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    kept->items[kept->count++] = (exg_string_pair){key, pair->value};
    return EXG_OK;
}

/* What is said beside the tensors. An index has a total_size of its own. */
static exg_status keep_pairs(saver *s)
{
    uint32_t count = s->metadata == NULL ? 0 : s->metadata->count;
    exg_map names;

    exg_map_init(&names, s->arena);
    s->pairs.items = EXG_NEW_ARRAY(s->arena, exg_string_pair, count + s->encodings.count);
    if (s->pairs.items == NULL || (s->options != NULL && s->options->split > 0 &&
                                   !exg_map_put(&names, "total_size", UINT32_MAX - 1))) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    for (uint32_t i = 0; i < count; i++) {
        EXG_TRY(keep_pair(s, &names, &s->metadata->items[i]));
    }
    for (uint32_t i = 0; i < s->encodings.count; i++) {
        EXG_TRY(keep_pair(s, &names, &s->encodings.items[i]));
    }
    return EXG_OK;
}

static void put_pairs(exg_text *text, const saver *s, const char *comma)
{
    for (uint32_t i = 0; i < s->pairs.count; i++) {
        exg_text_puts(text, i == 0 ? comma : ",");
        exg_text_json_string(text, s->pairs.items[i].key);
        exg_text_putc(text, ':');
        exg_text_json_string(text, s->pairs.items[i].value);
    }
}

static exg_status build_header(saver *s, exg_text *header, uint32_t first, uint32_t end)
{
    const char *comma;
    uint64_t at = 0;

    exg_text_puts(header, s->pairs.count > 0 ? "{\"__metadata__\":{" : "{");
    put_pairs(header, s, "");
    exg_text_puts(header, s->pairs.count > 0 ? "}" : "");
    comma = s->pairs.count > 0 ? "," : "";
    for (uint32_t i = first; i < end; i++) {
        const exg_named_tensor *item = &s->parts[i].item;

        exg_text_puts(header, comma);
        EXG_TRY_IN(s->err, describe(header, item, &at, s->err), "['%s']", item->name);
        comma = ",";
    }
    exg_text_putc(header, '}');
    while ((header->length + 8) % ALIGNMENT != 0 && !header->failed) {
        exg_text_putc(header, ' ');
    }
    if (header->failed) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    if (header->length > HEADER_BYTES_MAX) {
        return EXG_FAIL(s->err, LIMIT, "STF-HEADER", "the header takes %zu bytes", header->length);
    }
    return exg_safetensors_check(header->data, header->length, at, s->err); /* as it is read */
}

/* ---- data ---------------------------------------------------------------------------------- */

static exg_status put(saver *s, exg_writer *writer, const void *data, uint64_t length)
{
    if (s->hash != NULL && length > 0) {
        XXH3_128bits_update(s->hash, data, (size_t)length);
    }
    return exg_writer_write(writer, data, length, s->err);
}

static void report(saver *s, uint64_t bytes)
{
    s->done += bytes;
    if (s->options != NULL && s->options->progress != NULL) {
        s->options->progress(s->options->user, s->done, s->total);
    }
}

/* A weight on its way into the file: gathered by all cores into slots, then written. */
typedef struct passage {
    saver *s;
    exg_writer *writer;
    const part *p;
    uint32_t width;
} passage;

/* Elements of block `index`; *first is the first. */
static uint64_t block_elements(const passage *q, uint64_t index, uint64_t *first)
{
    uint64_t step = BLOCK_BYTES / q->width;
    uint64_t count = q->p->item.bytes / q->width;

    *first = index * step;
    return count - *first < step ? count - *first : step;
}

static exg_status gather_block(void *context, const exg_pipeline_block *block, exg_error *err)
{
    passage *q = context;
    uint64_t first;
    uint64_t count = block_elements(q, block->index, &first);

    return exg_weight_read_range(q->s->weights, q->p->weight, first, count,
                                 q->s->slots[block->slot], err);
}

static exg_status put_block(void *context, const exg_pipeline_block *block, exg_error *err)
{
    passage *q = context;
    uint64_t first;
    uint64_t bytes = block_elements(q, block->index, &first) * q->width;
    exg_status status;

    q->s->err = err;
    status = put(q->s, q->writer, q->s->slots[block->slot], bytes);
    report(q->s, bytes);
    if (exg_tensor_meta_is_packed(q->p->weight->meta)) { /* others come back to where they were */
        uint64_t end = ((uint64_t)q->p->weight->meta->storage_offset.value + first) * q->width;

        exg_storage_forget(q->s->weights, q->p->weight->storage,
                           end < 2 * BLOCK_BYTES ? 0 : (end - 2 * BLOCK_BYTES) & ~(BLOCK_BYTES - 1),
                           end);
    }
    return status;
}

/* A weight whose bytes lie in memory as they are wanted, written from there. */
static exg_status put_mapped(saver *s, exg_writer *writer, const part *p, const uint8_t *data)
{
    for (uint64_t at = 0; at < p->item.bytes; at += BLOCK_BYTES) {
        uint64_t left = p->item.bytes - at;
        uint64_t bytes = left < BLOCK_BYTES ? left : BLOCK_BYTES;
        uint64_t first = (uint64_t)(data - s->weights->storages[p->weight->storage].data) + at;

        exg_storage_expect(s->weights, p->weight->storage, first, first + bytes);
        EXG_TRY(put(s, writer, data + at, bytes));
        report(s, bytes);
        exg_storage_forget(s->weights, p->weight->storage, first, first + bytes);
    }
    return EXG_OK;
}

static exg_status put_part(saver *s, exg_writer *writer, const part *p)
{
    passage q = {s, writer, p, exg_dtype_bytes(p->item.dtype)};
    exg_error *err = s->err;
    const uint8_t *data = NULL;
    exg_status status;

    if (p->weight == NULL) {
        return put(s, writer, p->item.data, p->item.bytes);
    }
    EXG_TRY(exg_storage_map(s->weights, p->weight->storage, &data, err));
    if (data != NULL && p->item.bytes > 0 && exg_tensor_meta_is_packed(p->weight->meta)) {
        EXG_TRY(exg_tensor_meta_check_view(p->weight->meta,
                                           s->weights->storages[p->weight->storage].length, err));
        return put_mapped(s, writer, p,
                          data + (uint64_t)p->weight->meta->storage_offset.value * q.width);
    }
    status = exg_pipeline_run(p->item.bytes > BLOCK_BYTES ? s->pool : NULL,
                              (p->item.bytes + BLOCK_BYTES - 1) / BLOCK_BYTES, gather_block,
                              put_block, &q, err);
    s->err = err;
    exg_storage_forget(s->weights, p->weight->storage, 0,
                       s->weights->storages[p->weight->storage].length);
    return status;
}

/* One file of the parts [first, end). */
static exg_status write_file(saver *s, exg_writer *writer, uint32_t first, uint32_t end)
{
    exg_text header = EXG_TEXT_EMPTY;
    uint8_t length[8];
    exg_status status = build_header(s, &header, first, end);

    for (int i = 0; i < 8; i++) {
        length[i] = (uint8_t)((uint64_t)header.length >> (8 * i));
    }
    if (status == EXG_OK) {
        status = put(s, writer, length, sizeof(length));
    }
    if (status == EXG_OK) {
        status = put(s, writer, header.data, header.length);
    }
    for (uint32_t i = first; i < end && status == EXG_OK; i++) {
        status = put_part(s, writer, &s->parts[i]);
    }
    exg_text_free(&header);
    return status;
}

static exg_status write_single(saver *s, const char *path)
{
    bool asks = s->options != NULL; /* a tensor file alone is no model */
    exg_writer *writer = NULL;
    exg_status status;

    if (asks && !s->options->force) {
        EXG_TRY(exg_model_beside(path, NULL, s->err));
    }
    EXG_TRY(exg_writer_open(path, &writer, s->err));
    status = write_file(s, writer, 0, s->count);
    if (status != EXG_OK) {
        exg_writer_abort(writer);
        return status;
    }
    EXG_TRY(exg_writer_commit(writer, s->err));
    return asks && s->options->force ? exg_model_remove_beside(path, NULL, s->err) : EXG_OK;
}

/* ---- a model in several files -------------------------------------------------------------- */

typedef struct shard {
    uint32_t first, end; /* parts */
    uint64_t hash;
    bool fresh;       /* was not there before */
    const char *name; /* inside the folder */
    const char *path;
} shard;

/* As many tensors as fit in each; one that is larger has a file of its own. */
static exg_status cut(saver *s, shard **shards, uint32_t *count)
{
    uint64_t bytes = 0;

    *shards = EXG_NEW_ARRAY(s->arena, shard, s->count + 1);
    *count = 0;
    if (*shards == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    for (uint32_t i = 0; i < s->count; i++) {
        uint64_t more = s->parts[i].item.bytes;

        if (*count == 0 || (bytes > 0 && more > s->options->split - bytes)) {
            (*shards)[(*count)++].first = i;
            bytes = 0;
        }
        (*shards)[*count - 1].end = i + 1;
        bytes = more > s->options->split - bytes ? s->options->split : bytes + more;
    }
    *count += *count == 0; /* no tensors: one empty file */
    if (*count > FILES_MAX) {
        return exg_error_fix(s->err,
                             EXG_FAIL(s->err, LIMIT, "STF-SPLIT", "%u files are too many", *count),
                             "split by a larger size");
    }
    return EXG_OK;
}

/* "<stem>-<hash>-00001-of-00003.safetensors" beside the index. */
static exg_status name_shard(saver *s, const char *path, shard *made, uint32_t i, uint32_t count)
{
    int folder = (int)(exg_path_name(path) - path);
    char stem[EXG_STEM_MAX + 1];

    exg_path_stem(path, stem);
    made->path = exg_arena_printf(s->arena, "%.*s%s-%016llx-%05u-of-%05u.safetensors", folder, path,
                                  stem, (unsigned long long)made->hash, i + 1, count);
    if (made->path == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    made->name = made->path + folder;
    return EXG_OK;
}

static exg_status write_index(saver *s, exg_writer *writer, const shard *shards, uint32_t count)
{
    exg_text text = EXG_TEXT_EMPTY;
    const char *comma = "";
    exg_status status;

    exg_text_printf(&text, "{\"metadata\":{\"total_size\":%" PRIu64, s->total);
    put_pairs(&text, s, ",");
    exg_text_puts(&text, "},\"weight_map\":{");
    comma = "";
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t p = shards[i].first; p < shards[i].end; p++) {
            exg_text_puts(&text, comma);
            exg_text_json_string(&text, s->parts[p].item.name);
            exg_text_putc(&text, ':');
            exg_text_json_string(&text, shards[i].name);
            comma = ",\n";
        }
    }
    exg_text_puts(&text, "}}\n");
    status = exg_text_string(&text) == NULL
                 ? EXG_OUT_OF_MEMORY(s->err)
                 : exg_writer_write(writer, text.data, text.length, s->err);
    exg_text_free(&text);
    return status;
}

/* The bytes decide the name, so a file of that name is this one already. */
static exg_status write_shard(saver *s, const char *path, shard *shards, uint32_t count, uint32_t i)
{
    exg_writer *writer = NULL;
    exg_status status;

    EXG_TRY(exg_writer_open(path, &writer, s->err));
    XXH3_128bits_reset(s->hash);
    status = write_file(s, writer, shards[i].first, shards[i].end);
    if (status == EXG_OK) {
        shards[i].hash = XXH3_128bits_digest(s->hash).low64;
        status = name_shard(s, path, &shards[i], i, count);
    }
    if (status == EXG_OK) {
        status = exg_writer_name(writer, shards[i].path, s->err);
    }
    if (status != EXG_OK) {
        exg_writer_abort(writer);
        return status;
    }
    shards[i].fresh = access(shards[i].path, F_OK) != 0;
    status = exg_writer_commit(writer, s->err);
    shards[i].fresh = shards[i].fresh && status == EXG_OK;
    return status;
}

static exg_status commit_index(saver *s, const char *path, const shard *shards, uint32_t count)
{
    exg_writer *writer = NULL;
    exg_status status;

    EXG_TRY(exg_writer_open(path, &writer, s->err));
    status = write_index(s, writer, shards, count);
    if (status == EXG_OK) {
        return exg_writer_commit(writer, s->err);
    }
    exg_writer_abort(writer);
    return status;
}

static exg_status write_shards(saver *s, const char *path, shard *shards, uint32_t count)
{
    const char *index_path = exg_arena_printf(s->arena, "%s.index.json", path);
    exg_status status = EXG_OK;
    exg_map names; /* of the files of this model */

    exg_map_init(&names, s->arena);
    s->hash = XXH3_createState();
    if (s->hash == NULL || index_path == NULL ||
        !exg_map_put(&names, exg_path_name(index_path), 0)) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    for (uint32_t i = 0; i < count && status == EXG_OK; i++) {
        status = write_shard(s, path, shards, count, i);
        if (status == EXG_OK && !exg_map_put(&names, shards[i].name, i)) {
            status = EXG_OUT_OF_MEMORY(s->err);
        }
    }
    if (status == EXG_OK && !s->options->force) {
        status = exg_model_beside(path, &names, s->err);
    }
    status = status == EXG_OK ? commit_index(s, index_path, shards, count) : status;
    for (uint32_t i = 0; i < count && status != EXG_OK; i++) {
        if (shards[i].fresh) {
            unlink(shards[i].path);
        }
    }
    EXG_TRY(status);
    return s->options->force ? exg_model_remove_beside(path, &names, s->err) : EXG_OK;
}

/* ---- saving -------------------------------------------------------------------------------- */

static exg_status save(saver *s, const char *path)
{
    shard *shards;
    uint32_t count;

    EXG_TRY(check_names(s));
    EXG_TRY(keep_pairs(s));
    if (s->options != NULL && s->options->split > 0) {
        EXG_TRY(cut(s, &shards, &count));
        if (count > 1) {
            return write_shards(s, path, shards, count);
        }
    }
    return write_single(s, path);
}

exg_status exg_safetensors_save(const char *path, const exg_named_tensor *items, uint32_t count,
                                const exg_string_map *metadata, exg_error *err)
{
    saver s = {.count = count, .metadata = metadata, .err = err};
    exg_status status = EXG_OK;

    s.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    s.parts = s.arena == NULL ? NULL : EXG_NEW_ARRAY(s.arena, part, count);
    if (s.parts == NULL) {
        status = EXG_OUT_OF_MEMORY(err);
    } else {
        for (uint32_t i = 0; i < count; i++) {
            s.parts[i].item = items[i];
        }
        status = save(&s, path);
    }
    exg_arena_destroy(s.arena);
    return status;
}

static exg_status collect_weight(saver *s, const exg_weight *weight)
{
    const exg_tensor_meta *meta = weight->meta;
    int64_t *shape = EXG_NEW_ARRAY(s->arena, int64_t, meta->rank);
    part *p = &s->parts[s->count++];

    if (shape == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    *p = (part){
        .item = {.name = weight->fqn, .dtype = meta->dtype, .rank = meta->rank, .shape = shape},
        .weight = weight};
    EXG_TRY(exg_tensor_meta_bytes(meta, &p->item.bytes, s->err));
    for (uint32_t d = 0; d < meta->rank; d++) {
        shape[d] = meta->sizes[d].value;
    }
    if (weight->encoding != NULL) {
        exg_string_pair *pair = &s->encodings.items[s->encodings.count++];

        pair->key = exg_arena_printf(s->arena, "encoding:%s", weight->fqn);
        pair->value = weight->encoding;
        if (pair->key == NULL) {
            return EXG_OUT_OF_MEMORY(s->err);
        }
    }
    return exg_add_u64(s->total, p->item.bytes, &s->total)
               ? EXG_OK
               : EXG_FAIL(s->err, LIMIT, "STF-SIZE", "the data passes 64 bits");
}

/* Wider elements first, so that every tensor lies as its elements want it. */
static int by_width(const void *a, const void *b)
{
    const part *x = a;
    const part *y = b;
    uint32_t wide = exg_dtype_bytes(x->item.dtype);
    uint32_t other = exg_dtype_bytes(y->item.dtype);

    return wide != other ? (wide < other) - (wide > other)
                         : (x->weight > y->weight) - (x->weight < y->weight);
}

static exg_status collect(saver *s)
{
    const exg_weights *weights = s->weights;

    s->parts = EXG_NEW_ARRAY(s->arena, part, weights->count);
    s->encodings.items = EXG_NEW_ARRAY(s->arena, exg_string_pair, weights->count);
    s->slots = EXG_NEW_ARRAY(s->arena, uint8_t *, exg_pipeline_slots(s->pool));
    if (s->parts == NULL || s->encodings.items == NULL || s->slots == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    for (uint32_t i = 0; i < exg_pipeline_slots(s->pool); i++) {
        s->slots[i] = malloc(BLOCK_BYTES);
        if (s->slots[i] == NULL) {
            return EXG_OUT_OF_MEMORY(s->err);
        }
    }
    for (uint32_t i = 0; i < weights->count; i++) {
        if (weights->items[i].meta != NULL && !weights->items[i].use_pickle) {
            EXG_TRY_IN(s->err, collect_weight(s, &weights->items[i]), "['%s']",
                       weights->items[i].fqn);
        }
    }
    qsort(s->parts, s->count, sizeof(part), by_width);
    return EXG_OK;
}

/* safetensors has no checksums: those of the source are compared while it has them. */
static exg_status check_sources(saver *s)
{
    exg_check_options options = {.size = sizeof(options), .threads = s->options->threads};

    return exg_weights_check(s->weights, &options, s->err);
}

/* Views may repeat elements: a few bytes then ask for a disk full. */
static exg_status check_size(const saver *s, const char *path)
{
    char *directory = exg_path_directory(path);
    uint64_t stored = 0;
    struct statvfs disk;
    bool known;

    if (directory == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    known = statvfs(directory[0] == '\0' ? "." : directory, &disk) == 0;
    free(directory);
    for (uint32_t i = 0; i < s->weights->storage_count; i++) {
        stored = exg_add_u64(stored, s->weights->storages[i].length, &stored) ? stored : UINT64_MAX;
    }
    if (!s->options->expands && s->total > REPEATED_LEAST && s->total / REPEATED_MOST > stored) {
        return exg_error_fix(s->err,
                             EXG_FAIL(s->err, LIMIT, "STF-EXPAND",
                                      "%" PRIu64 " bytes would be written of tensors that repeat "
                                      "what %" PRIu64 " bytes hold",
                                      s->total, stored),
                             "--expand, exg_weights_save_options.expands");
    }
    if (known && s->total / disk.f_frsize > disk.f_bavail) {
        return EXG_FAIL(s->err, IO, "IO-ROOM",
                        "%" PRIu64 " bytes are to be written to %s, where there are %" PRIu64,
                        s->total, path, (uint64_t)disk.f_bavail * disk.f_frsize);
    }
    return EXG_OK;
}

exg_status exg_weights_save(exg_weights *weights, const char *path,
                            const exg_weights_save_options *given, exg_error *err)
{
    EXG_GIVEN(err, weights, path);
    exg_weights_save_options options = {0};
    saver s = {.weights = weights, .options = &options, .metadata = &weights->metadata, .err = err};
    exg_status status;

    EXG_TRY(EXG_READ_OPTIONS(exg_weights_save_options, &options, given, err));
    s.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    status =
        s.arena == NULL ? EXG_OUT_OF_MEMORY(err) : exg_pool_create(options.threads, &s.pool, err);
    if (status == EXG_OK) {
        status = collect(&s);
    }
    if (status == EXG_OK) {
        status = check_size(&s, path);
    }
    if (status == EXG_OK) {
        status = check_sources(&s);
    }
    if (status == EXG_OK) {
        status = save(&s, path);
    }
    for (uint32_t i = 0; s.slots != NULL && i < exg_pipeline_slots(s.pool); i++) {
        free(s.slots[i]);
    }
    XXH3_freeState(s.hash);
    exg_pool_destroy(s.pool);
    exg_arena_destroy(s.arena);
    return status;
}
