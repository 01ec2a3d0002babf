/* link.h - collectives between the ranks of a mesh that are threads of this process and whose local
 * parts are on one device: bytes go there from one part to the other, asked for and not waited for.
 *
 * Ranks on devices of their own exchange through the host: what joins those devices is left by all
 * ranks at once, and a mesh is destroyed by each for itself.
 */
#ifndef EXG_LIBEXEC_DTENSOR_LINK_H
#define EXG_LIBEXEC_DTENSOR_LINK_H

#include "libexec/comm/collectives.h"
#include "libexec/dtensor/mesh.h"

/* Collective, and alike on all ranks. What joins this rank and those apart from it along `dims`
 * alone (NULL: all dims), in the order of ranks; NULL where there is none. */
exg_status exg_mesh_link_find(exg_device_mesh *mesh, const bool *dims, exg_mesh_link **link,
                              exg_error *err);
void exg_mesh_leave_links(exg_device_mesh *mesh);

/* Asks for a collective, as the device's table says it (device.h), and counts one exchange of the
 * mesh. UNSUPPORTED, on all ranks: not this one. */
exg_status exg_mesh_link_run(exg_device_mesh *mesh, const exg_mesh_link *link,
                             const exg_collective *what, const exg_strip *sent,
                             const exg_strip *received, exg_error *err);

#endif
