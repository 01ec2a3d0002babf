/* agree.c - ranks agree on what they run before they run it: another program, or a fault of
 * one rank, is the same error on all, on meshes of one and of several dims. A rank that
 * hangs is named, and holds nobody up. */
#include "libexec/comm/grid.h"
#include "libexec/comm/team.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define RANKS_MAX 8

static struct job {
    exg_grid grids[RANKS_MAX];
    uint64_t digest[RANKS_MAX];
    exg_status brings[RANKS_MAX];
    exg_status status[RANKS_MAX];
    exg_error errors[RANKS_MAX];
} j;

static void agree(void *context, uint32_t r)
{
    const exg_common own[] = {{"program", 7}, {"weights", j.digest[r]}, {"seed", j.digest[r]}};

    (void)context;
    exg_error_clear(&j.errors[r]);
    if (j.brings[r] != EXG_OK) {
        (void)exg_error_set(&j.errors[r], __FILE__, __LINE__, j.brings[r], "INP-004",
                            "an input of rank %u", r);
    }
    j.status[r] = exg_grid_agree(&j.grids[r], own, 3, j.brings[r], &j.errors[r]);
}

static void on_mesh(const exg_mesh_shape *mesh)
{
    uint32_t size = exg_mesh_shape_size(mesh);
    exg_team *team;

    assert_int_equal(exg_local_grid(mesh, j.grids, NULL), EXG_OK);
    assert_int_equal(exg_team_create(size, &team, NULL), EXG_OK);
    exg_team_run(team, agree, NULL);
    exg_team_destroy(team);
    for (uint32_t r = 0; r < size; r++) {
        exg_grid_close(&j.grids[r]);
    }
}

static const exg_mesh_shape meshes[] = {
    {1, {2}, {NULL}}, {1, {5}, {NULL}}, {2, {2, 3}, {NULL}}, {3, {2, 2, 2}, {NULL}}};

#define MESHES (sizeof(meshes) / sizeof(meshes[0]))

static void ranks_with_one_program_agree(void **state)
{
    (void)state;
    for (size_t m = 0; m < MESHES; m++) {
        memset(&j, 0, sizeof(j));
        on_mesh(&meshes[m]);
        for (uint32_t r = 0; r < exg_mesh_shape_size(&meshes[m]); r++) {
            assert_int_equal(j.status[r], EXG_OK);
        }
    }
}

static void another_program_is_the_same_error_on_every_rank(void **state)
{
    (void)state;
    for (size_t m = 0; m < MESHES; m++) {
        uint32_t size = exg_mesh_shape_size(&meshes[m]);

        for (uint32_t other = 0; other < size; other++) {
            memset(&j, 0, sizeof(j));
            j.digest[other] = 1;
            on_mesh(&meshes[m]);
            for (uint32_t r = 0; r < size; r++) {
                assert_int_equal(j.status[r], EXG_PEER);
                assert_string_equal(j.errors[r].code, "COM-009");
                assert_non_null(strstr(j.errors[r].message, ": weights, seed"));
            }
        }
    }
}

static void a_fault_of_one_rank_is_told_by_all(void **state)
{
    (void)state;
    for (size_t m = 0; m < MESHES; m++) {
        uint32_t size = exg_mesh_shape_size(&meshes[m]);

        for (uint32_t other = 0; other < size; other++) {
            char where[32];

            memset(&j, 0, sizeof(j));
            j.brings[other] = EXG_USAGE;
            j.digest[other] = 1;
            on_mesh(&meshes[m]);
            snprintf(where, sizeof(where), "rank %u", other);
            for (uint32_t r = 0; r < size; r++) {
                assert_int_equal(j.status[r], EXG_USAGE);
                assert_string_equal(j.errors[r].code, "INP-004");
                assert_string_equal(j.errors[r].where, where);
            }
        }
    }
}

/* ---- watched teams -------------------------------------------------------------------- */

static _Atomic bool released;
static _Atomic uint32_t came;

static void all_but_one(void *context, uint32_t r)
{
    const uint32_t *hangs = context;

    while (r == *hangs && !atomic_load(&released)) {
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    atomic_fetch_add(&came, 1);
}

static void a_rank_that_hangs_is_named(void **state)
{
    exg_team *team;

    (void)state;
    for (uint32_t hangs = 0; hangs < 3; hangs++) {
        atomic_store(&released, false);
        atomic_store(&came, 0);
        assert_int_equal(exg_team_create_watched(3, &team, NULL), EXG_OK);
        assert_int_equal(exg_team_watch(team, all_but_one, &hangs, 500 * 1000 * 1000), hangs);
        atomic_store(&released, true);
        while (atomic_load(&came) < 3) {
            nanosleep(&(struct timespec){0, 1000000}, NULL);
        }
        exg_team_destroy(team); /* it came back after all, so this is allowed */
    }
}

static void a_watched_team_that_comes_back_is_whole(void **state)
{
    exg_team *team;
    uint32_t nobody = EXG_NO_RANK;

    (void)state;
    atomic_store(&came, 0);
    assert_int_equal(exg_team_create_watched(4, &team, NULL), EXG_OK);
    for (uint32_t i = 1; i <= 100; i++) {
        assert_int_equal(exg_team_watch(team, all_but_one, &nobody, UINT64_C(60000000000)),
                         EXG_NO_RANK);
        assert_int_equal(atomic_load(&came), 4 * i);
    }
    exg_team_destroy(team);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_with_one_program_agree),
        cmocka_unit_test(another_program_is_the_same_error_on_every_rank),
        cmocka_unit_test(a_fault_of_one_rank_is_told_by_all),
        cmocka_unit_test(a_rank_that_hangs_is_named),
        cmocka_unit_test(a_watched_team_that_comes_back_is_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
