/* guards.h - what PyTorch asks of the sizes of inputs: "L['x'].size()[0] % 8 == 0",
 * "L['x'].size()[0] > 2*L['args'][0].size()[0]". The sizes are replaced by their expressions;
 * what is left is read by the closed grammar (symint.h), never run.
 */
#ifndef EXG_LIBEXPORT_VERIFY_GUARDS_H
#define EXG_LIBEXPORT_VERIFY_GUARDS_H

#include "libexport/base/map.h"

#include <exg/program.h>

/* Inputs of the graph by name, as guards speak of them. false: out of memory. */
bool exg_guard_inputs(const exg_program *program, exg_arena *arena, exg_map *inputs);

/* One guard without its inputs, in `arena`; *text is NULL when it speaks of no input. */
exg_status exg_guard_read(const exg_program *program, const exg_map *inputs, const char *guard,
                          exg_arena *arena, const char **text, exg_error *err);

#endif
