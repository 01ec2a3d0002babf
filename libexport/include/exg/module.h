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

/* A frame of a stack_trace; texts are parts of the node's, not NUL-terminated. */
typedef struct exg_source_line {
    const char *text;     /* all of it: 'File "net.py", line 5, in forward\n    x = f(y)' */
    const char *file;     /* "net.py", as Python gave it */
    const char *function; /* "forward" */
    const char *code;     /* "x = f(y)", its first line; or nothing */
    uint32_t text_length, file_length, function_length, code_length;
    uint32_t line; /* 5 */
} exg_source_line;

/* The innermost user's line of a node's stack_trace, the one that reports, pages, plans and
 * errors show. Frames of PyTorch's own files (the packages torch, torchgen and functorch) and of
 * code that torch.fx generated are passed over; those of other packages (torchvision,
 * transformers) and of code without a file ("<string>", "<stdin>") are not. false, and empty
 * texts: there is none. */
bool exg_node_source_line(const exg_node *node, exg_source_line *source);

#ifdef __cplusplus
}
#endif

#endif
