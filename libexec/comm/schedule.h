/* schedule.h - where collectives begin and end among the steps of a rank.
 *
 *   gather w2   ->   begin w2 | mm with w1 | end w2 | mm with w2
 *
 * Other steps stay in their order. Collectives begin in their order and end in it, on every
 * rank, at most so many under way: so no rank waits for one that waits for it. What is under
 * way is also no more, together, than twice the largest of them alone, so that weights in
 * pieces are whole one ahead and not all at once.
 */
#ifndef EXG_LIBEXEC_COMM_SCHEDULE_H
#define EXG_LIBEXEC_COMM_SCHEDULE_H

#include "libexec/comm/collectives.h"

typedef struct exg_crossing {
    uint32_t step;       /* that carries it out whole */
    uint32_t ready, due; /* begins before step `ready` at the earliest, ends before `due` */
    uint32_t after;      /* begins when so many of all have ended: one of them brings its operand */
    bool is_fixed;       /* carried out whole, not begun before it is due */
    uint64_t bytes;      /* of memory, while it is under way */
    uint32_t begin, end; /* out, in the new order; equal: it stays whole */
} exg_crossing;

/* A place in the new order: the whole step, or what it does of a collective there. */
typedef struct exg_scheduled {
    uint32_t step;
    exg_collective_phase phase;
} exg_scheduled;

/* How many crossings have ended when the one that is step `s` has, of the first `count`, which
 * come in order of steps; 0: none is. */
uint32_t exg_crossing_of(const exg_crossing *crossings, uint32_t count, uint32_t s);

/* Steps first .. end - 1, of which the crossings are some, in a new order; its length. `order`
 * has room for all, and one more for each crossing. */
uint32_t exg_schedule(exg_crossing *crossings, uint32_t count, uint32_t first, uint32_t end,
                      exg_scheduled *order);

#endif
