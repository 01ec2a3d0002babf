/* same.c - lowerings of same.def and prims.def: the arguments go on as they are. */
#include "libexport/operators/lower.h"

#include <exg/operator_id_new.h>
#include <string.h>

#define EXG_ROWS "libexport/operators/prims.def"
#include "libexport/operators/rows.h"
#define EXG_ROWS "libexport/operators/same.def"
#include "libexport/operators/rows.h"

static bool is_dropped(exg_operator_id id, const char *argument)
{
    static const struct {
        exg_operator_id id;
        const char *argument;
    } rows[] = {
#define EXG_DROPPED(id, argument, why) {EXG_OP_##id, #argument},
#include "libexport/operators/dropped.def"
#undef EXG_DROPPED
    };
    bool is = false;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        is = is || (rows[i].id == id && strcmp(rows[i].argument, argument) == 0);
    }
    return is;
}

static void forward(exg_builder *b, exg_operator_id id, exg_operator_id as,
                    const exg_argument *args, exg_argument *results)
{
    const exg_function_schema *given = exg_operators_get(exg_builder_operators(b), id)->schema;
    exg_argument kept[EXG_ARGUMENTS_MAX];
    uint32_t count = 0;

    for (uint32_t i = 0; i < given->argument_count; i++) {
        if (!is_dropped(id, given->arguments[i].name)) {
            kept[count++] = args[i];
        }
    }
    (void)exg_emit_all(b, as, kept, count, results);
}

/* A tensor, or each of a list. */
static void copy(exg_builder *b, exg_argument *result)
{
    exg_ref *parts;

    if (result->kind == EXG_ARGUMENT_TENSOR) {
        *result = exg_arg_ref(EMIT(b, clone_default, exg_get_ref(result)));
    } else if (result->kind == EXG_ARGUMENT_TENSORS) {
        parts = exg_lower_new_refs(b, result->count);
        for (uint32_t i = 0; parts != NULL && i < result->count; i++) {
            parts[i] = EMIT(b, clone_default, exg_lower_item(result, i));
        }
        *result = parts == NULL ? exg_arg_none() : exg_arg_refs(b, parts, result->count);
    }
}

#define EXG_SAME(id, schema, as)                                                                   \
    void exg_lower_##id(exg_builder *b, const exg_argument *args, exg_argument *results)           \
    {                                                                                              \
        forward(b, EXG_OP_##id, EXG_OP_##as, args, results);                                       \
    }
#define EXG_COPY(id, as)                                                                           \
    void exg_lower_##id(exg_builder *b, const exg_argument *args, exg_argument *results)           \
    {                                                                                              \
        forward(b, EXG_OP_##id, EXG_OP_##as, args, results);                                       \
        copy(b, &results[0]);                                                                      \
    }
#define EXG_OPERATOR(id, schema, shape, lowering, kernel, sharding)
#define EXG_VIEW(id, schema, view, lowering, sharding)
#include "libexport/operators/prims.def"
#include "libexport/operators/same.def"
#undef EXG_OPERATOR
#undef EXG_VIEW
#undef EXG_SAME
#undef EXG_COPY
