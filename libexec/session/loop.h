/* loop.h - while_loop, scan and map: graphs run again and again between two segments. */
#ifndef EXG_LIBEXEC_SESSION_LOOP_H
#define EXG_LIBEXEC_SESSION_LOOP_H

#include "libexec/session/executable.h"

typedef struct exg_loop_run exg_loop_run;

/* For a segment of that level that ends at a loop. */
exg_status exg_loop_create(exg_session_context *context, const exg_graph_segment *segment,
                           uint32_t level, exg_loop_run **loop, exg_error *err);
void exg_loop_destroy(exg_loop_run *loop); /* NULL is allowed */

/* Runs it on the segment's outputs. LIMIT RUN-004 when it takes more iterations than a run
 * may. */
exg_status exg_loop_execute(exg_loop_run *loop, const exg_executable *executable, exg_error *err);

/* On paper: plans the graphs for the first iteration, and what may follow in them. *known: what
 * is carried keeps its sizes, so the others have the same plans, and the results (without data)
 * have the sizes they will have. */
exg_status exg_loop_explore(exg_loop_run *loop, const exg_executable *executable, bool *known,
                            exg_error *err);

/* Results of the last run, row-major, without their data; valid until the next. */
const exg_tensor *exg_loop_results(const exg_loop_run *loop);

/* Destroys a plan of its graphs, as exg_graph_executor_evict() does; of NULL there is none. */
bool exg_loop_evict(exg_loop_run *loop);

/* Where result `index` is in memory `place` (exg_session_context_memories). */
void *exg_loop_result_address(const exg_loop_run *loop, uint32_t index, uint32_t place);

#endif
