/* plan.h - decisions, all of them, before anything moves.
 *
 * A plan says for a functional program with concrete sizes: which kernels run in
 * which order, where every buffer is in one arena, which values are views of
 * others, which steps run in place. It can be printed and compared. A session
 * only carries it out.
 *
 * Lifetime: owns its arena of descriptions; borrows nothing but operator rows.
 * Threads: read-only once made.
 */
#ifndef EXG_PLAN_H
#define EXG_PLAN_H

#include <exg/operators.h>
#include <exg/program.h>
#include <exg/status.h>
#include <exg/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct exg_plan exg_plan;

/* Does a rank compute while what it sends and receives is under way? A collective is two steps
 * then, a beginning and an end, with others between them; the bits of results are the same. */
typedef enum exg_overlap {
    EXG_OVERLAP_AUTO, /* where something else than its own core carries the bytes: processes do,
                         threads copy them themselves, and a device says so */
    EXG_OVERLAP_ON,
    EXG_OVERLAP_OFF
} exg_overlap;

typedef struct exg_plan_options {
    size_t size;         /* sizeof(exg_plan_options) */
    bool no_fusion;      /* every pointwise node is a step of its own */
    bool no_reuse;       /* every value has memory of its own (for tests) */
    exg_overlap overlap; /* on a mesh */
    bool outputs_apart;  /* each output is in memory of the caller's, not in the plan's block */
} exg_plan_options;

/* Plans `functional`, which exg_functionalize (and exg_simplify) made. UNSUPPORTED
 * names the operator and the reason; LIMIT. The caller destroys it. */
EXG_NODISCARD exg_status exg_plan_create(const exg_program *functional,
                                         const exg_operators *operators,
                                         const exg_plan_options *options, exg_plan **plan,
                                         exg_error *err);
void exg_plan_destroy(exg_plan *plan); /* NULL is allowed */

/* The plan's own; later versions may have more at its end. */
typedef struct exg_plan_summary {
    size_t size;             /* that this library filled */
    uint32_t node_count;     /* of the functional program */
    uint32_t step_count;     /* kernels launched a run */
    uint32_t view_count;     /* nodes that move no byte */
    uint32_t fused_count;    /* pointwise nodes inside steps of several */
    uint32_t in_place_count; /* steps whose result takes an operand's memory */
    uint64_t arena_bytes;    /* one block for all values */
    uint64_t values_bytes;   /* what they would take without reuse */
    uint64_t workspace_bytes;
    uint64_t weight_bytes;   /* of the weights that are read; on a mesh, by the rank */
    uint64_t constant_bytes; /* made from weights before the first run: folded and packed */
    uint32_t host_count;     /* steps that the host computes for a device, between copies */
} exg_plan_summary;

/* Lent as long as the plan is there. */
const exg_plan_summary *exg_plan_summarize(const exg_plan *plan);

/* A line a step: kernel, operands with shapes and places, results. The caller
 * frees the text. */
EXG_NODISCARD exg_status exg_plan_print(const exg_plan *plan, char **text, exg_error *err);

/* Does libexec have a kernel for it (directly, as a view, or pointwise)? */
bool exg_operator_runs(const exg_operator *op);

#ifdef __cplusplus
}
#endif

#endif
