/* steps.c - gradients of many steps that meet again and again: those of dual numbers, which go
 * forward with the values. */
#include "tests/exec/dispatch/eager.h"

#include <exg/autograd.h>
#include <math.h>
#include <stdio.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define LEAVES 4
#define STEPS  80

/* A number, and its derivatives by the leaves. */
typedef struct dual {
    double value, by[LEAVES];
} dual;

static const char *const keys[] = {"aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor"};

/* tanh of a sum, a difference, a product. */
static dual step(int kind, const dual *a, const dual *b)
{
    dual made;

    made.value = tanh(kind == 0   ? a->value + b->value
                      : kind == 1 ? a->value - b->value
                                  : a->value * b->value);
    for (int l = 0; l < LEAVES; l++) {
        made.by[l] = (1 - made.value * made.value) *
                     (kind == 0   ? a->by[l] + b->by[l]
                      : kind == 1 ? a->by[l] - b->by[l]
                                  : a->by[l] * b->value + a->value * b->by[l]);
    }
    return made;
}

static uint32_t draw(uint32_t *seed, uint32_t below)
{
    *seed = *seed * 1664525 + 1013904223;
    return (*seed >> 16) % below;
}

/* Each step takes two of those before; what is asked is the sum of the last few. */
static void go_back(rank_context *c)
{
    for (uint32_t round = 0; round < 6 && c->faults == 0; round++) {
        exg_dtensor *t[LEAVES + STEPS], *sum;
        dual d[LEAVES + STEPS] = {{0}}, whole = {0};
        uint32_t seed = round + 1;
        eager e;

        eager_begin(&e, c, NULL);
        for (uint32_t i = 0; i < LEAVES; i++) {
            d[i].value = 0.3 * (i + 1) - 0.7;
            d[i].by[i] = 1;
            t[i] = parts(&e, EXG_DTYPE_F64, "", "R", &d[i].value);
            EXPECT(c, exg_dtensor_set_requires_grad(t[i], true, &e.err) == EXG_OK, "a leaf");
        }
        for (uint32_t i = LEAVES; i < LEAVES + STEPS; i++) {
            int kind = (int)draw(&seed, 3);
            uint32_t a = draw(&seed, i);
            uint32_t b = i - 1 - draw(&seed, i < 8 ? i : 8);
            exg_dtensor *made = CALL(&e, keys[kind], T(t[a]), T(t[b]));

            t[i] = CALL(&e, "aten.tanh.default", T(made));
            exg_dtensor_destroy(made);
            d[i] = step(kind, &d[a], &d[b]);
        }
        sum = CALL(&e, "aten.neg.default", T(t[LEAVES]));
        for (int l = 0; l < LEAVES; l++) {
            whole.by[l] = -d[LEAVES].by[l];
        }
        for (uint32_t i = LEAVES + STEPS / 2; i < LEAVES + STEPS; i += 3) {
            exg_dtensor *more = CALL(&e, "aten.add.Tensor", T(sum), T(t[i]));

            exg_dtensor_destroy(sum);
            sum = more;
            for (int l = 0; l < LEAVES; l++) {
                whole.by[l] += d[i].by[l];
            }
        }
        for (uint32_t i = LEAVES; i < LEAVES + STEPS; i++) { /* the steps hold what they need */
            exg_dtensor_destroy(t[i]);
        }
        EXPECT(c, exg_backward(e.d, &sum, NULL, 1, NULL, &e.err) == EXG_OK, "%s", e.err.message);
        for (uint32_t l = 0; l < LEAVES; l++) {
            expect_values(&e, exg_dtensor_grad(t[l]), "R", &whole.by[l], 1, "a leaf's gradient");
            exg_dtensor_destroy(t[l]);
        }
        exg_dtensor_destroy(sum);
        eager_end(&e);
    }
}

/* Two ways from each rung to the next: a step that went back before all of its gradients had come
 * would go back again, and those behind it twice as often each. */
static void climb(rank_context *c)
{
    exg_dtensor *leaf, *t, *a, *b, *sum;
    eager e;

    eager_begin(&e, c, NULL);
    leaf = parts(&e, EXG_DTYPE_F64, "", "R", (const double[]){3});
    EXPECT(c, exg_dtensor_set_requires_grad(leaf, true, &e.err) == EXG_OK, "%s", e.err.message);
    t = CALL(&e, "aten.neg.default", T(leaf));
    for (int rung = 0; rung < 64; rung++) { /* each is the one before */
        a = CALL(&e, "aten.neg.default", T(t));
        b = CALL(&e, "aten.mul.Scalar", T(t), of_int(2));
        sum = rung % 2 == 0 ? CALL(&e, "aten.add.Tensor", T(a), T(b))
                            : CALL(&e, "aten.add.Tensor", T(b), T(a));
        exg_dtensor_destroy(a);
        exg_dtensor_destroy(b);
        exg_dtensor_destroy(t);
        t = sum;
    }
    expect_values(&e, t, "R", (const double[]){-3}, 1, "the last rung");
    EXPECT(c, exg_backward(e.d, &t, NULL, 1, NULL, &e.err) == EXG_OK, "%s", e.err.message);
    expect_values(&e, exg_dtensor_grad(leaf), "R", (const double[]){-1}, 1, "the gradient");
    exg_dtensor_destroy(t);
    exg_dtensor_destroy(leaf);
    eager_end(&e);
}

static void gradients_of_many_steps_are_whole(void **state)
{
    (void)state;
    on_mesh("1", climb, NULL);
    on_mesh("1", go_back, NULL);
    on_mesh("2", go_back, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients_of_many_steps_are_whole)};
    int failed;

    (void)all_operators();
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    free_operators();
    return failed;
}
