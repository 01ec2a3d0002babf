/* exchange.h - what ranks give one another of their parts. */
#ifndef EXG_LIBEXEC_DTENSOR_EXCHANGE_H
#define EXG_LIBEXEC_DTENSOR_EXCHANGE_H

#include "libexec/dtensor/region.h"
#include "libexec/dtensor/spec.h"

/* Collective: what rank p holds of `from` (held[p]) and rank q wants of `t` (wanted[q]) goes there
 * when gives(user, p, q). Nothing is sent when everyone has what it wants. Regions are a rank of
 * the mesh each; they and `from` may go when it returns. `there`, alike on all ranks: what they
 * give is on their devices, and goes from one to the other where it can. With `async` the part
 * may be on its way (t->transit). A fault ends the mesh's exchanges on all ranks. */
typedef bool exg_sends_fn(const void *user, uint32_t giver, uint32_t taker);
exg_status exg_dtensor_receive(exg_dtensor *t, const exg_tensor *from, bool there,
                               const exg_region *held, const exg_region *wanted,
                               exg_sends_fn *gives, const void *user, bool async, exg_error *err);

/* The part is whole when it has been finished, which frees what was on its way (NULL is allowed).
 * `settles`: it also waits until all ranks have read what was sent, which they do when they finish
 * it; else that memory stays until a later exchange. */
exg_status exg_transit_finish(exg_transit *transit, bool settles, exg_error *err);
bool exg_transit_arrived(const exg_transit *transit); /* is it whole already? */

#endif
