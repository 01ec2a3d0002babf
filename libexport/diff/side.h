/* side.h - one of the two graphs: what its nodes are called without names. */
#ifndef EXG_LIBEXPORT_DIFF_SIDE_H
#define EXG_LIBEXPORT_DIFF_SIDE_H

#include "libexport/diff/differ.h"

/* Symbols by first appearance: "s77" and "s0" may be the same size. */
typedef struct exg_symbol_names {
    exg_map map;
} exg_symbol_names;

struct exg_side {
    const exg_graph *graph;
    const exg_signature *signature; /* NULL in a subgraph */
    const exg_map *renamed;         /* of A: weights that B calls otherwise; or NULL */
    const exg_program *renamed_to;
    exg_symbol_names *symbols;
    exg_graph view;           /* the graph, its values named by where they come from */
    exg_value *blank;         /* values that are all called "%" */
    uint64_t *targets;        /* by node: of the target alone */
    uint64_t *labels;         /* and of constant arguments, dtypes and shapes */
    uint64_t *up;             /* and of all it is computed from */
    uint64_t *down;           /* and of all that is computed from it, not of its inputs */
    const char **keys;        /* by graph input: what tells it from the others */
    const char **output_keys; /* by graph output: its kind and target, or its place */
};

/* Fills `side` from its first five members. d->failed without memory. */
void exg_side_fill(exg_differ *d, exg_side *side);

/* 'f32[s0, 4]' or 'Sym(s0 + 1)' of a value; symbols by number when `numbered`. */
const char *exg_side_annotation(exg_differ *d, const exg_side *side, exg_value_id id,
                                bool numbered);

/* `text` with symbols replaced by their numbers. */
const char *exg_symbols_numbered(exg_differ *d, exg_symbol_names *names, const char *text);

#endif
