/* early_values.c - what an early file says is what the model holds: enums, unions, views, specs. */
#include "tests/export/early_maker.h"
#include "tests/export/exg_folder.h"

#include <exg/signature.h>
#include <exg/weights.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* S002-18, S002-50, S002-51, S002-52, S002-108: the members of enums by the seed's numbers. */
static void it_reads_enums_by_number(void **state)
{
    static const struct {
        const char *number, *name;
    } rows[] = {
        {"{\"as_memory_format\": 1}", "{\"as_memory_format\": \"contiguous_format\"}"},
        {"{\"as_memory_format\": 2}", "{\"as_memory_format\": \"channels_last\"}"},
        {"{\"as_memory_format\": 3}", "{\"as_memory_format\": \"channels_last_3d\"}"},
        {"{\"as_memory_format\": 4}", "{\"as_memory_format\": \"preserve_format\"}"},
        {"{\"as_scalar_type\": 6}", "{\"as_scalar_type\": \"f16\"}"},
        {"{\"as_layout\": 7}", "{\"as_layout\": \"_mkldnn\"}"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_program *p =
            open_text(early_json("{\"as_tensor\": {\"name\": \"w\"}}", rows[i].number));
        exg_program *q = open_text(early_json("{\"as_tensor\": {\"name\": \"w\"}}", rows[i].name));

        assert_true(exg_graph_equal(p->graph, q->graph));
        exg_program_destroy(p);
        exg_program_destroy(q);
    }
}

/* S002-26, S002-44, S002-54: set is what is not null; an empty list keeps its kind; 1 is 1.0. */
static void it_takes_what_is_not_null_as_set(void **state)
{
    static const struct {
        const char *text;
        exg_argument_kind kind;
    } rows[] = {
        {"{\"as_none\": false}", EXG_ARGUMENT_NONE},
        {"{\"as_none\": true}", EXG_ARGUMENT_NONE},
        {"{\"as_int\": 0}", EXG_ARGUMENT_INT},
        {"{\"as_bool\": false}", EXG_ARGUMENT_BOOL},
        {"{\"as_float\": 0.0}", EXG_ARGUMENT_FLOAT},
        {"{\"as_float\": 1}", EXG_ARGUMENT_FLOAT},
        {"{\"as_str\": \"\"}", EXG_ARGUMENT_STRING},
        {"{\"as_tensors\": []}", EXG_ARGUMENT_TENSORS},
        {"{\"as_symints\": []}", EXG_ARGUMENT_SYM_INTS},
        {"{\"as_ints\": []}", EXG_ARGUMENT_INTS},
        {"{\"as_floats\": []}", EXG_ARGUMENT_FLOATS},
        {"{\"as_bools\": []}", EXG_ARGUMENT_BOOLS},
        {"{\"as_floats\": [1, 2]}", EXG_ARGUMENT_FLOATS},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char args[128];
        exg_program *p;
        const exg_argument *arg;

        snprintf(args, sizeof(args), "[%s]", rows[i].text);
        p = open_text(early_node("mine.op.default", args, "\"kwargs\": {}", "\"outputs\": []"));
        arg = &p->graph->nodes[0].inputs[0].arg;
        assert_int_equal(arg->kind, rows[i].kind);
        if (strcmp(rows[i].text, "{\"as_float\": 1}") == 0) {
            assert_true(arg->as_float == 1.0);
        }
        if (arg->count == 2) {
            assert_true(arg->as_floats[0] == 1.0 && arg->as_floats[1] == 2.0);
        }
        exg_program_destroy(p);
    }
}

/* What `.pt2` says of the first value, up to `end`. */
static void expect_in_pt2(const exg_program *p, const char *part)
{
    uint8_t *data;
    size_t length;

    assert_int_equal(exg_save(p, in_folder("l.pt2"), EXG_FORMAT_PT2, NULL, NULL), EXG_OK);
    data = read_file("l.pt2", &length);
    if (memmem(data, length, part, strlen(part)) == NULL) {
        fail_msg("no %s", part);
    }
    free(data);
}

/* S002-15, S002-16, S002-17, S002-62: layouts of values, by name and by the seed's number;
 * PyTorch's numbers of today are others. */
static void it_maps_layouts_by_name(void **state)
{
    static const struct {
        const char *name;
        int early, current;
    } rows[] = {
        {"strided", 1, 7},    {"sparse_coo", 2, 1}, {"sparse_csr", 3, 2}, {"sparse_csc", 4, 3},
        {"sparse_bsr", 5, 4}, {"sparse_bsc", 6, 5}, {"_mkldnn", 7, 6},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char layout[64], current[256];
        exg_program *p;

        snprintf(layout, sizeof(layout), "\"layout\": \"%s\"", rows[i].name);
        expect_ours(early_json("\"layout\": \"strided\"", layout));
        snprintf(layout, sizeof(layout), "\"layout\": %d", rows[i].early);
        p = open_text(early_json("\"layout\": \"strided\"", layout));
        assert_string_equal(exg_layout_name(p->graph->values[0].tensor->layout), rows[i].name);
        snprintf(current, sizeof(current),
                 "\"x\": {\"dtype\": 7, \"sizes\": [{\"as_int\": 2}], \"requires_grad\": true, "
                 "\"device\": {\"type\": \"cpu\", \"index\": null}, \"strides\": "
                 "[{\"as_int\": 1}], "
                 "\"storage_offset\": {\"as_int\": 0}, \"layout\": %d}",
                 rows[i].current);
        expect_in_pt2(p, current);
        exg_program_destroy(p);
    }
}

/* S002-60, S002-61, S002-64: a tensor is a view of its storage, by strides and offset. */
static void it_builds_tensors_from_storages(void **state)
{
    static const float expected[] = {1, 3, 5, 2, 4, 6};
    const char *text = early_json(
        "{\"buffer\": \"P4AAAMAAAAA=\"}}, \"meta\": {\"dtype\": \"f32\", \"sizes\": "
        "[{\"as_int\": 2}], "
        "\"requires_grad\": true, \"device\": {\"type\": \"cpu\", \"index\": -1}, \"strides\": "
        "[{\"as_int\": 1}], \"storage_offset\": {\"as_int\": 0}",
        /* 0 0 0 0 0 1 2 3 4 5 6, of which 2 by 3 from the fifth on, columns first */
        "{\"buffer\": \"AAAAAAAAAAAAAAAAAAAAAAAAAAA/gAAAQAAAAEBAAABAgAAAQKAAAEDAAAA=\"}}, "
        "\"meta\": "
        "{\"dtype\": \"f32\", \"sizes\": [{\"as_int\": 2}, {\"as_int\": 3}], "
        "\"requires_grad\": true, "
        "\"device\": {\"type\": \"cpu\", \"index\": -1}, \"strides\": [{\"as_int\": 1}, "
        "{\"as_int\": 2}], \"storage_offset\": {\"as_int\": 5}");
    exg_program *p = open_text(text);
    float got[6];

    (void)state;
    assert_int_equal(p->weights->storages[0].length, 44);
    assert_int_equal(exg_weight_read(p->weights, &p->weights->items[0], got, sizeof(got), NULL),
                     EXG_OK);
    assert_memory_equal(got, expected, sizeof(got));
    exg_program_destroy(p);
    expect_ours(text);
}

#define META                                                                                       \
    "{\"dtype\": \"f32\", \"sizes\": [{\"as_int\": 2}], \"requires_grad\": true, \"device\": "     \
    "{\"type\": \"cpu\", \"index\": -1}, \"strides\": [{\"as_int\": 1}], \"storage_offset\": "     \
    "{\"as_int\": 0}, \"layout\": \"strided\"}"
#define TENSOR                                                                                     \
    "{\"storage\": {\"data_location\": \"Internal\", \"data\": {\"buffer\": "                      \
    "\"P4AAAMAAAAA=\"}}, "                                                                         \
    "\"meta\": " META "}"

/* S002-105: of a perceptron of two layers, in the order of the file: parameters, buffers, the
 * file's own inputs, among which one parameter stands already. */
static void it_lifts_a_perceptron(void **state)
{
    static const struct {
        const char *name;
        exg_input_kind kind;
        bool implicit;
        exg_tristate persistent;
    } expected[] = {
        {"up.weight", EXG_INPUT_PARAMETER, true, EXG_UNSET},
        {"down.weight", EXG_INPUT_PARAMETER, true, EXG_UNSET},
        {"down.bias", EXG_INPUT_PARAMETER, true, EXG_UNSET},
        {"scale", EXG_INPUT_BUFFER, true, EXG_TRUE},
        {"x", EXG_INPUT_USER, false, EXG_UNSET},
        {"up.bias", EXG_INPUT_PARAMETER, false, EXG_UNSET},
    };
    exg_program *p = open_text(early_with(
        early_with(early_json("\"inputs\": [{\"name\": \"x\"}]",
                              "\"inputs\": [{\"name\": \"x\"}, {\"name\": \"up.bias\"}]"),
                   "\"buffers\": {}", "\"buffers\": {\"scale\": " TENSOR "}"),
        "\"parameters\": {",
        "\"parameters\": {\"up.weight\": " TENSOR ", \"up.bias\": " TENSOR
        ", \"down.weight\": " TENSOR ", \"down.bias\": " TENSOR "}, \"unknown\": {"));

    (void)state;
    assert_int_equal(p->signature.input_count, 6);
    assert_int_equal(p->graph->input_count, 6);
    for (uint32_t i = 0; i < 6; i++) {
        const exg_input_spec *spec = &p->signature.inputs[i];

        assert_string_equal(spec->arg.name, expected[i].name);
        assert_string_equal(p->graph->values[p->graph->inputs[i].as_tensor].name, expected[i].name);
        assert_int_equal(spec->kind, expected[i].kind);
        assert_int_equal(spec->implicit, expected[i].implicit);
        assert_int_equal(spec->persistent, expected[i].persistent);
        if (expected[i].kind == EXG_INPUT_USER) {
            assert_null(spec->target);
        } else {
            assert_string_equal(spec->target, expected[i].name);
        }
    }
    exg_program_destroy(p);
}

/* S002-117: an argument of another kind is written in our way, the rest as it was. */
static void it_writes_arguments_that_are_new(void **state)
{
    static const char was[] = "{\"as_tensor\": {\"name\": \"w\"}}]";
    static int64_t ints[] = {0, -3};
    static bool bools[] = {true, false};
    static double floats[] = {0.5, 1.0};
    static exg_value_id ids[] = {0, 0};
    static const struct {
        exg_argument arg;
        const char *text;
    } rows[] = {
        {{.kind = EXG_ARGUMENT_INTS, .count = 2, .as_ints = ints}, "{\"as_ints\": [0, -3]}]"},
        {{.kind = EXG_ARGUMENT_BOOLS, .count = 2, .as_bools = bools},
         "{\"as_bools\": [true, false]}]"},
        {{.kind = EXG_ARGUMENT_FLOATS, .count = 2, .as_floats = floats},
         "{\"as_floats\": [0.5, 1.0]}]"},
        {{.kind = EXG_ARGUMENT_INTS}, "{\"as_ints\": []}]"},
        {{.kind = EXG_ARGUMENT_STRING, .as_string = "a\"b"}, "{\"as_str\": \"a\\\"b\"}]"},
        {{.kind = EXG_ARGUMENT_NONE}, "{\"as_none\": true}]"},
        {{.kind = EXG_ARGUMENT_DEVICE, .as_device = {"cuda", 1}},
         "{\"as_device\": {\"type\": \"cuda\", \"index\": 1}}]"},
        {{.kind = EXG_ARGUMENT_TENSORS, .count = 2, .as_tensors = ids},
         "{\"as_tensors\": [{\"name\": \"x\"}, {\"name\": \"x\"}]}]"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *before = early_json("\"Internal\"", "1");
        exg_program *p = open_text(before);
        char *text;

        ids[0] = ids[1] = exg_graph_find_value(p->graph, "x");
        p->graph->nodes[0].inputs[1].arg = rows[i].arg;
        text = saved_text(p);
        assert_string_equal(text, early_with(before, was, rows[i].text));
        free(text);
        exg_program_destroy(p);
    }
}

/* S002-106: what the signature calls a user's input is none that is lifted, whatever its target. */
static void it_lifts_by_kind(void **state)
{
    exg_program *p = open_text(early_add);
    char *text;

    (void)state;
    assert_int_equal(p->signature.inputs[1].kind, EXG_INPUT_USER);
    p->signature.inputs[1].target = "w";
    text = saved_text(p);
    assert_non_null(strstr(text, "\"inputs\": [{\"name\": \"x\"}]"));
    assert_non_null(strstr(text, "\"parameters\": {\"w\": "));
    free(text);
    exg_program_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_reads_enums_by_number),
        cmocka_unit_test(it_takes_what_is_not_null_as_set),
        cmocka_unit_test(it_maps_layouts_by_name),
        cmocka_unit_test(it_builds_tensors_from_storages),
        cmocka_unit_test(it_lifts_a_perceptron),
        cmocka_unit_test(it_writes_arguments_that_are_new),
        cmocka_unit_test(it_lifts_by_kind),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
