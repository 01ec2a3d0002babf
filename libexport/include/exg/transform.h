/* transform.h - from a verified program to one that is ready to plan.
 *
 *   specialize    every size becomes a number, sizes' arithmetic is done
 *   decompose     composite operators become the few that have kernels
 *   functionalize writes and aliases become values; what was written comes out
 *                 as BUFFER_MUTATION, PARAMETER_MUTATION, USER_INPUT_MUTATION
 *
 * Each step makes a new program that shares the weights of its source and can be
 * printed. What nodes say of themselves (the user's line, the module) stays where the
 * verified program has it, which must stay; the programs between may go. decompose
 * comes before functionalize, because what an operator writes or aliases is plain only
 * once it is written out (batch_norm updates its running statistics, reshape may alias).
 */
#ifndef EXG_TRANSFORM_H
#define EXG_TRANSFORM_H

#include <exg/operators.h>
#include <exg/symint.h>
#include <exg/verify.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One user input as the caller will give it. */
typedef struct exg_input_binding {
    const char *name;       /* the placeholder's */
    exg_argument_kind kind; /* TENSOR, or INT, FLOAT, BOOL, STRING, NONE */
    exg_dtype dtype;        /* TENSOR */
    uint32_t rank;
    const int64_t *sizes;
    int64_t as_int; /* INT, BOOL */
} exg_input_binding;

typedef struct exg_bind_options {
    size_t size; /* sizeof(exg_bind_options) */
    /* Go on without the program's guards, those that do not hold and those that cannot be read
     * alike (as ExportedProgram.module(check_guards=False) does): the caller answers for them. */
    bool ignore_guards;
} exg_bind_options;

/* The numbers symbols take when the inputs are `bindings` (any order, all user
 * inputs). Checks names, dtypes, concrete sizes, derived sizes, range constraints, guards.
 * USAGE with codes INP-001..006, INP-009 and INP-010 names the expected and the given; UNSUPPORTED
 * INP-011: a guard cannot be read. Lives in `arena`. `options` may be NULL. */
EXG_NODISCARD exg_status exg_bind_inputs(const exg_verified *verified,
                                         const exg_input_binding *bindings, uint32_t count,
                                         const exg_bind_options *options, exg_arena *arena,
                                         exg_symbols *symbols, exg_error *err);

/* How a caller of the module says each input: the argument of forward and what nests in it, by a
 * dot each, "cache.layers.0.keys", as the tree of the call has it. One a graph input, in `arena`;
 * NULL: no user input, or the file does not tell. exg_bind_inputs() and sessions take the names of
 * placeholders. NO_MEMORY. */
EXG_NODISCARD exg_status exg_input_paths(const exg_program *program, exg_arena *arena,
                                         const char ***paths, exg_error *err);

/* The numbers of the example inputs the program was exported with: the hints, and where sizes have
 * none the sample inputs. */
EXG_NODISCARD exg_status exg_bind_hints(const exg_program *program, exg_arena *arena,
                                        exg_symbols *symbols, exg_error *err);

/* The numbers for a call of which some is said: those that *symbols holds already, then sizes of
 * `bindings`, which are some of the user inputs (dtype EXG_DTYPE_UNKNOWN: whatever the program
 * takes), then those of exg_bind_hints(). A symbol that none of these gives a number has none.
 * Names, dtypes and sizes of `bindings` are checked, USAGE INP-001, INP-003, INP-004 and INP-010;
 * ranges and guards are not: exg_bind_inputs() does, with all inputs. */
EXG_NODISCARD exg_status exg_bind_asked(const exg_program *program,
                                        const exg_input_binding *bindings, uint32_t count,
                                        exg_arena *arena, exg_symbols *symbols, exg_error *err);

/* The operator by which a program asks for a tensor inside of a subclass: (tensor, "qdata"). */
#define EXG_ACCESS_SUBCLASS "torch.ops.export.access_subclass_inner_tensor.default"

/* Does the program have tensor subclasses: parameters and buffers (those of torchao, which
 * torch.export.save() pickles), or inputs whose inner tensors it asks for? */
bool exg_program_has_subclasses(const exg_program *program);

/* A copy that has the inner tensors instead: "w.qdata" and "w.scale" for the parameter "w", as
 * program.run_decompositions() gives it; for a user input those that the program asks for, which
 * nest in it as in a dict. To be verified and run like any other. Pickles are read
 * (exg_weights_unwrap()), never run. UNSUPPORTED (TRF-002) where one cannot be read, or the program
 * takes a subclass as a whole, or makes one. exg_session_create() does this by itself. */
EXG_NODISCARD exg_status exg_program_unwrap(const exg_program *program, exg_program **unwrapped,
                                            exg_error *err);

/* Matrices among the parameters that `from` has in blocks of GGML (exg_weight.encoding: Q4_0, Q8_0,
 * Q4_K, ...) under the same name are taken as they are stored: `w` becomes "w.qdata" (int8, or two
 * numbers a byte), "w.scale" and, where the blocks have some, "w.offset", of which a node makes
 * what the rest of the program takes; products with it read the numbers, and nothing of the
 * weight's size is made. Bits are those of the cast to float32. Changes the program, which is to be
 * verified again. *rest is `from` with such parts in the place of the blocks, to be filled in
 * (exg_weights_fill()); the caller releases it. MALFORMED SIG-001, LIMIT WGT-011. Threads: one. */
EXG_NODISCARD exg_status exg_program_take_blocks(exg_program *program, exg_weights *from,
                                                 exg_weights **rest, exg_error *err);

/* Is the program already parallel: does it call collectives of process groups itself
 * (torch.distributed._functional_collectives)? It says what one rank does, and is run by a session
 * on each (exg_session_options.device_mesh). */
bool exg_program_has_collectives(const exg_program *program, const exg_operators *operators);

/* The higher-order operators that run here, which have no row: "torch.ops.higher_order.cond"; NULL
 * past the last. `how` (may be NULL): what runs in its place, in words. Static. */
const char *exg_higher_order_at(uint32_t index, const char **how);

/* Every operator of the program that has no row, or does not run here, with the
 * nodes that use it, as one text a line; *text is NULL when there is none. The
 * caller frees it. `runs` (may be NULL) says whether an operator has a kernel. */
EXG_NODISCARD exg_status exg_missing_operators(const exg_program *program,
                                               const exg_operators *operators,
                                               bool (*runs)(const exg_operator *op), char **text,
                                               exg_error *err);

EXG_NODISCARD exg_status exg_specialize(const exg_verified *verified, const exg_symbols *symbols,
                                        exg_program **out, exg_error *err);
EXG_NODISCARD exg_status exg_decompose(const exg_program *specialized,
                                       const exg_operators *operators, exg_program **out,
                                       exg_error *err);

/* What a session runs first, decomposed: the program as far as it is known before the run, up to a
 * size, a number or a branch that the data decide, or a loop. *break_reason says what it ends at
 * ("then the loop 'while_loop' (...)"); NULL where it is the whole program. The caller destroys
 * *out and frees the text. `break_reason` may be NULL. */
EXG_NODISCARD exg_status exg_first_segment(const exg_verified *verified, const exg_symbols *symbols,
                                           exg_program **out, char **break_reason, exg_error *err);

EXG_NODISCARD exg_status exg_functionalize(const exg_program *decomposed,
                                           const exg_operators *operators, exg_program **out,
                                           exg_error *err);

/* Drops nodes whose results nothing uses, and folds arithmetic by channel (a batch norm
 * of stored statistics) into the weights of the convolution before it. Products that say less
 * than they mean become that: attention written as bmm and softmax, and a linear or a convolution
 * of dequantized int8 or uint8, which is one of bytes summed in int32 (devices keep it as
 * written). */
EXG_NODISCARD exg_status exg_simplify(const exg_program *functional, const exg_operators *operators,
                                      exg_program **out, exg_error *err);

/* ---- programs that give other values --------------------------------------------------------- */

typedef struct exg_part_options {
    size_t size; /* sizeof(exg_part_options) */
    bool keeps;  /* what the program gives and writes comes first, and all of it stays */
    const exg_value_id *constants; /* tensors that nodes give alone, which become `constant`, of
                                      their shape: what only they need goes */
    uint32_t constant_count;
    double constant;
    bool drops_inputs; /* user inputs that the values do not need go too, and sample inputs then:
                          it is called with a tuple of the others. Not with `keeps` */
    uint32_t graph;    /* 0: `constants` are of the program's graph; else of the n-th of the graphs
                          that nodes run, one in another behind it (exg_graph_within), and what only
                          they need goes in that one; there are no `values` then, and all else stays
                          as it is. USAGE BLD-002: there is no such graph */
} exg_part_options;

/* A copy of the program that gives these values of its graph, tensors, as user outputs: as they are
 * when their nodes have run, whatever is written to them later. Without `keeps` it gives nothing
 * else and writes nothing, and nodes, weights and buffers that these values do not need are left
 * out; user inputs stay, unless `drops_inputs`. It is to be verified like any other. USAGE BLD-002:
 * a value that is no tensor. UNSUPPORTED TRF-005: a constant of sizes that no value tells.
 * NO_MEMORY. The caller destroys *out. */
EXG_NODISCARD exg_status exg_program_part(const exg_program *program,
                                          const exg_operators *operators,
                                          const exg_value_id *values, uint32_t count,
                                          const exg_part_options *options, exg_program **out,
                                          exg_error *err);

/* The n-th, from 1 on, of the graphs that nodes of `graph` run: branches, bodies of loops. Those in
 * another one come behind it. NULL: there are not as many. */
exg_graph *exg_graph_within(const exg_graph *graph, uint32_t n);

/* ---- programs to be saved ---------------------------------------------------------------- */

typedef enum exg_stage {
#define EXG_STAGE(id, name, dialect) EXG_STAGE_##id,
#include <exg/stage.def>
#undef EXG_STAGE
    EXG_STAGE_COUNT
} exg_stage;

const char *exg_stage_name(exg_stage stage);     /* "decompose", ...; NULL: it is none */
exg_stage exg_stage_from_name(const char *name); /* COUNT: it is none */

/* The program after a stage, to be saved and read by PyTorch and its converters: in core ATen as
 * far as its operators have a form there (else they stay as they are); from FUNCTIONALIZE on
 * nothing is written in place. How it is called stays. `symbols` NULL: sizes stay symbolic, and
 * branches, loops and reads of data stay, their graphs after the stage too; else sizes are those of
 * `symbols`. It shares the weights of its source, which must stay until it is destroyed; any thread
 * may ask. UNSUPPORTED TRF-004: with `symbols`, it has branches or loops, or sizes in its data;
 * without, something is written through a view of a size in its data. TRF-006: without, the stage
 * makes other nodes for other sizes, of what cannot stay as it is. The caller destroys *out. */
EXG_NODISCARD exg_status exg_program_at_stage(const exg_verified *verified,
                                              const exg_symbols *symbols, exg_stage stage,
                                              exg_program **out, exg_error *err);

#ifdef __cplusplus
}
#endif

#endif
