/* parallel.c - programs that are already parallel: a session on each rank of a mesh of threads.
 * What they compute PyTorch says (tests/cli/parallel.py); here is what ranks agree on, and how they
 * end. */
#include "libexec/comm/team.h"
#include "libexport/transform/process_groups.h"

#include <exg/emit.h>
#include <exg/exec.h>
#include <exg/export.h>
#include <exg/operator_id_new.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define RANKS      4
#define WORD(text) exg_arg_string(text)

/* What a rank's program is, which may differ from that of others. */
typedef enum kind {
    SUMS,          /* x summed along the groups "a" and "b", one after the other */
    UNUSED_SUM,    /* the sum along "a" is not used */
    TAKES,         /* x summed along "a", of which an index is taken that is given */
    LARGEST,       /* the largest of "a", in the place of the sum */
    AVERAGE,       /* and the mean, which gloo has not */
    AVERAGE_INDEX, /* of integers, which nobody has */
    ALONE,         /* no collective */
    OF_FOUR,       /* for a group of four */
    UNKNOWN        /* an operator that is not known */
} kind;

static exg_program *make(const exg_operators *operators, kind of)
{
    exg_program *program;
    exg_builder *b;
    exg_error err;
    exg_tensor_meta meta;
    exg_tensor_meta place;
    exg_ref x;
    exg_ref index;
    exg_ref sum;
    exg_argument y;

    assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &program, NULL), EXG_OK);
    assert_int_equal(exg_builder_create(operators, program, &b, NULL), EXG_OK);
    meta = exg_builder_meta(b, EXG_DTYPE_F32, (int64_t[]){2, 3}, 2);
    place = exg_builder_meta(b, EXG_DTYPE_I64, (int64_t[]){1}, 1);
    x = exg_builder_input(b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    index = exg_builder_input(b, "index", &place, EXG_INPUT_USER, NULL, EXG_UNSET);
    sum = of == ALONE     ? x
          : of == OF_FOUR ? EMIT(b, c10d_all_gather_into_tensor, x, exg_arg_int(4), WORD("a"))
                          : EMIT(b, c10d_all_reduce, x,
                                 WORD(of == LARGEST   ? "max"
                                      : of == AVERAGE ? "avg"
                                                      : "sum"),
                                 WORD("a"));
    if (of == AVERAGE_INDEX) {
        index = EMIT(b, c10d_all_reduce, index, WORD("avg"), WORD("a"));
    }
    if (of == SUMS) {
        sum = EMIT(b, c10d_all_reduce, sum, WORD("sum"), WORD("b"));
    } else if (of == UNUSED_SUM) {
        sum = EMIT(b, relu_default, x);
        sum = EMIT(b, c10d_all_reduce, sum, WORD("sum"), WORD("b"));
    } else if (of == UNKNOWN) {
        sum = EMIT(b, relu_default, sum);
    }
    y = exg_arg_ref(EMIT(b, index_select_default, sum, exg_arg_int(0), index));
    exg_builder_output(b, &y, EXG_OUTPUT_USER, NULL);
    if (exg_builder_finish(b, &err) != EXG_OK) {
        fail_msg("%s: %s", err.code, err.message);
    }
    for (uint32_t n = 0; of == UNKNOWN && n < program->graph->node_count; n++) {
        if (strstr(program->graph->nodes[n].target, "relu") != NULL) {
            program->graph->nodes[n].target = "torch.ops.mine.relu.default";
        }
    }
    return program;
}

static struct {
    exg_operators *operators;
    exg_program *programs[RANKS];
    exg_verified verified[RANKS];
    exg_device_mesh *meshes[RANKS];
    exg_session *sessions[RANKS];
    exg_status status[RANKS];
    exg_error errors[RANKS];
    float x[RANKS][6];
    int64_t index[RANKS];
    uint32_t has_no_index; /* ranks, by bit */
    const exg_process_group *groups;
    uint32_t group_count;
    uint64_t timeout_ns;
    exg_team *team;
} t;

static const uint32_t first[] = {0};
static const uint32_t second[] = {1};
static const uint32_t both[] = {0, 1};
static const exg_process_group by_dim[] = {{"a", first, 1}, {"b", second, 1}};

static void create_one(void *context, uint32_t r)
{
    exg_session_options options = {.size = sizeof(options),
                                   .device_mesh = t.meshes[r],
                                   .groups = t.groups,
                                   .group_count = t.group_count,
                                   .thread_count = 1,
                                   .timeout_ns = t.timeout_ns};

    (void)context;
    exg_error_clear(&t.errors[r]);
    t.status[r] = exg_session_create(&t.verified[r], &options, &t.sessions[r], &t.errors[r]);
}

static void run_one(void *context, uint32_t r)
{
    exg_session_input inputs[2] = {
        {.name = "x",
         .tensor = {.data = t.x[r], .dtype = EXG_DTYPE_F32, .rank = 2, .sizes = {2, 3}}},
        {.name = "index",
         .tensor = {.data = &t.index[r], .dtype = EXG_DTYPE_I64, .rank = 1, .sizes = {1}}}};

    (void)context;
    exg_tensor_set_contiguous(&inputs[0].tensor);
    exg_tensor_set_contiguous(&inputs[1].tensor);
    exg_error_clear(&t.errors[r]);
    t.status[r] = t.sessions[r] == NULL
                      ? EXG_USAGE
                      : exg_session_run(t.sessions[r], inputs,
                                        (t.has_no_index >> r & 1) != 0 ? 1 : 2, &t.errors[r]);
}

static void destroy_one(void *context, uint32_t r)
{
    (void)context;
    exg_session_destroy(t.sessions[r]);
    t.sessions[r] = NULL;
}

/* Ranks 0 to 3 of 2 x 2, each with a program of this kind. */
static void begin(const kind *kinds)
{
    static const exg_mesh_shape mesh = {2, {2, 2}, {NULL}, NULL};

    memset(&t, 0, sizeof(t));
    t.groups = by_dim;
    t.group_count = 2;
    t.timeout_ns = UINT64_C(20) * 1000000000u;
    assert_int_equal(exg_operators_create(&t.operators, NULL), EXG_OK);
    assert_int_equal(exg_local_mesh_create(&mesh, t.meshes, NULL), EXG_OK);
    assert_int_equal(exg_team_create(RANKS, &t.team, NULL), EXG_OK);
    for (uint32_t r = 0; r < RANKS; r++) {
        t.programs[r] = make(t.operators, kinds[r]);
        assert_int_equal(exg_verify(t.programs[r], t.operators, &t.verified[r], NULL, &t.errors[r]),
                         EXG_OK);
        for (uint32_t i = 0; i < 6; i++) {
            t.x[r][i] = (float)((r + 1) * 10 + i);
        }
    }
}

static void end(void)
{
    exg_team_run(t.team, destroy_one, NULL);
    exg_team_destroy(t.team);
    for (uint32_t r = 0; r < RANKS; r++) {
        exg_device_mesh_destroy(t.meshes[r]);
        exg_program_destroy(t.programs[r]);
    }
    exg_operators_destroy(t.operators);
}

static void create(void)
{
    exg_team_run(t.team, create_one, NULL);
}

static void run(void)
{
    exg_team_run(t.team, run_one, NULL);
}

static void all_are_well(void)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        if (t.status[r] != EXG_OK) {
            fail_msg("rank %u: %s: %s (%s)", r, t.errors[r].code, t.errors[r].message,
                     t.errors[r].where);
        }
    }
}

/* All fail; `rank` with the code, the others with it or with the news that one failed. */
static void all_fail(uint32_t rank, const char *code)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        bool told = strcmp(t.errors[r].code, code) == 0 ||
                    (r != rank && strcmp(t.errors[r].code, "COM-003") == 0);

        if (t.status[r] == EXG_OK || !told) {
            fail_msg("rank %u: status %d, '%s' %s; wants %s", r, (int)t.status[r], t.errors[r].code,
                     t.errors[r].message, code);
        }
    }
}

static float result(uint32_t r, uint32_t i)
{
    const exg_session_output *y = exg_session_output_at(t.sessions[r], 0);

    return ((const float *)y->tensor.data)[i];
}

/* Along "a" ranks 0 and 2 meet, and 1 and 3; then along "b" all have met. */
static void groups_lie_along_dims(void **state)
{
    static const kind kinds[] = {SUMS, SUMS, SUMS, SUMS};
    static const kind one[] = {TAKES, TAKES, TAKES, TAKES};
    static const exg_process_group whole[] = {{"a", both, 2}};

    (void)state;
    begin(kinds);
    create();
    for (uint32_t again = 0; again < 3; again++) {
        run();
        all_are_well();
        for (uint32_t r = 0; r < RANKS; r++) {
            assert_float_equal(result(r, 0), 100, 0);
            assert_float_equal(result(r, 2), 108, 0);
        }
    }
    end();
    begin(one);
    t.group_count = 1;
    create();
    run();
    all_are_well();
    assert_float_equal(result(0, 0), 40, 0);
    assert_float_equal(result(3, 1), 62, 0);
    assert_int_equal(exg_session_statistics(t.sessions[1])->partition->all_reduce_count, 1);
    assert_int_equal(exg_session_statistics(t.sessions[1])->partition->moved_bytes, 24);
    end();
    for (uint32_t named = 0; named < 2; named++) { /* which is what a group is by itself */
        begin(one);
        t.groups = whole;
        t.group_count = named;
        create();
        run();
        all_are_well();
        assert_float_equal(result(2, 0), 100, 0);
        end();
    }
}

static void averages_are_of_floats(void **state)
{
    static const kind floats[] = {AVERAGE, AVERAGE, AVERAGE, AVERAGE};
    static const kind integers[] = {AVERAGE_INDEX, AVERAGE_INDEX, AVERAGE_INDEX, AVERAGE_INDEX};

    (void)state;
    begin(floats);
    t.group_count = 0;
    create();
    run();
    all_are_well();
    assert_float_equal(result(3, 1), 26, 0);
    end();
    begin(integers);
    t.group_count = 0;
    create();
    all_are_well();
    run();
    all_fail(0, "COM-006");
    end();
}

/* A rank that does not use what a collective gives is met there by one that does. */
static void collectives_without_a_reader_are_called(void **state)
{
    static const kind kinds[] = {SUMS, SUMS, UNUSED_SUM, UNUSED_SUM};

    (void)state;
    begin(kinds);
    create();
    run();
    all_are_well();
    assert_float_equal(result(0, 0), 100, 0);
    assert_float_equal(result(2, 0), 70, 0);
    end();
}

static void a_fault_of_one_is_that_of_all(void **state)
{
    static const struct {
        kind kinds[RANKS];
        uint32_t rank;
        const char *code;
    } rows[] = {
        {{TAKES, TAKES, TAKES, OF_FOUR}, 3, "COM-013"},
        {{TAKES, UNKNOWN, TAKES, TAKES}, 1, "OPR-003"},
        {{TAKES, TAKES, LARGEST, TAKES}, 2, "COM-009"},
        {{ALONE, TAKES, TAKES, TAKES}, 0, "COM-009"},
        {{SUMS, TAKES, SUMS, TAKES}, 0, "COM-009"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        begin(rows[i].kinds);
        t.group_count = rows[i].kinds[0] == SUMS ? 2 : 1; /* "b" is of sums alone */
        create();
        all_fail(rows[i].rank, rows[i].code);
        end();
    }
}

/* One that fails in its last steps has met the others in all collectives: their sessions stay. */
static void data_at_fault_end_a_run_on_all(void **state)
{
    static const kind kinds[] = {TAKES, TAKES, TAKES, TAKES};

    (void)state;
    begin(kinds);
    t.group_count = 1;
    create();
    t.index[2] = 7;
    run();
    all_fail(2, "RUN-001");
    assert_non_null(strstr(t.errors[0].where, "rank 2"));
    t.index[2] = 1;
    run();
    all_are_well();
    assert_float_equal(result(2, 0), 46, 0);
    end();
}

static void inputs_that_do_not_fit_end_a_run_on_all(void **state)
{
    static const kind kinds[] = {ALONE, ALONE, ALONE, ALONE};

    (void)state;
    begin(kinds);
    t.groups = NULL;
    t.group_count = 0;
    create();
    all_are_well();
    run();
    all_are_well();
    assert_float_equal(result(3, 0), 40, 0);
    t.has_no_index = 1u << 2;
    run();
    all_fail(2, "INP-002");
    t.has_no_index = 0;
    run(); /* nothing had begun */
    all_are_well();
    end();
}

static void groups_are_looked_at(void **state)
{
    static const kind kinds[] = {TAKES, TAKES, TAKES, TAKES};
    static const uint32_t third[] = {2};
    static const uint32_t turned[] = {1, 0};
    static const exg_process_group rows[][2] = {
        {{"a", first, 1}, {"nobody", second, 1}},
        {{"a", third, 1}, {NULL}},
        {{"a", turned, 2}, {NULL}},
        {{"a", first, 0}, {NULL}},
        {{"a", first, 1}, {"a", second, 1}},
        {{"", first, 1}, {NULL}},
        {{NULL, first, 1}, {NULL}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        begin(kinds);
        t.groups = rows[i];
        t.group_count = rows[i][1].name == NULL ? 1 : 2;
        create();
        all_fail(0, "COM-014");
        end();
    }
}

/* Without a mesh groups are of one; on a mesh that is no rank's own nothing goes on. */
static void meshes_are_ranks_own(void **state)
{
    static const kind kinds[] = {TAKES, ALONE, TAKES, TAKES};
    exg_partition_options tensor = {.size = sizeof(tensor), .mode = EXG_PARTITION_TENSOR};
    exg_session_options options = {.size = sizeof(options)};
    exg_session *session = NULL;
    exg_error err;

    (void)state;
    begin(kinds);
    assert_true(exg_program_has_collectives(t.programs[0], t.operators));
    assert_false(exg_program_has_collectives(t.programs[1], t.operators));
    assert_int_equal(exg_session_create(&t.verified[0], &options, &t.sessions[0], &err), EXG_OK);
    run_one(NULL, 0);
    assert_int_equal(t.status[0], EXG_OK);
    assert_float_equal(result(0, 0), 10, 0);
    options.mesh = (exg_mesh_shape){1, {2}, {NULL}, NULL};
    assert_int_equal(exg_session_create(&t.verified[0], &options, &session, &err), EXG_UNSUPPORTED);
    assert_string_equal(err.code, "COM-015");
    options.plan_only = true;
    options.partition = &tensor;
    assert_int_equal(exg_session_create(&t.verified[0], &options, &session, &err), EXG_UNSUPPORTED);
    assert_string_equal(err.code, "COM-015");
    options.partition = NULL;
    options.mesh.ndim = 99;
    assert_int_equal(exg_session_create(&t.verified[0], &options, &session, &err), EXG_USAGE);
    assert_string_equal(err.code, "DTN-001");
    options.mesh = (exg_mesh_shape){2, {40000, 2}, {NULL}, NULL}; /* ranks on paper */
    options.groups = by_dim + 1;
    options.group_count = 1;
    assert_int_equal(exg_session_create(&t.verified[0], &options, &session, &err), EXG_USAGE);
    assert_string_equal(err.code, "COM-014");
    options.group_count = 0;
    assert_int_equal(exg_session_create(&t.verified[0], &options, &session, &err), EXG_OK);
    exg_session_destroy(session);
    options.plan_only = false;
    options.device_mesh = t.meshes[0];
    assert_int_equal(exg_session_create(&t.verified[0], &options, &session, &err), EXG_USAGE);
    assert_string_equal(err.code, "COM-015");
    options = (exg_session_options){.size = sizeof(options), .groups = by_dim, .group_count = 2};
    assert_int_equal(exg_session_create(&t.verified[1], &options, &session, &err), EXG_USAGE);
    assert_string_equal(err.code, "COM-014");
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_lie_along_dims),
        cmocka_unit_test(averages_are_of_floats),
        cmocka_unit_test(collectives_without_a_reader_are_called),
        cmocka_unit_test(a_fault_of_one_is_that_of_all),
        cmocka_unit_test(data_at_fault_end_a_run_on_all),
        cmocka_unit_test(inputs_that_do_not_fit_end_a_run_on_all),
        cmocka_unit_test(groups_are_looked_at),
        cmocka_unit_test(meshes_are_ranks_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
