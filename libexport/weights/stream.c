/* stream.c - storages read in order by several threads, their checksums compared. */
#include "libexport/base/arena.h"
#include "libexport/base/options.h"
#include "libexport/base/pipeline.h"
#include "libexport/base/require.h"
#include "libexport/weights/checksum.h"
#include "libexport/weights/storage.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES  EXG_FRAME_BYTES
#define FORGET_BYTES (16u << 20) /* mapped bytes given back at a time */
#define STAYS_BYTES  (64u << 20) /* read once more at once: its pages are kept till then */
#define ALONE_BYTES                                                                                \
    (64u << 20) /* frames up to here are inflated by one worker, the others at                     \
                   other storages: less room to make, and no order to keep */

/* ---- streaming ----------------------------------------------------------------------------- */

typedef struct stream {
    exg_weights *weights;
    uint32_t storage;
    uint64_t length;
    exg_checks checks;   /* of the checksums that the storage has */
    const uint8_t *data; /* where the bytes lie, or NULL */
    exg_take_fn *take;
    void *user;
    bool stays;                 /* it is read again at once */
    uint8_t **slots;            /* BLOCK_BYTES each, where there is no data */
    exg_frame_reader **readers; /* of frames */
} stream;

static uint64_t part_at(const stream *s, uint64_t block)
{
    uint64_t left = s->length - block * BLOCK_BYTES;

    return left < BLOCK_BYTES ? left : BLOCK_BYTES;
}

static exg_status make_block(void *context, const exg_pipeline_block *block, exg_error *err)
{
    stream *s = context;

    if (s->data != NULL) {
        return EXG_OK; /* read once, in order: the system's own read-ahead is fastest */
    }
    return exg_storage_read_with(s->weights, s->storage, block->index * BLOCK_BYTES,
                                 part_at(s, block->index), s->slots[block->slot],
                                 s->readers == NULL ? NULL : s->readers[block->worker], err);
}

static exg_status use_block(void *context, const exg_pipeline_block *block, exg_error *err)
{
    stream *s = context;
    uint64_t at = block->index * BLOCK_BYTES;
    uint64_t part = part_at(s, block->index);
    uint64_t end = at + part;
    const uint8_t *bytes = s->data == NULL ? s->slots[block->slot] : s->data + at;

    if (s->data != NULL) {
        exg_storage_expect(s->weights, s->storage, at, end);
    }
    exg_checks_add(&s->checks, bytes, (size_t)part);
    EXG_TRY(s->take(s->user, bytes, part, err));
    if (!s->stays && (end % FORGET_BYTES == 0 || end == s->length)) {
        exg_storage_forget(s->weights, s->storage, (end - 1) / FORGET_BYTES * FORGET_BYTES, end);
    }
    return EXG_OK;
}

static exg_status make_room(stream *s, uint32_t slots, uint32_t workers, exg_error *err)
{
    const exg_storage *storage = &s->weights->storages[s->storage];

    s->slots = calloc(slots, sizeof(*s->slots));
    if (s->slots == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY(exg_checks_begin(&s->checks, storage, EXG_CHECKSUM_NONE, err));
    for (uint32_t i = 0; i < slots && s->data == NULL; i++) {
        s->slots[i] = malloc(BLOCK_BYTES);
        if (s->slots[i] == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
    }
    return storage->kind == EXG_STORAGE_FRAMES ? exg_frame_readers_create(workers, &s->readers, err)
                                               : EXG_OK;
}

exg_status exg_storage_within(const exg_weights *weights, uint32_t storage, exg_status status,
                              exg_error *err)
{
    const exg_storage *s = &weights->storages[storage];
    const char *beside = s->location == NULL ? "" : " in ";

    for (uint32_t i = 0; i < weights->count; i++) {
        if (weights->items[i].storage == storage) {
            return exg_error_within(err, status, "storages[%u], of %.60s%s%.60s", storage,
                                    weights->items[i].fqn, beside,
                                    s->location == NULL ? "" : s->location);
        }
    }
    return exg_error_within(err, status, "storages[%u]", storage);
}

/* All of it passed: is it what the file says? */
static exg_status compare(stream *s, exg_status status, exg_error *err)
{
    const exg_storage *storage = &s->weights->storages[s->storage];
    exg_status compared = exg_checks_end(&s->checks, storage, status, err);

    EXG_TRY(status);
    if (compared != EXG_OK) {
        return exg_storage_within(s->weights, s->storage, compared, err);
    }
    if (exg_checksum_is_known(&storage->checksum)) {
        exg_storage_check_end(s->weights, s->storage, true);
    }
    return EXG_OK;
}

static exg_status pass(exg_weights *weights, uint32_t storage, exg_pool *pool, exg_take_fn *take,
                       void *user, bool stays, exg_error *err)
{
    stream s = {.weights = weights, .storage = storage, .take = take, .user = user, .stays = stays};
    uint32_t slots;
    uint32_t workers;
    exg_status status;

    EXG_TRY_IN(err, exg_storage_plain_bytes(weights, storage, &s.data, err), "storages[%u]",
               storage);
    s.length = weights->storages[storage].length;
    if (s.length <= BLOCK_BYTES || s.data != NULL) {
        pool = NULL; /* nothing to make */
    }
    slots = exg_pipeline_slots(pool);
    workers = exg_pipeline_workers(pool);
    status = make_room(&s, slots, workers, err);
    if (status == EXG_OK) {
        status = exg_pipeline_run(pool, exg_frame_count(s.length), make_block, use_block, &s, err);
    }
    status = compare(&s, status, err);
    for (uint32_t i = 0; s.slots != NULL && i < slots; i++) {
        free(s.slots[i]);
    }
    exg_frame_readers_destroy(s.readers, workers);
    free(s.slots);
    return status;
}

exg_status exg_storage_stream(exg_weights *weights, uint32_t storage, exg_pool *pool,
                              exg_take_fn *take, void *user, exg_error *err)
{
    return pass(weights, storage, pool, take, user, false, err);
}

static exg_status hash_bytes(void *user, const uint8_t *bytes, uint64_t length, exg_error *err)
{
    (void)err;
    exg_hasher_add(user, bytes, (size_t)length);
    return EXG_OK;
}

exg_status exg_weights_identify_bytes(exg_weights *weights, exg_pool *pool, exg_hasher *hasher,
                                      exg_error *err)
{
    exg_hasher *places = exg_hasher_create(EXG_CHECKSUM_XXH3_128);
    char digits[EXG_CHECKSUM_TEXT_MAX];
    bool known;

    if (places == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    known = exg_weights_identify(weights, places);
    exg_hasher_finish(places, digits);
    if (known) {
        exg_hasher_add(hasher, digits, strlen(digits));
        return EXG_OK;
    }
    for (uint32_t i = 0; i < weights->storage_count; i++) {
        EXG_TRY(exg_storage_stream(weights, i, pool, hash_bytes, hasher, err));
    }
    return EXG_OK;
}

/* ---- checking one -------------------------------------------------------------------------- */

typedef struct checker {
    exg_weights *weights;
    const exg_check_options *options;
    pthread_mutex_t lock; /* over `done` */
    uint64_t done, total;
    exg_status *results; /* a storage each */
    exg_error *errors;
    uint32_t *alone; /* storages that one worker checks */
} checker;

static exg_status count_bytes(void *user, const uint8_t *bytes, uint64_t length, exg_error *err)
{
    checker *all = user; /* NULL: one storage, nobody counts */

    (void)bytes;
    (void)err;
    if (all != NULL && all->options->progress != NULL) {
        pthread_mutex_lock(&all->lock);
        all->done += length;
        all->options->progress(all->options->user, all->done, all->total);
        pthread_mutex_unlock(&all->lock);
    }
    return EXG_OK;
}

static exg_status check_storage(exg_weights *weights, uint32_t storage, exg_pool *pool,
                                checker *all, exg_error *err)
{
    const exg_storage *s = &weights->storages[storage];
    const uint8_t *data;
    /* Also of what has nothing to compare: is the file there, and long enough? */
    exg_status status = s->kind == EXG_STORAGE_EXTERNAL
                            ? exg_storage_plain_bytes(weights, storage, &data, err)
                            : EXG_OK;

    if (status != EXG_OK) {
        return exg_storage_within(weights, storage, status, err);
    }
    return exg_checksum_is_known(&s->checksum) || s->kind == EXG_STORAGE_FRAMES
               ? exg_storage_stream(weights, storage, pool, count_bytes, all, err)
               : EXG_OK;
}

exg_status exg_storage_check(exg_weights *weights, uint32_t storage, exg_error *err)
{
    EXG_REQUIRE(err, weights);
    if (storage >= weights->storage_count) {
        return EXG_FAIL(err, USAGE, "WGT-STORAGE", "there is no storage %u", storage);
    }
    return check_storage(weights, storage, NULL, NULL, err);
}

/* Frames are checked one by one, whenever they are read. */
exg_status exg_storage_check_once(exg_weights *weights, uint32_t storage, exg_pool *pool,
                                  exg_error *err)
{
    exg_status status;

    if (storage >= weights->storage_count ||
        weights->storages[storage].kind == EXG_STORAGE_FRAMES ||
        !exg_checksum_is_known(&weights->storages[storage].checksum) ||
        !exg_storage_check_begin(weights, storage)) {
        return EXG_OK;
    }
    status = pass(weights, storage, pool, count_bytes, NULL,
                  weights->storages[storage].length <= STAYS_BYTES, err);
    exg_storage_check_end(weights, storage, status == EXG_OK);
    return status;
}

/* Is it long enough to be inflated by all workers? */
static bool is_shared(const exg_storage *storage)
{
    return storage->kind == EXG_STORAGE_FRAMES && storage->length > ALONE_BYTES;
}

/* ---- checking all -------------------------------------------------------------------------- */

static void check_alone(void *context, uint32_t block)
{
    checker *c = context;
    uint32_t i = c->alone[block];

    c->results[i] = check_storage(c->weights, i, NULL, c, &c->errors[i]);
}

/* Has every storage of the external file of `i` that has a checksum, of two or more, other
 * bytes? */
static bool is_other_file(const checker *c, uint32_t i)
{
    const exg_storage *storages = c->weights->storages;
    uint32_t wrong = 0;

    if (storages[i].location == NULL) {
        return false;
    }
    for (uint32_t k = 0; k < c->weights->storage_count; k++) {
        if (storages[k].location != NULL && storages[k].length > 0 &&
            exg_checksum_is_known(&storages[k].checksum) &&
            strcmp(storages[k].location, storages[i].location) == 0) {
            if (c->results[k] != EXG_MALFORMED) {
                return false;
            }
            wrong++;
        }
    }
    return wrong > 1;
}

static exg_status first_fault(const checker *c, exg_error *err)
{
    for (uint32_t i = 0; i < c->weights->storage_count; i++) {
        if (c->results[i] == EXG_OK) {
            continue;
        }
        if (c->results[i] == EXG_MALFORMED && is_other_file(c, i)) {
            return exg_error_fix(err,
                                 EXG_FAIL(err, MALFORMED, "WGT-CHANGED",
                                          "%s is not the file that was written: no checksum in it "
                                          "holds",
                                          c->weights->storages[i].location),
                                 "put the file back that was written with the program");
        }
        if (err != NULL) {
            *err = c->errors[i];
        }
        return c->results[i];
    }
    return EXG_OK;
}

static exg_status check_all(checker *c, exg_pool *pool, exg_error *err)
{
    uint32_t count = c->weights->storage_count;
    uint32_t alone = 0;

    c->results = calloc(count + 1u, sizeof(*c->results));
    c->errors = calloc(count + 1u, sizeof(*c->errors));
    c->alone = calloc(count + 1u, sizeof(*c->alone));
    if (c->results == NULL || c->errors == NULL || c->alone == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < count; i++) {
        c->total += c->weights->storages[i].length;
        if (!is_shared(&c->weights->storages[i])) {
            c->alone[alone++] = i;
        }
    }
    exg_pool_run(pool, check_alone, c, alone);
    for (uint32_t i = 0; i < count; i++) {
        if (is_shared(&c->weights->storages[i])) {
            c->results[i] = check_storage(c->weights, i, pool, c, &c->errors[i]);
        }
    }
    return first_fault(c, err);
}

exg_status exg_weights_check(exg_weights *weights, const exg_check_options *given, exg_error *err)
{
    EXG_REQUIRE(err, weights);
    exg_check_options options = {0};
    checker c = {.weights = weights, .options = &options, .lock = PTHREAD_MUTEX_INITIALIZER};
    exg_pool *pool = NULL;
    exg_status status;

    EXG_TRY(EXG_READ_OPTIONS(exg_check_options, &options, given, err));
    status = exg_pool_create(options.threads, &pool, err);
    if (status == EXG_OK) {
        status = check_all(&c, pool, err);
    }
    exg_pool_destroy(pool);
    pthread_mutex_destroy(&c.lock);
    free(c.results);
    free(c.errors);
    free(c.alone);
    return status;
}
