/* graph_executor.h - runs a program, or the graph of a loop, from segment to segment.
 *
 *   key -> executable -number-> executable -number-> ...    kept, and found again by the numbers
 *
 * What a run read on its way (sizes, predicates, elements used as numbers) says which plan
 * follows; at most EXG_FOLLOW_MAX are kept for one place, the newest.
 */
#ifndef EXG_LIBEXEC_SESSION_GRAPH_EXECUTOR_H
#define EXG_LIBEXEC_SESSION_GRAPH_EXECUTOR_H

#include "libexec/session/executable.h"

#define EXG_FOLLOW_MAX   32
#define EXG_EXPLORED_MAX 64

typedef struct exg_graph_executor {
    exg_session_context *context;
    const exg_program *program;
    bool is_part;            /* of another: state is kept, the first plans are limited too */
    uint32_t level;          /* of its first segment (scratch.h) */
    exg_executable *plans;   /* of the first segment, newest use first */
    exg_executable *current; /* the first segment of this run */
    exg_executable *last;    /* the segment the run ended with, or NULL */
    exg_executable **path;   /* by depth: those of this run, whose results are read */
    uint32_t path_count, path_capacity;
} exg_graph_executor;

void exg_graph_executor_destroy(exg_graph_executor *executor); /* what it points to; not itself */

/* Makes `current` the plan for `key`. The rest describes the inputs when it has to be made
 * (exg_graph_segment_begin). */
exg_status exg_graph_executor_select(exg_graph_executor *executor, const int64_t *key,
                                     uint32_t key_count, const exg_symbols *symbols,
                                     const exg_tensor_meta *const *metas,
                                     const exg_argument *numbers, exg_error *err);

/* What the last run left is not read any more. */
void exg_graph_executor_leave(exg_graph_executor *executor);

/* Destroys, of the plans that this run does not need, one that was not used for long: false, there
 * is none. `executor` is an exg_graph_executor (memory_budget.h). */
bool exg_graph_executor_evict(void *executor);

/* Plans, and so checks, what may follow the current plan where that is known without a run:
 * both sides of branches, loops that carry the same sizes from iteration to iteration; up to
 * EXG_EXPLORED_MAX such places. What hangs on other numbers is planned when a run comes there,
 * and context->unchecked tells of it. */
exg_status exg_graph_executor_explore(exg_graph_executor *executor, exg_error *err);

/* Runs from the current plan to the end. `data` by graph input: of the user's tensors; of a part
 * addresses by memory (exg_session_context_memories) and graph input. */
exg_status exg_graph_executor_run(exg_graph_executor *executor, void *const *data, exg_error *err);

#endif
