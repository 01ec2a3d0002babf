/* inner_nodes.c - what nodes of inner graphs give: of branches, loops and graphs that run where
 * they stand. Nobody outside can name such a value, so each is handed to an operator with an
 * effect, which is put behind its node and keeps a copy: "cond/true_graph_0/sin"; in a loop
 * "scan/scan_combine_graph_0/add@2" when its node has run the third time. */
#include "cli/inner_nodes.h"
#include "cli/cli.h"
#include "cli/vmap_nodes.h"

#include <exg/memory.h>
#include <exg/operator_library.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WATCH_TARGET "torch.ops.exg.watch.default"
#define WATCH_SCHEMA "exg::watch(Tensor x, int index) -> ()"
#define DEPTH_MAX    64
#define KEPT_MAX     1000000

/* A value that is watched. */
typedef struct watch {
    const char *path;
    uint32_t before; /* so many of the root's nodes that are watched come before it */
    uint32_t kept;   /* times that it was */
    bool repeats;    /* in a loop */
} watch;

/* A rank that is a thread: how often it came by each. */
typedef struct passer {
    pthread_t thread;
    uint32_t *times;
} passer;

struct cli_inner_nodes {
    exg_arena *arena; /* of paths and passers */
    watch *watches;
    uint32_t count, capacity, graph_count;
    cli_node_value *kept; /* in the order in which they were given */
    uint32_t kept_count, kept_capacity;
    uint64_t bytes, bytes_most;
    passer *passers;
    uint32_t passer_count, passer_capacity;
    pthread_mutex_t lock;
};

/* ---- the operator ---------------------------------------------------------------------------- */

static exg_status no_shape(exg_operator_call *call, exg_error *err)
{
    (void)call;
    (void)err;
    return EXG_OK;
}

static passer *passer_here(cli_inner_nodes *inner)
{
    const pthread_t thread = pthread_self();
    passer *p;

    for (uint32_t i = 0; i < inner->passer_count; i++) {
        if (pthread_equal(inner->passers[i].thread, thread)) {
            return &inner->passers[i];
        }
    }
    if (!exg_arena_reserve(inner->arena, &inner->passers, inner->passer_count,
                           &inner->passer_capacity, sizeof(*inner->passers))) {
        return NULL;
    }
    p = &inner->passers[inner->passer_count];
    *p = (passer){thread, EXG_NEW_ARRAY(inner->arena, uint32_t, inner->count)};
    inner->passer_count += p->times != NULL;
    return p->times == NULL ? NULL : p;
}

static exg_status keep(cli_inner_nodes *inner, watch *w, const exg_tensor *tensor, exg_error *err)
{
    const uint64_t bytes = (uint64_t)exg_tensor_numel(tensor) * exg_dtype_bytes(tensor->dtype);
    cli_node_value value = {.name = w->path, .tensor = *tensor, .before = w->before};

    if (inner->kept_count == KEPT_MAX || bytes > inner->bytes_most - inner->bytes) {
        return EXG_OPERATOR_FAIL(err, LIMIT,
                                 "values inside of branches and loops take more than %" PRIu64
                                 " bytes, or are more than %d: choose some with --nodes",
                                 inner->bytes_most, KEPT_MAX);
    }
    if (w->repeats) {
        value.name = exg_arena_printf(inner->arena, "%s@%u", w->path, w->kept);
    }
    value.tensor.data = malloc(bytes + 1);
    if (value.name == NULL || value.tensor.data == NULL ||
        !exg_arena_reserve(inner->arena, &inner->kept, inner->kept_count, &inner->kept_capacity,
                           sizeof(*inner->kept))) {
        free(value.tensor.data);
        return EXG_OPERATOR_FAIL(err, NO_MEMORY, "out of memory");
    }
    if (bytes > 0) {
        memcpy(value.tensor.data, tensor->data, bytes);
    }
    exg_tensor_set_contiguous(&value.tensor);
    inner->kept[inner->kept_count++] = value;
    inner->bytes += bytes;
    w->kept++;
    return EXG_OK;
}

/* All ranks have the same: the first to come keeps it. */
static exg_status keep_once(exg_operator_call *call, exg_error *err)
{
    cli_inner_nodes *inner = call->user;
    const int64_t index = exg_operator_int(call, 1);
    exg_status status = EXG_OK;
    passer *p;

    if (index < 0 || index >= inner->count) {
        return EXG_OPERATOR_FAIL(err, USAGE, "no value %" PRId64 " is watched", index);
    }
    (void)pthread_mutex_lock(&inner->lock);
    p = passer_here(inner);
    if (p == NULL) {
        status = EXG_OPERATOR_FAIL(err, NO_MEMORY, "out of memory");
    } else if (p->times[index]++ == inner->watches[index].kept) {
        status = keep(inner, &inner->watches[index], &call->inputs[0], err);
    }
    (void)pthread_mutex_unlock(&inner->lock);
    return status;
}

/* ---- put into graphs ------------------------------------------------------------------------- */

typedef struct inserter {
    cli_inner_nodes *inner;
    exg_arena *arena; /* of the program */
    cli_path_fn *is_wanted;
    void *user;
    exg_error *err;
    exg_graph *graph; /* in hand, */
    exg_node *nodes;  /* and what becomes of its nodes */
    uint32_t count, capacity;
    const char *path;
    const char *const *called; /* by value: what is shown of torch.vmap */
    uint32_t before;
    bool repeats;
    exg_status status;
} inserter;

static exg_status put_node(inserter *in, const exg_node *node)
{
    if (!exg_arena_reserve(in->arena, &in->nodes, in->count, &in->capacity, sizeof(*in->nodes))) {
        return EXG_OUT_OF_MEMORY(in->err);
    }
    in->nodes[in->count++] = *node;
    return EXG_OK;
}

static exg_status put_watch(inserter *in, exg_value_id id, const char *path)
{
    cli_inner_nodes *inner = in->inner;
    exg_named_argument *inputs = EXG_NEW_ARRAY(in->arena, exg_named_argument, 2);
    const exg_node node = {.target = WATCH_TARGET,
                           .inputs = inputs,
                           .input_count = 2,
                           .is_hop_single_tensor_return = EXG_UNSET};

    path = exg_arena_strdup(inner->arena, path);
    if (inputs == NULL || path == NULL ||
        !exg_arena_reserve(inner->arena, &inner->watches, inner->count, &inner->capacity,
                           sizeof(*inner->watches))) {
        return EXG_OUT_OF_MEMORY(in->err);
    }
    inputs[0] = (exg_named_argument){"x", {.kind = EXG_ARGUMENT_TENSOR}, EXG_KIND_POSITIONAL};
    inputs[0].arg.as_tensor = id;
    inputs[1] = (exg_named_argument){"index", {.kind = EXG_ARGUMENT_INT}, EXG_KIND_POSITIONAL};
    inputs[1].arg.as_int = inner->count;
    inner->watches[inner->count++] = (watch){path, in->before, 0, in->repeats};
    return put_node(in, &node);
}

static void watch_value(void *user, exg_value_id *id)
{
    inserter *in = user;
    const exg_value *value = *id == EXG_NO_VALUE ? NULL : &in->graph->values[*id];
    const char *path;
    bool is_shown;

    if (value == NULL || value->tensor == NULL || value->tensor->layout != EXG_LAYOUT_STRIDED ||
        in->status != EXG_OK) {
        return;
    }
    is_shown = in->called != NULL && in->called[*id] != NULL;
    path = is_shown ? in->called[*id] : exg_arena_printf(in->arena, "%s%s", in->path, value->name);
    if (path == NULL) {
        in->status = EXG_OUT_OF_MEMORY(in->err);
    } else if (is_shown || in->is_wanted(in->user, path)) {
        in->status = put_watch(in, *id, path);
    }
}

static bool is_loop(const char *target)
{
    return strstr(target, "higher_order.while_loop") != NULL ||
           strstr(target, "higher_order.scan") != NULL ||
           strstr(target, "higher_order.map_impl") != NULL;
}

char *cli_inner_path(exg_arena *arena, const char *path, const exg_node *node,
                     const exg_graph_argument *graph)
{
    return exg_arena_printf(arena, "%s%s/%s/", path, node->name == NULL ? node->target : node->name,
                            graph->name == NULL ? "" : graph->name);
}

static exg_status insert_into(inserter *in, exg_graph *graph, const char *path, bool repeats,
                              uint32_t depth);

static exg_status go_into(inserter *in, const exg_node *node, const char *path, bool repeats,
                          uint32_t depth)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        const exg_argument *arg = &node->inputs[i].arg;

        if (arg->kind == EXG_ARGUMENT_GRAPH) {
            const char *inner = cli_inner_path(in->arena, path, node, arg->as_graph);

            /* Graphs of one name must be alike (GRF-008), and two calls of one are watched apart.
             */
            arg->as_graph->name = exg_arena_printf(
                in->arena, "%s" CLI_WATCHED_MARK "%u",
                arg->as_graph->name == NULL ? "" : arg->as_graph->name, in->inner->graph_count++);
            EXG_TRY(inner == NULL || arg->as_graph->name == NULL
                        ? EXG_OUT_OF_MEMORY(in->err)
                        : insert_into(in, arg->as_graph->graph, inner,
                                      repeats || is_loop(node->target), depth + 1));
        }
    }
    return EXG_OK;
}

/* Inner graphs first: what is in hand is of one graph at a time. */
static exg_status insert_into(inserter *in, exg_graph *graph, const char *path, bool repeats,
                              uint32_t depth)
{
    uint32_t vmaps = 0;

    if (depth > DEPTH_MAX) {
        return EXG_FAIL(in->err, LIMIT, "GRF-010", "graphs in graphs, more than %d", DEPTH_MAX);
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        vmaps = cli_vmap_depth(&graph->nodes[n], vmaps);
        EXG_TRY(go_into(in, &graph->nodes[n], path, repeats || vmaps > 0, depth));
    }
    EXG_TRY(
        cli_vmap_nodes_show(in->arena, graph, path, in->is_wanted, in->user, &in->called, in->err));
    in->graph = graph;
    in->path = path;
    in->repeats = repeats;
    in->nodes = NULL;
    in->count = in->capacity = vmaps = 0;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        exg_node *node = &graph->nodes[n];

        EXG_TRY(put_node(in, node));
        vmaps = cli_vmap_depth(node, vmaps);
        for (uint32_t o = 0; vmaps == 0 && o < node->output_count; o++) {
            exg_argument_visit_values(&node->outputs[o], watch_value, in);
        }
        EXG_TRY(in->status);
    }
    graph->nodes = in->nodes;
    graph->node_count = in->count;
    return EXG_OK;
}

static exg_status create(const cli_call *call, cli_inner_nodes **made, exg_error *err)
{
    cli_inner_nodes *inner = calloc(1, sizeof(*inner));
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long page = sysconf(_SC_PAGESIZE);
    exg_status status = EXG_OK;

    if (inner == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    (void)pthread_mutex_init(&inner->lock, NULL);
    inner->arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    inner->bytes_most = pages > 0 && page > 0 ? (uint64_t)pages / 2 * (uint64_t)page : 1u << 30;
    if (inner->arena == NULL) {
        status = EXG_OUT_OF_MEMORY(err);
    } else if (call->memory_limit != NULL) {
        status = cli_size("--memory-limit", call->memory_limit, &inner->bytes_most, err);
    }
    if (status != EXG_OK) {
        cli_inner_nodes_free(inner);
        return status;
    }
    *made = inner;
    return EXG_OK;
}

void cli_inner_nodes_free(cli_inner_nodes *inner)
{
    if (inner == NULL) {
        return;
    }
    cli_inner_nodes_forget(inner);
    exg_arena_destroy(inner->arena);
    (void)pthread_mutex_destroy(&inner->lock);
    free(inner);
}

exg_status cli_inner_nodes_watch(const cli_call *call, const exg_node *node, bool repeats,
                                 cli_program *p, cli_path_fn *is_wanted, void *user,
                                 uint32_t before, cli_inner_nodes **inner, exg_error *err)
{
    inserter in = {.arena = p->program->arena,
                   .is_wanted = is_wanted,
                   .user = user,
                   .err = err,
                   .before = before};

    if (*inner == NULL) {
        EXG_TRY(create(call, inner, err));
    }
    in.inner = *inner;
    return go_into(&in, node, "", repeats, 0);
}

exg_status cli_inner_nodes_register(cli_inner_nodes *inner, exg_operators *operators,
                                    exg_error *err)
{
    const exg_operator_definition watched = {.size = sizeof(watched),
                                             .schema = WATCH_SCHEMA,
                                             .shape = no_shape,
                                             .kernel = keep_once,
                                             .user = inner,
                                             .effect = true};
    const exg_operator_library library = {.size = sizeof(library),
                                          .version = EXG_OPERATOR_LIBRARY_VERSION,
                                          .count = 1,
                                          .items = &watched,
                                          .name = "exg"};

    return exg_operators_register(operators, &library, err);
}

uint32_t cli_inner_nodes_count(const cli_inner_nodes *inner)
{
    return inner == NULL ? 0 : inner->count;
}

void cli_inner_nodes_forget(cli_inner_nodes *inner)
{
    for (uint32_t i = 0; i < inner->kept_count; i++) {
        free(inner->kept[i].tensor.data);
    }
    inner->kept_count = inner->passer_count = 0;
    inner->bytes = 0;
    for (uint32_t i = 0; i < inner->count; i++) {
        inner->watches[i].kept = 0;
    }
}

const cli_node_value *cli_inner_nodes_kept(const cli_inner_nodes *inner, uint32_t *count)
{
    *count = inner == NULL ? 0 : inner->kept_count;
    return inner == NULL ? NULL : inner->kept;
}

bool cli_is_of_path(const char *name, const char *path)
{
    const size_t length = strlen(path);

    return strncmp(name, path, length) == 0 && (name[length] == '\0' || name[length] == '@');
}

bool cli_inner_nodes_have(const cli_inner_nodes *inner, const char *name)
{
    for (uint32_t i = 0; inner != NULL && i < inner->count; i++) {
        if (cli_is_of_path(name, inner->watches[i].path)) {
            return true;
        }
    }
    return false;
}
