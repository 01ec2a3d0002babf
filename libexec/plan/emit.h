/* emit.h - adds steps and buffers to a plan. */
#ifndef EXG_LIBEXEC_PLAN_EMIT_H
#define EXG_LIBEXEC_PLAN_EMIT_H

#include "libexec/plan/planner.h"

/* A new buffer in the arena, first written by the step about to be added. */
exg_status exg_planner_buffer(exg_planner *p, uint64_t bytes, uint32_t *buffer);

/* The same for a buffer that `buffer` describes. */
exg_status exg_planner_add_buffer(exg_planner *p, const exg_buffer *buffer, uint32_t *index);

/* Adds an empty step of the device's kernel for this one of the host's; its index is
 * plan->step_count - 1. */
exg_status exg_planner_step(exg_planner *p, const exg_kernel *kernel, const char *name,
                            uint32_t input_count, uint32_t output_count, exg_step **step);

/* Dtype, sizes and strides of a tensor as the program describes it. LIMIT. */
exg_status exg_planner_view_of(exg_planner *p, const exg_tensor_meta *meta, exg_tensor *view);

/* Bytes from the first of a buffer to the end of a view on it. LIMIT. */
exg_status exg_planner_extent(exg_planner *p, const exg_tensor *view, int64_t offset,
                              uint64_t *bytes);

/* Puts a value's result into a fresh contiguous buffer, or into `reuse` when it is
 * not EXG_NO_BUFFER. Call after exg_planner_step. */
exg_status exg_planner_result(exg_planner *p, exg_value_id value, uint32_t reuse);

/* Operand `at` of the step is at `location`; notes the use in lifetimes. */
void exg_planner_input(exg_planner *p, exg_step *step, uint32_t at, const exg_location *location);
void exg_planner_output(exg_planner *p, exg_step *step, uint32_t at, const exg_location *location);

/* One use of a value is done. */
void exg_planner_used(exg_planner *p, exg_value_id value);

/* A step that copies `from` into a fresh contiguous buffer at *to. */
exg_status exg_planner_copy(exg_planner *p, const exg_location *from, const char *name,
                            exg_location *to);

/* Has the buffer the same bytes in every run? */
bool exg_planner_is_fixed(const exg_planner *p, uint32_t buffer);

/* Where operand `at` of a list that is joined along `dim` begins in the whole, whose sizes are
 * `whole`, row-major. */
void exg_planner_part_of(const exg_planner *p, const exg_argument *list, uint32_t at, int64_t dim,
                         const exg_tensor *whole, exg_location *part);

#endif
