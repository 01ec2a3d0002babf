/* flat_graph.h - the nodes that segments are made from: a program's graph without modes, and
 * what is known of it before it runs. */
#ifndef EXG_LIBEXPORT_TRANSFORM_FLAT_GRAPH_H
#define EXG_LIBEXPORT_TRANSFORM_FLAT_GRAPH_H

#include "libexport/transform/graph_segment.h"
#include "libexport/transform/idle.h"

struct exg_flat_graph {
    const exg_operators *operators;
    exg_program flat; /* the program with `graph` in place of its own */
    exg_graph graph;
    exg_tensor_meta **metas; /* by graph input */
    exg_argument *numbers;   /* by graph input */
    exg_symbols symbols;     /* that the inputs have given numbers */
    exg_idle_search reads;   /* who reads a value last */
    bool *own;               /* by value id: a graph input */
    exg_value_id *bases;     /* by value id: the value that it is a view of, or itself */
    bool *is_written;        /* by value id of a base: a node may write it, or a view of it */
    bool *written;           /* by graph input: so, or by a weight in the same storage */
    bool *scalar_reads;      /* by value id: an element that kernels read, never a number */
};

exg_status exg_flat_graph_create(const exg_program *program, const exg_operators *operators,
                                 exg_arena *arena, exg_flat_graph **flat, exg_error *err);

/* The flat graph after the cond nodes[at] of another, whose arena must stay. */
exg_status exg_flat_graph_branch(const exg_flat_graph *from, uint32_t at, bool taken,
                                 exg_arena *arena, exg_flat_graph **flat, exg_error *err);

/* What lives on past `next`, in *after: the new program's outputs are set to be the bases
 * made here. */
exg_status exg_live_out(exg_rewrite *r, exg_graph_segment *segment, uint32_t next, exg_error *err);

#endif
