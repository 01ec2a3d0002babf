/* same.c - lowerings of same.def: the arguments go on as they are. */
#include "libexport/operators/lower.h"

static void forward(exg_builder *b, exg_operator_id id, exg_operator_id as,
                    const exg_argument *args, exg_argument *results)
{
    const exg_operators *operators = exg_builder_operators(b);
    uint32_t given = exg_operators_get(operators, id)->schema->argument_count;
    uint32_t taken = exg_operators_get(operators, as)->schema->argument_count;

    (void)exg_emit_all(b, as, args, given < taken ? given : taken, results);
}

#define EXG_SAME(id, schema, as)                                                               \
    void exg_lower_##id(exg_builder *b, const exg_argument *args, exg_argument *results)       \
    {                                                                                          \
        forward(b, EXG_OP_##id, EXG_OP_##as, args, results);                                   \
    }
#include "libexport/operators/same.def"
#undef EXG_SAME
