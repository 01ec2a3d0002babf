/* abort.c - the end of a communicator of NCCL's that others may never come to. NCCL's own abort may
 * wait for ever, as for a graph that holds its work or for a thread of its own that does not end: a
 * thread aside calls it, and is left to itself after a limit.
 */
#include "libexec/device/cuda/link.h"
#include "libexport/base/clock.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#define LIMIT_PART 4 /* of a wait for another rank, which came before */

typedef struct aborting {
    nccl_result (*abort)(nccl_comm comm);
    nccl_comm comm;
    _Atomic bool is_over;
    _Atomic int holders; /* the last one frees it */
} aborting;

static void let_go(aborting *a)
{
    if (atomic_fetch_sub(&a->holders, 1) == 1) {
        free(a);
    }
}

static void *run(void *context)
{
    aborting *a = context;

    (void)a->abort(a->comm);
    atomic_store(&a->is_over, true);
    let_go(a);
    return NULL;
}

static bool start(aborting *a)
{
    pthread_attr_t attributes;
    pthread_t thread;
    bool started;

    if (pthread_attr_init(&attributes) != 0) {
        return false;
    }
    started = pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0 &&
              pthread_create(&thread, &attributes, run, a) == 0;
    (void)pthread_attr_destroy(&attributes);
    return started;
}

/* Where there is no thread to be had, the communicator stays as it is. */
void exg_nccl_abort(const exg_cuda_link *link, nccl_comm comm)
{
    aborting *a = calloc(1, sizeof(*a));
    exg_cuda_device *d = link->device;
    uint64_t limit_ns = d->aborts_hang ? 0 : link->c->deadline_ns / LIMIT_PART;
    uint64_t start_ns = exg_now_ns();

    if (a == NULL) {
        return;
    }
    *a = (aborting){link->nccl.abort, comm, false, 2};
    if (!start(a)) {
        free(a);
        return;
    }
    while (!atomic_load(&a->is_over) && exg_now_ns() - start_ns <= limit_ns) {
        sched_yield();
    }
    d->aborts_hang = !atomic_load(&a->is_over);
    let_go(a);
}

/* What an abort ended is over soon. What it did not may go on for as long as the process. */
void exg_cuda_settle_streams(exg_cuda_device *d, uint64_t deadline_ns)
{
    const exg_cuda_driver *c = &d->driver;
    uint64_t start_ns = exg_now_ns();

    while (!d->is_lost && (c->stream_query(d->stream) == CUDA_NOT_READY ||
                           c->stream_query(d->beside) == CUDA_NOT_READY)) {
        d->is_lost = exg_now_ns() - start_ns > deadline_ns / LIMIT_PART;
        sched_yield();
    }
}
