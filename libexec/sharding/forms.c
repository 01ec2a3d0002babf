/* forms.c - the forms in which a value is at hand while a mesh dim is placed along, and the moves
 * that make new ones.
 */
#include "libexec/comm/grid.h"
#include "libexec/sharding/partitioner.h"

#include <exg/emit.h>

typedef exg_partitioner partitioner;
typedef exg_form form;
typedef exg_forms forms;

static const exg_tensor_meta *meta_of(const partitioner *p, exg_value_id id)
{
    return p->r.in->graph->values[id].tensor;
}

void exg_add_form(partitioner *p, exg_value_id id, exg_placement placement, exg_ref ref)
{
    forms *f = &p->forms[id];

    if (f->count < EXG_FORMS_MAX) {
        f->items[f->count++] = (form){placement, ref};
    }
}

double exg_link_cost(const partitioner *p, exg_placement from, exg_placement to, double bytes)
{
    return exg_move_cost(&p->costs->links[p->mesh_dim], from, to, bytes, p->n);
}

/* A part that ranks share is parted among them, and goes on from there, where they get equal ones.
 */
static bool is_parted(const partitioner *p, const exg_tensor_meta *meta, exg_placement from)
{
    return exg_sharers(from) > 1 && meta->sizes[from.dim].value % (int64_t)p->n == 0;
}

/* Pieces from all over a dim go on by way of the whole. */
static bool is_strided(exg_placement p)
{
    return p.kind == EXG_STRIDED_SHARD;
}

static double cost_of_move(const partitioner *p, const exg_tensor_meta *meta, exg_placement from,
                           exg_placement to)
{
    bool goes_on = is_parted(p, meta, from) && !exg_same_place(from, to);

    if ((exg_sharers(from) > 1 || is_strided(from)) && !goes_on && !exg_same_place(from, to)) {
        to = exg_replicate(); /* by way of the whole */
    }
    return exg_link_cost(p, goes_on ? exg_shard(from.dim) : from, to,
                         exg_bytes_to_lie_so(meta, to, exg_meta_bytes(meta), p->n));
}

const form *exg_cheapest_form(const partitioner *p, exg_value_id id, exg_placement want,
                              double *cost)
{
    const forms *f = &p->forms[id];
    const form *best = NULL;

    *cost = EXG_COST_IMPOSSIBLE;
    for (uint32_t i = 0; i < f->count; i++) {
        double c = cost_of_move(p, meta_of(p, id), f->items[i].placement, want);

        if (best == NULL || c < *cost) {
            best = &f->items[i];
            *cost = c;
        }
    }
    return best;
}

bool exg_splits_evenly(const partitioner *p, const exg_tensor_meta *meta, exg_placement placement)
{
    return placement.kind != EXG_SHARD || exg_sharers(placement) > 1 ||
           meta->sizes[placement.dim].value % (int64_t)p->n == 0;
}

/* The rank's own of a dim of `length` that is placed so. */
static void own_chunk(const partitioner *p, int64_t length, exg_placement place, int64_t *offset,
                      int64_t *size)
{
    uint32_t sharers = exg_sharers(place);

    if (sharers == 1) { /* otherwise parts are equal */
        exg_shard_pattern_note(p->pattern, length);
    }
    exg_chunk(length, p->n / sharers, p->rank / sharers, offset, size);
}

exg_ref exg_cut_chunk(partitioner *p, exg_ref whole, const exg_tensor_meta *meta,
                      exg_placement place)
{
    int64_t offset;
    int64_t size;

    p->uneven = p->uneven || !exg_splits_evenly(p, meta, place);
    own_chunk(p, meta->sizes[place.dim].value, place, &offset, &size);
    return EMIT(p->r.builder, slice_Tensor, whole, place.dim, offset, offset + size, 1);
}

int64_t exg_own_size(const partitioner *p, const exg_tensor_meta *meta, exg_placement place)
{
    int64_t offset;
    int64_t size;

    own_chunk(p, meta->sizes[place.dim].value, place, &offset, &size);
    return size;
}

/* Of a part that several ranks have, the rank's own. */
static exg_ref part_of_shared(const partitioner *p, exg_ref part, const exg_tensor_meta *meta,
                              exg_placement from)
{
    int64_t size = meta->sizes[from.dim].value / (int64_t)p->n;
    int64_t offset = p->rank % exg_sharers(from) * size;

    return EMIT(p->r.builder, slice_Tensor, part, from.dim, exg_arg_int(offset),
                exg_arg_int(offset + size), 1);
}

/* Of each part that several ranks have, the first one's: all are gathered. */
static exg_ref whole_of_shared(const partitioner *p, exg_ref part, const exg_tensor_meta *meta,
                               exg_placement from)
{
    exg_builder *b = p->r.builder;
    int64_t sharers = exg_sharers(from);
    int64_t parts = (int64_t)p->n / sharers;
    int64_t size = meta->sizes[from.dim].value / parts;
    int64_t sizes[EXG_SHAPE_RANK_MAX + 1];
    exg_ref all;

    for (uint32_t d = 0; d < meta->rank; d++) {
        sizes[d + ((int32_t)d > from.dim)] = meta->sizes[d].value;
    }
    sizes[from.dim] = parts;
    sizes[from.dim + 1] = sharers * size;
    all = EMIT(b, exg_all_gather, part, from.dim, exg_arg_int((int64_t)p->n * size), p->mesh_dim);
    all = EMIT(b, reshape_default, all, INTS_OF(b, sizes, meta->rank + 1));
    all = EMIT(b, slice_Tensor, all, from.dim + 1, 0, exg_arg_int(size), 1);
    for (uint32_t d = 0; d < meta->rank; d++) {
        sizes[d] = meta->sizes[d].value;
    }
    return EMIT(b, reshape_default, all, INTS_OF(b, sizes, meta->rank));
}

/* Summands of a value that every rank has: the first rank's is the value, the
 * others' are zero. Of a largest or smallest, everybody's is the value. */
static exg_ref as_summand(partitioner *p, exg_ref whole, const exg_tensor_meta *meta,
                          exg_reduce_op op)
{
    int64_t sizes[EXG_SHAPE_RANK_MAX];

    p->uneven = p->uneven || op == EXG_REDUCE_SUM; /* the ranks' programs differ */
    if (op != EXG_REDUCE_SUM || p->rank == 0) {
        return whole;
    }
    for (uint32_t d = 0; d < meta->rank && d < EXG_SHAPE_RANK_MAX; d++) {
        sizes[d] = meta->sizes[d].value;
    }
    return EMIT(p->r.builder, full_default, INTS_OF(p->r.builder, sizes, meta->rank), 0,
                DTYPE(meta->dtype));
}

/* The rank's piece of each run, gathered run by run: the dim is parted into runs, and each of those
 * split, so that ranks along another mesh dim who have some of the runs gather those alone. */
static exg_ref whole_of_strided(partitioner *p, exg_ref whole, exg_placement s,
                                const exg_tensor_meta *meta)
{
    exg_builder *b = p->r.builder;
    int64_t run = meta->sizes[s.dim].value / s.split_factor;
    int64_t sizes[EXG_SHAPE_RANK_MAX + 1];
    int64_t offset;
    int64_t own;
    exg_ref all;

    for (uint32_t d = 0; d < meta->rank; d++) {
        sizes[d + ((int32_t)d > s.dim)] = meta->sizes[d].value;
    }
    sizes[s.dim] = s.split_factor;
    sizes[s.dim + 1] = run;
    own_chunk(p, run, exg_shard(s.dim + 1), &offset, &own);
    p->uneven = p->uneven || run % (int64_t)p->n != 0;
    all = EMIT(b, reshape_default, whole, INTS_OF(b, sizes, meta->rank + 1));
    all = EMIT(b, slice_Tensor, all, s.dim + 1, exg_arg_int(offset), exg_arg_int(offset + own), 1);
    all = EMIT(b, exg_all_gather, all, s.dim + 1, exg_arg_int(run), p->mesh_dim);
    for (uint32_t d = 0; d < meta->rank; d++) {
        sizes[d] = meta->sizes[d].value;
    }
    return EMIT(b, reshape_default, all, INTS_OF(b, sizes, meta->rank));
}

/* The same of runs that are not equal: each is a tensor of its own. */
static exg_ref whole_of_runs(partitioner *p, exg_ref whole, exg_placement s, int64_t length)
{
    exg_builder *b = p->r.builder;
    exg_ref *runs = EXG_NEW_ARRAY(p->scratch, exg_ref, (uint32_t)s.split_factor);
    uint32_t count = 0;

    for (uint32_t r = 0; runs != NULL && r < (uint32_t)s.split_factor; r++) {
        int64_t first;
        int64_t run;
        int64_t offset;
        int64_t own;
        exg_ref piece;

        exg_chunk(length, (uint32_t)s.split_factor, r, &first, &run);
        if (run > 0) {
            own_chunk(p, run, exg_shard(s.dim), &offset, &own);
            piece = EMIT(b, slice_Tensor, whole, s.dim, exg_arg_int(first + offset),
                         exg_arg_int(first + offset + own), 1);
            runs[count++] = EMIT(b, exg_all_gather, piece, s.dim, exg_arg_int(run), p->mesh_dim);
        }
    }
    p->uneven = true;
    return runs == NULL ? whole : EMIT(b, cat_default, exg_arg_refs(b, runs, count), s.dim);
}

static exg_ref emit_move(partitioner *p, const form *from, exg_placement to,
                         const exg_tensor_meta *meta)
{
    exg_builder *b = p->r.builder;
    exg_placement s = from->placement;
    exg_argument op = exg_arg_string(exg_reduce_op_name(s.op));

    if (s.kind == EXG_REPLICATE) {
        return to.kind == EXG_SHARD ? exg_cut_chunk(p, from->ref, meta, to)
                                    : as_summand(p, from->ref, meta, to.op);
    }
    if (is_strided(s)) {
        int64_t length = meta->sizes[s.dim].value;

        return length % s.split_factor == 0 ? whole_of_strided(p, from->ref, s, meta)
                                            : whole_of_runs(p, from->ref, s, length);
    }
    if (exg_sharers(s) > 1) {
        return to.kind == EXG_REPLICATE ? whole_of_shared(p, from->ref, meta, s)
                                        : part_of_shared(p, from->ref, meta, s);
    }
    if (s.kind == EXG_SHARD && to.kind == EXG_SHARD) {
        return EMIT(b, exg_all_to_all, from->ref, s.dim, exg_arg_int(meta->sizes[s.dim].value),
                    to.dim, exg_arg_int(exg_own_size(p, meta, to)), p->mesh_dim);
    }
    if (s.kind == EXG_SHARD) {
        return EMIT(b, exg_all_gather, from->ref, s.dim, exg_arg_int(meta->sizes[s.dim].value),
                    p->mesh_dim);
    }
    if (to.kind == EXG_SHARD) {
        return EMIT(b, exg_reduce_scatter, from->ref, to.dim,
                    exg_arg_int(exg_own_size(p, meta, to)), op, p->mesh_dim);
    }
    return EMIT(b, exg_all_reduce, from->ref, op, p->mesh_dim);
}

/* Where a value goes first on its way there: itself, but for parts that ranks share, and pieces. */
static exg_placement on_the_way(const partitioner *p, const exg_tensor_meta *meta,
                                exg_placement from, exg_placement to)
{
    if (exg_sharers(from) == 1 && !is_strided(from)) {
        return to;
    }
    return is_parted(p, meta, from) ? exg_shard(from.dim) : exg_replicate();
}

/* Ranks elsewhere along the partitioner's mesh dim may have more or less of a value that is placed
 * so, and cut other lengths than this one. */
static void note_cuts_elsewhere(const partitioner *p, const exg_gathered *first,
                                const exg_tensor_meta *meta, exg_placement as)
{
    int64_t before = -1;

    for (uint32_t place = 0; p->patterns != NULL && place < p->n && !exg_splits_evenly(p, meta, as);
         place++) {
        int64_t offset;
        int64_t length;

        exg_chunk(meta->sizes[as.dim].value, p->n, place, &offset, &length);
        if (length == before) { /* chunks never grow */
            continue;
        }
        before = length;
        for (const exg_gathered *g = first; g != NULL; g = g->inner) {
            if (g->dim == as.dim) {
                exg_shard_pattern_note(&p->patterns[g->mesh_dim], length);
                exg_chunk(length, p->mesh->sizes[g->mesh_dim],
                          exg_mesh_shape_coordinate(p->mesh, p->mesh_rank, g->mesh_dim), &offset,
                          &length);
            }
        }
    }
}

/* A rank's piece of `x`, gathered. */
static exg_ref gather_pieces(partitioner *p, const exg_gathered *g, exg_ref x)
{
    const exg_gathered *cuts[EXG_MESH_DIMS_MAX];
    int64_t lengths[EXG_MESH_DIMS_MAX];
    uint32_t count = 0;

    for (; g != NULL && count < EXG_MESH_DIMS_MAX; g = g->inner) {
        int64_t offset;
        int64_t own;

        cuts[count] = g;
        lengths[count] = exg_ref_meta(p->r.builder, x)->sizes[g->dim].value;
        exg_chunk(lengths[count], p->mesh->sizes[g->mesh_dim],
                  exg_mesh_shape_coordinate(p->mesh, p->mesh_rank, g->mesh_dim), &offset, &own);
        if (p->patterns != NULL) {
            exg_shard_pattern_note(&p->patterns[g->mesh_dim], lengths[count]);
        }
        x = EMIT(p->r.builder, slice_Tensor, x, g->dim, exg_arg_int(offset),
                 exg_arg_int(offset + own), 1);
        count++;
    }
    while (count-- > 0) {
        x = EMIT(p->r.builder, exg_all_gather, x, cuts[count]->dim, exg_arg_int(lengths[count]),
                 cuts[count]->mesh_dim);
    }
    return x;
}

/* Of what is still to be gathered: the rank's part of the weight is, and nothing else; or what the
 * ranks that meet there have decided. */
static exg_status gather_form(partitioner *p, exg_value_id id, exg_placement want, form *from)
{
    const exg_gathered *g = p->forms[id].gathered;
    const exg_tensor_meta *meta = meta_of(p, id);
    exg_placement as = from->placement;

    if (as.kind == EXG_REPLICATE && want.kind == EXG_SHARD) {
        as = want;
    }
    for (const exg_gathered *at = g; at != NULL; at = at->inner) {
        EXG_TRY(exg_follow_decision(p, at->mesh_dim, &as));
    }
    if (!exg_same_place(from->placement, as)) {
        form have = *from;

        if (have.placement.kind != EXG_REPLICATE && p->forms[id].has_whole) {
            have = (form){exg_replicate(), p->forms[id].whole};
        }
        if (as.kind == EXG_PARTIAL || (have.placement.kind != EXG_REPLICATE &&
                                       (have.placement.kind != EXG_SHARD ||
                                        exg_sharers(have.placement) > 1 || exg_sharers(as) > 1))) {
            return exg_no_such_move(p);
        }
        *from = (form){as, exg_same_place(have.placement, as) ? have.ref
                                                              : emit_move(p, &have, as, meta)};
    }
    note_cuts_elsewhere(p, g, meta, as);
    from->ref = gather_pieces(p, g, from->ref);
    return EXG_OK;
}

/* The value in the wanted form, moved there if need be. */
exg_status exg_in_form(partitioner *p, exg_value_id id, exg_placement want, exg_ref *ref)
{
    double cost;
    const form *source = exg_cheapest_form(p, id, want, &cost);
    exg_placement way;
    form from;

    if ((want.kind == EXG_PARTIAL || exg_sharers(want) > 1) &&
        cost >= EXG_COST_IMPOSSIBLE) { /* only from the whole */
        EXG_TRY(exg_in_form(p, id, exg_replicate(), ref));
        source = exg_cheapest_form(p, id, want, &cost);
    }
    if (source == NULL || cost >= EXG_COST_IMPOSSIBLE) {
        return EXG_FAIL(p->r.err, UNSUPPORTED, "PLC-002",
                        "no way to move '%s' to where it is needed",
                        p->r.in->graph->values[id].name);
    }
    if (exg_same_place(source->placement, want) && p->forms[id].gathered == NULL) {
        *ref = source->ref;
        return EXG_OK;
    }
    way = on_the_way(p, meta_of(p, id), source->placement, want);
    if (!exg_same_place(way, want)) {
        EXG_TRY(exg_in_form(p, id, way, ref));
        return exg_in_form(p, id, want, ref);
    }
    if (source->placement.kind != EXG_REPLICATE &&
        !(exg_sharers(source->placement) > 1 && want.kind == EXG_SHARD)) {
        const char *why = p->why;

        p->why = p->forms[id].in_pieces ? "a weight in pieces is whole while it is read" : why;
        exg_report_move(p, id, source->placement, want);
        p->why = why;
    }
    from = *source;
    if (p->forms[id].gathered != NULL) {
        EXG_TRY(gather_form(p, id, want, &from));
        if (from.placement.kind == EXG_REPLICATE && want.kind == EXG_SHARD) {
            /* As was decided elsewhere: along later dims, too, all of it is gathered, and cut then.
             */
            from.ref = EMIT(p->r.builder, alias_default, from.ref);
        }
    }
    *ref =
        exg_same_place(from.placement, want) ? from.ref : emit_move(p, &from, want, meta_of(p, id));
    if (!p->forms[id].in_pieces && p->forms[id].gathered == NULL) {
        exg_add_form(p, id, want, *ref);
    }
    return exg_builder_status(p->r.builder);
}
