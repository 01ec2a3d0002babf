/* symbol_rules.c - expressions, hints and ranges (SYM). */
#include "libexport/base/map.h"
#include "libexport/verify/verifier.h"

#include <exg/symint.h>
#include <exg/transform.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct symbols {
    exg_verifier *v;
    exg_symbols hints;
    exg_map seen;     /* symbols of the graph */
    exg_map produced; /* symbols that are a size of an input or a node's result */
} symbols;

static void note(void *user, const char *name, size_t length)
{
    symbols *s = user;
    char *copy = exg_arena_strndup(s->v->found->arena, name, length);

    if (copy == NULL || !exg_map_put(&s->seen, copy, 0)) {
        s->v->failed = true;
    }
}

static void check_expression(symbols *s, const char *expr, const char *where)
{
    exg_error err;

    if (exg_symint_visit(expr, note, s, &err) != EXG_OK) {
        exg_found(s->v, "SYM-001", where, "%s", err.message);
    }
}

/* A hint agrees with the numbers that lone symbols were given. */
static void check_hint(symbols *s, const exg_sym_int *size, const char *where)
{
    int64_t value;

    if (size->expr == NULL) {
        return;
    }
    if (size->has_hint && exg_symint_evaluate(size->expr, &s->hints, &value, NULL) == EXG_OK &&
        value != size->value) {
        exg_found(s->v, "SYM-002", where, "hint %" PRId64 " of an expression that is %" PRId64,
                  size->value, value);
    }
}

static void check_graph(symbols *s, const exg_graph *graph, bool hints)
{
    for (uint32_t id = 0; id < graph->value_count; id++) {
        const exg_value *value = &graph->values[id];
        char where[160];

        snprintf(where, sizeof(where), "graph.values[\"%.120s\"]",
                 value->name == NULL ? "" : value->name);
        for (uint32_t d = 0; value->tensor != NULL && d < value->tensor->rank; d++) {
            const exg_sym_int *both[] = {&value->tensor->sizes[d], &value->tensor->strides[d]};

            for (int b = 0; b < 2; b++) {
                if (both[b]->expr != NULL && !hints) {
                    check_expression(s, both[b]->expr, where);
                } else if (both[b]->expr != NULL) {
                    check_hint(s, both[b], where);
                }
            }
        }
        if (value->sym_int != NULL && value->sym_int->expr != NULL) {
            if (!hints) {
                check_expression(s, value->sym_int->expr, where);
            } else {
                check_hint(s, value->sym_int, where);
            }
        }
        if (!hints && value->sym_bool != NULL && value->sym_bool->expr != NULL) {
            check_expression(s, value->sym_bool->expr, where);
        }
        if (!hints && value->sym_float != NULL && value->sym_float->expr != NULL) {
            check_expression(s, value->sym_float->expr, where);
        }
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        for (uint32_t i = 0; i < graph->nodes[n].input_count; i++) {
            if (graph->nodes[n].inputs[i].arg.kind == EXG_ARGUMENT_GRAPH) {
                check_graph(s, graph->nodes[n].inputs[i].arg.as_graph->graph, hints);
            }
        }
    }
}

static void ignore(void *user, const char *name, size_t length)
{
    (void)user;
    (void)name;
    (void)length;
}

static void check_range(symbols *s, uint32_t i)
{
    const exg_range_constraint *range = &s->v->program->range_constraints[i];
    char where[160];
    const char *name;
    size_t length;
    int64_t value;
    exg_error err;

    snprintf(where, sizeof(where), "range_constraints[\"%.100s\"]", range->symbol);
    if (exg_symint_visit(range->symbol, ignore, NULL, &err) != EXG_OK) {
        exg_found(s->v, "SYM-001", where, "%s", err.message);
        return;
    }
    if (range->has_min && range->has_max && range->min_val > range->max_val) {
        exg_found(s->v, "SYM-004", where, "[%" PRId64 ", %" PRId64 "] is empty", range->min_val,
                  range->max_val);
        return;
    }
    if (exg_symint_lone_symbol(range->symbol, &name, &length)) {
        char *copy = exg_arena_strndup(s->v->found->arena, name, length);

        if (copy != NULL && exg_map_find(&s->seen, copy) == EXG_MAP_NONE) {
            exg_found(s->v, "SYM-003", where, "no size of the graph is '%s'", copy);
        }
    }
    if (exg_symint_evaluate(range->symbol, &s->hints, &value, NULL) == EXG_OK &&
        ((range->has_min && value < range->min_val) || (range->has_max && value > range->max_val))) {
        exg_found(s->v, "SYM-002", where, "the hint %" PRId64 " is outside the range", value);
    }
}

static void note_produced(void *user, const char *name, size_t length)
{
    symbols *s = user;
    char *copy = exg_arena_strndup(s->v->found->arena, name, length);

    if (copy == NULL || !exg_map_put(&s->produced, copy, 0)) {
        s->v->failed = true;
    }
}

/* An unbacked symbol (u0) is the size or value that some node makes. */
static void check_unbacked(symbols *s)
{
    const exg_graph *graph = s->v->program->graph;

    for (uint32_t n = 0; n < graph->node_count; n++) {
        for (uint32_t o = 0; o < graph->nodes[n].output_count; o++) {
            const exg_argument *out = &graph->nodes[n].outputs[o];
            const exg_value *value =
                out->kind == EXG_ARGUMENT_TENSOR && out->as_tensor != EXG_NO_VALUE
                    ? &graph->values[out->as_tensor]
                : out->kind == EXG_ARGUMENT_SYM_INT && out->as_sym.value != EXG_NO_VALUE
                    ? &graph->values[out->as_sym.value]
                    : NULL;

            for (uint32_t d = 0; value != NULL && value->tensor != NULL && d < value->tensor->rank;
                 d++) {
                if (value->tensor->sizes[d].expr != NULL) {
                    (void)exg_symint_visit(value->tensor->sizes[d].expr, note_produced, s, NULL);
                }
            }
            if (value != NULL && value->sym_int != NULL && value->sym_int->expr != NULL) {
                (void)exg_symint_visit(value->sym_int->expr, note_produced, s, NULL);
            }
        }
    }
    for (uint32_t i = 0; i < s->seen.capacity; i++) {
        const char *name = s->seen.slots[i].key;

        if (name != NULL && name[0] == 'u' && name[1] >= '0' && name[1] <= '9' &&
            exg_map_find(&s->produced, name) == EXG_MAP_NONE) {
            exg_found(s->v, "GRF-006", "graph", "no node makes the size '%s'", name);
        }
    }
}

void exg_verify_symbols(exg_verifier *v)
{
    symbols s = {.v = v};
    exg_error err;

    exg_map_init(&s.seen, v->found->arena);
    exg_map_init(&s.produced, v->found->arena);
    check_graph(&s, v->program->graph, false);
    if (exg_bind_hints(v->program, v->found->arena, &s.hints, &err) == EXG_OK) {
        check_graph(&s, v->program->graph, true);
    }
    for (uint32_t i = 0; i < v->program->range_constraint_count; i++) {
        check_range(&s, i);
    }
    check_unbacked(&s);
}
