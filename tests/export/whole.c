/* whole.c - see whole.h. */
#include "tests/export/whole.h"

#include <exg/weights.h>
#include <math.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static exg_sym_int sizes[] = {{NULL, 2, false}, {"s0", 7, true},    {"s1", 0, false},
                              {NULL, 0, false}, {"8*s0", 56, true}, {NULL, 1, false}};
static exg_tensor_meta meta = {.dtype = EXG_DTYPE_BF16,
                               .layout = EXG_LAYOUT_STRIDED,
                               .requires_grad = true,
                               .rank = 3,
                               .sizes = sizes,
                               .strides = sizes + 3,
                               .storage_offset = {"s0 + 1", 8, true},
                               .device = {"cuda", 3}};
static exg_sym_int sym_int = {"s0", -3, true};
static exg_sym_float sym_float = {NULL, -0.0, false};
static exg_sym_bool sym_bool = {"Eq(s0, 1)", true, true};

static exg_value values[] = {
    {.name = "x", .tensor = &meta},         {.name = "i", .sym_int = &sym_int},
    {.name = "f", .sym_float = &sym_float}, {.name = "b", .sym_bool = &sym_bool},
    {.name = "c", .custom_class = "cls"},   {.name = ""},
};

static exg_value_id ids[] = {0, EXG_NO_VALUE, 5};
static exg_value_id plain_ids[] = {5, 0};
static int64_t ints[] = {INT64_MIN, 0, INT64_MAX};
static double floats[] = {-0.0, INFINITY, 1e-320};
static bool bools[] = {true, false};
static const char *strings[] = {"", "\xc3\xa9", "x"};
static exg_sym_argument sym_ints[] = {{1, {0}}, {EXG_NO_VALUE, {.as_int = -1}}};
static exg_sym_argument sym_floats[] = {{2, {0}}, {EXG_NO_VALUE, {.as_float = -0.0}}};
static exg_sym_argument sym_bools[] = {{3, {0}}, {EXG_NO_VALUE, {.as_bool = false}}};
static exg_value_list nested[] = {{plain_ids, 2}, {NULL, 0}};
static exg_int_list int_lists[] = {{NULL, 0}, {ints, 3}};
static exg_float_list float_lists[] = {{floats, 3}, {floats, 1}};
static exg_value inner_values[] = {{.name = "y"}};
static exg_argument inner_input = {.kind = EXG_ARGUMENT_TENSOR, .as_tensor = 0};
static exg_graph inner = {.inputs = &inner_input,
                          .input_count = 1,
                          .values = inner_values,
                          .value_count = 1,
                          .is_single_tensor_return = true};
static exg_string_pair branch_metadata = {"from", "an early file"};
static exg_graph_argument graph_argument = {"body", &inner, {&branch_metadata, 1}, 1};
static exg_custom_obj custom = {"obj", "a.B"};
static exg_string_argument pairs[] = {
    {"k", {.kind = EXG_ARGUMENT_INTS, .count = 0}},
    {"", {.kind = EXG_ARGUMENT_FLOAT, .as_float = -0.0}},
};

#define ARG(kind_, ...)                                                                            \
    {                                                                                              \
        "n", {.kind = EXG_ARGUMENT_##kind_, __VA_ARGS__}, EXG_KIND_POSITIONAL                      \
    }

static exg_named_argument inputs[] = {
    ARG(NONE, .count = 0),
    ARG(TENSOR, .as_tensor = 4),
    ARG(TENSORS, .as_tensors = plain_ids, .count = 2),
    ARG(TENSORS, .count = 0),
    ARG(INT, .as_int = 0),
    ARG(INT, .as_int = INT64_MIN),
    ARG(INTS, .as_ints = ints, .count = 3),
    ARG(FLOAT, .as_float = -0.0),
    ARG(FLOAT, .as_float = 0.0),
    ARG(FLOATS, .as_floats = floats, .count = 3),
    ARG(STRING, .as_string = ""),
    ARG(STRINGS, .as_strings = strings, .count = 3),
    ARG(SYM_INT, .as_sym = {EXG_NO_VALUE, {.as_int = 0}}),
    ARG(SYM_INT, .as_sym = {1, {0}}),
    ARG(SYM_INTS, .as_syms = sym_ints, .count = 2),
    ARG(SCALAR_TYPE, .as_scalar_type = EXG_DTYPE_U64),
    ARG(MEMORY_FORMAT, .as_memory_format = EXG_MEMORY_FORMAT_PRESERVE),
    ARG(LAYOUT, .as_layout = EXG_LAYOUT_UNKNOWN),
    ARG(DEVICE, .as_device = {"cpu", -1}),
    ARG(DEVICE, .as_device = {"cuda", 0}),
    ARG(BOOL, .as_bool = true),
    ARG(BOOLS, .as_bools = bools, .count = 2),
    ARG(SYM_BOOL, .as_sym = {EXG_NO_VALUE, {.as_bool = false}}),
    ARG(SYM_BOOLS, .as_syms = sym_bools, .count = 2),
    ARG(OPTIONAL_TENSORS, .as_tensors = ids, .count = 3),
    ARG(GRAPH, .as_graph = &graph_argument),
    ARG(CUSTOM_OBJ, .as_custom_obj = &custom),
    ARG(OPERATOR, .as_string = "torch.ops.aten.add.Tensor"),
    ARG(SYM_FLOAT, .as_sym = {EXG_NO_VALUE, {.as_float = -0.0}}),
    ARG(SYM_FLOATS, .as_syms = sym_floats, .count = 2),
    ARG(OPTIONAL_TENSOR, .as_tensor = EXG_NO_VALUE),
    ARG(OPTIONAL_TENSOR, .as_tensor = 0),
    ARG(COMPLEX, .as_complex = {0.0, -0.0}),
    ARG(NESTED_TENSORS, .as_nested_tensors = nested, .count = 2),
    ARG(INT_LISTS, .as_int_lists = int_lists, .count = 2),
    ARG(STRING_TO_ARGUMENT, .as_string_to_argument = pairs, .count = 2),
    ARG(FLOAT_LISTS, .as_float_lists = float_lists, .count = 2),
    {"", {.kind = EXG_ARGUMENT_NONE}, EXG_KIND_UNKNOWN},
    {"kw", {.kind = EXG_ARGUMENT_NONE}, EXG_KIND_KEYWORD},
};

static exg_argument output = {.kind = EXG_ARGUMENT_TENSOR, .as_tensor = 5};
static exg_string_pair metadata[] = {{"stack_trace", ""}, {"", "v"}};
static exg_node nodes[] = {
    {.target = "t",
     .name = "",
     .inputs = inputs,
     .outputs = &output,
     .input_count = sizeof(inputs) / sizeof(inputs[0]),
     .output_count = 1,
     .metadata = {metadata, 2},
     .is_hop_single_tensor_return = EXG_FALSE},
    {.target = "u", .is_hop_single_tensor_return = EXG_UNSET},
    {.target = "", .is_hop_single_tensor_return = EXG_TRUE},
};

static exg_input_spec input_specs[] = {
    {EXG_INPUT_BUFFER, {EXG_ARGUMENT_TENSOR, false, "x", {0}}, "a.b", EXG_FALSE, true},
    {EXG_INPUT_TOKEN, {EXG_ARGUMENT_TENSOR, true, "tok", {0}}, NULL, EXG_UNSET, false},
    {EXG_INPUT_USER, {EXG_ARGUMENT_FLOAT, false, "", {.as_float = -0.0}}, NULL, EXG_UNSET, false},
    {EXG_INPUT_USER, {EXG_ARGUMENT_INT, false, "", {.as_int = 0}}, NULL, EXG_UNSET, false},
    {EXG_INPUT_USER, {EXG_ARGUMENT_BOOL, false, "", {.as_bool = true}}, NULL, EXG_UNSET, false},
    {EXG_INPUT_USER, {EXG_ARGUMENT_STRING, false, "", {.as_string = ""}}, "", EXG_TRUE, false},
    {EXG_INPUT_USER, {EXG_ARGUMENT_NONE, false, "n", {0}}, NULL, EXG_UNSET, false},
    {EXG_INPUT_CUSTOM_OBJ,
     {EXG_ARGUMENT_CUSTOM_OBJ, false, "c", {.as_string = "cls"}},
     "c",
     EXG_UNSET,
     false},
    {EXG_INPUT_USER, {EXG_ARGUMENT_SYM_INT, false, "i", {0}}, NULL, EXG_UNSET, false},
};
static exg_output_spec output_specs[] = {
    {EXG_OUTPUT_USER, {EXG_ARGUMENT_SYM_FLOAT, false, "f", {0}}, NULL},
    {EXG_OUTPUT_TOKEN, {EXG_ARGUMENT_SYM_BOOL, false, "b", {0}}, ""},
};
static exg_module_call calls[] = {
    {.fqn = "",
     .has_signature = true,
     .inputs = &output,
     .input_count = 1,
     .in_spec = "[]",
     .forward_arg_names = strings,
     .forward_arg_name_count = 3},
    {.fqn = "a"},
};
static exg_range_constraint ranges[] = {
    {"s0", 0, 0, true, false}, {"s1", 0, INT64_MAX, false, true}, {"s2", -1, 0, true, true}};
static exg_input_metadata said[] = {{"x", {metadata, 2}}, {NULL, {metadata, 1}}};
static exg_named_tuple tuples[] = {{"T", strings, 3}, {"U", NULL, 0}};
static exg_opset opsets[] = {{"aten", 10}};
static exg_sample_input samples[] = {
    {.kind = EXG_ARGUMENT_TENSOR, .meta = &meta, .storage = 0},
    {.keyword = "", .kind = EXG_ARGUMENT_FLOAT, .as_float = -0.0},
    {.keyword = "k", .kind = EXG_ARGUMENT_STRING, .as_string = ""},
    {.kind = EXG_ARGUMENT_NONE},
};
static exg_extra_file extras[] = {{"extra", 1}};

exg_program *make_whole(void)
{
    static const uint8_t data[] = "0123456789abcdef";
    exg_program *p = NULL;
    exg_storage storage = {.length = 16, .data = data, .byte_order = EXG_BIG_ENDIAN};
    exg_weight weight = {.fqn = "w", .table = EXG_TABLE_CONSTANTS, .use_pickle = true};
    uint32_t index;

    assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &p, NULL), EXG_OK);
    assert_int_equal(exg_weights_add_storage(p->weights, &storage, &index, NULL), EXG_OK);
    storage =
        (exg_storage){.length = 0, .data = data, .checksum = {EXG_CHECKSUM_UNKNOWN, "md5:00"}};
    assert_int_equal(exg_weights_add_storage(p->weights, &storage, &index, NULL), EXG_OK);
    assert_int_equal(exg_weights_add(p->weights, &weight, NULL), EXG_OK);
    p->name = "m";
    p->origin = EXG_ORIGIN_EARLY;
    p->graph->nodes = nodes;
    p->graph->node_count = 3;
    p->graph->values = values;
    p->graph->value_count = 6;
    p->graph->outputs = &output;
    p->graph->output_count = 1;
    p->signature = (exg_signature){.inputs = input_specs,
                                   .outputs = output_specs,
                                   .input_count = 9,
                                   .output_count = 2,
                                   .assertion_dep_token = "y",
                                   .assertion_dep_index = 2};
    p->input_metadata = said;
    p->input_metadata_count = 2;
    p->early_form = "{\"name\" :\"m\"}";
    p->module_calls = calls;
    p->module_call_count = 2;
    p->metadata = (exg_string_map){metadata, 2};
    p->named_tuples = tuples;
    p->named_tuple_count = 2;
    p->opsets = opsets;
    p->opset_count = 1;
    p->range_constraints = ranges;
    p->range_constraint_count = 3;
    p->verifiers = strings;
    p->verifier_count = 3;
    p->sample_inputs = samples;
    p->sample_input_count = 4;
    p->extra_files = extras;
    p->extra_file_count = 1;
    p->schema_major = -1;
    p->schema_minor = 0;
    return p;
}
