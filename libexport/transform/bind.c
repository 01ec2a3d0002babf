/* bind.c - numbers for symbols, from the inputs a caller brings or from the hints
 * of the example inputs. */
#include "libexport/transform/bind.h"

#include "libexport/base/arena.h"
#include "libexport/base/checked.h"
#include "libexport/base/options.h"
#include "libexport/base/require.h"
#include "libexport/program/expression.h"
#include "libexport/verify/guards.h"

#include <exg/text.h>
#include <exg/transform.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What the caller brings, by name. */
typedef struct given {
    const exg_input_binding *bindings;
    uint32_t count;
    exg_map names;
} given;

typedef struct binder {
    const exg_program *program;
    given given;
    exg_arena *arena;            /* of the symbols */
    exg_symbols *symbols;        /* what is known so far */
    exg_expressions expressions; /* in memory of this call */
    exg_error *err;
} binder;

/* Begins; the memory of the call is freed by end(). */
static exg_status begin(binder *b)
{
    exg_arena *scratch = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);

    if (scratch == NULL) {
        return EXG_OUT_OF_MEMORY(b->err);
    }
    exg_expressions_init(&b->expressions, scratch);
    return EXG_OK;
}

static void end(binder *b)
{
    exg_arena_destroy(b->expressions.arena);
}

/* ---- symbols --------------------------------------------------------------------------------- */

/* Gives a symbol by itself a number, unless it has one. */
static exg_status bind_symbol(binder *b, const exg_expression *expr, int64_t value)
{
    const exg_term *symbol = exg_expression_symbol(expr);

    return symbol == NULL || exg_symbols_find(b->symbols, symbol->text, symbol->length) != NULL
               ? EXG_OK
               : exg_symbols_add(b->symbols, b->arena, symbol->text, symbol->length, value, b->err);
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
static exg_status evaluate_at(const exg_expression *expr, exg_symbols trial, const unbound *symbol,
                              int64_t value, int64_t *result)
{
    EXG_TRY(exg_symbols_add(&trial, symbol->arena, symbol->name, symbol->length, value, NULL));
    return exg_expression_evaluate_int(expr, &trial, result, NULL);
}

#define FAR 997

/* A size derived from one symbol that nothing else gives ("2*s95 + 1", as torch.export's
 * derived dims are): the line through values of it, and where that has this size.
 * Whether the expression does there is checked with all sizes. */
static exg_status bind_derived(binder *b, const exg_expression *expr, int64_t value)
{
    exg_symbols trial = {0};
    unbound symbol = {.symbols = b->symbols, .bound = &trial, .arena = b->expressions.arena};
    int64_t at_two, at_three, far, on_line, slope, rest, number;

    EXG_TRY(exg_expression_check(expr, b->err));
    exg_expression_visit(expr, note_unbound, &symbol);
    if (symbol.name == NULL || symbol.several) {
        return EXG_OK;
    }
    if (symbol.failed) {
        return EXG_OUT_OF_MEMORY(b->err);
    }
    if (evaluate_at(expr, trial, &symbol, 2, &at_two) != EXG_OK ||
        evaluate_at(expr, trial, &symbol, 3, &at_three) != EXG_OK ||
        evaluate_at(expr, trial, &symbol, 2 + FAR, &far) != EXG_OK ||
        !exg_sub_i64(at_three, at_two, &slope) || slope <= 0 ||
        !exg_mul_i64(slope, FAR, &on_line) || !exg_add_i64(at_two, on_line, &on_line) ||
        far != on_line || !exg_sub_i64(value, at_two, &rest) ||
        !exg_add_i64(2, rest / slope, &number)) {
        return EXG_OK;
    }
    return exg_symbols_add(b->symbols, b->arena, symbol.name, symbol.length, number, b->err);
}

typedef exg_status bind_function(binder *b, const exg_expression *expr, int64_t value);

/* `text` NULL: a number that the program says itself. */
static exg_status bind_text(binder *b, bind_function *bind, const char *text, int64_t value)
{
    const exg_expression *expr;

    if (text == NULL) {
        return EXG_OK;
    }
    EXG_TRY(exg_expressions_find(&b->expressions, text, &expr, b->err));
    return bind(b, expr, value);
}

static exg_status evaluate(binder *b, const char *text, int64_t *value)
{
    const exg_expression *expr;

    EXG_TRY(exg_expressions_find(&b->expressions, text, &expr, b->err));
    return exg_expression_evaluate_int(expr, b->symbols, value, b->err);
}

/* ---- what is given -----------------------------------------------------------------------------
 */

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

exg_status exg_fail_no_input(const exg_program *program, const char *name, exg_error *err)
{
    char names[160];

    list_user_inputs(program, names, sizeof(names));
    return exg_error_fix(
        err,
        EXG_FAIL(err, USAGE, "INP-001", "the program has no input '%s'", name == NULL ? "" : name),
        "its inputs are: %s", names);
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

/* Maps what is given by name: each an input, and once. */
static exg_status check_given(binder *b)
{
    exg_arena *scratch = b->expressions.arena;
    given *g = &b->given;
    exg_map inputs;

    exg_map_init(&g->names, scratch);
    if (!map_inputs(b->program, scratch, &inputs)) {
        return EXG_OUT_OF_MEMORY(b->err);
    }
    for (uint32_t i = 0; i < g->count; i++) {
        const char *name = g->bindings[i].name;

        if (name == NULL || exg_map_find(&inputs, name) == EXG_MAP_NONE) {
            return exg_fail_no_input(b->program, name, b->err);
        }
        if (find_binding(g, name) != NULL) {
            return exg_error_fix(
                b->err, EXG_FAIL(b->err, USAGE, "INP-010", "input '%s' is given twice", name),
                "give it once");
        }
        if (!exg_map_put(&g->names, name, i)) {
            return EXG_OUT_OF_MEMORY(b->err);
        }
    }
    return EXG_OK;
}

static exg_status check_all(binder *b)
{
    const exg_program *program = b->program;
    char names[160];
    exg_status status;

    list_user_inputs(program, names, sizeof(names));
    for (uint32_t i = 0; i < program->graph->input_count; i++) {
        if (is_user_value(program, i) &&
            find_binding(&b->given, value_of(program, &program->graph->inputs[i])->name) == NULL) {
            status = EXG_FAIL(b->err, USAGE, "INP-002", "input '%s' is not given",
                              value_of(program, &program->graph->inputs[i])->name);
            return exg_error_fix(b->err, status, "give all of: %s", names);
        }
    }
    return EXG_OK;
}

static exg_status check_kind(binder *b, const exg_value *value, const exg_input_binding *binding)
{
    exg_error *err = b->err;

    if (value->tensor == NULL) {
        if (binding->kind != EXG_ARGUMENT_INT &&
            !(binding->kind == EXG_ARGUMENT_TENSOR && binding->rank == 0 &&
              binding->dtype == EXG_DTYPE_I64)) {
            return EXG_FAIL(err, USAGE, "INP-003", "input '%s' takes an integer (a 0-d int64)",
                            value->name);
        }
        return EXG_OK;
    }
    if (binding->kind != EXG_ARGUMENT_TENSOR ||
        (binding->dtype != value->tensor->dtype && binding->dtype != EXG_DTYPE_UNKNOWN)) {
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

/* A size as people write it: "2*s77", not as files do. */
static void print_size(const char *expression, char *text, size_t room)
{
    exg_text printed = EXG_TEXT_EMPTY;

    exg_print_expression(&printed, expression);
    snprintf(text, room, "%s", exg_text_string(&printed) == NULL ? "?" : printed.data);
    exg_text_free(&printed);
}

/* ---- what is allowed ------------------------------------------------------------------------ */

/* The number of the only symbol that an expression has. */
static exg_status evaluate_for(const exg_expression *expr, int64_t number, int64_t *value)
{
    char name[64];
    exg_symbol symbol = {name, number};
    exg_symbols symbols = {.items = &symbol, .count = 1};

    snprintf(name, sizeof(name), "%.*s", (int)expr->symbols->length, expr->symbols->text);
    return exg_expression_evaluate_int(expr, &symbols, value, NULL);
}

/* The sizes that `size` may have are *first + any of *step, and 1 where it tells none. */
static void find_step(binder *b, const char *size, int64_t *first, int64_t *step)
{
    const exg_expression *expr;
    int64_t values[3];
    int64_t apart, again;

    *first = 0;
    *step = 1;
    if (exg_expressions_find(&b->expressions, size, &expr, NULL) != EXG_OK ||
        expr->symbols == NULL) {
        return;
    }
    for (int64_t i = 0; i < 3; i++) {
        if (evaluate_for(expr, i + 1, &values[i]) != EXG_OK) {
            return;
        }
    }
    if (!__builtin_sub_overflow(values[1], values[0], &apart) && apart > 1 &&
        !__builtin_sub_overflow(values[2], values[1], &again) && again == apart) {
        *first = values[0];
        *step = apart;
    }
}

/* ", even" of 2*s0, ", odd" of 2*s0 + 1, ", a multiple of 3" of 3*s0; else nothing. */
static void print_step(binder *b, const char *size, char *text, size_t room)
{
    int64_t first, step;

    find_step(b, size, &first, &step);
    if (step == 1) {
        text[0] = '\0';
    } else if (step == 2) {
        snprintf(text, room, first % 2 == 0 ? ", even" : ", odd");
    } else if (first % step == 0) {
        snprintf(text, room, ", a multiple of %" PRId64, step);
    } else {
        snprintf(text, room, ", %" PRId64 " more than a multiple of %" PRId64, first % step, step);
    }
}

/* Is it none of the sizes, whatever the symbol is? */
static bool misses_step(binder *b, const char *size, int64_t number)
{
    int64_t first, step;

    find_step(b, size, &first, &step);
    return (number % step - first % step) % step != 0;
}

/* NULL: the size has none. */
static const exg_range_constraint *find_range(const binder *b, const char *size)
{
    for (uint32_t i = 0; i < b->program->range_constraint_count; i++) {
        if (strcmp(b->program->range_constraints[i].symbol, size) == 0) {
            return &b->program->range_constraints[i];
        }
    }
    return NULL;
}

static exg_status tell_allowed(binder *b, exg_status status, const exg_range_constraint *range)
{
    char step[80];

    if (range == NULL || !(range->has_min || range->has_max)) {
        return status;
    }
    print_step(b, range->symbol, step, sizeof(step));
    return range->has_min && range->has_max
               ? exg_error_fix(b->err, status, "allowed: %" PRId64 " to %" PRId64 "%s",
                               range->min_val, range->max_val, step)
           : range->has_min ? exg_error_fix(b->err, status, "allowed: %" PRId64 " and more%s",
                                            range->min_val, step)
                            : exg_error_fix(b->err, status, "allowed: %" PRId64 " and less%s",
                                            range->max_val, step);
}

/* Every size that is no lone symbol must be what its expression says. */
static exg_status check_sizes(binder *b, const exg_value *value, const exg_input_binding *binding)
{
    for (uint32_t d = 0; value->tensor != NULL && d < value->tensor->rank; d++) {
        const exg_sym_int *size = &value->tensor->sizes[d];
        int64_t expected = size->value;

        if (size->expr != NULL) {
            EXG_TRY_IN(b->err, evaluate(b, size->expr, &expected), "%s.sizes[%u]", value->name, d);
        }
        if (expected != binding->sizes[d]) {
            char text[120] = "";

            exg_status status;

            if (size->expr != NULL) {
                print_size(size->expr, text, sizeof(text));
            }
            status = EXG_FAIL(b->err, USAGE, "INP-004",
                              "input '%s' has size %" PRId64 " in dim %u, not %" PRId64 "%s%s",
                              value->name, binding->sizes[d], d, expected,
                              text[0] == '\0' ? "" : ", which is ", text);
            return size->expr == NULL || !misses_step(b, text, binding->sizes[d])
                       ? status
                       : tell_allowed(b, status, find_range(b, text));
        }
    }
    return EXG_OK;
}

/* A lower bound of 2 or less is the exporter's guess, not the user's, and does not bind: PyTorch
 * runs such a program at 0 and 1 too (torch/export/_unlift.py). */
#define MIN_GUESSED 2

static exg_status find_sound(binder *b, const char *text, const exg_expression **expr)
{
    EXG_TRY(exg_expressions_find(&b->expressions, text, expr, b->err));
    return exg_expression_check(*expr, b->err);
}

/* A dim of an input, and the symbol that has a range. */
typedef struct dim_search {
    const char *symbol;
    size_t length;
    bool found;
} dim_search;

static void find_symbol(void *user, const char *name, size_t length)
{
    dim_search *search = user;

    search->found =
        search->found || (length == search->length && memcmp(name, search->symbol, length) == 0);
}

/* Is dim `d` the size that has the range, or (`within`) does it depend on that one? */
static bool is_about(binder *b, const exg_sym_int *size, const char *symbol, bool within)
{
    dim_search search = {symbol, strlen(symbol), false};
    const exg_expression *expr;
    char text[120];

    if (size->expr == NULL) {
        return false;
    }
    if (within) {
        if (exg_expressions_find(&b->expressions, size->expr, &expr, NULL) == EXG_OK) {
            exg_expression_visit(expr, find_symbol, &search);
        }
        return search.found;
    }
    print_size(size->expr, text, sizeof(text));
    return strcmp(text, symbol) == 0;
}

/* Input `i` and its first dim that a range of `symbol` is about. false: it has none. */
static bool find_dim(binder *b, uint32_t i, const char *symbol, bool within,
                     const exg_value **value, uint32_t *dim)
{
    const exg_tensor_meta *meta;

    if (!is_user_value(b->program, i)) {
        return false;
    }
    *value = value_of(b->program, &b->program->graph->inputs[i]);
    meta = (*value)->tensor;
    for (uint32_t d = 0; meta != NULL && d < meta->rank; d++) {
        if (is_about(b, &meta->sizes[d], symbol, within)) {
            *dim = d;
            return true;
        }
    }
    return false;
}

/* "input 'x' has size 2 in dim 1" */
static void name_dim(binder *b, const char *symbol, char *text, size_t room)
{
    const uint32_t count = b->program->graph->input_count;

    for (uint32_t k = 0; k < 2 * count; k++) {
        bool within = k >= count;
        const exg_value *value;
        char size[60] = "";
        uint32_t d;

        if (find_dim(b, k % count, symbol, within, &value, &d)) {
            if (within) {
                print_size(value->tensor->sizes[d].expr, size, sizeof(size));
            }
            snprintf(text, room, "input '%s' has size %" PRId64 " in dim %u%s%s", value->name,
                     find_binding(&b->given, value->name)->sizes[d], d, within ? ", " : "", size);
            return;
        }
    }
    snprintf(text, room, "the inputs");
}

static exg_status outside(binder *b, const exg_range_constraint *range, int64_t value)
{
    char text[240];
    exg_status status;

    name_dim(b, range->symbol, text, sizeof(text));
    status = EXG_FAIL(b->err, USAGE, "INP-005", "%s: %s = %" PRId64 " is outside its range", text,
                      range->symbol, value);
    return tell_allowed(b, status, range);
}

static exg_status check_range(binder *b, const exg_range_constraint *range)
{
    unbound late = {.symbols = b->symbols};
    const exg_expression *expr;
    int64_t value;

    EXG_TRY_IN(b->err, find_sound(b, range->symbol, &expr), "range_constraints[\"%s\"]",
               range->symbol);
    exg_expression_visit(expr, note_unbound, &late);
    if (late.name != NULL) { /* a symbol that only the run produces: checked then */
        return EXG_OK;
    }
    EXG_TRY(exg_expression_evaluate_int(expr, b->symbols, &value, b->err));
    if ((range->has_min && value < (range->min_val > MIN_GUESSED ? range->min_val : 0)) ||
        (range->has_max && value > range->max_val)) {
        return outside(b, range, value);
    }
    return EXG_OK;
}

static exg_status check_ranges(binder *b)
{
    for (uint32_t i = 0; i < b->program->range_constraint_count; i++) {
        EXG_TRY(check_range(b, &b->program->range_constraints[i]));
    }
    return EXG_OK;
}

static exg_status bind_sizes(binder *b, bind_function *bind)
{
    for (uint32_t i = 0; i < b->program->graph->input_count; i++) {
        const exg_value *value;
        const exg_input_binding *binding;

        if (!is_user_value(b->program, i)) {
            continue;
        }
        value = value_of(b->program, &b->program->graph->inputs[i]);
        binding = find_binding(&b->given, value->name);
        for (uint32_t d = 0; binding != NULL && value->tensor != NULL && d < value->tensor->rank;
             d++) {
            EXG_TRY(bind_text(b, bind, value->tensor->sizes[d].expr, binding->sizes[d]));
        }
        if (binding != NULL && value->sym_int != NULL) {
            EXG_TRY(bind_text(b, bind, value->sym_int->expr, binding->as_int));
        }
    }
    return EXG_OK;
}

/* What the guards ask is part of the program: the branches that export took hold for such sizes
 * alone. One that is not understood may ask for anything. */
static exg_status check_guards(binder *b)
{
    exg_arena *scratch = b->expressions.arena;
    exg_guard_inputs inputs;

    if (b->program->guard_count > 0) {
        EXG_TRY(exg_guard_inputs_find(b->program, scratch, &inputs, b->err));
    }
    for (uint32_t i = 0; i < b->program->guard_count; i++) {
        const char *guard = b->program->guards_code[i];
        const char *text;
        int64_t holds;

        EXG_TRY(exg_guard_read(&inputs, guard, scratch, &text, b->err));
        if (text == NULL || exg_symint_evaluate(text, b->symbols, &holds, NULL) != EXG_OK) {
            return exg_error_fix(b->err,
                                 EXG_FAIL(b->err, UNSUPPORTED, "INP-011",
                                          "a guard of the program cannot be read: %.200s", guard),
                                 "look whether it holds for these inputs; --ignore-guards "
                                 "(exg_bind_options.ignore_guards) runs without the guards");
        }
        if (holds == 0) {
            return exg_error_fix(b->err,
                                 EXG_FAIL(b->err, USAGE, "INP-009",
                                          "the sizes of the inputs do not fit: %.200s", guard),
                                 "the program was exported for sizes of which this holds");
        }
    }
    return EXG_OK;
}

/* Each user input that is given, with that. */
static exg_status check_inputs(binder *b, exg_status (*check)(binder *b, const exg_value *value,
                                                              const exg_input_binding *binding))
{
    for (uint32_t i = 0; i < b->program->graph->input_count; i++) {
        if (is_user_value(b->program, i)) {
            const exg_value *value = value_of(b->program, &b->program->graph->inputs[i]);
            const exg_input_binding *binding = find_binding(&b->given, value->name);

            EXG_TRY(binding == NULL ? EXG_OK : check(b, value, binding));
        }
    }
    return EXG_OK;
}

static exg_status bind_inputs(binder *b, bool ignore_guards)
{
    EXG_TRY(check_given(b));
    EXG_TRY(check_all(b));
    EXG_TRY(check_inputs(b, check_kind));
    EXG_TRY(bind_sizes(b, bind_symbol));
    EXG_TRY(bind_sizes(b, bind_derived));
    EXG_TRY(check_inputs(b, check_sizes));
    EXG_TRY(check_ranges(b));
    return ignore_guards ? EXG_OK : check_guards(b);
}

exg_status exg_bind_inputs(const exg_verified *verified, const exg_input_binding *bindings,
                           uint32_t count, const exg_bind_options *options, exg_arena *arena,
                           exg_symbols *symbols, exg_error *err)
{
    EXG_REQUIRE(err, verified, EXG_IF_ANY(count, bindings), arena, symbols);
    EXG_REQUIRE(err, verified->program, verified->operators);
    binder b = {.program = verified->program,
                .given = {.bindings = bindings, .count = count},
                .arena = arena,
                .symbols = symbols,
                .err = err};
    exg_bind_options chosen = {.size = sizeof(chosen)};
    exg_status status;

    *symbols = (exg_symbols){0};
    EXG_TRY(EXG_READ_OPTIONS(exg_bind_options, &chosen, options, err));
    EXG_TRY(begin(&b));
    status = bind_inputs(&b, chosen.ignore_guards);
    end(&b);
    return status;
}

static exg_status bind_hints(binder *b, bind_function *bind)
{
    for (uint32_t v = 0; v < b->program->graph->value_count; v++) {
        const exg_value *value = &b->program->graph->values[v];

        for (uint32_t d = 0; value->tensor != NULL && d < value->tensor->rank; d++) {
            const exg_sym_int *size = &value->tensor->sizes[d];

            if (size->has_hint) {
                EXG_TRY(bind_text(b, bind, size->expr, size->value));
            }
        }
        if (value->sym_int != NULL && value->sym_int->has_hint) {
            EXG_TRY(bind_text(b, bind, value->sym_int->expr, value->sym_int->value));
        }
    }
    return EXG_OK;
}

/* Sizes without a hint (PyTorch's ShapesSpec gives them none) are those of the sample inputs. */
static exg_status bind_samples(binder *b, bind_function *bind)
{
    const exg_program *program = b->program;
    uint32_t leaf = 0;

    for (uint32_t i = 0; i < program->graph->input_count; i++) {
        const exg_sample_input *sample;
        const exg_value *value;

        if (program->signature.inputs[i].kind != EXG_INPUT_USER) {
            continue;
        }
        if (leaf == program->sample_input_count) {
            return EXG_OK;
        }
        sample = &program->sample_inputs[leaf++];
        value = is_user_value(program, i) ? value_of(program, &program->graph->inputs[i]) : NULL;
        if (value != NULL && value->tensor != NULL && sample->kind == EXG_ARGUMENT_TENSOR &&
            sample->meta->rank == value->tensor->rank) {
            for (uint32_t d = 0; d < value->tensor->rank; d++) {
                EXG_TRY(
                    bind_text(b, bind, value->tensor->sizes[d].expr, sample->meta->sizes[d].value));
            }
        } else if (value != NULL && value->sym_int != NULL && sample->kind == EXG_ARGUMENT_INT) {
            EXG_TRY(bind_text(b, bind, value->sym_int->expr, sample->as_int));
        }
    }
    return EXG_OK;
}

static exg_status bind_recorded(binder *b)
{
    EXG_TRY(bind_hints(b, bind_symbol));
    EXG_TRY(bind_hints(b, bind_derived));
    EXG_TRY(bind_samples(b, bind_symbol));
    return bind_samples(b, bind_derived);
}

exg_status exg_bind_hints(const exg_program *program, exg_arena *arena, exg_symbols *symbols,
                          exg_error *err)
{
    EXG_REQUIRE(err, program, arena, symbols);
    binder b = {.program = program, .arena = arena, .symbols = symbols, .err = err};
    exg_status status;

    *symbols = (exg_symbols){0};
    EXG_TRY(begin(&b));
    status = bind_recorded(&b);
    end(&b);
    return status;
}

static exg_status bind_asked(binder *b)
{
    EXG_TRY(check_given(b));
    EXG_TRY(check_inputs(b, check_kind));
    EXG_TRY(bind_sizes(b, bind_symbol));
    EXG_TRY(bind_sizes(b, bind_derived));
    EXG_TRY(bind_recorded(b));
    return check_inputs(b, check_sizes);
}

exg_status exg_bind_asked(const exg_program *program, const exg_input_binding *bindings,
                          uint32_t count, exg_arena *arena, exg_symbols *symbols, exg_error *err)
{
    EXG_REQUIRE(err, program, EXG_IF_ANY(count, bindings), arena, symbols);
    binder b = {.program = program,
                .given = {.bindings = bindings, .count = count},
                .arena = arena,
                .symbols = symbols,
                .err = err};
    exg_status status;

    EXG_TRY(begin(&b));
    status = bind_asked(&b);
    end(&b);
    return status;
}
