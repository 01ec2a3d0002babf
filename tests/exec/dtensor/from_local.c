/* from_local.c - what is checked of local tensors that become a DTensor, and on ranks outside. */
#include "tests/exec/dtensor/ranks.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static exg_tensor rows_of(float *data, int64_t rows, int64_t columns)
{
    exg_tensor t = {.data = data, .dtype = EXG_DTYPE_F32, .rank = 2, .sizes = {rows, columns}};

    exg_tensor_set_contiguous(&t);
    return t;
}

/* ---- run_check ------------------------------------------------------------------------------- */

/* What rank 0 says otherwise than the others: nothing, or one thing. */
typedef enum otherwise { NOTHING, DTYPE, REQUIRES_GRAD, SHAPE, STRIDES, SOME_SHAPE } otherwise;

static void disagree(rank_context *c)
{
    bool first = exg_device_mesh_rank(c->mesh) == 0;
    static const int64_t shape[2] = {4, 2}, strides[2] = {2, 1}, turned[2] = {1, 4};
    exg_placement rows = exg_shard(0);

    for (int k = NOTHING; k <= SOME_SHAPE; k++) {
        exg_from_local_options options = {.size = sizeof(options), .run_check = true};
        bool differs = first && k != NOTHING;
        float data[8] = {0};
        exg_tensor local = rows_of(data, 2, 2);
        exg_dtensor *t = NULL;
        exg_error err;

        options.requires_grad = differs && k == REQUIRES_GRAD;
        local.dtype = differs && k == DTYPE ? EXG_DTYPE_I32 : EXG_DTYPE_F32;
        local.sizes[1] = differs && k == SHAPE ? 1 : 2;
        local.strides[0] = differs && k == STRIDES ? 1 : 2;
        local.strides[1] = differs && k == STRIDES ? 2 : 1;
        options.shape = differs && k == SOME_SHAPE ? shape : NULL;
        options.strides = differs && k == SOME_SHAPE ? strides : NULL;
        EXPECT(c,
               exg_dtensor_from_local(c->mesh, &local, &rows, 1, &options, &t, &err) ==
                   (k == NOTHING ? EXG_OK : EXG_USAGE),
               "%d: %s", k, err.message);
        EXPECT(c,
               k == NOTHING ||
                   (t == NULL && strcmp(err.code, "DTN-013") == 0 &&
                    strstr(err.message, k == SHAPE ? "rank" : "rank 1 has another") != NULL),
               "%d: %s", k, err.message);
        exg_dtensor_destroy(t);
        /* of a shape that is given the same */
        local = rows_of(data, 2, 2);
        options = (exg_from_local_options){
            .size = sizeof(options), .run_check = true, .shape = shape, .strides = strides};
        options.strides = differs && k == STRIDES ? turned : strides;
        EXPECT(c,
               exg_dtensor_from_local(c->mesh, &local, &rows, 1, &options, &t, &err) ==
                   (k == STRIDES ? EXG_USAGE : EXG_OK),
               "%d, given: %s", k, err.message);
        exg_dtensor_destroy(t);
    }
}

/* Nothing but whether a shape is given differs, of a tensor of no element. */
static void give_some(rank_context *c)
{
    int64_t none = 0, stride = 1;
    exg_from_local_options options = {.size = sizeof(options), .run_check = true};
    exg_tensor local = {.dtype = EXG_DTYPE_F32, .rank = 1, .strides = {1}};
    exg_placement rows = exg_shard(0);
    exg_dtensor *t = NULL;
    exg_error err;

    options.shape = exg_device_mesh_rank(c->mesh) == 0 ? &none : NULL;
    options.strides = exg_device_mesh_rank(c->mesh) == 0 ? &stride : NULL;
    EXPECT(c,
           exg_dtensor_from_local(c->mesh, &local, &rows, 1, &options, &t, &err) == EXG_USAGE &&
               strcmp(err.code, "DTN-013") == 0,
           "a shape of one rank alone");
    exg_dtensor_destroy(t);
}

/* Of 3 and 2 with the shape of both all agree. */
static void agree(rank_context *c)
{
    int64_t shape = 5, stride = 1;
    float data[3] = {1, 2, 3};
    exg_from_local_options options = {
        .size = sizeof(options), .run_check = true, .shape = &shape, .strides = &stride};
    exg_tensor local = {.data = data, .dtype = EXG_DTYPE_F32, .rank = 1, .strides = {1}};
    exg_placement rows = exg_shard(0);
    exg_dtensor *t = NULL;
    exg_error err;

    local.sizes[0] = 3 - exg_device_mesh_rank(c->mesh);
    EXPECT(c,
           exg_dtensor_from_local(c->mesh, &local, &rows, 1, &options, &t, &err) == EXG_OK &&
               exg_dtensor_sizes(t)[0] == 5,
           "%s", err.message);
    exg_dtensor_destroy(t);
}

/* S003-26, S003-27 */
static void ranks_that_disagree_are_told_so(void **state)
{
    (void)state;
    on_mesh("2", disagree, NULL);
    on_mesh("2", agree, NULL);
    on_mesh("2", give_some, NULL);
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* Which rank's numbers each rank has then, of four that hold their own. */
typedef struct copying {
    const char *placements;
    int from[4];
} copying;

static void copy_first(rank_context *c)
{
    const copying *k = c->user;
    uint32_t r = exg_device_mesh_rank(c->mesh);
    exg_placement to[EXG_MESH_DIMS_MAX];
    uint32_t count = placements_of(k->placements, to);
    exg_from_local_options options = {.size = sizeof(options), .run_check = true};
    float data[4];
    exg_tensor local = rows_of(data, 2, 2);
    exg_dtensor *t = NULL;
    exg_error err;

    for (int i = 0; i < 4; i++) {
        data[i] = (float)((int)r * 10 + i);
    }
    EXPECT(c, exg_dtensor_from_local(c->mesh, &local, to, count, &options, &t, &err) == EXG_OK,
           "%s", err.message);
    for (int i = 0; t != NULL && i < 4; i++) {
        float got = ((const float *)on_host(t)->data)[i];

        EXPECT(c, got == (float)(k->from[r] * 10 + i), "%s: element %d is %g", k->placements, i,
               (double)got);
        EXPECT(c, data[i] == (float)((int)r * 10 + i), "the caller's own");
    }
    exg_dtensor_destroy(t);
}

/* S003-28: from the first of each group that holds the same; shards and summands stay. */
static void copies_are_of_the_first_of_a_group(void **state)
{
    static const copying rows[] = {{"R R", {0, 0, 0, 0}},          {"S(0) R", {0, 0, 2, 2}},
                                   {"R S(0)", {0, 1, 0, 1}},       {"S(0) S(1)", {0, 1, 2, 3}},
                                   {"P(sum) R", {0, 0, 2, 2}},     {"R P(sum)", {0, 1, 0, 1}},
                                   {"P(sum) P(sum)", {0, 1, 2, 3}}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        on_mesh("2x2", copy_first, &rows[i]);
    }
}

/* What is whole on every rank is there when the call returns; where there is nobody to take a copy
 * of, in no other memory. */
static void copy_whole(rank_context *c)
{
    exg_from_local_options options = {.size = sizeof(options), .run_check = true};
    float data[4] = {1, 2, 3, 4};
    exg_tensor local = rows_of(data, 2, 2);
    exg_dtensor *t = NULL;
    exg_error err;

    EXPECT(c, exg_dtensor_from_local(c->mesh, &local, NULL, 0, &options, &t, &err) == EXG_OK, "%s",
           err.message);
    EXPECT(c, t == NULL || exg_dtensor_is_ready(t), "it is on its way");
    EXPECT(c, t == NULL || exg_device_mesh_size(c->mesh) > 1 || borrows(t, data), "it was copied");
    exg_dtensor_destroy(t);
}

static void copies_are_there_at_once(void **state)
{
    static const char *const meshes[] = {"1", "1x1", "4"};

    (void)state;
    for (size_t i = 0; i < sizeof(meshes) / sizeof(meshes[0]); i++) {
        on_mesh(meshes[i], copy_whole, NULL);
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* For loops over vectors: parts begin at multiples of 64 bytes, however large they are. */
static void make_parts(rank_context *c)
{
    for (int64_t size = 1; size < 40 && c->faults == 0; size++) {
        exg_dtensor_like like = {
            .size = sizeof(like), .dtype = EXG_DTYPE_U8, .rank = 1, .sizes = &size};
        exg_dtensor *t[3] = {NULL};
        exg_error err;

        for (int i = 0; i < 3; i++) {
            EXPECT(c, exg_dtensor_zeros(c->mesh, &like, &t[i], &err) == EXG_OK, "%s", err.message);
            EXPECT(c, t[i] == NULL || (uintptr_t)exg_dtensor_to_local(t[i])->data % 64 == 0,
                   "%d bytes begin between", (int)size);
        }
        for (int i = 0; i < 3; i++) {
            exg_dtensor_destroy(t[i]);
        }
    }
}

static void parts_are_aligned(void **state)
{
    (void)state;
    on_mesh("2", make_parts, NULL);
}

/* ---- the most dims --------------------------------------------------------------------------- */

static void look_at_eight(rank_context *c)
{
    EXPECT(c, exg_device_mesh_ndim(c->mesh) == EXG_MESH_DIMS_MAX, "dims");
    EXPECT(c, exg_device_mesh_size(c->mesh) == 4, "ranks");
}

static void a_mesh_has_up_to_eight_dims(void **state)
{
    (void)state;
    on_mesh("1x2x1x1x1x2x1x1", look_at_eight, NULL);
}

/* ---- ranks outside --------------------------------------------------------------------------- */

static void come_from_four(rank_context *c)
{
    exg_mesh_shape pair = mesh_shape("2");
    bool inside = exg_device_mesh_rank(c->mesh) < 2;
    double data[6] = {1, 2, 3, 4, 5, 6};
    exg_tensor local = {
        .data = data, .dtype = EXG_DTYPE_F64, .rank = 2, .sizes = {3, 2}, .strides = {2, 1}};
    exg_placement rows = exg_shard(0);
    exg_device_mesh *two = NULL;
    exg_error err;

    EXPECT(c, exg_device_mesh_select(c->mesh, (uint32_t[]){0, 1}, &pair, &two, &err) == EXG_OK,
           "%s", err.message);
    for (int checks = 0; checks < 2 && two != NULL; checks++) {
        exg_from_local_options options = {
            .size = sizeof(options), .run_check = checks == 1, .requires_grad = true};
        uint64_t before = exg_device_mesh_exchanges(two);
        exg_dtensor *t = NULL;

        EXPECT(c, exg_dtensor_from_local(two, &local, &rows, 1, &options, &t, &err) == EXG_OK, "%s",
               err.message);
        if (t != NULL) {
            const exg_tensor *part = exg_dtensor_to_local(t);

            EXPECT(c, exg_dtensor_sizes(t)[0] == 6 && exg_dtensor_sizes(t)[1] == 2, "the whole");
            EXPECT(c,
                   part->rank == (inside ? 2 : 1) && part->sizes[0] == (inside ? 3 : 0) &&
                       part->dtype == EXG_DTYPE_F64,
                   "the part");
            EXPECT(c, exg_dtensor_requires_grad(t), "its gradient is wanted");
        }
        EXPECT(c, inside || exg_device_mesh_exchanges(two) == before, "a message outside");
        exg_dtensor_destroy(t);
    }
    exg_device_mesh_destroy(two);
}

/* S003-29 */
static void ranks_outside_hold_nothing(void **state)
{
    (void)state;
    on_mesh("4", come_from_four, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_that_disagree_are_told_so),
        cmocka_unit_test(copies_are_of_the_first_of_a_group),
        cmocka_unit_test(copies_are_there_at_once),
        cmocka_unit_test(parts_are_aligned),
        cmocka_unit_test(a_mesh_has_up_to_eight_dims),
        cmocka_unit_test(ranks_outside_hold_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
