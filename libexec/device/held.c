/* held.c - see held.h. */
#include "libexec/device/held.h"

#include <stdlib.h>
#include <string.h>

#define KEPT_MAX  64
#define ROUND     512u
#define ASKED_MAX 256 /* uses of the arena between two waits */

typedef struct kept {
    void *address;
    uint64_t bytes;
} kept;

struct exg_held_device {
    exg_accelerator *open;
    uint32_t uses;
    kept kept[KEPT_MAX]; /* given back, the oldest first */
    uint32_t kept_count;
    exg_arena *asked; /* what was asked for since works with this; NULL: nothing was */
    uint32_t asked_count;
};

exg_status exg_held_open(const char *kind, uint32_t index, exg_held_device **held, exg_error *err)
{
    const exg_device_table *table;
    exg_held_device *made;
    uint32_t count;
    exg_status status;

    *held = NULL;
    if (strcmp(kind, exg_device_kind(0)) == 0) {
        return EXG_OK;
    }
    EXG_TRY(exg_device_table_find(kind, &table, err));
    EXG_TRY(table->count(&count, err));
    made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    made->uses = 1;
    index %= count;
    status = table->open(index, &made->open, err);
    if (status != EXG_OK) {
        free(made);
        return exg_error_within(err, status, "%s:%u", kind, index);
    }
    *held = made;
    return EXG_OK;
}

exg_held_device *exg_held_share(exg_held_device *held)
{
    if (held != NULL) {
        held->uses++;
    }
    return held;
}

bool exg_held_trim(exg_held_device *held)
{
    bool any = held->kept_count > 0;

    for (uint32_t i = 0; i < held->kept_count; i++) {
        held->open->table->release(held->open, held->kept[i].address);
    }
    held->kept_count = 0;
    return any;
}

void exg_held_release(exg_held_device *held)
{
    if (held != NULL && --held->uses == 0) {
        (void)exg_held_trim(held);
        held->open->table->close(held->open);
        exg_arena_destroy(held->asked);
        free(held);
    }
}

exg_accelerator *exg_held_accelerator(const exg_held_device *held)
{
    return held == NULL ? NULL : held->open;
}

static uint64_t rounded(uint64_t bytes)
{
    return bytes > UINT64_MAX - ROUND ? bytes : (bytes + ROUND - 1) / ROUND * ROUND;
}

/* The one given back last is likeliest near. */
static void *take_kept(exg_held_device *held, uint64_t bytes)
{
    for (uint32_t i = held->kept_count; i-- > 0;) {
        if (held->kept[i].bytes == bytes) {
            void *address = held->kept[i].address;

            held->kept_count--;
            memmove(&held->kept[i], &held->kept[i + 1],
                    (held->kept_count - i) * sizeof(held->kept[0]));
            return address;
        }
    }
    return NULL;
}

exg_status exg_held_take(exg_held_device *held, uint64_t bytes, void **address, exg_error *err)
{
    const exg_device_table *table = held->open->table;
    uint64_t whole = table->shows_releases ? bytes : rounded(bytes);
    exg_status status;

    *address = table->shows_releases ? NULL : take_kept(held, whole);
    if (*address != NULL) {
        return EXG_OK;
    }
    status = table->allocate(held->open, whole, address, err);
    if (status == EXG_NO_MEMORY && exg_held_trim(held)) {
        exg_error_clear(err);
        status = table->allocate(held->open, whole, address, err);
    }
    return status;
}

void exg_held_give(exg_held_device *held, void *address, uint64_t bytes)
{
    if (held->kept_count == KEPT_MAX) {
        (void)exg_held_trim(held);
    }
    held->kept[held->kept_count++] =
        (kept){address, held->open->table->shows_releases ? bytes : rounded(bytes)};
}

/* What is in it stays until what is asked for next is done. */
static exg_status arena_for_asked(exg_held_device *held, exg_arena **arena, exg_error *err)
{
    if (held->asked == NULL) {
        held->asked = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    }
    if (held->asked == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (held->asked_count++ == ASKED_MAX) {
        EXG_TRY(held->open->table->wait(held->open, err));
        exg_arena_reset(held->asked);
        held->asked_count = 1;
    }
    *arena = held->asked;
    return EXG_OK;
}

exg_status exg_held_launch(exg_held_device *held, const exg_kernel *kernel,
                           const exg_kernel_call *call, exg_error *err)
{
    exg_kernel_call made = *call;
    exg_status status;

    made.device = held->open;
    EXG_TRY(arena_for_asked(held, &made.arena, err));
    EXG_TRY(kernel->prepare(&made, err));
    if (made.workspace_bytes > 0) {
        EXG_TRY(exg_held_take(held, made.workspace_bytes, &made.workspace, err));
    }
    status = held->open->table->launch(held->open, kernel, &made, made.input_count, err);
    if (made.workspace_bytes > 0) {
        exg_held_give(held, made.workspace, made.workspace_bytes);
    }
    return status;
}

exg_status exg_held_compute(exg_held_device *held, const exg_kernel *kernel,
                            const exg_kernel_call *call, exg_error *err)
{
    const exg_kernel *own = held->open->table->kernel_of(kernel);

    return own == NULL ? EXG_FAIL(err, UNSUPPORTED, "KRN-001", "the device has no kernel '%s'",
                                  kernel->name)
                       : exg_held_launch(held, own, call, err);
}
