/* edit.c - what convert and repack change of weights: names, dtypes, which of them. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

/* "A=B" of each word into pairs; of a word without "=" the key is NULL. */
static exg_status split_words(const cli_words *words, bool last, exg_arena *arena,
                              exg_string_map *pairs, exg_error *err)
{
    pairs->items = exg_arena_alloc(arena, words->count, sizeof(*pairs->items));
    pairs->count = words->count;
    if (pairs->items == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < words->count; i++) {
        const char *word = words->items[i];
        const char *equals = last ? strrchr(word, '=') : strchr(word, '=');

        pairs->items[i] = (exg_string_pair){NULL, equals == NULL ? word : equals + 1};
        if (equals != NULL) {
            pairs->items[i].key = exg_arena_strndup(arena, word, (size_t)(equals - word));
            if (pairs->items[i].key == NULL) {
                return EXG_OUT_OF_MEMORY(err);
            }
        }
    }
    return EXG_OK;
}

static exg_status need_keys(const exg_string_map *pairs, const char *option, const char *form,
                            exg_error *err)
{
    for (uint32_t i = 0; i < pairs->count; i++) {
        if (pairs->items[i].key == NULL || pairs->items[i].key[0] == '\0') {
            return EXG_FAIL(err, USAGE, "CLI-001", "%s '%s': give it as %s", option,
                            pairs->items[i].value, form);
        }
    }
    return EXG_OK;
}

static exg_status fill_options(const cli_call *call, const char *path, exg_arena *arena,
                               exg_weights_edit_options *options, exg_error *err)
{
    options->select = call->select.items;
    options->select_count = call->select.count;
    options->exclude = call->exclude.items;
    options->exclude_count = call->exclude.count;
    options->prefixes = call->prefix_strip.items;
    options->prefix_count = call->prefix_strip.count;
    options->transposes = call->transpose.items;
    options->transpose_count = call->transpose.count;
    options->model_only = call->model_only;
    options->deduplicate =
        call->deduplicate && cli_is_tensors(call->paths[1]); /* others can share */
    if (call->preset != NULL) {
        EXG_TRY(cli_read_preset(call->preset, arena, &options->preset, err));
        EXG_TRY(cli_read_numbers(call, path, arena, &options->numbers, err));
    }
    EXG_TRY(split_words(&call->rename, true, arena, &options->renames, err));
    EXG_TRY(need_keys(&options->renames, "--rename", "REGEX=REPLACEMENT", err));
    EXG_TRY(split_words(&call->dtype, true, arena, &options->dtypes, err));
    EXG_TRY(split_words(&call->metadata, false, arena, &options->metadata, err));
    return need_keys(&options->metadata, "--metadata", "KEY=VALUE", err);
}

static exg_status concatenate(const cli_call *call, exg_weights *const *all, uint32_t count,
                              exg_arena *arena, exg_weights **weights, exg_error *err)
{
    exg_string_map dims;

    EXG_TRY(split_words(&call->concat, true, arena, &dims, err));
    EXG_TRY(need_keys(&dims, "--concat", "PATTERN=DIM", err));
    return exg_weights_concatenate(all, count, &dims, weights, err);
}

exg_status cli_merge_weights(const cli_call *call, exg_weights *const *all, uint32_t count,
                             exg_weights **weights, exg_error *err)
{
    exg_weights_edit_options options = {.size = sizeof(options)};
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_status status = arena == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;

    if (status == EXG_OK && call->concat.count > 0) {
        status = concatenate(call, all, count, arena, weights, err);
    } else if (status == EXG_OK) {
        status = fill_options(call, call->paths[0], arena, &options, err);
        status = status == EXG_OK ? exg_weights_merge(all, count, &options, weights, err) : status;
    }
    exg_arena_destroy(arena);
    return status;
}

static bool asks_for_changes(const cli_call *call)
{
    return call->select.count + call->exclude.count + call->prefix_strip.count +
                   call->transpose.count + call->rename.count + call->dtype.count +
                   call->metadata.count >
               0 ||
           call->preset != NULL || call->model_only || call->deduplicate;
}

/* In a way that was not asked for. */
static void note_kept(void *user, const char *name, const char *why)
{
    exg_text *text = user;

    exg_text_puts(text, "note: ");
    exg_text_plain(text, name, false);
    exg_text_printf(text, " stays as it is: %s\n", why);
}

/* All of it, or the part `shard` of `count`. */
static exg_status edit(const cli_call *call, const char *path, uint32_t shard, uint32_t count,
                       exg_weights *of, exg_weights **made, exg_error *err)
{
    exg_text kept = EXG_TEXT_EMPTY;
    exg_weights_edit_options options = {.size = sizeof(options),
                                        .kept = note_kept,
                                        .user = &kept,
                                        .shard_count = count,
                                        .shard = shard};
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_status status = arena == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;

    status = status == EXG_OK ? fill_options(call, path, arena, &options, err) : status;
    status = status == EXG_OK ? exg_weights_edit(of, &options, made, err) : status;
    exg_arena_destroy(arena);
    if (shard == 0) { /* the others have the same */
        cli_note(&kept);
    }
    exg_text_free(&kept);
    return status;
}

exg_status cli_edit_weights(const cli_call *call, const char *path, exg_weights **weights,
                            exg_error *err)
{
    exg_weights *made = NULL;

    if (!asks_for_changes(call)) { /* most calls: nothing is made of as many tensors as there are */
        return EXG_OK;
    }
    EXG_TRY(edit(call, path, 0, 0, *weights, &made, err));
    exg_weights_release(*weights);
    *weights = made;
    return EXG_OK;
}

/* ---- a part of it for each rank ----------------------------------------------------------------
 */

#define SHARDS_MAX 100 /* two digits in a name */

bool cli_shards_by_preset(const cli_call *call)
{
    return call->shard != NULL && call->needed_by == NULL;
}

exg_status cli_edit_shards(const cli_call *call, exg_weights *of, exg_arena *arena,
                           exg_weights ***made, uint32_t *count, exg_error *err)
{
    char *end;
    unsigned long shards = strtoul(call->shard, &end, 10);

    *count = 0;
    if (call->shard[0] < '1' || call->shard[0] > '9' || *end != '\0' || shards > SHARDS_MAX) {
        return EXG_FAIL(err, USAGE, "CLI-001", "--shard '%s': of a preset 1 to %d ranks",
                        call->shard, SHARDS_MAX);
    }
    if (!cli_names_ranks(call->paths[1])) {
        return exg_error_fix(err,
                             EXG_FAIL(err, USAGE, "CLI-006",
                                      "'%s' says no names for the files of "
                                      "ranks",
                                      call->paths[1]),
                             "FOLDER/consolidated.{rank}.pth");
    }
    *made = EXG_NEW_ARRAY(arena, exg_weights *, shards);
    if (*made == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < shards; i++) {
        EXG_TRY(edit(call, call->paths[0], i, (uint32_t)shards, of, &(*made)[i], err));
        *count = i + 1;
    }
    return EXG_OK;
}
