/* propagate.h - from the specs of a call to the specs of its results. */
#ifndef EXG_LIBEXEC_DISPATCH_PROPAGATE_H
#define EXG_LIBEXEC_DISPATCH_PROPAGATE_H

#include "libexec/sharding/rules.h"

#include <exg/dispatch.h>
#include <exg/partition.h>

#define EXG_CALL_OPERANDS_MAX 256

/* The arguments of `schema` by position of its parameters, NULL where the default counts.
 * USAGE DSP-001. */
exg_status exg_schema_positions(const exg_op_schema *schema, exg_object **at, exg_error *err);

/* Tensors among objects by schema position, flat: lists laid out. */
typedef struct exg_operand_slot {
    uint32_t position;  /* of the parameter */
    uint32_t item;      /* in its list; 0 without one */
    exg_object *object; /* SPEC, DTENSOR, TENSOR, a number's VALUE; NONE: absent */
} exg_operand_slot;

/* LIMIT DSP-001 when there are more than `max`. */
exg_status exg_call_operands(const exg_function_schema *schema, exg_object *const *at,
                             exg_operand_slot *operands, uint32_t max, uint32_t *count,
                             exg_error *err);

/* The arguments of a node over `refs`, one an operand; defaults filled in. */
void exg_call_arguments(exg_builder *b, const exg_function_schema *schema, exg_object *const *at,
                        const exg_operand_slot *operands, uint32_t count, const exg_ref *refs,
                        exg_argument *args);

/* The call as a graph of nothing but values: one a tensor operand, metas of the global
 * tensors (S000-23). Numbers where tensors are due are 0-d. */
typedef struct exg_meta_call {
    exg_graph graph;
    exg_argument args[EXG_ARGUMENTS_MAX]; /* by position, defaults filled in */
    exg_operand_slot operands[EXG_CALL_OPERANDS_MAX];
    exg_value_id ids[EXG_CALL_OPERANDS_MAX]; /* EXG_NO_VALUE: absent */
    uint32_t operand_count;
} exg_meta_call;

exg_status exg_op_schema_meta_args(const exg_op_schema *schema, exg_arena *arena,
                                   exg_meta_call *call, exg_error *err);

/* The table's rules as one rule for `op`, whose row may be an in-place one; without a rule,
 * everything is replicated. `mesh`: of calls without a spec. */
typedef struct exg_table_question {
    const exg_operators *operators;
    const exg_operator *op;
    exg_device_mesh *mesh;
    const exg_costs *costs;
} exg_table_question;

exg_status exg_table_rule(void *question, exg_op_schema *schema, exg_arena *arena,
                          exg_output_sharding *out, exg_error *err);

/* The functional twin of an in-place operator, else the operator itself. */
const exg_operator *exg_computed_by(const exg_operators *operators, const exg_operator *op);

/* Runs `rule`, and again on the suggestion it takes; counts the runs. */
typedef struct exg_propagation {
    const char *key;
    exg_sharding_rule *rule;
    void *user;
    bool first_suggestion;
    const exg_costs *costs;
    uint64_t *runs;
} exg_propagation;

exg_status exg_propagate(const exg_propagation *p, exg_op_schema *schema, exg_arena *arena,
                         exg_op_schema **target, bool *moves, exg_output_sharding **sharding,
                         exg_error *err);

#endif
