/* mesh_stack.h - the meshes that calls happen on. */
#ifndef EXG_LIBEXEC_DISPATCH_MESH_STACK_H
#define EXG_LIBEXEC_DISPATCH_MESH_STACK_H

#include <exg/dispatch.h>

/* The mesh pushed last, else that of the options; NULL: none. */
exg_device_mesh *exg_current_mesh(const exg_dispatcher *d);

#endif
