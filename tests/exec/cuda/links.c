/* Collectives between devices, on stand-ins of CUDA's libraries and NCCL: the same results as
 * the host's, what is asked for on the way, and how faults end. */
#include "libexec/comm/collectives.h"
#include "libexec/comm/team.h"
#include "libexport/base/element.h"
#include "tests/exec/cuda/calls.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define RANKS_MAX 66
#define SMALL     (UINT64_C(300) * 1000 * 1000) /* ns: a deadline */

/* One collective of a tensor that, whole, has this shape. */
typedef struct trial {
    exg_collective_kind kind;
    exg_dtype dtype;
    exg_reduce_op op;
    int64_t shape[3];
    uint32_t dim, other_dim;
    exg_halo halo;
} trial;

/* A rank's side of it. */
typedef struct side {
    exg_tensor in, out; /* on the device */
    exg_tensor host_in, host_out, got;
    exg_collective what;
    exg_strip sent[RANKS_MAX], received[RANKS_MAX];
    int64_t rows_out[RANKS_MAX], rows_in[RANKS_MAX]; /* of EXG_ALL_TO_ALL_SINGLE */
    exg_arena *arena;
    void *made, *workspace;
} side;

static struct {
    const exg_device_table *table;
    uint32_t size;
    exg_accelerator *devices[RANKS_MAX];
    exg_device_link *links[RANKS_MAX];
    exg_communicator *met[RANKS_MAX], *hosts[RANKS_MAX]; /* of links; of the reference */
    exg_team *team;
    exg_status status[RANKS_MAX];
    exg_error errors[RANKS_MAX];
    const trial *trials[2];
    uint32_t trial_count;
    side sides[RANKS_MAX][2];
    bool uneven; /* ranks do not begin and finish at the same places */
} t;

/* ---- ranks ------------------------------------------------------------------------------- */

static void join(void *context, uint32_t r)
{
    (void)context;
    exg_error_clear(&t.errors[r]);
    t.status[r] = t.table->join(t.devices[r], t.met[r], &t.links[r], &t.errors[r]);
}

static void leave(void *context, uint32_t r)
{
    (void)context;
    if (t.links[r] != NULL) {
        t.table->leave(t.devices[r], t.links[r]);
    }
}

/* `devices`: how many ranks take, in turn; the stand-in has as many. */
static void open_devices(uint32_t size, const char *devices, uint64_t deadline_ns)
{
    exg_error err;
    uint32_t count;

    exg_error_clear(&err);
    assert_int_equal(setenv("EXG_STANDIN_DEVICES", devices, 1), 0);
    t.table = cuda_table();
    expect_ok(t.table->count(&count, &err), &err);
    count = (uint32_t)atoi(devices) < count ? (uint32_t)atoi(devices) : count;
    t.size = size;
    expect_ok(exg_local_create(size, t.met, &err), &err);
    expect_ok(exg_local_create(size, t.hosts, &err), &err);
    expect_ok(exg_team_create(size, &t.team, &err), &err);
    for (uint32_t r = 0; r < size; r++) {
        t.links[r] = NULL;
        t.met[r]->deadline_ns = deadline_ns;
        expect_ok(t.table->open(r % count, &t.devices[r], &err), &err);
    }
}

static void open_ranks(uint32_t size, const char *devices, uint64_t deadline_ns)
{
    open_devices(size, devices, deadline_ns);
    exg_team_run(t.team, join, NULL);
}

/* Each for itself: none waits for another. */
static void close_ranks(void)
{
    for (uint32_t r = t.size; r-- > 0;) {
        leave(NULL, r);
    }
    exg_team_destroy(t.team);
    for (uint32_t r = 0; r < t.size; r++) {
        t.table->close(t.devices[r]);
        exg_communicator_close(t.met[r]);
        exg_communicator_close(t.hosts[r]);
    }
}

/* ---- operands ---------------------------------------------------------------------------- */

static exg_tensor tensor_of(exg_dtype dtype, const int64_t *sizes)
{
    exg_tensor tensor = {.dtype = dtype, .rank = 3};

    memcpy(tensor.sizes, sizes, 3 * sizeof(*sizes));
    exg_tensor_set_contiguous(&tensor);
    return tensor;
}

static uint64_t bytes_of(const exg_tensor *tensor)
{
    return (uint64_t)exg_tensor_numel(tensor) * exg_dtype_bytes(tensor->dtype);
}

static int64_t chunk_of(int64_t length, uint32_t r)
{
    int64_t first;
    int64_t count;

    exg_chunk(length, t.size, r, &first, &count);
    return count;
}

static void shape_side(const trial *of, uint32_t r, side *s)
{
    int64_t in[3];
    int64_t out[3];
    int64_t first;

    memcpy(in, of->shape, sizeof(in));
    memcpy(out, of->shape, sizeof(out));
    if (of->kind == EXG_ALL_GATHER || of->kind == EXG_ALL_TO_ALL || of->kind == EXG_HALO) {
        in[of->dim] = chunk_of(of->shape[of->dim], r);
    }
    if (of->kind == EXG_REDUCE_SCATTER) {
        out[of->dim] = chunk_of(of->shape[of->dim], r);
    } else if (of->kind == EXG_ALL_TO_ALL) {
        out[of->other_dim] = chunk_of(of->shape[of->other_dim], r);
    } else if (of->kind == EXG_HALO) {
        exg_halo_of(&of->halo, t.size, r, &first, &out[of->dim]);
    } else if (of->kind == EXG_ALL_TO_ALL_SINGLE) { /* as many as the two say, of some none */
        in[0] = out[0] = 0;
        for (uint32_t k = 0; k < t.size; k++) {
            in[0] += s->rows_out[k] = (r * 3 + k * 5) % 4;
            out[0] += s->rows_in[k] = (k * 3 + r * 5) % 4;
        }
    }
    s->in = s->host_in = tensor_of(of->dtype, in);
    s->out = s->host_out = s->got = tensor_of(of->dtype, out);
}

/* Of sizes that differ, so that the order of a sum is seen; now and then NaN. */
static void put_number(exg_dtype dtype, void *data, int64_t i)
{
    double x = ((double)(rand() % 2001) - 1000) / (double)(1 + rand() % 700);

    x = rand() % 97 == 0 ? NAN : x;
    if (dtype == EXG_DTYPE_F32) {
        ((float *)data)[i] = (float)x;
    } else if (dtype == EXG_DTYPE_F64) {
        ((double *)data)[i] = x;
    } else if (dtype == EXG_DTYPE_F16) {
        ((uint16_t *)data)[i] = exg_f32_to_f16((float)x);
    } else if (dtype == EXG_DTYPE_BF16) {
        ((uint16_t *)data)[i] = exg_f32_to_bf16((float)x);
    } else if (dtype == EXG_DTYPE_B8) {
        ((uint8_t *)data)[i] = (uint8_t)(rand() % 2);
    } else {
        for (uint32_t b = 0; b < exg_dtype_bytes(dtype); b++) {
            ((uint8_t *)data)[(uint64_t)i * exg_dtype_bytes(dtype) + b] = (uint8_t)rand();
        }
    }
}

static void make_side(const trial *of, uint32_t r, side *s)
{
    *s = (side){0};
    shape_side(of, r, s);
    s->host_in.data = malloc(bytes_of(&s->host_in) + 1);
    s->host_out.data = malloc(bytes_of(&s->host_out) + 1);
    s->got.data = malloc(bytes_of(&s->got) + 1);
    for (int64_t i = 0; i < exg_tensor_numel(&s->host_in); i++) {
        put_number(of->dtype, s->host_in.data, i);
    }
    s->what = (exg_collective){.kind = of->kind,
                               .in = &s->in,
                               .out = &s->out,
                               .dim = of->dim,
                               .other_dim = of->other_dim,
                               .op = of->op,
                               .halo = of->halo,
                               .root = t.size - 1,
                               .sent = s->rows_out,
                               .received = s->rows_in,
                               .rank_count = t.size};
    s->arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
}

static void free_side(uint32_t r, side *s)
{
    t.table->release(t.devices[r], s->in.data);
    t.table->release(t.devices[r], s->out.data);
    t.table->release(t.devices[r], s->workspace);
    free(s->host_in.data);
    free(s->host_out.data);
    free(s->got.data);
    exg_arena_destroy(s->arena);
}

/* ---- a run -------------------------------------------------------------------------------- */

static exg_status prepare(uint32_t r, side *s, exg_error *err)
{
    exg_accelerator *d = t.devices[r];
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < t.size; i++) {
        s->sent[i] = exg_collective_sent(t.met[r], &s->what, i);
        s->received[i] = exg_collective_received(t.met[r], &s->what, i);
    }
    EXG_TRY(t.table->allocate(d, bytes_of(&s->in), &s->in.data, err));
    EXG_TRY(t.table->allocate(d, bytes_of(&s->out), &s->out.data, err));
    EXG_TRY(t.table->prepare_collective(d, t.links[r], &s->what, s->sent, s->received, s->arena,
                                        &s->made, &bytes, err));
    return t.table->allocate(d, bytes, &s->workspace, err);
}

static void run_begin(const exg_kernel_call *call)
{
    const side *s = call->params;

    t.table->begin_collective(call->device, s->made, s->workspace);
}

static void run_finish(const exg_kernel_call *call)
{
    t.table->finish_collective(call->device, ((const side *)call->params)->made);
}

static exg_status launch(uint32_t r, const side *s, void (*run)(const exg_kernel_call *call),
                         exg_error *err)
{
    exg_kernel kernel = {.name = "collective", .run = run};
    exg_kernel_call call = {.device = t.devices[r], .params = s};

    return t.table->launch(t.devices[r], &kernel, &call, 0, err);
}

/* The order in which a rank begins (even) and finishes (odd) two of them. */
static exg_status carry_out(uint32_t r, exg_error *err)
{
    static const uint32_t together[] = {0, 2, 1, 3};
    static const uint32_t apart[] = {0, 1, 2, 3};
    const uint32_t *order = t.trial_count == 1 || (t.uneven && r % 2 == 1) ? apart : together;

    for (uint32_t i = 0; i < 2 * t.trial_count; i++) {
        EXG_TRY(
            launch(r, &t.sides[r][order[i] / 2], order[i] % 2 == 0 ? run_begin : run_finish, err));
    }
    return EXG_OK;
}

static uint8_t junk[8192];

static exg_status run_trials(uint32_t r, exg_error *err)
{
    exg_accelerator *d = t.devices[r];

    for (uint32_t i = 0; i < t.trial_count; i++) {
        side *s = &t.sides[r][i];

        EXG_TRY(prepare(r, s, err));
        EXG_TRY(t.table->copy_in(d, s->in.data, s->host_in.data, bytes_of(&s->in), err));
    }
    if (getenv("EXG_KERNEL_PREPARE_ONLY") != NULL) { /* with a compiler for a device */
        return EXG_OK;
    }
    EXG_TRY(carry_out(r, err));
    for (uint32_t i = 0; i < t.trial_count; i++) {
        side *s = &t.sides[r][i];

        /* operands may be written now */
        assert_true(bytes_of(&s->in) <= sizeof(junk));
        EXG_TRY(t.table->copy_in(d, s->in.data, junk, bytes_of(&s->in), err));
        EXG_TRY(t.table->copy_out(d, s->got.data, s->out.data, bytes_of(&s->got), err));
    }
    return t.table->wait(d, err);
}

static void run_rank(void *context, uint32_t r)
{
    (void)context;
    exg_error_clear(&t.errors[r]);
    t.status[r] = run_trials(r, &t.errors[r]);
    if (t.status[r] != EXG_OK) {
        exg_communicator_abort(t.met[r], t.status[r]);
    }
}

static void run_reference(void *context, uint32_t r)
{
    (void)context;
    for (uint32_t i = 0; i < t.trial_count; i++) {
        side *s = &t.sides[r][i];
        exg_collective what = s->what;
        void *workspace;

        what.in = &s->host_in;
        what.out = &s->host_out;
        workspace = malloc(exg_collective_workspace(t.hosts[r], &what) + 1);
        t.status[r] = exg_collective_run(t.hosts[r], &what, workspace, &t.errors[r]);
        free(workspace);
    }
}

static double number_at(const exg_tensor *tensor, int64_t i)
{
    return exg_element_value(tensor->dtype, (const uint8_t *)tensor->data +
                                                (uint64_t)i * exg_dtype_bytes(tensor->dtype));
}

/* To the bit; what a device's NaN says beside that is its own. */
static bool has_same_bits(const exg_tensor *got, const exg_tensor *want)
{
    uint32_t bytes = exg_dtype_bytes(want->dtype);

    for (int64_t i = 0; i < exg_tensor_numel(want); i++) {
        const char *one = (const char *)got->data + (uint64_t)i * bytes;
        const char *other = (const char *)want->data + (uint64_t)i * bytes;

        if (memcmp(one, other, bytes) != 0 &&
            !(exg_dtype_is_float(want->dtype) && isnan(number_at(got, i)) &&
              isnan(number_at(want, i)))) {
            return false;
        }
    }
    return true;
}

/* Sums of NCCL are in another order: rounded elsewhere, and where numbers cancel by as much as
 * the largest of them. */
static void compare_side(const trial *of, uint32_t r, const side *s, bool same_bits)
{
    bool sums = of->kind == EXG_ALL_REDUCE || of->kind == EXG_REDUCE_SCATTER;
    double part = of->dtype == EXG_DTYPE_F64   ? 1e-14
                  : of->dtype == EXG_DTYPE_F32 ? 1e-6
                  : of->dtype == EXG_DTYPE_F16 ? 4e-3
                                               : 3e-2;

    if (same_bits || !sums || !exg_dtype_is_float(of->dtype)) {
        if (!has_same_bits(&s->got, &s->host_out)) {
            fail_msg("%s of %s by %s: rank %u of %u", exg_collective_name(of->kind),
                     exg_dtype_name(of->dtype), exg_reduce_op_name(of->op), r, t.size);
        }
        return;
    }
    for (int64_t i = 0; i < exg_tensor_numel(&s->got); i++) {
        double want = number_at(&s->host_out, i);
        double got = number_at(&s->got, i);
        double scale = of->op == EXG_REDUCE_PRODUCT ? fabs(want) : 4000;

        if (isnan(want) != isnan(got) ||
            (!isnan(want) && !(isinf(want) && want == got) && fabs(want - got) > part * scale)) {
            fail_msg("%s of %s by %s: rank %u of %u, element %d: %g, not %g",
                     exg_collective_name(of->kind), exg_dtype_name(of->dtype),
                     exg_reduce_op_name(of->op), r, t.size, (int)i, got, want);
        }
    }
}

/* Streams carried out one after the other, and as far ahead of each other as they may be. */
static void try_trials(const trial *first, const trial *second, bool same_bits)
{
    t.trials[0] = first;
    t.trials[1] = second;
    t.trial_count = second == NULL ? 1 : 2;
    for (int ahead = 0; ahead < 2; ahead++) {
        assert_int_equal(
            ahead == 1 ? setenv("EXG_STANDIN_AHEAD", "1", 1) : unsetenv("EXG_STANDIN_AHEAD"), 0);
        for (uint32_t r = 0; r < t.size; r++) {
            for (uint32_t i = 0; i < t.trial_count; i++) {
                make_side(t.trials[i], r, &t.sides[r][i]);
            }
        }
        exg_team_run(t.team, run_reference, NULL);
        exg_team_run(t.team, run_rank, NULL);
        for (uint32_t r = 0; r < t.size; r++) {
            if (t.status[r] != EXG_OK) {
                fail_msg("%s of %s: rank %u of %u: %s: %s", exg_collective_name(first->kind),
                         exg_dtype_name(first->dtype), r, t.size, t.errors[r].code,
                         t.errors[r].message);
            }
        }
        for (uint32_t r = 0; r < t.size; r++) {
            for (uint32_t i = 0; i < t.trial_count; i++) {
                if (getenv("EXG_KERNEL_PREPARE_ONLY") == NULL) {
                    compare_side(t.trials[i], r, &t.sides[r][i], same_bits);
                }
                free_side(r, &t.sides[r][i]);
            }
        }
    }
    assert_int_equal(unsetenv("EXG_STANDIN_AHEAD"), 0);
}

/* ---- the same results --------------------------------------------------------------------- */

#define SUM EXG_REDUCE_SUM
#define F32 EXG_DTYPE_F32

static const trial trials[] = {
    {EXG_ALL_REDUCE, F32, SUM, {3, 50, 7}, 0, 0, {0}},
    {EXG_ALL_REDUCE, EXG_DTYPE_BF16, SUM, {1, 5, 7}, 0, 0, {0}},
    {EXG_ALL_REDUCE, EXG_DTYPE_F16, EXG_REDUCE_AVG, {1, 9, 9}, 0, 0, {0}},
    {EXG_ALL_REDUCE, F32, EXG_REDUCE_MAX, {1, 40, 9}, 0, 0, {0}},
    {EXG_ALL_REDUCE, EXG_DTYPE_F64, EXG_REDUCE_MIN, {1, 40, 9}, 0, 0, {0}},
    {EXG_ALL_REDUCE, F32, EXG_REDUCE_PRODUCT, {1, 1, 60}, 0, 0, {0}},
    {EXG_ALL_REDUCE, EXG_DTYPE_I64, EXG_REDUCE_MIN, {2, 2, 6}, 0, 0, {0}},
    {EXG_ALL_REDUCE, EXG_DTYPE_I8, EXG_REDUCE_PRODUCT, {2, 2, 6}, 0, 0, {0}},
    {EXG_ALL_REDUCE, EXG_DTYPE_I16, SUM, {2, 2, 6}, 0, 0, {0}},
    {EXG_ALL_REDUCE, EXG_DTYPE_I32, EXG_REDUCE_BXOR, {2, 2, 6}, 0, 0, {0}},
    {EXG_ALL_REDUCE, EXG_DTYPE_B8, SUM, {1, 1, 33}, 0, 0, {0}},
    {EXG_ALL_REDUCE, EXG_DTYPE_B8, EXG_REDUCE_PRODUCT, {1, 1, 33}, 0, 0, {0}},
    {EXG_ALL_REDUCE, EXG_DTYPE_B8, EXG_REDUCE_BXOR, {1, 1, 33}, 0, 0, {0}},
    {EXG_ALL_REDUCE, F32, SUM, {0, 3, 3}, 0, 0, {0}},
    {EXG_ALL_GATHER, F32, SUM, {12, 3, 2}, 0, 0, {0}},
    {EXG_ALL_GATHER, EXG_DTYPE_BF16, SUM, {3, 12, 2}, 1, 0, {0}},
    {EXG_ALL_GATHER, EXG_DTYPE_I64, SUM, {3, 5, 2}, 1, 0, {0}},
    {EXG_ALL_GATHER, EXG_DTYPE_B8, SUM, {2, 2, 1}, 2, 0, {0}},
    {EXG_REDUCE_SCATTER, F32, SUM, {12, 5, 2}, 0, 0, {0}},
    {EXG_REDUCE_SCATTER, F32, EXG_REDUCE_AVG, {4, 12, 3}, 1, 0, {0}},
    {EXG_REDUCE_SCATTER, EXG_DTYPE_BF16, SUM, {4, 5, 3}, 1, 0, {0}},
    {EXG_REDUCE_SCATTER, EXG_DTYPE_B8, EXG_REDUCE_MAX, {2, 2, 1}, 2, 0, {0}},
    {EXG_ALL_TO_ALL, F32, SUM, {4, 8, 3}, 0, 1, {0}},
    {EXG_ALL_TO_ALL, EXG_DTYPE_C128, SUM, {5, 3, 7}, 2, 0, {0}},
    {EXG_ALL_TO_ALL, EXG_DTYPE_I16, SUM, {5, 3, 7}, 1, 2, {0}},
    {EXG_ALL_TO_ALL, F32, SUM, {5, 1, 1}, 1, 0, {0}},
    {EXG_HALO, F32, SUM, {2, 11, 3}, 1, 0, {11, 6, 2, 1, 3, 0}},
    {EXG_HALO, EXG_DTYPE_I32, SUM, {9, 2, 2}, 0, 0, {9, 9, 1, 1, 3, 0}},
    {EXG_BROADCAST, F32, SUM, {5, 3, 2}, 0, 0, {0}},
    {EXG_BROADCAST, EXG_DTYPE_B8, SUM, {1, 1, 7}, 0, 0, {0}},
    {EXG_ALL_TO_ALL_SINGLE, F32, SUM, {1, 3, 2}, 0, 0, {0}},
    {EXG_ALL_TO_ALL_SINGLE, EXG_DTYPE_I64, SUM, {1, 1, 5}, 0, 0, {0}},
};

#define TRIALS (sizeof(trials) / sizeof(trials[0]))

static void try_all(const char *devices, const char *through, bool same_bits)
{
    for (uint32_t size = 2; size <= 4; size++) {
        srand(size);
        open_ranks(size, devices, EXG_DEADLINE_NS);
        for (uint32_t r = 0; r < size; r++) {
            expect_ok(t.status[r], &t.errors[r]);
            assert_string_equal(t.links[r]->name, through);
        }
        for (size_t i = 0; i < TRIALS; i++) {
            try_trials(&trials[i], NULL, same_bits);
        }
        for (size_t i = 0; i + 1 < TRIALS; i += 5) { /* two under way */
            t.uneven = i % 2 == 0;
            try_trials(&trials[i], &trials[i + 1], same_bits);
        }
        close_ranks();
    }
}

static void ranks_on_one_device_have_the_bits_of_the_hosts_collectives(void **state)
{
    (void)state;
    try_all("1", "the device's memory", true);
}

/* NCCL keeps a thread and a socket for each id until its ranks have come. */
static void ranks_on_one_device_ask_for_no_id(void **state)
{
    (void)state;
    if (!is_standin()) {
        skip();
    }
    keep_calls();
    open_ranks(2, "1", EXG_DEADLINE_NS);
    assert_int_equal(t.status[0], EXG_OK);
    close_ranks();
    assert_int_equal(calls_of("ncclGetUniqueId"), 0);
    drop_calls();
}

static void ranks_on_devices_of_their_own_have_nearly_those(void **state)
{
    (void)state;
    try_all("4", "NCCL 2.28.3", false);
}

/* More than a launch moves for. */
static void try_many(const char *devices, const trial *of, bool same_bits)
{
    srand(1);
    open_ranks(RANKS_MAX, devices, EXG_DEADLINE_NS);
    for (uint32_t r = 0; r < t.size; r++) {
        expect_ok(t.status[r], &t.errors[r]);
    }
    try_trials(of, NULL, same_bits);
    close_ranks();
}

static void many_ranks_meet_along_a_line(void **state)
{
    static const trial largest = {EXG_ALL_REDUCE, F32, EXG_REDUCE_MAX, {1, 2, 9}, 0, 0, {0}};
    static const trial sum = {EXG_ALL_REDUCE, F32, SUM, {1, 2, 9}, 0, 0, {0}};

    (void)state;
    if (!is_standin()) {
        skip();
    }
    try_many("1", &largest, true);
    try_many("66", &largest, true); /* by NCCL, sent and received */
    try_many("66", &sum, false);
}

/* ---- who can be joined ---------------------------------------------------------------------- */

static void expect_apart(uint32_t size, const char *devices, const char *why)
{
    open_ranks(size, devices, EXG_DEADLINE_NS);
    for (uint32_t r = 0; r < size; r++) {
        assert_int_equal(t.status[r], EXG_UNSUPPORTED);
        assert_string_equal(t.errors[r].code, "DEV-011");
        assert_non_null(strstr(t.errors[r].message, why));
        assert_null(t.links[r]);
    }
    close_ranks();
}

static void devices_that_cannot_be_joined_are_told_alike_on_every_rank(void **state)
{
    (void)state;
    expect_apart(4, "2", "ranks 0 and 2 share a device");
    assert_int_equal(setenv("EXG_STANDIN_NCCL_VERSION", "21304", 1), 0);
    expect_apart(2, "4", "NCCL is too old: version 21304");
    assert_int_equal(unsetenv("EXG_STANDIN_NCCL_VERSION"), 0);
}

/* ---- the call sequence ---------------------------------------------------------------------- */

/* What the first rank's device is asked for, from joining on. */
static void expect_calls(const char *devices, const char *golden)
{
    static const trial gather = {EXG_ALL_GATHER, F32, SUM, {2, 5, 1}, 1, 0, {0}};
    static const trial reduce = {EXG_ALL_REDUCE, F32, SUM, {1, 2, 5}, 0, 0, {0}};
    char folder[] = "/tmp/exg-links-XXXXXX";
    char path[64];
    char *want = read_whole(golden);
    char *got;

    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/log", folder);
    assert_int_equal(setenv("EXG_STANDIN_LOG_BY", "device", 1), 0);
    assert_int_equal(setenv("EXG_STANDIN_LOG", path, 1), 0);
    open_ranks(2, devices, EXG_DEADLINE_NS);
    t.trials[0] = &reduce;
    t.trials[1] = &gather;
    t.trial_count = 2;
    t.uneven = false;
    for (uint32_t r = 0; r < 2; r++) {
        make_side(&reduce, r, &t.sides[r][0]);
        make_side(&gather, r, &t.sides[r][1]);
    }
    exg_team_run(t.team, run_rank, NULL);
    expect_ok(t.status[0], &t.errors[0]);
    for (uint32_t r = 0; r < 2; r++) {
        free_side(r, &t.sides[r][0]);
        free_side(r, &t.sides[r][1]);
    }
    close_ranks();
    assert_int_equal(unsetenv("EXG_STANDIN_LOG"), 0);
    assert_int_equal(unsetenv("EXG_STANDIN_LOG_BY"), 0);
    (void)snprintf(path, sizeof(path), "%s/log.0", folder);
    got = read_whole(path);
    assert_non_null(strstr(got, "ncclGetUniqueId"));
    assert_string_equal(strstr(got, "ncclGetUniqueId"), want);
    free(got);
    free(want);
    (void)unlink(path);
    for (int d = -1; d < 2; d++) {
        (void)snprintf(path, sizeof(path), "%s/log.%d", folder, d);
        (void)unlink(path);
    }
    (void)rmdir(folder);
}

static void a_rank_asks_nccl_for_what_the_golden_file_says(void **state)
{
    (void)state;
    expect_calls("2", "tests/exec/cuda/links.txt");
}

/* ---- faults --------------------------------------------------------------------------------- */

static const trial alone = {EXG_ALL_REDUCE, F32, SUM, {1, 2, 5}, 0, 0, {0}};

/* The second rank stops where the first one has begun a collective. */
static void run_first(void *context, uint32_t r)
{
    (void)context;
    exg_error_clear(&t.errors[r]);
    if (r == 0) {
        t.status[r] = run_trials(r, &t.errors[r]);
        return;
    }
    while (calls_of("ncclAllReduce") == 0) {
    }
    exg_communicator_abort(t.met[r], EXG_DEVICE);
}

static void who_is_inside_a_collective_hears_of_a_failure(void **state)
{
    (void)state;
    keep_calls();
    open_ranks(2, "2", EXG_DEADLINE_NS);
    t.trials[0] = &alone;
    t.trial_count = 1;
    for (uint32_t r = 0; r < 2; r++) {
        make_side(&alone, r, &t.sides[r][0]);
    }
    exg_team_run(t.team, run_first, NULL);
    assert_int_equal(t.status[0], EXG_PEER);
    assert_string_equal(t.errors[0].code, "COM-003");
    assert_int_equal(calls_of("ncclCommAbort 0"), 1);
    for (uint32_t r = 0; r < 2; r++) {
        free_side(r, &t.sides[r][0]);
    }
    close_ranks();
    drop_calls();
}

/* ---- a start that hangs ---------------------------------------------------------------------- */

static void join_first(void *context, uint32_t r)
{
    if (r == 0) {
        join(context, r);
    }
}

/* The first rank's id is never taken. */
static void a_rank_that_does_not_come_to_join_is_given_up_in_time(void **state)
{
    exg_error err;

    (void)state;
    keep_calls();
    open_devices(2, "2", SMALL);
    exg_team_run(t.team, join_first, NULL);
    assert_int_equal(t.status[0], EXG_PEER);
    assert_string_equal(t.errors[0].code, "COM-001");
    assert_null(t.links[0]);
    assert_int_equal(calls_of("ncclCommInitRankConfig"), 0);
    exg_error_clear(&err);
    assert_int_equal(t.table->join(t.devices[1], t.met[1], &t.links[1], &err), EXG_PEER);
    assert_null(t.links[1]);
    close_ranks();
    drop_calls();
}

/* links [PATTERN]: those of the tests. */
int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_on_one_device_have_the_bits_of_the_hosts_collectives),
        cmocka_unit_test(ranks_on_one_device_ask_for_no_id),
        cmocka_unit_test(ranks_on_devices_of_their_own_have_nearly_those),
        cmocka_unit_test(many_ranks_meet_along_a_line),
        cmocka_unit_test(devices_that_cannot_be_joined_are_told_alike_on_every_rank),
        cmocka_unit_test(a_rank_asks_nccl_for_what_the_golden_file_says),
        cmocka_unit_test(who_is_inside_a_collective_hears_of_a_failure),
        cmocka_unit_test(a_rank_that_does_not_come_to_join_is_given_up_in_time),
    };

    memset(junk, 0x55, sizeof(junk));
    if (count > 1) {
        cmocka_set_test_filter(arguments[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
