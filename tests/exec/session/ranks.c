/* ranks.c - what is proved of a distributed run before it starts, and how it ends when a
 * rank does not go on. Plans that do not fit are made by placing ranks differently. */
#include "libexec/comm/grid.h"
#include "libexec/executor/plan_executor.h"
#include "libexec/plan/collective_trace.h"
#include "libexec/sharding/shard_pattern.h"
#include "libexport/base/arena.h"

#include <exg/emit.h>
#include <exg/exec.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define RANKS 3

static exg_ref weight(exg_builder *b, const char *name, int64_t rows, int64_t columns)
{
    static const float zeros[64 * 64];
    exg_tensor_meta meta = exg_builder_meta(b, EXG_DTYPE_F32, (int64_t[]){rows, columns}, 2);

    assert_true(rows * columns <= 64 * 64);
    return exg_builder_weight(b, name, &meta, EXG_INPUT_PARAMETER, zeros);
}

/* relu(x @ w1) @ w2, or without weights relu(x). */
static exg_program *make(const exg_operators *operators, int64_t rows, int64_t columns,
                         int64_t inner)
{
    exg_program *program;
    exg_builder *b;
    exg_error err;
    exg_tensor_meta meta;
    exg_ref at;
    exg_argument y;

    assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &program, NULL), EXG_OK);
    assert_int_equal(exg_builder_create(operators, program, &b, NULL), EXG_OK);
    meta = exg_builder_meta(b, EXG_DTYPE_F32, (int64_t[]){rows, columns}, 2);
    if (inner > 0) {
        exg_ref w1 = weight(b, "w1", columns, inner);
        exg_ref w2 = weight(b, "w2", inner, 6);

        at = exg_builder_input(b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
        at = EMIT(b, mm_default, EMIT(b, relu_default, EMIT(b, mm_default, at, w1)), w2);
    } else {
        at = EMIT(b, relu_default,
                  exg_builder_input(b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET));
    }
    y = exg_arg_ref(at);
    exg_builder_output(b, &y, EXG_OUTPUT_USER, NULL);
    if (exg_builder_finish(b, &err) != EXG_OK) {
        fail_msg("%s: %s", err.code, err.message);
    }
    return program;
}

/* A 0-d index beside a tensor of one dim: no rule cuts a dim that is not there. */
static void positions_without_dims_are_not_cut(void **state)
{
    static const exg_partition_mode modes[] = {EXG_PARTITION_REPLICATE, EXG_PARTITION_DATA,
                                               EXG_PARTITION_TENSOR, EXG_PARTITION_AUTO};

    (void)state;
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        static const exg_mesh_shape mesh = {1, {RANKS}, {NULL}};
        exg_partition_options options = {.size = sizeof(options), .mode = modes[i]};
        exg_program *local = NULL;
        exg_operators *operators;
        exg_program *program;
        exg_tensor_meta meta;
        exg_argument out;
        exg_builder *b;
        exg_ref x, index, src;
        exg_error err;

        assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
        assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &program, NULL), EXG_OK);
        assert_int_equal(exg_builder_create(operators, program, &b, NULL), EXG_OK);
        meta = exg_builder_meta(b, EXG_DTYPE_F32, (int64_t[]){6}, 1);
        x = exg_builder_input(b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
        meta = exg_builder_meta(b, EXG_DTYPE_I64, NULL, 0);
        index = exg_builder_input(b, "index", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
        meta = exg_builder_meta(b, EXG_DTYPE_F32, NULL, 0);
        src = exg_builder_input(b, "src", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
        out = exg_arg_ref(EMIT(b, scatter_add_default, x, 0, index, src));
        exg_builder_output(b, &out, EXG_OUTPUT_USER, NULL);
        assert_int_equal(exg_builder_finish(b, NULL), EXG_OK);
        if (exg_partition(program, operators, &options, NULL, &mesh, 0, &local, NULL, NULL, &err) !=
            EXG_OK) {
            fail_msg("%s: %s", err.code, err.message);
        }
        exg_program_destroy(local);
        exg_program_destroy(program);
        exg_operators_destroy(operators);
    }
}

/* Of 7 rows 8 ranks have one each, and the last none; of matrices of 5 rows kept in pieces alike.
 */
static void dims_shorter_than_the_mesh_are_split(void **state)
{
    static const exg_partition_mode modes[] = {EXG_PARTITION_DATA, EXG_PARTITION_FSDP};
    static const exg_mesh_shape mesh = {1, {8}, {NULL}};
    exg_operators *operators;
    exg_program *program;

    (void)state;
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    program = make(operators, 7, 5, 6);
    for (size_t m = 0; m < 2; m++) {
        exg_partition_options options = {.size = sizeof(options), .mode = modes[m]};

        for (uint32_t r = 0; r < 8; r++) {
            exg_partition_summary *summary = NULL;
            exg_program *local = NULL;
            bool found = false;

            assert_int_equal(exg_partition(program, operators, &options, NULL, &mesh, r, &local,
                                           &summary, NULL, NULL),
                             EXG_OK);
            for (uint32_t n = 0; n < local->graph->node_count; n++) {
                const exg_node *node = &local->graph->nodes[n];

                if (strcmp(node->target, "torch.ops.aten.relu.default") == 0) {
                    const exg_value_id id = node->outputs[0].as_tensor;

                    found = true;
                    assert_int_equal(local->graph->values[id].tensor->sizes[0].value, r < 7);
                }
            }
            assert_true(found && summary->unsplit[0] == NULL);
            if (modes[m] == EXG_PARTITION_FSDP) { /* a column of five rows, a row of six columns */
                assert_int_equal(summary->weight_bytes, r < 6 ? 4 * (5 + 6) : 0);
            }
            free(summary);
            exg_program_destroy(local);
        }
    }
    exg_program_destroy(program);
    exg_operators_destroy(operators);
}

/* Moves that a file brings along name dims of a mesh that nobody knows. */
static void a_program_with_moves_is_not_placed(void **state)
{
    static const exg_mesh_shape mesh = {1, {RANKS}, {NULL}};
    exg_partition_options options = {.size = sizeof(options), .mode = EXG_PARTITION_DATA};
    exg_program *local = NULL;
    exg_operators *operators;
    exg_program *program;
    exg_tensor_meta meta;
    exg_argument out;
    exg_builder *b;
    exg_error err;

    (void)state;
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &program, NULL), EXG_OK);
    assert_int_equal(exg_builder_create(operators, program, &b, NULL), EXG_OK);
    meta = exg_builder_meta(b, EXG_DTYPE_F32, (int64_t[]){6}, 1);
    out = exg_arg_ref(EMIT(b, exg_all_reduce,
                           exg_builder_input(b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET),
                           exg_arg_string("sum"), 1000003));
    exg_builder_output(b, &out, EXG_OUTPUT_USER, NULL);
    assert_int_equal(exg_builder_finish(b, NULL), EXG_OK);
    assert_int_equal(
        exg_partition(program, operators, &options, NULL, &mesh, 0, &local, NULL, NULL, &err),
        EXG_UNSUPPORTED);
    assert_string_equal(err.code, "PLC-002");
    exg_program_destroy(program);
    exg_operators_destroy(operators);
}

/* ---- plans of all ranks beside each other --------------------------------------------- */

typedef struct made {
    exg_partition_mode mode;
    int64_t rows, inner;
} made;

static void issues_of(const made *from, uint32_t rank, exg_arena *arena,
                      exg_collective_trace *traces)
{
    static const exg_mesh_shape mesh = {1, {RANKS}, {NULL}};
    exg_partition_options options = {.size = sizeof(options), .mode = from->mode};
    exg_operators *operators;
    exg_program *program;
    exg_program *local = NULL;
    exg_plan *plan = NULL;
    exg_grid grid;
    exg_error err;

    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    program = make(operators, from->rows, 8, from->inner);
    assert_int_equal(exg_paper_grid(&mesh, rank, false, &grid, NULL), EXG_OK);
    if (exg_partition(program, operators, &options, NULL, &mesh, rank, &local, NULL, NULL, &err) !=
            EXG_OK ||
        exg_plan_rank(local, operators, NULL, &grid, NULL, NULL, &plan, &err) != EXG_OK ||
        exg_collective_trace_of(plan, arena, traces, &err) != EXG_OK) {
        fail_msg("%s: %s", err.code, err.message);
    }
    exg_plan_destroy(plan);
    exg_program_destroy(local);
    exg_program_destroy(program);
    exg_grid_close(&grid);
    exg_operators_destroy(operators);
}

static exg_status check(const made *by_rank, exg_error *err)
{
    static const exg_mesh_shape mesh = {1, {RANKS}, {NULL}};
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_collective_trace traces[RANKS];
    exg_status status;

    for (uint32_t r = 0; r < RANKS; r++) {
        issues_of(&by_rank[r], r, arena, &traces[r]);
        assert_true(traces[r].count > 0);
    }
    exg_error_clear(err);
    status = exg_collective_traces_check(traces, &mesh, 0, err);
    exg_arena_destroy(arena);
    return status;
}

static void plans_of_one_placement_fit(void **state)
{
    static const made all[][RANKS] = {
        {{EXG_PARTITION_TENSOR, 5, 7}, {EXG_PARTITION_TENSOR, 5, 7}, {EXG_PARTITION_TENSOR, 5, 7}},
        {{EXG_PARTITION_DATA, 5, 7}, {EXG_PARTITION_DATA, 5, 7}, {EXG_PARTITION_DATA, 5, 7}},
    };
    exg_error err;

    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (check(all[i], &err) != EXG_OK) {
            fail_msg("%s: %s", err.code, err.message);
        }
    }
}

static void other_collectives_on_one_rank_are_found(void **state)
{
    static const made broken[RANKS] = {
        {EXG_PARTITION_TENSOR, 5, 7}, {EXG_PARTITION_TENSOR, 5, 7}, {EXG_PARTITION_DATA, 5, 7}};
    exg_error err;

    (void)state;
    assert_int_equal(check(broken, &err), EXG_PEER);
    assert_string_equal(err.code, "COM-010");
    assert_non_null(strstr(err.message, "rank 2"));
    assert_non_null(strstr(err.message, "all_gather"));
    assert_non_null(strstr(err.message, "all_reduce"));
}

static void other_counts_on_one_rank_are_found(void **state)
{
    static const made broken[RANKS] = {
        {EXG_PARTITION_DATA, 5, 7}, {EXG_PARTITION_DATA, 6, 7}, {EXG_PARTITION_DATA, 5, 7}};
    exg_error err;

    (void)state;
    /* chunks of 5 rows are 2, 2, 1 long, of 6 rows 2, 2, 2: rank 2 sends one, rank 1 expects two */
    assert_int_equal(check(broken, &err), EXG_PEER);
    assert_string_equal(err.code, "COM-010");
    assert_non_null(strstr(err.message, "rank 2 sends 24 bytes to rank 1, which expects 48"));
}

static bool issue_alike(const exg_collective_trace *a, const exg_collective_trace *b)
{
    bool alike = a->count == b->count;

    for (uint32_t i = 0; alike && i < a->count; i++) {
        alike =
            a->items[i].what.kind == b->items[i].what.kind &&
            memcmp(a->items[i].in.sizes, b->items[i].in.sizes, sizeof(a->items[i].in.sizes)) == 0 &&
            memcmp(a->items[i].out.sizes, b->items[i].out.sizes, sizeof(a->items[i].out.sizes)) ==
                0;
    }
    return alike;
}

#define PLACES_MAX 12 /* ranks of a mesh of two dims */

typedef struct noted_plan {
    exg_collective_trace trace;
    exg_shard_pattern cuts[EXG_MESH_DIMS_MAX];
} noted_plan;

static void plan_noting(const exg_program *program, const exg_operators *operators,
                        const exg_mesh_shape *mesh, const exg_partition_mode *modes, uint32_t rank,
                        exg_arena *arena, noted_plan *plan)
{
    exg_partition_options options[EXG_MESH_DIMS_MAX];
    exg_program *local = NULL;
    exg_plan *whole = NULL;
    exg_partition_summary summary;
    exg_partitioning placing;
    exg_grid grid;

    for (uint32_t d = 0; d < mesh->ndim; d++) {
        options[d] = (exg_partition_options){.size = sizeof(options[d]), .mode = modes[d]};
    }
    assert_int_equal(exg_paper_grid(mesh, rank, false, &grid, NULL), EXG_OK);
    assert_int_equal(exg_partitioning_read(&placing, options, NULL, mesh, NULL), EXG_OK);
    assert_int_equal(exg_partition_noting(program, operators, placing.options, &placing.goal, mesh,
                                          rank, UINT32_MAX, plan->cuts, NULL, NULL, &local,
                                          &summary, NULL, NULL),
                     EXG_OK);
    assert_int_equal(exg_plan_rank(local, operators, NULL, &grid, NULL, NULL, &whole, NULL),
                     EXG_OK);
    assert_int_equal(exg_collective_trace_of(whole, arena, &plan->trace, NULL), EXG_OK);
    exg_plan_destroy(whole);
    exg_program_destroy(local);
    exg_grid_close(&grid);
}

/* What the proof takes from one rank for another holds of the other's own plan. */
static void check_alike(const exg_program *program, const exg_operators *operators,
                        const exg_mesh_shape *mesh, const exg_partition_mode *modes)
{
    const uint32_t size = exg_mesh_shape_size(mesh);
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    noted_plan *plans = EXG_NEW_ARRAY(arena, noted_plan, size);

    for (uint32_t r = 0; r < size; r++) {
        plan_noting(program, operators, mesh, modes, r, arena, &plans[r]);
    }
    for (uint32_t r = 0; r < size; r++) {
        uint32_t like = 0; /* dim by dim, as those that share the places before see it */

        for (uint32_t d = 0; d < mesh->ndim; d++) {
            uint32_t own = exg_mesh_shape_coordinate(mesh, r, d);
            uint32_t place = 0;

            while (!exg_equal_shards(&plans[like].cuts[d], mesh->sizes[d], place, own)) {
                place++;
            }
            like += place * exg_mesh_shape_stride(mesh, d);
        }
        if (!issue_alike(&plans[r].trace, &plans[like].trace)) {
            fail_msg("modes %d %d over %ux%u: rank %u is not like %u", modes[0], modes[1],
                     mesh->sizes[0], mesh->ndim > 1 ? mesh->sizes[1] : 1, r, like);
        }
    }
    exg_arena_destroy(arena);
}

static void ranks_cut_alike_issue_the_same(void **state)
{
    static const exg_partition_mode pairs[][2] = {{EXG_PARTITION_FSDP, EXG_PARTITION_TENSOR},
                                                  {EXG_PARTITION_TENSOR, EXG_PARTITION_FSDP},
                                                  {EXG_PARTITION_FSDP, EXG_PARTITION_FSDP},
                                                  {EXG_PARTITION_DATA, EXG_PARTITION_TENSOR},
                                                  {EXG_PARTITION_FSDP, EXG_PARTITION_DATA}};
    /* of the second all but parts of parts are even: 8 over 3 are 3, 3 and 2, and those over 4 */
    static const int64_t sizes[][3] = {{5, 8, 7}, {60, 60, 8}};
    exg_operators *operators;

    (void)state;
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        exg_program *program = make(operators, sizes[s][0], sizes[s][1], sizes[s][2]);

        for (uint32_t n = 2; n <= 7; n++) {
            exg_mesh_shape line = {1, {n}, {NULL}};

            for (int mode = EXG_PARTITION_REPLICATE; mode < EXG_PARTITION_AUTO; mode++) {
                exg_partition_mode modes[2] = {(exg_partition_mode)mode, EXG_PARTITION_REPLICATE};

                check_alike(program, operators, &line, modes);
            }
            for (uint32_t m = 2; n * m <= PLACES_MAX; m++) {
                exg_mesh_shape mesh = {2, {n, m}, {NULL}};

                for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
                    check_alike(program, operators, &mesh, pairs[i]);
                }
            }
        }
        exg_program_destroy(program);
    }
    exg_operators_destroy(operators);
}

/* A rank that never ends what it begins, or begins ever more before it does. */
static void ends_out_of_order_are_found(void **state)
{
    static const made fsdp = {EXG_PARTITION_FSDP, 5, 7};
    static const exg_mesh_shape mesh = {1, {RANKS}, {NULL}};
    static const uint32_t begun[] = {0, EXG_EXCHANGES_MAX};
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_collective_trace traces[RANKS];
    exg_error err;

    (void)state;
    for (uint32_t r = 0; r < RANKS; r++) {
        issues_of(&fsdp, r, arena, &traces[r]);
    }
    assert_true(traces[0].count > 1 && traces[0].items[0].begun > 1); /* two under way */
    assert_int_equal(exg_collective_traces_check(traces, &mesh, 0, &err), EXG_OK);
    for (int i = 0; i < 2; i++) {
        traces[1].items[0].begun = begun[i];
        assert_int_equal(exg_collective_traces_check(traces, &mesh, 0, &err), EXG_PEER);
        assert_string_equal(err.code, "COM-010");
        assert_non_null(strstr(err.message, "rank 1"));
    }
    exg_arena_destroy(arena);
}

/* ---- a rank's own bytes ----------------------------------------------------------------- */

typedef struct reads {
    uint64_t first, end; /* of all reads */
} reads;

static exg_status note_read(void *user, uint64_t offset, uint64_t length, void *out, exg_error *err)
{
    reads *r = user;

    (void)err;
    memset(out, 0, length);
    r->first = offset < r->first ? offset : r->first;
    r->end = offset + length > r->end ? offset + length : r->end;
    return EXG_OK;
}

/* Weight w1 of 64 rows by 6, split by rows over 4 ranks, made when it is read. */
static void a_rank_reads_its_own_bytes_of_a_weight(void **state)
{
    static const exg_mesh_shape mesh = {1, {4}, {NULL}};
    static const exg_partition_pattern pattern = {"w1", {EXG_SHARD, 0, EXG_REDUCE_SUM}};
    exg_partition_options options = {.size = sizeof(options),
                                     .mode = EXG_PARTITION_PATTERNS,
                                     .patterns = &pattern,
                                     .pattern_count = 1};
    exg_operators *operators;

    (void)state;
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    for (uint32_t r = 0; r < 4; r++) {
        reads seen = {UINT64_MAX, 0};
        exg_program *program = make(operators, 5, 64, 6);
        exg_program *local = NULL;
        exg_weight_store *memory = NULL;
        exg_plan_executor *rank = NULL;
        exg_plan *plan = NULL;
        exg_grid grid;
        exg_error err;
        exg_storage *storage = &program->weights->storages[0];

        storage->kind = EXG_STORAGE_MADE;
        storage->maker = (exg_storage_maker){note_read, &seen};
        assert_int_equal(exg_paper_grid(&mesh, r, false, &grid, NULL), EXG_OK);
        if (exg_partition(program, operators, &options, NULL, &mesh, r, &local, NULL, NULL, &err) !=
                EXG_OK ||
            exg_plan_rank(local, operators, NULL, &grid, NULL, NULL, &plan, &err) != EXG_OK ||
            exg_weight_store_create(program->weights, NULL, &memory, &err) != EXG_OK ||
            exg_plan_executor_create(plan, memory, NULL, &grid, NULL, 0, 0, &rank, &err) !=
                EXG_OK) {
            fail_msg("%s: %s", err.code, err.message);
        }
        assert_int_equal(seen.first, r * 16 * 6 * sizeof(float));
        assert_int_equal(seen.end, (r + 1) * 16 * 6 * sizeof(float));
        exg_plan_executor_destroy(rank);
        exg_weight_store_destroy(memory);
        exg_program_destroy(local);
        exg_program_destroy(program);
        exg_grid_close(&grid);
    }
    exg_operators_destroy(operators);
}

/* ---- a rank that hangs ------------------------------------------------------------------ */

static _Atomic bool released;
static _Atomic bool caught;
static uint8_t *pages;
static size_t page;

/* The thread that touched the page stays here until it is let go. */
static void hold(int number)
{
    (void)number;
    atomic_store(&caught, true);
    while (!atomic_load(&released)) {
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    mprotect(pages + page, page, PROT_READ);
}

static uint64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Rank 1's rows of the input lie in a page that cannot be read. */
static void a_rank_that_hangs_ends_the_run_in_time(void **state)
{
    static exg_session *kept; /* as a session that lost a rank is */
    exg_session_options options = {
        .size = sizeof(options), .mesh = {1, {RANKS}}, .timeout_ns = 1000 * 1000 * 1000};
    exg_operators *operators;
    exg_verified verified;
    exg_session_input input = {.name = "x"};
    exg_program *program;
    exg_error err;
    uint64_t start;

    (void)state;
    page = (size_t)sysconf(_SC_PAGESIZE);
    pages = mmap(NULL, RANKS * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    assert_int_equal(mprotect(pages + page, page, PROT_NONE), 0);
    signal(SIGSEGV, hold);
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    program = make(operators, RANKS, (int64_t)(page / sizeof(float)), 0);
    options.partition =
        &(exg_partition_options){.size = sizeof(exg_partition_options), .mode = EXG_PARTITION_DATA};
    assert_int_equal(exg_verify(program, operators, &verified, NULL, &err), EXG_OK);
    assert_int_equal(exg_session_create(&verified, &options, &kept, &err), EXG_OK);
    input.tensor = (exg_tensor){.data = pages,
                                .dtype = EXG_DTYPE_F32,
                                .rank = 2,
                                .sizes = {RANKS, (int64_t)(page / sizeof(float))}};
    exg_tensor_set_contiguous(&input.tensor);
    start = now_ms();
    assert_int_equal(exg_session_run(kept, &input, 1, &err), EXG_PEER);
    assert_true(atomic_load(&caught));
    assert_true(now_ms() - start < 5000); /* it would last for ever */
    assert_string_equal(err.code, "COM-001");
    assert_non_null(strstr(err.message, "rank 1"));
    assert_non_null(strstr(err.where, "rank 1, node 'relu"));
    assert_int_equal(exg_session_run(kept, &input, 1, &err), EXG_USAGE);
    exg_session_destroy(kept); /* leaves what the thread may use */
    atomic_store(&released, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(positions_without_dims_are_not_cut),
        cmocka_unit_test(dims_shorter_than_the_mesh_are_split),
        cmocka_unit_test(a_program_with_moves_is_not_placed),
        cmocka_unit_test(plans_of_one_placement_fit),
        cmocka_unit_test(other_collectives_on_one_rank_are_found),
        cmocka_unit_test(other_counts_on_one_rank_are_found),
        cmocka_unit_test(ends_out_of_order_are_found),
        cmocka_unit_test(ranks_cut_alike_issue_the_same),
        cmocka_unit_test(a_rank_reads_its_own_bytes_of_a_weight),
        cmocka_unit_test(a_rank_that_hangs_ends_the_run_in_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
