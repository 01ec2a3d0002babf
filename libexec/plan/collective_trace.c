/* collective_trace.c - the collectives of all ranks, beside each other. */
#include "libexec/plan/collective_trace.h"
#include "libexec/comm/grid.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static exg_status add_issue(const exg_step *step, const exg_collective *what, exg_arena *arena,
                            exg_traced_collective *issue, exg_error *err)
{
    issue->node = exg_arena_strdup(arena, step->name);
    issue->kernel = exg_collective_name(what->kind);
    issue->what = *what;
    issue->in = *what->in;
    issue->out = *what->out;
    issue->what.in = &issue->in; /* the array stays where it is */
    issue->what.out = &issue->out;
    issue->what.sent = exg_arena_memdup(arena, what->sent, what->rank_count, sizeof(*what->sent));
    issue->what.received =
        exg_arena_memdup(arena, what->received, what->rank_count, sizeof(*what->received));
    return issue->node == NULL || issue->what.sent == NULL || issue->what.received == NULL
               ? EXG_OUT_OF_MEMORY(err)
               : EXG_OK;
}

exg_status exg_collective_trace_of(const exg_plan *plan, exg_arena *arena,
                                   exg_collective_trace *issues, exg_error *err)
{
    uint32_t count = 0;
    uint32_t ended = 0;

    for (uint32_t s = 0; s < plan->step_count; s++) {
        count += (plan->steps[s].kernel->flags & EXG_KERNEL_EXCHANGES) != 0;
    }
    *issues = (exg_collective_trace){EXG_NEW_ARRAY(arena, exg_traced_collective, count), 0};
    if (issues->items == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t s = 0; s < plan->step_count; s++) {
        const exg_step *step = &plan->steps[s];
        exg_traced_collective *issue = &issues->items[issues->count];
        const exg_collective *what;
        exg_collective_phase phase =
            exg_collective_of(step->kernel, &step->call, &what, &issue->mesh_dim);

        if (phase == EXG_COLLECTIVE_WHOLE || phase == EXG_COLLECTIVE_BEGINS) {
            EXG_TRY(add_issue(step, what, arena, issue, err));
            issues->count++;
        }
        if (phase == EXG_COLLECTIVE_WHOLE || phase == EXG_COLLECTIVE_ENDS) {
            if (ended == issues->count || strcmp(issues->items[ended].node, step->name) != 0) {
                return EXG_FAIL(err, PEER, "COM-010",
                                "'%s' ends, which is not the next that was "
                                "begun",
                                step->name);
            }
            issues->items[ended++].begun = issues->count;
        }
    }
    return EXG_OK;
}

/* Along whichever lines they are. */
static bool same_kind(const exg_traced_collective *a, const exg_traced_collective *b)
{
    return a->what.kind == b->what.kind &&
           memcmp(&a->what.halo, &b->what.halo, sizeof(a->what.halo)) == 0 &&
           a->what.root == b->what.root && a->what.dim == b->what.dim &&
           a->what.other_dim == b->what.other_dim && a->in.dtype == b->in.dtype &&
           a->what.op == b->what.op;
}

/* What a rank has begun it ends, in that order, before it begins too many more: then those
 * that wait for it do not wait for ever. */
static exg_status check_ends(const exg_collective_trace *issues, uint32_t rank, exg_error *err)
{
    for (uint32_t i = 0; i < issues->count; i++) {
        const exg_traced_collective *issue = &issues->items[i];

        if (issue->begun <= i || issue->begun - i > EXG_EXCHANGES_MAX / 2) {
            return EXG_FAIL(err, PEER, "COM-010", "rank %u %s '%s'", rank,
                            issue->begun <= i ? "never ends" : "begins too much before it ends",
                            issue->node);
        }
    }
    return EXG_OK;
}

/* The next collective from *at on that is along one of the mesh dims of the set; NULL: none. */
static const exg_traced_collective *next_along(const exg_collective_trace *issues,
                                               exg_mesh_line dims, uint32_t *at)
{
    while (*at < issues->count && (dims >> issues->items[*at].mesh_dim & 1) == 0) {
        ++*at;
    }
    return *at < issues->count ? &issues->items[(*at)++] : NULL;
}

/* Along the mesh dims of the set rank `other` issues what rank `first` does, in its order. */
static exg_status check_order(const exg_collective_trace *issues, uint32_t first, uint32_t other,
                              exg_mesh_line dims, exg_error *err)
{
    const exg_traced_collective *a;
    const exg_traced_collective *b;
    uint32_t at[2] = {0, 0};
    uint32_t count = 0;

    do {
        a = next_along(&issues[first], dims, &at[0]);
        b = next_along(&issues[other], dims, &at[1]);
        if ((a == NULL) != (b == NULL)) {
            const exg_traced_collective *left = a == NULL ? b : a;

            return EXG_FAIL(
                err, PEER, "COM-010", "rank %u issues %s at '%s', for which rank %u is not there",
                a == NULL ? other : first, left->kernel, left->node, a == NULL ? first : other);
        }
        if (a != NULL && (a->mesh_dim != b->mesh_dim || !same_kind(a, b))) {
            return EXG_FAIL(err, PEER, "COM-010",
                            "collective %u: rank %u issues %s at '%s', rank %u %s at '%s'", count,
                            first, a->kernel, a->node, other, b->kernel, b->node);
        }
        count++;
    } while (a != NULL);
    return EXG_OK;
}

/* The first of the ranks that are alike along the dims of the set. */
static uint32_t first_alike(const exg_mesh_shape *mesh, exg_mesh_line dims, uint32_t rank)
{
    uint32_t first = 0;

    for (uint32_t d = 0; d < mesh->ndim; d++) {
        if ((dims >> d & 1) != 0) {
            first += exg_mesh_shape_coordinate(mesh, rank, d) * exg_mesh_shape_stride(mesh, d);
        }
    }
    return first;
}

/* Ranks that are alike along the dims before d issue the same along those and d, in one order.
 * Then none waits for ever: between two collectives along dim 0 each of its places is a mesh by
 * itself, of the dims behind, of which the same holds. The dim of a pipeline, whose stages run
 * what they like between their moves, is before all others. */
static exg_status check_orders(const exg_collective_trace *issues, const exg_mesh_shape *mesh,
                               uint32_t outer, exg_error *err)
{
    exg_mesh_line before = 0;

    for (uint32_t i = 0; i < mesh->ndim; i++) {
        uint32_t d = i == 0 ? outer : i <= outer ? i - 1 : i;
        exg_mesh_line with = before | (exg_mesh_line)1 << d;

        for (uint32_t r = 0; r < exg_mesh_shape_size(mesh); r++) {
            uint32_t first = first_alike(mesh, before, r);

            if (issues[r].items != issues[first].items && /* planned once for both */
                (r == 0 || issues[r].items != issues[r - 1].items ||
                 first_alike(mesh, before, r - 1) != first)) {
                EXG_TRY(check_order(issues, first, r, with, err));
            }
        }
        before = with;
    }
    return EXG_OK;
}

/* A collective of the ranks that meet along one line of a mesh. */
typedef struct line {
    uint32_t *ranks; /* in the mesh, by rank of the line */
    const exg_traced_collective **at;
    uint32_t size;
} line;

static exg_status compare_counts(const line *l, const exg_segment *send, const exg_segment *receive,
                                 exg_error *err)
{
    for (uint32_t a = 0; a < l->size; a++) {
        for (uint32_t b = 0; b < l->size; b++) {
            uint64_t sent = send[(size_t)a * l->size + b].bytes;
            uint64_t expected = receive[(size_t)b * l->size + a].bytes;

            if (sent != expected) {
                return EXG_FAIL(err, PEER, "COM-010",
                                "%s at '%s': rank %u sends %" PRIu64 " bytes to rank %u, which "
                                "expects %" PRIu64,
                                l->at[a]->kernel, l->at[a]->node, l->ranks[a], sent, l->ranks[b],
                                expected);
            }
        }
    }
    return EXG_OK;
}

/* Between every two ranks: to tell which of them do not fit. */
static exg_status check_round(const line *l, uint32_t round, exg_error *err)
{
    size_t pairs = (size_t)l->size * l->size;
    exg_segment *send = calloc(2 * pairs, sizeof(*send));
    exg_status status;

    if (send == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t a = 0; a < l->size; a++) {
        exg_communicator on_paper = {.rank = a, .size = l->size};

        exg_collective_counts(&on_paper, &l->at[a]->what, round, send + (size_t)a * l->size,
                              send + pairs + (size_t)a * l->size);
    }
    status = compare_counts(l, send, send + pairs, err);
    free(send);
    return status;
}

static int64_t chunk_of(int64_t length, uint32_t n, uint32_t rank)
{
    int64_t offset;
    int64_t size;

    exg_chunk(length, n, rank, &offset, &size);
    return size;
}

/* Is dim `dim` of `t` so long, and are the others those of `of` but for `but`? */
static bool lies_so(const exg_tensor *t, uint32_t dim, int64_t length, const exg_tensor *of,
                    uint32_t but)
{
    bool so = t->rank == of->rank && t->sizes[dim] == length;

    for (uint32_t d = 0; so && d < t->rank; d++) {
        so = d == dim || d == but || t->sizes[d] == of->sizes[d];
    }
    return so;
}

/* Are rank `rank`'s tensors what it has of the whole, as rank 0 of the line knows that? Then
 * any two of the line say the same of what goes from the one to the other: it follows from the
 * whole and from who they are. */
static bool has_its_part(const exg_traced_collective *first, const exg_traced_collective *own,
                         uint32_t n, uint32_t rank)
{
    const exg_collective *what = &own->what;
    int64_t halo[2];

    switch (what->kind) {
    case EXG_ALL_REDUCE:
    case EXG_BROADCAST:
        return exg_tensor_numel(&own->in) == exg_tensor_numel(&first->in) &&
               exg_tensor_numel(&own->out) == exg_tensor_numel(&first->in);
    case EXG_ALL_GATHER:
        return lies_so(&own->out, what->dim, first->out.sizes[what->dim], &first->out, what->dim) &&
               lies_so(&own->in, what->dim, chunk_of(first->out.sizes[what->dim], n, rank),
                       &own->out, what->dim);
    case EXG_REDUCE_SCATTER:
        return lies_so(&own->in, what->dim, first->in.sizes[what->dim], &first->in, what->dim) &&
               lies_so(&own->out, what->dim, chunk_of(first->in.sizes[what->dim], n, rank),
                       &own->in, what->dim);
    case EXG_ALL_TO_ALL:
        return lies_so(&own->in, what->dim, chunk_of(first->out.sizes[what->dim], n, rank),
                       &first->in, what->dim) &&
               lies_so(&own->out, what->other_dim,
                       chunk_of(first->in.sizes[what->other_dim], n, rank), &first->out,
                       what->other_dim);
    case EXG_ALL_TO_ALL_SINGLE: /* of no whole: what each two say is compared */
        return false;
    default:
        exg_halo_of(&what->halo, n, rank, &halo[0], &halo[1]);
        return lies_so(&own->in, what->dim, chunk_of(what->halo.size, n, rank), &first->in,
                       what->dim) &&
               lies_so(&own->out, what->dim, halo[1], &first->in, what->dim);
    }
}

static exg_status check_parts(const line *l, exg_error *err)
{
    exg_communicator on_paper = {.size = l->size};
    bool fits = true;

    for (uint32_t r = 0; fits && r < l->size; r++) {
        fits = has_its_part(l->at[0], l->at[r], l->size, r);
    }
    for (uint32_t round = 0; !fits && round < exg_collective_rounds(&on_paper, &l->at[0]->what);
         round++) {
        EXG_TRY(check_round(l, round, err));
    }
    return fits || l->at[0]->what.kind == EXG_ALL_TO_ALL_SINGLE
               ? EXG_OK
               : EXG_FAIL(err, PEER, "COM-010", "%s at '%s': ranks hold parts of another whole",
                          l->at[0]->kernel, l->at[0]->node);
}

/* The collectives along a line: those of its ranks are the same, in one order. `items`: room for
 * one a rank. */
static exg_status check_line(const exg_collective_trace *issues, const line *l, uint32_t mesh_dim,
                             uint32_t *items, exg_error *err)
{
    bool ended = false;

    memset(items, 0, l->size * sizeof(*items));
    while (!ended) {
        for (uint32_t r = 0; r < l->size && !ended; r++) {
            l->at[r] = next_along(&issues[l->ranks[r]], (exg_mesh_line)1 << mesh_dim, &items[r]);
            ended = l->at[r] == NULL;
        }
        if (!ended) {
            EXG_TRY(check_parts(l, err));
        }
    }
    return EXG_OK;
}

static exg_status check_counts(const exg_collective_trace *issues, const exg_mesh_shape *mesh,
                               exg_error *err)
{
    uint32_t size = exg_mesh_shape_size(mesh);
    uint32_t *items = calloc(size, sizeof(*items));
    line l = {.ranks = calloc(size, sizeof(*l.ranks)), .at = calloc(size, sizeof(*l.at))};
    exg_status status =
        items == NULL || l.ranks == NULL || l.at == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;

    for (uint32_t d = 0; d < mesh->ndim; d++) {
        l.size = mesh->sizes[d];
        for (uint32_t first = 0; status == EXG_OK && first < size; first++) {
            for (uint32_t r = 0; r < l.size; r++) {
                l.ranks[r] = first + r * exg_mesh_shape_stride(mesh, d);
            }
            if (exg_mesh_shape_coordinate(mesh, first, d) == 0) {
                status = check_line(issues, &l, d, items, err);
            }
        }
    }
    free(items);
    free(l.ranks);
    free((void *)l.at);
    return status;
}

exg_status exg_collective_traces_check(const exg_collective_trace *issues,
                                       const exg_mesh_shape *mesh, uint32_t outer, exg_error *err)
{
    for (uint32_t r = 0; r < exg_mesh_shape_size(mesh); r++) {
        if (r > 0 && issues[r].items == issues[r - 1].items) {
            continue; /* planned once for both */
        }
        EXG_TRY(check_ends(&issues[r], r, err));
    }
    EXG_TRY(check_orders(issues, mesh, outer, err));
    return check_counts(issues, mesh, err);
}

/* ---- programs of ranks ------------------------------------------------------------------------
 */

/* How far each rank is in what it issues. */
typedef struct meeting {
    const exg_collective_trace *issues; /* mesh_dim: which of `lines` */
    const exg_mesh_line *lines;
    const exg_mesh_shape *mesh;
    uint32_t line_count;
    uint32_t *begun, *ended; /* by rank */
    uint32_t *ended_along;   /* by rank and line */
    line at;                 /* room for one */
    exg_error *err;
} meeting;

/* What the rank has begun along a line and not ended, after `count` such; NULL: nothing. */
static const exg_traced_collective *begun_along(const meeting *m, uint32_t rank, uint32_t along,
                                                uint32_t count)
{
    for (uint32_t i = m->ended[rank]; i < m->begun[rank]; i++) {
        const exg_traced_collective *issue = &m->issues[rank].items[i];

        if (issue->mesh_dim == along && count-- == 0) {
            return issue;
        }
    }
    return NULL;
}

/* Those that `rank` meets in its next collective to end, in m->at, which is empty where one of them
 * has ended it. *missing: one that is not there yet, or EXG_NO_RANK. */
static void gather(meeting *m, uint32_t rank, uint32_t *missing)
{
    uint32_t along = m->issues[rank].items[m->ended[rank]].mesh_dim;
    uint32_t number = m->ended_along[rank * m->line_count + along];
    exg_mesh_line others = (((exg_mesh_line)1 << m->mesh->ndim) - 1) & ~m->lines[along];

    *missing = EXG_NO_RANK;
    m->at.size = 0;
    for (uint32_t r = 0; r < exg_mesh_shape_size(m->mesh); r++) {
        uint32_t ended = m->ended_along[r * m->line_count + along];

        if (exg_mesh_line_rank(m->mesh, others, r) != exg_mesh_line_rank(m->mesh, others, rank)) {
            continue;
        }
        if (ended > number) {
            m->at.size = 0;
            *missing = EXG_NO_RANK;
            return;
        }
        m->at.ranks[m->at.size] = r;
        m->at.at[m->at.size] = begun_along(m, r, along, number - ended);
        *missing = m->at.at[m->at.size++] == NULL && *missing == EXG_NO_RANK ? r : *missing;
    }
}

/* Those who meet issue the same there. */
static exg_status compare_those_who_meet(meeting *m)
{
    const line *l = &m->at;

    for (uint32_t r = 1; r < l->size; r++) {
        if (!same_kind(l->at[0], l->at[r])) {
            return EXG_FAIL(m->err, PEER, "COM-010",
                            "rank %u issues %s at '%s', rank %u %s at '%s'", l->ranks[0],
                            l->at[0]->kernel, l->at[0]->node, l->ranks[r], l->at[r]->kernel,
                            l->at[r]->node);
        }
    }
    return check_parts(l, m->err);
}

/* The rank goes on until it waits for another, *waits, or is at its end. */
static exg_status go_on(meeting *m, uint32_t rank, bool *moved, uint32_t *waits)
{
    const exg_collective_trace *own = &m->issues[rank];

    *waits = EXG_NO_RANK;
    while (m->ended[rank] < own->count) {
        const exg_traced_collective *next = &own->items[m->ended[rank]];

        if (next->begun > m->begun[rank]) {
            m->begun[rank]++;
            *moved = true;
            continue;
        }
        gather(m, rank, waits);
        if (*waits != EXG_NO_RANK) {
            return EXG_OK;
        }
        EXG_TRY(m->at.size == 0 ? EXG_OK : compare_those_who_meet(m)); /* once for all of them */
        m->ended_along[rank * m->line_count + next->mesh_dim]++;
        m->ended[rank]++;
        *moved = true;
    }
    return EXG_OK;
}

static exg_status tell_wait(const meeting *m, uint32_t rank, uint32_t other)
{
    const exg_traced_collective *at = &m->issues[rank].items[m->ended[rank]];
    const exg_collective_trace *theirs = &m->issues[other];

    if (m->ended[other] == theirs->count) {
        return EXG_FAIL(m->err, PEER, "COM-010",
                        "rank %u issues %s at '%s', for which rank %u is not there", rank,
                        at->kernel, at->node, other);
    }
    return EXG_FAIL(m->err, PEER, "COM-010",
                    "rank %u waits for rank %u in %s at '%s', and that one in %s at '%s'", rank,
                    other, at->kernel, at->node, theirs->items[m->ended[other]].kernel,
                    theirs->items[m->ended[other]].node);
}

static exg_status meet(meeting *m)
{
    uint32_t size = exg_mesh_shape_size(m->mesh);
    bool moved = true;

    while (moved) {
        uint32_t waiting = EXG_NO_RANK;
        uint32_t other = EXG_NO_RANK;

        moved = false;
        for (uint32_t r = 0; r < size; r++) {
            uint32_t waits;

            EXG_TRY(go_on(m, r, &moved, &waits));
            other = waiting == EXG_NO_RANK ? waits : other;
            waiting = waiting == EXG_NO_RANK && waits != EXG_NO_RANK ? r : waiting;
        }
        if (!moved && waiting != EXG_NO_RANK) {
            return tell_wait(m, waiting, other);
        }
    }
    return EXG_OK;
}

exg_status exg_collective_traces_meet(const exg_collective_trace *traces,
                                      const exg_mesh_shape *mesh, const exg_mesh_line *lines,
                                      uint32_t line_count, exg_error *err)
{
    uint32_t size = exg_mesh_shape_size(mesh);
    meeting m = {
        .issues = traces,
        .lines = lines,
        .mesh = mesh,
        .line_count = line_count,
        .ended_along = calloc((size_t)size * line_count, sizeof(*m.ended_along)),
        .begun = calloc(size, sizeof(*m.begun)),
        .ended = calloc(size, sizeof(*m.ended)),
        .at = {.ranks = calloc(size, sizeof(*m.at.ranks)), .at = calloc(size, sizeof(*m.at.at))},
        .err = err};
    exg_status status = m.begun == NULL || m.ended == NULL || m.ended_along == NULL ||
                                m.at.ranks == NULL || m.at.at == NULL
                            ? EXG_OUT_OF_MEMORY(err)
                            : EXG_OK;

    for (uint32_t r = 0; status == EXG_OK && r < size; r++) {
        status = check_ends(&traces[r], r, err);
    }
    status = status == EXG_OK ? meet(&m) : status;
    free(m.begun);
    free(m.ended);
    free(m.ended_along);
    free(m.at.ranks);
    free((void *)m.at.at);
    return status;
}
