/* bindings.c - sizes at which a program is looked at: those of its export, and others
 * that its ranges, assertions and guards (SYM-007) admit. A guard is Python on the sizes
 * of inputs: "L['x'].size()[0] > 2*L['args'][0].size()[0]". The sizes are replaced by
 * their expressions; what is left is read by the closed grammar, never run.
 */
#include "libexport/base/text.h"
#include "libexport/verify/verifier.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define GUARD_PATH_MAX 200

/* ---- guards as expressions ---------------------------------------------------------------- */

static void put_size(exg_text *out, const exg_sym_int *size)
{
    if (size->expr != NULL) {
        exg_text_printf(out, "(%s)", size->expr);
    } else {
        exg_text_printf(out, "(%" PRId64 ")", size->value);
    }
}

/* Reads "L['d']['x']" or "L['args'][0]": the parts joined by '_' are the name of the
 * input. Gives what follows, or NULL. */
static const char *read_path(const char *at, char *name)
{
    size_t used = 0;

    at++; /* L */
    while (*at == '[') {
        char quote = at[1] == '\'' || at[1] == '"' ? at[1] : '\0';
        const char *from = at + 1 + (quote != '\0');
        const char *end = strchr(from, quote == '\0' ? ']' : quote);

        if (end == NULL || used + (size_t)(end - from) + 2 > GUARD_PATH_MAX) {
            return NULL;
        }
        if (used > 0) {
            name[used++] = '_';
        }
        memcpy(name + used, from, (size_t)(end - from));
        used += (size_t)(end - from);
        at = end + (quote != '\0');
        if (*at++ != ']') {
            return NULL;
        }
    }
    name[used] = '\0';
    return used > 0 ? at : NULL;
}

/* ".size()[0]", ".stride()[0]", ".storage_offset()" or nothing. */
static const char *put_property(exg_text *out, const exg_value *value, const char *at)
{
    const exg_tensor_meta *meta = value->tensor;
    const exg_sym_int *sizes = NULL;
    char *end;
    unsigned long dim;

    if (strncmp(at, ".size()[", 8) == 0) {
        sizes = meta == NULL ? NULL : meta->sizes;
        at += 8;
    } else if (strncmp(at, ".stride()[", 10) == 0) {
        sizes = meta == NULL ? NULL : meta->strides;
        at += 10;
    } else if (meta != NULL && strncmp(at, ".storage_offset()", 17) == 0) {
        put_size(out, &meta->storage_offset);
        return at + 17;
    } else if (value->sym_int != NULL) {
        put_size(out, value->sym_int);
        return at;
    }
    if (sizes == NULL || *at < '0' || *at > '9') {
        return NULL;
    }
    dim = strtoul(at, &end, 10);
    if (dim >= meta->rank || *end != ']') {
        return NULL;
    }
    put_size(out, &sizes[dim]);
    return end + 1;
}

static bool index_inputs(exg_verifier *v, exg_map *inputs)
{
    const exg_graph *graph = v->program->graph;

    exg_map_init(inputs, v->arena);
    for (uint32_t i = 0; i < graph->input_count; i++) {
        const exg_argument *input = &graph->inputs[i];
        exg_value_id id = input->kind == EXG_ARGUMENT_TENSOR    ? input->as_tensor
                          : input->kind == EXG_ARGUMENT_SYM_INT ? input->as_sym.value
                                                                : EXG_NO_VALUE;

        if (id != EXG_NO_VALUE && graph->values[id].name != NULL &&
            !exg_map_put(inputs, graph->values[id].name, id)) {
            v->failed = true;
            return false;
        }
    }
    return true;
}

/* Python's functions on sizes, by the names of the grammar. */
static const char *put_function(exg_text *out, const char *at)
{
    static const char *const names[][2] = {
        {"math.trunc(",      "TruncToInt("        },
        {"math.floor(",      "FloorToInt("        },
        {"math.ceil(",       "CeilToInt("         },
        {"math.sqrt(",       "OpaqueUnaryFn_sqrt("},
        {"torch.sym_float(", "ToFloat("           },
        {"torch.sym_int(",   "TruncToInt("        },
        {"torch.sym_max(",   "Max("               },
        {"torch.sym_min(",   "Min("               },
        {"torch.sym_not(",   "Not("               },
        {"torch._sym_sqrt(", "OpaqueUnaryFn_sqrt("},
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        size_t length = strlen(names[i][0]);

        if (strncmp(at, names[i][0], length) == 0) {
            exg_text_puts(out, names[i][1]);
            return at + length;
        }
    }
    exg_text_putc(out, *at);
    return at + 1;
}

/* One guard without its inputs, as an expression in the verifier's memory; NULL when it
 * cannot be read, and then it was told. */
static const char *read_guard(exg_verifier *v, const exg_map *inputs, const char *guard,
                              const exg_place *place)
{
    exg_text out = EXG_TEXT_EMPTY;
    char name[GUARD_PATH_MAX];
    const char *text = NULL;
    const char *at = guard;

    while (at != NULL && *at != '\0') {
        uint32_t id;

        if (*at != 'L' || at[1] != '[') {
            at = put_function(&out, at);
            continue;
        }
        at = read_path(at, name);
        id = at == NULL ? EXG_MAP_NONE : exg_map_find(inputs, name);
        at = id == EXG_MAP_NONE ? NULL : put_property(&out, &v->program->graph->values[id], at);
    }
    if (at == NULL) {
        exg_found(v, "SYM-007", place, "'%.120s' speaks of no input", guard);
    } else if (out.failed) {
        v->failed = true;
    } else {
        text = exg_arena_strdup(v->arena, exg_text_string(&out));
    }
    exg_text_free(&out);
    return text;
}

static void ignore(void *user, const char *name, size_t length)
{
    (void)user;
    (void)name;
    (void)length;
}

/* Guards and assertions as expressions; false: some cannot be read, so that nothing but
 * the sizes at export is known to be admitted. */
static bool gather_conditions(exg_verifier *v)
{
    const exg_program *p = v->program;
    exg_map inputs;
    bool all = true;

    if (p->guard_count > 0 && !index_inputs(v, &inputs)) {
        return false;
    }
    for (uint32_t i = 0; i < p->guard_count; i++) {
        const exg_place *place = EXG_AT_INDEX(NULL, "guards_code", i);
        const char *text = read_guard(v, &inputs, p->guards_code[i], place);
        int64_t holds;

        if (text == NULL || !exg_arena_reserve(v->arena, &v->conditions, v->condition_count,
                                               &v->condition_capacity, sizeof(char *))) {
            all = false;
            continue;
        }
        if (exg_symint_visit(text, ignore, NULL, NULL) != EXG_OK) {
            exg_found(v, "SYM-007", place, "'%.120s' cannot be read", p->guards_code[i]);
            all = false;
            continue;
        }
        if (exg_symint_evaluate(text, &v->bindings[0].symbols, &holds, NULL) == EXG_OK &&
            holds == 0) {
            exg_found(v, "SYM-007", place, "'%.120s' does not hold at export", p->guards_code[i]);
        }
        v->conditions[v->condition_count++] = text;
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
        if (value->sym_bool != NULL && value->sym_bool->expr != NULL) {
            if (!exg_arena_reserve(v->arena, &v->conditions, v->condition_count,
                                   &v->condition_capacity, sizeof(char *))) {
                v->failed = true;
                return false;
            }
            v->conditions[v->condition_count++] = value->sym_bool->expr;
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

/* Conditions on symbols that only a run knows cannot be evaluated and bind nothing. */
static bool is_admitted(const exg_verifier *v, const exg_symbols *symbols)
{
    for (uint32_t i = 0; i < v->condition_count; i++) {
        int64_t holds;

        if (exg_symint_evaluate(v->conditions[i], symbols, &holds, NULL) == EXG_OK && holds == 0) {
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
