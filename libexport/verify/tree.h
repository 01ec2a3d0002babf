/* tree.h - how the arguments of a call nest: PyTorch's treespec, JSON in a text: [1, NODE],
 * NODE = {"type", "context", "children_spec"}; a leaf has no type (torch/utils/_pytree.py).
 */
#ifndef EXG_LIBEXPORT_VERIFY_TREE_H
#define EXG_LIBEXPORT_VERIFY_TREE_H

#include "libexport/formats/json.h"

#include <exg/program.h>
#include <exg/text.h>

/* JSON does not nest deeper than EXG_JSON_DEPTH_MAX, two levels of it a node. */
#define EXG_TREE_DEPTH_MAX (EXG_JSON_DEPTH_MAX / 2)

typedef struct exg_tree_node {
    const char *type; /* "builtins.list"; NULL: a leaf */
    exg_json context;
    exg_json children;
} exg_tree_node;

/* MALFORMED JSN-..., with what is wrong with the text; `doc` is then NULL. */
exg_status exg_tree_parse(const char *text, exg_json_doc **doc, exg_json *root, exg_error *err);

/* false: `node` lacks one of its parts. */
bool exg_tree_node_read(exg_json node, exg_tree_node *read);

/* One step of the way to a leaf. */
typedef struct exg_tree_step {
    const struct exg_tree_step *outer; /* NULL: the first */
    const char *key;                   /* of a dict, field of a class; NULL: `index` counts */
    int64_t index;                     /* in a list, or the integer key of a dict */
} exg_tree_step;

/* Calls `on_leaf` for every leaf of the call `text`, in order; the first step is the name of an
 * argument: one of `names` for positional ones, the keyword for others. A child whose key the
 * context does not tell has the key EXG_TREE_UNKNOWN. NO_MEMORY, MALFORMED. */
#define EXG_TREE_UNKNOWN "\x1d"
exg_status exg_tree_leaves(const exg_program *program, const char *text, const char *const *names,
                           uint32_t name_count,
                           void (*on_leaf)(void *user, const exg_tree_step *step, uint32_t leaf),
                           void *user);

/* `text` again, in `arena`, with what `of_leaf` writes in the place of a leaf; the leaf stays where
 * it writes nothing. NO_MEMORY, MALFORMED (JSN-..., MCG-006). */
typedef void (*exg_tree_grow_fn)(void *user, exg_text *node);
exg_status exg_tree_grow(exg_arena *arena, const char **text, exg_tree_grow_fn of_leaf, void *user,
                         exg_error *err);

#endif
