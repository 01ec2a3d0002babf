/* log.c - what the log tells of calls of every form, line by line. */
#include "tests/exec/dispatch/eager.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

typedef struct trace {
    char text[4000];
} trace;

/* All but the calls' schemas, which their own test reads. */
static void keep(void *user, exg_dispatch_event event, const char *text)
{
    trace *t = user;
    size_t length = strlen(t->text);

    if (event != EXG_EVENT_CALL) {
        snprintf(t->text + length, sizeof(t->text) - length, "%d%s\n", (int)event, text);
    }
}

static void expect_log(eager *e, trace *t, const char *want)
{
    EXPECT(e->c, strcmp(t->text, want) == 0, "%s", t->text);
    t->text[0] = '\0';
}

/* Any form that an argument is given in: x is (4, 2) by rows. */
static void log_forms(rank_context *c)
{
    trace t = {""};
    exg_dispatch_options options = {.size = sizeof(options), .log = keep, .log_user = &t};
    exg_object items[2], result;
    exg_dtensor *x, *rows, *one;
    eager e;

    eager_begin(&e, c, &options);
    x = counted(&e, EXG_DTYPE_F32, "4x2", "S(0)");
    rows = counted(&e, EXG_DTYPE_F32, "2", "R");
    one = counted(&e, EXG_DTYPE_F32, "", "R");
    exg_dtensor_destroy(CALL(&e, "aten.sum.dim_IntList", T(x), exg_object_none(), of_bool(true)));
    expect_log(&e, &t,
               "1    local shapes: ([2, 2], None, None)\n"
               "2    decided: S(0) -> P(sum)\n");
    items[0] = T(x);
    items[1] = T(x);
    exg_dtensor_destroy(CALL(&e, "aten.cat.default", exg_object_list(items, 2), of_int(1)));
    expect_log(&e, &t,
               "1    local shapes: ([[2, 2], [2, 2]], None)\n"
               "2    decided: S(0), S(0) -> S(0)\n");
    exg_dtensor_destroy(CALL(&e, "aten.mul.Tensor", T(x), T(one)));
    expect_log(&e, &t,
               "1    local shapes: ([2, 2], [])\n"
               "2    decided: S(0), R -> S(0)\n");
    exg_dtensor_destroy(CALL(&e, "aten.mul.Tensor", T(x), T(rows)));
    expect_log(&e, &t,
               "1    local shapes: ([2, 2], [2])\n"
               "2    decided: S(0), R -> S(0)\n");
    (void)CALL(&e, "aten.relu_.default", T(x));
    expect_log(&e, &t,
               "1    local shapes: ([2, 2])\n"
               "2    decided: S(0) -> in place\n");
    /* a name tells a position too; what has a name alone stands behind */
    for (int k = 0; k < 2; k++) {
        exg_object args[2] = {T(x), exg_object_none()};
        exg_named_object named =
            k == 0 ? (exg_named_object){"keepdim", of_bool(true)}
                   : (exg_named_object){"dtype", exg_object_value(exg_arg_dtype(EXG_DTYPE_F64))};

        EXPECT(c,
               exg_dispatch(e.d, "aten.sum.dim_IntList", args, 2, &named, 1, &result, &e.err) ==
                   EXG_OK,
               "%s", e.err.message);
        exg_object_clear(&result, true);
        expect_log(&e, &t,
                   k == 0 ? "1    local shapes: ([2, 2], None, None)\n"
                            "2    found: S(0) -> P(sum)\n" /* the same call */
                          : "1    local shapes: ([2, 2], None, dtype=None)\n"
                            "2    decided: S(0) -> P(sum)\n");
    }
    exg_dtensor_destroy(one);
    exg_dtensor_destroy(rows);
    exg_dtensor_destroy(x);
    eager_end(&e);
}

/* Any form of a result: a pair, what is made of others. */
static void log_results(rank_context *c)
{
    trace t = {""};
    exg_dispatch_options options = {.size = sizeof(options), .log = keep, .log_user = &t};
    exg_object args[2], result;
    exg_dtensor *x;
    eager e;

    eager_begin(&e, c, &options);
    x = counted(&e, EXG_DTYPE_F32, "4x2", "S(0)");
    args[0] = T(x);
    args[1] = of_int(1);
    result = call(&e, "aten.max.dim", args, 2);
    exg_object_clear(&result, true);
    expect_log(&e, &t,
               "1    local shapes: ([2, 2], None)\n"
               "2    decided: S(0) -> S(0), S(0)\n");
    exg_dtensor_destroy(CALL(&e, "aten.nansum.default", T(x)));
    EXPECT(c,
           strstr(t.text, "2    decided: made of ") != NULL &&
               strstr(t.text, " operators\n") != NULL,
           "%s", t.text);
    t.text[0] = '\0';
    exg_dtensor_destroy(CALL(&e, "aten.nansum.default", T(x)));
    EXPECT(c, strstr(t.text, "2    found: made of ") != NULL, "%s", t.text);
    exg_dtensor_destroy(x);
    eager_end(&e);
}

static void log_on_a_grid(rank_context *c)
{
    trace t = {""};
    exg_dispatch_options options = {.size = sizeof(options), .log = keep, .log_user = &t};
    exg_dtensor *x, *y;
    eager e;

    eager_begin(&e, c, &options);
    x = counted(&e, EXG_DTYPE_F32, "4x4", "S(0) S(1)");
    y = counted(&e, EXG_DTYPE_F32, "4x4", "S(0) R");
    exg_dtensor_destroy(CALL(&e, "aten.mul.Tensor", T(x), T(y)));
    expect_log(&e, &t,
               "1    local shapes: ([2, 2], [2, 4])\n"
               "2    decided: S(0)S(1), S(0)S(1) -> S(0)S(1)\n"
               "3    move operand 1: S(0)R -> S(0)S(1), 0 bytes\n");
    exg_dtensor_destroy(y);
    exg_dtensor_destroy(x);
    eager_end(&e);
}

/* S001-19, S001-20 */
static void calls_of_every_form_are_logged(void **state)
{
    (void)state;
    on_mesh("2", log_forms, NULL);
    on_mesh("2", log_results, NULL);
    on_mesh("2x2", log_on_a_grid, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(calls_of_every_form_are_logged)};
    int failed;

    (void)all_operators();
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    free_operators();
    return failed;
}
