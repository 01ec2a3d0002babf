/* engine.h - what all parts of a session share: threads, ranks, memory, options. */
#ifndef EXG_LIBEXEC_ENGINE_H
#define EXG_LIBEXEC_ENGINE_H

#include "libexec/comm/team.h"
#include "libexec/rank.h"
#include "libexport/base/text.h"

#include <exg/session.h>

/* What a rank's run came to. */
typedef struct exg_outcome {
    exg_status status;
    exg_error error;
} exg_outcome;

typedef struct exg_engine {
    const exg_operators *operators;
    exg_session_options options;
    exg_mesh_shape mesh; /* of one rank without a mesh */
    uint32_t rank_count; /* carried out here */
    uint32_t first_rank; /* of these, in the mesh */
    exg_pool *pool;      /* places weights, and without a mesh runs; NULL: one core does */
    exg_pool *alone;     /* of one thread: each rank's of a mesh, which watches `stop` */
    exg_stop stop;       /* of the run under way, or of the next */
    struct exg_accelerator **devices; /* by rank here; NULL: the host */
    exg_team *team;      /* of several ranks */
    exg_grid *grids;     /* by rank here; NULL: no mesh */
    char through[EXG_THROUGH_TEXT]; /* what carries out collectives of devices */
    exg_outcome *outcomes; /* by rank */
    struct exg_bound *running; /* what the team carries out */
    bool lost; /* a rank did not come back: what it may reach is never freed */
    exg_memory *memory;
    struct exg_routine *routine; /* of the whole program */
    uint64_t plan_bytes;         /* what plans take that they do not share */
    uint64_t plan_bytes_limit;   /* past it the oldest go */
    double work_limit;   /* operations that a run may take, */
    double work_left;    /* and this one still */
    uint64_t loops_left; /* iterations that this run may still take */
    uint64_t runs;       /* so far */
    uint64_t stretches;  /* that this run carried out */
    uint32_t plan_count;
    uint32_t explored; /* stretches that were planned ahead of any run */
    exg_text unproved; /* a line a place after which nothing was */
    uint64_t plan_ns;
} exg_engine;

/* How many memories hold what stretches and loops hand on: the host's, which all ranks read, or
 * each rank's on its device. */
static inline uint32_t exg_engine_places(const exg_engine *engine)
{
    return engine->devices == NULL ? 1 : engine->rank_count;
}

uint64_t exg_now_ns(void);

/* Threads, ranks and devices, as the options and the mesh say; tables lie in the arena. What is
 * there after a fault is left to exg_engine_close(). */
exg_status exg_engine_open(exg_engine *engine, exg_arena *arena, exg_error *err);
void exg_engine_close(exg_engine *engine);

/* LIMIT RUN-010, RUN-011 once `stop` is due. */
exg_status exg_stop_check(const exg_stop *stop, exg_error *err);

/* bound.c: the first cause among the ranks' outcomes. */
exg_status exg_outcome_of(const exg_engine *engine, exg_error *err);

#endif
