/* weights_split.c - a model in several files, while another save writes them. run_save.py lets
 * processes do it at once. */
#include <exg/formats.h>

#include "tests/export/exg_folder.h"
#include "tests/export/same_tensors.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define SOURCE "fixtures/weights/nested.pt"
#define FIRST  "m-00001-of-00007.safetensors"

static exg_status save(bool resume, exg_error *err)
{
    const exg_weights_save_options options = {
        .size = sizeof(options), .split = 20, .resume = resume};
    exg_weights *weights = NULL;
    exg_status status;

    exg_error_clear(err);
    assert_int_equal(exg_weights_open(SOURCE, NULL, &weights, NULL, err), EXG_OK);
    status = exg_weights_save(weights, in_folder("m.safetensors"), &options, err);
    exg_weights_release(weights);
    return status;
}

/* Whether files were there or not, and whether it goes on or not. */
static void one_save_at_a_time(void **state)
{
    exg_error err;

    (void)state;
    for (int i = 0; i < 4; i++) {
        bool resume = i % 2 == 1;
        int other;

        if (i >= 2) {
            assert_int_equal(save(false, &err), EXG_OK);
        }
        other = open(in_folder(FIRST ".part"), O_RDWR | O_CREAT, 0600);
        assert_int_equal(flock(other, LOCK_EX), 0);
        assert_int_equal(save(resume, &err), EXG_IO);
        assert_string_equal(err.code, "IO-BUSY");
        if (i >= 2) { /* the old one is there */
            assert_same_tensors(in_folder("m.safetensors.index.json"), SOURCE);
        } else {
            assert_int_equal(access(in_folder(FIRST), F_OK), -1);
        }
        close(other);
        assert_int_equal(save(resume, &err), EXG_OK);
        assert_same_tensors(in_folder("m.safetensors.index.json"), SOURCE);
        assert_int_equal(access(in_folder(FIRST ".part"), F_OK), -1);
        empty_folder();
    }
}

/* A part of a model is not replaced by the whole, but all of its parts by others are. */
static void it_keeps_what_it_reads(void **state)
{
    const exg_weights_save_options split = {.size = sizeof(split), .split = 20};
    static const struct {
        const char *out;
        exg_status status;
    } rows[] = {{FIRST, EXG_USAGE}, {"other.safetensors", EXG_OK}, {"m.safetensors", EXG_OK}};
    exg_error err;

    (void)state;
    assert_int_equal(save(false, &err), EXG_OK);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_weights *weights = NULL;

        exg_error_clear(&err);
        assert_int_equal(
            exg_weights_open(in_folder("m.safetensors.index.json"), NULL, &weights, NULL, &err),
            EXG_OK);
        assert_int_equal(exg_weights_save(weights, in_folder(rows[i].out),
                                          strcmp(rows[i].out, "m.safetensors") == 0 ? &split : NULL,
                                          &err),
                         rows[i].status);
        assert_string_equal(err.code, rows[i].status == EXG_OK ? "" : "IO-SOURCE");
        exg_weights_release(weights);
        assert_same_tensors(in_folder("m.safetensors.index.json"), SOURCE);
    }
    empty_folder();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_save_at_a_time),
        cmocka_unit_test(it_keeps_what_it_reads),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
