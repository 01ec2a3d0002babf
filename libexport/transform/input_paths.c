/* input_paths.c - inputs by the arguments of the call and what nests in them. */
#include "libexport/base/require.h"
#include "libexport/verify/tree.h"

#include <exg/transform.h>
#include <inttypes.h>
#include <string.h>

typedef struct pathfinder {
    const exg_program *program;
    exg_arena *arena;
    const char **paths;
    uint32_t at; /* the graph input before which all leaves are placed */
    exg_text path;
    bool failed;
} pathfinder;

/* The next input that a leaf of the call is. */
static const char **next_input(pathfinder *f)
{
    const exg_signature *signature = &f->program->signature;

    while (f->at < f->program->graph->input_count && f->at < signature->input_count) {
        uint32_t i = f->at++;

        if (signature->inputs[i].kind == EXG_INPUT_USER) {
            return &f->paths[i];
        }
    }
    return NULL;
}

static void on_leaf(void *user, const exg_tree_step *step, uint32_t leaf)
{
    pathfinder *f = user;
    const exg_tree_step *steps[EXG_TREE_DEPTH_MAX];
    const char **path = next_input(f);
    uint32_t count = 0;
    bool known = path != NULL;

    (void)leaf;
    for (; step != NULL && count < EXG_TREE_DEPTH_MAX; step = step->outer) {
        steps[count++] = step;
        known = known && (step->key == NULL || strcmp(step->key, EXG_TREE_UNKNOWN) != 0);
    }
    if (!known || f->failed) {
        return;
    }
    exg_text_free(&f->path);
    for (uint32_t i = count; i-- > 0;) {
        exg_text_puts(&f->path, i + 1 < count ? "." : "");
        if (steps[i]->key != NULL) {
            exg_text_puts(&f->path, steps[i]->key);
        } else {
            exg_text_printf(&f->path, "%" PRId64, steps[i]->index);
        }
    }
    *path = exg_text_string(&f->path) == NULL
                ? NULL
                : exg_arena_strdup(f->arena, exg_text_string(&f->path));
    f->failed = *path == NULL;
}

exg_status exg_input_paths(const exg_program *program, exg_arena *arena, const char ***paths,
                           exg_error *err)
{
    EXG_REQUIRE(err, program, arena, paths);
    const exg_module_call *root = program->module_call_count > 0 ? &program->module_calls[0] : NULL;
    pathfinder f = {.program = program, .arena = arena, .path = EXG_TEXT_EMPTY};
    exg_status status = EXG_OK;

    f.paths = EXG_NEW_ARRAY(arena, const char *, program->graph->input_count);
    if (f.paths == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (root != NULL && root->in_spec != NULL) {
        status = exg_tree_leaves(program, root->in_spec, root->forward_arg_names,
                                 root->forward_arg_names == NULL ? 0 : root->forward_arg_name_count,
                                 on_leaf, &f);
    }
    exg_text_free(&f.path);
    if (f.failed || status == EXG_NO_MEMORY) {
        return EXG_OUT_OF_MEMORY(err);
    }
    *paths = f.paths; /* of a tree that cannot be read those before it */
    return EXG_OK;
}
