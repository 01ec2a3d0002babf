/* nccl.c - collectives by NCCL, a device a rank.
 *
 * What NCCL has as one call, of equal pieces, is that call; the rest is sends and receives in
 * one group, of as many bytes as there are, and sums of our own. NCCL adds up in an order of
 * its own: results of its reductions are not the bits of the host's. Its largest and smallest
 * of floats lose NaN, so these are ours.
 *
 * Communicators do not block, so that whoever waits sees deadlines and other ranks' faults.
 */
#include "libexec/device/cuda/link.h"
#include "libexport/base/clock.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#define NCCL_ROW(name, symbol, params) {symbol, offsetof(exg_nccl, name)},

static const exg_cuda_symbol rows[] = {
    EXG_NCCL_CALLS(NCCL_ROW){"ncclGetErrorString", offsetof(exg_nccl, error_text)},
    {"ncclGetLastError", offsetof(exg_nccl, last_error)}};

static exg_status absent(const char *what, exg_error *err)
{
    exg_status status = EXG_FAIL(err, UNSUPPORTED, "DEV-011", "%.150s", what);

    return exg_error_fix(err, status, "install libnccl.so.2 of NCCL 2.14 or newer");
}

exg_status exg_nccl_open(exg_nccl *nccl, exg_error *err)
{
    void *library = exg_cuda_library_load("libnccl.so.2");
    const char *missing;
    char text[128];

    if (library == NULL) {
        return absent(dlerror(), err);
    }
    missing = exg_cuda_find_symbols(library, rows, sizeof(rows) / sizeof(rows[0]), nccl);
    if (missing != NULL) {
        (void)snprintf(text, sizeof(text), "NCCL is too old: it lacks %s", missing);
        return absent(text, err);
    }
    if (nccl->get_version(&nccl->version) != NCCL_SUCCESS || nccl->version < NCCL_OLDEST) {
        (void)snprintf(text, sizeof(text), "NCCL is too old: version %d", nccl->version);
        return absent(text, err);
    }
    return EXG_OK;
}

void exg_nccl_name(const exg_nccl *nccl, char *text, size_t size)
{
    (void)snprintf(text, size, "NCCL %d.%d.%d", nccl->version / 10000, nccl->version / 100 % 100,
                   nccl->version % 100);
}

/* ---- waiting for NCCL ----------------------------------------------------------------------- */

/* A rank whose start failed at once has no communicator; the others wait for it all the same. */
void exg_nccl_give_up(exg_cuda_link *link)
{
    if (link->clique == NULL) {
        return;
    }
    exg_communicator_abort(link->c, EXG_PEER); /* first: NCCL's may take its time */
    exg_cuda_drop_graphs(link->device);
    if (link->comm != NULL) {
        exg_nccl_abort(link, link->comm);
        link->comm = NULL;
    }
}

static exg_status failed(const exg_cuda_link *link, nccl_result result, const char *what,
                         exg_error *err)
{
    const char *last = link->nccl.last_error(NULL); /* which asks for no communicator */
    bool is_told = last != NULL && last[0] != '\0';

    return EXG_FAIL(err, PEER, "COM-011", "%s failed: %s (%d)%s%.120s", what,
                    link->nccl.error_text(result), result, is_told ? ": " : "",
                    is_told ? last : "");
}

exg_status exg_nccl_look(exg_cuda_link *link, exg_error *err)
{
    nccl_result result = NCCL_SUCCESS;
    nccl_result asked;

    if (link->comm == NULL) {
        return link->is_shared ? EXG_OK
                               : EXG_FAIL(err, PEER, "COM-003", "an earlier collective failed");
    }
    asked = link->nccl.async_error(link->comm, &result);
    result = asked == NCCL_SUCCESS ? result : asked;
    return result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS
               ? EXG_OK
               : failed(link, result, "NCCL's communication", err);
}

exg_status exg_nccl_settle(const exg_cuda_link *link, nccl_comm comm, nccl_result result,
                           const char *what, exg_error *err)
{
    uint64_t start = exg_now_ns();
    exg_status status = EXG_OK;

    while (result == NCCL_IN_PROGRESS && status == EXG_OK) {
        nccl_result asked = link->nccl.async_error(comm, &result);

        result = asked == NCCL_SUCCESS ? result : asked;
        if (result == NCCL_IN_PROGRESS && link->c->ops->is_aborted(link->c)) {
            status = EXG_FAIL(err, PEER, "COM-003", "another rank failed and ended the run");
        } else if (result == NCCL_IN_PROGRESS && exg_now_ns() - start > link->c->deadline_ns) {
            status = EXG_FAIL(err, PEER, "COM-001", "%s: not all ranks arrived within %.1f s", what,
                              (double)link->c->deadline_ns * 1e-9);
        }
        sched_yield();
    }
    return status == EXG_OK && result != NCCL_SUCCESS ? failed(link, result, what, err) : status;
}

static exg_status settle(exg_cuda_link *link, nccl_result result, const char *what, exg_error *err)
{
    exg_status status = exg_nccl_settle(link, link->comm, result, what, err);

    if (status != EXG_OK) {
        exg_nccl_give_up(link);
    }
    return status;
}

exg_status exg_nccl_join(exg_cuda_link *link, const nccl_id *id, exg_error *err)
{
    nccl_config config = {sizeof(config), NCCL_CONFIG_MAGIC, NCCL_OLDEST, 0};

    return settle(
        link, link->nccl.init(&link->comm, (int)link->c->size, *id, (int)link->c->rank, &config),
        "ncclCommInitRankConfig", err);
}

void exg_nccl_leave(exg_cuda_link *link)
{
    if (link->clique == NULL) {
        return;
    }
    if (link->c->ops->is_aborted(link->c)) {
        exg_nccl_give_up(link);
    }
    exg_nccl_clique_leave(link);
}

/* ---- which call ------------------------------------------------------------------------------ */

static int dtype_of(exg_dtype dtype)
{
    switch (dtype) {
    case EXG_DTYPE_I8:
        return 0;
    case EXG_DTYPE_U8:
    case EXG_DTYPE_B8: /* 0 and 1 */
        return NCCL_BYTES;
    case EXG_DTYPE_I32:
        return 2;
    case EXG_DTYPE_I64:
        return 4;
    case EXG_DTYPE_F16:
        return 6;
    case EXG_DTYPE_F32:
        return 7;
    case EXG_DTYPE_F64:
        return 8;
    case EXG_DTYPE_BF16:
        return 9;
    default:
        return NCCL_NO_DTYPE;
    }
}

/* -1: none of NCCL's. Of bools sums are "or", products "and". */
static int op_of(exg_dtype dtype, exg_reduce_op op)
{
    enum { SUM, PRODUCT, MAX, MIN, AVG };
    bool is_bool = dtype == EXG_DTYPE_B8;

    switch (op) {
    case EXG_REDUCE_SUM:
        return is_bool ? MAX : SUM;
    case EXG_REDUCE_PRODUCT:
        return is_bool ? MIN : PRODUCT;
    case EXG_REDUCE_AVG:
        return AVG;
    case EXG_REDUCE_MAX:
        return exg_dtype_is_float(dtype) ? -1 : MAX;
    case EXG_REDUCE_MIN:
        return exg_dtype_is_float(dtype) ? -1 : MIN;
    default:
        return -1;
    }
}

static bool is_even(const exg_strip *strips, uint32_t count)
{
    for (uint32_t r = 1; r < count; r++) {
        if (exg_strip_bytes(&strips[r]) != exg_strip_bytes(&strips[0])) {
            return false;
        }
    }
    return true;
}

exg_cuda_way exg_nccl_way(const exg_cuda_collective *m)
{
    const exg_collective *what = m->what;
    uint32_t size = m->link->c->size;
    exg_dtype dtype = what->in->dtype;
    bool sums = dtype_of(dtype) != NCCL_NO_DTYPE && op_of(dtype, what->op) >= 0;

    if (what->kind == EXG_ALL_REDUCE && sums) {
        return EXG_CUDA_ALL_REDUCE;
    }
    if (what->kind == EXG_REDUCE_SCATTER && sums && is_even(m->sent, size)) {
        return EXG_CUDA_REDUCE_SCATTER;
    }
    if (what->kind == EXG_ALL_GATHER && is_even(m->received, size)) {
        return EXG_CUDA_ALL_GATHER;
    }
    return EXG_CUDA_EXCHANGE;
}

/* ---- a collective -------------------------------------------------------------------- */

static uint64_t address_of(const void *data)
{
    return (uint64_t)(uintptr_t)data;
}

/* The strip as it is end to end with others, from `at` on. */
static exg_strip dense(const exg_strip *strip, uint64_t at)
{
    return (exg_strip){at, 1, exg_strip_bytes(strip), exg_strip_bytes(strip)};
}

/* Where what goes to each rank lies: in the operand, or packed. */
static void find_sends(const exg_cuda_collective *m, uint64_t *at)
{
    uint64_t packed = address_of(m->workspace);

    for (uint32_t r = 0; r < m->link->c->size; r++) {
        at[r] = m->packed_bytes == 0 ? address_of(m->what->in->data) + m->sent[r].first : packed;
        packed += exg_strip_bytes(&m->sent[r]);
    }
}

/* Where what comes from each does: in the result, or behind what is packed. */
static void find_receives(const exg_cuda_collective *m, uint64_t *at)
{
    uint64_t next = address_of(m->workspace) + m->packed_bytes;

    for (uint32_t r = 0; r < m->link->c->size; r++) {
        at[r] = m->unpacks ? next : address_of(m->what->out->data) + m->received[r].first;
        next += exg_strip_bytes(&m->received[r]);
    }
}

static exg_status pack(const exg_cuda_collective *m, const uint64_t *sends, exg_error *err)
{
    exg_cuda_moves moves = {.of = m, .stream = m->link->device->stream};

    for (uint32_t r = 0; m->packed_bytes > 0 && r < m->link->c->size; r++) {
        exg_strip to = dense(&m->sent[r], 0);

        EXG_TRY(exg_cuda_add_move(&moves, address_of(m->what->in->data), &m->sent[r], sends[r], &to,
                                  err));
    }
    return exg_cuda_move(&moves, err);
}

static nccl_result exchange(const exg_cuda_collective *m, const uint64_t *sends,
                            const uint64_t *receives)
{
    const exg_nccl *n = &m->link->nccl;
    cuda_stream beside = m->link->device->beside;
    nccl_result result = n->group_start();
    nccl_result ended;

    for (int r = 0; r < (int)m->link->c->size && result == NCCL_SUCCESS; r++) {
        uint64_t out = exg_strip_bytes(&m->sent[r]);
        uint64_t in = exg_strip_bytes(&m->received[r]);

        if (out > 0) {
            result = n->send(sends[r], out, NCCL_BYTES, r, m->link->comm, beside);
        }
        if (in > 0 && result == NCCL_SUCCESS) {
            result = n->receive(receives[r], in, NCCL_BYTES, r, m->link->comm, beside);
        }
    }
    ended = n->group_end();
    return result == NCCL_SUCCESS ? ended : result;
}

static nccl_result ask(const exg_cuda_collective *m, const uint64_t *sends,
                       const uint64_t *receives)
{
    const exg_nccl *n = &m->link->nccl;
    const exg_tensor *in = m->what->in;
    cuda_stream beside = m->link->device->beside;
    nccl_comm comm = m->link->comm;
    uint64_t element = exg_dtype_bytes(in->dtype);
    int dtype = dtype_of(in->dtype);
    int op = op_of(in->dtype, m->what->op);

    switch (m->way) {
    case EXG_CUDA_ALL_REDUCE:
        return n->all_reduce(sends[0], receives[0], (size_t)exg_tensor_numel(in), dtype, op, comm,
                             beside);
    case EXG_CUDA_REDUCE_SCATTER:
        return n->reduce_scatter(sends[0], receives[0], exg_strip_bytes(&m->sent[0]) / element,
                                 dtype, op, comm, beside);
    case EXG_CUDA_ALL_GATHER:
        return n->all_gather(sends[0], receives[0], exg_strip_bytes(&m->sent[0]), NCCL_BYTES, comm,
                             beside);
    default:
        return exchange(m, sends, receives);
    }
}

exg_status exg_nccl_begin(exg_cuda_collective *m, exg_error *err)
{
    exg_cuda_device *d = m->link->device;
    uint64_t sends[CUDA_PARTS_MAX];
    uint64_t receives[CUDA_PARTS_MAX];

    EXG_TRY(exg_nccl_look(m->link, err));
    find_sends(m, sends);
    find_receives(m, receives);
    EXG_TRY(pack(m, sends, err));
    EXG_TRY(exg_cuda_follow(d, d->stream, m->asked->ready, d->beside, err));
    EXG_TRY(settle(m->link, ask(m, sends, receives), "a collective of NCCL", err));
    EXG_TRY(exg_cuda_check(&d->driver, d->driver.event_record(m->asked->done, d->beside),
                           "recording an event", err));
    return d->recording == NULL ? EXG_OK : exg_cuda_mark(d, m->what, err);
}

static exg_status unpack(const exg_cuda_collective *m, exg_error *err)
{
    exg_cuda_moves moves = {.of = m, .stream = m->link->device->stream};
    uint64_t receives[CUDA_PARTS_MAX];
    exg_strip part = dense(&m->received[0], 0);

    find_receives(m, receives);
    if (m->combine != NULL) {
        return exg_cuda_combine(m, receives, &part, moves.stream, err);
    }
    for (uint32_t r = 0; r < m->link->c->size; r++) {
        exg_strip from = dense(&m->received[r], 0);

        EXG_TRY(exg_cuda_add_move(&moves, receives[r], &from, address_of(m->what->out->data),
                                  &m->received[r], err));
    }
    return exg_cuda_move(&moves, err);
}

exg_status exg_nccl_finish(exg_cuda_collective *m, exg_error *err)
{
    exg_cuda_device *d = m->link->device;

    EXG_TRY(exg_cuda_check(&d->driver, d->driver.stream_wait_event(d->stream, m->asked->done, 0),
                           "waiting for an event", err));
    return m->unpacks ? unpack(m, err) : EXG_OK;
}
