/* inspect.h - what `exg inspect` knows of a program, and its ways to show it. */
#ifndef EXG_CLI_INSPECT_H
#define EXG_CLI_INSPECT_H

#include "cli/cli.h"
#include "libexport/base/arena.h"
#include "libexport/base/text.h"

#include <exg/module.h>

typedef struct cli_operator_count {
    const char *target;
    uint32_t count;
    bool known;
} cli_operator_count;

/* A module that holds weights, itself or further in. */
typedef struct cli_module {
    const char *path; /* "" of the whole */
    const char *type; /* its class, or "" */
    uint32_t parent;  /* UINT32_MAX of the whole */
    uint32_t depth;
    uint32_t first, last;         /* of those within it, and */
    uint32_t next;                /* the one after it; 0: none */
    uint64_t parameters, buffers; /* numbers in them; what has several names once */
    uint64_t bytes;               /* of both, and of constants */
} cli_module;

typedef enum cli_weight_kind { CLI_PARAMETER, CLI_BUFFER, CLI_CONSTANT } cli_weight_kind;

#define CLI_MODULE_DEPTH_MAX 64 /* what lies deeper counts as there */

typedef struct cli_inspection {
    const cli_call *call;
    const cli_program *p;
    exg_arena *arena;
    cli_operator_count *operators; /* most used first */
    cli_module *modules;           /* parents before children, in file order; [0] the whole */
    cli_weight_kind *kinds;        /* by weight */
    uint32_t operator_count, module_count;
    uint64_t storage_bytes; /* of weights */
    uint32_t storage_count;
    uint64_t activation_bytes; /* most that is live at once, at the recorded sizes */
    bool activations_known;    /* every size has a number */
} cli_inspection;

/* Counts everything. NO_MEMORY. */
exg_status cli_inspection_make(const cli_call *call, const cli_program *p, exg_arena *arena,
                               cli_inspection *made, exg_error *err);

/* Most bytes of node results live at once: views take none, a result goes after its last
 * use. false when a size has no recorded number. */
exg_status cli_activation_bytes(const cli_program *p, exg_arena *arena, uint64_t *bytes,
                                bool *known, exg_error *err);

/* The weights that --filter lets pass, in the order of --sort; in the arena. NULL: no memory. */
const exg_weight **cli_weights_shown(const cli_inspection *i, uint32_t *count);

/* Ways to show it; texts of a file are escaped for where they go. */
void cli_put_shape(exg_text *text, const exg_tensor_meta *meta); /* f32[1, s27] */
void cli_put_bytes(exg_text *text, uint64_t bytes);              /* 1.41 MB */
void cli_put_summary_json(exg_text *text, const cli_inspection *i);
void cli_put_tables_json(exg_text *text, const cli_inspection *i); /* --tree, --list-weights */
void cli_put_node_json(exg_text *text, const exg_graph *graph, const exg_node *node);
void cli_put_nodes_json(exg_text *text, const cli_inspection *i);
void cli_put_weights(exg_text *text, const cli_inspection *i); /* --list-weights */
void cli_put_tree(exg_text *text, const cli_inspection *i);    /* --tree */
void cli_put_dot(exg_text *text, const cli_inspection *i);     /* --dot */
exg_status cli_put_node(exg_text *text, const cli_inspection *i, exg_error *err); /* --node */
exg_status cli_put_page(exg_text *text, const cli_inspection *i, exg_error *err); /* --html */

#endif
