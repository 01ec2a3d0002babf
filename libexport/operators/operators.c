/* operators.c - the rows of operators.def as data. */
#include "libexport/base/arena.h"
#include "libexport/base/require.h"
#include "libexport/operators/derived_schema.h"
#include "libexport/operators/operator_set.h"

#include <exg/operator_id_new.h>
#include <exg/operators.h>
#include <exg/text.h>
#include <string.h>

#define EXG_ROWS "libexport/operators/operators.def"
#include "libexport/operators/rows.h"

exg_status exg_shape_NONE(exg_shape_call *call, exg_error *err)
{
    return EXG_FAIL(err, UNSUPPORTED, "OPR-001", "%s has no shape function", call->op->target);
}

void exg_lower_NONE(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    (void)b;
    (void)args;
    (void)results;
}

exg_status exg_view_NONE(const exg_argument *args, const exg_strided *in, exg_strided *out,
                         exg_error *err)
{
    (void)args;
    (void)in;
    (void)out;
    return EXG_FAIL(err, UNSUPPORTED, "OPR-001", "no view function");
}

exg_status exg_symbolic_NONE(const exg_argument *args, uint32_t count, exg_argument *result,
                             exg_error *err)
{
    (void)args;
    (void)count;
    (void)result;
    return EXG_FAIL(err, UNSUPPORTED, "OPR-001", "no evaluator");
}

typedef struct row {
    const char *target; /* NULL: made from the schema */
    const char *schema; /* NULL: what `form` makes of that of `of` */
    exg_schema_form *form;
    exg_operator_id of;
    const char *id; /* where there is a form */
    exg_pointwise_result pointwise;
    exg_shape_function *shape;
    exg_lowering *lowering;
    exg_view_function *view;
    exg_symbolic_function *symbolic;
    exg_operator_id functional;
} row;

/* The formulas are C text for libexec; here only the result rule counts. */
static const row rows[] = {
#define EXG_POINTWISE(id, schema_text, result, float_formula, int_formula, sharding)               \
    [EXG_OP_##id] = {                                                                              \
        .schema = schema_text, .pointwise = EXG_POINTWISE_##result, .functional = EXG_OP_NONE},
#define EXG_OPERATOR(id, schema_text, shape_name, lowering_name, kernel, sharding)                 \
    [EXG_OP_##id] = {.schema = schema_text,                                                        \
                     .shape = exg_shape_##shape_name,                                              \
                     .lowering = exg_lower_##lowering_name,                                        \
                     .functional = EXG_OP_NONE},
#define EXG_VIEW(id, schema_text, view_name, lowering_name, sharding)                              \
    [EXG_OP_##id] = {.schema = schema_text,                                                        \
                     .view = exg_view_##view_name,                                                 \
                     .lowering = exg_lower_##lowering_name,                                        \
                     .functional = EXG_OP_NONE},
#define EXG_SAME(id, schema_text, as) EXG_OPERATOR(id, schema_text, NONE, id, NONE, NONE)
#define EXG_EACH(id, schema_text, as) EXG_OPERATOR(id, schema_text, NONE, id, NONE, NONE)
#define DERIVED(form_name, row_id, of_id, ...)                                                     \
    [EXG_OP_##row_id] = {                                                                          \
        .form = exg_schema_##form_name, .of = EXG_OP_##of_id, .id = #row_id, __VA_ARGS__},
#define LOWERED(id)                         .lowering = exg_lower_##id, .functional = EXG_OP_NONE
#define EXG_COPY(id, as)                    DERIVED(copy, id, as, LOWERED(id))
#define EXG_OUT(id, as)                     DERIVED(out, id, as, LOWERED(id))
#define EXG_OUT_SCHEMA(id, schema_text, as) EXG_OPERATOR(id, schema_text, NONE, id, NONE, NONE)
#define EXG_OUT_ALIKE_SCHEMA(id, schema_text, as)                                                  \
    EXG_OPERATOR(id, schema_text, NONE, id, NONE, NONE)
#define EXG_EACH_INPLACE(id, functional_id, as) DERIVED(inplace, id, functional_id, LOWERED(id))
#define EXG_INPLACE(id, functional_id)                                                             \
    DERIVED(inplace, id, functional_id, .functional = EXG_OP_##functional_id)
#define EXG_INPLACE_SCHEMA(id, schema_text, functional_id)                                         \
    [EXG_OP_##id] = {.schema = schema_text, .functional = EXG_OP_##functional_id},
#define EXG_SYMBOLIC(id, target_text, schema_text, evaluate)                                       \
    [EXG_OP_##id] = {.target = target_text,                                                        \
                     .schema = schema_text,                                                        \
                     .symbolic = exg_symbolic_##evaluate,                                          \
                     .functional = EXG_OP_NONE},
#include "libexport/operators/operators.def"
#undef EXG_POINTWISE
#undef EXG_OPERATOR
#undef EXG_VIEW
#undef EXG_SYMBOLIC
};
_Static_assert(sizeof(rows) / sizeof(rows[0]) == EXG_OPERATOR_COUNT, "one row an operator");
_Static_assert(EXG_OPERATOR_COUNT <= EXG_ADDRESSES / 2, "at most half of the places are taken");

static const struct {
    exg_operator_id of, size, sized;
} sizes[] = {
#define EXG_SIZED(of, size, sized) {EXG_OP_##of, EXG_OP_##size, EXG_OP_##sized},
#include "libexport/operators/sized.def"
#undef EXG_SIZED
};

static const char *target_of(exg_arena *arena, const exg_function_schema *schema)
{
    return exg_arena_printf(arena, "torch.ops.%s.%s.%s", schema->name_space, schema->name,
                            schema->overload[0] == '\0' ? "default" : schema->overload);
}

/* Reads the row's schema; one that follows from another row's is made in `made`. */
static exg_status read_schema(exg_operators *operators, exg_operator_id id, exg_text *made,
                              exg_error *err)
{
    const row *r = &rows[id];
    exg_operator *op = &operators->items[id];
    const char *text = r->schema;
    exg_function_schema *schema;

    if (op->schema != NULL) {
        return EXG_OK;
    }
    if (r->form != NULL) {
        EXG_TRY(read_schema(operators, r->of, made, err));
        made->length = 0;
        EXG_TRY(r->form(made, r->id, operators->items[r->of].schema, err));
        text = exg_text_string(made);
    }
    schema = EXG_NEW(operators->arena, exg_function_schema);
    if (text == NULL || schema == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY(exg_function_schema_parse(operators->arena, text, schema, err));
    if (schema->argument_count > EXG_ARGUMENTS_MAX || schema->return_count > EXG_RESULTS_MAX) {
        return EXG_FAIL(err, LIMIT, "OPR-008",
                        "%s: an operator of more than %d arguments, %d results", text,
                        EXG_ARGUMENTS_MAX, EXG_RESULTS_MAX);
    }
    op->schema = schema;
    return EXG_OK;
}

static exg_status fill(exg_operators *operators, exg_operator_id id, exg_text *made, exg_error *err)
{
    const row *r = &rows[id];
    exg_operator *op = &operators->items[id];
    const exg_function_schema *schema;

    if (r->schema == NULL && r->form == NULL) { /* a number that is not used any more */
        return EXG_OK;
    }
    EXG_TRY(read_schema(operators, id, made, err));
    schema = op->schema;
    op->id = id;
    operators->of_dtypes[id] = (exg_dtype_lowerings){
        .of_complex = exg_complex_lowering_of(id),
        .of_float8 = exg_float8_lowering_of(id),
        .of_other_bias = id == EXG_OP_convolution_default ? exg_lower_other_bias : NULL,
        .of_sparse = id == EXG_OP_mm_default || id == EXG_OP_addmm_default
                         ? exg_lower_sparse_product
                         : NULL};
    op->target = r->target != NULL ? r->target : target_of(operators->arena, schema);
    op->pointwise = r->pointwise;
    op->shape = r->shape == exg_shape_NONE ? NULL : r->shape;
    op->lowering = r->lowering == exg_lower_NONE ? NULL : r->lowering;
    op->view = r->view == exg_view_NONE ? NULL : r->view;
    op->symbolic = r->symbolic;
    op->functional = r->functional;
    op->stream = EXG_NOT_DRAWN;
    for (uint32_t i = 0; i < schema->argument_count; i++) {
        op->stream = strcmp(schema->arguments[i].name, "stream") == 0 ? i : op->stream;
    }
    op->size = EXG_OP_NONE;
    op->sized = EXG_OP_NONE;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        if (sizes[i].of == id) {
            op->size = sizes[i].size;
            op->sized = sizes[i].sized;
        }
    }
    if (op->target == NULL || !exg_map_put(&operators->by_target, op->target, id)) {
        return EXG_OUT_OF_MEMORY(err);
    }
    *exg_operators_by_address(operators, op->target) = op;
    return EXG_OK;
}

exg_status exg_operators_create(exg_operators **operators, exg_error *err)
{
    EXG_REQUIRE(err, operators);
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_operators *table = arena == NULL ? NULL : EXG_NEW(arena, exg_operators);
    exg_text made = EXG_TEXT_EMPTY;
    exg_status status;

    *operators = NULL;
    if (table == NULL) {
        exg_arena_destroy(arena);
        return EXG_OUT_OF_MEMORY(err);
    }
    table->arena = arena;
    table->items = EXG_NEW_ARRAY(arena, exg_operator, EXG_OPERATOR_COUNT);
    table->of_dtypes = EXG_NEW_ARRAY(arena, exg_dtype_lowerings, EXG_OPERATOR_COUNT);
    table->by_address = EXG_NEW_ARRAY(arena, const exg_operator *, EXG_ADDRESSES);
    exg_map_init(&table->by_target, arena);
    status = table->items == NULL || table->of_dtypes == NULL || table->by_address == NULL
                 ? EXG_OUT_OF_MEMORY(err)
                 : EXG_OK;
    for (uint32_t id = 0; status == EXG_OK && id < EXG_OPERATOR_COUNT; id++) {
        status = fill(table, (exg_operator_id)id, &made, err);
    }
    exg_text_free(&made);
    if (status != EXG_OK) {
        exg_arena_destroy(arena);
        return status;
    }
    *operators = table;
    return EXG_OK;
}
