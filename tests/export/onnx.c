/* onnx.c - models of ONNX that break a rule. What its own library wrote is in weights_file.c. */
#include "tests/export/exg_folder.h"

#include <exg/formats.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

typedef struct bytes {
    uint8_t data[600];
    size_t length;
} bytes;

/* A field that holds bytes, of fewer than 128. */
static void put_bytes(bytes *b, uint32_t number, const void *data, size_t length)
{
    b->data[b->length++] = (uint8_t)(number << 3 | 2);
    b->data[b->length++] = (uint8_t)length;
    memcpy(b->data + b->length, data, length);
    b->length += length;
}

static void put_number(bytes *b, uint32_t number, uint8_t value)
{
    b->data[b->length++] = (uint8_t)(number << 3);
    b->data[b->length++] = value;
}

/* A model of one initializer. */
static bytes model_of(const bytes *tensor)
{
    bytes graph = {{0}, 0};
    bytes model = {{0}, 0};

    put_bytes(&graph, 5, tensor->data, tensor->length);
    put_number(&model, 1, 8);
    put_bytes(&model, 7, graph.data, graph.length);
    return model;
}

static bytes tensor_of(uint8_t type, const uint8_t *dims, size_t rank)
{
    bytes tensor = {{0}, 0};

    put_number(&tensor, 2, type);
    for (size_t d = 0; d < rank; d++) {
        put_number(&tensor, 1, dims[d]);
    }
    put_bytes(&tensor, 8, "w", 1);
    return tensor;
}

static exg_status open_model(const bytes *model, exg_weights **weights, exg_error *err)
{
    uint8_t *copy = malloc(model->length); /* of its size, for the sanitizers */
    exg_weights *made = NULL;
    exg_status status;

    memcpy(copy, model->data, model->length);
    exg_error_clear(err);
    status = exg_weights_open_memory(copy, model->length, NULL, &made, NULL, err);
    if (weights != NULL) {
        *weights = made;
    } else {
        exg_weights_release(made);
    }
    free(copy);
    return status;
}

static void it_compares_data_with_shapes(void **state)
{
    static const struct {
        uint8_t type, dims[3];
        size_t rank;
        uint32_t field; /* of the data; 0: none */
        const char *data;
        size_t length;
        const char *code;
    } rows[] = {
        {1, {1}, 1, 9, "abcd", 4, ""},
        {1, {1}, 1, 4, "abcd", 4, ""},
        {1, {0}, 1, 0, "", 0, ""},
        {7, {2}, 1, 7, "\1\2", 2, ""},
        {22, {3}, 1, 9, "ab", 2, ""}, /* three of four bits */
        {1, {1}, 1, 9, "abc", 3, "ONX-TENSOR"},
        {1, {1}, 1, 9, "abcde", 5, "ONX-TENSOR"},
        {1, {2}, 1, 4, "abcd", 4, "ONX-TENSOR"},
        {1, {1}, 1, 4, "abcdefgh", 8, "ONX-TENSOR"},
        {1, {1}, 1, 4, "abc", 3, "ONX-TENSOR"},
        {1, {1}, 1, 7, "\1", 1, "ONX-TENSOR"}, /* where those of others lie */
        {1, {1}, 1, 0, "", 0, "ONX-TENSOR"},
        {7, {2}, 1, 7, "\1\x80", 2, "ONX-TENSOR"}, /* a number that does not end */
        {1, {127, 127, 127}, 3, 0, "", 0, "ONX-TENSOR"},
    };

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        bytes tensor = tensor_of(rows[r].type, rows[r].dims, rows[r].rank);
        bytes model;
        exg_error err;

        if (rows[r].field != 0) {
            put_bytes(&tensor, rows[r].field, rows[r].data, rows[r].length);
        }
        model = model_of(&tensor);
        if ((open_model(&model, NULL, &err) == EXG_OK) != (rows[r].code[0] == '\0') ||
            strcmp(err.code, rows[r].code) != 0) {
            fail_msg("row %zu: %s %s", r, err.code, err.message);
        }
    }
}

static void it_lists_what_it_cannot_give(void **state)
{
    static const struct {
        uint8_t type;
        uint32_t field;
        const char *kind;
    } rows[] = {
        {99, 9, "data type 99 of ONNX"},
        {0, 9, "data type 0 of ONNX"},
        {8, 6, "text"},
        {1, 3, "a segment of a tensor"},
    };
    static const uint8_t one[] = {1};

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        bytes tensor = tensor_of(rows[r].type, one, 1);
        exg_weights *weights;
        bytes model;
        exg_error err;

        put_bytes(&tensor, rows[r].field, "abcd", 4);
        model = model_of(&tensor);
        assert_int_equal(open_model(&model, &weights, &err), EXG_OK);
        assert_int_equal(weights->skipped_count, 1);
        assert_string_equal(weights->skipped[0].name, "w");
        assert_string_equal(weights->skipped[0].kind, rows[r].kind);
        exg_weights_release(weights);
    }
}

/* Files that a model names are its neighbours: by name, and by where links lead. */
static void it_keeps_external_data_in_its_folder(void **state)
{
    static const struct {
        const char *location, *offset;
        const char *opens, *reads; /* codes */
    } rows[] = {
        {"w.data", "2", "", ""},
        {"w.data", "9", "", "IO-RANGE"},
        {"gone.data", "0", "", "IO-OPEN"},
        {"../w.data", "0", "", "WGT-LOC"},
        {"/etc/passwd", "0", "", "WGT-LOC"},
        {"link.data", "0", "", "WGT-LINK"},
        {"w.data", "-1", "ONX-TENSOR", ""},
        {"w.data", "x", "ONX-TENSOR", ""},
        {"w.data", "18446744073709551615", "ONX-TENSOR", ""},
    };
    static const uint8_t four[] = {4};

    (void)state;
    write_file("w.data", "0123456789", 10);
    assert_int_equal(symlink("/etc/passwd", in_folder("link.data")), 0);
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        bytes tensor = tensor_of(2, four, 1);
        bytes pair[2] = {{{0}, 0}, {{0}, 0}};
        exg_weights *weights = NULL;
        char data[4];
        bytes model;
        exg_error err;

        put_bytes(&pair[0], 1, "location", 8);
        put_bytes(&pair[0], 2, rows[r].location, strlen(rows[r].location));
        put_bytes(&pair[1], 1, "offset", 6);
        put_bytes(&pair[1], 2, rows[r].offset, strlen(rows[r].offset));
        put_bytes(&tensor, 13, pair[0].data, pair[0].length);
        put_bytes(&tensor, 13, pair[1].data, pair[1].length);
        put_number(&tensor, 14, 1);
        model = model_of(&tensor);
        write_file("m.onnx", model.data, model.length);
        exg_error_clear(&err);
        exg_ignore(exg_weights_open(in_folder("m.onnx"), NULL, &weights, NULL, &err));
        assert_string_equal(err.code, rows[r].opens);
        if (weights != NULL) {
            exg_ignore(exg_weight_read(weights, &weights->items[0], data, 4, &err));
            assert_string_equal(err.code, rows[r].reads);
            assert_true(rows[r].reads[0] != '\0' || memcmp(data, "2345", 4) == 0);
        }
        exg_weights_release(weights);
        if (weights != NULL) { /* of a model in memory there is no folder */
            assert_int_equal(open_model(&model, &weights, &err), EXG_OK);
            assert_string_equal(weights->skipped[0].kind, "external data, of a model in memory");
            exg_weights_release(weights);
        }
    }
    empty_folder();
}

/* Graphs in graphs, as the branches of "If" are. */
static void it_bounds_graphs_in_graphs(void **state)
{
    bytes graph = {{0}, 0};
    bytes model = {{0}, 0};
    exg_error err;

    (void)state;
    put_number(&model, 1, 8);
    for (int i = 0; i < 12; i++) { /* 12 levels fit in lengths of one byte */
        bytes attribute = {{0}, 0};
        bytes node = {{0}, 0};
        bytes outer = {{0}, 0};

        put_bytes(&attribute, 6, graph.data, graph.length);
        put_bytes(&node, 5, attribute.data, attribute.length);
        put_bytes(&outer, 1, node.data, node.length);
        graph = outer;
    }
    put_bytes(&model, 7, graph.data, graph.length);
    assert_int_equal(open_model(&model, NULL, &err), EXG_UNSUPPORTED);
    assert_string_equal(err.code, "ONX-NONE");
}

static void it_refuses_deep_graphs(void **state)
{
    static uint8_t text[4000];
    size_t begin = sizeof(text);
    exg_weights *weights = NULL;
    exg_error err;

    /* From the inside out, each in a field of three bytes: 10 = attribute g, node attribute. */
    (void)state;
    for (int i = 0; i < 33 * 3 + 1; i++) {
        static const uint32_t numbers[] = {6, 5, 1};
        size_t length = sizeof(text) - begin;
        uint32_t number = i == 33 * 3 ? 7 : numbers[i % 3];

        text[--begin] = (uint8_t)(length >> 7);
        text[--begin] = (uint8_t)(length | 0x80);
        text[--begin] = (uint8_t)(number << 3 | 2);
    }
    text[--begin] = 8;
    text[--begin] = 1 << 3;
    exg_error_clear(&err);
    assert_int_equal(
        exg_weights_open_memory(text + begin, sizeof(text) - begin, NULL, &weights, NULL, &err),
        EXG_LIMIT);
    assert_string_equal(err.code, "ONX-DEPTH");
}

static void it_refuses_what_is_no_whole_message(void **state)
{
    static const uint8_t four[] = {4};
    bytes tensor = tensor_of(2, four, 1);
    bytes model;
    exg_error err;

    (void)state;
    put_bytes(&tensor, 9, "abcd", 4);
    tensor.data[tensor.length - 5] = 99; /* a length past the tensor's end */
    model = model_of(&tensor);
    assert_int_equal(open_model(&model, NULL, &err), EXG_MALFORMED);
    assert_string_equal(err.code, "ONX-PROTO");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_compares_data_with_shapes),
        cmocka_unit_test(it_lists_what_it_cannot_give),
        cmocka_unit_test(it_keeps_external_data_in_its_folder),
        cmocka_unit_test(it_bounds_graphs_in_graphs),
        cmocka_unit_test(it_refuses_deep_graphs),
        cmocka_unit_test(it_refuses_what_is_no_whole_message),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
