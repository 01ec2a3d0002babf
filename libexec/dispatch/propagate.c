/* propagate.c - a rule, its suggestions, and the schema to run with. */
#include "libexec/dispatch/propagate.h"
#include "libexec/dispatch/dispatcher.h"
#include "libexec/dispatch/mesh_stack.h"
#include "libexec/dispatch/text.h"
#include "libexec/sharding/cost.h"
#include "libexport/base/arena.h"
#include "libexport/base/require.h"

#include <string.h>

/* The cause stays, with the operator and its input in front. */
static exg_status failed(const exg_propagation *p, const exg_op_schema *schema, exg_status status,
                         exg_error *err)
{
    exg_text text = EXG_TEXT_EMPTY;
    exg_error cause = {0};

    if (err == NULL || status == EXG_NO_MEMORY) {
        return status;
    }
    cause = *err;
    exg_print_op_schema(&text, schema);
    status = exg_error_set(err, cause.source_file, cause.source_line, status, cause.code,
                           "sharding propagation of %s: %s; input %s", p->key, cause.message,
                           exg_text_string(&text) == NULL ? "" : exg_text_string(&text));
    exg_text_free(&text);
    return status;
}

static exg_status refused(const exg_propagation *p, const exg_op_schema *schema, const char *reason,
                          exg_error *err)
{
    bool moves_self = reason != NULL && strncmp(reason, "inplace_moves_self", 18) == 0;
    exg_status status =
        moves_self
            ? EXG_FAIL(err, UNSUPPORTED, "DSP-006", "%s", reason)
            : EXG_FAIL(err, UNSUPPORTED, "DSP-005", "%s",
                       reason == NULL || reason[0] == '\0' ? "the rule gives no reason" : reason);

    return failed(p, schema, status, err);
}

static exg_status run_rule(const exg_propagation *p, exg_op_schema *schema, exg_arena *arena,
                           exg_output_sharding *out, exg_error *err)
{
    exg_status status;

    *out = (exg_output_sharding){0};
    ++*p->runs;
    status = p->rule(p->user, schema, arena, out, err);
    return status == EXG_OK ? EXG_OK : failed(p, schema, status, err);
}

/* What the inputs' moves to a suggestion are taken to cost. */
static double cost_of(const exg_propagation *p, const exg_op_schema *schema,
                      const exg_op_schema *suggestion)
{
    const exg_dtensor_spec *from[EXG_CALL_OPERANDS_MAX];
    const exg_dtensor_spec *to[EXG_CALL_OPERANDS_MAX];
    uint32_t count = exg_op_schema_all_specs(schema, from, EXG_CALL_OPERANDS_MAX);
    double cost = 0;

    if (exg_op_schema_all_specs(suggestion, to, EXG_CALL_OPERANDS_MAX) != count) {
        return EXG_COST_IMPOSSIBLE;
    }
    for (uint32_t i = 0; i < count && i < EXG_CALL_OPERANDS_MAX; i++) {
        const exg_device_mesh *mesh = from[i]->mesh;
        double bytes = exg_dtype_bytes(from[i]->dtype);

        for (uint32_t d = 0; d < from[i]->rank; d++) {
            bytes *= (double)from[i]->sizes[d];
        }
        for (uint32_t m = 0; m < exg_device_mesh_ndim(mesh); m++) {
            cost += exg_move_cost(&p->costs->links[m], from[i]->placements[m], to[i]->placements[m],
                                  bytes, exg_device_mesh_dim_size(mesh, m));
        }
    }
    return cost;
}

/* The one of least moves, the first among equals. */
static exg_op_schema *choose(const exg_propagation *p, const exg_op_schema *schema,
                             const exg_output_sharding *sharding)
{
    uint32_t best = 0;

    for (uint32_t i = 1; !p->first_suggestion && i < sharding->suggestion_count; i++) {
        if (cost_of(p, schema, &sharding->suggestions[i]) <
            cost_of(p, schema, &sharding->suggestions[best])) {
            best = i;
        }
    }
    return &sharding->suggestions[best];
}

exg_status exg_propagate(const exg_propagation *p, exg_op_schema *schema, exg_arena *arena,
                         exg_op_schema **target, bool *moves, exg_output_sharding **sharding,
                         exg_error *err)
{
    exg_output_sharding *first = EXG_NEW(arena, exg_output_sharding);
    exg_output_sharding *second = EXG_NEW(arena, exg_output_sharding);

    if (first == NULL || second == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    *target = schema;
    *moves = false;
    *sharding = first;
    EXG_TRY(run_rule(p, schema, arena, first, err));
    if (first->status == EXG_SHARDING_OK) {
        return EXG_OK;
    }
    if (first->status == EXG_SHARDING_FAILED) {
        return refused(p, schema, first->failed_reason, err);
    }
    if (first->suggestion_count == 0) {
        return refused(p, schema, "the rule wants other inputs and suggests none", err);
    }
    *target = choose(p, schema, first);
    *moves = true;
    *sharding = second;
    EXG_TRY(run_rule(p, *target, arena, second, err));
    if (second->status != EXG_SHARDING_OK) {
        return refused(p, *target, "the rule does not take its own suggestion", err);
    }
    return EXG_OK;
}

exg_status exg_propagate_on(exg_dispatcher *d, const exg_op_entry *op_entry, exg_device_mesh *mesh,
                            exg_op_schema *schema, exg_arena *arena, exg_op_schema **target,
                            bool *moves, exg_output_sharding **sharding, exg_error *err)
{
    exg_table_question question = {d->operators, op_entry->op, mesh, &d->costs};
    exg_propagation p = {.key = op_entry->key,
                         .rule = op_entry->registration.rule,
                         .user = op_entry->registration.user,
                         .first_suggestion = d->options.first_suggestion,
                         .costs = &d->costs,
                         .runs = &d->stats.rules};

    *target = schema;
    *moves = false;
    *sharding = NULL;
    if (p.rule == NULL) {
        bool specs = exg_op_schema_all_specs(schema, NULL, 0) > 0;
        bool ruled = op_entry->op != NULL &&
                     (!specs || exg_rule_exists(exg_computed_by(d->operators, op_entry->op)));

        if (!ruled && op_entry->op != NULL && d->options.fallback == EXG_FALLBACK_LOCAL) {
            return EXG_OK;
        }
        if (op_entry->op == NULL || (!ruled && d->options.fallback == EXG_FALLBACK_NONE)) {
            return EXG_FAIL(err, UNSUPPORTED, "DSP-004", "%s has no sharding rule", op_entry->key);
        }
        p.rule = exg_table_rule;
        p.user = &question;
        p.first_suggestion = true; /* best first */
    }
    return exg_propagate(&p, schema, arena, target, moves, sharding, err);
}

exg_status exg_propagate_input_sharding(exg_dispatcher *d, const char *key, exg_op_schema *schema,
                                        exg_arena *arena, exg_op_schema **target, bool *moves,
                                        exg_output_sharding **sharding, exg_error *err)
{
    EXG_REQUIRE(err, d, key, schema, arena, target, moves, sharding);
    const exg_dtensor_spec *spec = NULL;
    exg_op_entry *op_entry;

    EXG_TRY(exg_op_entry_of(d, key, &op_entry, err));
    (void)exg_op_schema_all_specs(schema, &spec, 1);
    if (spec == NULL && exg_current_mesh(d) == NULL) {
        return EXG_FAIL(err, USAGE, "DSP-008", "%s without a DTensor, and no mesh is set", key);
    }
    return exg_propagate_on(d, op_entry, spec == NULL ? exg_current_mesh(d) : spec->mesh, schema,
                            arena, target, moves, sharding, err);
}
