/* refused.c - calls that a mesh, a DTensor or a step of the tape refuses: each with its code, on
 * all ranks alike, and none leaves anything behind. */
#include "tests/exec/dispatch/eager.h"

#include <exg/autograd.h>

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define REFUSED(e, expected, call)                                                                 \
    do {                                                                                           \
        exg_error_clear(&(e)->err);                                                                \
        EXPECT((e)->c, (call) != EXG_OK && strcmp((e)->err.code, expected) == 0, "%s: %s: %s",     \
               #call, (e)->err.code, (e)->err.message);                                            \
    } while (0)

/* S003: parts of a mesh. */
static void parts_of_meshes(rank_context *c)
{
    static const struct {
        uint32_t dims[2], count;
    } slices[] = {{{0}, 0}, {{2}, 1}, {{1, 0}, 2}, {{0, 0}, 2}, {{0, 2}, 2}};
    static const uint32_t ranks[][2] = {{1, 0}, {1, 1}, {0, 4}, {4, 5}};
    const exg_mesh_shape pair = {1, {2}, {"a"}};
    const exg_mesh_shape other = {.ndim = 1, .sizes = {2}, .names = {"a"}, .device_type = "none"};
    exg_device_mesh *part = NULL;
    uint32_t dim;
    eager e;

    eager_begin(&e, c, NULL);
    REFUSED(&e, "DTN-010", exg_device_mesh_find_dim(c->mesh, "z", &dim, &e.err));
    REFUSED(&e, "DTN-010", exg_device_mesh_find_dim(c->mesh, "", &dim, &e.err));
    EXPECT(c, exg_device_mesh_find_dim(c->mesh, "b", &dim, &e.err) == EXG_OK && dim == 1, "b");
    for (size_t i = 0; i < sizeof(slices) / sizeof(slices[0]); i++) {
        REFUSED(&e, "DTN-011",
                exg_device_mesh_slice(c->mesh, slices[i].dims, slices[i].count, &part, &e.err));
        REFUSED(
            &e, "DTN-011",
            exg_device_mesh_flatten(c->mesh, slices[i].dims, slices[i].count, NULL, &part, &e.err));
    }
    for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
        REFUSED(&e, "DTN-012", exg_device_mesh_select(c->mesh, ranks[i], &pair, &part, &e.err));
    }
    REFUSED(&e, "DTN-021",
            exg_device_mesh_select(c->mesh, (const uint32_t[]){0, 1}, &other, &part, &e.err));
    eager_end(&e);
}

static void parts_of_a_mesh_are_of_it(void **state)
{
    (void)state;
    on_mesh("2x2", parts_of_meshes, NULL);
}

/* S001-55, S003: what lies on a mesh, and what is a plain tensor. */
static void steps(rank_context *c)
{
    const exg_placement whole = exg_replicate(), split = exg_shard(0);
    const int64_t sizes[] = {4};
    exg_from_local_options given = {
        .size = sizeof(given), .shape = sizes, .strides = (int64_t[]){1}};
    float data[3] = {1, 2, 3};
    const exg_tensor part = {data, EXG_DTYPE_F32, 1, {3}, {1}};
    exg_device_mesh *self = NULL;
    exg_object window[3], plain, none, result;
    int64_t wide[] = {5}, step[] = {1};
    exg_dtensor *x, *grad, *t = NULL;
    eager e;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "4", "S(0)");
    EXPECT(c, exg_dispatcher_self(e.d, &self, &e.err) == EXG_OK, "%s", e.err.message);
    if (strcmp(exg_device_mesh_device_type(c->mesh), "cpu") == 0) {
        REFUSED(&e, "DTN-004",
                exg_dtensor_from_local(c->mesh, &part, &split, 1, &given, &t, &e.err));
        plain = exg_object_tensor(&part);
        none = exg_object_none();
        REFUSED(&e, "DSP-009", exg_wrap(&plain, &none, &result, &e.err));
    }
    REFUSED(&e, "TAP-004", exg_from_local(e.d, x, c->mesh, &split, 1, NULL, NULL, &t, &e.err));
    REFUSED(&e, "TAP-004", exg_distribute(e.d, x, c->mesh, &whole, 1, EXG_NO_RANK, &t, &e.err));
    REFUSED(&e, "TAP-004", exg_distribute(e.d, x, self, &split, 1, EXG_NO_RANK, &t, &e.err));
    EXPECT(c,
           exg_distribute(e.d, x, c->mesh, &split, 1, EXG_NO_RANK, &t, &e.err) == EXG_OK && t == x,
           "as it lies");
    REFUSED(&e, "TAP-004", exg_backward(e.d, &x, NULL, 1, NULL, &e.err)); /* no history */
    EXPECT(c, exg_dtensor_set_requires_grad(x, true, &e.err) == EXG_OK, "%s", e.err.message);
    REFUSED(&e, "TAP-004", exg_backward(e.d, &x, NULL, 1, NULL, &e.err)); /* of four elements */
    grad = counted(&e, EXG_DTYPE_F32, "2", "S(0)");
    REFUSED(
        &e, "TAP-004",
        exg_backward(e.d, &x, (const exg_dtensor *[]){grad}, 1, NULL, &e.err)); /* of other sizes */
    window[0] = T(x);
    window[1] = of_ints(wide, 1);
    window[2] = of_ints(step, 1);
    REFUSED(&e, "DSP-005", refusal(&e, "aten.as_strided.default", window, 3));
    exg_dtensor_destroy(grad);
    exg_dtensor_destroy(x);
    eager_end(&e);
}

static void steps_say_what_they_take(void **state)
{
    (void)state;
    on_mesh("2", steps, NULL);
}

/* What is no map of local tensors looks at its arguments itself. x: a DTensor of four, i: one of
 * integers, f: of one number, n: a number, l: a list of x, m: of i; +: a keyword too. */
static void own_arguments(rank_context *c)
{
    static const struct {
        const char *key;
        const char *given[8];
    } rows[] = {
        {"aten.item.default", {"", "n", "l", "ff", "f+", "x"}},
        {"aten._local_scalar_dense.default", {"", "n", "ff", "f+", "x"}},
        {"aten._assert_async.default", {"", "n", "l", "x"}},
        {"aten.equal.default", {"", "x", "xn", "nx", "xxx", "xx+", "xi"}},
        {"aten.is_same_size.default", {"", "x", "xn", "nx", "xxx", "xx+"}},
        {"aten.is_pinned.default", {"", "n", "l"}},
        {"aten.as_strided.default", {"", "x", "xn", "nnn", "xnn+"}},
        {"aten.squeeze_.default", {"", "n", "l"}},
        {"aten.transpose_.default", {"nnn", "lnn"}},
        {"aten._amp_foreach_non_finite_check_and_unscale_.default",
         {"", "l", "lf", "xff", "lnf", "lfn", "lif", "mff"}},
        {"aten._foreach_neg.default", {"", "n", "x", "ll"}},
        {"aten._foreach_add.List", {"l", "lx", "ln", "xl"}},
    };
    exg_named_object keyword = {"other", of_int(1)};
    exg_object items[2], result = exg_object_none();
    exg_dtensor *x, *i, *one;
    eager e;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "4", "S(0)");
    i = counted(&e, EXG_DTYPE_I64, "4", "S(0)");
    one = counted(&e, EXG_DTYPE_F32, "", "R");
    items[0] = T(x);
    items[1] = T(i);
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        for (int g = 0; g < 8 && rows[r].given[g] != NULL; g++) {
            const char *given = rows[r].given[g];
            uint32_t count = (uint32_t)strcspn(given, "+");
            exg_object args[4];

            for (uint32_t a = 0; a < count; a++) {
                args[a] = given[a] == 'x'   ? T(x)
                          : given[a] == 'i' ? T(i)
                          : given[a] == 'f' ? T(one)
                          : given[a] == 'n' ? of_int(1)
                                            : exg_object_list(items + (given[a] == 'm'), 1);
            }
            exg_error_clear(&e.err);
            EXPECT(c,
                   exg_dispatch(e.d, rows[r].key, args, count, &keyword, given[count] == '+',
                                &result, &e.err) == EXG_USAGE &&
                       strcmp(e.err.code, "DSP-001") == 0 && result.kind == EXG_OBJECT_NONE,
                   "%s(%s): %s", rows[r].key, given, e.err.code);
        }
    }
    exg_dtensor_destroy(one);
    exg_dtensor_destroy(i);
    exg_dtensor_destroy(x);
    eager_end(&e);
}

/* S001-36 */
static void operators_look_at_their_arguments(void **state)
{
    (void)state;
    on_mesh("2", own_arguments, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_a_mesh_are_of_it),
        cmocka_unit_test(steps_say_what_they_take),
        cmocka_unit_test(operators_look_at_their_arguments),
    };
    int failed;

    (void)all_operators();
    failed = cmocka_run_group_tests(tests, NULL, NULL);

    free_operators();
    return failed;
}
