/* edit.c - other weights made of weights (exg/weights_edit.h). */
#include <exg/weights_edit.h>

#include "libexport/base/checked.h"
#include "libexport/base/map.h"
#include "libexport/base/options.h"
#include "libexport/base/require.h"
#include "libexport/base/xxh3.h"
#include "libexport/weights/made_storage.h"
#include "libexport/weights/name_rules.h"
#include "libexport/weights/rearrange.h"
#include "libexport/weights/storage.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    exg_preset *preset;      /* or NULL */
    exg_preset_numbers numbers;
    bool preset_used;   /* a rule of it fitted */
    struct join *joins; /* by presets */
    uint32_t join_count, join_capacity;
    exg_map join_names; /* -> place in joins */
    exg_error *err;
} editor;

/* ---- dtypes --------------------------------------------------------------------------------- */

/* "bf16", "bfloat16", "BF16": of the table in all its spellings. */
/* "F8_E4M3", "f8e4m3" */
static bool same_name(const char *a, const char *b)
{
    do {
        a += strspn(a, "_");
        b += strspn(b, "_");
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b)) {
            return false;
        }
    } while (*a++ != '\0' && *b++ != '\0');
    return true;
}

static exg_dtype dtype_of(const char *text)
{
    for (int i = EXG_DTYPE_UNKNOWN + 1; i < EXG_DTYPE_COUNT; i++) {
        exg_dtype dtype = (exg_dtype)i;

        if (same_name(text, exg_dtype_name(dtype)) ||
            same_name(text, exg_dtype_short_name(dtype)) ||
            same_name(text, exg_dtype_safetensors(dtype))) {
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

/* The shape of a weight by elements, of blocks those in them. */
static uint32_t shape_of(const exg_weight *weight, int64_t sizes[EXG_BLOCK_RANK_MAX])
{
    const exg_tensor_meta *meta = weight->meta;
    const exg_block *block = weight->encoding == NULL ? NULL : exg_block_named(weight->encoding);
    uint32_t rank = meta->rank;

    if (block != NULL && exg_block_shape(weight->encoding, sizes, &rank)) {
        return rank;
    }
    for (uint32_t d = 0; d < rank; d++) {
        sizes[d] = meta->sizes[d].value;
    }
    if (block != NULL) {
        sizes[rank - 1] = sizes[rank - 1] / block->bytes * block->elements;
    }
    return rank;
}

/* Rows of blocks whose elements no number counts, beside a dimension of 0. */
static bool passes_64_bits(const exg_weight *weight)
{
    const exg_block *block = weight->encoding == NULL ? NULL : exg_block_named(weight->encoding);
    uint32_t rank = weight->meta->rank;
    int64_t elements;

    return block != NULL && rank > 0 &&
           __builtin_mul_overflow(weight->meta->sizes[rank - 1].value / block->bytes,
                                  block->elements, &elements);
}

/* Is it a matrix of whole blocks by rows? Others stay as they are, as llama.cpp keeps them, unless
 * the rule means this one alone. */
static exg_status check_rows(editor *e, const exg_weight *weight, uint32_t rule, bool *fits)
{
    const exg_string_pair *pair = &e->options->dtypes.items[rule];
    const exg_block *block = e->types[rule].block;
    int64_t sizes[EXG_BLOCK_RANK_MAX];
    uint32_t rank = shape_of(weight, sizes);
    char why[80] = "it has fewer than two dimensions";

    *fits = rank > 1 && sizes[rank - 1] % block->elements == 0;
    if (*fits) {
        return EXG_OK;
    }
    if (rank > 1) {
        snprintf(why, sizeof(why), "rows of %" PRId64 " are no whole number of blocks of %" PRIu32,
                 sizes[rank - 1], block->elements);
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
    if (weight->meta->rank > EXG_BLOCK_RANK_MAX) {
        return exg_error_fix(e->err,
                             EXG_FAIL(e->err, LIMIT, "WGT-011", "%s has %u dimensions", weight->fqn,
                                      weight->meta->rank),
                             "leave it out with --exclude");
    }
    if (passes_64_bits(weight)) {
        return exg_error_fix(
            e->err,
            EXG_FAIL(e->err, LIMIT, "WGT-011", "the elements of %s pass 64 bits", weight->fqn),
            "leave it out with --exclude");
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

/* Its storage is then one of `made`. */
static exg_status take_home(editor *e, exg_piece *piece)
{
    if (piece->home == e->of) {
        EXG_TRY(take_storage(e, &piece->weight.storage));
        piece->home = e->made;
    }
    return EXG_OK;
}

/* Of a weight's elements as those of another type, packed; rows of blocks are rows of what is in
 * them. In scratch memory; NULL: out of memory. */
static exg_tensor_meta *packed_meta(editor *e, const exg_weight *weight, exg_element_type type)
{
    exg_tensor_meta *meta = exg_arena_memdup(e->arena, weight->meta, 1, sizeof(*weight->meta));
    int64_t sizes[EXG_BLOCK_RANK_MAX];
    uint32_t rank = shape_of(weight, sizes);

    if (meta == NULL || (meta->sizes = EXG_NEW_ARRAY(e->arena, exg_sym_int, rank)) == NULL ||
        (meta->strides = EXG_NEW_ARRAY(e->arena, exg_sym_int, rank)) == NULL) {
        return NULL;
    }
    if (type.block != NULL) {
        sizes[rank - 1] = sizes[rank - 1] / type.block->elements * type.block->bytes;
    }
    meta->rank = rank;
    for (uint32_t d = 0; d < rank; d++) {
        meta->sizes[d] = exg_sym_int_of(sizes[d]);
    }
    meta->dtype = type.dtype;
    exg_tensor_meta_pack(meta);
    return meta;
}

/* Tensors that were one stay one. */
static exg_status cast_storage(editor *e, exg_piece *piece, exg_element_type type)
{
    exg_weight *weight = &piece->weight;
    const char *view = exg_weight_view_key(weight, e->arena);
    const char *name = type.block != NULL ? type.block->name : exg_dtype_name(type.dtype);
    const char *key = view == NULL ? NULL
                                   : exg_arena_printf(e->arena, "%s of %s%s", name,
                                                      piece->home == e->made ? "made " : "", view);
    uint32_t same = key == NULL ? EXG_MAP_NONE : exg_map_find(&e->views, key);
    exg_tensor_meta *meta = packed_meta(e, weight, type);

    if (key == NULL || meta == NULL) {
        return EXG_OUT_OF_MEMORY(e->err);
    }
    if (same != EXG_MAP_NONE) {
        weight->storage = same;
    } else {
        EXG_TRY(exg_weights_add_cast(e->made, piece->home, weight, type, key, &weight->storage,
                                     e->err));
        if (!exg_map_put(&e->views, key, weight->storage)) {
            return EXG_OUT_OF_MEMORY(e->err);
        }
    }
    weight->meta = meta;
    weight->encoding = type.block == NULL ? NULL : type.block->name;
    return EXG_OK;
}

/* ---- names ------------------------------------------------------------------------------------
 */

/* `stripped`: without prefixes, and as a preset calls it. */
static exg_status take_name(editor *e, uint32_t index, const char *stripped, exg_weight *weight)
{
    const char *name = NULL;
    uint32_t taken;

    EXG_TRY(exg_name_rules_rename(e->rules, stripped, &name, e->err));
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

/* Into the table, of the type and under the name that it gets. */
static exg_status add_piece(editor *e, uint32_t index, const char *stripped, exg_piece *piece)
{
    exg_weight *weight = &piece->weight;
    bool left_out = false;

    EXG_TRY(take_name(e, index, stripped, weight));
    if (weight->meta != NULL && !weight->use_pickle) {
        EXG_TRY(leave_out(e, weight, &left_out));
    }
    return left_out ? EXG_OK : exg_weights_add(e->made, weight, e->err);
}

/* Its elements, as they are or cast, in a storage of `made`. */
static exg_status take_elements(editor *e, exg_piece *piece)
{
    exg_weight *weight = &piece->weight;
    exg_element_type type = {0};
    bool changes = false;

    if (weight->meta != NULL && !weight->use_pickle) {
        if (exg_name_rules_transpose(e->rules, weight->fqn)) {
            EXG_TRY(exg_piece_transpose(piece, e->made, e->err));
        }
        EXG_TRY(choose_type(e, weight, &type, &changes));
    }
    if (changes) {
        EXG_TRY(cast_storage(e, piece, type));
        piece->home = e->made;
    }
    return take_home(e, piece);
}

/* ---- presets ----------------------------------------------------------------------------------
 */

/* A tensor that is put together of several. */
typedef struct join {
    const char *name; /* as the preset calls it */
    uint32_t count, have;
    exg_weight *parts; /* those that are there have a name */
} join;

static exg_status rearrange(editor *e, const exg_preset_operation *operation, exg_piece *piece)
{
    const exg_tensor_meta *meta = piece->weight.meta;
    int64_t rows = meta->rank == 0 ? 1 : meta->sizes[0].value;
    int64_t factors[EXG_PRESET_FACTORS] = {0};
    uint32_t count = operation->kind == EXG_PRESET_FIRST ? 1 : operation->count;

    for (uint32_t i = 0; i < count; i++) {
        EXG_TRY(exg_preset_number(&e->numbers, operation->factors[i], &factors[i], e->err));
    }
    switch (operation->kind) {
    case EXG_PRESET_TRANSPOSE:
        return exg_piece_transpose(piece, e->made, e->err);
    case EXG_PRESET_ROWS:
        return exg_piece_order_rows(piece, factors, operation->order, count, e->made, e->err);
    case EXG_PRESET_FIRST:
        return exg_piece_take_rows(piece, 0, factors[0], e->made, e->err);
    case EXG_PRESET_SLICE:
        if (rows % operation->parts != 0) {
            return EXG_FAIL(e->err, USAGE, "WGT-PRESET",
                            "%s has %" PRId64 " rows, which are not %u equal parts",
                            piece->weight.fqn, rows, operation->parts);
        }
        rows /= operation->parts;
        return exg_piece_take_rows(piece, operation->part * rows, rows, e->made, e->err);
    case EXG_PRESET_JOIN:
        break; /* of what is made of it */
    }
    return EXG_OK;
}

static exg_status find_join(editor *e, const char *name, uint32_t parts, join **found)
{
    uint32_t at = exg_map_find(&e->join_names, name);
    join *made;

    if (at == EXG_MAP_NONE) {
        at = e->join_count;
        if (!exg_arena_reserve(e->arena, &e->joins, at, &e->join_capacity, sizeof(*e->joins)) ||
            !exg_map_put(&e->join_names, name, at)) {
            return EXG_OUT_OF_MEMORY(e->err);
        }
        e->joins[e->join_count++] =
            (join){name, parts, 0, EXG_NEW_ARRAY(e->arena, exg_weight, parts)};
    }
    made = &e->joins[at];
    *found = made;
    return made->parts == NULL ? EXG_OUT_OF_MEMORY(e->err) : EXG_OK;
}

/* The last part that comes makes it. */
static exg_status join_piece(editor *e, uint32_t index, const char *name,
                             const exg_preset_operation *operation, const exg_piece *piece)
{
    exg_piece whole = {e->made, {0}};
    join *j = NULL;

    EXG_TRY(find_join(e, name, operation->parts, &j));
    if (operation->part >= j->count || j->parts[operation->part].fqn != NULL) {
        return EXG_FAIL(e->err, USAGE, "WGT-NAME", "%s and another tensor would be one part of %s",
                        piece->weight.fqn, name);
    }
    j->parts[operation->part] = piece->weight;
    j->have++;
    if (j->have < j->count) {
        return EXG_OK;
    }
    EXG_TRY(exg_pieces_join(j->parts, j->count, e->made, &whole.weight, e->err));
    return add_piece(e, index, name, &whole);
}

static exg_status check_joins(editor *e)
{
    for (uint32_t i = 0; i < e->join_count; i++) {
        const join *j = &e->joins[i];

        for (uint32_t part = 0; j->have < j->count && part < j->count; part++) {
            if (j->parts[part].fqn == NULL) {
                return exg_error_fix(e->err,
                                     EXG_FAIL(e->err, USAGE, "WGT-PRESET",
                                              "part %u of %u of %s is not among the tensors",
                                              part + 1, j->count, j->name),
                                     "give all files of the model, or leave the others out with "
                                     "--exclude");
            }
        }
    }
    return EXG_OK;
}

static exg_status check_tensor(editor *e, const exg_piece *piece)
{
    const exg_weight *weight = &piece->weight;

    return weight->meta == NULL || weight->use_pickle
               ? EXG_FAIL(e->err, USAGE, "WGT-PRESET", "%s is no tensor", weight->fqn)
               : exg_tensor_meta_check_view(weight->meta,
                                            piece->home->storages[weight->storage].length, e->err);
}

static exg_status follow_rule(editor *e, uint32_t index, const exg_preset_rule *rule,
                              const char *name)
{
    exg_piece piece = {e->of, e->of->items[index]};
    const exg_preset_operation *last =
        rule->operation_count == 0 ? NULL : &rule->operations[rule->operation_count - 1];

    if (rule->to == NULL) {
        return EXG_OK;
    }
    for (uint32_t i = 0; i < rule->operation_count; i++) {
        EXG_TRY(check_tensor(e, &piece));
        EXG_TRY(rearrange(e, &rule->operations[i], &piece));
    }
    if (e->options->shard_count > 0 && rule->shard.given) {
        EXG_TRY(check_tensor(e, &piece));
        EXG_TRY(take_home(e, &piece));
        EXG_TRY(exg_piece_take_part(&piece, rule, &e->numbers, e->options->shard,
                                    e->options->shard_count, e->made, e->err));
    }
    EXG_TRY(take_elements(e, &piece));
    return last != NULL && last->kind == EXG_PRESET_JOIN ? join_piece(e, index, name, last, &piece)
                                                         : add_piece(e, index, name, &piece);
}

/* By all rules of the preset that fit; *fits: there is one. */
static exg_status follow_preset(editor *e, uint32_t index, const char *stripped, bool *fits)
{
    *fits = false;
    for (uint32_t i = 0; e->preset != NULL && i < e->preset->count; i++) {
        const exg_preset_rule *rule = &e->preset->rules[i];
        const char *name = NULL;

        EXG_TRY(exg_name_fit(&rule->from, rule->to == NULL ? "" : rule->to, stripped, e->arena,
                             &name, e->err));
        if (name != NULL) {
            *fits = true;
            EXG_TRY(follow_rule(e, index, rule, name));
        }
    }
    e->preset_used = e->preset_used || *fits;
    return EXG_OK;
}

static exg_status take_weight(editor *e, uint32_t index)
{
    exg_piece piece = {e->of, e->of->items[index]};
    const char *stripped;
    bool fits = false;

    if (!exg_name_rules_keep(e->rules, piece.weight.fqn) ||
        exg_name_rules_is_beside(e->rules, piece.weight.fqn)) {
        return EXG_OK;
    }
    stripped = exg_name_rules_strip(e->rules, piece.weight.fqn);
    EXG_TRY(follow_preset(e, index, stripped, &fits));
    if (fits) {
        return EXG_OK;
    }
    if (e->preset != NULL && e->options->kept != NULL) {
        e->options->kept(e->options->user, piece.weight.fqn, "no rule of the preset fits its name");
    }
    EXG_TRY(take_elements(e, &piece));
    return add_piece(e, index, stripped, &piece);
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

static exg_status check_shard(editor *e)
{
    uint32_t count = e->options->shard_count;

    if (count > 0 && e->options->shard >= count) {
        return EXG_FAIL(e->err, USAGE, "WGT-PRESET", "of %u ranks there is no rank %u", count,
                        e->options->shard);
    }
    return count == 0 || (e->preset != NULL && e->preset->has_shard)
               ? EXG_OK
               : exg_error_fix(e->err,
                               EXG_FAIL(e->err, USAGE, "WGT-PRESET",
                                        "the preset says of no tensor how ranks share it"),
                               "hf-to-llama and hf-to-megatron-gpt do; --for PROGRAM shares by a "
                               "placement of the program");
}

/* Of some none: whoever asked for that meant something else. */
static exg_status check_left(editor *e)
{
    return e->of->count == 0 || e->made->count > 0
               ? EXG_OK
               : exg_error_fix(e->err,
                               EXG_FAIL(e->err, USAGE, "WGT-PATTERN", "of %u tensors none is left",
                                        e->of->count),
                               "exg inspect lists the names in the file, which patterns are of");
}

static exg_status edit(editor *e)
{
    EXG_TRY(read_dtypes(e));
    if (e->options->preset != NULL) {
        EXG_TRY(exg_preset_open(e->options->preset, e->arena, &e->preset, e->err));
        e->numbers = (exg_preset_numbers){e->preset, &e->options->numbers, &e->of->metadata};
    }
    EXG_TRY(check_shard(e));
    EXG_TRY(exg_name_rules_open(e->of, e->options, e->arena, &e->rules, e->err));
    EXG_TRY(exg_weights_create(exg_arena_allocator(e->of->arena), &e->made, e->err));
    EXG_TRY(exg_weights_set_directory(e->made, exg_weights_directory(e->of), e->err));
    EXG_TRY(exg_weights_retain_in(e->made, e->of, e->err));
    EXG_TRY(take_metadata(e));
    for (uint32_t i = 0; i < e->of->count; i++) {
        EXG_TRY_IN(e->err, take_weight(e, i), "['%s']", e->of->items[i].fqn);
    }
    EXG_TRY(check_joins(e));
    EXG_TRY(take_skipped(e));
    if (e->preset != NULL && !e->preset_used && !e->options->lenient) {
        return exg_error_fix(e->err,
                             EXG_FAIL(e->err, USAGE, "WGT-PRESET",
                                      "no rule of the preset fits the name of a tensor"),
                             "is it the preset for this model? --prefix-strip takes away what is "
                             "before the names");
    }
    if (e->options->lenient) {
        return EXG_OK;
    }
    EXG_TRY(exg_name_rules_check_used(e->rules, e->err));
    return check_left(e);
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
    exg_map_init(&e.join_names, e.arena);
    status = edit(&e);
    exg_name_rules_close(e.rules);
    exg_preset_close(e.preset);
    exg_arena_destroy(e.arena);
    if (status != EXG_OK) {
        exg_weights_release(e.made);
        return status;
    }
    *made = e.made;
    return EXG_OK;
}
