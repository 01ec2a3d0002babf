/* device_mesh.h - ranks arranged in a grid of named dims, as PyTorch's DeviceMesh.
 *
 * Every rank holds a mesh object of its own. Ranks are numbered row-major; a rank's
 * coordinate says where it stands. A slice is the part of the grid along some dims that
 * holds this rank, a flattened mesh has one dim for several. A mesh made of some ranks
 * only has an object on the others too: they are no members, own nothing of what is
 * on it and send nothing.
 *
 * Where a mesh is of another device type than "cpu", each rank opens a device of that kind: rank
 * r number r, counted round where there are fewer. What is on the mesh is in that device's
 * memory (dtensor.h). Parts of a mesh share its device, which is closed with the last mesh and
 * the last memory of it. Meshes that were made apart have devices opened apart, and are not
 * equal.
 *
 * Collective: every rank of the mesh calls it, in the same order. Threads: a mesh is
 * used by its rank's thread alone.
 * Meaning: torch/distributed/device_mesh.py.
 */
#ifndef EXG_DEVICE_MESH_H
#define EXG_DEVICE_MESH_H

#include <exg/status.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EXG_MESH_DIMS_MAX 8
#define EXG_MESH_NAME_MAX 32 /* bytes of a dim's name with its NUL */

typedef struct exg_device_mesh exg_device_mesh;

typedef struct exg_mesh_shape {
    uint32_t ndim; /* 1 and more */
    uint32_t sizes[EXG_MESH_DIMS_MAX];
    const char *names[EXG_MESH_DIMS_MAX]; /* distinct; NULL: the dim has none */
    const char *device_type;              /* of device.h; NULL: "cpu", of a part its mesh's */
} exg_mesh_shape;

/* Faults of all that make a mesh: USAGE DTN-001, DEV-001 of a device type that there is not,
 * DEVICE DEV-... (device.h) of what is missing for it, NO_MEMORY.
 *
 * This process's mesh, ranks being the processes that mpirun started: as many as the sizes
 * multiply to. Collective over them. MPI is loaded by the first call (libexg_mpi.so);
 * UNSUPPORTED COM-008 where it is not there. */
EXG_NODISCARD exg_status exg_mpi_mesh_create(const exg_mesh_shape *shape, exg_device_mesh **mesh,
                                             exg_error *err);
/* Ends MPI if a mesh began it; after all meshes are destroyed, as the process's last word. */
void exg_mpi_finish(void);

/* init_device_mesh, but for threads. One mesh a rank, ranks being threads of this process; `meshes`
 * has room for as many as the sizes multiply to. Destroyed one by one. */
EXG_NODISCARD exg_status exg_local_mesh_create(const exg_mesh_shape *shape,
                                               exg_device_mesh **meshes, exg_error *err);
void exg_device_mesh_destroy(exg_device_mesh *mesh); /* NULL is allowed */

uint32_t exg_device_mesh_ndim(const exg_device_mesh *mesh);
uint32_t exg_device_mesh_size(const exg_device_mesh *mesh); /* ranks in all */
uint32_t exg_device_mesh_dim_size(const exg_device_mesh *mesh, uint32_t dim);
const char *exg_device_mesh_device_type(const exg_device_mesh *mesh);            /* "cpu", ... */
const char *exg_device_mesh_dim_name(const exg_device_mesh *mesh, uint32_t dim); /* or "" */

/* Is the calling rank one of the mesh? If not, the two below are 0. */
bool exg_device_mesh_is_member(const exg_device_mesh *mesh);
uint32_t exg_device_mesh_rank(const exg_device_mesh *mesh);
uint32_t exg_device_mesh_coordinate(const exg_device_mesh *mesh, uint32_t dim);

/* Rank `rank` of the mesh as the mesh numbers it that all others were made of. */
uint32_t exg_device_mesh_global_rank(const exg_device_mesh *mesh, uint32_t rank);

/* The dim of that name. USAGE DTN-010. */
EXG_NODISCARD exg_status exg_device_mesh_find_dim(const exg_device_mesh *mesh, const char *name,
                                                  uint32_t *dim, exg_error *err);

/* The same ranks in the same grid with the same names, on the same open device? */
bool exg_device_mesh_equal(const exg_device_mesh *a, const exg_device_mesh *b);

/* DeviceMesh["dim", ...]. Collective. The part along `dims` (ascending) that holds this rank: of a
 * mesh 2 x 4 (dp, tp), along dp on rank 5: the ranks 1 and 5. USAGE DTN-011. */
EXG_NODISCARD exg_status exg_device_mesh_slice(exg_device_mesh *mesh, const uint32_t *dims,
                                               uint32_t dim_count, exg_device_mesh **slice,
                                               exg_error *err);

/* DeviceMesh._flatten. Collective. The same ranks in one dim called `name` (NULL: the names joined
 * by "_"). */
EXG_NODISCARD exg_status exg_device_mesh_flatten(exg_device_mesh *mesh, const uint32_t *dims,
                                                 uint32_t dim_count, const char *name,
                                                 exg_device_mesh **flat, exg_error *err);

/* DeviceMesh(type, ranks). Collective. A mesh of these ranks of `mesh`, ascending, row-major. Ranks
 * that are not among them have it too; what they do with it sends nothing but `equal`, which is
 * called by all and tells all. USAGE DTN-012, DTN-021 of another device type than the mesh's. */
EXG_NODISCARD exg_status exg_device_mesh_select(exg_device_mesh *mesh, const uint32_t *ranks,
                                                const exg_mesh_shape *shape,
                                                exg_device_mesh **selected, exg_error *err);

/* The mesh of this rank alone; not collective, and of every rank. */
EXG_NODISCARD exg_status exg_device_mesh_self(const exg_device_mesh *mesh, exg_device_mesh **self,
                                              exg_error *err);

/* How long a rank waits for the others, nanoseconds (60 s at first). */
void exg_device_mesh_set_deadline(exg_device_mesh *mesh, uint64_t ns);

/* Exchanges done so far by this rank on this mesh, and bytes sent to other ranks. */
uint64_t exg_device_mesh_exchanges(const exg_device_mesh *mesh);
uint64_t exg_device_mesh_bytes_sent(const exg_device_mesh *mesh);

#ifdef __cplusplus
}
#endif

#endif
