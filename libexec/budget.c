/* budget.c - blocks are asked for, and given back, here. */
#include "libexec/budget.h"
#include "libexec/device/device.h"
#include "libexport/base/arena.h"

#include <inttypes.h>

static bool fits(const exg_budget *b, uint64_t bytes)
{
    uint64_t taken = b->held + b->mapped;

    return b->limit == 0 || (taken <= b->limit && bytes <= b->limit - taken);
}

exg_status exg_budget_take(exg_budget *budget, uint64_t *count, uint64_t bytes, const char *what,
                           exg_error *err)
{
    while (!fits(budget, bytes) && budget->spare != NULL && budget->spare(budget->context)) {
    }
    if (!fits(budget, bytes)) {
        budget->refused = true;
        return exg_error_fix(err,
                             EXG_FAIL(err, LIMIT, "PLC-009",
                                      "%" PRIu64 " bytes for %s, beside %" PRIu64
                                      " that the run holds, are more than the %" PRIu64
                                      " it may take",
                                      bytes, what, budget->held + budget->mapped, budget->limit),
                             EXG_BUDGET_FIX);
    }
    *count += bytes;
    return EXG_OK;
}

exg_status exg_budget_allocate(exg_budget *budget, exg_accelerator *device, uint64_t bytes,
                               const char *what, void **block, exg_error *err)
{
    exg_status status = EXG_OK;

    *block = NULL;
    EXG_TRY(exg_budget_take(budget, &budget->held, bytes, what, err));
    if (device != NULL) {
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

void exg_budget_release(exg_budget *budget, exg_accelerator *device, void *block, uint64_t bytes)
{
    if (block == NULL) {
        return;
    }
    if (device != NULL) {
        device->table->release(device, block);
    } else {
        exg_release(budget->allocator, block, bytes);
    }
    budget->held -= bytes;
}
