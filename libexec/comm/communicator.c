/* communicator.c - what every communicator does around its exchange. */
#include "libexec/comm/communicator.h"

#include <string.h>

/* ---- segments --------------------------------------------------------------------------- */

static uint64_t run_of(const exg_segment *s)
{
    return s->run == 0 ? s->bytes : s->run;
}

uint8_t *exg_segment_at(const exg_segment *s, uint64_t byte)
{
    uint64_t run = run_of(s);
    uint64_t first = byte < run ? 0 : byte / run * s->pitch;

    return (uint8_t *)s->data + first + byte % run;
}

void exg_segment_copy(const exg_segment *to, const exg_segment *from)
{
    uint64_t run_to = run_of(to);
    uint64_t run_from = run_of(from);
    uint64_t left_to = run_to;
    uint64_t left_from = run_from;
    uint64_t at_to = 0;
    uint64_t at_from = 0;

    if (to->data == from->data) {
        return;
    }
    for (uint64_t left = from->bytes; left > 0;) {
        uint64_t bytes = left_to < left_from ? left_to : left_from;

        memcpy((uint8_t *)to->data + at_to, (const uint8_t *)from->data + at_from, bytes);
        left -= bytes;
        left_to -= bytes;
        left_from -= bytes;
        at_to += bytes + (left_to == 0 ? to->pitch - run_to : 0);
        at_from += bytes + (left_from == 0 ? from->pitch - run_from : 0);
        left_to = left_to == 0 ? run_to : left_to;
        left_from = left_from == 0 ? run_from : left_from;
    }
}

/* ---- exchanges -------------------------------------------------------------------------- */

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

static exg_status begin(exg_communicator *c, uint64_t turn, const exg_segment *send,
                        const exg_segment *receive, exg_error *err)
{
    EXG_TRY(usable(c, err));
    for (uint32_t i = 0; i < c->size; i++) {
        c->bytes_sent += i == c->rank ? 0 : send[i].bytes;
    }
    return stick(c, turn, c->ops->begin(c, turn, send, receive, &c->error), err);
}

/* Finishes what was posted before `turn`. */
static exg_status arrive_before(exg_communicator *c, uint64_t turn, exg_error *err)
{
    for (exg_posted *p = c->posted; p != NULL && p->turn < turn; p = p->next) {
        if (!p->arrived) {
            EXG_TRY(exg_exchange_finish(c, p->turn, NULL, NULL, err));
            p->arrived = true;
            p->arrive(p);
        }
    }
    return EXG_OK;
}

/* Lets go of what is settled. */
static void let_go(exg_communicator *c, uint64_t settled)
{
    while (c->posted != NULL && c->posted->turn < settled) {
        exg_posted *p = c->posted;

        c->posted = p->next;
        p->settle(p);
    }
}

/* All ranks come here in one order, and none waits for what another posted and has not taken
 * in yet. */
exg_status exg_exchange_begin(exg_communicator *c, uint64_t turn, const exg_segment *send,
                              const exg_segment *receive, exg_error *err)
{
    EXG_TRY(arrive_before(c, turn, err));
    return begin(c, turn, send, receive, err);
}

exg_status exg_exchange_post(exg_communicator *c, exg_posted *posted, const exg_segment *send,
                             const exg_segment *receive, exg_error *err)
{
    exg_posted **last = &c->posted;

    posted->turn = exg_exchange_turns(c, 1);
    posted->next = NULL;
    posted->arrived = false;
    if (posted->turn >= EXG_EXCHANGES_MAX / 2) { /* of those that others have begun */
        EXG_TRY(arrive_before(c, posted->turn - EXG_EXCHANGES_MAX / 2, err));
    }
    EXG_TRY(begin(c, posted->turn, send, receive, err));
    if (posted->turn >= EXG_EXCHANGES_MAX) { /* begin() has waited for them */
        let_go(c, posted->turn - EXG_EXCHANGES_MAX + 1);
    }
    while (*last != NULL) {
        last = &(*last)->next;
    }
    *last = posted;
    return EXG_OK;
}

exg_status exg_exchange_arrive(exg_communicator *c, const exg_posted *posted, exg_error *err)
{
    return arrive_before(c, posted->turn + 1, err);
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
    let_go(c, c->settled);
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

exg_status exg_exchange_each(exg_communicator *c, const void *to_each, void *from_each,
                             uint64_t bytes, exg_error *err)
{
    exg_segment send[EXG_RANKS_MAX];
    exg_segment receive[EXG_RANKS_MAX];

    if (c->size > EXG_RANKS_MAX) {
        return EXG_FAIL(err, LIMIT, "COM-004", "%u ranks; at most %d", c->size, EXG_RANKS_MAX);
    }
    for (uint32_t r = 0; r < c->size; r++) {
        send[r] = (exg_segment){.data = (uint8_t *)(uintptr_t)to_each + r * bytes, .bytes = bytes};
        receive[r] = (exg_segment){.data = (uint8_t *)from_each + r * bytes, .bytes = bytes};
    }
    return exg_exchange(c, send, receive, err);
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
        exg_posted *posted = c->posted;

        if (c->turns > 0 && posted != NULL && arrive_before(c, UINT64_MAX, NULL) == EXG_OK) {
            (void)exg_exchange_settle(c, c->turns - 1, NULL);
        }
        let_go(c, UINT64_MAX);
        c->ops->close(c);
    }
}
