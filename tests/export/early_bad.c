/* early_bad.c - early JSON that contradicts itself, one fault a row; and what is carried. */
#include "tests/export/early_maker.h"
#include "tests/export/exg_folder.h"

#include <exg/operators.h>
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
#define WHERE "\"Internal\", " BUFFER

static void it_refuses_what_contradicts_itself(void **state)
{
    static const struct {
        const char *from, *to;
        exg_status status;
        const char *code;
    } rows[] = {
#define EARLY_BAD(from, to, status, code) {from, to, EXG_##status, code},
#include "tests/export/early_bad.def"
#undef EARLY_BAD
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_error err;
        exg_status status = try_text(early_json(rows[i].from, rows[i].to), NULL, &err);

        if (status != rows[i].status || strcmp(err.code, rows[i].code) != 0) {
            fail_msg("row %zu, %.60s: %s %s: %s (%s)", i, rows[i].to, exg_status_name(status),
                     err.code, err.message, err.where);
        }
    }
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

static void expect_found(const char *text, const char *code)
{
    exg_operators *operators = NULL;
    exg_program *program = open_text(text);
    exg_diagnostics found = {0};
    exg_verified verified;
    bool there = false;

    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    exg_verify(program, operators, &verified, &found, NULL);
    for (uint32_t i = 0; i < found.count; i++) {
        there = there || strcmp(found.items[i].code, code) == 0;
    }
    if (!there) {
        fail_msg("%s was not found (%u errors, first %s)", code, found.error_count,
                 found.count > 0 ? found.items[0].code : "none");
    }
    exg_diagnostics_free(&found);
    exg_program_destroy(program);
    exg_operators_destroy(operators);
}

static void it_verifies_early_programs(void **state)
{
    (void)state;
    /* S002-28, S002-78: a name that no table has */
    expect_found(early_json("{\"as_tensor\": {\"name\": \"x\"}}, ",
                            "{\"as_tensor\": {\"name\": \"nowhere\"}}, "),
                 "VAL-004");
    /* S002-31, S002-101: a parameter called as a result */
    expect_found(early_json("\"parameters\": {\"w\"", "\"parameters\": {\"y\""), "VAL-001");
    /* S002-35: None for a tensor */
    expect_found(early_json("{\"as_tensor\": {\"name\": \"w\"}}", "{\"as_none\": true}"),
                 "NOD-006");
    /* S002-86: too many positional arguments, and a keyword by position */
    expect_found(early_json("{\"as_tensor\": {\"name\": \"w\"}}]",
                            "{\"as_tensor\": {\"name\": \"w\"}}, {\"as_int\": 1}]"),
                 "NOD-003");
    /* S002-84: only calls of functions */
    expect_found(early_json("\"aten.add.Tensor\"", "\"placeholder\""), "NOD-014");
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

/* S002-69, S002-70, S002-72: one range, its checksums, the file gone. */
static void it_checks_external_bytes(void **state)
{
    static const struct {
        const char *checksum;
        bool good;
    } rows[] = {
        {"",                                                                 true },
        {"xxh3-128:d536d02cb52becf3c36375144d528b79",                        true },
        {"xxh3-64:e7c0bca1e9a1b5f3",                                         true },
        {"crc32:c7949a4c",                                                   true },
        {"xxh3-64:e7c0bca1e9a1b5f4",                                         false},
        {"crc32:00000000",                                                   false},
        {"sha1:c0f2eea97c3c48ad40df82155d19041f70c94f14",                    true },
        {"00f2eea97c3c48ad40df82155d19041f70c94f14",                         false},
        {"md5:4660c1f3c1485d35f0f58c3a70499def",                             true },
        {"md5:00000000000000000000000000000000",                             false},
        {"rot13:whatever",                                                   true },
        {"0000000000000000000000000000000000000000000000000000000000000000", false},
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

/* S002-106, S002-109, S002-112, S004-84: current, early, current: nothing is lost. */
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

    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        exg_program *before = open_program(files[i]);
        exg_program *after;
        char difference[256];

        assert_int_equal(exg_save(before, in_folder("a.json"), EXG_FORMAT_EARLY_JSON, NULL, NULL),
                         EXG_OK);
        after = open_program(in_folder("a.json"));
        if (!exg_program_equal(before, after, false, difference)) {
            fail_msg("%s: %s", files[i], difference);
        }
        assert_int_equal(exg_save(after, in_folder("b.json"), EXG_FORMAT_EARLY_JSON, NULL, NULL),
                         EXG_OK);
        assert_files_equal("a.json", "b.json");
        exg_program_destroy(before);
        exg_program_destroy(after);
    }
}

/* S002-110 */
static void it_refuses_a_carry_that_disagrees(void **state)
{
    static const struct {
        const char *from, *to;
    } rows[] = {
        {"{\"as_tensor\": {\"name\": \"relu\"}}", "{\"as_tensor\": {\"name\": \"moved\"}}"},
        {"\"target\": \"aten.relu.default\"",     "\"target\": \"aten.tanh.default\""     },
        {"\"inputs\": [{\"name\": \"x\"}]",       "\"inputs\": []"                        },
        {"{\"name\": \"up.weight\"}",             "{\"name\": \"down.weight\"}"           },
    };
    char *text = carried_text();

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *at = strstr(text, rows[i].from);
        char *edited = malloc(strlen(text) + 64);
        exg_error err;

        assert_non_null(at);
        sprintf(edited, "%.*s%s%s", (int)(at - text), text, rows[i].to, at + strlen(rows[i].from));
        assert_int_equal(try_text(edited, NULL, &err), EXG_MALFORMED);
        if (strcmp(err.code, "EAR-004") != 0) {
            fail_msg("%s: %s %s", rows[i].to, err.code, err.message);
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
    exg_program_destroy(p);
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
        cmocka_unit_test(it_refuses_every_prefix),
        cmocka_unit_test(it_refuses_bytes_of_a_sparse_weight),
        cmocka_unit_test(it_verifies_early_programs),
        cmocka_unit_test(it_accepts_what_is_good),
        cmocka_unit_test(it_checks_external_bytes),
        cmocka_unit_test(it_carries_what_it_cannot_say),
        cmocka_unit_test(it_refuses_a_carry_that_disagrees),
        cmocka_unit_test(it_ignores_the_carry_when_told_to),
        cmocka_unit_test(it_refuses_strictly),
        cmocka_unit_test(it_writes_bytes_beside),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
