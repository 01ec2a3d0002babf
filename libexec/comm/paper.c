/* paper.c - a communicator of ranks that are not there: it knows its size and its place, and
 * every exchange is a fault. What is planned for a mesh larger than the machine has it. */
#include "libexec/comm/communicator.h"

#include <stdlib.h>

static exg_status nobody(exg_error *err)
{
    return EXG_FAIL(err, USAGE, "COM-005", "an exchange between ranks that are only planned");
}

static exg_status paper_begin(exg_communicator *self, uint64_t turn, const exg_segment *send,
                              const exg_segment *receive, exg_error *err)
{
    (void)self;
    (void)turn;
    (void)send;
    (void)receive;
    return nobody(err);
}

static exg_status paper_finish(exg_communicator *self, uint64_t turn, exg_exchange_reader *reader,
                               void *context, exg_error *err)
{
    (void)self;
    (void)turn;
    (void)reader;
    (void)context;
    return nobody(err);
}

static exg_status paper_settle(exg_communicator *self, uint64_t turn, exg_error *err)
{
    (void)self;
    (void)turn;
    return nobody(err);
}

static exg_status paper_split(exg_communicator *self, uint32_t color, exg_communicator **out,
                              exg_error *err)
{
    (void)self;
    (void)color;
    (void)out;
    return nobody(err);
}

static void paper_abort(exg_communicator *self, exg_status status)
{
    (void)self;
    (void)status;
}

static bool paper_is_aborted(exg_communicator *self)
{
    (void)self;
    return false;
}

static void paper_close(exg_communicator *self)
{
    free(self);
}

#define PAPER_OPS(does_lend)                                                                       \
    {                                                                                              \
        .name = "paper", .lends = (does_lend), .begin = paper_begin, .finish = paper_finish,       \
        .settle = paper_settle, .split = paper_split, .abort = paper_abort,                        \
        .is_aborted = paper_is_aborted, .close = paper_close                                       \
    }

exg_status exg_paper_create(uint32_t size, uint32_t rank, bool lends, exg_communicator **out,
                            exg_error *err)
{
    static const exg_communicator_ops ops[2] = {PAPER_OPS(false), PAPER_OPS(true)};
    exg_communicator *c = calloc(1, sizeof(*c));

    *out = c;
    if (c == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    *c = (exg_communicator){.ops = &ops[lends],
                            .rank = rank,
                            .size = size,
                            .deadline_ns = EXG_DEADLINE_NS,
                            .status = EXG_OK};
    return EXG_OK;
}
