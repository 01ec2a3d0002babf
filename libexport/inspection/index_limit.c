/* index_limit.c - what integers an input may hold, where the program takes them as indices. */
#include "libexport/base/require.h"

#include <exg/inspection.h>
#include <stdlib.h>
#include <string.h>

static const struct index_use {
    const char *name, *index, *table, *dim;
} uses[] = {
#define EXG_INDEX_USE(name, index, table, dim) {name, index, table, dim},
#include "libexport/inspection/index_use.def"
#undef EXG_INDEX_USE
};

/* Results of these are elements of their first argument, as they were. */
static const char *const keepers[] = {"alias",     "cat",        "chunk",
                                      "clone",     "contiguous", "detach",
                                      "expand",    "expand_as",  "flatten",
                                      "flip",      "movedim",    "lift_fresh_copy",
                                      "narrow",    "permute",    "repeat",
                                      "reshape",   "roll",       "select",
                                      "slice",     "split",      "split_with_sizes",
                                      "squeeze",   "t",          "to",
                                      "_to_copy",  "transpose",  "unbind",
                                      "unsqueeze", "unflatten",  "_unsafe_view",
                                      "view",      "view_as"};

typedef struct search {
    const exg_graph *graph;
    const exg_symbols *symbols;
    bool *follows; /* by value: its elements are the input's */
    int64_t limit; /* INT64_MAX: none found */
} search;

/* "embedding" of "torch.ops.aten.embedding.default"; false: it is another's. */
static bool is_called(const exg_node *node, const char *name)
{
    static const char before[] = "torch.ops.aten.";
    const size_t length = strlen(name);
    const char *own = node->target + sizeof(before) - 1;

    return strncmp(node->target, before, sizeof(before) - 1) == 0 &&
           strncmp(own, name, length) == 0 && own[length] == '.';
}

static const exg_argument *find_argument(const exg_node *node, const char *name)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (strcmp(node->inputs[i].name, name) == 0) {
            return &node->inputs[i].arg;
        }
    }
    return NULL;
}

static bool is_tensor(const exg_argument *arg)
{
    return arg != NULL &&
           (arg->kind == EXG_ARGUMENT_TENSOR ||
            (arg->kind == EXG_ARGUMENT_OPTIONAL_TENSOR && arg->as_tensor != EXG_NO_VALUE));
}

static bool is_list(const exg_argument *arg)
{
    return arg != NULL &&
           (arg->kind == EXG_ARGUMENT_TENSORS || arg->kind == EXG_ARGUMENT_OPTIONAL_TENSORS);
}

static bool follows(const search *s, const exg_argument *arg)
{
    bool any = is_tensor(arg) && s->follows[arg->as_tensor];

    for (uint32_t i = 0; !any && is_list(arg) && i < arg->count; i++) {
        any = arg->as_tensors[i] != EXG_NO_VALUE && s->follows[arg->as_tensors[i]];
    }
    return any;
}

/* The size of a table along `dim`, or none. */
static void take_size(search *s, const exg_argument *table, int64_t dim)
{
    const exg_tensor_meta *meta =
        is_tensor(table) ? s->graph->values[table->as_tensor].tensor : NULL;
    int64_t rank = meta == NULL ? 0 : meta->rank;
    int64_t size;

    dim += dim < 0 ? rank : 0;
    if (dim < 0 || dim >= rank) {
        return;
    }
    size = meta->sizes[dim].value;
    if (meta->sizes[dim].expr != NULL &&
        exg_symint_evaluate(meta->sizes[dim].expr, s->symbols, &size, NULL) != EXG_OK) {
        return;
    }
    s->limit = size < s->limit ? size : s->limit;
}

static void take_use(search *s, const exg_node *node, const struct index_use *use)
{
    const exg_argument *table = find_argument(node, use->table);
    const exg_argument *dim = find_argument(node, use->dim);
    const exg_tensor_meta *meta =
        is_tensor(table) ? s->graph->values[table->as_tensor].tensor : NULL;

    if (!follows(s, find_argument(node, use->index))) {
        return;
    }
    if (strcmp(use->dim, "0") == 0) {
        take_size(s, table, 0);
    } else if (strcmp(use->dim, "classes") == 0) {
        take_size(s, table, meta != NULL && meta->rank > 1);
    } else if (dim != NULL && dim->kind == EXG_ARGUMENT_INT && use->table[0] != '\0') {
        take_size(s, table, dim->as_int);
    } else if (dim != NULL && dim->kind == EXG_ARGUMENT_INT && dim->as_int > 0) {
        s->limit = dim->as_int < s->limit ? dim->as_int : s->limit;
    }
}

/* self[i, :, j]: a list with an index for each of the first dims, one of bools for as many as it
 * has. */
static void take_index(search *s, const exg_node *node)
{
    const exg_argument *list = find_argument(node, "indices");
    int64_t dim = 0;

    for (uint32_t i = 0; is_list(list) && i < list->count; i++) {
        exg_value_id id = list->as_tensors[i];
        const exg_tensor_meta *meta = id == EXG_NO_VALUE ? NULL : s->graph->values[id].tensor;

        if (id != EXG_NO_VALUE && s->follows[id]) {
            take_size(s, find_argument(node, "self"), dim);
        }
        dim += meta != NULL && meta->dtype == EXG_DTYPE_B8 ? (int64_t)meta->rank : 1;
    }
}

static void follow(search *s, const exg_node *node)
{
    for (uint32_t o = 0; o < node->output_count; o++) {
        const exg_argument *output = &node->outputs[o];

        for (uint32_t i = 0; is_list(output) && i < output->count; i++) {
            s->follows[output->as_tensors[i]] = true;
        }
        if (is_tensor(output)) {
            s->follows[output->as_tensor] = true;
        }
    }
}

static void look_at(search *s, const exg_node *node)
{
    static const char *const indexers[] = {"index", "index_put", "index_put_", "_unsafe_index",
                                           "_unsafe_index_put"};

    for (size_t u = 0; u < sizeof(uses) / sizeof(uses[0]); u++) {
        if (is_called(node, uses[u].name)) {
            take_use(s, node, &uses[u]);
        }
    }
    for (size_t i = 0; i < sizeof(indexers) / sizeof(indexers[0]); i++) {
        if (is_called(node, indexers[i])) {
            take_index(s, node);
        }
    }
    for (size_t k = 0; k < sizeof(keepers) / sizeof(keepers[0]); k++) {
        if (is_called(node, keepers[k]) && node->input_count > 0 &&
            follows(s, &node->inputs[0].arg)) {
            follow(s, node);
        }
    }
}

exg_status exg_index_limit(const exg_program *program, exg_value_id value,
                           const exg_symbols *symbols, int64_t *limit, exg_error *err)
{
    EXG_REQUIRE(err, program, symbols, limit);
    search s = {.graph = program->graph, .symbols = symbols, .limit = INT64_MAX};

    *limit = 0;
    if (value >= s.graph->value_count) {
        return EXG_OK;
    }
    s.follows = calloc(s.graph->value_count, sizeof(*s.follows));
    if (s.follows == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    s.follows[value] = true;
    for (uint32_t n = 0; n < s.graph->node_count; n++) {
        look_at(&s, &s.graph->nodes[n]);
    }
    free(s.follows);
    *limit = s.limit == INT64_MAX ? 0 : s.limit;
    return EXG_OK;
}
