/* link.h - collectives between the ranks of a mesh whose local parts are on devices that can be
 * joined: bytes go there from one part to the other, asked for and not waited for. What joins them
 * is the device's (device.h): memory that ranks of one process share, or NCCL.
 */
#ifndef EXG_LIBEXEC_DTENSOR_LINK_H
#define EXG_LIBEXEC_DTENSOR_LINK_H

#include "libexec/comm/collectives.h"
#include "libexec/dtensor/mesh.h"
#include "libexec/dtensor/storage.h"

/* Collective, and alike on all ranks. What joins this rank and those apart from it along `dims`
 * alone (NULL: all dims), in the order of ranks; NULL where there is none. */
exg_status exg_mesh_link_find(exg_device_mesh *mesh, const bool *dims, exg_mesh_link **link,
                              exg_error *err);
void exg_mesh_leave_links(exg_device_mesh *mesh);

/* Do all ranks share one device? Hosts meet then in each collective between parts there. */
exg_status exg_mesh_shares_device(const exg_device_mesh *mesh, bool *shares, exg_error *err);

/* Asks for a collective, as the device's table says it (device.h), and counts one exchange of the
 * mesh. UNSUPPORTED, on all ranks: not this one. */
exg_status exg_mesh_link_run(exg_device_mesh *mesh, exg_mesh_link *link, const exg_collective *what,
                             const exg_strip *sent, const exg_strip *received, exg_error *err);

/* In two parts: what is asked for in between is done beside it. `source` (NULL: none) is held so
 * long, and operand and result stay; finish() frees it. Those that were begun before are then
 * finished too, and have arrived. */
exg_status exg_mesh_link_begin(exg_device_mesh *mesh, exg_mesh_link *link,
                               const exg_collective *what, const exg_strip *sent,
                               const exg_strip *received, exg_block *source,
                               exg_mesh_flight **flight, exg_error *err);
exg_status exg_mesh_flight_finish(exg_mesh_flight *flight, exg_error *err);
bool exg_mesh_flight_arrived(const exg_mesh_flight *flight);

#endif
