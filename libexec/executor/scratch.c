/* scratch.c - blocks by use, level and rank. */
#include "libexec/executor/scratch.h"
#include "libexec/device/device.h"

#include <stdlib.h>
#include <string.h>

typedef struct block {
    void *data; /* NULL: none yet */
    uint64_t bytes;
} block;

/* The blocks of one use, by index. */
struct exg_scratch_row {
    exg_scratch_key key; /* of index 0 */
    exg_accelerator *device;
    block *blocks;
    uint32_t count;
};

static const char *const names[] = {
    [EXG_SCRATCH_VALUES] = "a plan's values",
    [EXG_SCRATCH_WORKSPACE] = "a plan's workspace",
    [EXG_SCRATCH_STAGING] = "steps that the host computes",
    [EXG_SCRATCH_STAGING_WORKSPACE] = "steps that the host computes",
    [EXG_SCRATCH_INPUT] = "inputs",
    [EXG_SCRATCH_RESULT] = "results",
    [EXG_SCRATCH_COPY] = "a rank's input",
    [EXG_SCRATCH_GIVEN] = "an input that is a result of the last run",
    [EXG_SCRATCH_GIVEN_THERE] = "an input that is a result of the last run",
    [EXG_SCRATCH_LOOP] = "a loop's result",
};

/* Would `bytes` more leave less than half of what may be held? Then blocks are no larger than what
 * is asked for. */
static bool is_tight(const exg_memory_budget *budget, uint64_t bytes)
{
    uint64_t taken = budget->held + (budget->of_machine ? 0 : budget->mapped);

    return budget->limit != 0 && (taken > budget->limit / 2 || bytes > budget->limit / 2 - taken);
}

static exg_scratch_row *find_row(exg_scratch *scratch, exg_scratch_key key)
{
    exg_scratch_row *rows = scratch->rows;

    for (uint32_t i = 0; i < scratch->row_count; i++) {
        if (rows[i].key.use == key.use && rows[i].key.level == key.level &&
            rows[i].key.rank == key.rank) {
            return &rows[i];
        }
    }
    if (scratch->row_count == scratch->row_capacity) {
        uint32_t capacity = scratch->row_capacity == 0 ? 8 : scratch->row_capacity * 2;

        rows = realloc(rows, capacity * sizeof(*rows));
        if (rows == NULL) {
            return NULL;
        }
        scratch->rows = rows;
        scratch->row_capacity = capacity;
    }
    rows[scratch->row_count] = (exg_scratch_row){.key = key};
    return &rows[scratch->row_count++];
}

static block *find_block(exg_scratch *scratch, exg_scratch_key key, exg_accelerator *device)
{
    exg_scratch_row *row = find_row(scratch, key);

    if (row == NULL) {
        return NULL;
    }
    row->device = device;
    if (key.index >= row->count) {
        uint32_t count = key.index + 1 > row->count * 2 ? key.index + 1 : row->count * 2;
        block *blocks = realloc(row->blocks, count * sizeof(*blocks));

        if (blocks == NULL) {
            return NULL;
        }
        memset(blocks + row->count, 0, (count - row->count) * sizeof(*blocks));
        row->blocks = blocks;
        row->count = count;
    }
    return &row->blocks[key.index];
}

static void release(exg_scratch *scratch, exg_accelerator *device, block *b)
{
    exg_memory_budget_release(scratch->budget, device, b->data, b->bytes);
    scratch->moves += b->data != NULL;
    *b = (block){0};
}

/* Sizes that grow from run to run ask for a block now and then, not each time. */
static uint64_t room_for(const exg_scratch *scratch, uint64_t bytes, uint64_t before, bool exact)
{
    uint64_t more = before + before / 4;

    return !exact && bytes < more && !is_tight(scratch->budget, more) ? more : bytes;
}

exg_status exg_scratch_block(exg_scratch *scratch, exg_scratch_key key, exg_accelerator *device,
                             uint64_t bytes, void **data, exg_error *err)
{
    block *b = find_block(scratch, key, device);
    bool exact = device != NULL && device->table->shows_releases;
    uint64_t before;

    if (b == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    before = b->bytes;
    if (b->data != NULL &&
        (bytes > before || (bytes < before && (exact || is_tight(scratch->budget, 0))))) {
        release(scratch, device, b);
    }
    if (b->data == NULL) {
        uint64_t room = room_for(scratch, bytes, before, exact || bytes < before);

        EXG_TRY(exg_memory_budget_allocate(scratch->budget, device, room, names[key.use], &b->data,
                                           err));
        b->bytes = room;
        scratch->moves++;
    }
    *data = b->data;
    return EXG_OK;
}

bool exg_scratch_holds(const exg_scratch *scratch, const struct exg_accelerator *device,
                       const void *data, uint64_t bytes)
{
    uintptr_t first = (uintptr_t)data;

    for (uint32_t i = 0; i < scratch->row_count; i++) {
        const exg_scratch_row *row = &scratch->rows[i];

        for (uint32_t k = 0; k < row->count; k++) {
            uintptr_t begin = (uintptr_t)row->blocks[k].data;

            if (row->device == device && row->key.use != EXG_SCRATCH_GIVEN &&
                row->key.use != EXG_SCRATCH_GIVEN_THERE && begin != 0 &&
                first < begin + row->blocks[k].bytes && begin < first + bytes) {
                return true;
            }
        }
    }
    return false;
}

bool exg_scratch_evict(exg_scratch *scratch)
{
    for (uint32_t i = 0; i < scratch->row_count; i++) {
        exg_scratch_row *row = &scratch->rows[i];

        for (uint32_t k = 0; row->key.level >= scratch->live && k < row->count; k++) {
            if (row->blocks[k].data != NULL) {
                release(scratch, row->device, &row->blocks[k]);
                return true;
            }
        }
    }
    return false;
}

void exg_scratch_empty(exg_scratch *scratch)
{
    for (uint32_t i = 0; i < scratch->row_count; i++) {
        exg_scratch_row *row = &scratch->rows[i];

        for (uint32_t k = 0; k < row->count; k++) {
            release(scratch, row->device, &row->blocks[k]);
        }
        free(row->blocks);
    }
    free(scratch->rows);
    *scratch = (exg_scratch){.budget = scratch->budget};
}
