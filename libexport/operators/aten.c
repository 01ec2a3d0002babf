/* aten.c - the table of operators for programs that PyTorch and its converters read. */
#include "libexport/operators/aten.h"

#include "libexport/operators/operator_set.h"

#include <exg/operator_id_new.h>
#include <string.h>

#define EXG_ATEN(id, name) exg_lowering exg_spell_##name;
#include "libexport/operators/aten.def"
#undef EXG_ATEN

static const char *const core[] = {
#define EXG_CORE_ATEN(name) "torch.ops.aten." name,
#include "libexport/operators/core_aten.def"
#undef EXG_CORE_ATEN
};

static const struct {
    exg_operator_id id;
    exg_lowering *spelling;
} spellings[] = {
#define EXG_ATEN(id, name) {EXG_OP_##id, exg_spell_##name},
#include "libexport/operators/aten.def"
#undef EXG_ATEN
};

exg_status exg_operators_create_aten(exg_operators **operators, exg_error *err)
{
    exg_operators *made;

    EXG_TRY(exg_operators_create(operators, err));
    made = *operators;
    made->aten = EXG_NEW_ARRAY(made->arena, exg_aten, EXG_OPERATOR_COUNT);
    if (made->aten == NULL) {
        exg_operators_destroy(made);
        *operators = NULL;
        return EXG_OUT_OF_MEMORY(err);
    }
    for (size_t i = 0; i < sizeof(core) / sizeof(core[0]); i++) {
        const exg_operator *op = exg_operators_find(made, core[i]);

        if (op != NULL) {
            made->aten[op->id].stays = exg_operator_may_stay(op);
        }
    }
    for (size_t i = 0; i < sizeof(spellings) / sizeof(spellings[0]); i++) {
        made->aten[spellings[i].id].spelling = spellings[i].spelling;
    }
    return EXG_OK;
}
