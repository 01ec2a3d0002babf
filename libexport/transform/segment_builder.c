/* segment_builder.c - what a segment is made with: arguments with their numbers, outputs. */
#include "libexport/transform/segment_builder.h"

static exg_status number_of(exg_segment_builder *m, exg_value_id id, exg_argument *out)
{
    if (m->numbers[id].kind == EXG_ARGUMENT_NONE) {
        return EXG_FAIL(m->err, UNSUPPORTED, "SYM-020", "the number '%s' is not known",
                        m->flat->graph.values[id].name);
    }
    *out = m->numbers[id];
    return EXG_OK;
}

/* An argument with numbers in the place of their names. An element that kernels read
 * becomes the tensor that holds it. */
exg_status exg_segment_builder_resolve(exg_segment_builder *m, const exg_argument *in,
                                       exg_argument *out)
{
    *out = *in;
    switch (in->kind) {
    case EXG_ARGUMENT_SYM_INT:
    case EXG_ARGUMENT_SYM_FLOAT:
    case EXG_ARGUMENT_SYM_BOOL:
        if (in->as_sym.value != EXG_NO_VALUE && m->flat->scalar_reads[in->as_sym.value]) {
            *out = (exg_argument){.kind = EXG_ARGUMENT_TENSOR, .as_tensor = in->as_sym.value};
            return EXG_OK;
        }
        if (in->as_sym.value != EXG_NO_VALUE) {
            return number_of(m, in->as_sym.value, out);
        }
        *out = in->kind == EXG_ARGUMENT_SYM_INT     ? exg_arg_int(in->as_sym.as_int)
               : in->kind == EXG_ARGUMENT_SYM_FLOAT ? exg_arg_float(in->as_sym.as_float)
                                                    : exg_arg_bool(in->as_sym.as_bool);
        return EXG_OK;
    case EXG_ARGUMENT_SYM_INTS: {
        int64_t *items = EXG_NEW_ARRAY(m->r.out->arena, int64_t, in->count);

        for (uint32_t i = 0; items != NULL && i < in->count; i++) {
            exg_argument number = exg_arg_int(in->as_syms[i].as_int);

            if (in->as_syms[i].value != EXG_NO_VALUE) {
                EXG_TRY(number_of(m, in->as_syms[i].value, &number));
            }
            items[i] = exg_get_int(&number);
        }
        out->kind = EXG_ARGUMENT_INTS;
        out->as_ints = items;
        return items == NULL ? EXG_OUT_OF_MEMORY(m->err) : EXG_OK;
    }
    default:
        return EXG_OK;
    }
}

uint32_t exg_segment_builder_output(exg_segment_builder *m, exg_ref ref)
{
    exg_argument output = exg_arg_ref(ref);

    exg_builder_output(m->r.builder, &output, EXG_OUTPUT_USER, NULL);
    return exg_builder_graph(m->r.builder)->output_count - 1;
}
