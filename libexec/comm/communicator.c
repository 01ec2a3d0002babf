/* communicator.c - what every communicator does around its exchange. */
#include "libexec/comm/communicator.h"

#include <stddef.h>

uint64_t exg_exchange_turns(exg_communicator *c, uint32_t count)
{
    uint64_t first = c->turns;

    c->turns += count;
    return first;
}

static exg_status usable(const exg_communicator *c, exg_error *err)
{
    return c->status == EXG_OK ? EXG_OK
                               : EXG_FAIL(err, PEER, "COM-003", "an earlier exchange failed");
}

/* The first fault of exchange `turn` sticks. */
static exg_status stick(exg_communicator *c, uint64_t turn, exg_status status, exg_error *err)
{
    if (status != EXG_OK) {
        c->status = status;
        (void)exg_error_within(&c->error, status, "rank %u, exchange %llu", c->rank,
                               (unsigned long long)turn);
        if (err != NULL) {
            *err = c->error;
        }
    }
    return status;
}

exg_status exg_exchange_begin(exg_communicator *c, uint64_t turn, const exg_segment *send,
                              const exg_segment *receive, exg_error *err)
{
    EXG_TRY(usable(c, err));
    for (uint32_t i = 0; i < c->size; i++) {
        c->bytes_sent += i == c->rank ? 0 : send[i].bytes;
    }
    return stick(c, turn, c->ops->begin(c, turn, send, receive, &c->error), err);
}

exg_status exg_exchange_finish(exg_communicator *c, uint64_t turn, exg_exchange_reader *reader,
                               void *context, exg_error *err)
{
    EXG_TRY(usable(c, err));
    EXG_TRY(stick(c, turn, c->ops->finish(c, turn, reader, context, &c->error), err));
    c->exchanges++;
    return EXG_OK;
}

exg_status exg_exchange_settle(exg_communicator *c, uint64_t turn, exg_error *err)
{
    EXG_TRY(usable(c, err));
    if (c->settled + EXG_EXCHANGES_MAX <= turn) { /* begin() has seen to those before */
        c->settled = turn - EXG_EXCHANGES_MAX + 1;
    }
    for (; c->settled <= turn; c->settled++) {
        EXG_TRY(stick(c, turn, c->ops->settle(c, c->settled, &c->error), err));
    }
    return EXG_OK;
}

exg_status exg_exchange(exg_communicator *c, const exg_segment *send, const exg_segment *receive,
                        exg_error *err)
{
    uint64_t turn = exg_exchange_turns(c, 1);

    EXG_TRY(exg_exchange_begin(c, turn, send, receive, err));
    EXG_TRY(exg_exchange_finish(c, turn, NULL, NULL, err));
    return exg_exchange_settle(c, turn, err);
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
