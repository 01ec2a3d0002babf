/* memory.c - bytes of weights, where they are mapped or read once; bytes of state,
 * which the program writes. */
#include "libexec/rank.h"
#include "libexport/base/arena.h"
#include "libexport/weights/storage.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct state {
    const char *fqn;
    uint32_t rank;
    exg_tensor tensor; /* row-major, data owned */
} state;

typedef struct made_block {
    uint64_t key, bytes;
    exg_made made;
} made_block;

/* A storage read here: room for all of it, of which `read` is filled. */
typedef struct kept {
    uint8_t *data; /* NULL: not read here */
    exg_range read;
} kept;

struct exg_memory {
    exg_weights *weights;
    kept *storages;
    state *states;
    uint32_t state_count, state_capacity;
    made_block **made;
    uint32_t made_count, made_capacity;
    uint64_t bytes;
};

exg_status exg_memory_create(exg_weights *weights, exg_memory **memory, exg_error *err)
{
    exg_memory *m = calloc(1, sizeof(*m));

    *memory = NULL;
    if (m != NULL) {
        m->storages = calloc(weights->storage_count + 1, sizeof(*m->storages));
    }
    if (m == NULL || m->storages == NULL) {
        free(m);
        return EXG_OUT_OF_MEMORY(err);
    }
    m->weights = exg_weights_retain(weights);
    *memory = m;
    return EXG_OK;
}

static uint64_t state_bytes(const exg_tensor *tensor)
{
    return (uint64_t)exg_tensor_numel(tensor) * exg_dtype_bytes(tensor->dtype);
}

void exg_memory_destroy(exg_memory *memory)
{
    const exg_allocator *allocator;

    if (memory == NULL) {
        return;
    }
    allocator = exg_arena_allocator(memory->weights->arena);
    for (uint32_t i = 0; i < memory->weights->storage_count; i++) {
        exg_release(allocator, memory->storages[i].data, memory->weights->storages[i].length);
    }
    for (uint32_t i = 0; i < memory->state_count; i++) {
        exg_release(allocator, memory->states[i].tensor.data,
                    state_bytes(&memory->states[i].tensor));
    }
    for (uint32_t i = 0; i < memory->made_count; i++) {
        exg_release(allocator, memory->made[i]->made.data, memory->made[i]->bytes);
        free(memory->made[i]);
    }
    free(memory->storages);
    free(memory->states);
    free(memory->made);
    exg_weights_release(memory->weights);
    free(memory);
}

uint64_t exg_memory_bytes(const exg_memory *memory)
{
    return memory->bytes;
}

static void *allocate(exg_memory *memory, uint64_t bytes)
{
    void *data = exg_allocate(exg_arena_allocator(memory->weights->arena), bytes);

    if (data != NULL) {
        memory->bytes += bytes;
    }
    return data;
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

static exg_status check_range(const exg_memory *memory, const exg_plan_input *input,
                              const exg_weight *weight, exg_range range, exg_error *err)
{
    const exg_storage *storage;

    if (weight == NULL || weight->storage >= memory->weights->storage_count) {
        return EXG_FAIL(err, MALFORMED, "SIG-005", "no weight '%s'",
                        input->target == NULL ? "" : input->target);
    }
    storage = &memory->weights->storages[weight->storage];
    if (storage->length == 0 && range.end > 0) {
        return EXG_FAIL(err, UNSUPPORTED, "WGT-012",
                        "weight '%s' has no data (a structure-only file)",
                        input->target);
    }
    if (range.end > storage->length) {
        return EXG_FAIL(err, MALFORMED, "WGT-005",
                        "weight '%s' reaches %" PRIu64 " bytes into a storage of %" PRIu64,
                        input->target, range.end, storage->length);
    }
    return EXG_OK;
}

static exg_status read_part(exg_memory *memory, uint32_t index, exg_range part, exg_dtype dtype,
                            exg_error *err)
{
    const exg_storage *storage = &memory->weights->storages[index];
    uint8_t *to = memory->storages[index].data + part.first;

    if (part.first >= part.end) {
        return EXG_OK;
    }
    EXG_TRY(exg_storage_read(memory->weights, index, part.first, part.end - part.first, to, err));
    if (storage->byte_order != exg_host_byte_order()) {
        uint64_t item = exg_dtype_bytes(dtype);

        exg_bytes_swap(to, (part.end - part.first) / item * item, dtype);
    }
    return EXG_OK;
}

/* What is filled grows to the hull of it and `range`. */
static exg_status fill(exg_memory *memory, uint32_t index, exg_range range, exg_dtype dtype,
                       exg_error *err)
{
    kept *k = &memory->storages[index];

    if (k->read.first == k->read.end) {
        EXG_TRY(read_part(memory, index, range, dtype, err));
        k->read = range;
        return EXG_OK;
    }
    EXG_TRY(read_part(memory, index, (exg_range){range.first, k->read.first}, dtype, err));
    k->read.first = range.first < k->read.first ? range.first : k->read.first;
    EXG_TRY(read_part(memory, index, (exg_range){k->read.end, range.end}, dtype, err));
    k->read.end = range.end > k->read.end ? range.end : k->read.end;
    return EXG_OK;
}

exg_status exg_memory_weight(exg_memory *memory, const exg_plan_input *input, exg_range range,
                             const void **data, exg_error *err)
{
    const exg_weight *weight = find_weight(memory, input);
    const uint8_t *mapped;
    uint32_t item = exg_dtype_bytes(input->tensor.dtype);
    kept *k;

    EXG_TRY(check_range(memory, input, weight, range, err));
    k = &memory->storages[weight->storage];
    if (k->data == NULL) {
        EXG_TRY_IN(err, exg_storage_map(memory->weights, weight->storage, &mapped, err),
                   "weights[\"%s\"]", input->target);
        if (mapped != NULL && (uintptr_t)mapped % (item > 8 ? 8 : item) == 0) {
            *data = mapped;
            return EXG_OK;
        }
        k->data = allocate(memory, memory->weights->storages[weight->storage].length);
        if (k->data == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
    }
    EXG_TRY_IN(err, fill(memory, weight->storage, range, input->tensor.dtype, err),
               "weights[\"%s\"]", input->target);
    *data = k->data;
    return EXG_OK;
}

uint64_t exg_memory_weight_key(const exg_memory *memory, const exg_plan_input *input)
{
    const exg_weight *weight = find_weight(memory, input);

    return weight == NULL ? UINT64_MAX : weight->storage;
}

void exg_memory_forget(exg_memory *memory, const exg_plan_input *input, uint64_t bytes)
{
    const exg_weight *weight = find_weight(memory, input);

    if (weight != NULL && memory->storages[weight->storage].data == NULL) {
        exg_storage_forget(memory->weights, weight->storage, 0, bytes);
    }
}

exg_status exg_memory_made(exg_memory *memory, uint64_t key, uint64_t bytes, exg_made **made,
                           exg_error *err)
{
    made_block *block;

    for (uint32_t i = 0; key != 0 && i < memory->made_count; i++) {
        if (memory->made[i]->key == key && memory->made[i]->bytes == bytes) {
            *made = &memory->made[i]->made;
            return EXG_OK;
        }
    }
    if (memory->made_count == memory->made_capacity) {
        uint32_t capacity = memory->made_capacity == 0 ? 64 : memory->made_capacity * 2;
        made_block **blocks = realloc(memory->made, capacity * sizeof(made_block *));

        if (blocks == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
        memory->made = blocks;
        memory->made_capacity = capacity;
    }
    block = calloc(1, sizeof(*block));
    if (block == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    *block = (made_block){.key = key, .bytes = bytes, .made.data = allocate(memory, bytes)};
    if (block->made.data == NULL) {
        free(block);
        return EXG_FAIL(err, NO_MEMORY, "MEM-002", "%" PRIu64 " bytes made from weights", bytes);
    }
    memory->made[memory->made_count++] = block;
    *made = &block->made;
    return EXG_OK;
}

void exg_memory_drop(exg_memory *memory, const exg_made *made)
{
    for (uint32_t i = 0; i < memory->made_count; i++) {
        made_block *block = memory->made[i];

        if (&block->made == made && block->key == 0) {
            exg_release(exg_arena_allocator(memory->weights->arena), block->made.data, block->bytes);
            memory->bytes -= block->bytes;
            memory->made[i] = memory->made[--memory->made_count];
            free(block);
            return;
        }
    }
}

/* Copies a window into row-major memory, element by element. */
static void gather(const exg_tensor *window, const uint8_t *from, uint8_t *to)
{
    uint32_t item = exg_dtype_bytes(window->dtype);
    int64_t index[EXG_RANK_MAX] = {0};
    int64_t count = exg_tensor_numel(window);

    for (int64_t i = 0; i < count; i++) {
        int64_t offset = 0;

        for (uint32_t d = 0; d < window->rank; d++) {
            offset += index[d] * window->strides[d];
        }
        memcpy(to + (uint64_t)i * item, from + offset * item, item);
        for (uint32_t d = window->rank; d-- > 0 && ++index[d] == window->sizes[d];) {
            index[d] = 0;
        }
    }
}

static state *find_state(exg_memory *memory, uint32_t rank, const char *fqn)
{
    for (uint32_t i = 0; i < memory->state_count; i++) {
        if (memory->states[i].rank == rank && strcmp(memory->states[i].fqn, fqn) == 0) {
            return &memory->states[i];
        }
    }
    return NULL;
}

exg_status exg_memory_state(exg_memory *memory, uint32_t rank, const exg_plan_input *input,
                            void **data, exg_error *err)
{
    const exg_weight *weight = find_weight(memory, input);
    state *s = weight == NULL ? NULL : find_state(memory, rank, weight->fqn);
    exg_tensor tensor = input->tensor;
    const void *source;
    uint64_t item = exg_dtype_bytes(tensor.dtype);
    int64_t last = input->storage_offset;

    if (s != NULL) {
        *data = s->tensor.data;
        return EXG_OK;
    }
    for (uint32_t d = 0; d < tensor.rank; d++) {
        last += (tensor.sizes[d] - 1) * tensor.strides[d];
    }
    EXG_TRY(exg_memory_weight(
        memory, input,
        (exg_range){0, exg_tensor_numel(&tensor) == 0 ? 0 : (uint64_t)(last + 1) * item}, &source,
        err));
    if (memory->state_count == memory->state_capacity) {
        uint32_t capacity = memory->state_capacity == 0 ? 8 : memory->state_capacity * 2;
        state *states = realloc(memory->states, capacity * sizeof(*states));

        if (states == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
        memory->states = states;
        memory->state_capacity = capacity;
    }
    tensor.data = allocate(memory, state_bytes(&tensor));
    if (tensor.data == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    gather(&input->tensor, (const uint8_t *)source + (uint64_t)input->storage_offset * item,
           tensor.data);
    exg_tensor_set_contiguous(&tensor);
    memory->states[memory->state_count++] = (state){weight->fqn, rank, tensor};
    *data = tensor.data;
    return EXG_OK;
}

uint32_t exg_memory_state_count(const exg_memory *memory)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < memory->state_count; i++) {
        count += memory->states[i].rank == 0;
    }
    return count;
}

const char *exg_memory_state_at(const exg_memory *memory, uint32_t index, exg_tensor *tensor)
{
    for (uint32_t i = 0; i < memory->state_count; i++) {
        if (memory->states[i].rank == 0 && index-- == 0) {
            *tensor = memory->states[i].tensor;
            return memory->states[i].fqn;
        }
    }
    return NULL;
}
