/* grid.h - the communicators of a rank on a mesh, one a mesh dim: those it meets along it. */
#ifndef EXG_LIBEXEC_COMM_GRID_H
#define EXG_LIBEXEC_COMM_GRID_H

#include "libexec/comm/communicator.h"

#include <exg/device_mesh.h>

typedef struct exg_grid {
    exg_communicator *dims[EXG_MESH_DIMS_MAX];
    uint32_t ndim;
} exg_grid;

/* Ranks as threads: `grids` has room for as many as the sizes multiply to. */
exg_status exg_local_grid(const exg_mesh_shape *shape, exg_grid *grids, exg_error *err);

/* Ranks as the processes that mpirun started, of which this is number *rank. USAGE DTN-001
 * when they are not as many. */
exg_status exg_mpi_grid(const exg_mesh_shape *shape, exg_grid *grid, uint32_t *rank,
                        exg_error *err);

void exg_grid_close(exg_grid *grid);
void exg_grid_abort(const exg_grid *grid, exg_status status); /* along every dim */
exg_status exg_grid_status(const exg_grid *grid, exg_error *err); /* the first fault */

/* Where rank `rank` of a mesh stands along `dim`; ranks are numbered row-major. */
uint32_t exg_mesh_shape_coordinate(const exg_mesh_shape *shape, uint32_t rank, uint32_t dim);
uint32_t exg_mesh_shape_size(const exg_mesh_shape *shape);

#endif
