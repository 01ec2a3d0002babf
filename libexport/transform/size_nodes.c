/* size_nodes.c - an expression as nodes, each part of it once. */
#include "libexport/transform/size_nodes.h"

#include <exg/operator_id_new.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

static exg_status refuse(const exg_size_nodes *s, const char *what, const char *text)
{
    return EXG_FAIL(s->err, UNSUPPORTED, "TRF-006", "%s: %.200s", what, text);
}

/* ---- the program ---------------------------------------------------------------------------- */

exg_status exg_size_nodes_begin(exg_size_nodes *s, exg_program *program,
                                const exg_operators *operators, exg_error *err)
{
    const exg_graph *graph = program->graph;

    *s = (exg_size_nodes){.program = program, .operators = operators, .err = err};
    s->value_capacity = graph->value_count; /* they move before they grow */
    exg_map_init(&s->names, program->arena);
    exg_map_init(&s->made, program->arena);
    exg_expressions_init(&s->expressions, program->arena);
    for (uint32_t v = 0; v < graph->value_count; v++) {
        if (!exg_map_put(&s->names, graph->values[v].name, v)) {
            return EXG_OUT_OF_MEMORY(err);
        }
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        if (graph->nodes[n].name != NULL && !exg_map_put(&s->names, graph->nodes[n].name, n)) {
            return EXG_OUT_OF_MEMORY(err);
        }
    }
    return EXG_OK;
}

exg_status exg_size_nodes_add(exg_size_nodes *s, const exg_node *node)
{
    if (!exg_arena_reserve(s->program->arena, &s->nodes, s->node_count, &s->node_capacity,
                           sizeof(*s->nodes))) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    s->nodes[s->node_count++] = *node;
    return EXG_OK;
}

exg_status exg_size_nodes_value(exg_size_nodes *s, const exg_value *value, exg_value_id *id)
{
    exg_graph *graph = s->program->graph;

    if (!exg_arena_reserve(s->program->arena, &graph->values, graph->value_count,
                           &s->value_capacity, sizeof(*graph->values)) ||
        !exg_map_put(&s->names, value->name, graph->value_count)) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    *id = graph->value_count++;
    graph->values[*id] = *value;
    return EXG_OK;
}

exg_sym_int exg_size_nodes_size(const exg_size_nodes *s, const char *text)
{
    exg_sym_int size = {.expr = text};
    exg_error unknown;

    size.has_hint =
        s->hints != NULL && exg_symint_evaluate(text, s->hints, &size.value, &unknown) == EXG_OK;
    size.value = size.has_hint ? size.value : 0;
    return size;
}

/* ---- roots ---------------------------------------------------------------------------------- */

/* "Symbol('s77', integer=True)" where the text has it so, else the name. */
static const char *symbol_text(const exg_size_nodes *s, const exg_expression *expression,
                               const exg_term *symbol)
{
    static const char opening[] = "Symbol('";
    const size_t length = sizeof(opening) - 1;
    const char *end = strchr(symbol->text, ')');
    bool is_call = end != NULL && symbol->text >= expression->text + length &&
                   strncmp(symbol->text - length, opening, length) == 0;

    return is_call ? exg_arena_strndup(s->program->arena, symbol->text - length,
                                       (size_t)(end + 1 - symbol->text) + length)
                   : exg_arena_strndup(s->program->arena, symbol->text, symbol->length);
}

/* `expression` is symbol * factor + addend in every sample. */
static bool solve(const exg_size_nodes *s, const exg_expression *expression, const exg_term *symbol,
                  exg_size_root *root)
{
    int64_t numbers[EXG_SAMPLES_MAX], sizes[EXG_SAMPLES_MAX];
    exg_error unread;
    bool fits = s->sample_count > 1;

    for (uint32_t k = 0; fits && k < s->sample_count; k++) {
        const exg_symbol *known = exg_symbols_find(&s->samples[k], symbol->text, symbol->length);

        fits = known != NULL && exg_expression_evaluate_int(expression, &s->samples[k], &sizes[k],
                                                            &unread) == EXG_OK;
        numbers[k] = fits ? known->value : 0;
    }
    if (!fits || numbers[0] == numbers[1]) {
        return false;
    }
    root->factor = (sizes[1] - sizes[0]) / (numbers[1] - numbers[0]);
    root->addend = sizes[0] - root->factor * numbers[0];
    for (uint32_t k = 0; fits && k < s->sample_count; k++) {
        fits = root->factor > 0 && sizes[k] == root->factor * numbers[k] + root->addend;
    }
    return fits;
}

static exg_status read(exg_size_nodes *s, exg_value_id id, uint32_t dim, const char *text)
{
    exg_size_root root = {.id = id, .dim = dim, .factor = 1};
    const exg_expression *expression;
    const exg_term *symbol;

    if (text == NULL) {
        return EXG_OK;
    }
    EXG_TRY(exg_expressions_find(&s->expressions, text, &expression, s->err));
    symbol = expression->symbols;
    if (symbol == NULL || symbol->first != NULL ||
        (exg_expression_symbol(expression) == NULL && !solve(s, expression, symbol, &root))) {
        return EXG_OK;
    }
    root.symbol = exg_arena_strndup(s->program->arena, symbol->text, symbol->length);
    root.text = symbol_text(s, expression, symbol);
    if (root.symbol == NULL || root.text == NULL ||
        !exg_arena_reserve(s->program->arena, &s->roots, s->root_count, &s->root_capacity,
                           sizeof(*s->roots))) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    s->roots[s->root_count++] = root;
    return EXG_OK;
}

exg_status exg_size_nodes_read_tensor(exg_size_nodes *s, exg_value_id id,
                                      const exg_tensor_meta *meta)
{
    for (uint32_t d = 0; d < meta->rank; d++) {
        EXG_TRY(read(s, id, d, meta->sizes[d].expr));
    }
    return read(s, id, EXG_ROOT_OFFSET, meta->storage_offset.expr);
}

exg_status exg_size_nodes_read_number(exg_size_nodes *s, exg_value_id id, const char *text)
{
    return read(s, id, EXG_ROOT_NUMBER, text);
}

/* The first that is the symbol itself, else the first. */
static const exg_size_root *find_root(const exg_size_nodes *s, const exg_term *symbol)
{
    const exg_size_root *found = NULL;

    for (uint32_t i = 0; i < s->root_count; i++) {
        const exg_size_root *root = &s->roots[i];
        bool same = strlen(root->symbol) == symbol->length &&
                    memcmp(root->symbol, symbol->text, symbol->length) == 0;

        if (same && root->factor == 1 && root->addend == 0) {
            return root;
        }
        found = same && found == NULL ? root : found;
    }
    return found;
}

/* ---- nodes ---------------------------------------------------------------------------------- */

/* A number of the program, and what it is. */
typedef struct computed {
    exg_argument number; /* INT, FLOAT, BOOL, or SYM_INT, SYM_FLOAT, SYM_BOOL */
    const char *text;
} computed;

static bool is_real(const computed *c)
{
    return c->number.kind == EXG_ARGUMENT_FLOAT || c->number.kind == EXG_ARGUMENT_SYM_FLOAT;
}

static exg_status add_call(exg_size_nodes *s, const exg_operator *op, const exg_argument *args,
                           uint32_t count, computed *out)
{
    exg_arena *arena = s->program->arena;
    exg_named_argument *inputs = EXG_NEW_ARRAY(arena, exg_named_argument, count);
    exg_argument *output = EXG_NEW(arena, exg_argument);
    const char *wanted =
        exg_arena_strdup(arena, op->id == EXG_OP_sym_size_int ? "sym_size_int" : op->schema->name);
    const char *name = wanted == NULL ? NULL : exg_map_free_name(&s->names, arena, wanted);
    exg_sym_int size = exg_size_nodes_size(s, out->text);
    exg_value value = {.name = name};
    exg_value_id id;

    if (inputs == NULL || output == NULL || name == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    if (out->number.kind == EXG_ARGUMENT_SYM_INT) {
        value.sym_int = exg_arena_memdup(arena, &size, 1, sizeof(size));
    } else if (out->number.kind == EXG_ARGUMENT_SYM_BOOL) {
        value.sym_bool = EXG_NEW(arena, exg_sym_bool);
    } else {
        value.sym_float = EXG_NEW(arena, exg_sym_float);
    }
    if (value.sym_int == NULL && value.sym_bool == NULL && value.sym_float == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    if (value.sym_bool != NULL) {
        *value.sym_bool = (exg_sym_bool){out->text, size.value != 0, size.has_hint};
    } else if (value.sym_float != NULL) {
        exg_error unknown;

        value.sym_float->expr = out->text;
        value.sym_float->has_hint =
            s->hints != NULL &&
            exg_symfloat_evaluate(out->text, s->hints, &value.sym_float->value, &unknown) == EXG_OK;
    }
    for (uint32_t i = 0; i < count; i++) {
        inputs[i] =
            (exg_named_argument){op->schema->arguments[i].name, args[i], EXG_KIND_POSITIONAL};
    }
    EXG_TRY(exg_size_nodes_value(s, &value, &id));
    out->number.as_sym = (exg_sym_argument){.value = id};
    *output = out->number;
    return exg_size_nodes_add(s, &(exg_node){.target = op->target,
                                             .name = name,
                                             .inputs = inputs,
                                             .input_count = count,
                                             .outputs = output,
                                             .output_count = 1,
                                             .is_hop_single_tensor_return = EXG_UNSET});
}

/* One call, unless it is there already. */
static exg_status call(exg_size_nodes *s, const char *target, const exg_argument *args,
                       uint32_t count, computed *out)
{
    const exg_operator *op = exg_operators_find(s->operators, target);
    uint32_t made = exg_map_find(&s->made, out->text);

    if (op == NULL || out->text == NULL) {
        return op == NULL ? refuse(s, "no operator computes this size", out->text)
                          : EXG_OUT_OF_MEMORY(s->err);
    }
    if (made != EXG_MAP_NONE) {
        out->number.as_sym = (exg_sym_argument){.value = made};
        return EXG_OK;
    }
    EXG_TRY(add_call(s, op, args, count, out));
    return exg_map_put(&s->made, out->text, out->number.as_sym.value) ? EXG_OK
                                                                      : EXG_OUT_OF_MEMORY(s->err);
}

/* ---- terms ---------------------------------------------------------------------------------- */

typedef enum result { GIVES_NUMBER, GIVES_REAL, GIVES_INT, GIVES_TRUTH } result;

/* What computes a function; of more than two arguments pair by pair. */
static const struct {
    exg_function_kind kind;
    const char *target;
    result gives;
} calls[] = {
    {EXG_FN_ADD, "_operator.add", GIVES_NUMBER},
    {EXG_FN_MUL, "_operator.mul", GIVES_NUMBER},
    {EXG_FN_POW, "_operator.pow", GIVES_NUMBER},
    {EXG_FN_MIN, "torch.sym_min", GIVES_NUMBER},
    {EXG_FN_MAX, "torch.sym_max", GIVES_NUMBER},
    {EXG_FN_MOD, "_operator.mod", GIVES_NUMBER},
    {EXG_FN_FLOORDIV, "_operator.floordiv", GIVES_NUMBER},
    {EXG_FN_TRUEDIV, "_operator.truediv", GIVES_REAL},
    {EXG_FN_TOFLOAT, "torch.sym_float", GIVES_REAL},
    {EXG_FN_TRUNC, "math.trunc", GIVES_INT},
    {EXG_FN_FLOOR, "math.floor", GIVES_INT},
    {EXG_FN_CEIL, "math.ceil", GIVES_INT},
    {EXG_FN_EQ, "_operator.eq", GIVES_TRUTH},
    {EXG_FN_NE, "_operator.ne", GIVES_TRUTH},
    {EXG_FN_LE, "_operator.le", GIVES_TRUTH},
    {EXG_FN_GE, "_operator.ge", GIVES_TRUTH},
    {EXG_FN_LT, "_operator.lt", GIVES_TRUTH},
    {EXG_FN_GT, "_operator.gt", GIVES_TRUTH},
    {EXG_FN_AND, "_operator.and_", GIVES_TRUTH},
    {EXG_FN_OR, "_operator.or_", GIVES_TRUTH},
    {EXG_FN_NOT, "torch.sym_not", GIVES_TRUTH},
    {EXG_FN_BITAND, "_operator.and_", GIVES_INT},
    {EXG_FN_BITOR, "_operator.or_", GIVES_INT},
    {EXG_FN_LSHIFT, "_operator.lshift", GIVES_INT},
    {EXG_FN_RSHIFT, "_operator.rshift", GIVES_INT},
    {EXG_FN_WHERE, "torch.sym_ite", GIVES_NUMBER},
};

static exg_status put_term(exg_size_nodes *s, const exg_expression *expression,
                           const exg_term *term, computed *out);

/* The size of a tensor, or a number, and back to the symbol. */
static exg_status put_symbol(exg_size_nodes *s, const exg_term *symbol, computed *out)
{
    const exg_size_root *root = find_root(s, symbol);
    exg_argument args[2];
    const char *size;

    if (root == NULL) {
        return EXG_FAIL(s->err, UNSUPPORTED, "TRF-006", "no value tells the size '%.*s'",
                        (int)symbol->length, symbol->text);
    }
    out->number.kind = s->program->graph->values[root->id].sym_float == NULL
                           ? EXG_ARGUMENT_SYM_INT
                           : EXG_ARGUMENT_SYM_FLOAT;
    out->number.as_sym = (exg_sym_argument){.value = root->id};
    out->text = root->text;
    if (exg_map_find(&s->made, root->text) != EXG_MAP_NONE) {
        return call(s, "torch.ops.aten.sym_size.int", NULL, 0, out);
    }
    size = root->factor == 1 && root->addend == 0
               ? root->text
               : exg_arena_printf(s->program->arena,
                                  "Add(Integer(%" PRId64 "), Mul(Integer(%" PRId64 "), %s))",
                                  root->addend, root->factor, root->text);
    if (root->dim == EXG_ROOT_OFFSET) {
        args[0] = (exg_argument){.kind = EXG_ARGUMENT_TENSOR, .as_tensor = root->id};
        out->text = size;
        EXG_TRY(call(s, "torch.ops.aten.sym_storage_offset.default", args, 1, out));
    } else if (root->dim != EXG_ROOT_NUMBER) {
        args[0] = (exg_argument){.kind = EXG_ARGUMENT_TENSOR, .as_tensor = root->id};
        args[1] = exg_arg_int(root->dim);
        out->text = size;
        EXG_TRY(call(s, "torch.ops.aten.sym_size.int", args, 2, out));
    }
    if (root->addend != 0) {
        args[0] = out->number;
        args[1] = exg_arg_int(root->addend);
        out->text = exg_arena_printf(s->program->arena, "Mul(Integer(%" PRId64 "), %s)",
                                     root->factor, root->text);
        out->text = root->factor == 1 ? root->text : out->text;
        EXG_TRY(call(s, "_operator.sub", args, 2, out));
    }
    if (root->factor != 1) {
        args[0] = out->number;
        args[1] = exg_arg_int(root->factor);
        out->text = root->text;
        EXG_TRY(call(s, "_operator.floordiv", args, 2, out));
    }
    return EXG_OK;
}

/* A number that stands in the text. */
static exg_status put_constant(exg_size_nodes *s, const exg_expression *expression,
                               const exg_term *term, computed *out)
{
    exg_expression alone = {.text = expression->text, .root = term};
    exg_number number;

    EXG_TRY(exg_expression_evaluate(&alone, NULL, &number, s->err));
    out->number = term->kind == EXG_TERM_CONSTANT && !number.is_float ? exg_arg_bool(number.i != 0)
                  : number.is_float                                   ? exg_arg_float(number.f)
                                                                      : exg_arg_int(number.i);
    out->text = number.is_float
                    ? exg_arena_printf(s->program->arena, "Float('%.17g', precision=53)", number.f)
                : term->kind == EXG_TERM_CONSTANT
                    ? (number.i != 0 ? "true" : "false")
                    : exg_arena_printf(s->program->arena, "Integer(%" PRId64 ")", number.i);
    return out->text == NULL ? EXG_OUT_OF_MEMORY(s->err) : EXG_OK;
}

/* The value of a call on `operands`; `parts` is how they are written. */
static exg_status put_parts(exg_size_nodes *s, const exg_function *function, uint32_t row,
                            const computed *operands, uint32_t count, const exg_text *parts,
                            computed *out)
{
    exg_argument args[3];
    bool real = calls[row].gives == GIVES_REAL;
    const char *text = exg_text_string(parts);

    for (uint32_t i = 0; i < count; i++) {
        args[i] = operands[i].number;
        real = real || (calls[row].gives == GIVES_NUMBER && is_real(&operands[i]));
    }
    out->text =
        text == NULL ? NULL : exg_arena_printf(s->program->arena, "%s(%s)", function->name, text);
    if (out->text == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    out->number.kind = calls[row].gives == GIVES_TRUTH ? EXG_ARGUMENT_SYM_BOOL
                       : real                          ? EXG_ARGUMENT_SYM_FLOAT
                                                       : EXG_ARGUMENT_SYM_INT;
    return call(s, calls[row].target, args, count, out);
}

/* All operands at once, or, of a function of many, one after the other. */
static exg_status put_operands(exg_size_nodes *s, const exg_expression *expression,
                               const exg_term *term, uint32_t row, exg_text *parts, computed *out)
{
    bool folds = term->function->most == EXG_ARGUMENTS_MANY;
    computed operands[3];
    uint32_t count = 0;
    uint32_t met = 0;

    for (const exg_term *part = term->first; part != NULL; part = part->next) {
        EXG_TRY(put_term(s, expression, part, &operands[count]));
        exg_text_puts(parts, met == 0 ? "" : ", ");
        exg_text_puts(parts, operands[count].text);
        count++;
        met++;
        if (count == 3 || (folds && count == 2) || met == term->count) {
            EXG_TRY(put_parts(s, term->function, row, operands, count, parts, out));
            operands[0] = *out;
            count = 1;
        }
    }
    return EXG_OK;
}

static exg_status put_call(exg_size_nodes *s, const exg_expression *expression,
                           const exg_term *term, computed *out)
{
    const exg_function *function = term->function;
    exg_text parts = EXG_TEXT_EMPTY;
    computed operand;
    uint32_t row = 0;
    exg_status status;

    while (function != NULL && row < sizeof(calls) / sizeof(calls[0]) &&
           calls[row].kind != function->kind) {
        row++;
    }
    if (function != NULL && function->kind == EXG_FN_REAL && function->real == sqrt) {
        EXG_TRY(put_term(s, expression, term->first, &operand));
        out->text = exg_arena_printf(s->program->arena, "%s(%s)", function->name, operand.text);
        out->number.kind = EXG_ARGUMENT_SYM_FLOAT;
        return call(s, "torch._sym_sqrt", &operand.number, 1, out);
    }
    if (function == NULL || row == sizeof(calls) / sizeof(calls[0]) || term->count == 0) {
        return refuse(s, "no operator computes this size", expression->text);
    }
    if (term->count == 1 && function->most == EXG_ARGUMENTS_MANY) {
        return put_term(s, expression, term->first, out);
    }
    status = put_operands(s, expression, term, row, &parts, out);
    exg_text_free(&parts);
    return status;
}

static exg_status put_term(exg_size_nodes *s, const exg_expression *expression,
                           const exg_term *term, computed *out)
{
    bool is_number = term->kind == EXG_TERM_NUMBER || term->kind == EXG_TERM_REAL ||
                     term->kind == EXG_TERM_CONSTANT ||
                     (term->kind == EXG_TERM_NEGATIVE && term->first->kind == EXG_TERM_NUMBER);

    if (is_number) {
        return put_constant(s, expression, term, out);
    }
    if (term->kind == EXG_TERM_SYMBOL) {
        return put_symbol(s, term, out);
    }
    if (term->kind != EXG_TERM_CALL) {
        return refuse(s, "no operator computes this size", expression->text);
    }
    if (term->function != NULL && term->function->kind == EXG_FN_IDENTITY) {
        return put_term(s, expression, term->first, out);
    }
    return put_call(s, expression, term, out);
}

exg_status exg_size_nodes_put(exg_size_nodes *s, const char *text, exg_argument *number)
{
    const exg_expression *expression;
    computed out = {.number = exg_arg_none()};

    EXG_TRY(exg_expressions_find(&s->expressions, text, &expression, s->err));
    EXG_TRY(put_term(s, expression, expression->root, &out));
    *number = out.number;
    return EXG_OK;
}
