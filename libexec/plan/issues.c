/* issues.c - the collectives of all ranks, beside each other. */
#include "libexec/plan/issues.h"
#include "libexec/comm/grid.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static exg_status add_issue(const exg_step *step, const exg_collective *what, exg_arena *arena,
                            exg_issue *issue, exg_error *err)
{
    issue->node = exg_arena_strdup(arena, step->name);
    issue->kernel = exg_collective_name(what->kind);
    issue->what = *what;
    issue->in = *what->in;
    issue->out = *what->out;
    issue->what.in = &issue->in; /* the array stays where it is */
    issue->what.out = &issue->out;
    return issue->node == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

exg_status exg_issues_of(const exg_plan *plan, exg_arena *arena, exg_issues *issues,
                         exg_error *err)
{
    uint32_t count = 0;
    uint32_t ended = 0;

    for (uint32_t s = 0; s < plan->step_count; s++) {
        count += (plan->steps[s].kernel->flags & EXG_KERNEL_EXCHANGES) != 0;
    }
    *issues = (exg_issues){EXG_NEW_ARRAY(arena, exg_issue, count), 0};
    if (issues->items == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t s = 0; s < plan->step_count; s++) {
        const exg_step *step = &plan->steps[s];
        exg_issue *issue = &issues->items[issues->count];
        const exg_collective *what;
        exg_collective_phase phase =
            exg_collective_of(step->kernel, &step->call, &what, &issue->mesh_dim);

        if (phase == EXG_COLLECTIVE_WHOLE || phase == EXG_COLLECTIVE_BEGINS) {
            EXG_TRY(add_issue(step, what, arena, issue, err));
            issues->count++;
        }
        if (phase == EXG_COLLECTIVE_WHOLE || phase == EXG_COLLECTIVE_ENDS) {
            if (ended == issues->count ||
                strcmp(issues->items[ended].node, step->name) != 0) {
                return EXG_FAIL(err, PEER, "COM-010", "'%s' ends, which is not the next that was "
                                "begun", step->name);
            }
            issues->items[ended++].begun = issues->count;
        }
    }
    return EXG_OK;
}

static bool same_kind(const exg_issue *a, const exg_issue *b)
{
    return a->what.kind == b->what.kind &&
           memcmp(&a->what.window, &b->what.window, sizeof(a->what.window)) == 0 &&
           a->what.dim == b->what.dim &&
           a->what.other_dim == b->what.other_dim && a->mesh_dim == b->mesh_dim &&
           a->in.dtype == b->in.dtype && a->what.op == b->what.op;
}

/* What a rank has begun it ends, in that order, before it begins too many more: then those
 * that wait for it do not wait for ever. */
static exg_status check_ends(const exg_issues *issues, uint32_t rank, exg_error *err)
{
    for (uint32_t i = 0; i < issues->count; i++) {
        const exg_issue *issue = &issues->items[i];

        if (issue->begun <= i || issue->begun - i > EXG_EXCHANGES_MAX / 2) {
            return EXG_FAIL(err, PEER, "COM-010", "rank %u %s '%s'", rank,
                            issue->begun <= i ? "never ends" : "begins too much before it ends",
                            issue->node);
        }
    }
    return EXG_OK;
}

/* Every rank issues what rank 0 issues, in its order. */
static exg_status check_order(const exg_issues *first, const exg_issues *other, uint32_t rank,
                              exg_error *err)
{
    uint32_t shared = first->count < other->count ? first->count : other->count;

    for (uint32_t i = 0; i < shared; i++) {
        if (!same_kind(&first->items[i], &other->items[i])) {
            return EXG_FAIL(err, PEER, "COM-010",
                            "collective %u: rank 0 issues %s at '%s', rank %u %s at '%s'", i,
                            first->items[i].kernel, first->items[i].node, rank,
                            other->items[i].kernel, other->items[i].node);
        }
    }
    if (first->count != other->count) {
        bool more = other->count > shared;
        const exg_issue *left = more ? &other->items[shared] : &first->items[shared];

        return EXG_FAIL(err, PEER, "COM-010", "rank %u issues %s at '%s', for which rank %u is "
                        "not there", more ? rank : 0, left->kernel, left->node, more ? 0 : rank);
    }
    return EXG_OK;
}

/* The ranks that meet along one mesh dim: rank `first` and those `stride` apart. */
typedef struct line {
    uint32_t first, stride, size;
    exg_segment *send, *receive; /* by rank of the line and peer */
} line;

static exg_status check_round(const exg_issues *issues, const line *l, uint32_t i, uint32_t round,
                              exg_error *err)
{
    for (uint32_t a = 0; a < l->size; a++) {
        exg_communicator on_paper = {.rank = a, .size = l->size};

        exg_collective_counts(&on_paper, &issues[l->first + a * l->stride].items[i].what, round,
                              l->send + (size_t)a * l->size, l->receive + (size_t)a * l->size);
    }
    for (uint32_t a = 0; a < l->size; a++) {
        for (uint32_t b = 0; b < l->size; b++) {
            uint64_t sent = l->send[(size_t)a * l->size + b].bytes;
            uint64_t expected = l->receive[(size_t)b * l->size + a].bytes;

            if (sent != expected) {
                const exg_issue *at = &issues[l->first + a * l->stride].items[i];

                return EXG_FAIL(err, PEER, "COM-010",
                                "%s at '%s': rank %u sends %" PRIu64 " bytes to rank %u, which "
                                "expects %" PRIu64, at->kernel, at->node,
                                l->first + a * l->stride, sent, l->first + b * l->stride, expected);
            }
        }
    }
    return EXG_OK;
}

static exg_status check_line(const exg_issues *issues, const line *l, uint32_t mesh_dim,
                             exg_error *err)
{
    for (uint32_t i = 0; i < issues[l->first].count; i++) {
        const exg_issue *issue = &issues[l->first].items[i];
        exg_communicator on_paper = {.size = l->size};

        for (uint32_t round = 0;
             issue->mesh_dim == mesh_dim &&
             round < exg_collective_rounds(&on_paper, &issue->what);
             round++) {
            EXG_TRY(check_round(issues, l, i, round, err));
        }
    }
    return EXG_OK;
}

static exg_status check_counts(const exg_issues *issues, const exg_mesh_shape *mesh,
                               exg_error *err)
{
    uint32_t size = exg_mesh_shape_size(mesh);
    exg_status status = EXG_OK;

    for (uint32_t d = 0; status == EXG_OK && d < mesh->ndim; d++) {
        size_t pairs = (size_t)mesh->sizes[d] * mesh->sizes[d];
        line l = {.stride = exg_mesh_shape_stride(mesh, d), .size = mesh->sizes[d]};

        l.send = calloc(2 * pairs, sizeof(*l.send));
        l.receive = l.send + pairs;
        if (l.send == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
        for (l.first = 0; status == EXG_OK && l.first < size; l.first++) {
            if (exg_mesh_shape_coordinate(mesh, l.first, d) == 0) {
                status = check_line(issues, &l, d, err);
            }
        }
        free(l.send);
    }
    return status;
}

exg_status exg_issues_check(const exg_issues *issues, const exg_mesh_shape *mesh, exg_error *err)
{
    for (uint32_t r = 0; r < exg_mesh_shape_size(mesh); r++) {
        EXG_TRY(check_ends(&issues[r], r, err));
        EXG_TRY(check_order(&issues[0], &issues[r], r, err));
    }
    return check_counts(issues, mesh, err);
}
