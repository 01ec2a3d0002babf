/* shared.c - ranks that are threads of one process and share a device: each reads what the
 * others send where it is. Hosts tell each other addresses and events; bytes stay there.
 *
 *   begin     my operand is ready: tell all where it is
 *   finish    beside: wait until theirs are ready; read them; done
 *             tell all; computes: wait until all are done, who have read mine
 *
 * A host waits for the others' hosts to come as far, never for a device. What waits for another
 * rank's event cannot be recorded: a graph knows no work of another one.
 */
#include "libexec/device/cuda/link.h"

exg_status exg_cuda_shared_begin(exg_cuda_collective *m, exg_error *err)
{
    exg_communicator *c = m->link->c;
    const exg_cuda_driver *driver = &m->link->device->driver;
    exg_segment send[EXG_RANKS_MAX];
    exg_segment receive[EXG_RANKS_MAX];

    EXG_TRY(exg_cuda_check(driver, driver->event_record(m->asked->ready, m->link->device->stream),
                           "recording an event", err));
    m->turn = exg_exchange_turns(c, 2);
    for (uint32_t r = 0; r < c->size; r++) {
        m->outgoing[r] = (exg_cuda_message){(uint64_t)(uintptr_t)m->what->in->data, m->sent[r],
                                            m->asked->ready, m->asked->done};
        send[r] = (exg_segment){.data = &m->outgoing[r], .bytes = sizeof(m->outgoing[r])};
        receive[r] = (exg_segment){.data = &m->incoming[r], .bytes = sizeof(m->incoming[r])};
    }
    return exg_exchange_begin(c, m->turn, send, receive, err);
}

/* `stream` waits for all ranks' events. */
static exg_status wait_for_all(const exg_cuda_collective *m, cuda_stream stream, bool done,
                               exg_error *err)
{
    const exg_cuda_driver *driver = &m->link->device->driver;

    for (uint32_t r = 0; r < m->link->c->size; r++) {
        cuda_event event = done ? m->incoming[r].done : m->incoming[r].ready;

        EXG_TRY(exg_cuda_check(driver, driver->stream_wait_event(stream, event, 0),
                               "waiting for an event", err));
    }
    return EXG_OK;
}

static exg_status read_all(const exg_cuda_collective *m, exg_error *err)
{
    exg_cuda_moves moves = {.of = m, .stream = m->link->device->beside};
    uint64_t parts[CUDA_PARTS_MAX];

    for (uint32_t r = 0; r < m->link->c->size; r++) {
        parts[r] = m->incoming[r].in;
        if (m->combine == NULL) {
            EXG_TRY(exg_cuda_add_move(&moves, parts[r], &m->incoming[r].sent,
                                      (uint64_t)(uintptr_t)m->what->out->data, &m->received[r],
                                      err));
        }
    }
    return m->combine == NULL ? exg_cuda_move(&moves, err)
                              : exg_cuda_combine(m, parts, &m->incoming[0].sent, moves.stream, err);
}

/* All have come here. */
static exg_status meet(const exg_cuda_collective *m, exg_error *err)
{
    exg_communicator *c = m->link->c;
    exg_segment none[EXG_RANKS_MAX] = {{.data = NULL}};

    EXG_TRY(exg_exchange_begin(c, m->turn + 1, none, none, err));
    EXG_TRY(exg_exchange_finish(c, m->turn + 1, NULL, NULL, err));
    return exg_exchange_settle(c, m->turn + 1, err);
}

exg_status exg_cuda_shared_finish(exg_cuda_collective *m, exg_error *err)
{
    exg_cuda_device *d = m->link->device;

    EXG_TRY(exg_exchange_finish(m->link->c, m->turn, NULL, NULL, err));
    EXG_TRY(wait_for_all(m, d->beside, false, err));
    EXG_TRY(read_all(m, err));
    EXG_TRY(exg_cuda_check(&d->driver, d->driver.event_record(m->asked->done, d->beside),
                           "recording an event", err));
    EXG_TRY(meet(m, err));
    return wait_for_all(m, d->stream, true, err);
}
