/* training.c - a step of a language model, operator by operator: its gradients are the same however
 * the weights lie.
 */
#include "tests/exec/dispatch/eager.h"

#include <exg/autograd.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define CALLS_MAX 40

enum { TABLE, IN, OUT, WEIGHTS };

static const int counts[WEIGHTS] = {11 * 8, 24 * 8, 8 * 8};

/* How the weights and the tokens lie. */
typedef struct placed {
    const char *mesh;
    const char *weights[WEIGHTS], *tokens;
} placed;

typedef struct step {
    eager *e;
    exg_dtensor *made[CALLS_MAX]; /* to be destroyed */
    uint32_t count;
} step;

static exg_dtensor *note(step *s, exg_dtensor *t)
{
    s->made[s->count++] = t;
    return t;
}

#define DO(s, key, ...) note(s, CALL((s)->e, key, __VA_ARGS__))

static exg_dtensor *shaped(step *s, const char *key, exg_dtensor *t, int64_t *sizes, uint32_t rank)
{
    return DO(s, key, T(t), of_ints(sizes, rank));
}

/* One of query, key and value by heads, (3, 2, 5, 4). */
static exg_dtensor *heads(step *s, exg_dtensor *mixed, int64_t which)
{
    exg_dtensor *t =
        DO(s, "aten.slice.Tensor", T(mixed), of_int(2), of_int(8 * which), of_int(8 * which + 8));

    t = DO(s, "aten.contiguous.default", T(t));
    t = shaped(s, "aten.view.default", t, (int64_t[]){3, 5, 2, 4}, 4);
    return DO(s, "aten.transpose.int", T(t), of_int(1), of_int(2));
}

/* The loss; the table is tied to what comes out. */
static exg_dtensor *compute(step *s, exg_dtensor *const *w, exg_dtensor *tokens,
                            exg_dtensor *targets)
{
    exg_dtensor *x = DO(s, "aten.embedding.default", T(w[TABLE]), T(tokens));
    exg_dtensor *mixed = DO(s, "aten.linear.default", T(x), T(w[IN]));
    exg_dtensor *q = heads(s, mixed, 0), *k = heads(s, mixed, 1), *v = heads(s, mixed, 2);
    exg_dtensor *a = DO(s, "aten.scaled_dot_product_attention.default", T(q), T(k), T(v),
                        exg_object_none(), of_float(0), of_bool(true));

    a = DO(s, "aten.transpose.int", T(a), of_int(1), of_int(2));
    a = shaped(s, "aten.reshape.default", a, (int64_t[]){3, 5, 8}, 3);
    a = DO(s, "aten.gelu.default", T(DO(s, "aten.linear.default", T(a), T(w[OUT]))));
    x = DO(s, "aten.add.Tensor", T(x), T(a));
    x = DO(s, "aten.linear.default", T(x), T(w[TABLE]));
    x = shaped(s, "aten.reshape.default", x, (int64_t[]){15, 11}, 2);
    targets = shaped(s, "aten.reshape.default", targets, (int64_t[]){15}, 1);
    return DO(s, "aten.cross_entropy_loss.default", T(x), T(targets));
}

/* The gradients of all weights, whole, one after the other. */
static void train(eager *e, const placed *how, float *gradients)
{
    static const char *const sizes[WEIGHTS] = {"11x8", "24x8", "8x8"};
    exg_dtensor *w[WEIGHTS], *tokens, *targets, *loss, *whole = NULL;
    step s = {.e = e};

    for (int i = 0; i < WEIGHTS; i++) {
        w[i] = note(&s, counted(e, EXG_DTYPE_F32, sizes[i], how->weights[i]));
        w[i] = DO(&s, "aten.sin.default", T(w[i]));
        EXPECT(e->c, exg_dtensor_set_requires_grad(w[i], true, &e->err) == EXG_OK, "%s",
               e->err.message);
    }
    tokens = note(&s, counted(e, EXG_DTYPE_I64, "3x5", how->tokens));
    tokens = DO(&s, "aten.remainder.Scalar", T(tokens), of_int(11));
    targets = DO(&s, "aten.bitwise_xor.Scalar", T(tokens), of_int(1));
    targets = DO(&s, "aten.remainder.Scalar", T(targets), of_int(11));
    loss = compute(&s, w, tokens, targets);
    EXPECT(e->c, exg_backward(e->d, &loss, NULL, 1, NULL, &e->err) == EXG_OK, "%s", e->err.message);
    for (int i = 0; e->c->faults == 0 && i < WEIGHTS; i++) {
        EXPECT(e->c,
               exg_dtensor_full_tensor(exg_dtensor_grad(w[i]), &whole, &e->err) == EXG_OK &&
                   exg_dtensor_copy_to_host(whole, NULL, gradients, &e->err) == EXG_OK,
               "%s", e->err.message);
        gradients += counts[i];
        exg_dtensor_destroy(whole);
    }
    while (s.count > 0) {
        exg_dtensor_destroy(s.made[--s.count]);
    }
}

static void train_both_ways(rank_context *c)
{
    static const placed whole = {"", {"R R", "R R", "R R"}, "R R"};
    float want[11 * 8 + 24 * 8 + 8 * 8] = {0}, got[11 * 8 + 24 * 8 + 8 * 8] = {0};
    eager e;

    eager_begin(&e, c, NULL);
    train(&e, &whole, want);
    train(&e, c->user, got);
    for (int i = 0; i < counts[TABLE] + counts[IN] + counts[OUT]; i++) {
        EXPECT(c, fabsf(got[i] - want[i]) <= 1e-4f, "gradient %d is %g, not %g", i, (double)got[i],
               (double)want[i]);
    }
    eager_end(&e);
}

static void gradients_do_not_hang_on_how_weights_lie(void **state)
{
    static const placed rows[] = {
        {"2x2", {"R R", "R R", "R R"}, "R R"},
        {"2x2", {"R R", "R R", "R R"}, "S(0) R"},
        {"2x2", {"R S(0)", "R S(0)", "R S(1)"}, "S(0) R"},
        {"2x2", {"S(0) S(0)", "S(0) S(1)", "S(1) S(1)"}, "S(0) S(1)"},
        {"2x3", {"S(1) S(0)", "R S(0)", "S(0) R"}, "R S(1)"},
        {"3x2", {"R S(1)", "S(1) R", "S(0) S(0)"}, "S(1) R"},
        {"2x2", {"_S(0,2) S(0)", "_S(1,2) R", "R _S(0,2)"}, "R S(0)"},
    };

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        on_mesh(rows[r].mesh, train_both_ways, &rows[r]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_do_not_hang_on_how_weights_lie),
    };
    int status;

    (void)all_operators();
    status = cmocka_run_group_tests(tests, NULL, NULL);
    free_operators();
    return status;
}
