/* heads.c - fewer heads of keys and values than ranks, and products that were made one: `tensor`
 * keeps Megatron's scheme, in which an attention and its products take one sum over the ranks, as
 * those after it do, and nothing else is moved. */
#include "tests/exec/session/fixture.h"

#include <stdio.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define BYTES (2 * 5 * 24 * 4) /* of what is summed */

static exg_session *run_placed(const loaded *l, const exg_mesh_shape *mesh,
                               const exg_partition_options *place)
{
    exg_session_options options = {
        .size = sizeof(options), .thread_count = 1, .mesh = *mesh, .partition = place};
    exg_session *session = open_session(l, &options);
    char what[40];

    run_fixture(l, session);
    snprintf(what, sizeof(what), "placed over %ux%u", mesh->sizes[0],
             mesh->ndim > 1 ? mesh->sizes[1] : 1);
    compare_with_expected(l, session, what);
    return session;
}

static exg_session *place_and_run(const loaded *l, const exg_mesh_shape *mesh)
{
    exg_partition_options place[2] = {
        {.size = sizeof(place[0]), .mode = EXG_PARTITION_TENSOR},
        {.size = sizeof(place[0]), .mode = EXG_PARTITION_TENSOR},
    };

    return run_placed(l, mesh, place);
}

static void expect_sums(const char *program, uint32_t sums)
{
    static const uint32_t ranks[] = {2, 3, 4, 6, 12};
    loaded l;

    load_fixture(fixture_named(program), &l);
    for (size_t r = 0; r < sizeof(ranks) / sizeof(ranks[0]); r++) {
        uint32_t n = ranks[r];
        exg_session *session = place_and_run(&l, &(exg_mesh_shape){1, {n}});
        const exg_partition_summary *sum = exg_session_statistics(session)->partition;

        assert_int_equal(sum->all_to_all_count, 0);
        assert_int_equal(sum->all_reduce_count + sum->reduce_scatter_count, sums);
        assert_int_equal(sum->all_gather_count, sum->reduce_scatter_count);
        assert_int_equal(sum->moved_bytes, sums * 2 * BYTES / n * (n - 1));
        exg_session_destroy(session);
    }
    unload_fixture(&l);
}

/* 12 heads of queries; 4, 3, 1 and 6 of keys and values. */
static void a_head_is_on_as_many_ranks_as_need_it(void **state)
{
    (void)state;
    expect_sums("grouped.pt2", 4);
}

/* Queries, keys and values, gate and product: as if each were by itself. */
static void parts_of_a_product_are_split_each(void **state)
{
    (void)state;
    expect_sums("joined.pt2", 8);
}

/* 14 heads of queries for two of keys, of which 1024 are at hand on every rank: none of them is
 * moved, nor put together in parts. */
static void what_is_at_hand_stays_where_heads_do_not_divide(void **state)
{
    static const uint32_t ranks[] = {2, 3, 4, 5, 8};
    loaded l;

    (void)state;
    load_fixture(fixture_named("cached.pt2"), &l);
    for (size_t r = 0; r < sizeof(ranks) / sizeof(ranks[0]); r++) {
        exg_session *session = place_and_run(&l, &(exg_mesh_shape){1, {ranks[r]}});
        uint64_t moved = exg_session_statistics(session)->partition->moved_bytes;

        if (moved > 1000) { /* the products' are below, the keys' are 32768 */
            fail_msg("over %u: %llu bytes", ranks[r], (unsigned long long)moved);
        }
        exg_session_destroy(session);
    }
    unload_fixture(&l);
}

/* 4, 4, 4 and 2 of 14 heads, of which 7 see one of keys: a rank's own may begin and end amid them;
 * and over 9 some ranks have none. */
static void queries_are_split_where_they_are_as_many_as_they_are(void **state)
{
    static const uint32_t ranks[] = {2, 3, 4, 5, 6, 9};
    const exg_partition_pattern queries = {
        .pattern = "transpose", .placement = exg_shard(1), .of = EXG_PARTITION_ACTIVATIONS};
    const exg_partition_options place = {.size = sizeof(place),
                                         .mode = EXG_PARTITION_PATTERNS,
                                         .patterns = &queries,
                                         .pattern_count = 1};
    loaded l;

    (void)state;
    load_fixture(fixture_named("cached.pt2"), &l);
    for (size_t r = 0; r < sizeof(ranks) / sizeof(ranks[0]); r++) {
        exg_session_destroy(run_placed(&l, &(exg_mesh_shape){1, {ranks[r]}}, &place));
    }
    unload_fixture(&l);
}

/* What is read in parts, and what only looks so. */
static void parts_of_any_kind_agree_with_pytorch(void **state)
{
    static const exg_mesh_shape meshes[] = {{1, {2}}, {1, {3}}, {1, {4}}, {1, {5}}, {2, {2, 2}}};
    loaded l;

    (void)state;
    load_fixture(fixture_named("parts.pt2"), &l);
    for (size_t m = 0; m < sizeof(meshes) / sizeof(meshes[0]); m++) {
        exg_session_destroy(place_and_run(&l, &meshes[m]));
    }
    unload_fixture(&l);
}

/* Along the second dim there are fewer heads still; over 5 and 8 ranks those of queries do not
 * divide. */
static void heads_over_any_mesh_agree_with_pytorch(void **state)
{
    static const exg_mesh_shape meshes[] = {{1, {5}},    {1, {8}},    {2, {2, 2}}, {2, {2, 4}},
                                            {2, {4, 2}}, {2, {2, 3}}, {2, {3, 2}}, {2, {4, 3}}};
    loaded l;

    (void)state;
    load_fixture(fixture_named("grouped.pt2"), &l);
    for (size_t m = 0; m < sizeof(meshes) / sizeof(meshes[0]); m++) {
        exg_session_destroy(place_and_run(&l, &meshes[m]));
    }
    unload_fixture(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_is_on_as_many_ranks_as_need_it),
        cmocka_unit_test(parts_of_a_product_are_split_each),
        cmocka_unit_test(what_is_at_hand_stays_where_heads_do_not_divide),
        cmocka_unit_test(queries_are_split_where_they_are_as_many_as_they_are),
        cmocka_unit_test(parts_of_any_kind_agree_with_pytorch),
        cmocka_unit_test(heads_over_any_mesh_agree_with_pytorch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
