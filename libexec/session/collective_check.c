/* collective_check.c - what every rank of a mesh issues, from the plans of few of them: along a
 * mesh dim ranks whose chunks are as long move the same (exg_shard_pattern).
 */
#include "libexec/session/collective_check.h"
#include "libexec/plan/collective_trace.h"
#include "libexec/session/plan_rank.h"

/* A rank that was planned: for itself and those like it. */
typedef struct planned {
    exg_shard_pattern *pattern; /* by mesh dim; NULL: it was not */
    exg_collective_trace traces;
} planned;

typedef struct proof {
    exg_session_context *e;
    exg_executable *b;
    const exg_program *functional;
    exg_arena *arena;
    planned *ranks; /* of the mesh */
    exg_error *err;
} proof;

/* It is planned on paper, and forgotten. */
static exg_status plan_on_paper(proof *p, uint32_t rank)
{
    planned *made = &p->ranks[rank];
    exg_grid grid;
    exg_plan *plan = NULL;
    exg_status status;

    made->pattern = EXG_NEW_ARRAY(p->arena, exg_shard_pattern, EXG_MESH_DIMS_MAX);
    if (made->pattern == NULL) {
        return EXG_OUT_OF_MEMORY(p->err);
    }
    EXG_TRY(exg_paper_grid(&p->e->mesh, rank, !p->e->options.processes, &grid, p->err));
    status =
        exg_executable_plan_rank(p->e, p->b, p->functional, rank, &grid, made->pattern,
                                 p->e->devices == NULL ? NULL : p->e->devices[0], &plan, p->err);
    if (status == EXG_OK) {
        status = exg_collective_trace_of(plan, p->arena, &made->traces, p->err);
    }
    exg_plan_destroy(plan);
    exg_grid_close(&grid);
    return status;
}

/* The first rank, of those planned, that moves what `rank` does: dim by dim the first place
 * like its own, as the ranks that share the places before see it. */
static exg_status find_like(proof *p, uint32_t rank, uint32_t *like)
{
    const exg_mesh_shape *mesh = &p->e->mesh;

    *like = 0;
    for (uint32_t d = 0; d < mesh->ndim; d++) {
        uint32_t own = exg_mesh_shape_coordinate(mesh, rank, d);
        uint32_t place = 0;

        if (p->ranks[*like].pattern == NULL) {
            EXG_TRY(plan_on_paper(p, *like));
        }
        while (!exg_equal_shards(&p->ranks[*like].pattern[d], mesh->sizes[d], place, own)) {
            place++;
        }
        *like += place * exg_mesh_shape_stride(mesh, d);
    }
    return p->ranks[*like].pattern == NULL ? plan_on_paper(p, *like) : EXG_OK;
}

exg_status exg_check_collectives(exg_session_context *context, exg_executable *executable,
                                 const exg_program *functional, exg_error *err)
{
    uint32_t size = exg_mesh_shape_size(&context->mesh);
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_collective_trace *traces =
        arena == NULL ? NULL : EXG_NEW_ARRAY(arena, exg_collective_trace, size);
    proof p = {context, executable, functional, arena, NULL, err};
    uint32_t outer = 0;
    exg_status status;

    p.ranks = traces == NULL ? NULL : EXG_NEW_ARRAY(arena, planned, size);
    status = p.ranks == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
    for (uint32_t r = 0; status == EXG_OK && r < size; r++) {
        uint32_t like = r;

        if (r < context->rank_count && !context->options.plan_only) { /* it is here */
            status = exg_collective_trace_of(exg_plan_executor_plan(executable->executors[r]),
                                             arena, &traces[r], err);
        } else {
            status = find_like(&p, r, &like);
            traces[r] = p.ranks[like].traces;
        }
    }
    for (uint32_t d = 0; d < context->mesh.ndim; d++) {
        outer = executable->partition.modes[d] == EXG_PARTITION_PIPELINE ? d : outer;
    }
    if (status == EXG_OK) {
        status = exg_collective_traces_check(traces, &context->mesh, outer, err);
    }
    exg_arena_destroy(arena);
    return status;
}
