/* out.c - operators that write their results where they are told: out= variants, and in place where
 * they read. */
#include "tests/exec/dispatch/eager.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static exg_object call_out(eager *e, const char *key, exg_object *args, uint32_t count,
                           exg_named_object *outs, uint32_t out_count)
{
    exg_object result = exg_object_none();

    EXPECT(e->c, exg_dispatch(e->d, key, args, count, outs, out_count, &result, &e->err) == EXG_OK,
           "%s: %s", key, e->err.message);
    return result;
}

static void write_out(rank_context *c)
{
    static const double ones[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    static const double fours[16] = {4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4};
    eager e;
    exg_dtensor *x, *y, *out, *a, *b, *values, *indices;
    exg_named_object kwargs[2];
    exg_object result;
    const void *data;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "4", "R");
    y = counted(&e, EXG_DTYPE_F32, "4", "R");
    out = counted(&e, EXG_DTYPE_F32, "4", "S(0)");
    data = exg_dtensor_to_local(out)->data;
    kwargs[0] = (exg_named_object){"out", T(out)};
    result = call_out(&e, "aten.add.out", (exg_object[]){T(x), T(y)}, 2, kwargs, 1);
    EXPECT(c,
           result.kind == EXG_OBJECT_DTENSOR && result.dtensor == out &&
               exg_dtensor_to_local(out)->data == data,
           "another object or memory");
    expect_values(&e, out, "S(0)", (const double[]){0, 2, 4, 6}, 4, "add.out");
    EXPECT(c,
           exg_dispatch(e.d, "aten.add.out", (exg_object[]){T(x), T(y)}, 2, NULL, 0, &result,
                        &e.err) == EXG_USAGE &&
               strstr(e.err.message, "'out'") != NULL,
           "a missing out: %s", e.err.message);
    exg_dtensor_destroy(out);
    out = counted(&e, EXG_DTYPE_F32, "3", "S(0)");
    kwargs[0].object = T(out);
    EXPECT(c,
           exg_dispatch(e.d, "aten.add.out", (exg_object[]){T(x), T(y)}, 2, kwargs, 1, &result,
                        &e.err) == EXG_USAGE &&
               strcmp(e.err.code, "DSP-007") == 0,
           "a short out: %s", e.err.message);
    exg_dtensor_destroy(out);
    exg_dtensor_destroy(x);
    exg_dtensor_destroy(y);

    a = parts(&e, EXG_DTYPE_F32, "4x4", "S(1)", ones);
    b = parts(&e, EXG_DTYPE_F32, "4x4", "S(0)", ones);
    out = counted(&e, EXG_DTYPE_F32, "4x4", "S(0)");
    kwargs[0].object = T(out);
    result = call_out(&e, "aten.mm.out", (exg_object[]){T(a), T(b)}, 2, kwargs, 1);
    expect_values(&e, out, "S(0)", fours, 16, "mm.out");
    exg_dtensor_destroy(out);
    exg_dtensor_destroy(a);
    exg_dtensor_destroy(b);

    x = counted(&e, EXG_DTYPE_F32, "2x3", "S(0)");
    values = counted(&e, EXG_DTYPE_F32, "2x1", "S(0)");
    indices = counted(&e, EXG_DTYPE_I64, "2x1", "S(0)");
    kwargs[0] = (exg_named_object){"values", T(values)};
    kwargs[1] = (exg_named_object){"indices", T(indices)};
    result = call_out(&e, "aten.topk.values", (exg_object[]){T(x), of_int(1)}, 2, kwargs, 2);
    EXPECT(c,
           result.kind == EXG_OBJECT_TUPLE && result.count == 2 &&
               result.items[0].dtensor == values && result.items[1].dtensor == indices,
           "topk gives its two outs");
    exg_object_clear(&result, false);
    expect_values(&e, values, "S(0)", (const double[]){2, 5}, 2, "topk values");
    expect_values(&e, indices, "S(0)", (const double[]){2, 2}, 2, "topk indices");
    exg_dtensor_destroy(x);
    exg_dtensor_destroy(values);
    exg_dtensor_destroy(indices);
    eager_end(&e);
}

/* The factors of [[4, 3], [6, 3]] as PyTorch gives them: rows exchanged, 2 / 3 of the first. */
static void unpack(rank_context *c)
{
    static const double packed[] = {6, 3, 2.0 / 3, 1};
    static const double factors[3][4] = {{0, 1, 1, 0}, {1, 0, 2.0 / 3, 1}, {6, 3, 0, 1}};
    static const char *const names[] = {"P", "L", "U"};
    int32_t places[2] = {2, 2};
    exg_tensor swaps = {
        .data = places, .dtype = EXG_DTYPE_I32, .rank = 1, .sizes = {2}, .strides = {1}};
    exg_named_object kwargs[3];
    exg_dtensor *lu, *pivots = NULL, *outs[3];
    exg_object result;
    eager e;

    eager_begin(&e, c, NULL);
    lu = parts(&e, EXG_DTYPE_F32, "2x2", "R", packed);
    EXPECT(c, exg_distribute_tensor(c->mesh, &swaps, NULL, 0, 0, &pivots, &e.err) == EXG_OK, "%s",
           e.err.message);
    for (int i = 0; i < 3; i++) {
        outs[i] = counted(&e, EXG_DTYPE_F32, "2x2", i == 1 ? "S(0)" : "R");
        kwargs[i] = (exg_named_object){names[i], T(outs[i])};
    }
    result = call_out(&e, "aten.lu_unpack.out", (exg_object[]){T(lu), T(pivots)}, 2, kwargs, 3);
    EXPECT(c,
           result.kind == EXG_OBJECT_TUPLE && result.count == 3 &&
               result.items[0].dtensor == outs[0] && result.items[1].dtensor == outs[1] &&
               result.items[2].dtensor == outs[2],
           "lu_unpack gives its three outs");
    exg_object_clear(&result, false);
    for (int i = 0; i < 3; i++) {
        expect_values(&e, outs[i], i == 1 ? "S(0)" : "R", factors[i], 4, names[i]);
        exg_dtensor_destroy(outs[i]);
    }
    exg_dtensor_destroy(lu);
    exg_dtensor_destroy(pivots);
    eager_end(&e);
}

/* S001-43, S001-45, S001-46, S001-47 */
static void out_variants_fill_what_they_are_given(void **state)
{
    (void)state;
    on_mesh("2", write_out, NULL);
    on_mesh("3", write_out, NULL);
    on_mesh("2", unpack, NULL);
}

/* A row, or one number, is added to the whole that it is part of: as it was before. */
static void add_part_of_itself(rank_context *c)
{
    enum { SIDE = 256 };
    double *sums = malloc(SIDE * SIDE * sizeof(*sums));
    eager e;

    eager_begin(&e, c, NULL);
    for (int k = 0; k < 2; k++) {
        exg_dtensor *x = counted(&e, EXG_DTYPE_F32, "256x256", "R");
        exg_dtensor *row = CALL(&e, "aten.select.int", T(x), of_int(0), of_int(1));
        exg_dtensor *one = CALL(&e, "aten.slice.Tensor", T(row), of_int(0), of_int(1), of_int(2));

        (void)CALL(&e, "aten.add_.Tensor", T(x), T(k == 0 ? row : one));
        for (int i = 0; i < SIDE * SIDE; i++) {
            sums[i] = i + SIDE + (k == 0 ? i % SIDE : 1);
        }
        expect_values(&e, x, "R", sums, SIDE * SIDE, k == 0 ? "x += x[1]" : "x += x[1, 1:2]");
        exg_dtensor_destroy(one);
        exg_dtensor_destroy(row);
        exg_dtensor_destroy(x);
    }
    free(sums);
    eager_end(&e);
}

static void what_is_read_is_as_it_was_before(void **state)
{
    (void)state;
    on_mesh("2", add_part_of_itself, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(out_variants_fill_what_they_are_given),
        cmocka_unit_test(what_is_read_is_as_it_was_before),
    };
    int failed;

    (void)all_operators();
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    free_operators();
    return failed;
}
