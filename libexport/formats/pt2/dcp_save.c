/* dcp_save.c - see dcp_save.h. Form: docs/pt2.md section 2.7.
 *
 * torch.load() reads a chunk from a view on its file, so every chunk is an archive of its own.
 * Chunks begin at multiples of 64, so elements are aligned in the file too.
 */
#include "libexport/formats/pt2/dcp_save.h"

#include "libexport/base/map.h"
#include "libexport/formats/json.h"
#include "libexport/formats/pt2/checkpoint_save.h"
#include "libexport/formats/pt2/pickle_writer.h"
#include "libexport/formats/slices.h"

#include <exg/text.h>
#include <inttypes.h>
#include <string.h>

#define METADATA_MODULE   "torch.distributed.checkpoint.metadata"
#define FILESYSTEM_MODULE "torch.distributed.checkpoint.filesystem"
#define ALIGNMENT         64
#define VERSION           "1.0.0" /* of PyTorch's metadata */

const char *exg_dcp_file_name(const exg_rank_file *file, exg_arena *arena)
{
    return exg_arena_printf(arena, "__%" PRIu32 "_%" PRIu32 ".distcp", file->rank, file->number);
}

static exg_status write_file(exg_weights_saver *s, const exg_saved_file *file)
{
    for (uint32_t i = file->first; i < file->end; i++) {
        uint64_t bytes;

        EXG_TRY(exg_writer_align(file->writer, ALIGNMENT, s->err));
        EXG_TRY(exg_checkpoint_put_alone(s, file, &s->tensors[i], &bytes));
    }
    return EXG_OK;
}

const exg_weights_sink exg_dcp_sink = {
    .format = EXG_WEIGHTS_FORMAT_DCP,
    .extension = ".distcp",
    .prepare = exg_checkpoint_prepare,
    .write = write_file,
};

/* ---- .metadata ------------------------------------------------------------------------------- */

typedef struct chunk {
    struct chunk *next; /* of the same tensor */
    const char *path;
    int64_t *offsets, *sizes;
    uint64_t place, length; /* in the file */
} chunk;

typedef struct tensor {
    const char *fqn;
    const exg_tensor_meta *meta; /* of its first chunk */
    int64_t *sizes;              /* of the whole */
    chunk *first, *last;
    uint32_t count;
} tensor;

typedef struct writer {
    exg_arena *arena;
    exg_map names;
    tensor *tensors;
    uint32_t count, capacity;
    exg_error *err;
} writer;

static exg_status no_memory(writer *w)
{
    return exg_arena_fault(w->arena, w->err);
}

static exg_status tensor_of(writer *w, const exg_weight *weight, tensor **found)
{
    uint32_t at = exg_map_find(&w->names, weight->fqn);

    if (at == EXG_MAP_NONE) {
        tensor new = {
            weight->fqn, weight->meta, EXG_NEW_ARRAY(w->arena, int64_t, weight->meta->rank),
            NULL,        NULL,         0};

        at = w->count;
        if (new.sizes == NULL ||
            !exg_arena_reserve(w->arena, &w->tensors, at, &w->capacity, sizeof(new)) ||
            !exg_map_put(&w->names, weight->fqn, at)) {
            return no_memory(w);
        }
        w->tensors[w->count++] = new;
    }
    *found = &w->tensors[at];
    return (*found)->meta->rank == weight->meta->rank &&
                   (*found)->meta->dtype == weight->meta->dtype
               ? EXG_OK
               : exg_error_fix(w->err,
                               EXG_FAIL(w->err, USAGE, "DCP-CHUNK",
                                        "chunks have different dtypes, or numbers of dimensions"),
                               "give chunks of one tensor");
}

/* Where the chunk begins: at 0, if nothing says where. */
static exg_status read_begin(writer *w, const exg_weight *weight, const exg_json *begins,
                             int64_t *offsets)
{
    exg_json where;

    return begins != NULL && exg_json_find(*begins, weight->fqn, &where)
               ? exg_slices_begin(where, weight->meta->rank, offsets, w->err)
               : EXG_OK;
}

/* The chunk that lies at *place of the file, which is moved on behind it. */
static exg_status add_chunk(writer *w, const exg_weight *weight, const char *path,
                            const exg_json *begins, uint64_t *place)
{
    const exg_tensor_meta *meta = weight->meta;
    exg_weights_saver of_one = {.arena = w->arena, .err = w->err};
    exg_saved_tensor saved = {.item = {weight->fqn, meta->dtype, meta->rank, NULL, NULL, 0}};
    chunk *made = EXG_NEW(w->arena, chunk);
    int64_t *numbers = EXG_NEW_ARRAY(w->arena, int64_t, 2 * (size_t)meta->rank);
    tensor *t = NULL;

    if (made == NULL || numbers == NULL) {
        return no_memory(w);
    }
    EXG_TRY(tensor_of(w, weight, &t));
    *made = (chunk){.path = path,
                    .offsets = numbers,
                    .sizes = numbers + meta->rank,
                    .place = (*place + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT};
    EXG_TRY(read_begin(w, weight, begins, made->offsets));
    for (uint32_t d = 0; d < meta->rank; d++) {
        int64_t end = made->offsets[d] + meta->sizes[d].value;

        made->sizes[d] = meta->sizes[d].value;
        t->sizes[d] = end > t->sizes[d] ? end : t->sizes[d];
    }
    saved.item.shape = made->sizes;
    EXG_TRY(exg_tensor_meta_bytes(meta, &saved.item.bytes, w->err));
    EXG_TRY(exg_checkpoint_put_alone(&of_one, NULL, &saved, &made->length));
    *place = made->place + made->length;
    *(t->last == NULL ? &t->first : &t->last->next) = made;
    t->last = made;
    t->count++;
    return EXG_OK;
}

static exg_status add_file(writer *w, const exg_rank_file *file)
{
    const char *path = exg_dcp_file_name(file, w->arena);
    const char *told = exg_slices_told(file->weights);
    exg_json_doc *doc = NULL;
    exg_json root;
    exg_status status = EXG_OK;
    uint64_t place = 0;

    if (path == NULL) {
        return no_memory(w);
    }
    if (told != NULL) {
        EXG_TRY(exg_json_parse(told, strlen(told), 0, EXG_JSON_KEYS_LATER, &doc, w->err));
        root = exg_json_root(doc);
    }
    for (uint32_t i = 0; i < file->weights->count && status == EXG_OK; i++) {
        const exg_weight *weight = &file->weights->items[i];

        if (weight->meta != NULL && !weight->use_pickle) {
            status = add_chunk(w, weight, path, told == NULL ? NULL : &root, &place);
            status =
                status == EXG_OK ? status : exg_error_within(w->err, status, "['%s']", weight->fqn);
        }
    }
    exg_json_free(doc);
    return status;
}

/* ---- as a pickle ------------------------------------------------------------------------------
 */

static void begin_object(exg_text *out, const char *module, const char *name)
{
    exg_pickle_add_global(out, module, name);
    exg_pickle_add_op(out, EXG_PICKLE_EMPTY_TUPLE);
    exg_pickle_add_op(out, EXG_PICKLE_NEWOBJ);
    exg_pickle_add_op(out, EXG_PICKLE_EMPTY_DICT);
    exg_pickle_add_op(out, EXG_PICKLE_MARK);
}

static void end_object(exg_text *out)
{
    exg_pickle_add_op(out, EXG_PICKLE_SETITEMS);
    exg_pickle_add_op(out, EXG_PICKLE_BUILD);
}

/* What stands on the stack becomes the argument of a call of what stands before it. */
static void call_with_one(exg_text *out)
{
    exg_pickle_add_op(out, EXG_PICKLE_TUPLE_OF_ONE);
    exg_pickle_add_op(out, EXG_PICKLE_REDUCE);
}

static void add_size(exg_text *out, const int64_t *sizes, uint32_t rank)
{
    exg_pickle_add_global(out, "torch", "Size");
    exg_pickle_add_op(out, EXG_PICKLE_MARK);
    for (uint32_t d = 0; d < rank; d++) {
        exg_pickle_add_int(out, sizes[d]);
    }
    exg_pickle_add_op(out, EXG_PICKLE_TUPLE_END);
    call_with_one(out);
}

static void add_properties(exg_text *out, const exg_tensor_meta *meta)
{
    exg_pickle_add_global(out, METADATA_MODULE, "TensorProperties");
    exg_pickle_add_op(out, EXG_PICKLE_EMPTY_TUPLE);
    exg_pickle_add_op(out, EXG_PICKLE_NEWOBJ);
    exg_pickle_add_op(out, EXG_PICKLE_MARK);
    exg_pickle_add_global(out, "torch", exg_dtype_name(meta->dtype));
    exg_pickle_add_global(out, "torch.serialization", "_get_layout");
    exg_pickle_add_text(out, "torch.strided");
    call_with_one(out);
    exg_pickle_add_op(out, meta->requires_grad ? EXG_PICKLE_TRUE : EXG_PICKLE_FALSE);
    exg_pickle_add_global(out, METADATA_MODULE, "_MEM_FORMAT_ENCODING");
    exg_pickle_add_int(out, 0); /* contiguous */
    call_with_one(out);
    exg_pickle_add_op(out, EXG_PICKLE_FALSE); /* not in pinned memory */
    exg_pickle_add_op(out, EXG_PICKLE_TUPLE_END);
    exg_pickle_add_op(out, EXG_PICKLE_BUILD);
}

static void add_tensor(exg_text *out, const tensor *t)
{
    uint32_t rank = t->meta->rank;

    exg_pickle_add_text(out, t->fqn);
    begin_object(out, METADATA_MODULE, "TensorStorageMetadata");
    exg_pickle_add_text(out, "properties");
    add_properties(out, t->meta);
    exg_pickle_add_text(out, "size");
    add_size(out, t->sizes, rank);
    exg_pickle_add_text(out, "chunks");
    exg_pickle_add_op(out, EXG_PICKLE_EMPTY_LIST);
    exg_pickle_add_op(out, EXG_PICKLE_MARK);
    for (const chunk *c = t->first; c != NULL; c = c->next) {
        begin_object(out, METADATA_MODULE, "ChunkStorageMetadata");
        exg_pickle_add_text(out, "offsets");
        add_size(out, c->offsets, rank);
        exg_pickle_add_text(out, "sizes");
        add_size(out, c->sizes, rank);
        end_object(out);
    }
    exg_pickle_add_op(out, EXG_PICKLE_APPENDS);
    end_object(out);
}

static void add_place(exg_text *out, const tensor *t, const chunk *c, uint32_t index)
{
    begin_object(out, METADATA_MODULE, "MetadataIndex");
    exg_pickle_add_text(out, "fqn");
    exg_pickle_add_text(out, t->fqn);
    exg_pickle_add_text(out, "offset");
    add_size(out, c->offsets, t->meta->rank);
    exg_pickle_add_text(out, "index");
    exg_pickle_add_int(out, index);
    end_object(out);
    begin_object(out, FILESYSTEM_MODULE, "_StorageInfo");
    exg_pickle_add_text(out, "relative_path");
    exg_pickle_add_text(out, c->path);
    exg_pickle_add_text(out, "offset");
    exg_pickle_add_int(out, (int64_t)c->place);
    exg_pickle_add_text(out, "length");
    exg_pickle_add_int(out, (int64_t)c->length);
    end_object(out);
}

static void begin_dict(exg_text *out, const char *key)
{
    exg_pickle_add_text(out, key);
    exg_pickle_add_op(out, EXG_PICKLE_EMPTY_DICT);
    exg_pickle_add_op(out, EXG_PICKLE_MARK);
}

static void add_metadata(exg_text *out, const writer *w)
{
    exg_pickle_begin(out);
    begin_object(out, METADATA_MODULE, "Metadata");
    begin_dict(out, "state_dict_metadata");
    for (uint32_t i = 0; i < w->count; i++) {
        add_tensor(out, &w->tensors[i]);
    }
    exg_pickle_add_op(out, EXG_PICKLE_SETITEMS);
    begin_dict(out, "planner_data"); /* the keys that lead to each: a state_dict is flat */
    for (uint32_t i = 0; i < w->count; i++) {
        exg_pickle_add_text(out, w->tensors[i].fqn);
        exg_pickle_add_text(out, w->tensors[i].fqn);
        exg_pickle_add_op(out, EXG_PICKLE_TUPLE_OF_ONE);
    }
    exg_pickle_add_op(out, EXG_PICKLE_SETITEMS);
    begin_dict(out, "storage_data");
    for (uint32_t i = 0; i < w->count; i++) {
        uint32_t index = 0;

        for (const chunk *c = w->tensors[i].first; c != NULL; c = c->next) {
            add_place(out, &w->tensors[i], c, index++);
        }
    }
    exg_pickle_add_op(out, EXG_PICKLE_SETITEMS);
    exg_pickle_add_text(out, "storage_meta");
    exg_pickle_add_op(out, EXG_PICKLE_NONE_VALUE);
    exg_pickle_add_text(out, "version");
    exg_pickle_add_text(out, VERSION);
    end_object(out);
    exg_pickle_end(out);
}

/* Is that there from an earlier try? Then the file stays, by which those who read it are named. */
static bool holds(const char *path, const exg_text *text)
{
    exg_mapping there = {0};
    bool same = exg_file_map(path, false, &there, NULL) == EXG_OK && there.length == text->length &&
                memcmp(there.data, text->data, text->length) == 0;

    exg_mapping_release(&there);
    return same;
}

static exg_status save_metadata(const writer *w, const char *path)
{
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status = EXG_OK;

    add_metadata(&text, w);
    if (text.failed) {
        status = EXG_OUT_OF_MEMORY(w->err);
    } else if (!holds(path, &text)) {
        status = exg_file_write(path, text.data, text.length, w->err);
    }
    exg_text_free(&text);
    return status;
}

exg_status exg_dcp_metadata_save(const exg_rank_file *files, uint32_t count, const char *path,
                                 exg_error *err)
{
    writer w = {.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED), .err = err};
    exg_status status = w.arena == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;

    exg_map_init(&w.names, w.arena);
    for (uint32_t i = 0; i < count && status == EXG_OK; i++) {
        status = add_file(&w, &files[i]);
    }
    status = status == EXG_OK ? save_metadata(&w, path) : status;
    exg_arena_destroy(w.arena);
    return status;
}
