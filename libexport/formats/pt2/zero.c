/* zero.c - a folder that DeepSpeed saves with ZeRO: the parameters of a model in pieces, which lie
 * in the optimizer's files of every rank, and beside them what belongs to all.
 *
 * It opens as the whole parameters in float32, as DeepSpeed's own zero_to_fp32 gives them; buffers
 * and frozen parameters keep their dtype. Stages 1 and 2 cut a group of parameters, one after the
 * other, into a run a rank; stage 3 cuts every parameter so. Of several tensor-parallel ranks each
 * has parameters of its own, which zero_tensor.c puts together. In a folder that ds_to_universal
 * made parameters are whole (zero_universal.c), and what else belongs to a model is as it was.
 */
#include "libexport/formats/pt2/zero_rank.h"
#include "libexport/formats/pt2/zero_tensor.h"
#include "libexport/formats/pt2/zero_universal.h"
#include "libexport/formats/weights_file.h"

#include "libexport/base/checked.h"
#include "libexport/base/files.h"
#include "libexport/weights/storage.h"

#include <dirent.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- the folder -------------------------------------------------------------------------- */

/* Numbers in names by their value: rank_2 is before rank_10. */
static int compare_names(const char *a, const char *b)
{
    while (*a != '\0' && *b != '\0') {
        char *after_a;
        char *after_b;

        if (*a >= '0' && *a <= '9' && *b >= '0' && *b <= '9') {
            unsigned long x = strtoul(a, &after_a, 10);
            unsigned long y = strtoul(b, &after_b, 10);

            if (x != y) {
                return x < y ? -1 : 1;
            }
            a = after_a;
            b = after_b;
        } else if (*a != *b) {
            return *a < *b ? -1 : 1;
        } else {
            a++;
            b++;
        }
    }
    return (*a != '\0') - (*b != '\0');
}

static int by_rank(const void *a, const void *b)
{
    return compare_names(((const exg_zero_file *)a)->name, ((const exg_zero_file *)b)->name);
}

static bool add_name(exg_arena *arena, exg_zero_files *files, const char *folder, const char *name)
{
    exg_zero_file file = {.name = exg_arena_strdup(arena, name)};
    const char *path = exg_arena_printf(arena, "%s/%s", folder, name);
    struct stat st;

    if (path != NULL && stat(path, &st) == 0 && st.st_size > 0) {
        file.length = (uint64_t)st.st_size;
    }
    if (file.name == NULL || path == NULL ||
        !exg_arena_reserve(arena, &files->items, files->count, &files->capacity, sizeof(file))) {
        return false;
    }
    files->items[files->count++] = file;
    return true;
}

/* Files of both kinds in a folder; false: there is no such folder, none of the model, or no memory.
 */
static bool find_files(const char *folder, exg_arena *arena, exg_zero_files *models,
                       exg_zero_files *optimizers)
{
    DIR *directory = opendir(folder[0] == '\0' ? "." : folder);
    const struct dirent *entry;
    bool good = directory != NULL;

    while (good && (entry = readdir(directory)) != NULL) {
        if (fnmatch("*_model_states.pt", entry->d_name, FNM_PERIOD) == 0) {
            good = add_name(arena, models, folder, entry->d_name);
        } else if (fnmatch("*_optim_states.pt", entry->d_name, FNM_PERIOD) == 0) {
            good = add_name(arena, optimizers, folder, entry->d_name);
        }
    }
    if (directory != NULL) {
        closedir(directory);
    }
    if (models->count > 0) {
        qsort(models->items, models->count, sizeof(exg_zero_file), by_rank);
    }
    if (optimizers->count > 0) {
        qsort(optimizers->items, optimizers->count, sizeof(exg_zero_file), by_rank);
    }
    return good && models->count > 0;
}

/* The folder with the files, and they; NULL: there is none. */
static char *find_folder(const char *path, exg_arena *arena, exg_zero_files *models,
                         exg_zero_files *optimizers)
{
    const char *latest;

    if (find_files(path, arena, models, optimizers) && optimizers->count > 0) {
        return exg_arena_printf(arena, "%s/", path);
    }
    *models = *optimizers = (exg_zero_files){0};
    latest = exg_zero_tag(path, "latest", arena);
    if (latest == NULL || latest[0] == '\0') {
        return NULL;
    }
    path = exg_arena_printf(arena, "%s/%s", path, latest);
    return path != NULL && find_files(path, arena, models, optimizers) && optimizers->count > 0
               ? exg_arena_printf(arena, "%s/", path)
               : NULL;
}

bool exg_zero_is(const char *folder)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_zero_files models = {0};
    exg_zero_files optimizers = {0};
    uint64_t bytes = 0;
    bool found = arena != NULL && (find_folder(folder, arena, &models, &optimizers) != NULL ||
                                   exg_universal_find(folder, arena, &bytes) != NULL);

    exg_arena_destroy(arena);
    return found;
}

/* ---- files ------------------------------------------------------------------------------- */

static exg_status open_file(exg_zero_rank *r, exg_zero_file *file)
{
    const uint8_t *data;
    uint64_t length;

    EXG_TRY(exg_weights_map_below(r->weights, r->folder, file->name, &data, &length, r->err));
    EXG_TRY(exg_saved_open(data, length, 0, false, r->arena, &r->inflate_left, r->weights,
                           &file->saved, r->err));
    if (file->saved.object == NULL || file->saved.object->kind != EXG_PICKLE_DICT) {
        return exg_zero_damaged(r, "the file holds no dict");
    }
    return exg_pickle_list_names(&file->saved.pickle, file->name, &r->names, r->weights, r->err);
}

/* An integer, or an enum's. */
static bool read_int(const exg_pickle_value *value, int64_t *number)
{
    if (value != NULL && value->kind == EXG_PICKLE_OBJECT && value->as_object->arguments != NULL &&
        value->as_object->arguments->kind == EXG_PICKLE_TUPLE &&
        value->as_object->arguments->as_items.count == 1) {
        value = value->as_object->arguments->as_items.items[0];
    }
    if (value == NULL || value->kind != EXG_PICKLE_INT) {
        return false;
    }
    *number = value->as_int;
    return true;
}

/* How many ranks there were: one number, or the largest of a list. */
static bool read_count(const exg_pickle_value *value, int64_t *count)
{
    int64_t each = 0;

    if (value == NULL || value->kind != EXG_PICKLE_LIST) {
        return read_int(value, count);
    }
    *count = 0;
    for (uint32_t i = 0; i < value->as_items.count; i++) {
        if (!read_int(value->as_items.items[i], &each)) {
            return false;
        }
        *count = each > *count ? each : *count;
    }
    return true;
}

/* The flat tensors of a rank. */
static exg_status read_groups(exg_zero_rank *r, exg_zero_file *file, const exg_pickle_value *groups)
{
    if (groups == NULL || groups->kind != EXG_PICKLE_LIST) {
        return exg_zero_damaged(r, "the optimizer has no parts of parameters in float32");
    }
    file->group_count = groups->as_items.count;
    file->groups = EXG_NEW_ARRAY(r->arena, exg_weight, file->group_count);
    file->lengths = EXG_NEW_ARRAY(r->arena, uint64_t, file->group_count);
    if (file->groups == NULL || file->lengths == NULL) {
        return exg_arena_fault(r->arena, r->err);
    }
    for (uint32_t g = 0; g < file->group_count; g++) {
        const exg_pickle_value *value = groups->as_items.items[g];
        exg_weight *weight = &file->groups[g];

        if (value->kind != EXG_PICKLE_TENSOR || value->as_tensor->sizes->count != 1 ||
            value->as_tensor->dtype != EXG_DTYPE_F32) {
            return exg_zero_damaged(r, "a part of parameters is no flat tensor in float32");
        }
        EXG_TRY(exg_saved_meta(&file->saved, value->as_tensor, r->weights->arena, &weight->meta,
                               &weight->storage, r->err));
        file->lengths[g] = (uint64_t)weight->meta->sizes[0].value;
    }
    return EXG_OK;
}

static exg_status read_optimizer(exg_zero_rank *r, exg_zero_file *file, int64_t *world)
{
    const exg_pickle_value *state;
    int64_t stage = 0;

    EXG_TRY(open_file(r, file));
    state = exg_pickle_get(file->saved.object, "optimizer_state_dict");
    if (!read_int(exg_pickle_get(state, "zero_stage"), &stage) ||
        !read_count(exg_pickle_get(state, "partition_count"), world)) {
        return exg_zero_damaged(r, "the optimizer is none of ZeRO's");
    }
    if (stage < 1 || stage > 3 || (r->stage != 0 && r->stage != stage)) {
        return exg_zero_damaged(
            r, "the stage of ZeRO is none from 1 to 3, or not that of other ranks");
    }
    r->stage = stage;
    return read_groups(
        r, file,
        exg_pickle_get(state, stage == 3 ? "fp32_flat_groups" : "single_partition_of_fp32_groups"));
}

/* Which tensor-parallel rank it is of: "zero_pp_rank_0_mp_rank_01_optim_states.pt". */
static unsigned long tensor_rank(const exg_zero_file *file)
{
    const char *at = strstr(file->name, "mp_rank_");

    return at == NULL ? 0 : strtoul(at + strlen("mp_rank_"), NULL, 10);
}

static exg_status read_optimizers(exg_zero_rank *r)
{
    int64_t world = 0;

    for (uint32_t i = 0; i < r->optimizers.count; i++) {
        exg_zero_file *file = &r->optimizers.items[i];

        EXG_TRY_IN(r->err, read_optimizer(r, file, &world), "%s:", file->name);
        if (file->group_count != r->optimizers.items[0].group_count) {
            return exg_zero_damaged(r, "ranks have other groups of parameters than each other");
        }
    }
    return world == r->optimizers.count
               ? EXG_OK
               : exg_zero_tell_missing(r, &r->optimizers, "optimizer", world);
}

/* ---- parameters -------------------------------------------------------------------------- */

/* Of elements [first, first + count) of a rank's groups from `group` on, one after the other. */
static exg_status add_run(exg_zero_rank *r, exg_chunk_tensor *tensor, const exg_zero_file *file,
                          uint32_t group, uint32_t group_end, uint64_t first, uint64_t count,
                          uint64_t *place)
{
    for (uint32_t g = group; g < group_end && count > 0; g++) {
        uint64_t there = file->lengths[g];
        uint64_t taken;

        if (first >= there) {
            first -= there;
            continue;
        }
        taken = there - first < count ? there - first : count;
        EXG_TRY(exg_zero_add_piece(r, tensor, &file->groups[g], first, taken, *place));
        *place += taken;
        count -= taken;
        first = 0;
    }
    return EXG_OK;
}

/* A parameter of the runs of all ranks. In stage 3 `first` is where each rank's run begins, in the
 * others where the parameter does in the group of all ranks together. */
static exg_status add_parameter(exg_zero_rank *r, const exg_pickle_value *key,
                                const exg_pickle_value *shape, uint32_t group, uint64_t *first)
{
    const exg_zero_files *ranks = &r->optimizers;
    bool is_cut = r->stage == 3;
    uint32_t groups = ranks->items[0].group_count;
    exg_chunk_tensor *tensor;
    exg_tensor_meta meta;
    uint64_t elements = 0;
    uint64_t share;
    uint64_t place = 0;
    uint64_t before = 0; /* elements of the group in ranks before */

    if (!exg_pickle_is_name(key)) {
        return exg_zero_damaged(r, "a parameter has no name");
    }
    EXG_TRY(exg_zero_read_shape(r, shape, &meta, &elements));
    EXG_TRY(exg_chunk_tensor_create(r->weights, 1, ranks->count * (is_cut ? groups : 1), &tensor,
                                    r->err));
    tensor->sizes[0] = (int64_t)elements;
    tensor->count = 0;
    share = (elements + ranks->count - 1) / ranks->count;
    for (uint32_t i = 0; i < ranks->count && place < elements; i++) {
        const exg_zero_file *file = &ranks->items[i];
        uint64_t left = elements - place;

        if (is_cut) {
            EXG_TRY(
                add_run(r, tensor, file, 0, groups, *first, share < left ? share : left, &place));
        } else if (*first + place < before + file->lengths[group]) {
            EXG_TRY(
                add_run(r, tensor, file, group, group + 1, *first + place - before, left, &place));
        }
        before += is_cut ? 0 : file->lengths[group];
    }
    *first += is_cut ? share : elements;
    EXG_TRY_IN(r->err, exg_chunk_tensor_add(tensor, key->as_text.data, &meta, r->err), "['%s']",
               key->as_text.data);
    return EXG_OK;
}

/* Do the parameters take all elements of the ranks? In stages 1 and 2 a group is padded to twice
 * the number of ranks. */
static bool is_used_up(const exg_zero_rank *r, uint32_t group, uint64_t used)
{
    const exg_zero_files *ranks = &r->optimizers;
    uint64_t step = r->stage == 3 ? 1 : 2 * (uint64_t)ranks->count;
    uint64_t there = 0;

    if (r->stage == 3) {
        for (uint32_t g = 0; g < ranks->items[0].group_count; g++) {
            there += ranks->items[0].lengths[g];
        }
    } else {
        for (uint32_t i = 0; i < ranks->count; i++) {
            there += ranks->items[i].lengths[group];
        }
    }
    return (used + step - 1) / step == (there + step - 1) / step;
}

static exg_status add_parameters(exg_zero_rank *r, const exg_pickle_value *shapes)
{
    uint32_t groups = r->optimizers.items[0].group_count;
    uint64_t first = 0;

    if (shapes == NULL || shapes->kind != EXG_PICKLE_LIST ||
        (r->stage < 3 && shapes->as_items.count > groups)) {
        return exg_zero_damaged(r, "the shapes of parameters are missing, or in other groups");
    }
    for (uint32_t g = 0; g < shapes->as_items.count; g++) {
        const exg_pickle_value *group = shapes->as_items.items[g];

        if (group->kind != EXG_PICKLE_DICT) {
            return exg_zero_damaged(r, "the shapes of a group are no dict");
        }
        first = r->stage == 3 ? first : 0;
        for (uint32_t i = 0; i + 1 < group->as_items.count; i += 2) {
            EXG_TRY(add_parameter(r, group->as_items.items[i], group->as_items.items[i + 1], g,
                                  &first));
        }
        if (r->stage < 3 && !is_used_up(r, g, first)) {
            return exg_zero_damaged(r,
                                    "the parts of the ranks hold other parameters than the model");
        }
    }
    return r->stage < 3 || is_used_up(r, 0, first)
               ? EXG_OK
               : exg_zero_damaged(r, "the parts of the ranks hold other parameters than the model");
}

/* ---- a rank --------------------------------------------------------------------------------
 */

static exg_status read_all(exg_zero_rank *r)
{
    exg_zero_file *model = &r->models.items[0];

    for (uint32_t i = 0; i < r->models.count; i++) {
        EXG_TRY_IN(r->err, open_file(r, &r->models.items[i]), "%s:", r->models.items[i].name);
    }
    if (r->optimizers.count == 0) {
        return exg_zero_add_model(r);
    }
    EXG_TRY(read_optimizers(r));
    EXG_TRY(exg_zero_add_model(r));
    EXG_TRY_IN(r->err, add_parameters(r, exg_pickle_get(model->saved.object, "param_shapes")),
               "%s:", model->name);
    EXG_TRY(exg_zero_add_shared(r));
    return exg_weights_skip(
        r->weights, "(optimizer)",
        "the optimizer's state, in pieces, and the model's copy of less precision", r->err);
}

/* What the pickles may take: of all files together, as of one. */
static uint64_t default_budget(const exg_zero_rank *r)
{
    uint64_t length = 0;

    for (uint32_t i = 0; i < r->models.count; i++) {
        length += r->models.items[i].length;
    }
    for (uint32_t i = 0; i < r->optimizers.count; i++) {
        length += r->optimizers.items[i].length;
    }
    return exg_default_budget(length);
}

static exg_status read_rank(exg_zero_rank *r, uint64_t budget)
{
    budget = budget == 0 ? default_budget(r) : budget;
    r->inflate_left = budget;
    r->arena = exg_arena_create(exg_arena_allocator(r->weights->arena), budget);
    if (r->arena == NULL) {
        return EXG_OUT_OF_MEMORY(r->err);
    }
    exg_map_init(&r->names, r->arena);
    return exg_arena_settle(r->arena, read_all(r), r->err);
}

/* ---- tensor-parallel ranks -------------------------------------------------------------------
 */

/* All of them; one that has no number is the first. */
typedef struct folder {
    const char *path;
    exg_zero_files models, optimizers;
    exg_weights *weights;
    exg_arena *arena;
    exg_zero_rank *ranks;
    exg_weights **of; /* of each rank */
    uint32_t count;
    exg_error *err;
} folder;

static bool take_files(const folder *f, const exg_zero_files *all, uint32_t rank,
                       exg_zero_files *taken)
{
    for (uint32_t i = 0; i < all->count; i++) {
        if (tensor_rank(&all->items[i]) == rank) {
            if (!exg_arena_reserve(f->arena, &taken->items, taken->count, &taken->capacity,
                                   sizeof(*taken->items))) {
                return false;
            }
            taken->items[taken->count++] = all->items[i];
        }
    }
    return true;
}

/* One more than the largest number of a file, and of each some files. */
static exg_status count_ranks(folder *f)
{
    for (uint32_t i = 0; i < f->optimizers.count + f->models.count; i++) {
        const exg_zero_file *file = i < f->optimizers.count
                                        ? &f->optimizers.items[i]
                                        : &f->models.items[i - f->optimizers.count];
        unsigned long rank = tensor_rank(file);

        if (rank > f->optimizers.count + f->models.count) { /* then there are gaps */
            return EXG_FAIL(f->err, IO, "ZERO-MISSING",
                            "files of tensor-parallel ranks before %s are missing", file->name);
        }
        f->count = rank >= f->count ? (uint32_t)rank + 1 : f->count;
    }
    f->ranks = EXG_NEW_ARRAY(f->arena, exg_zero_rank, f->count);
    f->of = EXG_NEW_ARRAY(f->arena, exg_weights *, f->count);
    return f->ranks == NULL || f->of == NULL ? EXG_OUT_OF_MEMORY(f->err) : EXG_OK;
}

/* Where there is one, into the weights themselves. */
static exg_status read_tensor_rank(folder *f, uint32_t rank, uint64_t budget)
{
    exg_zero_rank *r = &f->ranks[rank];

    *r = (exg_zero_rank){.folder = f->path, .weights = f->weights, .err = f->err};
    if (!take_files(f, &f->models, rank, &r->models) ||
        !take_files(f, &f->optimizers, rank, &r->optimizers)) {
        return EXG_OUT_OF_MEMORY(f->err);
    }
    if (r->models.count == 0 || (r->optimizers.count == 0 && f->optimizers.count > 0)) {
        return EXG_FAIL(f->err, IO, "ZERO-MISSING",
                        "of tensor-parallel rank %u no files of the %s are there", rank,
                        r->models.count == 0 ? "model" : "optimizer");
    }
    if (f->count > 1) {
        EXG_TRY(exg_weights_create(exg_arena_allocator(f->arena), &f->of[rank], f->err));
        exg_weights_read_files(f->of[rank], exg_weights_reading(f->weights));
        r->weights = f->of[rank];
    }
    return read_rank(r, budget);
}

/* What is known of how parts go together: the model says it, or the optimizer. */
static const exg_pickle_value *find_info(const exg_zero_rank *r)
{
    static const char key[] = "universal_checkpoint_info";
    const exg_pickle_value *info = exg_pickle_get(r->models.items[0].saved.object, key);

    return info != NULL || r->optimizers.count == 0
               ? info
               : exg_pickle_get(
                     exg_pickle_get(r->optimizers.items[0].saved.object, "optimizer_state_dict"),
                     key);
}

static exg_status read_folder(folder *f, uint64_t budget)
{
    const exg_zero_file *model;
    int64_t ranks = 1;

    EXG_TRY(count_ranks(f));
    for (uint32_t t = 0; t < f->count; t++) {
        EXG_TRY(read_tensor_rank(f, t, budget));
    }
    model = &f->ranks[0].models.items[0];
    if (read_int(exg_pickle_get(model->saved.object, "mp_world_size"), &ranks) &&
        ranks > f->count) {
        return EXG_FAIL(f->err, IO, "ZERO-MISSING",
                        "the model had %" PRId64 " tensor-parallel ranks, files are there of %u",
                        ranks, f->count);
    }
    return f->count == 1
               ? EXG_OK
               : exg_zero_join(f->of, f->count, find_info(&f->ranks[0]), f->weights, f->err);
}

/* What ds_to_universal makes: the files of the model are as they were, and need not be there. */
static exg_status read_universal(folder *f, uint64_t budget)
{
    exg_zero_rank *first;

    if (!find_files(f->path, f->arena, &f->models, &f->optimizers)) {
        return exg_universal_read(f->path, NULL, budget, f->weights, f->err);
    }
    f->optimizers.count = 0;
    EXG_TRY(read_folder(f, budget));
    first = &f->ranks[0];
    first->weights = f->weights;
    EXG_TRY(exg_universal_read(f->path, first->models.items[0].saved.object, budget, f->weights,
                               f->err));
    return exg_zero_add_shared(first);
}

exg_status exg_zero_read(const char *path, uint64_t budget, exg_weights *weights, exg_error *err)
{
    folder f = {.weights = weights, .err = err};
    uint64_t bytes = 0;
    exg_status status;

    f.arena = exg_arena_create(exg_arena_allocator(weights->arena), EXG_ARENA_UNBOUNDED);
    if (f.arena == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    f.path = find_folder(path, f.arena, &f.models, &f.optimizers);
    if (f.path != NULL) {
        status = read_folder(&f, budget);
    } else if ((f.path = exg_universal_find(path, f.arena, &bytes)) == NULL) {
        status = EXG_OUT_OF_MEMORY(err);
    } else {
        status = read_universal(&f, budget == 0 ? exg_default_budget(bytes) : budget);
    }
    for (uint32_t t = 0; f.of != NULL && t < f.count; t++) {
        exg_arena_destroy(f.ranks[t].arena);
        exg_weights_release(f.of[t]);
    }
    exg_arena_destroy(f.arena);
    return status;
}
