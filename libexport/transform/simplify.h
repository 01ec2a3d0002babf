/* simplify.h - exg_simplify, for more than the host. */
#ifndef EXG_LIBEXPORT_TRANSFORM_SIMPLIFY_H
#define EXG_LIBEXPORT_TRANSFORM_SIMPLIFY_H

#include <exg/transform.h>

/* exg_simplify of a program for one plan, which takes its place. `on_host`: with products and
 * convolutions of bytes in place of dequantized ones; else with what the host alone has a kernel
 * for written out (host_operators.h). On a failure it is as it was. */
exg_status exg_simplify_here(exg_program **functional, const exg_operators *operators, bool on_host,
                             exg_error *err);

/* Without the nodes that nothing uses. */
exg_status exg_drop_dead(const exg_program *functional, const exg_operators *operators,
                         exg_program **out, exg_error *err);

#endif
