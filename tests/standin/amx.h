/* amx.h - AMX on processors without it.
 *
 * What the compiler made of the loops runs as it is: a tile instruction is one the processor does
 * not know, and the handler of that signal does what Intel's manual says of it, a tile file a
 * thread. It knows the tile instructions alone; AVX512-BF16 and VNNI the processor must have.
 */
#ifndef EXG_TESTS_STANDIN_AMX_H
#define EXG_TESTS_STANDIN_AMX_H

#include <stdbool.h>
#include <stdint.h>

/* From now on this process has AMX, its processor's or this one; false where it has neither.
 * To be called again where others may have taken the signal, as cmocka does for each test. */
bool amx_stand_in(void);

/* No AMX any more but the processor's. */
void amx_stand_down(void);
/* Whether calls prepared now run by it. */
bool amx_stands_in(void);
/* Whether this thread has left it with tiles. */
bool amx_is_configured(void);
/* Tile instructions it has done. */
uint64_t amx_instructions(void);

#endif
