/* session.h - a program loaded and ready to run, again and again.
 *
 * A session takes a verified program, plans it for the sizes of the inputs it is
 * given (one plan for each set of sizes; those used last are kept), and carries plans out. Plans
 * take turns in one memory, as large as the largest needs. After the first run with given sizes,
 * running allocates nothing while their plan is kept, unless less than half of goal.memory_limit is
 * left: then each plan takes what it needs and no more. Weights are used where they are mapped;
 * what the program writes (buffers, an in-place cache) is the session's own state and
 * lasts from run to run.
 *
 * Threads: one at a time in a session; sessions are independent. A session uses
 * a pool of threads of its own. The thread that runs it computes too, and needs 1 MiB of
 * stack; so does one that dispatches operators (exg/dispatch.h).
 */
#ifndef EXG_SESSION_H
#define EXG_SESSION_H

#include <exg/partition.h>
#include <exg/plan.h>
#include <exg/tensor.h>
#include <exg/transform.h>
#include <exg/verify.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct exg_session exg_session;
struct exg_module; /* distribute.h */

/* A process group, as the collectives of a program that is already parallel name it, and the dims
 * of the mesh it lies along: this rank and those that are alike along all others. */
typedef struct exg_process_group {
    const char *name;     /* "0", "tp" */
    const uint32_t *dims; /* ascending */
    uint32_t dim_count;   /* 1 and more */
} exg_process_group;

typedef struct exg_session_options {
    size_t size;                  /* sizeof(exg_session_options) */
    uint32_t thread_count;        /* of the pool; 0: one per core. On a mesh each rank has one, and
                                     the pool places weights */
    const exg_plan_options *plan; /* NULL: as of zeros; read while the session is created */
    exg_mesh_shape mesh;          /* ranks in a grid; no dims, or one rank: no mesh */
    /* How to place, one for each mesh dim; NULL: every rank computes everything. Read while the
     * session is created, but patterns must stay as long as it. */
    const exg_partition_options *partition;
    const exg_partition_goal *goal; /* costs and limits of placing; NULL: none. Read then too */
    bool processes; /* ranks are the processes that mpirun started, this being one (COM-008
                       without MPI); else threads of this process */
    /* What random operators draw from. A run draws new numbers; the n-th run of a session
     * draws the same bits as the n-th of any session of this program with this seed and
     * these sizes, however many threads or ranks there are. */
    uint64_t seed;
    bool profile;        /* measure each step */
    uint64_t loop_limit; /* iterations of while_loop, scan and map in a run; 0: a million */
    /* On a mesh: a rank that dies, fails or hangs ends the run on every rank within this
     * time, and no wait for another rank lasts longer than half of it; 0: two minutes a wait
     * at most, and a rank's thread that hangs is waited for. */
    uint64_t timeout_ns;
    bool plan_only; /* prepare, never run: no rank is started, of a mesh of any size the
                       plan of rank 0 is made; for a device, which must be there */
    /* What steps run on, "NAME" or "NAME:INDEX": NULL or "cpu" the host; "cuda" a GPU (on a mesh
     * one for each rank, from INDEX on, and again from the first); "strict" the host with a
     * device's manners, to find faults without one (exg/device.h). What the device has no
     * kernel for the host computes. */
    const char *device;
    bool check_ranks; /* with plan_only: those of all ranks are, and must fit (COM-010). Ranks
                         that are threads are checked always, processes by their digests */
    /* Plans for sets of sizes that are kept, those used last; 0: as many as take 32 MiB together,
     * or as much as the weights where that is more, and one. A plan of many nodes takes
     * megabytes. */
    uint32_t plan_limit;
    /* Weights are not compared with the checksums of their file. Else each storage is, as a
     * whole, when the session first reads of it (ARC-012). On a mesh of processes a rank
     * compares what it reads as a whole, and of what ranks read in parts a share, about as
     * many bytes as any other. Compressed frames are compared by whoever reads them, always.
     * Nor are the values of inputs compared between such ranks, and weights that have no checksum,
     * which all must have alike (COM-009): that reads all their bytes once more. */
    bool no_check;
    bool ignore_guards;     /* run though guards of the program do not hold, or cannot be read
                               (exg_bind_options) */
    uint64_t time_limit_ns; /* of a run, looked at inside its steps: RUN-011; 0: none */
    /* Operations of a run, foreseen before each segment of it: RUN-012. Those of a product are its
     * multiplications and additions, any other operator's one for four bytes that it reads or
     * writes. 0: 1e12, and a million more for each byte of weights and inputs. */
    double work_limit;
    /* Of a program that is already parallel (exg_program_has_collectives()): this rank's mesh.
     * Each rank has a session of its own, of the same program or of one of its own, with its own
     * inputs, results and state; its collectives meet the other ranks. Making a session and running
     * it are collective then: a rank's fault is all ranks'. `mesh`, `partition` and `processes` are
     * not set. The mesh stays as long as the session, and is used by nothing else meanwhile; where
     * it is of threads, each rank makes and runs its session in a thread of its own. */
    exg_device_mesh *device_mesh;
    /* Those groups that are not the whole mesh; the same on every rank, and each of some rank's
     * program. Read while the session is created. */
    const exg_process_group *groups;
    uint32_t group_count;
    /* Of a session on "cuda": a stream of the caller's (CUstream, cudaStream_t) on the same GPU. A
     * run begins when what the stream was asked for before is done, and what it is asked for after
     * waits for the run. NULL: none. USAGE DEV-015: the device has no such streams. */
    void *stream;
    /* Of a session on "cuda": what gives the memory of weights and values, at a multiple of 256,
     * from a pool that the process has already. It is called by the threads that create, prepare,
     * run and destroy the session, sets the GPU's context itself, and stays as long as the session.
     * What it gets back is not in use any more. NULL: the driver. USAGE MEM-005: the session is on
     * no GPU, or on a mesh; MEM-003, once memory is taken: it is not this GPU's. The host's memory
     * comes from the allocator that the program was opened with (exg_open_options). */
    const exg_allocator *device_allocator;
    /* With plan_only: the plan is that of one rank of `mesh`, each of which has a program of its
     * own, or one that is already parallel. */
    bool has_plan_rank;
    uint32_t plan_rank;
    /* On a mesh: of a user input that is split a rank is given its own part, as DTensor.from_local
     * has it (exg_session_bind_rank_input(); the whole one is refused by INP-015), and of a user
     * output it keeps its own part (summands are added up). Else inputs and outputs are whole on
     * every rank. exg_session_input_placements() says what the parts are. In a pipeline all is
     * whole. */
    bool local_parts;
    /* On a mesh, on "cuda": `stream` of each rank that runs here (NULL: none); read in each run. */
    void *const *rank_streams;
} exg_session_options;

/* Loads `verified`, which must stay as long as the session. UNSUPPORTED lists
 * every operator that has no kernel, before anything runs. USAGE: RUN-009, a `verified` of
 * zeros. Of a program that is already parallel: UNSUPPORTED COM-013, a collective is for a group of
 * another size; COM-014, a group that is not the program's, or of no dims of the mesh; COM-015, the
 * program is to be placed; PEER COM-009, ranks that meet call different collectives. */
EXG_NODISCARD exg_status exg_session_create(const exg_verified *verified,
                                            const exg_session_options *options,
                                            exg_session **session, exg_error *err);

/* A session of the program over a mesh as large as that of the root, which must be distributed.
 * Weights are placed as the module's are; inputs as the root's input function lays them, which is
 * asked once, with tensors that have no data (of the sizes of the export); what other functions do
 * to values inside follows from the cheapest moves. Inputs and outputs of runs are whole, as of any
 * session. `options` may be NULL; their mesh and places are not set (USAGE DTN-017). `m` must stay
 * as long as the session. USAGE PLC-004: a placement that a session has not. As
 * exg_session_create. */
EXG_NODISCARD exg_status exg_module_session(struct exg_module *m,
                                            const exg_session_options *options,
                                            exg_session **session, exg_error *err);

void exg_session_destroy(exg_session *session); /* NULL is allowed */

/* One user input, by the name of its placeholder, or by the argument of the call and what nests in
 * it ("cache.layers.0.keys": exg_input_paths()). Tensors are row-major, aligned for their elements;
 * the data is borrowed during the run, and written when the program writes the input. One that is
 * in a result of the last run is copied first; what the program writes to it is lost. A symbolic
 * integer may be given as `number` or as a 0-d int64 tensor. */
typedef struct exg_session_input {
    const char *name;
    exg_tensor tensor;
    bool is_number;
    int64_t number;
    /* tensor.data is in the memory of the session's device (a pointer of cudaMalloc, or of
     * exg_session_allocate): it is used where it lies, when it is aligned to 256 bytes, and else
     * copied there. Of a session without a device the host's memory is meant. */
    bool on_device;
} exg_session_input;

/* Runs once. USAGE (INP-...) when inputs do not fit, naming the expected and the
 * given; UNSUPPORTED INP-011 when a guard of the program cannot be read; MALFORMED RUN-001 when
 * the data were at fault (an index out of range, an
 * integer division by zero), RUN-006 when an assertion of the program does not hold for
 * them, RUN-007 when a number read from them is outside the range the program states;
 * LIMIT RUN-004 when loops go on for too long, RUN-010 when it was stopped, RUN-011 past
 * time_limit_ns, RUN-012 past work_limit, PLC-009 past goal.memory_limit, or past what the machine
 * has where that says nothing (weights that are mapped do not count then). Results are
 * then not to be used; the session stays usable, but on a mesh whose ranks were stopped, which can
 * only be destroyed. What the program writes may be half written when it is stopped. PEER: a rank
 * is gone, or runs another program (COM-009, the same on every rank), and the session can only be
 * destroyed; where a thread hangs (COM-001, under options.timeout_ns) it leaves its memory behind,
 * and the inputs' must stay too. A program whose sizes or branches are in the data runs in
 * segments: the numbers are read on the way, and the plan for what follows is made, or found again
 * by them. */
EXG_NODISCARD exg_status exg_session_run(exg_session *session, const exg_session_input *inputs,
                                         uint32_t input_count, exg_error *err);

/* The placeholder's name of the input, or of the constant that export made of one, which is called
 * `name`; lent while the session lives. USAGE INP-001, with the inputs that there are. */
EXG_NODISCARD exg_status exg_session_find_input(const exg_session *session, const char *name,
                                                const char **placeholder, exg_error *err);

/* ---- memory of the caller's, as ONNX Runtime's IOBinding ------------------------------------- */

/* Binds an input until it is bound again: runs to which none of that name is given take it. The
 * name and the data stay as long. USAGE as of a run, which is when it is looked at; INP-001. */
EXG_NODISCARD exg_status exg_session_bind_input(exg_session *session,
                                                const exg_session_input *input, exg_error *err);

/* Where user output `index`, in flat order, is to be. */
typedef struct exg_output_binding {
    size_t size;    /* sizeof(exg_output_binding) */
    void *data;     /* NULL: the session's own memory, lent until the next run begins */
    uint64_t bytes; /* that there are at `data` */
    bool on_device; /* there, rather than on the host; without a device the same */
} exg_output_binding;

/* From the next run on; `binding` NULL: on the host, in the session's own memory, as before. `data`
 * may be the memory of an input, which is written when all that reads it is done: so a cache is
 * brought up to date in place. Where the input is as large, and used where it lies, the result is
 * made there: of a cache only the rows that change are written, and a run that fails may leave some
 * of them. (Two outputs that are inputs themselves cannot change places so.) It
 * stays as long as it is bound. An output on the device is row-major too; exg_session_output_at()
 * tells its address. USAGE RUN-014: no such output, or, when it runs, a result that is larger;
 * INP-015, on a mesh, whose ranks have a memory each. */
EXG_NODISCARD exg_status exg_session_bind_output(exg_session *session, uint32_t index,
                                                 const exg_output_binding *binding, exg_error *err);

/* On a mesh each rank may have an input, and an output, in memory of its own: its device's
 * (`on_device`), or the host's. `rank` is one that runs here, of processes this one. All ranks that
 * run here have such an input, or none: the whole one is described by exg_session_bind_input(), or
 * in the run, by a tensor without data. With options.local_parts `input` is the rank's part of the
 * whole. What the program writes to it is written there. A tensor without data: the rank has none
 * of its own any more. As the two above; USAGE INP-003, INP-004, when it runs: it is not what the
 * rank takes; INP-015, INP-016. Without a mesh, and where each rank has a session, the same as the
 * two above. */
EXG_NODISCARD exg_status exg_session_bind_rank_input(exg_session *session, uint32_t rank,
                                                     const exg_session_input *input,
                                                     exg_error *err);
EXG_NODISCARD exg_status exg_session_bind_rank_output(exg_session *session, uint32_t rank,
                                                      uint32_t index,
                                                      const exg_output_binding *binding,
                                                      exg_error *err);

/* With options.local_parts: how the ranks' parts of a user input lie, by mesh dim, once
 * exg_session_prepare() or a run has made the plan; and of user output `index`, as the last run (of
 * a program without breaks the plan) has it: what exg_dtensor_from_local() takes. NULL: whole on
 * every rank, or no such. Lent until there is another plan. */
const exg_placement *exg_session_input_placements(const exg_session *session, const char *name);
const exg_placement *exg_session_output_placements(const exg_session *session, uint32_t index);

/* The same as exg_session_run, but of a device the run is only asked for, and goes on beside what
 * the caller does. Inputs stay as they are, and results are not looked at, before
 * exg_session_wait(), or in the order of options.stream what both have on the device. More runs may
 * be launched meanwhile. Copies of the host's memory, numbers that the program reads on the way,
 * and meshes are waited for all the same. */
EXG_NODISCARD exg_status exg_session_launch(exg_session *session, const exg_session_input *inputs,
                                            uint32_t input_count, exg_error *err);

/* Waits for all that was launched, and tells the faults of the data (MALFORMED RUN-001)
 * that were found since the last wait. */
EXG_NODISCARD exg_status exg_session_wait(exg_session *session, exg_error *err);

/* ---- fences -----------------------------------------------------------------------------------
 */

/* A place in what a session was asked for: it is over when all is done that was launched before.
 * Threads: that of its session, but exg_fence_event(). */
typedef struct exg_fence exg_fence;

/* The fence after what was launched so far; of the host, and of a mesh, one that is over. The
 * caller's, to be destroyed before the session. DEVICE, NO_MEMORY. */
EXG_NODISCARD exg_status exg_session_fence(exg_session *session, exg_fence **fence, exg_error *err);
void exg_fence_destroy(exg_fence *fence); /* NULL is allowed; does not wait */

/* What the session is asked for from here on begins when the fence, of this session or another's,
 * is over: so one takes, in the device's memory, what another gives. The host does not wait where
 * both are on GPUs; else it does. DEVICE. */
EXG_NODISCARD exg_status exg_session_after(exg_session *session, const exg_fence *fence,
                                           exg_error *err);

/* Waits until it is over. Faults of the data are exg_session_wait()'s to tell. DEVICE. */
EXG_NODISCARD exg_status exg_fence_wait(const exg_fence *fence, exg_error *err);

/* Of a session on "cuda" the event that was recorded (CUevent, cudaEvent_t), for streams of the
 * caller's to wait for (cudaStreamWaitEvent); the fence's. NULL: it was over when it was made, or
 * the device has no events. */
void *exg_fence_event(const exg_fence *fence);

/* The same as exg_session_after, of an event that the caller recorded on a stream of its own; it
 * may go once this returns. USAGE DEV-015: the session is not on one GPU. DEVICE. */
EXG_NODISCARD exg_status exg_session_after_event(exg_session *session, void *event, exg_error *err);

/* ---- memory of the device -------------------------------------------------------------------- */

/* Memory of the session's device, on a mesh of the first rank's here, aligned to 256 bytes, unset;
 * of a session without a device the host's. The caller frees it, before the session. NO_MEMORY,
 * DEVICE. */
EXG_NODISCARD exg_status exg_session_allocate(exg_session *session, uint64_t bytes, void **memory,
                                              exg_error *err);
void exg_session_free(exg_session *session, void *memory); /* NULL is allowed */

/* The same of the device of a rank that runs here. USAGE INP-016. */
EXG_NODISCARD exg_status exg_session_rank_allocate(exg_session *session, uint32_t rank,
                                                   uint64_t bytes, void **memory, exg_error *err);

/* Copies bytes from the host to such memory, or the other way; done when it returns. DEVICE. */
EXG_NODISCARD exg_status exg_session_copy_in(exg_session *session, void *to, const void *from,
                                             uint64_t bytes, exg_error *err);
EXG_NODISCARD exg_status exg_session_copy_out(exg_session *session, void *to, const void *from,
                                              uint64_t bytes, exg_error *err);

/* Ends the run under way, or else the next, with LIMIT RUN-010: within a step, after the blocks
 * that have begun. For any thread and any signal handler, while the session is there; NULL is
 * allowed. */
void exg_session_stop(exg_session *session);

/* How far the run under way is, or the last one was. */
typedef struct exg_run_progress {
    size_t size;   /* sizeof(exg_run_progress), set by the caller */
    uint32_t step; /* being run, from 0, */
    uint32_t
        step_count;    /* of so many: of the segment or the turn of a loop under way; 0: none yet */
    uint64_t segments; /* begun, turns of loops among them; 1 of a program without breaks */
    uint64_t iterations; /* turns of loops that were begun */
} exg_run_progress;

/* Fills *progress as far as its size reaches; of ranks the first that is here. For any thread,
 * while the session is there, a run of it under way or not. What is given belongs to one moment
 * only roughly. A device that replays its steps as one graph tells none. */
void exg_session_progress(const exg_session *session, exg_run_progress *progress);

/* One user output, in flat order, of the last run. */
typedef struct exg_session_output {
    exg_argument constant; /* kind TENSOR: `tensor`; else the constant itself */
    exg_tensor tensor;     /* row-major; lent until the next run, whatever its sizes, begins */
} exg_session_output;

uint32_t exg_session_output_count(const exg_session *session);
const exg_session_output *exg_session_output_at(const exg_session *session, uint32_t index);

/* The same as a rank that runs here has it; NULL: there is none. Of a device, what is whole on
 * every rank and not bound is that of the first one here. */
const exg_session_output *exg_session_rank_output_at(const exg_session *session, uint32_t rank,
                                                     uint32_t index);

/* What the program writes: buffers and parameters by FQN, as they are now; data is NULL when
 * a device does not give them any more. Names and data are the session's, and change with runs.
 * It is there once exg_session_prepare() or a run has made a plan. */
uint32_t exg_session_state_count(const exg_session *session);
const char *exg_session_state_at(const exg_session *session, uint32_t index, exg_tensor *tensor);

/* The one of this name; false: the program writes none, or there is no plan yet. */
bool exg_session_state_find(const exg_session *session, const char *name, exg_tensor *tensor);

/* Makes what the program writes what `tensors` are, by FQN, on every rank. For that a plan must be
 * there: after exg_session_prepare(), or between runs; results of the last may change with it.
 * Bytes are copied. State that is not among them stays as it
 * is. On a mesh of processes each sets the same. `mismatches`, of zeros before, lists all that does
 * not fit, and what stays; free it with exg_mismatches_free() in any case. USAGE: RUN-013, a name
 * that the program does not write, a dtype, a shape or a name given twice, and nothing is set;
 * RUN-008. DEVICE: some may be set. NO_MEMORY. */
EXG_NODISCARD exg_status exg_session_state_set(exg_session *session,
                                               const exg_named_tensor *tensors, uint32_t count,
                                               exg_mismatches *mismatches, exg_error *err);

/* The session's own; later versions may have more at its end. */
typedef struct exg_session_stats {
    size_t size;                  /* that this library filled */
    const exg_plan_summary *plan; /* of the last run; of zeros before any */
    uint32_t plan_count;          /* made */
    uint64_t runs;
    uint64_t plan_ns;      /* spent planning, all plans */
    uint64_t run_ns;       /* of the last run */
    uint64_t memory_bytes; /* held: of all plans, state, what was made or unpacked of weights */
    const exg_partition_summary
        *partition; /* of the last run, on a mesh; of one rank, the memory alone */
    /* What carries out collectives of devices, "NCCL 2.28.3", "the device's memory", "the host
     * (...)" with the reason; the session's text, "" where there is no mesh of devices. */
    const char *collectives_through;
    /* What computes for the device beside kernels of ours, "cuBLASLt, no cuDNN" (exg_device_info);
     * without cuBLASLt products are kernels of ours, slower. The session's text; "" where nothing
     * can. */
    const char *libraries;
} exg_session_stats;

/* Lent until it is asked for again. */
const exg_session_stats *exg_session_statistics(exg_session *session);

/* The plan of the last run (on a mesh: rank 0's; of a program in segments, the first), or
 * NULL. */
const exg_plan *exg_session_plan(const exg_session *session);

/* Where that plan ends before the program does, and what it waits for there, in words ("then
 * the loop 'while_loop' (...)"); NULL when it is the whole program's. */
const char *exg_session_break_reason(const exg_session *session);

/* Of a session that checks ranks (plan_only, check_ranks): a line for each place after which
 * nothing could be planned, and so proved, ahead of a run; NULL: all of the program was. */
const char *exg_session_unchecked(const exg_session *session);

/* Of programs that are already parallel: do the ranks of a mesh call the same collectives of each
 * group in one order, with counts that fit, and does none wait for ever for another? `sessions`: by
 * rank, each prepared, with plan_only and its plan_rank, of one program or of one a rank. Of a
 * program in segments the counts and the order among groups are those of the first segment; what
 * its calls are is compared to its end. PEER COM-009 (other calls of a group), COM-010 (others meet
 * there, or other counts, or ranks wait for each other); USAGE COM-016: these are not the sessions
 * of all ranks. */
EXG_NODISCARD exg_status exg_sessions_check_collectives(exg_session *const *sessions,
                                                        uint32_t count, exg_error *err);

/* What one step of the plan takes. Texts are the session's. */
typedef struct exg_step_profile {
    size_t size;        /* that this library filled */
    const char *name;   /* of the node, the last of several in one step */
    const char *target; /* its operator; "" for copies around the program */
    const char *kernel;
    const char *module; /* of the user's program, "encoder.layer.0"; "" of the root */
    uint32_t fused;     /* nodes in the step */
    uint64_t start_ns;  /* of the last run, from its start */
    uint64_t last_ns;   /* of the last run */
    uint64_t total_ns;  /* of all runs with this plan */
    double flops;       /* multiplications and additions of a product; 0: it is none */
    uint64_t bytes;     /* read and written; repeated elements count once, of a table those that
                         * are looked up */
    const char *device; /* that computed it, "cuda"; "" the host, for a device between copies too */
    uint32_t device_index; /* which of those; 0 of the host */
    const char *origin; /* node of the session's program, that the step comes from; of graphs in it
                         * the one that runs them; "" of copies around the program */
} exg_step_profile;

/* Steps of the plan of the last run (on a mesh: rank 0's), when the session profiles; 0
 * otherwise. Measuring costs two looks at the clock a step; without it nothing. A step's profile is
 * lent until the next is asked for; NULL past the last. */
uint32_t exg_session_profile_count(const exg_session *session);
const exg_step_profile *exg_session_profile_at(exg_session *session, uint32_t index);

/* The same of each of the ranks that run here (on a mesh of threads all): ranks have steps of their
 * own. exg_session_first_rank() is what the first of them is called in the mesh. */
uint32_t exg_session_rank_count(const exg_session *session);
uint32_t exg_session_first_rank(const exg_session *session);
uint32_t exg_session_rank_profile_count(const exg_session *session, uint32_t rank);
const exg_step_profile *exg_session_rank_profile_at(exg_session *session, uint32_t rank,
                                                    uint32_t index);

/* Plans for inputs of these shapes without running; data may be NULL. */
EXG_NODISCARD exg_status exg_session_prepare(exg_session *session, const exg_session_input *inputs,
                                             uint32_t input_count, exg_error *err);

/* Measures costs on this machine, links between `ranks` threads (2 to 64), or with `processes`
 * between as many as mpirun started, each of which calls it: rank 0's links are told to all.
 * costs->size is set before. Half a second or so. USAGE, NO_MEMORY, UNSUPPORTED, PEER. */
EXG_NODISCARD exg_status exg_costs_measure(uint32_t ranks, bool processes, exg_costs *costs,
                                           exg_error *err);

/* On a mesh: a line for each node that is split or moves something, of the last
 * plan; else NULL. Borrowed. */
const char *exg_session_partition_report(const exg_session *session);

#ifdef __cplusplus
}
#endif

#endif
