/* memory_budget.h - what a session holds, counted in one place, and how much that may be.
 *
 *   held     blocks, in the host's memory or a device's, and what was filled of unpacked weights
 *   mapped   weights that are read where a file has them
 *
 * Where the limit would be passed, what is not needed now is evicted, as long as there is any.
 */
#ifndef EXG_LIBEXEC_EXECUTOR_MEMORY_BUDGET_H
#define EXG_LIBEXEC_EXECUTOR_MEMORY_BUDGET_H

#include <exg/memory.h>
#include <exg/status.h>
#include <stdbool.h>

struct exg_accelerator;

#define EXG_MEMORY_BUDGET_FIX                                                                      \
    "raise the limit (--memory-limit), give smaller inputs, or spread it over ranks (--mesh N "    \
    "--place fsdp)"

typedef struct exg_memory_budget {
    const exg_allocator *allocator;        /* of the host's blocks; NULL: the system's */
    const exg_allocator *device_allocator; /* of the device's; NULL: the device's own */
    uint64_t limit;                        /* 0: any */
    bool of_machine; /* the limit is what the machine has: of what is held alone */
    uint64_t held, mapped;
    bool (*evict)(void *context); /* frees something: false, there is nothing; may be NULL */
    void *context;
    bool refused; /* something, since this was last cleared */
} exg_memory_budget;

/* Counts `bytes` more under `count`, &budget->held or &budget->mapped: LIMIT PLC-009. `what` they
 * are for, in words. */
exg_status exg_memory_budget_take(exg_memory_budget *budget, uint64_t *count, uint64_t bytes,
                                  const char *what, exg_error *err);

/* Bytes of memory that this process may have: the machine's, or its control group's where that is
 * less; 0: nobody knows. */
uint64_t exg_machine_bytes(void);

/* A counted block, on the host (`device` NULL; aligned to 64) or the device (to 256). LIMIT
 * PLC-009; NO_MEMORY MEM-002, or what the device says; USAGE MEM-003, device_allocator gave other
 * memory. */
exg_status exg_memory_budget_allocate(exg_memory_budget *budget, struct exg_accelerator *device,
                                      uint64_t bytes, const char *what, void **block,
                                      exg_error *err);

/* `block` may be NULL: then nothing was counted. Work that was asked of the device may still use
 * it. */
void exg_memory_budget_release(exg_memory_budget *budget, struct exg_accelerator *device,
                               void *block, uint64_t bytes);

#endif
