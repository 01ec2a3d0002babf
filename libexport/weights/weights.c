/* weights.c - the tables, the reference count, and reading storages. */
#include "libexport/base/require.h"
#include <exg/text.h>
#include <exg/weights.h>

#include "libexport/base/arena.h"
#include "libexport/base/checked.h"
#include "libexport/base/files.h"
#include "libexport/base/map.h"
#include "libexport/weights/block.h"
#include "libexport/weights/checksum.h"
#include "libexport/weights/frames.h"
#include "libexport/weights/storage.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct owned {
    struct owned *next;
    void (*release)(void *user);
    void *user;
} owned;

typedef struct mapped {
    struct mapped *next;
    exg_mapping mapping;
} mapped;

typedef struct retained {
    struct retained *next;
    exg_weights *weights;
} retained;

struct exg_weights_private {
    atomic_uint references;
    pthread_mutex_t lock; /* over `owned` and the mapping of external storages */
    owned *owned;         /* newest first */
    const char *directory;
    uint32_t metadata_capacity, kind_capacity;
    const char **kinds;     /* a pair of the metadata each; NULL: a plain text */
    exg_map metadata_names; /* key -> place in the metadata */
    exg_map repeats;        /* key -> the number that the last of this name got */
    exg_map names[2];       /* by table: of weights, the first of a name */
    mapped *mapped;         /* files among `owned` */
    retained *held;         /* weights among them, in whose files storages may lie */
    uint8_t *checks;        /* a storage each: what is known of its checksum */
    uint32_t check_capacity;
    pthread_cond_t checked; /* one of them became known */
    bool trusts;            /* bytes are taken as they are */
    exg_reading reading;    /* of files beside */
    bool strict;            /* nothing may be skipped */
};

/* Of the checksum of a storage. */
enum { CHECK_DUE, CHECK_RUNS, CHECK_HELD };

/* ---- life --------------------------------------------------------------------- */

exg_status exg_weights_create(const exg_allocator *allocator, exg_weights **weights, exg_error *err)
{
    EXG_REQUIRE(err, weights);
    exg_arena *arena = exg_arena_create(allocator, EXG_ARENA_UNBOUNDED);
    exg_weights *w = arena == NULL ? NULL : EXG_NEW(arena, exg_weights);

    *weights = NULL;
    if (w != NULL) {
        w->arena = arena;
        w->private_ = EXG_NEW(arena, struct exg_weights_private);
    }
    if (w == NULL || w->private_ == NULL || pthread_mutex_init(&w->private_->lock, NULL) != 0) {
        exg_arena_destroy(arena);
        return EXG_OUT_OF_MEMORY(err);
    }
    if (pthread_cond_init(&w->private_->checked, NULL) != 0) {
        pthread_mutex_destroy(&w->private_->lock);
        exg_arena_destroy(arena);
        return EXG_OUT_OF_MEMORY(err);
    }
    w->private_->directory = "";
    exg_map_init(&w->private_->metadata_names, arena);
    exg_map_init(&w->private_->repeats, arena);
    exg_map_init(&w->private_->names[EXG_TABLE_STATE], arena);
    exg_map_init(&w->private_->names[EXG_TABLE_CONSTANTS], arena);
    atomic_init(&w->private_->references, 1);
    *weights = w;
    return EXG_OK;
}

exg_weights *exg_weights_retain(exg_weights *weights)
{
    atomic_fetch_add_explicit(&weights->private_->references, 1, memory_order_relaxed);
    return weights;
}

void exg_weights_release(exg_weights *weights)
{
    if (weights == NULL ||
        atomic_fetch_sub_explicit(&weights->private_->references, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (owned *o = weights->private_->owned; o != NULL; o = o->next) {
        o->release(o->user);
    }
    pthread_cond_destroy(&weights->private_->checked);
    pthread_mutex_destroy(&weights->private_->lock);
    exg_arena_destroy(weights->arena);
}

exg_status exg_weights_own(exg_weights *weights, void (*release)(void *user), void *user,
                           exg_error *err)
{
    EXG_REQUIRE(err, weights);
    owned *o = EXG_NEW(weights->arena, owned);

    if (o == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    *o = (owned){weights->private_->owned, release, user};
    weights->private_->owned = o;
    return EXG_OK;
}

exg_status exg_weights_add_bytes(exg_weights *weights, void *bytes, uint64_t length,
                                 exg_byte_order byte_order, uint32_t *storage, exg_error *err)
{
    exg_storage made = {
        .kind = EXG_STORAGE_MEMORY, .byte_order = byte_order, .length = length, .data = bytes};
    exg_status status = exg_weights_own(weights, free, bytes, err);

    if (status != EXG_OK) {
        free(bytes);
        return status;
    }
    return exg_weights_add_storage(weights, &made, storage, err);
}

exg_status exg_weights_set_directory(exg_weights *weights, const char *directory, exg_error *err)
{
    EXG_REQUIRE(err, weights, directory);
    const char *copy = exg_arena_strdup(weights->arena, directory);

    if (copy == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    weights->private_->directory = copy;
    return EXG_OK;
}

const char *exg_weights_directory(const exg_weights *weights)
{
    return weights->private_->directory;
}

/* ---- tables ------------------------------------------------------------------- */

exg_status exg_weights_add_storage(exg_weights *weights, const exg_storage *storage,
                                   uint32_t *index, exg_error *err)
{
    EXG_REQUIRE(err, weights, storage, index);
    exg_storage copy = *storage;

    copy.location = exg_arena_strdup(weights->arena, storage->location);
    copy.checksum.text = exg_arena_strdup(weights->arena, storage->checksum.text);
    if ((storage->location != NULL && copy.location == NULL) ||
        (storage->checksum.text != NULL && copy.checksum.text == NULL) ||
        weights->storage_count == UINT32_MAX ||
        !exg_arena_reserve(weights->arena, &weights->storages, weights->storage_count,
                           &weights->storage_capacity, sizeof(exg_storage)) ||
        !exg_arena_reserve(weights->arena, &weights->private_->checks, weights->storage_count,
                           &weights->private_->check_capacity, sizeof(uint8_t))) {
        return EXG_OUT_OF_MEMORY(err);
    }
    copy.further = NULL;
    copy.further_count = 0;
    weights->private_->checks[weights->storage_count] = CHECK_DUE;
    weights->storages[weights->storage_count] = copy;
    *index = weights->storage_count++;
    for (uint32_t i = 0; i < storage->further_count; i++) {
        EXG_TRY(exg_storage_add_checksum(weights, *index, &storage->further[i], err));
    }
    return EXG_OK;
}

/* Those that can be compared come first. */
exg_status exg_storage_add_checksum(exg_weights *weights, uint32_t storage,
                                    const exg_checksum *checksum, exg_error *err)
{
    exg_storage *s = &weights->storages[storage];
    exg_checksum added = {checksum->kind, exg_arena_strdup(weights->arena, checksum->text)};
    exg_checksum first = s->checksum;
    exg_checksum *further;

    if (checksum->text != NULL && added.text == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (first.kind == EXG_CHECKSUM_NONE) {
        s->checksum = added;
        return EXG_OK;
    }
    further = EXG_NEW_ARRAY(weights->arena, exg_checksum, s->further_count + 1u);
    if (further == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (s->further_count > 0) {
        memcpy(further, s->further, s->further_count * sizeof(*further));
    }
    if (!exg_checksum_is_known(&first) && exg_checksum_is_known(&added)) {
        s->checksum = added;
        added = first;
    }
    further[s->further_count++] = added;
    s->further = further;
    return EXG_OK;
}

static bool copy_sym_int(exg_arena *arena, exg_sym_int *sym)
{
    const char *expr = sym->expr;

    sym->expr = exg_arena_strdup(arena, expr);
    return expr == NULL || sym->expr != NULL;
}

exg_tensor_meta *exg_tensor_meta_copy(exg_arena *arena, const exg_tensor_meta *meta)
{
    exg_tensor_meta *copy = exg_arena_memdup(arena, meta, 1, sizeof(*meta));
    bool good;

    if (copy == NULL) {
        return NULL;
    }
    copy->sizes = exg_arena_memdup(arena, meta->sizes, meta->rank, sizeof(exg_sym_int));
    copy->strides = exg_arena_memdup(arena, meta->strides, meta->rank, sizeof(exg_sym_int));
    copy->device.type = exg_arena_strdup(arena, meta->device.type);
    good = copy->sizes != NULL && copy->strides != NULL &&
           (meta->device.type == NULL || copy->device.type != NULL) &&
           copy_sym_int(arena, &copy->storage_offset);
    for (uint32_t d = 0; good && d < meta->rank; d++) {
        good = copy_sym_int(arena, &copy->sizes[d]) && copy_sym_int(arena, &copy->strides[d]);
    }
    return good ? copy : NULL;
}

/* Does the encoding tell no shape, or one of as many elements as there are? */
static bool is_shape_of(const exg_weight *weight, const exg_block *block)
{
    int64_t sizes[EXG_BLOCK_RANK_MAX];
    uint64_t count = 1;
    uint32_t rank;

    if (!exg_block_shape(weight->encoding, sizes, &rank)) {
        return true;
    }
    if (rank == UINT32_MAX || weight->meta->rank != 1) {
        return false;
    }
    for (uint32_t d = 0; d < rank; d++) {
        if (!exg_mul_u64(count, (uint64_t)sizes[d], &count)) {
            return false;
        }
    }
    return count == (uint64_t)weight->meta->sizes[0].value / block->bytes * block->elements;
}

/* Blocks are rows of bytes, and whole: they are read so. */
static exg_status check_encoding(const exg_weight *weight, exg_error *err)
{
    const exg_tensor_meta *meta = weight->meta;
    const exg_block *block = weight->encoding == NULL ? NULL : exg_block_named(weight->encoding);

    return block == NULL || (meta != NULL && !weight->use_pickle && meta->rank > 0 &&
                             meta->dtype == EXG_DTYPE_U8 &&
                             meta->sizes[meta->rank - 1].value % block->bytes == 0 &&
                             is_shape_of(weight, block))
               ? EXG_OK
               : EXG_FAIL(err, MALFORMED, "WGT-BLOCK", "%s is no rows of blocks of %s", weight->fqn,
                          weight->encoding);
}

exg_status exg_weights_add(exg_weights *weights, const exg_weight *weight, exg_error *err)
{
    EXG_REQUIRE(err, weights, weight);
    exg_weight copy = *weight;
    exg_map *names;

    if (weight->storage >= weights->storage_count) {
        return EXG_FAIL(err, USAGE, "WGT-STORAGE", "weight %s names storage %u of %u", weight->fqn,
                        weight->storage, weights->storage_count);
    }
    if (weight->fqn == NULL) {
        return EXG_FAIL(err, USAGE, "WGT-NAME", "weight %u has no name", weights->count);
    }
    if (!exg_text_is_utf8(weight->fqn, strlen(weight->fqn))) {
        return EXG_FAIL(err, MALFORMED, "WGT-NAME", "the name '%s' is not UTF-8", weight->fqn);
    }
    EXG_TRY(check_encoding(weight, err));
    copy.fqn = exg_arena_strdup(weights->arena, weight->fqn);
    if (weight->meta != NULL) {
        copy.meta = exg_tensor_meta_copy(weights->arena, weight->meta);
    }
    copy.encoding = exg_arena_strdup(weights->arena, weight->encoding);
    if (copy.fqn == NULL || (weight->meta != NULL && copy.meta == NULL) ||
        (weight->encoding != NULL && copy.encoding == NULL) || weights->count == UINT32_MAX ||
        !exg_arena_reserve(weights->arena, &weights->items, weights->count, &weights->capacity,
                           sizeof(exg_weight))) {
        return EXG_OUT_OF_MEMORY(err);
    }
    names = &weights->private_->names[copy.table == EXG_TABLE_CONSTANTS];
    if (exg_map_find(names, copy.fqn) == EXG_MAP_NONE &&
        !exg_map_put(names, copy.fqn, weights->count)) {
        return EXG_OUT_OF_MEMORY(err);
    }
    weights->items[weights->count++] = copy;
    return EXG_OK;
}

/* The metadata called `key`, or NULL. */
static const exg_string_pair *find_metadata(const exg_weights *weights, const char *key)
{
    uint32_t at = exg_map_find(&weights->private_->metadata_names, key);

    return at < weights->metadata.count ? &weights->metadata.items[at] : NULL;
}

/* "<key>_1", "<key>_2", ...: the next that is free. NULL: out of memory. */
static const char *next_name(exg_weights *weights, const char *key)
{
    exg_map *repeats = &weights->private_->repeats;
    uint32_t number = exg_map_find(repeats, key) + 1; /* NONE + 1 is 0 */
    const char *name;

    do {
        number++;
        name = exg_arena_printf(weights->arena, "%s_%u", key, number);
    } while (name != NULL && find_metadata(weights, name) != NULL);
    key = exg_arena_strdup(weights->arena, key);
    return name != NULL && key != NULL && exg_map_put(repeats, key, number - 1) ? name : NULL;
}

void exg_weights_refuse_skipping(exg_weights *weights)
{
    weights->private_->strict = true;
}

exg_status exg_weights_skip(exg_weights *weights, const char *name, const char *kind,
                            exg_error *err)
{
    return exg_weights_skip_code(weights, name, kind, EXG_CODE_NONE, err);
}

exg_status exg_weights_skip_code(exg_weights *weights, const char *name, const char *kind,
                                 exg_skipped_code code, exg_error *err)
{
    EXG_REQUIRE(err, weights, name, kind);
    exg_skipped made = {exg_arena_strdup(weights->arena, name),
                        exg_arena_strdup(weights->arena, kind), code};

    if (weights->private_->strict) {
        return exg_error_fix(
            err, EXG_FAIL(err, UNSUPPORTED, "WGT-SKIP", "%s is %s, which is not read", name, kind),
            "without --strict it is left out, and listed");
    }
    if (made.name == NULL || made.kind == NULL ||
        !exg_arena_reserve(weights->arena, &weights->skipped, weights->skipped_count,
                           &weights->skipped_capacity, sizeof(made))) {
        return EXG_OUT_OF_MEMORY(err);
    }
    weights->skipped[weights->skipped_count++] = made;
    return EXG_OK;
}

/* Two kinds, of which NULL is one. */
static bool is_same_kind(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

const char *exg_weights_metadata_kind(const exg_weights *weights, uint32_t index)
{
    return index < weights->metadata.count ? weights->private_->kinds[index] : NULL;
}

static exg_status add_pair(exg_weights *weights, const char *key, const char *kind,
                           const char *value, exg_error *err)
{
    exg_string_map *map = &weights->metadata;
    const exg_string_pair *same = find_metadata(weights, key);
    const char *kept = exg_arena_strdup(weights->arena, kind);
    exg_string_pair pair;

    if (same != NULL && strcmp(same->value, value) == 0 &&
        is_same_kind(exg_weights_metadata_kind(weights, (uint32_t)(same - map->items)), kind)) {
        return EXG_OK; /* said already */
    }
    pair.key = same == NULL ? exg_arena_strdup(weights->arena, key) : next_name(weights, key);
    pair.value = exg_arena_strdup(weights->arena, value);
    if (pair.key == NULL || pair.value == NULL || (kind != NULL && kept == NULL) ||
        map->count == UINT32_MAX ||
        !exg_arena_reserve(weights->arena, &map->items, map->count,
                           &weights->private_->metadata_capacity, sizeof(exg_string_pair)) ||
        !exg_arena_reserve(weights->arena, &weights->private_->kinds, map->count,
                           &weights->private_->kind_capacity, sizeof(const char *)) ||
        !exg_map_put(&weights->private_->metadata_names, pair.key, map->count)) {
        return EXG_OUT_OF_MEMORY(err);
    }
    weights->private_->kinds[map->count] = kept;
    map->items[map->count++] = pair;
    return EXG_OK;
}

exg_status exg_weights_add_metadata(exg_weights *weights, const char *key, const char *value,
                                    exg_error *err)
{
    EXG_REQUIRE(err, weights, key, value);
    return add_pair(weights, key, NULL, value, err);
}

exg_status exg_weights_add_metadata_as(exg_weights *weights, const char *key, const char *kind,
                                       const char *value, exg_error *err)
{
    EXG_REQUIRE(err, weights, key, value);
    return add_pair(weights, key, kind, value, err);
}

const exg_weight *exg_weights_find(const exg_weights *weights, exg_weight_table table,
                                   const char *fqn)
{
    uint32_t at = exg_map_find(&weights->private_->names[table == EXG_TABLE_CONSTANTS], fqn);

    return at == EXG_MAP_NONE ? NULL : &weights->items[at];
}

/* ---- reading ------------------------------------------------------------------ */

static void release_mapping(void *user)
{
    mapped *file = user;

    exg_mapping_release(&file->mapping);
}

void exg_weights_read_files(exg_weights *weights, exg_reading reading)
{
    weights->private_->reading = reading;
}

exg_reading exg_weights_reading(const exg_weights *weights)
{
    return weights->private_->reading;
}

exg_status exg_weights_own_mapping(exg_weights *weights, exg_mapping *mapping, exg_error *err)
{
    mapped *file = EXG_NEW(weights->arena, mapped);

    if (file == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY(exg_weights_own(weights, release_mapping, file, err));
    *file = (mapped){weights->private_->mapped, *mapping};
    weights->private_->mapped = file;
    *mapping = (exg_mapping){0};
    return EXG_OK;
}

/* Advises the system of the pages of [data, data + length) in a mapped file: of those
 * wholly inside, or of all it touches. */
static void advise_pages(exg_weights *weights, const uint8_t *data, uint64_t length, bool all,
                         int advice)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)data + (all ? 0 : page - 1)) & ~(page - 1);
    uintptr_t end = ((uintptr_t)data + (uintptr_t)length + (all ? page - 1 : 0)) & ~(page - 1);
    bool is_ours = false;
    const retained *held;

    pthread_mutex_lock(&weights->private_->lock);
    for (const mapped *m = weights->private_->mapped; m != NULL && !is_ours; m = m->next) {
        uintptr_t base = (uintptr_t)m->mapping.base;
        uintptr_t last = base + (m->mapping.base_length + page - 1) / page * page;

        is_ours = !m->mapping.is_copy && first < end && first >= base && end <= last;
    }
    held = weights->private_->held;
    pthread_mutex_unlock(&weights->private_->lock);
    if (is_ours) { /* it stays mapped as long as the weights are there */
        (void)madvise((void *)first, end - first, advice); /* private, read only */
    }
    for (; held != NULL; held = held->next) { /* of what was made, the files are elsewhere */
        advise_pages(held->weights, data, length, all, advice);
    }
}

static void release_held(void *user)
{
    exg_weights_release(((retained *)user)->weights);
}

exg_status exg_weights_retain_in(exg_weights *holder, exg_weights *of, exg_error *err)
{
    retained *made = EXG_NEW(holder->arena, retained);
    exg_status status;

    if (made == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    *made = (retained){holder->private_->held, of};
    status = exg_weights_own(holder, release_held, made, err);
    if (status == EXG_OK) {
        exg_weights_retain(of);
        holder->private_->held = made;
    }
    return status;
}

static exg_status map_external(exg_weights *weights, exg_storage *storage, exg_error *err)
{
    exg_mapping mapping;
    const uint8_t *data;
    exg_status status = exg_file_map_part(
        weights->private_->directory, storage->location, weights->private_->reading,
        storage->offset,
        storage->kind == EXG_STORAGE_FRAMES ? storage->frames->stored_length : storage->length,
        &mapping, err);

    data = mapping.data;
    if (status == EXG_OK) {
        status = exg_weights_own_mapping(weights, &mapping, err);
    }
    exg_mapping_release(&mapping); /* when it was not given away */
    if (status == EXG_OK) {
        storage->data = data;
    }
    return status;
}

/* Frames and external storages: the stored bytes where they are, mapped at first use. */
static exg_status lazy_bytes(exg_weights *weights, exg_storage *storage, const uint8_t **data,
                             exg_error *err)
{
    exg_status status = EXG_OK;

    pthread_mutex_lock(&weights->private_->lock);
    if (storage->data == NULL) {
        status = map_external(weights, storage, err);
    }
    *data = storage->data;
    pthread_mutex_unlock(&weights->private_->lock);
    return status;
}

/* A text of fixed form, so that nothing reads as something else. */
static void feed(exg_hasher *hasher, const char *what, const char *text, uint64_t number)
{
    char line[512];
    int length = snprintf(line, sizeof(line), "%s %.400s %" PRIu64 "\n", what, text, number);

    exg_hasher_add(hasher, line, (size_t)length);
}

static bool identify_storage(exg_weights *weights, uint32_t index, exg_hasher *hasher)
{
    const exg_storage *storage = &weights->storages[index];
    const uint8_t *data = NULL;
    bool in_file = false;

    feed(hasher, "storage", "", storage->length);
    if (storage->kind == EXG_STORAGE_MADE) {
        feed(hasher, "made", storage->maker.name == NULL ? "" : storage->maker.name, 0);
        return storage->maker.name != NULL;
    }
    if (storage->data == NULL && lazy_bytes(weights, &weights->storages[index], &data, NULL)) {
        return false;
    }
    /* Where in which file; frames and inflated bytes follow from the file. */
    for (const mapped *m = weights->private_->mapped; m != NULL && !in_file; m = m->next) {
        const uint8_t *base = m->mapping.base;

        in_file = storage->data >= base && storage->data < base + m->mapping.base_length;
        feed(hasher, "at", "", in_file ? (uint64_t)(storage->data - m->mapping.data) : 0);
    }
    return true;
}

bool exg_weights_identify(exg_weights *weights, exg_hasher *hasher)
{
    bool known = true;
    bool any = weights->storage_count == 0;

    for (uint32_t i = 0; i < weights->storage_count; i++) {
        known = identify_storage(weights, i, hasher) && known;
    }
    for (const mapped *m = weights->private_->mapped; m != NULL; m = m->next) {
        any = true;
        exg_hasher_add(hasher, &m->mapping.identity, sizeof(m->mapping.identity));
    }
    for (const retained *r = weights->private_->held; r != NULL; r = r->next) {
        any = true;
        known = exg_weights_identify(r->weights, hasher) && known;
    }
    return known && any;
}

static void count_files(const exg_weights *weights, uint64_t device, uint64_t inode, bool *it,
                        bool *others)
{
    for (const mapped *m = weights->private_->mapped; m != NULL; m = m->next) {
        const exg_file_identity *file = &m->mapping.identity;
        bool same = file->device == device && file->inode == inode;

        *it = *it || same;
        *others = *others || (!same && file->inode != 0);
    }
    for (const retained *r = weights->private_->held; r != NULL; r = r->next) {
        count_files(r->weights, device, inode, it, others);
    }
}

bool exg_weights_read_part(const exg_weights *weights, uint64_t device, uint64_t inode)
{
    bool it = false;
    bool others = false;

    count_files(weights, device, inode, &it, &others);
    return it && others;
}

exg_status exg_storage_locate(exg_weights *weights, uint32_t storage, exg_error *err)
{
    const uint8_t *data;

    return lazy_bytes(weights, &weights->storages[storage], &data, err);
}

exg_status exg_storage_plain_bytes(exg_weights *weights, uint32_t index, const uint8_t **data,
                                   exg_error *err)
{
    exg_storage *storage;

    *data = NULL;
    if (index >= weights->storage_count) {
        return EXG_FAIL(err, USAGE, "WGT-STORAGE", "there is no storage %u", index);
    }
    storage = &weights->storages[index];
    switch (storage->kind) {
    case EXG_STORAGE_MEMORY:
        *data = storage->data;
        break;
    case EXG_STORAGE_EXTERNAL:
        return lazy_bytes(weights, storage, data, err);
    case EXG_STORAGE_FRAMES:
    case EXG_STORAGE_MADE:
        break;
    }
    return EXG_OK;
}

void exg_weights_trust(exg_weights *weights)
{
    weights->private_->trusts = true;
}

bool exg_storage_check_begin(exg_weights *weights, uint32_t storage)
{
    struct exg_weights_private *p = weights->private_;
    uint8_t *check = &p->checks[storage];
    bool due;

    if (p->trusts || __atomic_load_n(check, __ATOMIC_ACQUIRE) == CHECK_HELD) {
        return false;
    }
    pthread_mutex_lock(&p->lock);
    while (*check == CHECK_RUNS) {
        pthread_cond_wait(&p->checked, &p->lock);
    }
    due = *check == CHECK_DUE;
    if (due) {
        __atomic_store_n(check, CHECK_RUNS, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&p->lock);
    return due;
}

void exg_storage_check_end(exg_weights *weights, uint32_t storage, bool held)
{
    struct exg_weights_private *p = weights->private_;

    pthread_mutex_lock(&p->lock);
    __atomic_store_n(&p->checks[storage], held ? CHECK_HELD : CHECK_DUE, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&p->checked);
    pthread_mutex_unlock(&p->lock);
}

/* What lies nowhere as it is. */
static exg_status read_made(exg_weights *weights, exg_storage *storage, uint64_t offset,
                            uint64_t length, void *out, exg_frame_reader *reader, exg_error *err)
{
    const uint8_t *stored;

    if (storage->kind == EXG_STORAGE_MADE) {
        return storage->maker.read(storage->maker.user, offset, length, out, err);
    }
    EXG_TRY(lazy_bytes(weights, storage, &stored, err));
    return exg_frames_read(storage->frames, stored, offset, length, out, reader, err);
}

exg_status exg_storage_read_with(exg_weights *weights, uint32_t storage, uint64_t offset,
                                 uint64_t length, void *out, exg_frame_reader *reader,
                                 exg_error *err)
{
    const uint8_t *data;

    EXG_TRY_IN(err, exg_storage_plain_bytes(weights, storage, &data, err), "storages[%u]", storage);
    if (!exg_range_inside(offset, length, weights->storages[storage].length)) {
        return EXG_FAIL(err, USAGE, "WGT-RANGE",
                        "bytes %llu and %llu more of a storage of %llu bytes",
                        (unsigned long long)offset, (unsigned long long)length,
                        (unsigned long long)weights->storages[storage].length);
    }
    if (length == 0) {
        return EXG_OK;
    }
    if (data == NULL) {
        EXG_TRY_IN(
            err, read_made(weights, &weights->storages[storage], offset, length, out, reader, err),
            "storages[%u]", storage);
        return EXG_OK;
    }
    memcpy(out, data + offset, (size_t)length);
    return EXG_OK;
}

exg_status exg_storage_host_bytes(exg_weights *weights, uint32_t storage, const uint8_t **data,
                                  exg_error *err)
{
    *data = NULL;
    if (storage < weights->storage_count &&
        weights->storages[storage].byte_order != exg_host_byte_order()) {
        return EXG_OK;
    }
    EXG_TRY_IN(err, exg_storage_plain_bytes(weights, storage, data, err), "storages[%u]", storage);
    return EXG_OK;
}

void exg_storage_forget(exg_weights *weights, uint32_t index, uint64_t first, uint64_t end)
{
    const exg_storage *storage = &weights->storages[index];
    const exg_frames *frames = storage->frames;

    if (storage->kind == EXG_STORAGE_FRAMES) {
        uint64_t last = exg_frame_count(end);

        first = frames->count == 0 ? 0 : frames->items[first / EXG_FRAME_BYTES].offset;
        end = last < frames->count ? frames->items[last].offset : frames->stored_length;
    }
    if (storage->kind != EXG_STORAGE_MADE && storage->data != NULL && first < end) {
        advise_pages(weights, storage->data + first, end - first, false, MADV_DONTNEED);
    }
}

static void advise_plain(exg_weights *weights, uint32_t index, uint64_t first, uint64_t end,
                         int advice)
{
    const exg_storage *storage = &weights->storages[index];

    if ((storage->kind == EXG_STORAGE_MEMORY || storage->kind == EXG_STORAGE_EXTERNAL) &&
        storage->data != NULL && first < end) {
        advise_pages(weights, storage->data + first, end - first, true, advice);
    }
}

void exg_storage_expect(exg_weights *weights, uint32_t index, uint64_t first, uint64_t end)
{
    advise_plain(weights, index, first, end, MADV_POPULATE_READ);
}

#define AHEAD_BYTES ((uint64_t)128 << 10) /* Linux takes no more at once where disks read that */

void exg_storage_read_ahead(exg_weights *weights, uint32_t index, uint64_t first, uint64_t end)
{
    for (uint64_t at = first; at < end; at += AHEAD_BYTES) {
        advise_plain(weights, index, at, end - at < AHEAD_BYTES ? end : at + AHEAD_BYTES,
                     MADV_WILLNEED);
    }
}

void exg_storage_read_apart(exg_weights *weights, uint32_t index)
{
    advise_plain(weights, index, 0, weights->storages[index].length, MADV_RANDOM);
}
