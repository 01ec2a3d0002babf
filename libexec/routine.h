/* routine.h - a program, or the graph of a loop, run from stretch to stretch.
 *
 *   key -> bound -number-> bound -number-> ...    kept, and found again by the numbers
 *
 * What a run read on its way (sizes, predicates, elements used as numbers) says which plan
 * follows; at most EXG_FOLLOW_MAX are kept for one place, the newest.
 */
#ifndef EXG_LIBEXEC_ROUTINE_H
#define EXG_LIBEXEC_ROUTINE_H

#include "libexec/bound.h"

#define EXG_FOLLOW_MAX   32
#define EXG_EXPLORED_MAX 64

typedef struct exg_routine {
    exg_engine *engine;
    const exg_program *program;
    bool is_part;         /* of another: state is kept, the first plans are limited too */
    uint32_t level;       /* of its first stretch (scratch.h) */
    exg_bound *plans;     /* of the first stretch, newest use first */
    exg_bound *current;   /* the first stretch of this run */
    exg_bound *last;      /* the stretch the run ended with, or NULL */
    exg_bound **path;     /* by depth: those of this run, whose results are read */
    uint32_t path_count, path_capacity;
} exg_routine;

void exg_routine_destroy(exg_routine *routine); /* what it points to; not itself */

/* Makes `current` the plan for `key`. The rest describes the inputs when it has to be made
 * (exg_stretch_begin). */
exg_status exg_routine_select(exg_routine *routine, const int64_t *key, uint32_t key_count,
                              const exg_symbols *symbols, const exg_tensor_meta *const *metas,
                              const exg_argument *numbers, exg_error *err);

/* What the last run left is not read any more. */
void exg_routine_leave(exg_routine *routine);

/* Destroys, of the plans that this run does not need, one that was not used for long: false, there
 * is none. `routine` is an exg_routine (budget.h). */
bool exg_routine_spare(void *routine);

/* Plans, and so proves, what may follow the current plan where that is known without a run:
 * both sides of branches, loops that carry the same sizes from iteration to iteration; up to
 * EXG_EXPLORED_MAX such places. What hangs on other numbers is planned when a run comes there,
 * and engine->unproved tells of it. */
exg_status exg_routine_explore(exg_routine *routine, exg_error *err);

/* Runs from the current plan to the end. `data` by graph input: of the user's tensors; of a part
 * what is handed on, by memory (exg_engine_places) and graph input. */
exg_status exg_routine_run(exg_routine *routine, void *const *data, exg_error *err);

#endif
