/* early_change.c - an early file whose program was changed: what was, is written anew; what was
 * not, stands as the file has it. */
#include "tests/export/early_maker.h"
#include "tests/export/exg_folder.h"

#include <exg/signature.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* S002-117: what was changed is written, and all else as it was, in whatever order. */
static void it_follows_changes(void **state)
{
    const char *before = early_with(early_json("\"Internal\"", "1"), EARLY_VALUES("x", "y", "w"),
                                    EARLY_VALUES("y", "w", "x"));
    exg_program *p = open_text(before);
    char expected[8192] = "";
    const char *at = before;
    char *text;

    (void)state;
    for (const char *next; (next = strstr(at, "\"x\"")) != NULL; at = next + 3) {
        snprintf(expected + strlen(expected), sizeof(expected) - strlen(expected), "%.*s\"image\"",
                 (int)(next - at), at);
    }
    snprintf(expected + strlen(expected), sizeof(expected) - strlen(expected), "%s", at);
    assert_int_equal(exg_program_rename_value(p, "x", "image", NULL), EXG_OK);
    text = saved_text(p);
    assert_string_equal(text, expected);
    free(text);
    exg_program_destroy(p);
}

/* What is said anew comes with the rest, however much it is. */
static void it_adds_what_is_new(void **state)
{
    exg_string_pair said[] = {{"first", "1"}, {"second", "2"}, {"third", "3"}};
    exg_program *p = open_text(early_json("\"index\": -1", "\"index\": null"));
    char *text;

    (void)state;
    p->metadata = (exg_string_map){said, 3};
    text = saved_text(p);
    exg_program_destroy(p);
    assert_non_null(strstr(text, "{\"first\": \"1\", \"second\": \"2\", \"third\": \"3\"}"));
    assert_non_null(strstr(text, "\"index\": null"));
    p = open_text(text);
    assert_int_equal(p->metadata.count, 3);
    assert_string_equal(p->metadata.items[2].value, "3");
    exg_program_destroy(p);
    free(text);
}

/* ---- what was changed, and what stays around it ------------------------------------------------
 */

static void subtract(exg_program *p)
{
    p->graph->nodes[0].target = "torch.ops.aten.sub.Tensor";
}

static void exchange_arguments(exg_program *p)
{
    exg_argument first = p->graph->nodes[0].inputs[0].arg;

    p->graph->nodes[0].inputs[0].arg = p->graph->nodes[0].inputs[1].arg;
    p->graph->nodes[0].inputs[1].arg = first;
}

static void use_a_number(exg_program *p)
{
    p->graph->nodes[0].inputs[1].arg = (exg_argument){.kind = EXG_ARGUMENT_INT, .as_int = 7};
}

static void drop_an_argument(exg_program *p)
{
    p->graph->nodes[0].input_count--;
}

static void drop_the_node(exg_program *p)
{
    p->graph->node_count = 0;
}

static exg_tensor_meta *meta_of(exg_program *p, const char *name)
{
    return p->graph->values[exg_graph_find_value(p->graph, name)].tensor;
}

static void widen(exg_program *p)
{
    meta_of(p, "y")->dtype = EXG_DTYPE_F64;
}

static void resize(exg_program *p)
{
    meta_of(p, "x")->sizes[0].value = 3;
}

static void name_a_size(exg_program *p)
{
    meta_of(p, "x")->sizes[0] = (exg_sym_int){.expr = "s0"};
}

static void need_no_gradient(exg_program *p)
{
    meta_of(p, "w")->requires_grad = false;
}

static void rename_all(exg_program *p)
{
    assert_int_equal(exg_program_rename_value(p, "x", "a", NULL), EXG_OK);
    assert_int_equal(exg_program_rename_value(p, "y", "b", NULL), EXG_OK);
}

static void drop_metadata(exg_program *p)
{
    p->metadata.items++;
    p->metadata.count--;
}

static void drop_all_metadata(exg_program *p)
{
    p->metadata.count = 0;
}

static void change_metadata(exg_program *p)
{
    p->metadata.items[p->metadata.count - 1].value = "new";
}

static void add_metadata(exg_program *p)
{
    static exg_string_pair pairs[20];

    memcpy(pairs, p->metadata.items, p->metadata.count * sizeof(*pairs));
    pairs[p->metadata.count++] = (exg_string_pair){"n", "14"};
    p->metadata.items = pairs;
}

static void retrace(exg_program *p)
{
    p->graph->nodes[0].metadata.items[0].value = "line 1";
}

static void drop_a_value(exg_program *p)
{
    assert_string_equal(p->graph->values[p->graph->value_count - 1].name, "z");
    p->graph->value_count--;
}

static void add_values(exg_program *p)
{
    static exg_value values[8];
    uint32_t count = p->graph->value_count;

    memcpy(values, p->graph->values, count * sizeof(*values));
    values[count] = (exg_value){.name = "u", .tensor = meta_of(p, "x")};
    values[count + 1] = (exg_value){.name = "v", .tensor = meta_of(p, "y")};
    p->graph->values = values;
    p->graph->value_count = count + 2;
}

static void change_the_symbol(exg_program *p)
{
    p->graph->values[exg_graph_find_value(p->graph, "s")].sym_int->expr = "s1";
}

#define X_ARG "{\"as_tensor\": {\"name\": \"x\"}}"
#define W_ARG "{\"as_tensor\": {\"name\": \"w\"}}"
/* More members than are looked through one by one. */
#define MANY                                                                                       \
    "\"a\": \"1\",\"b\":\"2\", \"c\": \"3\", \"d\": \"4\", \"e\": \"5\", \"f\": \"6\", "           \
    "\"g\": \"7\", \"h\": \"8\", \"i\": \"9\", \"j\": \"10\", \"k\": \"11\", \"l\": \"12\", "      \
    "\"m\" : "

static const struct change {
    const char *form[2]; /* this in the good text is that in the file */
    void (*change)(exg_program *p);
    const char *was[2]; /* and this in the file is that in what is written; NULL: no nodes */
} changes[] = {
    {{"\"aten.add.Tensor\"", " \"torch.ops.aten.add.Tensor\" "},
     subtract,
     {"\"torch.ops.aten.add.Tensor\"", "\"aten.sub.Tensor\""}},
    {{"\"args\": [" X_ARG ", " W_ARG "]", "\"args\": [ " X_ARG " ," W_ARG " ], \"new\": 0"},
     exchange_arguments,
     {"[ " X_ARG " ," W_ARG " ]",
      "[ {\"as_tensor\": {\"name\": \"w\"}} ,{\"as_tensor\": {\"name\": \"x\"}} ]"}},
    {{"\"args\": [" X_ARG ", " W_ARG "]", "\"args\": [ " X_ARG " ," W_ARG " ]"},
     use_a_number,
     {"," W_ARG " ]", ",{\"as_int\": 7} ]"}},
    {{X_ARG, "{\"as_int\": null, \"as_tensor\": {\"name\": \"x\"}}"},
     use_a_number,
     {W_ARG, "{\"as_int\": 7}"}},
    {{"\"args\": [" X_ARG ", " W_ARG "]", "\"args\": [ " X_ARG " ," W_ARG " ]"},
     drop_an_argument,
     {"[ " X_ARG " ," W_ARG " ]", "[" X_ARG "]"}},
    {{"\"symint_values\": []", "\"symint_values\": [ ], \"new\": {\"nodes\": [1]}"},
     drop_the_node,
     {NULL, NULL}},
    {{EARLY_VALUE("y"), "{ \"meta\": " EARLY_META ", \"name\": \"y\"}"},
     widen,
     {"{ \"meta\": {\"dtype\": \"f32\"", "{ \"meta\": {\"dtype\": \"f64\""}},
    {{"\"layout\": \"strided\"", "\"layout\": 1, \"new\": [1,2]"},
     resize,
     {"\"sizes\": [{\"as_int\": 2}]", "\"sizes\": [{\"as_int\": 3}]"}},
    {{"\"sizes\": [{\"as_int\": 2}]", "\"sizes\": [{\"as_sym\": null, \"as_int\": 2}]"},
     name_a_size,
     {"[{\"as_sym\": null, \"as_int\": 2}]", "[{\"as_sym\": \"s0\"}]"}},
    {{EARLY_VALUE("w"), "{\"meta\" : " EARLY_META " ,\"name\": \"w\"}"},
     need_no_gradient,
     {"{\"meta\" : {\"dtype\": \"f32\", \"sizes\": [{\"as_int\": 2}], \"requires_grad\": true",
      "{\"meta\" : {\"dtype\": \"f32\", \"sizes\": [{\"as_int\": 2}], \"requires_grad\": "
      "false"}},
    {{"\"metadata\": {}, \"par", "\"metadata\": { \"a\": \"1\", \"b\" :\"2\"}, \"par"},
     drop_metadata,
     {"{ \"a\": \"1\", \"b\" :\"2\"}", "{ \"b\" :\"2\"}"}},
    {{"\"metadata\": {}, \"par", "\"metadata\": {\"a\": \"1\", \"b\" :\"2\"}, \"par"},
     drop_all_metadata,
     {"{\"a\": \"1\", \"b\" :\"2\"}", "{}"}},
    {{"\"metadata\": {}, \"par", "\"metadata\": {" MANY "\"13\"}, \"par"},
     change_metadata,
     {MANY "\"13\"", MANY "\"new\""}},
    {{"\"metadata\": {}, \"par", "\"metadata\": {" MANY "\"13\", \"n\": \"14\"}, \"par"},
     drop_metadata,
     {"{\"a\": \"1\",\"b\"", "{\"b\""}},
    {{"\"metadata\": {}, \"par", "\"metadata\": {" MANY "\"13\"}, \"par"},
     add_metadata,
     {"\"13\"}", "\"13\", \"n\": \"14\"}"}},
    {{"\"metadata\": {}, \"par", "\"metadata\": {" MANY "\"13\"}, \"par"},
     drop_metadata,
     {"{\"a\": \"1\",\"b\"", "{\"b\""}},
    {{"\"stack_trace\": \"\", ", "\"stack_trace\" : \"\" , \"why\": \"]}\", "},
     retrace,
     {"\"stack_trace\" : \"\" ", "\"stack_trace\" : \"line 1\" "}},
    {{EARLY_VALUES("x", "y", "w"),
      EARLY_VALUE("x") " ," EARLY_VALUE("y") ", " EARLY_VALUE("w") ", " EARLY_VALUE("z")},
     drop_a_value,
     {", " EARLY_VALUE("z"), ""}},
    {{EARLY_VALUES("x", "y", "w"), EARLY_VALUE("w") " ," EARLY_VALUE("x") ", " EARLY_VALUE("y")},
     add_values,
     {EARLY_VALUE("y") "]", EARLY_VALUE("y") ", " EARLY_VALUE("u") ", " EARLY_VALUE("v") "]"}},
    {{"\"symint_values\": []",
      "\"symint_values\": [{\"value\" :{\"as_sym\": \"s0\"}, \"name\": \"s\"} ]"},
     change_the_symbol,
     {"{\"as_sym\": \"s0\"}", "{\"as_sym\": \"s1\"}"}},
};

/* S002-77, S002-108, S002-111, S002-117: what was changed is written as we write it; around it
 * the form stands, white space, order, numbers for names and keys that no schema has. */
static void it_keeps_the_form_around_changes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        const char *form = early_json(changes[i].form[0], changes[i].form[1]);
        exg_program *p = open_text(form);
        char *text;

        assert_non_null(p->early_form);
        changes[i].change(p);
        text = saved_text(p);
        if (changes[i].was[0] != NULL) {
            assert_string_equal(text, early_with(form, changes[i].was[0], changes[i].was[1]));
        } else { /* nothing but the nodes */
            const char *nodes = strstr(form, "{\"target\"");
            const char *behind = strstr(nodes, "], \"tensor_values\"");
            char expected[4096];

            snprintf(expected, sizeof(expected), "%.*s%s", (int)(nodes - form), form, behind);
            assert_string_equal(text, expected);
        }
        free(text);
        exg_program_destroy(p);
    }
}

/* S002-117: two names at once, each in all its places. */
static void it_follows_two_names(void **state)
{
    const char *form = early_json(EARLY_VALUES("x", "y", "w"), EARLY_VALUES("w", "y", "x"));
    exg_program *p = open_text(form);
    char expected[8192] = "";
    char *text;

    (void)state;
    for (const char *at = form; *at != '\0'; at++) {
        bool is_name = strncmp(at, "\"x\"", 3) == 0 || strncmp(at, "\"y\"", 3) == 0;

        snprintf(expected + strlen(expected), sizeof(expected) - strlen(expected),
                 is_name ? "\"%c\"" : "%c", is_name ? (at[1] == 'x' ? 'a' : 'b') : *at);
        at += is_name ? 2 : 0;
    }
    rename_all(p);
    text = saved_text(p);
    assert_string_equal(text, expected);
    free(text);
    exg_program_destroy(p);
}

/* S002-117: so it does beside what the early schema cannot say, which is carried. */
static void it_keeps_the_form_beside_what_is_carried(void **state)
{
    const char *form = early_with(early_add, "\"graph\": ", "\"graph\"  :\n ");
    exg_program *p = open_text(form);
    size_t graph = (size_t)(strstr(form, "\"graph\"  :\n ") - form);
    char *text;

    (void)state;
    p->torch_version = "2.13.0";
    text = saved_text(p);
    assert_non_null(strstr(text, "exg.carry"));
    assert_memory_equal(text, form, graph + 12);
    free(text);
    exg_program_destroy(p);
}

/* S002-117: a form that is another program's counts for nothing. */
static void it_takes_no_form_of_another(void **state)
{
    static const char *const targets[] = {"aten.mul.Tensor", "aten.add.Tensor"};
    exg_program *other = open_text(early_with(early_json("\"f32\"", "7"), "\"m\"", "\"other\""));

    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *good = early_with(early_add, "aten.add.Tensor", targets[i]);
        exg_program *p = open_text(early_with(good, "\"Internal\"", "1"));
        char expected[8192];
        char *text;

        p->early_form = other->early_form;
        p->graph->nodes[0].inputs[1].arg = (exg_argument){.kind = EXG_ARGUMENT_NONE};
        snprintf(expected, sizeof(expected), "%s", early_with(good, W_ARG, "{\"as_none\": true}"));
        text = saved_text(p);
        assert_null(strstr(text, "exg.carry"));
        assert_null(strstr(text, "other"));
        exg_program_destroy(open_text(text));
        free(text);
        exg_program_destroy(p);
    }
    exg_program_destroy(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_follows_changes),
        cmocka_unit_test(it_adds_what_is_new),
        cmocka_unit_test(it_keeps_the_form_around_changes),
        cmocka_unit_test(it_follows_two_names),
        cmocka_unit_test(it_keeps_the_form_beside_what_is_carried),
        cmocka_unit_test(it_takes_no_form_of_another),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
