/* bound.h - a stretch's plans, one a rank, bound to memory. */
#ifndef EXG_LIBEXEC_BOUND_H
#define EXG_LIBEXEC_BOUND_H

#include "libexec/engine.h"
#include "libexec/sharding/cuts.h"
#include "libexport/transform/stretch.h"

typedef struct exg_bound {
    struct exg_bound *next;   /* made for other numbers; newest use first */
    struct exg_bound *follow; /* those that may come after this one */
    exg_arena *arena;
    exg_stretch *stretch;
    uint32_t level; /* scratch.h */
    uint64_t bytes; /* that it takes beside what it shares, */
    uint64_t *plan_bytes; /* counted here */
    double work; /* of a run (work.h) */
    int64_t *key; /* the numbers it was made for */
    uint32_t key_count;
    exg_rank **ranks;
    uint32_t rank_count;
    bool is_filled; /* the steps that run once have run, on all ranks */
    void **callers; /* by graph input: the caller's data of this run */
    void **copies;  /* on a mesh, by graph input and rank: of an input that the program writes */
    uint32_t named_inputs; /* the first of the graph: the whole program's, by its names */
    exg_place_summary place;
    char *report;
    struct exg_loop_run *loop; /* of a stretch that ends at one */
} exg_bound;

/* Plans the stretch, which it takes over. `is_part`: of a loop, so its inputs are handed on to it
 * and its outputs by it. `level`: of the first stretch of its chain. */
exg_status exg_bound_create(exg_engine *engine, exg_stretch *stretch, bool is_part, uint32_t level,
                            const int64_t *key, uint32_t key_count, exg_bound **bound,
                            exg_error *err);

/* What rank `rank` of the mesh runs, with its collectives over `grid`. `cuts` (may be NULL): by
 * mesh dim, what its ranks differ by. */
exg_status exg_bound_plan_rank(exg_engine *engine, exg_bound *bound, const exg_program *functional,
                               uint32_t rank, const exg_grid *grid, exg_cuts *cuts,
                               struct exg_accelerator *device, exg_plan **plan, exg_error *err);

/* proof.c: proves from the plans, before any rank starts, that none will wait for what never
 * comes. PEER COM-010. */
exg_status exg_bound_prove(exg_engine *engine, exg_bound *bound, const exg_program *functional,
                           exg_error *err);

/* And all that follow. NULL is allowed. */
void exg_bound_destroy(exg_bound *bound);

/* The one made for these numbers, moved to the front of the list; or NULL. */
exg_bound *exg_bound_find(exg_bound **list, const int64_t *key, uint32_t key_count);

const exg_plan *exg_bound_plan(const exg_bound *bound); /* of rank 0 */

/* Takes its turn in the scratch: before its inputs are set. LIMIT, NO_MEMORY, DEVICE. */
exg_status exg_bound_settle(const exg_engine *engine, exg_bound *bound, exg_error *err);
void exg_bound_set_input(exg_bound *bound, uint32_t input, void *data);

/* Where an output of the stretch lies in memory `place`, to be handed on to a later stretch or a
 * loop, whose input it becomes there. */
void *exg_bound_held(const exg_bound *bound, uint32_t index, uint32_t place);
void exg_bound_hand_on(const exg_engine *engine, exg_bound *bound, uint32_t input, uint32_t place,
                       void *held);

/* Carries the plans out. MALFORMED RUN-001, RUN-006; PEER. */
exg_status exg_bound_run(exg_engine *engine, exg_bound *bound, exg_error *err);

/* Output `index` of the stretch, as rank 0 has it; on a device, without data of what is handed
 * on. */
exg_session_output exg_bound_output(const exg_bound *bound, uint32_t index);

/* The one element of tensor output `index`, which steers what follows: as coordinate 0 of
 * the mesh has it, on every process. PEER. */
exg_status exg_bound_steer(exg_engine *engine, const exg_bound *bound, uint32_t index,
                           exg_argument *number, exg_error *err);

#endif
