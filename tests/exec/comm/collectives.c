/* collectives.c - every collective on 1 to 5 ranks, chunks uneven and empty, against
 * brute force; faults end on all ranks within the deadline. */
#include "libexec/comm/collectives.h"
#include "libexec/comm/team.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define RANKS_MAX 5
#define ELEMENTS  12300 /* more than is reduced in one round */

typedef enum what { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, BROADCAST, KINDS } what;

typedef struct job {
    what what;
    uint32_t n;
    uint32_t rank_of_shape;
    int64_t shape[3];
    uint32_t dim, other_dim; /* gathered, scattered */
    exg_reduce_op op;
    exg_dtype dtype;
    exg_communicator *comms[RANKS_MAX];
    exg_status status[RANKS_MAX];
    exg_error errors[RANKS_MAX];
    double whole[RANKS_MAX][ELEMENTS]; /* by rank, row-major: what it contributes */
    double out[RANKS_MAX][ELEMENTS];
    uint32_t late; /* this rank does not come */
    uint32_t loops;
} job;

static job j;

static int64_t numel_of(const int64_t *shape, uint32_t rank)
{
    int64_t count = 1;

    for (uint32_t d = 0; d < rank; d++) {
        count *= shape[d];
    }
    return count;
}

static exg_tensor tensor_of(void *data, const int64_t *shape, uint32_t rank, exg_dtype dtype)
{
    exg_tensor t = {.data = data, .dtype = dtype, .rank = rank};

    memcpy(t.sizes, shape, rank * sizeof(shape[0]));
    exg_tensor_set_contiguous(&t);
    return t;
}

static void *allocate(uint64_t bytes)
{
    void *memory = malloc(bytes + 1); /* exact, so that a sanitizer sees an overrun */

    if (memory == NULL) {
        abort();
    }
    memset(memory, 0xA5, bytes + 1);
    return memory;
}

static void store(exg_dtype dtype, void *data, int64_t i, double value)
{
    if (dtype == EXG_DTYPE_F32) {
        ((float *)data)[i] = (float)value;
    } else if (dtype == EXG_DTYPE_I64) {
        ((int64_t *)data)[i] = (int64_t)value;
    } else {
        ((double *)data)[i] = value;
    }
}

static double load(exg_dtype dtype, const void *data, int64_t i)
{
    return dtype == EXG_DTYPE_F32   ? (double)((const float *)data)[i]
           : dtype == EXG_DTYPE_I64 ? (double)((const int64_t *)data)[i]
                                    : ((const double *)data)[i];
}

/* Position in the whole of element i of rank r's chunk of `dim`. */
static int64_t position(uint32_t dim, uint32_t r, int64_t i)
{
    int64_t offset;
    int64_t size;
    int64_t inner = numel_of(j.shape + dim + 1, j.rank_of_shape - dim - 1);

    exg_chunk(j.shape[dim], j.n, r, &offset, &size);
    return (i / (size * inner) * j.shape[dim] + offset) * inner + i % (size * inner);
}

static void shape_of_chunk(uint32_t dim, uint32_t r, int64_t *shape)
{
    int64_t offset;

    memcpy(shape, j.shape, sizeof(j.shape));
    exg_chunk(j.shape[dim], j.n, r, &offset, &shape[dim]);
}

static void call(exg_communicator *c, uint32_t r, const exg_tensor *in, const exg_tensor *out)
{
    static const exg_collective_kind kinds[] = {EXG_ALL_REDUCE, EXG_ALL_GATHER, EXG_REDUCE_SCATTER,
                                                EXG_ALL_TO_ALL};
    uint64_t bytes = (uint64_t)exg_tensor_numel(in) * exg_dtype_bytes(in->dtype);

    if (j.what == BROADCAST) {
        memcpy(out->data, in->data, (size_t)bytes);
        j.status[r] = exg_broadcast_bytes(c, out->data, bytes, j.n - 1, &j.errors[r]);
    } else {
        exg_collective asked = {kinds[j.what], in, out, j.dim, j.other_dim, j.op};
        void *workspace = allocate(exg_collective_workspace(c, &asked));

        j.status[r] = exg_collective_run(c, &asked, workspace, &j.errors[r]);
        free(workspace);
    }
}

static void work(void *context, uint32_t r)
{
    int64_t in_shape[3];
    int64_t out_shape[3];
    bool in_chunk = j.what == ALL_GATHER || j.what == ALL_TO_ALL;
    exg_tensor in;
    exg_tensor out;

    (void)context;
    memcpy(in_shape, j.shape, sizeof(in_shape));
    memcpy(out_shape, j.shape, sizeof(out_shape));
    if (in_chunk) {
        shape_of_chunk(j.dim, r, in_shape);
    }
    if (j.what == REDUCE_SCATTER || j.what == ALL_TO_ALL) {
        shape_of_chunk(j.what == ALL_TO_ALL ? j.other_dim : j.dim, r, out_shape);
    }
    in = tensor_of(NULL, in_shape, j.rank_of_shape, j.dtype);
    out = tensor_of(NULL, out_shape, j.rank_of_shape, j.dtype);
    in.data = allocate((uint64_t)exg_tensor_numel(&in) * exg_dtype_bytes(j.dtype));
    out.data = allocate((uint64_t)exg_tensor_numel(&out) * exg_dtype_bytes(j.dtype));
    for (int64_t i = 0; i < exg_tensor_numel(&in); i++) {
        store(j.dtype, in.data, i, in_chunk ? j.whole[0][position(j.dim, r, i)] : j.whole[r][i]);
    }
    call(j.comms[r], r, &in, &out);
    for (int64_t i = 0; i < exg_tensor_numel(&out); i++) {
        j.out[r][i] = load(j.dtype, out.data, i);
    }
    free(in.data);
    free(out.data);
}

/* ---- brute force ------------------------------------------------------------------------ */

static double reduced(int64_t i)
{
    double value = j.whole[0][i];

    for (uint32_t r = 1; r < j.n; r++) {
        double next = j.whole[r][i];

        switch (j.op) {
        case EXG_REDUCE_MAX:
            value = next > value ? next : value;
            break;
        case EXG_REDUCE_MIN:
            value = next < value ? next : value;
            break;
        case EXG_REDUCE_PRODUCT:
            value *= next;
            break;
        case EXG_REDUCE_BAND:
            value = (double)((int64_t)value & (int64_t)next);
            break;
        case EXG_REDUCE_BOR:
            value = (double)((int64_t)value | (int64_t)next);
            break;
        case EXG_REDUCE_BXOR:
            value = (double)((int64_t)value ^ (int64_t)next);
            break;
        default:
            value += next;
        }
    }
    return j.op == EXG_REDUCE_AVG ? value / j.n : value;
}

static double expected(uint32_t r, int64_t i)
{
    switch (j.what) {
    case ALL_REDUCE:
        return reduced(i);
    case ALL_GATHER:
        return j.whole[0][i];
    case REDUCE_SCATTER:
        return reduced(position(j.dim, r, i));
    case ALL_TO_ALL:
        return j.whole[0][position(j.other_dim, r, i)];
    default:
        return j.whole[j.n - 1][i];
    }
}

static void check(exg_team *team)
{
    for (uint32_t r = 0; r < j.n; r++) {
        for (int i = 0; i < ELEMENTS; i++) {
            j.whole[r][i] = (double)((i * 7 + (int)r * 13) % 11 - 4); /* sums are exact */
        }
    }
    exg_team_run(team, work, NULL);
    for (uint32_t r = 0; r < j.n; r++) {
        int64_t shape[3];
        int64_t count;

        memcpy(shape, j.shape, sizeof(shape));
        if (j.what == REDUCE_SCATTER || j.what == ALL_TO_ALL) {
            shape_of_chunk(j.what == ALL_TO_ALL ? j.other_dim : j.dim, r, shape);
        }
        count = numel_of(shape, j.rank_of_shape);
        if (j.status[r] != EXG_OK) {
            fail_msg("rank %u of %u: %s", r, j.n, j.errors[r].message);
        }
        for (int64_t i = 0; i < count; i++) {
            double want = expected(r, i);
            double got = j.out[r][i];
            double slack = j.op == EXG_REDUCE_AVG ? 1e-6 : 0;

            if (!(got - want <= slack && want - got <= slack)) {
                fail_msg("collective %d, rank %u of %u, shape %lld %lld %lld dims %u %u: element "
                         "%lld is %g, not %g",
                         (int)j.what, r, j.n, (long long)j.shape[0], (long long)j.shape[1],
                         (long long)j.shape[2], j.dim, j.other_dim, (long long)i, got, want);
            }
        }
    }
}

static void check_shape(exg_team *team, const int64_t *shape)
{
    memcpy(j.shape, shape, sizeof(j.shape));
    j.rank_of_shape = 3;
    for (int kind = 0; kind < KINDS; kind++) {
        j.what = (what)kind;
        for (j.dim = 0; j.dim < 3; j.dim++) {
            for (j.other_dim = 0; j.other_dim < 3; j.other_dim++) {
                bool two = kind == ALL_TO_ALL;

                if ((two && j.dim == j.other_dim) || (!two && j.other_dim > 0) ||
                    (j.dim > 0 && (kind == ALL_REDUCE || kind == BROADCAST))) {
                    continue;
                }
                check(team);
            }
        }
    }
}

static void open_ranks(uint32_t n)
{
    exg_error err;

    memset(&j, 0, sizeof(j));
    j.n = n;
    j.dtype = EXG_DTYPE_F32;
    j.late = UINT32_MAX;
    if (exg_local_create(n, j.comms, &err) != EXG_OK) {
        fail_msg("%s", err.message);
    }
}

static void close_ranks(void)
{
    for (uint32_t r = 0; r < j.n; r++) {
        exg_communicator_close(j.comms[r]);
    }
}

static void collectives_agree_with_brute_force(void **state)
{
    static const int64_t shapes[][3] = {
        {4, 6, 10}, {5, 3, 7}, {1, 1, 1},  {2, 1, 3},    {7, 11, 2},
        {0, 4, 5},  {3, 0, 2}, {13, 2, 1}, {3, 4099, 1},
    };

    (void)state;
    for (uint32_t n = 1; n <= RANKS_MAX; n++) {
        exg_team *team;

        open_ranks(n);
        assert_int_equal(exg_team_create(n, &team, NULL), EXG_OK);
        for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
            check_shape(team, shapes[s]);
        }
        exg_team_destroy(team);
        close_ranks();
    }
}

/* S003-37 */
static void every_reduction_agrees_with_brute_force(void **state)
{
    static const exg_dtype dtypes[] = {EXG_DTYPE_F32, EXG_DTYPE_F64, EXG_DTYPE_I64};
    static const int64_t shape[3] = {5, 3, 2};

    (void)state;
    for (uint32_t n = 2; n <= RANKS_MAX; n++) {
        exg_team *team;

        open_ranks(n);
        assert_int_equal(exg_team_create(n, &team, NULL), EXG_OK);
        memcpy(j.shape, shape, sizeof(shape));
        j.rank_of_shape = 3;
        for (int op = 0; op < EXG_REDUCE_OP_COUNT; op++) {
            for (int d = 0; d < 3; d++) {
                j.op = (exg_reduce_op)op;
                j.dtype = dtypes[d];
                if (!exg_can_reduce(j.dtype, j.op)) {
                    continue;
                }
                j.what = ALL_REDUCE;
                check(team);
                j.what = REDUCE_SCATTER;
                for (j.dim = 0; j.dim < 3; j.dim++) {
                    check(team);
                }
            }
        }
        exg_team_destroy(team);
        close_ranks();
    }
}

static void averages_of_integers_are_refused(void **state)
{
    (void)state;
    assert_false(exg_can_reduce(EXG_DTYPE_I64, EXG_REDUCE_AVG));
    assert_true(exg_can_reduce(EXG_DTYPE_I64, EXG_REDUCE_SUM));
    assert_true(exg_can_reduce(EXG_DTYPE_BF16, EXG_REDUCE_AVG));
}

/* ---- windows ---------------------------------------------------------------------------- */

static exg_halo seen; /* by what follows */

/* Elements of dim 1 of (2, size, 3) are their own numbers. */
static void see_window(void *context, uint32_t r)
{
    int64_t shape[3] = {2, seen.size, 3};
    int64_t offset;
    int64_t first;
    int64_t count;
    exg_tensor in;
    exg_tensor out;
    exg_collective asked = {EXG_HALO, &in, &out, 1, 0, EXG_REDUCE_SUM, seen};
    void *workspace;

    (void)context;
    exg_halo_of(&seen, j.n, r, &first, &count);
    exg_chunk(seen.size, j.n, r, &offset, &shape[1]);
    in = tensor_of(allocate((uint64_t)(6 * shape[1]) * 8), shape, 3, EXG_DTYPE_I64);
    for (int64_t i = 0; i < 6 * shape[1]; i++) {
        int64_t row = i / (3 * shape[1]);

        ((int64_t *)in.data)[i] = (row * seen.size + offset) * 3 + i % (3 * shape[1]);
    }
    shape[1] = count;
    out = tensor_of(allocate((uint64_t)(6 * count) * 8), shape, 3, EXG_DTYPE_I64);
    workspace = allocate(exg_collective_workspace(j.comms[r], &asked));
    j.status[r] = exg_collective_run(j.comms[r], &asked, workspace, &j.errors[r]);
    for (int64_t i = 0; i < 6 * count && j.status[r] == EXG_OK; i++) {
        int64_t want = (i / (3 * count) * seen.size + first) * 3 + i % (3 * count);

        j.status[r] = ((int64_t *)out.data)[i] == want ? EXG_OK : EXG_MALFORMED;
    }
    free(workspace);
    free(in.data);
    free(out.data);
}

/* By hand: what each position of a rank's chunk reads, element by element. */
static void check_window_of(uint32_t rank)
{
    int64_t begin;
    int64_t parts;
    int64_t low = INT64_MAX;
    int64_t high = -1;
    int64_t first;
    int64_t count;

    exg_chunk(seen.parts, j.n, rank, &begin, &parts);
    for (int64_t p = begin; p < begin + parts; p++) {
        for (int64_t k = 0; k < seen.reach; k++) {
            int64_t at = p * seen.stride - seen.before + k;

            if (at >= 0 && at < seen.size) {
                low = at < low ? at : low;
                high = at > high ? at : high;
            }
        }
    }
    exg_halo_of(&seen, j.n, rank, &first, &count);
    assert_true(high < 0 || (first <= low && first + count > high));
}

static void windows_bring_what_positions_read(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= RANKS_MAX; n++) {
        exg_team *team;

        open_ranks(n);
        assert_int_equal(exg_team_create(n, &team, NULL), EXG_OK);
        for (uint32_t i = 0; i < 300; i++) {
            uint32_t x = i * 2654435761u;

            seen = (exg_halo){(x >> 3) % 14, (x >> 7) % 9,      1 + (x >> 11) % 3,
                              (x >> 14) % 5, 1 + (x >> 17) % 6, 0};
            for (uint32_t r = 0; r < n; r++) {
                check_window_of(r);
            }
            exg_team_run(team, see_window, NULL);
            for (uint32_t r = 0; r < n; r++) {
                assert_int_equal(j.status[r], EXG_OK);
            }
        }
        exg_team_destroy(team);
        close_ranks();
    }
}

/* Around a ring: rank r gets the chunk of the rank `step` before it. */
static void windows_that_turn_around_are_chunks_of_others(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= RANKS_MAX; n++) {
        for (int64_t size = 1; size < 12; size++) {
            int64_t full = (size + n - 1) / n;

            for (int64_t step = 0; step < n; step++) {
                exg_halo w = {size, n, full, step * full, full, n * full};

                for (int64_t r = 0; r < n; r++) {
                    int64_t want[2];
                    int64_t got[2];

                    exg_chunk(size, (uint32_t)n, (uint32_t)((r - step + n) % n), &want[0],
                              &want[1]);
                    exg_halo_of(&w, (uint32_t)n, (uint32_t)r, &got[0], &got[1]);
                    assert_int_equal(got[1], want[1]);
                    assert_true(got[1] == 0 || got[0] == want[0]);
                }
            }
        }
    }
}

/* ---- faults -------------------------------------------------------------------------------- */

static uint64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void work_unless_late(void *context, uint32_t r)
{
    if (r == j.late) {
        j.status[r] = EXG_OK;
        return;
    }
    work(context, r);
}

static void a_missing_rank_ends_the_others_within_their_deadline(void **state)
{
    static const int64_t shape[3] = {4, 2, 3};

    (void)state;
    for (uint32_t n = 2; n <= 4; n++) {
        exg_team *team;
        uint64_t start;

        open_ranks(n);
        assert_int_equal(exg_team_create(n, &team, NULL), EXG_OK);
        memcpy(j.shape, shape, sizeof(shape));
        j.rank_of_shape = 3;
        j.what = ALL_REDUCE;
        j.late = n - 1;
        for (uint32_t r = 0; r < n; r++) {
            j.comms[r]->deadline_ns = 100000000; /* 0.1 s */
        }
        start = now_ms();
        exg_team_run(team, work_unless_late, NULL);
        assert_true(now_ms() - start < 5000);
        for (uint32_t r = 0; r < n - 1; r++) {
            assert_int_equal(j.status[r], EXG_PEER);
            assert_true(j.errors[r].message[0] != '\0');
            assert_int_equal(j.comms[r]->status, EXG_PEER);
        }
        /* a communicator that failed stays failed, and at once */
        start = now_ms();
        exg_team_run(team, work_unless_late, NULL);
        assert_true(now_ms() - start < 90);
        for (uint32_t r = 0; r < n - 1; r++) {
            assert_int_equal(j.status[r], EXG_PEER);
        }
        exg_team_destroy(team);
        close_ranks();
    }
}

static void abort_instead(void *context, uint32_t r)
{
    if (r == j.late) {
        exg_communicator_abort(j.comms[r], EXG_NO_MEMORY);
        return;
    }
    work(context, r);
}

static void an_abort_ends_all_ranks_at_once(void **state)
{
    static const int64_t shape[3] = {4, 2, 3};
    exg_team *team;
    uint64_t start;

    (void)state;
    open_ranks(3);
    assert_int_equal(exg_team_create(3, &team, NULL), EXG_OK);
    memcpy(j.shape, shape, sizeof(shape));
    j.rank_of_shape = 3;
    j.what = ALL_GATHER;
    j.late = 1;
    start = now_ms();
    exg_team_run(team, abort_instead, NULL);
    assert_true(now_ms() - start < 5000);
    assert_int_not_equal(j.status[0], EXG_OK);
    assert_int_not_equal(j.status[2], EXG_OK);
    exg_team_destroy(team);
    close_ranks();
}

static void exchange_uneven(void *context, uint32_t r)
{
    uint8_t bytes[8] = {0};
    uint8_t got[8];
    exg_segment send[2] = {{.data = bytes, .bytes = 4}, {.data = bytes, .bytes = 4}};
    exg_segment receive[2] = {{.data = got, .bytes = 4}, {.data = got + 4, .bytes = 4}};

    (void)context;
    if (r == 1) {
        receive[0].bytes = 3;
    }
    j.status[r] = exg_exchange(j.comms[r], send, receive, &j.errors[r]);
}

static void counts_that_disagree_are_a_fault_of_both(void **state)
{
    exg_team *team;

    (void)state;
    open_ranks(2);
    assert_int_equal(exg_team_create(2, &team, NULL), EXG_OK);
    exg_team_run(team, exchange_uneven, NULL);
    assert_int_equal(j.status[1], EXG_PEER);
    assert_string_equal(j.errors[1].code, "COM-002");
    assert_int_equal(j.status[0], EXG_PEER);
    exg_team_destroy(team);
    close_ranks();
}

static void sum_in_rank_order(void *context, uint32_t r)
{
    /* 1e8 + 1 - 1e8 is 0 in f32 from left to right, 1 otherwise */
    static const float parts[3] = {1e8f, 1.0f, -1e8f};
    float in = parts[r];
    float out = -1;
    int64_t one = 1;
    exg_tensor a = tensor_of(&in, &one, 1, EXG_DTYPE_F32);
    exg_tensor b = tensor_of(&out, &one, 1, EXG_DTYPE_F32);
    exg_collective sum = {EXG_ALL_REDUCE, &a, &b, 0, 0, EXG_REDUCE_SUM};

    (void)context;
    j.status[r] = exg_collective_run(j.comms[r], &sum, NULL, NULL);
    j.out[r][0] = (double)out;
}

static void sums_are_taken_in_rank_order(void **state)
{
    exg_team *team;

    (void)state;
    open_ranks(3);
    assert_int_equal(exg_team_create(3, &team, NULL), EXG_OK);
    for (int loop = 0; loop < 200; loop++) {
        exg_team_run(team, sum_in_rank_order, NULL);
        for (uint32_t r = 0; r < 3; r++) {
            assert_true(j.status[r] == EXG_OK && j.out[r][0] == 0);
        }
    }
    exg_team_destroy(team);
    close_ranks();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collectives_agree_with_brute_force),
        cmocka_unit_test(every_reduction_agrees_with_brute_force),
        cmocka_unit_test(windows_bring_what_positions_read),
        cmocka_unit_test(windows_that_turn_around_are_chunks_of_others),
        cmocka_unit_test(averages_of_integers_are_refused),
        cmocka_unit_test(a_missing_rank_ends_the_others_within_their_deadline),
        cmocka_unit_test(an_abort_ends_all_ranks_at_once),
        cmocka_unit_test(counts_that_disagree_are_a_fault_of_both),
        cmocka_unit_test(sums_are_taken_in_rank_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
