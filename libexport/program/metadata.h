/* metadata.h - texts that passes note with a node, under keys of their own, among those that
 * PyTorch wrote. A program that is given away has none of them. */
#ifndef EXG_LIBEXPORT_PROGRAM_METADATA_H
#define EXG_LIBEXPORT_PROGRAM_METADATA_H

#include "libexport/base/arena.h"

#include <exg/program.h>

/* Notes `value`. The list becomes a new one in `arena`; texts are borrowed. */
exg_status exg_node_add_metadata(exg_arena *arena, exg_node *node, const char *key,
                                 const char *value, exg_error *err);

/* Takes the key out again, if it is there. The list becomes a new one in `arena`. */
exg_status exg_node_drop_metadata(exg_arena *arena, exg_node *node, const char *key,
                                  exg_error *err);

#endif
