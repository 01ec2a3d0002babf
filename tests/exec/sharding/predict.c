/* What operators are taken to cost, against what they do. */
#include "libexec/sharding/partitioner.h"

#include <math.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define COUNT(a) ((uint32_t)(sizeof(a) / sizeof((a)[0])))

/* (256, 512) by (512, 1024): 2 * 256 * 512 * 1024 operations, whatever the elements are. */
static void products_are_counted_by_their_operations(void **state)
{
    static const exg_operator_id products[] = {EXG_OP_mm_default, EXG_OP_product_of_bytes};
    exg_sym_int sizes[3][2] = {{{.value = 256}, {.value = 512}},
                               {{.value = 512}, {.value = 1024}},
                               {{.value = 256}, {.value = 1024}}};
    exg_tensor_meta metas[3];
    const exg_tensor_meta *operands[2] = {&metas[0], &metas[1]};
    exg_costs costs;

    (void)state;
    exg_costs_init(&costs, sizeof(costs));
    for (uint32_t k = 0; k < COUNT(metas); k++) {
        metas[k] = (exg_tensor_meta){.dtype = EXG_DTYPE_I8, .rank = 2, .sizes = sizes[k]};
    }
    for (uint32_t k = 0; k < COUNT(products); k++) {
        const exg_operator product = {.id = products[k]};
        double ns = exg_predict_work(&costs, &product, operands, 2, &metas[2]);
        double want = 2. * 256 * 512 * 1024 * costs.ns_per_flop;

        assert_true(fabs(ns - want) <= 1e-9 * want);
    }
}

/* 8 of 4096 rows: those are read, and written. */
static void lookups_take_what_is_looked_up(void **state)
{
    exg_sym_int sizes[3][2] = {
        {{.value = 4096}, {.value = 512}}, {{.value = 8}}, {{.value = 8}, {.value = 512}}};
    exg_tensor_meta metas[3];
    const exg_tensor_meta *operands[2] = {&metas[0], &metas[1]};
    const exg_operator lookup = {.id = EXG_OP_embedding_default};
    exg_costs costs;

    (void)state;
    exg_costs_init(&costs, sizeof(costs));
    for (uint32_t k = 0; k < COUNT(metas); k++) {
        metas[k] = (exg_tensor_meta){.dtype = k == 1 ? EXG_DTYPE_I64 : EXG_DTYPE_F32,
                                     .rank = k == 1 ? 1 : 2,
                                     .sizes = sizes[k]};
    }
    assert_true(fabs(exg_predict_work(&costs, &lookup, operands, 2, &metas[2]) -
                     (2. * 8 * 512 * 4 + 8 * 8) * costs.ns_per_touched) < 1e-6);
}

/* A kind with a rate of its own takes that, and the rate of products where it has none; to begin a
 * node takes a time beside. */
static void kinds_have_rates_of_their_own(void **state)
{
    exg_sym_int a[3] = {{.value = 32}, {.value = 64}, {.value = 128}};
    exg_sym_int b[3] = {{.value = 32}, {.value = 128}, {.value = 16}};
    exg_sym_int y[3] = {{.value = 32}, {.value = 64}, {.value = 16}};
    exg_sym_int weight[2] = {{.value = 128}, {.value = 32}};
    exg_sym_int state_sizes[3] = {{.value = 32}, {.value = 64}, {.value = 32}};
    const exg_tensor_meta metas[] = {{.dtype = EXG_DTYPE_F32, .rank = 3, .sizes = a},
                                     {.dtype = EXG_DTYPE_F32, .rank = 3, .sizes = b},
                                     {.dtype = EXG_DTYPE_F32, .rank = 3, .sizes = y},
                                     {.dtype = EXG_DTYPE_F32, .rank = 2, .sizes = weight},
                                     {.dtype = EXG_DTYPE_F32, .rank = 3, .sizes = state_sizes}};
    const exg_operator bmm = {.id = EXG_OP_bmm_default}, lstm = {.id = EXG_OP_recurrent};
    const double of_bmm = 2. * 32 * 64 * 128 * 16, of_lstm = 2. * 32 * 64 * 128 * 32;
    const exg_tensor_meta *factors[] = {&metas[0], &metas[1]}, *cells[] = {&metas[0], &metas[3]};
    exg_costs costs = {.size = sizeof(costs), .ns_per_flop = 0.5};

    (void)state;
    assert_true(exg_predict_work(&costs, &bmm, factors, 2, &metas[2]) == of_bmm * 0.5);
    assert_true(exg_predict_work(&costs, &lstm, cells, 2, &metas[4]) == of_lstm * 0.5);
    costs.ns_per_batched_flop = 2;
    costs.ns_per_recurrent_flop = 4;
    costs.ns_per_node = 100;
    assert_true(exg_predict_work(&costs, &bmm, factors, 2, &metas[2]) == of_bmm * 2 + 100);
    assert_true(exg_predict_work(&costs, &lstm, cells, 2, &metas[4]) == of_lstm * 4 + 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_counted_by_their_operations),
        cmocka_unit_test(lookups_take_what_is_looked_up),
        cmocka_unit_test(kinds_have_rates_of_their_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
