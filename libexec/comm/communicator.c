/* communicator.c - what every communicator does around its exchange. */
#include "libexec/comm/communicator.h"

#include <stddef.h>

exg_status exg_exchange(exg_communicator *c, const exg_segment *send, const exg_segment *receive,
                        exg_error *err)
{
    exg_status status;

    if (c->status != EXG_OK) {
        return EXG_FAIL(err, PEER, "COM-003", "an earlier exchange failed");
    }
    status = c->ops->exchange(c, send, receive, &c->error);
    if (status != EXG_OK) {
        c->status = status;
        (void)exg_error_within(&c->error, status, "rank %u, exchange %llu", c->rank,
                               (unsigned long long)c->exchanges);
        if (err != NULL) {
            *err = c->error;
        }
        return status;
    }
    c->exchanges++;
    for (uint32_t i = 0; i < c->size; i++) {
        c->bytes_sent += i == c->rank ? 0 : send[i].bytes;
    }
    return EXG_OK;
}

exg_status exg_communicator_split(exg_communicator *c, uint32_t color, exg_communicator **out,
                                  exg_error *err)
{
    *out = NULL;
    EXG_TRY(c->ops->split(c, color, out, err));
    if (*out != NULL) {
        (*out)->deadline_ns = c->deadline_ns;
    }
    return EXG_OK;
}

void exg_communicator_abort(exg_communicator *c, exg_status status)
{
    c->ops->abort(c, status);
}

void exg_communicator_close(exg_communicator *c)
{
    if (c != NULL) {
        c->ops->close(c);
    }
}
