/* zero_rank.c - what the files of the model say, of one tensor-parallel rank: buffers, frozen
 * parameters, other names; and what parameters are made of, whoever holds their pieces. */
#include "libexport/formats/pt2/zero_rank.h"

#include "libexport/base/checked.h"
#include "libexport/formats/name_list.h"
#include "libexport/weights/storage.h"

#include <inttypes.h>
#include <string.h>

#define LISTED_BYTES 240 /* of names in a message */

exg_status exg_zero_damaged(exg_zero_rank *r, const char *what)
{
    return EXG_FAIL(r->err, MALFORMED, "ZERO-STATE", "%s", what);
}

/* Names of ranks that saved nothing, as the first file is called. */
exg_status exg_zero_tell_missing(exg_zero_rank *r, const exg_zero_files *files, const char *what,
                                 int64_t world)
{
    static const char mark[] = "pp_rank_";
    exg_name_list list = EXG_NAME_LIST_EMPTY(LISTED_BYTES);
    const char *first = files->items[0].name;
    const char *at = strstr(first, mark);
    exg_status status;

    for (int64_t rank = 0; at != NULL && rank < world && list.count < 1000; rank++) {
        const char *tail = at + strlen(mark);
        bool there = false;
        const char *name;

        tail += strspn(tail, "0123456789");
        name = exg_arena_printf(r->arena, "%.*s%" PRId64 "%s", (int)(at - first + 8), first, rank,
                                tail);
        for (uint32_t i = 0; name != NULL && i < files->count; i++) {
            there = there || strcmp(files->items[i].name, name) == 0;
        }
        if (name != NULL && !there) {
            exg_name_list_add(&list, name);
        }
    }
    status = exg_error_fix(
        r->err,
        EXG_FAIL(r->err, IO, "ZERO-MISSING",
                 "%" PRId64 " ranks saved files of the %s, %u are there%s%s", world, what,
                 files->count, list.count > 0 ? "; missing: " : "",
                 exg_text_string(&list.text) == NULL ? "" : exg_text_string(&list.text)),
        "put the files of every rank into the folder");
    exg_text_free(&list.text);
    return status;
}

/* The sizes of a parameter, and how many elements that makes. */
exg_status exg_zero_read_shape(exg_zero_rank *r, const exg_pickle_value *shape,
                               exg_tensor_meta *meta, uint64_t *elements)
{
    *elements = 1;
    if (shape->kind != EXG_PICKLE_TUPLE) {
        return exg_zero_damaged(r, "a parameter has no shape");
    }
    *meta = (exg_tensor_meta){.dtype = EXG_DTYPE_F32,
                              .layout = EXG_LAYOUT_STRIDED,
                              .requires_grad = true,
                              .rank = shape->as_items.count,
                              .device = {"cpu", -1}};
    meta->sizes = EXG_NEW_ARRAY(r->arena, exg_sym_int, meta->rank);
    if (meta->sizes == NULL) {
        return exg_arena_fault(r->arena, r->err);
    }
    for (uint32_t d = 0; d < meta->rank; d++) {
        const exg_pickle_value *size = shape->as_items.items[d];

        if (size->kind != EXG_PICKLE_INT || size->as_int < 0 ||
            !exg_mul_u64(*elements, (uint64_t)size->as_int, elements) || *elements > INT64_MAX) {
            return exg_zero_damaged(r, "a parameter has no shape");
        }
        meta->sizes[d] = exg_sym_int_of(size->as_int);
    }
    return EXG_OK;
}

/* A run of elements of a flat tensor, at its place in a parameter. */
exg_status exg_zero_add_piece(exg_zero_rank *r, exg_chunk_tensor *tensor, const exg_weight *from,
                              uint64_t first, uint64_t count, uint64_t place)
{
    exg_chunk_part *part = &tensor->parts[tensor->count++];
    exg_tensor_meta *meta = exg_arena_memdup(r->weights->arena, from->meta, 1, sizeof(*from->meta));

    if (meta == NULL || (meta->sizes = EXG_NEW_ARRAY(r->weights->arena, exg_sym_int, 1)) == NULL) {
        return EXG_OUT_OF_MEMORY(r->err);
    }
    meta->sizes[0] = exg_sym_int_of((int64_t)count);
    meta->storage_offset = exg_sym_int_of(from->meta->storage_offset.value +
                                          (int64_t)first * from->meta->strides[0].value);
    part->offsets[0] = (int64_t)place;
    part->sizes[0] = (int64_t)count;
    part->weight = *from;
    part->weight.meta = meta;
    return EXG_OK;
}

/* ---- what every rank has ----------------------------------------------------------------- */

static exg_status add_whole(exg_zero_rank *r, exg_zero_file *file, const char *name,
                            const exg_pickle_value *value)
{
    exg_weight weight = {.fqn = name};

    if (value == NULL || value->kind != EXG_PICKLE_TENSOR) {
        return EXG_FAIL(r->err, MALFORMED, "ZERO-STATE", "['%s'] is no tensor", name);
    }
    EXG_TRY(exg_saved_meta(&file->saved, value->as_tensor, r->arena, &weight.meta, &weight.storage,
                           r->err));
    return exg_weights_add(r->weights, &weight, r->err);
}

static exg_status add_buffers(exg_zero_rank *r, exg_zero_file *file)
{
    const exg_pickle_value *names = exg_pickle_get(file->saved.object, "buffer_names");
    const exg_pickle_value *module = exg_pickle_get(file->saved.object, "module");

    if (names == NULL && r->stage == 0) {
        return EXG_OK;
    }
    if (names == NULL || names->kind != EXG_PICKLE_LIST) {
        return exg_zero_damaged(r, "the names of buffers are missing");
    }
    for (uint32_t i = 0; i < names->as_items.count; i++) {
        const exg_pickle_value *name = names->as_items.items[i];
        const exg_pickle_value *value =
            exg_pickle_is_name(name) ? exg_pickle_get(module, name->as_text.data) : NULL;

        if (value != NULL) { /* else it is not persistent */
            EXG_TRY(add_whole(r, file, name->as_text.data, value));
        }
    }
    return EXG_OK;
}

/* Did every rank save its own file of the model? Only stage 3 cuts what they hold. */
static bool is_cut(const exg_zero_rank *r)
{
    return r->stage == 3 || (r->stage == 0 && strstr(r->models.items[0].name, "pp_rank_") != NULL);
}

/* What a rank has of a frozen parameter: from `place` on, at most `left` elements. */
static exg_status add_fragment(exg_zero_rank *r, exg_zero_file *file, const char *name,
                               uint64_t left, exg_chunk_tensor *tensor, exg_tensor_meta *meta,
                               uint64_t *place)
{
    const exg_pickle_value *value =
        exg_pickle_get(exg_pickle_get(file->saved.object, "frozen_param_fragments"), name);
    exg_weight weight = {0};
    uint64_t there;

    if (value == NULL || value->kind != EXG_PICKLE_TENSOR) {
        return exg_zero_damaged(r, "a fragment of a frozen parameter is missing");
    }
    EXG_TRY(exg_saved_meta(&file->saved, value->as_tensor, r->weights->arena, &weight.meta,
                           &weight.storage, r->err));
    if (weight.meta->rank != 1) {
        return exg_zero_damaged(r, "a fragment of a frozen parameter is not flat");
    }
    meta->dtype = weight.meta->dtype;
    there = (uint64_t)weight.meta->sizes[0].value;
    there = there < left ? there : left;
    EXG_TRY(exg_zero_add_piece(r, tensor, &weight, 0, there, *place));
    *place += there;
    return EXG_OK;
}

/* Where files are missing a universal folder still has its parameters. */
static exg_status miss_fragments(exg_zero_rank *r, const char *name)
{
    return r->stage == 0 ? exg_weights_skip(r->weights, name,
                                            "a frozen parameter: files of the model of other ranks "
                                            "are missing",
                                            r->err)
                         : exg_zero_tell_missing(r, &r->models, "model", r->optimizers.count);
}

/* Frozen parameters: whole in stages 1 and 2, a fragment a rank in stage 3. */
static exg_status add_frozen(exg_zero_rank *r, const exg_pickle_value *key,
                             const exg_pickle_value *shape)
{
    const exg_pickle_value *fragments =
        exg_pickle_get(r->models.items[0].saved.object, "frozen_param_fragments");
    exg_chunk_tensor *tensor;
    exg_tensor_meta meta;
    uint64_t elements = 0;
    uint64_t place = 0;
    const char *name;

    if (!exg_pickle_is_name(key)) {
        return exg_zero_damaged(r, "a frozen parameter has no name");
    }
    name = key->as_text.data;
    if (!is_cut(r)) {
        return add_whole(r, &r->models.items[0], name, exg_pickle_get(fragments, name));
    }
    EXG_TRY(exg_zero_read_shape(r, shape, &meta, &elements));
    meta.requires_grad = false;
    EXG_TRY(exg_chunk_tensor_create(r->weights, 1, r->models.count, &tensor, r->err));
    tensor->sizes[0] = (int64_t)elements;
    tensor->count = 0;
    for (uint32_t i = 0; i < r->models.count && place < elements; i++) {
        EXG_TRY(
            add_fragment(r, &r->models.items[i], name, elements - place, tensor, &meta, &place));
    }
    return place < elements ? miss_fragments(r, name)
                            : exg_chunk_tensor_add(tensor, name, &meta, r->err);
}

/* {"head.weight": "embedding.weight"}: another name of the same. */
exg_status exg_zero_add_shared(exg_zero_rank *r)
{
    const exg_pickle_value *shared =
        exg_pickle_get(r->models.items[0].saved.object, "shared_params");
    uint32_t count = shared == NULL || shared->kind != EXG_PICKLE_DICT ? 0 : shared->as_items.count;

    for (uint32_t i = 0; i + 1 < count; i += 2) {
        const exg_pickle_value *key = shared->as_items.items[i];
        const exg_pickle_value *of = shared->as_items.items[i + 1];
        const exg_weight *found =
            exg_pickle_is_name(key) && exg_pickle_is_name(of)
                ? exg_weights_find(r->weights, EXG_TABLE_STATE, of->as_text.data)
                : NULL;
        exg_weight weight;

        if (found != NULL) {
            weight = *found;
            weight.fqn = key->as_text.data;
            EXG_TRY(exg_weights_add(r->weights, &weight, r->err));
        }
    }
    return EXG_OK;
}

/* What is no parameter that was trained. */
exg_status exg_zero_add_model(exg_zero_rank *r)
{
    exg_zero_file *model = &r->models.items[0];
    const exg_pickle_value *frozen = exg_pickle_get(model->saved.object, "frozen_param_shapes");
    uint32_t count = frozen == NULL || frozen->kind != EXG_PICKLE_DICT ? 0 : frozen->as_items.count;

    EXG_TRY_IN(r->err, add_buffers(r, model), "%s:", model->name);
    for (uint32_t i = 0; i + 1 < count; i += 2) {
        EXG_TRY_IN(r->err, add_frozen(r, frozen->as_items.items[i], frozen->as_items.items[i + 1]),
                   "%s:", model->name);
    }
    return EXG_OK;
}
