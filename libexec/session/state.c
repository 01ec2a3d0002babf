/* state.c - what a program writes, set by its name: all of it fits, or nothing is set. */
#include "libexec/session/state.h"
#include "libexport/base/arena.h"
#include "libexport/base/map.h"
#include "libexport/weights/storage.h"

#include <exg/text.h>
#include <inttypes.h>
#include <string.h>

static void put_shape(exg_text *text, const int64_t *sizes, uint32_t rank)
{
    exg_text_putc(text, '[');
    for (uint32_t d = 0; d < rank; d++) {
        exg_text_printf(text, "%s%" PRId64, d > 0 ? ", " : "", sizes[d]);
    }
    exg_text_putc(text, ']');
}

/* A misfit, in words, where the two differ. */
static exg_status compare(const exg_named_tensor *given, const exg_tensor *want,
                          exg_mismatches *mismatches, exg_error *err)
{
    exg_mismatch_kind kind = EXG_MISMATCH_SHAPE;
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status;

    if (given->dtype != want->dtype) {
        kind = EXG_MISMATCH_DTYPE;
        exg_text_printf(&text, "%s, given %s", exg_dtype_name(want->dtype),
                        exg_dtype_name(given->dtype));
    } else if (given->rank != want->rank ||
               (want->rank > 0 &&
                memcmp(given->shape, want->sizes, want->rank * sizeof(int64_t)) != 0)) {
        put_shape(&text, want->sizes, want->rank);
        exg_text_puts(&text, ", given ");
        put_shape(&text, given->shape, given->rank);
    } else if (given->bytes != (uint64_t)exg_tensor_numel(want) * exg_dtype_bytes(want->dtype)) {
        put_shape(&text, want->sizes, want->rank);
        exg_text_printf(&text, ", given %" PRIu64 " bytes", given->bytes);
    } else {
        return EXG_OK;
    }
    status = exg_text_string(&text) == NULL
                 ? EXG_OUT_OF_MEMORY(err)
                 : exg_mismatches_add(mismatches, kind, given->name, text.data, err);
    exg_text_free(&text);
    return status;
}

/* `states` holds by name which state it is, `given` which of the tensors; what fits is in both. */
static exg_status compare_all(exg_weight_store *store, const exg_named_tensor *tensors,
                              uint32_t count, exg_map *states, exg_map *given,
                              exg_mismatches *mismatches, exg_error *err)
{
    exg_tensor tensor;

    for (uint32_t i = 0; i < exg_weight_store_state_count(store); i++) {
        if (!exg_map_put(states, exg_weight_store_state_name(store, i), i)) {
            return EXG_OUT_OF_MEMORY(err);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        const char *name = tensors[i].name;
        uint32_t at = name == NULL ? EXG_MAP_NONE : exg_map_find(states, name);

        if (name == NULL) {
            return EXG_FAIL(err, USAGE, "RUN-013", "state %u of %u has no name", i, count);
        }
        if (at == EXG_MAP_NONE) {
            EXG_TRY(exg_mismatches_add(mismatches, EXG_MISMATCH_UNWRITTEN, name, "", err));
        } else if (exg_map_find(given, name) != EXG_MAP_NONE) {
            EXG_TRY(exg_mismatches_add(mismatches, EXG_MISMATCH_TWICE, name, "", err));
        } else {
            (void)exg_weight_store_state_at(store, at, &tensor);
            EXG_TRY(compare(&tensors[i], &tensor, mismatches, err));
            EXG_TRY(exg_map_put(given, name, i) ? EXG_OK : EXG_OUT_OF_MEMORY(err));
        }
    }
    for (uint32_t i = 0; i < exg_weight_store_state_count(store); i++) {
        const char *name = exg_weight_store_state_name(store, i);

        if (exg_map_find(given, name) == EXG_MAP_NONE) {
            EXG_TRY(exg_mismatches_add(mismatches, EXG_MISMATCH_KEPT, name, "", err));
        }
    }
    return mismatches->fault_count == 0
               ? EXG_OK
               : EXG_FAIL(err, USAGE, "RUN-013", "%u of %u tensors do not fit the program's state",
                          mismatches->fault_count, count);
}

exg_status exg_state_set(exg_weight_store *store, const exg_named_tensor *tensors, uint32_t count,
                         exg_mismatches *mismatches, exg_error *err)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_status status = arena == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
    exg_map states;
    exg_map given;

    if (status == EXG_OK) {
        exg_map_init(&states, arena);
        exg_map_init(&given, arena);
        status = compare_all(store, tensors, count, &states, &given, mismatches, err);
    }
    for (uint32_t i = 0; status == EXG_OK && i < count; i++) {
        status = exg_weight_store_set_state(store, exg_map_find(&states, tensors[i].name),
                                            tensors[i].data, err);
    }
    exg_arena_destroy(arena);
    return status;
}
