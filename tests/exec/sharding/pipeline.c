/* pipeline.c - programs in stages: micro-batches in every schedule give what the program gives
 * whole, a rank reads its own stages' weights, and what cannot be cut says why. */
#include "tests/exec/session/fixture.h"

#include <exg/emit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static exg_status run_stages(const loaded *l, uint32_t ranks, uint32_t batches, uint32_t each,
                             exg_error *err)
{
    exg_partition_options place = {.size = sizeof(place),
                                   .mode = EXG_PARTITION_PIPELINE,
                                   .microbatches = batches,
                                   .stages_per_rank = each};
    exg_session_options options = {
        .size = sizeof(options), .thread_count = 1, .mesh = {1, {ranks}}, .partition = &place};
    exg_session *session;
    exg_status status;
    char what[80];

    assert_int_equal(exg_session_create(&l->verified, &options, &session, err), EXG_OK);
    status = try_fixture(l, session, err);
    if (status == EXG_OK) {
        const exg_partition_summary *placed = exg_session_statistics(session)->partition;

        snprintf(what, sizeof(what), "%u ranks of %u stages, %u micro-batches", ranks, each,
                 batches);
        compare_with_expected(l, session, what);
        if (placed->microbatches != batches || placed->stages != ranks * each) {
            fail_msg("%s, %s: counted as %u of %u", l->fixture->program, what, placed->microbatches,
                     placed->stages);
        }
    }
    exg_session_destroy(session);
    return status;
}

/* Which programs have rows that depend on each other follows from what they are: all but the one
 * of most operators, whose batch has one row, and what sums over rows. */
static void micro_batches_agree_with_pytorch(void **state)
{
    static const char *const apart[] = {"mlp.pt2", "convbn.eval.pt2", "bf16.pt2"};
    uint32_t found = 0;

    (void)state;
    for (uint32_t i = 0; i < fixture_count; i++) {
        bool is_apart = false;
        loaded l;

        load_fixture(&fixtures[i], &l);
        for (size_t a = 0; a < sizeof(apart) / sizeof(apart[0]); a++) {
            is_apart = is_apart || strcmp(fixtures[i].program, apart[a]) == 0;
        }
        for (uint32_t n = 0; n < 12; n++) {
            exg_error err;
            exg_status status = run_stages(&l, 2 + n % 2, 2 + n / 6, 1 + n / 2 % 3, &err);

            found += status == EXG_OK;
            if (status != EXG_OK && (strcmp(err.code, "PLC-012") != 0 ||
                                     (is_apart && strstr(err.message, " rows for ") == NULL))) {
                fail_msg("%s: %s: %s", fixtures[i].program, err.code, err.message);
            }
        }
        unload_fixture(&l);
    }
    assert_true(found > 60);
}

/* ---- programs of this test ------------------------------------------------------------------- */

#define WIDTH  16
#define LAYERS 8

typedef struct chain {
    exg_operators *operators;
    exg_program *program, *functional;
} chain;

/* Layers, each reading what the one before gives; `sums` over the rows at the end. */
static void make_chain(chain *c, uint32_t layers, bool sums)
{
    static float weights[WIDTH * WIDTH];
    exg_builder *b;
    exg_argument output;
    exg_ref x;
    int64_t sizes[2] = {6, WIDTH};
    exg_tensor_meta meta;
    exg_error err;

    assert_int_equal(exg_operators_create(&c->operators, NULL), EXG_OK);
    assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &c->program, NULL), EXG_OK);
    assert_int_equal(exg_builder_create(c->operators, c->program, &b, NULL), EXG_OK);
    meta = exg_builder_meta(b, EXG_DTYPE_F32, (const int64_t[]){WIDTH, WIDTH}, 2);
    exg_ref w[LAYERS];
    for (uint32_t i = 0; i < layers; i++) {
        char name[20];

        snprintf(name, sizeof(name), "layer%u.weight", i);
        w[i] = exg_builder_weight(b, name, &meta, EXG_INPUT_PARAMETER, weights);
    }
    meta = exg_builder_meta(b, EXG_DTYPE_F32, sizes, 2);
    x = exg_builder_input(b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    for (uint32_t i = 0; i < layers; i++) {
        x = EMIT(b, tanh_default, EMIT(b, mm_default, x, w[i]));
    }
    if (sums) {
        x = EMIT(b, mul_Tensor, x, EMIT(b, sum_dim_IntList, x, INTS(b, 0), true));
    }
    output = exg_arg_ref(x);
    exg_builder_output(b, &output, EXG_OUTPUT_USER, NULL);
    exg_builder_call(b);
    if (exg_builder_finish(b, &err) != EXG_OK ||
        exg_functionalize(c->program, c->operators, &c->functional, &err) != EXG_OK) {
        fail_msg("%s: %s", err.code, err.message);
    }
}

static void drop_chain(chain *c)
{
    exg_program_destroy(c->functional);
    exg_program_destroy(c->program);
    exg_operators_destroy(c->operators);
}

static exg_status place_chain(const chain *c, const exg_partition_options *place,
                              const exg_mesh_shape *mesh, uint32_t rank,
                              exg_partition_summary **summary, exg_error *err)
{
    exg_program *local;
    exg_status status = exg_partition(c->functional, c->operators, place, NULL, mesh, rank, &local,
                                      summary, NULL, err);

    exg_program_destroy(local);
    return status;
}

/* Eight equal layers: on 2, 4 and 8 ranks each has as many, and reads no other. */
static void a_rank_reads_the_weights_of_its_stages(void **state)
{
    chain c;

    (void)state;
    make_chain(&c, LAYERS, false);
    for (uint32_t ranks = 2; ranks <= 8; ranks *= 2) {
        for (uint32_t each = 1; each * ranks <= LAYERS; each *= 2) {
            for (uint32_t rank = 0; rank < ranks; rank++) {
                exg_partition_options place = {.size = sizeof(place),
                                               .mode = EXG_PARTITION_PIPELINE,
                                               .microbatches = 3,
                                               .stages_per_rank = each};
                exg_partition_summary *placed;
                exg_error err;

                assert_int_equal(
                    place_chain(&c, &place, &(exg_mesh_shape){1, {ranks}}, rank, &placed, &err),
                    EXG_OK);
                assert_int_equal(placed->weight_bytes, LAYERS / ranks * WIDTH * WIDTH * 4);
                assert_true(placed->bubble_ns > 0);
                free(placed);
            }
        }
    }
    drop_chain(&c);
}

/* (n - 1) of (m + n - 1) turns are waited: fewer with more micro-batches, or stages a rank. */
static void more_micro_batches_and_stages_make_the_bubble_small(void **state)
{
    static const struct {
        uint32_t batches, each;
    } rows[] = {{1, 1}, {2, 1}, {2, 2}, {6, 2}};
    double before = 1e30;
    chain c;

    (void)state;
    make_chain(&c, LAYERS, false);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_partition_options place = {.size = sizeof(place),
                                       .mode = EXG_PARTITION_PIPELINE,
                                       .microbatches = rows[i].batches,
                                       .stages_per_rank = rows[i].each};
        exg_partition_summary *placed;
        exg_costs costs;
        exg_partition_goal goal = {.size = sizeof(goal), .costs = &costs};
        exg_program *local;
        exg_error err;
        double share;

        exg_costs_init(&costs, sizeof(costs));
        costs.links[0] = (exg_link){0, 0};
        if (exg_partition(c.functional, c.operators, &place, &goal, &(exg_mesh_shape){1, {2}}, 1,
                          &local, &placed, NULL, &err) != EXG_OK) {
            fail_msg("%s: %s", err.code, err.message);
        }
        share = placed->bubble_ns / placed->work_ns;
        if (!(share < before)) {
            fail_msg("%u micro-batches, %u stages: bubble %g of the work", rows[i].batches,
                     rows[i].each, share);
        }
        before = share;
        exg_program_destroy(local);
        free(placed);
    }
    drop_chain(&c);
}

static void what_has_no_meaning_is_refused(void **state)
{
    static const struct {
        exg_partition_options place[2];
        const char *code, *what;
    } rows[] = {
        {{{.mode = EXG_PARTITION_PIPELINE}, {.mode = EXG_PARTITION_PIPELINE}}, "PLC-011", "2 mesh"},
        {{{.mode = EXG_PARTITION_DATA, .microbatches = 2}, {.mode = EXG_PARTITION_PIPELINE}},
         "PLC-011",
         "mode is data"},
        {{{.mode = EXG_PARTITION_PIPELINE}, {.mode = EXG_PARTITION_TENSOR, .stages_per_rank = 2}},
         "PLC-011",
         "mode is tensor"},
        {{{.mode = EXG_PARTITION_PIPELINE, .microbatches = 2}, {.mode = EXG_PARTITION_REPLICATE}},
         "PLC-012",
         "of all rows"},
        {{{.mode = EXG_PARTITION_PIPELINE, .microbatches = 7}, {.mode = EXG_PARTITION_REPLICATE}},
         "PLC-012",
         "6 rows for 7"},
    };
    chain c;

    (void)state;
    make_chain(&c, 2, true);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_partition_options place[2] = {rows[i].place[0], rows[i].place[1]};
        exg_error err;

        place[0].size = place[1].size = sizeof(place[0]);
        if (place_chain(&c, place, &(exg_mesh_shape){2, {2, 2}}, 0, NULL, &err) == EXG_OK) {
            fail_msg("row %zu is taken", i);
        }
        assert_string_equal(err.code, rows[i].code);
        if (strstr(err.message, rows[i].what) == NULL) {
            fail_msg("row %zu: %s", i, err.message);
        }
    }
    drop_chain(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(micro_batches_agree_with_pytorch),
        cmocka_unit_test(a_rank_reads_the_weights_of_its_stages),
        cmocka_unit_test(more_micro_batches_and_stages_make_the_bubble_small),
        cmocka_unit_test(what_has_no_meaning_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
