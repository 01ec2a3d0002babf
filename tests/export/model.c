/* model.c - small parts of the model: metas, elements as numbers, names that Python takes, how a
 * program is called. */
#include "libexport/base/arena.h"
#include "libexport/base/element.h"
#include "libexport/program/python.h"
#include "libexport/program/uses.h"

#include <exg/export.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static exg_tensor_meta meta_of(exg_sym_int *sizes, exg_sym_int *strides, uint32_t rank)
{
    return (exg_tensor_meta){.dtype = EXG_DTYPE_F32,
                             .layout = EXG_LAYOUT_STRIDED,
                             .rank = rank,
                             .sizes = sizes,
                             .strides = strides,
                             .device = {"cpu", -1}};
}

static void it_counts_elements(void **state)
{
    static const struct {
        int64_t sizes[3];
        const char *expr; /* of the last size */
        uint32_t rank;
        bool counted;
        int64_t numel;
    } rows[] = {
        {{0}, NULL, 0, true, 1},
        {{2, 3, 4}, NULL, 3, true, 24},
        {{2, 0, 4}, NULL, 3, true, 0},
        {{2, -1, 4}, NULL, 3, false, 0},
        {{2, 3, 4}, "s0", 3, false, 0},
        {{INT64_MAX, 2, 1}, NULL, 3, false, 0},
        {{INT64_MAX, 2, 0}, NULL, 3, true, 0},
        {{INT64_MAX, 1, 1}, NULL, 3, true, INT64_MAX},
    };

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        exg_sym_int sizes[3] = {{NULL, rows[r].sizes[0], false},
                                {NULL, rows[r].sizes[1], false},
                                {rows[r].expr, rows[r].sizes[2], false}};
        exg_tensor_meta meta = meta_of(sizes, sizes, rows[r].rank);
        int64_t numel = 99;

        assert_int_equal(exg_tensor_meta_numel(&meta, &numel), rows[r].counted);
        assert_int_equal(numel, rows[r].counted ? rows[r].numel : 99);
    }
}

/* One thing after the other is changed: the metas are equal no more, nor static where it is a
 * symbol. */
static void it_compares_metas(void **state)
{
    (void)state;
    for (int change = 0; change < 15; change++) {
        exg_sym_int sizes[2] = {{NULL, 2, false}, {NULL, 3, false}};
        exg_sym_int strides[2] = {{NULL, 3, false}, {NULL, 1, false}};
        exg_sym_int other_sizes[2] = {sizes[0], sizes[1]};
        exg_sym_int other_strides[2] = {strides[0], strides[1]};
        exg_tensor_meta a = meta_of(sizes, strides, 2);
        exg_tensor_meta b = meta_of(other_sizes, other_strides, 2);
        bool symbolic = false;

        switch (change) {
        case 1:
            b.dtype = EXG_DTYPE_F64;
            break;
        case 2:
            b.layout = EXG_LAYOUT_UNKNOWN;
            break;
        case 3:
            b.rank = 1;
            break;
        case 4:
            b.requires_grad = true;
            break;
        case 5:
            b.device.index = 0;
            break;
        case 6:
            b.device.type = "cuda";
            break;
        case 7:
            b.device.type = NULL;
            break;
        case 8:
            b.storage_offset.value = 1;
            break;
        case 9:
            b.storage_offset.expr = "s0", symbolic = true;
            break;
        case 10:
            other_sizes[1].value = 4;
            break;
        case 11:
            other_sizes[1].expr = "s0", symbolic = true;
            break;
        case 12:
            other_sizes[0].has_hint = true;
            break;
        case 13:
            other_strides[1].value = 2;
            break;
        case 14:
            other_strides[0].expr = "s0", symbolic = true;
            break;
        default:
            break;
        }
        assert_int_equal(exg_tensor_meta_equal(&a, &b), change == 0);
        assert_int_equal(exg_tensor_meta_equal(&b, &a), change == 0);
        assert_int_equal(exg_tensor_meta_is_static(&b), !symbolic);
    }
}

/* What a planner may count with: no negative size or stride, nothing that passes 64 bits. */
static void it_tells_what_can_be_counted(void **state)
{
    static const struct {
        int64_t sizes[2], strides[2], offset;
        bool countable;
    } rows[] = {
        {{2, 3}, {3, 1}, 0, true},
        {{2, 3}, {3, 1}, -1, false},
        {{2, -3}, {3, 1}, 0, false},
        {{2, 3}, {-3, 1}, 0, false},
        {{2, 0}, {3, 1}, 0, true},
        {{INT64_MAX / 2, 4}, {4, 1}, 0, false},
        {{2, 3}, {INT64_MAX / 2, 1}, 0, false},
        {{2, 3}, {INT64_MAX / 100, 1}, 0, true},
        {{1, 1}, {1, 1}, INT64_MAX / 16, false},
        {{1, 1}, {1, 1}, INT64_MAX / 16 - 1, true},
        {{0, 0}, {INT64_MAX / 17, 1}, 0, true},
    };

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        exg_sym_int sizes[2] = {{NULL, rows[r].sizes[0], false}, {NULL, rows[r].sizes[1], false}};
        exg_sym_int strides[2] = {{NULL, rows[r].strides[0], false},
                                  {NULL, rows[r].strides[1], false}};
        exg_tensor_meta meta = meta_of(sizes, strides, 2);

        meta.storage_offset.value = rows[r].offset;
        if (exg_meta_is_countable(&meta) != rows[r].countable) {
            fail_msg("row %zu", r);
        }
    }
}

static void it_reads_elements_of_every_dtype(void **state)
{
    static const struct {
        exg_dtype dtype;
        uint8_t bytes[8];
        double value;
    } rows[] = {
        {EXG_DTYPE_U8, {200}, 200},
        {EXG_DTYPE_I8, {200}, -56},
        {EXG_DTYPE_B8, {1}, 1},
        {EXG_DTYPE_I16, {0xfe, 0xff}, -2},
        {EXG_DTYPE_U16, {0xfe, 0xff}, 65534},
        {EXG_DTYPE_I32, {0xfe, 0xff, 0xff, 0xff}, -2},
        {EXG_DTYPE_U32, {0xfe, 0xff, 0xff, 0xff}, 4294967294},
        {EXG_DTYPE_I64, {0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, -2},
        {EXG_DTYPE_U64, {0, 0, 0, 0, 0, 0, 0, 0x80}, 0x1p63},
        {EXG_DTYPE_F32, {0, 0, 0xc0, 0x3f}, 1.5},
        {EXG_DTYPE_F64, {0, 0, 0, 0, 0, 0, 0xf8, 0x3f}, 1.5},
        {EXG_DTYPE_C64, {0, 0, 0xc0, 0x3f}, 1.5},
        {EXG_DTYPE_C128, {0, 0, 0, 0, 0, 0, 0xf8, 0x3f}, 1.5},
        {EXG_DTYPE_F16, {0x00, 0x3e}, 1.5},
        {EXG_DTYPE_F16, {0xff, 0x7b}, 65504},
        {EXG_DTYPE_F16, {0x01, 0x00}, 0x1p-24},
        {EXG_DTYPE_C32, {0x00, 0x3e}, 1.5},
        {EXG_DTYPE_BF16, {0x10, 0xc0}, -2.25},
        {EXG_DTYPE_F8E4M3FN, {0x3e}, 1.75},
        {EXG_DTYPE_F8E4M3FN, {0x7e}, 448},
        {EXG_DTYPE_F8E5M2, {0xc3}, -3.5},
        {EXG_DTYPE_F8E8M0FNU, {200}, 0x1p73},
    };

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        if (exg_element_value(rows[r].dtype, rows[r].bytes) != rows[r].value) {
            fail_msg("row %zu: %g", r, exg_element_value(rows[r].dtype, rows[r].bytes));
        }
    }
    assert_true(isnan(exg_element_value(EXG_DTYPE_F8E8M0FNU, (const uint8_t[]){255})));
}

static void it_knows_identifiers(void **state)
{
    static const char *const good[] = {"", "a", "Z", "_", "_1", "a_b9", "az_AZ09"};
    static const char *const bad[] = {"1", "9a", "a.b", "a b", "-",       "a-",
                                      "{", "[",  "`",   "@",   "\xc3\xa9"};

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(exg_is_identifier(good[i]));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(exg_is_identifier(bad[i]));
    }
}

#define LEAF     "{\"type\": null, \"context\": null, \"children_spec\": []}"
#define TUPLE(x) "{\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [" x "]}"
#define NO_KEYS  "{\"type\": \"builtins.dict\", \"context\": \"[]\", \"children_spec\": []}"
#define CALL(x)  "[1, " TUPLE(TUPLE(x) ", " NO_KEYS) "]"

/* Of as many user inputs and outputs; trees by treespec_dumps() of PyTorch's pytree. */
static void it_says_how_a_program_is_called(void **state)
{
    static const struct {
        uint32_t inputs, outputs;
        const char *in_spec, *out_spec;
    } rows[] = {
        {0, 0, CALL(""), "[1, " TUPLE("") "]"},
        {1, 1, CALL(LEAF), "[1, " LEAF "]"},
        {2, 2, CALL(LEAF ", " LEAF), "[1, " TUPLE(LEAF ", " LEAF) "]"},
    };

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        exg_input_spec inputs[3] = {{.kind = EXG_INPUT_PARAMETER, .arg = {.name = "p"}},
                                    {.kind = EXG_INPUT_USER, .arg = {.name = "x"}},
                                    {.kind = EXG_INPUT_USER, .arg = {.name = "y"}}};
        exg_output_spec outputs[3] = {{.kind = EXG_OUTPUT_BUFFER_MUTATION},
                                      {.kind = EXG_OUTPUT_USER},
                                      {.kind = EXG_OUTPUT_USER}};
        exg_program *program = NULL;

        assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &program, NULL), EXG_OK);
        assert_string_equal(program->name, "model"); /* as torch.export.load asks for it */
        assert_int_equal(program->schema_major, 8);
        assert_int_equal(program->schema_minor, 20);
        program->signature =
            (exg_signature){inputs, outputs, 1 + rows[r].inputs, 1 + rows[r].outputs};
        assert_int_equal(exg_program_make_call(program, NULL), EXG_OK);
        assert_int_equal(program->module_call_count, 1);
        assert_string_equal(program->module_calls[0].fqn, "");
        assert_true(program->module_calls[0].has_signature);
        assert_string_equal(program->module_calls[0].in_spec, rows[r].in_spec);
        assert_string_equal(program->module_calls[0].out_spec, rows[r].out_spec);
        assert_int_equal(program->module_calls[0].forward_arg_name_count, rows[r].inputs);
        for (uint32_t i = 0; i < rows[r].inputs; i++) {
            assert_string_equal(program->module_calls[0].forward_arg_names[i], i == 0 ? "x" : "y");
        }
        exg_program_destroy(program);
    }
}

static bool suits_python(const exg_program *p)
{
    bool suits = false;

    assert_int_equal(exg_program_suits_python(p, &suits, NULL), EXG_OK);
    return suits;
}

/* Names get letters that Python takes, and none that is taken; what names a value follows, in
 * branches too, and FQNs stay. */
static void it_renames_for_python(void **state)
{
    exg_value inner_values[] = {{.name = "in.ner"}};
    exg_graph inner = {.values = inner_values, .value_count = 1};
    exg_graph_argument branch = {.name = "body", .graph = &inner};
    exg_value values[] = {
        {.name = "layer.weight"}, {.name = "layer_weight"}, {.name = "0"}, {.name = "x-y"}};
    exg_named_argument args[] = {
        {"", {.kind = EXG_ARGUMENT_GRAPH, .as_graph = &branch}, EXG_KIND_POSITIONAL}};
    exg_node node = {.target = "t", .name = "x-y", .inputs = args, .input_count = 1};
    exg_input_spec inputs[] = {{.kind = EXG_INPUT_PARAMETER,
                                .arg = {EXG_ARGUMENT_TENSOR, .name = "layer.weight"},
                                .target = "layer.weight"},
                               {.kind = EXG_INPUT_USER, .arg = {EXG_ARGUMENT_TENSOR, .name = "0"}}};
    exg_output_spec outputs[] = {
        {EXG_OUTPUT_USER_INPUT_MUTATION, {EXG_ARGUMENT_TENSOR, .name = "x-y"}, "0"},
        {EXG_OUTPUT_GRADIENT_TO_USER_INPUT, {EXG_ARGUMENT_TENSOR, .name = "x-y"}, "0"},
        {EXG_OUTPUT_BUFFER_MUTATION, {EXG_ARGUMENT_TENSOR, .name = "x-y"}, "0"}};
    exg_program *p = NULL;

    (void)state;
    assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &p, NULL), EXG_OK);
    *p->graph = (exg_graph){.values = values, .value_count = 4, .nodes = &node, .node_count = 1};
    p->signature = (exg_signature){inputs, outputs, 2, 3};
    assert_false(suits_python(p));
    assert_int_equal(exg_program_suit_python(p, NULL), EXG_OK);
    assert_true(suits_python(p));
    assert_string_equal(values[0].name, "layer_weight_1");
    assert_string_equal(values[1].name, "layer_weight");
    assert_string_equal(values[2].name, "_0");
    assert_string_equal(values[3].name, "x_y");
    assert_string_equal(node.name, "x_y");
    assert_string_equal(inner_values[0].name, "in_ner");
    assert_string_equal(inputs[0].arg.name, "layer_weight_1");
    assert_string_equal(inputs[0].target, "layer.weight");
    assert_string_equal(inputs[1].arg.name, "_0");
    assert_string_equal(outputs[0].arg.name, "x_y");
    assert_string_equal(outputs[0].target, "_0");
    assert_string_equal(outputs[1].target, "_0");
    assert_string_equal(outputs[2].target, "0"); /* a buffer's FQN */
    assert_int_equal(p->module_calls[0].forward_arg_name_count, 1);
    inner_values[0].name = "a.b";
    assert_false(suits_python(p));
    inner_values[0].name = "ab";
    p->module_call_count = 0;
    assert_false(suits_python(p));
    exg_program_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_counts_elements),
        cmocka_unit_test(it_compares_metas),
        cmocka_unit_test(it_tells_what_can_be_counted),
        cmocka_unit_test(it_reads_elements_of_every_dtype),
        cmocka_unit_test(it_knows_identifiers),
        cmocka_unit_test(it_says_how_a_program_is_called),
        cmocka_unit_test(it_renames_for_python),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
