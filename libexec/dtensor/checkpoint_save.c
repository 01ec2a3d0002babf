/* checkpoint_save.c - DTensors as files of every rank (exg/checkpoint.h).
 *
 * A rank describes what it writes as weights whose bytes are made when they are read: of one
 * tensor at a time. Where the parts of all ranks lie follows from placements, so the first rank
 * writes .metadata without being told.
 */
#include "libexec/dtensor/box.h"
#include "libexec/dtensor/region.h"
#include "libexec/dtensor/spec.h"
#include "libexport/base/arena.h"
#include "libexport/base/options.h"
#include "libexport/base/require.h"
#include "libexport/weights/storage.h"

#include <exg/checkpoint.h>
#include <exg/weights_edit.h>
#include <stdlib.h>
#include <string.h>

typedef struct saver {
    exg_device_mesh *mesh;
    const exg_checkpoint_tensor *tensors;
    uint32_t count;
    exg_region **regions; /* by tensor: of every rank */
    exg_arena *arena;
    uint8_t *bytes; /* of the part that is written, row by row */
    const struct part *at_hand;
    exg_error *err;
} saver;

/* A box of a tensor that this rank writes. */
typedef struct part {
    saver *of;
    uint32_t tensor;
    int64_t offsets[EXG_RANK_MAX];
    uint64_t length;
} part;

/* ---- bytes ------------------------------------------------------------------------------------
 */

static exg_status fetch(saver *s, const part *p, exg_error *err)
{
    const exg_dtensor *t = s->tensors[p->tensor].dtensor;
    exg_tensor view;
    uint8_t *bytes;

    if (s->at_hand == p) {
        return EXG_OK;
    }
    s->at_hand = NULL;
    bytes = realloc(s->bytes, p->length > 0 ? p->length : 1);
    if (bytes == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    s->bytes = bytes;
    EXG_TRY(exg_dtensor_shard_at(t, p->offsets, &view, err));
    EXG_TRY(exg_dtensor_copy_to_host(t, &view, bytes, err));
    s->at_hand = p;
    return EXG_OK;
}

/* By one thread: files are saved with one. */
static exg_status read_part(void *user, uint64_t offset, uint64_t length, void *out, exg_error *err)
{
    const part *p = user;

    EXG_TRY(fetch(p->of, p, err));
    if (length > 0) {
        memcpy(out, p->of->bytes + offset, length);
    }
    return EXG_OK;
}

/* ---- what a rank writes --------------------------------------------------------------------- */

/* The `number`-th box of the rank's part of `t`; false: it has none. Of a tensor without elements
 * the first rank writes what there is. */
static bool box_of(const saver *s, uint32_t tensor, uint32_t rank, uint32_t number, exg_box *box)
{
    const exg_dtensor *t = s->tensors[tensor].dtensor;
    const exg_region *region = &s->regions[tensor][rank];
    bool empty = false;

    for (uint32_t d = 0; d < t->rank; d++) {
        empty = empty || t->sizes[d] == 0;
    }
    if (empty) {
        *box = (exg_box){{0}, {0}};
        memcpy(box->size, t->sizes, t->rank * sizeof(*t->sizes));
        return rank == 0 && number == 0;
    }
    if (exg_dtensor_first_holder(t, rank) != rank || number >= region->count) {
        return false;
    }
    *box = region->pieces[number].box;
    return true;
}

static exg_status add_part(saver *s, exg_weights *weights, uint32_t tensor, const exg_box *box)
{
    const exg_dtensor *t = s->tensors[tensor].dtensor;
    part *p = EXG_NEW(s->arena, part);
    exg_sym_int sizes[EXG_RANK_MAX];
    exg_sym_int strides[EXG_RANK_MAX];
    exg_tensor_meta meta = {.dtype = t->local.dtype,
                            .layout = EXG_LAYOUT_STRIDED,
                            .requires_grad = exg_dtensor_requires_grad(t),
                            .rank = t->rank,
                            .sizes = sizes,
                            .strides = strides,
                            .device = {"cpu", -1}};
    exg_weight weight = {.fqn = s->tensors[tensor].name, .table = EXG_TABLE_STATE, .meta = &meta};
    exg_storage storage = {.kind = EXG_STORAGE_MADE, .byte_order = exg_host_byte_order()};
    int64_t step = 1;

    if (p == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    for (uint32_t d = t->rank; d-- > 0;) {
        sizes[d] = exg_sym_int_of(box->size[d]);
        strides[d] = exg_sym_int_of(step);
        step *= box->size[d] > 0 ? box->size[d] : 1;
    }
    *p = (part){.of = s, .tensor = tensor};
    memcpy(p->offsets, box->offset, sizeof(p->offsets));
    EXG_TRY(exg_tensor_meta_bytes(&meta, &p->length, s->err));
    storage.length = p->length;
    storage.maker = (exg_storage_maker){read_part, p, NULL};
    EXG_TRY(exg_weights_add_storage(weights, &storage, &weight.storage, s->err));
    return exg_weights_add(weights, &weight, s->err);
}

/* The `number`-th box of every tensor that the rank writes; none: *weights has no tensors. */
static exg_status describe(saver *s, uint32_t rank, uint32_t number, exg_weights *weights)
{
    const int64_t **offsets = EXG_NEW_ARRAY(s->arena, const int64_t *, s->count);
    exg_box *boxes = EXG_NEW_ARRAY(s->arena, exg_box, s->count);

    if (offsets == NULL || boxes == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    for (uint32_t i = 0; i < s->count; i++) {
        if (box_of(s, i, rank, number, &boxes[i])) {
            offsets[weights->count] = boxes[i].offset;
            EXG_TRY(add_part(s, weights, i, &boxes[i]));
        }
    }
    return exg_weights_set_offsets(weights, offsets, s->err);
}

/* How many files a rank may have: as many as the most boxes of a part. */
static uint32_t file_numbers(const saver *s, uint32_t rank)
{
    uint32_t most = 1;

    for (uint32_t i = 0; i < s->count; i++) {
        most = s->regions[i][rank].count > most ? s->regions[i][rank].count : most;
    }
    return most;
}

/* ---- saving -----------------------------------------------------------------------------------
 */

static exg_status write_own(saver *s, const char *path, const exg_weights_save_options *options)
{
    uint32_t rank = exg_device_mesh_rank(s->mesh);

    for (uint32_t number = 0; number < file_numbers(s, rank); number++) {
        exg_rank_file file = {rank, number, NULL};
        exg_status status;

        EXG_TRY(exg_weights_create(NULL, &file.weights, s->err));
        status = describe(s, rank, number, file.weights);
        if (status == EXG_OK && file.weights->count > 0) {
            status = exg_ranks_save_file(&file, path, options, s->err);
        }
        exg_weights_release(file.weights);
        EXG_TRY(status);
    }
    return EXG_OK;
}

/* The files of all ranks, as they are described; *count of them in *files, to be released. */
static exg_status describe_all(saver *s, exg_rank_file **files, uint32_t *count)
{
    uint32_t capacity = 0;

    for (uint32_t r = 0; r < s->mesh->size; r++) {
        for (uint32_t number = 0; number < file_numbers(s, r); number++) {
            exg_rank_file *file;

            if (!exg_arena_reserve(s->arena, files, *count, &capacity, sizeof(**files))) {
                return EXG_OUT_OF_MEMORY(s->err);
            }
            file = &(*files)[*count];
            *file = (exg_rank_file){r, number, NULL};
            EXG_TRY(exg_weights_create(NULL, &file->weights, s->err));
            ++*count;
            EXG_TRY(describe(s, r, number, file->weights));
            if (file->weights->count == 0) {
                exg_weights_release(file->weights);
                --*count;
            }
        }
    }
    return EXG_OK;
}

/* The first rank's last step. */
static exg_status finish(saver *s, exg_ranks_save *save, const char *joined,
                         const exg_weights_save_options *options)
{
    exg_rank_file *files = NULL;
    uint32_t count = 0;
    exg_status status = describe_all(s, &files, &count);

    if (status != EXG_OK) {
        exg_ranks_save_abort(save);
    } else if (joined == NULL) {
        status = exg_ranks_save_end(save, files, count, s->err);
    } else {
        status = exg_ranks_save_join(save, files, count, joined, options, s->err);
    }
    for (uint32_t i = 0; i < count; i++) {
        exg_weights_release(files[i].weights);
    }
    return status;
}

/* `path` is that of .metadata; what all ranks wrote becomes `joined`, if that is no NULL. */
static exg_status save_all(saver *s, const char *path, const char *joined,
                           const exg_weights_save_options *options)
{
    bool is_first = exg_device_mesh_rank(s->mesh) == 0;
    exg_weights_save_options own = *options;
    exg_ranks_save *save = NULL;
    exg_status status = !is_first         ? EXG_OK
                        : options->resume ? exg_ranks_save_resume(path, &save, s->err)
                                          : exg_ranks_save_begin(path, &save, s->err);

    own.threads = 1;
    own.split = 0;
    own.align = 0;
    own.deduplicate = own.force = false;
    own.compression = EXG_COMPRESSION_KEEP;
    own.file = joined == NULL ? options->file : NULL;
    status = exg_mesh_agree(s->mesh, status, s->err);
    if (status == EXG_OK) {
        status = exg_mesh_agree(s->mesh, write_own(s, path, &own), s->err);
    }
    if (status != EXG_OK) {
        exg_ranks_save_abort(save);
        return status;
    }
    return exg_mesh_agree(s->mesh, is_first ? finish(s, save, joined, options) : EXG_OK, s->err);
}

static exg_status check_tensors(saver *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        const exg_checkpoint_tensor *tensor = &s->tensors[i];

        EXG_TRY(exg_checkpoint_check(s->mesh, tensor->name, tensor->dtensor, s->err));
        s->regions[i] = exg_regions_create(s->mesh, tensor->dtensor->placements,
                                           tensor->dtensor->sizes, tensor->dtensor->rank);
        if (s->regions[i] == NULL) {
            return EXG_OUT_OF_MEMORY(s->err);
        }
    }
    return EXG_OK;
}

static exg_status save(saver *s, const char *path, const exg_weights_save_options *options)
{
    bool joins = exg_weights_format_from_path(path) != EXG_WEIGHTS_FORMAT_DCP;
    const char *metadata = joins ? exg_arena_printf(s->arena, "%s.ranks/.metadata", path) : path;
    exg_status status = metadata == NULL ? EXG_OUT_OF_MEMORY(s->err) : EXG_OK;

    s->regions = EXG_NEW_ARRAY(s->arena, exg_region *, s->count);
    status = status != EXG_OK || s->regions == NULL ? EXG_OUT_OF_MEMORY(s->err) : check_tensors(s);
    if (status == EXG_OK && joins &&
        exg_weights_format_from_path(path) == EXG_WEIGHTS_FORMAT_COUNT) {
        status = exg_tensor_file_check_name(path, s->err);
    }
    status = exg_mesh_agree(s->mesh, status, s->err);
    return status == EXG_OK ? save_all(s, metadata, joins ? path : NULL, options) : status;
}

exg_status exg_checkpoint_save(exg_device_mesh *mesh, const exg_checkpoint_tensor *tensors,
                               uint32_t count, const char *path,
                               const exg_weights_save_options *given, exg_error *err)
{
    EXG_REQUIRE(err, mesh, EXG_IF_ANY(count, tensors), path);
    exg_weights_save_options options = {0};
    exg_error own;
    saver s = {.mesh = mesh, .tensors = tensors, .count = count, .err = err == NULL ? &own : err};
    exg_status status;

    EXG_TRY(EXG_READ_OPTIONS(exg_weights_save_options, &options, given, err));
    options.size = sizeof(options);
    if (!exg_device_mesh_is_member(mesh)) {
        return EXG_OK;
    }
    s.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    status = s.arena == NULL ? EXG_OUT_OF_MEMORY(err) : save(&s, path, &options);
    for (uint32_t i = 0; s.regions != NULL && i < count; i++) {
        free(s.regions[i]);
    }
    free(s.bytes);
    exg_arena_destroy(s.arena);
    return status;
}
