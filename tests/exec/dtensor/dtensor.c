/* dtensor.c - meshes and their parts, DTensors in and out, factories, faults. */
#include "tests/exec/dtensor/ranks.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static exg_tensor tensor_of(float *data, int64_t rows, int64_t columns)
{
    exg_tensor t = {.data = data, .dtype = EXG_DTYPE_F32, .rank = 2, .sizes = {rows, columns}};

    exg_tensor_set_contiguous(&t);
    return t;
}

static const float *floats(const exg_dtensor *t)
{
    return on_host(t)->data;
}

#define REFUSED(expected, call)                                                                    \
    do {                                                                                           \
        assert_int_equal(call, EXG_USAGE);                                                         \
        assert_string_equal(err.code, expected);                                                   \
    } while (0)

/* ---- meshes ---------------------------------------------------------------------------------- */

static void look_at_parts(rank_context *c)
{
    uint32_t rank = exg_device_mesh_rank(c->mesh);
    const uint32_t first[] = {0}, last[] = {1}, down[] = {1, 0};
    exg_device_mesh *a = NULL, *b = NULL, *flat = NULL, *none = NULL;
    uint32_t dim;

    EXPECT(c,
           exg_device_mesh_coordinate(c->mesh, 0) == rank / 4 &&
               exg_device_mesh_coordinate(c->mesh, 1) == rank % 4,
           "coordinates");
    EXPECT(c, exg_device_mesh_find_dim(c->mesh, "b", &dim, NULL) == EXG_OK && dim == 1, "dim b");
    EXPECT(c, exg_device_mesh_find_dim(c->mesh, "z", &dim, NULL) == EXG_USAGE, "dim z");
    EXPECT(c, exg_device_mesh_slice(c->mesh, first, 1, &a, NULL) == EXG_OK, "slice a");
    EXPECT(c, exg_device_mesh_slice(c->mesh, last, 1, &b, NULL) == EXG_OK, "slice b");
    EXPECT(c, exg_device_mesh_slice(c->mesh, down, 2, &none, NULL) == EXG_USAGE && none == NULL,
           "a slice downwards");
    EXPECT(c, exg_device_mesh_flatten(c->mesh, (uint32_t[]){0, 1}, 2, NULL, &flat, NULL) == EXG_OK,
           "flat");
    if (c->faults == 0) {
        EXPECT(c,
               exg_device_mesh_size(a) == 2 && exg_device_mesh_global_rank(a, 0) == rank % 4 &&
                   exg_device_mesh_global_rank(a, 1) == rank % 4 + 4 &&
                   exg_device_mesh_rank(a) == rank / 4,
               "the ranks along a");
        EXPECT(c,
               exg_device_mesh_size(b) == 4 &&
                   exg_device_mesh_global_rank(b, 3) == rank / 4 * 4 + 3,
               "the ranks along b");
        EXPECT(c, strcmp(exg_device_mesh_dim_name(b, 0), "b") == 0, "the name of b");
        EXPECT(c,
               exg_device_mesh_ndim(flat) == 1 && exg_device_mesh_size(flat) == 8 &&
                   exg_device_mesh_rank(flat) == rank,
               "the flat mesh");
        EXPECT(c, strcmp(exg_device_mesh_dim_name(flat, 0), "a_b") == 0, "the flat mesh's name");
        EXPECT(c,
               exg_device_mesh_dim_size(c->mesh, 0) == 2 &&
                   exg_device_mesh_dim_size(c->mesh, 1) == 4 &&
                   exg_device_mesh_dim_size(c->mesh, 2) == 0 &&
                   strcmp(exg_device_mesh_dim_name(c->mesh, 1), "b") == 0 &&
                   strcmp(exg_device_mesh_dim_name(c->mesh, 2), "") == 0 &&
                   exg_device_mesh_coordinate(c->mesh, 2) == 0,
               "of a dim that is not there");
        EXPECT(c,
               exg_device_mesh_global_rank(c->mesh, 7) == 7 &&
                   exg_device_mesh_global_rank(c->mesh, 8) == UINT32_MAX,
               "of a rank that is not there");
        EXPECT(c, exg_device_mesh_equal(c->mesh, c->mesh) && !exg_device_mesh_equal(c->mesh, flat),
               "equality");
    }
    exg_device_mesh_destroy(a);
    exg_device_mesh_destroy(b);
    exg_device_mesh_destroy(flat);
    EXPECT(c,
           exg_device_mesh_flatten(c->mesh, (uint32_t[]){0, 1}, 2, "all", &flat, NULL) == EXG_OK &&
               strcmp(exg_device_mesh_dim_name(flat, 0), "all") == 0,
           "a flat mesh of its own name");
    exg_device_mesh_destroy(flat);
}

/* Meshes are one where their dims, names and ranks are. S003-59 */
static void meshes_are_told_apart(void **state)
{
    static const exg_mesh_shape shapes[] = {
        {.ndim = 1, .sizes = {4}, .names = {"a"}},
        {.ndim = 1, .sizes = {4}, .names = {"b"}},
        {.ndim = 1, .sizes = {2}, .names = {"a"}},
        {.ndim = 2, .sizes = {4, 1}, .names = {"a"}},
        {.ndim = 2, .sizes = {1, 4}, .names = {"a"}},
        {.ndim = 2, .sizes = {4, 1}, .names = {"a", "b"}},
        {.ndim = 2, .sizes = {2, 2}, .names = {"a", "b"}},
    };
    exg_device_mesh *meshes[7][4], *again[4];

    (void)state;
    for (int i = 0; i < 7; i++) {
        assert_int_equal(exg_local_mesh_create(&shapes[i], meshes[i], NULL), EXG_OK);
        assert_int_equal(exg_local_mesh_create(&shapes[i], again, NULL), EXG_OK);
        for (int k = 0; k <= i; k++) {
            assert_int_equal(exg_device_mesh_equal(meshes[i][0], meshes[k][0]), i == k);
            assert_int_equal(exg_device_mesh_equal(again[0], meshes[k][0]), i == k);
        }
        for (uint32_t r = 0; r < exg_device_mesh_size(meshes[i][0]); r++) {
            exg_device_mesh_destroy(again[r]);
        }
    }
    for (int i = 0; i < 7; i++) {
        for (uint32_t r = exg_device_mesh_size(meshes[i][0]); r-- > 0;) {
            exg_device_mesh_destroy(meshes[i][r]);
        }
    }
}

/* Reference dtensor.md, section 2. S003-59 */
static void meshes_have_parts(void **state)
{
    exg_mesh_shape shape = mesh_shape("2x0");
    exg_device_mesh *meshes[4];

    (void)state;
    on_mesh("2x4", look_at_parts, NULL);
    assert_int_equal(exg_local_mesh_create(&shape, meshes, NULL), EXG_USAGE);
    shape = mesh_shape("2x2");
    shape.names[1] = shape.names[0];
    assert_int_equal(exg_local_mesh_create(&shape, meshes, NULL), EXG_USAGE);
    shape.names[0] = shape.names[1] = NULL;
    assert_int_equal(exg_local_mesh_create(&shape, meshes, NULL), EXG_OK);
    for (int r = 0; r < 4; r++) {
        exg_device_mesh_destroy(meshes[r]);
    }
}

/* S003-29, S003-75, S003-82, S003-103, S003-128: ranks 2 and 3 are no members. */
static void work_on_two_of_four(rank_context *c)
{
    exg_mesh_shape pair = mesh_shape("2");
    bool inside = exg_device_mesh_rank(c->mesh) < 2;
    float data[6] = {1, 2, 3, 4, 5, 6};
    exg_tensor whole = tensor_of(data, 3, 2);
    exg_placement shard = exg_shard(0);
    int64_t offsets[2], sizes[2];
    exg_dtensor_like like = {.size = sizeof(like),
                             .dtype = EXG_DTYPE_F32,
                             .rank = 2,
                             .sizes = whole.sizes,
                             .placements = &shard,
                             .placement_count = 1,
                             .requires_grad = true};
    exg_device_mesh *two = NULL;
    exg_dtensor *t = NULL, *full = NULL;

    EXPECT(c,
           exg_device_mesh_select(c->mesh, (uint32_t[]){0, 1}, &pair, &two, NULL) == EXG_OK &&
               exg_device_mesh_is_member(two) == inside,
           "the part of two");
    EXPECT(c,
           exg_distribute_tensor(two, &whole, &shard, 1, 0, &t, NULL) == EXG_OK &&
               exg_dtensor_full_tensor(t, &full, NULL) == EXG_OK,
           "distributed");
    if (c->faults == 0) {
        EXPECT(c, exg_dtensor_sizes(t)[0] == 3, "the global size");
        EXPECT(c, exg_tensor_numel(exg_dtensor_to_local(full)) == (inside ? 6 : 0), "the whole");
        EXPECT(c,
               exg_dtensor_chunk(t, offsets, sizes, NULL) == EXG_OK &&
                   sizes[0] == (inside ? 2 - (int64_t)exg_device_mesh_rank(c->mesh) : 0),
               "the chunk");
    }
    exg_dtensor_destroy(full);
    exg_dtensor_destroy(t);
    EXPECT(c,
           exg_dtensor_ones(two, &like, &t, NULL) == EXG_OK && exg_dtensor_rank_count(t) == 2 &&
               exg_dtensor_sizes(t)[0] == 3 && exg_dtensor_requires_grad(t) &&
               exg_dtensor_to_local(t)->rank == (inside ? 2 : 1) &&
               exg_tensor_numel(exg_dtensor_to_local(t)) ==
                   (inside ? 4 - 2 * (int64_t)exg_device_mesh_rank(c->mesh) : 0),
           "ones");
    exg_dtensor_destroy(t);
    exg_device_mesh_destroy(two);
}

/* S003-75, S003-77, S003-82, S003-103, S003-128 */
static void ranks_outside_own_nothing(void **state)
{
    (void)state;
    on_mesh("4", work_on_two_of_four, NULL);
}

/* ---- into DTensors -----------------------------------------------------------------------------
 */

/* S003-25..28: locals of 2 and 1 rows; the second rank's copy is another. */
static void ask_the_ranks(rank_context *c)
{
    uint32_t rank = exg_device_mesh_rank(c->mesh);
    float data[6] = {0, 0, 0, 0, 0, 0};
    exg_from_local_options options = {.size = sizeof(options), .infer_shape = true};
    exg_tensor local = tensor_of(data, rank == 0 ? 2 : 1, 3);
    exg_placement shard = exg_shard(-2), all = exg_replicate();
    exg_dtensor *t = NULL;
    exg_error err;

    EXPECT(c,
           exg_dtensor_from_local(c->mesh, &local, &shard, 1, &options, &t, &err) == EXG_OK &&
               exg_dtensor_sizes(t)[0] == 3 && exg_dtensor_sizes(t)[1] == 3,
           "summed sizes");
    exg_dtensor_destroy(t);
    options = (exg_from_local_options){.size = sizeof(options), .run_check = true};
    EXPECT(c,
           exg_dtensor_from_local(c->mesh, &local, &shard, 1, &options, &t, &err) == EXG_USAGE &&
               strcmp(err.code, "DTN-013") == 0,
           "uneven parts without a shape");
    local = tensor_of(data, 2, 3);
    local.dtype = rank == 0 ? EXG_DTYPE_F32 : EXG_DTYPE_I32;
    EXPECT(c,
           exg_dtensor_from_local(c->mesh, &local, &all, 1, &options, &t, &err) == EXG_USAGE &&
               strcmp(err.code, "DTN-013") == 0,
           "two dtypes");
    local.dtype = EXG_DTYPE_F32;
    data[0] = (float)rank;
    EXPECT(c,
           exg_dtensor_from_local(c->mesh, &local, &all, 1, &options, &t, &err) == EXG_OK &&
               floats(t)[0] == 0 && data[0] == (float)rank,
           "a copy of the first rank's");
    exg_dtensor_destroy(t);
    t = NULL;
    EXPECT(c,
           exg_dtensor_from_local(c->mesh, &local, &all, 1, NULL, &t, &err) == EXG_OK &&
               borrows(t, data),
           "the caller's own memory");
    exg_dtensor_destroy(t);
}

/* S003-04, S003-25, S003-27, S003-28, S003-30 */
static void ranks_agree_or_say_so(void **state)
{
    (void)state;
    on_mesh("2", ask_the_ranks, NULL);
}

/* S003-30, S003-78: windows with strides of their own are parts too. */
static void gather_transposed(rank_context *c)
{
    uint32_t rank = exg_device_mesh_rank(c->mesh);
    float data[6];
    exg_tensor local = {
        .data = data, .dtype = EXG_DTYPE_F32, .rank = 2, .sizes = {3, 2}, .strides = {1, 3}};
    exg_placement shard = exg_shard(0);
    exg_dtensor *t = NULL, *full = NULL;
    exg_tensor part;

    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 2; j++) {
            data[i + 3 * j] = (float)(((int)rank * 3 + i) * 2 + j);
        }
    }
    EXPECT(c,
           exg_dtensor_from_local(c->mesh, &local, &shard, 1, NULL, &t, NULL) == EXG_OK &&
               exg_dtensor_full_tensor(t, &full, NULL) == EXG_OK,
           "gathered");
    for (int i = 0; c->faults == 0 && i < 12; i++) {
        EXPECT(c, floats(full)[i] == (float)i, "element %d is %g", i, (double)floats(full)[i]);
    }
    EXPECT(c, exg_dtensor_strides(t)[0] == 1 && exg_dtensor_strides(t)[1] == 6, "global strides");
    EXPECT(c,
           exg_dtensor_shard_at(t, (const int64_t[]){3 * rank, 0}, &part, NULL) == EXG_OK &&
               memcmp(&part, exg_dtensor_to_local(t), sizeof(part)) == 0,
           "the own part");
    EXPECT(c, exg_dtensor_shard_at(t, (const int64_t[]){3 - 3 * rank, 0}, &part, NULL) == EXG_USAGE,
           "another's part");
    exg_dtensor_destroy(full);
    exg_dtensor_destroy(t);
}

/* S003-30, S003-78 */
static void parts_may_have_strides(void **state)
{
    (void)state;
    on_mesh("2", gather_transposed, NULL);
}

/* S003-101: columns that lie one after the other still do in the parts. */
static void keep_strides(rank_context *c)
{
    float data[8] = {0, 2, 4, 6, 1, 3, 5, 7};
    exg_tensor whole = {
        .data = data, .dtype = EXG_DTYPE_F32, .rank = 2, .sizes = {4, 2}, .strides = {1, 4}};
    exg_placement rows = exg_shard(0);
    exg_dtensor *t = NULL, *full = NULL;

    EXPECT(c,
           exg_distribute_tensor(c->mesh, &whole, &rows, 1, 0, &t, NULL) == EXG_OK &&
               exg_dtensor_full_tensor(t, &full, NULL) == EXG_OK,
           "distributed");
    if (c->faults == 0) {
        const exg_tensor *local = exg_dtensor_to_local(t);

        EXPECT(c, exg_dtensor_strides(t)[0] == 1 && exg_dtensor_strides(t)[1] == 4, "global");
        EXPECT(c, local->strides[0] == 1 && local->strides[1] == 2, "local");
        EXPECT(c,
               floats(t)[on_host(t)->strides[1]] ==
                   (exg_device_mesh_rank(c->mesh) == 0 ? 1.0f : 5.0f),
               "a part");
        for (int i = 0; i < 8; i++) {
            EXPECT(c, floats(full)[i] == (float)i, "element %d is %g", i, (double)floats(full)[i]);
        }
    }
    exg_dtensor_destroy(full);
    exg_dtensor_destroy(t);
    whole.sizes[1] = 1; /* nothing is left of it for rank 1 */
    whole.strides[0] = 1;
    whole.strides[1] = 1;
    rows = exg_shard(1);
    EXPECT(c, exg_distribute_tensor(c->mesh, &whole, &rows, 1, 0, &t, NULL) == EXG_OK, "columns");
    if (c->faults == 0) {
        const exg_tensor *local = exg_dtensor_to_local(t);

        EXPECT(c, local->sizes[1] == (exg_device_mesh_rank(c->mesh) == 0), "one column");
        EXPECT(c, local->strides[0] == 1 && local->strides[1] == 1, "strides of an empty part");
        exg_dtensor_destroy(t);
    }
}

/* S003-101 */
static void parts_keep_the_order_of_dims(void **state)
{
    (void)state;
    on_mesh("2", keep_strides, NULL);
}

/* S003-23: a shape that is given is given, if it has no dims too. */
static void wrap_number(rank_context *c)
{
    float data = 4;
    exg_tensor local = {.data = &data, .dtype = EXG_DTYPE_F32};
    int64_t none[1] = {0};
    exg_from_local_options options = {.size = sizeof(options), .shape = none};
    exg_dtensor *t = NULL;
    exg_error err;

    EXPECT(c,
           exg_dtensor_from_local(c->mesh, &local, NULL, 0, &options, &t, &err) == EXG_USAGE &&
               strcmp(err.code, "DTN-003") == 0,
           "a shape without strides");
    options.strides = none;
    EXPECT(c,
           exg_dtensor_from_local(c->mesh, &local, NULL, 0, &options, &t, NULL) == EXG_OK &&
               exg_dtensor_rank_count(t) == 0 && floats(t)[0] == 4,
           "a number");
    exg_dtensor_destroy(t);
}

/* S003-23 */
static void numbers_have_a_shape(void **state)
{
    (void)state;
    on_mesh("2", wrap_number, NULL);
}

/* ---- requires_grad ----------------------------------------------------------------------------
 */

static void keep_requires_grad(rank_context *c)
{
    uint32_t rank = exg_device_mesh_rank(c->mesh);
    float data[6] = {0};
    exg_tensor local = tensor_of(data, 2, 3);
    exg_placement rows = exg_shard(0), columns = exg_shard(1);
    exg_from_local_options options = {.size = sizeof(options)};
    exg_dtensor *t = NULL, *moved = NULL, *same = NULL, *full = NULL;
    exg_error err;

    for (int k = 0; k < 2; k++) {
        options.requires_grad = k == 1;
        EXPECT(c,
               exg_dtensor_from_local(c->mesh, &local, &rows, 1, &options, &t, &err) == EXG_OK &&
                   exg_dtensor_requires_grad(t) == (k == 1),
               "from_local");
        EXPECT(c,
               exg_dtensor_redistribute(t, &columns, 1, &moved, &err) == EXG_OK &&
                   exg_dtensor_redistribute(t, &rows, 1, &same, &err) == EXG_OK &&
                   exg_dtensor_full_tensor(t, &full, &err) == EXG_OK &&
                   exg_dtensor_requires_grad(moved) == (k == 1) &&
                   exg_dtensor_requires_grad(same) == (k == 1) &&
                   exg_dtensor_requires_grad(full) == (k == 1),
               "redistributed");
        exg_dtensor_destroy(full);
        exg_dtensor_destroy(same);
        exg_dtensor_destroy(moved);
        exg_dtensor_destroy(t);
    }
    EXPECT(c,
           exg_distribute_tensor(c->mesh, &local, &rows, 1, 0, &t, &err) == EXG_OK &&
               !exg_dtensor_requires_grad(t) &&
               exg_dtensor_set_requires_grad(t, true, &err) == EXG_OK &&
               exg_dtensor_requires_grad(t) &&
               exg_dtensor_set_requires_grad(t, false, &err) == EXG_OK &&
               !exg_dtensor_requires_grad(t),
           "distributed");
    exg_dtensor_destroy(t);
    options.run_check = true; /* S003-27: the ranks say different things */
    options.requires_grad = rank == 0;
    EXPECT(c,
           exg_dtensor_from_local(c->mesh, &local, &rows, 1, &options, &t, &err) == EXG_USAGE &&
               strcmp(err.code, "DTN-013") == 0,
           "not agreed on");
    local.dtype = EXG_DTYPE_I32;
    options.requires_grad = true;
    EXPECT(c,
           exg_dtensor_from_local(c->mesh, &local, &rows, 1, &options, &t, &err) == EXG_USAGE &&
               t == NULL && strcmp(err.code, "DTN-016") == 0,
           "of integers");
}

/* S003-27, S003-31, S003-122 */
static void requires_grad_is_kept(void **state)
{
    exg_mesh_shape one = mesh_shape("1");
    int64_t size = 5;
    exg_dtensor_like like = {.size = sizeof(like),
                             .dtype = EXG_DTYPE_BF16,
                             .rank = 1,
                             .sizes = &size,
                             .requires_grad = true};
    exg_rng rng = {.seed = 1};
    exg_device_mesh *mesh;
    exg_dtensor *t;
    exg_error err;

    (void)state;
    on_mesh("2", keep_requires_grad, NULL);
    assert_int_equal(exg_local_mesh_create(&one, &mesh, NULL), EXG_OK);
    assert_int_equal(exg_dtensor_randn(mesh, &like, &rng, &t, NULL), EXG_OK);
    assert_true(exg_dtensor_requires_grad(t));
    exg_dtensor_destroy(t);
    like.dtype = EXG_DTYPE_C64;
    assert_int_equal(exg_dtensor_zeros(mesh, &like, &t, NULL), EXG_OK);
    exg_dtensor_destroy(t);
    like.dtype = EXG_DTYPE_I32;
    assert_int_equal(exg_dtensor_zeros(mesh, &like, &t, &err), EXG_USAGE);
    assert_string_equal(err.code, "DTN-016");
    assert_null(t);
    exg_device_mesh_destroy(mesh);
}

static void expect_text(rank_context *c, exg_dtensor *t, const char *want)
{
    char *text = NULL;

    EXPECT(c, exg_dtensor_print(t, &text, NULL) == EXG_OK && strcmp(text, want) == 0, "%s", text);
    free(text);
    exg_dtensor_destroy(t);
}

/* S003-44 */
static void print_parts(rank_context *c)
{
    bool first = exg_device_mesh_rank(c->mesh) == 0;
    int64_t big[2] = {INT64_MAX, -1};
    float numbers[4] = {0.5f, -1, 2, 3e10f};
    int64_t sizes[2] = {2000, 2};
    exg_tensor longs = {
        .data = big, .dtype = EXG_DTYPE_I64, .rank = 1, .sizes = {2}, .strides = {1}};
    const struct {
        exg_dtype dtype;
        uint64_t bits;
        const char *text;
    } elements[] = {
        {EXG_DTYPE_U64, UINT64_MAX, "18446744073709551615"},
        {EXG_DTYPE_U64, 1, "1"},
        {EXG_DTYPE_I64, UINT64_MAX, "-1"},
        {EXG_DTYPE_I32, 0xfffffff9, "-7"},
        {EXG_DTYPE_U32, 0xfffffff9, "4294967289"},
        {EXG_DTYPE_U8, 255, "255"},
        {EXG_DTYPE_B8, 1, "True"},
        {EXG_DTYPE_B8, 0, "False"},
        {EXG_DTYPE_BF16, 0x3f80, "1.0"},
        {EXG_DTYPE_F64, 0x4000000000000000, "2.0"},
        {EXG_DTYPE_C32, 0xc0003c00, "(1.0, -2.0)"},
        {EXG_DTYPE_C64, 0xbf80000040000000, "(2.0, -1.0)"},
    };
    exg_tensor complexes = {
        .data = numbers, .dtype = EXG_DTYPE_C64, .rank = 2, .sizes = {1, 2}, .strides = {2, 1}};
    exg_placement rows = exg_shard(0), sum = exg_partial(EXG_REDUCE_SUM);
    exg_dtensor_like like = {
        .size = sizeof(like), .dtype = EXG_DTYPE_B8, .rank = 2, .sizes = sizes};
    exg_dtensor *t = NULL;

    EXPECT(c, exg_distribute_tensor(c->mesh, &longs, &rows, 1, 0, &t, NULL) == EXG_OK, "longs");
    expect_text(c, t,
                first ? "DTensor(local_tensor=[9223372036854775807], "
                        "device_mesh=DeviceMesh(a=2), placements=(S(0)))"
                      : "DTensor(local_tensor=[-1], device_mesh=DeviceMesh(a=2), "
                        "placements=(S(0)))");
    for (size_t i = 0; i < sizeof(elements) / sizeof(elements[0]); i++) {
        uint64_t bits = elements[i].bits;
        exg_tensor one = {.data = &bits, .dtype = elements[i].dtype};
        char want[120];

        snprintf(want, sizeof(want),
                 "DTensor(local_tensor=%s, device_mesh=DeviceMesh(a=2), placements=(R))",
                 elements[i].text);
        EXPECT(c, exg_dtensor_from_local(c->mesh, &one, NULL, 0, NULL, &t, NULL) == EXG_OK, "one");
        expect_text(c, t, want);
    }
    EXPECT(c, exg_dtensor_from_local(c->mesh, &complexes, &sum, 1, NULL, &t, NULL) == EXG_OK,
           "complex");
    expect_text(c, t,
                "DTensor(local_tensor=[[(0.5, -1.0), (2.0, 30000001024.0)]], "
                "device_mesh=DeviceMesh(a=2), placements=(P(sum)))");
    EXPECT(c, exg_dtensor_ones(c->mesh, &like, &t, NULL) == EXG_OK, "bools");
    expect_text(c, t,
                "DTensor(local_tensor=[[True, True], [True, True], [True, True], ..., "
                "[True, True], [True, True], [True, True]], device_mesh=DeviceMesh(a=2), "
                "placements=(R))");
    sizes[0] = 0;
    EXPECT(c, exg_dtensor_zeros(c->mesh, &like, &t, NULL) == EXG_OK, "nothing");
    expect_text(c, t, "DTensor(local_tensor=[], device_mesh=DeviceMesh(a=2), placements=(R))");
}

/* 1000 elements are all printed; where there are more, of more than 6 in a dim 3 at both ends. */
static void print_many(rank_context *c)
{
    static const struct {
        int64_t sizes[2];
        int shown, gaps;
    } rows[] = {{{500, 2}, 1000, 0}, {{6, 200}, 36, 6}, {{7, 200}, 36, 6 + 1}};

    for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
        exg_dtensor_like like = {
            .size = sizeof(like), .dtype = EXG_DTYPE_B8, .rank = 2, .sizes = rows[k].sizes};
        exg_dtensor *t = NULL;
        char *text = NULL;
        int shown = 0, gaps = 0;

        EXPECT(c,
               exg_dtensor_ones(c->mesh, &like, &t, NULL) == EXG_OK &&
                   exg_dtensor_print(t, &text, NULL) == EXG_OK,
               "many");
        for (const char *at = text; at != NULL && *at != '\0'; at++) {
            shown += strncmp(at, "True", 4) == 0;
            gaps += strncmp(at, "...", 3) == 0;
        }
        EXPECT(c, shown == rows[k].shown && gaps == rows[k].gaps, "%d elements, %d gaps", shown,
               gaps);
        free(text);
        exg_dtensor_destroy(t);
    }
}

/* A dim without a name is its size. */
static void print_without_names(void)
{
    const exg_mesh_shape shape = {.ndim = 2, .sizes = {1, 1}, .names = {NULL, "b"}};
    int64_t sizes[] = {1};
    exg_dtensor_like like = {
        .size = sizeof(like), .dtype = EXG_DTYPE_B8, .rank = 1, .sizes = sizes};
    exg_device_mesh *mesh;
    exg_dtensor *t;
    char *text;

    assert_int_equal(exg_local_mesh_create(&shape, &mesh, NULL), EXG_OK);
    assert_int_equal(exg_dtensor_ones(mesh, &like, &t, NULL), EXG_OK);
    assert_int_equal(exg_dtensor_print(t, &text, NULL), EXG_OK);
    assert_string_equal(text, "DTensor(local_tensor=[True], device_mesh=DeviceMesh(1, b=1), "
                              "placements=(R, R))");
    free(text);
    exg_dtensor_destroy(t);
    exg_device_mesh_destroy(mesh);
}

/* S003-44 */
static void parts_are_printed(void **state)
{
    (void)state;
    print_without_names();
    on_mesh("2", print_parts, NULL);
    on_mesh("2", print_many, NULL);
}

typedef struct distribution {
    const char *placements;
    uint32_t source;
} distribution;

/* Ranks hold rank * 100 + i; the source's are the truth (S003-83, -97, -98, -105). */
static void distribute(rank_context *c)
{
    const distribution *d = c->user;
    uint32_t rank = exg_device_mesh_rank(c->mesh);
    uint32_t truth = d->source == EXG_NO_RANK ? rank : d->source;
    exg_placement placements[EXG_MESH_DIMS_MAX];
    uint32_t count = placements_of(d->placements, placements);
    float data[15];
    exg_tensor whole = tensor_of(data, 5, 3);
    exg_dtensor *t = NULL, *full = NULL;
    exg_error err;

    for (int i = 0; i < 15; i++) {
        data[i] = (float)(rank * 100 + (uint32_t)i);
    }
    EXPECT(c,
           exg_distribute_tensor(c->mesh, &whole, placements, count, d->source, &t, &err) == EXG_OK,
           "%s", err.message);
    EXPECT(c, d->source != EXG_NO_RANK || exg_device_mesh_exchanges(c->mesh) == 0, "sent");
    if (c->faults == 0 && d->source != EXG_NO_RANK) {
        EXPECT(c, exg_dtensor_full_tensor(t, &full, NULL) == EXG_OK, "whole");
        for (int i = 0; c->faults == 0 && i < 15; i++) {
            EXPECT(c, floats(full)[i] == (float)(truth * 100 + (uint32_t)i), "%s: element %d is %g",
                   d->placements, i, (double)floats(full)[i]);
        }
    } else if (c->faults == 0) {
        EXPECT(c,
               exg_tensor_numel(exg_dtensor_to_local(t)) == 0 ||
                   (int)floats(t)[0] / 100 == (int)rank,
               "another's values");
    }
    exg_dtensor_destroy(full);
    exg_dtensor_destroy(t);
}

/* S003-01, S003-83, S003-93, S003-97, S003-98, S003-105 */
static void distribute_tensor_takes_the_sources_values(void **state)
{
    static const distribution rows[] = {
        {"R R", 0},      {"S(0) R", 0},      {"S(0) S(0)", 3}, {"S(1) S(0)", 1},
        {"R P(sum)", 0}, {"P(avg) S(1)", 0}, {"P(max) R", 2},  {"S(0) S(1)", EXG_NO_RANK}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        on_mesh("2x2", distribute, &rows[i]);
    }
}

/* ---- factories ------------------------------------------------------------------------------- */

static void make_some(rank_context *c)
{
    const char *text = c->user;
    exg_placement placements[EXG_MESH_DIMS_MAX];
    int64_t sizes[2] = {5, 3};
    exg_dtensor_like like = {sizeof(like), EXG_DTYPE_F32, 2,
                             sizes,        placements,    placements_of(text, placements)};
    exg_dtensor *t = NULL, *full = NULL;
    exg_rng rng = {.seed = 7, .offset = 12};

    EXPECT(c, exg_dtensor_full(c->mesh, &like, exg_scalar_float(2.5), &t, NULL) == EXG_OK, "full");
    for (int64_t i = 0; t != NULL && i < exg_tensor_numel(exg_dtensor_to_local(t)); i++) {
        EXPECT(c, floats(t)[i] == 2.5f, "full's elements");
    }
    exg_dtensor_destroy(t);
    EXPECT(c,
           exg_dtensor_empty(c->mesh, &like, &t, NULL) == EXG_OK &&
               exg_dtensor_dtype(t) == EXG_DTYPE_F32 && exg_dtensor_rank_count(t) == 2 &&
               exg_dtensor_strides(t)[0] == 3 && exg_dtensor_device_mesh(t) == c->mesh,
           "empty");
    exg_dtensor_destroy(t);
    EXPECT(c, exg_dtensor_zeros(c->mesh, &like, &t, NULL) == EXG_OK, "zeros");
    exg_dtensor_destroy(t);
    like.dtype = EXG_DTYPE_B8;
    EXPECT(c,
           exg_dtensor_ones(c->mesh, &like, &t, NULL) == EXG_OK &&
               (exg_tensor_numel(exg_dtensor_to_local(t)) == 0 ||
                ((const uint8_t *)on_host(t)->data)[0] == 1),
           "a bool of ones");
    exg_dtensor_destroy(t);
    EXPECT(c, exg_dtensor_rand(c->mesh, &like, &rng, &t, NULL) == EXG_USAGE, "random bools");

    like.dtype = EXG_DTYPE_F32;
    EXPECT(c,
           exg_dtensor_rand(c->mesh, &like, &rng, &t, NULL) == EXG_OK &&
               exg_dtensor_full_tensor(t, &full, NULL) == EXG_OK,
           "rand");
    EXPECT(c, rng.offset == 12 + 16, "the offset moves on by %u", (unsigned)rng.offset - 12);
    if (c->faults == 0) { /* the same as one rank alone would draw */
        exg_mesh_shape one = mesh_shape("1");
        exg_device_mesh *alone;
        exg_dtensor *whole = NULL;

        rng.offset = 12;
        like.placements = NULL;
        EXPECT(c,
               exg_local_mesh_create(&one, &alone, NULL) == EXG_OK &&
                   exg_dtensor_rand(alone, &like, &rng, &whole, NULL) == EXG_OK &&
                   memcmp(floats(whole), floats(full), 60) == 0,
               "drawn alone");
        exg_dtensor_destroy(whole);
        exg_device_mesh_destroy(alone);
    }
    exg_dtensor_destroy(full);
    exg_dtensor_destroy(t);
}

/* S003-50, S003-52, S003-131, S003-132, S003-135, S003-136, S003-138 */
static void factories_make_what_was_asked_for(void **state)
{
    (void)state;
    on_mesh("2x2", make_some, "S(0) S(1)");
    on_mesh("2x3", make_some, "S(0) S(0)");
    on_mesh("4", make_some, "R");
    on_mesh("4", make_some, "S(-1)");
    on_mesh("2x2", make_some, "R S(0)");
}

/* S003-133, S003-134: a million draws of each, in three dtypes. */
static void random_numbers_are_spread_as_they_should(void **state)
{
    exg_mesh_shape one = mesh_shape("1");
    int64_t size = 1000000;
    exg_dtensor_like like = {sizeof(like), EXG_DTYPE_F32, 1, &size, NULL, 0};
    const exg_dtype dtypes[] = {EXG_DTYPE_F32, EXG_DTYPE_F64, EXG_DTYPE_BF16};
    exg_device_mesh *mesh;

    (void)state;
    assert_int_equal(exg_local_mesh_create(&one, &mesh, NULL), EXG_OK);
    for (int k = 0; k < 6; k++) {
        exg_rng rng = {.seed = 1};
        double sum = 0, squares = 0, cubes = 0;
        exg_dtensor *t;
        const uint8_t *at;

        like.dtype = dtypes[k / 2];
        assert_int_equal(k % 2 == 0 ? exg_dtensor_rand(mesh, &like, &rng, &t, NULL)
                                    : exg_dtensor_randn(mesh, &like, &rng, &t, NULL),
                         EXG_OK);
        at = on_host(t)->data;
        for (int64_t i = 0; i < size; i++) {
            double x = exg_element_value(like.dtype, at + i * (int64_t)exg_dtype_bytes(like.dtype));

            assert_true(k % 2 == 1 || (x >= 0 && x < 1));
            sum += x;
            squares += x * x;
            cubes += x * x * x;
        }
        assert_true(fabs(sum / 1e6 - (k % 2 == 0 ? 0.5 : 0)) < 0.004);
        assert_true(fabs(squares / 1e6 - (k % 2 == 0 ? 1.0 / 3 : 1)) < 0.008);
        assert_true(fabs(cubes / 1e6 - (k % 2 == 0 ? 0.25 : 0)) < 0.02);
        exg_dtensor_destroy(t);
    }
    exg_device_mesh_destroy(mesh);
}

static void a_range_is_cut(rank_context *c)
{
    int64_t size = 7;
    exg_placement shard = exg_shard(0);
    exg_dtensor_like like = {sizeof(like), EXG_DTYPE_I16, 1, &size, &shard, 1};
    exg_dtensor *t = NULL;
    int64_t offset, length;

    EXPECT(c,
           exg_dtensor_arange(c->mesh, &like, -3, 2, &t, NULL) == EXG_OK &&
               exg_dtensor_chunk(t, &offset, &length, NULL) == EXG_OK,
           "arange");
    for (int64_t i = 0; c->faults == 0 && i < length; i++) {
        EXPECT(c, ((const int16_t *)on_host(t)->data)[i] == -3 + 2 * (offset + i), "element %d",
               (int)i);
    }
    exg_dtensor_destroy(t);
}

static void ranges_go_on_over_the_ranks(void **state)
{
    (void)state;
    on_mesh("3", a_range_is_cut, NULL);
}

/* ---- faults -------------------------------------------------------------------------------------
 */

static void wait_for_rank_1(rank_context *c)
{
    float data[6] = {0};
    exg_tensor local = tensor_of(data, 2, 3);
    exg_placement shard = exg_shard(0);
    exg_dtensor *t = NULL, *full = NULL;

    if (exg_device_mesh_rank(c->mesh) == 1) {
        return; /* never arrives */
    }
    exg_device_mesh_set_deadline(c->mesh, 200 * 1000 * 1000);
    EXPECT(c,
           exg_dtensor_from_local(c->mesh, &local, &shard, 1, NULL, &t, NULL) == EXG_OK &&
               exg_dtensor_full_tensor(t, &full, NULL) == EXG_PEER && full == NULL,
           "the missing rank is not noticed");
    exg_dtensor_destroy(t);
}

static void a_missing_rank_ends_the_collective_on_all(void **state)
{
    (void)state;
    on_mesh("3", wait_for_rank_1, NULL);
}

/* S003-16, S003-17, S003-18, S003-20, S003-22, S003-26, S003-51, S003-55, S003-56, S003-57,
 * S003-58, S003-98, S003-100, S003-119, S003-127 */
static void what_does_not_fit_is_refused(void **state)
{
    exg_mesh_shape grid = mesh_shape("1x1");
    exg_device_mesh *mesh;
    float data[6] = {0};
    exg_tensor local = tensor_of(data, 2, 3);
    exg_tensor number = {.data = data, .dtype = EXG_DTYPE_F32};
    exg_placement list[3] = {exg_shard(5), exg_replicate(), exg_replicate()};
    int64_t sizes[2] = {5, 3}, strides[2] = {3, 1}, negative[2] = {2, -1};
    exg_from_local_options options = {.size = sizeof(options), .shape = sizes};
    exg_dtensor_like like = {sizeof(like), EXG_DTYPE_F32, 2, negative, NULL, 0};
    exg_rng rng = {.seed = 1};
    exg_dtensor *t, *out;
    exg_error err;

    (void)state;
    assert_int_equal(exg_local_mesh_create(&grid, &mesh, NULL), EXG_OK);
    REFUSED("DTN-002", exg_dtensor_from_local(mesh, &local, list, 2, NULL, &t, &err));
    REFUSED("DTN-002", exg_distribute_tensor(mesh, &local, list, 2, 0, &t, &err));
    list[0] = exg_shard(0);
    REFUSED("DTN-002", exg_dtensor_from_local(mesh, &local, list, 1, NULL, &t, &err));
    REFUSED("DTN-002", exg_dtensor_from_local(mesh, &local, list, 3, NULL, &t, &err));
    REFUSED("DTN-002", exg_distribute_tensor(mesh, &number, list, 2, 0, &t, &err));
    REFUSED("DTN-003", exg_dtensor_from_local(mesh, &local, list, 2, &options, &t, &err));
    options.size = 0;
    assert_int_equal(exg_dtensor_from_local(mesh, &local, list, 2, &options, &t, &err), EXG_USAGE);
    assert_string_equal(err.code, "OPT-001");
    options = (exg_from_local_options){.size = sizeof(options), .strides = strides};
    assert_int_equal(exg_dtensor_from_local(mesh, &local, list, 2, &options, &t, &err), EXG_USAGE);
    assert_string_equal(err.code, "DTN-003");
    options = (exg_from_local_options){.size = sizeof(options), .shape = sizes};
    like.size = 0;
    assert_int_equal(exg_dtensor_zeros(mesh, &like, &t, &err), EXG_USAGE);
    assert_string_equal(err.code, "OPT-001");
    like.size = sizeof(like);
    options.strides = strides; /* rows are missing */
    REFUSED("DTN-004", exg_dtensor_from_local(mesh, &local, list, 2, &options, &t, &err));
    list[0] = exg_partial(EXG_REDUCE_SUM);
    list[1] = exg_partial(EXG_REDUCE_MAX);
    REFUSED("DTN-002", exg_dtensor_from_local(mesh, &local, list, 2, NULL, &t, &err));
    assert_non_null(strstr(err.message, "Partial(sum) beside Partial(max)"));
    list[1] = exg_partial(EXG_REDUCE_AVG);
    assert_int_equal(exg_dtensor_from_local(mesh, &local, list, 2, NULL, &t, NULL), EXG_OK);
    assert_int_equal(exg_dtensor_redistribute(t, list, 2, &out, NULL), EXG_OK);
    assert_ptr_not_equal(out, t);
    assert_ptr_equal(exg_dtensor_to_local(out)->data, exg_dtensor_to_local(t)->data);
    exg_dtensor_destroy(out);
    list[0] = list[1] = exg_partial(EXG_REDUCE_MAX);
    assert_int_equal(exg_dtensor_redistribute(t, list, 2, &out, &err), EXG_USAGE);
    assert_string_equal(err.code, "DTN-005");
    exg_dtensor_destroy(t);
    list[0] = list[1] = exg_partial(EXG_REDUCE_PRODUCT);
    REFUSED("DTN-007", exg_distribute_tensor(mesh, &local, list, 2, 0, &t, &err));
    REFUSED("DTN-007", exg_distribute_tensor(mesh, &local, NULL, 0, 5, &t, &err));
    assert_non_null(strstr(err.message, "rank 5 of a mesh of 1"));
    REFUSED("DTN-007", exg_distribute_tensor(mesh, &local, NULL, 0, 1, &t, &err));
    list[0] = exg_shard(-1);
    list[1] = exg_replicate();
    assert_int_equal(exg_dtensor_from_local(mesh, &local, list, 2, NULL, &t, NULL), EXG_OK);
    assert_int_equal(exg_dtensor_placements(t)[0].dim, 1);
    list[1] = exg_partial(EXG_REDUCE_SUM);
    REFUSED("DTN-005", exg_dtensor_redistribute(t, list, 2, &out, &err));
    REFUSED("DTN-002", exg_dtensor_redistribute(t, list, 1, &out, &err));
    exg_dtensor_destroy(t);
    REFUSED("DTN-009", exg_dtensor_zeros(mesh, &like, &t, &err));
    like.sizes = sizes;
    like.placements = list;
    like.placement_count = 2;
    for (int k = 0; k < 6; k++) { /* nothing is made of summands */
        assert_int_equal(k == 0   ? exg_dtensor_zeros(mesh, &like, &t, &err)
                         : k == 1 ? exg_dtensor_ones(mesh, &like, &t, &err)
                         : k == 2 ? exg_dtensor_empty(mesh, &like, &t, &err)
                         : k == 3 ? exg_dtensor_rand(mesh, &like, &rng, &t, &err)
                         : k == 4 ? exg_dtensor_randn(mesh, &like, &rng, &t, &err)
                                  : exg_dtensor_full(mesh, &like, exg_scalar_int(1), &t, &err),
                         EXG_USAGE);
        assert_string_equal(err.code, "DTN-009");
    }
    exg_device_mesh_destroy(mesh);
}

/* Each with the code of what it is. */
static void what_cannot_be_made_is_named(void **state)
{
    static const char longer[] = "a-name-of-a-dim-of-a-mesh-that-is-longer-than-is-taken-of-anyone";
    static char too_many[60], too_deep[60];
    static const struct {
        exg_mesh_shape shape;
        const char *code, *says;
    } rows[] = {
        {{.ndim = 0}, "DTN-001", "0 dims"},
        {{.ndim = EXG_MESH_DIMS_MAX + 1}, "DTN-001", too_many},
        {{.ndim = 2, .sizes = {1, 0}}, "DTN-001", "a mesh of 0 ranks"},
        {{.ndim = 2, .sizes = {16, 17}}, "DTN-001", "a mesh of 272 ranks; 1 to 256"},
        {{.ndim = 2, .sizes = {1, 1}, .names = {"dp", "dp"}}, "DTN-001", "'dp'"},
        {{.ndim = 2, .sizes = {1, 1}, .names = {NULL, longer}}, "DTN-001", "more than"},
    };
    const exg_mesh_shape most = {.ndim = 2, .sizes = {16, 16}};
    const exg_tensor deep = {.dtype = EXG_DTYPE_F32, .rank = EXG_RANK_MAX + 1};
    exg_mesh_shape line = mesh_shape("1");
    int64_t sizes[2] = {2, 2};
    exg_dtensor_like like = {
        .size = sizeof(like), .dtype = EXG_DTYPE_F32, .rank = 2, .sizes = sizes};
    exg_device_mesh *mesh, *meshes[256];
    exg_dtensor *t;
    exg_error err;

    (void)state;
    assert_true(sizeof(longer) > EXG_MESH_NAME_MAX);
    snprintf(too_many, sizeof(too_many), "a mesh of %d dims; 1 to %d", EXG_MESH_DIMS_MAX + 1,
             EXG_MESH_DIMS_MAX);
    snprintf(too_deep, sizeof(too_deep), "a tensor of %d dims; at most %d", EXG_RANK_MAX + 1,
             EXG_RANK_MAX);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(exg_local_mesh_create(&rows[i].shape, &mesh, &err), EXG_USAGE);
        assert_string_equal(err.code, rows[i].code);
        assert_non_null(strstr(err.message, rows[i].says));
    }
    for (int more = 0; more < 2; more++) { /* as long as a name may be, and longer */
        char name[EXG_MESH_NAME_MAX + 1];
        exg_mesh_shape named = {.ndim = 1, .sizes = {1}, .names = {name}};

        memset(name, 'n', sizeof(name));
        name[EXG_MESH_NAME_MAX - 1 + more] = '\0';
        assert_int_equal(exg_local_mesh_create(&named, &mesh, &err), more ? EXG_USAGE : EXG_OK);
        if (!more) {
            assert_string_equal(exg_device_mesh_dim_name(mesh, 0), name);
            exg_device_mesh_destroy(mesh);
        }
    }
    assert_int_equal(exg_local_mesh_create(&most, meshes, &err), EXG_OK);
    for (uint32_t r = 0; r < 256; r++) {
        exg_device_mesh_destroy(meshes[r]);
    }
    assert_int_equal(exg_local_mesh_create(&line, &mesh, NULL), EXG_OK);
    assert_int_equal(exg_dtensor_from_local(mesh, &deep, NULL, 0, NULL, &t, &err), EXG_LIMIT);
    assert_string_equal(err.code, "DTN-009");
    assert_non_null(strstr(err.message, too_deep));
    assert_int_equal(exg_dtensor_arange(mesh, &like, 0, 1, &t, &err), EXG_USAGE);
    assert_string_equal(err.code, "DTN-009");
    like.rank = 1;
    like.dtype = EXG_DTYPE_C64;
    assert_int_equal(exg_dtensor_arange(mesh, &like, 0, 1, &t, &err), EXG_USAGE);
    assert_string_equal(err.code, "DTN-009");
    exg_device_mesh_destroy(mesh);
}

/* With no mesh at all too. S003-13, S003-15, S003-54, S003-80, S003-84, S003-89, S003-90,
 * S003-124, S003-126 */
static void what_is_left_out_is_replicated_or_refused(void **state)
{
    exg_mesh_shape line = mesh_shape("1"), grid = mesh_shape("1x1");
    exg_device_mesh *one, *two;
    float data[6] = {0};
    exg_tensor whole = tensor_of(data, 2, 3);
    exg_placement list[2] = {exg_replicate(), exg_replicate()}, sum = exg_partial(EXG_REDUCE_SUM);
    exg_dtensor_like like = {
        .size = sizeof(like), .dtype = EXG_DTYPE_F32, .rank = 2, .sizes = whole.sizes};
    int64_t offsets[2], sizes[2];
    exg_tensor part;
    exg_dtensor *t, *out;
    exg_error err;

    (void)state;
    assert_int_equal(exg_local_mesh_create(&line, &one, NULL), EXG_OK);
    assert_int_equal(exg_local_mesh_create(&grid, &two, NULL), EXG_OK);
    for (int k = 0; k < 4; k++) { /* nothing, nothing, an empty list, nothing */
        like.placements = k == 2 ? list : NULL;
        assert_int_equal(k == 0   ? exg_distribute_tensor(two, &whole, NULL, 0, 0, &t, NULL)
                         : k == 3 ? exg_dtensor_from_local(two, &whole, NULL, 0, NULL, &t, NULL)
                                  : exg_dtensor_ones(two, &like, &t, NULL),
                         EXG_OK);
        assert_true(exg_placement_equal(exg_dtensor_placements(t)[0], exg_replicate()));
        assert_true(exg_placement_equal(exg_dtensor_placements(t)[1], exg_replicate()));
        assert_int_equal(exg_dtensor_redistribute(t, NULL, 0, &out, &err), EXG_USAGE);
        assert_string_equal(err.code, "DTN-002");
        exg_dtensor_destroy(t);
    }
    assert_int_equal(exg_distribute_tensor(one, &whole, list, 2, 0, &t, &err), EXG_USAGE);
    assert_non_null(strstr(err.message, "2 placements"));
    assert_non_null(strstr(err.message, "1 dims"));
    like.placements = list;
    like.placement_count = 2;
    REFUSED("DTN-002", exg_dtensor_zeros(one, &like, &t, &err));
    list[0] = exg_shard(2);
    REFUSED("DTN-002", exg_dtensor_zeros(two, &like, &t, &err));
    list[0] = exg_shard(-1);
    assert_int_equal(exg_dtensor_zeros(two, &like, &t, NULL), EXG_OK);
    assert_int_equal(exg_dtensor_placements(t)[0].dim, 1);
    exg_dtensor_destroy(t);
    assert_int_equal(exg_dtensor_from_local(one, &whole, &sum, 1, NULL, &t, NULL), EXG_OK);
    assert_int_equal(exg_dtensor_chunk(t, offsets, sizes, &err), EXG_USAGE);
    assert_string_equal(err.code, "DTN-014");
    REFUSED("DTN-014", exg_dtensor_shard_at(t, (const int64_t[]){0, 0}, &part, &err));
    exg_dtensor_destroy(t);
    assert_int_equal(exg_dtensor_from_local(NULL, &whole, &sum, 1, NULL, &t, &err), EXG_USAGE);
    assert_string_equal(err.code, "DTN-018");
    REFUSED("DTN-018", exg_distribute_tensor(NULL, &whole, NULL, 0, 0, &t, &err));
    assert_int_equal(exg_dtensor_empty(NULL, &like, &t, &err), EXG_USAGE);
    assert_string_equal(err.code, "DTN-018");
    whole.rank = EXG_RANK_MAX + 1;
    assert_int_equal(exg_dtensor_from_local(one, &whole, NULL, 0, NULL, &t, &err), EXG_LIMIT);
    assert_string_equal(err.code, "DTN-009");
    assert_int_equal(exg_distribute_tensor(one, &whole, NULL, 0, 0, &t, NULL), EXG_LIMIT);
    exg_device_mesh_destroy(one);
    exg_device_mesh_destroy(two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(meshes_have_parts),
        cmocka_unit_test(meshes_are_told_apart),
        cmocka_unit_test(ranks_outside_own_nothing),
        cmocka_unit_test(ranks_agree_or_say_so),
        cmocka_unit_test(parts_may_have_strides),
        cmocka_unit_test(distribute_tensor_takes_the_sources_values),
        cmocka_unit_test(factories_make_what_was_asked_for),
        cmocka_unit_test(random_numbers_are_spread_as_they_should),
        cmocka_unit_test(ranges_go_on_over_the_ranks),
        cmocka_unit_test(a_missing_rank_ends_the_collective_on_all),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(parts_keep_the_order_of_dims),
        cmocka_unit_test(numbers_have_a_shape),
        cmocka_unit_test(requires_grad_is_kept),
        cmocka_unit_test(parts_are_printed),
        cmocka_unit_test(what_cannot_be_made_is_named),
        cmocka_unit_test(what_is_left_out_is_replicated_or_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
