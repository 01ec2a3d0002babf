/* distribute.h - a program's modules over a device mesh, and the program that is run so.
 *
 *   exg_distribute_module    parameters and buffers become DTensors, as a partition function says;
 *                            functions are noted that see what goes into a module and comes out
 *   exg_module_forward       runs the program operator by operator, on this rank of the mesh:
 *                            gradients are exg_backward's (autograd.h)
 *   exg_module_session       a session (session.h) whose ranks hold the same parts
 *
 * What is not distributed stays plain: parameters of other modules, inputs, what is computed of
 * them. A plain tensor that is computed, or has a gradient, is a DTensor of the mesh of this rank
 * alone (exg_dispatcher_self); functions go over the borders with exg_from_local and exg_to_local.
 *
 * Every rank has modules of its own, of its own copy of the program. Collective and threads: as
 * dispatch.h says.
 * Meaning: torch/distributed/tensor/_api.py, distribute_module.
 */
#ifndef EXG_DISTRIBUTE_H
#define EXG_DISTRIBUTE_H

#include <exg/autograd.h>
#include <exg/verify.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- modules --------------------------------- */

/* A rank's parameters and buffers of a program, each under its FQN: plain at first, DTensors once
 * the module that holds them is distributed. Tensors that are tied (one storage, one shape) are
 * one DTensor. */
typedef struct exg_module exg_module;

/* `verified` must stay as long as the module. LIMIT DTN-017: more than 64 modules in one
 * another. */
EXG_NODISCARD exg_status exg_module_create(const exg_verified *verified, exg_module **m,
                                           exg_error *err);
void exg_module_destroy(exg_module *m); /* with its DTensors; NULL is allowed */

/* Once for the module `fqn` and each in it, parents first ("" is the root): may assign. */
typedef exg_status exg_partition_fn(void *user, exg_module *m, const char *fqn,
                                    exg_device_mesh *mesh, exg_error *err);

/* What goes into a module or comes out of it. */
typedef struct exg_module_value {
    const char *name;         /* of the input or output; inside the program of the graph's value */
    const exg_tensor *tensor; /* of a plain tensor; NULL: it is none */
    exg_dtensor *dtensor;     /* the DTensor; of a plain tensor NULL, or the one of this rank alone
                                 that has its memory, and its gradient */
    exg_scalar number;        /* where both are NULL: a number; of kind NONE nothing */
} exg_module_value;

/* May put others in the place of values, DTensors for plain tensors or the reverse; what it leaves
 * alone stays. What it puts there is the forward's, as is what it takes away. */
typedef exg_status exg_module_hook(void *user, exg_module *m, const char *fqn,
                                   exg_module_value *values, uint32_t count, exg_device_mesh *mesh,
                                   exg_error *err);
/* The same without the module, as it was at first. */
typedef exg_status exg_values_hook(void *user, exg_module_value *values, uint32_t count,
                                   exg_device_mesh *mesh, exg_error *err);

typedef struct exg_module_functions {
    size_t size;                                   /* sizeof(exg_module_functions) */
    exg_partition_fn *partition;                   /* NULL: everything is Replicate */
    exg_module_hook *input;                        /* before the forward of the module, or NULL */
    exg_module_hook *output;                       /* after it, or NULL */
    void *user;                                    /* of all of them */
    exg_values_hook *input_of_two, *output_of_two; /* deprecated: instead of the above */
} exg_module_functions;

/* torch.distributed.tensor.distribute_module. The module `fqn` and those in it: after the partition
 * function was called for one of them, what that one holds itself and is plain still becomes
 * Replicate on every mesh dim. `mesh` NULL: the dispatcher's current one (USAGE DTN-018 when there
 * is none). `functions` may be NULL; deprecated ones are taken with a note (EXG_EVENT_NOTE). No
 * message. USAGE DTN-017: no such module, a second time, or two input or output functions. A fault
 * in between leaves what was distributed as it is. */
EXG_NODISCARD exg_status exg_distribute_module(exg_dispatcher *d, exg_module *m, const char *fqn,
                                               exg_device_mesh *mesh,
                                               const exg_module_functions *functions,
                                               exg_error *err);

/* register_parameter(name, distribute_tensor(...)) in PyTorch's partition_fn: the tensor `fqn` of
 * any module of the program is distributed so. Again to the same placements: nothing. USAGE
 * DTN-017: no such tensor, elsewhere than in a partition function, or to others than before. */
EXG_NODISCARD exg_status exg_module_assign(exg_module *m, const char *fqn,
                                           const exg_placement *placements, uint32_t count,
                                           exg_error *err);

/* Parameters and buffers in the program's order: the FQN, and the DTensor, NULL while it is plain
 * and was not used; borrowed. Tied ones give the same. */
uint32_t exg_module_tensor_count(const exg_module *m);
const char *exg_module_tensor_at(const exg_module *m, uint32_t i, exg_dtensor **t);
/* NULL too when there is none of that name. */
exg_dtensor *exg_module_find(const exg_module *m, const char *fqn);

/* ---- running --------------------------------- */

/* What the program gives: all outputs but what it writes, in their order. */
uint32_t exg_module_output_count(const exg_module *m);

/* The input function of the root on `inputs` (user inputs by their graph's names, however they were
 * passed), the program, its output function on `outputs`, whose DTensors are the caller's. A
 * symbolic integer is a number, or a 0-d int64. The input and the output function of another module
 * get what its nodes take from outside and what others take from them, in the order of use; which
 * nodes are a module's the file notes. The program is bound to the sizes that the values have after
 * the root's input function, of DTensors the whole's; its buffers are written as it says. USAGE
 * DTN-017: an input is missing, another number of outputs, no room; INP-... as exg_bind_inputs;
 * UNSUPPORTED OPR-003 of branches, loops, and sizes that are in the data (a session runs those);
 * and as exg_dispatch. */
EXG_NODISCARD exg_status exg_module_forward(exg_dispatcher *d, exg_module *m,
                                            const exg_module_value *inputs, uint32_t input_count,
                                            exg_module_value *outputs, uint32_t output_count,
                                            exg_error *err);

#ifdef __cplusplus
}
#endif

#endif
