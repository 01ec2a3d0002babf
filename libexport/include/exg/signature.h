/* signature.h - what the inputs and outputs of a program stand for: PyTorch's
 * ExportGraphSignature with every view on it, building one, renaming in one.
 *
 * The specs are plain structs (program.h). A view is a question about them and
 * allocates nothing: it writes at most `capacity` items and returns how many there
 * are, so a call with NULL and 0 asks for the size. What it writes is borrowed from
 * the signature, in the order of the specs. A map lists one pair a spec; a name that
 * stands in two specs (SIG-021) is listed twice, where PyTorch's dict keeps the last.
 *
 * Threads: views may be asked from any thread; what changes a signature, from one.
 * Meaning: torch/export/graph_signature.py 2.13.
 */
#ifndef EXG_SIGNATURE_H
#define EXG_SIGNATURE_H

#include <exg/program.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- targets ---------------------------------------------------------------- */

/* Fully qualified names of what is lifted; specs without a target are left out. */
uint32_t exg_signature_parameters(const exg_signature *signature, const char **targets,
                                  uint32_t capacity);
uint32_t exg_signature_buffers(const exg_signature *signature, const char **targets,
                               uint32_t capacity); /* persistent or not */
uint32_t exg_signature_non_persistent_buffers(const exg_signature *signature, const char **targets,
                                              uint32_t capacity);
uint32_t exg_signature_lifted_tensor_constants(const exg_signature *signature, const char **targets,
                                               uint32_t capacity);
uint32_t exg_signature_lifted_custom_objs(const exg_signature *signature, const char **targets,
                                          uint32_t capacity);

/* ---- maps ------------------------------------------------------------------- */

/* key: name of the graph input, value: its target. */
uint32_t exg_signature_inputs_to_parameters(const exg_signature *signature, exg_string_pair *pairs,
                                            uint32_t capacity);
uint32_t exg_signature_inputs_to_buffers(const exg_signature *signature, exg_string_pair *pairs,
                                         uint32_t capacity);
uint32_t exg_signature_inputs_to_lifted_tensor_constants(const exg_signature *signature,
                                                         exg_string_pair *pairs, uint32_t capacity);
uint32_t exg_signature_inputs_to_lifted_custom_objs(const exg_signature *signature,
                                                    exg_string_pair *pairs, uint32_t capacity);

/* key: name of the graph output, value: what it is the new value of, by FQN or, for
 * user inputs, by the name of the graph input. */
uint32_t exg_signature_buffers_to_mutate(const exg_signature *signature, exg_string_pair *pairs,
                                         uint32_t capacity);
uint32_t exg_signature_parameters_to_mutate(const exg_signature *signature, exg_string_pair *pairs,
                                            uint32_t capacity);
uint32_t exg_signature_user_inputs_to_mutate(const exg_signature *signature, exg_string_pair *pairs,
                                             uint32_t capacity);

/* ---- user inputs and outputs --------------------------------------------------- */

/* Leaves of the call, flat: of a value its name, of a constant what it is. A token
 * among them is MALFORMED (SIG-010), and *count is 0. */
EXG_NODISCARD exg_status exg_signature_user_inputs(const exg_signature *signature,
                                                   const exg_signature_argument **leaves,
                                                   uint32_t capacity, uint32_t *count,
                                                   exg_error *err);

/* Seed 004 leaves the loss out, PyTorch has had it among the outputs since. */
typedef enum exg_loss { EXG_WITH_LOSS, EXG_WITHOUT_LOSS } exg_loss;

EXG_NODISCARD exg_status exg_signature_user_outputs(const exg_signature *signature, exg_loss loss,
                                                    const exg_signature_argument **leaves,
                                                    uint32_t capacity, uint32_t *count,
                                                    exg_error *err);

/* ---- tokens -------------------------------------------------------------------- */

/* Names; a token spec whose argument is none is MALFORMED (SIG-010). */
EXG_NODISCARD exg_status exg_signature_input_tokens(const exg_signature *signature,
                                                    const char **names, uint32_t capacity,
                                                    uint32_t *count, exg_error *err);
EXG_NODISCARD exg_status exg_signature_output_tokens(const exg_signature *signature,
                                                     const char **names, uint32_t capacity,
                                                     uint32_t *count, exg_error *err);

/* The token that PyTorch foresees for assertions, an output's index and name; false and
 * nothing written where there is none, which is always so in PyTorch's files. */
bool exg_signature_assertion_dep_token(const exg_signature *signature, uint32_t *index,
                                       const char **name);

/* ---- backward --------------------------------------------------------------------- */

/* key: name of the graph output, value: parameter FQN, or name of the user input. */
uint32_t exg_signature_gradients_to_parameters(const exg_signature *signature,
                                               exg_string_pair *pairs, uint32_t capacity);
uint32_t exg_signature_gradients_to_user_inputs(const exg_signature *signature,
                                                exg_string_pair *pairs, uint32_t capacity);

/* ExportBackwardSignature: the loss's name and how many pairs the two maps above
 * have. *exists is false without a loss, even where there are gradients. MALFORMED
 * SIG-019 (two losses, a loss or a gradient that is no tensor), SIG-020 (a gradient
 * without a target). */
typedef struct exg_backward_signature {
    const char *loss_output;
    uint32_t gradients_to_parameters;
    uint32_t gradients_to_user_inputs;
} exg_backward_signature;

EXG_NODISCARD exg_status exg_signature_backward(const exg_signature *signature, bool *exists,
                                                exg_backward_signature *backward, exg_error *err);

/* ---- building ---------------------------------------------------------------------- */

typedef struct exg_name_list {
    const char *const *items;
    uint32_t count;
} exg_name_list;

/* What tracing knows of the inputs and outputs of a graph, by their names (the
 * arguments of PyTorch's _sig_to_specs). Everything is borrowed; names and targets must
 * live as long as the signature. All empty: every tensor is unknown. */
typedef struct exg_signature_maps {
    exg_name_list user_inputs;
    exg_name_list user_outputs;
    exg_string_map inputs_to_parameters; /* input name -> FQN */
    exg_string_map inputs_to_buffers;
    exg_string_map inputs_to_constants;
    exg_string_map buffer_mutations; /* output name -> FQN */
    exg_string_map parameter_mutations;
    exg_string_map user_input_mutations; /* output name -> input name */
    exg_string_map grad_params;          /* output name -> FQN */
    exg_string_map grad_user_inputs;     /* output name -> input name */
    const char *loss_output;             /* NULL: none */
    exg_name_list non_persistent;        /* FQNs of buffers; the others are persistent */
    exg_name_list input_tokens;
    exg_name_list output_tokens;
} exg_signature_maps;

/* The specs of these inputs and outputs, in `arena`. Tokens come first to their kind,
 * then whatever is no tensor (USER), then user inputs, parameters, buffers, constants.
 * Outputs before as many as there are mutations and tokens are mutations; those after
 * are user outputs, gradients, the loss. MALFORMED SIG-025 names a tensor that no map
 * knows where it stands. NO_MEMORY. */
EXG_NODISCARD exg_status exg_signature_from_maps(exg_arena *arena, const exg_signature_maps *maps,
                                                 const exg_signature_argument *inputs,
                                                 uint32_t input_count,
                                                 const exg_signature_argument *outputs,
                                                 uint32_t output_count, exg_signature *signature,
                                                 exg_error *err);

/* The same for the inputs and outputs of the program's graph; NULL maps: a plain graph,
 * whose inputs and outputs are all the user's. Replaces program->signature. */
EXG_NODISCARD exg_status exg_signature_from_graph(exg_program *program,
                                                  const exg_signature_maps *maps, exg_error *err);

/* Is the spec one that may be built? MALFORMED SIG-026: a buffer that does not say
 * whether it is persistent; an argument of a kind that no signature has. */
EXG_NODISCARD exg_status exg_input_spec_check(const exg_input_spec *spec, exg_error *err);
EXG_NODISCARD exg_status exg_output_spec_check(const exg_output_spec *spec, exg_error *err);

/* ---- renaming ----------------------------------------------------------------------- */

/* EXG_TARGETS_STAY is PyTorch's replace_all_uses, which leaves a mutation of an input
 * pointing at the input's old name. */
typedef enum exg_targets { EXG_TARGETS_FOLLOW, EXG_TARGETS_STAY } exg_targets;

/* Every argument called `old_name`, of outputs and inputs, is called `new_name`;
 * constants keep theirs. Targets that name graph inputs follow unless told to stay.
 * Nothing happens when no argument is called so. `new_name` must live as long as the
 * signature. USAGE BLD-002 when another argument has that name. */
EXG_NODISCARD exg_status exg_signature_rename(exg_signature *signature, const char *old_name,
                                              const char *new_name, exg_targets targets,
                                              exg_error *err);

/* Who used the value that is replaced. */
typedef enum exg_use { EXG_USE_NODE, EXG_USE_OUTPUT } exg_use;

/* PyTorch's get_replace_hook, called for each use of `old_name` (a graph input when
 * `old_is_input`): renames where the user is the graph's output and, with
 * `replace_inputs`, where the value is an input. PyTorch's leaves targets alone
 * (EXG_TARGETS_STAY). USAGE BLD-002 as exg_signature_rename. */
EXG_NODISCARD exg_status exg_signature_replace_hook(exg_signature *signature, const char *old_name,
                                                    const char *new_name, exg_use use,
                                                    bool old_is_input, bool replace_inputs,
                                                    exg_targets targets, exg_error *err);

/* Every use of `old_value` in the graph, subgraphs not entered, becomes one of
 * `new_value`, and output specs follow through the hook. USAGE BLD-002. */
EXG_NODISCARD exg_status exg_program_replace_uses(exg_program *program, exg_value_id old_value,
                                                  exg_value_id new_value, exg_error *err);

/* Renames a value, the node of that name, and every spec and target that names it.
 * USAGE BLD-002: no such value, or the new name is taken. NO_MEMORY. */
EXG_NODISCARD exg_status exg_program_rename_value(exg_program *program, const char *old_name,
                                                  const char *new_name, exg_error *err);

/* ---- printing ------------------------------------------------------------------------- */

/* As PyTorch's str() and repr() of an ExportGraphSignature. The text is malloc'ed; the
 * caller frees it. NO_MEMORY. */
EXG_NODISCARD exg_status exg_signature_print(const exg_signature *signature, char **text,
                                             exg_error *err);
EXG_NODISCARD exg_status exg_signature_repr(const exg_signature *signature, char **text,
                                            exg_error *err);

#ifdef __cplusplus
}
#endif

#endif
