/* there.c - what DTensors in a device's memory do without the host: copies between the two are
 * counted, and sums have the bits of sums in the order of ranks, but for those of NCCL. On the
 * strict device, or the kind that EXG_TEST_DEVICE names: one whose devices can be joined is asked
 * for all, others for what is there.
 */
#include "libexec/dtensor/mesh.h"
#include "tests/exec/cuda/calls.h"
#include "tests/exec/dispatch/eager.h"
#include "tests/exec/dtensor/ranks.h"

#include <exg/autograd.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define ROWS    8
#define COLUMNS 10
#define NUMEL   (ROWS * COLUMNS)

/* ---- counting -------------------------------------------------------------------------------- */

static const exg_device_table *device; /* the kind's own */
static exg_device_table counting;
static _Thread_local int copies, waits; /* of the rank */

static exg_status count_in(exg_accelerator *d, void *to, const void *from, uint64_t bytes,
                           exg_error *err)
{
    copies++;
    return device->copy_in(d, to, from, bytes, err);
}

static exg_status count_out(exg_accelerator *d, void *to, const void *from, uint64_t bytes,
                            exg_error *err)
{
    copies++;
    return device->copy_out(d, to, from, bytes, err);
}

static exg_status count_wait(exg_accelerator *d, exg_error *err)
{
    waits++;
    return device->wait(d, err);
}

static void count_from_now(rank_context *c)
{
    c->mesh->device->table = &counting;
    copies = waits = 0;
}

/* One that ranks share, or one for each. */
static bool joins(void)
{
    return device->join != NULL;
}

static bool is_shared(void)
{
    uint32_t count;

    return device->count(&count, NULL) == EXG_OK && count == 1;
}

static bool computes(void)
{
    extern const exg_kernel exg_kernel_full;

    return device->kernel_of(&exg_kernel_full) != NULL;
}

/* ---- moves ----------------------------------------------------------------------------------- */

/* Of sizes that differ, so that the order of a sum is seen. */
static float number(uint32_t rank, int64_t place)
{
    return (float)((rank * 7919 + (uint64_t)place * 104729) % 1999) / (float)(1 + place % 13 * 97) +
           (rank % 2 == 0 ? 1e6f : -1e6f);
}

typedef struct move {
    const char *from, *to;
    int copies;      /* of a rank, where devices cannot be joined */
    bool is_strided; /* the part lies column by column */
} move;

static void make_local(rank_context *c, const exg_placement *from, const move *m, float *data,
                       exg_tensor *local)
{
    int64_t sizes[2] = {ROWS, COLUMNS}, offsets[2];

    *local = (exg_tensor){.data = data, .dtype = EXG_DTYPE_F32, .rank = 2};
    exg_local_chunk(c->mesh, exg_device_mesh_rank(c->mesh), from, sizes, 2, offsets, local->sizes);
    exg_tensor_set_contiguous(local);
    if (m->is_strided) {
        local->strides[0] = 1;
        local->strides[1] = local->sizes[0];
    }
    for (int64_t i = 0; i < local->sizes[0]; i++) {
        for (int64_t k = 0; k < local->sizes[1]; k++) {
            data[i * local->strides[0] + k * local->strides[1]] =
                number(exg_device_mesh_rank(c->mesh), (offsets[0] + i) * COLUMNS + offsets[1] + k);
        }
    }
}

/* Does `rank` hold an element at (row, column), as a shard or as a summand? */
static bool holds(rank_context *c, const exg_placement *from, uint32_t rank, int64_t row,
                  int64_t column)
{
    int64_t sizes[2] = {ROWS, COLUMNS}, at[2], size[2];

    exg_local_chunk(c->mesh, rank, from, sizes, 2, at, size);
    return row >= at[0] && row < at[0] + size[0] && column >= at[1] && column < at[1] + size[1];
}

/* All that hold it, one after the other: copies do not come with sums here. */
static float expected(rank_context *c, const exg_placement *from, int64_t row, int64_t column)
{
    bool sums = false;
    float sum = 0;
    int found = 0;

    for (uint32_t d = 0; d < exg_device_mesh_ndim(c->mesh); d++) {
        sums = sums || from[d].kind == EXG_PARTIAL;
    }
    for (uint32_t r = 0; r < exg_device_mesh_size(c->mesh); r++) {
        float x = number(r, row * COLUMNS + column);

        if (holds(c, from, r, row, column) && (sums || found == 0)) {
            sum = found++ == 0 ? x : sum + x;
        }
    }
    return sum;
}

/* Of replicas a rank takes those at its own coordinates: numbers of one rank, here. */
static void check_part(rank_context *c, const exg_placement *from, const exg_placement *to,
                       const exg_dtensor *t, const move *m)
{
    const exg_tensor *part = on_host(t);
    int64_t sizes[2] = {ROWS, COLUMNS}, at[2], size[2];
    const float *data = part->data;
    bool is_own = strchr(m->from, 'R') != NULL;

    exg_local_chunk(c->mesh, exg_device_mesh_rank(c->mesh), to, sizes, 2, at, size);
    for (int64_t i = 0; i < size[0] * size[1]; i++) {
        int64_t row = at[0] + i / size[1], column = at[1] + i % size[1];
        float want = is_own ? number(exg_device_mesh_rank(c->mesh), row * COLUMNS + column)
                            : expected(c, from, row, column);

        EXPECT(c,
               memcmp(&data[i], &want, sizeof(want)) == 0 ||
                   (!is_shared() && strchr(m->from, 'P') != NULL && fabsf(data[i] - want) < 1),
               "%s => %s: %g, not %g", m->from, m->to, (double)data[i], (double)want);
    }
}

static void make_move(rank_context *c)
{
    const move *m = c->user;
    exg_placement from[EXG_MESH_DIMS_MAX], to[EXG_MESH_DIMS_MAX];
    uint32_t count = placements_of(m->from, from);
    int64_t sizes[2] = {ROWS, COLUMNS}, strides[2] = {COLUMNS, 1};
    exg_from_local_options options = {sizeof(options), sizes, strides, false, false};
    int want = joins() ? 0 : m->copies;
    exg_dtensor *t = NULL, *moved = NULL;
    float data[NUMEL];
    exg_tensor local;
    exg_error err;

    (void)placements_of(m->to, to);
    make_local(c, from, m, data, &local);
    EXPECT(c, exg_dtensor_from_local(c->mesh, &local, from, count, &options, &t, &err) == EXG_OK,
           "%s", err.message);
    for (int k = 0; k < 2 && c->faults == 0; k++) { /* the first time ranks' devices are joined */
        count_from_now(c);
        EXPECT(c, exg_dtensor_redistribute(t, to, count, &moved, &err) == EXG_OK, "%s",
               err.message);
        EXPECT(c, copies == want && (waits > 0) == (want > 0), "%s => %s: %d copies, %d waits",
               m->from, m->to, copies, waits);
        c->mesh->device->table = device;
        if (c->faults == 0) {
            check_part(c, from, to, moved, m);
        }
        exg_dtensor_destroy(moved);
        moved = NULL;
    }
    exg_dtensor_destroy(t);
}

static void parts_go_from_device_to_device(void **state)
{
    static const struct {
        const char *mesh;
        move move;
    } rows[] = {
        {"4", {"S(0)", "R", 2, false}},
        {"4", {"S(1)", "R", 2, false}},
        {"4", {"S(1)", "R", 2, true}},
        {"4", {"S(0)", "S(1)", 2, false}},
        {"4", {"R", "S(1)", 0, false}}, /* what is there */
        {"4", {"R", "S(0)", 0, true}},
        {"2", {"P(sum)", "R", 2, false}},
        {"4", {"P(sum)", "R", 2, false}},
        {"4", {"P(sum)", "R", 2, true}},
        {"3", {"P(sum)", "S(0)", 2, false}},
        {"2x2", {"P(sum) P(sum)", "R R", 2, false}},
        {"2x2", {"P(sum) P(sum)", "S(1) S(0)", 2, false}},
        {"2x2", {"S(0) P(sum)", "R R", 2, false}},
        {"2x2", {"P(sum) S(1)", "S(0) S(0)", 2, false}},
        {"2x3", {"S(0) S(1)", "R R", 2, false}},
        {"2x3", {"S(1) S(0)", "S(0) S(1)", 2, false}},
        {"2x2x2", {"S(0) S(1) S(0)", "S(1) S(0) S(1)", 2, false}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        on_mesh(rows[i].mesh, make_move, &rows[i].move);
    }
}

/* A part of several pieces; exec_redistribute looks at them. */
static void move_pieces(rank_context *c)
{
    exg_placement from[2] = {exg_shard(0), exg_shard(1)};
    exg_placement to[2] = {exg_strided_shard(0, 2), exg_shard(0)};
    exg_dtensor *t = NULL, *moved = NULL;
    float data[NUMEL];
    exg_tensor local;
    exg_error err;

    make_local(c, from, &(move){0}, data, &local);
    EXPECT(c, exg_dtensor_from_local(c->mesh, &local, from, 2, NULL, &t, &err) == EXG_OK, "%s",
           err.message);
    for (int k = 0; k < 2 && c->faults == 0; k++) {
        exg_dtensor_destroy(moved);
        moved = NULL;
        count_from_now(c);
        EXPECT(c, exg_dtensor_redistribute(t, to, 2, &moved, &err) == EXG_OK, "%s", err.message);
        EXPECT(c, copies == (joins() ? 0 : 2), "%d copies", copies);
        c->mesh->device->table = device;
    }
    exg_dtensor_destroy(moved);
    exg_dtensor_destroy(t);
}

static void pieces_go_from_device_to_device(void **state)
{
    (void)state;
    on_mesh("2x2", move_pieces, NULL);
}

/* ---- through NCCL ---------------------------------------------------------------------------- */

static void move_by_nccl(rank_context *c)
{
    exg_placement rows = exg_shard(0), whole = exg_replicate();
    exg_step_options async = {.size = sizeof(async), .async = true};
    exg_dtensor *t = NULL, *moved[2] = {NULL};
    float data[NUMEL];
    exg_tensor local;
    exg_error err;
    eager e;

    eager_begin(&e, c, NULL);
    make_local(c, &rows, &(move){0}, data, &local);
    EXPECT(c, exg_dtensor_from_local(c->mesh, &local, &rows, 1, NULL, &t, &err) == EXG_OK, "%s",
           err.message);
    count_from_now(c);
    EXPECT(c,
           exg_dtensor_redistribute(t, &whole, 1, &moved[0], &err) == EXG_OK &&
               exg_redistribute(e.d, t, &whole, 1, &async, &moved[1], &err) == EXG_OK,
           "%s", err.message);
    EXPECT(c, c->faults == 0 && !exg_dtensor_is_ready(moved[1]), "on its way");
    EXPECT(c,
           c->faults == 0 && exg_dtensor_wait(moved[1], &err) == EXG_OK &&
               exg_dtensor_is_ready(moved[1]),
           "%s", err.message);
    EXPECT(c, copies == 0 && waits == 0, "%d copies, %d waits", copies, waits);
    c->mesh->device->table = device;
    for (int k = 0; c->faults == 0 && k < 2; k++) {
        check_part(c, &rows, &whole, moved[k], &(move){.from = "S(0)", .to = "R"});
    }
    for (int k = 0; k < 2; k++) {
        exg_dtensor_destroy(moved[k]);
    }
    exg_dtensor_destroy(t);
    eager_end(&e);
}

/* On devices of their own, in the stand-ins' notes. */
static void ranks_with_devices_of_their_own_call_nccl(void **state)
{
    (void)state;
    if (!joins() || is_shared() || !is_standin()) {
        skip();
    }
    keep_calls();
    on_mesh("2", move_by_nccl, NULL);
    assert_int_equal(calls_of("ncclCommInitRankConfig"), 2);
    assert_int_equal(calls_of("ncclGroupEnd"), 4);
    assert_int_equal(calls_of("ncclCommDestroy"), 2);
    assert_int_equal(calls_of("ncclCommAbort"), 0);
    drop_calls();
}

/* ---- from one rank --------------------------------------------------------------------------- */

static void distribute(rank_context *c)
{
    float data[NUMEL];
    exg_placement whole = exg_replicate(), columns = exg_shard(1);
    exg_dtensor *t = NULL, *parts = NULL;
    exg_tensor given, there;
    exg_error err;

    make_local(c, &whole, &(move){0}, data, &given);
    EXPECT(c, exg_distribute_tensor(c->mesh, &given, &whole, 1, EXG_NO_RANK, &t, &err) == EXG_OK,
           "%s", err.message);
    if (c->faults > 0) {
        return;
    }
    there = exg_device_mesh_rank(c->mesh) == 1 ? *exg_dtensor_to_local(t) : given;
    count_from_now(c); /* the source alone has it there */
    EXPECT(c, exg_distribute_tensor(c->mesh, &there, &columns, 1, 1, &parts, &err) == EXG_OK, "%s",
           err.message);
    EXPECT(c,
           copies == (joins()                              ? 0
                      : exg_device_mesh_rank(c->mesh) == 1 ? 2
                                                           : 1),
           "%d copies", copies);
    c->mesh->device->table = device;
    for (int64_t i = 0; c->faults == 0 && i < ROWS * (COLUMNS / 2); i++) {
        int64_t at = i / (COLUMNS / 2) * COLUMNS + i % (COLUMNS / 2) +
                     COLUMNS / 2 * exg_device_mesh_rank(c->mesh);

        EXPECT(c, ((const float *)on_host(parts)->data)[i] == number(1, at), "element %d", (int)i);
    }
    exg_dtensor_destroy(parts);
    exg_dtensor_destroy(t);
}

static void a_whole_is_cut_where_it_lies(void **state)
{
    (void)state;
    on_mesh("2", distribute, NULL);
}

/* ---- what is made ---------------------------------------------------------------------------- */

static const struct {
    exg_dtype dtype;
    double value;
    uint8_t element[16]; /* little endian */
} constants[] = {
    {EXG_DTYPE_F32, -0.0, {0, 0, 0, 0x80}},
    {EXG_DTYPE_F64, 1, {0, 0, 0, 0, 0, 0, 0xf0, 0x3f}},
    {EXG_DTYPE_BF16, 1, {0x80, 0x3f}},
    {EXG_DTYPE_F16, -2, {0x00, 0xc0}},
    {EXG_DTYPE_I8, -3, {0xfd}},
    {EXG_DTYPE_U8, 200, {200}},
    {EXG_DTYPE_B8, 0.5, {1}},
    {EXG_DTYPE_I16, -2, {0xfe, 0xff}},
    {EXG_DTYPE_I32, 1 << 20, {0, 0, 0x10, 0}},
    {EXG_DTYPE_I64, -1, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}},
    {EXG_DTYPE_C64, 1, {0, 0, 0x80, 0x3f}},
    {EXG_DTYPE_C128, 1, {0, 0, 0, 0, 0, 0, 0xf0, 0x3f}}, /* through the host */
};

static void fill(rank_context *c)
{
    int64_t sizes[2] = {ROWS, COLUMNS};
    exg_placement columns = exg_shard(1);
    exg_dtensor_like like = {.size = sizeof(like),
                             .rank = 2,
                             .sizes = sizes,
                             .placements = &columns,
                             .placement_count = 1};

    for (size_t i = 0; i < sizeof(constants) / sizeof(constants[0]); i++) {
        uint32_t bytes = exg_dtype_bytes(constants[i].dtype);
        const exg_tensor *part;
        exg_dtensor *t = NULL;
        exg_error err;

        like.dtype = constants[i].dtype;
        count_from_now(c);
        EXPECT(c,
               exg_dtensor_full(c->mesh, &like, exg_scalar_float(constants[i].value), &t, &err) ==
                   EXG_OK,
               "%s", err.message);
        EXPECT(c, copies == (computes() && bytes < 16 ? 0 : 1), "%s: %d copies",
               exg_dtype_name(like.dtype), copies);
        c->mesh->device->table = device;
        part = c->faults == 0 ? on_host(t) : NULL;
        for (int64_t k = 0; part != NULL && k < exg_tensor_numel(part); k++) {
            EXPECT(c,
                   memcmp((const uint8_t *)part->data + k * bytes, constants[i].element, bytes) ==
                       0,
                   "an element of %s", exg_dtype_name(like.dtype));
        }
        exg_dtensor_destroy(t);
    }
}

static void constants_are_made_there(void **state)
{
    (void)state;
    on_mesh("3", fill, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_go_from_device_to_device),
        cmocka_unit_test(pieces_go_from_device_to_device),
        cmocka_unit_test(ranks_with_devices_of_their_own_call_nccl),
        cmocka_unit_test(a_whole_is_cut_where_it_lies),
        cmocka_unit_test(constants_are_made_there),
    };
    int status;

    (void)setenv("EXG_TEST_DEVICE", "strict", 0);
    if (exg_device_table_find(getenv("EXG_TEST_DEVICE"), &device, NULL) != EXG_OK) {
        return 1;
    }
    counting = *device;
    counting.copy_in = count_in;
    counting.copy_out = count_out;
    counting.wait = count_wait;
    (void)all_operators();
    status = cmocka_run_group_tests(tests, NULL, NULL);
    free_operators();
    return status;
}
