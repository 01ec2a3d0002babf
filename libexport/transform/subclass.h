/* subclass.h - nodes that ask for a tensor inside of a tensor subclass. */
#ifndef EXG_LIBEXPORT_TRANSFORM_SUBCLASS_H
#define EXG_LIBEXPORT_TRANSFORM_SUBCLASS_H

#include <exg/transform.h>

/* Is it a call of EXG_ACCESS_SUBCLASS as PyTorch writes it? */
bool exg_node_accesses_subclass(const exg_node *node);

#endif
