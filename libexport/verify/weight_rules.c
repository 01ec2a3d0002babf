/* weight_rules.c - weights against their storages and the graph (WGT). */
#include "libexport/base/checked.h"
#include "libexport/verify/verifier.h"

#include <inttypes.h>
#include <string.h>

static bool sane_meta(exg_verifier *v, const exg_weight *weight, const char *where)
{
    const exg_tensor_meta *meta = weight->meta;

    if (!exg_tensor_meta_is_static(meta)) {
        exg_found(v, "WGT-002", where, "'%s' has symbolic sizes, strides or offset", weight->fqn);
        return false;
    }
    if (meta->layout != EXG_LAYOUT_STRIDED) {
        exg_found(v, "WGT-009", where, "'%s' has layout %s", weight->fqn,
                  exg_layout_name(meta->layout));
        return false;
    }
    for (uint32_t d = 0; d < meta->rank; d++) {
        if (meta->sizes[d].value < 0 || meta->strides[d].value < 0 ||
            meta->storage_offset.value < 0) {
            exg_found(v, "WGT-011", where, "'%s' has a negative size, stride or offset", weight->fqn);
            return false;
        }
    }
    return true;
}

/* Bytes from the start of the storage to the end of the view. */
static bool view_bytes(const exg_tensor_meta *meta, uint64_t *bytes)
{
    int64_t last = meta->storage_offset.value;

    for (uint32_t d = 0; d < meta->rank; d++) {
        int64_t reach;

        if (meta->sizes[d].value == 0) {
            *bytes = 0;
            return true;
        }
        if (!exg_mul_i64(meta->sizes[d].value - 1, meta->strides[d].value, &reach) ||
            !exg_add_i64(last, reach, &last)) {
            return false;
        }
    }
    return exg_add_i64(last, 1, &last) &&
           exg_mul_u64((uint64_t)last, exg_dtype_bytes(meta->dtype), bytes);
}

static void check_view(exg_verifier *v, const exg_weight *weight, const char *where)
{
    const exg_storage *storage = &v->program->weights->storages[weight->storage];
    uint64_t bytes = 0;

    if (storage->length % exg_dtype_bytes(weight->meta->dtype) != 0) {
        exg_found(v, "WGT-003", where, "%" PRIu64 " bytes of %s in the storage of '%s'",
                  storage->length, exg_dtype_name(weight->meta->dtype), weight->fqn);
    }
    if (!view_bytes(weight->meta, &bytes)) {
        exg_found(v, "WGT-005", where, "'%s' reaches past 2^63 bytes", weight->fqn);
    } else if (storage->length == 0 && bytes > 0) {
        exg_found(v, "WGT-012", where, "'%s' has no data", weight->fqn);
    } else if (bytes > storage->length) {
        exg_found(v, "WGT-005", where, "'%s' reaches %" PRIu64 " bytes into a storage of %" PRIu64,
                  weight->fqn, bytes, storage->length);
    }
}

static void check_weight(exg_verifier *v, uint32_t i)
{
    const exg_weights *weights = v->program->weights;
    const exg_weight *weight = &weights->items[i];
    const char *where = exg_where(v, "weights[\"%.150s\"]", weight->fqn);

    if (weight->use_pickle) {
        exg_found(v, "WGT-013", where, "'%s' is a pickle, kept as it is", weight->fqn);
        return;
    }
    if (weight->meta == NULL) {
        return;
    }
    if (weight->storage >= weights->storage_count) {
        exg_found(v, "WGT-005", where, "'%s' names no storage", weight->fqn);
    } else if (sane_meta(v, weight, where)) {
        check_view(v, weight, where);
    }
}

/* The first dtype by storage, to compare the others with: one pass. */
static void check_shared_dtypes(exg_verifier *v)
{
    const exg_weights *weights = v->program->weights;
    const exg_weight **first =
        EXG_NEW_ARRAY(v->found->arena, const exg_weight *, weights->storage_count);

    for (uint32_t i = 0; first != NULL && i < weights->count; i++) {
        const exg_weight *weight = &weights->items[i];
        const exg_weight **holder;

        if (weight->meta == NULL || weight->use_pickle ||
            weight->storage >= weights->storage_count) {
            continue;
        }
        holder = &first[weight->storage];
        if (*holder == NULL) {
            *holder = weight;
        } else if ((*holder)->meta->dtype != weight->meta->dtype) {
            exg_found(v, "WGT-004", exg_where(v, "weights[\"%.150s\"]", weight->fqn),
                      "'%s' shares a storage with '%s' of another dtype", weight->fqn,
                      (*holder)->fqn);
        }
    }
    v->failed = v->failed || first == NULL;
}

/* A lifted input and its weight: dtype and sizes alike, strides too. */
static void check_lifted(exg_verifier *v, uint32_t i)
{
    const exg_program *p = v->program;
    const exg_input_spec *spec = &p->signature.inputs[i];
    const exg_argument *input = &p->graph->inputs[i];
    const exg_weight *weight;
    const exg_tensor_meta *meta;
    bool fits;

    if (spec->target == NULL || spec->kind == EXG_INPUT_USER || input->kind != EXG_ARGUMENT_TENSOR) {
        return;
    }
    weight = exg_weights_find(p->weights, EXG_TABLE_STATE, spec->target);
    if (weight == NULL || spec->kind == EXG_INPUT_CONSTANT_TENSOR) {
        weight = exg_weights_find(p->weights, EXG_TABLE_CONSTANTS, spec->target);
    }
    meta = p->graph->values[input->as_tensor].tensor;
    if (weight == NULL || weight->meta == NULL || meta == NULL || weight->use_pickle) {
        return;
    }
    fits = meta->dtype == weight->meta->dtype && meta->rank == weight->meta->rank;
    for (uint32_t d = 0; fits && d < meta->rank; d++) {
        fits = meta->sizes[d].expr == NULL &&
               meta->sizes[d].value == weight->meta->sizes[d].value;
    }
    if (!fits) {
        exg_found(v, "WGT-007", exg_where(v, "graph.inputs[%u]", i),
                  "'%s' and its graph input differ in dtype or size", spec->target);
    }
}

void exg_verify_weights(exg_verifier *v)
{
    for (uint32_t i = 0; i < v->program->weights->count; i++) {
        check_weight(v, i);
    }
    check_shared_dtypes(v);
    for (uint32_t i = 0; i < v->program->signature.input_count && i < v->program->graph->input_count;
         i++) {
        check_lifted(v, i);
    }
}
