/* sampler.c - draws numbers within the ranges of a program. */
#include "libexport/transform/sampler.h"
#include "libexport/program/expression.h"
#include "libexport/transform/kept_nodes.h"
#include "libexport/transform/size_fit.h"

#include <ctype.h>
#include <exg/transform.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_SIZE 2 /* what 0 and 1 give is not what others do, as in torch.export */
#define USUAL_SIZE 11
#define USUAL_SPAN 64
#define DATA_SPAN  8  /* of a number that the data decide: smaller than most sizes */
#define LEAST_REAL 5  /* a number with a point: none that operators take for a special one */
#define REAL_SPAN  59 /* both ways from 0 */

static bool add_constant(exg_sampler *s, int64_t constant)
{
    for (uint32_t i = 0; i < s->constant_count; i++) {
        if (s->constants[i] == constant) {
            return true;
        }
    }
    if (!exg_arena_reserve(s->arena, &s->constants, s->constant_count, &s->constant_capacity,
                           sizeof(*s->constants))) {
        return false;
    }
    s->constants[s->constant_count++] = constant;
    return true;
}

static void add_symbol(void *user, const char *name, size_t length)
{
    exg_sampler *s = user;
    exg_sampled symbol = {.least = 0, .most = INT64_MAX};

    symbol.name = exg_arena_strndup(s->arena, name, length);
    if (symbol.name == NULL || exg_map_find(&s->by_name, symbol.name) != EXG_MAP_NONE) {
        return;
    }
    symbol.is_real = exg_symbol_is_real(symbol.name);
    for (uint32_t i = 0; i < s->root->program->range_constraint_count; i++) {
        const exg_range_constraint *range = &s->root->program->range_constraints[i];

        if (strcmp(range->symbol, symbol.name) == 0 && !symbol.is_real) {
            symbol.least = range->has_min && range->min_val > 0 ? range->min_val : 0;
            symbol.most = range->has_max ? range->max_val : INT64_MAX;
        }
    }
    if (symbol.is_real) {
        symbol.most = LEAST_REAL + REAL_SPAN;
        symbol.least = -symbol.most;
        (void)add_constant(s, 1); /* edges at 0, 1 and 2 */
    } else if (symbol.least < LEAST_SIZE && symbol.most >= LEAST_SIZE) {
        symbol.least = LEAST_SIZE;
    }
    if (exg_arena_reserve(s->arena, &s->symbols, s->count, &s->capacity, sizeof(*s->symbols)) &&
        exg_map_put(&s->by_name, symbol.name, s->count)) {
        s->symbols[s->count++] = symbol;
    }
}

/* Numbers of the text that are no part of a name. */
static void add_constants(exg_sampler *s, const char *text)
{
    for (const char *c = text; *c != '\0';) {
        bool in_name = isalpha((unsigned char)*c) || *c == '_';
        const char *begin = c;

        while (isalnum((unsigned char)*c) || *c == '_') {
            c++;
        }
        if (c > begin && !in_name && c - begin < 5) {
            (void)add_constant(s, strtoll(begin, NULL, 10)); /* or there are fewer edges */
        }
        c += c == begin;
    }
}

static exg_status add_symbols(void *user, const char *text, exg_error *err)
{
    add_constants(user, text);
    return exg_symint_visit(text, add_symbol, user, err);
}

exg_status exg_sampler_begin(exg_sampler *s, const exg_verified *root, const exg_graph *graph,
                             const exg_node *kept, uint32_t kept_count, exg_arena *arena,
                             exg_error *err)
{
    *s = (exg_sampler){
        .arena = arena, .root = root, .graph = graph, .kept = kept, .kept_count = kept_count};
    exg_map_init(&s->by_name, arena);
    EXG_TRY(exg_graph_visit_sizes(graph, add_symbols, s, err));
    EXG_TRY(exg_graph_visit_reals(graph, add_symbols, s, err));
    return exg_arena_is_dry(arena) ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

/* A number that looks like chance (splitmix64). */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static int64_t draw_real(uint32_t sample, uint32_t attempt, uint32_t index)
{
    int64_t value = LEAST_REAL + (int64_t)(mix(mix(mix(sample) + attempt) + index) % REAL_SPAN);

    return sample % 2 == 1 && attempt < 4 ? -value : value;
}

static int64_t draw(const exg_sampled *symbol, uint32_t sample, uint32_t attempt, uint32_t index)
{
    bool from_data = symbol->name[0] == 'u';
    bool small = from_data || (sample == 0 && attempt == 0);
    int64_t step = (int64_t)1 << (attempt / 4);
    int64_t least = !small && symbol->least < USUAL_SIZE && symbol->most >= USUAL_SIZE
                        ? USUAL_SIZE
                        : symbol->least;
    int64_t span = sample == 0 && attempt == 0 ? 1 : from_data ? DATA_SPAN : USUAL_SPAN * step;
    int64_t value;

    if (symbol->most - least < span) {
        span = symbol->most < least ? 1 : symbol->most - least + 1;
    }
    value = least + (int64_t)(mix(mix(mix(sample) + attempt) + index) % (uint64_t)span);
    if (!from_data && value - value % step >= symbol->least) {
        value -= value % step;
    }
    return value;
}

exg_status exg_sampler_draw(const exg_sampler *s, uint32_t sample, uint32_t attempt,
                            exg_symbols *symbols, exg_error *err)
{
    *symbols = (exg_symbols){0};
    for (uint32_t i = 0; i < s->count; i++) {
        const exg_sampled *symbol = &s->symbols[i];
        int64_t value =
            symbol->is_real ? draw_real(sample, attempt, i) : draw(symbol, sample, attempt, i);

        EXG_TRY(exg_symbols_add(symbols, s->arena, symbol->name, strlen(symbol->name), value, err));
    }
    return EXG_OK;
}

/* ---- edges ---------------------------------------------------------------------------------- */

/* An end of a range that is further away is not tried: programs of such sizes are not planned. */
#define EDGE_MOST 4096

/* Of each symbol: beside the number it has, then the ends of its range. */
static const int64_t besides[] = {1, -1, 2, 3};
#define BESIDES      ((uint32_t)(sizeof(besides) / sizeof(besides[0])))
#define ENDS         3
#define PER_CONSTANT 6

/* The number that edge `way` gives a symbol that has `value`. */
static int64_t edge_of(const exg_sampler *s, const exg_sampled *symbol, int64_t value, uint32_t way)
{
    if (way < BESIDES) {
        return value + besides[way];
    }
    way -= BESIDES;
    if (way < ENDS) {
        return way < 2 ? symbol->least + way : symbol->most;
    }
    way -= ENDS;
    {
        int64_t constant = s->constants[way / PER_CONSTANT];
        int64_t near = way % 3; /* one before, at, one after */
        int64_t times = way % PER_CONSTANT < 3 || constant < 2 ? 1 : value / constant + 1;

        return constant * times + near - 1;
    }
}

exg_status exg_sampler_edge(const exg_sampler *s, const exg_symbols *from, uint32_t edge,
                            exg_symbols *symbols, bool *is_there, exg_error *err)
{
    uint32_t ways = BESIDES + ENDS + s->constant_count * PER_CONSTANT;
    const exg_sampled *moved = s->count == 0 ? NULL : &s->symbols[edge % s->count];

    *symbols = (exg_symbols){0};
    *is_there = moved != NULL && edge / s->count < ways;
    for (uint32_t i = 0; *is_there && i < s->count; i++) {
        const exg_sampled *symbol = &s->symbols[i];
        int64_t value = from->items[i].value;

        if (symbol == moved) {
            value = edge_of(s, symbol, value, edge / s->count);
            if (value < symbol->least || value > symbol->most || value > EDGE_MOST) {
                value = from->items[i].value; /* as it is already */
            }
        }
        EXG_TRY(exg_symbols_add(symbols, s->arena, symbol->name, strlen(symbol->name), value, err));
    }
    return EXG_OK;
}

/* ---- assertions and guards ------------------------------------------------------------------ */

/* The truth of an assertion on sizes; one that cannot be told counts as true. */
static bool is_true(const char *text, const exg_symbols *symbols)
{
    exg_error unread;
    int64_t truth = 1;

    return exg_symint_evaluate(text, symbols, &truth, &unread) != EXG_OK || truth != 0;
}

/* left - right of an equality, in which the symbol has the number. */
static bool gap_of(const exg_expression *equality, exg_symbols *symbols, uint32_t symbol,
                   int64_t number, int64_t *gap)
{
    int64_t held = symbols->items[symbol].value;
    exg_expression side = {.text = equality->text, .root = equality->root->first};
    int64_t sides[2];
    exg_error unread;
    bool known = true;

    symbols->items[symbol].value = number;
    for (uint32_t i = 0; known && i < 2; i++, side.root = side.root->next) {
        known = exg_expression_evaluate_int(&side, symbols, &sides[i], &unread) == EXG_OK;
    }
    symbols->items[symbol].value = held;
    return known && !__builtin_sub_overflow(sides[0], sides[1], gap);
}

/* Gives a number that the data decide the value with which the equality holds. */
static void make_equal(const exg_sampler *s, const char *text, exg_symbols *symbols)
{
    const exg_expression *equality;
    exg_expressions expressions;
    exg_error unread;

    exg_expressions_init(&expressions, s->arena);
    if (exg_expressions_find(&expressions, text, &equality, &unread) != EXG_OK ||
        equality->root->kind != EXG_TERM_CALL || equality->root->function == NULL ||
        equality->root->function->kind != EXG_FN_EQ || equality->root->count != 2) {
        return;
    }
    for (uint32_t i = s->count; i-- > 0;) {
        int64_t value = symbols->items[i].value;
        int64_t gap, next;

        if (s->symbols[i].name[0] != 'u' || !gap_of(equality, symbols, i, value, &gap) ||
            !gap_of(equality, symbols, i, value + 1, &next) || next == gap ||
            gap % (next - gap) != 0) {
            continue;
        }
        value -= gap / (next - gap);
        if (value >= 0 && value <= s->symbols[i].most) {
            symbols->items[i].value = value;
            return;
        }
    }
}

static bool holds(const exg_sampler *s, const exg_node *node, exg_symbols *symbols)
{
    const exg_argument *arg = node->input_count == 0 ? NULL : &node->inputs[0].arg;
    const char *text = NULL;

    if (node->output_count == 0 && arg != NULL && arg->kind == EXG_ARGUMENT_SYM_BOOL &&
        arg->as_sym.value != EXG_NO_VALUE) {
        text = exg_value_expression(&s->graph->values[arg->as_sym.value]);
    }
    if (text == NULL || is_true(text, symbols)) {
        return true;
    }
    make_equal(s, text, symbols);
    return is_true(text, symbols);
}

/* An input of these numbers; false: they do not tell its sizes. */
static bool bind(const exg_sampler *s, const exg_argument *input, const exg_symbols *symbols,
                 exg_input_binding *binding)
{
    const exg_graph *graph = s->root->program->graph;
    const exg_tensor_meta *meta;
    exg_error unread;
    int64_t *sizes;
    bool known = true;

    if (input->kind == EXG_ARGUMENT_SYM_INT && input->as_sym.value != EXG_NO_VALUE) {
        const exg_value *value = &graph->values[input->as_sym.value];

        *binding = (exg_input_binding){.name = value->name, .kind = EXG_ARGUMENT_INT};
        return value->sym_int == NULL || value->sym_int->expr == NULL ||
               exg_symint_evaluate(value->sym_int->expr, symbols, &binding->as_int, &unread) ==
                   EXG_OK;
    }
    if (input->kind != EXG_ARGUMENT_TENSOR) {
        return false;
    }
    meta = graph->values[input->as_tensor].tensor;
    sizes = EXG_NEW_ARRAY(s->arena, int64_t, meta->rank);
    for (uint32_t d = 0; sizes != NULL && known && d < meta->rank; d++) {
        sizes[d] = meta->sizes[d].value;
        known = meta->sizes[d].expr == NULL ||
                exg_symint_evaluate(meta->sizes[d].expr, symbols, &sizes[d], &unread) == EXG_OK;
    }
    *binding = (exg_input_binding){.name = graph->values[input->as_tensor].name,
                                   .kind = EXG_ARGUMENT_TENSOR,
                                   .dtype = meta->dtype,
                                   .rank = meta->rank,
                                   .sizes = sizes};
    return sizes != NULL && known;
}

/* Do the guards hold? Where the numbers do not tell all sizes, as in a branch, nobody asks. */
static bool is_guarded(const exg_sampler *s, const exg_symbols *symbols)
{
    const exg_program *program = s->root->program;
    exg_input_binding *bindings =
        EXG_NEW_ARRAY(s->arena, exg_input_binding, program->graph->input_count);
    uint32_t count = 0;
    exg_symbols bound;
    exg_error unheld;

    for (uint32_t i = 0; bindings != NULL && i < program->graph->input_count; i++) {
        const exg_argument *input = &program->graph->inputs[i];
        bool has_value = input->kind == EXG_ARGUMENT_TENSOR || input->kind == EXG_ARGUMENT_SYM_INT;

        if (program->signature.inputs[i].kind != EXG_INPUT_USER || !has_value) {
            continue;
        }
        if (!bind(s, input, symbols, &bindings[count++])) {
            return true;
        }
    }
    return bindings == NULL || program->guard_count == 0 ||
           exg_bind_inputs(s->root, bindings, count, NULL, s->arena, &bound, &unheld) == EXG_OK;
}

bool exg_sampler_admits(const exg_sampler *s, exg_symbols *symbols)
{
    bool admitted = true;

    for (uint32_t n = 0; admitted && n < s->kept_count; n++) {
        admitted = holds(s, &s->kept[n], symbols);
    }
    return admitted && is_guarded(s, symbols);
}
