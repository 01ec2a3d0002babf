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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_a_mesh_are_of_it),
        cmocka_unit_test(steps_say_what_they_take),
    };
    int failed;

    (void)all_operators();
    failed = cmocka_run_group_tests(tests, NULL, NULL);

    free_operators();
    return failed;
}
