/* refused.c - calls that a mesh, a DTensor or a step of the tape refuses: each with its code, on
 * all ranks alike, and none leaves anything behind. */
#include "libexec/dispatch/dispatcher.h"
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
    exg_object window[4], plain, none, result;
    int64_t wide[] = {5}, four[] = {4}, step[] = {1};
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
    window[1] = of_ints(four, 1); /* of these strides alone, and from its first element */
    window[2] = of_ints(four, 1);
    REFUSED(&e, "DSP-005", refusal(&e, "aten.as_strided.default", window, 3));
    window[2] = of_ints(step, 1);
    window[3] = of_int(1);
    REFUSED(&e, "DSP-005", refusal(&e, "aten.as_strided.default", window, 4));
    window[3] = of_int(0);
    exg_dtensor_destroy(call1(&e, "aten.as_strided.default", window, 4));
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

#define MANY 300

/* Of a letter of `unfit`; the bytes stay. */
static exg_object object_of(char letter, exg_dtensor *x)
{
    static const int64_t dims[EXG_RANK_MAX + 1] = {1};
    static bool bools[] = {true};
    static exg_object many[MANY];

    switch (letter) {
    case 'n':
        return of_int(2);
    case 'm': /* many tensors */
        for (int i = 0; i < MANY; i++) {
            many[i] = T(x);
        }
        return exg_object_list(many, MANY);
    case 't':
        return exg_object_value(exg_arg_string("sum"));
    case 'b':
        return exg_object_value(
            (exg_argument){.kind = EXG_ARGUMENT_BOOLS, .count = 1, .as_bools = bools});
    case 's': /* a size of a graph */
        return exg_object_value(
            (exg_argument){.kind = EXG_ARGUMENT_SYM_FLOAT, .as_sym = {.value = 3}});
    case 'B': /* where nothing is */
        return exg_object_value((exg_argument){.kind = EXG_ARGUMENT_BOOLS, .count = 1});
    case 'F':
        return exg_object_value((exg_argument){.kind = EXG_ARGUMENT_FLOATS, .count = 1});
    case 'I':
        return exg_object_value((exg_argument){.kind = EXG_ARGUMENT_INTS, .count = 1});
    case 'S':
        return exg_object_value((exg_argument){.kind = EXG_ARGUMENT_STRING});
    case 'T':
        return exg_object_value((exg_argument){.kind = EXG_ARGUMENT_STRINGS, .count = 1});
    case 'w': /* sizes of more dims than there are */
        return exg_object_value((exg_argument){.kind = EXG_ARGUMENT_INTS,
                                               .count = EXG_RANK_MAX + 1,
                                               .as_ints = (int64_t *)(uintptr_t)dims});
    case 'e': /* no sizes */
        return exg_object_list(NULL, 0);
    default:
        return T(x);
    }
}

/* By name, by kind, by number, by size. */
static const struct {
    const char *key, *given, *keyword, *code, *says; /* the keyword is a DTensor */
} unfit[] = {
    {"aten.relu.default", "x", "foo", "DSP-001", "no parameter 'foo'"},
    {"aten.relu.default", "x", "self", "DSP-001", "'self', or has it twice"},
    {"aten.relu.default", "xx", NULL, "DSP-001", "takes 1 arguments, 2 given"},
    {"aten.add.Tensor", "x", NULL, "DSP-001", "lacks its argument 'other'"},
    {"aten.cat.default", "m", NULL, "DSP-001", "more than 256 tensors"},
    {"aten.sum.dim_IntList", "xt", NULL, "DSP-001", "does not fit parameter 'dim'"},
    {"aten.sum.dim_IntList", "xb", NULL, "DSP-001", "does not fit parameter 'dim'"},
    {"aten.sum.dim_IntList", "xs", NULL, "DSP-001", "a value of a graph"},
    {"aten.sum.dim_IntList", "xB", NULL, "ARG-001", "as_bools"},
    {"aten.sum.dim_IntList", "xF", NULL, "ARG-001", "as_floats"},
    {"aten.sum.dim_IntList", "xI", NULL, "ARG-001", "as_ints"},
    {"aten.sum.dim_IntList", "xS", NULL, "ARG-001", "as_string"},
    {"aten.sum.dim_IntList", "xT", NULL, "ARG-001", "as_strings"},
    {"aten.nothing.default", "x", NULL, "OPR-003", "no operator 'aten.nothing.default'"},
    {"aten.zeros.default", "w", NULL, "DTN-009", "of more than"},
    {"aten.zeros.default", "n", "foo", "DSP-001", "no parameter 'foo'"},
    {"aten.zeros_like.default", "n", NULL, "DSP-001", "does not take these arguments"},
    {"aten.full.default", "e", NULL, "DSP-001", "lacks its argument 'fill_value'"},
};

static void arguments_of_the_table(rank_context *c)
{
    exg_dtensor *x, *y;
    eager e;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "4", "S(0)");
    y = counted(&e, EXG_DTYPE_F32, "2", "S(0)");
    for (size_t r = 0; r < sizeof(unfit) / sizeof(unfit[0]); r++) {
        exg_named_object keyword = {unfit[r].keyword, T(x)};
        uint32_t count = (uint32_t)strlen(unfit[r].given);
        exg_object args[2], result = exg_object_none();

        for (uint32_t i = 0; i < count; i++) {
            args[i] = object_of(unfit[r].given[i], x);
        }
        exg_error_clear(&e.err);
        EXPECT(c,
               exg_dispatch(e.d, unfit[r].key, args, count, &keyword, unfit[r].keyword != NULL,
                            &result, &e.err) != EXG_OK &&
                   strcmp(e.err.code, unfit[r].code) == 0 &&
                   strstr(e.err.message, unfit[r].says) != NULL,
               "row %zu: %s: %s", r, e.err.code, e.err.message);
    }
    REFUSED(&e, "DSP-007", exg_dtensor_write(e.d, x, y, &e.err));
    exg_dtensor_destroy(y);
    exg_dtensor_destroy(x);
    eager_end(&e);
}

/* Factories look at their arguments themselves: n: a number, i: a list of sizes, j: one in a list,
 * k: in two, l: in three, m: a list and a number in a list, t: a text, x: a tensor, o: nothing. */
static const struct {
    const char *key, *given, *says;
    exg_status status;
} makers[] = {
    {"aten.zeros.default", "n", NULL, EXG_OK},
    {"aten.zeros.default", "nn", NULL, EXG_OK},
    {"aten.zeros.default", "i", NULL, EXG_OK},
    {"aten.zeros.default", "j", NULL, EXG_OK},
    {"aten.zeros.default", "k", NULL, EXG_OK},
    {"aten.zeros.default", "l", "sizes", EXG_USAGE},
    {"aten.zeros.default", "m", "sizes", EXG_USAGE},
    {"aten.zeros.default", "t", "sizes", EXG_USAGE},
    {"aten.zeros.default", "o", "sizes", EXG_USAGE},
    {"aten.zeros.default", "x", "sizes", EXG_USAGE},
    {"aten.zeros.default", "ni", "sizes", EXG_USAGE},
    {"aten.zeros.default", "in", "sizes", EXG_USAGE},
    {"aten.zeros.default", "ii", "sizes", EXG_USAGE},
    {"aten.full.default", "in", NULL, EXG_OK},
    {"aten.full.default", "nn", NULL, EXG_OK},
    {"aten.full.default", "it", "values", EXG_USAGE},
    {"aten.full.default", "io", "values", EXG_USAGE},
    {"aten.full.default", "ii", "values", EXG_USAGE},
    {"aten.full.default", "inn", "arguments", EXG_USAGE},
    {"aten.zeros_like.default", "x", NULL, EXG_OK},
    {"aten.zeros_like.default", "i", "arguments", EXG_USAGE},
    {"aten.zeros_like.default", "xx", "sizes", EXG_USAGE},
    {"aten.full_like.default", "xn", NULL, EXG_OK},
    {"aten.full_like.default", "xt", "values", EXG_USAGE},
    {"aten.full_like.default", "xnn", "arguments", EXG_USAGE},
    {"aten.new_zeros.default", "xi", NULL, EXG_OK},
    {"aten.new_zeros.default", "xn", NULL, EXG_OK},
    {"aten.new_zeros.default", "xnn", NULL, EXG_OK},
    {"aten.new_zeros.default", "", "arguments", EXG_USAGE},
    {"aten.new_zeros.default", "ii", "arguments", EXG_USAGE},
    {"aten.new_zeros.default", "xii", "sizes", EXG_USAGE},
    {"aten.new_full.default", "xin", NULL, EXG_OK},
    {"aten.new_full.default", "xit", "values", EXG_USAGE},
    {"aten.new_full.default", "xinn", "arguments", EXG_USAGE},
};

static void arguments_of_factories(rank_context *c)
{
    int64_t sizes[] = {2, 2};
    exg_object list = of_ints(sizes, 2), in_list = exg_object_list(&list, 1);
    exg_object in_two = exg_object_list(&in_list, 1);
    exg_object mixed[2] = {of_ints(sizes, 2), of_int(2)};
    exg_dtensor *x;
    eager e;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "4", "S(0)");
    for (size_t r = 0; r < sizeof(makers) / sizeof(makers[0]); r++) {
        uint32_t count = (uint32_t)strlen(makers[r].given);
        exg_object args[4], result = exg_object_none();
        char says[80] = "";
        exg_status status;

        for (uint32_t i = 0; i < count; i++) {
            char kind = makers[r].given[i];

            args[i] = kind == 'n'   ? of_int(2)
                      : kind == 'i' ? list
                      : kind == 'j' ? in_list
                      : kind == 'k' ? in_two
                      : kind == 'l' ? exg_object_list(&in_two, 1)
                      : kind == 'm' ? exg_object_list(mixed, 2)
                      : kind == 'o' ? exg_object_none()
                                    : object_of(kind, x);
        }
        exg_error_clear(&e.err);
        status = exg_dispatch(e.d, makers[r].key, args, count, NULL, 0, &result, &e.err);
        if (makers[r].says != NULL) {
            snprintf(says, sizeof(says), "%s does not take these %s", makers[r].key,
                     makers[r].says);
        }
        EXPECT(c,
               status == makers[r].status && strcmp(e.err.message, says) == 0 &&
                   strcmp(e.err.code, status == EXG_OK ? "" : "DSP-001") == 0 &&
                   result.kind == (status == EXG_OK ? EXG_OBJECT_DTENSOR : EXG_OBJECT_NONE),
               "%s(%s): %s: %s", makers[r].key, makers[r].given, e.err.code, e.err.message);
        exg_object_clear(&result, true);
    }
    for (int unnamed = 0; unnamed < 2; unnamed++) {
        exg_named_object keywords[] = {{"alpha", of_int(1)}, {"other", of_int(1)}};
        exg_object of_x = T(x), result = exg_object_none();

        keywords[unnamed].name = NULL;
        EXPECT(c,
               exg_dispatch(e.d, "aten.add.Tensor", &of_x, 1, keywords, 2, &result, &e.err) ==
                       EXG_USAGE &&
                   result.kind == EXG_OBJECT_NONE,
               "keyword %d without a name", unnamed);
    }
    exg_dtensor_destroy(x);
    eager_end(&e);
}

static void calls_say_what_does_not_fit(void **state)
{
    (void)state;
    on_mesh("1", arguments_of_the_table, NULL);
    on_mesh("1", arguments_of_factories, NULL);
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
        cmocka_unit_test(calls_say_what_does_not_fit),
    };
    int failed;

    (void)all_operators();
    failed = cmocka_run_group_tests(tests, NULL, NULL);

    free_operators();
    return failed;
}
