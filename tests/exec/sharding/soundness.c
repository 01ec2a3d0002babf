/* soundness.c - a program split over 2, 3 and 4 ranks gives what it gives whole, in every
 * mode, the same bits with communication beside computation and without, and with every single
 * weight split along every dimension.
 * Uneven and empty shards come with the sizes: batches of 1 to 3 rows over 3 and 4 ranks. */
#include "tests/exec/session/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Placed along every mesh dim as `modes` says. */
static void check_grid(const loaded *l, const exg_partition_mode *modes, const exg_mesh_shape *mesh)
{
    exg_session_options options = {.size = sizeof(options), .thread_count = 1, .mesh = *mesh};
    exg_partition_options place[EXG_MESH_DIMS_MAX];
    bool replicates = true;
    size_t used = 0;
    const exg_session_stats *stats;
    exg_partition_mode taken[2][EXG_MESH_DIMS_MAX];
    uint64_t lengths[2];
    void *bytes[2];
    char what[100];

    for (uint32_t d = 0; d < mesh->ndim; d++) {
        place[d] = (exg_partition_options){.size = sizeof(place[d]), .mode = modes[d]};
        replicates = replicates && modes[d] == EXG_PARTITION_REPLICATE;
        used += (size_t)snprintf(what + used, sizeof(what) - used, "%s over %u ranks ",
                                 exg_partition_mode_name(modes[d]), mesh->sizes[d]);
    }
    options.partition = place;
    for (int twice = 0; twice < 2; twice++) {
        exg_session *session;

        options.plan = &(exg_plan_options){
            .size = sizeof(exg_plan_options),
            .overlap = twice == 0 ? EXG_OVERLAP_ON : EXG_OVERLAP_OFF,
        };
        session = open_session(l, &options);
        run_fixture(l, session);
        compare_with_expected(l, session, what);
        bytes[twice] = result_bytes(session, &lengths[twice]);
        stats = exg_session_statistics(session);
        memcpy(taken[twice], stats->partition->modes, sizeof(taken[twice]));
        if (replicates && stats->partition->moved_bytes != 0) {
            fail_msg("%s, %s: moves %llu bytes", l->fixture->program, what,
                     (unsigned long long)stats->partition->moved_bytes);
        }
        exg_session_destroy(session);
    }
    if (memcmp(taken[0], taken[1], sizeof(taken[0])) == 0 && /* AUTO goes by the time */
        (lengths[0] != lengths[1] || memcmp(bytes[0], bytes[1], lengths[0]) != 0)) {
        fail_msg("%s, %s: other bits without overlap", l->fixture->program, what);
    }
    free(bytes[0]);
    free(bytes[1]);
}

static void check(const loaded *l, exg_partition_mode mode, uint32_t mesh)
{
    check_grid(l, &mode, &(exg_mesh_shape){1, {mesh}});
}

/* Under sanitizers a sixth of the programs: they are slow, and the code is the same. */
static bool is_left_out(uint32_t i)
{
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    return i % 6 != 0;
#else
    (void)i;
    return false;
#endif
}

/* Meshes of two and three dims: what is placed along one is placed again along the next. */
static void programs_on_grids_agree_with_pytorch(void **state)
{
    static const struct {
        exg_mesh_shape mesh;
        exg_partition_mode modes[3];
    } rows[] = {
        {{2, {2, 2}}, {EXG_PARTITION_DATA, EXG_PARTITION_TENSOR}},
        {{2, {2, 2}}, {EXG_PARTITION_TENSOR, EXG_PARTITION_DATA}},
        {{2, {2, 2}}, {EXG_PARTITION_TENSOR, EXG_PARTITION_TENSOR}},
        {{2, {2, 3}}, {EXG_PARTITION_DATA, EXG_PARTITION_DATA}},
        {{2, {3, 2}}, {EXG_PARTITION_AUTO, EXG_PARTITION_AUTO}},
        {{2, {2, 2}}, {EXG_PARTITION_FSDP, EXG_PARTITION_TENSOR}},
        {{2, {2, 2}}, {EXG_PARTITION_SEQUENCE, EXG_PARTITION_FSDP}},
        {{2, {2, 2}}, {EXG_PARTITION_EXPERT, EXG_PARTITION_CONTEXT}},
        {{2, {2, 2}}, {EXG_PARTITION_PIPELINE, EXG_PARTITION_TENSOR}},
        {{2, {2, 3}}, {EXG_PARTITION_DATA, EXG_PARTITION_PIPELINE}},
        {{2, {3, 2}}, {EXG_PARTITION_PIPELINE, EXG_PARTITION_FSDP}},
        {{3, {2, 1, 2}}, {EXG_PARTITION_TENSOR, EXG_PARTITION_DATA, EXG_PARTITION_TENSOR}},
    };

    (void)state;
    for (uint32_t i = 0; i < fixture_count; i++) {
        loaded l;

        if (is_left_out(i)) {
            continue;
        }
        load_fixture(&fixtures[i], &l);
        for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
            check_grid(&l, rows[r].modes, &rows[r].mesh);
        }
        unload_fixture(&l);
    }
}

static void check_mode(exg_partition_mode mode)
{
    for (uint32_t i = 0; i < fixture_count; i++) {
        loaded l;

        if (is_left_out(i)) {
            continue;
        }
        load_fixture(&fixtures[i], &l);
        for (uint32_t mesh = 2; mesh <= 4; mesh++) {
            check(&l, mode, mesh);
        }
        unload_fixture(&l);
    }
}

static void replicated_programs_agree_with_pytorch(void **state)
{
    (void)state;
    check_mode(EXG_PARTITION_REPLICATE);
}

static void programs_split_by_data_agree_with_pytorch(void **state)
{
    (void)state;
    check_mode(EXG_PARTITION_DATA);
}

static void programs_split_by_tensor_agree_with_pytorch(void **state)
{
    (void)state;
    check_mode(EXG_PARTITION_TENSOR);
}

static void programs_with_weights_in_pieces_agree_with_pytorch(void **state)
{
    (void)state;
    check_mode(EXG_PARTITION_FSDP);
}

static void programs_split_by_position_agree_with_pytorch(void **state)
{
    (void)state;
    check_mode(EXG_PARTITION_SEQUENCE);
}

static void programs_split_by_context_agree_with_pytorch(void **state)
{
    (void)state;
    check_mode(EXG_PARTITION_CONTEXT);
}

static void programs_split_by_expert_agree_with_pytorch(void **state)
{
    (void)state;
    check_mode(EXG_PARTITION_EXPERT);
}

static void programs_in_stages_agree_with_pytorch(void **state)
{
    (void)state;
    check_mode(EXG_PARTITION_PIPELINE);
}

static void programs_placed_by_cost_agree_with_pytorch(void **state)
{
    (void)state;
    check_mode(EXG_PARTITION_AUTO);
}

static void check_pattern(const loaded *l, const char *pattern, exg_placement placement,
                          uint32_t mesh)
{
    exg_partition_pattern row = {pattern, placement};
    exg_session_options options = {
        .size = sizeof(options), .thread_count = 1, .mesh = {mesh > 0, {mesh}}};
    exg_session *session;
    char what[64];
    char text[EXG_PLACEMENT_TEXT];

    options.partition = &(exg_partition_options){.size = sizeof(exg_partition_options),
                                                 .mode = EXG_PARTITION_PATTERNS,
                                                 .patterns = &row,
                                                 .pattern_count = 1};
    (void)exg_placement_print(placement, text);
    snprintf(what, sizeof(what), "%s as %s on %u", pattern, text, mesh);
    session = open_session(l, &options);
    run_fixture(l, session);
    compare_with_expected(l, session, what);
    exg_session_destroy(session);
}

/* Every weight of these programs alone, split along every dimension: the rest follows. */
static void every_weight_may_be_split_along_every_dimension(void **state)
{
    static const char *const programs[] = {"mlp.pt2",         "tied.pt2",        "views.pt2",
                                           "convbn.eval.pt2", "convbn.core.pt2", "bf16.pt2",
                                           "integer.pt2"};

    (void)state;
    for (uint32_t i = 0; i < fixture_count; i++) {
        loaded l;
        bool listed = false;

        for (size_t p = 0; p < sizeof(programs) / sizeof(programs[0]); p++) {
            listed = listed || strcmp(programs[p], fixtures[i].program) == 0;
        }
        if (!listed) {
            continue;
        }
        load_fixture(&fixtures[i], &l);
        for (uint32_t w = 0; w < l.program->weights->count; w++) {
            const exg_weight *weight = &l.program->weights->items[w];

            for (uint32_t d = 0; weight->is_param && d < weight->meta->rank; d++) {
                for (uint32_t mesh = 2; mesh <= 4; mesh++) {
                    check_pattern(&l, weight->fqn, exg_shard((int32_t)d), mesh);
                }
            }
        }
        unload_fixture(&l);
    }
}

static void a_pattern_that_matches_nothing_is_told(void **state)
{
    static const exg_partition_pattern row = {"nothing.*", {EXG_SHARD, 0, EXG_REDUCE_SUM}};
    exg_session_options options = {.size = sizeof(options), .thread_count = 1, .mesh = {1, {2}}};
    exg_session *session = NULL;
    exg_error err;
    loaded l;
    exg_status status;

    (void)state;
    load_fixture(fixture_named("mlp.pt2"), &l);
    options.partition = &(exg_partition_options){.size = sizeof(exg_partition_options),
                                                 .mode = EXG_PARTITION_PATTERNS,
                                                 .patterns = &row,
                                                 .pattern_count = 1};
    status = exg_session_create(&l.verified, &options, &session, &err);
    if (status == EXG_OK) {
        exg_session_input input = {.name = "x"};
        float x[24] = {0};

        input.tensor = (exg_tensor){.data = x, .dtype = EXG_DTYPE_F32, .rank = 2, .sizes = {3, 8}};
        exg_tensor_set_contiguous(&input.tensor);
        status = exg_session_run(session, &input, 1, &err);
        exg_session_destroy(session);
    }
    assert_int_equal(status, EXG_USAGE);
    assert_string_equal(err.code, "PLC-005");
    unload_fixture(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicated_programs_agree_with_pytorch),
        cmocka_unit_test(programs_split_by_data_agree_with_pytorch),
        cmocka_unit_test(programs_split_by_tensor_agree_with_pytorch),
        cmocka_unit_test(programs_with_weights_in_pieces_agree_with_pytorch),
        cmocka_unit_test(programs_split_by_position_agree_with_pytorch),
        cmocka_unit_test(programs_split_by_context_agree_with_pytorch),
        cmocka_unit_test(programs_split_by_expert_agree_with_pytorch),
        cmocka_unit_test(programs_in_stages_agree_with_pytorch),
        cmocka_unit_test(programs_on_grids_agree_with_pytorch),
        cmocka_unit_test(programs_placed_by_cost_agree_with_pytorch),
        cmocka_unit_test(every_weight_may_be_split_along_every_dimension),
        cmocka_unit_test(a_pattern_that_matches_nothing_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
