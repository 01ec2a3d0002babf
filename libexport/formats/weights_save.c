/* weights_save.c - weights, or tensors in memory, into a file of the format that its name says.
 *
 * Tensors are read and written block by block, or written from where they lie. One file is renamed
 * into place when it is whole. Of a model in several files the index comes last, and where files of
 * the same names are there already, none is replaced before all of the new ones are whole: then the
 * old index goes first, so that no reader finds a mixture. Files of another form of the model are
 * not left beside it (model_beside.c).
 */
#include "libexport/formats/weights_save.h"

#include "libexport/base/checked.h"
#include "libexport/base/map.h"
#include "libexport/base/options.h"
#include "libexport/base/pipeline.h"
#include "libexport/base/require.h"
#include "libexport/formats/dense_tensor.h"
#include "libexport/formats/pt2/dcp_save.h"
#include "libexport/formats/weights_file.h"
#include "libexport/weights/checksum.h"

#include <errno.h>
#include <exg/text.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES_MAX 99999u

/* What may be written of tensors that repeat elements. */
#define REPEATED_LEAST (UINT64_C(1) << 30)
#define REPEATED_MOST  64 /* times what their storages hold */

/* ---- formats ----------------------------------------------------------------------------- */

static const exg_weights_sink *const sinks[] = {
    &exg_safetensors_sink, &exg_gguf_sink, &exg_npz_sink, &exg_npy_sink, &exg_checkpoint_sink,
};

/* What else files of torch.save() are called. */
static const char *const checkpoint_names[] = {".pth", ".ckpt", ".bin"};

static bool ends_so(const char *path, const char *extension)
{
    size_t length = strlen(path);
    size_t end = strlen(extension);

    return length > end && strcasecmp(path + length - end, extension) == 0;
}

static const exg_weights_sink *sink_of(const char *path)
{
    for (size_t i = 0; i < sizeof(sinks) / sizeof(sinks[0]); i++) {
        if (ends_so(path, sinks[i]->extension)) {
            return sinks[i];
        }
    }
    for (size_t i = 0; i < sizeof(checkpoint_names) / sizeof(checkpoint_names[0]); i++) {
        if (ends_so(path, checkpoint_names[i])) {
            return &exg_checkpoint_sink;
        }
    }
    return NULL;
}

exg_weights_format exg_weights_format_from_path(const char *path)
{
    const exg_weights_sink *sink = sink_of(path);

    return sink != NULL                                         ? sink->format
           : strcmp(exg_path_name(path), EXG_DCP_METADATA) == 0 ? EXG_WEIGHTS_FORMAT_DCP
           : exg_format_from_path(path) == EXG_FORMAT_EXG       ? EXG_WEIGHTS_FORMAT_CONTAINER
                                                                : EXG_WEIGHTS_FORMAT_COUNT;
}

bool exg_weights_format_has_metadata(exg_weights_format format)
{
    for (size_t i = 0; i < sizeof(sinks) / sizeof(sinks[0]); i++) {
        if (sinks[i]->format == format) {
            return sinks[i]->has_metadata;
        }
    }
    return format == EXG_WEIGHTS_FORMAT_CONTAINER;
}

exg_status exg_tensor_file_check_name(const char *path, exg_error *err)
{
    EXG_REQUIRE(err, path);
    return sink_of(path) != NULL
               ? EXG_OK
               : exg_error_fix(err,
                               EXG_FAIL(err, USAGE, "TNS-NAME",
                                        "the name '%s' says no format that tensors are written in",
                                        path),
                               "name the file .safetensors, .npz, .npy for one tensor, .gguf or "
                               ".pt");
}

/* ---- files ------------------------------------------------------------------------------------
 */

/* Those of a model, with what becomes of them. */
typedef struct file_set {
    const exg_weights_sink *sink;
    const char *path; /* that was given */
    exg_saved_file *files;
    uint32_t count;
    const char *index; /* of several files of safetensors, or NULL */
    exg_map names;     /* of all, in the folder */
    bool staged;       /* none is in place before all are whole */
    int lock;          /* the part of the first, of several files; or -1 */
    bool *fresh;       /* it is in place, and was not there before */
    exg_save_journal *journal;
    uint64_t number; /* that the journal has of the first */
} file_set;

/* As many tensors as fit in each; one that is larger has a file of its own. */
static exg_status cut(exg_weights_saver *s, file_set *set)
{
    uint64_t split = set->sink->splits && s->options->split > 0 ? s->options->split : UINT64_MAX;
    uint64_t bytes = 0;

    set->files = EXG_NEW_ARRAY(s->arena, exg_saved_file, (size_t)s->count + 1);
    set->fresh = EXG_NEW_ARRAY(s->arena, bool, (size_t)s->count + 1);
    if (set->files == NULL || set->fresh == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    for (uint32_t i = 0; i < s->count; i++) {
        uint64_t more = s->tensors[i].item.bytes;

        if (set->count == 0 || (bytes > 0 && more > split - bytes)) {
            set->files[set->count++].first = i;
            bytes = 0;
        }
        set->files[set->count - 1].end = i + 1;
        bytes = more > split - bytes ? split : bytes + more;
    }
    set->count += set->count == 0; /* no tensors: one empty file */
    if (set->count > FILES_MAX) {
        return exg_error_fix(
            s->err, EXG_FAIL(s->err, LIMIT, "STF-SPLIT", "%u files are too many", set->count),
            "split by a larger size");
    }
    return EXG_OK;
}

/* A link is written through. */
static exg_status follow(exg_weights_saver *s, const char **path)
{
    char *written;

    EXG_TRY(exg_path_written(*path, &written, s->err));
    *path = exg_arena_strdup(s->arena, written);
    free(written);
    return *path == NULL ? EXG_OUT_OF_MEMORY(s->err) : EXG_OK;
}

/* "model-00001-of-00003.safetensors", as Hugging Face's and llama.cpp's writers have it. */
static exg_status name_files(exg_weights_saver *s, file_set *set)
{
    int folder = (int)(exg_path_name(set->path) - set->path);
    const char *extension = set->path + strlen(set->path) - strlen(set->sink->extension);
    char stem[EXG_STEM_MAX + 1];

    exg_path_stem(set->path, stem);
    exg_map_init(&set->names, s->arena);
    for (uint32_t i = 0; i < set->count; i++) {
        exg_saved_file *file = &set->files[i];

        file->number = i;
        file->count = set->count;
        file->path = set->count == 1
                         ? set->path
                         : exg_arena_printf(s->arena, "%.*s%s-%05u-of-%05u%s", folder, set->path,
                                            stem, i + 1, set->count, extension);
        if (file->path == NULL || !exg_map_put(&set->names, exg_path_name(file->path), i)) {
            return EXG_OUT_OF_MEMORY(s->err);
        }
        EXG_TRY(follow(s, &file->path));
    }
    if (set->count > 1 && set->sink->format == EXG_WEIGHTS_FORMAT_SAFETENSORS) {
        set->index = exg_arena_printf(s->arena, "%s.index.json", set->path);
        if (set->index == NULL || !exg_map_put(&set->names, exg_path_name(set->index), 0)) {
            return EXG_OUT_OF_MEMORY(s->err);
        }
    }
    return EXG_OK;
}

/* In a folder that has a journal, the folder is the part. */
static const char *part_of(exg_weights_saver *s, const exg_saved_file *file)
{
    return s->journal != NULL ? file->path : exg_arena_printf(s->arena, "%s.part", file->path);
}

static exg_status open_file(exg_weights_saver *s, file_set *set, exg_saved_file *file)
{
    uint64_t keep = 0;
    const char *part;

    if (!set->staged) {
        return exg_writer_open(file->path, &file->writer, s->err);
    }
    part = part_of(s, file);
    if (part == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    if (set->journal != NULL) {
        exg_save_journal_begin(set->journal, set->number + file->number, part, &keep);
    }
    EXG_TRY(exg_writer_open_part(file->path, part, keep, &file->writer, s->err));
    exg_writer_replay(file->writer);
    if (set->journal != NULL) {
        exg_writer_observe(file->writer, exg_save_journal_note, set->journal);
    }
    return EXG_OK;
}

static exg_status write_file(exg_weights_saver *s, file_set *set, exg_saved_file *file)
{
    exg_status status;

    EXG_TRY(open_file(s, set, file));
    status = set->sink->write(s, file);
    if (status == EXG_OK && set->journal != NULL) {
        status = exg_save_journal_end(set->journal, s->err);
    }
    if (status != EXG_OK) {
        exg_writer_abort(file->writer);
        if (set->journal == NULL && set->staged) {
            unlink(part_of(s, file));
        }
        return status;
    }
    if (set->staged) {
        return exg_writer_suspend(file->writer, s->err);
    }
    set->fresh[file->number] = access(file->path, F_OK) != 0;
    status = exg_writer_commit(file->writer, s->err);
    set->fresh[file->number] = set->fresh[file->number] && status == EXG_OK;
    return status;
}

static exg_status write_index(exg_weights_saver *s, const file_set *set)
{
    exg_writer *writer = NULL;
    exg_status status;

    EXG_TRY(exg_writer_open(set->index, &writer, s->err));
    status = exg_safetensors_index_write(s, writer, set->files, set->count);
    if (status == EXG_OK) {
        return exg_writer_commit(writer, s->err);
    }
    exg_writer_abort(writer);
    return status;
}

/* All are whole: the old model goes, the new one comes. */
static exg_status put_in_place(exg_weights_saver *s, file_set *set)
{
    if (set->index != NULL && set->staged && unlink(set->index) != 0 && errno != ENOENT) {
        return EXG_FAIL(s->err, IO, "IO-WRITE", "cannot remove %s: %s", set->index,
                        strerror(errno));
    }
    for (uint32_t i = 0; set->staged && i < set->count; i++) {
        const char *part = part_of(s, &set->files[i]);

        if (part == NULL) {
            return EXG_OUT_OF_MEMORY(s->err);
        }
        if (rename(part, set->files[i].path) != 0) {
            return EXG_FAIL(s->err, IO, "IO-WRITE", "cannot rename %s: %s", part, strerror(errno));
        }
    }
    return set->index == NULL ? EXG_OK : write_index(s, set);
}

/* Nothing of a save that failed stays, but what it can go on with. */
static void clean_up(exg_weights_saver *s, const file_set *set)
{
    for (uint32_t i = 0; i < set->count; i++) {
        const char *part = set->staged && set->journal == NULL ? part_of(s, &set->files[i]) : NULL;

        if (set->fresh[i]) {
            unlink(set->files[i].path);
        }
        if (part != NULL) {
            unlink(part);
        }
    }
}

/* ---- what was planned --------------------------------------------------------------------- */

/* Names the save, so that another one does not go on with its files. */
static exg_status name_save(exg_weights_saver *s, const file_set *set,
                            char plan[EXG_SAVE_PLAN_DIGITS])
{
    exg_hasher *hasher = exg_hasher_create(EXG_CHECKSUM_XXH3_128);
    char digits[EXG_CHECKSUM_TEXT_MAX];
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status = hasher == NULL
                            ? EXG_OUT_OF_MEMORY(s->err)
                            : exg_weights_identify_bytes(s->weights, s->pool, hasher, s->err);

    exg_text_printf(&text, "%s %u %" PRIu64 "\n", set->sink->extension, set->count,
                    s->options->align);
    for (uint32_t i = 0; i < s->count; i++) {
        const exg_named_tensor *item = &s->tensors[i].item;
        const exg_weight *weight = s->tensors[i].weight;

        exg_text_json_string(&text, item->name);
        exg_text_printf(&text, " %d %" PRIu64 " %" PRIu32 " %" PRId64, (int)item->dtype,
                        item->bytes, weight->storage, weight->meta->storage_offset.value);
        for (uint32_t d = 0; d < item->rank; d++) {
            exg_text_printf(&text, " %" PRId64 ":%" PRId64, item->shape[d],
                            weight->meta->strides[d].value);
        }
        exg_text_putc(&text, '\n');
    }
    for (uint32_t i = 0; s->metadata != NULL && i < s->metadata->count; i++) {
        exg_text_json_string(&text, s->metadata->items[i].key);
        exg_text_json_string(&text, s->metadata->items[i].value);
    }
    status =
        status == EXG_OK && exg_text_string(&text) == NULL ? EXG_OUT_OF_MEMORY(s->err) : status;
    if (status == EXG_OK) {
        exg_hasher_add(hasher, text.data, text.length);
    }
    if (hasher != NULL) {
        exg_hasher_finish(hasher, digits);
    }
    if (status == EXG_OK) {
        memcpy(plan, digits, EXG_SAVE_PLAN_DIGITS);
    }
    exg_text_free(&text);
    return status;
}

/* ---- saving ------------------------------------------------------------------------------------
 */

static exg_status write_set(exg_weights_saver *s, file_set *set)
{
    exg_status status = EXG_OK;

    for (uint32_t i = 0; i < set->count && status == EXG_OK; i++) {
        status = write_file(s, set, &set->files[i]);
    }
    if (status == EXG_OK) {
        status = put_in_place(s, set);
    }
    if (status != EXG_OK) {
        clean_up(s, set);
    }
    return status;
}

/* Where an earlier try was stopped. */
static exg_status go_on(exg_weights_saver *s, file_set *set)
{
    char plan[EXG_SAVE_PLAN_DIGITS + 1] = {0};
    exg_status status;

    EXG_TRY(name_save(s, set, plan));
    if (s->journal != NULL) {
        set->journal = s->journal;
        plan[16] = '\0';
        set->number = strtoull(plan, NULL, 16);
        return write_set(s, set);
    }
    status = exg_save_journal_open(set->path, plan, s->arena, &set->journal, s->err);
    status = status == EXG_OK ? write_set(s, set) : status;
    exg_save_journal_close(set->journal, status == EXG_OK);
    return status;
}

/* Two saves at once would leave some files of each. The lock goes with the part, when that gets its
 * name or is removed. */
static exg_status lock_set(exg_weights_saver *s, file_set *set)
{
    const char *part = set->count > 1 && s->journal == NULL ? part_of(s, &set->files[0]) : NULL;

    if (part == NULL) {
        return set->count > 1 && s->journal == NULL ? EXG_OUT_OF_MEMORY(s->err) : EXG_OK;
    }
    return exg_file_open_alone(part, &set->lock, s->err);
}

static void unlock_set(exg_weights_saver *s, file_set *set)
{
    const char *part = set->staged || set->lock < 0 ? NULL : part_of(s, &set->files[0]);

    if (part != NULL) {
        unlink(part);
    }
    if (set->lock >= 0) {
        close(set->lock);
    }
}

static exg_status save_files(exg_weights_saver *s, file_set *set)
{
    for (uint32_t i = 0; i < set->count && set->count > 1; i++) {
        set->staged = set->staged || access(set->files[i].path, F_OK) == 0;
    }
    set->staged = set->staged || s->options->resume;
    EXG_TRY(s->options->resume ? go_on(s, set) : write_set(s, set));
    return set->sink->splits && s->options->force
               ? exg_model_remove_beside(set->path, &set->names, s->err)
               : EXG_OK;
}

static exg_status save_model(exg_weights_saver *s, file_set *set)
{
    exg_status status;

    if (set->sink->splits && !s->options->force) {
        EXG_TRY(exg_model_beside(set->path, &set->names, s->err));
    }
    EXG_TRY(lock_set(s, set));
    status = save_files(s, set);
    unlock_set(s, set);
    return status;
}

static exg_status check_names(exg_weights_saver *s)
{
    exg_map names;

    exg_map_init(&names, s->arena);
    for (uint32_t i = 0; i < s->count; i++) {
        const char *name = s->tensors[i].item.name;

        if (name == NULL) {
            return EXG_FAIL(s->err, USAGE, "STF-NAME", "tensor %u of %u has no name", i, s->count);
        }
        if (!exg_text_is_utf8(name, strlen(name))) {
            return EXG_FAIL(s->err, USAGE, "STF-NAME", "the name %s is not UTF-8", name);
        }
        if (exg_map_find(&names, name) != EXG_MAP_NONE) {
            return EXG_FAIL(s->err, USAGE, "STF-NAME", "the name %s is taken", name);
        }
        if (!exg_map_put(&names, name, i)) {
            return EXG_OUT_OF_MEMORY(s->err);
        }
    }
    return EXG_OK;
}

static exg_status check_bytes(exg_weights_saver *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        const exg_named_tensor *item = &s->tensors[i].item;
        uint64_t bytes = 0;

        if (!exg_shape_bytes(item->shape, item->rank, item->dtype, &bytes)) {
            return EXG_FAIL(s->err, UNSUPPORTED, "STF-SIZE", "['%s']: the shape passes 63 bits",
                            item->name);
        }
        if (bytes != item->bytes) {
            return EXG_FAIL(s->err, USAGE, "STF-SIZE",
                            "['%s']: the shape takes %" PRIu64 " bytes, %" PRIu64 " are given",
                            item->name, bytes, item->bytes);
        }
        if (!exg_add_u64(s->total, bytes, &s->total)) {
            return EXG_FAIL(s->err, LIMIT, "STF-SIZE", "the data passes 64 bits");
        }
    }
    return EXG_OK;
}

/* Bytes that an earlier try has on the disk, and that are gone on with or given up. */
static uint64_t kept_bytes(exg_weights_saver *s, const file_set *set)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; s->options->resume && i < set->count; i++) {
        const char *part = part_of(s, &set->files[i]);
        struct stat st;

        if (part != NULL && stat(part, &st) == 0) {
            sum += (uint64_t)st.st_blocks * 512;
        }
    }
    return sum;
}

/* Views may repeat elements: a few bytes then ask for a disk full. */
static exg_status check_room(exg_weights_saver *s, const file_set *set)
{
    uint64_t kept = kept_bytes(s, set);
    uint64_t stored = 0;

    for (uint32_t i = 0; i < s->weights->storage_count; i++) {
        stored = exg_add_u64(stored, s->weights->storages[i].length, &stored) ? stored : UINT64_MAX;
    }
    if (!s->options->expands && s->total > REPEATED_LEAST && s->total / REPEATED_MOST > stored) {
        return exg_error_fix(s->err,
                             EXG_FAIL(s->err, LIMIT, "STF-EXPAND",
                                      "%" PRIu64 " bytes would be written of tensors that repeat "
                                      "what %" PRIu64 " bytes hold",
                                      s->total, stored),
                             "--expand, exg_weights_save_options.expands");
    }
    return exg_file_check_room(set->path, s->total > kept ? s->total - kept : 0, s->err);
}

/* What is the same for weights and for tensors in memory. */
static exg_status plan_set(exg_weights_saver *s, const exg_weights_sink *sink, const char *path,
                           file_set *set)
{
    *set = (file_set){.sink = sink, .path = path, .lock = -1};
    if (sink == NULL) {
        return exg_tensor_file_check_name(path, s->err);
    }
    EXG_TRY(check_names(s));
    EXG_TRY(set->sink->prepare(s));
    EXG_TRY(check_bytes(s));
    EXG_TRY(cut(s, set));
    return name_files(s, set);
}

/* One file in the place of several that are read would take away what the others belong to. */
static exg_status check_source(const exg_weights_saver *s, const file_set *set)
{
    struct stat st;

    return set->count == 1 && stat(set->files[0].path, &st) == 0 &&
                   exg_weights_read_part(s->weights, st.st_dev, st.st_ino)
               ? exg_error_fix(s->err,
                               EXG_FAIL(s->err, USAGE, "IO-SOURCE",
                                        "%s is one of the files that the weights are read from",
                                        set->files[0].path),
                               "give another name")
               : EXG_OK;
}

static exg_status report_files(const exg_weights_saver *s, const file_set *set)
{
    for (uint32_t i = 0; s->options->file != NULL && i < set->count; i++) {
        const exg_saved_file *file = &set->files[i];
        uint64_t bytes = 0;

        for (uint32_t t = file->first; t < file->end; t++) {
            bytes += s->tensors[t].item.bytes;
        }
        EXG_TRY(
            s->options->file(s->options->user, file->path, file->end - file->first, bytes, s->err));
    }
    return EXG_OK;
}

static exg_status collect_weight(exg_weights_saver *s, const exg_weight *weight)
{
    const exg_tensor_meta *meta = weight->meta;
    int64_t *shape = EXG_NEW_ARRAY(s->arena, int64_t, meta->rank);
    exg_saved_tensor *tensor = &s->tensors[s->count++];

    if (shape == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    *tensor = (exg_saved_tensor){
        .item = {.name = weight->fqn, .dtype = meta->dtype, .rank = meta->rank, .shape = shape},
        .weight = weight};
    for (uint32_t d = 0; d < meta->rank; d++) {
        shape[d] = meta->sizes[d].value;
    }
    return exg_tensor_meta_bytes(meta, &tensor->item.bytes, s->err);
}

static exg_status collect(exg_weights_saver *s)
{
    const exg_weights *weights = s->weights;

    s->tensors = EXG_NEW_ARRAY(s->arena, exg_saved_tensor, weights->count);
    s->slots = EXG_NEW_ARRAY(s->arena, uint8_t *, exg_pipeline_slots(s->pool));
    if (s->tensors == NULL || s->slots == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    for (uint32_t i = 0; i < exg_pipeline_slots(s->pool); i++) {
        s->slots[i] = malloc(EXG_SAVE_BLOCK_BYTES);
        if (s->slots[i] == NULL) {
            return EXG_OUT_OF_MEMORY(s->err);
        }
    }
    for (uint32_t i = 0; i < weights->count; i++) {
        if (weights->items[i].meta != NULL && !weights->items[i].use_pickle) {
            EXG_TRY_IN(s->err, collect_weight(s, &weights->items[i]), "['%s']",
                       weights->items[i].fqn);
        }
    }
    return EXG_OK;
}

/* Most formats have no checksums: those of the source are compared while it has them. */
static exg_status check_sources(exg_weights_saver *s)
{
    exg_check_options options = {.size = sizeof(options), .threads = s->options->threads};

    return exg_weights_check(s->weights, &options, s->err);
}

static exg_status save_weights(exg_weights_saver *s, const exg_weights_sink *sink, const char *path)
{
    file_set set;

    EXG_TRY(exg_pool_create(s->options->threads, &s->pool, s->err));
    EXG_TRY(collect(s));
    s->metadata = sink != NULL && sink->has_metadata ? &s->weights->metadata : NULL;
    EXG_TRY(plan_set(s, sink, path, &set));
    EXG_TRY(check_source(s, &set));
    EXG_TRY(check_room(s, &set));
    EXG_TRY(report_files(s, &set));
    if (s->options->dry_run) {
        return s->options->force || !set.sink->splits ? EXG_OK
                                                      : exg_model_beside(path, &set.names, s->err);
    }
    EXG_TRY(check_sources(s));
    return save_model(s, &set);
}

/* ---- .exg -------------------------------------------------------------------------------------
 */

/* It holds storages as they are, and is a sink of its own. */
static exg_status save_container(exg_weights *weights, const char *path, bool in_folder,
                                 const exg_weights_save_options *options, exg_error *err)
{
    exg_save_options own = {.size = sizeof(own),
                            .compression = options->compression,
                            .weights = EXG_WEIGHTS_INTERNAL,
                            .deduplicate = options->deduplicate,
                            .progress = options->progress,
                            .user = options->user,
                            .threads = options->threads,
                            .align = options->align,
                            .resume = options->resume};
    uint64_t bytes = 0;

    if (options->split > 0) {
        return EXG_FAIL(err, USAGE, "STF-SPLIT", "weights in an .exg are not split");
    }
    for (uint32_t i = 0; i < weights->storage_count; i++) {
        bytes = exg_add_u64(bytes, weights->storages[i].length, &bytes) ? bytes : UINT64_MAX;
    }
    if (options->file != NULL) {
        EXG_TRY(options->file(options->user, path, weights->count, bytes, err));
    }
    return options->dry_run ? EXG_OK : exg_container_save(weights, path, in_folder, &own, err);
}

exg_status exg_weights_save_as(exg_weights *weights, const exg_weights_sink *sink, const char *path,
                               exg_save_journal *journal, const exg_weights_save_options *given,
                               exg_error *err)
{
    exg_weights_save_options options = {0};
    exg_weights_saver s = {.weights = weights, .options = &options, .journal = journal, .err = err};
    exg_status status;

    sink = sink != NULL ? sink : sink_of(path);
    EXG_TRY(EXG_READ_OPTIONS(exg_weights_save_options, &options, given, err));
    EXG_TRY(EXG_CHECK_CHOICE(options.compression, EXG_COMPRESSION_ZSTD, "the compression", err));
    if (sink == NULL && exg_format_from_path(path) == EXG_FORMAT_EXG) {
        return save_container(weights, path, journal != NULL, &options, err);
    }
    if (options.compression == EXG_COMPRESSION_ZSTD || options.deduplicate) {
        return exg_error_fix(
            err,
            EXG_FAIL(err, USAGE, "TNS-NAME",
                     "'%s' is no .exg: others neither pack tensors nor store equal "
                     "ones once",
                     path),
            "name the file .exg");
    }
    s.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    status = s.arena == NULL ? EXG_OUT_OF_MEMORY(err) : save_weights(&s, sink, path);
    for (uint32_t i = 0; s.slots != NULL && i < exg_pipeline_slots(s.pool); i++) {
        free(s.slots[i]);
    }
    exg_pool_destroy(s.pool);
    exg_arena_destroy(s.arena);
    return status;
}

/* ---- tensors in memory -------------------------------------------------------------------------
 */

static exg_status save_tensors(exg_weights_saver *s, const exg_named_tensor *items, uint32_t count,
                               const char *path)
{
    file_set set;

    if (s->metadata != NULL && s->metadata->count > 0 &&
        !exg_weights_format_has_metadata(exg_weights_format_from_path(path))) {
        return EXG_FAIL(s->err, UNSUPPORTED, "TNS-METADATA", "a file like %s has no metadata",
                        path);
    }
    s->count = count;
    s->tensors = EXG_NEW_ARRAY(s->arena, exg_saved_tensor, count);
    if (s->tensors == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    for (uint32_t i = 0; i < count; i++) {
        s->tensors[i].item = items[i];
    }
    EXG_TRY(plan_set(s, sink_of(path), path, &set));
    return write_set(s, &set);
}

exg_status exg_tensor_file_save(const char *path, const exg_named_tensor *items, uint32_t count,
                                const exg_string_map *metadata, exg_error *err)
{
    EXG_REQUIRE(err, path, EXG_IF_ANY(count, items));
    const exg_weights_save_options options = {.size = sizeof(options)};
    exg_weights_saver s = {.options = &options, .metadata = metadata, .err = err};
    exg_status status;

    s.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    status = s.arena == NULL ? EXG_OUT_OF_MEMORY(err) : save_tensors(&s, items, count, path);
    exg_arena_destroy(s.arena);
    return status;
}
