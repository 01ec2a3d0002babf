/* Collectives between devices, on stand-ins of CUDA's libraries and NCCL: the same results as
 * the host's, what is asked for on the way, and how faults end. */
#include "libexec/comm/collectives.h"
#include "libexec/comm/team.h"
#include "libexport/base/element.h"
#include "tests/exec/cuda/calls.h"

#include <exg/emit.h>
#include <exg/exec.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define RANKS_MAX 4
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
    count = (uint32_t)(devices[0] - '0') < count ? (uint32_t)(devices[0] - '0') : count;
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

static void close_ranks(void)
{
    exg_team_run(t.team, leave, NULL);
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
                               .halo = of->halo};
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
        if (memcmp(s->got.data, s->host_out.data, bytes_of(&s->got)) != 0) {
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
};

#define TRIALS (sizeof(trials) / sizeof(trials[0]))

static void try_all(const char *devices, const char *through, bool same_bits)
{
    for (uint32_t size = 2; size <= RANKS_MAX; size++) {
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

static void ranks_on_devices_of_their_own_have_nearly_those(void **state)
{
    (void)state;
    try_all("4", "NCCL 2.28.3", false);
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

static exg_program *make_program(const exg_operators *operators)
{
    static const float weights[64] = {1, 2, 3, 4};
    exg_program *program;
    exg_builder *b;
    exg_error err;
    exg_tensor_meta meta;
    exg_ref at;
    exg_argument y;

    assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &program, NULL), EXG_OK);
    assert_int_equal(exg_builder_create(operators, program, &b, NULL), EXG_OK);
    meta = exg_builder_meta(b, F32, (int64_t[]){8, 8}, 2);
    at = exg_builder_input(b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    for (int i = 0; i < 2; i++) {
        exg_ref w =
            exg_builder_weight(b, i == 0 ? "w1" : "w2", &meta, EXG_INPUT_PARAMETER, weights);

        at = EMIT(b, relu_default, EMIT(b, mm_default, at, w));
    }
    y = exg_arg_ref(at);
    exg_builder_output(b, &y, EXG_OUTPUT_USER, NULL);
    expect_ok(exg_builder_finish(b, &err), &err);
    return program;
}

static exg_status run_session(const char *device, uint64_t timeout_ns, float *result,
                              exg_error *err)
{
    exg_session_options options = {
        .size = sizeof(options), .mesh = {1, {2}}, .device = device, .timeout_ns = timeout_ns};
    exg_session_input input = {.name = "x"};
    float x[64];
    exg_operators *operators;
    exg_program *program;
    exg_verified verified;
    exg_session *session;
    exg_status status;

    for (int i = 0; i < 64; i++) {
        x[i] = (float)(i % 7) - 3;
    }
    expect_ok(exg_operators_create(&operators, err), err);
    program = make_program(operators);
    options.partition = &(exg_partition_options){.size = sizeof(exg_partition_options),
                                                 .mode = EXG_PARTITION_TENSOR};
    expect_ok(exg_verify(program, operators, &verified, NULL, err), err);
    input.tensor = (exg_tensor){.data = x, .dtype = F32, .rank = 2, .sizes = {8, 8}};
    exg_tensor_set_contiguous(&input.tensor);
    status = exg_session_create(&verified, &options, &session, err);
    if (status == EXG_OK) {
        status = exg_session_run(session, &input, 1, err);
    }
    if (status == EXG_OK) {
        memcpy(result, exg_session_output_at(session, 0)->tensor.data, 64 * sizeof(float));
    }
    exg_session_destroy(session);
    exg_program_destroy(program);
    exg_operators_destroy(operators);
    return status;
}

/* With `variable` set so; and the process goes on, with the host and with devices. */
static void expect_fault(const char *variable, const char *planned, uint64_t timeout_ns,
                         exg_status status, const char *code, const char *where)
{
    float want[64];
    float got[64];
    exg_error err;

    exg_error_clear(&err);
    assert_int_equal(setenv("EXG_STANDIN_DEVICES", "2", 1), 0);
    expect_ok(run_session(NULL, timeout_ns, want, &err), &err);
    assert_int_equal(setenv(variable, planned, 1), 0);
    assert_int_equal(run_session("cuda", timeout_ns, got, &err), status);
    assert_int_equal(unsetenv(variable), 0);
    assert_string_equal(err.code, code);
    if (strstr(err.where, where) == NULL) {
        fail_msg("%s", err.where);
    }
    exg_error_clear(&err);
    expect_ok(run_session(NULL, timeout_ns, got, &err), &err);
    assert_memory_equal(got, want, sizeof(want));
    expect_ok(run_session("cuda", timeout_ns, got, &err), &err); /* a new one meets again */
    assert_memory_equal(got, want, sizeof(want));                /* whole numbers */
}

static void an_error_of_nccl_ends_the_run_on_all_ranks(void **state)
{
    (void)state;
    expect_fault("EXG_STANDIN_NCCL", "error:1:0", 2 * SMALL, EXG_PEER, "COM-011", "rank 1, node '");
}

static void a_collective_that_hangs_ends_the_run_in_time(void **state)
{
    (void)state;
    expect_fault("EXG_STANDIN_NCCL", "hang:1:0", 2 * SMALL, EXG_PEER, "COM-012",
                 "node 'all_reduce");
}

/* The others wait on their devices for a collective that never comes; they do not wait for the
 * deadline. */
static void a_rank_that_fails_by_itself_ends_the_run_on_all_ranks(void **state)
{
    (void)state;
    keep_calls();
    expect_fault("EXG_STANDIN_NO_LAUNCH", "1", EXG_DEADLINE_NS, EXG_DEVICE, "DEV-008", "rank 1");
    assert_int_equal(calls_of("ncclCommAbort 0"), 1);
    assert_int_equal(calls_of("ncclCommAbort 1"), 1);
    drop_calls();
}

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

static void nccl_that_does_not_start_is_given_up_in_time(void **state)
{
    (void)state;
    keep_calls();
    expect_fault("EXG_STANDIN_NCCL", "start:1", 2 * SMALL, EXG_PEER, "COM-001", "");
    assert_int_equal(calls_of("ncclCommAbort 0"), 1);
    assert_int_equal(calls_of("ncclCommAbort 1"), 1);
    drop_calls();
}

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
        cmocka_unit_test(ranks_on_devices_of_their_own_have_nearly_those),
        cmocka_unit_test(devices_that_cannot_be_joined_are_told_alike_on_every_rank),
        cmocka_unit_test(a_rank_asks_nccl_for_what_the_golden_file_says),
        cmocka_unit_test(an_error_of_nccl_ends_the_run_on_all_ranks),
        cmocka_unit_test(a_collective_that_hangs_ends_the_run_in_time),
        cmocka_unit_test(a_rank_that_fails_by_itself_ends_the_run_on_all_ranks),
        cmocka_unit_test(who_is_inside_a_collective_hears_of_a_failure),
        cmocka_unit_test(nccl_that_does_not_start_is_given_up_in_time),
        cmocka_unit_test(a_rank_that_does_not_come_to_join_is_given_up_in_time),
    };

    memset(junk, 0x55, sizeof(junk));
    if (count > 1) {
        cmocka_set_test_filter(arguments[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
