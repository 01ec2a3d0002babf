/* library.c - shared objects with operators. */
#include "libexport/base/arena.h"
#include "libexport/base/require.h"
#include "libexport/operators/operator_set.h"

#include <dlfcn.h>
#include <exg/operator_library.h>
#include <string.h>

/* What comes with exg: which namespace is in which file, beside libexport's other plugins. */
static const struct {
    const char *prefix, *file;
} shipped[] = {
    {"torch.ops.torchaudio.", "libexg_torchaudio.so"},
    {"torch.ops.torchvision.", "libexg_torchvision.so"},
};

static exg_status no_library(const char *path, const char *why, exg_error *err)
{
    return exg_error_fix(
        err, EXG_FAIL(err, USAGE, "LIB-001", "no library of operators: %s%s", path, why),
        "give a shared object that has " EXG_OPERATOR_LIBRARY_FUNCTION "()");
}

/* It stays loaded: programs that are running call into it. */
static exg_status load(exg_operators *operators, void *object, const char *path, exg_error *err)
{
    exg_operator_library_get_fn *get;
    const exg_operator_library *library;
    void *symbol = dlsym(object, EXG_OPERATOR_LIBRARY_FUNCTION);

    if (symbol == NULL) {
        return no_library(path, " has no " EXG_OPERATOR_LIBRARY_FUNCTION "()", err);
    }
    memcpy(&get, &symbol, sizeof(get));
    library = get();
    if (library == NULL) {
        return no_library(path, "'s function gives none", err);
    }
    EXG_TRY_IN(err, exg_operators_register(operators, library, err), "%s:", path);
    return EXG_OK;
}

exg_status exg_operators_load(exg_operators *operators, const char *path, exg_error *err)
{
    EXG_REQUIRE(err, operators, path);
    /* without a '/' dlopen() would look where the system has its libraries */
    const char *file =
        strchr(path, '/') != NULL ? path : exg_arena_printf(operators->arena, "./%s", path);
    void *object = file == NULL ? NULL : dlopen(file, RTLD_NOW | RTLD_LOCAL);
    const char *why = object == NULL ? dlerror() : NULL;

    if (file == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (object == NULL) {
        return no_library("", why == NULL ? path : why, err);
    }
    return load(operators, object, path, err);
}

/* ---- what comes with exg -------------------------------------------------------------------- */

static bool starts(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool has_namespace(const exg_operators *operators, const char *prefix)
{
    for (uint32_t i = 0; i < operators->added_count; i++) {
        if (starts(operators->added[i]->target, prefix)) {
            return true;
        }
    }
    return false;
}

/* Does a node of the graph, or of one in it, call an operator of that namespace? */
static bool calls(const exg_graph *graph, const char *prefix)
{
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const exg_node *node = &graph->nodes[n];

        if (starts(node->target, prefix)) {
            return true;
        }
        for (uint32_t i = 0; i < node->input_count; i++) {
            const exg_argument *arg = &node->inputs[i].arg;

            if ((arg->kind == EXG_ARGUMENT_OPERATOR && starts(arg->as_string, prefix)) ||
                (arg->kind == EXG_ARGUMENT_GRAPH && calls(arg->as_graph->graph, prefix))) {
                return true;
            }
        }
    }
    return false;
}

exg_status exg_operators_load_for(exg_operators *operators, const exg_program *program,
                                  exg_error *err)
{
    EXG_REQUIRE(err, operators, program);
    for (size_t i = 0; i < sizeof(shipped) / sizeof(shipped[0]); i++) {
        const char *prefix = shipped[i].prefix;
        void *object = NULL;

        if (calls(program->graph, prefix) && !has_namespace(operators, prefix)) {
            object = dlopen(shipped[i].file, RTLD_NOW | RTLD_LOCAL);
        }
        if (object != NULL) {
            EXG_TRY(load(operators, object, shipped[i].file, err));
        }
    }
    return EXG_OK;
}
