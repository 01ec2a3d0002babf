/* support.c - what is said of an operator: of each way in which one is computed. */
#include <exg/dispatch.h>
#include <exg/operator_id_new.h>
#include <exg/operators.h>
#include <exg/transform.h>

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define D(id)    (UINT64_C(1) << EXG_DTYPE_##id)
#define INTEGERS (D(U8) | D(I8) | D(I16) | D(I32) | D(I64) | D(U16) | D(U32) | D(U64))
#define FLOATS   (D(F16) | D(BF16) | D(F32) | D(F64))
#define FLOATS8  (D(F8E4M3FN) | D(F8E5M2) | D(F8E4M3FNUZ) | D(F8E5M2FNUZ) | D(F8E8M0FNU))
#define REALS    (INTEGERS | FLOATS | FLOATS8 | D(B8))
#define COMPLEX  (D(C32) | D(C64) | D(C128))

static const struct {
    const char *name, *kernel, *sharding, *derivative;
    uint64_t dtypes;
} rows[] = {
    /* a formula: of floats, of numbers, of bits; of complex ones by their parts */
    {"aten.sin.default", "pointwise", "element by element", "of its own", REALS | COMPLEX},
    {"aten.add.Tensor", "pointwise", "element by element", "of its own", REALS | COMPLEX},
    {"aten.logical_and.default", "pointwise", "element by element", "by simpler operators",
     REALS | COMPLEX},
    {"aten.bitwise_and.Tensor", "pointwise", "element by element", "by simpler operators",
     INTEGERS | D(B8)},
    /* a kernel, with letters or a rule */
    {"aten.mm.default", "mm", "mk,kn->mn", "of its own", INTEGERS | FLOATS | COMPLEX},
    {"aten._softmax.default", "softmax", "by a rule", "of its own", FLOATS},
    {"aten.embedding.default", "embedding", "by a rule", "of its own", REALS | COMPLEX},
    /* others */
    {"aten.view.default", "view", "by a rule", "of its own", REALS | COMPLEX},
    {"aten.sym_size.int", "on sizes", "the same on each rank", "none", 0},
    {"aten.nansum.default", "by simpler operators", "as what it is computed by",
     "by simpler operators", 0},
    {"aten.relu_.default", "as the operator that writes nothing", "as what it is computed by",
     "by simpler operators", 0},
};

static void each_way_of_computing_is_told(void **state)
{
    exg_operators *operators;

    (void)state;
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_operator_support support = {.size = sizeof(support)};
        char target[64] = "torch.ops.";
        const exg_operator *op;

        op = exg_operators_find(operators, strcat(target, rows[i].name));
        assert_non_null(op);
        assert_int_equal(exg_operator_describe(op, &support, NULL), EXG_OK);
        assert_string_equal(support.kernel, rows[i].kernel);
        assert_string_equal(support.sharding, rows[i].sharding);
        assert_string_equal(support.derivative, rows[i].derivative);
        if (support.dtypes != rows[i].dtypes) {
            fail_msg("%s takes %llx", rows[i].name, (unsigned long long)support.dtypes);
        }
        /* the host, where there is a kernel; what is computed by others is so on every device */
        assert_int_equal(support.devices & 1, rows[i].dtypes != 0);
        assert_true(rows[i].dtypes != 0 || support.devices == 0);
    }
    exg_operators_destroy(operators);
}

/* A session does some itself, between steps: no operator is without a word. */
static void what_a_session_does_itself_is_told(void **state)
{
    static const struct {
        const char *target, *kernel, *sharding;
    } told[] = {
        {"torch.ops.aten.nonzero.default",
         "by simpler operators, once the size is read of the data", "as what it is computed by"},
        {"torch.ops.aten.masked_select.default",
         "by simpler operators, once the size is read of the data", "as what it is computed by"},
        {"torch.ops.aten.item.default", "read of the data", "the same on each rank"},
        {"torch.ops.aten._assert_async.msg", "looked at when the rest has run",
         "the same on each rank"},
        {"torch.ops.c10d_functional.all_reduce.default", "as that of _c10d_functional",
         "as what it is computed by"},
    };
    exg_operator_support support = {.size = sizeof(support)};
    exg_operators *operators;

    (void)state;
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
        assert_int_equal(
            exg_operator_describe(exg_operators_find(operators, told[i].target), &support, NULL),
            EXG_OK);
        assert_string_equal(support.kernel, told[i].kernel);
        assert_string_equal(support.sharding, told[i].sharding);
        assert_string_equal(support.derivative, "none");
        assert_int_equal(support.dtypes, 0);
        assert_int_equal(support.devices, 0);
    }
    for (uint32_t id = 0; id < EXG_OPERATOR_COUNT; id++) {
        const exg_operator *op = exg_operators_get(operators, (exg_operator_id)id);

        if (op != NULL && op->target != NULL) {
            assert_int_equal(exg_operator_describe(op, &support, NULL), EXG_OK);
            assert_true(support.kernel[0] != '\0');
        }
    }
    exg_operators_destroy(operators);
}

/* Branches and loops have no row, and are told too. */
static void higher_order_operators_are_listed(void **state)
{
    bool has_cond = false;
    const char *how = NULL;
    const char *target;
    uint32_t count = 0;

    (void)state;
    for (; (target = exg_higher_order_at(count, &how)) != NULL; count++) {
        assert_int_equal(strncmp(target, "torch.ops.higher_order.", 23), 0);
        assert_non_null(how);
        has_cond = has_cond || (strcmp(target, "torch.ops.higher_order.cond") == 0 &&
                                strcmp(how, "the nodes of the branch that is taken") == 0);
    }
    assert_true(has_cond && count > 8);
    assert_null(exg_higher_order_at(UINT32_MAX, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_way_of_computing_is_told),
        cmocka_unit_test(what_a_session_does_itself_is_told),
        cmocka_unit_test(higher_order_operators_are_listed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
