/* stream.c - torch.save before PyTorch 1.6: pickles one after the other, then storages; and
 * before 0.1.10: a tar archive of such. Storages are little endian and used where they lie. */
#include "libexport/formats/pt2/saved.h"

#include "libexport/base/checked.h"
#include "libexport/formats/tar.h"

#include <inttypes.h>
#include <string.h>

/* What the first pickle of every file holds: a number that PyTorch chose. */
static const uint8_t number[] = {0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46,
                                 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};

typedef struct stream {
    exg_saved *file;
    const uint8_t *data;
    uint64_t length, at;
    exg_pickle_storage **named; /* storages of the pickle, the first of each key */
    uint32_t named_count, named_capacity;
    exg_map tensors; /* of a tar archive: key -> place in tensor_items */
    exg_pickle_tensor **tensor_items;
    uint32_t tensor_count, tensor_capacity;
    exg_error *err;
} stream;

static exg_status no_memory(stream *s)
{
    return exg_arena_fault(s->file->archive.arena, s->err);
}

static exg_status damaged(stream *s, const char *what)
{
    return exg_error_at(s->err, EXG_FAIL(s->err, MALFORMED, "PKL-STREAM", "the file %s", what),
                        s->at);
}

/* The pickle that begins here. */
static exg_status read_pickle(stream *s, const exg_pickle_options *options, exg_pickle *pickle)
{
    EXG_TRY(exg_pickle_read(s->data + s->at, (size_t)(s->length - s->at), options,
                            s->file->archive.arena, pickle, s->err));
    s->at += pickle->length;
    return EXG_OK;
}

static exg_status take_i64(stream *s, int64_t *value)
{
    uint64_t bits = 0;

    if (s->length - s->at < 8) {
        return damaged(s, "is cut short");
    }
    for (int i = 0; i < 8; i++) {
        bits |= (uint64_t)s->data[s->at++] << (8 * i);
    }
    memcpy(value, &bits, sizeof(bits));
    return EXG_OK;
}

/* How a key is called: texts in most files, numbers in the oldest. NULL: out of memory. */
static const char *key_of(stream *s, const exg_pickle_value *value)
{
    exg_text text = EXG_TEXT_EMPTY;
    const char *made;

    exg_pickle_put_plain(&text, value);
    made = exg_text_string(&text) == NULL
               ? NULL
               : exg_arena_strdup(s->file->archive.arena, exg_text_string(&text));
    exg_text_free(&text);
    return made;
}

/* The storage that begins here: the count of its elements, and they. */
static exg_status take_storage(stream *s, const char *key, exg_dtype dtype)
{
    exg_storage storage = {.kind = EXG_STORAGE_MEMORY, .byte_order = EXG_LITTLE_ENDIAN};
    int64_t count = 0;
    uint32_t index;

    EXG_TRY(take_i64(s, &count));
    if (count < 0 ||
        !exg_mul_u64((uint64_t)count, dtype == EXG_DTYPE_COUNT ? 1 : exg_dtype_bytes(dtype),
                     &storage.length) ||
        storage.length > s->length - s->at) {
        return damaged(s, "is cut short inside a storage");
    }
    storage.data = s->data + s->at;
    s->at += storage.length;
    EXG_TRY(exg_weights_add_storage(s->file->weights, &storage, &index, s->err));
    return exg_map_put(&s->file->storages, key, index) ? EXG_OK : no_memory(s);
}

/* ---- 0.1.10 to 1.5 ----------------------------------------------------------------------- */

static exg_status take_id(void *user, exg_pickle_value *id, exg_arena *arena,
                          exg_pickle_value *result, exg_error *err)
{
    stream *s = user;

    EXG_TRY(exg_pickle_persistent(NULL, id, arena, result, err));
    if (result->kind != EXG_PICKLE_STORAGE ||
        exg_map_find(&s->file->keys, result->as_storage->key) != EXG_MAP_NONE) {
        return EXG_OK;
    }
    if (!exg_arena_reserve(arena, &s->named, s->named_count, &s->named_capacity,
                           sizeof(*s->named)) ||
        !exg_map_put(&s->file->keys, result->as_storage->key, s->named_count)) {
        return no_memory(s);
    }
    s->named[s->named_count++] = result->as_storage;
    return EXG_OK;
}

static exg_status read_storages(stream *s)
{
    exg_pickle keys;

    EXG_TRY(read_pickle(s, NULL, &keys));
    if (keys.root->kind != EXG_PICKLE_LIST && keys.root->kind != EXG_PICKLE_TUPLE) {
        return damaged(s, "does not list its storages");
    }
    for (uint32_t i = 0; i < keys.root->as_items.count; i++) {
        const char *key = key_of(s, keys.root->as_items.items[i]);
        uint32_t at = key == NULL ? EXG_MAP_NONE : exg_map_find(&s->file->keys, key);

        if (key == NULL) {
            return no_memory(s);
        }
        if (at == EXG_MAP_NONE || exg_map_find(&s->file->storages, key) != EXG_MAP_NONE) {
            return damaged(s, "holds a storage that its pickle does not name, or one twice");
        }
        EXG_TRY(take_storage(s, key, s->named[at]->dtype));
    }
    return EXG_OK;
}

static bool is_number(const exg_pickle_value *value)
{
    return value->kind == EXG_PICKLE_LONG && value->as_text.length == number[1] &&
           memcmp(value->as_text.data, number + 2, number[1]) == 0;
}

static exg_status read_stream(stream *s)
{
    exg_pickle_options options = {.persistent = take_id, .user = s};
    exg_pickle head;

    EXG_TRY(read_pickle(s, NULL, &head));
    if (!is_number(head.root)) {
        return damaged(s, "does not begin with the number of torch.save");
    }
    EXG_TRY(read_pickle(s, NULL, &head));
    if (head.root->kind != EXG_PICKLE_INT || head.root->as_int != 1001) {
        return EXG_FAIL(s->err, UNSUPPORTED, "PKL-STREAM",
                        "the file has another protocol than 1001, torch.save's only one");
    }
    EXG_TRY(read_pickle(s, NULL, &head)); /* the writer's machine: storages do not depend on it */
    EXG_TRY(read_pickle(s, &options, &s->file->pickle));
    EXG_TRY(read_storages(s));
    s->file->behind = s->length - s->at;
    return EXG_OK;
}

/* ---- tar: before 0.1.10 ------------------------------------------------------------------ */

static bool is_called(const exg_tar_member *member, const char *name)
{
    return member->name_length == strlen(name) &&
           memcmp(member->name, name, member->name_length) == 0;
}

/* A tar archive; one of these is the first in it. */
static bool is_tar(const uint8_t *data, uint64_t length)
{
    static const char *const names[] = {"sys_info", "pickle", "tensors", "storages"};
    exg_tar_member member;
    uint64_t at = 0;
    bool is_known = false;

    if (!exg_tar_sniff(data, length) || !exg_tar_next(data, length, &at, &member)) {
        return false;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        is_known = is_known || is_called(&member, names[i]);
    }
    return is_known;
}

/* Goes into the member of this name: the stream is what it holds. */
static exg_status find_member(const stream *whole, const char *name, stream *member)
{
    exg_tar_member found;
    uint64_t at = 0;

    while (exg_tar_next(whole->data, whole->length, &at, &found)) {
        if (is_called(&found, name)) {
            *member = *whole;
            member->data += found.offset;
            member->length = found.bytes;
            member->at = 0;
            return EXG_OK;
        }
    }
    return EXG_FAIL(whole->err, MALFORMED, "PKL-STREAM", "the member %s is missing, or cut short",
                    name);
}

static exg_status take_count(stream *s, int64_t *count)
{
    exg_pickle pickle;

    EXG_TRY(read_pickle(s, NULL, &pickle));
    if (pickle.root->kind != EXG_PICKLE_INT || pickle.root->as_int < 0) {
        return damaged(s, "does not count what follows");
    }
    *count = pickle.root->as_int;
    return EXG_OK;
}

/* A tuple of three: a key, and what is known of it. */
static exg_status take_three(stream *s, exg_pickle_value ***items)
{
    exg_pickle pickle;

    EXG_TRY(read_pickle(s, NULL, &pickle));
    if (pickle.root->kind != EXG_PICKLE_TUPLE || pickle.root->as_items.count != 3) {
        return damaged(s, "does not tell what follows");
    }
    *items = pickle.root->as_items.items;
    return EXG_OK;
}

/* A storage that tensors name. */
static exg_status name_storage(stream *s, const char *key, const exg_pickle_storage *storage)
{
    if (!exg_arena_reserve(s->file->archive.arena, &s->named, s->named_count, &s->named_capacity,
                           sizeof(*s->named))) {
        return no_memory(s);
    }
    s->named[s->named_count] =
        exg_arena_memdup(s->file->archive.arena, storage, 1, sizeof(*storage));
    return s->named[s->named_count] != NULL && exg_map_put(&s->file->keys, key, s->named_count++)
               ? EXG_OK
               : no_memory(s);
}

/* (key of the view, key of the storage, first element, count) */
static exg_status name_view(stream *s, const exg_pickle_value *view)
{
    exg_pickle_value **v = view->as_items.items;
    exg_pickle_storage storage;
    const char *key;
    const char *root;
    uint32_t at;

    if (view->kind != EXG_PICKLE_TUPLE || view->as_items.count != 4 ||
        v[2]->kind != EXG_PICKLE_INT || v[2]->as_int < 0) {
        return damaged(s, "has a view of a storage that is none");
    }
    key = key_of(s, v[0]);
    root = key_of(s, v[1]);
    if (key == NULL || root == NULL) {
        return no_memory(s);
    }
    at = exg_map_find(&s->file->keys, root);
    if (at == EXG_MAP_NONE) {
        return damaged(s, "has a view of a storage that is not there");
    }
    storage = *s->named[at];
    storage.first += (uint64_t)v[2]->as_int;
    return name_storage(s, key, &storage);
}

static exg_status read_tar_storages(stream *s)
{
    int64_t count = 0;
    exg_pickle views;

    EXG_TRY(take_count(s, &count));
    for (int64_t i = 0; i < count; i++) {
        exg_pickle_value **items = NULL;
        exg_pickle_storage storage = {0};
        uint32_t index;

        EXG_TRY(take_three(s, &items));
        if (!exg_pickle_is_name(items[1]) || items[2]->kind != EXG_PICKLE_GLOBAL ||
            items[2]->as_global->tag != EXG_TAG_STORAGE) {
            return damaged(s, "has a storage of no type");
        }
        storage.key = key_of(s, items[0]);
        storage.location = items[1]->as_text.data;
        storage.dtype = items[2]->as_global->dtype;
        if (storage.key == NULL) {
            return no_memory(s);
        }
        EXG_TRY(take_storage(s, storage.key, storage.dtype));
        index = exg_map_find(&s->file->storages, storage.key);
        storage.count = s->file->weights->storages[index].length /
                        (storage.dtype == EXG_DTYPE_COUNT ? 1 : exg_dtype_bytes(storage.dtype));
        EXG_TRY(name_storage(s, storage.key, &storage));
    }
    EXG_TRY(read_pickle(s, NULL, &views));
    for (uint32_t i = 0; views.root->kind == EXG_PICKLE_LIST && i < views.root->as_items.count;
         i++) {
        EXG_TRY(name_view(s, views.root->as_items.items[i]));
    }
    return EXG_OK;
}

/* The sizes or strides that follow. */
static exg_status take_numbers(stream *s, uint32_t rank, const exg_pickle_items **out)
{
    exg_arena *arena = s->file->archive.arena;
    exg_pickle_items *items = EXG_NEW(arena, exg_pickle_items);

    if (items == NULL || (items->items = EXG_NEW_ARRAY(arena, exg_pickle_value *, rank)) == NULL) {
        return no_memory(s);
    }
    for (uint32_t d = 0; d < rank; d++) {
        exg_pickle_value *value = EXG_NEW(arena, exg_pickle_value);

        if (value == NULL) {
            return no_memory(s);
        }
        value->kind = EXG_PICKLE_INT;
        EXG_TRY(take_i64(s, &value->as_int));
        items->items[items->count++] = value;
    }
    *out = items;
    return EXG_OK;
}

static exg_status read_tar_tensor(stream *s)
{
    exg_pickle_tensor *tensor = EXG_NEW(s->file->archive.arena, exg_pickle_tensor);
    exg_pickle_value **items = NULL;
    const char *key;
    const char *storage;
    int64_t rank = 0;
    uint32_t at;

    EXG_TRY(take_three(s, &items));
    key = key_of(s, items[0]);
    storage = key_of(s, items[1]);
    if (tensor == NULL || key == NULL || storage == NULL) {
        return no_memory(s);
    }
    at = exg_map_find(&s->file->keys, storage);
    EXG_TRY(take_i64(s, &rank)); /* in the lower half */
    rank &= UINT32_MAX;
    if (at == EXG_MAP_NONE || s->named[at]->dtype == EXG_DTYPE_COUNT ||
        (uint64_t)rank > (s->length - s->at) / 16) {
        return damaged(s, "has a tensor of no storage, or is cut short inside one");
    }
    tensor->storage = s->named[at];
    tensor->dtype = s->named[at]->dtype;
    EXG_TRY(take_numbers(s, (uint32_t)rank, &tensor->sizes));
    EXG_TRY(take_numbers(s, (uint32_t)rank, &tensor->strides));
    EXG_TRY(take_i64(s, &tensor->offset));
    if (!exg_arena_reserve(s->file->archive.arena, &s->tensor_items, s->tensor_count,
                           &s->tensor_capacity, sizeof(*s->tensor_items)) ||
        !exg_map_put(&s->tensors, key, s->tensor_count)) {
        return no_memory(s);
    }
    s->tensor_items[s->tensor_count++] = tensor;
    return EXG_OK;
}

/* A class with its source, or the key of a tensor or a storage. */
static exg_status take_tar_id(void *user, exg_pickle_value *id, exg_arena *arena,
                              exg_pickle_value *result, exg_error *err)
{
    stream *s = user;
    const char *key;
    uint32_t tensor;
    uint32_t storage;

    (void)arena;
    if (id->kind == EXG_PICKLE_TUPLE && id->as_items.count > 0) {
        *result = *id->as_items.items[0];
        return EXG_OK;
    }
    key = key_of(s, id);
    if (key == NULL) {
        return no_memory(s);
    }
    tensor = exg_map_find(&s->tensors, key);
    storage = exg_map_find(&s->file->keys, key);
    if (tensor != EXG_MAP_NONE) {
        result->kind = EXG_PICKLE_TENSOR;
        result->as_tensor = s->tensor_items[tensor];
    } else if (storage != EXG_MAP_NONE) {
        result->kind = EXG_PICKLE_STORAGE;
        result->as_storage = s->named[storage];
    } else {
        return EXG_FAIL(err, MALFORMED, "PKL-STREAM",
                        "the pickle names a tensor that is not there");
    }
    return EXG_OK;
}

static exg_status read_tar(stream *s)
{
    exg_pickle_options options = {.persistent = take_tar_id};
    stream member;
    int64_t count = 0;

    EXG_TRY(find_member(s, "storages", &member));
    EXG_TRY_IN(s->err, read_tar_storages(&member), "storages");
    s->named = member.named;
    s->named_count = member.named_count;
    s->named_capacity = member.named_capacity;
    EXG_TRY(find_member(s, "tensors", &member));
    EXG_TRY_IN(s->err, take_count(&member, &count), "tensors");
    for (int64_t i = 0; i < count; i++) {
        EXG_TRY_IN(s->err, read_tar_tensor(&member), "tensors");
    }
    s->tensors = member.tensors;
    s->tensor_items = member.tensor_items;
    s->tensor_count = member.tensor_count;
    EXG_TRY(find_member(s, "pickle", &member));
    options.user = s;
    EXG_TRY_IN(s->err, read_pickle(&member, &options, &s->file->pickle), "pickle");
    return EXG_OK;
}

/* ---- which ------------------------------------------------------------------------------- */

/* Protocols 2 and later write the number alike but for what is before it. */
bool exg_stream_sniff(const uint8_t *data, uint64_t length)
{
    return (length >= 2 + sizeof(number) && data[0] == 0x80 &&
            memcmp(data + 2, number, sizeof(number)) == 0) ||
           (length >= 11 + sizeof(number) && data[0] == 0x80 && data[2] == 0x95 && /* a frame */
            memcmp(data + 11, number, sizeof(number)) == 0) ||
           is_tar(data, length);
}

exg_status exg_stream_open(const uint8_t *data, uint64_t length, exg_saved *file, exg_error *err)
{
    stream s = {.file = file, .data = data, .length = length, .err = err};

    file->is_stream = true;
    file->archive.root = "";
    exg_map_init(&s.tensors, file->archive.arena);
    return is_tar(data, length) ? read_tar(&s) : read_stream(&s);
}
