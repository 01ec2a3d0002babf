/* bind.c - numbers for symbols, from the inputs a caller brings or from the hints
 * of the example inputs. */
#include "libexport/base/arena.h"
#include "libexport/base/checked.h"
#include "libexport/base/given.h"
#include "libexport/base/options.h"
#include "libexport/verify/guards.h"

#include <exg/transform.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Gives the lone symbol of `expr` a number, unless it has one. */
static exg_status bind_symbol(exg_symbols *symbols, exg_arena *arena, const char *expr,
                              int64_t value, exg_error *err)
{
    const char *name;
    size_t length;

    if (exg_symint_lone_symbol(expr, &name, &length) &&
        exg_symbols_find(symbols, name, length) == NULL) {
        return exg_symbols_add(symbols, arena, name, length, value, err);
    }
    return EXG_OK;
}

/* The symbols of an expression that have no number yet. */
typedef struct unbound {
    const exg_symbols *symbols;
    exg_symbols *bound; /* gets those that have one; may be NULL */
    exg_arena *arena;
    bool failed;      /* out of memory */
    const char *name; /* the first */
    size_t length;
    bool several;
} unbound;

static void note_unbound(void *user, const char *name, size_t length)
{
    unbound *found = user;
    const exg_symbol *symbol = exg_symbols_find(found->symbols, name, length);

    if (symbol != NULL) {
        found->failed = found->failed || (found->bound != NULL &&
                                          exg_symbols_find(found->bound, name, length) == NULL &&
                                          exg_symbols_add(found->bound, found->arena, name, length,
                                                          symbol->value, NULL) != EXG_OK);
        return;
    }
    if (found->name == NULL) {
        found->name = name;
        found->length = length;
    }
    found->several =
        found->several || found->length != length || memcmp(found->name, name, length) != 0;
}

/* `expr` where the symbol without a number is `value`. `trial` has room for one more. */
static exg_status evaluate_at(const char *expr, exg_symbols trial, const unbound *symbol,
                              exg_arena *arena, int64_t value, int64_t *result, exg_error *err)
{
    EXG_TRY(exg_symbols_add(&trial, arena, symbol->name, symbol->length, value, err));
    return exg_symint_evaluate(expr, &trial, result, err);
}

#define FAR 997

/* A size derived from one symbol that nothing else gives ("2*s95 + 1", as torch.export's
 * derived dims are): the line through values of it, and where that has this size.
 * Whether the expression does there is checked with all sizes. */
static exg_status bind_derived(exg_symbols *symbols, exg_arena *arena, const char *expr,
                               int64_t value, exg_error *err)
{
    exg_symbols trial = {0};
    unbound symbol = {.symbols = symbols, .bound = &trial, .arena = arena};
    int64_t at_two, at_three, far, on_line, slope, rest, number;

    EXG_TRY(exg_symint_visit(expr, note_unbound, &symbol, err));
    if (symbol.name == NULL || symbol.several) {
        return EXG_OK;
    }
    if (symbol.failed) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (evaluate_at(expr, trial, &symbol, arena, 2, &at_two, NULL) != EXG_OK ||
        evaluate_at(expr, trial, &symbol, arena, 3, &at_three, NULL) != EXG_OK ||
        evaluate_at(expr, trial, &symbol, arena, 2 + FAR, &far, NULL) != EXG_OK ||
        !exg_sub_i64(at_three, at_two, &slope) || slope <= 0 ||
        !exg_mul_i64(slope, FAR, &on_line) || !exg_add_i64(at_two, on_line, &on_line) ||
        far != on_line || !exg_sub_i64(value, at_two, &rest) ||
        !exg_add_i64(2, rest / slope, &number)) {
        return EXG_OK;
    }
    return exg_symbols_add(symbols, arena, symbol.name, symbol.length, number, err);
}

/* What the caller brings, by name. */
typedef struct given {
    const exg_input_binding *bindings;
    uint32_t count;
    exg_map names;
} given;

static const exg_input_binding *find_binding(const given *g, const char *name)
{
    uint32_t at = exg_map_find(&g->names, name);

    return at == EXG_MAP_NONE ? NULL : &g->bindings[at];
}

static bool is_user_value(const exg_program *program, uint32_t i)
{
    const exg_argument *input = &program->graph->inputs[i];

    return program->signature.inputs[i].kind == EXG_INPUT_USER &&
           (input->kind == EXG_ARGUMENT_TENSOR || input->kind == EXG_ARGUMENT_SYM_INT);
}

static const exg_value *value_of(const exg_program *program, const exg_argument *input)
{
    return &program->graph->values[input->kind == EXG_ARGUMENT_TENSOR ? input->as_tensor
                                                                      : input->as_sym.value];
}

static void list_user_inputs(const exg_program *program, char *names, size_t length)
{
    names[0] = '\0';
    for (uint32_t i = 0; i < program->graph->input_count; i++) {
        if (is_user_value(program, i)) {
            size_t used = strlen(names);
            const char *name = value_of(program, &program->graph->inputs[i])->name;

            if (used + strlen(name) + 3 < length) {
                snprintf(names + used, length - used, "%s%s", used > 0 ? ", " : "", name);
            }
        }
    }
}

/* The names of what the program asks for. */
static bool map_inputs(const exg_program *program, exg_arena *arena, exg_map *inputs)
{
    bool mapped = true;

    exg_map_init(inputs, arena);
    for (uint32_t i = 0; mapped && i < program->graph->input_count; i++) {
        mapped = !is_user_value(program, i) ||
                 exg_map_put(inputs, value_of(program, &program->graph->inputs[i])->name, i);
    }
    return mapped;
}

/* Fills `g`, whose bindings are there. */
static exg_status check_names(const exg_program *program, given *g, exg_arena *arena,
                              exg_error *err)
{
    char names[160];
    exg_status status;
    exg_map inputs;

    list_user_inputs(program, names, sizeof(names));
    exg_map_init(&g->names, arena);
    if (!map_inputs(program, arena, &inputs)) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t b = 0; b < g->count; b++) {
        const char *name = g->bindings[b].name;

        if (name == NULL || exg_map_find(&inputs, name) == EXG_MAP_NONE) {
            status = EXG_FAIL(err, USAGE, "INP-001", "the program has no input '%s'",
                              name == NULL ? "" : name);
            return exg_error_fix(err, status, "its inputs are: %s", names);
        }
        if (find_binding(g, name) != NULL) {
            return exg_error_fix(err,
                                 EXG_FAIL(err, USAGE, "INP-010", "input '%s' is given twice", name),
                                 "give it once");
        }
        if (!exg_map_put(&g->names, name, b)) {
            return EXG_OUT_OF_MEMORY(err);
        }
    }
    for (uint32_t i = 0; i < program->graph->input_count; i++) {
        if (is_user_value(program, i) &&
            find_binding(g, value_of(program, &program->graph->inputs[i])->name) == NULL) {
            status = EXG_FAIL(err, USAGE, "INP-002", "input '%s' is not given",
                              value_of(program, &program->graph->inputs[i])->name);
            return exg_error_fix(err, status, "give all of: %s", names);
        }
    }
    return EXG_OK;
}

static exg_status check_kind(const exg_value *value, const exg_input_binding *binding,
                             exg_error *err)
{
    if (value->tensor == NULL) {
        if (binding->kind != EXG_ARGUMENT_INT &&
            !(binding->kind == EXG_ARGUMENT_TENSOR && binding->rank == 0 &&
              binding->dtype == EXG_DTYPE_I64)) {
            return EXG_FAIL(err, USAGE, "INP-003", "input '%s' takes an integer (a 0-d int64)",
                            value->name);
        }
        return EXG_OK;
    }
    if (binding->kind != EXG_ARGUMENT_TENSOR || binding->dtype != value->tensor->dtype) {
        return EXG_FAIL(err, USAGE, "INP-003", "input '%s' takes %s, given is %s", value->name,
                        exg_dtype_name(value->tensor->dtype),
                        binding->kind == EXG_ARGUMENT_TENSOR ? exg_dtype_name(binding->dtype)
                                                             : "a number");
    }
    if (binding->rank != value->tensor->rank) {
        return EXG_FAIL(err, USAGE, "INP-004", "input '%s' takes %u dims, given are %u",
                        value->name, value->tensor->rank, binding->rank);
    }
    return EXG_OK;
}

/* Every size that is no lone symbol must be what its expression says. */
static exg_status check_sizes(const exg_value *value, const exg_input_binding *binding,
                              const exg_symbols *symbols, exg_error *err)
{
    for (uint32_t d = 0; value->tensor != NULL && d < value->tensor->rank; d++) {
        const exg_sym_int *size = &value->tensor->sizes[d];
        int64_t expected = size->value;

        if (size->expr != NULL) {
            EXG_TRY_IN(err, exg_symint_evaluate(size->expr, symbols, &expected, err),
                       "%s.sizes[%u]", value->name, d);
        }
        if (expected != binding->sizes[d]) {
            return EXG_FAIL(err, USAGE, "INP-004",
                            "input '%s' has size %" PRId64 " in dim %u, not %" PRId64, value->name,
                            binding->sizes[d], d, expected);
        }
    }
    return EXG_OK;
}

/* A lower bound of 2 or less is the exporter's guess, not the user's, and does not bind: PyTorch
 * runs such a program at 0 and 1 too (torch/export/_unlift.py). */
#define MIN_GUESSED 2

static exg_status check_ranges(const exg_program *program, const exg_symbols *symbols,
                               exg_error *err)
{
    for (uint32_t i = 0; i < program->range_constraint_count; i++) {
        const exg_range_constraint *range = &program->range_constraints[i];
        int64_t value;
        unbound late = {.symbols = symbols};

        /* a constraint on a symbol that only the run produces is checked then */
        EXG_TRY_IN(err, exg_symint_visit(range->symbol, note_unbound, &late, err),
                   "range_constraints[\"%s\"]", range->symbol);
        if (late.name != NULL) {
            continue;
        }
        EXG_TRY(exg_symint_evaluate(range->symbol, symbols, &value, err));
        if ((range->has_min && value < (range->min_val > MIN_GUESSED ? range->min_val : 0)) ||
            (range->has_max && value > range->max_val)) {
            exg_status status =
                EXG_FAIL(err, USAGE, "INP-005", "%s = %" PRId64 " is outside its range",
                         range->symbol, value);

            return exg_error_fix(err, status, "allowed: %" PRId64 " to %" PRId64,
                                 range->has_min ? range->min_val : INT64_MIN,
                                 range->has_max ? range->max_val : INT64_MAX);
        }
    }
    return EXG_OK;
}

typedef exg_status bind_function(exg_symbols *symbols, exg_arena *arena, const char *expr,
                                 int64_t value, exg_error *err);

static exg_status bind_sizes(const exg_program *program, const given *g, bind_function *bind,
                             exg_arena *arena, exg_symbols *symbols, exg_error *err)
{
    for (uint32_t i = 0; i < program->graph->input_count; i++) {
        const exg_value *value;
        const exg_input_binding *binding;

        if (!is_user_value(program, i)) {
            continue;
        }
        value = value_of(program, &program->graph->inputs[i]);
        binding = find_binding(g, value->name);
        for (uint32_t d = 0; value->tensor != NULL && d < value->tensor->rank; d++) {
            if (value->tensor->sizes[d].expr != NULL) {
                EXG_TRY(bind(symbols, arena, value->tensor->sizes[d].expr, binding->sizes[d], err));
            }
        }
        if (value->sym_int != NULL && value->sym_int->expr != NULL) {
            EXG_TRY(bind(symbols, arena, value->sym_int->expr, binding->as_int, err));
        }
    }
    return EXG_OK;
}

/* What the guards ask is part of the program: the branches that export took hold for such sizes
 * alone. One that is not understood may ask for anything. */
static exg_status check_guards(const exg_program *program, exg_arena *arena,
                               const exg_symbols *symbols, exg_error *err)
{
    exg_guard_inputs inputs;

    if (program->guard_count > 0) {
        EXG_TRY(exg_guard_inputs_find(program, arena, &inputs, err));
    }
    for (uint32_t i = 0; i < program->guard_count; i++) {
        const char *guard = program->guards_code[i];
        const char *text;
        int64_t holds;

        EXG_TRY(exg_guard_read(&inputs, guard, arena, &text, err));
        if (text == NULL || exg_symint_evaluate(text, symbols, &holds, NULL) != EXG_OK) {
            return exg_error_fix(err,
                                 EXG_FAIL(err, UNSUPPORTED, "INP-011",
                                          "a guard of the program cannot be read: %.200s", guard),
                                 "look whether it holds for these inputs; --ignore-guards "
                                 "(exg_bind_options.ignore_guards) runs without the guards");
        }
        if (holds == 0) {
            return exg_error_fix(err,
                                 EXG_FAIL(err, USAGE, "INP-009",
                                          "the sizes of the inputs do not fit: %.200s", guard),
                                 "the program was exported for sizes of which this holds");
        }
    }
    return EXG_OK;
}

exg_status exg_bind_inputs(const exg_verified *verified, const exg_input_binding *bindings,
                           uint32_t count, const exg_bind_options *options, exg_arena *arena,
                           exg_symbols *symbols, exg_error *err)
{
    EXG_GIVEN(err, verified, EXG_IF_ANY(count, bindings), arena, symbols);
    EXG_GIVEN(err, verified->program, verified->operators);
    const exg_program *program = verified->program;
    exg_bind_options chosen = {.size = sizeof(chosen)};
    given own = {.bindings = bindings, .count = count};
    const given *g = &own;

    EXG_TRY(EXG_READ_OPTIONS(exg_bind_options, &chosen, options, err));
    *symbols = (exg_symbols){0};
    EXG_TRY(check_names(program, &own, arena, err));
    for (uint32_t i = 0; i < program->graph->input_count; i++) {
        if (is_user_value(program, i)) {
            const exg_value *value = value_of(program, &program->graph->inputs[i]);

            EXG_TRY(check_kind(value, find_binding(g, value->name), err));
        }
    }
    EXG_TRY(bind_sizes(program, g, bind_symbol, arena, symbols, err));
    EXG_TRY(bind_sizes(program, g, bind_derived, arena, symbols, err));
    for (uint32_t i = 0; i < program->graph->input_count; i++) {
        if (is_user_value(program, i)) {
            const exg_value *value = value_of(program, &program->graph->inputs[i]);

            EXG_TRY(check_sizes(value, find_binding(g, value->name), symbols, err));
        }
    }
    EXG_TRY(check_ranges(program, symbols, err));
    return chosen.ignore_guards ? EXG_OK : check_guards(program, arena, symbols, err);
}

static exg_status bind_hints(const exg_program *program, bind_function *bind, exg_arena *arena,
                             exg_symbols *symbols, exg_error *err)
{
    for (uint32_t v = 0; v < program->graph->value_count; v++) {
        const exg_value *value = &program->graph->values[v];

        for (uint32_t d = 0; value->tensor != NULL && d < value->tensor->rank; d++) {
            const exg_sym_int *size = &value->tensor->sizes[d];

            if (size->expr != NULL && size->has_hint) {
                EXG_TRY(bind(symbols, arena, size->expr, size->value, err));
            }
        }
        if (value->sym_int != NULL && value->sym_int->expr != NULL && value->sym_int->has_hint) {
            EXG_TRY(bind(symbols, arena, value->sym_int->expr, value->sym_int->value, err));
        }
    }
    return EXG_OK;
}

exg_status exg_bind_hints(const exg_program *program, exg_arena *arena, exg_symbols *symbols,
                          exg_error *err)
{
    EXG_GIVEN(err, program, arena, symbols);
    *symbols = (exg_symbols){0};
    EXG_TRY(bind_hints(program, bind_symbol, arena, symbols, err));
    return bind_hints(program, bind_derived, arena, symbols, err);
}
