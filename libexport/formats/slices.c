/* slices.c - files of every rank, found by their names in one folder.
 *
 * The size of a tensor is said nowhere: it is where its farthest slice ends. So what the last ranks
 * saved of it is not missed when their files are; what lies between is.
 */
#include "libexport/formats/slices.h"

#include "libexport/base/arena.h"
#include "libexport/base/map.h"
#include "libexport/formats/json.h"
#include "libexport/formats/model_folder.h"
#include "libexport/formats/pt2/chunks.h"
#include "libexport/formats/weights_file.h"
#include "libexport/weights/storage.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define RANK_MAX    64
#define FIRST_DIGIT 6 /* of the number in "shard-00001-model-..." */

/* A slice of one file: where it begins, and as a weight whose storage is among those of all. */
typedef struct slice {
    exg_weight weight;
    int64_t from[RANK_MAX];
    struct slice *next; /* of the same tensor */
} slice;

typedef struct sliced {
    slice *first, *last;
    uint32_t count;
} sliced;

typedef struct reader {
    const char *folder;
    exg_weights *weights; /* of all */
    exg_arena *arena;     /* scratch */
    exg_map names;        /* of tensors -> place in `tensors` */
    sliced *tensors;      /* in the order they come */
    uint32_t tensor_count, tensor_capacity;
    char **files; /* in order */
    uint32_t file_count, file_capacity;
    exg_error *err;
} reader;

/* ---- where a slice begins ---------------------------------------------------------------------
 */

exg_status exg_slices_begin(exg_json tensor, uint32_t rank, int64_t *from, exg_error *err)
{
    exg_json_walk walk = {0};
    exg_json list;
    exg_json offset;
    uint32_t count = 0;

    if (!exg_json_find(tensor, "saved_offsets", &list)) {
        return exg_json_fault(tensor, err, EXG_MALFORMED, "STF-SLICE", "has no saved_offsets");
    }
    EXG_TRY(exg_json_array(list, &walk, err));
    while (exg_json_next(&walk, &offset)) {
        int64_t at = 0;

        EXG_TRY(exg_json_int(offset, &at, err));
        if (count == rank || at < 0) {
            break;
        }
        from[count++] = at;
    }
    return count == rank && exg_json_count(list) == rank
               ? EXG_OK
               : exg_json_fault(list, err, EXG_MALFORMED, "STF-SLICE",
                                "%u offsets from 0 on are wanted", rank);
}

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

/* "model-00001-of-00002.safetensors" is what one process writes of whole tensors. */
static bool is_of_one_process(const char *path)
{
    return path != NULL && strncmp(exg_path_name(path), "model-", 6) == 0;
}

const char *exg_slices_told(const exg_weights *weights)
{
    for (uint32_t i = 0; i < weights->metadata.count; i++) {
        if (strcmp(weights->metadata.items[i].key, "DCP_SHARDING_INFO") == 0) {
            return weights->metadata.items[i].value;
        }
    }
    return NULL;
}

exg_status exg_slices_check(const char *text, const char *path, exg_error *err)
{
    exg_json_doc *doc = NULL;
    const char *name = NULL;
    int64_t from = 0;
    exg_status status;

    EXG_TRY_IN(err, exg_json_parse(text, strlen(text), 0, EXG_JSON_KEYS_NOW, &doc, err),
               "DCP_SHARDING_INFO");
    status = find_slice(exg_json_root(doc), &name, &from, err);
    if (status == EXG_OK && (name != NULL || !is_of_one_process(path))) {
        status = name == NULL
                     ? EXG_FAIL(err, UNSUPPORTED, "STF-SLICE",
                                "the tensors are slices that one rank saved of a distributed "
                                "checkpoint")
                     : EXG_FAIL(err, UNSUPPORTED, "STF-SLICE",
                                "'%s' is a slice of a tensor, from %lld on: other ranks saved the "
                                "others",
                                name, (long long)from);
        (void)exg_error_fix(err, status,
                            "put the files of all ranks in one folder, called as PyTorch calls "
                            "them: shard-00001-model-00001-of-00001.safetensors");
    }
    exg_json_free(doc);
    return status;
}

/* ---- one file ---------------------------------------------------------------------------------
 */

static exg_status add_slice(reader *r, const exg_weight *weight, const int64_t *from)
{
    slice *made = EXG_NEW(r->arena, slice);
    uint32_t at = exg_map_find(&r->names, weight->fqn);
    sliced *t;

    if (made == NULL) {
        return EXG_OUT_OF_MEMORY(r->err);
    }
    made->weight = *weight;
    memcpy(made->from, from, weight->meta->rank * sizeof(*from));
    if (at == EXG_MAP_NONE) {
        at = r->tensor_count;
        if (!exg_arena_reserve(r->arena, &r->tensors, at, &r->tensor_capacity, sizeof(*t)) ||
            !exg_map_put(&r->names, weight->fqn, at)) {
            return EXG_OUT_OF_MEMORY(r->err);
        }
        r->tensors[r->tensor_count++] = (sliced){.first = made, .last = made, .count = 1};
        return EXG_OK;
    }
    t = &r->tensors[at];
    t->last->next = made;
    t->last = made;
    t->count++;
    return EXG_OK;
}

static bool is_same_kind(const exg_weight *a, const exg_weight *b)
{
    const char *x = a->encoding == NULL ? "" : a->encoding;
    const char *y = b->encoding == NULL ? "" : b->encoding;

    return a->meta->dtype == b->meta->dtype && a->meta->rank == b->meta->rank && strcmp(x, y) == 0;
}

/* A weight of one file goes to those of all: its description is copied, its bytes stay. */
static exg_status take_weight(reader *r, exg_weights *of, uint32_t index, exg_json sharding)
{
    exg_weight weight = of->items[index];
    int64_t from[RANK_MAX] = {0};
    exg_json where;

    if (weight.meta->rank > RANK_MAX || weight.encoding != NULL) {
        return exg_weights_skip(r->weights, weight.fqn, "a slice of packed elements", r->err);
    }
    if (!exg_json_find(sharding, weight.fqn, &where)) {
        return EXG_FAIL(r->err, MALFORMED, "STF-SLICE",
                        "DCP_SHARDING_INFO does not say where '%s' begins", weight.fqn);
    }
    EXG_TRY_IN(r->err, exg_slices_begin(where, weight.meta->rank, from, r->err),
               "DCP_SHARDING_INFO['%s']", weight.fqn);
    weight.fqn = exg_arena_strdup(r->weights->arena, weight.fqn);
    weight.meta = exg_tensor_meta_copy(r->weights->arena, weight.meta);
    if (weight.fqn == NULL || weight.meta == NULL) {
        return EXG_OUT_OF_MEMORY(r->err);
    }
    EXG_TRY(exg_weights_add_storage(r->weights, &of->storages[weight.storage], &weight.storage,
                                    r->err));
    return add_slice(r, &weight, from);
}

/* Metadata of every file, but for what is of one. */
static exg_status take_metadata(reader *r, const exg_weights *of)
{
    for (uint32_t i = 0; i < of->metadata.count; i++) {
        const exg_string_pair *pair = &of->metadata.items[i];

        if (strncmp(pair->key, "DCP_", 4) != 0) {
            EXG_TRY(exg_weights_add_metadata(r->weights, pair->key, pair->value, r->err));
        }
    }
    for (uint32_t i = 0; i < of->skipped_count; i++) {
        EXG_TRY(exg_weights_skip(r->weights, of->skipped[i].name, of->skipped[i].kind, r->err));
    }
    return EXG_OK;
}

static exg_status take_file(reader *r, exg_weights *of)
{
    const char *text = exg_slices_told(of);
    exg_json_doc *doc = NULL;
    exg_status status = EXG_OK;

    if (text == NULL) {
        return EXG_FAIL(r->err, MALFORMED, "STF-SLICE",
                        "the file does not say where its slices lie: no DCP_SHARDING_INFO");
    }
    EXG_TRY(exg_json_parse(text, strlen(text), 0, EXG_JSON_KEYS_NOW, &doc, r->err));
    for (uint32_t i = 0; i < of->count && status == EXG_OK; i++) {
        status = take_weight(r, of, i, exg_json_root(doc));
    }
    exg_json_free(doc);
    return status == EXG_OK ? take_metadata(r, of) : status;
}

static exg_status read_file(reader *r, const char *name)
{
    exg_opened opened;
    exg_weights *own = NULL;
    exg_status status =
        exg_source_open_below(r->folder, name, exg_weights_reading(r->weights), &opened, r->err);

    opened.source.path = NULL; /* of this file alone */
    if (status == EXG_OK && !exg_safetensors_sniff(opened.source.data, opened.source.length)) {
        status = EXG_FAIL(r->err, MALFORMED, "STF-SHARD", "this is no safetensors file");
    }
    if (status == EXG_OK) {
        status = exg_weights_create(NULL, &own, r->err);
    }
    if (status == EXG_OK) {
        status = exg_safetensors_read_alone(&opened.source, own, r->err);
    }
    if (status == EXG_OK) {
        status = take_file(r, own);
    }
    if (status == EXG_OK) {
        status = exg_opened_give(&opened, r->weights, r->err);
    }
    exg_weights_release(own);
    exg_opened_release(&opened); /* when it was not given away */
    return status;
}

/* ---- the folder -------------------------------------------------------------------------------
 */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static exg_status find_files(reader *r)
{
    DIR *folder = opendir(r->folder[0] == '\0' ? "." : r->folder);
    const struct dirent *file;
    exg_status status = EXG_OK;

    if (folder == NULL) {
        return EXG_FAIL(r->err, IO, "IO-OPEN", "cannot open folder %s: %s", r->folder,
                        strerror(errno));
    }
    while (status == EXG_OK && (file = readdir(folder)) != NULL) {
        if (!exg_model_is_slice(file->d_name)) {
            continue;
        }
        if (!exg_arena_reserve(r->arena, &r->files, r->file_count, &r->file_capacity,
                               sizeof(*r->files)) ||
            (r->files[r->file_count] = exg_arena_strdup(r->arena, file->d_name)) == NULL) {
            status = EXG_OUT_OF_MEMORY(r->err);
        } else {
            r->file_count++;
        }
    }
    closedir(folder);
    if (r->file_count > 0) {
        qsort(r->files, r->file_count, sizeof(*r->files), by_name);
    }
    return status;
}

/* Ranks are numbered from 1 on. One that has nothing of its own writes no file, so that a gap may
 * be right; but it is told. */
static exg_status tell_gaps(reader *r)
{
    long expected = 1;

    for (uint32_t i = 0; i < r->file_count; i++) {
        long number = strtol(r->files[i] + FIRST_DIGIT, NULL, 10);

        for (; expected < number; expected++) {
            const char *name = exg_arena_printf(r->arena, "shard-%05ld", expected);

            EXG_TRY(name == NULL ? EXG_OUT_OF_MEMORY(r->err)
                                 : exg_weights_skip(r->weights, name,
                                                    "a rank of which no file is there", r->err));
        }
        expected = number + 1;
    }
    return EXG_OK;
}

/* ---- put together -----------------------------------------------------------------------------
 */

static exg_status add_tensor(reader *r, const sliced *t)
{
    exg_tensor_meta meta = *t->first->weight.meta;
    exg_sym_int sizes[RANK_MAX];
    exg_chunk_tensor *made;
    uint32_t at = 0;

    EXG_TRY(exg_chunk_tensor_create(r->weights, meta.rank, t->count, &made, r->err));
    for (const slice *s = t->first; s != NULL; s = s->next, at++) {
        exg_chunk_part *part = &made->parts[at];

        if (!is_same_kind(&t->first->weight, &s->weight)) {
            return EXG_FAIL(r->err, MALFORMED, "STF-SLICE",
                            "its slices are of more than one dtype or rank");
        }
        part->weight = s->weight;
        for (uint32_t d = 0; d < meta.rank; d++) {
            int64_t size = s->weight.meta->sizes[d].value;

            part->offsets[d] = s->from[d];
            part->sizes[d] = size;
            if (s->from[d] > INT64_MAX - size) {
                return EXG_FAIL(r->err, MALFORMED, "STF-SLICE", "a slice ends past 63 bits");
            }
            made->sizes[d] =
                s->from[d] + size > made->sizes[d] ? s->from[d] + size : made->sizes[d];
        }
    }
    for (uint32_t d = 0; d < meta.rank; d++) {
        sizes[d] = exg_sym_int_of(made->sizes[d]);
    }
    meta.sizes = sizes;
    return exg_chunk_tensor_add(made, t->first->weight.fqn, &meta, r->err);
}

static exg_status read_all(reader *r)
{
    EXG_TRY(find_files(r));
    if (r->file_count == 1) { /* nothing in it says whether it is all */
        return exg_error_fix(
            r->err,
            EXG_FAIL(r->err, UNSUPPORTED, "STF-SLICE",
                     "this is what one rank saved of a distributed checkpoint, "
                     "and of the others no file is there"),
            "put the files of all ranks in one folder; if there was one rank, call "
            "its file model-00001-of-00001.safetensors");
    }
    EXG_TRY(tell_gaps(r));
    for (uint32_t i = 0; i < r->file_count; i++) {
        exg_status status = read_file(r, r->files[i]);

        if (status != EXG_OK) {
            return exg_error_within(r->err, status, "%s:", r->files[i]);
        }
    }
    for (uint32_t i = 0; i < r->tensor_count; i++) {
        EXG_TRY_IN(r->err, add_tensor(r, &r->tensors[i]), "['%s']",
                   r->tensors[i].first->weight.fqn);
    }
    return EXG_OK;
}

exg_status exg_slices_read(const exg_source *source, exg_weights *weights, exg_error *err)
{
    reader r = {.weights = weights, .err = err};
    char *folder = exg_path_directory(source->path);
    exg_status status = EXG_OK;

    if (source->window != NULL) {
        free(folder);
        return exg_error_fix(err,
                             EXG_FAIL(err, UNSUPPORTED, "STF-SLICE",
                                      "the files of other ranks cannot be listed on a server"),
                             "fetch the files of all ranks");
    }
    r.folder = folder;
    r.arena = exg_arena_create(source->allocator, EXG_ARENA_UNBOUNDED);
    exg_map_init(&r.names, r.arena);
    status = folder == NULL || r.arena == NULL ? EXG_OUT_OF_MEMORY(err) : read_all(&r);
    exg_arena_destroy(r.arena);
    free(folder);
    return status;
}
