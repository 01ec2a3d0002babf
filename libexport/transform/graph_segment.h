/* graph_segment.h - a program in segments, which a run executes one after the other.
 *
 * A segment is decomposed from the program's nodes in order, up to a graph break: a number is
 * needed that only the run can know (a size that depends on data, an element used as a number,
 * the predicate of a branch), or a loop follows. Its outputs are the values that are live after
 * it. When it has run, the next segment is made with the number (or the loop's results), and so
 * on to the end.
 *
 *   begin(inputs) -> segment -run-> number -> resume(segment, number) -> segment -run-> ...
 *
 * A program without graph breaks is one segment. Live after a segment are whole tensors ("bases")
 * and how views of them were taken; views are replayed where the next segment begins, so that
 * a write through a view is seen by all, whichever segment they are in. A branch is part
 * of the segment after its predicate. The graphs of a loop are programs of their own.
 */
#ifndef EXG_LIBEXPORT_TRANSFORM_GRAPH_SEGMENT_H
#define EXG_LIBEXPORT_TRANSFORM_GRAPH_SEGMENT_H

#include "libexport/transform/inline.h"
#include "libexport/transform/rewrite.h"

#include <exg/symint.h>
#include <exg/weights.h>

typedef enum exg_graph_break {
    EXG_GRAPH_BREAK_END,    /* the program's outputs are there */
    EXG_GRAPH_BREAK_NUMBER, /* one element of an output is needed */
    EXG_GRAPH_BREAK_LOOP    /* the operands of a loop are there */
} exg_graph_break;

/* Ids of values that only replayed views know have this bit. */
#define EXG_REPLAYED_VALUE 0x80000000u

/* A tensor that an earlier segment made. */
typedef struct exg_live_in {
    exg_value_id id;
    const char *name;
    exg_tensor_meta *meta; /* row-major */
    uint32_t depth;        /* of that segment: the first of a run is 0 */
    uint32_t index;        /* of its output, or of a result of its loop */
    bool of_loop;
} exg_live_in;

/* A program's assertion on data: an output of one bool. */
typedef struct exg_check {
    uint32_t output;
    const exg_node *node;
    const char *message; /* the program's */
} exg_check;

/* What the graphs of a loop are given: a number, a weight, or an output of the segment. */
typedef struct exg_loop_operand {
    exg_argument number; /* NONE: none */
    bool is_weight;      /* the graphs read it by its name; `output` is its value's id */
    uint32_t output;
} exg_loop_operand;

/* while_loop: condition and body of (carried, others). scan and map: body of (carried,
 * one slice of each sliced, others), which gives (carried, slices of the results). */
typedef struct exg_loop {
    const exg_program *condition; /* NULL: scan, map */
    const exg_program *body;
    exg_loop_operand *operands;
    uint32_t operand_count, carried_count, sliced_count;
    uint32_t result_count;
    bool is_stacked; /* while_loop_stack_output gives what was carried after each iteration */
} exg_loop;

typedef struct exg_flat_graph exg_flat_graph; /* the nodes that segments are made from */

/* A view that is replayed where a segment begins. */
typedef struct exg_replayed_view {
    exg_operator_id op;
    exg_argument *args; /* normalized; the first is replaced */
    exg_value_id from, to;
} exg_replayed_view;

typedef struct exg_known_number {
    exg_value_id id;
    exg_argument number;
} exg_known_number;

/* Where a segment ends, and all that the next one needs to begin. */
typedef struct exg_state {
    uint32_t at; /* the next node */
    exg_live_in *live_in;
    exg_replayed_view *views;
    exg_known_number *known;
    uint32_t live_in_count, view_count, known_count;
    uint32_t replayed_count; /* values that only views know */
} exg_state;

typedef struct exg_graph_segment {
    exg_arena *arena; /* owns all but the program */
    uint32_t depth;
    exg_program *program; /* decomposed; inputs: the whole program's own, then `inputs` */
    exg_live_in *inputs;
    uint32_t input_count;
    uint32_t output_count; /* at the END: the program's own, before those of checks */
    uint32_t first_output; /* of the functional program: before it are its mutations */
    exg_check *checks;
    uint32_t check_count;
    exg_graph_break graph_break;
    const exg_node *node;     /* that waits; NULL at the END */
    const char *break_reason; /* for what, in words; NULL at the END */
    uint32_t number_output;   /* NUMBER */
    exg_loop loop;            /* LOOP */
    const exg_flat_graph *flat;
    exg_state after;
} exg_graph_segment;

/* The first segment of `program`. `metas` and `numbers` (NULL: none) give, by graph input,
 * what is known beside `symbols`: row-major tensors, numbers. The program must stay as long
 * as its segments. */
exg_status exg_graph_segment_begin(const exg_program *program, const exg_operators *operators,
                                   const exg_symbols *symbols, const exg_tensor_meta *const *metas,
                                   const exg_argument *numbers, exg_graph_segment **segment,
                                   exg_error *err);

/* What follows when the number is known, or the sizes of a loop's results. `before` must
 * stay as long as the segment. MALFORMED RUN-006 (an assertion of the program), RUN-007 (a
 * number outside its range). */
exg_status exg_graph_segment_resume(const exg_graph_segment *before, const exg_argument *number,
                                    exg_graph_segment **segment, exg_error *err);
exg_status exg_graph_segment_resume_loop(const exg_graph_segment *before,
                                         const exg_tensor_meta *results,
                                         exg_graph_segment **segment, exg_error *err);
void exg_graph_segment_destroy(exg_graph_segment *segment); /* NULL is allowed */

/* The segment ready to be planned: functional and simplified (simplify.h). With `keeps` what the
 * program may write from run to run is the session's here too, written in this segment or not. It
 * may hold lists of the segment's own program, which must stay as long. */
exg_status exg_graph_segment_functional(exg_graph_segment *segment, bool keeps, bool on_host,
                                        exg_program **functional, exg_error *err);

/* A number as a truth value. */
bool exg_is_true(const exg_argument *number);

/* ---- shared by the passes ---------------------------------------------------------------- */

/* What an input is bound to; NULL: a user's, or none is there. */
const exg_weight *exg_input_weight(const exg_program *in, uint32_t i);

/* A graph input as it is recorded, its symbols numbers. */
exg_status exg_input_number(const exg_program *in, uint32_t i, const exg_symbols *symbols,
                            exg_argument *number, exg_error *err); /* SYM_INT, SYM_FLOAT */
exg_status exg_input_meta(const exg_program *in, uint32_t i, const exg_symbols *symbols,
                          exg_arena *arena, exg_tensor_meta **meta, exg_error *err);

/* The layout in which the run is given input `i`: a caller's tensor row-major, a weight as its
 * payload describes it, whatever strides the graph recorded. Up to functionalize strides are
 * PyTorch's, since what aliases what depends on them. */
void exg_input_given(const exg_program *in, uint32_t i, exg_tensor_meta *meta);

/* A copy with numbers for the symbols. `expressions` NULL: each is read for this time alone.
 * MALFORMED, USAGE INP-006 (a negative size). */
exg_status exg_meta_evaluate(const exg_tensor_meta *in, const exg_symbols *symbols,
                             struct exg_expressions *expressions, exg_arena *arena,
                             exg_tensor_meta **out, exg_error *err);

/* A copy with sizes and strides of its own, or NULL; row-major strides, offset 0. */
exg_tensor_meta *exg_meta_copy(exg_arena *arena, const exg_tensor_meta *meta);
void exg_meta_contiguous(exg_tensor_meta *meta);

/* Emits a node whose arguments are translated. `scalar_reads` (NULL: none) says by position which
 * of them are numbers held in 0-d tensors, and of which kind; else NONE. */
exg_status exg_decompose_node(exg_rewrite *r, const exg_node *node, const exg_operator *op,
                              exg_argument *args, const exg_argument_kind *scalar_reads);

#endif
