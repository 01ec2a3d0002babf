/* halo_rules.c - strategies in which ranks see what is beside their own part, a halo: the places of
 * a convolution or a pool, the blocks of keys and values that an attention goes through, and the
 * largest along a dim. Only for those that emit (exg_rule_call.emits).
 */
#include "libexec/comm/collectives.h"
#include "libexec/sharding/rules.h"
#include "libexport/operators/shape.h"

#include <exg/emit.h>
#include <exg/operator_id_new.h>
#include <math.h>
#include <string.h>

/* ---- places ------------------------------------------------------------------------------ */

/* What an operator does along one of the dims it slides over. */
typedef struct sliding {
    uint32_t dim, at; /* of the input; its place among the dims slid over */
    int64_t size, parts;
    int64_t kernel, stride, padding, dilation;
} sliding;

static int64_t of_list(const exg_argument *list, uint32_t at, int64_t otherwise)
{
    int64_t items[EXG_SHAPE_RANK_MAX];
    uint32_t count = exg_get_ints(list, items, EXG_SHAPE_RANK_MAX);

    return count == 0 ? otherwise : items[at < count ? at : 0];
}

static sliding sliding_of(const exg_rule_call *call, uint32_t dim)
{
    const exg_tensor_meta *in = call->operands[0];
    bool convolves = call->op->id == EXG_OP_convolution_default;
    bool largest = call->op->id == EXG_OP_max_pool2d_with_indices_default;
    sliding s = {.dim = dim,
                 .size = in->sizes[dim].value,
                 .parts = call->results[0]->sizes[dim].value,
                 .dilation = 1};

    if (convolves) {
        s.at = dim - 2;
        s.kernel = call->operands[1]->sizes[dim].value;
        s.stride = of_list(&call->args[3], s.at, 1);
        s.padding = of_list(&call->args[4], s.at, 0);
        s.dilation = of_list(&call->args[5], s.at, 1);
    } else if (call->op->id == EXG_OP__adaptive_avg_pool2d_default) { /* parts that are equal */
        s.at = dim - (in->rank - 2);
        s.kernel = s.stride = s.parts == 0 ? 0 : s.size / s.parts;
    } else {
        s.at = dim - (in->rank - 2);
        s.kernel = of_list(&call->args[1], s.at, 1);
        s.stride = of_list(&call->args[2], s.at, s.kernel);
        s.padding = of_list(&call->args[3], s.at, 0);
        s.dilation = largest ? of_list(&call->args[4], s.at, 1) : 1;
    }
    return s;
}

static int64_t reach_of(const sliding *s)
{
    return s->dilation * (s->kernel - 1) + 1;
}

/* The rank's own part with its halo, and how much of that is before the first element, and after
 * the last. */
typedef struct own_halo {
    exg_ref x;
    int64_t first, before, after, parts;
} own_halo;

static own_halo see_halo(const exg_emission *e, const sliding *s)
{
    exg_halo w = {s->size, s->parts, s->stride, s->padding, reach_of(s), 0};
    own_halo own = {0};
    int64_t offset;
    int64_t begin;
    int64_t count;

    own.parts = exg_own_chunk(e, s->parts, &offset);
    exg_halo_of(&w, e->call->mesh_size, e->rank, &own.first, &count);
    own.x = EMIT(e->builder, exg_window, e->args[0], s->dim, exg_arg_int(w.size),
                 exg_arg_int(w.parts), exg_arg_int(w.stride), exg_arg_int(w.before),
                 exg_arg_int(w.reach), 0, exg_arg_int(count), e->mesh_dim);
    begin = offset * s->stride - s->padding;
    own.before = own.first - begin < 0 ? 0 : own.first - begin;
    own.after = (own.parts - 1) * s->stride + reach_of(s) - count;
    own.before = own.before > own.after ? own.after : own.before;
    own.after -= own.before;
    return own;
}

static exg_ref padded(const exg_emission *e, const sliding *s, const own_halo *own, double with)
{
    int64_t pads[2 * EXG_SHAPE_RANK_MAX] = {0};
    uint32_t behind = e->call->operands[0]->rank - 1 - s->dim;

    if (own->before == 0 && own->after == 0) {
        return own->x;
    }
    pads[2 * behind] = own->before;
    pads[2 * behind + 1] = own->after;
    return EMIT(e->builder, constant_pad_nd_default, own->x,
                INTS_OF(e->builder, pads, 2 * (behind + 1)), exg_arg_float(with));
}

/* `list`, as long as there are dims, with `value` at place `at`. */
static exg_argument with_at(const exg_emission *e, const exg_argument *list, uint32_t at,
                            int64_t value)
{
    int64_t items[EXG_SHAPE_RANK_MAX];
    uint32_t dims =
        e->call->op->id == EXG_OP_convolution_default ? e->call->operands[0]->rank - 2 : 2;

    for (uint32_t i = 0; i < dims; i++) {
        items[i] = i == at ? value : of_list(list, i, 0);
    }
    return INTS_OF(e->builder, items, dims);
}

/* Positions in the part with its halo become those of the whole. PyTorch names the first of a
 * window that is inside where nothing in it is larger than the padding. */
static exg_ref whole_places(const exg_emission *e, const sliding *s, const own_halo *own,
                            exg_ref index)
{
    exg_builder *b = e->builder;
    const exg_tensor_meta *in = e->call->operands[0];
    int64_t width = in->sizes[in->rank - 1].value;
    bool rows = s->at == 0;
    int64_t seen = rows ? width : (own->parts - 1) * s->stride + reach_of(s); /* of a row */
    exg_ref row = EMIT(b, div_Scalar_mode, index, exg_arg_int(seen), exg_arg_string("floor"));
    exg_ref column = EMIT(b, remainder_Scalar, index, exg_arg_int(seen));
    exg_ref at = rows ? row : column;

    at = EMIT(b, sub_Scalar, at, exg_arg_int(own->before));
    if (own->before > 0) { /* negative: on by whole steps until it is not */
        exg_ref steps =
            EMIT(b, div_Scalar_mode, at, exg_arg_int(s->dilation), exg_arg_string("floor"));

        steps = EMIT(b, clamp_max_default, steps, 0);
        at = EMIT(b, sub_Tensor, at, EMIT(b, mul_Scalar, steps, exg_arg_int(s->dilation)));
    }
    at = EMIT(b, add_Scalar, at, exg_arg_int(own->first));
    return EMIT(b, add_Tensor, EMIT(b, mul_Scalar, rows ? at : row, exg_arg_int(width)),
                rows ? column : at);
}

static void emit_halo(const exg_emission *e)
{
    const exg_function_schema *schema = e->call->op->schema;
    exg_operator_id id = e->call->op->id;
    sliding s = sliding_of(e->call, (uint32_t)e->strategy->operands[0].dim);
    own_halo own = see_halo(e, &s);
    bool largest = id == EXG_OP_max_pool2d_with_indices_default;
    bool adapts = id == EXG_OP__adaptive_avg_pool2d_default;
    uint32_t own_at = adapts ? 1 : id == EXG_OP_convolution_default ? 4 : 3; /* size or padding */
    exg_argument args[EXG_ARGUMENTS_MAX];

    if (own.parts == 0) {
        e->results[0] = exg_arg_ref(exg_emit_zeros(e));
        e->results[1] =
            exg_arg_ref(EMIT(e->builder, _to_copy_default, e->results[0], DTYPE(EXG_DTYPE_I64)));
        return;
    }
    for (uint32_t i = 0; i < schema->argument_count; i++) {
        args[i] = e->args[i];
    }
    args[0] = exg_arg_ref(padded(e, &s, &own, largest ? -INFINITY : 0));
    args[own_at] = with_at(e, &e->args[own_at], s.at, adapts ? own.parts : 0);
    exg_emit_all(e->builder, id, args, schema->argument_count, e->results);
    if (largest) {
        e->results[1] = exg_arg_ref(whole_places(e, &s, &own, exg_get_ref(&e->results[1])));
    }
}

/* Zeros beside the whole count like elements, or there are none, or all are counted as one says. */
static bool averages_alike(const exg_rule_call *call, const sliding *s)
{
    bool inside = (s->parts - 1) * s->stride + s->kernel <= s->size + 2 * s->padding;
    bool counts = exg_get_bool(&call->args[5]);

    return call->args[6].kind == EXG_ARGUMENT_INT || (inside && (counts || s->padding == 0));
}

static bool slides_over_parts(const exg_rule_call *call, const sliding *s)
{
    bool averages = call->op->id == EXG_OP_avg_pool2d_default;
    bool adapts = call->op->id == EXG_OP__adaptive_avg_pool2d_default;

    return s->size > 0 && s->parts > 0 && s->kernel > 0 && s->stride > 0 &&
           (averages ? averages_alike(call, s) : true) && (adapts ? s->size % s->parts == 0 : true);
}

/* Dim `dim` split, of which a rank sees `beside` more than its own. */
static exg_status add_strategy(exg_rule_call *call, uint32_t dim, exg_emit_strategy *emit,
                               int64_t beside)
{
    exg_strategy *strategy = exg_strategy_add_emitted(call, emit);

    if (strategy == NULL) {
        return EXG_OUT_OF_MEMORY(call->err);
    }
    strategy->operands[0] = exg_shard((int32_t)dim);
    for (uint32_t r = 0; r < call->result_count; r++) {
        strategy->results[r] = exg_shard((int32_t)dim);
    }
    strategy->halos = 1;
    strategy->halo_bytes =
        (double)(beside > 0 ? beside : 0) * exg_bytes_without(call->operands[0], dim);
    return EXG_OK;
}

static exg_status add_sliding(exg_rule_call *call)
{
    const exg_tensor_meta *in = call->operands[0];
    bool convolves = call->op->id == EXG_OP_convolution_default;

    for (uint32_t d = convolves ? 2 : in->rank - 2; d < in->rank; d++) {
        sliding s = sliding_of(call, d);

        if (slides_over_parts(call, &s)) {
            EXG_TRY(add_strategy(call, d, emit_halo, reach_of(&s) - s.stride));
        }
    }
    return EXG_OK;
}

/* ---- places that spread ------------------------------------------------------------------- */

/* A transposed convolution along a dim: `positions` that are cut among the ranks, of `each`
 * results. What one is made of is within `reach` elements, from `before` on this side of it.
 *
 *   stride 1    a position is a result
 *   otherwise   it is an element, of as many results as the stride says, if there are no others
 */
typedef struct spreading {
    uint32_t dim, at;
    int64_t size, results;
    int64_t positions, each;
    int64_t stride, padding, extent; /* an element is in results so far from its first */
    int64_t before, reach;
} spreading;

static spreading spreading_of(const exg_rule_call *call, uint32_t dim)
{
    spreading s = {.dim = dim,
                   .at = dim - 2,
                   .size = call->operands[0]->sizes[dim].value,
                   .results = call->results[0]->sizes[dim].value};

    s.stride = of_list(&call->args[3], s.at, 1);
    s.padding = of_list(&call->args[4], s.at, 0);
    s.extent = of_list(&call->args[5], s.at, 1) * (call->operands[1]->sizes[dim].value - 1);
    s.positions = s.stride == 1 ? s.results : s.size;
    s.each = s.stride;
    if (s.stride > 0) {
        s.before = (s.extent - s.padding) / s.stride;
        s.reach = s.before + 1 + (s.stride - 1 + s.padding) / s.stride;
    }
    return s;
}

/* Are the chunks of the results those of the positions? */
static bool spreads_over_parts(const exg_rule_call *call, const spreading *s)
{
    int64_t n = call->mesh_size;
    int64_t more = of_list(&call->args[7], s->at, 0);

    return s->size > 0 && s->results == s->positions * s->each && s->padding <= s->extent &&
           s->stride > 0 && (s->stride > 1 || more == 0) &&
           (s->results + n - 1) / n == (s->positions + n - 1) / n * s->each;
}

/* Of the rank's part with its halo all that it spreads to; of that its own. */
static void emit_spreading(const exg_emission *e)
{
    exg_builder *b = e->builder;
    spreading s = spreading_of(e->call, (uint32_t)e->strategy->operands[0].dim);
    exg_halo w = {s.size, s.positions, 1, s.before, s.reach, 0};
    int64_t offset;
    int64_t own = exg_own_chunk(e, s.positions, &offset) * s.each;
    exg_argument args[9];
    int64_t first;
    int64_t count;
    int64_t from;
    int64_t beyond;
    exg_ref x;

    exg_halo_of(&w, e->call->mesh_size, e->rank, &first, &count);
    x = EMIT(b, exg_window, e->args[0], s.dim, exg_arg_int(w.size), exg_arg_int(w.parts),
             exg_arg_int(w.stride), exg_arg_int(w.before), exg_arg_int(w.reach), 0,
             exg_arg_int(count), e->mesh_dim);
    if (own == 0) {
        e->results[0] = exg_arg_ref(exg_emit_zeros(e));
        return;
    }
    from = offset * s.each + s.padding - first * s.stride;
    beyond = from + own - ((count - 1) * s.stride + s.extent + 1);
    memcpy(args, e->args, sizeof(args));
    args[0] = exg_arg_ref(x);
    args[4] = with_at(e, &e->args[4], s.at, 0);
    args[7] = with_at(e, &e->args[7], s.at, beyond > 0 ? beyond : 0);
    exg_emit_all(b, e->call->op->id, args, 9, e->results);
    e->results[0] = exg_arg_ref(
        EMIT(b, slice_Tensor, e->results[0], s.dim, exg_arg_int(from), exg_arg_int(from + own), 1));
}

static exg_status add_spreading(exg_rule_call *call)
{
    const exg_tensor_meta *in = call->operands[0];

    for (uint32_t d = 2; d < in->rank; d++) {
        spreading s = spreading_of(call, d);

        if (spreads_over_parts(call, &s)) {
            EXG_TRY(add_strategy(call, d, emit_spreading, s.reach - 1));
        }
    }
    return EXG_OK;
}

exg_status exg_add_halo(exg_rule_call *call)
{
    const exg_tensor_meta *in = call->operands[0];
    bool convolves = call->op->id == EXG_OP_convolution_default;

    if (!call->emits || !exg_is_real(in->dtype) ||
        (convolves && in->rank != call->operands[1]->rank)) {
        return EXG_OK;
    }
    return convolves && exg_get_bool(&call->args[6]) ? add_spreading(call) : add_sliding(call);
}

/* ---- padding -------------------------------------------------------------------------------- */

/* As if a kernel of one slid over the padded dim. */
static sliding padding_of(const exg_rule_call *call, uint32_t dim, const int64_t *pads)
{
    const exg_tensor_meta *in = call->operands[0];

    return (sliding){.dim = dim,
                     .size = in->sizes[dim].value,
                     .parts = call->results[0]->sizes[dim].value,
                     .kernel = 1,
                     .stride = 1,
                     .padding = pads[2 * (in->rank - 1 - dim)],
                     .dilation = 1};
}

/* The rank's own elements, and of the padding what is in its part. */
static void emit_padded(const exg_emission *e)
{
    uint32_t dim = (uint32_t)e->strategy->operands[0].dim;
    uint32_t behind = e->call->operands[0]->rank - 1 - dim;
    int64_t pads[2 * EXG_SHAPE_RANK_MAX];
    uint32_t count = exg_get_ints(&e->args[1], pads, 2 * EXG_SHAPE_RANK_MAX);
    sliding s = padding_of(e->call, dim, pads);
    own_halo own = see_halo(e, &s);

    if (own.parts == 0) {
        e->results[0] = exg_arg_ref(exg_emit_zeros(e));
        return;
    }
    pads[2 * behind] = own.before;
    pads[2 * behind + 1] = own.after;
    e->results[0] = exg_arg_ref(EMIT(e->builder, constant_pad_nd_default, own.x,
                                     INTS_OF(e->builder, pads, count), e->args[2]));
}

exg_status exg_add_padded(exg_rule_call *call)
{
    const exg_tensor_meta *in = call->operands[0];
    int64_t pads[2 * EXG_SHAPE_RANK_MAX];
    uint32_t count = exg_get_ints(&call->args[1], pads, 2 * EXG_SHAPE_RANK_MAX);

    for (uint32_t d = in->rank - count / 2; call->emits && d < in->rank; d++) {
        const int64_t *two = &pads[2 * (in->rank - 1 - d)];
        int64_t moved = two[0];
        exg_strategy *strategy;

        if (!exg_is_real(in->dtype) || (two[0] == 0 && two[1] == 0) || in->sizes[d].value == 0 ||
            call->results[0]->sizes[d].value == 0) {
            continue;
        }
        strategy = exg_strategy_add_emitted(call, emit_padded);
        if (strategy == NULL) {
            return EXG_OUT_OF_MEMORY(call->err);
        }
        strategy->operands[0] = strategy->results[0] = exg_shard((int32_t)d);
        strategy->halos = 1;
        strategy->halo_bytes = (double)(moved < 0 ? -moved : moved) * exg_bytes_without(in, d);
    }
    return EXG_OK;
}

/* ---- edges of what the tensor has ----------------------------------------------------------- */

typedef enum edge_mode { EDGE_REFLECT, EDGE_REPLICATE, EDGE_CIRCULAR } edge_mode;

/* What comes before a dim, or behind it, and the elements of the tensor that it is made of. */
typedef struct edge {
    int64_t length, first, count;
} edge;

static void edges_of(const exg_rule_call *call, uint32_t dim, edge_mode mode, edge two[2])
{
    const exg_tensor_meta *in = call->operands[0];
    int64_t size = in->sizes[dim].value;
    int64_t pads[2 * EXG_SHAPE_RANK_MAX];
    int64_t before, after;

    (void)exg_get_ints(&call->args[1], pads, 2 * EXG_SHAPE_RANK_MAX);
    before = pads[2 * (in->rank - 1 - dim)];
    after = pads[2 * (in->rank - 1 - dim) + 1];
    two[0] = mode == EDGE_REFLECT     ? (edge){before, 1, before}
             : mode == EDGE_REPLICATE ? (edge){before, 0, 1}
                                      : (edge){before, size - before, before};
    two[1] = mode == EDGE_REFLECT     ? (edge){after, size - 1 - after, after}
             : mode == EDGE_REPLICATE ? (edge){after, size - 1, 1}
                                      : (edge){after, 0, after};
}

/* The edge, on every rank: each has one part that reads the same elements. */
static exg_ref emit_edge(const exg_emission *e, uint32_t dim, edge_mode mode, const edge *of)
{
    const exg_tensor_meta *in = e->call->operands[0];
    int64_t sizes[EXG_SHAPE_RANK_MAX];
    exg_ref x = EMIT(e->builder, exg_window, e->args[0], dim, exg_arg_int(in->sizes[dim].value),
                     exg_arg_int(e->call->mesh_size), 0, exg_arg_int(-of->first),
                     exg_arg_int(of->count), 0, exg_arg_int(of->count), e->mesh_dim);

    for (uint32_t d = 0; d < in->rank; d++) {
        sizes[d] = d == dim ? of->length : -1;
    }
    return mode == EDGE_REFLECT ? EMIT(e->builder, flip_default, x, INTS(e->builder, dim))
           : mode == EDGE_REPLICATE
               ? EMIT(e->builder, expand_default, x, INTS_OF(e->builder, sizes, in->rank))
               : x;
}

/* The rank's own elements, and of the edges what is in its part; then the other dims. */
static void emit_edges(const exg_emission *e)
{
    exg_builder *b = e->builder;
    uint32_t dim = (uint32_t)e->strategy->operands[0].dim;
    uint32_t behind = e->call->operands[0]->rank - 1 - dim;
    edge_mode mode = (edge_mode)exg_get_int(&e->args[2]);
    int64_t pads[2 * EXG_SHAPE_RANK_MAX];
    uint32_t count = exg_get_ints(&e->args[1], pads, 2 * EXG_SHAPE_RANK_MAX);
    sliding s = padding_of(e->call, dim, pads);
    exg_ref ends[2], pieces[3];
    uint32_t piece_count = 0;
    int64_t offset;
    own_halo own;
    edge two[2];

    edges_of(e->call, dim, mode, two);
    for (uint32_t side = 0; side < 2; side++) { /* all ranks, whether they need it or not */
        ends[side] = two[side].length > 0 ? emit_edge(e, dim, mode, &two[side]) : EXG_NO_REF;
    }
    own = see_halo(e, &s);
    if (own.parts == 0) {
        e->results[0] = exg_arg_ref(exg_emit_zeros(e));
        return;
    }
    (void)exg_own_chunk(e, s.parts, &offset);
    if (own.before > 0) {
        pieces[piece_count++] = EMIT(b, slice_Tensor, ends[0], dim, exg_arg_int(offset),
                                     exg_arg_int(offset + own.before), 1);
    }
    if (own.before + own.after < own.parts) {
        pieces[piece_count++] = own.x;
    }
    if (own.after > 0) {
        int64_t from = offset + own.parts - own.after - two[0].length - s.size;

        pieces[piece_count++] = EMIT(b, slice_Tensor, ends[1], dim, exg_arg_int(from),
                                     exg_arg_int(from + own.after), 1);
    }
    own.x = piece_count == 1 ? pieces[0]
                             : EMIT(b, cat_default, exg_arg_refs(b, pieces, piece_count), dim);
    pads[2 * behind] = pads[2 * behind + 1] = 0;
    e->results[0] =
        exg_arg_ref(EMIT(b, edge_pad, own.x, INTS_OF(b, pads, count), exg_arg_int(mode)));
}

exg_status exg_add_edges(exg_rule_call *call)
{
    const exg_tensor_meta *in = call->operands[0];
    edge_mode mode = (edge_mode)exg_get_int(&call->args[2]);
    uint32_t padded = exg_get_ints(&call->args[1], (int64_t[1]){0}, 1) / 2;

    for (uint32_t d = in->rank - padded; call->emits && d < in->rank; d++) {
        exg_strategy *strategy;
        edge two[2];

        edges_of(call, d, mode, two);
        if (two[0].length == 0 && two[1].length == 0) {
            continue;
        }
        strategy = exg_strategy_add_emitted(call, emit_edges);
        if (strategy == NULL) {
            return EXG_OUT_OF_MEMORY(call->err);
        }
        strategy->operands[0] = strategy->results[0] = exg_shard((int32_t)d);
        strategy->halos = 1u + (two[0].length > 0 ? 1 : 0) + (two[1].length > 0 ? 1 : 0);
        strategy->halo_bytes = (double)(two[0].length + (two[0].length > 0 ? two[0].count : 0) +
                                        (two[1].length > 0 ? two[1].count : 0)) *
                               exg_bytes_without(in, d);
    }
    return EXG_OK;
}

/* ---- the largest along a dim --------------------------------------------------------------- */

/* Every rank brings its `count` largest and where they are in the whole. */
typedef struct candidates {
    exg_ref values, places;
} candidates;

static candidates gathered(const exg_emission *e, uint32_t dim, int64_t count,
                           const exg_argument *own)
{
    exg_builder *b = e->builder;
    int64_t offset;
    exg_argument size = exg_arg_int(count * e->call->mesh_size);
    exg_ref places;

    (void)exg_own_chunk(e, e->call->operands[0]->sizes[dim].value, &offset);
    places = EMIT(b, add_Scalar, own[1], exg_arg_int(offset));
    return (candidates){EMIT(b, exg_all_gather, own[0], dim, size, e->mesh_dim),
                        EMIT(b, exg_all_gather, places, dim, size, e->mesh_dim)};
}

static void emit_topk(const exg_emission *e)
{
    exg_builder *b = e->builder;
    uint32_t dim = (uint32_t)e->strategy->operands[0].dim;
    exg_argument own[2];
    exg_argument all[2];
    candidates c;

    EMIT_ALL(b, topk_default, own, e->args[0], e->args[1], e->args[2], e->args[3], true);
    c = gathered(e, dim, exg_get_int(&e->args[1]), own);
    EMIT_ALL(b, topk_default, all, c.values, e->args[1], e->args[2], e->args[3], e->args[4]);
    e->results[0] = all[0];
    e->results[1] = exg_arg_ref(EMIT(b, gather_default, c.places, dim, all[1]));
}

static void emit_largest(const exg_emission *e)
{
    exg_builder *b = e->builder;
    exg_operator_id id = e->call->op->id;
    uint32_t dim = (uint32_t)e->strategy->operands[0].dim;
    bool smallest = id == EXG_OP_min_dim || id == EXG_OP_argmin_default;
    exg_operator_id along = smallest ? EXG_OP_min_dim : EXG_OP_max_dim;
    exg_argument args[3] = {e->args[0], exg_arg_int(dim), exg_arg_bool(true)};
    exg_argument own[2];
    exg_argument all[2];
    candidates c;

    exg_emit_all(b, along, args, 3, own);
    c = gathered(e, dim, 1, own);
    args[0] = exg_arg_ref(c.values);
    exg_emit_all(b, along, args, 3, all);
    all[1] = exg_arg_ref(EMIT(b, gather_default, c.places, dim, all[1]));
    for (uint32_t r = 0; !exg_get_bool(&e->args[2]) && r < 2; r++) {
        all[r] = exg_arg_ref(EMIT(b, squeeze_dim, all[r], dim));
    }
    e->results[0] = all[e->call->result_count == 1 ? 1 : 0];
    e->results[1] = all[1];
}

exg_status exg_add_largest(exg_rule_call *call, uint32_t dim)
{
    bool takes_k = call->op->id == EXG_OP_topk_default;
    const exg_tensor_meta *in = call->operands[0];
    int64_t count = takes_k ? exg_get_int(&call->args[1]) : 1;
    exg_strategy *strategy;

    if (!call->emits || dim >= in->rank || count == 0 ||
        !exg_all_have(call, in->sizes[dim].value, count)) {
        return EXG_OK;
    }
    strategy = exg_strategy_add_emitted(call, takes_k ? emit_topk : emit_largest);
    if (strategy == NULL) {
        return EXG_OUT_OF_MEMORY(call->err);
    }
    strategy->operands[0] = exg_shard((int32_t)dim);
    strategy->gathers = 2;
    strategy->reduced_bytes = (double)(count * call->mesh_size) * exg_bytes_without(in, dim);
    return EXG_OK;
}
