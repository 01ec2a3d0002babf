/* guards.c - guards on inputs of every kind and nesting: each is read as Python would, and holds
 * where Python says so. The inputs' own numbers stand in the graph. */
#include "tests/export/verify/findings.h"

#include <exg/emit.h>
#include <exg/formats.h>
#include <exg/verify.h>

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static exg_operators *operators;

/* Is SYM-007 found where the program has this guard alone? It says which guard, and why. */
static bool is_refused(exg_program *program, const char *guard)
{
    exg_verified verified;
    exg_diagnostics found;
    char quoted[200];
    bool refused = false;

    program->guards_code = &guard;
    program->guard_count = 1;
    snprintf(quoted, sizeof(quoted), "'%.120s' ", guard);
    exg_ignore(exg_verify(program, operators, &verified, &found, NULL));
    for (uint32_t i = 0; i < found.count; i++) {
        const char *message = found.items[i].message;

        if (strcmp(found.items[i].code, "SYM-007") != 0) {
            continue;
        }
        refused = true;
        if (strncmp(message, quoted, strlen(quoted)) != 0 ||
            (strcmp(message + strlen(quoted), "cannot be read: a run is refused") != 0 &&
             strcmp(message + strlen(quoted), "does not hold at export") != 0)) {
            fail_msg("%s: %s", guard, message);
        }
    }
    exg_diagnostics_free(&found);
    return refused;
}

typedef struct row {
    const char *guard;
    bool refused; /* it does not hold, or is not in the grammar */
} row;

static void check(exg_program *program, const row *rows, size_t count)
{
    int faults = 0;

    for (size_t r = 0; r < count; r++) {
        if (is_refused(program, rows[r].guard) != rows[r].refused) {
            print_message("  %s\n", rows[r].guard);
            faults++;
        }
    }
    assert_int_equal(faults, 0);
}

#define CHECK(program, rows) check(program, rows, sizeof(rows) / sizeof((rows)[0]))

/* x is (s77, 4), 3 at export, y is (5,), n 3, flag True, scale 1.5, mode "a", nothing None. */
static void numbers_stand_for_inputs(void **state)
{
    static const row rows[] = {
        {"L['n'] == 3", false},
        {"L['n'] == 4", true},
        {"L['n'] + L['x'].size()[0] == 6", false},
        {"L['n'] - 1 == 1", true},
        {"L['flag'] == True", false},
        {"L['flag'] == False", true},
        {"not L['flag']", true},
        {"L['scale'] == 1.5", false},
        {"L['scale'] > 1.5", true},
        {"2*L['scale'] == L['n']", false},
        {"L['mode'] == 1", true}, /* words are no numbers */
        {"L['nothing'] == 0", true},
        {"L['y'].size()[0] == 5", false},
        {"L['y'].size()[0] == 4", true},
        {"L['y'].size()[1] == 1", true},
        {"L['y'].stride()[0] == 1", false},
        {"L['y'].stride()[0] == 2", true},
        {"L['x'].stride()[0] == 4", false},
        {"L['x'].storage_offset() == 0", false},
        {"L['x'].storage_offset() == 1", true},
        {"L['x'].storage_offset()==0", false},
        {"L['x'].stride()[0]==4", false},
        {"L['x'].size()[0]==3", false},
        {"L['n']==3", false},
        {"L['x'].size()[1] == L['x'].stride()[0]", false},
        {"L['x'].size()[-1] == 4", true},
        {"L['x'].size() == 4", true},
        {"L['x'].size()[0", true},
        {"L['flat_args'][1].size()[0] == 5", false},
        {"L['flat_args'][2] == 3", false},
        {"L['flat_args'][3] == True", false},
        {"L['flat_args'][7] == 3", true},
        {"L['flat_args'][7].size()[0] == 3", true},
        {"L['flat_args'][2] == 4", true},
        {"L['n']", false}, /* any number but 0 */
        {"1", false},
        {"0", true},
        {"L['flat_args'][].size()[0] == 3", true}, /* no number */
        {"L['x'].size()[+1] == 4", true},
        {"L['x'].size()[ 1] == 4", true},
        {"L['x'].size()[1 ] == 4", true},
        {"L['x'].size()[2] == 4", true},
        {"L['x'].size()[] == 3", true},
        {"L['x'].stride()[1] == 1", false},
        {"L['x'].stride()[2] == 1", true},
        {"L['x'].size() [0] == 3", true},
        {"L['x\\q'].size()[0] == 3", true}, /* not as repr() writes */
        {"L['x'.size()[0] == 3", true},
        {"XL['x'].size()[0] == 3", true},
        {"\xc3\x80L['x'].size()[0] == 3", true}, /* a letter too */
        {"3 == L['x'].size()[0] and L['n'] == 3", false},
        {"3 == L['x'].size()[0] and L['n'] == 4", true},
    };
    static exg_sym_float half = {.expr = "s77/2"};
    exg_program *program;

    (void)state;
    assert_int_equal(exg_open("tests/export/data/symbols.pt2", NULL, &program, NULL, NULL), EXG_OK);
    CHECK(program, rows);
    /* symbolic numbers as inputs */
    program->graph->inputs[2] = (exg_argument){
        .kind = EXG_ARGUMENT_SYM_INT,
        .as_sym = {.value = exg_graph_find_value(program->graph, "mul")}}; /* 2*s77 */
    assert_false(is_refused(program, "L['n'] == 6"));
    assert_false(is_refused(program, "L['n'] == 2*L['x'].size()[0]"));
    assert_true(is_refused(program, "L['n'] == 7"));
    program->graph->values[program->graph->inputs[2].as_sym.value].sym_int = NULL;
    program->graph->values[program->graph->inputs[2].as_sym.value].sym_float = &half;
    assert_false(is_refused(program, "L['n'] < 2"));
    assert_true(is_refused(program, "L['n'] > 2"));
    exg_program_destroy(program);
}

/* Each stands as one, whatever it is made of; dims have more than one digit. */
static void inputs_stand_as_one(void **state)
{
    static exg_sym_int sizes[12];
    static exg_tensor_meta wide = {.rank = 12, .sizes = sizes, .strides = sizes};
    static exg_sym_bool truth = {"s77 > 2"};
    static exg_sym_float half = {.expr = "s77/2 + 1"};
    exg_program *program;
    exg_value *values;
    exg_argument *inputs;

    (void)state;
    assert_int_equal(exg_open("tests/export/data/symbols.pt2", NULL, &program, NULL, NULL), EXG_OK);
    values = program->graph->values;
    inputs = program->graph->inputs;
    inputs[2] = (exg_argument){.kind = EXG_ARGUMENT_SYM_FLOAT,
                               .as_sym = {.value = exg_graph_find_value(program->graph, "mul")}};
    values[inputs[2].as_sym.value].sym_int = NULL;
    values[inputs[2].as_sym.value].sym_float = &half;
    assert_false(is_refused(program, "2*L['n'] == 5"));
    inputs[2] = exg_arg_int(-2);
    assert_false(is_refused(program, "L['n']**2 == 4"));
    inputs[4] = exg_arg_float(-1.5);
    assert_false(is_refused(program, "L['scale']**2 > 0"));
    inputs[3].as_bool = false;
    assert_false(is_refused(program, "L['flag'] == False"));
    assert_true(is_refused(program, "L['flag'] == True"));
    inputs[3] = (exg_argument){.kind = EXG_ARGUMENT_SYM_BOOL,
                               .as_sym = {.value = program->graph->value_count - 1}};
    values[program->graph->value_count - 1] = (exg_value){.name = "last", .sym_bool = &truth};
    assert_false(is_refused(program, "L['flag']"));
    assert_true(is_refused(program, "not L['flag']"));
    truth.expr = "s77 > 5 or s77 > 2";
    assert_true(is_refused(program, "not L['flag']"));
    for (int d = 0; d < 12; d++) {
        sizes[d].value = d + 20;
    }
    sizes[0].expr = "s77 + 1";
    values[inputs[1].as_tensor].tensor = &wide;
    assert_false(is_refused(program, "2*L['y'].size()[0] == 8"));
    assert_false(is_refused(program, "L['y'].size()[10] == 30"));
    assert_false(is_refused(program, "L['y'].stride()[11] == 31"));
    assert_true(is_refused(program, "L['y'].size()[12] == 32"));
    exg_program_destroy(program);
}

/* An input's place among all has more than one digit. */
static void many_inputs_are_counted(void **state)
{
    static const row rows[] = {
        {"L['flat_args'][9].size()[0] == 10", false}, {"L['flat_args'][10].size()[0] == 11", false},
        {"L['flat_args'][10].size()[0] == 12", true}, {"L['flat_args'][11].size()[0] == 12", false},
        {"L['flat_args'][12].size()[0] == 12", true}, {"L['flat_args'][a].size()[0] == 11", true},
    };
    exg_program *program;
    exg_builder *b;
    exg_ref x[12];
    exg_argument y;

    (void)state;
    assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &program, NULL), EXG_OK);
    assert_int_equal(exg_builder_create(operators, program, &b, NULL), EXG_OK);
    for (int i = 0; i < 12; i++) {
        exg_tensor_meta meta = exg_builder_meta(b, EXG_DTYPE_F32, (int64_t[]){i + 1}, 1);
        char name[8];

        snprintf(name, sizeof(name), "x%d", i);
        x[i] = exg_builder_input(b, name, &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    }
    y = exg_arg_ref(EMIT(b, add_Tensor, x[11], x[0]));
    exg_builder_output(b, &y, EXG_OUTPUT_USER, NULL);
    exg_builder_call(b);
    assert_int_equal(exg_builder_finish(b, NULL), EXG_OK);
    CHECK(program, rows);
    exg_program_destroy(program);
}

/* x is (2, 3), repeat 2, extra None, options {"bias": (3,), "mode": "plain"}. */
static void keys_are_steps(void **state)
{
    static const row rows[] = {
        {"L['options']['bias'].size()[0] == 3", false},
        {"L[\"options\"][\"bias\"].size()[0] == 3", false},
        {"L['options']['bias'].size()[0] == 2", true},
        {"L['options']['mode'] == 1", true},
        {"L['options']['none'].size()[0] == 3", true},
        {"L['options'][0].size()[0] == 3", true},
        {"L['options'].size()[0] == 3", true},
        {"L['bias'].size()[0] == 3", true},
        {"L['x']['bias'].size()[0] == 2", true},
        {"L['repeat'] == L['x'].size()[0]", false},
        {"L['flat_args'][3].size()[0] == 3", false},
    };
    exg_program *program;

    (void)state;
    assert_int_equal(exg_open("fixtures/constants.core.pt2", NULL, &program, NULL, NULL), EXG_OK);
    CHECK(program, rows);
    program->module_calls[0].forward_arg_names = NULL; /* placeholders' names tell as much */
    program->module_calls[0].forward_arg_name_count = 0;
    assert_false(is_refused(program, "L['x'].size()[0] == 2"));
    assert_true(is_refused(program, "L['x'].size()[0] == 3"));
    assert_false(is_refused(program, "L['options']['bias'].size()[0] == 3"));
    program->module_call_count = 0;
    assert_false(is_refused(program, "L['options']['bias'].size()[0] == 3"));
    exg_program_destroy(program);
}

#define LEAF "{\"type\": null, \"context\": null, \"children_spec\": []}"
#define NODE(type, context, children)                                                              \
    "{\"type\": \"" type "\", \"context\": " context ", \"children_spec\": [" children "]}"
#define CALL(arg)                                                                                  \
    "[1, " NODE(                                                                                   \
        "builtins.tuple", "\"null\"",                                                              \
        NODE("builtins.tuple", "\"null\"", arg) ", " NODE("builtins.dict", "\"[]\"", "")) "]"

/* mlp's x is (s, 8) or plain; its argument is put into a tree of each class that PyTorch knows. */
static void trees_have_steps_of_their_class(void **state)
{
    static const struct {
        const char *spec, *path;
    } rows[] = {
        {CALL(LEAF), "['x']"},
        {CALL(NODE("builtins.list", "\"null\"", LEAF)), "['x'][0]"},
        {CALL(NODE("builtins.tuple", "\"null\"", LEAF)), "['x'][0]"},
        {CALL(NODE("collections.deque", "\"null\"", LEAF)), "['x'][0]"},
        {CALL(NODE("builtins.dict", "\"[\\\"k\\\"]\"", LEAF)), "['x']['k']"},
        {CALL(NODE("builtins.dict", "\"[7]\"", LEAF)), "['x'][7]"},
        {CALL(NODE("builtins.dict", "\"[\\\"a\\\\n\\\\\\\\b\\\"]\"", LEAF)), "['x']['a\\n\\\\b']"},
        {CALL(NODE("builtins.dict", "\"[\\\"'\\\\\\\"\\\\r\\\\t\\\"]\"", LEAF)),
         "['x']['\\'\\\"\\r\\t']"},
        {CALL(NODE("collections.OrderedDict", "\"[\\\"k\\\"]\"", LEAF)), "['x']['k']"},
        {CALL(NODE("collections.defaultdict",
                   "\"{\\\"default_factory\\\": 1, \\\"dict_context\\\": [\\\"k\\\"]}\"", LEAF)),
         "['x']['k']"},
        {CALL(NODE("collections.namedtuple", "\"Pair\"", LEAF)), "['x'].first"},
        {CALL(NODE("a.Dataclass", "\"[[\\\"f\\\"], []]\"", LEAF)), "['x'].f"},
        {CALL(NODE("a.Dataclass", "\"[[\\\"\xc4\x80\\\"], []]\"", LEAF)), "['x'].\xc4\x80"},
        {CALL(NODE("builtins.list", "\"null\"", NODE("builtins.dict", "\"[\\\"k\\\"]\"", LEAF))),
         "['x'][0]['k']"},
    };
    static const char *fields[] = {"first"};
    static const char *others[] = {"second"};
    exg_named_tuple tuples[] = {{"Other", others, 1}, {"Pair", fields, 1}};
    static const char *names[] = {"x"};

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        exg_program *program;

        assert_int_equal(exg_open("fixtures/mlp.pt2", NULL, &program, NULL, NULL), EXG_OK);
        program->module_calls[0].in_spec = rows[r].spec;
        program->module_calls[0].forward_arg_names = names;
        program->module_calls[0].forward_arg_name_count = 1;
        program->named_tuples = tuples;
        program->named_tuple_count = 2;
        for (size_t other = 0; other < sizeof(rows) / sizeof(rows[0]); other++) {
            char guard[100];
            bool same = strcmp(rows[r].path, rows[other].path) == 0;

            snprintf(guard, sizeof(guard), "L%s.size()[1] == 8", rows[other].path);
            if (is_refused(program, guard) == same) {
                fail_msg("%s of %s", guard, rows[r].spec);
            }
        }
        if (strstr(rows[r].spec, "namedtuple") != NULL) { /* whichever it is of those recorded */
            program->named_tuples = &tuples[1];
            program->named_tuple_count = 1;
            assert_false(is_refused(program, "L['x'].first.size()[1] == 8"));
        }
        program->named_tuples = NULL; /* of no recorded fields */
        program->named_tuple_count = 0;
        if (strstr(rows[r].spec, "namedtuple") != NULL) {
            assert_true(is_refused(program, "L['x'].first.size()[1] == 8"));
        }
        exg_program_destroy(program);
    }
}

/* x, repeat, extra, options_bias and options_mode in one list. */
static void items_are_counted(void **state)
{
    static const char *names[] = {"a"};
    static const row rows[] = {
        {"L['a'][0].size()[0] == 2", false},
        {"L['a'][1] == 2", false},
        {"L['a'][1] == 3", true},
        {"L['a'][2] == 0", true},
        {"L['a'][3].size()[0] == 3", false},
        {"L['a'][4].size()[0] == 3", true},
        {"L['a'][5].size()[0] == 2", true},
    };
    exg_program *program;

    (void)state;
    assert_int_equal(exg_open("fixtures/constants.core.pt2", NULL, &program, NULL, NULL), EXG_OK);
    program->module_calls[0].in_spec =
        CALL(NODE("builtins.list", "\"null\"", LEAF ", " LEAF ", " LEAF ", " LEAF ", " LEAF));
    program->module_calls[0].forward_arg_names = names;
    program->module_calls[0].forward_arg_name_count = 1;
    CHECK(program, rows);
    exg_program_destroy(program);
}

/* Sizes that hold at export alone are found, unless a guard admits no others, whichever it is. */
static void every_guard_is_asked(void **state)
{
    static const struct {
        const char *guards[2];
        bool found;
    } rows[] = {
        {{"L['x'].size()[0] >= 2", "L['x'].size()[0] >= 1"}, true},
        {{"L['x'].size()[0] == 3", "L['x'].size()[0] >= 1"}, false},
        {{"L['x'].size()[0] >= 1", "L['x'].size()[0] == 3"}, false},
    };

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        const char *guards[2] = {rows[r].guards[0], rows[r].guards[1]};
        exg_program *program;
        exg_verified verified;
        exg_diagnostics found;
        bool is_found = false;

        assert_int_equal(exg_open("fixtures/bad/SYM-006.pt2", NULL, &program, NULL, NULL), EXG_OK);
        program->guards_code = guards;
        program->guard_count = 2;
        exg_ignore(exg_verify(program, operators, &verified, &found, NULL));
        for (uint32_t i = 0; i < found.count; i++) {
            is_found = is_found || strcmp(found.items[i].code, "SYM-006") == 0;
        }
        assert_int_equal(is_found, rows[r].found);
        exg_diagnostics_free(&found);
        exg_program_destroy(program);
    }
}

/* Nor where a range admits no others; of ranges too each is asked. */
static void every_range_is_asked(void **state)
{
    exg_range_constraint ranges[2] = {{.symbol = "s9", .has_max = true, .max_val = 100},
                                      {.symbol = "s77", .has_max = true, .max_val = 3}};
    exg_program *program;

    (void)state;
    assert_int_equal(exg_open("fixtures/bad/SYM-006.pt2", NULL, &program, NULL, NULL), EXG_OK);
    program->guard_count = 0;
    program->range_constraints = ranges;
    program->range_constraint_count = 2;
    for (int64_t most = 3; most < 9; most++) {
        exg_verified verified;
        exg_diagnostics found;
        bool is_found = false;

        ranges[1].max_val = most;
        exg_ignore(exg_verify(program, operators, &verified, &found, NULL));
        for (uint32_t i = 0; i < found.count; i++) {
            is_found = is_found || strcmp(found.items[i].code, "SYM-006") == 0;
        }
        assert_int_equal(is_found, most > 3); /* 3 at export, 4 is the first other */
        exg_diagnostics_free(&found);
    }
    exg_program_destroy(program);
}

static int begin(void **state)
{
    (void)state;
    return exg_operators_create(&operators, NULL) == EXG_OK ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    exg_operators_destroy(operators);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_stand_for_inputs),
        cmocka_unit_test(inputs_stand_as_one),
        cmocka_unit_test(many_inputs_are_counted),
        cmocka_unit_test(keys_are_steps),
        cmocka_unit_test(trees_have_steps_of_their_class),
        cmocka_unit_test(items_are_counted),
        cmocka_unit_test(every_guard_is_asked),
        cmocka_unit_test(every_range_is_asked),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
