/* early.c - the first export schema as JSON: rows of tests/seeds-002.md.
 *
 * Texts and bytes are those of the rows, computed with Python's struct and base64. */
#include "tests/export/early_maker.h"
#include "tests/export/exg_folder.h"

#include <exg/operators.h>
#include <exg/signature.h>
#include <exg/verify.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* ---- what is good ------------------------------------------------------------------------ */

/* S002-105: the specs of an early file; S002-104: what it is; S002-85: names of arguments. */
static void it_lifts_parameters_and_buffers(void **state)
{
    exg_program *p = NULL;
    exg_file_info *info = NULL;

    (void)state;
    assert_int_equal(exg_open_memory(early_add, strlen(early_add), NULL, &p, &info, NULL), EXG_OK);
    assert_int_equal(info->format, EXG_FORMAT_EARLY_JSON);
    exg_file_info_free(info);
    assert_int_equal(p->origin, EXG_ORIGIN_EARLY);
    assert_int_equal(p->schema_major, 0);
    assert_string_equal(p->name, "m");
    assert_int_equal(p->signature.input_count, 2);
    assert_int_equal(p->signature.inputs[0].kind, EXG_INPUT_PARAMETER);
    assert_string_equal(p->signature.inputs[0].target, "w");
    assert_string_equal(p->signature.inputs[0].arg.name, "w");
    assert_true(p->signature.inputs[0].implicit);
    assert_int_equal(p->signature.inputs[1].kind, EXG_INPUT_USER);
    assert_int_equal(p->signature.outputs[0].kind, EXG_OUTPUT_USER);
    assert_string_equal(p->graph->nodes[0].target, "torch.ops.aten.add.Tensor");
    assert_string_equal(p->graph->nodes[0].inputs[0].name, "self"); /* S002-85 */
    assert_string_equal(p->graph->nodes[0].inputs[1].name, "other");
    assert_int_equal(p->weights->storages[0].byte_order, EXG_BIG_ENDIAN);
    exg_program_destroy(p);
}

/* S002-100: a buffer stays one; persistent is true. */
static void it_keeps_buffers_apart(void **state)
{
    const char *tail = strstr(early_add, "\"w\": {\"storage\"");
    char moved[4096];
    exg_program *p;

    (void)state;
    snprintf(moved, sizeof(moved), "%.*s\"parameters\": {}, \"buffers\": {%.*s}}",
             (int)(strstr(early_add, "\"parameters\"") - early_add), early_add,
             (int)(strlen(tail) - strlen("}, \"buffers\": {}}")), tail);
    p = open_text(moved);
    assert_int_equal(p->signature.inputs[0].kind, EXG_INPUT_BUFFER);
    assert_int_equal(p->signature.inputs[0].persistent, EXG_TRUE);
    exg_program_destroy(p);
    expect_ours(moved);
}

/* S002-107, S002-111: the same bytes, big endian, base64; S002-20, S002-21: devices; S002-58;
 * S002-73, S002-74; S002-80, S002-81, S002-89: metadata of nodes; S002-96, S002-98. */
static void it_writes_what_it_read(void **state)
{
    (void)state;
    expect_ours(early_add);
    expect_ours(early_json("\"name\": \"m\"", "\"name\": \"\""));                /* S002-96 */
    expect_ours(early_json("\"metadata\": {}", "\"metadata\": {\"a\": \"b\"}")); /* S002-98 */
    expect_ours(early_json("\"stack_trace\": \"\"", "\"stack_trace\": \"one\\ntwo\"")); /* -80 */
    expect_ours(
        early_json("\"nn_module_stack\": \"\"", "\"nn_module_stack\": \"a,b[c];d\"")); /* -81 */
    expect_ours(early_json("\"type\": \"cpu\"", "\"type\": \"tpu:new\""));             /* S002-20 */
    expect_ours(early_json("\"index\": -1", "\"index\": 3"));                          /* S002-21 */
    expect_ours(early_json("\"requires_grad\": true", "\"requires_grad\": false"));    /* S002-58 */
}

/* S002-82: a key of `extra` that has a meaning elsewhere. */
static void it_keeps_extra_keys_that_collide(void **state)
{
    const char *text =
        early_json("\"extra\": {}", "\"extra\": {\"stack_trace\": \"not mine\", \"b\": \"1\"}");
    exg_program *p = open_text(text);
    const exg_string_map *map = &p->graph->nodes[0].metadata;

    (void)state;
    assert_int_equal(map->count, 4);
    assert_string_equal(map->items[2].key, "exg.extra.stack_trace");
    assert_string_equal(map->items[2].value, "not mine");
    exg_program_destroy(p);
    expect_ours(text);
}

/* S002-26, S002-27, S002-108: null members, numbers for names, another order. */
static void it_reads_every_variant_as_one_model(void **state)
{
    static const struct {
        const char *from, *to;
    } rows[] = {
        {"{\"as_int\": 2}", "{\"as_int\": 2, \"as_sym\": null}"},
        {"\"f32\"", "7"},
        {"\"strided\"", "1"},
        {"\"Internal\"", "1"},
        {"{\"as_tensor\": {\"name\": \"x\"}}",
         "{\"as_none\": null, \"as_tensor\": {\"name\": \"x\"}, \"as_int\": null}"},
        {"{\"name\": \"m\", \"graph\"", "\n {\t\"graph\""},
        {"\"buffers\": {}}", "\"buffers\": {} }\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_program *expected = open_text(early_add);
        const char *text = early_json(rows[i].from, rows[i].to);
        exg_program *p;
        char difference[256];

        if (strstr(rows[i].to, "\n {") != NULL) { /* name goes to the end */
            static char moved[8192];

            snprintf(moved, sizeof(moved), "%.*s, \"name\": \"m\"}", (int)strlen(text) - 1, text);
            text = moved;
        }
        p = open_text(text);
        if (!exg_program_equal(expected, p, true, difference)) {
            fail_msg("%s: %s", rows[i].to, difference);
        }
        exg_program_destroy(expected);
        exg_program_destroy(p);
    }
}

/* S002-83: a target spelt in full is the same operator, and spelt so again. */
static void it_remembers_how_targets_are_spelt(void **state)
{
    const char *text = early_json("\"aten.add.Tensor\"", "\"torch.ops.aten.add.Tensor\"");
    exg_program *p = open_text(text);
    exg_program *expected = open_text(early_add);

    (void)state;
    assert_true(exg_graph_equal(p->graph, expected->graph));
    exg_program_destroy(p);
    exg_program_destroy(expected);
    expect_itself(text);
}

/* S002-108: keys that no schema has are kept where they stand, those of null too. */
static void it_keeps_unknown_keys(void **state)
{
    static const struct {
        const char *from, *to;
    } rows[] = {
        {"\"buffers\": {}", "\"buffers\": {}, \"hash\": \"aa\\u00e9\", \"version\": [1, -2.5, "
                            "true, null, {}, 18446744073709551615]"},
        {"\"symint_values\": []", "\"symint_values\": [], \"0\": {\"0\": 1}"},
        {"{\"name\": \"y\"}", "{\"name\": \"y\", \"new\": false}"},
        {"\"layout\": \"strided\"", "\"layout\": \"strided\", \"is_cool\": true"},
        {"\"extra\": {}", "\"extra\": {}, \"from_node\": [{\"name\": \"a\"}]"},
        {"\"buffers\": {}", "\"buffers\": {}, \"gone\": null"},
        {"\"data\": {\"buffer\"", "\"data\": {\"why\": [1, \"]\"], \"buffer\""},
        {"\"symint_values\": []",
         "\"symint_values\": [], \"w\": {\"storage\": {\"data_location\": \"Internal\", "
         "\"data\": {\"buffer\": \"AA==\"}}}"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *text = early_json(rows[i].from, rows[i].to);
        exg_program *p = open_text(text);

        assert_int_equal(p->metadata.count, 0); /* they are no metadata of the program */
        exg_program_destroy(p);
        expect_itself(text);
    }
}

/* ---- dtypes and bytes -------------------------------------------------------------------- */

static const char *base64_of(const unsigned char *bytes, size_t length)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    static char text[64];
    size_t at = 0;

    for (size_t i = 0; i < length; i += 3) {
        unsigned group = (unsigned)bytes[i] << 16 |
                         (i + 1 < length ? (unsigned)bytes[i + 1] << 8 : 0) |
                         (i + 2 < length ? bytes[i + 2] : 0u);

        text[at++] = letters[group >> 18];
        text[at++] = letters[group >> 12 & 63];
        text[at++] = i + 1 < length ? letters[group >> 6 & 63] : '=';
        text[at++] = i + 2 < length ? letters[group & 63] : '=';
    }
    text[at] = '\0';
    return text;
}

/* `text` with every `from` replaced; malloc'ed. */
static char *everywhere(const char *text, const char *from, const char *to)
{
    char *out = calloc(2, strlen(text));
    const char *at;

    assert_true(out != NULL && strlen(to) <= 2 * strlen(from));
    for (; (at = strstr(text, from)) != NULL; text = at + strlen(from)) {
        sprintf(out + strlen(out), "%.*s%s", (int)(at - text), text, to);
    }
    strcat(out, text);
    return out;
}

/* S002-01, S002-02, S002-03, S002-04, S002-05, S002-06, S002-07, S002-08, S002-09, S002-10,
 * S002-11, S002-12, S002-13: each dtype by its name and number; S002-14: which are PyTorch's of
 * today; S002-56, S002-64: big endian bytes of two values. */
static void it_reads_big_endian_bytes_of_every_dtype(void **state)
{
    static const struct {
        const char *name;
        int number;
        const char *big, *little; /* hex */
    } rows[] = {
        {"u8", 1, "01ff", "01ff"},
        {"i8", 2, "ff02", "ff02"},
        {"i16", 3, "0001fffe", "0100feff"},
        {"i32", 4, "00000001fffffffe", "01000000feffffff"},
        {"i64", 5, "0000000000000001fffffffffffffffe", "0100000000000000feffffffffffffff"},
        {"f16", 6, "3c00c000", "003c00c0"},
        {"f32", 7, "3f800000c0000000", "0000803f000000c0"},
        {"f64", 8, "3ff0000000000000c000000000000000", "000000000000f03f00000000000000c0"},
        {"c32", 9, "3c00c0003c00c000", "003c00c0003c00c0"},
        {"c64", 10, "3f800000c00000003f800000c0000000", "0000803f000000c00000803f000000c0"},
        {"c128", 11, "3ff0000000000000c0000000000000003ff0000000000000c000000000000000",
         "000000000000f03f00000000000000c0000000000000f03f00000000000000c0"},
        {"b8", 12, "0100", "0100"},
        {"bf16", 13, "3f80c000", "803f00c0"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        unsigned char big[32], little[32], got[32];
        size_t bytes = strlen(rows[i].big) / 2;
        char meta[64], buffer[80];
        char *text;
        exg_program *p;

        for (size_t k = 0; k < bytes; k++) {
            unsigned value;

            assert_int_equal(sscanf(rows[i].big + 2 * k, "%2x", &value), 1);
            big[k] = (unsigned char)value;
            assert_int_equal(sscanf(rows[i].little + 2 * k, "%2x", &value), 1);
            little[k] = (unsigned char)value;
        }
        snprintf(meta, sizeof(meta), "\"dtype\": \"%s\"", rows[i].name);
        snprintf(buffer, sizeof(buffer), "\"buffer\": \"%s\"", base64_of(big, bytes));
        text = everywhere(early_json("\"buffer\": \"P4AAAMAAAAA=\"", buffer), "\"dtype\": \"f32\"",
                          meta);
        p = open_text(text);
        assert_int_equal(exg_dtype_export_number(p->weights->items[0].meta->dtype), rows[i].number);
        assert_int_equal(exg_weight_read(p->weights, &p->weights->items[0], got, bytes, NULL),
                         EXG_OK);
        assert_memory_equal(got, little, bytes); /* this host's order */
        exg_program_destroy(p);
        expect_ours(text);
        free(text);
    }
}

/* S002-11: a complex128 by its halves. */
static void it_turns_complex_numbers_by_halves(void **state)
{
    unsigned char bytes[16] = {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 14, 15, 16, 17, 18};
    const unsigned char expected[16] = {8, 7, 6, 5, 4, 3, 2, 1, 18, 17, 16, 15, 14, 13, 12, 11};

    (void)state;
    exg_bytes_swap(bytes, 16, EXG_DTYPE_C128);
    assert_memory_equal(bytes, expected, 16);
}

/* ---- arguments --------------------------------------------------------------------------- */

/* S002-26, S002-34, S002-35, S002-36, S002-37, S002-38, S002-39, S002-40, S002-41, S002-42,
 * S002-43, S002-44, S002-45, S002-46, S002-48, S002-50, S002-51, S002-52, S002-53, S002-54:
 * each member of Argument, with the values that look like nothing; S002-15, S002-16, S002-17,
 * S002-18: the enums; S002-85: of an operator that nobody knows; S002-87: as keywords. */
static void it_keeps_every_argument_as_it_is(void **state)
{
    static const char *const rows[] = {
        "{\"as_none\": true}",
        "{\"as_tensor\": {\"name\": \"x\"}}",
        "{\"as_tensors\": [{\"name\": \"x\"}, {\"name\": \"w\"}]}",
        "{\"as_tensors\": []}",
        "{\"as_symint\": {\"name\": \"s\"}}",
        "{\"as_symints\": [{\"name\": \"s\"}]}",
        "{\"as_symints\": []}",
        "{\"as_bool\": false}",
        "{\"as_bools\": [true, true, false]}",
        "{\"as_bools\": []}",
        "{\"as_int\": 0}",
        "{\"as_int\": -1}",
        "{\"as_ints\": []}",
        "{\"as_ints\": [-9223372036854775808, 9223372036854775807]}",
        "{\"as_float\": 0.0}",
        "{\"as_float\": -0.0}",
        "{\"as_float\": 1e-320}",
        "{\"as_float\": \"Infinity\"}",
        "{\"as_float\": \"NaN\"}",
        "{\"as_floats\": [0.5, -0.0, \"NaN\", \"-Infinity\"]}",
        "{\"as_floats\": []}",
        "{\"as_str\": \"\"}",
        "{\"as_str\": \"\\ud83d\\ude00\"}",
        "{\"as_scalar_type\": \"u8\"}",
        "{\"as_scalar_type\": \"i8\"}",
        "{\"as_scalar_type\": \"i16\"}",
        "{\"as_scalar_type\": \"i32\"}",
        "{\"as_scalar_type\": \"i64\"}",
        "{\"as_scalar_type\": \"f16\"}",
        "{\"as_scalar_type\": \"f32\"}",
        "{\"as_scalar_type\": \"f64\"}",
        "{\"as_scalar_type\": \"c32\"}",
        "{\"as_scalar_type\": \"c64\"}",
        "{\"as_scalar_type\": \"c128\"}",
        "{\"as_scalar_type\": \"b8\"}",
        "{\"as_scalar_type\": \"bf16\"}",
        "{\"as_memory_format\": \"contiguous_format\"}",
        "{\"as_memory_format\": \"channels_last\"}",
        "{\"as_memory_format\": \"channels_last_3d\"}",
        "{\"as_memory_format\": \"preserve_format\"}",
        "{\"as_layout\": \"strided\"}",
        "{\"as_layout\": \"sparse_coo\"}",
        "{\"as_layout\": \"sparse_csr\"}",
        "{\"as_layout\": \"sparse_csc\"}",
        "{\"as_layout\": \"sparse_bsr\"}",
        "{\"as_layout\": \"sparse_bsc\"}",
        "{\"as_layout\": \"_mkldnn\"}",
        "{\"as_device\": {\"type\": \"cpu\", \"index\": -1}}",
        "{\"as_device\": {\"type\": \"cuda\", \"index\": 0}}",
        "{\"as_gm\": {\"name\": \"branch\", \"graph\": {\"inputs\": [{\"name\": \"a\"}], "
        "\"outputs\": [{\"name\": \"a\"}], \"nodes\": [], \"tensor_values\": [], "
        "\"symint_values\": []}, \"metadata\": {}, \"parameters\": {}, \"buffers\": {}}}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char args[1024];
        char kwargs[1024];

        snprintf(args, sizeof(args), "[%s]", rows[i]);
        snprintf(kwargs, sizeof(kwargs), "\"kwargs\": {\"out\": %s}", rows[i]);
        if (strstr(rows[i], "as_gm") != NULL) { /* two of one name are another matter */
            snprintf(kwargs, sizeof(kwargs), "\"kwargs\": {}");
        }
        expect_ours(early_node("mine.op.default", args, kwargs,
                               "\"outputs\": [{\"as_tensor\": {\"name\": \"y\"}}]"));
    }
}

/* S002-23, S002-24, S002-79, S002-93: symbols and their table; S002-29, S002-30, S002-31,
 * S002-32, S002-88: results. */
static void it_keeps_results_and_symbols(void **state)
{
    static const char *const outputs[] = {
        "\"outputs\": []",
        "\"outputs\": [{\"as_tensor\": {\"name\": \"y\"}}, {\"as_tensor\": {\"name\": \"z\"}}]",
        "\"outputs\": [{\"as_symint\": {\"name\": \"s\"}}]",
        "\"outputs\": [{\"as_tensors\": [{\"name\": \"y\"}, {\"name\": \"z\"}]}]",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(outputs) / sizeof(outputs[0]); i++) {
        expect_ours(early_node("mine.op.default", "[]", "\"kwargs\": {}", outputs[i]));
    }
    expect_ours(early_json("\"symint_values\": []",
                           "\"symint_values\": [{\"name\": \"s\", \"value\": {\"as_sym\": "
                           "\"2*s0 + 1\"}}, {\"name\": \"t\", \"value\": {\"as_int\": 0}}, "
                           "{\"name\": \"u\", \"value\": {\"as_int\": -9223372036854775808}}, "
                           "{\"name\": \"v\", \"value\": {\"as_int\": -1}}]"));
    expect_ours(early_node("aten.topk.default",
                           "[{\"as_tensor\": {\"name\": \"x\"}}, {\"as_int\": 1}]",
                           "\"kwargs\": {}",
                           "\"outputs\": [{\"as_tensor\": {\"name\": \"y\"}}, {\"as_tensor\": "
                           "{\"name\": \"i\"}}]"));
    expect_ours(early_node("aten._assert_scalar.default",
                           "[{\"as_bool\": true}, {\"as_str\": \"it is\"}]", "\"kwargs\": {}",
                           "\"outputs\": []"));
}

/* S002-102: what nothing uses is kept, and told. */
static void it_warns_of_a_parameter_that_nothing_uses(void **state)
{
    exg_operators *operators = NULL;
    exg_diagnostics found;
    exg_verified verified;
    exg_program *p = open_text(
        early_json("{\"as_tensor\": {\"name\": \"w\"}}", "{\"as_tensor\": {\"name\": \"x\"}}"));

    (void)state;
    assert_int_equal(p->signature.input_count, 2);
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    assert_int_equal(exg_verify(p, operators, &verified, &found, NULL), EXG_OK);
    assert_int_equal(found.error_count, 0);
    assert_string_equal(found.items[found.count - 1].code, "SIG-027");
    assert_int_equal(found.items[found.count - 1].severity, EXG_SEVERITY_WARNING);
    exg_diagnostics_free(&found);
    exg_operators_destroy(operators);
    exg_program_destroy(p);
}

/* S002-39: names among numbers; an early list has one of the two, so the list is carried. */
static void it_carries_a_list_of_names_and_numbers(void **state)
{
    exg_sym_argument sizes[] = {{EXG_NO_VALUE, {.as_int = 0}}, {EXG_NO_VALUE, {.as_int = 3}}};
    exg_program *p = open_text(
        early_node("mine.op.default", "[{\"as_tensor\": {\"name\": \"x\"}}, {\"as_ints\": [0, 3]}]",
                   "\"kwargs\": {}",
                   "\"outputs\": [{\"as_tensor\": {\"name\": \"y\"}}, "
                   "{\"as_symint\": {\"name\": \"s0\"}}]"));
    exg_program *again;
    char difference[256];
    const exg_argument *list;
    char *text;

    (void)state;
    sizes[0].value = exg_graph_find_value(p->graph, "s0");
    assert_int_not_equal(sizes[0].value, EXG_NO_VALUE);
    p->graph->nodes[0].inputs[1].arg =
        (exg_argument){.kind = EXG_ARGUMENT_SYM_INTS, .count = 2, .as_syms = sizes};
    text = saved_text(p);
    assert_non_null(strstr(text, "exg.carry"));
    again = open_text(text);
    if (!exg_program_equal(p, again, false, difference)) {
        fail_msg("%s", difference);
    }
    list = &again->graph->nodes[0].inputs[1].arg;
    assert_int_equal(list->kind, EXG_ARGUMENT_SYM_INTS);
    assert_int_equal(list->as_syms[0].value, exg_graph_find_value(again->graph, "s0"));
    assert_int_equal(list->as_syms[1].value, EXG_NO_VALUE);
    assert_int_equal(list->as_syms[1].as_int, 3);
    free(text);
    exg_program_destroy(again);
    exg_program_destroy(p);
}

/* S002-39: numbers alone, though the current schema may have them as sizes. */
static void it_writes_sizes_that_are_numbers_as_numbers(void **state)
{
    exg_sym_argument sizes[] = {{EXG_NO_VALUE, {.as_int = 7}}, {EXG_NO_VALUE, {.as_int = -3}}};
    exg_program *p = open_text(early_node("mine.op.default", "[{\"as_int\": 1}, {\"as_int\": 2}]",
                                          "\"kwargs\": {}", "\"outputs\": []"));
    char *text;

    (void)state;
    p->graph->nodes[0].inputs[0].arg =
        (exg_argument){.kind = EXG_ARGUMENT_SYM_INT, .as_sym = sizes[1]};
    p->graph->nodes[0].inputs[1].arg =
        (exg_argument){.kind = EXG_ARGUMENT_SYM_INTS, .count = 2, .as_syms = sizes};
    text = saved_text(p);
    assert_non_null(strstr(text, "\"args\": [{\"as_int\": -3}, {\"as_ints\": [7, -3]}]"));
    free(text);
    exg_program_destroy(p);
}

/* A diagnostic with `code` and what it is about, of an otherwise flawless program. */
static void expect_found(exg_program *p, const char *code, const char *message)
{
    exg_operators *operators = NULL;
    exg_diagnostics found;
    exg_verified verified;
    bool seen = false;

    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    assert_int_equal(exg_verify(p, operators, &verified, &found, NULL),
                     code == NULL ? EXG_OK : EXG_MALFORMED);
    assert_int_equal(found.error_count, code == NULL ? 0 : 1);
    for (uint32_t i = 0; code != NULL && i < found.count; i++) {
        seen |= strcmp(found.items[i].code, code) == 0 &&
                strstr(found.items[i].message, message) != NULL;
    }
    assert_true(code == NULL || seen);
    exg_diagnostics_free(&found);
    exg_operators_destroy(operators);
}

/* S002-94, S004-71: neither has a place in any of PyTorch's files; they are carried. */
static void it_carries_metadata_of_inputs_and_the_token_of_assertions(void **state)
{
    exg_string_pair pairs[] = {{"stack_trace", "net.py:3"}};
    exg_input_metadata said[] = {{"x", {pairs, 1}}, {NULL, {pairs, 1}}};
    exg_program *p = open_program("fixtures/mlp.pt2");
    exg_program *again;
    char difference[256];
    char *text;

    (void)state;
    p->input_metadata = said;
    p->input_metadata_count = 2;
    p->signature.assertion_dep_token = "token";
    p->signature.assertion_dep_index = 1;
    expect_found(p, NULL, "");
    text = saved_text(p);
    again = open_text(text);
    if (!exg_program_equal(p, again, false, difference)) {
        fail_msg("%s", difference);
    }
    assert_string_equal(again->input_metadata[0].input, "x");
    assert_null(again->input_metadata[1].input);
    assert_string_equal(again->input_metadata[1].metadata.items[0].value, "net.py:3");
    assert_int_equal(exg_program_rename_value(again, "x", "image", NULL), EXG_OK);
    assert_string_equal(again->input_metadata[0].input, "image");
    assert_int_equal(again->signature.assertion_dep_index, 1);
    p->signature.assertion_dep_index = 2;
    assert_false(exg_program_equal(p, again, false, difference));
    expect_found(p, "SIG-028", "output 2, behind 1");
    p->signature.assertion_dep_index = 1;
    said[0].input = "up";
    expect_found(p, "SIG-029", "'up' is no input");
    said[0].input = NULL;
    expect_found(p, "SIG-029", "the output is there twice");
    free(text);
    exg_program_destroy(again);
    exg_program_destroy(p);
}

static char *branches_text(void)
{
    FILE *file = fopen("tests/export/data/branches.json", "rb");
    char *text = calloc(1, 1 << 16);
    size_t length;

    assert_non_null(file);
    assert_non_null(text);
    length = fread(text, 1, (1 << 16) - 1, file);
    fclose(file);
    assert_true(length > 0 && text[length - 1] == '\n');
    text[length - 1] = '\0';
    return text;
}

/* S002-49: what branches have is lifted, as "<branch>.<name>", and an operand of the call; the
 * two called "w" stay apart. */
static void it_lifts_what_branches_have(void **state)
{
    static const struct {
        const char *target;
        exg_input_kind kind;
    } expected[] = {
        {"s", EXG_INPUT_PARAMETER},
        {"positive.w", EXG_INPUT_PARAMETER},
        {"negative.near.b", EXG_INPUT_BUFFER},
        {"negative.far.w", EXG_INPUT_PARAMETER},
    };
    char *text = branches_text();
    exg_program *p = open_text(text);
    const exg_node *call = &p->graph->nodes[2];
    const exg_graph *negative;

    (void)state;
    assert_int_equal(p->signature.input_count, 5);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(p->signature.inputs[i].target, expected[i].target);
        assert_int_equal(p->signature.inputs[i].kind, expected[i].kind);
    }
    assert_int_equal(p->signature.inputs[4].kind, EXG_INPUT_USER);
    assert_string_equal(call->target, "torch.ops.higher_order.cond");
    assert_int_equal(call->inputs[3].arg.count, 5);
    assert_int_equal(call->inputs[1].arg.as_graph->lifted_count, 3);
    assert_string_equal(call->inputs[1].arg.as_graph->metadata.items[0].value, "+");
    assert_int_equal(call->inputs[1].arg.as_graph->graph->input_count, 5);
    negative = call->inputs[2].arg.as_graph->graph;
    assert_int_equal(negative->nodes[2].inputs[3].arg.count, 4);
    exg_program_destroy(p);
    expect_ours(text);
    free(text);
}

/* `text` with `count` of `from` replaced, behind the first `skipped`; malloc'ed. */
static char *some_replaced(const char *text, const char *from, int skipped, int count,
                           const char *to)
{
    char *out = calloc(2, strlen(text));
    const char *at;

    assert_non_null(out);
    for (int i = 0; i < skipped + count; i++, text = at + strlen(from)) {
        at = strstr(text, from);
        assert_non_null(at);
        sprintf(out + strlen(out), "%.*s%s", (int)(at - text), text, i < skipped ? from : to);
    }
    return strcat(out, text);
}

/* branches.json, in which nothing uses the "w" of "far". */
static char *unused_text(void)
{
    static const char used[] = "{\"name\": \"far\", \"graph\": {\"inputs\": [{\"name\": \"x\"}, "
                               "{\"name\": \"s\"}], \"outputs\": [{\"name\": \"y\"}], \"nodes\": "
                               "[{\"target\": \"aten.mul.Tensor\", \"args\": [{\"as_tensor\": "
                               "{\"name\": \"x\"}}, {\"as_tensor\": {\"name\": \"w\"}}]";
    char unused[sizeof(used)];
    char *text = branches_text();
    char *changed;

    strcpy(unused, used);
    unused[strlen(used) - strlen("w\"}}]")] = 's';
    changed = some_replaced(text, used, 0, 1, unused);
    free(text);
    return changed;
}

/* S002-49, S002-106: a tensor that nothing uses goes back to the branch that it is named after,
 * though its name was taken and has a number behind. */
static void it_gives_a_branch_what_nothing_uses(void **state)
{
    char *text = unused_text();
    char *taken = some_replaced(text, "\"positive_sum\"", 2, 3, "\"far.w\"");

    (void)state;
    expect_ours(text);
    expect_ours(taken); /* "far.w" is a value: it is lifted as "far.w_1" */
    free(taken);
    free(text);
}

/* S002-49, S002-87: where a call has no list of operands, what is lifted stands behind the
 * positional ones, before the keywords. */
static void it_lifts_before_keywords(void **state)
{
    static const char args[] =
        "[{\"as_tensor\": {\"name\": \"x\"}}, {\"as_gm\": {\"name\": \"b\", \"graph\": "
        "{\"inputs\": [], \"outputs\": [], \"nodes\": [], \"tensor_values\": [{\"name\": \"v\", "
        "\"meta\": {\"dtype\": \"f32\", \"sizes\": [], \"requires_grad\": true, \"device\": "
        "{\"type\": \"cpu\", \"index\": -1}, \"strides\": [], \"storage_offset\": {\"as_int\": 0}, "
        "\"layout\": \"strided\"}}], \"symint_values\": []}, \"metadata\": {}, \"parameters\": "
        "{\"v\": {\"storage\": {\"data_location\": \"Internal\", \"data\": {\"buffer\": "
        "\"P4AAAA==\"}}, \"meta\": {\"dtype\": \"f32\", \"sizes\": [], \"requires_grad\": true, "
        "\"device\": {\"type\": \"cpu\", \"index\": -1}, \"strides\": [], \"storage_offset\": "
        "{\"as_int\": 0}, \"layout\": \"strided\"}}}, \"buffers\": {}}}]";
    static const char *const names[] = {"", "", "", "k", "out"};
    const char *text = early_node("mine.op.default", args,
                                  "\"kwargs\": {\"k\": {\"as_int\": 7}, \"out\": {\"as_tensor\": "
                                  "{\"name\": \"w\"}}}",
                                  "\"outputs\": [{\"as_tensor\": {\"name\": \"y\"}}]");
    exg_program *p = open_text(text);
    const exg_node *call = &p->graph->nodes[0];

    (void)state;
    assert_int_equal(call->input_count, 5);
    for (uint32_t i = 0; i < 5; i++) {
        assert_string_equal(call->inputs[i].name, names[i]);
        assert_int_equal(call->inputs[i].kind, i < 3 ? EXG_KIND_POSITIONAL : EXG_KIND_KEYWORD);
    }
    assert_string_equal(p->graph->values[call->inputs[0].arg.as_tensor].name, "x");
    assert_int_equal(call->inputs[1].arg.kind, EXG_ARGUMENT_GRAPH);
    assert_string_equal(p->graph->values[call->inputs[2].arg.as_tensor].name, "b.v");
    assert_int_equal(call->inputs[3].arg.as_int, 7);
    assert_string_equal(p->graph->values[call->inputs[4].arg.as_tensor].name, "w");
    exg_program_destroy(p);
    expect_ours(text);
}

/* A branch with a tensor of its own, "p", that nothing uses. */
#define NUMBER                                                                                     \
    "{\"dtype\": \"f32\", \"sizes\": [], \"requires_grad\": true, \"device\": {\"type\": "         \
    "\"cpu\", \"index\": -1}, \"strides\": [], \"storage_offset\": {\"as_int\": 0}, "              \
    "\"layout\": \"strided\"}"
#define OWNER_VALUES "{\"name\": \"p\", \"meta\": " NUMBER "}], \"symint_values\": []}"
#define OWNER_TENSOR                                                                               \
    "{\"storage\": {\"data_location\": \"Internal\", \"data\": {\"buffer\": \"P4AAAA==\"}}, "      \
    "\"meta\": " NUMBER "}"
#define OWNER(name)                                                                                \
    "{\"as_gm\": {\"name\": \"" name "\", \"graph\": {\"inputs\": [{\"name\": \"a\"}], "           \
    "\"outputs\": [{\"name\": \"a\"}], \"nodes\": [], \"tensor_values\": [" EARLY_VALUE(           \
        "a") ", " OWNER_VALUES ", \"metadata\": {}, \"parameters\": {\"p\": " OWNER_TENSOR         \
             "}, \"buffers\": {}}}"
#define BARE(name)                                                                                 \
    "{\"as_gm\": {\"name\": \"" name "\", \"graph\": {\"inputs\": [{\"name\": \"a\"}], "           \
    "\"outputs\": [{\"name\": \"a\"}], \"nodes\": [], \"tensor_values\": [" EARLY_VALUE(           \
        "a") "], \"symint_values\": []}, \"metadata\": {}, \"parameters\": {}, \"buffers\": {}}}"
#define ONE_LIST "{\"as_tensors\": [{\"name\": \"x\"}]}"
#define X_LIST   "{\"as_tensors\": [{\"name\": \"x\"}, {\"name\": \"w\"}]}"

/* `text` with its "w" among the inputs: the program has no tensor of its own. */
static const char *without_own(const char *text)
{
    static const char own[] = ", \"parameters\": {\"w\": ";
    static char changed[16384];
    const char *inputs = early_with(text, "\"inputs\": [{\"name\": \"x\"}]",
                                    "\"inputs\": [{\"name\": \"x\"}, {\"name\": \"w\"}]");

    inputs = early_with(inputs, EARLY_VALUES("x", "y", "w"), EARLY_VALUES("x", "w", "y"));
    snprintf(changed, sizeof(changed), "%.*s, \"parameters\": {}, \"buffers\": {}}",
             (int)(strstr(inputs, own) - inputs), inputs);
    return changed;
}

/* S002-49: loops take what their branches have in the last of their lists; the others stay. */
static void it_lifts_into_the_list_of_further_operands(void **state)
{
    static const struct {
        const char *target, *args;
        const char *lists; /* of the node, then */
    } rows[] = {
        {"higher_order.while_loop",
         "[" OWNER("one") ", " OWNER("two") ", " X_LIST ", {\"as_tensors\": []}]",
         "[ x w ][ one.p two.p ]"},
        {"higher_order.while_loop", "[" OWNER("one") ", " OWNER("two") ", " X_LIST ", " X_LIST "]",
         "[ x w ][ x w one.p two.p ]"},
        {"higher_order.scan", "[" OWNER("one") ", " X_LIST ", " X_LIST ", {\"as_tensors\": []}]",
         "[ x w ][ x w ][ one.p ]"},
        {"higher_order.map_impl", "[" OWNER("one") ", " X_LIST ", " X_LIST "]",
         "[ x w ][ x w one.p ]"},
        {"higher_order.cond",
         "[{\"as_bool\": true}, " OWNER("one") ", " OWNER("two") ", " X_LIST "]",
         "[ x w one.p two.p ]"},
        {"higher_order.cond",
         "[{\"as_bool\": true}, " BARE("one") ", " OWNER("two") ", " ONE_LIST "]", "[ x two.p ]"},
        {"higher_order.cond",
         "[{\"as_bool\": true}, " OWNER("one") ", " BARE("two") ", " ONE_LIST "]", "[ x one.p ]"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *text = early_node(rows[i].target, rows[i].args, "\"kwargs\": {}",
                                      "\"outputs\": [{\"as_tensor\": {\"name\": \"y\"}}]");
        exg_program *p = open_text(text);
        const exg_node *node = &p->graph->nodes[0];
        char lists[200] = "";

        for (uint32_t k = 0; k < node->input_count; k++) {
            const exg_argument *arg = &node->inputs[k].arg;

            strcat(lists, arg->kind == EXG_ARGUMENT_TENSORS ? "[ " : "");
            for (uint32_t v = 0; arg->kind == EXG_ARGUMENT_TENSORS && v < arg->count; v++) {
                strcat(strcat(lists, p->graph->values[arg->as_tensors[v]].name), " ");
            }
            strcat(lists, arg->kind == EXG_ARGUMENT_TENSORS ? "]" : "");
        }
        assert_string_equal(lists, rows[i].lists);
        exg_program_destroy(p);
        expect_ours(text);
        expect_ours(without_own(text));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_lifts_parameters_and_buffers),
        cmocka_unit_test(it_keeps_buffers_apart),
        cmocka_unit_test(it_writes_what_it_read),
        cmocka_unit_test(it_keeps_extra_keys_that_collide),
        cmocka_unit_test(it_reads_every_variant_as_one_model),
        cmocka_unit_test(it_remembers_how_targets_are_spelt),
        cmocka_unit_test(it_keeps_unknown_keys),
        cmocka_unit_test(it_reads_big_endian_bytes_of_every_dtype),
        cmocka_unit_test(it_turns_complex_numbers_by_halves),
        cmocka_unit_test(it_keeps_every_argument_as_it_is),
        cmocka_unit_test(it_keeps_results_and_symbols),
        cmocka_unit_test(it_warns_of_a_parameter_that_nothing_uses),
        cmocka_unit_test(it_carries_a_list_of_names_and_numbers),
        cmocka_unit_test(it_writes_sizes_that_are_numbers_as_numbers),
        cmocka_unit_test(it_carries_metadata_of_inputs_and_the_token_of_assertions),
        cmocka_unit_test(it_lifts_what_branches_have),
        cmocka_unit_test(it_gives_a_branch_what_nothing_uses),
        cmocka_unit_test(it_lifts_before_keywords),
        cmocka_unit_test(it_lifts_into_the_list_of_further_operands),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
