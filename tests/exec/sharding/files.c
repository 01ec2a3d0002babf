/* Costs and placements as files. */
#include <exg/formats.h>
#include <exg/partition.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const char path[] = "build/sharding-files.json";

static void write(const char *text)
{
    assert_int_equal(exg_file_write(path, text, strlen(text), NULL), EXG_OK);
}

static void costs_come_back_as_they_were_saved(void **state)
{
    exg_costs costs = {.size = sizeof(costs),
                       .ns_per_flop = 0.5,
                       .ns_per_touched = 0.25,
                       .links = {{.message_ns = 700, .ns_per_byte = 0.125}}};
    exg_costs back = {.size = sizeof(back)};
    exg_costs older = {.size = offsetof(exg_costs, links)};

    (void)state;
    assert_int_equal(exg_costs_save(&costs, path, NULL), EXG_OK);
    assert_int_equal(exg_costs_open(path, &back, NULL), EXG_OK);
    assert_true(back.ns_per_flop == 0.5 && back.ns_per_touched == 0.25);
    assert_true(back.links[0].message_ns == 700 && back.links[0].ns_per_byte == 0.125);
    assert_true(back.links[EXG_MESH_DIMS_MAX - 1].message_ns == 700); /* the last stands for all */
    assert_int_equal(exg_costs_open(path, &older, NULL), EXG_OK);
    assert_true(older.ns_per_flop == 0.5 && older.links[0].message_ns == 0); /* not reached */
}

static void a_table_of_costs_says_what_is_wrong_in_it(void **state)
{
    static const char *const bad[] = {"[]",
                                      "{}",
                                      "{\"ns_per_flops\": 1}",
                                      "{\"ns_per_flop\": -1}",
                                      "{\"links\": [1]}",
                                      "{\"links\": [{\"latency\": 1}]}"};
    exg_error err;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        exg_costs costs = {.size = sizeof(costs), .ns_per_flop = 3};

        write(bad[i]);
        assert_int_equal(exg_costs_open(path, &costs, &err), EXG_USAGE);
        assert_string_equal(err.code, "CLI-004");
        assert_true(costs.ns_per_flop == 3); /* as it was */
    }
}

static void placements_are_read_in_order(void **state)
{
    exg_partition_options options = {.size = sizeof(options), .mode = EXG_PARTITION_DATA};
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_error err;

    (void)state;
    write("{\"inputs\": {\"x\": \"R\"}, \"weights\": {\"*.q\": \"S(1)\", \"*\": \"S(0)\"}}");
    assert_int_equal(exg_partition_options_open(path, arena, &options, &err), EXG_OK);
    assert_int_equal(options.mode, EXG_PARTITION_PATTERNS);
    assert_int_equal(options.pattern_count, 3);
    assert_string_equal(options.patterns[0].pattern, "*.q");
    assert_int_equal(options.patterns[0].placement.kind, EXG_SHARD);
    assert_int_equal(options.patterns[0].placement.dim, 1);
    assert_string_equal(options.patterns[1].pattern, "*");
    assert_true(options.patterns[2].of_inputs && !options.patterns[1].of_inputs);
    write("{\"parameters\": {}}");
    assert_int_equal(exg_partition_options_open(path, arena, &options, &err), EXG_USAGE);
    assert_string_equal(err.code, "PLC-007");
    assert_int_equal(options.pattern_count, 3); /* as it was */
    exg_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(costs_come_back_as_they_were_saved),
        cmocka_unit_test(a_table_of_costs_says_what_is_wrong_in_it),
        cmocka_unit_test(placements_are_read_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
