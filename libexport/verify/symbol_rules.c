/* symbol_rules.c - expressions, hints and ranges (SYM). Equal expressions are read
 * once, however many values have them. */
#include "libexport/verify/verifier.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct symbols {
    exg_verifier *v;
    exg_map seen;     /* symbols of the graph */
    exg_map produced; /* symbols that are a size of an input or a node's result */
    exg_map ranged;   /* symbols that have a range */
    exg_map *noting;  /* where note() puts them */
} symbols;

/* ---- the table of expressions --------------------------------------------------------- */

uint32_t exg_expression_find(const exg_verifier *v, const char *text)
{
    return exg_map_find(&v->expressions_by_text, text);
}

static void note(void *user, const char *name, size_t length)
{
    symbols *s = user;
    char *copy = exg_arena_strndup(s->v->arena, name, length);

    if (copy == NULL ||
        (exg_map_find(s->noting, copy) == EXG_MAP_NONE && !exg_map_put(s->noting, copy, 0))) {
        s->v->failed = true;
    }
}

/* false: it is none, which is told, or memory ran out. */
static bool read_expression(exg_verifier *v, const char *text, exg_expression *expression,
                            const exg_model_path *path)
{
    exg_error err;
    exg_status status = exg_expression_parse(v->arena, text, expression, &err);

    if (status == EXG_OK) {
        status = exg_expression_check(expression, &err);
    }
    if (status == EXG_NO_MEMORY) {
        v->failed = true;
    } else if (status != EXG_OK) {
        exg_found(v, err.code, path, "%s", err.message);
    }
    return status == EXG_OK;
}

/* As sympy and Python write it. */
static bool is_infinite(const char *name, size_t length)
{
    static const char *const names[] = {"oo",       "int_oo",     "zoo",      "nan",     "inf",
                                        "Infinity", "S.Infinity", "math.inf", "math.nan"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strlen(names[i]) == length && memcmp(names[i], name, length) == 0) {
            return true;
        }
    }
    return false;
}

typedef struct infinity {
    const char *name;
    size_t length;
} infinity;

static void note_infinite(void *user, const char *name, size_t length)
{
    infinity *found = user;

    if (is_infinite(name, length)) {
        *found = (infinity){name, length};
    }
}

static void add_expression(symbols *s, const char *text, const char *value,
                           const exg_model_path *path)
{
    exg_verifier *v = s->v;
    uint32_t index = v->expression_count;
    exg_noted_expression *expression;

    if (!exg_arena_reserve(v->arena, &v->expressions, index, &v->expression_capacity,
                           sizeof(exg_noted_expression)) ||
        !exg_map_put(&v->expressions_by_text, text, index)) {
        v->failed = true;
        return;
    }
    expression = &v->expressions[index];
    *expression = (exg_noted_expression){.value = value};
    v->expression_count++;
    expression->sound = read_expression(v, text, &expression->read, path);
    s->noting = &s->seen;
    exg_expression_visit(&expression->read, note, s);
}

/* Of a size, which no run could have. */
static void check_finite(exg_verifier *v, const exg_noted_expression *expression,
                         const exg_model_path *path)
{
    const exg_term *root = expression->read.root;
    infinity found = {0};

    exg_expression_visit(&expression->read, note_infinite, &found);
    if (root != NULL && (root->kind == EXG_TERM_REAL || root->kind == EXG_TERM_CONSTANT) &&
        root->number.is_float && !isfinite(root->number.f)) {
        found = (infinity){expression->read.text, strlen(expression->read.text)};
    }
    if (found.name != NULL) {
        exg_found(v, "SYM-012", path, "a size of '%.*s'", (int)found.length, found.name);
    }
}

/* One use of an expression; its hint (NULL: none) is the same wherever it stands. */
static void use_expression(symbols *s, const char *text, const exg_sym_int *hint, const char *value,
                           const exg_model_path *path)
{
    exg_verifier *v = s->v;
    uint32_t index = exg_expression_find(v, text);
    exg_noted_expression *expression;

    if (index == EXG_MAP_NONE) {
        add_expression(s, text, value, path);
        index = exg_expression_find(v, text);
        if (index != EXG_MAP_NONE && hint != NULL && v->expressions[index].sound) {
            check_finite(v, &v->expressions[index], path);
        }
    }
    if (index == EXG_MAP_NONE || hint == NULL || !hint->has_hint) {
        return;
    }
    expression = &v->expressions[index];
    if (!expression->has_hint) {
        expression->has_hint = true;
        expression->hint = hint->value;
        expression->value = value;
    } else if (expression->hint != hint->value) {
        exg_found(v, "SYM-002", path, "hint %" PRId64 " of an expression that is %" PRId64,
                  hint->value, expression->hint);
    }
}

static void use_meta(symbols *s, const exg_tensor_meta *meta, const char *name,
                     const exg_model_path *path)
{
    for (uint32_t d = 0; d < meta->rank; d++) {
        if (meta->sizes[d].expr != NULL) {
            use_expression(s, meta->sizes[d].expr, &meta->sizes[d], name, path);
        }
        if (meta->strides[d].expr != NULL) {
            use_expression(s, meta->strides[d].expr, &meta->strides[d], name, path);
        }
    }
    if (meta->storage_offset.expr != NULL) {
        use_expression(s, meta->storage_offset.expr, &meta->storage_offset, name, path);
    }
}

static void use_graph(symbols *s, const exg_graph *graph, const exg_model_path *path)
{
    for (uint32_t id = 0; id < graph->value_count; id++) {
        const exg_value *value = &graph->values[id];
        const char *name = value->name == NULL ? "" : value->name;
        const exg_model_path *here = EXG_AT_KEY(path, "values", name);

        if (value->tensor != NULL) {
            use_meta(s, value->tensor, name, here);
        }
        if (value->sym_int != NULL && value->sym_int->expr != NULL) {
            use_expression(s, value->sym_int->expr, value->sym_int, name, here);
        }
        if (value->sym_bool != NULL && value->sym_bool->expr != NULL) {
            use_expression(s, value->sym_bool->expr, NULL, name, here);
        }
        if (value->sym_float != NULL && value->sym_float->expr != NULL) {
            use_expression(s, value->sym_float->expr, NULL, name, here);
        }
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        for (uint32_t i = 0; i < graph->nodes[n].input_count; i++) {
            const exg_argument *arg = &graph->nodes[n].inputs[i].arg;

            if (arg->kind == EXG_ARGUMENT_GRAPH) {
                use_graph(s, arg->as_graph->graph,
                          EXG_AT(EXG_AT_INDEX(EXG_AT_INDEX(path, "nodes", n), "inputs", i),
                                 "arg.as_graph.graph"));
            }
        }
    }
}

/* ---- numbers at export ------------------------------------------------------------------ */

bool exg_binding_evaluate(exg_verifier *v, exg_binding *binding, bool tells)
{
    binding->numbers = EXG_NEW_ARRAY(v->arena, int64_t, v->expression_count);
    binding->known = EXG_NEW_ARRAY(v->arena, bool, v->expression_count);
    if (binding->numbers == NULL || binding->known == NULL) {
        v->failed = true;
        return false;
    }
    for (uint32_t e = 0; e < v->expression_count; e++) {
        const exg_noted_expression *expression = &v->expressions[e];
        exg_error err;

        exg_error_clear(&err);
        binding->known[e] =
            expression->sound && exg_expression_evaluate_int(&expression->read, &binding->symbols,
                                                             &binding->numbers[e], &err) == EXG_OK;
        if (tells && (strcmp(err.code, "SYM-010") == 0 || strcmp(err.code, "SYM-011") == 0)) {
            exg_found(v, err.code, EXG_AT_KEY(EXG_AT(NULL, "graph"), "values", expression->value),
                      "%s", err.message);
        }
    }
    return true;
}

/* Hints of lone symbols number the symbols; those of expressions follow from them. */
static void check_hints(symbols *s)
{
    exg_verifier *v = s->v;
    exg_binding *binding = &v->bindings[0];

    v->binding_count = 1;
    for (uint32_t e = 0; e < v->expression_count; e++) {
        const exg_noted_expression *expression = &v->expressions[e];
        const exg_term *symbol = exg_expression_symbol(&expression->read);

        if (expression->has_hint && symbol != NULL &&
            exg_symbols_find(&binding->symbols, symbol->text, symbol->length) == NULL &&
            exg_symbols_add(&binding->symbols, v->arena, symbol->text, symbol->length,
                            expression->hint, NULL) != EXG_OK) {
            v->failed = true;
            return;
        }
    }
    if (!exg_binding_evaluate(v, binding, true)) {
        return;
    }
    for (uint32_t e = 0; e < v->expression_count; e++) {
        const exg_noted_expression *expression = &v->expressions[e];

        if (expression->has_hint && binding->known[e] && binding->numbers[e] != expression->hint) {
            exg_found(v, "SYM-002", EXG_AT_KEY(EXG_AT(NULL, "graph"), "values", expression->value),
                      "hint %" PRId64 " of an expression that is %" PRId64, expression->hint,
                      binding->numbers[e]);
        }
    }
}

/* ---- ranges ----------------------------------------------------------------------------- */

/* PyTorch reads what is behind the letters of an unbacked symbol as a number, whatever else the
 * name is. */
static bool is_loadable(const char *name)
{
    size_t letters = exg_symbol_is_real(name) ? sizeof(EXG_REAL_SYMBOL) - 1
                     : name[0] == 'u'         ? 1
                                              : 0;
    size_t digits = strspn(name + letters, "0123456789_");

    return letters == 0 || (name[letters] != '_' && digits > 0 && name[letters + digits] == '\0');
}

static void check_range(symbols *s, uint32_t i)
{
    exg_verifier *v = s->v;
    const exg_range_constraint *range = &v->program->range_constraints[i];
    const exg_model_path *path = EXG_AT_KEY(NULL, "range_constraints", range->symbol);
    exg_expression expression;
    const exg_term *symbol;
    int64_t value;

    v->failed = v->failed || !exg_map_put(&s->ranged, range->symbol, i);
    if (!read_expression(v, range->symbol, &expression, path)) {
        return;
    }
    if (v->tells_all && !is_loadable(range->symbol)) {
        exg_found(v, "SYM-014", path, "PyTorch reads '%s' as an unbacked symbol", range->symbol);
        return;
    }
    if (range->has_min && range->has_max && range->min_val > range->max_val) {
        exg_found(v, "SYM-004", path, "[%" PRId64 ", %" PRId64 "] is empty", range->min_val,
                  range->max_val);
        return;
    }
    symbol = exg_expression_symbol(&expression);
    if (symbol != NULL) {
        char *copy = exg_arena_strndup(v->arena, symbol->text, symbol->length);

        if (copy != NULL && exg_map_find(&s->seen, copy) == EXG_MAP_NONE) {
            exg_found(v, "SYM-003", path, "no size of the graph is '%s'", copy);
        }
    }
    if (exg_expression_evaluate_int(&expression, &v->bindings[0].symbols, &value, NULL) == EXG_OK &&
        ((range->has_min && value < range->min_val) ||
         (range->has_max && value > range->max_val))) {
        exg_found(v, "SYM-002", path, "the hint %" PRId64 " is outside the range", value);
    }
}

/* ---- unbacked symbols --------------------------------------------------------------------- */

static void note_produced(symbols *s, const exg_sym_int *size)
{
    uint32_t index = size->expr == NULL ? EXG_MAP_NONE : exg_expression_find(s->v, size->expr);

    s->noting = &s->produced;
    if (index != EXG_MAP_NONE) {
        exg_expression_visit(&s->v->expressions[index].read, note, s);
    }
}

static bool is_unbacked(const char *name)
{
    return name[0] == 'u' && name[1] >= '0' && name[1] <= '9';
}

static void note_value(symbols *s, const exg_graph *graph, exg_value_id id)
{
    const exg_value *value = id == EXG_NO_VALUE ? NULL : &graph->values[id];

    for (uint32_t d = 0; value != NULL && value->tensor != NULL && d < value->tensor->rank; d++) {
        note_produced(s, &value->tensor->sizes[d]);
        note_produced(s, &value->tensor->strides[d]);
    }
    if (value != NULL && value->tensor != NULL) { /* of a loop's result: nobody knows */
        note_produced(s, &value->tensor->storage_offset);
    }
    if (value != NULL && value->sym_int != NULL) {
        note_produced(s, value->sym_int);
    }
}

static void note_argument(symbols *s, const exg_graph *graph, const exg_argument *arg)
{
    if (arg->kind == EXG_ARGUMENT_TENSOR) {
        note_value(s, graph, arg->as_tensor);
    } else if (arg->kind == EXG_ARGUMENT_SYM_INT) {
        note_value(s, graph, arg->as_sym.value);
    }
    for (uint32_t i = 0; arg->kind == EXG_ARGUMENT_TENSORS && i < arg->count; i++) {
        note_value(s, graph, arg->as_tensors[i]);
    }
}

static bool takes_sizes(const exg_node *node)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        exg_argument_kind kind = node->inputs[i].arg.kind;

        if (kind == EXG_ARGUMENT_SYM_INT || kind == EXG_ARGUMENT_SYM_INTS ||
            kind == EXG_ARGUMENT_GRAPH) {
            return true;
        }
    }
    return false;
}

/* Is its result of the sizes that it is given, as of new_zeros? */
static bool is_given_size(const exg_operator *op)
{
    bool found = false;

    for (uint32_t p = 0; op->view == NULL && p < op->schema->argument_count; p++) {
        const exg_schema_argument *parameter = &op->schema->arguments[p];

        found = found || (strcmp(parameter->name, "size") == 0 && parameter->type.is_list);
    }
    return found;
}

/* May the node's results have sizes that none of its operands has? Not where a shape follows from
 * those of tensors. */
static bool may_make_sizes(const symbols *s, const exg_node *node)
{
    const exg_operator *op = exg_operators_find(s->v->operators, node->target);

    if (op != NULL && op->functional != EXG_OP_NONE) {
        op = exg_operators_get(s->v->operators, op->functional);
    }
    if (op != NULL && is_given_size(op)) {
        return false;
    }
    return op == NULL || op->symbolic != NULL || op->size != EXG_OP_NONE || op->view != NULL ||
           (op->shape == NULL && op->pointwise == EXG_POINTWISE_NOT) || takes_sizes(node);
}

/* What nodes make, those of graphs inside nodes too, and what a graph is given. */
static void note_graph(symbols *s, const exg_graph *graph)
{
    for (uint32_t i = 0; i < graph->input_count; i++) {
        note_argument(s, graph, &graph->inputs[i]);
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const exg_node *node = &graph->nodes[n];

        for (uint32_t o = 0; o < node->output_count && may_make_sizes(s, node); o++) {
            note_argument(s, graph, &node->outputs[o]);
        }
        for (uint32_t i = 0; i < node->input_count; i++) {
            if (node->inputs[i].arg.kind == EXG_ARGUMENT_GRAPH) {
                note_graph(s, node->inputs[i].arg.as_graph->graph);
            }
        }
    }
}

/* An unbacked symbol (u0) is the size or value that some node makes, or a size of an input. */
static void check_unbacked(symbols *s)
{
    bool any = false;

    for (uint32_t i = 0; i < s->seen.capacity; i++) {
        any = any || (s->seen.slots[i].key != NULL && is_unbacked(s->seen.slots[i].key));
    }
    if (any) {
        note_graph(s, s->v->program->graph);
    }
    for (uint32_t i = 0; any && i < s->seen.capacity; i++) {
        const char *name = s->seen.slots[i].key;

        if (name == NULL || !is_unbacked(name)) {
            continue;
        }
        if (exg_map_find(&s->produced, name) == EXG_MAP_NONE) {
            exg_found(s->v, "GRF-006", EXG_AT(NULL, "graph"),
                      "no node makes the size '%s', and no input has it", name);
        } else if (s->v->tells_all && s->v->program->origin != EXG_ORIGIN_EARLY &&
                   exg_map_find(&s->ranged, name) == EXG_MAP_NONE) {
            exg_found(s->v, "SYM-015", EXG_AT(NULL, "range_constraints"), "'%s' has no range",
                      name);
        }
    }
}

void exg_verify_symbols(exg_verifier *v)
{
    symbols s = {.v = v};

    exg_map_init(&s.seen, v->arena);
    exg_map_init(&s.produced, v->arena);
    exg_map_init(&s.ranged, v->arena);
    exg_map_init(&v->expressions_by_text, v->arena);
    use_graph(&s, v->program->graph, EXG_AT(NULL, "graph"));
    check_hints(&s);
    for (uint32_t i = 0; i < v->program->range_constraint_count; i++) {
        check_range(&s, i);
    }
    check_unbacked(&s);
}
