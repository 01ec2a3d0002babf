/* phases.c - collectives begun, finished and settled apart, several under way, give the bits of
 * those carried out at once, on threads and, started by mpirun, between processes; what goes
 * wrong between the phases ends on all ranks.
 */
#include "libexec/comm/collectives.h"
#include "libexec/comm/team.h"

#include <exg/device_mesh.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define RANKS_MAX 5
#define ITEMS     60
#define AHEAD     6 /* under way at once */

/* One collective of a list that every rank goes through. */
typedef struct item {
    exg_collective what;
    exg_tensor in, out;
    int64_t sent[EXG_RANKS_MAX], received[EXG_RANKS_MAX]; /* of EXG_ALL_TO_ALL_SINGLE */
    void *workspace, *once; /* `once`: what it gives when it is carried out at once */
    uint64_t turn;
} item;

static uint64_t bytes_of(const exg_tensor *t)
{
    return (uint64_t)exg_tensor_numel(t) * exg_dtype_bytes(t->dtype);
}

static void *memory(uint64_t bytes)
{
    void *at = malloc(bytes + 1);

    if (at == NULL) {
        abort();
    }
    memset(at, 0xA5, bytes + 1);
    return at;
}

static uint32_t drawn(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 16;
}

static void cut(exg_tensor *t, uint32_t dim, uint32_t n, uint32_t r)
{
    int64_t offset;

    exg_chunk(t->sizes[dim], n, r, &offset, &t->sizes[dim]);
}

/* As many rows as the two of them say, of some none. */
static void split(item *at, const exg_communicator *c, uint32_t seed)
{
    at->in.sizes[0] = at->out.sizes[0] = 0;
    for (uint32_t r = 0; r < c->size; r++) {
        at->sent[r] = (c->rank * 3 + r * 5 + seed) % 4;
        at->received[r] = (r * 3 + c->rank * 5 + seed) % 4;
        at->in.sizes[0] += at->sent[r];
        at->out.sizes[0] += at->received[r];
    }
    at->what.sent = at->sent;
    at->what.received = at->received;
    at->what.rank_count = c->size;
    at->what.dim = 0;
}

/* Item `i` of the list, the same for every rank but for its part and what it adds. */
static void make(item *at, const exg_communicator *c, uint32_t i)
{
    static const exg_dtype dtypes[] = {EXG_DTYPE_F32, EXG_DTYPE_BF16, EXG_DTYPE_I64};
    uint32_t state = i * 7919u + 1;
    exg_tensor whole = {.dtype = dtypes[drawn(&state) % 3], .rank = 3};
    uint32_t own = c->rank * 104729u + i;

    for (uint32_t d = 0; d < 3; d++) {
        whole.sizes[d] = drawn(&state) % (i % 7 == 0 ? 60 : 8);
    }
    at->what = (exg_collective){.kind = (exg_collective_kind)(drawn(&state) % 7),
                                .in = &at->in,
                                .out = &at->out,
                                .dim = drawn(&state) % 3,
                                .op = drawn(&state) % 2 ? EXG_REDUCE_SUM : EXG_REDUCE_MAX,
                                .root = drawn(&state) % c->size};
    at->what.other_dim = (at->what.dim + 1 + drawn(&state) % 2) % 3;
    at->in = at->out = whole;
    if (at->what.kind == EXG_HALO) {
        int64_t size = whole.sizes[at->what.dim];
        int64_t first;

        at->what.halo = (exg_halo){size,
                                   drawn(&state) % 9,
                                   1 + drawn(&state) % 3,
                                   drawn(&state) % 4,
                                   1 + drawn(&state) % 5,
                                   0};
        exg_halo_of(&at->what.halo, c->size, c->rank, &first, &at->out.sizes[at->what.dim]);
    }
    if (at->what.kind == EXG_ALL_GATHER || at->what.kind == EXG_ALL_TO_ALL ||
        at->what.kind == EXG_HALO) {
        cut(&at->in, at->what.dim, c->size, c->rank);
    }
    if (at->what.kind == EXG_REDUCE_SCATTER || at->what.kind == EXG_ALL_TO_ALL) {
        cut(&at->out, at->what.kind == EXG_ALL_TO_ALL ? at->what.other_dim : at->what.dim, c->size,
            c->rank);
    }
    if (at->what.kind == EXG_ALL_TO_ALL_SINGLE) {
        split(at, c, drawn(&state));
    }
    exg_tensor_set_contiguous(&at->in);
    exg_tensor_set_contiguous(&at->out);
    at->in.data = memory(bytes_of(&at->in));
    at->out.data = memory(bytes_of(&at->out));
    at->once = memory(bytes_of(&at->out));
    at->workspace = memory(exg_collective_workspace(c, &at->what));
    for (uint64_t b = 0; b < bytes_of(&at->in); b++) { /* no NaN among them */
        ((uint8_t *)at->in.data)[b] = (uint8_t)(drawn(&own) & (b % 2 ? 0x3f : 0xff));
    }
}

static void release(item *at)
{
    free(at->in.data);
    free(at->out.data);
    free(at->once);
    free(at->workspace);
}

/* What has been settled may be overwritten: nobody reads it any more. */
static const char *settle(exg_communicator *c, item *at)
{
    if (exg_collective_settle(c, &at->what, at->turn, NULL) != EXG_OK) {
        return "not settled";
    }
    memset(at->in.data, 0x5A, bytes_of(&at->in));
    memset(at->workspace, 0x5A, exg_collective_workspace(c, &at->what));
    return NULL;
}

static const char *finish(exg_communicator *c, item *at)
{
    if (exg_collective_finish(c, &at->what, at->turn, NULL) != EXG_OK) {
        return "not finished";
    }
    return memcmp(at->out.data, at->once, bytes_of(&at->out)) == 0 ? NULL : "other bits";
}

static const char *run_apart(exg_communicator *c, item *items, uint32_t seed)
{
    uint32_t state = seed + c->rank; /* ranks take their time differently */
    uint32_t begun = 0, finished = 0, settled = 0;
    const char *fault = NULL;

    while (fault == NULL && settled < ITEMS) {
        uint32_t dice = drawn(&state) % 4;

        if (dice > 1 && begun < ITEMS && begun - finished < AHEAD) {
            item *at = &items[begun++];

            fault = exg_collective_begin(c, &at->what, at->workspace, &at->turn, NULL) == EXG_OK
                        ? NULL
                        : "not begun";
        } else if (dice == 1 && finished < begun) {
            fault = finish(c, &items[finished++]);
        } else if (dice == 0 && settled < finished) {
            fault = settle(c, &items[settled++]);
        }
        if (drawn(&state) % 50 == 0) {
            nanosleep(&(struct timespec){0, 200000}, NULL);
        }
    }
    return fault;
}

static const char *check_rank(exg_communicator *c)
{
    item *items = calloc(ITEMS, sizeof(*items));
    const char *fault = items == NULL ? "no memory" : NULL;

    for (uint32_t i = 0; fault == NULL && i < ITEMS; i++) {
        make(&items[i], c, i);
        fault = exg_collective_run(c, &items[i].what, items[i].workspace, NULL) == EXG_OK
                    ? NULL
                    : "not run";
        memcpy(items[i].once, items[i].out.data, bytes_of(&items[i].out));
        memset(items[i].out.data, 0xA5, bytes_of(&items[i].out));
    }
    fault = fault == NULL ? run_apart(c, items, 17) : fault;
    for (uint32_t i = 0; items != NULL && i < ITEMS; i++) {
        release(&items[i]);
    }
    free(items);
    return fault;
}

/* ---- on threads ------------------------------------------------------------------------- */

static exg_communicator *comms[RANKS_MAX];
static const char *faults[RANKS_MAX];
static exg_status statuses[RANKS_MAX];
static exg_error errors[RANKS_MAX];

static void on_threads(uint32_t n, void (*work)(void *, uint32_t), uint64_t deadline_ns)
{
    exg_team *team;

    assert_int_equal(exg_local_create(n, comms, NULL), EXG_OK);
    assert_int_equal(exg_team_create(n, &team, NULL), EXG_OK);
    for (uint32_t r = 0; r < n; r++) {
        comms[r]->deadline_ns = deadline_ns;
    }
    exg_team_run(team, work, NULL);
    exg_team_destroy(team);
    for (uint32_t r = 0; r < n; r++) {
        exg_communicator_close(comms[r]);
    }
}

static void work(void *context, uint32_t r)
{
    (void)context;
    faults[r] = check_rank(comms[r]);
}

static void phases_apart_give_the_bits_of_one_call(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= RANKS_MAX; n++) {
        on_threads(n, work, EXG_DEADLINE_NS);
        for (uint32_t r = 0; r < n; r++) {
            if (faults[r] != NULL) {
                fail_msg("rank %u of %u: %s", r, n, faults[r]);
            }
        }
    }
}

/* Rank 0 has all that it needs when the others have begun, though they do nothing more. */
static void a_rank_waits_for_the_beginning_of_the_others_alone(void *context, uint32_t r)
{
    static const int64_t count = 5000;
    exg_tensor in = {.dtype = EXG_DTYPE_I64, .rank = 1, .sizes = {count}, .strides = {1}};
    exg_tensor out = {.dtype = EXG_DTYPE_I64, .rank = 1, .sizes = {3 * count}, .strides = {1}};
    exg_collective what = {EXG_ALL_GATHER, &in, &out, 0, 0, EXG_REDUCE_SUM};
    static _Atomic uint32_t gate;
    uint64_t turn;

    (void)context;
    in.data = memory(bytes_of(&in));
    out.data = memory(bytes_of(&out));
    ((int64_t *)in.data)[count - 1] = r;
    statuses[r] = exg_collective_begin(comms[r], &what, NULL, &turn, &errors[r]);
    if (r == 0) {
        statuses[r] = exg_collective_finish(comms[r], &what, turn, &errors[r]);
        atomic_store(&gate, 1);
    } else {
        while (atomic_load(&gate) == 0) {
            nanosleep(&(struct timespec){0, 100000}, NULL);
        }
        statuses[r] = exg_collective_finish(comms[r], &what, turn, &errors[r]);
    }
    for (uint32_t k = 0; statuses[r] == EXG_OK && k < 3; k++) {
        statuses[r] = ((int64_t *)out.data)[(k + 1) * count - 1] == k ? EXG_OK : EXG_MALFORMED;
    }
    (void)exg_collective_settle(comms[r], &what, turn, NULL);
    free(in.data);
    free(out.data);
}

static void finishing_waits_for_what_was_begun_alone(void **state)
{
    (void)state;
    on_threads(3, a_rank_waits_for_the_beginning_of_the_others_alone, EXG_DEADLINE_NS);
    for (uint32_t r = 0; r < 3; r++) {
        assert_int_equal(statuses[r], EXG_OK);
    }
}

/* Rank 2 begins and goes away: what the others lack of it they get, but nobody knows whether
 * their own bytes were read. */
static void go_away(void *context, uint32_t r)
{
    static uint8_t bytes[RANKS_MAX][5000], got[RANKS_MAX][3][5000];
    exg_segment send[3], receive[3];
    uint64_t turn = exg_exchange_turns(comms[r], 1);

    (void)context;
    for (uint32_t k = 0; k < 3; k++) {
        send[k] = (exg_segment){.data = bytes[r], .bytes = 5000};
        receive[k] = (exg_segment){.data = got[r][k], .bytes = 5000};
    }
    statuses[r] = exg_exchange_begin(comms[r], turn, send, receive, &errors[r]);
    if (r < 2) {
        statuses[r] = exg_exchange_finish(comms[r], turn, NULL, NULL, &errors[r]);
        assert_int_equal(statuses[r], EXG_OK);
        statuses[r] = exg_exchange_settle(comms[r], turn, &errors[r]);
    }
}

static void a_rank_that_goes_away_between_phases_ends_the_others(void **state)
{
    bool named = false;

    (void)state;
    on_threads(3, go_away, 100000000);
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(statuses[r], EXG_PEER);
        named = named || (strcmp(errors[r].code, "COM-001") == 0 &&
                          strstr(errors[r].message, "rank 2") != NULL);
    }
    assert_true(named);
}

/* ---- between processes -------------------------------------------------------------------- */

static int as_process(uint32_t size)
{
    exg_communicator *world;
    exg_error err;
    const char *fault;

    if (exg_mpi_create(size, EXG_DEADLINE_NS, &world, &err) != EXG_OK) {
        fprintf(stderr, "%s: %s\n", err.code, err.message);
        return 1;
    }
    fault = check_rank(world);
    if (fault != NULL) {
        fprintf(stderr, "rank %u of %u: %s\n", world->rank, size, fault);
    }
    exg_communicator_close(world);
    exg_mpi_finish();
    return fault != NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(phases_apart_give_the_bits_of_one_call),
        cmocka_unit_test(finishing_waits_for_what_was_begun_alone),
        cmocka_unit_test(a_rank_that_goes_away_between_phases_ends_the_others),
    };
    const char *processes = getenv("OMPI_COMM_WORLD_SIZE");

    return processes != NULL ? as_process((uint32_t)atoi(processes))
                             : cmocka_run_group_tests(tests, NULL, NULL);
}
