/* weight_store.c - bytes of weights, where they are mapped or read once; bytes of state,
 * which the program writes. */
#include "libexec/executor/weight_store.h"
#include "libexec/device/device.h"
#include "libexport/base/arena.h"
#include "libexport/base/pipeline.h"
#include "libexport/weights/storage.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Where bytes are: the host's memory, or a device's. */
typedef struct home {
    exg_accelerator *device; /* NULL: the host */
    void *data;
    uint64_t bytes;
} home;

typedef struct state {
    struct state *next; /* of the same weight, of another rank */
    uint32_t weight, rank;
    exg_tensor tensor; /* row-major; data is the home's, or what was copied from there */
    home home;
} state;

typedef struct made_block {
    exg_folded_constant folded;         /* first: what others know it by */
    struct made_block *next, *previous; /* of all */
    struct made_block *chain;           /* of keys that fall together */
    uint64_t key;
    home home;
} made_block;

/* A part of a storage that was copied to a device. */
typedef struct resident {
    struct resident *next; /* of the same storage */
    exg_range range;
    home home;
    bool stays;
} resident;

/* A storage that the host reads: where a file has it, or here, in room for all of it. */
typedef struct kept {
    uint8_t *data;  /* NULL: not read here */
    exg_range read; /* what was asked for, which is counted; here it is filled */
    bool stays;
    uint32_t share; /* in which it is compared with its checksum */
    bool is_weight;
} kept;

struct exg_weight_store {
    exg_memory_budget budget;
    exg_scratch scratch;
    exg_weights *weights;
    exg_pool *pool;
    kept *storages;
    uint32_t share, shares; /* of the storages whose checksums are compared here; 0: of none */
    uint32_t compared;      /* storages up to here were, or are looked at one by one */
    state **states;         /* by weight */
    state **shown;          /* those of rank 0, as they were asked for */
    uint32_t shown_count, shown_capacity;
    made_block *folded;
    made_block **chains;           /* by key, of those with one */
    uint32_t chained, chain_count; /* a power of two, or 0 */
    resident **residents;          /* by storage */
};

exg_status exg_weight_store_create(exg_weights *weights, exg_pool *pool, exg_weight_store **store,
                                   exg_error *err)
{
    exg_weight_store *m = calloc(1, sizeof(*m));

    *store = NULL;
    if (m != NULL) {
        m->storages = calloc(weights->storage_count + 1, sizeof(*m->storages));
        m->residents = calloc(weights->storage_count + 1, sizeof(*m->residents));
        m->states = calloc(weights->count + 1, sizeof(*m->states));
    }
    if (m == NULL || m->storages == NULL || m->residents == NULL || m->states == NULL) {
        if (m != NULL) {
            free(m->storages);
            free(m->residents);
            free(m->states);
        }
        free(m);
        return EXG_OUT_OF_MEMORY(err);
    }
    m->weights = exg_weights_retain(weights);
    m->budget.allocator = exg_arena_allocator(weights->arena);
    m->scratch.budget = &m->budget;
    m->pool = pool;
    m->shares = 1;
    for (uint32_t i = 0; i < weights->count; i++) {
        if (weights->items[i].storage < weights->storage_count) {
            m->storages[weights->items[i].storage].is_weight = true;
        }
    }
    *store = m;
    return EXG_OK;
}

void exg_weight_store_compare(exg_weight_store *store, uint32_t share, uint32_t shares)
{
    const exg_weights *weights = store->weights;
    double total = 1; /* more than all: the last share ends behind it */
    double before = 0;

    for (uint32_t i = 0; i < weights->storage_count; i++) {
        total += (double)weights->storages[i].length;
    }
    for (uint32_t i = 0; i < weights->storage_count; i++) {
        store->storages[i].share = (uint32_t)(before / total * shares);
        before += (double)weights->storages[i].length;
    }
    store->share = share;
    store->shares = shares;
}

static exg_status settle(exg_weight_store *store, exg_accelerator *device, uint64_t bytes, home *to,
                         exg_error *err)
{
    to->device = device;
    to->bytes = bytes;
    return exg_memory_budget_allocate(&store->budget, device, bytes, "weights", &to->data, err);
}

static void leave(exg_weight_store *store, const home *to)
{
    exg_memory_budget_release(&store->budget, to->device, to->data, to->bytes);
}

/* All of it, from the host's memory. */
static exg_status move_in(const exg_weight_store *store, const home *to, const void *from,
                          exg_error *err)
{
    exg_status status;

    if (to->device == NULL) {
        memcpy(to->data, from, to->bytes);
        return EXG_OK;
    }
    to->device->pool = store->pool;
    status = to->device->table->copy_in(to->device, to->data, from, to->bytes, err);
    to->device->pool = NULL;
    return status == EXG_OK ? to->device->table->wait(to->device, err) : status;
}

static uint64_t state_bytes(const exg_tensor *tensor)
{
    return (uint64_t)exg_tensor_numel(tensor) * exg_dtype_bytes(tensor->dtype);
}

/* Where the host's bytes of a storage are counted. */
static uint64_t *count_of(exg_weight_store *store, const kept *k)
{
    return k->data == NULL ? &store->budget.mapped : &store->budget.held;
}

/* The bytes of a storage that the host reads. */
static void drop_kept(exg_weight_store *store, uint32_t index)
{
    kept *k = &store->storages[index];

    *count_of(store, k) -= k->read.end - k->read.first;
    exg_release(store->budget.allocator, k->data, store->weights->storages[index].length);
    *k = (kept){.share = k->share, .is_weight = k->is_weight};
}

static void drop_states(exg_weight_store *store, state *s)
{
    while (s != NULL) {
        state *next = s->next;

        leave(store, &s->home);
        if (s->home.device != NULL) {
            free(s->tensor.data);
        }
        free(s);
        s = next;
    }
}

static void drop_folded(exg_weight_store *store, made_block *block)
{
    *(block->previous == NULL ? &store->folded : &block->previous->next) = block->next;
    if (block->next != NULL) {
        block->next->previous = block->previous;
    }
    leave(store, &block->home);
    free(block);
}

void exg_weight_store_destroy(exg_weight_store *store)
{
    if (store == NULL) {
        return;
    }
    exg_scratch_empty(&store->scratch);
    for (uint32_t i = 0; i < store->weights->storage_count; i++) {
        drop_kept(store, i);
    }
    for (uint32_t i = 0; i < store->weights->count; i++) {
        drop_states(store, store->states[i]);
    }
    while (store->folded != NULL) {
        drop_folded(store, store->folded);
    }
    for (uint32_t i = 0; i < store->weights->storage_count; i++) {
        for (resident *r = store->residents[i], *next; r != NULL; r = next) {
            next = r->next;
            leave(store, &r->home);
            free(r);
        }
    }
    free(store->storages);
    free(store->states);
    free(store->shown);
    free(store->chains);
    free(store->residents);
    exg_weights_release(store->weights);
    free(store);
}

exg_memory_budget *exg_weight_store_budget(exg_weight_store *store)
{
    return &store->budget;
}

exg_scratch *exg_weight_store_scratch(exg_weight_store *store)
{
    return &store->scratch;
}

static const exg_weight *find_weight(const exg_weight_store *store, const exg_plan_input *input)
{
    const exg_weight *weight = NULL;

    if (input->target != NULL && input->kind != EXG_INPUT_CONSTANT_TENSOR) {
        weight = exg_weights_find(store->weights, EXG_TABLE_STATE, input->target);
    }
    if (weight == NULL && input->target != NULL) {
        weight = exg_weights_find(store->weights, EXG_TABLE_CONSTANTS, input->target);
    }
    return weight;
}

exg_status exg_weight_store_check(const exg_weight_store *store, const exg_plan_input *input,
                                  exg_range range, exg_error *err)
{
    const exg_weight *weight = find_weight(store, input);
    const exg_storage *storage;

    if (weight == NULL || weight->storage >= store->weights->storage_count) {
        return EXG_FAIL(err, MALFORMED, "SIG-005", "no weight '%s'",
                        input->target == NULL ? "" : input->target);
    }
    storage = &store->weights->storages[weight->storage];
    if (storage->length == 0 && range.end > 0) {
        return EXG_FAIL(err, UNSUPPORTED, "WGT-012",
                        "weight '%s' has no data (a structure-only file)", input->target);
    }
    if (range.end > storage->length) {
        return EXG_FAIL(err, MALFORMED, "WGT-005",
                        "weight '%s' reaches %" PRIu64 " bytes into a storage of %" PRIu64,
                        input->target, range.end, storage->length);
    }
    return EXG_OK;
}

/* What is found is kept, but for faults: those come again when the storage is asked for. */
static void compare_one(void *context, uint32_t block)
{
    exg_weight_store *store = context;
    uint32_t index = store->compared + block;

    if (store->storages[index].is_weight && store->storages[index].share == store->share) {
        (void)exg_storage_check_once(store->weights, index, NULL, NULL);
    }
}

/* A storage a core: this one, and those that are asked for next. */
static void compare_ahead(exg_weight_store *store, uint32_t storage)
{
    uint32_t left = store->weights->storage_count - storage;
    uint32_t workers = exg_pipeline_workers(store->pool);
    uint32_t count = left < workers ? left : workers;

    if (storage >= store->compared) {
        store->compared = storage;
        exg_pool_run(store->pool, compare_one, store, count);
        store->compared = storage + count;
    }
}

/* A storage is compared with its checksum as a whole before any of it is used: here when all
 * of it is read or it is in the share, else by the rank in whose share it lies. What is read in
 * part is not kept in memory whole because of it. */
static exg_status compare(exg_weight_store *store, const exg_plan_input *input, uint32_t storage,
                          exg_range range, exg_error *err)
{
    bool is_whole = range.first == 0 && range.end == store->weights->storages[storage].length;

    if (store->shares == 0 || (!is_whole && store->storages[storage].share != store->share)) {
        return EXG_OK;
    }
    if (store->pool != NULL) {
        compare_ahead(store, storage);
    }
    EXG_TRY_IN(err, exg_storage_check_once(store->weights, storage, store->pool, err),
               "weights[\"%s\"]", input->target);
    if (!is_whole && store->storages[storage].read.first == store->storages[storage].read.end) {
        exg_storage_forget(store->weights, storage, 0, store->weights->storages[storage].length);
    }
    return EXG_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* A part of a storage, frame by frame. */
typedef struct reading {
    exg_weight_store *store;
    uint32_t index;
    exg_range part;
    exg_dtype dtype;
    const home *to;             /* where frames go as they are read; NULL: they stay here */
    exg_frame_reader **readers; /* by worker, of frames */
} reading;

static exg_range frame_of(const reading *r, uint64_t block)
{
    uint64_t first = (r->part.first / EXG_FRAME_BYTES + block) * EXG_FRAME_BYTES;
    uint64_t end = first + EXG_FRAME_BYTES;

    return (exg_range){first < r->part.first ? r->part.first : first,
                       end > r->part.end ? r->part.end : end};
}

static exg_status read_frame(void *context, const exg_pipeline_block *block, exg_error *err)
{
    const reading *r = context;
    const exg_storage *storage = &r->store->weights->storages[r->index];
    exg_range frame = frame_of(r, block->index);
    uint8_t *here = r->store->storages[r->index].data + frame.first;

    EXG_TRY(exg_storage_read_with(r->store->weights, r->index, frame.first, frame.end - frame.first,
                                  here, r->readers == NULL ? NULL : r->readers[block->worker],
                                  err));
    if (storage->byte_order != exg_host_byte_order()) {
        uint64_t item = exg_dtype_bytes(r->dtype);

        exg_bytes_swap(here, (frame.end - frame.first) / item * item, r->dtype);
    }
    return EXG_OK;
}

/* While others are read. */
static exg_status send_frame(void *context, const exg_pipeline_block *block, exg_error *err)
{
    const reading *r = context;
    exg_range frame = frame_of(r, block->index);

    return r->to == NULL
               ? EXG_OK
               : r->to->device->table->copy_in(
                     r->to->device, (uint8_t *)r->to->data + (frame.first - r->part.first),
                     r->store->storages[r->index].data + frame.first, frame.end - frame.first, err);
}

/* `to` (NULL: none) is room on a device for the part, which is asked to go there. */
static exg_status read_part(exg_weight_store *store, uint32_t index, exg_range part,
                            exg_dtype dtype, const home *to, exg_error *err)
{
    reading r = {store, index, part, dtype, to, NULL};
    uint32_t workers = exg_pipeline_workers(store->pool);
    uint64_t frames = exg_frame_count(part.end - part.first / EXG_FRAME_BYTES * EXG_FRAME_BYTES);
    exg_status status;

    if (part.first >= part.end) {
        return EXG_OK;
    }
    if (store->weights->storages[index].kind == EXG_STORAGE_FRAMES) {
        EXG_TRY(exg_frame_readers_create(workers, &r.readers, err));
    }
    status =
        exg_pipeline_run(frames == 1 ? NULL : store->pool, frames, read_frame, send_frame, &r, err);
    exg_frame_readers_destroy(r.readers, workers);
    exg_storage_forget(store->weights, index, part.first / EXG_FRAME_BYTES * EXG_FRAME_BYTES,
                       part.end);
    return status;
}

/* What may be read grows to the hull of it and `range`. */
static exg_status widen(exg_weight_store *store, uint32_t index, exg_range range, exg_dtype dtype,
                        exg_error *err)
{
    kept *k = &store->storages[index];
    exg_range was = k->read.first == k->read.end ? (exg_range){range.first, range.first} : k->read;
    exg_range hull = {range.first < was.first ? range.first : was.first,
                      range.end > was.end ? range.end : was.end};
    uint64_t more = (hull.end - hull.first) - (was.end - was.first);
    exg_status status;

    if (range.first == range.end) {
        return EXG_OK;
    }
    EXG_TRY(exg_memory_budget_take(&store->budget, count_of(store, k), more, "weights", err));
    if (k->data != NULL) {
        status = read_part(store, index, (exg_range){hull.first, was.first}, dtype, NULL, err);
        status = status == EXG_OK
                     ? read_part(store, index, (exg_range){was.end, hull.end}, dtype, NULL, err)
                     : status;
        if (status != EXG_OK) {
            *count_of(store, k) -= more;
            return status;
        }
    }
    k->read = hull;
    return EXG_OK;
}

/* Where the file has it, as the host wants it; NULL: it has to be read, and there is room for
 * all of the storage. */
static exg_status map_or_make_room(exg_weight_store *store, const exg_plan_input *input,
                                   const exg_weight *weight, const uint8_t **mapped, exg_error *err)
{
    uint32_t item = exg_dtype_bytes(input->tensor.dtype);
    uint64_t length = store->weights->storages[weight->storage].length;
    kept *k = &store->storages[weight->storage];

    *mapped = NULL;
    if (k->data != NULL) {
        return EXG_OK;
    }
    EXG_TRY_IN(err, exg_storage_host_bytes(store->weights, weight->storage, mapped, err),
               "weights[\"%s\"]", input->target);
    if (*mapped != NULL && (uintptr_t)*mapped % (item > 8 ? 8 : item) == 0) {
        return EXG_OK;
    }
    *mapped = NULL;
    k->data = exg_allocate(store->budget.allocator, length);
    return k->data == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

/* Where the host has it. */
static exg_status find_bytes(exg_weight_store *store, const exg_plan_input *input,
                             const exg_weight *weight, exg_range range, const void **data,
                             exg_error *err)
{
    const uint8_t *mapped;

    EXG_TRY(map_or_make_room(store, input, weight, &mapped, err));
    EXG_TRY_IN(err, widen(store, weight->storage, range, input->tensor.dtype, err),
               "weights[\"%s\"]", input->target);
    *data = mapped != NULL ? mapped : store->storages[weight->storage].data;
    return EXG_OK;
}

/* Room for one more; NULL: out of memory. */
static void *grow(void *items, uint32_t count, uint32_t *capacity, size_t size)
{
    uint32_t more = *capacity == 0 ? 16 : *capacity * 2;
    void *bigger = count < *capacity ? items : realloc(items, more * size);

    if (bigger != NULL && count == *capacity) {
        *capacity = more;
    }
    return bigger;
}

/* Copies `range` there. What has to be read goes as it is read. */
static exg_status bring(exg_weight_store *store, const exg_plan_input *input,
                        const exg_weight *weight, exg_range range, const home *to, exg_error *err)
{
    const kept *k = &store->storages[weight->storage];
    const uint8_t *mapped;
    const void *data;
    exg_status status;

    EXG_TRY(map_or_make_room(store, input, weight, &mapped, err));
    if (mapped != NULL || k->read.first < k->read.end) {
        EXG_TRY(find_bytes(store, input, weight, range, &data, err));
        return move_in(store, to, (const uint8_t *)data + range.first, err);
    }
    status = read_part(store, weight->storage, range, input->tensor.dtype, to, err);
    if (status != EXG_OK) { /* nothing of it is under way */
        (void)to->device->table->wait(to->device, NULL);
        return exg_error_within(err, status, "weights[\"%s\"]", input->target);
    }
    return to->device->table->wait(to->device, err);
}

/* A copy on the device of what `range` needs; the host's is not needed any more then. */
static exg_status take_residence(exg_weight_store *store, exg_accelerator *device,
                                 const exg_plan_input *input, const exg_weight *weight,
                                 exg_range range, resident **found, exg_error *err)
{
    resident **first = &store->residents[weight->storage];
    resident *new;
    exg_status status;

    for (resident *r = *first; r != NULL; r = r->next) {
        if (r->home.device == device && r->range.first <= range.first &&
            r->range.end >= range.end) {
            *found = r;
            return EXG_OK;
        }
    }
    new = calloc(1, sizeof(*new));
    if (new == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    new->range = (exg_range){range.first / 256 * 256, range.end}; /* aligned there as it is here */
    status = settle(store, device, new->range.end - new->range.first, &new->home, err);
    if (status == EXG_OK) {
        status = bring(store, input, weight, new->range, &new->home, err);
    }
    if (status != EXG_OK) {
        leave(store, &new->home);
        free(new);
        return status;
    }
    if (store->storages[weight->storage].data == NULL) {
        exg_storage_forget(store->weights, weight->storage, 0, new->range.end);
    }
    drop_kept(store, weight->storage);
    new->next = *first;
    *found = *first = new;
    return EXG_OK;
}

exg_status exg_weight_store_weight(exg_weight_store *store, exg_accelerator *device,
                                   const exg_plan_input *input, exg_range range, bool stays,
                                   const void **data, exg_error *err)
{
    const exg_weight *weight = find_weight(store, input);
    resident *found = NULL;

    EXG_TRY(exg_weight_store_check(store, input, range, err));
    EXG_TRY(compare(store, input, weight->storage, range, err));
    if (device == NULL) {
        store->storages[weight->storage].stays |= stays;
        return find_bytes(store, input, weight, range, data, err);
    }
    EXG_TRY(take_residence(store, device, input, weight, range, &found, err));
    found->stays |= stays;
    *data = (const void *)((uintptr_t)found->home.data - (uintptr_t)found->range.first);
    return EXG_OK;
}

void exg_weight_store_expect(exg_weight_store *store, const exg_plan_input *input,
                             const exg_page_rows *rows)
{
    exg_page_rows_expect(rows, store->weights, find_weight(store, input)->storage);
}

uint64_t exg_weight_store_weight_key(const exg_weight_store *store, const exg_plan_input *input)
{
    const exg_weight *weight = find_weight(store, input);

    return weight == NULL ? UINT64_MAX : weight->storage;
}

static void forget_residents(exg_weight_store *store, const exg_accelerator *device,
                             uint32_t storage)
{
    for (resident **at = &store->residents[storage]; *at != NULL;) {
        resident *r = *at;

        if (r->home.device == device && !r->stays) {
            *at = r->next;
            leave(store, &r->home);
            free(r);
        } else {
            at = &r->next;
        }
    }
}

void exg_weight_store_forget(exg_weight_store *store, exg_accelerator *device,
                             const exg_plan_input *input, uint64_t bytes)
{
    const exg_weight *weight = find_weight(store, input);
    const kept *k = weight == NULL ? NULL : &store->storages[weight->storage];

    if (weight == NULL) {
        return;
    }
    if (device != NULL) {
        forget_residents(store, device, weight->storage);
        return;
    }
    if (k->data == NULL) {
        exg_storage_forget(store->weights, weight->storage, 0, bytes);
    }
    if (!k->stays) {
        drop_kept(store, weight->storage);
    }
}

/* Room for one more key; keys are hashes. */
static bool widen_chains(exg_weight_store *store)
{
    uint32_t count = store->chain_count == 0 ? 64 : store->chain_count * 2;
    made_block **chains;

    if (store->chained < store->chain_count) {
        return true;
    }
    chains = calloc(count, sizeof(made_block *));
    if (chains == NULL) {
        return false;
    }
    for (made_block *b = store->folded; b != NULL; b = b->next) {
        if (b->key != 0) {
            b->chain = chains[(b->key >> 1) % count];
            chains[(b->key >> 1) % count] = b;
        }
    }
    free(store->chains);
    store->chains = chains;
    store->chain_count = count;
    return true;
}

exg_status exg_weight_store_folded(exg_weight_store *store, exg_accelerator *device, uint64_t key,
                                   uint64_t bytes, exg_folded_constant **folded, exg_error *err)
{
    made_block **chain;
    made_block *block;
    exg_status status;

    if (!widen_chains(store)) {
        return EXG_OUT_OF_MEMORY(err);
    }
    chain = &store->chains[(key >> 1) % store->chain_count];
    for (block = key == 0 ? NULL : *chain; block != NULL; block = block->chain) {
        if (block->key == key && block->home.bytes == bytes && block->home.device == device) {
            *folded = &block->folded;
            return EXG_OK;
        }
    }
    block = calloc(1, sizeof(*block));
    if (block == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    block->key = key;
    status = settle(store, device, bytes, &block->home, err);
    if (status != EXG_OK) {
        free(block);
        return status;
    }
    block->folded.data = block->home.data;
    block->next = store->folded;
    if (block->next != NULL) {
        block->next->previous = block;
    }
    store->folded = block;
    if (key != 0) {
        block->chain = *chain;
        *chain = block;
        store->chained++;
    }
    *folded = &block->folded;
    return EXG_OK;
}

void exg_weight_store_drop(exg_weight_store *store, const exg_folded_constant *folded)
{
    made_block *block = (made_block *)(uintptr_t)folded;

    if (block != NULL && block->key == 0) {
        drop_folded(store, block);
    }
}

static state *find_state(exg_weight_store *store, uint32_t rank, const exg_weight *weight)
{
    state *s = store->states[weight - store->weights->items];

    while (s != NULL && s->rank != rank) {
        s = s->next;
    }
    return s;
}

/* The state as the file has it, row-major. */
static exg_status first_state(exg_weight_store *store, const exg_plan_input *input, const home *to,
                              exg_error *err)
{
    const exg_tensor *tensor = &input->tensor;
    uint64_t item = exg_dtype_bytes(tensor->dtype);
    int64_t last = input->storage_offset;
    const void *source;
    uint8_t *here = to->device == NULL ? to->data : malloc(to->bytes + 1);
    exg_status status;

    if (here == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t d = 0; d < tensor->rank; d++) {
        last += (tensor->sizes[d] - 1) * tensor->strides[d];
    }
    status = exg_weight_store_weight(
        store, NULL, input,
        (exg_range){0, exg_tensor_numel(tensor) == 0 ? 0 : (uint64_t)(last + 1) * item}, true,
        &source, err);
    if (status == EXG_OK) {
        exg_tensor_gather(tensor, (const uint8_t *)source + (uint64_t)input->storage_offset * item,
                          here);
    }
    if (to->device != NULL) {
        if (status == EXG_OK) {
            status = move_in(store, to, here, err);
        }
        free(here);
    }
    return status;
}

exg_status exg_weight_store_state(exg_weight_store *store, exg_accelerator *device, uint32_t rank,
                                  const exg_plan_input *input, void **data, exg_error *err)
{
    const exg_weight *weight = find_weight(store, input);
    state *s = weight == NULL ? NULL : find_state(store, rank, weight);
    state **first;
    state **shown;
    exg_status status;

    if (s != NULL) {
        *data = s->home.data;
        return EXG_OK;
    }
    EXG_TRY(exg_weight_store_check(store, input, (exg_range){0, 0}, err));
    shown = grow(store->shown, store->shown_count, &store->shown_capacity, sizeof(state *));
    store->shown = shown == NULL ? store->shown : shown;
    s = shown == NULL ? NULL : calloc(1, sizeof(*s));
    if (s == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    *s = (state){.rank = rank, .tensor = input->tensor};
    s->weight = (uint32_t)(weight - store->weights->items);
    status = settle(store, device, state_bytes(&s->tensor), &s->home, err);
    if (status == EXG_OK) {
        status = first_state(store, input, &s->home, err);
    }
    if (status != EXG_OK) {
        leave(store, &s->home);
        free(s);
        return status;
    }
    exg_tensor_set_contiguous(&s->tensor);
    s->tensor.data = device == NULL ? s->home.data : NULL;
    first = &store->states[s->weight];
    s->next = *first;
    *first = s;
    if (rank == 0) {
        shown[store->shown_count++] = s;
    }
    *data = s->home.data;
    return EXG_OK;
}

uint32_t exg_weight_store_state_count(const exg_weight_store *store)
{
    return store->shown_count;
}

const char *exg_weight_store_state_name(const exg_weight_store *store, uint32_t index)
{
    return store->weights->items[store->shown[index]->weight].fqn;
}

/* What the device holds now. */
static void look_at(state *s)
{
    exg_accelerator *device = s->home.device;
    void *here = s->tensor.data != NULL ? s->tensor.data : malloc(s->home.bytes + 1);

    if (here != NULL &&
        (device->table->copy_out(device, here, s->home.data, s->home.bytes, NULL) != EXG_OK ||
         device->table->wait(device, NULL) != EXG_OK)) {
        free(here);
        here = NULL;
    }
    s->tensor.data = here;
}

const char *exg_weight_store_state_at(exg_weight_store *store, uint32_t index, exg_tensor *tensor)
{
    state *s = index < store->shown_count ? store->shown[index] : NULL;

    if (s == NULL) {
        return NULL;
    }
    if (s->home.device != NULL) {
        look_at(s);
    }
    *tensor = s->tensor;
    return exg_weight_store_state_name(store, index);
}

exg_status exg_weight_store_set_state(exg_weight_store *store, uint32_t index, const void *data,
                                      exg_error *err)
{
    for (state *s = store->states[store->shown[index]->weight]; s != NULL; s = s->next) {
        EXG_TRY(move_in(store, &s->home, data, err));
    }
    return EXG_OK;
}
