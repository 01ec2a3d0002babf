/* release.c - which release of PyTorch reads what: torch_version.def, since.def. */
#include "libexport/formats/pt2/release.h"

#include <exg/weights.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *release;
    int64_t minor;
} releases[] = {
#define EXG_TORCH_VERSION(release, minor) {release, minor},
#include "libexport/formats/pt2/torch_version.def"
#undef EXG_TORCH_VERSION
};

#define RELEASES (sizeof(releases) / sizeof(releases[0]))

exg_status exg_pt2_minor_of(const char *release, int64_t *minor, exg_error *err)
{
    unsigned major = 0;
    unsigned second = 0;
    int end = 0;

    for (size_t i = 0; i < RELEASES; i++) {
        size_t length = strlen(releases[i].release);

        if (strncmp(release, releases[i].release, length) == 0 &&
            (release[length] == '\0' || release[length] == '.' || release[length] == '+')) {
            *minor = releases[i].minor;
            return EXG_OK;
        }
    }
    if (sscanf(release, "%u.%u%n", &major, &second, &end) == 2 && major == 2 && second < 9) {
        return EXG_FAIL(err, UNSUPPORTED, "PT2-005",
                        "PyTorch %s reads archives of another layout, which is not written",
                        release);
    }
    return exg_error_fix(
        err, EXG_FAIL(err, USAGE, "CLI-001", "no release of PyTorch is known as '%s'", release),
        "%s to %s", releases[0].release, releases[RELEASES - 1].release);
}

static int64_t since_of_argument(exg_argument_kind kind)
{
    switch (kind) {
#define EXG_ARGUMENT_SINCE(id, minor)                                                              \
    case EXG_ARGUMENT_##id:                                                                        \
        return minor;
#define EXG_DTYPE_SINCE(id, minor)
#include "libexport/formats/pt2/since.def"
#undef EXG_ARGUMENT_SINCE
#undef EXG_DTYPE_SINCE
    default:
        return 0;
    }
}

static int64_t since_of_dtype(exg_dtype dtype)
{
    switch (dtype) {
#define EXG_ARGUMENT_SINCE(id, minor)
#define EXG_DTYPE_SINCE(id, minor)                                                                 \
    case EXG_DTYPE_##id:                                                                           \
        return minor;
#include "libexport/formats/pt2/since.def"
#undef EXG_ARGUMENT_SINCE
#undef EXG_DTYPE_SINCE
    default:
        return 0;
    }
}

/* `what` is in the schema since `since`. */
static exg_status check(const char *what, const char *where, int64_t since, int64_t minor,
                        exg_error *err)
{
    size_t first = 0;

    if (since <= minor) {
        return EXG_OK;
    }
    while (first + 1 < RELEASES && releases[first].minor < since) {
        first++;
    }
    return exg_error_fix(err,
                         EXG_FAIL(err, UNSUPPORTED, "PT2-006",
                                  "'%s' has %s, which is in the schema since PyTorch %s", where,
                                  what, releases[first].release),
                         "write it for %s or later", releases[first].release);
}

static exg_status check_graph(const exg_graph *graph, int64_t minor, exg_error *err);

static exg_status check_argument(const exg_argument *arg, const char *where, int64_t minor,
                                 exg_error *err)
{
    EXG_TRY(check(exg_argument_tag(arg->kind), where, since_of_argument(arg->kind), minor, err));
    if (arg->kind == EXG_ARGUMENT_SCALAR_TYPE) {
        return check(exg_dtype_name(arg->as_scalar_type), where,
                     since_of_dtype(arg->as_scalar_type), minor, err);
    }
    if (arg->kind == EXG_ARGUMENT_GRAPH) {
        return check_graph(arg->as_graph->graph, minor, err);
    }
    for (uint32_t i = 0; arg->kind == EXG_ARGUMENT_STRING_TO_ARGUMENT && i < arg->count; i++) {
        EXG_TRY(check_argument(&arg->as_string_to_argument[i].argument, where, minor, err));
    }
    return EXG_OK;
}

static exg_status check_graph(const exg_graph *graph, int64_t minor, exg_error *err)
{
    for (uint32_t v = 0; v < graph->value_count; v++) {
        const exg_tensor_meta *meta = graph->values[v].tensor;

        if (meta != NULL) {
            EXG_TRY(check(exg_dtype_name(meta->dtype), graph->values[v].name,
                          since_of_dtype(meta->dtype), minor, err));
        }
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const exg_node *node = &graph->nodes[n];
        const char *name = node->name == NULL ? node->target : node->name;

        for (uint32_t i = 0; i < node->input_count; i++) {
            EXG_TRY(check_argument(&node->inputs[i].arg, name, minor, err));
        }
        for (uint32_t o = 0; o < node->output_count; o++) {
            EXG_TRY(check_argument(&node->outputs[o], name, minor, err));
        }
    }
    return EXG_OK;
}

exg_status exg_pt2_check_minor(const exg_program *program, int64_t minor, exg_error *err)
{
    const exg_weights *weights = program->weights;

    for (uint32_t i = 0; i < weights->count; i++) {
        if (weights->items[i].meta != NULL) {
            EXG_TRY(check(exg_dtype_name(weights->items[i].meta->dtype), weights->items[i].fqn,
                          since_of_dtype(weights->items[i].meta->dtype), minor, err));
        }
    }
    return check_graph(program->graph, minor, err);
}
