/* name_rules.c - patterns and renames, made ready; which of them were of use. */
#include "libexport/weights/name_rules.h"

#include <exg/text.h>
#include <fnmatch.h>
#include <regex.h>
#include <string.h>

#define GROUPS 10 /* what is fitted, and \1 to \9 */

/* One list of patterns, and which of them fitted a name. */
typedef struct rule_list {
    const char *what; /* for messages */
    const char *const *texts;
    uint32_t count;
    bool *used;
} rule_list;

enum { SELECT, EXCLUDE, PREFIXES, TRANSPOSES, LIST_COUNT };

struct exg_name_rules {
    const exg_weights_edit_options *options;
    exg_arena *arena;
    rule_list lists[LIST_COUNT];
    regex_t *expressions; /* of renames */
    bool *expressions_used;
    uint32_t expression_count; /* that are ready */
    bool *dtypes_used;
    const char *root; /* model_only: the name that all tensors of the model lie below, or NULL */
};

/* ---- the parts of a training checkpoint ----------------------------------------------------- */

/* What the model lies below in checkpoints of PyTorch Lightning, fairseq, mmengine, timm, and many
 * scripts of training. */
static const char *const model_names[] = {
    "state_dict", "model_state_dict", "model_state", "model",      "module", "net",
    "network",    "params",           "params_ema",  "model_dict", "weights"};

/* And what is no part of it. */
static const char *const other_names[] = {"optimizer",
                                          "optimizers",
                                          "optimizer_states",
                                          "optimizer_state_dict",
                                          "optimizer_state",
                                          "optim",
                                          "optim_state_dict",
                                          "last_optimizer_state",
                                          "lr_scheduler",
                                          "lr_schedulers",
                                          "lr_scheduler_state_dict",
                                          "scheduler",
                                          "scheduler_state",
                                          "scheduler_state_dict",
                                          "scaler",
                                          "scaler_state_dict",
                                          "grad_scaler",
                                          "amp",
                                          "amp_scaler",
                                          "native_amp_scaling",
                                          "loops",
                                          "callbacks",
                                          "rng",
                                          "rng_state",
                                          "cpu_rng_state",
                                          "numpy_rng_state",
                                          "python_rng_state",
                                          "random_rng_state",
                                          "np_rng_state",
                                          "torch_rng_state",
                                          "cuda_rng_state",
                                          "rng_tracker_states",
                                          "rng_states",
                                          "train_state",
                                          "extra_state",
                                          "criterion",
                                          "meters",
                                          "loss_scaler",
                                          "message_hub",
                                          "dataloader",
                                          "data_loader",
                                          "param_scheduler",
                                          "optimizer_history",
                                          "opt_param_scheduler",
                                          "ema_optimizer"};

/* Is `name` the name `root`, or below it? */
static bool is_below(const char *name, const char *root)
{
    size_t length = strlen(root);

    return strncmp(name, root, length) == 0 && (name[length] == '.' || name[length] == '\0');
}

static const char *find_root(const char *name, const char *const *roots, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (is_below(name, roots[i])) {
            return roots[i];
        }
    }
    return NULL;
}

#define FIND_ROOT(name, roots) find_root((name), (roots), sizeof(roots) / sizeof((roots)[0]))

/* A number that training notes beside the model: best_acc1. */
static bool is_record(const exg_weight *weight)
{
    return strchr(weight->fqn, '.') == NULL && weight->meta != NULL && weight->meta->rank == 0;
}

/* The one name of a model that all tensors lie below that are of no other part, or NULL. *beside is
 * a tensor that lies elsewhere, where otherwise there would be one. */
static const char *find_model(const exg_weights *of, const char **beside)
{
    const char *root = NULL;

    *beside = NULL;

    for (uint32_t i = 0; i < of->count; i++) {
        const char *name = of->items[i].fqn;
        const char *found;

        if (FIND_ROOT(name, other_names) != NULL || is_record(&of->items[i])) {
            continue;
        }
        found = FIND_ROOT(name, model_names);
        if (found == NULL || (root != NULL && found != root)) {
            *beside = *beside == NULL ? name : *beside;
        } else {
            root = found;
        }
    }
    *beside = root == NULL ? NULL : *beside;
    return *beside == NULL ? root : NULL;
}

/* ---- opening ------------------------------------------------------------------------------ */

static exg_status set_list(exg_name_rules *rules, int which, const char *what,
                           const char *const *texts, uint32_t count, exg_error *err)
{
    rule_list *list = &rules->lists[which];

    *list = (rule_list){what, texts, count, EXG_NEW_ARRAY(rules->arena, bool, count)};
    return list->used == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

char exg_name_missing_group(const regex_t *from, const char *to)
{
    for (const char *at = to; *at != '\0'; at++) {
        if (at[0] == '\\' && at[1] != '\0') {
            at++;
            if (*at >= '0' && *at <= '9' && (size_t)(*at - '0') > from->re_nsub) {
                return *at;
            }
        }
    }
    return '\0';
}

static exg_status compile(exg_name_rules *rules, exg_error *err)
{
    const exg_string_map *renames = &rules->options->renames;

    rules->expressions = EXG_NEW_ARRAY(rules->arena, regex_t, renames->count);
    rules->expressions_used = EXG_NEW_ARRAY(rules->arena, bool, renames->count);
    rules->dtypes_used = EXG_NEW_ARRAY(rules->arena, bool, rules->options->dtypes.count);
    if (rules->expressions == NULL || rules->expressions_used == NULL ||
        rules->dtypes_used == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < renames->count; i++) {
        const char *text = renames->items[i].key;
        int fault = regcomp(&rules->expressions[i], text, REG_EXTENDED);
        char why[96];
        char missing;

        if (fault != 0) {
            regerror(fault, &rules->expressions[i], why, sizeof(why));
            return exg_error_fix(err,
                                 EXG_FAIL(err, USAGE, "WGT-PATTERN",
                                          "'%s' is not a regular expression: %s", text, why),
                                 "give a POSIX extended one, with \\ before a sign that is meant "
                                 "as it is");
        }
        rules->expression_count++;
        missing = exg_name_missing_group(&rules->expressions[i], renames->items[i].value);
        if (missing != '\0') {
            return exg_error_fix(err,
                                 EXG_FAIL(err, USAGE, "WGT-PATTERN",
                                          "'%s' has no group \\%c, which '%s' names", text, missing,
                                          renames->items[i].value),
                                 "put what is meant in parentheses; a \\ before another \\ is "
                                 "one that is meant as it is");
        }
    }
    return EXG_OK;
}

exg_status exg_name_rules_open(const exg_weights *of, const exg_weights_edit_options *options,
                               exg_arena *arena, exg_name_rules **rules, exg_error *err)
{
    exg_name_rules *made = EXG_NEW(arena, exg_name_rules);

    *rules = made;
    if (made == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    made->options = options;
    made->arena = arena;
    if (options->model_only) {
        const char *beside;

        made->root = find_model(of, &beside);
        if (beside != NULL && options->kept != NULL) {
            options->kept(options->user, beside, "it is beside the model, or a part of it");
        }
    }
    EXG_TRY(set_list(made, SELECT, "pattern", options->select, options->select_count, err));
    EXG_TRY(set_list(made, EXCLUDE, "pattern", options->exclude, options->exclude_count, err));
    EXG_TRY(set_list(made, PREFIXES, "prefix", options->prefixes, options->prefix_count, err));
    EXG_TRY(
        set_list(made, TRANSPOSES, "pattern", options->transposes, options->transpose_count, err));
    return compile(made, err);
}

void exg_name_rules_close(exg_name_rules *rules)
{
    for (uint32_t i = 0; rules != NULL && i < rules->expression_count; i++) {
        regfree(&rules->expressions[i]);
    }
}

/* ---- patterns ------------------------------------------------------------------------------- */

/* All that fit are of use, not the first alone. */
static bool fits_one(rule_list *list, const char *name)
{
    bool fits = false;

    for (uint32_t i = 0; i < list->count; i++) {
        if (fnmatch(list->texts[i], name, 0) == 0) {
            list->used[i] = true;
            fits = true;
        }
    }
    return fits;
}

bool exg_name_rules_keep_metadata(const exg_name_rules *rules, const char *name)
{
    return !rules->options->model_only || FIND_ROOT(name, other_names) == NULL;
}

bool exg_name_rules_keep(exg_name_rules *rules, const char *name)
{
    bool selected = fits_one(&rules->lists[SELECT], name);
    bool excluded = fits_one(&rules->lists[EXCLUDE], name);

    return (selected || rules->lists[SELECT].count == 0) && !excluded &&
           exg_name_rules_keep_metadata(rules, name);
}

bool exg_name_rules_is_beside(const exg_name_rules *rules, const char *name)
{
    return rules->root != NULL && !is_below(name, rules->root);
}

bool exg_name_rules_transpose(exg_name_rules *rules, const char *name)
{
    return fits_one(&rules->lists[TRANSPOSES], name);
}

uint32_t exg_name_rules_dtype(exg_name_rules *rules, const char *name, bool *named)
{
    const exg_string_map *dtypes = &rules->options->dtypes;
    uint32_t found = UINT32_MAX;

    *named = false;
    for (uint32_t i = 0; i < dtypes->count; i++) {
        const char *pattern = dtypes->items[i].key;

        if (pattern == NULL || fnmatch(pattern, name, 0) == 0) {
            rules->dtypes_used[i] = true;
            found = i;
            *named = pattern != NULL;
        }
    }
    return found;
}

/* ---- names ----------------------------------------------------------------------------------- */

static void put_replacement(exg_text *out, const char *replacement, const char *text,
                            const regmatch_t groups[GROUPS])
{
    for (const char *at = replacement; *at != '\0'; at++) {
        if (at[0] == '\\' && at[1] >= '0' && at[1] <= '9') {
            const regmatch_t *group = &groups[*++at - '0'];

            if (group->rm_so >= 0) {
                exg_text_add(out, text + group->rm_so, (size_t)(group->rm_eo - group->rm_so));
            }
        } else {
            at += at[0] == '\\' && at[1] != '\0';
            exg_text_putc(out, *at);
        }
    }
}

/* Wherever the expression fits, from left to right. */
static bool replace(const regex_t *expression, const char *replacement, const char *text,
                    exg_text *out)
{
    regmatch_t groups[GROUPS];
    bool any = false;
    int flags = 0;

    while (regexec(expression, text, GROUPS, groups, flags) == 0) {
        any = true;
        exg_text_add(out, text, (size_t)groups[0].rm_so);
        put_replacement(out, replacement, text, groups);
        text += groups[0].rm_eo;
        if (groups[0].rm_so == groups[0].rm_eo) { /* of nothing: the sign behind stays */
            if (*text == '\0') {
                return any;
            }
            exg_text_putc(out, *text++);
        }
        flags = REG_NOTBOL;
    }
    exg_text_puts(out, text);
    return any;
}

static const char *strip_root(const exg_name_rules *rules, const char *name)
{
    size_t length = rules->root == NULL ? 0 : strlen(rules->root);

    return length > 0 && is_below(name, rules->root) && name[length] == '.' ? name + length + 1
                                                                            : name;
}

static const char *strip_prefix(exg_name_rules *rules, const char *name)
{
    rule_list *list = &rules->lists[PREFIXES];

    for (uint32_t i = 0; i < list->count; i++) {
        size_t length = strlen(list->texts[i]);

        if (strncmp(name, list->texts[i], length) == 0) {
            list->used[i] = true;
            return name + length;
        }
    }
    return name;
}

const char *exg_name_rules_strip(exg_name_rules *rules, const char *name)
{
    return strip_prefix(rules, strip_root(rules, name));
}

/* Of all that fit, POSIX takes the leftmost longest: all of the name, if that fits. */
exg_status exg_name_fit(const regex_t *from, const char *to, const char *name, exg_arena *arena,
                        const char **renamed, exg_error *err)
{
    regmatch_t groups[GROUPS];
    exg_text out = EXG_TEXT_EMPTY;

    *renamed = NULL;
    if (regexec(from, name, GROUPS, groups, 0) != 0 || groups[0].rm_so != 0 ||
        name[groups[0].rm_eo] != '\0') {
        return EXG_OK;
    }
    put_replacement(&out, to, name, groups);
    *renamed = exg_arena_strdup(arena, exg_text_string(&out));
    exg_text_free(&out);
    return *renamed == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

exg_status exg_name_rules_rename(exg_name_rules *rules, const char *name, const char **renamed,
                                 exg_error *err)
{
    const exg_string_map *renames = &rules->options->renames;
    const char *now = name;

    for (uint32_t i = 0; i < renames->count; i++) {
        exg_text out = EXG_TEXT_EMPTY;

        if (replace(&rules->expressions[i], renames->items[i].value, now, &out)) {
            rules->expressions_used[i] = true;
            now = exg_text_string(&out) == NULL ? NULL : exg_arena_strdup(rules->arena, out.data);
        }
        exg_text_free(&out);
        if (now == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
    }
    *renamed = now;
    return EXG_OK;
}

/* ---- of use? -----------------------------------------------------------------------------------
 */

static exg_status unused(const char *what, const char *text, exg_error *err)
{
    return exg_error_fix(
        err, EXG_FAIL(err, USAGE, "WGT-PATTERN", "the %s '%s' fits no tensor", what, text),
        "exg inspect lists the names in the file, which patterns are of");
}

exg_status exg_name_rules_check_used(const exg_name_rules *rules, exg_error *err)
{
    for (int l = 0; l < LIST_COUNT; l++) {
        const rule_list *list = &rules->lists[l];

        for (uint32_t i = 0; i < list->count; i++) {
            if (!list->used[i]) {
                return unused(list->what, list->texts[i], err);
            }
        }
    }
    for (uint32_t i = 0; i < rules->options->renames.count; i++) {
        if (!rules->expressions_used[i]) {
            return unused("expression", rules->options->renames.items[i].key, err);
        }
    }
    for (uint32_t i = 0; i < rules->options->dtypes.count; i++) {
        const char *pattern = rules->options->dtypes.items[i].key;

        if (!rules->dtypes_used[i] && pattern != NULL) {
            return unused("pattern", pattern, err);
        }
    }
    return EXG_OK;
}
