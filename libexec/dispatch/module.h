/* module.h - what the modules of a program are made of, for those that run them. */
#ifndef EXG_LIBEXEC_DISPATCH_MODULE_H
#define EXG_LIBEXEC_DISPATCH_MODULE_H

#include "libexport/base/map.h"

#include <exg/distribute.h>

typedef struct exg_tensor_entry {
    const exg_weight *weight;
    uint32_t holder; /* the first it is tied to, or itself */
    uint32_t next;   /* of its module */
    exg_dtensor *t;  /* of a holder, once it is distributed, or was used plain */
    bool is_plain;   /* that: of this rank alone */
} exg_tensor_entry;

typedef struct exg_module_entry {
    const char *fqn;
    uint32_t first, last;  /* of its own tensors */
    exg_device_mesh *mesh; /* NULL: exg_distribute_module was not called for it */
    exg_module_functions functions;
} exg_module_entry;

struct exg_module {
    exg_arena *arena; /* names, maps */
    exg_verified verified;
    exg_tensor_entry *tensors;           /* parameters, buffers, then constants of the graph */
    exg_module_entry *modules;           /* parents first */
    uint32_t tensor_count, listed_count; /* without constants */
    uint32_t module_count, module_capacity;
    exg_map tensor_of, module_of; /* by FQN */
    exg_device_mesh *assigning;   /* while a partition function runs */
    exg_program *bound;           /* the program of the sizes of the last forward; NULL: none */
    int64_t *sizes;               /* these, in words; `size_count` of them */
    uint32_t size_count;
};

/* The module of that name, or NULL. */
exg_module_entry *exg_module_called(const exg_module *m, const char *fqn, size_t length);

/* The DTensor of a tensor of the graph, on the mesh `plain` of this rank alone where it is not
 * distributed. USAGE DTN-017: there is none of that name. */
exg_status exg_module_tensor(exg_module *m, const char *fqn, exg_device_mesh *plain,
                             exg_dtensor **t, exg_error *err);

/* The input or output function of a module on values; `is_output`: the latter. */
exg_status exg_module_call_hook(exg_module *m, const exg_module_entry *module, bool is_output,
                                exg_module_value *values, uint32_t count, exg_error *err);

#endif
