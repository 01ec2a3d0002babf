/* candidate.h - ways to go on in a search for strategies, of which the cheapest are kept. */
#ifndef EXG_LIBEXEC_SHARDING_CANDIDATE_H
#define EXG_LIBEXEC_SHARDING_CANDIDATE_H

#include <stdint.h>

typedef struct exg_candidate {
    double cost, debt; /* what is spent, and what is put off */
    uint32_t parent, option;
} exg_candidate;

/* Of the cheapest, which are no more than there is room for: adds one, or leaves one out. Gives how
 * many there are. */
uint32_t exg_candidate_keep(exg_candidate *heap, uint32_t count, uint32_t room, exg_candidate c);

/* The cheapest first. */
void exg_candidate_sort(exg_candidate *heap, uint32_t count);

#endif
