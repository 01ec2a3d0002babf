/* mpi.c - ranks as processes: what holds between threads holds between them, to the bit.
 *
 *   mpirun -n 4 test_exec_mpi
 */
#include "tests/exec/dispatch/eager.h"
#include "tests/exec/dtensor/pairs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ELEMENTS 37

static float number(uint32_t rank, int i)
{
    return (float)((rank * 7919u + (uint32_t)i * 104729u) % 10007u) / 97.0f;
}

/* Sums are taken in the order of the ranks: the bits are those of this loop. */
static void sum_in_order(rank_context *c)
{
    float data[ELEMENTS];
    exg_tensor local = {
        .data = data, .dtype = EXG_DTYPE_F32, .rank = 1, .sizes = {ELEMENTS}, .strides = {1}};
    exg_placement partial = exg_partial(EXG_REDUCE_SUM);
    exg_dtensor *t = NULL, *whole = NULL;

    for (int i = 0; i < ELEMENTS; i++) {
        data[i] = number(exg_device_mesh_rank(c->mesh), i);
    }
    EXPECT(c,
           exg_dtensor_from_local(c->mesh, &local, &partial, 1, NULL, &t, NULL) == EXG_OK &&
               exg_dtensor_full_tensor(t, &whole, NULL) == EXG_OK,
           "no sum");
    for (int i = 0; c->faults == 0 && i < ELEMENTS; i++) {
        float sum = number(0, i);

        for (uint32_t r = 1; r < exg_device_mesh_size(c->mesh); r++) {
            sum += number(r, i);
        }
        EXPECT(c, memcmp((const float *)on_host(whole)->data + i, &sum, 4) == 0,
               "element %d has other bits", i);
    }
    exg_dtensor_destroy(whole);
    exg_dtensor_destroy(t);
}

static void take_a_slice(rank_context *c)
{
    const uint32_t last = 1;
    exg_device_mesh *row = NULL;
    rank_context inner = {.user = &(pairs){(int64_t[]){5, 3}, 2, EXG_REDUCE_SUM}};

    EXPECT(c, exg_device_mesh_slice(c->mesh, &last, 1, &row, NULL) == EXG_OK, "no slice");
    if (c->faults == 0) {
        inner.mesh = row;
        check_pairs(&inner);
        EXPECT(c, inner.faults == 0, "on a slice: %s", inner.what);
    }
    exg_device_mesh_destroy(row);
}

/* Operators dispatched between processes: a product of parts, its sum, a number told to all. */
static void dispatch_operators(rank_context *c)
{
    eager e;
    exg_dtensor *x, *y, *z, *sum;
    exg_scalar number;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "2x3", "S(1)");
    y = counted(&e, EXG_DTYPE_F32, "3x2", "S(0)");
    z = CALL(&e, "aten.mm.default", T(x), T(y));
    expect_values(&e, z, "P(sum)", (const double[]){10, 13, 28, 40}, 4, "mm");
    sum = CALL(&e, "aten.sum.default", T(z));
    EXPECT(c, exg_dtensor_item(sum, &number, &e.err) == EXG_OK && number.as_float == 91,
           "the item: %s", e.err.message);
    exg_dtensor_destroy(x);
    exg_dtensor_destroy(y);
    exg_dtensor_destroy(z);
    exg_dtensor_destroy(sum);
    eager_end(&e);
}

/* Rank 1 never comes: the others are told so, in time. */
static void miss_rank_1(rank_context *c)
{
    float data[4] = {0};
    exg_tensor local = {
        .data = data, .dtype = EXG_DTYPE_F32, .rank = 1, .sizes = {4}, .strides = {1}};
    exg_placement shard = exg_shard(0);
    exg_dtensor *t = NULL, *whole = NULL;
    exg_error err;

    if (exg_device_mesh_rank(c->mesh) == 1) {
        return;
    }
    exg_device_mesh_set_deadline(c->mesh, 300 * 1000 * 1000);
    EXPECT(c,
           exg_dtensor_from_local(c->mesh, &local, &shard, 1, NULL, &t, NULL) == EXG_OK &&
               exg_dtensor_full_tensor(t, &whole, &err) == EXG_PEER,
           "not noticed");
    exg_dtensor_destroy(t);
}

static uint32_t on_processes(const char *shape, void (*body)(rank_context *c), const void *user)
{
    exg_mesh_shape grid = mesh_shape(shape);
    rank_context c = {.user = user};
    exg_error err;

    if (exg_mpi_mesh_create(&grid, &c.mesh, &err) != EXG_OK) {
        fprintf(stderr, "%s: %s\n", err.code, err.message);
        return 1;
    }
    body(&c);
    if (c.faults > 0) {
        fprintf(stderr, "mesh %s, rank %u: %s (%u faults)\n", shape, exg_device_mesh_rank(c.mesh),
                c.what, c.faults);
    }
    exg_device_mesh_destroy(c.mesh);
    return c.faults;
}

int main(void)
{
    exg_mesh_shape wrong = mesh_shape("5");
    exg_device_mesh *none;
    uint32_t faults = 0;

    faults += on_processes("4", check_pairs, &(pairs){(int64_t[]){5, 3}, 2, EXG_REDUCE_SUM});
    faults += on_processes("2x2", check_pairs, &(pairs){(int64_t[]){4, 8}, 2, EXG_REDUCE_SUM});
    faults += on_processes("2x2", check_pairs, &(pairs){(int64_t[]){7}, 1, EXG_REDUCE_AVG});
    faults += on_processes("4", check_pairs, &(pairs){(int64_t[]){0}, 0, EXG_REDUCE_SUM});
    faults += on_processes("4", sum_in_order, NULL);
    faults += on_processes("2x2", take_a_slice, NULL);
    (void)all_operators();
    faults += on_processes("4", dispatch_operators, NULL);
    free_operators();
    faults += exg_mpi_mesh_create(&wrong, &none, NULL) != EXG_USAGE;
    faults += on_processes("4", miss_rank_1, NULL);
    exg_mpi_finish();
    return faults > 0;
}
