/* build_program.c - what a program has beside its graph: weights, and how it is called. */
#include "libexport/base/arena.h"
#include "libexport/program/python.h"
#include "libexport/weights/storage.h"

#include <exg/operators.h>
#include <exg/weights.h>
#include <stdlib.h>
#include <string.h>

static void fail(exg_builder *b, exg_status status, const exg_error *err)
{
    if (status != EXG_OK) {
        exg_builder_fail(b, err);
    }
}

static void out_of_memory(exg_builder *b)
{
    exg_error err;

    fail(b, EXG_OUT_OF_MEMORY(&err), &err);
}

/* ---- metas ------------------------------------------------------------------------------ */

exg_tensor_meta exg_builder_meta(exg_builder *b, exg_dtype dtype, const int64_t *sizes,
                                 uint32_t rank)
{
    exg_arena *arena = exg_builder_arena(b);
    exg_tensor_meta meta = {.dtype = dtype,
                            .layout = EXG_LAYOUT_STRIDED,
                            .rank = rank,
                            .sizes = EXG_NEW_ARRAY(arena, exg_sym_int, rank),
                            .strides = EXG_NEW_ARRAY(arena, exg_sym_int, rank),
                            .device = {"cpu", -1}};
    int64_t stride = 1;

    if (meta.sizes == NULL || meta.strides == NULL) {
        out_of_memory(b);
        meta.rank = 0;
    }
    for (uint32_t d = meta.rank; d-- > 0;) {
        meta.sizes[d] = exg_sym_int_of(sizes[d]);
        meta.strides[d] = exg_sym_int_of(stride);
        if (__builtin_mul_overflow(stride, sizes[d] > 1 ? sizes[d] : 1, &stride)) {
            exg_error err;

            fail(b, EXG_FAIL(&err, LIMIT, "BLD-003", "the sizes pass 64 bits"), &err);
            stride = 1;
        }
    }
    return meta;
}

/* ---- weights ---------------------------------------------------------------------------- */

/* The weight with a storage of its own: a copy of `data` that goes with the weights. */
static exg_status add_weight(exg_weights *weights, const char *fqn, const exg_tensor_meta *meta,
                             bool is_param, const void *data, exg_error *err)
{
    exg_weight weight = {.fqn = fqn, .table = EXG_TABLE_STATE, .is_param = is_param};
    uint64_t bytes;
    void *copy;

    if (exg_weights_find(weights, EXG_TABLE_STATE, fqn) != NULL) {
        return EXG_FAIL(err, USAGE, "BLD-004", "the program has a weight called '%s'", fqn);
    }
    EXG_TRY(exg_tensor_meta_bytes(meta, &bytes, err));
    copy = malloc(bytes == 0 ? 1 : bytes);
    if (copy == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (bytes > 0) {
        memcpy(copy, data, bytes);
    }
    weight.meta = (exg_tensor_meta *)meta;
    EXG_TRY(
        exg_weights_add_bytes(weights, copy, bytes, exg_host_byte_order(), &weight.storage, err));
    return exg_weights_add(weights, &weight, err);
}

exg_ref exg_builder_weight(exg_builder *b, const char *fqn, const exg_tensor_meta *meta,
                           exg_input_kind kind, const void *data)
{
    bool is_param = kind == EXG_INPUT_PARAMETER;
    exg_arena *arena = exg_builder_arena(b);
    exg_tensor_meta input = *meta;
    char *name = exg_arena_printf(arena, "%c_%s", is_param ? 'p' : 'b', fqn);
    const char *target = exg_arena_strdup(arena, fqn);
    exg_error err;

    if (exg_builder_status(b) != EXG_OK) {
        return EXG_NO_REF;
    }
    if (name == NULL || target == NULL) {
        out_of_memory(b);
        return EXG_NO_REF;
    }
    for (char *c = name; *c != '\0'; c++) {
        *c = *c == '.' ? '_' : *c;
    }
    fail(b, add_weight(exg_builder_program(b)->weights, target, meta, is_param, data, &err), &err);
    return exg_builder_input(b, name, &input, kind, target, is_param ? EXG_UNSET : EXG_TRUE);
}

void exg_builder_call(exg_builder *b)
{
    exg_error err;

    if (exg_builder_status(b) == EXG_OK) {
        fail(b, exg_program_make_call(exg_builder_program(b), &err), &err);
    }
}
