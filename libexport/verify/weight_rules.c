/* weight_rules.c - weights against their storages and the graph (WGT). */
#include "libexport/base/checked.h"
#include "libexport/base/require.h"
#include "libexport/verify/lookup.h"
#include "libexport/verify/verifier.h"

#include <inttypes.h>
#include <string.h>

static bool sane_meta(exg_verifier *v, const exg_weight *weight, const exg_model_path *path)
{
    const exg_tensor_meta *meta = weight->meta;

    if (!exg_tensor_meta_is_static(meta)) {
        exg_found(v, "WGT-002", path, "'%s' has symbolic sizes, strides or offset", weight->fqn);
        return false;
    }
    if (meta->layout != EXG_LAYOUT_STRIDED) {
        exg_found(v, "WGT-009", path, "'%s' has layout %s", weight->fqn,
                  exg_layout_name(meta->layout));
        return false;
    }
    if (meta->requires_grad && exg_dtype_is_integral(meta->dtype)) {
        exg_found(v, "WGT-011", path, "'%s' of %s requires a gradient", weight->fqn,
                  exg_dtype_name(meta->dtype));
        return false;
    }
    for (uint32_t d = 0; d < meta->rank; d++) {
        if (meta->sizes[d].value < 0 || meta->strides[d].value < 0 ||
            meta->storage_offset.value < 0) {
            exg_found(v, "WGT-011", path, "'%s' has a negative size, stride or offset",
                      weight->fqn);
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

static void check_view(exg_verifier *v, const exg_weight *weight, const exg_model_path *path)
{
    const exg_storage *storage = &v->program->weights->storages[weight->storage];
    uint64_t bytes = 0;

    if (storage->length % exg_dtype_bytes(weight->meta->dtype) != 0) {
        exg_found(v, "WGT-003", path, "%" PRIu64 " bytes of %s in the storage of '%s'",
                  storage->length, exg_dtype_name(weight->meta->dtype), weight->fqn);
    }
    if (!view_bytes(weight->meta, &bytes)) {
        exg_found(v, "WGT-005", path, "'%s' reaches past 2^63 bytes", weight->fqn);
    } else if (storage->length == 0 && bytes > 0) {
        exg_found(v, "WGT-012", path, "'%s' has no data", weight->fqn);
    } else if (bytes > storage->length) {
        exg_found(v, "WGT-005", path, "'%s' reaches %" PRIu64 " bytes into a storage of %" PRIu64,
                  weight->fqn, bytes, storage->length);
    }
}

static void check_weight(exg_verifier *v, uint32_t i)
{
    const exg_weights *weights = v->program->weights;
    const exg_weight *weight = &weights->items[i];
    const exg_model_path *path = EXG_AT_KEY(NULL, "weights", weight->fqn);

    if (weight->use_pickle) {
        if (weight->meta == NULL || !v->comes_apart) {
            bool told = weight->meta != NULL && v->whole.message[0] != '\0';

            exg_found(v, "WGT-013", path, "'%s' is a pickle, kept as it is%s%s", weight->fqn,
                      told ? ": " : "", told ? v->whole.message : "");
        }
        return;
    }
    if (weight->meta == NULL) {
        return;
    }
    if (weight->storage >= weights->storage_count) {
        exg_found(v, "WGT-005", path, "'%s' names no storage", weight->fqn);
    } else if (sane_meta(v, weight, path)) {
        check_view(v, weight, path);
    }
}

/* The first dtype by storage, to compare the others with: one pass. */
static void check_shared_dtypes(exg_verifier *v)
{
    const exg_weights *weights = v->program->weights;
    const exg_weight **first = EXG_NEW_ARRAY(v->arena, const exg_weight *, weights->storage_count);

    for (uint32_t i = 0; first != NULL && i < weights->count; i++) {
        const exg_weight *weight = &weights->items[i];
        const exg_weight **holder;

        if (weight->meta == NULL || weight->use_pickle ||
            weight->storage >= weights->storage_count) {
            continue;
        }
        holder = &first[weight->storage];
        if (v->tells_all && weight->meta->storage_offset.value != 0) {
            exg_found(v, "WGT-008", EXG_AT_KEY(NULL, "weights", weight->fqn),
                      "'%s' begins at element %" PRId64 " of its storage", weight->fqn,
                      weight->meta->storage_offset.value);
        } else if (v->tells_all && *holder != NULL) {
            exg_found(v, "WGT-008", EXG_AT_KEY(NULL, "weights", weight->fqn),
                      "'%s' shares the storage of '%s'", weight->fqn, (*holder)->fqn);
        }
        if (*holder == NULL) {
            *holder = weight;
        } else if ((*holder)->meta->dtype != weight->meta->dtype) {
            exg_found(v, "WGT-004", EXG_AT_KEY(NULL, "weights", weight->fqn),
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

    if (spec->target == NULL || spec->kind == EXG_INPUT_USER ||
        input->kind != EXG_ARGUMENT_TENSOR) {
        return;
    }
    weight = exg_verifier_weight(v, EXG_TABLE_STATE, spec->target);
    if (weight == NULL || spec->kind == EXG_INPUT_CONSTANT_TENSOR) {
        weight = exg_verifier_weight(v, EXG_TABLE_CONSTANTS, spec->target);
    }
    meta = p->graph->values[input->as_tensor].tensor;
    if (weight == NULL || weight->meta == NULL || meta == NULL || weight->use_pickle) {
        return;
    }
    fits = meta->dtype == weight->meta->dtype && meta->rank == weight->meta->rank;
    for (uint32_t d = 0; fits && d < meta->rank; d++) {
        fits = meta->sizes[d].expr == NULL && meta->sizes[d].value == weight->meta->sizes[d].value;
    }
    if (!fits) {
        exg_found(v, "WGT-007", EXG_AT_INDEX(EXG_AT(NULL, "graph"), "inputs", i),
                  "'%s' and its graph input differ in dtype or size", spec->target);
    }
}

/* The first weight of a name, as exg_weights_find() gives it. */
static void index_weights(exg_verifier *v)
{
    const exg_weights *weights = v->program->weights;

    exg_map_init(&v->weights[EXG_TABLE_STATE], v->arena);
    exg_map_init(&v->weights[EXG_TABLE_CONSTANTS], v->arena);
    for (uint32_t i = 0; i < weights->count; i++) {
        exg_map *map = &v->weights[weights->items[i].table];

        if (exg_map_find(map, weights->items[i].fqn) == EXG_MAP_NONE &&
            !exg_map_put(map, weights->items[i].fqn, i)) {
            v->failed = true;
            return;
        }
    }
}

void exg_verify_weights(exg_verifier *v)
{
    index_weights(v);
    for (uint32_t i = 0; i < v->program->weights->count; i++) {
        check_weight(v, i);
    }
    check_shared_dtypes(v);
    for (uint32_t i = 0;
         i < v->program->signature.input_count && i < v->program->graph->input_count; i++) {
        check_lifted(v, i);
    }
}

/* ---- bytes ------------------------------------------------------------------------------ */

#define BLOCK_BYTES 65536

static exg_status check_bools(exg_verifier *v, uint32_t storage, const char *fqn, exg_error *err)
{
    exg_weights *weights = v->program->weights;
    uint64_t length = weights->storages[storage].length;
    uint8_t block[BLOCK_BYTES];

    for (uint64_t at = 0; at < length; at += BLOCK_BYTES) {
        uint64_t count = length - at < BLOCK_BYTES ? length - at : BLOCK_BYTES;

        EXG_TRY(exg_storage_read(weights, storage, at, count, block, err));
        for (uint64_t i = 0; i < count; i++) {
            if (block[i] > 1) {
                exg_found(v, "WGT-014", EXG_AT_KEY(NULL, "weights", fqn),
                          "byte %" PRIu64 " of '%s' is %u", at + i, fqn, block[i]);
                return EXG_OK;
            }
        }
    }
    return EXG_OK;
}

/* A name for a storage: that of the first weight on it. */
static const char *name_of(const exg_weights *weights, uint32_t storage)
{
    for (uint32_t i = 0; i < weights->count; i++) {
        if (weights->items[i].storage == storage) {
            return weights->items[i].fqn;
        }
    }
    return NULL;
}

/* Some storage is damaged: all that are, one finding each. None are when an external
 * file is another one (WGT-CHANGED), which is no rule of this file. */
static exg_status list_damage(exg_verifier *v, const exg_error *first, exg_error *err)
{
    exg_weights *weights = v->program->weights;

    for (uint32_t s = 0; s < weights->storage_count; s++) {
        const char *name = name_of(weights, s);
        exg_error fault;
        exg_status status = exg_storage_check(weights, s, &fault);

        if (status == EXG_MALFORMED) {
            exg_found(v, exg_rule_find(fault.code) != NULL ? fault.code : "ARC-012",
                      name == NULL ? EXG_AT_INDEX(NULL, "storages", s)
                                   : EXG_AT_KEY(NULL, "weights", name),
                      "%s", fault.message);
        } else if (status != EXG_OK) {
            if (err != NULL) {
                *err = fault;
            }
            return status;
        }
    }
    if (err != NULL) {
        *err = *first;
    }
    return EXG_MALFORMED;
}

/* What is kept and not compared (S002-69). */
static void tell_unknown(exg_verifier *v, uint32_t index)
{
    const exg_storage *storage = &v->program->weights->storages[index];

    for (uint32_t i = 0; i <= storage->further_count; i++) {
        const exg_checksum *sum = i == 0 ? &storage->checksum : &storage->further[i - 1];
        const char *name =
            sum->kind == EXG_CHECKSUM_UNKNOWN ? name_of(v->program->weights, index) : NULL;

        if (name != NULL) {
            exg_found(v, "WGT-016", EXG_AT_KEY(NULL, "weights", name),
                      "the checksum '%.80s' of '%s' is of no known kind", sum->text, name);
        }
    }
}

exg_status exg_verify_data(const exg_program *program, exg_diagnostics *diagnostics,
                           const exg_check_options *options, exg_error *err)
{
    EXG_REQUIRE(err, program, diagnostics);
    exg_verifier v = {.program = program,
                      .found = diagnostics,
                      .capacity = diagnostics->count,
                      .tells_all = true};
    exg_weights *weights = program->weights;
    bool *bools = EXG_NEW_ARRAY(diagnostics->arena, bool, weights->storage_count);
    exg_error first;
    exg_status status;

    if (bools == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < weights->storage_count; i++) {
        tell_unknown(&v, i);
    }
    status = exg_weights_check(weights, options, &first);
    if (status == EXG_MALFORMED) {
        status = list_damage(&v, &first, err);
    } else if (status != EXG_OK && err != NULL) {
        *err = first;
    }
    for (uint32_t i = 0; status == EXG_OK && i < weights->count; i++) {
        const exg_weight *weight = &weights->items[i];

        if (weight->meta != NULL && !weight->use_pickle && weight->meta->dtype == EXG_DTYPE_B8 &&
            weight->storage < weights->storage_count && !bools[weight->storage]) {
            bools[weight->storage] = true;
            status = check_bools(&v, weight->storage, weight->fqn, err);
        }
    }
    return v.failed ? EXG_OUT_OF_MEMORY(err) : status;
}
