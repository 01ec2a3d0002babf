/* dispatch.c - one operator on DTensors: seeds.md S001. */
#include "tests/exec/dispatch/eager.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define COUNT(a) ((uint32_t)(sizeof(a) / sizeof((a)[0])))

static uint64_t exchanges(const eager *e)
{
    return exg_device_mesh_exchanges(e->mesh);
}

static uint32_t rank_of(const eager *e)
{
    return exg_device_mesh_rank(e->mesh);
}

/* ---- one operator ------------------------------------------------------------------------------ */

static void add_and_multiply(rank_context *c)
{
    static const double sum[] = {0, 2, 4, 6, 8, 10, 12, 14};
    eager e;
    exg_dtensor *x, *y, *z, *a, *b;
    uint64_t before;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "4x2", "S(0)");
    y = counted(&e, EXG_DTYPE_F32, "4x2", "S(0)");
    before = exchanges(&e);
    z = CALL(&e, "aten.add.Tensor", T(x), T(y));
    EXPECT(c, exchanges(&e) == before, "adding equal placements sends something");
    expect_values(&e, z, "S(0)", sum, 8, "add");
    exg_dtensor_destroy(z);
    exg_dtensor_destroy(y);

    y = counted(&e, EXG_DTYPE_F32, "4x2", "S(1)");
    before = exchanges(&e);
    z = CALL(&e, "aten.add.Tensor", T(x), T(y));
    EXPECT(c, exchanges(&e) == before + (exg_device_mesh_size(e.mesh) > 1), "one exchange to add S(0) and S(1)");
    expect_values(&e, z, "", sum, 8, "add of two placements");
    exg_dtensor_destroy(z);

    a = counted(&e, EXG_DTYPE_F32, "2x2", "R");
    b = counted(&e, EXG_DTYPE_F32, "2x3", "S(1)");
    z = CALL(&e, "aten.mm.default", T(a), T(b));
    expect_values(&e, z, "S(1)", (const double[]){3, 4, 5, 9, 14, 19}, 6, "mm");
    exg_dtensor_destroy(z);
    exg_dtensor_destroy(a);
    exg_dtensor_destroy(b);
    a = counted(&e, EXG_DTYPE_F32, "2x3", "S(1)");
    b = counted(&e, EXG_DTYPE_F32, "3x2", "S(0)");
    before = exchanges(&e);
    z = CALL(&e, "aten.mm.default", T(a), T(b));
    EXPECT(c, exchanges(&e) == before, "mm over the contracted dim sends nothing");
    expect_values(&e, z, "P(sum)", (const double[]){10, 13, 28, 40}, 4, "mm of parts");
    exg_dtensor_destroy(z);
    exg_dtensor_destroy(a);
    exg_dtensor_destroy(b);
    exg_dtensor_destroy(x);
    exg_dtensor_destroy(y);
    eager_end(&e);
}

/* S001-38 */
static void an_operator_runs_on_parts(void **state)
{
    (void)state;
    on_mesh("1", add_and_multiply, NULL);
    on_mesh("2", add_and_multiply, NULL);
    on_mesh("3", add_and_multiply, NULL);
    on_mesh("4", add_and_multiply, NULL);
}

/* ---- in place ------------------------------------------------------------------------------------ */

static void write_in_place(rank_context *c)
{
    eager e;
    exg_dtensor *x, *y, *z;
    const void *data;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "4", "R");
    z = CALL(&e, "aten.mul.Tensor", T(x), of_int(0));
    y = NULL;
    EXPECT(c, exg_dtensor_redistribute(z, (exg_placement[]){exg_shard(0)}, 1, &y, &e.err) ==
                  EXG_OK, "%s", e.err.message);
    exg_dtensor_destroy(z);
    data = exg_dtensor_to_local(y)->data;
    z = CALL(&e, "aten.add_.Tensor", T(y), T(x));
    EXPECT(c, z == y && exg_dtensor_to_local(y)->data == data, "another object or memory");
    EXPECT(c, ((const float *)data)[0] == (float)(2 * rank_of(&e)) &&
                  ((const float *)data)[1] == (float)(2 * rank_of(&e) + 1), "the local part");
    expect_values(&e, y, "S(0)", (const double[]){0, 1, 2, 3}, 4, "add_");
    exg_dtensor_destroy(x);
    exg_dtensor_destroy(y);
    eager_end(&e);
}

/* S001-39 */
static void in_place_returns_the_argument(void **state)
{
    (void)state;
    on_mesh("2", write_in_place, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_operator_runs_on_parts),
        cmocka_unit_test(in_place_returns_the_argument),
    };
    int failed;

    (void)all_operators();
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    free_operators();
    return failed;
}
