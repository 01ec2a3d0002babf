/* pt2_save.c - .pt2 written: what was read comes out again; what cannot be said is refused.
 * That PyTorch loads it is asked in tests/interop. */
#include "tests/export/exg_folder.h"

#include <exg/operators.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const char *const files[] = {"fixtures/mlp.pt2",
                                    "fixtures/mlp.layout-2.2.pt2",
                                    "fixtures/mlp.layout-2.8.pt2",
                                    "fixtures/tied.pt2",
                                    "fixtures/views.pt2",
                                    "fixtures/constants.core.pt2",
                                    "fixtures/mutate.core.pt2",
                                    "fixtures/lm.core.dynamic.pt2",
                                    "tests/export/data/control.pt2",
                                    "tests/export/data/symbols.pt2",
                                    "tests/export/data/kinds.pt2",
                                    "tests/export/data/protocol4.pt2"};

/* S002-111: and the same bytes a second time. */
static void it_writes_what_it_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        exg_program *before = open_program(files[i]);
        exg_program *after;
        char difference[256];

        assert_int_equal(exg_save(before, in_folder("a.pt2"), EXG_FORMAT_PT2, NULL, NULL), EXG_OK);
        after = open_program(in_folder("a.pt2"));
        if (!exg_program_equal(before, after, true, difference)) {
            fail_msg("%s: %s", files[i], difference);
        }
        assert_int_equal(rename(in_folder("a.pt2"), in_folder("first")), 0);
        assert_int_equal(exg_save(after, in_folder("a.pt2"), EXG_FORMAT_PT2, NULL, NULL), EXG_OK);
        assert_files_equal("first", "a.pt2");
        exg_program_destroy(before);
        exg_program_destroy(after);
    }
}

/* All programs of an archive, as PyTorch packed them: each is what it was, and so are the records
 * by name. */
static void it_writes_several_programs(void **state)
{
    static const char *const names[] = {"scale", "model", "other"};
    const exg_program *all[3];
    exg_program *before[3];
    exg_open_options options = {.size = sizeof(options)};
    exg_file_info *info = NULL;
    exg_error err;

    (void)state;
    assert_int_equal(exg_file_describe("fixtures/archives/several.pt2", NULL, &info, &err), EXG_OK);
    assert_int_equal(info->program_count, 3);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(info->program_names[i], names[i]);
        options.program = names[i];
        assert_int_equal(
            exg_open("fixtures/archives/several.pt2", &options, &before[i], NULL, &err), EXG_OK);
        all[i] = before[i];
    }
    exg_file_info_free(info);
    assert_int_equal(exg_save_programs(all, 3, in_folder("a.pt2"), EXG_FORMAT_PT2, NULL, &err),
                     EXG_OK);
    for (int i = 0; i < 3; i++) {
        exg_program *after;
        char difference[256];

        options.program = names[i];
        assert_int_equal(exg_open(in_folder("a.pt2"), &options, &after, &info, &err), EXG_OK);
        assert_int_equal(info->program_count, 3);
        if (!exg_program_equal(before[i], after, true, difference)) {
            fail_msg("%s: %s", names[i], difference);
        }
        exg_file_info_free(info);
        exg_program_destroy(after);
    }
    empty_folder();
    assert_int_equal(exg_save_programs(all, 3, in_folder("a.exg"), EXG_FORMAT_EXG, NULL, &err),
                     EXG_UNSUPPORTED);
    assert_string_equal(err.code, "FMT-SEVERAL");
    all[2] = all[1]; /* one name twice */
    assert_int_equal(exg_save_programs(all, 3, in_folder("a.pt2"), EXG_FORMAT_PT2, NULL, &err),
                     EXG_MALFORMED);
    assert_string_equal(err.code, "ARC-009");
    assert_int_equal(empty_folder(), 0);
    for (int i = 0; i < 3; i++) {
        exg_program_destroy(before[i]);
    }
}

/* Bytes of records begin at multiples of 64 (reference 2.1). */
static void it_aligns_records(void **state)
{
    exg_program *program = open_program("fixtures/mlp.pt2");
    size_t length;
    uint8_t *data;
    uint32_t seen = 0;

    (void)state;
    assert_int_equal(exg_save(program, in_folder("a.pt2"), EXG_FORMAT_PT2, NULL, NULL), EXG_OK);
    data = read_file("a.pt2", &length);
    for (size_t at = 0; at + 30 < length && memcmp(data + at, "PK\3\4", 4) == 0; seen++) {
        size_t begin =
            at + 30 + data[at + 26] + data[at + 27] * 256u + data[at + 28] + data[at + 29] * 256u;
        uint32_t bytes;

        assert_int_equal(begin % 64, 0);
        memcpy(&bytes, data + at + 18, sizeof(bytes));
        at = begin + bytes;
    }
    assert_int_equal(seen, 12);
    free(data);
    exg_program_destroy(program);
}

/* S004-05: a symbolic bool in the signature; options that only .exg has. */
static void it_refuses_what_it_cannot_say(void **state)
{
    exg_save_options compress = {.size = sizeof(compress), .compression = EXG_COMPRESSION_ZSTD};
    exg_save_options beside = {.size = sizeof(beside), .weights = EXG_WEIGHTS_EXTERNAL};
    exg_program *program = open_program("fixtures/mlp.pt2");
    exg_program *copy = NULL;
    exg_error err;

    (void)state;
    empty_folder();
    assert_int_equal(exg_save(program, in_folder("x.pt2"), EXG_FORMAT_PT2, &compress, &err),
                     EXG_UNSUPPORTED);
    assert_string_equal(err.code, "PT2-003");
    assert_int_equal(exg_save(program, in_folder("x.pt2"), EXG_FORMAT_PT2, &beside, &err),
                     EXG_UNSUPPORTED);
    assert_int_equal(exg_program_copy(program, &copy, NULL), EXG_OK);
    copy->signature.outputs[0].arg.kind = EXG_ARGUMENT_SYM_BOOL;
    assert_int_equal(exg_save(copy, in_folder("x.pt2"), EXG_FORMAT_PT2, NULL, &err),
                     EXG_UNSUPPORTED);
    assert_string_equal(err.code, "PT2-001");
    assert_string_equal(err.where, "signature.output_specs[0]");
    assert_int_equal(empty_folder(), 0); /* nothing is left of it */
    exg_program_destroy(copy);
    exg_program_destroy(program);
}

/* Saves the program for a release; gives the fault's code, or "". */
static const char *save_for(const exg_program *program, const char *release, exg_error *err)
{
    const exg_save_options options = {.size = sizeof(options), .release = release};

    return exg_save(program, in_folder("r.pt2"), EXG_FORMAT_PT2, &options, err) == EXG_OK
               ? ""
               : err->code;
}

static void it_writes_for_older_releases(void **state)
{
    exg_program *program = open_program("fixtures/mlp.pt2");
    exg_argument *arg = &program->graph->nodes[0].inputs[0].arg;
    const exg_argument kept = *arg;
    exg_program *back;
    exg_error err;

    (void)state;
    assert_string_equal(save_for(program, "2.9.1+cpu", &err), "");
    back = open_program(in_folder("r.pt2"));
    assert_int_equal(back->schema_minor, 14);
    back->schema_minor = program->schema_minor; /* all else is as it was */
    assert_true(exg_program_equal(program, back, true, NULL));
    exg_program_destroy(back);
    assert_string_equal(save_for(program, "2.14", &err), "");
    assert_string_equal(save_for(program, "2.8", &err), "PT2-005");
    assert_string_equal(save_for(program, "3.0", &err), "CLI-001");
    assert_string_equal(save_for(program, "2.1", &err), "PT2-005"); /* 2.10, 2.11 begin so */
    *arg = (exg_argument){.kind = EXG_ARGUMENT_FLOAT_LISTS};
    assert_string_equal(save_for(program, "2.11", &err), "PT2-006");
    assert_string_equal(err.fix, "write it for 2.12 or later");
    assert_string_equal(save_for(program, "2.12", &err), "");
    *arg = (exg_argument){.kind = EXG_ARGUMENT_INT_LISTS};
    assert_string_equal(save_for(program, "2.9", &err), "PT2-006");
    assert_string_equal(save_for(program, "2.10", &err), "");
    *arg = kept;
    program->graph->values[0].tensor->dtype = EXG_DTYPE_U64;
    assert_string_equal(save_for(program, "2.11", &err), "PT2-006");
    assert_string_equal(save_for(program, "2.12", &err), "");
    exg_program_destroy(program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_writes_for_older_releases),  cmocka_unit_test(it_writes_what_it_read),
        cmocka_unit_test(it_writes_several_programs),    cmocka_unit_test(it_aligns_records),
        cmocka_unit_test(it_refuses_what_it_cannot_say),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
