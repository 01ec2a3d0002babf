/* out.c - lowerings of out.def: the operator itself, whose results are copied. */
#include "libexport/operators/lower.h"

#include <exg/operator_id_new.h>

#include <string.h>

#define EXG_ROWS "libexport/operators/out.def"
#include "libexport/operators/rows.h"

/* PyTorch gives out= other sizes (and warns); other elements it refuses where they are not cast. */
static void refuse(exg_builder *b, exg_operator_id id, bool sizes)
{
    const char *target = exg_operators_get(exg_builder_operators(b), id)->target;
    exg_error err;

    if (sizes) {
        (void)EXG_FAIL(&err, UNSUPPORTED, "OPR-007",
                       "%s: the tensor for out= has other sizes than the result", target);
    } else {
        (void)EXG_FAIL(&err, MALFORMED, "OPR-007",
                       "%s: the tensor for out= has other elements than the result", target);
    }
    exg_builder_fail(b, &err);
}

/* `made` copied into `out`: a tensor, or EXG_NO_REF after a fault. */
static exg_ref write_one(exg_builder *b, exg_operator_id id, bool alike, exg_ref made, exg_ref out)
{
    const exg_dims have = exg_lower_dims(b, out);
    const exg_dims want = exg_lower_dims(b, made);

    if (alike && exg_lower_dtype(b, out) != exg_lower_dtype(b, made)) {
        refuse(b, id, false);
        return EXG_NO_REF;
    }
    if (want.rank != have.rank || memcmp(want.n, have.n, want.rank * sizeof(want.n[0])) != 0) {
        refuse(b, id, true);
        return EXG_NO_REF;
    }
    return EMIT(b, copy__default, out, made);
}

/* A list of results is written into a list of tensors, and nothing is given back. */
static void write_list(exg_builder *b, exg_operator_id id, const exg_argument *made,
                       const exg_argument *out)
{
    if (out->count != made->count) {
        const exg_operator *op = exg_operators_get(exg_builder_operators(b), id);
        exg_error err;

        (void)EXG_FAIL(&err, MALFORMED, "OPR-007", "%s: out= has %u tensors for %u results",
                       op->target, out->count, made->count);
        exg_builder_fail(b, &err);
        return;
    }
    for (uint32_t i = 0; i < made->count && exg_builder_status(b) == EXG_OK; i++) {
        (void)write_one(b, id, false, exg_lower_item(made, i), exg_lower_item(out, i));
    }
}

static void write_out(exg_builder *b, exg_operator_id id, exg_operator_id as, bool alike,
                      const exg_argument *args, exg_argument *results)
{
    const exg_operators *operators = exg_builder_operators(b);
    const exg_function_schema *schema = exg_operators_get(operators, as)->schema;
    const exg_argument *outs = &args[schema->argument_count];
    exg_argument made[EXG_RESULTS_MAX];

    if (exg_emit_all(b, as, args, schema->argument_count, made) != EXG_OK) {
        return;
    }
    if (schema->returns[0].type.is_list) {
        write_list(b, id, &made[0], &outs[0]);
        return;
    }
    for (uint32_t r = 0; r < exg_operators_get(operators, id)->schema->return_count; r++) {
        if (made[r].kind != EXG_ARGUMENT_TENSOR) {
            exg_lower_refuse(b, "it gives no tensor for out=");
            return;
        }
        results[r] =
            exg_arg_ref(write_one(b, id, alike, exg_get_ref(&made[r]), exg_get_ref(&outs[r])));
    }
}

#define WRITES(id, as, alike)                                                                      \
    void exg_lower_##id(exg_builder *b, const exg_argument *args, exg_argument *results)           \
    {                                                                                              \
        write_out(b, EXG_OP_##id, EXG_OP_##as, alike, args, results);                              \
    }
#define EXG_OUT(id, as)       WRITES(id, as, false)
#define EXG_OUT_ALIKE(id, as) WRITES(id, as, true)
#include "libexport/operators/out.def"
#undef EXG_OUT
