/* Costs and placements as files. */
#include <exg/formats.h>
#include <exg/partition.h>
#include <stdio.h>
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
                       .links = {{.message_ns = 700, .ns_per_byte = 0.125}},
                       .ns_per_attention_flop = 2,
                       .ns_per_node = 300,
                       .cores = 16};
    exg_costs back = {.size = sizeof(back)};
    exg_costs older = {.size = offsetof(exg_costs, links)};

    (void)state;
    assert_int_equal(exg_costs_save(&costs, path, NULL), EXG_OK);
    assert_int_equal(exg_costs_open(path, &back, NULL), EXG_OK);
    assert_true(back.ns_per_flop == 0.5 && back.ns_per_touched == 0.25);
    assert_true(back.ns_per_attention_flop == 2 && back.ns_per_batched_flop == 0);
    assert_true(back.ns_per_node == 300 && back.cores == 16);
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
                                      "{\"cores\": -2}",
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
    assert_int_equal(exg_partition_options_open(path, 0, 1, arena, &options, &err), EXG_OK);
    assert_int_equal(options.mode, EXG_PARTITION_PATTERNS);
    assert_int_equal(options.pattern_count, 3);
    assert_string_equal(options.patterns[1].pattern, "*.q");
    assert_int_equal(options.patterns[1].placement.kind, EXG_SHARD);
    assert_int_equal(options.patterns[1].placement.dim, 1);
    assert_string_equal(options.patterns[2].pattern, "*");
    assert_int_equal(options.patterns[0].of, EXG_PARTITION_INPUTS);
    assert_int_equal(options.patterns[1].of, EXG_PARTITION_WEIGHTS);
    write("{\"parameters\": {}}");
    assert_int_equal(exg_partition_options_open(path, 0, 1, arena, &options, &err), EXG_USAGE);
    assert_string_equal(err.code, "PLC-007");
    assert_int_equal(options.pattern_count, 3); /* as it was */
    exg_arena_destroy(arena);
}

static exg_partition_options opened(const char *text, uint32_t dim, uint32_t ndim, exg_arena *arena)
{
    exg_partition_options options = {.size = sizeof(options)};
    exg_error err;

    write(text);
    if (exg_partition_options_open(path, dim, ndim, arena, &options, &err) != EXG_OK) {
        fail_msg("%s: %s %s", text, err.code, err.message);
    }
    return options;
}

/* The first of the subject that has the pattern. */
static exg_placement placed(const exg_partition_options *options, exg_partition_subject of,
                            const char *pattern)
{
    for (uint32_t i = 0; i < options->pattern_count; i++) {
        if (options->patterns[i].of == of && strcmp(options->patterns[i].pattern, pattern) == 0) {
            return options->patterns[i].placement;
        }
    }
    fail_msg("no pattern '%s'", pattern);
    return exg_replicate();
}

static void lists_have_a_placement_for_each_mesh_dim(void **state)
{
    static const char text[] =
        "{\"weights\": {\"w\": [\"Shard(dim=0)\", \"R\"], \"v\": \"S(1)\"},"
        " \"activations\": {\"blocks.*\": [\"R\", \"S(-1)\"]}, \"outputs\": {\"y\": \"S(0)\"}}";
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);

    (void)state;
    for (uint32_t dim = 0; dim < 2; dim++) {
        exg_partition_options options = opened(text, dim, 2, arena);
        exg_placement w = placed(&options, EXG_PARTITION_WEIGHTS, "w");
        exg_placement a = placed(&options, EXG_PARTITION_ACTIVATIONS, "blocks.*");

        assert_true(exg_placement_equal(w, dim == 0 ? exg_shard(0) : exg_replicate()));
        assert_true(exg_placement_equal(a, dim == 1 ? exg_shard(-1) : exg_replicate()));
        assert_true(
            exg_placement_equal(placed(&options, EXG_PARTITION_WEIGHTS, "v"), exg_shard(1)));
        assert_true(
            exg_placement_equal(placed(&options, EXG_PARTITION_OUTPUTS, "y"), exg_shard(0)));
    }
    exg_arena_destroy(arena);
}

/* As print(tensor.placements) has them, in any version. */
static void tuples_are_lists(void **state)
{
    static const char *const texts[] = {"(Shard(dim=1), Replicate())", "[Shard(1), Replicate()]",
                                        "(Shard(dim=1), Replicate(),)", "( S(1) ,R )"};
    static const char *const bad[] = {"(S(1), R",   "(S(1))",       "()", "(S(1), R) x",
                                      "(S(1),, R)", "(S(1), R, R)", "(",  "[S(1"};
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    char text[100];

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        snprintf(text, sizeof(text), "{\"weights\": {\"w\": \"%s\"}}", texts[i]);
        for (uint32_t dim = 0; dim < 2; dim++) {
            exg_partition_options options = opened(text, dim, 2, arena);

            assert_true(exg_placement_equal(placed(&options, EXG_PARTITION_WEIGHTS, "w"),
                                            dim == 0 ? exg_shard(1) : exg_replicate()));
        }
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        exg_partition_options options = {.size = sizeof(options)};
        exg_error err;

        snprintf(text, sizeof(text), "{\"weights\": {\"w\": \"%s\"}}", bad[i]);
        write(text);
        assert_int_equal(exg_partition_options_open(path, 1, 2, arena, &options, &err), EXG_USAGE);
    }
    exg_arena_destroy(arena);
}

static void plans_by_module_are_read_as_they_are_shipped(void **state)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_partition_options options =
        opened("{\"layers.*.q_proj\": \"colwise\", \"layers.*.o_proj\": \"rowwise\","
               " \"norm\": \"SequenceParallel(sequence_dim=2, use_local_output=False)\","
               " \"down\": \"RowwiseParallel(input_layouts=(Shard(dim=-1),), "
               "output_layouts=(Shard(dim=1),), use_local_output=True)\","
               " \"lm_head\": \"colwise_rep\"}",
               0, 1, arena);

    (void)state;
    assert_int_equal(placed(&options, EXG_PARTITION_WEIGHTS, "layers.*.q_proj.weight").dim, 0);
    assert_int_equal(placed(&options, EXG_PARTITION_WEIGHTS, "layers.*.q_proj.bias").dim, 0);
    assert_int_equal(placed(&options, EXG_PARTITION_TABLES, "layers.*.q_proj.weight").dim, 1);
    assert_int_equal(placed(&options, EXG_PARTITION_WEIGHTS, "*.layers.*.o_proj.weight").dim, 1);
    assert_int_equal(placed(&options, EXG_PARTITION_WEIGHTS, "layers.*.o_proj.bias").kind,
                     EXG_REPLICATE);
    assert_int_equal(placed(&options, EXG_PARTITION_ACTIVATIONS, "norm").dim, 2);
    assert_int_equal(placed(&options, EXG_PARTITION_ACTIVATIONS, "down").dim, 1);
    assert_int_equal(placed(&options, EXG_PARTITION_ACTIVATIONS, "lm_head").kind, EXG_REPLICATE);
    options =
        opened("{\"tp_plan\": {\"up\": \"colwise\"}, \"inputs\": {\"x\": \"R\"}}", 0, 1, arena);
    assert_int_equal(placed(&options, EXG_PARTITION_WEIGHTS, "up.weight").dim, 0);
    assert_string_equal(options.patterns[0].key, "up");
    exg_arena_destroy(arena);
}

static void what_is_no_placement_of_a_file_is_refused_by_name(void **state)
{
    static const struct {
        const char *text, *code, *says;
    } rows[] = {
        {"{\"weights\": {\"w\": [\"S(0)\"]}}", "PLC-007", "a list of 1 placements"},
        {"{\"weights\": {\"w\": [\"S(0)\", \"X\"]}}", "PLC-001", "'X'"},
        {"{\"up\": \"columnwise\"}", "PLC-007", "'columnwise' is no style"},
        {"{\"tp_plan\": {\"up\": \"RowwiseParallel(output_layouts=(Shrad(1),))\"}}", "PLC-001",
         "Shrad"},
        {"{\"activation\": {}}", "PLC-007", "\"activation\""},
        {"{\"tp_plan\": {\"up\": 1}}", "JSN-002", "expected a string"},
        {"{}", "PLC-007", "no member"},
    };
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_partition_options options = {.size = sizeof(options)};
        exg_error err;

        write(rows[i].text);
        assert_true(exg_partition_options_open(path, 0, 2, arena, &options, &err) != EXG_OK);
        assert_string_equal(err.code, rows[i].code);
        if (strstr(err.message, rows[i].says) == NULL) {
            fail_msg("%s: %s", rows[i].text, err.message);
        }
    }
    exg_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(costs_come_back_as_they_were_saved),
        cmocka_unit_test(a_table_of_costs_says_what_is_wrong_in_it),
        cmocka_unit_test(placements_are_read_in_order),
        cmocka_unit_test(lists_have_a_placement_for_each_mesh_dim),
        cmocka_unit_test(tuples_are_lists),
        cmocka_unit_test(plans_by_module_are_read_as_they_are_shipped),
        cmocka_unit_test(what_is_no_placement_of_a_file_is_refused_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
