/* name_rules.h - patterns and renames of exg_weights_edit_options, made ready. */
#ifndef EXG_LIBEXPORT_WEIGHTS_NAME_RULES_H
#define EXG_LIBEXPORT_WEIGHTS_NAME_RULES_H

#include "libexport/base/arena.h"

#include <exg/weights_edit.h>
#include <regex.h>
#include <stdbool.h>

typedef struct exg_name_rules exg_name_rules;

/* `of` for exg_weights_edit_options.model_only. The rules live in the arena and need
 * exg_name_rules_close(). USAGE (WGT-PATTERN): an expression that is none. */
exg_status exg_name_rules_open(const exg_weights *of, const exg_weights_edit_options *options,
                               exg_arena *arena, exg_name_rules **rules, exg_error *err);
void exg_name_rules_close(exg_name_rules *rules); /* NULL is allowed */

/* Does the tensor called `name` stay? And what of the metadata called so? */
bool exg_name_rules_keep(exg_name_rules *rules, const char *name);
bool exg_name_rules_keep_metadata(const exg_name_rules *rules, const char *name);

/* Is it a number that training noted beside the model? */
bool exg_name_rules_is_beside(const exg_name_rules *rules, const char *name);

/* What it is called without prefixes: a part of `name`. */
const char *exg_name_rules_strip(exg_name_rules *rules, const char *name);

/* Are all groups that `to` names ("\\1") in `from`? 0, or the first that is not. */
char exg_name_missing_group(const regex_t *from, const char *to);

/* *renamed is `to` with the groups that `from` fits when it fits all of `name`, in the arena; else
 * NULL. NO_MEMORY. */
exg_status exg_name_fit(const regex_t *from, const char *to, const char *name, exg_arena *arena,
                        const char **renamed, exg_error *err);

/* What the expressions make of a stripped name, in the arena. NO_MEMORY. */
exg_status exg_name_rules_rename(exg_name_rules *rules, const char *name, const char **renamed,
                                 exg_error *err);

/* Does one of the patterns of transposes fit? */
bool exg_name_rules_transpose(exg_name_rules *rules, const char *name);

/* The number in options.dtypes of what counts for a tensor, or UINT32_MAX; *named says whether it
 * is by a pattern. */
uint32_t exg_name_rules_dtype(exg_name_rules *rules, const char *name, bool *named);

/* USAGE (WGT-PATTERN): something fitted no name of those that were asked for. */
exg_status exg_name_rules_check_used(const exg_name_rules *rules, exg_error *err);

#endif
