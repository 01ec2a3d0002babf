/* grid.c - communicators along the dims of a mesh. */
#include "libexec/comm/grid.h"
#include "libexec/comm/collectives.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

uint32_t exg_mesh_shape_size(const exg_mesh_shape *shape)
{
    uint32_t size = 1;

    for (uint32_t d = 0; d < shape->ndim; d++) {
        size *= shape->sizes[d];
    }
    return size;
}

uint32_t exg_mesh_shape_stride(const exg_mesh_shape *shape, uint32_t dim)
{
    uint32_t stride = 1;

    for (uint32_t d = dim + 1; d < shape->ndim; d++) {
        stride *= shape->sizes[d];
    }
    return stride;
}

uint32_t exg_mesh_shape_coordinate(const exg_mesh_shape *shape, uint32_t rank, uint32_t dim)
{
    return rank / exg_mesh_shape_stride(shape, dim) % shape->sizes[dim];
}

uint32_t exg_mesh_line_size(const exg_mesh_shape *shape, exg_mesh_line line)
{
    uint32_t size = 1;

    for (uint32_t d = 0; d < shape->ndim; d++) {
        size *= (line >> d & 1) != 0 ? shape->sizes[d] : 1;
    }
    return size;
}

uint32_t exg_mesh_line_rank(const exg_mesh_shape *shape, exg_mesh_line line, uint32_t rank)
{
    uint32_t place = 0;

    for (uint32_t d = 0; d < shape->ndim; d++) {
        if ((line >> d & 1) != 0) {
            place = place * shape->sizes[d] + exg_mesh_shape_coordinate(shape, rank, d);
        }
    }
    return place;
}

void exg_grid_close(exg_grid *grid)
{
    for (uint32_t d = 0; d < EXG_GRID_LINES_MAX; d++) {
        exg_communicator_close(grid->dims[d]);
        grid->dims[d] = NULL;
    }
}

void exg_grid_abort(const exg_grid *grid, exg_status status)
{
    for (uint32_t d = 0; d < grid->ndim; d++) {
        exg_communicator_abort(grid->dims[d], status);
    }
}

bool exg_grid_is_aborted(const exg_grid *grid)
{
    bool any = false;

    for (uint32_t d = 0; d < grid->ndim; d++) {
        any = any || grid->dims[d]->ops->is_aborted(grid->dims[d]);
    }
    return any;
}

exg_status exg_grid_status(const exg_grid *grid, exg_error *err)
{
    for (uint32_t d = 0; d < grid->ndim; d++) {
        if (grid->dims[d]->status != EXG_OK) {
            if (err != NULL) {
                *err = grid->dims[d]->error;
            }
            return grid->dims[d]->status;
        }
    }
    return EXG_OK;
}

exg_status exg_local_grid(const exg_mesh_shape *shape, exg_grid *grids, exg_error *err)
{
    uint32_t size = exg_mesh_shape_size(shape);
    exg_communicator *along[EXG_RANKS_MAX];
    exg_status status = EXG_OK;

    for (uint32_t r = 0; r < size; r++) {
        grids[r] = (exg_grid){.ndim = shape->ndim, .rank = r};
    }
    for (uint32_t d = 0; status == EXG_OK && d < shape->ndim; d++) {
        for (uint32_t r = 0; status == EXG_OK && r < size; r++) {
            if (exg_mesh_shape_coordinate(shape, r, d) != 0) {
                continue;
            }
            status = exg_local_create(shape->sizes[d], along, err);
            for (uint32_t i = 0; status == EXG_OK && i < shape->sizes[d]; i++) {
                grids[r + i * exg_mesh_shape_stride(shape, d)].dims[d] = along[i];
            }
        }
    }
    for (uint32_t r = 0; status != EXG_OK && r < size; r++) {
        exg_grid_close(&grids[r]);
    }
    return status;
}

exg_status exg_paper_grid(const exg_mesh_shape *shape, uint32_t rank, bool lends, exg_grid *grid,
                          exg_error *err)
{
    *grid = (exg_grid){.ndim = shape->ndim, .rank = rank};
    for (uint32_t d = 0; d < shape->ndim; d++) {
        exg_status status = exg_paper_create(
            shape->sizes[d], exg_mesh_shape_coordinate(shape, rank, d), lends, &grid->dims[d], err);

        if (status != EXG_OK) {
            exg_grid_close(grid);
            return status;
        }
    }
    return EXG_OK;
}

exg_status exg_paper_lines(const exg_mesh_shape *shape, const exg_mesh_line *lines, uint32_t count,
                           bool lends, exg_grid *grid, exg_error *err)
{
    for (uint32_t i = 0; i < count; i++) {
        EXG_TRY(exg_paper_create(exg_mesh_line_size(shape, lines[i]),
                                 exg_mesh_line_rank(shape, lines[i], grid->rank), lends,
                                 &grid->dims[grid->ndim], err));
        grid->ndim++;
    }
    return EXG_OK;
}

void exg_grid_set_deadline(const exg_grid *grid, uint64_t ns)
{
    for (uint32_t d = 0; d < grid->ndim; d++) {
        grid->dims[d]->deadline_ns = ns;
    }
}

void exg_grid_watch(const exg_grid *grid, const exg_stop *stop)
{
    for (uint32_t d = 0; d < grid->ndim; d++) {
        if (grid->dims[d]->ops->watch != NULL) {
            grid->dims[d]->ops->watch(grid->dims[d], stop);
        }
    }
}

/* ---- agreement ------------------------------------------------------------------------ */

/* What a rank brings: `rank` is the one whose fault it is. */
typedef struct word {
    uint64_t digests[EXG_COMMON_MAX];
    uint32_t rank;
    exg_status status;
} word;

static exg_status tell_all(exg_communicator *c, const void *own, void *all, uint64_t bytes,
                           exg_error *err)
{
    exg_segment send[EXG_RANKS_MAX];
    exg_segment receive[EXG_RANKS_MAX];

    for (uint32_t r = 0; r < c->size; r++) {
        send[r] = (exg_segment){.data = (void *)(uintptr_t)own, .bytes = bytes};
        receive[r] = (exg_segment){.data = (uint8_t *)all + r * bytes, .bytes = bytes};
    }
    return exg_exchange(c, send, receive, err);
}

/* The first rank's fault becomes everybody's along the line. */
static exg_status share_fault(exg_communicator *c, word *own, const word *fault, uint32_t from,
                              exg_error *error, exg_error *err)
{
    EXG_TRY(exg_broadcast_bytes(c, error, sizeof(*error), from, err));
    error->source_file = NULL; /* a place in another process's memory */
    own->status = fault->status;
    own->rank = fault->rank;
    return EXG_OK;
}

/* "weights, seed": what two ranks do not have alike. "" when there is nothing. */
static const char *differences(const word *a, const word *b, const exg_common *own, uint32_t count,
                               char *text, size_t length)
{
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < count && used < length; i++) {
        if (a->digests[i] != b->digests[i]) {
            used += (size_t)snprintf(text + used, length - used, "%s%s", used > 0 ? ", " : "",
                                     own[i].what);
        }
    }
    return text;
}

static exg_status agree_along(exg_communicator *c, word *own, const exg_common *common,
                              uint32_t count, exg_error *error, exg_error *err)
{
    char what[120];
    word words[EXG_RANKS_MAX];

    if (c->size > EXG_RANKS_MAX) {
        return EXG_FAIL(err, LIMIT, "COM-004", "%u ranks; at most %d", c->size, EXG_RANKS_MAX);
    }
    EXG_TRY(tell_all(c, own, words, sizeof(*own), err));
    for (uint32_t r = 0; r < c->size; r++) {
        if (words[r].status != EXG_OK) {
            return share_fault(c, own, &words[r], r, error, err);
        }
    }
    for (uint32_t r = 1; r < c->size && own->status == EXG_OK; r++) {
        if (differences(&words[r], &words[0], common, count, what, sizeof(what))[0] != '\0') {
            own->rank = words[r].rank;
            own->status = exg_error_fix(error,
                                        EXG_FAIL(error, PEER, "COM-009",
                                                 "rank %u has not the same as rank %u: %s",
                                                 words[r].rank, words[0].rank, what),
                                        "start all ranks with the same files, inputs and options");
        }
    }
    return EXG_OK;
}

exg_status exg_grid_agree(const exg_grid *grid, const exg_common *common, uint32_t count,
                          exg_status status, exg_error *err)
{
    word own = {.rank = grid->rank, .status = status};
    exg_error error;

    assert(count <= EXG_COMMON_MAX);
    for (uint32_t i = 0; i < count; i++) {
        own.digests[i] = common[i].digest;
    }

    exg_error_clear(&error);
    if (status != EXG_OK && err != NULL) {
        error = *err;
    }
    for (uint32_t d = 0; d < grid->ndim; d++) {
        exg_status told = agree_along(grid->dims[d], &own, common, count, &error, err);

        if (told != EXG_OK) { /* somebody did not come: nobody is to wait for anything */
            exg_grid_abort(grid, told);
            if (err != NULL) {
                err->where[0] = '\0'; /* of one line of the mesh */
            }
            return exg_error_within(err, told, "rank %u, where all ranks meet around a run",
                                    grid->rank);
        }
    }
    if (own.status == EXG_OK) {
        return EXG_OK;
    }
    if (err != NULL) {
        *err = error;
    }
    return strcmp(error.code, "COM-009") == 0
               ? own.status
               : exg_error_within(err, own.status, "rank %u", own.rank);
}

/* ---- processes ------------------------------------------------------------------------- */

static uint64_t digest_of(const exg_mesh_shape *shape)
{
    return XXH3_64bits(shape->sizes, shape->ndim * sizeof(shape->sizes[0]));
}

/* One colour a line: the number of its first rank. */
static exg_status split_line(const exg_mesh_shape *shape, exg_communicator *world,
                             exg_mesh_line line, exg_communicator **out, exg_error *err)
{
    uint32_t color = world->rank;

    for (uint32_t d = 0; d < shape->ndim; d++) {
        if ((line >> d & 1) != 0) {
            color -=
                exg_mesh_shape_coordinate(shape, world->rank, d) * exg_mesh_shape_stride(shape, d);
        }
    }
    return exg_communicator_split(world, color, out, err);
}

exg_status exg_split_grid(const exg_mesh_shape *shape, exg_communicator *world,
                          const exg_mesh_line *lines, uint32_t count, exg_grid *grid,
                          exg_error *err)
{
    exg_grid all = {.dims = {world}, .ndim = 1, .rank = world->rank};
    const exg_common mesh = {"mesh", digest_of(shape)};
    exg_status status;

    *grid = (exg_grid){.ndim = shape->ndim + count, .rank = world->rank};
    status = exg_grid_agree(&all, &mesh, 1, EXG_OK, err);
    for (uint32_t d = 0; status == EXG_OK && d < grid->ndim; d++) {
        exg_mesh_line line = d < shape->ndim ? 1u << d : lines[d - shape->ndim];

        status = split_line(shape, world, line, &grid->dims[d], err);
    }
    if (status != EXG_OK) {
        exg_grid_close(grid);
    }
    return status;
}

exg_status exg_mpi_grid(const exg_mesh_shape *shape, uint64_t deadline_ns, exg_grid *grid,
                        uint32_t *rank, exg_error *err)
{
    exg_communicator *world;
    exg_status status;

    EXG_TRY(exg_mpi_create(exg_mesh_shape_size(shape),
                           deadline_ns == 0 ? EXG_DEADLINE_NS : deadline_ns, &world, err));
    *rank = world->rank;
    status = exg_split_grid(shape, world, NULL, 0, grid, err);
    exg_communicator_close(world);
    return status;
}
