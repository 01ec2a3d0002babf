/* bindings.c - sizes at which a program is looked at: those of its export, and others
 * that its ranges, assertions and guards (SYM-007) admit.
 */
#include "libexport/verify/guards.h"
#include "libexport/verify/lookup.h"
#include "libexport/verify/verifier.h"

/* One that cannot be read binds nothing. */
static bool add_condition(exg_verifier *v, const char *text)
{
    exg_status status = EXG_NO_MEMORY;

    if (exg_arena_reserve(v->arena, &v->conditions, v->condition_count, &v->condition_capacity,
                          sizeof(exg_expression))) {
        status = exg_expression_parse(v->arena, text, &v->conditions[v->condition_count++], NULL);
    }
    v->failed = v->failed || status == EXG_NO_MEMORY;
    return status != EXG_NO_MEMORY;
}

/* Conditions on symbols that only a run knows cannot be evaluated and bind nothing. */
static bool is_broken(const exg_expression *condition, const exg_symbols *symbols)
{
    int64_t holds;

    return condition->root != NULL &&
           exg_expression_evaluate_int(condition, symbols, &holds, NULL) == EXG_OK && holds == 0;
}

/* Guards and assertions as expressions; false: some cannot be read, so that nothing but
 * the sizes at export is known to be admitted. */
static bool gather_conditions(exg_verifier *v)
{
    const exg_program *p = v->program;
    exg_guard_inputs inputs;
    bool all = true;

    if (p->guard_count > 0 && exg_guard_inputs_find(p, v->arena, &inputs, NULL) != EXG_OK) {
        v->failed = true;
        return false;
    }
    for (uint32_t i = 0; i < p->guard_count; i++) {
        const exg_model_path *path = EXG_AT_INDEX(NULL, "guards_code", i);
        const char *text;

        if (exg_guard_read(&inputs, p->guards_code[i], v->arena, &text, NULL) != EXG_OK) {
            v->failed = true;
            return false;
        }
        if (text == NULL) {
            exg_found(v, "SYM-007", path, "'%.120s' cannot be read: a run is refused",
                      p->guards_code[i]);
            all = false;
            continue;
        }
        if (!add_condition(v, text)) {
            return false;
        }
        if (is_broken(&v->conditions[v->condition_count - 1], &v->bindings[0].symbols)) {
            exg_found(v, "SYM-007", path, "'%.120s' does not hold at export", p->guards_code[i]);
        }
    }
    for (uint32_t n = 0; n < p->graph->node_count; n++) {
        const exg_node *node = &p->graph->nodes[n];
        const exg_target *target = exg_verifier_target(v, node->target);
        const exg_argument *arg = node->input_count > 0 ? &node->inputs[0].arg : NULL;
        const exg_value *value;

        if (target == NULL || target->op == NULL ||
            target->op->id != EXG_OP__assert_scalar_default || arg == NULL ||
            arg->kind != EXG_ARGUMENT_SYM_BOOL || arg->as_sym.value == EXG_NO_VALUE) {
            continue;
        }
        value = &p->graph->values[arg->as_sym.value];
        if (value->sym_bool != NULL && value->sym_bool->expr != NULL &&
            !add_condition(v, value->sym_bool->expr)) {
            return false;
        }
    }
    return all;
}

/* ---- sizes to try ------------------------------------------------------------------------- */

static bool in_ranges(const exg_verifier *v, const exg_symbols *symbols)
{
    for (uint32_t i = 0; i < v->program->range_constraint_count; i++) {
        const exg_range_constraint *range = &v->program->range_constraints[i];
        int64_t value;

        if (exg_symint_evaluate(range->symbol, symbols, &value, NULL) == EXG_OK &&
            ((range->has_min && value < range->min_val) ||
             (range->has_max && value > range->max_val))) {
            return false;
        }
    }
    return true;
}

static bool is_admitted(const exg_verifier *v, const exg_symbols *symbols)
{
    for (uint32_t i = 0; i < v->condition_count; i++) {
        if (is_broken(&v->conditions[i], symbols)) {
            return false;
        }
    }
    return in_ranges(v, symbols);
}

/* Another number for symbol `i`, which was `hint` at export. The first way tells symbols
 * apart; multiples keep order, ratios and divisibility, which guards mostly are about.
 * 0 and 1 stay: PyTorch specializes programs to them. */
static int64_t other_size(uint32_t way, uint32_t i, int64_t hint)
{
    if (hint < 2 || hint > 4096) {
        return hint;
    }
    return way == 0   ? hint + 1 + (int64_t)(i % 5)
           : way == 1 ? 2 * hint
           : way == 2 ? 3 * hint
                      : hint + 1;
}

#define WAYS 4

void exg_verify_bindings(exg_verifier *v)
{
    const exg_symbols *hints = &v->bindings[0].symbols;
    bool all = gather_conditions(v);

    exg_verify_contradictions(v);
    for (uint32_t way = 0;
         all && way < WAYS && hints->count > 0 && !v->failed && v->binding_count < EXG_BINDINGS_MAX;
         way++) {
        exg_binding *binding = &v->bindings[v->binding_count];
        exg_symbols *symbols = &binding->symbols;

        symbols->items =
            exg_arena_memdup(v->arena, hints->items, hints->count, sizeof(*hints->items));
        if (symbols->items == NULL) {
            v->failed = true;
            return;
        }
        symbols->count = symbols->capacity = hints->count;
        symbols->by_name = hints->by_name; /* the same names at the same places */
        for (uint32_t i = 0; i < hints->count; i++) {
            symbols->items[i].value = other_size(way, i, hints->items[i].value);
        }
        if (is_admitted(v, symbols) && exg_binding_evaluate(v, binding, false)) {
            v->binding_count++;
        }
    }
}
