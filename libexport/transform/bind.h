/* bind.h - what is said of an input that a program does not have. */
#ifndef EXG_LIBEXPORT_TRANSFORM_BIND_H
#define EXG_LIBEXPORT_TRANSFORM_BIND_H

#include <exg/program.h>

/* USAGE INP-001, and the inputs that there are. `name` may be NULL. */
exg_status exg_fail_no_input(const exg_program *program, const char *name, exg_error *err);

#endif
