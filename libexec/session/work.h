/* work.h - how much a program computes, before it does. */
#ifndef EXG_LIBEXEC_SESSION_WORK_H
#define EXG_LIBEXEC_SESSION_WORK_H

#include <exg/operators.h>

/* Of a run of the functional program, without what its loops repeat, all ranks together: the
 * multiplications and additions of products, and an operation for each four bytes that any other
 * operator reads or writes. */
double exg_work_of(const exg_program *functional, const exg_operators *operators);

#endif
