/* early_form.c - what an early file says in its own way comes back, whatever lies between. */
#include "tests/export/early_maker.h"
#include "tests/export/exg_folder.h"

#include <exg/module.h>
#include <exg/operators.h>
#include <exg/signature.h>
#include <exg/verify.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* ---- how it is written --------------------------------------------------------------------- */

/* S002-108, S002-117: enums by number, by name, some of each; S002-26, S002-35: as_none may be
 * false; S002-27: null members; S002-79; S002-83: targets of both spellings; S002-107,
 * S002-111: order of keys, white space. */
static void it_keeps_the_form(void **state)
{
    static const struct {
        const char *from, *to;
    } rows[] = {
        {"\"dtype\": \"f32\"", "\"dtype\": 7"},
        {"\"layout\": \"strided\"", "\"layout\": 1"},
        {"\"Internal\"", "1"},
        {"{\"as_int\": 2}", "{\"as_int\": 2, \"as_sym\": null}"},
        {"{\"as_int\": 2}", "{\"as_sym\": null, \"as_int\": 2}"},
        {"{\"as_tensor\": {\"name\": \"x\"}}",
         "{\"as_none\": null, \"as_tensor\": {\"name\": \"x\"}, \"as_int\": null}"},
        {"{\"type\": \"cpu\", \"index\": -1}", "{\"index\": -1, \"type\": \"cpu\"}"},
        {"{\"type\": \"cpu\", \"index\": -1}", "{\"type\": \"cpu\"}"},
        {"{\"type\": \"cpu\", \"index\": -1}", "{\"type\": \"cpu\", \"index\": null}"},
        {"\"kwargs\": {}", "\"kwargs\": {\n  }"},
        {"\"symint_values\": []", "\"symint_values\": [ ]"},
        {"{\"name\": \"m\", ", "\t{\"name\" :\"\\u006d\" ,\r\n"},
        {"\"buffers\": {}}", "\"buffers\": {}}\n"},
        {"\"buffers\": {}}", "\"buffers\": {}}\n\n"},
        {"\"metadata\": {}, \"par", "\"metadata\": {\"z\": \"1\", \"a\": \"\xc3\xa9\"}, \"par"},
        {"\"symint_values\": []",
         "\"symint_values\": [{\"name\": \"t\", \"value\": {\"as_int\": 0}}, {\"name\": \"s\", "
         "\"value\": {\"as_sym\": \"2*s0 + 1\"}}]"},
    };
    static const char *const args[] = {
        "[{\"as_none\": false}]",
        "[{\"as_none\": {\"any\": [1]}}]",
        "[{\"as_float\": 1}, {\"as_float\": 1.0}, {\"as_float\": 1e0}, {\"as_float\": NaN}]",
        "[{\"as_scalar_type\": 7}, {\"as_scalar_type\": \"f32\"}]",
        "[{\"as_memory_format\": 3}, {\"as_memory_format\": \"channels_last_3d\"}]",
        "[{\"as_layout\": 7}, {\"as_layout\": \"_mkldnn\"}, {\"as_layout\": 2}]",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        expect_itself(early_json(rows[i].from, rows[i].to));
    }
    for (size_t i = 0; i < sizeof(args) / sizeof(args[0]); i++) {
        expect_itself(early_node("torch.ops.mine.op.default", args[i], "\"kwargs\": {}",
                                 "\"outputs\": [{\"as_tensor\": {\"name\": \"y\"}}]"));
    }
}

/* S002-77, S002-87, S002-111, S002-116: the table is in the order of the file; so are
 * parameters, kwargs, inputs. */
static void it_keeps_the_order_of_tables(void **state)
{
    static const char *const tables[] = {
        EARLY_VALUES("y", "x", "w"),
        EARLY_VALUES("w", "x", "y"),
        EARLY_VALUES("w", "y", "x"),
        EARLY_VALUES("x", "w", "y"),
        EARLY_VALUES("unused", "y", "x") ", " EARLY_VALUE("w"),
        EARLY_VALUE("y") ", " EARLY_VALUE("x"), /* that of "w" is its tensor's */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        expect_itself(early_json(EARLY_VALUES("x", "y", "w"), tables[i]));
    }
    expect_itself(early_json("\"inputs\": [{\"name\": \"x\"}]",
                             "\"inputs\": [{\"name\": \"x\"}, {\"name\": \"w\"}]"));
    expect_itself(early_json("\"inputs\": [{\"name\": \"x\"}]",
                             "\"inputs\": [{\"name\": \"w\"}, {\"name\": \"x\"}]"));
    expect_itself(early_json("\"outputs\": [{\"name\": \"y\"}]",
                             "\"outputs\": [{\"name\": \"y\"}, {\"name\": \"x\"}, {\"name\": "
                             "\"y\"}, {\"name\": \"w\"}]"));
    expect_itself(early_node("mine.op.default", "[]",
                             "\"kwargs\": {\"z\": {\"as_int\": 1}, \"out\": {\"as_tensor\": "
                             "{\"name\": \"w\"}}, \"a\": {\"as_int\": 2}}",
                             "\"outputs\": [{\"as_tensor\": {\"name\": \"y\"}}]"));
}

/* S002-111: so is each member of a table of many, in its own way. */
static void it_keeps_the_form_of_many(void **state)
{
    char many[2][512] = {"\"metadata\": {"};
    size_t used[2];

    (void)state;
    memcpy(many[1], many[0], sizeof(many[0]));
    for (int t = 0; t < 2; t++) {
        used[t] = strlen(many[t]);
        for (int i = 13 + t; i > 0; i--) { /* 14 are enough to be looked up */
            used[t] += (size_t)snprintf(many[t] + used[t], sizeof(many[t]) - used[t],
                                        "\"%c\" : \"\\u00%02x\", ", 'a' + i, 'a' + i);
        }
        snprintf(many[t] + used[t], sizeof(many[t]) - used[t], "\"a\":\"\\u0041\"}, \"par");
        expect_itself(early_json("\"metadata\": {}, \"par", many[t]));
    }
}

/* ---- branches ------------------------------------------------------------------------------ */

#define BRANCH(name, op, own)                                                                      \
    "{\"as_gm\": {\"name\": \"" name "\", \"graph\": {\"inputs\": [{\"name\": \"a\"}], "           \
    "\"outputs\": [{\"name\": \"r\"}], \"nodes\": [{\"target\": \"" op "\", \"args\": "            \
    "[{\"as_tensor\": {\"name\": \"a\"}}, {\"as_tensor\": {\"name\": \"p\"}}], \"kwargs\": {}, "   \
    "\"outputs\": [{\"as_tensor\": {\"name\": \"r\"}}], \"metadata\": {\"stack_trace\": \"\", "    \
    "\"nn_module_stack\": \"\", \"extra\": {}}}], \"tensor_values\": [" EARLY_VALUES(              \
        "r", "p",                                                                                  \
        "a") "], \"symint_values\": []}, \"metadata\": {\"of\": \"" op                             \
             "\"}, \"parameters\": {\"p\": "                                                       \
             "{\"storage\": {\"data_location\": \"Internal\", \"data\": {\"buffer\": \"" own       \
             "\"}}, "                                                                              \
             "\"meta\": " EARLY_META "}}, \"buffers\": {}}}"

static void format_cond(char *out, size_t room, const char *name)
{
    static const char first[] = BRANCH("NAME", "aten.add.Tensor", "P4AAAMAAAAA=");
    static const char second[] = BRANCH("NAME", "aten.mul.Tensor", "QSAAAEGgAAA=");
    char branches[2][4096];

    for (int i = 0; i < 2; i++) {
        const char *from = i == 0 ? first : second;
        const char *at = strstr(from, "NAME");

        snprintf(branches[i], sizeof(branches[i]), "%.*s%s%s", (int)(at - from), from, name,
                 at + 4);
    }
    snprintf(out, room, "[{\"as_bool\": true}, %s, %s, {\"as_tensors\": [{\"name\": \"x\"}]}]",
             branches[0], branches[1]);
}

/* S002-96, S002-49, S002-114: a branch's name is none: it may repeat, be empty, be a class's or
 * anything; S002-106: what branches have goes back to them by way of every format. */
static void it_keeps_names_of_branches(void **state)
{
    static const char *const names[] = {"GraphModule", "",  "<lambda>", "forward",  "a.b",
                                        "w",           "x", "class",    "\xc3\xa9", "true"};
    exg_operators *operators = NULL;

    (void)state;
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *text;
        exg_verified verified;
        exg_program *p;
        exg_error err;
        char args[8192];
        const exg_node *node;

        format_cond(args, sizeof(args), names[i]);
        text = early_node("torch.ops.higher_order.cond", args, "\"kwargs\": {}",
                          "\"outputs\": [{\"as_tensor\": {\"name\": \"y\"}}]");
        expect_itself(text);
        format_cond(args, sizeof(args), names[i]);
        p = open_text(early_node("torch.ops.higher_order.cond", args, "\"kwargs\": {}",
                                 "\"outputs\": [{\"as_tensor\": {\"name\": \"y\"}}]"));
        node = &p->graph->nodes[0];
        assert_string_not_equal(node->inputs[1].arg.as_graph->name,
                                node->inputs[2].arg.as_graph->name);
        if (exg_verify(p, operators, &verified, NULL, &err) != EXG_OK) {
            fail_msg("'%s': %s: %s", names[i], err.code, err.message);
        }
        exg_program_destroy(p);
    }
    exg_operators_destroy(operators);
}

/* S002-96: nor is it what any tensor of the module begins with, the first or the last. */
static void it_keeps_branches_apart_from_tensors(void **state)
{
    static const char tensor[] =
        "\"parameters\": {\"v.u\": {\"storage\": {\"data_location\": \"Internal\", \"data\": "
        "{\"buffer\": \"P4AAAMAAAAA=\"}}, \"meta\": " EARLY_META "}, \"w\": ";
    static const char *const names[] = {"v", "w"};
    exg_operators *operators = NULL;

    (void)state;
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    for (int i = 0; i < 2; i++) {
        char args[8192];
        const char *text;
        exg_verified verified;
        exg_error err;
        exg_program *p;

        format_cond(args, sizeof(args), names[i]);
        text = early_node("torch.ops.higher_order.cond", args, "\"kwargs\": {}",
                          "\"outputs\": [{\"as_tensor\": {\"name\": \"y\"}}]");
        text = early_with(text, EARLY_VALUES("x", "y", "w"),
                          EARLY_VALUES("x", "y", "w") ", " EARLY_VALUE("v.u"));
        p = open_text(early_with(text, "\"parameters\": {\"w\": ", tensor));
        for (int k = 1; k <= 2; k++) {
            const char *name = p->graph->nodes[0].inputs[k].arg.as_graph->name;

            assert_string_not_equal(name, "v");
            assert_string_not_equal(name, "w");
        }
        if (exg_verify(p, operators, &verified, NULL, &err) != EXG_OK) {
            fail_msg("'%s': %s: %s", names[i], err.code, err.message);
        }
        exg_program_destroy(p);
    }
    exg_operators_destroy(operators);
}

/* A form that is none stands for nothing. */
static void it_leaves_a_form_that_is_none(void **state)
{
    static const char *const forms[] = {"{", "[]", "{\"name\": 3}"};
    exg_program *p = open_text(early_json("", ""));
    char *plain, *text;

    (void)state;
    p->early_form = NULL;
    plain = saved_text(p);
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        p->early_form = forms[i];
        text = saved_text(p);
        assert_string_equal(text, plain);
        free(text);
    }
    free(plain);
    exg_program_destroy(p);
}

/* S002-49: what a branch has is its own, used or not. */
static void it_keeps_tensors_that_no_branch_uses(void **state)
{
    static const char used[] =
        "[{\"as_tensor\": {\"name\": \"a\"}}, {\"as_tensor\": {\"name\": \"p\"}}]";
    static const char unused[] = "[{\"as_tensor\": {\"name\": \"a\"}}, {\"as_int\": 1}]";
    const char *text;
    char args[8192];

    (void)state;
    format_cond(args, sizeof(args), "GraphModule");
    text = early_node("torch.ops.higher_order.cond", args, "\"kwargs\": {}",
                      "\"outputs\": [{\"as_tensor\": {\"name\": \"y\"}}]");
    text = early_with(text, used, unused); /* of the first branch */
    expect_itself(early_with(text, used, unused));
    expect_itself(text);
}

/* S002-49, S002-106: what branches have becomes operands of their own where the node has no list
 * of them: behind those it has, before keywords. */
static void it_keeps_branches_beside_single_operands(void **state)
{
    static const char first[] = BRANCH("b", "aten.add.Tensor", "P4AAAMAAAAA=");
    static const char second[] = BRANCH("c", "aten.mul.Tensor", "QSAAAEGgAAA=");
    static const char *const shapes[][2] = {
        {"[1, 2, {\"as_tensor\": {\"name\": \"x\"}}]", "\"kwargs\": {}"},
        {"[{\"as_tensor\": {\"name\": \"x\"}}, 1, 2]", "\"kwargs\": {}"},
        {"[{\"as_bool\": true}, 1, 2]", "\"kwargs\": {\"k\": {\"as_int\": 3}}"},
        {"[1, {\"as_tensor\": {\"name\": \"x\"}}]",
         "\"kwargs\": {\"k\": {\"as_int\": 3}, \"l\": 2}"},
        {"[]", "\"kwargs\": {\"k\": 1}"},
        {"[]", "\"kwargs\": {\"k\": 1, \"l\": 2, \"m\": {\"as_tensor\": {\"name\": \"x\"}}}"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        char texts[2][8192] = {"", ""};

        for (int k = 0; k < 2; k++) { /* the numbers stand for the branches */
            for (const char *at = shapes[i][k]; *at != '\0'; at++) {
                const bool alone = (at == shapes[i][k] || strchr("[ ", at[-1]) != NULL) &&
                                   (*at == '1' || *at == '2');
                size_t used = strlen(texts[k]);

                snprintf(texts[k] + used, sizeof(texts[k]) - used, "%.*s",
                         alone ? (int)sizeof(first) : 1,
                         !alone       ? at
                         : *at == '1' ? first
                                      : second);
            }
        }
        const char *text = early_node("mine.op.default", texts[0], texts[1],
                                      "\"outputs\": [{\"as_tensor\": {\"name\": \"y\"}}]");
        exg_program *p = open_text(text);
        const exg_node *node = &p->graph->nodes[0];

        for (uint32_t k = 1; k < node->input_count; k++) {
            assert_true(node->inputs[k].kind >= node->inputs[k - 1].kind); /* keywords last */
        }
        exg_program_destroy(p);
        expect_itself(text);
    }
}

/* ---- bytes beside -------------------------------------------------------------------------- */

#define INTERNAL "{\"data_location\": \"Internal\", \"data\": {\"buffer\": \"P4AAAMAAAAA=\"}}"

static const char *external(const char *location, const char *length, const char *checksum)
{
    static char text[512];

    snprintf(text, sizeof(text),
             "{\"data_location\": \"External\", \"data\": {\"location\": \"%s\", \"offset\": "
             "\"4\", \"length\": \"%s\", \"checksum\": \"%s\"}}",
             location, length, checksum);
    return text;
}

static const unsigned char bytes_beside[] = {9, 9, 9, 9, 0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0, 7};

static exg_program *open_beside(const char *text)
{
    write_file("w.bin", bytes_beside, sizeof(bytes_beside));
    write_file("e.json", text, strlen(text));
    return open_program(in_folder("e.json"));
}

/* S002-73, S002-69, S002-111: External stays, in place, with its checksum, whatever that is. */
static void it_keeps_external_bytes_beside(void **state)
{
    static const char *const checksums[] = {
        "",
        "crc32:c7949a4c",
        "CRC32:C7949A4C",
        "rot13:whatever",
        "sha256:cd79fa3baa7a66adad4bd3d75b9fe7fc4d2fb0a81ed6ad1c5f1e2a41e3bd3ba0",
        "xxh3-64:e7c0bca1e9a1b5f3",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(checksums) / sizeof(checksums[0]); i++) {
        const char *text = early_json(INTERNAL, external("w.bin", "8", checksums[i]));
        exg_program *p = open_beside(text);
        exg_program *other;
        char *again;

        if (strncmp(checksums[i], "sha256", 6) == 0) { /* a wrong one is told, and not written on */
            assert_int_equal(exg_save(p, in_folder("s.json"), EXG_FORMAT_EARLY_JSON, NULL, NULL),
                             EXG_MALFORMED);
            exg_program_destroy(p);
            continue;
        }
        again = saved_text(p);
        assert_string_equal(again, text);
        free(again);
        assert_int_equal(file_bytes("w.bin"), sizeof(bytes_beside));
        save_program(p, "w.exg", NULL);
        exg_program_destroy(p);
        assert_int_equal(remove(in_folder("w.bin")), 0);
        other = open_program(in_folder("w.exg"));
        again = saved_text(other);
        assert_string_equal(again, text);
        free(again);
        assert_int_equal(file_bytes("w.bin"), 12); /* to the end of what is named */
        exg_program_destroy(other);
    }
}

/* S002-73: a file beside reaches to where an empty range lies in it. */
static void it_writes_a_file_of_no_bytes(void **state)
{
    const char *text = early_json(INTERNAL ", \"meta\": {\"dtype\": \"f32\", \"sizes\": "
                                           "[{\"as_int\": 2}]",
                                  "%STORAGE%, \"meta\": {\"dtype\": "
                                  "\"f32\", \"sizes\": [{\"as_int\": 0}]");
    exg_program *p = open_beside(early_with(text, "%STORAGE%", external("w.bin", "0", "")));
    size_t length;
    uint8_t *now;

    (void)state;
    save_program(p, "w.exg", NULL);
    exg_program_destroy(p);
    assert_int_equal(remove(in_folder("w.bin")), 0);
    p = open_program(in_folder("w.exg"));
    free(saved_text(p));
    now = read_file("w.bin", &length);
    assert_int_equal(length, 4);
    assert_memory_equal(now, "\0\0\0", 4);
    free(now);
    exg_program_destroy(p);
}

/* S002-73: a file of that name that holds something else is nobody's to write over. */
static void it_replaces_no_file_beside(void **state)
{
    exg_save_options inside = {.size = sizeof(inside), .weights = EXG_WEIGHTS_INTERNAL};
    exg_save_options dry = {.size = sizeof(dry), .dry_run = true};
    exg_program *p = open_beside(early_json(INTERNAL, external("w.bin", "8", "")));
    size_t length;
    uint8_t *now;
    exg_error err;

    (void)state;
    save_program(p, "w.exg", NULL);
    exg_program_destroy(p);
    write_file("w.bin", "something else", 14);
    p = open_program(in_folder("w.exg"));
    assert_int_equal(exg_save(p, in_folder("s.json"), EXG_FORMAT_EARLY_JSON, NULL, &err),
                     EXG_USAGE);
    assert_string_equal(err.code, "EAR-008");
    assert_int_equal(exg_save(p, in_folder("s.json"), EXG_FORMAT_EARLY_JSON, &dry, &err),
                     EXG_USAGE);
    assert_string_equal(err.code, "EAR-008");
    now = read_file("w.bin", &length);
    assert_int_equal(length, 14);
    assert_memory_equal(now, "something else", 14);
    free(now);
    assert_int_equal(exg_save(p, in_folder("s.json"), EXG_FORMAT_EARLY_JSON, &inside, &err),
                     EXG_OK);
    exg_program_destroy(p);
    p = open_program(in_folder("s.json"));
    assert_int_equal(p->weights->storages[0].kind, EXG_STORAGE_MEMORY);
    assert_memory_equal(p->weights->storages[0].data, bytes_beside + 4, 8);
    exg_program_destroy(p);
}

/* S002-66, S002-73: a file in folders that are not there. */
static void it_makes_folders_for_files_beside(void **state)
{
    const char *text = early_json(INTERNAL, external("w.bin", "8", ""));
    exg_program *p = open_beside(text);
    char *again;

    (void)state;
    save_program(p, "w.exg", NULL);
    exg_program_destroy(p);
    for (int known = 0; known < 2; known++) { /* the folder is there the second time */
        text = early_json(INTERNAL, external("one/two/w.bin", "8", ""));
        p = open_beside(early_json(INTERNAL, external("w.bin", "8", "")));
        save_program(p, "w.exg", NULL);
        exg_program_destroy(p);
        p = open_program(in_folder("w.exg"));
        p->early_form = strdup(text);
        assert_non_null(p->early_form);
        remove(in_folder("one/two/w.bin"));
        again = saved_text(p);
        assert_string_equal(again, text);
        free(again);
        assert_int_equal(file_bytes("one/two/w.bin"), 12);
        free((char *)(uintptr_t)p->early_form);
        exg_program_destroy(p);
    }
    assert_int_equal(remove(in_folder("one/two/w.bin")), 0);
    assert_int_equal(rmdir(in_folder("one/two")), 0);
    assert_int_equal(rmdir(in_folder("one")), 0);
}

/* S002-73: nor behind one that was not there, which is not left then. */
static void it_replaces_no_file_behind_another(void **state)
{
    char tensor[1024];
    exg_program *p;
    size_t length;
    uint8_t *now;
    exg_error err;

    (void)state;
    snprintf(tensor, sizeof(tensor),
             "\"buffers\": {\"v\": {\"storage\": %s, \"meta\": " EARLY_META "}}",
             external("v.bin", "8", ""));
    write_file("v.bin", bytes_beside, sizeof(bytes_beside));
    p = open_beside(early_with(early_with(early_add, "\"buffers\": {}", tensor), INTERNAL,
                               external("w.bin", "8", "")));
    save_program(p, "w.exg", NULL);
    exg_program_destroy(p);
    for (int first = 0; first < 2; first++) {
        const char *gone = first == 0 ? "w.bin" : "v.bin";
        const char *other = first == 0 ? "v.bin" : "w.bin";

        remove(in_folder(gone));
        write_file(other, "something else", 14);
        p = open_program(in_folder("w.exg"));
        assert_int_equal(exg_save(p, in_folder("s.json"), EXG_FORMAT_EARLY_JSON, NULL, &err),
                         EXG_USAGE);
        assert_string_equal(err.code, "EAR-008");
        exg_program_destroy(p);
        now = read_file(other, &length);
        assert_int_equal(length, 14);
        assert_memory_equal(now, "something else", 14);
        free(now);
        assert_int_not_equal(access(in_folder(gone), F_OK), 0);
    }
}

/* Nor are those of a file that cannot be written. */
static void it_leaves_no_files_that_nothing_names(void **state)
{
    static const char *const beside[] = {"v.bin", "w.bin"};
    char tensor[1024];
    exg_program *p;

    (void)state;
    snprintf(tensor, sizeof(tensor),
             "\"buffers\": {\"v\": {\"storage\": %s, \"meta\": " EARLY_META "}}",
             external("v.bin", "8", ""));
    write_file("v.bin", bytes_beside, sizeof(bytes_beside));
    p = open_beside(early_with(early_with(early_add, "\"buffers\": {}", tensor), INTERNAL,
                               external("w.bin", "8", "")));
    save_program(p, "w.exg", NULL);
    exg_program_destroy(p);
    p = open_program(in_folder("w.exg"));
    remove(in_folder("v.bin"));
    remove(in_folder("w.bin"));
    remove(in_folder("s.json"));
    assert_int_equal(mkdir(in_folder("s.json"), 0777), 0);
    assert_int_not_equal(exg_save(p, in_folder("s.json"), EXG_FORMAT_EARLY_JSON, NULL, NULL),
                         EXG_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_not_equal(access(in_folder(beside[i]), F_OK), 0);
    }
    assert_int_equal(rmdir(in_folder("s.json")), 0);
    exg_program_destroy(p);
}

/* S002-73: other weights are no longer what the file beside holds. */
static void it_writes_other_weights_inside(void **state)
{
    exg_program *p = open_beside(early_json(INTERNAL, external("w.bin", "8", "")));
    exg_weights *made = NULL;
    char *text;

    (void)state;
    assert_int_equal(exg_weights_strip(p->weights, &made, NULL), EXG_OK);
    exg_weights_release(p->weights);
    p->weights = made;
    text = saved_text(p);
    assert_string_equal(text, early_json("P4AAAMAAAAA=", "AAAAAAAAAAA="));
    free(text);
    assert_int_equal(file_bytes("w.bin"), sizeof(bytes_beside));
    exg_program_destroy(p);
}

/* S002-66, S002-68, S002-72, S002-118: what is named is looked at, whether or not there is a
 * checksum; tensor and file are named. */
static void it_looks_at_every_file(void **state)
{
    static const struct {
        const char *location, *length;
        exg_status status;
        const char *code;
    } rows[] = {
        {"gone.bin", "8", EXG_IO, "IO-OPEN"},
        {"w.bin", "12", EXG_MALFORMED, "IO-RANGE"},
        {"link.bin", "8", EXG_UNSUPPORTED, "WGT-LINK"}, /* where it leads are bytes enough */
        {"w.bin", "8", EXG_OK, ""},
    };
    static const char *const checksums[] = {"", "rot13:whatever", "crc32:c7949a4c"};

    (void)state;
    assert_int_equal(symlink("/etc/passwd", in_folder("link.bin")), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (size_t k = 0; k < sizeof(checksums) / sizeof(checksums[0]); k++) {
            exg_program *p = open_beside(
                early_json(INTERNAL, external(rows[i].location, rows[i].length, checksums[k])));
            exg_error err;
            exg_status status = exg_weights_check(p->weights, NULL, &err);

            if (status != rows[i].status || exg_storage_check(p->weights, 0, NULL) != status ||
                (status != EXG_OK && strcmp(err.code, rows[i].code) != 0)) {
                fail_msg("%s %s '%s': %s %s", rows[i].location, rows[i].length, checksums[k],
                         exg_status_name(status), err.code);
            }
            assert_true(status == EXG_OK || (strstr(err.where, "of w in ") != NULL &&
                                             strstr(err.where, rows[i].location) != NULL));
            exg_program_destroy(p);
        }
    }
    assert_int_equal(remove(in_folder("link.bin")), 0);
}

/* S002-72: a file that is too short is not taken for another one. */
static void it_tells_short_files_from_others(void **state)
{
    char tensor[1024];
    exg_program *p;
    exg_error err;

    (void)state;
    snprintf(tensor, sizeof(tensor),
             "\"buffers\": {\"v\": {\"storage\": %s, \"meta\": " EARLY_META "}}",
             external("w.bin", "16", ""));
    p = open_beside(early_with(early_with(early_add, "\"buffers\": {}", tensor), INTERNAL,
                               external("w.bin", "12", "crc32:00000000")));
    assert_int_equal(exg_weights_check(p->weights, NULL, &err), EXG_MALFORMED);
    assert_string_equal(err.code, "IO-RANGE");
    exg_program_destroy(p);
}

/* S002-69, S002-118: two tensors of one range; each one's checksum counts, in whatever order.
 * S002-75: they are one storage. */
static void it_compares_every_checksum(void **state)
{
    static const struct {
        const char *first, *second;
        exg_status status;
    } rows[] = {
        {"", "crc32:c7949a4c", EXG_OK},
        {"", "crc32:00000000", EXG_MALFORMED},
        {"crc32:00000000", "", EXG_MALFORMED},
        {"crc32:c7949a4c", "crc32:C7949A4C", EXG_OK},
        {"crc32:c7949a4c", "crc32:00000000", EXG_MALFORMED},
        {"xxh3-64:e7c0bca1e9a1b5f3", "crc32:c7949a4c", EXG_OK},
        {"xxh3-64:e7c0bca1e9a1b5f3", "crc32:c7949a4d", EXG_MALFORMED},
        {"rot13:whatever", "xxh3-64:e7c0bca1e9a1b5f4", EXG_MALFORMED},
        {"rot13:whatever", "rot14:whatever", EXG_OK},
        {"xxh3-64:e7c0bca1e9a1b5f3", "xxh3-128:d536d02cb52becf3c36375144d528b78", EXG_MALFORMED},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char tensor[1024];
        const char *text;
        exg_program *p;
        char *again;
        exg_error err;

        snprintf(tensor, sizeof(tensor),
                 "\"buffers\": {\"v\": {\"storage\": %s, \"meta\": " EARLY_META "}}",
                 external("w.bin", "8", rows[i].second));
        text = early_with(early_add, "\"buffers\": {}", tensor);
        text = early_with(text, INTERNAL, external("w.bin", "8", rows[i].first));
        p = open_beside(text);
        assert_int_equal(p->weights->storage_count, 1);
        if (exg_weights_check(p->weights, NULL, &err) != rows[i].status) {
            fail_msg("'%s' and '%s': %s", rows[i].first, rows[i].second, err.message);
        }
        assert_int_equal(exg_save(p, in_folder("w.exg"), EXG_FORMAT_EXG, NULL, NULL),
                         rows[i].status);
        if (rows[i].status == EXG_OK) {
            again = saved_text(p);
            assert_string_equal(again, text);
            free(again);
        }
        exg_program_destroy(p);
    }
}

/* S002-64, S002-71, S002-73: bytes inside and beside, in one file; both are big endian. */
static void it_reads_bytes_inside_and_beside(void **state)
{
    static const float expected[] = {1.0f, -2.0f};
    char tensor[1024];
    exg_program *p;
    exg_program *other;
    char *text;
    char *again;

    (void)state;
    snprintf(tensor, sizeof(tensor),
             "\"buffers\": {\"v\": {\"storage\": %s, \"meta\": " EARLY_META "}}",
             external("w.bin", "8", ""));
    text = strdup(early_with(early_add, "\"buffers\": {}", tensor));
    assert_non_null(text);
    p = open_beside(text);
    save_program(p, "w.exg", NULL);
    other = open_program(in_folder("w.exg"));
    for (uint32_t i = 0; i < 2; i++) {
        exg_program *each = i == 0 ? p : other;

        assert_int_equal(each->weights->storage_count, 2);
        for (uint32_t k = 0; k < 2; k++) {
            float got[2];

            assert_int_equal(each->weights->storages[k].byte_order, EXG_BIG_ENDIAN);
            assert_int_equal(
                exg_weight_read(each->weights, &each->weights->items[k], got, sizeof(got), NULL),
                EXG_OK);
            assert_memory_equal(got, expected, sizeof(got));
        }
        again = saved_text(each);
        assert_string_equal(again, text);
        free(again);
    }
    exg_program_destroy(other);
    exg_program_destroy(p);
    free(text);
}

/* S002-75: a range that is i32 here and f32 there is two storages; so are empty ones. */
static void it_shares_bytes_of_one_dtype_alone(void **state)
{
    static const char *const lengths[] = {"8", "0"};

    (void)state;
    for (int i = 0; i < 2; i++) {
        char tensor[1024];
        exg_program *p;
        const char *text;

        snprintf(tensor, sizeof(tensor),
                 "\"buffers\": {\"v\": {\"storage\": %s, \"meta\": {\"dtype\": \"i32\", \"sizes\": "
                 "[{\"as_int\": %d}], \"requires_grad\": false, \"device\": {\"type\": \"cpu\", "
                 "\"index\": -1}, \"strides\": [{\"as_int\": 1}], \"storage_offset\": {\"as_int\": "
                 "0}, \"layout\": \"strided\"}}}",
                 external("w.bin", lengths[i], ""), i == 0 ? 2 : 0);
        text = early_with(early_add, "\"buffers\": {}", tensor);
        if (i == 1) {
            text = early_with(text,
                              INTERNAL ", \"meta\": {\"dtype\": \"f32\", \"sizes\": "
                                       "[{\"as_int\": 2}]",
                              INTERNAL ", \"meta\": {\"dtype\": \"f32\", "
                                       "\"sizes\": [{\"as_int\": 0}]");
        }
        p = open_beside(early_with(text, INTERNAL, external("w.bin", lengths[i], "")));
        assert_int_equal(p->weights->storage_count, 2);
        exg_program_destroy(p);
    }
}

/* S002-70: the checksum of no bytes at all. */
static void it_compares_the_checksum_of_nothing(void **state)
{
    static const char *const sums[] = {"xxh3-128:99aa06d3014798d86001c324468d497f",
                                       "xxh3-128:99aa06d3014798d86001c324468d4970"};

    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *text = early_json(INTERNAL ", \"meta\": {\"dtype\": \"f32\", \"sizes\": "
                                               "[{\"as_int\": 2}]",
                                      "%STORAGE%, \"meta\": {\"dtype\": "
                                      "\"f32\", \"sizes\": [{\"as_int\": 0}]");
        exg_program *p =
            open_beside(early_with(text, "%STORAGE%", external("w.bin", "0", sums[i])));

        assert_int_equal(exg_storage_check(p->weights, 0, NULL), i == 0 ? EXG_OK : EXG_MALFORMED);
        exg_program_destroy(p);
    }
}

/* S002-69: what nobody can compare is told, and kept when the bytes move. */
static void it_tells_of_unknown_checksums(void **state)
{
    exg_save_options moves = {
        .size = sizeof(moves), .weights = EXG_WEIGHTS_EXTERNAL, .external_name = "moved.bin"};
    exg_program *p = open_beside(early_json(INTERNAL, external("w.bin", "8", "rot13:whatever")));
    exg_operators *operators = NULL;
    exg_diagnostics found;
    exg_verified verified;

    (void)state;
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    assert_int_equal(exg_verify(p, operators, &verified, &found, NULL), EXG_OK);
    assert_int_equal(found.count, 0);
    assert_int_equal(exg_verify_data(p, &found, NULL, NULL), EXG_OK);
    assert_int_equal(found.count, 1);
    assert_string_equal(found.items[0].code, "WGT-016");
    assert_non_null(strstr(found.items[0].message, "'rot13:whatever' of 'w'"));
    exg_diagnostics_free(&found);
    exg_operators_destroy(operators);
    assert_int_equal(exg_save(p, in_folder("m.json"), EXG_FORMAT_EARLY_JSON, &moves, NULL), EXG_OK);
    exg_program_destroy(p);
    p = open_program(in_folder("m.json"));
    assert_string_equal(p->weights->storages[0].location, "moved.bin");
    assert_int_equal(p->weights->storages[0].checksum.kind, EXG_CHECKSUM_UNKNOWN);
    assert_string_equal(p->weights->storages[0].checksum.text, "rot13:whatever");
    save_program(p, "m.exg", NULL);
    exg_program_destroy(p);
    p = open_program(in_folder("m.exg")); /* which has a checksum of its own beside it */
    assert_int_equal(p->weights->storages[0].checksum.kind, EXG_CHECKSUM_XXH3_128);
    assert_string_equal(p->weights->storages[0].further[0].text, "rot13:whatever");
    exg_program_destroy(p);
}

/* S002-111: nothing but the program and its form goes into a file. */
static void it_writes_the_same_bytes_twice(void **state)
{
    exg_program *p = open_text(early_json("\"Internal\"", "1"));

    (void)state;
    for (uint32_t threads = 1; threads <= 8; threads += 7) {
        exg_save_options options = {.size = sizeof(options), .threads = threads};
        const char *name = threads == 1 ? "1.json" : "8.json";

        assert_int_equal(exg_save(p, in_folder(name), EXG_FORMAT_EARLY_JSON, &options, NULL),
                         EXG_OK);
    }
    assert_files_equal("1.json", "8.json");
    exg_program_destroy(p);
}

/* S002-21: a device without an index has -1, which PyTorch has as null today. */
static void it_reads_devices_without_an_index(void **state)
{
    static const char *const devices[] = {"{\"type\": \"cuda\"}",
                                          "{\"type\": \"cuda\", \"index\": null}",
                                          "{\"type\": \"cuda\", \"index\": -1}"};

    (void)state;
    for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
        exg_program *p = open_text(early_json("{\"type\": \"cpu\", \"index\": -1}", devices[i]));

        assert_int_equal(p->graph->values[0].tensor->device.index, -1);
        assert_string_equal(p->graph->values[0].tensor->device.type, "cuda");
        exg_program_destroy(p);
    }
}

/* ---- as PyTorch takes it -------------------------------------------------------------------- */

/* The program in a .pt2 as it is there, not the early one that it was made of. */
static exg_program *made_current(const char *text)
{
    exg_open_options options = {.size = sizeof(options), .ignore_carry = true};
    exg_program *p = open_text(text);
    exg_program *made = NULL;

    assert_int_equal(exg_save(p, in_folder("c.pt2"), EXG_FORMAT_PT2, NULL, NULL), EXG_OK);
    exg_program_destroy(p);
    assert_int_equal(exg_open(in_folder("c.pt2"), &options, &made, NULL, NULL), EXG_OK);
    return made;
}

/* S002-96, S002-103, S002-115: torch.export.load() opens the program called "model", and wants
 * a range of each symbol, and texts that it can read. */
static void it_writes_what_pytorch_loads(void **state)
{
    exg_program *p = made_current(
        early_with(early_json("{\"as_int\": 2}", "{\"as_sym\": \"s0\"}"), "\"symint_values\": []",
                   "\"symint_values\": [{\"name\": \"t\", \"value\": {\"as_sym\": \"u3\"}}]"));

    (void)state;
    assert_string_equal(p->name, "model");
    assert_int_equal(p->origin, EXG_ORIGIN_CURRENT);
    assert_int_equal(p->range_constraint_count, 2);
    assert_string_equal(p->range_constraints[0].symbol, "s0");
    assert_true(p->range_constraints[0].has_min && p->range_constraints[0].min_val == 0);
    assert_false(p->range_constraints[0].has_max);
    assert_string_equal(p->range_constraints[1].symbol, "u3");
    assert_string_equal(p->graph->values[exg_graph_find_value(p->graph, "x")].tensor->sizes[0].expr,
                        "Symbol('s0', integer=True)");
    assert_string_equal(p->graph->values[exg_graph_find_value(p->graph, "t")].sym_int->expr,
                        "Symbol('u3', integer=True)");
    assert_false(p->range_constraints[1].has_min);
    exg_program_destroy(p);
    p = made_current(early_with(
        early_json("\"nn_module_stack\": \"\", \"extra\": {}",
                   "\"nn_module_stack\": \"one, two\", \"extra\": {\"custom\": \"no json\"}"),
        "\"metadata\": {}, \"par", "\"metadata\": {\"custom\": \"none\"}, \"par"));
    assert_string_equal(p->metadata.items[0].key, "exg.extra.custom");
    assert_string_equal(p->graph->nodes[0].metadata.items[1].key, "exg.extra.nn_module_stack");
    assert_string_equal(p->graph->nodes[0].metadata.items[2].key, "exg.extra.custom");
    exg_program_destroy(p);
    p = made_current(early_json("{\"name\": \"x\"}], \"outputs\"",
                                "{\"name\": \"x\"}, {\"name\": \"class\"}], \"outputs\""));
    assert_string_equal(p->signature.inputs[2].arg.name, "class_1");
    exg_program_destroy(p);
}

/* The form that is kept beside is without the bytes, which are weights already. */
static void it_keeps_the_form_without_bytes(void **state)
{
    exg_program *p = made_current(early_add);
    uint32_t forms = 0;

    (void)state;
    assert_non_null(strstr(early_add, "P4AAAMAAAAA="));
    for (uint32_t i = 0; i < p->metadata.count; i++) {
        forms += strstr(p->metadata.items[i].value, "data_location") != NULL;
        assert_null(strstr(p->metadata.items[i].value, "P4AAAMAAAAA="));
    }
    assert_int_equal(forms, 1);
    exg_program_destroy(p);
}

/* S002-115: keys that PyTorch would read otherwise, of nodes and of the program; others stay. */
static void it_sets_apart_keys_that_pytorch_reads(void **state)
{
    static const struct {
        const char *key;
        bool stays;
    } rows[] = {{"source_fn_stack", false}, {"custom", false},    {"from_node", false},
                {"from_nod", true},         {"from_nodes", true}, {"source_fn", true},
                {"torch_fn", true},         {"customs", true},    {"stack_traces", true}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char of_node[80], of_program[80], apart[80];
        const char *key = rows[i].stays ? rows[i].key : apart;
        exg_program *p;

        snprintf(apart, sizeof(apart), "exg.extra.%s", rows[i].key);
        snprintf(of_node, sizeof(of_node), "\"extra\": {\"%s\": \"v\"}", rows[i].key);
        snprintf(of_program, sizeof(of_program), "\"metadata\": {\"%s\": \"w\"}, \"par",
                 rows[i].key);
        p = made_current(early_with(early_json("\"extra\": {}", of_node), "\"metadata\": {}, \"par",
                                    of_program));
        assert_string_equal(exg_node_metadata(&p->graph->nodes[0], key), "v");
        assert_string_equal(p->metadata.items[0].key, key);
        assert_string_equal(p->metadata.items[0].value, "w");
        exg_program_destroy(p);
    }
}

/* S002-81, S002-115: PyTorch reads an empty stack of modules, and items of three parts. */
static void it_sets_apart_stacks_that_pytorch_cannot_read(void **state)
{
    static const struct {
        const char *stack;
        bool is_read;
    } rows[] = {{"", true},         {"a,b,c", true},         {"a,b,c;d,(e,f),g", true},
                {"a", false},       {"a~,b,~c;d,e,f", true}, {"a,b,c;", false},
                {"a,b,c;d", false}, {";a,b,c", false}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char stack[64];
        exg_program *p;
        const exg_string_map *map;

        snprintf(stack, sizeof(stack), "\"nn_module_stack\": \"%s\"", rows[i].stack);
        p = made_current(early_with(early_json("\"nn_module_stack\": \"\"", stack),
                                    "\"stack_trace\": \"\"", "\"stack_trace\": \"a\""));
        map = &p->graph->nodes[0].metadata;
        assert_int_equal(map->count, 2);
        assert_string_equal(map->items[0].key, "stack_trace");
        assert_string_equal(map->items[1].key,
                            rows[i].is_read ? "nn_module_stack" : "exg.extra.nn_module_stack");
        assert_string_equal(map->items[1].value, rows[i].stack);
        exg_program_destroy(p);
    }
}

/* S002-115: or it is told that it cannot. */
static void it_refuses_names_that_no_tensor_has(void **state)
{
    static const char *const names[] = {"forward", "class", "self", "graph", "a.training", "a."};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char table[64];
        exg_program *p;
        exg_error err;

        snprintf(table, sizeof(table), "\"parameters\": {\"%s\"", names[i]);
        p = open_text(early_json("\"parameters\": {\"w\"", table));
        assert_int_equal(exg_save(p, in_folder("c.pt2"), EXG_FORMAT_PT2, NULL, &err),
                         EXG_UNSUPPORTED);
        assert_string_equal(err.code, "PT2-004");
        exg_program_destroy(p);
    }
}

/* S002-119: a .pt2 whose program was changed since is what it says; what it was made of is a
 * text in it. */
static void it_recalls_no_other_program(void **state)
{
    exg_program *p = made_current(early_add);
    exg_extra_file extra = {"notes.txt", 0};
    exg_program *again;

    (void)state;
    p->extra_files = &extra; /* what lies beside it is no other program */
    p->extra_file_count = 1;
    assert_int_equal(exg_save(p, in_folder("d.pt2"), EXG_FORMAT_PT2, NULL, NULL), EXG_OK);
    again = open_program(in_folder("d.pt2"));
    assert_int_equal(again->origin, EXG_ORIGIN_EARLY);
    assert_int_equal(again->extra_file_count, 1);
    exg_program_destroy(again);
    p->extra_file_count = 0;
    p->graph->nodes[0].target = "torch.ops.aten.sub.Tensor";
    assert_int_equal(exg_save(p, in_folder("d.pt2"), EXG_FORMAT_PT2, NULL, NULL), EXG_OK);
    exg_program_destroy(p);
    again = open_program(in_folder("d.pt2"));
    assert_int_equal(again->origin, EXG_ORIGIN_CURRENT);
    assert_string_equal(again->graph->nodes[0].target, "torch.ops.aten.sub.Tensor");
    assert_string_equal(again->metadata.items[0].key, "exg.early");
    exg_program_destroy(again);
    again = open_program(in_folder("c.pt2"));
    assert_int_equal(again->origin, EXG_ORIGIN_EARLY);
    assert_string_equal(again->name, "m");
    assert_int_equal(again->metadata.count, 0);
    exg_program_destroy(again);
}

/* Every tensor is compared, not the first alone. */
static void it_compares_every_tensor(void **state)
{
    static const char tensor[] = "{\"storage\": " INTERNAL ", \"meta\": " EARLY_META "}";
    char buffers[1024];

    (void)state;
    snprintf(buffers, sizeof(buffers), "\"buffers\": {\"u\": %s, \"v\": %s}}", tensor, tensor);
    for (uint32_t changed = 0; changed < 4; changed++) {
        exg_program *p = made_current(early_json("\"buffers\": {}}", buffers));

        assert_int_equal(p->weights->count, 3);
        if (changed < 3) {
            p->weights->items[changed].meta->device = (exg_device){"cuda", 0};
        }
        assert_int_equal(exg_save(p, in_folder("d.pt2"), EXG_FORMAT_PT2, NULL, NULL), EXG_OK);
        exg_program_destroy(p);
        p = open_program(in_folder("d.pt2"));
        assert_int_equal(p->origin, changed < 3 ? EXG_ORIGIN_CURRENT : EXG_ORIGIN_EARLY);
        exg_program_destroy(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_keeps_the_form),
        cmocka_unit_test(it_keeps_the_order_of_tables),
        cmocka_unit_test(it_keeps_the_form_of_many),
        cmocka_unit_test(it_keeps_names_of_branches),
        cmocka_unit_test(it_keeps_branches_apart_from_tensors),
        cmocka_unit_test(it_leaves_a_form_that_is_none),
        cmocka_unit_test(it_keeps_tensors_that_no_branch_uses),
        cmocka_unit_test(it_keeps_branches_beside_single_operands),
        cmocka_unit_test(it_keeps_external_bytes_beside),
        cmocka_unit_test(it_writes_a_file_of_no_bytes),
        cmocka_unit_test(it_replaces_no_file_beside),
        cmocka_unit_test(it_makes_folders_for_files_beside),
        cmocka_unit_test(it_replaces_no_file_behind_another),
        cmocka_unit_test(it_leaves_no_files_that_nothing_names),
        cmocka_unit_test(it_writes_other_weights_inside),
        cmocka_unit_test(it_looks_at_every_file),
        cmocka_unit_test(it_tells_short_files_from_others),
        cmocka_unit_test(it_compares_every_checksum),
        cmocka_unit_test(it_reads_bytes_inside_and_beside),
        cmocka_unit_test(it_shares_bytes_of_one_dtype_alone),
        cmocka_unit_test(it_compares_the_checksum_of_nothing),
        cmocka_unit_test(it_tells_of_unknown_checksums),
        cmocka_unit_test(it_writes_the_same_bytes_twice),
        cmocka_unit_test(it_reads_devices_without_an_index),
        cmocka_unit_test(it_writes_what_pytorch_loads),
        cmocka_unit_test(it_keeps_the_form_without_bytes),
        cmocka_unit_test(it_sets_apart_keys_that_pytorch_reads),
        cmocka_unit_test(it_sets_apart_stacks_that_pytorch_cannot_read),
        cmocka_unit_test(it_refuses_names_that_no_tensor_has),
        cmocka_unit_test(it_recalls_no_other_program),
        cmocka_unit_test(it_compares_every_tensor),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
