/* print.c - what a text is made of: expressions, strings, calls and annotations as Python, sympy
 * and torch.fx write them. Goldens were printed by them. */
#include "libexport/program/print.h"

#include <exg/program.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define A "Symbol('s77', positive=True, integer=True)"
#define B "Symbol('s27', positive=True, integer=True)"
#define C "Symbol('s5', positive=True, integer=True)"

typedef struct golden {
    const char *given, *expected;
} golden;

static void check(void (*print)(exg_text *out, const char *given), const golden *rows, size_t count)
{
    int faults = 0;

    for (size_t r = 0; r < count; r++) {
        exg_text out = EXG_TEXT_EMPTY;
        const char *text;

        exg_text_puts(&out, "");
        print(&out, rows[r].given);
        text = exg_text_string(&out);
        if (strcmp(text == NULL ? "" : text, rows[r].expected) != 0) {
            print_message("%s\n  is   %s\n  not  %s\n", rows[r].given, text, rows[r].expected);
            faults++;
        }
        exg_text_free(&out);
    }
    assert_int_equal(faults, 0);
}

static void expressions_are_sympy_s(void **state)
{
    static const golden rows[] = {
#define EXG_EXPRESSION(given, expected) {given, expected},
#include "tests/export/expression.def"
#undef EXG_EXPRESSION
    };

    (void)state;
    check(exg_print_expression, rows, sizeof(rows) / sizeof(rows[0]));
}

/* What is no srepr is shown as it is. */
static void other_texts_are_left_alone(void **state)
{
    static const char *const texts[] = {
        "s0",
        "2*s0 + 1",
        "Add(",
        "Add(s0, 1)",
        "Add(Integer(1)",
        "Integer(1) 2",
        "truth",
        "True",
        "Symbol(s0)",
        "Symbol('s0",
        "Pow(Integer(1))",
        "Symbol('s0\")",
        "Integer()",
        "Rational(1)",
        "Mul(Rational(1), " A ")",
        "FloorDiv(" A ")",
        "(" A ")",
        "Mul(Integer(9223372036854775807), Integer(2))",
        "Mul(Integer(9223372036854775807), Rational(2, 3), " A ")",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        check(exg_print_expression, &(golden){texts[i], texts[i]}, 1);
    }
}

static void strings_are_python_s(void **state)
{
    static const golden rows[] = {
        {"plain", "'plain'"},
        {"it's", "\"it's\""},
        {"a\"b", "'a\"b'"},
        {"it's \"x\"", "'it\\'s \"x\"'"},
        {"a\\b", "'a\\\\b'"},
        {"\n\r\t", "'\\n\\r\\t'"},
        {"\x01\x1f\x7f", "'\\x01\\x1f\\x7f'"},
        {" ~", "' ~'"},
        {"\xc3\xa9", "'\xc3\xa9'"},
        {"", "''"},
    };

    (void)state;
    check(exg_print_python_string, rows, sizeof(rows) / sizeof(rows[0]));
}

#define TEN "xxxxxxxxxx"
#define E10 "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"

#define D5 "{\"d\": {\"d\": {\"d\": {\"d\": {\"d\": "

/* As FX's print_readable() annotates a node: values longer than 40 characters are cut. */
static void annotations_are_fx_s(void **state)
{
    static const golden rows[] = {
        {"{\"a\": 1}", "Annotation: {'a': 1} "},
        {"{\"a\": 1, \"b\": \"x\"}", "Annotation: {'a': 1, 'b': 'x'} "},
        {"{}", ""},
        {"{\"k\": true, \"f\": false, \"n\": null}",
         "Annotation: {'k': True, 'f': False, 'n': None} "},
        {"{\"q\": \"it's\"}", "Annotation: {'q': \"it's\"} "},
        {"{\"q\": \"a\\\"b\"}", "Annotation: {'q': 'a\"b'} "},
        {"{\"e\": \"\\n\\t\\r\\\\ \\/ \\b\\f\"}",
         "Annotation: {'e': '\\n\\t\\r\\\\ / \\x08\\x0c'} "},
        {"{\"u\": \"\\u00e9\\u20ac\\u0041\"}", "Annotation: {'u': '\xc3\xa9\xe2\x82\xac"
                                               "A'} "},
        {"{\"u\": \"\\u00ff\\u07D0\\u0904\\uff21\"}",
         "Annotation: {'u': '\xc3\xbf\xdf\x90\xe0\xa4\x84\xef\xbc\xa1'} "},
        {"{\"u\": \"\\ud83d\\ude00\\uD801\\uDC00\"}",
         "Annotation: {'u': '\xf0\x9f\x98\x80\xf0\x90\x90\x80'} "},
        {"{\"l\": [1, 2.5, \"x\", [true, null], {\"y\": -1}]}",
         "Annotation: {'l': [1, 2.5, 'x', [True, None], {'y': -1}]} "},
        {"{\"d\": {\"a\": 1, \"b\": [2]}}", "Annotation: {'d': {'a': 1, 'b': [2]}} "},
        {"{\"s\": \"" TEN TEN TEN TEN "\"}", "Annotation: {'s': '" TEN TEN TEN TEN "'} "},
        {"{\"s\": \"" TEN TEN TEN TEN "x\"}", "Annotation: {'s': '" TEN TEN TEN TEN "...'} "},
        {"{\"l\": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]}",
         "Annotation: {'l': '[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1...'} "},
        {"{\"e\": -1.5}", "Annotation: {'e': -1.5} "},
        {"{\"a\": [[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]}",
         "Annotation: {'a': [[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]} "},
        {"{\"a\": " D5 D5 D5 "1}}}}}}}}}}}}}}}}",
         "Annotation: {'a': \"{'d': {'d': {'d': {'d': {'d': {'d': {'d'...\"} "},
        {"{\"l\": [], \"d\": {}}", "Annotation: {'l': [], 'd': {}} "},
        {"{ \"sp\" : [ 1 , 2 ] , \"z\" : { \"a\" : 3 } }",
         "Annotation: {'sp': [1, 2], 'z': {'a': 3}} "},
        {"{\"s\": \"" E10 E10 E10 E10 "\"}", "Annotation: {'s': '" E10 E10 E10 E10 "'} "},
        {"{\"s\": \"" E10 E10 E10 E10 "x\"}", "Annotation: {'s': '" E10 E10 E10 E10 "...'} "},
    };
    static const char *const others[] = {
        "",
        "[]",
        "{",
        "{\"a\"}",
        "{\"a\" 1}",
        "{\"a\": }",
        "{\"a\": 1",
        "{\"a\": 1;}",
        "{a: 1}",
        "{\"a\": [1}",
        "{\"a\": [1 2]}",
        "{\"a\": {\"b\" 2}}",
        "{\"a\": x}",
        "{\"a\": \"b}",
        "{\"a\": \"\\x\"}",
        "{\"a\": \"\\",
        "{\"a\": \"\\u12\"}",
        "{\"a\": \"\\u12g4\"}",
        "{\"a\": \"\\ud83d\"}",
        "{\"a\": \"\\ude00\"}",
        "{\"a\": \"\\ud83d\\u0041\"}",
        "{\"a\": \"\\ud83d\\ud83d\"}",
        "{\"a\": \"\\ud83dude00\"}",
        "{\"a\\u12\": 1}",
        "{1: 2}",
        "{true: 2}",
        "{\"a\": 1, }",
        "{\"a\": {\"b\": }}",
        "\"a\": 1}",
        "{\"a\": 1 \"b\": 2}",
        "{\"a\": 1, 2}",
        "{\"a\": [[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]}",
        "{\"a\": " D5 D5 D5 "{\"d\": 1}}}}}}}}}}}}}}}}}",
    };

    (void)state;
    check(exg_print_custom, rows, sizeof(rows) / sizeof(rows[0]));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        check(exg_print_custom, &(golden){others[i], ""}, 1);
    }
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static char *printed(const exg_graph *graph)
{
    char *text = NULL;

    assert_int_equal(exg_graph_print(graph, &text, NULL), EXG_OK);
    return text;
}

static void expect_line(const char *text, const char *line)
{
    if (strstr(text, line) == NULL) {
        fail_msg("no '%s' in\n%s", line, text);
    }
}

/* Operators on sizes are printed as signs, with one argument or two; by FX by their names. */
static void operators_have_python_s_signs(void **state)
{
    static const struct {
        const char *target;
        uint32_t count;
        const char *line, *fx;
    } rows[] = {
        {"_operator.eq", 2, "r = a == b;", "operator.eq]"},
        {"_operator.ne", 2, "r = a != b;", "operator.ne]"},
        {"_operator.lt", 2, "r = a < b;", "operator.lt]"},
        {"_operator.gt", 2, "r = a > b;", "operator.gt]"},
        {"_operator.le", 2, "r = a <= b;", "operator.le]"},
        {"_operator.ge", 2, "r = a >= b;", "operator.ge]"},
        {"_operator.add", 2, "r = a + b;", "operator.add]"},
        {"_operator.sub", 2, "r = a - b;", "operator.sub]"},
        {"_operator.mul", 2, "r = a * b;", "operator.mul]"},
        {"_operator.floordiv", 2, "r = a // b;", "operator.floordiv]"},
        {"_operator.truediv", 2, "r = a / b;", "operator.truediv]"},
        {"_operator.div", 2, "r = a / b;", "operator.div]"},
        {"_operator.mod", 2, "r = a % b;", "operator.mod]"},
        {"_operator.pow", 2, "r = a ** b;", "operator.pow]"},
        {"_operator.lshift", 2, "r = a << b;", "operator.lshift]"},
        {"_operator.rshift", 2, "r = a >> b;", "operator.rshift]"},
        {"_operator.and_", 2, "r = a & b;", "operator.and_]"},
        {"_operator.or_", 2, "r = a | b;", "operator.or_]"},
        {"_operator.xor", 2, "r = a ^ b;", "operator.xor]"},
        {"_operator.matmul", 2, "r = a @ b;", "operator.matmul]"},
        {"_operator.pos", 1, "r = +a;", "operator.pos]"},
        {"_operator.neg", 1, "r = -a;", "operator.neg]"},
        {"_operator.invert", 1, "r = ~a;", "operator.invert]"},
        {"_operator.not_", 1, "r = _operator_not_(a);", "operator.not_]"},
        {"math.floor", 1, "r = math_floor(a);", "target=math.floor]"},
        {"torch.sym_max", 2, "r = torch.sym_max(a, b);", "target=torch.sym_max]"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_sym_int number = {"s0", 3, true};
        exg_value values[] = {
            {.name = "a", .sym_int = &number}, {.name = "b", .sym_int = &number}, {.name = "r"}};
        exg_argument args[3] = {{.kind = EXG_ARGUMENT_SYM_INT},
                                {.kind = EXG_ARGUMENT_SYM_INT},
                                {.kind = EXG_ARGUMENT_SYM_INT}};
        exg_named_argument inputs[] = {{"", args[0], EXG_KIND_POSITIONAL},
                                       {"", args[1], EXG_KIND_POSITIONAL}};
        exg_node node = {.target = rows[i].target,
                         .name = "r",
                         .inputs = inputs,
                         .input_count = rows[i].count,
                         .outputs = &args[2],
                         .output_count = 1,
                         .is_hop_single_tensor_return = EXG_UNSET};
        exg_graph graph = {.inputs = args,
                           .input_count = 2,
                           .nodes = &node,
                           .node_count = 1,
                           .values = values,
                           .value_count = 3};
        exg_program program = {.graph = &graph};
        char *text;

        for (uint32_t k = 0; k < 3; k++) {
            args[k].as_sym.value = k;
        }
        inputs[0].arg = args[0];
        inputs[1].arg = args[1];
        text = printed(&graph);
        expect_line(text, rows[i].line);
        expect_line(text, "def forward(self, a: \"Sym(s0)\", b: \"Sym(s0)\"):");
        free(text);
        assert_int_equal(exg_program_print_graph(&program, &text, NULL), EXG_OK);
        expect_line(text, rows[i].fx);
        free(text);
    }
}

/* An input that Python has a meaning for has another name inside, which no value has yet; one that
 * is a constant and has no name is numbered. */
static void inputs_have_names_that_python_takes(void **state)
{
    exg_value values[] = {{.name = "input"}, {.name = "input_1"}, {.name = "x"}, {.name = "y"}};
    exg_argument inputs[] = {{.kind = EXG_ARGUMENT_TENSOR, .as_tensor = 0},
                             {.kind = EXG_ARGUMENT_TENSOR, .as_tensor = 2},
                             {.kind = EXG_ARGUMENT_INT, .as_int = 3}};
    exg_argument output = {.kind = EXG_ARGUMENT_TENSOR, .as_tensor = 1};
    exg_named_argument args[] = {{"self", inputs[0], EXG_KIND_POSITIONAL},
                                 {"alpha", inputs[2], EXG_KIND_KEYWORD}};
    exg_node node = {.target = "torch.ops.aten.relu.default",
                     .name = "input_1",
                     .inputs = args,
                     .input_count = 2,
                     .outputs = &output,
                     .output_count = 1,
                     .is_hop_single_tensor_return = EXG_UNSET};
    exg_graph graph = {.inputs = inputs,
                       .input_count = 3,
                       .nodes = &node,
                       .node_count = 1,
                       .values = values,
                       .value_count = 3,
                       .outputs = &output,
                       .output_count = 1};
    char *text;

    (void)state;
    text = printed(&graph);
    assert_string_equal(text, "class GraphModule(torch.nn.Module):\n"
                              "    def forward(self, input, x, arg2):\n"
                              "        input_2 = input\n"
                              "\n"
                              "        # No stacktrace found for following nodes\n"
                              "        input_1 = torch.ops.aten.relu.default(input_2, alpha = 3);  "
                              "input_2 = None\n"
                              "        return (input_1,)\n");
    free(text);
    graph.is_single_tensor_return = true;
    text = printed(&graph);
    expect_line(text, "        return input_1\n");
    free(text);
    graph.outputs = (exg_argument[]){output, {.kind = EXG_ARGUMENT_NONE}};
    graph.output_count = 2;
    text = printed(&graph);
    expect_line(text, "        return (input_1, None)\n");
    free(text);
}

/* An object is used by its name; what a node uses twice has one user; a result that is None and
 * lists of results are items. */
static void uses_are_counted_by_node(void **state)
{
    exg_custom_obj object = {"obj", "a.B"};
    exg_value values[] = {{.name = "obj", .custom_class = "a.B"},
                          {.name = "x"},
                          {.name = "a"},
                          {.name = "b"},
                          {.name = "unused"}};
    exg_value_id twice[] = {1, 1}, both[] = {2, 3};
    exg_argument inputs[] = {{.kind = EXG_ARGUMENT_CUSTOM_OBJ, .as_custom_obj = &object},
                             {.kind = EXG_ARGUMENT_TENSOR, .as_tensor = 1},
                             {.kind = EXG_ARGUMENT_OPTIONAL_TENSOR, .as_tensor = EXG_NO_VALUE},
                             {.kind = EXG_ARGUMENT_OPTIONAL_TENSOR, .as_tensor = 1},
                             {.kind = EXG_ARGUMENT_TENSORS, .count = 2, .as_tensors = twice}};
    exg_named_argument args[] = {{"", inputs[0], EXG_KIND_POSITIONAL},
                                 {"", inputs[2], EXG_KIND_POSITIONAL},
                                 {"", inputs[3], EXG_KIND_POSITIONAL},
                                 {"", inputs[4], EXG_KIND_POSITIONAL}};
    exg_argument outputs[] = {{.kind = EXG_ARGUMENT_TENSORS, .count = 2, .as_tensors = both},
                              {.kind = EXG_ARGUMENT_NONE},
                              {.kind = EXG_ARGUMENT_TENSOR, .as_tensor = 4}};
    exg_node node = {.target = "torch.ops.mine.op.default",
                     .name = "op",
                     .inputs = args,
                     .input_count = 4,
                     .outputs = outputs,
                     .output_count = 3,
                     .is_hop_single_tensor_return = EXG_UNSET};
    exg_argument result = {.kind = EXG_ARGUMENT_TENSOR, .as_tensor = 3};
    exg_graph graph = {.inputs = inputs,
                       .input_count = 2,
                       .nodes = &node,
                       .node_count = 1,
                       .values = values,
                       .value_count = 5,
                       .outputs = &result,
                       .output_count = 1};
    exg_program program = {.graph = &graph};
    char *text;

    (void)state;
    assert_int_equal(exg_program_print_graph(&program, &text, NULL), EXG_OK);
    assert_string_equal(text,
                        "graph():\n"
                        "    %obj : [num_users=1] = placeholder[target=obj]\n"
                        "    %x : [num_users=1] = placeholder[target=x]\n"
                        "    %op : [num_users=3] = call_function[target=torch.ops.mine.op.default]"
                        "(args = (%obj, None, %x, [%x, %x]), kwargs = {})\n"
                        "    %getitem : [num_users=2] = call_function[target=operator.getitem]"
                        "(args = (%op, 0), kwargs = {})\n"
                        "    %a : [num_users=0] = call_function[target=operator.getitem]"
                        "(args = (%getitem, 0), kwargs = {})\n"
                        "    %b : [num_users=1] = call_function[target=operator.getitem]"
                        "(args = (%getitem, 1), kwargs = {})\n"
                        "    %as_none : [num_users=0] = call_function[target=operator.getitem]"
                        "(args = (%op, 1), kwargs = {})\n"
                        "    %unused : [num_users=0] = call_function[target=operator.getitem]"
                        "(args = (%op, 2), kwargs = {})\n"
                        "    return (b,)");
    free(text);
    text = printed(&graph);
    assert_string_equal(text, "class GraphModule(torch.nn.Module):\n"
                              "    def forward(self, obj, x):\n"
                              "        # No stacktrace found for following nodes\n"
                              "        op = torch.ops.mine.op.default(obj, None, x, [x, x]);  "
                              "obj = x = None\n"
                              "        getitem = op[0]\n"
                              "        a = getitem[0];  a = None\n"
                              "        b = getitem[1];  getitem = None\n"
                              "        as_none = op[1];  as_none = None\n"
                              "        unused = op[2];  op = unused = None\n"
                              "        return (b,)\n");
    free(text);
}

/* A branch is an attribute of the module; a node that gives nothing and has no name is "_". */
static void branches_are_attributes(void **state)
{
    exg_graph inner = {0};
    exg_graph_argument attribute = {"true_graph_0", &inner};
    exg_value values[] = {{.name = "x"}, {.name = "y"}};
    exg_argument input = {.kind = EXG_ARGUMENT_TENSOR, .as_tensor = 0};
    exg_argument result = {.kind = EXG_ARGUMENT_TENSOR, .as_tensor = 1};
    exg_named_argument args[] = {
        {"", {.kind = EXG_ARGUMENT_GRAPH, .as_graph = &attribute}, EXG_KIND_POSITIONAL},
        {"", input, EXG_KIND_POSITIONAL}};
    exg_named_argument alone = {"", input, EXG_KIND_POSITIONAL};
    exg_node nodes[] = {{.target = "torch.ops.higher_order.invoke_subgraph",
                         .name = "y",
                         .inputs = args,
                         .input_count = 2,
                         .outputs = &result,
                         .output_count = 1,
                         .is_hop_single_tensor_return = EXG_TRUE},
                        {.target = "torch.ops.aten._assert_async.default",
                         .inputs = &alone,
                         .input_count = 1,
                         .is_hop_single_tensor_return = EXG_UNSET}};
    exg_graph graph = {.inputs = &input,
                       .input_count = 1,
                       .nodes = nodes,
                       .node_count = 2,
                       .values = values,
                       .value_count = 2,
                       .outputs = &result,
                       .output_count = 1};
    exg_program program = {.graph = &graph};
    char *text;

    (void)state;
    assert_int_equal(exg_program_print_graph(&program, &text, NULL), EXG_OK);
    assert_string_equal(text,
                        "graph():\n"
                        "    %x : [num_users=2] = placeholder[target=x]\n"
                        "    %true_graph_0 : [num_users=1] = get_attr[target=true_graph_0]\n"
                        "    %y : [num_users=1] = call_function[target=torch.ops.higher_order."
                        "invoke_subgraph](args = (%true_graph_0, %x), kwargs = {})\n"
                        "    %_ : [num_users=0] = call_function[target=torch.ops.aten."
                        "_assert_async.default](args = (%x,), kwargs = {})\n"
                        "    return (y,)");
    free(text);
}

static exg_value value = {.name = "x"};
static exg_graph of_x = {.values = &value, .value_count = 1}, branch;
static exg_value_id ids[] = {0, 0}, some[] = {0, EXG_NO_VALUE};
static int64_t ints[] = {1, -2};
static double floats[] = {0.5, 2};
static bool bools[] = {true, false};
static const char *strings[] = {"a", "b"};
static exg_sym_argument sizes[] = {{.value = 0}, {.value = EXG_NO_VALUE, .as_int = 7}};
static exg_sym_argument reals[] = {{.value = EXG_NO_VALUE, .as_float = 0.5}};
static exg_sym_argument truths[] = {{.value = EXG_NO_VALUE, .as_bool = true},
                                    {.value = EXG_NO_VALUE, .as_bool = false}};
static exg_value_list nested[] = {{ids, 1}, {ids, 2}};
static exg_int_list int_lists[] = {{ints, 2}, {NULL, 0}};
static exg_float_list float_lists[] = {{floats, 1}};
static exg_string_argument map[] = {{"k", {.kind = EXG_ARGUMENT_INT, .as_int = 1}},
                                    {"l", {.kind = EXG_ARGUMENT_TENSOR, .as_tensor = 0}}};
static exg_custom_obj object = {"obj", "a.B"};
static exg_graph_argument graph_argument = {.name = "true_graph_0", .graph = &branch};

static const struct {
    exg_argument argument;
    const char *code, *shown; /* NULL: the same */
} arguments[] = {
    {{.kind = EXG_ARGUMENT_TENSOR, .as_tensor = 0}, "x", "%x"},
    {{.kind = EXG_ARGUMENT_TENSORS, .count = 2, .as_tensors = ids}, "[x, x]", "[%x, %x]"},
    {{.kind = EXG_ARGUMENT_OPTIONAL_TENSORS, .count = 2, .as_tensors = some},
     "[x, None]",
     "[%x, None]"},
    {{.kind = EXG_ARGUMENT_OPTIONAL_TENSOR, .as_tensor = EXG_NO_VALUE}, "None", NULL},
    {{.kind = EXG_ARGUMENT_NESTED_TENSORS, .count = 2, .as_nested_tensors = nested},
     "[[x], [x, x]]",
     "[[%x], [%x, %x]]"},
    {{.kind = EXG_ARGUMENT_NONE}, "None", NULL},
    {{.kind = EXG_ARGUMENT_BOOL, .as_bool = true}, "True", NULL},
    {{.kind = EXG_ARGUMENT_BOOL, .as_bool = false}, "False", NULL},
    {{.kind = EXG_ARGUMENT_BOOLS, .count = 2, .as_bools = bools}, "[True, False]", NULL},
    {{.kind = EXG_ARGUMENT_FLOAT, .as_float = 1}, "1.0", NULL},
    {{.kind = EXG_ARGUMENT_FLOATS, .count = 2, .as_floats = floats}, "[0.5, 2.0]", NULL},
    {{.kind = EXG_ARGUMENT_FLOAT_LISTS, .count = 1, .as_float_lists = float_lists},
     "[[0.5]]",
     NULL},
    {{.kind = EXG_ARGUMENT_COMPLEX, .as_complex = {1, 2}}, "(1+2j)", NULL},
    {{.kind = EXG_ARGUMENT_COMPLEX, .as_complex = {1.5, -2.25}}, "(1.5-2.25j)", NULL},
    {{.kind = EXG_ARGUMENT_COMPLEX, .as_complex = {0, 2}}, "2j", NULL},
    {{.kind = EXG_ARGUMENT_COMPLEX, .as_complex = {0, -2}}, "-2j", NULL},
    {{.kind = EXG_ARGUMENT_COMPLEX, .as_complex = {-0.0, 2}}, "(-0+2j)", NULL},
    {{.kind = EXG_ARGUMENT_COMPLEX, .as_complex = {1, -0.0}}, "(1-0j)", NULL},
    {{.kind = EXG_ARGUMENT_COMPLEX, .as_complex = {-1, 0}}, "(-1+0j)", NULL},
    {{.kind = EXG_ARGUMENT_STRING, .as_string = "it's"}, "\"it's\"", "it's"},
    {{.kind = EXG_ARGUMENT_STRINGS, .count = 2, .as_strings = strings}, "['a', 'b']", "[a, b]"},
    {{.kind = EXG_ARGUMENT_INT, .as_int = INT64_MIN}, "-9223372036854775808", NULL},
    {{.kind = EXG_ARGUMENT_INTS, .count = 2, .as_ints = ints}, "[1, -2]", NULL},
    {{.kind = EXG_ARGUMENT_INTS, .count = 0}, "[]", NULL},
    {{.kind = EXG_ARGUMENT_INT_LISTS, .count = 2, .as_int_lists = int_lists},
     "[[1, -2], []]",
     NULL},
    {{.kind = EXG_ARGUMENT_SYM_INT, .as_sym = {.value = 0}}, "x", "%x"},
    {{.kind = EXG_ARGUMENT_SYM_INTS, .count = 2, .as_syms = sizes}, "[x, 7]", "[%x, 7]"},
    {{.kind = EXG_ARGUMENT_SYM_FLOAT, .as_sym = {EXG_NO_VALUE, {.as_float = 0.5}}}, "0.5", NULL},
    {{.kind = EXG_ARGUMENT_SYM_FLOATS, .count = 1, .as_syms = reals}, "[0.5]", NULL},
    {{.kind = EXG_ARGUMENT_SYM_BOOLS, .count = 2, .as_syms = truths}, "[True, False]", NULL},
    {{.kind = EXG_ARGUMENT_SCALAR_TYPE, .as_scalar_type = EXG_DTYPE_BF16}, "torch.bfloat16", NULL},
    {{.kind = EXG_ARGUMENT_LAYOUT, .as_layout = EXG_LAYOUT_STRIDED}, "torch.strided", NULL},
    {{.kind = EXG_ARGUMENT_MEMORY_FORMAT, .as_memory_format = EXG_MEMORY_FORMAT_CONTIGUOUS},
     "torch.contiguous_format",
     NULL},
    {{.kind = EXG_ARGUMENT_DEVICE, .as_device = {"cpu", -1}}, "device(type='cpu')", "cpu"},
    {{.kind = EXG_ARGUMENT_DEVICE, .as_device = {"cuda", 0}},
     "device(type='cuda', index=0)",
     "cuda:0"},
    {{.kind = EXG_ARGUMENT_GRAPH, .as_graph = &graph_argument}, "true_graph_0", "%true_graph_0"},
    {{.kind = EXG_ARGUMENT_CUSTOM_OBJ, .as_custom_obj = &object}, "obj", "%obj"},
    {{.kind = EXG_ARGUMENT_OPERATOR, .as_string = "torch.ops.aten.add.Tensor"},
     "torch.ops.aten.add.Tensor",
     "aten.add.Tensor"},
    {{.kind = EXG_ARGUMENT_OPERATOR, .as_string = "torch.ops.higher_order.cond"},
     "torch.ops.higher_order.cond",
     "cond"},
    {{.kind = EXG_ARGUMENT_OPERATOR, .as_string = "_operator.add"}, "_operator.add", NULL},
    {{.kind = EXG_ARGUMENT_STRING_TO_ARGUMENT, .count = 2, .as_string_to_argument = map},
     "{'k': 1, 'l': x}",
     "{k: 1, l: %x}"},
};

/* As the code of torch.fx shows them, and as its graph does. */
static void arguments_are_python_s(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * sizeof(arguments) / sizeof(arguments[0]); i++) {
        const char *code = arguments[i / 2].code, *shown = arguments[i / 2].shown;
        exg_text text = EXG_TEXT_EMPTY;

        if (i % 2 == 0) {
            exg_print_argument(&text, &of_x, &arguments[i / 2].argument);
        } else {
            exg_print_fx_argument(&text, &of_x, &arguments[i / 2].argument);
        }
        assert_string_equal(exg_text_string(&text), i % 2 == 0 || shown == NULL ? code : shown);
        exg_text_free(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_are_python_s),
        cmocka_unit_test(expressions_are_sympy_s),
        cmocka_unit_test(other_texts_are_left_alone),
        cmocka_unit_test(strings_are_python_s),
        cmocka_unit_test(annotations_are_fx_s),
        cmocka_unit_test(operators_have_python_s_signs),
        cmocka_unit_test(inputs_have_names_that_python_takes),
        cmocka_unit_test(branches_are_attributes),
        cmocka_unit_test(uses_are_counted_by_node),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
