/* stage.h - programs after a stage, over a table of PyTorch's operators (operators/aten.h). */
#ifndef EXG_LIBEXPORT_TRANSFORM_STAGE_H
#define EXG_LIBEXPORT_TRANSFORM_STAGE_H

#include <exg/transform.h>

/* numbered_stage.c: with these numbers for its symbols. What assertions on data say is in nodes
 * again. UNSUPPORTED TRF-004: it is not known as a whole before it runs. */
exg_status exg_stage_of_numbers(const exg_verified *verified, const exg_symbols *symbols,
                                exg_stage stage, exg_program **out, exg_error *err);

/* symbolic_stage.c: with its symbols, and with its branches, loops and reads of data, whose graphs
 * are after the stage too. `libraries`: as in kept_nodes.h. UNSUPPORTED TRF-004, TRF-006. */
exg_status exg_stage_of_symbols(const exg_verified *verified, const exg_operators *libraries,
                                exg_stage stage, exg_program **out, exg_error *err);

#endif
