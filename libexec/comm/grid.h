/* grid.h - the communicators of a rank on a mesh, one a mesh dim: those it meets along it; then one
 * for each set of dims that process groups lie along. */
#ifndef EXG_LIBEXEC_COMM_GRID_H
#define EXG_LIBEXEC_COMM_GRID_H

#include "libexec/comm/communicator.h"

#include <exg/device_mesh.h>

struct exg_accelerator;
struct exg_device_link;

#define EXG_GRID_LINES_MAX 16

typedef struct exg_grid {
    exg_communicator *dims[EXG_GRID_LINES_MAX];
    struct exg_device_link *links[EXG_GRID_LINES_MAX]; /* of their devices; NULL: none */
    struct exg_accelerator *device;                    /* whose ends of the links these are */
    uint32_t ndim;                                     /* of the mesh, and sets of dims */
    uint32_t rank;                                     /* in the mesh */
} exg_grid;

/* Ranks as threads: `grids` has room for as many as the sizes multiply to. */
exg_status exg_local_grid(const exg_mesh_shape *shape, exg_grid *grids, exg_error *err);

/* Ranks as the processes that mpirun started, of which this is number *rank. No wait lasts
 * longer than `deadline_ns` (0: EXG_DEADLINE_NS), this one included. USAGE DTN-001 when they
 * are not as many; PEER COM-009 when they do not all ask for the same mesh. */
exg_status exg_mpi_grid(const exg_mesh_shape *shape, uint64_t deadline_ns, exg_grid *grid,
                        uint32_t *rank, exg_error *err);

/* Rank `rank` on paper: what a plan asks of communicators, their sizes, its place in them and
 * whether they lend, as threads do. Nothing can be exchanged (COM-005). */
exg_status exg_paper_grid(const exg_mesh_shape *shape, uint32_t rank, bool lends, exg_grid *grid,
                          exg_error *err);

/* Sets of a mesh's dims by bit: the ranks that are alike along all other dims, row-major. */
typedef uint32_t exg_mesh_line;
uint32_t exg_mesh_line_size(const exg_mesh_shape *shape, exg_mesh_line line);
uint32_t exg_mesh_line_rank(const exg_mesh_shape *shape, exg_mesh_line line, uint32_t rank);

/* The grid of this rank of `world`, a mesh of that shape, which stays the caller's: its dims, then
 * `lines`. Collective. exg_paper_lines() adds the same to one on paper. */
exg_status exg_split_grid(const exg_mesh_shape *shape, exg_communicator *world,
                          const exg_mesh_line *lines, uint32_t count, exg_grid *grid,
                          exg_error *err);
exg_status exg_paper_lines(const exg_mesh_shape *shape, const exg_mesh_line *lines, uint32_t count,
                           bool lends, exg_grid *grid, exg_error *err);

void exg_grid_set_deadline(const exg_grid *grid, uint64_t ns);   /* of each wait */
void exg_grid_watch(const exg_grid *grid, const exg_stop *stop); /* communicator.h */

/* What all ranks must have alike. */
typedef struct exg_common {
    const char *what; /* in words: "weights"; the same on every rank */
    uint64_t digest;
} exg_common;

#define EXG_COMMON_MAX 8

/* Called by every rank of the mesh with as many `own`, in the same order: do all bring the same
 * digests, and EXG_OK? If not, the first rank's fault on every one of them, with its code and
 * with the rank in `where`; COM-009, which names the rank and what it has otherwise, when all are
 * well and digests differ. `err` holds a rank's own fault when it comes. */
exg_status exg_grid_agree(const exg_grid *grid, const exg_common *own, uint32_t count,
                          exg_status status, exg_error *err);

/* Joins the ranks' devices along every dim, where these can be (device_links.c). Called by every
 * rank, at once. `through` tells, for people, what carries out collectives. PEER, DEVICE. */
#define EXG_THROUGH_TEXT 256
exg_status exg_grid_join(exg_grid *grid, struct exg_accelerator *device, char *through,
                         exg_error *err);
void exg_grid_leave(exg_grid *grid); /* the same, when no plan of theirs is left */

void exg_grid_close(exg_grid *grid);
void exg_grid_abort(const exg_grid *grid, exg_status status);     /* along every dim */
bool exg_grid_is_aborted(const exg_grid *grid);                   /* by any rank, along any dim */
exg_status exg_grid_status(const exg_grid *grid, exg_error *err); /* the first fault */

/* Where rank `rank` of a mesh stands along `dim`; ranks are numbered row-major. */
uint32_t exg_mesh_shape_coordinate(const exg_mesh_shape *shape, uint32_t rank, uint32_t dim);
uint32_t exg_mesh_shape_stride(const exg_mesh_shape *shape, uint32_t dim); /* to the next rank */
uint32_t exg_mesh_shape_size(const exg_mesh_shape *shape);

#endif
