/* edges.c - calls at their edges: rules that say what cannot be, tensors of nothing, complex
 * numbers, groups, no mesh at all. */
#include "libexec/dispatch/dispatcher.h"
#include "libexport/base/arena.h"
#include "tests/exec/dispatch/eager.h"

#include <exg/autograd.h>
#include <stdio.h>
#include <stdlib.h>
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

/* ---- rules that say what cannot be -------------------------------------------------------- */

typedef enum saying { NO_TENSORS, TWO_SPECS, WRONG_SIZE, SECOND_NONE } saying;

static exg_status rule_that_says(void *user, exg_op_schema *schema, exg_arena *arena,
                                 exg_output_sharding *out, exg_error *err)
{
    const exg_dtensor_spec *spec = exg_op_schema_args_spec(schema, 0);
    exg_object *items = exg_arena_alloc(arena, 2, sizeof(*items));
    exg_dtensor_spec *longer = exg_arena_memdup(arena, spec, 1, sizeof(*spec));

    (void)err;
    items[0] = exg_object_spec(spec);
    items[1] = exg_object_spec(spec);
    out->result = items[0];
    switch (*(const saying *)user) {
    case NO_TENSORS: /* in the place of a tensor a list of two */
        schema->args = exg_arena_memdup(arena, schema->args, schema->arg_count, sizeof(*items));
        schema->args[0] = exg_object_list(items, 2);
        break;
    case TWO_SPECS:
        out->result = exg_object_list(items, 2);
        break;
    case WRONG_SIZE:
        longer->sizes[0] += 2;
        out->result = exg_object_spec(longer);
        break;
    case SECOND_NONE:
        longer->rank = 1;
        items[0] = exg_object_spec(longer);
        items[1] = exg_object_none();
        out->result = (exg_object){.kind = EXG_OBJECT_TUPLE, .count = 2, .items = items};
        break;
    }
    return EXG_OK;
}

static void run_impossible(rank_context *c)
{
    static const struct {
        saying says;
        const char *code, *text;
    } rows[] = {
        {NO_TENSORS, "DSP-009", "changes its tensors"},
        {TWO_SPECS, "DSP-009", "gives 1 tensors, its rule 2 specs"},
        {WRONG_SIZE, "PLC-003", "a wrong local size"},
    };
    saying none = SECOND_NONE;
    exg_op_registration row = {.rule = rule_that_says};
    exg_dtensor *x;
    eager e;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "4x2", "S(0)");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        row.user = (void *)(uintptr_t)&rows[i].says;
        EXPECT(c, exg_dispatcher_register(e.d, "aten.neg.default", &row, &e.err) == EXG_OK, "%s",
               e.err.message);
        REFUSED(&e, rows[i].code, refusal(&e, "aten.neg.default", (exg_object[]){T(x)}, 1));
        EXPECT(c, strstr(e.err.message, rows[i].text) != NULL, "%s", e.err.message);
    }
    row.user = &none;
    EXPECT(c, exg_dispatcher_register(e.d, "aten.max.dim", &row, &e.err) == EXG_OK, "max");
    REFUSED(&e, "DSP-009", refusal(&e, "aten.max.dim", (exg_object[]){T(x), of_int(1)}, 2));
    EXPECT(c, strstr(e.err.message, "without a spec") != NULL, "%s", e.err.message);
    exg_dtensor_destroy(x);
    eager_end(&e);
}

/* S000-24, S001-33 */
static void rules_that_cannot_be_right_are_refused(void **state)
{
    (void)state;
    on_mesh("2", run_impossible, NULL);
}

/* ---- what does not fit -------------------------------------------------------------------- */

static exg_status handed(void *user, exg_dispatcher *d, const char *key, const exg_object *args,
                         uint32_t arg_count, const exg_named_object *kwargs, uint32_t kwarg_count,
                         exg_object *result, exg_error *err)
{
    (void)user;
    return exg_dispatch_by_table(d, key, args, arg_count, kwargs, kwarg_count, result, err);
}

static void refuse_others(rank_context *c)
{
    const exg_op_registration row = {.handler = handed};
    exg_object moved = exg_object_list(NULL, 0), local[1], items[2], specs[2], lists[2];
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_placement sum = exg_partial(EXG_REDUCE_SUM);
    const double four[4] = {1, 1, 1, 1};
    exg_dtensor_spec spec;
    exg_dtensor *x, *p, *t = NULL;
    exg_tensor whole;
    eager e;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "4", "R");
    p = parts(&e, EXG_DTYPE_F32, "4", "P(sum)", four);
    exg_dtensor_get_spec(x, &spec);
    REFUSED(&e, "DSP-001", refusal(&e, "aten.add_.Tensor", (exg_object[]){of_int(1), T(x)}, 2));
    EXPECT(c, strstr(e.err.message, "writes no DTensor") != NULL, "%s", e.err.message);
    REFUSED(&e, "DSP-006", exg_dtensor_write(e.d, p, x, &e.err));
    EXPECT(c, exg_dtensor_write(e.d, p, p, &e.err) == EXG_OK, "%s", e.err.message);
    EXPECT(c, exg_dtensor_write(e.d, x, p, &e.err) == EXG_OK, "%s", e.err.message);
    expect_values(&e, x, "R", (const double[]){2, 2, 2, 2}, 4, "summands written to a whole");
    REFUSED(&e, "DTN-002", exg_redistribute(e.d, x, NULL, 1, NULL, &t, &e.err));
    REFUSED(&e, "DTN-002", exg_redistribute(e.d, x, &sum, 2, NULL, &t, &e.err));
    whole = *on_host(x);
    REFUSED(
        &e, "DTN-007",
        exg_distribute_tensor(c->mesh, &whole, NULL, 0, exg_device_mesh_size(c->mesh), &t, &e.err));
    whole.dtype = EXG_DTYPE_I32; /* as many bytes */
    REFUSED(&e, "DTN-007", exg_distribute_tensor(c->mesh, &whole, &sum, 1, 0, &t, &e.err));
    /* a list of one for a list of two */
    items[0] = items[1] = T(x);
    specs[0] = specs[1] = exg_object_spec(&spec);
    lists[0] = exg_object_list(items, 1);
    lists[1] = exg_object_list(specs, 2);
    REFUSED(&e, "DSP-001",
            exg_pack_args(&lists[0], &lists[1], 1, false, arena, local, &moved, &e.err));
    EXPECT(c, strstr(e.err.message, "a list of 1 and one of 2") != NULL, "%s", e.err.message);
    /* no operator at all, beside a handler that gives it on */
    EXPECT(c, exg_dispatcher_register(e.d, "mine.none.default", &row, &e.err) == EXG_OK, "mine");
    REFUSED(&e, "OPR-003", refusal(&e, "mine.none.default", (exg_object[]){T(x)}, 1));
    REFUSED(&e, "OPR-003", refusal(&e, "aten.sym_size.int", (exg_object[]){T(x), of_int(0)}, 2));
    exg_dtensor_destroy(p);
    exg_dtensor_destroy(x);
    exg_arena_destroy(arena);
    eager_end(&e);
}

/* A view in place moves nothing. */
static void refuse_to_move(rank_context *c)
{
    exg_dtensor *x;
    eager e;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "1x4", "S(0)");
    REFUSED(&e, "DSP-006", refusal(&e, "aten.squeeze_.dim", (exg_object[]){T(x), of_int(0)}, 2));
    EXPECT(c, exg_dtensor_rank_count(x) == 2, "it is as it was");
    expect_values(&e, x, "S(0)", (const double[]){0, 1, 2, 3}, 4, "what was refused");
    exg_dtensor_destroy(x);
    eager_end(&e);
}

/* The derivative of what joins more tensors than a call may have: told as it is called. */
static void join_many(rank_context *c)
{
    exg_object items[256], list;
    exg_dtensor *x, *y;
    eager e;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "1", "R");
    for (int i = 0; i < 256; i++) {
        items[i] = T(x);
    }
    list = exg_object_list(items, 256);
    y = CALL(&e, "aten.cat.default", list);
    EXPECT(c, y != NULL && exg_dtensor_sizes(y)[0] == 256, "as many as there may be");
    exg_dtensor_destroy(y);
    EXPECT(c, exg_dtensor_set_requires_grad(x, true, &e.err) == EXG_OK, "%s", e.err.message);
    for (uint32_t more = 0; more < 2; more++) { /* the result and its gradient count */
        list = exg_object_list(items, 254 + more);
        if (more) {
            REFUSED(&e, "TAP-001", refusal(&e, "aten.cat.default", &list, 1));
        } else {
            y = CALL(&e, "aten.cat.default", list);
            exg_dtensor_destroy(y);
        }
    }
    exg_dtensor_destroy(x);
    eager_end(&e);
}

/* S001-36, S001-39, S001-41 */
static void what_cannot_be_done_is_refused(void **state)
{
    (void)state;
    on_mesh("2", refuse_others, NULL);
    on_mesh("2", refuse_to_move, NULL);
    on_mesh("1", join_many, NULL);
}

/* ---- nothing, and other kinds of numbers --------------------------------------------------- */

static bool are_equal(eager *e, exg_dtensor *x, exg_dtensor *y)
{
    exg_object result = call(e, "aten.equal.default", (exg_object[]){T(x), T(y)}, 2);

    return result.kind == EXG_OBJECT_VALUE && result.value.as_bool;
}

static void compare_others(rank_context *c)
{
    float found = 0, scale = 1;
    exg_tensor one[2] = {{.data = &found, .dtype = EXG_DTYPE_F32},
                         {.data = &scale, .dtype = EXG_DTYPE_F32}};
    exg_dtensor *none, *other, *x, *y, *longer;
    exg_object item;
    eager e;

    eager_begin(&e, c, NULL);
    none = counted(&e, EXG_DTYPE_F32, "0x3", "S(0)");
    other = counted(&e, EXG_DTYPE_F32, "0x2", "S(0)");
    x = counted(&e, EXG_DTYPE_F32, "4", "S(0)");
    y = counted(&e, EXG_DTYPE_F32, "4", "R");
    longer = counted(&e, EXG_DTYPE_F32, "5", "R");
    EXPECT(c, are_equal(&e, none, none) && !are_equal(&e, none, other), "of nothing");
    EXPECT(c, are_equal(&e, x, y) && !are_equal(&e, x, longer), "of four");
    item = T(none);
    (void)call(&e, "aten._amp_foreach_non_finite_check_and_unscale_.default",
               (exg_object[]){exg_object_list(&item, 1), exg_object_tensor(&one[0]),
                              exg_object_tensor(&one[1])},
               3);
    EXPECT(c, found == 0, "nothing is finite");
    exg_dtensor_destroy(longer);
    exg_dtensor_destroy(y);
    exg_dtensor_destroy(x);
    exg_dtensor_destroy(other);
    exg_dtensor_destroy(none);
    eager_end(&e);
}

/* Numbers for lists, of each kind, as one value. */
static void scale_lists(rank_context *c)
{
    int64_t ints[2] = {2, 3};
    double floats[2] = {0.5, 1.5};
    bool bools[2] = {true, false};
    const struct {
        exg_argument numbers;
        double made[2][2];
    } rows[] = {
        {{.kind = EXG_ARGUMENT_INTS, .count = 2, .as_ints = ints}, {{0, 2}, {0, 3}}},
        {{.kind = EXG_ARGUMENT_FLOATS, .count = 2, .as_floats = floats}, {{0, 0.5}, {0, 1.5}}},
        {{.kind = EXG_ARGUMENT_BOOLS, .count = 2, .as_bools = bools}, {{0, 1}, {0, 0}}},
    };
    exg_object items[2], result;
    eager e;

    eager_begin(&e, c, NULL);
    items[0] = T(counted(&e, EXG_DTYPE_F32, "2", "S(0)"));
    items[1] = T(counted(&e, EXG_DTYPE_F32, "2", "R"));
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        result =
            call(&e, "aten._foreach_mul.ScalarList",
                 (exg_object[]){exg_object_list(items, 2), exg_object_value(rows[r].numbers)}, 2);
        for (int k = 0; k < 2 && c->faults == 0; k++) {
            expect_values(&e, result.items[k].dtensor, k == 0 ? "S(0)" : "R", rows[r].made[k], 2,
                          "times a number of each kind");
        }
        exg_object_clear(&result, true);
    }
    exg_dtensor_destroy(items[0].dtensor);
    exg_dtensor_destroy(items[1].dtensor);
    eager_end(&e);
}

/* (1+2i, 3-i) over two ranks: times and plus itself and i, and made of floats. */
static void work_with_complex(rank_context *c)
{
    static const struct {
        const char *key;
        float made[4];
    } rows[] = {
        {"aten.mul.Tensor", {-3, 4, 8, -6}},
        {"aten.add.Tensor", {2, 4, 6, -2}},
        {"aten.sub.Tensor", {0, 0, 0, 0}},
    };
    float data[4] = {1, 2, 3, -1};
    exg_tensor whole = {
        .data = data, .dtype = EXG_DTYPE_C64, .rank = 1, .sizes = {2}, .strides = {1}};
    exg_placement shard = exg_shard(0);
    exg_named_object as = {"dtype", exg_object_value(exg_arg_dtype(EXG_DTYPE_C64))};
    exg_argument i = {.kind = EXG_ARGUMENT_COMPLEX, .as_complex = {0, 1}};
    exg_object result;
    exg_dtensor *x = NULL, *y, *z;
    eager e;

    eager_begin(&e, c, NULL);
    EXPECT(c, exg_distribute_tensor(c->mesh, &whole, &shard, 1, 0, &x, &e.err) == EXG_OK, "%s",
           e.err.message);
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]) + 2; r++) {
        bool by_i = r >= sizeof(rows) / sizeof(rows[0]);
        const float turned[2][4] = {{-2, 1, 1, 3}, {1, 3, 3, 0}}; /* times i, plus i */
        const float *made = by_i ? turned[r - sizeof(rows) / sizeof(rows[0])] : rows[r].made;
        const char *key = !by_i                                 ? rows[r].key
                          : r == sizeof(rows) / sizeof(rows[0]) ? "aten.mul.Scalar"
                                                                : "aten.add.Scalar";

        y = CALL(&e, key, T(x), by_i ? exg_object_value(i) : T(x));
        EXPECT(c,
               y != NULL && exg_dtensor_dtype(y) == EXG_DTYPE_C64 &&
                   exg_dtensor_full_tensor(y, &z, &e.err) == EXG_OK,
               "%s: %s", key, e.err.message);
        for (int k = 0; k < 4 && c->faults == 0; k++) {
            EXPECT(c, ((const float *)on_host(z)->data)[k] == made[k], "%s: %g is not %g", key,
                   (double)((const float *)on_host(z)->data)[k], (double)made[k]);
        }
        if (y != NULL) {
            exg_dtensor_destroy(z);
        }
        exg_dtensor_destroy(y);
    }
    exg_dtensor_destroy(x);
    x = counted(&e, EXG_DTYPE_F32, "2", "S(0)"); /* 0 + 0i, 1 + 0i */
    EXPECT(c,
           exg_dispatch(e.d, "aten._to_copy.default", (exg_object[]){T(x)}, 1, &as, 1, &result,
                        &e.err) == EXG_OK &&
               exg_dtensor_dtype(result.dtensor) == EXG_DTYPE_C64 &&
               exg_dtensor_full_tensor(result.dtensor, &z, &e.err) == EXG_OK,
           "%s", e.err.message);
    if (c->faults == 0) {
        EXPECT(c, memcmp(on_host(z)->data, (const float[]){0, 0, 1, 0}, 16) == 0, "of floats");
        exg_dtensor_destroy(z);
        exg_object_clear(&result, true);
    }
    exg_dtensor_destroy(x);
    eager_end(&e);
}

/* A factory may be told any order of dims. */
static void make_ordered(rank_context *c)
{
    static const exg_memory_format formats[] = {
        EXG_MEMORY_FORMAT_CONTIGUOUS, EXG_MEMORY_FORMAT_PRESERVE, EXG_MEMORY_FORMAT_CHANNELS_LAST};
    eager e;

    eager_begin(&e, c, NULL);
    for (size_t r = 0; r < sizeof(formats) / sizeof(formats[0]); r++) {
        exg_named_object format = {
            "memory_format", exg_object_value((exg_argument){.kind = EXG_ARGUMENT_MEMORY_FORMAT,
                                                             .as_memory_format = formats[r]})};
        exg_dtensor *x = counted(&e, EXG_DTYPE_F32, "1x2x3x2", "R");
        exg_object arg = T(x), result = exg_object_none();

        EXPECT(c,
               exg_dispatch(e.d, "aten.ones_like.default", &arg, 1, &format, 1, &result, &e.err) ==
                   EXG_OK,
               "%s", e.err.message);
        if (result.kind == EXG_OBJECT_DTENSOR) {
            expect_values(&e, result.dtensor, "R",
                          (const double[]){1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 12, "ones");
        }
        exg_object_clear(&result, true);
        exg_dtensor_destroy(x);
    }
    eager_end(&e);
}

static void other_kinds_of_numbers_are_worked_with(void **state)
{
    (void)state;
    on_mesh("2", compare_others, NULL);
    on_mesh("2", scale_lists, NULL);
    on_mesh("2", make_ordered, NULL);
    on_mesh("2", work_with_complex, NULL);
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* Channels in groups over the ranks are those of the whole. */
static void convolve(rank_context *c)
{
    static const struct {
        const char *x, *weight, *placed; /* the channels' dim */
        bool transposed;
        int64_t groups;
        uint32_t spatial;
    } rows[] = {
        {"2x4x5", "8x1x3", "S(1)", false, 4, 1},    {"2x4x5", "8x2x3", "S(1)", false, 2, 1},
        {"4x5", "8x1x3", "S(0)", false, 4, 1},      {"2x4x5", "4x2x3", "S(1)", true, 4, 1},
        {"2x4x5", "4x2x3", "S(1)", true, 2, 1},     {"1x4x4x4", "4x1x2x2", "S(1)", false, 4, 2},
        {"1x4x4x4", "4x2x2x2", "S(1)", true, 2, 2}, {"2x4x5", "8x4x3", "S(0)", false, 1, 1},
    };
    int64_t one[2] = {1, 1}, zero[2] = {0, 0};
    eager e;

    eager_begin(&e, c, NULL);
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]) && c->faults == 0; r++) {
        exg_dtensor *whole = NULL, *made[2] = {NULL, NULL};
        double values[200];
        uint32_t count = 0;

        for (int split = 0; split < 2 && c->faults == 0; split++) {
            exg_dtensor *x = counted(&e, EXG_DTYPE_F32, rows[r].x, split ? rows[r].placed : "R");
            exg_dtensor *w = counted(&e, EXG_DTYPE_F32, rows[r].weight,
                                     split && rows[r].groups > 1 ? "S(0)" : "R");
            uint32_t n = rows[r].spatial;

            made[split] =
                CALL(&e, "aten.convolution.default", T(x), T(w), exg_object_none(), of_ints(one, n),
                     of_ints(zero, n), of_ints(one, n), of_bool(rows[r].transposed),
                     of_ints(zero, n), of_int(rows[r].groups));
            exg_dtensor_destroy(w);
            exg_dtensor_destroy(x);
        }
        EXPECT(c, c->faults > 0 || exg_dtensor_full_tensor(made[0], &whole, &e.err) == EXG_OK, "%s",
               e.err.message);
        if (whole != NULL) {
            const exg_tensor *t = on_host(whole);

            count = (uint32_t)exg_tensor_numel(t);
            for (uint32_t i = 0; i < count && i < 200; i++) {
                values[i] = (double)((const float *)t->data)[i];
            }
            EXPECT(c, count > 0 && count <= 200, "%u elements", count);
            expect_values(&e, made[1], rows[r].placed, values, count, rows[r].weight);
        }
        exg_dtensor_destroy(whole);
        exg_dtensor_destroy(made[0]);
        exg_dtensor_destroy(made[1]);
    }
    eager_end(&e);
}

/* S000-12, S001-13 */
static void groups_of_channels_are_shared(void **state)
{
    (void)state;
    on_mesh("2", convolve, NULL);
}

/* ---- no mesh -----------------------------------------------------------------------------------
 */

static void numbers_need_a_mesh(void **state)
{
    exg_object args[2] = {of_int(1), of_int(2)}, result;
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_output_sharding *sharding;
    exg_op_schema schema, *target;
    exg_device_mesh *self = NULL;
    exg_dispatcher *d;
    exg_error err;
    bool moves;

    (void)state;
    assert_int_equal(exg_dispatcher_create(all_operators(), NULL, &d, &err), EXG_OK);
    assert_int_equal(exg_dispatch(d, "aten.add.Tensor", args, 2, NULL, 0, &result, &err),
                     EXG_USAGE);
    assert_string_equal(err.code, "DSP-008");
    assert_int_equal(exg_op_schema_from_call(
                         &schema,
                         exg_operators_find(all_operators(), "torch.ops.aten.add.Tensor")->schema,
                         args, 2, NULL, 0, arena, &err),
                     EXG_OK);
    assert_int_equal(exg_propagate_input_sharding(d, "aten.add.Tensor", &schema, arena, &target,
                                                  &moves, &sharding, &err),
                     EXG_USAGE);
    assert_string_equal(err.code, "DSP-008");
    assert_int_equal(exg_dispatcher_self(d, &self, &err), EXG_USAGE);
    assert_string_equal(err.code, "DSP-008");
    exg_dispatcher_destroy(d);
    exg_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_that_cannot_be_right_are_refused),
        cmocka_unit_test(what_cannot_be_done_is_refused),
        cmocka_unit_test(other_kinds_of_numbers_are_worked_with),
        cmocka_unit_test(groups_of_channels_are_shared),
        cmocka_unit_test(numbers_need_a_mesh),
    };
    int failed;

    (void)all_operators();
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    free_operators();
    return failed;
}
