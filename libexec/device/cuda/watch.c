/* watch.c - waiting for a device whose collectives other ranks may never join: its stream is
 * looked at, and so are NCCL, the other ranks and the clock. */
#include "libexec/device/cuda/link.h"
#include "libexport/base/clock.h"

#include <sched.h>

#define LOOKS 64 /* at the stream, for one at the rest */

/* The first collective that has not ended; NULL: none, or none that is known of. `begun`: what
 * it works with is there. */
static const exg_cuda_asked *first_open(const exg_cuda_device *d, bool *begun)
{
    uint64_t count = d->asked_count < EXG_CUDA_ASKED ? d->asked_count : EXG_CUDA_ASKED;

    for (uint64_t i = d->asked_count - count; i < d->asked_count; i++) {
        const exg_cuda_asked *asked = &d->asked[i % EXG_CUDA_ASKED];

        if (asked->what != NULL && d->driver.event_query(asked->done) == CUDA_NOT_READY) {
            *begun = d->driver.event_query(asked->ready) != CUDA_NOT_READY;
            return asked;
        }
    }
    return NULL;
}

/* `open` NULL: it may be in a graph. What was noted before came before. */
static void note_stuck(exg_cuda_device *d, const exg_cuda_asked *open)
{
    if (d->stuck == NULL) {
        d->stuck = open == NULL ? exg_cuda_first_open(d) : open->what;
    }
}

/* The time runs for one collective, from when it could begin; of a graph for all of it. */
typedef struct watching {
    const exg_cuda_asked *open;
    uint64_t since_ns;
} watching;

static exg_status look_at_clock(exg_cuda_device *d, watching *w, exg_error *err)
{
    bool begun = true;
    const exg_cuda_asked *open = first_open(d, &begun);
    uint64_t limit = d->links->c->deadline_ns;

    if (open != w->open || !begun || (open == NULL && d->replayed == NULL)) {
        *w = (watching){open, exg_now_ns()};
        return EXG_OK;
    }
    if (exg_now_ns() - w->since_ns <= limit) {
        return EXG_OK;
    }
    note_stuck(d, open);
    return EXG_FAIL(err, PEER, "COM-012", "a collective between devices did not end within %.1f s",
                    (double)limit * 1e-9);
}

static exg_status look_around(exg_cuda_device *d, watching *w, exg_error *err)
{
    for (exg_cuda_link *l = d->links; l != NULL; l = l->next) {
        bool begun;
        exg_status status = exg_nccl_look(l, err);

        if (status == EXG_OK && l->c->ops->is_aborted(l->c)) {
            status = EXG_FAIL(err, PEER, "COM-003", "another rank failed and ended the run");
        }
        if (status != EXG_OK) {
            note_stuck(d, first_open(d, &begun));
            return status;
        }
    }
    return look_at_clock(d, w, err);
}

static void give_up(exg_cuda_device *d)
{
    for (exg_cuda_link *l = d->links; l != NULL; l = l->next) {
        exg_nccl_give_up(l);
    }
    exg_cuda_settle_streams(d, d->links->c->deadline_ns);
}

static exg_status watch(exg_cuda_device *d, cuda_stream stream, exg_error *err)
{
    watching w = {NULL, exg_now_ns()};

    for (uint64_t looks = 1;; looks++) {
        cuda_result result = d->driver.stream_query(stream);

        if (result != CUDA_NOT_READY) {
            return exg_cuda_check(&d->driver, result, "running on the device", err);
        }
        if (looks % LOOKS == 0) {
            EXG_TRY(look_around(d, &w, err));
            sched_yield();
        }
    }
}

static exg_status watch_stream(exg_cuda_device *d, cuda_stream stream, exg_error *err)
{
    exg_status status;

    if (d->is_lost) {
        return EXG_FAIL(err, PEER, "COM-003", "an earlier collective failed");
    }
    if (d->links == NULL || d->recording != NULL) {
        return exg_cuda_check(&d->driver, d->driver.stream_wait(stream), "running on the device",
                              err);
    }
    status = watch(d, stream, err);
    d->replayed = status == EXG_OK ? NULL : d->replayed;
    if (status == EXG_PEER) {
        give_up(d);
    }
    return status;
}

exg_status exg_cuda_watch(exg_cuda_device *d, exg_error *err)
{
    return watch_stream(d, d->stream, err);
}

exg_status exg_cuda_watch_beside(exg_cuda_device *d, exg_error *err)
{
    return watch_stream(d, d->beside, err);
}

const exg_collective *exg_cuda_stuck_at(exg_accelerator *device)
{
    return ((exg_cuda_device *)device)->stuck;
}
