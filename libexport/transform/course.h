/* course.h - the nodes that stretches are made from: a program's graph without modes, and
 * what is known of it before it runs. */
#ifndef EXG_LIBEXPORT_TRANSFORM_COURSE_H
#define EXG_LIBEXPORT_TRANSFORM_COURSE_H

#include "libexport/transform/stretch.h"

struct exg_course {
    const exg_operators *operators;
    exg_program flat;       /* the program with `graph` in place of its own */
    exg_graph graph;
    exg_tensor_meta **metas; /* by graph input */
    exg_argument *numbers;   /* by graph input */
    exg_symbols symbols;     /* that the inputs have given numbers */
    uint32_t *last_use; /* by value id: 1 + the last node that reads it, UINT32_MAX: an output */
    bool *own;          /* by value id: a graph input */
    bool *written;      /* by graph input: a node may write it, itself or through a view */
    bool *slots;        /* by value id: an element that kernels read, never a number */
};

exg_status exg_course_create(const exg_program *program, const exg_operators *operators,
                             exg_arena *arena, exg_course **course, exg_error *err);

/* The course after the cond nodes[at] of another, whose arena must stay. */
exg_status exg_course_branch(const exg_course *from, uint32_t at, bool taken, exg_arena *arena,
                             exg_course **course, exg_error *err);

/* What lives on past `next`, in *after: the new program's outputs are set to be the bases
 * made here. */
exg_status exg_carry(exg_rewrite *r, exg_stretch *stretch, uint32_t next, exg_error *err);

#endif
