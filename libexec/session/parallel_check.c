/* parallel_check.c - whether the programs of the ranks of a mesh, each planned by a session of its
 * own, call collectives that fit together. */
#include "libexec/plan/collective_trace.h"
#include "libexec/session/session.h"
#include "libexport/base/require.h"

#include <string.h>

/* Those of all ranks, along lines that all number alike. */
typedef struct comparison {
    exg_session *const *sessions; /* by rank */
    uint32_t count;
    const exg_mesh_shape *mesh;
    exg_collective_trace *traces;
    exg_mesh_line *lines;
    uint32_t line_count, line_capacity;
    exg_arena *arena;
    exg_error *err;
} comparison;

static exg_mesh_line line_at(const exg_process_groups *groups, uint32_t at)
{
    return at < groups->mesh.ndim ? (exg_mesh_line)1 << at : groups->lines[at - groups->mesh.ndim];
}

static exg_status number_line(comparison *c, exg_mesh_line line, uint32_t *number)
{
    *number = 0;
    while (*number < c->line_count && c->lines[*number] != line) {
        ++*number;
    }
    if (*number < c->line_count) {
        return EXG_OK;
    }
    if (!exg_arena_reserve(c->arena, &c->lines, c->line_count, &c->line_capacity,
                           sizeof(*c->lines))) {
        return EXG_OUT_OF_MEMORY(c->err);
    }
    c->lines[c->line_count++] = line;
    return EXG_OK;
}

static exg_status take_trace(comparison *c, uint32_t rank)
{
    const exg_session *s = c->sessions[rank];
    const exg_process_groups *groups = &s->context.groups;
    exg_collective_trace *trace = &c->traces[rank];

    EXG_TRY(
        exg_collective_trace_of(exg_executable_plan(s->executor.current), c->arena, trace, c->err));
    for (uint32_t i = 0; i < trace->count; i++) {
        EXG_TRY(
            number_line(c, line_at(groups, trace->items[i].mesh_dim), &trace->items[i].mesh_dim));
    }
    return EXG_OK;
}

/* What the program asks of a line, from its first node to its last. */
static uint64_t digest_of(const exg_session *session, exg_mesh_line line)
{
    const exg_process_groups *groups = &session->context.groups;

    for (uint32_t at = 0; at < groups->mesh.ndim + groups->line_count; at++) {
        if (line_at(groups, at) == line) {
            return groups->digests[at];
        }
    }
    return 0;
}

/* Do those that meet along the line ask the same of it? */
static exg_status compare_digests(const comparison *c, exg_mesh_line line)
{
    exg_mesh_line others = (((exg_mesh_line)1 << c->mesh->ndim) - 1) & ~line;

    for (uint32_t r = 1; r < c->count; r++) {
        uint32_t first = 0;

        while (exg_mesh_line_rank(c->mesh, others, first) !=
               exg_mesh_line_rank(c->mesh, others, r)) {
            first++;
        }
        if (digest_of(c->sessions[first], line) != digest_of(c->sessions[r], line)) {
            return EXG_FAIL(c->err, PEER, "COM-009",
                            "ranks %u and %u have not the same collectives that their program "
                            "calls",
                            first, r);
        }
    }
    return EXG_OK;
}

/* A group that is not given is all ranks, which have one name for it. */
static exg_status compare_unnamed(const comparison *c)
{
    for (uint32_t r = 1; r < c->count; r++) {
        const exg_process_groups *first = &c->sessions[0]->context.groups;
        const exg_process_groups *other = &c->sessions[r]->context.groups;

        if (first->unnamed_digest != other->unnamed_digest) {
            return EXG_FAIL(c->err, PEER, "COM-009",
                            "ranks 0 and %u have not the same names of groups without --group", r);
        }
    }
    return EXG_OK;
}

static exg_status check_sessions(const comparison *c)
{
    for (uint32_t r = 0; r < c->count; r++) {
        const exg_session *s = c->sessions[r];
        const exg_process_groups *groups = s == NULL ? NULL : &s->context.groups;

        if (s == NULL || !s->context.is_spmd || !s->context.options.plan_only ||
            s->executor.current == NULL || groups->rank != r ||
            exg_mesh_shape_size(&groups->mesh) != c->count || groups->mesh.ndim != c->mesh->ndim ||
            memcmp(groups->mesh.sizes, c->mesh->sizes, c->mesh->ndim * sizeof(c->mesh->sizes[0])) !=
                0) {
            return EXG_FAIL(c->err, USAGE, "COM-016",
                            "session %u has no plan of rank %u of this mesh", r, r);
        }
    }
    return EXG_OK;
}

static exg_status compare(comparison *c)
{
    exg_status status = EXG_OK;

    c->traces = EXG_NEW_ARRAY(c->arena, exg_collective_trace, c->count);
    if (c->traces == NULL) {
        return EXG_OUT_OF_MEMORY(c->err);
    }
    for (uint32_t r = 0; r < c->count; r++) {
        EXG_TRY(take_trace(c, r));
    }
    status = compare_unnamed(c);
    status = status == EXG_OK
                 ? exg_collective_traces_meet(c->traces, c->mesh, c->lines, c->line_count, c->err)
                 : status;
    for (exg_mesh_line line = 1; status == EXG_OK && line >> c->mesh->ndim == 0; line++) {
        status = compare_digests(c, line);
    }
    return status == EXG_PEER
               ? exg_error_fix(c->err, status,
                               "compare what these ranks' programs call: exg inspect --graph")
               : status;
}

exg_status exg_sessions_check_collectives(exg_session *const *sessions, uint32_t count,
                                          exg_error *err)
{
    EXG_REQUIRE(err, EXG_IF_ANY(count, sessions));
    comparison c = {.sessions = sessions, .count = count, .err = err};
    exg_status status;

    if (count == 0 || sessions[0] == NULL) {
        return EXG_FAIL(err, USAGE, "COM-016", "there are no sessions of ranks");
    }
    c.mesh = &sessions[0]->context.groups.mesh;
    EXG_TRY(check_sessions(&c));
    c.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    if (c.arena == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    status = compare(&c);
    exg_arena_destroy(c.arena);
    return status;
}
