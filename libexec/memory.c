/* memory.c - bytes of weights, where they are mapped or read once; bytes of state,
 * which the program writes. */
#include "libexec/device/device.h"
#include "libexec/rank.h"
#include "libexport/base/arena.h"
#include "libexport/base/pipeline.h"
#include "libexport/weights/storage.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Where bytes lie: the host's memory, or a device's. */
typedef struct home {
    exg_accelerator *device; /* NULL: the host */
    void *data;
    uint64_t bytes;
} home;

typedef struct state {
    struct state *next; /* of the same weight, of another rank */
    const char *fqn;
    uint32_t rank;
    exg_tensor tensor; /* row-major; data is the home's, or what was copied from there */
    home home;
} state;

typedef struct made_block {
    exg_made made; /* first: what others know it by */
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

struct exg_memory {
    exg_budget budget;
    exg_scratch scratch;
    exg_weights *weights;
    exg_pool *pool;
    kept *storages;
    uint32_t share, shares; /* of the storages whose checksums are compared here; 0: of none */
    uint32_t compared;      /* storages up to here were, or are looked at one by one */
    state **states; /* by weight */
    state **shown;  /* those of rank 0, as they were asked for */
    uint32_t shown_count, shown_capacity;
    made_block *made;
    made_block **chains; /* by key, of those with one */
    uint32_t chained, chain_count; /* a power of two, or 0 */
    resident **residents; /* by storage */
};

exg_status exg_memory_create(exg_weights *weights, exg_pool *pool, exg_memory **memory,
                             exg_error *err)
{
    exg_memory *m = calloc(1, sizeof(*m));

    *memory = NULL;
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
    *memory = m;
    return EXG_OK;
}

void exg_memory_compare(exg_memory *memory, uint32_t share, uint32_t shares)
{
    const exg_weights *weights = memory->weights;
    double total = 1; /* more than all: the last share ends behind it */
    double before = 0;

    for (uint32_t i = 0; i < weights->storage_count; i++) {
        total += (double)weights->storages[i].length;
    }
    for (uint32_t i = 0; i < weights->storage_count; i++) {
        memory->storages[i].share = (uint32_t)(before / total * shares);
        before += (double)weights->storages[i].length;
    }
    memory->share = share;
    memory->shares = shares;
}

static exg_status settle(exg_memory *memory, exg_accelerator *device, uint64_t bytes, home *to,
                         exg_error *err)
{
    to->device = device;
    to->bytes = bytes;
    return exg_budget_allocate(&memory->budget, device, bytes, "weights", &to->data, err);
}

static void leave(exg_memory *memory, const home *to)
{
    exg_budget_release(&memory->budget, to->device, to->data, to->bytes);
}

/* All of it, from the host's memory. */
static exg_status move_in(const exg_memory *memory, const home *to, const void *from,
                          exg_error *err)
{
    exg_status status;

    if (to->device == NULL) {
        memcpy(to->data, from, to->bytes);
        return EXG_OK;
    }
    to->device->pool = memory->pool;
    status = to->device->table->copy_in(to->device, to->data, from, to->bytes, err);
    to->device->pool = NULL;
    return status == EXG_OK ? to->device->table->wait(to->device, err) : status;
}

static uint64_t state_bytes(const exg_tensor *tensor)
{
    return (uint64_t)exg_tensor_numel(tensor) * exg_dtype_bytes(tensor->dtype);
}

/* Where the host's bytes of a storage are counted. */
static uint64_t *count_of(exg_memory *memory, const kept *k)
{
    return k->data == NULL ? &memory->budget.mapped : &memory->budget.held;
}

/* The bytes of a storage that the host reads. */
static void drop_kept(exg_memory *memory, uint32_t index)
{
    kept *k = &memory->storages[index];

    *count_of(memory, k) -= k->read.end - k->read.first;
    exg_release(memory->budget.allocator, k->data, memory->weights->storages[index].length);
    *k = (kept){.share = k->share, .is_weight = k->is_weight};
}

static void drop_states(exg_memory *memory, state *s)
{
    while (s != NULL) {
        state *next = s->next;

        leave(memory, &s->home);
        if (s->home.device != NULL) {
            free(s->tensor.data);
        }
        free(s);
        s = next;
    }
}

static void drop_made(exg_memory *memory, made_block *block)
{
    *(block->previous == NULL ? &memory->made : &block->previous->next) = block->next;
    if (block->next != NULL) {
        block->next->previous = block->previous;
    }
    leave(memory, &block->home);
    free(block);
}

void exg_memory_destroy(exg_memory *memory)
{
    if (memory == NULL) {
        return;
    }
    exg_scratch_empty(&memory->scratch);
    for (uint32_t i = 0; i < memory->weights->storage_count; i++) {
        drop_kept(memory, i);
    }
    for (uint32_t i = 0; i < memory->weights->count; i++) {
        drop_states(memory, memory->states[i]);
    }
    while (memory->made != NULL) {
        drop_made(memory, memory->made);
    }
    for (uint32_t i = 0; i < memory->weights->storage_count; i++) {
        for (resident *r = memory->residents[i], *next; r != NULL; r = next) {
            next = r->next;
            leave(memory, &r->home);
            free(r);
        }
    }
    free(memory->storages);
    free(memory->states);
    free(memory->shown);
    free(memory->chains);
    free(memory->residents);
    exg_weights_release(memory->weights);
    free(memory);
}

exg_budget *exg_memory_budget(exg_memory *memory)
{
    return &memory->budget;
}

exg_scratch *exg_memory_scratch(exg_memory *memory)
{
    return &memory->scratch;
}

static const exg_weight *find_weight(const exg_memory *memory, const exg_plan_input *input)
{
    const exg_weight *weight = NULL;

    if (input->target != NULL && input->kind != EXG_INPUT_CONSTANT_TENSOR) {
        weight = exg_weights_find(memory->weights, EXG_TABLE_STATE, input->target);
    }
    if (weight == NULL && input->target != NULL) {
        weight = exg_weights_find(memory->weights, EXG_TABLE_CONSTANTS, input->target);
    }
    return weight;
}

exg_status exg_memory_check(const exg_memory *memory, const exg_plan_input *input,
                            exg_range range, exg_error *err)
{
    const exg_weight *weight = find_weight(memory, input);
    const exg_storage *storage;

    if (weight == NULL || weight->storage >= memory->weights->storage_count) {
        return EXG_FAIL(err, MALFORMED, "SIG-005", "no weight '%s'",
                        input->target == NULL ? "" : input->target);
    }
    storage = &memory->weights->storages[weight->storage];
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
    exg_memory *memory = context;
    uint32_t index = memory->compared + block;

    if (memory->storages[index].is_weight && memory->storages[index].share == memory->share) {
        (void)exg_storage_check_once(memory->weights, index, NULL, NULL);
    }
}

/* A storage a core: this one, and those that are asked for next. */
static void compare_ahead(exg_memory *memory, uint32_t storage)
{
    uint32_t left = memory->weights->storage_count - storage;
    uint32_t workers = exg_pipeline_workers(memory->pool);
    uint32_t count = left < workers ? left : workers;

    if (storage >= memory->compared) {
        memory->compared = storage;
        exg_pool_run(memory->pool, compare_one, memory, count);
        memory->compared = storage + count;
    }
}

/* A storage is compared with its checksum as a whole before any of it is used: here when all
 * of it is read or it lies in the share, else by the rank in whose share it lies. */
static exg_status compare(exg_memory *memory, const exg_plan_input *input, uint32_t storage,
                          exg_range range, exg_error *err)
{
    bool is_whole =
        range.first == 0 && range.end == memory->weights->storages[storage].length;

    if (memory->shares == 0 ||
        (!is_whole && memory->storages[storage].share != memory->share)) {
        return EXG_OK;
    }
    if (memory->pool != NULL) {
        compare_ahead(memory, storage);
    }
    EXG_TRY_IN(err, exg_storage_check_once(memory->weights, storage, memory->pool, err),
               "weights[\"%s\"]", input->target);
    return EXG_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* A part of a storage, frame by frame. */
typedef struct reading {
    exg_memory *memory;
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
    const exg_storage *storage = &r->memory->weights->storages[r->index];
    exg_range frame = frame_of(r, block->index);
    uint8_t *here = r->memory->storages[r->index].data + frame.first;

    EXG_TRY(exg_storage_read_with(r->memory->weights, r->index, frame.first,
                                  frame.end - frame.first, here,
                                  r->readers == NULL ? NULL : r->readers[block->worker], err));
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
                     r->memory->storages[r->index].data + frame.first, frame.end - frame.first,
                     err);
}

/* `to` (NULL: none) is room on a device for the part, which is asked to go there. */
static exg_status read_part(exg_memory *memory, uint32_t index, exg_range part, exg_dtype dtype,
                            const home *to, exg_error *err)
{
    reading r = {memory, index, part, dtype, to, NULL};
    uint32_t workers = exg_pipeline_workers(memory->pool);
    uint64_t frames = exg_frame_count(part.end - part.first / EXG_FRAME_BYTES * EXG_FRAME_BYTES);
    exg_status status;

    if (part.first >= part.end) {
        return EXG_OK;
    }
    if (memory->weights->storages[index].kind == EXG_STORAGE_FRAMES) {
        EXG_TRY(exg_frame_readers_create(workers, &r.readers, err));
    }
    status = exg_pipeline_run(frames == 1 ? NULL : memory->pool, frames, read_frame, send_frame, &r,
                              err);
    exg_frame_readers_destroy(r.readers, workers);
    exg_storage_forget(memory->weights, index, part.first / EXG_FRAME_BYTES * EXG_FRAME_BYTES,
                       part.end);
    return status;
}

/* What may be read grows to the hull of it and `range`. */
static exg_status widen(exg_memory *memory, uint32_t index, exg_range range, exg_dtype dtype,
                        exg_error *err)
{
    kept *k = &memory->storages[index];
    exg_range was = k->read.first == k->read.end ? (exg_range){range.first, range.first} : k->read;
    exg_range hull = {range.first < was.first ? range.first : was.first,
                      range.end > was.end ? range.end : was.end};
    uint64_t more = (hull.end - hull.first) - (was.end - was.first);
    exg_status status;

    if (range.first == range.end) {
        return EXG_OK;
    }
    EXG_TRY(exg_budget_take(&memory->budget, count_of(memory, k), more, "weights", err));
    if (k->data != NULL) {
        status = read_part(memory, index, (exg_range){hull.first, was.first}, dtype, NULL, err);
        status = status == EXG_OK ? read_part(memory, index, (exg_range){was.end, hull.end}, dtype,
                                              NULL, err)
                                  : status;
        if (status != EXG_OK) {
            *count_of(memory, k) -= more;
            return status;
        }
    }
    k->read = hull;
    return EXG_OK;
}

/* Where the file has it, as the host wants it; NULL: it has to be read, and there is room for
 * all of the storage. */
static exg_status map_or_make_room(exg_memory *memory, const exg_plan_input *input,
                                   const exg_weight *weight, const uint8_t **mapped, exg_error *err)
{
    uint32_t item = exg_dtype_bytes(input->tensor.dtype);
    uint64_t length = memory->weights->storages[weight->storage].length;
    kept *k = &memory->storages[weight->storage];

    *mapped = NULL;
    if (k->data != NULL) {
        return EXG_OK;
    }
    EXG_TRY_IN(err, exg_storage_host_bytes(memory->weights, weight->storage, mapped, err),
               "weights[\"%s\"]", input->target);
    if (*mapped != NULL && (uintptr_t)*mapped % (item > 8 ? 8 : item) == 0) {
        return EXG_OK;
    }
    *mapped = NULL;
    k->data = exg_allocate(memory->budget.allocator, length);
    return k->data == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

/* Where the host has it. */
static exg_status find_bytes(exg_memory *memory, const exg_plan_input *input,
                             const exg_weight *weight, exg_range range, const void **data,
                             exg_error *err)
{
    const uint8_t *mapped;

    EXG_TRY(map_or_make_room(memory, input, weight, &mapped, err));
    EXG_TRY_IN(err, widen(memory, weight->storage, range, input->tensor.dtype, err),
               "weights[\"%s\"]", input->target);
    *data = mapped != NULL ? mapped : memory->storages[weight->storage].data;
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
static exg_status bring(exg_memory *memory, const exg_plan_input *input, const exg_weight *weight,
                        exg_range range, const home *to, exg_error *err)
{
    const kept *k = &memory->storages[weight->storage];
    const uint8_t *mapped;
    const void *data;
    exg_status status;

    EXG_TRY(map_or_make_room(memory, input, weight, &mapped, err));
    if (mapped != NULL || k->read.first < k->read.end) {
        EXG_TRY(find_bytes(memory, input, weight, range, &data, err));
        return move_in(memory, to, (const uint8_t *)data + range.first, err);
    }
    status = read_part(memory, weight->storage, range, input->tensor.dtype, to, err);
    if (status != EXG_OK) { /* nothing of it is under way */
        (void)to->device->table->wait(to->device, NULL);
        return exg_error_within(err, status, "weights[\"%s\"]", input->target);
    }
    return to->device->table->wait(to->device, err);
}

/* A copy on the device of what `range` needs; the host's is not needed any more then. */
static exg_status take_residence(exg_memory *memory, exg_accelerator *device,
                                 const exg_plan_input *input, const exg_weight *weight,
                                 exg_range range, resident **found, exg_error *err)
{
    resident **first = &memory->residents[weight->storage];
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
    status = settle(memory, device, new->range.end - new->range.first, &new->home, err);
    status = status == EXG_OK ? bring(memory, input, weight, new->range, &new->home, err) : status;
    if (status != EXG_OK) {
        leave(memory, &new->home);
        free(new);
        return status;
    }
    if (memory->storages[weight->storage].data == NULL) {
        exg_storage_forget(memory->weights, weight->storage, 0, new->range.end);
    }
    drop_kept(memory, weight->storage);
    new->next = *first;
    *found = *first = new;
    return EXG_OK;
}

exg_status exg_memory_weight(exg_memory *memory, exg_accelerator *device,
                             const exg_plan_input *input, exg_range range, bool stays,
                             const void **data, exg_error *err)
{
    const exg_weight *weight = find_weight(memory, input);
    resident *found = NULL;

    EXG_TRY(exg_memory_check(memory, input, range, err));
    EXG_TRY(compare(memory, input, weight->storage, range, err));
    if (device == NULL) {
        memory->storages[weight->storage].stays |= stays;
        return find_bytes(memory, input, weight, range, data, err);
    }
    EXG_TRY(take_residence(memory, device, input, weight, range, &found, err));
    found->stays |= stays;
    *data = (const void *)((uintptr_t)found->home.data - (uintptr_t)found->range.first);
    return EXG_OK;
}

uint64_t exg_memory_weight_key(const exg_memory *memory, const exg_plan_input *input)
{
    const exg_weight *weight = find_weight(memory, input);

    return weight == NULL ? UINT64_MAX : weight->storage;
}

static void forget_residents(exg_memory *memory, const exg_accelerator *device, uint32_t storage)
{
    for (resident **at = &memory->residents[storage]; *at != NULL;) {
        resident *r = *at;

        if (r->home.device == device && !r->stays) {
            *at = r->next;
            leave(memory, &r->home);
            free(r);
        } else {
            at = &r->next;
        }
    }
}

void exg_memory_forget(exg_memory *memory, exg_accelerator *device, const exg_plan_input *input,
                       uint64_t bytes)
{
    const exg_weight *weight = find_weight(memory, input);
    const kept *k = weight == NULL ? NULL : &memory->storages[weight->storage];

    if (weight == NULL) {
        return;
    }
    if (device != NULL) {
        forget_residents(memory, device, weight->storage);
        return;
    }
    if (k->data == NULL) {
        exg_storage_forget(memory->weights, weight->storage, 0, bytes);
    }
    if (!k->stays) {
        drop_kept(memory, weight->storage);
    }
}

/* Room for one more key; keys are hashes. */
static bool widen_chains(exg_memory *memory)
{
    uint32_t count = memory->chain_count == 0 ? 64 : memory->chain_count * 2;
    made_block **chains;

    if (memory->chained < memory->chain_count) {
        return true;
    }
    chains = calloc(count, sizeof(made_block *));
    if (chains == NULL) {
        return false;
    }
    for (made_block *b = memory->made; b != NULL; b = b->next) {
        if (b->key != 0) {
            b->chain = chains[(b->key >> 1) % count];
            chains[(b->key >> 1) % count] = b;
        }
    }
    free(memory->chains);
    memory->chains = chains;
    memory->chain_count = count;
    return true;
}

exg_status exg_memory_made(exg_memory *memory, exg_accelerator *device, uint64_t key,
                           uint64_t bytes, exg_made **made, exg_error *err)
{
    made_block **chain;
    made_block *block;
    exg_status status;

    if (!widen_chains(memory)) {
        return EXG_OUT_OF_MEMORY(err);
    }
    chain = &memory->chains[(key >> 1) % memory->chain_count];
    for (block = key == 0 ? NULL : *chain; block != NULL; block = block->chain) {
        if (block->key == key && block->home.bytes == bytes && block->home.device == device) {
            *made = &block->made;
            return EXG_OK;
        }
    }
    block = calloc(1, sizeof(*block));
    if (block == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    block->key = key;
    status = settle(memory, device, bytes, &block->home, err);
    if (status != EXG_OK) {
        free(block);
        return status;
    }
    block->made.data = block->home.data;
    block->next = memory->made;
    if (block->next != NULL) {
        block->next->previous = block;
    }
    memory->made = block;
    if (key != 0) {
        block->chain = *chain;
        *chain = block;
        memory->chained++;
    }
    *made = &block->made;
    return EXG_OK;
}

void exg_memory_drop(exg_memory *memory, const exg_made *made)
{
    made_block *block = (made_block *)(uintptr_t)made;

    if (block != NULL && block->key == 0) {
        drop_made(memory, block);
    }
}

static state *find_state(exg_memory *memory, uint32_t rank, const exg_weight *weight)
{
    state *s = memory->states[weight - memory->weights->items];

    while (s != NULL && s->rank != rank) {
        s = s->next;
    }
    return s;
}

/* The state as the file has it, row-major. */
static exg_status first_state(exg_memory *memory, const exg_plan_input *input, const home *to,
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
    status = exg_memory_weight(
        memory, NULL, input,
        (exg_range){0, exg_tensor_numel(tensor) == 0 ? 0 : (uint64_t)(last + 1) * item}, true,
        &source, err);
    if (status == EXG_OK) {
        exg_tensor_gather(tensor, (const uint8_t *)source + (uint64_t)input->storage_offset * item,
                          here);
    }
    if (to->device != NULL) {
        status = status == EXG_OK ? move_in(memory, to, here, err) : status;
        free(here);
    }
    return status;
}

exg_status exg_memory_state(exg_memory *memory, exg_accelerator *device, uint32_t rank,
                            const exg_plan_input *input, void **data, exg_error *err)
{
    const exg_weight *weight = find_weight(memory, input);
    state *s = weight == NULL ? NULL : find_state(memory, rank, weight);
    state **first;
    state **shown;
    exg_status status;

    if (s != NULL) {
        *data = s->home.data;
        return EXG_OK;
    }
    EXG_TRY(exg_memory_check(memory, input, (exg_range){0, 0}, err));
    shown = grow(memory->shown, memory->shown_count, &memory->shown_capacity, sizeof(state *));
    memory->shown = shown == NULL ? memory->shown : shown;
    s = shown == NULL ? NULL : calloc(1, sizeof(*s));
    if (s == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    *s = (state){.fqn = weight->fqn, .rank = rank, .tensor = input->tensor};
    status = settle(memory, device, state_bytes(&s->tensor), &s->home, err);
    status = status == EXG_OK ? first_state(memory, input, &s->home, err) : status;
    if (status != EXG_OK) {
        leave(memory, &s->home);
        free(s);
        return status;
    }
    exg_tensor_set_contiguous(&s->tensor);
    s->tensor.data = device == NULL ? s->home.data : NULL;
    first = &memory->states[weight - memory->weights->items];
    s->next = *first;
    *first = s;
    if (rank == 0) {
        shown[memory->shown_count++] = s;
    }
    *data = s->home.data;
    return EXG_OK;
}

uint32_t exg_memory_state_count(const exg_memory *memory)
{
    return memory->shown_count;
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

const char *exg_memory_state_at(exg_memory *memory, uint32_t index, exg_tensor *tensor)
{
    state *s = index < memory->shown_count ? memory->shown[index] : NULL;

    if (s == NULL) {
        return NULL;
    }
    if (s->home.device != NULL) {
        look_at(s);
    }
    *tensor = s->tensor;
    return s->fqn;
}
