/* grid.c - communicators along the dims of a mesh. */
#include "libexec/comm/grid.h"

#include <stddef.h>

#define RANKS_MAX 256

uint32_t exg_mesh_shape_size(const exg_mesh_shape *shape)
{
    uint32_t size = 1;

    for (uint32_t d = 0; d < shape->ndim; d++) {
        size *= shape->sizes[d];
    }
    return size;
}

/* From one rank to the next along `dim`. */
static uint32_t stride_of(const exg_mesh_shape *shape, uint32_t dim)
{
    uint32_t stride = 1;

    for (uint32_t d = dim + 1; d < shape->ndim; d++) {
        stride *= shape->sizes[d];
    }
    return stride;
}

uint32_t exg_mesh_shape_coordinate(const exg_mesh_shape *shape, uint32_t rank, uint32_t dim)
{
    return rank / stride_of(shape, dim) % shape->sizes[dim];
}

void exg_grid_close(exg_grid *grid)
{
    for (uint32_t d = 0; d < EXG_MESH_DIMS_MAX; d++) {
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
    exg_communicator *along[RANKS_MAX];
    exg_status status = EXG_OK;

    for (uint32_t r = 0; r < size; r++) {
        grids[r] = (exg_grid){.ndim = shape->ndim};
    }
    for (uint32_t d = 0; status == EXG_OK && d < shape->ndim; d++) {
        for (uint32_t r = 0; status == EXG_OK && r < size; r++) {
            if (exg_mesh_shape_coordinate(shape, r, d) != 0) {
                continue;
            }
            status = exg_local_create(shape->sizes[d], along, err);
            for (uint32_t i = 0; status == EXG_OK && i < shape->sizes[d]; i++) {
                grids[r + i * stride_of(shape, d)].dims[d] = along[i];
            }
        }
    }
    for (uint32_t r = 0; status != EXG_OK && r < size; r++) {
        exg_grid_close(&grids[r]);
    }
    return status;
}

exg_status exg_mpi_grid(const exg_mesh_shape *shape, exg_grid *grid, uint32_t *rank,
                        exg_error *err)
{
    exg_communicator *world;
    exg_status status = EXG_OK;

    *grid = (exg_grid){.ndim = shape->ndim};
    EXG_TRY(exg_mpi_create(exg_mesh_shape_size(shape), &world, err));
    *rank = world->rank;
    for (uint32_t d = 0; status == EXG_OK && d < shape->ndim; d++) {
        uint32_t coordinate = exg_mesh_shape_coordinate(shape, *rank, d);

        /* one colour a line along the dim: the number of its first rank */
        status = exg_communicator_split(world, *rank - coordinate * stride_of(shape, d),
                                        &grid->dims[d], err);
    }
    exg_communicator_close(world);
    if (status != EXG_OK) {
        exg_grid_close(grid);
    }
    return status;
}
