/* context.h - what all parts of a session share: threads, ranks, memory, options. */
#ifndef EXG_LIBEXEC_SESSION_CONTEXT_H
#define EXG_LIBEXEC_SESSION_CONTEXT_H

#include "libexec/comm/team.h"
#include "libexec/executor/plan_executor.h"
#include "libexec/executor/progress.h"
#include "libexec/session/process_groups.h"
#include "libexec/sharding/shard_pattern.h"

#include <exg/session.h>
#include <exg/text.h>

/* What a rank's run came to. */
typedef struct exg_outcome {
    exg_status status;
    exg_error error;
} exg_outcome;

/* What a rank of a mesh has of an input, in memory of its own. */
typedef struct exg_rank_input {
    exg_session_input input; /* name NULL: nothing */
    void *data;              /* of this run: there, or set aside */
} exg_rank_input;

typedef struct exg_session_context {
    const exg_operators *operators;
    exg_session_options options; /* without its parts, which are read into these: */
    exg_plan_options plan;
    exg_partitioning partitioning;
    exg_mesh_shape mesh;   /* of one rank without a mesh */
    uint32_t rank_count;   /* carried out here */
    uint32_t first_rank;   /* of these, in the mesh */
    exg_pool *pool;        /* places weights, and without a mesh runs; NULL: one core does */
    exg_pool *alone;       /* of one thread: each rank's of a mesh, which watches `stop` */
    exg_stop stop;         /* of the run under way, or of the next */
    exg_progress progress; /* of the run under way, or of the last: rank 0's of those here */
    struct exg_accelerator **devices; /* by rank here; NULL: the host */
    exg_team *team;                   /* of several ranks */
    exg_grid *grids;                  /* by rank here; NULL: no mesh */
    /* Each rank has a session, this being one: what it runs is its own affair, but for the
     * collectives of its program. `mesh` is of one rank then. */
    bool is_spmd;
    exg_process_groups groups;      /* and its mesh */
    exg_grid grid;                  /* of this rank */
    char through[EXG_THROUGH_TEXT]; /* what carries out collectives of devices */
    exg_outcome *outcomes;          /* by rank */
    struct exg_executable *running; /* what the team carries out */
    bool lost;                      /* a rank did not come back: what it may reach is never freed */
    exg_weight_store *store;
    struct exg_graph_executor *executor; /* of the whole program, */
    const exg_program *program;          /* which is this one */
    uint64_t plan_bytes;                 /* what plans take that they do not share */
    uint64_t plan_bytes_limit;           /* past it the oldest go */
    double work_limit;                   /* operations that a run may take, */
    double work_left;                    /* and this one still */
    uint64_t loops_left;                 /* iterations that this run may still take */
    uint64_t runs;                       /* so far */
    const bool *there;                   /* by input of the program: its data is on the device */
    const exg_output_binding *bound;     /* by user output */
    const uint32_t *in_place;            /* by user output: the input of the program whose memory it
                                            is bound to on every rank, or EXG_NO_INPUT */
    /* On a mesh, by rank here and input, or user output, of the program; NULL: no rank has any. */
    exg_rank_input *rank_inputs;
    exg_output_binding *rank_places;
    bool launches;     /* the run is asked for, not waited for */
    uint64_t segments; /* that this run carried out */
    uint32_t plan_count;
    uint32_t explored;  /* segments that were planned ahead of any run */
    exg_text unchecked; /* a line a place after which nothing was */
    uint64_t plan_ns;
} exg_session_context;

/* How many memories hold what one segment or loop leaves for the next: the host's, which all ranks
 * read, or each rank's on its device. */
static inline uint32_t exg_session_context_memories(const exg_session_context *context)
{
    return context->devices == NULL ? 1 : context->rank_count;
}

/* Threads, ranks and devices, as the options and the mesh say; tables are in the arena. What is
 * there after a fault is left to exg_session_context_close(). */
exg_status exg_session_context_open(exg_session_context *context, exg_arena *arena, exg_error *err);
void exg_session_context_close(exg_session_context *context);

/* Before it is opened: what the options say of groups, where the program is already parallel or
 * each rank has a session. USAGE COM-014, UNSUPPORTED COM-015. */
exg_status exg_session_context_take_groups(exg_session_context *context,
                                           const exg_verified *verified, exg_error *err);

/* Of a session that is one of several: the ranks meet, each with its status so far; and at the end
 * of a run hear what it came to. */
exg_status exg_session_context_meet(exg_session_context *context, exg_status status,
                                    exg_error *err);
exg_status exg_session_context_leave(const exg_session_context *context, bool is_at_end,
                                     exg_status status, exg_error *err);

/* The first cause among the ranks' outcomes. */
exg_status exg_outcome_of(const exg_session_context *context, exg_error *err);

#endif
