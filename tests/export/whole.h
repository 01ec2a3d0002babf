/* whole.h - a program that says all that one can: every argument kind, every optional field there
 * and absent, numbers that defaults could swallow. It breaks most rules. */
#ifndef EXG_TESTS_EXPORT_WHOLE_H
#define EXG_TESTS_EXPORT_WHOLE_H

#include <exg/program.h>

/* Its tables are not its own: a copy may be changed. */
exg_program *make_whole(void);

#endif
