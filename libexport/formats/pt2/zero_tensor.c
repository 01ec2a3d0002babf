/* zero_tensor.c - parameters of tensor-parallel ranks.
 *
 * Lists of patterns say of which parameters all ranks have the same, and which are cut along the
 * second dim; all others are cut along the first. Some are several parameters in one, each of which
 * was cut: queries, keys and values, or a gate and what it opens.
 */
#include "libexport/formats/pt2/zero_tensor.h"

#include "libexport/base/arena.h"
#include "libexport/base/map.h"
#include "libexport/formats/name_list.h"
#include "libexport/formats/pt2/chunks.h"
#include "libexport/formats/pt2/name_pattern.h"
#include "libexport/weights/made_storage.h"
#include "libexport/weights/storage.h"

#include <inttypes.h>
#include <string.h>

#define LISTED_BYTES  160 /* of names in a message */
#define INNER_MAX     64  /* parameters in one */
#define RANK_MAX      64
#define MATCHINGS_MAX (UINT64_C(1) << 28) /* names times patterns */

typedef struct joiner {
    exg_weights *const *of;
    uint32_t count;
    const exg_pickle_value *info;
    exg_weights *weights;
    exg_arena *arena; /* scratch */
    exg_map *names;   /* of each rank: name -> weight */
    exg_map views;    /* of the first: what a weight is of -> weight */
    exg_error *err;
} joiner;

/* How a parameter is cut: `inner` parameters along `dim`, of which rank t has
 * widths[inner * count + t]. */
typedef struct cut {
    uint32_t dim, inner;
    int64_t *widths;
} cut;

static exg_status unsupported(const joiner *j, const char *name, const char *what)
{
    return EXG_FAIL(j->err, UNSUPPORTED, "ZERO-TENSOR", "['%s']: %s", name, what);
}

static exg_status damaged(const joiner *j, const char *name, const char *what)
{
    return EXG_FAIL(j->err, MALFORMED, "ZERO-STATE", "['%s']: %s", name, what);
}

/* ---- patterns --------------------------------------------------------------------------------
 */

static bool is_sequence(const exg_pickle_value *value)
{
    return value != NULL && (value->kind == EXG_PICKLE_LIST || value->kind == EXG_PICKLE_TUPLE);
}

static bool is_dict(const exg_pickle_value *value)
{
    return value != NULL && value->kind == EXG_PICKLE_DICT;
}

/* Does one of a list fit, or of the keys of a dict? *which, if it is no NULL: that one. */
static bool fits_any(const exg_pickle_value *list, const char *name, const char **which)
{
    uint32_t count = is_sequence(list) || is_dict(list) ? list->as_items.count : 0;

    for (uint32_t i = 0; i < count; i += is_dict(list) ? 2 : 1) {
        const exg_pickle_value *pattern = list->as_items.items[i];

        if (exg_pickle_is_name(pattern) && exg_name_pattern_fits(pattern->as_text.data, name)) {
            if (which != NULL) {
                *which = pattern->as_text.data;
            }
            return true;
        }
    }
    return false;
}

static bool is_said(const joiner *j, const char *key, const char *name)
{
    return fits_any(exg_pickle_get(j->info, key), name, NULL);
}

/* Of a list of patterns, of a dict by patterns, or (`depth` 1) of a list of dicts with a list. */
static exg_status check_patterns(const joiner *j, const exg_pickle_value *list, int depth,
                                 uint64_t *count)
{
    uint32_t items = is_sequence(list) || is_dict(list) ? list->as_items.count : 0;

    for (uint32_t i = 0; i < items; i += is_dict(list) ? 2 : 1) {
        const exg_pickle_value *item = list->as_items.items[i];

        ++*count;
        if (depth > 0 && is_dict(item)) {
            EXG_TRY(check_patterns(j, exg_pickle_get(item, "patterns"), depth - 1, count));
        } else if (!exg_pickle_is_name(item) || !exg_name_pattern_is_known(item->as_text.data)) {
            return EXG_FAIL(j->err, UNSUPPORTED, "ZERO-TENSOR",
                            "a pattern that says how parts go together is not known: '%s'",
                            exg_pickle_is_name(item) ? item->as_text.data : "no text");
        }
    }
    return EXG_OK;
}

static exg_status check_info(const joiner *j)
{
    static const char *const keys[] = {
        "tp_replicated_parameter_patterns",        "parameter_to_average_patterns",
        "parameter_with_row_parallelism_patterns", "vocabulary_parameter_patterns",
        "parameter_with_2_sub_params_cat_dim_0",   "parameter_with_sub_params",
        "autotp_unsupported_parameter_patterns",   "expert_parameter_patterns"};
    exg_name_list names = EXG_NAME_LIST_EMPTY(LISTED_BYTES);
    uint64_t patterns = 0;
    exg_status status;

    if (is_dict(j->info)) {
        for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
            EXG_TRY(check_patterns(j, exg_pickle_get(j->info, keys[i]), 1, &patterns));
        }
        return patterns * j->of[0]->count <= MATCHINGS_MAX
                   ? EXG_OK
                   : EXG_FAIL(j->err, LIMIT, "ZERO-TENSOR", "%" PRIu64 " patterns are too many",
                              patterns);
    }
    for (uint32_t i = 0; i < j->of[0]->count; i++) {
        exg_name_list_add(&names, j->of[0]->items[i].fqn);
    }
    status = exg_text_string(&names.text) == NULL
                 ? EXG_OUT_OF_MEMORY(j->err)
                 : EXG_FAIL(j->err, UNSUPPORTED, "ZERO-TENSOR",
                            "of %u tensor-parallel ranks no file says how the parts go together "
                            "(universal_checkpoint_info): %s",
                            j->count, names.text.data);
    exg_text_free(&names.text);
    return status;
}

/* ---- how it is cut ----------------------------------------------------------------------------
 */

static const exg_weight *of_rank(const joiner *j, uint32_t rank, const char *name)
{
    uint32_t found = exg_map_find(&j->names[rank], name);

    return found == EXG_MAP_NONE ? NULL : &j->of[rank]->items[found];
}

static int64_t size_of(const joiner *j, uint32_t rank, const char *name, uint32_t dim)
{
    return of_rank(j, rank, name)->meta->sizes[dim].value;
}

static exg_status begin_cut(const joiner *j, const char *name, uint32_t dim, uint32_t inner, cut *c)
{
    *c = (cut){.dim = dim, .inner = inner};
    if (dim >= of_rank(j, 0, name)->meta->rank) {
        return unsupported(j, name, "it has fewer dims than it is cut along");
    }
    if (inner == 0 || inner > INNER_MAX) {
        return unsupported(j, name, "it is too many parameters in one, or none");
    }
    c->widths = EXG_NEW_ARRAY(j->arena, int64_t, (size_t)inner * j->count);
    return c->widths == NULL ? EXG_OUT_OF_MEMORY(j->err) : EXG_OK;
}

/* Each rank has as much of each. */
static exg_status cut_evenly(const joiner *j, const char *name, cut *c)
{
    for (uint32_t t = 0; t < j->count; t++) {
        int64_t size = size_of(j, t, name, c->dim);

        if (size % c->inner != 0 || size != size_of(j, 0, name, c->dim)) {
            return damaged(j, name, "the parameters in it are not cut evenly");
        }
        for (uint32_t i = 0; i < c->inner; i++) {
            c->widths[(size_t)i * j->count + t] = size / c->inner;
        }
    }
    return EXG_OK;
}

static bool read_size(const exg_pickle_value *value, int64_t *size)
{
    *size = value != NULL && value->kind == EXG_PICKLE_INT ? value->as_int : -1;
    return *size >= 0;
}

/* {"^qkv$": [[4, 4], [2, 2], [2, 2]]}: of each parameter in it what each rank has. */
static exg_status read_widths(const joiner *j, const char *name, const exg_pickle_value *widths,
                              cut *c)
{
    bool good = is_sequence(widths) && widths->as_items.count == c->inner;

    for (uint32_t i = 0; good && i < c->inner; i++) {
        const exg_pickle_value *of = widths->as_items.items[i];

        good = is_sequence(of) && of->as_items.count == j->count;
        for (uint32_t t = 0; good && t < j->count; t++) {
            good = read_size(of->as_items.items[t], &c->widths[(size_t)i * j->count + t]);
        }
    }
    return good ? EXG_OK : damaged(j, name, "what ranks have of the parameters in it is not said");
}

/* (12, 4, 4): the sizes of the parameters in it, each cut evenly; 3: so many of one size. */
static exg_status divide_sizes(const joiner *j, const char *name, const exg_pickle_value *sizes,
                               cut *c)
{
    if (!is_sequence(sizes)) {
        return cut_evenly(j, name, c);
    }
    for (uint32_t i = 0; i < c->inner; i++) {
        int64_t size;

        if (!read_size(sizes->as_items.items[i], &size) || size % j->count != 0) {
            return damaged(j, name, "the parameters in it are not cut evenly");
        }
        for (uint32_t t = 0; t < j->count; t++) {
            c->widths[(size_t)i * j->count + t] = size / j->count;
        }
    }
    return EXG_OK;
}

/* Since version 0.4 they may be cut unevenly. */
static bool needs_widths(const joiner *j)
{
    const exg_pickle_value *version = exg_pickle_get(j->info, "universal_checkpoint_version");

    return version != NULL && ((version->kind == EXG_PICKLE_FLOAT && version->as_float >= 0.4) ||
                               (version->kind == EXG_PICKLE_INT && version->as_int > 0));
}

/* {"patterns": [...], "shape": ((4, 2, 2), -1), "partition_dim": 0} */
static exg_status cut_inner(const joiner *j, const char *name, const exg_pickle_value *said,
                            const char *pattern, cut *c)
{
    const exg_tensor_meta *meta = of_rank(j, 0, name)->meta;
    const exg_pickle_value *shape = exg_pickle_get(said, "shape");
    const exg_pickle_value *widths =
        exg_pickle_get(exg_pickle_get(j->info, "sub_param_shard_widths"), pattern);
    const exg_pickle_value *sizes;
    int64_t dim;
    int64_t inner;

    if (!read_size(exg_pickle_get(said, "partition_dim"), &dim) || dim > RANK_MAX ||
        !is_sequence(shape) || shape->as_items.count != meta->rank || dim >= meta->rank) {
        return unsupported(j, name, "the parameters in it have other dims than it");
    }
    for (uint32_t d = 0; d < meta->rank; d++) {
        const exg_pickle_value *size = shape->as_items.items[d];

        if (d != dim && (size->kind != EXG_PICKLE_INT ||
                         (size->as_int != -1 && size->as_int != meta->sizes[d].value))) {
            return unsupported(j, name, "the parameters in it have other dims than it");
        }
    }
    sizes = shape->as_items.items[dim];
    inner = is_sequence(sizes) ? sizes->as_items.count : 0;
    if (!is_sequence(sizes) && !read_size(sizes, &inner)) {
        return damaged(j, name, "the sizes of the parameters in it are not said");
    }
    EXG_TRY(begin_cut(j, name, (uint32_t)dim, inner > INNER_MAX ? UINT32_MAX : (uint32_t)inner, c));
    return widths != NULL || needs_widths(j) ? read_widths(j, name, widths, c)
                                             : divide_sizes(j, name, sizes, c);
}

/* `inner` stays 0 where all ranks have the same. */
static exg_status find_cut(const joiner *j, const exg_weight *first, cut *c)
{
    const char *name = first->fqn;
    const exg_pickle_value *several = exg_pickle_get(j->info, "parameter_with_sub_params");
    bool by_rows = is_said(j, "parameter_with_row_parallelism_patterns", name);
    const char *pattern = "";

    *c = (cut){0};
    if (is_said(j, "autotp_unsupported_parameter_patterns", name) ||
        is_said(j, "expert_parameter_patterns", name)) {
        return unsupported(j, name, "the file says that it is not put together so");
    }
    if (is_said(j, "tp_replicated_parameter_patterns", name) ||
        is_said(j, "parameter_to_average_patterns", name)) {
        return EXG_OK;
    }
    if (is_said(j, "parameter_with_2_sub_params_cat_dim_0", name)) {
        EXG_TRY(begin_cut(j, name, 0, 2, c));
        return cut_evenly(j, name, c);
    }
    for (uint32_t i = 0; is_sequence(several) && i < several->as_items.count; i++) {
        const exg_pickle_value *said = several->as_items.items[i];

        if (fits_any(exg_pickle_get(said, "patterns"), name, &pattern)) {
            return cut_inner(j, name, said, pattern, c);
        }
    }
    if (!by_rows && !first->meta->requires_grad) { /* a buffer, or frozen: nothing says so */
        return EXG_OK;
    }
    EXG_TRY(begin_cut(j, name, by_rows ? 1 : 0, 1, c));
    for (uint32_t t = 0; t < j->count; t++) {
        c->widths[t] = size_of(j, t, name, c->dim);
    }
    return EXG_OK;
}

/* ---- putting together -------------------------------------------------------------------------
 */

/* Have all ranks a tensor of that name, which differs along one dim at most? */
static exg_status check_ranks(const joiner *j, const exg_weight *first, const cut *c)
{
    for (uint32_t t = 1; t < j->count; t++) {
        const exg_tensor_meta *meta = of_rank(j, t, first->fqn)->meta;
        bool same = meta->rank == first->meta->rank && meta->dtype == first->meta->dtype;

        for (uint32_t d = 0; same && d < meta->rank; d++) {
            same = (c->inner > 0 && d == c->dim) ||
                   meta->sizes[d].value == first->meta->sizes[d].value;
        }
        if (!same) {
            return damaged(j, first->fqn, "ranks have other shapes or dtypes of it");
        }
    }
    return EXG_OK;
}

/* Its bytes, packed, in the weights that are made. */
static exg_status add_bytes(const joiner *j, uint32_t rank, const exg_weight *weight,
                            uint32_t *storage)
{
    const exg_element_type same = {weight->meta->dtype, NULL};

    return exg_weights_add_cast(j->weights, j->of[rank], weight, same, "rank", storage, j->err);
}

static exg_status add_same(const joiner *j, const exg_weight *first)
{
    exg_weight weight = *first;
    exg_tensor_meta meta = *first->meta;
    uint64_t bytes = 0;

    EXG_TRY(exg_tensor_meta_bytes(&meta, &bytes, j->err));
    for (uint32_t t = 1; t < j->count; t++) {
        const exg_weight *other = of_rank(j, t, first->fqn);
        bool same = false;

        if (bytes > j->of[t]->storages[other->storage].length) { /* few are many: no end of it */
            return unsupported(j, first->fqn, "it repeats elements");
        }

        EXG_TRY(exg_weights_same_elements(j->of[0], first, j->of[t], other, &same, j->err));
        if (!same) {
            return unsupported(j, first->fqn,
                               "ranks have other elements of it, and no file says how they go "
                               "together");
        }
    }
    meta.strides = EXG_NEW_ARRAY(j->arena, exg_sym_int, meta.rank);
    if (meta.strides == NULL) {
        return EXG_OUT_OF_MEMORY(j->err);
    }
    exg_tensor_meta_pack(&meta);
    weight.meta = &meta;
    EXG_TRY(add_bytes(j, 0, first, &weight.storage));
    return exg_weights_add(j->weights, &weight, j->err);
}

/* [first, first + width) along the dim of what a rank has. */
static exg_status fill_part(const joiner *j, const exg_weight *of, const cut *c, int64_t first,
                            int64_t width, uint32_t storage, exg_chunk_part *part)
{
    exg_arena *arena = j->weights->arena;
    uint32_t rank = of->meta->rank;
    exg_tensor_meta *meta = exg_arena_memdup(arena, of->meta, 1, sizeof(*meta));

    if (meta == NULL || (meta->sizes = EXG_NEW_ARRAY(arena, exg_sym_int, rank)) == NULL ||
        (meta->strides = EXG_NEW_ARRAY(arena, exg_sym_int, rank)) == NULL) {
        return EXG_OUT_OF_MEMORY(j->err);
    }
    memcpy(meta->sizes, of->meta->sizes, rank * sizeof(*meta->sizes));
    exg_tensor_meta_pack(meta);
    meta->storage_offset = exg_sym_int_of(first * meta->strides[c->dim].value);
    meta->sizes[c->dim] = exg_sym_int_of(width);
    part->weight = (exg_weight){.fqn = of->fqn, .meta = meta, .storage = storage};
    for (uint32_t d = 0; d < rank; d++) {
        part->sizes[d] = meta->sizes[d].value;
    }
    return EXG_OK;
}

/* Rows behind those of the vocabulary fill it up, so that it can be cut. */
static void drop_rows(exg_chunk_tensor *tensor, int64_t rows)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < tensor->count; i++) {
        exg_chunk_part part = tensor->parts[i];

        if (part.offsets[0] < rows) {
            if (part.sizes[0] > rows - part.offsets[0]) {
                part.sizes[0] = rows - part.offsets[0];
                part.weight.meta->sizes[0] = exg_sym_int_of(part.sizes[0]);
            }
            tensor->parts[kept++] = part;
        }
    }
    tensor->count = kept;
    tensor->sizes[0] = rows < tensor->sizes[0] ? rows : tensor->sizes[0];
}

static exg_status add_parts(const joiner *j, const exg_weight *first, const cut *c,
                            exg_chunk_tensor *tensor)
{
    int64_t *begun = EXG_NEW_ARRAY(j->arena, int64_t, j->count); /* of each rank */
    uint32_t *storages = EXG_NEW_ARRAY(j->arena, uint32_t, j->count);
    int64_t at = 0;

    if (begun == NULL || storages == NULL) {
        return EXG_OUT_OF_MEMORY(j->err);
    }
    tensor->count = 0;
    for (uint32_t t = 0; t < j->count; t++) {
        EXG_TRY(add_bytes(j, t, of_rank(j, t, first->fqn), &storages[t]));
    }
    for (uint32_t i = 0; i < c->inner; i++) {
        for (uint32_t t = 0; t < j->count; t++) {
            int64_t width = c->widths[(size_t)i * j->count + t];
            exg_chunk_part *part = &tensor->parts[tensor->count++];

            if (width > size_of(j, t, first->fqn, c->dim) - begun[t] || at > INT64_MAX - width) {
                return damaged(j, first->fqn, "ranks have less of it than is said");
            }
            EXG_TRY(fill_part(j, of_rank(j, t, first->fqn), c, begun[t], width, storages[t], part));
            part->offsets[c->dim] = at;
            begun[t] += width;
            at += width;
        }
    }
    for (uint32_t t = 0; t < j->count; t++) {
        if (begun[t] != size_of(j, t, first->fqn, c->dim)) {
            return damaged(j, first->fqn, "ranks have more of it than is said");
        }
    }
    for (uint32_t d = 0; d < first->meta->rank; d++) {
        tensor->sizes[d] = d == c->dim ? at : first->meta->sizes[d].value;
    }
    return EXG_OK;
}

static exg_status add_cut(const joiner *j, const exg_weight *first, const cut *c)
{
    exg_tensor_meta meta = *first->meta;
    exg_chunk_tensor *tensor;
    int64_t rows;

    EXG_TRY(exg_chunk_tensor_create(j->weights, meta.rank, c->inner * j->count, &tensor, j->err));
    EXG_TRY(add_parts(j, first, c, tensor));
    if (is_said(j, "vocabulary_parameter_patterns", first->fqn)) {
        if (!read_size(exg_pickle_get(j->info, "original_vocab_size"), &rows)) {
            return damaged(j, first->fqn, "the size of the vocabulary is not said");
        }
        drop_rows(tensor, rows);
    }
    meta.sizes = EXG_NEW_ARRAY(j->arena, exg_sym_int, meta.rank);
    if (meta.sizes == NULL) {
        return EXG_OUT_OF_MEMORY(j->err);
    }
    for (uint32_t d = 0; d < meta.rank; d++) {
        meta.sizes[d] = exg_sym_int_of(tensor->sizes[d]);
    }
    EXG_TRY_IN(j->err, exg_chunk_tensor_add(tensor, first->fqn, &meta, j->err), "['%s']",
               first->fqn);
    return EXG_OK;
}

static exg_status add(joiner *j, uint32_t index)
{
    const exg_weight *first = &j->of[0]->items[index];
    const char *view = exg_weight_view_key(first, j->arena);
    uint32_t tied = view == NULL ? EXG_MAP_NONE : exg_map_find(&j->views, view);
    exg_weight weight;
    cut c;

    if (tied != EXG_MAP_NONE) { /* the same bytes under another name: each adds one weight */
        weight = j->weights->items[tied];
        weight.fqn = first->fqn;
        return exg_weights_add(j->weights, &weight, j->err);
    }
    if (view == NULL || !exg_map_put(&j->views, view, index)) {
        return EXG_OUT_OF_MEMORY(j->err);
    }
    for (uint32_t t = 1; t < j->count; t++) {
        if (of_rank(j, t, first->fqn) == NULL) {
            return unsupported(j, first->fqn, "not all tensor-parallel ranks have it");
        }
    }
    EXG_TRY(find_cut(j, first, &c));
    EXG_TRY(check_ranks(j, first, &c));
    return c.inner == 0 ? add_same(j, first) : add_cut(j, first, &c);
}

static exg_status read_names(joiner *j)
{
    exg_map_init(&j->views, j->arena);
    j->names = EXG_NEW_ARRAY(j->arena, exg_map, j->count);
    if (j->names == NULL) {
        return EXG_OUT_OF_MEMORY(j->err);
    }
    for (uint32_t t = 0; t < j->count; t++) {
        EXG_TRY(exg_weights_retain_in(j->weights, j->of[t], j->err));
        exg_map_init(&j->names[t], j->arena);
        for (uint32_t i = 0; i < j->of[t]->count; i++) {
            const char *name = j->of[t]->items[i].fqn;

            if (t > 0 && exg_map_find(&j->names[0], name) == EXG_MAP_NONE) {
                return unsupported(j, name, "not all tensor-parallel ranks have it");
            }
            if (!exg_map_put(&j->names[t], name, i)) {
                return EXG_OUT_OF_MEMORY(j->err);
            }
        }
    }
    return EXG_OK;
}

static exg_status join(joiner *j)
{
    const exg_weights *first = j->of[0];

    EXG_TRY(read_names(j));
    EXG_TRY(check_info(j));
    for (uint32_t i = 0; i < first->count; i++) {
        EXG_TRY(add(j, i));
    }
    for (uint32_t t = 0; t < j->count; t++) { /* of others what loading it in Python means */
        for (uint32_t i = 0; i < j->of[t]->skipped_count; i++) {
            const exg_skipped *skipped = &j->of[t]->skipped[i];

            if (t == 0 || skipped->code != EXG_CODE_NONE) {
                EXG_TRY(exg_weights_skip_code(j->weights, skipped->name, skipped->kind,
                                              skipped->code, j->err));
            }
        }
    }
    return EXG_OK;
}

exg_status exg_zero_join(exg_weights *const *of, uint32_t count, const exg_pickle_value *info,
                         exg_weights *weights, exg_error *err)
{
    joiner j = {.of = of, .count = count, .info = info, .weights = weights, .err = err};
    exg_status status;

    j.arena = exg_arena_create(exg_arena_allocator(weights->arena), EXG_ARENA_UNBOUNDED);
    status = j.arena == NULL ? EXG_OUT_OF_MEMORY(err) : join(&j);
    exg_arena_destroy(j.arena);
    return status;
}
