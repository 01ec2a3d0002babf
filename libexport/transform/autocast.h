/* autocast.h - what PyTorch converts the arguments of an operator to while autocast is on. */
#ifndef EXG_LIBEXPORT_TRANSFORM_AUTOCAST_H
#define EXG_LIBEXPORT_TRANSFORM_AUTOCAST_H

#include <exg/program.h>

/* Autocast of one kind of device; each kind has its own, and the innermost counts. */
typedef struct exg_autocast {
    const struct exg_autocast *outer; /* NULL: the outermost */
    const char *device;               /* its type */
    exg_dtype dtype;
    bool is_on;
} exg_autocast;

/* The mode that wrap_with_autocast(device, dtype, enabled, cache, graph, ...) sets. */
exg_autocast exg_autocast_of(const exg_node *node, const exg_autocast *outer);

/* Does a mode that is on cover the tensor, and is it one that is converted? */
bool exg_autocast_covers(const exg_autocast *mode, const exg_tensor_meta *meta);

/* The dtype for what the modes cover among the node's arguments, values of `graph`;
 * false: they stay as they are. `narrow`: NULL where the graph's records hold, else some values may
 * have other dtypes, and these, by value, have 16 bits, as far as can be told. */
bool exg_autocast_dtype(const exg_autocast *mode, const exg_graph *graph, const exg_node *node,
                        const bool *narrow, exg_dtype *dtype);

/* Does the node, whose arguments were converted to `dtype` (EXG_DTYPE_COUNT: they were not), give
 * 16 bits where float32 is recorded? `narrow` as above, or NULL. */
bool exg_autocast_narrows(const exg_graph *graph, const exg_node *node, const bool *narrow,
                          exg_dtype dtype);

#endif
