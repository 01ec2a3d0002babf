/* clique.c - the ranks of one of NCCL's communicators that are threads of this process. Each leaves
 * when it likes, from any thread: NCCL ends a communication of several ranks in a process together,
 * so the last one does it for all.
 */
#include "libexec/device/cuda/link.h"

#include <stdatomic.h>
#include <stdlib.h>

struct exg_nccl_clique {
    uint32_t ranks;
    _Atomic uint32_t left;
    nccl_comm comms[]; /* of those who left; NULL: given up */
};

exg_nccl_clique *exg_nccl_clique_create(uint32_t ranks)
{
    exg_nccl_clique *clique = calloc(1, sizeof(*clique) + ranks * sizeof(clique->comms[0]));

    if (clique != NULL) {
        clique->ranks = ranks;
    }
    return clique;
}

/* By the link of the last rank. Nobody waits for a rank before all of them were asked. */
static void end(const exg_cuda_link *link, const exg_nccl_clique *clique)
{
    const exg_nccl *n = &link->nccl;
    nccl_result results[EXG_RANKS_MAX];

    for (uint32_t r = 0; r < clique->ranks; r++) {
        results[r] = clique->comms[r] == NULL ? NCCL_SUCCESS : n->finalize(clique->comms[r]);
    }
    for (uint32_t r = 0; r < clique->ranks; r++) {
        nccl_comm comm = clique->comms[r];

        if (comm == NULL) {
            continue;
        }
        if (exg_nccl_settle(link, comm, results[r], "ncclCommFinalize", NULL) == EXG_OK) {
            (void)n->destroy(comm);
        } else {
            exg_nccl_abort(link, comm);
        }
    }
}

void exg_nccl_clique_leave(exg_cuda_link *link)
{
    exg_nccl_clique *clique = link->clique;
    uint32_t ranks = clique->ranks;

    clique->comms[ranks == 1 ? 0 : link->c->rank] = link->comm;
    link->comm = NULL;
    link->clique = NULL;
    if (atomic_fetch_add(&clique->left, 1) + 1 == ranks) { /* else another may free it now */
        end(link, clique);
        free(clique);
    }
}
