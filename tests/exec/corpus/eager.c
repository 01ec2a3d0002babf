/* eager.c - a case operator by operator on DTensors, a thread a rank. */
#include "tests/exec/corpus/corpus.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS_MAX 8

typedef struct eager_rank {
    const one_case *c;
    const exg_operators *operators;
    const char *placements;
    exg_device_mesh *mesh;
    exg_dispatcher *d;
    exg_object *values; /* by value of the graph */
    exg_dtensor **made; /* to be destroyed */
    uint32_t made_count;
    bool right;
    char why[400];
    exg_error err;
} eager_rank;

static bool fail(eager_rank *r, const char *what)
{
    if (r->why[0] == '\0') {
        snprintf(r->why, 200, "%s: %s %.150s", what, r->err.code, r->err.message);
    }
    return false;
}

/* What a seed, the case and an input come to. */
static uint64_t seed_of(const eager_rank *r, uint32_t input)
{
    uint64_t seed = strtoull(r->placements + strlen("mixed "), NULL, 10) * 31 + input;

    for (const char *c = r->c->name; *c != '\0'; c++) {
        seed = (seed ^ (uint64_t)*c) * 1099511628211u;
    }
    return seed;
}

/* One of whole, in shards, in strided shards and, along the first mesh dim, in summands. */
static exg_placement draw(uint64_t *seed, uint32_t m)
{
    int32_t dim;

    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    dim = (int32_t)(*seed >> 40) % 3;
    switch (*seed >> 61) {
    case 0:
    case 1:
        return exg_replicate();
    case 2:
        return m == 0 ? exg_partial(EXG_REDUCE_SUM) : exg_shard(dim);
    case 3:
        return exg_strided_shard(dim, 2);
    default:
        return exg_shard(dim);
    }
}

/* The placement list read from text, or drawn ("mixed SEED") an input, shards of dims that are
 * not there left out. Summands only of what can be halved. */
static void fit(const eager_rank *r, uint32_t input, const exg_tensor *t, exg_placement *to)
{
    bool mixed = strncmp(r->placements, "mixed", 5) == 0;
    uint64_t seed = mixed ? seed_of(r, input) : 0;
    const char *at = r->placements;

    for (uint32_t m = 0; m < exg_device_mesh_ndim(r->mesh); m++) {
        char word[40];
        int used = 0;

        if (mixed) {
            to[m] = draw(&seed, m);
        } else if (sscanf(at, "%39[^ ]%n", word, &used) == 1) {
            (void)exg_placement_parse(word, &to[m], NULL);
            at += used + (at[used] == ' ');
        }
        if ((exg_placement_is_shard(to[m]) && to[m].dim >= (int32_t)t->rank) ||
            (to[m].kind == EXG_PARTIAL && t->dtype != EXG_DTYPE_F32 &&
             t->dtype != EXG_DTYPE_F64)) {
            to[m] = exg_replicate();
        }
    }
}

/* What differs from rank to rank, of which `x` is made exactly: of a sum twice the value, its
 * negative, nothing; else the value on one rank, and beside it what does not count. */
static double part_of(exg_reduce_op op, double x, uint32_t n, uint32_t place, bool owns)
{
    if (op == EXG_REDUCE_SUM || op == EXG_REDUCE_AVG) {
        double factor = n == 1 ? 1 : place == 0 ? 2 : place == 1 ? -1 : 0;

        return fabs(x) < 1e37 ? x * factor : place == 0 ? x : 0;
    }
    return owns                    ? x
           : op == EXG_REDUCE_MAX  ? x - 1 - (double)place
           : op == EXG_REDUCE_MIN  ? x + 1 + (double)place
                                   : 1;
}

/* `whole` lies as `t` does, and along the first mesh dim whole. */
static bool unbalance(const eager_rank *r, const exg_dtensor *whole, exg_dtensor *t)
{
    const exg_tensor *local = exg_dtensor_to_local(t);
    exg_reduce_op op = exg_dtensor_placements(t)[0].op;
    void *here = malloc((size_t)exg_tensor_numel(local) * exg_dtype_bytes(local->dtype) + 1);
    uint32_t n = exg_device_mesh_dim_size(r->mesh, 0);
    uint32_t place = exg_device_mesh_coordinate(r->mesh, 0);
    bool done = exg_dtensor_copy_to_host(whole, NULL, here, NULL) == EXG_OK;

    for (int64_t i = 0; i < exg_tensor_numel(local); i++) {
        float *single = (float *)here + i;
        double *wide = (double *)here + i;
        double x = local->dtype == EXG_DTYPE_F32 ? (double)*single : *wide;
        double part = part_of(op, x * (op == EXG_REDUCE_AVG ? n : 1), n, place, i % n == place);

        if (local->dtype == EXG_DTYPE_F32) {
            *single = (float)part;
        } else {
            *wide = part;
        }
    }
    done = done && exg_dtensor_copy_from_host(t, NULL, here, NULL) == EXG_OK;
    free(here);
    return done;
}

/* Does a node's target hold `word`? */
static bool calls(const exg_program *program, const char *word)
{
    for (uint32_t n = 0; n < program->graph->node_count; n++) {
        if (strstr(program->graph->nodes[n].target, word) != NULL) {
            return true;
        }
    }
    return false;
}

/* Whether results say how the input lies: factors beside determinants do. */
static bool tells_layout(const exg_program *program)
{
    return calls(program, "as_strided") || calls(program, "linalg_det") ||
           calls(program, "linalg_slogdet");
}

/* The elements of row-major `from`, strides that grow from the first dim on. */
static void turn(exg_tensor *t, const void *from)
{
    size_t bytes = exg_dtype_bytes(t->dtype);
    int64_t stride = 1;

    for (uint32_t d = 0; d < t->rank; d++) {
        t->strides[d] = stride;
        stride *= t->sizes[d] > 0 ? t->sizes[d] : 1;
    }
    for (int64_t k = 0; k < exg_tensor_numel(t); k++) {
        int64_t rest = k, at = 0;

        for (uint32_t d = t->rank; d-- > 0; rest /= t->sizes[d]) {
            at += rest % t->sizes[d] * t->strides[d];
        }
        memcpy((char *)t->data + (size_t)at * bytes, (const char *)from + (size_t)k * bytes, bytes);
    }
}

static bool add_input(eager_rank *r, uint32_t i)
{
    const exg_signature *s = &r->c->program->signature;
    const exg_argument *arg = &r->c->program->graph->inputs[i];
    bool constant = s->inputs[i].kind == EXG_INPUT_CONSTANT_TENSOR;
    const exg_named_tensor *t;
    exg_placement to[EXG_MESH_DIMS_MAX] = {{EXG_REPLICATE, 0, EXG_REDUCE_SUM}};
    exg_tensor whole = {0};
    exg_dtensor *made = NULL, *exact = NULL;
    bool right;

    if (arg->kind != EXG_ARGUMENT_TENSOR) {
        return true;
    }
    t = case_tensor(r->c, constant ? "constant" : "in",
                    constant ? s->inputs[i].target : s->inputs[i].arg.name);
    if (t == NULL) { /* a constant that nothing reads */
        r->values[arg->as_tensor] = exg_object_none();
        return true;
    }
    whole.dtype = t->dtype;
    whole.rank = t->rank;
    memcpy(whole.sizes, t->shape, t->rank * sizeof(int64_t));
    exg_tensor_set_contiguous(&whole);
    whole.data = malloc(t->bytes + 1);
    memcpy(whole.data, t->data, t->bytes);
    if (strncmp(r->placements, "mixed", 5) == 0 && !tells_layout(r->c->program)) {
        turn(&whole, t->data);
    }
    fit(r, i, &whole, to);
    right = exg_distribute_tensor(r->mesh, &whole, to, exg_device_mesh_ndim(r->mesh), EXG_NO_RANK,
                                  &made, &r->err) == EXG_OK;
    if (right && to[0].kind == EXG_PARTIAL) {
        to[0] = exg_replicate();
        right = exg_distribute_tensor(r->mesh, &whole, to, exg_device_mesh_ndim(r->mesh),
                                      EXG_NO_RANK, &exact, &r->err) == EXG_OK &&
                unbalance(r, exact, made);
        exg_dtensor_destroy(exact);
    }
    free(whole.data);
    r->made[r->made_count++] = made;
    if (!right) {
        return fail(r, "input");
    }
    r->values[arg->as_tensor] = exg_object_dtensor(made);
    return true;
}

static exg_object object_of(eager_rank *r, const exg_argument *arg, exg_object *items,
                            uint32_t *used, int64_t *ints)
{
    exg_object list;

    switch (arg->kind) {
    case EXG_ARGUMENT_NONE:
        return exg_object_none();
    case EXG_ARGUMENT_TENSOR:
    case EXG_ARGUMENT_OPTIONAL_TENSOR:
        return arg->as_tensor == EXG_NO_VALUE ? exg_object_none() : r->values[arg->as_tensor];
    case EXG_ARGUMENT_TENSORS:
    case EXG_ARGUMENT_OPTIONAL_TENSORS:
        list = exg_object_list(items + *used, arg->count);
        for (uint32_t t = 0; t < arg->count; t++) {
            items[(*used)++] = arg->as_tensors[t] == EXG_NO_VALUE ? exg_object_none()
                                                                  : r->values[arg->as_tensors[t]];
        }
        return list;
    case EXG_ARGUMENT_SYM_INT:
        if (arg->as_sym.value != EXG_NO_VALUE) {
            return r->values[arg->as_sym.value];
        }
        return exg_object_value(exg_arg_int(arg->as_sym.as_int));
    case EXG_ARGUMENT_SYM_INTS:
        for (uint32_t i = 0; i < arg->count; i++) {
            ints[i] = arg->as_syms[i].as_int;
        }
        return exg_object_value((exg_argument){.kind = EXG_ARGUMENT_INTS, .count = arg->count,
                                               .as_ints = ints});
    default:
        return exg_object_value(*arg);
    }
}

static void keep(eager_rank *r, exg_value_id id, const exg_object *object)
{
    bool known = false;

    if (id == EXG_NO_VALUE) {
        return;
    }
    r->values[id] = *object;
    if (object->kind != EXG_OBJECT_DTENSOR) {
        return;
    }
    for (uint32_t i = 0; i < r->made_count; i++) {
        known = known || r->made[i] == object->dtensor;
    }
    if (!known) {
        r->made[r->made_count++] = object->dtensor;
    }
}

static void keep_result(eager_rank *r, const exg_node *node, exg_object *result)
{
    bool many = result->kind == EXG_OBJECT_LIST || result->kind == EXG_OBJECT_TUPLE;
    uint32_t at = 0;

    for (uint32_t o = 0; o < node->output_count; o++) {
        const exg_argument *out = &node->outputs[o];

        if (out->kind == EXG_ARGUMENT_TENSORS) {
            const exg_object *list = node->output_count == 1 ? result : &result->items[at++];

            for (uint32_t i = 0; i < out->count && i < list->count; i++) {
                keep(r, out->as_tensors[i], &list->items[i]);
            }
        } else if (many && at < result->count) {
            keep(r, out->kind == EXG_ARGUMENT_TENSOR ? out->as_tensor : EXG_NO_VALUE,
                 &result->items[at++]);
        } else if (out->kind == EXG_ARGUMENT_SYM_INT) { /* of .item() */
            keep(r, out->as_sym.value, result);
        } else if (!many && out->kind == EXG_ARGUMENT_TENSOR) {
            keep(r, out->as_tensor, result);
        }
    }
    exg_object_clear(result, false);
}

/* Rules and moves leave the arguments as they were (S000-13). */
static bool specs_stay(const exg_object *args, const exg_dtensor_spec *before, uint32_t count,
                       const exg_object *result)
{
    for (uint32_t i = 0; i < count; i++) {
        exg_dtensor_spec now;

        if (args[i].kind != EXG_OBJECT_DTENSOR ||
            (result->kind == EXG_OBJECT_DTENSOR && result->dtensor == args[i].dtensor)) {
            continue;
        }
        exg_dtensor_get_spec(args[i].dtensor, &now);
        if (!exg_dtensor_spec_equal(&now, &before[i])) {
            return false;
        }
    }
    return true;
}

static bool run_node(eager_rank *r, const exg_node *node)
{
    exg_dtensor_spec before[32];
    exg_object args[32] = {{0}}, items[600];
    exg_named_object kwargs[32] = {{0}};
    int64_t ints[32][EXG_RANK_MAX];
    uint32_t arg_count = 0, kwarg_count = 0, used = 0;
    exg_object result;
    const char *key = node->target + strlen("torch.ops.");

    for (uint32_t i = 0; i < node->input_count && i < 32; i++) {
        exg_object object = object_of(r, &node->inputs[i].arg, items, &used, ints[i]);

        if (node->inputs[i].kind == EXG_KIND_KEYWORD) {
            kwargs[kwarg_count++] = (exg_named_object){node->inputs[i].name, object};
        } else {
            if (object.kind == EXG_OBJECT_DTENSOR) {
                exg_dtensor_get_spec(object.dtensor, &before[arg_count]);
            }
            args[arg_count++] = object;
        }
    }
    if (exg_dispatch(r->d, key, args, arg_count, kwargs, kwarg_count, &result, &r->err) !=
        EXG_OK) {
        return fail(r, key);
    }
    if (!specs_stay(args, before, arg_count, &result)) {
        return fail(r, "an argument's spec was changed");
    }
    keep_result(r, node, &result);
    return true;
}

static bool compare(eager_rank *r, const exg_object *object, const exg_named_tensor *want)
{
    exg_dtensor *whole = NULL;
    exg_tensor here;
    bool right;

    if (want == NULL) {
        return true;
    }
    if (object->kind != EXG_OBJECT_DTENSOR) {
        snprintf(r->why, 200, "an output is no tensor");
        return false;
    }
    if (exg_dtensor_full_tensor(object->dtensor, &whole, &r->err) != EXG_OK) {
        return fail(r, "output");
    }
    here = *exg_dtensor_to_local(whole);
    exg_tensor_set_contiguous(&here);
    here.data = malloc((size_t)exg_tensor_numel(&here) * exg_dtype_bytes(here.dtype) + 1);
    right = exg_dtensor_copy_to_host(whole, NULL, here.data, &r->err) == EXG_OK
                ? equal_tensors(r->c, &here, want, r->why)
                : fail(r, "output");
    free(here.data);
    exg_dtensor_destroy(whole);
    return right;
}

/* Where the new value of input `i` is: in a functional program, an output. */
static exg_value_id written_value(const eager_rank *r, uint32_t i)
{
    const exg_graph *graph = r->c->program->graph;
    const exg_signature *s = &r->c->program->signature;

    for (uint32_t o = 0; o < graph->output_count; o++) {
        if (s->outputs[o].kind == EXG_OUTPUT_USER_INPUT_MUTATION && s->outputs[o].target != NULL &&
            strcmp(s->outputs[o].target, s->inputs[i].arg.name) == 0) {
            return graph->outputs[o].as_tensor;
        }
    }
    return graph->inputs[i].as_tensor;
}

static bool run_program(eager_rank *r)
{
    const exg_graph *graph = r->c->program->graph;
    const exg_signature *s = &r->c->program->signature;
    uint32_t user = 0;
    bool right = true;

    for (uint32_t i = 0; i < graph->input_count; i++) {
        if (!add_input(r, i)) {
            return false;
        }
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        if (!run_node(r, &graph->nodes[n])) {
            return false;
        }
    }
    for (uint32_t o = 0; o < graph->output_count; o++) {
        char position[12];

        if (s->outputs[o].kind != EXG_OUTPUT_USER) {
            continue;
        }
        snprintf(position, sizeof(position), "%u", user++);
        if (graph->outputs[o].kind == EXG_ARGUMENT_TENSOR) {
            right = compare(r, &r->values[graph->outputs[o].as_tensor],
                            case_tensor(r->c, "out", position)) && right;
        }
    }
    for (uint32_t i = 0; i < graph->input_count; i++) {
        if (graph->inputs[i].kind == EXG_ARGUMENT_TENSOR) {
            right = compare(r, &r->values[written_value(r, i)],
                            case_tensor(r->c, "after", s->inputs[i].arg.name)) && right;
        }
    }
    return right;
}

static void *run_rank(void *argument)
{
    eager_rank *r = argument;
    exg_dispatch_options options = {.size = sizeof(options), .mesh = r->mesh,
                                    .fallback = EXG_FALLBACK_REPLICATE};
    const exg_graph *graph = r->c->program->graph;

    exg_device_mesh_set_deadline(r->mesh, 5000000000u);
    r->values = calloc(graph->value_count + 1u, sizeof(*r->values));
    r->made = calloc(graph->value_count + 1u, sizeof(*r->made));
    r->right = exg_dispatcher_create(r->operators, &options, &r->d, &r->err) == EXG_OK &&
               run_program(r);
    for (uint32_t i = 0; i < r->made_count; i++) {
        exg_dtensor_destroy(r->made[i]);
    }
    exg_dispatcher_destroy(r->d);
    free(r->values);
    free(r->made);
    return NULL;
}

bool run_eager(const one_case *c, const exg_operators *operators, const exg_mesh_shape *mesh,
               const char *placements, char *why)
{
    exg_mesh_shape shape = mesh->ndim > 0 ? *mesh : (exg_mesh_shape){1, {1}, {NULL}};
    exg_device_mesh *meshes[RANKS_MAX];
    pthread_t threads[RANKS_MAX];
    eager_rank ranks[RANKS_MAX];
    uint32_t size;
    bool right = true;

    if (calls(c->program, "higher_order")) {
        return true; /* graphs in graphs are not run operator by operator */
    }
    shape.device_type = getenv("EXG_TEST_DEVICE");
    if (exg_local_mesh_create(&shape, meshes, NULL) != EXG_OK) {
        return false;
    }
    size = exg_device_mesh_size(meshes[0]);
    for (uint32_t r = 0; r < size; r++) {
        ranks[r] = (eager_rank){.c = c, .operators = operators, .placements = placements,
                                .mesh = meshes[r]};
        pthread_create(&threads[r], NULL, run_rank, &ranks[r]);
    }
    for (uint32_t r = 0; r < size; r++) {
        pthread_join(threads[r], NULL);
        if (strcmp(ranks[r].err.code, "DSP-006") == 0) { /* a tensor written would have to move */
            ranks[r].right = true;
        }
        if (!ranks[r].right && right) {
            snprintf(why, 200, "rank %u: %.180s", r, ranks[r].why);
        }
        right = right && ranks[r].right;
    }
    for (uint32_t r = 0; r < size; r++) {
        exg_device_mesh_destroy(meshes[r]);
    }
    return right;
}
