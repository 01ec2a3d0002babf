/* work.h - how much a program computes, before it does. */
#ifndef EXG_LIBEXEC_SESSION_WORK_H
#define EXG_LIBEXEC_SESSION_WORK_H

#include <exg/operators.h>

struct exg_step;

/* Of a run of the functional program, without what its loops repeat, all ranks together: the
 * multiplications and additions of products, and an operation for each four bytes that any other
 * operator reads or writes. */
double exg_work_of(const exg_program *functional, const exg_operators *operators);

/* Of one step: multiplications and additions of a product (0: it is none), and bytes that it reads
 * and writes, elements that are repeated counted once, of a table the rows that are looked up. */
void exg_step_work(const struct exg_step *step, const exg_operators *operators, double *flops,
                   uint64_t *bytes);

#endif
