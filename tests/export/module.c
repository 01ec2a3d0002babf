/* module.c - stacks of modules and lines as torch.export writes them, and texts that
 * only look like them. */
#include <exg/module.h>

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static exg_node node_with(exg_string_pair *pair)
{
    exg_node node = {.target = "t"};

    node.metadata = (exg_string_map){pair, 1};
    return node;
}

static void expect_module(const char *stack, const char *path, const char *type)
{
    exg_string_pair pair = {"nn_module_stack", stack};
    exg_node node = node_with(&pair);
    exg_module_frame frame = exg_node_module(&node);

    assert_int_equal(frame.path_length, strlen(path));
    assert_memory_equal(frame.path, path, strlen(path));
    assert_int_equal(frame.type_length, strlen(type));
    assert_memory_equal(frame.type, type, strlen(type));
}

static void the_innermost_module_is_last(void **state)
{
    (void)state;
    expect_module("L__self__,,__main__.M;L__self__fc,fc,torch.nn.modules.linear.Linear", "fc",
                  "torch.nn.modules.linear.Linear");
    expect_module("L__self__,,__main__.M", "", "__main__.M");
}

static void commas_inside_brackets_do_not_split(void **state)
{
    (void)state;
    expect_module("k[0, 1],blocks[(2, 3)].fc,a.B[c, d;e]", "blocks[(2, 3)].fc", "a.B[c, d;e]");
}

static void what_passes_add_is_in_no_module(void **state)
{
    (void)state;
    expect_module("k,_empty_nn_module_stack_from_metadata_hook,k", "", "");
}

static void other_texts_count_as_none(void **state)
{
    static const char *const texts[] = {"",        "a",      "a,b",    "a;b;c",
                                        "a,b;c,d", "a,(b,c", "a],b,c", ",,)"};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        expect_module(texts[i], "", "");
    }
}

static void a_broken_end_keeps_what_was_read(void **state)
{
    (void)state;
    expect_module("k,fc,T;broken", "fc", "T");
}

/* `text`: the frame that is shown, NULL where none is. */
static exg_source_line expect_line(const char *trace, const char *text)
{
    exg_string_pair pair = {"stack_trace", trace};
    exg_node node = node_with(&pair);
    exg_source_line source;

    assert_int_equal(exg_node_source_line(&node, &source), text != NULL);
    assert_int_equal(source.text_length, text == NULL ? 0 : strlen(text));
    assert_memory_equal(source.text, text == NULL ? "" : text, source.text_length);
    return source;
}

static void the_innermost_line_outside_torch_is_shown(void **state)
{
    (void)state;
    expect_line("File \"m.py\", line 1, in forward\n    a()\n"
                "  File \"m.py\", line 2, in a\n    b()\n"
                "  File \"torch/nn/functional.py\", line 3, in b\n    c()",
                "File \"m.py\", line 2, in a\n    b()");
    expect_line("  File \"m.py\", line 1, in f\n    a(\n        b)\n\n"
                "  File \"/x/site-packages/torch/nn/f.py\", line 3, in b\n",
                "File \"m.py\", line 1, in f\n    a(\n        b)");
    expect_line("File \"m.py\", line 1, in f\n  File \"n.py\", line 2, in g",
                "File \"n.py\", line 2, in g");
    expect_line("File \"/x/site-packages/torch/nn/f.py\", line 3, in b", NULL);
}

static void texts_that_are_no_traces_have_no_line(void **state)
{
    static const char *const traces[] = {
        "nothing of the kind",
        "",
        "\n\n",
        "File \"",
        "File \"m.py\"",
        "File \"m.py\", line 3",
        "File \"m.py\", line x, in f",
        "File \"\", line 3, in f",
        "raise E('File \"m.py\", line 3, in f",
    };
    exg_node node = {.target = "t"};
    exg_source_line source;

    (void)state;
    for (size_t i = 0; i < sizeof(traces) / sizeof(traces[0]); i++) {
        expect_line(traces[i], NULL);
    }
    assert_false(exg_node_source_line(&node, &source)); /* no trace at all */
}

static void a_line_tells_its_parts(void **state)
{
    exg_source_line source = expect_line("File \"C:\\my, line 1, in x\\m.py\", line 12, in M.f\r\n"
                                         "    y = self.up(x)  \r\n    ~~~~^^^\r\n",
                                         "File \"C:\\my, line 1, in x\\m.py\", line 12, in M.f\r\n"
                                         "    y = self.up(x)  \r\n    ~~~~^^^");

    (void)state;
    assert_int_equal(source.line, 12);
    assert_int_equal(source.file_length, strlen("C:\\my, line 1, in x\\m.py"));
    assert_memory_equal(source.file, "C:\\my, line 1, in x\\m.py", source.file_length);
    assert_int_equal(source.function_length, strlen("M.f"));
    assert_memory_equal(source.function, "M.f", source.function_length);
    assert_int_equal(source.code_length, strlen("y = self.up(x)"));
    assert_memory_equal(source.code, "y = self.up(x)", source.code_length);
    assert_int_equal(expect_line("File \"m.py\", line 99999999999999999999, in f",
                                 "File \"m.py\", line 99999999999999999999, in f")
                         .line,
                     UINT32_MAX);
}

/* A file is torch's by the package that it is in, not by a word in its path. */
static void only_torch_is_passed_over(void **state)
{
    static const struct {
        const char *file;
        bool is_users;
    } rows[] = {
        {"/v/lib/python3.11/site-packages/torch/nn/modules/linear.py", false},
        {"/v/lib/python3.11/site-packages/torch/anything.py", false},
        {"/usr/lib/python3/dist-packages/torch/functional.py", false},
        {"/v/site-packages/torchgen/api/x.py", false},
        {"/v/site-packages/functorch/x.py", false},
        {"C:\\Py\\Lib\\site-packages\\torch\\nn\\modules\\conv.py", false},
        {"/home/me/pytorch/torch/nn/functional.py", false}, /* in its sources */
        {"/home/me/pytorch/torch/functional.py", false},
        {"/home/me/src/torch/nn/modules/linear.py", false},
        {"/opt/torch-2.9.egg/torch/_higher_order_ops/cond.py", false},
        {"/src/torch/_decomp/a.py", false},
        {"/src/torch/_dynamo/a.py", false},
        {"/src/torch/_export/a.py", false},
        {"/src/torch/_functorch/a.py", false},
        {"/src/torch/_library/a.py", false},
        {"/src/torch/_ops.py", false},
        {"/src/torch/_prims/a.py", false},
        {"/src/torch/_refs/a.py", false},
        {"/src/torch/_tensor.py", false},
        {"/src/torch/fx/a.py", false},
        {"/src/torch/utils/_pytree.py", false},
        {"/src/torch/utils/checkpoint.py", false},
        {"/src/torch/nn/attention/a.py", false},
        {"/src/torch/nn/functional.py", false},
        {"/src/torch/utils/a.py", true},
        {"/src/torch/fx.py", true},
        {"/src/torch/_dynamo.py", true},
        {"torch/nn/modules/linear.py", false},
        {"torch/fx/passes/runtime_assert.py", false},
        {"<eval_with_key>.13", false},
        {"<eval_with_key>", false},
        {"<frozen runpy>", false},
        {"/v/site-packages/transformers/models/bert/modeling_bert.py", true},
        {"/v/site-packages/torchvision/models/resnet.py", true},
        {"/v/site-packages/torchaudio/models/conformer.py", true},
        {"/v/site-packages/torch_geometric/nn/conv/gcn_conv.py", true},
        {"/v/site-packages/timm/layers/torch/nn.py", true},
        {"C:\\Py\\Lib\\site-packages\\timm\\models\\vit.py", true},
        {"C:\\Users\\torch\\net.py", true},
        {"/home/me/torch/net.py", true},
        {"/home/me/torch/nn/net.py", true},
        {"/home/torch/site-packages/net.py", true},
        {"/home/me/site-packages/x/torch/net.py", true},
        {"/home/me/pytorch/examples/net.py", true},
        {"/home/me/transformers/src/transformers/models/t5/modeling_t5.py", true}, /* editable */
        {"/home/me/mytorch/nn/modules/linear.py", true},
        {"/home/me/torch.py", true},
        {"torch/net.py", true},
        {"torch", true},
        {"<string>", true},
        {"<stdin>", true},
        {"<ipython-input-3-0123456789ab>", true},
        {"/tmp/ipykernel_12/345.py", true},
    };

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        char trace[300];
        char inner[200];

        snprintf(inner, sizeof(inner), "File \"%s\", line 7, in g\n    h()", rows[r].file);
        snprintf(trace, sizeof(trace), "  File \"outer.py\", line 2, in f\n    g()\n  %s\n", inner);
        expect_line(trace, rows[r].is_users ? inner : "File \"outer.py\", line 2, in f\n    g()");
        expect_line(inner, rows[r].is_users ? inner : NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_innermost_module_is_last),
        cmocka_unit_test(commas_inside_brackets_do_not_split),
        cmocka_unit_test(what_passes_add_is_in_no_module),
        cmocka_unit_test(other_texts_count_as_none),
        cmocka_unit_test(a_broken_end_keeps_what_was_read),
        cmocka_unit_test(the_innermost_line_outside_torch_is_shown),
        cmocka_unit_test(texts_that_are_no_traces_have_no_line),
        cmocka_unit_test(a_line_tells_its_parts),
        cmocka_unit_test(only_torch_is_passed_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
