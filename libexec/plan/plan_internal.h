/* plan_internal.h - what the planner writes and the session reads.
 *
 *   value  -> {buffer, view}      where a tensor is
 *   buffer -> {place, bytes, life}  a run of bytes: in the arena, a weight's, an input's
 *   step   -> {kernel, call}        operands point to buffers until the session binds them
 */
#ifndef EXG_LIBEXEC_PLAN_PLAN_INTERNAL_H
#define EXG_LIBEXEC_PLAN_PLAN_INTERNAL_H

#include "libexec/kernels/kernel.h"

#include <exg/plan.h>

#define EXG_NO_BUFFER UINT32_MAX

typedef enum exg_buffer_kind {
    EXG_BUFFER_ARENA,
    EXG_BUFFER_INPUT,    /* the tensor of graph input `index` */
    EXG_BUFFER_CONSTANT, /* the session's own, made once from weights: constant `index` */
    EXG_BUFFER_OUTPUT,   /* where the caller says: graph output `index` */
} exg_buffer_kind;

typedef struct exg_buffer {
    exg_buffer_kind kind;
    uint32_t index; /* INPUT: graph input; OUTPUT: graph output; CONSTANT: which */
    uint64_t bytes;
    uint64_t offset;     /* ARENA: where it begins */
    uint32_t first_step; /* written first */
    uint32_t last_step;  /* read or written last; UINT32_MAX: until the run's end */
    bool writable;       /* INPUT: its content is written back, so steps may write it */
    bool is_folded;      /* ARENA, CONSTANT: written by a folded step */
    bool is_read;        /* by a step that runs each time */
    bool is_packed;      /* CONSTANT: made by a packer */
} exg_buffer;

/* A tensor inside a buffer. The view's data is the buffer's first byte plus
 * `offset` elements. */
typedef struct exg_location {
    uint32_t buffer;
    int64_t offset;
    exg_tensor view;
} exg_location;

/* Bytes of a buffer, from its start. */
exg_span exg_location_span(const exg_location *location);

typedef struct exg_step {
    const exg_kernel *kernel;
    const exg_kernel *host; /* the same, for the host */
    exg_kernel_call call;
    exg_location *inputs; /* call.inputs[i] is inputs[i].view, once bound */
    exg_location *outputs;
    const char *name;            /* of the node, or what the step is for */
    const char *target, *module; /* of the node; "" without one */
    const char *origin;          /* node of the program; "": of none */
    const char *source;          /* the user's line it comes from, or "" */
    uint32_t fused;              /* nodes inside */
    bool is_folded;              /* depends on weights alone: runs once, before the first run */
    bool on_host;                /* the plan is of a device that has no such kernel */
    bool is_paired;              /* with the next one, as one launch of the device */
    bool has_packed; /* inputs[input_count] is call.packed, a begun collective's workspace too */
    uint32_t epilogue_count; /* inputs after these are call.epilogue_inputs */
} exg_step;

/* All that a step reads. */
static inline uint32_t exg_step_operands(const exg_step *step)
{
    return step->call.input_count + step->has_packed + step->epilogue_count;
}

typedef struct exg_plan_input {
    const char *name;
    exg_input_kind kind;
    const char *target;
    exg_argument constant;  /* kind TENSOR: a tensor, described by `tensor` */
    exg_tensor tensor;      /* sizes and strides as the program reads it */
    int64_t storage_offset; /* elements: where in the weight's storage it begins */
    uint32_t buffer;
    bool mutated;
    bool is_forwarded; /* by an earlier segment or a loop: on a device it is there */
} exg_plan_input;

typedef struct exg_plan_output {
    exg_output_kind kind;
    const char *target;
    exg_argument constant; /* kind TENSOR: a tensor at `location` */
    exg_location location;
    bool is_forwarded; /* to a later segment or a loop, which no host reads */
} exg_plan_output;

struct exg_plan {
    exg_arena *arena;
    exg_buffer *buffers;
    exg_step *steps;
    exg_plan_input *inputs;
    exg_plan_output *outputs;
    uint32_t buffer_count;
    uint32_t step_count;
    uint32_t folded_count; /* the first steps: the folded ones */
    uint32_t constant_count;
    uint32_t input_count;
    uint32_t output_count;
    bool outputs_apart; /* results are where the caller says, elsewhere each time */
    exg_plan_summary summary;
};

#define EXG_NO_INPUT UINT32_MAX

/* exg_plan_create for one rank of a mesh: collectives go through `grid` (NULL: none), steps
 * run on `device` (NULL: the host), which must be open as long as the plan is. `in_place` (NULL: of
 * none): by graph output the graph input whose memory it is to be in, or EXG_NO_INPUT; where they
 * are not alike it is elsewhere all the same. */
exg_status exg_plan_rank(const exg_program *functional, const exg_operators *operators,
                         const exg_plan_options *options, const struct exg_grid *grid,
                         struct exg_accelerator *device, const uint32_t *in_place, exg_plan **plan,
                         exg_error *err);

/* Does such a plan part collectives into a beginning and an end? */
bool exg_plan_overlaps(const exg_plan_options *options, const struct exg_grid *grid,
                       const struct exg_accelerator *device);

/* May running the step find a fault of the data? */
bool exg_step_raises(const exg_step *step);

/* The kernel of an operator row, or NULL. */
const exg_kernel *exg_kernel_of(const exg_operator *op);

/* Gives every arena buffer its offset; sets summary.arena_bytes. LIMIT. */
exg_status exg_plan_memory(exg_plan *plan, bool no_reuse, exg_error *err);

#endif
