/* mesh.h - a rank's view of a device mesh. */
#ifndef EXG_LIBEXEC_DTENSOR_MESH_H
#define EXG_LIBEXEC_DTENSOR_MESH_H

#include "libexec/comm/communicator.h"
#include "libexec/device/shared_device.h"

#include <exg/device_mesh.h>

typedef struct exg_mesh_link exg_mesh_link; /* link.h */
typedef struct exg_mesh_flight exg_mesh_flight;

struct exg_device_mesh {
    exg_communicator *communicator;   /* NULL: this rank is no member */
    exg_communicator *around;         /* of all ranks that have this mesh, some of which are no
                                         members; NULL: all are */
    const char *device_type;          /* of exg_device_kind() */
    exg_shared_device *shared_device; /* NULL: the host, or this rank is no member */
    exg_accelerator *device;          /* which is open there; NULL alike */
    exg_mesh_link *links;             /* that were asked for */
    uint32_t ndim;
    uint32_t sizes[EXG_MESH_DIMS_MAX];
    char names[EXG_MESH_DIMS_MAX][EXG_MESH_NAME_MAX];
    uint32_t size;
    uint32_t *ranks; /* by rank of this mesh: of the mesh all were made of */
};

/* Where rank `rank` of the mesh stands along `dim`. */
uint32_t exg_mesh_coordinate(const exg_device_mesh *mesh, uint32_t rank, uint32_t dim);

/* Collective. `bytes` of everyone's, by rank. */
exg_status exg_mesh_gather(exg_device_mesh *mesh, void *own, void *all, uint64_t bytes,
                           exg_error *err);

/* Collective. The first fault of any rank, on all: `status` is this rank's, `err` says what it was,
 * and with the rank's number what it was elsewhere. */
exg_status exg_mesh_agree(exg_device_mesh *mesh, exg_status status, exg_error *err);

#endif
