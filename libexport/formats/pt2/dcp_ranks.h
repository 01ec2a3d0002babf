/* dcp_ranks.h - "__3.metadata": what rank 3 of a distributed checkpoint says, where ranks do not
 * talk to each other when they save. */
#ifndef EXG_LIBEXPORT_FORMATS_PT2_DCP_RANKS_H
#define EXG_LIBEXPORT_FORMATS_PT2_DCP_RANKS_H

#include <exg/status.h>

#define EXG_DCP_RANK_BYTES 32 /* of such a name, with NUL */

/* -1: it is none of one rank. */
int exg_dcp_rank_of(const char *name);

void exg_dcp_rank_name(int rank, char name[EXG_DCP_RANK_BYTES]);

/* How many there are in a folder ("" is the working directory): one more than the highest. IO. */
exg_status exg_dcp_count_ranks(const char *folder, int *count, exg_error *err);

#endif
