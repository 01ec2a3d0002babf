/* memory_budget.c - blocks are asked for, and given back, here. */
#include "libexec/executor/memory_budget.h"
#include "libexec/device/device.h"
#include "libexport/base/arena.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define DEVICE_ALIGNMENT 256

/* `0` where the file is not there or holds no number. */
static uint64_t read_number(const char *path)
{
    FILE *f = fopen(path, "re");
    unsigned long long number = 0;

    if (f != NULL) {
        if (fscanf(f, "%llu", &number) != 1) {
            number = 0;
        }
        fclose(f);
    }
    return number;
}

uint64_t exg_machine_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    long page = sysconf(_SC_PAGESIZE);
    uint64_t machine = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
    uint64_t group = read_number("/sys/fs/cgroup/memory.max");

    group = group == 0 ? read_number("/sys/fs/cgroup/memory/memory.limit_in_bytes") : group;
    return group > 0 && (machine == 0 || group < machine) ? group : machine;
}

static bool fits(const exg_memory_budget *b, uint64_t bytes)
{
    uint64_t taken = b->held + (b->of_machine ? 0 : b->mapped);

    return b->limit == 0 || (taken <= b->limit && bytes <= b->limit - taken);
}

exg_status exg_memory_budget_take(exg_memory_budget *budget, uint64_t *count, uint64_t bytes,
                                  const char *what, exg_error *err)
{
    if (budget->of_machine && count == &budget->mapped) { /* the system lets go of it */
        *count += bytes;
        return EXG_OK;
    }
    while (!fits(budget, bytes) && budget->evict != NULL && budget->evict(budget->context)) {
    }
    if (!fits(budget, bytes)) {
        budget->refused = true;
        return exg_error_fix(err,
                             EXG_FAIL(err, LIMIT, "PLC-009",
                                      "%" PRIu64 " bytes for %s, beside %" PRIu64
                                      " that the run holds, are more than the %" PRIu64
                                      " it may take",
                                      bytes, what, budget->held + budget->mapped, budget->limit),
                             EXG_MEMORY_BUDGET_FIX);
    }
    *count += bytes;
    return EXG_OK;
}

/* NULL: there is no more. */
static exg_status allocate_by_caller(const exg_allocator *allocator, exg_accelerator *device,
                                     uint64_t bytes, void **block, exg_error *err)
{
    *block = allocator->allocate(allocator->user, (size_t)bytes, DEVICE_ALIGNMENT);
    if (*block == NULL ||
        ((uintptr_t)*block % DEVICE_ALIGNMENT == 0 && device->table->holds(device, *block))) {
        return EXG_OK;
    }
    allocator->release(allocator->user, *block, (size_t)bytes);
    *block = NULL;
    return exg_error_fix(
        err,
        EXG_FAIL(
            err, USAGE, "MEM-003",
            "device_allocator gave memory that is not the device's, or not at a multiple of %d",
            DEVICE_ALIGNMENT),
        "give memory of the GPU that the session was created on");
}

exg_status exg_memory_budget_allocate(exg_memory_budget *budget, exg_accelerator *device,
                                      uint64_t bytes, const char *what, void **block,
                                      exg_error *err)
{
    exg_status status = EXG_OK;

    *block = NULL;
    EXG_TRY(exg_memory_budget_take(budget, &budget->held, bytes, what, err));
    if (device != NULL && budget->device_allocator != NULL && bytes > 0) {
        status = allocate_by_caller(budget->device_allocator, device, bytes, block, err);
    } else if (device != NULL) {
        status = device->table->allocate(device, bytes, block, err);
    } else {
        *block = exg_allocate(budget->allocator, bytes);
    }
    if (status == EXG_OK && *block == NULL) {
        status = EXG_FAIL(err, NO_MEMORY, "MEM-002", "%" PRIu64 " bytes for %s", bytes, what);
    }
    budget->held -= status == EXG_OK ? 0 : bytes;
    return status;
}

void exg_memory_budget_release(exg_memory_budget *budget, exg_accelerator *device, void *block,
                               uint64_t bytes)
{
    if (block == NULL) {
        return;
    }
    if (device != NULL && budget->device_allocator != NULL && bytes > 0) {
        (void)device->table->wait(device, NULL); /* the caller may use it again at once */
        budget->device_allocator->release(budget->device_allocator->user, block, (size_t)bytes);
    } else if (device != NULL) {
        device->table->release(device, block);
    } else {
        exg_release(budget->allocator, block, bytes);
    }
    budget->held -= bytes;
}
