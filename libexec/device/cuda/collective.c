/* collective.c - a collective between devices: what it needs is made ready with the plan; then
 * it is begun and finished, by whatever its link goes through.
 */
#include "libexec/device/cuda/link.h"
#include "libexec/device/cuda/operand.h"

#include <string.h>

/* ---- with the plan ------------------------------------------------------------------------- */

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Does what goes to each rank, or comes from it, lie end to end by itself? */
static bool is_dense(const exg_strip *strips, uint32_t count)
{
    for (uint32_t r = 0; r < count; r++) {
        if (strips[r].rows > 1 && strips[r].run != strips[r].pitch) {
            return false;
        }
    }
    return true;
}

static uint64_t sum_of(const exg_strip *strips, uint32_t count)
{
    uint64_t sum = 0;

    for (uint32_t r = 0; r < count; r++) {
        sum += exg_strip_bytes(&strips[r]);
    }
    return sum;
}

/* NCCL sends and receives what is in one run. */
static uint64_t lay_out(exg_cuda_collective *m)
{
    uint32_t size = m->link->c->size;
    bool sums = m->way == EXG_CUDA_EXCHANGE && exg_collective_reduces(m->what);

    if (m->way == EXG_CUDA_SHARED || m->way == EXG_CUDA_ALL_REDUCE) {
        return 0;
    }
    m->packed_bytes = is_dense(m->sent, size) ? 0 : round_up(sum_of(m->sent, size));
    m->unpacks = sums || !is_dense(m->received, size);
    return m->packed_bytes + (m->unpacks ? sum_of(m->received, size) : 0);
}

static exg_status compile(exg_cuda_collective *m, exg_error *err)
{
    bool sums = exg_collective_reduces(m->what) &&
                (m->way == EXG_CUDA_SHARED || m->way == EXG_CUDA_EXCHANGE);

    if (m->packed_bytes > 0 || m->unpacks || m->way == EXG_CUDA_SHARED) {
        EXG_TRY(exg_cuda_compile_move(m, err));
    }
    return sums ? exg_cuda_compile_combine(m, err) : EXG_OK;
}

static exg_status make(exg_cuda_link *link, const exg_collective *what, exg_arena *arena,
                       exg_cuda_collective **made, exg_error *err)
{
    uint32_t size = link->c->size;
    exg_cuda_collective *m = EXG_NEW(arena, exg_cuda_collective);

    *made = m;
    if (m == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    m->link = link;
    m->what = what;
    m->outgoing = EXG_NEW_ARRAY(arena, exg_cuda_message, size);
    m->incoming = EXG_NEW_ARRAY(arena, exg_cuda_message, size);
    return m->outgoing == NULL || m->incoming == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

exg_status exg_cuda_prepare_collective(exg_accelerator *device, exg_device_link *link,
                                       const exg_collective *what, const exg_strip *sent,
                                       const exg_strip *received, exg_arena *arena, void **made,
                                       uint64_t *workspace_bytes, exg_error *err)
{
    exg_cuda_link *l = (exg_cuda_link *)link;
    exg_cuda_collective *m;

    (void)device;
    _Static_assert(CUDA_PARTS_MAX >= EXG_RANKS_MAX, "of a communicator's ranks");
    EXG_TRY(make(l, what, arena, &m, err));
    m->sent = sent;
    m->received = received;
    m->way = l->is_shared ? EXG_CUDA_SHARED : exg_nccl_way(m);
    *workspace_bytes = lay_out(m);
    *made = m;
    return compile(m, err);
}

/* ---- in a run ------------------------------------------------------------------------------ */

static void conclude(exg_cuda_device *d, const exg_cuda_collective *m, exg_status status)
{
    if (status != EXG_OK) {
        d->status = status;
    }
    if (status == EXG_PEER && d->stuck == NULL) {
        d->stuck = m->what;
    }
}

/* A place among those asked for. */
static exg_cuda_asked *next_asked(exg_cuda_device *d, const exg_collective *what)
{
    exg_cuda_asked *asked = &d->asked[d->asked_count++ % EXG_CUDA_ASKED];

    asked->what = d->recording != NULL ? NULL : what;
    return asked;
}

void exg_cuda_begin_collective(exg_accelerator *device, void *made, void *workspace)
{
    exg_cuda_device *d = (exg_cuda_device *)device;
    exg_cuda_collective *m = made;

    m->workspace = workspace;
    m->asked = next_asked(d, m->what);
    conclude(d, m,
             m->way == EXG_CUDA_SHARED ? exg_cuda_shared_begin(m, &d->err)
                                       : exg_nccl_begin(m, &d->err));
}

void exg_cuda_finish_collective(exg_accelerator *device, void *made)
{
    exg_cuda_device *d = (exg_cuda_device *)device;
    exg_cuda_collective *m = made;

    if (d->status == EXG_OK) { /* begin() may be of the same run() */
        conclude(d, m,
                 m->way == EXG_CUDA_SHARED ? exg_cuda_shared_finish(m, &d->err)
                                           : exg_nccl_finish(m, &d->err));
    }
}
