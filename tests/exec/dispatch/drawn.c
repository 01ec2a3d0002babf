/* drawn.c - what draws as many numbers as a tensor has elements lies as the tensor does, and draws
 * what it would of the whole. */
#include "tests/exec/dispatch/eager.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* x: 0, 1, 2, ...; h: halves of its sizes; n: a tensor of one 9; .: the number 0.5; else a digit */
static const struct {
    const char *key, *given;
} rows[] = {
    {"aten.bernoulli.default", "h"},
    {"aten.bernoulli.p", "x."},
    {"aten.bernoulli.Tensor", "xh"},
    {"aten.poisson.default", "x"},
    {"aten.binomial.default", "xh"},
    {"aten._standard_gamma.default", "x"},
    {"aten.randint_like.default", "x9"},
    {"aten.randint_like.low_dtype", "x29"},
    {"aten.randint_like.Tensor", "xn"},
    {"aten.uniform.default", "x"},
    {"aten.normal_functional.default", "x"},
    {"aten.exponential.default", "x"},
    {"aten.cauchy.default", "x"},
    {"aten.geometric.default", "x."},
    {"aten.log_normal.default", "x"},
    {"aten.random.default", "x"},
    {"aten.random.from", "x29"},
    {"aten.random.to", "x9"},
};

/* Halves of these sizes. */
static exg_dtensor *halves(eager *e, const char *sizes, const char *placements)
{
    exg_dtensor *x = counted(e, EXG_DTYPE_F32, sizes, placements);
    exg_dtensor *zeros = CALL(e, "aten.mul.Tensor", T(x), of_int(0));
    exg_dtensor *made = CALL(e, "aten.add.Tensor", T(zeros), of_float(0.5));

    exg_dtensor_destroy(zeros);
    exg_dtensor_destroy(x);
    return made;
}

/* The row's draw of 0, 1, 2, ... that lie so, with a dispatcher of the same seed each time. */
static exg_dtensor *draw(rank_context *c, size_t row, const char *placements)
{
    exg_object args[3];
    exg_dtensor *x, *h, *n, *made;
    uint32_t count = (uint32_t)strlen(rows[row].given);
    eager e;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "4x4", placements);
    h = halves(&e, "4x4", placements);
    n = parts(&e, EXG_DTYPE_I64, "", exg_device_mesh_ndim(c->mesh) == 1 ? "R" : "R R",
              (const double[]){9});
    for (uint32_t i = 0; i < count; i++) {
        char kind = rows[row].given[i];

        args[i] = kind == 'x'   ? T(x)
                  : kind == 'h' ? T(h)
                  : kind == 'n' ? T(n)
                  : kind == '.' ? of_float(0.5)
                                : of_int(kind - '0');
    }
    made = call1(&e, rows[row].key, args, count);
    exg_dtensor_destroy(n);
    exg_dtensor_destroy(h);
    exg_dtensor_destroy(x);
    eager_end(&e);
    return made;
}

static void draw_parts(rank_context *c)
{
    bool grid = exg_device_mesh_ndim(c->mesh) > 1;
    const char *whole = grid ? "R R" : "R";
    const char *split[] = {grid ? "S(0) R" : "S(0)", grid ? "R S(1)" : "S(1)",
                           grid ? "S(1) S(0)" : "S(0)"};

    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]) && c->faults == 0; r++) {
        exg_dtensor *all = draw(c, r, whole);
        double values[16];

        EXPECT(c, all != NULL && lies(all, whole), "%s of a whole", rows[r].key);
        for (uint32_t i = 0; c->faults == 0 && i < 16; i++) {
            const exg_tensor *t = on_host(all);

            values[i] = exg_element_value(t->dtype,
                                          (const uint8_t *)t->data + i * exg_dtype_bytes(t->dtype));
        }
        for (int k = 0; c->faults == 0 && k < 3; k++) {
            exg_dtensor *made = draw(c, r, split[k]);
            eager e = {.c = c};

            expect_values(&e, made, split[k], values, 16, rows[r].key);
            exg_dtensor_destroy(made);
        }
        exg_dtensor_destroy(all);
    }
}

/* S003-140 */
static void a_draw_lies_as_its_tensor(void **state)
{
    (void)state;
    on_mesh("2", draw_parts, NULL);
    on_mesh("2x2", draw_parts, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_draw_lies_as_its_tensor)};
    int failed;

    (void)all_operators();
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    free_operators();
    return failed;
}
