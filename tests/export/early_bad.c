/* early_bad.c - early JSON that contradicts itself, one fault a row; and what is carried. */
#include "libexport/formats/early/early.h"
#include "tests/export/early_maker.h"
#include "tests/export/exg_folder.h"

#include <exg/emit.h>
#include <exg/operators.h>
#include <exg/signature.h>
#include <exg/verify.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* ---- refused by the reader --------------------------------------------------------------- */

#define BUFFER "\"data\": {\"buffer\": \"P4AAAMAAAAA=\"}"
#define EXTERNAL(location, offset, length)                                                         \
    "\"External\", \"data\": {\"location\": " location ", \"offset\": " offset                     \
    ", \"length\": " length ", \"checksum\": \"\"}"
#define WHERE  "\"Internal\", " BUFFER
#define SECOND "{\"as_tensor\": {\"name\": \"w\"}}"
#define META_OF(size, stride, offset)                                                              \
    "{\"dtype\": \"f32\", \"sizes\": [" size "], \"requires_grad\": true, \"device\": "            \
    "{\"type\": \"cpu\", \"index\": -1}, \"strides\": [{\"as_int\": " stride                       \
    "}], \"storage_offset\": {\"as_int\": " offset "}, \"layout\": \"strided\"}"
#define META                         META_OF("{\"as_int\": 2}", "1", "0")
#define WEIGHT(size, stride, offset) WHERE "}, \"meta\": " META_OF(size, stride, offset)

/* S002-12, S002-14, S002-19: no such member, no default; S002-22, S002-27, S002-30, S002-34:
 * unions; S002-23: past 64 bits; S002-55, S002-56, S002-57, S002-60, S002-61, S002-76: weights;
 * S002-58, S002-89: keys; S002-65: bytes; S002-66, S002-67, S002-68: places; S002-73, S002-74:
 * where the data are; S002-77, S002-79, S002-87, S002-101: what stands twice; S002-97: one
 * graph; S002-98: texts. */
static void it_refuses_what_contradicts_itself(void **state)
{
    static const struct {
        const char *from, *to;
        exg_status status;
        const char *code, *where;
    } rows[] = {
#define EARLY_BAD(from, to, status, code, where) {from, to, EXG_##status, code, where},
#include "tests/export/early_bad.def"
#undef EARLY_BAD
    };
    int faults = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_error err;
        exg_status status = try_text(early_json(rows[i].from, rows[i].to), NULL, &err);

        if (status != rows[i].status || strcmp(err.code, rows[i].code) != 0 ||
            strcmp(err.where, rows[i].where) != 0) {
            print_message("row %zu, %.60s: %s %s: %s (%s)\n", i, rows[i].to,
                          exg_status_name(status), err.code, err.message, err.where);
            faults++;
        }
    }
    assert_int_equal(faults, 0);
}

/* What is no member of an enum is named, and the enum. */
static void it_names_what_is_no_member(void **state)
{
    static const struct {
        const char *kind, *says;
    } rows[] = {
        {"as_memory_format", "\"none_such\" is no MemoryFormat"},
        {"as_layout", "\"none_such\" is no Layout"},
        {"as_scalar_type", "\"none_such\" is no ScalarType of the early schema"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char argument[64];
        exg_error err;

        snprintf(argument, sizeof(argument), "{\"%s\": \"none_such\"}", rows[i].kind);
        assert_int_equal(try_text(early_json(SECOND, argument), NULL, &err), EXG_MALFORMED);
        assert_string_equal(err.message, rows[i].says);
    }
}

/* What is said of a branch and its tensor names each in its place. */
static void it_names_a_branch_and_its_tensor(void **state)
{
    static const char branch[] =
        "{\"as_gm\": {\"name\": \"b\", \"graph\": {\"inputs\": [{\"name\": \"v\"}],"
        " \"outputs\": [], \"nodes\": [], \"tensor_values\": [], \"symint_values\":"
        " []}, \"metadata\": {}, \"parameters\": {\"v\": {\"storage\": {\"data_loca"
        "tion\": \"Internal\", \"data\": {\"buffer\": \"P4AAAA==\"}}, \"meta\": {\""
        "dtype\": \"f32\", \"sizes\": [], \"requires_grad\": true, \"device\": {\"t"
        "ype\": \"cpu\", \"index\": -1}, \"strides\": [], \"storage_offset\": {\"as"
        "_int\": 0}, \"layout\": \"strided\"}}}, \"buffers\": {}}}";
    exg_error err;

    (void)state;
    assert_int_equal(try_text(early_json("{\"as_tensor\": {\"name\": \"w\"}}", branch), NULL, &err),
                     EXG_UNSUPPORTED);
    assert_string_equal(err.message, "'v' is an input of the branch 'b' and a tensor that it has");
}

/* S002-66, S002-67, S002-68, S002-69: what is wrong of a place beside is named. */
static void it_names_what_is_wrong_of_a_place(void **state)
{
    static const char *const members[] = {"location", "offset", "length", "checksum"};
    static const char good[] = "\"External\", \"data\": {\"location\": \"w\", \"offset\": "
                               "\"0\", \"length\": \"8\", \"checksum\": \"\"}";

    (void)state;
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        char key[32], wrong[64], place[64];
        const char *text = early_json(WHERE, good);
        exg_error err;

        snprintf(key, sizeof(key), "\"%s\": \"", members[i]);
        snprintf(wrong, sizeof(wrong), "\"%s\": 1, \"was\": \"", members[i]);
        snprintf(place, sizeof(place), ".%s", members[i]);
        assert_int_equal(try_text(early_with(text, key, wrong), NULL, &err), EXG_MALFORMED);
        if (strlen(err.where) < strlen(place) ||
            strcmp(err.where + strlen(err.where) - strlen(place), place) != 0) {
            fail_msg("%s: %s (%s)", members[i], err.message, err.where);
        }
        if (i == 1 || i == 2) {
            char says[64];

            snprintf(wrong, sizeof(wrong), "%s0", key);
            snprintf(says, sizeof(says), "the %s is no decimal number of bytes", members[i]);
            text = early_with(text, key, wrong); /* "00", "08" */
            assert_int_equal(try_text(text, NULL, &err), EXG_MALFORMED);
            assert_string_equal(err.code, "EAR-001");
            assert_string_equal(err.message, says);
        }
    }
}

/* Renames one key after the other, but the index of a device (S002-21) and those that the file
 * chooses: the key lacks, and an unknown one is there. Gives how many. */
static int each_key(const char *text)
{
    char *edited = strdup(text);
    int keys = 0;

    assert_non_null(edited);
    exg_program_destroy(open_text(edited));
    for (char *colon = edited; (colon = strstr(colon, "\": ")) != NULL; colon++) {
        char *quote = colon - 1;
        char first;
        exg_status status;
        exg_error err;

        while (*quote != '"') {
            quote--;
        }
        if (strncmp(quote, "\"index\"", 7) == 0 || strncmp(quote, "\"w\"", 3) == 0) {
            continue;
        }
        first = quote[1];
        quote[1] = '~';
        status = try_text(edited, NULL, &err);
        if (status != EXG_MALFORMED ||
            (strncmp(err.code, "JSN-00", 6) != 0 && strcmp(err.code, "EAR-002") != 0)) {
            fail_msg("without %.20s: %s %s", quote, exg_status_name(status), err.code);
        }
        quote[1] = first;
        keys++;
    }
    free(edited);
    return keys;
}

/* S002-95, S002-56, S002-58, S002-89, S002-97: nothing has a default. */
static void it_wants_every_key(void **state)
{
    const char *text = early_with(
        early_json(SECOND, "{\"as_tensors\": [{\"name\": \"w\"}]}"), "\"symint_values\": []",
        "\"symint_values\": [{\"name\": \"s\", \"value\": {\"as_sym\": \"s0\"}}]");

    (void)state;
    assert_int_equal(each_key(text), 84);
    assert_int_equal(each_key(early_json(WHERE, EXTERNAL("\"w\"", "\"0\"", "\"8\""))), 84);
}

/* Every prefix of a file is refused, and says why. */
static void it_refuses_every_prefix(void **state)
{
    char text[4096];

    (void)state;
    for (size_t length = 1; length < strlen(early_add); length++) {
        exg_error err;

        snprintf(text, length + 1, "%s", early_add);
        assert_int_not_equal(try_text(text, NULL, &err), EXG_OK);
        assert_true(err.code[0] != '\0' && err.message[0] != '\0');
    }
}

/* S002-62: bytes of a tensor that is not strided. */
static void it_refuses_bytes_of_a_sparse_weight(void **state)
{
    char text[8192];
    const char *at = strstr(early_add, "\"parameters\"");
    const char *layout = strstr(at, "\"strided\"");
    exg_error err;

    (void)state;
    snprintf(text, sizeof(text), "%.*s\"sparse_coo\"%s", (int)(layout - early_add), early_add,
             layout + strlen("\"strided\""));
    assert_int_equal(try_text(text, NULL, &err), EXG_MALFORMED);
    assert_string_equal(err.code, "WGT-009");
}

/* ---- refused by verification --------------------------------------------------------------- */

/* Among the findings is `code`; NULL: there are none. */
static void expect_found(const char *text, const char *code)
{
    exg_operators *operators = NULL;
    exg_program *program = open_text(text);
    exg_diagnostics found = {0};
    exg_verified verified;
    bool there = false;

    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    exg_ignore(exg_verify(program, operators, &verified, &found, NULL));
    for (uint32_t i = 0; i < found.count; i++) {
        there = there || (code != NULL && strcmp(found.items[i].code, code) == 0);
    }
    if (code == NULL ? found.count > 0 : !there) {
        fail_msg("%s was not found (%u errors, first %s)", code == NULL ? "nothing" : code,
                 found.error_count, found.count > 0 ? found.items[0].code : "none");
    }
    exg_diagnostics_free(&found);
    exg_program_destroy(program);
    exg_operators_destroy(operators);
}

#define VALUE(name)     "{\"name\": \"" name "\", \"meta\": " META "}"
#define VALUES(a, b, c) VALUE(a) ", " VALUE(b) ", " VALUE(c)

/* S002-28, S002-31, S002-78: each value is defined once and described: inputs, results,
 * outputs, and what is bound by name; what is described alone is told. S002-101: a parameter
 * called as a result. */
static void it_asks_for_every_value(void **state)
{
    (void)state;
    expect_found(early_json("{\"as_tensor\": {\"name\": \"x\"}}, ",
                            "{\"as_tensor\": {\"name\": \"nowhere\"}}, "),
                 "VAL-004");
    expect_found(early_json(VALUES("x", "y", "w"), VALUES("unused", "y", "w")), "VAL-002");
    expect_found(early_json(VALUES("x", "y", "w"), VALUES("x", "unused", "w")), "VAL-002");
    expect_found(early_json(VALUES("x", "y", "w"), VALUES("x", "y", "unused")), "VAL-002");
    expect_found(early_json("\"outputs\": [{\"name\": \"y\"}]", "\"outputs\": [{\"name\": \"z\"}]"),
                 "VAL-004");
    expect_found(early_json(VALUES("x", "y", "w"), VALUES("x", "y", "w") ", " VALUE("more")),
                 "VAL-007");
    expect_found(early_json("\"parameters\": {\"w\"", "\"parameters\": {\"y\""), "VAL-001");
    expect_found(early_json("\"inputs\": [{\"name\": \"x\"}]",
                            "\"inputs\": [{\"name\": \"x\"}, {\"name\": \"x\"}]"),
                 "VAL-001");
}

/* S002-29, S002-38: a symint is in the other table; S002-93: no name is in both. */
static void it_asks_for_the_table_of_the_kind(void **state)
{
    static const char call[] = "[{\"as_tensor\": {\"name\": \"x\"}}, {\"as_symint\": {\"name\": ";
    static const char results[] =
        "\"outputs\": [{\"as_tensor\": {\"name\": \"y\"}}, {\"as_symint\": {\"name\": \"s\"}}]";
    char args[256];

    (void)state;
    snprintf(args, sizeof(args), "%s\"w\"}}]", call);
    expect_found(early_node("mine.op.default", args, "\"kwargs\": {}",
                            "\"outputs\": [{\"as_tensor\": {\"name\": \"y\"}}]"),
                 "VAL-010");
    snprintf(args, sizeof(args), "%s\"nowhere\"}}]", call);
    expect_found(early_node("mine.op.default", args, "\"kwargs\": {}",
                            "\"outputs\": [{\"as_tensor\": {\"name\": \"y\"}}]"),
                 "VAL-004");
    expect_found(early_node("mine.op.default", "[]", "\"kwargs\": {}", results), "VAL-002");
    expect_found(early_with(early_node("mine.op.default", "[]", "\"kwargs\": {}",
                                       "\"outputs\": [{\"as_tensor\": {\"name\": \"y\"}}]"),
                            "\"symint_values\": []",
                            "\"symint_values\": [{\"name\": \"x\", \"value\": {\"as_int\": 1}}]"),
                 "VAL-003");
}

#define NODE(target, args, outputs)                                                                \
    "{\"target\": \"" target "\", \"args\": [" args "], \"kwargs\": {}, \"outputs\": [" outputs    \
    "], \"metadata\": {\"stack_trace\": \"\", \"nn_module_stack\": \"\", \"extra\": {}}}"
#define T(name) "{\"as_tensor\": {\"name\": \"" name "\"}}"

/* S002-36, S002-92: nothing is read above the node that makes it. */
static void it_asks_for_the_order_of_nodes(void **state)
{
    static const char good[] =
        "\"nodes\": [" NODE("aten.add.Tensor", T("x") ", " T("w"),
                            T("q")) ", " NODE("aten.neg.default", T("q"), T("y")) "]";
    static const char bad[] = "\"nodes\": [" NODE("aten.neg.default", T("q"), T("y")) ", " NODE(
        "aten.add.Tensor", T("x") ", " T("w"), T("q")) "]";
    static const char one[] =
        "\"nodes\": [" NODE("aten.add.Tensor", T("x") ", " T("w"), T("y")) "]";
    const char *text = early_json(VALUES("x", "y", "w"), VALUES("x", "y", "w") ", " VALUE("q"));

    (void)state;
    expect_found(early_with(text, one, bad), "VAL-005");
    expect_found(early_with(text, one, good), NULL);
}

/* S002-35: None only where a parameter is optional; S002-86: positional arguments; S002-88: as
 * many results as the operator gives. */
static void it_asks_for_the_schema_of_operators(void **state)
{
    (void)state;
    expect_found(early_add, NULL);
    expect_found(early_json(SECOND, "{\"as_none\": true}"), "NOD-006");
    expect_found(early_json(SECOND, "{\"as_none\": false}"), "NOD-006");
    expect_found(early_json(SECOND "]", SECOND ", {\"as_int\": 1}]"), "NOD-003"); /* alpha */
    expect_found(early_json("\"aten.add.Tensor\"", "\"aten.neg.default\""), "NOD-003");
    expect_found(early_json("\"outputs\": [" T("y") "]", "\"outputs\": []"), "NOD-007");
    expect_found(early_json("\"outputs\": [" T("y") "]", "\"outputs\": [" T("y") ", " T("z") "]"),
                 "NOD-007");
}

/* S002-84: what is no call of a function stands in no early graph; nor has a name empty parts. */
static void it_takes_calls_of_functions_alone(void **state)
{
    static const char *const targets[] = {"placeholder",  "output",      "get_attr",
                                          "call_method",  "call_module", "",
                                          "aten..Tensor", ".add",        "aten.add."};

    (void)state;
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        char quoted[64];

        snprintf(quoted, sizeof(quoted), "\"%s\"", targets[i]);
        expect_found(early_json("\"aten.add.Tensor\"", quoted), "NOD-014");
    }
}

/* S002-99: an early file runs: tests/interop and the golden run-early.cmd; here it verifies.
 * S002-102: so does one with a parameter that nothing uses. */
static void it_accepts_what_is_good(void **state)
{
    exg_operators *operators = NULL;
    exg_program *program = open_text(
        early_json("{\"as_tensor\": {\"name\": \"w\"}}]", "{\"as_tensor\": {\"name\": \"x\"}}]"));
    exg_verified verified;
    exg_error err;

    (void)state;
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    if (exg_verify(program, operators, &verified, NULL, &err) != EXG_OK) {
        fail_msg("%s: %s", err.code, err.message);
    }
    assert_int_equal(program->signature.input_count, 2);
    exg_program_destroy(program);
    exg_operators_destroy(operators);
}

/* ---- external bytes ------------------------------------------------------------------------- */

#define SHA256 "efde6f1eea3d119bf25d4a0e2ce188572e80986e14d85c3f2a9528fa66f8731f"

/* S002-69, S002-70, S002-72: one range, its checksums, the file gone. */
static void it_checks_external_bytes(void **state)
{
    static const struct {
        const char *checksum;
        bool good;
    } rows[] = {
        {"", true},
        {"xxh3-128:d536d02cb52becf3c36375144d528b79", true},
        {"xxh3-64:e7c0bca1e9a1b5f3", true},
        {"crc32:c7949a4c", true},
        {"xxh3-64:e7c0bca1e9a1b5f4", false},
        {"crc32:00000000", false},
        {"sha1:c0f2eea97c3c48ad40df82155d19041f70c94f14", true},
        {"00f2eea97c3c48ad40df82155d19041f70c94f14", false},
        {"md5:4660c1f3c1485d35f0f58c3a70499def", true},
        {"md5:00000000000000000000000000000000", false},
        {"rot13:whatever", true},
        {"0000000000000000000000000000000000000000000000000000000000000000", false},
        {SHA256, true},
        {"sha256:" SHA256, true},
        {"sha256:0000000000000000000000000000000000000000000000000000000000000000", false},
        {"c0f2eea97c3c48ad40df82155d19041f70c94f14", true},
        {"xxh3-128:d536d02cb52becf3c36375144d528b78", false},
        {"sha1:c0f2eea97c3c48ad40df82155d19041f70c94f15", false},
    };
    const unsigned char bytes[] = {9, 9, 9, 9, 0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0};

    (void)state;
    write_file("w.bin", bytes, sizeof(bytes));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char external[256];
        const char *text;
        exg_program *p = NULL;
        float got[2];
        exg_error err;

        snprintf(external, sizeof(external),
                 "\"External\", \"data\": {\"location\": \"w.bin\", \"offset\": \"4\", "
                 "\"length\": \"8\", \"checksum\": \"%s\"}",
                 rows[i].checksum);
        text = early_json(WHERE, external);
        write_file("e.json", text, strlen(text));
        p = open_program(in_folder("e.json"));
        assert_int_equal(exg_weight_read(p->weights, &p->weights->items[0], got, 8, &err),
                         rows[i].good ? EXG_OK : EXG_MALFORMED);
        assert_true(!rows[i].good || (got[0] == 1.0f && got[1] == -2.0f));
        if ((exg_storage_check(p->weights, 0, &err) == EXG_OK) != rows[i].good) {
            fail_msg("%s: %s", rows[i].checksum, err.message);
        }
        exg_program_destroy(p);
    }
    assert_int_equal(remove(in_folder("w.bin")), 0);
    {
        exg_program *p = open_program(in_folder("e.json"));
        float got[2];
        exg_error err;

        assert_int_equal(exg_weight_read(p->weights, &p->weights->items[0], got, 8, &err), EXG_IO);
        exg_program_destroy(p);
    }
}

/* ---- the carry --------------------------------------------------------------------------- */

static char *carried_text(void)
{
    exg_program *p = open_program("fixtures/mlp.pt2");
    char *text;
    size_t length;

    assert_int_equal(exg_save(p, in_folder("c.json"), EXG_FORMAT_EARLY_JSON, NULL, NULL), EXG_OK);
    exg_program_destroy(p);
    text = (char *)read_file("c.json", &length);
    text = realloc(text, length + 1);
    assert_non_null(text);
    text[length] = '\0';
    return text;
}

/* What the early schema has no words for, seen in some program. */
enum {
    SYM_FLOAT,
    SYM_BOOL,
    TEXTS,
    SYM_INPUT,
    NO_OUTPUT,
    CONSTANT,
    RANGES,
    OPSET,
    GRADIENT,
    SHARED,
    TOKEN,
    CUSTOM,
    NAMES,
    HINT,
    CALLS,
    MUTATION,
    GUARDS,
    FLAG,
    SEEN_COUNT
};

static void look_at_graph(const exg_graph *graph, bool seen[SEEN_COUNT])
{
    for (uint32_t i = 0; i < graph->value_count; i++) {
        seen[SYM_FLOAT] |= graph->values[i].sym_float != NULL;
        seen[SYM_BOOL] |= graph->values[i].sym_bool != NULL;
        seen[HINT] |= graph->values[i].sym_int != NULL && graph->values[i].sym_int->has_hint;
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        seen[NAMES] |= graph->nodes[n].name != NULL;
        seen[FLAG] |= graph->nodes[n].is_hop_single_tensor_return != EXG_UNSET;
        for (uint32_t i = 0; i < graph->nodes[n].input_count; i++) {
            seen[TEXTS] |= graph->nodes[n].inputs[i].arg.kind == EXG_ARGUMENT_STRINGS;
        }
    }
    for (uint32_t i = 0; i < graph->input_count; i++) {
        seen[SYM_INPUT] |= graph->inputs[i].kind == EXG_ARGUMENT_SYM_INT;
    }
    for (uint32_t i = 0; i < graph->output_count; i++) {
        seen[NO_OUTPUT] |= graph->outputs[i].kind == EXG_ARGUMENT_NONE;
    }
}

static void look_at(const exg_program *p, bool seen[SEEN_COUNT])
{
    look_at_graph(p->graph, seen);
    for (uint32_t i = 0; i < p->signature.input_count; i++) {
        seen[CONSTANT] |= p->signature.inputs[i].kind == EXG_INPUT_CONSTANT_TENSOR;
        seen[CUSTOM] |= p->signature.inputs[i].kind == EXG_INPUT_CUSTOM_OBJ;
        seen[TOKEN] |= p->signature.inputs[i].kind == EXG_INPUT_TOKEN;
    }
    for (uint32_t i = 0; i < p->signature.output_count; i++) {
        seen[GRADIENT] |= p->signature.outputs[i].kind == EXG_OUTPUT_GRADIENT_TO_PARAMETER;
        seen[MUTATION] |= p->signature.outputs[i].kind == EXG_OUTPUT_BUFFER_MUTATION;
    }
    for (uint32_t i = 0; i + 1 < p->weights->count; i++) {
        seen[SHARED] |= p->weights->items[i].storage == p->weights->items[i + 1].storage;
    }
    seen[RANGES] |= p->range_constraint_count > 0;
    seen[GUARDS] |= p->guard_count > 0;
    seen[OPSET] |= p->opset_count == 1 && strcmp(p->opsets[0].name_space, "aten") == 0 &&
                   p->opsets[0].version == 10;
    seen[CALLS] |= p->module_call_count > 0;
}

/* mlp.pt2 with a gradient, a guard, and inputs that are a symbol, an object and a token. */
static exg_program *make_strange(exg_value values[64], exg_argument inputs[16],
                                 exg_input_spec specs[16])
{
    const exg_weight pickled = {.fqn = "pickled", .table = EXG_TABLE_CONSTANTS, .use_pickle = true};
    static exg_sym_int symbol = {.expr = "s9", .value = 4, .has_hint = true};
    static const char *guards[] = {"L['x'].size()[0] <= 9"};
    exg_program *p = open_program("fixtures/mlp.pt2");
    exg_graph *graph = p->graph;
    exg_signature *s = &p->signature;
    const exg_value more[] = {
        {.name = "s9", .sym_int = &symbol},
        {.name = "obj", .custom_class = "__torch__.O"},
        {.name = "token", .tensor = graph->values[0].tensor},
    };
    const exg_argument_kind kinds[] = {EXG_ARGUMENT_SYM_INT, EXG_ARGUMENT_CUSTOM_OBJ,
                                       EXG_ARGUMENT_TENSOR};
    static exg_custom_obj object = {"obj", "__torch__.O"};
    const exg_input_kind roles[] = {EXG_INPUT_USER, EXG_INPUT_CUSTOM_OBJ, EXG_INPUT_TOKEN};

    assert_true(graph->value_count + 3 <= 64 && graph->input_count + 3 <= 16);
    memcpy(values, graph->values, graph->value_count * sizeof(*values));
    memcpy(inputs, graph->inputs, graph->input_count * sizeof(*inputs));
    memcpy(specs, s->inputs, s->input_count * sizeof(*specs));
    for (uint32_t i = 0; i < 3; i++) {
        values[graph->value_count] = more[i];
        inputs[graph->input_count] = (exg_argument){.kind = kinds[i]};
        specs[s->input_count] =
            (exg_input_spec){.kind = roles[i],
                             .persistent = EXG_UNSET,
                             .target = i == 1 ? "o" : NULL,
                             .arg = {.kind = kinds[i], .is_token = i == 2, .name = more[i].name}};
        if (i == 1) {
            inputs[graph->input_count].as_custom_obj = &object;
            specs[s->input_count].arg.as_string = "__torch__.O";
        } else if (i == 0) {
            inputs[graph->input_count].as_sym.value = graph->value_count;
        } else {
            inputs[graph->input_count].as_tensor = graph->value_count;
        }
        graph->value_count++;
        graph->input_count++;
        s->input_count++;
    }
    graph->values = values;
    graph->inputs = inputs;
    s->inputs = specs;
    s->outputs[0].kind = EXG_OUTPUT_GRADIENT_TO_PARAMETER;
    s->outputs[0].target = "up.weight";
    p->guards_code = guards;
    p->guard_count = 1;
    assert_int_equal(exg_weights_add(p->weights, &pickled, NULL), EXG_OK);
    return p;
}

/* Saved and read again, it is itself, the same bytes if it was in order; what was seen counts. */
static void carry(const exg_program *before, const char *name, bool in_order, bool seen[SEEN_COUNT])
{
    exg_program *after;
    char difference[256];
    exg_error err;

    if (exg_save(before, in_folder("a.json"), EXG_FORMAT_EARLY_JSON, NULL, &err) != EXG_OK) {
        fail_msg("%s: %s: %s", name, err.code, err.message);
    }
    after = open_program(in_folder("a.json"));
    if (!exg_program_equal(before, after, false, difference)) {
        fail_msg("%s: %s", name, difference);
    }
    assert_int_equal(exg_save(after, in_folder("b.json"), EXG_FORMAT_EARLY_JSON, NULL, NULL),
                     EXG_OK);
    if (in_order) {
        assert_files_equal("a.json", "b.json");
    }
    look_at(after, seen);
    exg_program_destroy(after);
}

/* S002-25, S002-33, S002-47, S002-75, S002-90, S002-91, S002-93, S002-103, S002-106, S002-109,
 * S002-112, S004-84: current, early, current: nothing is lost. */
static void it_carries_what_it_cannot_say(void **state)
{
    static const char *const files[] = {"fixtures/mlp.pt2",
                                        "fixtures/tied.pt2",
                                        "fixtures/constants.core.pt2",
                                        "fixtures/mutate.core.pt2",
                                        "fixtures/lm.core.dynamic.pt2",
                                        "fixtures/mlp.layout-2.2.pt2",
                                        "tests/export/data/control.pt2",
                                        "tests/export/data/symbols.pt2",
                                        "tests/export/data/kinds.pt2"};
    bool seen[SEEN_COUNT] = {false};
    exg_value values[64];
    exg_argument inputs[16];
    exg_input_spec specs[16];
    exg_program *p;

    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        p = open_program(files[i]);
        carry(p, files[i], true, seen);
        exg_program_destroy(p);
    }
    p = make_strange(values, inputs, specs);
    carry(p, "one made strange", false, seen);
    exg_program_destroy(p);
    for (int i = 0; i < SEEN_COUNT; i++) {
        if (!seen[i]) {
            fail_msg("no program has number %d of what is to be carried", i);
        }
    }
}

/* S002-14, S002-109: weights that the early schema can say among those that it cannot, in every
 * order, on storages of their own and on one together: each has its bytes again. */
static void it_carries_weights_that_it_cannot_say(void **state)
{
    static const exg_dtype dtypes[] = {EXG_DTYPE_I16, EXG_DTYPE_U16, EXG_DTYPE_U32};
    static const uint16_t bytes[4] = {1, 2, 0x203, 0xffff};
    bool seen[SEEN_COUNT] = {false};
    exg_operators *operators;

    (void)state;
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    for (unsigned order = 0; order < 81; order++) {
        exg_program *program;
        exg_builder *b;
        unsigned left = order;

        assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &program, NULL), EXG_OK);
        assert_int_equal(exg_builder_create(operators, program, &b, NULL), EXG_OK);
        for (int i = 0; i < 4; i++, left /= 3) {
            const exg_dtype dtype = dtypes[left % 3];
            const int64_t size = (int64_t)(sizeof(bytes) / exg_dtype_bytes(dtype));
            exg_tensor_meta meta = exg_builder_meta(b, dtype, &size, 1);
            char name[3] = {'w', (char)('0' + i), '\0'};

            exg_builder_weight(b, name, &meta, EXG_INPUT_BUFFER, bytes);
        }
        exg_builder_call(b);
        assert_int_equal(exg_builder_finish(b, NULL), EXG_OK);
        carry(program, "weights in an order", true, seen);
        exg_program_destroy(program);
    }
    exg_operators_destroy(operators);
}

/* S002-106: what is lifted is called as its target is, in all uses; where another value is
 * called so, a number is added, and the carry has the names. */
static void it_renames_what_is_lifted(void **state)
{
    exg_program *before = open_program("fixtures/mlp.pt2");
    exg_program *after;
    char difference[256];
    char *text;

    (void)state;
    text = saved_text(before);
    assert_non_null(strstr(text, "\"args\": [{\"as_tensor\": {\"name\": \"x\"}}, {\"as_tensor\": "
                                 "{\"name\": \"up.weight\"}}, {\"as_tensor\": {\"name\": "
                                 "\"up.bias\"}}]"));
    free(text);
    assert_int_equal(exg_program_rename_value(before, "relu", "up.weight", NULL), EXG_OK);
    text = saved_text(before);
    assert_non_null(strstr(text, "\"args\": [{\"as_tensor\": {\"name\": \"x\"}}, {\"as_tensor\": "
                                 "{\"name\": \"up.weight_1\"}}, {\"as_tensor\": {\"name\": "
                                 "\"up.bias\"}}]"));
    assert_non_null(strstr(text, "\"parameters\": {\"up.weight_1\": "));
    after = open_text(text);
    if (!exg_program_equal(before, after, false, difference)) {
        fail_msg("%s", difference);
    }
    free(text);
    exg_program_destroy(after);
    exg_program_destroy(before);
}

/* S002-110 */
static void it_refuses_a_carry_that_disagrees(void **state)
{
    static const struct {
        const char *from, *to, *message;
    } rows[] = {
        {"{\"as_tensor\": {\"name\": \"relu\"}}", "{\"as_tensor\": {\"name\": \"moved\"}}", ""},
        {"\"target\": \"aten.relu.default\"", "\"target\": \"aten.tanh.default\"", ""},
        {"\"inputs\": [{\"name\": \"x\"}]", "\"inputs\": []", ""},
        {"{\"name\": \"up.weight\"}", "{\"name\": \"down.weight\"}", ""},
        {"{\\\"parameter\\\": \\\"up.bias\\\"}", "{\\\"parameter\\\": \\\"up.gone\\\"}",
         "the early part has no 'up.gone'"},
        {"{\\\"parameter\\\": \\\"up.bias\\\"}", "{\\\"buffer\\\": \\\"up.bias\\\"}",
         "the early part has no 'up.bias'"},
        {"\\\"byte_order\\\": \\\"little\\\", ", "", "a storage of the carry has no bytes"},
        {"\\\"byte_order\\\": \\\"little\\\", \\\"data",
         "\\\"byte_order\\\": \\\"little\\\", "
         "\\\"none",
         "a storage of the carry has no bytes"},
        {"\\\"storage\\\": 4", "\\\"storage\\\": 6", "no storage 6"},
        {"\\\"storage\\\": 5", "\\\"storage\\\": -1", "no storage -1"},
        {"\\\"version\\\": 1, \\\"is_early", "\\\"version\\\": 0, \\\"is_early",
         "the carry has version 0"},
        {"\\\"version\\\": 1, \\\"is_early", "\\\"version\\\": 2, \\\"is_early",
         "the carry has version 2"},
        {"\\\"assertion_dep_index\\\": 0", "\\\"assertion_dep_index\\\": -1",
         "there is no output -1"},
        {"\\\"assertion_dep_index\\\": 0", "\\\"assertion_dep_index\\\": 4294967296",
         "there is no output 4294967296"},
        {"\\\"bound\\\": []", "\\\"bound\\\": [5]", "the carry has no input 5"},
        {"\\\"bound\\\": []", "\\\"bound\\\": [-1]", "the carry has no input -1"},
    };
    char *text = carried_text();

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *at = strstr(text, rows[i].from);
        char *edited = malloc(strlen(text) + 64);
        exg_error err;

        assert_non_null(at);
        sprintf(edited, "%.*s%s%s", (int)(at - text), text, rows[i].to, at + strlen(rows[i].from));
        assert_int_equal(try_text(edited, NULL, &err),
                         strstr(rows[i].to, "version") != NULL ? EXG_UNSUPPORTED : EXG_MALFORMED);
        if (strcmp(err.code, "EAR-004") != 0 || strstr(err.message, rows[i].message) == NULL) {
            fail_msg("%s: %s %s", rows[i].to, err.code, err.message);
        }
        if (rows[i].message[0] != '\0') { /* it stands in the carry, at a member or at all */
            static const char at_carry[] = "metadata['exg.carry']";

            assert_true(strncmp(err.where, at_carry, sizeof(at_carry) - 1) == 0);
            assert_non_null(memchr(".[", err.where[sizeof(at_carry) - 1], 3));
        }
        free(edited);
    }
    free(text);
}

/* S002-110: the flag takes the early part alone. */
static void it_ignores_the_carry_when_told_to(void **state)
{
    exg_open_options options = {.size = sizeof(options), .ignore_carry = true};
    char *text = carried_text();
    exg_program *p = NULL;

    (void)state;
    assert_int_equal(exg_open_memory(text, strlen(text), &options, &p, NULL, NULL), EXG_OK);
    assert_int_equal(p->origin, EXG_ORIGIN_EARLY);
    assert_int_equal(p->module_call_count, 0);
    assert_int_equal(p->metadata.count, 0);
    assert_string_equal(p->graph->values[p->graph->inputs[0].as_tensor].name, "up.weight");
    exg_program_destroy(p);
    free(text);
}

/* S002-14, S002-109: refused with every item named. */
static void it_refuses_strictly(void **state)
{
    exg_save_options options = {.size = sizeof(options), .strict = true};
    exg_program *p = open_program("fixtures/mlp.pt2");
    exg_error err;

    (void)state;
    assert_int_equal(exg_save(p, in_folder("x.json"), EXG_FORMAT_EARLY_JSON, &options, &err),
                     EXG_UNSUPPORTED);
    assert_string_equal(err.code, "EAR-005");
    assert_non_null(strstr(err.message, "4 input names that are not their target"));
    assert_non_null(strstr(err.message, "opset versions"));
    assert_non_null(strstr(err.message, "sample inputs"));
    exg_program_destroy(p);
    p = open_text(early_add);
    assert_int_equal(exg_save(p, in_folder("x.json"), EXG_FORMAT_EARLY_JSON, &options, &err),
                     EXG_OK);
    for (int dtype = 1; dtype < EXG_DTYPE_COUNT; dtype++) { /* 1 to 13 are the seed's */
        bool is_early = exg_dtype_export_number((exg_dtype)dtype) <= 13;

        p->weights->items[0].meta->dtype = (exg_dtype)dtype;
        p->weights->items[0].meta->sizes[0].value = 0;
        assert_int_equal(exg_save(p, in_folder("x.json"), EXG_FORMAT_EARLY_JSON, &options, &err),
                         is_early ? EXG_OK : EXG_UNSUPPORTED);
        assert_true(is_early || strstr(err.message, "of a dtype, layout or class that is newer"));
    }
    exg_program_destroy(p);
}

/* S002-109: inputs and outputs that are no tensors, and all else, each with its count. */
static void it_lists_what_is_lost(void **state)
{
    static const struct {
        const char *path, *lost;
    } rows[] = {
        {"tests/export/data/symbols.pt2",
         "5 inputs that are no tensors; 5 outputs that are no tensors; 6 arguments of newer kinds; "
         "6 results that are neither tensors nor symbolic integers; 6 values of newer dtypes or "
         "kinds; 10 hints of symbols; 28 node names; module call entries; 3 range constraints; "
         "opset versions; dialects; the version of PyTorch; the schema version; 7 sample inputs; "
         "extra files"},
        {"fixtures/tied.pt2",
         "2 input names that are not their target; weights that share a storage; 3 node names; 3 "
         "module call entries; opset versions; dialects; the version of PyTorch; the schema "
         "version; sample inputs; extra files"},
        {"tests/export/data/control.pt2",
         "kinds of the signature beyond parameter, buffer and user tensor; input names that are "
         "not their target; 16 node names; 3 flags of higher-order operators; module call "
         "entries; opset versions; dialects; the version of PyTorch; the schema version; sample "
         "inputs; extra files"},
    };
    exg_save_options strict = {.size = sizeof(strict), .strict = true};
    exg_save_options zstd = {.size = sizeof(zstd), .compression = EXG_COMPRESSION_ZSTD};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_program *p = open_program(rows[i].path);
        exg_error err;

        assert_int_equal(exg_save(p, in_folder("x.json"), EXG_FORMAT_EARLY_JSON, &strict, &err),
                         EXG_UNSUPPORTED);
        assert_true(strncmp(err.message, "the early schema cannot say: ", 29) == 0);
        assert_string_equal(err.message + 29, rows[i].lost);
        assert_int_equal(exg_save(p, in_folder("x.json"), EXG_FORMAT_EARLY_JSON, &zstd, &err),
                         EXG_UNSUPPORTED);
        assert_string_equal(err.code, "EAR-007");
        assert_string_equal(err.message, "early files hold their weights as they are");
        exg_program_destroy(p);
    }
}

/* Each loss alone, in a program that has no other. */
static void each_loss_is_counted(void **state)
{
    static const char prefix[] = "the early schema cannot say: ";
    static exg_sym_int sizes[] = {{"s0", 3, true}, {"s1", 4, true}};
    static exg_sym_int strides[] = {{.value = 1}, {.value = 1}};
    static exg_range_constraint ranges[2] = {{.symbol = "s0"}, {.symbol = "s1"}};
    static const char *texts[] = {"True", "True"};
    static exg_named_tuple tuples[] = {{.type = "one.Pair"}, {.type = "two.Pair"}};
    exg_save_options strict = {.size = sizeof(strict), .strict = true};

    (void)state;
    for (int change = 0; change < 9; change++) {
        exg_program *p = open_text(early_json("", ""));
        exg_tensor_meta *meta = p->graph->values[0].tensor;
        const char *lost[] = {"2 hints of symbols",
                              "hints of symbols",
                              "2 range constraints",
                              "2 guards",
                              "2 weights that share a storage",
                              "node names",
                              "the version of PyTorch",
                              "2 named tuples",
                              "a token of assertions"};
        exg_weight items[3];
        exg_error err;

        switch (change) {
        case 0:
        case 1:
            meta->rank = (uint32_t)(2 - change);
            meta->sizes = sizes + change;
            meta->strides = strides;
            break;
        case 2:
            p->range_constraints = ranges;
            p->range_constraint_count = 2;
            break;
        case 3:
            p->guards_code = texts;
            p->guard_count = 2;
            break;
        case 4:
            items[0] = items[1] = items[2] = p->weights->items[0];
            p->weights->items = items;
            p->weights->count = 3;
            break;
        case 5:
            p->graph->nodes[0].name = "n";
            break;
        case 6:
            p->torch_version = "2.13";
            break;
        case 7:
            p->named_tuples = tuples;
            p->named_tuple_count = 2;
            break;
        default:
            p->signature.assertion_dep_token = "t";
            break;
        }
        assert_int_equal(exg_save(p, in_folder("x.json"), EXG_FORMAT_EARLY_JSON, &strict, &err),
                         EXG_UNSUPPORTED);
        assert_true(strncmp(err.message, prefix, strlen(prefix)) == 0);
        assert_string_equal(err.message + strlen(prefix), lost[change]);
        exg_program_destroy(p);
    }
}

/* A loss counts wherever it stands: first, between others, last. */
static void losses_count_wherever_they_stand(void **state)
{
    (void)state;
    for (int change = 0; change < 18; change++) {
        const int at = change % 3; /* of the three that there are then */
        static const char *const lost[] = {
            "kinds of the signature beyond parameter, buffer and user tensor",
            "2 input names that are not their target",
            "outputs that are no tensors",
            "arguments of newer kinds",
            "results that are neither tensors nor symbolic integers",
            "values of newer dtypes or kinds",
        };
        exg_program *p = open_text(early_json("", ""));
        exg_graph *graph = p->graph;
        exg_output_spec specs[3];
        exg_input_spec inputs[3];
        exg_argument outputs[3], results[3];
        exg_named_argument args[3];
        exg_value values[8];
        exg_sym_float real = {.has_hint = false};
        exg_text names = EXG_TEXT_EMPTY;
        exg_early_encoder e = {.program = p};

        for (int i = 0; i < 3; i++) {
            specs[i] = p->signature.outputs[0];
            outputs[i] = graph->outputs[0];
            results[i] = graph->nodes[0].outputs[0];
            args[i] = graph->nodes[0].inputs[0];
            inputs[i] = p->signature.inputs[0];
            inputs[i].target = inputs[i].arg.name;
        }
        switch (change / 3) {
        case 0:
            specs[at].kind = EXG_OUTPUT_LOSS;
            p->signature.outputs = specs;
            p->signature.output_count = 3;
            break;
        case 1:
            inputs[at].target = "other";
            inputs[(at + 1) % 3].target = "another";
            p->signature.inputs = inputs;
            p->signature.input_count = 3;
            break;
        case 2:
            outputs[at] = (exg_argument){.kind = EXG_ARGUMENT_NONE};
            graph->outputs = outputs;
            graph->output_count = 3;
            break;
        case 3:
            args[at].arg = (exg_argument){.kind = EXG_ARGUMENT_COMPLEX};
            graph->nodes[0].inputs = args;
            graph->nodes[0].input_count = 3;
            break;
        case 4:
            results[at] = (exg_argument){.kind = EXG_ARGUMENT_NONE};
            graph->nodes[0].outputs = results;
            graph->nodes[0].output_count = 3;
            break;
        default:
            assert_in_range(graph->value_count, 3, 8);
            memcpy(values, graph->values, graph->value_count * sizeof(*values));
            values[at == 2 ? graph->value_count - 1 : (uint32_t)at].sym_float = &real;
            graph->values = values;
            break;
        }
        assert_int_equal(exg_early_list_losses(&e, &names), EXG_OK);
        assert_string_equal(exg_text_string(&names), lost[change / 3]);
        exg_text_free(&names);
        exg_program_destroy(p);
    }
}

/* Early buffers are persistent. */
static void buffers_that_are_not_saved_are_lost(void **state)
{
    (void)state;
    for (int persistent = 0; persistent < 2; persistent++) {
        exg_program *p = open_text(early_json("", ""));
        exg_input_spec *spec = &p->signature.inputs[0];
        exg_text names = EXG_TEXT_EMPTY;
        exg_early_encoder e = {.program = p};

        spec->kind = EXG_INPUT_BUFFER;
        spec->persistent = persistent ? EXG_TRUE : EXG_FALSE;
        spec->target = spec->arg.name;
        assert_int_equal(exg_early_list_losses(&e, &names), EXG_OK);
        assert_string_equal(persistent ? ""
                                       : "kinds of the signature beyond parameter, buffer and "
                                         "user tensor",
                            names.length == 0 ? "" : exg_text_string(&names));
        exg_text_free(&names);
        exg_program_destroy(p);
    }
}

/* S002-75: bytes beside, shared ranges one storage again. */
static void it_writes_bytes_beside(void **state)
{
    exg_save_options options = {
        .size = sizeof(options), .weights = EXG_WEIGHTS_EXTERNAL, .external_name = "tied.weights"};
    exg_program *before = open_program("fixtures/tied.pt2");
    exg_program *after;
    char difference[256];

    (void)state;
    assert_int_equal(exg_save(before, in_folder("t.json"), EXG_FORMAT_EARLY_JSON, &options, NULL),
                     EXG_OK);
    assert_int_equal(file_bytes("tied.weights"), 144);
    after = open_program(in_folder("t.json"));
    assert_int_equal(after->weights->items[0].storage, after->weights->items[1].storage);
    assert_int_equal(exg_storage_check(after->weights, after->weights->items[0].storage, NULL),
                     EXG_OK);
    if (!exg_program_equal(before, after, false, difference)) {
        fail_msg("%s", difference);
    }
    exg_program_destroy(after);
    exg_program_destroy(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_refuses_what_contradicts_itself),
        cmocka_unit_test(it_names_what_is_wrong_of_a_place),
        cmocka_unit_test(it_names_what_is_no_member),
        cmocka_unit_test(it_wants_every_key),
        cmocka_unit_test(it_refuses_every_prefix),
        cmocka_unit_test(it_refuses_bytes_of_a_sparse_weight),
        cmocka_unit_test(it_asks_for_every_value),
        cmocka_unit_test(it_asks_for_the_table_of_the_kind),
        cmocka_unit_test(it_asks_for_the_order_of_nodes),
        cmocka_unit_test(it_asks_for_the_schema_of_operators),
        cmocka_unit_test(it_takes_calls_of_functions_alone),
        cmocka_unit_test(it_accepts_what_is_good),
        cmocka_unit_test(it_checks_external_bytes),
        cmocka_unit_test(it_carries_what_it_cannot_say),
        cmocka_unit_test(it_carries_weights_that_it_cannot_say),
        cmocka_unit_test(it_renames_what_is_lifted),
        cmocka_unit_test(it_refuses_a_carry_that_disagrees),
        cmocka_unit_test(it_ignores_the_carry_when_told_to),
        cmocka_unit_test(it_refuses_strictly),
        cmocka_unit_test(it_names_a_branch_and_its_tensor),
        cmocka_unit_test(it_lists_what_is_lost),
        cmocka_unit_test(each_loss_is_counted),
        cmocka_unit_test(losses_count_wherever_they_stand),
        cmocka_unit_test(buffers_that_are_not_saved_are_lost),
        cmocka_unit_test(it_writes_bytes_beside),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
