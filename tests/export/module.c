/* module.c - stacks of modules and lines as torch.export writes them, and texts that
 * only look like them. */
#include <exg/module.h>

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

static void expect_line(const char *trace, const char *line)
{
    exg_string_pair pair = {"stack_trace", trace};
    exg_node node = node_with(&pair);
    uint32_t length = 0;
    const char *found = exg_node_source_line(&node, &length);

    if (line == NULL) {
        assert_null(found);
        return;
    }
    assert_non_null(found);
    assert_int_equal(length, strlen(line));
    assert_memory_equal(found, line, length);
}

static void the_innermost_line_outside_torch_is_shown(void **state)
{
    (void)state;
    expect_line("File \"m.py\", line 1, in forward\n    a()\n"
                "  File \"m.py\", line 2, in a\n    b()\n"
                "  File \"torch/nn/functional.py\", line 3, in b\n    c()",
                "File \"m.py\", line 2, in a\n    b()");
    expect_line("File \"/x/site-packages/torch/nn/f.py\", line 3, in b", NULL);
    expect_line("nothing of the kind", NULL);
    expect_line("", NULL);
    expect_line("File \"", "File \"");
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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
