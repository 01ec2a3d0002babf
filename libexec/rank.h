/* rank.h - a plan bound to memory: what one rank of a session runs. */
#ifndef EXG_LIBEXEC_RANK_H
#define EXG_LIBEXEC_RANK_H

#include "libexec/budget.h"
#include "libexec/comm/grid.h"
#include "libexec/plan/plan_internal.h"
#include "libexec/scratch.h"

#include <exg/weights.h>

/* Bytes of weights and state, shared by all plans of a session. */
typedef struct exg_memory exg_memory;

/* `pool` (may be NULL) reads and copies what is long, and must stay. */
exg_status exg_memory_create(exg_weights *weights, exg_pool *pool, exg_memory **memory,
                             exg_error *err);
void exg_memory_destroy(exg_memory *memory); /* NULL is allowed */

/* Checksums are compared when weights are first read: of storages that are read as a whole,
 * and of those in one of `shares` shares of all bytes, the others being compared elsewhere;
 * without this call, of all; with 0 shares, of none. */
void exg_memory_compare(exg_memory *memory, uint32_t share, uint32_t shares);

/* What is counted of them, and of all plans: without a limit at first. */
exg_budget *exg_memory_budget(exg_memory *memory);

/* What all plans take turns in. */
exg_scratch *exg_memory_scratch(exg_memory *memory);

/* Bytes of a storage. */
typedef struct exg_range {
    uint64_t first, end;
} exg_range;

/* The first byte of the storage behind a weight input, aligned for its dtype: on the host
 * (`device` NULL) mapped where possible, else kept in memory; on a device a copy. Of that only
 * `range` is there to be read, and what was asked for before: the rest is not even read from
 * the file. It `stays` with the memory, or until exg_memory_forget(). */
exg_status exg_memory_weight(exg_memory *memory, struct exg_accelerator *device,
                             const exg_plan_input *input, exg_range range, bool stays,
                             const void **data, exg_error *err);

/* Is there such a weight, with the bytes of `range`? SIG-005, WGT-005, WGT-012. */
exg_status exg_memory_check(const exg_memory *memory, const exg_plan_input *input,
                            exg_range range, exg_error *err);

/* A rank's own row-major copy of a weight that the program writes, made from the
 * weight's window on first use. */
exg_status exg_memory_state(exg_memory *memory, struct exg_accelerator *device, uint32_t rank,
                            const exg_plan_input *input, void **data, exg_error *err);

/* Bytes that a step made from a weight once, for every plan that asks with the same key. */
typedef struct exg_made {
    void *data;
    bool is_filled;
} exg_made;

/* Those of `key`, made by the same step of the same weight; new ones are not filled. */
exg_status exg_memory_made(exg_memory *memory, struct exg_accelerator *device, uint64_t key,
                           uint64_t bytes, exg_made **made, exg_error *err);

/* The plan that asked without a key is gone; those of a key stay for the next. */
void exg_memory_drop(exg_memory *memory, const exg_made *made);

/* What names the bytes of a weight input's storage. */
uint64_t exg_memory_weight_key(const exg_memory *memory, const exg_plan_input *input);

/* Who asked for the weight's own bytes has read them: mapped pages go back to the system, and
 * what was read or copied and need not stay goes. */
void exg_memory_forget(exg_memory *memory, struct exg_accelerator *device,
                       const exg_plan_input *input, uint64_t bytes);

/* The states of rank 0: equal on every rank. Of one on a device a copy, whose data is NULL
 * when the device does not give it any more. */
uint32_t exg_memory_state_count(const exg_memory *memory);
const char *exg_memory_state_at(exg_memory *memory, uint32_t index, exg_tensor *tensor);

typedef struct exg_rank exg_rank;

/* Takes the plan over. `memory`, `pool` (may be NULL), `grid` (NULL without a mesh) and the
 * device it was planned for (NULL: the host) must stay. The steps that run once take the pool,
 * others too where there is no mesh: its ranks run at once. `index`: whose states it writes, among
 * the ranks of this process; `level`: of its values (scratch.h). */
exg_status exg_rank_create(exg_plan *plan, exg_memory *memory, exg_pool *pool,
                           const exg_grid *grid, struct exg_accelerator *device, uint32_t index,
                           uint32_t level, exg_rank **rank, exg_error *err);
/* Takes the plan over, to be looked at: it is not bound to memory and cannot run. */
exg_status exg_rank_on_paper(exg_plan *plan, exg_rank **rank, exg_error *err);
/* Runs end early when `stop` is due (exg_stop_check). `alone` (NULL: none), a pool of one thread
 * that watches it, is what steps of a mesh take. Before exg_rank_settle(); both must stay. */
void exg_rank_watch(exg_rank *rank, const exg_stop *stop, exg_pool *alone);
/* From now on runs measure each step. */
exg_status exg_rank_profile(exg_rank *rank, exg_error *err);
void exg_rank_destroy(exg_rank *rank); /* NULL is allowed */

const exg_plan *exg_rank_plan(const exg_rank *rank);
uint64_t exg_rank_own_bytes(const exg_rank *rank); /* that no other plan shares */

/* Data of graph input `index`, a user input, the host's; before exg_rank_run. */
void exg_rank_set_input(exg_rank *rank, uint32_t index, void *data);

/* Memory for graph output `index`, a tensor, of a plan with its outputs apart: as many bytes
 * as exg_plan_output_bytes says; on a device of its memory. */
void exg_rank_set_output(exg_rank *rank, uint32_t index, void *data);
uint64_t exg_plan_output_bytes(const exg_plan *plan, uint32_t index);

/* What the next run draws random numbers from: equal seeds and runs draw equal bits, on
 * every rank. */
void exg_rank_set_random(exg_rank *rank, uint64_t seed, uint64_t run);
/* Takes its turn in the memory's scratch, which may let go of what other plans left in it: before
 * inputs are set and before exg_rank_fill, one rank at a time. LIMIT, NO_MEMORY, DEVICE. */
exg_status exg_rank_settle(exg_rank *rank, exg_error *err);

/* Runs the steps that run once, if they have not: before exg_rank_run, and one rank at a
 * time. */
exg_status exg_rank_fill(exg_rank *rank, exg_error *err);
/* All ranks have: weights that only such steps read go. */
void exg_rank_forget(exg_rank *rank);

/* Carries the plan out; allocates nothing. MALFORMED RUN-001 on a fault of the data,
 * PEER on one of another rank. On a device it is done when this returns, or asked for as lane.h
 * says. */
exg_status exg_rank_run(exg_rank *rank, exg_error *err);

/* The name of the step that a run is at; from any thread. */
const char *exg_rank_at(const exg_rank *rank);

/* What step `index` took; all 0 unless measured. */
void exg_rank_times(const exg_rank *rank, uint32_t index, uint64_t *start_ns, uint64_t *last_ns,
                    uint64_t *total_ns);

/* Where tensor output `index` of the plan lies, or the host's copy of it: NULL, on a device, of
 * what is handed on. */
void *exg_rank_output(const exg_rank *rank, uint32_t index);

/* Where it lies, the device's address on a device; and what gives graph input `index`, which is
 * handed on, that place. */
void *exg_rank_held(const exg_rank *rank, uint32_t index);
void exg_rank_hand_on(exg_rank *rank, uint32_t index, void *held);

#endif
