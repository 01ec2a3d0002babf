/* join.c - the tensors of several weights as one: all of them, or those of one name put together,
 * as patterns say it or a preset. */
#include <exg/weights_edit.h>

#include "libexport/base/map.h"
#include "libexport/base/options.h"
#include "libexport/base/require.h"
#include "libexport/weights/name_rules.h"
#include "libexport/weights/rearrange.h"
#include "libexport/weights/storage.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

/* Where it is in a folder of its own, it is opened there now. */
static exg_status join_storages(exg_weights *made, exg_weights *of, exg_error *err)
{
    for (uint32_t i = 0; i < of->storage_count; i++) {
        uint32_t index;

        if (of->storages[i].location != NULL) {
            EXG_TRY(exg_storage_locate(of, i, err));
        }
        EXG_TRY(exg_weights_add_storage(made, &of->storages[i], &index, err));
    }
    return EXG_OK;
}

/* What is not among the tensors. */
static exg_status join_rest(exg_weights *made, const exg_weights *of, exg_error *err)
{
    for (uint32_t i = 0; i < of->metadata.count; i++) {
        const exg_string_pair *pair = &of->metadata.items[i];

        EXG_TRY(exg_weights_add_metadata_as(made, pair->key, exg_weights_metadata_kind(of, i),
                                            pair->value, err));
    }
    for (uint32_t i = 0; i < of->skipped_count; i++) {
        EXG_TRY(exg_weights_skip_code(made, of->skipped[i].name, of->skipped[i].kind,
                                      of->skipped[i].code, err));
    }
    return EXG_OK;
}

static exg_status join(exg_weights *made, exg_weights *of, exg_map *names, exg_error *err)
{
    uint32_t first = made->storage_count;

    EXG_TRY(exg_weights_retain_in(made, of, err));
    EXG_TRY(join_storages(made, of, err));
    for (uint32_t i = 0; i < of->count; i++) {
        exg_weight weight = of->items[i];

        if (exg_map_find(names, weight.fqn) != EXG_MAP_NONE) {
            return exg_error_fix(
                err, EXG_FAIL(err, USAGE, "WGT-NAME", "two of the files hold %s", weight.fqn),
                "rename one beforehand, or leave it out");
        }
        weight.storage += first;
        EXG_TRY(exg_weights_add(made, &weight, err));
        if (!exg_map_put(names, made->items[made->count - 1].fqn, i)) {
            return EXG_OUT_OF_MEMORY(err);
        }
    }
    return join_rest(made, of, err);
}

exg_status exg_weights_join(exg_weights *const *of, uint32_t count, exg_weights **made,
                            exg_error *err)
{
    EXG_REQUIRE(err, EXG_IF_ANY(count, of), made);
    exg_status status;
    exg_map names;

    *made = NULL;
    EXG_TRY(exg_weights_create(count == 0 ? NULL : exg_arena_allocator(of[0]->arena), made, err));
    exg_map_init(&names, (*made)->arena);
    status = EXG_OK;
    for (uint32_t i = 0; i < count && status == EXG_OK; i++) {
        status = join(*made, of[i], &names, err);
    }
    if (status != EXG_OK) {
        exg_weights_release(*made);
        *made = NULL;
    }
    return status;
}

/* ---- ranks ------------------------------------------------------------------------------------
 */

typedef struct ranks {
    exg_weights *const *of;
    uint32_t count;
    const exg_string_map *dims; /* NULL: the preset says it */
    bool *used;                 /* by pair of `dims` */
    exg_preset *preset;
    exg_name_rules *rules; /* of the preset's names */
    exg_arena *arena;      /* scratch, of the preset */
    exg_weights *made;
    uint32_t *first; /* by rank: its first storage in `made` */
    exg_map *names;  /* by rank */
    exg_error *err;
} ranks;

/* The pattern that says along which dim the tensor goes on; NULL: every rank has all of it. */
static const exg_string_pair *pattern_of(ranks *r, const char *name)
{
    for (uint32_t i = 0; i < r->dims->count; i++) {
        if (fnmatch(r->dims->items[i].key, name, 0) == 0) {
            r->used[i] = true;
            return &r->dims->items[i];
        }
    }
    return NULL;
}

/* Of matrices 0 or 1, of others 0. */
static exg_status read_dim(ranks *r, const exg_string_pair *pattern, const exg_tensor_meta *meta,
                           bool *columns)
{
    char *end;
    long dim = strtol(pattern->value, &end, 10);

    if (*end != '\0' || end == pattern->value) {
        return EXG_FAIL(r->err, USAGE, "WGT-PATTERN", "'%s' of '%s' is no dim", pattern->value,
                        pattern->key);
    }
    dim += dim < 0 ? (long)meta->rank : 0;
    *columns = dim == 1;
    return dim == 0 && meta->rank > 0 ? EXG_OK
           : dim == 1 && meta->rank == 2
               ? EXG_OK
               : EXG_FAIL(r->err, UNSUPPORTED, "WGT-PATTERN",
                          "along dim %s of %u: rows go on, and columns of matrices", pattern->value,
                          meta->rank);
}

/* The parts, by rank, as one. */
static exg_status put_together(ranks *r, exg_weight *parts, bool columns)
{
    exg_piece whole = {r->made, {0}};

    for (uint32_t k = 0; columns && k < r->count; k++) {
        exg_piece piece = {r->made, parts[k]};

        EXG_TRY(exg_piece_transpose(&piece, r->made, r->err));
        parts[k] = piece.weight;
    }
    EXG_TRY(exg_pieces_join(parts, r->count, r->made, &whole.weight, r->err));
    if (columns) {
        EXG_TRY(exg_piece_transpose(&whole, r->made, r->err));
    }
    return exg_weights_add(r->made, &whole.weight, r->err);
}

/* Has this rank the same elements as the first? */
static exg_status compare(ranks *r, const exg_weight *a, const exg_weight *b, bool *same)
{
    *same = a->meta != NULL && b->meta != NULL && a->meta->dtype == b->meta->dtype &&
            exg_tensor_meta_same_shape(a->meta, b->meta) && !a->use_pickle && a->encoding == NULL;
    return *same ? exg_weights_same_elements(r->made, a, r->made, b, same, r->err) : EXG_OK;
}

static exg_status take_equal(ranks *r, const exg_weight *parts)
{
    for (uint32_t k = 1; k < r->count; k++) {
        bool same;

        EXG_TRY(compare(r, &parts[0], &parts[k], &same));
        if (!same) {
            return exg_error_fix(
                r->err,
                EXG_FAIL(r->err, USAGE, "WGT-NAME", "file %u holds another %s than the first",
                         k + 1, parts[0].fqn),
                "say along which dim they go together: --concat '%s=0'", parts[0].fqn);
        }
    }
    return exg_weights_add(r->made, &parts[0], r->err);
}

static exg_status lacks(ranks *r, uint32_t rank)
{
    return exg_error_fix(r->err,
                         EXG_FAIL(r->err, USAGE, "WGT-NAME", "file %u does not hold it", rank + 1),
                         "give the files of all ranks of one model");
}

/* The parts of all ranks; *lacking is the first rank without one, or their number. */
static exg_status find_parts(ranks *r, const exg_weight *weight, exg_weight **parts,
                             uint32_t *lacking)
{
    *lacking = r->count;
    *parts = EXG_NEW_ARRAY(r->made->arena, exg_weight, r->count);
    if (*parts == NULL) {
        return EXG_OUT_OF_MEMORY(r->err);
    }
    for (uint32_t k = 0; k < r->count; k++) {
        uint32_t at = exg_map_find(&r->names[k], weight->fqn);

        if (at == EXG_MAP_NONE) {
            *lacking = k;
            return EXG_OK;
        }
        (*parts)[k] = r->of[k]->items[at];
        (*parts)[k].storage += r->first[k];
    }
    return EXG_OK;
}

/* The tensor of the first rank, with those of the others. */
static exg_status take_tensor(ranks *r, const exg_weight *weight)
{
    exg_weight *parts;
    const exg_string_pair *pattern;
    uint32_t lacking;
    bool columns = false;

    EXG_TRY(find_parts(r, weight, &parts, &lacking));
    if (lacking < r->count) {
        return lacks(r, lacking);
    }
    pattern = weight->meta == NULL || weight->use_pickle ? NULL : pattern_of(r, weight->fqn);
    if (pattern == NULL) {
        return take_equal(r, parts);
    }
    EXG_TRY(read_dim(r, pattern, weight->meta, &columns));
    return put_together(r, parts, columns);
}

/* ---- ranks by a preset ----------------------------------------------------------------------- */

/* Of the rules of the preset that fit a name the first that speaks of ranks, or the first, or NULL.
 */
static exg_status find_rule(ranks *r, const char *stripped, const exg_preset_rule **found)
{
    *found = NULL;
    for (uint32_t i = 0; i < r->preset->count && (*found == NULL || !(*found)->ranks.given); i++) {
        const exg_preset_rule *rule = &r->preset->rules[i];
        const char *name = NULL;

        EXG_TRY(exg_name_fit(&rule->from, "", stripped, r->arena, &name, r->err));
        if (name != NULL && (*found == NULL || rule->ranks.given)) {
            *found = rule;
        }
    }
    return EXG_OK;
}

/* How many elements has the first rank's tensor called so? 0: there is none. */
static int64_t length_of(ranks *r, const char *stripped)
{
    int64_t length = 0;

    for (uint32_t i = 0; i < r->of[0]->count; i++) {
        const exg_weight *weight = &r->of[0]->items[i];

        if (strcmp(exg_name_rules_strip(r->rules, weight->fqn), stripped) == 0 &&
            weight->meta != NULL && exg_tensor_meta_numel(weight->meta, &length)) {
            return length;
        }
    }
    return 0;
}

static exg_status put_by_rule(ranks *r, const exg_preset_rule *rule, exg_weight *parts)
{
    const exg_tensor_meta *meta = parts[0].meta;
    uint32_t dim = rule->ranks.dim;

    if (dim == 1 && meta != NULL && meta->rank == 1) { /* what is added to sums is in every rank */
        return take_equal(r, parts);
    }
    if (meta == NULL || parts[0].use_pickle || meta->rank <= dim || (dim == 1 && meta->rank > 2)) {
        return EXG_FAIL(r->err, USAGE, "WGT-PRESET",
                        "the ranks' parts would go on along dim %u, which it does not have", dim);
    }
    if (rule->ranks.unless != NULL && meta->rank == 2 &&
        meta->sizes[dim].value == length_of(r, rule->ranks.unless)) {
        dim = 1 - dim;
    }
    return put_together(r, parts, dim == 1);
}

/* What the ranks have each for itself, as states of random numbers are, is not of the model. */
static exg_status take_unknown(ranks *r, const exg_weight *weight, const exg_weight *parts,
                               uint32_t lacking)
{
    bool same = lacking == r->count;

    for (uint32_t k = 1; k < r->count && same; k++) {
        EXG_TRY(compare(r, &parts[0], &parts[k], &same));
    }
    return same ? exg_weights_add(r->made, &parts[0], r->err)
                : exg_weights_skip(r->made, weight->fqn,
                                   "another one in each rank, which no rule of the preset fits",
                                   r->err);
}

static exg_status take_tensor_by_preset(ranks *r, const exg_weight *weight)
{
    const exg_preset_rule *rule = NULL;
    exg_weight *parts;
    uint32_t lacking;

    EXG_TRY(find_parts(r, weight, &parts, &lacking));
    EXG_TRY(find_rule(r, exg_name_rules_strip(r->rules, weight->fqn), &rule));
    if (!exg_name_rules_keep(r->rules, weight->fqn) || (rule != NULL && rule->to == NULL)) {
        return exg_weights_add(r->made, &parts[0], r->err); /* it is left out afterwards */
    }
    if (rule == NULL) {
        return take_unknown(r, weight, parts, lacking);
    }
    if (lacking < r->count) {
        return lacks(r, lacking);
    }
    return rule->ranks.given ? put_by_rule(r, rule, parts) : take_equal(r, parts);
}

/* ---- all ranks --------------------------------------------------------------------------------
 */

static exg_status open_ranks(ranks *r)
{
    exg_arena *arena = r->made->arena;

    r->first = EXG_NEW_ARRAY(arena, uint32_t, r->count);
    r->names = EXG_NEW_ARRAY(arena, exg_map, r->count);
    r->used = EXG_NEW_ARRAY(arena, bool, r->dims == NULL ? 0 : r->dims->count);
    if (r->first == NULL || r->names == NULL || r->used == NULL) {
        return EXG_OUT_OF_MEMORY(r->err);
    }
    for (uint32_t k = 0; k < r->count; k++) {
        r->first[k] = r->made->storage_count;
        exg_map_init(&r->names[k], arena);
        EXG_TRY(exg_weights_retain_in(r->made, r->of[k], r->err));
        EXG_TRY(join_storages(r->made, r->of[k], r->err));
        for (uint32_t i = 0; i < r->of[k]->count; i++) {
            if (!exg_map_put(&r->names[k], r->of[k]->items[i].fqn, i)) {
                return EXG_OUT_OF_MEMORY(r->err);
            }
        }
    }
    return EXG_OK;
}

/* A name that the first rank does not have. */
static exg_status take_another(ranks *r, uint32_t rank, const char *name)
{
    const exg_preset_rule *rule = NULL;

    if (r->dims == NULL) {
        if (!exg_name_rules_keep(r->rules, name)) {
            return EXG_OK;
        }
        EXG_TRY(find_rule(r, exg_name_rules_strip(r->rules, name), &rule));
        if (rule == NULL) {
            return exg_weights_skip(r->made, name,
                                    "not in every rank, and no rule of the preset fits it", r->err);
        }
    }
    return exg_error_fix(r->err,
                         EXG_FAIL(r->err, USAGE, "WGT-NAME",
                                  "file %u holds %s, and the first does not", rank + 1, name),
                         "give the files of all ranks of one model");
}

static exg_status take_ranks(ranks *r)
{
    EXG_TRY(open_ranks(r));
    for (uint32_t i = 0; i < r->of[0]->count; i++) {
        const exg_weight *weight = &r->of[0]->items[i];

        EXG_TRY_IN(r->err, (r->dims == NULL ? take_tensor_by_preset : take_tensor)(r, weight),
                   "['%s']", weight->fqn);
    }
    for (uint32_t k = 1; k < r->count; k++) {
        for (uint32_t i = 0; i < r->of[k]->count; i++) {
            if (exg_map_find(&r->names[0], r->of[k]->items[i].fqn) == EXG_MAP_NONE) {
                EXG_TRY(take_another(r, k, r->of[k]->items[i].fqn));
            }
        }
    }
    for (uint32_t i = 0; r->dims != NULL && i < r->dims->count; i++) {
        if (!r->used[i]) {
            return exg_error_fix(r->err,
                                 EXG_FAIL(r->err, USAGE, "WGT-PATTERN", "'%s' fits no tensor",
                                          r->dims->items[i].key),
                                 "exg inspect FILE --list-weights names them");
        }
    }
    return join_rest(r->made, r->of[0], r->err); /* what the others say of themselves is the same */
}

exg_status exg_weights_concatenate(exg_weights *const *of, uint32_t count,
                                   const exg_string_map *dims, exg_weights **made, exg_error *err)
{
    EXG_REQUIRE(err, of, dims, made);
    ranks r = {.of = of, .count = count, .dims = dims, .err = err};
    exg_status status;

    *made = NULL;
    if (count == 0) {
        return EXG_FAIL(err, USAGE, "WGT-NAME", "no weights are given");
    }
    EXG_TRY(exg_weights_create(exg_arena_allocator(of[0]->arena), &r.made, err));
    status = take_ranks(&r);
    if (status != EXG_OK) {
        exg_weights_release(r.made);
        return status;
    }
    *made = r.made;
    return EXG_OK;
}

/* Is a name of one of them another's? */
static bool have_names_in_common(exg_weights *const *of, uint32_t count, exg_arena *arena,
                                 bool *failed)
{
    exg_map names;

    exg_map_init(&names, arena);
    for (uint32_t k = 0; k < count; k++) {
        for (uint32_t i = 0; i < of[k]->count; i++) {
            if (exg_map_find(&names, of[k]->items[i].fqn) != EXG_MAP_NONE) {
                return true;
            }
            *failed = *failed || !exg_map_put(&names, of[k]->items[i].fqn, i);
        }
    }
    return false;
}

static exg_status merge_ranks(ranks *r, const exg_weights_edit_options *options)
{
    EXG_TRY(exg_name_rules_open(r->of[0], options, r->arena, &r->rules, r->err));
    EXG_TRY(exg_weights_create(exg_arena_allocator(r->of[0]->arena), &r->made, r->err));
    return take_ranks(r);
}

exg_status exg_weights_merge(exg_weights *const *of, uint32_t count,
                             const exg_weights_edit_options *given, exg_weights **made,
                             exg_error *err)
{
    EXG_REQUIRE(err, EXG_IF_ANY(count, of), made);
    exg_weights_edit_options options = {0};
    ranks r = {.of = of, .count = count, .err = err};
    exg_status status = EXG_OK;
    bool by_rank = false;
    bool failed = false;

    *made = NULL;
    EXG_TRY(EXG_READ_OPTIONS(exg_weights_edit_options, &options, given, err));
    r.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    if (r.arena == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (options.preset != NULL) {
        status = exg_preset_open(options.preset, r.arena, &r.preset, err);
        by_rank = status == EXG_OK && r.preset->has_ranks &&
                  have_names_in_common(of, count, r.arena, &failed);
    }
    if (status == EXG_OK) {
        status = failed    ? EXG_OUT_OF_MEMORY(err)
                 : by_rank ? merge_ranks(&r, &options)
                           : exg_weights_join(of, count, &r.made, err);
    }
    exg_name_rules_close(r.rules);
    exg_preset_close(r.preset);
    exg_arena_destroy(r.arena);
    if (status != EXG_OK) {
        exg_weights_release(r.made);
        return status;
    }
    *made = r.made;
    return EXG_OK;
}
