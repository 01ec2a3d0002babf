/* guards.h - what PyTorch asks of the sizes of inputs: "L['x'].size()[0] % 8 == 0",
 * "L['d'].mask.size()[0] > 2*L['flat_args'][1].size()[0]". PyTorch runs them as Python. Here
 * inputs are replaced by the expressions of their sizes, and what is left is read by the closed
 * grammar (symint.h).
 *
 * Forms: those of torch.fx.experimental.symbolic_shapes.ShapeGuardPythonPrinter, with inputs as
 * torch._dynamo.source names them: by the argument of forward and a path of indices, keys and
 * attributes into it; strict exports say L['flat_args'][i], the i-th leaf of all arguments.
 */
#ifndef EXG_LIBEXPORT_VERIFY_GUARDS_H
#define EXG_LIBEXPORT_VERIFY_GUARDS_H

#include "libexport/base/map.h"

#include <exg/program.h>

/* The leaves of a program's arguments by their paths. */
typedef struct exg_guard_inputs {
    const exg_program *program;
    exg_map by_path;        /* of the graph's inputs */
    const uint32_t *leaves; /* the graph's inputs that are leaves, in the order of the call */
    uint32_t leaf_count;
    bool has_names; /* of arguments; else placeholders alone have some */
} exg_guard_inputs;

/* NO_MEMORY. Lives in `arena`. */
exg_status exg_guard_inputs_find(const exg_program *program, exg_arena *arena,
                                 exg_guard_inputs *inputs, exg_error *err);

/* One guard without its inputs, in `arena`; *text is NULL when it cannot be read: it speaks of
 * what is no input, or is not in the grammar. */
exg_status exg_guard_read(const exg_guard_inputs *inputs, const char *guard, exg_arena *arena,
                          const char **text, exg_error *err);

#endif
