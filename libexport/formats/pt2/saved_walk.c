/* saved_walk.c - what a file of torch.save holds, by name: keys, places and attributes joined
 * with dots.
 *
 * {"model": {"w": tensor}, "step": 3} gives the tensor model.w and the metadata step = 3. Tied
 * tensors share their storage; views keep strides and offset. An object that is not known is
 * listed, and what it holds is walked; a module gives what its state_dict() would. The walk has
 * a stack of its own: values nest as deep as they like, and may hold themselves.
 */
#include "libexport/formats/pt2/saved_walk.h"

#include "libexport/formats/pt2/numpy_pickle.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define VALUES_MAX  (1u << 24) /* lists may hold themselves, */
#define LEAF_BYTES  512        /* and what is told once may be named often */
#define PLAIN_DEPTH 6          /* sequences in sequences that one text tells */
#define SMALL_BYTES 4096       /* of a bytes object that a text tells; a longer one is a tensor */
#define KIND_BYTES  160        /* of a call that is dangerous */

/* ---- names and budgets ------------------------------------------------------------------- */

static exg_status no_memory(exg_walker *w)
{
    return EXG_OUT_OF_MEMORY(w->err);
}

static exg_status spend(exg_walker *w, uint64_t more)
{
    uint64_t bytes = w->name.length + LEAF_BYTES + more;

    if (bytes > w->budget) {
        w->budget = 0;
        return EXG_FAIL(w->err, LIMIT, "PKL-LIMIT",
                        "the checkpoint names more than its size allows");
    }
    w->budget -= bytes;
    return EXG_OK;
}

static void cut_name(exg_walker *w, size_t length)
{
    w->name.length = length;
    if (w->name.data != NULL) {
        w->name.data[length] = '\0';
    }
}

/* The name, or one like it that no tensor has. NULL: out of memory. */
static const char *free_name(exg_walker *w)
{
    const exg_weights *weights = w->file->weights;
    const char *name = exg_text_string(&w->name);

    for (uint32_t i = 1; name != NULL && exg_weights_find(weights, EXG_TABLE_STATE, name) != NULL;
         i++) {
        /* past the second the count: many of one name take no longer */
        name = exg_arena_printf(w->arena, "%s_%u", exg_text_string(&w->name),
                                i == 1 ? 1 : weights->count + i);
    }
    return name;
}

exg_status exg_walk_skip(exg_walker *w, const char *kind, exg_skipped_code code)
{
    const char *name = w->name.length == 0 ? "(root)" : exg_text_string(&w->name);

    EXG_TRY(spend(w, strlen(kind)));
    return name == NULL ? no_memory(w)
                        : exg_weights_skip_code(w->file->weights, name, kind, code, w->err);
}

/* Text that was made; it is freed. */
static exg_status skip_text(exg_walker *w, exg_text *kind, exg_skipped_code code)
{
    exg_status status = exg_text_string(kind) == NULL
                            ? no_memory(w)
                            : exg_walk_skip(w, exg_text_string(kind), code);

    exg_text_free(kind);
    return status;
}

static exg_status put_metadata(exg_walker *w, exg_text *text)
{
    exg_status status = spend(w, text->length);

    if (status == EXG_OK) {
        status = exg_text_string(text) == NULL || exg_text_string(&w->name) == NULL
                     ? no_memory(w)
                     : exg_weights_add_metadata(w->file->weights, exg_text_string(&w->name),
                                                exg_text_string(text), w->err);
    }
    exg_text_free(text);
    return status;
}

/* ---- frames ------------------------------------------------------------------------------ */

exg_status exg_walk_push(exg_walker *w, const exg_pickle_items *items, exg_walk_keys keys,
                         unsigned flags, exg_pickle_value *closes)
{
    exg_walk_frame *frame;

    if (!exg_arena_reserve(w->arena, &w->frames, w->depth, &w->capacity, sizeof(*w->frames))) {
        return no_memory(w);
    }
    frame = &w->frames[w->depth++];
    *frame = (exg_walk_frame){.items = items,
                              .keys = keys,
                              .flags = flags,
                              .closes = closes,
                              .name_length = w->name.length};
    if (closes != NULL) {
        closes->open = true;
    }
    return EXG_OK;
}

exg_status exg_walk_push_named(exg_walker *w, const char *const *names,
                               exg_pickle_value *const *values, uint32_t count, unsigned flags)
{
    exg_pickle_items *items = EXG_NEW(w->arena, exg_pickle_items);

    if (items == NULL ||
        (items->items = EXG_NEW_ARRAY(w->arena, exg_pickle_value *, count * 2)) == NULL) {
        return no_memory(w);
    }
    for (uint32_t i = 0; i < count; i++) {
        exg_pickle_value *key = EXG_NEW(w->arena, exg_pickle_value);

        if (values[i] == NULL) {
            continue;
        }
        if (key == NULL) {
            return no_memory(w);
        }
        key->kind = EXG_PICKLE_STRING;
        key->as_text = (exg_pickle_text){names[i], strlen(names[i])};
        items->items[items->count++] = key;
        items->items[items->count++] = values[i];
    }
    return exg_walk_push(w, items, EXG_WALK_PAIRS, flags, NULL);
}

exg_status exg_walk_push_here(exg_walker *w, exg_pickle_value *value, unsigned flags)
{
    exg_pickle_items *items = EXG_NEW(w->arena, exg_pickle_items);

    if (items == NULL || (items->items = EXG_NEW(w->arena, exg_pickle_value *)) == NULL) {
        return no_memory(w);
    }
    items->items[items->count++] = value;
    return exg_walk_push(w, items, EXG_WALK_HERE, flags, NULL);
}

exg_status exg_walk_push_attributes(exg_walker *w, const exg_pickle_value *state, unsigned flags)
{
    if (state == NULL) {
        return EXG_OK;
    }
    if (state->kind == EXG_PICKLE_DICT) {
        return exg_walk_push(w, &state->as_items, EXG_WALK_PAIRS, flags, NULL);
    }
    for (uint32_t i = state->kind == EXG_PICKLE_TUPLE ? state->as_items.count : 0; i-- > 0;) {
        exg_pickle_value *part = state->as_items.items[i]; /* (attributes, slots) */

        if (part->kind == EXG_PICKLE_DICT) {
            EXG_TRY(exg_walk_push(w, &part->as_items, EXG_WALK_PAIRS, flags, NULL));
        } else if (part->kind != EXG_PICKLE_NONE) {
            return exg_walk_push(w, &state->as_items, EXG_WALK_PLACES, flags, NULL);
        }
    }
    return EXG_OK;
}

/* ---- tensors ----------------------------------------------------------------------------- */

exg_status exg_walk_add(exg_walker *w, exg_weight *weight, unsigned flags)
{
    EXG_TRY(spend(w, 0));
    if ((flags & EXG_WALK_OUTSIDE) != 0) {
        return exg_walk_skip(w, "a tensor that state_dict() leaves out", EXG_CODE_NONE);
    }
    weight->table = EXG_TABLE_STATE;
    weight->fqn = free_name(w);
    weight->is_param = weight->is_param || (flags & EXG_WALK_PARAMETER) != 0;
    return weight->fqn == NULL ? no_memory(w) : exg_weights_add(w->file->weights, weight, w->err);
}

exg_status exg_walk_add_bytes(exg_walker *w, const exg_dense *dense, unsigned flags)
{
    exg_dense made = *dense;
    void *copy = malloc((size_t)dense->bytes + 1);
    exg_status status;

    if (copy == NULL) {
        return no_memory(w);
    }
    if (dense->bytes > 0) {
        memcpy(copy, dense->data, (size_t)dense->bytes);
    }
    status = exg_weights_own(w->file->weights, free, copy, w->err);
    if (status != EXG_OK) {
        free(copy);
        return status;
    }
    EXG_TRY(spend(w, 0));
    if ((flags & EXG_WALK_OUTSIDE) != 0) {
        return exg_walk_skip(w, "an array that state_dict() leaves out", EXG_CODE_NONE);
    }
    made.data = copy;
    made.name = free_name(w);
    return made.name == NULL ? no_memory(w)
                             : exg_weights_add_dense(w->file->weights, &made, w->err);
}

static exg_status add_tensor(exg_walker *w, exg_pickle_tensor *tensor, unsigned flags)
{
    exg_weight weight = {.is_param = tensor->is_param, .encoding = tensor->encoding};

    if ((flags & EXG_WALK_OUTSIDE) != 0 && tensor->given) {
        return EXG_OK; /* a module's own, by another name: RNN's _flat_weights */
    }
    tensor->given = tensor->given || (flags & EXG_WALK_OUTSIDE) == 0;
    EXG_TRY_IN(w->err,
               exg_saved_meta(w->file, tensor, w->arena, &weight.meta, &weight.storage, w->err),
               "['%s']", exg_text_string(&w->name));
    EXG_TRY(exg_walk_add(w, &weight, flags));
    if (tensor->type != NULL && (flags & EXG_WALK_OUTSIDE) == 0) {
        exg_text kind = EXG_TEXT_EMPTY;

        tensor->type->told = true;
        exg_text_printf(&kind, "the class %s.%s of a tensor", tensor->type->module,
                        tensor->type->name);
        EXG_TRY(skip_text(w, &kind, tensor->type->code));
    }
    EXG_TRY(exg_walk_push_attributes(w, tensor->attributes, flags & ~(unsigned)EXG_WALK_PARAMETER));
    return tensor->quantizer == NULL ? EXG_OK : exg_walk_quantizer(w, tensor, flags);
}

/* A storage by itself: all of its elements. */
static exg_status add_storage(exg_walker *w, const exg_pickle_storage *storage, unsigned flags)
{
    exg_dtype dtype = storage->dtype == EXG_DTYPE_COUNT ? EXG_DTYPE_U8 : storage->dtype;
    exg_sym_int size = exg_sym_int_of((int64_t)storage->count);
    exg_sym_int stride = exg_sym_int_of(1);
    exg_tensor_meta meta = {.dtype = dtype,
                            .layout = EXG_LAYOUT_STRIDED,
                            .rank = 1,
                            .sizes = &size,
                            .strides = &stride,
                            .device = {"cpu", -1}};
    exg_weight weight = {.meta = &meta, .encoding = storage->encoding};

    EXG_TRY_IN(w->err, exg_saved_storage(w->file, storage, &weight.storage, w->err), "['%s']",
               exg_text_string(&w->name));
    return exg_walk_add(w, &weight, flags);
}

/* ---- numbers and texts ------------------------------------------------------------------- */

exg_status exg_walk_metadata(exg_walker *w, const exg_pickle_value *value, unsigned flags)
{
    exg_text text = EXG_TEXT_EMPTY;

    if ((flags & EXG_WALK_QUIET) != 0) {
        return EXG_OK;
    }
    exg_pickle_put_plain(&text, value);
    if (text.length > EXG_PICKLE_TEXT_MAX && value->kind != EXG_PICKLE_STRING) {
        exg_text kind = EXG_TEXT_EMPTY;

        exg_text_free(&text);
        EXG_TRY(spend(w, EXG_PICKLE_TEXT_MAX));
        exg_pickle_put_kind(&kind, value);
        exg_text_printf(&kind, " of %u items, no tensor", value->as_items.count);
        return skip_text(w, &kind, EXG_CODE_NONE);
    }
    return put_metadata(w, &text);
}

/* Few bytes are a text, many a tensor. */
static exg_status add_bytes(exg_walker *w, const exg_pickle_value *value, unsigned flags)
{
    int64_t size = (int64_t)value->as_text.length;
    exg_dense dense = {.dtype = EXG_DTYPE_U8,
                       .rank = 1,
                       .shape = &size,
                       .byte_order = EXG_LITTLE_ENDIAN,
                       .data = (const uint8_t *)value->as_text.data,
                       .bytes = value->as_text.length};

    return value->as_text.length <= SMALL_BYTES || (flags & EXG_WALK_QUIET) != 0
               ? exg_walk_metadata(w, value, flags)
               : exg_walk_add_bytes(w, &dense, flags);
}

/* ---- objects ----------------------------------------------------------------------------- */

/* No longer than KIND_BYTES, and not inside a character. */
static void cut_kind(exg_text *kind)
{
    size_t length = KIND_BYTES;

    if (kind->failed || kind->length <= length) {
        return;
    }
    while (length > 0 && ((unsigned char)kind->data[length] & 0xc0) == 0x80) {
        length--;
    }
    kind->length = length;
    kind->data[length] = '\0';
    exg_text_puts(kind, "...");
}

/* A method of an object, as pickle writes it; what begins with two underscores leads out of it. */
static exg_skipped_code code_of(const exg_pickle_global *global, const exg_pickle_value *value)
{
    const exg_pickle_value *arguments =
        value->kind == EXG_PICKLE_OBJECT ? value->as_object->arguments : NULL;

    return global->tag == EXG_TAG_GETATTR && arguments != NULL &&
                   arguments->kind == EXG_PICKLE_TUPLE && arguments->as_items.count == 2 &&
                   exg_pickle_is_name(arguments->as_items.items[1]) &&
                   strncmp(arguments->as_items.items[1]->as_text.data, "__", 2) != 0
               ? EXG_CODE_FOREIGN
               : global->code;
}

/* Lists what an object or a name is; in the quiet part of a module only what Python would run,
 * once a name. */
exg_status exg_walk_list(exg_walker *w, const exg_pickle_value *value, unsigned flags)
{
    const exg_pickle_value *callee =
        value->kind == EXG_PICKLE_OBJECT ? value->as_object->callee : value;
    exg_pickle_global *global = callee->kind == EXG_PICKLE_GLOBAL ? callee->as_global : NULL;
    exg_skipped_code code = global == NULL ? EXG_CODE_FOREIGN : code_of(global, value);
    exg_text kind = EXG_TEXT_EMPTY;

    if ((flags & EXG_WALK_QUIET) != 0 && global != NULL &&
        (global->told || code == EXG_CODE_NONE)) {
        global->told = true;
        return EXG_OK;
    }
    if (global != NULL) {
        global->told = true;
    }
    if (code == EXG_CODE_DANGEROUS && value->kind == EXG_PICKLE_OBJECT &&
        value->as_object->arguments != NULL) {
        exg_text_printf(&kind, "%s.", global == NULL ? "" : global->module);
        exg_pickle_put(&kind, value);
        cut_kind(&kind);
    } else {
        exg_pickle_put_kind(&kind, value);
    }
    return skip_text(w, &kind, code);
}

/* A tensor's class whose state holds the tensors; its argument says again how it is made. */
static bool is_rebuilt(const exg_pickle_object *object)
{
    const exg_pickle_value *first =
        object->arguments->kind == EXG_PICKLE_TUPLE ? object->arguments->as_items.items[0] : NULL;
    const exg_pickle_global *by = first == NULL || first->kind != EXG_PICKLE_OBJECT ||
                                          first->as_object->callee->kind != EXG_PICKLE_GLOBAL
                                      ? NULL
                                      : first->as_object->callee->as_global;

    return by != NULL && object->state != NULL &&
           (by->tag == EXG_TAG_REBUILD_WRAPPER || strcmp(by->name, "_rebuild_njt") == 0);
}

static exg_status walk_object(exg_walker *w, exg_pickle_value *value, unsigned flags)
{
    exg_pickle_object *object = value->as_object;
    uint32_t left = w->left;
    exg_text text = EXG_TEXT_EMPTY;

    if (object->path != NULL) {
        exg_text_printf(&text, "the same as %s", object->path);
        if ((flags & EXG_WALK_QUIET) != 0) {
            exg_text_free(&text);
            return EXG_OK;
        }
        return put_metadata(w, &text);
    }
    object->path = exg_arena_strdup(w->arena, exg_text_string(&w->name));
    if (object->path == NULL) {
        return no_memory(w);
    }
    EXG_TRY(exg_walk_list(w, value, flags));
    EXG_TRY(exg_walk_push(w, &object->list, EXG_WALK_PLACES, flags, NULL));
    EXG_TRY(exg_walk_push(w, &object->entries, EXG_WALK_PAIRS, flags, NULL));
    EXG_TRY(exg_walk_push_attributes(w, object->state, flags));
    if (object->arguments == NULL || object->arguments->as_items.count == 0 || is_rebuilt(object)) {
        return EXG_OK;
    }
    if (object->state == NULL && object->list.count == 0 && object->entries.count == 0 &&
        exg_pickle_is_plain(object->arguments, PLAIN_DEPTH, &left)) {
        return exg_walk_metadata(w, value, flags); /* PosixPath('a'), Mode(1) */
    }
    return object->arguments->kind == EXG_PICKLE_TUPLE
               ? exg_walk_push(w, &object->arguments->as_items, EXG_WALK_PLACES, flags, NULL)
               : EXG_OK;
}

/* ---- any value --------------------------------------------------------------------------- */

static exg_status walk_sequence(exg_walker *w, exg_pickle_value *value, unsigned flags)
{
    if (value->open || exg_pickle_is_plain(value, PLAIN_DEPTH, &w->left)) {
        exg_text text = EXG_TEXT_EMPTY;

        if (!value->open) {
            return exg_walk_metadata(w, value, flags);
        }
        exg_pickle_put_kind(&text, value);
        exg_text_puts(&text, " that holds itself");
        return put_metadata(w, &text);
    }
    return exg_walk_push(w, &value->as_items, EXG_WALK_PLACES, flags, value);
}

static exg_status walk_dict(exg_walker *w, exg_pickle_value *value, unsigned flags)
{
    if (value->open) {
        exg_text text = EXG_TEXT_EMPTY;

        exg_text_puts(&text, "dict that holds itself");
        return put_metadata(w, &text);
    }
    if (value->as_items.count == 0 && value->as_items.state == NULL) {
        return exg_walk_metadata(w, value, flags);
    }
    EXG_TRY(exg_walk_push_attributes(w, value->as_items.state, flags));
    return exg_walk_push(w, &value->as_items, EXG_WALK_PAIRS, flags, value);
}

exg_status exg_walk_value(exg_walker *w, exg_pickle_value *value, unsigned flags)
{
    if (w->left == 0) {
        return EXG_FAIL(w->err, LIMIT, "PKL-LIMIT", "the checkpoint nests too much");
    }
    w->left--;
    switch (value->kind) {
    case EXG_PICKLE_TENSOR:
        return add_tensor(w, value->as_tensor, flags);
    case EXG_PICKLE_STORAGE:
        return add_storage(w, value->as_storage, flags);
    case EXG_PICKLE_DICT:
        return walk_dict(w, value, flags);
    case EXG_PICKLE_TUPLE:
    case EXG_PICKLE_LIST:
    case EXG_PICKLE_SET:
        return walk_sequence(w, value, flags);
    case EXG_PICKLE_OBJECT: {
        bool done = false;

        EXG_TRY(exg_walk_known(w, value, flags, &done));
        return done ? EXG_OK : walk_object(w, value, flags);
    }
    case EXG_PICKLE_GLOBAL:
        return value->as_global->tag == EXG_TAG_FOREIGN ? exg_walk_list(w, value, flags)
                                                        : exg_walk_metadata(w, value, flags);
    case EXG_PICKLE_BYTES:
        return add_bytes(w, value, flags);
    default:
        return exg_walk_metadata(w, value, flags);
    }
}

/* ---- keys -------------------------------------------------------------------------------- */

/* One text for keys that are equal in Python: 1, 1.0 and True. NULL: out of memory. */
static const char *key_text(exg_walker *w, const exg_pickle_value *key)
{
    exg_text text = EXG_TEXT_EMPTY;
    const char *made = NULL;

    if (exg_pickle_is_name(key) && key->as_text.data[0] != '\x01') {
        return key->as_text.data;
    }
    exg_text_putc(&text, '\x01');
    if (key->kind == EXG_PICKLE_BOOL || key->kind == EXG_PICKLE_INT) {
        exg_text_printf(&text, "%" PRId64,
                        key->kind == EXG_PICKLE_INT ? key->as_int : (int64_t)key->as_bool);
    } else if (key->kind == EXG_PICKLE_FLOAT && key->as_float >= -9e18 && key->as_float <= 9e18 &&
               key->as_float == (double)(int64_t)key->as_float) {
        exg_text_printf(&text, "%" PRId64, (int64_t)key->as_float);
    } else if (key->kind == EXG_PICKLE_OBJECT || key->kind == EXG_PICKLE_TENSOR) {
        exg_text_printf(&text, "%p", (const void *)key);
    } else {
        exg_pickle_put(&text, key);
    }
    made = exg_text_string(&text) == NULL ? NULL : exg_arena_strdup(w->arena, text.data);
    exg_text_free(&text);
    return made;
}

/* Which of the values of a key counts: the last. */
static exg_status map_keys(exg_walker *w, exg_walk_frame *frame)
{
    const exg_pickle_items *items = frame->items;

    frame->last = EXG_NEW(w->arena, exg_map);
    if (frame->last == NULL) {
        return no_memory(w);
    }
    exg_map_init(frame->last, w->arena);
    for (uint32_t i = 0; i + 1 < items->count; i += 2) {
        const char *key = key_text(w, items->items[i]);

        if (key == NULL || !exg_map_put(frame->last, key, i)) {
            return no_memory(w);
        }
    }
    return EXG_OK;
}

/* ".key" behind the name. */
static exg_status put_key(exg_walker *w, const exg_walk_frame *frame, uint32_t at)
{
    const exg_pickle_value *key = frame->items->items[at];

    if (frame->keys == EXG_WALK_HERE) {
        return EXG_OK;
    }
    if (frame->keys == EXG_WALK_PAIRS &&
        (key->kind == EXG_PICKLE_OBJECT ||
         (key->kind == EXG_PICKLE_GLOBAL && key->as_global->tag == EXG_TAG_FOREIGN))) {
        EXG_TRY(exg_walk_list(w, key, frame->flags | EXG_WALK_QUIET));
    }
    exg_text_puts(&w->name, w->name.length == 0 ? "" : ".");
    if (frame->keys == EXG_WALK_PAIRS) {
        exg_pickle_put_plain(&w->name, key);
    } else {
        exg_text_printf(&w->name, "%u", at);
    }
    return w->name.failed ? no_memory(w) : EXG_OK;
}

/* ---- the walk ---------------------------------------------------------------------------- */

/* Attributes that PyTorch's modules keep for themselves. */
static unsigned flags_of(const exg_walk_frame *frame, const exg_pickle_value *key)
{
    return (frame->flags & EXG_WALK_MODULE) != 0 && frame->keys == EXG_WALK_PAIRS &&
                   exg_pickle_is_name(key) &&
                   (key->as_text.data[0] == '_' || strcmp(key->as_text.data, "training") == 0)
               ? frame->flags | EXG_WALK_QUIET
               : frame->flags;
}

static exg_status step(exg_walker *w)
{
    exg_walk_frame *frame = &w->frames[w->depth - 1];
    bool is_pairs = frame->keys == EXG_WALK_PAIRS;
    uint32_t at = frame->at;
    exg_pickle_value **items = frame->items->items;

    cut_name(w, frame->name_length);
    if (at + (is_pairs ? 1 : 0) >= frame->items->count) {
        if (frame->closes != NULL) {
            frame->closes->open = false;
        }
        w->depth--;
        return EXG_OK;
    }
    if (is_pairs && at == 0 && frame->items->count > 2) {
        EXG_TRY(map_keys(w, frame));
    }
    frame->at += is_pairs ? 2 : 1;
    if (is_pairs && frame->last != NULL) {
        const char *key = key_text(w, items[at]);

        if (key == NULL) {
            return no_memory(w);
        }
        if (exg_map_find(frame->last, key) != at) {
            return EXG_OK; /* a later one takes its place */
        }
    }
    EXG_TRY(put_key(w, frame, at));
    return exg_walk_value(w, items[is_pairs ? at + 1 : at],
                          flags_of(frame, items[at]) & ~(unsigned)EXG_WALK_MODULE);
}

/* What Python would load of it and the walk did not meet: thrown away, or a key, or a default. */
static exg_status list_rest(exg_walker *w)
{
    const exg_pickle *pickle = &w->file->pickle;

    for (uint32_t i = 0; i < pickle->global_count; i++) {
        exg_pickle_global *global = pickle->globals[i];
        exg_pickle_object object = {
            .callee = &(exg_pickle_value){.kind = EXG_PICKLE_GLOBAL, .as_global = global},
            .arguments = global->arguments};
        exg_pickle_value value = {.kind = EXG_PICKLE_OBJECT, .as_object = &object};

        if (!global->told && global->tag == EXG_TAG_FOREIGN && global->code != EXG_CODE_NONE) {
            cut_name(w, w->prefix);
            exg_text_puts(&w->name, "(data.pkl)");
            EXG_TRY(exg_walk_list(w, &value, 0));
        }
    }
    return EXG_OK;
}

exg_status exg_saved_walk(exg_saved *file, const char *prefix, uint64_t budget, exg_error *err)
{
    exg_walker w = {.file = file,
                    .arena = file->archive.arena,
                    .name = EXG_TEXT_EMPTY,
                    .left = VALUES_MAX,
                    .budget = budget,
                    .err = err};
    exg_status status = EXG_OK;

    if (file->object == NULL) {
        return EXG_OK;
    }
    exg_text_puts(&w.name, prefix);
    w.prefix = w.name.length;
    status = w.name.failed ? no_memory(&w) : exg_walk_value(&w, file->object, 0);
    while (status == EXG_OK && w.depth > 0) {
        status = step(&w);
    }
    if (status == EXG_OK) {
        status = list_rest(&w);
    }
    exg_text_free(&w.name);
    return status;
}

static exg_status list_name(const char *kind, exg_skipped_code code, const char *where,
                            exg_map *seen, exg_weights *weights, exg_error *err)
{
    if (seen != NULL) {
        const char *key = exg_arena_strdup(seen->arena, kind);

        if (key == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
        if (exg_map_find(seen, key) != EXG_MAP_NONE) {
            return EXG_OK;
        }
        if (!exg_map_put(seen, key, 0)) {
            return EXG_OUT_OF_MEMORY(err);
        }
    }
    return exg_weights_skip_code(weights, where, kind, code, err);
}

exg_status exg_pickle_list_names(const exg_pickle *pickle, const char *where, exg_map *seen,
                                 exg_weights *weights, exg_error *err)
{
    for (uint32_t i = 0; i < pickle->global_count; i++) {
        const exg_pickle_global *global = pickle->globals[i];
        exg_pickle_value value = {.kind = EXG_PICKLE_GLOBAL, .as_global = pickle->globals[i]};
        exg_text kind = EXG_TEXT_EMPTY;
        exg_status status;

        if (global->tag != EXG_TAG_FOREIGN || global->code == EXG_CODE_NONE) {
            continue;
        }
        exg_pickle_put_kind(&kind, &value);
        status = exg_text_string(&kind) == NULL
                     ? EXG_OUT_OF_MEMORY(err)
                     : list_name(exg_text_string(&kind), global->code, where, seen, weights, err);
        exg_text_free(&kind);
        EXG_TRY(status);
    }
    return EXG_OK;
}
