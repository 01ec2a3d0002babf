/* pointwise.h - elementwise formulas, run in turn over tiles.
 *
 * A pointwise program loads tiles of its inputs (broadcast, any strides, any
 * dtype widened to the compute type), applies formulas to registers, stores
 * tiles of its outputs (narrowed). One node is a program of one formula; the
 * planner joins neighbours into one, so that what is between them stays in
 * cache. Formulas are the C text of libexport/operators/pointwise.def, one
 * compiled loop per compute type (f32, f64, i32, i64) and instruction set. Those of
 * f32 or bf16 that are each other's first operands run as one (loops/chain_body.h).
 *
 * A register holds one compute type. apply() converts its sources to the compute
 * type of the operation, and rounds its result to `result` (a bf16 operation
 * inside a fused chain gives what it would give alone, integers wrap).
 */
#ifndef EXG_LIBEXEC_KERNELS_POINTWISE_H
#define EXG_LIBEXEC_KERNELS_POINTWISE_H

#include "libexec/kernels/kernel.h"

typedef struct exg_pointwise exg_pointwise;

#define EXG_POINTWISE_REGISTERS 24 /* live at once in one program */
#define EXG_POINTWISE_SCALARS   4  /* of one formula */

/* A program over an iteration space of `rank` sizes. `scratch` holds what goes when it is
 * finished. NULL: out of memory. */
exg_pointwise *exg_pointwise_begin(exg_arena *arena, exg_arena *scratch, uint32_t rank,
                                   const int64_t *sizes);

/* Each gives a register, or a status LIMIT when the program is full (the planner
 * then starts a new group). `operator_id` is an enum exg_operator_id of
 * pointwise.def; `compute` the promoted dtype the formula is evaluated in (its
 * compute type is derived: bf16, f16 -> f32; bool, u8, i8, i16 -> i32), `result`
 * the dtype of the node's output; `is_one`: the input has one element, which is broadcast. */
exg_status exg_pointwise_load(exg_pointwise *p, uint32_t input, exg_dtype dtype, bool is_one,
                              uint32_t *reg, exg_error *err);
exg_status exg_pointwise_apply(exg_pointwise *p, uint32_t operator_id, exg_dtype compute,
                               exg_dtype result, const uint32_t *sources, uint32_t source_count,
                               const exg_argument *scalars, uint32_t scalar_count, uint32_t *reg,
                               exg_error *err);
/* Is there a formula of the operator for what it computes in? */
bool exg_pointwise_takes(uint32_t operator_id, exg_dtype compute);

exg_status exg_pointwise_store(exg_pointwise *p, uint32_t output, exg_dtype dtype, uint32_t reg,
                               exg_error *err);

/* Lays out tile buffers, picks loops for this machine, sets call->params; no
 * workspace: tiles live on the stack of whoever runs a block (100 KiB). The call's
 * inputs and outputs are then the operands by number; input strides are aligned to
 * the iteration space (0 where broadcast). An output may share memory with an input
 * of the same dtype and strides. LIMIT, NO_MEMORY. */
exg_status exg_pointwise_finish(exg_pointwise *p, exg_kernel_call *call, exg_error *err);

/* `count` elements of a call's epilogue from `start`, and as many of `rows` rows in all,
 * `stride` elements apart. */
void exg_pointwise_epilogue(const exg_kernel_call *call, int64_t start, int64_t rows, int64_t count,
                            int64_t stride);

extern const exg_kernel exg_kernel_pointwise; /* runs a finished program */

#endif
