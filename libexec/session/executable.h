/* executable.h - a segment ready to run: its plans, one a rank, with their memory. What IREE and
 * PJRT call an executable. */
#ifndef EXG_LIBEXEC_SESSION_EXECUTABLE_H
#define EXG_LIBEXEC_SESSION_EXECUTABLE_H

#include "libexec/session/context.h"
#include "libexec/sharding/shard_pattern.h"
#include "libexport/transform/graph_segment.h"

typedef struct exg_executable {
    struct exg_executable *next;   /* made for other numbers; newest use first */
    struct exg_executable *follow; /* those that may come after this one */
    exg_arena *arena;
    exg_graph_segment *segment;
    uint32_t level;       /* scratch.h */
    uint64_t bytes;       /* that it takes beside what it shares, */
    uint64_t *plan_bytes; /* counted here */
    double work;          /* of a run (work.h) */
    int64_t *key;         /* the numbers it was made for */
    uint32_t key_count;
    exg_plan_executor **executors;
    uint32_t rank_count;
    bool is_folded; /* constants are folded, on all ranks */
    void **callers; /* by graph input: the caller's data of this run */
    void **copies;  /* on a mesh, by graph input and rank: of an input that the program writes */
    uint32_t named_inputs; /* the first of the graph: the whole program's, by its names */
    uint32_t *in_place;    /* by graph output: the input whose memory it is in; NULL: of none */
    exg_partition_summary partition;
    exg_choices choices;   /* of all ranks */
    exg_local_parts parts; /* likewise; inputs NULL: all is whole */
    char *report;
    struct exg_loop_run *loop; /* of a segment that ends at one */
} exg_executable;

/* Plans the segment, which it takes over. `is_part`: of a loop, which gives it its inputs
 * and reads its outputs. `level`: of the first segment of its chain. */
exg_status exg_executable_create(exg_session_context *context, exg_graph_segment *segment,
                                 bool is_part, uint32_t level, const int64_t *key,
                                 uint32_t key_count, exg_executable **executable, exg_error *err);

/* This one alone; those that follow it are its graph executor's. */
void exg_executable_destroy(exg_executable *executable);

/* The one made for these numbers, moved to the front of the list; or NULL. */
exg_executable *exg_executable_find(exg_executable **list, const int64_t *key, uint32_t key_count);

const exg_plan *exg_executable_plan(const exg_executable *executable); /* of rank 0 */

/* Before it takes its turn: where an input will be. */
void exg_executable_expect_input(exg_executable *executable, uint32_t input, const void *data,
                                 bool there);

/* Is the input whole on every rank? USAGE INP-015: ranks take parts of it (options.local_parts). */
exg_status exg_executable_check_whole(const exg_executable *executable, uint32_t input,
                                      exg_error *err);

/* Takes its turn in the scratch: before its inputs are set. LIMIT, NO_MEMORY, DEVICE. */
exg_status exg_executable_settle(const exg_session_context *context, exg_executable *executable,
                                 exg_error *err);
void exg_executable_set_input(exg_executable *executable, uint32_t input, void *data, bool there);

/* Do ranks have the input of the program in memory of their own? */
bool exg_ranks_have(const exg_session_context *context, uint32_t input);

/* The same of an input that the ranks have in memory of their own (context->rank_inputs). USAGE
 * INP-003, INP-004, INP-015: a rank has none, or not its part. */
void exg_executable_expect_rank_inputs(const exg_session_context *context,
                                       exg_executable *executable, uint32_t input);
exg_status exg_executable_set_rank_inputs(const exg_session_context *context,
                                          exg_executable *executable, uint32_t input,
                                          exg_error *err);

/* Does user output `index` stay where the rank, of those here, has it? What is whole on every
 * rank's device the first one brings to the host, unless it is bound. */
bool exg_executable_leaves_output(const exg_session_context *context,
                                  const exg_executable *executable, uint32_t rank, uint32_t index);

/* Of the last segment: user outputs go where the context says. USAGE RUN-014. */
exg_status exg_executable_bind_outputs(const exg_session_context *context,
                                       exg_executable *executable, exg_error *err);

/* The address of an output of the segment in memory `place`, and a later segment or a loop that
 * takes it as its input there. */
void *exg_executable_output_address(const exg_executable *executable, uint32_t index,
                                    uint32_t place);
void exg_executable_bind_input(const exg_session_context *context, exg_executable *executable,
                               uint32_t input, uint32_t place, void *held);

/* Carries the plans out. MALFORMED RUN-001, RUN-006; PEER. */
exg_status exg_executable_run(exg_session_context *context, exg_executable *executable,
                              exg_error *err);
/* What runs that were only asked for came to. The same faults. */
exg_status exg_executable_finish(const exg_session_context *context,
                                 const exg_executable *executable, exg_error *err);

/* Output `index` of the segment, as `rank` (of those here) has it; on a device, without data of
 * what the next segment reads there. */
exg_session_output exg_executable_output(const exg_executable *executable, uint32_t rank,
                                         uint32_t index);

/* The one element of tensor output `index`, on which the next segment depends: as coordinate 0 of
 * the mesh has it, on every process. PEER. */
exg_status exg_executable_read_scalar(exg_session_context *context,
                                      const exg_executable *executable, uint32_t index,
                                      exg_argument *number, exg_error *err);

#endif
