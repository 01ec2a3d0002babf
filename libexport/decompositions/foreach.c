/* foreach.c - lowerings of foreach.def: an operator for each tensor of a list. */
#include "libexport/operators/lower.h"

#include <exg/operator_id_new.h>

#define EXG_ROWS "libexport/operators/foreach.def"
#include "libexport/operators/rows.h"
#define EXG_ROWS "libexport/operators/statistics.def"
#include "libexport/operators/rows.h"

/* How many the lists hold, all of them the same; a fault sticks. */
static uint32_t length(exg_builder *b, const exg_function_schema *schema, const exg_argument *args)
{
    uint32_t count = 0;
    bool found = false;

    for (uint32_t i = 0; i < schema->argument_count; i++) {
        if (!schema->arguments[i].type.is_list) {
            continue;
        }
        if (found && args[i].count != count) {
            exg_lower_refuse(b, "lists of different lengths");
            return 0;
        }
        count = args[i].count;
        found = true;
    }
    return count;
}

static exg_argument item(exg_builder *b, const exg_argument *list, uint32_t k)
{
    switch (list->kind) {
    case EXG_ARGUMENT_TENSORS:
        return exg_arg_ref(exg_lower_item(list, k));
    case EXG_ARGUMENT_INTS:
        return exg_arg_int(list->as_ints[k]);
    case EXG_ARGUMENT_FLOATS:
        return exg_arg_float(list->as_floats[k]);
    case EXG_ARGUMENT_BOOLS:
        return exg_arg_bool(list->as_bools[k]);
    default:
        exg_lower_unsupported(b, "a list of numbers that only a run knows");
        return exg_arg_none();
    }
}

static void each(exg_builder *b, exg_operator_id id, exg_operator_id as, const exg_argument *args,
                 exg_argument *results)
{
    const exg_operators *operators = exg_builder_operators(b);
    const exg_function_schema *schema = exg_operators_get(operators, id)->schema;
    uint32_t taken = exg_operators_get(operators, as)->schema->argument_count;
    uint32_t given = schema->argument_count < taken ? schema->argument_count : taken;
    uint32_t count = length(b, schema, args);
    exg_ref *made = exg_lower_new_refs(b, count);
    exg_argument one[EXG_ARGUMENTS_MAX];

    for (uint32_t k = 0; made != NULL && k < count; k++) {
        for (uint32_t i = 0; i < given; i++) {
            one[i] = schema->arguments[i].type.is_list ? item(b, &args[i], k) : args[i];
        }
        made[k] = exg_emit(b, as, one, given);
    }
    if (made != NULL && schema->return_count > 0) {
        results[0] = exg_arg_refs(b, made, count);
    }
}

#define EXG_EACH(id, schema, as)                                                                   \
    void exg_lower_##id(exg_builder *b, const exg_argument *args, exg_argument *results)           \
    {                                                                                              \
        each(b, EXG_OP_##id, EXG_OP_##as, args, results);                                          \
    }
#include "libexport/operators/foreach.def"
#undef EXG_EACH

/* (self, ord, dtype?): what the norm is a root of */
void exg_lower_foreach_powsum(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref *made = exg_lower_new_refs(b, args[0].count);

    for (uint32_t k = 0; made != NULL && k < args[0].count; k++) {
        exg_ref x = exg_lower_item(&args[0], k), wide;
        exg_dtype dtype = exg_is_none(&args[2]) ? exg_lower_dtype(b, x) : args[2].as_scalar_type;

        wide = exg_lower_wide(b, exg_is_none(&args[2]) ? x : exg_lower_cast(b, x, dtype));
        wide = EMIT(b, pow_Tensor_Scalar, EMIT(b, abs_default, wide), args[1]);
        made[k] = exg_lower_cast(b, EMIT(b, sum_default, wide), dtype);
    }
    if (made != NULL) {
        results[0] = exg_arg_refs(b, made, args[0].count);
    }
}

/* (self, ord, dtype?) */
void exg_lower_foreach_norm(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref *made = exg_lower_new_refs(b, args[0].count);

    for (uint32_t k = 0; made != NULL && k < args[0].count; k++) {
        made[k] = EMIT(b, linalg_vector_norm_default, exg_lower_item(&args[0], k), args[1],
                       exg_arg_none(), exg_arg_bool(false), args[2]);
    }
    if (made != NULL) {
        results[0] = exg_arg_refs(b, made, args[0].count);
    }
}
