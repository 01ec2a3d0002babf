/* redistribute.c - every pair of placement lists on every mesh, against the whole tensor;
 * what is sent; goldens of where parts lie.
 */
#include "tests/exec/dtensor/pairs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* S003-03, S003-12, S003-19, S003-35, S003-37, S003-53, S003-55, S003-60, S003-61, S003-62,
 * S003-63, S003-64, S003-65, S003-66, S003-73, S003-96 */
static void every_pair_gives_the_whole(void **state)
{
    static const char *const meshes[] = {"1", "2", "3", "4", "5", "2x2", "2x3", "2x2x2"};
    static const int64_t sizes[][2] = {{5, 3}, {4, 8}, {1, 4}, {0, 3}, {9, 2}};

    (void)state;
    for (size_t m = 0; m < sizeof(meshes) / sizeof(meshes[0]); m++) {
        for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
            if (strlen(meshes[m]) < 5 || s == 0) { /* the largest mesh has 2000 pairs a size */
                on_mesh(meshes[m], check_pairs, &(pairs){sizes[s], 2, EXG_REDUCE_SUM});
            }
        }
        on_mesh(meshes[m], check_pairs, &(pairs){(int64_t[]){7}, 1, EXG_REDUCE_AVG});
        on_mesh(meshes[m], check_pairs, &(pairs){(int64_t[]){6}, 1, EXG_REDUCE_MAX});
        on_mesh(meshes[m], check_pairs, &(pairs){(int64_t[]){3}, 1, EXG_REDUCE_MIN});
        on_mesh(meshes[m], check_pairs, &(pairs){(int64_t[]){4}, 1, EXG_REDUCE_PRODUCT});
        on_mesh(meshes[m], check_pairs, &(pairs){(int64_t[]){0}, 0, EXG_REDUCE_SUM});
    }
    on_mesh("2x2", check_pairs, &(pairs){(int64_t[]){3, 2, 5}, 3, EXG_REDUCE_SUM});
}

/* ---- what is sent --------------------------------------------------------------------------- */

typedef struct move {
    const char *from, *to;
    int64_t rows, columns;
    uint64_t bytes; /* sent by all ranks together; f32 */
} move;

static _Atomic uint64_t sent;

static void make_move(rank_context *c)
{
    const move *m = c->user;
    exg_placement from[EXG_MESH_DIMS_MAX];
    exg_placement to[EXG_MESH_DIMS_MAX];
    uint32_t count = placements_of(m->from, from);
    float data[NUMEL_MAX];
    int64_t sizes[2] = {m->rows, m->columns};
    int64_t strides[2] = {m->columns, 1};
    exg_from_local_options options = {sizeof(options), sizes, strides, false, false};
    exg_dtensor *t = NULL;
    exg_dtensor *moved = NULL;
    exg_tensor local;

    (void)placements_of(m->to, to);
    fill_part(c->mesh, from, sizes, 2, &local, data);
    EXPECT(c,
           exg_dtensor_from_local(c->mesh, &local, from, count, &options, &t, NULL) == EXG_OK &&
               exg_dtensor_redistribute(t, to, count, &moved, NULL) == EXG_OK,
           "no move");
    sent += exg_device_mesh_bytes_sent(c->mesh);
    exg_dtensor_destroy(moved);
    exg_dtensor_destroy(t);
}

/* Exchanges, and no byte more than each rank lacks. S003-03, S003-12, S003-58, S003-60,
 * S003-61, S003-62, S003-63, S003-64, S003-65 */
static void nothing_is_sent_that_is_there(void **state)
{
    static const struct {
        const char *mesh;
        uint64_t exchanges;
        move move;
    } rows[] = {
        {"4", 0, {"S(0)", "S(0)", 8, 4, 0}},
        {"4", 0, {"R", "S(1)", 8, 4, 0}},
        {"4", 1, {"S(0)", "R", 8, 4, 4 * 3 * 32}},       /* all_gather: 3 of 4 chunks each */
        {"4", 1, {"S(0)", "S(1)", 8, 4, 4 * 3 * 8}},     /* all_to_all: 3/4 of a chunk each */
        {"4", 1, {"P(sum)", "S(0)", 8, 4, 4 * 3 * 32}},  /* reduce_scatter */
        {"4", 2, {"P(sum)", "R", 8, 4, 2 * 4 * 3 * 32}}, /* all_reduce */
        {"2x2", 1, {"S(0) S(0)", "R R", 8, 4, 4 * 3 * 32}},
        {"2x2", 1, {"S(0) S(0)", "R S(0)", 8, 4, 4 * 32 + 2 * 32}},
        {"2x2", 1, {"S(0) S(1)", "S(1) S(0)", 8, 4, 2 * 32}},
        {"2x2", 1, {"R S(0)", "S(0) S(0)", 8, 4, 2 * 32}},
        {"2x2", 1, {"P(sum) P(sum)", "S(0) S(0)", 8, 4, 4 * 3 * 32}},
        {"2x2", 1, {"S(0) P(sum)", "S(0) S(0)", 8, 4, 4 * 32}},
        {"2x2", 0, {"S(0) R", "S(0) S(1)", 8, 4, 0}},
        {"2x2", 1, {"S(0) S(1)", "S(0) S(0)", 8, 4, 4 * 16}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t exchanges;

        sent = 0;
        exchanges = on_mesh(rows[i].mesh, make_move, &rows[i].move);
        if (exchanges != rows[i].exchanges || sent != rows[i].move.bytes) {
            fail_msg("%s => %s: %u exchanges, %u bytes; %u, %u expected", rows[i].move.from,
                     rows[i].move.to, (unsigned)exchanges, (unsigned)sent,
                     (unsigned)rows[i].exchanges, (unsigned)rows[i].move.bytes);
        }
    }
}

/* ---- where parts lie ------------------- */

/* Reference 1.1, 1.6. S003-77, S003-93, S003-94, S003-95, S003-96 */
static void parts_lie_where_pytorch_puts_them(void **state)
{
    static const struct {
        const char *mesh, *placements;
        int64_t sizes[2];
        uint32_t dim;
        int64_t lengths[8], offsets[8];
    } rows[] = {
        {"4", "S(0)", {5, 3}, 0, {2, 2, 1, 0}, {0, 2, 4, 5}},
        {"4", "S(0)", {1, 3}, 0, {1, 0, 0, 0}, {0, 1, 1, 1}},
        {"4", "S(0)", {6, 3}, 0, {2, 2, 2, 0}, {0, 2, 4, 6}},
        {"4", "S(0)", {13, 3}, 0, {4, 4, 4, 1}, {0, 4, 8, 12}},
        {"8", "S(0)", {17, 3}, 0, {3, 3, 3, 3, 3, 2, 0, 0}, {0, 3, 6, 9, 12, 15, 17, 17}},
        {"2x2", "S(0) S(0)", {10, 3}, 0, {3, 2, 3, 2}, {0, 3, 5, 8}},
        {"2x2", "S(0) S(0)", {5, 3}, 0, {2, 1, 1, 1}, {0, 2, 3, 4}},
        {"2x2", "S(0) S(0)", {3, 3}, 0, {1, 1, 1, 0}, {0, 1, 2, 3}},
        {"2x3", "S(0) S(0)", {13, 3}, 0, {3, 3, 1, 2, 2, 2}, {0, 3, 6, 7, 9, 11}},
        {"2x4", "S(0) S(0)", {10, 3}, 0, {2, 2, 1, 0, 2, 2, 1, 0}, {0, 2, 4, 10, 5, 7, 9, 10}},
        {"2x2", "S(0) S(1)", {7, 3}, 1, {2, 1, 2, 1}, {0, 2, 0, 2}},
        {"2x2", "S(1) S(0)", {7, 3}, 0, {4, 3, 4, 3}, {0, 4, 0, 4}},
        {"2x2", "R S(0)", {5, 4}, 0, {3, 2, 3, 2}, {0, 3, 0, 3}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_mesh_shape shape = mesh_shape(rows[i].mesh);
        exg_device_mesh *meshes[8];
        exg_placement placements[EXG_MESH_DIMS_MAX];
        uint32_t n;

        assert_int_equal(exg_local_mesh_create(&shape, meshes, NULL), EXG_OK);
        n = exg_device_mesh_size(meshes[0]);
        (void)placements_of(rows[i].placements, placements);
        for (uint32_t r = 0; r < n; r++) {
            int64_t offsets[2], sizes[2];

            exg_local_chunk(meshes[0], r, placements, rows[i].sizes, 2, offsets, sizes);
            assert_int_equal(sizes[rows[i].dim], rows[i].lengths[r]);
            assert_int_equal(offsets[rows[i].dim], rows[i].offsets[r]);
        }
        for (uint32_t r = 0; r < n; r++) {
            exg_device_mesh_destroy(meshes[r]);
        }
    }
}

/* S003-24 */
static void the_whole_follows_from_even_parts(void **state)
{
    static const struct {
        const char *mesh, *placements;
        uint32_t rank;
        int64_t sizes[3], strides[3], whole[3], whole_strides[3];
    } rows[] = {
        {"2", "S(0)", 2, {2, 3}, {3, 1}, {4, 3}, {3, 1}},
        {"2", "S(1)", 2, {2, 3}, {3, 1}, {2, 6}, {6, 1}},
        {"2", "S(0)", 2, {3, 2}, {1, 3}, {6, 2}, {1, 6}},
        {"2", "S(1)", 3, {8, 4, 8}, {8, 1, 32}, {8, 8, 8}, {16, 1, 64}},
        {"2", "S(0)", 2, {1, 3}, {1, 1}, {2, 3}, {1, 2}},
        {"2x2", "S(0) S(0)", 2, {2, 3}, {3, 1}, {8, 3}, {3, 1}},
        {"2x2", "S(0) S(1)", 2, {2, 3}, {3, 1}, {4, 6}, {6, 1}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_mesh_shape shape = mesh_shape(rows[i].mesh);
        exg_tensor local = {.dtype = EXG_DTYPE_F32, .rank = rows[i].rank};
        exg_device_mesh *meshes[4];
        exg_placement placements[EXG_MESH_DIMS_MAX];
        int64_t sizes[3] = {0}, strides[3] = {0};

        assert_int_equal(exg_local_mesh_create(&shape, meshes, NULL), EXG_OK);
        (void)placements_of(rows[i].placements, placements);
        memcpy(local.sizes, rows[i].sizes, sizeof(rows[i].sizes));
        memcpy(local.strides, rows[i].strides, sizeof(rows[i].strides));
        exg_global_from_local(meshes[0], &local, placements, sizes, strides);
        assert_memory_equal(sizes, rows[i].whole, local.rank * sizeof(int64_t));
        assert_memory_equal(strides, rows[i].whole_strides, local.rank * sizeof(int64_t));
        for (uint32_t r = 4; r-- > 0;) {
            if (r < exg_device_mesh_size(meshes[0])) {
                exg_device_mesh_destroy(meshes[r]);
            }
        }
    }
}

/* S003-38: summands of bool are alternatives; an average of integers is refused. */
static void add_truths(rank_context *c)
{
    bool first = exg_device_mesh_rank(c->mesh) == 0;
    bool truths[4] = {first, !first, false, true};
    int64_t numbers[1] = {3};
    exg_tensor local = {
        .data = truths, .dtype = EXG_DTYPE_B8, .rank = 1, .sizes = {4}, .strides = {1}};
    exg_placement sum = exg_partial(EXG_REDUCE_SUM), avg = exg_partial(EXG_REDUCE_AVG);
    exg_dtensor *t = NULL, *full = NULL;
    exg_error err;

    EXPECT(c,
           exg_dtensor_from_local(c->mesh, &local, &sum, 1, NULL, &t, &err) == EXG_OK &&
               exg_dtensor_full_tensor(t, &full, &err) == EXG_OK,
           "%s", err.message);
    EXPECT(c,
           c->faults > 0 ||
               memcmp(on_host(full)->data, (const bool[]){true, true, false, true}, 4) == 0,
           "or");
    exg_dtensor_destroy(full);
    exg_dtensor_destroy(t);
    local = (exg_tensor){
        .data = numbers, .dtype = EXG_DTYPE_I64, .rank = 1, .sizes = {1}, .strides = {1}};
    EXPECT(c,
           exg_dtensor_from_local(c->mesh, &local, &avg, 1, NULL, &t, &err) == EXG_OK &&
               exg_dtensor_full_tensor(t, &full, &err) == EXG_USAGE &&
               strcmp(err.code, "DTN-006") == 0 &&
               strstr(err.message, "a reduction 'avg' of int64") != NULL,
           "an average of integers");
    exg_dtensor_destroy(t);
}

/* S003-38 */
static void sums_of_bools_are_alternatives(void **state)
{
    (void)state;
    on_mesh("2", add_truths, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_gives_the_whole),
        cmocka_unit_test(sums_of_bools_are_alternatives),
        cmocka_unit_test(nothing_is_sent_that_is_there),
        cmocka_unit_test(parts_lie_where_pytorch_puts_them),
        cmocka_unit_test(the_whole_follows_from_even_parts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
