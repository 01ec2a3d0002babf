/* links.c - files that another one names, where links lie between: in the folder, in a cache of
 * huggingface_hub, and out of both. */
#include "libexport/base/files.h"
#include "tests/export/exg_folder.h"

#include <exg/formats.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const char index_text[] =
    "{\"weight_map\": {\"a\": \"m-1.safetensors\", \"b\": \"m-2.safetensors\"}}";
static const char shard[] =
    "\x37\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}  \1\2";

static const char one_shard[] = "{\"weight_map\": {\"a\": \"s\"}}";

#define REPOSITORY "models--o--m"
#define SNAPSHOT   REPOSITORY "/snapshots/abc"

static void make_link(const char *target, const char *name)
{
    unlink(in_folder(name));
    assert_int_equal(symlink(target, in_folder(name)), 0);
}

static exg_status open_as(const char *name, bool follow_links, exg_error *err)
{
    const exg_open_options options = {.size = sizeof(options), .follow_links = follow_links};
    exg_weights *weights = NULL;
    exg_status status;

    exg_error_clear(err);
    status = exg_weights_open(in_folder(name), &options, &weights, NULL, err);
    exg_weights_release(weights);
    return status;
}

/* As huggingface_hub lays a repository out, and beside it another one and a file of nobody. */
static void make_cache(void)
{
    static const char *const folders[] = {
        REPOSITORY, REPOSITORY "/blobs", REPOSITORY "/refs", REPOSITORY "/snapshots",
        SNAPSHOT,   SNAPSHOT "/part",    "models--o--n",     "models--o--n/blobs",
    };
    char second[sizeof(shard)];

    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        assert_int_equal(mkdir(in_folder(folders[i]), 0700), 0);
    }
    memcpy(second, shard, sizeof(shard));
    second[10] = 'b';
    write_file(REPOSITORY "/blobs/aa", shard, sizeof(shard) - 1);
    write_file(REPOSITORY "/blobs/bb", second, sizeof(shard) - 1);
    write_file(REPOSITORY "/blobs/cc", index_text, sizeof(index_text) - 1);
    write_file(REPOSITORY "/refs/main", second, sizeof(shard) - 1);
    write_file("models--o--n/blobs/bb", second, sizeof(shard) - 1);
    write_file("elsewhere", second, sizeof(shard) - 1);
    make_link("../../blobs/cc", SNAPSHOT "/m.index.json");
    make_link("../../blobs/aa", SNAPSHOT "/m-1.safetensors");
    make_link("../../../blobs/aa", SNAPSHOT "/part/m-1.safetensors");
    make_link("../../../blobs/bb", SNAPSHOT "/part/m-2.safetensors");
    make_link("../../../blobs/cc", SNAPSHOT "/part/m.index.json");
}

static void it_follows_links_into_the_blobs_of_the_repository(void **state)
{
    char elsewhere[4096];
    const struct {
        const char *target;
        exg_status status;
        const char *code, *says;
        exg_status followed;
    } rows[] = {
        {"../../blobs/bb", EXG_OK, "", "", EXG_OK},
        {"../../../" REPOSITORY "/blobs/bb", EXG_OK, "", "", EXG_OK},
        {"part/m-2.safetensors", EXG_OK, "", "", EXG_OK}, /* a link to a link */
        {"../../../models--o--n/blobs/bb", EXG_UNSUPPORTED, "WGT-LINK", "a link out of its folder",
         EXG_OK},
        {"../../refs/main", EXG_UNSUPPORTED, "WGT-LINK", "refs/main", EXG_OK},
        {"../../../elsewhere", EXG_UNSUPPORTED, "WGT-LINK", "elsewhere", EXG_OK},
        {elsewhere, EXG_UNSUPPORTED, "WGT-LINK", "elsewhere", EXG_OK},
        {"../../blobs/dd", EXG_IO, "IO-OPEN", "a link to '../../blobs/dd', where nothing is",
         EXG_IO},
        {"m-2.safetensors", EXG_IO, "IO-OPEN", "leads back to itself", EXG_IO},
        {"../../blobs", EXG_UNSUPPORTED, "WGT-LINK", "blobs", EXG_UNSUPPORTED},
    };
    exg_error err;

    (void)state;
    make_cache();
    snprintf(elsewhere, sizeof(elsewhere), "%s", in_folder("elsewhere"));
    assert_int_equal(open_as(SNAPSHOT "/part/m.index.json", false, &err), EXG_OK);
    assert_int_equal(open_as(SNAPSHOT "/m-1.safetensors", false, &err), EXG_OK);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_status status;

        make_link(rows[i].target, SNAPSHOT "/m-2.safetensors");
        status = open_as(SNAPSHOT "/m.index.json", false, &err);
        if (status != rows[i].status || strcmp(err.code, rows[i].code) != 0 ||
            strstr(err.message, rows[i].says) == NULL || (status != EXG_OK && err.fix[0] == '\0')) {
            fail_msg("%s: %s %s %s", rows[i].target, exg_status_name(status), err.code,
                     err.message);
        }
        assert_int_equal(open_as(SNAPSHOT "/m.index.json", true, &err), rows[i].followed);
    }
}

/* The same links beside a folder that is no snapshot lead out of it. */
static void it_keeps_other_folders_to_themselves(void **state)
{
    static const char *const folders[] = {"snapshots", "snapshots/abc", "models--x",
                                          "models--x/abc"};
    exg_error err;

    (void)state;
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        assert_int_equal(mkdir(in_folder(folders[i]), 0700), 0);
    }
    assert_int_equal(mkdir(in_folder("blobs"), 0700), 0);
    assert_int_equal(mkdir(in_folder("models--x/blobs"), 0700), 0);
    write_file("blobs/bb", shard, sizeof(shard) - 1);
    write_file("models--x/blobs/bb", shard, sizeof(shard) - 1);
    write_file("snapshots/abc/x.index.json", one_shard, strlen(one_shard));
    write_file("models--x/abc/x.index.json", one_shard, strlen(one_shard));
    make_link("../../blobs/bb", "snapshots/abc/s");
    make_link("../blobs/bb", "models--x/abc/s");
    assert_int_equal(open_as("snapshots/abc/x.index.json", false, &err), EXG_UNSUPPORTED);
    assert_string_equal(err.code, "WGT-LINK");
    assert_int_equal(open_as("models--x/abc/x.index.json", false, &err), EXG_UNSUPPORTED);
    assert_int_equal(open_as("models--x/abc/x.index.json", true, &err), EXG_OK);
}

/* A file that the user names may be any link; one that leads nowhere is told as a link. */
static void it_says_what_a_link_is(void **state)
{
    exg_error err;

    (void)state;
    make_link("gone", "dangling");
    make_link("self", "self");
    make_link("pong", "ping");
    make_link("ping", "pong");
    assert_int_equal(open_as("dangling", false, &err), EXG_IO);
    assert_non_null(strstr(err.message, "a link to 'gone', where nothing is"));
    assert_int_equal(open_as("self", false, &err), EXG_IO);
    assert_non_null(strstr(err.message, "back to itself"));
    assert_int_equal(open_as("ping", false, &err), EXG_IO);
    assert_non_null(strstr(err.message, "back to itself"));
    assert_int_equal(open_as("nothing", false, &err), EXG_IO);
    assert_null(strstr(err.message, "link"));
}

/* ---- out ---------------------------------------------------------------------------------------
 */

static bool is_link(const char *name)
{
    struct stat st;

    return lstat(in_folder(name), &st) == 0 && S_ISLNK(st.st_mode);
}

static exg_status save_as(const char *name, bool resume, exg_error *err)
{
    const exg_weights_save_options options = {.size = sizeof(options), .resume = resume};
    exg_weights *weights = NULL;
    exg_status status;

    exg_error_clear(err);
    assert_int_equal(exg_weights_open("fixtures/mlp.inputs.safetensors", NULL, &weights, NULL, err),
                     EXG_OK);
    status = exg_weights_save(weights, in_folder(name), &options, err);
    exg_weights_release(weights);
    return status;
}

/* Whatever is written: the link stays, what it leads to is new; nothing is left beside either. */
static void it_writes_through_links(void **state)
{
    static const char *const ends[] = {"w.safetensors", "w.gguf", "w.npz", "w.pt", "w.exg"};
    exg_error err;

    (void)state;
    for (size_t i = 0; i < 4 * sizeof(ends) / sizeof(ends[0]); i++) {
        bool there = i % 2 == 0;
        exg_status status;

        assert_int_equal(mkdir(in_folder("to"), 0700), 0);
        if (there) {
            write_file("to/file", "old", 3);
        }
        make_link("middle", ends[i / 4]);
        make_link("to/file", "middle");
        status = save_as(ends[i / 4], i % 4 < 2, &err);
        if (status != EXG_OK) {
            fail_msg("%s: %s %s", ends[i / 4], err.code, err.message);
        }
        assert_true(is_link(ends[i / 4]) && is_link("middle") && !is_link("to/file"));
        assert_int_equal(open_as("to/file", false, &err), EXG_OK);
        assert_int_equal(unlink(in_folder("to/file")), 0);
        assert_int_equal(rmdir(in_folder("to")), 0); /* nothing else is in it */
        assert_int_equal(empty_folder(), 2);
    }
}

static void a_program_is_written_through_links(void **state)
{
    static const exg_format formats[] = {EXG_FORMAT_EXG, EXG_FORMAT_PT2, EXG_FORMAT_EARLY_JSON};
    const exg_save_options options = {.size = sizeof(options), .weights = EXG_WEIGHTS_INTERNAL};
    exg_program *program = NULL;
    exg_error err;

    (void)state;
    exg_error_clear(&err);
    assert_int_equal(exg_open("fixtures/mlp.pt2", NULL, &program, NULL, &err), EXG_OK);
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        exg_program *again = NULL;

        make_link("file", "link");
        assert_int_equal(exg_save(program, in_folder("link"), formats[i], &options, &err), EXG_OK);
        assert_true(is_link("link") && !is_link("file"));
        assert_int_equal(exg_open(in_folder("file"), NULL, &again, NULL, &err), EXG_OK);
        exg_program_destroy(again);
        empty_folder();
    }
    exg_program_destroy(program);
}

static void a_link_that_leads_nowhere_is_no_output(void **state)
{
    static const char *const targets[] = {"none/file", "w.safetensors", "/nosuch/file"};
    exg_error err;

    (void)state;
    for (size_t i = 0; i < 2 * sizeof(targets) / sizeof(targets[0]); i++) {
        make_link(targets[i / 2], "w.safetensors");
        assert_int_equal(save_as("w.safetensors", i % 2 == 0, &err), EXG_IO);
        assert_string_equal(err.code, "IO-LINK");
        assert_int_equal(empty_folder(), 1);
    }
    make_link("/dev/null", "w.safetensors");
    assert_int_equal(save_as("w.safetensors", false, &err), EXG_USAGE);
    assert_string_equal(err.code, "IO-KIND");
    empty_folder();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_follows_links_into_the_blobs_of_the_repository,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(it_keeps_other_folders_to_themselves, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(it_says_what_a_link_is, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(it_writes_through_links, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_program_is_written_through_links, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_link_that_leads_nowhere_is_no_output, make_folder,
                                        remove_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
