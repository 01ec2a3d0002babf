/* edit.c - other weights made of weights (exg/weights_edit.h). */
#include <exg/weights_edit.h>

#include "libexport/base/map.h"
#include "libexport/base/options.h"
#include "libexport/base/require.h"
#include "libexport/base/xxh3.h"
#include "libexport/weights/made_storage.h"
#include "libexport/weights/name_rules.h"
#include "libexport/weights/storage.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define BLOCK_BYTES 65536 /* of a tensor, to be hashed */

typedef struct editor {
    exg_weights *of, *made;
    const exg_weights_edit_options *options;
    exg_name_rules *rules;
    exg_arena *arena;        /* scratch */
    uint32_t *storages;      /* of `of` -> of `made`, or UINT32_MAX */
    exg_map names;           /* new name -> weight of `of` */
    exg_map views;           /* what a tensor is -> weight of `made`: tied ones stay so */
    exg_map contents;        /* what a tensor holds -> weight of `made` */
    exg_map pairs;           /* metadata so far */
    exg_element_type *types; /* of options->dtypes */
    exg_error *err;
} editor;

/* ---- dtypes --------------------------------------------------------------------------------- */

/* "bf16", "bfloat16", "BF16": of the table in all its spellings. */
static exg_dtype dtype_of(const char *text)
{
    for (int i = EXG_DTYPE_UNKNOWN + 1; i < EXG_DTYPE_COUNT; i++) {
        exg_dtype dtype = (exg_dtype)i;

        if (strcasecmp(text, exg_dtype_name(dtype)) == 0 ||
            strcasecmp(text, exg_dtype_short_name(dtype)) == 0 ||
            strcasecmp(text, exg_dtype_safetensors(dtype)) == 0) {
            return dtype;
        }
    }
    return EXG_DTYPE_COUNT;
}

static exg_status read_dtypes(editor *e)
{
    const exg_string_map *dtypes = &e->options->dtypes;

    e->types = EXG_NEW_ARRAY(e->arena, exg_element_type, dtypes->count);
    if (e->types == NULL) {
        return EXG_OUT_OF_MEMORY(e->err);
    }
    for (uint32_t i = 0; i < dtypes->count; i++) {
        exg_element_type *type = &e->types[i];

        *type = (exg_element_type){dtype_of(dtypes->items[i].value),
                                   exg_block_named(dtypes->items[i].value)};
        if (type->block != NULL && type->block->encode != NULL) {
            type->dtype = EXG_DTYPE_U8;
        } else if (type->dtype == EXG_DTYPE_COUNT || !exg_dtype_is_float(type->dtype)) {
            return exg_error_fix(e->err,
                                 EXG_FAIL(e->err, USAGE, "WGT-DTYPE",
                                          "'%s' is not a floating-point dtype, nor blocks that are "
                                          "written",
                                          dtypes->items[i].value),
                                 "one of f32, bf16, f16, f64, f8e4m3fn, f8e5m2, f8e4m3fnuz, "
                                 "f8e5m2fnuz, f8e8m0fnu; of blocks q4_0, q4_1, q5_0, q5_1, q8_0, "
                                 "q4_k, q5_k, q6_k");
        }
    }
    return EXG_OK;
}

/* The elements in a row, of blocks those in them. */
static uint64_t row_of(const exg_weight *weight)
{
    const exg_tensor_meta *meta = weight->meta;
    uint64_t size = meta->rank == 0 ? 1 : (uint64_t)meta->sizes[meta->rank - 1].value;
    const exg_block *block = weight->encoding == NULL ? NULL : exg_block_named(weight->encoding);

    return block == NULL ? size : size / block->bytes * block->elements;
}

/* Is it a matrix of whole blocks by rows? Others stay as they are, as llama.cpp keeps them, unless
 * the rule means this one alone. */
static exg_status check_rows(editor *e, const exg_weight *weight, uint32_t rule, bool *fits)
{
    const exg_string_pair *pair = &e->options->dtypes.items[rule];
    const exg_block *block = e->types[rule].block;
    char why[80] = "it has fewer than two dimensions";

    *fits = weight->meta->rank > 1 && row_of(weight) % block->elements == 0;
    if (*fits) {
        return EXG_OK;
    }
    if (weight->meta->rank > 1) {
        snprintf(why, sizeof(why), "rows of %" PRIu64 " are no whole number of blocks of %" PRIu32,
                 row_of(weight), block->elements);
    }
    if (pair->key != NULL && strcmp(pair->key, weight->fqn) == 0) {
        return exg_error_fix(e->err,
                             EXG_FAIL(e->err, UNSUPPORTED, "WGT-BLOCK", "%s cannot be %s: %s",
                                      weight->fqn, block->name, why),
                             "a pattern that fits others too leaves it as it is");
    }
    if (e->options->kept != NULL) {
        e->options->kept(e->options->user, weight->fqn, why);
    }
    return EXG_OK;
}

/* The rule for what the elements of a tensor become, or UINT32_MAX. */
static uint32_t rule_of(editor *e, const exg_weight *weight)
{
    bool named = false;
    uint32_t rule = exg_name_rules_dtype(e->rules, weight->fqn, &named);

    return named || exg_dtype_is_float(weight->meta->dtype) || weight->encoding != NULL
               ? rule
               : UINT32_MAX;
}

static bool is_type(const exg_weight *weight, exg_element_type type)
{
    const exg_block *block = weight->encoding == NULL ? NULL : exg_block_named(weight->encoding);

    return block == type.block && weight->meta->dtype == type.dtype;
}

/* What the elements of a tensor become; *changes: they are not that already. */
static exg_status choose_type(editor *e, const exg_weight *weight, exg_element_type *type,
                              bool *changes)
{
    exg_dtype own = weight->meta->dtype;
    uint32_t rule = rule_of(e, weight);

    *changes = false;
    if (rule == UINT32_MAX) {
        return EXG_OK;
    }
    if ((weight->encoding != NULL && exg_block_named(weight->encoding) == NULL) ||
        exg_dtype_is_complex(own)) {
        return exg_error_fix(
            e->err,
            EXG_FAIL(e->err, UNSUPPORTED, "WGT-DTYPE",
                     "%s is %s, which is not "
                     "cast",
                     weight->fqn,
                     weight->encoding != NULL ? weight->encoding : exg_dtype_name(own)),
            "leave it out of the patterns of --dtype");
    }
    *type = e->types[rule];
    *changes = !is_type(weight, *type);
    return *changes && type->block != NULL ? check_rows(e, weight, rule, changes) : EXG_OK;
}

/* ---- storages ------------------------------------------------------------------------------- */

/* The storage of `made` that is this one of `of`. */
static exg_status take_storage(editor *e, uint32_t *storage)
{
    uint32_t of = *storage;

    if (e->storages[of] == UINT32_MAX) {
        EXG_TRY(exg_weights_add_storage(e->made, &e->of->storages[of], &e->storages[of], e->err));
    }
    *storage = e->storages[of];
    return EXG_OK;
}

/* Of a weight's elements as those of another type, packed; rows of blocks are rows of what is in
 * them. In scratch memory; NULL: out of memory. */
static exg_tensor_meta *packed_meta(editor *e, const exg_weight *weight, exg_element_type type)
{
    const exg_tensor_meta *of = weight->meta;
    exg_tensor_meta *meta = exg_arena_memdup(e->arena, of, 1, sizeof(*of));
    uint64_t row = row_of(weight);
    int64_t step = 1;

    if (meta == NULL ||
        (meta->sizes = exg_arena_memdup(e->arena, of->sizes, of->rank, sizeof(exg_sym_int))) ==
            NULL ||
        (meta->strides = EXG_NEW_ARRAY(e->arena, exg_sym_int, of->rank)) == NULL) {
        return NULL;
    }
    if (type.block != NULL) {
        row = row / type.block->elements * type.block->bytes;
    }
    if (meta->rank > 0) {
        meta->sizes[meta->rank - 1] = exg_sym_int_of((int64_t)row);
    }
    meta->dtype = type.dtype;
    meta->storage_offset = exg_sym_int_of(0);
    for (uint32_t d = of->rank; d-- > 0;) {
        meta->strides[d] = exg_sym_int_of(step);
        step *= meta->sizes[d].value == 0 ? 1 : meta->sizes[d].value;
    }
    return meta;
}

/* Tensors that were one stay one. */
static exg_status cast_storage(editor *e, exg_weight *weight, exg_element_type type)
{
    const char *view = exg_weight_view_key(weight, e->arena);
    const char *name = type.block != NULL ? type.block->name : exg_dtype_name(type.dtype);
    const char *key = view == NULL ? NULL : exg_arena_printf(e->arena, "%s of %s", name, view);
    uint32_t same = key == NULL ? EXG_MAP_NONE : exg_map_find(&e->views, key);
    exg_tensor_meta *meta = packed_meta(e, weight, type);

    if (key == NULL || meta == NULL) {
        return EXG_OUT_OF_MEMORY(e->err);
    }
    if (same != EXG_MAP_NONE) {
        weight->storage = same;
    } else {
        EXG_TRY(exg_weights_add_cast(e->made, e->of, weight, type, key, &weight->storage, e->err));
        if (!exg_map_put(&e->views, key, weight->storage)) {
            return EXG_OUT_OF_MEMORY(e->err);
        }
    }
    weight->meta = meta;
    weight->encoding = type.block == NULL ? NULL : type.block->name;
    return EXG_OK;
}

/* ---- views ------------------------------------------------------------------------------------
 */

static exg_status transpose(editor *e, exg_weight *weight)
{
    exg_arena *arena = e->made->arena; /* what is made of it later reads it there */
    exg_tensor_meta *meta = exg_arena_memdup(arena, weight->meta, 1, sizeof(*meta));
    uint32_t rank = weight->meta->rank;
    exg_sym_int held;

    if (rank < 2 || weight->encoding != NULL) {
        return EXG_FAIL(e->err, USAGE, "WGT-PATTERN", "%s cannot be transposed: %s", weight->fqn,
                        rank < 2 ? "it has fewer than two dimensions" : weight->encoding);
    }
    if (meta == NULL ||
        (meta->sizes = exg_arena_memdup(arena, meta->sizes, rank, sizeof(held))) == NULL ||
        (meta->strides = exg_arena_memdup(arena, meta->strides, rank, sizeof(held))) == NULL) {
        return EXG_OUT_OF_MEMORY(e->err);
    }
    held = meta->sizes[rank - 1];
    meta->sizes[rank - 1] = meta->sizes[rank - 2];
    meta->sizes[rank - 2] = held;
    held = meta->strides[rank - 1];
    meta->strides[rank - 1] = meta->strides[rank - 2];
    meta->strides[rank - 2] = held;
    weight->meta = meta;
    return EXG_OK;
}

/* ---- names ------------------------------------------------------------------------------------
 */

static exg_status take_name(editor *e, uint32_t index, exg_weight *weight)
{
    const char *name = NULL;
    uint32_t taken;

    EXG_TRY(exg_name_rules_rename(e->rules, weight->fqn, &name, e->err));
    taken = exg_map_find(&e->names, name);
    if (name[0] == '\0' && weight->fqn[0] != '\0') {
        return EXG_FAIL(e->err, USAGE, "WGT-NAME", "nothing would be left of the name %s",
                        weight->fqn);
    }
    if (taken != EXG_MAP_NONE) {
        return exg_error_fix(e->err,
                             EXG_FAIL(e->err, USAGE, "WGT-NAME",
                                      "%s and %s would both be called "
                                      "%s",
                                      e->of->items[taken].fqn, weight->fqn, name),
                             "leave one out with --exclude, or rename them apart");
    }
    weight->fqn = name;
    return exg_map_put(&e->names, name, index) ? EXG_OK : EXG_OUT_OF_MEMORY(e->err);
}

/* ---- equal tensors ----------------------------------------------------------------------------
 */

static exg_status hash_tensor(editor *e, const exg_weight *weight, uint8_t *block,
                              XXH128_hash_t *hash)
{
    uint32_t width = exg_dtype_bytes(weight->meta->dtype);
    XXH3_state_t *state = XXH3_createState();
    exg_status status = state == NULL ? EXG_OUT_OF_MEMORY(e->err) : EXG_OK;
    int64_t numel = 0;

    (void)exg_tensor_meta_numel(weight->meta, &numel);
    if (status == EXG_OK) {
        XXH3_128bits_reset(state);
    }
    for (uint64_t at = 0; status == EXG_OK && at < (uint64_t)numel; at += BLOCK_BYTES / width) {
        uint64_t left = (uint64_t)numel - at;
        uint64_t count = left < BLOCK_BYTES / width ? left : BLOCK_BYTES / width;

        status = exg_weight_read_range(e->made, weight, at, count, block, e->err);
        if (status == EXG_OK) {
            XXH3_128bits_update(state, block, (size_t)(count * width));
        }
    }
    if (status == EXG_OK) {
        *hash = XXH3_128bits_digest(state);
    }
    XXH3_freeState(state);
    return status;
}

/* What a tensor holds, as a text: dtype, shape, the hash of its bytes. */
static exg_status content_key(editor *e, const exg_weight *weight, const char **key)
{
    uint8_t *block = malloc(BLOCK_BYTES);
    exg_text text = EXG_TEXT_EMPTY;
    XXH128_hash_t hash = {0, 0};
    exg_status status =
        block == NULL ? EXG_OUT_OF_MEMORY(e->err) : hash_tensor(e, weight, block, &hash);

    free(block);
    exg_text_printf(&text, "%d %s %016" PRIx64 "%016" PRIx64, (int)weight->meta->dtype,
                    weight->encoding == NULL ? "" : weight->encoding, hash.high64, hash.low64);
    for (uint32_t d = 0; d < weight->meta->rank; d++) {
        exg_text_printf(&text, " %" PRId64, weight->meta->sizes[d].value);
    }
    *key = exg_text_string(&text) == NULL ? NULL : exg_arena_strdup(e->arena, text.data);
    exg_text_free(&text);
    return status != EXG_OK ? status : *key == NULL ? EXG_OUT_OF_MEMORY(e->err) : EXG_OK;
}

/* Left out when it is another again; nothing is saved of an empty one. */
static exg_status leave_out(editor *e, const exg_weight *weight, bool *left_out)
{
    const char *key = NULL;
    uint64_t bytes = 0;
    uint32_t first;

    *left_out = false;
    EXG_TRY(exg_tensor_meta_bytes(weight->meta, &bytes, e->err));
    if (!e->options->deduplicate || bytes == 0) {
        return EXG_OK;
    }
    EXG_TRY(content_key(e, weight, &key));
    first = exg_map_find(&e->contents, key);
    if (first == EXG_MAP_NONE) {
        return exg_map_put(&e->contents, key, e->made->count) ? EXG_OK : EXG_OUT_OF_MEMORY(e->err);
    }
    *left_out = true;
    return exg_weights_add_metadata(e->made, weight->fqn, e->made->items[first].fqn, e->err);
}

/* ---- all ----------------------------------------------------------------------------------- */

static exg_status take_weight(editor *e, uint32_t index)
{
    exg_weight weight = e->of->items[index];
    exg_element_type type = {0};
    bool changes = false;
    bool left_out = false;
    bool is_tensor = weight.meta != NULL && !weight.use_pickle;

    if (!exg_name_rules_keep(e->rules, weight.fqn)) {
        return EXG_OK;
    }
    if (is_tensor) {
        if (exg_name_rules_transpose(e->rules, weight.fqn)) {
            EXG_TRY(transpose(e, &weight));
        }
        EXG_TRY(choose_type(e, &weight, &type, &changes));
        EXG_TRY(changes ? cast_storage(e, &weight, type) : take_storage(e, &weight.storage));
    } else {
        EXG_TRY(take_storage(e, &weight.storage));
    }
    EXG_TRY(take_name(e, index, &weight));
    if (is_tensor) {
        EXG_TRY(leave_out(e, &weight, &left_out));
    }
    return left_out ? EXG_OK : exg_weights_add(e->made, &weight, e->err);
}

/* What the options say of a key, or NULL. */
static const char *value_of(const exg_weights_edit_options *options, const char *key)
{
    const char *value = NULL;

    for (uint32_t i = 0; i < options->metadata.count; i++) {
        if (strcmp(options->metadata.items[i].key, key) == 0) {
            value = options->metadata.items[i].value;
        }
    }
    return value;
}

static exg_status add_pair(editor *e, const char *key, const char *value)
{
    if (exg_map_find(&e->pairs, key) != EXG_MAP_NONE || value[0] == '\0') {
        return EXG_OK;
    }
    EXG_TRY(exg_weights_add_metadata(e->made, key, value, e->err));
    return exg_map_put(&e->pairs, key, 0) ? EXG_OK : EXG_OUT_OF_MEMORY(e->err);
}

/* Is there a tensor of another type then? */
static bool casts(editor *e)
{
    for (uint32_t i = 0; e->options->dtypes.count > 0 && i < e->of->count; i++) {
        const exg_weight *weight = &e->of->items[i];
        uint32_t rule = weight->meta == NULL || !exg_name_rules_keep(e->rules, weight->fqn)
                            ? UINT32_MAX
                            : rule_of(e, weight);

        if (rule != UINT32_MAX && !is_type(weight, e->types[rule])) {
            return true;
        }
    }
    return false;
}

/* What most tensors are (of GGUF) is no longer so when they are cast; its writer says it anew. */
static exg_status take_metadata(editor *e)
{
    const exg_string_map *own = &e->of->metadata;
    const exg_string_map *given = &e->options->metadata;
    bool cast = casts(e);

    for (uint32_t i = 0; i < own->count; i++) {
        const char *key = own->items[i].key;
        const char *value = value_of(e->options, key);

        if (value != NULL) {
            EXG_TRY(add_pair(e, key, value));
        } else if (exg_name_rules_keep_metadata(e->rules, key) &&
                   !(cast && strcmp(key, "general.file_type") == 0)) {
            EXG_TRY(exg_weights_add_metadata_as(e->made, key, exg_weights_metadata_kind(e->of, i),
                                                own->items[i].value, e->err));
        }
    }
    for (uint32_t i = 0; i < given->count; i++) {
        EXG_TRY(add_pair(e, given->items[i].key, value_of(e->options, given->items[i].key)));
    }
    return EXG_OK;
}

static exg_status take_skipped(editor *e)
{
    for (uint32_t i = 0; i < e->of->skipped_count; i++) {
        const exg_skipped *skipped = &e->of->skipped[i];

        if (exg_name_rules_keep(e->rules, skipped->name)) {
            EXG_TRY(exg_weights_skip_code(e->made, skipped->name, skipped->kind, skipped->code,
                                          e->err));
        }
    }
    return EXG_OK;
}

static exg_status edit(editor *e)
{
    EXG_TRY(read_dtypes(e));
    EXG_TRY(exg_name_rules_open(e->of, e->options, e->arena, &e->rules, e->err));
    EXG_TRY(exg_weights_create(exg_arena_allocator(e->of->arena), &e->made, e->err));
    EXG_TRY(exg_weights_set_directory(e->made, exg_weights_directory(e->of), e->err));
    EXG_TRY(exg_weights_retain_in(e->made, e->of, e->err));
    EXG_TRY(take_metadata(e));
    for (uint32_t i = 0; i < e->of->count; i++) {
        EXG_TRY_IN(e->err, take_weight(e, i), "['%s']", e->of->items[i].fqn);
    }
    EXG_TRY(take_skipped(e));
    return e->options->lenient ? EXG_OK : exg_name_rules_check_used(e->rules, e->err);
}

exg_status exg_weights_edit(exg_weights *of, const exg_weights_edit_options *given,
                            exg_weights **made, exg_error *err)
{
    EXG_REQUIRE(err, of, made);
    exg_weights_edit_options options = {0};
    editor e = {.of = of, .options = &options, .err = err};
    exg_status status;

    *made = NULL;
    EXG_TRY(EXG_READ_OPTIONS(exg_weights_edit_options, &options, given, err));
    e.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    e.storages = e.arena == NULL ? NULL : EXG_NEW_ARRAY(e.arena, uint32_t, of->storage_count);
    if (e.storages == NULL) {
        exg_arena_destroy(e.arena);
        return EXG_OUT_OF_MEMORY(err);
    }
    memset(e.storages, 0xff, of->storage_count * sizeof(*e.storages));
    exg_map_init(&e.names, e.arena);
    exg_map_init(&e.views, e.arena);
    exg_map_init(&e.contents, e.arena);
    exg_map_init(&e.pairs, e.arena);
    status = edit(&e);
    exg_name_rules_close(e.rules);
    exg_arena_destroy(e.arena);
    if (status != EXG_OK) {
        exg_weights_release(e.made);
        return status;
    }
    *made = e.made;
    return EXG_OK;
}
