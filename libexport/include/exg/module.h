/* module.h - where in the user's program a node comes from.
 *
 * torch.export notes with each node the modules it was called in
 * ("nn_module_stack") and the Python lines ("stack_trace"). Both are texts that
 * nothing checks; what does not parse counts as absent.
 * Form: torch/_export/serde/serialize.py.
 */
#ifndef EXG_MODULE_H
#define EXG_MODULE_H

#include <exg/program.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The text under `key` in a node's metadata, or NULL. */
const char *exg_node_metadata(const exg_node *node, const char *key);

/* One module of a stack; texts are parts of the node's, not NUL-terminated. */
typedef struct exg_module_frame {
    const char *path; /* "blocks.0.attention"; "" of the root */
    const char *type; /* "torch.nn.modules.linear.Linear" */
    uint32_t path_length, type_length;
} exg_module_frame;

/* Takes the next module, outermost first, off *stack (a text of "nn_module_stack", or
 * NULL). false: no more, or no such form. */
bool exg_module_stack_next(const char **stack, exg_module_frame *frame);

/* The innermost module of a node; the root with empty texts when none is noted. */
exg_module_frame exg_node_module(const exg_node *node);

/* The innermost user's line of a node's stack_trace: a part of it ("File ..., line 5,
 * in forward\n    x = f(y)"), `*length` bytes; NULL without one. Frames inside torch
 * itself are passed over. */
const char *exg_node_source_line(const exg_node *node, uint32_t *length);

#ifdef __cplusplus
}
#endif

#endif
