/* host_operators.h - operators that the host alone has kernels for. */
#ifndef EXG_LIBEXPORT_TRANSFORM_HOST_OPERATORS_H
#define EXG_LIBEXPORT_TRANSFORM_HOST_OPERATORS_H

#include <exg/transform.h>

/* Those of operators that every device has, in their place: what a device has no kernel for the
 * host would compute, between copies. */
exg_status exg_part_host_operators(const exg_program *functional, const exg_operators *operators,
                                   exg_program **parted, exg_error *err);

#endif
