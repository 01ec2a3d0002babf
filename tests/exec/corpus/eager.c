/* eager.c - a case operator by operator on DTensors, a thread a rank. */
#include "libexport/base/element.h"
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
    const exg_placement *chosen; /* one an input, in their stead; or NULL */
    exg_device_mesh *mesh;
    exg_dispatcher *d;
    exg_object *values; /* by value of the graph */
    exg_dtensor **made; /* to be destroyed */
    void **held;        /* what inputs lie in; to be freed */
    uint32_t made_count, held_count;
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

/* Whether ranks may hold parts that `op` makes elements of the dtype from, but for a mean's
 * rounding: of numbers, no mean of integers or of 16 bits, and of complex ones what is linear. */
static bool has_parts(exg_dtype dtype, exg_reduce_op op)
{
    const bool is_linear = op == EXG_REDUCE_SUM || op == EXG_REDUCE_AVG;

    switch (dtype) {
    case EXG_DTYPE_F32:
    case EXG_DTYPE_F64:
        return true;
    case EXG_DTYPE_C64:
    case EXG_DTYPE_C128:
        return is_linear;
    case EXG_DTYPE_F16:
    case EXG_DTYPE_BF16:
    case EXG_DTYPE_U8:
    case EXG_DTYPE_I8:
    case EXG_DTYPE_I16:
    case EXG_DTYPE_I32:
    case EXG_DTYPE_I64:
        return op != EXG_REDUCE_AVG;
    default:
        return false;
    }
}

/* The placement list read from text, or drawn ("mixed SEED") an input, shards of dims that are
 * not there left out, and parts of what has none. */
static void fit(const eager_rank *r, uint32_t input, const exg_tensor *t, exg_placement *to)
{
    bool mixed = strncmp(r->placements, "mixed", 5) == 0;
    uint64_t seed = mixed ? seed_of(r, input) : 0;
    const char *at = r->placements;

    for (uint32_t m = 0; m < exg_device_mesh_ndim(r->mesh); m++) {
        char word[40];
        int used = 0;

        to[m] = exg_replicate();
        if (r->chosen != NULL) {
            to[m] = r->chosen[input];
        } else if (mixed) {
            to[m] = draw(&seed, m);
        } else if (sscanf(at, "%39[^ ]%n", word, &used) == 1) {
            exg_ignore(exg_placement_parse(word, &to[m], NULL));
            at += used + (at[used] == ' ');
        }
        if ((exg_placement_is_shard(to[m]) && to[m].dim >= (int32_t)t->rank) ||
            (to[m].kind == EXG_PARTIAL && !has_parts(t->dtype, to[m].op))) {
            to[m] = exg_replicate();
        }
    }
}

/* ---- parts --------------------------------------------------------------------------------- */

/* What numbers of a dtype lie between, far enough from its own limits to be doubled. */
static double room_of(exg_dtype dtype)
{
    switch (dtype) {
    case EXG_DTYPE_U8:
        return 0x1p8;
    case EXG_DTYPE_I8:
        return 0x1p7;
    case EXG_DTYPE_F16:
    case EXG_DTYPE_I16:
        return 0x1p14;
    case EXG_DTYPE_I32:
        return 0x1p30;
    case EXG_DTYPE_I64:
        return 0x1p50;
    default:
        return 1e37;
    }
}

/* What one rank holds, its turn at this element being `turn` of `n`, of which together `x` is made
 * exactly: of a sum twice the value, its negative, nothing; of a product twice the value and a
 * half; of the largest and the smallest the value, and beside it what does not count. */
static double part_of(exg_reduce_op op, double x, uint32_t n, uint32_t turn, exg_dtype dtype)
{
    const double room = room_of(dtype);
    const bool fits = fabs(x) < room;
    const double lowest = dtype == EXG_DTYPE_U8 ? 0 : -room;
    const double beside = 1 + (double)turn;

    switch (op) {
    case EXG_REDUCE_SUM:
    case EXG_REDUCE_AVG:
        return n == 1 || !fits ? (turn == 0 ? x : 0) : turn == 0 ? 2 * x : turn == 1 ? -x : 0;
    case EXG_REDUCE_MAX:
        return turn == 0 || x - beside < lowest ? x : x - beside;
    case EXG_REDUCE_MIN:
        return turn == 0 || x + beside >= room ? x : x + beside;
    default:
        return exg_dtype_is_integral(dtype) || n == 1 || !fits ? (turn == 0 ? x : 1)
               : turn == 0                                     ? 2 * x
               : turn == 1                                     ? 0.5
                                                               : 1;
    }
}

static void put_number(exg_dtype dtype, void *data, int64_t i, double x)
{
    switch (dtype) {
    case EXG_DTYPE_F16:
        ((uint16_t *)data)[i] = exg_f32_to_f16((float)x);
        break;
    case EXG_DTYPE_BF16:
        ((uint16_t *)data)[i] = exg_f32_to_bf16((float)x);
        break;
    case EXG_DTYPE_F32:
        ((float *)data)[i] = (float)x;
        break;
    case EXG_DTYPE_F64:
        ((double *)data)[i] = x;
        break;
    case EXG_DTYPE_I64:
        ((int64_t *)data)[i] = (int64_t)x;
        break;
    case EXG_DTYPE_I32:
        ((int32_t *)data)[i] = (int32_t)x;
        break;
    case EXG_DTYPE_I16:
        ((int16_t *)data)[i] = (int16_t)x;
        break;
    default:
        ((uint8_t *)data)[i] = (uint8_t)(int64_t)x;
        break;
    }
}

/* What the ranks hold of `whole`, which along the first mesh dim is whole, is to be made of parts
 * there: `parts`, row-major. Whose turn it is differs from element to element, and from input to
 * input. */
static bool take_apart(eager_rank *r, uint32_t input, const exg_dtensor *whole, exg_reduce_op op,
                       exg_tensor *parts)
{
    const exg_tensor *local = exg_dtensor_to_local(whole);
    const bool is_complex = exg_dtype_is_complex(local->dtype);
    const exg_dtype dtype = local->dtype == EXG_DTYPE_C64    ? EXG_DTYPE_F32
                            : local->dtype == EXG_DTYPE_C128 ? EXG_DTYPE_F64
                                                             : local->dtype;
    const int64_t count = exg_tensor_numel(local) * (is_complex ? 2 : 1);
    const uint32_t n = exg_device_mesh_dim_size(r->mesh, 0);
    const uint32_t place = exg_device_mesh_coordinate(r->mesh, 0);

    *parts = *local;
    exg_tensor_set_contiguous(parts);
    parts->data = malloc((size_t)count * exg_dtype_bytes(dtype) + 1);
    r->held[r->held_count++] = parts->data;
    if (exg_dtensor_copy_to_host(whole, NULL, parts->data, &r->err) != EXG_OK) {
        return false;
    }
    for (int64_t i = 0; i < count; i++) {
        uint32_t turn = (place + input + (uint32_t)((uint64_t)i * 0x9e3779b97f4a7c15u >> 40)) % n;
        double x = number_at(dtype, parts->data, i) * (op == EXG_REDUCE_AVG ? n : 1);

        put_number(dtype, parts->data, i, part_of(op, x, n, turn, dtype));
    }
    return true;
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

/* NULL: input `i` is no tensor, or a constant that nothing reads. */
static const exg_named_tensor *input_tensor(const eager_rank *r, uint32_t i)
{
    const exg_input_spec *input = &r->c->program->signature.inputs[i];
    const bool is_constant = input->kind == EXG_INPUT_CONSTANT_TENSOR;

    return r->c->program->graph->inputs[i].kind != EXG_ARGUMENT_TENSOR
               ? NULL
               : case_tensor(r->c, is_constant ? "constant" : "in",
                             is_constant ? input->target : input->arg.name);
}

static bool add_input(eager_rank *r, uint32_t i)
{
    const exg_argument *arg = &r->c->program->graph->inputs[i];
    const exg_named_tensor *t = input_tensor(r, i);
    exg_placement to[EXG_MESH_DIMS_MAX] = {{EXG_REPLICATE, 0, EXG_REDUCE_SUM}};
    const uint32_t ndim = exg_device_mesh_ndim(r->mesh);
    exg_tensor whole = {0};
    exg_dtensor *made = NULL;
    exg_placement first;
    bool right;

    if (arg->kind != EXG_ARGUMENT_TENSOR) {
        return true;
    }
    if (t == NULL) {
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
    first = to[0];
    to[0] = first.kind == EXG_PARTIAL ? exg_replicate() : first;
    right = exg_distribute_tensor(r->mesh, &whole, to, ndim, EXG_NO_RANK, &made, &r->err) == EXG_OK;
    if (right && first.kind == EXG_PARTIAL) {
        exg_from_local_options options = {.size = sizeof(options), .shape = whole.sizes};
        exg_dtensor *exact = made;
        exg_tensor parts;

        made = NULL;
        to[0] = first;
        exg_tensor_set_contiguous(&whole);
        options.strides = whole.strides;
        right =
            take_apart(r, i, exact, first.op, &parts) &&
            exg_dtensor_from_local(r->mesh, &parts, to, ndim, &options, &made, &r->err) == EXG_OK;
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
        return exg_object_value(
            (exg_argument){.kind = EXG_ARGUMENT_INTS, .count = arg->count, .as_ints = ints});
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
    if (exg_dispatch(r->d, key, args, arg_count, kwargs, kwarg_count, &result, &r->err) != EXG_OK) {
        return fail(r, key);
    }
    if (!specs_stay(args, before, arg_count, &result)) {
        return fail(r, "an argument's spec was changed");
    }
    keep_result(r, node, &result);
    return true;
}

/* Where inputs are in parts, their sums are taken later, and of larger numbers. */
static bool compare(eager_rank *r, const exg_object *object, const exg_named_tensor *want)
{
    one_case c = *r->c;
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
    c.in_parts = strchr("pPm", r->placements[0]) != NULL; /* or may be */
    if (here.dtype != EXG_DTYPE_F64 && c.in_parts) {
        c.rtol = fmax(c.rtol, 1e-4);
    }
    exg_tensor_set_contiguous(&here);
    here.data = malloc((size_t)exg_tensor_numel(&here) * exg_dtype_bytes(here.dtype) + 1);
    right = exg_dtensor_copy_to_host(whole, NULL, here.data, &r->err) == EXG_OK
                ? equal_tensors(&c, &here, want, r->why)
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
                            case_tensor(r->c, "out", position)) &&
                    right;
        }
    }
    for (uint32_t i = 0; i < graph->input_count; i++) {
        if (graph->inputs[i].kind == EXG_ARGUMENT_TENSOR) {
            right = compare(r, &r->values[written_value(r, i)],
                            case_tensor(r->c, "after", s->inputs[i].arg.name)) &&
                    right;
        }
    }
    return right;
}

static void forget(eager_rank *r)
{
    for (uint32_t i = 0; i < r->made_count; i++) {
        exg_dtensor_destroy(r->made[i]);
    }
    for (uint32_t i = 0; i < r->held_count; i++) {
        free(r->held[i]);
    }
    r->made_count = r->held_count = 0;
    memset(r->values, 0, r->c->program->graph->value_count * sizeof(*r->values));
}

/* Once. A tensor that is written would have to move: that is refused, and no fault. */
static bool run_once(eager_rank *r)
{
    bool right = run_program(r);

    if (!right && strcmp(r->err.code, "DSP-006") == 0) {
        exg_error_clear(&r->err);
        r->why[0] = '\0';
        right = true;
    }
    forget(r);
    return right;
}

/* ---- pairs --------------------------------------------------------------------------------- */

#define WAYS_MAX 32

/* A mean of parts is the value but for its rounding. */
static bool turns_on_rounding(const eager_rank *r, const exg_named_tensor *t)
{
    bool turns = calls(r->c->program, "aten.eq") || calls(r->c->program, "aten.view.dtype");

    for (int64_t i = 0; !turns && exg_dtype_is_float(t->dtype) &&
                        i < (int64_t)(t->bytes / exg_dtype_bytes(t->dtype));
         i++) {
        double x = fabs(number_at(t->dtype, t->data, i));

        turns = isfinite(x) && x >= room_of(t->dtype); /* into infinity */
    }
    return turns;
}

/* How the tensor may lie along a mesh dim: whole, in shards of each dim, in parts of each kind. */
static uint32_t ways_of(const eager_rank *r, const exg_named_tensor *t, exg_placement *ways)
{
    uint32_t count = 0;

    ways[count++] = exg_replicate();
    for (uint32_t d = 0; t != NULL && d < t->rank && count < WAYS_MAX; d++) {
        ways[count++] = exg_shard((int32_t)d);
    }
    for (exg_reduce_op op = EXG_REDUCE_SUM; t != NULL && op <= EXG_REDUCE_PRODUCT; op++) {
        if (has_parts(t->dtype, op) && count < WAYS_MAX &&
            (op != EXG_REDUCE_AVG || !turns_on_rounding(r, t))) {
            ways[count++] = exg_partial(op);
        }
    }
    return count;
}

/* Those that are no shards and whole tensors only come with the first of the others. */
static bool run_pair(eager_rank *r, exg_placement *chosen, uint32_t a, uint32_t b, bool is_first)
{
    exg_placement ways[2][WAYS_MAX];
    const uint32_t a_count = ways_of(r, input_tensor(r, a), ways[0]);
    const uint32_t b_count = b == a ? 1 : ways_of(r, input_tensor(r, b), ways[1]);
    bool right = true;

    for (uint32_t w = 0; right && w < a_count * b_count; w++) {
        if (w % b_count == 0 && !is_first) {
            continue; /* of `a` alone */
        }
        chosen[a] = ways[0][w / b_count];
        chosen[b] = b == a ? chosen[a] : ways[1][w % b_count];
        right = run_once(r);
        if (!right) {
            char text[2][EXG_PLACEMENT_TEXT];
            char why[200];

            snprintf(why, sizeof(why), "%.199s", r->why);
            snprintf(r->why, 400, "inputs %u %s, %u %s: %s", a,
                     exg_placement_print(chosen[a], text[0]), b,
                     exg_placement_print(chosen[b], text[1]), why);
        }
    }
    chosen[a] = chosen[b] = exg_replicate();
    return right;
}

/* Any two inputs in every way, all others whole. */
static bool run_pairs(eager_rank *r)
{
    const uint32_t count = r->c->program->graph->input_count;
    exg_placement *chosen = calloc(count + 1u, sizeof(*chosen));
    bool right = true;

    r->chosen = chosen;
    for (uint32_t a = 0; a < count && right; a++) {
        bool is_first = true;

        if (input_tensor(r, a) == NULL) {
            continue;
        }
        for (uint32_t b = a + 1; b < count && right; b++) {
            if (input_tensor(r, b) != NULL) {
                right = run_pair(r, chosen, a, b, is_first);
                is_first = false;
            }
        }
        right = right && (!is_first || run_pair(r, chosen, a, a, true));
    }
    r->chosen = NULL;
    free(chosen);
    return right;
}

static void *run_rank(void *argument)
{
    eager_rank *r = argument;
    exg_dispatch_options options = {
        .size = sizeof(options), .mesh = r->mesh, .fallback = EXG_FALLBACK_REPLICATE};
    const exg_graph *graph = r->c->program->graph;

    exg_device_mesh_set_deadline(r->mesh, 5000000000u);
    r->values = calloc(graph->value_count + 1u, sizeof(*r->values));
    r->made = calloc(graph->value_count + 1u, sizeof(*r->made));
    r->held = calloc(graph->input_count + 1u, sizeof(*r->held));
    r->right = exg_dispatcher_create(r->operators, &options, &r->d, &r->err) == EXG_OK &&
               (strcmp(r->placements, "pairs") == 0 ? run_pairs(r) : run_once(r));
    exg_dispatcher_destroy(r->d);
    free(r->values);
    free(r->made);
    free(r->held);
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
        ranks[r] = (eager_rank){
            .c = c, .operators = operators, .placements = placements, .mesh = meshes[r]};
        pthread_create(&threads[r], NULL, run_rank, &ranks[r]);
    }
    for (uint32_t r = 0; r < size; r++) {
        pthread_join(threads[r], NULL);
        if (!ranks[r].right && right) {
            snprintf(why, 400, "rank %u: %.380s", r, ranks[r].why);
        }
        right = right && ranks[r].right;
    }
    for (uint32_t r = 0; r < size; r++) {
        exg_device_mesh_destroy(meshes[r]);
    }
    return right;
}
