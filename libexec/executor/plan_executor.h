/* plan_executor.h - a plan whose operands have their memory: what one rank of a session runs. What
 * nativert calls an executor over an execution frame. */
#ifndef EXG_LIBEXEC_EXECUTOR_PLAN_EXECUTOR_H
#define EXG_LIBEXEC_EXECUTOR_PLAN_EXECUTOR_H

#include "libexec/comm/grid.h"
#include "libexec/executor/device_frame.h"
#include "libexec/executor/progress.h"
#include "libexec/executor/weight_store.h"

typedef struct exg_plan_executor exg_plan_executor;

/* Takes the plan over. `memory`, `pool` (may be NULL), `grid` (NULL without a mesh) and the
 * device it was planned for (NULL: the host) must stay. The folded steps take the pool,
 * others too where there is no mesh: its ranks run at once. `index`: whose states it writes, among
 * the ranks of this process; `level`: of its values (scratch.h). */
exg_status exg_plan_executor_create(exg_plan *plan, exg_weight_store *store, exg_pool *pool,
                                    const exg_grid *grid, struct exg_accelerator *device,
                                    uint32_t index, uint32_t level, exg_plan_executor **executor,
                                    exg_error *err);
/* Takes the plan over, to be looked at: it has no memory and cannot run. */
exg_status exg_plan_executor_on_paper(exg_plan *plan, exg_plan_executor **executor, exg_error *err);
/* Runs end early when `stop` is due (exg_stop_check). `alone` (NULL: none), a pool of one thread
 * that watches it, is what steps of a mesh take. `progress` (NULL: none) is told each step. Before
 * exg_plan_executor_settle(); all must stay. */
void exg_plan_executor_watch(exg_plan_executor *executor, const exg_stop *stop, exg_pool *alone,
                             exg_progress *progress);
/* From now on runs measure each step. */
exg_status exg_plan_executor_profile(exg_plan_executor *executor, exg_error *err);
void exg_plan_executor_destroy(exg_plan_executor *executor); /* NULL is allowed */

const exg_plan *exg_plan_executor_plan(const exg_plan_executor *executor);
uint64_t exg_plan_executor_own_bytes(
    const exg_plan_executor *executor); /* that no other plan shares */

/* Before it settles: where that data will be. */
void exg_plan_executor_expect_input(exg_plan_executor *executor, uint32_t index, const void *data,
                                    bool there);

/* Data of graph input `index`, a user input, the host's or (`there`) the device's; before
 * exg_plan_executor_run. */
void exg_plan_executor_set_input(exg_plan_executor *executor, uint32_t index, void *data,
                                 bool there);

/* Where user output `index`, a tensor, is to be from the next run on (device_frame.h), which may be
 * the memory of an input. */
void exg_plan_executor_bind_output(exg_plan_executor *executor, uint32_t index,
                                   const exg_result_place *place);

/* Runs on a device are asked for and not waited for, but by exg_plan_executor_finish(), which tells
 * their faults. */
void exg_plan_executor_launches(exg_plan_executor *executor, bool launches);
exg_status exg_plan_executor_finish(exg_plan_executor *executor, exg_error *err);

/* Memory for graph output `index`, a tensor, of a plan with its outputs apart: as many bytes
 * as exg_plan_output_bytes says; on a device of its memory. */
void exg_plan_executor_set_output(exg_plan_executor *executor, uint32_t index, void *data);
uint64_t exg_plan_output_bytes(const exg_plan *plan, uint32_t index);

/* What the next run draws random numbers from: equal seeds and runs draw equal bits, on
 * every rank. */
void exg_plan_executor_set_random(exg_plan_executor *executor, uint64_t seed, uint64_t run);
/* Takes its turn in the memory's scratch, which may let go of what other plans left in it: before
 * inputs are set and before exg_plan_executor_fold, one rank at a time. LIMIT, NO_MEMORY, DEVICE.
 */
exg_status exg_plan_executor_settle(exg_plan_executor *executor, exg_error *err);

/* Runs the folded steps, if they have not run: before exg_plan_executor_run, and one rank at a
 * time. */
exg_status exg_plan_executor_fold(exg_plan_executor *executor, exg_error *err);
/* All ranks have: weights that only such steps read go. */
void exg_plan_executor_forget(exg_plan_executor *executor);

/* Carries the plan out; allocates nothing. MALFORMED RUN-001 on a fault of the data,
 * PEER on one of another rank. On a device it is done when this returns, or enqueued as
 * device_frame.h says. */
exg_status exg_plan_executor_run(exg_plan_executor *executor, exg_error *err);

/* The name of the step that a run is at; from any thread. */
const char *exg_plan_executor_at(const exg_plan_executor *executor);

/* When step `index` began, by the clock (exg_now_ns), and what it took; all 0 unless measured. */
void exg_plan_executor_times(const exg_plan_executor *executor, uint32_t index, uint64_t *start_ns,
                             uint64_t *last_ns, uint64_t *total_ns);

/* The data of tensor output `index` of the plan, in the host's memory; NULL, on a device, of an
 * output that the next plan reads there. */
void *exg_plan_executor_output(const exg_plan_executor *executor, uint32_t index);

/* The address of output `index`, on a device the device's; and graph input `index` of a plan that
 * reads it from there. */
void *exg_plan_executor_output_address(const exg_plan_executor *executor, uint32_t index);
void exg_plan_executor_bind_input(exg_plan_executor *executor, uint32_t index, void *held);

#endif
