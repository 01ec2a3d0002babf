/* program.c - copies are equal, differences are named, prints are PyTorch's. */
#include <exg/formats.h>
#include <exg/signature.h>

#include "libexport/program/print.h"
#include "libexport/program/python.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const char *const archives[] = {"fixtures/mlp.pt2",
                                       "fixtures/views.pt2",
                                       "fixtures/constants.core.pt2",
                                       "fixtures/mutate.core.pt2",
                                       "fixtures/integer.pt2",
                                       "fixtures/lm.core.dynamic.pt2",
                                       "tests/export/data/control.pt2",
                                       "tests/export/data/symbols.pt2",
                                       "tests/export/data/kinds.pt2",
                                       "tests/export/data/protocol4.pt2"};
#define ARCHIVES (sizeof(archives) / sizeof(archives[0]))

static exg_program *open_file(const char *path)
{
    exg_program *program = NULL;
    exg_error err;

    if (exg_open(path, NULL, &program, NULL, &err) != EXG_OK) {
        fail_msg("%s: %s", path, err.message);
    }
    return program;
}

static char *read_text(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = calloc(1, 1 << 20);

    if (f == NULL) {
        fail_msg("%s is missing", path);
    }
    assert_true(fread(text, 1, (1 << 20) - 1, f) > 0);
    fclose(f);
    return text;
}

static void it_prints_programs_as_pytorch_does(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARCHIVES; i++) {
        const char *name = strrchr(archives[i], '/') + 1;
        exg_program *program = open_file(archives[i]);
        char path[256];
        char *expected;
        char *text = NULL;
        size_t at = 0;

        snprintf(path, sizeof(path), "tests/export/data/%.*s.txt", (int)strlen(name) - 4, name);
        expected = read_text(path);
        assert_int_equal(exg_program_print(program, &text, NULL), EXG_OK);
        while (text[at] != '\0' && text[at] == expected[at]) {
            at++;
        }
        if (text[at] != expected[at]) {
            fail_msg("%s parts at %zu: ours \"%.40s\", theirs \"%.40s\"", name, at, text + at,
                     expected + at);
        }
        free(text);
        free(expected);
        exg_program_destroy(program);
    }
}

static void it_prints_expressions_as_sympy_does(void **state)
{
#define A "Symbol('s77', positive=True, integer=True)"
#define B "Symbol('s27', positive=True, integer=True)"
    static const struct {
        const char *expr;
        const char *expected;
    } rows[] = {
        {A, "s77"},
        {"Integer(-3)", "-3"},
        {"Add(Mul(Integer(-1), " B "), " A ")", "-s27 + s77"},
        {"Mul(Integer(-1), " A ")", "-s77"},
        {"Mul(" B ", " A ")", "s27*s77"},
        {"Mul(Integer(3), Pow(" A ", Integer(2)))", "3*s77**2"},
        {"FloorDiv(Add(Mul(Integer(2), " A "), Integer(1)), Integer(3))", "((2*s77 + 1)//3)"},
        {"Mul(Integer(4), FloorDiv(" A ", Integer(2)))", "4*((s77//2))"},
        {"Mod(" A ", Integer(3))", "Mod(s77, 3)"},
        {"Mul(Rational(1, 2), " A ")", "s77/2"},
        {"Mul(Pow(" B ", Integer(-1)), " A ")", "s77/s27"},
        {"Equality(" A ", Integer(3))", "Eq(s77, 3)"},
        {"Unequality(" A ", " B ")", "Ne(s77, s27)"},
        {"Mul(" B ", Add(" A ", Integer(1)))", "s27*(s77 + 1)"},
        {"Add(Mul(Integer(-1), " A "), Integer(-1))", "-s77 - 1"},
        {"Piecewise(ExprCondPair(" A ", StrictGreaterThan(" A ", Integer(3))), ExprCondPair(" B
         ", true))",
         "Piecewise((s77, s77 > 3), (s27, True))"},
        {"Mul(Float('1.5', precision=53), ToFloat(" A "))", "1.5*ToFloat(s77)"},
        {"And(StrictGreaterThan(" A ", Integer(3)), StrictLessThan(" B ", Integer(4)))",
         "(s77 > 3) & (s27 < 4)"},
        {"Add(Mul(Integer(-1), Integer(2), " B "), " A ")", "-2*s27 + s77"},
        {"Add(FloorDiv(Add(" A ", Integer(-1)), Integer(2)), Integer(1))", "(((s77 - 1)//2)) + 1"},
        {"2*s0 + 1", "2*s0 + 1"}, /* infix stays */
        {"Add(Symbol('s0'", "Add(Symbol('s0'"},
        {"", ""},
    };

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        exg_text out = EXG_TEXT_EMPTY;

        exg_print_expression(&out, rows[r].expr);
        assert_string_equal(exg_text_string(&out), rows[r].expected);
        exg_text_free(&out);
    }
}

static void it_copies_programs_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARCHIVES; i++) {
        exg_program *program = open_file(archives[i]);
        exg_program *copy = NULL;
        char difference[256];
        char *a = NULL;
        char *b = NULL;

        assert_int_equal(exg_program_print(program, &a, NULL), EXG_OK);
        assert_int_equal(exg_program_copy(program, &copy, NULL), EXG_OK);
        if (!exg_program_equal(program, copy, true, difference)) {
            fail_msg("%s: %s", archives[i], difference);
        }
        exg_program_destroy(program); /* the copy stands alone */
        assert_int_equal(exg_program_print(copy, &b, NULL), EXG_OK);
        assert_string_equal(a, b);
        free(a);
        free(b);
        exg_program_destroy(copy);
    }
}

static void it_names_the_first_difference(void **state)
{
    exg_program *a = open_file("fixtures/mlp.pt2");
    exg_program *b = NULL;
    char difference[256];

    (void)state;
    assert_int_equal(exg_program_copy(a, &b, NULL), EXG_OK);
    b->graph->nodes[1].target = "torch.ops.aten.gelu.default";
    assert_false(exg_program_equal(a, b, false, difference));
    assert_string_equal(difference, "graph.nodes[1]: target is 'torch.ops.aten.relu.default' and "
                                    "'torch.ops.aten.gelu.default'");
    exg_program_destroy(b);
    exg_program_destroy(a);
}

/* Everything a file says counts; each row changes one thing of a copy. */
static void it_sees_every_change(void **state)
{
    enum {
        NAME,
        ORIGIN,
        MAJOR,
        MINOR,
        VERSION,
        SAMPLES,
        SAMPLE_KIND,
        SAMPLE_META,
        KEYWORD,
        EXTRAS,
        EXTRA_NAME,
        IMPLICIT,
        METADATA,
        OPSET,
        GUARDS,
        COUNT
    };

    (void)state;
    for (int change = 0; change < COUNT; change++) {
        exg_program *a = open_file("fixtures/mlp.pt2");
        exg_program *b = NULL;
        char difference[256] = "";

        assert_int_equal(exg_program_copy(a, &b, NULL), EXG_OK);
        assert_true(exg_program_equal(a, b, true, difference));
        assert_true(b->sample_input_count > 0 && b->extra_file_count > 0 && b->opset_count > 0);
        b->name = change == NAME ? "other" : b->name;
        b->origin = change == ORIGIN ? EXG_ORIGIN_EARLY : b->origin;
        b->schema_major += change == MAJOR;
        b->schema_minor += change == MINOR;
        b->torch_version = change == VERSION ? NULL : b->torch_version;
        b->sample_input_count -= change == SAMPLES;
        b->sample_inputs[0].kind =
            change == SAMPLE_KIND ? EXG_ARGUMENT_NONE : b->sample_inputs[0].kind;
        b->sample_inputs[0].meta->requires_grad ^= change == SAMPLE_META;
        b->sample_inputs[0].keyword = change == KEYWORD ? "" : b->sample_inputs[0].keyword;
        b->extra_file_count -= change == EXTRAS;
        b->extra_files[0].name = change == EXTRA_NAME ? "" : b->extra_files[0].name;
        b->signature.inputs[0].implicit ^= change == IMPLICIT;
        b->metadata.items =
            change == METADATA ? (exg_string_pair[]){{"a", "b"}} : b->metadata.items;
        b->metadata.count += change == METADATA;
        b->opsets[0].version += change == OPSET;
        b->guards_code = change == GUARDS ? (const char *[]){"True"} : b->guards_code;
        b->guard_count += change == GUARDS;
        if (exg_program_equal(a, b, true, difference) || difference[0] == '\0') {
            fail_msg("change %d is not seen", change);
        }
        exg_program_destroy(b);
        exg_program_destroy(a);
    }
}

static void count_value(void *user, exg_value_id *id)
{
    *(uint64_t *)user += *id + 1;
}

static void it_visits_every_value_of_an_argument(void **state)
{
    exg_value_id ids[] = {1, EXG_NO_VALUE, 3};
    exg_value_list lists[] = {{ids, 1}, {ids + 2, 1}};
    exg_sym_argument syms[] = {{.value = 5}, {.value = EXG_NO_VALUE, .as_int = 7}};
    exg_string_argument inner[] = {{"k", {.kind = EXG_ARGUMENT_TENSOR, .as_tensor = 9}}};
    exg_argument rows[] = {
        {.kind = EXG_ARGUMENT_OPTIONAL_TENSORS, .count = 3, .as_tensors = ids},
        {.kind = EXG_ARGUMENT_NESTED_TENSORS, .count = 2, .as_nested_tensors = lists},
        {.kind = EXG_ARGUMENT_SYM_INTS, .count = 2, .as_syms = syms},
        {.kind = EXG_ARGUMENT_STRING_TO_ARGUMENT, .count = 1, .as_string_to_argument = inner},
        {.kind = EXG_ARGUMENT_OPTIONAL_TENSOR, .as_tensor = EXG_NO_VALUE},
        {.kind = EXG_ARGUMENT_INT, .as_int = 4},
    };
    static const uint64_t sums[] = {6, 6, 6, 10, 0, 0};

    (void)state;
    for (int r = 0; r < 6; r++) {
        uint64_t sum = 0;

        exg_argument_visit_values(&rows[r], count_value, &sum);
        assert_int_equal(sum, sums[r]);
    }
}

static void it_has_a_row_for_every_dtype(void **state)
{
    (void)state;
    for (int i = EXG_DTYPE_UNKNOWN + 1; i < EXG_DTYPE_COUNT; i++) {
        exg_dtype d = (exg_dtype)i;

        assert_int_equal(exg_dtype_from_name(exg_dtype_name(d)), d);
        assert_int_equal(exg_dtype_from_export_number(exg_dtype_export_number(d)), d);
        assert_true(exg_dtype_bytes(d) > 0 && strchr("BUIFC", exg_dtype_class(d)) != NULL);
        if (exg_dtype_safetensors(d)[0] != '\0') {
            assert_int_equal(exg_dtype_from_safetensors(exg_dtype_safetensors(d)), d);
        }
        if (exg_dtype_numpy(d)[0] != '\0') {
            assert_int_equal(exg_dtype_from_numpy(exg_dtype_numpy(d)), d);
        }
    }
    assert_int_equal(exg_dtype_from_export_number(0), EXG_DTYPE_COUNT);
    assert_int_equal(exg_dtype_from_safetensors(""), EXG_DTYPE_COUNT);
    assert_string_equal(exg_dtype_short_name(EXG_DTYPE_F8E4M3FN), "f8e4m3fn");
    assert_string_equal(exg_dtype_name(EXG_DTYPE_COUNT), "?");
}

/* Every code of one byte is the nearest to its own value, in either direction. */
static void it_reads_elements_that_it_stored(void **state)
{
    static const struct {
        exg_dtype dtype;
        uint8_t code;
        double value;
    } known[] = {{EXG_DTYPE_F8E4M3FN, 0x7e, 448},      {EXG_DTYPE_F8E5M2, 0x7b, 57344},
                 {EXG_DTYPE_F8E4M3FNUZ, 0x7f, 240},    {EXG_DTYPE_F8E4M3FNUZ, 0x01, 0x1p-10},
                 {EXG_DTYPE_F8E5M2FNUZ, 0x7f, 57344},  {EXG_DTYPE_F8E5M2FNUZ, 0x81, -0x1p-17},
                 {EXG_DTYPE_F8E8M0FNU, 0xfe, 0x1p127}, {EXG_DTYPE_F8E8M0FNU, 0x00, 0x1p-127},
                 {EXG_DTYPE_I8, 0x80, -128},           {EXG_DTYPE_U8, 0x80, 128}};

    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        assert_true(exg_element_value(known[i].dtype, &known[i].code) == known[i].value);
    }
    for (int d = EXG_DTYPE_UNKNOWN + 1; d < EXG_DTYPE_COUNT; d++) {
        for (int code = 0; code < 256 && exg_dtype_bytes((exg_dtype)d) == 1; code++) {
            uint8_t byte = (uint8_t)code, again = 0;
            double value = exg_element_value((exg_dtype)d, &byte);

            if (value == value && (d != EXG_DTYPE_B8 || code < 2)) { /* NaN has several */
                exg_element_store((exg_dtype)d, &again, value);
                assert_int_equal(again, byte);
            }
        }
    }
}

static void renames_that_cannot_be_are_refused(void **state)
{
    exg_program *program = open_file("fixtures/mlp.pt2");
    exg_error err;

    (void)state;
    assert_int_equal(exg_program_rename_value(program, "nothing", "y", &err), EXG_USAGE);
    assert_string_equal(err.code, "BLD-002");
    assert_string_equal(err.message, "the graph has no value called 'nothing'");
    assert_int_equal(exg_program_rename_value(program, "relu", "linear", &err), EXG_USAGE);
    assert_string_equal(err.code, "BLD-002");
    assert_string_equal(err.message, "'relu' cannot be called 'linear': another value is");
    assert_int_equal(exg_program_rename_value(program, "relu", "relu", &err), EXG_OK);
    for (int i = 0; i < 2; i++) { /* one past the last value, in either place */
        uint32_t past = program->graph->value_count;

        assert_int_equal(exg_program_replace_uses(program, i ? 0 : past, i ? past : 0, &err),
                         EXG_USAGE);
        assert_string_equal(err.code, "BLD-002");
    }
    exg_program_destroy(program);
}

/* A branch is an attribute of the module beside values and weights, and those that all have. */
static void branches_are_called_as_python_can(void **state)
{
    static const struct {
        const char *name;
        bool suits;
    } rows[] = {
        {"branch", true}, {"x", false},       {"sum_1", false},    {"lifted_tensor_0", false},
        {"", false},      {"1st", false},     {"a.b", false},      {"class", false},
        {"_x", true},     {"forward", false}, {"training", false}, {"lifted_tensor", true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_program *program = open_file("tests/export/data/control.pt2");
        exg_graph_argument *branch = program->graph->nodes[2].inputs[2].arg.as_graph;
        bool suits;

        branch->name = rows[i].name;
        assert_int_equal(exg_program_suits_python(program, &suits, NULL), EXG_OK);
        if (suits != rows[i].suits) {
            fail_msg("a branch called '%s'", branch->name);
        }
        assert_int_equal(exg_program_suit_python(program, NULL), EXG_OK);
        assert_int_equal(strcmp(branch->name, rows[i].name) == 0, rows[i].suits);
        assert_int_equal(exg_program_suits_python(program, &suits, NULL), EXG_OK);
        assert_true(suits);
        exg_program_destroy(program);
    }
}

/* The values of a branch too, of the first and the second. */
static void values_of_branches_are_called_as_python_can(void **state)
{
    (void)state;
    for (uint32_t i = 1; i < 3; i++) {
        exg_program *program = open_file("tests/export/data/control.pt2");
        exg_graph *graph = program->graph->nodes[2].inputs[i].arg.as_graph->graph;
        bool suits;

        assert_int_equal(exg_program_suits_python(program, &suits, NULL), EXG_OK);
        assert_true(suits);
        graph->values[0].name = "a.b";
        assert_int_equal(exg_program_suits_python(program, &suits, NULL), EXG_OK);
        assert_false(suits);
        assert_int_equal(exg_program_suit_python(program, NULL), EXG_OK);
        assert_string_not_equal(graph->values[0].name, "a.b");
        assert_int_equal(exg_program_suits_python(program, &suits, NULL), EXG_OK);
        assert_true(suits);
        exg_program_destroy(program);
    }
}

/* Each symbol has one range: one that is given stays, one that is not is added once. */
static void symbols_have_one_range_each(void **state)
{
    exg_program *program = open_file("tests/export/data/symbols.pt2");
    uint32_t count = program->range_constraint_count;
    exg_range_constraint *given = calloc(count, sizeof(*given));

    (void)state;
    assert_true(count > 0);
    memcpy(given, program->range_constraints, count * sizeof(*given));
    assert_int_equal(exg_program_suit_python(program, NULL), EXG_OK);
    assert_int_equal(program->range_constraint_count, count);
    for (uint32_t i = 0; i < count; i++) {
        const exg_range_constraint *r = &program->range_constraints[i];

        assert_string_equal(r->symbol, given[i].symbol);
        assert_true(r->has_min == given[i].has_min && r->has_max == given[i].has_max);
        assert_int_equal(r->min_val, given[i].min_val);
        assert_int_equal(r->max_val, given[i].max_val);
    }
    program->range_constraint_count--; /* the last is not given: it is made again, of a size */
    assert_int_equal(exg_program_suit_python(program, NULL), EXG_OK);
    assert_int_equal(program->range_constraint_count, count);
    assert_string_equal(program->range_constraints[count - 1].symbol, given[count - 1].symbol);
    assert_true(program->range_constraints[count - 1].has_min);
    assert_int_equal(program->range_constraints[count - 1].min_val, 0);
    assert_false(program->range_constraints[count - 1].has_max);
    free(given);
    exg_program_destroy(program);
}

/* Of a symbol that stands in a branch alone too: as a size, in strides, as a number. */
static void symbols_of_branches_have_ranges(void **state)
{
    exg_sym_int number = {"u7", 1, true};

    (void)state;
    for (int k = 0; k < 8; k++) {
        exg_program *program = open_file("tests/export/data/control.pt2");
        exg_graph *graph = program->graph->nodes[2].inputs[1 + k % 2].arg.as_graph->graph;
        exg_value *value = &graph->values[graph->value_count - 1];
        exg_sym_int *sizes[3] = {&value->tensor->sizes[0], &value->tensor->strides[0],
                                 &value->tensor->storage_offset};
        const exg_range_constraint *range;
        uint32_t count = program->range_constraint_count;

        if (k < 6) {
            *sizes[k / 2] = (exg_sym_int){"s99", 1, true};
        } else {
            value->sym_int = &number;
        }
        assert_int_equal(exg_program_suit_python(program, NULL), EXG_OK);
        assert_int_equal(program->range_constraint_count, count + 1);
        range = &program->range_constraints[count];
        assert_string_equal(range->symbol, k < 6 ? "s99" : "u7");
        assert_int_equal(range->has_min, k < 6); /* a size is not negative */
        assert_int_equal(range->min_val, 0);
        assert_false(range->has_max);
        exg_program_destroy(program);
    }
}

/* Whichever value it is. */
static void a_branch_is_called_as_no_value(void **state)
{
    exg_program *program = open_file("tests/export/data/control.pt2");
    exg_graph_argument *branch = program->graph->nodes[2].inputs[2].arg.as_graph;

    (void)state;
    for (uint32_t i = 0; i < program->graph->value_count; i++) {
        bool suits;

        branch->name = program->graph->values[i].name;
        assert_int_equal(exg_program_suits_python(program, &suits, NULL), EXG_OK);
        assert_false(suits);
    }
    exg_program_destroy(program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(renames_that_cannot_be_are_refused),
        cmocka_unit_test(branches_are_called_as_python_can),
        cmocka_unit_test(a_branch_is_called_as_no_value),
        cmocka_unit_test(values_of_branches_are_called_as_python_can),
        cmocka_unit_test(symbols_have_one_range_each),
        cmocka_unit_test(symbols_of_branches_have_ranges),
        cmocka_unit_test(it_prints_programs_as_pytorch_does),
        cmocka_unit_test(it_prints_expressions_as_sympy_does),
        cmocka_unit_test(it_copies_programs_whole),
        cmocka_unit_test(it_names_the_first_difference),
        cmocka_unit_test(it_sees_every_change),
        cmocka_unit_test(it_visits_every_value_of_an_argument),
        cmocka_unit_test(it_has_a_row_for_every_dtype),
        cmocka_unit_test(it_reads_elements_that_it_stored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
