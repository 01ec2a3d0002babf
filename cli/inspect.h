/* inspect.h - what `exg inspect` knows of a program, and its ways to show it. */
#ifndef EXG_CLI_INSPECT_H
#define EXG_CLI_INSPECT_H

#include "cli/cli.h"

#include <exg/inspection.h>
#include <exg/module.h>

typedef struct cli_inspection {
    const cli_call *call;
    const cli_program *p; /* NULL: of weights alone */
    exg_arena *arena;
    const exg_inspection *found;
    exg_weights *weights;
    const char *const *paths; /* of the graph's inputs: exg_input_paths(); NULL: of weights alone */
} cli_inspection;

/* The weights that --filter lets pass, in the order of --sort; in the arena. NULL: no memory. */
const exg_weight **cli_weights_shown(const cli_inspection *i, uint32_t *count);

/* Ways to show it; texts of a file are escaped for where they go. */
void cli_put_shape(exg_text *text, const exg_tensor_meta *meta); /* f32[1, s27] */
exg_status cli_put_summary_json(exg_text *text, const cli_inspection *i, exg_error *err);
void cli_put_modules_json(exg_text *text, const cli_inspection *i);
/* --tree, --list-weights */
exg_status cli_put_tables_json(exg_text *text, const cli_inspection *i, exg_error *err);
void cli_put_node_json(exg_text *text, const exg_graph *graph, const exg_node *node);
void cli_put_nodes_json(exg_text *text, const exg_graph *graph);
void cli_put_results_json(exg_text *text, const exg_graph *graph,
                          exg_argument *arg); /* its values, an object each */
/* --list-weights */
exg_status cli_put_weights(exg_text *text, const cli_inspection *i, exg_error *err);
/* --values: what the elements of one are, at the end of its line, or as a member */
exg_status cli_put_statistics(exg_text *text, const cli_inspection *i, const exg_weight *weight,
                              exg_error *err);
exg_status cli_put_statistics_json(exg_text *text, const cli_inspection *i,
                                   const exg_weight *weight, exg_error *err);
void cli_put_tree(exg_text *text, const cli_inspection *i); /* --tree */
void cli_note_filter(const cli_inspection *i);              /* a warning, where it fits nothing */
/* "aten.add.Tensor" of "torch.ops.aten.add.Tensor": what a box is called. */
const char *cli_short_target(const char *target);
void cli_put_dot(exg_text *text, const cli_inspection *i);      /* --dot */
void cli_put_explorer(exg_text *text, const cli_inspection *i); /* --model-explorer */
exg_status cli_put_node(exg_text *text, const cli_inspection *i, exg_error *err); /* --node */
exg_status cli_put_program_page(exg_text *text, const cli_inspection *i, exg_error *err);
void cli_put_page(exg_text *text, const exg_text *json);      /* --html, of this object */
void cli_put_diff_page(exg_text *text, const exg_text *json); /* the same of exg diff */

/* To the file of --html, whole or not at all; else to where the command prints. */
exg_status cli_deliver(const cli_call *call, const exg_text *text, exg_error *err);

#endif
