/* zero_universal.c - what ds_to_universal makes: a folder a parameter. Those of stage 3 lie flat,
 * and the model says their shapes. Of other tensors of the model there are copies in float32, which
 * are not read where the model's own are there. */
#include "libexport/formats/pt2/zero_universal.h"

#include "libexport/base/files.h"
#include "libexport/base/map.h"
#include "libexport/formats/pt2/saved.h"
#include "libexport/weights/storage.h"

#include <dirent.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define RANK_MAX 64

typedef struct names {
    const char **items; /* in order */
    uint32_t count, capacity;
    uint64_t bytes; /* of all their files */
} names;

typedef struct reader {
    const char *folder;
    exg_weights *weights;
    exg_arena *arena;
    exg_map listed;                /* names that are listed */
    const exg_pickle_value *model; /* what its first file says; NULL: there is none */
    uint64_t inflate_left;
    exg_error *err;
} reader;

/* ---- the folder ------------------------------------------------------------------------------
 */

static int compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool add_name(names *found, const char *folder, const char *name, const char *file,
                     exg_arena *arena)
{
    const char *path = exg_arena_printf(arena, "%s%s%s", folder, name, file);
    const char *copy = exg_arena_strdup(arena, name);
    struct stat st;

    if (path == NULL || copy == NULL ||
        !exg_arena_reserve(arena, &found->items, found->count, &found->capacity,
                           sizeof(*found->items))) {
        return false;
    }
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode)) {
        found->items[found->count++] = copy;
        found->bytes += (uint64_t)st.st_size;
    }
    return true;
}

/* The entries of a folder that fit the pattern and are, or have in them, a file; false: no memory.
 */
static bool list(const char *folder, const char *pattern, const char *file, exg_arena *arena,
                 names *found)
{
    DIR *directory = opendir(folder);
    const struct dirent *entry;
    bool good = true;

    *found = (names){0};
    while (directory != NULL && good && (entry = readdir(directory)) != NULL) {
        if (fnmatch(pattern, entry->d_name, FNM_PERIOD) == 0) {
            good = add_name(found, folder, entry->d_name, file, arena);
        }
    }
    if (directory != NULL) {
        closedir(directory);
    }
    if (good && found->count > 0) {
        qsort(found->items, found->count, sizeof(*found->items), compare);
    }
    return good;
}

const char *exg_zero_tag(const char *folder, const char *name, exg_arena *arena)
{
    const char *path = exg_arena_printf(arena, "%s/%s", folder, name);
    FILE *file = path == NULL ? NULL : fopen(path, "rb");
    char tag[256] = "";
    size_t length;

    if (file == NULL) {
        return "";
    }
    length = fread(tag, 1, sizeof(tag) - 1, file);
    fclose(file);
    while (length > 0 &&
           (tag[length - 1] == '\n' || tag[length - 1] == '\r' || tag[length - 1] == ' ')) {
        length--;
    }
    tag[length] = '\0';
    return exg_location_is_plain(tag) ? exg_arena_strdup(arena, tag) : "";
}

/* Names of parameters hold dots and are no paths. */
static bool list_parameters(const char *folder, exg_arena *arena, names *found)
{
    const char *zero = exg_arena_printf(arena, "%szero/", folder);

    return zero != NULL && list(zero, "*", "/fp32.pt", arena, found) && found->count > 0;
}

const char *exg_universal_find(const char *folder, exg_arena *arena, uint64_t *bytes)
{
    const char *path = exg_arena_printf(arena, "%s/", folder);
    const char *latest;
    names found = {0};

    if (path == NULL || list_parameters(path, arena, &found)) {
        *bytes = found.bytes;
        return path;
    }
    latest = exg_zero_tag(folder, "latest_universal", arena);
    if (latest == NULL || latest[0] == '\0') {
        return NULL;
    }
    path = exg_arena_printf(arena, "%s/%s/", folder, latest);
    if (path == NULL || !list_parameters(path, arena, &found)) {
        return NULL;
    }
    *bytes = found.bytes;
    return path;
}

/* ---- files -----------------------------------------------------------------------------------
 */

static exg_status open_file(reader *r, const char *name, exg_saved *saved)
{
    const uint8_t *data;
    uint64_t length;

    EXG_TRY(exg_weights_map_below(r->weights, r->folder, name, &data, &length, r->err));
    EXG_TRY(exg_saved_open(data, length, 0, false, r->arena, &r->inflate_left, r->weights, saved,
                           r->err));
    return exg_pickle_list_names(&saved->pickle, name, &r->listed, r->weights, r->err);
}

/* The shape that the model says of a parameter of stage 3; NULL: none. */
static const exg_pickle_items *find_shape(const reader *r, const char *name)
{
    const exg_pickle_value *shapes = exg_pickle_get(r->model, "param_shapes");
    const exg_pickle_value *shape = NULL;

    for (uint32_t g = 0; shapes != NULL && shapes->kind == EXG_PICKLE_LIST && shape == NULL &&
                         g < shapes->as_items.count;
         g++) {
        shape = exg_pickle_get(shapes->as_items.items[g], name);
    }
    return shape != NULL && shape->kind == EXG_PICKLE_TUPLE ? &shape->as_items : NULL;
}

/* As many elements, in that shape. */
static exg_status take_shape(reader *r, const exg_pickle_items *shape, exg_tensor_meta *meta)
{
    exg_tensor_meta made = *meta;
    uint64_t bytes = 0;
    uint64_t own = 0;

    made.rank = shape->count;
    made.sizes = EXG_NEW_ARRAY(r->arena, exg_sym_int, made.rank);
    made.strides = EXG_NEW_ARRAY(r->arena, exg_sym_int, made.rank);
    if (made.sizes == NULL || made.strides == NULL) {
        return exg_arena_fault(r->arena, r->err);
    }
    for (uint32_t d = 0; d < made.rank; d++) {
        const exg_pickle_value *size = shape->items[d];

        made.sizes[d] = exg_sym_int_of(size->kind == EXG_PICKLE_INT ? size->as_int : -1);
        if (made.sizes[d].value < 0 || made.rank > RANK_MAX) {
            return EXG_FAIL(r->err, MALFORMED, "ZERO-STATE", "the model says no shape of it");
        }
    }
    exg_tensor_meta_pack(&made);
    EXG_TRY(exg_tensor_meta_bytes(meta, &own, r->err));
    EXG_TRY(exg_tensor_meta_bytes(&made, &bytes, r->err));
    if (bytes != own || !exg_tensor_meta_is_packed(meta)) {
        return EXG_FAIL(r->err, MALFORMED, "ZERO-STATE",
                        "it has another number of elements than the model says");
    }
    made.storage_offset = meta->storage_offset;
    *meta = made;
    return EXG_OK;
}

static exg_status add_parameter(reader *r, const char *name)
{
    const char *file = exg_arena_printf(r->arena, "zero/%s/fp32.pt", name);
    exg_weight weight = {.fqn = name};
    const exg_pickle_items *shape;
    const exg_pickle_value *value;
    exg_saved saved;

    if (file == NULL) {
        return exg_arena_fault(r->arena, r->err);
    }
    EXG_TRY(open_file(r, file, &saved));
    value = saved.object;
    shape = value != NULL && value->kind == EXG_PICKLE_TENSOR ? find_shape(r, name) : NULL;
    if (value != NULL && value->kind == EXG_PICKLE_DICT) {
        value = exg_pickle_get(value, "param");
    }
    if (value == NULL || value->kind != EXG_PICKLE_TENSOR) {
        return EXG_FAIL(r->err, MALFORMED, "ZERO-STATE", "the file holds no parameter");
    }
    EXG_TRY(
        exg_saved_meta(&saved, value->as_tensor, r->arena, &weight.meta, &weight.storage, r->err));
    if (shape != NULL) {
        EXG_TRY(take_shape(r, shape, weight.meta));
    }
    return exg_weights_add(r->weights, &weight, r->err);
}

/* Does the model have it by itself, or as another name of a parameter? */
static bool is_of_model(const reader *r, const char *name)
{
    const exg_pickle_value *of = exg_pickle_get(exg_pickle_get(r->model, "shared_params"), name);

    return exg_weights_find(r->weights, EXG_TABLE_STATE, name) != NULL || of != NULL;
}

static exg_status read_all(reader *r, const names *parameters)
{
    for (uint32_t i = 0; i < parameters->count; i++) {
        if (!is_of_model(r, parameters->items[i])) {
            EXG_TRY_IN(r->err, add_parameter(r, parameters->items[i]),
                       "zero/%s/fp32.pt:", parameters->items[i]);
        }
    }
    return exg_weights_skip(r->weights, "(optimizer)",
                            "the moments of the optimizer, and the model's copy of less precision",
                            r->err);
}

exg_status exg_universal_read(const char *folder, const exg_pickle_value *model, uint64_t budget,
                              exg_weights *weights, exg_error *err)
{
    const exg_allocator *allocator = exg_arena_allocator(weights->arena);
    exg_arena *found = exg_arena_create(allocator, EXG_ARENA_UNBOUNDED); /* names in the folder */
    reader r = {.folder = folder, .weights = weights, .model = model, .err = err};
    names parameters;
    exg_status status;

    if (found == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (!list_parameters(folder, found, &parameters)) {
        exg_arena_destroy(found);
        return EXG_OUT_OF_MEMORY(err);
    }
    r.inflate_left = budget;
    r.arena = exg_arena_create(allocator, budget);
    status = r.arena == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
    if (status == EXG_OK) {
        exg_map_init(&r.listed, r.arena);
        status = exg_arena_settle(r.arena, read_all(&r, &parameters), err);
    }
    exg_arena_destroy(r.arena);
    exg_arena_destroy(found);
    return status;
}
