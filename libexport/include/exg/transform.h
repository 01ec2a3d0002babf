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

/* The numbers of the example inputs the program was exported with (the hints). */
EXG_NODISCARD exg_status exg_bind_hints(const exg_program *program, exg_arena *arena,
                                        exg_symbols *symbols, exg_error *err);

/* The operator by which a program asks for a tensor inside of a subclass: (tensor, "qdata"). */
#define EXG_ACCESS_SUBCLASS "torch.ops.export.access_subclass_inner_tensor.default"

/* Is a parameter or buffer a tensor subclass, as quantised models of torchao have them?
 * torch.export.save() pickles those. */
bool exg_program_has_subclasses(const exg_program *program);

/* A copy that has the inner tensors of such parameters instead ("w.qdata", "w.scale" for "w"), as
 * program.run_decompositions() gives it; to be verified and run like any other. The pickles are
 * read (exg_weights_unwrap()), never run. UNSUPPORTED (TRF-002) where one cannot be read, or the
 * program takes such a parameter as a whole. exg_session_create() does this by itself. */
EXG_NODISCARD exg_status exg_program_unwrap(const exg_program *program, exg_program **unwrapped,
                                            exg_error *err);

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

#ifdef __cplusplus
}
#endif

#endif
